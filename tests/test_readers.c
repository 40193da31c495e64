// Data files: NumPy arrays and archives, safetensors, CSV, text; values, mistakes, files that change under the reader.
// tests/make_reader_corpus.py made the files of tests/corpus.
#include "tests/models.h"
#include "tests/reader.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void write_file(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(bytes, 1, n, f) == n);
  if (f) fclose(f);
}

static void write_text(const char *path, const char *text) { write_file(path, text, strlen(text)); }

static tn_dataset *npy(const char *name, tn_dtype dtype) {
  char path[200];
  snprintf(path, sizeof path, "tests/corpus/npy/%s", name);
  return tn_dataset_npy(&(tn_column){.name = path, .dtype = dtype}, 1, why, sizeof why);
}

// ---- .npy
static void test_numbers(void) {
  static const char *const names[] = {"le_f4",    "be_f4", "le_f8", "be_f8", "le_f2", "be_f2", "version2",
                                      "version3", "le_i8", "be_i8", "le_i4", "be_i4", "le_i2", "i1",
                                      "u1",       "le_u2", "be_u4", "le_u8", "bool"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    for (int as_f32 = 0; as_f32 < 2; as_f32++) {
      tn_batch b = whole(npy(names[k], as_f32 ? TN_F32 : 0));
      tn_array a = tn_batch_array(b, names[k]);
      bool is_float = strchr(names[k], 'f') || names[k][0] == 'v';
      CHECK(a.dtype == (is_float || as_f32 ? TN_F32 : TN_I64) && a.rank == 2 && a.dims[0] == 4 && a.dims[1] == 3);
      for (int i = 0; i < 12 && a.data; i++) {
        int64_t want = strchr(names[k], 'u') || names[k][0] == 'v' ? i
                       : names[k][0] == 'b' && names[k][1] == 'o'  ? 0
                                                                   : i - 5;
        if (!strcmp(names[k], "bool")) want = i % 2 == 0;
        CHECK(a.dtype == TN_F32 ? ((float *)a.data)[i] == (float)want : ((int64_t *)a.data)[i] == want);
      }
      tn_batch_release(b);
    }
  tn_batch b = whole(npy("fortran", 0));
  tn_array a = tn_batch_array(b, "fortran");
  CHECK(a.rank == 3 && a.dims[2] == 4);
  for (int i = 0; i < 24 && a.data; i++) CHECK(((float *)a.data)[i] == (float)i);
  tn_batch_release(b);
}

static void test_npy_mistakes(void) {
  expect(npy("scalar", 0), "is a single number: its first axis would count the items");
  expect(npy("record", 0), "records are not read");
  expect(npy("truncated", 0), "the array's shape needs more bytes than the 95 that are there");
  expect(npy("huge_shape", 0), "needs more bytes");
  expect(npy("no_array", 0), "not a NumPy array");
  expect(npy("none", 0), "none: No such file or directory");
  expect(npy("le_f4", TN_I64), "holds floats, which are not read as i64");
  tn_dataset *d = npy("empty", 0);
  CHECK(d && tn_dataset_count(d) == 0 && tn_dataset_field(d, 0).dims[0] == 5);
  tn_dataset_free(d);
  CHECK(!whole(npy("large_u8", 0)).number);
  CHECK_HAS(why, "item 1: tests/corpus/npy/large_u8: the number at byte 136 does not fit i64");
  tn_batch large = whole(npy("large_u8", TN_F32));  // 1, 2^63
  tn_array l = tn_batch_array(large, "large_u8");
  CHECK(l.data && ((float *)l.data)[0] == 1 && ((float *)l.data)[1] == 0x1p63f);
  tn_batch_release(large);
  tn_column two[] = {{.name = "tests/corpus/npy/le_f4", .field = "x"}, {.name = "tests/corpus/npy/fortran"}};
  expect(tn_dataset_npy(two, 2, why, sizeof why), "E111: array 'fortran' has 2 rows and the first array has 4");
  expect(tn_dataset_npy(NULL, 1, why, sizeof why), "no files are given");
}

// ---- .npz
static void test_npz(void) {
  tn_batch b = whole(tn_dataset_npz("tests/corpus/zip/stored.npz", NULL, 0, why, sizeof why));
  tn_array x = tn_batch_array(b, "x"), y = tn_batch_array(b, "y");
  CHECK(x.rank == 2 && x.dims[1] == 3 && y.rank == 1 && y.dtype == TN_I64 && y.data);
  for (int i = 0; i < 4 && y.data; i++)
    CHECK(((int64_t *)y.data)[i] == i && ((float *)x.data)[3 * i + 2] == (float)(3 * i + 2));
  tn_batch_release(b);
  const tn_column chosen[] = {{.name = "y", .field = "label"}, {.name = "x"}};
  b = whole(tn_dataset_npz("tests/corpus/zip/deflated.npz", chosen, 2, why, sizeof why));
  x = tn_batch_array(b, "x"), y = tn_batch_array(b, "label");
  CHECK(x.rank == 2 && x.dims[1] == 150 && y.data);
  for (int i = 0; i < 600 && x.data; i++) CHECK(((float *)x.data)[i] == (float)(3 * (i / 150) + i % 3));
  tn_batch_release(b);
  static const char *const bad[][2] = {{"truncated", "has no end: not a zip file, or cut short"},
                                       {"no_zip", "has no end: not a zip file, or cut short"},
                                       {"damaged", "damaged.npz: member 'x.npy'"},
                                       {"empty", "there are no arrays"}};
  for (size_t k = 0; k < 4; k++) {
    char path[100];
    snprintf(path, sizeof path, "tests/corpus/zip/%s.npz", bad[k][0]);
    expect(tn_dataset_npz(path, NULL, 0, why, sizeof why), bad[k][1]);
  }
  const tn_column none = {.name = "z"};
  expect(tn_dataset_npz("tests/corpus/zip/stored.npz", &none, 1, why, sizeof why), "there is no array 'z'");
  const char *same = "tests/corpus/zip/same_names.npz";  // x.npy 1 2, y.npy 3, x.npy 4 5, z.npy 6, z 7
  expect(tn_dataset_npz(same, &(tn_column){.name = "x"}, 1, why, sizeof why), "two members are named 'x.npy'");
  expect(tn_dataset_npz(same, &(tn_column){.name = "x.npy"}, 1, why, sizeof why), "two members are named 'x.npy'");
  b = whole(tn_dataset_npz(same, &none, 1, why, sizeof why));  // the name itself comes first
  CHECK(tn_batch_array(b, "z").data && *(int64_t *)tn_batch_array(b, "z").data == 7);
  tn_batch_release(b);
}

// Folders belong to a name; what stands for the folder itself is no array.
static void test_npz_folders(void) {
  const char *path = "tests/corpus/zip/folders.npz";
  tn_batch b = whole(tn_dataset_npz(path, NULL, 0, why, sizeof why));
  tn_array a = tn_batch_array(b, "a/w"), w = tn_batch_array(b, "b/w"), dot = tn_batch_array(b, "b.w");
  CHECK(a.data && w.data && dot.data && ((float *)a.data)[4] == 4 && ((float *)w.data)[4] == 5);
  CHECK(dot.dtype == TN_I64 && ((int64_t *)dot.data)[3] == 3);
  tn_batch_release(b);
  b = whole(tn_dataset_npz(path, &(tn_column){.name = "b/w"}, 1, why, sizeof why));
  w = tn_batch_array(b, "b/w");
  CHECK(w.data && ((float *)w.data)[0] == 1);
  tn_batch_release(b);
}

// Who opens an archive says how much of it may be unpacked: x of 2528 bytes and y of 160.
static void test_npz_limit(void) {
  const char *path = "tests/corpus/zip/deflated.npz";
  const tn_column y = {.name = "y"};
  expect(tn_dataset_npz_with(path, &(tn_npz_options){.max_unpacked = 2687}, why, sizeof why),
         "deflated.npz: member 'y.npy' of 160 bytes makes 2688 bytes unpacked in memory, the limit is 2687");
  expect(tn_dataset_npz_with(path, &(tn_npz_options){.max_unpacked = 2000}, why, sizeof why), "member 'x.npy' of 2528");
  const tn_npz_options enough[] = {{.max_unpacked = 2688}, {.columns = &y, .n_columns = 1, .max_unpacked = 160}, {0}};
  for (int k = 0; k < 3; k++) {
    tn_dataset *d = tn_dataset_npz_with(path, &enough[k], why, sizeof why);
    CHECK(d && tn_dataset_count(d) == 4 && tn_dataset_fields(d) == (k == 1 ? 1 : 2));
    tn_dataset_free(d);
  }
  tn_dataset *d = tn_dataset_npz_with(path, NULL, why, sizeof why);
  CHECK(d != NULL);
  tn_dataset_free(d);
  d = tn_dataset_npz_with("tests/corpus/zip/stored.npz", &(tn_npz_options){.max_unpacked = 1}, why, sizeof why);
  CHECK(d != NULL);  // nothing is unpacked
  tn_dataset_free(d);
  expect(tn_dataset_npz_with(NULL, NULL, why, sizeof why), "no path is given");
}

// Rows of nothing: a small file may claim any number of them, unless an array beside them bears it out.
static size_t npy_header(char out[128], const char *dict) {
  memcpy(out, "\x93NUMPY\1\0\x76\0", 10);
  snprintf(out + 10, 118, "%s", dict);
  memset(out + 10 + strlen(dict), ' ', 118 - strlen(dict));
  return 128;
}

static void test_rows_of_nothing(void) {
  char file[256];
  size_t n = npy_header(file, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 0), }");
  write_file("nothing.npy", file, n);
  tn_column columns[] = {{.name = "nothing.npy"}, {.name = "tests/corpus/npy/le_f4"}};
  expect(tn_dataset_npy(columns, 1, why, sizeof why), "array 'nothing' has 1000000000 rows without a single number");
  expect(tn_dataset_npy(columns, 2, why, sizeof why), "has 4 rows and the first array has 1000000000");
  npy_header(file, "{'descr': '<f4', 'fortran_order': True, 'shape': (4, 0, 3), }");
  write_file("nothing.npy", file, n);
  tn_batch b = whole(tn_dataset_npy(columns, 2, why, sizeof why));
  CHECK(tn_batch_array(b, "nothing").rank == 3 && tn_batch_array(b, "le_f4").data);
  tn_batch_release(b);
  const char *header = "{\"x\":{\"dtype\":\"U8\",\"shape\":[2147483648,0],\"data_offsets\":[0,0]}}";
  memset(file, 0, 8), file[0] = (char)strlen(header), memcpy(file + 8, header, strlen(header));
  write_file("nothing.safetensors", file, 8 + strlen(header));
  expect(tn_dataset_safetensors("nothing.safetensors", NULL, 0, why, sizeof why),
         "array 'x' has 2147483648 rows without a single number");
  remove("nothing.npy"), remove("nothing.safetensors");
}

