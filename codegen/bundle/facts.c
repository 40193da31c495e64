#include "codegen/bundle/facts.h"
#include "codegen/cg.h"
#include "codegen/cpu_features.h"
#include "runtime/format.h"
#include "runtime/store/checkpoint.h"
#include "runtime/store/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_TEXT = 64 };

typedef struct {
  RtArena *mem;
  const CgBundleFacts *in;
  const RtPlan *plan;  // of the first target: what all share is read from it
  TnBundle *out;
  TnBundleAbout *about;
  RtText sentences;
  uint32_t *sentence_at, cap_sentences;
  RtText *why;
} Facts;

uint32_t cg_bundle_function(const RtPlan *p, uint32_t k) {
  return p->init != RT_NO_FUNCTION && k >= p->init ? k + 1 : k;
}

size_t cg_bundle_init_arena(const TnBundle *b) {
  size_t most = 0;
  for (uint32_t t = 0; t < b->about->n_targets; t++) {
    size_t bytes = tn_bundle_init_bytes(b->about->plans[t]);
    if (bytes > most) most = bytes;
  }
  return most;
}

// ---- sentences
static void say(Facts *f, const char *fmt, ...) RT_PRINTF(2, 3);
static void say(Facts *f, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  rt_vformat(text, sizeof text, fmt, args);
  va_end(args);
  *RT_PUSH(f->mem, f->sentence_at, f->out->n_sentences, f->cap_sentences) = (uint32_t)f->sentences.len;
  rt_text_put(&f->sentences, text, strlen(text) + 1);
}

static void say_fixed(Facts *f) {
  static const char *const text[TN_BUNDLE_N_FIXED] = {
      [TN_BUNDLE_OK] = "no error",
      [TN_BUNDLE_BAD_STATE] = "the state is NULL or not aligned to %d bytes",
      [TN_BUNDLE_NO_STATE] = "the state was not initialised by this bundle",
      [TN_BUNDLE_BAD_ARENA] = "the arena is NULL or not aligned to %d bytes",
      [TN_BUNDLE_SMALL_ARENA] = "the arena has fewer bytes than the function wants",
      [TN_BUNDLE_ARENA_OVERLAP] = "the arena overlaps the state",
      [TN_BUNDLE_NO_CPU] = "this CPU lacks instructions that the object was compiled for",
      [TN_BUNDLE_NO_ARGUMENTS] = "the struct of inputs or that of outputs is NULL",
      [TN_BUNDLE_BAD_WORKER] = "the worker's number, the number of workers or the barrier is not valid",
      [TN_BUNDLE_NO_FILE] = "the bytes are not a safetensors file",
      [TN_BUNDLE_SHORT_FILE] = "the safetensors file ends before what its header names",
      [TN_BUNDLE_BAD_RANDOM] = "the seed or the run counter in the file's metadata is not a number",
      [TN_BUNDLE_SMALL_BUFFER] = "the buffer is NULL or has fewer bytes than the file takes",
      [TN_BUNDLE_PART_STATE] = "the file holds some of the optimizer's entries, but not all",
      [TN_BUNDLE_FILE_OVERLAP] = "the file's bytes overlap the state",
      [TN_BUNDLE_NAME_TWICE] = "a name stands in the file's header twice",
      [TN_BUNDLE_MANY_NAMES] = "the file's header has more names than a bundle of so many tensors reads"};
  for (int k = 0; k < TN_BUNDLE_N_FIXED; k++) say(f, text[k], TN_ALIGN);  // NOLINT: all formats are above
}

static void say_input(Facts *f, const char *function, const RtPort *p) {
  say(f, "%s: input '%s' is NULL", function, p->name);
  say(f, "%s: input '%s' is not aligned to %zu bytes", function, p->name, rt_dtype_bytes(p->dtype));
  say(f, "%s: input '%s' is memory of a parameter, which the call updates", function, p->name);
  say(f, "%s: input '%s' overlaps the arena", function, p->name);
}

static void say_output(Facts *f, const char *function, const RtPort *p) {
  say(f, "%s: output '%s' is NULL", function, p->name);
  say(f, "%s: output '%s' is not aligned to %zu bytes", function, p->name, rt_dtype_bytes(p->dtype));
  say(f, "%s: output '%s' overlaps an input, another output, the state or the arena", function, p->name);
}

