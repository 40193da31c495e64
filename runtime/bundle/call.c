// A call of a bundle's function: everything is checked before anything but the arena is written, then the kernels run.
#include "runtime/bundle/bundle.h"
#include "runtime/exec/value_check.h"

// ---- regions
static bool is_aligned(const void *p, size_t unit) { return (uintptr_t)p % unit == 0; }

static bool overlaps(const void *a, uint64_t n_a, const void *b, uint64_t n_b) {
  uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
  return n_a && n_b && (x < y ? y - x < n_a : x - y < n_b);
}

int tn_bundle_check_state(const TnBundle *b, const void *state) {
  const TnBundleState *s = state;
  if (!s || !is_aligned(s, TN_ALIGN)) return TN_BUNDLE_BAD_STATE;
  bool is_ours = s->plan == b->about->plan && s->target < b->about->n_targets;
  return is_ours ? TN_BUNDLE_OK : TN_BUNDLE_NO_STATE;
}

bool tn_bundle_overlaps_state(const TnBundle *b, const void *state, const void *bytes, size_t n) {
  return overlaps(bytes, n, state, b->about->state_bytes);
}

static int check_arena(const TnBundle *b, const void *state, const void *arena, size_t bytes, size_t wanted) {
  if (!wanted) return TN_BUNDLE_OK;
  if (!arena || !is_aligned(arena, TN_ALIGN)) return TN_BUNDLE_BAD_ARENA;
  if (bytes < wanted) return TN_BUNDLE_SMALL_ARENA;
  return overlaps(arena, wanted, state, b->about->state_bytes) ? TN_BUNDLE_ARENA_OVERLAP : TN_BUNDLE_OK;
}

// ---- one call
typedef struct {
  const TnBundle *b;
  const RtPlan *plan;
  const RtFunction *f;
  uint32_t first;   // status of the function
  uint32_t n_dims;  // that the caller gives
  TnBundleState *state;
  const unsigned char *arena;
  size_t arena_bytes;  // that the function wants
  TnBundleCall *call;
  int64_t *slots, *dims;
  void **in, **out;
} Run;

// Where the parts of a call lie, behind the plan's arena and the function's blocks.
static void lay_out(Run *r, unsigned char *arena, const RtFunction *f) {
  unsigned char *at = arena + r->arena_bytes - tn_bundle_call_bytes(r->plan, f);
  r->call = (TnBundleCall *)(void *)at;
  r->slots = (int64_t *)(void *)(at + TN_BUNDLE_CALL_BYTES);
  r->dims = r->slots + r->plan->n_slots;
  r->in = (void **)(void *)(r->dims + r->plan->n_dims);
  r->out = r->in + f->n_inputs;
}

// ---- sizes
static uint32_t slot_of(const RtPlan *p, uint32_t row) {
  return p->dims[row].kind == RT_DIM_SLOT ? (uint32_t)p->dims[row].value : UINT32_MAX;
}

// The caller's dims, in the order in which axes of inputs first name them; what no axis names counts as its bound.
static int bind_dims(Run *r, const int64_t *given) {
  const RtPlan *p = r->plan;
  for (uint32_t s = 0; s < p->n_slots; s++) r->slots[s] = -1;
  for (uint32_t k = 0; k < r->f->n_inputs; k++) {
    for (uint32_t d = 0; d < r->f->inputs[k].rank; d++) {
      uint32_t s = slot_of(p, r->f->inputs[k].dims[d]);
      if (s == UINT32_MAX || r->slots[s] >= 0) continue;
      int64_t size = given[r->n_dims];
      if (size < 0 || size > p->slots[s].bound) return (int)(r->first + r->n_dims);
      r->slots[s] = size;
      r->n_dims++;
    }
  }
  for (uint32_t s = 0; s < p->n_slots; s++)
    if (r->slots[s] < 0) r->slots[s] = p->slots[s].bound;
  return TN_BUNDLE_OK;
}

