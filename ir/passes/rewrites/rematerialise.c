// Pass rematerialise: a value that the backward reads again is computed again, if that needs one pass over
// memory and no other array.
//
//   %h = relu (add (mul %x, %s), %b)    read by the forward, and 100 levels later by the backward, which reads %x too
//   ->  the late readers read %h2 = relu (add (mul %x, %s), %b), and %h ends with the forward
//
// The value is large and cheap. It is made element by element of one large value, which lives that long in
// any case, and of small values that have not changed. Late readers share one copy, which pass fuse makes
// where they are.
//
// Levels are lengths of longest paths before fusion: far apart in one is far apart in the other.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"
#include "ir/storage.h"

enum {
  LARGE = 1 << 14,  // elements
  SMALL_RATIO = 8,  // an eighth of the elements
  MAX_TREE = 6,
  MAX_ARGS = 16,  // of a late reader
  FAR = 32        // from this many levels on a reader is late
};

typedef struct {
  Rewrite e;
  Fn *f;
  UseLists uses;
  uint32_t *depth;    // by value
  uint32_t *wanted;   // by value
  uint32_t *written;  // by storage root: the last instruction that writes it
  uint32_t *root;     // by value: the recomputed value whose tree it belongs to; 0: none
  Val *copy;          // by root, once it is made
} Remat;

static int64_t elements(const Fn *f, Val v) { return ir_shape_bound(f->prog, ir_ins(f, v)->shape); }
static uint32_t n_readers(const Remat *r, Val v) { return r->uses.first[v.i + 1] - r->uses.first[v.i]; }

static bool is_member(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  return ir_ops[ins->op].cls == CLASS_POINTWISE && !(ir_ops[ins->op].flags & (EFFECT | WRITES | RANDOM)) &&
         ins->n_res == 1 && ins->dtype == DT_F32 && ins->n_args > 0 && ir_is_cheap_op((Op)ins->op);
}

static void find_depths(Remat *r) {
  Fn *f = r->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i};
    if (f->ins[i].op == OP_result) {
      r->depth[i] = r->depth[ir_head(f, v).i];
      continue;
    }
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      uint32_t at = r->depth[ir_arg(f, v, k).i];
      r->depth[i] = at > r->depth[i] ? at : r->depth[i];
    }
    r->depth[i] += ir_class_has(f->ins[i].op, MAKES_KERNEL);
    for (uint32_t k = 0; (ir_ops[f->ins[i].op].flags & WRITES) && k < ir_ops[f->ins[i].op].n_res; k++)
      r->written[ir_storage_root(f, ir_arg(f, v, k)).i] = i;
  }
}

// ---- the tree of a value: it, and what only it reads
typedef struct {
  Val root;
  uint32_t n;  // members
  Val large;   // the one large operand
} Tree;

// Operands of v's shape that only v reads.
static bool is_inside(const Remat *r, Val v, Val a) {
  return is_member(r->f, a) && n_readers(r, a) == 1 && ir_ins(r->f, a)->shape.i == ir_ins(r->f, v)->shape.i;
}

static bool grow(const Remat *r, Tree *t, Val v) {
  const Fn *f = r->f;
  if (t->n++ >= MAX_TREE) return false;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (ir_is_immediate(f, a)) continue;
    if (r->written[ir_storage_root(f, a).i] > t->root.i) return false;
    if (is_inside(r, v, a)) {
      if (!grow(r, t, a)) return false;
    } else if (elements(f, a) * SMALL_RATIO > elements(f, t->root)) {
      if (!ir_none(t->large) && t->large.i != a.i) return false;
      t->large = a;
    }
  }
  return true;
}

// The level where i is needed: its own, or for cheap values such as masks the first level of its readers.
static uint32_t wanted_at(const Remat *r, uint32_t i) {
  uint32_t first = UINT32_MAX;
  if (!is_member(r->f, (Val){i})) return r->depth[i];
  for (uint32_t k = r->uses.first[i]; k < r->uses.first[i + 1]; k++)
    if (r->depth[r->uses.user[k]] < first) first = r->depth[r->uses.user[k]];
  return first == UINT32_MAX ? r->depth[i] : first - 1;
}

