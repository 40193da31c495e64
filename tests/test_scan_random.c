// Random bodies of scans, packed and dense: compiled code with one and two workers against the interpreter, gradients
// included. test_scan_random [FIRST [COUNT]]
#include "frontend/tenure.h"
#include "tests/scan_oracle.h"

#include <math.h>

enum { B = 4, T = 5, MAX_POOL = 32, MAX_IN = 8 };

typedef struct {
  unsigned state;
  tn_function *f;
  int64_t width;             // of every row
  tn_tensor pool[MAX_POOL];  // values of the body [rows, width]
  int n, depth;              // depth: scans around what is added
  tn_tensor matrix, bias;    // captured: [width, width], [width]
  tn_tensor sum, part;       // made outside and written in the body: [width], a view of its first element
} Gen;

static unsigned below(Gen *g, unsigned n) {
  g->state = g->state * 1664525u + 1013904223u;
  return (g->state >> 10) % n;
}
static tn_tensor some(Gen *g) { return g->pool[below(g, (unsigned)g->n)]; }
static void keep(Gen *g, tn_tensor t) {
  if (g->n < MAX_POOL) g->pool[g->n++] = t;
}

// Bounded results, so that the recurrence stays tame.
static tn_tensor squash(Gen *g, tn_tensor x) { return below(g, 3) ? tn_tanh(x) : tn_sin(x); }

static void add_step(Gen *g);

// A scan over two or three steps within the step. What it hands out is kept, of what is made in it nothing.
static void add_inner(Gen *g) {
  tn_tensor part[3] = {some(g), tn_sin(some(g)), tn_cos(some(g))};
  int steps = 2 + (int)below(g, 2), n = g->n;
  tn_scan *s = tn_scan_begin(g->f, .steps = tn_dim_const(steps), .reverse = below(g, 2));
  tn_tensor h = tn_scan_carry(s, some(g));
  g->depth++;
  if (below(g, 4)) keep(g, tn_scan_input(s, tn_stack(0, part, (uint32_t)steps)));
  keep(g, h);
  for (unsigned k = 1 + below(g, 4); k > 0; k--) add_step(g);
  tn_scan_next(s, h, squash(g, some(g)));
  tn_tensor ys = tn_scan_output(s, g->pool[g->n - 1]);
  tn_scan_end(s);
  g->depth--, g->n = n;
  keep(g, tn_scan_final(s, h));
  keep(g, tn_mean_axis(ys, 0, false));
}

static void add_step(Gen *g) {
  tn_tensor a = some(g), b = some(g);
  int64_t w = g->width;
  switch (below(g, g->depth < 3 ? 20 : 17)) {
  case 0: keep(g, tn_add(a, b)); break;
  case 1: keep(g, tn_mul(a, tn_sigmoid(b))); break;
  case 2: keep(g, squash(g, tn_matmul(a, g->matrix))); break;
  case 3: keep(g, squash(g, tn_matmul(a, tn_transpose(g->matrix, 0, 1)))); break;
  case 4: keep(g, tn_add(a, g->bias)); break;
  case 5: keep(g, tn_mul(tn_tanh(a), g->bias)); break;
  case 6: keep(g, tn_sub(a, tn_mean_axis(b, -1, true))); break;
  case 7: keep(g, tn_softmax(a, -1)); break;
  case 8: keep(g, tn_layer_norm_of(a, 1, g->bias, (tn_tensor){0}, 1e-2)); break;
  case 9:
    if (w > 1) keep(g, tn_concat(1, TN_TENSORS(tn_slice(a, 1, 1, w - 1), tn_slice(b, 1, 0, 1))));
    break;
  case 10: keep(g, tn_dropout(a, 0.25)); break;
  case 11: {
    tn_tensor c = tn_clone(a);
    tn_mul_(c, tn_scalar(g->f, 0.5));  // the copy alone
    keep(g, tn_add(c, a));
    break;
  }
  case 12: keep(g, tn_mul(a, tn_scalar(g->f, 0.5))); break;
  case 13:
    tn_copy_(g->sum, squash(g, tn_add(g->sum, tn_mean_axis(b, 0, false))));
    keep(g, tn_add(a, g->sum));
    break;
  case 14:
    keep(g, tn_mul(a, tn_sigmoid(g->sum)));
    tn_mul_(g->sum, tn_scalar(g->f, -0.75));  // the same in every step
    break;
  case 15:
    tn_copy_(g->part, tn_reshape(tn_tanh(tn_mean(a)), TN_SHAPE(1)));
    keep(g, tn_mul(squash(g, b), tn_add(g->sum, g->part)));
    break;
  case 17:
  case 18: add_inner(g); break;
  default: keep(g, tn_add(tn_matmul(a, g->matrix), squash(g, b)));
  }
}

