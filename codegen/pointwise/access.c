// Pointwise groups: the memory accesses of a group, their addressing, and code for one vector (pointwise.h).
//
// All loads of a vector come before its stores, so that a result may alias an operand. Lanes are independent: an element
// does not depend on vl, on the tail or on the split among workers.
#include "codegen/pointwise/pointwise.h"
#include "ir/passes/plan.h"
#include "ir/slice.h"
#include "ir/storage.h"

enum { MAX_LANES = 64 };

static const Fn *fn_of(const Pointwise *p) { return p->c->f; }
static bool in_group(const Pointwise *p, Val v) {
  return v.i >= p->c->k->first + p->from && v.i < p->c->k->first + p->to;
}
static Op op_of(const Pointwise *p, Val v) { return (Op)ir_ins(fn_of(p), v)->op; }
static OpClass class_of(const Pointwise *p, Val v) { return (OpClass)ir_ops[op_of(p, v)].cls; }
static bool is_code(const Pointwise *p, Val v) {
  OpClass cls = class_of(p, v);
  if (ir_is_output_alias(fn_of(p), v)) return false;
  bool by_rows = cls == CLASS_GEMM || cls == CLASS_PACK_PADDED;
  return cls == CLASS_POINTWISE || cls == CLASS_INDEX || cls == CLASS_GATHER || (p->by_rows && by_rows);
}
static Val value_at(const Pointwise *p, uint32_t k) { return (Val){p->c->k->first + k}; }

// Shape and dtype of what an instruction computes; an output has its operand's.
static const Ins *type_of(const Pointwise *p, Val v) {
  const Ins *in = ir_ins(fn_of(p), v);
  return in->op == OP_output ? ir_ins(fn_of(p), ir_arg(fn_of(p), v, 0)) : in;
}

// Looks through views that keep the shape, to a register of this kernel; and through any view to an
// immediate, which is one number of any shape.
static Val see_through(const Pointwise *p, Val v) {
  Val at = v, base = ir_view_base(fn_of(p), v);
  if (ir_is_immediate(fn_of(p), base)) return base;
  for (;;) {
    if (in_group(p, at) && is_code(p, at)) return at;
    if (ir_is_immediate(fn_of(p), at)) return at;
    if (class_of(p, at) != CLASS_VIEW) return v;
    Val a = ir_arg(fn_of(p), at, 0);
    if (ir_ins(fn_of(p), a)->shape.i != ir_ins(fn_of(p), at)->shape.i) return v;
    at = a;
  }
}

static bool fail(Pointwise *p, Val v, const char *what) {
  rt_text_add(p->c->why, "%s (%%%u) %s", ir_ops[op_of(p, v)].name, v.i, what);
  return false;
}

// ---- accesses
static Dim operand_dim(const Pointwise *p, const Access *a, int axis) {
  return ir_dim_at(fn_of(p)->prog, ir_ins(fn_of(p), a->v)->shape, (uint32_t)axis);
}

// Broadcasting: trailing axes are aligned; an axis of size 1 is broadcast.
static void map_broadcast(Pointwise *p, Access *a) {
  uint32_t rank = ir_rank(fn_of(p)->prog, ir_ins(fn_of(p), a->v)->shape);
  for (uint32_t j = 0; j < p->rank; j++) {
    a->axis[j] = (int)(j + rank) - (int)p->rank;
    if (a->axis[j] < 0 || ir_dim_is_one(fn_of(p)->prog, operand_dim(p, a, a->axis[j]))) a->axis[j] = -1;
  }
}

static void map_axes(Pointwise *p, Access *a, Val v) {
  const Attr *perm = ir_attr(fn_of(p), v, KEY_perm);
  for (uint32_t j = 0; j < p->rank; j++) a->axis[j] = perm ? (int)ir_list_at(fn_of(p)->prog, perm->u.list, j) : (int)j;
}

static void map_slice(Pointwise *p, Access *a, Val v) {
  Cg *c = p->c;
  Slice s;
  ir_slice(c->f, v, &s);
  V in_range, first = cg_slice_start(c, v, &in_range);
  if (in_range) p->in_range = cg_both(c, p->in_range, in_range);
  a->offset[s.axis] =
      s.reverse ? cg_sub(c, cg_dim(c, ir_dim_sub(c->f->prog, s.size, ir_dim(c->f->prog, 1))), first) : first;
  bool is_plain = ir_dim_is_one(c->f->prog, s.step) && !s.reverse;
  V step = cg_dim(c, s.step);
  a->factor[s.axis] = is_plain ? NULL : s.reverse ? cg_sub(c, cg_i64(c, 0), step) : step;
}

// An axis that is left as it is may be one that the run sizes.
static void map_crop(Pointwise *p, Access *a, Val v) {
  Cg *c = p->c;
  for (uint32_t k = 0; k < p->rank; k++) {
    CropAxis axis = ir_crop_axis(c->f, v, k);
    if (axis.start != axis.before * axis.step) a->offset[k] = cg_i64(c, axis.start - axis.before * axis.step);
    if (axis.step != 1) a->factor[k] = cg_i64(c, axis.step);
    if (axis.count.i == axis.size.i) continue;
    a->lo[k] = cg_i64(c, axis.before);
    a->hi[k] = cg_add(c, a->lo[k], cg_dim(c, axis.count));
    a->partial = true;
  }
}

