// What the files of this folder share: the objects behind the public handles, and how a public call begins.
//
// A public call that builds opens with FE_GUARD: when memory runs out inside it, it returns its poisoned value and the
// program accepts no more building. Everything except tn_program itself lives in the program's arena; nobody frees a
// part of it.
#ifndef TN_FE_H
#define TN_FE_H

#include "codegen/cg.h"
#include "frontend/tenure.h"
#include "ir/ir.h"
#include "runtime/instance.h"
#include <stdatomic.h>

#define FE_NO_PARAM UINT32_MAX

typedef struct FeGuard {
  tn_program *p;
  jmp_buf jmp;
  struct FeGuard *outer;  // of the public call that called this one
} FeGuard;

// A parameter, buffer or state entry. It enters the table of the IR when a function first uses any parameter, so that
// until then tn_share may put another in its place.
typedef struct FeParam {
  const char *path;
  ParamKind kind;
  Shape shape;
  tn_init init;
  Loc loc;
  uint32_t index;  // in Prog.params; FE_NO_PARAM before
  bool replaced;   // by tn_share, before it entered the table
  bool frozen;
  const char **aliases;
  uint32_t n_aliases, cap_aliases;
} FeParam;

typedef struct {
  const char *name;
  FeParam *param;
  Loc loc;
} FeEntry;

typedef enum {
  MOD_PLAIN,
  MOD_LINEAR,
  MOD_RNN,
  MOD_EMBEDDING,
  MOD_DROPOUT,
  MOD_ACTIVATION,
  MOD_SEQUENTIAL
} FeModuleKind;

struct tn_module {
  tn_program *p;
  tn_module *parent, *first, *last, *next;  // children in order of creation
  const char *name, *path;                  // path "" for the root
  Loc loc;
  FeModuleKind kind;
  bool poisoned;
  FeEntry *entries;
  uint32_t n_entries, cap_entries;
  bool has_bias;
  Op op;        // ACTIVATION
  double rate;  // DROPOUT, RNN between layers
  int64_t in, out;
  // RNN
  const char *cell;
  uint32_t n_gates, n_layers, n_directions;
};

// What one function did with one parameter so far.
typedef struct {
  Val first, now;  // its value at the start and after the last update here; 0: not used yet
  tn_tensor grad;  // fn NULL: none
  Loc updated;     // by an optimizer; 0: not
  bool frozen;     // when it was first used here
} FeUse;

struct tn_scope {
  tn_function *fn;
  uint32_t index;  // in Fn.scopes
  tn_scope *parent;
  const char *name;
  Loc open, close;
  bool closed, poisoned;
};

typedef struct {
  Val v;
  uint32_t scope;  // NO_SCOPE: detached
} FeMove;

typedef struct {
  const char *name;
  Loc loc;
} FeName;

struct tn_function {
  tn_program *p;
  tn_function *next;
  Fn *ir;  // NULL: poisoned
  const char *name;
  Loc loc, end;
  bool ended, eval, told_ended;
  tn_scope *scope;  // the newest open one; NULL: the function's own
  FeMove *moves;
  uint32_t n_moves, cap_moves;
  FeName *inputs, *outputs;
  uint32_t n_inputs, cap_inputs, n_outputs, cap_outputs;
  FeUse *uses;  // by parameter index
  uint32_t n_uses, cap_uses;
};

// What compilation leaves: shared by the program and all models made from it, freed with the last of them.
typedef struct {
  atomic_uint n_refs;
  RtArena *mem;     // of everything below
  CgObject object;  // until it is loaded
  CgJit *jit;
  void *consts;
  RtPlan plan;
  tn_plan *stats;  // by function of the plan
  tn_compile_info info;
  uint32_t n_workers;
} FeCode;

struct tn_model {
  FeCode *code;
  RtInstance *inst;
  RtArray *in, *out;  // one run's, as the runtime wants them
  uint32_t max_in, max_out;
};

struct tn_program {
  RtArena *mem;
  Prog *ir;
  tn_module *root;
  tn_function *first, *last;
  Fn *init;
  FeParam **params;
  uint32_t n_params, cap_params;
  Dim *rows;  // dims that a run finds itself: the rows of packed layouts
  uint32_t n_rows, cap_rows;
  FeGuard *guard;
  bool sealed, told_sealed, oom, compiled;
  uint32_t serial;  // 7 bits inside every named tn_dim
  double created_ms;
  const char *built;      // the whole program as text, kept before passes rewrite it
  const char **built_fn;  // the same by function of the IR
  FeCode *code;           // NULL before tn_compile
};

// ---- program.c
void fe_guard(FeGuard *g);
void fe_unguard(FeGuard *g);
void fe_out_of_memory(FeGuard *g);
#define FE_GUARD(prog, failed)                                       \
  __attribute__((cleanup(fe_unguard))) FeGuard here = {.p = (prog)}; \
  fe_guard(&here);                                                   \
  if (setjmp(here.jmp)) {                                            \
    fe_out_of_memory(&here);                                         \
    return failed;                                                   \
  }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wclobbered"  // after the jump a guarded call returns at once: it reads no local