// ---- series: missing values become a field of the batch
static void test_series(void) {
  write_text("readers.ts", "\xef\xbb\xbf@missing true\n@classLabel true a b\n@data\n1,?,3:b\n4:a\n");
  CHECK(!tn_series_read("readers.ts", why, sizeof why));
  CHECK_HAS(why,
            "readers.ts:4: dimension 1, step 2: expected a number, found '?': missing values are read by an option");
  tn_series *s = tn_series_read_with("readers.ts", &(tn_series_options){TN_MISSING_MASK}, why, sizeof why);
  CHECK(s && tn_series_mask(s, 0)[1] == 0 && tn_series_mask(s, 1)[0] == 1 && !tn_series_mask(s, 2));
  tn_batch b = whole(tn_dataset_series(s, why, sizeof why));
  const float *x = tn_batch_array(b, "x").data, *mask = tn_batch_array(b, "mask").data;
  const float want[] = {1, 0, 3, 4, 0, 0}, there[] = {1, 0, 1, 1, 0, 0};
  CHECK(x && mask && !memcmp(x, want, sizeof want) && !memcmp(mask, there, sizeof there));
  const int64_t *lengths = tn_batch_array(b, "mask.lengths").data;
  CHECK(lengths && lengths[0] == 3 && lengths[1] == 1 && ((int64_t *)tn_batch_array(b, "label").data)[0] == 1);
  tn_batch_release(b), tn_series_free(s);
  s = tn_series_read_with("readers.ts", &(tn_series_options){TN_MISSING_NAN}, why, sizeof why);
  CHECK(s && isnan(tn_series_values(s, 0)[1]) && !tn_series_mask(s, 0));
  tn_series_free(s);
  CHECK(!tn_series_read_with("readers.ts", &(tn_series_options){(tn_missing)3}, why, sizeof why));
  CHECK_HAS(why, "what missing values become is unknown");
  write_text("readers.ts", "@targetLabel true\n@data\n1,2:0.5\n4:-2e1\n");
  s = tn_series_read("readers.ts", why, sizeof why);
  CHECK(s && tn_series_classes(s) == 0 && tn_series_target(s, 1) == -20 && tn_series_target(s, 2) == 0);
  b = whole(tn_dataset_series(s, why, sizeof why));
  const float *target = tn_batch_array(b, "target").data;
  CHECK(target && target[0] == 0.5f && target[1] == -20 && tn_batch_array(b, "target").dtype == TN_F32);
  tn_batch_release(b), tn_series_free(s);
  CHECK(!tn_series_mask(NULL, 0) && tn_series_target(NULL, 0) == 0);
  remove("readers.ts");
}

// ---- safetensors: what tn_save wrote
static void test_safetensors(void) {
  tn_program *p = tn_program_create("weights");
  tn_module *fc = tn_linear(tn_root(p), "fc", 3, 4);
  tn_function *f = tn_function_begin(p, "predict");
  tn_output(f, "y", tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(1, 3))));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  const char *path = "readers.safetensors";
  float w[12], bias[4] = {1, 2, 3, 4};
  for (int k = 0; k < 12; k++) w[k] = (float)k / 4;
  CHECK(tn_set(m, "fc.weight", w, 12) == TN_OK && tn_set(m, "fc.bias", bias, 4) == TN_OK);
  for (int dtype = TN_FILE_F32; dtype <= TN_FILE_BF16; dtype++) {
    CHECK(tn_save_as(m, path, &(tn_save_options){.dtype = (tn_file_dtype)dtype}) == TN_OK);
    tn_batch b = whole(tn_dataset_safetensors(path, NULL, 0, why, sizeof why));
    tn_array x = tn_batch_array(b, "fc.weight"), y = tn_batch_array(b, "fc.bias");
    CHECK(x.data && y.data && !memcmp(x.data, w, sizeof w) && !memcmp(y.data, bias, sizeof bias));
    tn_batch_release(b);
  }
  expect(tn_dataset_safetensors(path, &(tn_column){.name = "no"}, 1, why, sizeof why), "there is no array 'no'");
  write_text(path, "nothing");
  expect(tn_dataset_safetensors(path, NULL, 0, why, sizeof why), "the file ends inside the 8 bytes");
  write_file(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  expect(tn_dataset_safetensors(path, NULL, 0, why, sizeof why), "a header of 18446744073709551615 bytes does not fit");
  remove(path);
  tn_model_free(m);
  tn_program_free(p);
}

