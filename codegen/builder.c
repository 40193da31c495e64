// Small builders: constants, index arithmetic that folds, loads and stores, masks, loops, the split of work among
// workers.
//
// Loops are built in their rotated form, so that the body is entered only when it runs at least once:
//   pre:   if lo < hi -> body, else -> exit
//   body:  i = phi(lo, i'), carries .. ; i' = i + step; if i' < hi -> body, else -> exit
//   exit:  out = phi(init, next)
#include "codegen/cg.h"

#include <stddef.h>
#include <string.h>

// ---- constants
LLVMValueRef cg_i64(Cg *c, int64_t v) { return LLVMConstInt(c->i64, (unsigned long long)v, true); }
LLVMValueRef cg_i32(Cg *c, int32_t v) { return LLVMConstInt(c->i32, (unsigned long long)(int64_t)v, true); }
LLVMValueRef cg_f32(Cg *c, double v) { return LLVMConstReal(c->f32, (double)(float)v); }

LLVMValueRef cg_lane_numbers(Cg *c) {
  LLVMValueRef lane[64];
  for (uint32_t k = 0; k < c->t->vl; k++) lane[k] = cg_i64(c, k);
  return LLVMConstVector(lane, c->t->vl);
}

LLVMValueRef cg_splat_n(Cg *c, LLVMValueRef scalar, uint32_t n) {
  if (LLVMIsConstant(scalar) && n <= 64) {
    LLVMValueRef lane[64];
    for (uint32_t k = 0; k < n; k++) lane[k] = scalar;
    return LLVMConstVector(lane, n);
  }
  LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(scalar), n);
  LLVMValueRef one = LLVMBuildInsertElement(c->b, LLVMGetPoison(t), scalar, cg_i32(c, 0), "");
  return LLVMBuildShuffleVector(c->b, one, LLVMGetPoison(t), LLVMConstNull(LLVMVectorType(c->i32, n)), "splat");
}
LLVMValueRef cg_splat(Cg *c, LLVMValueRef scalar) { return cg_splat_n(c, scalar, c->t->vl); }

// ---- i64 arithmetic; the builder folds constants, these fold the identities
static bool const_of(LLVMValueRef v, int64_t *out) {
  if (!LLVMIsAConstantInt(v)) return false;
  *out = LLVMConstIntGetSExtValue(v);
  return true;
}

LLVMValueRef cg_add(Cg *c, LLVMValueRef a, LLVMValueRef b) {
  int64_t k;
  if (const_of(a, &k) && k == 0) return b;
  if (const_of(b, &k) && k == 0) return a;
  return LLVMBuildNSWAdd(c->b, a, b, "");
}

LLVMValueRef cg_sub(Cg *c, LLVMValueRef a, LLVMValueRef b) {
  int64_t k;
  if (a == b) return cg_i64(c, 0);
  if (const_of(b, &k) && k == 0) return a;
  return LLVMBuildNSWSub(c->b, a, b, "");
}

LLVMValueRef cg_mul(Cg *c, LLVMValueRef a, LLVMValueRef b) {
  int64_t k;
  if (const_of(a, &k) && k == 1) return b;
  if (const_of(b, &k) && k == 1) return a;
  if (const_of(a, &k) && k == 0) return a;
  if (const_of(b, &k) && k == 0) return b;
  return LLVMBuildNSWMul(c->b, a, b, "");
}

LLVMValueRef cg_div(Cg *c, LLVMValueRef a, LLVMValueRef b) {
  int64_t k;
  if (const_of(b, &k) && k == 1) return a;
  if (const_of(a, &k) && k == 0) return a;
  return LLVMBuildUDiv(c->b, a, b, "");
}

LLVMValueRef cg_min(Cg *c, LLVMValueRef a, LLVMValueRef b) {
  int64_t x, y;
  if (a == b) return a;
  if (const_of(a, &x) && const_of(b, &y)) return x < y ? a : b;
  return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, a, b, ""), a, b, "min");
}

