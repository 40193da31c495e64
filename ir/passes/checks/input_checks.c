// What the host checks in inputs before a run: labels, indices and lengths, where they come from an input through
// views, one slice, or packing. Only what is read is checked: of packed sequences no padding, of slices not the rest.
// What is computed in the run is checked where it is used, by compiled code: ir_may_fault says where.
//
//   %c = slice %rows {axis=1, start=1, count=1}     rows = pack_padded %x, %L; every second element of the steps that exist
//   %y = embedding %w, (reshape %c)
#include "ir/attention.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/ops.h"
#include "ir/packed_dims.h"
#include "ir/passes/plan.h"
#include "ir/scan.h"
#include "ir/slice.h"
#include "ir/storage.h"
#include <string.h>

static int64_t constant_behind(const Fn *f, Val v, uint32_t axis) {  // product of sizes from axis on; 0: not constant
  const Prog *p = f->prog;
  Shape s = f->ins[v.i].shape;
  int64_t n = 1;
  for (uint32_t k = axis; k < ir_rank(p, s); k++) {
    Dim d = ir_dim_at(p, s, k);
    if (!ir_dim_is_const(p, d) || __builtin_mul_overflow(n, ir_dim_bound(p, d), &n)) return 0;
  }
  return n;
}

// Elements of v's operand that a slice takes, in groups of a constant size.
static bool enter_slice(const Fn *f, Val v, InputCheck *c) {
  Slice s;
  Val from = ir_arg(f, v, 0);
  ir_slice(f, v, &s);
  int64_t start, group = constant_behind(f, from, s.axis), behind = constant_behind(f, from, s.axis + 1);
  if (!ir_is_block(f->prog, &s, &start) || c->group || c->is_packed || !group || !behind) return false;
  c->group = group;
  c->first = start * behind;
  c->size = ir_dim_bound(f->prog, s.count) * behind;
  return true;
}

static bool enter_pack(const Fn *f, Val v, InputCheck *c) {
  Val from = ir_arg(f, v, 0), layout = ir_arg(f, v, 1);
  bool time_major = ir_attr(f, v, KEY_time_major) != NULL;
  Shape s = f->ins[from.i].shape;
  const Attr *lengths = ir_attr(f, layout, KEY_lengths);
  c->row = constant_behind(f, from, 2);
  if (c->is_packed || !c->row || (c->group && c->row % c->group) || f->ins[layout.i].op != OP_packed_layout)
    return false;
  if (lengths) c->lengths = lengths->u.list;
  else {
    Val base = ir_view_base(f, ir_arg(f, layout, 0));
    if (f->ins[base.i].op != OP_input) return false;
    c->of_input = (uint32_t)ir_attr_int(f, base, KEY_index, 0);
  }
  c->is_packed = true, c->time_major = time_major, c->has_lengths = lengths != NULL;
  c->batch = ir_dim_at(f->prog, s, time_major);
  c->time = ir_dim_at(f->prog, s, !time_major);
  return true;
}

// The input behind v, and the elements of it that v has; false: v is computed, or the way there is too
// complex.
static bool find_source(const Fn *f, Val v, InputCheck *c) {
  for (;; v = ir_arg(f, v, 0)) {
    v = ir_view_base(f, v);
    Op op = f->ins[v.i].op;
    if (op == OP_input) break;
    if (!(op == OP_slice && enter_slice(f, v, c)) && !(op == OP_pack_padded && enter_pack(f, v, c))) return false;
  }
  c->input = (uint32_t)ir_attr_int(f, v, KEY_index, 0);
  return true;
}

static bool same_check(const InputCheck *a, const InputCheck *b) {
  return a->input == b->input && a->lo == b->lo && a->hi.i == b->hi.i && a->incl == b->incl && a->sorted == b->sorted &&
         a->has_sum == b->has_sum && a->exact_sum == b->exact_sum && a->sum.i == b->sum.i &&
         a->has_other == b->has_other && a->other == b->other && a->group == b->group && a->first == b->first &&
         a->size == b->size && a->is_packed == b->is_packed && a->time_major == b->time_major &&
         a->has_lengths == b->has_lengths && a->of_input == b->of_input && a->lengths.i == b->lengths.i &&
         a->batch.i == b->batch.i && a->time.i == b->time.i;
}

