#include "ir/slice.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"

// Elements from the first to the last one, both included.
static Dim span_of(Prog *p, Dim count, Dim step) {
  if (ir_dim_is_const(p, count) && ir_dim_info(p, count)->value == 0) return count;
  Dim one = ir_dim(p, 1);
  return ir_dim_add(p, ir_dim_mul(p, ir_dim_sub(p, count, one), step), one);
}

void ir_slice(const Fn *f, Val v, Slice *out) {
  Prog *p = f->prog;
  const Attr *start = ir_attr(f, v, KEY_start), *count = ir_attr(f, v, KEY_count), *pitch = ir_attr(f, v, KEY_pitch);
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  *out = (Slice){.axis = axis,
                 .start = start ? start->u.dim : ir_dim(p, 0),
                 .size = ir_dim_at(p, ir_ins(f, ir_arg(f, v, 0))->shape, axis),
                 .step = pitch ? pitch->u.dim : ir_dim(p, ir_attr_int(f, v, KEY_step, 1)),
                 .reverse = ir_attr(f, v, KEY_reverse) != NULL,
                 .at = ir_operand(f, v, ARG_at)};
  out->count = count ? count->u.dim : ir_dim_at(p, ir_ins(f, ir_operand(f, v, ARG_source))->shape, axis);
  out->last_start = ir_dim_sub(p, ir_dim_sub(p, out->size, out->start), span_of(p, out->count, out->step));
}

bool ir_is_block(Prog *p, const Slice *s, int64_t *start) {
  bool is_const = ir_dim_is_const(p, s->start) && ir_dim_is_const(p, s->count) && ir_dim_is_const(p, s->size);
  if (!is_const || !ir_none(s->at) || s->reverse || !ir_dim_is_one(p, s->step)) return false;
  *start = ir_dim_info(p, s->start)->value;
  return true;
}

bool ir_slice_is_rest(Prog *p, const Slice *s) {
  Dim left = ir_dim_sub(p, s->size, s->start);
  return s->count.i == ir_dim_ceil_div(p, left, s->step).i && ir_dim_least(p, left) >= 0;
}

bool ir_is_flip(const Fn *f, Val v) {
  Slice s;
  ir_slice(f, v, &s);
  return s.reverse && ir_dim_is_one(f->prog, s.step) && ir_none(s.at) && s.count.i == s.size.i;
}

Dim ir_windows_span(const Fn *f, Val v) {
  Prog *p = f->prog;
  Dim count = ir_attr(f, v, KEY_count)->u.dim, one = ir_dim(p, 1);
  if (ir_dim_is_const(p, count) && ir_dim_info(p, count)->value == 0) return count;
  Dim apart = ir_dim_mul(p, ir_dim_sub(p, count, one), ir_dim(p, ir_attr_int(f, v, KEY_step, 1)));
  return ir_dim_add(p, apart, ir_dim(p, ir_attr_int(f, v, KEY_size, 1)));
}

bool ir_windows_are_all(const Fn *f, Val v) {
  Prog *p = f->prog;
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  Dim all = ir_dim_at(p, ir_ins(f, ir_arg(f, v, 0))->shape, axis), one = ir_dim(p, 1);
  Dim room = ir_dim_sub(p, all, ir_dim(p, ir_attr_int(f, v, KEY_size, 1)));
  Dim beyond = ir_dim_div(p, room, ir_dim(p, ir_attr_int(f, v, KEY_step, 1)));
  return ir_attr(f, v, KEY_count)->u.dim.i == ir_dim_add(p, beyond, one).i;
}

CropAxis ir_crop_axis(const Fn *f, Val v, uint32_t axis) {
  Prog *p = f->prog;
  const Attr *perm = ir_attr(f, v, KEY_perm);
  CropAxis c = {.from = perm ? (uint32_t)ir_list_at(p, perm->u.list, axis) : axis,
                .start = ir_list_at(p, ir_attr(f, v, KEY_starts)->u.list, axis),
                .step = ir_list_at(p, ir_attr(f, v, KEY_steps)->u.list, axis),
                .before = ir_list_at(p, ir_attr(f, v, KEY_before)->u.list, axis),
                .size = ir_dim_at(p, ir_attr(f, v, KEY_shape)->u.list, axis)};
  int64_t behind = ir_list_at(p, ir_attr(f, v, KEY_behind)->u.list, axis);
  c.count = ir_dim_sub(p, c.size, ir_dim(p, c.before + behind));
  return c;
}

bool ir_crop_keeps(const CropAxis *c, Dim size) {
  return !c->start && c->step == 1 && !c->before && c->count.i == size.i && c->size.i == size.i;
}

ConcatPart ir_concat_part(const Fn *f, Val v, uint32_t k) {
  Prog *p = f->prog;
  const Attr *starts = ir_attr(f, v, KEY_starts), *counts = ir_attr(f, v, KEY_counts);
  if (starts && counts) return (ConcatPart){ir_list_at(p, starts->u.list, k), ir_dim_at(p, counts->u.list, k)};
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  return (ConcatPart){0, ir_dim_at(p, ir_ins(f, ir_arg(f, v, k))->shape, axis)};
}

bool ir_names_slices(const Fn *f, Val v) {
  Op op = (Op)ir_ins(f, v)->op;
  return op == OP_index_select || op == OP_index_copy || op == OP_index_add || ir_attr(f, v, KEY_by_slices);
}
