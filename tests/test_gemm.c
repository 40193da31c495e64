// Matrix products with what stands before and behind them, over odd shapes, transposes, batches and targets: against
// the interpreter, with 1 to 4 workers, which must agree in every bit, and how many kernels it takes. What stands
// before a product gives the same bits as if it were stored. Operands are small integers, so that sums are exact in any
// order and nothing hides in a tolerance.
#include "codegen/product/product.h"
#include "ir/interp/interpret.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/entry.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_WORKERS = 4, MAX_IN = 6, MAX_OUT = 3, GUARD = 16 };

// ---- programs
typedef enum { PLAIN, BIAS_GELU, RESIDUAL_KEPT, SCALED_DROPOUT, GATED, N_TAILS } Tail;
static const char *const tail_text[N_TAILS] = {
    "output %h {name=\"y\", index=0}\n",
    "%b = add %h, %row\n%g = gelu %b\noutput %g {name=\"y\", index=0}\n",
    "%s = add %h, %res\n%r = relu %s\noutput %r {name=\"y\", index=0}\noutput %h {name=\"h\", index=1}\n",
    "%c = mul %h, %col\n%b = add %c, %row\n%d = dropout %b {p=0.5, id=3}\noutput %d {name=\"y\", index=0}\n",
    "%i = OP\n%s = silu %h\n%g = mul %s, %i\noutput %g {name=\"y\", index=0}\n",
};

// What makes the operand that a product reads by rows, %X; NONE: it is the input
typedef enum { NONE, SCALED, DROPPED, LOOKED_UP, N_HEADS } Head;
static const char *const head_text[N_HEADS] = {
    "",
    "%half = const {value=0.5}\n%less = mul %X, %half\n%made = add %less, %X\n",
    "%made = dropout %X {p=0.5, id=9}\n",
    "%made = embedding %X, %index\n",
};

typedef struct {
  int64_t m, n, k, batch;  // batch 0: none
  bool ta, tb;
  Tail tail;
  int64_t bound;    // of a named dim for m; 0: m is constant
  int64_t k_bound;  // likewise for k; one of them at most
} Case;

static const char *k_of(const Case *c, RtArena *mem) {
  return c->k_bound ? "k" : rt_printf(mem, "%lld", (long long)c->k);
}

static const char *rows_of(const Case *c, RtArena *mem) {
  return c->bound ? "m" : rt_printf(mem, "%lld", (long long)c->m);
}

// The product that is tried: weight: w is a parameter, of which there may be a packed copy; kept: what `head` makes is
// an output too, so that it is stored.
typedef struct {
  bool weight, kept;
  Head head;
} Way;

static void replace_all(RtText *out, const char *text, const char *what, const char *by) {
  for (const char *at; (at = strstr(text, what)); text = at + strlen(what)) {
    rt_text_put(out, text, (size_t)(at - text));
    rt_text_add(out, "%s", by);
  }
  rt_text_add(out, "%s", text);
}

static const char *program_text(const Case *c, Way way, RtArena *mem) {
  bool weight = way.weight;
  const char *m = rows_of(c, mem), *batch = c->batch ? rt_printf(mem, "%lld,", (long long)c->batch) : "";
  RtText t = {.mem = mem};
  rt_text_add(&t, "program @p\n");
  if (c->bound) rt_text_add(&t, "dim m <= %lld\n", (long long)c->bound);
  if (c->k_bound) rt_text_add(&t, "dim k <= %lld\n", (long long)c->k_bound);
  const char *k = k_of(c, mem);
  const char *w = c->tb ? rt_printf(mem, "f32[%s%lld,%s]", batch, (long long)c->n, k)
                        : rt_printf(mem, "f32[%s%s,%lld]", batch, k, (long long)c->n);
  if (weight) rt_text_add(&t, "param @w : %s trainable\n", w);
  rt_text_add(&t, "func @f(");
  if (c->ta) rt_text_add(&t, "%%a: f32[%s%s,%s], ", batch, k, m);
  else rt_text_add(&t, "%%a: f32[%s%s,%s], ", batch, m, k);
  rt_text_add(&t, weight ? "%%unused: %s, " : "%%w: %s, ", w);
  if (way.head) rt_text_add(&t, "%%index: i64[%s], ", c->ta ? k : m);
  rt_text_add(&t, "%%row: f32[%lld], %%res: f32[%s%s,%lld], %%col: f32[%s%s,1]) {\n", (long long)c->n, batch, m,
              (long long)c->n, batch, m);
  if (weight) rt_text_add(&t, "%%w = param @w : %s\n", w);
  replace_all(&t, head_text[way.head], "%X", c->ta ? "%w" : "%a");
  if (way.kept) rt_text_add(&t, "output %%made {name=\"made\", index=%d}\n", c->tail == RESIDUAL_KEPT ? 2 : 1);
  const char *a = way.head && !c->ta ? "made" : "a", *b = way.head && c->ta ? "made" : "w";
  const char *flags = c->ta && c->tb ? " {ta, tb}" : c->ta ? " {ta}" : c->tb ? " {tb}" : "";
  bool linear = c->tb && !c->ta && !c->batch && c->tail != PLAIN;
  const char *product =
      linear ? rt_printf(mem, "linear %%%s, %%w, %%row", a) : rt_printf(mem, "matmul %%%s, %%%s%s", a, b, flags);
  rt_text_add(&t, "%%h = %s\n", product);
  const char *tail = tail_text[c->tail], *op = strstr(tail, "OP");
  if (op) rt_text_add(&t, "%%a2 = neg %%a\n%%i = %s%s", linear ? "linear %a2, %w, %row" : "matmul %a2, %w", op + 2);
  else rt_text_add(&t, "%s", tail);
  rt_text_add(&t, "}\n");
  return t.text;
}

static int64_t slot_of(const Case *c) { return c->k_bound ? c->k : c->m; }  // of the named dim

// ---- a compiled case
typedef struct {
  const Case *c;
  Way way;
  const Target *target;
  RtArena *mem;
  Prog *p;
  Fn *f;
  CgJit *jit;
  TnEntry entry, pack;  // pack: NULL where no weight is packed
  void *in[MAX_IN];
  int64_t n_out, n_outs, n_made;  // elements of the product, and of what is made; outputs of the product's size
  double *want[MAX_OUT];
} Run;

