// What the files of this folder share: the objects behind the public handles, and how a public call begins.
//
// A public call that builds opens with FE_GUARD: when memory runs out inside it, it returns its poisoned value and the
// program accepts no more building. Everything except tn_program itself lives in the program's arena; nobody frees a
// part of it.
#ifndef TN_FE_H
#define TN_FE_H

#include "codegen/module/compile.h"
#include "frontend/run/run.h"
#include "frontend/tenure.h"
#include "ir/ir.h"
#include "runtime/names.h"

#define FE_NO_PARAM UINT32_MAX

typedef struct FeGuard {
  tn_program *p;
  jmp_buf jmp;
  struct FeGuard *outer;  // of the public call that called this one
  const char *call;       // the function's name
  bool runs_hook;         // of the user: what is called inside are calls of the user again
} FeGuard;

// A parameter, buffer or state entry. It enters the table of the IR when a function first uses any parameter, so that
// until then tn_share may put another in its place.
typedef struct FeParam {
  const char *path;
  ParamKind kind;
  DType dtype;
  Shape shape;
  tn_init init;
  Loc loc;
  uint32_t index;   // in Prog.params; FE_NO_PARAM before
  uint32_t entity;  // in the function init
  Val value;        // its initial value in the function init; 0: made by `init` when it enters the table
  bool replaced;    // by another one at its path, before it entered the table
  bool disposed;
  bool frozen;
  uint32_t frozen_by;       // number of the tn_freeze, from 1; 0: none
  uint32_t last_first_use;  // tn_program.n_first_uses of the newest function that uses it; 0: none does
  uint32_t group;           // of optimizers; 0 unless tn_group said otherwise
  Loc grouped, updated;     // by tn_group; by the first optimizer; 0: not yet
  uint32_t stamp;           // of the walk that saw it last
  uint32_t listed;          // of the walk that gave it out last
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
  MOD_RNN_CELL,
  MOD_EMBEDDING,
  MOD_DROPOUT,
  MOD_ACTIVATION,
  MOD_ATTENTION,
  MOD_SEQUENTIAL,
  MOD_LAYER_NORM,
  MOD_RMS_NORM,
  MOD_KV_CACHE,
  MOD_BUILT_IN,  // its forward is config.forward
  MOD_OWN        // of the user
} FeModuleKind;

// A hyper-parameter that can be set between runs, by group of an optimizer.
typedef struct {
  tn_module *module;  // that the optimizer trains
  FeParam *param;
  uint32_t group;
  uint8_t kind;  // RtHyperKind
} FeHyper;

// Where a function writes a cache of keys and values of so many steps.
typedef struct {
  const tn_function *function;
  Loc loc;
  int64_t steps;
} FeCacheWrite;
typedef struct {
  uint32_t number;
  tn_group_options o;
  Loc loc;
} FeGroup;

// A module whose gradients are averaged over runs.
typedef struct {
  const tn_module *module;
  FeParam *count;
  uint32_t n;
  Loc loc;
} FeAccumulation;

// How a function's batch is cut (module/shards.c).
typedef struct {
  uint32_t n;
  Dim batch;
  tn_tensor count;
  int64_t bucket_bytes;  // 0: the default
  Loc loc;
} FeShards;

typedef struct FeCounter FeCounter;  // module/counters.c

struct tn_hook {
  tn_program *p;
  tn_module *module;    // NULL: of one value's gradient
  const char *pattern;  // of a tree: the modules below `module` that match; NULL: of `module` alone
  tn_pre_hook pre;      // one of these
  tn_post_hook post;
  tn_values_pre_hook values_pre;
  tn_values_post_hook values_post;
  tn_rnn_pre_hook rnn_pre;
  tn_rnn_post_hook rnn_post;
  tn_grad_hook on_grad;
  tn_backward_pre_hook backward_pre;
  tn_backward_hook backward;
  void *ctx;
  tn_module *on;  // that it ran for last
  Loc loc;
  bool removed, fired;
  bool is_tapped;  // of a backward hook: a call came by
  Loc untracked;   // likewise: one whose outputs require no gradient
};

typedef struct {
  tn_hook **list;
  uint32_t n, cap;
} FeHooks;
typedef struct FeGradTap FeGradTap;  // module/grad_hook.c

// One call of a module, for tn_summary: what it built lies in [first, end)
typedef struct {
  tn_module *m;
  tn_values out;
  uint32_t depth, first, end;
} FeModuleCall;

typedef struct {
  const char *name;
  Loc loc;
  Val seen;  // statistics, or the value; these three as they were built: a compiled function knows them by origin
  uint32_t first, end;  // what it built, which nothing else reads
  tn_probe_options o;
} FeProbed;

typedef struct FeConv FeConv;                // module/conv.c
typedef struct FeImageModule FeImageModule;  // module/image.c
typedef tn_tensor FeForward(tn_module *m, tn_tensor x, tn_site at);

// All options of a module, whatever its kind: tn_share_module copies them as a whole. What belongs to one path of a
// module (names, hooks, where it was called) stands in tn_module.
typedef struct {
  bool has_bias, is_reshapable;
  Op op;  // ACTIVATION, with its numbers
  Attr attrs[4];
  uint32_t n_attrs;
  double rate;  // DROPOUT, ATTENTION, RNN between layers
  double eps;   // norms; LAYER_NORM, RMS_NORM over the last n_axes
  uint32_t n_axes;
  int64_t in, in_b, out;
  FeForward *forward;          // BUILT_IN
  const char *built_in;        // what tn_summary calls it
  int axis, last_axis;         // that it works along, or joins
  tn_shape sizes;              // that an axis becomes
  double bounds[2];            // of drawn slopes
  bool is_list;                // PLAIN, with children by number
  bool norm_first;             // of a transformer's layer
  const FeConv *conv;          // of a convolution; NULL: it is none
  const FeImageModule *image;  // of a module of images
  // EMBEDDING
  bool has_padding;
  int64_t padding;
  double max_norm;  // 0: none
  // norms of channels: of which, in how many groups, running statistics
  int64_t n_groups;
  bool has_running, is_cumulative;
  double momentum;
  // RNN
  const char *cell;
  uint32_t n_gates, n_layers, n_directions;
  int64_t proj;      // 0: none
  bool batch_first;  // of dense input
  // ATTENTION
  uint32_t n_heads;
  bool is_causal, has_own_sizes;  // of keys or values: a matrix for each of the three
  int64_t key_size, value_size;
  bool has_bias_kv, has_zero_kv;  // of attention: bias_k and bias_v; add_zero_attn
  // OWN
  const tn_module_class *class;
  void *self;
} FeModuleConfig;

