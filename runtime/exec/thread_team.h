// A team of workers: every run calls one function once on each worker that takes part, the caller being worker 0.
//
//   RtTeam *t = rt_team_new(4);
//   rt_team_run(t, work, &data, 4);   // work(&data, 0..3, 4); returns when all four have
//   rt_team_free(t);
//
// Waiting spins for a bounded time and then sleeps on a futex: an idle team uses no CPU. A team with more workers than
// CPUs does not spin. No call but rt_team_new allocates. One run at a time per team.
//
// A run may have fewer workers than the team: results must not depend on their number. Where the caller slept for
// others during more than half of a run, because their CPUs were taken away, half of them would have been as fast: the
// next runs have half of them, until a run with all is tried again (some tens of milliseconds, more when it goes wrong
// again).
//
// $TN_TEAM, words separated by commas, read when a team is made:
//   pin     worker k runs on the k-th CPU that this process may use; the caller's thread is left alone
//   fixed   runs never have fewer workers because others had to be waited for
#ifndef TN_RUNTIME_EXEC_THREAD_TEAM_H
#define TN_RUNTIME_EXEC_THREAD_TEAM_H

#include "runtime/abi.h"

#include <stdint.h>

enum { RT_MAX_WORKERS = 64 };
typedef struct RtTeam RtTeam;
typedef void (*RtWork)(void *ctx, int32_t worker, int32_t n_workers);

// 0: one per CPU this process may use; at most RT_MAX_WORKERS. NULL: no memory or threads
RtTeam *rt_team_new(uint32_t n_workers);
void rt_team_free(RtTeam *t);  // NULL: nothing
uint32_t rt_team_size(const RtTeam *t);
uint32_t rt_team_process(void);  // 1; one more in a child that was forked since the first team was made
void rt_team_fix(RtTeam *t);     // as $TN_TEAM=fixed; NULL: nothing
// On at most `most` workers; 0: no limit.
void rt_team_run(RtTeam *t, RtWork work, void *ctx, uint32_t most);
// The same for compiled code; alone, without the team, where `most` is 1.
void rt_team_enter(RtTeam *t, TnEntry entry, TnFrame *frame, uint32_t most);
// Inside a run: waits until `count` workers have arrived at barrier `which` (below TN_N_BARRIERS). What any of them
// wrote before is visible to all of them after.
void rt_team_barrier(RtTeam *t, int32_t which, int32_t count);

#endif
