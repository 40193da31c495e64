// Every public call, misused: what a beginner is told. The rows of tests/misuse/HEADER.def are calls, HEADER.txt has beside them
// what they say, to the word; HERE is the place of the row. A public function (tests/abi/*.symbols) without a row fails.
//
//   ../bin/test_misuse_calls --update      writes the texts anew, in build/release/scratch; read the diff
//
//   CASE(call, ..)     builds: what tn_report prints           MODEL(call, ..)    of a model: status and tn_error_text
//   STATUS(call, ..)   a status that no text belongs to        OPENS(call, ..)    NULL, and the sentence in `why`
//   PARSES(call, text) tn_report of a program from text        GIVES(call, ..)    a number or NULL, and nothing else
//   NEVER(call, why)   cannot be misused
#include "misuse/misuse.h"
#include "tests/check.h"
#include "tests/report.h"

#include <ctype.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>

static const tn_init zeros = {TN_INIT_ZEROS, 0, 0};
static FILE *said;
static tn_dim nine_dims[9];
static tn_tensor outs[8];
static uint32_t n_outs;  // of the row at hand; 0: it has none
static float xs[16];
static int64_t first, count, classes[4];
static tn_array labels, loss;
static tn_scan *the_scan;

// ---- values that rows name
static tn_tensor *unwritten(uint32_t n) {
  memset(outs, 0x5a, sizeof outs);
  n_outs = n;
  return outs;
}

// The first n_outs are poisoned, what lies behind them is as it was.
static bool are_poisoned(void) {
  static tn_tensor as_it_was;
  memset(&as_it_was, 0x5a, sizeof as_it_was);
  for (uint32_t k = 0; k < sizeof outs / sizeof *outs; k++)
    if (k < n_outs ? outs[k].v || outs[k].fn == as_it_was.fn : outs[k].v != as_it_was.v || outs[k].fn != as_it_was.fn)
      return printf("  %u of %u handles\n", k, n_outs), false;
  return true;
}

static tn_tensor disposed(void) {
  tn_tensor t = tn_ones(f, TN_SHAPE(2));
  tn_dispose(t);
  return t;
}

static tn_tensor ended(void) {
  tn_scope *inner = tn_scope_begin(f, "inner");
  tn_tensor t = tn_ones(f, TN_SHAPE(2));
  tn_scope_end(inner);
  return t;
}

static tn_function *ended_function(void) {
  tn_function *g = tn_function_begin(p, "ended");
  tn_output(g, "y", tn_ones(g, TN_SCALAR));
  tn_function_end(g);
  return g;
}

static tn_scan *scan(void) { return the_scan = tn_scan_begin(f, .steps = D(3)); }

#define packed_disposed() dispose_packed(sequences())
static tn_packed dispose_packed(tn_packed s) {
  tn_packed_dispose(s);
  return s;
}

#define backward() tn_backward(tn_sum(tn_call(fc, F(2, 3))))

static tn_tensor of_another_shape(tn_module *in, tn_tensor x, void *ctx) {
  (void)in, (void)x, (void)ctx;
  return tn_ones(f, TN_SHAPE(7));
}
static tn_tensor after(tn_module *in, tn_tensor x, tn_tensor y, void *ctx) {
  (void)in, (void)x, (void)ctx;
  return y;
}
static tn_tensor of_gradient(tn_tensor g, void *ctx) {
  (void)ctx;
  return g;
}
static tn_rnn_input before_rnn(tn_module *in, tn_rnn_input x, void *ctx) {
  (void)in, (void)ctx;
  return x;
}

// The program, with a function that is whole
#define small() end_function(tn_call(fc, F(N, 3)))
static tn_program *end_function(tn_tensor y) {
  tn_output(f, "y", y);
  tn_scope_end(scope);
  tn_function_end(f);
  return p;
}

// Ends f: what passes find
static void saved_is_written(void) {
  tn_tensor x = (tn_input)(f, "saved", TN_F32, TN_SHAPE(2, 3), TN_SITE), y = tn_sigmoid(tn_call(fc, x));
  tn_tensor loss_of_y = tn_sum(tn_square(y));
  tn_fill_(y, 0), tn_backward(loss_of_y), tn_sgd(f, fc), tn_scope_end(scope), tn_function_end(f);
}

