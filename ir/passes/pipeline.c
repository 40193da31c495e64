// The pass table and its runner: checks needs, runs, verifies, lets the caller look.
#include "ir/ir.h"
#include <string.h>

#define PASS(n, needs, gives, doc) {#n, doc, ir_pass_##n, needs, gives},
const PassInfo ir_passes[] = {
#include "ir/passes/passes.def"
};
const uint32_t ir_n_passes = sizeof ir_passes / sizeof *ir_passes;

static const PassInfo *find_pass(const char *name, size_t n) {
  for (uint32_t k = 0; k < ir_n_passes; k++)
    if (strlen(ir_passes[k].name) == n && memcmp(ir_passes[k].name, name, n) == 0) return &ir_passes[k];
  return NULL;
}

static bool run_one(Fn *f, const PassInfo *pass) {
  RtDiags *d = &f->prog->diags;
  if ((f->facts & pass->needs) != pass->needs) {
    rt_diag(d, RT_ERROR, E_ARGUMENT, NULL, 0, "pass %s of @%s comes before a pass that it needs", pass->name,
            ir_text(f->prog, f->name));
    return false;
  }
  if (!pass->run(f)) return false;
  f->facts |= pass->gives;
  return ir_verify(f, d);
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