static bool is_late(const Remat *r, Val v, uint32_t reader) { return r->wanted[reader] >= r->depth[v.i] + FAR; }

// Some of its readers are late, some are not, and none hands it on unchanged.
static bool has_gap(const Remat *r, Val v, uint32_t *first_late) {
  uint32_t n_late = 0;
  *first_late = UINT32_MAX;
  for (uint32_t k = r->uses.first[v.i]; k < r->uses.first[v.i + 1]; k++) {
    uint32_t reader = r->uses.user[k];
    Op op = (Op)r->f->ins[reader].op;
    if (!ir_class_has(op, MAKES_KERNEL) || op == OP_output || r->f->ins[reader].n_args > MAX_ARGS) return false;
    if (!is_late(r, v, reader)) continue;
    n_late++;
    if (r->wanted[reader] < *first_late) *first_late = r->wanted[reader];
  }
  return n_late && n_late < n_readers(r, v);
}

static bool lives_until(const Remat *r, Val v, uint32_t depth) {
  for (uint32_t k = r->uses.first[v.i]; k < r->uses.first[v.i + 1]; k++)
    if (r->wanted[r->uses.user[k]] >= depth) return true;
  return false;
}

static void mark(Remat *r, Val root, Val v) {
  r->root[v.i] = root.i;
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args; k++) {
    Val a = ir_arg(r->f, v, k);
    if (is_inside(r, v, a)) mark(r, root, a);
  }
}

static bool find(Remat *r, Val v) {
  uint32_t first_late;
  Tree t = {.root = v};
  if (!is_member(r->f, v) || elements(r->f, v) < LARGE || !has_gap(r, v, &first_late)) return false;
  if (!grow(r, &t, v) || ir_none(t.large) || !lives_until(r, t.large, first_late)) return false;
  mark(r, v, v);
  return true;
}

// ---- copies
static Val copy_tree(Remat *r, uint32_t root, Val v) {
  for (uint32_t k = 0; k < ir_rewrite_old(&r->e, v)->n_args; k++) {
    Val a = ir_rewrite_old_arg(&r->e, v, k);
    if (r->root[a.i] == root) copy_tree(r, root, a);
  }
  return ir_rewrite_copy(&r->e, v);
}

static bool reads_late(const Remat *r, uint32_t i, Val a) { return r->root[a.i] == a.i && a.i && is_late(r, a, i); }

// Copies instruction i; late operands become the copies.
static void copy_reader(Remat *r, uint32_t i) {
  Val kept[MAX_ARGS];
  uint32_t n = r->e.old[i].n_args;
  for (uint32_t k = 0; k < n && k < MAX_ARGS; k++) {
    Val a = ir_rewrite_old_arg(&r->e, (Val){i}, k);
    kept[k] = r->e.map[a.i];
    if (!reads_late(r, i, a)) continue;
    if (ir_none(r->copy[a.i])) r->copy[a.i] = copy_tree(r, a.i, a);
    r->e.map[a.i] = r->copy[a.i];
  }
  ir_rewrite_copy(&r->e, (Val){i});
  for (uint32_t k = n < MAX_ARGS ? n : MAX_ARGS; k-- > 0;) r->e.map[ir_rewrite_old_arg(&r->e, (Val){i}, k).i] = kept[k];
}

bool ir_pass_rematerialise(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins;
  Remat r = {.f = f, .uses = ir_use_lists(f)};
  r.depth = rt_alloc(mem, n * sizeof *r.depth), r.written = rt_alloc(mem, n * sizeof *r.written);
  r.wanted = rt_alloc(mem, n * sizeof *r.wanted), r.root = rt_alloc(mem, n * sizeof *r.root),
  r.copy = rt_alloc(mem, n * sizeof *r.copy);
  bool any = false;
  find_depths(&r);
  for (uint32_t i = 1; i < n; i++) r.wanted[i] = wanted_at(&r, i);
  for (uint32_t i = 1; i < n; i++) any |= find(&r, (Val){i});
  if (!any) return true;
  ir_rewrite_begin(&r.e, f);
  for (uint32_t i = 1; i < n; i++)
    if (r.e.old[i].op != OP_result) copy_reader(&r, i);
  ir_rewrite_end(&r.e);
  return true;
}
