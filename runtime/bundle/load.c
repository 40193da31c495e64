// A safetensors file into a state: first everything is looked at, then everything is copied.
#include "runtime/bundle/file.h"

typedef struct {
  const TnBundle *b;
  TnFile file;
  bool takes_state;  // the optimizer's entries, seed and run counter
  uint64_t seed, runs;
  bool has_seed, has_runs;
} Load;

// ---- finding
// Under this name, or under the one that the metadata say it is an alias of.
static bool find_named(Load *l, const char *name, TnFileEntry *out) {
  TnText canonical;
  if (tn_file_find(&l->file, tn_text_of(name), out)) return true;
  return tn_file_find_metadata(&l->file, tn_text_of(name), &canonical) && tn_file_find(&l->file, canonical, out);
}

static bool same_bytes(const TnFileEntry *a, const TnFileEntry *b) {
  if (a->dtype != b->dtype || a->bytes != b->bytes) return false;
  for (size_t k = 0; a->data != b->data && k < a->bytes; k++)
    if (a->data[k] != b->data[k]) return false;
  return true;
}

typedef enum { FOUND, MISSING, AMBIGUOUS } Find;

// Under the path of tensor k or any alias; several must be equal.
static Find find_tensor(Load *l, uint32_t k, TnFileEntry *out) {
  bool is_found = find_named(l, l->b->about->tensors[k].path, out);
  for (uint32_t a = 0; a < l->b->n_aliases; a++) {
    TnFileEntry other;
    if (l->b->alias_of[a] != k || !find_named(l, l->b->aliases[a], is_found ? &other : out)) continue;
    if (is_found && !same_bytes(out, &other)) return AMBIGUOUS;
    is_found = true;
  }
  return is_found ? FOUND : MISSING;
}

// ---- looking
static uint32_t log2_width(uint32_t t) {
  static const uint8_t widths[] = {
      [RT_F32] = 2, [RT_I64] = 3, [RT_I32] = 2, [RT_F16] = 1, [RT_BF16] = 1, [TN_ENTRY_F64] = 3};
  return widths[t];
}

// Every float becomes f32; other tensors take their own dtype.
static bool converts(const TnBundleTensor *t, const TnFileEntry *e) {
  bool is_float = e->dtype == TN_ENTRY_F16 || e->dtype == TN_ENTRY_BF16 || e->dtype == TN_ENTRY_F64;
  return e->dtype == (TnFileDType)t->dtype || (t->dtype == RT_F32 && is_float);
}

static bool fits(const TnBundleTensor *t, const TnFileEntry *e) {
  if (!converts(t, e)) return false;
  bool same = t->rank == e->rank;
  for (uint32_t d = 0; same && d < t->rank; d++) same = t->sizes[d] == e->sizes[d];
  return same && e->bytes == t->bytes >> log2_width(t->dtype) << log2_width(e->dtype);
}

static int check_tensor(Load *l, uint32_t k, uint32_t *n_found) {
  TnFileEntry e;
  const TnBundleTensor *t = &l->b->about->tensors[k];
  Find found = find_tensor(l, k, &e);
  bool is_state = t->kind == RT_STATE;
  uint32_t status = l->b->tensor_status + k * TN_BUNDLE_PER_TENSOR;
  if (found == MISSING) return is_state && !l->b->needs_state ? TN_BUNDLE_OK : (int)(status + TN_BUNDLE_TENSOR_MISSING);
  if (found == AMBIGUOUS || !fits(t, &e)) return (int)(status + TN_BUNDLE_TENSOR_DIFFERS);
  *n_found += is_state;
  return TN_BUNDLE_OK;
}

static int check_tensors(Load *l) {
  const TnBundleAbout *about = l->b->about;
  uint32_t n_state = 0, n_found = 0;
  for (uint32_t k = 0; k < about->n_tensors; k++) {
    uint32_t t = l->b->file_order[k];
    if (about->tensors[t].kind == RT_TRANSIENT) continue;
    n_state += about->tensors[t].kind == RT_STATE;
    int status = check_tensor(l, t, &n_found);
    if (status) return status;
  }
  l->takes_state = n_found == n_state;
  return n_found == 0 || n_found == n_state ? TN_BUNDLE_OK : TN_BUNDLE_PART_STATE;
}

static bool read_number(TnText t, uint64_t *out) {
  const uint64_t tenth = UINT64_MAX / 10;
  uint64_t v = 0;
  for (const unsigned char *c = t.at; c < t.end; c++) {
    uint32_t digit = (uint32_t)*c - '0';
    if (digit > 9 || v > tenth || (v == tenth && digit > 5)) return false;
    v = v * 10 + digit;
  }
  *out = v;
  return t.at < t.end;
}

static int check_random(Load *l) {
  TnText seed, runs;
  if (!l->takes_state) return TN_BUNDLE_OK;
  l->has_seed = tn_file_find_metadata(&l->file, tn_text_of("tenure.seed"), &seed);
  l->has_runs = tn_file_find_metadata(&l->file, tn_text_of("tenure.runs"), &runs);
  bool ok = (!l->has_seed || read_number(seed, &l->seed)) && (!l->has_runs || read_number(runs, &l->runs));
  return ok ? TN_BUNDLE_OK : TN_BUNDLE_BAD_RANDOM;
}

// ---- copying
static void copy_tensor(const TnBundleTensor *t, const TnFileEntry *e, unsigned char *to) {
  if (t->dtype != RT_F32) {
    for (size_t k = 0; k < t->bytes; k++) to[k] = t->dtype == RT_BOOL ? e->data[k] != 0 : e->data[k];
    return;
  }
  for (size_t k = 0; k < t->bytes / 4; k++) {
    uint32_t bits = tn_file_f32_bits(e, k);
    __builtin_memcpy(to + 4 * k, &bits, sizeof bits);
  }
}

static void copy_tensors(Load *l, unsigned char *state) {
  for (uint32_t k = 0; k < l->b->about->n_tensors; k++) {
    uint32_t i = l->b->file_order[k];
    const TnBundleTensor *t = &l->b->about->tensors[i];
    TnFileEntry e;
    if (t->kind == RT_TRANSIENT || (t->kind == RT_STATE && !l->takes_state)) continue;
    if (find_tensor(l, i, &e) == FOUND && fits(t, &e)) copy_tensor(t, &e, state + t->offset);  // as it was checked
  }
}

int tn_bundle_load(const TnBundle *b, void *state, const void *bytes, size_t n) {
  Load l = {.b = b};
  TnBundleState *s = state;
  int status = tn_bundle_check_state(b, state);
  if (!status && tn_bundle_overlaps_state(b, state, bytes, n)) status = TN_BUNDLE_FILE_OVERLAP;
  if (!status) status = tn_file_open(&l.file, bytes, n, tn_bundle_most_names(b->about));
  if (!status) status = check_tensors(&l);
  if (!status) status = check_random(&l);
  if (status) return status;
  copy_tensors(&l, state);
  if (l.has_seed) s->seed = l.seed;
  if (l.has_runs) s->counter = l.runs;
  return TN_BUNDLE_OK;
}
