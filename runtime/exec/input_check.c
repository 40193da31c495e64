// Validation of the arguments of a run: counts, dtypes, ranks, pointers, sizes, then values.
#include "runtime/exec/input_check.h"
#include "runtime/exec/range_check.h"
#include "runtime/exec/value_check.h"
#include "runtime/format.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

typedef struct {
  const char *kind;  // "input", "output"
  const RtPort *port;
  const RtArray *array;
} Given;

static RtStatus refuse(const RtRunCheck *c, RtStatus status, const char *fmt, ...) RT_PRINTF(3, 4);
static RtStatus refuse(const RtRunCheck *c, RtStatus status, const char *fmt, ...) {
  char sentence[512];
  va_list args;
  va_start(args, fmt);
  rt_vformat(sentence, sizeof sentence, fmt, args);
  va_end(args);
  rt_fail(c->error, c->error_size, "%s: %s", c->function->name, sentence);
  return status;
}

// ---- one array against its declaration, except sizes

static RtStatus check_form(const RtRunCheck *c, Given g) {
  const RtArray *a = g.array;
  const char *name = g.port->name;
  if (a->dtype != g.port->dtype)
    return refuse(c, RT_ERR_ARGUMENT, "%s '%s' is %s, expected %s", g.kind, name, rt_dtype_name(a->dtype),
                  rt_dtype_name(g.port->dtype));
  if (a->rank != g.port->rank)
    return refuse(c, RT_ERR_ARGUMENT, "%s '%s' has rank %" PRIu32 ", expected %" PRIu32, g.kind, name, a->rank,
                  g.port->rank);
  bool is_empty = false;
  for (uint32_t d = 0; d < a->rank; d++) {
    if (a->dims[d] < 0)
      return refuse(c, RT_ERR_ARGUMENT, "%s '%s' has size %" PRId64 " on axis %" PRIu32, g.kind, name, a->dims[d], d);
    is_empty |= a->dims[d] == 0;
  }
  if (!a->data && !is_empty) return refuse(c, RT_ERR_ARGUMENT, "%s '%s' has no data", g.kind, name);
  if ((uintptr_t)a->data % rt_dtype_bytes(a->dtype))
    return refuse(c, RT_ERR_ARGUMENT, "the data of %s '%s' is not aligned to %zu bytes", g.kind, name,
                  rt_dtype_bytes(a->dtype));
  return RT_OK;
}

// " 'x', 'label'", as far as they fit
static void list_ports(char *text, size_t size, const RtPort *ports, uint32_t n) {
  int at = 0;
  text[0] = 0;
  for (uint32_t k = 0; k < n && at >= 0 && (size_t)at < size; k++)
    at += snprintf(text + at, size - (size_t)at, "%s'%.40s'", k ? ", " : " ", ports[k].name);
}

static RtStatus refuse_count(const RtRunCheck *c) {
  const RtFunction *f = c->function;
  char in[200], out[200];
  list_ports(in, sizeof in, f->inputs, f->n_inputs);
  list_ports(out, sizeof out, f->outputs, f->n_outputs);
  return refuse(c, RT_ERR_ARGUMENT, "takes %" PRIu32 " input%s%s and %" PRIu32 " output%s%s, got %zu and %zu",
                f->n_inputs, f->n_inputs == 1 ? "" : "s", in, f->n_outputs, f->n_outputs == 1 ? "" : "s", out, c->n_in,
                c->n_out);
}

static RtStatus check_forms(const RtRunCheck *c) {
  const RtFunction *f = c->function;
  if (c->n_in != f->n_inputs || c->n_out != f->n_outputs) return refuse_count(c);
  RtStatus status = RT_OK;
  for (size_t k = 0; k < c->n_in && !status; k++) status = check_form(c, (Given){"input", &f->inputs[k], &c->in[k]});
  for (size_t k = 0; k < c->n_out && !status; k++)
    status = check_form(c, (Given){"output", &f->outputs[k], &c->out[k]});
  return status;
}

// ---- sizes

// The slot that a size is, or UINT32_MAX when it is a constant, product or sum.
static uint32_t slot_of(const RtPlan *p, uint32_t dim) {
  return p->dims[dim].kind == RT_DIM_SLOT ? (uint32_t)p->dims[dim].value : UINT32_MAX;
}

