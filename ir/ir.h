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
// the schedule and the print order. An instruction with several results is followed by its `result` records: the values
// head, head + 1, .. Facts that passes find are side arrays indexed by value; a pass that rewrites instructions drops
// them. Everything lives in the program's build arena.
#ifndef TN_IR_H
#define TN_IR_H

#include "runtime/abi.h"
#include "runtime/base.h"
#include "runtime/exec/arena_guards.h"

typedef struct {
  uint32_t i;
} Val;  // 0: none
typedef struct {
  uint32_t i;
} Dim;  // interned; 0: none
typedef struct {
  uint32_t i;
} Shape;  // interned list of dims; 0 is the empty list (a scalar)
typedef struct {
  uint32_t i;
} Str;  // interned; 0 is ""
typedef struct {
  uint32_t i;
} Loc;  // interned file:line, the path of the module whose forward the user called there, and the call; 0: unknown

enum { MAX_RANK = 8, MAX_RESULTS = 0xffff /* of a scan */, NO_SCOPE = 0xffffffffu };

typedef enum { DTYPE_OPAQUE, DTYPE_FLOAT, DTYPE_INT, DTYPE_BOOL } DTypeKind;
#define DTYPE(id, ...) DT_##id,
typedef enum {
  DT_NONE,
#include "ir/dtypes.def"
  N_DTYPES
} DType;

// ---- ops
#define NULLARY(n, ...) OP_##n,
#define UNARY(n, ...) OP_##n,
#define BINARY(n, ...) OP_##n,
#define TERNARY(n, ...) OP_##n,
#define OP(n, ...) OP_##n,
typedef enum {
  OP_none,
#include "ir/ops.def"
  N_OPS
} Op;
#define CLASS(id, ...) CLASS_##id,
typedef enum {
#include "ir/kernels.def"
  N_CLASSES
} OpClass;
// Flags of a class: ir/kernels.def explains them.
enum {
  MAKES_KERNEL = 1,
  BY_ELEMENT = 2,
  SHARES_KERNEL = 4,
  FUSES_READERS = 8,
  BECOMES_ROWS = 16,
  IN_PLACE = 32,
  EXPENSIVE = 64,
  ROUNDS = 128,
  HAS_PROLOGUE = 256
};
// What an op does along an axis of packed rows: ir/ops.def explains the words.
typedef enum { ROWS_EACH, ROWS_BY_AXIS, ROWS_TOTAL, ROWS_PICK, ROWS_ALONG } OpRows;
enum {
  PURE = 1,
  COMM = 2,
  EFFECT = 4,
  WRITES = 8,
  RANDOM = 16,
  ROW_AXIS = 32,
  INTS = 64,
  BOOLS = 128,
  NUMBERS = 256,
  MASK = 512,
  FROM_INTS = 1024,
  COMBINES = 2048
};

#define OPERAND(n) ARG_##n,
typedef enum {
#include "ir/operands.def"
  N_ARG_NAMES
} ArgName;
// Flags of an operand: the dtypes that it takes, bits by DType, and behind them how it is read.
enum { DTYPE_BITS = 12 };
_Static_assert((int)N_DTYPES <= DTYPE_BITS, "a dtype's bit would be that of another flag");
#define DTYPE(id, ...) id = 1 << DT_##id,
enum {
#include "ir/dtypes.def"
  OPTIONAL = 1 << DTYPE_BITS,
  REPEATED = OPTIONAL << 1,
  WITH_PREVIOUS = OPTIONAL << 2,
  SHAPE_ONLY = OPTIONAL << 3,
  REPLACED = OPTIONAL << 4,
  ELEMENT = OPTIONAL << 5,
  ROW_SCALAR = OPTIONAL << 6
};
// Every number; numbers that are whole 32-bit words, as rows of packed sequences are moved; everything.
#define DTYPE(id, name, bytes, kind, doc) | (DTYPE_##kind != DTYPE_OPAQUE ? 1 << DT_##id : 0)
enum {
  NUMBER = 0
#include "ir/dtypes.def"
};
#define DTYPE(id, name, bytes, kind, doc) | (DTYPE_##kind != DTYPE_OPAQUE && bytes % 4 == 0 ? 1 << DT_##id : 0)
enum {
  WORDS = 0
#include "ir/dtypes.def"
};
// What gradients flow through; whole numbers; they and bool.
enum { FLOATS = F32 | F16 | BF16, WHOLE = I64 | I32 | U8, COUNTABLE = WHOLE | BOOL };
enum { ANY = NUMBER | LAYOUT };

#define ATTR(k, kind) KEY_##k,
typedef enum {
#include "ir/attrs.def"
  N_KEYS
} Key;
typedef enum { KIND_INT, KIND_NUM, KIND_STR, KIND_BYTES, KIND_LIST, KIND_FLAG, KIND_DIM, KIND_PARAM } AttrKind;
typedef struct {
  uint8_t key;  // Key; its kind is in ir_key_kind
  union {
    int64_t i;   // INT, FLAG (1), PARAM (index)
    double f;    // NUM
    Str s;       // STR
    Shape list;  // LIST
    Dim dim;     // DIM
  } u;
} Attr;

#define DIAG(id, sev, name, text) E_##name = id,
enum {
#include "ir/diag.def"
};

