// tenure_bench WORKLOAD [--vs PEER --python PATH] [--rounds N] [--steps N] [--workers N] [--case TEXT] [--json]
//              [--root DIR]
// tenure_bench WORKLOAD --compile [--rounds N]      cold compile times alone, with the CPU time that they took
// tenure_bench lengths [--rounds N] [--workers N]   packed sequences against a dense batch of as many rows:
// bench/lengths.c tenure_bench --report PAGE [--vs PEER ..] [WORKLOAD ..]   all or some workloads as an HTML page:
// bench/report.c
//
// Bursts of ours and of the peer alternate, so that both meet the same moods of the machine. The minimum is over all
// steps; the median is that of the bursts' medians. Before any timing both must compute the same number from the same
// weights: for training the loss after two updates.
//
// A peer is a program: SCRIPT ROOT WEIGHTS WORKLOAD PEER. It answers `loss X` to the line `check`, `MIN MEDIAN` (ms for
// a call) to a line with a number of steps, and, where the workload has several cases, `ok` to `case TEXT`.
// $TENURE_PEER_THREADS is the number of threads that it may use.
#include "bench/bench.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const Workload *const workloads[] = {
    &bench_vowels, &bench_lstm256, &bench_lstm64, &bench_gru256,    &bench_bilstm256, &bench_mlp,          &bench_tiny,
    &bench_chain,  &bench_softmax, &bench_gemm,   &bench_gemm_gelu, &bench_adamw,     &bench_transformer4,
};
enum { MAX_ROUNDS = 1000, MAX_STEPS = 100000, BURST_MS = 300, MAX_BURST_MS = 1500, N_LEAST = 5 };

typedef struct {
  const char *self, *workload, *vs, *python, *root, *variant;
  long rounds, steps, workers;  // rounds 0: 8, or 3 for each of several cases; steps 0: what fills BURST_MS
  bool json, compile;
} Options;

typedef struct {
  double min, medians[MAX_ROUNDS];  // ms for a call
  int n;
  long steps;
} Times;

typedef struct {
  Times ours, theirs;
  double loss, peer_loss, gflops, gbs;  // gflops, gbs: the machine's
  tn_compile_info compiled;
  double rss;  // peak of ours so far, MB, before the probes take memory
  uint32_t n_workers;
} Outcome;

