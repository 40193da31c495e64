// Largest error of the primitives of the code generator, in units in the last place, against libm in doubles.
//
//   ulp [WORD | all] [STRIDE] [-j THREADS]
//   ulp [WORD | all] time                        microseconds for 65,536 normally distributed floats, least of 300 runs
//
// Every STRIDE-th of the 2^32 floats (default 1: all of them) goes through each primitive, ordinary and as the compile
// option fast_math makes it, on each target that this machine can run; pow, which has two operands, is sampled by
// pairs, one for every 16 floats. The reference is computed once for all of them. It is a composition of at most four
// functions of glibc, whose manual bounds each by 5 units of a double (erfc; the others 2); the most that they amplify
// is gelu's argument, by 2 x^2 < 400. So the reference is off by less than 420 * 2^-52, which is 10^-6 units of a
// float.
//
// The status is 1 where a primitive is further off than its limit below.
#include "codegen/module/compile.h"
#include "ir/interp/interpret.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 65536, BLOCK = 512, MAX_VARIANTS = 8, MAX_THREADS = 64 };

// ---- the primitives and their limits, which hold on every target
static double exact_sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double exact_silu(double x) { return x * exact_sigmoid(x); }
static double exact_gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double exact_softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double exact_rsqrt(double x) { return 1 / sqrt(x); }

static double exact_erfinv(double x) { return ir_primitive(OP_erfinv, x, 0, 0); }
static double exact_digamma(double x) { return ir_primitive(OP_digamma, x, 0, 0); }
static double exact_trigamma(double x) { return ir_primitive(OP_polygamma, 1, x, 0); }
static double exact_polygamma_4(double x) { return ir_primitive(OP_polygamma, 4, x, 0); }

typedef struct {
  const char *name, *code;
  double (*exact)(double);
  double (*exact_of_two)(double, double);
  double limit, fast_math;
} Word;
static const Word words[] = {
    {"exp", "exp %x", exp, NULL, 2, 16},
    {"log", "log %x", log, NULL, 2, 16},
    {"tanh", "tanh %x", tanh, NULL, 2, 16},
    {"sigmoid", "sigmoid %x", exact_sigmoid, NULL, 2, 16},
    {"erf", "erf %x", erf, NULL, 2, 16},
    {"gelu", "gelu %x", exact_gelu, NULL, 2, 16},
    {"silu", "silu %x", exact_silu, NULL, 2, 16},
    {"softplus", "softplus %x", exact_softplus, NULL, 2, 16},
    {"sin", "sin %x", sin, NULL, 2, 16},
    {"cos", "cos %x", cos, NULL, 2, 16},
    {"pow", "pow %x, %z", NULL, pow, 2, 16},
    {"rsqrt", "rsqrt %x", exact_rsqrt, NULL, 2, 16},
    {"sqrt", "sqrt %x", sqrt, NULL, 0.5, 0.5},
    {"floor", "floor %x", floor, NULL, 0, 0},
    {"tan", "tan %x", tan, NULL, 2, 16},
    {"asin", "asin %x", asin, NULL, 2, 16},
    {"acos", "acos %x", acos, NULL, 2, 16},
    {"atan", "atan %x", atan, NULL, 2, 16},
    {"sinh", "sinh %x", sinh, NULL, 2, 16},
    {"cosh", "cosh %x", cosh, NULL, 2, 16},
    {"asinh", "asinh %x", asinh, NULL, 2, 16},
    {"acosh", "acosh %x", acosh, NULL, 2, 16},
    {"atanh", "atanh %x", atanh, NULL, 2, 16},
    {"log1p", "log1p %x", log1p, NULL, 2, 16},
    {"expm1", "expm1 %x", expm1, NULL, 2, 16},
    {"log2", "log2 %x", log2, NULL, 2, 16},
    {"log10", "log10 %x", log10, NULL, 2, 16},
    {"exp2", "exp2 %x", exp2, NULL, 2, 16},
    {"erfc", "erfc %x", erfc, NULL, 2, 16},
    {"erfinv", "erfinv %x", exact_erfinv, NULL, 2, 16},
    {"atan2", "atan2 %x, %z", NULL, atan2, 2, 16},
    {"hypot", "hypot %x, %z", NULL, hypot, 2, 16},
    {"lgamma", "lgamma %x", lgamma, NULL, 2, 2},
    {"digamma", "digamma %x", exact_digamma, NULL, 2, 2},
    {"trigamma", "polygamma %one, %x", exact_trigamma, NULL, 2, 2},
    {"polygamma_4", "polygamma %four, %x", exact_polygamma_4, NULL, 2, 2},
    {"fmod", "fmod %x, %z", NULL, fmod, 0, 0},
    {"round", "round %x", nearbyint, NULL, 0, 0},
};

