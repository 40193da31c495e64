// NAME_selftest.c: draws inputs, calls every function and compares with what the compiler's machine got (expect.c).
#include "frontend/bundle/texts.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  const FeBundleText *t;
  const TnBundleAbout *about;
  FeBundleNames n;
  RtText *out;
} Selftest;

#define ADD(s, ...) rt_text_add((s)->out, __VA_ARGS__)

// %1$s is NAME, %2$s the files' name. The generator and the sums are those of expect.c.
static const char top[] =
    "// Calls every function of %1$s on inputs that it draws, and compares with what the compiler's machine got:\n"
    "//\n"
    "//   cc %2$s_selftest.c %2$s.o -o %2$s_selftest && ./%2$s_selftest\n"
    "//\n"
    "// Status 0: all is as there, bit by bit on the same target, within a tolerance on others. Written by the "
    "compiler.\n"
    "#include \"%2$s.h\"\n"
    "\n"
    "#include <stdio.h>\n"
    "#include <string.h>\n"
    "\n"
    "#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))\n";

static const char generator[] = "// ---- inputs\n"
                                "static uint64_t random_state;\n"
                                "static uint32_t next(void) {  // splitmix64\n"
                                "  uint64_t z = random_state += 0x9e3779b97f4a7c15u;\n"
                                "  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;\n"
                                "  z = (z ^ z >> 27) * 0x94d049bb133111ebu;\n"
                                "  return (uint32_t)(z >> 32);\n"
                                "}\n"
                                "\n";

// What a dtype other than i64 is drawn as, of 32 random bits, and its value; f32 is looked at by its bits.
static const struct {
  const char *draw, *value, *whole;
} texts_of[RT_N_DTYPES] = {
    [RT_F32] = {"(float)(next() >> 8) / 8388608.0f - 1", "v", "(float)v"},
    [RT_I64] = {NULL, "(double)v", "v"},
    [RT_I32] = {"(int32_t)(next() >> 24) - 128", "v", "(int32_t)v"},
    [RT_U8] = {"(uint8_t)(next() >> 24)", "v", "(uint8_t)v"},
    [RT_BOOL] = {"(uint8_t)(next() >> 31)", "v", "(uint8_t)v"},
    [RT_F16] = {"(uint16_t)((next() >> 16 & 0x83ff) | 0x3800)", "of_f16(v)",
                "(uint16_t)(v ? (bits_of(v) >> 16 & 0x8000) | ((bits_of(v) >> 13 & 0x3ffff) - 0x1c000) : 0)"},
    [RT_BF16] = {"(uint16_t)((next() >> 16 & 0x807f) | 0x3f00)", "of_bf16(v)", "(uint16_t)(bits_of(v) >> 16)"},
};

// %1$s is the dtype, %2$s its C type, %3$s how one is drawn.
static const char draws[] = "static void draw_%1$s(%2$s *to, int64_t n) {\n"
                            "  for (int64_t k = 0; k < n; k++) to[k] = %3$s;\n"
                            "}\n"
                            "\n";

static const char draws_whole[] =
    "// What whole numbers may be; of each `group` it is about those in [first, first + size), group 0: about all.\n"
    "// order 1: none is above the one before it, 2: none is below it, 3: equal parts of `last`, one for each of "
    "`size`\n"
    "typedef struct {\n"
    "  int64_t lo, last, group, first, size;\n"
    "  int order;\n"
    "} range;\n"
    "static int64_t draw(const range *r, int n_ranges, int64_t spread, int64_t k, int64_t before) {\n"
    "  int64_t lo = INT64_MIN, last = INT64_MAX;\n"
    "  int i, has_range = 0;\n"
    "  for (i = 0; i < n_ranges; i++) {\n"
    "    int64_t at = r[i].group ? k %% r[i].group - r[i].first : k;\n"
    "    if (r[i].group && (at < 0 || at >= r[i].size)) continue;\n"
    "    if (r[i].order == 3) return k < r[i].size ? (r[i].last + r[i].size - 1 - k) / r[i].size : 0;\n"
    "    has_range = 1;\n"
    "    if (r[i].lo > lo) lo = r[i].lo;\n"
    "    if (r[i].last < last) last = r[i].last;\n"
    "    if (r[i].order == 1 && at > 0 && before < last) last = before;\n"
    "    if (r[i].order == 2 && at > 0 && before > lo) lo = before;\n"
    "  }\n"
    "  if (!has_range) lo = 0, last = %d;\n"
    "  if (lo <= last && (uint64_t)last - (uint64_t)lo > (uint64_t)spread) last = lo + spread;\n"
    "  return lo > last ? lo : lo + (int64_t)(next() %% ((uint64_t)last - (uint64_t)lo + 1));\n"
    "}\n"
    "\n";
