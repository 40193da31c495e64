#include "codegen/bundle/constants.h"
#include <llvm-c/TargetMachine.h>

#include <string.h>

enum { MAX_FIELDS = 32 };

// ---- values
void cg_constants_open(CgConstants *k, LLVMModuleRef mod, RtArena *mem) {
  LLVMContextRef ctx = LLVMGetModuleContext(mod);
  *k = (CgConstants){.mod = mod,
                     .ctx = ctx,
                     .i8 = LLVMInt8TypeInContext(ctx),
                     .i32 = LLVMInt32TypeInContext(ctx),
                     .i64 = LLVMInt64TypeInContext(ctx),
                     .size = LLVMIntPtrTypeInContext(ctx, LLVMGetModuleDataLayout(mod)),
                     .ptr = LLVMPointerTypeInContext(ctx, 0),
                     .mem = mem};
}

static LLVMValueRef u8(CgConstants *k, uint8_t v) { return LLVMConstInt(k->i8, v, false); }
static LLVMValueRef u32(CgConstants *k, uint32_t v) { return LLVMConstInt(k->i32, v, false); }
static LLVMValueRef i64(CgConstants *k, int64_t v) { return LLVMConstInt(k->i64, (uint64_t)v, true); }
static LLVMValueRef size(CgConstants *k, size_t v) { return LLVMConstInt(k->size, v, false); }
static LLVMValueRef null(CgConstants *k) { return LLVMConstNull(k->ptr); }

LLVMValueRef cg_constant_global(CgConstants *k, LLVMValueRef value, const char *name) {
  LLVMValueRef g = LLVMAddGlobal(k->mod, LLVMTypeOf(value), name);
  LLVMSetInitializer(g, value);
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMInternalLinkage);
  return g;
}

static LLVMValueRef bytes_constant(CgConstants *k, const void *bytes, size_t n) {
  return LLVMConstStringInContext2(k->ctx, bytes, n, true);
}

LLVMValueRef cg_constant_bytes(CgConstants *k, const void *bytes, size_t n, uint32_t align) {
  if (!bytes || !n) return null(k);
  LLVMValueRef g = cg_constant_global(k, bytes_constant(k, bytes, n), "bytes");
  LLVMSetAlignment(g, align);
  return g;
}

LLVMValueRef cg_constant_string(CgConstants *k, const char *s) {
  if (!s) return null(k);
  LLVMValueRef g = cg_constant_global(k, bytes_constant(k, s, strlen(s) + 1), "text");
  LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);  // the linker may merge equal ones
  LLVMSetAlignment(g, 1);
  return g;
}

static LLVMValueRef structure(CgConstants *k, LLVMValueRef *field, uint32_t n) {
  return LLVMConstStructInContext(k->ctx, field, n, false);
}
#define STRUCT(...) \
  structure(k, (LLVMValueRef[]){__VA_ARGS__}, sizeof((LLVMValueRef[]){__VA_ARGS__}) / sizeof(LLVMValueRef))

// The address of a table of n rows, which are all of one type; none: null.
static LLVMValueRef table(CgConstants *k, LLVMValueRef *row, uint32_t n, const char *name) {
  return n ? cg_constant_global(k, LLVMConstArray2(LLVMTypeOf(row[0]), row, n), name) : null(k);
}

static LLVMValueRef *rows(CgConstants *k, size_t n) { return rt_alloc(k->mem, (n + 1) * sizeof(LLVMValueRef)); }

static LLVMValueRef u32_table(CgConstants *k, const uint32_t *v, uint32_t n, const char *name) {
  LLVMValueRef *row = rows(k, n);
  for (uint32_t i = 0; i < n; i++) row[i] = u32(k, v[i]);
  return table(k, row, n, name);
}

static LLVMValueRef string_table(CgConstants *k, const char *const *s, uint32_t n, const char *name) {
  LLVMValueRef *row = rows(k, n);
  for (uint32_t i = 0; i < n; i++) row[i] = cg_constant_string(k, s[i]);
  return table(k, row, n, name);
}

static LLVMValueRef u32_array(CgConstants *k, const uint32_t *v, uint32_t n) {
  LLVMValueRef *row = rows(k, n);
  for (uint32_t i = 0; i < n; i++) row[i] = u32(k, v[i]);
  return LLVMConstArray2(k->i32, row, n);
}

