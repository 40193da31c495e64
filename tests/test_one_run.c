// Two threads and one model: a run during another run is rejected by name and has no effect, and the results of accepted
// runs are right. Two instances run concurrently. A child forked during a run starts without one.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 64, WIDE = 128, LAYERS = 4, TRIES = 200000, FORKS = 20 };

typedef struct {
  tn_model *m;
  const float *x, *expected;
  atomic_bool *stop;  // NULL: a number of runs
  unsigned n_done, n_refused, n_wrong;
} Runner;

static void run_once(Runner *r) {
  static _Thread_local float y[ROWS * WIDE];
  tn_status s = tn_run(r->m, "f", TN_IN(tn_f32(r->x, ROWS, WIDE)), TN_OUT(tn_f32(y, ROWS, WIDE)));
  r->n_refused += s == TN_ERR_ARGUMENT;
  r->n_done += s == TN_OK;
  r->n_wrong += s != TN_OK ? s != TN_ERR_ARGUMENT : memcmp(y, r->expected, sizeof y) != 0;
}

static void *run_often(void *at) {
  Runner *r = at;
  for (int k = 0; r->stop ? !atomic_load(r->stop) : k < 50; k++) run_once(r);
  return NULL;
}

static tn_model *compile(uint32_t workers) {
  tn_program *p = tn_program_create("one");
  tn_module *s = tn_sequential(tn_root(p), "s");
  for (int k = 0; k < LAYERS; k++) {
    char name[8];
    snprintf(name, sizeof name, "l%d", k);
    tn_linear(s, name, WIDE, WIDE);
  }
  tn_function *f = tn_function_begin(p, "f");
  tn_output(f, "y", tn_call(s, tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, WIDE))));
  tn_function_end(f);
  return model_alone(p, .n_workers = workers, .seed = 3);
}

static void test_one_model(tn_model *m, const float *x, const float *expected) {
  atomic_bool stop = false;
  Runner here = {m, x, expected, NULL, 0, 0, 0}, there = {m, x, expected, &stop, 0, 0, 0};
  pthread_t thread;
  if (!CHECK(pthread_create(&thread, NULL, run_often, &there) == 0)) return;
  for (int k = 0; k < TRIES && !here.n_refused; k++) run_once(&here);
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  CHECK(here.n_refused > 0 && here.n_wrong == 0 && there.n_wrong == 0);
  CHECK_HAS(tn_error_text(m), "running in another thread");
  here.n_done = 0;
  run_once(&here);
  CHECK(here.n_done == 1 && here.n_wrong == 0);
}

static void test_two_instances(tn_model *m, const float *x, const float *expected) {
  tn_model *other = tn_instance(m, 3);
  Runner here = {m, x, expected, NULL, 0, 0, 0}, there = {other, x, expected, NULL, 0, 0, 0};
  pthread_t thread;
  if (!CHECK(other && pthread_create(&thread, NULL, run_often, &there) == 0)) return;
  run_often(&here);
  pthread_join(thread, NULL);
  CHECK(here.n_done == 50 && there.n_done == 50 && here.n_wrong + there.n_wrong == 0);
  tn_model_free(other);
}

static void test_children(tn_model *m, const float *x, const float *expected) {
  atomic_bool stop = false;
  Runner there = {m, x, expected, &stop, 0, 0, 0};
  pthread_t thread;
  if (!CHECK(pthread_create(&thread, NULL, run_often, &there) == 0)) return;
  for (int k = 0; k < FORKS; k++) {
    pid_t child = fork();
    if (child == 0) {
      Runner here = {m, x, expected, NULL, 0, 0, 0};
      run_once(&here), run_once(&here);
      _exit(here.n_done == 2 && here.n_wrong == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
}

int main(void) {
  static float x[ROWS * WIDE], y[ROWS * WIDE];
  for (int k = 0; k < ROWS * WIDE; k++) x[k] = (float)(k % 23) / 23 - 0.5f;
  for (uint32_t workers = 1; workers <= 3; workers++) {
    tn_model *m = compile(workers);
    if (!m) continue;
    CHECK(!tn_run(m, "f", TN_IN(tn_f32(x, ROWS, WIDE)), TN_OUT(tn_f32(y, ROWS, WIDE))));
    test_one_model(m, x, y);
    test_two_instances(m, x, y);
    test_children(m, x, y);
    tn_model_free(m);
  }
  return check_report();
}
