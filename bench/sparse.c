// sparse: training steps of tables of which few rows are looked up, updated by rows (.sparse). A case is MODEL OPTIMIZER ROWS:
// `bags` and `means`: 8 tables of ROWS x 64, 512 bags of 20 of each; `words`: two tables of ROWS x 128, 1,024 words, each
// beside one that stands near it and 5 that do not (word2vec). Each step has other rows, of four sets in turn.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

enum { TABLES = 8, BAGS = 512, LENGTH = 20, FEATURES = 64, WORDS = 1024, OTHERS = 6, WIDE = 128, SETS = 4 };

static const char *const cases[] = {"bags sgd 100000", "bags adagrad 100000", "bags adam 100000",  "means sgd 100000",
                                    "bags sgd 400000", "words sgd 100000",    "words adam 100000", NULL};

typedef struct {
  char model[8], optimizer[8];
  long rows;
  int64_t width, n_tables, dims[TABLES][2];  // of the index of each table
} Case;

typedef struct {
  tn_model *model;
  Case c;
  int64_t *index[SETS][TABLES];
  float loss;
  uint32_t step;
} Run;

static bool parse_case(const char *variant, Case *c) {
  if (sscanf(variant, "%7s %7s %ld", c->model, c->optimizer, &c->rows) != 3 || c->rows < 1) return false;
  bool words = !strcmp(c->model, "words");
  c->n_tables = words ? 2 : TABLES, c->width = words ? WIDE : FEATURES;
  for (int64_t k = 0; k < c->n_tables; k++) {
    c->dims[k][0] = words ? WORDS : BAGS;
    c->dims[k][1] = words ? (k ? OTHERS : 1) : LENGTH;
  }
  return true;
}

static int64_t count_of(const Case *c, int64_t k) { return c->dims[k][0] * c->dims[k][1]; }

static tn_tensor bags_loss(const Case *c, const tn_tensor *table, const tn_tensor *index) {
  tn_tensor bag[TABLES];
  tn_bag_mode mode = strcmp(c->model, "means") ? TN_BAG_SUM : TN_BAG_MEAN;
  for (int64_t k = 0; k < c->n_tables; k++) bag[k] = tn_embedding_bag(table[k], index[k], .mode = mode);
  return tn_mul_scalar(tn_sum(tn_square(tn_concat(1, bag, (uint32_t)c->n_tables))), 1.0 / BAGS);
}

// The first of the others stands near the word.
static tn_tensor words_loss(const tn_tensor *table, const tn_tensor *index, tn_module *const *m) {
  (void)table;
  tn_tensor word = tn_call(m[0], index[0]), others = tn_call(m[1], index[1]);
  tn_tensor near = tn_sum_axes(tn_mul(word, others), false, TN_INTS(2));
  tn_tensor good = tn_logsigmoid(tn_slice(near, 1, 0, 1)),
            bad = tn_logsigmoid(tn_neg(tn_slice(near, 1, 1, OTHERS - 1)));
  return tn_neg(tn_add(tn_sum(good), tn_sum(bad)));
}

static void train(tn_function *f, tn_module *net, const Case *c) {
  if (!strcmp(c->optimizer, "sgd")) tn_sgd(f, net, .lr = 0.01, .sparse = true);
  else if (!strcmp(c->optimizer, "adagrad")) tn_adagrad(f, net, .lr = 0.01, .sparse = true);
  else tn_adam(f, net, .lr = 0.01, .sparse = true);
}

static tn_program *build(const Case *c) {
  static const char *const names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
  tn_program *p = tn_program_create("sparse");
  tn_module *net = tn_root(p), *m[TABLES];
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor table[TABLES], index[TABLES];
  for (int64_t k = 0; k < c->n_tables; k++) {
    m[k] = tn_embedding(net, names[k], c->rows, c->width);
    table[k] = tn_param_value(f, m[k], "weight");
    index[k] = tn_input(f, names[k], TN_I64, TN_SHAPE(c->dims[k][0], c->dims[k][1]));
  }
  tn_tensor loss = strcmp(c->model, "words") ? bags_loss(c, table, index) : words_loss(table, index, m);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  train(f, net, c);
  return tn_function_end(f), p;
}

static void close_run(void *w) {
  Run *r = w;
  tn_model_free(r->model);
  for (int s = 0; s < SETS; s++)
    for (int k = 0; k < TABLES; k++) free(r->index[s][k]);
  free(r);
}

// Tables begin as numbers that the peer makes as well.
static bool fill(Run *r) {
  const Case *c = &r->c;
  float *table = malloc((size_t)(c->rows * c->width) * sizeof *table);
  bool ok = table != NULL;
  for (int64_t k = 0; ok && k < c->n_tables; k++) {
    char path[16];
    snprintf(path, sizeof path, "t%d.weight", (int)k);
    bench_floats(table, (size_t)(c->rows * c->width), -1, 1, (uint32_t)(1 + k));
    ok = tn_set(r->model, path, table, (size_t)(c->rows * c->width)) == TN_OK;
    for (int s = 0; s < SETS; s++) {
      r->index[s][k] = malloc((size_t)count_of(c, k) * sizeof(int64_t));
      bench_integers(r->index[s][k], (size_t)count_of(c, k), c->rows, (uint32_t)(100 + s * TABLES + k));
    }
  }
  free(table);
  return ok;
}

static void *open_sparse(Opening *o) {
  Run *r = calloc(1, sizeof *r);
  o->weights = NULL;
  if (!r || !parse_case(o->variant, &r->c)) return free(r), NULL;
  r->model = bench_compile(build(&r->c), o);
  if (r->model && fill(r)) return r;
  close_run(r);
  return NULL;
}

static bool step(void *w) {
  Run *r = w;
  tn_array in[TABLES];
  const Case *c = &r->c;
  for (int64_t k = 0; k < c->n_tables; k++) in[k] = tn_i64(r->index[r->step % SETS][k], c->dims[k][0], c->dims[k][1]);
  r->step++;
  return tn_run(r->model, "train_step", in, (uint32_t)c->n_tables, TN_OUT(tn_f32_scalar(&r->loss))) == TN_OK;
}

// The loss of the fifth step, which has the rows of the first.
static bool check(void *w, double *loss) {
  Run *r = w;
  bool ok = true;
  r->step = 0;
  for (int k = 0; k < SETS + 1; k++) ok &= step(w);
  *loss = r->loss;
  return ok;
}

static tn_model *model(void *w) { return ((Run *)w)->model; }

// Rows that are read for the look-up, and those of the table and of its state that are read and written
static void limits(const char *variant, double *flops, double *bytes) {
  Case c = {0};
  *flops = *bytes = 0;
  if (!parse_case(variant, &c)) return;
  double rows = 0, states = !strcmp(c.optimizer, "sgd") ? 0 : !strcmp(c.optimizer, "adagrad") ? 1 : 2;
  for (int64_t k = 0; k < c.n_tables; k++) rows += (double)count_of(&c, k);
  *flops = rows * (double)c.width * (4 + 4 * states);
  *bytes = rows * (double)c.width * sizeof(float) * (1 + 2 * (1 + states));
}

const Workload bench_sparse = {
    .name = "sparse",
    .what = "tables of which few rows are looked up, trained by rows",
    .peer = "bench/peers/%s_sparse.py",
    .cases = cases,
    .tolerance = 1e-4,
    .open = open_sparse,
    .check = check,
    .step = step,
    .model = model,
    .close = close_run,
    .limits = limits,
    .function = "train_step",
};
