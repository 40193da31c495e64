// Work of attention on packed rows by worker, counted, not timed: code runs as one worker of a team whose others do nothing, and
// results say which pairs of a query and a key it met. No worker has much more than the mean, also where one sequence is long.
//
// Forward: a unit writes its rows; v is 1, so is the result, and a row stands for the keys that its query sees. Backward: q is 0,
// so that P is 1 / n for each of the n keys that a query sees; where its g is n and lse ln n, dv is the number of queries that a
// key met. The worker finds zeros there of those that others would have computed. At a barrier all wait for the slowest: what
// counts is the sum of the slowest of each round.
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/entry.h"

#include <math.h>
#include <stdlib.h>

enum { B = 64, H = 8, D = 1 };
static const int32_t workers[] = {2, 3, 5, 6, 7, 8};  // of 1 and 4 nothing new
static const double most = 1.15;                      // slowest by mean

typedef struct {
  const char *note;
  int64_t (*length)(int64_t b);
  bool causal;
} Case;

static double uniform(int64_t b, uint32_t seed) {
  uint32_t h = (uint32_t)b * 2654435761u + seed * 40503u;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
  return (double)(h >> 8) * 0x1p-24;
}

static int64_t lognormal(int64_t b) {
  double z = -6;
  for (int64_t k = 0; k < 12; k++) z += uniform(12 * b + k, 7);
  double n = exp(3.4 + 0.7 * z);
  return b == 20 || n > 200 ? 200 : n < 1 ? 1 : (int64_t)n;
}
static int64_t even(int64_t b) { return 16 + (int64_t)(497 * uniform(b, 8)); }
static int64_t one_long(int64_t b) { return b == 20 ? 2048 : 10 + (int64_t)(31 * uniform(b, 9)); }
static int64_t equal(int64_t b) { return b < 0 ? 0 : 128; }

static const Case cases[] = {{"log-normal", lognormal, false},
                             {"uniform, causal", even, true},
                             {"one long", one_long, false},
                             {"one long, causal", one_long, true},
                             {"equal", equal, false}};

typedef struct {
  const Case *c;
  RtArena *mem;
  int64_t rows, time, n[B];
  float *seen;  // by row: how many keys its query sees
} Batch;