struct tn_module {
  tn_program *p;
  tn_module *parent, *first, *last, *next;  // children in order of creation
  const char *name, *path;                  // path "" for the root
  Loc loc, trained;                         // by an optimizer of its own; 0: not
  FeModuleKind kind;
  bool poisoned;
  FeEntry *entries;
  uint32_t n_entries, cap_entries;
  FeModuleConfig config;
  const void *arguments;  // of the call that runs, beside its one input: as the module's forward reads them; NULL: none
  FeHooks hooks;          // its own ones, of all kinds, in the order in which they fire
  tn_hook *running;
  Loc called, forwarded;  // last by a call with hooks; first by one without; 0: not
  uint32_t n_running;     // of the user's own: how many calls of its forward function are not over
  bool reported_unused;
};

// What one function did with one parameter so far.
typedef struct {
  Val first, now;  // its value at the start and after the last update here; 0: not used yet
  tn_tensor grad;  // fn NULL: none
  tn_tensor when;  // 0 in a run that only accumulates it; fn NULL: updated in every run
  Loc updated;     // by an optimizer; 0: not
  Loc averaged;    // by tn_ema or tn_swa
  bool frozen;     // when it was first used here
} FeUse;

// A logical value, as the user sees it: what one call made, however many IR values it took. A packed sequence is one.
typedef enum { FE_ALIVE, FE_DISPOSED, FE_CLOSED, FE_ADOPTED } FeValueState;
typedef struct {
  Val v;                // of a packed sequence: its data; 0: a parameter whose initial value has no instruction yet
  uint32_t n_members;   // of a packed sequence: 4, or 2 when it is sorted; else 0
  uint32_t layout;      // of a packed sequence: the value of its layout
  uint32_t owner;       // scope index; NO_SCOPE: none
  uint32_t created_in;  // owner when it was made
  uint32_t prev, next;  // in its owner's list
  uint32_t stamp;       // of the keep-list that named it last
  FeParam *param;       // that took it over, or that it is
  uint32_t was;         // of a parameter: the entity of the handle that it took over, which may have taken over another
  uint8_t state;        // FeValueState
  uint8_t dtype;        // op, dtype and shape of v as built: passes renumber values
  uint16_t op;
  Shape shape;
  bool is_counted;  // false: moves are followed, nothing is counted (gradients)
  bool is_param;
  bool reported;  // a use after its end was reported
  bool left, used,
      is_output;          // since it lost its scope: by moving out of the outermost; was an operand; went to the caller
  Loc made, ended, lost;  // lost: where it lost its scope, by detaching or moving out
  const char *call;       // the public call that made it; NULL: none, or one op's own
} FeLogicalValue;

// Both kinds of logical values; `live` is found when asked.
typedef struct {
  tn_stats tensors, packed;
} FeCounts;

struct tn_scope {
  tn_function *fn;
  uint32_t index;  // in Fn.scopes
  tn_scope *parent;
  const char *name;
  Loc open, close;
  bool closed, poisoned;
  bool is_expression;    // of TN_SCOPED
  bool is_scan;          // the body of one
  bool was_forced;       // closed by the report of a wrong order: its own end comes without a second one
  uint32_t first, last;  // entities that it owns, in order of arrival
  uint32_t n_owned;
  FeCounts counts;
};

typedef struct {
  const char *name;
  Loc loc;
} FeName;
typedef struct {
  RtNames index;
  FeName *list;  // by number of the index
  uint32_t cap;
} FeNames;

// The lengths of a list of sequences, made of the sizes of their first axes.
typedef struct {
  const Dim *dims;
  uint32_t n;
  tn_tensor at;
} FeListSizes;

// Which axis of a value holds rows of a packed batch (graph/packed_rows.c)
typedef struct {
  uint32_t layout;  // whose rows they are; 0: of none
  uint8_t axis;
  bool is_plain;  // tn_rows said that these are just rows
} FeRows;

struct tn_function {
  tn_program *p;
  tn_function *next;
  Fn *ir;           // NULL: poisoned
  GradReach reach;  // of the last loss that was asked about
  const char *name;
  Loc loc, end;
  bool ended, eval, reported_ended;
  Loc asked_eval;     // what depends on eval and was built last; 0: nothing
  Loc late_eval;      // tn_eval after it, and nothing asked since; 0: none
  tn_scope *scope;    // the newest open one; NULL: the function's own
  tn_scope **scopes;  // by index in Fn.scopes; the function's own is NULL
  uint32_t n_scopes, cap_scopes;
  FeLogicalValue *entities;  // entities[0] is none
  uint32_t n_entities, cap_entities;
  uint32_t *entity_of;  // by value; 0: none
  uint32_t n_entity_of, cap_entity_of;
  uint32_t n_stamps;
  FeRows *rows_of;  // by value
  uint32_t n_rows_of, cap_rows_of;
  FeListSizes *list_sizes;
  uint32_t n_list_sizes, cap_list_sizes;
  FeCounts counts;
  FeNames inputs, outputs;
  FeUse *uses;  // by parameter index
  uint32_t n_uses, cap_uses;
  tn_tensor when;       // of the last tn_accumulate: is this the run that updates? fn NULL: each is
  FeModuleCall *calls;  // in the order in which they began
  uint32_t n_calls, cap_calls, call_depth;
  FeProbed *probes;
  uint32_t n_probes, cap_probes;
  FeGradTap **taps;  // where hooks see gradients
  uint32_t n_taps, cap_taps;
  Loc backward;            // the last tn_backward
  const FeShards *shards;  // NULL: not distributed
  Loc running;             // the first layer with running statistics of whole batches
  Val *losses;             // of all of them
  uint32_t n_losses, cap_losses;
  bool lost_gradients;  // its loss was refused, and reported: that gradients are missing is no news
  Loc *no_grad;         // open regions
  uint32_t n_no_grad, cap_no_grad;
  Loc no_grad_ended;  // the last one that was closed
  tn_scan *scan;      // the open one; NULL: none
  uint32_t n_scans;
  uint32_t *body_of;  // by value: number of the scan in whose steps it changes, counted from 1; 0: none
  uint32_t n_body_of, cap_body_of;
  bool *wants_grad, *reported_input;  // by value: inputs that require a gradient; whose writing was reported
  uint32_t n_wants_grad, cap_wants_grad, n_reported_input, cap_reported_input;
};

// A plan of a function for smaller bounds.
typedef struct {
  Fn *ir;
  uint32_t of;  // function
  DimFit *fits;
  uint32_t n_fits;
} FeVariant;

// Code that tn_compile made.
typedef struct {
  FeCode code;      // first
  RtArena *mem;     // of everything below
  CgObject object;  // until it is loaded
  CgJit *jit;
  void *consts;  // const_bytes, a block
  int64_t const_bytes;
  RtPlan plan;
} FeJitCode;