// A limit as far as it is known: a number, the name of a size, or else that there is one
static const char *dim_text(const Facts *f, uint32_t row, char text[static LIMIT_TEXT]) {
  const RtDim *d = &f->plan->dims[row];
  if (d->kind == RT_DIM_CONST) snprintf(text, LIMIT_TEXT, "%" PRId64, d->value);
  else snprintf(text, LIMIT_TEXT, "%.40s", d->kind == RT_DIM_SLOT ? f->plan->slots[d->value].name : "what dims allow");
  return text;
}

static void say_check(Facts *f, const RtFunction *fn, const RtCheck *c) {
  char limit[LIMIT_TEXT];
  const char *input = fn->inputs[c->input].name;
  const char *article = *c->what == 'i' ? "an" : "a";  // index; label, length
  const RtDim *hi = &f->plan->dims[c->hi];
  char other[64] = "", last[64] = "its limit, which dims set";
  if (c->has_other) snprintf(other, sizeof other, ", nor %" PRId64 ", which is ignored", c->other);
  if (hi->kind == RT_DIM_CONST) snprintf(last, sizeof last, "%" PRId64, hi->value - !c->is_inclusive);
  if (hi->kind == RT_DIM_SLOT)
    snprintf(last, sizeof last, "%.40s%s", f->plan->slots[hi->value].name, c->is_inclusive ? "" : " - 1");
  say(f, "%s: input '%s': %s %s is not in %" PRId64 " .. %s%s", fn->name, input, article, c->what, c->lo, last, other);
  say(f, "%s: input '%s': %s %s is above the one before it, and sorting is enforced", fn->name, input, article,
      c->what);
  if (c->is_exact)
    say(f, "%s: input '%s': the %ss do not sum to %s", fn->name, input, c->what, dim_text(f, c->sum, limit));
  else
    say(f, "%s: input '%s': the %ss sum to more than %s, the bound of the rows that they pack", fn->name, input,
        c->what, dim_text(f, c->sum, limit));
}

static void say_function(Facts *f, const TnBundleFunction *listed, const RtFunction *fn) {
  for (uint32_t d = 0; d < listed->n_dims; d++) {
    int64_t max = 0;
    for (uint32_t s = 0; s < f->plan->n_slots; s++)
      if (!strcmp(f->plan->slots[s].name, listed->dims[d])) max = f->plan->slots[s].bound;
    say(f, "%s: %s is not in 0 .. %" PRId64, fn->name, listed->dims[d], max);
  }
  for (uint32_t k = 0; k < fn->n_size_checks; k++) say(f, "%s: %s is below 0", fn->name, fn->size_checks[k].what);
  for (uint32_t k = 0; k < fn->n_inputs; k++) say_input(f, fn->name, &fn->inputs[k]);
  for (uint32_t k = 0; k < fn->n_outputs; k++) say_output(f, fn->name, &fn->outputs[k]);
  for (uint32_t k = 0; k < fn->n_checks; k++) say_check(f, fn, &fn->checks[k]);
  say(f, "%s: an index, a length, a sum of lengths or the start of a slice that the call computes is out of range",
      fn->name);
}

static void say_tensor(Facts *f, const RtParam *p) {
  say(f, "the file has no tensor '%s'", p->path);
  say(f, "the file's tensor '%s' has another shape or dtype%s", p->path,
      p->n_aliases ? ", or other values under another of its names" : "");
}

static void fill_sentences(Facts *f) {
  uint32_t *first = rt_alloc(f->mem, (f->plan->n_functions + 1) * sizeof *first);
  if (f->plan->init != RT_NO_FUNCTION) first[f->plan->init] = UINT32_MAX;
  say_fixed(f);
  for (uint32_t k = 0; k < f->about->n_functions; k++) {
    uint32_t fn = cg_bundle_function(f->plan, k);
    first[fn] = f->out->n_sentences;
    say_function(f, &f->about->functions[k], &f->plan->functions[fn]);
  }
  f->out->tensor_status = f->out->n_sentences;
  for (uint32_t k = 0; k < f->plan->n_params; k++) say_tensor(f, &f->plan->params[k]);
  f->out->function_status = first;
  f->out->sentences = f->sentences.text;
  f->out->sentence_at = f->sentence_at;
}

// ---- functions
static TnBundleArray *arrays_of(Facts *f, const RtPort *p, uint32_t n) {
  TnBundleArray *list = rt_alloc(f->mem, (n + 1) * sizeof *list);
  for (uint32_t k = 0; k < n; k++)
    list[k] = (TnBundleArray){p[k].name, cg_shape_text(f->mem, f->plan, &p[k]), p[k].dtype, p[k].rank};
  return list;
}

