// A small GPT learns from paragraphs of very different lengths: batches of packed paragraphs with as many letters each, and
// attention within each paragraph, whose work is the sum of the squared lengths. Nothing is padded, and no letter sees
// another paragraph. At last it goes on with prompts of different lengths side by side: keys and values of each have a slot, and
// what is written of a prompt does not depend on the others.
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

// Letters and where they stand, [rows], of packed texts or of a run over slots -> [rows, WIDE]
static tn_tensor stream(tn_module *net, tn_tensor letters, tn_tensor steps, const tn_slot_run *run) {
  tn_tensor places = tn_param_value(letters.fn, tn_child(net, "places"), "weight");
  tn_tensor h = tn_add(tn_call(tn_child(net, "letters"), letters), tn_index_select(places, 0, steps));
  return tn_encoder_call(tn_child(net, "layers"), h, .causal = true, .slots = run);
}

// What comes behind the last row h of each text, [B]
static void add_letters(tn_module *net, tn_tensor h, tn_tensor seeds, const tn_slot_run *run) {
  static const int64_t stop[] = {0};
  tn_tensor logits = tn_call(tn_child(net, "head"), h);
  tn_sampled drawn =
      tn_sample_tokens(logits, seeds, run->held, .temperature = 0.8, .top_p = 0.95, .stop = stop, .n_stop = 1);
  tn_output(h.fn, "letter", drawn.tokens), tn_output(h.fn, "stopped", drawn.stopped);
  tn_function_end(h.fn);
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("packed_gpt");
  tn_module *net = tn_root(p);
  tn_dim B = tn_dim_bounded(p, "batch", MOST_BATCH), N = tn_dim_bounded(p, "letters", MOST_ROWS);
  tn_embedding(net, "letters", CODES, WIDE), tn_embedding(net, "places", TIME, WIDE);
  tn_transformer_encoder(net, "layers", WIDE, HEADS, LAYERS, .feedforward = 4 * WIDE, .activation = "gelu",
                         .norm_first = true, .final_norm = true);
  tn_linear(net, "head", WIDE, CODES);
  tn_module *slots = tn_slots(net, "slots", N_PROMPTS, TIME);
  tn_slot_caches(tn_child(net, "layers"), slots);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "letter", TN_I64, TN_SHAPE(N)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_packed s = tn_pack_rows(x, n, .max_length = TIME);
  tn_packed y = tn_pack_rows(tn_input(f, "next", TN_I64, TN_SHAPE(N)), n, .max_length = TIME);
  tn_tensor h = stream(net, s.data, tn_packed_steps(s).data, NULL);
  tn_tensor loss = tn_packed_cross_entropy(tn_packed_with_data(s, tn_call(tn_child(net, "head"), h)), y);
  tn_output(f, "loss", loss), tn_backward(loss);
  tn_clip_grad_norm(f, net, 1.0);
  tn_adamw(f, net, .lr = 2e-3);
  tn_function_end(f);
  f = tn_function_begin(p, "read");  // prompts
  B = tn_dim_bounded(p, "prompts", N_PROMPTS);
  x = tn_input(f, "letter", TN_I64, TN_SHAPE(B, TIME)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_tensor slot = tn_input(f, "slot", TN_I64, TN_SHAPE(B)), seeds = tn_input(f, "seed", TN_I64, TN_SHAPE(B));
  tn_slot_run run = tn_slots_prefill(slots, slot, tn_pack_padded(x, n));
  h = tn_packed_last(tn_packed_with_data(run.rows, stream(net, run.ids, run.steps, &run)));
  add_letters(net, h, seeds, &run);
  f = tn_function_begin(p, "write");  // one letter more
  slot = tn_input(f, "slot", TN_I64, TN_SHAPE(B)), seeds = tn_input(f, "seed", TN_I64, TN_SHAPE(B));
  run = tn_slots_step(slots, slot, tn_input(f, "letter", TN_I64, TN_SHAPE(B)));
  add_letters(net, stream(net, run.ids, run.steps, &run), seeds, &run);
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

// Each text goes on until its end, by random numbers of its own; a run has those that go on.
static void write_texts(tn_model *m, long most) {
  static int64_t text[N_PROMPTS][TIME];
  int64_t n[N_PROMPTS], slot[N_PROMPTS], last[N_PROMPTS], written[N_PROMPTS], running = N_PROMPTS;
  bool stopped[N_PROMPTS];
  for (int k = 0; k < N_PROMPTS; k++) {
    n[k] = (int64_t)strlen(prompts[k]), slot[k] = k;
    for (int64_t t = 0; t < n[k]; t++) text[k][t] = (unsigned char)prompts[k][t];
  }
  const tn_array read[] = {tn_i64(text, running, TIME), tn_i64(n, running), tn_i64(slot, running),
                           tn_i64(slot, running)};
  tn_status status = tn_run(m, "read", read, 4, TN_OUT(tn_i64(written, running), tn_bool(stopped, running)));
  for (long i = 1; i <= most && running && !status; i++) {
    int64_t left = 0;
    for (int64_t k = 0, s; k < running; k++) {
      if (stopped[k] || n[s = slot[k]] == TIME) continue;
      text[s][n[s]++] = last[left] = written[k], slot[left++] = s;
    }
    running = left;
    if (i < most)
      status = tn_run(m, "write", TN_IN(tn_i64(slot, running), tn_i64(slot, running), tn_i64(last, running)),
                      TN_OUT(tn_i64(written, running), tn_bool(stopped, running)));
  }
  if (status) fail("writing", tn_error_text(m));
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
