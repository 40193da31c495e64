#include "runtime/data/collate.h"
#include "runtime/near.h"

#include <inttypes.h>
#include <string.h>

// ---- the form: which arrays, and where they lie
static bool reserve(RtBatchForm *f, size_t *at, int64_t count, int64_t bytes) {
  int64_t size;
  *at = (size_t)f->bytes;
  if (__builtin_mul_overflow(count, bytes, &size) || size > (INT64_C(1) << 48)) return false;
  f->bytes += (size + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
  return f->bytes < INT64_C(1) << 48;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Rows that the items of a variable field may have, one behind the other and padded. Lengths that a batch was filled by hold
// for the measured field, and for all of a data set that reads parts. Where it does not, an item is read into room for its
// bound, wherever it begins.
static bool count_rows(const RtBatchForm *f, uint32_t k, int64_t *rows, int64_t *padded) {
  int64_t n = (int64_t)f->batch_size, bound = f->data->fields[k].dims[0];
  bool holds = f->is_by_rows && (f->reads_parts || k == rt_dataset_measured(f->data));
  int64_t longest = holds ? smaller(bound, f->most_length) : bound;
  if (__builtin_mul_overflow(n, f->reads_parts ? longest : bound, rows)) return false;
  *padded = n * longest;
  if (!holds) return true;
  int64_t read = smaller(*padded, f->most_rows), room = f->reads_parts ? 0 : bound;
  if (read < *rows - room) *rows = read + room;
  *padded = smaller(*padded, f->most_padded);
  return true;
}

static bool place_variable(RtBatchForm *f, uint32_t k) {
  int64_t rows, padded, row = rt_field_row(&f->data->fields[k]);
  if (!count_rows(f, k, &rows, &padded)) return false;
  bool is_padded = !f->custom.fn && f->layout == RT_PADDED, is_turned = !f->custom.fn && f->layout == RT_TIME_MAJOR;
  if (is_padded && padded > rows) rows = padded;
  return reserve(f, &f->data_at[k], rows, row) && (!is_turned || reserve(f, &f->out_at[k], padded, row));
}

static bool place(RtBatchForm *f) {
  int64_t n = (int64_t)f->batch_size;
  if (f->batch_size > (size_t)1 << 40) return false;
  bool ok = reserve(f, &f->index_at, n, sizeof(size_t));
  if (f->is_by_rows) ok = ok && reserve(f, &f->pieces_at, n, sizeof(RtItemPart));
  if (f->is_cut) ok = ok && reserve(f, &f->starts_at, n, sizeof(int64_t));
  for (uint32_t k = 0; ok && k < f->data->n_fields; k++) {
    const RtField *field = &f->data->fields[k];
    ok = field->is_variable ? place_variable(f, k) : reserve(f, &f->data_at[k], n, rt_field_bytes(field));
    ok = ok && reserve(f, &f->lengths_at[k], n, sizeof(int64_t));
  }
  if (!ok || !f->custom.fn) return ok;
  ok = reserve(f, &f->items_at, n * f->data->n_fields, sizeof(RtArray));
  for (uint32_t k = 0; ok && k < f->custom.n_fields; k++)
    ok = reserve(f, &f->out_at[k], 1, rt_field_bytes(&f->custom.fields[k]));
  return ok;
}

// All arrays in their own order: a variable field has its lengths behind it, the measured one its starts behind those.
static uint32_t name_arrays(const RtBatchForm *f, char names[][RT_ARRAY_NAME]) {
  uint32_t n = 0;
  if (f->custom.fn) {
    for (; n < f->custom.n_fields; n++) snprintf(names[n], RT_ARRAY_NAME, "%s", f->custom.fields[n].name);
    return n;
  }
  for (uint32_t k = 0; k < f->data->n_fields; k++) {
    snprintf(names[n++], RT_ARRAY_NAME, "%s", f->data->fields[k].name);
    if (f->data->fields[k].is_variable) snprintf(names[n++], RT_ARRAY_NAME, "%s.lengths", f->data->fields[k].name);
    if (f->is_cut && k == rt_dataset_measured(f->data))
      snprintf(names[n++], RT_ARRAY_NAME, "%s.starts", f->data->fields[k].name);
  }
  return n;
}

static bool refuse_name(char names[][RT_ARRAY_NAME], uint32_t n, const char *wanted, char *error, size_t error_size) {
  RtNear near = {.wanted = wanted};
  for (uint32_t k = 0; k < n; k++) rt_near_offer(&near, names[k]);
  return rt_fail(error, error_size, "a batch has no array '%.80s'%s", wanted ? wanted : "", rt_near_or_all(&near));
}

static bool pick(RtBatchForm *f, const char *const *inputs, uint32_t n_inputs, char *error, size_t error_size) {
  char all[RT_MAX_BATCH_ARRAYS][RT_ARRAY_NAME];
  uint32_t n = name_arrays(f, all);
  for (uint32_t k = 0; k < n; k++)  // the lengths of "x" and a field "x.lengths"
    for (uint32_t i = 0; i < k; i++)
      if (!strcmp(all[i], all[k])) return rt_fail(error, error_size, "two arrays of a batch are named '%.80s'", all[k]);
  if (n_inputs > RT_MAX_BATCH_ARRAYS)
    return rt_fail(error, error_size, "a batch has at most %d arrays", RT_MAX_BATCH_ARRAYS);
  f->n_arrays = inputs ? n_inputs : n;
  for (uint32_t i = 0; i < f->n_arrays; i++) {
    uint32_t k = inputs ? 0 : i;
    while (inputs && k < n && (!inputs[i] || strcmp(all[k], inputs[i]))) k++;
    if (k == n) return refuse_name(all, n, inputs[i], error, error_size);
    f->picks[i] = k;
    memcpy(f->names[i], all[k], RT_ARRAY_NAME);
  }
  return true;
}

bool rt_form_init(RtBatchForm *f, const char *const *inputs, uint32_t n_inputs, char *error, size_t error_size) {
  if ((unsigned)f->layout > RT_CONCATENATED) return rt_fail(error, error_size, "the layout is unknown");
  if (f->custom.fn && !rt_check_fields(f->custom.fields, f->custom.n_fields, RT_FIELD_RANK, error, error_size))
    return false;
  if (!place(f)) return rt_fail(error, error_size, "a batch of %zu items takes more than 2^48 bytes", f->batch_size);
  return pick(f, inputs, n_inputs, error, error_size);
}

// ---- reading
size_t *rt_slot_index(const RtBatchForm *f, const RtBatchSlot *s) { return (size_t *)(void *)(s->mem + f->index_at); }

RtItemPart *rt_slot_pieces(const RtBatchForm *f, const RtBatchSlot *s) {
  return (RtItemPart *)(void *)(s->mem + f->pieces_at);
}

static int64_t *starts_of(const RtBatchForm *f, const RtBatchSlot *s) {
  return f->is_cut ? (int64_t *)(void *)(s->mem + f->starts_at) : NULL;
}

static int64_t *lengths_of(const RtBatchForm *f, const RtBatchSlot *s, uint32_t field) {
  return (int64_t *)(void *)(s->mem + f->lengths_at[field]);
}

RtItem rt_slot_item(const RtBatchForm *f, RtBatchSlot *s, size_t i, const RtHalt *halt) {
  RtItem item = {.error = s->error, .error_size = sizeof s->error, .epoch = s->epoch, .halt = halt};
  if (i == 0) memset(s->used, 0, sizeof s->used);
  for (uint32_t k = 0; k < f->data->n_fields; k++) {
    const RtField *field = &f->data->fields[k];
    size_t before = field->is_variable ? (size_t)(s->used[k] * rt_field_row(field)) : i * (size_t)rt_field_bytes(field);
    item.data[k] = s->mem + f->data_at[k] + before;
  }
  return item;
}

void rt_slot_keep_lengths(const RtBatchForm *f, RtBatchSlot *s, size_t i, const RtItem *item) {
  for (uint32_t k = 0; k < f->data->n_fields; k++)
    if (f->data->fields[k].is_variable) lengths_of(f, s, k)[i] = item->length[k], s->used[k] += item->length[k];
}

static size_t run_length(const size_t *index, size_t n) {
  size_t k = 1;
  while (k < n && index[k] == index[k - 1] + 1) k++;
  return k;
}

// The batch was filled by the length that the item was said to have.
static bool check_length(const RtDataset *d, const RtItemPart *p, const RtItem *item) {
  uint32_t k = rt_dataset_measured(d);
  return k == d->n_fields || item->length[k] <= p->n ||
         rt_fail(item->error, item->error_size,
                 "field '%s' has length %" PRId64 ", the batch was filled by a length of %" PRId64, d->fields[k].name,
                 item->length[k], p->n);
}

static bool read_piece(const RtBatchForm *f, RtBatchSlot *s, size_t i, RtItem *item) {
  const RtItemPart *p = &rt_slot_pieces(f, s)[i];
  if (f->is_cut) starts_of(f, s)[i] = p->first;
  if (p->n < p->of) return rt_dataset_get_part(f->data, p->item, p->first, p->n, p->of, item);
  return rt_dataset_get(f->data, p->item, item) && check_length(f->data, p, item);
}

static bool read_one(const RtBatchForm *f, RtBatchSlot *s, size_t i, size_t k, const RtHalt *halt) {
  RtItem item = rt_slot_item(f, s, i, halt);
  s->error[0] = 0;
  if (!(f->is_by_rows ? read_piece(f, s, i, &item) : rt_dataset_get(f->data, k, &item))) return false;
  rt_slot_keep_lengths(f, s, i, &item);
  return true;
}

// The whole batch lies in memory as it is needed.
static bool is_view(const RtBatchForm *f, const RtBatchSlot *s, const size_t *index) {
  const RtDataset *d = f->data;
  if (!f->may_view || !d->ops->view || f->custom.fn || rt_dataset_is_variable(d) || s->n == 0) return false;
  return run_length(index, s->n) == s->n && d->ops->view(d->ctx, 0, index[0], s->n) != NULL;
}

bool rt_slot_read(const RtBatchForm *f, RtBatchSlot *s, const RtHalt *halt, size_t *bad) {
  const RtDataset *d = f->data;
  const size_t *index = rt_slot_index(f, s);
  bool whole_rows = d->ops->rows && !rt_dataset_is_variable(d);
  if (is_view(f, s, index)) return true;
  for (size_t i = 0, n; i < s->n; i += n) {
    n = whole_rows ? run_length(index + i, s->n - i) : 1;
    *bad = i;
    if (rt_is_halted(halt)) return rt_fail(s->error, sizeof s->error, "stopped");
    RtItem item = rt_slot_item(f, s, i, halt);
    if (n > 1 && d->ops->rows(d->ctx, index[i], n, &item)) continue;
    for (size_t j = 0; j < n; j++)  // one by one finds the item that is wrong
      if (*bad = i + j, !read_one(f, s, i + j, index[i + j], halt)) return false;
  }
  return true;
}

// ---- putting together
static int64_t longest_of(const int64_t *lengths, size_t n) {
  int64_t longest = 0;
  for (size_t i = 0; i < n; i++)
    if (lengths[i] > longest) longest = lengths[i];
  return longest;
}

// [rows, ..] to [n, longest, ..], in place: the last item first, since each moves to where it was or behind.
static void move_apart(unsigned char *data, const int64_t *lengths, size_t n, int64_t rows, size_t row,
                       int64_t longest) {
  size_t step = (size_t)longest * row;
  for (size_t i = n; i-- > 0;) {
    size_t used = (size_t)lengths[i] * row;
    rows -= lengths[i];
    memmove(data + i * step, data + (size_t)rows * row, used);
    memset(data + i * step + used, 0, step - used);
  }
}

static void turn(unsigned char *to, const unsigned char *from, const int64_t *lengths, size_t n, size_t row,
                 int64_t longest) {
  for (size_t i = 0; i < n; i++, to += row)
    for (int64_t t = 0; t < longest; t++) {
      unsigned char *at = to + (size_t)t * n * row;
      if (t < lengths[i]) memcpy(at, from, row), from += row;
      else memset(at, 0, row);
    }
}

static void finish_variable(const RtBatchForm *f, RtBatchSlot *s, uint32_t k, RtArray *out) {
  const RtField *field = &f->data->fields[k];
  const int64_t *lengths = lengths_of(f, s, k);
  int64_t rows = s->n ? s->used[k] : 0, longest = longest_of(lengths, s->n);
  size_t row = (size_t)rt_field_row(field);
  unsigned char *data = s->mem + f->data_at[k];
  uint32_t first = f->layout == RT_CONCATENATED ? 1 : 2;
  *out = (RtArray){.data = data, .dtype = field->dtype, .rank = field->rank + first - 1};
  memcpy(out->dims + first, field->dims + 1, (field->rank - 1) * sizeof *field->dims);
  if (f->layout == RT_CONCATENATED) {
    out->dims[0] = rows;
    return;
  }
  bool is_turned = f->layout == RT_TIME_MAJOR;
  out->dims[is_turned] = (int64_t)s->n;
  out->dims[!is_turned] = longest;
  if (is_turned) turn(out->data = s->mem + f->out_at[k], data, lengths, s->n, row, longest);
  else move_apart(data, lengths, s->n, rows, row, longest);
}

static void finish_fixed(const RtBatchForm *f, const RtBatchSlot *s, uint32_t k, bool view, RtArray *out) {
  const RtField *field = &f->data->fields[k];
  *out = (RtArray){.data = s->mem + f->data_at[k], .dtype = field->dtype, .rank = field->rank + 1};
  out->dims[0] = (int64_t)s->n;
  memcpy(out->dims + 1, field->dims, field->rank * sizeof *field->dims);
  if (view) out->data = (void *)(uintptr_t)f->data->ops->view(f->data->ctx, k, rt_slot_index(f, s)[0], s->n);
}

static RtArray list_of(int64_t *data, size_t n) {
  return (RtArray){.data = data, .dtype = RT_I64, .rank = 1, .dims = {(int64_t)n}};
}

static void stack(const RtBatchForm *f, RtBatchSlot *s, RtArray *all) {
  bool view = f->data->count != RT_STREAM && is_view(f, s, rt_slot_index(f, s));
  for (uint32_t k = 0, n = 0; k < f->data->n_fields; k++) {
    if (!f->data->fields[k].is_variable) {
      finish_fixed(f, s, k, view, &all[n++]);
      continue;
    }
    finish_variable(f, s, k, &all[n++]);
    all[n++] = list_of(lengths_of(f, s, k), s->n);
    if (f->is_cut && k == rt_dataset_measured(f->data)) all[n++] = list_of(starts_of(f, s), s->n);
  }
}

// ---- the user's collation
static void show_items(const RtBatchForm *f, RtBatchSlot *s, uint32_t k, RtArray *items) {
  const RtField *field = &f->data->fields[k];
  unsigned char *data = s->mem + f->data_at[k];
  for (size_t i = 0; i < s->n; i++, items += f->data->n_fields) {
    *items = (RtArray){.data = data, .dtype = field->dtype, .rank = field->rank};
    memcpy(items->dims, field->dims, field->rank * sizeof *field->dims);
    if (field->is_variable) items->dims[0] = lengths_of(f, s, k)[i];
    data += field->rank ? rt_field_row(field) * items->dims[0] : rt_field_row(field);
  }
}

static bool check_output(const RtField *field, const RtArray *a, const void *data, char *error) {
  if (a->rank != field->rank || a->dtype != field->dtype || a->data != data)
    return rt_fail(error, RT_SLOT_ERROR, "the collation replaced array '%s', only its dims are its to set",
                   field->name);
  for (uint32_t d = 0; d < a->rank; d++)
    if (a->dims[d] < 0 || a->dims[d] > field->dims[d])
      return rt_fail(error, RT_SLOT_ERROR,
                     "the collation gives array '%s' size %" PRId64 " at axis %" PRIu32 ", its bound is %" PRId64,
                     field->name, a->dims[d], d, field->dims[d]);
  return true;
}

static bool collate(const RtBatchForm *f, RtBatchSlot *s, RtArray *all) {
  uint32_t n_fields = f->data->n_fields;
  RtArray *items = (RtArray *)(void *)(s->mem + f->items_at);
  for (uint32_t k = 0; k < n_fields; k++) show_items(f, s, k, items + k);
  for (uint32_t k = 0; k < f->custom.n_fields; k++) {
    const RtField *field = &f->custom.fields[k];
    all[k] = (RtArray){.data = s->mem + f->out_at[k], .dtype = field->dtype, .rank = field->rank};
    memcpy(all[k].dims, field->dims, field->rank * sizeof *field->dims);
  }
  RtItems list = {items, n_fields, s->n, f->data->count == RT_STREAM ? NULL : rt_slot_index(f, s), starts_of(f, s)};
  s->error[0] = 0;
  if (!f->custom.fn(f->custom.ctx, &list, all, s->error, sizeof s->error)) return false;
  for (uint32_t k = 0; k < f->custom.n_fields; k++)
    if (!check_output(&f->custom.fields[k], &all[k], s->mem + f->out_at[k], s->error)) return false;
  return true;
}

bool rt_slot_finish(const RtBatchForm *f, RtBatchSlot *s) {
  RtArray all[RT_MAX_BATCH_ARRAYS];
  if (!f->custom.fn) stack(f, s, all);
  else if (!collate(f, s, all)) return false;
  for (uint32_t k = 0; k < f->n_arrays; k++) s->arrays[k] = all[f->picks[k]];
  return true;
}