// A tn_freeze, which acts on functions that use what it freezes for the first time afterwards.
typedef struct {
  tn_module *m;
  Loc at;
  const tn_function *open;  // the function that was being built; NULL: none
  uint32_t n_first_uses;    // the program's at the time
} FeFreeze;

// Parameters that an optimizer did not reach.
typedef struct {
  tn_function *f;
  const tn_module *m;
  uint32_t diag;  // its report
} FeUntrained;

struct tn_program {
  RtArena *mem;
  Prog *ir;
  tn_module *root;
  tn_function *first, *last;
  Fn *init;
  tn_function *init_fn;  // the public face of `init`
  FeParam **params;
  uint32_t n_params, cap_params;
  uint32_t n_flushed;  // entries before it stand in the table of the IR, or never will
  FeGroup *groups;
  uint32_t n_groups, cap_groups;
  FeHyper *hypers;
  uint32_t n_hypers, cap_hypers;
  FeCacheWrite *cache_writes;
  uint32_t n_cache_writes, cap_cache_writes;
  FeAccumulation *accumulations;
  uint32_t n_accumulations, cap_accumulations;
  FeFreeze *freezes;
  uint32_t n_freezes, cap_freezes;
  uint32_t n_first_uses;  // of parameters by functions
  FeUntrained *untrained;
  uint32_t n_untrained, cap_untrained;
  tn_schedule **schedules;
  uint32_t n_schedules, cap_schedules;
  FeCounter **counters;
  uint32_t n_counters, cap_counters;
  FeHooks hooks;       // of all modules and values, removed ones too
  FeHooks tree_hooks;  // in the order in which they fire
  uint32_t stamp;      // of the newest walk over entries
  Dim *rows;           // dims that a run finds itself: the rows of packed layouts
  uint32_t n_rows, cap_rows;
  FeGuard *guard;
  const tn_module *inside;  // runs its forward now; NULL: none, or a hook of it does
  bool sealed, reported_sealed, oom, compiled;
  bool oom_is_shown;   // on stderr
  bool is_text;        // read from text: nothing can be added
  bool is_for_object;  // of tn_bundle: nobody is there who checks a guarded arena
  Loc sealed_at;
  uint32_t serial;  // 31 bits inside every named tn_dim
  double created_ms;
  FeVariant *variants;  // by function, the first that fits is run; their code stands behind the first n_built functions
  uint32_t n_variants, cap_variants, n_built;
  const char *built;      // the whole program as text by number (ir_text_of), kept before passes rewrite it
  const char **built_fn;  // the same by function of the IR
  FeJitCode *code;        // NULL before tn_compile
};

// ---- graph/program.c
void fe_guard(FeGuard *g);
void fe_unguard(FeGuard *g);
void fe_out_of_memory(FeGuard *g);
#define FE_GUARD(prog, failed) FE_GUARD_AS(prog, failed, __func__)
// In a helper that several public calls share: the one that it works for.
#define FE_GUARD_AS(prog, failed, name)                                              \
  __attribute__((cleanup(fe_unguard))) FeGuard here = {.p = (prog), .call = (name)}; \
  fe_guard(&here);                                                                   \
  if (setjmp(here.jmp)) {                                                            \
    fe_out_of_memory(&here);                                                         \
    return failed;                                                                   \
  }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wclobbered"  // after the jump a guarded call returns at once: it reads no local
#endif
void fe_show(tn_program *p, RtSeverity least);  // on stderr, what is at least so severe and was not shown there yet
Loc fe_loc(tn_program *p, tn_site at);
#define fe_error(p, id, at, ...) fe_error_at(p, id, fe_loc(p, at), __VA_ARGS__)
void fe_error_at(tn_program *p, int id, Loc at, const char *fmt, ...) RT_PRINTF(4, 5);
void fe_diag(tn_program *p, RtSeverity severity, int id, Loc at, const char *fmt, ...) RT_PRINTF(5, 6);  // likewise
void fe_note(tn_program *p, Loc at, const char *fmt, ...) RT_PRINTF(3, 4);
void fe_hint(tn_program *p, const char *fmt, ...) RT_PRINTF(2, 3);
// False when the program accepts no more building; reported once.
bool fe_open(tn_program *p, tn_site at);
// A name: letters, digits and underscores; one that is not for a module starts with no digit. False: reported.
bool fe_name(tn_program *p, const char *what, const char *name, bool of_module, tn_site at);
// taken: who has the name already, NULL: nobody. False: reported with both places.
bool fe_unique(tn_program *p, const FeName *taken, const char *what, const char *name, tn_site at);
// The dim behind a handle; false: reported, or reported when it was made.
bool fe_dim(tn_program *p, tn_dim d, Dim *out, tn_site at);
// The sizes of s, one of which may be -1: what is left of `whole`. false: reported
bool fe_inferred_dims(tn_program *p, tn_shape s, Dim whole, Dim *out, tn_site at);
tn_shape fe_kept_sizes(tn_tensor a, tn_shape s);  // s with the sizes of a, counted from the last axis, where it says -1
tn_dim fe_dim_handle(tn_program *p, Dim d);
bool fe_shape(tn_program *p, tn_shape s, Shape *out, tn_site at);

// Until the end of the block, reports name m as the module that runs
typedef struct {
  tn_program *p;
  const tn_module *around;
} FeInside;
static inline FeInside fe_enter(const tn_module *m) {
  FeInside i = {m->p, m->p->inside};
  m->p->inside = m;
  return i;
}
static inline void fe_leave(const FeInside *i) { i->p->inside = i->around; }
#define FE_INSIDE(m) __attribute__((cleanup(fe_leave))) FeInside inside = fe_enter(m)

// ---- graph/report.c
// "tn_call of module 'fc'": the user's call that op is made for, and where it is made
const char *fe_call_text(tn_program *p, Op op);
// The user's: the outermost on the stack, else `function` where it is one; NULL: neither
const char *fe_public_call(const tn_program *p, const char *function);
const char *fe_outermost_call(const tn_program *p);  // the same of the stack alone
const char *fe_type_text(tn_tensor t);               // "f32[4,3]"
void fe_note_value(tn_tensor t, const char *what);   // "x is input 'x', f32[4,3], made here"; nothing of constants
void fe_report_fault(Op op, const tn_tensor *a, uint32_t n, const EmitFault *fault, tn_site at);
// call: the function that found out
void fe_report_foreign(tn_function *f, tn_tensor mine, tn_tensor other, const char *call, tn_site at);
void fe_report_ended(tn_function *f, tn_tensor t, const char *call, tn_site at);      // f: the one that is built
void fe_note_module(tn_program *p, const tn_module *m);                               // of another program
bool fe_own_module(tn_program *p, const tn_module *m, const char *what, tn_site at);  // false: reported