static void map_index(Pointwise *p, Access *a, Val v) {
  Cg *c = p->c;
  Op op = op_of(p, v);
  if (op == OP_expand) {
    map_broadcast(p, a);
    return;
  }
  map_axes(p, a, v);
  if (op == OP_permute) return;
  if (op == OP_windows) {
    uint32_t axis = (uint32_t)ir_attr_int(p->c->f, v, KEY_axis, 0);
    a->axis[p->rank - 1] = (int)axis;
    a->factor[axis] = cg_i64(p->c, ir_attr_int(p->c->f, v, KEY_step, 1));
    return;
  }
  if (op == OP_slice || op == OP_crop) {
    op == OP_slice ? map_slice(p, a, v) : map_crop(p, a, v);
    return;
  }
  uint32_t axis = (uint32_t)ir_attr_int(c->f, v, KEY_axis, 0);
  V start = cg_i64(c, ir_attr_size(c->f, v, KEY_start, 0));
  a->offset[axis] = cg_sub(c, cg_i64(c, 0), start);
  a->lo[axis] = start;
  a->hi[axis] = cg_add(c, start, cg_dim(c, operand_dim(p, a, (int)axis)));
  a->partial = true;
}

static bool is_empty(const Pointwise *p, Val v) { return ir_shape_bound(fn_of(p)->prog, type_of(p, v)->shape) == 0; }

static int32_t add_access(Pointwise *p, Val operand) {
  p->acc[p->n_acc] = (Access){.v = operand, .empty = is_empty(p, operand)};
  return (int32_t)p->n_acc++;
}

static int32_t broadcast_access(Pointwise *p, Val operand) {
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (p->acc[k].plain && p->acc[k].v.i == operand.i) return (int32_t)k;
  int32_t k = add_access(p, operand);
  p->acc[k].plain = true;
  map_broadcast(p, &p->acc[k]);
  return k;
}

// Gather: row i of the result is row index[i] of the table. Of rows of one number the index is read as the kernel walks over it.
static bool collect_gather(Pointwise *p, uint32_t k) {
  Val v = value_at(p, k), table = ir_arg(fn_of(p), v, 0), index = ir_arg(fn_of(p), v, 1);
  bool empty = is_empty(p, table);
  if (!cg_stored(p->c, index) || (!empty && !cg_stored(p->c, table)))
    return fail(p, v, "reads a value that is not stored");
  bool of_numbers = !p->by_rows && ir_dim_is_one(fn_of(p)->prog, p->dim[p->rank - 1]);
  p->use[k][0] = add_access(p, of_numbers ? index : table), p->use[k][1] = -1;
  Access *a = &p->acc[p->use[k][0]];
  for (uint32_t j = 0; j < p->rank; j++)
    a->axis[j] = j + 1 == p->rank ? (of_numbers ? -1 : 1) : of_numbers ? (int)j : -1;
  a->index = index, a->look_up = v, a->of_numbers = of_numbers;
  return true;
}

// Empty operands are skipped.
static bool collect_concat(Pointwise *p, uint32_t k) {
  Cg *c = p->c;
  Val v = value_at(p, k);
  uint32_t axis = (uint32_t)ir_attr_int(c->f, v, KEY_axis, 0), n = 0, n_args = ir_ins(c->f, v)->n_args;
  Val *part = rt_alloc(c->mem, n_args * sizeof *part);
  bool is_cut = ir_attr(c->f, v, KEY_starts) != NULL;
  int64_t *start = is_cut ? rt_alloc(c->mem, n_args * sizeof *start) : NULL;
  Dim *size = rt_alloc(c->mem, n_args * sizeof *size);
  for (uint32_t a = 0; a < n_args; a++) {
    Val operand = ir_arg(c->f, v, a), seen = see_through(p, operand);
    if (in_group(p, seen) && is_code(p, seen))
      return fail(p, v, "reads a value of its own kernel through an index map");
    ConcatPart of = ir_concat_part(c->f, v, a);
    if (is_empty(p, operand) || (is_cut && ir_dim_bound(c->f->prog, of.count) == 0)) continue;
    if (!cg_stored(c, operand)) return fail(p, v, "reads a value that is not stored");
    if (is_cut) start[n] = of.start;
    size[n] = of.count, part[n++] = operand;
  }
  if (p->seg.n && (p->seg.n != n || p->seg.axis != axis)) return fail(p, v, "is cut in other places than its kernel");
  p->use[k][0] = -1;
  if (n == 0) return true;  // so is the whole group
  p->use[k][0] = add_access(p, part[0]);
  p->acc[p->use[k][0]].part = part, p->acc[p->use[k][0]].part_start = start;
  map_axes(p, &p->acc[p->use[k][0]], v);
  p->seg = (Segments){.n = n, .axis = axis, .size = size};
  return true;
}

