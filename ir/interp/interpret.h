// The oracle, in doubles, or pointwise ops in single precision.
#ifndef TN_IR_INTERP_INTERPRET_H
#define TN_IR_INTERP_INTERPRET_H

#include "ir/ir.h"

typedef struct {
  double *v;  // elements in row-major order; layouts: TN_LAYOUT_WORDS words
  int64_t n;
  double *low;  // i64 only: the rest that a double cannot hold; an element is v + low; NULL: zeros
} Tensor;
typedef struct {
  int64_t *slots;    // run-time value of every dim by slot; rows of layouts are filled in
  Tensor *params;    // by parameter index; updated by WRITES ops
  const Tensor *in;  // by input index
  Tensor *out;       // by output index; v allocated by the interpreter from `mem`
  uint64_t seed, counter;
  uint32_t step;  // steps of the scan whose body runs, and of those around it: random streams are {id} + step
  RtArena *mem;
  // Error bars: when noise > 0 every rounded result is off by a random relative error up to it, sums and products by as
  // much of their terms, and results are kept in single precision's range. What single precision holds exactly, as a
  // product of masks, is not rounded, and 0 stays 0. How far results move says how exact they can be.
  double noise;
  uint64_t noise_state;
  // every result is rounded to single precision: of pointwise ops each primitive, of others what they give
  bool single;
} InterpEnv;
bool ir_interpret(const Fn *f, InterpEnv *env, RtText *why);
double ir_primitive(Op op, double a, double b, double c);  // a primitive in doubles
int64_t ir_to_i64(double x);             // what a cast makes of a number: cut toward zero, saturated, 0 for NaN
int64_t ir_to_whole(DType t, double x);  // the same, as an element of a whole-number dtype or bool
int64_t ir_modulo(DType t, int64_t x);   // x modulo 2^bits of such a dtype; of bool whether it is not 0
float ir_philox_uniform(uint64_t seed, uint64_t counter, uint32_t id, uint64_t element);
double ir_philox_normal(uint64_t seed, uint64_t counter, uint32_t id, uint64_t element);

#endif