// ---- one primitive compiled for one target
typedef struct {
  Target target;
  CgObject object;
  CgJit *jit;
  TnEntry run;  // NULL where the fast primitive is the ordinary one
} Variant;

static bool compile(RtArena *mem, const char *code, Variant *v) {
  char text[512];
  int n = snprintf(text, sizeof text,
                   "program @ulp\nfunc @word(%%x: f32[%d], %%z: f32[%d]) {\n  %%one = const {value=1}\n"
                   "  %%four = const {value=4}\n  %%y = %s\n"
                   "  output %%y {index=0, name=\"y\"}\n}\n",
                   CHUNK, CHUNK, code);
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  CgInfo info;
  Prog *p = ir_parse(mem, text, (size_t)n, "ulp.tir", &diags);
  if (!p || diags.n_errors) return false;
  if (!ir_run_passes(p->fns[0], NULL, NULL, NULL) || !ir_plan_program_memory(p)) return false;
  if (!cg_compile(p, &v->target, NULL, &v->object, &info, &why)) return false;
  v->jit = cg_jit_load(&v->object, NULL, &why);
  if (v->jit) v->run = (TnEntry)(uintptr_t)cg_jit_find(v->jit, cg_symbol(mem, p, p->fns[0]));
  return v->run;
}

static void drop(Variant *v) {
  cg_jit_free(v->jit);
  rt_free(v->object.bytes);
}

// The primitive on one target, ordinary and fast.
static bool compile_pair(RtArena *mem, const char *code, const char *target, Variant v[2]) {
  RtText why = {.mem = mem};
  if (!cg_target_pick(&v[0].target, target, &why)) return false;
  v[1].target = v[0].target;
  v[1].target.fast_math = true;
  if (!compile(mem, code, &v[0]) || !compile(mem, code, &v[1])) return false;
  const CgObject *o = &v[0].object, *fast = &v[1].object;
  if (o->size == fast->size && !memcmp(o->bytes, fast->bytes, o->size)) v[1].run = NULL;
  return true;
}

// The primitive on every target that this machine can run, ordinary (even) and fast (odd).
static uint32_t compile_all(RtArena *mem, const Word *w, Variant *out) {
  static const char *const names[] = {"avx512", "avx2", "neon", "generic"};
  uint32_t n = 0;
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    Variant v[2] = {0};
    if (compile_pair(mem, w->code, names[k], v)) out[n] = v[0], out[n + 1] = v[1], n += 2;
    else drop(&v[0]), drop(&v[1]);
  }
  return n;
}

// ---- the sweep: threads take chunk after chunk
typedef struct {
  double most;
  float x, z;
} Worst;

typedef struct {
  const Word *word;
  uint64_t stride, n_chunks;
  uint32_t n_variants;
  Variant variant[MAX_VARIANTS];
  atomic_uint_fast64_t next;
} Sweep;

typedef struct {
  Sweep *sweep;
  Worst worst[MAX_VARIANTS];
  float x[CHUNK], z[CHUNK], y[CHUNK];
  double exact[CHUNK];
} Worker;

// A wrong NaN or infinity counts as infinitely far; from the largest float on infinity is as good as that float.
static double distance_of_special(float y, double r) {
  const double top = 0x1.fffffep127;
  if (isnan(r) || isnan(y)) return isnan(r) && isnan(y) ? 0 : INFINITY;
  bool near_top = fabs(r) >= top && fabs((double)y) >= top && signbit(r) == signbit(y);
  return near_top || (float)r == y ? 0 : INFINITY;
}

// Distance of y from r in units in the last place of r. Special values give infinity or NaN.
static inline double distance(float y, double r) {
  uint64_t b;
  memcpy(&b, &r, sizeof b);
  int64_t e = (int64_t)(b >> 52 & 0x7ff), unit = 23 + 1023 + 1023 - (e > 897 ? e : 897);
  b = (uint64_t)unit << 52;
  double per_unit;
  memcpy(&per_unit, &b, sizeof b);
  return fabs(y - r) * per_unit;
}

// As distance, but at least that; NaN or infinity where y or r is, but where both are the same infinity. In 32-bit
// lanes, which every vector unit has. The unit is that of the float next to r towards 0.
static inline float about_distance(float y, double r) {
  float near = (float)r, size = fabsf(near);
  int32_t b;
  memcpy(&b, &size, sizeof b);
  b = (b > 0 ? b - 1 : 0) & 0x7f800000;
  b = 0x7f800000 - (b > 0x00800000 ? b : 0x00800000);
  float per_unit;
  memcpy(&per_unit, &b, sizeof b);
  float d = (float)(fabs(y - r) * per_unit) * 0x1.00001p22f;
  return ((y == near) & (size > 0x1.fffffep127f)) ? 0 : d;
}

