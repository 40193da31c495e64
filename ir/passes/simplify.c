// Pass simplify: constant folding, algebra, merging of equal values, removal of dead ones. One forward walk, then one
// backward mark.
//
//   %1 = const {value=1}                    %s = sum %x {axes=[0]}
//   %2 = expand %1 {shape=[4]}      ->      output %s
//   %3 = mul %x, %2
//   %s = sum %3 {axes=[0]}
//
// No rule changes a bit of what pointwise ops compute, whatever the operands: zeros of both signs, infinities, NaN,
// denormals, overflow (but for the sign of a zero that max and min leave open, and that a NaN is any NaN). So x * 0 and
// x + 0 stay, and constants fold op by op in single precision, and only by ops that are rounded once: transcendental
// ones give the same bits whether their operand is known or not, which no folding could promise. Rules that take sums
// apart keep all terms and change their order: see split_sum.
#include "ir/ir.h"
#include <string.h>

typedef struct {
  Rewrite e;
  Fn *f;
  Prog *p;
  uint32_t *table;  // hash -> new value index; 0: free
  uint32_t cap;
} Simplify;

// What kernels read: constants are f32.
static bool scalar_const(const Fn *f, Val v, float *x) {
  double wide;
  if (!ir_is_const(f, v, &wide)) return false;
  *x = (float)wide;
  return true;
}

// The number that every element of v is.
static bool same_number(const Fn *f, Val v, double *x) {
  if (ir_ins(f, v)->op != OP_full) return ir_is_const(f, v, x);
  *x = ir_attr_num(f, v, KEY_value, 0);
  return true;
}

// ---- operands of pointwise rows need no materialised broadcast
static bool broadcasts_same(Fn *f, Val v, uint32_t k, Shape narrow) {
  Ins *ins = ir_ins(f, v);
  Prog *p = f->prog;
  uint32_t r = ir_rank(p, ins->shape), covered = 0;
  if (ir_rank(p, narrow) > r) return false;  // a reshape that dropped axes of size 1
  for (uint32_t j = 0; j <= ins->n_args; j++) {
    if (j == k) continue;
    Shape s = j == ins->n_args ? narrow : ir_ins(f, ir_arg(f, v, j))->shape;
    uint32_t rs = ir_rank(p, s);
    for (uint32_t a = 0; a < rs; a++)
      if (ir_dim_at(p, s, a).i == ir_dim_at(p, ins->shape, a + r - rs).i) covered |= 1u << (a + r - rs);
  }
  for (uint32_t a = 0; a < r; a++) {
    Dim d = ir_dim_at(p, ins->shape, a);
    bool one = ir_dim_is_one(p, d);
    if (one) {  // size 1: some operand must have the axis at all, so that the rank stays
      continue;
    }
    if (!(covered >> a & 1)) return false;
  }
  uint32_t most = ir_rank(p, narrow);
  for (uint32_t j = 0; j < ins->n_args; j++)
    if (j != k && ir_rank(p, ir_ins(f, ir_arg(f, v, j))->shape) > most)
      most = ir_rank(p, ir_ins(f, ir_arg(f, v, j))->shape);
  return most == r;
}

static bool is_single(const Fn *f, Val v) {
  return ir_shape_is_const(f->prog, ir_ins(f, v)->shape) && ir_shape_bound(f->prog, ir_ins(f, v)->shape) == 1;
}

static void strip_broadcasts(Simplify *s, Val v) {
  Fn *f = s->f;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    for (;;) {
      Val a = ir_arg(f, v, k);
      Ins *from = ir_ins(f, a);
      bool skip = from->op == OP_expand || (from->op == OP_reshape && is_single(f, a));
      if (!skip || !broadcasts_same(f, v, k, ir_ins(f, ir_arg(f, a, 0))->shape)) break;
      f->args[ir_ins(f, v)->args + k] = ir_arg(f, a, 0);
    }
  }
}