typedef struct {
  uint16_t op;
  uint16_t n_res;  // results of the head; 0 for `result` records and marks
  uint16_t n_args;
  uint16_t absent;  // bit k: the optional operand k of the row is not there, but one behind it is
  uint8_t n_attrs;  // each key once
  uint8_t dtype;
  uint16_t backward_of;  // the Op whose gradient it is part of, at loc; OP_none: part of none
  uint32_t args;         // first operand in Fn.args
  uint32_t attrs;        // first attribute in Fn.attrs
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

// A buffer: storage, as opposed to value. Views and next versions share one.
typedef struct {
  Val head;             // the value that it was made for
  int32_t first, last;  // kernel numbers; last = INT32_MAX: to the end of the program's life
  int64_t bytes;        // by the bounds of dims
  int64_t offset;       // in its segment; for SEG_IN, SEG_OUT the position in the signature
  uint8_t seg;          // Segment
  bool scratch;         // belongs to one kernel only
  uint32_t reuses;      // buffer whose slot it takes over in place; 0: none
  uint32_t n_shares;    // values on it
  uint32_t
      within;  // of sums over shards, which are outputs and inputs: the buffer in the arena that they lie in; 0: none
  int64_t within_at;  // bytes from its beginning
  bool is_kept;       // its contents outlast the run: the next shard's, or the update's, has them
  uint32_t twin;      // in an update: the buffer of the shard's function whose place it has; 0: none
} Buf;

// A kernel: instructions [first, first + n) of the function, lowered as one.
typedef struct {
  uint32_t first, n;
  uint8_t cls;       // OpClass
  uint32_t scratch;  // Buf of private scratch memory; 0: none
  Val wanted;        // i64[2]: the elements that its pointwise instructions compute; none: all
} Kernel;

// Facts about a function that passes need and give: HAS_SCOPES, ..
#define FACT(n, ...) FACT_##n,
typedef enum {
#include "ir/passes/facts.def"
  N_FACTS
} Fact;
#define FACT(n, ...) HAS_##n = 1 << FACT_##n,
enum {
#include "ir/passes/facts.def"
};

typedef struct {
  uint32_t n_kernels, n_inplace, n_copies;
  int64_t peak_bytes;   // arena size of this function
  int64_t lower_bound;  // largest sum of live bytes at any kernel
  int64_t copy_bytes;
} PlanStats;

// What the host checks before a run: every element of an i64 input lies in [lo, hi) (hi: constant or dim).
typedef struct {
  uint32_t input;
  int64_t lo;
  Dim hi;  // exclusive; for lengths: `incl` makes it inclusive
  bool incl;
  bool sorted;       // must be non-increasing
  const char *what;  // "label", "index", "length"
  bool has_other;    // `other` is right too: a label that is ignored, an index that names nothing
  int64_t other;
  // Of each `group` of elements only [first, first + size) are looked at; group 0: all
  int64_t group, first, size;
  // Padded sequences, `row` elements for each step: only steps below the lengths are looked at
  bool is_packed, time_major, has_lengths;
  uint32_t of_input;  // the lengths; with has_lengths they are constants
  Shape lengths;
  Dim batch, time;
  int64_t row;
} InputCheck;

// A size of the run that the host checks: it must not be below 0.
typedef struct {
  Dim dim;
  const char *what;  // "the size time-3 (gpt.c:12)"
} SizeCheck;

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
  uint32_t cur_scope;  // owner of what ir_emit makes next
  bool is_body;        // of a scan
  bool has_writes;     // in place, or scans: a handle may show another content later on
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
  struct Remark *remarks;    // what passes refused, and why; none where the program keeps none (ir/remarks.c)
  uint32_t n_remarks, cap_remarks;
  InputCheck *checks;
  uint32_t n_checks, cap_checks;
  SizeCheck *size_checks;
  uint32_t n_size_checks, cap_size_checks;
  PlanStats stats;
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

// How a copy of a parameter holds it: as a matrix B[k][n] in panels of `width` columns, [panel][k][width], zero beyond n;
// the weight of a convolution of k channels to n in each group as Winograd's algorithm multiplies it, [panel][36][k][width], or
// as windows read it, [group][panel][block of k][tap][k of the block][width].
typedef enum { PACK_PANELS, PACK_WINOGRAD, PACK_CONV } PackKind;

// A copy of a parameter. All products that read it so share it. The code generator decides which there are
// (codegen/module/packed_weights.c).
typedef struct {
  PackKind kind;
  uint32_t param;
  bool transposed;  // stored [n, k]
  int64_t n, k, width;
  int64_t taps, groups, block;  // of PACK_CONV; 0
  int64_t offset, bytes;        // in SEG_PACKED
  uint32_t next;                // 1 + the next row of the same parameter; 0: none
} WeightPack;

// What passes know of the machine: set by the code generator's target row (codegen/target.h).
typedef struct {
  int64_t
      lanes;  // f32 lanes that fusion is decided by: the widest target's in all rows, so that kernels, and the order
              // of sums, are the same on all targets
  int64_t l1_bytes, l2_bytes, llc_bytes;  // of one worker; llc: its share of the last-level cache
  int64_t page_bytes, dtlb_entries;       // dtlb: pages that L1's translation buffer holds
  int64_t update_bytes;  // a gradient of so many is not stored if the epilogue of its product can hold its update (089)
} TargetFacts;
#define IR_TARGET_FACTS IR_TARGET_FACTS_WITH(128 << 10)
#define IR_TARGET_FACTS_WITH(least_update_bytes) \
  {.lanes = 16,                                  \
   .l1_bytes = 48 << 10,                         \
   .l2_bytes = 1 << 20,                          \
   .llc_bytes = 16 << 20,                        \
   .page_bytes = 4096,                           \
   .dtlb_entries = 64,                           \
   .update_bytes = least_update_bytes}
// As many f32 elements as so many bytes hold.
static inline int64_t ir_f32_in(int64_t bytes) { return bytes / (int64_t)sizeof(float); }

// Of what parts a size is made: DIM_MUL and those behind it have two. A difference is a sum with a negative factor.
typedef enum { DIM_CONST, DIM_SYM, DIM_MUL, DIM_ADD, DIM_DIV /* rounded down */, DIM_MAX, DIM_MIN } DimKind;
typedef struct {
  uint8_t kind;
  Str name;       // SYM
  int64_t value;  // CONST: the value; SYM: the bound
  int64_t fit;    // SYM: the bound of this plan of the function, at most `value` (ir/passes/specialize.c)
  Dim a, b;       // MUL and those behind it
  int32_t slot;   // SYM: index in TnFrame.dims; -1
  Loc loc;        // where the user computed it first; 0: unknown
} DimInfo;

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
  Dim *syms;  // named dims by slot
  uint32_t n_syms, cap_syms;
  int64_t param_bytes;
  int64_t const_bytes;
  WeightPack *packed_weights;
  uint32_t n_packed_weights, cap_packed_weights;
  uint32_t *pack_of_param;  // by parameter: 1 + its newest row; 0: none
  int64_t packed_bytes;
  bool packs_weights;  // products may read packed copies of parameters
  uint32_t next_id;    // random streams
  uint64_t n_visits;   // steps of searches through the program: tests hold that they grow as it does
  bool watches_nan;    // what kernels store is looked through for NaN; with guarded_arena
  bool guarded_arena;  // the arena is placed with guards and poisoned between kernels (runtime/exec/arena_guards.h)
  bool names_calls;    // built by calls: messages name values by them, not as text does
  bool copy_saved;     // a write that destroys what a backward needs copies it first (a warning) instead of being E112
  TargetFacts target;  // IR_TARGET_FACTS until the code generator sets its own
  uint64_t rules_off, rules_traced;  // by row of ir/passes/rules.def: not to be applied; each application is told
  void (*trace_rule)(const char *text);
  uint64_t n_rule_applications;  // of all rules so far
  uint64_t rule_limit;           // so many of them, and no more: finds the one that does something wrong; 0: any number
  struct Sharded *sharded;       // distributed functions that are cut
  uint32_t n_sharded, cap_sharded;
  bool keeps_remarks;
  // Private memory that the kernel of an instruction wants, in bytes by bounds; set by the code generator, NULL: none.
  int64_t (*scratch)(const Fn *f, Val v, const void *ctx);
  const void *scratch_ctx;
} Prog;