// The named dims that an axis of an input is, in the order in which a call binds them.
static const char **dims_of(Facts *f, const RtFunction *fn, uint32_t *n) {
  const RtPlan *p = f->plan;
  bool *is_bound = rt_alloc(f->mem, p->n_slots + 1);
  const char **dims = rt_alloc(f->mem, (p->n_slots + 1) * sizeof *dims);
  for (uint32_t k = 0; k < fn->n_inputs; k++) {
    for (uint32_t d = 0; d < fn->inputs[k].rank; d++) {
      const RtDim *row = &p->dims[fn->inputs[k].dims[d]];
      if (row->kind != RT_DIM_SLOT || is_bound[row->value]) continue;
      is_bound[row->value] = true;
      dims[(*n)++] = p->slots[row->value].name;
    }
  }
  return dims;
}

static void fill_functions(Facts *f) {
  const RtPlan *p = f->plan;
  TnBundleFunction *list = rt_alloc(f->mem, (p->n_functions + 1) * sizeof *list);
  f->about->functions = list;
  f->about->n_functions = p->n_functions - (p->init != RT_NO_FUNCTION);
  for (uint32_t k = 0; k < f->about->n_functions; k++) {
    uint32_t fn = cg_bundle_function(p, k);
    const RtFunction *r = &p->functions[fn];
    list[k] = (TnBundleFunction){.name = r->name,
                                 .inputs = arrays_of(f, r->inputs, r->n_inputs),
                                 .outputs = arrays_of(f, r->outputs, r->n_outputs),
                                 .n_inputs = r->n_inputs,
                                 .n_outputs = r->n_outputs};
    list[k].dims = dims_of(f, r, &list[k].n_dims);
  }
}

// ---- parameters
static void fill_tensors(Facts *f) {
  const RtPlan *p = f->plan;
  TnBundleTensor *list = rt_alloc(f->mem, (p->n_params + 1) * sizeof *list);
  uint32_t n_aliases = 0;
  static const char *const head[] = {"plan", "seed", "counter", "target", "reserved"};  // of the struct (TnBundleState)
  CgNames fields = {.mem = f->mem};
  for (size_t k = 0; k < sizeof head / sizeof *head; k++) cg_new_name(&fields, head[k]);
  for (uint32_t k = 0; k < p->n_params; k++) {
    const RtParam *q = &p->params[k];
    list[k] = (TnBundleTensor){.path = q->path,
                               .kind = q->kind,
                               .dtype = q->dtype,
                               .rank = q->rank,
                               .offset = sizeof(TnBundleState) + (size_t)q->offset,
                               .bytes = (size_t)q->bytes,
                               .field = cg_new_name(&fields, cg_c_name(f->mem, q->path))};
    memcpy(list[k].sizes, q->dims, sizeof q->dims);
    n_aliases += q->n_aliases;
  }
  f->about->tensors = list;
  f->about->n_tensors = p->n_params;
  const char **aliases = rt_alloc(f->mem, (n_aliases + 1) * sizeof *aliases);
  uint32_t *alias_of = rt_alloc(f->mem, (n_aliases + 1) * sizeof *alias_of);
  for (uint32_t k = 0; k < p->n_params; k++) {
    for (uint32_t a = 0; a < p->params[k].n_aliases; a++, f->out->n_aliases++)
      aliases[f->out->n_aliases] = p->params[k].aliases[a], alias_of[f->out->n_aliases] = k;
  }
  f->out->aliases = aliases;
  f->out->alias_of = alias_of;
}

// ---- the file that NAME_save writes: its header is a constant but for the digits of two numbers
static const char digits[] = "00000000000000000000";  // 20: any uint64_t

static int by_width(const void *a, const void *b) {
  const RtParam *x = *(const RtParam *const *)a, *y = *(const RtParam *const *)b;
  int wx = (int)rt_dtype_bytes(x->dtype), wy = (int)rt_dtype_bytes(y->dtype);
  return wx != wy ? wy - wx : strcmp(x->path, y->path);
}

// As the format's own writer has them (rt_st_write): wide elements first, then by name.
static uint32_t *order_of(Facts *f) {
  const RtPlan *p = f->plan;
  const RtParam **sorted = rt_alloc(f->mem, (p->n_params + 1) * sizeof *sorted);
  uint32_t *order = rt_alloc(f->mem, (p->n_params + 1) * sizeof *order);
  for (uint32_t k = 0; k < p->n_params; k++) sorted[k] = &p->params[k];
  if (p->n_params) qsort(sorted, p->n_params, sizeof *sorted, by_width);
  for (uint32_t k = 0; k < p->n_params; k++) order[k] = (uint32_t)(sorted[k] - p->params);
  return order;
}

