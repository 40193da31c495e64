// Data sets made of others: a selection of items, several one after the other, items that are computed.
#include "runtime/data/dataset.h"

#include <inttypes.h>
#include <string.h>

static void *no_memory(char *error, size_t error_size) {
  rt_fail(error, error_size, "out of memory");
  return NULL;
}

static bool check_random_access(const RtDataset *d, const char *what, char *error, size_t error_size) {
  return d->ops->get || rt_fail(error, error_size, "a stream has no items by number: no %s of it", what);
}

// ---- subset
typedef struct {
  RtDataset *from;
  size_t index[];
} Subset;

static bool get_chosen(void *ctx, size_t k, RtItem *to) {
  const Subset *s = ctx;
  return rt_dataset_get(s->from, s->index[k], to);
}

static int64_t length_of_chosen(void *ctx, size_t k) {
  const Subset *s = ctx;
  return s->from->ops->length(s->from->ctx, s->index[k]);
}

static void interrupt_from(RtDataset *d) {
  if (d->ops->interrupt) d->ops->interrupt(d->ctx);
}

static void interrupt_subset(void *ctx) { interrupt_from(((Subset *)ctx)->from); }

static void free_subset(void *ctx) {
  rt_dataset_release(((Subset *)ctx)->from);
  rt_free(ctx);
}

static const RtDatasetOps subset_ops = {.get = get_chosen, .interrupt = interrupt_subset, .free = free_subset};
static const RtDatasetOps subset_length_ops = {
    .get = get_chosen, .length = length_of_chosen, .interrupt = interrupt_subset, .free = free_subset};

RtDataset *rt_dataset_subset(RtDataset *d, const size_t *index, size_t n, char *error, size_t error_size) {
  if (!check_random_access(d, "subset", error, error_size)) return NULL;
  for (size_t k = 0; k < n; k++)
    if (index[k] >= d->count) {
      rt_fail(error, error_size, "index %zu of the subset is %zu, the data set has %zu items", k, index[k], d->count);
      return NULL;
    }
  Subset *s = n < SIZE_MAX / 16 ? rt_malloc(sizeof *s + n * sizeof *index) : NULL;
  if (!s) return no_memory(error, error_size);
  s->from = rt_dataset_retain(d);
  if (n) memcpy(s->index, index, n * sizeof *index);
  const RtDatasetOps *ops = d->ops->length ? &subset_length_ops : &subset_ops;
  RtDataset *made = rt_dataset_new(ops, s, d->fields, d->n_fields, n, error, error_size);
  if (!made) free_subset(s);
  return made;
}

// ---- concatenation
typedef struct {
  uint32_t n;
  struct {
    RtDataset *set;
    size_t end;  // items of it and of those before
  } part[];
} Concat;

static RtDataset *find_part(const Concat *c, size_t *k) {
  uint32_t lo = 0, hi = c->n - 1;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (*k < c->part[mid].end) hi = mid;
    else lo = mid + 1;
  }
  if (lo) *k -= c->part[lo - 1].end;
  return c->part[lo].set;
}

static bool get_joined(void *ctx, size_t k, RtItem *to) {
  const RtDataset *part = find_part(ctx, &k);
  return rt_dataset_get(part, k, to);
}

static int64_t length_of_joined(void *ctx, size_t k) {
  const RtDataset *part = find_part(ctx, &k);
  return part->ops->length(part->ctx, k);
}

static void interrupt_parts(void *ctx) {
  const Concat *c = ctx;
  for (uint32_t i = 0; i < c->n; i++) interrupt_from(c->part[i].set);
}

static void free_concat(void *ctx) {
  Concat *c = ctx;
  for (uint32_t i = 0; i < c->n; i++) rt_dataset_release(c->part[i].set);
  rt_free(c);
}

static const RtDatasetOps concat_ops = {.get = get_joined, .interrupt = interrupt_parts, .free = free_concat};
static const RtDatasetOps concat_length_ops = {
    .get = get_joined, .length = length_of_joined, .interrupt = interrupt_parts, .free = free_concat};

// *f takes the larger bound of both.
static bool widen(RtField *f, const RtField *g) {
  if (f->dtype != g->dtype || f->is_variable != g->is_variable || f->rank != g->rank) return false;
  for (uint32_t d = f->is_variable ? 1 : 0; d < f->rank; d++)
    if (f->dims[d] != g->dims[d]) return false;
  if (f->rank && g->dims[0] > f->dims[0]) f->dims[0] = g->dims[0];
  return true;
}

