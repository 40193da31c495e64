// Dates as people write them in, numbers out: "may 3, 1998" -> "1998-5-3", letter by letter. A transformer of packed sequences:
// the encoder reads strings of different lengths, the decoder writes others, and sees each its own source. Nothing is computed
// for padding, and no letter sees another string's.
// ctest: --steps 30
#include "examples/arguments.h"
#include "examples/dates.h"
#include "frontend/tenure.h"
#include <stdlib.h>

enum { BATCH = 64, TIME = MOST_LETTERS, OUT = 11, WIDE = 64, HEADS = 4, LAYERS = 2, TEST = 512 };
enum { MARK = N_LETTERS, LETTERS };  // MARK: before the first letter written, and behind the last

typedef struct {
  int64_t x[BATCH][TIME], n_x[BATCH];                     // what is read
  int64_t before[BATCH][OUT], y[BATCH][OUT], n_y[BATCH];  // what is written, and what comes before each letter of it
  char text[BATCH][32], wanted[BATCH][32];
} Pairs;

static void make_pairs(Pairs *p, uint64_t *s) {
  memset(p, 0, sizeof *p);
  for (int k = 0; k < BATCH; k++) {
    write_date(s, p->text[k], p->wanted[k], "%u-%u-%u");
    int64_t n = p->n_x[k] = (int64_t)strlen(p->text[k]), m = p->n_y[k] = (int64_t)strlen(p->wanted[k]) + 1;
    for (int64_t t = 0; t < n; t++) p->x[k][t] = letter_code(p->text[k][t]);
    for (int64_t t = 0; t < m; t++) p->y[k][t] = t < m - 1 ? letter_code(p->wanted[k][t]) : MARK;
    for (int64_t t = 0; t < m; t++) p->before[k][t] = t ? p->y[k][t - 1] : MARK;
  }
}

// ---- the model
static tn_packed embed(tn_module *net, tn_packed ids) {
  return tn_packed_call(tn_child(net, "places"), tn_packed_call(tn_child(net, "letters"), ids));
}

static tn_packed read_text(tn_module *net, tn_packed x) {
  return tn_packed_call(tn_child(net, "encoder"), embed(net, x));
}

// before: rows of one layout, memory: rows of another, of the same batch -> logits in the layout of `before`
static tn_packed write_text(tn_module *net, tn_packed before, tn_packed memory) {
  tn_packed e = embed(net, before);
  tn_tensor y = tn_decoder_call(tn_child(net, "decoder"), e.data, memory.data, .self = {.causal = true});
  return tn_packed_call(tn_child(net, "head"), tn_packed_with_data(before, y));
}

static tn_packed input(tn_function *f, const char *name, const char *length, tn_dim B, int64_t time) {
  tn_tensor x = tn_input(f, name, TN_I64, TN_SHAPE(B, time));
  return tn_pack_padded(x, tn_input(f, length, TN_I64, TN_SHAPE(B)));
}

static void build_training(tn_program *p, tn_dim B) {
  tn_function *f = tn_function_begin(p, "train_step");
  tn_module *net = tn_root(p);
  tn_packed x = input(f, "x", "n_x", B, TIME), before = input(f, "before", "n_y", B, OUT);
  tn_packed y = tn_pack_like(tn_input(f, "y", TN_I64, TN_SHAPE(B, OUT)), before, true);
  tn_tensor loss = tn_packed_cross_entropy(write_text(net, before, read_text(net, x)), y);
  tn_output(f, "loss", loss);
  tn_backward(loss), tn_clip_grad_norm(f, net, 1.0);
  tn_adamw(f, net, .lr = 2e-3);
  tn_function_end(f);
}