// ---- columns that are stored one between the other: of each the kernel has all elements, in registers or in memory
static Val column_base(const Pointwise *p, Val v, uint32_t k) { return ir_view_base(fn_of(p), ir_arg(fn_of(p), v, k)); }

static bool is_in_registers(const Pointwise *p, Val base) { return in_group(p, base) && is_code(p, base); }

static bool collect_columns(Pointwise *p, uint32_t k) {
  Val v = value_at(p, k);
  for (uint32_t a = 0; a < ir_ins(fn_of(p), v)->n_args; a++) {
    Val operand = ir_arg(fn_of(p), v, a), base = column_base(p, v, a);
    p->use[k][a] = -1;
    if (is_in_registers(p, base)) continue;
    if (!cg_stored(p->c, operand)) return fail(p, v, "reads a value that is not stored");
    p->use[k][a] = broadcast_access(p, type_of(p, operand)->shape.i == p->shape.i ? operand : base);
  }
  return true;
}

static bool collect_one(Pointwise *p, uint32_t k) {
  Cg *c = p->c;
  Val v = value_at(p, k);
  if (ir_is_interleaved(c->f, v)) return collect_columns(p, k);
  if (class_of(p, v) == CLASS_GATHER) return collect_gather(p, k);
  if (op_of(p, v) == OP_concat) return collect_concat(p, k);
  bool index = class_of(p, v) == CLASS_INDEX;
  for (uint32_t a = 0; a < ir_ins(c->f, v)->n_args; a++) {
    Val operand = ir_arg(c->f, v, a), seen = see_through(p, operand);
    p->use[k][a] = -1;
    if (op_of(p, v) == OP_assign && a != 1) continue;  // written only; a range, read once
    if (op_of(p, v) == OP_slice && a == 1) continue;   // read once, by cg_slice_start
    if (ir_is_immediate(fn_of(p), seen)) continue;
    bool reg = in_group(p, seen) && is_code(p, seen), same_shape = type_of(p, seen)->shape.i == p->shape.i;
    if (reg && same_shape && (!index || op_of(p, v) == OP_expand)) continue;
    if (reg) return fail(p, v, "reads a value of its own kernel through an index map");
    if (!is_empty(p, operand) && !cg_stored(c, operand)) return fail(p, v, "reads a value that is not stored");
    if (!index) {
      p->use[k][a] = broadcast_access(p, operand);
      continue;
    }
    p->use[k][a] = add_access(p, operand);
    map_index(p, &p->acc[p->use[k][a]], v);
  }
  return true;
}

// Of what is computed; of columns alone, theirs.
static void find_shape(Pointwise *p) {
  const Fn *f = fn_of(p);
  uint32_t k = p->from;
  while (k < p->to && (!is_code(p, value_at(p, k)) || ir_is_interleaved(f, value_at(p, k)))) k++;
  if (k < p->to) p->shape = type_of(p, value_at(p, k))->shape;
  else p->shape = ir_ins(f, ir_arg(f, value_at(p, p->from), 0))->shape;
  p->rank = ir_rank(f->prog, p->shape);
  for (uint32_t j = 0; j < p->rank; j++) p->dim[j] = ir_dim_at(f->prog, p->shape, j);
}

bool cg_pointwise_collect(Pointwise *p) {
  Cg *c = p->c;
  uint32_t n_operands = 0;
  for (uint32_t k = p->from; k < p->to; k++) n_operands += ir_ins(c->f, value_at(p, k))->n_args;
  p->acc = rt_alloc(c->mem, (n_operands + 1) * sizeof *p->acc);
  p->use = rt_alloc(c->mem, c->k->n * sizeof *p->use);
  p->val = rt_alloc(c->mem, c->k->n * sizeof *p->val);
  find_shape(p);
  for (uint32_t k = p->from; k < p->to; k++) {
    Val v = value_at(p, k);
    if (!is_code(p, v)) continue;
    if (type_of(p, v)->shape.i != p->shape.i && !ir_is_interleaved(c->f, v))
      return fail(p, v, "has another shape than its kernel");
    bool product = p->is_epilogue && k == p->from;  // its operands are read by the product, not here
    if (!product && !collect_one(p, k)) return false;
  }
  return true;
}

// ---- merging axes
static bool plain_axis(const Pointwise *p, const Access *a, uint32_t j) {
  return !a->offset[j] && !a->factor[j] && !a->lo[j] && !(a->part && p->seg.axis == j);
}

// Is the access contiguous over iteration axes j and i (the next one with a stride), so that they can be merged?
static bool steps_as_one(const Pointwise *p, const Access *a, uint32_t j, uint32_t i) {
  if (!plain_axis(p, a, i) || a->factor[j]) return false;
  if (a->axis[j] < 0 && a->axis[i] < 0) return true;
  if (a->axis[j] < 0 || a->axis[i] <= a->axis[j]) return false;
  for (int x = a->axis[j] + 1; x < a->axis[i]; x++)
    if (!ir_dim_is_one(fn_of(p)->prog, operand_dim(p, a, x))) return false;
  return operand_dim(p, a, a->axis[i]).i == p->dim[i].i;
}

