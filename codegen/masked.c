// Loads and stores of some lanes.
//
// Where the CPU has registers for masks they are one instruction. On AVX2 (Target.slow_masks) a masked store takes twelve
// cycles and more on CPUs of AMD, a masked load up to ten (docs/experiments/103):
//
//   load    the whole vector, if it does not leave its page and has a lane at all; lanes that the mask leaves out become 0
//   store   of the first n lanes: the whole vector, or a half, a quarter .. of it by the bits of n
#include "codegen/cg.h"

enum { LEAST_PAGE = 4096, MOST_BYTES = 256 };

static uint32_t lanes_of(V v) { return LLVMGetVectorSize(LLVMTypeOf(v)); }

// ---- masks of the first lanes: lane numbers < a splat of n
static V lane_numbers(Cg *c) { return cg_lane_numbers_of(c->i32, c->t->vl); }

V cg_mask(Cg *c, V n) {
  V few = cg_trunc(c, cg_min(c, n, cg_vl(c)), c->i32);
  return LLVMBuildICmp(c->b, LLVMIntSLT, lane_numbers(c), cg_splat(c, few), "mask");
}

static V constant_lanes(Cg *c, V mask) {
  uint32_t n = 0, lanes = lanes_of(mask);
  while (n < lanes && !LLVMIsNull(LLVMGetAggregateElement(mask, n))) n++;
  for (uint32_t k = n; k < lanes; k++)
    if (!LLVMIsNull(LLVMGetAggregateElement(mask, k))) return NULL;
  return cg_i32(c, (int32_t)n);
}

// The scalar that cg_splat made a vector of; NULL: it is another one.
static V splatted(V v) {
  if (!LLVMIsAShuffleVectorInst(v) || !LLVMIsAInsertElementInst(LLVMGetOperand(v, 0))) return NULL;
  for (uint32_t k = 0; k < lanes_of(v); k++)
    if (LLVMGetMaskValue(v, k)) return NULL;
  V first = LLVMGetOperand(v, 0);
  return LLVMIsNull(LLVMGetOperand(first, 2)) ? LLVMGetOperand(first, 1) : NULL;
}

// How many lanes a mask of cg_mask has, i32; NULL: it is another one.
static V first_lanes(Cg *c, V mask) {
  if (LLVMIsConstant(mask)) return constant_lanes(c, mask);
  bool is_below = LLVMIsAICmpInst(mask) && LLVMGetICmpPredicate(mask) == LLVMIntSLT;
  if (!is_below || LLVMGetOperand(mask, 0) != lane_numbers(c)) return NULL;
  V n = splatted(LLVMGetOperand(mask, 1));
  return n ? cg_max(c, n, cg_i32(c, 0)) : NULL;
}

// ---- loads
static V load_by_mask(Cg *c, LLVMTypeRef t, V p, V mask) {
  LLVMTypeRef over[] = {t, c->ptr};
  V arg[] = {p, cg_i32(c, (int32_t)cg_align_of(c, t)), mask, LLVMConstNull(t)};
  return cg_call_intrinsic(c, "llvm.masked.load", over, 2, arg, 4);
}

// A block of the stack or a constant: LLVM knows its size, and takes what reads beyond for a mistake.
static bool has_known_size(V p) {
  while (LLVMIsAGetElementPtrInst(p)) p = LLVMGetOperand(p, 0);
  return !LLVMIsAArgument(p) && !LLVMIsALoadInst(p);
}

static V stays_in_page(Cg *c, LLVMTypeRef t, V p) {
  int64_t bytes = (int64_t)LLVMGetVectorSize(t) * cg_align_of(c, t);
  V at = cg_and(c, LLVMBuildPtrToInt(c->b, p, c->i64, ""), cg_i64(c, LEAST_PAGE - 1));
  return cg_le(c, at, cg_i64(c, LEAST_PAGE - bytes));
}

