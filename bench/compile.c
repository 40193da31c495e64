// What compiling costs as programs grow: 1, 10, 100 and 1,000 linear layers with relu, all of one size or each of its
// own, for inference and for a training step with AdamW. Every program is compiled in a process of its own.
//
// CPU time is that of all threads and of processes that the compiler starts; the first compilation of a process, which
// loads LLVM's pages, is not in it. The FMA rate of one thread stands beside, so that figures of two machines compare.
// Memory is what the compiler's process had resident at most, and what any of the processes had: a model has its
// parameters and the states of its optimizer, 4.7 GB of 1,000 layers of sizes up to 1,064.
//
// And a constant of 64 MiB, for tn_compile and for tn_bundle, with their goals; before it all the programs of compile_cases.c.
#include "bench/measure.h"
#include "runtime/clock.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 64, WIDTH = 64 };

static int64_t width_of(const CompileLayers *s, long layer) { return WIDTH + (s->distinct ? layer : 0); }

tn_program *bench_compile_layers(const void *of) {
  const CompileLayers *s = of;
  tn_program *p = tn_program_create("layers");
  tn_module *net = tn_root(p);
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, width_of(s, 0)));
  for (long k = 0; k < s->layers; k++) {
    char name[32];
    snprintf(name, sizeof name, "%ld", k);
    x = tn_relu(tn_call(tn_linear(net, name, width_of(s, k), width_of(s, k + 1)), x));
  }
  if (s->trains) {
    x = tn_mean(tn_square(x));
    tn_backward(x);
    tn_adamw(f, net);
  }
  tn_output(f, "y", x);
  tn_function_end(f);
  return p;
}

double bench_ms_of(struct timeval t) { return 1e3 * (double)t.tv_sec + 1e-3 * (double)t.tv_usec; }

// Of the threads of this process, and of processes that it started; *system: the part of it in the system.
static double cpu_ms(double *system) {
  double sum = 0;
  const int who[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
  *system = 0;
  for (int k = 0; k < 2; k++) {
    struct rusage u;
    getrusage(who[k], &u);
    *system += bench_ms_of(u.ru_stime);
    sum += bench_ms_of(u.ru_utime) + bench_ms_of(u.ru_stime);
  }
  return sum;
}

bool bench_compile_once(tn_program *(*make)(const void *of), const void *of, CompileCost *cost) {
  double system, system_before, cpu = cpu_ms(&system_before), wall = rt_now_ms();
  tn_program *p = make(of);
  double build = rt_now_ms() - wall;
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = "");
  if (!m) return false;
  struct rusage compilers;
  getrusage(RUSAGE_CHILDREN, &compilers);
  cpu = cpu_ms(&system) - cpu;
  *cost = (CompileCost){.cpu_ms = cpu,
                        .system_ms = system - system_before,
                        .build_ms = build,
                        .wall_ms = rt_now_ms() - wall,
                        .compiler_kb = compilers.ru_maxrss,
                        .info = tn_compile_info_of(m)};
  tn_model_free(m);
  tn_program_free(p);
  return true;
}

static bool compile_layers(const void *of, CompileCost *cost) {
  return bench_compile_once(bench_compile_layers, of, cost);
}

bool bench_in_child(bool (*work)(const void *of, CompileCost *cost), const void *of, CompileCost *cost,
                    struct rusage *used) {
  int end[2], status = 1;
  if (pipe(end)) return false;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    bool ok = compile_layers(&(CompileLayers){.layers = 1}, cost) && work(of, cost);
    _exit(ok && write(end[1], cost, sizeof *cost) == (ssize_t)sizeof *cost ? 0 : 1);
  }
  close(end[1]);
  bool ok = pid > 0 && read(end[0], cost, sizeof *cost) == (ssize_t)sizeof *cost;
  close(end[0]);
  return pid > 0 && wait4(pid, &status, 0, used) == pid && status == 0 && ok;
}

