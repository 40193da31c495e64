// Batches in shards: gradients and losses are those of the whole batch, weighed by exact counts; sums over shards are the tree
// that the number of shards fixes; the bits depend on nothing else; what has no meaning is refused in words.
#include "frontend/tenure.h"
#include "tests/check.h"
#include <math.h>
#include <stdlib.h>

enum { ROWS = 30, BATCH = 32, WIDTH = 8, TIME = 6, STEPS = 20, MOST = 4096 };
static float xs[BATCH * TIME * WIDTH];
static int64_t labels[BATCH * TIME], lengths[BATCH];

static void fill(void) {
  for (int k = 0; k < BATCH * TIME * WIDTH; k++) xs[k] = (float)((k * 37) % 101) / 50 - 1;
  for (int k = 0; k < BATCH * TIME; k++) labels[k] = k % 3;
  for (int k = 0; k < BATCH; k++) lengths[k] = 1 + (k * 5) % TIME;
}

// ---- programs
typedef struct {
  uint32_t shards;  // 0: not distributed
  uint32_t workers;
  double dropout;
  bool is_packed, ignores, accumulates;
} Options;

static tn_tensor packed_loss(tn_function *f, tn_module *net, tn_dim B, const Options *o) {
  tn_module *rnn = tn_lstm(net, "rnn", WIDTH, 16), *head = tn_linear(net, "head", 16, 3);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, TIME, WIDTH)), n = tn_input(f, "n", TN_I64, TN_SHAPE(B));
  tn_tensor y = tn_input(f, "label", TN_I64, TN_SHAPE(B, TIME));
  tn_packed s = tn_pack_padded(x, n);
  tn_tensor tags = tn_pack_like(y, s, true).data, logits = tn_call(head, tn_rnn_call(rnn, s).out.data);
  tn_tensor rows = tn_sum(tn_ge(tn_cast(tags, TN_F32), tn_scalar(f, 0)));
  if (o->shards) tn_distributed(f, .n = o->shards, .batch = B, .count = rows);
  return tn_cross_entropy(logits, tags);
}

static tn_tensor dense_loss(tn_function *f, tn_module *net, tn_dim B, const Options *o) {
  tn_module *hidden = tn_linear(net, "hidden", WIDTH, 64), *head = tn_linear(net, "head", 64, 3);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, WIDTH)), y = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_tensor h = tn_relu(tn_call(hidden, x));
  tn_tensor logits = tn_call(head, o->dropout > 0 ? tn_dropout(h, o->dropout) : h);
  tn_tensor count = o->ignores ? tn_sum(tn_ge(tn_cast(y, TN_F32), tn_scalar(f, 0))) : TN_NONE;
  tn_output(f, "logits", logits);
  if (o->shards) tn_distributed(f, .n = o->shards, .batch = B, .count = count);
  return o->ignores ? tn_cross_entropy(logits, y, .ignore_index = -1, .has_ignore = true) : tn_cross_entropy(logits, y);
}

static tn_model *build(const Options *o) {
  tn_program *p = tn_program_create("shards");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *net = tn_root(p);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor loss = o->is_packed ? packed_loss(f, net, B, o) : dense_loss(f, net, B, o);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  if (o->accumulates) tn_accumulate(f, net, 2);
  tn_output(f, "norm", tn_clip_grad_norm(f, net, 0.1));
  tn_adamw(f, net, .lr = 1e-2);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = o->workers, .seed = 7);
  tn_program_free(p);
  return m;
}

typedef struct {
  float loss, norm, logits[BATCH * 3], params[MOST];
  size_t n_params;
} Result;

static bool step(tn_model *m, const Options *o, int64_t rows, Result *r) {
  tn_array loss = tn_f32_scalar(&r->loss), norm = tn_f32_scalar(&r->norm);
  tn_status s =
      o->is_packed
          ? tn_run(m, "step", TN_IN(tn_f32(xs, rows, TIME, WIDTH), tn_i64(lengths, rows), tn_i64(labels, rows, TIME)),
                   TN_OUT(loss, norm))
          : tn_run(m, "step", TN_IN(tn_f32(xs, rows, WIDTH), tn_i64(labels, rows)),
                   TN_OUT(tn_f32(r->logits, rows, 3), loss, norm));
  if (s) printf("%s\n", tn_error_text(m));
  return CHECK(!s);
}

