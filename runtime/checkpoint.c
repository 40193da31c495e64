// Saving and loading an instance: safetensors under the parameters' paths.
#include "runtime/file.h"
#include "runtime/instance.h"
#include "runtime/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char key_runs[] = "tenure.runs", key_seed[] = "tenure.seed", state_prefix[] = "optimizer.";

// Calls `work` with a scratch arena whose exhaustion ends as RT_ERR_MEMORY.
typedef struct {
  RtInstance *inst;
  const RtPlan *plan;
  const char *path;
  bool with_state;
  RtArena *mem;
  RtFile file;  // load: open while the work goes on
} Job;

static RtStatus with_arena(Job *j, RtStatus (*work)(Job *j)) {
  jmp_buf oom;
  RtStatus status = RT_ERR_MEMORY;
  j->mem = rt_arena_new();
  if (j->mem && !setjmp(oom)) {
    rt_arena_on_oom(j->mem, &oom);
    status = work(j);
  } else {
    rt_fail(rt_instance_error_buffer(j->inst), RT_ERROR_SIZE, "%.500s: out of memory", j->path);
    status = RT_ERR_MEMORY;
  }
  rt_file_close(&j->file);
  rt_arena_free(j->mem);
  return status;
}

static bool is_wanted(const Job *j, const RtParam *p) { return j->with_state || p->kind != RT_STATE; }

static uint64_t count_of(const RtParam *p) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < p->rank; d++) n *= (uint64_t)p->dims[d];
  return n;
}

// ---- save

static RtStTensor tensor_of(const Job *j, const RtParam *p) {
  uint8_t dtype = p->dtype == RT_I64 ? RT_ST_I64 : RT_ST_F32;
  RtStTensor t = {.name = p->path,
                  .dtype = dtype,
                  .rank = p->rank,
                  .n_elements = count_of(p),
                  .data = rt_instance_block(j->inst) + p->offset};
  t.size = t.n_elements * rt_st_dtype_bytes[dtype];
  memcpy(t.dims, p->dims, sizeof p->dims);
  return t;
}

static RtStatus save(Job *j) {
  RtSt st = {0};
  for (uint32_t k = 0; k < j->plan->n_params; k++) {
    const RtParam *p = &j->plan->params[k];
    if (!is_wanted(j, p)) continue;
    *RT_PUSH(j->mem, st.tensors, st.n_tensors, st.cap_tensors) = tensor_of(j, p);
    for (uint32_t a = 0; a < p->n_aliases; a++)
      *RT_PUSH(j->mem, st.meta, st.n_meta, st.cap_meta) = (RtStMeta){p->aliases[a], p->path};
  }
  if (j->with_state) {
    *RT_PUSH(j->mem, st.meta, st.n_meta, st.cap_meta) =
        (RtStMeta){key_runs, rt_printf(j->mem, "%" PRIu64, rt_instance_counter(j->inst))};
    *RT_PUSH(j->mem, st.meta, st.n_meta, st.cap_meta) =
        (RtStMeta){key_seed, rt_printf(j->mem, "%" PRIu64, rt_instance_seed(j->inst))};
  }
  char *error = rt_instance_error_buffer(j->inst);
  bool ok = rt_st_write(j->mem, j->path, st.tensors, st.n_tensors, st.meta, st.n_meta, error, RT_ERROR_SIZE);
  return ok ? RT_OK : RT_ERR_FILE;
}

RtStatus rt_instance_save(RtInstance *i, const char *path, bool with_state) {
  Job j = {.inst = i, .plan = rt_instance_plan(i), .path = path, .with_state = with_state};
  return with_arena(&j, save);
}

// ---- load: what does not fit is collected, then either all is taken or nothing

typedef struct {
  RtText text;
  uint32_t n, n_unsaid;  // problems; those for which the buffer had no room
} Problems;

enum { ROOM_FOR_PROBLEMS = RT_ERROR_SIZE - 640 };

static void add_problem(Problems *p, const char *sentence) {
  bool fits = p->text.len + strlen(sentence) + 2 < ROOM_FOR_PROBLEMS;
  if (fits) rt_text_add(&p->text, "%s%s", p->n ? "; " : "", sentence);
  else p->n_unsaid++;
  p->n++;
}

static const char *shape_text(RtArena *mem, const int64_t *dims, uint32_t rank) {
  RtText t = {.mem = mem};
  rt_text_put(&t, "[", 1);
  for (uint32_t d = 0; d < rank; d++) rt_text_add(&t, "%s%" PRId64, d ? "," : "", dims[d]);
  rt_text_put(&t, "]", 1);
  return t.text;
}

static bool converts(const RtParam *p, const RtStTensor *t) {
  if (p->dtype == RT_I64) return t->dtype == RT_ST_I64;
  return t->dtype == RT_ST_F64 || t->dtype == RT_ST_F32 || t->dtype == RT_ST_F16 || t->dtype == RT_ST_BF16;
}

static bool same_shape(const RtParam *p, const RtStTensor *t) {
  return p->rank == t->rank && !memcmp(p->dims, t->dims, sizeof *p->dims * p->rank);
}

static bool same_bytes(const RtStTensor *a, const RtStTensor *b) {
  return a->dtype == b->dtype && a->size == b->size && !memcmp(a->data, b->data, a->size);
}

