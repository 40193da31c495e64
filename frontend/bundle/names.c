// Identifiers that the header declares: one list for macros, one for the fields of each struct.
#include "frontend/bundle/texts.h"

#include <inttypes.h>

const RtFunction *fe_bundle_function(const FeBundleText *t, uint32_t listed) {
  return &t->plan->functions[cg_bundle_function(t->plan, listed)];
}

static FeFunctionNames function_names(RtArena *mem, const TnBundleAbout *about, uint32_t k) {
  const TnBundleFunction *f = &about->functions[k];
  FeFunctionNames n = {.name = cg_bundle_symbol(mem, about, k),
                       .dims = rt_alloc(mem, (f->n_dims + 1) * sizeof *n.dims),
                       .inputs = rt_alloc(mem, (f->n_inputs + 1) * sizeof *n.inputs),
                       .outputs = rt_alloc(mem, (f->n_outputs + 1) * sizeof *n.outputs)};
  CgNames in = {.mem = mem}, out = {.mem = mem};
  for (uint32_t d = 0; d < f->n_dims; d++) n.dims[d] = cg_new_name(&in, cg_c_name(mem, f->dims[d]));
  for (uint32_t i = 0; i < f->n_inputs; i++) n.inputs[i] = cg_new_name(&in, cg_c_name(mem, f->inputs[i].name));
  for (uint32_t i = 0; i < f->n_outputs; i++) n.outputs[i] = cg_new_name(&out, cg_c_name(mem, f->outputs[i].name));
  return n;
}

FeBundleNames fe_bundle_names(RtArena *mem, const FeBundleText *t) {
  const TnBundleAbout *about = t->b->about;
  FeBundleNames n = {.name = about->name,
                     .macro = cg_c_upper_name(mem, about->name),
                     .functions = rt_alloc(mem, (about->n_functions + 1) * sizeof *n.functions),
                     .dim_max = rt_alloc(mem, (about->n_dims + 1) * sizeof *n.dim_max),
                     .aliases = rt_alloc(mem, (t->b->n_aliases + 1) * sizeof *n.aliases)};
  CgNames macros = {.mem = mem};
  cg_new_name(&macros, rt_printf(mem, "%s_INIT_ARENA_BYTES", n.macro));
  cg_new_name(&macros, rt_printf(mem, "%s_INIT_STACK_BYTES", n.macro));
  for (uint32_t k = 0; k < about->n_functions; k++) {
    n.functions[k] = function_names(mem, about, k);
    const char *upper = cg_c_upper_name(mem, n.functions[k].name);
    n.functions[k].arena = cg_new_name(&macros, rt_printf(mem, "%s_%s_ARENA_BYTES", n.macro, upper));
    n.functions[k].stack = cg_new_name(&macros, rt_printf(mem, "%s_%s_STACK_BYTES", n.macro, upper));
  }
  for (uint32_t d = 0; d < about->n_dims; d++)
    n.dim_max[d] =
        cg_new_name(&macros, rt_printf(mem, "%s_%s_MAX", n.macro, cg_c_upper_name(mem, about->dims[d].name)));
  for (uint32_t a = 0; a < t->b->n_aliases; a++)
    n.aliases[a] = cg_new_name(&macros, rt_printf(mem, "%s_ALIAS_%s", n.macro, cg_c_part(mem, t->b->aliases[a])));
  return n;
}

size_t fe_bundle_stack(const FeBundleText *t, uint32_t listed) { return t->stack_bytes ? t->stack_bytes[listed] : 0; }
size_t fe_bundle_init_stack(const FeBundleText *t) { return fe_bundle_stack(t, t->b->about->n_functions); }

const char *fe_bundle_file(const FeBundleText *t) { return t->file ? t->file : t->b->about->name; }

static void put_sum(const RtPlan *p, const RtCheck *c, RtText *out) {
  const RtDim *d = &p->dims[c->sum];
  rt_text_add(out, c->is_exact ? ", in all " : ", in all at most ");
  if (d->kind == RT_DIM_CONST) rt_text_add(out, "%" PRId64, d->value);
  else rt_text_add(out, "%s", d->kind == RT_DIM_SLOT ? p->slots[d->value].name : "what dims allow");
}

static void put_range(const RtPlan *p, const RtCheck *c, RtText *out) {
  const RtDim *hi = &p->dims[c->hi];
  rt_text_add(out, "%s%s %" PRId64 " .. ", out->len ? "; " : "", c->what, c->lo);
  if (hi->kind == RT_DIM_CONST) rt_text_add(out, "%" PRId64, hi->value - !c->is_inclusive);
  else if (hi->kind == RT_DIM_SLOT) rt_text_add(out, "%s%s", p->slots[hi->value].name, c->is_inclusive ? "" : " - 1");
  else rt_text_add(out, "what dims allow");
  if (c->is_sorted) rt_text_add(out, ", non-increasing");
  if (c->has_sum) put_sum(p, c, out);
  if (c->has_other) rt_text_add(out, ", or %" PRId64 ", which is ignored", c->other);
  if (c->is_packed) rt_text_add(out, ", in the steps below the lengths");
}

const char *fe_bundle_range_text(RtArena *mem, const RtPlan *p, const RtFunction *f, uint32_t input) {
  RtText t = {.mem = mem};
  for (uint32_t k = 0; k < f->n_checks; k++)
    if (f->checks[k].input == input) put_range(p, &f->checks[k], &t);
  return t.text ? t.text : "";
}