LLVMValueRef cg_max(Cg *c, LLVMValueRef a, LLVMValueRef b) {
  int64_t x, y;
  if (a == b) return a;
  if (const_of(a, &x) && const_of(b, &y)) return x > y ? a : b;
  return LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSGT, a, b, ""), a, b, "max");
}

LLVMValueRef cg_ceil_div_value(Cg *c, LLVMValueRef n, int64_t unit) {
  return unit == 1 ? n : cg_div(c, cg_add(c, n, cg_i64(c, unit - 1)), cg_i64(c, unit));
}

// ---- sizes and storage
// Of a positive divisor: a run with another one is refused before.
static LLVMValueRef floor_div(Cg *c, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef zero = cg_i64(c, 0), rest = LLVMBuildSRem(c->b, a, b, "");
  LLVMValueRef below = LLVMBuildZExt(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, rest, zero, ""), c->i64, "");
  return cg_sub(c, LLVMBuildSDiv(c->b, a, b, ""), below);
}

LLVMValueRef cg_dim(Cg *c, Dim d) {
  for (uint32_t k = 0; k < c->n_dims; k++)
    if (c->dims[k].i == d.i) return c->dim_val[k];
  const DimInfo *in = ir_dim_info(c->f->prog, d);
  Dim a = in->a, b = in->b;
  switch (in->kind) {
  case DIM_MUL: return cg_mul(c, cg_dim(c, a), cg_dim(c, b));
  case DIM_ADD: return cg_add(c, cg_dim(c, a), cg_dim(c, b));
  case DIM_DIV: return floor_div(c, cg_dim(c, a), cg_dim(c, b));
  case DIM_MAX: return cg_max(c, cg_dim(c, a), cg_dim(c, b));
  case DIM_MIN: return cg_min(c, cg_dim(c, a), cg_dim(c, b));
  case DIM_CONST: return cg_i64(c, in->value);
  default: break;
  }
  // A named dim that was not passed: read it from the frame, which is right but repeats the load.
  return cg_load(c, c->i64, cg_at(c, c->i64, cg_frame_ptr(c, offsetof(TnFrame, dims)), cg_i64(c, in->slot)));
}

LLVMValueRef cg_numel(Cg *c, Shape s) {
  LLVMValueRef n = cg_i64(c, 1);
  for (uint32_t k = 0; k < ir_rank(c->f->prog, s); k++) n = cg_mul(c, n, cg_dim(c, ir_dim_at(c->f->prog, s, k)));
  return n;
}

// The value whose buffer v shares: through one view or next version. None: v has a buffer of its own.
static Val shares_with(const Fn *f, Val v) {
  Val head = ir_head(f, v);
  const OpInfo *op = &ir_ops[ir_ins(f, head)->op];
  uint32_t k = v.i - head.i;
  if (op->cls == CLASS_VIEW) return ir_arg(f, head, 0);
  if ((op->flags & WRITES) && k < ir_ins(f, head)->n_args) return ir_arg(f, head, k);
  return (Val){0};
}

static int find_kernel_arg(Cg *c, Val v) {
  for (Val at = v; !ir_none(at); at = shares_with(c->f, at))
    for (uint32_t k = 0; k < c->n_kernel_args; k++)
      if (c->kernel_args[k].v.i == at.i) return (int)k;
  return -1;
}

bool cg_stored(Cg *c, Val v) { return find_kernel_arg(c, v) >= 0; }

LLVMValueRef cg_ptr(Cg *c, Val v) {
  int k = find_kernel_arg(c, v);
  if (k >= 0) return c->kernel_arg_ptr[k];
  const Ins *ins = ir_ins(c->f, v);
  if (ir_type_bytes(c->f->prog, (DType)ins->dtype, ins->shape) == 0) return c->frame;  // any address will do
  if (c->why) rt_text_add(c->why, "%%%u has no storage in this kernel; ", v.i);
  return LLVMGetPoison(c->ptr);
}

