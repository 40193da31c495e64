// Three layers whose state is a linear recurrence, each over packed sequences that never see one another: a selective state
// space as Mamba has it, gated linear attention in chunks, and a linear recurrent unit. Tells nine speakers apart by a vowel.
// ctest: --epochs 20 --expect 0.9
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <stdlib.h>

enum { BATCH = 30, TIME = 32, FEATURES = 12, CLASSES = 9, WIDTH = 32, DEPTH = 2 };
enum { STATE = 8 /* numbers for each channel */, HEADS = 2, KEY = 8, CHUNK = 8, TURNS = 32 /* of two numbers each */ };

static void fail(const char *why) { fprintf(stderr, "ssm: %s\n", why), exit(1); }
static tn_tensor call(tn_module *m, const char *child, tn_tensor x) { return tn_call(tn_child(m, child), x); }
static void no_bias(tn_module *m, const char *name, int64_t out) { tn_linear(m, name, WIDTH, out, .no_bias = true); }

// ---- selective state space: h_t = exp(-D rate) h_(t-1) + D b x_t, y_t = c h_t, where D (delta), b and c are read from x_t
static void make_selective(tn_module *m) {
  no_bias(m, "in", 2 * WIDTH), no_bias(m, "b", STATE), no_bias(m, "c", STATE), no_bias(m, "out", WIDTH);
  tn_linear(m, "delta", WIDTH, WIDTH);
  tn_parameter(m, "log_rate", TN_SHAPE(WIDTH, STATE), (tn_init){TN_INIT_UNIFORM, -3, 1});
  tn_parameter(m, "skip", TN_SHAPE(WIDTH), (tn_init){TN_INIT_CONSTANT, 1, 0});
}

static tn_tensor selective(tn_function *f, tn_module *m, tn_packed s) {
  tn_tensor u = call(m, "in", s.data), x = tn_silu(tn_slice(u, 1, 0, WIDTH)),
            gate = tn_silu(tn_slice(u, 1, WIDTH, WIDTH));
  tn_tensor delta = tn_unsqueeze(tn_softplus(call(m, "delta", x)), 2), rate = tn_exp(tn_param_value(f, m, "log_rate"));
  tn_tensor keep = tn_exp(tn_neg(tn_mul(delta, rate)));  // [rows, WIDTH, STATE]
  tn_tensor add = tn_mul(tn_mul(delta, tn_unsqueeze(x, 2)), tn_unsqueeze(call(m, "b", x), 1));
  tn_tensor h = tn_packed_linear_scan(keep, tn_packed_with_data(s, add)).out.data;
  tn_tensor y = tn_sum_axis(tn_mul(h, tn_unsqueeze(call(m, "c", x), 1)), 2, false);
  return call(m, "out", tn_mul(tn_add(y, tn_mul(x, tn_param_value(f, m, "skip"))), gate));
}

// ---- gated linear attention: S_t = g_t S_(t-1) + k_t v_t, y_t = q_t S_t, where S is a matrix for each head. Steps of a chunk
// meet in matrix products; the recurrence goes from chunk to chunk.
static void make_gated(tn_module *m) {
  no_bias(m, "q", HEADS * KEY), no_bias(m, "k", HEADS * KEY), no_bias(m, "v", WIDTH), no_bias(m, "out", WIDTH);
  tn_linear(m, "gate", WIDTH, HEADS);
}

// Rows -> [batch, chunks, HEADS, CHUNK, width of a head]. Steps behind a sequence are zeros: a gate of 1 and no key
static tn_tensor chunks(tn_packed s, tn_tensor x, int64_t width) {
  tn_tensor y = tn_pad_packed_to(tn_packed_with_data(s, x), 0, true, TIME);
  return tn_transpose(tn_reshape(y, TN_SHAPE(-1, TIME / CHUNK, CHUNK, HEADS, width)), 2, 3);
}

