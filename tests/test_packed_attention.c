// Attention of packed rows: every sequence gives what it gives alone, values and gradients, whatever else is in the batch; the
// same bits for any number of workers; modules and positions on packed rows; bias, mask, weights and dropout are those of the
// padded batch; what is refused.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/sample.h"
#include "tests/small_stack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_B = 9 };

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

// ---- beside each sequence alone
typedef struct {
  const char *note;
  int64_t batch, time, heads, groups, size;
  int64_t lengths[MOST_B], keys[MOST_B];  // keys: of another packed batch; keys[0] < 0: self-attention
  int64_t key_time;
  bool causal;
  int64_t window;
  bool has_bias;
} Case;

static const Case cases[] = {
    {.note = "lengths of all kinds",
     .batch = 6,
     .time = 333,
     .heads = 2,
     .groups = 2,
     .size = 16,
     .lengths = {1, 2, 17, 64, 333, 0},
     .keys = {-1}},
    {.note = "causal",
     .batch = 6,
     .time = 333,
     .heads = 2,
     .groups = 2,
     .size = 16,
     .lengths = {1, 2, 17, 64, 333, 0},
     .keys = {-1},
     .causal = true},
    {.note = "all equal",
     .batch = 3,
     .time = 40,
     .heads = 4,
     .groups = 4,
     .size = 8,
     .lengths = {40, 40, 40},
     .keys = {-1},
     .causal = true},
    {.note = "one long among short",
     .batch = 8,
     .time = 530,
     .heads = 1,
     .groups = 1,
     .size = 8,
     .lengths = {3, 5, 530, 2, 1, 7, 3, 4},
     .keys = {-1}},
    {.note = "grouped heads, tails of the size",
     .batch = 4,
     .time = 70,
     .heads = 6,
     .groups = 2,
     .size = 33,
     .lengths = {70, 3, 0, 31},
     .keys = {-1},
     .causal = true},
    {.note = "many heads, a window",
     .batch = 4,
     .time = 300,
     .heads = 8,
     .groups = 8,
     .size = 5,
     .lengths = {300, 1, 40, 299},
     .keys = {-1},
     .window = 7},
    {"multi-query, a causal window, a bias",
     3,
     130,
     4,
     1,
     16,
     {130, 2, 65},
     {-1},
     .causal = true,
     .window = 33,
     .has_bias = true},
    {.note = "cross",
     .batch = 5,
     .time = 60,
     .heads = 2,
     .groups = 2,
     .size = 16,
     .lengths = {60, 1, 0, 17, 30},
     .keys = {9, 100, 5, 0, 64},
     .key_time = 100},
    {.note = "cross, shared keys, a bias",
     .batch = 4,
     .time = 20,
     .heads = 4,
     .groups = 2,
     .size = 20,
     .lengths = {20, 0, 7, 1},
     .keys = {3, 3, 150, 1},
     .key_time = 150,
     .has_bias = true},
};

static bool is_self(const Case *c) { return c->keys[0] < 0; }
static int64_t key_time(const Case *c) { return is_self(c) ? c->time : c->key_time; }
static int64_t keys_of(const Case *c, int64_t b) { return is_self(c) ? c->lengths[b] : c->keys[b]; }

typedef struct {
  tn_tensor q, kv, g, bias;
} Inputs;

static Inputs inputs_of(const Case *c, tn_function *f, tn_dim b, tn_dim t, tn_dim tk) {
  return (Inputs){tn_input(f, "q", TN_F32, TN_SHAPE(b, t, c->heads, c->size)),
                  tn_input(f, "kv", TN_F32, TN_SHAPE(b, tk, 2, c->groups, c->size)),
                  tn_input(f, "g", TN_F32, TN_SHAPE(b, t, c->heads, c->size)),
                  tn_input(f, "bias", TN_F32, TN_SHAPE(c->heads, t, tk))};
}

static void add_outputs(tn_function *f, const Case *c, const Inputs *in, tn_tensor y) {
  tn_tensor loss = tn_sum(tn_mul(y, in->g));
  tn_output(f, "y", y);
  tn_output(f, "dq", tn_grad(loss, in->q));
  tn_output(f, "dkv", tn_grad(loss, in->kv));
  tn_output(f, "dbias", c->has_bias ? tn_grad(loss, in->bias) : in->bias);
  tn_function_end(f);
}