static RtTeam *teams[MAX_WORKERS + 1];

static bool compile(Run *r) {
  const char *text = program_text(r->c, r->way, r->mem);
  RtDiags diags = {.mem = r->mem};
  RtText why = {.mem = r->mem};
  r->p = ir_parse(r->mem, text, strlen(text), "gemm.tir", &diags);
  if (!CHECK(r->p)) return printf("%s\n", text), false;
  r->f = r->p->fns[0];
  r->p->packs_weights = true;
  cg_plan_for(r->p, r->target);
  bool ok = ir_run_passes(r->f, NULL, NULL, NULL) && ir_plan_program_memory(r->p);
  r->jit = ok ? entry_jit(r->p, r->target, &why) : NULL;
  if (!CHECK(r->jit)) return printf("%s\n%s\n", text, why.text ? why.text : ""), false;
  r->entry = entry_find(r->jit, cg_symbol(r->mem, r->p, r->f));
  r->pack = r->p->n_packed_weights ? entry_find(r->jit, cg_packed_weights_symbol(r->mem, r->p)) : NULL;
  return CHECK(r->entry);
}

static void fill_inputs(Run *r) {
  const Case *c = r->c;
  int64_t batch = c->batch ? c->batch : 1;
  int64_t size[] = {batch * c->m * c->k, batch * c->n * c->k, c->n, batch * c->m * c->n, batch * c->m};
  uint32_t state = 12345, i = 0;
  for (uint32_t k = 0; k < 5; k++) {
    float *x = r->in[i++] = rt_alloc(r->mem, (size_t)(size[k] + 1) * sizeof(float));
    for (int64_t e = 0; e < size[k]; e++) {
      state = state * 1664525 + 1013904223;
      x[e] = (float)((int32_t)(state >> 24) % 5 - 2);
    }
    if (k != 1 || !r->way.head) continue;
    int64_t rows = c->ta ? c->k : c->m, *index = r->in[i++] = rt_alloc(r->mem, (size_t)(rows + 1) * sizeof *index);
    for (int64_t e = 0; e < rows; e++) index[e] = (e * 7 + 3) % rows;
  }
  r->n_out = size[3], r->n_made = size[c->ta ? 1 : 0];
}

static bool interpret(Run *r) {
  Tensor in[MAX_IN], out[MAX_OUT] = {{0}};
  int64_t slot = slot_of(r->c);
  uint32_t n = 0;
  for (uint32_t i = 1; i < r->f->n_ins; i++) {
    const Ins *ins = &r->f->ins[i];
    if (ins->op != OP_input) continue;
    int64_t size = ir_shape_eval(r->p, ins->shape, &slot);
    in[n] = (Tensor){.v = rt_alloc(r->mem, (size_t)(size + 1) * sizeof(double)), .n = size};
    for (int64_t e = 0; e < size; e++)
      in[n].v[e] = ins->dtype == DT_I64 ? (double)((int64_t *)r->in[n])[e] : (double)((float *)r->in[n])[e];
    n++;
  }
  InterpEnv env = {.slots = &slot, .params = &in[1], .in = in, .out = out, .seed = 7, .counter = 3, .mem = r->mem};
  RtText why = {.mem = r->mem};
  if (!CHECK(ir_interpret(r->f, &env, &why))) return printf("%s\n", why.text), false;
  r->n_outs = r->c->tail == RESIDUAL_KEPT ? 2 : 1;
  for (int64_t k = 0; k < r->n_outs; k++) r->want[k] = out[k].v;
  return true;
}

static void run(const Run *r, uint32_t n_workers, float *out[MAX_OUT]) {
  int64_t dim = slot_of(r->c);
  void *to[MAX_OUT];
  int64_t most = r->n_out > r->n_made ? r->n_out : r->n_made;
  for (uint32_t k = 0; k < MAX_OUT; k++) to[k] = out[k] = (void *)new_block(r->mem, (most + GUARD) * 4).at;
  TnKernelStatus status = {0};
  TnFrame frame = {.in = (void **)(uintptr_t)r->in,
                   .out = to,
                   .dims = &dim,
                   .seed = 7,
                   .counter = 3,
                   .status = &status,
                   .team = teams[n_workers],
                   .blocks = worker_blocks(r->target->worker_bytes, n_workers)};
  frame.seg[SEG_ARENA] = new_block(r->mem, r->f->stats.peak_bytes).at;
  frame.seg[SEG_CONST] = new_block(r->mem, r->p->const_bytes).at;
  frame.seg[SEG_PARAM] = (unsigned char *)r->in[1];
  frame.seg[SEG_PACKED] = new_block(r->mem, r->p->packed_bytes).at;
  frame.stale = (const uint8_t[]){1};
  if (r->pack) run_entry(r->pack, &frame);
  run_entry(r->entry, &frame);
}

static void describe(const Run *r, const char *what) {
  const Case *c = r->c;
  printf("%s: %s m %lld n %lld k %lld batch %lld%s%s tail %d bound %lld, %lld%s\n", what, r->target->name,
         (long long)c->m, (long long)c->n, (long long)c->k, (long long)c->batch, c->ta ? " ta" : "", c->tb ? " tb" : "",
         (int)c->tail, (long long)c->bound, (long long)c->k_bound, r->way.weight ? " packed" : "");
}

static bool agrees(const Run *r, const float *got, const double *want) {
  bool exact = r->c->tail != BIAS_GELU && r->c->tail != GATED;
  for (int64_t e = 0; e < r->n_out; e++)
    if (!(fabs((double)got[e] - want[e]) <= (exact ? 0 : 2e-6 * (1 + fabs(want[e]))))) {
      printf("element %lld: %g, not %g\n", (long long)e, (double)got[e], want[e]);
      return false;
    }
  for (int64_t e = r->n_out; e < r->n_out + GUARD; e++)
    if (got[e] == got[e]) return printf("written behind the result\n"), false;  // still NaN
  return true;
}

// Small, or read by a narrow product.
static bool is_made(const Case *c) {
  int64_t m = c->bound ? c->bound : c->m, k = c->k_bound ? c->k_bound : c->k;
  return !c->ta && !c->batch && (m * k <= 16 * 1024 || (c->n <= 32 && k <= 448));
}

// What follows a product runs in its kernel; what makes its rows does too, if it may.
static Val product_of(const Fn *f) {
  Val v = {1};
  while (!ir_is_product(f, v)) v.i++;
  return v;
}

