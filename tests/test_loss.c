// Cross-entropy with options: values and gradients against PyTorch, of plain and of packed rows; what is refused, when
// it is built and when it is run; rows of different layouts that meet.
#include "frontend/tenure.h"
#include "tests/case_numbers.h"
#include "tests/check.h"
#include "tests/golden_file.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/report.h"
#include <math.h>

enum { ROWS = 6, CLASSES = 5 };
typedef struct {
  tn_reduction reduction;
  bool has_ignore;
  int64_t ignore_index;
  double smoothing;
  bool weighs;
  const int64_t *labels;
  char name[64];       // among the goldens
  const double *loss;  // one, or one a row
  const double *grad;
} LossCase;

static float logits[ROWS * CLASSES];  // as make_loss_goldens.py draws them
static const float weights[CLASSES] = {0.5, 2, 1, 0, 3};

#define D(n) tn_dim_const(n)

static tn_loss_options options_of(const LossCase *c, tn_tensor weight) {
  return (tn_loss_options){.reduction = c->reduction,
                           .has_ignore = c->has_ignore,
                           .ignore_index = c->ignore_index,
                           .label_smoothing = c->smoothing,
                           .weight = c->weighs ? weight : TN_NONE};
}

// The sum that the script differentiates: row k counts k + 1 times.
static tn_tensor total(tn_function *f, tn_tensor loss, bool by_row) {
  const float share[ROWS] = {1, 2, 3, 4, 5, 6};
  return by_row ? tn_sum(tn_mul(loss, tn_constant(f, share, TN_SHAPE(ROWS)))) : loss;
}

static void against_pytorch(const LossCase *c, bool is_run_time_weight) {
  tn_program *p = tn_program_create("loss");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, CLASSES));
  tn_tensor y = tn_input(f, "label", TN_I64, TN_SHAPE(ROWS));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(CLASSES));
  if (!is_run_time_weight) w = tn_constant(f, weights, TN_SHAPE(CLASSES));
  tn_loss_options o = options_of(c, w);
  tn_set_requires_grad(x, true);
  tn_tensor loss = (tn_cross_entropy)(x, y, o);
  bool by_row = c->reduction == TN_REDUCE_NONE;
  tn_output(f, "loss", loss);
  tn_output(f, "d", tn_grad(total(f, loss, by_row), x));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = is_run_time_weight ? 2 : 1);
  float got[ROWS] = {0}, grad[ROWS * CLASSES] = {0};
  tn_array out = by_row ? tn_f32(got, ROWS) : tn_f32_scalar(got);
  tn_status status =
      tn_run(m, "run", TN_IN(tn_f32(logits, ROWS, CLASSES), tn_i64(c->labels, ROWS), tn_f32(weights, CLASSES)),
             TN_OUT(out, tn_f32(grad, ROWS, CLASSES)));
  if (!CHECK(status == TN_OK)) printf("%s\n", tn_error_text(m));
  bool good = true;
  for (int k = 0; k < (by_row ? ROWS : 1); k++) good &= is_near(got[k], c->loss[k], 5e-6);
  for (int k = 0; k < ROWS * CLASSES && !isnan(c->loss[0]); k++) good &= is_near(grad[k], c->grad[k], 5e-6);
  if (!CHECK(good)) printf("  %s: loss %.9g, PyTorch %.9g\n", c->name, (double)got[0], c->loss[0]);
  tn_model_free(m);
}

