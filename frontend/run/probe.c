// Probes of a model: which are on, and where what they see goes. A run that some probe watches is one of the function's twin
// (frontend/module/probe.c), which hands out their numbers and values behind the function's own outputs.
#include "frontend/run/run.h"
#include "runtime/format.h"
#include "runtime/store/checkpoint.h"
#include <math.h>
#include <string.h>

typedef struct {
  void *data;
  int64_t bytes;
} Room;

struct FeProbing {
  bool *is_on;     // by probe
  Room *rooms;     // by probe: for the value that it shows
  uint32_t *n_on;  // by function of the plan
  float *numbers;  // of all probes of one function
  RtArray *out;    // of one run
  uint32_t n_probes;
  tn_probe_sink sink;
  void *ctx;
  tn_probe_viewer viewer;
  void *viewer_ctx;
  FILE *file;
  tn_probe_format format;
  bool has_header;
  uint64_t n_runs;
};

void fe_probing_free(FeProbing *p) {
  if (!p) return;
  for (uint32_t k = 0; p->rooms && k < p->n_probes; k++) rt_free(p->rooms[k].data);
  rt_free(p->rooms);
  rt_free(p->is_on);
  rt_free(p->n_on);
  rt_free(p->numbers);
  rt_free(p->out);
  rt_free(p);
}

static tn_status no_memory(tn_model *m) {
  rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, "there is no memory for probes");
  return TN_ERR_MEMORY;
}

static size_t numbers_of(const FeProbe *b) { return b->is_view ? 0 : FE_PROBE_STATS + b->n_bins; }

// What serves any function: room for all probes
static FeProbing *probing_of(tn_model *m) {
  const FeCode *c = m->code;
  size_t n = 0, most = 0;
  if (m->probing) return m->probing;
  FeProbing *p = rt_malloc(sizeof *p);
  if (!p) return NULL;
  *p = (FeProbing){.n_probes = c->n_probes};
  for (uint32_t k = 0; k < c->n_probes; k++) n += numbers_of(&c->probes[k]);
  for (uint32_t k = 0; k < c->plan->n_functions; k++)
    if (c->plan->functions[k].n_outputs > most) most = c->plan->functions[k].n_outputs;
  p->is_on = rt_malloc(c->n_probes + 1);
  p->rooms = rt_malloc((c->n_probes + 1) * sizeof *p->rooms);
  p->n_on = rt_malloc((c->plan->n_functions + 1) * sizeof *p->n_on);
  p->numbers = rt_malloc((n + 1) * sizeof *p->numbers);
  p->out = rt_malloc((most + 1) * sizeof *p->out);
  if (p->rooms) memset(p->rooms, 0, (c->n_probes + 1) * sizeof *p->rooms);
  if (!p->is_on || !p->rooms || !p->n_on || !p->numbers || !p->out) {
    fe_probing_free(p);
    return NULL;
  }
  memset(p->is_on, 0, c->n_probes + 1);
  memset(p->n_on, 0, (c->plan->n_functions + 1) * sizeof *p->n_on);
  return m->probing = p;
}

// ---- switches
static tn_status refuse(tn_model *m, const char *pattern) {
  rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE,
          m->code->n_probes ? "no probe has a name that matches '%.200s'" : "the program has no probes%.0s",
          pattern ? pattern : "");
  return TN_ERR_ARGUMENT;
}

tn_status tn_model_probe(tn_model *m, const char *pattern, bool on) {
  FE_MODEL_CALL(m, tn_model_probe, TN_ERR_ARGUMENT);
  bool any = false;
  for (uint32_t k = 0; k < m->code->n_probes; k++) any |= rt_path_matches(pattern, m->code->probes[k].name);
  if (!any) return refuse(m, pattern);
  FeProbing *p = probing_of(m);
  if (!p) return no_memory(m);
  for (uint32_t k = 0; k < m->code->n_probes; k++) {
    const FeProbe *b = &m->code->probes[k];
    if (!rt_path_matches(pattern, b->name) || p->is_on[k] == on) continue;
    p->is_on[k] = on;
    p->n_on[b->function] += on ? 1 : UINT32_MAX;
  }
  return TN_OK;
}

tn_status tn_model_probe_sink(tn_model *m, tn_probe_sink fn, void *ctx) {
  FE_MODEL_CALL(m, tn_model_probe_sink, TN_ERR_ARGUMENT);
  FeProbing *p = probing_of(m);
  if (!p) return no_memory(m);
  p->sink = fn, p->ctx = ctx;
  return TN_OK;
}