static LLVMValueRef i64_array(CgConstants *k, const int64_t *v, uint32_t n) {
  LLVMValueRef *row = rows(k, n);
  for (uint32_t i = 0; i < n; i++) row[i] = i64(k, v[i]);
  return LLVMConstArray2(k->i64, row, n);
}

// ---- RtPlan and its tables, field by field (runtime/exec/plan_types.h)
static LLVMValueRef slots_of(CgConstants *k, const RtPlan *p) {
  LLVMValueRef *row = rows(k, p->n_slots);
  for (uint32_t i = 0; i < p->n_slots; i++)
    row[i] = STRUCT(cg_constant_string(k, p->slots[i].name), i64(k, p->slots[i].bound));
  return table(k, row, p->n_slots, "slots");
}

static LLVMValueRef dims_of(CgConstants *k, const RtPlan *p) {
  LLVMValueRef *row = rows(k, p->n_dims);
  for (uint32_t i = 0; i < p->n_dims; i++) {
    const RtDim *d = &p->dims[i];
    row[i] = STRUCT(u8(k, d->kind), i64(k, d->value), u32(k, d->a), u32(k, d->b));
  }
  return table(k, row, p->n_dims, "dims");
}

static LLVMValueRef ports_of(CgConstants *k, const RtPort *p, uint32_t n) {
  LLVMValueRef *row = rows(k, n);
  for (uint32_t i = 0; i < n; i++)
    row[i] = STRUCT(cg_constant_string(k, p[i].name), u32(k, p[i].dtype), u32(k, p[i].rank),
                    u32_array(k, p[i].dims, RT_MAX_RANK));
  return table(k, row, n, "ports");
}

static LLVMValueRef lengths_of(CgConstants *k, const RtPlan *p, const RtCheck *c) {
  if (!c->lengths) return null(k);
  return cg_constant_global(k, i64_array(k, c->lengths, (uint32_t)p->dims[c->batch].value), "lengths");
}

static LLVMValueRef checks_of(CgConstants *k, const RtPlan *p, const RtFunction *f) {
  LLVMValueRef *row = rows(k, f->n_checks);
  for (uint32_t i = 0; i < f->n_checks; i++) {
    const RtCheck *c = &f->checks[i];
    row[i] = STRUCT(u32(k, c->input), i64(k, c->lo), u32(k, c->hi), u32(k, c->sum), u8(k, c->is_inclusive),
                    u8(k, c->is_sorted), u8(k, c->has_sum), u8(k, c->is_exact), cg_constant_string(k, c->what),
                    u8(k, c->has_other), i64(k, c->other), i64(k, c->group), i64(k, c->first), i64(k, c->size),
                    u8(k, c->is_packed), u8(k, c->time_major), lengths_of(k, p, c), u32(k, c->of_input),
                    u32(k, c->batch), u32(k, c->time), i64(k, c->row));
  }
  return table(k, row, f->n_checks, "checks");
}

static LLVMValueRef size_checks_of(CgConstants *k, const RtFunction *f) {
  LLVMValueRef *row = rows(k, f->n_size_checks);
  for (uint32_t i = 0; i < f->n_size_checks; i++)
    row[i] = STRUCT(u32(k, f->size_checks[i].dim), cg_constant_string(k, f->size_checks[i].what));
  return table(k, row, f->n_size_checks, "size_checks");
}

typedef struct {
  CgConstants *k;
  const RtPlan *p;
  CgEntryFinder *find;
  void *ctx;
} PlanWriter;

static LLVMValueRef variants_of(const PlanWriter *w, uint32_t function) {
  CgConstants *k = w->k;
  const RtFunction *f = &w->p->functions[function];
  LLVMValueRef *row = rows(k, f->n_variants);
  for (uint32_t i = 0; i < f->n_variants; i++) {
    const RtVariant *v = &f->variants[i];
    LLVMValueRef *fit = rows(k, v->n_fits);
    for (uint32_t j = 0; j < v->n_fits; j++) fit[j] = STRUCT(u32(k, v->fits[j].slot), i64(k, v->fits[j].bound));
    row[i] = STRUCT(table(k, fit, v->n_fits, "fits"), u32(k, v->n_fits), w->find(w->ctx, function, i),
                    i64(k, v->arena_bytes), null(k), u32(k, v->max_workers));
  }
  return table(k, row, f->n_variants, "variants");
}

static LLVMValueRef uses_of(CgConstants *k, const RtFunction *f) {
  LLVMValueRef *row = rows(k, f->n_uses);
  for (uint32_t i = 0; i < f->n_uses; i++) row[i] = STRUCT(u32(k, f->uses[i].param), u8(k, f->uses[i].is_written));
  return table(k, row, f->n_uses, "uses");
}

