// What is known of a model's plans: sizes, the plans for smaller bounds, and what a run moves. Of a bundle that is what a
// run needs: its memory.
#include "frontend/run/run.h"
#include <stdlib.h>
#include <string.h>

tn_compile_info tn_compile_info_of(const tn_model *m) { return m ? m->code->info : (tn_compile_info){0}; }

static tn_plan memory_of(const RtPlan *p, int64_t arena_bytes) {
  return (tn_plan){.peak_bytes = arena_bytes, .param_bytes = p->param_bytes, .packed_bytes = p->packed_bytes};
}

static tn_plan stats_of(const FeCode *c, uint32_t function) {
  return c->stats ? c->stats[function] : memory_of(c->plan, c->plan->functions[function].arena_bytes);
}

tn_status tn_plan_of(const tn_model *m, const char *function, tn_plan *out) {
  if (!m || !out) return TN_ERR_ARGUMENT;
  uint32_t k = fe_find_function(m, function);
  if (k == RT_NO_FUNCTION) {
    char text[RT_ERROR_SIZE];
    fe_say_no_function(text, sizeof text, m, function);
    fe_say(&m->lock, "%s", text);
    return TN_ERR_ARGUMENT;
  }
  fe_say_nothing(&m->lock);
  *out = stats_of(m->code, k);
  return TN_OK;
}

// ---- plans for smaller bounds: numbered through all functions
static uint32_t first_variant(const RtPlan *p, uint32_t function) {
  uint32_t n = 0;
  for (uint32_t f = 0; f < function; f++) n += p->functions[f].n_variants;
  return n;
}

static const char *bounds_of(const RtPlan *p, const RtVariant *v, RtArena *mem) {
  RtText t = {.mem = mem};
  for (uint32_t k = 0; k < v->n_fits; k++)
    rt_text_add(&t, "%s%s <= %lld", k ? ", " : "", p->slots[v->fits[k].slot].name, (long long)v->fits[k].bound);
  return t.text ? t.text : "";
}

const char *const *fe_bounds(const RtPlan *p, RtArena *mem) {
  uint32_t n = 0;
  const char **list = rt_alloc(mem, (first_variant(p, p->n_functions) + 1) * sizeof *list);
  for (uint32_t f = 0; f < p->n_functions; f++)
    for (uint32_t v = 0; v < p->functions[f].n_variants; v++)
      list[n++] = bounds_of(p, &p->functions[f].variants[v], mem);
  return list;
}

static tn_variant variant_of(const tn_model *m, uint32_t function, uint32_t n) {
  const FeCode *c = m->code;
  uint32_t k = first_variant(c->plan, function) + n;
  tn_plan plan =
      c->variant_stats ? c->variant_stats[k] : memory_of(c->plan, c->plan->functions[function].variants[n].arena_bytes);
  return (tn_variant){c->bounds[k], plan, rt_instance_runs(m->inst, function, n)};
}

uint32_t tn_plan_variants(const tn_model *m, const char *function, tn_variant *out, uint32_t max) {
  uint32_t k = m ? fe_find_function(m, function) : RT_NO_FUNCTION;
  if (k == RT_NO_FUNCTION) return 0;
  uint32_t n = m->code->plan->functions[k].n_variants;
  for (uint32_t v = 0; out && v < n && v < max; v++) out[v] = variant_of(m, k, v);
  if (out && n < max) out[n] = (tn_variant){"", stats_of(m->code, k), rt_instance_runs(m->inst, k, n)};
  return n + 1;
}

// ---- what a run moves
static const FeBytesMoved *traffic_of(const tn_model *m, const char *function) {
  uint32_t k = m && m->code->bytes_moved ? fe_find_function(m, function) : RT_NO_FUNCTION;
  return k == RT_NO_FUNCTION ? NULL : &m->code->bytes_moved[k];
}

uint32_t tn_plan_copies(const tn_model *m, const char *function, tn_plan_copy *out, uint32_t max) {
  const FeBytesMoved *t = traffic_of(m, function);
  for (uint32_t k = 0; t && out && k < t->n_copies && k < max; k++) out[k] = t->copies[k];
  return t ? t->n_copies : 0;
}

// "train.c:12" is line 12 of any path that ends in module/training.c
static bool is_at(const FeStored *s, const char *what) {
  const char *colon = strrchr(what, ':');
  size_t n = (size_t)(colon - what), have = s->file ? strlen(s->file) : 0;
  if (have < n || atoi(colon + 1) != s->line || strncmp(s->file + have - n, what, n)) return false;
  return have == n || s->file[have - n - 1] == '/';
}

static int64_t total(const FeStored *list, uint32_t n, const char *what) {
  int64_t sum = 0;
  for (uint32_t k = 0; k < n; k++)
    if (!what || (strchr(what, ':') ? is_at(&list[k], what) : !strcmp(list[k].name, what))) sum += list[k].bytes;
  return sum;
}

int64_t tn_plan_bytes_written(const tn_model *m, const char *function, const char *what) {
  const FeBytesMoved *t = traffic_of(m, function);
  return t ? total(t->stored, t->n_stored, what) : -1;
}

int64_t tn_plan_bytes_read(const tn_model *m, const char *function, const char *what) {
  const FeBytesMoved *t = traffic_of(m, function);
  return t ? total(t->loaded, t->n_loaded, what) : -1;
}
