// Part of pass fuse: the function in the order of its groups, each of which is a kernel.
#include "ir/fn.h"
#include "ir/packed_dims.h"
#include "ir/passes/fusion/groups.h"
#include "ir/remarks.h"
#include <string.h>

typedef struct {
  Rewrite e;
  const Groups *g;
  uint32_t *filled_in;  // by value that is made where it is read: the last group that makes it
  uint32_t *inner;      // views in the kernel at hand
  uint32_t n_inner, cap_inner;
  uint32_t *first_maker;  // by value that makes no code: layouts that make some and set its sizes, in `maker`
  Val *maker;
  uint32_t n_makers, cap_makers;
} Emit;

static bool is_view(const Emit *o, uint32_t i) { return ir_ops[o->e.old[i].op].cls == CLASS_VIEW; }

// A view of what the group makes, which a member reads: it lies in the kernel.
static void copy_inner_view(Emit *o, uint32_t i) {
  if (!is_view(o, i) || !ir_none(o->e.map[i])) return;
  copy_inner_view(o, ir_rewrite_old_arg(&o->e, (Val){i}, 0).i);
  ir_rewrite_copy(&o->e, (Val){i});
  *RT_PUSH(o->e.f->prog->mem, o->inner, o->n_inner, o->cap_inner) = i;
}

// Other groups read a view that follows the kernel.
static void forget_inner_views(Emit *o, uint32_t group) {
  const Groups *g = o->g;
  while (o->n_inner > 0) {
    uint32_t i = o->inner[--o->n_inner];
    bool is_read = false;
    for (uint32_t k = g->uses.first[i]; k < g->uses.first[i + 1]; k++) {
      uint32_t u = g->uses.user[k];
      is_read |= is_view(o, u) ? ir_none(o->e.map[u]) : g->of[u] != group;
    }
    if (is_read) o->e.map[i] = (Val){0};
  }
}

static void copy(Emit *o, uint32_t i, uint32_t group) {
  if (!ir_none(o->e.map[i])) return;
  for (uint32_t k = 0; k < o->e.old[i].n_args; k++) {
    uint32_t a = ir_rewrite_old_arg(&o->e, (Val){i}, k).i;
    copy_inner_view(o, a);
    if (!o->g->is_copied[a] || o->filled_in[a] == group) continue;
    ir_rewrite_copy(&o->e, (Val){a});
    o->filled_in[a] = group;
  }
  ir_rewrite_copy(&o->e, (Val){i});
}

static void find_makers(Emit *o, Fn *f) {
  const Val *makers = ir_rows_makers(f);
  o->first_maker = rt_alloc(f->prog->mem, (f->n_ins + 1) * sizeof *o->first_maker);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val from[IR_MAX_MAKERS];
    bool waits = f->ins[i].op != OP_result && !ir_makes_code(f, i);
    for (uint32_t k = waits ? ir_sizes_from(f, makers, (Val){i}, from) : 0; k-- > 0;)
      if (ir_makes_code(f, from[k].i)) *RT_PUSH(f->prog->mem, o->maker, o->n_makers, o->cap_makers) = from[k];
    o->first_maker[i + 1] = o->n_makers;
  }
}

static bool is_there(const Emit *o, uint32_t i) {
  for (uint32_t k = o->first_maker[i]; k < o->first_maker[i + 1]; k++)
    if (ir_none(o->e.map[o->maker[k].i])) return false;
  for (uint32_t k = 0; k < o->e.old[i].n_args; k++)
    if (ir_none(o->e.map[ir_rewrite_old_arg(&o->e, (Val){i}, k).i])) return false;
  return true;
}

// What makes no code follows what it is of, and all that is like it.
static void copy_views(Emit *o, uint32_t i) {
  const Groups *g = o->g;
  for (uint32_t r = 0; r < o->e.old[i].n_res; r++)
    for (uint32_t k = g->uses.first[i + r]; k < g->uses.first[i + r + 1]; k++) {
      uint32_t u = g->uses.user[k];
      if (g->of[u] || !ir_none(o->e.map[u]) || !is_there(o, u)) continue;
      ir_rewrite_copy(&o->e, (Val){u});
      copy_views(o, u);
    }
}

// What waited for the sizes that a layout of the group sets
static void copy_sized(Emit *o, const bool *code, uint32_t group) {
  bool has_layout = false;
  for (uint32_t i = o->g->list[group].first; i; i = o->g->next[i]) has_layout |= o->e.old[i].op == OP_packed_layout;
  for (uint32_t i = 1; has_layout && i < o->e.n_old; i++)
    if (o->e.old[i].op != OP_result && !code[i] && ir_none(o->e.map[i]) && is_there(o, i)) {
      ir_rewrite_copy(&o->e, (Val){i});
      copy_views(o, i);
    }
}