// Can the host check it?
static bool is_found(const Fn *f, Val source, InputCheck *c) {
  return find_source(f, source, c) && !((c->sorted || c->has_sum) && (c->group || c->is_packed));
}

static void add_check(Fn *f, Val source, InputCheck c) {
  if (!is_found(f, source, &c)) return;
  for (uint32_t k = 0; k < f->n_checks; k++)
    if (same_check(&f->checks[k], &c)) return;
  *RT_PUSH(f->prog->mem, f->checks, f->n_checks, f->cap_checks) = c;
}

// "start of a slice (gpt.c:12)"
static const char *start_text(const Fn *f, Val v) {
  RtText text = {.mem = f->prog->mem};
  rt_text_add(&text, "start of a slice");
  if (!ir_loc_file(f->prog, f->ins[v.i].loc)) return text.text;
  rt_text_add(&text, " (");
  ir_loc_text(f->prog, f->ins[v.i].loc, &text);
  rt_text_add(&text, ")");
  return text.text;
}

static InputCheck length_check(const Fn *f, Val layout) {
  InputCheck c = {.lo = ir_attr(f, layout, KEY_empty) ? 0 : 1,
                  .hi = ir_dim_at(f->prog, f->ins[layout.i].shape, 1),
                  .incl = true,
                  .sorted = ir_attr(f, layout, KEY_sorted) != NULL,
                  .what = "length"};
  c.sum = ir_rows_limit(f, layout);
  c.has_sum = c.sum.i != 0, c.exact_sum = ir_attr(f, layout, KEY_total) != NULL;
  return c;
}

// Sequences must be empty or at least as long as a window.
static InputCheck window_check(const Fn *f, Val v) {
  Val layout = ir_view_base(f, ir_arg(f, v, 0));
  int64_t size = ir_window_steps(f, v);
  return (InputCheck){.lo = size,
                      .hi = ir_dim_at(f->prog, f->ins[layout.i].shape, 1),
                      .incl = true,
                      .has_other = ir_attr(f, layout, KEY_empty) != NULL,
                      .what = rt_printf(f->prog->mem, "with windows that need %lld steps, length", (long long)size)};
}

// By the row of the op: its operand that is IN_ROWS, IN_AXIS or IN_LAST
static bool range_by_row(const Fn *f, Val v, Val *source, InputCheck *c) {
  for (uint32_t k = 0; k < f->ins[v.i].n_args; k++) {
    uint32_t flags = ir_operand_flags(f, v, k);
    if (!(flags & (IN_ROWS | IN_AXIS | IN_LAST))) continue;
    Shape of = f->ins[ir_arg(f, v, 0).i].shape;
    uint32_t axis = flags & IN_ROWS ? 0 : ir_rank(f->prog, of) - 1;
    if (flags & IN_AXIS) axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
    *source = ir_arg(f, v, k);
    *c = (InputCheck){.hi = ir_dim_at(f->prog, of, axis), .what = flags & IN_LAST ? "label" : "index"};
    if (flags & (IN_AXIS | IN_ROWS)) c->has_other = ir_attr(f, v, KEY_padded) != NULL, c->other = -1;
    if (flags & IN_LAST) c->has_other = ir_attr(f, v, KEY_ignore) != NULL, c->other = ir_attr_int(f, v, KEY_ignore, 0);
    return true;
  }
  return false;
}

