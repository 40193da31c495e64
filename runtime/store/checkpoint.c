// Saving, loading and copying stores; see checkpoint.h. A file is safetensors under the parameters' paths.
#include "runtime/store/checkpoint.h"
#include "runtime/near.h"
#include "runtime/store/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char key_runs[] = "tenure.runs", key_seed[] = "tenure.seed", state_prefix[] = "optimizer.",
                  extra_prefix[] = "tenure.extra.";

typedef struct {
  RtInstance *inst;
  const RtPlan *plan;
  const char *prefix;
  const RtStTensor **from;  // load: by parameter; NULL: keeps its value
  uint64_t runs, seed;
  bool has_random;  // load: runs and seed were found
  RtNames names;    // load: paths by number of the parameter, then aliases, whose parameters alias_of has
  uint32_t *alias_of, n_aliases, cap_aliases;
} Part;

typedef struct {
  const RtPart *given;
  Part *parts;
  size_t n_parts;
  const char *path;
  RtSaveOptions save;
  RtLoadOptions load;
  bool with_state, takes_subset;  // takes_subset: what the source has beyond the parameters is no fault
  RtArena *mem;
  RtSource file;          // load: open while the work goes on
  bool is_unreadable;     // load: a part of it could not be read
  unsigned char *staged;  // load: the tensors that are taken; on the heap
} Job;

static char *error_of(const Job *j) { return rt_instance_error_buffer(j->given[0].inst); }

static void open_parts(Job *j) {
  j->parts = rt_alloc(j->mem, sizeof *j->parts * j->n_parts);
  for (size_t k = 0; k < j->n_parts; k++) {
    const RtPart *g = &j->given[k];
    j->parts[k] = (Part){.inst = g->inst, .plan = rt_instance_plan(g->inst), .prefix = g->prefix ? g->prefix : ""};
  }
}

// Calls `work` with a scratch arena whose exhaustion ends as RT_ERR_MEMORY.
static RtStatus with_arena(Job *j, RtStatus (*work)(Job *j)) {
  jmp_buf oom;
  RtStatus status = RT_ERR_MEMORY;
  RtArena *lists = j->load.report ? j->load.report->mem : NULL;
  j->mem = rt_arena_new();
  if (j->mem && !setjmp(oom)) {
    rt_arena_on_oom(j->mem, &oom);
    if (lists) rt_arena_on_oom(lists, &oom);
    open_parts(j);
    status = work(j);
  } else {
    rt_fail(error_of(j), RT_ERROR_SIZE, "%.500s: out of memory", j->path);
    status = RT_ERR_MEMORY;
  }
  if (lists) rt_arena_on_oom(lists, NULL);
  rt_source_close(&j->file);
  rt_free(j->staged);
  rt_arena_free(j->mem);
  return status;
}

static bool is_wanted(const Job *j, const RtParam *p) {
  return p->kind == RT_STATE ? j->with_state : p->kind != RT_TRANSIENT;
}

static const char *named(const Job *j, const Part *part, const char *name) {
  return *part->prefix ? rt_printf(j->mem, "%s%s", part->prefix, name) : name;
}

static uint64_t count_of(const RtParam *p) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < p->rank; d++) n *= (uint64_t)p->dims[d];
  return n;
}

// ---- save

static RtStTensor tensor_of(const Job *j, const Part *part, const RtParam *p) {
  uint8_t dtype = (uint8_t)rt_st_dtype_of(p->dtype);
  const unsigned char *data = rt_instance_block(part->inst) + p->offset;
  RtStTensor t = {
      .name = named(j, part, p->path), .dtype = dtype, .rank = p->rank, .n_elements = count_of(p), .data = data};
  t.size = t.n_elements * rt_st_dtype_bytes[dtype];
  memcpy(t.dims, p->dims, sizeof p->dims);
  int64_t lo, hi;
  if (rt_instance_owned(part->inst, (uint32_t)(p - part->plan->params), &lo, &hi)) {
    RtStPart *own = rt_alloc(j->mem, sizeof *own);
    *own = (RtStPart){(uint64_t)lo, (uint64_t)hi};
    t.part = own;
  }
  return t;
}

