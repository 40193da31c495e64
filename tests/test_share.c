// A shared module is the module: every kind, with all options other than the defaults, gives the bits of the original.
//
// Two programs are built alike, with a module and a second path to it; one calls the module, the other the second path.
// Parameters and random streams are equal then, so that dropout is compared as well.
#include "tests/check.h"
#include "tests/models.h"
#include <math.h>

enum { B = 3, T = 4, F = 8, N = B * T * F, MOST = F * N };
#define D(n) tn_dim_const(n)

typedef struct {
  const char *name;
  tn_module *(*make)(tn_module *root);
  tn_tensor (*call)(tn_module *m, tn_tensor x);
  int64_t width;  // of the result, for each of B * T
} Kind;

// ---- making
static tn_module *make_linear(tn_module *root) { return tn_linear(root, "m", F, F, .no_bias = true); }
static tn_module *make_biased(tn_module *root) { return tn_linear(root, "m", F, F); }
static tn_module *make_embedding(tn_module *root) { return tn_embedding(root, "m", F, F); }
static tn_module *make_dropout(tn_module *root) { return tn_dropout_module(root, "m", 0.25); }
static tn_module *make_activation(tn_module *root) { return tn_activation(root, "m", "silu"); }
static tn_module *make_layer_norm(tn_module *root) {
  return tn_layer_norm(root, "m", TN_SHAPE(T, F), .no_bias = true, .eps = 0.5);
}
static tn_module *make_bare_norm(tn_module *root) {
  return tn_layer_norm(root, "m", TN_SHAPE(F), .no_weight = true, .eps = 0.25);
}
static tn_module *make_rms_norm(tn_module *root) { return tn_rms_norm(root, "m", TN_SHAPE(T, F), .eps = 0.5); }
static tn_module *make_attention(tn_module *root) {
  return tn_multi_head_attention(root, "m", F, 2, .causal = true, .no_bias = true, .dropout = 0.5);
}
static const tn_rnn_options all = {
    .bidirectional = true, .no_bias = true, .n_layers = 2, .dropout = 0.5, .batch_first = true};
static tn_module *make_lstm(tn_module *root) {
  tn_rnn_options o = all;
  o.proj_size = 3;
  return (tn_lstm)(root, "m", F, 5, o);
}
static tn_module *make_gru(tn_module *root) { return (tn_gru)(root, "m", F, 5, all); }
static tn_module *make_rnn(tn_module *root) { return (tn_rnn)(root, "m", F, 5, true, all); }
static const tn_rnn_cell_options bare = {.no_bias = true};
static tn_module *make_lstm_cell(tn_module *root) { return (tn_lstm_cell)(root, "m", F, 5, bare); }
static tn_module *make_gru_cell(tn_module *root) { return (tn_gru_cell)(root, "m", F, 5, bare); }
static tn_module *make_rnn_cell(tn_module *root) { return (tn_rnn_cell)(root, "m", F, 5, true, bare); }
static tn_module *make_sequential(tn_module *root) {
  tn_module *m = tn_sequential(root, "m");
  tn_linear(m, "0", F, F, .no_bias = true);
  tn_layer_norm(m, "1", TN_SHAPE(F), .eps = 2);
  tn_dropout_module(m, "2", 0.5);
  tn_multi_head_attention(m, "3", F, 4, .causal = true);
  return m;
}

// ---- calls
static tn_tensor call_plain(tn_module *m, tn_tensor x) { return tn_call(m, x); }
static tn_tensor call_index(tn_module *m, tn_tensor x) {
  return tn_call(m, tn_cast(tn_mul(tn_abs(x), tn_scalar(x.fn, F - 1)), TN_I64));
}
static tn_tensor call_rnn(tn_module *m, tn_tensor x) { return tn_rnn_call_dense(m, x).dense; }
static tn_tensor call_step(tn_module *m, tn_tensor x) { return tn_rnn_step(m, tn_reshape(x, TN_SHAPE(B * T, F))).out; }

