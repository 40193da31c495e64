// OpenBLAS as a peer on `gemm` and `gemm_plain`: each thread computes its own columns, or rows where there are more of
// them, one library call for each. A build of OpenBLAS without threads takes one call at a time in a process, so that a
// thread is a process here, with the operands in memory that all share. The parent is thread 0.
#define _GNU_SOURCE
#include "bench/bench.h"
#include "codegen/gemm/sgemm.h"
#include "runtime/clock.h"
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_THREADS = 64, SPINS = 20000, MAX_FLOATS = 1 << 26 };

typedef struct {
  sem_t begin[MAX_THREADS], done;
  int64_t m, n, k;
  bool gelu, leave;
  _Alignas(64) float data[];  // x, w, bias, y
} Shared;

typedef struct {
  Shared *shared;
  int n_threads;
  pid_t pid[MAX_THREADS];
} Team;

extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));

static float *x_of(Shared *s) { return s->data; }
static float *w_of(Shared *s) { return x_of(s) + s->m * s->k; }
static float *bias_of(Shared *s) { return w_of(s) + s->n * s->k; }
static float *y_of(Shared *s) { return bias_of(s) + s->n; }

// ---- gelu, as a program that calls OpenBLAS would have it: erf by a rational function that errs by 4e-7 at most
enum { LANES = 16 };

#if defined(__x86_64__)
__attribute__((target_clones("default", "avx2", "avx512f")))
#endif
static void
gelu_row(float *y, int64_t n) {
  enum { N_P = 7, N_Q = 6 };
  typedef float Vector __attribute__((vector_size(4 * LANES)));
  typedef int32_t Bits __attribute__((vector_size(4 * LANES)));
  static const float p[N_P] = {1.12837918f,     0.184603391f,    0.0543298579f,  0.00383669902f,
                               0.000383102582f, 4.79344096e-06f, -1.3722529e-08f};
  static const float q[N_Q] = {1, 0.496934056f, 0.113792235f, 0.0154492245f, 0.0013095672f, 6.41337391e-05f};
  for (int64_t i = 0; i < n; i += LANES) {
    Vector v = {0}, zero = {0}, limit = zero + 3.95f;
    size_t bytes = sizeof(float) * (size_t)(n - i < LANES ? n - i : LANES);
    memcpy(&v, y + i, bytes);
    Vector x = v * 0.707106781f, num = zero, den = zero;
    Bits above = x > limit, below = x < -limit;
    x = (Vector)(((Bits)limit & above) | ((Bits)x & ~above));
    x = (Vector)(((Bits)-limit & below) | ((Bits)x & ~below));
    Vector t = x * x;
    for (int k = N_P; k-- > 0;) num = num * t + p[k];
    for (int k = N_Q; k-- > 0;) den = den * t + q[k];
    v = 0.5f * v * (1 + x * num / den);
    memcpy(y + i, &v, bytes);
  }
}

// ---- a thread's part
static void multiply(Shared *s, int thread, int n_threads) {
  bool by_rows = s->m >= s->n;
  int64_t all = by_rows ? s->m : s->n, lo = all * thread / n_threads, hi = all * (thread + 1) / n_threads;
  int64_t m = by_rows ? hi - lo : s->m, n = by_rows ? s->n : hi - lo;
  float *x = x_of(s) + (by_rows ? lo * s->k : 0), *w = w_of(s) + (by_rows ? 0 : lo * s->k);
  float *y = y_of(s) + (by_rows ? lo * s->n : lo);
  const float *bias = bias_of(s) + (by_rows ? 0 : lo);
  for (int64_t i = 0; s->gelu && i < m; i++) memcpy(y + i * s->n, bias, sizeof(float) * (size_t)n);
  cg_sgemm(0, 1, m, n, s->k, x, s->k, w, s->k, s->gelu, y, s->n);
  for (int64_t i = 0; s->gelu && i < m; i++) gelu_row(y + i * s->n, n);
}

