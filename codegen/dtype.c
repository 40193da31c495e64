// Dtypes as compiled code has them: how an element lies in memory, and what it is as f32, through which every conversion
// goes. A row for each number of ir/dtypes.def; kernels that only move elements ask for their type and need no more.
#include "codegen/cg.h"

typedef LLVMValueRef V;
typedef V Convert(Cg *c, V x);  // a scalar or a vector
typedef struct {
  LLVMTypeRef (*elem)(Cg *c);
  Convert *to_f32, *from_f32;
} Storage;

// The type with as many lanes as x has.
static LLVMTypeRef lanes_like(V x, LLVMTypeRef elem) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMVectorType(elem, LLVMGetVectorSize(t)) : elem;
}

// ---- f32
static LLVMTypeRef elem_f32(Cg *c) { return c->f32; }
static V as_it_is(Cg *c, V x) {
  (void)c;
  return x;
}

// ---- i64: cut toward zero, saturated, 0 for NaN
static LLVMTypeRef elem_i64(Cg *c) { return c->i64; }
static V f32_of_i64(Cg *c, V x) { return LLVMBuildSIToFP(c->b, x, lanes_like(x, c->f32), ""); }
static V i64_of_f32(Cg *c, V x) {
  LLVMTypeRef over[] = {lanes_like(x, c->i64), LLVMTypeOf(x)};
  if (LLVMGetTypeKind(over[1]) == LLVMVectorTypeKind && cg_has_avx512(c, over[1])) return cg_truncate(c, x);
  return cg_call_intrinsic(c, "llvm.fptosi.sat", over, 2, &x, 1);
}

_Static_assert(N_DTYPES == 4, "a new dtype needs a row here, whose conversions are instructions and call no function");
static const Storage storage[N_DTYPES] = {
    [DT_F32] = {elem_f32, as_it_is, as_it_is},
    [DT_I64] = {elem_i64, f32_of_i64, i64_of_f32},
};

LLVMTypeRef cg_elem_type(Cg *c, DType t) { return storage[t].elem(c); }

LLVMTypeRef cg_vector_type(Cg *c, DType t, uint32_t lanes) {
  return lanes == 1 ? cg_elem_type(c, t) : LLVMVectorType(cg_elem_type(c, t), lanes);
}

V cg_convert(Cg *c, DType from, DType to, V x) {
  return from == to ? x : storage[to].from_f32(c, storage[from].to_f32(c, x));
}