static const Kind kinds[] = {
    {"linear", make_linear, call_plain, F},
    {"linear with bias", make_biased, call_plain, F},
    {"embedding", make_embedding, call_index, F *F},
    {"dropout", make_dropout, call_plain, F},
    {"activation", make_activation, call_plain, F},
    {"layer norm", make_layer_norm, call_plain, F},
    {"bare norm", make_bare_norm, call_plain, F},
    {"RMS norm", make_rms_norm, call_plain, F},
    {"attention", make_attention, call_plain, F},
    {"lstm", make_lstm, call_rnn, 2 * 3},
    {"gru", make_gru, call_rnn, 2 * 5},
    {"rnn", make_rnn, call_rnn, 2 * 5},
    {"lstm cell", make_lstm_cell, call_step, 5},
    {"gru cell", make_gru_cell, call_step, 5},
    {"rnn cell", make_rnn_cell, call_step, 5},
    {"sequential", make_sequential, call_plain, F},
};

// The second path, and one that goes through a share of a share.
typedef enum { ORIGINAL, SHARED, TWICE } Which;

static int64_t run_kind(const Kind *k, Which which, float *out) {
  tn_program *p = tn_program_create("share");
  tn_module *m = k->make(tn_root(p)), *second = tn_share_module(tn_root(p), "second", m);
  tn_module *third = tn_share_module(tn_root(p), "third", second);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, F));
  tn_tensor y = k->call(which == ORIGINAL ? m : which == SHARED ? second : third, x);
  int64_t n = B * T * k->width;
  tn_output(f, "y", tn_reshape(y, TN_SHAPE(n)));
  tn_function_end(f);
  tn_model *model = model_of(p, .n_workers = 1, .seed = 4);
  if (!model) printf("  %s\n", k->name);
  float v[N];
  for (int i = 0; i < N; i++) v[i] = sinf((float)(i * i + 1));
  bool good = model && tn_run(model, "f", TN_IN(tn_f32(v, B, T, F)), TN_OUT(tn_f32(out, n))) == TN_OK;
  if (model && !CHECK(good)) printf("  %s: %s\n", k->name, tn_error_text(model));
  tn_model_free(model);
  tn_program_free(p);
  return good ? n : 0;
}

static void check_kind(const Kind *k) {
  float a[MOST], b[MOST];
  int64_t n = run_kind(k, ORIGINAL, a);
  for (Which w = SHARED; w <= TWICE; w++) {
    int64_t n_shared = run_kind(k, w, b);
    if (!CHECK(n && n == n_shared && !memcmp(a, b, (size_t)n * sizeof *a))) printf("  in %s, share %d\n", k->name, w);
  }
}

// ---- a hook belongs to the path that it was registered at
static tn_tensor twice(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return tn_mul(out, tn_scalar(out.fn, 2));
}

static void check_hooks(void) {
  tn_program *p = tn_program_create("hooks");
  tn_module *m = make_biased(tn_root(p));
  tn_hook_post(m, twice, NULL);
  tn_module *second = tn_share_module(tn_root(p), "second", m);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, F));
  tn_output(f, "a", tn_call(m, x));
  tn_output(f, "b", tn_call(second, x));
  tn_function_end(f);
  tn_model *model = model_of(p, .n_workers = 1);
  float v[F] = {1, -2, 3}, a[F], b[F];
  CHECK(model && tn_run(model, "f", TN_IN(tn_f32(v, 1, F)), TN_OUT(tn_f32(a, 1, F), tn_f32(b, 1, F))) == TN_OK);
  for (int i = 0; i < F; i++) CHECK(a[i] == 2 * b[i] && b[i] != 0);
  tn_model_free(model);
  tn_program_free(p);
}

// ---- a parameter that another one replaces is gone: from the names, and from the ledger, which says that it ended
static void check_ledger(void) {
  tn_program *p = tn_program_create("ledger");
  tn_module *a = tn_linear(tn_root(p), "a", F, F), *b = tn_linear(tn_root(p), "b", F, F);
  tn_stats before = tn_stats_tensors(tn_init_function(p));
  tn_share(b, "weight", a, "weight");
  tn_stats after = tn_stats_tensors(tn_init_function(p));
  CHECK(before.live == 4 && after.live == 3 && after.disposed_outside + after.disposed_in == 1);
  tn_share(b, "weight", a, "weight");  // the same one again
  CHECK(tn_stats_tensors(tn_init_function(p)).live == 3);
  CHECK(tn_named_parameters(tn_root(p), TN_NAMES_UNIQUE, NULL, 0) == 3);
  CHECK(tn_named_parameters(tn_root(p), TN_NAMES_ALIASES, NULL, 0) == 4 && tn_n_errors(p) == 0);
  tn_program_free(p);
}

int main(void) {
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) check_kind(&kinds[k]);
  check_hooks();
  check_ledger();
  return check_report();
}
