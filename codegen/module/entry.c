// Entry functions: calls to the kernels in order, and barriers between them.
//
// A kernel is preceded by a barrier if it has a dependence (RAW, WAR or WAW) on a kernel since the last barrier. Memory is
// compared as byte ranges of a segment, because buffers reuse each other's slots; run-time dims count as memory, since a
// layout sets one. The join of the team ends the last kernels.
#include "codegen/module/module.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"

#include <stddef.h>
#include <string.h>

// ---- hazards
enum { SPACE_DIMS = N_SEGMENTS };
typedef struct {
  int64_t lo, hi;  // bytes of a segment; positions of IN and OUT; slots of SPACE_DIMS
  uint8_t space;
  bool writes;
} Access;
typedef struct {
  Access *list;
  uint32_t n, cap;
} Accesses;

static void add_buf(const ModulePlan *plan, const Fn *f, uint32_t buf, bool writes, Accesses *out) {
  const Buf *b = &f->bufs[buf];
  if (b->bytes == 0) return;
  if (b->within) {
    int64_t lo = f->bufs[b->within].offset + b->within_at;
    *RT_PUSH(plan->mem, out->list, out->n, out->cap) =
        (Access){lo, cg_round_up(lo + b->bytes, TN_ALIGN), SEG_ARENA, writes};
    return;
  }
  bool by_position = b->seg == SEG_IN || b->seg == SEG_OUT;
  // no buffer begins in the padding
  int64_t hi = by_position ? b->offset + 1 : cg_round_up(b->offset + b->bytes, TN_ALIGN);
  *RT_PUSH(plan->mem, out->list, out->n, out->cap) = (Access){b->offset, hi, b->seg, writes};
}

static void add_slot(const ModulePlan *plan, Dim d, bool writes, Accesses *out) {
  int32_t slot = ir_dim_info(plan->p, d)->slot;
  *RT_PUSH(plan->mem, out->list, out->n, out->cap) = (Access){slot, slot + 1, SPACE_DIMS, writes};
}

static void accesses_of(const ModulePlan *plan, const KernelCall *c, Accesses *out) {
  for (uint32_t k = 0; k < c->n_kernel_args; k++)
    add_buf(plan, c->f, c->f->buf_of[c->kernel_args[k].v.i], c->kernel_args[k].writes, out);
  if (c->k->scratch) add_buf(plan, c->f, c->k->scratch, true, out);
  for (uint32_t k = 0; k < c->n_dims; k++) add_slot(plan, c->dims[k], false, out);
  if (ir_ins(c->f, (Val){c->k->first})->op == OP_packed_layout)
    add_slot(plan, ir_dim_at(plan->p, ir_ins(c->f, (Val){c->k->first})->shape, 2), true, out);
}

// Disjoint spans of a space, in order; those that touch are one.
typedef struct {
  int64_t lo, hi;
} Extent;
typedef struct {
  Extent *list;
  uint32_t n, cap;
} Spans;
enum { N_SPACES = SPACE_DIMS + 1 };
typedef struct {
  Spans touched[N_SPACES], written[N_SPACES];
} Touched;  // since the last barrier

// The first span that ends behind `at`, or at it.
static uint32_t first_behind(const ModulePlan *plan, const Spans *s, int64_t at) {
  uint32_t lo = 0, hi = s->n;
  for (; lo < hi; plan->p->n_visits++) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (s->list[mid].hi < at) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

static bool overlaps(const ModulePlan *plan, const Spans *s, const Access *a) {
  uint32_t k = first_behind(plan, s, a->lo + 1);
  return k < s->n && s->list[k].lo < a->hi;
}

static void add_span(const ModulePlan *plan, Spans *s, const Access *a) {
  uint32_t k = first_behind(plan, s, a->lo), end = k;
  Extent both = {a->lo, a->hi};
  for (; end < s->n && s->list[end].lo <= a->hi; end++) {
    if (s->list[end].lo < both.lo) both.lo = s->list[end].lo;
    if (s->list[end].hi > both.hi) both.hi = s->list[end].hi;
  }
  if (end == k) {
    *RT_PUSH(plan->mem, s->list, s->n, s->cap) = both;
    memmove(&s->list[k + 1], &s->list[k], (s->n - 1 - k) * sizeof both);
  } else {
    memmove(&s->list[k + 1], &s->list[end], (s->n - end) * sizeof both);
    s->n -= end - k - 1;
  }
  s->list[k] = both;
}

static bool conflict(const ModulePlan *plan, const Touched *since, const Accesses *now) {
  for (uint32_t k = 0; k < now->n; k++) {
    const Access *a = &now->list[k];
    if (overlaps(plan, (a->writes ? since->touched : since->written) + a->space, a)) return true;
  }
  return false;
}

static void note_accesses(const ModulePlan *plan, Touched *since, const Accesses *now) {
  for (uint32_t k = 0; k < now->n; k++) {
    const Access *a = &now->list[k];
    add_span(plan, &since->touched[a->space], a);
    if (a->writes) add_span(plan, &since->written[a->space], a);
  }
}

static void forget_accesses(Touched *since) {
  for (uint32_t k = 0; k < N_SPACES; k++) since->touched[k].n = since->written[k].n = 0;
}

// ---- kernels that may fault
static bool may_fault(const KernelCall *c) {
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++)
    if (ir_may_fault(c->f, (Val){i})) return true;
  return false;
}

