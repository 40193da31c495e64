// Updates of the rows that were looked up (.sparse): those rows, and their state, are as a dense update leaves them that begins from
// the same state; all others are as they were. For every optimizer, kind of look-up and number of workers.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 60, WIDE = 19, BAGS = 5, LENGTH = 7, N = BAGS * LENGTH, STEPS = 3, PADDING = 4 };

// ---- optimizers
typedef void Train(tn_function *f, tn_module *m, bool sparse);
#define WAY(name, call, ...) \
  static void name(tn_function *f, tn_module *m, bool by_rows) { call(f, m, __VA_ARGS__, .sparse = by_rows); }
WAY(sgd, tn_sgd, .lr = 0.1, .weight_decay = 0.1)
WAY(momentum, tn_sgd, .lr = 0.1, .momentum = 0.9, .nesterov = true)
WAY(adam, tn_adam, .lr = 0.1)
WAY(adamw, tn_adamw, .lr = 0.1, .weight_decay = 0.1)
WAY(amsgrad, tn_adamw, .lr = 0.1, .amsgrad = true)
WAY(adagrad, tn_adagrad, .lr = 0.1, .lr_decay = 0.1)
WAY(adadelta, tn_adadelta, .lr = 0.1)
WAY(rmsprop, tn_rmsprop, .lr = 0.01)
WAY(rmsprop_all, tn_rmsprop, .lr = 0.01, .momentum = 0.9, .centered = true)
WAY(adamax, tn_adamax, .lr = 0.01)
WAY(nadam, tn_nadam, .lr = 0.01)
WAY(radam, tn_radam, .lr = 0.01)
WAY(lion, tn_lion, .lr = 0.01)
WAY(most, tn_sgd, .lr = 0.1, .maximize = true)
static Train *const ways[] = {sgd,     momentum,    adam,   adamw, amsgrad, adagrad, adadelta,
                              rmsprop, rmsprop_all, adamax, nadam, radam,   lion,    most};
enum { N_WAYS = sizeof ways / sizeof *ways };

// ---- look-ups: x [BAGS, LENGTH], or all of them [N] with offsets
typedef tn_tensor LookUp(tn_tensor table, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor weights);
static tn_tensor looked_up(tn_tensor t, tn_tensor x) {
  tn_tensor y = tn_index_select(t, 0, tn_rank(x) == 2 ? tn_flatten(x, 0, 1) : x);
  return tn_rank(x) == 2 ? tn_unflatten(y, 0, TN_SHAPE(BAGS, LENGTH)) : y;
}
static tn_tensor once(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)flat, (void)offsets, (void)w;
  return looked_up(t, x);
}
static tn_tensor twice(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)offsets, (void)w;
  return tn_mul(looked_up(t, x), tn_unflatten(tn_tanh(looked_up(t, flat)), 0, TN_SHAPE(BAGS, LENGTH)));
}
static tn_tensor sums(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)flat, (void)offsets, (void)w;
  return tn_embedding_bag(t, x, .mode = TN_BAG_SUM);
}
static tn_tensor weighted(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)flat, (void)offsets;
  return tn_embedding_bag(t, x, .mode = TN_BAG_SUM, .per_sample_weights = w);
}
static tn_tensor means(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)x, (void)w;
  return tn_embedding_bag(t, flat, .mode = TN_BAG_MEAN, .offsets = offsets, .has_padding = true,
                          .padding_idx = PADDING);
}
static tn_tensor largest(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)flat, (void)offsets, (void)w;
  return tn_embedding_bag(t, x, .mode = TN_BAG_MAX);
}
static tn_tensor largest_padded(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)x, (void)w;
  return tn_embedding_bag(t, flat, .mode = TN_BAG_MAX, .offsets = offsets, .has_padding = true, .padding_idx = PADDING);
}
// Rows that are read without gradients are not named by this: those are of the table's other end.
static tn_tensor beside(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)offsets, (void)w;
  tn_no_grad_begin(t.fn);
  tn_tensor scale = tn_add(tn_mean(tn_detach(t)), tn_index_select(t, 0, tn_add(flat, tn_full_like(flat, ROWS - N))));
  tn_no_grad_end(t.fn);
  return tn_mul(looked_up(t, x), tn_unflatten(scale, 0, TN_SHAPE(BAGS, LENGTH)));
}
// Weights that the same optimizer changes first
static tn_module *first;
static tn_tensor weighted_by_head(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  (void)flat, (void)offsets, (void)w;
  tn_tensor all = tn_flatten(tn_param_value(t.fn, first, "weight"), 0, 1);
  return tn_embedding_bag(t, x, .mode = TN_BAG_SUM,
                          .per_sample_weights = tn_reshape(tn_slice(all, 0, 0, N), TN_SHAPE(BAGS, LENGTH)));
}
static tn_tensor packed_twice(tn_tensor t, tn_tensor x, tn_tensor flat, tn_tensor offsets, tn_tensor w) {
  static const int64_t lengths[BAGS] = {LENGTH, LENGTH, LENGTH, LENGTH, LENGTH};
  (void)flat, (void)offsets, (void)w;
  tn_packed s = tn_pack_constant(x, lengths, BAGS);
  s.data = tn_mul(tn_index_select(t, 0, s.data), tn_tanh(tn_index_select(t, 0, s.data)));
  return tn_rows(s);
}
static LookUp *const lookups[] = {once,    twice,          sums,   weighted,         means,
                                  largest, largest_padded, beside, weighted_by_head, packed_twice};
