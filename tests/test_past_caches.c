// Results that no cache holds are stored past the caches, by whole vectors at multiples of their size: from any address that a caller may
// give, with elements before the first such multiple and behind the last, by several workers, with nothing written around them.
#include "frontend/tenure.h"
#include "tests/check.h"
#include <math.h>
#include <stdlib.h>

enum { ROWS = 3001, COLUMNS = 2999, N = ROWS * COLUMNS, ROOM = 64, MARK = 77 };

static float x_at(size_t k) { return (float)((k * 2654435761u) % 4001) / 500 - 4; }

static tn_model *compile(uint32_t workers) {
  tn_program *p = tn_program_create("past_caches");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, COLUMNS));
  tn_output(f, "y", tn_add_scalar(tn_clamp(x, -1, 2), 0.5));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = workers, .cache_dir = "");
  tn_program_free(p);
  return m;
}

static void check_at(tn_model *m, const float *x, float *block, size_t offset) {
  float *y = block + offset;
  for (size_t k = 0; k < N + 2 * ROOM; k++) block[k] = MARK;
  const int64_t sizes[] = {ROWS, COLUMNS};
  tn_array in = tn_array_of(x, TN_F32, sizes, 2), out = tn_array_of(y, TN_F32, sizes, 2);
  if (!CHECK(tn_run(m, "f", &in, 1, &out, 1) == TN_OK)) return;
  size_t wrong = 0;
  for (size_t k = 0; k < N; k++) wrong += y[k] != fminf(fmaxf(x[k], -1), 2) + 0.5f;
  for (size_t k = 0; k < offset; k++) wrong += block[k] != MARK;
  for (size_t k = offset + N; k < N + 2 * ROOM; k++) wrong += block[k] != MARK;
  if (!CHECK(!wrong)) printf("%zu elements are wrong %zu elements behind a page\n", wrong, offset);
}

int main(void) {
  float *x = malloc(sizeof *x * N), *block = aligned_alloc(4096, (sizeof *block * (N + 2 * ROOM) + 4095) / 4096 * 4096);
  if (!CHECK(x && block)) return check_report();
  for (size_t k = 0; k < N; k++) x[k] = x_at(k);
  for (uint32_t workers = 1; workers <= 3; workers += 2) {
    tn_model *m = compile(workers);
    if (CHECK(m))
      for (size_t offset = 0; offset < 16; offset += workers) check_at(m, x, block, offset);
    tn_model_free(m);
  }
  free(x), free(block);
  return check_report();
}
