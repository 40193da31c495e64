// A fixed team of workers: every run calls one function once on each of them, the caller being worker 0.
//
//   RtTeam *t = rt_team_new(4);
//   rt_team_run(t, work, &data);   // work(&data, 0..3, 4); returns when all four have
//   rt_team_free(t);
//
// Waiting spins for a bounded time and then sleeps on a futex: an idle team uses no CPU. A team with more workers than
// CPUs does not spin. No call but rt_team_new allocates. One run at a time per team.
#ifndef TN_RUNTIME_TEAM_H
#define TN_RUNTIME_TEAM_H

#include <stdint.h>

enum { RT_MAX_WORKERS = 64 };
typedef struct RtTeam RtTeam;
typedef void (*RtWork)(void *ctx, int32_t worker, int32_t n_workers);

RtTeam *rt_team_new(
    uint32_t n_workers);  // 0: one per CPU this process may use; at most RT_MAX_WORKERS. NULL: no memory or threads
void rt_team_free(RtTeam *t);  // NULL: nothing
uint32_t rt_team_size(const RtTeam *t);
void rt_team_run(RtTeam *t, RtWork work, void *ctx);
// Inside a run: waits until `count` workers have arrived at barrier `which` (below TN_N_BARRIERS). What any of them
// wrote before is visible to all of them after.
void rt_team_barrier(RtTeam *t, int32_t which, int32_t count);

#endif