int32_t cg_id_value(const Fn *f, Val v) {
  return ir_attr(f, v, KEY_id) ? (int32_t)ir_attr_int(f, v, KEY_id, 0)
                               : (int32_t)ir_loc_line(f->prog, ir_ins(f, v)->loc);
}

LLVMValueRef cg_id(Cg *c, Val v) {
  for (uint32_t k = 0; k < c->n_ids; k++)
    if (c->ids[k].i == v.i) return c->id_val[k];
  return cg_i32(c, cg_id_value(c->f, v));
}

// ---- memory
static unsigned align_of(const Cg *c, LLVMTypeRef t) {
  switch (LLVMGetTypeKind(t)) {
  case LLVMVectorTypeKind: return align_of(c, LLVMGetElementType(t));
  case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(t) / 8 ? LLVMGetIntTypeWidth(t) / 8 : 1;
  case LLVMDoubleTypeKind: return 8;
  case LLVMPointerTypeKind: return c->t->pointer_bits / 8;
  case LLVMHalfTypeKind:
  case LLVMBFloatTypeKind: return 2;
  default: return 4;
  }
}

LLVMValueRef cg_at(Cg *c, LLVMTypeRef elem, LLVMValueRef base, LLVMValueRef index) {
  int64_t k;
  if (const_of(index, &k) && k == 0) return base;
  return LLVMBuildInBoundsGEP2(c->b, elem, base, &index, 1, "");
}

LLVMValueRef cg_load(Cg *c, LLVMTypeRef t, LLVMValueRef p) {
  LLVMValueRef v = LLVMBuildLoad2(c->b, t, p, "");
  LLVMSetAlignment(v, align_of(c, t));
  return v;
}

void cg_store(Cg *c, LLVMValueRef v, LLVMValueRef p) {
  LLVMSetAlignment(LLVMBuildStore(c->b, v, p), align_of(c, LLVMTypeOf(v)));
}

LLVMValueRef cg_mask(Cg *c, LLVMValueRef n) {
  LLVMValueRef lane[64];
  uint32_t vl = c->t->vl;
  for (uint32_t k = 0; k < vl; k++) lane[k] = cg_i32(c, (int32_t)k);
  LLVMValueRef few = LLVMBuildTrunc(c->b, cg_min(c, n, cg_i64(c, vl)), c->i32, "");
  return LLVMBuildICmp(c->b, LLVMIntSLT, LLVMConstVector(lane, vl), cg_splat(c, few), "mask");
}

LLVMValueRef cg_load_masked(Cg *c, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef mask) {
  LLVMTypeRef over[] = {t, c->ptr};
  LLVMValueRef arg[] = {p, cg_i32(c, (int32_t)align_of(c, t)), mask, LLVMConstNull(t)};
  return cg_call_intrinsic(c, "llvm.masked.load", over, 2, arg, 4);
}

void cg_store_masked(Cg *c, LLVMValueRef v, LLVMValueRef p, LLVMValueRef mask) {
  LLVMTypeRef t = LLVMTypeOf(v), over[] = {t, c->ptr};
  LLVMValueRef arg[] = {v, p, cg_i32(c, (int32_t)align_of(c, t)), mask};
  cg_call_intrinsic(c, "llvm.masked.store", over, 2, arg, 4);
}

// ---- arithmetic
static void prefetch(Cg *c, LLVMValueRef at, int32_t locality) {
  LLVMTypeRef over[] = {c->ptr};
  LLVMValueRef arg[] = {at, cg_i32(c, 0), cg_i32(c, locality), cg_i32(c, 1)};  // read, .., data
  cg_call_intrinsic(c, "llvm.prefetch", over, 1, arg, 4);
}