typedef struct {
  bool packed, reverse, constant;
  int n_carries, n_slices;
  int64_t width;
  bool shared;  // a carry that is one value for all rows
} Form;

static tn_program *build(unsigned seed, Form *form) {
  Gen g = {.state = seed * 2654435761u + 1};
  tn_program *p = tn_program_create("random");
  static const int64_t widths[] = {1, 2, 3, 5, 8, 16, 17};
  *form = (Form){.packed = below(&g, 2), .reverse = below(&g, 2), .constant = below(&g, 2)};
  form->n_carries = 1 + (int)below(&g, 2), form->n_slices = 1 + (int)below(&g, 2), form->shared = below(&g, 2);
  form->width = g.width = widths[below(&g, 7)];
  tn_dim b = form->constant ? tn_dim_const(B) : tn_dim_bounded(p, "batch", B), t = tn_dim_bounded(p, "time", T);
  tn_dim w = tn_dim_const(g.width);
  tn_function *f = g.f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(b, t, w)), h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(b, w));
  g.matrix = tn_input(f, "matrix", TN_F32, TN_SHAPE(w, w));
  g.bias = tn_input(f, "bias", TN_F32, TN_SHAPE(w));
  g.sum = tn_mul(g.bias, tn_scalar(f, 0.5)), g.part = tn_slice(g.sum, 0, 0, 1);
  tn_scan_options o = {.reverse = form->reverse, .axis = 1};
  tn_tensor steps = x;
  if (form->packed) {
    o.over = tn_pack_padded(x, tn_input(f, "len", TN_I64, TN_SHAPE(b)));
    steps = o.over.data;
  } else {
    o.steps = t;
  }
  tn_scan *s = (tn_scan_begin)(f, o);
  tn_tensor carry[3];
  for (int k = 0; k < form->n_slices; k++) keep(&g, tn_scan_input(s, k ? tn_sin(steps) : steps));
  for (int k = 0; k < form->n_carries; k++) keep(&g, carry[k] = tn_scan_carry(s, k ? tn_cos(h0) : h0));
  tn_tensor shared = form->shared ? tn_scan_carry(s, g.bias) : (tn_tensor){0};
  if (form->shared) keep(&g, tn_add(some(&g), shared));
  for (unsigned k = 3 + below(&g, 8); k > 0; k--) add_step(&g);
  for (int k = 0; k < form->n_carries; k++) tn_scan_next(s, carry[k], squash(&g, some(&g)));
  if (form->shared) tn_scan_next(s, shared, tn_mul(shared, tn_sin(tn_add(shared, tn_scalar(f, 1)))));
  tn_tensor ys = tn_scan_output(s, g.pool[g.n - 1]), zs = tn_scan_output(s, some(&g));
  tn_scan_end(s);
  tn_tensor loss = tn_add(tn_mean(tn_square(ys)), tn_mean(tn_sin(zs)));
  loss = tn_add(loss, tn_mean(tn_mul(tn_scan_final(s, carry[0]), h0)));
  // whatever the body is, every input has a gradient
  loss = tn_add(loss, tn_add(tn_mean(tn_square(x)), tn_add(tn_mean(tn_square(g.matrix)), tn_mean(tn_square(g.bias)))));
  loss = tn_add(loss, tn_sum(tn_sin(g.sum)));
  if (form->shared) loss = tn_add(loss, tn_sum(tn_scan_final(s, shared)));
  tn_output(f, "loss", loss);
  tn_output(f, "d_x", tn_grad(loss, x));
  tn_output(f, "d_h0", tn_grad(loss, h0));
  tn_output(f, "d_matrix", tn_grad(loss, g.matrix));
  tn_output(f, "d_bias", tn_grad(loss, g.bias));
  tn_function_end(f);
  return p;
}

