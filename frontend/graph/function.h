// A function while it is built: its values, scopes and uses of parameters; emitting instructions.
#ifndef TN_FRONTEND_GRAPH_FUNCTION_H
#define TN_FRONTEND_GRAPH_FUNCTION_H

#include "frontend/graph/program.h"
#include "frontend/tenure/scope.h"
#include "ir/autodiff/autodiff.h"
#include "ir/intern.h"
#include "ir/rows/rows.h"

typedef struct FeLogicalValue FeLogicalValue;
typedef struct FeListSizes FeListSizes;
typedef struct FeDerived FeDerived;
typedef struct FeModuleCall FeModuleCall;
typedef struct FeProbed FeProbed;
typedef struct FeGradTap FeGradTap;
typedef struct FeShards FeShards;

// Both kinds of logical values; `live` is found when asked.
typedef struct {
  tn_stats tensors, packed;
} FeCounts;

// What a function has done with a parameter so far.
typedef struct {
  Val first, now;  // its value at the start and after the last update here; 0: not used yet
  tn_tensor grad;  // fn NULL: none
  tn_tensor when;  // 0 in a run that only accumulates; fn NULL: updated in every run
  Loc updated;     // by an optimizer; 0: not
  Loc averaged;    // by tn_ema or tn_swa
  bool frozen;     // when it was first used here
} FeUse;

struct tn_function {
  tn_program *p;
  tn_function *next;
  Fn *ir;           // NULL: poisoned
  GradReach reach;  // of the last loss that was asked about
  const char *name;
  Loc loc, end;
  bool ended, eval, reported_ended;
  Loc asked_eval;     // the last value built that depends on eval; 0: none
  Loc late_eval;      // a tn_eval behind it with nothing built since that depends on it; 0: none
  tn_scope *scope;    // the newest open one; NULL: the function's own
  tn_scope **scopes;  // by index in Fn.scopes; the function's own is NULL
  uint32_t n_scopes, cap_scopes;
  FeLogicalValue *entities;  // entities[0] is none
  uint32_t n_entities, cap_entities;
  uint32_t *entity_of;  // by value; 0: none
  uint32_t n_entity_of, cap_entity_of;
  uint32_t n_stamps;
  RowsMap rows;
  FeListSizes *list_sizes;
  uint32_t n_list_sizes, cap_list_sizes;
  FeDerived *derived;  // layouts made of others
  uint32_t n_derived, cap_derived;
  FeCounts counts;
  FeNames inputs, outputs;
  FeUse *uses;  // by parameter index
  uint32_t n_uses, cap_uses;
  tn_tensor when;       // the last tn_accumulate: 1 in a run that updates; fn NULL: each run updates
  FeModuleCall *calls;  // in the order in which they began
  uint32_t n_calls, cap_calls, call_depth;
  FeProbed *probes;
  uint32_t n_probes, cap_probes;
  FeGradTap **taps;  // where hooks see gradients
  uint32_t n_taps, cap_taps;
  Loc backward;            // the last tn_backward
  const FeShards *shards;  // NULL: not distributed
  Loc running;             // the first layer with running statistics over whole batches
  Val *losses;             // of all of them
  uint32_t n_losses, cap_losses;
  bool lost_gradients;  // its loss was refused and reported: missing gradients are not reported again
  Loc *no_grad;         // open regions
  uint32_t n_no_grad, cap_no_grad;
  Loc no_grad_ended;  // the last one that was closed
  tn_scan *scan;      // the open one; NULL: none
  uint32_t n_scans;
  uint32_t *body_of;  // by value: 1 + the scan in whose steps it changes; 0: none
  uint32_t n_body_of, cap_body_of;
  // by value: an input that requires a gradient; an input whose writing was reported
  bool *wants_grad, *reported_input;
  uint32_t n_wants_grad, cap_wants_grad, n_reported_input, cap_reported_input;
};

