// Shape rules of scan ops. An operand [rows, ..] or [time, ..] outside is [live, ..] or [..] inside, at one
// step.
#include "ir/packed_dims.h"
#include "ir/scan.h"
#include "ir/shape/infer.h"

static bool begins_with(const Prog *p, Shape s, Dim d) { return ir_rank(p, s) > 0 && ir_dim_at(p, s, 0).i == d.i; }

static uint16_t fault(const Infer *c, uint16_t id, const char *text) {
  rt_text_add(c->why, "%s", text);
  return id;
}

static uint16_t set_type(const Infer *c, uint32_t k, DType t, Shape s) {
  set(c, k, t, s);
  return 0;
}

// s with another first axis; the axis added (`front`) or taken away (none).
static Shape with_first(Prog *p, Shape s, Dim first, bool front) {
  Dim d[MAX_RANK + 1];
  uint32_t n = 0, r = ir_rank(p, s);
  if (first.i) d[n++] = first;
  for (uint32_t k = front ? 0 : 1; k < r; k++) d[n++] = ir_dim_at(p, s, k);
  return ir_shape(p, d, n);
}

static uint16_t infer_slice(const Infer *c, Dim live) {
  if (dtype_of(c, 0) == DT_LAYOUT) return fault(c, E_DTYPE, "a layout has no steps; its data has");
  if (ir_rank(c->p, shape_of(c, 0)) == 0) return fault(c, E_SHAPE, "a scalar has no axis of steps");
  return set_type(c, 0, dtype_of(c, 0), with_first(c->p, shape_of(c, 0), live, false));
}

static uint16_t infer_carry(const Infer *c, Dim live) {
  if (dtype_of(c, 0) != DT_F32) return fault(c, E_DTYPE, "a carry is f32");
  Shape s = shape_of(c, 0);
  if (live.i && ir_rank(c->p, s) == 0) return fault(c, E_SHAPE, "a carry of the batch has it as first axis");
  return set_type(c, 0, DT_F32, live.i ? with_first(c->p, s, live, false) : s);
}

static uint16_t infer_stack(const Infer *c, Dim live) {
  const Attr *time = ir_attr(c->f, c->v, KEY_time), *rows = ir_attr(c->f, c->v, KEY_rows);
  Shape s = shape_of(c, 0);
  if (dtype_of(c, 0) == DT_LAYOUT || ir_rank(c->p, s) >= MAX_RANK)
    return fault(c, E_SHAPE, "an output is f32 or i64 of rank below 8");
  if (live.i ? !rows : !time) return fault(c, E_ARGUMENT, live.i ? "needs {rows}" : "needs {time}");
  if (rows && (!live.i || !begins_with(c->p, s, live)))
    return fault(c, E_SHAPE, "an output of a packed scan has the rows of the step as first axis");
  if (!ir_scan_stacks(c->p, s, live))
    return fault(c, E_SHAPE, "an output has the rows of the step as first axis alone");
  return set_type(c, 0, dtype_of(c, 0), with_first(c->p, s, rows ? rows->u.dim : time->u.dim, !rows));
}

// The rows of a step: a size that nothing else names, at most the batch.
static uint16_t check_live(const Infer *c, Dim live) {
  Shape layout = shape_of(c, 0);
  if (ir_dim_info(c->p, live)->kind != DIM_SYM || ir_shape_names(c->p, layout, live))
    return fault(c, E_ARGUMENT, "{live} must be a named dim that the layout does not have");
  if (ir_dim_bound(c->p, live) < ir_dim_bound(c->p, ir_dim_at(c->p, layout, 0)))
    return fault(c, E_ARGUMENT, "the bound of {live} must be at least that of the batch");
  for (uint32_t k = 1; k < n_args(c); k++)
    if (ir_shape_names(c->p, shape_of(c, k), live)) return fault(c, E_SHAPE, "takes in what has the size {live}");
  return 0;
}

// Slices, carries and captures against the inputs of the body; what outside stands for the body's axis.
static uint16_t check_inputs(const Infer *c, const Scan *s, Dim batch, Dim rows, Dim time) {
  const Fn *b = s->body;
  Val *in = ir_scan_inputs(s);
  for (uint32_t k = 0; k < b->n_inputs; k++) {
    if (ir_none(in[k])) return fault(c, E_ARGUMENT, "has a body without that input");
    Shape inner = b->ins[in[k].i].shape, want = inner;
    bool slice = k < s->n_slices, row = ir_scan_has_rows(s, inner);
    if (slice) want = with_first(c->p, inner, row ? rows : time, !row);
    else if (row && k < s->n_slices + s->n_carries) want = with_first(c->p, inner, batch, false);
    if (dtype_of(c, s->first + k) == b->ins[in[k].i].dtype && shape_of(c, s->first + k).i == want.i) continue;
    rt_text_add(c->why, "operand %u does not fit input %u of its body", s->first + k, k);
    return E_SHAPE;
  }
  return 0;
}

