// The IR: programs, functions, values. No LLVM here.
//
//   program @mlp
//   dim batch <= 32
//   param @w : f32[4,8] trainable
//   func @predict(%x: f32[batch,8]) {
//     %w = param @w : f32[4,8]
//     %y = linear %x, %w : f32[batch,4]   // model.c:12
//     output %y {index=0, name="y"} : f32[batch,4]
//   }
//
// A value is the index of the instruction that makes it; instructions are small records in one array, whose order is
// the order of execution and of printing. An instruction with several results is followed by its `result` records: the values
// head, head + 1, .. Facts that passes find are side arrays indexed by value; a pass that rewrites instructions drops
// them. Everything lives in the program's build arena.
#ifndef TN_IR_IR_H
#define TN_IR_IR_H

#include "ir/plan.h"

typedef struct {
  uint16_t op;
  uint16_t n_res;  // results of the head; 0 for `result` records and marks
  uint16_t n_args;
  uint16_t absent;  // bit k: optional operand k of the row is absent, but a later one is present
  uint8_t n_attrs;  // each key once
  uint8_t dtype;
  uint16_t backward_of : 15;  // the op at loc whose gradient this is part of; OP_none: no gradient
  uint16_t is_adjoint : 1;    // computed from the gradient of what follows, not from the forward's values alone
  uint32_t args;              // first operand in Fn.args
  uint32_t attrs;             // first attribute in Fn.attrs
  Shape shape;
  Str name;  // printed name; 0: its number
  Loc loc;
  uint32_t scope;   // index in Fn.scopes of the scope that owns the value; NO_SCOPE: detached
  uint32_t origin;  // the value's index when the program was built; 0: a pass made it, or it was not compiled
} Ins;

typedef struct {
  Str name;
  uint32_t parent;  // NO_SCOPE for scope 0, the function's own
  Loc open, close;
  bool closed;
} Scope;

// The first n values of `ins` and the roots of their storage, as ir_storage_root found them.
typedef struct {
  const Ins *ins;
  Val *root;
  uint32_t n, cap;
} RootMemo;

struct Prog;
typedef struct Fn {
  struct Prog *prog;
  Str name;
  Loc loc;
  Ins *ins;  // ins[0] is no value
  uint32_t n_ins, cap_ins;
  Val *args;
  uint32_t n_args, cap_args;
  Attr *attrs;
  uint32_t n_attrs, cap_attrs;
  Scope *scopes;
  uint32_t n_scopes, cap_scopes;
  uint32_t n_inputs, n_outputs;
  uint32_t cur_scope;  // owner of the values that ir_emit makes
  bool is_body;        // of a scan
  uint8_t scan_depth;  // scans that it runs, one in the other
  uint8_t
      limit_part;  // ordered for so small a part of what the plain order lets live; 0: in that; pass recompute asks for it
  struct Fn *unordered;  // where the arena is limited: before pass fuse
  bool has_writes;       // writes in place or scans: a handle may show another content later
  // Of a distributed function: what each of n_shards shards computes has its update, which has the former (split_shards.c).
  struct Fn *update, *shard;
  uint32_t n_shards;
  RootMemo *roots;
  // facts
  uint32_t facts;       // HAS_*: those known to hold; every change of an instruction drops them
  uint32_t *kernel_of;  // by value: kernel number; UINT32_MAX: none (leaves, views)
  uint32_t *buf_of;     // by value: Buf; 0: not stored
  Kernel *kernels;
  uint32_t n_kernels;
  Buf *bufs;  // bufs[0] is none
  uint32_t n_bufs, cap_bufs;
  const bool *writes_param;  // by parameter; made with the buffers
  int64_t param_bytes;       // of the parameters that it reads or writes; made with the buffers
  struct Remark *remarks;    // remarks: what passes refused, and why; NULL: the program keeps none (ir/remarks.c)
  uint32_t n_remarks, cap_remarks;
  InputCheck *checks;
  uint32_t n_checks, cap_checks;
  SizeCheck *size_checks;
  uint32_t n_size_checks, cap_size_checks;
  PlanStats stats;
  struct Placed *placed;  // the last answer of the room placement
} Fn;

