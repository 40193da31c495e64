// The store of variables, as its users tell it: names with paths, one tensor under two names, groups with rates of
// their own, a penalty over chosen weights, fine-tuning with a frozen part, and stores that exchange values.
//
// There is no store object here. The tree of modules is the store: every entry has a path, and what a store decides
// while it runs (does the name exist? does the shape fit? who trains it?) is decided while the program is built.
#include "frontend/tenure.h"
#include "tests/check.h"
#include <math.h>
#include <stdlib.h>

enum { WORDS = 6, SIZE = 4, BATCH = 8 };
static const char file[] = "story_variables.safetensors";

// A small language model: the embedding's weight is the output layer's weight too.
typedef struct {
  tn_program *p;
  tn_module *embedding, *body, *out;
} Net;

static Net network(const char *name) {
  Net n = {.p = tn_program_create(name)};
  tn_module *root = tn_root(n.p);
  n.embedding = tn_embedding(root, "embedding", WORDS, SIZE);
  n.body = tn_linear(tn_module_at_path(root, "layers/0"), "fc", SIZE, SIZE);  // made on the way: layers, layers.0
  n.out = tn_linear(root, "out", SIZE, WORDS);
  // One tensor, two paths: one gradient, one optimizer slot, one entry in the file. No copy can let them drift apart.
  tn_share(n.out, "weight", n.embedding, "weight");
  return n;
}

static tn_tensor loss_of(const Net *n, tn_function *f) {
  tn_tensor word = tn_input(f, "word", TN_I64, TN_SHAPE(BATCH));
  tn_tensor next = tn_input(f, "next", TN_I64, TN_SHAPE(BATCH));
  tn_tensor h = tn_tanh(tn_call(n->body, tn_call(n->embedding, word)));
  return tn_cross_entropy(tn_call(n->out, h), next);
}

static tn_model *compile(const Net *n) {
  tn_model *m = tn_compile(n->p, .seed = 7);
  if (!CHECK(m != NULL)) tn_report(n->p, stdout), exit(1);
  return m;
}

