// Teams: barriers, sleep, how many workers a run has, and CPUs that are taken away.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/abi.h"
#include "runtime/base.h"
#include "runtime/exec/thread_team.h"
#include "tests/check.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  RtTeam *team;
  uint32_t plain[RT_MAX_WORKERS];  // not atomic: barriers must order it
  uint32_t pair[2][RT_MAX_WORKERS];
  uint32_t n_wrong[RT_MAX_WORKERS];
} TeamTest;

static void shift_round(void *ctx, int32_t w, int32_t n) {
  TeamTest *t = ctx;
  for (uint32_t step = 1; step <= 60; step++) {
    t->plain[w] = step;
    rt_team_barrier(t->team, 0, n);
    for (int32_t k = 0; k < n; k++) t->n_wrong[w] += t->plain[k] != step;
    rt_team_barrier(t->team, 0, n);
  }
}

// Workers below n/2 and the others use barriers of their own, at different paces.
static void two_groups(void *ctx, int32_t w, int32_t n) {
  TeamTest *t = ctx;
  int32_t half = n / 2, group = w < half ? 0 : 1, lo = group ? half : 0, size = group ? n - half : half;
  for (uint32_t step = 1; step <= 40u * (1u + (uint32_t)group); step++) {
    t->pair[group][w] = step;
    rt_team_barrier(t->team, 1 + group * (TN_N_BARRIERS - 2), size);
    for (int32_t k = lo; k < lo + size; k++) t->n_wrong[w] += t->pair[group][k] != step;
    rt_team_barrier(t->team, 1 + group * (TN_N_BARRIERS - 2), size);
  }
  rt_team_barrier(t->team, 0, n);
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static void count_workers(void *ctx, int32_t w, int32_t n) {
  TeamTest *t = ctx;
  t->plain[w] = (uint32_t)n;
}

static uint32_t workers_of_run(TeamTest *t, uint32_t most) {
  memset(t->plain, 0, sizeof t->plain);
  rt_team_run(t->team, count_workers, t, most);
  uint32_t n = t->plain[0];
  for (uint32_t w = 0; w < RT_MAX_WORKERS; w++) CHECK(t->plain[w] == (w < n ? n : 0));
  return n;
}

// As if the CPU of worker 1 were taken away.
static void wait_for_second(void *ctx, int32_t w, int32_t n) {
  TeamTest *t = ctx;
  if (w == 1) sleep_ms(10);
  rt_team_barrier(t->team, 0, n);
}

// Runs have fewer workers after one in which the caller slept for another, and all of them again some time later.
static void test_strength(void) {
  TeamTest t = {.team = rt_team_new(4)};
  for (uint32_t most = 1; most <= 4; most++) CHECK(workers_of_run(&t, most) <= most);
  rt_team_free(t.team);
  t.team = rt_team_new(2);
  double cpu = cpu_seconds();
  uint32_t n = 2;
  for (int k = 0; k < 100 && n == 2; k++) {  // a test that does not run for long may find all of them tried again
    rt_team_run(t.team, wait_for_second, &t, 0);
    n = workers_of_run(&t, 0);
  }
  CHECK(n == 1);
  for (int k = 0; k < 500 && n == 1; k++) {
    sleep_ms(10);
    n = workers_of_run(&t, 0);
  }
  CHECK(n == 2 && cpu_seconds() - cpu < 2);
  rt_team_free(t.team);
  setenv("TN_TEAM", "pin,fixed", 1);
  t.team = rt_team_new(2);
  unsetenv("TN_TEAM");
  for (int k = 0; k < 2; k++) rt_team_run(t.team, wait_for_second, &t, 0);
  CHECK(workers_of_run(&t, 0) == 2);
  rt_team_free(t.team);
}

// ---- CPUs that are taken away

static void *run_team(void *arg) {
  TeamTest *t = arg;
  for (int run = 0; run < 4; run++) {
    rt_team_run(t->team, shift_round, t, 0);
    rt_team_run(t->team, two_groups, t, 0);
  }
  return NULL;
}

// All threads of this process on one CPU, or on those of `set`.
static void allow(const cpu_set_t *set) {
  DIR *d = opendir("/proc/self/task");
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') sched_setaffinity((pid_t)atoi(e->d_name), sizeof *set, set);
  if (d) closedir(d);
}

// Several teams at once, whose threads find themselves on one CPU after they began.
static void test_crowd(void) {
  enum { TEAMS = 5 };
  TeamTest t[TEAMS] = {0};
  pthread_t thread[TEAMS];
  cpu_set_t before, one;
  CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  for (uint32_t k = 0; k < TEAMS; k++) {
    t[k].team = rt_team_new(k % 2 ? 2 : 3);
    if (k & 1) rt_team_fix(t[k].team);
    CHECK(pthread_create(&thread[k], NULL, run_team, &t[k]) == 0);
  }
  allow(&one);
  for (uint32_t k = 0; k < TEAMS; k++) {
    CHECK(pthread_join(thread[k], NULL) == 0);
    for (uint32_t w = 0; w < RT_MAX_WORKERS; w++) CHECK(t[k].n_wrong[w] == 0);
  }
  allow(&before);
  for (uint32_t k = 0; k < TEAMS; k++) rt_team_free(t[k].team);
}

// A child has the caller's thread alone: it starts the others anew, or frees a team that it never used.
static void test_fork(void) {
  TeamTest t = {.team = rt_team_new(3)};
  RtTeam *unused = rt_team_new(2);
  rt_team_fix(t.team);
  rt_team_run(t.team, shift_round, &t, 0);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    for (int run = 0; run < 3; run++) rt_team_run(t.team, shift_round, &t, 0);
    bool right = workers_of_run(&t, 0) == 3;
    for (uint32_t w = 0; w < RT_MAX_WORKERS; w++) right &= t.n_wrong[w] == 0;
    rt_team_free(t.team);
    rt_team_free(unused);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  rt_team_run(t.team, shift_round, &t, 0);
  CHECK(t.n_wrong[0] == 0 && workers_of_run(&t, 0) == 3);
  rt_team_free(t.team);
  rt_team_free(unused);
}

static void test_team(void) {
  for (uint32_t n = 1; n <= 8; n++) {
    TeamTest t = {.team = rt_team_new(n)};
    if (!CHECK(t.team && rt_team_size(t.team) == n)) return;
    rt_team_fix(t.team);
    uint64_t before = rt_malloc_count();
    for (int run = 0; run < 30; run++) {
      rt_team_run(t.team, shift_round, &t, 0);
      rt_team_run(t.team, two_groups, &t, 0);
    }
    CHECK(rt_malloc_count() == before);
    uint32_t n_wrong = 0;
    for (uint32_t w = 0; w < n; w++) n_wrong += t.n_wrong[w];
    CHECK(n_wrong == 0);
    if (n == 4) {
      sleep_ms(30);
      double cpu = cpu_seconds();
      sleep_ms(100);
      CHECK(cpu_seconds() - cpu < 0.02);  // everybody sleeps
      rt_team_run(t.team, shift_round, &t, 0);
    }
    rt_team_free(t.team);
  }
  RtTeam *t = rt_team_new(0);
  CHECK(t && rt_team_size(t) >= 1 && rt_team_size(t) <= RT_MAX_WORKERS);
  rt_team_free(t);
  rt_team_free(NULL);
  rt_malloc_fail_at(1);
  CHECK(rt_team_new(2) == NULL);
  for (int i = 0; i < 50; i++) rt_team_free(rt_team_new(3));  // stopped before the threads got anywhere
}

int main(void) {
  test_team();
  test_strength();
  test_crowd();
  test_fork();
  return check_report();
}