static void take_params(tn_model *m, Result *r) {
  r->n_params = 0;
  for (uint32_t k = 0; k < tn_param_count(m); k++) {
    tn_array a = tn_param_at(m, k);
    size_t n = 1;
    for (uint32_t d = 0; d < a.rank; d++) n *= (size_t)a.dims[d];
    if (r->n_params + n > MOST) break;
    memcpy(r->params + r->n_params, a.data, n * sizeof(float)), r->n_params += n;
  }
}

static Result train(Options o, int64_t rows, int steps) {
  Result r = {0};
  tn_model *m = build(&o);
  if (!CHECK(m)) return r;
  for (int k = 0; k < steps && step(m, &o, rows, &r); k++) continue;
  take_params(m, &r);
  tn_model_free(m);
  return r;
}

static bool is_near(double a, double b, double scale) { return fabs(a - b) <= 2e-5 * (fabs(b) + scale); }

static void check_near(const Result *a, const Result *b, const char *what, uint32_t shards, int64_t rows) {
  bool good = is_near((double)a->loss, (double)b->loss, 0.1) && is_near((double)a->norm, (double)b->norm, 0.1) &&
              a->n_params == b->n_params;
  for (size_t k = 0; k < a->n_params && good; k++) good = is_near((double)a->params[k], (double)b->params[k], 1);
  if (!CHECK(good))
    printf("  %s, %u shards of %lld rows: loss %.9g, expected %.9g\n", what, shards, (long long)rows, (double)a->loss,
           (double)b->loss);
}

static bool is_same(const Result *a, const Result *b) {
  return !memcmp(&a->loss, &b->loss, sizeof a->loss) && !memcmp(&a->norm, &b->norm, sizeof a->norm) &&
         a->n_params == b->n_params && !memcmp(a->params, b->params, a->n_params * sizeof *a->params) &&
         !memcmp(a->logits, b->logits, sizeof a->logits);
}

// ---- the whole batch's gradients, however it is cut
static void test_whole(const char *what, Options o, const int64_t *rows, size_t n_rows) {
  static const uint32_t shards[] = {1, 2, 3, 4, 5, 8, 32, 100};
  o.workers = 1;
  for (size_t j = 0; j < n_rows; j++) {
    o.shards = 0;
    Result whole = train(o, rows[j], 6);
    for (size_t k = 0; k < sizeof shards / sizeof *shards; k++) {
      o.shards = shards[k];
      Result cut = train(o, rows[j], 6);
      check_near(&cut, &whole, what, shards[k], rows[j]);
    }
  }
}

static void test_gradients(void) {
  test_whole("dense", (Options){0}, (const int64_t[]){ROWS, 7, 1}, 3);
  test_whole("accumulated", (Options){.accumulates = true}, (const int64_t[]){ROWS}, 1);
  test_whole("packed", (Options){.is_packed = true}, (const int64_t[]){ROWS, 5}, 2);
  for (int k = 0; k < BATCH; k++)
    labels[k] = k < 20 || k % 7 == 0 ? -1 : k % 3;  // the first shards have none that counts
  test_whole("ignored labels", (Options){.ignores = true}, (const int64_t[]){ROWS}, 1);
  fill();
}

// One shard of a power of two of rows is the batch as it is; the number of workers changes nothing.
static void test_bits(void) {
  Options o = {.workers = 1, .dropout = 0.25};
  Result plain = train(o, 16, STEPS), one, many, again;
  o.shards = 1, one = train(o, 16, STEPS);
  CHECK(is_same(&one, &plain));
  o.shards = 4, many = train(o, ROWS, STEPS);
  o.workers = 3, again = train(o, ROWS, STEPS);
  CHECK(is_same(&many, &again));
}