// %1$s is the dtype, %2$s its C type, %3$s the number `v` as one.
static const char draws_in[] =
    "static void draw_whole_%1$s(%2$s *to, int64_t n, const range *r, int n_ranges, int64_t spread) {\n"
    "  int64_t v = 0;\n"
    "  for (int64_t k = 0; k < n; k++) {\n"
    "    v = draw(r, n_ranges, spread, k, v);\n"
    "    to[k] = %3$s;\n"
    "  }\n"
    "}\n"
    "\n";
static const char halves[] = "static uint32_t bits_of(int64_t v) {\n"
                             "  float f = (float)v;\n"
                             "  uint32_t word;\n"
                             "  memcpy(&word, &f, 4);\n"
                             "  return word;\n"
                             "}\n"
                             "\n";

static const char called[] =
    "// ---- results: bits by a checksum, values by weighted sums, NaN and infinities by counts\n"
    "static int n_failed, n_other_bits;\n"
    "static int called(const char *what, int status) {\n"
    "  if (!status) return 1;\n"
    "  n_failed++;\n"
    "  printf(\"%%s: %%s\\n\", what, %1$s_error(status));\n"
    "  return 0;\n"
    "}\n"
    "\n";

static const char sums[] =
    "typedef struct {\n"
    "  uint64_t checksum, not_finite;\n"
    "  double sum;\n"
    "} result;\n"
    "static void add_value(result *s, int64_t at, double v) {\n"
    "  int weight = (int)(1 + at % 7);\n"
    "  if (v - v == 0) s->sum += v * weight;\n"
    "  else s->not_finite += (uint64_t)weight * (v != v ? 1 : v > 0 ? 2 : 3);\n"
    "}\n"
    "static void add_word(result *s, uint32_t word) { s->checksum = (s->checksum ^ word) * 0x100000001b3u; }\n"
    "\n"
    "static void compare(const char *what, const result *got, const result *wanted, double tolerance) {\n"
    "  double apart = got->sum - wanted->sum;\n"
    "  if (got->checksum == wanted->checksum) return;\n"
    "  n_other_bits++;\n"
    "  if ((apart < 0 ? -apart : apart) <= tolerance && got->not_finite == wanted->not_finite) return;\n"
    "  n_failed++;\n"
    "  if (got->not_finite != wanted->not_finite) printf(\"%s: other NaN or infinities than expected\\n\", what);\n"
    "  else printf(\"%s: a sum of %.9g, and %.9g is expected\\n\", what, got->sum, wanted->sum);\n"
    "}\n"
    "\n";

static const char of_f16[] = "static double of_f16(uint16_t h) {\n"
                             "  uint32_t e = h >> 10 & 31, rest = h & 1023, sign = (uint32_t)(h >> 15) << 31;\n"
                             "  uint32_t word = sign | (e == 31 ? 255 : e + 112) << 23 | rest << 13;\n"
                             "  float v;\n"
                             "  memcpy(&v, &word, 4);\n"
                             "  return e ? v : (sign ? -1.0 : 1.0) * rest / 16777216.0;\n"
                             "}\n"
                             "\n";
static const char of_bf16[] = "static double of_bf16(uint16_t h) {\n"
                              "  uint32_t word = (uint32_t)h << 16;\n"
                              "  float v;\n"
                              "  memcpy(&v, &word, 4);\n"
                              "  return v;\n"
                              "}\n"
                              "\n";

// %1$s is the dtype, %2$s its C type, %3$s adds its bits to the checksum, %4$s is its value.
static const char expects[] = "static void expect_%1$s(const char *what, const void *data, int64_t n, uint64_t "
                              "checksum, uint64_t not_finite, double sum, double tolerance) {\n"
                              "  result got = {0xcbf29ce484222325u, 0, 0}, wanted = {checksum, not_finite, sum};\n"
                              "  for (int64_t k = 0; k < n; k++) {\n"
                              "    %2$s v;\n"
                              "    memcpy(&v, (const char *)data + k * (int64_t)sizeof v, sizeof v);\n"
                              "%3$s"
                              "    add_value(&got, k, %4$s);\n"
                              "  }\n"
                              "  compare(what, &got, &wanted, tolerance);\n"
                              "}\n"
                              "\n";
static const char bits_of_f32[] = "    uint32_t word;\n    memcpy(&word, &v, 4);\n    add_word(&got, word);\n";
static const char bits_of_i64[] =
    "    add_word(&got, (uint32_t)v);\n    add_word(&got, (uint32_t)((uint64_t)v >> 32));\n";