// ---- graph/function.c
bool fe_eval(tn_function *f, tn_site at);  // was f marked by tn_eval? Asked where something is built that depends on it
FeUse *fe_use_of(tn_function *f, uint32_t index);  // of a parameter; valid until the next call
bool fe_fn_open(tn_function *f, tn_site at);       // false: NULL, poisoned, ended or sealed
// True when all operands are living values of one open function. *f is the function to name in a poisoned result either
// way.
#define fe_join(...) fe_join_for(__func__, __VA_ARGS__)
bool fe_join_for(const char *call, const tn_tensor *a, uint32_t n, tn_function **f, tn_site at);
// The same, dead or alive.
#define fe_join_any(...) fe_join_any_for(__func__, __VA_ARGS__)
bool fe_join_any_for(const char *call, const tn_tensor *a, uint32_t n, tn_function **f, tn_site at);
// False: an empty handle is among them, which names no function; reported to this one
bool fe_all_named(tn_function *f, const tn_tensor *a, uint32_t n, tn_site at);
// a: by position in the row, an empty handle where an optional operand is absent.
tn_tensor fe_emit(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at);
tn_tensor fe_emit_in(tn_function *f, Op op, const Attr *attrs, uint32_t n_attrs, tn_site at);  // without operands
tn_tensor fe_emit1(Op op, tn_tensor a, tn_site at);
tn_tensor fe_emit2(Op op, tn_tensor a, tn_tensor b, tn_site at);
tn_tensor fe_leaf(tn_function *f, Op op, const Attr *attrs, uint32_t n_attrs, Shape s, tn_site at);  // f32
tn_tensor fe_const(tn_function *f, double v, tn_site at);
tn_tensor fe_size(tn_function *f, Dim d, tn_site at);        // of a dim, as f32
tn_tensor fe_whole_size(tn_function *f, Dim d, tn_site at);  // as i64: exact of a constant, else below 2^24
static inline tn_tensor fe_poison(tn_function *f) { return (tn_tensor){f, 0}; }
// What a call that gives several values writes first: one that is refused leaves no handle unwritten
static inline void fe_poison_all(tn_function *f, tn_tensor *out, uint32_t n) {
  for (uint32_t k = 0; out && k < n; k++) out[k] = fe_poison(f);
}
// Neither poisoned nor a number that no call gave
static inline bool fe_ok(tn_tensor t) { return t.fn && t.fn->ir && t.v && t.v < t.fn->ir->n_ins; }
static inline Val fe_val(tn_tensor t) { return (Val){t.v}; }
// The dtype of an array, as the IR names it; none: the caller's number names no dtype.
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

// ---- graph/ledger.c: who owns which logical value, and the counters. Every public call that gives the user a new value ends
// in fe_made: that call is one value in the ledger, the instructions inside it are none.
// t itself; counts nothing when t was counted already. `call`: what reports say it is the result of, where it is public and
// no guard on the stack names another
#define fe_made(...) fe_made_by(__func__, __VA_ARGS__)
tn_tensor fe_made_by(const char *call, tn_tensor t, tn_site at);
#define fe_made_packed(...) fe_made_packed_by(__func__, __VA_ARGS__)
tn_packed fe_made_packed_by(const char *call, tn_packed s, bool sorted, tn_site at);
// Of a value; made without counting when it has none: parameters, inputs and gradients are followed, not counted
FeLogicalValue *fe_entity(tn_tensor t);                 // valid until the next one is made
FeLogicalValue *fe_known(const tn_function *f, Val v);  // NULL: none
bool fe_alive(tn_tensor t, tn_site at);                 // false: reported
bool fe_param_alive(tn_program *p, const FeParam *q, tn_site at);
// frontend/graph/scope.c: may it be moved? false: reported
bool fe_open_entity(tn_tensor t, bool packed, const char *verb, tn_site at);
void fe_mark_output(tn_tensor t);                                    // went to the caller
void fe_link(tn_function *f, uint32_t e, uint32_t scope);            // to another owner, nothing counted
void fe_end(tn_function *f, uint32_t e, FeValueState fate, Loc at);  // its end, counted by its owner
void fe_detached(tn_function *f, uint32_t e, bool left, Loc at);     // counted when a scope owned it
void fe_attached(tn_function *f, uint32_t e, uint32_t scope);        // counted
uint32_t fe_param_entity(tn_function *init, FeParam *q, Loc at);     // a new one: made, and taken by its module
void fe_state_made(tn_function *f);                                  // state of an optimizer: made, and nobody's
void fe_name_entity(tn_function *f, uint32_t e, Val v);              // v is its handle from now on
// The same; it is a parameter, its old handle is dead
void fe_rename_entity(tn_function *f, uint32_t e, Val v, Loc at);
void fe_never_disposed(tn_function *f);  // W108 for what f leaves behind
static inline uint32_t fe_entity_index(const tn_function *f, const FeLogicalValue *e) {
  return (uint32_t)(e - f->entities);
}
void fe_note_made(tn_function *f, const FeLogicalValue *e);
const char *fe_label(tn_function *f, const FeLogicalValue *e);  // "the result of tn_relu (f32[4,3])"

// ---- graph/scope.c
// Gives t to the function's own scope: gradients and states outlive inner scopes
tn_tensor fe_keep(tn_tensor t, tn_site at);
void fe_scopes_end(tn_function *f, const char *what, tn_site at);  // reports scopes that are still open
void fe_mark_owner(tn_tensor t, uint32_t scope, tn_site at);       // in the IR alone
tn_tensor fe_detach(tn_tensor t, tn_site at);                      // from its owner, when it has one

// ---- packed/packed.c
static inline tn_packed fe_poisoned_packed(tn_function *f) { return (tn_packed){fe_poison(f), fe_poison(f)}; }
tn_packed fe_with_data(tn_packed s, tn_tensor data, tn_site at);  // data that nobody else has, in the layout of s
// Of constant lengths, of at most `time` steps; x: named in what is said about them
tn_tensor fe_constant_layout(tn_tensor x, const int64_t *lengths, uint32_t n, int64_t time, const tn_pack_options *o);

tn_tensor fe_dense_layout(tn_function *f, Dim batch, Dim time, tn_site at);  // all sequences have `time` steps
// A name of its own for the rows of a layout whose lengths come at run time
Dim fe_new_rows(tn_program *p, int64_t bound);
bool fe_check_padded(tn_tensor x, tn_site at);  // has it batch and time axes? false: reported
// An op of rows and a layout that moves elements of any dtype; poison stays poison
tn_tensor fe_move_rows(Op op, tn_tensor x, tn_tensor layout, const Attr *attrs, uint32_t n, tn_site at);
// x [B, T, ..] (else [T, B, ..]) packed by a layout of these lengths: a known one, where there is one
tn_packed fe_pack_by(tn_tensor x, tn_tensor lengths, const tn_pack_options *o);