// Of rows of up to 4 elements, or 8 where it is no cheap op, what follows is a kernel of its own.
static bool is_short(const Case *c) {
  int64_t m = c->bound ? c->bound : c->m, most = c->tail == BIAS_GELU || c->tail == SCALED_DROPOUT ? 8 : 4;
  return c->tail != PLAIN && c->n <= most && m * (c->batch ? c->batch : 1) >= 128;
}

static uint32_t kernels_of(const Case *c) {
  if (c->tail != GATED) return 1 + is_short(c);
  return is_made(c) ? 2 : 3;  // neg, two products
}

static bool compile_way(Run *r, uint32_t kernels) {
  if (!compile(r)) return false;
  bool fits = r->way.kept ? r->f->n_kernels > kernels : r->f->n_kernels == kernels;
  if (!CHECK(fits)) describe(r, "kernels");
  bool by_parts = cg_gemm_plan(r->f, product_of(r->f), r->target).parts;  // they take a weight as it is stored
  if (!CHECK(r->p->n_packed_weights == (r->way.weight && !by_parts))) describe(r, "packed weights");
  return true;
}

// outs: of one worker.
static bool check_values(Run *r, float *outs[MAX_OUT]) {
  fill_inputs(r);
  if (!interpret(r)) return false;
  float *more[MAX_OUT];
  run(r, 1, outs);
  for (int64_t k = 0; k < r->n_outs; k++)
    if (!CHECK(agrees(r, outs[k], r->want[k]))) describe(r, "values");
  for (uint32_t n = 2; n <= MAX_WORKERS; n++) {
    run(r, n, more);
    for (int64_t k = 0; k < r->n_outs; k++)
      if (!CHECK(!memcmp(outs[k], more[k], (size_t)r->n_out * 4))) describe(r, "workers differ");
  }
  return true;
}

static bool check_way(Run *r, uint32_t kernels, float *outs[MAX_OUT]) {
  return compile_way(r, kernels) && check_values(r, outs);
}

static void check_case(const Case *c, bool weight, const Target *t) {
  Run r = {.c = c, .way.weight = weight, .target = t, .mem = rt_arena_new()};
  float *outs[MAX_OUT];
  check_way(&r, kernels_of(c), outs);
  cg_jit_free(r.jit);
  rt_arena_free(r.mem);
}

// An operand that is made in the product's kernel, and the same one stored before it.
static void check_made(const Case *c, Head head, bool weight, const Target *t) {
  Run made = {.c = c, .way = {weight, false, head}, .target = t, .mem = rt_arena_new()}, kept = made;
  float *a[MAX_OUT], *b[MAX_OUT];
  kept.way.kept = true;
  bool ok = check_way(&made, kernels_of(c), a) && check_way(&kept, kernels_of(c), b);
  if (ok && !CHECK(!memcmp(a[0], b[0], (size_t)made.n_out * 4))) describe(&made, "made and stored differ");
  cg_jit_free(made.jit), cg_jit_free(kept.jit);
  rt_arena_free(made.mem);
}

