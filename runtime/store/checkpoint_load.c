// Loading and copying stores: what does not fit is collected, then either all is taken or nothing.
#include "runtime/near.h"
#include "runtime/store/checkpoint_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char state_prefix[] = "optimizer.";

typedef struct {
  RtText text;
  uint32_t n, n_unsaid;  // problems; those that are counted only
} Problems;

enum { ROOM_FOR_PROBLEMS = RT_ERROR_SIZE - 640, MOST_PROBLEMS = 5 };

static void add_problem(Problems *p, const char *sentence) {
  bool fits = p->n < MOST_PROBLEMS && p->text.len + strlen(sentence) + 2 < ROOM_FOR_PROBLEMS;
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

// Floats become one another, as in PyTorch's load_state_dict; whole numbers are of the same dtype.
static bool converts(const RtParam *p, const RtStTensor *t) {
  if (!rt_dtype_is_float(p->dtype)) return t->dtype == rt_st_dtype_of(p->dtype);
  return t->dtype == RT_ST_F64 || t->dtype == RT_ST_F32 || t->dtype == RT_ST_F16 || t->dtype == RT_ST_BF16;
}

static bool same_shape(const RtParam *p, const RtStTensor *t) {
  return p->rank == t->rank && !memcmp(p->dims, t->dims, sizeof *p->dims * p->rank);
}

// n bytes of a tensor in memory or in the file; false: the job is unreadable
static bool read_tensor(RtJob *j, const RtStTensor *t, uint64_t at, void *to, size_t n) {
  if (t->data) memcpy(to, t->data + at, n);
  else if (!rt_source_read(&j->file, t->offset + at, to, n, rt_job_error(j), RT_ERROR_SIZE)) j->is_unreadable = true;
  return !j->is_unreadable;
}

static bool same_bytes(RtJob *j, const RtStTensor *a, const RtStTensor *b) {
  enum { CHUNK = 1 << 12 };
  unsigned char x[CHUNK], y[CHUNK];
  if (a->dtype != b->dtype || a->size != b->size) return false;
  for (uint64_t at = 0; at < a->size; at += CHUNK) {
    size_t n = a->size - at < CHUNK ? (size_t)(a->size - at) : CHUNK;
    if (!read_tensor(j, a, at, x, n) || !read_tensor(j, b, at, y, n) || memcmp(x, y, n)) return false;
  }
  return true;
}

// Under this name, or under the one that the metadata say it is an alias of: two names here may be one in the file.
static const RtStTensor *find_named(const RtSt *st, const char *name) {
  const RtStTensor *t = rt_st_find(st, name);
  const char *canonical = t ? NULL : rt_st_meta(st, name);
  return canonical ? rt_st_find(st, canonical) : t;
}

// The tensor of a parameter under its path or any alias. Problems: none, several that differ.
static const RtStTensor *find_tensor(RtJob *j, const RtSt *st, const RtJobPart *part, const RtParam *p,
                                     Problems *problems) {
  const RtStTensor *first = find_named(st, rt_job_name(j, part, p->path));
  for (uint32_t a = 0; a < p->n_aliases; a++) {
    const RtStTensor *t = find_named(st, rt_job_name(j, part, p->aliases[a]));
    if (t && first && t != first && !same_bytes(j, first, t))
      add_problem(problems, rt_printf(j->mem, "'%s' and '%s' are one parameter here and differ in the file",
                                      first->name, t->name));
    if (!first) first = t;
  }
  return first;
}

// Lists outlive the job: their texts go to the arena of the report.
typedef enum { MISSING, EXTRA, MISMATCHED } Kind;
static void list(RtLoadReport *r, const char *name, Kind kind) {
  if (!r) return;
  const char *text = rt_strdup(r->mem, name);
  if (kind == MISSING) *RT_PUSH(r->mem, r->missing, r->n_missing, r->cap_missing) = text;
  else if (kind == EXTRA) *RT_PUSH(r->mem, r->extra, r->n_extra, r->cap_extra) = text;
  else *RT_PUSH(r->mem, r->mismatched, r->n_mismatched, r->cap_mismatched) = text;
}

static void add_missing(RtJob *j, const RtJobPart *part, const RtParam *p, Problems *problems) {
  const char *name = rt_job_name(j, part, p->path);
  list(j->load.report, name, MISSING);
  if (!j->load.partial) add_problem(problems, rt_printf(j->mem, "'%s' is missing", name));
}

static void add_mismatch(RtJob *j, const RtParam *p, const RtStTensor *t, Problems *problems) {
  bool is_float = rt_dtype_is_float(p->dtype);
  const char *want = is_float ? "F32, F64, F16 or BF16" : rt_st_dtype_name[rt_st_dtype_of(p->dtype)];
  if (!converts(p, t))
    add_problem(problems,
                rt_printf(j->mem, "'%s' has dtype %s, expected %s", t->name, rt_st_dtype_name[t->dtype], want));
  if (!same_shape(p, t))
    add_problem(problems, rt_printf(j->mem, "'%s' has shape %s, expected %s", t->name,
                                    shape_text(j->mem, t->dims, t->rank), shape_text(j->mem, p->dims, p->rank)));
}

static void index_params(const RtJob *j, RtJobPart *part) {
  part->names = (RtNames){.mem = j->mem};
  for (uint32_t k = 0; k < part->plan->n_params; k++) {
    const char *path = part->plan->params[k].path;
    rt_names_add(&part->names, path, strlen(path));
  }
  for (uint32_t k = 0; k < part->plan->n_params; k++)
    for (uint32_t a = 0; a < part->plan->params[k].n_aliases; a++) {
      const char *alias = part->plan->params[k].aliases[a];
      uint32_t n = part->names.n;
      if (rt_names_add(&part->names, alias, strlen(alias)) == n)
        *RT_PUSH(j->mem, part->alias_of, part->n_aliases, part->cap_aliases) = k;
    }
}

static uint32_t find_param(const RtJobPart *part, const char *path) {
  uint32_t k = rt_names_find(&part->names, path, strlen(path));
  return k == RT_NO_NAME || k < part->plan->n_params ? k : part->alias_of[k - part->plan->n_params];
}

// Does the part take the tensor of this name, or pass over it as state?
static bool is_claimed(const RtJob *j, const RtJobPart *part, const char *name) {
  size_t n = strlen(part->prefix);
  if (strncmp(name, part->prefix, n)) return false;
  uint32_t k = find_param(part, name + n);
  bool is_state =
      k != UINT32_MAX ? part->plan->params[k].kind == RT_STATE : !strncmp(name + n, state_prefix, strlen(state_prefix));
  return (k != UINT32_MAX && rt_job_wants(j, &part->plan->params[k])) || (is_state && !j->with_state);
}

static void offer_paths(const RtJob *j, RtNear *near) {
  for (size_t k = 0; k < j->n_parts; k++)
    for (uint32_t i = 0; i < j->parts[k].plan->n_params; i++)
      if (rt_job_wants(j, &j->parts[k].plan->params[i]))
        rt_near_offer(near, rt_job_name(j, &j->parts[k], j->parts[k].plan->params[i].path));
}

static void check_extra(RtJob *j, const RtStTensor *t, Problems *problems) {
  if (!strncmp(t->name, rt_extra_prefix, strlen(rt_extra_prefix))) return;
  for (size_t k = 0; k < j->n_parts; k++)
    if (is_claimed(j, &j->parts[k], t->name)) return;
  list(j->load.report, t->name, EXTRA);
  if (j->load.partial) return;
  RtNear near = {.wanted = t->name};
  if (problems->n < MOST_PROBLEMS) offer_paths(j, &near);
  add_problem(problems, rt_printf(j->mem, "'%s' is no parameter of this program%s", t->name, rt_near_text(&near)));
}

static uint64_t take_number(RtJob *j, const char *text, const char *key, Problems *problems) {
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

static void take_random(RtJob *j, const RtSt *st, RtJobPart *part, Problems *problems) {
  const char *runs = rt_job_name(j, part, rt_key_runs), *seed = rt_job_name(j, part, rt_key_seed);
  const char *runs_text = rt_st_meta(st, runs), *seed_text = rt_st_meta(st, seed);
  if (!j->with_state || (j->load.partial && (!runs_text || !seed_text))) return;
  part->runs = take_number(j, runs_text, runs, problems);
  part->seed = take_number(j, seed_text, seed, problems);
  part->has_random = true;
}

static void match_part(RtJob *j, const RtSt *st, RtJobPart *part, Problems *problems) {
  part->from = rt_alloc(j->mem, sizeof *part->from * (part->plan->n_params + 1));
  for (uint32_t k = 0; k < part->plan->n_params; k++) {
    const RtParam *p = &part->plan->params[k];
    if (!rt_job_wants(j, p)) continue;
    const RtStTensor *t = find_tensor(j, st, part, p, problems);
    bool fits = t && converts(p, t) && same_shape(p, t);
    if (!t) add_missing(j, part, p, problems);
    else if (!fits && j->load.partial) list(j->load.report, t->name, MISMATCHED);
    else if (!fits) add_mismatch(j, p, t, problems);
    part->from[k] = fits ? t : NULL;
  }
}

static void copy_tensor(const RtJobPart *part, uint32_t k, const RtStTensor *t) {
  rt_st_read(t, (RtDType)part->plan->params[k].dtype, rt_instance_change(part->inst, k));
}

static uint32_t copy_part(const RtJobPart *part) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < part->plan->n_params; k++)
    if (part->from[k]) copy_tensor(part, k, part->from[k]), n++;
  if (part->has_random) rt_instance_set_random(part->inst, part->seed, part->runs);
  return n;
}

