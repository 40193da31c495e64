// Prologue fusion: a pointwise or gathered operand that only a product reads is computed inside the product's kernel,
// as it packs or streams that operand. So are pointwise operands of integer reductions, of any dtype: masks are counted
// as they are computed. And those of f32 that become a single number, where rows do not take them: dot products.
//
//   %h = mul %x, %c : f32[n,64]            k0          %h is not stored: its rows are computed as the product reads them
//   %y = linear %h, %w : f32[n,32]         k0
//
// Such an operand is operand 0 of a product that reads its rows, or operand 1 of one that reads both by rows of k; all
// producers have the operand's shape. A value that can fuse into the kernel of its own operands is left there. The
// producers' operands are still intact when the product runs: no write to them comes in between.
//
// So is the image that a convolution or the gradient of its weight reads, where it is cheap to make of one other image, as
// batch norm and relu are: its pixels are computed as they are copied, about twice, which costs less than storing and
// loading them (080, 083).
//
// Pass duplicate_producers gives each of several such products its own copy of producers that are cheap to
// rematerialise and have no other use: the input of a layer, scaled or looked up, is read by the forward product and
// by the product of the weight's gradient. A mask of it, as relu's gradient has one, has a copy too.
#include "ir/conv.h"
#include "ir/expr.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/product.h"
#include "ir/rewrite.h"
#include "ir/storage.h"
#include <string.h>

enum {
  MANY = UINT32_MAX,
  MAX_MEMBERS = 8,
  MAX_MEMBER_ARGS = 16,
  SMALL_RATIO = 8,     // an operand of at most an eighth of the elements is small
  L2_PART = 16,        // of L2: a smaller operand stays in cache
  NARROW = 32,         // columns of a product that is bound by loading its operand,
  MAX_K = 448,         // whose rows, up to this k, fit the MC block of the packed operand (codegen/gemm/tiled.c)
  SHORT_ROW = 4,       // elements: what is made of so few at a time leaves most lanes idle,
  SHORT_DEAR_ROW = 8,  // which is worth a kernel from a few more on where it is no cheap op,
  MANY_ROWS = 128,     // if there are so many rows
  MAX_WINDOW = 2048,   // elements of a convolution's window: a strip of them has all channels (codegen/conv/conv.c)
  MAX_SEARCH = 64      // values
};

typedef struct {
  const Fn *f;
  bool duplicates;       // a value may be duplicated into several products
  uint32_t *fused_into;  // by value: the product it fuses into, or MANY; 0: none
  uint32_t *members;     // by product: instructions in its prologue
  uint32_t *written;     // by storage root: the last instruction so far that writes it
  bool *excluded;        // by value: found not to be fusable
  bool changed;
} Search;

static OpClass class_of(const Fn *f, Val v) { return (OpClass)ir_ops[ir_ins(f, v)->op].cls; }

static int64_t last_bound(const Fn *f, Val v) {
  Shape s = ir_ins(f, v)->shape;
  return ir_dim_bound(f->prog, ir_dim_at(f->prog, s, ir_rank(f->prog, s) - 1));
}

// Profitable: a large operand of a wide product costs as much in a kernel of its own, which leaves the product's code
// shareable with others.
static bool is_profitable(const Fn *f, Val v, uint32_t k) {
  if (ir_shape_bound(f->prog, ir_ins(f, ir_arg(f, v, k))->shape) <= ir_f32_in(f->prog->target.l2_bytes / L2_PART))
    return true;
  return k == 0 && last_bound(f, v) <= NARROW && last_bound(f, ir_arg(f, v, 0)) <= MAX_K;
}

// A reduction to a number whose operand is no row space worth a kernel (row_fusion.c): a long vector, or many short rows.
static bool reduces_long(const Fn *f, Val v) {
  if (!ir_reduces_to_number(f, v)) return false;
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  return ir_rank(f->prog, s) > 0 && !ir_row_fits(f->prog, (RowSpace){s, ir_rank(f->prog, s) - 1});
}

static bool is_reduction(const Fn *f, Val v) { return ir_reduces_exactly(f, v) || reduces_long(f, v); }

static bool reads_image(const Fn *f, Val v) {
  return ir_ins(f, v)->op == OP_conv || ir_ins(f, v)->op == OP_conv_weight_grad;
}

// Groups may be those of a depthwise kernel, which reads images where they lie.
static bool makes_image(const Fn *f, Val v) {
  Conv c;
  ir_conv(f, v, &c);
  return c.groups == 1 && !c.channels_first && c.c * ir_conv_taps(&c) <= MAX_WINDOW;
}