// ---- small things
static int order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const double *v, int n) {
  double sorted[MAX_ROUNDS];
  memcpy(sorted, v, sizeof(double) * (size_t)n);
  qsort(sorted, (size_t)n, sizeof *sorted, order);
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void add_burst(Times *t, double min, double med) {
  if (!t->n || min < t->min) t->min = min;
  t->medians[t->n++] = med;
}

static int complain(const char *text, const char *detail) {
  fprintf(stderr, "bench: %s%s\n", text, detail);
  return 2;
}

static long steps_for(double ms_of_step) {
  double n = BURST_MS / (ms_of_step > 1e-4 ? ms_of_step : 1e-4);
  return n < N_LEAST ? N_LEAST : n > MAX_STEPS ? MAX_STEPS : (long)n;
}

// ---- bursts. A burst that the machine's other programs stretch beyond MAX_BURST_MS ends early.
static bool our_burst(const Workload *w, void *state, long n, double *min, double *med) {
  double *ms = malloc(sizeof *ms * (size_t)n), calls = w->calls ? w->calls : 1;
  if (!ms) return false;
  bool ok = true;
  double end = now_ms() + MAX_BURST_MS;
  long done = 0;
  for (; ok && done < n && (done < N_LEAST || now_ms() < end); done++) {
    double start = now_ms();
    ok = w->step(state);
    ms[done] = (now_ms() - start) / calls;
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

// Warm caches and threads, and how many steps make a burst.
static bool warm_up(const Options *o, const Workload *w, void *state, Peer *peer, Outcome *r) {
  double min, med, calls = w->calls ? w->calls : 1;
  if (!our_burst(w, state, N_LEAST, &min, &med)) return false;
  r->ours.steps = o->steps ? o->steps : steps_for(min * calls);
  if (!our_burst(w, state, r->ours.steps, &min, &med)) return false;
  struct rusage used;
  if (getrusage(RUSAGE_SELF, &used) == 0) r->rss = (double)used.ru_maxrss / 1024;
  if (!peer) return true;
  if (!peer_burst(peer, N_LEAST, &min, &med)) return false;
  r->theirs.steps = o->steps ? o->steps / 4 + 1 : steps_for(min * calls);
  return peer_burst(peer, r->theirs.steps, &min, &med);
}

static bool alternate(const Options *o, const Workload *w, void *state, Peer *peer, Outcome *r) {
  if (!warm_up(o, w, state, peer, r)) return false;
  double min, med;
  for (long k = 0; k < o->rounds; k++) {
    double gflops = bench_peak_gflops(r->n_workers);
    double gbs = (w->updates ? bench_update_bandwidth : bench_bandwidth)(r->n_workers);
    if (gflops > r->gflops) r->gflops = gflops;
    if (gbs > r->gbs) r->gbs = gbs;
    if (!our_burst(w, state, r->ours.steps, &min, &med)) return false;
    add_burst(&r->ours, min, med);
    if (!peer) continue;
    if (!peer_burst(peer, r->theirs.steps, &min, &med)) return false;
    add_burst(&r->theirs, min, med);
  }
  return true;
}

// ---- the peer
static bool start_peer(Peer *p, const Options *o, const Workload *w, const char *weights) {
  char name[64], script[4096], n[16];
  snprintf(n, sizeof n, "%ld", o->workers);
  if (!strcmp(o->vs, "openblas")) {
    bench_openblas_kernels();
    return bench_peer_start(p, (char *[]){(char *)o->self, "--as-openblas", (char *)w->name, n, NULL});
  }
  char family[32];
  snprintf(family, sizeof family, "%.*s", (int)strcspn(o->vs, "-"), o->vs);
  snprintf(name, sizeof name, w->peer, family);
  snprintf(script, sizeof script, "%s/%s", o->root, name);
  if (access(script, R_OK)) return false;
  return bench_peer_start(
      p, (char *[]){(char *)o->python, script, (char *)o->root, (char *)weights, (char *)w->name, (char *)o->vs, NULL});
}

static bool same_loss(const Workload *w, void *state, Peer *p, const char *variant, Outcome *r) {
  char line[256], question[128];
  if (!w->check(state, &r->loss)) return false;
  snprintf(question, sizeof question, "case %s", variant);
  r->peer_loss = NAN;  // no answer
  if (w->cases && (!bench_peer_ask(p, question, line, sizeof line) || strcmp(line, "ok\n"))) return false;
  if (!bench_peer_ask(p, "check", line, sizeof line) || sscanf(line, "loss %lf", &r->peer_loss) != 1) return false;
  return fabs(r->loss - r->peer_loss) <= (w->tolerance > 0 ? w->tolerance : 1e-5) * fabs(r->peer_loss);
}

// ---- results
static double compile_ms(const tn_compile_info *c) { return c->build_ms + c->passes_ms + c->codegen_ms + c->load_ms; }

static void print_times(const char *name, const Times *t) {
  bool small = t->min < 0.1;
  double unit = small ? 1e3 : 1;
  printf("%-13s min %9.3f %s  median %9.3f %s  (%d bursts of %ld)\n", name, t->min * unit, small ? "us" : "ms",
         median(t->medians, t->n) * unit, small ? "us" : "ms", t->n, t->steps);
}

static void print_limits(const Outcome *r, double flops, double bytes) {
  double ms = r->ours.min, by_flops = r->gflops > 0 ? flops / r->gflops * 1e-6 : 0, by_bytes = bytes / r->gbs * 1e-6;
  printf("machine       %.0f GFLOP/s, %.1f GB/s (%u threads, this run)\n", r->gflops, r->gbs, r->n_workers);
  if (flops > 0)
    printf("arithmetic    %.2f GFLOP: %.3f ms at peak, reached %.0f GFLOP/s, %.0f %%\n", flops * 1e-9, by_flops,
           flops / ms * 1e-6, 100 * by_flops / ms);
  if (bytes > 0)
    printf("memory        %.1f MB: %.3f ms at that bandwidth, reached %.1f GB/s, %.0f %%\n", bytes * 1e-6, by_bytes,
           bytes / ms * 1e-6, 100 * by_bytes / ms);
}

static void print_text(const Options *o, const Workload *w, const char *variant, const Outcome *r, double flops,
                       double bytes) {
  printf("%s: %s\n", w->name, *variant ? variant : w->what);
  printf("compile       %.1f ms%s, %u kernels, %u distinct; peak resident memory %.0f MB\n", compile_ms(&r->compiled),
         r->compiled.from_cache ? " (from the cache)" : "", r->compiled.n_kernels, r->compiled.n_distinct_kernels,
         r->rss);
  print_limits(r, flops, bytes);
  print_times("tenure", &r->ours);
  if (!r->theirs.n) {
    printf("no peer: --vs torch --python PATH names a Python that has PyTorch\n");
    return;
  }
  print_times(o->vs, &r->theirs);
  printf("check         tenure %.8g, %s %.8g\n", r->loss, o->vs, r->peer_loss);
}

static void print_json(const Options *o, const Workload *w, const char *variant, const Outcome *r, double flops,
                       double bytes) {
  double med = median(r->ours.medians, r->ours.n);
  printf("{\"workload\": \"%s\", \"case\": \"%s\", \"workers\": %u, \"peak_gflops\": %.1f, \"bandwidth_gbs\": %.2f, "
         "\"flops\": %.0f, \"bytes\": %.0f, \"compile_ms\": %.2f, \"from_cache\": %s, \"peak_rss_mb\": %.1f, ",
         w->name, variant, r->n_workers, r->gflops, r->gbs, flops, bytes, compile_ms(&r->compiled),
         r->compiled.from_cache ? "true" : "false", r->rss);
  printf("\"tenure\": {\"min_ms\": %.6f, \"median_ms\": %.6f}", r->ours.min, med);
  if (r->theirs.n) {
    double peer_med = median(r->theirs.medians, r->theirs.n);
    printf(", \"peer\": {\"name\": \"%s\", \"min_ms\": %.6f, \"median_ms\": %.6f}, \"ratio_min\": %.3f, "
           "\"ratio_median\": %.3f",
           o->vs, r->theirs.min, peer_med, r->theirs.min / r->ours.min, peer_med / med);
  }
  printf("}\n");
}

// ---- one case
typedef struct {
  double log_min, log_median;  // sums over cases
  double worst;
  int n;
} Ratios;

static void add_ratio(Ratios *s, const Outcome *r) {
  if (!r->theirs.n) return;
  double ratio = r->theirs.min / r->ours.min;
  s->log_min += log(ratio);
  s->log_median += log(median(r->theirs.medians, r->theirs.n) / median(r->ours.medians, r->ours.n));
  if (!s->n++ || ratio < s->worst) s->worst = ratio;
}

static int measure(const Options *o, const Workload *w, void *state, Peer *peer, const char *variant, Ratios *sum) {
  static Outcome r;  // large
  r = (Outcome){.compiled = tn_compiled(w->model(state)), .n_workers = tn_n_workers(w->model(state))};
  if (peer && !same_loss(w, state, peer, variant, &r)) {
    if (isnan(r.peer_loss)) fprintf(stderr, "bench: %s %s: %s gives no loss\n", w->name, variant, o->vs);
    else
      fprintf(stderr, "bench: %s %s: results from the same weights differ: tenure %.8g, %s %.8g\n", w->name, variant,
              r.loss, o->vs, r.peer_loss);
    return 1;
  }
  if (!alternate(o, w, state, peer, &r)) return complain("a step failed: ", "ours or the peer's");
  double flops = w->flops, bytes = w->bytes;
  if (w->limits) w->limits(variant, &flops, &bytes);
  (o->json ? print_json : print_text)(o, w, variant, &r, flops, bytes);
  fflush(stdout);
  add_ratio(sum, &r);
  return 0;
}

static int run_case(const Options *o, const Workload *w, Peer *peer, const char *weights, const char *variant,
                    Ratios *sum) {
  char why[512] = "";
  Opening opening = {.root = o->root,
                     .weights = weights,
                     .variant = variant,
                     .n_workers = (uint32_t)o->workers,
                     .why = why,
                     .why_size = sizeof why};
  void *state = w->open(&opening);
  if (!state) return complain(w->name, *why ? why : ": out of memory");
  int status = 0;
  if (o->vs && !peer->pid && !start_peer(peer, o, w, weights)) status = complain("no such peer: ", o->vs);
  if (!status) status = measure(o, w, state, o->vs ? peer : NULL, variant, sum);
  w->close(state);
  return status;
}

// ---- compile time
static double cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

// The first compilation of the process is not counted: it loads LLVM's pages.
static int time_compilation(const Options *o, const Workload *w, const char *weights) {
  double least[5] = {0};
  for (long k = -1; k < o->rounds; k++) {
    char why[512] = "";
    Opening opening = {.root = o->root,
                       .weights = weights,
                       .variant = o->variant ? o->variant
                                  : w->cases ? w->cases[0]
                                             : "",
                       .n_workers = (uint32_t)o->workers,
                       .cache_dir = "",
                       .why = why,
                       .why_size = sizeof why};
    double start = cpu_ms();
    void *state = w->open(&opening);
    if (!state) return complain(w->name, why);
    tn_compile_info c = tn_compiled(w->model(state));
    double now[] = {compile_ms(&c), c.passes_ms, c.codegen_ms, c.load_ms, cpu_ms() - start};
    for (int i = 0; i < 5; i++)
      if (k <= 0 || now[i] < least[i]) least[i] = now[i];
    w->close(state);
  }
  printf("%s compile-min %.1f ms: passes %.1f, code %.1f, load %.1f; CPU time with initialisation %.1f ms\n", w->name,
         least[0], least[1], least[2], least[3], least[4]);
  return 0;
}

static int run_workload(const Options *o, const Workload *w, const char *weights) {
  Peer peer = {0};
  Ratios sum = {0};
  const char *const one[] = {"", NULL}, *const *list = w->cases ? w->cases : one;
  int status = 0;
  for (size_t k = 0; list[k] && !status; k++)
    if (!o->variant || !strcmp(o->variant, list[k])) status = run_case(o, w, &peer, weights, list[k], &sum);
  bench_peer_stop(&peer);
  if (status || !sum.n || o->json) return status;
  if (sum.n > 1) printf("%d cases, geometric mean below, least ratio-min %.2f\n", sum.n, sum.worst);
  printf("%s ratio-min %.2f ratio-median %.2f\n", w->name, exp(sum.log_min / sum.n), exp(sum.log_median / sum.n));
  return 0;
}

// ---- options
static bool number(const char *s, long lo, long hi, long *out) {
  char *end;
  *out = strtol(s, &end, 10);
  return *s && !*end && *out >= lo && *out <= hi;
}

static bool parse(Options *o, int argc, char **argv) {
  for (int k = 1; k < argc; k++) {
    const char *a = argv[k], *value = k + 1 < argc ? argv[k + 1] : NULL;
    if (!strcmp(a, "--json") || !strcmp(a, "--compile")) {
      *(a[2] == 'j' ? &o->json : &o->compile) = true;
      continue;
    }
    if (a[0] != '-' && !o->workload) {
      o->workload = a;
      continue;
    }
    if (!value) return false;
    k++;
    if (!strcmp(a, "--vs")) o->vs = value;
    else if (!strcmp(a, "--python")) o->python = value;
    else if (!strcmp(a, "--root")) o->root = value;
    else if (!strcmp(a, "--case")) o->variant = value;
    else if (!strcmp(a, "--rounds") && number(value, 1, MAX_ROUNDS, &o->rounds)) continue;
    else if (!strcmp(a, "--steps") && number(value, 1, MAX_STEPS, &o->steps)) continue;
    else if (!strcmp(a, "--workers") && number(value, 1, 64, &o->workers)) continue;
    else return false;
  }
  return o->workload != NULL;
}

static const Workload *find_workload(const char *name) {
  for (size_t k = 0; k < sizeof workloads / sizeof *workloads; k++)
    if (!strcmp(workloads[k]->name, name)) return workloads[k];
  fprintf(stderr, "bench: no workload %s; there are", name);
  for (size_t k = 0; k < sizeof workloads / sizeof *workloads; k++) fprintf(stderr, " %s", workloads[k]->name);
  fprintf(stderr, "\n");
  return NULL;
}

static void give_threads_to_peer(const Options *o) {
  char n[16];
  snprintf(n, sizeof n, "%ld", o->workers);
  setenv("TENURE_PEER_THREADS", n, 1);
  setenv("OMP_NUM_THREADS", n, 1);
}

// --report PAGE, then names of workloads and options in any order.
static int report(int argc, char **argv) {
  enum { N_ALL = sizeof workloads / sizeof *workloads, MOST = 64 };
  const char *names[MOST];
  char *pass[MOST], self[4096];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  BenchReport r = {.self = self, .workloads = names, .pass = pass};
  for (int k = 1; k < argc; k++) {
    bool last = k + 1 == argc;
    if (r.n_pass > MOST - 2 || r.n_workloads == MOST || (argv[k][0] == '-' && last))
      return complain("usage: ", "--report PAGE [--vs PEER --python PATH] [--rounds N] [WORKLOAD ..]");
    if (!strcmp(argv[k], "--report")) r.path = argv[++k];
    else if (argv[k][0] == '-') pass[r.n_pass++] = argv[k], pass[r.n_pass++] = argv[++k];
    else if (find_workload(argv[k])) names[r.n_workloads++] = argv[k];
    else return 2;
  }
  if (len <= 0) return complain("no such file: ", "/proc/self/exe");
  self[len] = 0;
  for (size_t k = 0, all = !r.n_workloads; all && k < N_ALL; k++) names[r.n_workloads++] = workloads[k]->name;
  return bench_report(&r);
}

int main(int argc, char **argv) {
  for (int k = 1; k < argc; k++)
    if (!strcmp(argv[k], "--report")) return report(argc, argv);
  if (argc == 4 && !strcmp(argv[1], "--as-openblas"))
    return bench_openblas(argv[2], (uint32_t)strtol(argv[3], NULL, 10));
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  Options o = {.self = "/proc/self/exe", .root = ".", .workers = cpus < 1 ? 1 : cpus > 64 ? 64 : cpus};
  if (!parse(&o, argc, argv))
    return complain(
        "usage: ",
        "WORKLOAD [--vs PEER --python PATH] [--case TEXT] [--rounds N] [--steps N] [--workers N] [--json | --compile]");
  if (!strcmp(o.workload, "lengths")) return bench_lengths((uint32_t)o.workers, o.rounds ? o.rounds : 8);
  const Workload *w = find_workload(o.workload);
  if (!w) return 2;
  if (!o.python && o.vs && strcmp(o.vs, "openblas")) {
    fprintf(stderr, "bench: --vs %s wants --python PATH, a Python that has it; ours alone is timed\n", o.vs);
    o.vs = NULL;
  }
  if (!o.rounds) o.rounds = w->cases && !o.variant ? 3 : 8;
  signal(SIGPIPE, SIG_IGN);
  give_threads_to_peer(&o);
  char weights[] = "/tmp/tenure_bench_XXXXXX";
  int fd = mkstemp(weights);
  if (fd < 0) return complain("cannot write to ", "/tmp");
  close(fd);
  int status = (o.compile ? time_compilation : run_workload)(&o, w, weights);
  unlink(weights);
  return status;
}
