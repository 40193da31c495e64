// A small GPT learns from paragraphs of very different lengths: batches of packed paragraphs with as many letters each, and
// attention within each paragraph, whose work is the sum of the squared lengths. Nothing is padded, and no letter sees
// another paragraph. At last it goes on with prompts of different lengths side by side.
// ctest: --epochs 1 --letters 20
#include "examples/arguments.h"
#include "examples/paragraphs.h"
#include "frontend/tenure.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 1536, TIME = 200, MOST_BATCH = 64, WIDE = 96, HEADS = 4, LAYERS = 2, N_PROMPTS = 4 };
static const char *const prompts[N_PROMPTS] = {"A ", "The loader ", "What is computed in a run", "Packed sequences"};
static tn_loader *loader;
static void fail(const char *what, const char *why) { fprintf(stderr, "packed_gpt: %s: %s\n", what, why), exit(1); }

static void set_up(void) {
  char why[512];
  tn_sampler fill = {.kind = TN_FIRST_FIT, .max_rows = MOST_ROWS, .max_length = TIME};  // long paragraphs are cut
  loader = paragraph_batches(fill, MOST_BATCH, why, sizeof why);
  if (!loader) fail("the text", why);
  print_batches(loader, MOST_ROWS);
}

// Letters of the layout of s -> logits [rows, CODES]
static tn_packed logits_of(tn_module *net, tn_packed s) {
  s = tn_packed_call(tn_child(net, "places"), tn_packed_call(tn_child(net, "letters"), s));
  tn_tensor h = tn_encoder_call(tn_child(net, "layers"), s.data, .causal = true);
  return tn_packed_call(tn_child(net, "head"), tn_packed_with_data(s, h));
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("packed_gpt");
  tn_module *net = tn_root(p);
  tn_dim B = tn_dim_bounded(p, "batch", MOST_BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_embedding(net, "letters", CODES, WIDE), tn_learned_positions(net, "places", TIME, WIDE);
  tn_transformer_encoder(net, "layers", WIDE, HEADS, LAYERS, .feedforward = 4 * WIDE, .activation = "gelu",
                         .norm_first = true, .final_norm = true);
  tn_linear(net, "head", WIDE, CODES);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "letter", TN_I64, TN_SHAPE(B, T)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_packed s = tn_pack_padded(x, n), y = tn_pack_like(tn_input(f, "next", TN_I64, TN_SHAPE(B, T)), s, true);
  tn_tensor loss = tn_packed_cross_entropy(logits_of(net, s), y);
  tn_output(f, "loss", loss), tn_backward(loss);
  tn_clip_grad_norm(f, net, 1.0);
  tn_adamw(f, net, .lr = 2e-3);
  tn_function_end(f);
  f = tn_function_begin(p, "likely");  // what may follow each text
  x = tn_input(f, "letter", TN_I64, TN_SHAPE(N_PROMPTS, TIME)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(N_PROMPTS));
  tn_output(f, "p", tn_softmax(tn_packed_last(logits_of(net, tn_pack_padded(x, n))), -1));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  return tn_program_free(p), m;
}

static void train(tn_model *m, long epochs) {
  double mean = 8;
  float loss = 0;
  for (long e = 0; e < epochs; e++) {
    tn_progress *bar = tn_progress_begin(stdout, "epoch", tn_loader_count(loader));
    for (tn_batch b;;) {
      if (tn_loader_next(loader, &b)) fail("reading", tn_loader_error(loader));
      if (!b.number) break;  // the end of the epoch
      if (tn_run_batch(m, "train_step", b, TN_OUT(tn_f32_scalar(&loss)))) fail("training", tn_error_text(m));
      mean += 0.05 * ((double)loss / log(2) - mean);
      tn_progress_step(bar, (size_t)tn_loader_get_state(loader).position, "%.3f bits a letter", mean);
    }
    tn_progress_end(bar);
  }
}

// One of CODES by its probability
static int64_t draw(uint64_t *s, const float *p) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  double at = (double)(*s >> 40) / (1 << 24);
  int64_t k = 0;
  while (k < CODES - 1 && (at -= (double)p[k]) > 0) k++;
  return k;
}

// Each text goes on until its end, with random numbers of its own.
static void write_texts(tn_model *m, long most) {
  static int64_t text[N_PROMPTS][TIME];
  static float p[N_PROMPTS][CODES];
  int64_t n[N_PROMPTS];
  uint64_t random[N_PROMPTS];
  bool ended[N_PROMPTS] = {false};
  for (int k = 0; k < N_PROMPTS; k++) {
    n[k] = (int64_t)strlen(prompts[k]), random[k] = (uint64_t)k + 1;
    for (int64_t t = 0; t < n[k]; t++) text[k][t] = (unsigned char)prompts[k][t];
  }
  for (long i = 0, n_running = N_PROMPTS; i < most && n_running; i++) {
    tn_array in[] = {tn_i64(text, N_PROMPTS, TIME), tn_i64(n, N_PROMPTS)};
    if (tn_run(m, "likely", in, 2, TN_OUT(tn_f32(p, N_PROMPTS, CODES)))) fail("writing", tn_error_text(m));
    n_running = 0;
    for (int k = 0; k < N_PROMPTS; k++) {
      int64_t c = draw(&random[k], p[k]);
      ended[k] |= !c || n[k] == TIME;
      if (!ended[k]) text[k][n[k]++] = c, n_running++;
    }
  }
  for (int k = 0; k < N_PROMPTS; k++, puts("\n"))
    for (int64_t t = 0; t < n[k]; t++) putchar((int)text[k][t]);
}

int main(int argc, char **argv) {
  const char *texts[16] = {"docs/design.md", "docs/seeing.md"};
  long epochs = 10, most = 120;
  int n_texts = 0;
  const Argument list[] = {{"--epochs", "N", "passes over the text", .whole = &epochs},
                           {"--letters", "N", "to write behind each prompt", .whole = &most},
                           {NULL, "TEXT..", "what it reads", .text = texts, .n_texts = &n_texts, .most = 16}};
  read_arguments(argc, argv, "a GPT that learns from paragraphs", list, sizeof list / sizeof *list);
  for (int k = 0; k < (n_texts ? n_texts : 2); k++)
    if (!read_paragraphs(texts[k])) fail(texts[k], strerror(errno));
  set_up();
  tn_model *m = build();
  train(m, epochs), write_texts(m, most);
  return tn_model_free(m), tn_loader_free(loader), fflush(stdout) || ferror(stdout);
}