// ---- packed/ragged.c: lists of sequences whose lengths come at run time
// The first n sequences of a padded value with these lengths i64 [B]
void fe_take_apart(tn_tensor padded, tn_tensor lengths, bool batch_first, tn_tensor *out, uint32_t n, tn_site at);
Dim fe_list_time(const tn_tensor *list, uint32_t n, tn_site at);
tn_tensor fe_pad_one(tn_tensor x, Dim time, double value, bool batch_first, tn_site at);
tn_tensor fe_list_lengths(const tn_tensor *list, uint32_t n, tn_site at);

// ---- graph/packed_rows.c
// fe_join for packed sequences; in each the second handle is a layout and the first has its rows
bool fe_join_packed(const tn_packed *s, uint32_t n, tn_function **f, tn_site at);
// Are the lengths the same? false: reported, as a mistake of tn_`what`
bool fe_same_layout(tn_packed a, tn_packed b, const char *what, tn_site at);
static inline FeRows fe_rows(tn_tensor t) {
  return fe_ok(t) && t.v < t.fn->n_rows_of ? t.fn->rows_of[t.v] : (FeRows){0};
}
uint32_t fe_rows_of(tn_tensor t);  // the layout whose rows the first axis of t is; 0: of none
void fe_set_rows(tn_tensor t, uint32_t layout);
void fe_tag_rows(tn_tensor t, FeRows r);
// What an operation does with operands that have rows
typedef struct {
  tn_tensor kept, summed, mixed;  // the first of each kind; fn NULL: none
  uint32_t axis, n_summed;        // axis: of the result, where the kept one's rows lie
} FeRowsEffect;
// Before it is made: E111 where rows of two layouts meet; false: reported. Operands by position in the row, as for fe_emit
bool fe_rows_meet(FeRowsEffect *e, Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs,
                  tn_site at);
// For its results, of which y is the first: E130 where sequences would be mixed; false: reported
bool fe_rows_follow(const FeRowsEffect *e, Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs,
                    tn_tensor y, tn_site at);
// Before tn_`call` writes it to t, which holds rows from then on where the content does; false: reported
bool fe_rows_written(tn_tensor t, tn_tensor content, const char *call, tn_site at);
// Are steps along the axis those of one sequence? false: it holds packed rows, reported as a mistake of the call
bool fe_steps_apart(tn_tensor t, uint32_t axis, const char *call, tn_site at);
bool fe_same_rows(const char *what, tn_tensor a, tn_tensor b, tn_site at);

// ---- graph/ops.c
tn_tensor fe_same(tn_tensor a, tn_site at);
tn_tensor fe_view(tn_tensor a, tn_site at);           // the same storage under another name
tn_tensor fe_cast(tn_tensor a, DType t, tn_site at);  // a itself where it has that dtype
// A public call of an op over n operands with {axis}, of the first one
tn_tensor fe_over_axis(const char *call, Op op, const tn_tensor *a, uint32_t n, int axis, tn_site at);
tn_tensor fe_dropout(tn_tensor a, double p, tn_site at);
tn_tensor fe_mean(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at);
tn_tensor fe_sum(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at);  // n 0: of all, as in fe_mean
tn_tensor fe_vector_norm(tn_tensor a, double p, int axis, tn_site at);                 // of order p, without the axis
tn_tensor fe_refuse(tn_tensor x, int id, tn_site at, const char *text);                // reports it about x: poison
bool fe_axis(tn_tensor a, int axis, uint32_t *out, tn_site at);
// The same of calls for which a number is a row of one, as in PyTorch: axis 0, or -1, of it is that of *a, which becomes the row.
// fe_like_row: the result a number again, where a is one; y of one element
bool fe_row_axis(tn_tensor *a, int axis, uint32_t *out, tn_site at);
tn_tensor fe_as_row(tn_tensor a, tn_site at);  // of another rank a itself
tn_tensor fe_like_row(tn_tensor y, tn_tensor a, tn_site at);
// n different axes, which are at most MAX_RANK
bool fe_axes(tn_tensor a, const int *axes, uint32_t n, uint32_t *out, tn_site at);
tn_tensor fe_unflatten(tn_tensor x, int axis, tn_shape s, tn_site at);
bool fe_check_list(tn_function *f, const void *list, uint32_t n, const char *what, tn_site at);  // false: missing
tn_tensor fe_permute(tn_tensor a, const uint32_t *perm, tn_site at);
// Axis from[k] becomes number to[k]; the others fill what is left, in their order. No axis stands twice in either list.
tn_tensor fe_move_axes(tn_tensor x, const uint32_t *from, const uint32_t *to, uint32_t n, tn_site at);
tn_tensor fe_along(Op op, tn_tensor a, int axis, tn_site at);  // a row op
tn_tensor fe_reshape(tn_tensor a, const Dim *dims, uint32_t n, tn_site at);
tn_tensor fe_with_axis(tn_tensor a, uint32_t axis, tn_site at);     // of size 1, put in there
tn_tensor fe_without_axis(tn_tensor a, uint32_t axis, tn_site at);  // which has size 1
tn_tensor fe_flattened(tn_tensor a, tn_site at);                    // [n], all elements in row-major order
// Elements [start, start + size); along an axis that the run sizes the run checks that they exist
tn_tensor fe_slice(tn_tensor a, uint32_t axis, int64_t start, int64_t size, tn_site at);
tn_tensor fe_part(tn_tensor a, uint32_t axis, Dim from, Dim count, tn_site at);  // the same of sizes of the run
tn_tensor fe_strided(tn_tensor x, uint32_t axis, Dim from, Dim count, int64_t step, bool reverse, tn_site at);
tn_tensor fe_positions(tn_function *f, Dim n, tn_site at);  // f32 [n]: 0, 1, 2, ..
// `count` windows of `size` elements along an axis, `step` apart; their elements, `dilation` apart, are a new last axis
tn_tensor fe_windows(tn_tensor x, uint32_t axis, Dim count, int64_t size, int64_t step, int64_t dilation, tn_site at);
// As tn_pad; x itself where nothing is added
tn_tensor fe_pad(tn_tensor x, const int64_t *pads, uint32_t n, tn_pad_mode mode, double value, tn_site at);
tn_tensor fe_diagonal(tn_tensor x, int offset, uint32_t a, uint32_t b, tn_site at);
tn_tensor fe_slice_at(tn_tensor a, uint32_t axis, tn_tensor start, Dim count, tn_site at);
tn_tensor fe_concat(const tn_tensor *a, uint32_t n, uint32_t axis, tn_site at);