static bool changes_params(const KernelCall *c) {
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++)
    if (ir_writes_param(c->f, (Val){i})) return true;
  return false;
}

void cg_place_barriers(ModulePlan *plan, EntryFn *e) {
  Touched since = {0};
  Accesses now = {0};  // of the current kernel
  bool unsure = false;
  for (uint32_t i = 0; i < e->n_calls; i++) {
    now.n = 0;
    accesses_of(plan, &e->calls[i], &now);
    e->calls[i].barrier = !e->single_threaded && conflict(plan, &since, &now);
    e->calls[i].checks_status = unsure && changes_params(&e->calls[i]);
    unsure = (unsure && !e->calls[i].checks_status) || may_fault(&e->calls[i]);
    if (e->calls[i].barrier) forget_accesses(&since);
    note_accesses(plan, &since, &now);
  }
}

// ---- text
void cg_entry_text(const ModulePlan *plan, const EntryFn *e, RtText *out) {
  rt_text_add(out, "entry %s%s%s\n", e->symbol, plan->p->guarded_arena ? " guarded" : "",
              e->single_threaded ? " single" : "");
  for (uint32_t i = 0; i < e->n_calls; i++) {
    const KernelCall *c = &e->calls[i];
    rt_text_add(out, "%s%sk%u", c->checks_status ? "look " : "", c->barrier ? "barrier " : "", c->code);
    cg_fill_text(plan, c, out);
    for (uint32_t k = 0; k < c->n_kernel_args && !c->n_initial; k++) {
      const Buf *b = &c->f->bufs[c->f->buf_of[c->kernel_args[k].v.i]];
      rt_text_add(out, " %u+%lld", b->seg, (long long)b->offset);
    }
    if (c->k->scratch) {
      const Buf *b = &c->f->bufs[c->k->scratch];
      rt_text_add(out, " scratch %u+%lld", b->seg, (long long)b->offset);
    }
    if (c->weight) rt_text_add(out, " weight %lld", (long long)plan->p->packed_weights[c->weight - 1].offset);
    for (uint32_t k = 0; k < c->n_dims; k++) rt_text_add(out, " dim %d", ir_dim_info(plan->p, c->dims[k])->slot);
    for (uint32_t k = 0; k < c->n_ids; k++) rt_text_add(out, " id %d", cg_id_value(&c->ids[k]));
    rt_text_add(out, "\n");
  }
}

// No entry has a dot in its name.
const char *cg_kernel_symbol(const ModulePlan *plan, uint32_t code) {
  return rt_printf(plan->mem, "%s.k%u", plan->symbol, code);
}

// ---- code
LLVMTypeRef cg_kernel_type(Cg *c, const KernelCall *call) {
  if (call->n_initial) return cg_fill_type(c);
  uint32_t n = 0, n_ptr = call->n_kernel_args + (call->k->scratch != 0) + (call->weight != 0),
           most = 3 + n_ptr + call->n_dims + call->n_ids;
  LLVMTypeRef *type = rt_alloc(c->mem, most * sizeof *type);
  type[n++] = c->ptr, type[n++] = c->i32, type[n++] = c->i32;
  for (uint32_t k = 0; k < n_ptr; k++) type[n++] = c->ptr;
  for (uint32_t k = 0; k < call->n_dims; k++) type[n++] = c->i64;
  for (uint32_t k = 0; k < call->n_ids; k++) type[n++] = c->i32;
  return LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), type, n, false);
}

typedef struct {
  V seg[N_SEGMENTS];  // base addresses; IN, OUT: tables of caller pointers
  V dims;
  V worker, n_workers;  // i32
} Bases;

