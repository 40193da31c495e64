// Buckets: plans for smaller bounds. The same bits as without them, the smallest plan that fits is run, kernels are
// shared, and what each plan takes is told.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"

#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 8, TIME = 64, FEATURES = 5, HIDDEN = 19, CLASSES = 4, N_RUNS = 14 };
static const int64_t times[N_RUNS] = {7, 16, 17, 64, 1, 33, 32, 16, 63, 5, 31, 2, 64, 15};
static const int64_t batches[N_RUNS] = {8, 3, 8, 8, 1, 2, 8, 4, 7, 8, 5, 8, 1, 3};

typedef struct {
  tn_program *p;
  tn_model *m;
  tn_dim B, T;
} Net;

// A recurrence of the user's: its body is a function too, and has a plan for each bucket.
static tn_tensor smoothed(tn_function *f, tn_packed s, tn_tensor x, tn_dim batch) {
  tn_scan *scan = tn_scan_begin(f, .over = s);
  tn_tensor in = tn_scan_input(scan, x), h = tn_scan_carry(scan, tn_zeros(f, TN_SHAPE(batch, 2 * HIDDEN)));
  tn_tensor next = tn_tanh(tn_add(tn_mul(h, tn_scalar(f, 0.5)), tn_dropout(in, 0.1)));
  tn_scan_next(scan, h, next);
  tn_tensor all = tn_scan_output(scan, next);
  tn_scan_end(scan);
  return all;
}

static void build_step(Net *n, bool is_training) {
  tn_function *f = tn_function_begin(n->p, is_training ? "step" : "predict");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n->B, n->T, FEATURES));
  tn_tensor len = tn_input(f, "len", TN_I64, TN_SHAPE(n->B));
  tn_packed s = tn_pack_padded(x, len);
  tn_rnn_output r = tn_rnn_call(tn_child(tn_root(n->p), "rnn"), s);
  tn_tensor wide = tn_relu(tn_call(tn_child(tn_root(n->p), "wide"), smoothed(f, s, r.out.data, n->B)));
  tn_tensor y = tn_call(tn_child(tn_root(n->p), "head"), tn_dropout(wide, 0.25));
  if (!is_training) tn_output(f, "y", tn_softmax(y, -1));
  if (is_training) {
    tn_tensor loss =
        tn_add(tn_mean(tn_square(y)), tn_mse(tn_last_hidden(r), tn_full(f, 0.1, TN_SHAPE(n->B, 2 * HIDDEN))));
    tn_output(f, "loss", loss);
    tn_backward(loss);
    tn_clip_grad_norm(f, tn_root(n->p), 1.0);
    tn_adamw(f, tn_root(n->p));
  }
  tn_function_end(f);
}

static Net build(int64_t time) {
  Net n = {.p = tn_program_create("buckets")};
  n.B = tn_dim_bounded(n.p, "batch", BATCH), n.T = tn_dim_bounded(n.p, "time", time);
  tn_lstm(tn_root(n.p), "rnn", FEATURES, HIDDEN, .bidirectional = true);
  tn_linear(tn_root(n.p), "wide", 2 * HIDDEN, 200);
  tn_linear(tn_root(n.p), "head", 200, CLASSES);
  build_step(&n, true);
  build_step(&n, false);
  return n;
}

static void compile(Net *n, const tn_compile_options *o) {
  n->m = (tn_compile)(n->p, o ? *o : (tn_compile_options){.at = TN_SITE});
  if (!CHECK(n->m)) tn_report(n->p, stdout), exit(1);
}

static void drop(Net *n) {
  tn_model_free(n->m);
  tn_program_free(n->p);
}

static float value(uint64_t k) { return (float)(((k + 1) * 2654435761u >> 7) % 2001) / 1000 - 1; }

typedef struct {
  float loss[N_RUNS], y[N_RUNS][BATCH * TIME * CLASSES], weight[HIDDEN * 8 * FEATURES];
} Results;

static void fill(int run, float *x, int64_t *len) {
  for (int64_t k = 0; k < BATCH * TIME * FEATURES; k++) x[k] = value((uint64_t)(k + 977 * run));
  for (int64_t k = 0; k < BATCH; k++) len[k] = 1 + (k * 5 + run) % times[run];
  len[run % batches[run]] = times[run];
}

