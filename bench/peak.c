// memory: bytes of a training step, ours and the peers'.
//   a step     what it needs beside what lives between steps: of ours the arena (tn_plan.peak_bytes); of XLA temporaries, and
//              outputs that are no argument's memory, with parameters and moments donated (memory_analysis); of PyTorch the most that
//              its allocator has given out in one step beyond what was there before it, gradients among it
//   between    parameters and moments; ours constants and packed copies too; inputs are nowhere
//   resident   by how much the process grew since its weights were there (ru_maxrss): a step and moments, and whatever the
//              libraries keep. Of ours a step and moments by the plan.
#include "bench/measure.h"
#include "frontend/run/run.h"
#include <string.h>

static const char *const defaults[] = {"lstm256", "lstm256_rows", "transformer4", "gpt2", "resnet20", NULL};
static const double MIB = 1 << 20;

typedef struct {
  double step, between, weights;  // bytes
  double loss;
} Needs;

size_t bench_array_bytes(const tn_array *a) {
  size_t n = rt_dtype_bytes((RtDType)a->dtype);
  for (uint32_t d = 0; d < a->rank; d++) n *= (size_t)a->dims[d];
  return n;
}

// Without what optimizers keep
static double bytes_of_weights(tn_model *m) {
  double sum = 0;
  for (uint32_t k = 0; k < tn_param_count(m); k++) {
    tn_array a = tn_param_at(m, k);
    if (strncmp(tn_param_path(m, k), "optimizer.", strlen("optimizer."))) sum += (double)bench_array_bytes(&a);
    tn_param_end_write(m, k);
  }
  return sum;
}

static bool find_needs(const Options *o, const Workload *w, const char *weights, bool recompute, Needs *n) {
  tn_plan plan;
  void *state = bench_open(o, w, &(Opening){.weights = weights, .variant = "", .recompute = recompute});
  if (!state) return false;
  bool good = w->check(state, &n->loss) && tn_plan_of(w->model(state), w->function, &plan) == TN_OK;
  n->weights = bytes_of_weights(w->model(state));
  w->close(state);
  if (!good) return fprintf(stderr, "bench: %s: the first steps fail\n", w->name), false;
  n->step = (double)plan.peak_bytes;
  n->between = (double)(plan.param_bytes + plan.const_bytes + plan.packed_bytes);
  return true;
}

// Since the weights were there
static double grown(const Needs *n) { return n->step + n->between - n->weights; }

static void show(const char *workload, const char *who, const Needs *n, const Needs *ours, double resident) {
  double both = n->step + n->between, of = ours->step + ours->between;
  printf("| %s | %s | %.1f | %.1f | %.1f | %.2f | %.2f |", workload, who, n->step / MIB, n->between / MIB, both / MIB,
         n->step / ours->step, both / of);
  if (resident > 0) printf(" %.0f, %.2f |\n", resident / MIB, resident / grown(ours));
  else printf(" |\n");
  fflush(stdout);
}

static bool ask(Peer *p, Needs *n, double *resident) {
  char line[256];
  double most;
  return bench_peer_ask(p, "check", line, sizeof line) && sscanf(line, "loss %lf", &n->loss) == 1 &&
         bench_peer_ask(p, "memory", line, sizeof line) && sscanf(line, "%lf %lf", &most, resident) == 2 &&
         bench_peer_bytes(p, &n->step, &n->between);
}

// As installed: pages that glibc keeps would count as resident.
static bool show_peer(const Options *o, const Workload *w, const char *weights, const char *name, const Needs *ours) {
  Peer p = {0};
  Needs n = {0};
  double resident = 0;
  if (!bench_start_way(&p, bench_way(w, name, 0), o, w, name, weights)) return false;
  if (!ask(&p, &n, &resident)) return bench_peer_complain(&p, w->name, name);
  bench_peer_stop(&p);
  if (!bench_same_loss(w, "", ours->loss, name, n.loss)) return false;
  show(w->name, name, &n, ours, strncmp(name, "torch", 5) ? 0 : resident * MIB);
  return true;
}

static bool show_workload(const Options *o, const Workload *w, const char *weights) {
  Needs ours, again;
  if (!w->function) return fprintf(stderr, "bench: memory: %s has no function with a plan\n", w->name), false;
  if (!find_needs(o, w, weights, true, &again) || !find_needs(o, w, weights, false, &ours)) return false;
  show(w->name, "tenure", &ours, &ours, grown(&ours));
  show(w->name, "tenure --recompute", &again, &ours, grown(&again));
  for (int k = 0; k < o->n_vs; k++) {
    if (!bench_has_peer(o, w, o->vs[k])) printf("| %s | %s | none | | | | | |\n", w->name, o->vs[k]);
    else if (!show_peer(o, w, weights, o->vs[k], &ours)) return false;
  }
  return true;
}

int bench_peak(const Options *o, const char *weights) {
  const char *const one[] = {o->variant, NULL}, *const *names = o->variant ? one : defaults;
  int status = 0;
  printf("MiB; of ours: times what the plan without options needs\n"
         "| workload | | a step | between steps | both | a step, of ours | both, of ours | resident growth, of ours |\n"
         "|---|---|--:|--:|--:|--:|--:|--:|\n");
  for (; *names; names++) {
    const Workload *w = bench_find(*names);
    if (!w) return 2;
    if (!show_workload(o, w, weights)) status = 1;
  }
  return status;
}
