// One training step by several threads of the caller, whose barrier is the caller's too: the bundle was made with --workers.
// The bits do not depend on the number of threads.
//
//   cc threads.c spiral.o -lpthread -lm -o threads
#define _POSIX_C_SOURCE 200112L  // pthread_barrier_t
#include "spiral.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 4, BATCH = SPIRAL_BATCH_MAX, STEPS = 40, N_BARRIERS = 64 };

typedef struct {
  int n_workers;
  spiral_state state;
  SPIRAL_ALIGNED unsigned char arena[SPIRAL_ARENA_BYTES];
  float x[BATCH][2], loss;
  int64_t label[BATCH];
} job;
static job by_one, by_three;

// Not every worker comes to every barrier: `count` says how many do.
static pthread_barrier_t barriers[N_BARRIERS][MOST + 1];
static void wait_here(void *ctx, int32_t which, int32_t count) {
  (void)ctx;
  pthread_barrier_wait(&barriers[which][count]);
}

typedef struct {
  job *j;
  int worker, status;
} worker;

static void *work(void *arg) {
  worker *w = arg;
  job *j = w->j;
  spiral_train_step_in in = {.batch = BATCH, .x = j->x[0], .label = j->label};
  spiral_train_step_out out = {.loss = &j->loss};
  for (int k = 0; k < STEPS && !w->status; k++)
    w->status = spiral_train_step_worker(&j->state, j->arena, sizeof j->arena, &in, &out, w->worker, j->n_workers,
                                         wait_here, NULL);
  return NULL;
}

static int train(job *j, int n_workers) {
  pthread_t thread[MOST];
  worker w[MOST];
  j->n_workers = n_workers;
  for (int k = 0; k < BATCH; k++) {
    double way = (double)(k / 3) / (BATCH / 3.0), angle = 4 * way + 2.0944 * (k % 3);
    j->x[k][0] = (float)(way * cos(angle)), j->x[k][1] = (float)(way * sin(angle)), j->label[k] = k % 3;
  }
  if (spiral_init(&j->state, 1)) return 1;
  for (int k = 0; k < n_workers; k++) {
    w[k] = (worker){.j = j, .worker = k};
    if (pthread_create(&thread[k], NULL, work, &w[k])) return 1;
  }
  for (int k = 0; k < n_workers; k++) pthread_join(thread[k], NULL);
  if (w[0].status) puts(spiral_error(w[0].status));
  return w[0].status;
}

int main(void) {
  for (int which = 0; which < N_BARRIERS; which++)
    for (unsigned n = 1; n <= MOST; n++) pthread_barrier_init(&barriers[which][n], NULL, n);
  if (train(&by_one, 1) || train(&by_three, 3)) return 1;
  int same = !memcmp(&by_one.state, &by_three.state, sizeof by_one.state);
  printf("loss %.4f by one thread, %.4f by three: %s\n", by_one.loss, by_three.loss,
         same ? "the same bits" : "other bits");
  return !same;
}
