// What shape rules are built of: faults, in words and with what would fit; broadcasting; a shape with another size.
#include "ir/shape/infer.h"
#include "ir/shape/shape.h"

#include <string.h>

// "operands are f32[2,3] and f32[4]"
static void tell_types(const Infer *c) {
  uint32_t n = n_args(c);
  if (n == 0) return;
  rt_text_add(c->why, n == 1 ? "; the operand is " : "; operands are ");
  for (uint32_t k = 0; k < n && k < 8; k++) {
    rt_text_add(c->why, k == 0 ? "%s" : k + 1 == n ? " and %s" : ", %s", ir_dtype_name[dtype_of(c, k)]);
    ir_shape_text(c->p, shape_of(c, k), c->why);
  }
}

uint16_t ir_infer_fault(const Infer *c, uint16_t id, const char *text) {
  rt_text_add(c->why, "%s", text);
  tell_types(c);
  return id;
}

// "f32 or i64"
void ir_infer_tell_dtypes(const Infer *c, uint32_t accepts) {
  const char *between = "";
  for (uint32_t t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!(accepts >> t & 1)) continue;
    rt_text_add(c->why, "%s%s", between, ir_dtype_name[t]);
    between = " or ";
  }
}

const char *ir_operand_text(const Fn *f, Val v, uint32_t k) {
  const OpInfo *row = &ir_ops[ir_ins(f, v)->op];
  uint32_t slot = ir_operand_slot(f, v, k);
  bool named = slot < row->n_operands && !(row->operands[slot].flags & REPEATED);
  return named ? ir_arg_name[row->operands[slot].name] : rt_printf(f->prog->mem, "operand %u", k);
}

static const char *name_of(const Infer *c, uint32_t k) { return ir_operand_text(c->f, c->v, k); }

static void hint_cast(const Infer *c, uint32_t k, uint32_t accepts) {
  bool to_i64 = accepts & I64 && (!(accepts & F32) || ir_dtype_kind[dtype_of(c, k)] == DTYPE_INT);
  if (!(accepts & (F32 | I64))) return;
  rt_text_add(c->fits, "tn_cast(%s, TN_%s) makes it %s", name_of(c, k), to_i64 ? "I64" : "F32",
              ir_dtype_name[to_i64 ? DT_I64 : DT_F32]);
}

uint16_t ir_infer_wants_dtypes(const Infer *c, uint32_t k, uint32_t accepts) {
  rt_text_add(c->why, "%s must be ", name_of(c, k));
  ir_infer_tell_dtypes(c, accepts);
  if (dtype_of(c, k) != DT_LAYOUT) hint_cast(c, k, accepts);
  return ir_infer_fault(c, E_DTYPE, "");
}

uint16_t ir_infer_dtype(const Infer *c, uint32_t k, DType t) {
  return dtype_of(c, k) == t ? 0 : ir_infer_wants_dtypes(c, k, 1u << t);
}

uint16_t ir_infer_rank(const Infer *c, uint32_t k, uint32_t least, uint32_t most) {
  uint32_t r = rank_of(c, k);
  if (r >= least && r <= most) return 0;
  rt_text_add(c->why, "%s must have rank %u", name_of(c, k), least);
  rt_text_add(c->fits, "tn_reshape gives it other axes; it has %u", r);
  if (most != least) rt_text_add(c->why, most >= MAX_RANK ? " or more" : " to %u", most);
  return ir_infer_fault(c, E_SHAPE, "");
}

uint16_t ir_infer_differ(const Infer *c, const char *what) {
  rt_text_add(c->fits, "tn_cast brings them to one dtype");
  return ir_infer_fault(c, E_DTYPE, what);
}

bool ir_infer_broadcast(const Infer *c, Shape a, Shape b, Shape *out) {
  uint32_t ra = ir_rank(c->p, a), rb = ir_rank(c->p, b), r = ra > rb ? ra : rb;
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < r; k++) {
    bool in_a = k + ra >= r, in_b = k + rb >= r;
    Dim x = in_a ? ir_dim_at(c->p, a, k + ra - r) : (Dim){0}, y = in_b ? ir_dim_at(c->p, b, k + rb - r) : (Dim){0};
    if (!in_a || (in_b && x.i != y.i && ir_dim_is_one(c->p, x))) d[k] = y;
    else if (!in_b || x.i == y.i || ir_dim_is_one(c->p, y)) d[k] = x;
    else return false;
  }
  *out = ir_shape(c->p, d, r);
  return true;
}

void ir_infer_would_fit(const Infer *c, const char *name, Shape s) {
  bool first = !c->fits->len;
  rt_text_add(c->fits, "%s%s of shape ", first ? "" : ", or ", name);
  ir_shape_text(c->p, s, c->fits);
  rt_text_add(c->fits, "%s", first ? " would fit" : "");
}

uint16_t ir_infer_axis(const Infer *c, uint32_t *axis) {
  int64_t a = ir_attr_int(c->f, c->v, KEY_axis, -1);
  if (a < 0 || a >= rank_of(c, 0)) return ir_infer_fault(c, E_ARGUMENT, "{axis} is out of range");
  *axis = (uint32_t)a;
  return 0;
}

// The operand's own type.
uint16_t ir_rule_same(const Infer *c) {
  set(c, 0, dtype_of(c, 0), shape_of(c, 0));
  return 0;
}

Shape ir_infer_with_dim(const Infer *c, Shape s, uint32_t axis, Dim d) {
  Dim dims[MAX_RANK];
  uint32_t r = ir_rank(c->p, s);
  for (uint32_t k = 0; k < r; k++) dims[k] = k == axis ? d : ir_dim_at(c->p, s, k);
  return ir_shape(c->p, dims, r);
}
