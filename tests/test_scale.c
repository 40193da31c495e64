// Building, checking and printing cost time in proportion to the graph: 100,000 instructions in 10,000 scopes stay
// below a second, and ten times the size costs about ten times as much.
#include "frontend/graph/function.h"
#include "frontend/tenure.h"
#include "ir/passes/passes.h"
#include "tests/check.h"

#include <time.h>

// CPU time: other programs use the machine too.
static double cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// n_scopes scopes of ten values each; the last value of each is moved out and read by the next.
static double build(int n_scopes) {
  double start = cpu_ms();
  tn_program *p = tn_program_create("scale");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4));
  for (int k = 0; k < n_scopes; k++) {
    tn_scope *s = tn_scope_begin(f, "step");
    tn_tensor h = x;
    for (int j = 0; j < 9; j++) h = j % 2 ? tn_relu(h) : tn_add(h, x);
    x = tn_move_to_outer(tn_neg(h));
    tn_scope_end(s);
  }
  tn_output(f, "y", x);
  tn_function_end(f);
  CHECK(tn_n_errors(p) == 0);
  CHECK(f->ir->n_ins > (uint32_t)n_scopes * 10);
  CHECK(ir_run_passes(f->ir, "check_scopes", NULL, NULL));
  FILE *sink = fopen("/dev/null", "w");
  CHECK(sink && tn_dump(p, sink, TN_DUMP_IR) == TN_OK);
  if (sink) fclose(sink);
  tn_program_free(p);
  return cpu_ms() - start;
}

static double best_of(int n, int n_scopes) {
  double best = build(n_scopes);
  for (int k = 1; k < n; k++) {
    double t = build(n_scopes);
    if (t < best) best = t;
  }
  return best;
}

int main(void) {
  double small = best_of(5, 1000), large = best_of(3, 10000);
  printf("10,000 instructions in 1,000 scopes: %.1f ms; 100,000 in 10,000: %.1f ms\n", small, large);
#ifdef NDEBUG  // a sanitizer build is several times slower
  CHECK(large < 1000);
#endif
  CHECK(large < 20 * small);
  return check_report();
}
