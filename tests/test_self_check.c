// What `tenure bisect` and `reduce` search with, on programs to which a test does damage after a pass: the pass and the
// application of a rule are found, crashes too, and the program shrinks to what shows it.
#include "ir/storage.h"
#include "tests/check.h"

#include "tools/bisect.h"
#include "tools/reduce.h"

#include <stdlib.h>
#include <string.h>

static const char text[] = "program @p\n"
                           "dim n <= 6\n"
                           "param @w : f32[4,4] trainable\n"
                           "func @other(%x: f32[n]) {\n"
                           "  %y = exp %x\n"
                           "  output %y {index=0, name=\"y\"}\n"
                           "}\n"
                           "func @f(%x: f32[n,4], %k: i64[n]) {\n"
                           "  %w = param @w\n"
                           "  %c = copy %x\n"
                           "  %d = copy %c\n"
                           "  %e = copy %d\n"
                           "  %h = matmul %e, %w\n"
                           "  %a = relu %h\n"
                           "  %s = sum %a {axes=[1]}\n"
                           "  output %s {index=0, name=\"s\"}\n"
                           "  output %a {index=1, name=\"a\"}\n"
                           "}\n";

static void change_op(Fn *f, Op from, Op to) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == from) f->ins[i].op = (uint16_t)to;
}

static void damage_fuse(Fn *f, const PassInfo *pass) {
  if (!strcmp(pass->name, "fuse")) change_op(f, OP_relu, OP_tanh);
}

static void damage_second_rule(Fn *f, const PassInfo *pass) {
  if (!strcmp(pass->name, "simplify") && f->prog->n_rule_applications >= 2) change_op(f, OP_relu, OP_tanh);
}

static void damage_type(Fn *f, const PassInfo *pass) {
  if (strcmp(pass->name, "rematerialise")) return;
  change_op(f, OP_relu, OP_grad_of);
  ir_changed(f, (Val){1});
}

static void crash(Fn *f, const PassInfo *pass) {
  if (!strcmp(pass->name, "insert_copies") && f->n_outputs == 2) abort();
}

static SelfCheck check_with(void (*damage)(Fn *f, const PassInfo *pass)) {
  return (SelfCheck){.text = text, .n = strlen(text), .path = "p.tir", .damage = damage};
}

static void find_pass(void) {
  SelfCheck c = check_with(NULL);
  Finding f = self_check(&c);
  CHECK(f.verdict == CHECK_SAME && f.n_functions == 2);
  Culprit k = bisect_find(check_with(damage_fuse));
  CHECK(k.found.verdict == CHECK_PASS_DIFFERS && !k.is_rule);
  CHECK(!strcmp(k.found.pass, "fuse") && !strcmp(k.found.function, "f"));
  CHECK(strstr(k.found.why, "output 0, element"));
  k = bisect_find(check_with(damage_type));
  CHECK(k.found.verdict == CHECK_PASS_FAILS && !strcmp(k.found.pass, "rematerialise"));
  k = bisect_find(check_with(crash));
  CHECK(k.found.verdict == CHECK_CRASH && !strcmp(k.found.pass, "insert_copies") && strstr(k.found.why, "signal 6"));
}

static void find_rule(void) {
  Culprit k = bisect_find(check_with(damage_second_rule));
  CHECK(k.found.verdict == CHECK_PASS_DIFFERS && !strcmp(k.found.pass, "simplify"));
  CHECK(k.is_rule && k.rule_number == 2);
  CHECK(strstr(k.found.rule, "// rule fold_copy of @f"));
}

static bool shows_damage(const char *candidate, size_t n, void *ctx) {
  (void)ctx;
  SelfCheck c = check_with(damage_fuse);
  c.text = candidate, c.n = n;
  Finding f = self_check(&c);
  return f.verdict == CHECK_PASS_DIFFERS && !strcmp(f.pass, "fuse");
}

static void shrink(void) {
  RtArena *mem = rt_arena_new();
  Reduce r = {.mem = mem, .text = text, .holds = shows_damage, .most_tries = 1000};
  reduce_text(&r);
  CHECK(strstr(r.text, "relu"));
  CHECK(!strstr(r.text, "matmul") && !strstr(r.text, "@other") && !strstr(r.text, "param") && !strstr(r.text, "%k"));
  if (!CHECK(strlen(r.text) < 120)) printf("%s", r.text);
  CHECK(shows_damage(r.text, strlen(r.text), NULL));
  rt_arena_free(mem);
}

int main(void) {
  find_pass();
  find_rule();
  shrink();
  return check_report();
}