// Spins a little: within a burst the next word comes at once.
static void await(sem_t *s) {
  for (int i = 0; i < SPINS; i++)
    if (sem_trywait(s) == 0) return;
  while (sem_wait(s) != 0) continue;
}

static void serve(Shared *s, int thread, int n_threads) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    await(&s->begin[thread]);
    if (s->leave) _exit(0);
    multiply(s, thread, n_threads);
    sem_post(&s->done);
  }
}

static void run(Team *t) {
  for (int k = 1; k < t->n_threads; k++) sem_post(&t->shared->begin[k]);
  multiply(t->shared, 0, t->n_threads);
  for (int k = 1; k < t->n_threads; k++) await(&t->shared->done);
}

static bool start(Team *t, int n_threads, bool gelu) {
  size_t size = sizeof(Shared) + sizeof(float) * MAX_FLOATS;
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED || n_threads < 1 || n_threads > MAX_THREADS) return false;
  *t = (Team){.shared = at, .n_threads = n_threads};
  t->shared->gelu = gelu;
  bool ok = sem_init(&t->shared->done, 1, 0) == 0;
  for (int k = 1; ok && k < n_threads; k++) {
    ok = sem_init(&t->shared->begin[k], 1, 0) == 0 && (t->pid[k] = fork()) >= 0;
    if (ok && t->pid[k] == 0) serve(t->shared, k, n_threads);
  }
  fprintf(stderr, "openblas      %d threads, each a process; kernels for %s; %s\n", n_threads,
          openblas_get_corename ? openblas_get_corename() : "?", openblas_get_config ? openblas_get_config() : "?");
  return ok;
}

static void stop(Team *t) {
  t->shared->leave = true;
  for (int k = 1; k < t->n_threads; k++) {
    if (t->pid[k] <= 0) continue;
    sem_post(&t->shared->begin[k]);
    waitpid(t->pid[k], NULL, 0);
  }
}

// ---- questions
static bool set_case(Shared *s, const char *text) {
  long m, n, k;
  if (sscanf(text, "case %ld %ld %ld", &m, &n, &k) != 3 || m < 1 || n < 1 || k < 1) return false;
  if (((double)m + (double)n) * (double)k + ((double)m + 1) * (double)n > MAX_FLOATS) return false;
  s->m = m, s->n = n, s->k = k;
  bench_floats(x_of(s), (size_t)(m * k), -1, 1, 1);
  bench_floats(w_of(s), (size_t)(n * k), -0.05, 0.05, 2);
  bench_floats(bias_of(s), (size_t)n, -1, 1, 3);
  return true;
}

static int order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool burst(Team *t, long n) {
  double *ms = malloc(sizeof *ms * (size_t)n);
  if (!ms) return false;
  for (long i = 0; i < n; i++) {
    double begin = rt_now_ms();
    run(t);
    ms[i] = rt_now_ms() - begin;
  }
  qsort(ms, (size_t)n, sizeof *ms, order);
  printf("%.6f %.6f\n", ms[0], ms[n / 2]);
  free(ms);
  return true;
}

// OpenBLAS knows CPUs by model: what is newer than it gets kernels for AVX2, at half the speed that AVX-512 gives.
void bench_openblas_kernels(void) {
#if defined(__x86_64__)
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (wide) setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
#endif
}

int bench_openblas(const char *workload, uint32_t n_threads) {
  char line[256];
  Team t;
  bool gelu = !strcmp(workload, "gemm");
  if ((!gelu && strcmp(workload, "gemm_plain")) || !start(&t, (int)n_threads, gelu)) return 1;
  bool ok = true;
  while (ok && fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "case", 4)) {
      ok = set_case(t.shared, line);
      printf("%s\n", ok ? "ok" : "no");
    } else if (!strcmp(line, "check\n")) {
      run(&t);
      printf("loss %.9g\n", bench_checksum(y_of(t.shared), (size_t)(t.shared->m * t.shared->n)));
    } else {
      long n = strtol(line, NULL, 10);
      ok = n > 0 && burst(&t, n);
    }
    fflush(stdout);
  }
  stop(&t);
  return ok ? 0 : 1;
}