static RtStTensor file_tensor(const RtParam *q) {
  RtStTensor t = {
      .name = q->path, .dtype = (uint8_t)rt_st_dtype_of(q->dtype), .rank = q->rank, .size = (uint64_t)q->bytes};
  memcpy(t.dims, q->dims, sizeof q->dims);
  return t;
}

static bool fill_file(Facts *f) {
  const RtPlan *p = f->plan;
  RtStTensor *list = rt_alloc(f->mem, (p->n_params + 1) * sizeof *list);
  const RtStTensor **sorted = rt_alloc(f->mem, (p->n_params + 1) * sizeof *sorted);
  RtStMeta *meta = rt_alloc(f->mem, (f->out->n_aliases + 3) * sizeof *meta);
  uint32_t n_saved = 0, n = 0;
  f->out->file_order = order_of(f);
  for (uint32_t k = 0; k < p->n_params; k++) {
    const RtParam *q = &p->params[f->out->file_order[k]];
    if (q->kind == RT_TRANSIENT) continue;
    list[n_saved] = file_tensor(q);
    sorted[n_saved] = &list[n_saved];
    n_saved++;
  }
  for (uint32_t a = 0; a < f->out->n_aliases; a++)
    if (p->params[f->out->alias_of[a]].kind != RT_TRANSIENT)
      meta[n++] = (RtStMeta){f->out->aliases[a], p->params[f->out->alias_of[a]].path};
  meta[n++] = (RtStMeta){"tenure.plan", rt_printf(f->mem, "%016" PRIx64, f->in->hash)};
  meta[n++] = (RtStMeta){"tenure.runs", digits};
  meta[n++] = (RtStMeta){"tenure.seed", digits};
  RtText header = {.mem = f->mem};
  f->out->file_bytes = (size_t)rt_st_header(&header, sorted, n_saved, meta, n);
  f->out->file_header = (const unsigned char *)header.text;
  f->out->file_header_bytes = header.len;
  const char *runs = "\"tenure.runs\":\"", *seed = "\"tenure.seed\":\"";
  f->out->runs_at = (size_t)(strstr(header.text + 8, runs) - header.text) + strlen(runs);
  f->out->seed_at = (size_t)(strstr(header.text + 8, seed) - header.text) + strlen(seed);
  return true;
}

// ---- arenas
// By the target that wants most: the plan's arena, variants included, the blocks and the call behind it.
static size_t arena_bytes(const TnBundleAbout *about, uint32_t fn) {
  size_t most = 0;
  for (uint32_t t = 0; t < about->n_targets; t++) {
    const RtPlan *p = about->plans[t];
    const RtFunction *f = &p->functions[fn];
    int64_t arena = f->arena_bytes;
    for (uint32_t v = 0; v < f->n_variants; v++) arena = cg_larger(arena, f->variants[v].arena_bytes);
    size_t bytes = (size_t)(cg_round_up(arena, TN_ALIGN) + f->block_bytes) + tn_bundle_call_bytes(p, f);
    if (bytes > most) most = bytes;
  }
  return most;
}

// The tables are of whoever makes the bundle: what others read of them is constant.
static void set_blocks(const RtFunction *given, int64_t bytes, bool one_worker) {
  RtFunction *f = (RtFunction *)(uintptr_t)given;
  f->block_bytes = bytes;
  if (!bytes && !one_worker) return;
  f->max_workers = 1;
  for (uint32_t v = 0; v < f->n_variants; v++) ((RtVariant *)(uintptr_t)&f->variants[v])->max_workers = 1;
}

void cg_bundle_set_arenas(const TnBundle *b, const int64_t *block_bytes, bool one_worker) {
  TnBundleAbout *about = (TnBundleAbout *)(uintptr_t)b->about;
  for (uint32_t t = 0; t < about->n_targets; t++)
    for (uint32_t f = 0; f < about->plans[t]->n_functions; f++)
      set_blocks(&about->plans[t]->functions[f], block_bytes ? *block_bytes++ : 0, one_worker);
  about->arena_bytes = 0;
  for (uint32_t k = 0; k < about->n_functions; k++) {
    TnBundleFunction *f = (TnBundleFunction *)(uintptr_t)&about->functions[k];
    f->arena_bytes = arena_bytes(about, cg_bundle_function(about->plans[0], k));
    if (f->arena_bytes > about->arena_bytes) about->arena_bytes = f->arena_bytes;
  }
}

