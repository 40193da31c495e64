// Small builders: constants, arithmetic, loads and stores, masks, sizes and storage, the split of work among workers.
#include "codegen/cg.h"

#include <stddef.h>
#include <string.h>

enum { MOST_LANES = 256 };

// ---- constants
V cg_i64(Cg *c, int64_t v) { return LLVMConstInt(c->i64, (unsigned long long)v, true); }
V cg_i32(Cg *c, int32_t v) { return LLVMConstInt(c->i32, (unsigned long long)(int64_t)v, true); }
V cg_f32(Cg *c, double v) { return LLVMConstReal(c->f32, (double)(float)v); }

V cg_vl(Cg *c) { return cg_i64(c, c->t->vl); }
V cg_zeros(Cg *c) { return LLVMConstNull(c->vf); }
V cg_lane_numbers_of(LLVMTypeRef t, uint32_t n) {
  V lane[MOST_LANES];
  for (uint32_t k = 0; k < n; k++) lane[k] = LLVMConstInt(t, k, false);
  return LLVMConstVector(lane, n);
}
V cg_lane_numbers(Cg *c) { return cg_lane_numbers_of(c->i64, c->t->vl); }

LLVMTypeRef cg_lanes_of(V like, LLVMTypeRef elem) {
  LLVMTypeRef t = LLVMTypeOf(like);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMVectorType(elem, LLVMGetVectorSize(t)) : elem;
}

V cg_splat_n(Cg *c, V scalar, uint32_t n) {
  if (LLVMIsConstant(scalar) && n <= 64) {
    V lane[64];
    for (uint32_t k = 0; k < n; k++) lane[k] = scalar;
    return LLVMConstVector(lane, n);
  }
  LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(scalar), n);
  V one = LLVMBuildInsertElement(c->b, LLVMGetPoison(t), scalar, cg_i32(c, 0), "");
  return LLVMBuildShuffleVector(c->b, one, LLVMGetPoison(t), LLVMConstNull(LLVMVectorType(c->i32, n)), "splat");
}
V cg_splat_like(Cg *c, V like, V scalar) {
  LLVMTypeRef t = LLVMTypeOf(like);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? cg_splat_n(c, scalar, LLVMGetVectorSize(t)) : scalar;
}
V cg_spread(Cg *c, V scalar, uint32_t lanes) { return lanes == 1 ? scalar : cg_splat_n(c, scalar, lanes); }
V cg_splat(Cg *c, V scalar) { return cg_splat_n(c, scalar, c->t->vl); }

// ---- i64 arithmetic; the builder folds constants, these fold the identities
bool cg_const_value(V v, int64_t *value) {
  if (!LLVMIsAConstantInt(v)) return false;
  *value = LLVMConstIntGetSExtValue(v);
  return true;
}

bool cg_is_int(V v, int64_t want) {
  int64_t x;
  return cg_const_value(v, &x) && x == want;
}

V cg_add(Cg *c, V a, V b) {
  int64_t k;
  if (cg_const_value(a, &k) && k == 0) return b;
  if (cg_const_value(b, &k) && k == 0) return a;
  return LLVMBuildNSWAdd(c->b, a, b, "");
}

V cg_sub(Cg *c, V a, V b) {
  int64_t k;
  if (a == b) return cg_i64(c, 0);
  if (cg_const_value(b, &k) && k == 0) return a;
  return LLVMBuildNSWSub(c->b, a, b, "");
}

V cg_mul(Cg *c, V a, V b) {
  int64_t k;
  if (cg_const_value(a, &k) && k == 1) return b;
  if (cg_const_value(b, &k) && k == 1) return a;
  if (cg_const_value(a, &k) && k == 0) return a;
  if (cg_const_value(b, &k) && k == 0) return b;
  return LLVMBuildNSWMul(c->b, a, b, "");
}

V cg_div(Cg *c, V a, V b) {
  int64_t k;
  if (cg_const_value(b, &k) && k == 1) return a;
  if (cg_const_value(a, &k) && k == 0) return a;
  return LLVMBuildUDiv(c->b, a, b, "");
}

V cg_rem(Cg *c, V a, V b) {
  int64_t k;
  if (cg_const_value(b, &k) && k == 1) return cg_i64(c, 0);
  return LLVMBuildURem(c->b, a, b, "");
}

V cg_split(Cg *c, V *number, int64_t n) {
  V whole = cg_div(c, *number, cg_i64(c, n));
  *number = cg_rem(c, *number, cg_i64(c, n));
  return whole;
}

