// One file of state that each rank has a part of: rank 0 makes it, with all that it has, the others write their parts into it,
// then it gets its name. Ranks say after each step how they fared; what one cannot do undoes all.
#include "runtime/exec/ranks.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/file.h"

#include <limits.h>
#include <string.h>

typedef struct {
  RtInstance *inst;
  RtRanks *ranks;
  char temp[PATH_MAX];
  bool is_told;  // others have heard where the file is
  RtStatus status;
} Saving;

// "": there is no file
static RtStatus tell_name(Saving *s, const char *temp) {
  size_t n = strlen(temp);
  memset(s->temp, 0, sizeof s->temp);
  if (n < sizeof s->temp) memcpy(s->temp, temp, n);
  s->is_told = true;
  rt_ranks_share(s->ranks, 0, s->temp, sizeof s->temp);
  return rt_ranks_exchange(s->ranks);
}

static bool wait_for_others(void *ctx, const char *temp) {
  Saving *s = ctx;
  s->status = tell_name(s, temp);
  if (!s->status) s->status = rt_instance_agree(s->inst, RT_WRITTEN, RT_OK);
  return !s->status;
}

static RtStatus write_first(Saving *s, RtArena *mem, const char *path, RtSt *st) {
  char *error = rt_instance_error_buffer(s->inst);
  RtOthers others = {wait_for_others, s};
  *error = 0;
  bool good = rt_st_write(mem, path, st->tensors, st->n_tensors, st->meta, st->n_meta, &others, error, RT_ERROR_SIZE);
  if (s->status) return s->status;
  if (!s->is_told && !good) {
    RtStatus status = tell_name(s, "");
    return status ? status : rt_instance_agree(s->inst, RT_WRITTEN, RT_ERR_FILE);
  }
  return rt_instance_agree(s->inst, RT_RENAMED, good ? RT_OK : RT_ERR_FILE);
}

static RtStatus write_part(Saving *s, RtArena *mem, RtSt *st) {
  char *error = rt_instance_error_buffer(s->inst);
  RtStatus status = tell_name(s, "");
  if (status) return status;
  bool good =
      !*s->temp || rt_st_fill(mem, s->temp, st->tensors, st->n_tensors, st->meta, st->n_meta, error, RT_ERROR_SIZE);
  status = rt_instance_agree(s->inst, RT_WRITTEN, good ? RT_OK : RT_ERR_FILE);
  return status ? status : rt_instance_agree(s->inst, RT_RENAMED, RT_OK);
}

RtStatus rt_store_write_by_ranks(RtInstance *i, RtArena *mem, const char *path, RtSt *st) {
  Saving s = {.inst = i, .ranks = rt_instance_ranks(i)};
  RtStatus status = rt_instance_agree(i, RT_SAVING, RT_OK);
  if (status) return status;
  return s.ranks->transport.rank == 0 ? write_first(&s, mem, path, st) : write_part(&s, mem, st);
}
