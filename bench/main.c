// tenure_bench WORKLOAD [--vs PEER[,PEER ..]] [--python PATH] [--case TEXT] [--rounds N] [--steps N] [--workers N]
//              [--stock] [--json] [--root DIR]
//              a peer runs in several ways, of which the fastest counts (bench/ways.c); --stock: as installed alone
// tenure_bench WORKLOAD --compile [--rounds N] [--vs PEER ..]   cold compile times alone, with the CPU time that they took;
//              of a peer what its first call takes longer than its second, in a process whose caches are off
// tenure_bench compile [--layers N] [--rounds N] what compiling costs as programs grow: bench/compile.c; N: 100
// tenure_bench accuracy [--vs torch] [--case PART] [--bars]   errors of results beside doubles: bench/accuracy.c; PART: of a row's
//              text; --bars: only the rows that have bars, as test_accuracy
// tenure_bench memory [--vs torch,jax] [--case WORKLOAD]   bytes of a training step: bench/peak.c
// tenure_bench curve [--vs torch,torch-compile] [--case WORKLOAD] [--steps N]   a training step in parts of its arena: bench/curve.c;
//              N steps of each at most
// tenure_bench lengths [--rounds N]              packed sequences against a dense batch: bench/lengths.c
// tenure_bench --report PAGE [--vs PEER ..] [WORKLOAD ..]   all or some workloads as an HTML page, or as the table in PAGE.md:
//              bench/report.c; [--commit TEXT] names what was measured
//
// Before any timing ours and the peers must compute the same number from the same weights: for training the loss after
// two updates. How they are timed: bench/measure.c.
//
// A peer is a program: SCRIPT ROOT WEIGHTS WORKLOAD PEER. It answers `loss X` to the line `check`, or `cannot` where it cannot
// compute the case; `MIN MEDIAN` (ms for a call) to a line with a number of steps; `WALL CPU WALL CPU` (ms of the first and of
// the second call) to the line `compile`; where the workload has several cases, `ok` to `case TEXT`; to the line `memory`
// the MB that it had resident at most, and by how many that grew since its weights were there; to the line `peak` the bytes that a
// step needs beside what lives between steps, and the bytes of that; and to the line `again`, or `again BUDGET` with a part of
// them, `ok`: from then on parts of the forward run again in the backward, or `cannot`.
// $TENURE_PEER_THREADS is the number of threads that it may use.
#include "bench/measure.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const Workload *const workloads[] = {
    &bench_vowels,
    &bench_lstm256,
    &bench_lstm64,
    &bench_gru256,
    &bench_bilstm256,
    &bench_lstm256_rows,
    &bench_mlp,
    &bench_tiny,
    &bench_chain,
    &bench_softmax,
    &bench_gemm,
    &bench_gemm_plain,
    &bench_adamw,
    &bench_transformer4,
    &bench_transformer12,
    &bench_concat,
    &bench_cast,
    &bench_gpt2,
    &bench_gpt2_decode,
    &bench_ops,
    &bench_conv,
    &bench_resnet20,
    &bench_resnet50,
    &bench_pool,
    &bench_linalg,
    &bench_linear_scan,
    &bench_sweep,
    &bench_packed_attention,
    &bench_packed_transformer,
    &bench_decode_ragged,
    &bench_transformer12_long,
    &bench_gpt2_long,
    &bench_resnet50_training,
    &bench_mobilenet,
    &bench_efficientnet,
    &bench_convnext,
    &bench_sparse,
};
enum { N_WORKLOADS = sizeof workloads / sizeof *workloads };
static const char *const peer_names[] = {"torch", "torch-compile", "jax", "openblas"};
enum { N_PEER_NAMES = sizeof peer_names / sizeof *peer_names };

