// What LLVM concludes about the sign and the class of a number from a comparison before a select, against the interpreter:
// every comparison of every operand made from x with every bound, then a select, then ops that read the sign of what was
// selected. LLVM 19.1.7 took x for positive behind |x| > 0.
//
//   test_select_shapes [--on TARGET]
//
// Without --on: for this machine.
#include "ir/interp/interp.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/trial.h"

#include <math.h>
#include <string.h>

static const char *const comparisons[] = {"gt", "ge", "lt", "le", "eq", "ne"};

typedef struct {
  const char *name, *text;  // instructions that make %NAME_ of %x_; _ becomes the number of the chain
} Operand;
static const Operand operands[] = {
    {"x_", ""},
    {"abs_", "%abs_ = abs %x_\n"},
    {"neg_", "%neg_ = neg %x_\n"},
    {"negabs_", "%abs_ = abs %x_\n%negabs_ = neg %abs_\n"},
    {"below_", "%below_ = copysign %x_, %minus\n"},
    {"above_", "%above_ = copysign %x_, %one\n"},
    {"larger_", "%larger_ = max %x_, %half\n"},
    {"lesser_", "%lesser_ = min %x_, %minus\n"},
    {"whole_", "%whole_ = floor %x_\n"},
    {"abswhole_", "%w_ = floor %x_\n%abswhole_ = abs %w_\n"},
};

typedef struct {
  const char *name;
  double value;
} Bound;
static const Bound bounds[] = {{"zero", 0},   {"minuszero", -0.0}, {"one", 1},
                               {"minus", -1}, {"tiny", 0x1p-140},  {"infinity", INFINITY}};

typedef struct {
  const char *yes, *no;  // "": the operand that is compared, "-": the bound
} Arms;
static const Arms arms[] = {{"x_", "zero"}, {"zero", "x_"}, {"x_", "one"}, {"minus", "x_"},
                            {"", "x_"},     {"", "-"},      {"", "zero"}};

// Of the sign, or the class: all of them behind every select. The others take turns.
static const char *const readers[] = {"sign %s_", "abs %s_", "copysign %one, %s_"};
static const char *const long_readers[] = {"sigmoid %s_",       "neg %s_",
                                           "relu %s_",          "leaky_relu %s_ {slope=0.5}",
                                           "gelu %s_",          "silu %s_",
                                           "logsigmoid %s_",    "bce_with_logits %s_, %half",
                                           "softplus %s_",      "sqrt %s_",
                                           "tanh %s_",          "erf %s_",
                                           "elu %s_ {alpha=1}", "expm1 %s_",
                                           "atan %s_",          "asinh %s_",
                                           "rsqrt %s_",         "log %s_",
                                           "isinf %s_",         "softsign %s_",
                                           "mish %s_",          "nan_to_num %s_ {nan=3, posinf=4, neginf=-4}",
                                           "min %s_, %zero",    "trunc %s_",
                                           "prelu %s_, %half",  "pow %s_, %two"};
#define COUNT(a) (uint32_t)(sizeof(a) / sizeof *(a))
// Readers of a shape, the last a long one. COPYSIGN shows the sign of a zero.
enum { N_READERS = sizeof readers / sizeof *readers + 1, COPYSIGN = 2 };

static const double points[] = {0,      -0.0,    1,        -1,        0.25,     -0.25,     2,        -2,
                                3.5,    -3.5,    0.5,      -0.5,      -7,       7,         20,       -20,
                                0x1p50, -0x1p50, 0x1p-126, -0x1p-126, 0x1p-125, -0x1p-125, 1.5,      -1.5,
                                0.75,   -0.75,   INFINITY, -INFINITY, NAN,      NAN,       0x1p-140, -0x1p-140};
enum { N_POINTS = sizeof points / sizeof *points, N_NORMAL = N_POINTS - 6 /* neither infinite, NaN nor denormal */ };

static Target target;
static Foreign *machine;  // NULL: this one
static uint32_t n_points = N_POINTS;

