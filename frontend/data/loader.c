// Data sets, loaders and batches: the runtime's own, under public names.
#include "runtime/data/loader.h"
#include "frontend/run/run.h"
#include "runtime/data/images.h"
#include "runtime/store/checkpoint.h"
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(tn_array) == sizeof(RtArray) && offsetof(tn_array, dims) == offsetof(RtArray, dims) &&
                   offsetof(tn_array, rank) == offsetof(RtArray, rank),
               "arrays of batches are shown as they are");
_Static_assert((int)TN_FIRST_FIT == (int)RT_FIRST_FIT && (int)TN_LANES == (int)RT_LANES &&
                   (int)TN_CONCATENATED == (int)RT_CONCATENATED && (int)TN_MAX_FIELDS == (int)RT_MAX_FIELDS,
               "one list of kinds");

static tn_dataset *made(RtDataset *d) { return (tn_dataset *)d; }
static RtDataset *set_of(const tn_dataset *d) { return (RtDataset *)(uintptr_t)d; }
static RtBatch batch_of(tn_batch b) { return (RtBatch){b.owner, b.number}; }
static tn_batch shown(RtBatch b) { return (tn_batch){b.owner, b.number}; }
static const tn_array *arrays_of(const RtArray *a) { return (const tn_array *)(const void *)a; }
static tn_array *outputs_of(RtArray *a) { return (tn_array *)(void *)a; }

static void *refuse(char *error, size_t error_size, const char *what) {
  rt_fail(error, error_size, "%s", what);
  return NULL;
}

// ---- fields
static bool take_fields(RtField *to, const tn_field *from, uint32_t n, char *error, size_t error_size) {
  if (n == 0 || n > RT_MAX_FIELDS || !from)
    return rt_fail(error, error_size, "%u fields are given, 1 to %d are possible", from ? n : 0, RT_MAX_FIELDS);
  for (uint32_t k = 0; k < n; k++) {
    to[k] = (RtField){.dtype = (RtDType)from[k].dtype, .is_variable = from[k].is_variable, .rank = from[k].rank};
    rt_field_name(&to[k], from[k].name ? from[k].name : "");
    for (uint32_t d = 0; d < from[k].rank && d < RT_FIELD_RANK; d++) to[k].dims[d] = from[k].dims[d];
  }
  return true;
}

tn_field tn_dataset_field(const tn_dataset *d, uint32_t k) {
  if (k >= tn_dataset_fields(d)) return (tn_field){0};
  const RtField *f = &set_of(d)->fields[k];
  tn_field out = {f->name, (tn_dtype)f->dtype, f->is_variable, f->rank, {0}};
  for (uint32_t i = 0; i < f->rank; i++) out.dims[i] = f->dims[i];
  return out;
}

size_t tn_dataset_count(const tn_dataset *d) { return d ? set_of(d)->count : 0; }
uint32_t tn_dataset_fields(const tn_dataset *d) { return d ? set_of(d)->n_fields : 0; }
void tn_dataset_free(tn_dataset *d) { rt_dataset_release(set_of(d)); }

// ---- items: the public one is made of the runtime's around each call of the user's
static tn_item shown_item(const RtItem *from) {
  tn_item to = {.error = from->error, .error_size = from->error_size, .epoch = from->epoch, .loader = from->halt};
  memcpy(to.data, from->data, sizeof to.data);
  memcpy(to.length, from->length, sizeof to.length);
  return to;
}

bool tn_item_is_stopped(const tn_item *item) { return item && rt_is_halted(item->loader); }

typedef struct {
  tn_dataset_type type;
  void *ctx;
} UserSet;

static bool user_get(void *ctx, size_t k, RtItem *to) {
  const UserSet *u = ctx;
  tn_item item = shown_item(to);
  bool ok = u->type.get(u->ctx, k, &item);
  memcpy(to->length, item.length, sizeof to->length);
  return ok;
}

static int user_next(void *ctx, RtItem *to) {
  const UserSet *u = ctx;
  tn_item item = shown_item(to);
  int got = u->type.next(u->ctx, &item);
  memcpy(to->length, item.length, sizeof to->length);
  return got;
}