// ---- what there is
static int usage(FILE *out) {
  fputs("usage: bench WORKLOAD [--vs PEER[,PEER ..]] [--python PATH] [--case TEXT] [--rounds N] [--steps N]\n"
        "             [--workers N] [--stock] [--json | --compile]\n"
        "       bench --report PAGE.html|PAGE.md [--vs PEER[,PEER ..]] [--python PATH] [--rounds N] [WORKLOAD ..]\n"
        "       bench compile [--layers N] [--case TEXT] [--rounds N]\n"
        "       bench accuracy [--vs torch] [--python PATH] [--case PART] [--bars] [--workers N]\n"
        "       bench memory [--vs PEER[,PEER ..]] [--python PATH] [--case WORKLOAD]\n"
        "       bench curve [--vs PEER[,PEER ..]] [--python PATH] [--case WORKLOAD] [--steps N]\n"
        "       bench aot [WORKLOAD | FILE.tir ..]\n"
        "       bench aot --write FOLDER WORKLOAD ..\n"
        "       bench lengths [--rounds N] [--workers N]\nworkloads:",
        out);
  for (int k = 0; k < N_WORKLOADS; k++) fprintf(out, " %s", workloads[k]->name);
  fputs("\npeers:", out);
  for (int k = 0; k < N_PEER_NAMES; k++) fprintf(out, " %s", peer_names[k]);
  fputs("; PATH is a Python that has them (python3)\n", out);
  return out == stdout ? 0 : 2;
}

static int complain(const char *text, const char *detail) {
  fprintf(stderr, "bench: %s%s\n", text, detail);
  return 2;
}

const Workload *bench_find(const char *name) {
  for (size_t k = 0; k < N_WORKLOADS; k++)
    if (!strcmp(workloads[k]->name, name)) return workloads[k];
  fprintf(stderr, "bench: no workload %s; there are", name);
  for (size_t k = 0; k < N_WORKLOADS; k++) fprintf(stderr, " %s", workloads[k]->name);
  fprintf(stderr, "\n");
  return NULL;
}

// torch-compile is a way of torch's script.
static const char *script_of(const Options *o, const Workload *w, const char *peer) {
  static char path[4096];
  char name[64], family[32];
  snprintf(family, sizeof family, "%.*s", (int)strcspn(peer, "-"), peer);
  snprintf(name, sizeof name, w->peer, family);
  snprintf(path, sizeof path, "%s/%s", o->root, name);
  return path;
}

bool bench_has_peer(const Options *o, const Workload *w, const char *peer) {
  return strcmp(peer, "openblas") ? access(script_of(o, w, peer), R_OK) == 0 : w->has_openblas;
}

static bool check_peer(const Options *o, const Workload *w, const char *peer) {
  bool is_known = false;
  for (int k = 0; k < N_PEER_NAMES; k++) is_known |= !strcmp(peer, peer_names[k]);
  if (is_known && bench_has_peer(o, w, peer)) return true;
  fprintf(stderr, "bench: %s has no peer %s; it has", w->name, peer);
  for (int k = 0; k < N_PEER_NAMES; k++)
    if (bench_has_peer(o, w, peer_names[k])) fprintf(stderr, " %s", peer_names[k]);
  fprintf(stderr, "\n");
  return false;
}

static bool has_sizes(const Workload *w, const char *variant) {
  double flops = 0, bytes = 0;
  if (w->by_sizes) w->limits(variant, &flops, &bytes);
  return flops > 0;
}

static bool check_case(const Workload *w, const char *variant) {
  for (size_t k = 0; w->cases && w->cases[k]; k++)
    if (!strcmp(variant, w->cases[k])) return true;
  if (has_sizes(w, variant)) return true;
  if (!w->cases) return complain(w->name, " has no cases"), false;
  fprintf(stderr, "bench: %s has no case '%s'; there are", w->name, variant);
  for (size_t k = 0; w->cases[k]; k++) fprintf(stderr, "%s '%s'", k ? "," : "", w->cases[k]);
  fprintf(stderr, "\n");
  return false;
}

static bool check_options(const Options *o, const Workload *w) {
  if (o->variant && !check_case(w, o->variant)) return false;
  for (int k = 0; k < o->n_vs; k++)
    if (!check_peer(o, w, o->vs[k])) return false;
  return true;
}

static void drop_missing_peers(Options *o, const Workload *w) {
  int n = 0;
  for (int k = 0; k < o->n_vs; k++)
    if (bench_has_peer(o, w, o->vs[k])) o->vs[n++] = o->vs[k];
  o->n_vs = n;
}