// clang-format off
static const Case cases[] = {  // m n k batch ta tb tail bound, of k
    // few rows: dot products
    {1, 1, 33, 0, false, true, PLAIN, 0, 0},        {1, 100, 260, 0, false, true, BIAS_GELU, 0, 0},
    {3, 37, 65, 0, false, true, RESIDUAL_KEPT, 0, 0}, {8, 50, 300, 0, false, true, SCALED_DROPOUT, 0, 0},
    {13, 33, 40, 0, false, true, PLAIN, 0, 0},      {16, 257, 129, 0, false, true, BIAS_GELU, 0, 0},
    {5, 70, 100, 0, false, true, GATED, 11, 0},     {0, 70, 100, 0, false, true, PLAIN, 11, 0},
    // one row, small: no sum leaves its register before it is done
    {1, 37, 70, 0, false, true, RESIDUAL_KEPT, 0, 0}, {1, 32, 16, 0, false, true, BIAS_GELU, 0, 0},
    {1, 9, 48, 0, false, true, GATED, 0, 0},          {1, 100, 20, 0, false, true, SCALED_DROPOUT, 0, 0},
    // one row, larger: one stream
    {1, 301, 130, 0, false, true, RESIDUAL_KEPT, 0, 0}, {1, 70, 1000, 0, false, true, PLAIN, 0, 0},
    {1, 40, 3001, 0, false, true, BIAS_GELU, 0, 0},     {1, 500, 530, 0, false, true, GATED, 0, 0},
    {1, 160, 300, 0, false, true, SCALED_DROPOUT, 1, 0},
    // few rows, B from memory by the smallest target: one stream
    {2, 70, 100, 0, false, true, PLAIN, 0, 0},  {3, 90, 129, 0, false, true, BIAS_GELU, 0, 0},
    {4, 65, 200, 0, false, true, GATED, 0, 0},  {2, 50, 301, 0, false, true, SCALED_DROPOUT, 4, 0},
    {0, 50, 301, 0, false, true, RESIDUAL_KEPT, 3, 0},
    // likewise by several streams, where the target has them: shares that they do not divide, partial sums
    {2, 150, 129, 0, false, true, BIAS_GELU, 0, 0}, {3, 141, 100, 0, false, true, GATED, 0, 0},
    {4, 200, 75, 0, false, true, RESIDUAL_KEPT, 0, 0}, {3, 137, 301, 0, false, true, SCALED_DROPOUT, 4, 0},
    {0, 150, 301, 0, false, true, PLAIN, 2, 0}, {1, 139, 2111, 0, false, true, RESIDUAL_KEPT, 0, 0},
    // few rows, stored [K, N]: rows of B at once and those left over, blocks of columns, wide panels
    {1, 300, 50, 0, false, false, BIAS_GELU, 0, 0}, {3, 131, 77, 0, false, false, PLAIN, 0, 0},
    {1, 9001, 11, 0, false, false, RESIDUAL_KEPT, 0, 0}, {4, 2500, 17, 0, false, false, SCALED_DROPOUT, 0, 0},
    {2, 400, 130, 0, false, false, GATED, 0, 0}, {4, 129, 7, 0, false, false, BIAS_GELU, 0, 0},
    {2, 150, 66, 0, false, false, PLAIN, 4, 0}, {0, 150, 66, 0, false, false, RESIDUAL_KEPT, 3, 0},
    {1, 200, 333, 0, false, false, SCALED_DROPOUT, 1, 0},
    {6, 90, 20, 0, false, false, RESIDUAL_KEPT, 7, 0},
    // few accumulators: several chains of additions; a k of 1, stored either way
    {1, 8, 131, 0, false, false, BIAS_GELU, 0, 0}, {2, 17, 67, 0, false, false, RESIDUAL_KEPT, 0, 0},
    {3, 3, 1001, 0, false, false, PLAIN, 0, 0}, {2, 21, 5000, 0, false, false, SCALED_DROPOUT, 3, 0},
    {1, 5, 90, 4, false, false, PLAIN, 0, 0}, {2, 10, 300, 0, true, false, PLAIN, 0, 0},
    {3, 100, 1, 0, false, true, RESIDUAL_KEPT, 0, 0}, {70, 33, 1, 0, true, true, PLAIN, 0, 0},
    {5, 40, 1, 3, true, false, PLAIN, 0, 0}, {200, 90, 1, 0, false, true, BIAS_GELU, 0, 0},
    // panels packed by their worker, one block of k and several
    {29, 45, 70, 0, false, true, RESIDUAL_KEPT, 0, 0}, {100, 65, 1100, 0, false, true, BIAS_GELU, 0, 0},
    {61, 200, 1060, 0, false, false, SCALED_DROPOUT, 0, 0}, {31, 50, 1200, 0, false, true, PLAIN, 0, 0},
    {37, 40, 333, 0, false, true, PLAIN, 90, 0},
    {19, 33, 48, 3, false, true, SCALED_DROPOUT, 0, 0}, {200, 64, 512, 0, false, true, BIAS_GELU, 0, 0},
    {70, 35, 300, 2, false, true, RESIDUAL_KEPT, 0, 0},
    // with more rows than wait for the epilogue; A with padded rows, copied by the team
    {300, 50, 37, 0, false, true, RESIDUAL_KEPT, 0, 0}, {270, 150, 512, 0, false, true, BIAS_GELU, 0, 0},
    {30, 400, 512, 0, false, true, RESIDUAL_KEPT, 0, 0}, {33, 420, 1024, 0, false, true, PLAIN, 0, 0},
    {263, 33, 20, 0, false, true, GATED, 300, 0},
    // likewise, copied by the worker that uses them
    {150, 70, 1024, 0, false, true, RESIDUAL_KEPT, 0, 0}, {131, 140, 1024, 0, false, false, BIAS_GELU, 0, 0},
    {90, 40, 1024, 0, false, true, PLAIN, 100, 0},
    // first operand transposed: blocks of k
    {30, 70, 600, 0, true, false, PLAIN, 0, 0},     {75, 33, 257, 0, true, false, RESIDUAL_KEPT, 0, 0},
    {100, 140, 300, 0, true, false, BIAS_GELU, 0, 0}, {17, 66, 40, 2, true, false, PLAIN, 0, 0},
    {20, 50, 31, 0, true, true, PLAIN, 0, 0},
    // likewise past several NC: sums of a micropanel complete, and a last one with fewer rows
    {23, 300, 16, 0, true, false, RESIDUAL_KEPT, 0, 0}, {52, 257, 10, 0, true, true, SCALED_DROPOUT, 0, 0},
    // both by rows of k, the second narrow: made transposed; whole squares and others, one block of k and several
    {70, 12, 60, 0, true, false, PLAIN, 0, 0},      {256, 64, 300, 0, true, false, PLAIN, 0, 0},
    {101, 33, 270, 0, true, false, PLAIN, 0, 0},    {33, 32, 100, 0, true, false, PLAIN, 0, 0},
    {25, 1, 600, 0, true, false, PLAIN, 0, 0},      {129, 128, 20, 0, true, false, PLAIN, 0, 0},
    // both by rows of k, the first narrow: read in place; groups of panels
    {33, 70, 1100, 0, true, false, PLAIN, 0, 0},    {64, 130, 1500, 0, true, false, BIAS_GELU, 0, 0},
    {128, 300, 1024, 0, true, false, PLAIN, 0, 0},  {5, 41, 1300, 0, true, false, RESIDUAL_KEPT, 0, 0},
    // few tiles of rows, and rows of B that begin a page each
    {9, 96, 70, 0, false, false, BIAS_GELU, 0, 0},  {12, 128, 33, 0, false, false, RESIDUAL_KEPT, 0, 0},
    {7, 64, 131, 0, false, false, PLAIN, 13, 0},
    // batches, nothing to pack
    {20, 24, 16, 4, false, false, BIAS_GELU, 0, 0}, {33, 65, 129, 2, false, false, RESIDUAL_KEPT, 0, 0},
    // many short rows: lanes, one matrix and batches, tails, sizes of run time; others
    {200, 3, 3, 0, false, true, BIAS_GELU, 0, 0},    {131, 4, 2, 0, false, false, RESIDUAL_KEPT, 0, 0},
    {1000, 2, 4, 0, false, true, PLAIN, 1100, 0},    {0, 3, 3, 0, false, false, RESIDUAL_KEPT, 300, 0},
    {50, 3, 3, 5, false, true, PLAIN, 0, 0},         {130, 4, 3, 3, false, false, SCALED_DROPOUT, 0, 0},
    {261, 2, 2, 2, false, false, RESIDUAL_KEPT, 0, 0}, {17, 3, 4, 9, false, true, BIAS_GELU, 0, 0},
    {300, 8, 12, 0, false, true, BIAS_GELU, 0, 0},   {300, 7, 12, 0, false, false, RESIDUAL_KEPT, 0, 0},
    {333, 1, 3, 0, false, false, PLAIN, 0, 0},       {261, 1, 12, 0, false, true, PLAIN, 0, 0},
    {0, 4, 7, 0, false, false, PLAIN, 300, 0},       {45, 2, 5, 3, false, true, PLAIN, 0, 0},
    // batches of small matrices: each in a vector, both ways of storing them
    {3, 3, 3, 70, false, true, PLAIN, 0, 0},         {2, 2, 2, 9, false, false, RESIDUAL_KEPT, 0, 0},
    {4, 4, 4, 33, true, false, SCALED_DROPOUT, 0, 0}, {3, 2, 5, 50, true, true, PLAIN, 0, 0},
    {1, 3, 4, 21, false, false, PLAIN, 0, 0},        {5, 1, 3, 100, false, true, BIAS_GELU, 0, 0},
    {140, 1, 70, 0, false, true, BIAS_GELU, 0, 0},   {6, 4, 30, 40, true, false, RESIDUAL_KEPT, 0, 0},
};
static const Case large[] = {
    // several chunks of rows, with one block of k and several
    {1500, 65, 40, 0, false, true, SCALED_DROPOUT, 0, 0}, {1100, 33, 64, 0, false, true, PLAIN, 1200, 0},
    {600, 36, 1030, 0, false, true, RESIDUAL_KEPT, 0, 0}, {560, 33, 1040, 0, false, false, PLAIN, 0, 0},
    // several blocks of k: all panels take one before the next, and wait for the epilogue in memory
    {150, 290, 1801, 0, false, true, BIAS_GELU, 0, 0}, {150, 270, 1790, 0, false, false, RESIDUAL_KEPT, 0, 0},
    {142, 260, 1920, 0, false, true, PLAIN, 160, 0},
    // B packed in several NC by the workers, A by the team: KC blocks of B from memory, tails of all kinds, sizes of run time
    {45, 900, 1603, 0, false, false, PLAIN, 0, 0}, {47, 901, 1601, 0, false, true, BIAS_GELU, 0, 0},
    {300, 450, 131, 0, false, false, SCALED_DROPOUT, 0, 0}, {1030, 420, 700, 0, false, true, RESIDUAL_KEPT, 0, 0},
    {29, 710, 790, 0, false, false, RESIDUAL_KEPT, 70, 0}, {61, 500, 300, 0, false, false, PLAIN, 0, 900},
    {61, 450, 0, 0, false, true, PLAIN, 0, 900}, {15, 385, 16, 0, false, false, BIAS_GELU, 300, 0},
    {61, 300, 900, 3, false, false, PLAIN, 0, 0}, {57, 260, 300, 2, false, true, PLAIN, 0, 0},
    // first operand transposed, several NC: one block of k, several in memory, several on the stack
    {150, 1100, 203, 0, true, false, BIAS_GELU, 0, 0}, {161, 1100, 603, 0, true, false, PLAIN, 0, 0},
    {161, 1100, 603, 0, true, false, RESIDUAL_KEPT, 0, 0}, {131, 600, 515, 2, true, false, PLAIN, 0, 0},
    {135, 1060, 300, 0, true, true, SCALED_DROPOUT, 0, 0},
    // tall ones: rows that exceed L2 beside a B that does not
    {1500, 100, 70, 0, false, true, SCALED_DROPOUT, 0, 0}, {1030, 131, 60, 0, false, false, RESIDUAL_KEPT, 0, 0},
    {1290, 110, 33, 0, false, true, PLAIN, 1400, 0}, {3000, 100, 20, 0, false, true, BIAS_GELU, 0, 0},
    // blocks of k even where nothing is packed
    {3, 20, 4500, 0, false, false, BIAS_GELU, 0, 0}, {20, 40, 5000, 0, false, false, PLAIN, 0, 0},
    {15, 34, 4200, 0, false, false, RESIDUAL_KEPT, 0, 0},
};
// Few units, and a k that is cut into slices: all ways of products, tails of a slice, most slices there are.
static const Case sliced[] = {
    {10, 16, 9000, 0, true, false, PLAIN, 0, 0},          {16, 10, 8193, 0, true, false, PLAIN, 0, 0},
    {36, 40, 8201, 0, true, false, PLAIN, 0, 0},          {10, 16, 8300, 0, true, false, BIAS_GELU, 0, 0},
    {70, 12, 8230, 0, true, false, PLAIN, 0, 0},          {40, 3, 12288, 0, true, false, PLAIN, 0, 0},
    {1, 8, 140001, 0, false, false, RESIDUAL_KEPT, 0, 0}, {5, 40, 8210, 0, false, false, BIAS_GELU, 0, 0},
    {3, 20, 9000, 0, false, true, RESIDUAL_KEPT, 0, 0},   {8, 33, 8200, 0, false, true, BIAS_GELU, 0, 0},
    {1, 5, 9000, 0, false, true, SCALED_DROPOUT, 0, 0},   {20, 9, 8203, 0, false, true, BIAS_GELU, 0, 0},
    {20, 40, 8448, 0, false, true, RESIDUAL_KEPT, 0, 0},  {12, 20, 8200, 0, true, true, PLAIN, 0, 0},
    {7, 30, 8321, 0, false, false, SCALED_DROPOUT, 11, 0}, {0, 30, 8321, 0, false, false, PLAIN, 11, 0},
    {6, 30, 8321, 0, false, true, GATED, 9, 0},           {16, 16, 33000, 0, false, false, PLAIN, 0, 0},
    {27, 9, 20003, 0, false, false, BIAS_GELU, 0, 0},     {21, 5, 24000, 0, false, true, PLAIN, 0, 0},
    {16, 7, 32768, 0, false, false, RESIDUAL_KEPT, 0, 0}, {18, 8, 32768, 0, false, false, PLAIN, 0, 0},
};
static const Case by_blas[] = {
    {70, 90, 80, 0, false, true, BIAS_GELU, 0, 0}, {65, 70, 64, 0, false, false, RESIDUAL_KEPT, 0, 0},
    {40, 33, 50, 2, false, true, SCALED_DROPOUT, 0, 0}, {50, 40, 64, 0, true, false, PLAIN, 0, 0},
};
// An operand that is made for the product: by each worker for itself, by the team, by the packing, by chunks.
static const Case with_head[] = {
    {1, 37, 70, 0, false, true, BIAS_GELU, 0, 0},      {1, 301, 1030, 0, false, true, PLAIN, 0, 0},
    {9, 40, 131, 0, false, true, RESIDUAL_KEPT, 11, 0}, {0, 40, 131, 0, false, true, PLAIN, 11, 0},
    {100, 150, 101, 0, false, true, SCALED_DROPOUT, 0, 0}, {31, 600, 512, 0, false, true, PLAIN, 0, 0},
    {60, 40, 200, 0, false, false, BIAS_GELU, 70, 0},  {3, 300, 77, 0, false, false, PLAIN, 0, 0},
    {2, 150, 300, 0, false, false, RESIDUAL_KEPT, 4, 0}, {3, 60, 130, 0, false, true, BIAS_GELU, 4, 0},
    {1, 8, 12001, 0, false, true, RESIDUAL_KEPT, 0, 0}, {70, 90, 80, 0, false, true, BIAS_GELU, 0, 0},
    {500, 20, 100, 0, false, true, RESIDUAL_KEPT, 0, 0}, {1300, 32, 448, 0, false, true, BIAS_GELU, 1400, 0},
    {700, 17, 60, 0, false, false, PLAIN, 0, 0},       {40, 150, 103, 0, true, false, BIAS_GELU, 0, 0},
    {200, 64, 110, 0, true, false, PLAIN, 0, 0},       {9, 33, 70, 0, true, false, RESIDUAL_KEPT, 0, 0},
    {17, 300, 41, 0, true, false, PLAIN, 0, 0},        {20, 9, 1500, 0, true, false, PLAIN, 0, 0},
};
// clang-format on