V cg_min(Cg *c, V a, V b) {
  int64_t x, y;
  if (a == b) return a;
  if (cg_const_value(a, &x) && cg_const_value(b, &y)) return x < y ? a : b;
  return LLVMBuildSelect(c->b, cg_lt(c, a, b), a, b, "min");
}

V cg_max(Cg *c, V a, V b) {
  int64_t x, y;
  if (a == b) return a;
  if (cg_const_value(a, &x) && cg_const_value(b, &y)) return x > y ? a : b;
  return LLVMBuildSelect(c->b, cg_gt(c, a, b), a, b, "max");
}

V cg_ceil_div_value(Cg *c, V n, int64_t unit) {
  return unit == 1 ? n : cg_div(c, cg_add(c, n, cg_i64(c, unit - 1)), cg_i64(c, unit));
}

V cg_multiple(Cg *c, V n, V unit) { return cg_mul(c, cg_div(c, n, unit), unit); }
V cg_index(Cg *c, V row, V stride, V column) { return cg_add(c, cg_mul(c, row, stride), column); }

// ---- one instruction each
V cg_fadd(Cg *c, V a, V b) { return LLVMBuildFAdd(c->b, a, b, ""); }
V cg_fsub(Cg *c, V a, V b) { return LLVMBuildFSub(c->b, a, b, ""); }
V cg_fmul(Cg *c, V a, V b) { return LLVMBuildFMul(c->b, a, b, ""); }
V cg_fdiv(Cg *c, V a, V b) { return LLVMBuildFDiv(c->b, a, b, ""); }
V cg_fneg(Cg *c, V a) { return LLVMBuildFNeg(c->b, a, ""); }
V cg_iadd(Cg *c, V a, V b) { return LLVMBuildAdd(c->b, a, b, ""); }
V cg_isub(Cg *c, V a, V b) { return LLVMBuildSub(c->b, a, b, ""); }
V cg_imul(Cg *c, V a, V b) { return LLVMBuildMul(c->b, a, b, ""); }
V cg_and(Cg *c, V a, V b) { return LLVMBuildAnd(c->b, a, b, ""); }
V cg_or(Cg *c, V a, V b) { return LLVMBuildOr(c->b, a, b, ""); }
V cg_xor(Cg *c, V a, V b) { return LLVMBuildXor(c->b, a, b, ""); }
V cg_not(Cg *c, V a) { return LLVMBuildNot(c->b, a, ""); }
V cg_shl(Cg *c, V a, V b) { return LLVMBuildShl(c->b, a, b, ""); }
V cg_lshr(Cg *c, V a, V b) { return LLVMBuildLShr(c->b, a, b, ""); }
V cg_ashr(Cg *c, V a, V b) { return LLVMBuildAShr(c->b, a, b, ""); }
V cg_icmp(Cg *c, LLVMIntPredicate p, V a, V b) { return LLVMBuildICmp(c->b, p, a, b, ""); }
V cg_fcmp(Cg *c, LLVMRealPredicate p, V a, V b) { return LLVMBuildFCmp(c->b, p, a, b, ""); }
V cg_select(Cg *c, V cond, V a, V b) { return LLVMBuildSelect(c->b, cond, a, b, ""); }
V cg_zext(Cg *c, V a, LLVMTypeRef t) { return LLVMBuildZExt(c->b, a, t, ""); }
V cg_sext(Cg *c, V a, LLVMTypeRef t) { return LLVMBuildSExt(c->b, a, t, ""); }
V cg_trunc(Cg *c, V a, LLVMTypeRef t) { return LLVMBuildTrunc(c->b, a, t, ""); }
V cg_bitcast(Cg *c, V a, LLVMTypeRef t) { return LLVMBuildBitCast(c->b, a, t, ""); }
V cg_sitofp(Cg *c, V a, LLVMTypeRef t) { return LLVMBuildSIToFP(c->b, a, t, ""); }
V cg_fpext(Cg *c, V a, LLVMTypeRef t) { return LLVMBuildFPExt(c->b, a, t, ""); }
V cg_fptrunc(Cg *c, V a, LLVMTypeRef t) { return LLVMBuildFPTrunc(c->b, a, t, ""); }