// What was read goes from one function to the other in padded form, as all arrays of the caller.
static void build_decoding(tn_program *p, tn_dim B) {
  tn_function *f = tn_function_begin(p, "read");
  tn_output(f, "memory", tn_pad_packed(read_text(tn_root(p), input(f, "x", "n_x", B, TIME)), 0, true));
  tn_function_end(f);
  f = tn_function_begin(p, "write");  // the letter behind each of those written so far
  tn_tensor memory = tn_input(f, "memory", TN_F32, TN_SHAPE(B, TIME, WIDE));
  tn_tensor n_x = tn_input(f, "n_x", TN_I64, TN_SHAPE(B));
  tn_packed logits = write_text(tn_root(p), input(f, "before", "n", B, OUT), tn_pack_padded(memory, n_x));
  tn_output(f, "next", tn_argmax_axis(tn_packed_last(logits), -1, false));
  tn_function_end(f);
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("translate");
  tn_module *net = tn_root(p);
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_embedding(net, "letters", LETTERS, WIDE);
  tn_learned_positions(net, "places", TIME, WIDE);
  tn_transformer_encoder(net, "encoder", WIDE, HEADS, LAYERS, .feedforward = 2 * WIDE, .norm_first = true,
                         .final_norm = true);
  tn_transformer_decoder(net, "decoder", WIDE, HEADS, LAYERS, .feedforward = 2 * WIDE, .norm_first = true,
                         .final_norm = true);
  tn_linear(net, "head", WIDE, LETTERS);
  build_training(p, B), build_decoding(p, B);
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  return tn_program_free(p), m;
}

static void run(tn_model *m, const char *f, const tn_array *in, size_t n_in, tn_array out) {
  if (tn_run(m, f, in, n_in, &out, 1)) fprintf(stderr, "translate: %s\n", tn_error_text(m)), exit(1);
}

// All strings are written side by side until each has its end; gives the number of dates that are right as a whole.
static int decode(tn_model *m, const Pairs *p, bool show) {
  static float memory[BATCH][TIME][WIDE];
  int64_t before[BATCH][OUT] = {{0}}, n[BATCH], next[BATCH];
  char out[BATCH][OUT + 1] = {{0}};
  int right = 0, n_running = BATCH;
  tn_array n_x = tn_i64(p->n_x, BATCH), seen = tn_f32(memory, BATCH, TIME, WIDE);
  run(m, "read", TN_IN(tn_i64(p->x, BATCH, TIME), n_x), seen);
  for (int k = 0; k < BATCH; k++) before[k][0] = MARK, n[k] = 1;
  while (n_running) {
    run(m, "write", TN_IN(seen, n_x, tn_i64(before, BATCH, OUT), tn_i64(n, BATCH)), tn_i64(next, BATCH));
    n_running = 0;
    for (int k = 0; k < BATCH; k++)
      if (next[k] != MARK && n[k] < OUT) out[k][n[k] - 1] = letters[next[k]], before[k][n[k]++] = next[k], n_running++;
  }
  for (int k = 0; k < BATCH; k++) right += !strcmp(out[k], p->wanted[k]);
  for (int k = 0; k < 4 && show; k++) printf("%-20s %s\n", p->text[k], out[k]);
  return right;
}

int main(int argc, char **argv) {
  static Pairs p;
  uint64_t random = 1, unseen = 12345;
  long steps = 300, right = 0;
  const Argument list[] = {{"--steps", "N", "of training", .whole = &steps}};
  read_arguments(argc, argv, "writes dates as numbers", list, 1);
  tn_model *m = build();
  tn_progress *bar = tn_progress_begin(stdout, "train", (size_t)steps);
  for (long k = 0; k < steps; k++) {
    float loss = 0;
    make_pairs(&p, &random);
    run(m, "train_step",
        TN_IN(TN_NAMED("x", tn_i64(p.x, BATCH, TIME)), TN_NAMED("n_x", tn_i64(p.n_x, BATCH)),
              TN_NAMED("before", tn_i64(p.before, BATCH, OUT)), TN_NAMED("n_y", tn_i64(p.n_y, BATCH)),
              TN_NAMED("y", tn_i64(p.y, BATCH, OUT))),
        tn_f32_scalar(&loss));
    tn_progress_step(bar, (size_t)k + 1, "loss %.4f", (double)loss);
  }
  tn_progress_end(bar);
  for (int k = 0; k < TEST / BATCH; k++) make_pairs(&p, &unseen), right += decode(m, &p, !k);
  printf("translate: %.4f of %d dates match exactly\n", (double)right / TEST, TEST);
  return tn_model_free(m), fflush(stdout) || ferror(stdout);
}