static LLVMValueRef function_of(const PlanWriter *w, uint32_t i) {
  CgConstants *k = w->k;
  const RtFunction *f = &w->p->functions[i];
  return STRUCT(cg_constant_string(k, f->name), w->find(w->ctx, i, f->n_variants), ports_of(k, f->inputs, f->n_inputs),
                ports_of(k, f->outputs, f->n_outputs), u32(k, f->n_inputs), u32(k, f->n_outputs), checks_of(k, w->p, f),
                size_checks_of(k, f), u32(k, f->n_checks), u32(k, f->n_size_checks), i64(k, f->arena_bytes), null(k),
                u32(k, f->max_workers), variants_of(w, i), u32(k, f->n_variants), null(k), null(k), u32(k, 0),
                u32(k, 0), uses_of(k, f), u32(k, f->n_uses), u8(k, f->only_reads), u8(k, f->is_internal),
                i64(k, f->block_bytes), null(k));
}

static LLVMValueRef functions_of(const PlanWriter *w) {
  LLVMValueRef *row = rows(w->k, w->p->n_functions);
  for (uint32_t i = 0; i < w->p->n_functions; i++) row[i] = function_of(w, i);
  return table(w->k, row, w->p->n_functions, "functions");
}

// Without the places where parameters were made: of the machine that compiled.
static LLVMValueRef params_of(CgConstants *k, const RtPlan *p) {
  LLVMValueRef *row = rows(k, p->n_params);
  for (uint32_t i = 0; i < p->n_params; i++) {
    const RtParam *q = &p->params[i];
    row[i] = STRUCT(cg_constant_string(k, q->path), string_table(k, q->aliases, q->n_aliases, "aliases"),
                    u32(k, q->n_aliases), u8(k, q->kind), u32(k, q->dtype), u32(k, q->rank),
                    i64_array(k, q->dims, RT_MAX_RANK), i64(k, q->offset), i64(k, q->bytes), null(k), u32(k, 0));
  }
  return table(k, row, p->n_params, "params");
}

static LLVMValueRef hypers_of(CgConstants *k, const RtPlan *p) {
  LLVMValueRef *row = rows(k, p->n_hypers);
  for (uint32_t i = 0; i < p->n_hypers; i++)
    row[i] = STRUCT(u32(k, p->hypers[i].param), u32(k, p->hypers[i].group), u8(k, p->hypers[i].kind));
  return table(k, row, p->n_hypers, "hypers");
}

LLVMValueRef cg_constant_plan(CgConstants *k, const RtPlan *p, LLVMValueRef consts, CgEntryFinder *find, void *ctx) {
  PlanWriter w = {k, p, find, ctx};
  LLVMValueRef plan =
      STRUCT(slots_of(k, p), dims_of(k, p), functions_of(&w), params_of(k, p), u32(k, p->n_slots), u32(k, p->n_dims),
             u32(k, p->n_functions), u32(k, p->n_params), u32(k, p->init), i64(k, p->param_bytes), consts, null(k),
             u32(k, 0), i64(k, 0), null(k), hypers_of(k, p), u32(k, p->n_hypers), null(k));
  return cg_constant_global(k, plan, "plan");
}

// ---- TnBundleAbout (runtime/bundle/about.h)
static LLVMValueRef arrays_of(CgConstants *k, const TnBundleArray *a, uint32_t n) {
  LLVMValueRef *row = rows(k, n);
  for (uint32_t i = 0; i < n; i++)
    row[i] = STRUCT(cg_constant_string(k, a[i].name), cg_constant_string(k, a[i].shape), u32(k, a[i].dtype),
                    u32(k, a[i].rank));
  return table(k, row, n, "arrays");
}

static LLVMValueRef listed_functions(CgConstants *k, const TnBundleAbout *a, LLVMValueRef *calls) {
  LLVMValueRef *row = rows(k, a->n_functions);
  for (uint32_t i = 0; i < a->n_functions; i++) {
    const TnBundleFunction *f = &a->functions[i];
    row[i] = STRUCT(cg_constant_string(k, f->name), size(k, f->arena_bytes), arrays_of(k, f->inputs, f->n_inputs),
                    arrays_of(k, f->outputs, f->n_outputs), string_table(k, f->dims, f->n_dims, "dims"),
                    u32(k, f->n_inputs), u32(k, f->n_outputs), u32(k, f->n_dims), calls[i]);
  }
  return table(k, row, a->n_functions, "listed");
}

