// Hyper-parameters of a model, set between runs: state entries that its optimizers read.
#include "frontend/run/finite.h"
#include "frontend/run/run.h"

static void list_groups(const RtPlan *c, RtHyperKind kind, char *out, size_t size) {
  size_t used = 0;
  out[0] = 0;
  for (uint32_t k = 0; k < c->n_hypers; k++) {
    bool first = c->hypers[k].kind == kind;
    for (uint32_t i = 0; i < k; i++) first &= c->hypers[i].kind != kind || c->hypers[i].group != c->hypers[k].group;
    if (first && used + 12 < size)
      used += (size_t)snprintf(out + used, size - used, "%s%u", used ? ", " : "", c->hypers[k].group);
  }
}

static tn_status refuse(tn_model *m, RtHyperKind kind, uint32_t group) {
  char groups[256], *error = rt_instance_error_buffer(m->inst);
  list_groups(m->code->plan, kind, groups, sizeof groups);
  if (*groups)
    rt_fail(error, RT_ERROR_SIZE, "no optimizer has a group %u with a %s: groups with one are %s", group,
            rt_hyper_name(kind), groups);
  else rt_fail(error, RT_ERROR_SIZE, "no optimizer of this program has a %s", rt_hyper_name(kind));
  return TN_ERR_ARGUMENT;
}

static tn_status set_hyper(tn_model *m, RtHyperKind kind, const uint32_t *group, double v) {
  if (!(v >= 0) || !fe_is_finite(v)) {
    rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE,
            "%s cannot be %g: it is a number of 0 or more that f32 holds", rt_hyper_name(kind), v);
    return TN_ERR_ARGUMENT;
  }
  const RtPlan *p = m->code->plan;
  uint32_t n = 0;
  for (uint32_t k = 0; k < p->n_hypers; k++) {
    const RtHyper *h = &p->hypers[k];
    if (h->kind != kind || (group && h->group != *group)) continue;
    *(float *)(void *)rt_instance_change(m->inst, h->param) = (float)v;
    n++;
  }
  return n ? TN_OK : refuse(m, kind, group ? *group : 0);
}

#define SET_HYPER(call, kind)                             \
  tn_status call(tn_model *m, uint32_t group, double v) { \
    FE_MODEL_CALL(m, call, TN_ERR_ARGUMENT);              \
    return set_hyper(m, kind, &group, v);                 \
  }                                                       \
  tn_status call##_all(tn_model *m, double v) {           \
    FE_MODEL_CALL(m, call##_all, TN_ERR_ARGUMENT);        \
    return set_hyper(m, kind, NULL, v);                   \
  }
SET_HYPER(tn_set_lr, RT_LR)
SET_HYPER(tn_set_weight_decay, RT_WEIGHT_DECAY)
SET_HYPER(tn_set_momentum, RT_MOMENTUM)
