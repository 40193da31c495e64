// Dates as people write them in, as machines want them out: "may 3, 1998" -> "1998-05-03", letter by letter. A GRU reads
// packed strings from both ends; another writes, looks back by attention, and goes on with what it wrote last.
// ctest: --steps 30
#include "examples/arguments.h"
#include "examples/dates.h"
#include "frontend/tenure.h"
#include <stdlib.h>

enum { BATCH = 64, TIME = MOST_LETTERS, OUT = 10, WIDTH = 24, HIDDEN = 64, TEST = 256 };
enum { START = N_LETTERS, LETTERS };  // START: before the first letter

typedef struct {
  int64_t x[BATCH][TIME], length[BATCH], before[BATCH][OUT], y[BATCH][OUT];  // what comes before each letter of y
  char text[BATCH][32], wanted[BATCH][32];
} Pairs;

static void make_pairs(Pairs *p, uint64_t *s) {
  memset(p, 0, sizeof *p);
  for (int k = 0; k < BATCH; k++) {
    write_date(s, p->text[k], p->wanted[k], "%04u-%02u-%02u");
    p->length[k] = (int64_t)strlen(p->text[k]);
    for (int t = 0; t < p->length[k]; t++) p->x[k][t] = letter_code(p->text[k][t]);
    for (int t = 0; t < OUT; t++)
      p->y[k][t] = letter_code(p->wanted[k][t]), p->before[k][t] = t ? p->y[k][t - 1] : START;
  }
}

// ---- the model: what was read is [B, T, 2 HIDDEN], and a state to begin with
typedef struct {
  tn_tensor memory, state;
} Read;
static Read read_text(tn_module *net, tn_tensor x, tn_tensor lengths) {
  tn_packed s = tn_packed_call(tn_child(net, "letters"), tn_pack_padded(x, lengths));
  tn_rnn_output r = tn_rnn_call(tn_child(net, "reader"), s);
  tn_tensor first = tn_tanh(tn_call(tn_child(net, "bridge"), tn_last_hidden(r)));  // [B, HIDDEN]
  return (Read){tn_pad_packed(r.out, 0, true), tn_reshape(first, TN_SHAPE(1, tn_dim_of(x, 0), HIDDEN))};
}

// before [B, L] -> logits [B, L, LETTERS]; *state goes on
static tn_tensor write_text(tn_module *net, tn_tensor before, tn_tensor memory, tn_tensor lengths, tn_tensor *state) {
  tn_tensor e = tn_call(tn_child(net, "letters"), before);
  tn_rnn_output r = tn_rnn_call_dense(tn_child(net, "writer"), e, .h0 = *state);
  tn_tensor q = tn_call(tn_child(net, "query"), r.dense);
  tn_tensor seen = tn_scaled_dot_product_attention(q, memory, memory, .lengths = lengths);
  *state = r.hidden;
  return tn_call(tn_child(net, "head"), tn_concat(-1, TN_TENSORS(r.dense, seen)));
}

static void build_training(tn_program *p, tn_dim B, tn_dim T) {
  tn_function *f = tn_function_begin(p, "train_step");
  tn_module *net = tn_root(p);
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(B, T)), lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_tensor before = tn_input(f, "before", TN_I64, TN_SHAPE(B, OUT)), y = tn_input(f, "y", TN_I64, TN_SHAPE(B, OUT));
  Read r = read_text(net, x, lengths);
  tn_tensor loss = tn_cross_entropy(write_text(net, before, r.memory, lengths, &r.state), y);
  tn_backward(loss), tn_clip_grad_norm(f, net, 1.0);
  tn_adamw(f, net, .lr = 5e-3);
  tn_output(f, "loss", loss);
  tn_function_end(f);
}