void cg_prefetch_l2(Cg *c, LLVMValueRef at) { prefetch(c, at, 2); }
void cg_prefetch_l1(Cg *c, LLVMValueRef at) { prefetch(c, at, 3); }

// By an empty piece of assembly, which needs no assembler.
LLVMValueRef cg_opaque(Cg *c, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x), fn = LLVMFunctionType(type, &type, 1, false);
  LLVMValueRef nothing = LLVMGetInlineAsm(fn, "", 0, "=r,0", 4, false, false, LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(c->b, fn, nothing, &x, 1, "");
}

void cg_keep_order(Cg *c, LLVMValueRef *v, uint32_t n) {
  RtText operands = {.mem = c->mem};
  LLVMTypeRef types[MAX_CARRY];
  for (uint32_t k = 0; k < n; k++) types[k] = LLVMTypeOf(v[k]);
  for (uint32_t k = 0; k < n; k++) rt_text_add(&operands, "=%s,", c->t->vector_register);
  for (uint32_t k = 0; k < n; k++) rt_text_add(&operands, "%u,", k);
  rt_text_add(&operands, "~{memory}");
  LLVMTypeRef all = n > 1 ? LLVMStructTypeInContext(c->ctx, types, n, false) : types[0];
  LLVMTypeRef fn = LLVMFunctionType(all, types, n, false);
  LLVMValueRef nothing =
      LLVMGetInlineAsm(fn, "", 0, operands.text, operands.len, true, false, LLVMInlineAsmDialectATT, false);
  LLVMValueRef out = LLVMBuildCall2(c->b, fn, nothing, v, n, "");
  for (uint32_t k = 0; k < n; k++) v[k] = n > 1 ? LLVMBuildExtractValue(c->b, out, k, "") : out;
}

LLVMValueRef cg_call_intrinsic(Cg *c, const char *name, LLVMTypeRef *over, uint32_t n_over, LLVMValueRef *args,
                               uint32_t n) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(c->mod, id, over, n_over);
  return LLVMBuildCall2(c->b, LLVMIntrinsicGetType(c->ctx, id, over, n_over), fn, args, n, "");
}

// Without the instruction LLVM would call libm, which compiled code does not have: the product is rounded too.
LLVMValueRef cg_fma(Cg *c, LLVMValueRef a, LLVMValueRef b, LLVMValueRef d) {
  if (!c->t->has_fma) return LLVMBuildFAdd(c->b, LLVMBuildFMul(c->b, a, b, ""), d, "");
  LLVMTypeRef t = LLVMTypeOf(a);
  return cg_call_intrinsic(c, "llvm.fma", &t, 1, (LLVMValueRef[]){a, b, d}, 3);
}

// ---- control flow
static LLVMBasicBlockRef here(Cg *c) { return LLVMGetInsertBlock(c->b); }
static LLVMBasicBlockRef new_block(Cg *c, const char *name) {
  return LLVMAppendBasicBlockInContext(c->ctx, LLVMGetBasicBlockParent(here(c)), name);
}

void cg_loop_begin(Cg *c, Loop *l, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step, LLVMValueRef *init,
                   uint32_t n) {
  l->hi = hi;
  l->step = step;
  l->n = n;
  l->head = here(c);
  l->body = new_block(c, "loop");
  l->exit = new_block(c, "done");
  LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, lo, hi, ""), l->body, l->exit);
  LLVMPositionBuilderAtEnd(c->b, l->body);
  l->i = LLVMBuildPhi(c->b, c->i64, "i");
  LLVMAddIncoming(l->i, &lo, &l->head, 1);
  for (uint32_t k = 0; k < n; k++) {
    l->carry[k] = LLVMBuildPhi(c->b, LLVMTypeOf(init[k]), "");
    LLVMAddIncoming(l->carry[k], &init[k], &l->head, 1);
  }
}