static RtStatus refuse_file(RtJob *j, const Problems *p) {
  char more[48] = "";
  if (p->n_unsaid) snprintf(more, sizeof more, "; and %" PRIu32 " more", p->n_unsaid);
  rt_fail(rt_job_error(j), RT_ERROR_SIZE, "%.500s: %s%s", j->path, p->text.text ? p->text.text : "", more);
  return RT_ERR_FILE;
}

// Those that were asked for.
static void match_wanted(RtJob *j, const RtSt *st, Problems *problems) {
  for (size_t k = 0; k < j->load.n_extra; k++) {
    const RtExtra *e = &j->load.extra[k];
    const RtStTensor *t = rt_st_find(st, rt_job_extra_name(j, e->name));
    if (!t) add_problem(problems, rt_printf(j->mem, "the extra '%s' is missing", e->name));
    else if (t->dtype != RT_ST_U8 || t->size != e->size)
      add_problem(problems,
                  rt_printf(j->mem, "the extra '%s' has %" PRIu64 " bytes, expected %zu", e->name, t->size, e->size));
  }
}

static void copy_wanted(const RtJob *j, const RtSt *st) {
  for (size_t k = 0; k < j->load.n_extra; k++) {
    const RtExtra *e = &j->load.extra[k];
    if (e->size) memcpy(e->bytes, rt_st_find(st, rt_job_extra_name(j, e->name))->data, e->size);
  }
}

