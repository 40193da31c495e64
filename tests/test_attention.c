// Attention through the public API: against the same thing composed of products and softmax for many shapes, with one
// to three workers; the module against PyTorch; memory; tied embeddings; what is refused.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/goldens_mha.h"

#include <math.h>
#include <stdlib.h>

static float noise(uint32_t k) {  // in [-1, 1)
  uint32_t h = k * 2654435761u + 12345u;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
  return (float)(h >> 8) * 0x1p-23f - 1;
}

static float *noises(size_t n, uint32_t seed) {
  float *v = malloc((n + 1) * sizeof *v);
  for (size_t i = 0; v && i < n; i++) v[i] = noise((uint32_t)i + seed * 1000003u);
  return v;
}

// |a - b| <= tolerance of the largest magnitude in b
static bool near(const char *what, const float *a, const float *b, size_t n, double tolerance) {
  double most = 1e-3;
  for (size_t i = 0; i < n; i++) most = fmax(most, fabs(b[i]));
  for (size_t i = 0; i < n; i++) {
    if (fabs((double)a[i] - b[i]) <= tolerance * most) continue;
    printf("%s [%zu]: %.9g, expected %.9g\n", what, i, a[i], b[i]);
    return false;
  }
  return true;
}

static tn_model *compiled(tn_program *p, uint32_t n_workers) {
  tn_model *m = tn_compile(p, .n_workers = n_workers);
  if (!CHECK(m)) tn_report(p, stdout);
  return m;
}

// ---- against products and softmax
typedef struct {
  int64_t b, h, tq, tk, d;
  bool causal, inside, has_len;
  const char *note;
} Case;

static const Case cases[] = {
    {1, 1, 1, 1, 1, false, false, false, "one"},
    {2, 3, 1, 333, 64, false, false, true, "decoding"},
    {1, 2, 300, 300, 16, true, false, false, "several chunks, few heads"},
    {2, 4, 65, 129, 80, false, true, false, "tails of queries, keys and size"},
    {2, 4, 128, 128, 64, true, true, false, "whole tiles"},
    {1, 9, 63, 63, 33, true, true, true, "causal and lengths"},
    {1, 3, 40, 257, 130, true, false, false, "causal across, wide heads"},
    {3, 2, 100, 31, 5, true, true, true, "more queries than keys"},
    {2, 1, 33, 70, 300, false, false, false, "head wider than a block"},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_OUT = 8 };

// scores [B,H,Tq,Tk] + mask, softmax, times v; everything with heads outside.
static tn_tensor composed(tn_tensor q, tn_tensor k, tn_tensor v, tn_tensor mask, double scale) {
  tn_tensor s = tn_mul(tn_matmul(q, tn_transpose(k, 2, 3)), tn_scalar(q.fn, scale));
  return tn_matmul(tn_softmax(tn_add(s, mask), -1), v);
}

static void add_outputs(tn_function *f, const char *name, tn_tensor y, tn_tensor weight, const tn_tensor in[3]) {
  char text[32];
  tn_tensor loss = tn_sum(tn_mul(y, weight));
  snprintf(text, sizeof text, "%s", name);
  tn_output(f, text, y);
  for (int k = 0; k < 3; k++) {
    snprintf(text, sizeof text, "%s_d%d", name, k);
    tn_output(f, text, tn_grad(loss, in[k]));
  }
}