static tn_dataset *rows(void) {
  static tn_dataset *d;
  if (!d) d = tn_dataset_arrays(TN_IN(tn_f32(xs, 4, 2)), NULL, WHY);
  return d;
}

static const tn_vocabulary *letters(void) {
  static tn_vocabulary *v;
  if (!v) v = tn_vocabulary_new((const uint32_t[]){'a', 'b'}, 2, false, WHY);
  return v;
}

// ---- before and behind a row
static void start(void) {
  p = tn_program_create("p"), other = tn_program_create("q");
  net = tn_root(p);
  fc = tn_linear(net, "fc", 3, 2);
  lstm = tn_lstm(net, "lstm", 2, 2);
  N = tn_dim_bounded(p, "n", 6);
  foreign = tn_function_begin(other, "run");
  f = tn_function_begin(p, "run");
  scope = tn_scope_begin(f, "open");
}

static void finish(void) {
  tn_program_free(p);
  tn_program_free(other);
}

static tn_model *make_model(void) {
  tn_program *q = tn_program_create("model");
  tn_module *l = tn_linear(tn_root(q), "fc", 3, 2);
  tn_function *step = tn_function_begin(q, "step");
  tn_dim rows_of = tn_dim_bounded(q, "batch", 4);
  tn_tensor x = tn_input(step, "x", TN_F32, TN_SHAPE(rows_of, 3));
  tn_tensor y = tn_input(step, "label", TN_I64, TN_SHAPE(rows_of));
  tn_tensor cost = tn_cross_entropy(tn_call(l, x), y);
  tn_backward(cost);
  tn_adamw(step, tn_root(q));
  tn_output(step, "loss", cost);
  tn_function_end(step);
  tn_model *made = tn_compile(q, .cache_dir = "");
  tn_program_free(q);
  return made;
}

// The place that begins a line of text: HERE is the row, THERE what stands before it
static const char *skip_place(const char *text, size_t size, const char *file, int line) {
  const char *colon = memchr(text, ':', size);
  bool in_table = colon && (size_t)(colon - text) == strlen(file) && !strncmp(text, file, strlen(file));
  bool in_test = colon && colon - text > 19 && !strncmp(colon - 19, "test_misuse_calls.c", 19);
  if (!in_table && !in_test) return text;
  char *rest;
  long at = strtol(colon + 1, &rest, 10);
  fprintf(said, in_table && at == line ? "HERE" : "THERE");
  return rest;
}

static void say(const char *text, const char *file, int line) {
  while (*text) {
    size_t size = strcspn(text, "\n");
    fputs("  ", said);
    const char *rest = skip_place(text, size, file, line);
    fprintf(said, "%.*s\n", (int)(text + size - rest), rest);
    text += size + (text[size] == '\n');
  }
}

static void say_report(const tn_program *of, const char *file, int line) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (tn_n_errors(of)) tn_report(of, out);
  if (of == p && tn_n_errors(other)) tn_report(other, out);
  fclose(out);
  if (line) CHECK(names_no_number(text));  // line 0: of a program from text
  say(*text ? text : "says nothing", file, line);
  free(text);
}

static void say_status(tn_status s, const char *why_not) {
  fprintf(said, "  %s%s%s\n", tn_status_text(s), why_not[0] ? ": " : "", why_not);
}

static void say_parse(const char *text) {
  tn_program *q = tn_program_parse(text, strlen(text), NULL);
  say_report(q, "", 0);
  tn_program_free(q);
}

// ---- the rows
typedef struct {
  const char *subject, *call, *text, *file;
  void (*run)(void);
  int line;
} Row;

#define PASTE_(a, b, c) a##b##_##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define RUN_NAME PASTE(run_, SUBJECT, __LINE__)
#define ROW(...)               \
  static void RUN_NAME(void) { \
    const int line = __LINE__; \
    last_number = __COUNTER__; \
    (void)line;                \
    __VA_ARGS__;               \
  }
#define CASE(call, ...) ROW(__VA_ARGS__; say_report(p, __FILE__, line))
#define STATUS(call, ...) ROW(say_status(__VA_ARGS__, ""))
#define MODEL(call, ...) ROW(tn_status s = __VA_ARGS__; say_status(s, tn_error_text(m)))
#define OPENS(call, ...) \
  ROW(why[0] = 0; const void *got = __VA_ARGS__; fprintf(said, "  %s: %s\n", got ? "not NULL" : "NULL", why))
