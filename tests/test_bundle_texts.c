// Texts beside a bundle's object: the header compiles as C99, C11 and C++17 without a warning and says where everything
// lies; the JSON is one; the selftest passes on what it was made from, and fails on what is changed.
#include "frontend/bundle/texts.h"
#include "frontend/graph/program.h"
#include "frontend/run/run.h"
#include "tests/bundle_case.h"
#include "tests/json.h"
#include <dlfcn.h>
#include <unistd.h>

static char folder[] = "/tmp/tn_texts_XXXXXX";
static RtArena *mem;

// ---- files and compilers
static const char *path_of(const char *file) { return rt_printf(mem, "%s/%s", folder, file); }

static void write_text(const char *file, const RtText *t) {
  FILE *out = fopen(path_of(file), "w");
  CHECK(out && fwrite(t->text, 1, t->len, out) == t->len && !fclose(out));
}

static bool runs(const char *command) { return system(command) == 0; }

static bool has(const char *program) {
  bool is_there = runs(rt_printf(mem, "command -v %s >/dev/null", program));
  static bool said[2];
  bool *once = &said[*program == 'p'];
  if (!is_there && !*once) printf("skipped: there is no %s\n", program), *once = true;
  return is_there;
}

static void compiles(const char *compiler, const char *standard, const char *file) {
  const char *command = rt_printf(mem, "cd %s && %s -std=%s -Wall -Wextra -Wpedantic -Werror -fsyntax-only %s 2>&1",
                                  folder, compiler, standard, file);
  if (has(compiler) && !CHECK(runs(command))) printf("%s\n", command);
}

// ---- one bundle
typedef struct {
  tn_program *p;
  tn_model *m;
  TnBundle b;
  FeBundleText t;
  FeBundleExpected expected;
  const char *name;
} Case;

static const char *header_name(const Case *c) { return rt_printf(mem, "%s.h", c->name); }

static Case open_case(tn_program *p, const char *name) {
  Case c = {.p = p, .m = case_compile(p), .name = name};
  c.b = case_bundle(mem, c.m, name);
  return c;
}

// The selftest's numbers are of an instance of their own.
static void write_texts(Case *c, bool has_workers) {
  tn_model *m = tn_instance(c->m, FE_SELFTEST_SEED), *disturbed = tn_instance(c->m, FE_SELFTEST_SEED);
  RtText header = {.mem = mem}, json = {.mem = mem}, selftest = {.mem = mem};
  c->t = (FeBundleText){
      .b = &c->b, .plan = c->m->code->plan, .ir = c->p->ir, .has_workers = has_workers, .expected = &c->expected};
  c->expected = fe_bundle_expect(mem, &c->t, fe_bundle_model(mem, m->inst), fe_bundle_model(mem, disturbed->inst));
  fe_bundle_header(&c->t, &header);
  fe_bundle_json(&c->t, &json);
  fe_bundle_selftest(&c->t, &selftest);
  write_text(header_name(c), &header);
  write_text(rt_printf(mem, "%s.json", c->name), &json);
  write_text(rt_printf(mem, "%s_selftest.c", c->name), &selftest);
  tn_model_free(m), tn_model_free(disturbed);
}

// Every field lies where the tables say, by a static assertion.
static void write_offsets(const Case *c) {
  RtText t = {.mem = mem};
  rt_text_add(&t,
              "#include \"%s.h\"\n#ifdef __cplusplus\n#define CHECK_THAT static_assert\n#else\n"
              "#define CHECK_THAT _Static_assert\n#endif\n",
              c->name);
  for (uint32_t k = 0; k < c->b.about->n_tensors; k++) {
    const TnBundleTensor *q = &c->b.about->tensors[k];
    if (!q->bytes) continue;
    rt_text_add(&t, "CHECK_THAT(offsetof(%s_state, %s) == %zu, \"\");\n", c->name, q->field, q->offset);
    rt_text_add(&t, "CHECK_THAT(sizeof(((%s_state *)0)->%s) == %zu, \"\");\n", c->name, q->field, q->bytes);
  }
  for (uint32_t a = 0; a < c->b.n_aliases; a++)
    rt_text_add(&t, "CHECK_THAT(offsetof(%s_state, %s) == %zu, \"\");\n", c->name,
                fe_bundle_names(mem, &c->t).aliases[a], c->b.about->tensors[c->b.alias_of[a]].offset);
  rt_text_add(
      &t,
      "CHECK_THAT(sizeof(%1$s_info) == %2$zu && sizeof(%1$s_function) == %3$zu && sizeof(%1$s_tensor) == %4$zu, "
      "\"\");\n",
      c->name, sizeof(TnBundleAbout), sizeof(TnBundleFunction), sizeof(TnBundleTensor));
  rt_text_add(&t, "int unused_here;\n");
  write_text("offsets.c", &t);
}