static tn_program *both_ways(const Case *c) {
  tn_program *p = tn_program_create("attention");
  tn_function *f = tn_function_begin(p, "f");
  tn_dim B = tn_dim_const(c->b), H = tn_dim_const(c->h), Q = tn_dim_const(c->tq), K = tn_dim_const(c->tk),
         D = tn_dim_const(c->d);
  tn_tensor in[3], out[3];
  const char *const names[] = {"q", "k", "v"};
  for (int k = 0; k < 3; k++) {
    tn_dim T = k ? K : Q;
    in[k] = c->inside ? tn_input(f, names[k], TN_F32, TN_SHAPE(B, T, H, D))
                      : tn_input(f, names[k], TN_F32, TN_SHAPE(B, H, T, D));
    out[k] = c->inside ? tn_transpose(in[k], 1, 2) : in[k];
  }
  tn_tensor mask = tn_input(f, "mask", TN_F32, TN_SHAPE(B, 1, Q, K));
  tn_tensor weight =
      c->inside ? tn_input(f, "w", TN_F32, TN_SHAPE(B, Q, H, D)) : tn_input(f, "w", TN_F32, TN_SHAPE(B, H, Q, D));
  tn_tensor length = tn_input(f, "n", TN_I64, TN_SHAPE(B));
  tn_attention_options o = {.causal = c->causal, .heads_inside = c->inside};
  if (c->has_len) o.lengths = length;
  else tn_output(f, "unused", length);
  add_outputs(f, "y", (tn_scaled_dot_product_attention)(in[0], in[1], in[2], o), weight, in);
  tn_tensor z = composed(out[0], out[1], out[2], mask, 1 / sqrt((double)c->d));
  add_outputs(f, "z", c->inside ? tn_transpose(z, 1, 2) : z, weight, in);
  tn_function_end(f);
  return p;
}

static int64_t length_of(const Case *c, int64_t b) { return c->has_len ? 1 + (b + 1) * (c->tk - 1) / c->b : c->tk; }

static void run_case(const Case *c, uint32_t n_workers, float *result[N_OUT]) {
  tn_program *p = both_ways(c);
  tn_model *m = compiled(p, n_workers);
  int64_t nq = c->b * c->h * c->tq * c->d, nk = c->b * c->h * c->tk * c->d, pairs = c->b * c->tq * c->tk;
  float *in[5] = {noises((size_t)nq, 1), noises((size_t)nk, 2), noises((size_t)nk, 3), noises((size_t)pairs, 4),
                  noises((size_t)nq, 5)};
  int64_t n[3], unused[3];
  for (int64_t b = 0; b < c->b; b++) n[b] = length_of(c, b);
  for (int64_t i = 0; i < pairs; i++) {
    int64_t k = i % c->tk, t = i / c->tk % c->tq, b = i / c->tk / c->tq;
    in[3][i] = (c->causal && k > t) || k >= n[b] ? -1e30f : 0;
  }
  bool ins = c->inside;
  int64_t q1 = ins ? c->tq : c->h, q2 = ins ? c->h : c->tq, k1 = ins ? c->tk : c->h, k2 = ins ? c->h : c->tk;
  tn_array out[N_OUT + 1];
  uint32_t first = 0;
  if (!c->has_len) out[first++] = tn_i64(unused, c->b);
  for (int k = 0; k < N_OUT; k++)
    out[first + (uint32_t)k] =
        k % 4 < 2 ? tn_f32(result[k], c->b, q1, q2, c->d) : tn_f32(result[k], c->b, k1, k2, c->d);
  const tn_array args[] = {tn_f32(in[0], c->b, q1, q2, c->d), tn_f32(in[1], c->b, k1, k2, c->d),
                           tn_f32(in[2], c->b, k1, k2, c->d), tn_f32(in[3], c->b, 1, c->tq, c->tk),
                           tn_f32(in[4], c->b, q1, q2, c->d), tn_i64(n, c->b)};
  if (m && !CHECK(tn_run(m, "f", args, 6, out, first + N_OUT) == TN_OK)) printf("%s\n", tn_error_text(m));
  for (int k = 0; k < 5; k++) free(in[k]);
  tn_model_free(m);
  tn_program_free(p);
}