// All sequences packed, padded on the way in and out.
static void add_packed(tn_program *p, const Case *c) {
  tn_dim b = tn_dim_bounded(p, "b", c->batch), t = tn_dim_bounded(p, "t", c->time);
  tn_dim tk = is_self(c) ? t : tn_dim_bounded(p, "tk", c->key_time);
  tn_function *f = tn_function_begin(p, "packed");
  Inputs in = inputs_of(c, f, b, t, tk);
  tn_tensor n = tn_input(f, "n", TN_I64, TN_SHAPE(b)), nk = is_self(c) ? n : tn_input(f, "nk", TN_I64, TN_SHAPE(b));
  tn_packed q = tn_pack_padded(in.q, n, .allow_empty = true), kv = tn_pack_padded(in.kv, nk, .allow_empty = true);
  tn_packed k = tn_packed_with_data(kv, tn_select_index(kv.data, 1, 0)),
            v = tn_packed_with_data(kv, tn_select_index(kv.data, 1, 1));
  tn_packed y =
      tn_packed_attention(q, k, v, .causal = c->causal, .window = c->window, .bias = c->has_bias ? in.bias : TN_NONE);
  add_outputs(f, c, &in, tn_pad_packed(y, 0, true));
}

// One sequence.
static void add_alone(tn_program *p, const Case *c) {
  tn_dim t = tn_dim_bounded(p, "steps", c->time), tk = is_self(c) ? t : tn_dim_bounded(p, "keys", c->key_time);
  tn_function *f = tn_function_begin(p, "alone");
  Inputs in = inputs_of(c, f, tn_dim_const(1), t, tk);
  tn_tensor y = tn_scaled_dot_product_attention(in.q, tn_select_index(in.kv, 2, 0), tn_select_index(in.kv, 2, 1),
                                                .heads_inside = true, .causal = c->causal, .window = c->window,
                                                .bias = c->has_bias ? in.bias : TN_NONE);
  add_outputs(f, c, &in, y);
}

enum { Y, DQ, DKV, DBIAS, N_OUT };
typedef struct {
  int64_t b, t, tk;
  float *in[4], *out[N_OUT];  // q, kv, g, bias
  int64_t n[MOST_B], nk[MOST_B];
} Run;

static size_t elements(const Case *c, const Run *r, int k) {  // of q, kv or bias
  if (k == 3) return (size_t)(c->heads * r->t * r->tk);
  return (size_t)(k == 1 ? r->b * r->tk * 2 * c->groups * c->size : r->b * r->t * c->heads * c->size);
}
static const int like_of[N_OUT] = {0, 0, 1, 3};

static Run new_run(const Case *c, int64_t b, int64_t t, int64_t tk) {
  Run r = {.b = b, .t = t, .tk = tk};
  for (int k = 0; k < 4; k++) r.in[k] = noises(elements(c, &r, k), (uint32_t)k + 1);
  for (int k = 0; k < N_OUT; k++) r.out[k] = calloc(elements(c, &r, like_of[k]) + 1, sizeof(float));
  for (int64_t j = 0; j < b; j++) r.n[j] = c->lengths[j], r.nk[j] = keys_of(c, j);
  return r;
}

static void free_run(Run *r) {
  for (int k = 0; k < 4; k++) free(r->in[k]), free(r->out[k]);
}

static tn_array array_of(const Case *c, const Run *r, int k, float *v) {
  if (k == 3) return tn_f32(v, c->heads, r->t, r->tk);
  return k == 1 ? tn_f32(v, r->b, r->tk, 2, c->groups, c->size) : tn_f32(v, r->b, r->t, c->heads, c->size);
}

static void run(tn_model *m, const char *function, const Case *c, Run *r, bool is_packed) {
  tn_array in[6], out[N_OUT];
  size_t n = 4;
  for (int k = 0; k < 4; k++) in[k] = array_of(c, r, k, r->in[k]);
  for (int k = 0; k < N_OUT; k++) out[k] = array_of(c, r, like_of[k], r->out[k]);
  if (is_packed) in[n++] = tn_i64(r->n, r->b);
  if (is_packed && !is_self(c)) in[n++] = tn_i64(r->nk, r->b);
  if (!CHECK(tn_run(m, function, in, n, out, N_OUT) == TN_OK)) printf("%s: %s\n", c->note, tn_error_text(m));
}

// Row by row of the bias, whose columns are fewer there.
static void copy_bias(const Case *c, const Run *from, Run *to) {
  for (int64_t h = 0; h < c->heads; h++)
    for (int64_t i = 0; i < to->t; i++)
      memcpy(to->in[3] + (h * to->t + i) * to->tk, from->in[3] + (h * from->t + i) * from->tk,
             (size_t)to->tk * sizeof(float));
}