bool fe_eval(tn_function *f, tn_site at);          // was f marked by tn_eval? Remembers that something depends on it
FeUse *fe_use_of(tn_function *f, uint32_t index);  // of a parameter; valid until the next call
bool fe_fn_open(tn_function *f, tn_site at);       // false: NULL, poisoned, ended or sealed
// True when all operands are living values of one open function. *f is the function to name in a poisoned result either
// way.
#define fe_join(...) fe_join_for(__func__, __VA_ARGS__)
bool fe_join_for(const char *call, const tn_tensor *a, uint32_t n, tn_function **f, tn_site at);
// The same, dead or alive.
#define fe_join_any(...) fe_join_any_for(__func__, __VA_ARGS__)
bool fe_join_any_for(const char *call, const tn_tensor *a, uint32_t n, tn_function **f, tn_site at);
// False: one of them is an empty handle, which belongs to no function; reported to this function
bool fe_all_named(tn_function *f, const tn_tensor *a, uint32_t n, tn_site at);
// a: by position in the row, an empty handle where an optional operand is absent.
tn_tensor fe_emit(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at);
tn_tensor fe_emit_in(tn_function *f, Op op, const Attr *attrs, uint32_t n_attrs, tn_site at);  // without operands
tn_tensor fe_emit1(Op op, tn_tensor a, tn_site at);
tn_tensor fe_emit2(Op op, tn_tensor a, tn_tensor b, tn_site at);
tn_tensor fe_leaf(tn_function *f, Op op, const Attr *attrs, uint32_t n_attrs, Shape s, tn_site at);  // f32
tn_tensor fe_const(tn_function *f, double v, tn_site at);
bool fe_is_found_in_run(const tn_program *p, Dim d);   // the rows of a layout, or made of them
tn_tensor fe_size(tn_function *f, Dim d, tn_site at);  // of a dim, as f32
static inline tn_tensor fe_poison(tn_function *f) { return (tn_tensor){f, 0}; }
// Poisons all results of a call with several values first, so that a refused call leaves no handle unwritten
static inline void fe_poison_all(tn_function *f, tn_tensor *out, uint32_t n) {
  for (uint32_t k = 0; out && k < n; k++) out[k] = fe_poison(f);
}
// Neither poisoned nor an unknown number
static inline bool fe_ok(tn_tensor t) { return t.fn && t.fn->ir && t.v && t.v < t.fn->ir->n_ins; }
static inline Val fe_val(tn_tensor t) { return (Val){t.v}; }
// The IR's dtype of an array; none: the caller's number is no dtype.
_Static_assert((int)DT_F32 == TN_F32 && (int)DT_I64 == TN_I64 && (int)DT_I32 == TN_I32 && (int)DT_U8 == TN_U8 &&
                   (int)DT_BOOL == TN_BOOL && (int)DT_F16 == TN_F16 && (int)DT_BF16 == TN_BF16,
               "arrays number dtypes as the IR does");
static inline DType fe_dtype(tn_dtype t) {
  return (uint32_t)t < N_DTYPES && (NUMBER >> (uint32_t)t & 1) ? (DType)t : DT_NONE;
}
static inline const Ins *fe_ins(tn_tensor t) { return &t.fn->ir->ins[t.v]; }
static inline Shape fe_shape_of(tn_tensor t) { return fe_ins(t)->shape; }
static inline bool fe_has_gradient(tn_tensor t) { return FLOATS >> fe_ins(t)->dtype & 1; }
static inline bool fe_is_countable(tn_tensor t) { return fe_ok(t) && COUNTABLE >> fe_ins(t)->dtype & 1; }
static inline uint32_t fe_rank(tn_tensor t) { return ir_rank(t.fn->p->ir, fe_shape_of(t)); }
static inline Dim fe_axis_dim(tn_tensor t, uint32_t axis) { return ir_dim_at(t.fn->p->ir, fe_shape_of(t), axis); }
// ---- index_several.c
tn_tensor fe_whole_size(tn_function *f, Dim d, tn_site at);  // as i64: exact for a constant, else up to 2^24

#endif