static tn_tensor gated(tn_function *f, tn_module *m, tn_packed s) {
  tn_tensor q = chunks(s, call(m, "q", s.data), KEY), k = chunks(s, call(m, "k", s.data), KEY);
  tn_tensor v = chunks(s, call(m, "v", s.data), WIDTH / HEADS);
  tn_tensor log_gate = chunks(s, tn_mul_scalar(tn_logsigmoid(call(m, "gate", s.data)), 1.0 / 16), 1);
  tn_tensor total = tn_cumsum(log_gate, 3), all = tn_slice(total, 3, CHUNK - 1, 1);  // from a chunk's beginning
  tn_tensor sums = tn_matmul(tn_transpose(tn_mul(k, tn_exp(tn_sub(all, total))), 3, 4), v);
  tn_tensor after = tn_linear_scan(tn_exp(all), sums, 1).out, none = tn_zeros_like(tn_slice(after, 1, 0, 1));
  tn_tensor before = tn_concat(1, TN_TENSORS(none, tn_slice(after, 1, 0, TIME / CHUNK - 1)));
  tn_tensor far = tn_matmul(tn_mul(q, tn_exp(total)), before);
  tn_tensor decay = tn_exp(tn_clamp_max(tn_sub(total, tn_transpose(total, 3, 4)), tn_scalar(f, 0)));
  tn_tensor near = tn_matmul(tn_tril(tn_mul(tn_matmul(q, tn_transpose(k, 3, 4)), decay), 0), v);
  tn_tensor y = tn_reshape(tn_transpose(tn_add(near, far), 2, 3), TN_SHAPE(-1, TIME, WIDTH));
  return call(m, "out", tn_pack_like(y, s, true).data);
}

// ---- linear recurrent unit: states of two numbers, each of which turns by its angle and shrinks by its factor in every step
static void make_recurrent(tn_module *m) {
  no_bias(m, "in", 2 * TURNS), tn_linear(m, "out", 2 * TURNS, WIDTH);
  tn_parameter(m, "log_shrink", TN_SHAPE(TURNS), (tn_init){TN_INIT_UNIFORM, -4, 0});
  tn_parameter(m, "angle", TN_SHAPE(TURNS), (tn_init){TN_INIT_UNIFORM, 0, 1});
}

static tn_tensor recurrent(tn_function *f, tn_module *m, tn_packed s) {
  tn_tensor shrink = tn_exp(tn_neg(tn_exp(tn_param_value(f, m, "log_shrink")))), angle = tn_param_value(f, m, "angle");
  tn_tensor c = tn_mul(shrink, tn_cos(angle)), d = tn_mul(shrink, tn_sin(angle)), e[] = {c, tn_neg(d), d, c};
  tn_tensor turn = tn_reshape(tn_stack(1, e, 4), TN_SHAPE(1, TURNS, 2, 2));
  tn_tensor scale = tn_sqrt(tn_sub(tn_scalar(f, 1), tn_mul(shrink, shrink)));  // states as large as what comes in
  tn_tensor x = tn_mul(tn_reshape(call(m, "in", s.data), TN_SHAPE(-1, TURNS, 2)), tn_unsqueeze(scale, 1));
  tn_tensor h = tn_packed_linear_scan(turn, tn_packed_with_data(s, x)).out.data;
  return call(m, "out", tn_gelu(tn_reshape(h, TN_SHAPE(-1, 2 * TURNS))));
}

// ---- the network: layers beside a path around them, and the mean over the steps
static void (*const make[])(tn_module *m) = {make_selective, make_gated, make_recurrent};
static tn_tensor (*const run[])(tn_function *f, tn_module *m, tn_packed s) = {selective, gated, recurrent};
static const char *const kinds[] = {"selective", "gated", "recurrent"}, *const layers[DEPTH] = {"layer1", "layer2"};