static void add_bias_gradient(const Case *c, const Run *one, const Run *all, double *sum) {
  for (int64_t h = 0; h < c->heads; h++)
    for (int64_t i = 0; i < one->t; i++)
      for (int64_t j = 0; j < one->tk; j++)
        sum[(h * all->t + i) * all->tk + j] += one->out[DBIAS][(h * one->t + i) * one->tk + j];
}

// The first steps of a sequence are those of the packed run, and behind them it has zeros.
static void compare(const Case *c, const char *what, const float *packed, const float *alone, size_t n, size_t all) {
  if (!CHECK(all_near_largest(c->note, packed, alone, n, 2e-5, 1e-2))) printf("%s: %s\n", c->note, what);
  for (size_t i = n; i < all; i++)
    if (packed[i] != 0) {
      CHECK(!"a step that does not exist has a number");
      printf("%s: %s\n", c->note, what);
      return;
    }
}

static void one_sequence(tn_model *m, const Case *c, const Run *all, int64_t b, double *bias_sum) {
  Run one = new_run(c, 1, c->lengths[b], keys_of(c, b));
  size_t row[3] = {(size_t)(c->heads * c->size), (size_t)(2 * c->groups * c->size), (size_t)(c->heads * c->size)};
  size_t steps[3] = {(size_t)all->t, (size_t)all->tk, (size_t)all->t};
  for (int k = 0; k < 3; k++)
    memcpy(one.in[k], all->in[k] + (size_t)b * steps[k] * row[k], elements(c, &one, k) * sizeof(float));
  copy_bias(c, all, &one);
  if (one.t && one.tk) run(m, "alone", c, &one, false);
  size_t of_q = (size_t)b * steps[0] * row[0], of_kv = (size_t)b * steps[1] * row[1];
  compare(c, "y", all->out[Y] + of_q, one.out[Y], elements(c, &one, 0), steps[0] * row[0]);
  compare(c, "dq", all->out[DQ] + of_q, one.out[DQ], elements(c, &one, 0), steps[0] * row[0]);
  compare(c, "dkv", all->out[DKV] + of_kv, one.out[DKV], elements(c, &one, 1), steps[1] * row[1]);
  if (c->has_bias) add_bias_gradient(c, &one, all, bias_sum);
  free_run(&one);
}

static void test_each_alone(void) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    if (!is_sampled(k, 2)) continue;
    const Case *c = &cases[k];
    Run all[3];
    for (uint32_t w = 0; w < 3; w++) {
      tn_program *p = tn_program_create("packed_attention");
      add_packed(p, c);
      if (w == 0) add_alone(p, c);
      tn_model *m = model_of(p, .n_workers = w + 1);
      all[w] = new_run(c, c->batch, c->time, key_time(c));
      if (m) run(m, "packed", c, &all[w], true);
      size_t n_bias = elements(c, &all[w], 3);
      double *sum = calloc(n_bias + 1, sizeof *sum);
      for (int64_t b = 0; m && w == 0 && b < c->batch; b++) one_sequence(m, c, &all[0], b, sum);
      for (size_t i = 0; m && w == 0 && c->has_bias && i < n_bias; i++)
        if (!(fabs(all[0].out[DBIAS][i] - sum[i]) <= 1e-4)) {
          CHECK(!"the gradient of the bias is not the sum over the sequences");
          break;
        }
      free(sum);
      tn_model_free(m);
      tn_program_free(p);
    }
    for (uint32_t w = 1; w < 3; w++)
      for (int j = 0; j < N_OUT; j++)
        CHECK(!memcmp(all[0].out[j], all[w].out[j], elements(c, &all[0], like_of[j]) * 4));
    for (uint32_t w = 0; w < 3; w++) free_run(&all[w]);
  }
}

// ---- modules: a network of positions, attention and feed-forward layers on packed rows, and on each sequence alone
static tn_tensor network(tn_module *net, tn_tensor x) {
  return tn_call(tn_child(net, "enc"), tn_call(tn_child(net, "sin"), tn_call(tn_child(net, "pos"), x)));
}

static tn_tensor turned(tn_tensor x, tn_shape heads) {
  return tn_rope(tn_reshape(x, heads), .heads_inside = true, .const_offset = 2);
}