// The next word is always the one after.
static float train(tn_model *m, int n_steps) {
  int64_t word[BATCH], next[BATCH];
  float loss = 0;
  for (int k = 0; k < BATCH; k++) word[k] = k % WORDS, next[k] = (k + 1) % WORDS;
  for (int k = 0; k < n_steps; k++)
    CHECK(tn_run(m, "step", TN_IN(tn_i64(word, BATCH), tn_i64(next, BATCH)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK);
  return loss;
}

static bool same(const tn_model *a, const tn_model *b, const char *path, size_t n) {
  float x[64], y[64];
  return tn_get(a, path, x, n) == TN_OK && tn_get(b, path, y, n) == TN_OK && !memcmp(x, y, n * sizeof *x);
}

// ---- the first training: two rates, and a penalty on the weights of layers
static tn_model *first_training(const Net *n) {
  tn_module *root = tn_root(n->p);
  tn_variable v[8];
  CHECK(tn_variables(root, NULL, v, 8) == 4);  // the tied weight is one
  CHECK(!strcmp(v[0].path, "embedding.weight") && !strcmp(v[3].path, "out.bias"));
  CHECK(tn_variables(root, &(tn_variable_options){.aliases = true}, v, 8) == 5);

  tn_group(root, 1, "**/bias", .no_weight_decay = true);
  tn_function *f = tn_function_begin(n->p, "step");
  tn_tensor loss = loss_of(n, f);
  tn_tensor penalty = tn_mul(tn_scalar(f, 1e-4), tn_l2(f, root, "layers.**.weight"));
  tn_backward(tn_add(loss, penalty));
  tn_adamw(f, root, .lr = 0.05, .weight_decay = 0.01);
  tn_output(f, "loss", loss);
  tn_function_end(f);

  tn_model *m = compile(n);
  float start = train(m, 1), end = train(m, 100);
  CHECK(end < start / 4);
  // Rates are numbers in the table: a schedule writes them, nothing is compiled again.
  CHECK(tn_set_lr_all(m, 0) == TN_OK);
  CHECK(train(m, 1) == train(m, 10));
  CHECK(tn_set_lr(m, 0, 0.01) == TN_OK && tn_set_lr(m, 1, 0.02) == TN_OK);
  CHECK(tn_set_lr(m, 2, 0.1) == TN_ERR_ARGUMENT);  // nobody is in group 2
  train(m, 10);
  return m;
}

// ---- fine-tuning: another program with the same paths, of which only the middle is trained
static void fine_tuning(const tn_model *trained) {
  Net n = network("tuned");
  tn_freeze(tn_root(n.p), true);
  tn_freeze_path(tn_root(n.p), "layers", false);
  tn_function *f = tn_function_begin(n.p, "step");
  tn_tensor loss = loss_of(&n, f);
  tn_backward(loss);
  tn_sgd(f, tn_root(n.p), .lr = 0.1);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = compile(&n);
  CHECK(tn_copy_params(m, trained, false) == TN_OK);
  CHECK(same(m, trained, "layers.0.fc.weight", 16));
  train(m, 5);
  CHECK(!same(m, trained, "layers.0.fc.weight", 16));  // trained on
  CHECK(same(m, trained, "out.weight", 24) && same(m, trained, "out.bias", 6));
  tn_model_free(m);
  tn_program_free(n.p);
}

// ---- a larger model takes what the file has, and says what the file lacks
static void larger_model(tn_model *trained) {
  Net n = network("larger");
  tn_param_at_path(tn_root(n.p), "layers/1/scale", TN_SHAPE(SIZE), ((tn_init){TN_INIT_CONSTANT, 1, 0}));
  tn_function *f = tn_function_begin(n.p, "step");
  tn_output(f, "loss", loss_of(&n, f));
  tn_function_end(f);
  tn_model *m = compile(&n);
  CHECK(tn_save(trained, file, false) == TN_OK);
  CHECK(tn_load(m, file, false) == TN_ERR_FILE);  // strict: nothing was written
  CHECK_HAS(tn_error_text(m), "'layers.1.scale' is missing");
  CHECK(!same(m, trained, "out.bias", 6));
  tn_load_report r;
  CHECK(tn_load_partial(m, file, false, &r) == TN_OK && r.n_loaded == 4);
  CHECK(r.n_missing == 1 && !strcmp(r.missing[0], "layers.1.scale"));
  CHECK(same(m, trained, "out.bias", 6) && same(m, trained, "embedding.weight", 24));
  CHECK(same(m, m, "out.weight", 24));  // still tied: either path finds it
  tn_model_free(m);
  tn_program_free(n.p);
}

// ---- two models as one store
static void one_store_of_two(tn_model *trained) {
  tn_model *a = tn_instance(trained, 1), *b = tn_instance(trained, 2);
  CHECK(tn_save_merged((tn_part[]){{trained, "teacher."}, {a, "student."}}, 2, file, true) == TN_OK);
  CHECK(tn_load_merged((tn_part[]){{b, "teacher."}, {a, "student."}}, 2, file, true) == TN_OK);
  CHECK(same(b, trained, "out.weight", 24) && !same(a, b, "out.weight", 24));
  CHECK(train(b, 3) == train(trained, 3));  // its optimizer state came along
  CHECK(tn_save_merged((tn_part[]){{a, "x."}, {b, "x."}}, 2, file, false) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(a), "the name 'x.embedding.weight' is given twice: by 'embedding.weight' of store 1");
  tn_model_free(a);
  tn_model_free(b);
}

int main(void) {
  Net n = network("words");
  tn_model *m = first_training(&n);
  fine_tuning(m);
  larger_model(m);
  one_store_of_two(m);
  remove(file);
  tn_model_free(m);
  tn_program_free(n.p);
  return check_report();
}