static LLVMValueRef tensors_of(CgConstants *k, const TnBundleAbout *a) {
  LLVMValueRef *row = rows(k, a->n_tensors);
  for (uint32_t i = 0; i < a->n_tensors; i++) {
    const TnBundleTensor *t = &a->tensors[i];
    row[i] = STRUCT(cg_constant_string(k, t->path), cg_constant_string(k, t->field), u32(k, t->kind), u32(k, t->dtype),
                    u32(k, t->rank), i64_array(k, t->sizes, RT_MAX_RANK), size(k, t->offset), size(k, t->bytes));
  }
  return table(k, row, a->n_tensors, "tensors");
}

static LLVMValueRef bounds_of(CgConstants *k, const TnBundleAbout *a) {
  LLVMValueRef *row = rows(k, a->n_dims);
  for (uint32_t i = 0; i < a->n_dims; i++)
    row[i] = STRUCT(cg_constant_string(k, a->dims[i].name), i64(k, a->dims[i].max));
  return table(k, row, a->n_dims, "bounds");
}

LLVMValueRef cg_constant_about(CgConstants *k, const TnBundleAbout *a, const CgBundleCode *code) {
  return STRUCT(u32(k, a->version), u32(k, a->abi), i64(k, (int64_t)a->plan), cg_constant_string(k, a->name),
                cg_constant_string(k, a->compiler), size(k, a->state_bytes), size(k, a->arena_bytes), u32(k, a->align),
                u32(k, a->n_dims), u32(k, a->n_functions), u32(k, a->n_tensors), u32(k, a->n_targets), bounds_of(k, a),
                listed_functions(k, a, code->calls), tensors_of(k, a),
                string_table(k, a->targets, a->n_targets, "targets"), code->cpu, code->init, code->load, code->save,
                code->error, code->plans);
}

// ---- TnBundle (runtime/bundle/bundle.h)
static LLVMValueRef cpus_of(CgConstants *k, const TnBundle *b) {
  LLVMValueRef *row = rows(k, b->about->n_targets);
  for (uint32_t t = 0; t < b->about->n_targets; t++) {
    const TnBundleCpu *c = &b->cpus[t];
    LLVMValueRef word[TN_CPU_WORDS];
    for (uint32_t w = 0; w < TN_CPU_WORDS; w++) word[w] = u32(k, c->word[w]);
    row[t] = STRUCT(LLVMConstArray2(k->i32, word, TN_CPU_WORDS), i64(k, (int64_t)c->state));
  }
  return table(k, row, b->about->n_targets, "cpus");
}

static LLVMValueRef pieces_of(CgConstants *k, const TnBundle *b) {
  LLVMValueRef *row = rows(k, b->n_pieces);
  for (uint32_t p = 0; p < b->n_pieces; p++) row[p] = STRUCT(size(k, b->pieces[p].offset), size(k, b->pieces[p].bytes));
  return table(k, row, b->n_pieces, "pieces");
}

static size_t sentence_bytes(const TnBundle *b) {
  const char *last = b->sentences + b->sentence_at[b->n_sentences - 1];
  return (size_t)(last - b->sentences) + strlen(last) + 1;
}

LLVMValueRef cg_constant_bundle(CgConstants *k, const TnBundle *b, LLVMValueRef about, LLVMValueRef weights) {
  uint32_t n_functions = b->about->plans[0]->n_functions;
  LLVMValueRef bundle =
      STRUCT(about, cpus_of(k, b), cg_constant_bytes(k, b->sentences, sentence_bytes(b), 1),
             u32_table(k, b->sentence_at, b->n_sentences, "sentence_at"), u32(k, b->n_sentences),
             u32_table(k, b->function_status, n_functions, "function_status"), u32(k, b->tensor_status),
             string_table(k, b->aliases, b->n_aliases, "aliases"), u32_table(k, b->alias_of, b->n_aliases, "alias_of"),
             u32(k, b->n_aliases), cg_constant_bytes(k, b->file_header, b->file_header_bytes, 1),
             size(k, b->file_header_bytes), size(k, b->file_bytes), size(k, b->seed_at), size(k, b->runs_at),
             u32_table(k, b->file_order, b->about->n_tensors, "file_order"), u32(k, b->needs_state), weights,
             pieces_of(k, b), u32(k, b->n_pieces));
  return cg_constant_global(k, bundle, "bundle");
}