V cg_eq(Cg *c, V a, V b) { return cg_icmp(c, LLVMIntEQ, a, b); }
V cg_ne(Cg *c, V a, V b) { return cg_icmp(c, LLVMIntNE, a, b); }
V cg_lt(Cg *c, V a, V b) { return cg_icmp(c, LLVMIntSLT, a, b); }
V cg_le(Cg *c, V a, V b) { return cg_icmp(c, LLVMIntSLE, a, b); }
V cg_gt(Cg *c, V a, V b) { return cg_icmp(c, LLVMIntSGT, a, b); }
V cg_ge(Cg *c, V a, V b) { return cg_icmp(c, LLVMIntSGE, a, b); }
V cg_below(Cg *c, V a, V b) { return cg_icmp(c, LLVMIntULT, a, b); }
V cg_between(Cg *c, V i, V lo, V hi) { return cg_below(c, cg_isub(c, i, lo), cg_sub(c, hi, lo)); }
V cg_both(Cg *c, V a, V b) { return !a ? b : !b ? a : cg_and(c, a, b); }

// ---- sizes and storage
// The divisor is positive: a run with another one was refused before.
static V floor_div(Cg *c, V a, V b) {
  V zero = cg_i64(c, 0), rest = LLVMBuildSRem(c->b, a, b, "");
  V below = cg_zext(c, cg_lt(c, rest, zero), c->i64);
  return cg_sub(c, LLVMBuildSDiv(c->b, a, b, ""), below);
}

V cg_dim(Cg *c, Dim d) {
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
  return cg_get(c, c->i64, cg_frame_ptr(c, offsetof(TnFrame, dims)), cg_i64(c, in->slot));
}

V cg_axis_product(Cg *c, Shape s, uint32_t from, uint32_t to) {
  V n = cg_i64(c, 1);
  for (uint32_t k = from; k < to; k++) n = cg_mul(c, n, cg_dim(c, ir_dim_at(c->f->prog, s, k)));
  return n;
}

V cg_numel(Cg *c, Shape s) { return cg_axis_product(c, s, 0, ir_rank(c->f->prog, s)); }

