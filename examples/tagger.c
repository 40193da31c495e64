// Packed sequences in, one label per row out: a bidirectional LSTM tells in strings such as a(b)c(d which brackets have
// a partner, and which letters stand inside a pair. A label depends on what comes before and on what comes behind.
// Ctrl-C saves and stops; --resume goes on with the next batch.
// ctest: --steps 60 --checkpoint tagger.safetensors
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, TIME = 40, SYMBOLS = 8, WIDTH = 16, HIDDEN = 48, TRAIN = 1 << 14, TEST = 512 };
enum { OUTSIDE, INSIDE, PAIRED, SINGLE, N_TAGS };
static const char letters[] = "()abcdef", marks[] = ".-=!";
static tn_loader *loader;  // of the training set
static void fail(const char *what, const char *why) { fprintf(stderr, "tagger: %s: %s\n", what, why), exit(1); }
static void interrupt(int signal_number) { (void)signal_number, tn_loader_stop(loader); }

static int64_t draw(uint64_t *s, uint32_t below) {
  return *s = *s * 6364136223846793005u + 1442695040888963407u, (int64_t)((*s >> 33) % below);
}

// The labels of n symbols, by a stack of open brackets
static void tag(const int64_t *symbol, int64_t n, int64_t *tags) {
  int64_t open[TIME], partner[TIME], depth = 0, end = -1;  // end: of the outermost pair that has begun
  for (int64_t t = 0; t < n; t++) {
    partner[t] = -1;
    if (symbol[t] == 0) open[depth++] = t;
    else if (symbol[t] == 1 && depth) partner[t] = open[--depth], partner[partner[t]] = t;
  }
  for (int64_t t = 0; t < n; t++) {
    if (partner[t] > end) end = partner[t];
    tags[t] = symbol[t] > 1 ? (t < end ? INSIDE : OUTSIDE) : partner[t] >= 0 ? PAIRED : SINGLE;
  }
}

// Item k, made of k alone: [n, 2] of symbols and labels
static bool get_item(void *first, size_t k, tn_item *to) {
  uint64_t s = (k + *(const size_t *)first) * 0x9e3779b97f4a7c15u + 1;
  int64_t symbol[TIME], tags[TIME], *rows = to->data[0], n = 1 + draw(&s, TIME);
  for (int64_t t = 0; t < n; t++) symbol[t] = draw(&s, 3) ? 2 + draw(&s, SYMBOLS - 2) : draw(&s, 2);
  tag(symbol, n, tags);
  for (int64_t t = 0; t < n; t++) rows[2 * t] = symbol[t], rows[2 * t + 1] = tags[t];
  return to->length[0] = n, true;
}

static tn_loader *make_loader(size_t *first, size_t count, tn_sampler_kind order) {
  char why[512];
  const tn_field field = {.name = "x", .dtype = TN_I64, .is_variable = true, .rank = 2, .dims = {TIME, 2}};
  const tn_loader_options o = {.batch_size = BATCH, .workers = 1, .sampler = {.kind = order}};
  tn_dataset *d = tn_dataset_new(&(tn_dataset_type){.get = get_item}, first, &field, 1, count, why, sizeof why);
  tn_loader *l = tn_loader_new(d, &o, why, sizeof why);
  return l ? (tn_dataset_free(d), l) : (fail("data", why), NULL);  // the loader keeps the data set
}

static tn_tensor column(tn_tensor rows, int64_t k) {
  return tn_reshape(tn_slice(rows, 1, k, 1), TN_SHAPE(tn_dim_of(rows, 0)));
}

static void build_function(tn_program *p, const char *name, bool is_training) {
  tn_module *root = tn_root(p);
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(B, T, 2));
  tn_packed s = tn_pack_padded(x, tn_input(f, "lengths", TN_I64, TN_SHAPE(B)));  // [rows, 2]
  tn_tensor tags = column(s.data, 1), e = tn_call(tn_child(root, "embed"), column(s.data, 0));
  tn_rnn_output r = tn_rnn_call(tn_child(root, "rnn"), tn_packed_with_data(s, e));
  tn_tensor y = tn_call(tn_child(root, "head"), r.out.data),
            guess = tn_argmax_axis(y, -1, false);  // [rows, tags]: no padding
  tn_tensor loss = tn_cross_entropy(y, tags);
  tn_output(f, "loss", loss);
  tn_output(f, "right", tn_sum(tn_cast(tn_eq(guess, tags), TN_F32)));
  if (!is_training) tn_output(f, "guess", tn_pad_packed(tn_packed_with_data(s, guess), -1, true));
  if (is_training) tn_backward(loss), tn_clip_grad_norm(f, root, 1.0);
  if (is_training) tn_adamw(f, root, .lr = 5e-3);
  tn_function_end(f);
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("tagger");
  tn_embedding(tn_root(p), "embed", SYMBOLS, WIDTH);
  tn_lstm(tn_root(p), "rnn", WIDTH, HIDDEN, .bidirectional = true);
  tn_linear(tn_root(p), "head", 2 * HIDDEN, N_TAGS);
  build_function(p, "train_step", true), build_function(p, "evaluate", false);
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  return tn_program_free(p), m;
}