// ---- ir/intern.c: equal things have equal indices
Prog *ir_prog_new(RtArena *mem, const char *name);
Str ir_str(Prog *p, const char *s);
Str ir_strn(Prog *p, const char *s, size_t n);
// The same without a copy: n bytes of any value, below 2^32, and one that is 0, which outlive p.
Str ir_str_borrowed(Prog *p, const char *s, size_t n);
const char *ir_text(const Prog *p, Str s);
size_t ir_text_size(const Prog *p, Str s);
uint64_t ir_text_hash(const Prog *p, Str s);
uint32_t ir_text_count(const Prog *p);         // Str{0} to Str{count - 1} exist
uint32_t ir_new_streams(Prog *p, uint32_t n);  // the first of n random streams that nobody has; 0: so many are not left
Loc ir_loc(Prog *p, const char *file, uint32_t line);
Loc ir_loc_in(Prog *p, const char *file, uint32_t line, const char *module);  // module NULL or "": in none
// The same, of a public call; NULL: unknown
Loc ir_loc_of_call(Prog *p, const char *file, uint32_t line, const char *module, const char *call);
const char *ir_loc_file(const Prog *p, Loc l);  // NULL: unknown
uint32_t ir_loc_line(const Prog *p, Loc l);
const char *ir_loc_module(const Prog *p, Loc l);      // "": in none
const char *ir_loc_call(const Prog *p, Loc l);        // "tn_relu"; "": unknown
void ir_loc_text(const Prog *p, Loc l, RtText *out);  // "gpt2.c:34 in h.3.attn"; nothing where it is unknown
Dim ir_dim(Prog *p, int64_t value);
// A new slot; the same name again with the same bound: the same dim; else none
Dim ir_dim_sym(Prog *p, const char *name, int64_t bound);
Dim ir_dim_find(const Prog *p, const char *name);
// The same size where a plan holds it to a smaller bound, "time.16": one slot, one code, less memory. Of a named dim.
Dim ir_dim_within(Prog *p, Dim base, int64_t fit);
Dim ir_dim_mul(Prog *p, Dim a, Dim b);
Dim ir_dim_add(Prog *p, Dim a, Dim b);
Dim ir_dim_sub(Prog *p, Dim a, Dim b);
Dim ir_dim_div(Prog *p, Dim a, Dim b);       // rounded down, toward minus infinity; by a constant 0: none
Dim ir_dim_ceil_div(Prog *p, Dim a, Dim b);  // rounded up; b is positive
Dim ir_dim_max(Prog *p, Dim a, Dim b);       // one of them where the bounds of their parts say which
Dim ir_dim_min(Prog *p, Dim a, Dim b);
Dim ir_dim_exact_div(Prog *p, Dim a, Dim b);  // where b is a factor of a; else none
void ir_dim_computed_at(Prog *p, Dim d, Loc loc);
static inline bool ir_dim_has_parts(const DimInfo *d) { return d->kind >= DIM_MUL; }
const DimInfo *ir_dim_info(const Prog *p, Dim d);
bool ir_dim_is_const(const Prog *p, Dim d);
bool ir_dim_is_one(const Prog *p, Dim d);  // the constant 1
bool ir_dim_exists(const Prog *p, Dim d);
int64_t ir_dim_bound(const Prog *p, Dim d);  // largest value, at least 0; the value of a constant
int64_t ir_dim_most(const Prog *p, Dim d);   // the same as ir_dim_bound, but below 0 where the dim always is
int64_t ir_dim_least(const Prog *p,
                     Dim d);  // smallest value that bounds of its parts allow: below 0 of some differences