static void load_bases(Cg *c, const ModulePlan *plan, bool single_threaded, Bases *b) {
  b->worker = plan->one_worker ? cg_i32(c, 0) : LLVMGetParam(c->fn, 1);
  b->n_workers = single_threaded ? cg_i32(c, 1) : LLVMGetParam(c->fn, 2);
  for (uint32_t s = 0; s < N_SEGMENTS; s++) {
    size_t own = offsetof(TnFrame, seg) + s * sizeof(void *);
    b->seg[s] = cg_frame_ptr(c, s == SEG_IN ? offsetof(TnFrame, in) : s == SEG_OUT ? offsetof(TnFrame, out) : own);
  }
  b->dims = cg_frame_ptr(c, offsetof(TnFrame, dims));
}

static V buf_ptr(Cg *c, const Bases *base, const Fn *f, uint32_t buf) {
  const Buf *b = &f->bufs[buf];
  V off = cg_i64(c, b->offset);
  if (b->seg != SEG_IN && b->seg != SEG_OUT) return cg_at(c, c->i8, base->seg[b->seg], off);
  return LLVMBuildLoad2(c->b, c->ptr, cg_at(c, c->ptr, base->seg[b->seg], off), "");
}

void cg_call_code(Cg *c, const ModulePlan *plan, const KernelCall *call, V *arg, uint32_t n) {
  LLVMTypeRef type = cg_kernel_type(c, call);
  const char *name = cg_kernel_symbol(plan, call->code);
  V fn = LLVMGetNamedFunction(c->mod, name);
  if (!fn) {
    fn = LLVMAddFunction(c->mod, name, type);
    LLVMSetVisibility(fn, LLVMHiddenVisibility);
  }
  LLVMBuildCall2(c->b, type, fn, arg, n, "");
}

// Consecutive calls have consecutive rows.
static void call_fill(Cg *c, const ModulePlan *plan, const KernelCall *call, uint32_t n_rows, const Bases *base) {
  V rows = cg_fill_rows(c, plan, call->first_initial), n = cg_i64(c, n_rows);
  cg_call_code(c, plan, call, (V[]){LLVMGetParam(c->fn, 0), base->worker, base->n_workers, rows, n}, 5);
}

// Dims are reloaded at each call: a layout may have set them since.
static void call_kernel(Cg *c, const ModulePlan *plan, const KernelCall *call, const Bases *base) {
  if (call->n_initial) {
    call_fill(c, plan, call, call->n_initial, base);
    return;
  }
  uint32_t n = 0, most = LLVMCountParamTypes(cg_kernel_type(c, call));
  V *arg = rt_alloc(c->mem, most * sizeof *arg);
  arg[n++] = LLVMGetParam(c->fn, 0);
  arg[n++] = base->worker;
  arg[n++] = base->n_workers;
  for (uint32_t k = 0; k < call->n_kernel_args; k++)
    arg[n++] = buf_ptr(c, base, call->f, call->f->buf_of[call->kernel_args[k].v.i]);
  if (call->k->scratch) arg[n++] = buf_ptr(c, base, call->f, call->k->scratch);
  if (call->weight)
    arg[n++] = cg_at(c, c->i8, base->seg[SEG_PACKED], cg_i64(c, plan->p->packed_weights[call->weight - 1].offset));
  for (uint32_t k = 0; k < call->n_dims; k++) {
    int32_t slot = ir_dim_info(plan->p, call->dims[k])->slot;
    arg[n++] = cg_get(c, c->i64, base->dims, cg_i64(c, slot));
  }
  for (uint32_t k = 0; k < call->n_ids; k++) arg[n++] = cg_i32(c, cg_id_value(&call->ids[k]));
  cg_call_code(c, plan, call, arg, n);
}

// Number of fills from call i on that become one call: none of them waits, and nothing checks between them.
static uint32_t n_joined_fills(const ModulePlan *plan, const EntryFn *e, uint32_t i) {
  uint32_t n = 1;
  if (plan->profile || plan->p->guarded_arena || !e->calls[i].n_initial) return n;
  while (i + n < e->n_calls && e->calls[i + n].n_initial && !e->calls[i + n].barrier && !e->calls[i + n].checks_status)
    n++;
  return n;
}

static void wait_for_team(Cg *c) {
  for (If several = cg_when(c, cg_gt(c, LLVMGetParam(c->fn, 2), cg_i32(c, 1))); cg_then(&several);)
    cg_barrier(c, cg_i32(c, 0), LLVMGetParam(c->fn, 2));
}

