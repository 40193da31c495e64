// Several processes train one GPT-2 on the bytes of a text: the model and the step of examples/gpt2.c, with tn_distributed. The file
// that comes out has the same bytes for any number of processes up to --shards, and for one without MPI (--alone).
//
//   mpirun -n 4 gpt2_mpi --steps 200 TEXT
#include "examples/gpt2/model.h"
#include "examples/mpi/job.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8, TIME = 64, LONGEST = 1 << 26 };
static Job job = {.name = "gpt2_mpi", .batch = BATCH};
static const Gpt2 size = {.words = 256, .places = 128, .width = 64, .layers = 2, .heads = 4, .dropout = 0.1};
static unsigned char *text;

// Item k: TIME bytes and the next one
static bool get_item(void *ctx, size_t k, tn_item *to) {
  for (size_t t = 0; t <= TIME; t++) ((int64_t *)to->data[0])[t] = text[k * TIME + t];
  return (void)ctx, true;
}

static tn_dataset *read_text(void) {
  static const tn_field field = {.name = "text", .dtype = TN_I64, .rank = 1, .dims = {TIME + 1}};
  char why[512] = "it is too short";
  FILE *in = fopen(job.input, "rb");
  text = malloc(LONGEST);
  size_t n = in && text ? fread(text, 1, LONGEST, in) : 0;
  if (!in || !text || ferror(in) || fclose(in)) job_fail(&job, job.input, strerror(errno));
  size_t count = n ? (n - 1) / TIME : 0;
  tn_dataset_type type = {.get = get_item};
  tn_dataset *d = count ? tn_dataset_new(&type, NULL, &field, 1, count, why, sizeof why) : NULL;
  if (!d) job_fail(&job, job.input, why);
  return d;
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("gpt2_mpi");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  gpt2_make(p, &size);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor ids = tn_input(f, "text", TN_I64, TN_SHAPE(B, TIME + 1));
  tn_tensor loss = tn_cross_entropy(gpt2_logits(p, f, &size, tn_slice(ids, 1, 0, TIME)), tn_slice(ids, 1, 1, TIME));
  tn_output(f, "loss", loss);
  tn_distributed(f, .n = (uint32_t)job.shards, .batch = B);
  tn_backward(loss);
  tn_clip_grad_norm(f, tn_root(p), 1.0);
  tn_adamw(f, tn_root(p), .lr = 1e-3, .weight_decay = 0.01);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  return tn_program_free(p), m;
}

int main(int argc, char **argv) {
  job_begin(&job, argc, argv);
  job_train(&job, build(), read_text());
  job_end(&job);
  free(text);
  return 0;
}
