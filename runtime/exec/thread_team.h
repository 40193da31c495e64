// A thread team: a run calls one function on each participating worker; the caller is worker 0.
//
//   RtTeam *t = rt_team_new(4);
//   rt_team_run(t, work, &data, 4);   // work(&data, 0..3, 4); returns when all four have
//   rt_team_free(t);
//
// Waiting: bounded spinning, then sleep on a futex, so that an idle team uses no CPU. A team with more workers than CPUs
// does not spin. Only rt_team_new allocates. One run at a time per team.
//
// A run may have fewer workers than the team: results must not depend on their number. If the caller slept for more than
// half of a run because other workers were preempted, half of the team would have been as fast: the next runs use half,
// until a run with the full team is tried again (after some tens of milliseconds, longer after each failed trial).
//
// $TN_TEAM, a comma-separated list, read when a team is created:
//   pin     worker k is pinned to the k-th CPU of the process's affinity mask; the caller's thread is not pinned
//   fixed   the number of workers is never reduced after preemption
#ifndef TN_RUNTIME_EXEC_THREAD_TEAM_H
#define TN_RUNTIME_EXEC_THREAD_TEAM_H

#include "runtime/abi.h"
#include "runtime/api.h"

#include <stdint.h>

enum { RT_MAX_WORKERS = 64 };
typedef struct RtTeam RtTeam;
typedef void (*RtWork)(void *ctx, int32_t worker, int32_t n_workers);

RT_API uint32_t rt_n_cpus(void);  // that this process may use
// 0: one per CPU this process may use; at most RT_MAX_WORKERS. NULL: no memory or threads
RtTeam *rt_team_new(uint32_t n_workers);
void rt_team_free(RtTeam *t);  // NULL: nothing
uint32_t rt_team_size(const RtTeam *t);
uint32_t rt_team_process(void);  // 1 at first; one more in each child forked since the first call
void rt_team_fix(RtTeam *t);     // as $TN_TEAM=fixed; NULL: nothing
// On at most `most` workers; 0: no limit.
void rt_team_run(RtTeam *t, RtWork work, void *ctx, uint32_t most);
// The same for compiled code; on the calling thread only if `most` is 1.
void rt_team_enter(RtTeam *t, TnEntry entry, TnFrame *frame, uint32_t most);
// Inside a run: barrier `which` (below TN_N_BARRIERS) of `count` workers, with acquire and release semantics: writes
// before it are visible to all of them after it.
void rt_team_barrier(RtTeam *t, int32_t which, int32_t count);

#endif
