// Rules of batches of products: operands that are read, and results that are stored, where a permutation leaves or puts them
// (ir/product.h). The heads of attention are such a batch: a projection makes [batch, time, heads, width], and the product of
// each head reads rows of `width` that lie heads * width apart.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/product.h"
#include "ir/rewrite.h"
#include "ir/storage.h"

enum { LEAST_ROW = 16 };  // elements of a row, a cache line: of shorter ones a copy is read sooner

static const Key keys[] = {[LAID_A] = KEY_a_perm, [LAID_B] = KEY_b_perm, [LAID_RESULT] = KEY_perm};

// A batch of matrices is multiplied by another one. A matrix for the whole batch takes its rows as one matrix.
static bool has_batch(const Rules *r, Val v, uint32_t which) {
  bool any = false;
  Laid l = ir_laid(r->f, v, which);
  for (uint32_t k = 0; k + 2 < l.rank; k++) any |= !ir_dim_is_one(r->p, ir_laid_dim(r->p, &l, k));
  return any;
}
static bool is_batch(const Rules *r, Val v) {
  return ir_ins(r->f, v)->op == OP_matmul && ir_ins(r->f, v)->dtype == DT_F32 && has_batch(r, v, LAID_B);
}

static int64_t last_bound(const Rules *r, Val v) {
  Shape s = ir_ins(r->f, v)->shape;
  return ir_dim_bound(r->p, ir_dim_at(r->p, s, ir_rank(r->p, s) - 1));
}

static bool moves(const int64_t *list, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (list[k] != k) return true;
  return false;
}

// What v reads is written before instruction `until`.
static bool is_overwritten(const Fn *f, Val v, uint32_t k, uint32_t until) {
  Val root = ir_storage_root(f, ir_arg(f, v, k));
  for (uint32_t i = v.i + 1; i < until; i++) {
    const OpInfo *op = &ir_ops[f->ins[i].op];
    for (uint32_t j = 0; (op->flags & WRITES) && j < op->n_res; j++)
      if (ir_storage_root(f, ir_arg(f, (Val){i}, j)).i == root.i) return true;
  }
  return false;
}

static void set_flag(Fn *f, Val v, Key key, bool on) {
  if (on) ir_set_attr(f, v, ir_a_int(key, 1));
  else ir_unset_attr(f, v, key);
}

static void set_perm(Rules *r, Val v, uint32_t which, const int64_t *list, uint32_t n) {
  if (moves(list, n)) ir_set_attr(r->f, v, ir_a_list(keys[which], ir_shape_ints(r->p, list, n)));
  else ir_unset_attr(r->f, v, keys[which]);
}

// A permutation that keeps the last axis, but that the matrices are transposed, too, where it turns.
typedef struct {
  int64_t list[MAX_RANK];
  uint32_t n;
  bool turns;
} Axes;

static Axes axes_of(const Rules *r, Val v) {
  Shape perm = ir_perm_of(r->f, v)->u.list;
  Axes a = {.n = ir_rank(r->p, perm)};
  for (uint32_t k = 0; k < a.n; k++) a.list[k] = ir_list_at(r->p, perm, k);
  return a;
}

static bool keeps_rows(const Axes *a) { return a->n > 2 && a->list[a->n - 1] == a->n - 1; }

// ---- operands
// Rows as they lie may be columns of the matrices.
static Axes axes_of_operand(const Rules *r, Val v) {
  Axes a = axes_of(r, v);
  int64_t *last = &a.list[a.n ? a.n - 1 : 0];
  a.turns = a.n > 2 && last[-1] == a.n - 1;
  if (a.turns) last[-1] = last[0], last[0] = a.n - 1;
  return a;
}

// Every reader of the permutation v is a batch of products, which can read what v reads.
static bool is_read_by_products(const Rules *r, Val v, uint32_t *last) {
  uint32_t left = r->uses[v.i];
  for (uint32_t i = v.i + 1; i < r->f->n_ins && left; i++)
    for (uint32_t k = 0; r->f->ins[i].op != OP_result && k < r->f->ins[i].n_args; k++) {
      if (ir_arg(r->f, (Val){i}, k).i != v.i) continue;
      if (!is_batch(r, (Val){i}) || ir_attr(r->f, (Val){i}, keys[k])) return false;
      *last = i, left--;
    }
  return !left && !is_overwritten(r->f, v, 0, *last);
}