// A header and zeros behind it
static void write_tensors(const char *path, const char *header, size_t n) {
  char file[600] = {[0] = (char)(strlen(header) & 255), [1] = (char)(strlen(header) >> 8)};
  CHECK(8 + strlen(header) + n <= sizeof file);
  memcpy(file + 8, header, strlen(header));
  write_file(path, file, 8 + strlen(header) + n);
}

// Tensors of dtypes that nothing reads are refused where they are asked for, by name, and nowhere else.
static void test_unread_dtypes(void) {
  static const struct {
    const char *dtype, *shape;
    int bytes;
  } kinds[] = {{"F8_E4M3", "4", 4}, {"F8_E5M2", "2,2", 4}, {"F4", "8", 4},
               {"C64", "1", 8},     {"F6_E2M3", "4", 3},   {"F8_E8M0", "0", 0}};
  const char *path = "unread.safetensors";
  char header[500], sentence[200];
  tn_program *p = tn_program_create("unread");
  tn_parameter(tn_root(p), "w", TN_SHAPE(2), (tn_init){TN_INIT_CONSTANT, 1, 0});
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "y", tn_param_value(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  if (!m) return;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    snprintf(
        header, sizeof header,
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"other\":{\"dtype\":\"%s\",\"shape\":[%s],"
        "\"data_offsets\":[8,%d]}}",
        kinds[k].dtype, kinds[k].shape, 8 + kinds[k].bytes);
    write_tensors(path, header, 8 + (size_t)kinds[k].bytes);
    tn_load_report r;
    if (!CHECK(tn_load_partial(m, path, false, &r) == TN_OK && r.n_loaded == 1 && r.n_extra == 1))
      puts(tn_error_text(m));
    tn_batch b = whole(tn_dataset_safetensors(path, &(tn_column){.name = "w"}, 1, why, sizeof why));
    CHECK(tn_batch_size(b) == 2);
    tn_batch_release(b);
    snprintf(sentence, sizeof sentence, "array 'other' has dtype %s, which is not read", kinds[k].dtype);
    expect(tn_dataset_safetensors(path, NULL, 0, why, sizeof why), sentence);
    expect(tn_dataset_safetensors(path, &(tn_column){.name = "other"}, 1, why, sizeof why), sentence);
    snprintf(header, sizeof header, "{\"w\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[0,%d]}}", kinds[k].dtype,
             kinds[k].shape, kinds[k].bytes);
    write_tensors(path, header, (size_t)kinds[k].bytes);
    snprintf(sentence, sizeof sentence, "'w' has dtype %s, expected F32, F64, F16 or BF16", kinds[k].dtype);
    CHECK(tn_load(m, path, true) != TN_OK);
    CHECK_HAS(tn_error_text(m), sentence);
  }
  write_tensors(path, "{\"w\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1);
  expect(tn_dataset_safetensors(path, NULL, 0, why, sizeof why),
         "tensor \"w\" of dtype F4 has 12 bits, no whole bytes");
  static const struct {
    const char *bytes, *what;
  } others[] = {{"PK\3\4\24\0\0\10\10\0", "a zip archive, as torch.save writes them (.pt, .pth)"},
                {"\x80\2\x8a\nl\xfc\x9c"
                 "F\xf9 ",
                 "a pickle, as torch.save wrote them"},
                {"a,b,c\n1,2,3\n", "text, as CSV and JSON are"},
                {"\x93NUMPY\1\0v\0", "a NumPy array"}};
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
    write_file(path, others[k].bytes, 10);
    CHECK(tn_load(m, path, true) == TN_ERR_FILE);
    CHECK_HAS(tn_error_text(m), "unread.safetensors: ");
    CHECK_HAS(tn_error_text(m), "no safetensors file but ");
    CHECK_HAS(tn_error_text(m), others[k].what);
  }
  remove(path);
  tn_model_free(m), tn_program_free(p);
}

// Unsigned numbers of every width, above the largest signed one too; what is too large for i64 is told.
static void test_unsigned(void) {
  static const struct {
    const char *dtype;
    size_t bytes;
    float want;
  } kinds[] = {{"U8", 1, 255}, {"U16", 2, 65535}, {"U32", 4, 0x1p32f}, {"U64", 8, 0x1p64f}};
  const char *path = "unsigned.safetensors";
  for (size_t k = 0; k < 4; k++) {
    char file[200] = {0};
    size_t n = kinds[k].bytes;
    int length = snprintf(file + 8, 180, "{\"x\":{\"dtype\":\"%s\",\"shape\":[2],\"data_offsets\":[0,%zu]}}",
                          kinds[k].dtype, 2 * n);
    file[0] = (char)length;
    file[8 + length] = 7;  // 7, then all ones
    memset(file + 8 + length + (int)n, 0xff, n);
    write_file(path, file, 8 + (size_t)length + 2 * n);
    tn_batch b = whole(tn_dataset_safetensors(path, &(tn_column){.name = "x", .dtype = TN_F32}, 1, why, sizeof why));
    tn_array x = tn_batch_array(b, "x");
    CHECK(x.data && ((float *)x.data)[0] == 7 && ((float *)x.data)[1] == kinds[k].want);
    tn_batch_release(b);
    b = whole(tn_dataset_safetensors(path, NULL, 0, why, sizeof why));
    x = tn_batch_array(b, "x");
    if (n == 8) CHECK_HAS(why, "item 1: unsigned.safetensors: the number at byte");
    else CHECK(x.data && x.dtype == TN_I64 && ((int64_t *)x.data)[1] == (INT64_C(1) << 8 * n) - 1);
    tn_batch_release(b);
  }
  remove(path);
}

// ---- files that change under the reader
static void test_shrinking(void) {
  static float rows[1000][16];
  char header[128] = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 16), }";
  const char *path = "shrinks.npy";
  memset(header + 10 + strlen(header + 10), ' ', sizeof header - 10 - strlen(header + 10));
  header[127] = '\n';
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(header, 1, 128, f) == 128 && fwrite(rows, 1, sizeof rows, f) == sizeof rows && !fclose(f));
  for (uint32_t workers = 0; workers < 3; workers++) {
    CHECK(truncate(path, 128 + (off_t)sizeof rows) == 0);
    tn_dataset *d = tn_dataset_npy(&(tn_column){.name = path}, 1, why, sizeof why);
    CHECK(d && tn_dataset_count(d) == 1000);
    tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = 100, .workers = workers}, why, sizeof why);
    tn_batch b;
    CHECK(tn_loader_next(l, &b) == TN_OK && tn_batch_size(b) == 100);
    CHECK(truncate(path, 128 + 650 * 64) == 0);
    tn_status s = TN_OK;
    int good = 1;
    while ((s = tn_loader_next(l, &b)) == TN_OK && b.number) good++;
    CHECK(s == TN_ERR_VALUE && good == 6);
    CHECK_HAS(tn_loader_error(l), "batch 6, item 650: shrinks.npy: 64 bytes are needed at byte 41728");
    tn_loader_free(l), tn_dataset_free(d);
  }
  remove(path);
}

// From here on the process may take so much more address space than it has.
static void tighten(struct rlimit *before, rlim_t more) {
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  CHECK(f && fscanf(f, "%ld", &pages) == 1 && !fclose(f));
  getrlimit(RLIMIT_AS, before);
  struct rlimit tight = *before;
  tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
  CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
}