static void run_all(tn_model *m, Results *out) {
  static float x[BATCH * TIME * FEATURES];
  int64_t len[BATCH];
  memset(out, 0, sizeof *out);
  for (int k = 0; k < N_RUNS; k++) {
    int64_t b = batches[k], t = times[k];
    fill(k, x, len);
    tn_array in[] = {tn_f32(x, b, t, FEATURES), tn_i64(len, b)};
    if (!CHECK(!tn_run(m, "step", in, 2, TN_OUT(tn_f32_scalar(&out->loss[k]))))) printf("%s\n", tn_error_text(m));
    if (!CHECK(!tn_run(m, "predict", in, 2, TN_OUT(tn_f32(out->y[k], BATCH * TIME, CLASSES)))))
      printf("%s\n", tn_error_text(m));
  }
  CHECK(!tn_get(m, "rnn.weight_ih_l0", out->weight, 4 * HIDDEN * FEATURES));
}

// The bound of the smallest of 16, 32, 64 that t fits, as an index
static int plan_of(int64_t t) { return t <= 16 ? 0 : t <= 32 ? 1 : 2; }

static void check_counts(const tn_model *m, const char *function) {
  tn_variant v[4];
  uint64_t wanted[3] = {0};
  for (int k = 0; k < N_RUNS; k++) wanted[plan_of(times[k])]++;
  CHECK(tn_plan_variants(m, function, v, 4) == 3);
  for (int k = 0; k < 3; k++) CHECK(v[k].n_runs == wanted[k]);
  CHECK(!strcmp(v[0].bounds, "time <= 16") && !strcmp(v[1].bounds, "time <= 32") && !strcmp(v[2].bounds, ""));
}

// Memory of a plan for T <= 16 is what a program that is bounded by 16 takes, but for tables and scratch.
static void check_bytes(const tn_model *m, const char *function) {
  tn_variant v[3];
  Net small = build(16);
  compile(&small, NULL);
  tn_plan alone, full;
  CHECK(!tn_plan_of(small.m, function, &alone) && !tn_plan_of(m, function, &full));
  CHECK(tn_plan_variants(m, function, v, 3) == 3);
  for (int k = 0; k < 3; k++)
    printf("%s %s: arena %lld, lower bound %lld\n", function, v[k].bounds, (long long)v[k].plan.peak_bytes,
           (long long)v[k].plan.lower_bound);
  printf("%s of a program with time <= 16: arena %lld\n", function, (long long)alone.peak_bytes);
  CHECK(v[2].plan.peak_bytes == full.peak_bytes && v[2].plan.lower_bound == full.lower_bound);
  CHECK(v[0].plan.peak_bytes < v[1].plan.peak_bytes && v[1].plan.peak_bytes < v[2].plan.peak_bytes);
  CHECK(v[0].plan.peak_bytes >= alone.peak_bytes);
  CHECK(v[0].plan.n_kernels == full.n_kernels && v[0].plan.param_bytes == full.param_bytes);
  drop(&small);
}

static void same_bits(uint32_t n_workers) {
  static Results plain, bucketed, again;
  tn_compile_options o = {.n_workers = n_workers, .seed = 3};
  Net a = build(TIME), b = build(TIME);
  compile(&a, &o);
  o.buckets = (const tn_bucket[]){{b.T, 32}, {b.T, TIME}, {b.T, 16}, {b.T, 32}}, o.n_buckets = 4;
  compile(&b, &o);
  run_all(a.m, &plain);
  run_all(b.m, &bucketed);
  CHECK(!memcmp(&plain, &bucketed, sizeof plain));
  CHECK(plain.loss[0] > 0 && plain.loss[0] != plain.loss[1]);
  check_counts(b.m, "step");
  check_counts(b.m, "predict");
  if (n_workers == 1) check_bytes(b.m, "step");
  if (n_workers == 1) check_bytes(b.m, "predict");
  tn_compile_info plain_info = tn_compile_info_of(a.m), info = tn_compile_info_of(b.m);
  printf("%u kernels, %u distinct; with buckets %u, %u\n", plain_info.n_kernels, plain_info.n_distinct_kernels,
         info.n_kernels, info.n_distinct_kernels);
  CHECK(info.n_variants == 4 && plain_info.n_variants == 0);
  CHECK(info.n_distinct_kernels == plain_info.n_distinct_kernels && info.n_kernels > 2 * plain_info.n_kernels);
  tn_model *other = tn_instance(b.m, 3);  // counts its own runs
  run_all(other, &again);
  CHECK(!memcmp(&plain, &again, sizeof plain));
  check_counts(other, "step");
  check_counts(b.m, "step");
  tn_model_free(other);
  drop(&a), drop(&b);
}

