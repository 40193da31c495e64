// What a further layer of another size adds to a program: bytes of its objects, which stand for what compiling costs and,
// unlike seconds, are the same on every machine. Layers of other sizes share microkernels, column sums and updates.
#include "frontend/fe.h"
#include "tests/check.h"

enum { BATCH = 64, WIDTH = 64, FEW = 2, MANY = 8 };

typedef struct {
  CgInfo info;
  size_t bytes;
} Size;

static tn_program *build(int n, bool trains) {
  tn_program *p = tn_program_create("sizes");
  tn_module *net = tn_root(p);
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, WIDTH));
  for (int k = 0; k < n; k++) {
    char name[16];
    snprintf(name, sizeof name, "%d", k);
    x = tn_relu(tn_call(tn_linear(net, name, WIDTH + k, WIDTH + k + 1), x));
  }
  if (trains) {
    x = tn_mean(tn_square(x));
    tn_backward(x);
    tn_adamw(f, net);
  }
  tn_output(f, "y", x);
  tn_function_end(f);
  fe_params_flush(p);
  return p;
}

static Size size_of(const Target *t, int n, bool trains) {
  tn_program *p = build(n, trains);
  RtText why = {.mem = p->mem};
  CgObject object = {0};
  Size s = {0};
  CHECK(tn_n_errors(p) == 0);
  cg_plan_for(p->ir, t);
  for (uint32_t k = 0; k < p->ir->n_fns; k++) CHECK(ir_run_passes(p->ir->fns[k], NULL, NULL, NULL));
  bool good = ir_plan_program_memory(p->ir) && cg_compile(p->ir, t, NULL, &object, &s.info, &why);
  if (!CHECK(good)) printf("  %s\n", why.text ? why.text : "");
  s.bytes = object.size;
  rt_free(object.bytes);
  tn_program_free(p);
  return s;
}

static void check_layers(const char *target, bool trains, double most) {
  const Target *t = cg_target_find(target);
  Size few = size_of(t, FEW, trains), many = size_of(t, MANY, trains);
  uint32_t kernels = many.info.n_distinct - few.info.n_distinct;
  double each = (double)(many.bytes - few.bytes) / (kernels ? kernels : 1);
  printf("%s, %s: %u distinct kernels, %zu bytes; a further one %.0f bytes (at most %.0f)\n", target,
         trains ? "training" : "inference", many.info.n_distinct, many.bytes, each, most);
  CHECK(kernels >= MANY - FEW && many.bytes > few.bytes);
  CHECK(each <= most);
}

int main(void) {
  if (!CHECK(cg_target_find("avx2") && cg_target_find("avx512"))) return check_report();
  check_layers("avx2", false, 3500);
  check_layers("avx2", true, 2100);
  check_layers("avx512", true, 2500);
  return check_report();
}