// ---- products of transposed operands: {ta} and {tb} read them as they are stored
static bool swaps_last_two(const Fn *f, Val a) {
  const Attr *perm = ir_ins(f, a)->op == OP_permute ? ir_attr(f, a, KEY_perm) : NULL;
  uint32_t r = ir_rank(f->prog, ir_ins(f, a)->shape);
  if (!perm || r < 2) return false;
  for (uint32_t k = 0; k + 2 < r; k++)
    if (ir_list_at(f->prog, perm->u.list, k) != k) return false;
  return ir_list_at(f->prog, perm->u.list, r - 2) == r - 1;
}

static void fold_transposes(Simplify *s, Val v) {
  Fn *f = s->f;
  bool flag[2] = {ir_attr(f, v, KEY_ta) != NULL, ir_attr(f, v, KEY_tb) != NULL}, any = false;
  for (uint32_t k = 0; k < 2; k++)
    for (Val a; swaps_last_two(f, a = ir_arg(f, v, k)); flag[k] = !flag[k], any = true)
      f->args[ir_ins(f, v)->args + k] = ir_arg(f, a, 0);
  if (!any) return;
  uint32_t first = f->n_attrs;  // the old list belongs to the old instruction too
  for (uint32_t k = 0; k < 2; k++)
    if (flag[k]) *RT_PUSH(s->p->mem, f->attrs, f->n_attrs, f->cap_attrs) = ir_a_int(k ? KEY_tb : KEY_ta, 1);
  ir_ins(f, v)->attrs = first;
  ir_ins(f, v)->n_attrs = (uint16_t)(f->n_attrs - first);
}

// ---- products with one column: a row times the other operand, so that lanes are not kept for columns that do not
// exist
//   %y = matmul %a, %b : f32[m,1]     ->     %r = reshape %b : f32[1,k]
//                                            %p = matmul %r, %a {tb=1} : f32[1,m]     %y = reshape %p : f32[m,1]
enum {
  COLUMN_ELEMENTS = 16384,  // of a, from which on a kernel more for what follows the product costs less
  COLUMN_K = 16             // that it sums, at least, where lanes would take k
};

static Val reshaped(Simplify *s, Val a, const Dim *dims, uint32_t n, Loc loc) {
  Shape to = ir_shape(s->p, dims, n);
  if (ir_ins(s->f, a)->shape.i == to.i) return a;
  Attr shape = ir_a_list(KEY_shape, to);
  return ir_emit(s->f, OP_reshape, &a, 1, &shape, 1, loc);
}

static uint32_t dims_of(const Simplify *s, Val v, Dim *dims) {
  Shape shape = ir_ins(s->f, v)->shape;
  uint32_t n = ir_rank(s->p, shape);
  for (uint32_t k = 0; k < n; k++) dims[k] = ir_dim_at(s->p, shape, k);
  return n;
}

// All rows of a value as one axis: [.., K] -> [rows, K].
static Val as_rows(Simplify *s, Val a, Loc loc) {
  Dim d[MAX_RANK], two[2] = {{0}, {0}};
  uint32_t n = dims_of(s, a, d);
  two[0] = d[0], two[1] = d[n - 1];
  for (uint32_t k = 1; k + 1 < n; k++) two[0] = ir_dim_mul(s->p, two[0], d[k]);
  return reshaped(s, a, two, 2, loc);
}

static bool wants_row(const Simplify *s, Val v, bool ta, bool stored_as_row) {
  Dim d[MAX_RANK], e[MAX_RANK];
  uint32_t n = dims_of(s, v, d), n_a = dims_of(s, ir_arg(s->f, v, 0), e);
  if (n < 2 || !ir_dim_is_one(s->p, d[n - 1]) || (ir_dim_is_one(s->p, d[n - 2]) && stored_as_row)) return false;
  Shape a = ir_ins(s->f, ir_arg(s->f, v, 0))->shape;
  bool lanes = ta || ir_dim_bound(s->p, e[n_a - 1]) >= COLUMN_K;
  return lanes && ir_shape_bound(s->p, a) >= COLUMN_ELEMENTS;
}