static void over_the_bound(void) {
  static float x[BATCH * (TIME + 1) * FEATURES], loss;
  int64_t len[BATCH + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  Net a = build(TIME), b = build(TIME);
  compile(&a, NULL);
  compile(&b, (&(tn_compile_options){.buckets = TN_BUCKET_LIST({b.T, 16})}));
  const tn_array in[][2] = {{tn_f32(x, 2, TIME + 1, FEATURES), tn_i64(len, 2)},
                            {tn_f32(x, BATCH + 1, 3, FEATURES), tn_i64(len, BATCH + 1)},
                            {tn_f32(x, 2, 16, FEATURES), tn_i64(len, 3)},
                            {tn_f32(x, 2, 16, FEATURES + 1), tn_i64(len, 2)}};
  for (int k = 0; k < 4; k++) {
    CHECK(tn_run(a.m, "step", in[k], 2, TN_OUT(tn_f32_scalar(&loss))) == TN_ERR_ARGUMENT);
    CHECK(tn_run(b.m, "step", in[k], 2, TN_OUT(tn_f32_scalar(&loss))) == TN_ERR_ARGUMENT);
    CHECK(!strcmp(tn_error_text(a.m), tn_error_text(b.m)));
  }
  len[1] = 17;  // above the time of this run, not above the next bucket
  CHECK(tn_run(b.m, "step", in[3], 1, TN_OUT(tn_f32_scalar(&loss))) == TN_ERR_ARGUMENT);
  CHECK(tn_run(b.m, "step", TN_IN(tn_f32(x, 2, 16, FEATURES), tn_i64(len, 2)), TN_OUT(tn_f32_scalar(&loss))) ==
        TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(b.m), "length 17 at [1] is not in 1..16");
  drop(&a), drop(&b);
}

static void refused(tn_bucket bucket, const char *expected) {
  Net n = build(TIME);
  if (!bucket.dim.d) bucket.dim = n.T;
  tn_model *m = tn_compile(n.p, .buckets = &bucket, .n_buckets = 1);
  const char *text = report_of(n.p);
  CHECK(!m && tn_n_errors(n.p) == 1);
  CHECK_HAS(text, expected);
  CHECK_HAS(text, "test_buckets.c");
  tn_program_free(n.p);
}

static void mistakes(void) {
  refused((tn_bucket){.bound = 0}, "the bucket time <= 0 does not lie in [1, 64], the bound of the dim");
  refused((tn_bucket){.bound = 65}, "the bucket time <= 65 does not lie in [1, 64], the bound of the dim");
  refused((tn_bucket){tn_dim_const(64), 16}, "a bucket of bound 16 is for no named dim");
  Net other = build(TIME);
  refused((tn_bucket){other.T, 16}, "a dim belongs to another program");
  tn_bucket unused = {tn_dim_bounded(other.p, "width", 9), 3}, many[65];
  CHECK(!tn_compile(other.p, .buckets = &unused, .n_buckets = 1));
  CHECK_HAS(report_of(other.p), "no input has the dim 'width', so that a run cannot choose by it");
  tn_program_free(other.p);

  Net n = build(1000);
  for (int k = 0; k < 65; k++) many[k] = (tn_bucket){n.T, 10 + k};
  CHECK(!tn_compile(n.p, .buckets = many, .n_buckets = 65));
  CHECK_HAS(report_of(n.p), "the buckets give function 'step' more than 64 plans");
  tn_program_free(n.p);

  n = build(TIME);
  CHECK(!tn_compile(n.p, .n_buckets = 2));
  CHECK_HAS(report_of(n.p), "the list of 2 buckets is missing");
  tn_program_free(n.p);
}

// Two dims: each run takes the smallest plan in both.
static void combined(void) {
  static Results plain, bucketed;
  static const char *const bounds[] = {"batch <= 3, time <= 16", "batch <= 3", "time <= 16", ""};
  Net a = build(TIME), b = build(TIME);
  compile(&a, NULL);
  compile(&b, (&(tn_compile_options){.buckets = TN_BUCKET_LIST({b.B, 3}, {b.T, 16})}));
  run_all(a.m, &plain), run_all(b.m, &bucketed);
  CHECK(!memcmp(&plain, &bucketed, sizeof plain));
  uint64_t wanted[4] = {0};
  for (int k = 0; k < N_RUNS; k++) wanted[2 * (batches[k] > 3) + (times[k] > 16)]++;
  tn_variant v[4];
  CHECK(tn_plan_variants(b.m, "step", v, 4) == 4 && tn_plan_variants(b.m, "step", NULL, 0) == 4);
  for (int k = 0; k < 4; k++) CHECK(!strcmp(v[k].bounds, bounds[k]) && v[k].n_runs == wanted[k]);
  for (int k = 0; k < 3; k++) CHECK(v[k].plan.peak_bytes < v[3].plan.peak_bytes);
  CHECK(tn_plan_variants(b.m, "nothing", v, 4) == 0);
  drop(&a), drop(&b);
}

static void dumps(void) {
  Net n = build(TIME);
  compile(&n, (&(tn_compile_options){.buckets = TN_BUCKET_LIST({n.T, 16})}));
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  CHECK(!tn_dump(n.p, out, TN_DUMP_SUMMARY) && !fflush(out));
  CHECK_HAS(text, "@step: arena");
  CHECK_HAS(text, "@step.time16: arena");
  CHECK_HAS(text, "@predict.time16: arena");
  rewind(out);
  CHECK(!tn_dump_function(n.p, "step.time16", out, TN_DUMP_LIFETIMES) && !fflush(out));
  CHECK_HAS(text, "func @step.time16");
  CHECK_HAS(text, "f32[batch,time.16,5]");
  rewind(out);
  CHECK(!tn_dump(n.p, out, TN_DUMP_IR) && !fputc(0, out) && !fflush(out));
  CHECK(!strstr(text, "time16"));  // the program as built
  fclose(out);
  free(text);
  drop(&n);
}

static int64_t resident(void) {
  long pages = 0;
  FILE *in = fopen("/proc/self/statm", "r");
  bool good = in && fscanf(in, "%*s %ld", &pages) == 1;
  if (in) fclose(in);
  return good ? (int64_t)pages * sysconf(_SC_PAGESIZE) : 0;
}

// A model that only ever sees short inputs never touches the memory of the plan for long ones.
static void touched_memory(void) {
  enum { LONG = 100000, SHORT = 64, WIDTH = 256 };
  static float x[SHORT * 4], y;
  tn_program *p = tn_program_create("wide");
  tn_dim N = tn_dim_bounded(p, "n", LONG);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(N, 4));
  tn_tensor h = tn_call(tn_linear(tn_root(p), "a", 4, WIDTH), in);
  h = tn_call(tn_linear(tn_root(p), "b", WIDTH, WIDTH), tn_tanh(h));
  tn_output(f, "y", tn_mean(h));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .buckets = TN_BUCKET_LIST({N, SHORT}));
  tn_variant v[2];
  if (CHECK(m && tn_plan_variants(m, "run", v, 2) == 2)) {
    int64_t before = resident();
    tn_model *i = tn_instance(m, 1);
    CHECK(!tn_run(i, "run", TN_IN(tn_f32(x, SHORT, 4)), TN_OUT(tn_f32_scalar(&y))));
    int64_t grown = resident() - before;
    printf("arena %lld, in bucket %lld, resident %lld\n", (long long)v[1].plan.peak_bytes,
           (long long)v[0].plan.peak_bytes, (long long)grown);
    CHECK(v[1].plan.peak_bytes > 100 << 20 && v[0].plan.peak_bytes < v[1].plan.peak_bytes);
    CHECK(grown < 32 << 20);
    tn_model_free(i);
  }
  tn_model_free(m), tn_program_free(p);
}

// A matrix that is larger than the last cache by its full bound and small in the bucket: code goes by the full bound.
static void one_kernel(void) {
  uint32_t distinct[2] = {0};
  for (int k = 0; k < 2; k++) {
    tn_program *p = tn_program_create("stream");
    tn_dim N = tn_dim_bounded(p, "n", 1000000);
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(2, 512)), b = tn_input(f, "b", TN_F32, TN_SHAPE(512, N));
    tn_output(f, "y", tn_matmul(a, b));
    tn_function_end(f);
    tn_model *m = k ? tn_compile(p, .buckets = TN_BUCKET_LIST({N, 64})) : tn_compile(p);
    if (CHECK(m)) distinct[k] = tn_compile_info_of(m).n_distinct_kernels;
    tn_model_free(m), tn_program_free(p);
  }
  CHECK(distinct[0] == distinct[1]);
}

int main(void) {
  for (uint32_t n = 1; n <= 3; n++) same_bits(n);
  combined();
  over_the_bound();
  mistakes();
  dumps();
  touched_memory();
  one_kernel();
  return check_report();
}
