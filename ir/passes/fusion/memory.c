// Part of pass fuse: groups as a problem of the room schedule: which buffers they make and read, what waits for what.
#include "ir/passes/fusion/memory.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/scan.h"
#include "ir/storage.h"

static int64_t bytes_of(const Fn *f, uint32_t v) {
  return ir_type_bytes(f->prog, (DType)f->ins[v].dtype, f->ins[v].shape);
}

// It, or a view of all of it, is a result of the function.
static bool is_result(const Groups *g, uint32_t v) {
  const Fn *f = g->f;
  for (uint32_t k = g->uses.first[v]; k < g->uses.first[v + 1]; k++) {
    uint32_t u = g->uses.user[k];
    bool is_view = ir_ops[f->ins[u].op].cls == CLASS_VIEW && bytes_of(f, u) == bytes_of(f, v);
    if (f->ins[u].op == OP_output || (is_view && is_result(g, u))) return true;
  }
  return false;
}

// What overwrites a buffer has no other, and a result of the function is in the caller's.
static bool is_in_arena(const Groups *g, uint32_t v) {
  return !(ir_ops[g->f->ins[ir_head(g->f, (Val){v}).i].op].flags & WRITES) && !is_result(g, v);
}

int64_t ir_arena_bound(const Groups *g, uint32_t v) {
  const Ins *ins = &g->f->ins[v];
  return is_in_arena(g, v) ? ir_aligned(ir_type_bound(g->f->prog, (DType)ins->dtype, ins->shape)) : 0;
}

typedef struct {
  const Groups *g;
  RtArena *mem;
  const uint32_t *list;  // by kernel: its group
  uint32_t n;
  uint32_t *kernel;  // by group, + 1; 0: it is not in the list
  uint32_t *buffer;  // by value, + 1
  uint32_t *base;    // by buffer: its value
  uint32_t *seen;    // by value, then by kernel: the last kernel that named it, + 1
  SchedPair *uses;   // (buffer, kernel)
  uint32_t n_uses, cap_uses;
  uint32_t *maker, *first_dep, *dep, n_buffers, n_deps, cap_makers, cap_sizes, cap_deps, cap_bases;
  int64_t *size, *in_place;
} Building;

static void add_buffer(Building *b, uint32_t base, uint32_t maker) {
  uint32_t n = b->n_buffers++;
  *RT_PUSH(b->mem, b->maker, n, b->cap_makers) = maker, n--;
  *RT_PUSH(b->mem, b->base, n, b->cap_bases) = base, n--;
  *RT_PUSH(b->mem, b->size, n, b->cap_sizes) = is_in_arena(b->g, base) ? ir_aligned(bytes_of(b->g->f, base)) : 0;
  b->buffer[base] = b->n_buffers;
}

static void add_reads(Building *b, uint32_t k, uint32_t i) {
  const Groups *g = b->g;
  for (uint32_t a = 0; i < g->f->n_ins && a < g->f->ins[i].n_args; a++) {
    uint32_t base = ir_storage_root(g->f, ir_arg(g->f, (Val){i}, a)).i, maker = b->kernel[g->of[base]];
    if (!maker || maker == k + 1 || b->seen[base] == k + 1) continue;
    if (!b->buffer[base]) add_buffer(b, base, maker - 1);
    b->seen[base] = k + 1;
    *RT_PUSH(b->mem, b->uses, b->n_uses, b->cap_uses) = (SchedPair){b->buffer[base] - 1, k};
  }
}

static void add_deps(Building *b, uint32_t k, uint32_t i) {
  const Groups *g = b->g;
  for (uint32_t d = g->first_dep[i]; d < g->first_dep[i + 1]; d++) {
    uint32_t of = b->kernel[g->of[g->dep[d]]];
    if (!of || of == k + 1 || b->seen[g->n_all + of] == k + 1) continue;
    b->seen[g->n_all + of] = k + 1;
    *RT_PUSH(b->mem, b->dep, b->n_deps, b->cap_deps) = of - 1;
  }
}

static bool is_in_place(const Groups *g, uint32_t i) {
  return ir_class_has((Op)g->f->ins[ir_head(g->f, (Val){i}).i].op, IN_PLACE);
}

// Every member that reads the buffer may write its results there.
static bool may_be_overwritten(const Groups *g, uint32_t group, uint32_t base) {
  for (uint32_t i = g->list[group].first; i; i = g->next[i])
    for (uint32_t a = 0; a < g->f->ins[i].n_args; a++)
      if (!is_in_place(g, i) && ir_storage_root(g->f, ir_arg(g->f, (Val){i}, a)).i == base) return false;
  return true;
}

