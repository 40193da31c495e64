// Largest error of each unary word of the code generator, in units in the last place, against libm in doubles.
//
//   ulp [word | all] [stride]   every stride-th of the 2^32 floats (default 1: all, about a minute a word)
//
// The status is 1 where a word is further off than its limit below.
#include "codegen/cg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 65536 };
// sin and cos: for |x| <= 1e6
static const struct {
  const char *name;
  double limit;
} words[] = {{"exp", 1.1}, {"log", 0.9}, {"tanh", 2.0},  {"sigmoid", 2.0}, {"erf", 1.6},
             {"sin", 1.6}, {"cos", 1.6}, {"floor", 0.0}, {"sqrt", 0.5}};

static double exact(const char *word, double x) {
  if (!strcmp(word, "sigmoid")) return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
  return ir_word(ir_op_find(word), x, 0, 0);
}

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

static TnEntry compile(RtArena *mem, const char *word, CgJit **jit) {
  char text[256];
  int n = snprintf(text, sizeof text,
                   "program @ulp\nfunc @%s(%%x: f32[%d]) {\n  %%y = %s %%x\n  output %%y {index=0, name=\"y\"}\n}\n",
                   word, CHUNK, word);
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  Target host;
  CgObject object;
  CgInfo info;
  Prog *p = ir_parse(mem, text, (size_t)n, "ulp.tir", &diags);
  if (!p || diags.n_errors || !cg_target_host(&host, mem)) return NULL;
  if (!ir_run_passes(p->fns[0], NULL, NULL, NULL) || !ir_place_program(p)) return NULL;
  if (!cg_compile(p, &host, "", &object, &info, &why)) return NULL;
  *jit = cg_jit_load(&object, &why);
  rt_free(object.bytes);
  return *jit ? (TnEntry)(uintptr_t)cg_jit_find(*jit, cg_symbol(mem, p, p->fns[0])) : NULL;
}

static double sweep(const char *word, TnEntry run, uint64_t stride) {
  static float x[CHUNK], y[CHUNK];
  void *in[] = {x}, *out[] = {y};
  TnFrame frame = {.in = in, .out = out};
  double most = 0, limit = !strcmp(word, "sin") || !strcmp(word, "cos") ? 1e6 : INFINITY;
  float at = 0;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
    for (int k = 0; k < CHUNK; k++, bits += stride) {
      uint32_t b = (uint32_t)bits;
      memcpy(&x[k], &b, sizeof b);
      if (fabs((double)x[k]) > limit) x[k] = 0;
    }
    run(&frame, 0, 1);
    for (int k = 0; k < CHUNK; k++) {
      double d = distance(y[k], exact(word, x[k]));
      if (d > most) most = d, at = x[k];
    }
  }
  printf("%-8s %.3f ulp at %a\n", word, most, (double)at);
  fflush(stdout);
  return most;
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : NULL;
  uint64_t stride = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  bool good = true;
  for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
    if (only && strcmp(only, words[k].name) && strcmp(only, "all")) continue;
    RtArena *mem = rt_arena_new();
    CgJit *jit = NULL;
    TnEntry run = mem ? compile(mem, words[k].name, &jit) : NULL;
    if (!run) return fprintf(stderr, "ulp: %s could not be compiled\n", words[k].name), 1;
    double most = sweep(words[k].name, run, stride ? stride : 1);
    if (most > words[k].limit) printf("%s: the limit is %.3f ulp\n", words[k].name, words[k].limit);
    good &= most <= words[k].limit;
    cg_jit_free(jit);
    rt_arena_free(mem);
  }
  return !good;
}
