// tenure_bench WORKLOAD [--vs PEER --python PATH] [--rounds N] [--steps N] [--workers N] [--json] [--root DIR]
//
// Bursts of ours and of the peer alternate, so that both meet the same moods of the machine. The minimum is over all
// steps; the median is that of the bursts' medians. Before any timing both must compute the same loss from the same
// weights.
//
// A peer is a program that is given the tree's root and a weights file, answers `loss X` to the line `check`, and
// `MIN MEDIAN` (ms) to a line with a number of steps.
#include "bench/bench.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const Workload *const workloads[] = {&bench_vowels};
enum { MAX_ROUNDS = 1000, MAX_STEPS = 100000 };

typedef struct {
  const char *workload, *vs, *python, *root;
  long rounds, steps, workers;
  bool json;
} Options;

typedef struct {
  double min, medians[MAX_ROUNDS];  // ms
  int n;
} Times;

typedef struct {
  pid_t pid;
  FILE *in, *out;
} Peer;

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

// ---- ours
static bool burst(const Workload *w, void *state, long n, double *min, double *med) {
  double *ms = malloc(sizeof *ms * (size_t)n);
  if (!ms) return false;
  bool ok = true;
  for (long k = 0; ok && k < n; k++) {
    double start = now_ms();
    ok = w->step(state);
    ms[k] = now_ms() - start;
  }
  qsort(ms, (size_t)n, sizeof *ms, order);
  *min = ms[0];
  *med = ms[n / 2];
  free(ms);
  return ok;
}

