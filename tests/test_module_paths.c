// Twelve equal layers made by one line of source are told apart by the paths of their modules, in the program as built,
// in its plan, forward and backward, and in the text form; they share their kernels all the same.
//
//   test_module_paths                      the checks
//   test_module_paths --run WORKERS WIDE   some steps: for test_profile.sh
//   test_module_paths --two N              N steps of each of two instances at once, with one worker: likewise
//   test_module_paths --text               the program as text: for `tenure explain` and `tenure report`
#include "frontend/tenure.h"
#include "ir/ir.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/models.h"
#include <pthread.h>
#include <stdlib.h>

enum { LAYERS = 12, WIDE = 8, MOST_WIDE = 64, BATCH = 4, STEPS = 20 };

static tn_program *build(int64_t wide) {
  tn_program *p = tn_program_create("paths");
  tn_module *h = tn_module_new(tn_root(p), "h");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH * wide, wide));
  for (int k = 0; k < LAYERS; k++) {
    char name[8];
    snprintf(name, sizeof name, "%d", k);
    tn_module *fc = tn_linear(tn_module_new(h, name), "fc", wide, wide);
    x = tn_tanh(tn_call(fc, x));
  }
  tn_tensor loss = tn_mean(tn_square(x));
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_sgd(f, h, .lr = 0.1);
  tn_function_end(f);
  return p;
}

static char *dump(const tn_program *p, tn_dump_kind kind) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  CHECK(tn_dump(p, out, kind) == TN_OK);
  fclose(out);
  return text;
}

