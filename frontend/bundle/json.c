// NAME.json: the header's facts for programs that write bindings.
#include "frontend/bundle/texts.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  const FeBundleText *t;
  const TnBundleAbout *about;
  FeBundleNames n;
  RtText *out;
} Json;

#define ADD(j, ...) rt_text_add((j)->out, __VA_ARGS__)

static void put_string(const Json *j, const char *s) {
  ADD(j, "\"");
  for (size_t left = strlen(s), n; left; s += n, left -= n) {
    unsigned char c = (unsigned char)*s;
    n = rt_utf8_length(s, left);
    if (!n) ADD(j, "\\u%04x", c), n = 1;  // not UTF-8: as Latin-1
    else if (c == '"' || c == '\\') ADD(j, "\\%c", c);
    else if (c < 0x20) ADD(j, "\\u%04x", c);
    else rt_text_put(j->out, s, n);
  }
  ADD(j, "\"");
}

// "key": "value", with what comes before it
static void put(const Json *j, const char *before, const char *key, const char *value) {
  ADD(j, "%s\"%s\": ", before, key);
  put_string(j, value);
}

static void put_strings(const Json *j, const char *key, const char *const *list, uint32_t n) {
  ADD(j, ", \"%s\": [", key);
  for (uint32_t k = 0; k < n; k++) {
    ADD(j, k ? ", " : "");
    put_string(j, list[k]);
  }
  ADD(j, "]");
}

static void put_head(const Json *j) {
  const TnBundleAbout *a = j->about;
  ADD(j, "{\n  \"version\": %" PRIu32 ", \"abi\": %" PRIu32, a->version, a->abi);
  put(j, ",\n  ", "name", a->name);
  put(j, ", ", "compiler", a->compiler);
  ADD(j, ", \"plan\": \"0x%016" PRIx64 "\", \"certificate\": \"0x%016" PRIx64 "\"", a->plan,
      j->t->certificate);  // as text: numbers of JSON have 53 bits
  ADD(j,
      ",\n  \"align\": %" PRIu32
      ", \"state_bytes\": %zu, \"arena_bytes\": %zu, \"init_arena_bytes\": %zu, \"file_bytes\": %zu",
      a->align, a->state_bytes, a->arena_bytes, cg_bundle_init_arena(j->t->b), j->t->b->file_bytes);
  if (fe_bundle_init_stack(j->t)) ADD(j, ", \"init_stack_bytes\": %zu", fe_bundle_init_stack(j->t));
  ADD(j, ",\n  \"has_workers\": %s, \"embeds_weights\": %s", j->t->has_workers ? "true" : "false",
      j->t->b->weights ? "true" : "false");
  put_strings(j, "targets", a->targets, a->n_targets);
  ADD(j,
      ",\n  \"symbols\": {\"about\": \"%1$s_about\", \"cpu\": \"%1$s_cpu\", \"init\": \"%1$s_init\", \"load\": "
      "\"%1$s_load\", "
      "\"save\": \"%1$s_save\", \"error\": \"%1$s_error\"}",
      j->n.name);
  ADD(j,
      ",\n  \"head\": {\"plan\": {\"offset\": %zu, \"dtype\": \"u64\"}, \"seed\": {\"offset\": %zu, \"dtype\": "
      "\"u64\"}, "
      "\"counter\": {\"offset\": %zu, \"dtype\": \"u64\"}, \"target\": {\"offset\": %zu, \"dtype\": \"u32\"}, "
      "\"bytes\": %zu}",
      offsetof(TnBundleState, plan), offsetof(TnBundleState, seed), offsetof(TnBundleState, counter),
      offsetof(TnBundleState, target), sizeof(TnBundleState));
  ADD(j, ",\n  \"dims\": [");
  for (uint32_t k = 0; k < a->n_dims; k++) {
    put(j, k ? ", {" : "{", "name", a->dims[k].name);
    ADD(j, ", \"max\": %" PRId64 "}", a->dims[k].max);
  }
  ADD(j, "]");
}

// ---- functions
static void put_shape(const Json *j, const TnBundleArray *a) {
  const char *s = a->shape + 1, *end = s + strlen(s) - 1;  // "[batch, 2 * time]"
  ADD(j, ", \"shape\": [");
  for (uint32_t d = 0; d < a->rank; d++) {
    const char *comma = strstr(s, ", "), *stop = d + 1 < a->rank && comma ? comma : end;
    ADD(j, d ? ", " : "");
    put_string(j, rt_strndup(j->out->mem, s, (size_t)(stop - s)));
    s = stop == end ? end : stop + 2;
  }
  ADD(j, "]");
}

