// What a run says: its outputs in short, its times.
#include "ir/intern.h"
#include "runtime/exec/plan_types.h"
#include "tools/json.h"
#include "tools/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_FIRST = 6 };

typedef struct {
  int64_t at_min, at_max;  // elements; of the finite ones
  double mean;
  int64_t n, n_other;  // others: not finite
} Summary;

// Of i64, more than doubles hold.
static bool is_less(const tn_array *a, int64_t i, int64_t j) {
  const int64_t *x = a->data;
  return a->dtype == TN_I64 ? x[i] < x[j] : array_at(a, i) < array_at(a, j);
}

static Summary summarize(const tn_array *a) {
  Summary s = {.at_min = -1, .at_max = -1, .n = array_elements(a)};
  double sum = 0;
  for (int64_t k = 0; k < s.n; k++) {
    double x = array_at(a, k);
    if (!isfinite(x)) s.n_other++;
    if (!isfinite(x)) continue;
    if (s.at_min < 0 || is_less(a, k, s.at_min)) s.at_min = k;
    if (s.at_max < 0 || is_less(a, s.at_max, k)) s.at_max = k;
    sum += x;
  }
  s.mean = s.n > s.n_other ? sum / (double)(s.n - s.n_other) : NAN;
  return s;
}

static void put_size(RtText *out, const tn_array *a) {
  rt_text_add(out, "%s[", rt_dtype_name(a->dtype));
  for (uint32_t k = 0; k < a->rank; k++) rt_text_add(out, "%s%lld", k ? "," : "", (long long)a->dims[k]);
  rt_text_add(out, "]");
}

static bool is_whole(const tn_array *a) {
  return a->dtype == TN_I64 || a->dtype == TN_I32 || a->dtype == TN_U8 || a->dtype == TN_BOOL;
}

static int64_t whole_at(const tn_array *a, int64_t k) {
  return a->dtype == TN_I64 ? ((const int64_t *)a->data)[k] : (int64_t)array_at(a, k);
}

// Whole numbers with all their digits
static void put_element(RtText *out, const char *before, const tn_array *a, int64_t k) {
  if (is_whole(a)) rt_text_add(out, "%s%lld", before, (long long)whole_at(a, k));
  else rt_text_add(out, "%s%.6g", before, array_at(a, k));
}

static void put_output(RtText *out, const Port *port) {
  const tn_array *a = &port->array;
  Summary s = summarize(a);
  rt_text_add(out, "%s: ", port->name);
  put_size(out, a);
  if (s.at_min >= 0) {
    put_element(out, "  min ", a, s.at_min);
    rt_text_add(out, "  mean %.6g", s.mean);
    put_element(out, "  max ", a, s.at_max);
  }
  if (s.n_other) rt_text_add(out, "  %lld not finite", (long long)s.n_other);
  rt_text_add(out, "\n ");
  for (int64_t k = 0; k < s.n && k < N_FIRST; k++) put_element(out, " ", a, k);
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

// at -1: none
static void json_element(RtText *out, const char *key, const tn_array *a, int64_t at) {
  if (at >= 0 && is_whole(a)) json_int(out, key, whole_at(a, at));
  else json_number(out, key, at < 0 ? NAN : array_at(a, at));
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
    json_element(out, "min", a, s.at_min);
    json_number(out, "mean", s.mean);
    json_element(out, "max", a, s.at_max);
    json_int(out, "not_finite", s.n_other);
    json_open(out, "first", '[');
    for (int64_t k = 0; k < s.n && k < N_FIRST; k++) json_element(out, NULL, a, k);
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