static void convert(const Job *j, RtStTensor *t) {
  if (!j->save.pattern || t->dtype != RT_ST_F32 || !rt_path_matches(j->save.pattern, t->name)) return;
  uint64_t size = t->n_elements * rt_st_dtype_bytes[j->save.dtype];
  unsigned char *bytes = rt_alloc(j->mem, size + 1);
  rt_st_put_f32(j->save.dtype, (const float *)(const void *)t->data, t->n_elements, bytes);
  t->dtype = (uint8_t)j->save.dtype, t->data = bytes, t->size = size;
}

static void add_meta(const Job *j, RtSt *st, const char *key, const char *value) {
  *RT_PUSH(j->mem, st->meta, st->n_meta, st->cap_meta) = (RtStMeta){key, value};
}

static void add_alias(const Job *j, RtSt *st, const RtParam *p, RtStTensor t, const char *alias) {
  if (!j->save.aliases_as_data || p->kind == RT_STATE) {
    add_meta(j, st, alias, t.name);
    return;
  }
  t.name = alias;
  *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
}

static void add_part(const Job *j, const Part *part, RtSt *st) {
  for (uint32_t k = 0; k < part->plan->n_params; k++) {
    const RtParam *p = &part->plan->params[k];
    if (!is_wanted(j, p)) continue;
    RtStTensor t = tensor_of(j, part, p);
    convert(j, &t);
    *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
    for (uint32_t a = 0; a < p->n_aliases; a++) add_alias(j, st, p, t, named(j, part, p->aliases[a]));
  }
  if (!j->with_state) return;
  add_meta(j, st, named(j, part, key_runs), rt_printf(j->mem, "%" PRIu64, rt_instance_counter(part->inst)));
  add_meta(j, st, named(j, part, key_seed), rt_printf(j->mem, "%" PRIu64, rt_instance_seed(part->inst)));
}

typedef struct {
  const char *name, *path;
  const Part *part;
  const RtParam *param;
} Name;

static const char *places_text(const Job *j, const RtParam *a, const RtParam *b) {
  if (!a->file || !b->file) return "";
  return rt_printf(j->mem, "; they were made at %.300s:%" PRIu32 " and %.300s:%" PRIu32, a->file, a->line, b->file,
                   b->line);
}

static int by_name(const void *a, const void *b) {
  const Name *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->part > y->part) - (x->part < y->part);
}

static bool check_names(Job *j) {
  Name *names = NULL;
  uint32_t n = 0, cap = 0;
  for (Part *part = j->parts; part < j->parts + j->n_parts; part++)
    for (uint32_t k = 0; k < part->plan->n_params; k++) {
      const RtParam *p = &part->plan->params[k];
      if (!is_wanted(j, p)) continue;
      *RT_PUSH(j->mem, names, n, cap) = (Name){named(j, part, p->path), p->path, part, p};
      for (uint32_t a = 0; a < p->n_aliases; a++)
        *RT_PUSH(j->mem, names, n, cap) = (Name){named(j, part, p->aliases[a]), p->aliases[a], part, p};
    }
  if (n) qsort(names, n, sizeof *names, by_name);
  for (uint32_t k = 1; k < n; k++) {
    const Name *x = &names[k - 1], *y = &names[k];
    if (!strcmp(x->name, y->name))
      return rt_fail(error_of(j), RT_ERROR_SIZE,
                     "%.500s: the name '%.200s' is given twice: by '%.200s' of store %td with prefix '%.100s' and by "
                     "'%.200s' of store %td with prefix '%.100s'%s",
                     j->path, x->name, x->path, x->part - j->parts + 1, x->part->prefix, y->path,
                     y->part - j->parts + 1, y->part->prefix, places_text(j, x->param, y->param));
  }
  return true;
}

static const char *extra_name(const Job *j, const char *name) { return rt_printf(j->mem, "%s%s", extra_prefix, name); }