// ---- shapes: number n of a comparison. Every pair of operand and bound has x on either side of the select, and one more
// pair of arms.
typedef struct {
  const char *comparison, *operand, *bound, *yes, *no, *long_reader;
} Shaped;
enum {
  N_SHAPES = 3 * (sizeof operands / sizeof *operands) * (sizeof bounds / sizeof *bounds),
  N_CHAINS = N_SHAPES * N_READERS
};

static Shaped shape(uint32_t comparison, uint32_t n) {
  const Arms *a = &arms[n % 3 < 2 ? n % 3 : 2 + (n + comparison) % (COUNT(arms) - 2)];
  Shaped s = {.comparison = comparisons[comparison],
              .operand = operands[n / 3 / COUNT(bounds)].name,
              .bound = bounds[n / 3 % COUNT(bounds)].name,
              .long_reader = long_readers[(n + comparison) % COUNT(long_readers)]};
  s.yes = *a->yes ? a->yes : s.operand;
  s.no = *a->no == '-' ? s.bound : a->no;
  return s;
}

static const char *reader_of(const Shaped *s, uint32_t k) { return k < COUNT(readers) ? readers[k] : s->long_reader; }

static void add_numbered(RtText *t, const char *text, uint32_t chain) {
  for (const char *at; (at = strchr(text, '_')); text = at + 1)
    // a name of an op has letters behind it
    if (at[1] >= 'a' && at[1] <= 'z') rt_text_add(t, "%.*s", (int)(at + 1 - text), text);
    else rt_text_add(t, "%.*s%u", (int)(at - text), text, chain);
  rt_text_add(t, "%s", text);
}

// From an input of its own: what several ops read may be stored first, and readers would read that.
static void add_chain(RtText *t, const Shaped *s, const char *reader, uint32_t chain) {
  for (uint32_t k = 0; k < COUNT(operands); k++)
    if (!strcmp(operands[k].name, s->operand)) add_numbered(t, operands[k].text, chain);
  add_numbered(t, rt_printf(t->mem, "%%c_ = %s %%%s, %%%s\n", s->comparison, s->operand, s->bound), chain);
  add_numbered(t, rt_printf(t->mem, "%%s_ = select %%c_, %%%s, %%%s\n%%r_ = %s\n", s->yes, s->no, reader), chain);
  rt_text_add(t, "output %%r%u {index=%u, name=\"r%u\"}\n", chain, chain, chain);
}

// shows_selected: for the interpreter, what is selected follows as outputs.
static RtText program_text(RtArena *mem, uint32_t comparison, bool shows_selected) {
  RtText t = {.mem = mem};
  rt_text_add(&t, "program @shapes\nfunc @f(");
  for (uint32_t k = 0; k < N_CHAINS; k++) rt_text_add(&t, "%s%%x%u: f32[%u]", k ? ", " : "", k, n_points);
  rt_text_add(&t, ") {\n%%two = const {value=2}\n%%half = const {value=0.5}\n");
  for (uint32_t k = 0; k < COUNT(bounds); k++)
    rt_text_add(&t, "%%%s = const {value=%.17g}\n", bounds[k].name, bounds[k].value);
  for (uint32_t k = 0; k < N_CHAINS; k++) {
    Shaped s = shape(comparison, k / N_READERS);
    add_chain(&t, &s, reader_of(&s, k % N_READERS), k);
  }
  for (uint32_t n = 0; shows_selected && n < N_SHAPES; n++)
    rt_text_add(&t, "output %%s%u {index=%u, name=\"s%u\"}\n", n * N_READERS, N_CHAINS + n, n);
  rt_text_add(&t, "}\n");
  return t;
}

// ---- runs
static bool same(double found, double expected, double tolerance, bool has_sign) {
  if (isnan(expected)) return isnan(found);
  if (isinf(expected) || expected == 0) return found == expected && (!has_sign || signbit(found) == signbit(expected));
  return fabs(found - expected) <= tolerance * fabs(expected) + 1e-30;
}

