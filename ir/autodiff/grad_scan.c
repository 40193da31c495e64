// The backward of a scan: another scan, in the other direction.
//
// Its body computes a step of the forward anew from what the carries were before it, then the gradients of that step:
//
//   carries: the gradients of the carries            slices: inputs, carries and expensive values of the step, gradients of
//   outputs: the gradients of the slices                     the outputs
//
// The gradient of a captured value is a sum over steps. It is taken apart at its additions, and each part is summed
// outside where that is one operation over all rows (a product, a sum over rows: then the body puts out its operands);
// what is left is summed in a carry.
//
//   dW += d_t^T x_t  in every step      ->      dW = D^T X  once, after the loop
#include "ir/autodiff/autodiff.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/scan.h"
#include <string.h>

typedef struct {
  Val v;          // in the body
  Val outside;    // the stacked value in the function; 0: not stacked so far
  uint32_t slot;  // 1 + the stacked output that makes it; 0: none
} Stack;

// A part of the gradient of a captured value.
typedef struct {
  uint32_t operand;
  Val value;  // in the body
} Part;

typedef struct {
  Fn *f;  // the function
  Prog *p;
  RtArena *mem;
  Scan s;  // the forward
  Fn *b;   // the body of the backward
  Loc loc;
  Val *map;               // forward body -> b
  Val *inputs, *outputs;  // of the forward body
  bool *is_dep;           // by carry: it depends on a value whose gradient is wanted
  Stack *stacks;          // values of b that are slices or become stacked outputs
  uint32_t n_stacks, cap_stacks;
  // of the backward scan
  Val *slice, *slice_outer, *carry, *carry_outer, *carry_next, *capture, *capture_outer;
  uint32_t n_slice, cap_slice, n_slice_outer, cap_slice_outer, n_carry, cap_carry, n_carry_outer, cap_carry_outer,
      n_carry_next, cap_carry_next, n_capture, cap_capture, n_capture_outer, cap_capture_outer;
  Val *stacked;  // outputs of the body, in b
  uint32_t n_stacked, cap_stacked;
  Val head;
} Back;
#define ADD(g, list, v) (*RT_PUSH((g)->mem, (g)->list, (g)->n_##list, (g)->cap_##list) = (v))

static Shape shape_of(const Back *g, Val v) { return g->b->ins[v.i].shape; }

static Val inner_input(Back *g, Val like, Shape shape, DType t) {
  Attr index = ir_a_int(KEY_index, g->b->n_inputs);
  Val v = ir_emit_typed(g->b, OP_input, NULL, 0, &index, 1, t, shape, g->loc);
  if (like.i) g->b->ins[v.i].name = g->s.body->ins[like.i].name;
  return v;
}

static void note_stack(Back *g, Val v, Val outside) {
  *RT_PUSH(g->mem, g->stacks, g->n_stacks, g->cap_stacks) = (Stack){v, outside, 0};
}

static Val add_slice(Back *g, Val like, Shape shape, DType t, Val outside) {
  Val v = inner_input(g, like, shape, t);
  ADD(g, slice, v);
  ADD(g, slice_outer, outside);
  note_stack(g, v, outside);
  return v;
}

// The stacked output of the forward for a value of its body; none: it has none.
static Val stacked_forward(const Back *g, Val v) {
  for (uint32_t k = 0; k < g->s.n_stacks; k++)
    if (ir_arg(g->s.body, g->outputs[g->s.n_carries + k], 0).i == v.i) return ir_result(g->s.head, k);
  return (Val){0};
}

// ---- what depends on what
static void find_dependent(Back *g, const bool *wants) {
  const Fn *b = g->s.body;
  bool *dep = rt_alloc(g->mem, b->n_ins);
  g->is_dep = rt_alloc(g->mem, g->s.n_carries + 1);
  for (uint32_t k = 0; k < b->n_inputs; k++) dep[g->inputs[k].i] = wants[g->s.first + k];
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = 1; i < b->n_ins; i++)
      for (uint32_t k = 0; k < b->ins[i].n_args && !dep[i]; k++)
        dep[i] = ir_grad_flows(b, (Val){i}, k) && dep[ir_arg(b, (Val){i}, k).i];
    for (uint32_t k = 0; k < g->s.n_carries; k++) {
      Val in = g->inputs[g->s.n_slices + k];
      if (!dep[in.i] && dep[ir_arg(b, g->outputs[k], 0).i]) dep[in.i] = again = true;
      g->is_dep[k] = dep[in.i];
    }
  }
}