// The tensor of a parameter under its path or any alias. Problems: none, several that differ.
static const RtStTensor *find_tensor(Job *j, const RtSt *st, const RtParam *p, Problems *problems) {
  const RtStTensor *first = rt_st_find(st, p->path);
  for (uint32_t a = 0; a < p->n_aliases; a++) {
    const RtStTensor *t = rt_st_find(st, p->aliases[a]);
    if (t && first && !same_bytes(first, t))
      add_problem(problems, rt_printf(j->mem, "'%s' and '%s' are one parameter here and differ in the file",
                                      first->name, t->name));
    if (!first) first = t;
  }
  if (!first) add_problem(problems, rt_printf(j->mem, "'%s' is missing", p->path));
  return first;
}

static void check_tensor(Job *j, const RtParam *p, const RtStTensor *t, Problems *problems) {
  const char *want = p->dtype == RT_I64 ? "I64" : "F32, F64, F16 or BF16";
  if (!converts(p, t))
    add_problem(problems,
                rt_printf(j->mem, "'%s' has dtype %s, expected %s", t->name, rt_st_dtype_name[t->dtype], want));
  if (!same_shape(p, t))
    add_problem(problems, rt_printf(j->mem, "'%s' has shape %s, expected %s", t->name,
                                    shape_text(j->mem, t->dims, t->rank), shape_text(j->mem, p->dims, p->rank)));
}

static void check_extra(Job *j, const RtStTensor *t, Problems *problems) {
  uint32_t k = rt_plan_param(j->plan, t->name);
  bool is_state =
      k != UINT32_MAX ? j->plan->params[k].kind == RT_STATE : !strncmp(t->name, state_prefix, strlen(state_prefix));
  if (k != UINT32_MAX && is_wanted(j, &j->plan->params[k])) return;
  if (is_state && !j->with_state) return;
  add_problem(problems, rt_printf(j->mem, "'%s' is no parameter of this program", t->name));
}

static uint64_t take_number(Job *j, const RtSt *st, const char *key, Problems *problems) {
  const char *text = rt_st_meta(st, key);
  char *end = NULL;
  errno = 0;
  uint64_t v = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
  if (!text)
    add_problem(problems,
                rt_printf(j->mem, "the metadata has no '%s', so that this file was saved without state", key));
  else if (!end || *end || errno)
    add_problem(problems, rt_printf(j->mem, "the metadata's '%s' is '%.40s', not a number", key, text));
  return v;
}

static void copy_tensor(Job *j, const RtParam *p, const RtStTensor *t) {
  unsigned char *to = rt_instance_block(j->inst) + p->offset;
  if (p->dtype == RT_F32) rt_st_read_f32(t, (float *)(void *)to);
  else if (t->size) memcpy(to, t->data, t->size);
}

static RtStatus refuse_file(Job *j, const Problems *p) {
  char more[48] = "";
  if (p->n_unsaid) snprintf(more, sizeof more, "; and %" PRIu32 " more", p->n_unsaid);
  rt_fail(rt_instance_error_buffer(j->inst), RT_ERROR_SIZE, "%.500s: %s%s", j->path, p->text.text ? p->text.text : "",
          more);
  return RT_ERR_FILE;
}

static RtStatus load_tensors(Job *j, const RtSt *st) {
  const RtPlan *plan = j->plan;
  Problems problems = {.text = {.mem = j->mem}};
  const RtStTensor **from = rt_alloc(j->mem, sizeof *from * (plan->n_params + 1));
  for (uint32_t k = 0; k < plan->n_params; k++) {
    if (!is_wanted(j, &plan->params[k])) continue;
    from[k] = find_tensor(j, st, &plan->params[k], &problems);
    if (from[k]) check_tensor(j, &plan->params[k], from[k], &problems);
  }
  for (uint32_t k = 0; k < st->n_tensors; k++) check_extra(j, &st->tensors[k], &problems);
  uint64_t runs = j->with_state ? take_number(j, st, key_runs, &problems) : 0;
  uint64_t seed = j->with_state ? take_number(j, st, key_seed, &problems) : 0;
  if (problems.n) return refuse_file(j, &problems);

  for (uint32_t k = 0; k < plan->n_params; k++)
    if (from[k]) copy_tensor(j, &plan->params[k], from[k]);
  if (j->with_state) rt_instance_set_random(j->inst, seed, runs);
  return RT_OK;
}

static RtStatus load(Job *j) {
  char why[400];
  RtSt st;
  char *error = rt_instance_error_buffer(j->inst);
  if (!rt_file_map(j->path, &j->file, error, RT_ERROR_SIZE)) return RT_ERR_FILE;
  if (rt_st_parse(j->mem, j->file.bytes, j->file.size, &st, why, sizeof why)) return load_tensors(j, &st);
  rt_fail(error, RT_ERROR_SIZE, "%.500s: %s", j->path, why);
  return RT_ERR_FILE;
}

RtStatus rt_instance_load(RtInstance *i, const char *path, bool with_state) {
  Job j = {.inst = i, .plan = rt_instance_plan(i), .path = path, .with_state = with_state};
  return with_arena(&j, load);
}