static const char bits_of_others[] = "    add_word(&got, (uint32_t)v);\n";

// %2$s says what was called.
static const char bottom[] =
    "  if (n_failed) printf(\"%1$s selftest: %%d failed\\n\", n_failed);\n"
    "  else if (n_other_bits) printf(\"%1$s selftest: passed, %%d results with other bits%2$s\\n\", n_other_bits);\n"
    "  else printf(\"%1$s selftest: passed%2$s\\n\");\n"
    "  return n_failed != 0;\n"
    "}\n";

// ---- memory
static bool is_run(const Selftest *s, uint32_t function) {
  for (uint32_t r = 0; r < s->t->expected->n_runs; r++)
    if (s->t->expected->runs[r].function == function) return true;
  return false;
}

static int64_t most_elements(const Selftest *s, uint32_t function, const RtPort *port) {
  int64_t most = 1;
  for (uint32_t r = 0; r < s->t->expected->n_runs; r++) {
    const FeBundleRun *run = &s->t->expected->runs[r];
    if (run->function != function) continue;
    int64_t n = fe_bundle_elements(s->out->mem, s->t->plan, fe_bundle_function(s->t, function), run->dims, port);
    if (n > most) most = n;
  }
  return most;
}

static void put_array(const Selftest *s, uint32_t k, const RtPort *port, const char *field, const char *kind) {
  ADD(s, "static %s %s%" PRIu32 "_%s[%" PRId64 "];\n", rt_dtype_c_type(port->dtype), kind, k, field,
      most_elements(s, k, port));
}

static void put_memory(const Selftest *s) {
  bool has_arena = cg_bundle_init_arena(s->t->b) > 0;
  ADD(s, "static %s_state state;\n", s->n.name);
  if (has_arena)
    ADD(s, "%1$s_ALIGNED static unsigned char arena[MAX_OF(%1$s_ARENA_BYTES, %1$s_INIT_ARENA_BYTES)];\n", s->n.macro);
  else ADD(s, "%1$s_ALIGNED static unsigned char arena[MAX_OF(%1$s_ARENA_BYTES, 1)];\n", s->n.macro);
  for (uint32_t k = 0; k < s->about->n_functions; k++) {
    const RtFunction *f = fe_bundle_function(s->t, k);
    if (!is_run(s, k)) continue;
    for (uint32_t i = 0; i < f->n_inputs; i++) put_array(s, k, &f->inputs[i], s->n.functions[k].inputs[i], "in");
    for (uint32_t i = 0; i < f->n_outputs; i++) put_array(s, k, &f->outputs[i], s->n.functions[k].outputs[i], "out");
  }
}

// ---- calls
static void put_whole_draw(const Selftest *s, const FeBundleRun *run, uint32_t input, const char *array, int64_t n,
                           const DrawRange *r, uint32_t n_ranges) {
  const char *dtype = rt_dtype_name(fe_bundle_function(s->t, run->function)->inputs[input].dtype);
  if (n_ranges) ADD(s, "  static const range range_%" PRIu32 "[] = {", input);
  for (uint32_t k = 0; k < n_ranges; k++)
    ADD(s, "%s{%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %d}%s", k ? ", " : "", r[k].lo,
        r[k].last, r[k].group, r[k].first, r[k].size, r[k].order, k + 1 < n_ranges ? "" : "};\n");
  const char *ranges = n_ranges ? rt_printf(s->out->mem, "range_%" PRIu32, input) : "NULL";
  const char *spread = run->spread == INT64_MAX ? "INT64_MAX" : rt_printf(s->out->mem, "%" PRId64, run->spread);
  ADD(s, "  draw_whole_%s(%s, %" PRId64 ", %s, %" PRIu32 ", %s);\n", dtype, array, n, ranges, n_ranges, spread);
}

static void put_inputs(const Selftest *s, const FeBundleRun *run) {
  const RtFunction *f = fe_bundle_function(s->t, run->function);
  const FeFunctionNames *n = &s->n.functions[run->function];
  for (uint32_t k = 0; k < f->n_inputs; k++) {
    int64_t count = fe_bundle_elements(s->out->mem, s->t->plan, f, run->dims, &f->inputs[k]);
    const char *array = rt_printf(s->out->mem, "in%" PRIu32 "_%s", run->function, n->inputs[k]);
    const DrawRange *ranges;
    uint32_t n_ranges = fe_bundle_ranges(s->out->mem, s->t, run->function, run->dims, k, &ranges);
    if (fe_bundle_is_whole(&f->inputs[k], n_ranges, run->spread))
      put_whole_draw(s, run, k, array, count, ranges, n_ranges);
    else ADD(s, "  draw_%s(%s, %" PRId64 ");\n", rt_dtype_name(f->inputs[k].dtype), array, count);
  }
}