// Product v can have operand k computed in its prologue.
static bool produces_operand(const Fn *f, Val v, uint32_t k) {
  if (is_reduction(f, v)) return true;
  if (reads_image(f, v)) return k == 0 && makes_image(f, v);
  if (!ir_is_product(f, v) || ir_rank(f->prog, ir_ins(f, ir_arg(f, v, 1))->shape) != 2) return false;
  if (!is_profitable(f, v, k) || ir_is_laid(f, v)) return false;
  if (!ir_attr(f, v, KEY_ta)) return k == 0;
  return k == 1 && !ir_attr(f, v, KEY_tb) && ir_rank(f->prog, ir_ins(f, ir_arg(f, v, 0))->shape) == 2;
}

// `product`: that it is to fuse into, or MANY.
static bool is_candidate(const Fn *f, Val v, uint32_t product) {
  const Ins *ins = ir_ins(f, v);
  bool any_dtype = product != MANY && ir_reduces_exactly(f, (Val){product});
  bool by_element = class_of(f, v) == CLASS_POINTWISE && !(ir_ops[ins->op].flags & (EFFECT | WRITES));
  bool in_reduction = product != MANY && is_reduction(f, (Val){product});
  bool by_rows = class_of(f, v) == CLASS_GATHER && !ir_may_fault(f, v) && !in_reduction;
  bool has_dtype = ins->dtype == DT_F32 || any_dtype;
  return (by_element || by_rows) && ins->n_res == 1 && has_dtype && ir_shape_bound(f->prog, ins->shape) > 0;
}

bool ir_is_cheap_op(Op op) {
  if (ir_ops[op].flags & CHEAP_AS_LOAD) return true;
  Expr e = ir_forward(op);
  for (uint32_t i = 0; i < e.n; i++)
    if (e.nodes[i].kind == EX_OP && !ir_is_cheap_op((Op)e.nodes[i].op)) return false;
  return e.n > 0;
}

bool ir_idles_lanes(const Fn *f, Val product, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (!ir_is_product(f, product) || ir_is_conv((Op)ir_ins(f, product)->op) || ir_rank(f->prog, ins->shape) < 2)
    return false;
  int64_t row = last_bound(f, v), most = ir_is_cheap_op((Op)ins->op) ? SHORT_ROW : SHORT_DEAR_ROW;
  return row <= most && ir_shape_bound(f->prog, ins->shape) >= row * MANY_ROWS;
}

Val ir_masked_of(const Fn *f, Val v) {
  const OpInfo *op = &ir_ops[ir_ins(f, v)->op];
  if (!(op->flags & MASK) || op->n_operands != 2) return (Val){0};  // no comparison
  Val a = ir_arg(f, v, 0), b = ir_arg(f, v, 1);
  bool is_mask = ir_is_immediate(f, b) && ir_ins(f, a)->shape.i == ir_ins(f, v)->shape.i && ir_view_base(f, a).i == a.i;
  return is_mask ? a : (Val){0};
}

// And does not extend live ranges by more than it saves, up to the last product.
static bool is_cheap(const Fn *f, Val v) {
  if (!ir_is_cheap_op((Op)ir_ins(f, v)->op)) return false;
  uint32_t n_large = 0;  // operands that stay live for it
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val base = ir_view_base(f, ir_arg(f, v, k));
    n_large +=
        !ir_is_immediate(f, base) && !ir_is_stored_leaf(f, base) &&
        ir_shape_bound(f->prog, ir_ins(f, base)->shape) * SMALL_RATIO > ir_shape_bound(f->prog, ir_ins(f, v)->shape);
  }
  return n_large <= 1;
}

// The product into which operand k fuses for the sake of reader i, MANY, or 0: it must be stored. A mask has a copy of its
// own, which its reader's epilogue makes (readers.c).
static uint32_t product_for_use(const Search *s, uint32_t i, uint32_t k) {
  const Fn *f = s->f;
  if (s->duplicates && k == 0 && ir_masked_of(f, (Val){i}).i) return i;
  if (s->duplicates && is_reduction(f, (Val){i})) return 0;  // storing an operand costs less than computing it twice
  if (produces_operand(f, (Val){i}, k)) return i;
  bool elementwise =
      class_of(f, (Val){i}) == CLASS_POINTWISE && ir_ins(f, ir_arg(f, (Val){i}, k))->shape.i == f->ins[i].shape.i;
  return elementwise ? s->fused_into[i] : 0;
}

