// A program that was built by public calls, run by the interpreter in doubles: its text, parsed and lowered anew.
#ifndef TN_TESTS_SCAN_ORACLE_H
#define TN_TESTS_SCAN_ORACLE_H

#include "frontend/tenure.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interpret.h"
#include "ir/ir.h"
#include "ir/passes/passes.h"
#include "ir/text/text.h"
#include "tests/check.h"

#include <stdlib.h>

enum { ORACLE_MAX = 128 };

typedef struct {
  RtArena *mem;
  Prog *p;
  Fn *f;
  Tensor in[ORACLE_MAX], out[ORACLE_MAX], *params;
  int64_t *slots;
  uint64_t seed, counter;
} Oracle;

// `p` was built and may be compiled. All sizes are at their bounds.
static inline bool oracle_open(Oracle *o, const tn_program *p, const char *function) {
  char *text = NULL;
  size_t n = 0;
  FILE *file = open_memstream(&text, &n);
  bool ok = tn_dump(p, file, TN_DUMP_IR) == TN_OK;
  fclose(file);
  *o = (Oracle){.mem = rt_arena_new(), .counter = 1};
  RtDiags diags = {.mem = o->mem};
  if (ok) o->p = ir_parse(o->mem, text, n, "oracle.tir", &diags);
  free(text);
  if (o->p) o->f = ir_fn_find(o->p, function);
  ok = o->f && ir_run_passes(o->f, "check_scopes,check_rows,functionalize,outline_scans,grad", NULL, NULL);
  rt_diags_print(&diags, stdout);
  if (o->p) rt_diags_print(&o->p->diags, stdout);
  if (!CHECK(ok)) return false;
  o->slots = rt_alloc(o->mem, (o->p->n_syms + 1) * sizeof *o->slots);
  o->params = rt_alloc(o->mem, (o->p->n_params + 1) * sizeof *o->params);
  for (uint32_t k = 0; k < o->p->n_syms; k++) o->slots[k] = ir_dim_bound(o->p, o->p->syms[k]);
  return true;
}

static inline void oracle_size(Oracle *o, const char *dim, int64_t n) {
  o->slots[ir_dim_info(o->p, ir_dim_find(o->p, dim))->slot] = n;
}

static inline Tensor oracle_values(Oracle *o, const tn_array *a) {
  int64_t n = 1;
  for (uint32_t k = 0; k < a->rank; k++) n *= a->dims[k];
  Tensor t = {.v = rt_alloc(o->mem, (size_t)(n + 1) * sizeof(double)), .n = n};
  for (int64_t k = 0; k < n; k++)
    t.v[k] = a->dtype == TN_I64 ? (double)((const int64_t *)a->data)[k] : (double)((const float *)a->data)[k];
  return t;
}

// Inputs as a run takes them; parameters as the model has them now.
static inline void oracle_take(Oracle *o, tn_model *m, const tn_array *in, size_t n) {
  for (size_t k = 0; k < n; k++) o->in[k] = oracle_values(o, &in[k]);
  for (uint32_t k = 0; m && k < tn_param_count(m); k++) {
    tn_array a = tn_param_at(m, k);
    uint32_t at = ir_param_find(o->p, tn_param_path(m, k));
    if (at != UINT32_MAX) o->params[at] = oracle_values(o, &a);
  }
}

static inline bool oracle_run(Oracle *o) {
  RtText why = {.mem = o->mem};
  InterpEnv env = {.slots = o->slots,
                   .params = o->params,
                   .in = o->in,
                   .out = o->out,
                   .seed = o->seed,
                   .counter = o->counter,
                   .mem = o->mem};
  bool ok = ir_interpret(o->f, &env, &why);
  if (!CHECK(ok)) printf("  %s\n", why.text ? why.text : "");
  return ok;
}

static inline bool oracle_agrees(const Oracle *o, uint32_t out, const float *found, double tolerance) {
  Tensor t = o->out[out];
  for (int64_t k = 0; k < t.n; k++) {
    double size = 1 + (t.v[k] < 0 ? -t.v[k] : t.v[k]), d = (double)found[k] - t.v[k];
    if ((d < 0 ? -d : d) <= tolerance * size) continue;
    printf("  output %u, element %lld: %g, the interpreter has %g\n", out, (long long)k, (double)found[k], t.v[k]);
    return false;
  }
  return true;
}

// Output `loss` by central differences along element k of input `in`, against element k of output `grad`.
static inline bool oracle_slope(Oracle *o, uint32_t in, int64_t k, uint32_t loss, uint32_t grad, double tolerance) {
  const double step = 1e-5;
  if (!oracle_run(o)) return false;
  double stated = o->out[grad].v[k], keep = o->in[in].v[k], up, down;
  o->in[in].v[k] = keep + step;
  if (!oracle_run(o)) return false;
  up = o->out[loss].v[0];
  o->in[in].v[k] = keep - step;
  if (!oracle_run(o)) return false;
  down = o->out[loss].v[0];
  o->in[in].v[k] = keep;
  double found = (up - down) / (2 * step), d = found - stated;
  if ((d < 0 ? -d : d) <= tolerance * (1 + (found < 0 ? -found : found))) return true;
  printf("  gradient of input %u, element %lld: stated %.9g, by differences %.9g\n", in, (long long)k, stated, found);
  return false;
}

static inline void oracle_close(Oracle *o) { rt_arena_free(o->mem); }

#endif
