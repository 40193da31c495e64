#include "runtime/data/array_files.h"
#include "runtime/data/gzip.h"
#include "runtime/data/idx.h"
#include "runtime/near.h"
#include "runtime/store/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t most_unpacked = UINT64_C(4) << 30;

// One array: rows of a source.
typedef struct {
  RtSource source;        // its file, its part of a file, or `memory`
  unsigned char *memory;  // what was unpacked or turned; NULL: nothing
  uint64_t at;            // byte of the first row
  RtNumber number;
  RtDType as;
  size_t per_item, n_items;  // numbers of a row; rows
} Array;

typedef struct {
  RtSource shared;                     // the file of all arrays; zero: each has its own
  uint64_t n_unpacked, most_unpacked;  // bytes of deflated members brought to memory
  uint32_t n;
  Array arrays[RT_MAX_FIELDS];
  RtField fields[RT_MAX_FIELDS];
} Stored;

// ---- rows
static bool convert(const Array *a, uint64_t at, size_t n, void *to, char *error, size_t error_size) {
  enum { CHUNK = 1 << 13 };
  unsigned char bytes[CHUNK];
  size_t step = CHUNK / a->number.bytes, bad;
  for (size_t k = 0; k < n; k += step) {
    size_t m = n - k < step ? n - k : step;
    if (!rt_source_read(&a->source, at + k * a->number.bytes, bytes, m * a->number.bytes, error, error_size))
      return false;
    if (!rt_number_read(a->number, bytes, m, a->as, (unsigned char *)to + k * rt_dtype_bytes(a->as), &bad))
      return rt_fail(error, error_size, "%s: the number at byte %" PRIu64 " does not fit %s", a->source.name,
                     at + (k + bad) * a->number.bytes, rt_dtype_name(a->as));
  }
  return true;
}

static bool get_rows(void *ctx, size_t first, size_t n, RtItem *to) {
  const Stored *s = ctx;
  for (uint32_t f = 0; f < s->n; f++) {
    const Array *a = &s->arrays[f];
    uint64_t at = a->at + (uint64_t)first * a->per_item * a->number.bytes;
    size_t count = n * a->per_item;
    bool ok = rt_number_is_plain(a->number, a->as)
                  ? rt_source_read(&a->source, at, to->data[f], count * a->number.bytes, to->error, to->error_size)
                  : convert(a, at, count, to->data[f], to->error, to->error_size);
    if (!ok) return false;
  }
  return true;
}

static bool get_row(void *ctx, size_t k, RtItem *to) { return get_rows(ctx, k, 1, to); }

static void free_stored(void *ctx) {
  Stored *s = ctx;
  for (uint32_t k = 0; k < s->n; k++) {
    rt_source_close(&s->arrays[k].source);
    rt_free(s->arrays[k].memory);
  }
  rt_source_close(&s->shared);
  rt_free(s);
}

static const RtDatasetOps stored_ops = {.get = get_row, .rows = get_rows, .free = free_stored};

// ---- opening
static Stored *new_stored(uint32_t n, char *error, size_t error_size) {
  Stored *s = n <= RT_MAX_FIELDS ? rt_malloc(sizeof *s) : NULL;
  if (s) memset(s, 0, sizeof *s), s->n = n;
  else
    rt_fail(error, error_size, n > RT_MAX_FIELDS ? "a data set has at most %d arrays" : "out of memory", RT_MAX_FIELDS);
  return s;
}

// Rows of no numbers take no bytes, so that a file of 128 bytes may claim any number of them, and a shuffled order of
// them would fill the memory.
static bool check_claim(const Stored *s, char *error, size_t error_size) {
  for (uint32_t k = 0; k < s->n; k++)
    if (s->arrays[k].per_item || !s->arrays[k].n_items) return true;
  return rt_fail(error, error_size, "array '%s' has %zu rows without a single number: there is nothing to read",
                 s->fields[0].name, s->arrays[0].n_items);
}

static RtDataset *finish(Stored *s, bool ok, char *error, size_t error_size) {
  for (uint32_t k = 1; ok && k < s->n; k++)
    if (s->arrays[k].n_items != s->arrays[0].n_items)
      ok = rt_fail(error, error_size,
                   "E111: array '%s' has %zu rows and the first array has %zu: arrays of one data set have one first "
                   "dim",
                   s->fields[k].name, s->arrays[k].n_items, s->arrays[0].n_items);
  if (ok && s->n == 0) ok = rt_fail(error, error_size, "%s: there are no arrays", s->shared.name);
  ok = ok && check_claim(s, error, error_size);
  RtDataset *d = ok ? rt_dataset_new(&stored_ops, s, s->fields, s->n, s->arrays[0].n_items, error, error_size) : NULL;
  if (!d) free_stored(s);
  return d;
}

