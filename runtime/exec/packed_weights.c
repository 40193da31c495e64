// Prepacked copies of parameters (packed_weights.h).
#include "runtime/exec/packed_weights.h"

#include <string.h>

enum { WORKER_BYTES = 64 * 1024 };  // to pack per worker: fewer are not worth a wake-up

bool rt_packed_weights_new(RtPackedWeights *p, const RtPlan *plan) {
  *p = (RtPackedWeights){.plan = plan, .changes = 1};
  uint32_t n = plan->n_packed_weights;
  if (!n) return true;
  p->block = rt_block_new(plan->packed_bytes);
  p->is_stale = rt_malloc(3 * (size_t)n);
  p->seen = rt_malloc(plan->n_functions * sizeof *p->seen);
  if (!p->block || !p->is_stale || !p->seen) return false;
  p->is_wanted = p->is_stale + n;
  p->is_open = p->is_wanted + n;
  memset(p->is_stale, 1, n);
  memset(p->is_wanted, 0, 2 * (size_t)n);
  memset(p->seen, 0, plan->n_functions * sizeof *p->seen);
  return true;
}

void rt_packed_weights_free(RtPackedWeights *p) {
  if (p->block) rt_block_free(p->block, p->plan->packed_bytes);
  rt_free(p->is_stale);
  rt_free(p->seen);
}

void rt_packed_weights_changed(RtPackedWeights *p, uint32_t param) {
  for (uint32_t k = 0; k < p->plan->n_packed_weights; k++)
    if (p->plan->packed_weights[k].param == param) p->is_stale[k] = 1, p->changes++;
}

void rt_packed_weights_changed_all(RtPackedWeights *p) {
  if (p->plan->n_packed_weights) memset(p->is_stale, 1, p->plan->n_packed_weights);
  p->changes++;
}

void rt_packed_weights_open(RtPackedWeights *p, uint32_t param, bool is_open) {
  for (uint32_t k = 0; k < p->plan->n_packed_weights; k++) {
    if (p->plan->packed_weights[k].param != param || p->is_open[k] == is_open) continue;
    p->is_open[k] = is_open;
    p->n_open += is_open ? 1 : UINT32_MAX;
    p->is_stale[k] = 1;
    p->changes++;
  }
}

static void make(RtPackedWeights *p, const RtFunction *f, TnFrame *frame, RtTeam *team) {
  int64_t bytes = 0;
  memset(p->is_wanted, 0, p->plan->n_packed_weights);
  for (uint32_t k = 0; k < f->n_packed_weights; k++) {
    uint32_t i = f->packed_weights[k];
    if (!p->is_stale[i] && !p->is_open[i]) continue;
    p->is_wanted[i] = 1;
    p->is_stale[i] = 0;
    atomic_fetch_add_explicit(&p->n_made, 1, memory_order_relaxed);
    bytes += p->plan->packed_weights[i].bytes;
  }
  if (!bytes) return;
  int64_t workers = bytes / WORKER_BYTES;
  uint32_t most = workers < 1 ? 1 : workers > RT_MAX_WORKERS ? RT_MAX_WORKERS : (uint32_t)workers;
  frame->stale = p->is_wanted;
  rt_team_enter(team, p->plan->pack, frame, most);
}

void rt_packed_weights_prepare(RtPackedWeights *p, uint32_t function, TnFrame *frame, RtTeam *team) {
  const RtFunction *f = &p->plan->functions[function];
  if (!f->n_packed_weights || (p->seen[function] == p->changes && !p->n_open)) return;
  make(p, f, frame, team);
  p->seen[function] = p->changes;
}

void rt_packed_weights_ran(RtPackedWeights *p, uint32_t function) {
  const RtFunction *f = &p->plan->functions[function];
  for (uint32_t k = 0; k < f->n_writes_weights; k++) p->is_stale[f->writes_weights[k]] = 1;
  p->changes += f->n_writes_weights != 0;
}