void cg_loop_end(Cg *c, Loop *l, LLVMValueRef *next) {
  LLVMBasicBlockRef latch = here(c);
  LLVMMoveBasicBlockAfter(l->exit, latch);
  LLVMValueRef i = LLVMBuildNSWAdd(c->b, l->i, l->step, "");
  LLVMAddIncoming(l->i, &i, &latch, 1);
  LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, i, l->hi, ""), l->body, l->exit);
  LLVMPositionBuilderAtEnd(c->b, l->exit);
  for (uint32_t k = 0; k < l->n; k++) {
    LLVMValueRef init = LLVMGetIncomingValue(l->carry[k], 0);
    LLVMAddIncoming(l->carry[k], &next[k], &latch, 1);
    l->out[k] = LLVMBuildPhi(c->b, LLVMTypeOf(next[k]), "");
    LLVMAddIncoming(l->out[k], (LLVMValueRef[]){init, next[k]}, (LLVMBasicBlockRef[]){l->head, latch}, 2);
  }
}

void cg_if(Cg *c, If *s, LLVMValueRef cond) {
  s->then = new_block(c, "then");
  s->other = new_block(c, "else");
  s->join = NULL;
  LLVMBuildCondBr(c->b, cond, s->then, s->other);
  LLVMPositionBuilderAtEnd(c->b, s->then);
}

void cg_else(Cg *c, If *s) {
  s->join = new_block(c, "join");
  LLVMBuildBr(c->b, s->join);
  LLVMPositionBuilderAtEnd(c->b, s->other);
}

void cg_endif(Cg *c, If *s) {
  LLVMBasicBlockRef to = s->join ? s->join : s->other;
  LLVMBuildBr(c->b, to);
  LLVMMoveBasicBlockAfter(to, here(c));
  LLVMPositionBuilderAtEnd(c->b, to);
}

// ---- the team
void cg_range(Cg *c, Val range, LLVMValueRef *lo, LLVMValueRef *hi) {
  *lo = cg_load(c, c->i64, cg_ptr(c, range));
  *hi = cg_load(c, c->i64, cg_at(c, c->i64, cg_ptr(c, range), cg_i64(c, 1)));
}

void cg_share(Cg *c, LLVMValueRef n, int64_t grain, LLVMValueRef *lo, LLVMValueRef *hi) {
  LLVMValueRef g = cg_i64(c, grain), units = cg_div(c, cg_add(c, n, cg_i64(c, grain - 1)), g);
  LLVMValueRef next = cg_add(c, c->worker, cg_i64(c, 1));
  LLVMValueRef first = cg_div(c, cg_mul(c, units, c->worker), c->n_workers);
  LLVMValueRef last = cg_div(c, cg_mul(c, units, next), c->n_workers);
  *lo = cg_min(c, cg_mul(c, first, g), n);
  *hi = cg_min(c, cg_mul(c, last, g), n);
}

void cg_barrier(Cg *c, LLVMValueRef which, LLVMValueRef count) {
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->i32, c->i32}, 3, false);
  LLVMBuildCall2(c->b, t, cg_service(c, offsetof(TnServices, barrier)), (LLVMValueRef[]){c->frame, which, count}, 3,
                 "");
}

static bool is_new_helper(Cg *c, const char *symbol) {
  size_t size = strlen(symbol);
  if (rt_names_find(c->helpers, symbol, size) != RT_NO_NAME) return false;
  rt_names_add(c->helpers, rt_strdup(c->helpers->mem, symbol), size);
  return true;
}

LLVMValueRef cg_helper(Cg *c, const char *name, LLVMTypeRef type, void (*make)(Cg *c, LLVMValueRef fn, void *ctx),
                       void *ctx) {
  const char *symbol = rt_printf(c->mem, "%s.helper.%s", c->program, name);
  LLVMValueRef fn = LLVMGetNamedFunction(c->mod, symbol), outer = c->fn;
  if (fn) return fn;
  fn = LLVMAddFunction(c->mod, symbol, type);
  LLVMSetVisibility(fn, LLVMHiddenVisibility);
  if (!is_new_helper(c, symbol)) return fn;
  LLVMBasicBlockRef back = here(c);
  c->fn = fn;
  LLVMPositionBuilderAtEnd(c->b, LLVMAppendBasicBlockInContext(c->ctx, fn, "entry"));
  make(c, fn, ctx);
  c->fn = outer;
  LLVMPositionBuilderAtEnd(c->b, back);
  return fn;
}

