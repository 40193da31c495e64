// Rows of a table of ops and modules, each beside a PyTorch expression: of bench/sweep.def and bench/accuracy.def.
//
// A table is included for its functions, with OP as OP_ENTRY and MODULE as MODULE_ENTRY, then for its rows, made by OP_ROW of
// inputs that op_inputs.h names.
#ifndef TN_BENCH_OP_ROWS_H
#define TN_BENCH_OP_ROWS_H

#include "frontend/tenure.h"

enum { MAX_INPUTS = 4, MAX_PARAMS = 32, MAX_OUT = 1 + MAX_INPUTS + MAX_PARAMS };

typedef tn_module *MakeModule(tn_module *net);
typedef tn_tensor Call(tn_function *f, tn_module *m, tn_tensor a, tn_tensor b, tn_tensor c, tn_tensor d);
typedef struct {
  const char *name;
  MakeModule *make;  // NULL: no module
  Call *call;
} OpEntry;

// From INTEGER on they are no f32 and have no gradient. EQUAL: all elements are one number. CONSTANT: of each row. FAR: 1000 and
// a number in [-2, 2). NEAR_ONE: [0.99, 1.01).
typedef enum { NORMAL, POSITIVE, UNIT, FAR, NEAR_ONE, EQUAL, CONSTANT, INTEGER, BYTE, MARK } Kind;
typedef struct {
  Kind kind;
  int64_t limit;  // of INTEGER
  uint32_t rank;
  int64_t dims[TN_MAX_RANK];
} Input;
typedef struct {
  const char *text;  // NAME INPUTS .. WAY
  const OpEntry *op;
  bool backward;  // with the gradients of sum(y g) with respect to all f32 inputs and all parameters
  uint32_t n_inputs;
  Input inputs[MAX_INPUTS];
} OpRow;

#define UNUSED __attribute__((unused))
#define CALL_OF(name, expression)                                                                                  \
  static tn_tensor call_##name(UNUSED tn_function *f, UNUSED tn_module *m, UNUSED tn_tensor a, UNUSED tn_tensor b, \
                               UNUSED tn_tensor c, UNUSED tn_tensor d) {                                           \
    return expression;                                                                                             \
  }
#define OP_ENTRY(name, call) CALL_OF(name, call) static const OpEntry op_##name = {#name, NULL, call_##name};
#define MODULE_ENTRY(name, make, call)                           \
  static tn_module *make_##name(tn_module *net) { return make; } \
  CALL_OF(name, call)                                            \
  static const OpEntry op_##name = {#name, make_##name, call_##name};

#define OP_ROW(name, text, backward, ...)                                                             \
  {                                                                                                   \
    text, &op_##name, backward, sizeof((const Input[]){__VA_ARGS__}) / sizeof(Input), { __VA_ARGS__ } \
  }

// One row as a function `run`.
typedef struct {
  const OpRow *row;
  tn_array in[MAX_INPUTS + 1], out[MAX_OUT];  // the last input: the gradient of y
  char name[MAX_OUT][8];                      // of outputs: y, d0 .., p0 ..
  uint32_t n_in, n_out;
} OpRun;

void op_run_build(OpRun *r, const OpRow *row, tn_program *p);
void op_run_fill(OpRun *r,
                 uint32_t draw);  // inputs as bench/peers/torch_sweep.py makes them; draw: 0, 1, .. other ones
void op_run_free(OpRun *r);       // the blocks of its arrays
size_t op_array_count(const tn_array *a);
double op_array_at(const tn_array *a, size_t k);
#endif