int64_t cg_axis_bound(const Prog *p, Shape s, uint32_t from, uint32_t to) {
  int64_t n = 1;
  for (uint32_t k = from; k < to; k++) n *= ir_dim_bound(p, ir_dim_at(p, s, k));
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

bool cg_is_empty(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  return ins->dtype != DT_LAYOUT && ir_shape_bound(f->prog, ins->shape) == 0;
}

bool cg_stored(Cg *c, Val v) { return find_kernel_arg(c, v) >= 0; }

V cg_ptr(Cg *c, Val v) {
  int k = find_kernel_arg(c, v);
  if (k >= 0) return c->kernel_arg_ptr[k];
  if (cg_is_empty(c->f, v)) return c->frame;  // any address will do
  if (c->why) rt_text_add(c->why, "%%%u has no storage in this kernel; ", v.i);
  return LLVMGetPoison(c->ptr);
}

V cg_ptr_or_null(Cg *c, Val v) { return cg_stored(c, v) ? cg_ptr(c, v) : NULL; }
V cg_ptr_or_zero(Cg *c, Val v) { return cg_stored(c, v) ? cg_ptr(c, v) : LLVMConstNull(c->ptr); }

int32_t cg_id_value(const KernelId *id) {
  return ir_attr(id->f, id->v, KEY_id) ? (int32_t)ir_attr_int(id->f, id->v, KEY_id, 0)
                                       : (int32_t)ir_loc_line(id->f->prog, ir_ins(id->f, id->v)->loc);
}

V cg_id(Cg *c, Val v) {
  for (uint32_t k = 0; k < c->n_ids; k++)
    if (c->ids[k].v.i == v.i) return c->id_val[k];
  return cg_i32(c, cg_id_value(&(KernelId){c->f, v, 0}));
}

// ---- memory
unsigned cg_align_of(const Cg *c, LLVMTypeRef t) {
  switch (LLVMGetTypeKind(t)) {
  case LLVMVectorTypeKind: return cg_align_of(c, LLVMGetElementType(t));
  case LLVMIntegerTypeKind: return LLVMGetIntTypeWidth(t) / 8 ? LLVMGetIntTypeWidth(t) / 8 : 1;
  case LLVMDoubleTypeKind: return 8;
  case LLVMPointerTypeKind: return c->t->pointer_bits / 8;
  case LLVMHalfTypeKind:
  case LLVMBFloatTypeKind: return 2;
  default: return 4;
  }
}

V cg_at(Cg *c, LLVMTypeRef elem, V base, V index) {
  int64_t k;
  if (cg_const_value(index, &k) && k == 0) return base;
  return LLVMBuildInBoundsGEP2(c->b, elem, base, &index, 1, "");
}

V cg_row(Cg *c, V base, V row, V stride) { return cg_at(c, c->f32, base, cg_mul(c, row, stride)); }
V cg_cell(Cg *c, V base, V row, V stride, V column) { return cg_at(c, c->f32, base, cg_index(c, row, stride, column)); }
V cg_at_any(Cg *c, LLVMTypeRef elem, V base, V index) { return LLVMBuildGEP2(c->b, elem, base, &index, 1, ""); }

V cg_load(Cg *c, LLVMTypeRef t, V p) {
  V v = LLVMBuildLoad2(c->b, t, p, "");
  LLVMSetAlignment(v, cg_align_of(c, t));
  return v;
}

void cg_store(Cg *c, V v, V p) { LLVMSetAlignment(LLVMBuildStore(c->b, v, p), cg_align_of(c, LLVMTypeOf(v))); }

// Whole vectors, at a multiple of their size
void cg_store_past_caches(Cg *c, V v, V p) {
  V store = LLVMBuildStore(c->b, v, p), one = LLVMConstInt(c->i32, 1, false);
  LLVMSetAlignment(store, (uint32_t)(cg_align_of(c, LLVMTypeOf(v)) * c->t->vl));
  V flag = LLVMMDNodeInContext(c->ctx, &one, 1);
  LLVMSetMetadata(store, LLVMGetMDKindIDInContext(c->ctx, "nontemporal", 11), flag);
}

void cg_wait_for_stores(Cg *c) { LLVMBuildFence(c->b, LLVMAtomicOrderingSequentiallyConsistent, false, ""); }

static LLVMTypeRef element(LLVMTypeRef t) {
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

V cg_get(Cg *c, LLVMTypeRef t, V base, V i) { return cg_load(c, t, cg_at(c, element(t), base, i)); }
void cg_put(Cg *c, V v, V base, V i) { cg_store(c, v, cg_at(c, element(LLVMTypeOf(v)), base, i)); }

static V pointers(Cg *c, LLVMTypeRef elem, V base, V index) {
  return LLVMBuildInBoundsGEP2(c->b, elem, base, &index, 1, "");
}
static V all_lanes(Cg *c, V like) { return LLVMConstAllOnes(cg_lanes_of(like, c->i1)); }

V cg_gather(Cg *c, LLVMTypeRef elem, V base, V index, V mask) {
  LLVMTypeRef vec = cg_lanes_of(index, elem), over[] = {vec, cg_lanes_of(index, c->ptr)};
  V align = cg_i32(c, (int32_t)cg_align_of(c, elem)), at = pointers(c, elem, base, index);
  return cg_call_intrinsic(c, "llvm.masked.gather", over, 2,
                           (V[]){at, align, mask ? mask : all_lanes(c, index), LLVMConstNull(vec)}, 4);
}

void cg_scatter(Cg *c, V v, V base, V index, V mask) {
  LLVMTypeRef elem = element(LLVMTypeOf(v)), over[] = {LLVMTypeOf(v), cg_lanes_of(index, c->ptr)};
  V align = cg_i32(c, (int32_t)cg_align_of(c, elem)), at = pointers(c, elem, base, index);
  cg_call_intrinsic(c, "llvm.masked.scatter", over, 2, (V[]){v, at, align, mask ? mask : all_lanes(c, index)}, 4);
}

static void prefetch(Cg *c, V at, bool writes, int32_t locality) {
  LLVMTypeRef over[] = {c->ptr};
  V arg[] = {at, cg_i32(c, writes), cg_i32(c, locality), cg_i32(c, 1)};  // .., data
  cg_call_intrinsic(c, "llvm.prefetch", over, 1, arg, 4);
}

void cg_prefetch_l2(Cg *c, V at) { prefetch(c, at, false, 2); }
void cg_prefetch_l1(Cg *c, V at) { prefetch(c, at, false, 3); }
void cg_prefetch_write(Cg *c, V at) { prefetch(c, at, true, 3); }

// By an empty piece of assembly, which needs no assembler.
V cg_opaque(Cg *c, V x) {
  LLVMTypeRef type = LLVMTypeOf(x), fn = LLVMFunctionType(type, &type, 1, false);
  V nothing = LLVMGetInlineAsm(fn, "", 0, "=r,0", 4, false, false, LLVMInlineAsmDialectATT, false);
  return LLVMBuildCall2(c->b, fn, nothing, &x, 1, "");
}

void cg_keep_order(Cg *c, V *v, uint32_t n) {
  RtText operands = {.mem = c->mem};
  LLVMTypeRef types[MAX_CARRY];
  for (uint32_t k = 0; k < n; k++) types[k] = LLVMTypeOf(v[k]);
  for (uint32_t k = 0; k < n; k++) rt_text_add(&operands, "=%s,", c->t->vector_register);
  for (uint32_t k = 0; k < n; k++) rt_text_add(&operands, "%u,", k);
  rt_text_add(&operands, "~{memory}");
  LLVMTypeRef some = n ? types[0] : LLVMVoidTypeInContext(c->ctx);
  LLVMTypeRef all = n > 1 ? LLVMStructTypeInContext(c->ctx, types, n, false) : some;
  LLVMTypeRef fn = LLVMFunctionType(all, types, n, false);
  V nothing = LLVMGetInlineAsm(fn, "", 0, operands.text, operands.len, true, false, LLVMInlineAsmDialectATT, false);
  V out = LLVMBuildCall2(c->b, fn, nothing, v, n, "");
  for (uint32_t k = 0; k < n; k++) v[k] = n > 1 ? LLVMBuildExtractValue(c->b, out, k, "") : out;
}

V cg_call_intrinsic(Cg *c, const char *name, LLVMTypeRef *over, uint32_t n_over, V *args, uint32_t n) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  V fn = LLVMGetIntrinsicDeclaration(c->mod, id, over, n_over);
  return LLVMBuildCall2(c->b, LLVMIntrinsicGetType(c->ctx, id, over, n_over), fn, args, n, "");
}

// Without the instruction LLVM would call libm, which compiled code does not have: the product is rounded too.
V cg_fma(Cg *c, V a, V b, V d) {
  if (!c->t->has_fma) return cg_fadd(c, cg_fmul(c, a, b), d);
  LLVMTypeRef t = LLVMTypeOf(a);
  return cg_call_intrinsic(c, "llvm.fma", &t, 1, (V[]){a, b, d}, 3);
}

// ---- the team
void cg_range(Cg *c, Val range, V *lo, V *hi) {
  *lo = cg_load(c, c->i64, cg_ptr(c, range));
  *hi = cg_get(c, c->i64, cg_ptr(c, range), cg_i64(c, 1));
}

void cg_share(Cg *c, V n, int64_t grain, V *lo, V *hi) {
  V g = cg_i64(c, grain), units = cg_div(c, cg_add(c, n, cg_i64(c, grain - 1)), g);
  V next = cg_add(c, c->worker, cg_i64(c, 1));
  V first = cg_div(c, cg_mul(c, units, c->worker), c->n_workers);
  V last = cg_div(c, cg_mul(c, units, next), c->n_workers);
  *lo = cg_min(c, cg_mul(c, first, g), n);
  *hi = cg_min(c, cg_mul(c, last, g), n);
}

V cg_in_streams(Cg *c, V k, V n, int64_t item_bytes, int64_t all_bytes) {
  enum { MOST_BYTES = 2048 };
  if (c->t->memory_streams < 2 || item_bytes > MOST_BYTES || all_bytes <= c->t->facts.l2_bytes) return k;
  V streams = cg_i64(c, c->t->memory_streams), part = cg_div(c, n, streams);
  V turn = cg_index(c, cg_rem(c, k, streams), part, cg_div(c, k, streams));
  return cg_select(c, cg_lt(c, k, cg_mul(c, part, streams)), turn, k);
}

static LLVMTypeRef void_of(Cg *c, V *arg, uint32_t n) {
  LLVMTypeRef *types = rt_alloc(c->mem, sizeof *types * n);
  for (uint32_t i = 0; i < n; i++) types[i] = LLVMTypeOf(arg[i]);
  return LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, n, false);
}