// 8 GiB of a file without content, in a process that may take 1 GiB more than it has: nothing is mapped or read at
// once.
static void test_larger_than_memory(void) {
  enum { ROWS = 1 << 21, WIDTH = 1024 };
  char header[128] = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2097152, 1024), }";
  const char *path = "large.npy";
  size_t n = 10 + strlen(header + 10);
  memset(header + n, ' ', sizeof header - n);
  FILE *f = fopen(path, "wb");
  float mark = 7;
  CHECK(f && fwrite(header, 1, 128, f) == 128 && !fseeko(f, 128 + (off_t)(ROWS - 1) * WIDTH * 4, SEEK_SET));
  CHECK(fwrite(&mark, 4, 1, f) == 1 && !fclose(f) && !truncate(path, 128 + (off_t)ROWS * WIDTH * 4));
  struct rlimit before;
  tighten(&before, 1 << 30);
  tn_dataset *d = tn_dataset_npy(&(tn_column){.name = path}, 1, why, sizeof why);
  const size_t order[] = {0, 1, 1048576, ROWS - 1};
  tn_loader_options o = {.batch_size = 4, .workers = 1, .sampler = {.kind = TN_CUSTOM, .custom = order, .n_custom = 4}};
  tn_loader *l = d ? tn_loader_new(d, &o, why, sizeof why) : NULL;
  tn_batch b = {0};
  CHECK(l && tn_loader_next(l, &b) == TN_OK && b.number);
  const float *x = tn_batch_array(b, "large").data;
  CHECK(x && x[0] == 0 && x[2 * WIDTH] == 0 && x[3 * WIDTH] == 7 && x[3 * WIDTH + 1] == 0);
  tn_loader_free(l), tn_dataset_free(d);
  setrlimit(RLIMIT_AS, &before);
  remove(path);
}

// The same for safetensors and for text of bytes: 3 GiB without content, a mark at the end, 1 GiB to take.
static tn_loader *last_of(tn_dataset *d) {
  static size_t order[2];
  order[1] = tn_dataset_count(d) - 1;
  tn_loader_options o = {.batch_size = 2, .workers = 1, .sampler = {.kind = TN_CUSTOM, .custom = order, .n_custom = 2}};
  tn_loader *l = d ? tn_loader_new(d, &o, why, sizeof why) : NULL;
  tn_dataset_free(d);
  return l;
}

static void test_other_large_files(void) {
  enum { ROWS = 3 << 18, WIDTH = 1024, WINDOW = 16 };
  const off_t bytes = (off_t)ROWS * WIDTH * 4;
  const char *head = "{\"x\":{\"dtype\":\"F32\",\"shape\":[786432,1024],\"data_offsets\":[0,3221225472]}}";
  const uint64_t head_size = strlen(head);
  const float mark = 7;
  FILE *f = fopen("large.safetensors", "wb");
  CHECK(f && fwrite(&head_size, 8, 1, f) == 1 && fputs(head, f) >= 0 && !fseeko(f, bytes - 4, SEEK_CUR));
  CHECK(fwrite(&mark, 4, 1, f) == 1 && !fclose(f) && (f = fopen("large.txt", "wb")));
  CHECK(!fseeko(f, bytes - 1, SEEK_SET) && fputc('a', f) == 'a' && !fclose(f));
  const uint32_t symbols[] = {0, 'a'};
  tn_vocabulary *v = tn_vocabulary_new(symbols, 2, false, why, sizeof why);
  struct rlimit before;
  tighten(&before, 1 << 30);
  tn_loader *l = last_of(tn_dataset_safetensors("large.safetensors", NULL, 0, why, sizeof why));
  tn_batch b = {0};
  if (!CHECK(l && tn_loader_next(l, &b) == TN_OK && b.number)) printf("%s\n", why);
  const float *x = tn_batch_array(b, "x").data;
  CHECK(x && x[0] == 0 && x[WIDTH] == 0 && x[2 * WIDTH - 1] == 7);
  tn_loader_free(l);
  l = last_of(tn_dataset_text("large.txt", v, WINDOW, 1, why, sizeof why));
  if (!CHECK(l && tn_loader_next(l, &b) == TN_OK && b.number)) printf("%s\n", why);
  const int64_t *y = tn_batch_array(b, "y").data;
  CHECK(y && y[0] == 0 && y[2 * WINDOW - 2] == 0 && y[2 * WINDOW - 1] == 1);
  tn_loader_free(l);
  setrlimit(RLIMIT_AS, &before);
  tn_vocabulary_free(v);
  remove("large.safetensors"), remove("large.txt");
}

// A stored member of an archive: 3 GiB likewise.
static void put_u(unsigned char *at, uint32_t v, int n) {
  for (int k = 0; k < n; k++) at[k] = (unsigned char)(v >> (8 * k));
}

static void test_large_npz(void) {
  enum { ROWS = 3 << 18, WIDTH = 1024, HEADER = 128 };
  const uint32_t bytes = HEADER + (uint32_t)ROWS * WIDTH * 4, where = 30 + 5 + bytes;  // of the directory
  char header[HEADER] = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (786432, 1024), }";
  memset(header + 10 + strlen(header + 10), ' ', HEADER - 10 - strlen(header + 10));
  unsigned char local[30] = "PK\3\4", entry[46] = "PK\1\2", end[22] = "PK\5\6";
  put_u(local + 18, bytes, 4), put_u(local + 22, bytes, 4), put_u(local + 26, 5, 2);
  put_u(entry + 20, bytes, 4), put_u(entry + 24, bytes, 4), put_u(entry + 28, 5, 2);
  put_u(end + 8, 1, 2), put_u(end + 10, 1, 2), put_u(end + 12, 46 + 5, 4), put_u(end + 16, where, 4);
  const float mark = 7;
  FILE *f = fopen("large.npz", "wb");
  CHECK(f && fwrite(local, 30, 1, f) && fputs("x.npy", f) >= 0 && fwrite(header, HEADER, 1, f));
  CHECK(!fseeko(f, (off_t)where - 4, SEEK_SET) && fwrite(&mark, 4, 1, f) && fwrite(entry, 46, 1, f));
  CHECK(fputs("x.npy", f) >= 0 && fwrite(end, 22, 1, f) && !fclose(f));
  struct rlimit before;
  tighten(&before, 1 << 30);
  tn_loader *l = last_of(tn_dataset_npz("large.npz", NULL, 0, why, sizeof why));
  tn_batch b = {0};
  if (!CHECK(l && tn_loader_next(l, &b) == TN_OK && b.number)) printf("%s\n", why);
  const float *x = tn_batch_array(b, "x").data;
  CHECK(x && x[0] == 0 && x[WIDTH] == 0 && x[2 * WIDTH - 1] == 7);
  tn_loader_free(l);
  setrlimit(RLIMIT_AS, &before);
  remove("large.npz");
}

// ---- CSV
// 96 lines of 1 MiB, nearly all of it in a column that is not used, in 64 MiB.
static void test_csv_larger_than_memory(void) {
  enum { LINES = 96, LINE = 1 << 20 };
  static char rest[LINE];
  memset(rest, '.', sizeof rest);
  FILE *f = fopen("wide.csv", "wb");
  CHECK(f && fputs("n,rest\n", f) >= 0);
  for (int k = 0; k < LINES; k++)
    CHECK(fprintf(f, "%d,", k) > 0 && fwrite(rest, 1, LINE, f) == LINE && fputc('\n', f) > 0);
  CHECK(!fclose(f));
  const char *column = "n";
  tn_csv_field field = {.name = "n", .columns = &column, .n_columns = 1};
  struct rlimit before;
  tighten(&before, 64 << 20);
  tn_loader *l =
      last_of(tn_dataset_csv("wide.csv", &(tn_csv_options){.fields = &field, .n_fields = 1}, why, sizeof why));
  tn_batch b = {0};
  if (!CHECK(l && tn_loader_next(l, &b) == TN_OK && b.number)) printf("%s\n", why);
  const float *n = tn_batch_array(b, "n").data;
  CHECK(n && n[0] == 0 && n[1] == LINES - 1);
  tn_loader_free(l);
  setrlimit(RLIMIT_AS, &before);
  remove("wide.csv");
}

