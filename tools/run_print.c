// What a run says: its outputs in short, its times.
#include "runtime/exec/plan_types.h"
#include "tools/json.h"
#include "tools/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_FIRST = 6 };

typedef struct {
  double min, mean, max;  // of the finite elements
  int64_t n, n_other;     // others: not finite
} Summary;

static Summary summarize(const tn_array *a) {
  Summary s = {.min = INFINITY, .max = -INFINITY, .n = array_elements(a)};
  double sum = 0;
  for (int64_t k = 0; k < s.n; k++) {
    double x = array_at(a, k);
    if (!isfinite(x)) s.n_other++;
    if (!isfinite(x)) continue;
    s.min = fmin(s.min, x), s.max = fmax(s.max, x), sum += x;
  }
  s.mean = s.n > s.n_other ? sum / (double)(s.n - s.n_other) : NAN;
  return s;
}

static void put_size(RtText *out, const tn_array *a) {
  rt_text_add(out, "%s[", rt_dtype_name(a->dtype));
  for (uint32_t k = 0; k < a->rank; k++) rt_text_add(out, "%s%lld", k ? "," : "", (long long)a->dims[k]);
  rt_text_add(out, "]");
}

static void put_output(RtText *out, const Port *port) {
  const tn_array *a = &port->array;
  Summary s = summarize(a);
  rt_text_add(out, "%s: ", port->name);
  put_size(out, a);
  if (s.n > s.n_other) rt_text_add(out, "  min %.6g  mean %.6g  max %.6g", s.min, s.mean, s.max);
  if (s.n_other) rt_text_add(out, "  %lld not finite", (long long)s.n_other);
  rt_text_add(out, "\n ");
  for (int64_t k = 0; k < s.n && k < N_FIRST; k++) rt_text_add(out, " %.6g", array_at(a, k));
  rt_text_add(out, s.n > N_FIRST ? " ..\n" : "\n");
}

static int rising(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void times(const ToolRun *r, double *least, double *median) {
  double *sorted = rt_alloc(r->mem, r->n_times * sizeof *sorted);
  memcpy(sorted, r->ms, r->n_times * sizeof *sorted);
  qsort(sorted, r->n_times, sizeof *sorted, rising);
  *least = sorted[0];
  *median = (sorted[(r->n_times - 1) / 2] + sorted[r->n_times / 2]) / 2;
}

void run_print(const ToolRun *r, RtText *out) {
  double least, median;
  times(r, &least, &median);
  for (uint32_t k = 0; k < r->f->n_outputs; k++) put_output(out, &r->out[k]);
  rt_text_add(out, "@%s, %s: ", ir_text(r->p, r->f->name), r->uses_interpreter ? "interpreter" : "compiled code");
  if (r->n_times > 1) rt_text_add(out, "%u runs, min %.4f ms, median %.4f ms", r->n_times, least, median);
  else rt_text_add(out, "%.4f ms", least);
  if (!r->uses_interpreter) rt_text_add(out, ", %u worker%s", r->n_workers, r->n_workers > 1 ? "s" : "");
  rt_text_add(out, "\n");
}

static void json_array(RtText *out, const Port *port, bool has_values) {
  const tn_array *a = &port->array;
  json_open(out, NULL, '{');
  json_text(out, "name", port->name);
  json_text(out, "dtype", rt_dtype_name(a->dtype));
  json_open(out, "shape", '[');
  for (uint32_t k = 0; k < a->rank; k++) json_int(out, NULL, a->dims[k]);
  json_close(out, ']');
  if (has_values) {
    Summary s = summarize(a);
    json_number(out, "min", s.min);
    json_number(out, "mean", s.mean);
    json_number(out, "max", s.max);
    json_int(out, "not_finite", s.n_other);
    json_open(out, "first", '[');
    for (int64_t k = 0; k < s.n && k < N_FIRST; k++) json_number(out, NULL, array_at(a, k));
    json_close(out, ']');
  }
  json_close(out, '}');
}

void run_print_json(const ToolRun *r, RtText *out) {
  double least, median;
  times(r, &least, &median);
  json_open(out, NULL, '{');
  json_text(out, "function", ir_text(r->p, r->f->name));
  json_text(out, "by", r->uses_interpreter ? "interpreter" : "compiled code");
  json_open(out, "inputs", '[');
  for (uint32_t k = 0; k < r->f->n_inputs; k++) json_array(out, &r->in[k], false);
  json_close(out, ']');
  json_open(out, "outputs", '[');
  for (uint32_t k = 0; k < r->f->n_outputs; k++) json_array(out, &r->out[k], true);
  json_close(out, ']');
  json_int(out, "workers", r->uses_interpreter ? 1 : r->n_workers);
  json_int(out, "times", r->n_times);
  json_number(out, "compile_ms", r->compile_ms);
  json_number(out, "min_ms", least);
  json_number(out, "median_ms", median);
  json_close(out, '}');
  rt_text_add(out, "\n");
}