// The model, and where the loader stands
static void keep(tn_model *m, const char *path, bool load) {
  tn_loader_state at = tn_loader_get_state(loader);
  tn_extra extra = {"loader", &at, sizeof at};
  if (load ? tn_load_with(m, path, true, &extra, 1) : tn_save_with(m, path, true, &extra, 1))
    fail(path, tn_error_text(m));
  if (load && tn_loader_set_state(loader, at)) fail(path, tn_loader_error(loader));
}

static void train(tn_model *m, size_t steps, const char *checkpoint) {
  tn_progress *bar = tn_progress_begin(stdout, "train", steps);
  tn_loader_state at = tn_loader_get_state(loader);
  size_t done = at.epoch * tn_loader_count(loader) + at.position;
  tn_progress_resume(bar, done);
  float loss = 0, right;
  for (tn_batch b; done < steps && !tn_loader_is_stopped(loader);) {
    if (tn_loader_next(loader, &b)) fail("reading", tn_loader_error(loader));
    if (!b.number) continue;  // the end of an epoch
    if (tn_run_batch(m, "train_step", b, TN_OUT(tn_f32_scalar(&loss), tn_f32_scalar(&right))))
      fail("training", tn_error_text(m));
    tn_progress_step(bar, ++done, "loss %.4f", (double)loss);
  }
  tn_progress_end(bar);
  keep(m, checkpoint, false);
  if (tn_loader_is_stopped(loader)) printf("stopped after %zu of %zu steps; --resume goes on\n", done, steps);
}

// Labels of unseen strings: the first one to look at, and the share that is right
static void evaluate(tn_model *m, tn_loader *l) {
  static int64_t guess[BATCH * TIME];
  double right = 0, rows = 0;
  float loss, n_right = 0;
  for (tn_batch b; !tn_loader_next(l, &b) && b.number; right += (double)n_right) {
    tn_array x = tn_batch_array(b, "x");
    int64_t *row = x.data, *n = tn_batch_array(b, "x.lengths").data;
    tn_array out[] = {tn_f32_scalar(&loss), tn_f32_scalar(&n_right), tn_i64(guess, x.dims[0], x.dims[1])};
    if (tn_run_batch(m, "evaluate", b, out, 3)) fail("evaluating", tn_error_text(m));
    for (int64_t t = 0; rows == 0 && t < n[0]; t++) printf("%c %c\n", letters[row[2 * t]], marks[guess[t]]);
    for (int64_t k = 0; k < x.dims[0]; k++) rows += (double)n[k];
  }
  printf("tagger: %.4f of %.0f labels are right\n", right / rows, rows);
}

int main(int argc, char **argv) {
  const char *checkpoint = "tagger.safetensors";
  long steps = 600;
  bool resumes = false;
  const Argument list[] = {{"--steps", "N", "of training", .whole = &steps},
                           {"--checkpoint", "FILE", "where it saves", .text = &checkpoint},
                           {"--resume", NULL, "goes on from the checkpoint", .flag = &resumes}};
  read_arguments(argc, argv, "finds brackets that have a partner", list, sizeof list / sizeof *list);
  size_t first[] = {0, TRAIN};
  tn_loader *test_set = make_loader(&first[1], TEST, TN_SEQUENTIAL);
  loader = make_loader(&first[0], TRAIN, TN_SHUFFLED);
  tn_model *m = build();
  if (resumes) keep(m, checkpoint, true);
  signal(SIGINT, interrupt);
  train(m, (size_t)steps, checkpoint);
  if (!tn_loader_is_stopped(loader)) evaluate(m, test_set);
  return tn_model_free(m), tn_loader_free(loader), tn_loader_free(test_set), fflush(stdout) || ferror(stdout);
}