#endif
double fe_now_ms(void);
Loc fe_loc(tn_program *p, tn_site at);
#define fe_error(p, id, at, ...) fe_error_at(p, id, fe_loc(p, at), __VA_ARGS__)
void fe_error_at(tn_program *p, int id, Loc at, const char *fmt, ...) RT_PRINTF(4, 5);
void fe_note(tn_program *p, Loc at, const char *fmt, ...) RT_PRINTF(3, 4);
void fe_hint(tn_program *p, const char *fmt, ...) RT_PRINTF(2, 3);
// False when the program accepts no more building; reported once.
bool fe_open(tn_program *p, tn_site at);
// A name: letters, digits and underscores; one that is not for a module starts with no digit. False: reported.
bool fe_name(tn_program *p, const char *what, const char *name, bool of_module, tn_site at);
// False when the name is in the list already: reported with both places.
bool fe_unique(tn_program *p, const FeName *list, uint32_t n, const char *what, const char *name, tn_site at);
// The dim behind a handle; false: reported, or reported when it was made.
bool fe_dim(tn_program *p, tn_dim d, Dim *out, tn_site at);
tn_dim fe_dim_handle(tn_program *p, Dim d);
bool fe_shape(tn_program *p, tn_shape s, Shape *out, tn_site at);

// ---- function.c
bool fe_fn_open(tn_function *f, tn_site at);  // false: NULL, poisoned, ended or sealed
// True when all operands are values of one open function. *f is the function to name in a poisoned result either way.
bool fe_join(const tn_tensor *a, uint32_t n, tn_function **f, tn_site at);
tn_tensor fe_emit(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at);
tn_tensor fe_emit1(Op op, tn_tensor a, tn_site at);
tn_tensor fe_emit2(Op op, tn_tensor a, tn_tensor b, tn_site at);
tn_tensor fe_leaf(tn_function *f, Op op, const Attr *attrs, uint32_t n_attrs, Shape s, tn_site at);  // f32
tn_tensor fe_const(tn_function *f, double v, tn_site at);
tn_tensor fe_size(tn_function *f, Dim d, tn_site at);  // of a dim, as f32
static inline tn_tensor fe_poison(tn_function *f) { return (tn_tensor){f, 0}; }
static inline bool fe_ok(tn_tensor t) { return t.fn && t.v; }
static inline Val fe_val(tn_tensor t) { return (Val){t.v}; }
static inline const Ins *fe_ins(tn_tensor t) { return &t.fn->ir->ins[t.v]; }
static inline Shape fe_shape_of(tn_tensor t) { return fe_ins(t)->shape; }
static inline uint32_t fe_rank(tn_tensor t) { return ir_rank(t.fn->p->ir, fe_shape_of(t)); }
static inline Dim fe_axis_dim(tn_tensor t, uint32_t axis) { return ir_dim_at(t.fn->p->ir, fe_shape_of(t), axis); }

// ---- scope.c
uint32_t fe_owner(const tn_function *f, Val v);  // scope index; NO_SCOPE: detached
tn_tensor fe_keep(tn_tensor t,
                  tn_site at);  // gives t to the function's own scope: gradients and states outlive inner scopes

// ---- ops.c
tn_tensor fe_same(tn_tensor a, tn_site at);
bool fe_axis(tn_tensor a, int axis, uint32_t *out, tn_site at);
tn_tensor fe_reshape(tn_tensor a, const Dim *dims, uint32_t n, tn_site at);
tn_tensor fe_slice(tn_tensor a, uint32_t axis, int64_t start, int64_t size, tn_site at);
tn_tensor fe_concat(const tn_tensor *a, uint32_t n, uint32_t axis, tn_site at);

// ---- param.c
FeParam *fe_param_add(tn_program *p, const char *path, ParamKind kind, Shape s, tn_init init, Loc loc);
FeParam *fe_module_param(tn_module *m, const char *name, const int64_t *dims, uint32_t n, tn_init init, tn_site at);
FeEntry *fe_entry(const tn_module *m, const char *name);
void fe_params_flush(tn_program *p);               // enters all pending ones into the table, with their initialisation
FeUse *fe_use_of(tn_function *f, uint32_t index);  // valid until the next call
tn_tensor fe_use(tn_function *f, FeParam *q, tn_site at);                              // its current value in f
FeParam *fe_state(tn_program *p, const char *path, Shape s, double init, tn_site at);  // found or made
FeParam *fe_param_of(const tn_program *p, uint32_t index);
bool fe_below(const tn_module *m, const FeParam *q);  // in the tree below m, by any of its paths

// ---- train.c
uint32_t *fe_with_gradient(tn_function *f, const tn_module *m,
                           uint32_t *n);  // indices of parameters below m that have one

// ---- modules.c
tn_module *fe_module(tn_module *parent, const char *name, FeModuleKind kind,
                     tn_site at);  // NULL: no parent; else maybe poisoned
tn_tensor fe_linear(tn_tensor x, tn_tensor w, tn_tensor b, bool has_bias, tn_site at);

// ---- plan.c
void fe_plan(tn_program *p, FeCode *c);  // fills the plan from the placed program, entries apart

// ---- compile.c
void fe_code_release(FeCode *c);  // NULL: nothing

// ---- model.c
tn_model *fe_model_new(FeCode *c, uint64_t seed);  // initialised; NULL: out of memory

#endif