// No size overflows: all are at most those of the bounds, for which the program was compiled.
static void evaluate_dims(Run *r) {
  for (uint32_t k = 0; k < r->plan->n_dims; k++) {
    const RtDim *d = &r->plan->dims[k];
    if (d->kind <= RT_DIM_SLOT) {
      r->dims[k] = d->kind == RT_DIM_SLOT ? r->slots[d->value] : d->value;
      continue;
    }
    int64_t a = r->dims[d->a], b = r->dims[d->b];
    switch ((RtDimKind)d->kind) {
    case RT_DIM_MUL: a *= b; break;
    case RT_DIM_DIV: a = rt_floor_div(a, b); break;
    case RT_DIM_MAX: a = rt_larger(a, b); break;
    case RT_DIM_MIN: a = rt_smaller(a, b); break;
    default: a += b;
    }
    r->dims[k] = a;
  }
}

static int check_sizes(const Run *r) {
  for (uint32_t k = 0; k < r->f->n_size_checks; k++)
    if (r->dims[r->f->size_checks[k].dim] < 0) return (int)(r->first + tn_status_of_size(r->n_dims, k));
  return TN_BUNDLE_OK;
}

static uint64_t elements_of(const Run *r, const RtPort *p) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < p->rank; d++) n *= (uint64_t)r->dims[p->dims[d]];
  return n;
}

static uint64_t bytes_of(const Run *r, const RtPort *p) { return elements_of(r, p) * rt_dtype_bytes(p->dtype); }

// ---- arrays
// Memory of a parameter that the run updates would change while it is read.
static bool is_updated_param(const Run *r, const void *data, uint64_t n) {
  const unsigned char *params = (const unsigned char *)(r->state + 1);
  for (uint32_t u = 0; u < r->f->n_uses; u++) {
    const RtParam *p = &r->plan->params[r->f->uses[u].param];
    if (r->f->uses[u].is_written && overlaps(params + p->offset, (uint64_t)p->bytes, data, n)) return true;
  }
  return false;
}

static int check_input(const Run *r, uint32_t k) {
  uint32_t status = r->first + tn_status_of_input(r->f, r->n_dims, k);
  uint64_t n = bytes_of(r, &r->f->inputs[k]);
  if (n && !r->in[k]) return (int)(status + TN_BUNDLE_IN_NULL);
  if (!is_aligned(r->in[k], rt_dtype_bytes(r->f->inputs[k].dtype))) return (int)(status + TN_BUNDLE_IN_ALIGN);
  if (overlaps(r->in[k], n, r->arena, r->arena_bytes)) return (int)(status + TN_BUNDLE_IN_ARENA);
  bool in_state = overlaps(r->in[k], n, r->state, r->b->about->state_bytes);
  return in_state && is_updated_param(r, r->in[k], n) ? (int)(status + TN_BUNDLE_IN_PARAM) : TN_BUNDLE_OK;
}

// Kernels may write an output while inputs are still read.
static bool overlaps_other(const Run *r, uint32_t k, uint64_t n) {
  for (uint32_t i = 0; i < r->f->n_inputs; i++)
    if (overlaps(r->out[k], n, r->in[i], bytes_of(r, &r->f->inputs[i]))) return true;
  for (uint32_t i = 0; i < k; i++)
    if (overlaps(r->out[k], n, r->out[i], bytes_of(r, &r->f->outputs[i]))) return true;
  return overlaps(r->out[k], n, r->arena, r->arena_bytes) || overlaps(r->out[k], n, r->state, r->b->about->state_bytes);
}

static int check_output(const Run *r, uint32_t k) {
  uint32_t status = r->first + tn_status_of_output(r->f, r->n_dims, k);
  uint64_t n = bytes_of(r, &r->f->outputs[k]);
  if (n && !r->out[k]) return (int)(status + TN_BUNDLE_OUT_NULL);
  if (!is_aligned(r->out[k], rt_dtype_bytes(r->f->outputs[k].dtype))) return (int)(status + TN_BUNDLE_OUT_ALIGN);
  return overlaps_other(r, k, n) ? (int)(status + TN_BUNDLE_OUT_OVERLAP) : TN_BUNDLE_OK;
}

