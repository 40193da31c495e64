// Part of pass plan_memory: a bound of the bytes that live at once in any order of the kernels that there are, by the room
// schedule. What waits for what is by buffers alone, so that it is a bound of more orders than may run.
#include "ir/fn.h"
#include "ir/ir.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/schedule/schedule.h"

typedef struct {
  uint32_t of, by;
} Pair;

typedef struct {
  Pair *list;
  uint32_t n, cap;
} Pairs;

typedef struct {
  const Fn *f;
  RtArena *mem;
  uint32_t *index;            // by buffer: of the problem, + 1
  uint32_t *writer, *reader;  // by buffer: the kernel that wrote it last, + 1; the last of `reads` since then, + 1
  uint32_t *used;             // by buffer: the kernel that used it last, + 1
  uint32_t *waits;            // by kernel: the last one that waits for it, + 1
  Pairs reads;                // (the read of the same buffer before, + 1; kernel)
  Pairs uses, deps;           // (buffer of the problem, kernel); (kernel, what it waits for)
  uint32_t *maker, n;
  int64_t *size, *in_place, *scratch;
} Bound;

static int64_t align_up(int64_t n) { return (n + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN; }

static void add(Bound *b, Pairs *p, uint32_t of, uint32_t by) {
  *RT_PUSH(b->mem, p->list, p->n, p->cap) = (Pair){of, by};
}

static void wait_for(Bound *b, uint32_t of, uint32_t k) {
  if (of == k || b->waits[of] == k + 1) return;
  b->waits[of] = k + 1;
  add(b, &b->deps, k, of);
}

static void use(Bound *b, uint32_t buf, uint32_t k, bool writes) {
  if (!buf) return;
  if (b->writer[buf]) wait_for(b, b->writer[buf] - 1, k);
  if (writes) {
    for (uint32_t r = b->reader[buf]; r; r = b->reads.list[r - 1].of) wait_for(b, b->reads.list[r - 1].by, k);
    b->writer[buf] = k + 1, b->reader[buf] = 0;
  } else {
    add(b, &b->reads, b->reader[buf], k);
    b->reader[buf] = b->reads.n;
  }
  if (b->index[buf] && b->used[buf] != k + 1 && b->maker[b->index[buf] - 1] != k)
    add(b, &b->uses, b->index[buf] - 1, k);
  b->used[buf] = k + 1;
}

static void add_kernel(Bound *b, uint32_t k) {
  const Fn *f = b->f;
  const Kernel *kernel = &f->kernels[k];
  for (uint32_t i = kernel->first; i < kernel->first + kernel->n; i++)
    for (uint32_t a = 0; f->ins[i].op != OP_result && a < f->ins[i].n_args; a++)
      use(b, f->buf_of[ir_arg(f, (Val){i}, a).i], k, false);
  for (uint32_t i = kernel->first; i < kernel->first + kernel->n; i++) use(b, f->buf_of[i], k, true);
  if (kernel->scratch) b->scratch[k] = align_up(f->bufs[kernel->scratch].bytes);
}

// Those that live all the time are no part of the problem: their bytes.
static int64_t find_buffers(Bound *b) {
  const Fn *f = b->f;
  int64_t kept = 0;
  for (uint32_t i = 1; i < f->n_bufs; i++) {
    const Buf *buf = &f->bufs[i];
    if (buf->seg != SEG_ARENA || buf->last < 0 || buf->scratch) continue;
    if (buf->is_kept || buf->twin) kept += align_up(buf->bytes);
    if (buf->is_kept || buf->twin || buf->within) continue;
    b->maker[b->n] = (uint32_t)buf->first, b->size[b->n] = align_up(buf->bytes);
    if (ir_class_has((Op)f->ins[ir_head(f, buf->head).i].op, IN_PLACE)) b->in_place[buf->first] += b->size[b->n];
    b->index[i] = ++b->n;
  }
  return kept;
}

typedef struct {
  uint32_t *first, *list;
} Lists;

// The second of each pair, by the first, of n.
static Lists lists_of(const Bound *b, const Pairs *p, uint32_t n) {
  Lists l = {rt_alloc(b->mem, (n + 2) * sizeof *l.first), rt_alloc(b->mem, (p->n + 1) * sizeof *l.list)};
  for (uint32_t i = 0; i < p->n; i++) l.first[p->list[i].of + 2]++;
  for (uint32_t k = 0; k < n; k++) l.first[k + 1] += l.first[k];
  for (uint32_t i = 0; i < p->n; i++) l.list[l.first[p->list[i].of + 1]++] = p->list[i].by;
  return l;
}

int64_t ir_bound_of_orders(const Fn *f, int64_t live, uint32_t *kernel) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_kernels;
  Bound b = {.f = f, .mem = mem, .index = rt_alloc(mem, f->n_bufs * sizeof *b.index)};
  b.writer = rt_alloc(mem, f->n_bufs * sizeof *b.writer), b.reader = rt_alloc(mem, f->n_bufs * sizeof *b.reader);
  b.used = rt_alloc(mem, f->n_bufs * sizeof *b.used), b.waits = rt_alloc(mem, (n + 1) * sizeof *b.waits);
  b.maker = rt_alloc(mem, f->n_bufs * sizeof *b.maker), b.size = rt_alloc(mem, f->n_bufs * sizeof *b.size);
  b.in_place = rt_alloc(mem, (n + 1) * sizeof *b.in_place), b.scratch = rt_alloc(mem, (n + 1) * sizeof *b.scratch);
  int64_t kept = find_buffers(&b);
  for (uint32_t k = 0; k < n; k++) add_kernel(&b, k);
  Lists deps = lists_of(&b, &b.deps, n), users = lists_of(&b, &b.uses, b.n);
  SchedProblem p = {n, b.n, deps.first, deps.list, b.size, b.maker, users.first, users.list, b.scratch, b.in_place};
  uint32_t *order = rt_alloc(mem, (n + 1) * sizeof *order);
  for (uint32_t k = 0; k < n; k++) order[k] = k;
  SchedBound bound = ir_schedule_bound(&p, order, live - kept, mem);
  *kernel = bound.kernel;
  return kept + bound.bytes < live ? kept + bound.bytes : live;
}
