// tn_bundle: the program is placed once for each target, from its text, so that passes of one do not see those of another;
// codegen/bundle makes the object, and texts.h what stands beside it.
#include "frontend/tenure/bundle.h"
#include "codegen/bundle/emit.h"
#include "frontend/bundle/link.h"
#include "frontend/bundle/texts.h"
#include "frontend/compile/compile.h"
#include "ir/intern.h"
#include "ir/keep_functions.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "runtime/near.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TARGETS = 8 };

typedef struct {
  tn_program *p;  // whose errors say what went wrong
  const tn_bundle_options *o;
  const char *path, *name;
  Target *target[MAX_TARGETS];
  tn_program *placed[MAX_TARGETS];
  uint32_t n_targets;
  tn_program *here;  // compiled for this machine
  tn_model *model;
  bool same_target;  // the model's is the bundle's: same bits
  TnBundle facts;
  size_t *stack_bytes;        // CgBundle's
  CgObject file[CG_N_FORMS];  // in `block`
  void *block;
  bool wants_archive, wants_shared;
} Bundle;

static bool refuse(Bundle *b, const char *what, const char *which) {
  fe_error(b->p, E_ARGUMENT, b->o->at, what, which);  // NOLINT: `what` has one %s
  return false;
}

// ---- options
// The next word of a comma-separated list, NULL at its end.
static const char *next_word(RtArena *mem, const char **list) {
  size_t n = strcspn(*list, ",");
  if (!**list) return NULL;
  const char *word = rt_strndup(mem, *list, n);
  *list += n + ((*list)[n] == ',');
  return word;
}

// A target and the words behind it: "aarch64,cpu=cortex-a76,features=+dotprod,+rcpc".
static const char *next_target(RtArena *mem, const char **list) {
  const char *target = next_word(mem, list);
  while (target && **list) {
    const char *rest = *list, *word = next_word(mem, &rest);
    if (!strchr(word, '=') && *word != '+' && *word != '-') break;
    target = rt_printf(mem, "%s,%s", target, word);
    *list = rest;
  }
  return target;
}