static Val row_of_column(Simplify *s, Val v) {
  Fn *f = s->f;
  const Ins ins = *ir_ins(f, v);
  if (ins.op != OP_matmul && ins.op != OP_linear) return (Val){0};
  bool ta = ir_attr(f, v, KEY_ta) != NULL, stored_as_row = ins.op == OP_linear || ir_attr(f, v, KEY_tb) != NULL;
  if (!wants_row(s, v, ta, stored_as_row)) return (Val){0};
  Val a = ir_arg(f, v, 0), b = ir_arg(f, v, 1), bias = ir_operand(f, v, ARG_bias);
  Dim d[MAX_RANK], out[MAX_RANK];
  uint32_t n = dims_of(s, b, d), n_out = dims_of(s, v, out), n_a = ir_rank(s->p, ir_ins(f, a)->shape);
  if (!stored_as_row) d[n - 1] = d[n - 2], d[n - 2] = out[n_out - 1];
  Val row = reshaped(s, b, d, n, ins.loc);
  if (n == 2 && n_a > 2 && !ta) a = as_rows(s, a, ins.loc);
  if (ta && ir_dim_is_one(s->p, out[n_out - 2])) {  // a number: both as rows
    n = dims_of(s, a, d);
    d[n - 1] = d[n - 2], d[n - 2] = out[n_out - 1];
    a = reshaped(s, a, d, n, ins.loc);
    ta = false;
  }
  Attr tb = ir_a_int(KEY_tb, 1);
  Val product = ir_emit(f, OP_matmul, (Val[]){row, a}, 2, &tb, ta ? 0 : 1, ins.loc);
  Val y = reshaped(s, product, out, n_out, ins.loc);
  if (!ir_none(bias)) y = ir_op2(f, OP_add, y, bias, ins.loc);
  ir_ins(f, y)->name = ins.name, ir_ins(f, y)->scope = ins.scope, ir_ins(f, y)->origin = ins.origin;
  return y;
}

// ---- folding and algebra: the value that v equals, or none
static Val fold_constants(Simplify *s, Val v) {
  Fn *f = s->f;
  Ins *ins = ir_ins(f, v);
  float x[3] = {0};
  if (!ir_is_rounded_once((Op)ins->op) || ir_rank(s->p, ins->shape) != 0) return (Val){0};
  for (uint32_t k = 0; k < ins->n_args; k++)
    if (!scalar_const(f, ir_arg(f, v, k), &x[k])) return (Val){0};
  return ir_const(f, (double)(float)ir_primitive((Op)ins->op, (double)x[0], (double)x[1], (double)x[2]), ins->loc);
}

// x op unit (operand k) is x, for every x. Not 0 for add: -0 + 0 is 0.
static const struct {
  Op op;
  uint32_t k;
  float unit;
} identities[] = {
    {OP_add, 0, -0.0f}, {OP_add, 1, -0.0f}, {OP_sub, 1, 0}, {OP_mul, 0, 1}, {OP_mul, 1, 1}, {OP_div, 1, 1},
};

static Val identity_element(Simplify *s, Val v) {
  const Fn *f = s->f;
  const Ins *ins = ir_ins(f, v);
  double wide;
  for (uint32_t i = 0; i < sizeof identities / sizeof *identities; i++) {
    uint32_t k = identities[i].k;
    if (identities[i].op != (Op)ins->op || !same_number(f, ir_arg(f, v, k), &wide)) continue;
    float x = (float)wide;
    Val other = ir_arg(f, v, 1 - k);
    if (!memcmp(&x, &identities[i].unit, sizeof x) && ir_ins(f, other)->shape.i == ins->shape.i) return other;
  }
  return (Val){0};
}

static Val fold_select(Simplify *s, Val v) {
  const Ins *ins = ir_ins(s->f, v);
  float x;
  if (ins->op != OP_select || !scalar_const(s->f, ir_arg(s->f, v, 0), &x)) return (Val){0};
  Val taken = ir_arg(s->f, v, x != 0 ? 1 : 2);
  return ir_ins(s->f, taken)->shape.i == ins->shape.i ? taken : (Val){0};
}