void cg_call_service(Cg *c, size_t service, V *arg, uint32_t n) {
  LLVMBuildCall2(c->b, void_of(c, arg, n), cg_service(c, service), arg, n, "");
}

void cg_barrier(Cg *c, V which, V count) {
  cg_call_service(c, offsetof(TnServices, barrier), (V[]){c->frame, which, count}, 3);
}

static LLVMBasicBlockRef here(Cg *c) { return LLVMGetInsertBlock(c->b); }

static bool is_new_helper(Cg *c, const char *symbol) {
  size_t size = strlen(symbol);
  if (rt_names_find(c->helpers, symbol, size) != RT_NO_NAME) return false;
  rt_names_add(c->helpers, rt_strdup(c->helpers->mem, symbol), size);
  return true;
}

V cg_helper(Cg *c, const char *name, LLVMTypeRef type, void (*make)(Cg *c, V fn, void *ctx), void *ctx) {
  const char *symbol = rt_printf(c->mem, "%s.helper.%s", c->program, name);
  V fn = LLVMGetNamedFunction(c->mod, symbol), outer = c->fn;
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

void cg_call_helper(Cg *c, const char *name, V *arg, uint32_t n, void (*make)(Cg *c, V fn, void *ctx), void *ctx) {
  LLVMTypeRef type = void_of(c, arg, n);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make, ctx), arg, n, "");
}

