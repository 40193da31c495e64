// What shape rules are made of (faults.c): the instruction, its operands,
// setting types, faults.
#ifndef TN_IR_SHAPE_INFER_H
#define TN_IR_SHAPE_INFER_H
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/ops.h"

typedef struct {
  Fn *f;
  Prog *p;
  Val v;
  RtText *why, *fits;  // fits: what would, for the caller's hint
} Infer;

static inline Shape shape_of(const Infer *c, uint32_t k) { return ir_ins(c->f, ir_arg(c->f, c->v, k))->shape; }
static inline DType dtype_of(const Infer *c, uint32_t k) { return ir_ins(c->f, ir_arg(c->f, c->v, k))->dtype; }
static inline uint32_t rank_of(const Infer *c, uint32_t k) { return ir_rank(c->p, shape_of(c, k)); }
static inline Dim dim_of(const Infer *c, uint32_t k, uint32_t axis) { return ir_dim_at(c->p, shape_of(c, k), axis); }
static inline Shape shape_named(const Infer *c, ArgName name) {
  return ir_ins(c->f, ir_operand(c->f, c->v, name))->shape;
}
static inline Dim dim_named(const Infer *c, ArgName name, uint32_t axis) {
  return ir_dim_at(c->p, shape_named(c, name), axis);
}
static inline uint32_t n_args(const Infer *c) { return ir_ins(c->f, c->v)->n_args; }

static inline void set(const Infer *c, uint32_t k, DType t, Shape s) {
  Ins *ins = ir_ins(c->f, ir_result(c->v, k));
  ins->dtype = (uint8_t)t;
  ins->shape = s;
}

// ---- attributes (infer_attrs.c, from op_attrs.def)
typedef enum { ATTR_UNKNOWN, ATTR_OPTIONAL, ATTR_REQUIRED } AttrPresence;
typedef enum {
  RANGE_BY_RULE,
  RANGE_PRESENT,
  RANGE_ANY_NUMBER,
  RANGE_FINITE,
  RANGE_NOT_NEGATIVE,
  RANGE_PROBABILITY,
  RANGE_BELOW_ONE,
  RANGE_COUNT,
  RANGE_STREAM,
  N_ATTR_RANGES
} AttrRange;
typedef struct {
  uint8_t presence, range;
} AttrRule;
AttrRule ir_attr_rule(Op op, Key key);
uint16_t ir_infer_attrs(const Infer *c);  // 0, or the fault

// Adds `text` and the operands' types to `why`; gives `id`.
uint16_t ir_infer_fault(const Infer *c, uint16_t id, const char *text);
static inline uint16_t bad_shape(const Infer *c, const char *text) { return ir_infer_fault(c, E_SHAPE, text); }

// 0, or the fault
uint16_t ir_infer_dtype(const Infer *c, uint32_t k, DType t);
uint16_t ir_infer_rows_of_update(const Infer *c);
uint16_t ir_infer_rank(const Infer *c, uint32_t k, uint32_t least, uint32_t most);
uint16_t ir_infer_axis(const Infer *c, uint32_t *axis);                        // {axis}, of operand 0
uint16_t ir_infer_wants_dtypes(const Infer *c, uint32_t k, uint32_t accepts);  // the fault: operand k has none of these
void ir_infer_tell_dtypes(const Infer *c, uint32_t accepts);                   // to `why`: "f32 or i64"
// The fault of operands with different dtypes, where one dtype is required
uint16_t ir_infer_differ(const Infer *c, const char *what);
// NumPy broadcasting of two shapes; false when they do not fit
bool ir_infer_broadcast(const Infer *c, Shape a, Shape b, Shape *out);
// To the hint "x of shape [batch,12] would fit", and for another one ", or .."
void ir_infer_would_fit(const Infer *c, const char *name, Shape s);
// s with `d` as its size along `axis`
Shape ir_infer_with_dim(const Infer *c, Shape s, uint32_t axis, Dim d);

#define TRY(x)           \
  do {                   \
    uint16_t id_ = (x);  \
    if (id_) return id_; \
  } while (0)

// One rule for each word in the shape column
uint16_t ir_rule_broadcast(const Infer *c);  // of pointwise rows
#define OP(n, operands, res, rule, ...) uint16_t ir_rule_##rule(const Infer *c);
#include "ir/ops.def"

#endif
