// Tenure over MPI: a transport for tn_distribute (tenure/distributed.h), made of a communicator. libtenure_mpi alone knows MPI; it is
// compiled for one MPI library, whose mpicc compiles who includes this.
//
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
//   char why[256];
//   tn_transport *t = tn_mpi_transport(MPI_COMM_WORLD, why, sizeof why);
//   if (!t || tn_distribute(m, t, NULL)) ..
//   ..
//   tn_model_free(m), tn_mpi_transport_free(t), MPI_Finalize();
//
//   mpicc train.c $(pkg-config --cflags --libs tenure tenure-mpi)
#ifndef TENURE_MPI_H
#define TENURE_MPI_H

#include <mpi.h>

#ifdef TN_SOURCE_TREE
#include "frontend/tenure/distributed.h"
#else
#include <tenure/distributed.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Over a duplicate of comm, whose errors it returns as sentences: messages of the program's own do not meet it. All ranks of
// comm call it. NULL: a sentence in `why`; MPI has not begun, has ended, or fails. The thread that runs the model is the one
// that makes MPI's calls: with MPI_THREAD_FUNNELED, the thread that began MPI. A progress thread (tn_distribute_options) makes some of
// them, one at a time, and wants MPI_THREAD_SERIALIZED or more. Its `end` prints the sentence with the rank on
// stderr and calls MPI_Abort.
TN_API tn_transport *tn_mpi_transport(MPI_Comm comm, char *why, size_t why_size);
// Before MPI_Finalize, behind the last call on models that have it. NULL: nothing
TN_API void tn_mpi_transport_free(tn_transport *t);

#ifdef __cplusplus
}
#endif

#endif
