// A bundle's files: what it saves tn_load reads and the other way, bit by bit; whatever does not fit changes nothing.
#include "frontend/run/run.h"
#include "runtime/bundle/file.h"
#include "runtime/store/safetensors.h"
#include "tests/bundle_case.h"
#include "tests/rng.h"
#include <unistd.h>

static char path[] = "/tmp/tn_bundle_XXXXXX";
static RtArena *mem;
static tn_model *model;
static TnBundle bundle;

typedef struct {
  unsigned char *bytes;
  size_t n;
} Bytes;

static Bytes read_file(void) {
  Bytes b = {.bytes = malloc(1 << 20)};
  FILE *in = fopen(path, "rb");
  if (in) b.n = fread(b.bytes, 1, 1 << 20, in), fclose(in);
  CHECK(b.n > 0);
  return b;
}

static void write_file(const void *bytes, size_t n) {
  FILE *out = fopen(path, "wb");
  CHECK(out && fwrite(bytes, 1, n, out) == n && !fclose(out));
}

static void train(tn_model *m, int steps) {
  int64_t ids[4 * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1}, lengths[4] = {3, 2, 2, 1}, label[4] = {1, 0, 7, 10};
  float loss;
  for (int k = 0; k < steps; k++)
    CHECK(!tn_run(m, "train_step", TN_IN(tn_i64(ids, 4, 3), tn_i64(lengths, 4), tn_i64(label, 4)),
                  TN_OUT(tn_f32_scalar(&loss))));
}

static void init_draws_the_same(void) {
  void *state = case_state(&bundle, 3);
  CHECK(case_same(&bundle, state, model));
  free(state);
}

static void from_tn_save(void) {
  tn_model *m = tn_instance(model, 8);
  train(m, 3);
  CHECK(tn_save(m, path, true) == TN_OK);
  Bytes f = read_file();
  void *state = case_state(&bundle, 1);
  CHECK(tn_bundle_load(&bundle, state, f.bytes, f.n) == TN_BUNDLE_OK);
  CHECK(case_same(&bundle, state, m));
  free(f.bytes), free(state), tn_model_free(m);
}

static void to_tn_load(void) {
  tn_model *m = tn_instance(model, 8), *n = tn_instance(model, 9);
  train(m, 2);
  CHECK(tn_save(m, path, true) == TN_OK);
  Bytes f = read_file();
  void *state = case_state(&bundle, 1);
  CHECK(tn_bundle_load(&bundle, state, f.bytes, f.n) == TN_BUNDLE_OK);
  unsigned char *saved = malloc(bundle.file_bytes);
  size_t needed = 0;
  CHECK(tn_bundle_save(&bundle, state, saved, bundle.file_bytes, &needed) == TN_BUNDLE_OK);
  CHECK(needed == bundle.file_bytes);
  write_file(saved, needed);
  CHECK(tn_load(n, path, true) == TN_OK && case_same(&bundle, state, n));
  train(m, 2), train(n, 2);
  CHECK(tn_save(n, path, true) == TN_OK);
  Bytes again = read_file();
  CHECK(tn_bundle_load(&bundle, state, again.bytes, again.n) == TN_BUNDLE_OK && case_same(&bundle, state, m));
  free(f.bytes), free(again.bytes), free(saved), free(state), tn_model_free(m), tn_model_free(n);
}

// Weights and buffers only: the optimizer's entries and the stream stay.
static void without_state(void) {
  tn_model *m = tn_instance(model, 8);
  train(m, 1);
  CHECK(tn_save(m, path, false) == TN_OK);
  Bytes f = read_file();
  void *state = case_state(&bundle, 3), *before = case_state(&bundle, 3);
  CHECK(tn_bundle_load(&bundle, state, f.bytes, f.n) == TN_BUNDLE_OK);
  CHECK(!memcmp(state, before, sizeof(TnBundleState)));
  for (uint32_t k = 0; k < bundle.about->n_tensors; k++) {
    const TnBundleTensor *t = &bundle.about->tensors[k];
    bool is_kept = t->kind == RT_STATE || t->kind == RT_TRANSIENT;
    const void *wanted = is_kept ? (const char *)before + t->offset
                                 : (const char *)rt_instance_block(m->inst) + model->code->plan->params[k].offset;
    CHECK(!memcmp((const char *)state + t->offset, wanted, t->bytes));
  }
  free(f.bytes), free(state), free(before), tn_model_free(m);
}

