// OpenBLAS as a peer on `gemm`: each thread computes its own columns, or rows where there are more of them.
#include "bench/bench.h"
#include "runtime/blas.h"
#include "runtime/team.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  int64_t m, n, k;
  float *x, *w, *y;
} Job;

static void multiply(void *ctx, int32_t worker, int32_t n_workers) {
  const Job *j = ctx;
  bool by_rows = j->m >= j->n;
  int64_t all = by_rows ? j->m : j->n, lo = all * worker / n_workers, hi = all * (worker + 1) / n_workers;
  if (by_rows) rt_sgemm(0, 1, hi - lo, j->n, j->k, j->x + lo * j->k, j->k, j->w, j->k, 0, j->y + lo * j->n, j->n);
  else rt_sgemm(0, 1, j->m, hi - lo, j->k, j->x, j->k, j->w + lo * j->k, j->k, 0, j->y + lo, j->n);
}

static bool set_case(Job *j, const char *text) {
  long m, n, k;
  if (sscanf(text, "case %ld %ld %ld", &m, &n, &k) != 3) return false;
  free(j->x), free(j->w), free(j->y);
  size_t nx = (size_t)(m * k), nw = (size_t)(n * k), ny = (size_t)(m * n);
  *j = (Job){m, n, k, malloc(sizeof(float) * nx), malloc(sizeof(float) * nw), malloc(sizeof(float) * ny)};
  if (!j->x || !j->w || !j->y) return false;
  bench_floats(j->x, nx, -1, 1, 1);
  bench_floats(j->w, nw, -0.05, 0.05, 2);
  return true;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool burst(RtTeam *team, Job *j, long n) {
  double *ms = malloc(sizeof *ms * (size_t)n);
  if (!ms) return false;
  for (long i = 0; i < n; i++) {
    double start = now_ms();
    rt_team_run(team, multiply, j);
    ms[i] = now_ms() - start;
  }
  qsort(ms, (size_t)n, sizeof *ms, order);
  printf("%.6f %.6f\n", ms[0], ms[n / 2]);
  free(ms);
  return true;
}

int bench_openblas(const char *workload, uint32_t n_workers) {
  char line[256];
  Job j = {0};
  RtTeam *team = strcmp(workload, "gemm") ? NULL : rt_team_new(n_workers);
  bool ok = team != NULL;
  while (ok && fgets(line, sizeof line, stdin)) {
    if (!strncmp(line, "case", 4)) {
      ok = set_case(&j, line);
      printf("%s\n", ok ? "ok" : "no");
    } else if (!strcmp(line, "check\n")) {
      rt_team_run(team, multiply, &j);
      printf("loss %.9g\n", bench_checksum(j.y, (size_t)(j.m * j.n)));
    } else {
      long n = strtol(line, NULL, 10);
      ok = n > 0 && burst(team, &j, n);
    }
    fflush(stdout);
  }
  free(j.x), free(j.w), free(j.y);
  rt_team_free(team);
  return ok ? 0 : 1;
}