static tn_dataset *csv(const char *text, const tn_csv_options *o) {
  write_text("readers.csv", text);
  return tn_dataset_csv("readers.csv", o, why, sizeof why);
}

static void test_csv(void) {
  tn_batch b =
      whole(
          csv("\xef\xbb\xbfx,\"y, \"\"z\"\"\",kind\r\n1,2.5e1,small\r\n\"-3\", 4 ,\"b\nig\"\r\n\r\n5,6,small",
              &(tn_csv_options){
                  .fields =
                      (const tn_csv_field[]){
                          {.name = "v", .columns = (const char *const[]){"y, \"z\"", "x", "x"}, .n_columns = 3},
                          {.name = "k",
                           .columns = (const char *const[]){"kind"},
                           .n_columns = 1,
                           .is_scalar = true,
                           .classes = (const char *const[]){"b\nig", "small"},
                           .n_classes = 2},
                          {.name = "i", .dtype = TN_I64, .columns = (const char *const[]){"x"}, .n_columns = 1}},
                  .n_fields = 3}));
  tn_array v = tn_batch_array(b, "v"), k = tn_batch_array(b, "k"), i = tn_batch_array(b, "i");
  const float want[] = {25, 1, 1, 4, -3, -3, 6, 5, 5};
  const int64_t kinds[] = {1, 0, 1}, whole_numbers[] = {1, -3, 5};
  CHECK(v.rank == 2 && v.dims[0] == 3 && v.dims[1] == 3 && v.data && !memcmp(v.data, want, sizeof want));
  CHECK(k.rank == 1 && k.dtype == TN_I64 && k.data && !memcmp(k.data, kinds, sizeof kinds));
  CHECK(i.rank == 2 && i.dims[1] == 1 && i.data && !memcmp(i.data, whole_numbers, sizeof whole_numbers));
  tn_batch_release(b);
  b = whole(
      csv("1;;?\n4;5;6\n",
          &(tn_csv_options){.delimiter = ';', .no_header = true, .allow_missing = true, .missing = "?", .fill = NAN}));
  v = tn_batch_array(b, "x");
  CHECK(v.rank == 2 && v.dims[0] == 2 && v.dims[1] == 3);
  const float *f = v.data;
  CHECK(f && f[0] == 1 && isnan(f[1]) && isnan(f[2]) && f[3] == 4 && f[5] == 6);
  tn_batch_release(b);
  tn_dataset *d = csv("a,b\n", NULL);
  CHECK(d && tn_dataset_count(d) == 0 && tn_dataset_field(d, 0).dims[0] == 2);
  tn_dataset_free(d);
}

// A column of every dtype, and what each does not hold.
static void test_csv_dtypes(void) {
  enum { N = 3 };
  static const struct {
    tn_dtype t;
    const char *cells[N], *wrong, *sentence;
    uint64_t want[N];
    size_t bytes;
  } cases[] = {
      {TN_I32,
       {"-2147483648", " 7 ", "2147483647"},
       "2147483648",
       "'2147483648' is no whole number that fits i32",
       {0x80000000, 7, 0x7fffffff},
       4},
      {TN_I64,
       {"-1", "0", "9223372036854775807"},
       "9223372036854775808",
       "'9223372036854775808' is no whole number that fits i64",
       {UINT64_MAX, 0, INT64_MAX},
       8},
      {TN_U8, {"0", "255", "+1"}, "256", "'256' is no whole number that fits u8", {0, 255, 1}, 1},
      {TN_U8, {"0", "255", "1"}, "1.5", "'1.5' is no whole number that fits u8", {0, 255, 1}, 1},
      {TN_BOOL, {"0", "True", "false"}, "2", "'2' is no truth value: 0, 1, false or true are bool", {0, 1, 0}, 1},
      {TN_F16, {"1", "65504", "0.3"}, "70000", "'70000' is no number that fits f16", {0x3c00, 0x7bff, 0x34cd}, 2},
      {TN_BF16, {"1", "-2", "0.3"}, "3.4e38x", "'3.4e38x' is no number that fits bf16", {0x3f80, 0xc000, 0x3e9a}, 2},
  };
  const char *column = "a";
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    tn_csv_field field = {.name = "v", .dtype = cases[k].t, .columns = &column, .n_columns = 1, .is_scalar = true};
    tn_csv_options o = {.fields = &field, .n_fields = 1};
    char text[120];
    snprintf(text, sizeof text, "a\n%s\n%s\n%s\n", cases[k].cells[0], cases[k].cells[1], cases[k].cells[2]);
    tn_batch b = whole(csv(text, &o));
    tn_array v = tn_batch_array(b, "v");
    CHECK(v.dtype == cases[k].t && v.rank == 1 && v.dims[0] == N);
    for (size_t i = 0; v.data && i < N; i++)
      CHECK(!memcmp((const char *)v.data + i * cases[k].bytes, &cases[k].want[i], cases[k].bytes));
    tn_batch_release(b);
    snprintf(text, sizeof text, "a\n%s\n%s\n", cases[k].cells[0], cases[k].wrong);
    expect(csv(text, &o), "readers.csv:3: column 1 (a): ");
    expect(csv(text, &o), cases[k].sentence);
  }
  tn_csv_field field = {.name = "v", .dtype = TN_U8, .columns = &column, .n_columns = 1};
  tn_csv_options o = {.fields = &field, .n_fields = 1, .allow_missing = true, .fill = 256};
  field.missing_as = "256";
  expect(csv("a\n1\n", &o), "`missing_as` of field 'v': '256' is no whole number that fits u8");
  field.dtype = TN_F16, field.missing_as = NULL, o.fill = 1e5;
  expect(csv("a\n1\n", &o), "what fills missing numbers, 100000, does not fit f16");
  field.dtype = TN_I32, field.missing_as = "nan";
  expect(csv("a\n1\n", &o), "`missing_as` of field 'v': 'nan' is no whole number that fits i32");
  field.missing_as = NULL;
  field.dtype = TN_BOOL, o.fill = 0, field.classes = (const char *const[]){"x", "y", "z"}, field.n_classes = 3;
  expect(csv("a\nx\n", &o), "field 'v' has 3 classes, whose numbers bool does not hold");
  field.dtype = (tn_dtype)99, field.n_classes = 0;
  expect(csv("a\n1\n", &o), "field 'v' has no known dtype");
}

// bf16 holds all numbers to 256, then 258, but not 257.
static void test_csv_classes_of_bf16(void) {
  enum { MOST = 259 };
  static char names[MOST][8];
  static const char *classes[MOST], *column = "a";
  for (int k = 0; k < MOST; k++) snprintf(names[k], sizeof names[k], "c%d", k), classes[k] = names[k];
  tn_csv_field field = {.name = "v",
                        .dtype = TN_BF16,
                        .columns = &column,
                        .n_columns = 1,
                        .is_scalar = true,
                        .classes = classes,
                        .n_classes = 257};
  tn_csv_options o = {.fields = &field, .n_fields = 1};
  tn_batch b = whole(csv("a\nc256\n", &o));
  tn_array v = tn_batch_array(b, "v");
  CHECK(v.data && *(const uint16_t *)v.data == 0x4380);
  tn_batch_release(b);
  field.n_classes = 258;
  expect(csv("a\nc256\n", &o), "field 'v' has 258 classes, whose numbers bf16 does not hold");
  field.n_classes = 259;
  expect(csv("a\nc256\n", &o), "field 'v' has 259 classes, whose numbers bf16 does not hold");
}