static bool step(tn_model *m, int64_t wide) {
  static const float x[BATCH * MOST_WIDE * MOST_WIDE];
  float loss = 0;
  return tn_run(m, "step", TN_IN(tn_f32(x, BATCH * wide, wide)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK;
}

// ---- what other programs read
static int run(uint32_t workers, int64_t wide) {
  tn_program *p = build(wide);
  tn_model *m = model_of(p, .n_workers = workers);
  bool ok = m;
  for (int k = 0; ok && k < STEPS; k++) ok = step(m, wide);
  tn_model_free(m);
  tn_program_free(p);
  return !ok;
}

typedef struct {
  tn_model *m;
  int n_steps;
} Steps;

static void *run_steps(void *arg) {
  const Steps *s = arg;
  bool ok = s->m;
  for (int k = 0; ok && k < s->n_steps; k++) ok = step(s->m, WIDE);
  return ok ? arg : NULL;
}

static int run_two(int n_steps) {
  tn_program *p = build(WIDE);
  tn_model *m = tn_compile(p, .n_workers = 1);
  Steps one = {m, n_steps}, two = {m ? tn_instance(m, 0) : NULL, n_steps};
  pthread_t thread;
  void *good = NULL;
  bool ok = !pthread_create(&thread, NULL, run_steps, &one);
  ok = run_steps(&two) && ok && !pthread_join(thread, &good) && good;
  tn_model_free(two.m), tn_model_free(m);
  tn_program_free(p);
  return !ok;
}

static int print_text(void) {
  tn_program *p = build(WIDE);
  tn_status s = tn_dump(p, stdout, TN_DUMP_IR);
  tn_program_free(p);
  return s != TN_OK;
}

// ---- checks
static void check_all_named(const char *text, const char *what) {
  for (int k = 0; k < LAYERS; k++) {
    char path[32];
    snprintf(path, sizeof path, "in h.%d.fc\n", k);
    if (!CHECK(strstr(text, path))) printf("  %s lacks %s", what, path);
  }
}

static uint32_t count(const char *text, const char *part) {
  uint32_t n = 0;
  while ((text = strstr(text, part))) n++, text++;
  return n;
}

static void check_program(void) {
  tn_program *p = build(WIDE);
  char *built = dump(p, TN_DUMP_IR);
  check_all_named(built, "the program as built");
  tn_model *m = model_of(p, .n_workers = 1);
  char *plan = dump(p, TN_DUMP_LIFETIMES), *summary = dump(p, TN_DUMP_SUMMARY);
  check_all_named(plan, "the plan");
  CHECK(count(plan, "in h.5.fc\n") > count(built, "in h.5.fc\n"));  // its gradients too
  CHECK_HAS(summary, "  // ");
  tn_compile_info info = tn_compile_info_of(m);
  CHECK(info.n_distinct_kernels + LAYERS < info.n_kernels);
  tn_plan counts;
  CHECK(m && tn_plan_of(m, "step", &counts) == TN_OK);
  double products = 2.0 * BATCH * WIDE * WIDE * WIDE * (3 * LAYERS - 1);  // the first layer's input wants no gradient
  CHECK(m && counts.flops > products && counts.flops < 2 * products);
  int64_t params = 4 * LAYERS * (WIDE * WIDE + WIDE), outside = 4 * (BATCH * WIDE * WIDE + 1);
  CHECK(m && counts.least_bytes >= 2 * params + outside && counts.least_bytes < 2 * params + outside + 64);
  tn_model_free(m);
  tn_program_free(p);
  free(built), free(plan), free(summary);
}

// ---- the text form
// Does the last line of a function keep this comment through parsing and printing?
static const char *again(RtArena *mem, const char *comment) {
  const char *text = rt_printf(mem,
                               "program @p\nfunc @f(%%x: f32[2]) {  // a.c:1\n  %%y = relu %%x  // %s\n"
                               "  output %%y {index=0, name=\"y\"}\n}\n",
                               comment);
  RtDiags d = {.mem = mem};
  Prog *p = ir_parse(mem, text, strlen(text), "p.tir", &d);
  RtText out = {.mem = mem};
  if (CHECK(p)) ir_print(p, &out, PRINT_LOCS);
  return out.text ? out.text : "";
}

static void check_text(void) {
  RtArena *mem = rt_arena_new();
  CHECK_HAS(again(mem, "a.c:2 in h.0.fc"), "// a.c:2 in h.0.fc\n");
  CHECK_HAS(again(mem, "a.c:2   in  \"h 0\""), "// a.c:2 in \"h 0\"\n");
  CHECK_HAS(again(mem, "\"a b.c\":2 in h"), "// \"a b.c\":2 in h\n");
  CHECK_HAS(again(mem, "a.c:2"), "relu %x : f32[2]  // a.c:2\n");
  CHECK_HAS(again(mem, "a.c:2 in the loop"), "relu %x : f32[2]  // p.tir:3\n");  // words, no location
  CHECK_HAS(again(mem, "a.c:2 in"), "relu %x : f32[2]  // p.tir:3\n");
  CHECK_HAS(again(mem, "a.c:2 in \"h"), "relu %x : f32[2]  // p.tir:3\n");
  CHECK_HAS(again(mem, "a.c:2in h"), "relu %x : f32[2]  // p.tir:3\n");
  rt_arena_free(mem);
}

static void check_round_trip(void) {
  tn_program *p = build(WIDE);
  char *text = dump(p, TN_DUMP_IR);
  RtArena *mem = rt_arena_new();
  RtDiags d = {.mem = mem};
  RtText out = {.mem = mem};
  Prog *q = ir_parse(mem, text, strlen(text), "p.tir", &d);
  if (CHECK(q)) ir_print(q, &out, PRINT_LOCS);
  CHECK(out.text && !strcmp(out.text, text));
  rt_arena_free(mem);
  free(text);
  tn_program_free(p);
}

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "--run")) return run((uint32_t)atoi(argv[2]), atoi(argv[3]));
  if (argc == 3 && !strcmp(argv[1], "--two")) return run_two(atoi(argv[2]));
  if (argc == 2 && !strcmp(argv[1], "--text")) return print_text();
  check_program();
  check_text();
  check_round_trip();
  return check_report();
}
