// Pass plan_check: looks at the finished plan with other eyes. Shares no code with lives and place.
//
// It plays the kernels in order over a map of arena bytes: each stored value writes its own mark over its range, and
// each read must find the mark of the value it wants over the whole range. An overlap, a slot freed too early, a wrong
// alias or offset shows up as a foreign mark. Cost: bytes are grouped into the ranges that buffers' ends cut. A
// parameter has one mark: a read of a version that was overwritten, or of one that is not there yet, is found the same
// way.
#include "ir/ir.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  Fn *f;
  int64_t *cut;  // sorted distinct ends of buffers in the arena
  uint32_t n_cuts;
  uint32_t *mark;  // by piece [cut[k], cut[k + 1]): the value whose bytes lie there
  uint32_t *held;  // by buffer outside the arena that is written: the value it holds; 0: what it holds at the start
  bool ok;
} Check;

static void complain(Check *c, Val v, const char *what) {
  Prog *p = c->f->prog;
  RtText name = {.mem = p->mem};
  ir_print_name(c->f, v, &name);
  rt_diag(&p->diags, RT_ERROR, E_VERIFY, ir_loc_file(p, c->f->ins[v.i].loc), ir_loc_line(p, c->f->ins[v.i].loc),
          "plan of @%s: %s %s", ir_text(p, c->f->name), name.text, what);
  c->ok = false;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static void make_cuts(Check *c) {
  Fn *f = c->f;
  int64_t *cut = rt_alloc(f->prog->mem, (2 * f->n_bufs + 2) * sizeof *cut);
  uint32_t n = 0, m = 0;
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (f->bufs[b].seg != SEG_ARENA) continue;
    cut[n++] = f->bufs[b].offset;
    cut[n++] = f->bufs[b].offset + f->bufs[b].bytes;
  }
  qsort(cut, n, sizeof *cut, by_value);
  for (uint32_t k = 0; k < n; k++)
    if (m == 0 || cut[k] != cut[m - 1]) cut[m++] = cut[k];
  c->cut = cut;
  c->n_cuts = m;
  c->mark = rt_alloc(f->prog->mem, (m + 1) * sizeof *c->mark);
}

static uint32_t piece_at(const Check *c, int64_t offset) {
  uint32_t lo = 0, hi = c->n_cuts;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (c->cut[mid] <= offset) lo = mid;
    else hi = mid;
  }
  return lo;
}

// The value whose bytes v shows: through views only.
static Val shown(const Fn *f, Val v) {
  while (ir_ops[f->ins[v.i].op].cls == CLASS_VIEW) v = f->args[f->ins[v.i].args];
  return v;
}

static bool in_arena(const Check *c, Val v) {
  return c->f->buf_of[v.i] && c->f->bufs[c->f->buf_of[v.i]].seg == SEG_ARENA;
}

static void write_range(Check *c, uint32_t buf, uint32_t mark) {
  const Buf *b = &c->f->bufs[buf];
  if (b->bytes == 0) return;
  for (uint32_t k = piece_at(c, b->offset); k < c->n_cuts && c->cut[k] < b->offset + b->bytes; k++) c->mark[k] = mark;
}

static bool is_held(const Check *c, Val v) {
  if (!c->f->buf_of[v.i]) return false;
  uint8_t seg = c->f->bufs[c->f->buf_of[v.i]].seg;
  return seg == SEG_PARAM || seg == SEG_OUT;
}

// An output whose operand lies in the caller's memory already: the bytes stay what they are.
static bool is_same_bytes(const Check *c, Val v) {
  const Fn *f = c->f;
  return f->ins[v.i].op == OP_output && f->buf_of[v.i] == f->buf_of[shown(f, f->args[f->ins[v.i].args]).i];
}

static void want_held(Check *c, Val user, Val v) {
  uint32_t held = c->held[c->f->buf_of[v.i]], want = c->f->ins[v.i].op == OP_param ? 0 : v.i;
  if (held != want)
    complain(c, user,
             held < want ? "reads a version of a parameter or output before it is written"
                         : "reads a version of a parameter or output that was overwritten");
}

static void want_range(Check *c, Val user, Val v) {
  const Buf *b = &c->f->bufs[c->f->buf_of[v.i]];
  for (uint32_t k = piece_at(c, b->offset); b->bytes && k < c->n_cuts && c->cut[k] < b->offset + b->bytes; k++)
    if (c->mark[k] != v.i) {
      complain(c, user, "reads bytes that another value has overwritten");
      return;
    }
}

static void check_place(Check *c, uint32_t buf) {
  const Buf *b = &c->f->bufs[buf];
  if (b->seg != SEG_ARENA) return;
  if (b->offset % TN_ALIGN) complain(c, b->head, "is not aligned");
  if (b->offset < 0 || b->offset + b->bytes > c->f->stats.peak_bytes) complain(c, b->head, "lies outside the arena");
}

static bool same_kernel(const Kernel *k, Val v) { return v.i >= k->first && v.i < k->first + k->n; }

// Reads of a kernel happen before its writes unless the kernel itself made the value.
static void play_kernel(Check *c, const Kernel *k) {
  Fn *f = c->f;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (f->ins[i].op == OP_result) continue;
    for (uint32_t j = 0; j < f->ins[i].n_args; j++) {
      Val a = shown(f, ir_arg(f, (Val){i}, j));
      if (same_kernel(k, a)) continue;
      Op op = f->ins[a.i].op;
      if (!f->buf_of[a.i] && op != OP_const && op != OP_dim_size)
        complain(c, (Val){i}, "reads a value that has no memory");
      if (in_arena(c, a)) want_range(c, (Val){i}, a);
      if (is_held(c, a)) want_held(c, (Val){i}, a);
    }
  }
  if (k->scratch) write_range(c, k->scratch, UINT32_MAX);
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (in_arena(c, (Val){i})) write_range(c, f->buf_of[i], i);
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (is_held(c, (Val){i}) && !is_same_bytes(c, (Val){i})) c->held[f->buf_of[i]] = i;
  // what the kernel made must still be whole after all its writes: no two results on one slot
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (in_arena(c, (Val){i}) && !(ir_ops[f->ins[ir_head(f, (Val){i}).i].op].flags & WRITES))
      want_range(c, (Val){i}, (Val){i});
}

bool ir_pass_plan_check(Fn *f) {
  Check c = {.f = f, .ok = true};
  make_cuts(&c);
  c.held = rt_alloc(f->prog->mem, f->n_bufs * sizeof *c.held);
  for (uint32_t b = 1; b < f->n_bufs; b++) check_place(&c, b);
  for (uint32_t k = 0; k < f->n_kernels && c.ok; k++) play_kernel(&c, &f->kernels[k]);
  return c.ok;
}