// Backward, from uses to definitions, on the assumption that every candidate not excluded fuses.
static void find_products(Search *s) {
  const Fn *f = s->f;
  memset(s->fused_into, 0, f->n_ins * sizeof *s->fused_into);
  memset(s->members, 0, f->n_ins * sizeof *s->members);
  bool *stored = rt_alloc(f->prog->mem, f->n_ins);
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    Val v = {i};
    bool many = s->fused_into[i] == MANY;
    bool is_cheap_only = many || (s->fused_into[i] && reads_image(f, (Val){s->fused_into[i]}));
    if (stored[i] || s->excluded[i] || !s->fused_into[i] || !is_candidate(f, v, s->fused_into[i]) ||
        (many && !s->duplicates) || (is_cheap_only && !is_cheap(f, v)))
      s->fused_into[i] = 0;
    else if (!many) s->members[s->fused_into[i]]++;
    if (f->ins[i].op == OP_result) continue;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      uint32_t a = ir_arg(f, v, k).i, by = product_for_use(s, i, k);
      if (!by) stored[a] = true;
      else s->fused_into[a] = !s->fused_into[a] || s->fused_into[a] == by ? by : MANY;
    }
  }
}

// Sums of integers have kernels that end with them.
static bool takes_readers(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  bool is_exact = ir_class_has(ins->op, ROUNDS) && ir_dtype_kind[ins->dtype] != DTYPE_FLOAT;
  return ir_class_has(ins->op, FUSES_READERS) && !is_exact;
}

// v can fuse into the kernel that defines operand k.
static bool fuses_with_operand(const Fn *f, Val v, uint32_t k) {
  Val a = ir_arg(f, v, k);
  Shape to = ir_ins(f, v)->shape;
  if (!takes_readers(f, ir_head(f, a))) return false;
  return ir_ins(f, a)->shape.i == to.i || ir_row_reads(f, v, k, (RowSpace){to, ir_rank(f->prog, to) - 1});
}

static void exclude(Search *s, Val v) {
  s->changed |= !s->excluded[v.i];
  s->excluded[v.i] = true;
}

// Is b made of a? Operands stand before what is made of them.
static bool depends_on(const Fn *f, Val b, Val a) {
  uint32_t stack[MAX_SEARCH + MAX_MEMBER_ARGS], n = 0, seen = 0;
  stack[n++] = b.i;
  while (n && seen++ < MAX_SEARCH) {
    Val v = ir_head(f, (Val){stack[--n]});
    if (v.i == ir_head(f, a).i) return true;
    for (uint32_t k = 0; v.i > a.i && k < ir_ins(f, v)->n_args && n < MAX_SEARCH + MAX_MEMBER_ARGS; k++)
      stack[n++] = ir_arg(f, v, k).i;
  }
  return false;
}

// v cannot fuse into the kernel of operand k, of which another operand, small as a channel's scale is, is made first.
static bool waits_for_small(const Fn *f, Val v, uint32_t k) {
  int64_t elements = ir_shape_bound(f->prog, ir_ins(f, v)->shape);
  for (uint32_t other = 0; other < ir_ins(f, v)->n_args; other++) {
    Val b = ir_arg(f, v, other);
    bool small = ir_shape_bound(f->prog, ir_ins(f, b)->shape) * SMALL_RATIO <= elements;
    if (other != k && small && depends_on(f, b, ir_arg(f, v, k))) return true;
  }
  return false;
}

static bool stays_with_operand(const Fn *f, uint32_t p, Val v, uint32_t k) {
  return fuses_with_operand(f, v, k) && !(reads_image(f, (Val){p}) && waits_for_small(f, v, k));
}

// A reduction along runs, or down columns that are the last axis; or of axes of size 1 alone.
static bool reduces_by_rows(const Fn *f, Val v) {
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  uint32_t rank = ir_rank(f->prog, s), reduced = ir_reduced_axes(f, v);
  bool is_other = false;  // a row of columns is not one of the last axis
  for (uint32_t k = rank; k-- > 0;) {
    if (ir_dim_is_one(f->prog, ir_dim_at(f->prog, s, k))) continue;
    if (reduced >> k & 1) return !is_other;
    is_other |= k + 1 < rank;
  }
  return true;
}

// Such a reduction of integers reads rows of the last axis; any other reads elements by their flat index, and operands must
// not broadcast.
static bool fits_reduction(const Fn *f, uint32_t p, Val v) {
  if (!is_reduction(f, (Val){p})) return true;
  if (ir_reduces_exactly(f, (Val){p}) && reduces_by_rows(f, (Val){p})) return true;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (!ir_is_immediate(f, ir_view_base(f, a)) && ir_ins(f, a)->shape.i != ir_ins(f, v)->shape.i) return false;
  }
  return true;
}

