// Primitives (PRIM) on scalars or vectors of f32 (any lane count), whole pointwise ops, random numbers.
#ifndef TN_CODEGEN_MATH_PRIMITIVES_H
#define TN_CODEGEN_MATH_PRIMITIVES_H

#include "codegen/cg.h"

// exp log tanh sigmoid erf sin cos .. by polynomials, inline
LLVMValueRef cg_primitive(Cg *c, Op op, LLVMValueRef *arg);
uint32_t cg_primitive_cost(Op op);  // about how many operations of a vector a primitive or pointwise op takes
// Philox4x32-10
LLVMValueRef cg_rand_bits(Cg *c, LLVMValueRef element /* vi64 */, LLVMValueRef id /* i32 */, uint32_t word);
void cg_random_words(Cg *c, LLVMValueRef element, LLVMValueRef id, LLVMValueRef out[4]);
LLVMValueRef cg_uniform_of(Cg *c, LLVMValueRef words[4]);  // in [0, 1)
LLVMValueRef cg_normal_of(Cg *c, LLVMValueRef words[4]);   // standard normal
bool cg_has_erf_table(const Cg *c, LLVMTypeRef t);         // codegen/math/erf_table.c: a shorter way on some targets
LLVMValueRef cg_erf_table(Cg *c, LLVMValueRef x);
LLVMValueRef cg_look_up(Cg *c, const float *row, LLVMValueRef index);  // row[index & 31] in each of 16 lanes
bool cg_has_avx512(const Cg *c, LLVMTypeRef t);                        // codegen/math/avx512.c: instructions of AVX-512
LLVMValueRef cg_scalef(Cg *c, LLVMValueRef x, LLVMValueRef exponent);  // x 2^exponent, rounded once; exponent is whole
LLVMValueRef cg_exponent(Cg *c, LLVMValueRef x);                       // floor log2 |x|; -inf of 0, inf of inf
LLVMValueRef cg_significand(Cg *c, LLVMValueRef x);  // x / 2^k in [3/4, 3/2); 1 of 0 and inf, NaN of negative numbers
LLVMValueRef cg_truncate(Cg *c, LLVMValueRef x);     // a vector to i64: saturated, 0 of NaN
LLVMValueRef cg_approx_reciprocal(Cg *c, LLVMValueRef x);  // to 14 bits; which ones, the CPU decides
LLVMValueRef cg_approx_rsqrt(Cg *c, LLVMValueRef x);
LLVMValueRef cg_clamp_magnitude(Cg *c, LLVMValueRef x, double most);  // min(|x|, most); for NaN most
// A whole pointwise op: primitives expanded, attributes from v. element: vi64 flat index, for random primitives (may be NULL).
LLVMValueRef cg_pointwise_op(Cg *c, Val v, LLVMValueRef *arg, LLVMValueRef element);

#endif
