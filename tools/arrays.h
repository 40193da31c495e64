// Arrays of a run that come from .npy files or are made up, and go to .npy files.
#ifndef TN_TOOLS_ARRAYS_H
#define TN_TOOLS_ARRAYS_H

#include "frontend/tenure.h"
#include "ir/interp/interp.h"
#include "ir/passes/checks/draw.h"

// An input or output of a function as its author wrote it.
typedef struct {
  const char *name;
  uint8_t dtype;  // DType
  Shape shape;
  tn_array array;  // data NULL: not given
  bool is_random;
} Port;

bool array_read_npy(RtArena *mem, const char *path, uint8_t dtype, tn_array *out);  // false: said why
bool array_write_npy(const char *path, const tn_array *a);                          // false: said why
int64_t array_elements(const tn_array *a);
double array_at(const tn_array *a, int64_t k);
void array_set(tn_array *a, int64_t k, double x);      // i64: cut towards zero
Tensor array_tensor(RtArena *mem, const tn_array *a);  // for the interpreter
void array_take(tn_array *a, Tensor t);                // what it gave

// How an input is made up: whole numbers in the ranges that a run takes, which a float has too where it becomes an index; else
// normal numbers. spread: one of ir_draw_spreads.
typedef struct {
  const DrawRange *ranges;
  uint32_t n_ranges;
  int64_t spread;
  uint64_t seed;
} Drawn;
void array_fill_random(tn_array *a, const Drawn *d, uint32_t stream);

#endif