static void check_heads(const Target *t, Head last, bool weights) {
  for (size_t k = 0; k < sizeof with_head / sizeof *with_head; k++) {
    const Case *c = &with_head[k];
    if (!is_sampled(k, 2)) continue;
    bool packs = weights && !c->ta && cg_gemm_packs(c->bound ? c->bound : c->m, c->n, c->k, c->tb, t);
    for (Head head = SCALED; head <= last; head++) check_made(c, head, packs, t);
  }
}

// weights: every product whose weight would be packed is done so too.
static void check_all(const Case *c, size_t n, const Target *t, bool weights) {
  for (size_t k = 0; k < n; k++) {
    if (!is_sampled(k, 2)) continue;
    check_case(&c[k], false, t);
    int64_t bound = c[k].bound ? c[k].bound : c[k].m;
    bool packs =
        weights && !c[k].ta && !c[k].batch && !c[k].k_bound && cg_gemm_packs(bound, c[k].n, c[k].k, c[k].tb, t);
    if (packs) check_case(&c[k], true, t);
  }
}

// The table in docs/experiments/020-against-openblas.md.
static void test_packing(void) {
  const Target *t = cg_target_find("avx512");
  CHECK(cg_gemm_packs(4, 256, 256, true, t) && cg_gemm_packs(256, 256, 256, true, t));
  CHECK(!cg_gemm_packs(3, 1024, 1024, true, t) && !cg_gemm_packs(257, 1024, 1024, true, t));
  CHECK(!cg_gemm_packs(8, 10, 64, true, t) && !cg_gemm_packs(4, 64, 64, true, t));
  CHECK(cg_gemm_packs(15, 256, 256, false, t) && !cg_gemm_packs(14, 256, 256, false, t));
}