static void test_modules(void) {
  enum { B = 4, T = 12, E = 16 };
  static const int64_t n[B] = {12, 1, 5, 9};
  tn_program *p = tn_program_create("modules");
  tn_module *net = tn_root(p);
  tn_learned_positions(net, "pos", 16, E), tn_sinusoidal_positions(net, "sin", 16, E);
  tn_transformer_encoder(net, "enc", E, 4, 2, .feedforward = 24);
  tn_transformer_decoder(net, "dec", E, 4, 1, .feedforward = 24);
  tn_dim b = tn_dim_bounded(p, "b", B), t = tn_dim_bounded(p, "t", T), steps = tn_dim_bounded(p, "steps", T);
  tn_function *f = tn_function_begin(p, "packed");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(b, t, E)), len = tn_input(f, "n", TN_I64, TN_SHAPE(b));
  tn_packed s = tn_pack_padded(x, len);
  tn_tensor h = network(net, s.data), y = tn_decoder_call(tn_child(net, "dec"), h, h, .self = {.causal = true});
  tn_tensor z = turned(y, TN_SHAPE(tn_dim_of(y, 0), 4, 4)), loss = tn_sum(tn_square(z));
  tn_output(f, "y", tn_pad_packed(tn_packed_with_data(s, z), 0, true));
  tn_output(f, "dx", tn_grad(loss, x));
  tn_function_end(f);
  f = tn_function_begin(p, "alone");
  x = tn_input(f, "x", TN_F32, TN_SHAPE(1, steps, E));
  h = network(net, x), y = tn_decoder_call(tn_child(net, "dec"), h, h, .self = {.causal = true});
  z = turned(y, TN_SHAPE(1, steps, 4, 4)), loss = tn_sum(tn_square(z));
  tn_output(f, "y", z);
  tn_output(f, "dx", tn_grad(loss, x));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  float *in = noises(B * T * E, 3), *out = calloc(B * T * E, 4), *dx = calloc(B * T * E, 4), one[T * E], d[T * E];
  CHECK(m && tn_run(m, "packed", TN_IN(tn_f32(in, B, T, E), tn_i64(n, B)),
                    TN_OUT(tn_f32(out, B, T, 4, 4), tn_f32(dx, B, T, E))) == TN_OK);
  for (int k = 0; m && k < B; k++) {
    CHECK(tn_run(m, "alone", TN_IN(tn_f32(in + k * T * E, 1, n[k], E)),
                 TN_OUT(tn_f32(one, 1, n[k], 4, 4), tn_f32(d, 1, n[k], E))) == TN_OK);
    CHECK(all_near_largest("y", out + k * T * E, one, (size_t)n[k] * E, 2e-5, 1e-2));
    CHECK(all_near_largest("dx", dx + k * T * E, d, (size_t)n[k] * E, 1e-3, 1e-2));
  }
  free(in), free(out), free(dx);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- weights and dropout: those of the padded batch
static void test_weights(void) {
  enum { B = 3, T = 7, H = 2, D = 4 };
  static const int64_t n[B] = {7, 2, 4};
  tn_program *p = tn_program_create("weights");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, H, D)), len = tn_input(f, "n", TN_I64, TN_SHAPE(B));
  tn_packed s = tn_pack_padded(x, len);
  tn_tensor w, v;
  tn_packed_attention(s, s, s, .causal = true, .weights = &w);
  tn_scaled_dot_product_attention(x, x, x, .causal = true, .heads_inside = true, .lengths = len, .weights = &v);
  tn_output(f, "w", w), tn_output(f, "v", v);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  float *in = noises(B * T * H * D, 5), packed[B][H][T][T], padded[B][H][T][T];
  CHECK(m && tn_run(m, "f", TN_IN(tn_f32(in, B, T, H, D), tn_i64(n, B)),
                    TN_OUT(tn_f32(&packed[0][0][0][0], B, H, T, T), tn_f32(&padded[0][0][0][0], B, H, T, T))) == TN_OK);
  for (int b = 0; b < B; b++)
    for (int h = 0; h < H; h++)
      for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++)
          CHECK(is_near((double)packed[b][h][i][j], i < n[b] ? (double)padded[b][h][i][j] : 0, 1e-6));
  free(in);
  tn_model_free(m);
  tn_program_free(p);
}