// ---- the forward step once more
static bool copy_inputs(Back *g) {
  const Fn *fb = g->s.body;
  for (uint32_t k = 0; k < fb->n_inputs; k++) {
    const Ins *in = &fb->ins[g->inputs[k].i];
    Val outer = ir_arg(g->f, g->s.head, g->s.first + k);
    if (k >= g->s.n_slices && k < g->s.n_slices + g->s.n_carries) outer = stacked_forward(g, g->inputs[k]);
    if (ir_none(outer)) return false;
    if (k < g->s.n_slices + g->s.n_carries) {
      g->map[g->inputs[k].i] = add_slice(g, g->inputs[k], in->shape, (DType)in->dtype, outer);
    } else {
      g->map[g->inputs[k].i] = inner_input(g, g->inputs[k], in->shape, (DType)in->dtype);
      ADD(g, capture, g->map[g->inputs[k].i]);
      ADD(g, capture_outer, outer);
    }
  }
  return true;
}

// A scan within the step runs a body of its own.
static const Attr *own_attrs(const Back *g, const Ins *ins) {
  Attr *out = rt_alloc(g->mem, (ins->n_attrs + 1u) * sizeof *out);
  for (uint32_t k = 0; k < ins->n_attrs; k++) {
    out[k] = g->s.body->attrs[ins->attrs + k];
    if (ins->op == OP_scan && out[k].key == KEY_body)
      out[k].u.s = ir_body_copy(g->p, ir_body_find(g->p, out[k].u.s))->name;
  }
  return out;
}

static void copy_step(Back *g) {
  const Fn *fb = g->s.body;
  for (uint32_t i = 1; i < fb->n_ins; i++) {
    const Ins ins = fb->ins[i];
    if (ins.op == OP_input || ins.op == OP_output || ins.op == OP_result) continue;
    Val *args = rt_alloc(g->mem, (ins.n_args + 1) * sizeof *args);
    for (uint32_t k = 0; k < ins.n_args; k++) args[k] = g->map[fb->args[ins.args + k].i];
    Val v = ir_emit_typed(g->b, ins.op, args, ins.n_args, own_attrs(g, &ins), ins.n_attrs, (DType)ins.dtype, ins.shape,
                          ins.loc);
    g->b->ins[v.i].absent = ins.absent;
    for (uint32_t k = 0; k < ins.n_res; k++) {
      g->b->ins[v.i + k].dtype = fb->ins[i + k].dtype;
      g->b->ins[v.i + k].shape = fb->ins[i + k].shape;
      g->b->ins[v.i + k].name = fb->ins[i + k].name;
      g->map[i + k] = (Val){v.i + k};
      Val kept = ins.n_res == 1 ? stacked_forward(g, (Val){i}) : (Val){0};
      if (!ir_none(kept)) note_stack(g, g->map[i + k], kept);
    }
  }
}

// ---- gradients that come in: of outputs as slices, of last carries as carries
static Val zeros(Fn *f, Shape shape, Loc loc) {
  Attr a[2] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, shape)};
  return ir_emit(f, OP_full, NULL, 0, a, 2, loc);
}

static uint32_t add_seeds(Back *g, const Val *adj, Val *of, Val *seed) {
  const Fn *fb = g->s.body;
  uint32_t n = 0;
  for (uint32_t k = 0; k < g->s.n_stacks; k++) {
    Val y = ir_arg(fb, g->outputs[g->s.n_carries + k], 0);
    if (ir_none(adj[k]) || ir_dtype_kind[fb->ins[y.i].dtype] != DTYPE_FLOAT) continue;
    seed[n] = add_slice(g, (Val){0}, fb->ins[y.i].shape, DT_F32, adj[k]);
    of[n++] = g->map[y.i];
  }
  for (uint32_t k = 0; k < g->s.n_carries; k++) {
    if (!g->is_dep[k]) continue;
    Val start = adj[g->s.n_stacks + k], h0 = ir_arg(g->f, g->s.head, g->s.first + g->s.n_slices + k);
    Val h = g->inputs[g->s.n_slices + k];
    if (ir_none(start)) start = zeros(g->f, ir_ins(g->f, h0)->shape, g->loc);
    seed[n] = inner_input(g, (Val){0}, fb->ins[h.i].shape, DT_F32);
    ADD(g, carry, seed[n]);
    ADD(g, carry_outer, start);
    of[n++] = g->map[ir_arg(fb, g->outputs[k], 0).i];
  }
  return n;
}