// A k of run-time size: no slice, one, a whole one and a little, and as many as the bound allows.
static void check_run_time_k(const Target *t) {
  static const Case of[] = {
      {5, 16, 0, 0, true, false, PLAIN, 0, 8200},          {34, 5, 0, 0, true, false, PLAIN, 0, 8200},
      {16, 36, 0, 0, true, false, PLAIN, 0, 8200},         {3, 36, 0, 0, false, false, RESIDUAL_KEPT, 0, 8200},
      {3, 20, 0, 0, false, true, BIAS_GELU, 0, 8200},      {2, 140, 0, 0, false, false, GATED, 0, 8200},
      {17, 9, 0, 0, false, true, SCALED_DROPOUT, 0, 8200}, {6, 10, 0, 0, true, true, PLAIN, 0, 8200}};
  static const int64_t k[] = {0, 7, 4096, 4097, 8200};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    Case c = of[i];
    Run r = {.c = &c, .target = t, .mem = rt_arena_new()};
    float *outs[MAX_OUT];
    bool good = compile_way(&r, kernels_of(&c));
    for (size_t j = 0; good && j < sizeof k / sizeof *k; j++) {
      c.k = k[j];
      check_values(&r, outs);
    }
    cg_jit_free(r.jit);
    rt_arena_free(r.mem);
  }
}

static int64_t split_k(int64_t units, int64_t m, int64_t n, int64_t k) {
  return cg_gemm_split_k(&(GemmPlan){.units = units, .m_max = m, .n_max = n, .k_max = k});
}

static void test_slices(void) {
  CHECK(split_k(1, 10, 16, 100000) == 4096 && split_k(7, 64, 64, 8193) == 4096);
  CHECK(split_k(1, 1, 8, 320000) == 10048 && split_k(1, 1, 8, INT64_C(1) << 40) == INT64_C(1) << 35);
  CHECK(!split_k(8, 64, 64, 100000) && !split_k(1, 129, 128, 100000) && !split_k(1, 9, 128, 8192));
}

// ---- strategies: the table in docs/gemm.md
typedef struct {
  int64_t m, n, k;
  bool ta, tb, weight;
  const char *strategy;
} Chosen;

static GemmPlan plan_of(const Chosen *of, const Target *t, RtArena *mem) {
  Case c = {.m = of->m, .n = of->n, .k = of->k, .ta = of->ta, .tb = of->tb};
  const char *text = program_text(&c, (Way){.weight = of->weight}, mem);
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text, strlen(text), "gemm.tir", &diags);
  p->packs_weights = true;
  cg_plan_for(p, t);
  CHECK(ir_run_passes(p->fns[0], NULL, NULL, NULL));
  return cg_gemm_plan(p->fns[0], product_of(p->fns[0]), t);
}

