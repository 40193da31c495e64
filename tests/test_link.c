// The image of a program: made for every row of the table of CPUs, with calls between modules, constants and words that
// hold addresses; and refused when a number in it is wrong.
#include "codegen/kernels.h"
#include "codegen/module/link.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tests/check.h"

#include <stdlib.h>

static const char source[] = "program @linked\n"
                             "func @f(%x: f32[4,40], %w: f32[24,40], %u: f32[24,24]) {\n"
                             "  %h = linear %x, %w\n"
                             "  %s = softmax %h {axis=1}\n"
                             "  %y = linear %s, %u\n"
                             "  %z = exp %y\n"
                             "  output %z {index=0, name=\"z\"}\n"
                             "}\n";

static bool compile(RtArena *mem, const char *target, CgObject *out) {
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  Prog *p = ir_parse(mem, source, sizeof source - 1, "link.tir", &diags);
  if (!CHECK(p && !diags.n_errors)) return rt_diags_print(&diags, stdout), false;
  const Target *t = cg_target_find(target);
  cg_plan_for(p, t);
  bool good = ir_run_passes(p->fns[0], NULL, NULL, NULL) && ir_plan_program_memory(p) &&
              cg_compile(p, t, NULL, out, NULL, &why);
  if (!CHECK(good)) printf("%s: %s\n", target, why.text ? why.text : "no plan");
  return good;
}

static CgJit *load(RtArena *mem, const CgObject *o, CgFailure *failure) {
  RtText why = {.mem = mem};
  return cg_jit_load(o, failure, &why);
}

static void test_targets(RtArena *mem) {
  static const char *const names[] = {"avx512", "avx2", "neon", "generic"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    CgObject o;
    if (!compile(mem, names[k], &o)) continue;
    CgJit *j = load(mem, &o, NULL);
    CHECK(j && cg_jit_find(j, "linked_f") && !cg_jit_find(j, "linked_g"));
    cg_jit_free(j);
    rt_free(o.bytes);
  }
}

// Addresses: the table of a profile points at its text and its counters.
static void test_addresses(RtArena *mem) {
  CgObject o;
  setenv("TN_PROFILE", "1", 1);
  bool good = compile(mem, "generic", &o);
  unsetenv("TN_PROFILE");
  CgJit *j = good ? load(mem, &o, NULL) : NULL;
  if (!CHECK(j)) return;
  struct {
    uint64_t n;
    const char *text;
    uint64_t *cells;
  } *table = cg_jit_find(j, "tenure_profile");
  CHECK(table && table->n > 1 && !strncmp(table->text, "f\tlinear", 8));
  table->cells[0] = 1;  // may be written
  cg_jit_free(j);
  rt_free(o.bytes);
}

// Every length and every byte of the head and the tables but those of magic and contents
static void test_wrong_numbers(RtArena *mem) {
  CgObject o;
  CgImageHead head;
  if (!compile(mem, "generic", &o)) return;
  memcpy(&head, o.bytes, sizeof head);
  for (size_t n = 0; n < o.size; n += n < sizeof head ? 1 : 97) {
    CgFailure failure = CG_NO_FAILURE;
    CHECK(!load(mem, &(CgObject){o.bytes, n}, &failure) && failure == CG_NO_CODE);
  }
  unsigned char *tables = (unsigned char *)o.bytes + sizeof head + head.filled;
  for (size_t k = 0; k < sizeof head + o.size - sizeof head - head.filled; k++) {
    unsigned char *at = k < sizeof head ? (unsigned char *)o.bytes + k : tables + (k - sizeof head);
    *at ^= 0x80;
    CgJit *j = load(mem, &o, NULL);
    if (j) CHECK(cg_jit_find(j, "linked_f") || !cg_jit_find(j, ""));  // finding reads all of its tables
    cg_jit_free(j);
    *at ^= 0x80;
  }
  rt_free(o.bytes);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  if (!mem) return 2;
  test_targets(mem);
  test_addresses(mem);
  test_wrong_numbers(mem);
  rt_arena_free(mem);
  return check_report();
}
