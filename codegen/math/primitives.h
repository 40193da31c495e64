// Primitives (PRIM) on scalars or vectors of floats (any lane count), whole pointwise ops, random numbers.
#ifndef TN_CODEGEN_MATH_PRIMITIVES_H
#define TN_CODEGEN_MATH_PRIMITIVES_H

#include "codegen/cg.h"

// exp log tanh sigmoid erf sin cos .. by polynomials, inline
V cg_primitive(Cg *c, Op op, V *arg);
V cg_number(Cg *c, DType t, LLVMTypeRef type, double x);  // x as an element of t; type: of it, or a vector of them
V cg_primitive_of(Cg *c, DType t, Op op, V *arg);         // of operands of t, which is REAL, an integer or bool
V cg_compare_integers(Cg *c, DType t, Op op, V a, V b);   // i1; op is a comparison
uint32_t cg_primitive_cost(Op op);  // about how many operations of a vector a primitive or pointwise op takes
// Philox4x32-10
V cg_rand_bits(Cg *c, V element /* vi64 */, V id /* i32 */, uint32_t word);
void cg_random_words(Cg *c, V element, V id, V out[4]);
V cg_uniform_of(Cg *c, V words[4]);                 // in [0, 1)
V cg_normal_of(Cg *c, V words[4]);                  // standard normal
bool cg_has_erf_table(const Cg *c, LLVMTypeRef t);  // codegen/math/erf_table.c: a shorter way on some targets
V cg_erf_table(Cg *c, V x);
V cg_look_up(Cg *c, const float *row, V index);  // row[index & 31] in each of 16 lanes
bool cg_has_avx512(const Cg *c, LLVMTypeRef t);  // codegen/math/avx512.c: instructions of AVX-512 for t, f32 or 16
V cg_scalef(Cg *c, V x, V exponent);             // x 2^exponent, rounded once; exponent is whole
V cg_exponent(Cg *c, V x);                       // floor log2 |x|; -inf of 0, inf of inf
V cg_significand(Cg *c, V x);                    // x / 2^k in [3/4, 3/2); 1 of 0 and inf, NaN of negative numbers
V cg_significand_from_1(Cg *c, V x);             // the same in [1, 2)
V cg_truncate(Cg *c, V x);                       // a vector to i64: saturated, 0 of NaN
V cg_approx_reciprocal(Cg *c, V x);              // to 14 bits; which ones, the CPU decides
V cg_approx_rsqrt(Cg *c, V x);
V cg_approx_rsqrt_half(Cg *c, V x);             // of 8 lanes
V cg_clamp_magnitude(Cg *c, V x, double most);  // min(|x|, most); for NaN most
// A whole pointwise op in the dtype of its operands: primitives expanded, attributes from v.
// element: vi64 flat index, for random primitives (may be NULL).
V cg_pointwise_op(Cg *c, Val v, V *arg, V element);

#endif