static uint16_t set_results(const Infer *c, const Scan *s, Dim rows, Dim time) {
  const Fn *b = s->body;
  Val *out = ir_scan_outputs(s);
  for (uint32_t k = 0; k < s->n_stacks; k++) {
    const Ins *y = &b->ins[out[s->n_carries + k].i];
    bool row = ir_scan_has_rows(s, y->shape);
    if (!row && ir_rank(c->p, y->shape) >= MAX_RANK) return fault(c, E_SHAPE, "an output has a rank below 8");
    set(c, k, y->dtype, with_first(c->p, y->shape, row ? rows : time, !row));
  }
  for (uint32_t k = 0; k < s->n_carries; k++) {
    uint32_t arg = s->first + s->n_slices + k;
    if (dtype_of(c, arg) != DT_F32 || b->ins[out[k].i].dtype != DT_F32) return fault(c, E_DTYPE, "a carry is f32");
    if (b->ins[out[k].i].shape.i != b->ins[ir_scan_carry_input(s, k).i].shape.i)
      return fault(c, E_SHAPE, "a carry's next value has another shape than the carry");
    set(c, s->n_stacks + k, DT_F32, shape_of(c, arg));
  }
  return 0;
}

static uint16_t infer_scan(const Infer *c) {
  const Ins *ins = ir_ins(c->f, c->v);
  const Attr *name = ir_attr(c->f, c->v, KEY_body), *live = ir_attr(c->f, c->v, KEY_live);
  int64_t slices = ir_attr_int(c->f, c->v, KEY_slices, 0), carries = ir_attr_int(c->f, c->v, KEY_carries, 0);
  Fn *b = name ? ir_body_find(c->p, name->u.s) : NULL;
  if (!b || b == c->f) return fault(c, E_ARGUMENT, "names no body");
  if (!live == !ir_attr(c->f, c->v, KEY_time)) return fault(c, E_ARGUMENT, "needs {time} or {live}, not both");
  if (live && (ins->n_args == 0 || dtype_of(c, 0) != DT_LAYOUT))
    return fault(c, E_ARGUMENT, "needs a layout as operand 0");
  if (slices < 0 || carries < 0 || slices > b->n_inputs || carries > b->n_inputs - slices || carries > b->n_outputs ||
      ins->n_args != b->n_inputs + (live != NULL))
    return fault(c, E_ARGUMENT, "has other operands than its body's inputs");
  if (b->scan_depth >= MAX_SCAN_DEPTH) return fault(c, E_ARGUMENT, "is above 8 scans deep");
  if (b->n_outputs == 0 || b->n_outputs > MAX_RESULTS) return fault(c, E_ARGUMENT, "has no results, or above 65535");
  if (ins->n_res != b->n_outputs) return fault(c, E_ARGUMENT, "has another number of results than its body");
  if (live) TRY(check_live(c, live->u.dim));
  if (c->f->scan_depth <= b->scan_depth) c->f->scan_depth = (uint8_t)(b->scan_depth + 1);
  Scan s = ir_scan_at(c->f, c->v);
  Dim batch = live ? ir_dim_at(c->p, shape_of(c, 0), 0) : (Dim){0};
  Dim rows = live ? ir_dim_at(c->p, shape_of(c, 0), 2) : (Dim){0};
  Dim time = live ? ir_dim_at(c->p, shape_of(c, 0), 1) : s.steps;
  uint16_t id = check_inputs(c, &s, batch, rows, time);
  return id ? id : set_results(c, &s, rows, time);
}

uint16_t ir_rule_scan(const Infer *c) {
  const Fn *f = c->f;
  Val v = c->v;
  const Attr *live = ir_attr(f, v, KEY_live);
  Dim d = live ? live->u.dim : (Dim){0};
  switch (f->ins[v.i].op) {
  case OP_scan: return infer_scan(c);
  case OP_scan_input: return infer_slice(c, d);
  case OP_scan_carry: return infer_carry(c, d);
  case OP_scan_output: return infer_stack(c, d);
  case OP_scan_final: return set_type(c, 0, dtype_of(c, 0), shape_of(c, 0));
  case OP_scan_begin:
    if (f->ins[v.i].n_args ? dtype_of(c, 0) == DT_LAYOUT && live : ir_attr(f, v, KEY_time) != NULL) return 0;
    return fault(c, E_ARGUMENT, "needs a layout and {live}, or {time}");
  default: return 0;
  }
}