static bool fits_prologue(const Search *s, uint32_t p, Val v) {
  if (s->members[p] > MAX_MEMBERS || ir_ins(s->f, v)->n_args > MAX_MEMBER_ARGS) return false;
  return fits_reduction(s->f, p, v);
}

// Operand v of product p, or of a mask (p = 0), and, recursively, its producers: also those of a mask, which an epilogue makes
// again, are intact only where no write in place came between.
static void check_tree(Search *s, uint32_t p, Val v) {
  const Fn *f = s->f;
  if (!s->fused_into[v.i]) return;
  if (p && (!fits_prologue(s, p, v) || ir_idles_lanes(f, (Val){p}, v))) exclude(s, v);
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    bool stays = p && stays_with_operand(f, p, v, k);
    if (s->fused_into[a.i]) check_tree(s, p, a);
    else if (stays || s->written[ir_storage_root(f, a).i] > v.i) exclude(s, v);
  }
}

static void note_writes(Search *s, Val v) {
  const OpInfo *op = &ir_ops[ir_ins(s->f, v)->op];
  for (uint32_t k = 0; (op->flags & WRITES) && k < op->n_res; k++)
    s->written[ir_storage_root(s->f, ir_arg(s->f, v, k)).i] = v.i;
}

static void check_trees(Search *s) {
  const Fn *f = s->f;
  memset(s->written, 0, f->n_ins * sizeof *s->written);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i};
    if (f->ins[i].op == OP_result) continue;
    if (ir_class_has(f->ins[i].op, HAS_PROLOGUE))
      for (uint32_t k = 0; k < 2 && k < f->ins[i].n_args; k++) check_tree(s, i, ir_arg(f, v, k));
    if (s->duplicates && ir_masked_of(f, v).i) check_tree(s, 0, ir_arg(f, v, 0));
    note_writes(s, v);
  }
}

static uint32_t *find_fused(const Fn *f, bool duplicates) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins;
  Search s = {.f = f, .duplicates = duplicates, .changed = true, .excluded = rt_alloc(mem, n)};
  s.fused_into = rt_alloc(mem, n * sizeof *s.fused_into), s.members = rt_alloc(mem, n * sizeof *s.members);
  s.written = rt_alloc(mem, n * sizeof *s.written);
  while (s.changed) {
    s.changed = false;
    find_products(&s);
    check_trees(&s);
  }
  return s.fused_into;
}

const uint32_t *ir_find_fused_producers(const Fn *f) { return find_fused(f, false); }

// ---- pass duplicate_producers
typedef struct {
  Rewrite e;
  const uint32_t *fused_into;
} Duplicates;

static Val old_arg(const Duplicates *c, uint32_t i, uint32_t k) { return ir_rewrite_old_arg(&c->e, (Val){i}, k); }

static void clone_tree(Duplicates *c, Val v) {
  if (c->fused_into[v.i] != MANY || !ir_none(c->e.map[v.i])) return;
  for (uint32_t k = 0; k < c->e.old[v.i].n_args; k++) clone_tree(c, old_arg(c, v.i, k));
  ir_rewrite_copy(&c->e, v);
}

static void forget_tree(Duplicates *c, Val v) {
  if (c->fused_into[v.i] != MANY) return;
  for (uint32_t k = 0; k < c->e.old[v.i].n_args; k++) forget_tree(c, old_arg(c, v.i, k));
  c->e.map[v.i] = (Val){0};
}

bool ir_pass_duplicate_producers(Fn *f) {
  Duplicates c = {.fused_into = find_fused(f, true)};
  bool any = false;
  for (uint32_t i = 1; i < f->n_ins; i++) any |= c.fused_into[i] == MANY;
  if (!any) return true;
  ir_rewrite_begin(&c.e, f);
  for (uint32_t i = 1; i < c.e.n_old; i++) {
    if (c.e.old[i].op == OP_result || c.fused_into[i] == MANY) continue;
    for (uint32_t k = 0; k < c.e.old[i].n_args; k++) clone_tree(&c, old_arg(&c, i, k));
    ir_rewrite_copy(&c.e, (Val){i});
    for (uint32_t k = 0; k < c.e.old[i].n_args; k++) forget_tree(&c, old_arg(&c, i, k));
  }
  ir_rewrite_end(&c.e);
  return true;
}
