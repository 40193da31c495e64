// Packed sequences: (data [rows, ..], layout), one managed value.
//
//   %L = packed_layout %lengths {time=time, rows=rows} : layout[batch,time,rows]
//   %d = pack_padded %x, %L : f32[rows,12]
#include "frontend/packed/packed.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "ir/fn.h"
#include "ir/storage.h"
#include "runtime/near.h"

enum { MOST_NUMBERS = 4096 };  // that tn_constant_i64 takes

// A name of its own for the number of rows of each layout whose lengths come at run time: rows, rows_2, rows_3, ..
static Dim new_rows(tn_program *p, int64_t bound) {
  const char *name = "rows";
  for (uint32_t k = 2; ir_dim_find(p->ir, name).i; k++) name = rt_printf(p->mem, "rows_%u", k);
  Dim rows = ir_dim_sym(p->ir, name, bound);
  *RT_PUSH(p->mem, p->rows, p->n_rows, p->cap_rows) = rows;
  return rows;
}

// Where the sequences come from, after an error about their lengths.
static void note_padded(tn_tensor x, const char *hint) {
  fe_note_value(x, "the value to pack");
  fe_hint(x.fn->p, "%s", hint);
}

bool fe_check_padded(tn_tensor x, tn_site at) {
  if (fe_ins(x)->dtype != DT_LAYOUT && fe_rank(x) >= 2) return true;
  fe_error(x.fn->p, E_SHAPE, at, "packing takes a value with batch and time axes, found %u axes", fe_rank(x));
  fe_note_value(x, "the value");
  return false;
}

// An op that moves rows moves words of 32 bits: what is narrower goes as one of them.
static DType word_of(DType t) { return (U8 | BOOL) >> t & 1 ? DT_I32 : (F16 | BF16) >> t & 1 ? DT_F32 : t; }

tn_tensor fe_move_rows(Op op, tn_tensor x, tn_tensor layout, const Attr *attrs, uint32_t n, tn_site at) {
  Attr own[3];
  if (!fe_ok(x) || !fe_ok(layout)) return fe_poison(x.fn);
  DType t = (DType)fe_ins(x)->dtype;
  for (uint32_t k = 0; k < n; k++) {
    own[k] = attrs[k];
    if (own[k].key != KEY_value || t == DT_LAYOUT) continue;
    if (!fe_fits_number(x.fn, &own[k].u.f, t, at)) return fe_poison(x.fn);
    if (t == DT_BOOL) own[k].u.f = own[k].u.f != 0;
  }
  tn_tensor y = fe_emit(op, (const tn_tensor[]){fe_cast(x, word_of(t), at), layout}, 2, own, n, at);
  return fe_ok(y) ? fe_cast(y, t, at) : y;
}

static tn_packed pack(tn_tensor x, tn_tensor layout, bool time_major, tn_site at) {
  Attr attr = ir_a_int(KEY_time_major, 1);
  tn_tensor data = fe_move_rows(OP_pack_padded, x, layout, &attr, time_major, at);
  return fe_ok(data) ? (tn_packed){data, layout} : fe_poisoned_packed(x.fn);
}

static tn_packed made(tn_tensor x, tn_tensor layout, const tn_pack_options *o) {
  if (!fe_ok(layout)) return fe_poisoned_packed(x.fn);
  return fe_made_packed(pack(x, layout, o->time_major, o->at), o->enforce_sorted, o->at);
}

static bool same_flag(const Fn *f, Val v, Key key, bool on) { return (ir_attr(f, v, key) != NULL) == on; }

bool fe_written_since(tn_tensor v, uint32_t from) {
  const Fn *f = v.fn->ir;
  Val storage = ir_written_storage(f, fe_val(v));
  for (uint32_t i = from + 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_write && ir_written_storage(f, ir_arg(f, (Val){i}, 0)).i == storage.i) return true;
  return false;
}

static int64_t rows_bound(Prog *p, Dim batch, Dim time, const tn_pack_options *o) {
  int64_t all = ir_dim_bound(p, ir_dim_mul(p, batch, time));
  return o->max_rows && o->max_rows < all ? o->max_rows : all;
}

