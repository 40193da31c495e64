// Exact search: is there an order whose peak is at most a cap? Depth first over sets of kernels that are done.
//
//   1. A kernel that fits and frees as much as it makes is done at once, and nothing else is tried: doing it later would
//      help none.
//   2. A set that failed before fails.
//   3. Each other kernel that fits is tried, the one that adds least first.
//
// Limits are counts: a unit is a state, or 16 looks at a kernel. Sets are known by a number of 64 bits for which a table has room; the stack is the list of what is done.
#include "ir/schedule/run.h"
#include <string.h>

enum { UNITS = 20000, TABLE = 65536, MOST_BRANCHES = 64 };

typedef struct {
  uint32_t depth;           // kernels that were done before its branches
  uint32_t first, n, next;  // branches, on the stack of them
  uint64_t set;
} Frame;

struct SchedSearch {
  Run *r;
  Frame *frames;
  uint32_t n_frames, *branches, n_branches, cap_branches;
  uint64_t *failed, n_failed;  // open addressing; 0 is a free slot
  bool is_cut;                 // branches were left out
};

SchedSearch *ir_sched_search(Run *r, RtArena *mem) {
  SchedSearch *s = rt_alloc(mem, sizeof *s);
  *s = (SchedSearch){.r = r, .frames = rt_alloc(mem, (r->p->n + 1) * sizeof *s->frames)};
  s->cap_branches = (r->p->n + 1) * MOST_BRANCHES;
  s->branches = rt_alloc(mem, s->cap_branches * sizeof *s->branches);
  s->failed = rt_alloc(mem, TABLE * sizeof *s->failed);
  return s;
}

static uint64_t *slot_of(SchedSearch *s, uint64_t set) {
  uint64_t at = set & (TABLE - 1);
  while (s->failed[at] && s->failed[at] != set) at = (at + 1) & (TABLE - 1);
  return &s->failed[at];
}

static void note_failed(SchedSearch *s, uint64_t set) {
  uint64_t *slot = slot_of(s, set);
  if (!*slot && s->n_failed < TABLE / 2) *slot = set, s->n_failed++;
}

// In units: what it took.
static int64_t do_safe(Run *r, int64_t cap) {
  uint32_t n_looks = 0, n_done = r->n_done;
  for (uint32_t i = 0; i < r->n_ready; n_looks++) {
    uint32_t k = r->ready[i];
    bool is_safe = sched_net(r, k) <= 0 && r->held + sched_need(r, k) <= cap;
    if (is_safe) ir_sched_do(r, k);
    i = is_safe ? 0 : i + 1;
  }
  return (n_looks + r->n_done - n_done) / 16;
}

// Those that fit, the least net first.
static void open_frame(SchedSearch *s, int64_t cap) {
  Run *r = s->r;
  Frame *f = &s->frames[s->n_frames++];
  *f = (Frame){.depth = r->n_done, .first = s->n_branches, .set = r->set};
  uint32_t *list = s->branches + s->n_branches;
  for (uint32_t i = 0; i < r->n_ready; i++) {
    uint32_t k = r->ready[i], at = f->n;
    if (r->held + sched_need(r, k) > cap) continue;
    for (; at > 0; at--) {
      int64_t a = sched_net(r, list[at - 1]), b = sched_net(r, k);
      if (a < b || (a == b && list[at - 1] < k)) break;
      if (at < MOST_BRANCHES) list[at] = list[at - 1];
    }
    if (at < MOST_BRANCHES) list[at] = k;
    if (f->n < MOST_BRANCHES) f->n++;
    else s->is_cut = true;
  }
  s->n_branches += f->n;
}

SchedAnswer ir_sched_decide(SchedSearch *s, int64_t cap, int64_t *spent) {
  Run *r = s->r;
  while (r->n_done) ir_sched_undo(r);
  memset(s->failed, 0, TABLE * sizeof *s->failed);
  s->n_failed = s->n_frames = s->n_branches = 0, s->is_cut = false;
  for (int64_t end = *spent + UNITS; *spent < end;) {
    *spent += 1 + r->n_ready / 16;
    *spent += do_safe(r, cap);
    if (r->n_done == r->p->n) return SCHED_FOUND;
    if (*slot_of(s, r->set) != r->set) open_frame(s, cap);
    while (s->n_frames) {
      Frame *f = &s->frames[s->n_frames - 1];
      while (r->n_done > f->depth) ir_sched_undo(r);
      if (f->next < f->n) {
        ir_sched_do(r, s->branches[f->first + f->next++]);
        break;
      }
      note_failed(s, f->set);
      s->n_branches = f->first, s->n_frames--;
    }
    if (!s->n_frames) return s->is_cut ? SCHED_GAVE_UP : SCHED_NONE;
  }
  return SCHED_GAVE_UP;
}