// ---- one case
bool bench_start_way(Peer *p, const PeerWay *way, const Options *o, const Workload *w, const char *peer,
                     const char *weights) {
  char n[16];
  snprintf(n, sizeof n, "%ld", o->workers);
  if (!strcmp(peer, "openblas")) {
    bench_openblas_kernels();
    return bench_peer_start(p, way, (char *[]){(char *)o->self, "--as-openblas", (char *)w->name, n, NULL});
  }
  return bench_peer_start(p, way,
                          (char *[]){(char *)o->python, (char *)script_of(o, w, peer), (char *)o->root, (char *)weights,
                                     (char *)w->name, (char *)peer, NULL});
}

static bool start_peer(Contender *c, const Options *o, const Workload *w, const char *peer, const char *weights) {
  int n = bench_n_ways(o, w, peer);
  while (c->n_ways < n) {
    if (!bench_start_way(&c->process[c->n_ways], bench_way(w, peer, c->n_ways), o, w, peer, weights)) return false;
    c->n_ways++;
  }
  return true;
}

static void stop_peer(Contender *c) {
  for (int k = 0; k < c->n_ways; k++) bench_peer_stop(&c->process[k]);
  c->n_ways = 0;
}

static void find_limits(const Workload *w, void *state, Case *c) {
  tn_plan *plan = &c->r.plan;
  bool has_plan = w->function && tn_plan_of(w->model(state), w->function, plan) == TN_OK;
  c->flops = w->flops, c->bytes = w->bytes;
  if (w->limits) w->limits(c->variant, &c->flops, &c->bytes);
  if (c->flops > 0 || c->bytes > 0 || !has_plan) return;
  c->counted = true;
  c->flops = plan->flops * (w->filled ? w->filled(state) : 1), c->bytes = (double)plan->least_bytes;
}

static bool measure(const Options *o, const Workload *w, void *state, Contender *peers, const char *variant,
                    Summary *sum) {
  static Case c;  // large
  c = (Case){.w = w, .variant = variant};
  find_limits(w, state, &c);
  c.r.compiled = tn_compile_info_of(w->model(state));
  c.r.n_workers = tn_n_workers(w->model(state));
  if (!bench_measure(o, state, peers, &c)) return false;
  bench_show(o, &c);
  bench_sum(o, &c, sum);
  return true;
}

void *bench_open(const Options *o, const Workload *w, Opening *opening) {
  char why[512] = "out of memory";
  bool prints = !opening->why;
  opening->root = o->root, opening->n_workers = (uint32_t)o->workers;
  if (prints) opening->why = why, opening->why_size = sizeof why;
  void *state = w->open(opening);
  if (!state && prints) fprintf(stderr, "bench: %s: %s\n", w->name, why);
  return state;
}

static int run_case(const Options *o, const Workload *w, Contender *peers, const char *weights, const char *variant,
                    Summary *sum) {
  void *state = bench_open(o, w, &(Opening){.weights = weights, .variant = variant});
  if (!state) return 2;
  bool ok = true;
  for (int k = 0; ok && k < o->n_vs; k++)
    ok = start_peer(&peers[k], o, w, o->vs[k], weights) || !complain("cannot start ", o->vs[k]);
  ok = ok && measure(o, w, state, peers, variant, sum);
  w->close(state);
  return ok ? 0 : 1;
}

static int run_workload(const Options *o, const Workload *w, const char *weights) {
  static Contender peers[MAX_PEERS];  // large
  static Summary sum;                 // large
  const char *const one[] = {o->variant ? o->variant : "", NULL};
  const char *const *list = w->cases && !o->variant ? w->cases : one;
  int status = 0, n_failed = 0;
  for (size_t k = 0; list[k]; k++) {
    int now = run_case(o, w, peers, weights, list[k], &sum);
    if (!now) continue;
    for (int i = 0; i < o->n_vs; i++) stop_peer(&peers[i]);  // the next case has new ones
    if (list[1]) fprintf(stderr, "bench: %s %s failed\n", w->name, list[k]);
    status = now, n_failed++;
  }
  for (int k = 0; k < o->n_vs; k++) stop_peer(&peers[k]);
  bench_show_summary(o, w, &sum);
  if (n_failed && list[1]) fprintf(stderr, "bench: %d cases of %s failed\n", n_failed, w->name);
  return status;
}