static bool print_row(const CompileLayers *s) {
  CompileCost c;
  struct rusage used;
  if (!bench_in_child(compile_layers, s, &c, &used)) return false;
  uint32_t distinct = c.info.n_distinct_kernels;
  printf("| %ld %s | %s | %.0f | %.0f | %ld | %ld | %u | %u | %.1f |\n", s->layers, s->distinct ? "distinct" : "equal",
         s->trains ? "training" : "inference", c.cpu_ms, c.wall_ms, c.compiler_kb >> 10, used.ru_maxrss >> 10,
         c.info.n_kernels, distinct, c.cpu_ms / (distinct ? distinct : 1));
  return true;
}

// ---- a large constant. Goal: below 1 s, and at most twice its size beside what the program's process had before.
enum { CONSTANT_MB = 64, SIDE = 4096, CONSTANT = SIDE * SIDE };
typedef struct {
  bool is_bundle;
  const char *folder;
} Constant;

static bool compile_constant(tn_program *p, bool is_bundle, const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/constant", folder);
  if (is_bundle) return !tn_bundle(p, path);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = "");
  tn_model_free(m);
  return m != NULL;
}

// compiler_kb: beyond what the program's process has without compiling.
static bool constant(const void *of, CompileCost *cost) {
  const Constant *k = of;
  float *v = malloc(sizeof *v * CONSTANT);
  struct rusage before, after;
  for (long i = 0; v && i < CONSTANT; i++) v[i] = (float)(i % 1021) - 510;
  if (!v) return false;
  double system, cpu = cpu_ms(&system), wall = rt_now_ms();
  tn_program *p = tn_program_create("constant");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, SIDE));
  tn_output(f, "y", tn_matmul(x, tn_constant(f, v, TN_SHAPE(SIDE, SIDE))));
  tn_function_end(f);
  getrusage(RUSAGE_SELF, &before);
  bool ok = compile_constant(p, k->is_bundle, k->folder);
  getrusage(RUSAGE_CHILDREN, &after);
  *cost = (CompileCost){.cpu_ms = cpu_ms(&system) - cpu,
                        .wall_ms = rt_now_ms() - wall,
                        .compiler_kb = after.ru_maxrss - before.ru_maxrss};
  tn_program_free(p);
  free(v);
  return ok;
}

static bool print_constant(bool is_bundle, const char *folder) {
  CompileCost c;
  struct rusage used;
  if (!bench_in_child(constant, &(Constant){is_bundle, folder}, &c, &used)) return false;
  printf("| %s | %.0f | %.0f | %.1f |\n", is_bundle ? "tn_bundle" : "tn_compile", c.cpu_ms, c.wall_ms,
         (double)c.compiler_kb / (CONSTANT_MB << 10));
  return true;
}

static bool print_constants(void) {
  char folder[] = "/tmp/tenure-bench-XXXXXX", command[64];
  if (!mkdtemp(folder)) return false;
  printf("\n| constant of %d MiB | CPU ms | wall ms, goal: 1000 | compiler's memory by its size, goal: 2 |\n"
         "| --- | ---: | ---: | ---: |\n",
         CONSTANT_MB);
  bool ok = print_constant(false, folder) && print_constant(true, folder);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return !system(command) && ok;
}

int bench_compile_costs(const Options *o) {
  long most = o->layers ? o->layers : 100;
  printf("FMA rate of one thread: %.0f GFLOP/s\n", bench_peak_gflops(1));
  if (!bench_compile_cases(o)) return 1;
  if (o->variant) return 0;
  printf("\n| layers | | CPU ms | wall ms | MiB, compiler | with the model | kernels | distinct | CPU ms of a distinct "
         "one |\n");
  printf("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (long n = 1; n <= most; n *= 10)
    for (int way = 0; way < 4; way++)
      if (!print_row(&(CompileLayers){n, way / 2, way % 2})) return 1;
  return print_constants() ? 0 : 1;
}