// ---- gradients of captured values
static bool attr_axes_has_first(const Fn *f, Val v) {
  Shape axes = ir_attr(f, v, KEY_axes)->u.list;
  for (uint32_t k = 0; k < ir_rank(f->prog, axes); k++)
    if (ir_list_at(f->prog, axes, k) == 0) return true;
  return false;
}

// Can v be stacked: over a packed layout its first axis must be the rows of the step.
static bool can_stack(const Back *g, Val v) {
  Shape s = shape_of(g, v);
  uint32_t r = ir_rank(g->p, s);
  bool row = !g->s.live.i || (r > 0 && ir_dim_at(g->p, s, 0).i == g->s.live.i);
  return row && ir_scan_stacks(g->p, s, g->s.live);
}

static bool is_product_of_rows(const Back *g, Val v) {
  const Fn *b = g->b;
  if (b->ins[v.i].op != OP_matmul || !ir_attr(b, v, KEY_ta) || ir_attr(b, v, KEY_tb)) return false;
  Val d = ir_arg(b, v, 0), x = ir_arg(b, v, 1);
  return ir_rank(g->p, shape_of(g, d)) == 2 && ir_rank(g->p, shape_of(g, x)) == 2 && can_stack(g, d) && can_stack(g, x);
}

static bool is_sum_of_rows(const Back *g, Val v) {
  const Fn *b = g->b;
  if (b->ins[v.i].op != OP_sum || ir_attr(b, v, KEY_keepdim)) return false;
  Val d = ir_arg(b, v, 0);
  return can_stack(g, d) && (!g->s.live.i || attr_axes_has_first(b, v));
}

// A part that one operation after the loop can sum; looks through reshapes.
static Val movable(const Back *g, Val v) {
  while (g->b->ins[v.i].op == OP_reshape) v = ir_arg(g->b, v, 0);
  return is_product_of_rows(g, v) || is_sum_of_rows(g, v) ? v : (Val){0};
}

static Stack *stack_of(Back *g, Val v) {
  for (uint32_t k = 0; k < g->n_stacks; k++)
    if (g->stacks[k].v.i == v.i) return &g->stacks[k];
  note_stack(g, v, (Val){0});
  return &g->stacks[g->n_stacks - 1];
}

// Makes v a stacked output if it is none yet.
static void want_stack(Back *g, Val v) {
  Stack *k = stack_of(g, v);
  if (k->slot || !ir_none(k->outside)) return;
  ADD(g, stacked, v);
  k->slot = g->n_stacked;
}

static void want_parts(Back *g, Val v) {
  v = movable(g, v);
  for (uint32_t k = 0; k < g->b->ins[v.i].n_args; k++) want_stack(g, ir_arg(g->b, v, k));
}

// Collects the parts that can move out of the loop in `moved`; returns the sum of the rest (none: nothing is
// left).
static Val take_apart(Back *g, Val v, Val *moved, uint32_t *n, uint32_t most) {
  const Ins ins = g->b->ins[v.i];
  if (ins.op == OP_add && shape_of(g, ir_arg(g->b, v, 0)).i == ins.shape.i &&
      shape_of(g, ir_arg(g->b, v, 1)).i == ins.shape.i) {
    Val x = take_apart(g, ir_arg(g->b, v, 0), moved, n, most), y = take_apart(g, ir_arg(g->b, v, 1), moved, n, most);
    return ir_none(x) ? y : ir_none(y) ? x : ir_op2(g->b, OP_add, x, y, g->loc);
  }
  if (*n == most || ir_none(movable(g, v))) return v;
  moved[(*n)++] = v;
  return (Val){0};
}

// ---- the same outside, over all steps
static Val outer(const Back *g, Val v) {
  for (uint32_t k = 0; k < g->n_stacks; k++)
    if (g->stacks[k].v.i == v.i)
      return g->stacks[k].slot ? ir_result(g->head, g->stacks[k].slot - 1) : g->stacks[k].outside;
  return (Val){0};
}

static Val reshaped(Back *g, Val v, Shape s) { return ir_reshaped(g->f, v, s, g->loc); }

// [steps, rows, n] as [steps * rows, n]
static Val all_rows(Back *g, Val v) {
  Shape s = ir_ins(g->f, v)->shape;
  if (ir_rank(g->p, s) == 2) return v;
  Dim rows = ir_dim_mul(g->p, ir_dim_at(g->p, s, 0), ir_dim_at(g->p, s, 1));
  return reshaped(g, v, ir_shape(g->p, (Dim[]){rows, ir_dim_at(g->p, s, 2)}, 2));
}