static void put_structs(const Selftest *s, const FeBundleRun *run) {
  const TnBundleFunction *f = &s->about->functions[run->function];
  const FeFunctionNames *n = &s->n.functions[run->function];
  if (f->n_inputs) ADD(s, "  %s_%s_in in;\n", s->n.name, n->name);
  if (f->n_outputs) ADD(s, "  %s_%s_out out;\n", s->n.name, n->name);
  for (uint32_t d = 0; d < f->n_dims && f->n_inputs; d++) ADD(s, "  in.%s = %" PRId64 ";\n", n->dims[d], run->dims[d]);
  for (uint32_t i = 0; i < f->n_inputs; i++)
    ADD(s, "  in.%s = in%" PRIu32 "_%s;\n", n->inputs[i], run->function, n->inputs[i]);
  for (uint32_t i = 0; i < f->n_outputs; i++)
    ADD(s, "  out.%s = out%" PRIu32 "_%s;\n", n->outputs[i], run->function, n->outputs[i]);
  for (uint32_t i = 0; i < f->n_outputs; i++)
    ADD(s, "  memset(out%1$" PRIu32 "_%2$s, 0, sizeof out%1$" PRIu32 "_%2$s);\n", run->function, n->outputs[i]);
}

static void put_expect(const Selftest *s, uint32_t dtype, const char *what, const char *data, int64_t n,
                       const FeBundleSum *sum) {
  ADD(s, "  expect_%s(\"%s\", %s, %" PRId64 ", 0x%016" PRIx64 "u, %" PRIu64 ", %.17g, %.17g);\n", rt_dtype_name(dtype),
      what, data, n, sum->checksum, sum->not_finite, sum->sum, sum->tolerance);
}

static void put_run(const Selftest *s, uint32_t r) {
  const FeBundleRun *run = &s->t->expected->runs[r];
  const TnBundleFunction *f = &s->about->functions[run->function];
  const RtFunction *fn = fe_bundle_function(s->t, run->function);
  const FeFunctionNames *n = &s->n.functions[run->function];
  ADD(s, "\nstatic void run_%" PRIu32 "(void) {\n", r);
  put_structs(s, run);
  if (f->n_inputs) ADD(s, "  random_state = %" PRIu32 ";\n", r);
  put_inputs(s, run);
  ADD(s, "  if (!called(\"%s\", %s_%s(&state, arena, sizeof arena%s%s))) return;\n", n->name, s->n.name, n->name,
      f->n_inputs ? ", &in" : "", f->n_outputs ? ", &out" : "");
  for (uint32_t k = 0; k < f->n_outputs; k++) {
    int64_t count = fe_bundle_elements(s->out->mem, s->t->plan, fn, run->dims, &fn->outputs[k]);
    put_expect(s, fn->outputs[k].dtype,
               rt_printf(s->out->mem, "call %" PRIu32 ", %s: %s", r + 1, n->name, n->outputs[k]),
               rt_printf(s->out->mem, "out%" PRIu32 "_%s", run->function, n->outputs[k]), count, &run->outputs[k]);
  }
  ADD(s, "}\n");
}

static void put_state(const Selftest *s) {
  ADD(s, "\nstatic void expect_state(void) {\n");
  for (uint32_t k = 0; k < s->about->n_tensors; k++) {
    const TnBundleTensor *t = &s->about->tensors[k];
    if (!t->bytes) continue;
    put_expect(s, t->dtype, rt_printf(s->out->mem, "state.%s", t->field), rt_printf(s->out->mem, "&state.%s", t->field),
               (int64_t)(t->bytes / rt_dtype_bytes(t->dtype)), &s->t->expected->tensors[k]);
  }
  ADD(s, "}\n");
}

// Of the program's names what may stand in a string of C, and in a format.
static const char *in_string(const Selftest *s, const char *text) {
  char *plain = rt_strdup(s->out->mem, text);
  for (char *c = plain; *c; c++)
    if (*c == '"' || *c == '\\' || *c == '%' || *c == '?' || (unsigned char)*c < ' ') *c = '_';
  return plain;
}

// ": 3 calls of train_step, 2 of predict"
static const char *calls_text(const Selftest *s) {
  RtText t = {.mem = s->out->mem};
  for (uint32_t k = 0; k < s->about->n_functions; k++) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < s->t->expected->n_runs; r++) n += s->t->expected->runs[r].function == k;
    if (n)
      rt_text_add(&t, "%s%" PRIu32 "%s of %s", t.len ? ", " : ": ", n, t.len ? "" : " calls",
                  in_string(s, s->about->functions[k].name));
  }
  return t.text ? t.text : "";
}

