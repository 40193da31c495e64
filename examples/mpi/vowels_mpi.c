// Several processes train one classifier of packed sequences: a bidirectional LSTM tells nine speakers apart. The file that comes
// out has the same bytes for any number of processes up to --shards, and for one without MPI (--alone); another number goes on
// from it. Each process reads the items of its shards alone.
//
//   mpirun -n 4 vowels_mpi --steps 200
//   mpirun -n 3 vowels_mpi --steps 400 --resume data/japanese_vowels/JapaneseVowels_TRAIN.ts
#include "examples/mpi/job.h"

enum { BATCH = 30, TIME = 29, FEATURES = 12, CLASSES = 9, HIDDEN = 64 };
static Job job = {.name = "vowels_mpi", .input = "data/japanese_vowels/JapaneseVowels_TRAIN.ts", .batch = BATCH};

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
  tn_distributed(f, .n = (uint32_t)job.shards, .batch = B);
  tn_backward(loss);
  tn_clip_grad_norm(f, root, 1.0);
  tn_adamw(f, root, .lr = 3e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  return tn_program_free(p), m;
}

int main(int argc, char **argv) {
  job_begin(&job, argc, argv);
  char why[512] = "";
  tn_series *series = tn_series_read(job.input, why, sizeof why);
  tn_dataset *data = series ? tn_dataset_series(series, why, sizeof why) : NULL;
  if (!data) job_fail(&job, "the data", why);
  job_train(&job, build(), data);
  job_end(&job);
  tn_series_free(series);
  return 0;
}