static int check_values(const Run *r, uint32_t k) {
  const RtCheck *c = &r->f->checks[k];
  uint32_t status = r->first + tn_status_of_check(r->f, r->n_dims, k);
  const int64_t *lengths = c->lengths || !c->is_packed ? c->lengths : r->in[c->of_input];
  RtBadValue bad;
  RtValueCheck check = {.check = c,
                        .data = r->in[c->input],
                        .n = (int64_t)elements_of(r, &r->f->inputs[c->input]),
                        .lengths = lengths,
                        .dims = r->dims};
  RtValueFault fault = rt_find_bad_value(&check, &bad);
  switch (fault) {
  case RT_VALUE_RANGE: return (int)(status + TN_BUNDLE_CHECK_RANGE);
  case RT_VALUE_ORDER: return (int)(status + TN_BUNDLE_CHECK_ORDER);
  case RT_VALUE_SUM: return (int)(status + TN_BUNDLE_CHECK_SUM);
  case RT_VALUE_GOOD: break;
  }
  return TN_BUNDLE_OK;
}

static int check_arguments(Run *r, const void *in, const void *out) {
  if ((r->f->n_inputs && !in) || (r->f->n_outputs && !out)) return TN_BUNDLE_NO_ARGUMENTS;
  int status = bind_dims(r, in);
  if (status) return status;
  evaluate_dims(r);
  status = check_sizes(r);
  if (status) return status;
  void *const *inputs = in ? (void *const *)((const int64_t *)in + r->n_dims) : NULL, *const *outputs = out;
  for (uint32_t k = 0; k < r->f->n_inputs; k++) r->in[k] = inputs[k];
  for (uint32_t k = 0; k < r->f->n_outputs; k++) r->out[k] = outputs[k];
  for (uint32_t k = 0; k < r->f->n_inputs && !status; k++) status = check_input(r, k);
  for (uint32_t k = 0; k < r->f->n_outputs && !status; k++) status = check_output(r, k);
  for (uint32_t k = 0; k < r->f->n_checks && !status; k++) status = check_values(r, k);
  return status;
}

// ---- the run
void tn_bundle_wait(TnFrame *f, int32_t which, int32_t count) {
  const TnBundleCall *c = f->team;
  c->barrier(c->ctx, which, count);
}

static const TnServices services = {.barrier = tn_bundle_wait};

static bool fits(const Run *r, const RtVariant *v) {
  for (uint32_t k = 0; k < v->n_fits; k++)
    if (r->slots[v->fits[k].slot] > v->fits[k].bound) return false;
  return true;
}

static TnEntry entry_of(const Run *r) {
  for (uint32_t v = 0; v < r->f->n_variants; v++)
    if (fits(r, &r->f->variants[v])) return r->f->variants[v].entry;
  return r->f->entry;
}

static void set_frame(const Run *r, TnFrame *f) {
  *f = (TnFrame){.in = r->in,
                 .out = r->out,
                 .dims = r->slots,
                 .seed = r->state->seed,
                 .counter = r->state->counter,
                 .svc = &services,
                 .status = &r->call->status,
                 .team = r->call,
                 .blocks = (unsigned char *)r->call - r->f->block_bytes};
  f->seg[SEG_ARENA] = (unsigned char *)(uintptr_t)r->arena;
  f->seg[SEG_PARAM] = (unsigned char *)(r->state + 1);
  f->seg[SEG_CONST] = (unsigned char *)(uintptr_t)r->plan->consts;
}

static void prepare(Run *r, const void *in, const void *out, TnBundleBarrier *barrier, void *ctx) {
  r->call->verdict = check_arguments(r, in, out);
  if (r->call->verdict) return;
  r->call->status = (TnKernelStatus){.input = -1};
  r->call->barrier = barrier;
  r->call->ctx = ctx;
  r->call->entry = entry_of(r);
  set_frame(r, &r->call->frame);
}

// What the kernels found.
static int verdict_of(const Run *r) {
  return r->call->status.code ? (int)(r->first + tn_status_of_kernel(r->f, r->n_dims)) : TN_BUNDLE_OK;
}

static int finish(const Run *r) {
  int status = verdict_of(r);
  if (!status && !r->f->only_reads) r->state->counter++;
  return status;
}

static int open_run(Run *r, uint32_t function, uint32_t listed, void *arena, size_t arena_bytes) {
  int status = tn_bundle_check_state(r->b, r->state);
  if (status) return status;
  r->plan = r->b->about->plans[r->state->target];
  r->f = &r->plan->functions[function];
  r->first = r->b->function_status[function];
  r->arena = arena;
  r->arena_bytes = r->b->about->functions[listed].arena_bytes;
  status = check_arena(r->b, r->state, arena, arena_bytes, r->arena_bytes);
  if (!status) lay_out(r, arena, r->f);
  return status;
}