static bool mergeable(const Pointwise *p, uint32_t j, uint32_t i) {
  if (p->by_rows && !p->is_flat && i + 1 == p->rank) return false;
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (!steps_as_one(p, &p->acc[k], j, i)) return false;
  return true;
}

// An axis of size 1 needs no loop, unless an access may have no element there.
static bool moves(const Pointwise *p, uint32_t j) {
  if (p->by_rows && !p->is_flat && j + 1 == p->rank) return true;
  if (!ir_dim_is_one(fn_of(p)->prog, p->dim[j]) || (p->seg.n && p->seg.axis == j)) return true;
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (p->acc[k].lo[j]) return true;
  return false;
}

static V row_stride(const Pointwise *p, const Access *a, int axis) {
  V s = cg_i64(p->c, 1);
  uint32_t rank = ir_rank(fn_of(p)->prog, ir_ins(fn_of(p), a->v)->shape);
  for (uint32_t x = (uint32_t)axis + 1; x < rank; x++) s = cg_mul(p->c, s, cg_dim(p->c, operand_dim(p, a, (int)x)));
  return s;
}

static void place_access(Pointwise *p, Access *a, const uint32_t *first_of) {
  Cg *c = p->c;
  a->base = cg_i64(c, 0);
  for (uint32_t j = 0; j < p->rank; j++)
    if (a->offset[j]) a->base = cg_add(c, a->base, cg_mul(c, a->offset[j], row_stride(p, a, a->axis[j])));
  for (uint32_t g = 0; g < p->n_loop; g++) {
    uint32_t j = first_of[g], last = p->last_of[g];
    a->stride[g] = a->axis[last] < 0 ? cg_i64(c, 0) : row_stride(p, a, a->axis[last]);
    if (a->factor[last]) a->stride[g] = cg_mul(c, a->stride[g], a->factor[last]);
    if (!a->lo[j]) continue;
    V scale = cg_i64(c, 1);
    for (uint32_t i = j + 1; i <= last; i++) scale = cg_mul(c, scale, cg_dim(c, p->dim[i]));
    a->from[g] = cg_mul(c, a->lo[j], scale);
    a->to[g] = cg_mul(c, a->hi[j], scale);
  }
}

// ---- segments
// Up to so many segments are emitted as straight-line code; more become a loop over tables.
enum { FEW_SEGMENTS = 4, FEW_INSTRUCTIONS = 16 };

static bool has_few(const Pointwise *p) {
  return p->seg.n <= FEW_SEGMENTS && p->seg.n * (p->to - p->from) <= FEW_INSTRUCTIONS;
}

static V part_at(const Pointwise *p, const Access *a, uint32_t k) {
  LLVMTypeRef t = cg_elem_type(p->c, (DType)ir_ins(p->c->f, a->v)->dtype);
  V base = cg_ptr(p->c, a->part[k]);
  return a->part_first ? cg_at(p->c, t, base, a->part_first[k]) : base;
}

// scale: elements of the loop axis for one of the concat's
static void place_parts(Pointwise *p, Access *a, V scale) {
  Cg *c = p->c;
  V unit = cg_mul(c, scale, a->stride[p->seg.loop]);
  a->part_first = rt_alloc(c->mem, p->seg.n * sizeof *a->part_first);
  a->part_pitch = rt_alloc(c->mem, p->seg.n * sizeof *a->part_pitch);
  for (uint32_t k = 0; k < p->seg.n; k++) {
    Dim all = ir_dim_at(c->f->prog, ir_ins(c->f, a->part[k])->shape, p->seg.axis);
    a->part_first[k] = cg_mul(c, cg_i64(c, a->part_start[k]), unit), a->part_pitch[k] = cg_mul(c, cg_dim(c, all), unit);
  }
}

static void place_segments(Pointwise *p) {
  Cg *c = p->c;
  Segments *s = &p->seg;
  V scale = cg_i64(c, 1), end = cg_i64(c, 0);
  for (uint32_t j = s->axis + 1; j <= p->last_of[s->loop]; j++) scale = cg_mul(c, scale, cg_dim(c, p->dim[j]));
  s->end = rt_alloc(c->mem, s->n * sizeof *s->end);
  for (uint32_t k = 0; k < s->n; k++) {
    end = cg_add(c, end, cg_mul(c, cg_dim(c, s->size[k]), scale));
    s->end[k] = end;
  }
  for (uint32_t a = 0; a < p->n_acc; a++)
    if (p->acc[a].part_start) place_parts(p, &p->acc[a], scale);
  if (has_few(p)) return;
  s->end_table = cg_block(c, c->i64, s->n + 1);
  cg_store(c, cg_i64(c, 0), s->end_table);
  for (uint32_t k = 0; k < s->n; k++) cg_put(c, s->end[k], s->end_table, cg_i64(c, k + 1));
  for (uint32_t a = 0; a < p->n_acc; a++) {
    if (!p->acc[a].part) continue;
    V table = p->acc[a].part_table = cg_block(c, c->ptr, s->n);
    for (uint32_t k = 0; k < s->n; k++) cg_store(c, part_at(p, &p->acc[a], k), cg_at(c, c->ptr, table, cg_i64(c, k)));
    if (!p->acc[a].part_pitch) continue;
    p->acc[a].pitch_table = cg_block(c, c->i64, s->n);
    for (uint32_t k = 0; k < s->n; k++) cg_put(c, p->acc[a].part_pitch[k], p->acc[a].pitch_table, cg_i64(c, k));
  }
}

