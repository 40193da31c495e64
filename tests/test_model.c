// Compiled models through the public API: results, checks of inputs, parameters, files, workers, and that a run
// allocates nothing.
#include "frontend/tenure.h"
#include "runtime/base.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

// Every allocation of the process is counted, LLVM's too. The sanitizer brings an allocator of its own: then rt_malloc
// counts alone.
static atomic_ulong n_mallocs;
#if !defined(__SANITIZE_ADDRESS__) && defined(__GLIBC__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_SANITIZER
#endif
#endif
#ifndef HAS_SANITIZER
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n) { return atomic_fetch_add(&n_mallocs, 1), __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return atomic_fetch_add(&n_mallocs, 1), __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return atomic_fetch_add(&n_mallocs, 1), __libc_realloc(p, n); }
#endif
#endif

// ---- composed operations, against numbers worked out by hand
static void composed_operations(void) {
  tn_program *p = tn_program_create("ops");
  tn_dim N = tn_dim_bounded(p, "n", 8);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(N, 3));
  tn_tensor many[20];
  for (int k = 0; k < 20; k++) many[k] = tn_slice(x, 1, k % 3, 1);
  tn_output(f, "mean", tn_mean_axis(x, 0, false));
  tn_output(f, "all", tn_mean(x));
  tn_output(f, "none", tn_sum(tn_mean(x)));
  tn_output(f, "softmax", tn_softmax(x, 0));
  tn_output(f, "mse", tn_mse(x, tn_scalar(f, 1)));
  tn_output(f, "concat", tn_concat(-1, many, 20));
  tn_output(f, "transposed", tn_transpose(x, 0, -1));
  tn_output(f, "twice", tn_permute(tn_transpose(x, 0, 1), TN_INTS(1, 0)));
  tn_output(f, "best", tn_argmax_axis(x, -1, false));
  tn_output(f, "leaky", tn_leaky_relu(tn_sub(x, tn_scalar(f, 2)), 0.5));
  tn_output(f, "chosen", tn_select(tn_gt(x, tn_scalar(f, 2)), x, tn_scalar(f, 0)));
  tn_output(f, "top", tn_amax_axis(x, 1, true));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  float xs[6] = {1, 2, 3, 4, 0, 2}, mean[3], all = 0, none = 0, soft[6], mse = 0, cat[40], tr[6], twice[6], leaky[6],
        chosen[6], top[2];
  int64_t best[2];
  CHECK(!tn_run(m, "run", TN_IN(tn_f32(xs, 2, 3)),
                TN_OUT(tn_f32(mean, 3), tn_f32_scalar(&all), tn_f32_scalar(&none), tn_f32(soft, 2, 3),
                       tn_f32_scalar(&mse), tn_f32(cat, 2, 20), tn_f32(tr, 3, 2), tn_f32(twice, 2, 3), tn_i64(best, 2),
                       tn_f32(leaky, 2, 3), tn_f32(chosen, 2, 3), tn_f32(top, 2, 1))));
  CHECK(is_near(mean[0], 2.5, 1e-5) && is_near(mean[1], 1, 1e-5) && is_near(mean[2], 2.5, 1e-5) &&
        is_near(all, 2, 1e-5) && is_near(none, 2, 1e-5));
  CHECK(is_near(soft[0], 1 / (1 + exp(3)), 1e-5) && is_near(soft[3], 1 / (1 + exp(-3)), 1e-5) &&
        is_near(soft[1] + soft[4], 1, 1e-5));
  CHECK(is_near(mse, (0 + 1 + 4 + 9 + 1 + 1) / 6.0, 1e-5));
  CHECK(cat[0] == 1 && cat[19] == 2 && cat[20] == 4 && cat[38] == 4 && cat[39] == 0);
  CHECK(tr[0] == 1 && tr[1] == 4 && tr[5] == 2 && !memcmp(twice, xs, sizeof xs));
  CHECK(best[0] == 2 && best[1] == 0 && top[0] == 3 && top[1] == 4);
  CHECK(leaky[0] == -0.5f && leaky[3] == 2 && chosen[0] == 0 && chosen[2] == 3 && chosen[3] == 4);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- a classifier over packed sequences with every kind of input