// Tensors of which the load takes the bytes, each once: those have a mark as data until they are read.
typedef struct {
  RtStTensor **list;
  uint32_t n, cap;
  uint64_t bytes;
} Wanted;

static void want(const RtJob *j, RtSt *st, const RtStTensor *t, Wanted *w) {
  if (!t || t->data) return;
  RtStTensor *own = &st->tensors[t - st->tensors];
  own->data = (const unsigned char *)"";
  *RT_PUSH(j->mem, w->list, w->n, w->cap) = own;
  w->bytes += own->size;
}

// Reads all that is taken before anything is changed: a file that is cut short or written meanwhile leaves everything as
// it was.
static RtStatus stage(RtJob *j, RtSt *st) {
  Wanted w = {0};
  for (RtJobPart *part = j->parts; part < j->parts + j->n_parts; part++)
    for (uint32_t k = 0; k < part->plan->n_params; k++) want(j, st, part->from[k], &w);
  for (size_t k = 0; k < j->load.n_extra; k++)
    want(j, st, rt_st_find(st, rt_job_extra_name(j, j->load.extra[k].name)), &w);
  if (!w.n) return RT_OK;
  j->staged = rt_malloc(w.bytes);
  if (!j->staged) {
    rt_fail(rt_job_error(j), RT_ERROR_SIZE, "%.500s: out of memory: %" PRIu64 " bytes are read", j->path, w.bytes);
    return RT_ERR_MEMORY;
  }
  unsigned char *to = j->staged;
  for (uint32_t k = 0; k < w.n; to += w.list[k]->size, k++) {
    if (!rt_source_read(&j->file, w.list[k]->offset, to, w.list[k]->size, rt_job_error(j), RT_ERROR_SIZE))
      return RT_ERR_FILE;
    w.list[k]->data = to;
  }
  return rt_source_is_unchanged(&j->file, rt_job_error(j), RT_ERROR_SIZE) ? RT_OK : RT_ERR_FILE;
}