static void headers_compile(const Case *c) {
  write_offsets(c);
  RtText t = {.mem = mem};
  rt_text_add(&t, "#include \"%1$s.h\"\n#include \"%1$s.h\"\nint unused_here;\n", c->name);
  write_text("user.cpp", &t);
  RtText after_others = {.mem = mem};  // of which come macros
  rt_text_add(
      &after_others,
      "#include <complex.h>\n#include <errno.h>\n#include <math.h>\n#include <stdbool.h>\n#include <stdio.h>\n%s",
      t.text);
  write_text("user.c", &after_others);
  compiles("cc", "c99", "user.c");
  compiles("cc", "c11", "user.c");
  compiles("c++", "c++17", "user.cpp");
  compiles("cc", "c11", "offsets.c");
  compiles("c++", "c++17", "-xc++ offsets.c");
  if (!runs("command -v clang-19 >/dev/null")) return;
  compiles("clang-19", "c99", "user.c");
  compiles("clang-19", "c11", "offsets.c");
  compiles("clang-19", "c++17", "-xc++ user.c");
}

static void json_is_valid(const Case *c) {
  RtText t = {.mem = mem};
  FILE *f = fopen(rt_printf(mem, "%s/%s.json", folder, c->name), "r");
  for (int byte; CHECK(f) && (byte = getc(f)) != EOF;) rt_text_add(&t, "%c", byte);
  if (f) fclose(f);
  const JsonValue *j = json_parse(t.text ? t.text : "");
  const JsonValue *tensors = json_member(j, "tensors"), *functions = json_member(j, "functions");
  CHECK(tensors && tensors->n == c->b.about->n_tensors);
  CHECK(functions && functions->n == c->b.about->n_functions);
  const JsonValue *status = json_element(json_member(j, "statuses"), 0);
  CHECK(status && json_is_true(status));
}

// ---- the selftest, over the support code in this process: a library whose functions of the header call back here
static const TnBundle *running;
static int call_back(int listed, void *state, void *arena, size_t bytes, const void *in, const void *out) {
  const RtPlan *p = running->about->plans[0];
  return tn_bundle_call(running, cg_bundle_function(p, (uint32_t)listed), (uint32_t)listed, state, arena, bytes, in,
                        out);
}
static int init_back(void *state, void *arena, size_t bytes, uint64_t seed) {
  return tn_bundle_init(running, state, arena, bytes, seed);
}
static const char *error_back(int status) { return tn_bundle_error(running, status); }

static void put_glue_of(const Case *c, uint32_t k, const FeBundleNames *n, RtText *t) {
  const TnBundleFunction *f = &c->b.about->functions[k];
  const char *fn = n->functions[k].name, *is_const = fe_bundle_function(&c->t, k)->only_reads ? "const " : "";
  rt_text_add(t, "int %s_%s(%s%s_state *s, void *a, size_t n", c->name, fn, is_const, c->name);
  if (f->n_inputs) rt_text_add(t, ", const %s_%s_in *in", c->name, fn);
  if (f->n_outputs) rt_text_add(t, ", const %s_%s_out *out", c->name, fn);
  rt_text_add(t, ") { return call(%u, (void *)(uintptr_t)s, a, n, %s, %s); }\n", k, f->n_inputs ? "in" : "0",
              f->n_outputs ? "out" : "0");
}

static void write_glue(const Case *c) {
  RtText t = {.mem = mem};
  FeBundleNames n = fe_bundle_names(mem, &c->t);
  bool has_arena = cg_bundle_init_arena(&c->b) > 0;
  rt_text_add(&t,
              "#include \"%s.h\"\nint (*call)(int, void *, void *, size_t, const void *, const void *);\n"
              "int (*init)(void *, void *, size_t, uint64_t);\nconst char *(*say)(int);\n",
              c->name);
  for (uint32_t k = 0; k < c->b.about->n_functions; k++) put_glue_of(c, k, &n, &t);
  rt_text_add(&t,
              "int %1$s_init(%1$s_state *s, %2$suint64_t seed) { return init(s, %3$s, seed); }\n"
              "int %1$s_cpu(void) { return 0; }\nconst char *%1$s_error(int status) { return say(status); }\n",
              c->name, has_arena ? "void *a, size_t n, " : "", has_arena ? "a, n" : "0, 0");
  write_text("glue.c", &t);
}