// By name a column must be the only one of its name; without names all are taken where they stand.
static void test_csv_same_names(void) {
  const float want[] = {1, 2, 3, 4, 5, 6};
  tn_batch b = whole(csv("a,a,b\n1,2,3\n4,5,6\n", NULL));
  tn_array x = tn_batch_array(b, "x");
  CHECK(x.data && x.dims[1] == 3 && !memcmp(x.data, want, sizeof want));
  tn_batch_release(b);
  const char *column = "b";
  tn_csv_field field = {.name = "n", .columns = &column, .n_columns = 1};
  tn_csv_options o = {.fields = &field, .n_fields = 1};
  b = whole(csv("a,a,b\n1,2,3\n4,5,6\n", &o));
  x = tn_batch_array(b, "n");
  CHECK(x.data && ((float *)x.data)[0] == 3 && ((float *)x.data)[1] == 6);
  tn_batch_release(b);
  column = "a";
  expect(csv("a,b,a\n1,2,3\n", &o), "readers.csv:1: columns 1 and 3 are both named 'a': none can be chosen by it");
  expect(csv("\n\na,b,\"a\"\n1,2,3\n", &o), "readers.csv:3: columns 1 and 3 are both named 'a'");
  field.classes = (const char *const[]){"x", "y", "x"}, field.n_classes = 3;
  expect(csv("a\nx\n", &o), "classes 0 and 2 of field 'n' are both 'x'");
  tn_csv_field both[] = {{.name = "n", .columns = &column, .n_columns = 1},  // blanks belong to a class
                         {.name = "k", .columns = &column, .n_columns = 1, .is_scalar = true}};
  both[1].classes = (const char *const[]){"1", " 1 "}, both[1].n_classes = 2;
  b = whole(csv("a\n 1 \n", &(tn_csv_options){.fields = both, .n_fields = 2}));
  x = tn_batch_array(b, "k");
  CHECK(x.data && *(int64_t *)x.data == 1);
  tn_batch_release(b);
}

// A byte 0 is no text wherever it stands, and never the end of a cell.
static void test_zero_bytes(void) {
#define CSV_OF(bytes) \
  (write_file("readers.csv", bytes, sizeof bytes - 1), tn_dataset_csv("readers.csv", &o, why, sizeof why))
  const char *column = "b";
  tn_csv_field field = {.name = "n", .columns = &column, .n_columns = 1};
  tn_csv_options o = {0};
  expect(CSV_OF("a,b\n1\0zz,2\n"), "readers.csv:2: column 1 (a): a byte 0, which is no text");
  expect(CSV_OF("a,b\n\"1\n\0\",2\n"), "readers.csv:2: column 1 (a): a byte 0, which is no text");
  expect(CSV_OF("a,b\n1,2\n\0\n"), "readers.csv:3: column 1 (a): a byte 0");
  expect(CSV_OF("a,b\0c\n1,2\n"), "readers.csv:1: column 2: a byte 0");
  o = (tn_csv_options){.fields = &field, .n_fields = 1};
  expect(CSV_OF("a,b\n1\0,2\n"), "readers.csv:2: column 1 (a): a byte 0");  // of a column that is not used
  field.classes = (const char *const[]){"x"}, field.n_classes = 1;
  expect(CSV_OF("a,b\n1,x\0y\n"), "readers.csv:2: column 2 (b): a byte 0");
#undef CSV_OF
#define TS_OF(bytes) (write_file("readers.ts", bytes, sizeof bytes - 1), tn_series_read("readers.ts", why, sizeof why))
  CHECK(!TS_OF("@classLabel true a b\n@data\n1,2\0:a\n"));
  CHECK_HAS(why, "readers.ts:3: column 4: a byte 0, which is no text");
  CHECK(!TS_OF("@classLabel true a b\0c\n@data\n1,2:b\n"));
  CHECK_HAS(why, "readers.ts:1: column 21: a byte 0");
  CHECK(!TS_OF("# a\0\n@classLabel true a b\n@data\n1,2:a\n"));
  CHECK_HAS(why, "readers.ts:1: column 4: a byte 0");
#undef TS_OF
  remove("readers.ts");
}

// What strtod takes and what is no decimal number.
static void test_number_forms(void) {
  static const char *const good[] = {"1", "+1", "1.", "1.e0", "01", "1e0", "1E+00", "10e-1", ".1e1", " 1\t", "0.1e1"};
  static const char *const bad[] = {"1e",  "1e+",   ".",     "+",      "-",   "+-1",  "1 2",      "1f",
                                    "0x1", "0x1p0", "1p0",   "inf",    "nan", "-inf", "NaN",      "1.1.1",
                                    "1_0", "1'0",   "1e1.0", "\u00bd", "1-",  "e1",   "infinity", "nan(1)"};
  char text[40];
  for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
    snprintf(text, sizeof text, "a\n%s\n", good[k]);
    tn_batch b = whole(csv(text, NULL));
    tn_array x = tn_batch_array(b, "x");
    if (!CHECK(x.data && *(float *)x.data == 1)) printf("  %s\n", good[k]);
    tn_batch_release(b);
  }
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    snprintf(text, sizeof text, "a\n%s\n", bad[k]);
    expect(csv(text, NULL), "is no number that fits f32");
  }
  static const char *const whole_ones[] = {"9223372036854775807", "-9223372036854775808", "+0", "-0", "007"};
  static const int64_t want[] = {INT64_MAX, INT64_MIN, 0, 0, 7};
  const char *column = "a";
  tn_csv_field field = {.name = "n", .dtype = TN_I64, .columns = &column, .n_columns = 1};
  for (size_t k = 0; k < 5; k++) {
    snprintf(text, sizeof text, "a\n%s\n", whole_ones[k]);
    tn_batch b = whole(csv(text, &(tn_csv_options){.fields = &field, .n_fields = 1}));
    tn_array x = tn_batch_array(b, "n");
    CHECK(x.data && *(int64_t *)x.data == want[k]);
    tn_batch_release(b);
  }
}

