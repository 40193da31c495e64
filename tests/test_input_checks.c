// What a run refuses before it writes anything: lengths, labels and indices that are out of range, with the input, the
// index and the value; also where they reach their use through packing or a slice. Padding may hold anything.
#include "frontend/tenure.h"
#include "runtime/exec/range_check.h"
#include "tests/check.h"
#include "tests/models.h"
#include <math.h>
#include <stdlib.h>

#define D(n) tn_dim_const(n)
enum { B = 3, T = 4, WORDS = 5, CLASSES = 3 };

static void says(tn_model *m, tn_status status, const char *text, int line) {
  if (!check_that(status == TN_ERR_VALUE || status == TN_ERR_ARGUMENT, __FILE__, line, "refused")) return;
  if (!check_that(!strcmp(tn_error_text(m), text), __FILE__, line, text)) printf("  %s\n", tn_error_text(m));
}

// ---- lengths: the rules of E114, E115 and E116 for lengths that come at run time
static tn_model *summing(const tn_pack_options *o) {
  tn_program *p = tn_program_create("lengths");
  tn_dim batch = tn_dim_bounded(p, "batch", B), time = tn_dim_bounded(p, "time", T);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, time)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(batch));
  tn_output(f, "sums", tn_packed_sum((tn_pack_padded)(x, n, *o)));
  tn_function_end(f);
  return model_alone(p, .n_workers = 1);
}

static void lengths(void) {
  const float x[B * T] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  static const struct {
    int64_t n[B];
    bool sorted, empty;
    const char *text;
  } bad[] = {
      {{2, 3, 1}, true, false, "run: input 'lengths': length 3 at [1] is above 2 before it, and sorting is enforced"},
      {{3, 0, 1},
       false,
       false,
       "run: input 'lengths': length 0 at [1] is not in 1..3; .allow_empty of what packs takes sequences without "
       "steps"},
      {{3, 1, 4}, false, false, "run: input 'lengths': length 4 at [2] is not in 1..3"},
      {{-1, 1, 3}, false, true, "run: input 'lengths': length -1 at [0] is not in 0..3"},
      {{3, INT64_MIN, 3}, false, false, "run: input 'lengths': length -9223372036854775808 at [1] is not in 1..3"},
      {{INT64_MAX, 1, 1}, true, false, "run: input 'lengths': length 9223372036854775807 at [0] is not in 1..3"}};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    tn_model *m = summing(&(tn_pack_options){.enforce_sorted = bad[k].sorted, .allow_empty = bad[k].empty});
    float sums[B] = {7, 7, 7};
    says(m, tn_run(m, "run", TN_IN(tn_f32(x, 3, 3), tn_i64(bad[k].n, 3)), TN_OUT(tn_f32(sums, 3))), bad[k].text,
         __LINE__);
    CHECK(sums[0] == 7 && sums[2] == 7);
    tn_model_free(m);
  }
  tn_model *m = summing(&(tn_pack_options){.at = TN_SITE});
  float sums[B];
  const int64_t n[B] = {1, 2, 3};
  says(m, tn_run(m, "run", TN_IN(tn_f32(x, 3, 3), tn_i64(n, 2)), TN_OUT(tn_f32(sums, 3))),
       "run: input 'lengths' has size 2 on axis 0, expected 3 (batch)", __LINE__);
  CHECK(!tn_run(m, "run", TN_IN(tn_f32(x, 3, 3), tn_i64(n, 3)), TN_OUT(tn_f32(sums, 3))) && sums[1] == 9);
  CHECK(!tn_run(m, "run", TN_IN(tn_f32(x, 0, 3), tn_i64(n, 0)), TN_OUT(tn_f32(sums, 0))));  // an empty batch
  tn_model_free(m);
}

// ---- a training step on packed words and labels
typedef enum { APART, TIME_MAJOR, CONSTANT, ONE_INPUT, N_FORMS } Form;

