// curve: a training step in parts of the arena that its plan without a limit needs. Each part is compiled with .arena_limit
// and .recompute, and steps of it and of the plan without a limit are timed in turn. Parameters and state behind two steps
// must have the same bits. Then the peers, as they are and with parts of the forward run again in the backward: PyTorch by
// layer (torch.utils.checkpoint), its compiler by an activation memory budget. --case "WORKLOAD PERCENT": one part alone,
// 0: no limit; --steps N: N of each in turn.
#include "bench/measure.h"
#include "runtime/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const defaults[] = {"lstm256",   "transformer4", "transformer12_long", "gpt2",
                                       "gpt2_long", "resnet20",     "resnet50_training",  NULL};
static const double MIB = 1 << 20;
enum { ALL_PARTS = -1 };

typedef struct {
  void *state;
  tn_plan plan;
  double plan_ms;
  uint64_t hash;
} Opened;

// FNV-1a over words
static uint64_t hash_of(tn_model *m) {
  uint64_t h = 0xcbf29ce484222325;
  for (uint32_t k = 0; k < tn_param_count(m); k++) {
    tn_array a = tn_param_at(m, k);
    size_t n = bench_array_bytes(&a);
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
      uint64_t word = 0;
      memcpy(&word, (const char *)a.data + i, n - i < sizeof word ? n - i : sizeof word);
      h = (h ^ word) * 0x100000001b3;
    }
    tn_param_end_write(m, k);
  }
  return h;
}

// The sentence of E137 that begins with these words, to its end; "": there is none.
static const char *sentence(char *text, const char *words) {
  char *at = strstr(text, words);
  if (!at) return "";
  at[strcspn(at, "\n")] = 0;
  return at;
}

static bool open_part(const Options *o, const Workload *w, Opening *opening, Opened *p) {
  p->state = bench_open(o, w, opening);
  if (!p->state) return false;
  tn_model *m = w->model(p->state);
  p->plan_ms = tn_compile_info_of(m).passes_ms;
  if (!w->step(p->state) || !w->step(p->state) || tn_plan_of(m, w->function, &p->plan) != TN_OK)
    return fprintf(stderr, "bench: %s: %s\n", w->name, tn_error_text(m)), w->close(p->state), p->state = NULL, false;
  p->hash = hash_of(m);
  return true;
}

static double time_step(const Workload *w, void *state) {
  double start = rt_now_ms();
  return w->step(state) ? rt_now_ms() - start : INFINITY;
}

// Least ms of a step of each, in turn. Steps of a second and more are few.
static void time_both(const Options *o, const Workload *w, void *const state[2], double least[2]) {
  enum { MOST = 40, ENOUGH_MS = 6000, FEW = 2 };
  double begin = rt_now_ms();
  least[0] = least[1] = INFINITY;
  for (long k = 0; o->steps ? k < o->steps : k < MOST && (k < FEW || rt_now_ms() - begin < ENOUGH_MS); k++)
    for (int which = 0; which < 2; which++) {
      int one = (which + (int)k) % 2;  // neither is always first
      least[one] = fmin(least[one], time_step(w, state[one]));
    }
}

static void show_part(const Options *o, const Workload *w, const char *name, const Opened *part, const Opened *whole) {
  double least[2];
  time_both(o, w, (void *const[]){part->state, whole->state}, least);
  printf("| %s | %s | %.1f | %u, %u | %.0f | %.1f | %.1f | %+.1f %% | %s |\n", w->name, name,
         (double)part->plan.peak_bytes / MIB, part->plan.n_kernels, part->plan.n_again, part->plan_ms, least[0],
         least[1], 100 * (least[0] / least[1] - 1), part->hash == whole->hash ? "same" : "DIFFER");
  fflush(stdout);
}