static void test_shapes(void) {
  for (int i = 0; i < N_CASES; i++) {
    const Case *c = &cases[i];
    size_t nq = (size_t)(c->b * c->h * c->tq * c->d), nk = (size_t)(c->b * c->h * c->tk * c->d);
    float *result[3][N_OUT];
    for (uint32_t w = 0; w < 3; w++) {
      for (int k = 0; k < N_OUT; k++) result[w][k] = malloc((k % 4 < 2 ? nq : nk) * sizeof(float));
      run_case(c, w + 1, result[w]);
    }
    for (int k = 0; k < 4; k++) {
      size_t n = k < 2 ? nq : nk;
      if (!CHECK(near(c->note, result[0][k], result[0][4 + k], n, 2e-5))) printf("%s: output %d\n", c->note, k);
      CHECK(!memcmp(result[0][k], result[1][k], n * sizeof(float)));
      CHECK(!memcmp(result[0][k], result[2][k], n * sizeof(float)));
    }
    for (int w = 0; w < 3; w++)
      for (int k = 0; k < N_OUT; k++) free(result[w][k]);
  }
}

// ---- memory: 4096 steps, whose scores would take 64 MB a head
static void test_memory(void) {
  enum { T = 4096, D = 8, H = 2 };
  tn_program *p = tn_program_create("long");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, T, 3, H, D));
  tn_tensor y = tn_attention_packed(x, .causal = true);
  tn_output(f, "loss", tn_sum(y));
  tn_output(f, "d_x", tn_grad(tn_sum(y), x));
  tn_function_end(f);
  tn_model *m = compiled(p, 0);
  float *in = noises(T * 3 * H * D, 9), *d = malloc(T * 3 * H * D * sizeof *d), loss = 0;
  for (int64_t i = 0; i < T * H * D; i++)
    in[i / (H * D) * 3 * H * D + 2 * H * D + i % (H * D)] = 1;  // all values are 1
  tn_plan plan;
  CHECK(m && tn_plan_of(m, "f", &plan) == TN_OK && plan.peak_bytes < 4 * T * H * (6 * D + 8));
  CHECK(m && tn_run(m, "f", TN_IN(tn_f32(in, 1, T, 3, H, D)), TN_OUT(tn_f32_scalar(&loss), tn_f32(d, 1, T, 3, H, D))) ==
                 TN_OK);
  CHECK(fabs(loss / (T * H * D) - 1) < 1e-5);  // rows of probabilities sum to 1
  double most = 0, sum_v = 0;                  // so that q and k get no gradient, and v one for each query
  for (int64_t i = 0; i < T * 3 * H * D; i++) {
    if (i / (H * D) % 3 == 2) sum_v += d[i];
    else most = fmax(most, fabs(d[i]));
  }
  CHECK(most < 1e-4 && fabs(sum_v / (T * H * D) - 1) < 1e-5);
  free(in), free(d);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- the module
enum { B = 2, T = 3, S = 4, E = 6, H = 2, WEIGHTS = 4 };
static const char *const paths[WEIGHTS] = {"a.in_proj_weight", "a.in_proj_bias", "a.out_proj.weight",
                                           "a.out_proj.bias"};
static const size_t sizes[WEIGHTS] = {3 * E * E, 3 * E, E *E, E};
static const double *const weights[WEIGHTS] = {mha_in_w, mha_in_b, mha_out_w, mha_out_b};

static void to_float(float *to, const double *from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = (float)from[i];
}

typedef struct {
  const char *what;
  const double *y, *d[WEIGHTS];
} Expected;
#define EXPECTED(w)                                                                               \
  {                                                                                               \
    #w, mha_##w##_y, { mha_##w##_d_in_w, mha_##w##_d_in_b, mha_##w##_d_out_w, mha_##w##_d_out_b } \
  }