static tn_packed pack(tn_tensor x, tn_tensor n, Form form) {
  static const int64_t constant[B] = {2, 4, 1};
  tn_pack_options o = {.time_major = form == TIME_MAJOR};
  return form == CONSTANT ? (tn_pack_constant)(x, constant, B, o) : (tn_pack_padded)(x, n, o);
}

static tn_tensor column(tn_tensor rows, int64_t k) {
  return tn_reshape(tn_slice(rows, 1, k, 1), TN_SHAPE(tn_dim_of(rows, 0)));
}

static tn_model *training(Form form) {
  tn_program *p = tn_program_create("tags");
  tn_dim batch = form == CONSTANT ? D(B) : tn_dim_bounded(p, "batch", B);
  tn_dim time = form == CONSTANT ? D(T) : tn_dim_bounded(p, "time", T);
  tn_shape shape = form == TIME_MAJOR ? TN_SHAPE(time, batch) : TN_SHAPE(batch, time);
  tn_module *words = tn_embedding(tn_root(p), "words", WORDS, 2), *head = tn_linear(tn_root(p), "head", 2, CLASSES);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor n = tn_input(f, "n", TN_I64, TN_SHAPE(batch)), x, y;
  if (form == ONE_INPUT) {
    tn_packed s = pack(tn_input(f, "xy", TN_I64, TN_SHAPE(batch, time, 2)), n, form);
    x = column(s.data, 0), y = column(s.data, 1);
  } else {
    x = pack(tn_input(f, "x", TN_I64, shape), n, form).data;
    y = pack(tn_input(f, "y", TN_I64, shape), n, form).data;
  }
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_call(words, x)), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_sgd(f, tn_root(p));
  tn_function_end(f);
  return model_alone(p, .n_workers = 1);
}

static tn_status step(tn_model *m, Form form, const int64_t *x, const int64_t *y, float *loss) {
  const int64_t n[B] = {2, 4, 1};
  int64_t both[B * T * 2];
  for (int k = 0; k < B * T; k++) both[2 * k] = x[k], both[2 * k + 1] = y[k];
  int64_t first = form == TIME_MAJOR ? T : B, second = form == TIME_MAJOR ? B : T;
  if (form == ONE_INPUT)
    return tn_run(m, "step", TN_IN(tn_i64(n, B), tn_i64(both, B, T, 2)), TN_OUT(tn_f32_scalar(loss)));
  return tn_run(m, "step", TN_IN(tn_i64(n, B), tn_i64(x, first, second), tn_i64(y, first, second)),
                TN_OUT(tn_f32_scalar(loss)));
}

static void packed(Form form) {
  static const int64_t n[B] = {2, 4, 1};
  int64_t x[B * T], y[B * T];
  for (int k = 0; k < B * T; k++) {
    int b = form == TIME_MAJOR ? k % B : k / T, t = form == TIME_MAJOR ? k / B : k % T;
    x[k] = t < n[b] ? (b + t) % WORDS : 99, y[k] = t < n[b] ? t % CLASSES : -100;
  }
  tn_model *m = training(form);
  float loss = 7, before[CLASSES], after[CLASSES];
  if (!CHECK(step(m, form, x, y, &loss) == TN_OK)) printf("%d: %s\n", form, tn_error_text(m));
  CHECK(loss > 0 && loss < 7);
  tn_get(m, "head.bias", before, CLASSES);
  int at = form == TIME_MAJOR ? 3 * B + 1 : T + 3;  // the last step of the longest
  const char *input[2] = {form == ONE_INPUT ? "xy" : "x", form == ONE_INPUT ? "xy" : "y"};
  const int index[2] = {form == ONE_INPUT ? 2 * at : at, form == ONE_INPUT ? 2 * at + 1 : at};
  char text[128];
  loss = 7;
  for (int which = 0; which < 2; which++) {
    int64_t *v = which ? &y[at] : &x[at], good = *v;
    *v = which ? CLASSES : -1;
    snprintf(text, sizeof text, "step: input '%s': %s %lld at [%d] is not in 0..%d", input[which],
             which ? "label" : "index", (long long)*v, index[which], which ? CLASSES - 1 : WORDS - 1);
    says(m, step(m, form, x, y, &loss), text, __LINE__);
    *v = good;
  }
  tn_get(m, "head.bias", after, CLASSES);
  CHECK(loss == 7 && !memcmp(before, after, sizeof before));  // nothing was written
  tn_model_free(m);
}

