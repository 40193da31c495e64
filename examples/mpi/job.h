// What the examples of this folder share: arguments, the processes over MPI, batches by shards, checkpoints, the steps.
//
//   static Job job = {.name = "charlm_mpi", .batch = 16};
//   job_begin(&job, argc, argv);
//   job_train(&job, model, data);                // the function "train_step", whose one output is the loss
//   job_end(&job);
#ifndef EXAMPLES_MPI_JOB_H
#define EXAMPLES_MPI_JOB_H

#include "frontend/tenure.h"

typedef struct {
  const char *name, *input;  // input: a default; NULL: there is none
  int batch;                 // rows of all processes together
  // Of the arguments
  int steps, shards, every;  // every: steps from one checkpoint to the next
  const char *checkpoint;
  bool is_alone, resumes;
  tn_transport *transport;  // NULL: alone
  tn_model *model;
  tn_loader *loader;
  float *losses;  // [steps], the same in all processes
} Job;
// Begins MPI, unless --alone is given. Ends the program where the arguments are wrong, or ask for help
void job_begin(Job *j, int argc, char **argv);
// From a new model, or from the checkpoint, to the end. Takes both.
void job_train(Job *j, tn_model *m, tn_dataset *data);
void job_end(Job *j);
// This process cannot go on: ends all, saying why
_Noreturn void job_fail(const Job *j, const char *what, const char *why);
#endif