#define PARSES(call, ...) ROW(say_parse(__VA_ARGS__))
#define GIVES(call, ...) ROW(fprintf(said, "  gives %lld\n", (long long)(__VA_ARGS__)))
#define NEVER(call, why) ROW(fprintf(said, "  cannot be misused: %s\n", why))
#include "misuse/subjects.def"

#undef CASE
#undef STATUS
#undef MODEL
#undef OPENS
#undef PARSES
#undef GIVES
#undef NEVER
#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define CASE(call, ...) {STRING(SUBJECT), #call, #__VA_ARGS__, __FILE__, RUN_NAME, __LINE__},
#define STATUS CASE
#define MODEL CASE
#define OPENS CASE
#define PARSES CASE
#define GIVES CASE
#define NEVER(call, why) {STRING(SUBJECT), #call, #call, __FILE__, RUN_NAME, __LINE__},
static const Row table[] = {
#include "misuse/subjects.def"
};
enum { N_ROWS = sizeof table / sizeof *table };

// ---- pointwise calls, which are written from the rows of ir/ops.def: of another dtype, or of shapes that do not fit
typedef struct {
  const char *call;
  void (*run)(void);
} Pointwise;
#define NUMBERED last_number = __COUNTER__ + 9
#define CALL1(n, ...)                                                                                          \
  static void wrong_##n(void) { NUMBERED, tn_##n(H(3) __VA_ARGS__), say_report(p, __FILE__, __LINE__); }       \
  static void wrong_in_place_##n(void) {                                                                       \
    tn_##n##_(tn_expand(tn_ones(f, TN_SHAPE(1)), TN_SHAPE(3)) __VA_ARGS__), say_report(p, __FILE__, __LINE__); \
  }
#define CALL2(n)                                                                                   \
  static void wrong_##n(void) { NUMBERED, tn_##n(F(2), F(3)), say_report(p, __FILE__, __LINE__); } \
  static void wrong_in_place_##n(void) {                                                           \
    NUMBERED, tn_##n##_(tn_ones(f, TN_SHAPE(3)), F(2, 3)), say_report(p, __FILE__, __LINE__);      \
  }
#define CALL3(n, ...) \
  static void wrong_##n(void) { NUMBERED, tn_##n(F(2), F(3), F(2) __VA_ARGS__), say_report(p, __FILE__, __LINE__); }
#define POINTWISE_ATTR(key) 0.5
#include "pointwise_list.h"
#undef CALL1
#undef CALL2
#undef CALL3
#define CALL1(n, ...) {"tn_" #n, wrong_##n}, {"tn_" #n "_", wrong_in_place_##n},
#define CALL2(n) {"tn_" #n, wrong_##n}, {"tn_" #n "_", wrong_in_place_##n},
#define CALL3(n, ...) {"tn_" #n, wrong_##n},
static const Pointwise pointwise[] = {
#include "pointwise_list.h"
};
enum { N_POINTWISE = sizeof pointwise / sizeof *pointwise };

// ---- what they say, beside what they said
static char *read_text(const char *path) {
  FILE *in = fopen(path, "r");
  char *text = calloc(1 << 18, 1);
  if (in) (void)!fread(text, 1, (1 << 18) - 1, in), fclose(in);
  return text;
}

static void print_difference(const char *path, const char *now, const char *then) {
  size_t line = 1, k = 0, start_of_line = 0;
  for (; now[k] && now[k] == then[k]; k++)
    if (now[k] == '\n') line++, start_of_line = k + 1;
  printf("%s:%zu: now\n%.*s\n  was\n%.*s\n", path, line, (int)strcspn(now + start_of_line, "\n"), now + start_of_line,
         (int)strcspn(then + start_of_line, "\n"), then + start_of_line);
}

static void compare(const char *subject, const char *now, bool update) {
  char path[128];
  snprintf(path, sizeof path, "tests/misuse/%s.txt", subject);
  if (update) {
    FILE *out = fopen(path, "w");
    CHECK(out && fputs(now, out) >= 0 && fclose(out) == 0);
    return;
  }
  char *then = read_text(path);
  if (!CHECK(strcmp(now, then) == 0)) print_difference(path, now, then);
  free(then);
}

