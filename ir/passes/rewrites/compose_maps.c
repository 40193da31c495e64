// Pass compose_maps: slices, flips and pads by constants, and permutations, one of the other, become one op `crop`: what is
// between is not stored.
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

static int64_t number(const Fn *f, Dim d) { return ir_dim_info(f->prog, d)->value; }
static Dim size_of(const Fn *f, Val v, uint32_t axis) { return ir_dim_at(f->prog, ir_ins(f, v)->shape, axis); }

static void keep_all(const Fn *f, Val v, Map *m) {
  Val x = ir_arg(f, v, 0);
  m->rank = ir_rank(f->prog, ir_ins(f, v)->shape);
  for (uint32_t k = 0; k < m->rank; k++) {
    Dim size = size_of(f, x, k);
    m->axis[k] = (CropAxis){.step = 1, .from = k, .count = size, .size = size};
  }
}

static bool map_of_slice(const Fn *f, Val v, Map *m) {
  Prog *p = f->prog;
  Slice s;
  ir_slice(f, v, &s);
  bool is_const = ir_none(s.at) && ir_dim_is_const(p, s.start) && ir_dim_is_const(p, s.size) &&
                  ir_dim_is_const(p, s.count) && ir_dim_is_const(p, s.step);
  if (!is_const || number(f, s.start) < 0) return false;
  int64_t start = number(f, s.start), step = number(f, s.step);
  if (s.reverse) start = number(f, s.size) - 1 - start, step = -step;
  m->axis[s.axis] = (CropAxis){.start = start, .step = step, .from = s.axis, .count = s.count, .size = s.count};
  return start >= 0;
}

static void map_of_pad(const Fn *f, Val v, Map *m) {
  uint32_t axis = (uint32_t)ir_attr_int(f, v, KEY_axis, 0);
  m->axis[axis].before = ir_attr_size(f, v, KEY_start, 0), m->axis[axis].size = size_of(f, v, axis);
}

// Products and rows read permutations where they lie, or are stored so; a part would be stored for them.
static bool is_read_by_element(const Fn *f, Val v) {
  for (uint32_t i = v.i + 1; i < f->n_ins; i++)
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      uint32_t cls = ir_ops[f->ins[i].op].cls;
      bool is_by_element = cls == CLASS_POINTWISE || cls == CLASS_INDEX || f->ins[i].op == OP_output;
      if (ir_arg(f, (Val){i}, k).i == v.i && f->ins[i].op != OP_result && !is_by_element) return false;
    }
  return true;
}

static bool map_of_permute(const Fn *f, Val v, Map *m) {
  Shape perm = ir_attr(f, v, KEY_perm)->u.list;
  for (uint32_t k = 0; k < m->rank; k++) {
    uint32_t from = (uint32_t)ir_list_at(f->prog, perm, k);
    Dim size = size_of(f, v, k);
    m->axis[k] = (CropAxis){.step = 1, .from = from, .count = size, .size = size};
  }
  return is_read_by_element(f, v);
}

// What v reads of its operand; false: it is no part by constants.
static bool map_of(const Fn *f, Val v, Map *m) {
  Op op = (Op)ir_ins(f, v)->op;
  bool is_map = op == OP_slice || op == OP_pad_axis || op == OP_crop || op == OP_permute;
  if (!is_map || ir_attr(f, v, KEY_reader)) return false;
  keep_all(f, v, m);
  if (op == OP_slice) return map_of_slice(f, v, m);
  if (op == OP_permute) return map_of_permute(f, v, m);
  if (op == OP_pad_axis) map_of_pad(f, v, m);
  for (uint32_t k = 0; k < m->rank && op == OP_crop; k++) m->axis[k] = ir_crop_axis(f, v, k);
  return true;
}

static int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

// outer reads an axis that inner made of one of size `of`. Those of its elements that are no zeros of inner lie side
// by side: [lo, hi) of them.
static CropAxis compose(const Fn *f, const CropAxis *inner, Dim of, const CropAxis *outer) {
  CropAxis both = *outer;
  both.from = inner->from;
  if (ir_crop_keeps(outer, inner->size)) return *inner;
  if (ir_crop_keeps(inner, of)) return both;
  // the elements of inner before the first one that outer reads, in its direction, and those up to their end
  int64_t ahead = inner->before - outer->start, apart = outer->step, n = number(f, inner->count);
  if (apart < 0) ahead = 1 - ahead - n, apart = -apart;
  int64_t lo = ahead > 0 ? ceil_div(ahead, apart) : 0, hi = ceil_div(ahead + n, apart), count = number(f, outer->count);
  if (hi > count) hi = count;
  if (lo >= hi)  // zeros alone
    return (CropAxis){.step = 1, .from = inner->from, .count = ir_dim(f->prog, 0), .size = outer->size};
  return (CropAxis){.from = inner->from,
                    .start = inner->start + (outer->start + lo * outer->step - inner->before) * inner->step,
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
  for (uint32_t k = 0; k < a.rank; k++) {
    const CropAxis *inner_axis = &a.axis[b.axis[k].from];
    m->axis[k] = compose(f, inner_axis, size_of(f, x, inner_axis->from), &b.axis[k]);
  }
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
  static const Key dropped[] = {KEY_axis, KEY_start, KEY_size, KEY_count, KEY_step, KEY_pitch, KEY_perm, KEY_reverse};
  Prog *p = f->prog;
  int64_t starts[MAX_RANK], steps[MAX_RANK], before[MAX_RANK], behind[MAX_RANK], perm[MAX_RANK];
  bool permutes = false;
  for (uint32_t k = 0; k < m->rank; k++) {
    const CropAxis *a = &m->axis[k];
    starts[k] = a->start, steps[k] = a->step, before[k] = a->before, perm[k] = a->from, permutes |= a->from != k;
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
  if (permutes) ir_set_attr(f, v, ir_a_list(KEY_perm, ir_shape_ints(p, perm, m->rank)));
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