// The operand of v whose numbers must be in a range, and the range; false: none.
bool ir_index_range(const Fn *f, Val v, Val *source, InputCheck *c) {
  Attention a;
  Slice slice;
  if (range_by_row(f, v, source, c)) return true;
  switch (f->ins[v.i].op) {
  case OP_slice:
  case OP_slice_assign:
    ir_slice(f, v, &slice);
    *source = slice.at;
    if (ir_none(*source)) return false;
    *c = (InputCheck){.hi = slice.last_start, .incl = true, .what = start_text(f, v)};
    return true;
  case OP_packed_layout:
    *source = ir_operand(f, v, ARG_lengths);
    if (ir_none(*source)) return false;
    *c = length_check(f, v);
    return true;
  case OP_seq_window_lengths:
    *source = ir_windowed_lengths(f, v);
    if (ir_none(*source)) return false;
    *c = window_check(f, v);
    return true;
  case OP_sdpa:
  case OP_sdpa_grad:
  case OP_sdpa_bias_grad:
    ir_attention(f, v, &a);
    if (ir_none(a.lengths)) return false;
    *source = a.lengths;
    *c = (InputCheck){.hi = a.tk, .incl = true, .what = "length"};
    return true;
  default: return false;
  }
}

void ir_find_input_checks(Fn *f) {
  f->n_checks = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i}, source;
    InputCheck c;
    if (ir_index_range(f, v, &source, &c)) add_check(f, source, c);
    if (f->ins[i].op != OP_scan) continue;
    Scan s = ir_scan_at(f, v);  // what the body checks of its slices and captures
    for (uint32_t k = 0; k < s.body->n_checks; k++)
      add_check(f, ir_arg(f, v, s.first + s.body->checks[k].input), s.body->checks[k]);
  }
}

// ---- what is left to the run
// A gradient skips indices out of range: the forward reports them, or the host if the forward is dead.
static bool passes_over(const Fn *f, Val v) { return ir_ops[f->ins[v.i].op].flags & SKIPS || ir_updates_rows(f, v); }

static int64_t bound_of(const Fn *f, Val layout, uint32_t axis) {
  return ir_dim_bound(f->prog, ir_dim_at(f->prog, f->ins[layout.i].shape, axis));
}

// Is there room for `rows` rows?
static bool has_room(const Fn *f, Val layout, int64_t rows) {
  Dim limit = ir_rows_limit(f, layout);
  return !limit.i || (!ir_attr(f, layout, KEY_total) && rows <= ir_dim_bound(f->prog, limit));
}

// So many windows fit into the time axis and among the rows, and into every sequence at least one.
static bool are_window_lengths(const Fn *f, Val v, Val lengths) {
  const Ins *of = &f->ins[ir_arg(f, lengths, 0).i];
  int64_t size = ir_window_steps(f, lengths), step = ir_attr_int(f, lengths, KEY_step, 1);
  Dim time = ir_window_time(f->prog, ir_dim_at(f->prog, of->shape, 1), size, step);
  Val from = ir_arg(f, lengths, 0);
  if (!has_room(f, v, ir_window_rows(bound_of(f, from, 2), bound_of(f, from, 0), size, step))) return false;
  return ir_dim_at(f->prog, f->ins[v.i].shape, 1).i == time.i && ir_attr(f, v, KEY_empty);
}

// Lengths taken from a layout are within the range of its time axis.
static bool are_lengths_of(const Fn *f, Val v, Val lengths) {
  while (f->ins[lengths.i].op == OP_slice || ir_view_base(f, lengths).i != lengths.i) lengths = ir_arg(f, lengths, 0);
  if (f->ins[lengths.i].op == OP_seq_window_lengths && !ir_attr(f, v, KEY_sorted))
    return are_window_lengths(f, v, lengths);
  if (f->ins[lengths.i].op != OP_seq_part || ir_attr(f, v, KEY_sorted) || !ir_attr(f, v, KEY_empty)) return false;
  Shape own = f->ins[v.i].shape, of = f->ins[ir_arg(f, lengths, 0).i].shape;
  return has_room(f, v, bound_of(f, ir_arg(f, lengths, 0), 2)) &&
         !strcmp(ir_text(f->prog, ir_attr(f, lengths, KEY_part)->u.s), "lengths") &&
         ir_dim_at(f->prog, own, 1).i == ir_dim_at(f->prog, of, 1).i;
}

// By the host, before the run.
static bool is_found_outside(const BodySite *at, Val index, InputCheck c) {
  if (!is_found(at->f, index, &c)) return false;
  if (!at->outer) return true;
  return is_found_outside(at->outer, ir_body_given(at, c.input), (InputCheck){0});
}