// Other numbers are drawn in each shard, and in each run.
static void test_draws(void) {
  tn_program *p = tn_program_create("draws");
  tn_dim B = tn_dim_bounded(p, "batch", 8);
  tn_module *net = tn_root(p);
  tn_parameter(net, "w", TN_SHAPE(64), (tn_init){TN_INIT_CONSTANT, 1, 0});
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor y = tn_dropout(tn_mul(tn_input(f, "x", TN_F32, TN_SHAPE(B, 64)), tn_param_value(f, net, "w")), 0.5);
  tn_distributed(f, .n = 4, .batch = B);
  tn_output(f, "y", y);
  tn_backward(tn_mean(y));
  tn_sgd(f, net);
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  float x[8 * 64], found[2][8 * 64];
  for (int k = 0; k < 8 * 64; k++) x[k] = 1;
  for (int run = 0; CHECK(m) && run < 2; run++)
    CHECK(!tn_run(m, "step", TN_IN(tn_f32(x, 8, 64)), TN_OUT(tn_f32(found[run], 8, 64))));
  for (int k = 0; m && k < 8; k++)
    for (int j = 0; j < 16; j++) {
      const float *a = found[0] + k * 64, *b = found[j / 8] + j % 8 * 64;
      bool same = true;
      for (int e = 0; e < 64; e++) same &= (a[e] > 0) == (b[e] > 0);  // NOLINT: masks
      CHECK(same == (j == k));
    }
  tn_model_free(m), tn_program_free(p);
}

// ---- the tree
static float tree(const float *v, int n) {
  int half = 1;
  while (half * 2 < n) half *= 2;
  return n == 1 ? v[0] : tree(v, half) + tree(v + half, n - half);
}

static void test_tree(uint32_t n) {
  tn_program *p = tn_program_create("tree");
  tn_dim B = tn_dim_bounded(p, "batch", 16);
  tn_function *f = tn_function_begin(p, "add");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B));
  tn_distributed(f, .n = n, .batch = B, .count = tn_scalar(f, 1.0 / n));
  tn_output(f, "whole", tn_shard_mean(tn_reshape(tn_sum(x), TN_SHAPE(1))));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  float v[16], part[16], found = 0;
  for (uint32_t k = 0; k < n; k++) v[k] = k % 3 == 0 ? 1e8F : k % 3 == 1 ? 3 : -1e8F;
  for (uint32_t k = 0; k < n; k++) part[k] = v[k] * (float)(1.0 / n);
  float one[16];
  for (uint32_t k = 0; k < n; k++) one[k] = (float)(1.0 / n);
  if (CHECK(m) && CHECK(!tn_run(m, "add", TN_IN(tn_f32(v, n)), TN_OUT(tn_f32(&found, 1)))))
    CHECK(found == tree(part, (int)n) * (1 / tree(one, (int)n)));
  tn_model_free(m), tn_program_free(p);
}

// ---- training goes on from a file
static void test_resume(void) {
  Options o = {.workers = 2, .shards = 5, .dropout = 0.25};
  Result whole = train(o, ROWS, 6), r = {0};
  tn_model *a = build(&o), *b = build(&o);
  for (int k = 0; k < 3; k++) step(a, &o, ROWS, &r);
  CHECK(!tn_save(a, "shards.safetensors", true) && !tn_load(b, "shards.safetensors", true));
  for (int k = 0; k < 3; k++) step(b, &o, ROWS, &r);
  take_params(b, &r);
  CHECK(is_same(&r, &whole));
  tn_model_free(a), tn_model_free(b);
  remove("shards.safetensors");
}

// ---- refused when it runs
static void test_runs(void) {
  Options o = {.shards = 4, .workers = 1};
  tn_model *m = build(&o);
  float loss = 0, norm = 0, logits[3];
  if (!CHECK(m)) return;
  CHECK(tn_run(m, "step", TN_IN(tn_f32(xs, 0, WIDTH), tn_i64(labels, 0)),
               TN_OUT(tn_f32(logits, 0, 3), tn_f32_scalar(&loss), tn_f32_scalar(&norm))) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "step: a batch without rows has no mean");
  CHECK(tn_run(m, "step.update", TN_NO_IN, TN_NO_OUT) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "there is no function 'step.update'");
  tn_plan plan;
  CHECK(!tn_plan_of(m, "step.update", &plan) && plan.n_kernels > 0);
  tn_model_free(m);
}

