// A program whose locale writes 0,5: files, dumps, cache keys, traces and messages are what they are in the C locale,
// and readers take a point. The locale is a file that this test writes, so that none need be installed.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"
#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "locale_XXXXXX", path[400], why[400];

static const char *in_folder(const char *name) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

// ---- the locale: numbers as in German, everything else as in C

// LC_NUMERIC as glibc reads it (locale/localeinfo.h): places of the fields, then the fields
typedef struct {
  uint32_t magic, n_fields, at[6];
  char point[2], separator[2], grouping[4];
  uint32_t wide_point, wide_separator;
  char charset[8];
} Numeric;

static bool take_comma(void) {
  const Numeric n = {.magic = 0x20031115u ^ LC_NUMERIC,
                     .n_fields = 6,
                     .at = {offsetof(Numeric, point), offsetof(Numeric, separator), offsetof(Numeric, grouping),
                            offsetof(Numeric, wide_point), offsetof(Numeric, wide_separator),
                            offsetof(Numeric, charset)},
                     .point = ",",
                     .separator = ".",
                     .grouping = {3, 3},
                     .wide_point = ',',
                     .wide_separator = '.',
                     .charset = "UTF-8"};
  mkdir(in_folder("comma"), 0700);
  FILE *f = fopen(in_folder("comma/LC_NUMERIC"), "wb");
  bool ok = f && fwrite(&n, sizeof n, 1, f) == 1;
  if (f && fclose(f)) ok = false;
  setenv("LOCPATH", folder, 1);
  return ok && setlocale(LC_NUMERIC, "comma");
}

static bool has_comma(void) {
  char text[20];
  snprintf(text, sizeof text, "%g", 0.5);
  return !strcmp(text, "0,5") && strtod("2,5", NULL) == 2.5;
}

// ---- a program with numbers in it: attributes, constants, initial values
static tn_program *build(void) {
  tn_program *p = tn_program_create("numbers");
  tn_parameter(tn_root(p), "w", TN_SHAPE(8, 8), ((tn_init){TN_INIT_UNIFORM, -0.125, 0.375}));
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(8, 8));
  tn_tensor y = tn_mul(tn_tanh(tn_matmul(x, tn_param_value(f, tn_root(p), "w"))), tn_scalar(f, 0.7));
  tn_tensor loss = tn_mean(tn_square(tn_add(tn_dropout(y, 0.25), tn_leaky_relu(y, 0.0625))));
  tn_backward(loss);
  tn_adamw(f, tn_root(p), .lr = 0.015, .weight_decay = 0.1);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return p;
}

typedef struct {
  float loss;
  bool from_cache;
  char dump[20000], table[4000];
  long n_file;
  unsigned char file[4000];
} Outcome;

static long read_into(const char *name, void *to, size_t size) {
  FILE *f = fopen(name, "rb");
  long n = f ? (long)fread(to, 1, size, f) : -1;
  if (f) fclose(f);
  return n;
}

static void dump_into(const tn_program *p, tn_dump_kind kind, char *to, size_t size) {
  FILE *out = fopen(in_folder("dump"), "wb+");
  memset(to, 0, size);
  if (!CHECK(out && tn_dump(p, out, kind) == TN_OK)) return;
  rewind(out);
  CHECK(fread(to, 1, size - 1, out) > 0);
  fclose(out);
}

static void run(Outcome *o) {
  static float x[64];
  char cache[100];
  snprintf(cache, sizeof cache, "%s/cache", folder);
  for (int k = 0; k < 64; k++) x[k] = (float)k / 64;
  tn_program *p = build();
  tn_model *m = tn_compile(p, .cache_dir = cache, .n_workers = 2);
  if (!CHECK(m != NULL)) printf("%s", report_of(p)), exit(1);
  tn_initialize(m, 3);
  for (int k = 0; k < 3; k++)
    CHECK(tn_run(m, "step", TN_IN(tn_f32(x, 8, 8)), TN_OUT(tn_f32_scalar(&o->loss))) == TN_OK);
  o->from_cache = tn_compile_info_of(m).from_cache;
  dump_into(p, TN_DUMP_IR, o->dump, sizeof o->dump);
  dump_into(p, TN_DUMP_SUMMARY, o->table, sizeof o->table);
  CHECK(tn_save(m, in_folder("weights"), true) == TN_OK && tn_load(m, in_folder("weights"), true) == TN_OK);
  o->n_file = read_into(in_folder("weights"), o->file, sizeof o->file);
  tn_model_free(m);
  tn_program_free(p);
}

