// Packed sequences: (data [rows, ..], layout), one managed value.
//
//   %L = packed_layout %lengths {time=time, rows=rows} : layout[batch,time,rows]
//   %d = pack %x, %L : f32[rows,12]
#include "frontend/fe.h"

static tn_packed poisoned(tn_function *f) { return (tn_packed){fe_poison(f), fe_poison(f)}; }

// A name of its own for the number of rows of each layout whose lengths come at run time: rows, rows_2, rows_3, ..
static Dim new_rows(tn_program *p, int64_t bound) {
  const char *name = "rows";
  for (uint32_t k = 2; ir_dim_find(p->ir, name).i; k++) name = rt_printf(p->mem, "rows_%u", k);
  Dim rows = ir_dim_sym(p->ir, name, bound);
  *RT_PUSH(p->mem, p->rows, p->n_rows, p->cap_rows) = rows;
  return rows;
}

static bool check_padded(tn_tensor x, tn_site at) {
  if (fe_ins(x)->dtype != DT_LAYOUT && fe_rank(x) >= 2) return true;
  fe_error(x.fn->p, E_SHAPE, at, "packing takes a value with batch and time axes, found %u axes", fe_rank(x));
  return false;
}

static tn_packed pack(tn_tensor x, tn_tensor layout, bool time_major, tn_site at) {
  Attr attr = ir_a_int(KEY_time_major, 1);
  tn_tensor data = fe_emit(OP_pack, (const tn_tensor[]){x, layout}, 2, &attr, time_major, at);
  return fe_ok(data) ? (tn_packed){data, layout} : poisoned(x.fn);
}

tn_packed tn_pack_padded_at(tn_tensor x, tn_tensor lengths, const tn_pack_options *o, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){x, lengths}, 2, &f, at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  bool time_major = o && !o->batch_first;
  if (!check_padded(x, at)) return poisoned(f);
  if (fe_ins(lengths)->dtype != DT_I64 || fe_rank(lengths) != 1) {
    fe_error(f->p, fe_rank(lengths) == 1 ? E_DTYPE : E_SHAPE, at, "lengths are an i64 value with one axis");
    return poisoned(f);
  }
  Dim batch = fe_axis_dim(x, time_major), time = fe_axis_dim(x, !time_major);
  if (fe_axis_dim(lengths, 0).i != batch.i) {
    fe_error(f->p, E_LENGTH_COUNT, at, "the number of lengths is not the batch of the packed value");
    return poisoned(f);
  }
  Dim rows = new_rows(f->p, ir_dim_bound(f->p->ir, ir_dim_mul(f->p->ir, batch, time)));
  Attr attrs[] = {ir_a_dim(KEY_time, time), ir_a_dim(KEY_rows, rows), ir_a_int(KEY_sorted, 1)};
  tn_tensor layout = fe_emit(OP_packed_layout, &lengths, 1, attrs, o && o->enforce_sorted ? 3 : 2, at);
  return fe_ok(layout) ? pack(x, layout, time_major, at) : poisoned(f);
}

// Constant lengths are judged here, as run-time lengths are before a run.
static bool check_lengths(tn_program *p, const int64_t *lengths, uint32_t n, int64_t time, bool sorted, tn_site at) {
  for (uint32_t k = 0; k < n; k++) {
    if (lengths[k] < 1 || lengths[k] > time) {
      fe_error(p, E_LENGTH_RANGE, at, "length %lld at index %u is not in [1, %lld]", (long long)lengths[k], k,
               (long long)time);
      return false;
    }
    if (sorted && k && lengths[k] > lengths[k - 1]) {
      fe_error(p, E_NOT_SORTED, at, "length %lld at index %u is longer than the one before it, and sorting is enforced",
               (long long)lengths[k], k);
      return false;
    }
  }
  return true;
}

tn_packed tn_pack_constant_at(tn_tensor x, const int64_t *lengths, uint32_t n, const tn_pack_options *o, tn_site at) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  Prog *ir = f->p->ir;
  bool time_major = o && !o->batch_first;
  if (!check_padded(x, at)) return poisoned(f);
  Dim batch = fe_axis_dim(x, time_major), time = fe_axis_dim(x, !time_major);
  if (!lengths || !ir_dim_is_const(ir, batch) || ir_dim_bound(ir, batch) != n) {
    fe_error(f->p, E_LENGTH_COUNT, at, "%u constant lengths are given for a batch of %s%lld", lengths ? n : 0,
             ir_dim_is_const(ir, batch) ? "" : "up to ", (long long)ir_dim_bound(ir, batch));
    return poisoned(f);
  }
  if (!ir_dim_is_const(ir, time)) {  // a run with fewer steps than a length would be read out of bounds
    fe_error(f->p, E_ARGUMENT, at, "constant lengths need a time axis of constant size");
    return poisoned(f);
  }
  if (!check_lengths(f->p, lengths, n, ir_dim_bound(ir, time), o && o->enforce_sorted, at)) return poisoned(f);
  int64_t rows = 0;
  for (uint32_t k = 0; k < n; k++) rows += lengths[k];
  Attr attrs[] = {ir_a_dim(KEY_time, time), ir_a_dim(KEY_rows, ir_dim(ir, rows)),
                  ir_a_list(KEY_lengths, ir_shape_ints(ir, lengths, n))};
  Val layout = ir_emit(f->ir, OP_packed_layout, NULL, 0, attrs, 3, fe_loc(f->p, at));
  return ir_none(layout) ? poisoned(f) : pack(x, (tn_tensor){f, layout.i}, time_major, at);
}

tn_tensor tn_pad_packed_at(tn_packed s, double value, bool batch_first, tn_site at) {
  Attr attrs[] = {ir_a_num(KEY_value, value), ir_a_int(KEY_time_major, 1)};
  return fe_emit(OP_pad, (const tn_tensor[]){s.data, s.layout}, 2, attrs, batch_first ? 1 : 2, at);
}

tn_packed tn_packed_with_data_at(tn_packed s, tn_tensor data, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){s.data, s.layout, data}, 3, &f, at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  bool fits = fe_rank(data) >= 1 && fe_ins(s.layout)->dtype == DT_LAYOUT &&
              fe_axis_dim(data, 0).i == ir_dim_at(f->p->ir, fe_shape_of(s.layout), 2).i;
  if (fits) return (tn_packed){data, s.layout};
  fe_error(f->p, E_SHAPE, at, "the first axis of packed data must be the rows of its layout");
  return poisoned(f);
}