enum { BATCH = 6, TIME = 7, WORDS = 11, CLASSES = 4 };
static const int64_t words[BATCH * TIME] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 3, 3, 3, 1, 0, 0, 0,
                                            5, 0, 0, 0, 0, 0, 0, 9, 8, 7,  6, 5, 0, 0, 2, 4, 6, 8, 0, 0, 0};
static const int64_t lengths[BATCH] = {7, 3, 4, 1, 5, 4}, labels[BATCH] = {0, 1, 2, 3, 0, 1};

static tn_program *classifier(void) {
  tn_program *p = tn_program_create("classifier");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_module *net = tn_root(p), *e = tn_embedding(net, "embed", WORDS, 5);
  tn_module *rnn = tn_gru(net, "rnn", 5, 6, .bidirectional = true, .n_layers = 2, .dropout = 0.2);
  tn_module *head = tn_sequential(net, "head");
  tn_linear(head, "0", 12, 8);
  tn_activation(head, "1", "gelu");
  tn_dropout_module(head, "2", 0.1);
  tn_linear(head, "3", 8, CLASSES);
  for (int train = 0; train < 2; train++) {
    tn_function *f = tn_function_begin(p, train ? "train" : "test");
    tn_tensor x = tn_input(f, "words", TN_I64, TN_SHAPE(B, T)), len = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
    tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(B));
    tn_eval(f, !train);
    tn_scope *s = tn_scope_begin(f, "forward");
    tn_rnn_output r = tn_rnn_call(rnn, tn_pack_padded(tn_call(e, x), len));
    tn_tensor logits = tn_move_to_outer(tn_call(head, tn_last_hidden(r))), stacked = tn_move_to_outer(r.hidden);
    tn_scope_end(s);
    tn_tensor loss = tn_cross_entropy(logits, label);
    tn_output(f, "loss", loss);
    if (train) {
      tn_scope *update = tn_scope_begin(f, "update");
      tn_backward(loss);
      tn_clip_grad_norm(f, net, 0.5);
      tn_adamw(f, net, .lr = 1e-2, .weight_decay = 1e-2);
      tn_scope_end(update);
    } else {
      tn_output(f, "hidden", stacked);
      tn_output(f, "logits", logits);
    }
    tn_function_end(f);
  }
  return p;
}

static float train(tn_model *m, int n) {
  float loss = 0;
  for (int k = 0; k < n; k++)
    CHECK(!tn_run(m, "train", TN_IN(tn_i64(words, BATCH, TIME), tn_i64(lengths, BATCH), tn_i64(labels, BATCH)),
                  TN_OUT(tn_f32_scalar(&loss))));
  return loss;
}

typedef struct {
  float loss, hidden[4 * BATCH * 6], logits[BATCH * CLASSES];
} Result;

static Result test(tn_model *m) {
  Result r;
  memset(&r, 0, sizeof r);
  CHECK(!tn_run(m, "test", TN_IN(tn_i64(words, BATCH, TIME), tn_i64(lengths, BATCH), tn_i64(labels, BATCH)),
                TN_OUT(tn_f32_scalar(&r.loss), tn_f32(r.hidden, 4, BATCH, 6), tn_f32(r.logits, BATCH, CLASSES))));
  return r;
}

static uint64_t hash_params(tn_model *m) {
  uint64_t h = 0;
  for (uint32_t k = 0; k < tn_param_count(m); k++) {
    tn_array a = tn_param_at(m, k);
    size_t n = sizeof(float);
    for (uint32_t d = 0; d < a.rank; d++) n *= (size_t)a.dims[d];
    h = rt_hash(a.data, n, h);
  }
  return h;
}