// ---- compile time
static double cpu_ms_of(int who) {
  struct rusage r;
  if (getrusage(who, &r)) return 0;
  return 1e3 * (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
         1e-3 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

// Of this process and of the compilers that it started
static double cpu_ms(void) { return cpu_ms_of(RUSAGE_SELF) + cpu_ms_of(RUSAGE_CHILDREN); }

static int time_peer_compilation(const Options *o, const Workload *w, const char *weights, const char *name) {
  Peer p = {0};
  char line[256];
  double first[2], second[2];  // ms: elapsed, of CPU time
  if (!bench_start_way(&p, bench_way(w, name, 0), o, w, name, weights)) return complain("cannot start ", name);
  if (!bench_peer_ask(&p, "compile", line, sizeof line) ||
      sscanf(line, "%lf %lf %lf %lf", &first[0], &first[1], &second[0], &second[1]) != 4)
    return bench_peer_complain(&p, w->name, name), 1;
  bench_peer_stop(&p);
  printf("%s %s compile %.1f ms: first call %.1f, second %.1f; CPU time %.1f ms\n", w->name, name, first[0] - second[0],
         first[0], second[0], first[1] - second[1]);
  fflush(stdout);
  return 0;
}

// The first compilation of the process is not counted: it loads LLVM's pages.
static int time_compilation(const Options *o, const Workload *w, const char *weights) {
  const char *variant = o->variant ? o->variant : w->cases ? w->cases[0] : "";
  double least[6] = {0};
  for (long k = -1; k < o->rounds; k++) {
    double start = cpu_ms();
    void *state = bench_open(o, w, &(Opening){.weights = weights, .variant = variant, .cache_dir = ""});
    if (!state) return 2;
    tn_compile_info c = tn_compile_info_of(w->model(state));
    double all = c.build_ms + c.passes_ms + c.codegen_ms + c.load_ms;
    double now[] = {all, c.passes_ms, c.codegen_ms, c.load_ms, c.init_ms, cpu_ms() - start};
    for (int i = 0; i < 6; i++)
      if (k <= 0 || now[i] < least[i]) least[i] = now[i];
    w->close(state);
  }
  printf("%s compile-min %.1f ms: passes %.1f, code %.1f, load %.1f; initialisation %.1f ms; CPU time of all %.1f ms\n",
         w->name, least[0], least[1], least[2], least[3], least[4], least[5]);
  fflush(stdout);
  setenv("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1", 1);
  setenv("JAX_ENABLE_COMPILATION_CACHE", "false", 1);
  for (int k = 0; k < o->n_vs; k++)
    if (time_peer_compilation(o, w, weights, o->vs[k])) return 1;
  return 0;
}

// ---- options
static bool number(const char *option, const char *s, long lo, long hi, long *out) {
  char *end;
  *out = strtol(s, &end, 10);
  if (*s && !*end && *out >= lo && *out <= hi) return true;
  fprintf(stderr, "bench: %s wants a number from %ld to %ld, not '%s'\n", option, lo, hi, s);
  return false;
}

static bool add_peers(Options *o, char *list) {
  for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
    if (o->n_vs == MAX_PEERS) return complain("too many peers: ", name), false;
    o->vs[o->n_vs++] = name;
  }
  return o->n_vs > 0;
}

static bool set_option(Options *o, const char *name, char *value) {
  if (!strcmp(name, "--vs")) return add_peers(o, value);
  if (!strcmp(name, "--rounds")) return number(name, value, 1, MAX_ROUNDS, &o->rounds);
  if (!strcmp(name, "--steps")) return number(name, value, 1, MAX_STEPS, &o->steps);
  if (!strcmp(name, "--layers")) return number(name, value, 1, 10000, &o->layers);
  if (!strcmp(name, "--workers")) return number(name, value, 1, 64, &o->workers);
  const char **text = !strcmp(name, "--python") ? &o->python
                      : !strcmp(name, "--root") ? &o->root
                      : !strcmp(name, "--case") ? &o->variant
                                                : NULL;
  if (!text) return complain("no option ", name), false;
  *text = value;
  return true;
}

static bool parse(Options *o, int argc, char **argv) {
  for (int k = 1; k < argc; k++) {
    char *a = argv[k];
    if (!strcmp(a, "--json")) o->json = true;
    else if (!strcmp(a, "--stock")) o->stock = true;
    else if (!strcmp(a, "--compile")) o->compile = true;
    else if (!strcmp(a, "--bars")) o->bars = true;
    else if (!strcmp(a, "--where-there-is")) o->skip_missing = true;
    else if (a[0] != '-' && o->workload) return complain("one workload at a time; what is ", a), false;
    else if (a[0] != '-') o->workload = a;
    else if (k + 1 == argc) return complain(a, " wants a value"), false;
    else if (!set_option(o, a, argv[++k])) return false;
  }
  return o->workload || complain("which workload? --help lists them", "") == 0;
}

static void give_threads_to_peers(const Options *o) {
  char n[16];
  snprintf(n, sizeof n, "%ld", o->workers);
  setenv("TENURE_PEER_THREADS", n, 1);
  setenv("OMP_NUM_THREADS", n, 1);
}

// --report PAGE, then names of workloads and options in any order.
static int report(int argc, char **argv) {
  enum { MOST = 64 };
  const char *names[MOST];
  char *pass[MOST], self[4096];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  BenchReport r = {.self = self, .workloads = names, .pass = pass};
  for (int k = 1; k < argc; k++) {
    bool last = k + 1 == argc;
    if (r.n_pass > MOST - 2 || r.n_workloads == MOST || (argv[k][0] == '-' && last)) return usage(stderr);
    if (!strcmp(argv[k], "--report")) r.path = argv[++k];
    else if (!strcmp(argv[k], "--commit")) r.commit = argv[++k];
    else if (argv[k][0] == '-') pass[r.n_pass++] = argv[k], pass[r.n_pass++] = argv[++k];
    else if (bench_find(argv[k])) names[r.n_workloads++] = argv[k];
    else return 2;
  }
  if (len <= 0) return complain("no such file: ", "/proc/self/exe");
  self[len] = 0;
  for (size_t k = 0, all = !r.n_workloads; all && k < N_WORKLOADS; k++) names[r.n_workloads++] = workloads[k]->name;
  return bench_report(&r);
}

// ---- ahead of time: texts of workloads lie in a folder beside the weights
static const char *text_of(const char *name, const char *folder) {
  static char path[32][128];
  static int n;
  char why[512] = "";
  if (strchr(name, '.')) return name;
  const Workload *w = bench_find(name);
  if (!w || n == 32) return NULL;
  snprintf(path[n], sizeof path[n], "%s/%s.tir", folder, name);
  void *state = w->open(&(Opening){.root = ".",
                                   .tir = path[n],
                                   .n_workers = 1,
                                   .variant = w->cases ? w->cases[0] : "",
                                   .why = why,
                                   .why_size = sizeof why});
  if (!state) return complain(name, why), NULL;
  w->close(state);
  return path[n++];
}

// FOLDER WORKLOAD ..: their texts, for `tenure bundle`.
static int write_texts(int n, char **names) {
  if (n < 2) return usage(stderr);
  for (int k = 1; k < n; k++)
    if (!text_of(names[k], names[0])) return 2;
  return 0;
}

static int bench_aot_of(int n, char **names) {
  if (n && !strcmp(names[0], "--write")) return write_texts(n - 1, names + 1);
  static char folder[] = "/tmp/tenure_aot_XXXXXX";
  const char *files[32];
  if (n > 32 || !mkdtemp(folder)) return complain("too many names, or no folder ", folder);
  for (int k = 0; k < n; k++)
    if (!(files[k] = text_of(names[k], folder))) return 2;
  int status = bench_aot(files, n, folder);
  for (int k = 0; k < n; k++)
    if (files[k] != names[k]) unlink(files[k]);
  rmdir(folder);
  return status;
}

// ---- the file of the weights, which nothing leaves behind
static char weights[] = "/tmp/tenure_bench_XXXXXX";

static void leave(int signal_number) {
  unlink(weights);
  _exit(128 + signal_number);
}

static bool make_weights(void) {
  int fd = mkstemp(weights);
  if (fd < 0) return false;
  close(fd);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, leave);
  signal(SIGTERM, leave);
  return true;
}