// Status of the selftest's main; 99: it could not be built
static int run_selftest(const Case *c) {
  static int n;
  const char *library = rt_printf(mem, "%s/selftest%d.so", folder, n++);
  write_glue(c);
  compiles("cc", "c99", rt_printf(mem, "%s_selftest.c", c->name));
  if (!runs(rt_printf(mem, "cd %s && cc -shared -fPIC -O1 -o %s glue.c %s_selftest.c", folder, library, c->name)))
    return 99;
  void *so = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!so) return printf("%s\n", dlerror()), 99;
  *(void **)dlsym(so, "call") = (void *)call_back;
  *(void **)dlsym(so, "init") = (void *)init_back;
  *(void **)dlsym(so, "say") = (void *)error_back;
  running = &c->b;
  int (*run)(void);
  *(void **)&run = dlsym(so, "main");
  fflush(stdout);
  int status = run();
  fflush(stdout);
  dlclose(so);
  return status;
}

static void selftest_passes(Case *c) {
  if (!has("cc")) return;
  CHECK(run_selftest(c) == 0);
  FeBundleSum *changed = NULL;
  for (uint32_t r = 0; r < c->expected.n_runs && !changed; r++)
    if (c->b.about->functions[c->expected.runs[r].function].n_outputs)
      changed = (FeBundleSum *)(uintptr_t)c->expected.runs[r].outputs;
  if (!changed) return;
  RtText once = {.mem = mem}, twice = {.mem = mem};
  changed->checksum ^= 1;
  fe_bundle_selftest(&c->t, &once);
  write_text(rt_printf(mem, "%s_selftest.c", c->name), &once);
  CHECK(run_selftest(c) == 0);  // other bits, the same value
  changed->sum += 1 + 2 * changed->tolerance;
  fe_bundle_selftest(&c->t, &twice);
  write_text(rt_printf(mem, "%s_selftest.c", c->name), &twice);
  CHECK(run_selftest(c) == 1);
}

static void close_case(Case *c) { tn_model_free(c->m), tn_program_free(c->p); }

static void all_of(Case *c, bool has_workers) {
  write_texts(c, has_workers);
  headers_compile(c);
  json_is_valid(c);
  selftest_passes(c);
}

// ---- programs
// Every function is called, with labels of another dtype and by columns of an input, too.
static void casts(void) {
  static const char text[] = "program @casts\n"
                             "dim n <= 9\n"
                             "func @f(%x: f32[n,3], %label: u8[n], %table: f32[2,3], %pair: f16[n,2]) {\n"
                             "%l = cast %label {dtype=i64}\n%c, %e = cross_entropy_rows %x, %l\n"
                             "%s = slice %pair {axis=1, start=1, count=1}\n%i = cast %s {dtype=i64}\n"
                             "%j = reshape %i {shape=[n]}\n%y = embedding %table, %j\n"
                             "output %c {name=\"loss\", index=0}\noutput %y {name=\"y\", index=1}\n}\n";
  Case c = open_case(tn_program_parse(text, strlen(text), "casts.tir"), "casts");
  all_of(&c, false);
  CHECK(c.expected.n_runs == 2 && !c.expected.refused[0]);
  const char *said = rt_printf(mem, "grep -q 'passed: 2 calls of f.n' %s", path_of("casts_selftest.c"));
  CHECK(runs(said));
  close_case(&c);
}

static void words(void) {
  Case c = open_case(case_program(), "words");
  all_of(&c, false);
  CHECK(c.expected.n_runs == 5);
  const char *text = rt_printf(mem,
                               "grep -q 'lengths;.*length 1 .. time$' %s && "
                               "grep -q 'WORDS_ALIAS_head_weight emb_weight' %s && "
                               "grep -q 'int words_predict(const words_state' %s",
                               path_of("words.h"), path_of("words.h"), path_of("words.h"));
  CHECK(runs(text));
  all_of(&c, true);
  close_case(&c);
}

