// What compiling costs grows as the program does: steps of the compiler's searches, and memory, for n and for 2n. Work
// is counted, not timed, so that the test says the same on every machine.
#include "frontend/graph/program.h"
#include "frontend/tenure.h"
#include "runtime/names.h"
#include "tests/check.h"

#include <stdlib.h>

static const char *const no_cache = "";

typedef struct {
  uint64_t visits;
  size_t bytes;  // of the program's arena
} Work;

static const char *name_of(char *to, const char *what, uint32_t k) {
  snprintf(to, 32, "%s%u", what, k);
  return to;
}

// ---- programs of size n
static void layers(tn_program *p, uint32_t n) {
  tn_module *net = tn_root(p);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(8, 32));
  char name[32];
  for (uint32_t k = 0; k < n; k++) x = tn_relu(tn_call(tn_linear(net, name_of(name, "l", k), 32, 32), x));
  tn_output(f, "y", x);
  tn_function_end(f);
}

static void outputs(tn_program *p, uint32_t n) {
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_exp(tn_input(f, "x", TN_F32, TN_SHAPE(8, 4)));
  char name[32];
  for (uint32_t k = 0; k < n; k++) tn_output(f, name_of(name, "y", k), x);
  tn_function_end(f);
}

static void inputs(tn_program *p, uint32_t n) {
  tn_function *f = tn_function_begin(p, "run");
  char name[32];
  tn_tensor sum = tn_input(f, "x", TN_F32, TN_SHAPE(4));
  for (uint32_t k = 0; k < n; k++) sum = tn_add(sum, tn_input(f, name_of(name, "x", k), TN_F32, TN_SHAPE(4)));
  tn_output(f, "y", sum);
  tn_function_end(f);
}

static void writes(tn_program *p, uint32_t n) {
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, 4)), y = tn_zeros(f, TN_SHAPE(64, 4));
  for (uint32_t k = 0; k < n; k++) tn_copy_(tn_slice(y, 0, k % 64, 1), x);
  tn_output(f, "y", y);
  tn_function_end(f);
}

static void parameters(tn_program *p, uint32_t n) {
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4));
  char name[32];
  for (uint32_t k = 0; k < n; k++) {
    tn_parameter(tn_root(p), name_of(name, "w", k), TN_SHAPE(4), (tn_init){TN_INIT_UNIFORM, -1, 1});
    x = tn_add(x, tn_param_value(f, tn_root(p), name));
  }
  tn_output(f, "y", x);
  tn_function_end(f);
}

// Losses that have nothing to do with each other, and losses that each follow from the one before.
static void losses(tn_program *p, uint32_t n, bool chained, bool written) {
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4)), h = x, sum = x, kept = tn_zeros(f, TN_SHAPE(n, 4));
  for (uint32_t k = 0; k < n; k++) {
    if (written) tn_copy_(tn_slice(kept, 0, k, 1), tn_reshape(x, TN_SHAPE(1, 4)));
    tn_tensor a = tn_tanh(tn_mul(h, x)), loss = tn_sum(tn_mul(a, a));
    sum = tn_add(sum, tn_grad(loss, a));
    if (chained) h = a;
  }
  tn_output(f, "y", sum);
  if (written) tn_output(f, "kept", kept);
  tn_function_end(f);
}

static void separate_losses(tn_program *p, uint32_t n) { losses(p, n, false, false); }
static void chained_losses(tn_program *p, uint32_t n) { losses(p, n, true, false); }
static void losses_and_writes(tn_program *p, uint32_t n) { losses(p, n, false, true); }

// ---- work
static Work compile(void (*build)(tn_program *p, uint32_t n), uint32_t n) {
  uint64_t before = rt_names_probes();
  tn_program *p = tn_program_create("growth");
  build(p, n);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = no_cache);
  if (!CHECK(m != NULL)) tn_report(p, stdout);
  Work w = {p->ir->n_visits + rt_names_probes() - before, rt_arena_bytes(p->mem)};
  tn_model_free(m);
  tn_program_free(p);
  return w;
}