static void test_same(const Outcome *c) {
  static Outcome o;
  run(&o);
  CHECK(strstr(c->dump, "0.25") && strstr(c->dump, "0.7"));  // there is something to get wrong
  CHECK(!strcmp(o.dump, c->dump) && !strcmp(o.table, c->table));
  CHECK(o.from_cache && !c->from_cache && o.loss == c->loss);
  CHECK(o.n_file > 0 && o.n_file == c->n_file && !memcmp(o.file, c->file, (size_t)o.n_file));
}

// Every event is an object of JSON: after "ts" and "dur" comes a number with a point.
static bool is_event(const char *line) {
  const char *ts = strstr(line, "\"ts\": "), *dur = strstr(line, "\"dur\": ");
  return ts && dur && strspn(ts + 6, "0123456789.") == strcspn(ts + 6, ",") &&
         !strncmp(strchr(ts, ',') + 2, "\"dur\"", 5) && strspn(dur + 7, "0123456789.") == strcspn(dur + 7, "}");
}

static void test_trace(void) {
  static Outcome o;
  char trace[100], line[1000];
  int n = 0, n_good = 0;
  snprintf(trace, sizeof trace, "%s/trace", folder);
  setenv("TN_TRACE", trace, 1);
  run(&o);
  unsetenv("TN_TRACE");
  FILE *f = fopen(trace, "rb");
  for (; CHECK(f != NULL) && fgets(line, sizeof line, f);)
    if (strstr(line, "\"ph\": \"X\"")) n++, n_good += is_event(line);
  if (f) fclose(f);
  if (!CHECK(n > 3 && n_good == n)) printf("  %d of %d events\n", n_good, n);
}

// ---- readers and messages
static void test_readers(void) {
  const char *file = in_folder("t.csv");
  FILE *f = fopen(file, "wb");
  CHECK(f && fputs("a;b\n1.5;2.5e1\n", f) >= 0 && !fclose(f));
  tn_dataset *d = tn_dataset_csv(file, &(tn_csv_options){.delimiter = ';'}, why, sizeof why);
  tn_loader *l = d ? tn_loader_new(d, NULL, why, sizeof why) : NULL;
  tn_batch b = {0};
  const float *x = l && tn_loader_next(l, &b) == TN_OK ? tn_batch_array(b, "x").data : NULL;
  CHECK(x && x[0] == 1.5f && x[1] == 25);
  tn_loader_free(l), tn_dataset_free(d);
  f = fopen(file, "wb");
  CHECK(f && fputs("a;b\n1,5;2\n", f) >= 0 && !fclose(f));
  CHECK(!tn_dataset_csv(file, &(tn_csv_options){.delimiter = ';'}, why, sizeof why));
  CHECK_HAS(why, "'1,5' is no number that fits f32");
  f = fopen(in_folder("t.ts"), "wb");
  CHECK(f && fputs("@CLASSLABEL TRUE a\n@data\n0.5,.25:a\n", f) >= 0 && !fclose(f));
  tn_series *s = tn_series_read(path, why, sizeof why);
  CHECK(s && tn_series_values(s, 0)[0] == 0.5f && tn_series_values(s, 0)[1] == 0.25f);
  tn_series_free(s);
}

static void test_messages(void) {
  tn_program *p = tn_program_create("mistake");
  tn_function *f = tn_function_begin(p, "f");
  tn_dropout(tn_input(f, "x", TN_F32, TN_SHAPE(2)), 1.5);
  CHECK_HAS(report_of(p), "a probability in [0, 1], not 1.5");
  tn_program_free(p);
}

static void clean(const char *below) {
  char name[600];
  DIR *d = opendir(below);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(name, sizeof name, "%s/%s", below, e->d_name);
    if (remove(name)) clean(name);
  }
  if (d) closedir(d);
  rmdir(below);
}

int main(void) {
  static Outcome in_c;
  if (!CHECK(mkdtemp(folder) != NULL)) return 1;
  run(&in_c);
  CHECK(take_comma() && has_comma());
  test_same(&in_c);
  test_trace();
  test_readers();
  test_messages();
  CHECK(has_comma());  // the program's locale is its own
  clean(folder);
  return check_report();
}
