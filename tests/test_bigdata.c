// One epoch on a data set that is larger than the memory that the process may have.
//
//   test_bigdata [MIB [LIMIT_MIB [HIDDEN [WORKERS]]]]      default: 640 512 16 1
//
// A file of MIB, mostly holes, is read by a shuffled loader under RLIMIT_AS, a row where a batch needs it. The resident
// set stays what it was after the first burst. Bursts of steps that are fed from memory alternate with those of the
// loader: their times are printed side by side, for the reader to judge. Sanitizers need more address space: then there
// is no limit.
#include "frontend/tenure.h"
#include "runtime/clock.h"
#include "tests/check.h"

#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FEATURES = 1024, BATCH = 256, CLASSES = 10, N_KEPT = 32, BURST = 16, MAX_STEPS = 1 << 20 };

static char path[64], why[512];

static int64_t status_kib(const char *key) {
  char line[256];
  long long kib = 0;
  FILE *in = fopen("/proc/self/status", "r");
  while (in && fgets(line, sizeof line, in))
    if (!strncmp(line, key, strlen(key))) kib = atoll(line + strlen(key) + 1);
  if (in) fclose(in);
  return kib;
}

// ---- the file: rows of FEATURES; row k has the label k % CLASSES
typedef struct {
  int fd;
  int64_t rows;
} File;

// Every 256th row has numbers, the others are holes.
static bool make_file(File *f) {
  float x[FEATURES];
  snprintf(path, sizeof path, "/tmp/tn_bigdata_XXXXXX");
  f->fd = mkstemp(path);
  bool good = f->fd >= 0 && ftruncate(f->fd, f->rows * (int64_t)sizeof x) == 0;
  for (int64_t k = 0; k < f->rows && good; k += 256) {
    for (int j = 0; j < FEATURES; j++) x[j] = (float)((k + j) % 7) - 3;
    good = pwrite(f->fd, x, sizeof x, k * (int64_t)sizeof x) == sizeof x;
  }
  return good;
}

static bool get_row(void *ctx, size_t k, tn_item *to) {
  const size_t bytes = FEATURES * sizeof(float);
  *(int64_t *)to->data[1] = (int64_t)(k % CLASSES);
  if (pread(((File *)ctx)->fd, to->data[0], bytes, (off_t)(k * bytes)) == (ssize_t)bytes) return true;
  return snprintf(to->error, to->error_size, "row %zu cannot be read", k), false;
}

static void limit_memory(int64_t mib) {
  struct rlimit r;
  if (IS_SANITIZED) return;
  CHECK(!getrlimit(RLIMIT_AS, &r));
  r.rlim_cur = (rlim_t)mib << 20;
  CHECK(!setrlimit(RLIMIT_AS, &r));
  void *p = mmap(NULL, (size_t)mib << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p == MAP_FAILED);
}

// ---- training
static tn_model *build(int64_t hidden, uint32_t n_workers) {
  tn_program *p = tn_program_create("bigdata");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *root = tn_root(p), *a = tn_linear(root, "a", FEATURES, hidden);
  tn_module *b = tn_linear(root, "b", hidden, CLASSES);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, FEATURES)), y = tn_input(f, "y", TN_I64, TN_SHAPE(B));
  tn_tensor loss = tn_cross_entropy(tn_call(b, tn_relu(tn_call(a, x))), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_adamw(f, root);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = n_workers);  // stacks and heaps of threads are address space
  if (!CHECK(m)) tn_report(p, stdout), exit(1);
  tn_program_free(p);
  return m;
}

static tn_loader *open_loader(File *f) {
  const tn_field fields[] = {{.name = "x", .dtype = TN_F32, .rank = 1, .dims = {FEATURES}},
                             {.name = "y", .dtype = TN_I64}};
  const tn_loader_options o = {.batch_size = BATCH, .workers = 1, .prefetch = 4, .sampler = {.kind = TN_SHUFFLED}};
  tn_dataset *d = tn_dataset_new(&(tn_dataset_type){.get = get_row}, f, fields, 2, (size_t)f->rows, why, sizeof why);
  tn_loader *l = d ? tn_loader_new(d, &o, why, sizeof why) : NULL;
  if (!CHECK(l)) printf("%s\n", why), exit(1);
  tn_dataset_free(d);
  return l;
}

typedef struct {
  tn_model *m;
  tn_loader *l;
  float *kept;  // N_KEPT batches in memory
  double *by_loader, *by_memory;
  size_t n_loader, n_memory;
  int64_t rows, sum;  // seen; of their labels
} Job;

static bool step_of_loader(Job *j) {
  tn_batch b;
  float loss = 0;
  double start = rt_now_ms();
  if (!CHECK(!tn_loader_next(j->l, &b))) printf("%s\n", tn_loader_error(j->l)), exit(1);
  if (!b.number) return false;
  CHECK(!tn_run_batch(j->m, "step", b, TN_OUT(tn_f32_scalar(&loss))) && isfinite(loss));
  j->by_loader[j->n_loader++] = rt_now_ms() - start;
  tn_array y = tn_batch_array(b, "y");
  for (int64_t k = 0; k < y.dims[0]; k++) j->sum += ((int64_t *)y.data)[k];
  j->rows += y.dims[0];
  return true;
}