static bool is_last(const Emit *o, uint32_t i) {
  const Group *k = &o->g->list[o->g->of[i]];
  Op op = (Op)o->e.old[i].op;
  if (op == OP_output) op = (Op)o->e.old[ir_rewrite_old_arg(&o->e, (Val){i}, 0).i].op;
  return op == OP_moments || (op == OP_permute && k->cls == CLASS_GEMM) || ir_ops[op].cls == CLASS_OPTIMIZER;
}

// A prologue, its product, the epilogue, then what is done with all rows of it.
static void copy_members(Emit *o, uint32_t group) {
  const Groups *g = o->g;
  const Group *k = &g->list[group];
  bool product = ir_classes[k->cls].flags & HAS_PROLOGUE;
  for (uint32_t i = k->first; i && product; i = g->next[i])
    if (g->fused_into[i] || i == k->lead) copy(o, i, group);
  if (k->cls == CLASS_PACK_PADDED) copy(o, k->lead, group);
  for (uint32_t i = k->first; i; i = g->next[i])
    if (!product || !is_last(o, i)) copy(o, i, group);
  for (uint32_t i = k->first; i && product; i = g->next[i]) copy(o, i, group);
}

// What keeps each kernel apart from the one before it: sentences by kernel. NULL: nobody asks.
static const char **find_remarks(const Groups *g, const uint32_t *list, uint32_t n) {
  static const char nothing_shared[] = "it reads nothing that the kernel reads or makes: no traffic is saved";
  if (!ir_remarks_are_kept(g->f)) return NULL;
  const char **why = rt_alloc(g->f->prog->mem, (n + 1) * sizeof *why);
  for (uint32_t k = 0, last = 0; k < n; k++) {
    if (g->list[list[k]].first >= g->f->n_ins) continue;
    if (last) why[k] = ir_may_join(g, last, (Val){g->list[list[k]].lead});
    if (last && !why[k]) why[k] = nothing_shared;
    last = list[k];
  }
  return why;
}

// What was split off, and what it was split from, wherever both are now.
static void remark_splits(const Emit *o, const uint32_t *list, uint32_t n) {
  static const char why[] = "in one kernel the results of both would live at the peak";
  const Groups *g = o->g;
  for (uint32_t k = 0; k < n; k++) {
    const Group *part = &g->list[list[k]];
    if (!part->split_off) continue;
    Val v = o->e.map[part->lead], with = o->e.map[g->list[part->split_off].lead];
    if (g->f->kernel_of[v.i] != g->f->kernel_of[with.i]) ir_remark(g->f, REMARK_SPLIT, v, with, why);
  }
}

void ir_emit_groups(Groups *g, const uint32_t *list, uint32_t n) {
  Fn *f = g->f;
  RtArena *mem = f->prog->mem;
  Emit o = {.g = g, .filled_in = rt_alloc(mem, f->n_ins * sizeof *o.filled_in)};
  uint32_t n_old = f->n_ins, n_kernels = 0;
  bool *code = rt_alloc(mem, n_old);
  for (uint32_t i = 1; i < n_old; i++) code[i] = f->ins[i].op != OP_result && ir_makes_code(f, i);
  Kernel *kernels = rt_alloc(mem, (n + 1) * sizeof *kernels);
  const char **why = find_remarks(g, list, n);
  f->n_remarks = 0;
  find_makers(&o, f);
  ir_rewrite_begin(&o.e, f);
  for (uint32_t i = 1; i < n_old; i++)
    if (o.e.old[i].op != OP_result && !code[i] && is_there(&o, i)) ir_rewrite_copy(&o.e, (Val){i});
  for (uint32_t k = 0; k < n; k++) {
    const Group *group = &g->list[list[k]];
    if (group->first >= n_old) continue;
    uint32_t first = f->n_ins;
    copy_members(&o, list[k]);
    if (why && why[k]) ir_remark(f, REMARK_FUSE, o.e.map[group->lead], (Val){kernels[n_kernels - 1].first}, why[k]);
    bool has_copies = f->n_ins - first > group->n, by_rows = ir_classes[group->cls].flags & BECOMES_ROWS;
    OpClass cls = has_copies && by_rows && group->cls != CLASS_POINTWISE ? CLASS_ROW : (OpClass)group->cls;
    kernels[n_kernels++] =
        (Kernel){.first = first, .n = f->n_ins - first, .cls = (uint8_t)cls, .wanted = group->wanted};
    forget_inner_views(&o, list[k]);
    for (uint32_t i = group->first; i; i = g->next[i]) copy_views(&o, i);
    copy_sized(&o, code, list[k]);
  }
  ir_rewrite_end(&o.e);
  f->kernel_of = rt_alloc(mem, f->n_ins * sizeof *f->kernel_of);
  memset(f->kernel_of, 0xff, f->n_ins * sizeof *f->kernel_of);
  f->kernels = kernels, f->n_kernels = n_kernels;
  for (uint32_t k = 0; k < n_kernels; k++) {
    kernels[k].wanted = o.e.map[kernels[k].wanted.i];
    for (uint32_t i = kernels[k].first; i < kernels[k].first + kernels[k].n; i++) f->kernel_of[i] = k;
  }
  remark_splits(&o, list, n);
}