static void enter_few(Pointwise *p, Access *a, uint32_t k) {
  a->part_at = part_at(p, a, k);
  a->pitch_at = a->part_pitch ? a->part_pitch[k] : NULL;
}

static void enter_of_many(Pointwise *p, Access *a, V k) {
  a->part_at = cg_get(p->c, p->c->ptr, a->part_table, k);
  a->pitch_at = a->pitch_table ? cg_get(p->c, p->c->i64, a->pitch_table, k) : NULL;
}

static void each_of_few(Pointwise *p, SegmentBody *body, void *ctx) {
  Segments *s = &p->seg;
  for (uint32_t k = 0; k < s->n; k++) {
    s->begin = k ? s->end[k - 1] : cg_i64(p->c, 0);
    s->stop = s->end[k];
    for (uint32_t a = 0; a < p->n_acc; a++)
      if (p->acc[a].part) enter_few(p, &p->acc[a], k);
    body(p, ctx);
  }
}

void cg_pointwise_each_segment(Pointwise *p, SegmentBody *body, void *ctx) {
  Cg *c = p->c;
  Segments *s = &p->seg;
  if (!s->n) {
    body(p, ctx);
    return;
  }
  if (!s->end_table) {
    each_of_few(p, body, ctx);
    return;
  }
  for (Loop l = cg_count(c, cg_i64(c, s->n)); cg_next(&l);) {
    s->begin = cg_get(c, c->i64, s->end_table, l.i);
    s->stop = cg_get(c, c->i64, s->end_table, cg_add(c, l.i, cg_i64(c, 1)));
    for (uint32_t a = 0; a < p->n_acc; a++)
      if (p->acc[a].part) enter_of_many(p, &p->acc[a], l.i);
    body(p, ctx);
  }
}

void cg_pointwise_merge(Pointwise *p) {
  Cg *c = p->c;
  uint32_t first_of[MAX_RANK] = {0};
  for (uint32_t j = 0; j < p->rank; j++) {
    if (!moves(p, j)) continue;
    V size = cg_dim(c, p->dim[j]);
    if (p->n_loop && mergeable(p, p->last_of[p->n_loop - 1], j)) {
      p->size[p->n_loop - 1] = cg_mul(c, p->size[p->n_loop - 1], size);
    } else {
      first_of[p->n_loop] = j;
      p->size[p->n_loop++] = size;
    }
    p->last_of[p->n_loop - 1] = j;
    if (p->seg.axis == j) p->seg.loop = p->n_loop - 1;
  }
  for (uint32_t k = 0; k < p->n_acc; k++) place_access(p, &p->acc[k], first_of);
  if (p->seg.n) place_segments(p);
  if (p->n_loop) return;
  p->size[0] = cg_i64(c, 1);  // one element
  for (uint32_t k = 0; k < p->n_acc; k++) p->acc[k].stride[0] = cg_i64(c, 0);
  p->n_loop = 1;
}

// ---- one vector
static LLVMTypeRef vector_type(const Pointwise *p, DType t) { return cg_vector_type(p->c, t, p->lanes); }

// Sets every access to the row with these outer indices.
void cg_pointwise_enter(Pointwise *p, const V *index) {
  Cg *c = p->c;
  for (uint32_t k = 0; k < p->n_acc; k++) {
    Access *a = &p->acc[k];
    LLVMTypeRef t = cg_elem_type(c, (DType)ir_ins(c->f, a->v)->dtype);
    V at = a->base;
    if (a->empty || a->part) continue;
    a->row_ok = a->splat = NULL;
    if (a->index.i && !a->of_numbers) {
      cg_pointwise_enter_table(p, a, index);
      continue;
    }
    for (uint32_t g = 0; g + 1 < p->n_loop; g++) {
      at = cg_add(c, at, cg_mul(c, index[g], a->stride[g]));
      if (!a->from[g]) continue;
      V above = cg_ge(c, index[g], a->from[g]), below = cg_lt(c, index[g], a->to[g]);
      a->row_ok = cg_both(c, a->row_ok, cg_and(c, above, below));
    }
    a->row = cg_at_any(c, t, cg_ptr(c, a->v), at);
    if (!a->partial && cg_is_int(a->stride[p->n_loop - 1], 0)) a->splat = cg_load(c, t, a->row);
  }
}