// Has it room for as many rows, or is none asked for?
static bool has_bound(const Fn *f, Val layout, const tn_pack_options *o) {
  Shape s = f->ins[layout.i].shape;
  int64_t own = ir_dim_bound(f->prog, ir_dim_at(f->prog, s, 2));
  return !o->max_rows || own == rows_bound(f->prog, ir_dim_at(f->prog, s, 0), ir_dim_at(f->prog, s, 1), o);
}

static Dim total_of(const Fn *f, Val layout) {
  const Attr *total = ir_attr(f, layout, KEY_total);
  return total ? total->u.dim : (Dim){0};
}

// The layout that was made of these very lengths before, and that no write to them came after; none: NULL handle.
// Values packed by the same lengths thereby have the same rows. total: what the lengths sum to; none: any sum
static tn_tensor known_layout(tn_tensor lengths, Dim time, Dim total, const tn_pack_options *o) {
  const Fn *f = lengths.fn->ir;
  Val from = fe_val(lengths);
  for (uint32_t i = f->n_ins - 1; i > from.i; i--) {
    const Ins *ins = &f->ins[i];
    if (ins->op != OP_packed_layout || !ins->n_args || ir_arg(f, (Val){i}, 0).i != from.i) continue;
    if (ir_attr(f, (Val){i}, KEY_time)->u.dim.i != time.i || total_of(f, (Val){i}).i != total.i) continue;
    if (!has_bound(f, (Val){i}, o)) continue;
    if (same_flag(f, (Val){i}, KEY_sorted, o->enforce_sorted) && same_flag(f, (Val){i}, KEY_empty, o->allow_empty))
      return fe_written_since(lengths, i) ? fe_poison(lengths.fn) : (tn_tensor){lengths.fn, i};
  }
  return fe_poison(lengths.fn);
}

static tn_tensor run_layout(tn_tensor lengths, Dim batch, Dim time, Dim total, const tn_pack_options *o) {
  tn_program *p = lengths.fn->p;
  Dim rows = new_rows(p, rows_bound(p->ir, batch, time, o));
  Attr attrs[5] = {ir_a_dim(KEY_time, time), ir_a_dim(KEY_rows, rows)};
  uint32_t n_attrs = 2;
  if (o->enforce_sorted) attrs[n_attrs++] = ir_a_int(KEY_sorted, 1);
  if (o->allow_empty) attrs[n_attrs++] = ir_a_int(KEY_empty, 1);
  if (total.i) attrs[n_attrs++] = ir_a_dim(KEY_total, total);
  return fe_emit(OP_packed_layout, &lengths, 1, attrs, n_attrs, o->at);
}

tn_tensor fe_run_layout(tn_tensor lengths, Dim batch, Dim time, const tn_pack_options *o) {
  return run_layout(lengths, batch, time, (Dim){0}, o);
}

// Layouts belong to the function: several packed values may share one, and each ends with its data.
static tn_tensor layout_of(tn_tensor lengths, Dim time, Dim total, const tn_pack_options *o) {
  tn_tensor layout = known_layout(lengths, time, total, o);
  if (fe_ok(layout)) return layout;
  return fe_keep(run_layout(lengths, fe_axis_dim(lengths, 0), time, total, o), o->at);
}

tn_packed fe_pack_by(tn_tensor x, tn_tensor lengths, const tn_pack_options *o) {
  return made(x, layout_of(lengths, fe_axis_dim(x, !o->time_major), (Dim){0}, o), o);
}

static bool check_max_rows(tn_program *p, const tn_pack_options *o) {
  if (o->max_length) {
    fe_error(p, E_ARGUMENT, o->at,
             "max_length is for tn_pack_rows: these sequences have an axis of time, which bounds them");
    return false;
  }
  if (o->max_rows >= 0) return true;
  fe_error(p, E_ARGUMENT, o->at, "max_rows is %lld: it is a number of rows, or 0", (long long)o->max_rows);
  return false;
}

