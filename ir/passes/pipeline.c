// The pass table and its runner: checks the facts that a pass needs, runs it, verifies the function, checks the facts
// that it gives, lets the caller look.
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/passes/passes.h"
#include "ir/verify.h"
#include <string.h>

#define PASS(n, needs, gives, on, doc) {#n, doc, ir_pass_##n, needs, gives, on},
const PassInfo ir_passes[] = {
#include "ir/passes/passes.def"
};
const uint32_t ir_n_passes = sizeof ir_passes / sizeof *ir_passes;

static const PassInfo *find_pass(const char *name, size_t n) {
  for (uint32_t k = 0; k < ir_n_passes; k++)
    if (strlen(ir_passes[k].name) == n && memcmp(ir_passes[k].name, name, n) == 0) return &ir_passes[k];
  return NULL;
}

// One diagnostic for the facts that lack, by what they say; always false.
static bool report_facts(Fn *f, const PassInfo *pass, uint32_t lacking, uint16_t id, const char *what) {
  RtText text = {.mem = f->prog->mem};
  for (uint32_t k = 0; k < N_FACTS; k++)
    if (lacking >> k & 1) rt_text_add(&text, "%s%s", text.len ? "; " : "", ir_fact_doc((Fact)k));
  rt_diag(&f->prog->diags, RT_ERROR, id, NULL, 0, "pass %s of @%s %s: %s", pass->name, ir_text(f->prog, f->name), what,
          text.text);
  return false;
}

// Each change of an instruction drops all facts: if facts from before are left, the verified function is
// unchanged. Builds with assertions verify in any case.
static bool is_verified(const Fn *f, uint32_t known) {
#ifdef NDEBUG
  return known && (f->facts & known) == known;
#else
  return (void)f, (void)known, false;
#endif
}

static bool run_one(Fn *f, const PassInfo *pass) {
  uint32_t found = ir_find_facts(f, pass->needs);
  if (found != pass->needs)
    return report_facts(f, pass, pass->needs & ~found, E_ARGUMENT, "comes before a pass that gives what it needs");
  uint32_t known = f->facts;
  if (!pass->run(f)) return false;
  if (!is_verified(f, known) && !ir_verify(f, &f->prog->diags)) return false;
  uint32_t given = ir_check_facts(f, pass->gives);
  return given == pass->gives ||
         report_facts(f, pass, pass->gives & ~given, E_VERIFY, "leaves a function of which this is not true");
}

bool ir_run_passes(Fn *f, const char *list, void (*after)(Fn *f, const PassInfo *p, void *ctx), void *ctx) {
  for (uint32_t k = 0; !list && k < ir_n_passes; k++) {
    if (!run_one(f, &ir_passes[k])) return false;
    if (after) after(f, &ir_passes[k], ctx);
  }
  while (list && *list) {
    size_t n = strcspn(list, ",");
    const PassInfo *pass = find_pass(list, n);
    if (!pass) {
      rt_diag(&f->prog->diags, RT_ERROR, E_ARGUMENT, NULL, 0, "there is no pass '%.*s'", (int)n, list);
      return false;
    }
    if (!run_one(f, pass)) return false;
    if (after) after(f, pass, ctx);
    list += n + (list[n] == ',');
  }
  return true;
}

const char *ir_pass_list(RtArena *mem, Pass first, Pass last) {
  RtText list = {.mem = mem};
  for (uint32_t k = first; k <= last; k++) rt_text_add(&list, "%s%s", k > first ? "," : "", ir_passes[k].name);
  return list.text;
}

bool ir_run_body_passes(Fn *body) {
  for (uint32_t k = 0; k < ir_n_passes; k++)
    if ((ir_passes[k].on & ON_BODY) && !run_one(body, &ir_passes[k])) return false;
  return true;
}