// ---- refused when it is built or compiled
typedef void Mistake(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x);

static tn_tensor mean_of(tn_module *net, tn_tensor x) { return tn_mean(tn_call(tn_linear(net, "fc", WIDTH, 3), x)); }

static void twice(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p, (void)net, (void)x;
  tn_distributed(f, .n = 2, .batch = B), tn_distributed(f, .n = 2, .batch = B);
}
static void late(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p;
  tn_backward(mean_of(net, x));
  tn_distributed(f, .n = 2, .batch = B);
}
static void none(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p, (void)net, (void)x;
  tn_distributed(f, .batch = B);
}
static void constant(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p, (void)net, (void)B, (void)x;
  tn_distributed(f, .n = 2, .batch = tn_dim_const(8));
}
static void bad_count(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p, (void)net;
  tn_distributed(f, .n = 2, .batch = B, .count = x);
}
static void no_shards(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p, (void)f, (void)net, (void)B;
  tn_shard_mean(tn_mean(x));
}
static void second_axis(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p;
  tn_tensor y = tn_input(f, "y", TN_F32, TN_SHAPE(3, B));
  tn_distributed(f, .n = 2, .batch = B);
  tn_backward(tn_add(mean_of(net, x), tn_mean(y)));
  tn_sgd(f, net);
}
static void one_shards_output(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p;
  tn_distributed(f, .n = 2, .batch = B);
  tn_output(f, "columns", tn_sum_axis(x, 0, false));
  tn_backward(mean_of(net, x));
  tn_sgd(f, net);
}
static void one_shards_buffer(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p;
  tn_buffer(net, "seen", TN_SCALAR, (tn_init){.kind = TN_INIT_ZEROS});
  tn_distributed(f, .n = 2, .batch = B);
  tn_backward(mean_of(net, x));
  tn_sgd(f, net);
  tn_copy_(tn_param_value(f, net, "seen"), tn_mean(x));
}
static void mean_in_a_loss(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p;
  tn_distributed(f, .n = 2, .batch = B);
  tn_tensor y = tn_call(tn_linear(net, "fc", WIDTH, 3), x);
  tn_backward(tn_mean(tn_square(tn_sub(y, tn_shard_mean(tn_mean(y))))));
  tn_sgd(f, net);
}
static void second_loss(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p;
  tn_module *a = tn_linear(net, "a", WIDTH, WIDTH), *b = tn_linear(net, "b", WIDTH, 1);
  tn_distributed(f, .n = 2, .batch = B);
  tn_backward(tn_mean(tn_call(a, x)));
  tn_sgd(f, a);
  tn_backward(tn_mean(tn_call(b, tn_detach(tn_call(a, x)))));
  tn_sgd(f, b);
}
static void late_statistics(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p;
  tn_tensor y = tn_call(tn_batch_norm(net, "norm", WIDTH), x);
  tn_distributed(f, .n = 2, .batch = B);
  tn_backward(tn_mean(tn_square(y)));
  tn_sgd(f, net);
}
static void probed(tn_program *p, tn_function *f, tn_module *net, tn_dim B, tn_tensor x) {
  (void)p;
  tn_distributed(f, .n = 2, .batch = B);
  tn_probe(x, "x");
  tn_backward(mean_of(net, x));
  tn_sgd(f, net);
}

static uint32_t n_errors(const char *report) {
  uint32_t n = 0;
  while ((report = strstr(report, ": error[")) != NULL) n++, report++;
  return n;
}

// One mistake has one error.
static void check_report_of(tn_program *p, const char *expected) {
  char text[4096] = "";
  FILE *out = tmpfile();
  tn_report(p, out), rewind(out);
  text[fread(text, 1, sizeof text - 1, out)] = 0;
  fclose(out);
  CHECK_HAS(text, expected);
  if (!CHECK(n_errors(text) == 1)) printf("%s\n", text);
}