// Two functions with the same random stream number: the packed one and the padded one drop the same pairs.
static void test_dropout(void) {
  enum { B = 3, T = 7, H = 2, D = 4 };
  static const int64_t n[B] = {7, 2, 4};
  float *in = noises(B * T * H * D, 6), out[2][B][T][H * D];
  for (int is_packed = 0; is_packed < 2; is_packed++) {
    tn_program *p = tn_program_create("dropout");
    tn_function *f = tn_function_begin(p, "f");
    tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, H, D)), len = tn_input(f, "n", TN_I64, TN_SHAPE(B));
    tn_packed s = tn_pack_padded(x, len);
    tn_tensor y = is_packed
                      ? tn_pad_packed(tn_packed_attention(s, s, s, .dropout = 0.4), 0, true)
                      : tn_scaled_dot_product_attention(x, x, x, .heads_inside = true, .lengths = len, .dropout = 0.4);
    tn_output(f, "y", y);
    tn_function_end(f);
    tn_model *m = model_of(p, .n_workers = 2);
    CHECK(m && tn_run(m, "f", TN_IN(tn_f32(in, B, T, H, D), tn_i64(n, B)),
                      TN_OUT(tn_f32(&out[is_packed][0][0][0], B, T, H, D))) == TN_OK);
    tn_model_free(m);
    tn_program_free(p);
  }
  for (int b = 0; b < B; b++)
    CHECK(all_near_largest("dropout", &out[1][b][0][0], &out[0][b][0][0], (size_t)n[b] * H * D, 2e-6, 1e-2));
  free(in);
}

// ---- large heads: what lies on the stack has room there. Where values are 1, so are results, and gradients of the values add up
// to the number of queries.
enum { LARGE_T = 300, LARGE_ROWS = LARGE_T + 3 };
typedef struct {
  tn_model *m;
  int64_t size;
  float *q, *v, *out[3], steps[2 * LARGE_T];
  bool ran;
} Large;

static tn_array rows_of(const Large *x, float *v) { return tn_f32(v, LARGE_ROWS, 1, x->size); }

static void *run_large(void *ctx) {
  Large *x = ctx;
  x->ran = tn_run(x->m, "f", TN_IN(tn_f32(x->steps, 2, LARGE_T), rows_of(x, x->q), rows_of(x, x->v)),
                  TN_OUT(rows_of(x, x->out[0]), rows_of(x, x->out[1]), rows_of(x, x->out[2]))) == TN_OK;
  return NULL;
}

static tn_model *large_model(tn_program *p, int64_t size) {
  static const int64_t n[2] = {3, LARGE_T};
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor t = tn_input(f, "t", TN_F32, TN_SHAPE(2, LARGE_T));
  tn_packed s = tn_pack_constant(t, n, 2);
  tn_tensor q = tn_input(f, "q", TN_F32, TN_SHAPE(LARGE_ROWS, 1, size));
  tn_tensor v = tn_input(f, "v", TN_F32, TN_SHAPE(LARGE_ROWS, 1, size));
  tn_packed queries = tn_packed_with_data(s, q);
  tn_tensor y = tn_packed_attention(queries, queries, tn_packed_with_data(s, v)).data;
  tn_output(f, "y", y);
  tn_output(f, "dv", tn_grad(tn_sum(y), v));
  tn_output(f, "dq", tn_grad(tn_sum(y), q));
  tn_function_end(f);
  return model_of(p, .n_workers = 1);
}

static void large_head(int64_t size, bool has_small_stack) {
  tn_program *p = tn_program_create("large");
  Large x = {.m = large_model(p, size), .size = size};
  size_t n = (size_t)(LARGE_ROWS * size);
  x.q = noises(n, 8), x.v = malloc(n * 4);
  for (size_t i = 0; i < n; i++) x.v[i] = 1;
  for (int k = 0; k < 3; k++) x.out[k] = calloc(n, 4);
  if (x.m && has_small_stack) on_small_stack(run_large, &x);
  else if (x.m) run_large(&x);
  double sum = 0;
  bool is_one = CHECK(x.ran);
  for (size_t i = 0; i < n; i++) is_one = is_one && is_near((double)x.out[0][i], 1, 1e-5), sum += (double)x.out[1][i];
  CHECK(is_one && is_near(sum / (double)n, 1, 1e-5));
  for (int k = 0; k < 3; k++) free(x.out[k]);
  free(x.q), free(x.v);
  tn_model_free(x.m);
  tn_program_free(p);
}

int main(void) {
  test_each_alone();
  test_modules();
  test_weights();
  test_dropout();
  large_head(128, true), large_head(256, true), large_head(8192, false);
  return check_report();
}