static Val moved_out(Back *g, Val v, Shape to) {
  Val at = movable(g, v);
  Val a = outer(g, ir_arg(g->b, at, 0));
  if (g->b->ins[at.i].op == OP_matmul) {
    Val args[2] = {all_rows(g, a), all_rows(g, outer(g, ir_arg(g->b, at, 1)))};
    Attr ta = ir_a_int(KEY_ta, 1);
    return reshaped(g, ir_emit(g->f, OP_matmul, args, 2, &ta, 1, g->loc), to);
  }
  Shape axes = ir_attr(g->b, at, KEY_axes)->u.list;
  int64_t list[MAX_RANK];
  uint32_t n = 0;
  if (!g->s.live.i) list[n++] = 0;
  for (uint32_t k = 0; k < ir_rank(g->p, axes); k++) list[n++] = ir_list_at(g->p, axes, k) + !g->s.live.i;
  Attr a_axes = ir_a_list(KEY_axes, ir_shape_ints(g->p, list, n));
  return reshaped(g, ir_emit(g->f, OP_sum, &a, 1, &a_axes, 1, g->loc), to);
}

// ---- all
enum { MAX_MOVED = 16 };
typedef struct {
  Val moved[MAX_MOVED];
  uint32_t n_moved;
  uint32_t carry;  // 1 + the carry that sums the rest; 0: none
} OfCapture;

static void of_capture(Back *g, Val adj, OfCapture *o) {
  Val rest = take_apart(g, adj, o->moved, &o->n_moved, MAX_MOVED);
  for (uint32_t k = 0; k < o->n_moved; k++) want_parts(g, o->moved[k]);
  if (ir_none(rest)) return;
  Val sum = inner_input(g, (Val){0}, shape_of(g, rest), DT_F32);
  ADD(g, carry, sum);
  ADD(g, carry_outer, zeros(g->f, shape_of(g, rest), g->loc));
  ADD(g, carry_next, ir_op2(g->b, OP_add, sum, rest, g->loc));
  o->carry = g->n_carry;
}

// Positions of the inputs: slices, carries, captures.
static void number_inputs(Back *g) {
  uint32_t at = 0;
  for (int part = 0; part < 3; part++) {
    const Val *list = part == 0 ? g->slice : part == 1 ? g->carry : g->capture;
    uint32_t n = part == 0 ? g->n_slice : part == 1 ? g->n_carry : g->n_capture;
    for (uint32_t k = 0; k < n; k++) g->b->attrs[g->b->ins[list[k].i].attrs].u.i = at++;
  }
}

static void add_output(Back *g, Val v) {
  Attr index = ir_a_int(KEY_index, g->b->n_outputs);
  ir_emit(g->b, OP_output, &v, 1, &index, 1, g->loc);
}

static void emit_scan(Back *g) {
  uint32_t n = 0;
  Val *args = rt_alloc(g->mem, (1 + g->b->n_inputs) * sizeof *args);
  if (g->s.first) args[n++] = ir_arg(g->f, g->s.head, 0);
  for (uint32_t k = 0; k < g->n_slice; k++) args[n++] = g->slice_outer[k];
  for (uint32_t k = 0; k < g->n_carry; k++) args[n++] = g->carry_outer[k];
  for (uint32_t k = 0; k < g->n_capture; k++) args[n++] = g->capture_outer[k];
  Attr a[5] = {ir_a_str(KEY_body, g->b->name), ir_a_int(KEY_slices, g->n_slice), ir_a_int(KEY_carries, g->n_carry),
               g->s.live.i ? ir_a_dim(KEY_live, g->s.live) : ir_a_dim(KEY_time, g->s.steps), ir_a_int(KEY_reverse, 1)};
  g->head = ir_emit(g->f, OP_scan, args, n, a, g->s.reverse ? 4 : 5, g->loc);
}

// Values that the backward can read instead of computing them again become slices of its body. Recomputation
// stops there.
static void read_kept(Back *g) {
  Fn *b = g->b;
  for (uint32_t k = 0; k < g->n_stacks; k++) {
    Stack st = g->stacks[k];
    if (ir_none(st.outside) || b->ins[st.v.i].op == OP_input) continue;
    Ins *ins = &b->ins[st.v.i];
    Attr index = ir_a_int(KEY_index, 0);
    *RT_PUSH(g->mem, b->attrs, b->n_attrs, b->cap_attrs) = index;
    ins->op = OP_input, ins->n_args = 0, ins->absent = 0, ins->attrs = b->n_attrs - 1, ins->n_attrs = 1;
    b->n_inputs++;
    ADD(g, slice, st.v);
    ADD(g, slice_outer, st.outside);
  }
}

