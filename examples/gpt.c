// A small GPT: it learns that a sequence repeats after 3 to 8 letters, and goes on with one that it has never seen. Two
// layers find it by attention: one looks one letter back, the other to where the present letter stood before.
// ctest: --steps 400
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <stdlib.h>
#include <string.h>

enum { LETTERS = 20, WIDE = 48, HEADS = 4, LAYERS = 2, TIME = 40, BATCH = 24, SHOWN = 24 };

// x + attention(norm x), then x + mlp(norm x)
static void make_block(tn_module *net, const char *name) {
  tn_module *b = tn_module_new(net, name);
  tn_layer_norm(b, "ln1", TN_SHAPE(WIDE));
  tn_multi_head_attention(b, "attn", WIDE, HEADS, .causal = true);
  tn_layer_norm(b, "ln2", TN_SHAPE(WIDE));
  tn_module *mlp = tn_sequential(b, "mlp");
  tn_linear(mlp, "0", WIDE, 4 * WIDE);
  tn_activation(mlp, "1", "gelu");
  tn_linear(mlp, "2", 4 * WIDE, WIDE);
}

static tn_tensor block(tn_module *b, tn_tensor x) {
  x = tn_add(x, tn_call(tn_child(b, "attn"), tn_call(tn_child(b, "ln1"), x)));
  return tn_add(x, tn_call(tn_child(b, "mlp"), tn_call(tn_child(b, "ln2"), x)));
}

// A table of letters or places, started small
static tn_module *make_table(tn_module *net, tn_program *p, const char *name, int64_t n) {
  tn_module *m = tn_embedding(net, name, n, WIDE);
  tn_function *init = tn_init_function(p);
  tn_tensor w = tn_randn(init, TN_SHAPE(n, WIDE));
  tn_parameter_adopt(m, "weight", tn_mul(w, tn_scalar(init, 0.05)));
  return m;
}

static const char *const blocks[LAYERS] = {"block0", "block1"};

// ids [batch, TIME] -> logits [batch, TIME, LETTERS]; the output's weight is the table of letters
static tn_tensor logits_of(tn_function *f, tn_module *net, tn_tensor ids) {
  tn_tensor x = tn_add(tn_call(tn_child(net, "letters"), ids), tn_param_value(f, tn_child(net, "places"), "weight"));
  for (int k = 0; k < LAYERS; k++) x = block(tn_child(net, blocks[k]), x);
  return tn_call(tn_child(net, "head"), tn_call(tn_child(net, "ln"), x));
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("gpt");
  tn_module *net = tn_root(p), *letters = make_table(net, p, "letters", LETTERS);
  make_table(net, p, "places", TIME);
  for (int k = 0; k < LAYERS; k++) make_block(net, blocks[k]);
  tn_layer_norm(net, "ln", TN_SHAPE(WIDE));
  tn_module *head = tn_linear(net, "head", WIDE, LETTERS, .no_bias = true);
  tn_share(head, "weight", letters, "weight");
  tn_dim B = tn_dim_const(BATCH), T = tn_dim_const(TIME);

  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor ids = tn_input(f, "ids", TN_I64, TN_SHAPE(B, T)), next = tn_input(f, "next", TN_I64, TN_SHAPE(B, T));
  tn_tensor loss = tn_cross_entropy(logits_of(f, net, ids), next);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_clip_grad_norm(f, net, 1.0);
  tn_adamw(f, net, .lr = 3e-3, .weight_decay = 0.01);
  tn_function_end(f);

  f = tn_function_begin(p, "likeliest");  // the letter that follows each prefix
  tn_tensor one = tn_input(f, "ids", TN_I64, TN_SHAPE(1, T));
  tn_output(f, "letter", tn_argmax_axis(logits_of(f, net, one), -1, false));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .seed = 1);
  tn_program_free(p);
  return m;
}

static uint32_t state = 1;
static int64_t draw(int64_t n) {
  state = state * 1664525u + 1013904223u;
  return (int64_t)((uint64_t)(state >> 8) * (uint64_t)n >> 24);
}

// n letters that repeat after 3 to 8
static void repeat(int64_t *to, int n) {
  int period = 3 + (int)draw(6);
  for (int k = 0; k < n; k++) to[k] = k < period ? draw(LETTERS) : to[k - period];
}

static void print(const char *what, const int64_t *ids, int from, int to) {
  printf("%-12s", what);
  for (int k = 0; k < to; k++) putchar(k < from ? ' ' : 'a' + (char)ids[k]);
  putchar('\n');
}

// Writes what comes after the first SHOWN letters of `truth`; gives how many of them are right.
static int go_on(tn_model *m, const int64_t *truth) {
  int64_t ids[TIME] = {0}, letter[TIME];
  int right = 0;
  memcpy(ids, truth, SHOWN * sizeof *ids);
  for (int k = SHOWN; k < TIME; k++) {  // places from k on are zeros, which no earlier place sees
    if (tn_run(m, "likeliest", TN_IN(tn_i64(ids, 1, TIME)), TN_OUT(tn_i64(letter, 1, TIME)))) return -1;
    ids[k] = letter[k - 1];
    right += ids[k] == truth[k];
  }
  print("truth", truth, 0, TIME);
  print("goes on", ids, SHOWN, TIME);
  return right;
}

int main(int argc, char **argv) {
  long steps = 1500;
  const Argument list[] = {{"--steps", "N", "of training", .whole = &steps}};
  read_arguments(argc, argv, "learns that sequences repeat, and goes on with new ones", list, 1);
  tn_model *m = build();
  if (!m) return 1;
  float loss = 0;
  for (long k = 0; k < steps; k++) {
    int64_t text[TIME + 1], ids[BATCH * TIME], next[BATCH * TIME];
    for (int b = 0; b < BATCH; b++) {
      repeat(text, TIME + 1);
      memcpy(ids + b * TIME, text, sizeof text - sizeof *text);
      memcpy(next + b * TIME, text + 1, sizeof text - sizeof *text);
    }
    if (tn_run(m, "train_step", TN_IN(tn_i64(ids, BATCH, TIME), tn_i64(next, BATCH, TIME)),
               TN_OUT(tn_f32_scalar(&loss))))
      return fprintf(stderr, "gpt: %s\n", tn_error_text(m)), 1;
    if (k % 100 == 99) printf("step %4ld  loss %.3f\n", k + 1, loss);
  }
  int64_t truth[TIME];
  int right = 0;
  for (int k = 0; k < 4; k++) repeat(truth, TIME), right += go_on(m, truth);
  printf("%d of %d letters right\n", right, 4 * (TIME - SHOWN));
  tn_model_free(m);
  return right < 2 * (TIME - SHOWN);  // by chance it would be one in 20
}