// What is loaded where there is no lane, whose page may be unmapped.
static V any_vector(Cg *c) {
  V found = LLVMGetNamedGlobal(c->mod, "any_vector");
  if (found) return found;
  LLVMTypeRef t = LLVMArrayType2(c->i8, MOST_BYTES);
  V made = LLVMAddGlobal(c->mod, t, "any_vector");
  LLVMSetInitializer(made, LLVMConstNull(t));
  LLVMSetGlobalConstant(made, true);
  LLVMSetLinkage(made, LLVMInternalLinkage);
  LLVMSetAlignment(made, TN_ALIGN);
  return made;
}

static V load_whole(Cg *c, LLVMTypeRef t, V p, V mask) {
  V n = first_lanes(c, mask), some = n ? cg_gt(c, n, cg_i32(c, 0)) : cg_any_lane(c, mask), none = LLVMConstNull(t);
  V from = cg_select(c, some, p, any_vector(c)), out[2];
  LLVMBasicBlockRef left[2];
  for (If s = cg_either(c, stays_in_page(c, t, from)); cg_then(&s);) {
    V x = s.is_true ? cg_select(c, mask, cg_load(c, t, from), none) : load_by_mask(c, t, from, mask);
    out[!s.is_true] = x, left[!s.is_true] = LLVMGetInsertBlock(c->b);
  }
  return cg_phi(c, out[0], out[1], left);
}

V cg_load_masked(Cg *c, LLVMTypeRef t, V p, V mask) {
  if (!mask) return cg_load(c, t, p);
  if (!c->t->slow_masks || has_known_size(p)) return load_by_mask(c, t, p, mask);
  return load_whole(c, t, p, mask);
}

// ---- stores
static void store_by_mask(Cg *c, V v, V p, V mask) {
  LLVMTypeRef t = LLVMTypeOf(v), over[] = {t, c->ptr};
  V arg[] = {v, p, cg_i32(c, (int32_t)cg_align_of(c, t)), mask};
  cg_call_intrinsic(c, "llvm.masked.store", over, 2, arg, 4);
}

static V upper_lanes(Cg *c, V v, uint32_t from) {
  uint32_t lane[64], n = lanes_of(v);
  for (uint32_t k = 0; k < n; k++) lane[k] = (from + k) % n;
  return cg_shuffle(c, v, LLVMGetPoison(LLVMTypeOf(v)), lane, n);
}

// Halves, quarters .. of the vector by the bits of n, which is less than the number of lanes.
static void store_parts(Cg *c, V v, V p, V n) {
  for (uint32_t part = lanes_of(v) / 2; part; part /= 2) {
    V has_part = cg_ne(c, cg_and(c, n, cg_i32(c, (int32_t)part)), cg_i32(c, 0)), left[] = {v, p};
    for (If s = cg_when_carry(c, has_part, left, 2); cg_then(&s);) {
      cg_store(c, part == 1 ? LLVMBuildExtractElement(c->b, v, cg_i32(c, 0), "") : cg_some_lanes(c, v, 0, part), p);
      left[0] = upper_lanes(c, v, part);
      left[1] = cg_at_any(c, LLVMGetElementType(LLVMTypeOf(v)), p, cg_i64(c, part));
    }
    v = left[0], p = left[1];
  }
}

static void store_first(Cg *c, V v, V p, V n) {
  for (If s = cg_either(c, cg_eq(c, n, cg_i32(c, (int32_t)lanes_of(v)))); cg_then(&s);)
    if (s.is_true) cg_store(c, v, p);
    else store_parts(c, v, p, n);
}

void cg_store_masked(Cg *c, V v, V p, V mask) {
  V n = mask && c->t->slow_masks ? first_lanes(c, mask) : NULL;
  if (!mask) cg_store(c, v, p);
  else if (n && lanes_of(v) == lanes_of(mask)) store_first(c, v, p, n);
  else store_by_mask(c, v, p, mask);
}

// ---- by index
static LLVMTypeRef element(LLVMTypeRef t) {
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

V cg_get_masked(Cg *c, LLVMTypeRef t, V base, V i, V mask) {
  return cg_load_masked(c, t, cg_at(c, element(t), base, i), mask);
}
void cg_put_masked(Cg *c, V v, V base, V i, V mask) {
  cg_store_masked(c, v, cg_at(c, element(LLVMTypeOf(v)), base, i), mask);
}