// Optimizers' entries, as a learning rate, have the same names in all files.
static bool is_weight(const RtParam *q) { return q->kind != RT_STATE && q->kind != RT_TRANSIENT; }

static bool takes_weight(const RtJob *j) {  // or wants none
  bool wants = false;
  for (size_t k = 0; k < j->n_parts; k++)
    for (uint32_t i = 0; i < j->parts[k].plan->n_params; i++) {
      const RtParam *q = &j->parts[k].plan->params[i];
      if (!rt_job_wants(j, q) || !is_weight(q)) continue;
      if (j->parts[k].from[i]) return true;
      wants = true;
    }
  return !wants;
}

// Both have weights and none in common.
static void warn_nothing(const RtJob *j, const RtSt *st) {
  for (size_t k = 0; k < j->n_parts; k++)
    for (uint32_t i = 0; i < j->parts[k].plan->n_params; i++) {
      const RtParam *q = &j->parts[k].plan->params[i];
      if (!rt_job_wants(j, q) || !is_weight(q)) continue;
      if (rt_st_find(st, rt_job_name(j, &j->parts[k], q->path))) {
        rt_fail(rt_instance_warning_buffer(j->given[0].inst), RT_WARNING_SIZE,
                "W134: %.200s: nothing was loaded: '%.80s' of the file has another shape or dtype", j->path, q->path);
        return;
      }
      rt_fail(rt_instance_warning_buffer(j->given[0].inst), RT_WARNING_SIZE,
              "W134: %.200s: nothing was loaded: no entry of the file is of this program; the file has '%.80s', the "
              "program '%.80s'",
              j->path, st->tensors[0].name, q->path);
      return;
    }
}

static RtStatus take(RtJob *j, RtSt *st) {
  Problems problems = {.text = {.mem = j->mem}};
  for (size_t k = 0; k < j->n_parts; k++) index_params(j, &j->parts[k]), match_part(j, st, &j->parts[k], &problems);
  if (j->is_unreadable) return RT_ERR_FILE;
  for (uint32_t k = 0; k < st->n_tensors && !j->takes_subset; k++) check_extra(j, &st->tensors[k], &problems);
  for (size_t k = 0; k < j->n_parts; k++) take_random(j, st, &j->parts[k], &problems);
  match_wanted(j, st, &problems);
  if (problems.n) return refuse_file(j, &problems);
  RtStatus status = stage(j, st);
  if (status) return status;
  uint32_t n = 0;
  for (size_t k = 0; k < j->n_parts; k++) n += copy_part(&j->parts[k]);
  copy_wanted(j, st);
  if (j->load.report) j->load.report->n_loaded = n;
  if (j->load.partial && st->n_tensors && !takes_weight(j)) warn_nothing(j, st);
  return RT_OK;
}

static bool has_params(const RtJob *j) {
  for (size_t k = 0; k < j->n_parts; k++)
    for (uint32_t i = 0; i < j->parts[k].plan->n_params; i++)
      if (rt_job_wants(j, &j->parts[k].plan->params[i])) return true;
  return false;
}

static RtStatus load_tensors(RtJob *j, RtSt *st) {
  if (has_params(j) || st->n_tensors == 0 || j->load.n_extra) return take(j, st);
  for (uint32_t k = 0; k < st->n_tensors; k++) list(j->load.report, st->tensors[k].name, EXTRA);
  rt_fail(rt_instance_warning_buffer(j->given[0].inst), RT_WARNING_SIZE,
          "%.300s: the file has %" PRIu32 " entries and the program has no parameters: nothing was loaded", j->path,
          st->n_tensors);
  return RT_OK;
}

static bool open_file(RtJob *j, RtSt *st) {
  return rt_source_open(&j->file, j->path, rt_job_error(j), RT_ERROR_SIZE) &&
         rt_st_read_header(j->mem, &j->file, st, rt_job_error(j), RT_ERROR_SIZE);
}

