// An outside program that shares its training steps over MPI.
#include <stdio.h>
#include <tenure_mpi.h>

int main(int argc, char **argv) {
  char why[256] = "";
  int level;
  tn_transport *t = tn_mpi_transport(MPI_COMM_WORLD, why, sizeof why);
  if (t) return fputs("a transport before MPI has begun\n", stderr), 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  t = tn_mpi_transport(MPI_COMM_WORLD, why, sizeof why);
  if (!t) return fprintf(stderr, "%s\n", why), 1;
  printf("rank %u of %u\n", t->rank, t->n_ranks);
  tn_mpi_transport_free(t);
  return MPI_Finalize();
}