typedef enum {
  PARAM_WEIGHT,
  PARAM_BUFFER,
  PARAM_STATE,
  PARAM_TRANSIENT /* a buffer that is not saved */,
  N_PARAM_KINDS
} ParamKind;
typedef struct {
  Str path;  // canonical
  uint8_t dtype, kind;
  bool trainable;
  Shape shape;  // constant dims
  Loc loc;
  Str *aliases;
  uint32_t n_aliases, cap_aliases;
  bool is_hyper;  // a hyper-parameter that may be set between runs: f32[]
  uint8_t hyper;  // RtHyperKind
  uint32_t group;
  int64_t offset;  // in SEG_PARAM, after place of the program
} Param;

// Kinds of sizes. DIM_MUL and later kinds have two parts. A difference is a sum with a negative factor.
typedef enum { DIM_CONST, DIM_SYM, DIM_MUL, DIM_ADD, DIM_DIV /* rounded down */, DIM_MAX, DIM_MIN } DimKind;
typedef struct {
  uint8_t kind;
  Str name;       // SYM
  int64_t value;  // CONST: the value; SYM: the bound
  int64_t fit;    // SYM: the bound of this plan of the function, at most `value` (ir/passes/lowering/specialize.c)
  Dim a, b;       // MUL and those behind it
  int32_t slot;   // SYM: index in TnFrame.dims; -1
  Loc loc;        // where the user computed it first; 0: unknown
} DimInfo;

// A call of a module whose forward values the backward computes again (ir/passes/planning/checkpoint.c)
typedef struct {
  Str module;       // its path
  uint32_t around;  // the call that it is part of; 0: none
  Loc loc;
  // found in all functions: a backward passes it, and a gradient of that backward; a function needs less of the arena by it; buffers
  // that the backward reads; those that are computed again for it
  bool has_backward, has_second, is_lower;
  uint32_t n_read, n_again;
} Checkpoint;

typedef struct Prog {
  RtArena *mem;
  RtDiags diags;
  Str name;
  struct Interner *in;  // strings, dims, shapes, locs (ir/intern.c)
  Param *params;
  uint32_t n_params, cap_params;
  Fn **fns;
  uint32_t n_fns, cap_fns;
  Fn **bodies;  // of scans, in order of creation; no entry points
  uint32_t n_bodies, cap_bodies;
  Checkpoint *checkpoints;  // that of ir_loc_checkpoint k is the (k - 1)th
  uint32_t n_checkpoints, cap_checkpoints;
  Dim *syms;  // named dims by slot
  uint32_t n_syms, cap_syms;
  int64_t param_bytes;
  int64_t const_bytes;
  WeightPack *packed_weights;
  uint32_t n_packed_weights, cap_packed_weights;
  uint32_t *pack_of_param;  // by parameter: 1 + its newest row; 0: none
  int64_t packed_bytes;
  bool packs_weights;  // products may read packed copies of parameters
  bool sums_exactly;   // convolutions are sums of their products alone, as if all had {algorithm="exact"}
  uint32_t next_id;    // random streams
  uint64_t n_visits;   // number of search steps so far: tests hold that it grows linearly with the program
  bool watches_nan;    // stored values are searched for NaN; implies guarded_arena
  bool guarded_arena;  // the arena is placed with guards and poisoned between kernels (runtime/exec/arena_guards.h)
  bool names_calls;    // built by public calls: messages name values by call, not by number
  // a write that destroys a value which a backward needs copies it first, with a warning, instead of E112
  bool copy_saved;
  int64_t arena_limit;  // bytes that a function may need of the arena; 0: any
  bool recomputes;      // kernels may run again to meet it; without a limit where that takes next to no time
  TargetFacts target;   // IR_TARGET_FACTS until the code generator sets its own
  // bit sets by row of ir/passes/rewrites/rules.def: rules that are off; rules that are traced
  uint64_t rules_off, rules_traced;
  void (*trace_rule)(const char *text);
  uint64_t n_rule_applications;  // of all rules so far
  uint64_t rule_limit;           // stop after this many (bisecting a wrong rule); 0: no limit
  struct Sharded *sharded;       // distributed functions that are cut
  uint32_t n_sharded, cap_sharded;
  bool keeps_remarks;
  // Private memory that the kernel of an instruction wants, in bytes by bounds; set by the code generator, NULL: none.
  int64_t (*scratch)(const Fn *f, Val v, const void *ctx);
  const void *scratch_ctx;
} Prog;

static inline bool ir_none(Val v) { return v.i == 0; }
static inline Ins *ir_ins(const Fn *f, Val v) { return &f->ins[v.i]; }
static inline Val ir_arg(const Fn *f, Val v, uint32_t k) { return f->args[f->ins[v.i].args + k]; }

#endif
