// Pass compose_maps: slices and pads by constants, one of the other, become one op `crop`: what is between is not
// stored.
//
//   %a = slice %x {axis=0, start=3, count=58}
//   %y = slice %a {axis=1, start=3, count=58}     ->     %y = crop %x {starts=[3,3], steps=[1,1], ..}
//
// Only where nobody else reads %a: it would be stored in any case then.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/slice.h"
#include "ir/storage.h"

typedef struct {
  CropAxis axis[MAX_RANK];
  uint32_t rank;
} Map;

static Dim size_of(const Fn *f, Val v, uint32_t axis) { return ir_dim_at(f->prog, ir_ins(f, v)->shape, axis); }

static void keep_all(const Fn *f, Val v, Map *m) {
  Val x = ir_arg(f, v, 0);
  m->rank = ir_rank(f->prog, ir_ins(f, v)->shape);
  for (uint32_t k = 0; k < m->rank; k++) {
    Dim size = size_of(f, x, k);
    m->axis[k] = (CropAxis){.step = 1, .count = size, .size = size};
  }
}

static bool map_of_slice(const Fn *f, Val v, Map *m) {
  Prog *p = f->prog;
  Slice s;
  ir_slice(f, v, &s);
  bool is_const = ir_none(s.at) && ir_dim_is_const(p, s.start) && ir_dim_is_const(p, s.size) &&
                  ir_dim_is_const(p, s.count) && ir_dim_is_const(p, s.step);
  if (!is_const || s.reverse || ir_dim_info(p, s.start)->value < 0) return false;
  m->axis[s.axis] = (CropAxis){ir_dim_info(p, s.start)->value, ir_dim_info(p, s.step)->value, 0, s.count, s.count};
  return true;
}

static void map_of_pad(const Fn *f, Val v, Map *m) {
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  m->axis[axis].before = ir_attr_size(f, v, KEY_start, 0), m->axis[axis].size = size_of(f, v, axis);
}

// What v reads of its operand; false: it is no part by constants.
static bool map_of(const Fn *f, Val v, Map *m) {
  Op op = (Op)ir_ins(f, v)->op;
  if ((op != OP_slice && op != OP_pad_axis && op != OP_crop) || ir_attr(f, v, KEY_reader)) return false;
  keep_all(f, v, m);
  if (op == OP_slice) return map_of_slice(f, v, m);
  if (op == OP_pad_axis) map_of_pad(f, v, m);
  for (uint32_t k = 0; k < m->rank && op == OP_crop; k++) m->axis[k] = ir_crop_axis(f, v, k);
  return true;
}

static int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }
static int64_t number(const Fn *f, Dim d) { return ir_dim_info(f->prog, d)->value; }

// outer reads an axis that inner made of one of size `of`. Those of its elements that are no zeros of inner lie side
// by side: [lo, hi) of them.
static CropAxis compose(const Fn *f, const CropAxis *inner, Dim of, const CropAxis *outer) {
  if (ir_crop_keeps(outer, inner->size)) return *inner;
  if (ir_crop_keeps(inner, of)) return *outer;
  int64_t ahead = inner->before - outer->start, count = number(f, outer->count);
  int64_t lo = ahead > 0 ? ceil_div(ahead, outer->step) : 0,
          hi = ceil_div(ahead + number(f, inner->count), outer->step);
  if (hi > count) hi = count;
  if (lo >= hi) return (CropAxis){.step = 1, .count = ir_dim(f->prog, 0), .size = outer->size};  // zeros alone
  return (CropAxis){.start = inner->start + (outer->start + lo * outer->step - inner->before) * inner->step,
                    .step = inner->step * outer->step,
                    .before = outer->before + lo,
                    .count = ir_dim(f->prog, hi - lo),
                    .size = outer->size};
}