// Named dims take the size of the first input axis that is one.
static RtStatus bind_slots(const RtRunCheck *c) {
  const RtPlan *p = c->plan;
  for (uint32_t s = 0; s < p->n_slots; s++) c->slots[s] = p->slots[s].bound, c->is_known[s] = false;
  for (size_t k = 0; k < c->n_in; k++) {
    const RtPort *port = &c->function->inputs[k];
    for (uint32_t d = 0; d < port->rank; d++) {
      uint32_t s = slot_of(p, port->dims[d]);
      int64_t size = c->in[k].dims[d];
      if (s == UINT32_MAX || c->is_known[s]) continue;
      if (size > p->slots[s].bound)
        return refuse(c, RT_ERR_ARGUMENT, "input '%s' has size %" PRId64 " on axis %" PRIu32 ", above %s <= %" PRId64,
                      port->name, size, d, p->slots[s].name, p->slots[s].bound);
      c->slots[s] = size;
      c->is_known[s] = true;
    }
  }
  if (!rt_plan_dims(p, c->slots, c->dims)) return refuse(c, RT_ERR_ARGUMENT, "a size does not fit 62 bits");
  return RT_OK;
}

// "where time is 2 and batch is 1": the named dims of a size
static int add_names(const RtRunCheck *c, uint32_t dim, char *out, size_t size, int n_names) {
  const RtDim *d = &c->plan->dims[dim];
  size_t used = strlen(out);
  if (d->kind == RT_DIM_CONST) return n_names;
  if (d->kind != RT_DIM_SLOT) return add_names(c, d->b, out, size, add_names(c, d->a, out, size, n_names));
  rt_format(out + used, size - used, "%s%s is %" PRId64, n_names ? " and " : ", where ", c->plan->slots[d->value].name,
            c->slots[d->value]);
  return n_names + 1;
}

static RtStatus check_differences(const RtRunCheck *c) {
  for (uint32_t k = 0; k < c->function->n_size_checks; k++) {
    const RtSizeCheck *s = &c->function->size_checks[k];
    char names[256] = "";
    if (c->dims[s->dim] >= 0) continue;
    add_names(c, s->dim, names, sizeof names, 0);
    return refuse(c, RT_ERR_ARGUMENT, "%s is %" PRId64 " in this run%s", s->what, c->dims[s->dim], names);
  }
  return RT_OK;
}

static bool is_dim_known(const RtRunCheck *c, uint32_t dim) {
  const RtDim *d = &c->plan->dims[dim];
  if (d->kind == RT_DIM_CONST) return true;
  if (d->kind == RT_DIM_SLOT) return c->is_known[d->value];
  return is_dim_known(c, d->a) && is_dim_known(c, d->b);
}

static RtStatus check_sizes(const RtRunCheck *c, Given g, bool is_output) {
  for (uint32_t d = 0; d < g.port->rank; d++) {
    uint32_t dim = g.port->dims[d], slot = slot_of(c->plan, dim);
    int64_t size = g.array->dims[d], wanted = c->dims[dim];
    bool only_bound = is_output && !is_dim_known(c, dim);
    if (only_bound ? size >= wanted : size == wanted) continue;
    return refuse(c, RT_ERR_ARGUMENT, "%s '%s' has size %" PRId64 " on axis %" PRIu32 ", expected %s%" PRId64 "%s%s%s",
                  g.kind, g.port->name, size, d, only_bound ? "at least " : "", wanted, slot == UINT32_MAX ? "" : " (",
                  slot == UINT32_MAX ? "" : c->plan->slots[slot].name, slot == UINT32_MAX ? "" : ")");
  }
  return RT_OK;
}

// Bytes of an array that passed its checks; -1: more than 62 bits.
static int64_t bytes_of(const RtArray *a) {
  int64_t n = (int64_t)rt_dtype_bytes(a->dtype);
  for (uint32_t d = 0; d < a->rank; d++)
    if (a->dims[d] == 0) return 0;
  for (uint32_t d = 0; d < a->rank; d++)
    if (__builtin_mul_overflow(n, a->dims[d], &n) || n >> 62) return -1;
  return n;
}

