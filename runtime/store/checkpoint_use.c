// Loading a trained file for what a program's functions do: of the optimizer's entries those that they read.
#include "runtime/store/checkpoint.h"

static bool is_state(const RtPlan *p, const RtParamUse *u) { return p->params[u->param].kind == RT_STATE; }

// It changes weights, or what an optimizer keeps.
static bool trains(const RtPlan *p, const RtFunction *f) {
  for (uint32_t u = 0; u < f->n_uses; u++)
    if (f->uses[u].is_written && (is_state(p, &f->uses[u]) || p->params[f->uses[u].param].kind == RT_WEIGHT))
      return true;
  return false;
}

static bool is_meant(const RtPlan *p, uint32_t k, uint32_t function) {
  return function == RT_NO_FUNCTION ? k != p->init : k == function;
}

// Does a function of those that train write what `out` has?
static bool is_trained(const RtPlan *p, uint32_t function, const bool *out) {
  for (uint32_t k = 0; k < p->n_functions; k++)
    for (uint32_t u = 0; is_meant(p, k, function) && u < p->functions[k].n_uses; u++)
      if (p->functions[k].uses[u].is_written && out[p->functions[k].uses[u].param]) return true;
  return false;
}

bool rt_state_read(const RtPlan *p, uint32_t function, bool *out) {
  for (uint32_t k = 0; k < p->n_params; k++) out[k] = false;
  for (uint32_t k = 0; k < p->n_functions; k++) {
    const RtFunction *f = &p->functions[k];
    if (!is_meant(p, k, function) || trains(p, f)) continue;
    for (uint32_t u = 0; u < f->n_uses; u++) out[f->uses[u].param] |= is_state(p, &f->uses[u]);
  }
  return is_trained(p, function, out);
}

RtStatus rt_instance_load_to_use(RtInstance *i, const char *path, uint32_t function) {
  const RtPlan *p = rt_instance_plan(i);
  bool *state = rt_malloc(p->n_params + 1);
  if (!state) {
    rt_fail(rt_instance_error_buffer(i), RT_ERROR_SIZE, "%.500s: out of memory", path);
    return RT_ERR_MEMORY;
  }
  bool goes_on = rt_state_read(p, function, state);
  for (uint32_t k = 0; goes_on && k < p->n_params; k++) state[k] = p->params[k].kind == RT_STATE;
  RtStatus status = rt_store_load(&(RtPart){i, NULL}, 1, path, &(RtLoadOptions){.passes_over = true, .state = state});
  rt_free(state);
  return status;
}