static bool check_extras(const Job *j, const RtExtra *extra, size_t n) {
  for (size_t k = 0; k < n; k++) {
    if (!extra[k].name || !*extra[k].name || (extra[k].size && !extra[k].bytes))
      return rt_fail(error_of(j), RT_ERROR_SIZE, "%.500s: extra %zu has no %s", j->path, k,
                     extra[k].name && *extra[k].name ? "bytes" : "name");
    for (size_t i = 0; i < k; i++)
      if (!strcmp(extra[i].name, extra[k].name))
        return rt_fail(error_of(j), RT_ERROR_SIZE, "%.500s: two extras are named '%.200s'", j->path, extra[k].name);
  }
  return true;
}

static void add_extra(const Job *j, const RtExtra *e, RtSt *st) {
  RtStTensor t = {.name = extra_name(j, e->name), .dtype = RT_ST_U8, .rank = 1, .n_elements = e->size};
  t.dims[0] = (int64_t)e->size;
  t.data = e->bytes, t.size = e->size;
  *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
}

// State that each rank has a part of is saved by one store alone.
static bool check_parts(const Job *j) {
  for (size_t k = 0; k < j->n_parts && j->n_parts > 1 && j->with_state; k++)
    if (rt_instance_has_parts(j->parts[k].inst))
      return rt_fail(error_of(j), RT_ERROR_SIZE,
                     "%.500s: the state of store %zu is kept in parts by several ranks: it is saved by itself", j->path,
                     k + 1);
  return true;
}

static RtStatus save(Job *j) {
  RtSt st = {0};
  RtInstance *i = j->given[0].inst;
  if (!check_parts(j)) return RT_ERR_ARGUMENT;
  if (j->n_parts > 1 && !check_names(j)) return RT_ERR_ARGUMENT;
  if (!check_extras(j, j->save.extra, j->save.n_extra)) return RT_ERR_ARGUMENT;
  for (size_t k = 0; k < j->n_parts; k++) add_part(j, &j->parts[k], &st);
  for (size_t k = 0; k < j->save.n_extra; k++) add_extra(j, &j->save.extra[k], &st);
  char why[600];
  if (!rt_st_check_names(j->mem, st.tensors, st.n_tensors, st.meta, st.n_meta, why, sizeof why)) {
    rt_fail(error_of(j), RT_ERROR_SIZE, "%.500s: %s", j->path, why);
    return RT_ERR_ARGUMENT;
  }
  if (j->with_state && rt_instance_has_parts(i)) return rt_store_write_by_ranks(i, j->mem, j->path, &st);
  bool ok =
      rt_st_write(j->mem, j->path, st.tensors, st.n_tensors, st.meta, st.n_meta, NULL, error_of(j), RT_ERROR_SIZE);
  return ok ? RT_OK : RT_ERR_FILE;
}

RtStatus rt_store_save(const RtPart *parts, size_t n, const char *path, const RtSaveOptions *o) {
  Job j = {.given = parts, .n_parts = n, .path = path, .save = *o, .with_state = o->with_state};
  return with_arena(&j, save);
}

RtStatus rt_instance_save(RtInstance *i, const char *path, bool with_state) {
  return rt_store_save(&(RtPart){i, NULL}, 1, path, &(RtSaveOptions){.with_state = with_state});
}

// ---- load: what does not fit is collected, then either all is taken or nothing

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
static bool read_tensor(Job *j, const RtStTensor *t, uint64_t at, void *to, size_t n) {
  if (t->data) memcpy(to, t->data + at, n);
  else if (!rt_source_read(&j->file, t->offset + at, to, n, error_of(j), RT_ERROR_SIZE)) j->is_unreadable = true;
  return !j->is_unreadable;
}