static RtStatus check_all_sizes(const RtRunCheck *c) {
  const RtFunction *f = c->function;
  RtStatus status = bind_slots(c);
  if (!status) status = check_differences(c);
  for (size_t k = 0; k < c->n_in && !status; k++)
    status = check_sizes(c, (Given){"input", &f->inputs[k], &c->in[k]}, false);
  for (size_t k = 0; k < c->n_out && !status; k++)
    status = check_sizes(c, (Given){"output", &f->outputs[k], &c->out[k]}, true);
  for (size_t k = 0; k < c->n_in + c->n_out && !status; k++)
    if (bytes_of(k < c->n_in ? &c->in[k] : &c->out[k - c->n_in]) < 0)
      status = refuse(c, RT_ERR_ARGUMENT, "array %zu has more than 2^62 bytes", k);
  return status;
}

// ---- overlap: compiled code may write an output while it still reads inputs

static bool overlap(const RtArray *a, const RtArray *b) {
  uintptr_t pa = (uintptr_t)a->data, pb = (uintptr_t)b->data;
  uint64_t na = (uint64_t)bytes_of(a), nb = (uint64_t)bytes_of(b);
  return na && nb && (pa < pb ? pb - pa < na : pa - pb < nb);
}

static RtStatus check_overlap(const RtRunCheck *c) {
  const RtFunction *f = c->function;
  for (size_t o = 0; o < c->n_out; o++) {
    for (size_t k = 0; k < c->n_in; k++)
      if (overlap(&c->out[o], &c->in[k]))
        return refuse(c, RT_ERR_ARGUMENT, "output '%s' overlaps input '%s'", f->outputs[o].name, f->inputs[k].name);
    for (size_t k = 0; k < o; k++)
      if (overlap(&c->out[o], &c->out[k]))
        return refuse(c, RT_ERR_ARGUMENT, "output '%s' overlaps output '%s'", f->outputs[o].name, f->outputs[k].name);
  }
  return RT_OK;
}

// An input that is a view of a parameter would change while it is read, an output would change the parameter.
static RtStatus check_params(const RtRunCheck *c) {
  const RtFunction *f = c->function;
  for (uint32_t u = 0; u < f->n_uses; u++) {
    const RtParam *p = &c->plan->params[f->uses[u].param];
    RtArray block = {.data = (void *)(uintptr_t)(c->params + p->offset), .dtype = RT_U8, .rank = 1};
    block.dims[0] = p->bytes;
    for (size_t k = 0; k < c->n_in && f->uses[u].is_written; k++)
      if (overlap(&block, &c->in[k]))
        return refuse(c, RT_ERR_ARGUMENT, "input '%s' is memory of parameter '%s', which the run updates: pass a copy",
                      f->inputs[k].name, p->path);
    for (size_t k = 0; k < c->n_out; k++)
      if (overlap(&block, &c->out[k]))
        return refuse(c, RT_ERR_ARGUMENT, "output '%s' is memory of parameter '%s', which the run %s",
                      f->outputs[k].name, p->path, f->uses[u].is_written ? "updates" : "reads");
  }
  return RT_OK;
}

// ---- values

static RtStatus refuse_value(const RtRunCheck *c, const RtCheck *k, const RtBadValue *bad) {
  const char *name = c->function->inputs[k->input].name;
  if (bad->last < k->lo)
    return refuse(c, RT_ERR_VALUE, "input '%s': no %s is allowed in this run, found %" PRId64 " at [%" PRId64 "]", name,
                  k->what, bad->value, bad->index);
  char other[80] = "";
  if (bad->value == -100 && !k->has_other) snprintf(other, sizeof other, "; .has_ignore of the loss leaves rows out");
  if (bad->value == 0 && k->lo == 1 && !strcmp(k->what, "length"))
    snprintf(other, sizeof other, "; .allow_empty of what packs takes sequences without steps");
  if (k->has_other) snprintf(other, sizeof other, ", nor %" PRId64 ", which is ignored", k->other);
  return refuse(c, RT_ERR_VALUE, "input '%s': %s %" PRId64 " at [%" PRId64 "] is not in %" PRId64 "..%" PRId64 "%s",
                name, k->what, bad->value, bad->index, k->lo, bad->last, other);
}