static void put_array(const Json *j, const TnBundleArray *a, const char *field, const char *range) {
  put(j, "{", "name", a->name);
  put(j, ", ", "field", field);
  put(j, ", ", "dtype", rt_dtype_name(a->dtype));
  put_shape(j, a);
  if (*range) put(j, ", ", "values", range);
  ADD(j, "}");
}

static void put_uses(const Json *j, const RtFunction *f, bool is_written) {
  bool is_first = true;
  ADD(j, ", \"%s\": [", is_written ? "writes" : "reads");
  for (uint32_t u = 0; u < f->n_uses; u++) {
    if (f->uses[u].is_written != is_written) continue;
    ADD(j, is_first ? "" : ", ");
    put_string(j, j->t->plan->params[f->uses[u].param].path);
    is_first = false;
  }
  ADD(j, "]");
}

static void put_function(const Json *j, uint32_t k) {
  const TnBundleFunction *f = &j->about->functions[k];
  const FeFunctionNames *n = &j->n.functions[k];
  const RtFunction *r = fe_bundle_function(j->t, k);
  put(j, k ? ",\n    {" : "\n    {", "name", f->name);
  ADD(j, ", \"symbol\": \"%s_%s\"", j->n.name, n->name);
  if (j->t->has_workers) ADD(j, ", \"worker_symbol\": \"%s_%s_worker\"", j->n.name, n->name);
  ADD(j, ", \"arena_bytes\": %zu", f->arena_bytes);
  if (fe_bundle_stack(j->t, k)) ADD(j, ", \"stack_bytes\": %zu", fe_bundle_stack(j->t, k));
  ADD(j, ", \"only_reads\": %s", r->only_reads ? "true" : "false");
  put_strings(j, "dims", f->dims, f->n_dims);
  put_strings(j, "dim_fields", n->dims, f->n_dims);
  ADD(j, ",\n     \"inputs\": [");
  for (uint32_t i = 0; i < f->n_inputs; i++) {
    ADD(j, i ? ", " : "");
    put_array(j, &f->inputs[i], n->inputs[i], fe_bundle_range_text(j->out->mem, j->t->plan, r, i));
  }
  ADD(j, "],\n     \"outputs\": [");
  for (uint32_t i = 0; i < f->n_outputs; i++) {
    ADD(j, i ? ", " : "");
    put_array(j, &f->outputs[i], n->outputs[i], "");
  }
  ADD(j, "]");
  put_uses(j, r, false);
  put_uses(j, r, true);
  ADD(j, "}");
}

// ---- parameters
static const char *const kinds[] = {
    [RT_WEIGHT] = "weight", [RT_BUFFER] = "buffer", [RT_STATE] = "optimizer", [RT_TRANSIENT] = "transient"};

static void put_tensor(const Json *j, uint32_t k) {
  const TnBundleTensor *t = &j->about->tensors[k];
  const RtParam *p = &j->t->plan->params[k];
  put(j, k ? ",\n    {" : "\n    {", "path", t->path);
  put(j, ", ", "field", t->field);
  ADD(j, ", \"kind\": \"%s\", \"dtype\": \"%s\", \"shape\": [", kinds[t->kind], rt_dtype_name(t->dtype));
  for (uint32_t d = 0; d < t->rank; d++) ADD(j, "%s%" PRId64, d ? ", " : "", t->sizes[d]);
  ADD(j, "], \"offset\": %zu, \"bytes\": %zu", t->offset, t->bytes);
  if (p->n_aliases) put_strings(j, "aliases", p->aliases, p->n_aliases);
  if (p->file) put(j, ", ", "file", p->file), ADD(j, ", \"line\": %" PRIu32, p->line);
  ADD(j, "}");
}

void fe_bundle_json(const FeBundleText *t, RtText *out) {
  Json j = {t, t->b->about, fe_bundle_names(out->mem, t), out};
  put_head(&j);
  ADD(&j, ",\n  \"functions\": [");
  for (uint32_t k = 0; k < j.about->n_functions; k++) put_function(&j, k);
  ADD(&j, "],\n  \"tensors\": [");
  for (uint32_t k = 0; k < j.about->n_tensors; k++) put_tensor(&j, k);
  ADD(&j, "],\n  \"statuses\": [");
  for (uint32_t k = 0; k < t->b->n_sentences; k++) {
    ADD(&j, k ? ",\n    " : "\n    ");
    put_string(&j, t->b->sentences + t->b->sentence_at[k]);
  }
  ADD(&j, "]\n}\n");
}