// ---- the peer's process
static bool start_peer(Peer *p, const Options *o, const Workload *w, const char *weights) {
  char name[64], script[4096];
  snprintf(name, sizeof name, w->peer, o->vs);
  snprintf(script, sizeof script, "%s/%s", o->root, name);
  int to[2], from[2];
  if (access(script, R_OK) || pipe(to)) return false;
  if (pipe(from)) {
    close(to[0]);
    close(to[1]);
    return false;
  }
  p->pid = fork();
  if (p->pid == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    close(to[0]);
    close(to[1]);
    close(from[0]);
    close(from[1]);
    execlp(o->python, o->python, script, o->root, weights, (char *)NULL);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  p->in = fdopen(to[1], "w");
  p->out = fdopen(from[0], "r");
  return p->pid > 0 && p->in && p->out;
}

static bool ask_peer(Peer *p, const char *question, char *answer, int size) {
  return fprintf(p->in, "%s\n", question) > 0 && fflush(p->in) == 0 && fgets(answer, size, p->out) != NULL;
}

static void stop_peer(Peer *p) {
  if (p->in) fclose(p->in);
  if (p->out) fclose(p->out);
  if (p->pid > 0) waitpid(p->pid, NULL, 0);
}

static bool peer_burst(Peer *p, long n, double *min, double *med) {
  char line[256], question[32];
  snprintf(question, sizeof question, "%ld", n);
  return ask_peer(p, question, line, sizeof line) && sscanf(line, "%lf %lf", min, med) == 2 && *min > 0;
}

// ---- comparing
static bool same_loss(const Workload *w, void *state, Peer *p, double *ours, double *theirs) {
  char line[256];
  if (!w->check(state, ours)) return false;
  if (!ask_peer(p, "check", line, sizeof line) || sscanf(line, "loss %lf", theirs) != 1) return false;
  return fabs(*ours - *theirs) <= 1e-5 * fabs(*theirs);
}

static bool alternate(const Options *o, const Workload *w, void *state, Peer *peer, Times *ours, Times *theirs) {
  double min, med;
  for (long k = -1; k < o->rounds; k++) {  // round -1 warms up
    if (!burst(w, state, o->steps, &min, &med)) return false;
    if (k >= 0) add_burst(ours, min, med);
    if (!peer) continue;
    if (!peer_burst(peer, o->steps / 4 + 1, &min, &med)) return false;
    if (k >= 0) add_burst(theirs, min, med);
  }
  return true;
}

static void print_text(const Options *o, const Workload *w, uint32_t n_workers, const Times *ours, const Times *theirs,
                       double peak) {
  double med = median(ours->medians, ours->n);
  printf("%s: %s\n", w->name, w->what);
  printf("probe   %.0f GFLOP/s on one core\n", peak);
  printf("tenure  min %8.3f ms  median %8.3f ms  (%u workers, %d bursts of %ld)\n", ours->min, med, n_workers, ours->n,
         o->steps);
  if (!theirs->n) {
    printf("no peer: --vs torch --python PATH names a Python that has PyTorch\n");
    return;
  }
  double peer_med = median(theirs->medians, theirs->n);
  printf("%-7s min %8.3f ms  median %8.3f ms  (%d bursts of %ld)\n", o->vs, theirs->min, peer_med, theirs->n,
         o->steps / 4 + 1);
  printf("%s ratio-min %.2f ratio-median %.2f\n", w->name, theirs->min / ours->min, peer_med / med);
}

static void print_json(const Options *o, const Workload *w, uint32_t n_workers, const Times *ours, const Times *theirs,
                       double peak) {
  double med = median(ours->medians, ours->n);
  printf(
      "{\"workload\": \"%s\", \"workers\": %u, \"probe_gflops\": %.1f, \"tenure\": {\"min_ms\": %.4f, \"median_ms\": "
      "%.4f}",
      w->name, n_workers, peak, ours->min, med);
  if (theirs->n) {
    double peer_med = median(theirs->medians, theirs->n);
    printf(", \"%s\": {\"min_ms\": %.4f, \"median_ms\": %.4f}, \"ratio_min\": %.3f, \"ratio_median\": %.3f", o->vs,
           theirs->min, peer_med, theirs->min / ours->min, peer_med / med);
  }
  printf("}\n");
}

static int compare(const Options *o, const Workload *w, void *state, const char *weights) {
  Peer peer = {0};
  static Times ours, theirs;
  double loss = 0, peer_loss = 0;
  int status = 0;
  if (o->vs && !start_peer(&peer, o, w, weights)) status = complain("no such peer: ", o->vs);
  if (!status && o->vs && !same_loss(w, state, &peer, &loss, &peer_loss)) {
    fprintf(stderr, "bench: losses from the same weights differ: tenure %.8g, %s %.8g\n", loss, o->vs, peer_loss);
    status = 1;
  }
  if (!status && o->vs && !o->json) printf("same weights, first loss: tenure %.7f, %s %.7f\n", loss, o->vs, peer_loss);
  if (!status && !alternate(o, w, state, o->vs ? &peer : NULL, &ours, &theirs))
    status = complain("a step failed: ", "ours or the peer's");
  stop_peer(&peer);
  if (status) return status;
  (o->json ? print_json : print_text)(o, w, w->n_workers(state), &ours, &theirs, bench_peak_gflops());
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
    if (!strcmp(a, "--json")) {
      o->json = true;
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
    else if (!strcmp(a, "--rounds") && number(value, 1, MAX_ROUNDS, &o->rounds)) continue;
    else if (!strcmp(a, "--steps") && number(value, 1, MAX_STEPS, &o->steps)) continue;
    else if (!strcmp(a, "--workers") && number(value, 0, 64, &o->workers)) continue;
    else return false;
  }
  return o->workload != NULL;
}

static const Workload *find_workload(const char *name) {
  for (size_t k = 0; k < sizeof workloads / sizeof *workloads; k++)
    if (!strcmp(workloads[k]->name, name)) return workloads[k];
  return NULL;
}

int main(int argc, char **argv) {
  Options o = {.root = ".", .rounds = 12, .steps = 200};
  if (!parse(&o, argc, argv))
    return complain("usage: ", "WORKLOAD [--vs PEER --python PATH] [--rounds N] [--steps N] [--workers N] [--json]");
  const Workload *w = find_workload(o.workload);
  if (!w) return complain("no such workload: ", o.workload);
  if (!o.python && o.vs) {
    fprintf(stderr, "bench: --vs %s wants --python PATH, a Python that has it; ours alone is timed\n", o.vs);
    o.vs = NULL;
  }
  signal(SIGPIPE, SIG_IGN);
  char weights[] = "/tmp/tenure_bench_XXXXXX", why[512] = "";
  int fd = mkstemp(weights);
  if (fd < 0) return complain("cannot write to ", "/tmp");
  close(fd);
  void *state = w->open(o.root, weights, (uint32_t)o.workers, why, sizeof why);
  int status = state ? compare(&o, w, state, weights) : complain("", why);
  if (state) w->close(state);
  unlink(weights);
  return status;
}