// ---- other dtypes
static void file_dtypes(void) {
  tn_model *m = tn_instance(model, 8), *n = tn_instance(model, 9);
  for (tn_file_dtype d = TN_FILE_F32; d <= TN_FILE_BF16; d++) {
    CHECK(tn_save_as(m, path, &(tn_save_options){.with_state = true, .dtype = d, .aliases_as_data = d % 2}) == TN_OK);
    CHECK(tn_load(n, path, true) == TN_OK);
    Bytes f = read_file();
    void *state = case_state(&bundle, 1);
    CHECK(tn_bundle_load(&bundle, state, f.bytes, f.n) == TN_BUNDLE_OK && case_same(&bundle, state, n));
    free(f.bytes), free(state);
  }
  tn_model_free(m), tn_model_free(n);
}

static void same_value(TnFileDType of_bundle, RtStDType of_store, const void *bytes) {
  float wanted;
  uint32_t bits;
  TnFileEntry e = {.dtype = of_bundle, .data = bytes};
  rt_st_read_f32(&(RtStTensor){.dtype = (uint8_t)of_store, .n_elements = 1, .data = bytes}, &wanted);
  memcpy(&bits, &wanted, 4);
  if (tn_file_f32_bits(&e, 0) != bits) CHECK(!"the same bits"), printf("  of %016llx\n", *(const long long *)bytes);
}

static void conversions(void) {
  for (uint64_t h = 0; h < 65536; h++) {
    same_value(TN_ENTRY_F16, RT_ST_F16, &h);
    same_value(TN_ENTRY_BF16, RT_ST_BF16, &h);
  }
  Rng r = {7};
  for (int k = 0; k < 2000000; k++) {
    uint64_t d = rng_next(&r), exponent = 1023 - 160 + rng_below(&r, 320), tail = rng_below(&r, 8);
    if (k % 2) d = (d & 0x800fffffffffffff) | exponent << 52;
    if (tail < 3) d = (d & ~UINT64_C(0x1fffffff)) + ((UINT64_C(1) << 28) - 1 + tail);  // at and beside a tie
    if (tail == 3) d &= ~((UINT64_C(1) << rng_below(&r, 53)) - 1);
    if (tail == 4) d |= UINT64_C(0x7ff) << 52;
    same_value(TN_ENTRY_F64, RT_ST_F64, &d);
  }
}

// ---- files that were changed
// Of a model after a step, read back, for a test to change and write anew.
typedef struct {
  RtSt st;
  Bytes kept;
} Parsed;

static Parsed parse(void) {
  char error[400];
  tn_model *m = tn_instance(model, 8);
  train(m, 1);
  CHECK(tn_save(m, path, true) == TN_OK);
  Parsed p = {.kept = read_file()};
  CHECK(rt_st_parse(mem, p.kept.bytes, p.kept.n, &p.st, error, sizeof error));
  tn_model_free(m);
  return p;
}

static RtStTensor *tensor(Parsed *p, const char *name) { return (RtStTensor *)(uintptr_t)rt_st_find(&p->st, name); }

static RtStMeta *meta(Parsed *p, const char *key) {
  for (uint32_t k = 0; k < p->st.n_meta; k++)
    if (!strcmp(p->st.meta[k].key, key)) return &p->st.meta[k];
  CHECK(!"the key is there");
  return p->st.meta;
}

// What loading says, with everything as it was when that is no success.
static int load(const void *bytes, size_t n) {
  void *state = case_state(&bundle, 1), *before = case_state(&bundle, 1);
  unsigned char *exact = malloc(n ? n : 1);  // so that a sanitizer sees a read past the end
  if (n) memcpy(exact, bytes, n);
  int status = tn_bundle_load(&bundle, state, exact, n);
  CHECK(!memcmp(state, before, bundle.about->state_bytes) == (status != TN_BUNDLE_OK));
  free(exact), free(state), free(before);
  return status;
}