// The same rows as three sequences, in an order of their own; padding has labels that are none.
static void packed(const LossCase *c) {
  const int64_t lengths[3] = {1, 3, 2};
  float x[3][3][CLASSES] = {{{0}}}, got[ROWS] = {0};
  int64_t y[3][3];
  for (int b = 0, row = 0; b < 3; b++)
    for (int t = 0; t < 3; t++) {
      bool is_step = t < lengths[b];
      y[b][t] = is_step ? c->labels[row] : 99;
      if (is_step) memcpy(x[b][t], logits + CLASSES * row++, sizeof x[b][t]);
    }
  tn_program *p = tn_program_create("loss");
  tn_dim batch = tn_dim_bounded(p, "batch", 4), time = tn_dim_bounded(p, "time", 5);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor len = tn_input(f, "len", TN_I64, TN_SHAPE(batch));
  tn_packed s = tn_pack_padded(tn_input(f, "x", TN_F32, TN_SHAPE(batch, time, CLASSES)), len);
  tn_packed t = tn_pack_padded(tn_input(f, "y", TN_I64, TN_SHAPE(batch, time)), len);
  tn_loss_options o = options_of(c, tn_constant(f, weights, TN_SHAPE(CLASSES)));
  tn_tensor loss = (tn_packed_cross_entropy)(s, t, o);
  bool by_row = c->reduction == TN_REDUCE_NONE;
  tn_output(f, "loss", by_row ? tn_pad_packed(tn_packed_with_data(s, loss), -1, true) : loss);
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  float grid[9];
  tn_status status = tn_run(m, "run", TN_IN(tn_i64(lengths, 3), tn_f32(x, 3, 3, CLASSES), tn_i64(y, 3, 3)),
                            TN_OUT(by_row ? tn_f32(grid, 3, 3) : tn_f32_scalar(got)));
  if (!CHECK(status == TN_OK)) printf("%s\n", tn_error_text(m));
  for (int b = 0, row = 0; by_row && b < 3; b++)
    for (int k = 0; k < 3; k++)
      if (k < lengths[b]) got[row++] = grid[3 * b + k];
      else CHECK(grid[3 * b + k] == -1);
  bool good = true;
  for (int k = 0; k < (by_row ? ROWS : 1); k++) good &= is_near(got[k], c->loss[k], 5e-6);
  if (!CHECK(good)) printf("  packed %s: %.9g, PyTorch %.9g\n", c->name, (double)got[0], c->loss[0]);
  tn_model_free(m);
}

static void refused_in_build(void) {
  tn_program *p = tn_program_create("loss");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, CLASSES)), y = tn_input(f, "y", TN_I64, TN_SHAPE(ROWS));
  tn_tensor w = (tn_input)(f, "w", TN_F32, TN_SHAPE(CLASSES + 1), at(9));
  (tn_cross_entropy)(x, y, (tn_loss_options){.label_smoothing = 1.5, .at = at(10)});
  (tn_cross_entropy)(x, y, (tn_loss_options){.has_ignore = true, .ignore_index = 1 << 24, .at = at(11)});
  (tn_cross_entropy)(x, y, (tn_loss_options){.weight = w, .at = at(12)});
  (tn_cross_entropy)(x, y, (tn_loss_options){.reduction = (tn_reduction)7, .at = at(13)});
  (tn_cross_entropy)(x, x, (tn_loss_options){.has_ignore = true, .at = at(14)});
  const char *have = report_of(p);
  CHECK_HAS(have, "user.c:10: error[E003]: label smoothing takes a number in [0, 1], not 1.5\n"
                  "user.c:11: error[E003]: the ignored label 16777216 is not between -2^24 and 2^24\n"
                  "user.c:12: error[E004]: class weights must be f32 [5], one for each class\n"
                  "user.c:9: note: the weights were made here\n"
                  "user.c:13: error[E003]: 7 is no reduction of a loss\n");
  CHECK(tn_n_errors(p) == 5);
  tn_program_free(p);
}