static RtStatus load(RtJob *j) {
  RtSt st;
  rt_instance_warning_buffer(j->given[0].inst)[0] = 0;
  return open_file(j, &st) ? load_tensors(j, &st) : RT_ERR_FILE;
}

RtStatus rt_store_load(const RtPart *parts, size_t n, const char *path, const RtLoadOptions *o) {
  RtJob j = {.given = parts,
             .n_parts = n,
             .path = path,
             .load = *o,
             .with_state = o->with_state,
             .takes_subset = o->passes_over};
  if (!rt_job_check_extras(&j, o->extra, o->n_extra)) return RT_ERR_ARGUMENT;
  RtStatus status = rt_job_run(&j, load);
  for (size_t k = 0; k < n; k++) rt_instance_drop_others(parts[k].inst);
  return status;
}

RtStatus rt_instance_load(RtInstance *i, const char *path, bool with_state) {
  return rt_store_load(&(RtPart){i, NULL}, 1, path, &(RtLoadOptions){.with_state = with_state});
}

// ---- the size of an extra: a load that takes nothing

typedef struct {
  RtJob job;
  const char *name;
  size_t *size;
} SizeJob;

static RtStatus find_size(RtJob *j) {
  const SizeJob *q = (const SizeJob *)(const void *)j;
  RtSt st;
  if (!open_file(j, &st)) return RT_ERR_FILE;
  const RtStTensor *t = rt_st_find(&st, rt_job_extra_name(j, q->name));
  if (!t) rt_fail(rt_job_error(j), RT_ERROR_SIZE, "%.500s: the extra '%.200s' is missing", j->path, q->name);
  else *q->size = (size_t)t->size;
  return t ? RT_OK : RT_ERR_FILE;
}

RtStatus rt_extra_size(RtInstance *i, const char *path, const char *name, size_t *size) {
  RtPart part = {i, NULL};
  SizeJob q = {.job = {.given = &part, .n_parts = 1, .path = path}, .name = name, .size = size};
  return rt_job_run(&q.job, find_size);
}

// ---- copy: a load from the other instance's memory

typedef struct {
  RtJob job;
  const RtInstance *from;
} CopyJob;

// Every path, aliases too, is a name of its own: the other side may know a parameter by any of them.
static void list_source(const RtJob *j, const RtInstance *from, RtSt *st) {
  RtJobPart source = {.inst = (RtInstance *)from, .plan = rt_instance_plan(from), .prefix = ""};
  for (uint32_t k = 0; k < source.plan->n_params; k++) {
    const RtParam *p = &source.plan->params[k];
    if (!rt_job_wants(j, p)) continue;
    RtStTensor t = rt_job_tensor(j, &source, p);
    *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
    for (uint32_t a = 0; a < p->n_aliases; a++) {
      t.name = p->aliases[a];
      *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
    }
  }
  rt_st_index(j->mem, st);
}

static RtStatus copy(RtJob *j) {
  const RtInstance *from = ((const CopyJob *)(const void *)j)->from;
  RtSt st = {0};
  list_source(j, from, &st);
  rt_st_add_meta(j->mem, &st, rt_key_runs, rt_printf(j->mem, "%" PRIu64, rt_instance_counter(from)));
  rt_st_add_meta(j->mem, &st, rt_key_seed, rt_printf(j->mem, "%" PRIu64, rt_instance_seed(from)));
  RtStatus status = take(j, &st);
  return status == RT_ERR_FILE ? RT_ERR_ARGUMENT : status;
}

RtStatus rt_instance_copy(RtInstance *to, const RtInstance *from, bool with_state) {
  RtPart part = {to, NULL};
  CopyJob c = {.job = {.given = &part, .n_parts = 1, .path = "copy", .with_state = with_state, .takes_subset = true},
               .from = from};
  if (with_state && rt_instance_has_parts(from)) {
    rt_fail(rt_instance_error_buffer(to), RT_ERROR_SIZE, "the state of the source is kept in parts by several ranks");
    return RT_ERR_ARGUMENT;
  }
  return to == from ? RT_OK : rt_job_run(&c.job, copy);
}