static bool same_bytes(Job *j, const RtStTensor *a, const RtStTensor *b) {
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
static const RtStTensor *find_tensor(Job *j, const RtSt *st, const Part *part, const RtParam *p, Problems *problems) {
  const RtStTensor *first = find_named(st, named(j, part, p->path));
  for (uint32_t a = 0; a < p->n_aliases; a++) {
    const RtStTensor *t = find_named(st, named(j, part, p->aliases[a]));
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

static void add_missing(Job *j, const Part *part, const RtParam *p, Problems *problems) {
  const char *name = named(j, part, p->path);
  list(j->load.report, name, MISSING);
  if (!j->load.partial) add_problem(problems, rt_printf(j->mem, "'%s' is missing", name));
}

static void add_mismatch(Job *j, const RtParam *p, const RtStTensor *t, Problems *problems) {
  bool is_float = rt_dtype_is_float(p->dtype);
  const char *want = is_float ? "F32, F64, F16 or BF16" : rt_st_dtype_name[rt_st_dtype_of(p->dtype)];
  if (!converts(p, t))
    add_problem(problems,
                rt_printf(j->mem, "'%s' has dtype %s, expected %s", t->name, rt_st_dtype_name[t->dtype], want));
  if (!same_shape(p, t))
    add_problem(problems, rt_printf(j->mem, "'%s' has shape %s, expected %s", t->name,
                                    shape_text(j->mem, t->dims, t->rank), shape_text(j->mem, p->dims, p->rank)));
}

static void index_params(const Job *j, Part *part) {
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

static uint32_t find_param(const Part *part, const char *path) {
  uint32_t k = rt_names_find(&part->names, path, strlen(path));
  return k == RT_NO_NAME || k < part->plan->n_params ? k : part->alias_of[k - part->plan->n_params];
}

// Does the part take the tensor of this name, or pass over it as state?
static bool is_claimed(const Job *j, const Part *part, const char *name) {
  size_t n = strlen(part->prefix);
  if (strncmp(name, part->prefix, n)) return false;
  uint32_t k = find_param(part, name + n);
  bool is_state =
      k != UINT32_MAX ? part->plan->params[k].kind == RT_STATE : !strncmp(name + n, state_prefix, strlen(state_prefix));
  return (k != UINT32_MAX && is_wanted(j, &part->plan->params[k])) || (is_state && !j->with_state);
}

static void offer_paths(const Job *j, RtNear *near) {
  for (size_t k = 0; k < j->n_parts; k++)
    for (uint32_t i = 0; i < j->parts[k].plan->n_params; i++)
      if (is_wanted(j, &j->parts[k].plan->params[i]))
        rt_near_offer(near, named(j, &j->parts[k], j->parts[k].plan->params[i].path));
}

static void check_extra(Job *j, const RtStTensor *t, Problems *problems) {
  if (!strncmp(t->name, extra_prefix, strlen(extra_prefix))) return;
  for (size_t k = 0; k < j->n_parts; k++)
    if (is_claimed(j, &j->parts[k], t->name)) return;
  list(j->load.report, t->name, EXTRA);
  if (j->load.partial) return;
  RtNear near = {.wanted = t->name};
  if (problems->n < MOST_PROBLEMS) offer_paths(j, &near);
  add_problem(problems, rt_printf(j->mem, "'%s' is no parameter of this program%s", t->name, rt_near_text(&near)));
}

static uint64_t take_number(Job *j, const char *text, const char *key, Problems *problems) {
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

static void take_random(Job *j, const RtSt *st, Part *part, Problems *problems) {
  const char *runs = named(j, part, key_runs), *seed = named(j, part, key_seed);
  const char *runs_text = rt_st_meta(st, runs), *seed_text = rt_st_meta(st, seed);
  if (!j->with_state || (j->load.partial && (!runs_text || !seed_text))) return;
  part->runs = take_number(j, runs_text, runs, problems);
  part->seed = take_number(j, seed_text, seed, problems);
  part->has_random = true;
}

static void match_part(Job *j, const RtSt *st, Part *part, Problems *problems) {
  part->from = rt_alloc(j->mem, sizeof *part->from * (part->plan->n_params + 1));
  for (uint32_t k = 0; k < part->plan->n_params; k++) {
    const RtParam *p = &part->plan->params[k];
    if (!is_wanted(j, p)) continue;
    const RtStTensor *t = find_tensor(j, st, part, p, problems);
    bool fits = t && converts(p, t) && same_shape(p, t);
    if (!t) add_missing(j, part, p, problems);
    else if (!fits && j->load.partial) list(j->load.report, t->name, MISMATCHED);
    else if (!fits) add_mismatch(j, p, t, problems);
    part->from[k] = fits ? t : NULL;
  }
}

static void copy_tensor(const Part *part, uint32_t k, const RtStTensor *t) {
  rt_st_read(t, (RtDType)part->plan->params[k].dtype, rt_instance_change(part->inst, k));
}

static uint32_t copy_part(const Part *part) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < part->plan->n_params; k++)
    if (part->from[k]) copy_tensor(part, k, part->from[k]), n++;
  if (part->has_random) rt_instance_set_random(part->inst, part->seed, part->runs);
  return n;
}

static RtStatus refuse_file(Job *j, const Problems *p) {
  char more[48] = "";
  if (p->n_unsaid) snprintf(more, sizeof more, "; and %" PRIu32 " more", p->n_unsaid);
  rt_fail(error_of(j), RT_ERROR_SIZE, "%.500s: %s%s", j->path, p->text.text ? p->text.text : "", more);
  return RT_ERR_FILE;
}

// Those that were asked for.
static void match_wanted(Job *j, const RtSt *st, Problems *problems) {
  for (size_t k = 0; k < j->load.n_extra; k++) {
    const RtExtra *e = &j->load.extra[k];
    const RtStTensor *t = rt_st_find(st, extra_name(j, e->name));
    if (!t) add_problem(problems, rt_printf(j->mem, "the extra '%s' is missing", e->name));
    else if (t->dtype != RT_ST_U8 || t->size != e->size)
      add_problem(problems,
                  rt_printf(j->mem, "the extra '%s' has %" PRIu64 " bytes, expected %zu", e->name, t->size, e->size));
  }
}

static void copy_wanted(const Job *j, const RtSt *st) {
  for (size_t k = 0; k < j->load.n_extra; k++) {
    const RtExtra *e = &j->load.extra[k];
    if (e->size) memcpy(e->bytes, rt_st_find(st, extra_name(j, e->name))->data, e->size);
  }
}

// Tensors of which the load takes the bytes, each once: those have a mark as data until they are read.
typedef struct {
  RtStTensor **list;
  uint32_t n, cap;
  uint64_t bytes;
} Wanted;

static void want(const Job *j, RtSt *st, const RtStTensor *t, Wanted *w) {
  if (!t || t->data) return;
  RtStTensor *own = &st->tensors[t - st->tensors];
  own->data = (const unsigned char *)"";
  *RT_PUSH(j->mem, w->list, w->n, w->cap) = own;
  w->bytes += own->size;
}

// Reads all that is taken before anything is changed: a file that is cut short or written meanwhile leaves everything as
// it was.
static RtStatus stage(Job *j, RtSt *st) {
  Wanted w = {0};
  for (Part *part = j->parts; part < j->parts + j->n_parts; part++)
    for (uint32_t k = 0; k < part->plan->n_params; k++) want(j, st, part->from[k], &w);
  for (size_t k = 0; k < j->load.n_extra; k++) want(j, st, rt_st_find(st, extra_name(j, j->load.extra[k].name)), &w);
  if (!w.n) return RT_OK;
  j->staged = rt_malloc(w.bytes);
  if (!j->staged) {
    rt_fail(error_of(j), RT_ERROR_SIZE, "%.500s: out of memory: %" PRIu64 " bytes are read", j->path, w.bytes);
    return RT_ERR_MEMORY;
  }
  unsigned char *to = j->staged;
  for (uint32_t k = 0; k < w.n; to += w.list[k]->size, k++) {
    if (!rt_source_read(&j->file, w.list[k]->offset, to, w.list[k]->size, error_of(j), RT_ERROR_SIZE))
      return RT_ERR_FILE;
    w.list[k]->data = to;
  }
  return rt_source_is_unchanged(&j->file, error_of(j), RT_ERROR_SIZE) ? RT_OK : RT_ERR_FILE;
}

static RtStatus take(Job *j, RtSt *st) {
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
  return RT_OK;
}

static bool has_params(const Job *j) {
  for (size_t k = 0; k < j->n_parts; k++)
    for (uint32_t i = 0; i < j->parts[k].plan->n_params; i++)
      if (is_wanted(j, &j->parts[k].plan->params[i])) return true;
  return false;
}

static RtStatus load_tensors(Job *j, RtSt *st) {
  if (has_params(j) || st->n_tensors == 0 || j->load.n_extra) return take(j, st);
  for (uint32_t k = 0; k < st->n_tensors; k++) list(j->load.report, st->tensors[k].name, EXTRA);
  rt_fail(rt_instance_warning_buffer(j->given[0].inst), RT_WARNING_SIZE,
          "%.300s: the file has %" PRIu32 " entries and the program has no parameters: nothing was loaded", j->path,
          st->n_tensors);
  return RT_OK;
}

static bool open_file(Job *j, RtSt *st) {
  return rt_source_open(&j->file, j->path, error_of(j), RT_ERROR_SIZE) &&
         rt_st_read_header(j->mem, &j->file, st, error_of(j), RT_ERROR_SIZE);
}

static RtStatus load(Job *j) {
  RtSt st;
  rt_instance_warning_buffer(j->given[0].inst)[0] = 0;
  return open_file(j, &st) ? load_tensors(j, &st) : RT_ERR_FILE;
}

RtStatus rt_store_load(const RtPart *parts, size_t n, const char *path, const RtLoadOptions *o) {
  Job j = {.given = parts, .n_parts = n, .path = path, .load = *o, .with_state = o->with_state};
  if (!check_extras(&j, o->extra, o->n_extra)) return RT_ERR_ARGUMENT;
  RtStatus status = with_arena(&j, load);
  for (size_t k = 0; k < n; k++) rt_instance_drop_others(parts[k].inst);
  return status;
}

RtStatus rt_instance_load(RtInstance *i, const char *path, bool with_state) {
  return rt_store_load(&(RtPart){i, NULL}, 1, path, &(RtLoadOptions){.with_state = with_state});
}

// ---- the size of an extra: a load that takes nothing

typedef struct {
  Job job;
  const char *name;
  size_t *size;
} SizeJob;

static RtStatus find_size(Job *j) {
  const SizeJob *q = (const SizeJob *)(const void *)j;
  RtSt st;
  if (!open_file(j, &st)) return RT_ERR_FILE;
  const RtStTensor *t = rt_st_find(&st, extra_name(j, q->name));
  if (!t) rt_fail(error_of(j), RT_ERROR_SIZE, "%.500s: the extra '%.200s' is missing", j->path, q->name);
  else *q->size = (size_t)t->size;
  return t ? RT_OK : RT_ERR_FILE;
}

RtStatus rt_extra_size(RtInstance *i, const char *path, const char *name, size_t *size) {
  RtPart part = {i, NULL};
  SizeJob q = {.job = {.given = &part, .n_parts = 1, .path = path}, .name = name, .size = size};
  return with_arena(&q.job, find_size);
}

// ---- copy: a load from the other instance's memory

typedef struct {
  Job job;
  const RtInstance *from;
} CopyJob;

// Every path, aliases too, is a name of its own: the other side may know a parameter by any of them.
static void list_source(const Job *j, const RtInstance *from, RtSt *st) {
  Part source = {.inst = (RtInstance *)from, .plan = rt_instance_plan(from), .prefix = ""};
  for (uint32_t k = 0; k < source.plan->n_params; k++) {
    const RtParam *p = &source.plan->params[k];
    if (!is_wanted(j, p)) continue;
    RtStTensor t = tensor_of(j, &source, p);
    *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
    for (uint32_t a = 0; a < p->n_aliases; a++) {
      t.name = p->aliases[a];
      *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
    }
  }
  rt_st_index(j->mem, st);
}

static RtStatus copy(Job *j) {
  const RtInstance *from = ((const CopyJob *)(const void *)j)->from;
  RtSt st = {0};
  list_source(j, from, &st);
  rt_st_add_meta(j->mem, &st, key_runs, rt_printf(j->mem, "%" PRIu64, rt_instance_counter(from)));
  rt_st_add_meta(j->mem, &st, key_seed, rt_printf(j->mem, "%" PRIu64, rt_instance_seed(from)));
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
  return to == from ? RT_OK : with_arena(&c.job, copy);
}