// percent 0: no limit.
static bool run_part(const Options *o, const Workload *w, int percent, const Opened *whole) {
  char name[32] = "--recompute", why[4096] = "";
  Opening opening = {.variant = "", .recompute = true, .why = why, .why_size = sizeof why};
  Opened part = {0};
  if (percent) {
    opening.arena_limit = (size_t)whole->plan.peak_bytes / 100 * (size_t)percent;
    snprintf(name, sizeof name, "%d %%", percent);
  }
  double start = rt_now_ms();
  if (open_part(o, w, &opening, &part)) {
    show_part(o, w, name, &part, whole);
    w->close(part.state);
    return part.hash == whole->hash;
  }
  if (!strstr(why, "E137")) return fprintf(stderr, "bench: %s: %s\n", w->name, why), false;
  printf("| %s | %s | refused: %s | | %.0f | | | | |\n", w->name, name, sentence(why, "with kernels"),
         rt_now_ms() - start);
  fflush(stdout);
  return true;
}

// ---- peers
static bool run_peer_once(Peer *p, const Workload *w, const char *name, const char *how) {
  char line[256];
  double loss, least, median, step, between;
  if (!bench_peer_ask(p, "check", line, sizeof line) || sscanf(line, "loss %lf", &loss) != 1) return false;
  if (!bench_peer_ask(p, "8", line, sizeof line) || sscanf(line, "%lf %lf", &least, &median) != 2) return false;
  if (!bench_peer_bytes(p, &step, &between)) return false;
  printf("| %s | %s %s | %.1f | | | %.1f | | | |\n", w->name, name, how, step / MIB, least);
  fflush(stdout);
  return true;
}

static bool run_peer(const Options *o, const Workload *w, const char *weights, const char *name) {
  static const char *const by_layer[] = {"again", NULL}, *const budgets[] = {"again 0.75", "again 0.5", "again 0.35",
                                                                             "again 0.25", NULL};
  const char *const *ways = strstr(name, "-compile") ? budgets : by_layer;
  Peer p = {0};
  char line[256];
  int tuned = bench_n_ways(o, w, name) > 1;
  if (!bench_start_way(&p, bench_way(w, name, tuned), o, w, name, weights)) return false;
  bool good = run_peer_once(&p, w, name, "");
  for (; good && *ways; ways++) {
    good = bench_peer_ask(&p, *ways, line, sizeof line);
    if (good && !strcmp(line, "ok\n")) good = run_peer_once(&p, w, name, *ways);
  }
  if (!good) return bench_peer_complain(&p, w->name, name);
  bench_peer_stop(&p);
  return true;
}

// only: one part, or ALL_PARTS
static bool run_workload(const Options *o, const Workload *w, const char *weights, int only) {
  static const int percents[] = {0, 75, 50, 35, 25};
  Opened whole = {0};
  if (!w->function) return fprintf(stderr, "bench: curve: %s has no function with a plan\n", w->name), false;
  if (!open_part(o, w, &(Opening){.weights = weights, .variant = ""}, &whole)) return false;
  printf("| %s | 100 %% | %.1f | %u, 0 | %.0f | | | | |\n", w->name, (double)whole.plan.peak_bytes / MIB,
         whole.plan.n_kernels, whole.plan_ms);
  bool good = true;
  for (size_t k = 0; only == ALL_PARTS && k < sizeof percents / sizeof *percents; k++)
    good &= run_part(o, w, percents[k], &whole);
  if (only != ALL_PARTS) good &= run_part(o, w, only, &whole);
  w->close(whole.state);
  for (int k = 0; k < o->n_vs; k++)
    if (bench_has_peer(o, w, o->vs[k])) good &= run_peer(o, w, weights, o->vs[k]);
  return good;
}

int bench_curve(const Options *o, const char *weights) {
  char name[64] = "";
  int only = ALL_PARTS, status = 0;
  if (o->variant && (sscanf(o->variant, "%63s %d", name, &only) < 1 || only >= 100 || only < ALL_PARTS))
    return fprintf(stderr, "bench: curve: '%s' is no workload with a part below 100\n", o->variant), 2;
  const char *const one[] = {name, NULL}, *const *names = o->variant ? one : defaults;
  printf("MiB of the arena (peers: what a step needs beside parameters and moments), ms\n"
         "| workload | part | MiB | kernels, again | planning | step | without a limit, in turn | longer by | bits |\n"
         "|---|---|--:|--:|--:|--:|--:|--:|---|\n");
  for (; *names; names++) {
    const Workload *w = bench_find(*names);
    if (!w) return 2;
    if (!run_workload(o, w, weights, only)) status = 1;
  }
  return status;
}