static void check_module(const Expected *e, bool causal) {
  tn_program *p = tn_program_create("mha");
  tn_module *a = tn_multi_head_attention(tn_root(p), "a", E, H, .causal = causal);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, E));
  tn_tensor memory = tn_input(f, "memory", TN_F32, TN_SHAPE(B, S, E));
  tn_tensor other = tn_input(f, "other", TN_F32, TN_SHAPE(B, S, E));
  tn_tensor n = tn_input(f, "n", TN_I64, TN_SHAPE(B));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(B, T, E)), y;
  if (!strcmp(e->what, "cross")) y = tn_attention_call(a, x, memory, TN_NONE, .lengths = n);
  else if (!strcmp(e->what, "three")) y = tn_attention_call(a, x, memory, other);
  else y = tn_call(a, x);
  tn_output(f, "y", y);
  tn_backward(tn_sum(tn_mul(y, w)));
  tn_module *out_proj = tn_child(a, "out_proj");
  tn_output(f, "d0", tn_param_grad(f, a, "in_proj_weight"));
  tn_output(f, "d1", tn_param_grad(f, a, "in_proj_bias"));
  tn_output(f, "d2", tn_param_grad(f, out_proj, "weight"));
  tn_output(f, "d3", tn_param_grad(f, out_proj, "bias"));
  tn_function_end(f);
  tn_model *m = compiled(p, 2);
  float in[4][B * S * E], found[5][3 * E * E], want[3 * E * E];
  to_float(in[0], mha_x, B * T * E), to_float(in[1], mha_memory, B * S * E);
  to_float(in[2], mha_other, B * S * E), to_float(in[3], mha_weight, B * T * E);
  const int64_t lengths[B] = {4, 2};
  for (int k = 0; m && k < WEIGHTS; k++) {
    to_float(want, weights[k], sizes[k]);
    CHECK(tn_set(m, paths[k], want, sizes[k]) == TN_OK);
  }
  CHECK(m && tn_run(m, "f",
                    TN_IN(tn_f32(in[0], B, T, E), tn_f32(in[1], B, S, E), tn_f32(in[2], B, S, E), tn_i64(lengths, B),
                          tn_f32(in[3], B, T, E)),
                    TN_OUT(tn_f32(found[4], B, T, E), tn_f32(found[0], 3 * E, E), tn_f32(found[1], 3 * E),
                           tn_f32(found[2], E, E), tn_f32(found[3], E))) == TN_OK);
  to_float(want, e->y, B * T * E);
  CHECK(near(e->what, found[4], want, B * T * E, 1e-5));
  for (int k = 0; k < WEIGHTS; k++) {
    to_float(want, e->d[k], sizes[k]);
    CHECK(near(e->what, found[k], want, sizes[k], 1e-5));
  }
  tn_model_free(m);
  tn_program_free(p);
}

static void test_module(void) {
  static const Expected expected[] = {EXPECTED(self), EXPECTED(causal), EXPECTED(cross), EXPECTED(three)};
  for (int k = 0; k < 4; k++) check_module(&expected[k], !strcmp(expected[k].what, "causal"));
}

// ---- one table in two places: one gradient, one state of the optimizer
static void test_tied(void) {
  tn_program *p = tn_program_create("tied");
  tn_module *net = tn_root(p), *words = tn_embedding(net, "words", 5, 3);
  tn_module *head = tn_linear(net, "head", 3, 5, .no_bias = true);
  tn_share(head, "weight", words, "weight");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(4)), y = tn_input(f, "y", TN_I64, TN_SHAPE(4));
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_tanh(tn_call(words, x))), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_output(f, "grad", tn_param_grad(f, words, "weight"));
  tn_adamw(f, net);
  tn_function_end(f);
  tn_model *m = compiled(p, 2);
  const int64_t xs[4] = {1, 4, 1, 0}, ys[4] = {2, 2, 0, 4};
  float table[15], grad[15], want[15], found = 0;
  to_float(table, tied_table, 15), to_float(want, tied_grad, 15);
  CHECK(m && tn_set(m, "words.weight", table, 15) == TN_OK);
  CHECK(m && tn_run(m, "f", TN_IN(tn_i64(xs, 4), tn_i64(ys, 4)), TN_OUT(tn_f32_scalar(&found), tn_f32(grad, 5, 3))) ==
                 TN_OK);
  CHECK(fabs(found - tied_loss[0]) < 1e-5 && near("tied gradient", grad, want, 15, 1e-5));
  uint32_t n_tables = 0;
  for (uint32_t k = 0; m && k < tn_param_count(m); k++) n_tables += tn_param_at(m, k).rank == 2;
  CHECK(n_tables == 3);  // the table and both moments
  CHECK(m && tn_get(m, "head.weight", want, 15) == TN_OK && tn_get(m, "words.weight", table, 15) == TN_OK);
  CHECK(!memcmp(want, table, sizeof table));
  tn_model_free(m);
  tn_program_free(p);
}