static void test_strategies(void) {
  static const Chosen of[] = {
      {1, 32, 16, false, true, false, "gemv_registers"}, {1, 256, 768, false, true, false, "gemv"},
      {1, 3072, 1024, false, true, false, "skinny"},     {11, 256, 256, false, true, false, "skinny"},
      {12, 256, 256, false, true, false, "tiled"},       {11, 256, 256, false, true, true, "tiled"},
      {512, 64, 1000, true, false, false, "at_b"},       {512, 129, 1000, true, false, false, "tiled"},
      {64, 256, 1024, true, false, false, "at_b"},       {64, 256, 1000, true, false, false, "tiled"},
      {1, 256, 768, false, false, false, "tiled"},       {4, 8192, 1024, false, false, false, "axpy"},
      {5, 8192, 1024, false, false, false, "tiled"},     {4, 128, 65536, false, false, false, "tiled"},
      {1, 8192, 1024, false, true, false, "gemv"},       {4, 8192, 1024, false, true, false, "gemv"},
      {5, 8192, 1024, false, true, false, "skinny"},     {64, 107, 64, false, false, false, "tiled"},
      {64, 106, 64, false, false, false, "tiled"},       {256, 256, 63, false, true, false, "tiled"},
      {256, 50257, 768, false, true, false, "tiled"}};
  const Target *t = cg_target_find("avx512");
  for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
    RtArena *mem = rt_arena_new();
    GemmPlan p = plan_of(&of[k], t, mem);
    if (!CHECK(!strcmp(p.strategy->name, of[k].strategy))) printf("  case %zu: %s\n", k, p.strategy->name);
    CHECK((p.pack_b == B_PREPACKED) == of[k].weight);
    p = plan_of(&of[k], cg_target_find("amx"), mem);  // the same but where parts are worth their making
    bool is_large = (of[k].m * of[k].n >= 40 * (of[k].m + of[k].n)) && of[k].k >= 64;
    bool tiled = !strcmp(of[k].strategy, "tiled");
    CHECK(!strcmp(p.strategy->name, tiled && is_large ? "amx" : of[k].strategy));
    p = plan_of(&of[k], cg_target_find("generic"), mem);
    CHECK(!strcmp(p.strategy->name, "blas") == (of[k].m * of[k].n * of[k].k >= 64 * 64 * 64));
    rt_arena_free(mem);
  }
}

// Which operands are packed, by whom, and in what blocks.
static void test_blocks(void) {
  static const struct {
    Chosen of;
    PackA pack_a;
    PackB pack_b;
    int64_t kc, nc;
  } want[] = {{{256, 3072, 768, false, false, false, NULL}, A_SHARED, B_PRIVATE, 768, 64},
              {{256, 3072, 768, false, true, false, NULL}, A_SHARED, B_PRIVATE, 768, 64},
              {{256, 768, 3072, false, false, false, NULL}, A_SHARED, B_PRIVATE, 768, 64},
              {{64, 384, 96, false, false, false, NULL}, A_SHARED, B_PRIVATE, 96, 128},
              {{16, 4096, 1024, false, false, false, NULL}, A_SHARED, B_PRIVATE, 256, 192},
              {{64, 256, 1000, false, false, false, NULL}, A_IN_PLACE, B_PRIVATE, 512, 96},
              {{256, 3072, 768, false, true, true, NULL}, A_SHARED, B_PREPACKED, 768, 0},
              {{42, 3072, 1024, false, true, false, NULL}, A_SHARED, B_PRIVATE, 1024, 0},
              {{42, 3072, 1000, false, true, false, NULL}, A_IN_PLACE, B_PRIVATE, 1008, 0},
              {{1000, 384, 96, false, false, false, NULL}, A_IN_PLACE, B_SHARED, 96, 0}};
  for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
    RtArena *mem = rt_arena_new();
    GemmPlan p = plan_of(&want[k].of, cg_target_find("avx512"), mem);
    bool same = p.pack_a == want[k].pack_a && p.pack_b == want[k].pack_b && p.kc == want[k].kc && p.nc == want[k].nc;
    if (!CHECK(same))
      printf("  case %zu: A %d, B %d, KC %lld, NC %lld\n", k, p.pack_a, p.pack_b, (long long)p.kc, (long long)p.nc);
    bool cut = p.kc < want[k].of.k;
    CHECK(p.k_outermost == cut && p.kc * p.nc * 4 <= 192 << 10);
    rt_arena_free(mem);
  }
}

// A packed A that is large takes no more scratch than two windows of it.
static void test_windows(void) {
  static const struct {
    Chosen of;
    int64_t rows, k;  // 0: all of A
  } want[] = {{{256, 768, 3072, false, false, false, NULL}, 0, 0},
              {{256, 768, 50257, false, false, false, NULL}, 266, 1536},
              {{1024, 768, 5000, false, false, false, NULL}, 1036, 768},
              {{20000, 2048, 512, false, false, false, NULL}, 1036, 512}};
  for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
    RtArena *mem = rt_arena_new();
    GemmPlan p = plan_of(&want[k].of, cg_target_find("avx512"), mem);
    if (!CHECK(p.window_rows == want[k].rows && p.window_k == want[k].k))
      printf("  case %zu: %lld rows, k %lld\n", k, (long long)p.window_rows, (long long)p.window_k);
    rt_arena_free(mem);
  }
}

// A row of its own: blocks and caches so small that small shapes have every kind of block, by a name that none knows. L2
// limits what is fused, which kernels_of counts on.
static Target tiny_row(const Target *like) {
  Target t = *like;
  t.name = "tiny", t.gemm_mr = 5, t.gemm_nv = 1, t.dot_accumulators = 4;
  t.gemm_mc_bytes = 4096, t.gemm_kc = 2 * t.vl, t.gemm_kc_packed_a = t.vl, t.gemm_kc_in_place = 2 * t.vl;
  t.partial_sum = t.vl;
  t.gemm_b_bytes = 4096, t.gemm_acc_bytes = 2048, t.rnn_kc_bytes = 1024;
  t.facts.l1_bytes = 512, t.facts.llc_bytes = 16384, t.facts.page_bytes = 128;
  return t;
}

// ---- long sums, which are sums of partial ones
// What PyTorch 2.13 errs by with 4,096 terms, times 1.5: the greatest error of equal terms, that of positive random ones, and
// the root of their mean square, all relative to the sum.
static const double most_equal = 1.65e-6, most_random = 4e-7, most_rms = 1.3e-7;

static void fill_sum(Run *r, bool random) {
  const Case *c = r->c;
  const int64_t n[] = {c->m * c->k, c->n * c->k};
  uint32_t state = 99;
  for (uint32_t i = 0; i < 2; i++)
    for (int64_t e = 0; e < n[i]; e++) {
      state = state * 1664525 + 1013904223;
      ((float *)r->in[i])[e] = random ? (float)(state >> 8) * 0x1p-24f : i ? 0.7f : 0.1f;
    }
}

static double true_sum(const Run *r, int64_t row, int64_t column) {
  const Case *c = r->c;
  const float *a = r->in[0], *b = r->in[1];
  double sum = 0;
  for (int64_t k = 0; k < c->k; k++)
    sum += (double)a[c->ta ? k * c->m + row : row * c->k + k] * b[c->tb ? column * c->k + k : k * c->n + column];
  return sum;
}

