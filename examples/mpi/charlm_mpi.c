// Several processes train one character model: a GRU learns to write like a text. The file that comes out has the same bytes for
// any number of processes up to --shards, and for one without MPI (--alone); another number goes on from it. Each process reads
// its own pieces of the text from the file, when it wants them.
//
//   mpirun -n 4 charlm_mpi --steps 200 TEXT
//   mpirun -n 3 charlm_mpi --steps 400 --resume TEXT
#include "examples/mpi/job.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BATCH = 16, STEPS = 32, WIDTH = 32, HIDDEN = 96, BYTES = 256 };
static Job job = {.name = "charlm_mpi", .batch = BATCH};
static int text;

// Item k: STEPS characters and the next one
static bool get_item(void *ctx, size_t k, tn_item *to) {
  unsigned char bytes[STEPS + 1];
  ssize_t n = pread(text, bytes, sizeof bytes, (off_t)k * STEPS);
  if (n < STEPS + 1) {
    snprintf(to->error, to->error_size, "%s: %s", job.input,
             n < 0 ? strerror(errno) : "the text is shorter than it was");
    return false;
  }
  for (size_t t = 0; t <= STEPS; t++) ((int64_t *)to->data[0])[t] = bytes[t];
  return (void)ctx, true;
}

static tn_dataset *open_text(void) {
  static const tn_field field = {.name = "text", .dtype = TN_I64, .rank = 1, .dims = {STEPS + 1}};
  char why[512] = "it is too short";
  struct stat st;
  text = open(job.input, O_RDONLY | O_CLOEXEC);
  if (text < 0 || fstat(text, &st)) job_fail(&job, job.input, strerror(errno));
  size_t count = st.st_size > STEPS ? ((size_t)st.st_size - 1) / STEPS : 0;
  tn_dataset_type type = {.get = get_item};
  tn_dataset *d = count ? tn_dataset_new(&type, NULL, &field, 1, count, why, sizeof why) : NULL;
  if (!d) job_fail(&job, job.input, why);
  return d;
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("charlm_mpi");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *root = tn_root(p), *embed = tn_embedding(root, "embed", BYTES, WIDTH);
  tn_module *rnn = tn_gru(root, "rnn", WIDTH, HIDDEN, .batch_first = true);
  tn_module *head = tn_linear(root, "head", HIDDEN, BYTES);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor in = tn_input(f, "text", TN_I64, TN_SHAPE(B, STEPS + 1));
  tn_tensor x = tn_slice(in, 1, 0, STEPS), y = tn_slice(in, 1, 1, STEPS);
  tn_tensor h = tn_rnn_call_dense(rnn, tn_call(embed, x)).dense;
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_dropout(h, 0.1)), y);
  tn_output(f, "loss", loss);
  tn_distributed(f, .n = (uint32_t)job.shards, .batch = B);
  tn_backward(loss);
  tn_clip_grad_norm(f, root, 1.0);
  tn_adamw(f, root, .lr = 4e-3, .weight_decay = 1e-2);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  return tn_program_free(p), m;
}

int main(int argc, char **argv) {
  job_begin(&job, argc, argv);
  job_train(&job, build(), open_text());
  job_end(&job);
  return close(text);
}