static bool makes_size(const Building *b, uint32_t group, int64_t size) {
  const Groups *g = b->g;
  for (uint32_t i = g->list[group].first; i && i < g->f->n_ins; i = g->next[i])
    for (uint32_t r = 0; is_in_place(g, i) && r < g->f->ins[i].n_res; r++)
      if (b->buffer[i + r] && b->size[b->buffer[i + r] - 1] == size) return true;
  return false;
}

static bool is_slot(const Building *b, uint32_t k, uint32_t base) {
  return makes_size(b, b->list[k], b->size[b->buffer[base] - 1]) && may_be_overwritten(b->g, b->list[k], base);
}

// Bytes that kernel k may overwrite with what it makes: of results, or of what it reads where that is less.
static int64_t bytes_in_place(Building *b, uint32_t k) {
  const Groups *g = b->g;
  const Fn *f = g->f;
  uint32_t group = b->list[k], mark = b->n + 1 + k;
  int64_t made = 0, read = 0;
  for (uint32_t i = g->list[group].first; i && i < f->n_ins; i = g->next[i]) {
    for (uint32_t r = 0; is_in_place(g, i) && r < f->ins[i].n_res; r++)
      made += b->buffer[i + r] ? b->size[b->buffer[i + r] - 1] : 0;
    for (uint32_t a = 0; a < f->ins[i].n_args; a++) {
      uint32_t base = ir_storage_root(f, ir_arg(f, (Val){i}, a)).i;
      if (!b->buffer[base] || g->of[base] == group || b->seen[base] == mark) continue;
      b->seen[base] = mark;
      if (is_slot(b, k, base)) read += b->size[b->buffer[base] - 1];
    }
  }
  return made < read ? made : read;
}

Problem ir_memory_problem(const Groups *g, const uint32_t *list, uint32_t n, Scratch scratch) {
  RtArena *mem = g->f->prog->mem;
  Building b = {.g = g, .mem = mem, .list = list, .n = n, .kernel = rt_alloc(mem, (g->n + 1) * sizeof *b.kernel)};
  b.buffer = rt_alloc(mem, g->n_all * sizeof *b.buffer), b.seen = rt_alloc(mem, (g->n_all + n + 1) * sizeof *b.seen);
  b.first_dep = rt_alloc(mem, (n + 1) * sizeof *b.first_dep), b.in_place = rt_alloc(mem, (n + 1) * sizeof *b.in_place);
  for (uint32_t k = 0; k < n; k++) b.kernel[list[k]] = k + 1;
  for (uint32_t k = 0; k < n; k++, b.first_dep[k] = b.n_deps)
    for (uint32_t i = g->list[list[k]].first; i; i = g->next[i]) add_reads(&b, k, i), add_deps(&b, k, i);
  for (uint32_t k = 0; k < n; k++) b.in_place[k] = bytes_in_place(&b, k);
  SchedLists users = ir_schedule_lists(b.uses, b.n_uses, b.n_buffers, mem);
  bool *slots = rt_alloc(mem, users.first[b.n_buffers] + 1);
  for (uint32_t of = 0; of < b.n_buffers; of++)
    for (uint32_t i = users.first[of]; i < users.first[of + 1]; i++) slots[i] = is_slot(&b, users.list[i], b.base[of]);
  Problem q = {.buffer = b.buffer, .is_live = rt_alloc(mem, b.n_buffers + 1)};
  int64_t *own = rt_alloc(mem, (n + 1) * sizeof *own);
  for (uint32_t k = 0; k < n; k++) own[k] = list[k] < scratch.n_groups ? scratch.bytes[list[k]] : 0;
  q.p = (SchedProblem){n,           b.n_buffers, b.first_dep, b.dep,      b.size, b.maker,
                       users.first, users.list,  own,         b.in_place, slots};
  return q;
}

// What kernels need while they run: the function is emitted in this order to ask for it, and is then what it was.
Scratch ir_memory_scratch(Groups *g, const uint32_t *list, uint32_t n) {
  Fn *f = g->f, before = *f;
  uint32_t at = 0;
  Scratch s = {rt_alloc(f->prog->mem, g->n * sizeof *s.bytes), g->n};
  ir_emit_groups(g, list, n);
  f->writes_param = ir_written_params(f);
  for (uint32_t k = 0; k < n; k++) {
    if (g->list[list[k]].first >= before.n_ins) continue;
    const Kernel *kernel = &f->kernels[at++];
    for (uint32_t i = kernel->first; i < kernel->first + kernel->n; i++) s.bytes[list[k]] += ir_scratch_at(f, (Val){i});
  }
  *f = before;
  ir_changed(f, (Val){0});
  return s;
}
