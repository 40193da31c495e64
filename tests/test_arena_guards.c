// The guarded arena: what it poisons and notices, and that a training program gives the same bits in it.
#include "frontend/tenure.h"
#include "runtime/exec/arena_guards.h"
#include "tests/check.h"

#include <stdlib.h>

// ---- the runtime's part: two buffers on one place, one after the other, and one beside them
static uint32_t arena[128];  // words of 4 bytes
static const RtZone zones[] = {
    {.lo = 64, .hi = 124, .guard_lo = 0, .guard_hi = 192, .first = 0, .last = 1, .what = "%a (m.c:1)"},
    {.lo = 256, .hi = 320, .guard_lo = 192, .guard_hi = 384, .first = 1, .last = 2, .what = "%b (m.c:2)"},
    {.lo = 64, .hi = 128, .guard_lo = 0, .guard_hi = 192, .first = 2, .last = 2, .what = "%c"}};
static const char *const kernels[] = {"point %a", "gemm %b", "row %c"};
static const RtGuardedArena plan = {
    .zones = zones, .n_zones = 3, .n_kernels = 3, .kernels = kernels, .arena_bytes = sizeof arena};

static RtGuardedRun play(int32_t kernel, uint32_t word) {
  RtGuardedRun run = {.plan = &plan};
  TnFrame f = {.guarded_arena = &run};
  f.seg[SEG_ARENA] = (unsigned char *)arena;
  rt_guarded_arena_step(&f, -1, 0);
  for (int32_t k = 0; k < 3; k++) {
    if (k == kernel) arena[word] = 1;
    rt_guarded_arena_step(&f, k, k + 1);
  }
  return run;
}

static void test_guards(void) {
  char text[256] = "";
  RtGuardedRun run = play(1, 31);  // right behind the 15 words of %a
  CHECK(!rt_guarded_arena_report(&run, text, sizeof text));
  CHECK_HAS(text, "kernel 1, gemm %b, wrote 0 bytes behind the end of %a (m.c:1)");
  run = play(2, 60);
  CHECK(!rt_guarded_arena_report(&run, text, sizeof text));
  CHECK_HAS(text, "kernel 2, row %c, wrote 16 bytes before %b (m.c:2)");
  run = play(1, 20);  // inside %a
  CHECK(rt_guarded_arena_report(&run, text, sizeof text));
  run = play(0, 100);  // nobody lives there yet
  CHECK(rt_guarded_arena_report(&run, text, sizeof text));
}

static void test_poison(void) {
  RtGuardedRun run = {.plan = &plan};
  TnFrame f = {.guarded_arena = &run};
  f.seg[SEG_ARENA] = (unsigned char *)arena;
  rt_guarded_arena_step(&f, -1, 0);
  CHECK(arena[16] == RT_POISON && arena[31] == RT_GUARD && arena[15] == RT_GUARD && arena[64] == RT_POISON);
  for (uint32_t k = 16; k < 31; k++) arena[k] = k;
  rt_guarded_arena_step(&f, 0, 1);
  CHECK(arena[16] == 16 && arena[64] == RT_POISON && arena[80] == RT_GUARD);
  rt_guarded_arena_step(&f, 1, 2);
  CHECK(arena[16] == RT_POISON && arena[31] == RT_POISON && arena[32] == RT_GUARD);
  rt_guarded_arena_step(&f, 2, 3);
  CHECK(arena[64] == RT_POISON && arena[32] == RT_POISON);
}

// ---- the whole: one training step of a small net
typedef struct {
  float loss[3], w[21];
  int64_t peak;
} Outcome;

static tn_program *build(void) {
  tn_program *p = tn_program_create("hostile");
  tn_dim n = tn_dim_bounded(p, "n", 9);
  tn_module *in = tn_linear(tn_root(p), "in", 5, 7), *out = tn_linear(tn_root(p), "out", 7, 3);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, 5)), y = tn_input(f, "y", TN_I64, TN_SHAPE(n));
  tn_tensor loss = tn_cross_entropy(tn_call(out, tn_tanh(tn_call(in, x))), y);
  tn_backward(loss);
  tn_adamw(f, tn_root(p), .lr = 0.05);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return p;
}

static Outcome train(const char *check, uint32_t n_workers) {
  Outcome o = {0};
  float x[35];
  int64_t y[7] = {0, 2, 1, 1, 2, 0, 2};
  for (int k = 0; k < 35; k++) x[k] = (float)(k * 7 % 11) / 5 - 1;
  if (check) setenv("TN_CHECK", check, 1);
  else unsetenv("TN_CHECK");
  tn_program *p = build();
  const tn_compile_options options = {.seed = 3, .n_workers = n_workers};
  tn_model *m = (tn_compile)(p, options);
  tn_report(p, stdout);
  tn_plan stats = {0};
  if (CHECK(m)) {
    CHECK(tn_plan_of(m, "step", &stats) == TN_OK);
    for (int k = 0; k < 3; k++)
      CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 7, 5), tn_i64(y, 7)), TN_OUT(tn_f32_scalar(&o.loss[k]))) == TN_OK);
    CHECK(tn_get(m, "out.weight", o.w, 21) == TN_OK);
  }
  o.peak = stats.peak_bytes;
  tn_model_free(m);
  tn_program_free(p);
  return o;
}

int main(void) {
  test_guards();
  test_poison();
  Outcome plain = train(NULL, 1), one = train("arena", 1), three = train("arena", 3);
  CHECK(one.peak > plain.peak);
  CHECK(!memcmp(plain.loss, one.loss, sizeof plain.loss) && !memcmp(plain.w, one.w, sizeof plain.w));
  CHECK(!memcmp(plain.loss, three.loss, sizeof plain.loss) && !memcmp(plain.w, three.w, sizeof plain.w));
  CHECK(plain.loss[2] < plain.loss[0]);
  return check_report();
}