static void check_mistake(Mistake *make, const char *expected) {
  tn_program *p = tn_program_create("mistake");
  tn_dim B = tn_dim_bounded(p, "batch", 8);
  tn_function *f = tn_function_begin(p, "step");
  make(p, f, tn_root(p), B, tn_input(f, "x", TN_F32, TN_SHAPE(B, WIDTH)));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .quiet = true);
  CHECK(!m);
  check_report_of(p, expected);
  tn_model_free(m), tn_program_free(p);
}

static tn_program *two_shards(tn_dim *batch) {
  tn_program *p = tn_program_create("refused");
  tn_dim B = *batch = tn_dim_bounded(p, "batch", 8);
  tn_function *f = tn_function_begin(p, "step");
  tn_distributed(f, .n = 2, .batch = B);
  tn_output(f, "mean", tn_mean(tn_input(f, "x", TN_F32, TN_SHAPE(B))));
  tn_output(f, "other", tn_shard_mean(tn_scalar(f, 1)));
  tn_function_end(f);
  return p;
}

static void test_buckets(void) {
  tn_dim B;
  tn_program *p = two_shards(&B);
  CHECK(!tn_compile(p, .quiet = true, .buckets = TN_BUCKET_LIST({B, 4})));
  check_report_of(p, "is planned for its shards alone: buckets have no place");
  tn_program_free(p);
}

static void test_bundle(void) {
  tn_dim B;
  tn_program *p = two_shards(&B);
  CHECK(tn_bundle(p, "refused") != TN_OK);
  check_report_of(p, "bundles have no such functions: cutting a batch and exchanging take the runtime");
  tn_program_free(p);
}

static void test_mistakes(void) {
  check_mistake(twice, "the batch of function 'step' is cut into shards twice");
  check_mistake(late, "tn_distributed comes after a tn_backward of function 'step'");
  check_mistake(none, "a batch is cut into 1 to 4096 shards, not 0");
  check_mistake(constant, "the batch that is cut into shards is no named dim");
  check_mistake(bad_count, "a count is one number, found f32[batch,8]");
  check_mistake(no_shards, "function 'step' has no shards to take a mean of");
  check_mistake(second_axis, "the batch is not its first axis alone");
  check_mistake(one_shards_output, "neither the batch as its first axis nor is it one f32 number");
  check_mistake(one_shards_buffer, "it differs between shards, and the update is one of all shards");
  check_mistake(mean_in_a_loss, "each shard would compute with a mean of all shards");
  check_mistake(second_loss, "each shard would compute with a parameter that the update has changed");
  check_mistake(late_statistics, "tn_distributed comes after a layer of function 'step' that keeps running statistics");
  check_mistake(probed, "probe 'x' stands in the distributed function 'step'");
  test_buckets();
  test_bundle();
}

// ---- running statistics: the mean over shards, weighed by their rows, of what each makes of them
static void test_batch_norm(void) {
  enum { N_ROWS = 7, N = 3 };
  float x[N_ROWS * 2], expected[4] = {0, 0, 0, 0};
  for (int k = 0; k < N_ROWS * 2; k++) x[k] = (float)((k * 29) % 17) / 4 - 2;
  tn_program *p = tn_program_create("statistics");
  tn_dim B = tn_dim_bounded(p, "batch", N_ROWS);
  tn_module *norm = tn_batch_norm(tn_root(p), "norm", 2);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(B, 2));
  tn_distributed(f, .n = N, .batch = B);
  tn_backward(tn_mean(tn_square(tn_add(tn_call(norm, in), tn_scalar(f, 0.5)))));
  tn_sgd(f, norm, .lr = 0.1);
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  tn_program_free(p);
  if (!CHECK(m)) return;
  CHECK(!tn_run(m, "step", TN_IN(tn_f32(x, N_ROWS, 2)), TN_NO_OUT));
  for (int s = 0; s < N; s++) {
    int lo = s * N_ROWS / N, n = (s + 1) * N_ROWS / N - lo;
    for (int c = 0; c < 2; c++) {
      float mean = 0, square = 0;
      for (int r = lo; r < lo + n; r++) mean += x[2 * r + c] / (float)n;
      for (int r = lo; r < lo + n; r++) square += (x[2 * r + c] - mean) * (x[2 * r + c] - mean) / (float)(n - 1);
      expected[c] += 0.1f * mean * (float)n / N_ROWS;
      expected[2 + c] += (0.9f + 0.1f * square) * (float)n / N_ROWS;
    }
  }
  float mean[2], var[2];
  CHECK(!tn_get(m, "norm.running_mean", mean, 2) && !tn_get(m, "norm.running_var", var, 2));
  for (int c = 0; c < 2; c++) CHECK(fabsf(mean[c] - expected[c]) < 1e-6f && fabsf(var[c] - expected[2 + c]) < 1e-6f);
  tn_model_free(m);
}