// Constant lengths are judged here, as run-time lengths are before a run.
static bool check_lengths(tn_tensor x, const int64_t *lengths, uint32_t n, int64_t time, const tn_pack_options *o) {
  tn_program *p = x.fn->p;
  int least = o->allow_empty ? 0 : 1;
  int64_t rows = 0;
  for (uint32_t k = 0; k < n; k++) {
    if (lengths[k] < least || lengths[k] > time) {
      fe_error(p, E_LENGTH_RANGE, o->at, "length %lld at index %u is not in [%d, %lld]", (long long)lengths[k], k,
               least, (long long)time);
      note_padded(x, lengths[k] ? "a length counts the steps of one sequence"
                                : "leave empty sequences out of the batch, or set allow_empty");
      return false;
    }
    if (o->enforce_sorted && k && lengths[k] > lengths[k - 1]) {
      fe_error(p, E_NOT_SORTED, o->at,
               "length %lld at index %u is longer than the one before it, and sorting is enforced",
               (long long)lengths[k], k);
      note_padded(x, "enforce_sorted = false sorts while packing, and gives results in the order of the input");
      return false;
    }
    rows += lengths[k];
  }
  if (!o->max_rows || rows <= o->max_rows) return true;
  fe_error(p, E_LENGTH_RANGE, o->at, "the lengths sum to %lld, and max_rows is %lld", (long long)rows,
           (long long)o->max_rows);
  note_padded(x, "max_rows is the most that any batch has");
  return false;
}

static bool numbers_of_table(const Fn *f, Val v, int64_t *out, uint32_t *n, uint32_t most) {
  int64_t size = ir_shape_bound(f->prog, f->ins[v.i].shape);
  if (f->ins[v.i].dtype != DT_I64 || size > most - *n) return false;
  ir_fill_table(f, v, out + *n);
  *n += (uint32_t)size;
  return true;
}

// The numbers of a value that tn_constant_i64 gave, appended to out; false: it is another value, or was written since.
static bool numbers_of(const Fn *f, Val v, int64_t *out, uint32_t *n, uint32_t most) {
  const Ins *ins = &f->ins[v.i];
  if (ins->op == OP_table) return numbers_of_table(f, v, out, n, most);
  bool is_full = ins->op == OP_full, good = ins->op == OP_const || is_full;
  if (ins->op == OP_cast || ins->op == OP_reshape) return numbers_of(f, ir_arg(f, v, 0), out, n, most);
  for (uint32_t k = 0; ins->op == OP_concat && k < ins->n_args; k++)
    if (!numbers_of(f, ir_arg(f, v, k), out, n, most)) return false;
  int64_t size = good && ir_shape_is_const(f->prog, ins->shape) ? ir_shape_bound(f->prog, ins->shape) : 0;
  for (int64_t k = 0; k < size; k++) {
    if (*n == most) return false;
    out[(*n)++] = (int64_t)ir_attr_num(f, v, KEY_value, 0);
  }
  return good || ins->op == OP_concat;
}

// Lengths that are numbers of the program are known now. NULL: they are others
static const int64_t *known_numbers(tn_tensor lengths, uint32_t *n) {
  const Fn *f = lengths.fn->ir;
  Dim batch = fe_axis_dim(lengths, 0);
  *n = 0;
  if (!ir_dim_is_const(f->prog, batch)) return NULL;
  uint32_t count = (uint32_t)ir_dim_bound(f->prog, batch);
  if (count > MOST_NUMBERS) return NULL;
  int64_t *known = rt_alloc(f->prog->mem, (count + 1) * sizeof *known);
  if (!numbers_of(f, fe_val(lengths), known, n, count) || *n != count) return NULL;
  return fe_written_since(lengths, lengths.v) ? NULL : known;
}

static bool check_numbers(tn_tensor x, tn_tensor lengths, int64_t time, const tn_pack_options *o) {
  uint32_t n;
  const int64_t *known = known_numbers(lengths, &n);
  return !known || check_lengths(x, known, n, time, o);
}

// Are lengths a list of whole numbers? false: reported
static bool check_list(tn_tensor lengths, tn_site at) {
  if (fe_ins(lengths)->dtype == DT_I64 && fe_rank(lengths) == 1) return true;
  fe_error(lengths.fn->p, fe_rank(lengths) == 1 ? E_DTYPE : E_SHAPE, at, "lengths are an i64 value with one axis");
  fe_note_value(lengths, "the value");
  return false;
}