static void sequences_refused_in_build(void) {
  tn_program *p = tn_program_create("loss");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(7, 2, 5), at(8)), n = tn_input(f, "n", TN_I64, TN_SHAPE(2));
  tn_tensor y = tn_input(f, "y", TN_I64, TN_SHAPE(2, 3)), wide = tn_input(f, "wide", TN_I64, TN_SHAPE(3, 3));
  tn_tensor any = tn_input(f, "any", TN_I64, TN_SHAPE(2, tn_dim_bounded(p, "S", 4)));
  tn_tensor row = (tn_input)(f, "row", TN_F32, TN_SHAPE(5), at(9));
  (tn_ctc)(x, x, n, n, (tn_ctc_options){.at = at(10)});
  (tn_ctc)(x, tn_reshape(y, TN_SHAPE(2, 3, 1)), n, n, (tn_ctc_options){.at = at(11)});
  (tn_ctc)(x, wide, n, n, (tn_ctc_options){.at = at(12)});
  (tn_ctc)(x, any, n, n, (tn_ctc_options){.at = at(13)});
  (tn_ctc)(x, y, n, n, (tn_ctc_options){.blank = 5, .at = at(14)});
  (tn_ctc)(x, y, n, n, (tn_ctc_options){.reduction = TN_REDUCE_BATCHMEAN, .at = at(15)});
  (tn_multi_margin)(row, n, (tn_multi_margin_options){.at = at(16)});
  const char *have = report_of(p);
  CHECK_HAS(have,
            "user.c:10: error[E005]: ctc takes logarithms of f32, and targets and lengths of i64\n"
            "user.c:11: error[E004]: ctc takes log_p [steps, batch, classes], targets [batch, S] or [n] and two "
            "lengths [batch]\n"
            "user.c:12: error[E004]: the targets and lengths of ctc have the batch of log_p, its axis 1\n"
            "user.c:13: error[E004]: the targets of ctc have a constant width\n"
            "user.c:14: error[E003]: the blank of ctc is one of the classes, of which there are at most 2^24\n"
            "user.c:15: error[E003]: ctc is reduced by MEAN, SUM or NONE\n"
            "user.c:16: error[E004]: multi_margin takes x f32 [N, C] and labels i64 [N], or one sample of both\n");
  tn_program_free(p);
}

// Lengths and labels that are out of range end the run; what stands behind a sequence's own labels is not looked at.
static void sequences_in_run(void) {
  tn_program *p = tn_program_create("loss");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 1, 4)), y = tn_input(f, "y", TN_I64, TN_SHAPE(1, 2));
  tn_tensor n = tn_input(f, "n", TN_I64, TN_SHAPE(1)), m = tn_input(f, "m", TN_I64, TN_SHAPE(1));
  tn_output(f, "loss", tn_ctc(tn_log_softmax(x, 2), y, n, m));
  tn_function_end(f);
  CHECK(!*report_of(p));
  tn_model *model = model_alone(p, .n_workers = 2);
  static const struct {
    int64_t y[2], n, m;
    bool good;
    double loss;
  } runs[] = {{{1, 2}, 3, 2, true, 1.2747226}, {{1, 99}, 3, 1, true, 2.3671236}, {{1, 1}, 2, 2, true, INFINITY},
              {{9, 9}, 0, 0, true, 0},         {{1, 4}, 3, 2, false, 0},         {{-1, 1}, 3, 2, false, 0},
              {{1, 2}, 4, 2, false, 0},        {{1, 2}, -1, 2, false, 0},        {{1, 2}, 3, 3, false, 0},
              {{1, 2}, 3, -1, false, 0}};
  for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
    float in[12] = {0}, loss = 17;
    tn_status s = tn_run(
        model, "run", TN_IN(tn_f32(in, 3, 1, 4), tn_i64(runs[k].y, 1, 2), tn_i64(&runs[k].n, 1), tn_i64(&runs[k].m, 1)),
        TN_OUT(tn_f32_scalar(&loss)));
    if (!CHECK((s == TN_OK) == runs[k].good)) printf("  run %zu: %s\n", k, tn_error_text(model));
    if (s == TN_OK && !CHECK((double)loss == runs[k].loss || is_near(loss, (float)runs[k].loss, 5e-6)))
      printf("  run %zu: %.8g\n", k, (double)loss);
  }
  tn_model_free(model);
}

// A label that is neither a class nor ignored: the run stops before anything is written.
static void refused_in_run(void) {
  tn_program *p = tn_program_create("loss");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, CLASSES)), y = tn_input(f, "y", TN_I64, TN_SHAPE(ROWS));
  tn_output(f, "loss", tn_cross_entropy(x, y, .has_ignore = true, .ignore_index = -100));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  const int64_t bad[2][ROWS] = {{0, -100, 4, -1, 0, 0}, {5, -100, 0, 0, 0, 0}};
  static const char *const says[2] = {"run: input 'y': label -1 at [3] is not in 0..4, nor -100, which is ignored",
                                      "run: input 'y': label 5 at [0] is not in 0..4, nor -100, which is ignored"};
  float loss = 17;
  for (int k = 0; k < 2; k++) {
    tn_status status =
        tn_run(m, "run", TN_IN(tn_f32(logits, ROWS, CLASSES), tn_i64(bad[k], ROWS)), TN_OUT(tn_f32_scalar(&loss)));
    CHECK(status == TN_ERR_VALUE && loss == 17);
    if (!CHECK(!strcmp(tn_error_text(m), says[k]))) printf("  %s\n", tn_error_text(m));
  }
  tn_model_free(m);
}

