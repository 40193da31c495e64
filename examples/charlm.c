// A character language model: a GRU reads text in LANES places at once and goes on from batch to batch; then it writes.
// Ctrl-C saves and stops; --resume goes on with the next batch, as if nothing had happened. --tir writes the program as text.
// ctest: --epochs 2 --sample 80 --checkpoint charlm.safetensors
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, STEPS = 48, WIDTH = 32, HIDDEN = 160, LONGEST = 1 << 26 };
static unsigned char text[LONGEST], code[256], letter[256];  // code[letter[k]] == k
static size_t length, n_letters;
static double mean;  // bits a character, of the last batches
static tn_loader *loader;

static void fail(const char *what, const char *why) { fprintf(stderr, "charlm: %s: %s\n", what, why), exit(1); }
static void interrupt(int signal_number) { (void)signal_number, tn_loader_stop(loader); }

// Letters get numbers in the order in which they first appear.
static void read_text(const char *path) {
  FILE *in = fopen(path, "rb");
  if (!in) fail(path, strerror(errno));
  for (int c; (c = getc(in)) != EOF && length < LONGEST; text[length++] = (unsigned char)c)
    if (!n_letters || letter[code[c]] != c) code[c] = (unsigned char)n_letters, letter[n_letters++] = (unsigned char)c;
  if (ferror(in) || fclose(in)) fail(path, strerror(errno));  // a folder, for one
}

// Item k: STEPS characters and the next one
static bool get_item(void *ctx, size_t k, tn_item *to) {
  for (size_t t = 0; t <= STEPS; t++) ((int64_t *)to->data[0])[t] = code[text[k * STEPS + t]];
  return (void)ctx, true;
}

static tn_model *build(const char *tir) {
  tn_program *p = tn_program_create("charlm");
  tn_dim B = tn_dim_const(LANES), H = tn_dim_const(HIDDEN), one = tn_dim_const(1);
  tn_module *root = tn_root(p), *embed = tn_embedding(root, "embed", (int64_t)n_letters, WIDTH);
  tn_module *rnn = tn_gru(root, "rnn", WIDTH, HIDDEN, .batch_first = true);
  tn_module *head = tn_linear(root, "head", HIDDEN, (int64_t)n_letters);
  tn_buffer(root, "memory", TN_SHAPE(one, B, H), (tn_init){.kind = TN_INIT_ZEROS});  // where the lanes are: saved too
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor text_in = tn_input(f, "text", TN_I64, TN_SHAPE(B, STEPS + 1)), memory = tn_param_value(f, root, "memory");
  tn_tensor x = tn_slice(text_in, 1, 0, STEPS), y = tn_slice(text_in, 1, 1, STEPS);
  tn_rnn_output r = tn_rnn_call_dense(rnn, tn_call(embed, x), .h0 = tn_clone(memory));
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_dropout(r.dense, 0.1)), y);
  tn_output(f, "loss", loss), tn_backward(loss);
  tn_clip_grad_norm(f, root, 1.0);
  tn_adamw(f, root, .lr = 4e-3, .weight_decay = 1e-2);
  tn_copy_(memory, tn_detach(r.hidden));
  tn_function_end(f);
  f = tn_function_begin(p, "next");  // one character and a state -> what may follow, and the state after it
  tn_tensor c = tn_input(f, "c", TN_I64, TN_SHAPE(one)), h = tn_input(f, "h", TN_F32, TN_SHAPE(one, one, H));
  tn_tensor temperature = tn_input(f, "temperature", TN_F32, TN_SCALAR);
  tn_rnn_step_output s = tn_rnn_step(rnn, tn_call(embed, c), .h0 = h);
  tn_output(f, "p", tn_softmax(tn_div(tn_call(head, s.out), temperature), -1));
  tn_output(f, "h", s.hidden);
  tn_function_end(f);
  FILE *to = tir ? fopen(tir, "w") : NULL;
  if (tir && (!to || tn_dump(p, to, TN_DUMP_IR) || fclose(to))) fail(tir, strerror(errno));
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  return tn_program_free(p), m;
}

// The model, where the loader stands, what was shown of the loss, and what the numbers of characters mean
static void keep(tn_model *m, const char *path, bool load) {
  unsigned char alphabet[256];
  tn_loader_state at = tn_loader_get_state(loader);
  memcpy(alphabet, letter, sizeof letter);
  tn_extra extra[] = {
      {"loader", &at, sizeof at}, {"mean", &mean, sizeof mean}, {"alphabet", alphabet, sizeof alphabet}};
  if (load ? tn_load_with(m, path, true, extra, 3) : tn_save_with(m, path, true, extra, 3))
    fail(path, tn_error_text(m));
  if (memcmp(alphabet, letter, sizeof letter)) fail(path, "was trained on a text with other characters");
  if (load && tn_loader_set_state(loader, at)) fail(path, tn_loader_error(loader));
}