// Guarded arena: between two kernels one worker poisons and checks it, between two barriers.
static void call_guard_check(Cg *c, const KernelCall *done, const KernelCall *next) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->i32, c->i32}, 3, false);
  const Fn *f = done ? done->f : next->f;
  int32_t from = done ? (int32_t)(done->k - f->kernels) : -1,
          to = (int32_t)(next ? next->k - f->kernels : f->n_kernels);
  if (done) wait_for_team(c);
  for (If first = cg_when(c, cg_eq(c, LLVMGetParam(c->fn, 1), cg_i32(c, 0))); cg_then(&first);) {
    V fn = cg_service(c, offsetof(TnServices, guarded_arena));
    LLVMBuildCall2(c->b, type, fn, (V[]){c->frame, cg_i32(c, from), cg_i32(c, to)}, 3, "");
  }
  if (next) wait_for_team(c);
}

// Messages between processes move on while it computes.
static void poll(Cg *c) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), &c->ptr, 1, false);
  for (If first = cg_when(c, cg_eq(c, LLVMGetParam(c->fn, 1), cg_i32(c, 0))); cg_then(&first);)
    LLVMBuildCall2(c->b, type, cg_service(c, offsetof(TnServices, poll)), &c->frame, 1, "");
}

// Sums that the update wants whole are exchanged with the status of the run, behind the last kernel.
static bool begins_exchange(const KernelCall *c) {
  Val v = {c->k->first};
  return ir_ins(c->f, v)->op == OP_exchange_begin && ir_attr(c->f, v, KEY_bucket);
}

// A barrier after the check: all workers have read the status before a later kernel may set it.
static void return_if_rejected(Cg *c, bool single_threaded) {
  if (!single_threaded) wait_for_team(c);
  V code = cg_load(c, c->i32, cg_frame_ptr(c, offsetof(TnFrame, status)));
  if (!single_threaded) wait_for_team(c);
  cg_return_if(c, cg_ne(c, code, cg_i32(c, TN_KERR_NONE)), NULL);
}

static void add_flag(Cg *c, const char *name) {
  LLVMAttributeRef a = LLVMCreateEnumAttribute(c->ctx, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
  LLVMAddAttributeAtIndex(c->fn, LLVMAttributeFunctionIndex, a);
}

// An entry is a long sequence of calls with no loops: it is compiled without optimisation (optnone), in a fifth of the
// time.
void cg_emit_entry(Cg *c, const ModulePlan *plan, const EntryFn *e) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->i32, c->i32}, 3, false);
  c->fn = LLVMAddFunction(c->mod, e->symbol, type);
  add_flag(c, "noinline");
  add_flag(c, "optnone");
  c->frame = LLVMGetParam(c->fn, 0);
  LLVMPositionBuilderAtEnd(c->b, LLVMAppendBasicBlockInContext(c->ctx, c->fn, "entry"));
  Bases base;
  if (e->single_threaded && !plan->one_worker) cg_return_if(c, cg_ne(c, LLVMGetParam(c->fn, 1), cg_i32(c, 0)), NULL);
  load_bases(c, plan, e->single_threaded, &base);
  bool guarded_arena = plan->p->guarded_arena, polls = false;
  for (uint32_t i = 0; i < e->n_calls; i++) {
    if (e->calls[i].checks_status) return_if_rejected(c, e->single_threaded);
    V before = plan->profile ? cg_profile_now(c) : NULL;
    if (guarded_arena) call_guard_check(c, i ? &e->calls[i - 1] : NULL, &e->calls[i]);
    else if (e->calls[i].barrier) wait_for_team(c);
    V start = plan->profile ? cg_profile_now(c) : NULL;
    uint32_t n = n_joined_fills(plan, e, i), n_rows = 0;
    for (uint32_t k = i; k < i + n; k++) n_rows += e->calls[k].n_initial;
    if (n > 1) call_fill(c, plan, &e->calls[i], n_rows, &base);
    else call_kernel(c, plan, &e->calls[i], &base);
    if (plan->profile) cg_profile_add(c, plan, e, i, before, start);
    if (polls) poll(c);
    polls |= begins_exchange(&e->calls[i]);
    i += n - 1;
  }
  if (guarded_arena && e->n_calls) call_guard_check(c, &e->calls[e->n_calls - 1], NULL);
  LLVMBuildRetVoid(c->b);
}