// ---- characters and, one ahead of them, what follows: two slices of one input
static void windows(void) {
  tn_program *p = tn_program_create("text");
  tn_module *words = tn_embedding(tn_root(p), "words", WORDS, CLASSES);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor text = tn_input(f, "text", TN_I64, TN_SHAPE(tn_dim_bounded(p, "batch", B), T));
  tn_tensor x = tn_slice(text, 1, 0, T - 1), y = tn_slice(text, 1, 1, T - 1);
  tn_output(f, "loss", tn_cross_entropy(tn_call(words, x), y));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  int64_t v[2][T] = {{4, 0, 1, 2}, {3, 2, 1, 0}};  // 4 and 3 are words, but no classes
  float loss;
  CHECK(!tn_run(m, "run", TN_IN(tn_i64(v, 2, T)), TN_OUT(tn_f32_scalar(&loss))));
  v[1][3] = 4;
  says(m, tn_run(m, "run", TN_IN(tn_i64(v, 2, T)), TN_OUT(tn_f32_scalar(&loss))),
       "run: input 'text': label 4 at [7] is not in 0..2", __LINE__);
  v[1][3] = 0, v[0][0] = 5;
  says(m, tn_run(m, "run", TN_IN(tn_i64(v, 2, T)), TN_OUT(tn_f32_scalar(&loss))),
       "run: input 'text': index 5 at [0] is not in 0..4", __LINE__);
  CHECK(!tn_run(m, "run", TN_IN(tn_i64(v, 0, T)), TN_OUT(tn_f32_scalar(&loss))));
  tn_model_free(m);
}

// ---- what is computed is checked where it is used
static void computed(void) {
  tn_program *p = tn_program_create("computed");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 4));
  tn_packed s = tn_pack_padded(x, tn_cast(tn_sum_axis(tn_gt(x, tn_scalar(f, 0)), 1, false), TN_I64));
  tn_output(f, "last", tn_packed_last(s));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  const float good[3][4] = {{1, 2, 0, 0}, {3, 0, 0, 0}, {4, 5, 6, 7}},
              bad[3][4] = {{1, 2, 0, 0}, {0, 0, 0, 0}, {4, 5, 6, 7}};
  float last[3];
  CHECK(!tn_run(m, "run", TN_IN(tn_f32(good, 3, 4)), TN_OUT(tn_f32(last, 3))) && last[0] == 2 && last[2] == 7);
  says(m, tn_run(m, "run", TN_IN(tn_f32(bad, 3, 4)), TN_OUT(tn_f32(last, 3))),
       "run: length 0 at [1], computed in the run, is out of range", __LINE__);
  tn_model_free(m);
}