// ---- errors
static int accuracy(const Options *o) {
  char results[] = "/tmp/tenure_results_XXXXXX", script[4096];
  AccuracyOptions a = {
      .weights = weights, .results = results, .part = o->variant, .bars = o->bars, .n_workers = (uint32_t)o->workers};
  if (!o->n_vs) return bench_accuracy(&a, NULL);
  if (o->n_vs > 1 || strcmp(o->vs[0], "torch"))
    return complain("accuracy has the peer torch, not ", o->vs[o->n_vs - 1]);
  int fd = mkstemp(results);
  if (fd < 0) return complain("cannot write to /tmp: ", strerror(errno));
  close(fd);
  snprintf(script, sizeof script, "%s/bench/peers/torch_accuracy.py", o->root);
  char *argv[] = {(char *)o->python, script, (char *)o->root, weights, results, "torch", NULL};
  Peer peer = {0};
  int status = 2;
  if (bench_peer_start(&peer, bench_way(&bench_sweep, "torch", 0), argv)) status = bench_accuracy(&a, &peer);
  bench_peer_stop(&peer);
  unlink(results);
  return status;
}

// ---- pages of their own
typedef int Page(const Options *o);
static int peak(const Options *o) { return bench_peak(o, weights); }
static int curve(const Options *o) { return bench_curve(o, weights); }

