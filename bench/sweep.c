// sweep: small workloads over the tables of ops and modules, those that no other bench looks at among them. A case is a row of
// bench/sweep.def, forward or backward: `softmax F(4096, 1000) backward`. Backward is the forward with the gradients of
// sum(y g) with respect to all f32 inputs and all parameters.
#include "bench/bench.h"
#include "bench/blocks.h"
#include "bench/heads.h"
#include <stdlib.h>
#include <string.h>

#include "bench/op_inputs.h"

// ---- the table
#define OP(name, torch, call) OP_ENTRY(name, call)
#define MODULE(name, torch, torch_call, make, call) MODULE_ENTRY(name, make, call)
#define BOTH(...)
#define FORWARD(...)
#include "bench/sweep.def"
#undef OP
#undef MODULE
#undef BOTH
#undef FORWARD

#define OP(...)
#define MODULE(...)
#define FORWARD(name, ...) OP_ROW(name, #name " " #__VA_ARGS__ " forward", false, __VA_ARGS__),
#define BOTH(name, ...)                                                \
  OP_ROW(name, #name " " #__VA_ARGS__ " forward", false, __VA_ARGS__), \
      OP_ROW(name, #name " " #__VA_ARGS__ " backward", true, __VA_ARGS__),
static const OpRow rows[] = {
#include "bench/sweep.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };
#undef FORWARD
#undef BOTH
#define FORWARD(name, ...) #name " " #__VA_ARGS__ " forward",
#define BOTH(name, ...) #name " " #__VA_ARGS__ " forward", #name " " #__VA_ARGS__ " backward",
static const char *const cases[] = {
#include "bench/sweep.def"
    NULL};

static const OpRow *find_row(const char *text) {
  for (size_t k = 0; k < N_ROWS; k++)
    if (!strcmp(rows[k].text, text)) return &rows[k];
  return NULL;
}

// ---- one case
typedef struct {
  tn_model *model;
  OpRun run;
} Sweep;

static tn_model *model(void *w) { return ((Sweep *)w)->model; }

static void close_case(void *w) {
  Sweep *s = w;
  tn_model_free(s->model);
  op_run_free(&s->run);
  free(s);
}

static void *open_case(Opening *how) {
  Sweep *s = calloc(1, sizeof *s);
  const OpRow *row = find_row(how->variant);
  if (!s || !row) return free(s), NULL;
  tn_program *p = tn_program_create("sweep");
  op_run_build(&s->run, row, p);
  op_run_fill(&s->run, 0);
  if (!row->op->make) how->weights = NULL;
  s->model = bench_compile(p, how);
  if (s->model) return s;
  close_case(s);
  return NULL;
}

static bool step(void *w) {
  Sweep *s = w;
  return tn_run(s->model, "run", s->run.in, s->run.n_in, s->run.out, s->run.n_out) == TN_OK;
}

static bool check(void *w, double *loss) {
  Sweep *s = w;
  *loss = 0;
  if (!step(w)) return false;
  for (uint32_t k = 0; k < s->run.n_out; k++) {
    size_t n = op_array_count(&s->run.out[k]);
    float *v = bench_block(n * sizeof *v + 1);
    for (size_t i = 0; i < n; i++) v[i] = (float)op_array_at(&s->run.out[k], i);
    *loss += bench_checksum(v, n);
    free(v);
  }
  return true;
}

const Workload bench_sweep = {.name = "sweep",
                              .what = "ops and modules, forward and backward, in usual, odd and large sizes",
                              .peer = "bench/peers/%s_sweep.py",
                              .forms = PEER_LAYOUTS,
                              .workers = 1,  // two threads that wait for each other see every other program
                              .cases = cases,
                              .tolerance = 2e-4,
                              .open = open_case,
                              .check = check,
                              .step = step,
                              .model = model,
                              .close = close_case,
                              .function = "run"};
