// GPT-2 of any size: initialises, or loads a state_dict with the usual names (model.safetensors in DIR), trains, resumes,
// and writes with a cache of keys and values. Tokens are those of vocab.json and merges.txt in DIR; without them, bytes.
// Ctrl-C saves and stops; --resume goes on with the next batch, as if nothing had happened. --epochs 0 writes only: it reads no
// text, and saves nothing.
// ctest: --epochs 1 --tokens 40 --checkpoint gpt2.safetensors docs/seeing.md
#include "examples/gpt2/bpe.h"
#include "examples/gpt2/options.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 4 };
static int64_t steps = 64;  // steps of a batch, as far as there are places
static Options o = {.size = {.places = 128, .width = 64, .layers = 2, .heads = 4, .dropout = 0.1},
                    .sampling = {.temperature = 0.8, .top_k = 40, .top_p = 0.95, .seed = 1},
                    .checkpoint = "gpt2.safetensors",
                    .prompt = "The ",
                    .epochs = 3,
                    .n_tokens = 100,
                    .lr = 1e-3};
static int64_t *text;  // tokens
static size_t n_text;
static Bpe *bpe;
static tn_loader *loader;

static void fail(const char *what, const char *why) { fprintf(stderr, "gpt2: %s: %s\n", what, why), exit(1); }
static void interrupt(int signal_number) { (void)signal_number, tn_loader_stop(loader); }
static const char *in_folder(char *to, size_t n, const char *name) {
  return snprintf(to, n, "%s/%s", o.folder, name), to;
}

static void read_text(const char *path) {
  static char bytes[1 << 26];
  FILE *in = fopen(path, "rb");
  size_t n = in ? fread(bytes, 1, sizeof bytes, in) : 0;
  if (!in || ferror(in) || fclose(in)) fail(path, strerror(errno));
  text = realloc(text, (n_text + n + 1) * sizeof *text);
  n_text += bpe_encode(bpe, bytes, n, text + n_text);
}

// Item k: `steps` tokens and the next one
static bool get_item(void *ctx, size_t k, tn_item *to) {
  memcpy(to->data[0], text + (int64_t)k * steps, (size_t)(steps + 1) * sizeof *text);
  return (void)ctx, true;
}

static void set_up(void) {
  const tn_field field = {.name = "text", .dtype = TN_I64, .rank = 1, .dims = {steps + 1}};
  char why[512];
  snprintf(why, sizeof why, "it is too short: a batch takes %lld tokens", (long long)(BATCH * steps + 1));
  const tn_loader_options options = {
      .batch_size = BATCH, .workers = 1, .drop_last = true, .sampler = {.kind = TN_SHUFFLED}};
  size_t count = n_text ? (n_text - 1) / (size_t)steps : 0;
  tn_dataset *d = tn_dataset_new(&(tn_dataset_type){.get = get_item}, NULL, &field, 1, count, why, sizeof why);
  loader = tn_loader_new(d, &options, why, sizeof why), tn_dataset_free(d);  // the loader keeps it
  if (o.epochs && !tn_loader_count(loader)) fail("the text", why);
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("gpt2");
  gpt2_make(p, &o.size);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor ids = tn_input(f, "text", TN_I64, TN_SHAPE(BATCH, steps + 1));
  tn_tensor loss = tn_cross_entropy(gpt2_logits(p, f, &o.size, tn_slice(ids, 1, 0, steps)), tn_slice(ids, 1, 1, steps));
  tn_output(f, "loss", loss), tn_backward(loss);
  tn_clip_grad_norm(f, tn_root(p), 1.0);
  tn_adamw(f, tn_root(p), .lr = o.lr, .weight_decay = 0.01);
  tn_function_end(f);
  gpt2_add_generation(p, &o.size);
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  return tn_program_free(p), m;
}

static void keep(tn_model *m, bool load) {
  tn_loader_state at = tn_loader_get_state(loader);
  tn_extra extra = {"loader", &at, sizeof at};
  if (load ? tn_load_with(m, o.checkpoint, true, &extra, 1) : tn_save_with(m, o.checkpoint, true, &extra, 1))
    fail(o.checkpoint, tn_error_text(m));
  if (load && o.epochs && tn_loader_set_state(loader, at)) fail(o.checkpoint, tn_loader_error(loader));
}