// ---- rows computed of packed data keep their layout
static const char *joined_by(tn_tensor (*make)(tn_packed a, tn_packed b)) {
  static const int64_t lengths[2][2] = {{3, 1}, {2, 2}};
  static char text[2048];
  tn_program *p = tn_program_create("rows");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 4));
  tn_packed a = (tn_pack_constant)(x, lengths[0], 2, (tn_pack_options){.at = at(1)}),
            b = (tn_pack_constant)(x, lengths[1], 2, (tn_pack_options){.at = at(2)});
  tn_tensor y = make(a, b);
  CHECK(y.v == 0 && tn_n_errors(p) == 1);
  snprintf(text, sizeof text, "%s", report_of(p));
  tn_program_free(p);
  return text;
}

static tn_tensor by_tanh(tn_packed a, tn_packed b) { return (tn_add)(tn_tanh(a.data), b.data, at(5)); }
static tn_tensor by_rows(tn_packed a, tn_packed b) {
  return (tn_mul)(tn_softmax(tn_neg(a.data), -1), tn_slice(tn_concat(1, TN_TENSORS(b.data, b.data)), 1, 2, 4), at(5));
}
static tn_tensor by_sum(tn_packed a, tn_packed b) {
  return (tn_sub)(tn_sum_axis(a.data, 1, false), tn_mean_axis(tn_exp(b.data), 1, false), at(5));
}
static tn_tensor by_select(tn_packed a, tn_packed b) {
  return (tn_select)(tn_gt(a.data, tn_mul(a.data, a.data)), a.data, tn_relu(b.data), at(5));
}
static tn_tensor by_concat(tn_packed a, tn_packed b) {
  return (tn_concat)(1, (const tn_tensor[]){tn_tanh(a.data), tn_tanh(b.data)}, 2, at(5));
}
static tn_tensor by_mse(tn_packed a, tn_packed b) {
  return (tn_mse)(tn_tanh(a.data), b.data, (tn_reduce_options){.at = at(5)});
}
static tn_tensor by_loss(tn_packed a, tn_packed b) {
  return (tn_cross_entropy)(tn_tanh(a.data), tn_argmax_axis(b.data, -1, false), (tn_loss_options){.at = at(5)});
}
static tn_tensor by_write(tn_packed a, tn_packed b) { return (tn_copy_)(tn_clone(a.data), tn_tanh(b.data), at(5)); }
static tn_tensor by_data_of_another(tn_packed a, tn_packed b) {
  return (tn_packed_with_data)(a, tn_tanh(b.data), at(5)).data;
}
static tn_tensor by_pair(tn_packed a, tn_packed b) {
  return (tn_packed_sum)((tn_packed){tn_tanh(a.data), b.layout}, at(5));
}
static tn_tensor by_products(tn_packed a, tn_packed b) {
  return (tn_matmul)(tn_transpose(a.data, 0, 1), tn_tanh(b.data), at(5));
}
static tn_tensor by_other_data(tn_packed a, tn_packed b) {
  tn_packed c = tn_packed_with_data(b, tn_tanh(b.data));
  return (tn_add)(tn_dropout(c.data, 0.5), tn_reshape(a.data, TN_SHAPE(4, 4)), at(5));
}

