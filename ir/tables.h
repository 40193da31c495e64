// The tables as C sees them: ops, classes of kernels, dtypes, operands, attributes, diagnostics, by number; and their rows.
#ifndef TN_IR_TABLES_H
#define TN_IR_TABLES_H

#include "runtime/base.h"

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
enum { MAX_SCAN_DEPTH = 8 };  // of scans in scans
enum { MAX_SCAN_SIDE = 8 };   // rows of the matrices of a linear scan

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
typedef enum {
  ROWS_EACH,
  ROWS_FIRST,
  ROWS_SECOND,
  ROWS_PRODUCT,
  ROWS_LINEAR,
  ROWS_NORM,
  ROWS_NOT_LAST,
  ROWS_MATRICES,
  ROWS_BATCH,
  ROWS_IMAGES,
  ROWS_TABLE,
  ROWS_BAGS,
  ROWS_BY_AXIS,
  ROWS_TOTAL,
  ROWS_PICK,
  ROWS_ALONG,
  ROWS_SAID
} OpRows;
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
  COMBINES = 2048,
  NOT_ROUNDED = 4096,
  ROUNDED_ONCE = 8192,
  CHEAP_AS_LOAD = 1 << 14,
  ALIAS = 1 << 15,
  SKIPS = 1 << 16,
  BY_ROWS = 1 << 17
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
  ROW_SCALAR = OPTIONAL << 6,
  IN_ROWS = OPTIONAL << 7,
  IN_AXIS = OPTIONAL << 8,
  IN_LAST = OPTIONAL << 9
};
// All numbers; numbers of 32-bit words, as rows of packed sequences are moved; everything.
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
// Floats that kernels compute with; shorter ones are stored.
#define DTYPE(id, name, bytes, kind, doc) | (DTYPE_##kind == DTYPE_FLOAT && bytes >= 4 ? 1 << DT_##id : 0)
enum {
  REAL = 0
#include "ir/dtypes.def"
};
// Dtypes that gradients flow through; integers; of them those with a sign; integers and bool.
enum { FLOATS = F32 | F16 | BF16, WHOLE = I64 | I32 | U8, SIGNED = I64 | I32, COUNTABLE = WHOLE | BOOL };
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

// ---- ops.c: rows
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
  uint32_t flags;
  bool is_pointwise;  // a pointwise op: UNARY, BINARY, ..
} OpInfo;
extern const OpInfo ir_ops[N_OPS];
Op ir_op_find(const char *name);  // OP_none
// Writes in place before pass functionalize: scans write their carries.
static inline bool ir_op_writes_in_place(Op op) { return op == OP_write || ir_ops[op].cls == CLASS_SCAN; }
uint32_t ir_op_operand(Op op, ArgName name);  // position in the row; UINT32_MAX: the op has no operand of that name
extern const char *const ir_arg_name[N_ARG_NAMES];
extern const char *const ir_key_name[N_KEYS];
extern const uint8_t ir_key_kind[N_KEYS];
extern const char *const ir_dtype_name[N_DTYPES];
extern const uint8_t ir_dtype_bytes[N_DTYPES];
extern const uint8_t ir_dtype_kind[N_DTYPES];  // DTypeKind
typedef struct {
  const char *name, *doc;
  uint8_t kernel;  // OpClass of the kernel that such an instruction opens
  uint16_t flags;
} ClassInfo;
extern const ClassInfo ir_classes[N_CLASSES];
const char *ir_class_name(OpClass c);
static inline bool ir_class_has(uint32_t op, uint32_t flag) { return (ir_classes[ir_ops[op].cls].flags & flag) != 0; }

#endif