static int load_parsed(Parsed *p) {
  char error[400];
  RtStTensor *list = rt_alloc(mem, p->st.n_tensors * sizeof *list);
  RtStMeta *meta = rt_alloc(mem, p->st.n_meta * sizeof *meta);
  uint32_t n = 0, n_meta = 0;
  for (uint32_t k = 0; k < p->st.n_tensors; k++)
    if (p->st.tensors[k].name) list[n++] = p->st.tensors[k];
  for (uint32_t k = 0; k < p->st.n_meta; k++)
    if (strcmp(p->st.meta[k].key, "format")) meta[n_meta++] = p->st.meta[k];
  CHECK(rt_st_write(mem, path, list, n, meta, n_meta, NULL, error, sizeof error));
  Bytes f = read_file();
  int status = load(f.bytes, f.n);
  free(f.bytes);
  return status;
}

static int tensor_status(const char *name, int fault) {
  for (uint32_t k = 0; k < bundle.about->n_tensors; k++)
    if (!strcmp(bundle.about->tensors[k].path, name))
      return (int)bundle.tensor_status + (int)k * TN_BUNDLE_PER_TENSOR + fault;
  return -1;
}

// Parses the file, makes the change to it, and loads it.
#define EXPECT(status, change)                                                         \
  do {                                                                                 \
    Parsed p = parse();                                                                \
    change;                                                                            \
    int got = load_parsed(&p);                                                         \
    if (!CHECK(got == (status))) printf("  got: %s\n", tn_bundle_error(&bundle, got)); \
    free(p.kept.bytes);                                                                \
  } while (0)

static void wrong_tensors(void) {
  static const float other[6 * CASE_WORDS];
  int missing = TN_BUNDLE_TENSOR_MISSING, differs = TN_BUNDLE_TENSOR_DIFFERS;
  RtStTensor *t;
  EXPECT(TN_BUNDLE_OK, (void)p);
  EXPECT(tensor_status("shift", missing), tensor(&p, "shift")->name = NULL);
  EXPECT(tensor_status("shift", missing), tensor(&p, "shift")->name = "shif");
  EXPECT(tensor_status("shift", missing), tensor(&p, "shift")->name = "shift2");
  EXPECT(tensor_status("emb.weight", missing), tensor(&p, "emb.weight")->name = NULL);
  EXPECT(tensor_status("head.bias", differs), (t = tensor(&p, "head.bias"), t->rank = 2, t->dims[1] = 1));
  EXPECT(tensor_status("head.bias", differs), tensor(&p, "head.bias")->dtype = RT_ST_I32);
  EXPECT(tensor_status("emb.weight", differs), (t = tensor(&p, "emb.weight"), t->dims[0] = 6, t->dims[1] = CASE_WORDS));
  // by an alias, as data or as metadata
  EXPECT(TN_BUNDLE_OK, (tensor(&p, "emb.weight")->name = "head.weight", meta(&p, "head.weight")->key = "x"));
  EXPECT(TN_BUNDLE_OK, (tensor(&p, "emb.weight")->name = "a\"\\\n\xc3\xa4",
                        *meta(&p, "head.weight") = (RtStMeta){"emb.weight", "a\"\\\n\xc3\xa4"}));
  EXPECT(TN_BUNDLE_OK,
         (t = tensor(&p, "shift"), t->name = "unknown", *meta(&p, "head.weight") = (RtStMeta){"shift", "unknown"}));
  // two names that differ: the second takes the place of an entry that nobody asks for
  EXPECT(tensor_status("emb.weight", differs),
         (t = rt_alloc(mem, (p.st.n_tensors + 1) * sizeof *t), memcpy(t, p.st.tensors, p.st.n_tensors * sizeof *t),
          t[p.st.n_tensors] = *tensor(&p, "emb.weight"), t[p.st.n_tensors].name = "head.weight",
          t[p.st.n_tensors].data = (const unsigned char *)other, p.st.tensors = t, p.st.n_tensors++,
          meta(&p, "head.weight")->key = "x"));
  // more than is asked for
  EXPECT(TN_BUNDLE_OK,
         (t = rt_alloc(mem, (p.st.n_tensors + 1) * sizeof *t), memcpy(t, p.st.tensors, p.st.n_tensors * sizeof *t),
          t[p.st.n_tensors] = (RtStTensor){.name = "tenure.extra.x",
                                           .dtype = RT_ST_U8,
                                           .rank = 1,
                                           .dims = {5},
                                           .size = 5,
                                           .data = (const unsigned char *)other},
          p.st.tensors = t, p.st.n_tensors++));
}

