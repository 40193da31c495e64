// Trains on a file that is larger than the memory this process may have: one epoch over a sparse .npy, fed by a loader.
// Says how much memory is resident after the first step and at the end, and how the time of a step compares with that
// of the same steps on rows in memory, in bursts that alternate: the least of each. ctest: --mib 256 --limit 768
//   larger_than_memory --mib 8192 --limit 512
#include "frontend/tenure.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 256, FEATURES = 1024, HIDDEN = 256, BURST = 8, ROWS_IN_MEMORY = 4096 };
static float xs[ROWS_IN_MEMORY * FEATURES], ys[ROWS_IN_MEMORY];  // 16 MiB

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double resident_mib(void) {
  long pages = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (f) fclose(f);
  return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void limit_memory(long mib) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  mib = 0;  // its shadow alone takes more
#endif
#endif
  if (mib > 0) setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)mib << 20, (rlim_t)mib << 20});
}

// An array of zeros that takes no space on disk; every 64th row begins with its number.
static bool make_file(const char *path, long long rows, int columns) {
  char header[128] = "\x93NUMPY\1\0\x76";
  memset(header + 10, ' ', sizeof header - 10);
  int n = snprintf(header + 10, 100, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }", rows, columns);
  header[10 + n] = ' ', header[127] = '\n';
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(header, 1, sizeof header, f) == sizeof header;
  for (long long k = 0; ok && k < rows; k += 64) {
    float v = (float)(k % 1000) / 1000;
    ok = !fseeko(f, (off_t)(128 + k * columns * 4), SEEK_SET) && fwrite(&v, 4, 1, f) == 1;
  }
  if (f && fclose(f)) ok = false;
  return ok && !truncate(path, (off_t)(128 + rows * columns * 4));
}

static tn_model *build(tn_program *p) {
  tn_dim B = tn_dim_upto(p, "batch", BATCH);
  tn_module *hidden = tn_linear(tn_root(p), "hidden", FEATURES, HIDDEN, NULL);
  tn_module *head = tn_linear(tn_root(p), "head", HIDDEN, 1, NULL);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, tn_size(FEATURES)));
  tn_tensor y = tn_input(f, "y", TN_F32, TN_SHAPE(B, tn_size(1)));
  tn_tensor loss = tn_mse(tn_call1(head, tn_relu(tn_call1(hidden, x))), y);
  tn_backward(loss);
  tn_adamw(f, tn_root(p), (&(tn_adamw_options){.lr = 1e-3}));
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return tn_compile(p, (&(tn_compile_options){.n_workers = 1}));
}

static int fail(const char *what) {
  fprintf(stderr, "larger_than_memory: %s\n", what);
  return 1;
}

// Seconds for one of up to BURST steps; *done counts them.
static double burst(tn_model *m, tn_loader *l, size_t *done, float *loss) {
  double start = now();
  size_t n = 0;
  tn_status s = TN_OK;
  for (tn_batch b; n < BURST && !(s = tn_loader_next(l, &b)) && b.number; n++)
    if (tn_run_batch(m, "train_step", b, TN_OUT(tn_f32_scalar(loss)))) exit(fail(tn_error_text(m)));
  if (s) exit(fail(tn_loader_error(l)));
  *done += n;
  return n == BURST ? (now() - start) / BURST : 1e9;  // a short one says nothing
}

int main(int argc, char **argv) {
  long mib = 1024, limit = 512;
  char x[64] = "/tmp/tenure_x_XXXXXX", y[64] = "/tmp/tenure_y_XXXXXX", why[512] = "the files cannot be written";
  for (int k = 1; k + 1 < argc; k += 2) *(strcmp(argv[k], "--mib") ? &limit : &mib) = atol(argv[k + 1]);
  int fds[] = {mkstemp(x), mkstemp(y)};
  long long rows = (mib < 1 ? 1 : mib) * (1 << 20) / (FEATURES * 4);
  if (fds[0] < 0 || fds[1] < 0 || !make_file(x, rows, FEATURES) || !make_file(y, rows, 1)) return fail(why);
  limit_memory(limit);

  tn_program *p = tn_program_create("larger");
  tn_model *m = build(p);
  if (!m) return tn_report(p, stderr) != TN_OK;
  const tn_column files[] = {{.name = x, .field = "x"}, {.name = y, .field = "y"}};
  tn_dataset *d = tn_dataset_npy(files, 2, why, sizeof why);
  unlink(x), unlink(y);  // open files stay readable
  tn_loader_options o = {.batch_size = BATCH, .workers = 1, .prefetch = 3};
  tn_loader *l = d ? tn_loader_new(d, &o, why, sizeof why) : NULL;
  if (!l) return fail(why);
  printf("%ld MiB on disk, %zu batches, input arena of %.1f MiB, limit %ld MiB\n", mib, tn_loader_count(l),
         (double)tn_loader_bytes(l) / (1 << 20), limit);

  tn_array rows_in_memory[] = {tn_f32(xs, ROWS_IN_MEMORY, FEATURES), tn_f32(ys, ROWS_IN_MEMORY, 1)};
  tn_dataset *held_set = tn_dataset_arrays(rows_in_memory, 2, NULL, why, sizeof why);
  tn_loader *held_loader = held_set ? tn_loader_new(held_set, &o, why, sizeof why) : NULL;
  if (!held_loader) return fail(why);

  float loss = 0, ignored = 0;
  double fed = 1e9, held = 1e9, first_resident = 0, time;
  size_t n = 0, n_held = 0, before, count = tn_loader_count(l);
  tn_model *twin = tn_instance(m, 0);  // steps from memory train a copy
  tn_progress *bar = tn_progress_begin(stdout, "train", count);
  do {
    before = n;
    if ((time = burst(m, l, &n, &loss)) < fed) fed = time;
    if ((time = burst(twin, held_loader, &n_held, &ignored)) < held) held = time;
    if (before == 0) first_resident = resident_mib();
    tn_progress_step(bar, n, "loss %.5f", loss);
  } while (n > before && n < count);
  tn_progress_end(bar);
  double last_resident = resident_mib();
  printf("resident after the first steps %.1f MiB, at the end %.1f MiB\n", first_resident, last_resident);
  printf("a step takes %.2f ms fed from the file, %.2f ms from memory: %.1f %% of the speed\n", 1e3 * fed, 1e3 * held,
         100 * held / fed);
  tn_loader_free(l), tn_dataset_free(d), tn_loader_free(held_loader), tn_dataset_free(held_set);
  tn_model_free(twin), tn_model_free(m), tn_program_free(p);
  close(fds[0]), close(fds[1]);
  return n != count || last_resident > first_resident + 16;
}