static void look_closer(Worst *worst, const Worker *w, uint32_t from) {
  for (uint32_t k = from; k < from + BLOCK; k++) {
    double d = distance(w->y[k], w->exact[k]);
    if (d <= worst->most) continue;
    if (!(fabs(w->exact[k]) < 0x1.fffffep127) || !isfinite(w->y[k])) d = distance_of_special(w->y[k], w->exact[k]);
    if (d > worst->most) *worst = (Worst){d, w->x[k], w->z[k]};
  }
}

static void compare(Worst *worst, const Worker *w) {
  for (uint32_t from = 0; from < CHUNK; from += BLOCK) {
    const float *y = w->y + from;
    const double *exact = w->exact + from;
    const float most = (float)worst->most;
    uint32_t n_far = 0;
    for (uint32_t k = 0; k < BLOCK; k++) n_far += !(about_distance(y[k], exact[k]) <= most);
    if (n_far) look_closer(worst, w, from);
  }
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t scramble(uint64_t k) {  // of splitmix64
  k = (k + 1) * UINT64_C(0x9e3779b97f4a7c15);
  k = (k ^ k >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  k = (k ^ k >> 27) * UINT64_C(0x94d049bb133111eb);
  return k ^ k >> 31;
}

// Pairs by turns: any two floats; a power that is a float in all likelihood; a small whole or half exponent; a base
// near 1; special values.
static void make_pair(uint64_t k, float *x, float *z) {
  static const float special[] = {0,     -0.0f,  1,        -1,       2,    -2,     3,           -3,
                                  0.5f,  -0.5f,  1e-45f,   -1e-45f,  1e9f, -1e9f,  INFINITY,    -INFINITY,
                                  1e38f, 1e-38f, 16777215, 16777216, NAN,  -1e38f, 0.99999994f, 1.0000001f};
  const uint32_t n_special = sizeof special / sizeof *special;
  uint64_t r = scramble(k);
  *x = float_of((uint32_t)r), *z = float_of((uint32_t)(r >> 32));
  double u = (double)(r >> 40) * 0x1p-24;
  switch (k % 8) {
  case 0: break;
  case 1: *x = special[r % n_special], *z = special[(r >> 32) % n_special]; break;
  case 2: *z = special[(r >> 32) % n_special]; break;
  case 3: *z = (float)((int)(r >> 58) - 32) * 0.5f; break;
  case 4:
    *x = 1 + (float)((int)(r & 0xffff) - 0x8000) * 0x1p-23f;  // and on
  // fall through
  default: *x = fabsf(*x), *z = (float)((u * 280 - 152) / log2(*x));
  }
}

static void fill(Worker *w, uint64_t chunk) {
  const Sweep *s = w->sweep;
  uint64_t first = chunk * CHUNK;
  for (uint64_t k = 0; k < CHUNK && s->word->exact; k++) w->x[k] = float_of((uint32_t)((first + k) * s->stride));
  for (uint64_t k = 0; k < CHUNK && s->word->exact; k++) w->exact[k] = s->word->exact(w->x[k]);
  for (uint64_t k = 0; k < CHUNK && s->word->exact_of_two; k++) {
    make_pair((first + k) * s->stride, &w->x[k], &w->z[k]);
    w->exact[k] = s->word->exact_of_two(w->x[k], w->z[k]);
  }
}

static void *work(void *arg) {
  Worker *w = arg;
  Sweep *s = w->sweep;
  void *in[] = {w->x, w->z}, *out[] = {w->y};
  for (uint64_t chunk; (chunk = atomic_fetch_add(&s->next, 1)) < s->n_chunks;) {
    fill(w, chunk);
    for (uint32_t v = 0; v < s->n_variants; v++) {
      TnFrame frame = {.in = in, .out = out};
      if (!s->variant[v].run) continue;
      s->variant[v].run(&frame, 0, 1);
      compare(&w->worst[v], w);
    }
  }
  return NULL;
}

static void run_all(Sweep *s, Worker *workers, uint32_t n) {
  pthread_t thread[MAX_THREADS];
  bool started[MAX_THREADS] = {false};
  for (uint32_t k = 0; k < n; k++) workers[k].sweep = s;
  for (uint32_t k = 1; k < n; k++) started[k] = !pthread_create(&thread[k], NULL, work, &workers[k]);
  work(&workers[0]);
  for (uint32_t k = 1; k < n; k++)
    if (started[k]) pthread_join(thread[k], NULL);
  for (uint32_t k = 1; k < n; k++)
    for (uint32_t v = 0; v < s->n_variants; v++)
      if (workers[k].worst[v].most > workers[0].worst[v].most) workers[0].worst[v] = workers[k].worst[v];
}

static void print(const Word *w, const Worst *worst, double limit) {
  char at[64];
  snprintf(at, sizeof at, w->exact ? "%.9g" : "%.9g, %.9g", (double)worst->x, (double)worst->z);
  printf("  %8.3f at %-24s", worst->most, at);
  if (!(worst->most <= limit)) printf(" (the limit is %g)", limit);
}

static bool report(const Sweep *s, const Worst *worst) {
  bool good = true;
  for (uint32_t v = 0; v < s->n_variants; v += 2) {
    printf("%-9s %-8s", s->word->name, s->variant[v].target.name);
    print(s->word, &worst[v], s->word->limit);
    if (s->variant[v + 1].run) print(s->word, &worst[v + 1], s->word->fast_math);
    printf("\n");
    good &= worst[v].most <= s->word->limit && worst[v + 1].most <= s->word->fast_math;
  }
  fflush(stdout);
  return good;
}

static bool measure(const Word *w, uint64_t stride, uint32_t n_threads) {
  RtArena *mem = rt_arena_new();
  Worker *workers = calloc(n_threads, sizeof *workers);
  uint64_t n_floats = (UINT64_C(1) << 32) / stride / (w->exact ? 1 : 16);
  Sweep s = {.word = w, .stride = stride, .n_chunks = (n_floats + CHUNK - 1) / CHUNK};
  bool good = mem && workers && (s.n_variants = compile_all(mem, w, s.variant)) > 0;
  if (good) {
    run_all(&s, workers, n_threads);
    good = report(&s, workers[0].worst);
  } else fprintf(stderr, "ulp: %s could not be compiled\n", w->name);
  for (uint32_t v = 0; v < s.n_variants; v++) drop(&s.variant[v]);
  free(workers);
  rt_arena_free(mem);
  return good;
}

// ---- time
static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double least_us(const Variant *v, Worker *w) {
  void *in[] = {w->x, w->z}, *out[] = {w->y};
  double least = INFINITY;
  for (int k = 0; k < 300; k++) {
    TnFrame frame = {.in = in, .out = out};
    double start = now_us();
    v->run(&frame, 0, 1);
    least = fmin(least, now_us() - start);
  }
  return least;
}

static void fill_normal(Worker *w) {
  for (uint64_t k = 0; k < CHUNK; k++) {
    double sum = 0;  // of 12 numbers in [0, 1): variance 1
    for (uint64_t j = 0; j < 12; j++) sum += (double)(scramble(12 * k + j) >> 11) * 0x1p-53;
    w->x[k] = (float)(sum - 6), w->z[k] = 2.5f;
  }
}

static bool time_word(const Word *w) {
  RtArena *mem = rt_arena_new();
  Worker *worker = calloc(1, sizeof *worker);
  Variant variant[MAX_VARIANTS];
  uint32_t n = mem && worker ? compile_all(mem, w, variant) : 0;
  if (n) {
    fill_normal(worker);
    printf("%-9s", w->name);
  } else fprintf(stderr, "ulp: %s could not be compiled\n", w->name);
  for (uint32_t v = 0; v < n; v++) {
    const Variant *timed = variant[v].run ? &variant[v] : &variant[v - 1];
    printf("  %s %.1f%s", v % 2 ? "fast" : variant[v].target.name, least_us(timed, worker), v + 1 == n ? "\n" : "");
  }
  for (uint32_t v = 0; v < n; v++) drop(&variant[v]);
  free(worker);
  rt_arena_free(mem);
  return n > 0;
}

int main(int argc, char **argv) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  const char *only = "all";
  uint64_t stride = 1;
  bool timed = false;
  for (int k = 1, place = 0; k < argc; k++) {
    if (!strcmp(argv[k], "-j") && k + 1 < argc) n = atol(argv[++k]);
    else if (place++ == 0) only = argv[k];
    else if (!strcmp(argv[k], "time")) timed = true;
    else stride = strtoull(argv[k], NULL, 10);
  }
  uint32_t n_threads = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (uint32_t)n;
  bool good = true, found = false;
  for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
    if (strcmp(only, words[k].name) && strcmp(only, "all")) continue;
    good &= timed ? time_word(&words[k]) : measure(&words[k], stride ? stride : 1, n_threads);
    found = true;
  }
  if (!found) fprintf(stderr, "usage: ulp [WORD | all] [STRIDE] [-j THREADS]; there is no word '%s'\n", only);
  return !good || !found;
}