// ---- buffers: the mean over shards of what each makes of them, weighed by its rows; one without rows that count keeps them
enum { N_SEEN = 7, N_PARTS = 3 };
static const float counts[N_SEEN] = {0, 0, 1, 1, 0, 1, 1};  // rows 0 and 1 are the first shard

static tn_model *build_buffers(void) {
  tn_program *p = tn_program_create("buffers");
  tn_dim B = tn_dim_bounded(p, "batch", N_SEEN);
  tn_module *net = tn_root(p);
  tn_buffer(net, "mean", TN_SHAPE(2), (tn_init){.kind = TN_INIT_CONSTANT, .a = 1});
  tn_buffer(net, "square", TN_SHAPE(2), (tn_init){.kind = TN_INIT_CONSTANT, .a = 1});
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 2)), rows = tn_sum(tn_input(f, "counts", TN_F32, TN_SHAPE(B)));
  tn_distributed(f, .n = N_PARTS, .batch = B);
  tn_tensor any = tn_gt(rows, tn_scalar(f, 0)), mean = tn_div(tn_sum_axis(x, 0, false), rows);
  tn_tensor seen[] = {tn_param_value(f, net, "mean"), tn_param_value(f, net, "square")};
  tn_tensor next[] = {mean, tn_square(mean)};
  for (int k = 0; k < 2; k++) {
    tn_tensor now = tn_add(tn_mul_scalar(seen[k], 0.5), next[k]);
    tn_copy_(seen[k], tn_shard_mean(tn_where(any, now, seen[k])));
  }
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  tn_program_free(p);
  return m;
}

// expected: mean[2], square[2]
static void next_buffers(const float *x, float *expected) {
  float now[4] = {0, 0, 0, 0};
  for (int s = 0; s < N_PARTS; s++) {
    int lo = s * N_SEEN / N_PARTS, hi = (s + 1) * N_SEEN / N_PARTS;
    for (int k = 0; k < 4; k++) {
      float sum = 0, rows = 0;
      for (int r = lo; r < hi; r++) sum += x[2 * r + k % 2], rows += counts[r];
      float of = k < 2 ? sum / rows : sum / rows * (sum / rows);
      now[k] += (rows > 0 ? 0.5f * expected[k] + of : expected[k]) * (float)(hi - lo) / N_SEEN;
    }
  }
  memcpy(expected, now, sizeof now);
}

static void test_buffers_of_shards(void) {
  float x[N_SEEN * 2], expected[4] = {1, 1, 1, 1}, found[4];
  for (int k = 0; k < N_SEEN * 2; k++) x[k] = (float)((k * 29) % 17) / 4 - 2;
  tn_model *m = build_buffers();
  if (!CHECK(m)) return;
  for (int run = 0; run < 2; run++) {
    CHECK(!tn_run(m, "step", TN_IN(tn_f32(x, N_SEEN, 2), tn_f32(counts, N_SEEN)), TN_NO_OUT));
    next_buffers(x, expected);
  }
  CHECK(!tn_get(m, "mean", found, 2) && !tn_get(m, "square", found + 2, 2));
  for (int k = 0; k < 4; k++) CHECK(fabsf(found[k] - expected[k]) < 1e-5f);
  tn_model_free(m);
}

int main(void) {
  fill();
  test_buffers_of_shards();
  test_batch_norm();
  test_gradients();
  test_bits();
  test_draws();
  for (uint32_t n = 1; n <= 9; n++) test_tree(n);
  test_resume();
  test_runs();
  test_mistakes();
  return check_report();
}