static void check_growth(const char *what, void (*build)(tn_program *p, uint32_t n), uint32_t n) {
  Work one = compile(build, n), two = compile(build, 2 * n);
  double visits = (double)two.visits / (double)one.visits, bytes = (double)two.bytes / (double)one.bytes;
  printf("%-16s %4u: %8llu visits, x %.2f; %6zu KB, x %.2f for twice as many\n", what, n,
         (unsigned long long)one.visits, visits, one.bytes >> 10, bytes);
  CHECK(visits < 2.5);
  CHECK(bytes < 2.5);
}

// Kernels that only fill parameters are one, whatever their number and their shapes.
static uint32_t n_distinct(uint32_t n) {
  tn_program *p = tn_program_create("growth");
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", tn_exp(tn_input(f, "x", TN_F32, TN_SHAPE(4))));
  tn_function_end(f);
  char name[32];
  for (uint32_t k = 0; k < n; k++) {
    tn_init init = {k % 3 == 0 ? TN_INIT_UNIFORM : k % 3 == 1 ? TN_INIT_NORMAL : TN_INIT_CONSTANT, 0.25, 1};
    tn_parameter(tn_root(p), name_of(name, "w", k), TN_SHAPE(2 + k, 3), init);
  }
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = no_cache);
  uint32_t count = CHECK(m != NULL) ? tn_compile_info_of(m).n_distinct_kernels : 0;
  tn_model_free(m);
  tn_program_free(p);
  return count;
}

// ---- loops that the user unrolled: memory of n steps
typedef enum { PRODUCTS, SCALED_INPUTS, SCALED_SLICES, DRAWN_NUMBERS } Reads;

static tn_tensor read_by_step(tn_function *f, tn_module *of_input, Reads reads, tn_tensor x, tn_tensor z, uint32_t k) {
  tn_tensor step = tn_reshape(tn_slice(x, 0, k, 1), TN_SHAPE(32, 64));
  switch (reads) {
  case PRODUCTS: return tn_call(of_input, step);
  case SCALED_INPUTS: return tn_mul(z, tn_scalar(f, k + 1.5));
  case SCALED_SLICES: return tn_sigmoid(tn_mul(step, tn_scalar(f, 2)));
  default: return tn_rand(f, TN_SHAPE(32, 64));
  }
}

static int64_t loop_peak(Reads reads, uint32_t n) {
  tn_program *p = tn_program_create("growth");
  tn_module *of_state = tn_linear(tn_root(p), "h", 64, 64), *of_input = tn_linear(tn_root(p), "x", 64, 64);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, 32, 64)), z = tn_input(f, "z", TN_F32, TN_SHAPE(32, 64));
  tn_tensor h = tn_input(f, "h", TN_F32, TN_SHAPE(32, 64));
  for (uint32_t k = 0; k < n; k++) h = tn_tanh(tn_add(tn_call(of_state, h), read_by_step(f, of_input, reads, x, z, k)));
  tn_output(f, "y", h);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = no_cache);
  tn_plan plan = {.peak_bytes = -1};
  CHECK(m && tn_plan_of(m, "run", &plan) == TN_OK);
  tn_model_free(m);
  tn_program_free(p);
  return plan.peak_bytes;
}

// What the steps read is computed step by step, not all of it first: products beside the step before, and what is pointwise
// of inputs and constants in the epilogue that reads it.
static void check_loop(const char *what, Reads reads) {
  int64_t few = loop_peak(reads, 10), many = loop_peak(reads, 40);
  printf("arena of a loop of 10 steps that read %s: %lld bytes, of 40: %lld\n", what, (long long)few, (long long)many);
  CHECK(few == many || getenv("TN_CHECK"));  // guards stand around values in a guarded arena
}

int main(void) {
  check_growth("layers", layers, 150);
  check_growth("outputs", outputs, 500);
  check_growth("inputs", inputs, 500);
  check_growth("writes", writes, 150);
  check_growth("parameters", parameters, 200);
  check_growth("separate losses", separate_losses, 200);
  check_growth("chained losses", chained_losses, 200);
  check_growth("losses, writes", losses_and_writes, 400);  // with fewer no order for memory is looked for
  CHECK(n_distinct(6) == 2 && n_distinct(24) == 2);
  check_loop("products of slices", PRODUCTS);
  check_loop("pointwise values of an input", SCALED_INPUTS);
  check_loop("pointwise values of slices", SCALED_SLICES);
  check_loop("random numbers", DRAWN_NUMBERS);
  return check_report();
}