// ---- what is refused
typedef tn_tensor Build(tn_function *f, tn_tensor q, tn_tensor k);
static tn_tensor other_heads(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f;
  return tn_scaled_dot_product_attention(q, k, k);
}
static tn_tensor all_dropped(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f, (void)k;
  return tn_scaled_dot_product_attention(q, q, q, .dropout = 1);
}
static tn_tensor other_ranks(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f;
  return tn_scaled_dot_product_attention(q, tn_reshape(k, TN_SHAPE(6, 5, 4)), k);
}
static tn_tensor no_packing(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f, (void)k;
  return tn_attention_packed(q);
}
static tn_tensor float_lengths(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)k;
  tn_tensor n = tn_full(f, 1, TN_SHAPE(2));
  return tn_scaled_dot_product_attention(q, q, q, .lengths = n);
}
static tn_tensor huge_heads(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)q, (void)k;
  q = tn_input(f, "huge", TN_F32, TN_SHAPE(1, 1, 2, 8193));
  return tn_scaled_dot_product_attention(q, q, q);
}
static tn_module *odd;
static tn_tensor odd_heads(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f, (void)k;
  return tn_call(odd, q);
}

static void check_refused(Build *build, const char *expected) {
  tn_program *p = tn_program_create("refused");
  odd = build == odd_heads ? tn_multi_head_attention(tn_root(p), "odd", 10, 4) : NULL;
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor q = tn_input(f, "q", TN_F32, TN_SHAPE(2, 2, 5, 4));
  tn_tensor k = tn_input(f, "k", TN_F32, TN_SHAPE(2, 3, 5, 4));
  tn_output(f, "y", build(f, q, k));
  tn_function_end(f);
  CHECK(!tn_compile(p));
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  tn_report(p, out);
  fclose(out);
  CHECK_HAS(text, expected);
  free(text);
  tn_program_free(p);
}

static void test_refusals(void) {
  check_refused(other_heads, "batch, heads and head size must agree");
  check_refused(all_dropped, "dropout in [0, 1), not 1");
  check_refused(other_ranks, "these have 4, 3 and 4");
  check_refused(huge_heads, "a head has at most 8192 elements");
  check_refused(no_packing, "qkv is [B,T,3,H,D]");
  check_refused(float_lengths, "lengths must be i64");
  check_refused(odd_heads, "size 10 and 4 heads");
}

// A length beyond the keys is refused before anything runs.
static void test_lengths(void) {
  tn_program *p = tn_program_create("lengths");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 4));
  tn_tensor n = tn_input(f, "n", TN_I64, TN_SHAPE(2));
  tn_output(f, "y", tn_scaled_dot_product_attention(x, x, x, .lengths = n));
  tn_function_end(f);
  tn_model *m = compiled(p, 1);
  float xs[24] = {1}, y[24];
  for (int k = 0; k < 24; k++) y[k] = 7;
  const int64_t good[] = {3, 0}, bad[] = {4, 1};
  CHECK(m && tn_run(m, "f", TN_IN(tn_f32(xs, 2, 3, 4), tn_i64(bad, 2)), TN_OUT(tn_f32(y, 2, 3, 4))) != TN_OK);
  if (m) CHECK_HAS(tn_error_text(m), "length");
  CHECK(y[0] == 7);
  CHECK(m && tn_run(m, "f", TN_IN(tn_f32(xs, 2, 3, 4), tn_i64(good, 2)), TN_OUT(tn_f32(y, 2, 3, 4))) == TN_OK);
  CHECK(y[0] != 7 && y[12] == 0 && y[23] == 0);  // the second sequence sees no key
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  test_shapes();
  test_memory();
  test_module();
  test_tied();
  test_refusals();
  test_lengths();
  return check_report();
}