tn_status tn_model_probe_views(tn_model *m, tn_probe_viewer fn, void *ctx) {
  FE_MODEL_CALL(m, tn_model_probe_views, TN_ERR_ARGUMENT);
  FeProbing *p = probing_of(m);
  if (!p) return no_memory(m);
  p->viewer = fn, p->viewer_ctx = ctx;
  return TN_OK;
}

tn_status tn_model_probe_file(tn_model *m, FILE *out, tn_probe_format format) {
  FE_MODEL_CALL(m, tn_model_probe_file, TN_ERR_ARGUMENT);
  if (format != TN_PROBE_CSV && format != TN_PROBE_JSON) {
    rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, "the format is TN_PROBE_CSV or TN_PROBE_JSON");
    return TN_ERR_ARGUMENT;
  }
  FeProbing *p = probing_of(m);
  if (!p) return no_memory(m);
  p->file = out, p->format = format, p->has_header = false;
  return TN_OK;
}

// ---- lines
// JSON has no NaN.
static void put_number(FILE *out, const char *before, double x, bool is_json) {
  if (!is_json || isfinite(x)) rt_fformat(out, "%s%.9g", before, x);
  else rt_fformat(out, "%snull", before);
}

static void put_json(const tn_probe_value *v, FILE *out) {
  rt_fformat(out, "{\"run\": %llu, \"function\": \"%s\", \"probe\": \"%s\"", (unsigned long long)v->run, v->function,
             v->name);
  const struct {
    const char *key;
    double x;
  } fields[] = {{"count", v->count}, {"mean", v->mean},   {"std", v->std},   {"min", v->min},  {"max", v->max},
                {"norm", v->norm},   {"zero", v->n_zero}, {"nan", v->n_nan}, {"inf", v->n_inf}};
  for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
    rt_fformat(out, ", \"%s\"", fields[k].key);
    put_number(out, ": ", fields[k].x, true);
  }
  if (v->n_bins) rt_fformat(out, ", \"lo\": %.9g, \"hi\": %.9g, \"histogram\": ", v->lo, v->hi);
  for (uint32_t k = 0; k < v->n_bins; k++) rt_fformat(out, "%s%.0f", k ? ", " : "[", (double)v->bins[k]);
  rt_fformat(out, v->n_bins ? "]}\n" : "}\n");
}

static void put_csv(const tn_probe_value *v, FILE *out) {
  rt_fformat(out, "%llu,%s,%s", (unsigned long long)v->run, v->function, v->name);
  const double fields[] = {v->count, v->mean, v->std, v->min, v->max, v->norm, v->n_zero, v->n_nan, v->n_inf};
  for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) put_number(out, ",", fields[k], false);
  for (uint32_t k = 0; k < v->n_bins; k++) rt_fformat(out, "%s%.0f", k ? ";" : ",", (double)v->bins[k]);
  rt_fformat(out, v->n_bins ? "\n" : ",\n");
}

static void put_line(FeProbing *p, const tn_probe_value *v) {
  if (p->format == TN_PROBE_JSON) {
    put_json(v, p->file);
    return;
  }
  if (!p->has_header) fputs("run,function,probe,count,mean,std,min,max,norm,zero,nan,inf,histogram\n", p->file);
  p->has_header = true;
  put_csv(v, p->file);
}

// ---- runs
static tn_probe_value value_of(const tn_model *m, const FeProbe *b, const float *x) {
  double n = x[FE_PROBE_FINITE], scale = x[FE_PROBE_SCALE], none = (double)NAN;
  return (tn_probe_value){.function = m->code->plan->functions[b->function].name,
                          .name = b->name,
                          .file = b->file,
                          .line = (int)b->line,
                          .run = m->probing->n_runs,
                          .count = n + x[FE_PROBE_NAN] + x[FE_PROBE_INF],
                          .n_nan = x[FE_PROBE_NAN],
                          .n_inf = x[FE_PROBE_INF],
                          .n_zero = x[FE_PROBE_ZERO],
                          .mean = n > 0 ? scale * x[FE_PROBE_MEAN] : none,
                          .std = n > 0 ? scale * sqrt(x[FE_PROBE_SPREAD] / n) : none,
                          .min = n > 0 ? x[FE_PROBE_MIN] : none,
                          .max = n > 0 ? x[FE_PROBE_MAX] : none,
                          .norm = n > 0 ? scale * sqrt(x[FE_PROBE_SQUARES]) : none,
                          .bins = b->n_bins ? x + FE_PROBE_STATS : NULL,
                          .n_bins = b->n_bins,
                          .lo = b->lo,
                          .hi = b->hi};
}