// A rearranged constant is a constant of the new shape.
static Val fold_full(Simplify *s, Val v) {
  Fn *f = s->f;
  Ins *ins = ir_ins(f, v);
  double x;
  bool moves = ins->op == OP_expand || ins->op == OP_reshape || ins->op == OP_slice || ins->op == OP_permute;
  if (!moves) return (Val){0};
  if (!same_number(f, ir_arg(f, v, 0), &x)) return (Val){0};
  Attr at[2] = {ir_a_num(KEY_value, x), ir_a_list(KEY_shape, ins->shape)};
  return ir_emit(f, OP_full, NULL, 0, at, 2, ins->loc);
}

static Val fold_view(Simplify *s, Val v) {
  Fn *f = s->f;
  Ins *ins = ir_ins(f, v);
  if (ins->op != OP_reshape && ins->op != OP_expand) return (Val){0};
  Val a = ir_arg(f, v, 0);
  if (ir_ins(f, a)->shape.i == ins->shape.i) return a;
  if (ins->op == OP_reshape && ir_ins(f, a)->op == OP_reshape) f->args[ins->args] = ir_arg(f, a, 0);
  return (Val){0};
}

// Written versions are values of their own by now: equal contents need no storage of their own. Copies that pass insert_copies
// made, and the stored form of a size, stay.
static Val fold_copy(Simplify *s, Val v) {
  Fn *f = s->f;
  if (ir_ins(f, v)->op != OP_copy || ir_attr(f, v, KEY_reader)) return (Val){0};
  Val a = ir_arg(f, v, 0);
  return ir_ins(f, a)->op == OP_dim_size ? (Val){0} : a;
}

// Kernels other than pointwise ones read memory: a constant operand becomes a stored value. Emits it before the user is
// copied.
static Val stored_form(Simplify *s, Val a, Loc loc) {
  double x;
  if (ir_ins(s->f, a)->op == OP_dim_size) return ir_op1(s->f, OP_copy, a, loc);
  if (!ir_is_const(s->f, a, &x)) return (Val){0};
  Attr at[2] = {ir_a_num(KEY_value, x), ir_a_list(KEY_shape, (Shape){0})};
  return ir_emit(s->f, OP_full, NULL, 0, at, 2, loc);
}

static bool reads_memory(Op op) {
  OpClass cls = ir_ops[op].cls;
  if (cls == CLASS_POINT || cls == CLASS_MARK || cls == CLASS_LEAF) return false;
  return op != OP_rnn_seq_grad && op != OP_reshape && op != OP_expand;  // absent gradients; fold_full takes the others
}

// Copies the old instruction with constants stored where its kernel wants them so.
static Val copy_stored(Simplify *s, Val old) {
  Ins ins = s->e.old[old.i];
  if (!reads_memory(ins.op)) return ir_rewrite_copy(&s->e, old);
  Val *fixed = rt_alloc(s->p->mem, (ins.n_args + 1) * sizeof *fixed);
  for (uint32_t k = 0; k < ins.n_args; k++) fixed[k] = stored_form(s, s->e.map[s->f->args[ins.args + k].i], ins.loc);
  Val v = ir_rewrite_copy(&s->e, old);
  for (uint32_t k = 0; k < ins.n_args; k++)
    if (!ir_none(fixed[k])) s->f->args[ir_ins(s->f, v)->args + k] = fixed[k];
  return v;
}

// ---- permutations
static const Attr *perm_of(const Fn *f, Val v) {
  return ir_ins(f, v)->op == OP_permute ? ir_attr(f, v, KEY_perm) : NULL;
}

// One of another is one of that one's operand, or nothing at all.
static Val fold_permute(Simplify *s, Val v) {
  const Attr *outer = perm_of(s->f, v);
  if (!outer) return (Val){0};
  Val a = ir_arg(s->f, v, 0);
  const Attr *inner = perm_of(s->f, a);
  uint32_t n = ir_rank(s->p, outer->u.list);
  int64_t list[MAX_RANK];
  bool moves = false;
  for (uint32_t k = 0; k < n; k++) {
    list[k] = ir_list_at(s->p, outer->u.list, k);
    if (inner) list[k] = ir_list_at(s->p, inner->u.list, (uint32_t)list[k]);
    moves |= list[k] != k;
  }
  if (inner) a = ir_arg(s->f, a, 0);
  if (!moves) return a;
  if (!inner) return (Val){0};
  Attr perm = ir_a_list(KEY_perm, ir_shape_ints(s->p, list, n));
  return ir_emit(s->f, OP_permute, &a, 1, &perm, 1, ir_ins(s->f, v)->loc);
}