int64_t ir_dim_eval(const Prog *p, Dim d, const int64_t *slots);
Shape ir_shape(Prog *p, const Dim *dims, uint32_t n);
Shape ir_shape_ints(Prog *p, const int64_t *v, uint32_t n);
uint32_t ir_rank(const Prog *p, Shape s);
const Dim *ir_dims(const Prog *p, Shape s);  // valid until the next shape is interned
Dim ir_dim_at(const Prog *p, Shape s, uint32_t axis);
int64_t ir_list_at(const Prog *p, Shape s, uint32_t k);  // constant element
bool ir_shape_is_const(const Prog *p, Shape s);
int64_t ir_shape_bound(const Prog *p, Shape s);  // largest number of elements
int64_t ir_shape_eval(const Prog *p, Shape s, const int64_t *slots);
Dim ir_shape_numel(Prog *p, Shape s);
// Largest value in this plan: what memory is sized by; code goes by the bound
int64_t ir_dim_fit(const Prog *p, Dim d);
// Bytes by what fits; layouts: TN_LAYOUT_WORDS by bounds, since code finds the tables by them
int64_t ir_type_bytes(const Prog *p, DType t, Shape s);
// The largest size of each axis: "32 x 1024", with the names of dims "batch <= 32 x 1024"
void ir_shape_bounds_text(const Prog *p, Shape s, RtText *out);
void ir_shape_text(const Prog *p, Shape s, RtText *out);  // [batch,12]
void ir_dim_text(const Prog *p, Dim d, RtText *out);

// ---- ir/fn.c: functions, parameters, scopes; instructions as they are read
Fn *ir_fn_new(Prog *p, const char *name, Loc loc);
Fn *ir_fn_find(const Prog *p, const char *name);
uint32_t ir_param_add(Prog *p, const char *path, ParamKind kind, DType t, Shape s, bool trainable, Loc loc);
void ir_set_hyper(Prog *p, uint32_t param, uint8_t kind, uint32_t group);  // RtHyperKind: it may be set between runs
uint32_t ir_param_find(const Prog *p, const char *path);                   // by path or alias; UINT32_MAX: none
uint32_t ir_scope_open(Fn *f, uint32_t parent, const char *name, Loc loc);
Fn *ir_body_new(Prog *p, const char *name, Loc loc);  // of a scan, with a name of its own: name, name_2, ..
Fn *ir_body_find(const Prog *p, Str name);            // NULL: none
Val ir_result(Val head, uint32_t k);                  // result k
Val ir_head(const Fn *f, Val v);                 // the instruction that makes v: v itself, or the head of a `result`
const Attr *ir_attr(const Fn *f, Val v, Key k);  // NULL: absent
int64_t ir_attr_int(const Fn *f, Val v, Key k, int64_t absent);
double ir_attr_num(const Fn *f, Val v, Key k, double absent);
bool ir_is_const(const Fn *f, Val v, double *value);  // a `const`
bool ir_is_immediate(const Fn *f, Val v);             // a `const` or a size: a part of the code, in no memory
// Which sizes make a value large: "f32[batch,1024] of linear (batch <= 32 x 1024)"
const char *ir_size_text(const Fn *f, Val v);
static inline bool ir_none(Val v) { return v.i == 0; }
static inline Ins *ir_ins(const Fn *f, Val v) { return &f->ins[v.i]; }
static inline Val ir_arg(const Fn *f, Val v, uint32_t k) { return f->args[f->ins[v.i].args + k]; }

// ---- ir/build.c: appending instructions
// Appends an instruction whose type is inferred by its row's shape rule; a fault is one diagnostic at `loc` and gives
// Val 0.
// args: by position in the row, none where an optional one is absent.
Val ir_emit(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, Loc loc);
// Numbers of the program, as many as the constant shape s has, of f32 or i64 (ir/table.c).
Val ir_table(Fn *f, DType t, Shape s, const void *elements, Loc loc);
void ir_fill_table(const Fn *f, Val v, void *elements);  // the numbers of an OP_table
// The same for callers that report a fault in their own words: nothing is reported, fault->id is 0 when there is none.
typedef struct {
  uint16_t id;
  const char *why, *fits;   // fits: what would; NULL: the rule cannot say
  const char *operands[8];  // what the first operands are called
} EmitFault;
Val ir_try_emit(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, Loc loc,
                EmitFault *fault);
Val ir_emit_typed(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, DType t, Shape s,
                  Loc loc);  // leaves
// Operands by position in the row, none where absent: those of v, and new ones for it. Rows without a LIST.
enum { MAX_OPERANDS = 16 };
uint32_t ir_operands(const Fn *f, Val v, Val out[MAX_OPERANDS]);
void ir_set_operands(Fn *f, Val v, const Val *operands, uint32_t n);
Val ir_input(Fn *f, const char *name, DType t, Shape s, Loc loc);
Val ir_const(Fn *f, double v, Loc loc);  // f32 scalar
Val ir_param(Fn *f, uint32_t param, Loc loc);
Val ir_op1(Fn *f, Op op, Val a, Loc loc);
Val ir_op2(Fn *f, Op op, Val a, Val b, Loc loc);
Val ir_op3(Fn *f, Op op, Val a, Val b, Val c, Loc loc);
// {reader="READER FILE:LINE"}, the place of `of`: no rule drops it
Val ir_emit_copy(Fn *f, Val x, const char *reader, Loc of, Loc loc);
static inline Attr ir_a_int(Key k, int64_t v) { return (Attr){(uint8_t)k, {.i = v}}; }
static inline Attr ir_a_num(Key k, double v) { return (Attr){(uint8_t)k, {.f = v}}; }
static inline Attr ir_a_str(Key k, Str v) { return (Attr){(uint8_t)k, {.s = v}}; }
static inline Attr ir_a_list(Key k, Shape v) { return (Attr){(uint8_t)k, {.list = v}}; }
static inline Attr ir_a_dim(Key k, Dim v) { return (Attr){(uint8_t)k, {.dim = v}}; }