// ---- graph/pool.c: of one image or several; x is the function's, the calls have joined it
tn_tensor fe_pool(uint32_t n_spatial, bool is_max, tn_tensor x, int64_t kernel, tn_pool_options o);
tn_tensor fe_norm_pool(uint32_t n_spatial, tn_tensor x, double power, int64_t kernel, tn_pool_options o);
tn_tensor fe_adaptive_pool(uint32_t n_spatial, bool is_max, tn_tensor x, const int64_t *out, tn_site at);

// ---- graph/image.c
tn_tensor fe_interpolate(tn_tensor x, const int64_t *sizes, tn_interpolation mode, tn_interpolate_options o);
tn_tensor fe_pixel_shuffle(tn_tensor x, int64_t r, tn_site at);
tn_tensor fe_pixel_unshuffle(tn_tensor x, int64_t r, tn_site at);
tn_tensor fe_local_response_norm(tn_tensor x, int64_t size, tn_local_response_norm_options o);
tn_tensor fe_channel_shuffle(tn_tensor x, int64_t groups, tn_site at);
tn_tensor fe_channel_dropout(tn_tensor x, double p, tn_site at);

// ---- graph/unfold.c
tn_tensor fe_unfold2d(tn_tensor x, int64_t kernel, tn_unfold_options o);
tn_tensor fe_fold2d(tn_tensor x, tn_shape sizes, int64_t kernel, tn_unfold_options o);

// ---- graph/alpha_dropout.c
tn_tensor fe_alpha_dropout(tn_tensor x, double p, bool by_channel, tn_site at);

// ---- graph/linalg.c
// Of matrices that are stored transposed where asked; of whole numbers of one dtype, too
tn_tensor fe_matmul(tn_tensor a, tn_tensor b, bool ta, bool tb, tn_site at);

// ---- graph/promote.c: dtypes of pointwise calls
// A pointwise op of a public call: operands in their common dtype; a comparison gives bool
tn_tensor fe_pointwise(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at);
tn_tensor fe_promoted(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at);
bool fe_is_rounded(Op op, tn_tensor a);  // op rounds, and a is whole already: it is the value
DType fe_common_dtype(const tn_tensor *a, uint32_t n);
const tn_tensor *fe_in_one_dtype(const tn_tensor *a, uint32_t n, tn_site at);  // all in their common dtype
// *x as an element of t; false: t does not hold it, which is reported
bool fe_fits_number(tn_function *f, double *x, DType t, tn_site at);
tn_tensor fe_number(tn_function *f, double x, DType t, tn_site at);  // a scalar constant of t
tn_tensor fe_full(tn_function *f, double x, Shape s, DType t, tn_site at);
tn_tensor fe_as_dtype(tn_tensor a, DType t, tn_site at);  // cast; a constant is one of t
tn_tensor fe_searchable(tn_tensor a, tn_site at);         // f32 or i64, and 0 where a is
// Smaller whole numbers and bools are computed in i64 where op takes no others: a as op takes it, and y of a's dtype again
tn_tensor fe_widened(Op op, tn_tensor a, tn_site at);
tn_tensor fe_narrowed(tn_tensor y, tn_tensor like, tn_site at);
bool fe_fits_into(DType from, DType to);  // a result may be written to what has the dtype `to`

// ---- graph/activations.c
tn_tensor fe_prelu(tn_tensor a, tn_tensor weight, tn_site at);
tn_tensor fe_rrelu(tn_tensor a, double lo, double hi, tn_site at);
// One half of the axis times an activation of the other: of the second half, but where it is silu
tn_tensor fe_gated(tn_tensor a, int axis, Op op, tn_site at);

// ---- module/tree.c
FeParam *fe_param_add(tn_program *p, const char *path, ParamKind kind, Shape s, tn_init init, Loc loc);  // f32
FeParam *fe_module_param(tn_module *m, const char *name, const int64_t *dims, uint32_t n, tn_init init, tn_site at);
// Of rank 0 or 1
FeParam *fe_module_buffer(tn_module *m, const char *name, DType t, const int64_t *size, tn_init init, tn_site at);
FeEntry *fe_entry(const tn_module *m, const char *name);
// The module that holds what a path below m names, as tn_named_parameters gives it; *path: its last name. m itself, and
// *path as it was, when a module on the way is missing.
tn_module *fe_holder(tn_module *m, const char **path);
FeEntry *fe_entry_at(tn_module *m, const char *path);             // by such a path; NULL: none
const char *fe_near_entry(const tn_module *m, const char *name);  // "; did you mean 'weight'?", or ""
uint32_t fe_froze(tn_module *m, bool frozen, tn_site at);         // number of the call, for FeParam.frozen_by
void fe_params_flush(tn_program *p);  // enters all pending ones into the table, with their initialisation
tn_tensor fe_use(tn_function *f, FeParam *q, tn_site at);   // its current value in f
tn_tensor fe_read(tn_function *f, FeParam *q, tn_site at);  // the same to compute with: of f16 and bf16 as f32
FeParam *fe_state(tn_program *p, const char *path, Shape s, double init, tn_site at);  // found or made
FeParam *fe_state_like(tn_program *p, const char *path, FeParam *of, tn_site at);      // begins with the values of `of`
bool fe_has_state(const tn_program *p, const char *path);
const char *fe_path(tn_program *p, const char *path, const char *name);
const char *fe_module_text(const tn_module *m);  // as messages name it: "module 'enc.0'", "the root module"
bool fe_free_name(tn_module *m, const char *what, const char *name, tn_site at);  // false: taken, reported
void fe_add_alias(tn_module *m, const char *name, FeParam *q);
Val fe_initial(tn_program *p, FeParam *q);  // made when it was not yet
FeParam *fe_param_of(const tn_program *p, uint32_t index);
bool fe_below(const tn_module *m, const FeParam *q);  // in the tree below m, by any of its paths

// ---- module/variables.c: entries below m whose path matches, in the order of tn_variables; *out in the program's arena
uint32_t fe_variables(tn_module *m, const char *pattern, tn_which which, tn_variable **out);

// n: how many `what` below m match; 0: reported, and false
bool fe_matched(const tn_module *m, const char *pattern, const char *what, uint32_t n, tn_site at);

// ---- module/param_groups.c
const tn_group_options *fe_group_options(tn_program *p, uint32_t number);
// False when an optimizer of m or of a module above was built already, which would never train it: reported, m poisoned
bool fe_may_add(tn_module *m, const char *name, ParamKind kind, tn_site at);
// The entry of a hyper-parameter, made with this value; NULL: reported
FeParam *fe_hyper(tn_module *m, uint32_t group, RtHyperKind kind, double value, tn_site at);