static void step_of_memory(Job *j) {
  int64_t y[BATCH];
  float loss = 0;
  for (int64_t k = 0; k < BATCH; k++) y[k] = k % CLASSES;
  double start = rt_now_ms();
  float *x = j->kept + j->n_memory % N_KEPT * (BATCH * FEATURES);
  CHECK(!tn_run(j->m, "step", TN_IN(tn_f32(x, BATCH, FEATURES), tn_i64(y, BATCH)), TN_OUT(tn_f32_scalar(&loss))));
  j->by_memory[j->n_memory++] = rt_now_ms() - start;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double q) {
  qsort(v, n, sizeof *v, by_size);
  return n ? v[(size_t)(q * (double)(n - 1))] : 0;
}

static void train_epoch(Job *j, int64_t rows) {
  bool more = true;
  for (int k = 0; k < BURST && more; k++)
    more = step_of_loader(j);  // a place of the loader takes memory when it is filled
  step_of_memory(j);
  int64_t first = status_kib("VmRSS:"), most = first;
  while (more) {
    for (int k = 0; k < BURST && more; k++) more = step_of_loader(j);
    for (int k = 0; k < BURST / 4; k++) step_of_memory(j);
    int64_t now = status_kib("VmRSS:");
    if (now > most) most = now;
  }
  int64_t last = status_kib("VmRSS:");
  printf("resident: %.1f MiB after the first burst, %.1f MiB at the end, %.1f MiB at most; address space %.1f MiB\n",
         (double)first / 1024, (double)last / 1024, (double)most / 1024, (double)status_kib("VmPeak:") / 1024);
  CHECK(first > 0 && (IS_SANITIZED || most - first < 4 << 10));  // a sanitizer keeps freed memory for a while
  CHECK(j->rows == rows && j->sum == rows / CLASSES * (CLASSES * (CLASSES - 1) / 2) +
                                         rows % CLASSES * (rows % CLASSES - 1) / 2);  // every row once
}

static void report(Job *j) {
  static const double part[] = {0.1, 0.25, 0.5};
  double loader[3], memory[3];
  for (int k = 0; k < 3; k++) {
    loader[k] = quantile(j->by_loader, j->n_loader, part[k]);
    memory[k] = quantile(j->by_memory, j->n_memory, part[k]);
  }
  printf("ms a step, fastest tenth, quarter, half: %.3f %.3f %.3f from the file, %.3f %.3f %.3f from memory\n",
         loader[0], loader[1], loader[2], memory[0], memory[1], memory[2]);
  printf("bigdata speed beside memory: %.3f %.3f %.3f\n", memory[0] / loader[0], memory[1] / loader[1],
         memory[2] / loader[2]);
}

static void run(File *f, int64_t hidden, uint32_t n_workers) {
  size_t n_batches = (size_t)f->rows / BATCH + 1;
  Job j = {.m = build(hidden, n_workers), .l = open_loader(f)};
  j.kept = calloc(N_KEPT * (size_t)BATCH, FEATURES * sizeof *j.kept);
  j.by_loader = calloc(n_batches + 1, sizeof *j.by_loader),
  j.by_memory = calloc(n_batches + BURST, sizeof *j.by_memory);
  for (size_t k = 0; k < N_KEPT * (size_t)BATCH * FEATURES; k++) j.kept[k] = (float)(k % 7) - 3;
  memset(j.by_loader, 1, n_batches * sizeof *j.by_loader);  // pages of the results are no growth of the loader's
  memset(j.by_memory, 1, n_batches * sizeof *j.by_memory);
  printf("%u workers, %zu batches\n", tn_n_workers(j.m), tn_loader_count(j.l));
  train_epoch(&j, f->rows);
  report(&j);
  tn_model_free(j.m), tn_loader_free(j.l);
  free(j.kept), free(j.by_loader), free(j.by_memory);
}

int main(int argc, char **argv) {
  int64_t mib = argc > 1 ? atoll(argv[1]) : 640, limit = argc > 2 ? atoll(argv[2]) : 512;
  int64_t hidden = argc > 3 ? atoll(argv[3]) : 16;
  int64_t n_workers = argc > 4 ? atoll(argv[4]) : 1;
  File f = {.fd = -1, .rows = (mib << 20) / (FEATURES * (int64_t)sizeof(float))};
  if (f.rows < BATCH || limit < 1 || hidden < 1 || n_workers < 1 || n_workers > 64) return 2;
  mallopt(M_ARENA_MAX, 1);
  if (CHECK(make_file(&f))) {
    printf("%lld MiB of data, %s%lld MiB, ", (long long)mib, IS_SANITIZED ? "no limit of " : "limit ",
           (long long)limit);
    limit_memory(limit);
    run(&f, hidden, (uint32_t)n_workers);
  }
  if (f.fd >= 0) close(f.fd), unlink(path);
  return check_report();
}