tn_packed tn_pack_padded(tn_tensor x, tn_tensor lengths, tn_pack_options o) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){x, lengths}, 2, &f, o.at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  bool time_major = o.time_major;
  if (!fe_check_padded(x, o.at) || !check_max_rows(f->p, &o)) return fe_poisoned_packed(f);
  if (!check_list(lengths, o.at)) return fe_poisoned_packed(f);
  if (!check_numbers(x, lengths, ir_dim_bound(f->p->ir, fe_axis_dim(x, !time_major)), &o)) return fe_poisoned_packed(f);
  if (fe_axis_dim(lengths, 0).i == fe_axis_dim(x, time_major).i) return fe_pack_by(x, lengths, &o);
  fe_error(f->p, E_LENGTH_COUNT, o.at, "the number of lengths is not the batch of the packed value");
  fe_note_value(lengths, "the list of lengths");
  note_padded(x, "one length for each sequence: both axes are the same tn_dim");
  return fe_poisoned_packed(f);
}

static bool check_rows_options(tn_tensor x, const tn_pack_options *o) {
  tn_program *p = x.fn->p;
  if (o->max_length < 0)
    fe_error(p, E_ARGUMENT, o->at, "max_length is %lld: it is a number of steps, or 0", (long long)o->max_length);
  else if (o->time_major) fe_error(p, E_ARGUMENT, o->at, "time_major is for padded values: rows have no axis of time");
  else if (o->max_rows)
    fe_error(p, E_ARGUMENT, o->at, "max_rows is for padded values: these rows have the bound of their axis");
  else return true;
  fe_note_value(x, "the value to pack");
  return false;
}

// Of lengths and rows that are known now
static bool check_total(tn_tensor x, tn_tensor lengths, tn_site at) {
  tn_program *p = x.fn->p;
  uint32_t n;
  const int64_t *known = known_numbers(lengths, &n);
  Dim total = fe_axis_dim(x, 0);
  if (!known || !ir_dim_is_const(p->ir, total)) return true;
  int64_t rows = 0;
  for (uint32_t k = 0; k < n; k++) rows += known[k];
  if (rows == ir_dim_bound(p->ir, total)) return true;
  fe_error(p, E_LENGTH_RANGE, at, "the lengths sum to %lld, and there are %lld rows", (long long)rows,
           (long long)ir_dim_bound(p->ir, total));
  fe_note_value(x, "the value to pack");
  fe_note_value(lengths, "the list of lengths");
  return false;
}

static bool check_rows(tn_tensor x, tn_site at) {
  tn_program *p = x.fn->p;
  if (fe_ins(x)->dtype == DT_LAYOUT || fe_rank(x) < 1)
    fe_error(p, E_SHAPE, at, "packing takes rows, one sequence behind the other, found no axis of them");
  else if (fe_is_found_in_run(p, fe_axis_dim(x, 0)))
    fe_error(p, E_ARGUMENT, at,
             "the number of these rows is found by the run: lengths cannot be compared with it before");
  else if (fe_rows_of(x)) {
    fe_error(p, E_ARGUMENT, at, "these rows are those of sequences that are packed already");
    fe_note_value(x, "the value to pack");
    fe_hint(p, "tn_packed_with_data puts them on their layout; tn_rows says that they are just rows");
    return false;
  } else return true;
  fe_note_value(x, "the value to pack");
  return false;
}

tn_packed tn_pack_rows(tn_tensor x, tn_tensor lengths, tn_pack_options o) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){x, lengths}, 2, &f, o.at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (!check_rows(x, o.at) || !check_rows_options(x, &o) || !check_list(lengths, o.at)) return fe_poisoned_packed(f);
  Dim total = fe_axis_dim(x, 0);
  int64_t bound = ir_dim_bound(f->p->ir, total), longest = o.max_length && o.max_length < bound ? o.max_length : bound;
  Dim time = ir_dim(f->p->ir, longest);
  if (!check_numbers(x, lengths, longest, &o) || !check_total(x, lengths, o.at)) return fe_poisoned_packed(f);
  o.max_rows = bound;
  tn_tensor layout = layout_of(lengths, time, total, &o);
  if (!fe_ok(layout)) return fe_poisoned_packed(f);
  tn_tensor data = fe_move_rows(OP_seq_from_list, x, layout, NULL, 0, o.at);
  return fe_ok(data) ? fe_made_packed((tn_packed){data, layout}, o.enforce_sorted, o.at) : fe_poisoned_packed(f);
}

