// Several processes train one classifier of packed sequences: a bidirectional LSTM tells nine speakers apart. The file that comes
// out has the same bytes for any number of processes up to --shards, and for one without MPI (--alone); another number goes on
// from it. Each process reads the items of its shards alone.
//
//   mpirun -n 4 vowels_mpi --steps 200
//   mpirun -n 3 vowels_mpi --steps 400 --resume
#include "frontend/tenure.h"
#include "mpi/tenure_mpi.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 30, TIME = 29, FEATURES = 12, CLASSES = 9, HIDDEN = 64 };
#define USAGE \
  "vowels_mpi [--alone] [--steps N] [--shards N] [--every N] [--data FOLDER] [--checkpoint FILE] [--resume]\n"
static bool is_alone;
static uint32_t rank, n_ranks = 1;
static int steps = 200, shards = 8, every = 50;
static const char *folder = "data/japanese_vowels", *checkpoint = "vowels_mpi.safetensors";

static void fail(const char *what, const char *why) {
  fprintf(stderr, "vowels_mpi, rank %u: %s: %s\n", rank, what, why);
  if (!is_alone) MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("vowels_mpi");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_module *root = tn_root(p), *rnn = tn_lstm(root, "rnn", FEATURES, HIDDEN, .bidirectional = true);
  tn_module *head = tn_linear(root, "head", 2 * HIDDEN, CLASSES);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, FEATURES)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_tensor h = tn_dropout(tn_last_hidden(tn_rnn_call(rnn, tn_pack_padded(x, n))), 0.3);
  tn_tensor loss = tn_cross_entropy(tn_call(head, h), label);
  tn_output(f, "loss", loss);
  tn_distributed(f, .n = (uint32_t)shards, .batch = B);
  tn_backward(loss);
  tn_clip_grad_norm(f, root, 1.0);
  tn_adamw(f, root, .lr = 3e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  tn_program_free(p);
  if (!m) fail("compiling", "see above");
  return m;
}

static tn_loader *open_loader(tn_series **series, tn_dataset **data) {
  char path[4096], why[512] = "";
  snprintf(path, sizeof path, "%s/JapaneseVowels_TRAIN.ts", folder);
  *series = tn_series_read(path, why, sizeof why);
  *data = *series ? tn_dataset_series(*series, why, sizeof why) : NULL;
  tn_sampler sampler = {.kind = TN_SHUFFLED, .rank = rank, .world = n_ranks, .shards = is_alone ? 0 : (uint32_t)shards};
  tn_loader_options o = {.batch_size = BATCH, .workers = 1, .seed = 7, .sampler = sampler};
  tn_loader *l = *data ? tn_loader_new(*data, &o, why, sizeof why) : NULL;
  if (!l) fail("the data", why);
  return l;
}

static void save(tn_model *m, const tn_loader *l) {
  tn_loader_state state = tn_loader_get_state(l);
  if (tn_save_with(m, checkpoint, true, &(tn_extra){"loader", &state, sizeof state}, 1))
    fail("the checkpoint", tn_error_text(m));
}

static void load(tn_model *m, tn_loader *l) {
  tn_loader_state state;
  if (tn_load_with(m, checkpoint, true, &(tn_extra){"loader", &state, sizeof state}, 1))
    fail("the checkpoint", tn_error_text(m));
  if (tn_loader_set_state(l, state)) fail("the checkpoint", tn_loader_error(l));
}

static tn_batch next_batch(tn_loader *l) {
  tn_batch b = {0};
  for (int k = 0; k < 2 && !b.number; k++)  // behind an epoch comes another
    if (tn_loader_next(l, &b)) fail("the data", tn_loader_error(l));
  return b;
}

static void train(tn_model *m, tn_loader *l) {
  float done, loss = 0;
  if (tn_get(m, "optimizer.step.head.weight", &done, 1)) fail("its state", tn_error_text(m));
  for (int k = (int)done; k < steps; k++) {
    if (tn_run_batch(m, "train_step", next_batch(l), &(tn_array){.data = &loss, .dtype = TN_F32}, 1))
      fail("training", tn_error_text(m));
    if ((k + 1) % every && k + 1 < steps) continue;
    save(m, l);
    if (rank == 0) printf("step %d of %d: loss %.4f\n", k + 1, steps, (double)loss);
    fflush(stdout);
  }
}

static bool number(const char *s, int *n) { return s && sscanf(s, "%d%1s", n, (char[2]){0}) == 1 && *n > 0; }

int main(int argc, char **argv) {
  bool resumes = false, is_bad = false;
  for (int k = 1; k < argc && !is_bad; k++) {
    const char *v = argv[k + 1];
    if (!strcmp(argv[k], "--alone")) is_alone = true;
    else if (!strcmp(argv[k], "--resume")) resumes = true;
    else if (!strcmp(argv[k], "--steps")) is_bad = !number(v, &steps), k++;
    else if (!strcmp(argv[k], "--shards")) is_bad = !number(v, &shards) || shards > BATCH, k++;
    else if (!strcmp(argv[k], "--every")) is_bad = !number(v, &every), k++;
    else if (v && !strcmp(argv[k], "--data")) folder = v, k++;
    else if (v && !strcmp(argv[k], "--checkpoint")) checkpoint = v, k++;
    else is_bad = true;
  }
  if (is_bad) return fputs(USAGE, stderr), 2;
  int level;
  char why[256] = "";
  tn_transport *t = NULL;
  if (!is_alone) MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  if (!is_alone && !(t = tn_mpi_transport(MPI_COMM_WORLD, why, sizeof why))) fail("MPI", why);
  if (t) rank = t->rank, n_ranks = t->n_ranks;
  tn_series *series;
  tn_dataset *data;
  tn_model *m = build();
  tn_loader *l = open_loader(&series, &data);
  if (resumes) load(m, l);
  if (t && tn_distribute(m, t, &(tn_distribute_options){.time_limit = 60, .has_own_rows = true}))
    fail("beginning", tn_error_text(m));
  train(m, l);
  tn_loader_free(l), tn_dataset_free(data), tn_series_free(series);
  tn_model_free(m);
  if (t) tn_mpi_transport_free(t), MPI_Finalize();
  return 0;
}