static bool set_array(Stored *s, uint32_t k, const RtColumn *c, RtNumber number, uint32_t rank, const int64_t *dims,
                      char *error, size_t error_size) {
  Array *a = &s->arrays[k];
  RtField *f = &s->fields[k];
  a->number = number;
  a->as = c->dtype ? c->dtype : rt_number_natural(number);
  if (a->as != RT_F32 && a->as != RT_F16 && a->as != RT_BF16 && rt_number_natural(number) == RT_F32)
    return rt_fail(error, error_size, "array '%s' holds floats, which are not read as %s", c->name,
                   rt_dtype_name(a->as));
  if (rank == 0)
    return rt_fail(error, error_size, "array '%s' is a single number: its first axis would count the items", c->name);
  *f = (RtField){.dtype = a->as, .rank = rank - 1};
  rt_field_name(f, c->field ? c->field : c->name);
  memcpy(f->dims, dims + 1, (rank - 1) * sizeof *dims);
  a->n_items = (size_t)dims[0];
  a->per_item = 1;
  for (uint32_t d = 1; d < rank; d++)
    if (__builtin_mul_overflow(a->per_item, (size_t)dims[d], &a->per_item) || a->per_item > (size_t)1 << 46)
      return rt_fail(error, error_size, "array '%s' has rows of more than 2^46 numbers", c->name);
  return true;
}

// ---- .npy

static void take_memory(Array *a, unsigned char *bytes, size_t n) {
  char name[RT_SOURCE_NAME];
  memcpy(name, a->source.name, sizeof name);
  rt_source_close(&a->source);
  rt_free(a->memory);
  a->memory = bytes;
  rt_source_memory(&a->source, name, bytes, n);
}

// Row-major numbers of an array in Fortran order: element (i, j, ..) stands at i + j * rows + ..
static bool turn(Array *a, const RtNpy *npy, char *error, size_t error_size) {
  size_t width = npy->number.bytes, n = (size_t)npy->n_elements, place[RT_MAX_RANK] = {0}, stride[RT_MAX_RANK], at = 0;
  unsigned char *to = rt_malloc(n * width), *from = rt_malloc(n * width);
  bool ok = (to && from) || rt_fail(error, error_size, "an array in Fortran order: out of memory");
  ok = ok && rt_source_read(&a->source, a->at, from, n * width, error, error_size);
  for (uint32_t d = 0; d < npy->rank; d++) stride[d] = d ? stride[d - 1] * (size_t)npy->dims[d - 1] : 1;
  for (size_t k = 0; ok && k < n; k++) {
    memcpy(to + k * width, from + at * width, width);
    for (uint32_t d = npy->rank; d-- > 0; place[d] = 0) {
      at += stride[d];
      if (++place[d] < (size_t)npy->dims[d]) break;
      at -= stride[d] * place[d];
    }
  }
  rt_free(from);
  if (!ok) {
    rt_free(to);
    return false;
  }
  take_memory(a, to, n * width);
  a->at = 0;
  return true;
}

// The array that a->source holds.
static bool open_npy(Stored *s, uint32_t k, const RtColumn *c, char *error, size_t error_size) {
  Array *a = &s->arrays[k];
  RtNpy npy;
  if (!rt_npy_parse(&a->source, &npy, error, error_size)) return false;
  a->at = npy.data_at;
  if (!set_array(s, k, c, npy.number, npy.rank, npy.dims, error, error_size)) return false;
  return !npy.fortran || npy.rank < 2 || turn(a, &npy, error, error_size);
}

// "data/x.npy" -> "x"
static void name_after_file(RtField *f, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  char stem[RT_FIELD_NAME];
  snprintf(stem, sizeof stem, "%.*s", dot && dot > name ? (int)(dot - name) : (int)strnlen(name, sizeof stem), name);
  rt_field_name(f, stem);
}

typedef bool (*OpenArray)(Stored *s, uint32_t k, const RtColumn *c, char *error, size_t error_size);

static RtDataset *open_files(OpenArray open, const RtColumn *columns, uint32_t n, char *error, size_t error_size) {
  Stored *s = new_stored(n, error, error_size);
  bool ok = s != NULL;
  for (uint32_t k = 0; ok && k < n; k++) {
    ok = rt_source_open(&s->arrays[k].source, columns[k].name, error, error_size) &&
         open(s, k, &columns[k], error, error_size);
    if (!columns[k].field) name_after_file(&s->fields[k], columns[k].name);
  }
  return s ? finish(s, ok, error, error_size) : NULL;
}

