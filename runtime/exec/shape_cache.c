// The shape cache: sizes of accepted calls.
#include "runtime/exec/shape_cache.h"

#include <string.h>

// ---- one allocation: rows, arrays, numbers, by decreasing alignment
static size_t n_ports(const RtFunction *f) { return (size_t)f->n_inputs + f->n_outputs; }

RtShapeCache *rt_shape_cache_new(const RtPlan *p) {
  size_t n_arrays = 0, n_numbers = (size_t)p->n_functions * (p->n_slots + p->n_dims);
  for (uint32_t f = 0; f < p->n_functions; f++) n_arrays += n_ports(&p->functions[f]);
  n_numbers += n_arrays;
  size_t bytes = p->n_functions * sizeof(RtShapeCache) + n_arrays * sizeof(RtArray) + n_numbers * sizeof(int64_t);
  RtShapeCache *row = rt_malloc(bytes);
  if (!row) return NULL;
  memset(row, 0, bytes);
  RtArray *arrays = (RtArray *)(void *)(row + p->n_functions);
  int64_t *number = (int64_t *)(void *)(arrays + n_arrays);
  for (uint32_t f = 0; f < p->n_functions; f++) {
    size_t n = n_ports(&p->functions[f]);
    row[f] = (RtShapeCache){.function = &p->functions[f],
                            .arrays = arrays,
                            .bytes = number,
                            .slots = number + n,
                            .dims = number + n + p->n_slots};
    arrays += n, number += n + p->n_slots + p->n_dims;
  }
  return row;
}

// ---- calls
static bool same_form(const RtArray *a, const RtArray *kept) {
  if (a->dtype != kept->dtype || a->rank != kept->rank) return false;
  for (uint32_t d = 0; d < kept->rank; d++)
    if (a->dims[d] != kept->dims[d]) return false;
  return true;
}

static bool good_pointer(const RtArray *a, int64_t bytes) {
  uintptr_t mask = rt_dtype_bytes(a->dtype) - 1;
  return ((uintptr_t)a->data & mask) == 0 && (a->data || bytes == 0);
}

static bool overlap(const RtArray *a, int64_t na, const RtArray *b, int64_t nb) {
  uintptr_t pa = (uintptr_t)a->data, pb = (uintptr_t)b->data;
  return na && nb && (pa < pb ? pb - pa < (uint64_t)na : pa - pb < (uint64_t)nb);
}

// Compiled code may write an output while it still reads inputs.
static bool are_apart(const RtShapeCache *s, const RtArray *in, size_t n_in, const RtArray *out, size_t n_out) {
  const int64_t *out_bytes = s->bytes + n_in;
  for (size_t o = 0; o < n_out; o++) {
    for (size_t k = 0; k < n_in; k++)
      if (overlap(&out[o], out_bytes[o], &in[k], s->bytes[k])) return false;
    for (size_t k = 0; k < o; k++)
      if (overlap(&out[o], out_bytes[o], &out[k], out_bytes[k])) return false;
  }
  return true;
}

bool rt_shape_cache_hold(const RtShapeCache *s, const RtArray *in, size_t n_in, const RtArray *out, size_t n_out) {
  if (!s->is_set || n_in != s->function->n_inputs || n_out != s->function->n_outputs) return false;
  for (size_t k = 0; k < n_in; k++)
    if (!same_form(&in[k], &s->arrays[k]) || !good_pointer(&in[k], s->bytes[k])) return false;
  for (size_t k = 0; k < n_out; k++)
    if (!same_form(&out[k], &s->arrays[n_in + k]) || !good_pointer(&out[k], s->bytes[n_in + k])) return false;
  return are_apart(s, in, n_in, out, n_out);
}

static void keep(RtShapeCache *s, size_t at, const RtArray *a) {
  s->arrays[at] = *a;
  s->arrays[at].data = NULL;
  int64_t bytes = (int64_t)rt_dtype_bytes(a->dtype);
  for (uint32_t d = 0; d < a->rank; d++)
    if (a->dims[d] == 0) bytes = 0;
  for (uint32_t d = 0; d < a->rank && bytes; d++) bytes *= a->dims[d];
  s->bytes[at] = bytes;
}

static bool fits(const RtShapeCache *s, const RtVariant *v) {
  for (uint32_t k = 0; k < v->n_fits; k++)
    if (s->slots[v->fits[k].slot] > v->fits[k].bound) return false;
  return true;
}

void rt_shape_cache_keep(RtShapeCache *s, const RtArray *in, const RtArray *out) {
  const RtFunction *f = s->function;
  for (uint32_t k = 0; k < f->n_inputs; k++) keep(s, k, &in[k]);
  for (uint32_t k = 0; k < f->n_outputs; k++) keep(s, f->n_inputs + k, &out[k]);
  s->by = NULL;  // the smallest variant that fits
  for (uint32_t v = f->n_variants; v-- > 0;)
    if (fits(s, &f->variants[v])) s->by = &f->variants[v];
  s->is_set = true;
}