enum { N_LOOKUPS = sizeof lookups / sizeof *lookups };

static tn_program *build(uint32_t way, uint32_t lookup, bool sparse) {
  tn_program *p = tn_program_create("rows");
  tn_module *net = tn_root(p), *words, *head;
  first = lookups[lookup] == weighted_by_head ? tn_linear(net, "first", WIDE, 2, .no_bias = true) : NULL;
  words = tn_embedding(net, "words", ROWS, WIDE), head = tn_linear(net, "head", WIDE, 3);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(BAGS, LENGTH)), flat = tn_input(f, "flat", TN_I64, TN_SHAPE(N)),
            offsets = tn_input(f, "offsets", TN_I64, TN_SHAPE(BAGS)),
            w = tn_input(f, "w", TN_F32, TN_SHAPE(BAGS, LENGTH));
  tn_tensor y = lookups[lookup](tn_param_value(f, words, "weight"), x, flat, offsets, w);
  tn_tensor loss = tn_mean(tn_square(tn_call(head, tn_sin(y))));
  tn_output(f, "loss", loss);
  tn_backward(loss);
  ways[way](f, net, sparse);
  tn_function_end(f);
  return p;
}

typedef struct {
  float table[ROWS * WIDE], head[WIDE * 3], loss[STEPS];
} Trained;

static void train(uint32_t way, uint32_t lookup, bool sparse, uint32_t n_workers, Trained *before, Trained *t,
                  tn_plan *plan) {
  static const int64_t offsets[BAGS] = {0, 5, 5, 11, 30};
  int64_t x[N];
  float w[N];
  for (int k = 0; k < N; k++) x[k] = k % 3 ? k * k % 11 : k, w[k] = (float)(k % 5) - 1.5f;
  tn_program *p = build(way, lookup, sparse);
  tn_model *m = model_of(p, .n_workers = n_workers, .seed = 3);
  CHECK(m && tn_get(m, "words.weight", before->table, ROWS * WIDE) == TN_OK);
  for (int step = 0; m && step < STEPS; step++)
    CHECK(tn_run(m, "f", TN_IN(tn_i64(x, BAGS, LENGTH), tn_i64(x, N), tn_i64(offsets, BAGS), tn_f32(w, BAGS, LENGTH)),
                 TN_OUT(tn_f32_scalar(&t->loss[step]))) == TN_OK);
  CHECK(m && tn_get(m, "words.weight", t->table, ROWS * WIDE) == TN_OK);
  CHECK(m && tn_get(m, "head.weight", t->head, WIDE * 3) == TN_OK);
  CHECK(m && tn_plan_of(m, "f", plan) == TN_OK);
  tn_model_free(m);
  tn_program_free(p);
}