static int order(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

static Batch batch_of(const Case *c, RtArena *mem) {
  Batch x = {.c = c, .mem = mem};
  int64_t sorted[B];
  for (int64_t b = 0; b < B; b++) sorted[b] = x.n[b] = c->length(b), x.rows += x.n[b];
  qsort(sorted, B, sizeof *sorted, order);
  x.time = sorted[0], x.seen = rt_alloc(mem, (size_t)x.rows * sizeof *x.seen);
  float *seen = x.seen;
  for (int64_t t = 0; t < x.time; t++)  // rows stand by step, those of the longest sequence first
    for (int64_t k = 0; k < B && t < sorted[k]; k++) *seen++ = (float)(c->causal ? t + 1 : sorted[k]);
  return x;
}

static const char *text_of(const Batch *x, bool backward) {
  static const char *const names[] = {"q", "k", "v", "g", "o", "s"};
  RtText t = {.mem = x->mem};
  rt_text_add(&t, "program @shares\nfunc @f() {\n  %%L = packed_layout {time=%lld, rows=%lld, lengths=[",
              (long long)x->time, (long long)x->rows);
  for (int64_t b = 0; b < B; b++) rt_text_add(&t, "%s%lld", b ? "," : "", (long long)x->n[b]);
  rt_text_add(&t, "]}\n");
  for (int k = 0; k < (backward ? 5 : 3); k++)
    rt_text_add(&t, "  %%%s = input {index=%d} : f32[%lld,%d,%d]\n", names[k], k, (long long)x->rows, H, D);
  if (backward) rt_text_add(&t, "  %%s = input {index=5} : f32[%d,%lld]\n", H, (long long)x->rows);
  rt_text_add(&t,
              backward ? "  %%a, %%b, %%y = sdpa_grad %%q, %%k, %%v, out=%%o, lse=%%s, g=%%g, layout=%%L%s\n"
                       : "  %%y, %%z = sdpa %%q, %%k, %%v, layout=%%L%s\n",
              x->c->causal ? " {causal}" : "");
  for (int k = 0; k < (backward ? 3 : 1); k++)
    rt_text_add(&t, "  output %%%s {name=\"%s\", index=%d}\n", k == 0 ? "y" : names[k - 1], names[k], k);
  rt_text_add(&t, "}\n");
  return t.text;
}

// f(row) in each element of the rows, or by head.
static float *filled(const Batch *x, bool by_head, float (*f)(float seen)) {
  int64_t n = by_head ? H : H * D;
  float *v = (void *)new_block(x->mem, x->rows * n * 4).at;
  for (int64_t i = 0; i < x->rows * n; i++) v[i] = f(x->seen[by_head ? i % x->rows : i / n]);
  return v;
}
static float zero(float seen) { return 0 * seen; }
static float one(float seen) { return 1 + 0 * seen; }
static float as_it_is(float seen) { return seen; }

enum { MOST_ROUNDS = 64 };
typedef struct {
  CgJit *jit;
  TnEntry entry;
  TnFrame frame;
  const Batch *x;
  float *y;
  bool backward;
  int n_rounds;
  double pairs[MOST_ROUNDS + 1];  // met before the end of each
} Code;

// Where a round ends.
static void note_pairs(Code *code) {
  const Batch *x = code->x;
  double sum = 0;
  for (int64_t i = 0; i < x->rows * H * D; i += D) sum += code->y[i] * (code->backward ? 1 : x->seen[i / (H * D)]);
  if (CHECK(code->n_rounds < MOST_ROUNDS)) code->pairs[++code->n_rounds] = sum;
}

static void barrier(TnFrame *f, int32_t which, int32_t count) {
  (void)which, (void)count;
  note_pairs(f->team);
}
static const TnServices services = {.barrier = barrier};

static bool compile(const Batch *x, bool backward, const Target *t, Code *code) {
  const char *text = text_of(x, backward);
  RtDiags diags = {.mem = x->mem};
  RtText why = {.mem = x->mem};
  Prog *p = ir_parse(x->mem, text, strlen(text), "shares.tir", &diags);
  if (!CHECK(p)) return rt_diags_print(&diags, stdout), false;
  cg_plan_for(p, t);
  if (!CHECK(ir_run_passes(p->fns[0], NULL, NULL, NULL) && ir_plan_program_memory(p))) return false;
  code->jit = entry_jit(p, t, &why);
  if (!CHECK(code->jit)) return printf("%s\n", why.text), false;
  code->entry = entry_find(code->jit, cg_symbol(x->mem, p, p->fns[0]));
  code->frame.seg[SEG_ARENA] = new_block(x->mem, p->fns[0]->stats.peak_bytes + 1).at;
  code->frame.seg[SEG_CONST] = new_block(x->mem, p->const_bytes).at;
  ir_fill_const(p, code->frame.seg[SEG_CONST]);
  return true;
}

static void run(Code *code, int32_t worker, int32_t n) {
  memset(code->y, 0, (size_t)(code->x->rows * H * D) * sizeof *code->y);
  code->n_rounds = 0;
  code->entry(&code->frame, worker, n);
  note_pairs(code);
}

// Sum of all pairs that n workers meet; *slowest: the sum over rounds of the most that one of them meets.
static double share(Code *code, int32_t n, double *slowest) {
  double sum = 0, in_round[MOST_ROUNDS] = {0};
  for (int32_t w = 0; w < n; w++) {
    run(code, w, n);
    for (int k = 0; k < code->n_rounds; k++) in_round[k] = fmax(in_round[k], code->pairs[k + 1] - code->pairs[k]);
    sum += code->pairs[code->n_rounds];
  }
  *slowest = 0;
  for (int k = 0; k < code->n_rounds; k++) *slowest += in_round[k];
  return sum;
}

static void count(const Batch *x, bool backward, const Target *t) {
  Code code = {.x = x, .backward = backward};
  if (!compile(x, backward, t, &code)) return;
  float *zeros = filled(x, false, zero), *ones = filled(x, false, one);
  void *in[] = {zeros, ones, ones, filled(x, false, as_it_is), zeros, filled(x, true, logf)};
  void *out[] = {code.y = filled(x, false, zero), filled(x, false, zero), filled(x, false, zero)};
  TnKernelStatus status = {0};
  code.frame.in = in, code.frame.out = out, code.frame.svc = &services, code.frame.status = &status;
  code.frame.team = &code;
  double all = 0, slowest;
  for (int64_t i = 0; i < x->rows; i++) all += H * x->seen[i];
  for (size_t k = 0; k < sizeof workers / sizeof *workers; k++) {
    int32_t n = workers[k];
    double sum = share(&code, n, &slowest);
    if (!CHECK(fabs(sum - all) < 1e-4 * all)) printf("%s: %.0f pairs of %.0f\n", x->c->note, sum, all);
    if (!CHECK(slowest <= most * sum / n))
      printf("%s, %s, %d workers: %.3f of the mean\n", x->c->note, backward ? "backward" : "forward", n,
             slowest * n / sum);
  }
  cg_jit_free(code.jit);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  Target target;
  if (!CHECK(cg_target_host(&target, &(RtText){.mem = mem}))) return check_report();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    RtArena *own = rt_arena_new();
    Batch x = batch_of(&cases[k], own);
    count(&x, false, &target);
    count(&x, true, &target);
    rt_arena_free(own);
  }
  rt_arena_free(mem);
  return check_report();
}