// What begins with a _ is C's own at file scope. A keyword is none any more with what follows the name.
static bool is_stem(const char *s) {
  bool good = *s && *s != '_' && !(*s >= '0' && *s <= '9');
  for (; *s; s++) good &= (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_';
  return good;
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool read_name(Bundle *b) {
  if (!b->path || !*b->path) return refuse(b, "a bundle wants a path for its files%s", "");
  b->name = b->o->name ? b->o->name : last_part(b->path);
  if (is_stem(b->name)) return true;
  return refuse(b,
                "'%s' cannot be a bundle's name: all its symbols begin with it, so that it is a letter and then "
                "letters, digits and _",
                b->name);
}

static bool read_emit(Bundle *b, bool wants[CG_N_FORMS]) {
  const char *list_of_forms = b->o->emit ? b->o->emit : "o", *list = list_of_forms;
  if (!*list) return refuse(b, "the list of forms is empty: o, a, so, s, ll, bc, c%s", "");
  for (const char *word; (word = next_word(b->p->mem, &list));) {
    bool is_archive = !strcmp(word, "a"), is_shared = !strcmp(word, "so");
    b->wants_archive |= is_archive, b->wants_shared |= is_shared;
    if (!strcmp(word, "o") || is_archive || is_shared) wants[CG_OBJECT_FILE] = true;
    else if (!strcmp(word, "s")) wants[CG_ASSEMBLY] = true;
    else if (!strcmp(word, "ll")) wants[CG_LLVM_TEXT] = true;
    else if (!strcmp(word, "bc")) wants[CG_BITCODE] = true;
    else if (!strcmp(word, "c")) wants[CG_C_TEXT] = true;
    else return refuse(b, "a bundle cannot be emitted as '%s': o, a, so, s, ll, bc, c", word);
  }
  bool has_others = wants[CG_OBJECT_FILE] || wants[CG_ASSEMBLY];
  if (!wants[CG_C_TEXT] || !has_others) return true;
  return refuse(b, "C is for any machine, objects and assembly are for one: a bundle each, not %s", list_of_forms);
}

static bool add_target(Bundle *b, const Target *row) {
  if (b->n_targets == MAX_TARGETS) return refuse(b, "a bundle has at most %s targets", "8");
  if (b->n_targets && strcmp(row->triple, b->target[0]->triple))
    return refuse(b, "target '%s' is of another family than those before it", row->name);
  Target *t = rt_alloc(b->p->mem, sizeof *t);
  *t = *row;
  t->without_blas = true;
  b->target[b->n_targets++] = t;
  return true;
}

// Of several the best comes first: NAME_init takes the first that the CPU has.
static int by_rank(const void *a, const void *b) {
  const Target *x = *(const Target *const *)a, *y = *(const Target *const *)b;
  return x->vl != y->vl ? (x->vl < y->vl) - (x->vl > y->vl) : 0;
}

static bool read_c_target(Bundle *b) {
  const Target *t = cg_target_c99(b->o->targets ? b->o->targets : "c64");
  if (t) return add_target(b, t);
  return refuse(b, "C is written for target 'c64' or 'c32', which have pointers of 64 and 32 bits, not '%s'",
                b->o->targets);
}

static bool read_targets(Bundle *b, bool is_c) {
  RtText why = {.mem = b->p->mem};
  if (is_c) return read_c_target(b);
  Target host;
  if (!b->o->targets) {
    if (!cg_target_pick(&host, getenv("TN_TARGET"), &why)) return refuse(b, "%s", why.text);
    return add_target(b, cg_target_ahead(&host));
  }
  const char *list = b->o->targets;
  for (const char *words; (words = next_target(b->p->mem, &list));) {
    Target t;
    if (!cg_target_named(&t, b->p->mem, words, &why)) return refuse(b, "%s", why.text);
    if (!add_target(b, &t)) return false;
  }
  if (!b->n_targets) return refuse(b, "the list of targets is empty%s", "");
  qsort(b->target, b->n_targets, sizeof *b->target, by_rank);
  return true;
}

static bool check_function(Bundle *b, const tn_program *q, const char *name) {
  const Prog *ir = q->ir;
  RtNear near = {.wanted = name};
  for (uint32_t k = 0; k < ir->n_fns; k++) {
    const char *other = ir_text(ir, ir->fns[k]->name);
    if (ir->fns[k] == q->init) continue;
    if (!strcmp(other, name)) return true;
    rt_near_offer(&near, other);
  }
  return refuse(b, "the program has no function '%s", rt_printf(b->p->mem, "%s'%s", name, rt_near_or_all(&near)));
}

static bool check_functions(Bundle *b, const tn_program *q) {
  const char *list = b->o->functions;
  if (list && !*list) return refuse(b, "the list of functions is empty%s", "");
  for (const char *word; list && (word = next_word(b->p->mem, &list));)
    if (!check_function(b, q, word)) return false;
  return true;
}

// ---- programs from the text
static void take_reports(Bundle *b, const tn_program *q) {
  const RtDiags *from = &q->ir->diags;
  for (uint32_t k = 0; k < from->n; k++) {
    const RtDiag *d = &from->list[k];
    const char *file = d->file ? rt_strdup(b->p->mem, d->file) : NULL;
    rt_diag(&b->p->ir->diags, d->severity, d->id, file, d->line, "%s", d->text);
  }
}

static tn_program *read_again(Bundle *b) {
  tn_program *q = fe_program_of(b->p, b->path);
  if (!q) return b->p->oom = true, NULL;
  if (!check_functions(b, q)) return q;
  if (b->o->functions) ir_keep_functions(q->ir, b->o->functions, q->init);
  return q;
}

// A dim of the user's program as that of the same name of q.
static bool same_dim(Bundle *b, tn_program *q, tn_dim dim, tn_dim *out) {
  Dim d;
  *out = dim;
  if (!fe_dim(b->p, dim, &d, b->o->at)) return false;
  if (ir_dim_info(b->p->ir, d)->kind != DIM_SYM) return true;  // fe_buckets reports it
  const char *name = ir_text(b->p->ir, ir_dim_info(b->p->ir, d)->name);
  Dim found = ir_dim_find(q->ir, name);
  if (!found.i) return refuse(b, "a bucket is for the dim '%s', which no function has", name);
  *out = fe_dim_handle(q, found);
  return true;
}

static bool take_buckets(Bundle *b, tn_program *q, tn_compile_options *o) {
  if (!b->o->buckets || !b->o->n_buckets) return o->n_buckets = b->o->n_buckets, true;  // fe_buckets reports it
  tn_bucket *list = rt_alloc(q->mem, b->o->n_buckets * sizeof *list);
  for (size_t k = 0; k < b->o->n_buckets; k++) {
    list[k].bound = b->o->buckets[k].bound;
    if (!same_dim(b, q, b->o->buckets[k].dim, &list[k].dim)) return false;
  }
  o->buckets = list;
  o->n_buckets = b->o->n_buckets;
  return true;
}

static bool place(Bundle *b, uint32_t t) {
  tn_compile_options o = {.no_packed_weights = true,
                          .fast_math = b->o->fast_math,
                          .exact_convolution = b->o->exact_convolution,
                          .arena_limit = b->o->arena_limit,
                          .recompute = b->o->recompute,
                          .at = b->o->at};
  tn_program *q = b->placed[t] = read_again(b);
  if (!q) return false;
  q->is_for_object = true;
  FE_GUARD(q, false);
  if (b->p->ir->diags.n_errors || !take_buckets(b, q, &o) || !fe_begin_code(q, o.at)) return false;
  bool good = fe_place(q, b->target[t], &o);
  fe_end_code(q);
  return good;
}

static bool place_all(Bundle *b) {
  for (uint32_t t = 0; t < b->n_targets; t++) {
    bool good = place(b, t);
    if (!good && b->placed[t]) take_reports(b, b->placed[t]);
    if (!good) return false;
  }
  return true;
}

// The same program on this machine: initial values, and the numbers that the selftest expects.
static bool compile_here(Bundle *b) {
  const tn_compile_options o = {.n_workers = 1,
                                .no_packed_weights = true,
                                .fast_math = b->o->fast_math,
                                .exact_convolution = b->o->exact_convolution,
                                .arena_limit = b->o->arena_limit,
                                .recompute = b->o->recompute,
                                .seed = b->o->seed,
                                .at = b->o->at};
  char lack[TARGET_LACK];
  Target *best = NULL;
  for (uint32_t t = 0; t < b->n_targets && !best; t++)
    if (b->target[t]->has_image && cg_target_runs_here(b->target[t], lack)) best = b->target[t];
  b->same_target = best != NULL;
  if (!(b->here = read_again(b))) return false;
  FE_GUARD(b->here, false);
  Target *copy = best ? rt_alloc(b->here->mem, sizeof *copy) : NULL;
  if (best) *copy = *best;
  b->model = fe_compile_for(b->here, copy, &o);
  if (!b->model) take_reports(b, b->here);
  return b->model != NULL;
}

static bool load_weights(Bundle *b) {
  if (!b->o->weights || rt_instance_load_to_use(b->model->inst, b->o->weights, RT_NO_FUNCTION) == RT_OK) return true;
  fe_error(b->p, E_ARGUMENT, b->o->at, "%s", tn_error_text(b->model));
  return false;
}

// ---- the object
static uint64_t plan_hash(const Bundle *b) {
  RtText key = {.mem = b->p->mem};
  for (uint32_t t = 0; t < b->n_targets; t++) cg_target_key(b->target[t], &key);
  rt_text_add(&key, "%s\n%s\n%d%d%d%d\n", b->name, b->o->functions ? b->o->functions : "", b->o->has_workers,
              b->o->small, b->o->fast_math, b->o->exact_convolution);
  ir_text_of(b->p->ir, b->p->built, true, &key);
  uint64_t hash = rt_hash(key.text, key.len, TN_BUNDLE_ABI);
  return hash ? hash : 1;
}

static bool make_facts(Bundle *b, const RtPlan **plans) {
  RtText why = {.mem = b->p->mem};
  for (uint32_t t = 0; t < b->n_targets; t++) plans[t] = &b->placed[t]->code->plan;
  CgBundleFacts in = {.name = b->name,
                      .hash = plan_hash(b),
                      .plans = plans,
                      .targets = (const Target *const *)b->target,
                      .n_targets = b->n_targets,
                      .weights = b->o->embed_weights ? rt_instance_block(b->model->inst) : NULL};
  if (cg_bundle_facts(b->p->mem, &in, &b->facts, &why)) return true;
  fe_error(b->p, E_CODEGEN, b->o->at, "%s", why.text);
  return false;
}

static bool make_object(Bundle *b) {
  RtText why = {.mem = b->p->mem};
  CgInfo info = {0};
  Prog *progs[MAX_TARGETS];
  b->stack_bytes = rt_alloc(b->p->mem, (b->facts.about->n_functions + 1) * sizeof *b->stack_bytes);
  for (uint32_t t = 0; t < b->n_targets; t++) progs[t] = b->placed[t]->ir;
  CgBundle in = {.facts = &b->facts,
                 .progs = progs,
                 .targets = (const Target *const *)b->target,
                 .section = b->o->section,
                 .has_workers = b->o->has_workers,
                 .small = b->o->small,
                 .stack_bytes = b->stack_bytes};
  if (!read_emit(b, in.wants)) return false;
  if (cg_bundle(b->p->mem, &in, b->file, &b->block, &info, &why)) return true;
  fe_error(b->p, E_CODEGEN, b->o->at, "%s", why.text ? why.text : "no object was made");
  return false;
}

// ---- files
static bool write_file(Bundle *b, const char *ending, const void *bytes, size_t n) {
  char why[512] = "";
  const char *path = rt_printf(b->p->mem, "%s%s", b->path, ending);
  if (rt_file_write(path, &(RtPiece){bytes, n}, 1, why, sizeof why)) return true;
  return refuse(b, "%s", why);
}

static bool write_forms(Bundle *b) {
  static const char *const ending[CG_N_FORMS] = {".o", ".s", ".ll", ".bc", ".c"};
  RtText why = {.mem = b->p->mem};
  bool good = true;
  for (int f = 0; f < CG_N_FORMS && good; f++)
    if (b->file[f].bytes) good = write_file(b, ending[f], b->file[f].bytes, b->file[f].size);
  const CgObject *object = &b->file[CG_OBJECT_FILE];
  RtText archive = {.mem = b->p->mem};
  if (good && b->wants_archive) {
    fe_archive(b->name, object, &b->facts, b->o->has_workers, &archive);
    good = write_file(b, ".a", archive.text, archive.len);
  }
  if (good && b->wants_shared && !fe_link_shared(b->p->mem, b->path, b->target[0]->triple, &why))
    good = refuse(b, "%s", why.text);
  return good;
}

// An instance in the state that NAME_init leaves.
static tn_model *initial(Bundle *b) {
  tn_model *m = tn_instance(b->model, FE_SELFTEST_SEED);
  if (!m) return b->p->oom = true, NULL;
  if (b->o->embed_weights) tn_copy_params(m, b->model, true);
  rt_instance_set_random(m->inst, FE_SELFTEST_SEED, 1);
  return m;
}

// What the selftest's calls give on this machine.
static bool expect(Bundle *b, const FeBundleText *in, FeBundleExpected *out) {
  tn_model *m = initial(b), *disturbed = m ? initial(b) : NULL;
  if (disturbed)
    *out = fe_bundle_expect(b->p->mem, in, fe_bundle_model(b->p->mem, m->inst),
                            fe_bundle_model(b->p->mem, disturbed->inst));
  tn_model_free(m), tn_model_free(disturbed);
  return disturbed != NULL;
}

// What the selftest does not call, nobody has tried.
static bool check_calls(Bundle *b, const FeBundleExpected *e) {
  for (uint32_t k = 0; k < b->facts.about->n_functions; k++)
    if (e->refused[k])
      fe_error(b->p, E_ARGUMENT, b->o->at, "the selftest cannot call '%s': no inputs were found that it takes: %s",
               b->facts.about->functions[k].name, e->refused[k]);
  return !b->p->ir->diags.n_errors;
}

static bool write_texts(Bundle *b) {
  RtText header = {.mem = b->p->mem}, json = header, selftest = header, plan = header;
  FeBundleExpected expected;
  const Prog *programs[MAX_TARGETS];
  for (uint32_t t = 0; t < b->n_targets; t++) programs[t] = b->placed[t]->ir;
  FeBundleText in = {.b = &b->facts,
                     .plan = &b->placed[0]->code->plan,
                     .ir = b->placed[0]->ir,
                     .file = last_part(b->path),
                     .has_workers = b->o->has_workers,
                     .is_c = b->file[CG_C_TEXT].bytes != NULL,
                     .certificate = ir_certificate(programs, b->n_targets, &plan),
                     .stack_bytes = b->stack_bytes};
  fe_bundle_header(&in, &header);
  fe_bundle_json(&in, &json);
  if (!expect(b, &in, &expected) || !check_calls(b, &expected)) return false;
  in.expected = &expected;
  fe_bundle_selftest(&in, &selftest);
  return write_file(b, ".h", header.text, header.len) && write_file(b, ".json", json.text, json.len) &&
         write_file(b, ".plan", plan.text, plan.len) && write_file(b, "_selftest.c", selftest.text, selftest.len);
}

static bool write_weights(Bundle *b) {
  const char *path = rt_printf(b->p->mem, "%s.safetensors", b->path);
  if (tn_save(b->model, path, true) == TN_OK) return true;
  return refuse(b, "%s", tn_error_text(b->model));
}

// ---- all
static bool make(Bundle *b) {
  const RtPlan **plans = rt_alloc(b->p->mem, MAX_TARGETS * sizeof *plans);
  bool wants[CG_N_FORMS] = {0};
  if (!read_name(b) || !read_emit(b, wants) || !read_targets(b, wants[CG_C_TEXT]) || !fe_seal(b->p, b->o->at))
    return false;
  if (!place_all(b)) return false;
  // the model has constants of its own: it comes after the compiler's process has ended, but for weights that are embedded
  bool embeds = b->o->embed_weights;
  if (embeds && !(compile_here(b) && load_weights(b))) return false;
  if (!make_facts(b, plans) || !make_object(b)) return false;
  if (!embeds && !(compile_here(b) && load_weights(b))) return false;
  return write_weights(b) && write_forms(b) && write_texts(b);
}

static void give_back(Bundle *b) {
  for (uint32_t t = 0; t < b->n_targets; t++) tn_program_free(b->placed[t]);
  rt_free(b->block);
  tn_model_free(b->model);
  tn_program_free(b->here);
}

static bool make_guarded(Bundle *b) {
  FE_GUARD(b->p, false);
  return make(b);
}

tn_status tn_bundle(tn_program *p, const char *path, tn_bundle_options o) {
  if (!p) return TN_ERR_ARGUMENT;
  Bundle *b = rt_malloc(sizeof *b);
  if (!b) return p->oom = true, TN_ERR_MEMORY;
  *b = (Bundle){.p = p, .o = &o, .path = path};
  bool good = make_guarded(b);
  give_back(b);
  rt_free(b);
  if (!o.quiet) fe_show(p, RT_WARNING);
  return good ? TN_OK : p->oom ? TN_ERR_MEMORY : TN_ERR_BUILD;
}