int tn_bundle_call(const TnBundle *b, uint32_t function, uint32_t listed, void *state, void *arena, size_t arena_bytes,
                   const void *in, const void *out) {
  Run r = {.b = b, .state = state};
  int status = open_run(&r, function, listed, arena, arena_bytes);
  if (status) return status;
  prepare(&r, in, out, NULL, NULL);
  if (r.call->verdict) return r.call->verdict;
  r.call->entry(&r.call->frame, 0, 1);
  return finish(&r);
}

// Worker 0 checks for all: the others read its verdict when the first barrier is behind them. It runs what takes blocks by
// itself.
int tn_bundle_call_worker(const TnBundle *b, uint32_t function, uint32_t listed, void *state, void *arena,
                          size_t arena_bytes, const void *in, const void *out, int32_t worker, int32_t n_workers,
                          TnBundleBarrier *barrier, void *ctx) {
  if (worker < 0 || worker >= n_workers || n_workers > TN_N_BARRIERS || (n_workers > 1 && !barrier))
    return TN_BUNDLE_BAD_WORKER;
  if (n_workers == 1) return tn_bundle_call(b, function, listed, state, arena, arena_bytes, in, out);
  Run r = {.b = b, .state = state};
  int status = open_run(&r, function, listed, arena, arena_bytes);
  if (status) return status;
  if (worker == 0) prepare(&r, in, out, barrier, ctx);
  else r.n_dims = b->about->functions[listed].n_dims;
  barrier(ctx, 0, n_workers);
  status = r.call->verdict;
  if (!status) {
    if (r.f->block_bytes == 0) r.call->entry(&r.call->frame, worker, n_workers);
    else if (worker == 0) r.call->entry(&r.call->frame, 0, 1);
    barrier(ctx, 0, n_workers);
    status = worker == 0 ? finish(&r) : verdict_of(&r);
  }
  barrier(ctx, 0, n_workers);  // all have read the verdict: the next call may write its own
  return status;
}

// ---- initial values
static void put_weights(const TnBundle *b, unsigned char *block, size_t n) {
  const unsigned char *from = b->weights;
  for (size_t k = 0; k < n; k++) block[k] = 0;  // a memset of zeros is a call of bzero on Darwin
  for (uint32_t k = 0; k < b->n_pieces; k++) {
    __builtin_memcpy(block + b->pieces[k].offset, from, b->pieces[k].bytes);
    from += b->pieces[k].bytes;
  }
}

static void run_init(const RtPlan *plan, TnBundleState *s, unsigned char *arena) {
  TnKernelStatus status = {.input = -1};
  const RtFunction *f = &plan->functions[plan->init];
  TnFrame frame = {.seed = s->seed, .svc = &services, .status = &status};
  if (f->block_bytes) frame.blocks = arena + tn_bundle_blocks_at(f);
  frame.seg[SEG_ARENA] = arena;
  frame.seg[SEG_PARAM] = (unsigned char *)(s + 1);
  frame.seg[SEG_CONST] = (unsigned char *)(uintptr_t)plan->consts;
  f->entry(&frame, 0, 1);
}

int tn_bundle_init(const TnBundle *b, void *state, void *arena, size_t arena_bytes, uint64_t seed) {
  TnBundleState *s = state;
  if (!s || !is_aligned(s, TN_ALIGN)) return TN_BUNDLE_BAD_STATE;
  int target = tn_bundle_cpu(b);
  if (target < 0) return TN_BUNDLE_NO_CPU;
  const RtPlan *plan = b->about->plans[target];
  size_t wanted = b->weights ? 0 : tn_bundle_init_bytes(plan);
  int status = check_arena(b, state, arena, arena_bytes, wanted);
  if (status) return status;
  *s = (TnBundleState){.plan = b->about->plan, .seed = seed, .counter = 1, .target = (uint32_t)target};
  put_weights(b, (unsigned char *)(s + 1), (size_t)plan->param_bytes);
  if (plan->init != RT_NO_FUNCTION && !b->weights) run_init(plan, s, arena);
  return TN_BUNDLE_OK;
}

const char *tn_bundle_error(const TnBundle *b, int status) {
  if (status < 0 || (uint32_t)status >= b->n_sentences) return "this bundle has no such status";
  return b->sentences + b->sentence_at[status];
}