static void build_decoding(tn_program *p, tn_dim B, tn_dim T) {
  tn_function *f = tn_function_begin(p, "read");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(B, T)), lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  Read r = read_text(tn_root(p), x, lengths);
  tn_output(f, "memory", r.memory), tn_output(f, "state", r.state);
  tn_function_end(f);
  f = tn_function_begin(p, "write");  // one letter
  tn_tensor memory = tn_input(f, "memory", TN_F32, TN_SHAPE(B, T, 2 * HIDDEN));
  tn_tensor n = tn_input(f, "n", TN_I64, TN_SHAPE(B)), state = tn_input(f, "state", TN_F32, TN_SHAPE(1, B, HIDDEN));
  tn_tensor last = tn_input(f, "last", TN_I64, TN_SHAPE(B, 1));
  tn_output(f, "next", tn_argmax_axis(write_text(tn_root(p), last, memory, n, &state), -1, false));
  tn_output(f, "state", state);
  tn_function_end(f);
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("seq2seq");
  tn_module *net = tn_root(p);
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_embedding(net, "letters", LETTERS, WIDTH);
  tn_gru(net, "reader", WIDTH, HIDDEN, .bidirectional = true);
  tn_gru(net, "writer", WIDTH, HIDDEN, .batch_first = true);
  tn_linear(net, "bridge", 2 * HIDDEN, HIDDEN), tn_linear(net, "query", HIDDEN, 2 * HIDDEN);
  tn_linear(net, "head", 3 * HIDDEN, LETTERS);
  build_training(p, B, T), build_decoding(p, B, T);
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  return tn_program_free(p), m;
}

static void run(tn_model *m, const char *f, const tn_array *in, size_t n_in, const tn_array *out, size_t n_out) {
  if (tn_run(m, f, in, n_in, out, n_out)) fprintf(stderr, "seq2seq: %s\n", tn_error_text(m)), exit(1);
}

// Each letter is chosen by what was written so far; gives the number of dates that are right as a whole.
static int decode(tn_model *m, const Pairs *p, bool show) {
  static float memory[BATCH][TIME][2 * HIDDEN], state[2][BATCH][HIDDEN];
  char out[BATCH][OUT + 1] = {{0}};
  int64_t last[BATCH], next[BATCH];
  int right = 0;
  tn_array seen = tn_f32(memory, BATCH, TIME, 2 * HIDDEN), lengths = tn_i64(p->length, BATCH);
  run(m, "read", TN_IN(tn_i64(p->x, BATCH, TIME), lengths), TN_OUT(seen, tn_f32(state[0], 1, BATCH, HIDDEN)));
  for (int k = 0; k < BATCH; k++) last[k] = START;
  for (int t = 0; t < OUT; t++) {
    tn_array from = tn_f32(state[t % 2], 1, BATCH, HIDDEN), to = tn_f32(state[!(t % 2)], 1, BATCH, HIDDEN);
    run(m, "write", TN_IN(seen, lengths, from, tn_i64(last, BATCH, 1)), TN_OUT(tn_i64(next, BATCH, 1), to));
    for (int k = 0; k < BATCH; k++) last[k] = next[k], out[k][t] = next[k] < START ? letters[next[k]] : '?';
  }
  for (int k = 0; k < BATCH; k++) right += !strcmp(out[k], p->wanted[k]);
  for (int k = 0; k < 4 && show; k++) printf("%-20s %s\n", p->text[k], out[k]);
  return right;
}

int main(int argc, char **argv) {
  static Pairs p;
  uint64_t random = 1, unseen = 12345;
  long steps = 250, right = 0;
  const Argument list[] = {{"--steps", "N", "of training", .whole = &steps}};
  read_arguments(argc, argv, "writes dates as machines want them", list, 1);
  tn_model *m = build();
  tn_progress *bar = tn_progress_begin(stdout, "train", (size_t)steps);
  for (long k = 0; k < steps; k++) {
    float loss = 0;
    make_pairs(&p, &random);
    tn_array before = tn_i64(p.before, BATCH, OUT), y = tn_i64(p.y, BATCH, OUT);
    run(m, "train_step", TN_IN(tn_i64(p.x, BATCH, TIME), tn_i64(p.length, BATCH), before, y),
        TN_OUT(tn_f32_scalar(&loss)));
    tn_progress_step(bar, (size_t)k + 1, "loss %.4f", (double)loss);
  }
  tn_progress_end(bar);
  for (int k = 0; k < TEST / BATCH; k++) make_pairs(&p, &unseen), right += decode(m, &p, !k);
  printf("seq2seq: %.4f of %d dates are right\n", (double)right / TEST, TEST);
  return tn_model_free(m), fflush(stdout) || ferror(stdout);
}
