// Several processes train one character model: a GRU learns to write like a text. The file that comes out has the same bytes for
// any number of processes up to --shards, and for one without MPI (--alone).
//
//   mpirun -n 4 charlm_mpi --steps 200 TEXT
//   mpirun -n 3 charlm_mpi --steps 400 --resume TEXT
#include "frontend/tenure.h"
#include "mpi/tenure_mpi.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 16, STEPS = 32, WIDTH = 32, HIDDEN = 96, LONGEST = 1 << 24, MOST_STEPS = 1 << 20 };
#define USAGE "charlm_mpi [--alone] [--steps N] [--shards N] [--every N] [--checkpoint FILE] [--resume] TEXT\n"
static unsigned char text[LONGEST], code[256];
static size_t length, n_letters;
static float losses[MOST_STEPS];  // the same in all ranks
static bool is_alone;
static uint32_t rank, n_ranks = 1;
static long steps = 200, shards = 8, every = 50;
static const char *checkpoint = "charlm_mpi.safetensors";

static void fail(const char *what, const char *why) {
  fprintf(stderr, "charlm_mpi, rank %u: %s: %s\n", rank, what, why);
  if (!is_alone) MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

static void read_text(const char *path) {
  FILE *in = fopen(path, "rb");
  bool seen[256] = {false};
  if (!in) fail(path, strerror(errno));
  for (int c; (c = getc(in)) != EOF && length < LONGEST; text[length++] = (unsigned char)c)
    if (!seen[c]) seen[c] = true, code[c] = (unsigned char)n_letters++;
  if (ferror(in) || fclose(in)) fail(path, strerror(errno));
  if (length < STEPS + 2) fail(path, "it is too short");
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("charlm_mpi");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *root = tn_root(p), *embed = tn_embedding(root, "embed", (int64_t)n_letters, WIDTH);
  tn_module *rnn = tn_gru(root, "rnn", WIDTH, HIDDEN, .batch_first = true);
  tn_module *head = tn_linear(root, "head", HIDDEN, (int64_t)n_letters);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor in = tn_input(f, "text", TN_I64, TN_SHAPE(B, STEPS + 1));
  tn_tensor x = tn_slice(in, 1, 0, STEPS), y = tn_slice(in, 1, 1, STEPS);
  tn_tensor h = tn_rnn_call_dense(rnn, tn_call(embed, x)).dense;
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_dropout(h, 0.1)), y);
  tn_output(f, "loss", loss);
  tn_distributed(f, .n = (uint32_t)shards, .batch = B);
  tn_backward(loss);
  tn_clip_grad_norm(f, root, 1.0);
  tn_adamw(f, root, .lr = 4e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  tn_program_free(p);
  if (!m) fail("compiling", "see above");
  return m;
}

// Row k of all batches, made of k alone: each process makes its own
static void make_row(uint64_t k, int64_t *row) {
  k = (k + 1) * 0x9E3779B97F4A7C15u, k ^= k >> 29, k *= 0xBF58476D1CE4E5B9u, k ^= k >> 32;
  for (size_t t = 0, at = k % (length - STEPS); t <= STEPS; t++) row[t] = code[text[at + t]];
}

static long steps_done(tn_model *m) {
  float n = 0;
  if (tn_get(m, "optimizer.step.head.weight", &n, 1)) fail("its state", tn_error_text(m));
  return (long)n;
}

// Parameters and state of rank 0 are copied to all by tn_distribute; losses every rank reads.
static void load(tn_model *m) {
  size_t size = 0;
  if (tn_extra_size(m, checkpoint, "losses", &size) || size > sizeof losses) fail("the checkpoint", tn_error_text(m));
  if (tn_load_with(m, checkpoint, true, &(tn_extra){"losses", losses, size}, 1))
    fail("the checkpoint", tn_error_text(m));
}

// All ranks together: each writes the state that it has.
static void save(tn_model *m, long done) {
  if (tn_save_with(m, checkpoint, true, &(tn_extra){"losses", losses, (size_t)done * sizeof *losses}, 1))
    fail("the checkpoint", tn_error_text(m));
}

static void train(tn_model *m) {
  static int64_t rows[BATCH][STEPS + 1];
  int64_t first, count;
  float loss = 0;
  tn_shard_rows(BATCH, (uint32_t)shards, rank, n_ranks, &first, &count);
  for (long k = steps_done(m); k < steps; k++) {
    for (int64_t r = 0; r < count; r++) make_row((uint64_t)(k * BATCH + first + r), rows[r]);
    if (tn_run(m, "train_step", TN_IN(tn_i64(rows, count, STEPS + 1)), TN_OUT(tn_f32_scalar(&loss))))
      fail("training", tn_error_text(m));
    losses[k] = loss;
    if ((k + 1) % every && k + 1 < steps) continue;
    save(m, k + 1);
    if (rank == 0) printf("step %ld of %ld: %.3f bits a character\n", k + 1, steps, (double)loss / log(2));
    fflush(stdout);
  }
}

int main(int argc, char **argv) {
  bool resumes = false, is_bad = false;
  const char *path = NULL;
  for (int k = 1; k < argc && !is_bad; k++) {
    char *end = "-", *v = k + 1 < argc ? argv[k + 1] : end;
    if (argv[k][0] != '-' && !path) path = argv[k];
    else if (!strcmp(argv[k], "--alone")) is_alone = true;
    else if (!strcmp(argv[k], "--resume")) resumes = true;
    else if (!strcmp(argv[k], "--steps"))
      steps = strtol(v, &end, 10), k++, is_bad = *end || steps < 1 || steps > MOST_STEPS;
    else if (!strcmp(argv[k], "--shards"))
      shards = strtol(v, &end, 10), k++, is_bad = *end || shards < 1 || shards > BATCH;
    else if (!strcmp(argv[k], "--every")) every = strtol(v, &end, 10), k++, is_bad = *end || every < 1;
    else if (!strcmp(argv[k], "--checkpoint")) checkpoint = v, k++, is_bad = *v == '-';
    else is_bad = true;
  }
  if (is_bad || !path) return fputs(USAGE, stderr), 2;
  int level;
  char why[256] = "";
  tn_transport *t = NULL;
  if (!is_alone) MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  if (!is_alone && !(t = tn_mpi_transport(MPI_COMM_WORLD, why, sizeof why))) fail("MPI", why);
  if (t) rank = t->rank, n_ranks = t->n_ranks;
  read_text(path);
  tn_model *m = build();
  if (resumes) load(m);
  if (t && tn_distribute(m, t, &(tn_distribute_options){.time_limit = 60, .has_own_rows = true}))
    fail("beginning", tn_error_text(m));
  train(m);
  tn_model_free(m);
  if (t) tn_mpi_transport_free(t), MPI_Finalize();
  return 0;
}