// A run that fails leaves parameters, optimizer state and the random stream as they were: also where what it refuses is
// asked for behind the update.
// `puts`: rows of a buffer are written by the index, too.
static void nothing_changes(bool behind, bool in_scan, bool puts, int64_t width, uint32_t n_workers) {
  enum { ROWS = 6 };
  tn_program *p = tn_program_create("unchanged");
  tn_module *root = tn_root(p), *table = tn_embedding(root, "table", 5, width), *fc = tn_linear(root, "fc", width, 4);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS)), index = tn_cast(x, TN_I64), e;
  if (in_scan) {
    tn_scan *s = tn_scan_begin(f, .steps = D(ROWS));
    tn_tensor one = tn_cast(tn_scan_input(s, x), TN_I64);
    e = tn_scan_output(s, tn_call(table, one));
    tn_scan_end(s);
  } else e = tn_call(table, behind || puts ? tn_cast(tn_mul(x, tn_scalar(f, 0)), TN_I64) : index);
  tn_tensor y = tn_call(fc, e), loss = tn_sum(tn_square(tn_dropout(y, 0.5)));
  tn_backward(loss);
  if (puts) tn_buffer(root, "kept", TN_SHAPE(7, width), (tn_init){TN_INIT_ZEROS, 0, 0});
  tn_adamw(f, root);
  if (puts) {
    tn_tensor odd = tn_cast(tn_sub(tn_scalar(f, 6), x), TN_I64);  // -1 of what is 7 in x
    tn_index_put_(tn_param_value(f, root, "kept"), odd, tn_stop_grad(e));
  }
  tn_output(f, "loss", behind ? tn_cross_entropy(tn_stop_grad(y), index) : loss);
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = n_workers);
  tn_model *other = tn_instance(m, 0);
  float good[ROWS] = {0, 1, 2, 3, 0, 1}, bad[ROWS] = {0, 1, 2, 3, 0, 7}, a = 0, b = 0;
  tn_copy_params(other, m, true);
  for (int k = 0; k < 3; k++) {
    CHECK(tn_run(m, "run", TN_IN(tn_f32(bad, ROWS)), TN_OUT(tn_f32_scalar(&a))) == TN_ERR_VALUE);
    CHECK_HAS(tn_error_text(m), in_scan ? "run: index 7 at [0], computed in"
                                : puts  ? "run: index -1 at [5], computed in"
                                        : "run: index 7 at [5], computed in");
    CHECK(!tn_run(m, "run", TN_IN(tn_f32(good, ROWS)), TN_OUT(tn_f32_scalar(&a))));
    CHECK(!tn_run(other, "run", TN_IN(tn_f32(good, ROWS)), TN_OUT(tn_f32_scalar(&b))) && a == b);
    for (uint32_t q = 0; q < tn_param_count(m); q++) {
      tn_array v = tn_param_at(m, q), w = tn_param_at(other, q);
      int64_t n = 1;
      for (uint32_t d = 0; d < v.rank; d++) n *= v.dims[d];
      CHECK(!memcmp(v.data, w.data, (size_t)n * sizeof(float)));
    }
  }
  tn_model_free(m), tn_model_free(other);
}

// ---- a step whose loss nobody takes: the look-up is dead, its gradient reads the index
static void gradients_alone(void) {
  tn_program *p = tn_program_create("quiet");
  tn_module *words = tn_embedding(tn_root(p), "words", WORDS, 2);
  tn_function *f = tn_function_begin(p, "step");
  tn_backward(tn_sum(tn_call(words, tn_input(f, "x", TN_I64, TN_SHAPE(B)))));
  tn_sgd(f, tn_root(p));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  const int64_t good[B] = {0, 4, 2}, bad[B] = {0, 7, 2};
  CHECK(tn_run(m, "step", TN_IN(tn_i64(good, B)), TN_OUT()) == TN_OK);
  says(m, tn_run(m, "step", TN_IN(tn_i64(bad, B)), TN_OUT()), "step: input 'x': index 7 at [1] is not in 0..4",
       __LINE__);
  tn_model_free(m);
}

// ---- many numbers: the quick answer of every length, and the first bad one of what the workers share
static bool is_good(int64_t x, const RtRange *r) {
  return (x >= r->lo && x <= r->last) || (r->has_other && x == r->other);
}