static bool compose_all(const Fn *f, Val v, Val inner, Map *m) {
  Map a, b;
  Val x = ir_arg(f, inner, 0);
  if (!map_of(f, inner, &a) || !map_of(f, v, &b) || a.rank != b.rank) return false;
  m->rank = a.rank;
  for (uint32_t k = 0; k < a.rank; k++) m->axis[k] = compose(f, &a.axis[k], size_of(f, x, k), &b.axis[k]);
  return true;
}

// Is it read as parts alone?
static bool is_read_in_parts(const Fn *f, Val inner) {
  for (uint32_t i = inner.i + 1; i < f->n_ins; i++)
    for (uint32_t k = 0; f->ins[i].op != OP_result && k < f->ins[i].n_args; k++) {
      Map m;
      if (ir_arg(f, (Val){i}, k).i == inner.i && !compose_all(f, (Val){i}, inner, &m)) return false;
    }
  return true;
}

// The same, asked for each part in turn: a part that becomes one of what inner reads leaves the others as they are.
static bool is_in_parts(Rules *r, Val inner) {
  if (r->asked == inner.i && r->holds_at == r->n_applied) return r->in_parts;
  r->asked = inner.i, r->holds_at = r->n_applied;
  return r->in_parts = is_read_in_parts(r->f, inner);
}

// What inner reads is written before v.
static bool is_overwritten(const Fn *f, Val inner, Val v) {
  Val root = ir_storage_root(f, ir_arg(f, inner, 0));
  for (uint32_t i = inner.i + 1; i < v.i; i++) {
    const OpInfo *op = &ir_ops[f->ins[i].op];
    for (uint32_t k = 0; (op->flags & WRITES) && k < op->n_res; k++)
      if (ir_storage_root(f, ir_arg(f, (Val){i}, k)).i == root.i) return true;
  }
  return false;
}

static void become(Fn *f, Val v, Val x, const Map *m) {
  static const Key dropped[] = {KEY_axis, KEY_start, KEY_size, KEY_count, KEY_step, KEY_pitch};
  Prog *p = f->prog;
  int64_t starts[MAX_RANK], steps[MAX_RANK], before[MAX_RANK], behind[MAX_RANK];
  for (uint32_t k = 0; k < m->rank; k++) {
    const CropAxis *a = &m->axis[k];
    starts[k] = a->start, steps[k] = a->step, before[k] = a->before;
    behind[k] = a->count.i == a->size.i ? 0 : number(f, a->size) - a->before - number(f, a->count);
  }
  ir_set_op(f, v, OP_crop);
  ir_set_args(f, v, &x, 1);
  for (uint32_t k = 0; k < sizeof dropped / sizeof *dropped; k++) ir_unset_attr(f, v, dropped[k]);
  ir_set_attr(f, v, ir_a_list(KEY_starts, ir_shape_ints(p, starts, m->rank)));
  ir_set_attr(f, v, ir_a_list(KEY_steps, ir_shape_ints(p, steps, m->rank)));
  ir_set_attr(f, v, ir_a_list(KEY_before, ir_shape_ints(p, before, m->rank)));
  ir_set_attr(f, v, ir_a_list(KEY_behind, ir_shape_ints(p, behind, m->rank)));
  ir_set_attr(f, v, ir_a_list(KEY_shape, ir_ins(f, v)->shape));
}

Val rule_crop_of_crop(Rules *r, Val v) {
  Fn *f = r->f;
  Val inner = ir_arg(f, v, 0);
  Map m;
  if (!compose_all(f, v, inner, &m) || !is_in_parts(r, inner) || is_overwritten(f, inner, v)) return (Val){0};
  Val x = ir_arg(f, inner, 0);
  if (ir_is_immediate(f, ir_view_base(f, x))) return (Val){0};
  become(f, v, x, &m);
  r->holds_at = r->n_applied + 1;
  return v;
}

bool ir_pass_compose_maps(Fn *f) {
  ir_apply_rules_in_place(f, PASS_compose_maps);
  return true;
}