static bool user_rewind(void *ctx, uint64_t epoch, char *error, size_t error_size) {
  const UserSet *u = ctx;
  return !u->type.rewind || u->type.rewind(u->ctx, epoch, error, error_size);
}

static int64_t user_length(void *ctx, size_t k) { return ((UserSet *)ctx)->type.length(((UserSet *)ctx)->ctx, k); }

static void user_interrupt(void *ctx) {
  const UserSet *u = ctx;
  if (u->type.interrupt) u->type.interrupt(u->ctx);
}

static void user_free(void *ctx) {
  const UserSet *u = ctx;
  if (u->type.free) u->type.free(u->ctx);
  rt_free(ctx);
}

static const RtDatasetOps user_ops = {.get = user_get, .interrupt = user_interrupt, .free = user_free};
static const RtDatasetOps user_length_ops = {
    .get = user_get, .length = user_length, .interrupt = user_interrupt, .free = user_free};
static const RtDatasetOps user_stream_ops = {
    .next = user_next, .rewind = user_rewind, .interrupt = user_interrupt, .free = user_free};

tn_dataset *tn_dataset_new(const tn_dataset_type *type, void *ctx, const tn_field *fields, uint32_t n_fields,
                           size_t count, char *error, size_t error_size) {
  RtField list[RT_MAX_FIELDS];
  bool is_stream = count == TN_STREAM;
  if (!type || (is_stream ? !type->next : !type->get))
    return refuse(error, error_size, is_stream ? "a stream needs `next`" : "a data set needs `get`");
  if (!take_fields(list, fields, n_fields, error, error_size)) return NULL;
  UserSet *u = rt_malloc(sizeof *u);
  if (!u) return refuse(error, error_size, "out of memory");
  *u = (UserSet){*type, ctx};
  const RtDatasetOps *ops = is_stream ? &user_stream_ops : type->length ? &user_length_ops : &user_ops;
  RtDataset *d = rt_dataset_new(ops, u, list, n_fields, count, error, error_size);
  if (!d) rt_free(u);
  return made(d);
}

tn_dataset *tn_dataset_arrays(const tn_array *arrays, uint32_t n, const char *const *names, char *error,
                              size_t error_size) {
  RtArray list[RT_MAX_FIELDS];
  if (!arrays || n == 0 || n > RT_MAX_FIELDS) return refuse(error, error_size, "1 to 16 arrays make a data set");
  for (uint32_t k = 0; k < n; k++) {
    list[k] = (RtArray){.data = arrays[k].data, .dtype = (RtDType)arrays[k].dtype, .rank = arrays[k].rank};
    memcpy(list[k].dims, arrays[k].dims, sizeof list[k].dims);
  }
  return made(rt_dataset_arrays(list, n, names, error, error_size));
}

tn_dataset *tn_dataset_series(const tn_series *s, char *error, size_t error_size) {
  if (!s) return refuse(error, error_size, "no series are given");
  return made(rt_dataset_series((const RtSeries *)s, error, error_size));
}

tn_dataset *tn_dataset_subset(tn_dataset *d, const size_t *index, size_t n, char *error, size_t error_size) {
  if (!d || (!index && n)) return refuse(error, error_size, d ? "no indices are given" : "no data set is given");
  return made(rt_dataset_subset(set_of(d), index, n, error, error_size));
}

tn_dataset *tn_dataset_ragged(tn_dataset *d, const int64_t *lengths, size_t count, char *error, size_t error_size) {
  if (!d || (!lengths && count)) return refuse(error, error_size, d ? "no lengths are given" : "no data set is given");
  return made(rt_dataset_ragged(set_of(d), lengths, count, error, error_size));
}

tn_dataset *tn_dataset_concat(tn_dataset *const *list, uint32_t n, char *error, size_t error_size) {
  for (uint32_t k = 0; k < n; k++)
    if (!list || !list[k]) return refuse(error, error_size, "a data set of the list is missing");
  return made(rt_dataset_concat((RtDataset *const *)list, n, error, error_size));
}

// ---- maps
typedef struct {
  tn_map fn;
  void *ctx;
} UserMap;

