// A planned function as a problem of the room schedule, and what is asked of it: a bound of the bytes that live at once in any order
// of the kernels that there are. What waits for what is by buffers alone, so that it is a bound of more orders than may run.
#include "ir/passes/planning/problem.h"
#include "ir/fn.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"

typedef struct {
  SchedPair *list;
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
  int64_t *size, *in_place, *scratch, *constant;
} Bound;

static void add(Bound *b, Pairs *p, uint32_t of, uint32_t by) {
  *RT_PUSH(b->mem, p->list, p->n, p->cap) = (SchedPair){of, by};
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
  if (kernel->scratch) b->scratch[k] = ir_aligned(f->bufs[kernel->scratch].bytes);
}

// A buffer of the arena that lives from kernel to kernel. Sums over shards, and room beside them, live from before the run or
// to behind it.
static bool is_ordered(const Buf *b) {
  return b->seg == SEG_ARENA && b->last >= 0 && !b->scratch && !b->is_kept && !b->twin && !b->within;
}

int64_t ir_bytes_in_place(const Fn *f, uint32_t buf) {
  const Buf *b = &f->bufs[buf];
  return is_ordered(b) && ir_class_has((Op)f->ins[ir_head(f, b->head).i].op, IN_PLACE) ? ir_aligned(b->bytes) : 0;
}

// Those that live all the time are no part of the problem: their bytes. Of others that are kept no order is asked, and no bound.
static int64_t find_buffers(Bound *b) {
  const Fn *f = b->f;
  int64_t always = 0;
  for (uint32_t i = 1; i < f->n_bufs; i++) {
    const Buf *buf = &f->bufs[i];
    bool is_kept = buf->seg == SEG_ARENA && (buf->is_kept || buf->twin) && buf->last >= 0;
    if (is_kept && buf->first == 0 && buf->last >= (int32_t)f->n_kernels - 1) always += ir_aligned(buf->bytes);
    else if (is_kept)
      for (int32_t k = buf->first; k <= buf->last && k < (int32_t)f->n_kernels; k++)
        b->constant[k] += ir_aligned(buf->bytes);
    if (!is_ordered(buf)) continue;
    b->maker[b->n] = (uint32_t)buf->first, b->size[b->n] = ir_aligned(buf->bytes);
    b->in_place[buf->first] += ir_bytes_in_place(f, i);
    b->index[i] = ++b->n;
  }
  return always;
}

PlanProblem ir_plan_problem(const Fn *f, RtArena *mem) {
  uint32_t n = f->n_kernels;
  Bound b = {.f = f, .mem = mem, .index = rt_alloc(mem, f->n_bufs * sizeof *b.index)};
  b.writer = rt_alloc(mem, f->n_bufs * sizeof *b.writer), b.reader = rt_alloc(mem, f->n_bufs * sizeof *b.reader);
  b.used = rt_alloc(mem, f->n_bufs * sizeof *b.used), b.waits = rt_alloc(mem, (n + 1) * sizeof *b.waits);
  b.maker = rt_alloc(mem, f->n_bufs * sizeof *b.maker), b.size = rt_alloc(mem, f->n_bufs * sizeof *b.size);
  b.in_place = rt_alloc(mem, (n + 1) * sizeof *b.in_place), b.scratch = rt_alloc(mem, (n + 1) * sizeof *b.scratch);
  b.constant = rt_alloc(mem, (n + 1) * sizeof *b.constant);
  int64_t always = find_buffers(&b);
  for (uint32_t k = 0; k < n; k++) add_kernel(&b, k);
  SchedLists deps = ir_schedule_lists(b.deps.list, b.deps.n, n, mem),
             users = ir_schedule_lists(b.uses.list, b.uses.n, b.n, mem);
  SchedProblem p = {n,           b.n,        deps.first, deps.list,  b.size, b.maker,
                    users.first, users.list, b.scratch,  b.in_place, NULL};
  return (PlanProblem){p, b.index, always, b.constant};
}

int64_t ir_bound_of_orders(const Fn *f, RtArena *mem, int64_t live, uint32_t *kernel) {
  PlanProblem q = ir_plan_problem(f, mem);
  SchedBound bound = ir_schedule_bound(&q.p, live - q.always, mem);
  *kernel = bound.kernel;
  return q.always + bound.bytes < live ? q.always + bound.bytes : live;
}