static void tell_numbers(const tn_model *m, const FeProbe *b, const float *x) {
  FeProbing *p = m->probing;
  tn_probe_value v = value_of(m, b, x);
  if (p->sink) p->sink(&v, p->ctx);
  if (p->file) put_line(p, &v);
}

static void show(const tn_model *m, const FeProbe *b, uint32_t output, const void *data) {
  const FeProbing *p = m->probing;
  if (!p->viewer) return;
  RtArray a = rt_instance_output(m->inst, b->twin, output);
  tn_probe_view v = {.function = m->code->plan->functions[b->function].name,
                     .name = b->name,
                     .file = b->file,
                     .line = (int)b->line,
                     .run = p->n_runs,
                     .dtype = (tn_dtype)a.dtype,
                     .rank = a.rank,
                     .data = data};
  memcpy(v.dims, a.dims, sizeof v.dims);
  p->viewer(&v, p->viewer_ctx);
}

static void tell(tn_model *m, uint32_t function) {
  FeProbing *p = m->probing;
  const float *x = p->numbers;
  uint32_t output = m->code->plan->functions[function].n_outputs;
  p->n_runs++;
  for (uint32_t k = 0; k < m->code->n_probes; k++) {
    const FeProbe *b = &m->code->probes[k];
    if (b->function != function) continue;
    if (p->is_on[k] && b->is_view) show(m, b, output, p->rooms[k].data);
    if (p->is_on[k] && !b->is_view) tell_numbers(m, b, x);
    x += numbers_of(b), output++;
  }
}

// false: no memory
static bool make_room(Room *r, const RtArray *a) {
  int64_t bytes = (int64_t)rt_dtype_bytes(a->dtype);
  for (uint32_t d = 0; d < a->rank; d++)
    if (__builtin_mul_overflow(bytes, a->dims[d], &bytes)) return false;
  if (bytes <= r->bytes) return true;
  rt_free(r->data);
  r->data = rt_malloc((size_t)bytes);
  r->bytes = r->data ? bytes : 0;
  return r->data;
}

// What the twin hands out behind the function's n outputs: this run's sizes are bound. false: no memory
static bool add_outputs(tn_model *m, uint32_t function, uint32_t n, bool by_name) {
  FeProbing *p = m->probing;
  float *x = p->numbers;
  for (uint32_t k = 0; k < m->code->n_probes; k++) {
    const FeProbe *b = &m->code->probes[k];
    if (b->function != function) continue;
    RtArray *a = &p->out[n];
    *a = rt_instance_output(m->inst, b->twin, n++);
    if (b->is_view && !make_room(&p->rooms[k], a)) return false;
    a->data = b->is_view ? p->rooms[k].data : x;
    a->name = by_name ? b->output : NULL;
    x += numbers_of(b);
  }
  return true;
}

static uint32_t twin_of(const FeCode *c, uint32_t function) {
  uint32_t k = 0;
  while (c->probes[k].function != function) k++;
  return c->probes[k].twin;
}

bool fe_run_probed(tn_model *m, uint32_t function, const RtArray *in, size_t n_in, const RtArray *out, size_t n_out,
                   RtStatus *status) {
  FeProbing *p = m->probing;
  const RtPlan *plan = m->code->plan;
  // Another number of outputs, and wrong inputs, are mistakes that the function itself reports.
  if (!p->n_on[function] || n_out != plan->functions[function].n_outputs) return false;
  uint32_t twin = twin_of(m->code, function);
  if (rt_instance_bind(m->inst, twin, in, n_in)) return false;
  if (n_out) memcpy(p->out, out, n_out * sizeof *out);
  if (!add_outputs(m, function, (uint32_t)n_out, n_out && out[0].name)) {
    *status = (RtStatus)no_memory(m);
    return true;
  }
  *status = rt_instance_run(m->inst, twin, in, n_in, p->out, plan->functions[twin].n_outputs);
  if (*status == RT_OK) tell(m, function);
  return true;
}