// Averages that a function reads and that no function of the bundle trains come from a file alone.
static bool needs_state(const Facts *f) {
  bool *read = rt_alloc(f->mem, f->plan->n_params + 1);
  if (rt_state_read(f->plan, RT_NO_FUNCTION, read)) return false;
  for (uint32_t k = 0; k < f->plan->n_params; k++)
    if (read[k]) return true;
  return false;
}

// Tensors of which a byte is not 0: of most optimizers' none is at the start.
static bool is_zero(const unsigned char *bytes, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (bytes[k]) return false;
  return true;
}

static int by_place(const void *a, const void *b) {
  const TnBundlePiece *x = a, *y = b;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

static void fill_weights(Facts *f) {
  const unsigned char *block = f->in->weights;
  TnBundlePiece *pieces = rt_alloc(f->mem, (f->plan->n_params + 1) * sizeof *pieces);
  uint32_t n = 0;
  if (!block) return;
  for (uint32_t k = 0; k < f->plan->n_params; k++) {
    const RtParam *q = &f->plan->params[k];
    if (!is_zero(block + q->offset, (size_t)q->bytes))
      pieces[n++] = (TnBundlePiece){(size_t)q->offset, (size_t)q->bytes};
  }
  qsort(pieces, n, sizeof *pieces, by_place);
  RtText packed = {.mem = f->mem};
  for (uint32_t k = 0; k < n; k++) rt_text_put(&packed, (const char *)block + pieces[k].offset, pieces[k].bytes);
  f->out->pieces = pieces, f->out->n_pieces = n;
  f->out->weights = n ? (const unsigned char *)packed.text : (const unsigned char *)"";
}

// ---- all
static bool same_params(const RtPlan *a, const RtPlan *b) {
  bool same = a->n_params == b->n_params && a->param_bytes == b->param_bytes && a->n_functions == b->n_functions;
  for (uint32_t k = 0; same && k < a->n_params; k++) same = a->params[k].offset == b->params[k].offset;
  return same;
}

static void fill_targets(Facts *f) {
  const char **names = rt_alloc(f->mem, (f->in->n_targets + 1) * sizeof *names);
  TnBundleCpu *cpus = rt_alloc(f->mem, (f->in->n_targets + 1) * sizeof *cpus);
  for (uint32_t t = 0; t < f->in->n_targets; t++) {
    names[t] = f->in->targets[t]->name;
    cg_target_cpu(f->in->targets[t], &cpus[t]);
  }
  f->about->targets = names;
  f->about->n_targets = f->in->n_targets;
  f->out->cpus = cpus;
}

bool cg_bundle_facts(RtArena *mem, const CgBundleFacts *in, TnBundle *out, RtText *why) {
  TnBundleAbout *about = rt_alloc(mem, sizeof *about);
  *out = (TnBundle){.about = about};
  Facts f = {
      .mem = mem, .in = in, .plan = in->plans[0], .out = out, .about = about, .sentences = {.mem = mem}, .why = why};
  for (uint32_t t = 1; t < in->n_targets; t++)
    if (!same_params(f.plan, in->plans[t]))
      return rt_text_add(why, "targets %s and %s place parameters differently", in->targets[0]->name,
                         in->targets[t]->name),
             false;
  *about = (TnBundleAbout){.version = TN_BUNDLE_VERSION,
                           .abi = TN_BUNDLE_ABI,
                           .plan = in->hash,
                           .name = in->name,
                           .compiler = "tenure " TN_VERSION,
                           .state_bytes = sizeof(TnBundleState) + (size_t)cg_round_up(f.plan->param_bytes, TN_ALIGN),
                           .align = TN_ALIGN,
                           .plans = in->plans};
  TnBundleDim *dims = rt_alloc(mem, (f.plan->n_slots + 1) * sizeof *dims);
  for (uint32_t s = 0; s < f.plan->n_slots; s++) dims[s] = (TnBundleDim){f.plan->slots[s].name, f.plan->slots[s].bound};
  about->dims = dims, about->n_dims = f.plan->n_slots;
  fill_targets(&f);
  fill_functions(&f);
  cg_bundle_set_arenas(out, NULL, false);
  fill_tensors(&f);
  fill_weights(&f);
  fill_sentences(&f);
  out->needs_state = needs_state(&f);
  return fill_file(&f);
}