static void learns_and_outlives_its_program(void) {
  tn_program *p = classifier();
  tn_model *m = model_of(p, .seed = 1), *other = tn_instance(m, 2);
  tn_plan plan;
  CHECK(!tn_plan_of(m, "train", &plan) && plan.peak_bytes >= plan.lower_bound && plan.lower_bound > 0 &&
        plan.n_kernels > 3);
  CHECK(tn_plan_of(m, "none", &plan) == TN_ERR_ARGUMENT);
  tn_program_free(p);
  uint64_t untouched = hash_params(other);
  float first = train(m, 1), last = train(m, 150);
  CHECK(last < 0.5f * first);
  CHECK(hash_params(other) == untouched && hash_params(m) != untouched);
  Result r = test(m);
  CHECK(memcmp(&r.logits, &(float[BATCH * CLASSES]){0}, sizeof r.logits) != 0);
  CHECK(!tn_initialize(m, 2) && hash_params(m) == untouched);
  tn_model_free(m);
  CHECK(train(other, 1) > 0);
  tn_model_free(other);
}

static void same_bits_for_any_number_of_workers(void) {
  uint64_t expected = 0;
  Result want = {0};
  for (uint32_t n = 1; n <= 4; n++) {
    tn_program *p = classifier();
    tn_model *m = model_of(p, .n_workers = n, .seed = 7);
    CHECK(tn_n_workers(m) == n);
    train(m, 25);
    Result r = test(m);
    if (n == 1) expected = hash_params(m), want = r;
    CHECK(hash_params(m) == expected && !memcmp(&r, &want, sizeof r));
    tn_model_free(m);
    tn_program_free(p);
  }
}

static void a_run_allocates_nothing(void) {
  tn_program *p = classifier();
  tn_model *m = model_of(p, .n_workers = 2);
  train(m, 1);
  uint64_t ours = rt_malloc_count(), all = atomic_load(&n_mallocs);
  train(m, 5);
  test(m);
  CHECK(rt_malloc_count() == ours && atomic_load(&n_mallocs) == all);
  CHECK(tn_run(m, "train", TN_NO_IN, TN_NO_OUT) == TN_ERR_ARGUMENT);
  CHECK(rt_malloc_count() == ours && atomic_load(&n_mallocs) == all);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- refused calls: a status, a sentence that names the culprit, and nothing changed
typedef struct {
  const char *what;
  tn_array words, lengths, labels;
  tn_status status;
  const char *text[2];
} BadCall;

static void refuse(tn_model *m, const BadCall *b) {
  float loss = -1;
  uint64_t before = hash_params(m);
  tn_status s = tn_run(m, "train", TN_IN(b->words, b->lengths, b->labels), TN_OUT(tn_f32_scalar(&loss)));
  bool good = s == b->status && loss == -1 && hash_params(m) == before;
  good = good && strstr(tn_error_text(m), b->text[0]) && strstr(tn_error_text(m), b->text[1]);
  if (!CHECK(good)) printf("  %s: status %d, '%s'\n", b->what, (int)s, tn_error_text(m));
}

static void bad_inputs(void) {
  tn_program *p = classifier();
  tn_model *m = model_of(p, .n_workers = 2);
  static const int64_t zero[BATCH] = {7, 0, 4, 1, 5, 4}, negative[BATCH] = {7, 3, -4, 1, 5, 4},
                       longer[BATCH] = {8, 3, 4, 1, 5, 4};
  static const int64_t high[BATCH] = {0, 1, 2, 3, 4, 1}, low[BATCH] = {0, 1, 2, 3, 0, -1};
  static int64_t many[9 * 9], odd[BATCH * TIME];
  memcpy(odd, words, sizeof odd);
  odd[8] = WORDS;
  tn_array w = tn_i64(words, BATCH, TIME), l = tn_i64(lengths, BATCH), y = tn_i64(labels, BATCH);
  const BadCall calls[] = {
      {"length 0", w, tn_i64(zero, BATCH), y, TN_ERR_VALUE, {"lengths", "1"}},
      {"length -4", w, tn_i64(negative, BATCH), y, TN_ERR_VALUE, {"lengths", "-4"}},
      {"length 8", w, tn_i64(longer, BATCH), y, TN_ERR_VALUE, {"lengths", "8"}},
      {"label 4", w, l, tn_i64(high, BATCH), TN_ERR_VALUE, {"label", "4"}},
      {"label -1", w, l, tn_i64(low, BATCH), TN_ERR_VALUE, {"label", "-1"}},
      {"word 11", tn_i64(odd, BATCH, TIME), l, y, TN_ERR_VALUE, {"words", "11"}},
      {"dtype", tn_f32(words, BATCH, TIME), l, y, TN_ERR_ARGUMENT, {"words", "f32"}},
      {"rank", tn_i64(words, BATCH * TIME), l, y, TN_ERR_ARGUMENT, {"words", "rank"}},
      {"rank 77", tn_array_of(words, TN_I64, (const int64_t[]){BATCH}, 77), l, y, TN_ERR_ARGUMENT, {"words", "rank"}},
      {"no dims", tn_array_of(words, TN_I64, NULL, 2), l, y, TN_ERR_ARGUMENT, {"words", "-1"}},
      {"bound", tn_i64(many, 9, TIME), tn_i64(many, 9), tn_i64(many, 9), TN_ERR_ARGUMENT, {"words", "9"}},
      {"disagreement", w, tn_i64(lengths, 5), y, TN_ERR_ARGUMENT, {"lengths", "5"}},
      {"no data", tn_i64(NULL, BATCH, TIME), l, y, TN_ERR_ARGUMENT, {"words", "no data"}},
  };
  for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) refuse(m, &calls[k]);
  float loss;
  CHECK(tn_run(m, "train", TN_IN(w, l), TN_OUT(tn_f32_scalar(&loss))) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "3 inputs");
  CHECK(tn_run(m, "nothing", TN_IN(w, l, y), TN_OUT(tn_f32_scalar(&loss))) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "there is no function 'nothing'");
  CHECK(tn_run(m, "init", TN_NO_IN, TN_NO_OUT) == TN_ERR_ARGUMENT &&
        tn_run(m, NULL, TN_NO_IN, TN_NO_OUT) == TN_ERR_ARGUMENT);
  CHECK(tn_run(m, "train", NULL, 3, TN_OUT(tn_f32_scalar(&loss))) == TN_ERR_ARGUMENT);
  train(m, 1);  // a refused call leaves a model that works
  tn_model_free(m);
  tn_program_free(p);
}