static void test_csv_mistakes(void) {
  expect(csv("a,b\n1,2\n3,x4\n", NULL), "readers.csv:3: column 2 (b): 'x4' is no number that fits f32");
  expect(csv("a,b\n1,\n", NULL), "readers.csv:2: column 2 (b): the value is missing");
  expect(csv("a,b\n1,2\n1\n", NULL), "readers.csv:3: column 1 (a): 2 columns are expected, the line ends here");
  expect(csv("a,b\n1,2,3\n", NULL), "readers.csv:2: column 2 (b): 2 columns are expected, the line has more");
  expect(csv("a,b\n\"1\n\n\",2\n3,1e99\n", NULL), "readers.csv:2: column 1 (a): '1\n\n' is no number");
  expect(csv("a\n1e99\n", NULL), "readers.csv:2: column 1 (a): '1e99' is no number that fits f32");
  expect(csv("a\n1\"2\n", NULL), "readers.csv:2: column 1 (a): a quote inside a cell without quotes");
  expect(csv("a\n\"1\n2\n", NULL), "readers.csv:2: column 1 (a): a quoted cell that does not end");
  expect(csv("a\n\"1\"2\n", NULL), "readers.csv:2: column 1 (a): text behind the closing quote");
  expect(csv("", NULL), "readers.csv: the file has no lines");
  expect(csv("a\n0x10\n", NULL), "'0x10' is no number");
  const char *column = "a";
  tn_csv_field field = {.name = "n", .dtype = TN_I64, .columns = &column, .n_columns = 1}, whole_field = field;
  tn_csv_options o = {.fields = &field, .n_fields = 1};
  expect(csv("a\n99999999999999999999\n", &o), "'99999999999999999999' is no whole number that fits i64");
  expect(csv("a\n1.5\n", &o), "'1.5' is no whole number that fits i64");
  expect(csv("b\n1\n", &o), "readers.csv:1: there is no column 'a'");
  field.classes = (const char *const[]){"x", "y"}, field.n_classes = 2;
  expect(csv("a\nx\nz\n", &o), "readers.csv:3: column 1 (a): 'z' is none of the 2 classes");
  field.missing_as = "z";
  expect(csv("a\nx\n", &o), "`missing_as` of field 'n': 'z' is none of the 2 classes");
  expect(csv("a\n\n", &(tn_csv_options){.allow_missing = true, .fill = 1e39}),
         "missing numbers, 1e+39, does not fit f32");
  expect(csv("a\n9223372036854775808\n", &(tn_csv_options){.fields = &whole_field, .n_fields = 1}),
         "'9223372036854775808' is no whole number that fits i64");
  expect(csv("a\n1\n", &(tn_csv_options){.delimiter = '"'}), "the delimiter is a quote or line end");
}

// A missing class or whole number is what its field says, or an error: 0 would be a class like any other.
static void test_csv_missing(void) {
  const char *const x[] = {"x"}, *const color[] = {"color"}, *const label[] = {"label"}, *const age[] = {"age"};
  const char *const colors[] = {"red", "blue", "none"}, *const open_colors[] = {"red", "blue", ""};
  const char *const labels[] = {"low", "high"};
  enum { X, COLOR, LABEL, AGE };
  tn_csv_field f[] = {
      [X] = {.name = "x", .columns = x, .n_columns = 1, .is_scalar = true},
      [COLOR] =
          {.name = "color", .columns = color, .n_columns = 1, .is_scalar = true, .classes = colors, .n_classes = 3},
      [LABEL] =
          {.name = "label", .columns = label, .n_columns = 1, .is_scalar = true, .classes = labels, .n_classes = 2},
      [AGE] = {.name = "age", .dtype = TN_I32, .columns = age, .n_columns = 1, .is_scalar = true}};
  tn_csv_options o = {.fields = f, .n_fields = 4, .allow_missing = true, .missing = "NA", .fill = 7};
  const char *text = "x,color,label,age\n,,high,NA\n1,NA,low,3\n";
  expect(csv(text, &o),
         "readers.csv:2: column 2 (color): the value is missing; `missing_as` of field 'color' says which class");
  f[COLOR].missing_as = "none";
  expect(csv(text, &o),
         "readers.csv:2: column 4 (age): the value is missing; `missing_as` of field 'age' says which number");
  f[AGE].missing_as = "-1";
  for (int listed = 0; listed < 2; listed++) {  // the empty cell is a class of its own then, "NA" is not
    f[COLOR].classes = listed ? open_colors : colors;
    f[COLOR].missing_as = listed ? "blue" : "none";
    tn_batch b = whole(csv(text, &o));
    const float *xs = tn_batch_array(b, "x").data;
    const int64_t *c = tn_batch_array(b, "color").data, *l = tn_batch_array(b, "label").data;
    const int32_t *a = tn_batch_array(b, "age").data;
    CHECK(xs && xs[0] == 7 && xs[1] == 1);
    CHECK(c && c[0] == 2 && c[1] == (listed ? 1 : 2) && l && l[0] == 1 && l[1] == 0 && a && a[0] == -1 && a[1] == 3);
    tn_batch_release(b);
  }
  expect(csv("x,color,label,age\n1,red,,3\n", &o),
         "readers.csv:2: column 3 (label): the value is missing; `missing_as`");
  f[X].missing_as = "nan", o.allow_missing = false;
  tn_batch b = whole(csv("x,color,label,age\n,red,low,3\n", &o));
  const float *xs = tn_batch_array(b, "x").data;
  CHECK(xs && isnan(xs[0]));
  tn_batch_release(b);
  f[X].missing_as = NULL;
  expect(csv("x,color,label,age\n,red,low,3\n", &o),
         "the value is missing; `allow_missing` fills it, `missing_as` of field 'x'");
}

// LF, CR LF and CR alone, in one file too, and in quotes; a chunk of the reader's ends between CR and LF.
static void test_csv_line_ends(void) {
  static const char *const texts[] = {"a,b\n1,2\n3,4\n", "a,b\r1,2\r3,4\r",     "a,b\r\n1,2\r\n3,4\r\n",
                                      "a,b\r1,2\n3,4",   "a,b\r\r1,2\r\n\r3,4", "\357\273\277a,b\r1,2\r3,4"};
  for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
    tn_batch b = whole(csv(texts[k], NULL));
    const float *x = tn_batch_array(b, "x").data;
    CHECK(tn_batch_size(b) == 2 && x && x[0] == 1 && x[1] == 2 && x[2] == 3 && x[3] == 4);
    tn_batch_release(b);
  }
  expect(csv("a,b\r1,2\r3,x\r", NULL), "readers.csv:3: column 2 (b): 'x' is no number");
  expect(csv("a,b\n1,2\r3\n", NULL), "readers.csv:3: column 1 (a): 2 columns are expected, the line ends here");
  expect(csv("a\r\"1\r\n2\r3\"\r4\r", NULL), "readers.csv:2: column 1 (a): '1\r\n2\r3' is no number");
  expect(csv("a\r\"1\"\r\"2\r\n\r\"\rx\r",
             &(tn_csv_options){.fields = &(tn_csv_field){.name = "a",
                                                         .columns = (const char *const[]){"a"},
                                                         .n_columns = 1,
                                                         .classes = (const char *const[]){"1", "2\r\n\r"},
                                                         .n_classes = 2},
                               .n_fields = 1}),
         "readers.csv:6: column 1 (a): 'x' is none of the 2 classes");
  for (int cut = -2; cut <= 2; cut++) {
    char *text = malloc((1 << 16) + 64);
    int n = (1 << 16) + cut - 3;
    memset(text, ' ', (size_t)n);
    memcpy(text, "a\n1", 3);
    strcpy(text + n, "\r\n2\r3");
    tn_batch b = whole(csv(text, NULL));
    const float *x = tn_batch_array(b, "x").data;
    CHECK(tn_batch_size(b) == 3 && x && x[0] == 1 && x[1] == 2 && x[2] == 3);
    tn_batch_release(b);
    free(text);
  }
}

// Many chunks, records over their borders; the file is cut behind the reader's back.
static void test_large_csv(void) {
  enum { ROWS = 30000 };
  FILE *f = fopen("large.csv", "wb");
  for (int k = 0; f && k < ROWS; k++) fprintf(f, "%d,\"%d\",%s\n", k, -k, k % 7 ? "" : "7");
  CHECK(f && !fclose(f));
  tn_dataset *d = tn_dataset_csv("large.csv", &(tn_csv_options){.no_header = true, .allow_missing = true, .fill = 1},
                                 why, sizeof why);
  CHECK(d && tn_dataset_count(d) == ROWS);
  tn_loader *l = tn_loader_new(
      d, &(tn_loader_options){.batch_size = 1000, .workers = 2, .seed = 1, .sampler = {.kind = TN_SHUFFLED}}, why,
      sizeof why);
  tn_batch b;
  size_t n_wrong = 0, n = 0;
  while (tn_loader_next(l, &b) == TN_OK && b.number)
    for (size_t k = 0; k < tn_batch_size(b); k++, n++) {
      const float *x = (float *)tn_batch_array(b, "x").data + 3 * k, i = (float)tn_batch_index(b)[k];
      n_wrong += x[0] != i || x[1] != -i || x[2] != (tn_batch_index(b)[k] % 7 ? 1 : 7);
    }
  CHECK(n == ROWS && n_wrong == 0);
  CHECK(truncate("large.csv", 100) == 0 && tn_loader_next(l, &b) == TN_ERR_VALUE);
  CHECK_HAS(tn_loader_error(l), "it was cut short");
  tn_loader_free(l), tn_dataset_free(d);
  remove("large.csv"), remove("readers.csv");
}