static void build_function(tn_program *p, int kind, const char *name, bool trains) {
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_function *f = tn_function_begin(p, name);
  tn_module *net = tn_root(p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, FEATURES));
  tn_tensor lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(B)), label = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_packed s = tn_pack_padded(tn_pad_packed_to(tn_pack_padded(x, lengths), 0, true, TIME), lengths);
  s = tn_packed_call(tn_child(net, "embed"), s);
  tn_eval(f, !trains);
  for (int k = 0; k < DEPTH; k++) {
    tn_module *m = tn_child(net, layers[k]);
    s = tn_packed_with_data(s, tn_add(s.data, run[kind](f, m, tn_packed_call(tn_child(m, "norm"), s))));
  }
  tn_tensor logits = call(net, "head", tn_packed_mean(s)), loss = tn_cross_entropy(logits, label);
  tn_output(f, "right", tn_sum(tn_cast(tn_eq(tn_argmax_axis(logits, -1, false), label), TN_F32)));
  if (trains) tn_backward(loss), tn_clip_grad_norm(f, net, 1.0), tn_adamw(f, net, .lr = 5e-3, .weight_decay = 1e-2);
  tn_function_end(f);
}

static tn_model *build(int kind) {
  tn_program *p = tn_program_create(kinds[kind]);
  tn_module *net = tn_root(p);
  tn_linear(net, "embed", FEATURES, WIDTH), tn_linear(net, "head", WIDTH, CLASSES);
  for (int k = 0; k < DEPTH; k++) {
    tn_module *m = tn_module_new(net, layers[k]);
    tn_layer_norm(m, "norm", TN_SHAPE(WIDTH)), make[kind](m);
  }
  build_function(p, kind, "train", true), build_function(p, kind, "test", false);
  tn_model *m = tn_compile(p);
  return tn_program_free(p), m ? m : (exit(1), NULL);
}

// The share of sequences that n passes over the data named right
static double passes(tn_model *m, const char *path, long n, const char *function) {
  char why[512] = "the data has other features, or more steps, than this program is made for";
  tn_series *s = tn_series_read(path, why, sizeof why);
  if (!s || tn_series_features(s) != FEATURES || tn_series_max_length(s) > TIME) fail(why);
  tn_dataset *d = tn_dataset_series(s, why, sizeof why);
  tn_loader *l =
      tn_loader_new(d, &(tn_loader_options){.batch_size = BATCH, .sampler = {.kind = TN_SHUFFLED}}, why, sizeof why);
  if (!l) fail(why);
  double right = 0, all = (double)tn_series_count(s) * (double)n;
  for (tn_batch b; n; n -= !b.number) {
    float found = 0;
    if (tn_loader_next(l, &b)) fail(tn_loader_error(l));
    if (b.number && tn_run_batch(m, function, b, TN_OUT(tn_f32_scalar(&found)))) fail(tn_error_text(m));
    right += (double)found;
  }
  return tn_loader_free(l), tn_dataset_free(d), tn_series_free(s), right / all;
}

int main(int argc, char **argv) {
  long epochs = 40, n_missed = 0;
  double expected = 0;
  const Argument list[] = {{"--epochs", "N", "passes over the data", .whole = &epochs, .least = 1, .most = 1e9},
                           {"--expect", "SHARE", "of speakers right, else it fails", .number = &expected, .most = 1}};
  read_arguments(argc, argv, "linear recurrences tell speakers apart", list, sizeof list / sizeof *list);
  for (int k = 0; k < 3; k++) {
    tn_model *m = build(k);
    passes(m, "data/japanese_vowels/JapaneseVowels_TRAIN.ts", epochs, "train");
    double right = passes(m, "data/japanese_vowels/JapaneseVowels_TEST.ts", 1, "test");
    printf("ssm: %-9s  %.4f of the test set right\n", kinds[k], right), fflush(stdout);
    tn_model_free(m), n_missed += right < expected;
  }
  return n_missed > 0;
}