// ---- module/counters.c
// How often f's optimizers stepped this parameter, this step included: a state entry under `key`. is_read: by the
// update; else it counts for other functions
tn_tensor fe_next_step(tn_function *f, const FeParam *of, const char *key, bool is_read, tn_site at);
// NAdam's product of the mu of all steps, this one, `step`, included. cycled: beta1 where a schedule moves it, else empty
tn_tensor fe_next_mu_product(tn_function *f, const FeParam *of, double beta1, tn_tensor cycled, double momentum_decay,
                             tn_tensor step, tn_site at);
void fe_merge_counters(tn_program *p);  // those that are always equal become one; no handle of a value is valid after

// ---- graph/inplace.c
// t shows `content` from here on; nothing is checked. no_grad: whatever region the call stands in.
tn_tensor fe_write(tn_tensor t, tn_tensor content, bool no_grad, tn_site at);
// The result of an op written to its operand 0; `what` is the public call
tn_tensor fe_in_place(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, const char *what,
                      tn_site at);
// What tn_copy_ does; `what`: the public call
tn_tensor fe_copy_in(tn_tensor dst, tn_tensor src, const char *what, tn_site at);
void fe_no_grad_ends(tn_function *f, tn_site at);   // reports a region that is open where f ends
bool fe_is_untracked(const tn_function *f, Op op);  // inside a region without gradients

// ---- graph/scan.c
// Number of a new random stream; inside a scan, of the first of one for each step. The only way to take one
// (tests/test_layers.sh).
uint32_t fe_stream(tn_function *f, tn_site at);
// False: f's scan is open, where `what` has no place; reported
bool fe_outside_scan(tn_function *f, const char *what, const char *hint, tn_site at);
// May op take these operands where it stands: in the body of a scan, or outside with values of a body? false: reported
bool fe_scan_allows(tn_function *f, Op op, const tn_tensor *a, uint32_t n, tn_site at);
bool fe_scan_may_write(tn_tensor t, Val root, tn_site at);  // root: the storage written; false: reported
void fe_scan_ends(tn_function *f, tn_site at);              // reports a scan that is open where f ends

// ---- compile/environment.c
void fe_check_environment(tn_program *p, Loc at);  // warns of TN_* variables whose value means nothing

// ---- compile/shards.c
bool fe_check_shards(tn_program *p,
                     const tn_compile_options *o);  // may distributed functions be cut? False: the program has errors
void fe_name_shards(
    tn_program *p);  // texts for the functions that cutting made, which stand behind those that were built
void fe_plan_shards(const tn_program *p, FeJitCode *c, RtFunction *functions);

// ---- compile/bytes_moved.c
void fe_bytes_moved(const Fn *f, RtArena *mem, FeBytesMoved *out);  // of a placed function
int64_t fe_least_bytes(const Fn *f);                                // tn_plan.least_bytes

// ---- module/adopt_param.c
tn_function *fe_init(tn_program *p);  // the function that makes initial values
tn_tensor fe_initial_handle(tn_function *init, FeParam *q);
void fe_param_end(tn_program *p, FeParam *q, Loc at);  // none of its names is left; counted, an end of its own
bool fe_has_params(FeModuleKind kind);
bool fe_adopts_params(tn_module *m, const char *name, tn_site at);  // false: reported

// ---- module/schedule.c
// The rate that schedule s (NULL: none) makes of lr for a group of the optimizer of m
tn_tensor fe_scheduled(tn_function *f, const tn_module *m, uint32_t group, tn_schedule *s, tn_tensor lr, tn_site at);
bool fe_cycles_momentum(const tn_schedule *s);
void fe_check_schedule(const tn_schedule *s);  // W133
tn_tensor fe_scheduled_momentum(tn_function *f, const tn_module *m, uint32_t group, tn_schedule *s, const char *what,
                                tn_tensor base, tn_site at);

// ---- module/training.c
// Indices of parameters below m that have one
uint32_t *fe_with_gradient(tn_function *f, const tn_module *m, uint32_t *n);
bool fe_check_gradients(tn_function *f, const tn_module *m, uint32_t n, tn_site at);  // n == 0: E122

// ---- module/shards.c
// x itself where its function is not distributed. A gradient is 0 where no shard counts, any other mean NaN.
tn_tensor fe_shard_mean(tn_tensor x, bool is_gradient, tn_site at);

// ---- module/untrained.c
// Does a gradient reach every parameter below m? A warning that lists the others; required: an error, and false
bool fe_all_trained(tn_function *f, const tn_module *m, bool required, tn_site at);
void fe_note_cuts(tn_function *f);       // notes what cuts parameters off from the last loss
void fe_check_untrained(tn_program *p);  // warnings about parameters that another optimizer trains are notes

// ---- module/no_effect.c
void fe_warn_no_effect(tn_program *p);

// ---- module/layers.c
// NULL: no parent; else maybe poisoned
tn_module *fe_module(tn_module *parent, const char *name, FeModuleKind kind, tn_site at);
tn_module *fe_built_in(tn_module *parent, const char *name, const char *kind, FeForward *forward, tn_site at);
bool fe_check_sizes(tn_module *m, int64_t a, int64_t b, tn_site at);  // in [1, 2^30]; false: reported, m poisoned
tn_tensor fe_linear(tn_tensor x, tn_tensor w, tn_tensor b, bool has_bias, tn_site at);
tn_tensor fe_forward(tn_module *m, tn_tensor x, tn_site at);  // without the module's own hooks

// ---- graph/conv.c: over `spatial` axes; bias {0}: none
tn_tensor fe_convolve(uint32_t spatial, bool is_transposed, tn_tensor x, tn_tensor weight, tn_tensor bias,
                      tn_conv_options o);

// ---- packed/conv.c: of data that has the rows of a packed layout; the result has those of its windows' layout
tn_tensor fe_convolve_rows(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o);

// ---- module/norm.c
tn_tensor fe_norm(tn_module *m, tn_tensor x, tn_site at);  // of a layer or RMS norm
// Over the last n_axes, without weight and bias
tn_tensor fe_normalize(tn_module *m, tn_tensor x, uint32_t n_axes, tn_site at);
bool fe_check_eps(tn_program *p, const char *name, double eps, tn_site at);  // false: reported

// ---- module/embedding.c
tn_tensor fe_embed(tn_module *m, tn_tensor index, tn_site at);

// ---- module/attention.c
void fe_poison_weights(const tn_attention_options *o, tn_function *f);  // where they are asked for, until they are made
// fe_join of the operands and what the options name; poisons the weights
bool fe_join_attention(const char *call, const tn_tensor *x, uint32_t n, const tn_attention_options *o,
                       tn_function **f);
