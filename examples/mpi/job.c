#include "examples/mpi/job.h"
#include "examples/arguments.h"
#include "mpi/tenure_mpi.h"

#include <stdlib.h>
#include <string.h>

static uint32_t rank_of(const Job *j) { return j->transport ? j->transport->rank : 0; }

static void say(const Job *j, const char *what, const char *why) {
  fprintf(stderr, "%s, rank %u: %s: %s\n", j->name, rank_of(j), what, why);
}

void job_fail(const Job *j, const char *what, const char *why) {
  say(j, what, why);
  if (!j->is_alone) MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

// All come here together: a call that was refused in one process was refused in all.
static _Noreturn void fail_together(const Job *j, const char *what) {
  say(j, what, tn_error_text(j->model));
  if (j->transport) MPI_Finalize();
  exit(1);
}

// ---- arguments
static void read_job(Job *j, int argc, char **argv) {
  long steps = 200, shards = 8, every = 50;
  const Argument list[] = {
      {"--alone", NULL, "without MPI", .flag = &j->is_alone},
      {"--steps", "N", "of training", .whole = &steps, .least = 1, .most = 1 << 24},
      {"--shards", "N", "into which a batch is cut", .whole = &shards, .least = 1, .most = j->batch},
      {"--every", "N", "steps from one checkpoint to the next", .whole = &every, .least = 1, .most = 1 << 24},
      {"--checkpoint", "FILE", "where it saves", .text = &j->checkpoint},
      {"--resume", NULL, "goes on from the checkpoint", .flag = &j->resumes},
      {NULL, "INPUT", "what it learns from", .text = &j->input}};
  read_arguments(argc, argv, "trains in several processes, under mpiexec", list, sizeof list / sizeof *list);
  j->steps = (int)steps, j->shards = (int)shards, j->every = (int)every;
}

void job_begin(Job *j, int argc, char **argv) {
  static char checkpoint[256];
  char why[256] = "";
  int level;
  snprintf(checkpoint, sizeof checkpoint, "%s.safetensors", j->name);
  j->checkpoint = checkpoint;
  read_job(j, argc, argv);
  j->losses = malloc((size_t)j->steps * sizeof *j->losses);
  if (!j->losses) job_fail(j, "beginning", "there is no memory for losses");
  if (j->is_alone) return;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  j->transport = tn_mpi_transport(MPI_COMM_WORLD, why, sizeof why);
  if (!j->transport) job_fail(j, "MPI", why);
}

// ---- batches: of each, this process reads the items of its shards
static void open_loader(Job *j, tn_dataset *data) {
  char why[512] = "";
  tn_sampler sampler = {.kind = TN_SHUFFLED, .rank = rank_of(j), .shards = (uint32_t)j->shards};
  sampler.world = j->transport ? j->transport->n_ranks : 1;
  tn_loader_options o = {.batch_size = (size_t)j->batch, .workers = 1, .seed = 7, .sampler = sampler};
  j->loader = tn_loader_new(data, &o, why, sizeof why);
  if (!j->loader) job_fail(j, "the data", why);
  tn_dataset_free(data);
}

// Behind an epoch comes another.
static tn_status next_batch(Job *j, tn_batch *b) {
  tn_status status = TN_OK;
  *b = (tn_batch){0};
  for (int k = 0; k < 2 && !b->number && !status; k++) status = tn_loader_next(j->loader, b);
  return status ? tn_run_refuse(j->model, tn_loader_error(j->loader)) : TN_OK;
}

// ---- checkpoints: the model, its state, where the loader stands, and all losses
static void save(Job *j, int done) {
  tn_loader_state at = tn_loader_get_state(j->loader);
  tn_extra extra[] = {{"loader", &at, sizeof at}, {"losses", j->losses, (size_t)done * sizeof *j->losses}};
  if (tn_save_with(j->model, j->checkpoint, true, extra, 2)) fail_together(j, "the checkpoint");
}

// Gives the number of steps done. Parameters and state of rank 0 are then copied to all.
static int load(Job *j) {
  size_t size = 0, room = (size_t)j->steps * sizeof *j->losses;
  tn_loader_state at;
  tn_status status = tn_extra_size(j->model, j->checkpoint, "losses", &size);
  if (!status && size > room) job_fail(j, j->checkpoint, "it has more steps than were asked for");
  tn_extra extra[] = {{"loader", &at, sizeof at}, {"losses", j->losses, size}};
  if (status || tn_load_with(j->model, j->checkpoint, true, extra, 2))
    job_fail(j, j->checkpoint, tn_error_text(j->model));
  if (tn_loader_set_state(j->loader, at)) job_fail(j, j->checkpoint, tn_loader_error(j->loader));
  return (int)(size / sizeof *j->losses);
}

void job_train(Job *j, tn_model *m, tn_dataset *data) {
  if (!m) job_fail(j, "compiling", "see above");
  j->model = m;
  open_loader(j, data);
  int done = j->resumes ? load(j) : 0;
  tn_distribute_options o = {.time_limit = 60, .has_own_rows = true};
  if (j->transport && tn_distribute(m, j->transport, &o)) job_fail(j, "beginning", tn_error_text(m));
  while (done < j->steps) {
    tn_batch b;
    tn_array loss = {.data = &j->losses[done], .dtype = TN_F32};
    if (next_batch(j, &b) || tn_run_batch(m, "train_step", b, &loss, 1)) fail_together(j, "training");
    if (++done % j->every && done < j->steps) continue;
    save(j, done);
    if (rank_of(j) == 0) printf("step %d of %d: loss %.4f\n", done, j->steps, (double)j->losses[done - 1]);
    fflush(stdout);
  }
}

void job_end(Job *j) {
  tn_loader_free(j->loader), tn_model_free(j->model), free(j->losses);
  if (j->transport) tn_mpi_transport_free(j->transport), MPI_Finalize();
}