static bool join(RtDataset *const *list, uint32_t n, RtField *fields, bool *has_length, char *error,
                 size_t error_size) {
  memcpy(fields, list[0]->fields, sizeof list[0]->fields);
  for (uint32_t i = 0; i < n; i++) {
    if (!check_random_access(list[i], "concatenation", error, error_size)) return false;
    *has_length &= list[i]->ops->length != NULL;
    bool same = list[i]->n_fields == list[0]->n_fields;
    for (uint32_t f = 0; same && f < list[0]->n_fields; f++) same = widen(&fields[f], &list[i]->fields[f]);
    if (!same) return rt_fail(error, error_size, "data set %" PRIu32 " has other fields than the first one", i + 1);
  }
  return true;
}

RtDataset *rt_dataset_concat(RtDataset *const *list, uint32_t n, char *error, size_t error_size) {
  RtField fields[RT_MAX_FIELDS];
  bool has_length = true;
  if (n == 0) rt_fail(error, error_size, "no data sets are given");
  if (n == 0 || !join(list, n, fields, &has_length, error, error_size)) return NULL;
  Concat *c = rt_malloc(sizeof *c + n * sizeof c->part[0]);
  if (!c) return no_memory(error, error_size);
  size_t count = 0;
  c->n = n;
  for (uint32_t i = 0; i < n; i++) {
    count += list[i]->count;
    c->part[i].set = rt_dataset_retain(list[i]);
    c->part[i].end = count;
  }
  RtDataset *d = rt_dataset_new(has_length ? &concat_length_ops : &concat_ops, c, fields, list[0]->n_fields, count,
                                error, error_size);
  if (!d) free_concat(c);
  return d;
}

// ---- map: the source's item lies in scratch memory of the thread that asks
typedef struct {
  RtDataset *from;
  RtMap fn;
  void *ctx;
  void (*free_ctx)(void *);
  size_t offset[RT_MAX_FIELDS], scratch_bytes;
} Map;

static void place_scratch(const Map *m, unsigned char *scratch, RtItem *to) {
  for (uint32_t f = 0; f < m->from->n_fields; f++) to->data[f] = scratch + m->offset[f];
}

static bool get_mapped(void *ctx, size_t k, RtItem *to) {
  const Map *m = ctx;
  unsigned char *scratch = rt_malloc(m->scratch_bytes);
  if (!scratch) return rt_fail(to->error, to->error_size, "out of memory");
  RtItem from = {.error = to->error, .error_size = to->error_size, .epoch = to->epoch, .halt = to->halt};
  place_scratch(m, scratch, &from);
  bool ok = rt_dataset_get(m->from, k, &from) && m->fn(m->ctx, k, &from, to);
  rt_free(scratch);
  return ok;
}

static void interrupt_map(void *ctx) { interrupt_from(((Map *)ctx)->from); }

static void free_map(void *ctx) {
  Map *m = ctx;
  rt_dataset_release(m->from);
  if (m->free_ctx) m->free_ctx(m->ctx);
  rt_free(m);
}

static const RtDatasetOps map_ops = {.get = get_mapped, .interrupt = interrupt_map, .free = free_map};

RtDataset *rt_dataset_map(RtDataset *d, const RtField *fields, uint32_t n_fields, RtMap fn, void *ctx,
                          void (*free_ctx)(void *), char *error, size_t error_size) {
  if (!check_random_access(d, "map", error, error_size)) return NULL;
  Map *m = rt_malloc(sizeof *m);
  if (!m) return no_memory(error, error_size);
  *m = (Map){.from = rt_dataset_retain(d), .fn = fn, .ctx = ctx, .scratch_bytes = 1};
  for (uint32_t f = 0; f < d->n_fields; f++) {
    m->offset[f] = (m->scratch_bytes + 63) / 64 * 64;
    m->scratch_bytes = m->offset[f] + (size_t)rt_field_bytes(&d->fields[f]);
  }
  RtDataset *made = rt_dataset_new(&map_ops, m, fields, n_fields, d->count, error, error_size);
  if (made) m->free_ctx = free_ctx;
  else free_map(m);
  return made;
}
