// One training step of a workload shared by processes, each with one thread: what bench/ddp.py starts and compares with
// PyTorch's DistributedDataParallel.
//
//   mpirun -n 2 tenure_ddp lstm256 WEIGHTS SHARDS STEPS [thread]
//
// `thread`: each process has a progress thread. Rank 0 saves the initial weights, then prints one line: the third loss; ms of a
// step, the least and the median; ms of it spent in exchanges, waiting included, the median; bytes that all ranks send in a step,
// and that ZeRO-1's formula says.
#include "bench/bench.h"
#include "mpi/tenure_mpi.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 10000 };
static double times[MOST_STEPS], exchanges[MOST_STEPS];

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, by_value);
  return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int fail(const char *what, const char *why) {
  fprintf(stderr, "tenure_ddp: %s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}

// Weights that are trained: each is sent to who adds its gradient's elements, and back
static double weight_bytes(const tn_model *m) {
  double n = 0;
  for (uint32_t k = 0; k < tn_param_count(m); k++) {
    if (!strncmp(tn_param_path(m, k), "optimizer.", 10)) continue;
    tn_array a = tn_param_at((tn_model *)m, k);
    double count = 1;
    for (uint32_t d = 0; d < a.rank; d++) count *= (double)a.dims[d];
    n += 4 * count;
  }
  return n;
}

static int train(const Workload *w, void *state, const tn_transport *t, int steps, bool has_thread) {
  tn_model *m = w->model(state);
  double loss = 0;
  if (tn_distribute(m, t, &(tn_distribute_options){.progress_thread = has_thread}) || !w->check(state, &loss))
    return fail(w->name, tn_error_text(m));
  uint64_t before = tn_exchanged_of(m).bytes_sent, sent, all = 0;
  for (int k = 0; k < steps; k++) {
    double waited = tn_exchanged_of(m).seconds, begin = MPI_Wtime();
    if (!w->step(state)) return fail(w->name, tn_error_text(m));
    times[k] = 1e3 * (MPI_Wtime() - begin), exchanges[k] = 1e3 * (tn_exchanged_of(m).seconds - waited);
  }
  sent = (tn_exchanged_of(m).bytes_sent - before) / (uint64_t)steps;
  MPI_Reduce(&sent, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  double middle = median(times, steps), formula = 2 * (t->n_ranks - 1) * weight_bytes(m);
  if (t->rank == 0)
    printf("%.9g %.4f %.4f %.4f %llu %.0f\n", loss, times[0], middle, median(exchanges, steps), (unsigned long long)all,
           formula);
  return 0;
}

static const Workload *find_workload(const char *name) {
  const Workload *list[] = {&bench_lstm256, &bench_transformer4};
  for (size_t k = 0; k < sizeof list / sizeof *list; k++)
    if (!strcmp(list[k]->name, name)) return list[k];
  return NULL;
}

int main(int argc, char **argv) {
  bool has_thread = argc == 6 && !strcmp(argv[5], "thread");
  const Workload *w = argc == 5 || has_thread ? find_workload(argv[1]) : NULL;
  int level, steps = w ? atoi(argv[4]) : 0;
  char why[512] = "";
  if (!w || steps < 1 || steps > MOST_STEPS)
    return fputs("usage: tenure_ddp lstm256|transformer4 WEIGHTS SHARDS STEPS [thread]\n", stderr), 2;
  MPI_Init_thread(&argc, &argv, has_thread ? MPI_THREAD_SERIALIZED : MPI_THREAD_FUNNELED, &level);
  tn_transport *t = tn_mpi_transport(MPI_COMM_WORLD, why, sizeof why);
  if (!t) return fail("MPI", why);
  Opening o = {.root = ".", .variant = "", .n_workers = 1, .shards = (uint32_t)atoi(argv[3]), .why = why};
  o.weights = t->rank == 0 ? argv[2] : NULL, o.why_size = sizeof why;
  void *state = w->open(&o);
  if (!state) return fail(w->name, why);
  int status = train(w, state, t, steps, has_thread);
  w->close(state);
  tn_mpi_transport_free(t);
  MPI_Finalize();
  return status;
}