static bool is_named(int row, uint32_t lookup) {
  bool pads = lookups[lookup] == means || lookups[lookup] == largest_padded, named = false;
  for (int k = 0; k < N; k++) named |= (k % 3 ? k * k % 11 : k) == row;
  return named && !(pads && row == PADDING);
}

static bool are_near(const float *a, const float *b, int n) {
  double worst = 0;
  for (int k = 0; k < n; k++) worst = fmax(worst, fabs((double)a[k] - b[k]) / (1 + fabs((double)a[k])));
  return worst < 2e-5;
}

static void compare(uint32_t way, uint32_t lookup) {
  static Trained start, dense, by_rows, again;
  tn_plan with = {0}, without = {0};
  train(way, lookup, false, 1, &start, &dense, &with);
  train(way, lookup, true, 1, &start, &by_rows, &without);
  bool good = CHECK(are_near(by_rows.head, dense.head, WIDE * 3)) && CHECK(are_near(by_rows.loss, dense.loss, STEPS));
  for (int k = 0; k < ROWS; k++) {
    const float *row = &by_rows.table[k * WIDE], *old = &start.table[k * WIDE];
    good &=
        is_named(k, lookup) ? CHECK(are_near(row, &dense.table[k * WIDE], WIDE)) : CHECK(!memcmp(row, old, WIDE * 4));
  }
  for (uint32_t n = 2; n <= 3; n++) {
    train(way, lookup, true, n, &start, &again, &without);
    good &= CHECK(!memcmp(&again, &by_rows, sizeof again));
  }
  if (!good) printf("optimizer %u, look-up %u\n", way, lookup);
}

// ---- what cannot be updated by rows
typedef void Build(tn_function *f, tn_module *net, tn_tensor x);
static void finish(tn_function *f, tn_tensor loss) {
  tn_output(f, "loss", loss);
  tn_backward(loss);
}
static tn_tensor some(tn_function *f, tn_module *net, tn_tensor x) {
  return tn_mean(looked_up(tn_param_value(f, tn_child(net, "words"), "weight"), x));
}
static void clipped(tn_function *f, tn_module *net, tn_tensor x) {
  finish(f, some(f, net, x));
  tn_clip_grad_norm(f, net, 1);
  tn_adam(f, net, .sparse = true);
}
static void accumulated(tn_function *f, tn_module *net, tn_tensor x) {
  finish(f, some(f, net, x));
  tn_accumulate(f, net, 2);
  tn_adam(f, net, .sparse = true);
}
static void read_whole(tn_function *f, tn_module *net, tn_tensor x) {
  finish(f, tn_add(some(f, net, x), tn_mean(tn_param_value(f, tn_child(net, "words"), "weight"))));
  tn_adam(f, net, .sparse = true);
}
static void by_lamb(tn_function *f, tn_module *net, tn_tensor x) {
  finish(f, some(f, net, x));
  tn_lamb(f, net, .sparse = true);
}
static void two_bags(tn_function *f, tn_module *net, tn_tensor x) {
  tn_tensor t = tn_param_value(f, tn_child(net, "words"), "weight");
  finish(f, tn_mean(tn_mul(tn_embedding_bag(t, x, .mode = TN_BAG_SUM), tn_embedding_bag(t, x, .mode = TN_BAG_MAX))));
  tn_adam(f, net, .sparse = true);
}