static void check_sum(Run *r, bool random) {
  const Case *c = r->c;
  float *one[MAX_OUT], *more[MAX_OUT];
  double most = 0, squares = 0;
  fill_sum(r, random);
  run(r, 1, one), run(r, 3, more);
  if (!CHECK(!memcmp(one[0], more[0], (size_t)r->n_out * 4))) describe(r, "workers differ");
  for (int64_t e = 0; e < r->n_out; e++) {
    double want = true_sum(r, e / c->n, e % c->n), error = fabs((double)one[0][e] - want) / want;
    most = fmax(most, error), squares += error * error;
  }
  double rms = sqrt(squares / (double)r->n_out);
  if (CHECK(random ? most <= most_random && rms <= most_rms : most <= most_equal)) return;
  describe(r, random ? "random terms" : "equal terms");
  printf("greatest error %.2g, rms %.2g\n", most, rms);
}

static void check_long_sum(const Case *c, bool weight, const Target *t, const char *strategy) {
  Run r = {.c = c, .way.weight = weight, .target = t, .mem = rt_arena_new()};
  fill_inputs(&r);
  if (compile(&r)) {
    const char *by = cg_gemm_plan(r.f, product_of(r.f), t).strategy->name;
    if (!CHECK(!strcmp(by, strategy))) printf("%s, not %s\n", by, strategy);
    check_sum(&r, false), check_sum(&r, true);
  }
  cg_jit_free(r.jit);
  rt_arena_free(r.mem);
}

static void check_long_sums(const Target *host) {
  static const struct {
    Case of;  // m n k batch ta tb
    bool weight, from_memory;
    const char *strategy;
  } sums[] = {
      {{64, 64, 4096, 0, false, false, PLAIN, 0, 0}, false, false, "tiled"},   // in place
      {{40, 150, 4100, 0, false, true, PLAIN, 0, 0}, false, false, "tiled"},   // B packed
      {{40, 150, 4099, 0, false, true, PLAIN, 0, 0}, true, false, "tiled"},    // B prepacked
      {{150, 140, 4100, 0, true, false, PLAIN, 0, 0}, false, false, "tiled"},  // A packed
      {{2, 17, 4101, 0, false, false, PLAIN, 0, 0}, false, false, "tiled"},    // several chains
      {{20, 33, 9001, 0, false, false, PLAIN, 0, 0}, false, false, "tiled"},   // slices
      {{16, 150, 4096, 0, true, false, PLAIN, 0, 0}, false, false, "at_b"},
      {{1, 37, 4100, 0, false, true, PLAIN, 0, 0}, false, false, "gemv"},
      {{6, 37, 4100, 0, false, true, PLAIN, 0, 0}, false, false, "skinny"},
      {{3, 150, 4100, 0, false, false, PLAIN, 0, 0}, false, true, "axpy"},
      {{1, 150, 4103, 0, false, false, PLAIN, 0, 0}, false, true, "axpy"},   // parts of B, and rows left
      {{1, 1, 32000, 0, false, true, PLAIN, 0, 0}, false, false, "skinny"},  // below the bound of single-threaded ones
  };
  Target from_memory = *host;
  from_memory.name = "from memory", from_memory.facts.llc_bytes = 16384, from_memory.has_amx = false;
  Target cached = *host;
  cached.name = "cached", cached.has_amx = false;
  for (size_t k = 0; k < sizeof sums / sizeof *sums; k++)
    check_long_sum(&sums[k].of, sums[k].weight, sums[k].from_memory ? &from_memory : &cached, sums[k].strategy);
}

// The table in docs/experiments/020-against-openblas.md.
static void test_choice(void) {
  const Target *tuned = cg_target_find("avx2"), *plain = cg_target_find("generic");
  unsetenv("TN_GEMM");
  CHECK(cg_gemm_choose(1024, 1024, 1024, tuned) == GEMM_OWN);
  CHECK(cg_gemm_choose(64, 64, 63, plain) == GEMM_OWN && cg_gemm_choose(64, 64, 64, plain) == GEMM_BLAS);
  setenv("TN_GEMM", "own", 1);
  CHECK(cg_gemm_choose(1024, 1024, 1024, plain) == GEMM_OWN);
  setenv("TN_GEMM", "blas", 1);
  CHECK(cg_gemm_choose(2, 2, 2, tuned) == GEMM_BLAS);
  setenv("TN_GEMM", "auto", 1);
  CHECK(cg_gemm_choose(2, 2, 2, plain) == GEMM_OWN);
}

static void check_tiny(const Target *like) {
  Target tiny = tiny_row(like);
  check_all(cases, sizeof cases / sizeof *cases, &tiny, true);
  check_heads(&tiny, SCALED, true);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  for (uint32_t n = 1; n <= MAX_WORKERS; n++) rt_team_fix(teams[n] = rt_team_new(n));
  test_choice();
  test_packing();
  test_slices();
  test_strategies();
  test_blocks();
  test_windows();
  static const char *const names[] = {"amx", "avx512", "avx2", "neon", "generic"};
  setenv("TN_GEMM", "own", 1);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    RtText why = {.mem = mem};
    Target t;
    if (cg_target_pick(&t, names[k], &why)) check_all(cases, sizeof cases / sizeof *cases, &t, k < 3);
  }
  Target host, narrow;
  RtText why = {.mem = mem};
  if (CHECK(cg_target_pick(&host, NULL, &why))) {
    check_all(large, sizeof large / sizeof *large, &host, true);
    check_all(sliced, sizeof sliced / sizeof *sliced, &host, true);
    check_run_time_k(&host);
    check_long_sums(&host);
    check_tiny(&host);
    if (host.vl > 8 && cg_target_pick(&narrow, "avx2", &why)) check_tiny(&narrow);  // others are blocked otherwise
    check_heads(&host, LOOKED_UP, true);
    setenv("TN_GEMM", "blas", 1);
    check_all(by_blas, sizeof by_blas / sizeof *by_blas, &host, false);
    check_heads(&host, SCALED, false);
  }
  for (uint32_t n = 1; n <= MAX_WORKERS; n++) rt_team_free(teams[n]);
  rt_arena_free(mem);
  return check_report();
}