// Size of a concat's operand, or of what is read of it: the iteration's, but along the concat's axis.
static void enter_part(Pointwise *p, Access *a, const V *index) {
  Cg *c = p->c;
  uint32_t at_axis = p->seg.loop;
  V step = a->stride[at_axis], stride = a->pitch_at;
  if (!stride) stride = cg_mul(c, cg_sub(c, p->seg.stop, p->seg.begin), step);
  V at = cg_sub(c, cg_i64(c, 0), cg_mul(c, p->seg.begin, step));
  for (uint32_t g = at_axis; g-- > 0;) {
    at = cg_add(c, at, cg_mul(c, index[g], stride));
    stride = cg_mul(c, stride, p->size[g]);
  }
  for (uint32_t g = at_axis; g + 1 < p->n_loop; g++) at = cg_add(c, at, cg_mul(c, index[g], a->stride[g]));
  LLVMTypeRef t = cg_elem_type(c, (DType)ir_ins(c->f, a->v)->dtype);
  a->row = cg_at_any(c, t, a->part_at, at);
}

void cg_pointwise_enter_segment(Pointwise *p, const V *index) {
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (p->acc[k].part) enter_part(p, &p->acc[k], index);
}

void cg_pointwise_split_axes(Pointwise *p, V flat, uint32_t n_axes, V *index) {
  Cg *c = p->c;
  for (uint32_t g = n_axes; g-- > 1;) {
    index[g] = cg_rem(c, flat, p->size[g]);
    flat = LLVMBuildUDiv(c->b, flat, p->size[g], "");
  }
  index[0] = flat;
}

// The outer indices of a row, from its flat index.
void cg_pointwise_split(Pointwise *p, V row, V *index) { cg_pointwise_split_axes(p, row, p->n_loop - 1, index); }

// Mask of lanes whose index i + lane is in the range of the vector axis.
static V range_mask(Pointwise *p, const Access *a, V i, V mask) {
  Cg *c = p->c;
  uint32_t g = p->n_loop - 1;
  if (!a->from[g]) return mask;
  V below = cg_mask(c, cg_max(c, cg_sub(c, a->from[g], i), cg_i64(c, 0)));
  V upto = cg_mask(c, cg_max(c, cg_sub(c, a->to[g], i), cg_i64(c, 0)));
  return cg_both(c, mask, cg_and(c, upto, cg_not(c, below)));
}

// Rows of constant size, shorter than a vector: scalar loads, faster than a gather.
enum { SHORT_ROW = 8 };

static bool is_short_row(const Pointwise *p, const Access *a) {
  V n = p->size[p->n_loop - 1];
  bool whole = !p->by_rows && !a->partial && LLVMIsAConstantInt(n);
  return whole && LLVMConstIntGetSExtValue(n) <= SHORT_ROW && LLVMConstIntGetSExtValue(n) < p->lanes;
}

static V load_short_row(Pointwise *p, const Access *a, DType t) {
  Cg *c = p->c;
  V all = LLVMConstNull(vector_type(p, t)), at = cg_i64(c, 0);
  for (int64_t k = 0; k < LLVMConstIntGetSExtValue(p->size[p->n_loop - 1]); k++) {
    V x = cg_load(c, cg_elem_type(c, t), cg_at_any(c, cg_elem_type(c, t), a->row, at));
    all = LLVMBuildInsertElement(c->b, all, x, cg_i32(c, k), "");
    at = cg_add(c, at, a->stride[p->n_loop - 1]);
  }
  return all;
}

static V gather(Pointwise *p, const Access *a, DType t, V i, V mask) {
  Cg *c = p->c;
  if (is_short_row(p, a)) return load_short_row(p, a, t);
  V at = cg_imul(c, cg_iadd(c, cg_splat(c, i), cg_lane_numbers(c)), cg_splat(c, a->stride[p->n_loop - 1]));
  return cg_gather(c, cg_elem_type(c, t), a->row, at, mask);
}

// Lane k is element i + k of a reversed row.
static V load_backward(Pointwise *p, const Access *a, DType t, V i, V mask) {
  Cg *c = p->c;
  uint32_t from[MAX_LANES];
  V first = cg_sub(c, cg_i64(c, 1 - (int64_t)p->lanes), i);
  for (uint32_t k = 0; k < p->lanes; k++) from[k] = p->lanes - 1 - k;
  if (mask) mask = cg_shuffle(c, mask, LLVMGetPoison(LLVMTypeOf(mask)), from, p->lanes);
  V x = cg_load_masked(c, vector_type(p, t), cg_at_any(c, cg_elem_type(c, t), a->row, first), mask);
  return cg_shuffle(c, x, LLVMGetPoison(LLVMTypeOf(x)), from, p->lanes);
}

// The stride of a column of few: every second element, .. 0: it is none.
static uint32_t column_stride(const Pointwise *p, const Access *a) {
  V stride = a->stride[p->n_loop - 1];
  int64_t n = LLVMIsAConstantInt(stride) ? LLVMConstIntGetSExtValue(stride) : 0;
  return n > 1 && 2 * n <= (int64_t)p->lanes ? (uint32_t)n : 0;
}