Val rule_laid_operands(Rules *r, Val v) {
  static const Key turned[] = {KEY_ta, KEY_tb};
  Fn *f = r->f;
  Axes a = axes_of_operand(r, v);
  uint32_t last = 0;
  if (!keeps_rows(&a) || last_bound(r, ir_arg(f, v, 0)) < LEAST_ROW || !is_read_by_products(r, v, &last))
    return (Val){0};
  for (uint32_t i = v.i + 1; i <= last; i++)
    for (uint32_t k = 0; f->ins[i].op == OP_matmul && k < f->ins[i].n_args; k++) {
      if (ir_arg(f, (Val){i}, k).i != v.i) continue;
      ir_set_arg(f, (Val){i}, k, ir_arg(f, v, 0));
      set_perm(r, (Val){i}, k, a.list, a.n);
      if (a.turns) set_flag(f, (Val){i}, turned[k], !ir_attr(f, (Val){i}, turned[k]));
    }
  return v;
}

// ---- results
// Rows as they shall lie may be columns of the product.
static Axes axes_of_result(const Rules *r, Val v) {
  Axes a = axes_of(r, v);
  a.turns = a.n > 2 && a.list[a.n - 1] == a.n - 2;
  for (uint32_t k = 0; a.turns && k < a.n; k++)
    if (a.list[k] + 2 >= a.n) a.list[k] = 2 * (int64_t)a.n - 3 - a.list[k];
  return a;
}

// The product of the transposed matrices: operands change places.
static void turn(Rules *r, Val v) {
  Fn *f = r->f;
  Val of[] = {ir_arg(f, v, 1), ir_arg(f, v, 0)};
  bool ta = ir_attr(f, v, KEY_ta), tb = ir_attr(f, v, KEY_tb);
  Laid a = ir_laid(f, v, LAID_A), b = ir_laid(f, v, LAID_B);
  int64_t of_a[MAX_RANK], of_b[MAX_RANK];
  for (uint32_t k = 0; k < a.rank; k++) of_a[k] = a.axis[k];
  for (uint32_t k = 0; k < b.rank; k++) of_b[k] = b.axis[k];
  ir_set_args(f, v, of, 2);
  set_flag(f, v, KEY_ta, !tb), set_flag(f, v, KEY_tb, !ta);
  set_perm(r, v, LAID_A, of_b, b.rank), set_perm(r, v, LAID_B, of_a, a.rank);
}

// Of a single product, such as the gradient of a weight that is read transposed.
Val rule_turned_result(Rules *r, Val v) {
  Fn *f = r->f;
  Val product = ir_arg(f, v, 0);
  const Ins *ins = ir_ins(f, product);
  Axes a = axes_of(r, v);
  if (a.n != 2 || a.list[0] != 1 || ins->op != OP_matmul || ins->dtype != DT_F32 || ins->n_args != 2) return (Val){0};
  if (r->uses[product.i] != 1 || ir_attr(f, product, KEY_perm)) return (Val){0};
  if (is_overwritten(f, product, 0, v.i) || is_overwritten(f, product, 1, v.i)) return (Val){0};
  bool ta = ir_attr(f, product, KEY_ta), tb = ir_attr(f, product, KEY_tb);
  ir_set_op(f, v, OP_matmul);
  ir_unset_attr(f, v, KEY_perm);
  ir_set_args(f, v, (Val[]){ir_arg(f, product, 1), ir_arg(f, product, 0)}, 2);
  set_flag(f, v, KEY_ta, !tb), set_flag(f, v, KEY_tb, !ta);
  return v;
}

Val rule_laid_result(Rules *r, Val v) {
  static const Key kept[] = {KEY_ta, KEY_tb, KEY_a_perm, KEY_b_perm};
  Fn *f = r->f;
  Val product = ir_arg(f, v, 0);
  Axes a = axes_of_result(r, v);
  if (r->uses[product.i] != 1 || ir_attr(f, product, KEY_perm) || last_bound(r, v) < LEAST_ROW) return (Val){0};
  if (!is_batch(r, product) || !keeps_rows(&a)) return (Val){0};
  if (a.turns && !has_batch(r, product, LAID_A)) return (Val){0};
  if (is_overwritten(f, product, 0, v.i) || is_overwritten(f, product, 1, v.i)) return (Val){0};
  ir_set_op(f, v, OP_matmul);
  ir_set_args(f, v, (Val[]){ir_arg(f, product, 0), ir_arg(f, product, 1)}, 2);
  for (uint32_t k = 0; k < sizeof kept / sizeof *kept; k++)
    if (ir_attr(f, product, kept[k])) ir_set_attr(f, v, *ir_attr(f, product, kept[k]));
  if (a.turns) turn(r, v);
  set_perm(r, v, LAID_RESULT, a.list, a.n);
  return v;
}