// s: what is selected. Open are the sign of NaN and what long readers give for an infinity.
static void compare(const Shaped *shape, uint32_t output, Tensor found, Tensor expected, Tensor s) {
  bool is_sign = output == COPYSIGN, is_long = output == N_READERS - 1;
  for (int64_t i = 0; i < expected.n; i++) {
    if (is_sign && isnan(s.v[i])) continue;
    if (is_long && isinf(s.v[i])) continue;
    if (CHECK(same(found.v[i], expected.v[i], is_long ? 2e-5 : 0, is_sign))) continue;
    printf("%s: %s, s = %s %s %s ? %s : %s: at x = %g it is %.9g, not %.9g\n", target.name, reader_of(shape, output),
           shape->operand, shape->comparison, shape->bound, shape->yes, shape->no, points[i], found.v[i],
           expected.v[i]);
    return;
  }
}

static bool compile(Prog *p, RtArena *mem, TrialCode *code, RtText *why) {
  cg_plan_for(p, &target);
  if (!ir_run_passes(p->fns[0], NULL, NULL, NULL) || !ir_plan_program_memory(p))
    return rt_text_add(why, "passes"), false;
  return machine ? trial_compile_for(machine, p, mem, code, why) : trial_compile(p, &target, mem, code, why);
}

static void check_comparison(uint32_t comparison, RtTeam *team) {
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem}, text = program_text(mem, comparison, false), shown = program_text(mem, comparison, true);
  Prog *p = ir_parse(mem, text.text, text.len, "shapes.tir", &diags),
       *q = ir_parse(mem, shown.text, shown.len, "shapes.tir", &diags);
  rt_diags_print(&diags, stdout);
  if (!CHECK(p && q)) return rt_arena_free(mem);
  Tensor *in = rt_alloc(mem, N_CHAINS * sizeof *in);
  for (uint32_t k = 0; k < N_CHAINS; k++) {
    in[k] = (Tensor){.v = rt_alloc(mem, sizeof points), .n = n_points};
    memcpy(in[k].v, points, sizeof points);
  }
  TrialData d = {.in = in, .slots = rt_alloc(mem, sizeof(int64_t)), .fits = true, .runs = true};
  TrialCode code = {0};
  TrialResults results;
  InterpEnv env = {.in = in, .mem = mem, .out = rt_alloc(mem, q->fns[0]->n_outputs * sizeof(Tensor))};
  bool good = ir_interpret(q->fns[0], &env, &why) && compile(p, mem, &code, &why) &&
              trial_run(&code, p->fns[0], &d, team, mem, &results, &why) == TRIAL_FINE;
  if (!CHECK(good)) printf("%s: %s\n", comparisons[comparison], why.text ? why.text : "");
  for (uint32_t k = 0; good && k < results.n_out; k++) {
    Shaped s = shape(comparison, k / N_READERS);
    compare(&s, k % N_READERS, results.t[k], env.out[k], env.out[N_CHAINS + k / N_READERS]);
  }
  trial_free(&code);
  rt_arena_free(mem);
}

static void check_target(const Target *t) {
  target = *t, target.without_blas = true;
  n_points = t->loses_nan ? N_NORMAL : N_POINTS;
  RtTeam *team = rt_team_new(1);
  for (uint32_t k = 0; k < COUNT(comparisons); k++) check_comparison(k, team);
  rt_team_free(team);
}

static int check_on(const char *name) {
  RtArena *mem = rt_arena_new();
  RtText why = {.mem = mem};
  const Target *t = cg_target_find(name);
  machine = t ? foreign_open(t, &why) : NULL;
  if (machine) check_target(t), foreign_close(machine);
  else printf("skipped: %s\n", why.text ? why.text : "no such target");
  rt_arena_free(mem);
  return machine ? check_report() : FOREIGN_SKIPPED;
}

int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "--on")) return check_on(argv[2]);
  Target host;
  RtArena *mem = rt_arena_new();
  if (CHECK(cg_target_host(&host, &(RtText){.mem = mem}))) check_target(&host);
  rt_arena_free(mem);
  return check_report();
}