void cg_call_helper(Cg *c, const char *name, LLVMValueRef *arg, uint32_t n,
                    void (*make)(Cg *c, LLVMValueRef fn, void *ctx), void *ctx) {
  LLVMTypeRef *types = rt_alloc(c->mem, sizeof *types * n);
  for (uint32_t i = 0; i < n; i++) types[i] = LLVMTypeOf(arg[i]);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, n, false);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make, ctx), arg, n, "");
}

LLVMValueRef cg_phi(Cg *c, LLVMValueRef a, LLVMValueRef b, LLVMBasicBlockRef from[2]) {
  LLVMValueRef p = LLVMBuildPhi(c->b, LLVMTypeOf(a), "");
  LLVMAddIncoming(p, (LLVMValueRef[]){a, b}, from, 2);
  return p;
}

// void report(TnKernelStatus *, i64 index, i64 value, i32 code): the worker that turns the code from 0 writes the rest.
static void make_report(Cg *c, LLVMValueRef fn, void *ctx) {
  (void)ctx;
  LLVMValueRef status = LLVMGetParam(fn, 0), code = status;
  LLVMValueRef swap = LLVMBuildAtomicCmpXchg(c->b, code, cg_i32(c, TN_KERR_NONE), LLVMGetParam(fn, 3),
                                             LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
  If s;
  cg_if(c, &s, LLVMBuildExtractValue(c->b, swap, 1, ""));
  cg_store(c, cg_i32(c, -1), cg_at(c, c->i8, status, cg_i64(c, offsetof(TnKernelStatus, input))));
  cg_store(c, LLVMGetParam(fn, 1), cg_at(c, c->i8, status, cg_i64(c, offsetof(TnKernelStatus, index))));
  cg_store(c, LLVMGetParam(fn, 2), cg_at(c, c->i8, status, cg_i64(c, offsetof(TnKernelStatus, value))));
  cg_endif(c, &s);
  LLVMBuildRetVoid(c->b);
}

void cg_report(Cg *c, TnKernelError code, LLVMValueRef index, LLVMValueRef value) {
  LLVMTypeRef t =
      LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->i64, c->i64, c->i32}, 4, false);
  LLVMValueRef fn = cg_helper(c, "report", t, make_report, NULL);
  LLVMValueRef status = cg_frame_ptr(c, offsetof(TnFrame, status));
  LLVMBuildCall2(c->b, t, fn, (LLVMValueRef[]){status, index, value, cg_i32(c, (int32_t)code)}, 4, "");
}

void cg_team_barrier(Cg *c, LLVMValueRef which, LLVMValueRef count) {
  If several;
  cg_if(c, &several, LLVMBuildICmp(c->b, LLVMIntSGT, count, cg_i64(c, 1), ""));
  cg_barrier(c, which, LLVMBuildTrunc(c->b, count, c->i32, ""));
  cg_endif(c, &several);
}

void cg_wait_for_team(Cg *c) {
  If several;
  cg_if(c, &several, LLVMBuildICmp(c->b, LLVMIntSGT, c->n_workers, cg_i64(c, 1), ""));
  cg_barrier(c, cg_i32(c, 0), LLVMBuildTrunc(c->b, c->n_workers, c->i32, ""));
  cg_endif(c, &several);
}

bool cg_const_value(LLVMValueRef v, int64_t *value) {
  if (!LLVMIsAConstantInt(v)) return false;
  *value = LLVMConstIntGetSExtValue(v);
  return true;
}