static void train(tn_model *m) {
  tn_loader_state at = tn_loader_get_state(loader);
  size_t count = tn_loader_count(loader), total = (size_t)o.epochs * count, done = at.epoch * count + at.position;
  float loss = 0;
  tn_progress *bar = tn_progress_begin(stdout, "train", total);
  tn_progress_resume(bar, done);
  for (tn_batch b; done < total && !tn_loader_is_stopped(loader);) {
    if (tn_loader_next(loader, &b)) fail("reading", tn_loader_error(loader));
    if (b.number && tn_run_batch(m, "train_step", b, TN_OUT(tn_f32_scalar(&loss)))) fail("training", tn_error_text(m));
    if (b.number) tn_progress_step(bar, ++done, "loss %.3f", loss);
  }
  tn_progress_end(bar), keep(m, false);
  if (done < total) printf("stopped after %zu of %zu batches; --resume goes on\n", done, total);
}

static void put(int64_t id) {
  size_t n;
  const char *bytes = bpe_bytes(bpe, id, &n);
  fwrite(bytes, 1, n, stdout), fflush(stdout);
}

// Reads the o.prompt at once, then one token for each that it writes, as far as the places go.
static void write_text(tn_model *m) {
  int64_t *ids = malloc((strlen(o.prompt) + 1) * sizeof *ids),
          n = (int64_t)bpe_encode(bpe, o.prompt, strlen(o.prompt), ids);
  float *logits = malloc((size_t)o.size.words * sizeof *logits);
  char why[80];
  snprintf(why, sizeof why, "%lld tokens, where 1 to %lld can be read", (long long)n, (long long)o.size.places);
  if (n < 1 || n > o.size.places) fail("the prompt", why);
  tn_status status = tn_run(m, "reset", NULL, 0, NULL, 0);
  if (!status) status = tn_run(m, "prefill", TN_IN(tn_i64(ids, 1, n)), TN_OUT(tn_f32(logits, o.size.words)));
  for (int64_t k = 0; k < n; k++) put(ids[k]);
  for (long k = 0; k < o.n_tokens && !status && n + k < o.size.places && !tn_loader_is_stopped(loader); k++) {
    int64_t id = sample_token(logits, o.size.words, &o.sampling);
    put(id);
    status = tn_run(m, "decode", TN_IN(tn_i64(&id, 1, 1)), TN_OUT(tn_f32(logits, o.size.words)));
  }
  if (status) fail("writing", tn_error_text(m));
  puts(""), free(ids), free(logits);
}

int main(int argc, char **argv) {
  read_options(argc, argv, &o);
  char why[512], path[3][4096] = {0};
  bool has_words = o.folder && !access(in_folder(path[1], 4096, "vocab.json"), R_OK);
  bool has_weights = o.folder && !access(in_folder(path[0], 4096, "model.safetensors"), R_OK);
  if (o.folder && !has_words && !has_weights) fail(o.folder, "neither vocab.json nor model.safetensors can be read");
  bpe =
      bpe_open(has_words ? path[1] : NULL, has_words ? in_folder(path[2], 4096, "merges.txt") : NULL, why, sizeof why);
  if (!bpe) fail("the tokens", why);
  o.size.words = (int64_t)bpe_count(bpe);
  if (has_weights && !gpt2_size_of(path[0], &o.size, why, sizeof why)) fail("the weights", why);
  for (int k = 0; k < o.n_texts && o.epochs; k++) read_text(o.texts[k]);
  if (o.size.places < steps) steps = o.size.places;
  set_up();
  tn_model *m = build();
  tn_load_report report;
  if (has_weights && tn_load_partial(m, path[0], false, &report)) fail("the weights", tn_error_text(m));
  if (o.resumes) keep(m, true);
  signal(SIGINT, interrupt);
  if (o.epochs) train(m);
  if (!tn_loader_is_stopped(loader)) write_text(m);
  return tn_model_free(m), tn_loader_free(loader), bpe_free(bpe), free(text), fflush(stdout) || ferror(stdout);
}