// ---- text
static void test_text(void) {
  const char *text = "gr\xc3\xbc\xc3\x9f"
                     "e \xe2\x86\x92 \xf0\x9f\x98\x80 gr";
  write_text("readers.txt", text);
  tn_vocabulary *v = tn_vocabulary_read("readers.txt", true, why, sizeof why);
  CHECK(tn_vocabulary_size(v) == 8 && tn_vocabulary_symbols(v)[7] == 0x1f600 && tn_vocabulary_id(v, 'x') == -1);
  char bytes[4];
  CHECK(tn_vocabulary_bytes(v, 7, bytes) == 4 && !memcmp(bytes, "\xf0\x9f\x98\x80", 4));
  CHECK(tn_vocabulary_bytes(v, 8, bytes) == 0 && tn_vocabulary_bytes(v, -1, bytes) == 0);
  tn_dataset *d = tn_dataset_text("readers.txt", v, 4, 3, why, sizeof why);  // 12 symbols: from 0, 3, 6
  CHECK(tn_dataset_count(d) == 3);
  tn_batch b = whole(d);
  const int64_t *x = tn_batch_array(b, "x").data, *y = tn_batch_array(b, "y").data;
  int64_t ids[12];
  CHECK(tn_vocabulary_encode(v, text, strlen(text), ids, 12, why, sizeof why) == 12);
  for (int k = 0; k < 3 && x; k++)
    CHECK(!memcmp(x + 4 * k, ids + 3 * k, 32) && !memcmp(y + 4 * k, ids + 3 * k + 1, 32));
  tn_batch_release(b);
  CHECK(tn_vocabulary_encode(v, "grx", 3, ids, 12, why, sizeof why) == SIZE_MAX);
  CHECK_HAS(why, "byte 2: symbol 120 is not in the vocabulary");
  write_text("readers.txt", "grx\xff");
  expect(tn_dataset_text("readers.txt", v, 2, 0, why, sizeof why), "readers.txt: byte 3: not UTF-8");
  write_text("readers.txt", "grxgr");
  CHECK(!whole(tn_dataset_text("readers.txt", v, 2, 0, why, sizeof why)).number);
  CHECK_HAS(why, "item 0: readers.txt: byte 2: symbol 120 is not in the vocabulary");
  CHECK(!tn_dataset_text("readers.txt", v, 0, 1, why, sizeof why) &&
        !tn_dataset_text("readers.txt", NULL, 1, 1, NULL, 0));
  tn_vocabulary_free(v);
  CHECK(!tn_vocabulary_new((const uint32_t[]){5, 9, 5}, 3, false, why, sizeof why));
  CHECK_HAS(why, "symbol 5 stands in the vocabulary twice");
  CHECK(!tn_vocabulary_new((const uint32_t[]){256}, 1, false, why, sizeof why));
  v = tn_vocabulary_new((const uint32_t[]){'c', 'a', 'b'}, 3, false, why, sizeof why);
  write_text("readers.txt", "abc");
  for (int64_t window = 1; window < 5; window++) {
    d = tn_dataset_text("readers.txt", v, window, 1, why, sizeof why);
    CHECK(tn_dataset_count(d) == (size_t)(window < 3 ? 3 - window : 0));
    tn_dataset_free(d);
  }
  tn_vocabulary_free(v);
}

// A byte order mark stands in front of the text and is none of it; in bytes it is three of them.
static void test_text_mark(void) {
  write_text("readers.txt", "\xef\xbb\xbf"
                            "abca");
  tn_vocabulary *v = tn_vocabulary_read("readers.txt", true, why, sizeof why);
  CHECK(tn_vocabulary_size(v) == 3 && tn_vocabulary_symbols(v)[0] == 'a');
  tn_batch b = whole(tn_dataset_text("readers.txt", v, 3, 0, why, sizeof why));
  const int64_t *x = tn_batch_array(b, "x").data, *y = tn_batch_array(b, "y").data;
  CHECK(x && y && x[0] == 0 && x[1] == 1 && x[2] == 2 && y[2] == 0);
  tn_batch_release(b), tn_vocabulary_free(v);
  write_text("readers.txt", "\xef\xbb\xbf"
                            "a\xff");
  CHECK(!tn_vocabulary_read("readers.txt", true, why, sizeof why));
  CHECK_HAS(why, "readers.txt: byte 4: not UTF-8");
  v = tn_vocabulary_read("readers.txt", false, why, sizeof why);
  CHECK(tn_vocabulary_size(v) == 5);
  tn_vocabulary_free(v), remove("readers.txt");
}

// Symbols of two bytes: every read crosses borders of blocks and chunks somewhere.
static void test_long_text(void) {
  enum { SYMBOLS = 100000 };
  FILE *f = fopen("readers.txt", "wb");
  for (int k = 0; f && k < SYMBOLS; k++) {
    int c = 0xe0 + k * 7 % 23;
    fputc(0xc0 | c >> 6, f), fputc(0x80 | (c & 0x3f), f);
    if (k == 40000) fputc('.', f);
  }
  CHECK(f && !fclose(f));
  tn_vocabulary *v = tn_vocabulary_read("readers.txt", true, why, sizeof why);
  CHECK(tn_vocabulary_size(v) == 24);
  tn_batch b = whole(tn_dataset_text("readers.txt", v, 1111, 777, why, sizeof why));
  tn_array x = tn_batch_array(b, "x"), y = tn_batch_array(b, "y");
  CHECK(x.dims[0] == (SYMBOLS + 1 - 1112) / 777 + 1);
  size_t n_wrong = 0;
  for (int64_t i = 0; i < x.dims[0] * 1111; i++) {
    int64_t at = i / 1111 * 777 + i % 1111;
    for (int64_t next = 0; next < 2; next++) {
      int64_t k = at + next, id = ((int64_t *)(next ? y : x).data)[i];
      n_wrong += id != (k == 40001 ? 0 : 1 + (k - (k > 40001)) * 7 % 23);
    }
  }
  CHECK(n_wrong == 0);
  tn_batch_release(b);
  tn_vocabulary_free(v);
  remove("readers.txt");
}

int main(void) {
  test_numbers();
  test_npy_mistakes();
  test_npz();
  test_npz_limit();
  test_npz_folders();
  test_rows_of_nothing();
  test_series();
  test_safetensors();
  test_unsigned();
  test_unread_dtypes();
  test_shrinking();
  test_larger_than_memory();
  test_other_large_files();
  test_large_npz();
  test_csv_larger_than_memory();
  test_csv();
  test_csv_dtypes();
  test_csv_classes_of_bf16();
  test_csv_same_names();
  test_zero_bytes();
  test_number_forms();
  test_csv_mistakes();
  test_csv_missing();
  test_csv_line_ends();
  test_large_csv();
  test_text();
  test_text_mark();
  test_long_text();
  return check_report();
}
