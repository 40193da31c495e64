// What a row of tests/misuse/*.def works on. Every row starts with a program, a function and the values below, made anew.
#ifndef TN_TESTS_MISUSE_H
#define TN_TESTS_MISUSE_H

#include "frontend/tenure.h"

// Inputs of the row's function: f32, i64, u8, bool and f16 of a shape
#define F(...) MAKE_INPUT(TN_F32, TN_SHAPE(__VA_ARGS__))
#define F0 MAKE_INPUT(TN_F32, TN_SCALAR)
#define I(...) MAKE_INPUT(TN_I64, TN_SHAPE(__VA_ARGS__))
#define U(...) MAKE_INPUT(TN_U8, TN_SHAPE(__VA_ARGS__))
#define B(...) MAKE_INPUT(TN_BOOL, TN_SHAPE(__VA_ARGS__))
#define H(...) MAKE_INPUT(TN_F16, TN_SHAPE(__VA_ARGS__))
#define D(n) tn_dim_const(n)
#define WHY why, sizeof why
static tn_program *p, *other;       // the program that is built; another one
static tn_function *f, *foreign;    // its function, open; a function of the other one
static tn_module *net, *fc, *lstm;  // the root, linear 3 -> 2, LSTM 2 -> 2
static tn_scope *scope;             // open
static tn_dim N;                    // "n", at most 6
static tn_model *m;                 // compiled, a linear layer with AdamW
static char why[512];

// Inputs are numbered in the order of the text, from the end of the row: the compiler chooses in which order they are made.
static int last_number;
#define MAKE_INPUT(dtype, shape) make_input(dtype, shape, __COUNTER__, TN_SITE)
static tn_tensor make_input(tn_dtype t, tn_shape s, int number, tn_site at) {
  char name[16];
  snprintf(name, sizeof name, "in%d", last_number - number);
  return (tn_input)(f, name, t, s, at);
}

// Two sequences, of 3 steps and of 2, with 2 features
#define sequences() sequences_of(F(2, 3, 2))
#define others() others_of(F(2, 3, 2))
#define integers() sequences_of(I(2, 3, 2))
static tn_packed sequences_of(tn_tensor x) { return tn_pack_constant(x, ((int64_t[]){3, 2}), 2); }
static tn_packed others_of(tn_tensor x) { return tn_pack_constant(x, ((int64_t[]){1, 3}), 2); }

// Slots, a cache of 2 heads of 4 numbers, and a run of them: a step of two sequences, or two prompts
#define prompts() prompts_of(I(2, 3))
static tn_packed prompts_of(tn_tensor x) { return tn_pack_constant(x, ((int64_t[]){3, 2}), 2); }
static tn_module *kv;
static tn_slot_run run_of;
static tn_module *four_slots(void) {
  tn_module *slots = tn_slots(net, "slots", 4, 8);
  kv = tn_slot_cache(net, "cache", slots, 2, 4);
  return slots;
}
static void step_of(tn_tensor where, tn_tensor ids) { run_of = tn_slots_step(four_slots(), where, ids); }
static void prefill_of(tn_tensor where, tn_packed ids) { run_of = tn_slots_prefill(four_slots(), where, ids); }
static tn_tensor heads_of(tn_packed s) {
  return tn_mul(tn_reshape(s.data, TN_SHAPE(tn_dim_of(s.data, 0), 2, 1)), tn_ones(f, TN_SHAPE(4)));
}
static tn_packed swapped_of(tn_tensor x) { return tn_pack_constant(x, ((int64_t[]){2, 3}), 2); }

// Room for n values, which the call must write: whatever it refuses, no handle is left as it was
#define OUTS(n) unwritten(n)
static tn_tensor *unwritten(uint32_t n);

#endif