RtDataset *rt_dataset_npy(const RtColumn *columns, uint32_t n, char *error, size_t error_size) {
  return open_files(open_npy, columns, n, error, error_size);
}

// ---- IDX
static bool unpack(Stored *s, Array *a, char *error, size_t error_size) {
  size_t n;
  if (!rt_is_gzip(&a->source)) return true;
  unsigned char *bytes = rt_gzip_unpack(&a->source, most_unpacked - s->n_unpacked, &n, error, error_size);
  if (!bytes) return false;
  take_memory(a, bytes, n);
  s->n_unpacked += n;
  return true;
}

static bool open_idx(Stored *s, uint32_t k, const RtColumn *c, char *error, size_t error_size) {
  Array *a = &s->arrays[k];
  RtNpy idx;
  if (!unpack(s, a, error, error_size) || !rt_idx_parse(&a->source, &idx, error, error_size)) return false;
  a->at = idx.data_at;
  return set_array(s, k, c, idx.number, idx.rank, idx.dims, error, error_size);
}

RtDataset *rt_dataset_idx(const RtColumn *columns, uint32_t n, char *error, size_t error_size) {
  return open_files(open_idx, columns, n, error, error_size);
}

// ---- .npz
// "x" is the member x, or else x.npy. An archive may hold two of a name, of which tools choose the first or the last.
static const RtZipMember *find_member(const Stored *s, const RtZipMember *list, uint32_t n, const char *name,
                                      char *error, size_t error_size) {
  const RtZipMember *found = NULL;
  size_t given = strlen(name);
  for (uint32_t ending = 0; ending < 2 && !found; ending++)
    for (uint32_t k = 0; k < n; k++) {
      if (strncmp(list[k].name, name, given) || strcmp(list[k].name + given, ending ? ".npy" : "")) continue;
      if (found) {
        rt_fail(error, error_size, "%s: two members are named '%s'", s->shared.name, list[k].name);
        return NULL;
      }
      found = &list[k];
    }
  if (!found) rt_fail(error, error_size, "%s: there is no array '%s'", s->shared.name, name);
  return found;
}

// Deflate makes up to a thousand bytes of one: whoever opens the file says how many he wants in memory.
static bool check_unpacked(Stored *s, const RtZipMember *m, char *error, size_t error_size) {
  s->n_unpacked += m->size;
  return s->n_unpacked <= s->most_unpacked ||
         rt_fail(error, error_size,
                 "%s: member '%s' of %" PRIu64 " bytes makes %" PRIu64
                 " bytes unpacked in memory, the limit is %" PRIu64 " (max_unpacked of tn_npz_options)",
                 s->shared.name, m->name, m->size, s->n_unpacked, s->most_unpacked);
}

static bool open_member(Stored *s, uint32_t k, const RtColumn *c, const RtZipMember *m, char *error,
                        size_t error_size) {
  Array *a = &s->arrays[k];
  rt_source_part(&a->source, &s->shared, m->data_at, m->stored);
  snprintf(a->source.name, sizeof a->source.name, "%.120s(%.120s)", s->shared.name, m->name);
  if (m->deflated) {
    bool fits = check_unpacked(s, m, error, error_size);
    unsigned char *bytes = fits ? rt_zip_unpack(&s->shared, m, error, error_size) : NULL;
    if (!bytes) return false;
    take_memory(a, bytes, (size_t)m->size);
  }
  return open_npy(s, k, c, error, error_size);
}

// "enc/x.npy" -> "enc/x": folders belong to the name, as in NumPy, where two arrays may differ in nothing else
static void name_after_member(RtField *f, const char *name) {
  size_t n = strlen(name);
  char stem[RT_FIELD_NAME];
  bool has_ending = n > 4 && !strcmp(name + n - 4, ".npy");
  snprintf(stem, sizeof stem, "%.*s", (int)(has_ending ? n - 4 : n), name);
  rt_field_name(f, stem);
}

static bool open_members(Stored *s, const RtColumn *columns, const RtZipMember *list, uint32_t n_list, char *error,
                         size_t error_size) {
  for (uint32_t k = 0; k < s->n; k++) {
    RtColumn c = columns ? columns[k] : (RtColumn){.name = list[k].name};
    const RtZipMember *m = columns ? find_member(s, list, n_list, c.name, error, error_size) : &list[k];
    if (!m || !open_member(s, k, &c, m, error, error_size)) return false;
    if (!columns) name_after_member(&s->fields[k], c.name);
  }
  return true;
}