// ---- parameters and files
static void parameters(void) {
  tn_program *p = classifier();
  tn_model *m = model_of(p, .n_workers = 1, .seed = 3);
  float bias[8], zero = 0, w[6 * 3 * 6];
  CHECK(!tn_get(m, "head.0.bias", bias, 8));
  for (int k = 0; k < 8; k++) CHECK(fabsf(bias[k]) <= 1 / sqrtf(12));
  CHECK(!tn_get(m, "rnn.weight_hh_l1_reverse", w, 6 * 3 * 6));
  CHECK(tn_get(m, "head.0.bias", bias, 7) == TN_ERR_ARGUMENT && tn_get(m, "none", bias, 8) == TN_ERR_ARGUMENT);
  CHECK(tn_set(m, NULL, bias, 8) == TN_ERR_ARGUMENT && tn_param_at(m, 99999).data == NULL && !tn_param_path(m, 99999));
  CHECK(!strcmp(tn_param_path(m, 0), "embed.weight"));
  train(m, 2);
  CHECK(!tn_get(m, "optimizer.step.head.0.bias", &zero, 1) && zero == 2);
  CHECK(!tn_get(m, "optimizer.lr", &zero, 1) && is_near(zero, 1e-2, 1e-5));
  zero = 0;
  CHECK(!tn_set(m, "optimizer.lr", &zero, 1));
  float before[8], after[8];
  CHECK(!tn_get(m, "head.0.bias", before, 8));
  train(m, 2);
  CHECK(!tn_get(m, "head.0.bias", after, 8) && !memcmp(before, after, sizeof before));
  tn_model_free(m);
  tn_program_free(p);
}