Val ir_operand(const Fn *f, Val v, ArgName name);           // none: absent, or its op has none of that name
uint32_t ir_operand_at(const Fn *f, Val v, ArgName name);   // its position among the operands; UINT32_MAX: not there
uint32_t ir_operand_flags(const Fn *f, Val v, uint32_t k);  // of the row's operand that stands at position k
uint32_t ir_operand_slot(const Fn *f, Val v, uint32_t k);   // its position in the row
static inline bool ir_has_operand(const Fn *f, Val v, ArgName name) { return !ir_none(ir_operand(f, v, name)); }
// ---- ir/ops.c: the table
typedef struct {
  uint8_t name;  // ArgName
  uint32_t flags;
} OperandInfo;
typedef struct {
  const char *name, *doc;
  const OperandInfo *operands;
  uint8_t n_operands;        // rows of `operands`; a REPEATED one counts once
  uint16_t n_min, n_max;     // operands of an instruction
  uint8_t n_res, cls, rows;  // rows: OpRows
  uint16_t flags;
  bool is_pointwise;  // a pointwise op: UNARY, BINARY, ..
} OpInfo;
extern const OpInfo ir_ops[N_OPS];
Op ir_op_find(const char *name);  // OP_none
// Before pass functionalize: scans write their carries.
static inline bool ir_op_writes_in_place(Op op) { return op == OP_write || ir_ops[op].cls == CLASS_SCAN; }
uint32_t ir_op_operand(Op op, ArgName name);  // its position in the row; UINT32_MAX: there is none of that name
extern const char *const ir_arg_name[N_ARG_NAMES];
extern const char *const ir_key_name[N_KEYS];
extern const uint8_t ir_key_kind[N_KEYS];
extern const char *const ir_dtype_name[N_DTYPES];
extern const uint8_t ir_dtype_bytes[N_DTYPES];
extern const uint8_t ir_dtype_kind[N_DTYPES];  // DTypeKind
typedef struct {
  const char *name, *doc;
  uint8_t kernel;  // OpClass of the kernel that an instruction of the class opens
  uint16_t flags;
} ClassInfo;
extern const ClassInfo ir_classes[N_CLASSES];
const char *ir_class_name(OpClass c);
static inline bool ir_class_has(uint32_t op, uint32_t flag) { return (ir_classes[ir_ops[op].cls].flags & flag) != 0; }

// ---- ir/expr.c: a pointwise row as a postfix program over primitives, made once per row
typedef enum { EX_ARG /* a b c */, EX_Y, EX_G, EX_NUM, EX_ATTR, EX_OP, EX_SAME } ExKind;
typedef struct {
  uint8_t kind;
  uint8_t arg;  // ARG: 0..2; ATTR: Key
  uint16_t op;  // OP: its operands are the top n of the stack
  double num;
} ExNode;
typedef struct {
  const ExNode *nodes;  // postfix; NULL: PRIM or NOGRAD
  uint32_t n;
} Expr;
Expr ir_forward(Op op);               // nodes == NULL: PRIM, a primitive by hand
Expr ir_gradient(Op op, uint32_t k);  // of operand k; nodes == NULL: none flows; the number 0: zeros

// ---- ir/shape/infer.c
// Sets dtype, shape, result records of the instruction at v; false: `why` says it
bool ir_infer(Fn *f, Val v, RtText *why);
uint16_t ir_infer_id(Fn *f, Val v, RtText *why);                 // the same, as the number of the diagnostic; 0: fine
uint16_t ir_infer_why(Fn *f, Val v, RtText *why, RtText *fits);  // fits: what would, where the rule can say so
// What operand k is called in sentences: its name in the row, "operand 1" in a list
const char *ir_operand_text(const Fn *f, Val v, uint32_t k);

// ---- ir/text/print.c, ir/text/parse.c, ir/verify.c
// PRINT_BY_NUMBER: bytes of tables stay in the program, the text has their numbers: for ir_parse_of and ir_text_of alone
enum { PRINT_LOCS = 1, PRINT_FACTS = 2, PRINT_BY_NUMBER = 4 };
void ir_print_ins(const Fn *f, Val v, RtText *out, uint32_t flags);  // one line
void ir_print(const Prog *p, RtText *out, uint32_t flags);
void ir_print_fn(const Fn *f, RtText *out, uint32_t flags);
void ir_print_type(const Fn *f, Val v, RtText *out);
void ir_type_text(const Prog *p, uint8_t dtype, Shape s, RtText *out);  // "f32[4,3]"
void ir_print_name(const Fn *f, Val v, RtText *out);                    // %x or %12
// ---- ir/text/value_text.c: a value as messages name it
const char *ir_value_text(const Fn *f, Val v);   // "%12 (add)"; of a program built by calls "tn_add (m.c:12)"
const char *ir_call_text(const Fn *f, Val v);    // "tn_call of module 'fc'"; of text, too
const char *ir_result_text(const Fn *f, Val v);  // "%12"; "the result of tn_add": where its place is told, too
// ir/keep_functions.c: leaves the functions of a comma-separated list and init, and the parameters that the listed ones use
void ir_keep_functions(Prog *p, const char *list, const Fn *init);
// NULL: see diags; caret lines in the text
Prog *ir_parse(RtArena *mem, const char *text, size_t n, const char *file, RtDiags *diags);
// The same of a text that was printed by number: bytes of tables are those of `of`, which outlives what is read
Prog *ir_parse_of(const Prog *of, RtArena *mem, const char *text, size_t n, const char *file, RtDiags *diags);
// Such a text with the bytes in the place of their numbers; or with hashes of them, which tell programs apart
void ir_text_of(const Prog *of, const char *text, bool by_hash, RtText *out);
bool ir_verify(const Fn *f, RtDiags *diags);  // structure, types, order; E2