tn_packed tn_pack_like(tn_tensor x, tn_packed like, bool batch_first, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){x, like.data, like.layout}, 3, &f, at)) return fe_poisoned_packed(f);
  if (!fe_join_packed(&like, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (!fe_check_padded(x, at)) return fe_poisoned_packed(f);
  return fe_made_packed(pack(x, like.layout, !batch_first, at), tn_packed_n_members(like) == 2, at);
}

// Its time axis ends with the longest sequence, wherever a padded value's ends.
tn_tensor fe_known_layout(tn_function *f, const int64_t *lengths, uint32_t n, bool allow_empty, tn_site at) {
  Prog *ir = f->p->ir;
  int64_t rows = 0, longest = 0;
  for (uint32_t k = 0; k < n; k++) rows += lengths[k], longest = lengths[k] > longest ? lengths[k] : longest;
  Attr attrs[] = {ir_a_dim(KEY_time, ir_dim(ir, longest)), ir_a_dim(KEY_rows, ir_dim(ir, rows)),
                  ir_a_list(KEY_lengths, ir_shape_ints(ir, lengths, n)), ir_a_int(KEY_empty, 1)};
  return fe_emit_in(f, OP_packed_layout, attrs, allow_empty ? 4 : 3, at);
}

tn_tensor fe_constant_layout(tn_tensor x, const int64_t *lengths, uint32_t n, int64_t time, const tn_pack_options *o) {
  if (!check_max_rows(x.fn->p, o) || !check_lengths(x, lengths, n, time, o)) return fe_poison(x.fn);
  return fe_keep(fe_known_layout(x.fn, lengths, n, o->allow_empty, o->at), o->at);
}

// Of sequences that all have `time` steps
tn_tensor fe_dense_layout(tn_function *f, Dim batch, Dim time, tn_site at) {
  Attr attrs[] = {ir_a_dim(KEY_dim, batch), ir_a_dim(KEY_time, time)};
  tn_tensor layout = {f, ir_emit(f->ir, OP_dense_layout, NULL, 0, attrs, 2, fe_loc(f->p, at)).i};
  return layout.v ? fe_keep(layout, at) : layout;  // the function's own: no scope ends it
}

tn_packed tn_pack_constant(tn_tensor x, const int64_t *lengths, uint32_t n, tn_pack_options o) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, o.at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  Prog *ir = f->p->ir;
  bool time_major = o.time_major;
  if (!fe_check_padded(x, o.at)) return fe_poisoned_packed(f);
  Dim batch = fe_axis_dim(x, time_major), time = fe_axis_dim(x, !time_major);
  if (!lengths || !ir_dim_is_const(ir, batch) || ir_dim_bound(ir, batch) != n) {
    fe_error(f->p, E_LENGTH_COUNT, o.at, "%u constant lengths are given for a batch of %s%lld", lengths ? n : 0,
             ir_dim_is_const(ir, batch) ? "" : "up to ", (long long)ir_dim_bound(ir, batch));
    note_padded(x, ir_dim_is_const(ir, batch) ? "one length for each sequence"
                                              : "tn_pack_padded takes lengths that come at run time");
    return fe_poisoned_packed(f);
  }
  if (!ir_dim_is_const(ir, time)) {  // a run with fewer steps than a length would be read out of bounds
    fe_error(f->p, E_ARGUMENT, o.at, "constant lengths need a time axis of constant size");
    return fe_poisoned_packed(f);
  }
  return made(x, fe_constant_layout(x, lengths, n, ir_dim_bound(ir, time), &o), &o);
}

uint32_t tn_packed_n_members(tn_packed s) {
  const FeLogicalValue *e = fe_ok(s.data) ? fe_known(s.data.fn, fe_val(s.data)) : NULL;
  return e ? e->n_members : 0;
}

