// Small builders: constants, arithmetic, comparisons, memory. Sizes and indices are i64; a builder without a type in its name
// takes scalars and vectors alike.
#ifndef TN_CODEGEN_BUILDER_H
#define TN_CODEGEN_BUILDER_H

#include <llvm-c/Core.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Cg Cg;
typedef LLVMValueRef V;

// ---- constants
V cg_i64(Cg *c, int64_t v);
V cg_i32(Cg *c, int32_t v);
V cg_f32(Cg *c, double v);
V cg_vl(Cg *c);                                     // i64: lanes of a vector
V cg_zeros(Cg *c);                                  // vf
V cg_lane_numbers(Cg *c);                           // vi64: 0 .. vl-1
V cg_lane_numbers_of(LLVMTypeRef t, uint32_t n);    // n of integer type t: 0 .. n-1
bool cg_const_value(V v, int64_t *value);           // an integer constant
bool cg_is_int(V v, int64_t want);                  // that constant
V cg_splat(Cg *c, V scalar);                        // f32/i32/i64 -> vector of vl
V cg_splat_like(Cg *c, V like, V scalar);           // as many lanes as `like` has
V cg_splat_n(Cg *c, V scalar, uint32_t n);          // .. of n
V cg_spread(Cg *c, V scalar, uint32_t lanes);       // likewise, but of one lane the scalar itself
LLVMTypeRef cg_lanes_of(V like, LLVMTypeRef elem);  // the type with as many lanes as `like` has

// ---- i64 arithmetic that folds constants and identities
V cg_add(Cg *c, V a, V b);
V cg_sub(Cg *c, V a, V b);
V cg_mul(Cg *c, V a, V b);
V cg_div(Cg *c, V a, V b);                // unsigned
V cg_rem(Cg *c, V a, V b);                // likewise
V cg_split(Cg *c, V *number, int64_t n);  // the quotient of *number and n; leaves the remainder in *number
V cg_min(Cg *c, V a, V b);
V cg_max(Cg *c, V a, V b);
V cg_ceil_div_value(Cg *c, V n, int64_t unit);
V cg_multiple(Cg *c, V n, V unit);             // the largest multiple of unit up to n
V cg_index(Cg *c, V row, V stride, V column);  // row * stride + column

// ---- floats
V cg_fadd(Cg *c, V a, V b);
V cg_fsub(Cg *c, V a, V b);
V cg_fmul(Cg *c, V a, V b);
V cg_fdiv(Cg *c, V a, V b);
V cg_fneg(Cg *c, V a);
V cg_fma(Cg *c, V a, V b, V d);  // a b + d

// ---- integers of any width, which wrap
V cg_iadd(Cg *c, V a, V b);
V cg_isub(Cg *c, V a, V b);
V cg_imul(Cg *c, V a, V b);
V cg_and(Cg *c, V a, V b);
V cg_or(Cg *c, V a, V b);
V cg_xor(Cg *c, V a, V b);
V cg_not(Cg *c, V a);
V cg_shl(Cg *c, V a, V b);
V cg_lshr(Cg *c, V a, V b);
V cg_ashr(Cg *c, V a, V b);

// ---- comparisons and choices
V cg_eq(Cg *c, V a, V b);
V cg_ne(Cg *c, V a, V b);
V cg_lt(Cg *c, V a, V b);
V cg_le(Cg *c, V a, V b);
V cg_gt(Cg *c, V a, V b);
V cg_ge(Cg *c, V a, V b);
V cg_below(Cg *c, V a, V b);           // a < b, unsigned: of an index a, 0 <= a < b
V cg_between(Cg *c, V i, V lo, V hi);  // lo <= i < hi, by one comparison
V cg_icmp(Cg *c, LLVMIntPredicate p, V a, V b);
V cg_fcmp(Cg *c, LLVMRealPredicate p, V a, V b);
V cg_select(Cg *c, V cond, V a, V b);
V cg_both(Cg *c, V a, V b);  // conjunction of two conditions; NULL: true

// ---- conversions
V cg_zext(Cg *c, V a, LLVMTypeRef t);
V cg_sext(Cg *c, V a, LLVMTypeRef t);
V cg_trunc(Cg *c, V a, LLVMTypeRef t);  // of integers
V cg_bitcast(Cg *c, V a, LLVMTypeRef t);
V cg_sitofp(Cg *c, V a, LLVMTypeRef t);
V cg_fpext(Cg *c, V a, LLVMTypeRef t);
V cg_fptrunc(Cg *c, V a, LLVMTypeRef t);

// ---- memory, at element alignment (4 for f32 and vectors of it, 8 for i64)
V cg_at(Cg *c, LLVMTypeRef elem, V base, V index);      // &base[index]
V cg_row(Cg *c, V base, V row, V stride);               // &base[row * stride], f32
V cg_cell(Cg *c, V base, V row, V stride, V column);    // &base[row * stride + column], f32
V cg_at_any(Cg *c, LLVMTypeRef elem, V base, V index);  // which may lie outside of the object that base points into
V cg_load(Cg *c, LLVMTypeRef t, V p);
void cg_store(Cg *c, V v, V p);
void cg_store_past_caches(Cg *c, V v, V p);  // whole vectors, at a multiple of their size; others see them after
void cg_wait_for_stores(Cg *c);
unsigned cg_align_of(const Cg *c, LLVMTypeRef t);  // bytes, of an element
V cg_mask(Cg *c, V n);                             // lanes 0 .. n-1 of vl set; n i64, may exceed vl
// Where the mask is unset a load gives zero, and nothing is stored. mask NULL: all lanes.
// codegen/masked.c, as cg_mask
V cg_load_masked(Cg *c, LLVMTypeRef t, V p, V mask);
void cg_store_masked(Cg *c, V v, V p, V mask);
// base[i], or the vector that begins there, of type t; base is counted in elements of t
V cg_get(Cg *c, LLVMTypeRef t, V base, V i);
void cg_put(Cg *c, V v, V base, V i);
V cg_get_masked(Cg *c, LLVMTypeRef t, V base, V i, V mask);
void cg_put_masked(Cg *c, V v, V base, V i, V mask);
// base[index] of a vector of indices; mask NULL: all
V cg_gather(Cg *c, LLVMTypeRef elem, V base, V index, V mask);
void cg_scatter(Cg *c, V v, V base, V index, V mask);
void cg_prefetch_l2(Cg *c, V at);
void cg_prefetch_l1(Cg *c, V at);
void cg_prefetch_write(Cg *c, V at);  // what is written next, into L1

// ---- what LLVM shall not know
// What computes these n vectors, and loads and stores before, comes before loads and stores that follow; no instruction. Of vectors
// where LLVM has a name for their registers (Target.vector_register).
void cg_keep_order(Cg *c, V *v, uint32_t n);
V cg_opaque(Cg *c, V x);  // x in a register, opaque to LLVM; no instruction

V cg_call_intrinsic(Cg *c, const char *name, LLVMTypeRef *over, uint32_t n_over, V *args, uint32_t n);
V cg_phi(Cg *c, V a, V b, LLVMBasicBlockRef from[2]);  // a where control comes from block from[0], b from block from[1]
// Of the function at hand: its vectors may be computed in two halves (Target.halves_vectors); was that said of it?
void cg_halve_vectors(Cg *c);
bool cg_may_halve_vectors(V fn);

#endif