static void files(void) {
  char path[] = "/tmp/tn_test_model_XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0 && !close(fd));
  tn_program *p = classifier();
  tn_model *m = model_of(p, .n_workers = 2, .seed = 5), *n = tn_instance(m, 6);
  train(m, 3);
  CHECK(!tn_save(m, path, true) && !tn_load(n, path, true) && hash_params(m) == hash_params(n));
  CHECK(train(m, 4) == train(n, 4) && hash_params(m) == hash_params(n));  // dropout draws the same numbers too
  CHECK(!tn_save(m, path, false) && tn_load(n, path, true) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(n), "optimizer.step");
  Result a = test(m);
  CHECK(!tn_initialize(n, 1) && !tn_load(n, path, false));
  Result b = test(n);
  CHECK(!memcmp(&a, &b, sizeof a));
  uint64_t before = hash_params(n);
  CHECK(!truncate(path, 1000) && tn_load(n, path, false) == TN_ERR_FILE && hash_params(n) == before);
  CHECK(tn_load(n, "/nonexistent/file", false) == TN_ERR_FILE && strlen(tn_error_text(n)) > 0);
  CHECK(tn_save(n, "/nonexistent/file", false) == TN_ERR_FILE && tn_save(n, NULL, false) == TN_ERR_ARGUMENT);
  unlink(path);
  tn_model_free(m);
  tn_model_free(n);
  tn_program_free(p);
}