static bool user_map(void *ctx, size_t k, const RtItem *from, RtItem *to) {
  const UserMap *u = ctx;
  tn_item source = shown_item(from), item = shown_item(to);
  bool ok = u->fn(u->ctx, k, &source, &item);
  memcpy(to->length, item.length, sizeof to->length);
  return ok;
}

tn_dataset *tn_dataset_map(tn_dataset *d, const tn_field *fields, uint32_t n_fields, tn_map fn, void *ctx, char *error,
                           size_t error_size) {
  RtField list[RT_MAX_FIELDS];
  if (!d || !fn) return refuse(error, error_size, d ? "no function is given" : "no data set is given");
  if (!take_fields(list, fields, n_fields, error, error_size)) return NULL;
  UserMap *u = rt_malloc(sizeof *u);
  if (!u) return refuse(error, error_size, "out of memory");
  *u = (UserMap){fn, ctx};
  RtDataset *m = rt_dataset_map(set_of(d), list, n_fields, user_map, u, rt_free, error, error_size);
  if (!m) rt_free(u);
  return made(m);
}

tn_dataset *tn_dataset_images(tn_dataset *d, const tn_image_options *given, char *error, size_t error_size) {
  const tn_image_options o = given ? *given : (tn_image_options){0};
  if (!d) return refuse(error, error_size, "no data set is given");
  RtImageOptions r = {.field = o.field ? o.field : "image",
                      .resize = {o.resize[0], o.resize[1]},
                      .padding = o.padding,
                      .crop = {o.crop[0], o.crop[1]},
                      .random_crop = o.random_crop,
                      .random_flip = o.random_flip,
                      .scale = o.scale,
                      .mean = o.mean,
                      .std = o.std,
                      .n_channels = o.n_channels,
                      .seed = o.seed};
  return made(rt_dataset_images(set_of(d), &r, error, error_size));
}

// ---- loaders
static bool user_collate(void *ctx, const RtItems *items, RtArray *out, char *error, size_t error_size) {
  const tn_collate *c = ctx;
  tn_items list = {arrays_of(items->arrays), items->n_fields, items->n, items->index, items->starts};
  return c->fn(c->ctx, &list, outputs_of(out), error, error_size);
}

static bool is_hostile(void) {
  const char *list = getenv("TN_CHECK");
  return list && strstr(list, "arena");
}

_Static_assert((int)TN_CUT_REFUSE - 1 == (int)RT_CUT_REFUSE && (int)TN_CUT_FILL - 1 == (int)RT_CUT_FILL, "one list");
static RtCut cut_of(const tn_sampler *s) {
  return s->cut ? (RtCut)(s->cut - 1) : s->kind == TN_FIRST_FIT ? RT_CUT_LONG : RT_CUT_REFUSE;
}

static RtSampler sampler_of(const tn_loader_options *o) {
  const tn_sampler *from = &o->sampler;
  RtSampler s = {.kind = (RtSamplerKind)from->kind,
                 .pool = from->pool,
                 .custom = from->custom,
                 .n_custom = from->n_custom,
                 .rank = from->shards ? 0 : from->rank,
                 .world = from->shards || !from->world ? 1 : from->world,
                 .shards = from->shards,
                 .shard_rank = from->rank,
                 .n_shard_ranks = from->world ? from->world : 1,
                 .drop_tail = from->tail == TN_TAIL_DROP,
                 .drop_last = o->drop_last,
                 .max_length = from->max_length,
                 .max_rows = from->max_rows,
                 .max_padded = from->max_padded,
                 .max_squares = from->max_squares,
                 .cut = cut_of(from),
                 .lengths = from->lengths,
                 .seed = o->seed};
  int64_t limit = rt_row_limit(&s);
  s.batch_size = o->batch_size ? o->batch_size : limit < INT64_MAX ? (size_t)limit : 1;
  return s;
}