V cg_phi(Cg *c, V a, V b, LLVMBasicBlockRef from[2]) {
  V p = LLVMBuildPhi(c->b, LLVMTypeOf(a), "");
  LLVMAddIncoming(p, (V[]){a, b}, from, 2);
  return p;
}

// void report(TnKernelStatus *, i64 index, i64 value, i32 code): the worker that turns the code from 0 writes the rest.
static void make_report(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V status = LLVMGetParam(fn, 0), code = status;
  V swap = LLVMBuildAtomicCmpXchg(c->b, code, cg_i32(c, TN_KERR_NONE), LLVMGetParam(fn, 3), LLVMAtomicOrderingMonotonic,
                                  LLVMAtomicOrderingMonotonic, false);
  for (If s = cg_when(c, LLVMBuildExtractValue(c->b, swap, 1, "")); cg_then(&s);) {
    cg_store(c, cg_i32(c, -1), cg_at(c, c->i8, status, cg_i64(c, offsetof(TnKernelStatus, input))));
    cg_store(c, LLVMGetParam(fn, 1), cg_at(c, c->i8, status, cg_i64(c, offsetof(TnKernelStatus, index))));
    cg_store(c, LLVMGetParam(fn, 2), cg_at(c, c->i8, status, cg_i64(c, offsetof(TnKernelStatus, value))));
  }
  LLVMBuildRetVoid(c->b);
}

void cg_report(Cg *c, TnKernelError code, V index, V value) {
  V status = cg_frame_ptr(c, offsetof(TnFrame, status));
  cg_call_helper(c, "report", (V[]){status, index, value, cg_i32(c, (int32_t)code)}, 4, make_report, NULL);
}

void cg_team_barrier(Cg *c, V which, V count) {
  for (If several = cg_when(c, cg_gt(c, count, cg_i64(c, 1))); cg_then(&several);)
    cg_barrier(c, which, cg_trunc(c, count, c->i32));
}

void cg_wait_for_team(Cg *c) { cg_team_barrier(c, cg_i32(c, 0), c->n_workers); }

V cg_shuffle(Cg *c, V a, V b, const uint32_t *from, uint32_t n) {
  V lane[256];
  for (uint32_t k = 0; k < n; k++) lane[k] = cg_i32(c, (int32_t)from[k]);
  return LLVMBuildShuffleVector(c->b, a, b, LLVMConstVector(lane, n), "");
}

V cg_some_lanes(Cg *c, V v, uint32_t from, uint32_t n) {
  uint32_t lane[64];
  for (uint32_t k = 0; k < n; k++) lane[k] = from + k;
  return cg_shuffle(c, v, LLVMGetPoison(LLVMTypeOf(v)), lane, n);
}

V cg_any_lane(Cg *c, V mask) {
  LLVMTypeRef bits = LLVMIntTypeInContext(c->ctx, LLVMGetVectorSize(LLVMTypeOf(mask)));
  return cg_ne(c, cg_bitcast(c, mask, bits), LLVMConstNull(bits));
}

// ---- halves
static const char halved[] = "halved";  // an attribute that LLVM does not know

void cg_halve_vectors(Cg *c) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(c->ctx, halved, sizeof halved - 1, "", 0);
  LLVMAddAttributeAtIndex(LLVMGetBasicBlockParent(LLVMGetInsertBlock(c->b)), LLVMAttributeFunctionIndex, a);
}

bool cg_may_halve_vectors(V fn) {
  return LLVMGetStringAttributeAtIndex(fn, LLVMAttributeFunctionIndex, halved, sizeof halved - 1);
}
