// What compiling costs as programs grow: 1, 10, 100 and 1,000 linear layers with relu, all of one size or each of its
// own, for inference and for a training step with AdamW. Every program is compiled in a process of its own.
//
// CPU time is that of all threads and of processes that the compiler starts; the first compilation of a process, which
// loads LLVM's pages, is not in it. The FMA rate of one thread stands beside, so that figures of two machines compare.
#include "bench/bench.h"
#include "runtime/clock.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 64, WIDTH = 64 };

typedef struct {
  long layers;
  bool distinct, trains;
} Shape;
typedef struct {
  double cpu_ms, wall_ms;
  tn_compile_info info;
} Cost;

static int64_t width_of(const Shape *s, long layer) { return WIDTH + (s->distinct ? layer : 0); }

static tn_program *program(const Shape *s) {
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

static double ms_of(struct timeval t) { return 1e3 * (double)t.tv_sec + 1e-3 * (double)t.tv_usec; }

static double cpu_ms(void) {
  double sum = 0;
  const int who[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
  for (int k = 0; k < 2; k++) {
    struct rusage u;
    getrusage(who[k], &u);
    sum += ms_of(u.ru_utime) + ms_of(u.ru_stime);
  }
  return sum;
}

static bool compile_once(const Shape *s, Cost *cost) {
  double cpu = cpu_ms(), wall = rt_now_ms();
  tn_program *p = program(s);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = "");
  if (!m) return false;
  *cost = (Cost){cpu_ms() - cpu, rt_now_ms() - wall, tn_compile_info_of(m)};
  tn_model_free(m);
  tn_program_free(p);
  return true;
}

// In the child: the answer goes through the pipe.
static int child(const Shape *s, int to) {
  Cost cost;
  bool ok = compile_once(&(Shape){.layers = 1}, &cost) && compile_once(s, &cost);
  return ok && write(to, &cost, sizeof cost) == (ssize_t)sizeof cost ? 0 : 1;
}

static bool measure(const Shape *s, Cost *cost, struct rusage *used) {
  int end[2], status = 1;
  if (pipe(end)) return false;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) _exit(child(s, end[1]));
  close(end[1]);
  bool ok = pid > 0 && read(end[0], cost, sizeof *cost) == (ssize_t)sizeof *cost;
  close(end[0]);
  return pid > 0 && wait4(pid, &status, 0, used) == pid && status == 0 && ok;
}

static bool print_row(const Shape *s) {
  Cost c;
  struct rusage used;
  if (!measure(s, &c, &used)) return false;
  uint32_t distinct = c.info.n_distinct_kernels;
  printf("| %ld %s | %s | %.0f | %.0f | %ld | %u | %u | %.1f |\n", s->layers, s->distinct ? "distinct" : "equal",
         s->trains ? "training" : "inference", c.cpu_ms, c.wall_ms, used.ru_maxrss >> 10, c.info.n_kernels, distinct,
         c.cpu_ms / (distinct ? distinct : 1));
  return true;
}

int bench_compile_layers(long most) {
  printf("FMA rate of one thread: %.0f GFLOP/s\n\n", bench_peak_gflops(1));
  printf("| layers | | CPU ms | wall ms | MiB resident | kernels | distinct | CPU ms of a distinct one |\n");
  printf("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (long n = 1; n <= most; n *= 10)
    for (int way = 0; way < 4; way++)
      if (!print_row(&(Shape){n, way / 2, way % 2})) return 1;
  return 0;
}