tn_loader *tn_loader_new(tn_dataset *d, const tn_loader_options *given, char *error, size_t error_size) {
  const tn_loader_options o = given ? *given : (tn_loader_options){0};
  if (!d) return refuse(error, error_size, "no data set is given");
  RtSampler sampler = sampler_of(&o);
  RtLoaderOptions r = {.workers = o.workers,
                       .prefetch = o.prefetch,
                       .sampler = sampler,
                       .layout = (RtLayout)o.layout,
                       .inputs = o.inputs,
                       .n_inputs = o.n_inputs,
                       .guarded = is_hostile()};
  tn_loader *l = rt_malloc(sizeof *l);
  if (!l) return refuse(error, error_size, "out of memory");
  *l = (tn_loader){.collate = o.collate};
  bool ok = true;
  if (o.collate.fn) {
    r.collate = (RtCollate){.n_fields = o.collate.n_fields, .fn = user_collate, .ctx = &l->collate};
    ok = take_fields(r.collate.fields, o.collate.fields, o.collate.n_fields, error, error_size);
  }
  l->rt = ok ? rt_loader_new(set_of(d), &r, error, error_size) : NULL;
  if (l->rt) fe_lock_init(&l->lock, NULL, rt_loader_error_buffer(l->rt), "");
  if (l->rt) return l;
  rt_free(l);
  return NULL;
}

// A call that waits for a batch in another thread ends without one.
void tn_loader_free(tn_loader *l) {
  if (!l) return;
  rt_loader_stop(l->rt);
  fe_lock_wait(&l->lock, CALL_tn_loader_free);
  rt_loader_free(l->rt);
  rt_free(l);
}

size_t tn_loader_count(const tn_loader *l) {
  if (!l) return 0;
  FE_WAIT(&((tn_loader *)l)->lock, CALL_tn_loader_count);
  return rt_loader_count(l->rt);
}

size_t tn_loader_bytes(const tn_loader *l) { return l ? (size_t)rt_loader_bytes(l->rt) : 0; }
tn_stats tn_loader_stats(const tn_loader *l) {
  if (!l) return (tn_stats){0};
  FE_WAIT(&((tn_loader *)l)->lock, CALL_tn_loader_stats);
  RtLoaderCounts c = rt_loader_counts(l->rt);
  return (tn_stats){.live = c.given - c.ended, .created_in = c.given, .disposed_in = c.ended};
}

tn_epoch_report tn_loader_report(const tn_loader *l) {
  RtEpochReport r;
  if (!l) return (tn_epoch_report){0};
  FE_WAIT(&((tn_loader *)l)->lock, CALL_tn_loader_report);
  rt_loader_report(l->rt, &r);
  return (tn_epoch_report){r.batches,    r.sequences, r.skipped,     r.rows,         r.padded,
                           r.most_items, r.most_rows, r.most_padded, r.most_squares, r.longest};
}

bool tn_loader_is_stopped(const tn_loader *l) { return l && rt_loader_is_stopped(l->rt); }

const char *tn_loader_error(const tn_loader *l) {
  return l ? fe_error_text(&((tn_loader *)l)->lock, CALL_tn_loader_error) : "";
}

void tn_loader_stop(tn_loader *l) {
  if (l) rt_loader_stop(l->rt);
}

static tn_status end(tn_loader *l, tn_status status) {
  if (status) fe_end_call(&l->lock);
  else fe_unlock(&l->lock);
  return status;
}

tn_status tn_loader_next(tn_loader *l, tn_batch *out) {
  RtBatch b = {0};
  if (out) *out = (tn_batch){0};
  if (!l || !out || !fe_lock(&l->lock, CALL_tn_loader_next, &l->lock)) return TN_ERR_ARGUMENT;
  tn_status status = (tn_status)rt_loader_next(l->rt, &b);
  *out = shown(b);
  return end(l, status);
}

tn_loader_state tn_loader_get_state(const tn_loader *l) {
  if (!l) return (tn_loader_state){0};
  FE_WAIT(&((tn_loader *)l)->lock, CALL_tn_loader_get_state);
  RtLoaderState s = rt_loader_get_state(l->rt);
  return (tn_loader_state){s.seed, s.epoch, s.position, s.identity};
}

tn_status tn_loader_set_state(tn_loader *l, tn_loader_state s) {
  if (!l || !fe_lock(&l->lock, CALL_tn_loader_set_state, &l->lock)) return TN_ERR_ARGUMENT;
  tn_status status = (tn_status)rt_loader_set_state(l->rt, (RtLoaderState){s.seed, s.epoch, s.position, s.identity});
  return end(l, status);
}