static size_t batches_done(void) {
  tn_loader_state at = tn_loader_get_state(loader);
  return (size_t)at.epoch * tn_loader_count(loader) + (size_t)at.position;
}

static void train(tn_model *m, size_t epochs, const char *checkpoint) {
  size_t total = epochs * tn_loader_count(loader), done;
  float loss = 0;
  tn_progress *bar = tn_progress_begin(stdout, "train", total);
  tn_progress_resume(bar, batches_done());
  for (tn_batch b; (done = batches_done()) < total && !tn_loader_is_stopped(loader);) {
    if (tn_loader_next(loader, &b)) fail("reading", tn_loader_error(loader));
    if (!b.number) keep(m, checkpoint, false);  // the end of an epoch
    else if (tn_run_batch(m, "train_step", b, TN_OUT(tn_f32_scalar(&loss)))) fail("training", tn_error_text(m));
    else mean += ((double)loss / log(2) - mean) * fmax(0.05, 1 / (double)(done + 1));
    tn_progress_step(bar, batches_done(), "%.3f bits a character", mean);
  }
  tn_progress_end(bar), keep(m, checkpoint, false);
  if (tn_loader_is_stopped(loader)) printf("stopped after %zu of %zu batches; --resume goes on\n", done, total);
}

static void write_text(tn_model *m, long n, float temperature) {
  float p[256], h[HIDDEN] = {0}, after[HIDDEN];
  int64_t c = 0;
  for (long k = 0; k < n; k++) {
    if (tn_run(m, "next", TN_IN(tn_i64(&c, 1), tn_f32(h, 1, 1, HIDDEN), tn_f32_scalar(&temperature)),
               TN_OUT(tn_f32(p, 1, (int64_t)n_letters), tn_f32(after, 1, 1, HIDDEN))))
      fail("writing", tn_error_text(m));
    memcpy(h, after, sizeof h);
    float left = (float)rand() / ((float)RAND_MAX + 1);
    for (c = 0; c + 1 < (int64_t)n_letters && (left -= p[c]) >= 0;) c++;
    putchar(letter[c]);
  }
  puts("");
}

static void set_up(void) {
  static const tn_field field = {.name = "text", .dtype = TN_I64, .rank = 1, .dims = {STEPS + 1}};
  static const tn_loader_options options = {.batch_size = LANES, .workers = 1, .sampler = {.kind = TN_LANES}};
  char why[512] = "it is too short: a batch takes 769 characters";  // LANES * STEPS + 1
  size_t count = length ? (length - 1) / STEPS : 0;
  tn_dataset *d = tn_dataset_new(&(tn_dataset_type){.get = get_item}, NULL, &field, 1, count, why, sizeof why);
  loader = tn_loader_new(d, &options, why, sizeof why), tn_dataset_free(d);  // the loader keeps it
  if (!tn_loader_count(loader)) fail("the text", why);
}

int main(int argc, char **argv) {
  const char *checkpoint = "charlm.safetensors", *tir = NULL;
  const char *texts[64] = {"docs/design.md", "docs/ir.md", "docs/testing-faults.md"};
  int n_texts = 0;
  long epochs = 20, sample = 400;
  double temperature = 0.7;
  bool resumes = false;
  const Argument list[] = {
      {"--epochs", "N", "passes over the text", .whole = &epochs},
      {"--sample", "N", "characters that it writes", .whole = &sample},
      {"--temperature", "X", "below 1: more likely ones", .number = &temperature, .above = true},
      {"--checkpoint", "FILE", "where it saves", .text = &checkpoint},
      {"--resume", NULL, "goes on from the checkpoint", .flag = &resumes},
      {"--tir", "FILE", "where the program goes as text", .text = &tir},
      {NULL, "TEXT..", "what it reads; none: these docs", .text = texts, .n_texts = &n_texts, .most = 64}};
  read_arguments(argc, argv, "learns to write like a text", list, sizeof list / sizeof *list);
  for (int k = 0; k < (n_texts ? n_texts : 3); k++) read_text(texts[k]);
  set_up();
  tn_model *m = build(tir);
  if (resumes) keep(m, checkpoint, true);
  signal(SIGINT, interrupt), train(m, (size_t)epochs, checkpoint);
  if (!tn_loader_is_stopped(loader)) write_text(m, sample, (float)temperature);
  return tn_model_free(m), tn_loader_free(loader), fflush(stdout) || ferror(stdout);
}