static void run_rows(const char *subject, bool update) {
  char *now = NULL;
  size_t size = 0;
  said = open_memstream(&now, &size);
  for (int k = 0; k < N_ROWS; k++) {
    if (strcmp(table[k].subject, subject) != 0) continue;
    start();
    fprintf(said, "%s\n", table[k].text);
    n_outs = 0;
    table[k].run();
    if (n_outs && !CHECK(are_poisoned())) printf("  %s:%d leaves handles unwritten\n", table[k].file, table[k].line);
    finish();
  }
  fclose(said);
  compare(subject, now, update);
  free(now);
}

static void run_pointwise(bool update) {
  char *now = NULL;
  size_t size = 0;
  said = open_memstream(&now, &size);
  for (int k = 0; k < N_POINTWISE; k++) {
    start();
    fprintf(said, "%s\n", pointwise[k].call);
    pointwise[k].run();
    finish();
  }
  fclose(said);
  compare("pointwise", now, update);
  free(now);
}

// ---- every public function has a row
static bool has_row(const char *call) {
  for (int k = 0; k < N_ROWS; k++)
    if (!strcmp(table[k].call, call)) return true;
  for (int k = 0; k < N_POINTWISE; k++)
    if (!strcmp(pointwise[k].call, call)) return true;
  return false;
}

static int check_rows(const char *list) {
  FILE *in = fopen(list, "r");
  if (!CHECK(in)) return 0;
  int n = 0;
  for (char name[128]; fscanf(in, "%127s", name) == 1;) {
    char *version = strstr(name, "@@TENURE_0");
    if (!version) continue;
    *version = 0;
    n++;
    if (!CHECK(has_row(name))) printf("  %s of %s: no row of tests/misuse/*.def misuses it\n", name, list);
  }
  fclose(in);
  return n;
}

// ---- every function that writes handles to an array has a row with OUTS
static bool has_row_with_outs(const char *call) {
  for (int k = 0; k < N_ROWS; k++)
    if (!strcmp(table[k].call, call) && strstr(table[k].text, "OUTS(")) return true;
  return false;
}

// The name before the ( that `at`, a place in a declaration, stands behind
static void name_of_function(const char *text, const char *at, char name[64]) {
  const char *open = at;
  while (open > text && *open != '(') open--;
  const char *begin = open;
  while (begin > text && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')) begin--;
  snprintf(name, 64, "%.*s", (int)(open - begin), begin);
}

static int check_outs(const char *header) {
  char *text = read_text(header), name[64];
  int n = 0;
  for (const char *at = text; (at = strstr(at, "tn_tensor *out")); at++) {
    if (at - text > 6 && !strncmp(at - 6, "const ", 6)) continue;
    name_of_function(text, at, name);
    n++;
    if (!CHECK(has_row_with_outs(name))) printf("  %s of %s: no row of tests/misuse/*.def has OUTS\n", name, header);
  }
  free(text);
  return n;
}

static int check_all_outs(void) {
  glob_t headers;
  int n = 0;
  CHECK(glob("frontend/tenure/*.h", 0, NULL, &headers) == 0);
  for (size_t k = 0; k < headers.gl_pathc; k++) n += check_outs(headers.gl_pathv[k]);
  globfree(&headers);
  return n;
}

int main(int argc, char **argv) {
  bool update = argc > 1 && !strcmp(argv[1], "--update");
  m = make_model();
  if (!CHECK(m)) return check_report();
  labels = tn_i64(classes, 2), loss = tn_f32_scalar(xs + 15);
  for (int k = 0; k < N_ROWS; k++)
    if (!k || strcmp(table[k].subject, table[k - 1].subject) != 0) run_rows(table[k].subject, update);
  run_pointwise(update);
  CHECK(check_rows("tests/abi/libtenure.symbols") + check_rows("tests/abi/libtenure_runtime.symbols") > 700);
  CHECK(check_all_outs() >= 8);
  CHECK(!has_row("tn_no_such_call"));
  tn_dataset_free(rows()), tn_vocabulary_free((tn_vocabulary *)(uintptr_t)letters());
  tn_model_free(m);
  return check_report();
}
