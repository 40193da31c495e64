// What saving, loading and copying of stores have in common (checkpoint_save.c, checkpoint_load.c): the instances under their
// prefixes, which parameters are meant and by what names, a scratch arena.
#ifndef TN_RUNTIME_STORE_CHECKPOINT_JOB_H
#define TN_RUNTIME_STORE_CHECKPOINT_JOB_H

#include "runtime/store/checkpoint.h"
#include "runtime/store/file.h"

typedef struct {
  RtInstance *inst;
  const RtPlan *plan;
  const char *prefix;
  const RtStTensor **from;  // load: by parameter; NULL: keeps its value
  uint64_t runs, seed;
  bool has_random;  // load: runs and seed were found
  RtNames names;    // load: paths by number of the parameter, then aliases, whose parameters alias_of has
  uint32_t *alias_of, n_aliases, cap_aliases;
} RtJobPart;

typedef struct {
  const RtPart *given;
  RtJobPart *parts;
  size_t n_parts;
  const char *path;
  RtSaveOptions save;
  RtLoadOptions load;
  bool with_state, takes_subset;  // takes_subset: what the source has beyond the parameters is no fault
  RtArena *mem;
  RtSource file;          // load: open while the work goes on
  bool is_unreadable;     // load: a part of it could not be read
  unsigned char *staged;  // load: the tensors that are taken; on the heap
} RtJob;

static const char rt_key_runs[] = "tenure.runs", rt_key_seed[] = "tenure.seed", rt_extra_prefix[] = "tenure.extra.";

char *rt_job_error(const RtJob *j);  // RT_ERROR_SIZE bytes of the first part
// Calls `work` with a scratch arena whose exhaustion ends as RT_ERR_MEMORY.
RtStatus rt_job_run(RtJob *j, RtStatus (*work)(RtJob *j));
bool rt_job_wants(const RtJob *j, const RtParam *p);                                // is it saved, or loaded?
const char *rt_job_name(const RtJob *j, const RtJobPart *part, const char *name);   // behind the part's prefix
RtStTensor rt_job_tensor(const RtJob *j, const RtJobPart *part, const RtParam *p);  // its elements stay where they are
const char *rt_job_extra_name(const RtJob *j, const char *name);
bool rt_job_check_extras(const RtJob *j, const RtExtra *extra, size_t n);  // false: the error says why

#endif