// ---- tied weights: one parameter under two paths; freezing; gradients as values
static void tied_and_frozen(void) {
  tn_program *p = tn_program_create("tied");
  tn_module *e = tn_embedding(tn_root(p), "e", 3, 2), *h = tn_linear(tn_root(p), "h", 2, 3, true);
  tn_share(h, "weight", e, "weight");
  tn_parameter(tn_root(p), "scale", TN_SCALAR, ((tn_init){TN_INIT_CONSTANT, 2, 0}));
  tn_buffer(tn_root(p), "offset", TN_SHAPE(2), ((tn_init){TN_INIT_CONSTANT, 0.5, 0}));
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor i = tn_input(f, "i", TN_I64, TN_SHAPE(1));
  tn_tensor y = tn_call(h, tn_add(tn_call(e, i), tn_param_value(f, tn_root(p), "offset")));
  tn_tensor loss = tn_mul(tn_sum(y), tn_param_value(f, tn_root(p), "scale"));
  tn_backward(loss);
  tn_output(f, "grad", tn_param_grad(f, h, "weight"));
  tn_output(f, "scale_grad", tn_param_grad(f, tn_root(p), "scale"));
  tn_output(f, "y_grad", tn_grad(loss, y));
  tn_function_end(f);
  tn_freeze(tn_root(p), true);
  f = tn_function_begin(p, "frozen");
  tn_backward(tn_sum(tn_param_value(f, e, "weight")));
  CHECK(tn_n_errors(p) == 1);
  tn_program_free(p);

  p = tn_program_create("tied");
  e = tn_embedding(tn_root(p), "e", 3, 2), h = tn_linear(tn_root(p), "h", 2, 3, true);
  tn_share(h, "weight", e, "weight");
  f = tn_function_begin(p, "step");
  i = tn_input(f, "i", TN_I64, TN_SHAPE(1));
  loss = tn_sum(tn_call(h, tn_call(e, i)));
  tn_backward(loss);
  tn_backward(loss);
  tn_output(f, "grad", tn_param_grad(f, h, "weight"));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  const float w[6] = {1, 2, 3, 4, 5, 6};
  float g[6];
  CHECK(tn_param_count(m) == 1 && !tn_set(m, "h.weight", w, 6));
  CHECK(!tn_run(m, "step", TN_IN(tn_i64(&(int64_t){1}, 1)), TN_OUT(tn_f32(g, 3, 2))));
  // d/dw sum_k w_k . w_1: w_1 in every row, and the sum of all rows in row 1; twice.
  CHECK(g[0] == 6 && g[1] == 8 && g[2] == 2 * (3 + 9) && g[3] == 2 * (4 + 12) && g[4] == 6 && g[5] == 8);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- SGD against its formula
static void sgd(double momentum, double dampening, bool nesterov) {
  tn_program *p = tn_program_create("sgd");
  tn_parameter(tn_root(p), "w", TN_SHAPE(2), ((tn_init){TN_INIT_CONSTANT, 1, 0}));
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), x = tn_input(f, "x", TN_F32, TN_SHAPE(2));
  tn_backward(tn_sum(tn_mul(tn_square(w), x)));
  tn_sgd(f, tn_root(p), 0.1, momentum, dampening, 0.01, nesterov);
  tn_output(f, "new", tn_param_value(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  double v[2] = {1, 1}, b[2] = {0, 0};
  const float xs[2] = {1, -0.5f};
  for (int step = 0; step < 4; step++) {
    float got[2];
    CHECK(!tn_run(m, "step", TN_IN(tn_f32(xs, 2)), TN_OUT(tn_f32(got, 2))));
    for (int k = 0; k < 2; k++) {
      double g = 2 * v[k] * (double)xs[k] + 0.01 * v[k];
      b[k] = step ? momentum * b[k] + (1 - dampening) * g : g;
      v[k] -= 0.1 * (nesterov ? g + momentum * b[k] : momentum > 0 ? b[k] : g);
      CHECK(is_near(got[k], v[k], 1e-5));
    }
  }
  tn_model_free(m);
  tn_program_free(p);
}

// ---- text
static void dumps(void) {
  char *text = NULL;
  size_t size = 0;
  tn_program *p = classifier();
  CHECK(tn_dump(p, stdout, TN_DUMP_LIFETIMES) == TN_ERR_ARGUMENT);
  CHECK(tn_dump(p, stdout, TN_DUMP_CERTIFICATE) == TN_ERR_ARGUMENT);
  FILE *out = open_memstream(&text, &size);
  CHECK(!tn_dump(p, out, TN_DUMP_IR) && !fflush(out) && strstr(text, "func @train("));
  tn_model *m = model_of(p, .n_workers = 1);
  CHECK(!tn_dump(p, out, TN_DUMP_IR) && !tn_dump_function(p, "train", out, TN_DUMP_IR));
  CHECK(!tn_dump(p, out, TN_DUMP_LIFETIMES) && !tn_dump(p, out, TN_DUMP_SUMMARY));
  CHECK(tn_dump_function(p, "none", out, TN_DUMP_IR) == TN_ERR_ARGUMENT);
  CHECK(!tn_dump(p, out, TN_DUMP_CERTIFICATE));
  CHECK(tn_dump_function(p, "train", out, TN_DUMP_CERTIFICATE) == TN_ERR_ARGUMENT);  // its digest is of the program
  fclose(out);
  CHECK_HAS(text, "test_model.c:");
  CHECK_HAS(text, "lower bound");
  CHECK_HAS(text, "tenure-plan 1\nprogram ");
  CHECK_HAS(text, "\nend ");
  free(text);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- TN_TARGET
static void refuses_target(const char *name, const char *expected) {
  char *keep = getenv("TN_TARGET") ? strdup(getenv("TN_TARGET")) : NULL, *text = NULL;
  size_t size = 0;
  setenv("TN_TARGET", name, 1);
  tn_program *p = classifier();
  CHECK(!tn_compile(p, .quiet = true));
  FILE *out = open_memstream(&text, &size);
  CHECK(tn_report(p, out) == TN_ERR_BUILD);
  fclose(out);
  CHECK_HAS(text, "error[E007]");
  CHECK_HAS(text, "test_model.c:");
  CHECK_HAS(text, expected);
  free(text);
  tn_program_free(p);
  if (keep) setenv("TN_TARGET", keep, 1);
  else unsetenv("TN_TARGET");
  free(keep);
}

static void targets(void) {
  refuses_target("none such",
                 "there is no target 'none such': x86-64-v4-amx (amx), x86-64-v4 (avx512), x86-64-v3 (avx2), ");
#if defined(__x86_64__)
  refuses_target("neon", "target 'neon' needs an AArch64 CPU, which this machine lacks");
#endif
}

int main(void) {
  composed_operations();
  learns_and_outlives_its_program();
  same_bits_for_any_number_of_workers();
  a_run_allocates_nothing();
  bad_inputs();
  parameters();
  files();
  tied_and_frozen();
  sgd(0, 0, false);
  sgd(0.9, 0, false);
  sgd(0.9, 0.3, false);
  sgd(0.9, 0, true);
  dumps();
  targets();
  return check_report();
}