static void layouts(void) {
  static const struct {
    tn_tensor (*make)(tn_packed, tn_packed);
    const char *what, *order;
  } forms[] = {{by_tanh, "add", "[3,1] and [2,2]"},
               {by_rows, "mul", "[3,1] and [2,2]"},
               {by_sum, "sub", "[3,1] and [2,2]"},
               {by_select, "select", "[3,1] and [2,2]"},
               {by_concat, "concat", "[3,1] and [2,2]"},
               {by_mse, "mse", "[3,1] and [2,2]"},
               {by_loss, "cross_entropy", "[3,1] and [2,2]"},
               {by_write, "copy_", "[3,1] and [2,2]"},
               {by_data_of_another, "packed_with_data", "[3,1] and [2,2]"},
               {by_pair, "packed", "[3,1] and [2,2]"},
               {by_products, "matmul", "[3,1] and [2,2]"},
               {by_other_data, "add", "[2,2] and [3,1]"}};
  for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
    char want[160];
    snprintf(want, sizeof want,
             "user.c:5: error[E111]: packed sequences of different lengths are joined by tn_%s: %s\n", forms[k].what,
             forms[k].order);
    CHECK_HAS(joined_by(forms[k].make), want);
  }
}

// Totals, and what tn_rows gives, belong to no layout.
static void no_layout(void) {
  static const int64_t lengths[2][4] = {{3, 1, 2, 2}, {2, 2, 2, 2}};
  tn_program *p = tn_program_create("rows");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4, 3, 8));
  tn_packed a = tn_pack_constant(x, lengths[0], 4), b = tn_pack_constant(x, lengths[1], 4);
  tn_output(f, "s", tn_add(tn_packed_sum(a), tn_packed_last(b)));
  tn_output(f, "t", tn_add(tn_transpose(tn_rows(a), 0, 1), b.data));
  tn_output(f, "c", tn_concat(0, TN_TENSORS(tn_rows(a), tn_rows(b))));
  tn_output(f, "m", tn_add(tn_sum_axis(a.data, 0, false), tn_sum_axis(b.data, 0, false)));
  tn_output(f, "g", tn_matmul(a.data, tn_rows(b)));
  tn_function_end(f);
  if (!CHECK(tn_n_errors(p) == 0)) tn_report(p, stdout);
  tn_program_free(p);
}

// Every reduction with every ignored label, smoothing and weight
static void check_cases(void) {
  static const struct {
    const char *name;
    bool has;
    int64_t index, labels[ROWS];
  } ignored[] = {{"-100", true, -100, {0, 4, -100, 3, -100, 1}},
                 {"1", true, 1, {1, 4, 2, 0, 1, 3}},
                 {"None", false, 0, {0, 4, 2, 3, 1, 1}},
                 {"7", true, 7, {7, 7, 7, 7, 7, 7}}};
  static const char *const reductions[] = {
      [TN_REDUCE_MEAN] = "mean", [TN_REDUCE_SUM] = "sum", [TN_REDUCE_NONE] = "none"};
  static const double smoothing[] = {0, 0.1, 1};
  RtArena *mem = rt_arena_new();
  const GoldenArrays goldens = golden_arrays(mem, "tests/loss_goldens");
  for (uint32_t k = 0; k < ROWS * CLASSES; k++) logits[k] = (float)(case_unit(k, 1) * 8 - 4);
  uint32_t n = 0;
  for (uint32_t k = 0; k < 3 * 4 * 3 * 2; k++) {
    uint32_t r = k / 24, i = k / 6 % 4, s = k / 2 % 3;
    static const tn_reduction of[] = {TN_REDUCE_MEAN, TN_REDUCE_SUM, TN_REDUCE_NONE};
    if (i == 3 && (of[r] == TN_REDUCE_NONE || s == 2)) continue;
    LossCase c = {of[r], ignored[i].has, ignored[i].index, smoothing[s], k % 2, ignored[i].labels, "", NULL, NULL};
    snprintf(c.name, sizeof c.name, "%s_ignore_%s_smoothing_%g_%s", reductions[of[r]], ignored[i].name, smoothing[s],
             k % 2 ? "weighted" : "plain");
    uint32_t n_loss = of[r] == TN_REDUCE_NONE ? ROWS : 1;
    c.loss = golden_array(&goldens, c.name, n_loss + ROWS * CLASSES), c.grad = c.loss + n_loss;
    against_pytorch(&c, n % 2);
    if (n++ % 3 == 0) packed(&c);
  }
  CHECK(n == goldens.n);
  rt_arena_free(mem);
}

int main(void) {
  check_cases();
  refused_in_build();
  sequences_refused_in_build();
  sequences_in_run();
  refused_in_run();
  layouts();
  no_layout();
  return check_report();
}
