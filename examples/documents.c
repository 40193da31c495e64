// Batches by rows: a GRU learns to write like paragraphs of very different lengths. Each batch has about as many characters
// whatever the lengths; long paragraphs are cut, and bounds of the model come from what the loader found in the data.
// Ctrl-C saves and stops; --resume goes on with the next batch.
// ctest: --epochs 1 --checkpoint documents.safetensors
#include "examples/arguments.h"
#include "examples/paragraphs.h"
#include "frontend/tenure.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 1536, MOST_TIME = 200, MOST_BATCH = 48, WIDTH = 32, HIDDEN = 128 };
static tn_loader *loader;
static void fail(const char *what, const char *why) { fprintf(stderr, "documents: %s: %s\n", what, why), exit(1); }
static void interrupt(int signal_number) { (void)signal_number, tn_loader_stop(loader); }

static void set_up(void) {
  char why[512];
  tn_sampler by_rows = {.kind = TN_BUCKETS, .max_rows = MOST_ROWS, .max_length = MOST_TIME, .cut = TN_CUT_LONG};
  loader = paragraph_batches(by_rows, MOST_BATCH, why, sizeof why);
  if (!loader) fail("the text", why);
  print_batches(loader, MOST_ROWS);
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("documents");
  tn_dim B = tn_dim_bounded(p, "batch", MOST_BATCH), N = tn_dim_bounded(p, "letters", MOST_ROWS);
  int64_t longest = tn_loader_report(loader).longest;
  tn_module *root = tn_root(p), *embed = tn_embedding(root, "embed", CODES, WIDTH);
  tn_module *rnn = tn_gru(root, "rnn", WIDTH, HIDDEN), *head = tn_linear(root, "head", HIDDEN, CODES);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "letter", TN_I64, TN_SHAPE(N)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_packed s = tn_pack_rows(x, n, .max_length = longest);
  tn_packed y = tn_pack_rows(tn_input(f, "next", TN_I64, TN_SHAPE(N)), n, .max_length = longest);
  tn_packed h = tn_rnn_call(rnn, tn_packed_call(embed, s)).out;  // [rows, HIDDEN]: no padding anywhere
  tn_tensor loss = tn_packed_cross_entropy(tn_packed_call(head, h), y);
  tn_output(f, "loss", loss), tn_backward(loss);
  tn_clip_grad_norm(f, root, 1.0);
  tn_adamw(f, root, .lr = 4e-3);
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  return tn_program_free(p), m;
}

// The model, where the loader stands, and what was shown of the loss
static void keep(tn_model *m, const char *path, double *mean, bool load) {
  tn_loader_state at = tn_loader_get_state(loader);
  tn_extra extra[] = {{"loader", &at, sizeof at}, {"mean", mean, sizeof *mean}};
  if (load ? tn_load_with(m, path, true, extra, 2) : tn_save_with(m, path, true, extra, 2))
    fail(path, tn_error_text(m));
  if (load && tn_loader_set_state(loader, at)) fail(path, tn_loader_error(loader));
}

int main(int argc, char **argv) {
  const char *checkpoint = "documents.safetensors", *texts[16] = {"docs/design.md", "docs/seeing.md"};
  long epochs = 10;
  int n_texts = 0;
  bool resumes = false;
  const Argument list[] = {{"--epochs", "N", "passes over the text", .whole = &epochs},
                           {"--checkpoint", "FILE", "where it saves", .text = &checkpoint},
                           {"--resume", NULL, "goes on from the checkpoint", .flag = &resumes},
                           {NULL, "TEXT..", "what it reads", .text = texts, .n_texts = &n_texts, .most = 16}};
  read_arguments(argc, argv, "learns from paragraphs of different lengths", list, sizeof list / sizeof *list);
  for (int k = 0; k < (n_texts ? n_texts : 2); k++)
    if (!read_paragraphs(texts[k])) fail(texts[k], strerror(errno));
  set_up();
  tn_model *m = build();
  double mean = 8;
  float loss = 0;
  if (resumes) keep(m, checkpoint, &mean, true);
  signal(SIGINT, interrupt);
  for (long e = (long)tn_loader_get_state(loader).epoch; e < epochs && !tn_loader_is_stopped(loader); e++) {
    tn_progress *bar = tn_progress_begin(stdout, "epoch", tn_loader_count(loader));  // another number in each
    tn_progress_resume(bar, (size_t)tn_loader_get_state(loader).position);
    for (tn_batch b;;) {
      if (tn_loader_next(loader, &b)) fail("reading", tn_loader_error(loader));
      if (!b.number) break;  // the end of the epoch, or Ctrl-C
      if (tn_run_batch(m, "train_step", b, TN_OUT(tn_f32_scalar(&loss)))) fail("training", tn_error_text(m));
      mean += 0.05 * ((double)loss / log(2) - mean);
      tn_progress_step(bar, (size_t)tn_loader_get_state(loader).position, "%.3f bits a letter", mean);
    }
    tn_progress_end(bar);
  }
  keep(m, checkpoint, &mean, false);
  tn_loader_state at = tn_loader_get_state(loader);
  if (tn_loader_is_stopped(loader))
    printf("stopped after %llu of %zu batches of epoch %llu; --resume goes on\n", (unsigned long long)at.position,
           tn_loader_count(loader), (unsigned long long)at.epoch);
  return tn_model_free(m), tn_loader_free(loader), fflush(stdout) || ferror(stdout);
}
