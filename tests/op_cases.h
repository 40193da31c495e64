// Cases of ops: a small program, its inputs and what must come out. Whoever can run a program can run all of them:
// tests/test_ops.c does with the interpreter; compiled code is another CaseRunner.
#ifndef TN_TESTS_OP_CASES_H
#define TN_TESTS_OP_CASES_H

#include "ir/ir.h"
#include "ir/text/text.h"
#include "tests/check.h"

#include <math.h>

typedef struct {
  const double *v;  // row-major; exact in f32 for inputs and parameters
  uint32_t n;
} CaseArray;

typedef struct {
  const char *name;
  const char *tir;         // one function, @f
  const CaseArray *in;     // by input
  const CaseArray *out;    // expected, by output
  const CaseArray *param;  // before the run, by parameter
  const CaseArray *after;  // expected after it
  uint32_t n_in, n_out, n_params, n_dims, n_grads;
  const int64_t *dims;      // run-time sizes by slot; -1: found by the run
  const uint32_t *grad_of;  // output 1 + k is the gradient of output 0 with respect to input grad_of[k]
  bool differences;         // the gradient exists around these inputs
  uint64_t seed, counter;
} OpCase;

// Runs a case: fills out and after, arrays like the expected ones. false: `why` says it.
typedef bool CaseRunner(const OpCase *c, const Prog *p, double **out, double **after, RtText *why);

// |found - expected| <= tolerance (1 + scale), where scale is the largest finite magnitude expected; NaN equals NaN,
// an infinity itself.
static inline bool case_near(const double *found, const CaseArray *expected, double tolerance, uint32_t *at) {
  double scale = 1;
  for (uint32_t i = 0; i < expected->n; i++)
    if (isfinite(expected->v[i])) scale = fmax(scale, fabs(expected->v[i]));
  for (*at = 0; *at < expected->n; ++*at) {
    double x = found[*at], y = expected->v[*at];
    bool same = isnan(y) ? isnan(x) : isinf(y) ? x == y : fabs(x - y) <= tolerance * scale;
    if (!same) return false;
  }
  return true;
}

static inline void case_compare(const OpCase *c, const char *what, uint32_t k, const double *found,
                                const CaseArray *expected, double tolerance) {
  uint32_t at;
  bool near = case_near(found, expected, tolerance, &at);
  if (!near)
    printf("%s: %s %u, element %u: found %.17g, expected %.17g\n", c->name, what, k, at, found[at], expected->v[at]);
  CHECK(near);
}

static inline double **case_buffers(RtArena *mem, const CaseArray *like, uint32_t n) {
  double **all = rt_alloc(mem, n * sizeof *all);
  for (uint32_t k = 0; k < n; k++) all[k] = rt_alloc(mem, like[k].n * sizeof(double));
  return all;
}

static inline void case_check(const OpCase *c, CaseRunner *run, double tolerance) {
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, c->tir, strlen(c->tir), c->name, &diags);
  RtText why = {.mem = mem};
  double **out = case_buffers(mem, c->out, c->n_out), **after = case_buffers(mem, c->after, c->n_params);
  bool ok = p && run(c, p, out, after, &why);
  if (!p) rt_diags_print(&diags, stdout);
  if (p) rt_diags_print(&p->diags, stdout);
  if (!ok) printf("%s: %s\n%s", c->name, why.text ? why.text : "does not parse", c->tir);
  if (CHECK(ok)) {
    for (uint32_t k = 0; k < c->n_out; k++) case_compare(c, "output", k, out[k], &c->out[k], tolerance);
    for (uint32_t k = 0; k < c->n_params; k++) case_compare(c, "parameter", k, after[k], &c->after[k], tolerance);
  }
  rt_arena_free(mem);
}

#endif