// Names that C, C++ or the header keep for themselves, and names that become one.
static void hostile_names(void) {
  tn_program *p = tn_program_create("names");
  tn_dim B = tn_dim_bounded(p, "class", 4), C = tn_dim_bounded(p, "Class", 4);
  tn_module *root = tn_root(p);
  tn_init ones = {TN_INIT_CONSTANT, 1, 0};
  static const char *const names[] = {"int",  "plan",     "seed",     "reserved", "padding", "padding_3",    "a_b",
                                      "NULL", "offsetof", "operator", "EOF",      "I",       "_Bool",        "Bool",
                                      "__x",  "errno",    "stdin",    "complex",  "M_PI",    "typeof_unqual"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) tn_parameter(root, names[k], TN_SHAPE(3), ones);
  tn_parameter(tn_module_new(root, "a"), "b", TN_SHAPE(3), ones);
  tn_parameter(root, "nothing", TN_SHAPE(0, 2), ones);
  static const char *const functions[] = {"load", "state", "f", "f_in", "info", "ABI", "register", "EOF"};
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
    tn_function *f = tn_function_begin(p, functions[k]);
    tn_tensor x = tn_input(f, "class", TN_F32, TN_SHAPE(B, 3)), y = tn_input(f, "double", TN_F32, TN_SHAPE(C, 3));
    tn_tensor z = tn_add(tn_sum(x), tn_sum(y));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) z = tn_add(z, tn_sum(tn_param_value(f, root, names[i])));
    z = tn_add(z, tn_sum(tn_param_value(f, root, "nothing")));
    tn_output(f, "float", tn_add(z, tn_sum(tn_param_value(f, root, "a.b"))));
    tn_function_end(f);
  }
  Case c = open_case(p, "names");
  all_of(&c, true);
  close_case(&c);
}

// What the drawn inputs make NaN and infinite is compared too.
static void not_finite(void) {
  tn_program *p = tn_program_create("numbers");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(40));
  tn_output(f, "y", tn_log(x));
  tn_output(f, "z", tn_exp(tn_mul(x, tn_scalar(f, 1e3))));
  tn_output(f, "h", tn_cast(tn_log(x), TN_F16));
  tn_function_end(f);
  Case c = open_case(p, "numbers");
  all_of(&c, false);
  const FeBundleSum *y = &c.expected.runs[0].outputs[0];
  CHECK(y->not_finite > 0 && y->sum - y->sum == 0 && y->tolerance < 1);
  close_case(&c);
}

// The gradient of the bias of keys is 0 but for rounding: what Adam makes of it may be anything below its step.
static void left_to_rounding(void) {
  enum { DIM = 8 };
  const double lr = 0.01;
  tn_program *p = tn_program_create("rounding");
  tn_module *root = tn_root(p), *a = tn_multi_head_attention(root, "attn", DIM, 2);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 5, DIM)), y = tn_call(a, x);
  tn_backward(tn_mean(tn_mul(y, y)));
  tn_adamw(f, root, .lr = lr);
  tn_function_end(f);
  Case c = open_case(p, "rounding");
  all_of(&c, false);
  for (uint32_t k = 0; k < c.b.about->n_tensors; k++) {
    const char *path = c.b.about->tensors[k].path;
    double tolerance = c.expected.tensors[k].tolerance;
    if (!strcmp(path, "attn.in_proj_bias")) CHECK(tolerance > lr);
    if (!strcmp(path, "attn.out_proj.bias")) CHECK(tolerance < lr / 10);
  }
  close_case(&c);
}

// No inputs, no outputs, neither, and no parameters; and a header all of whose names are capitals.
static void little(void) {
  tn_program *p = tn_program_create("little");
  tn_module *root = tn_root(p);
  tn_parameter(root, "w", TN_SHAPE(3), (tn_init){TN_INIT_NORMAL, 0, 1});
  tn_function *f = tn_function_begin(p, "ABI");
  tn_output(f, "y", tn_sum(tn_param_value(f, root, "w")));
  tn_function_end(f);
  f = tn_function_begin(p, "STATE_BYTES");
  tn_backward(tn_sum(tn_mul(tn_param_value(f, root, "w"), tn_input(f, "x", TN_F32, TN_SHAPE(3)))));
  tn_sgd(f, root, .lr = 0.1);
  tn_function_end(f);
  f = tn_function_begin(p, "decay");
  tn_tensor w = tn_param_value(f, root, "w");
  tn_backward(tn_sum(tn_mul(w, w)));
  tn_sgd(f, root, .lr = 0.1);
  tn_function_end(f);
  Case c = open_case(p, "L");
  all_of(&c, false);
  close_case(&c);
  p = tn_program_create("none");
  f = tn_function_begin(p, "twice");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(5));
  tn_output(f, "y", tn_exp(tn_cast(x, TN_F32)));
  tn_output(f, "best", tn_argmax_axis(tn_cast(x, TN_F32), -1, false));
  tn_function_end(f);
  c = open_case(p, "none");
  all_of(&c, false);
  close_case(&c);
}

int main(void) {
  unsetenv("TN_CHECK");  // bundles have no guarded arena
  mem = rt_arena_new();
  CHECK(mkdtemp(folder) != NULL);
  words();
  casts();
  hostile_names();
  not_finite();
  left_to_rounding();
  little();
  if (!check_n_failed) runs(rt_printf(mem, "rm -r %s", folder));
  rt_arena_free(mem);
  return check_report();
}