static Val eliminate_common(Simplify *s, Val v);

// Rows along another axis than the last stand side by side as they are, where a permutation would interleave them:
//   %p = permute %x {perm=[1,0]}     %y = softmax %p
//     ->     %s = softmax %x {axis=0}     %y = permute %s {perm=[1,0]}
static Val rows_of_permuted(Simplify *s, Val v) {
  Fn *f = s->f;
  const Ins ins = *ir_ins(f, v);
  const Attr *perm = (ir_ops[ins.op].flags & ROW_AXIS) && !ir_attr(f, v, KEY_axis) ? perm_of(f, ir_arg(f, v, 0)) : NULL;
  if (!perm) return (Val){0};
  Attr back = *perm;
  Val of[2];
  for (uint32_t k = 0; k < ins.n_args; k++) {
    const Attr *own = perm_of(f, ir_arg(f, v, k));
    if (!own || own->u.list.i != back.u.list.i) return (Val){0};
    of[k] = ir_arg(f, ir_arg(f, v, k), 0);
  }
  int64_t axis = ir_list_at(s->p, back.u.list, ir_rank(s->p, back.u.list) - 1);
  if (!ir_row_is_strided(s->p, (RowSpace){ir_ins(f, of[0])->shape, (uint32_t)axis})) return (Val){0};
  Attr to = ir_a_int(KEY_axis, axis);
  Val rows = ir_emit(f, (Op)ins.op, of, ins.n_args, &to, 1, ins.loc);
  rows = eliminate_common(s, rows);
  ir_ins(f, rows)->name = ins.name, ir_ins(f, rows)->scope = ins.scope, ir_ins(f, rows)->origin = ins.origin;
  Val y = ir_emit(f, OP_permute, &rows, 1, &back, 1, ins.loc);
  ir_ins(f, y)->scope = ins.scope, ir_ins(f, y)->origin = ins.origin;
  return y;
}

// ---- sums over all rows: those of the value itself, not of a view with other rows
//   %r = reshape %a {shape=[n*t,c]} : f32[n*t,c]     %s = sum %r {axes=[0]}     ->     %s = sum %a {axes=[0,1]}
static Val sum_of_viewed(Simplify *s, Val v) {
  Fn *f = s->f;
  const Ins ins = *ir_ins(f, v);
  Shape rows;
  if (!ir_column_sum(f, v, &rows) || ir_ins(f, ir_arg(f, v, 0))->op != OP_reshape) return (Val){0};
  Val a = ir_arg(f, ir_arg(f, v, 0), 0);
  Shape of = ir_ins(f, a)->shape;
  uint32_t n = ir_rank(s->p, of);
  OpClass cls = ir_ops[ir_ins(f, a)->op].cls;
  bool same = n >= 2 && ir_dim_at(s->p, of, n - 1).i == ir_dim_at(s->p, rows, ir_rank(s->p, rows) - 1).i;
  if (!same || (cls != CLASS_POINT && cls != CLASS_ROW)) return (Val){0};
  int64_t list[MAX_RANK];
  for (uint32_t k = 0; k + 1 < n; k++) list[k] = k;
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(s->p, list, n - 1));
  Val sum = ir_emit(f, OP_sum, &a, 1, &axes, 1, ins.loc);
  ir_ins(f, sum)->name = ins.name, ir_ins(f, sum)->scope = ins.scope, ir_ins(f, sum)->origin = ins.origin;
  return sum;
}

// ---- sums over rows and their elements: first the rows, which are summed where their elements are made
enum { SPLIT_WIDTH = 32 };  // elements of a row, for whose sum a store more is worth it