// What is read again must be as it was: in place nothing writes rows, what names and weighs them, losses or gradients.
static tn_tensor rows_of(tn_module *net, tn_tensor index) { return tn_call(tn_child(net, "words"), index); }
static void rows_written(tn_function *f, tn_module *net, tn_tensor x) {
  tn_tensor y = rows_of(net, x);
  tn_relu_(tn_slice(y, 1, 0, 2));
  finish(f, tn_mean(y));
  tn_adam(f, net, .sparse = true);
}
static void index_written(tn_function *f, tn_module *net, tn_tensor x) {
  tn_tensor index = tn_clone(x);
  finish(f, tn_mean(rows_of(net, index)));
  tn_copy_(index, tn_mul(x, x));
  tn_adam(f, net, .sparse = true);
}
static void loss_written(tn_function *f, tn_module *net, tn_tensor x) {
  tn_tensor loss = tn_mean(rows_of(net, x));
  tn_backward(loss);
  tn_add_(loss, tn_mean(tn_square(rows_of(net, x))));
  tn_adam(f, net, .sparse = true);
}
static void gradient_written(tn_function *f, tn_module *net, tn_tensor x) {
  finish(f, tn_mean(rows_of(net, x)));
  tn_clamp_(tn_param_grad(f, tn_child(net, "words"), "weight"), -1, 1);
  tn_adam(f, net, .sparse = true);
}

static void of_16_bits(tn_function *f, tn_module *net, tn_tensor x) {
  finish(f, tn_mean(tn_call(tn_child(net, "narrow"), x)));
  tn_adam(f, net, .sparse = true);
}

static void check_refused(Build *make, const char *text) {
  tn_program *p = tn_program_create("refused");
  tn_module *net = tn_root(p);
  tn_embedding(net, "words", ROWS, WIDE);
  tn_embedding(net, "narrow", ROWS, WIDE);
  tn_store_as(net, "narrow", TN_BF16);
  tn_function *f = tn_function_begin(p, "f");
  make(f, net, tn_input(f, "x", TN_I64, TN_SHAPE(BAGS, LENGTH)));
  tn_function_end(f);
  char *report = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&report, &size);
  tn_report(p, out);
  fclose(out);
  if (!CHECK(strstr(report, text) && tn_n_errors(p) == 1)) printf("%s", report);
  free(report);
  tn_program_free(p);
}

// ---- memory: none of it grows with the table
static int64_t peak_of(int64_t count) {
  tn_program *p = tn_program_create("large");
  tn_module *net = tn_root(p);
  tn_embedding(net, "words", count, WIDE);
  tn_function *f = tn_function_begin(p, "f");
  finish(f, some(f, net, tn_input(f, "x", TN_I64, TN_SHAPE(BAGS, LENGTH))));
  tn_adam(f, net, .sparse = true);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  tn_plan plan = {0};
  CHECK(m && tn_plan_of(m, "f", &plan) == TN_OK);
  tn_model_free(m), tn_program_free(p);
  return plan.peak_bytes;
}

int main(void) {
  for (uint32_t lookup = 0; lookup < N_LOOKUPS; lookup++) compare(lookup % N_WAYS, lookup);
  for (uint32_t way = 0; way < N_WAYS; way++) compare(way, way % N_LOOKUPS);
  check_refused(clipped, "something changes its whole gradient");
  check_refused(accumulated, "averaged over runs");
  check_refused(read_whole, "reads all of it");
  check_refused(by_lamb, "tn_lamb");
  check_refused(two_bags, "a bag is not its only reader");
  check_refused(rows_written, "what was looked up is written in place");
  check_refused(index_written, "what it was looked up by is written in place");
  check_refused(loss_written, "the loss is written in place");
  check_refused(of_16_bits, "it is stored in 16 bits");
  check_refused(gradient_written, "something changes its whole gradient");
  CHECK(peak_of(100) == peak_of(20000));
  return check_report();
}