static void ranges(void) {
  enum { MOST = 37 };
  static const RtRange range[] = {{.lo = 0, .last = 9},
                                  {.lo = 1, .last = 9, .has_other = true, .other = -100},
                                  {.lo = 0, .last = 9, .has_other = true, .other = INT64_MIN},
                                  {.lo = 3, .last = 3},
                                  {.lo = 0, .last = -1},
                                  {.lo = 0, .last = INT64_MAX},
                                  {.lo = 5, .last = INT64_MAX}};
  static const int64_t trial[] = {
      0, 1, 3, 5, 9, 10, -1, -9, -100, -101, INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MIN + 9};
  for (size_t k = 0; k < sizeof range / sizeof *range; k++) {
    int64_t v[MOST];
    for (int i = 0; i < MOST; i++) v[i] = range[k].lo;
    bool has_good = is_good(v[0], &range[k]);
    for (int n = 0; n < MOST; n++)
      for (int at = 0; at < n; at++)
        for (size_t t = 0; t < sizeof trial / sizeof *trial; t++) {
          v[at] = trial[t];
          CHECK(rt_are_in_range(v, n, &range[k]) == (is_good(trial[t], &range[k]) && (has_good || n == 1)));
          v[at] = range[k].lo;
        }
    CHECK(rt_are_in_range(v, 0, &range[k]));
  }
}

static void shared(void) {
  enum { N = 100003, ROWS = 7 };
  tn_program *p = tn_program_create("many");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS)), at = tn_input(f, "at", TN_I64, TN_SHAPE(N));
  tn_output(f, "y", tn_gather(x, 0, at));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 3);
  if (!m) exit(1);
  tn_program_free(p);
  float numbers[ROWS] = {0, 1, 2, 3, 4, 5, 6}, *y = malloc(N * sizeof *y);
  int64_t *index = malloc(N * sizeof *index);
  for (int64_t k = 0; k < N; k++) index[k] = k * 5 % ROWS, y[k] = -1;
  index[N - 1] = ROWS, index[70000] = -3;
  says(m, tn_run(m, "run", TN_IN(tn_f32(numbers, ROWS), tn_i64(index, N)), TN_OUT(tn_f32(y, N))),
       "run: input 'at': index -3 at [70000] is not in 0..6", __LINE__);
  CHECK(y[0] == -1 && y[N - 1] == -1);
  index[70000] = 2;
  says(m, tn_run(m, "run", TN_IN(tn_f32(numbers, ROWS), tn_i64(index, N)), TN_OUT(tn_f32(y, N))),
       "run: input 'at': index 7 at [100002] is not in 0..6", __LINE__);
  index[N - 1] = 6;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(numbers, ROWS), tn_i64(index, N)), TN_OUT(tn_f32(y, N))) == TN_OK);
  CHECK(y[70000] == 2 && y[N - 1] == 6);
  free(index), free(y);
  tn_model_free(m);
}

// ---- counts that a run finds: those below 0, and more than there is room for; the line of the call says which
static void counts(void) {
  tn_program *p = tn_program_create("counts");
  tn_function *f = tn_function_begin(p, "repeat"), *g = tn_function_begin(p, "select");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B)), n = tn_input(f, "n", TN_I64, TN_SHAPE(B));
  tn_output(f, "y", (tn_repeat_interleave_by)(x, 0, n, 6, (tn_site){"user.c", 12}).values);
  tn_output(f, "again", (tn_repeat_interleave_by)(x, 0, n, 99, (tn_site){"user.c", 13}).values);
  tn_function_end(f);
  tn_tensor v = tn_input(g, "x", TN_F32, TN_SHAPE(B));
  tn_output(g, "y", (tn_masked_select)(v, tn_gt(v, tn_scalar(g, 0)), 2, (tn_site){"user.c", 21}).values);
  tn_function_end(g);
  tn_model *m = model_alone(p, .n_workers = 1);
  const int64_t good[B] = {4, 0, 2}, many[B] = {4, 1, 2}, negative[B] = {8, -3, 2}, huge[B] = {INT64_MAX, INT64_MAX, 2};
  const float xs[B] = {5, 6, 7};
  float y[6], again[99];