//   %s = sum %a {axes=[0,1]}     ->     %r = sum %a {axes=[1]}     %s = sum %r {axes=[0]}
static Val split_sum(Simplify *s, Val v) {
  Fn *f = s->f;
  const Ins ins = *ir_ins(f, v);
  if (ins.op != OP_sum || ir_attr(f, v, KEY_keepdim)) return (Val){0};
  Val a = ir_arg(f, v, 0);
  Shape axes = ir_attr(f, v, KEY_axes)->u.list, of = ir_ins(f, a)->shape;
  uint32_t n = ir_rank(s->p, axes);
  int64_t list[MAX_RANK], last = (int64_t)ir_rank(s->p, of) - 1;
  bool any = false;
  for (uint32_t k = 0; k < n; k++) any |= (list[k] = ir_list_at(s->p, axes, k)) == last;
  any = any && ir_dim_bound(s->p, ir_dim_at(s->p, of, (uint32_t)last)) >= SPLIT_WIDTH;
  if (n < 2 || !any || !ir_ops[ir_ins(f, a)->op].is_pointwise || !ir_row_fits(s->p, (RowSpace){of, (uint32_t)last}))
    return (Val){0};
  uint32_t m = 0;
  for (uint32_t k = 0; k < n; k++)
    if (list[k] != last) list[m++] = list[k];
  Attr inner = ir_a_list(KEY_axes, ir_shape_ints(s->p, &last, 1)),
       outer = ir_a_list(KEY_axes, ir_shape_ints(s->p, list, m));
  Val rows = ir_emit(f, OP_sum, &a, 1, &inner, 1, ins.loc);
  Val sum = ir_emit(f, OP_sum, &rows, 1, &outer, 1, ins.loc);
  ir_ins(f, sum)->name = ins.name, ir_ins(f, sum)->scope = ins.scope, ir_ins(f, sum)->origin = ins.origin;
  return sum;
}

static void pop_last(Fn *f, Val v) { f->n_ins = v.i; }  // operands and attributes stay behind, unused

// ---- merging equal values
static uint64_t hash_ins(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  uint64_t h = rt_hash(&(uint32_t[3]){ins->op, ins->dtype, ins->shape.i}, 12, 7);
  if (ins->n_args) h = rt_hash(f->args + ins->args, ins->n_args * sizeof(Val), h);
  for (uint32_t k = 0; k < ins->n_attrs; k++) {
    const Attr *a = &f->attrs[ins->attrs + k];
    uint64_t word[2] = {a->key, 0};
    memcpy(&word[1], &a->u, ir_key_kind[a->key] == KIND_INT || ir_key_kind[a->key] == KIND_NUM ? 8 : 4);
    h = rt_hash(word, sizeof word, h);
  }
  return h;
}

static bool same_attr(const Attr *a, const Attr *b) {
  if (a->key != b->key) return false;
  switch ((AttrKind)ir_key_kind[a->key]) {
  case KIND_NUM: return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0;
  case KIND_STR: return a->u.s.i == b->u.s.i;
  case KIND_LIST: return a->u.list.i == b->u.list.i;
  case KIND_DIM: return a->u.dim.i == b->u.dim.i;
  default: return a->u.i == b->u.i;
  }
}

bool ir_same_attrs(const Fn *f, Val x, Val y) {
  const Ins *a = ir_ins(f, x), *b = ir_ins(f, y);
  if (a->n_attrs != b->n_attrs) return false;
  for (uint32_t k = 0; k < a->n_attrs; k++)
    if (!same_attr(&f->attrs[a->attrs + k], &f->attrs[b->attrs + k])) return false;
  return true;
}

static bool same_ins(const Fn *f, Val x, Val y) {
  const Ins *a = ir_ins(f, x), *b = ir_ins(f, y);
  if (a->op != b->op || a->dtype != b->dtype || a->shape.i != b->shape.i || a->n_args != b->n_args) return false;
  if (a->absent != b->absent) return false;
  if (a->n_args && memcmp(f->args + a->args, f->args + b->args, a->n_args * sizeof(Val))) return false;
  return ir_same_attrs(f, x, y);
}

