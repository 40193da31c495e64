// docs/diagnostics/*.md: the wrong program of each page gives its id, the right one gives none and compiles. The build
// compiles all of them (tools/gen/diags.c).
#include "ir/ir.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/check.h"
#include "tests/report.h"
#include <string.h>

typedef struct {
  const char *id;  // "E103"
  void (*wrong_build)(tn_program *p, tn_module *net, tn_function *f, tn_tensor x);
  void (*right_build)(tn_program *p, tn_module *net, tn_function *f, tn_tensor x);
  const char *wrong_text, *right_text;  // of .tir
} DiagProgram;

// What pages call beside the API.
static tn_tensor negated(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return tn_neg(out);
}
static tn_tensor sum_of_rows(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return tn_sum_axis(out, 0, false);
}

#include "diagnostic_programs.h"

static void check_build(const DiagProgram *d, bool wrong) {
  tn_program *p = tn_program_create("page");
  tn_function *f = tn_function_begin(p, "step");
  (wrong ? d->wrong_build : d->right_build)(p, tn_root(p), f, tn_input(f, "x", TN_F32, TN_SHAPE(4, 8)));
  if (strcmp(d->id, "E008") && strcmp(d->id, "E009")) tn_function_end(f);  // theirs end it
  tn_model *m = tn_compile(p, .cache_dir = "", .n_workers = 1);
  char mark[16];
  snprintf(mark, sizeof mark, "[%c%s]", *d->id == 'W' ? 'W' : 'E', d->id + 1);  // reports have no letter for notes
  bool good = wrong ? strstr(report_of(p), mark) != NULL : m && !*report_of(p);
  CHECK(names_no_number(report_of(p)));
  if (!CHECK(good) || !CHECK(!wrong || *d->id != 'E' || !m))
    printf("%s, the %s program:\n%s", d->id, wrong ? "wrong" : "right", report_of(p));
  tn_model_free(m);
  tn_program_free(p);
  unsetenv("TN_GEMM");
}

static void check_text(const DiagProgram *d, bool wrong) {
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  const char *text = wrong ? d->wrong_text : d->right_text;
  Prog *p = ir_parse(mem, text, strlen(text), "page.tir", &diags);
  for (uint32_t k = 0; p && k < p->n_fns; k++) ir_verify(p->fns[k], &diags);
  bool found = false;
  for (uint32_t k = 0; k < diags.n; k++) found |= diags.list[k].id == atoi(d->id + 1);
  if (!CHECK(wrong ? found : diags.n == 0)) printf("%s, the %s text\n", d->id, wrong ? "wrong" : "right");
  rt_arena_free(mem);
}

int main(void) {
  size_t n = sizeof diag_programs / sizeof *diag_programs, n_shown = 0;
  for (size_t k = 0; k < n; k++) {
    const DiagProgram *d = &diag_programs[k];
    for (int wrong = 0; wrong < 2; wrong++) {
      if (d->wrong_build) check_build(d, wrong);
      if (d->wrong_text) check_text(d, wrong);
    }
    n_shown += d->wrong_build || d->wrong_text;
    if (!d->wrong_build && !d->wrong_text)
      CHECK(strstr("E006 E007 E010 W011 E012 W134 E137", d->id));  // no program can provoke them
  }
  printf("%zu diagnostics, %zu with programs\n", n, n_shown);
  return check_report();
}