bool fe_check_attention(tn_function *f, const tn_attention_options *o);  // false: reported
// sdpa of n tensor operands, as the op takes them; rank: of the caller's. Weights that are asked for: [B,H,Tq,Tk]
tn_tensor fe_attention(tn_tensor *a, uint32_t n, uint32_t rank, const tn_attention_options *o, tn_site at);
// The same as the options want them, without axes that the caller's values do not have, as a value that `call` made
void fe_give_weights(const char *call, const tn_attention_options *o, bool has_batch, bool has_heads, tn_site at);
tn_tensor fe_attend(tn_module *m, tn_tensor x, tn_site at);  // self-attention, as tn_call runs it
tn_tensor fe_attention_of(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o);

// ---- module/attention_weights.c: [B,H,Tq,Tk] of the sdpa y with n operands `in` and this bias; stream: of its dropout, 0: none
tn_tensor fe_attention_weights(const tn_tensor *in, uint32_t n, tn_tensor bias, tn_tensor y, uint32_t stream,
                               const tn_attention_options *o, tn_site at);

// ---- module/attention_mask.c: bool, as broadcasts to [B,H,Tq,Tk]; empty: every query sees every key
tn_tensor fe_visible_keys(tn_function *f, Dim n_queries, Dim n_keys, const tn_attention_options *o, tn_site at);

// ---- module/hook.c: registering hooks, and those that a call runs
tn_hook *fe_hook_add(tn_module *m, tn_hook h, tn_hook_options o);
tn_hook *fe_hook_new(tn_program *p, tn_hook h, tn_site at);  // of no module; NULL: the program was compiled, reported
FeHooks fe_hooks_of(const tn_module *m);                     // as they stand now: those of trees, then its own
static inline bool fe_has_hooks(const tn_module *m) { return m->hooks.n || m->p->tree_hooks.n; }
bool fe_takes_tensors(const tn_module *m);  // is it called by tn_call?
void fe_unused_hooks(tn_program *p);        // W119
// Around the user's function
typedef struct {
  tn_hook *hook;
  tn_program *p;
  tn_module *module;
  tn_hook *running;  // of the module, around this one
  FeGuard *guard;
  const tn_module *inside;
} FeHookRun;
FeHookRun fe_hook_begins(tn_hook *h, tn_module *m);  // m NULL: of a value
void fe_hook_ended(const FeHookRun *run);
bool fe_hook_may_run(const tn_module *m, tn_site at);  // false: m's hooks are running; reported
// May r stand for `what` ("its input"), of this dtype and shape when the hook was called? false: reported
bool fe_hook_fits(const tn_hook *h, const char *what, tn_function *f, uint8_t dtype, Shape s, tn_tensor r, tn_site at);
// Takes what a hook returned in place of v[0 .. n); `what` ("input"). names: NULL: none. false: reported
typedef struct {
  uint8_t dtype[TN_MAX_VALUES];
  Shape shape[TN_MAX_VALUES];
} FeTypes;
FeTypes fe_types_of(const tn_values *v);
bool fe_hook_replaces(const tn_hook *h, const char *what, tn_function *f, tn_values *v, const FeTypes *types,
                      const tn_values *by, tn_site at);

// ---- module/call.c: modules run, with hooks or without
tn_tensor fe_call(tn_module *m, tn_tensor x, tn_site at);          // with them
bool fe_callable(tn_function *f, const tn_module *m, tn_site at);  // of f's program; false: reported
tn_tensor fe_count_new(tn_tensor t, uint32_t first, tn_site at);   // fe_made for a value made since `first`

// ---- module/summary.c: around a call, for tn_summary
uint32_t fe_call_begins(tn_function *f, tn_module *m);
void fe_call_ended(tn_function *f, uint32_t call, const tn_values *out);

// ---- module/own.c
tn_values fe_forward_n(tn_module *m, tn_values in, tn_site at);  // n == 0: failed
bool fe_order_inputs(tn_module *m, tn_values *in, tn_site at);   // as m takes them; false: reported
uint32_t fe_n_in(const tn_module *m);
uint32_t fe_n_out(const tn_module *m);
const char *const *fe_value_names(tn_module *m, bool of_inputs);

// ---- module/grad_hook.c
// A call of m by hooks on gradients: its inputs, and later its outputs, as values whose gradients they see. NULL: none.
typedef struct FeTapCall FeTapCall;
FeTapCall *fe_tap_inputs(tn_module *m, const FeHooks *hooks, tn_tensor *v, uint32_t n, tn_site at);
void fe_tap_outputs(FeTapCall *c, tn_tensor *v, uint32_t n, tn_site at);
// Runs the hooks on the way back from the loss, to `of` where it is given. Gives the loss whose gradients know what they
// replaced, poisoned where one failed: reported
typedef struct {
  tn_tensor loss;
  struct FeLeafGrad {
    tn_tensor of, grad;
  } *leaves;  // parameters and inputs whose gradients hooks saw
  uint32_t n_leaves, cap_leaves;
} FeHooked;
FeHooked fe_run_grad_hooks(tn_tensor loss, tn_tensor of, tn_site at);
bool fe_is_tracked(tn_tensor t);  // graph/inplace.c: does it require a gradient?
bool fe_may_have_gradient(
    tn_tensor t);  // the same, or it is made of an input or a frozen parameter, of which tn_grad gives one

// ---- module/probe.c: for each function with probes one more, which hands out what they found
void fe_probe_twins(tn_program *p);
void fe_plan_probes(tn_program *p, FeJitCode *c, RtFunction *functions);

// ---- compile/lower_plan.c
void fe_plan(tn_program *p, FeJitCode *c);  // fills the plan from the placed program, entries apart

// ---- compile/buckets.c
bool fe_buckets(tn_program *p, const tn_compile_options *o);  // adds the variants; false: reported

// ---- compile/compile.c
bool fe_seal(tn_program *p, tn_site at);  // no building from now on; false: the program has errors
// Reads again what the sealed program `of` was built as. Tables are those of `of`, which outlives it. NULL: no memory
tn_program *fe_program_of(const tn_program *of, const char *file);
// The following stand inside FE_GUARD. The program has code from here, and its memory is guarded; false: reported.
bool fe_begin_code(tn_program *p, tn_site at);
void fe_end_code(tn_program *p);
// Passes, packed copies and p->code->plan, entries apart. The target is the program's from now on.
bool fe_place(tn_program *p, Target *target, const tn_compile_options *o);
tn_model *fe_compile_for(tn_program *p, Target *target, const tn_compile_options *o);  // target NULL: this machine's

#endif