// For the backward of this backward. One value for all rows is stacked along time.
static void keep_carries(Back *g) {
  for (uint32_t k = 0; k < g->n_carry; k++) {
    Val h = g->carry[k];
    if (ir_scan_stacks(g->p, shape_of(g, h), g->s.live)) want_stack(g, h);
  }
}

bool ir_scan_grad(Fn *f, Val v, const Val *adj, const bool *wants, Val *out, bool is_nested, Loc loc) {
  Back g = {.f = f, .p = f->prog, .mem = f->prog->mem, .s = ir_scan_at(f, v), .loc = loc};
  const Fn *fb = g.s.body;
  g.inputs = ir_scan_inputs(&g.s), g.outputs = ir_scan_outputs(&g.s);
  g.map = rt_alloc(g.mem, fb->n_ins * sizeof *g.map);
  g.b = ir_body_new(g.p, rt_printf(g.mem, "%s.grad", ir_text(g.p, fb->name)), fb->loc);
  find_dependent(&g, wants);
  if (!copy_inputs(&g)) return false;
  copy_step(&g);
  Val *of = rt_alloc(g.mem, (fb->n_outputs + 1) * sizeof *of),
      *seed = rt_alloc(g.mem, (fb->n_outputs + 1) * sizeof *of);
  uint32_t n = add_seeds(&g, adj, of, seed);
  bool *targets = rt_alloc(g.mem, g.b->n_ins);
  for (uint32_t k = 0; k < fb->n_inputs; k++) {
    bool carry = k >= g.s.n_slices && k < g.s.n_slices + g.s.n_carries;
    targets[g.map[g.inputs[k].i].i] = carry ? g.is_dep[k - g.s.n_slices] : wants[g.s.first + k];
  }
  const Val *d = ir_grad_values(g.b, of, seed, n, targets, is_nested);
  for (uint32_t k = 0; k < g.s.n_carries; k++) {
    Val h = g.map[g.inputs[g.s.n_slices + k].i];
    if (!g.is_dep[k]) continue;
    ADD(&g, carry_next, ir_none(d[h.i]) ? zeros(g.b, shape_of(&g, h), loc) : d[h.i]);
  }
  uint32_t *slot = rt_alloc(g.mem, (fb->n_inputs + 1) * sizeof *slot);
  OfCapture *parts = rt_alloc(g.mem, (g.s.n_captures + 1) * sizeof *parts);
  uint32_t first_capture = g.s.n_slices + g.s.n_carries;
  for (uint32_t k = 0; k < g.s.n_slices; k++) {
    Val x = d[g.map[g.inputs[k].i].i];
    if (ir_none(x) || !wants[g.s.first + k]) continue;
    want_stack(&g, x);
    slot[k] = x.i;
  }
  for (uint32_t k = 0; k < g.s.n_captures; k++) {
    Val x = d[g.map[g.inputs[first_capture + k].i].i];
    if (!ir_none(x) && wants[g.s.first + first_capture + k]) of_capture(&g, x, &parts[k]);
  }
  if (is_nested) keep_carries(&g);
  read_kept(&g);
  number_inputs(&g);
  for (uint32_t k = 0; k < g.n_carry_next; k++) add_output(&g, g.carry_next[k]);
  for (uint32_t k = 0; k < g.n_stacked; k++) add_output(&g, g.stacked[k]);
  if (g.b->n_outputs) emit_scan(&g);                   // without outputs, everything wanted is made of stacked values
  if (g.b->n_outputs && ir_none(g.head)) return true;  // reported
  for (uint32_t k = 0; k < g.s.n_slices; k++)
    if (slot[k]) out[g.s.first + k] = outer(&g, (Val){slot[k]});
  uint32_t carry = 0;
  for (uint32_t k = 0; k < g.s.n_carries; k++)
    if (g.is_dep[k]) out[g.s.first + g.s.n_slices + k] = ir_result(g.head, g.n_stacked + carry++);
  for (uint32_t k = 0; k < g.s.n_captures; k++) {
    uint32_t operand = g.s.first + first_capture + k;
    Shape to = ir_ins(f, ir_arg(f, v, operand))->shape;
    Val sum = parts[k].carry ? ir_result(g.head, g.n_stacked + parts[k].carry - 1) : (Val){0};
    for (uint32_t j = 0; j < parts[k].n_moved; j++) {
      Val m = moved_out(&g, parts[k].moved[j], to);
      sum = ir_none(sum) ? m : ir_op2(f, OP_add, sum, m, loc);
    }
    out[operand] = sum;
  }
  return true;
}