static void put_main(const Selftest *s) {
  bool has_arena = cg_bundle_init_arena(s->t->b) > 0;
  ADD(s, "\nint main(void) {\n  if (%s_cpu() < 0 || !called(\"init\", %s_init(&state, %s%d))) {\n", s->n.name,
      s->n.name, has_arena ? "arena, sizeof arena, " : "", FE_SELFTEST_SEED);
  ADD(s, "    printf(\"%1$s selftest: this CPU cannot run it\\n\");\n    return 1;\n  }\n", s->n.name);
  for (uint32_t r = 0; r < s->t->expected->n_runs; r++) ADD(s, "  run_%" PRIu32 "();\n", r);
  ADD(s, "  expect_state();\n");
  ADD(s, bottom, s->n.name, calls_text(s));  // NOLINT: formats are above
}

// What nothing calls is not there: static functions without use are warnings.
typedef struct {
  bool any_draw, any_result, any_whole, draws[RT_N_DTYPES], whole[RT_N_DTYPES], results[RT_N_DTYPES];
} Uses;

static void note(bool *any, bool *of, uint32_t dtype) { *any = of[dtype] = true; }

static Uses uses_of(const Selftest *s) {
  Uses u = {0};
  for (uint32_t k = 0; k < s->about->n_tensors; k++)
    if (s->about->tensors[k].bytes) note(&u.any_result, u.results, s->about->tensors[k].dtype);
  for (uint32_t r = 0; r < s->t->expected->n_runs; r++) {
    const FeBundleRun *run = &s->t->expected->runs[r];
    const TnBundleFunction *f = &s->about->functions[run->function];
    const RtFunction *fn = fe_bundle_function(s->t, run->function);
    for (uint32_t k = 0; k < f->n_inputs; k++) {
      const DrawRange *ranges;
      uint32_t n_ranges = fe_bundle_ranges(s->out->mem, s->t, run->function, run->dims, k, &ranges);
      u.any_draw = true;
      if (fe_bundle_is_whole(&fn->inputs[k], n_ranges, run->spread)) note(&u.any_whole, u.whole, f->inputs[k].dtype);
      else u.draws[f->inputs[k].dtype] = true;
    }
    for (uint32_t k = 0; k < f->n_outputs; k++) note(&u.any_result, u.results, f->outputs[k].dtype);
  }
  return u;
}

static void put_draws(const Selftest *s, const Uses *u) {
  if (u->any_draw) ADD(s, "%s", generator);
  if (u->any_whole) ADD(s, draws_whole, DRAW_FREE);  // NOLINT: formats are above
  if (u->whole[RT_F16] || u->whole[RT_BF16]) ADD(s, "%s", halves);
  for (uint32_t t = RT_F32; t < RT_N_DTYPES; t++) {
    const char *name = rt_dtype_name(t), *type = rt_dtype_c_type(t);
    if (u->draws[t]) ADD(s, draws, name, type, texts_of[t].draw);      // NOLINT
    if (u->whole[t]) ADD(s, draws_in, name, type, texts_of[t].whole);  // NOLINT
  }
}

static void put_sums(const Selftest *s, const Uses *u) {
  if (u->any_result) ADD(s, "%s", sums);
  if (u->results[RT_F16]) ADD(s, "%s", of_f16);
  if (u->results[RT_BF16]) ADD(s, "%s", of_bf16);
  for (uint32_t t = RT_F32; t < RT_N_DTYPES; t++) {
    const char *bits = t == RT_F32 ? bits_of_f32 : t == RT_I64 ? bits_of_i64 : bits_of_others;
    if (u->results[t]) ADD(s, expects, rt_dtype_name(t), rt_dtype_c_type(t), bits, texts_of[t].value);  // NOLINT
  }
}

void fe_bundle_selftest(const FeBundleText *t, RtText *out) {
  Selftest s = {t, t->b->about, fe_bundle_names(out->mem, t), out};
  Uses u = uses_of(&s);
  ADD(&s, top, s.n.name, fe_bundle_file(t));  // NOLINT: formats are above
  put_memory(&s);
  ADD(&s, "\n");
  put_draws(&s, &u);
  ADD(&s, called, s.n.name);  // NOLINT
  put_sums(&s, &u);
  ADD(&s, "// ---- calls");
  for (uint32_t r = 0; r < t->expected->n_runs; r++) put_run(&s, r);
  put_state(&s);
  put_main(&s);
}
