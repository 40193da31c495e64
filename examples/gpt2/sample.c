#include "examples/gpt2/sample.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  double p;
  int64_t id;
} Choice;

static int likelier(const void *a, const void *b) {
  const Choice *x = a, *y = b;
  if (x->p != y->p) return x->p > y->p ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

static int64_t likeliest(const float *logits, int64_t n) {
  int64_t best = 0;
  for (int64_t k = 1; k < n; k++)
    if (logits[k] > logits[best]) best = k;
  return best;
}

// In [0, 1), by splitmix64
static double draw(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

// Of the choices, likeliest first: how many may be drawn, and their probability together.
static int64_t kept(const Choice *c, int64_t n, const Sampling *s, double *together) {
  double all = 0;
  if (s->top_k > 0 && s->top_k < n) n = s->top_k;
  for (int64_t k = 0; k < n; k++) all += c[k].p;
  *together = 0;
  for (int64_t k = 0; k < n; k++) {
    *together += c[k].p;
    if (*together >= s->top_p * all) return k + 1;
  }
  return n;
}

int64_t sample_token(const float *logits, int64_t n, Sampling *s) {
  int64_t best = likeliest(logits, n), id = best;
  if (s->temperature <= 0) return best;
  Choice *c = malloc((size_t)n * sizeof *c);
  if (!c) fputs("no memory\n", stderr), exit(1);
  for (int64_t k = 0; k < n; k++) c[k] = (Choice){exp(((double)logits[k] - logits[best]) / s->temperature), k};
  qsort(c, (size_t)n, sizeof *c, likelier);
  double together, left;
  int64_t count = kept(c, n, s, &together), k = 0;
  for (left = draw(&s->seed) * together; k + 1 < count && (left -= c[k].p) >= 0; k++) {}
  id = c[k].id;
  free(c);
  return id;
}
