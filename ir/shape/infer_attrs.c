// Attributes of an instruction against the rows of op_attrs.def: those that it must have, those that it may have, and
// the range of each. What depends on operands is left to the op's shape rule.
//
//   %y = dropout %x {p=1.5, id=0}      {p} must lie in [0, 1), found 1.5
//   %y = softmax %x {slope=0.1}        does not take {slope}: it takes {axis}
//   %y = leaky_relu %x                 needs {slope}
#include "ir/shape/infer.h"

#include <math.h>

#define TAKES(op, key, presence, range) [OP_##op][KEY_##key] = {ATTR_##presence, RANGE_##range},
static const AttrRule rules[N_OPS][N_KEYS] = {
#include "ir/op_attrs.def"
};

// {no_grad} marks every value of a region without gradients.
static bool may_be_untracked(Op op) {
  return ir_ops[op].cls != CLASS_LEAF && ir_ops[op].cls != CLASS_MARK && op != OP_output;
}

AttrRule ir_attr_rule(Op op, Key key) {
  if (key == KEY_no_grad && may_be_untracked(op)) return (AttrRule){ATTR_OPTIONAL, RANGE_PRESENT};
  return rules[op][key];
}

static bool is_in_range(const Attr *a, AttrRange range) {
  switch (range) {
  case RANGE_FINITE: return isfinite(a->u.f);
  case RANGE_NOT_NEGATIVE: return isfinite(a->u.f) && a->u.f >= 0;
  case RANGE_PROBABILITY: return a->u.f >= 0 && a->u.f <= 1;
  case RANGE_BELOW_ONE: return a->u.f >= 0 && a->u.f < 1;
  case RANGE_COUNT: return a->u.i >= 0;
  case RANGE_STREAM: return a->u.i >= 0 && a->u.i <= INT32_MAX;
  case RANGE_PRESENT: return a->u.i == 1;
  case RANGE_ANY_NUMBER:
  case RANGE_BY_RULE:
  case N_ATTR_RANGES: break;
  }
  return true;
}

static const char *const range_text[N_ATTR_RANGES] = {
    [RANGE_FINITE] = "must be finite",          [RANGE_NOT_NEGATIVE] = "must be finite and 0 or more",
    [RANGE_PROBABILITY] = "must lie in [0, 1]", [RANGE_BELOW_ONE] = "must lie in [0, 1)",
    [RANGE_COUNT] = "must be 0 or more",        [RANGE_STREAM] = "must lie in [0, 2147483648)",
    [RANGE_PRESENT] = "is a flag of value 1",
};

static uint16_t out_of_range(const Infer *c, const Attr *a, AttrRange range) {
  rt_text_add(c->why, "{%s} %s, found ", ir_key_name[a->key], range_text[range]);
  if (ir_key_kind[a->key] == KIND_NUM) rt_text_add(c->why, "%g", a->u.f);
  else rt_text_add(c->why, "%lld", (long long)a->u.i);
  return E_ARGUMENT;
}

static uint16_t not_taken(const Infer *c, Op op, uint8_t key) {
  const char *between = ": it takes {";
  rt_text_add(c->why, "does not take {%s}", ir_key_name[key]);
  for (uint32_t k = 0; k < N_KEYS; k++)
    if (rules[op][k].presence != ATTR_UNKNOWN) rt_text_add(c->why, "%s%s", between, ir_key_name[k]), between = ", ";
  rt_text_add(c->why, *between == ',' ? "}" : ", nor any other");
  return E_ARGUMENT;
}

uint16_t ir_infer_attrs(const Infer *c) {
  const Ins *ins = ir_ins(c->f, c->v);
  for (uint32_t k = 0; k < ins->n_attrs; k++) {
    const Attr *a = &c->f->attrs[ins->attrs + k];
    AttrRule rule = ir_attr_rule((Op)ins->op, (Key)a->key);
    if (rule.presence == ATTR_UNKNOWN) return not_taken(c, (Op)ins->op, a->key);
    if (!is_in_range(a, (AttrRange)rule.range)) return out_of_range(c, a, (AttrRange)rule.range);
  }
  for (uint32_t key = 0; key < N_KEYS; key++) {
    if (rules[ins->op][key].presence != ATTR_REQUIRED || ir_attr(c->f, c->v, (Key)key)) continue;
    rt_text_add(c->why, "needs {%s}", ir_key_name[key]);
    return E_ARGUMENT;
  }
  return 0;
}