static void wrong_state(void) {
  EXPECT(TN_BUNDLE_PART_STATE, tensor(&p, "optimizer.exp_avg.emb.weight")->name = NULL);
  EXPECT(tensor_status("optimizer.exp_avg.emb.weight", TN_BUNDLE_TENSOR_DIFFERS),
         tensor(&p, "optimizer.exp_avg.emb.weight")->dtype = RT_ST_I32);
  EXPECT(TN_BUNDLE_BAD_RANDOM, meta(&p, "tenure.seed")->value = "");
  EXPECT(TN_BUNDLE_BAD_RANDOM, meta(&p, "tenure.seed")->value = "-1");
  EXPECT(TN_BUNDLE_BAD_RANDOM, meta(&p, "tenure.runs")->value = "18446744073709551616");
  EXPECT(TN_BUNDLE_OK, meta(&p, "tenure.runs")->value = "18446744073709551615");
  EXPECT(TN_BUNDLE_OK, meta(&p, "tenure.seed")->key = "x");
}

// With `header` for the header, padded with blanks.
static int load_header(Bytes f, const char *header, size_t n_header) {
  uint64_t n;
  memcpy(&n, f.bytes, sizeof n);
  size_t n_data = f.n - sizeof n - n;
  n = n_header > n + 4096 ? n_header : n + 4096;
  unsigned char *b = malloc(sizeof n + n + n_data);
  memcpy(b, &n, sizeof n);
  memset(b + sizeof n, ' ', n);
  memcpy(b + sizeof n, header, n_header);
  memcpy(b + sizeof n + n, (const char *)f.bytes + f.n - n_data, n_data);
  int status = load(b, sizeof n + n + n_data);
  free(b);
  return status;
}

// Ranges of the same lengths that lie over one another and leave a hole, which is none that tn_load takes either.
static void wrong_ranges(void) {
  Parsed p = parse();
  Bytes f = p.kept;
  const char *header = (const char *)f.bytes + 8, *end = header + *(const uint64_t *)f.bytes;
  while (end[-1] != '}') end--;
  CHECK(load_header(f, header, (size_t)(end - header)) == TN_BUNDLE_OK);
  uint32_t n_moved = 0;
  for (const char *at = header; (at = strstr(at, "\"data_offsets\":[")) && at < end;) {
    long long from, to;
    at = strchr(at, '[');
    if (!CHECK(sscanf(at, "[%lld,%lld]", &from, &to) == 2)) break;
    if (from == to || to + 4 > (long long)(f.n - (size_t)(end - (const char *)f.bytes))) continue;
    const char *rest = strchr(at, ']');
    char *moved =
        rt_printf(mem, "%.*s[%lld,%lld%.*s", (int)(at - header), header, from + 4, to + 4, (int)(end - rest), rest);
    int status = load_header(f, moved, strlen(moved));
    CHECK(status == TN_BUNDLE_NO_FILE || status == TN_BUNDLE_SHORT_FILE), n_moved++;
  }
  CHECK(n_moved > 5);
  free(f.bytes);
}

// The header of the file with entries of no data before its own, by name
static int load_with(Bytes f, const char *const *names, uint32_t n) {
  const char *header = (const char *)f.bytes + 8, *end = header + *(const uint64_t *)f.bytes;
  while (end[-1] != '}') end--;
  RtText text = {.mem = mem};
  rt_text_add(&text, "{");
  for (uint32_t k = 0; k < n; k++)
    rt_text_add(&text, "\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", names[k]);
  rt_text_add(&text, "%.*s", (int)(end - header - 1), header + 1);
  return load_header(f, text.text, text.len);
}