static RtStatus refuse_order(const RtRunCheck *c, const RtCheck *k, const RtBadValue *bad) {
  return refuse(c, RT_ERR_VALUE,
                "input '%s': %s %" PRId64 " at [%" PRId64 "] is above %" PRId64 " before it, and sorting is enforced",
                c->function->inputs[k->input].name, k->what, bad->value, bad->index, bad->before);
}

static RtStatus refuse_sum(const RtRunCheck *c, const RtCheck *k, const RtBadValue *bad) {
  if (k->is_exact)
    return refuse(c, RT_ERR_VALUE, "input '%s': the %ss sum to %" PRId64 ", and there are %" PRId64 " rows",
                  c->function->inputs[k->input].name, k->what, bad->value, bad->last);
  return refuse(c, RT_ERR_VALUE,
                "input '%s': the %ss sum to %" PRId64 ", above %" PRId64
                ", the bound of the rows that they pack (.max_rows)",
                c->function->inputs[k->input].name, k->what, bad->value, bad->last);
}

// Below this many values it takes longer to call the team.
enum { MIN_SHARED = 1 << 15 };

typedef struct {
  RtRange range;
  const int64_t *data;
  int64_t n;
  atomic_bool any_bad;
} SharedCheck;

static void check_share(void *ctx, int32_t worker, int32_t n_workers) {
  SharedCheck *s = ctx;
  int64_t share = s->n / n_workers, at = worker * share, n = worker + 1 < n_workers ? share : s->n - at;
  if (!rt_are_in_range(s->data + at, n, &s->range)) atomic_store_explicit(&s->any_bad, true, memory_order_relaxed);
}

// The quick answer, where the whole array has one range; false: it remains to be found out.
static bool are_good(const RtRunCheck *c, const RtValueCheck *check) {
  const RtCheck *k = check->check;
  if (k->is_sorted || k->has_sum || k->group || k->is_packed) return false;
  if (!check->n) return true;  // an empty array may have no address
  SharedCheck s = {
      .range = {k->lo, c->dims[k->hi] - !k->is_inclusive, k->has_other, k->other}, .data = check->data, .n = check->n};
  if (s.n < MIN_SHARED) check_share(&s, 0, 1);
  else rt_team_run(c->team, check_share, &s, c->function->max_workers);
  return !atomic_load_explicit(&s.any_bad, memory_order_relaxed);
}

static RtStatus check_values(const RtRunCheck *c, const RtCheck *k) {
  const RtArray *a = &c->in[k->input];
  const int64_t *lengths = k->lengths || !k->is_packed ? k->lengths : c->in[k->of_input].data;
  RtValueCheck check = {.check = k, .data = a->data, .n = bytes_of(a) / 8, .lengths = lengths, .dims = c->dims};
  RtBadValue bad;
  if (are_good(c, &check)) return RT_OK;
  switch (rt_find_bad_value(&check, &bad)) {
  case RT_VALUE_RANGE: return refuse_value(c, k, &bad);
  case RT_VALUE_ORDER: return refuse_order(c, k, &bad);
  case RT_VALUE_SUM: return refuse_sum(c, k, &bad);
  case RT_VALUE_GOOD: break;
  }
  return RT_OK;
}

RtStatus rt_check_inputs(const RtRunCheck *c) {
  const RtFunction *f = c->function;
  if (c->n_in != f->n_inputs)
    return refuse(c, RT_ERR_ARGUMENT, "takes %" PRIu32 " inputs, got %zu", f->n_inputs, c->n_in);
  RtStatus status = RT_OK;
  for (size_t k = 0; k < c->n_in && !status; k++) status = check_form(c, (Given){"input", &f->inputs[k], &c->in[k]});
  if (!status) status = bind_slots(c);
  for (size_t k = 0; k < c->n_in && !status; k++)
    status = check_sizes(c, (Given){"input", &f->inputs[k], &c->in[k]}, false);
  return status;
}

RtStatus rt_check_arrays(RtRunCheck *c) {
  RtStatus status = check_forms(c);
  if (!status) status = check_all_sizes(c);
  if (!status) status = check_overlap(c);
  return status ? status : check_params(c);
}

RtStatus rt_check_values(const RtRunCheck *c) {
  RtStatus status = RT_OK;
  for (uint32_t k = 0; k < c->function->n_checks && !status; k++) status = check_values(c, &c->function->checks[k]);
  return status;
}