static tn_tensor pad_packed(const char *call, tn_packed s, double value, bool batch_first, const Attr *size,
                            tn_site at) {
  tn_function *f;
  const tn_tensor given[] = {s.data, s.layout};
  if (!fe_join_for(call, given, 2, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  Attr attrs[3] = {ir_a_num(KEY_value, value)};
  uint32_t n = 1;
  if (!batch_first) attrs[n++] = ir_a_int(KEY_time_major, 1);
  if (size) attrs[n++] = *size;
  return fe_made(fe_move_rows(OP_unpack_padded, s.data, s.layout, attrs, n, at), at);
}

tn_tensor tn_pad_packed(tn_packed s, double value, bool batch_first, tn_site at) {
  return pad_packed(__func__, s, value, batch_first, NULL, at);
}

tn_tensor tn_pad_packed_to(tn_packed s, double value, bool batch_first, int64_t total_length, tn_site at) {
  Attr size = ir_a_int(KEY_size, total_length);
  tn_program *p = fe_ok(s.layout) ? s.layout.fn->p : NULL;
  uint32_t errors = p ? p->ir->diags.n_errors : 0;
  tn_tensor t = pad_packed(__func__, s, value, batch_first, &size, at);
  if (p && p->ir->diags.n_errors != errors) {
    fe_note(p, fe_ins(s.layout)->loc, "the sequences were packed here");
    fe_hint(p, "tn_pad_packed pads to the bound of the time axis");
  }
  return t;
}

// The same layout around a value that is nobody else's.
tn_packed fe_with_data(tn_packed s, tn_tensor data, tn_site at) {
  if (!fe_ok(data)) return fe_poisoned_packed(s.data.fn);
  return fe_made_packed((tn_packed){data, s.layout}, tn_packed_n_members(s) == 2, at);
}

// ---- pointwise on the data
static bool is_pointwise_on(Op op, uint32_t n_operands) {
  return ir_ops[op].cls == CLASS_POINTWISE && ir_ops[op].n_max == n_operands && ir_ops[op].n_min == n_operands &&
         op != OP_output && op != OP_assign && op != OP_cast && op != OP_dropout && op != OP_leaky_relu;
}

static Op find_op(tn_function *f, const char *name, uint32_t n_operands, tn_site at) {
  RtNear near = {.wanted = name};
  Op op = name ? ir_op_find(name) : OP_none;
  if (op != OP_none && is_pointwise_on(op, n_operands)) return op;
  for (uint32_t k = OP_none + 1; k < N_OPS; k++)
    if (is_pointwise_on((Op)k, n_operands)) rt_near_offer(&near, ir_ops[k].name);
  fe_error(f->p, E_ARGUMENT, at, "'%.40s' is no pointwise operation on %u value%s%s", name ? name : "", n_operands,
           n_operands == 1 ? "" : "s", rt_near_text(&near));
  return OP_none;
}

tn_packed tn_packed_map(const char *op, tn_packed a, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&a, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  Op row = find_op(f, op, 1, at);
  return row ? fe_with_data(a, fe_emit1(row, a.data, at), at) : fe_poisoned_packed(f);
}

tn_packed tn_packed_zip(const char *op, tn_packed a, tn_packed b, tn_site at) {
  tn_function *f;
  if (!fe_join_packed((const tn_packed[]){a, b}, 2, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  Op row = find_op(f, op, 2, at);
  if (!row) return fe_poisoned_packed(f);
  if (!fe_same_layout(a, b, ir_ops[row].name, at)) return fe_poisoned_packed(f);
  return fe_with_data(a, fe_emit2(row, a.data, b.data, at), at);
}

tn_packed tn_packed_with_data(tn_packed s, tn_tensor data, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){s.data, s.layout, data}, 3, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  bool fits = fe_rank(data) >= 1 && fe_ins(data)->dtype != DT_LAYOUT &&
              fe_axis_dim(data, 0).i == ir_dim_at(f->p->ir, fe_shape_of(s.layout), 2).i;
  if (fits && (!fe_rows_of(data) || fe_same_rows("packed_with_data", s.data, data, at)))
    return fe_with_data(s, fe_say_rows(data, (Rows){.layout = s.layout.v}, at), at);
  if (fits) return fe_poisoned_packed(f);
  fe_error(f->p, E_SHAPE, at, "the first axis of packed data must be the rows of its layout");
  fe_note_value(data, "the data");
  fe_note_value(s.layout, "the layout");
  return fe_poisoned_packed(f);
}