typedef struct {
  float loss[1], x[B * T * 17], h0[B * 17], matrix[17 * 17], bias[17];
} Values;

static void fill(float *v, int64_t n, unsigned seed) {
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    v[k] = (float)((double)(seed >> 8) / 8388608.0 - 1);
  }
}

static bool agrees(tn_program *p, const tn_array *in, size_t n_in, const Form *form, int64_t batch, int64_t time,
                   Values *r) {
  Oracle o;
  if (!oracle_open(&o, p, "f")) return false;
  if (!form->constant) oracle_size(&o, "batch", batch);
  oracle_size(&o, "time", time);
  oracle_take(&o, NULL, in, n_in);
  o.seed = 9;
  const float *found[] = {r->loss, r->x, r->h0, r->matrix, r->bias};
  bool ok = oracle_run(&o);
  for (uint32_t k = 0; k < 5 && ok; k++) ok = oracle_agrees(&o, k, found[k], 1e-4);
  oracle_close(&o);
  return ok;
}

static void check(unsigned seed) {
  static Values v, r, again;
  Form form;
  for (unsigned workers = 1; workers <= 2; workers++) {
    tn_program *p = build(seed, &form);
    int64_t w = form.width, batch = form.constant ? B : 1 + seed % B, time = 1 + seed / 3 % T;
    int64_t len[B] = {1 + seed % time, time, 1, 1 + seed / 7 % time};
    tn_model *m = tn_compile(p, .n_workers = workers, .seed = 9);
    fill(v.x, B * T * w, seed), fill(v.h0, B * w, seed + 1), fill(v.matrix, w * w, seed + 2), fill(v.bias, w, seed + 3);
    tn_array in[] = {tn_f32(v.x, batch, time, w), tn_f32(v.h0, batch, w), tn_f32(v.matrix, w, w), tn_f32(v.bias, w),
                     tn_i64(len, batch)};
    size_t n_in = form.packed ? 5 : 4;
    memset(&r, 0, sizeof r);
    bool ok = CHECK(m != NULL);
    if (!ok) tn_report(p, stdout);
    if (ok && !CHECK(tn_run(m, "f", in, n_in,
                            TN_OUT(tn_f32_scalar(r.loss), tn_f32(r.x, batch, time, w), tn_f32(r.h0, batch, w),
                                   tn_f32(r.matrix, w, w), tn_f32(r.bias, w))) == TN_OK))
      ok = false, printf("  %s\n", tn_error_text(m));
    if (ok && workers == 1) ok = CHECK(agrees(p, in, n_in, &form, batch, time, &r)), again = r;
    else if (ok) ok = CHECK(!memcmp(&again, &r, sizeof r));
    if (!ok) {
      printf("  seed %u, %u workers, %s, width %lld\n", seed, workers, form.packed ? "packed" : "dense", (long long)w);
      tn_dump(p, stdout, TN_DUMP_IR);
    }
    tn_model_free(m);
    tn_program_free(p);
    if (!ok) return;
  }
}

int main(int argc, char **argv) {
  unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 1, count = argc > 2 ? (unsigned)atoi(argv[2]) : 24;
  for (unsigned k = 0; k < count; k++) check(first + k);
  return check_report();
}