// ---- batches
bool tn_batch_is_live(tn_batch b) {
  RtBatchOwner o;
  return rt_batch_find(batch_of(b), &o);
}

const tn_array *tn_batch_arrays(tn_batch b, size_t *n) {
  RtBatchOwner o;
  rt_batch_find(batch_of(b), &o);
  if (n) *n = o.n_arrays;
  return arrays_of(o.arrays);
}

tn_array tn_batch_array(tn_batch b, const char *name) {
  RtBatchOwner o;
  rt_batch_find(batch_of(b), &o);
  for (uint32_t k = 0; k < o.n_arrays; k++)
    if (name && !strcmp(o.names[k], name)) return arrays_of(o.arrays)[k];
  return (tn_array){0};
}

size_t tn_batch_size(tn_batch b) {
  RtBatchOwner o;
  return rt_batch_find(batch_of(b), &o) ? o.n_items : 0;
}

const size_t *tn_batch_index(tn_batch b) {
  RtBatchOwner o;
  return rt_batch_find(batch_of(b), &o) ? o.index : NULL;
}

tn_batch tn_batch_retain(tn_batch b) { return shown(rt_batch_retain(batch_of(b))); }
void tn_batch_release(tn_batch b) { rt_batch_release(batch_of(b)); }

tn_status tn_run_batch(tn_model *m, const char *function, tn_batch b, const tn_array *out, size_t n_out) {
  RtBatchOwner o;
  FE_MODEL_CALL(m, tn_run_batch, TN_ERR_ARGUMENT);
  if (!rt_batch_find(batch_of(b), &o)) {
    rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE,
            "E101: the batch is dead: it ended with the next tn_loader_next or with its loader; tn_batch_retain keeps "
            "a copy");
    return TN_ERR_ARGUMENT;
  }
  uint32_t k = function ? rt_plan_function(m->code->plan, function) : RT_NO_FUNCTION;
  size_t n = o.n_arrays;
  if (k != RT_NO_FUNCTION && m->code->plan->functions[k].n_inputs < n) n = m->code->plan->functions[k].n_inputs;
  return fe_run(m, function, arrays_of(o.arrays), n, out, n_out);
}

// ---- extras of a model's file
static tn_status with_extras(tn_model *m, const char *path, bool with_state, const tn_extra *extra, size_t n_extra,
                             bool loads) {
  enum { MOST = 256 };
  RtExtra list[MOST];
  if (!path || (!extra && n_extra) || n_extra > MOST) {
    rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, "%s: %s", loads ? "tn_load_with" : "tn_save_with",
            !path ? "no path is given" : "1 to 256 extras are possible");
    return TN_ERR_ARGUMENT;
  }
  for (size_t k = 0; k < n_extra; k++) list[k] = (RtExtra){extra[k].name, extra[k].bytes, extra[k].size};
  RtPart part = {m->inst, NULL};
  RtSaveOptions save = {.with_state = with_state, .extra = list, .n_extra = n_extra};
  RtLoadOptions load = {.with_state = with_state, .extra = list, .n_extra = n_extra};
  return (tn_status)(loads ? rt_store_load(&part, 1, path, &load) : rt_store_save(&part, 1, path, &save));
}

tn_status tn_save_with(tn_model *m, const char *path, bool with_state, const tn_extra *extra, size_t n_extra) {
  FE_MODEL_CALL(m, tn_save_with, TN_ERR_ARGUMENT);
  return with_extras(m, path, with_state, extra, n_extra, false);
}

tn_status tn_load_with(tn_model *m, const char *path, bool with_state, const tn_extra *extra, size_t n_extra) {
  FE_MODEL_CALL(m, tn_load_with, TN_ERR_ARGUMENT);
  return with_extras(m, path, with_state, extra, n_extra, true);
}

tn_status tn_extra_size(tn_model *m, const char *path, const char *name, size_t *size) {
  FE_MODEL_CALL(m, tn_extra_size, TN_ERR_ARGUMENT);
  if (path && name && size) return (tn_status)rt_extra_size(m->inst, path, name, size);
  rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, "tn_extra_size: a path, name or place is missing");
  return TN_ERR_ARGUMENT;
}
