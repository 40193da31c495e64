// Largest error of each unary word of the code generator, in units in the last place, against libm in doubles.
//
//   ulp [word | all] [stride] [fast]   every stride-th of the 2^32 floats (default 1: all, about a minute a word);
//                                      fast: as the compile option fast_math
//
// The status is 1 where a word is further off than its limit below.
#include "codegen/cg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 65536 };

static double exact_sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double exact_silu(double x) { return x == -INFINITY ? -0.0 : x * exact_sigmoid(x); }
static double exact_gelu(double x) { return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double exact_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double exact_rsqrt(double x) { return 1 / sqrt(x); }
static double exact_pow_2(double x) { return pow(x, 2.5); }
static double exact_pow_3(double x) { return pow(x, -3); }

// A word y of x; the limits in units in the last place, ordinary and fast, hold from lo on (fast: fast_lo). `other` is
// the ordinary one of targets without AVX-512, which have no fast words.
typedef struct {
  const char *name, *code;
  double (*exact)(double);
  double limit, fast, other, lo, fast_lo;
} Word;
static const Word words[] = {
    {"exp", "exp %x", exp, 1.1, 6, 1.1, -INFINITY, -INFINITY},
    {"log", "log %x", log, 1.1, 6, 1.1, -INFINITY, -INFINITY},
    {"tanh", "tanh %x", tanh, 2, 10, 2, -INFINITY, -INFINITY},
    {"sigmoid", "sigmoid %x", exact_sigmoid, 2, 6, 2, -INFINITY, -INFINITY},
    {"erf", "erf %x", erf, 1.6, 1.6, 1.6, -INFINITY, -INFINITY},
    {"gelu", "gelu %x", exact_gelu, 2, 16, 70, -4.5, -2.5},
    {"silu", "silu %x", exact_silu, 2, 8, 2.1, -INFINITY, -INFINITY},
    {"softplus", "softplus %x", exact_softplus, 2, 8, 2, -INFINITY, -INFINITY},
    {"sin", "sin %x", sin, 1.6, 4, 1.6, -INFINITY, -INFINITY},
    {"cos", "cos %x", cos, 1.6, 4, 1.6, -INFINITY, -INFINITY},
    {"pow2.5", "pow %x, %a", exact_pow_2, 0.6, 0.6, 0.6, -INFINITY, -INFINITY},
    {"pow-3", "pow %x, %b", exact_pow_3, 0.6, 0.6, 0.6, -INFINITY, -INFINITY},
    {"rsqrt", "rsqrt %x", exact_rsqrt, 1.5, 2, 1.5, -INFINITY, -INFINITY},
    {"sqrt", "sqrt %x", sqrt, 0.5, 0.5, 0.5, -INFINITY, -INFINITY},
    {"floor", "floor %x", floor, 0, 0, 0, -INFINITY, -INFINITY},
};

// Distance of y from r in units in the last place of r; a wrong NaN or infinity counts as infinitely far.
static double distance(float y, double r) {
  float nearest = (float)r;
  if (isnan(r) || isnan(y)) return isnan(r) && isnan(y) ? 0 : INFINITY;
  if (isinf(nearest) || isinf(y)) {
    double top = 0x1.fffffep127;
    return nearest == y || (fabs(r) >= top && fabs((double)y) >= top && signbit(r) == signbit(y)) ? 0 : INFINITY;
  }
  int e;
  frexp(r, &e);
  return fabs(y - r) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static TnEntry compile(RtArena *mem, const char *code, bool fast, CgJit **jit) {
  char text[512];
  int n = snprintf(text, sizeof text,
                   "program @ulp\nfunc @word(%%x: f32[%d]) {\n  %%a = const {value=2.5}\n  %%b = const {value=-3}\n"
                   "  %%y = %s\n  output %%y {index=0, name=\"y\"}\n}\n",
                   CHUNK, code);
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  Target host;
  CgObject object;
  CgInfo info;
  Prog *p = ir_parse(mem, text, (size_t)n, "ulp.tir", &diags);
  if (!p || diags.n_errors || !cg_target_host(&host, mem)) return NULL;
  if (!ir_run_passes(p->fns[0], NULL, NULL, NULL) || !ir_place_program(p)) return NULL;
  host.fast = fast;
  if (!cg_compile(p, &host, "", &object, &info, &why)) return NULL;
  *jit = cg_jit_load(&object, &why);
  rt_free(object.bytes);
  return *jit ? (TnEntry)(uintptr_t)cg_jit_find(*jit, cg_symbol(mem, p, p->fns[0])) : NULL;
}

static double sweep(const Word *w, TnEntry run, uint64_t stride, double lo) {
  static float x[CHUNK], y[CHUNK];
  void *in[] = {x}, *out[] = {y};
  TnFrame frame = {.in = in, .out = out};
  double most = 0;
  float at = 0;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
    for (int k = 0; k < CHUNK; k++, bits += stride) {
      uint32_t b = (uint32_t)bits;
      memcpy(&x[k], &b, sizeof b);
      if ((double)x[k] < lo) x[k] = 0;
    }
    run(&frame, 0, 1);
    for (int k = 0; k < CHUNK; k++) {
      double d = distance(y[k], w->exact(x[k]));
      if (d > most) most = d, at = x[k];
    }
  }
  printf("%-9s %8.3f ulp at %a (%.9g)\n", w->name, most, (double)at, (double)at);
  fflush(stdout);
  return most;
}

static double limit_of(const Word *w, bool fast) {
  RtArena *mem = rt_arena_new();
  Target host = {.name = ""};
  if (mem) cg_target_host(&host, mem);
  rt_arena_free(mem);
  return strcmp(host.name, "avx512") ? w->other : fast ? w->fast : w->limit;
}

static bool within_limit(const Word *w, bool fast, uint64_t stride) {
  RtArena *mem = rt_arena_new();
  CgJit *jit = NULL;
  TnEntry run = mem ? compile(mem, w->code, fast, &jit) : NULL;
  if (!run) return fprintf(stderr, "ulp: %s could not be compiled\n", w->name), false;
  double limit = limit_of(w, fast), most = sweep(w, run, stride, fast ? w->fast_lo : w->lo);
  if (most > limit) printf("%s: the limit is %.3f ulp\n", w->name, limit);
  cg_jit_free(jit);
  rt_arena_free(mem);
  return most <= limit;
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : "all";
  uint64_t stride = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  bool good = true, fast = argc > 3 && !strcmp(argv[3], "fast");
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (!strcmp(only, words[k].name) || !strcmp(only, "all"))
      good &= within_limit(&words[k], fast, stride ? stride : 1);
  return !good;
}