static bool body_may_fault(const BodySite *outer, Val v) {
  BodySite at = ir_body_site(outer, v);
  for (uint32_t i = 1; i < at.f->n_ins; i++) {
    Val index;
    InputCheck c;
    if (at.f->ins[i].op == OP_scan && body_may_fault(&at, (Val){i})) return true;
    if (passes_over(at.f, (Val){i}) || !ir_index_range(at.f, (Val){i}, &index, &c)) continue;
    if (!is_found_outside(&at, index, c)) return true;
  }
  return false;
}

// Rows of a layout, or -1, of what has its rows.
static bool are_rows(const Fn *f, Val v, Val layout) {
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  Dim own = ir_dim_at(f->prog, f->ins[ir_arg(f, v, 0).i].shape, axis);
  return ir_attr(f, v, KEY_padded) && own.i == ir_dim_at(f->prog, f->ins[layout.i].shape, 2).i;
}

// Indices that an op along the same axis found are in range.
static bool are_own_indices(const Fn *f, Val v, Val index) {
  uint32_t k = ir_operand_at(f, v, ARG_index);
  index = ir_view_base(f, index);
  if (k == UINT32_MAX || !(ir_operand_flags(f, v, k) & IN_AXIS)) return false;
  if (f->ins[index.i].op == OP_seq_row) return are_rows(f, v, ir_arg(f, index, 1));
  if (f->ins[index.i].op != OP_result) return false;
  Val head = ir_head(f, index);
  OpClass made_by = (OpClass)ir_ops[f->ins[head.i].op].cls;
  if (ir_has_operand(f, head, ARG_layout)) return false;
  if (made_by != CLASS_CUMULATIVE && !(made_by == CLASS_ORDER && ir_attr(f, head, KEY_axis))) return false;
  Shape own = f->ins[ir_arg(f, v, 0).i].shape, of = f->ins[ir_arg(f, head, 0).i].shape;
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0), from = (uint32_t)ir_attr_int(f, head, KEY_axis, 0);
  return ir_dim_at(f->prog, own, axis).i == ir_dim_at(f->prog, of, from).i;
}

// A number that the program knows to be in range.
static bool is_known(const Fn *f, Val index, const InputCheck *c) {
  Val of = ir_view_base(f, index);
  bool is_number = f->ins[of.i].op == OP_full || f->ins[of.i].op == OP_const;
  if (!is_number || !ir_dim_is_const(f->prog, c->hi)) return false;
  double x = ir_attr_num(f, of, KEY_value, 0), hi = (double)ir_dim_bound(f->prog, c->hi);
  return x >= (double)c->lo && (c->incl ? x <= hi : x < hi);
}

bool ir_may_fault(const Fn *f, Val v) {
  Val index;
  InputCheck c;
  if (f->ins[v.i].op == OP_nonzero || f->ins[v.i].op == OP_repeat_index) return true;
  if (f->ins[v.i].op == OP_global_norm && ir_attr(f, v, KEY_exchange)) return true;
  if (f->ins[v.i].op == OP_exchange_end && !ir_attr(f, v, KEY_bucket)) return true;
  if (f->ins[v.i].op == OP_embedding_bag && ir_has_operand(f, v, ARG_offsets)) return true;
  if (f->ins[v.i].op == OP_scan) return body_may_fault(&(BodySite){.f = f}, v);
  if (f->ins[v.i].op == OP_seq_window_lengths && ir_none(ir_windowed_lengths(f, v)))
    return f->ins[ir_view_base(f, ir_arg(f, v, 0)).i].op == OP_dense_layout && ir_window_steps(f, v) > 1;
  if (passes_over(f, v) || !ir_index_range(f, v, &index, &c) || is_found(f, index, &c)) return false;
  if (are_own_indices(f, v, index) || is_known(f, index, &c)) return false;
  if (!c.has_other && ir_is_checked_start(f, index, c.incl ? ir_dim_add(f->prog, c.hi, ir_dim(f->prog, 1)) : c.hi))
    return false;
  return f->ins[v.i].op != OP_packed_layout || !are_lengths_of(f, v, index);
}