// Elements of a column by whole vectors, from which they are taken; the last vector ends with the last element, not behind it.
static V load_column(Pointwise *p, const Access *a, DType t, V i, uint32_t stride) {
  Cg *c = p->c;
  uint32_t n = p->lanes, from[MAX_LANES];
  V first = cg_at_any(c, cg_elem_type(c, t), a->row, cg_mul(c, i, cg_i64(c, stride))), all = NULL;
  for (uint32_t k = 0; k < stride; k++) {
    uint32_t at = k + 1 < stride ? k * n : (stride - 1) * (n - 1);
    V x = cg_load(c, vector_type(p, t), cg_at_any(c, cg_elem_type(c, t), first, cg_i64(c, at)));
    for (uint32_t lane = 0; lane < n; lane++) {
      bool is_here = lane * stride >= k * n && lane * stride < (k + 1) * n;
      from[lane] = is_here ? n + lane * stride - at : lane;
    }
    if (k == 0)
      for (uint32_t lane = 0; lane < n; lane++) from[lane] = lane * stride < n ? lane * stride : 0;
    all = k ? cg_shuffle(c, all, x, from, n) : cg_shuffle(c, x, LLVMGetPoison(LLVMTypeOf(x)), from, n);
  }
  return all;
}

static V load_lanes(Pointwise *p, const Access *a, DType t, V i, V mask) {
  Cg *c = p->c;
  if (p->lanes > 1 && cg_is_int(a->stride[p->n_loop - 1], -1)) return load_backward(p, a, t, i, mask);
  if (!mask && column_stride(p, a)) return load_column(p, a, t, i, column_stride(p, a));
  if (!cg_is_int(a->stride[p->n_loop - 1], 1)) return gather(p, a, t, i, mask);
  // No inbounds: the address of lanes that are masked off may be out of range.
  return cg_load_masked(c, vector_type(p, t), cg_at_any(c, cg_elem_type(c, t), a->row, i), mask);
}

// Zero if no lane is in range; the load is skipped then: a masked load without lanes takes a microsecond on
// unmapped memory (microcode suppresses the fault).
static V load_partial(Pointwise *p, const Access *a, DType t, V i, V mask) {
  Cg *c = p->c;
  uint32_t g = p->n_loop - 1;
  V x = LLVMConstNull(vector_type(p, t)), some = a->row_ok;
  if (a->from[g]) {
    V end = cg_add(c, i, cg_i64(c, p->lanes));
    some = cg_both(c, some, cg_gt(c, end, a->from[g]));
    some = cg_both(c, some, cg_lt(c, i, a->to[g]));
  }
  if (!some) return load_lanes(p, a, t, i, mask);
  for (If s = cg_when_carry(c, some, &x, 1); cg_then(&s);) x = load_lanes(p, a, t, i, range_mask(p, a, i, mask));
  return x;
}

// The access's vector at index i; zero in lanes out of its range.
static V load_access(Pointwise *p, const Access *a, V i, V mask) {
  Cg *c = p->c;
  DType t = (DType)ir_ins(c->f, a->v)->dtype;
  if (a->empty) return LLVMConstNull(vector_type(p, t));
  if (a->of_numbers)
    return cg_look_up_numbers(p, a, a->splat ? cg_spread(c, a->splat, p->lanes) : load_lanes(p, a, t, i, mask), mask);
  if (a->splat) return cg_spread(c, a->splat, p->lanes);
  if (a->turn > TURN_FLAT) return a->square[p->square_row];
  if (a->tile && p->is_unrolled) return a->square[p->square_row];
  if (a->tile) return cg_get(c, c->vf, a->tile, cg_mul(c, p->tile_row, cg_vl(c)));
  if (a->index.i) return load_lanes(p, a, t, i, a->row_ok ? cg_both(c, mask, cg_splat(c, a->row_ok)) : mask);
  return a->partial ? load_partial(p, a, t, i, mask) : load_lanes(p, a, t, i, mask);
}

static V immediate(Pointwise *p, Val v) {
  Cg *c = p->c;
  if (op_of(p, v) == OP_const) return cg_constant_like(c, v, vector_type(p, DT_F32));
  const Attr *d = ir_attr(c->f, v, KEY_dim);
  return cg_spread(c, cg_sitofp(c, cg_dim(c, d->u.dim), c->f32), p->lanes);
}

static V operand(Pointwise *p, uint32_t k, uint32_t arg, V i, V mask) {
  if (p->use[k][arg] >= 0) return load_access(p, &p->acc[p->use[k][arg]], i, mask);
  Val v = see_through(p, ir_arg(fn_of(p), value_at(p, k), arg));
  return ir_is_immediate(fn_of(p), v) ? immediate(p, v) : p->val[v.i - p->c->k->first];
}