// In time that does not grow with the square of what a stranger's file names.
static void many_names(void) {
  enum { N = 5000 };
  static char text[N][8];
  static const char *names[N];
  for (int k = 0; k < N; k++) snprintf(text[k], sizeof text[k], "n%d", k), names[k] = text[k];
  Parsed p = parse();
  Bytes f = p.kept;
  CHECK(load_with(f, names, 4000) == TN_BUNDLE_OK && load_with(f, names, N) == TN_BUNDLE_MANY_NAMES);
  free(f.bytes);
}

// Twice: however it is written, and wherever it stands among more names than the reader keeps at a time
static void names_twice(void) {
  enum { N = 70 };
  Parsed p = parse();
  Bytes f = p.kept;
  const char *names[N];
  for (uint32_t k = 0; k < N; k++) names[k] = rt_printf(mem, "n%u", k);
  CHECK(load_with(f, names, N) == TN_BUNDLE_OK);
  CHECK_HAS(tn_bundle_error(&bundle, load_with(f, (const char *[]){"x", "y", "x"}, 3)), "header twice");
  CHECK(load_with(f, (const char *[]){"ab\\n", "a\\u0062\\n"}, 2) == TN_BUNDLE_NAME_TWICE);
  CHECK(load_with(f, (const char *[]){"ab", "a\\u0062c", "a", "b", ""}, 5) == TN_BUNDLE_OK);
  CHECK(load_with(f, (const char *[]){"shift"}, 1) == TN_BUNDLE_NAME_TWICE);
  for (uint32_t k = 0; k < N; k++) {
    const char *was = names[k];
    names[k] = names[(k * 37 + 11) % N];
    CHECK(load_with(f, names, N) == (names[k] == was ? TN_BUNDLE_OK : TN_BUNDLE_NAME_TWICE));
    names[k] = was;
  }
  free(f.bytes);
}

static void wrong_bytes(void) {
  Parsed p = parse();
  Bytes f = p.kept;
  CHECK(load(NULL, 0) == TN_BUNDLE_NO_FILE && load("12345678", 7) == TN_BUNDLE_NO_FILE);
  CHECK_HAS(tn_bundle_error(&bundle, load("\2\0\0\0\0\0\0\0{}", 10)), "the file has no tensor");
  CHECK(load("\2\0\0\0\0\0\0\0{}x", 11) == TN_BUNDLE_NO_FILE && load("\2\0\0\0\0\0\0\0[]", 10) == TN_BUNDLE_NO_FILE);
  CHECK(load("\3\0\0\0\0\0\0\0{}", 10) == TN_BUNDLE_SHORT_FILE);
  CHECK(load("\0\0\0\0\0\0\0\1{}", 10) == TN_BUNDLE_NO_FILE);
  for (size_t n = 0; n < f.n; n += n < 2000 ? 1 : 97) {
    int status = load(f.bytes, n);
    CHECK(status == TN_BUNDLE_SHORT_FILE || (n < 8 && status == TN_BUNDLE_NO_FILE));
  }
  CHECK(load(f.bytes, f.n) == TN_BUNDLE_OK);
  unsigned char *longer = malloc(f.n + 1);
  memcpy(longer, f.bytes, f.n), longer[f.n] = 0;
  CHECK(load(longer, f.n + 1) == TN_BUNDLE_NO_FILE);
  free(longer), free(f.bytes);
}

// Every byte of the header changed, and any bytes of it: what comes out is a status, and what fits is taken by both.
static void mutated(void) {
  Parsed p = parse();
  Bytes f = p.kept;
  tn_model *m = tn_instance(model, 9);
  size_t n_header = f.bytes[0] + 256u * f.bytes[1] + 8;
  Rng r = {5};
  int n_ok = 0, n_both = 0;
  for (int k = 0; k < 6000; k++) {
    size_t at = rng_below(&r, (uint32_t)n_header);
    unsigned char was = f.bytes[at];
    f.bytes[at] = k % 2 ? (unsigned char)rng_next(&r) : (unsigned char)"{}[]\",:\\0129a"[rng_below(&r, 13)];
    bool is_ok = load(f.bytes, f.n) == TN_BUNDLE_OK;
    n_ok += is_ok;
    if (k % 16 == 0) {
      write_file(f.bytes, f.n);
      bool of_store = tn_load(m, path, true) == TN_OK;
      CHECK(is_ok || !of_store);
      n_both += of_store;
    }
    f.bytes[at] = was;
  }
  CHECK(n_ok > 0 && n_ok < 3000 && n_both > 0);
  free(f.bytes), tn_model_free(m);
}