#define REPEAT(by) tn_run(m, "repeat", TN_IN(tn_f32(xs, B), tn_i64(by, B)), TN_OUT(tn_f32(y, 6), tn_f32(again, 99)))
  CHECK(REPEAT(good) == TN_OK && y[3] == 5 && y[4] == 7 && y[5] == 7 && again[5] == 7 && again[6] == 0);
  says(m, REPEAT(many), "repeat: line 12 has room for 6 elements, and the run found more", __LINE__);
  says(m, REPEAT(huge), "repeat: line 12 has room for 6 elements, and the run found more", __LINE__);
  says(m, REPEAT(negative), "repeat: a count of line 12 is -3, below 0", __LINE__);
  CHECK(REPEAT(good) == TN_OK);
  says(m, tn_run(m, "select", TN_IN(tn_f32(xs, B)), TN_OUT(tn_f32(y, 2))),
       "select: line 21 has room for 2 elements, and the run found more", __LINE__);
  tn_model_free(m);
}

// ---- rows that a run computes, in which two tables are written: in whatever order, both are in range before either is changed
static tn_model *two_tables(void) {
  tn_program *p = tn_program_create("tables");
  tn_module *net = tn_root(p);
  tn_module *e[] = {tn_embedding(net, "a", WORDS, 2, .max_norm = 1),
                    tn_embedding(net, "b", WORDS + 1, 2, .max_norm = 1)};
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor i = tn_input(f, "i", TN_I64, TN_SHAPE(B)), j = tn_input(f, "j", TN_I64, TN_SHAPE(B));
  tn_output(f, "y", tn_add(tn_call(e[0], tn_add(i, j)), tn_call(e[1], tn_mul(i, j))));
  tn_function_end(f);
  return model_alone(p, .n_workers = 1);
}

static void tables(void) {
  tn_model *m = two_tables();
  float a[WORDS * 2], b[(WORDS + 1) * 2], now[(WORDS + 1) * 2], y[B * 2];
  for (int k = 0; k < (WORDS + 1) * 2; k++) b[k] = 1 + (float)k;
  memcpy(a, b, sizeof a);
  CHECK(!tn_set(m, "a.weight", a, WORDS * 2) && !tn_set(m, "b.weight", b, (WORDS + 1) * 2));
  const int64_t i[B] = {1, 2, 0}, j[B] = {3, 2, 1}, high[B] = {4, 2, 1}, low[B] = {1, -1, 1};  // of a; of b
#define LOOK(by) tn_run(m, "run", TN_IN(tn_i64(i, B), tn_i64(by, B)), TN_OUT(tn_f32(y, B, 2)))
  says(m, LOOK(high), "run: index 5 at [0], computed in the run, is out of range", __LINE__);
  says(m, LOOK(low), "run: index -2 at [1], computed in the run, is out of range", __LINE__);
  CHECK(!tn_get(m, "a.weight", now, WORDS * 2) && !memcmp(now, a, sizeof a));
  CHECK(!tn_get(m, "b.weight", now, (WORDS + 1) * 2) && !memcmp(now, b, sizeof b));
  CHECK(LOOK(j) == TN_OK);
  for (int k = 0; k < B; k++) {  // rows 4, 4, 1 of a, and 3, 4, 0 of b, of norm 1
    const float *p = a + 2 * (i[k] + j[k]), *q = b + 2 * (i[k] * j[k]);
    for (int d = 0; d < 2; d++)
      CHECK(fabsf(y[2 * k + d] - p[d] / hypotf(p[0], p[1]) - q[d] / hypotf(q[0], q[1])) < 1e-6f);
  }
  CHECK(!tn_get(m, "a.weight", now, WORDS * 2) && now[0] == a[0] && now[8] < 1);
  tn_model_free(m);
}

int main(void) {
  counts();
  tables();
  ranges();
  shared();
  lengths();
  gradients_alone();
  for (int form = 0; form < N_FORMS; form++) packed((Form)form);
  windows();
  computed();
  for (int way = 0; way < 16; way++)
    nothing_changes(way % 4 == 1, way % 4 == 2, way % 4 == 3, way & 4 ? 4 : 300, (uint32_t)way % 3 + 1);
  return check_report();
}