static V compute(Pointwise *p, uint32_t k, V i, V element, V mask) {
  Cg *c = p->c;
  Val v = value_at(p, k);
  Op op = op_of(p, v);
  if (p->is_epilogue && k == p->from) {
    DType t = (DType)ir_ins(c->f, v)->dtype;
    return cg_get_masked(c, vector_type(p, t), p->product, cg_sub(c, i, p->from_column), mask);
  }
  if (op == OP_assign) return operand(p, k, 1, i, mask);
  if (op == OP_embedding || op == OP_concat) return operand(p, k, 0, i, mask);
  V arg[POINTWISE_OPERANDS];
  uint32_t n = op == OP_slice ? 1 : ir_ins(c->f, v)->n_args;
  for (uint32_t a = 0; a < n; a++) arg[a] = operand(p, k, a, i, mask);
  if (op == OP_cast)
    return cg_convert(c, (DType)ir_ins(c->f, ir_arg(c->f, v, 0))->dtype, (DType)ir_ins(c->f, v)->dtype, arg[0]);
  if (op == OP_output || class_of(p, v) == CLASS_INDEX) return arg[0];
  return cg_pointwise_of_any(c, v, arg, element);
}

// ---- columns
// Lane k of vector number j of `n` columns that are stored one between the other: number j lanes + k of all.
static void place_lanes(uint32_t lanes, uint32_t n, uint32_t j, uint32_t column, uint32_t *from) {
  for (uint32_t k = 0; k < lanes; k++) {
    uint32_t at = j * lanes + k;
    from[k] = column && at % n == column ? lanes + at / n : column > 1 || at % n ? k : at / n;
  }
}

V cg_pointwise_interleaved(Pointwise *p, const V *column, uint32_t n, uint32_t j) {
  uint32_t from[MAX_LANES];
  V all = column[0];
  for (uint32_t k = 1; k < n; k++) {
    place_lanes(p->lanes, n, j, k, from);
    all = cg_shuffle(p->c, all, column[k], from, p->lanes);
  }
  return all;
}

V cg_pointwise_repeated(Pointwise *p, V x, uint32_t n, uint32_t j) {
  uint32_t from[MAX_LANES];
  for (uint32_t k = 0; k < p->lanes; k++) from[k] = (j * p->lanes + k) / n;
  return cg_shuffle(p->c, x, x, from, p->lanes);
}

// Elements of concat k from `flat` on of each column.
static void store_columns(Pointwise *p, uint32_t k, V flat, V i, V mask) {
  Cg *c = p->c;
  Val v = value_at(p, k);
  uint32_t n = ir_ins(c->f, v)->n_args;
  LLVMTypeRef t = cg_elem_type(c, (DType)ir_ins(c->f, v)->dtype);
  V column[POINTWISE_OPERANDS], to = cg_at(c, t, cg_ptr(c, v), cg_mul(c, flat, cg_i64(c, n)));
  for (uint32_t a = 0; a < n; a++)
    column[a] = p->use[k][a] < 0 ? p->val[column_base(p, v, a).i - c->k->first]
                                 : load_access(p, &p->acc[p->use[k][a]], i, mask);
  for (uint32_t j = 0; j < n; j++) {
    V at = cg_at(c, t, to, cg_i64(c, (int64_t)j * p->lanes));
    V x = p->lanes > 1 ? cg_pointwise_interleaved(p, column, n, j) : column[j];
    V lanes = mask ? cg_pointwise_repeated(p, mask, n, j) : NULL;
    for (If some = cg_when(c, mask ? cg_any_lane(c, lanes) : NULL); cg_then(&some);)
      mask ? cg_store_masked(c, x, at, lanes) : cg_store(c, x, at);
  }
}

void cg_pointwise_compute(Pointwise *p, V row, V i, V mask) {
  Cg *c = p->c;
  V element = cg_spread(c, cg_add(c, row, i), p->lanes);
  if (p->lanes > 1) element = cg_iadd(c, element, cg_lane_numbers_of(c->i64, p->lanes));
  for (uint32_t k = p->from; k < p->to; k++)
    if (is_code(p, value_at(p, k)) && !ir_is_interleaved(c->f, value_at(p, k)))
      p->val[k] = compute(p, k, i, element, mask);
}

void cg_pointwise_vector(Pointwise *p, V row, V i, V mask) {
  Cg *c = p->c;
  V flat = cg_add(c, row, i);
  cg_pointwise_compute(p, row, i, mask);
  for (uint32_t k = p->from; k < p->to; k++) {
    Val v = value_at(p, k);
    if (!is_code(p, v) || !cg_stored(c, v)) continue;
    if (ir_is_interleaved(c->f, v)) {
      store_columns(p, k, flat, i, mask);
      continue;
    }
    V at = cg_at(c, cg_elem_type(c, (DType)type_of(p, v)->dtype), cg_ptr(c, v), flat);
    if (p->stores_past_caches) cg_store_past_caches(c, p->val[k], at);
    else mask ? cg_store_masked(c, p->val[k], at, mask) : cg_store(c, p->val[k], at);
  }
  if (ir_none(p->back)) return;
  V at = cg_at(c, c->f32, p->product, cg_sub(c, i, p->from_column)), x = p->val[p->back.i - c->k->first];
  mask ? cg_store_masked(c, x, at, mask) : cg_store(c, x, at);
}

bool cg_pointwise_stores(const Pointwise *p) {
  for (uint32_t k = p->from; k < p->to; k++)
    if (is_code(p, value_at(p, k)) && cg_stored(p->c, value_at(p, k))) return true;
  return false;
}
