// Permutations of the last axis: transposed by tiles in registers where they are large, exact in any size.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <stdlib.h>

typedef struct {
  int64_t size[3];  // of x
  int perm[3];
} Turn;

// y = permute(x) + z, where z has y's shape; and the same once more with x expanded along no axis, as a plain copy.
static void check_turn(const Turn *t, uint32_t workers) {
  int64_t n = t->size[0] * t->size[1] * t->size[2], to[3], stride[3] = {t->size[1] * t->size[2], t->size[2], 1};
  for (int k = 0; k < 3; k++) to[k] = t->size[t->perm[k]];
  float *x = malloc((size_t)n * sizeof *x), *z = malloc((size_t)n * sizeof *z), *y = calloc((size_t)n, sizeof *y),
        *copy = calloc((size_t)n, sizeof *copy);
  if (!x || !z || !y || !copy) abort();
  for (int64_t k = 0; k < n; k++) x[k] = (float)(k % 100003), z[k] = (float)(k % 7) * 0.5f;
  tn_program *p = tn_program_create("turn");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim first = tn_dim_bounded(p, "first", t->size[0] + 5);
  tn_dim d[3] = {first, tn_dim_const(t->size[1]), tn_dim_const(t->size[2])};
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(d[0], d[1], d[2]));
  tn_tensor add = tn_input(f, "z", TN_F32, TN_SHAPE(d[t->perm[0]], d[t->perm[1]], d[t->perm[2]]));
  tn_tensor turned = tn_permute(in, t->perm, 3);
  tn_output(f, "y", tn_add(turned, add));
  tn_output(f, "copy", turned);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = workers);
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, t->size[0], t->size[1], t->size[2]), tn_f32(z, to[0], to[1], to[2])),
                    TN_OUT(tn_f32(y, to[0], to[1], to[2]), tn_f32(copy, to[0], to[1], to[2]))) == TN_OK);
  int64_t bad = 0, k = 0;
  for (int64_t a = 0; a < to[0]; a++)
    for (int64_t b = 0; b < to[1]; b++)
      for (int64_t c = 0; c < to[2]; c++, k++) {
        float want = x[a * stride[t->perm[0]] + b * stride[t->perm[1]] + c * stride[t->perm[2]]];
        bad += y[k] != want + z[k] || copy[k] != want;
      }
  if (!CHECK(bad == 0))
    printf("  %lld of %lld elements of [%lld,%lld,%lld]\n", (long long)bad, (long long)n, (long long)to[0],
           (long long)to[1], (long long)to[2]);
  tn_model_free(m);
  tn_program_free(p);
  free(x), free(z), free(y), free(copy);
}

int main(void) {
  static const Turn turns[] = {{{1, 67, 129}, {0, 2, 1}}, {{3, 45, 71}, {0, 2, 1}}, {{2, 64, 64}, {0, 2, 1}},
                               {{70, 3, 90}, {2, 1, 0}},  {{70, 90, 1}, {1, 0, 2}}, {{33, 8, 100}, {1, 2, 0}},
                               {{5, 1000, 3}, {0, 2, 1}}, {{9, 7, 16}, {2, 0, 1}},  {{300, 17, 31}, {2, 1, 0}},
                               {{2, 3, 1500}, {0, 2, 1}}, {{7, 5, 600}, {2, 1, 0}}, {{8, 900, 2}, {1, 2, 0}},
                               {{9, 2, 700}, {2, 1, 0}}};
  for (size_t k = 0; k < sizeof turns / sizeof *turns; k++) {
    check_turn(&turns[k], 1);
    check_turn(&turns[k], 3);
  }
  return check_report();
}