// An earlier equal value, or v itself, now in the table.
static Val eliminate_common(Simplify *s, Val v) {
  uint32_t at = (uint32_t)hash_ins(s->f, v) & (s->cap - 1);
  while (s->table[at] && !same_ins(s->f, (Val){s->table[at]}, v)) at = (at + 1) & (s->cap - 1);
  if (s->table[at]) return (Val){s->table[at]};
  s->table[at] = v.i;
  return v;
}

static Val simplify_at(Simplify *s, Val v) {
  Ins *ins = ir_ins(s->f, v);
  if (ir_ops[ins->op].is_pointwise) {
    strip_broadcasts(s, v);
    Val w = identity_element(s, v);
    if (!ir_none(w)) return w;
    w = fold_constants(s, v);
    if (!ir_none(w)) return w;
    w = fold_select(s, v);
    if (!ir_none(w)) return w;
  }
  if (ins->op == OP_matmul) fold_transposes(s, v);
  Val w = fold_full(s, v);
  if (ir_none(w)) w = fold_copy(s, v);
  if (ir_none(w)) w = split_sum(s, v);
  if (ir_none(w)) w = sum_of_viewed(s, v);
  if (ir_none(w)) w = row_of_column(s, v);
  if (ir_none(w)) w = fold_permute(s, v);
  if (ir_none(w)) w = rows_of_permuted(s, v);
  return ir_none(w) ? fold_view(s, v) : w;
}

static void walk(Simplify *s) {
  for (uint32_t i = 1; i < s->e.n_old; i++) {
    const Ins *old = &s->e.old[i];
    if (old->op == OP_result) continue;
    s->f->cur_scope = old->scope;
    Val v = copy_stored(s, (Val){i});
    if (!(ir_ops[old->op].flags & PURE)) continue;
    Val w = simplify_at(s, v);
    if (ir_none(w)) w = v;
    if (w.i > v.i || w.i == v.i) {
      Val m = ir_ops[ir_ins(s->f, w)->op].n_res >= 1 ? eliminate_common(s, w) : w;
      if (m.i < v.i) pop_last(s->f, v);
      w = m;
    } else {
      pop_last(s->f, v);
    }
    for (uint32_t k = 0; k < old->n_res; k++) s->e.map[i + k] = (Val){w.i + k};
  }
}

// Kept whatever reads it: an effect, or a write into a parameter.
static bool has_effect(const Fn *f, Val v) {
  uint8_t flags = ir_ops[ir_ins(f, v)->op].flags;
  return (flags & EFFECT) || ((flags & WRITES) && ir_attr(f, v, KEY_into_param));
}

static void eliminate_dead(Fn *f) {
  Rewrite e;
  bool *live = rt_alloc(f->prog->mem, f->n_ins + 1);
  const Val *makers = ir_rows_makers(f);
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    Val h = ir_head(f, (Val){i});
    if (has_effect(f, (Val){i})) live[i] = true;
    if (!live[i]) continue;
    live[h.i] = true;
    Val from[IR_MAX_MAKERS];
    for (uint32_t k = ir_sizes_from(f, makers, (Val){i}, from); k-- > 0;) live[from[k].i] = true;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) live[ir_arg(f, (Val){i}, k).i] = true;
  }
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++)
    if (live[i] && e.old[i].op != OP_result) ir_rewrite_copy(&e, (Val){i});
  ir_rewrite_end(&e);
}

bool ir_pass_simplify(Fn *f) {
  Simplify s = {.f = f, .p = f->prog};
  s.cap = 64;
  while (s.cap < 6 * f->n_ins) s.cap *= 2;
  s.table = rt_alloc(f->prog->mem, s.cap * sizeof *s.table);
  uint32_t scope = f->cur_scope;
  ir_rewrite_begin(&s.e, f);
  walk(&s);
  f->cur_scope = scope;
  ir_rewrite_end(&s.e);
  eliminate_dead(f);
  return true;
}
