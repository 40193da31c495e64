// Bursts. Those of ours and of the peers alternate, so that all meet the same moods of the machine. The minimum is over
// all steps; the median is that of the bursts' medians. A burst that the machine's other programs stretch ends early.
// A peer runs in several ways (ways.c): those whose first bursts are near the fastest are timed in every round, and the
// fastest of them is the peer's figure.
#include "bench/measure.h"
#include "runtime/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BURST_MS = 300, MAX_BURST_MS = 1500, CASE_BURST_MS = 100, N_LEAST = 5 };

static int order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(const double *v, int n) {
  double sorted[MAX_ROUNDS];
  memcpy(sorted, v, sizeof(double) * (size_t)n);
  qsort(sorted, (size_t)n, sizeof *sorted, order);
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static void add_burst(Times *t, double min, double med) {
  if (!t->n || min < t->min) t->min = min;
  t->medians[t->n++] = med;
}

// A workload of many cases has shorter bursts.
static long steps_for(const Workload *w, double ms_of_step) {
  double n = (w->cases ? CASE_BURST_MS : BURST_MS) / (ms_of_step > 1e-4 ? ms_of_step : 1e-4);
  return n < N_LEAST ? N_LEAST : n > MAX_STEPS ? MAX_STEPS : (long)n;
}

static bool our_burst(const Workload *w, void *state, long n, double *min, double *med) {
  double *ms = malloc(sizeof *ms * (size_t)n), calls = w->calls ? w->calls : 1;
  if (!ms) return false;
  bool ok = true;
  double end = rt_now_ms() + MAX_BURST_MS;
  long done = 0;
  for (; ok && done < n && (done < N_LEAST || rt_now_ms() < end); done++) {
    double start = rt_now_ms();
    ok = w->step(state);
    ms[done] = (rt_now_ms() - start) / calls;
  }
  n = done;
  qsort(ms, (size_t)n, sizeof *ms, order);
  *min = ms[0];
  *med = ms[n / 2];
  free(ms);
  return ok;
}

static bool peer_burst(Peer *p, long n, double *min, double *med) {
  char line[256], question[32];
  snprintf(question, sizeof question, "%ld", n);
  return bench_peer_ask(p, question, line, sizeof line) && sscanf(line, "%lf %lf", min, med) == 2 && *min > 0;
}

// ---- before: warm caches and threads, and how many steps make a burst
static bool warm_up(const Options *o, const Workload *w, void *state, Outcome *r) {
  double min, med, calls = w->calls ? w->calls : 1;
  if (!our_burst(w, state, N_LEAST, &min, &med)) return false;
  r->ours.steps = o->steps ? o->steps : steps_for(w, min * calls);
  if (!our_burst(w, state, r->ours.steps, &min, &med)) return false;
  if (!o->steps) r->ours.steps = steps_for(w, min * calls);
  struct rusage used;
  if (getrusage(RUSAGE_SELF, &used) == 0) r->rss = (double)used.ru_maxrss / 1024;
  if (getrusage(RUSAGE_CHILDREN, &used) == 0) r->rss = fmax(r->rss, (double)used.ru_maxrss / 1024);  // the compiler
  return true;
}

static bool warm_peer_up(const Options *o, const Workload *w, Peer *peer, Times *t, double *first) {
  double min, med, calls = w->calls ? w->calls : 1;
  if (!peer_burst(peer, N_LEAST, &min, &med)) return false;
  t->steps = o->steps ? o->steps / 4 + 1 : steps_for(w, min * calls);
  if (!peer_burst(peer, t->steps, &min, &med)) return false;
  if (!o->steps) t->steps = steps_for(w, min * calls);
  *first = min;
  return true;
}

// Which ways are worth more bursts: a slow one stays behind by far more than bursts differ.
static bool warm_ways_up(const Options *o, const Workload *w, const char *name, Contender *c) {
  const double near = 1.15;
  double least = INFINITY;
  for (int i = 0; i < c->n_ways; i++) {
    c->way[i] = (Times){0}, c->first[i] = 0;
    if (c->is_slow[i]) continue;
    if (!warm_peer_up(o, w, &c->process[i], &c->way[i], &c->first[i]))
      return bench_peer_complain(&c->process[i], w->name, name);
    least = fmin(least, c->first[i]);
  }
  for (int i = 0; i < c->n_ways; i++) c->is_slow[i] |= c->first[i] > near * least;
  return isfinite(least) || (fprintf(stderr, "bench: %s: %s can compute it in no way\n", w->name, name), false);
}

static void find_memory(Peer *peer, const char *name, double *most, double *growth) {
  char line[256];
  if (!strcmp(name, "openblas") || !bench_peer_ask(peer, "memory", line, sizeof line)) return;
  if (sscanf(line, "%lf %lf", most, growth) != 2) *most = *growth = 0;
}

bool bench_same_loss(const Workload *w, const char *variant, double loss, const char *peer, double peer_loss) {
  double tolerance = w->tolerance > 0 ? w->tolerance : 1e-5;
  if (fabs(loss - peer_loss) <= tolerance * fabs(peer_loss)) return true;
  fprintf(stderr, "bench: %s %s: results from the same weights differ: tenure %.8g, %s %.8g\n", w->name, variant, loss,
          peer, peer_loss);
  return false;
}

// Both find the same number from the same weights. cannot: the peer answers that it cannot compute the case in this way.
static bool same_loss(const Options *o, const Case *c, Peer *p, int k, double *peer_loss, bool *cannot) {
  char line[256], question[128];
  snprintf(question, sizeof question, "case %s", c->variant);
  bool answers = !c->w->cases || (bench_peer_ask(p, question, line, sizeof line) && !strcmp(line, "ok\n"));
  answers = answers && bench_peer_ask(p, "check", line, sizeof line);
  *cannot = answers && !strcmp(line, "cannot\n");
  if (*cannot) return true;
  answers = answers && sscanf(line, "loss %lf", peer_loss) == 1;
  if (!answers) return bench_peer_complain(p, c->w->name, o->vs[k]);
  return bench_same_loss(c->w, c->variant, c->r.loss, o->vs[k], *peer_loss);
}

static bool is_ready(const Options *o, void *state, Contender *peers, Case *c) {
  if (!c->w->check(state, &c->r.loss)) return fprintf(stderr, "bench: %s: the first steps fail\n", c->w->name), false;
  for (int k = 0; k < o->n_vs; k++)
    for (int i = 0; i < peers[k].n_ways; i++)
      if (!same_loss(o, c, &peers[k].process[i], k, &c->r.peer_loss[k], &peers[k].is_slow[i])) return false;
  if (!warm_up(o, c->w, state, &c->r)) return fprintf(stderr, "bench: %s: a step fails\n", c->w->name), false;
  for (int k = 0; k < o->n_vs; k++)
    if (!warm_ways_up(o, c->w, o->vs[k], &peers[k])) return false;
  return true;
}

// ---- rounds
// The machine's rates are the best that were seen since the program began: what other programs take is no limit of the machine.
static double best_gflops, best_gbs;

// False: other programs had a part of the machine, as the arithmetic shows; memory's rate drifts by itself.
static bool probe(Case *c) {
  const double quiet = 0.93;
  const Workload *w = c->w;
  Outcome *r = &c->r;
  double gflops = bench_peak_gflops(r->n_workers);
  double gbs = (w->bandwidth ? w->bandwidth : &bench_scaling)->rate(r->n_workers);
  best_gflops = fmax(best_gflops, gflops), best_gbs = fmax(best_gbs, gbs);
  r->gflops = best_gflops, r->gbs = best_gbs;
  if (c->counted && c->bytes > 0) r->sized_gbs = fmax(r->sized_gbs, bench_sized_gbs(r->n_workers, c->bytes));
  return gflops >= quiet * best_gflops;
}

static bool burst_of_ways(const char *workload, const char *name, Contender *c) {
  double min, med;
  for (int i = 0; i < c->n_ways; i++) {
    if (c->is_slow[i]) continue;
    if (!peer_burst(&c->process[i], c->way[i].steps, &min, &med))
      return bench_peer_complain(&c->process[i], workload, name);
    add_burst(&c->way[i], min, med);
  }
  return true;
}

static void take_fastest(const Options *o, const Workload *w, Contender *c, int k, Outcome *r) {
  int best = -1;
  for (int i = 0; i < c->n_ways; i++)
    if (!c->is_slow[i] && (best < 0 || c->way[i].min < c->way[best].min)) best = i;
  r->theirs[k] = c->way[best];
  r->way[k] = bench_way(w, o->vs[k], best)->name;
  for (int i = 0; i < c->n_ways; i++) r->ways[k][i] = c->is_slow[i] ? c->first[i] : c->way[i].min;
  find_memory(&c->process[best], o->vs[k], &r->peer_rss[k], &r->peer_growth[k]);
}

static bool one_round(const Options *o, void *state, Contender *peers, Case *c) {
  double min, med;
  Outcome *r = &c->r;
  if (!our_burst(c->w, state, r->ours.steps, &min, &med))
    return fprintf(stderr, "bench: %s: a step fails\n", c->w->name), false;
  add_burst(&r->ours, min, med);
  for (int k = 0; k < o->n_vs; k++)
    if (!burst_of_ways(c->w->name, o->vs[k], &peers[k])) return false;
  return true;
}

// Slower than a peer, or faster by so little that it may be luck
static bool is_close(const Options *o, const Outcome *r) {
  const double luck = 1.1;
  for (int k = 0; k < o->n_vs; k++)
    if (r->theirs[k].min < luck * r->ours.min) return true;
  return false;
}

// Of a workload with several cases, those that were disturbed or are not clearly faster than a peer get more rounds, ours and
// the peers'.
bool bench_measure(const Options *o, void *state, Contender *peers, Case *c) {
  enum { MORE = 2 };
  Outcome *r = &c->r;
  if (!is_ready(o, state, peers, c)) return false;
  bool many = c->w->cases && !o->variant;
  for (int turn = 0; turn < 1 + (many ? MORE : 0) && r->ours.n < MAX_ROUNDS; turn++) {
    r->n_disturbed = 0;
    for (long round = 0; round < o->rounds && r->ours.n < MAX_ROUNDS; round++) {
      bool quiet = probe(c);
      if (!one_round(o, state, peers, c)) return false;
      r->n_disturbed += !quiet;
    }
    for (int k = 0; k < o->n_vs; k++) take_fastest(o, c->w, &peers[k], k, r);
    if (!is_close(o, r) && 2 * r->n_disturbed <= o->rounds) break;
  }
  return true;
}