// ---- calls that are wrong
static void wrong_calls(void) {
  Parsed p = parse();
  Bytes f = p.kept;
  unsigned char *state = case_state(&bundle, 1), *before = case_state(&bundle, 1), *to = malloc(bundle.file_bytes);
  size_t n = 0;
  CHECK(tn_bundle_load(&bundle, NULL, f.bytes, f.n) == TN_BUNDLE_BAD_STATE);
  CHECK(tn_bundle_load(&bundle, state + 8, f.bytes, f.n) == TN_BUNDLE_BAD_STATE);
  CHECK(tn_bundle_load(&bundle, state, NULL, f.n) == TN_BUNDLE_NO_FILE);
  CHECK(tn_bundle_load(&bundle, state, state + 64, 100) == TN_BUNDLE_FILE_OVERLAP);
  CHECK(tn_bundle_save(&bundle, state, NULL, 0, &n) == TN_BUNDLE_OK && n == bundle.file_bytes);
  CHECK(tn_bundle_save(&bundle, state, NULL, 0, NULL) == TN_BUNDLE_OK);
  CHECK(tn_bundle_save(&bundle, state, NULL, n, NULL) == TN_BUNDLE_SMALL_BUFFER);
  memset(to, 7, n);
  n = 0;
  CHECK(tn_bundle_save(&bundle, state, to, bundle.file_bytes - 1, &n) == TN_BUNDLE_SMALL_BUFFER);
  CHECK(n == bundle.file_bytes && to[0] == 7 && !memcmp(to, to + 1, n - 1));
  CHECK(tn_bundle_save(&bundle, state, state, n, NULL) == TN_BUNDLE_FILE_OVERLAP);
  CHECK(!memcmp(state, before, bundle.about->state_bytes));
  ((TnBundleState *)(void *)state)->plan ^= 1;
  CHECK(tn_bundle_load(&bundle, state, f.bytes, f.n) == TN_BUNDLE_NO_STATE);
  CHECK(tn_bundle_save(&bundle, state, to, n, NULL) == TN_BUNDLE_NO_STATE && to[0] == 7);
  free(state), free(before), free(to), free(f.bytes);
}

static void sentences(void) {
  CHECK_HAS(tn_bundle_error(&bundle, TN_BUNDLE_FILE_OVERLAP), "overlap the state");
  CHECK_HAS(tn_bundle_error(&bundle, tensor_status("shift", TN_BUNDLE_TENSOR_MISSING)), "no tensor 'shift'");
  CHECK_HAS(tn_bundle_error(&bundle, tensor_status("shift", TN_BUNDLE_TENSOR_DIFFERS)),
            "'shift' has another shape or dtype");
  CHECK_HAS(tn_bundle_error(&bundle, tensor_status("emb.weight", TN_BUNDLE_TENSOR_DIFFERS)), "another of its names");
}

int main(void) {
  unsetenv("TN_CHECK");  // bundles have no guarded arena
  int fd = mkstemp(path);
  mem = rt_arena_new();
  tn_program *p = case_program();
  model = case_compile(p);
  bundle = case_bundle(mem, model, "words");
  init_draws_the_same();
  from_tn_save();
  to_tn_load();
  without_state();
  file_dtypes();
  conversions();
  wrong_tensors();
  wrong_state();
  wrong_ranges();
  names_twice();
  many_names();
  wrong_bytes();
  mutated();
  wrong_calls();
  sentences();
  tn_model_free(model), tn_program_free(p), rt_arena_free(mem);
  close(fd), unlink(path);
  return check_report();
}