RtDataset *rt_dataset_npz(const char *path, const RtColumn *columns, uint32_t n, uint64_t max_unpacked, char *error,
                          size_t error_size) {
  RtSource file;
  RtZipMember *list = NULL;
  uint32_t n_list = 0;
  if (!rt_source_open(&file, path, error, error_size)) return NULL;
  bool ok = rt_zip_list(&file, &list, &n_list, error, error_size);
  Stored *s = ok ? new_stored(columns ? n : n_list, error, error_size) : NULL;
  if (s) s->shared = file, s->most_unpacked = max_unpacked ? max_unpacked : most_unpacked;
  else rt_source_close(&file);
  ok = s && open_members(s, columns, list, n_list, error, error_size);
  rt_free(list);
  return s ? finish(s, ok, error, error_size) : NULL;
}

// ---- safetensors
static const RtNumber st_number[RT_N_ST_DTYPES] = {
    [RT_ST_F64] = {'f', 8, false},  [RT_ST_F32] = {'f', 4, false}, [RT_ST_F16] = {'f', 2, false},
    [RT_ST_BF16] = {'h', 2, false}, [RT_ST_I64] = {'i', 8, false}, [RT_ST_I32] = {'i', 4, false},
    [RT_ST_I16] = {'i', 2, false},  [RT_ST_I8] = {'i', 1, false},  [RT_ST_U64] = {'u', 8, false},
    [RT_ST_U32] = {'u', 4, false},  [RT_ST_U16] = {'u', 2, false}, [RT_ST_U8] = {'u', 1, false},
    [RT_ST_BOOL] = {'b', 1, false}};

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

// Of all tensors: at most RT_MAX_FIELDS.
static void list_names(const RtSt *st, const char *names[RT_MAX_FIELDS]) {
  for (uint32_t k = 0; k < st->n_tensors; k++) names[k] = st->tensors[k].name;
  if (st->n_tensors) qsort(names, st->n_tensors, sizeof *names, by_name);
}

static bool open_tensors(Stored *s, const RtColumn *columns, const RtSt *st, char *error, size_t error_size) {
  const char *names[RT_MAX_FIELDS];
  if (!columns) list_names(st, names);
  for (uint32_t k = 0; k < s->n; k++) {
    RtColumn c = columns ? columns[k] : (RtColumn){.name = names[k]};
    const RtStTensor *t = rt_st_find(st, c.name);
    RtNear near = {.wanted = c.name};
    for (uint32_t i = 0; !t && i < st->n_tensors; i++) rt_near_offer(&near, st->tensors[i].name);
    if (!t)
      return rt_fail(error, error_size, "%s: there is no array '%s'%s", s->shared.name, c.name, rt_near_text(&near));
    if (!rt_st_is_read(t->dtype))
      return rt_fail(error, error_size, "%s: array '%s' has dtype %s, which is not read%s", s->shared.name, c.name,
                     rt_st_dtype_name[t->dtype], columns ? "" : ": name the others as columns");
    rt_source_part(&s->arrays[k].source, &s->shared, 0, s->shared.size);
    s->arrays[k].at = t->offset;
    if (!set_array(s, k, &c, st_number[t->dtype], t->rank, t->dims, error, error_size)) return false;
  }
  return true;
}

// The header alone comes to memory.
static Stored *open_safetensors(RtArena *mem, RtSource *file, const RtColumn *columns, uint32_t n, bool *ok,
                                char *error, size_t error_size) {
  RtSt st;
  if (!rt_st_read_header(mem, file, &st, error, error_size)) return NULL;
  Stored *s = new_stored(columns ? n : st.n_tensors, error, error_size);
  if (!s) return NULL;
  s->shared = *file;
  file->is_owner = false;
  *ok = open_tensors(s, columns, &st, error, error_size);
  return s;
}

RtDataset *rt_dataset_safetensors(const char *path, const RtColumn *columns, uint32_t n, char *error,
                                  size_t error_size) {
  RtSource file;
  jmp_buf oom;
  if (!rt_source_open(&file, path, error, error_size)) return NULL;
  RtArena *volatile mem = rt_arena_new();
  Stored *volatile s = NULL;
  bool ok = false;
  if (mem && !setjmp(oom)) {
    rt_arena_on_oom(mem, &oom);
    s = open_safetensors(mem, &file, columns, n, &ok, error, error_size);
  } else rt_fail(error, error_size, "%s: out of memory", path);
  rt_arena_free(mem);
  rt_source_close(&file);
  return s ? finish(s, ok, error, error_size) : NULL;
}