// ---- ir/autodiff/grad_rules.c: what becomes of a gradient at an op
typedef enum {
  GRAD_NONE,  // none flows, by meaning
  GRAD_ZERO,  // it is 0 whatever comes in, as through floor: nothing is computed, and who is reached by no other way has zeros
  GRAD_RULE,    // a rule says it
  GRAD_MISSING  // one flows, but there is no rule: E125 where it is wanted
} GradFlow;
GradFlow ir_grad_kind(Op op);                           // of a row that is not pointwise
GradFlow ir_grad_flow(const Fn *f, Val v, uint32_t k);  // from v to its operand k
static inline bool ir_grad_flows(const Fn *f, Val v, uint32_t k) { return ir_grad_flow(f, v, k) > GRAD_ZERO; }
static inline bool ir_grad_reaches(const Fn *f, Val v, uint32_t k) { return ir_grad_flow(f, v, k) != GRAD_NONE; }

// ---- ir/storage.c: before pass functionalize, values that share storage
bool ir_is_alias(Op op);               // its result is a view of operand 0: a write to one is a write to the other
bool ir_is_whole(const Fn *f, Val v);  // a write to v replaces all of what it is a view of
Val ir_written_storage(const Fn *f, Val v);  // the value that v is a view of, or v
// ---- ir/autodiff/grad_reach.c
bool ir_is_cut(const Fn *f, Val v);  // no gradient passes from v to what it is a view of
// What a gradient of `loss`, as it is at the end of f, can flow to. Zero before the first use, then used again.
typedef struct {
  uint32_t least;  // values before this one need not be told
  bool no_zeros;   // leaves out what a gradient of 0 alone reaches
  bool *has;       // by value
  // With writes in place, by storage: its content at this point of the walk is wanted; what a step of a scan writes there
  // is wanted by the step after it
  bool *want, *round;
  Val *list;
  uint32_t n, cap, cap_has;
} GradReach;
void ir_grad_reach(const Fn *f, Val loss, GradReach *found);

// ---- passes (ir/passes/pipeline.c runs them)
typedef bool PassFn(Fn *f);  // false: errors were added to prog->diags
#define PASS(n, ...) PassFn ir_pass_##n;
#include "ir/passes/passes.def"
#define PASS(n, ...) PASS_##n,
typedef enum {
#include "ir/passes/passes.def"
  N_PASSES
} Pass;
enum { ON_FUNCTION = 1, ON_BODY = 2 };  // what a pass runs on
typedef struct {
  const char *name, *doc;
  PassFn *run;
  uint32_t needs, gives;
  uint8_t on;
} PassInfo;
extern const PassInfo ir_passes[];
extern const uint32_t ir_n_passes;
// Runs the comma-separated passes (NULL: all). `after` (may be NULL) is called after each. Verifies between passes, and
// checks the facts that each needs and gives.
bool ir_run_passes(Fn *f, const char *list, void (*after)(Fn *f, const PassInfo *p, void *ctx), void *ctx);
// ---- ir/passes/plan_program.c
// Of a distributed function, once its program is planned: fns[of] is what each shard computes.
typedef struct Sharded {
  const Fn *built;           // as it was, with the user's inputs and outputs
  uint32_t of, update, add;  // in Prog.fns
  uint32_t n;
  Dim batch, sums;  // sums: elements that `add` adds
} Sharded;
// Calls before the first pass of a function, and of what it is cut into, and after each pass; each may be NULL.
typedef struct {
  void (*before)(Fn *f, void *ctx);
  void (*after)(Fn *f, const PassInfo *pass, void *ctx);
  void *ctx;
} PlanWatch;
// All passes over all functions, and the memory of the program: what tn_compile does, and every command that shows a plan. The last
// n_variants functions are others for smaller bounds. Distributed functions are cut, which adds two functions for each; keeps_whole:
// they are not planned, and nothing is placed, since there is an error. False: diags say why.
bool ir_plan_program(Prog *p, uint32_t n_variants, bool keeps_whole, const PlanWatch *w);
const Sharded *ir_sharded(const Prog *p, uint32_t function);  // NULL: it is not

bool ir_run_body_passes(Fn *body);  // those that plan the body of a scan

// ---- ir/remarks.c: what a pass refused and the reason that it decided by. Values are those of the planned function: of
// passes from fuse on.
typedef enum {
  REMARK_FUSE,     // v opens a kernel of its own instead of joining that of `with`, the value before it
  REMARK_IN_PLACE  // the result v does not take over the slot of the operand `with`
} RemarkKind;
typedef struct Remark {
  RemarkKind kind;
  Val v, with;
  const char *why;
} Remark;
// Nothing where the program keeps no remarks: `why` is a sentence that lasts as long as the program, made only where it
// does (ir_remarks_are_kept).
void ir_remark(Fn *f, RemarkKind kind, Val v, Val with, const char *why);
static inline bool ir_remarks_are_kept(const Fn *f) { return f->prog->keeps_remarks; }

// ---- ir/passes/facts.c
uint32_t ir_find_facts(Fn *f, uint32_t wanted);  // those of `wanted` (HAS_*) that hold; f->facts remembers them
uint32_t ir_check_facts(Fn *f, uint32_t given);  // those of what a pass gave that do hold; f->facts takes them
const char *ir_fact_doc(Fact fact);