static Page *find_page(const char *name) {
  static const struct {
    const char *name;
    Page *page;
  } pages[] = {{"accuracy", accuracy}, {"memory", peak}, {"curve", curve}};
  for (size_t k = 0; k < sizeof pages / sizeof *pages; k++)
    if (!strcmp(pages[k].name, name)) return pages[k].page;
  return NULL;
}

static long default_workers(const char *name) {
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  for (size_t k = 0; k < N_WORKLOADS; k++)
    if (!strcmp(workloads[k]->name, name) && workloads[k]->workers) return workloads[k]->workers;
  return cpus < 1 ? 1 : cpus > 64 ? 64 : cpus;
}

int main(int argc, char **argv) {
  for (int k = 1; k < argc; k++) {
    if (!strcmp(argv[k], "--help")) return usage(stdout);
    if (!strcmp(argv[k], "--report")) return report(argc, argv);
  }
  if (argc > 1 && !strcmp(argv[1], "aot")) return bench_aot_of(argc - 2, argv + 2);
  if (argc == 4 && !strcmp(argv[1], "--as-openblas"))
    return bench_openblas(argv[2], (uint32_t)strtol(argv[3], NULL, 10));
  Options o = {.self = "/proc/self/exe", .python = "python3", .root = "."};
  if (!parse(&o, argc, argv)) return 2;
  if (!o.workers) o.workers = default_workers(o.workload);
  if (!strcmp(o.workload, "compile")) return bench_compile_costs(&o);
  if (!strcmp(o.workload, "lengths")) return bench_lengths((uint32_t)o.workers, o.rounds ? o.rounds : 8);
  Page *page = find_page(o.workload);
  const Workload *w = page ? NULL : bench_find(o.workload);
  if (!w && !page) return 2;
  if (w && o.skip_missing) drop_missing_peers(&o, w);
  if (w && !check_options(&o, w)) return 2;
  if (w && !o.rounds) o.rounds = w->cases && !o.variant ? 3 : 8;
  give_threads_to_peers(&o);
  if (!make_weights()) return complain("cannot write to /tmp: ", strerror(errno));
  int status = page ? page(&o) : (o.compile ? time_compilation : run_workload)(&o, w, weights);
  unlink(weights);
  return status;
}