// ---- ir/passes/rules.c: rewrite rules by name
uint32_t ir_n_rules(void);
const char *ir_rule_name(uint32_t k);
typedef struct {
  const char *name, *pass, *before, *after, *doc;
} RuleRow;
RuleRow ir_rewrite_rule(uint32_t k);
// "a,b": these rules only; "-a,-b": all but these; NULL: all. False: the list names no rule, or mixes the two; adds a
// diagnostic.
bool ir_select_rules(Prog *p, const char *list);
// Every application of the rules that `list` names as rule:NAME (rule:all: of all) is told to `trace`, as text; other
// names are left alone. False: there is no such rule; adds a diagnostic.
bool ir_trace_rules(Prog *p, const char *list, void (*trace)(const char *text));
// Offsets in SEG_PARAM and SEG_CONST, for all functions; after their passes; checked
bool ir_plan_program_memory(Prog *p);
bool ir_check_segments(Prog *p);  // what ir_plan_program_memory did, found anew (ir/passes/verify_plan.c)
void ir_fill_const(const Prog *p, unsigned char *pool);  // the contents of SEG_CONST, const_bytes long
bool ir_is_stored_leaf(const Fn *f, Val v);              // input, param or table: has a buffer without a kernel
void ir_find_input_checks(Fn *f);                        // what the host checks: f->checks
// The operand of v whose numbers a run refuses unless they are in a range, and the range; false: v has none.
bool ir_index_range(const Fn *f, Val v, Val *source, InputCheck *c);
// Adds to f->size_checks; false: a size that only the run finds can be below 0
bool ir_find_size_checks(Fn *f);
const SizeCheck *ir_negative_size(const Fn *f, const int64_t *slots);  // the first that these sizes make so; NULL: none
bool ir_may_fault(const Fn *f, Val v);     // a run may find that v has a number out of range, which the host cannot see
bool ir_writes_param(const Fn *f, Val v);  // v changes what lasts over runs
// The neighbouring axes [from, to) of operand 0 that an integer reduction reduces: {axes}, {axis}, or the last.
typedef struct {
  uint32_t from, to;
} AxisRange;
AxisRange ir_reduced_axes(const Fn *f, Val v);
Val ir_view_base(const Fn *f, Val v);              // follows views to the value whose buffer they share
bool ir_is_product(const Fn *f, Val v);            // its kernel may have an epilogue
bool ir_takes_packed_readers(const Fn *f, Val v);  // packed rows: pointwise readers join their kernel
bool ir_same_attrs(const Fn *f, Val x, Val y);     // in the same order
bool ir_is_narrow_concat(const Fn *f, Val v);      // its operands' runs are shorter than a vector: a kernel of its own
// May v join the kernel: all its concats are cut in the same places, and nothing else stands against that?
bool ir_concat_fits(const Fn *f, const Kernel *k, Val v);
// ir/passes/fuse_update.c
Val ir_gradient_of(const Fn *f, Val update);                                 // none: v is no update, or one by rows
bool ir_joins_update(const Fn *f, const Kernel *k, uint32_t kernel, Val v);  // v runs behind the product of kernel k
Val ir_storage_root(const Fn *f, Val v);  // follows views and WRITES results to the first version of their buffer
void ir_changed(Fn *f, Val from);         // instructions from this one on were edited: what was known of f is dropped

// ---- ir/scan.c: a scan runs another function of the program, its body, once for each step of a sequence
//
//   operands: [layout] slices.. first values of carries.. captures..     body inputs:  slices, carries, captures
//   results:  stacked outputs.. last values of carries..                 body outputs: next carries, outputs
typedef struct {
  Fn *body;
  Val head;
  uint32_t n_slices, n_carries, n_captures, n_stacks;
  uint32_t first;  // operand of slice 0: 1 behind a layout, else 0
  bool reverse;
  Dim live;   // packed: the rows of a step, as the body names them; else none
  Dim steps;  // dense: the number of steps; else none
} Scan;
extern const char ir_layout_in_scan[];  // what is wrong where a body makes or reads a layout, in calls and in text
Scan ir_scan_at(const Fn *f, Val v);    // v: an instruction `scan` that the verifier knows
Val *ir_scan_inputs(const Scan *s);     // the body's `input` records by position; absent ones are 0
Val *ir_scan_outputs(const Scan *s);    // the body's `output` records by position
bool ir_scan_has_rows(const Scan *s, Shape inner);  // packed, and begins with the rows of the step
// What has that shape in each step can be stacked over all of them: of a packed scan ({live}; none: it is dense) no axis
// but the first is as long as the step has rows, since outside of the scan there is no such size.
bool ir_scan_stacks(const Prog *p, Shape inner, Dim live);
bool ir_scan_is_row(const Scan *s, uint32_t carry);          // packed: a row for each sequence; else one value for all
Val ir_scan_carry_input(const Scan *s, uint32_t carry);      // none: 0
int64_t ir_scan_carry_bytes(const Scan *s, uint32_t carry);  // of one of its two slots, rounded to TN_ALIGN
int64_t ir_scan_scratch(const Fn *f, Val v);                 // both slots of all carries, then the body's arena
// ---- ir/autodiff/grad_scan.c
// The gradients of a scan: adj by result (0: none) -> out by operand, as far as `wants` says. is_nested: there will be
// gradients of these. false: the forward could not keep its carries.
bool ir_scan_grad(Fn *f, Val v, const Val *adj, const bool *wants, Val *out, bool is_nested, Loc loc);
// ir/autodiff/grad.c: in f, the gradient of every value that `wants` marks (n_ins entries), when value of[k] has the gradient
// seed[k].
Val *ir_grad_values(Fn *f, const Val *of, const Val *seed, uint32_t n, const bool *wants);

// ---- ir/passes/split_shards.c
enum { IR_MOST_SHARDS = 4096 };
Val ir_find_shard_mean(const Fn *f);  // the first one; none: the function is not distributed

// ---- ir/passes/fuse_prologue.c
// By value: i64[2] that says which elements of a pointwise value are wanted, where not all are; NULL: of every value all
const Val *ir_find_wanted(const Fn *f);
// Op moments at the end of a kernel of products, of what the kernel makes; none.
Val ir_moments_of(const Fn *f, const Kernel *k);
uint32_t ir_end_of_elements(const Fn *f, const Kernel *k);  // its end, or those moments: what follows is by element
Val ir_anchor(const Fn *f, const Kernel *k);                // the instruction that says how the kernel is emitted
const uint32_t *
ir_find_fused_producers(const Fn *f);  // by value: the product in whose kernel its operand v is made; 0: none
bool ir_is_cheap_op(Op op);            // cheap to rematerialise: takes no longer than a load
Val ir_masked_of(const Fn *f, Val v);  // what a mask compares with a number; none: v is no mask

// ---- ir/passes/arena_guards.c
int64_t ir_guard_before(const Fn *f, uint32_t buf);  // bytes around the slot of a root buffer
int64_t ir_guard_behind(const Fn *f, uint32_t buf);
// Of a placed function; NULL: the program is not guarded
const RtGuardedArena *ir_guarded_arena(const Fn *f, RtArena *mem);

// ---- ir/passes/assign_buffers.c
// An output without code: its operand was computed into the caller's memory
bool ir_is_output_alias(const Fn *f, Val v);

// ---- ir/passes/row_fusion.c: what can be computed a row at a time
typedef struct {
  Shape shape;
  uint32_t axis;  // along which a row runs
} RowSpace;
bool ir_row_space(const Fn *f, Val v, RowSpace *out);  // v works on rows of operand 0
bool ir_same_rows(RowSpace a, RowSpace b);
bool ir_column_sum(const Fn *f, Val v, Shape *out);                // and is the sum of all of them; *out: of operand 0
bool ir_row_member(const Fn *f, Val v, RowSpace rows);             // v makes elements or row scalars of these rows
bool ir_row_element(const Fn *f, Val v, uint32_t k);               // v, which works on rows, reads operand k by element
bool ir_row_reads(const Fn *f, Val v, uint32_t k, RowSpace rows);  // operand k, made a row at a time, is read so
// Rows that lie side by side: elements behind the axis, by bounds
int64_t ir_row_side_by_side(const Prog *p, RowSpace rows);
// They run along another axis than the last, better not interleaved
bool ir_row_is_strided(const Prog *p, RowSpace rows);
bool ir_row_fits(const Prog *p, RowSpace rows);  // such rows are worth a kernel of several instructions

// ---- ir/packed_dims.c: packed layouts set the sizes of rows dims
enum { IR_MAX_MAKERS = 256 * 8 };                      // as many names as a shape has
bool ir_dim_found_by_run(const Fn *f, Dim d);          // by a packed layout, or a step of a scan over one
bool ir_shape_names(const Prog *p, Shape s, Dim sym);  // a size of s is `sym`, or is made of it
bool ir_layout_is_const(const Fn *f, Val v);  // a layout whose table is known now: it lies in the constant pool
const Val *ir_rows_makers(const Fn *f);       // by slot of a dim: the layout that sets it; NULL: there is none
// Layouts before v that set sizes it names: their number
uint32_t ir_sizes_from(const Fn *f, const Val *maker, Val v, Val *out);

// ---- ir/passes/specialize.c: a function as built once more, planned for smaller bounds of named dims
typedef struct {
  Dim dim;
  int64_t fit;
} DimFit;
// The function NAME.time16.. in the same program. Dims of the function that are not named keep their bounds; rows of
// layouts take the bound that follows. Both are compiled to one set of kernels.
Fn *ir_fn_copy(const Fn *f, const char *name);  // before passes
Fn *ir_fn_specialize(const Fn *f, const DimFit *fits, uint32_t n);

// ---- ir/interp/interp.c: the oracle, in doubles, or pointwise ops in single precision
typedef struct {
  double *v;  // elements in row-major order; layouts: TN_LAYOUT_WORDS words
  int64_t n;
  double *low;  // of i64: what doubles cannot hold, each element is v + low; NULL: zeros
} Tensor;
typedef struct {
  int64_t *slots;    // run-time value of every dim by slot; rows of layouts are filled in
  Tensor *params;    // by parameter index; updated by WRITES ops
  const Tensor *in;  // by input index
  Tensor *out;       // by output index; v allocated by the interpreter from `mem`
  uint64_t seed, counter;
  int64_t step;  // of the scan whose body runs: its random streams are {id} + step
  RtArena *mem;
  // Error bars: when noise > 0 every rounded result is off by a random relative error up to it, sums and products by as
  // much of their terms, and results are kept in single precision's range. What single precision holds exactly, as a
  // product of masks, is not rounded, and 0 stays 0. How far results move says how exact they can be.
  double noise;
  uint64_t noise_state;
  bool
      single;  // every result is rounded to single precision: of pointwise ops each primitive, of others what they give
} InterpEnv;
bool ir_interpret(const Fn *f, InterpEnv *env, RtText *why);
double ir_primitive(Op op, double a, double b, double c);  // a primitive in doubles
// A PRIM word whose result in single precision is that of its operands, rounded to nearest: the same bits everywhere
// (but for what max and min leave open: the sign of a zero).
bool ir_is_rounded_once(Op op);
bool ir_is_exact(Op op);                 // .. and not rounded at all
int64_t ir_to_i64(double x);             // what a cast makes of a number: cut toward zero, saturated, 0 for NaN
int64_t ir_to_whole(DType t, double x);  // the same, as an element of a whole-number dtype or bool
int64_t ir_modulo(DType t, int64_t x);   // x modulo 2^bits of such a dtype; of bool whether it is not 0
float ir_philox_uniform(uint64_t seed, uint64_t counter, uint32_t id, uint64_t element);
double ir_philox_normal(uint64_t seed, uint64_t counter, uint32_t id, uint64_t element);

#endif
