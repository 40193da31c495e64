// Pass verify_plan, one kernel: its members, how they use values of the kernel, and which results may alias an operand.
// Shares no code with fuse, assign_buffers and row_fusion: the contract of the emitters is stated independently.
//
//   %b = exp %a : f32[n,64]        k0    reads %a elementwise: %b may alias %a
//   %c = permute %a {perm=[1,0]}   k0    reads element (j, i) when (i, j) is written: now it may not
//
//   1. A kernel is of one class; only pointwise, row, product, reduction, packing, recurrent and update kernels have
//      several instructions.
//   2. A value defined and used in the kernel is in registers or in the current row: uses are elementwise or row-local, of
//      contiguous rows through a reshape in the kernel too. Or it is a concat along an axis behind that of the concat that
//      alone reads it, the last member: its rows are copied.
//   3. A kernel that writes bytes which it also reads, reads them elementwise: the worker that writes an element is the
//      only one that reads it, and has read it before. Any other read would come too late.
//   4. Its scratch aliases nothing.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/planning/verify_plan.h"
#include "ir/storage.h"
#include "ir/text/text.h"

typedef struct {
  Fn *f;
  const Kernel *k;
  uint32_t number, end;
  uint32_t lead;  // the product, of a kernel of products; else its first instruction
  Shape rows;     // row kernels: the row space, shape and axis
  uint32_t axis;
} Look;

static Op op_at(const Look *l, uint32_t i) { return (Op)l->f->ins[i].op; }
static OpClass class_at(const Look *l, uint32_t i) { return (OpClass)ir_ops[l->f->ins[i].op].cls; }
static Shape shape_at(const Look *l, Val v) { return l->f->ins[v.i].shape; }
static bool is_made_here(const Look *l, Val v) { return v.i >= l->k->first && v.i < l->end; }
static bool is_result(const Look *l, uint32_t i) { return op_at(l, i) == OP_result; }
static bool is_one(const Look *l, Dim d) {
  return ir_dim_info(l->f->prog, d)->kind == DIM_CONST && ir_dim_info(l->f->prog, d)->value == 1;
}

static bool same_type(const Look *l, Val a, Val b) {
  return shape_at(l, a).i == shape_at(l, b).i && l->f->ins[a.i].dtype == l->f->ins[b.i].dtype;
}

// ---- rows
// Operands, as bits, that a row op reads row-locally: elements, and row scalars (numbers).
typedef struct {
  Op op;
  uint8_t elements, numbers;
} RowReads;
static const RowReads row_reads[] = {
    {OP_softmax, 1, 0},
    {OP_softmax_grad, 3, 0},
    {OP_log_softmax, 1, 0},
    {OP_log_softmax_grad, 3, 0},
    {OP_cross_entropy_rows, 1, 0},
    {OP_cross_entropy_rows_grad, 1, 12},
    {OP_layer_norm, 1, 0},
    {OP_layer_norm_grad, 9, 6},
    {OP_rms_norm, 1, 0},
    {OP_rms_norm_grad, 5, 2},
    {OP_sum, 1, 0},
    {OP_mean, 1, 0},
    {OP_amax, 1, 0},
};

static RowReads row_reads_of(Op op) {
  for (uint32_t k = 0; k < sizeof row_reads / sizeof *row_reads; k++)
    if (row_reads[k].op == op) return row_reads[k];
  return (RowReads){.op = OP_none};
}

static bool is_row_op(const Look *l, uint32_t i) {
  return class_at(l, i) == CLASS_ROW || (class_at(l, i) == CLASS_REDUCE && l->f->ins[i].dtype == DT_F32);
}

// A column sum is complete after the last row only.
static bool is_sum_of_rows(const Look *l, uint32_t i) {
  if (op_at(l, i) != OP_sum) return false;
  Shape axes = ir_attr(l->f, (Val){i}, KEY_axes)->u.list;
  for (uint32_t k = 0; k < ir_rank(l->f->prog, axes); k++)
    if (ir_list_at(l->f->prog, axes, k) == l->axis) return false;
  return true;
}

// A sum of the rows of a matrix is a sum over rows, where no other op says which way they go.
static bool sums_rows(const Look *l, uint32_t i, uint32_t last) {
  return op_at(l, i) == OP_sum && last == 1 && !ir_attr(l->f, (Val){i}, KEY_keepdim);
}

// The axis that a sum over all others leaves; `last`: it is none
static uint32_t axis_left(const Look *l, Shape axes, uint32_t last) {
  uint32_t k = 0;
  if (ir_rank(l->f->prog, axes) != last) return last;
  while (k < last && ir_list_at(l->f->prog, axes, k) == k) k++;
  return k;
}

// A reduction over one axis goes along it; a sum over all other axes has rows along the one that it leaves.
static uint32_t axis_of(const Look *l, uint32_t i, uint32_t last) {
  if (class_at(l, i) == CLASS_ROW) return (uint32_t)ir_attr_int(l->f, (Val){i}, KEY_axis, last);
  Shape axes = ir_attr(l->f, (Val){i}, KEY_axes)->u.list;
  if (ir_rank(l->f->prog, axes) != 1) return axis_left(l, axes, last);
  return sums_rows(l, i, last) ? last : (uint32_t)ir_list_at(l->f->prog, axes, 0);
}

// The row axis is that of a row op, else of a reduction.
static void find_rows(Look *l) {
  for (uint32_t i = l->k->first; i < l->end; i++) {
    if (is_result(l, i) || !is_row_op(l, i)) continue;
    Shape rows = shape_at(l, ir_arg(l->f, (Val){i}, 0));
    uint32_t last = ir_rank(l->f->prog, rows) - 1;
    if (l->rows.i && class_at(l, i) != CLASS_ROW && sums_rows(l, i, last)) continue;
    l->rows = rows, l->axis = axis_of(l, i, last);
    if (class_at(l, i) == CLASS_ROW) return;
  }
}

static bool is_element(const Look *l, Shape s) { return s.i == l->rows.i; }

static bool is_last_axis(const Look *l) { return l->axis + 1 == ir_rank(l->f->prog, l->rows); }

// Elements of contiguous rows under any shape
static bool has_elements(const Look *l, Shape s) {
  if (is_element(l, s)) return true;
  return is_last_axis(l) && ir_shape_numel(l->f->prog, s).i == ir_shape_numel(l->f->prog, l->rows).i;
}

// A row scalar: the row axis has size 1, or is dropped.
static bool is_number(const Look *l, Shape s) {
  const Prog *p = l->f->prog;
  uint32_t rank = ir_rank(p, l->rows), have = ir_rank(p, s);
  if (have != rank && have + 1 != rank) return false;
  for (uint32_t k = 0, at = 0; k < rank; k++) {
    if (k == l->axis && have + 1 == rank) continue;
    Dim d = ir_dim_at(p, s, at++);
    if (k == l->axis ? !is_one(l, d) : d.i != ir_dim_at(p, l->rows, k).i) return false;
  }
  return true;
}

static bool reads_in_row(const Look *l, uint32_t i, uint32_t k, Val a) {
  Shape from = shape_at(l, a);
  if (is_sum_of_rows(l, a.i)) return false;
  if (is_row_op(l, i)) {
    RowReads r = row_reads_of(op_at(l, i));
    return ((r.elements >> k & 1) && is_element(l, from)) || ((r.numbers >> k & 1) && is_number(l, from));
  }
  Shape to = shape_at(l, (Val){i});
  if (op_at(l, i) == OP_reshape) return has_elements(l, from) || (is_number(l, from) && is_number(l, to));
  if (class_at(l, i) != CLASS_POINTWISE && op_at(l, i) != OP_expand) return false;
  return from.i == to.i || (is_element(l, to) && is_number(l, from));
}

// ---- members
static bool broken_member(const Look *l, uint32_t i, const char *what) {
  return ir_plan_broken(l->f, (Val){i}, "has no place in kernel %u, of class %s: %s", l->number,
                        ir_class_name((OpClass)l->k->cls), what);
}

static bool is_pointwise(const Look *l, uint32_t i) { return ir_class_has(op_at(l, i), BY_ELEMENT); }

// Concat i is in no memory: the last member, a concat along an axis before its own, copies what i reads.
static bool is_inner_concat(const Look *l, uint32_t i) {
  uint32_t last = l->end - 1;
  if (i >= last || op_at(l, i) != OP_concat || op_at(l, last) != OP_concat || l->f->buf_of[i]) return false;
  return ir_attr_int(l->f, (Val){i}, KEY_axis, 0) > ir_attr_int(l->f, (Val){last}, KEY_axis, 0);
}

// A concat of columns: behind each element of one column lies that of the next.
static bool is_interleaved(const Look *l, uint32_t i) {
  if (op_at(l, i) != OP_concat || ir_attr(l->f, (Val){i}, KEY_starts)) return false;
  for (uint32_t k = 0; k < l->f->ins[i].n_args; k++) {
    Shape s = shape_at(l, ir_arg(l->f, (Val){i}, k));
    for (uint32_t j = (uint32_t)ir_attr_int(l->f, (Val){i}, KEY_axis, 0); j < ir_rank(l->f->prog, s); j++)
      if (!is_one(l, ir_dim_at(l->f->prog, s, j))) return false;
  }
  return true;
}

static bool has_as_many(const Look *l, Shape a, Shape b) {
  return ir_shape_numel(l->f->prog, a).i == ir_shape_numel(l->f->prog, b).i;
}

// Columns that the kernel makes, which it may reshape, have the elements of the others, one by one; those in memory have their shape.
static bool has_columns_of(const Look *l, uint32_t i, Shape s) {
  if (op_at(l, i) == OP_reshape) return has_as_many(l, shape_at(l, (Val){i}), s);
  if (!is_interleaved(l, i)) return false;
  for (uint32_t k = 0; k < l->f->ins[i].n_args; k++) {
    Val a = ir_arg(l->f, (Val){i}, k), base = ir_view_base(l->f, a);
    bool is_own = base.i >= l->k->first && base.i < l->end;
    if (is_own ? !has_as_many(l, shape_at(l, a), s) : shape_at(l, a).i != s.i && shape_at(l, base).i != s.i)
      return false;
  }
  return true;
}

// The first that is no such concat, which come behind what they read
static Shape shape_of_elements(const Look *l) {
  uint32_t i = l->k->first;
  while (i < l->end && (is_interleaved(l, i) || op_at(l, i) == OP_reshape)) i++;
  return i < l->end ? shape_at(l, (Val){i}) : shape_at(l, ir_arg(l->f, (Val){l->k->first}, 0));
}

static bool makes_operand(const Look *l, uint32_t i) {
  return class_at(l, i) == CLASS_POINTWISE || class_at(l, i) == CLASS_GATHER ||
         broken_member(l, i, "it makes no operand element by element");
}

// The last member reads rows that the kernel has stored.
static bool check_moments(const Look *l, uint32_t i) {
  Val x = ir_arg(l->f, (Val){i}, 0);
  if (i + l->f->ins[i].n_res != l->end) return broken_member(l, i, "it is not the last one");
  if (x.i < l->lead || x.i >= i || shape_at(l, x).i != shape_at(l, (Val){l->lead}).i)
    return broken_member(l, i, "the kernel does not make what it reads");
  return l->f->buf_of[x.i] || broken_member(l, i, "what it reads has no memory");
}

// Behind the epilogue: of a convolution's result, channels before the axes of pixels; then outputs of that alone.
static bool check_first(const Look *l, uint32_t i) {
  Val x = ir_arg(l->f, (Val){i}, 0);
  Shape perm = ir_attr(l->f, (Val){i}, KEY_perm)->u.list;
  uint32_t rank = ir_rank(l->f->prog, perm);
  bool is_conv = op_at(l, l->lead) == OP_conv || op_at(l, l->lead) == OP_conv_transpose;
  if (!is_conv || x.i < l->lead || shape_at(l, x).i != shape_at(l, (Val){l->lead}).i)
    return broken_member(l, i, "it permutes no result of a convolution");
  for (uint32_t k = 0; k < rank; k++)
    if (ir_list_at(l->f->prog, perm, k) != (k == 0 ? 0 : k == 1 ? rank - 1 : k - 1))
      return broken_member(l, i, "it does more than to put channels first");
  for (uint32_t j = i + 1; j < l->end; j++)
    if (op_at(l, j) != OP_output || ir_arg(l->f, (Val){j}, 0).i != i)
      return broken_member(l, j, "the kernel ends with the permute and its outputs");
  return true;
}

// The permute of a product's kernel, or an output of it.
static bool is_first(const Look *l, uint32_t i) {
  if (l->k->cls != CLASS_GEMM || i <= l->lead) return false;
  return op_at(l, i) == OP_permute || (op_at(l, i) == OP_output && is_first(l, ir_arg(l->f, (Val){i}, 0).i));
}

// Elements of an operand that is not stored are read in their order: by any reduction of integers, and by one of f32 that
// leaves a single number.
static bool takes_made(const Look *l) {
  DType t = (DType)l->f->ins[l->lead].dtype;
  if (!(REAL >> t & 1)) return true;
  Shape to = shape_at(l, (Val){l->lead});
  for (uint32_t k = 0; k < ir_rank(l->f->prog, to); k++)
    if (!is_one(l, ir_dim_at(l->f->prog, to, k))) return false;
  return t == DT_F32 && op_at(l, l->lead) != OP_mean;
}

static bool check_of_class(const Look *l, uint32_t i) {
  switch ((OpClass)l->k->cls) {
  case CLASS_POINTWISE:
    if (has_columns_of(l, i, shape_of_elements(l))) return true;
    if (!is_pointwise(l, i) && class_at(l, i) != CLASS_GATHER) return broken_member(l, i, "it is not pointwise");
    if (is_inner_concat(l, i)) return true;
    if (is_inner_concat(l, l->k->first)) return i + 1 == l->end || broken_member(l, i, "it holds concats of a concat");
    return shape_at(l, (Val){i}).i == shape_of_elements(l).i || broken_member(l, i, "it has another shape");
  case CLASS_ROW:
    if (op_at(l, i) == OP_reshape)
      return has_elements(l, shape_at(l, (Val){i})) || is_number(l, shape_at(l, (Val){i})) ||
             broken_member(l, i, "it has other elements than the rows");
    return is_row_op(l, i) || class_at(l, i) == CLASS_POINTWISE || op_at(l, i) == OP_expand ||
           broken_member(l, i, "it does not work on rows");
  case CLASS_CONV_WEIGHT:
    if (i > l->lead) return broken_member(l, i, "it makes no operand of the gradient");
    return i == l->lead || makes_operand(l, i);
  case CLASS_REDUCE:
    if (i > l->lead) return broken_member(l, i, "nothing follows the reduction");
    if (i == l->lead) return true;
    if (!takes_made(l)) return broken_member(l, i, "the reduction rounds: its operand is stored");
    return class_at(l, i) == CLASS_POINTWISE || broken_member(l, i, "it is not pointwise");
  case CLASS_GEMM:
    if (i == l->lead) return true;
    if (l->f->ins[l->lead].dtype != DT_F32) return broken_member(l, i, "a product of integers stands alone");
    if (i < l->lead) return makes_operand(l, i);
    if (class_at(l, i) == CLASS_MOMENTS) return check_moments(l, i);
    if (is_first(l, i)) return op_at(l, i) == OP_output || check_first(l, i);
    if (class_at(l, i) == CLASS_OPTIMIZER)
      return i + l->f->ins[i].n_res == l->end || broken_member(l, i, "it is not the last one");
    if (class_at(l, i) != CLASS_POINTWISE) return broken_member(l, i, "it is not pointwise");
    return shape_at(l, (Val){i}).i == shape_at(l, (Val){l->lead}).i || broken_member(l, i, "it has another shape");
  case CLASS_PACK_PADDED:
    if (i == l->k->first) return true;
    if (op_at(l, l->k->first) != OP_pack_padded || class_at(l, i) != CLASS_POINTWISE)
      return broken_member(l, i, "it holds packed rows and what is pointwise of them");
    return shape_at(l, (Val){i}).i == shape_at(l, (Val){l->k->first}).i || broken_member(l, i, "it has another shape");
  case CLASS_RNN:
  case CLASS_OPTIMIZER: return class_at(l, i) == (OpClass)l->k->cls || broken_member(l, i, "it is of another class");
  default: return i == l->k->first || broken_member(l, i, "it holds one instruction only");
  }
}

// ---- uses of values of the kernel
static bool reads_direct(const Look *l, uint32_t i, Val a) {
  return class_at(l, i) == CLASS_POINTWISE && shape_at(l, a).i == shape_at(l, (Val){i}).i;
}

static bool reads_own(const Look *l, uint32_t i, uint32_t k, Val a) {
  switch ((OpClass)l->k->cls) {
  case CLASS_POINTWISE:
    if (is_inner_concat(l, a.i)) return i + 1 == l->end;
    if (has_columns_of(l, i, shape_of_elements(l))) return !is_interleaved(l, a.i);
    return reads_direct(l, i, a);
  case CLASS_PACK_PADDED: return reads_direct(l, i, a);
  case CLASS_ROW: return reads_in_row(l, i, k, a);
  case CLASS_REDUCE:
  case CLASS_CONV_WEIGHT: return i == l->lead ? k == 0 : reads_direct(l, i, a);
  case CLASS_GEMM:
    if (i == l->lead) return k < 2;
    if (class_at(l, i) == CLASS_MOMENTS || is_first(l, i)) return k == 0;
    if (class_at(l, i) == CLASS_OPTIMIZER) return k == ir_ops[op_at(l, i)].n_res && !ir_updates_rows(l->f, (Val){i});
    return reads_direct(l, i, a);
  default: return false;
  }
}

// a is base, or reshapes of it in the same kernel
static bool shows(const Look *l, Val a, Val base) {
  while (a.i != base.i && op_at(l, a.i) == OP_reshape && is_made_here(l, a)) a = ir_arg(l->f, a, 0);
  return a.i == base.i;
}

static bool check_own_reads(const Look *l, uint32_t i) {
  for (uint32_t k = 0; k < l->f->ins[i].n_args; k++) {
    Val a = ir_arg(l->f, (Val){i}, k), base = ir_plan_shown(l->f, a);
    if (!is_made_here(l, base)) continue;
    if (base.i >= i) return ir_plan_broken(l->f, (Val){i}, "reads operand %u before its kernel makes it", k);
    if (!shows(l, a, base) || !reads_own(l, i, k, a))
      return ir_plan_broken(l->f, (Val){i},
                            "reads operand %u, which its kernel makes, at other elements than it computes", k);
  }
  return true;
}

// ---- reads of memory that the kernel writes
// Instruction i reads operand k of the recurrence's own rows and units before it writes them.
static bool reads_own_units(const Look *l, uint32_t i, uint32_t k, Val w) {
  if (ir_head(l->f, w).i != i || !same_type(l, ir_arg(l->f, (Val){i}, k), w)) return false;
  if (op_at(l, i) == OP_rnn_seq) return k == 0 && w.i == i + 5 && !ir_has_operand(l->f, (Val){i}, ARG_w_ih);
  return op_at(l, i) == OP_rnn_seq_grad && k == 8 && w.i == i;
}

// If rows have one element, a row scalar may alias it.
static bool reads_row_element(const Look *l, uint32_t i, uint32_t k, Val a, Val w) {
  OpClass made_by = class_at(l, ir_head(l->f, w).i);
  if (made_by != CLASS_POINTWISE && made_by != CLASS_ROW) return false;
  if (!has_elements(l, shape_at(l, a)) && !is_number(l, shape_at(l, a))) return false;
  if (ir_plan_bytes(l->f, a) != ir_plan_bytes(l->f, w)) return false;
  if (class_at(l, i) == CLASS_POINTWISE) return same_type(l, a, (Val){i});
  return is_row_op(l, i) && (row_reads_of(op_at(l, i)).elements >> k & 1) && is_element(l, shape_at(l, a)) &&
         l->f->ins[a.i].dtype == DT_F32;
}

// The gradient may alias the parameter; the other operands of an update are scalars, or gathered.
static bool reads_by_update(const Look *l, uint32_t i, uint32_t k, Val w) {
  return !ir_updates_rows(l->f, (Val){i}) && k == ir_ops[op_at(l, i)].n_res && ir_head(l->f, w).i == i;
}

// A next version aliases the old one element by element, whatever dtype its reader has; in-place reuse also requires
// elements of equal size.
static bool reads_pointwise(const Look *l, uint32_t i, Val a, Val w) {
  bool points = class_at(l, i) == CLASS_POINTWISE && class_at(l, ir_head(l->f, w).i) == CLASS_POINTWISE;
  bool same_place = l->f->buf_of[a.i] == l->f->buf_of[w.i] && l->f->ins[a.i].dtype == l->f->ins[w.i].dtype;
  return points && reads_direct(l, i, a) && shape_at(l, w).i == shape_at(l, a).i &&
         (same_place || same_type(l, a, (Val){i}));
}

// Behind a product: w takes the place of an operand of its type, or is its next version.
static bool reads_behind_product(const Look *l, uint32_t i, Val a, Val w) {
  uint32_t by = ir_head(l->f, w).i;
  bool points = class_at(l, i) == CLASS_POINTWISE && class_at(l, by) == CLASS_POINTWISE;
  bool is_next = (ir_ops[op_at(l, by)].flags & WRITES) && reads_pointwise(l, i, a, w);
  return i > l->lead && by > l->lead && points && !is_first(l, by) && (same_type(l, a, (Val){i}) || is_next);
}

// Instruction i reads element e of operand k before element e of w is written, and no other worker writes that.
static bool reads_by_element(const Look *l, uint32_t i, uint32_t k, Val w) {
  Val a = ir_arg(l->f, (Val){i}, k);
  uint32_t by = ir_head(l->f, w).i;
  switch ((OpClass)l->k->cls) {
  case CLASS_POINTWISE: return reads_pointwise(l, i, a, w);
  case CLASS_GEMM: return reads_behind_product(l, i, a, w);
  case CLASS_PACK_PADDED:
    return i > l->k->first && by > l->k->first && class_at(l, i) == CLASS_POINTWISE && same_type(l, a, w) &&
           same_type(l, a, (Val){i});
  case CLASS_ROW: return reads_row_element(l, i, k, a, w);
  case CLASS_RNN: return reads_own_units(l, i, k, w);
  case CLASS_OPTIMIZER: return reads_by_update(l, i, k, w);
  case CLASS_AXIS_SCATTER: return k == 0 && same_type(l, a, w);
  case CLASS_SCATTER: return k == 3 && same_type(l, a, w);
  default: return false;
  }
}

static bool is_write_to(const Look *l, uint32_t i, uint32_t k, Val w) {
  return (ir_ops[op_at(l, i)].flags & WRITES) && ir_head(l->f, w).i == i && w.i - i == k;
}

// In-place reuse by w: of a whole buffer, and recorded in Buf.reuses.
static bool check_taken_over(const Look *l, Val w, uint32_t from) {
  uint32_t to = l->f->buf_of[w.i];
  const Buf *a = &l->f->bufs[from], *b = &l->f->bufs[to];
  if (a->offset != b->offset || a->bytes != b->bytes)
    return ir_plan_broken(l->f, w, "overlaps an operand of its kernel without taking its place exactly");
  return b->reuses == from || ir_plan_broken(l->f, w, "takes the place of an operand without saying so");
}

// Sums over shards lie in the buffer of their exchange.
static uint32_t place_of(const Fn *f, Val v) {
  uint32_t own = f->buf_of[v.i], sums = f->bufs[own].within;
  return sums ? sums : own;
}

static bool check_read_write(const Look *l, uint32_t i, uint32_t k, Val w) {
  Val operand = ir_arg(l->f, (Val){i}, k);
  uint32_t from = place_of(l->f, operand), to = place_of(l->f, w);
  bool is_sum = from != l->f->buf_of[operand.i];
  if (!to || (is_sum && to == from) || ir_plan_is_same_bytes(l->f, w) || !ir_plan_overlap(l->f, from, to)) return true;
  if (is_write_to(l, i, k, w)) return true;
  if (!reads_by_element(l, i, k, w)) {
    RtText name = {.mem = l->f->prog->mem};
    ir_print_name(l->f, w, &name);
    return ir_plan_broken(l->f, (Val){i}, "does not read operand %u element by element, but its kernel writes %s there",
                          k, name.text);
  }
  return from == to || check_taken_over(l, w, from);
}

static bool check_reads(const Look *l, uint32_t i) {
  const Fn *f = l->f;
  for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
    uint32_t from = f->buf_of[ir_arg(f, (Val){i}, k).i];
    if (!from || is_made_here(l, ir_plan_shown(f, ir_arg(f, (Val){i}, k)))) continue;
    if (l->k->scratch && ir_plan_overlap(f, from, l->k->scratch))
      return ir_plan_broken(l->f, (Val){i}, "reads operand %u from the scratch of its kernel", k);
    for (uint32_t w = l->k->first; w < l->end; w++)
      if (!check_read_write(l, i, k, (Val){w})) return false;
  }
  return true;
}

// i is the next version of w, both in this kernel: elementwise, in order.
static bool is_next_version(const Look *l, uint32_t i, uint32_t w) {
  Val h = ir_head(l->f, (Val){i});
  if (!(ir_ops[op_at(l, h.i)].flags & WRITES)) return false;
  Val old = ir_plan_shown(l->f, ir_arg(l->f, h, i - h.i));
  return old.i == w || (is_made_here(l, old) && is_next_version(l, old.i, w));
}

static bool check_results(const Look *l, uint32_t i) {
  uint32_t own = l->f->buf_of[i];
  if (!own || ir_plan_is_same_bytes(l->f, (Val){i})) return true;
  if (l->k->scratch && ir_plan_overlap(l->f, own, l->k->scratch))
    return ir_plan_broken(l->f, (Val){i}, "is written to the scratch of its kernel");
  for (uint32_t w = l->k->first; w < i; w++) {
    uint32_t other = l->f->buf_of[w];
    if (!other || ir_plan_is_same_bytes(l->f, (Val){w}) || !ir_plan_overlap(l->f, own, other)) continue;
    if (own != other || !is_next_version(l, i, w))
      return ir_plan_broken(l->f, (Val){i}, "is written where another result of its kernel is");
  }
  return true;
}

bool ir_plan_check_kernel(Fn *f, uint32_t kernel) {
  const Kernel *k = &f->kernels[kernel];
  Look l = {.f = f, .k = k, .number = kernel, .end = k->first + k->n, .lead = k->first};
  bool has_prologue = ir_classes[k->cls].flags & HAS_PROLOGUE;
  while (has_prologue && l.lead < l.end && class_at(&l, l.lead) != (OpClass)k->cls) l.lead++;
  if (l.lead == l.end)
    return ir_plan_broken(f, (Val){k->first}, "stands in a kernel of class %s without an operation of it",
                          ir_class_name((OpClass)k->cls));
  if (k->cls == CLASS_ROW) find_rows(&l);
  for (uint32_t i = k->first; i < l.end; i++) {
    if (!check_results(&l, i)) return false;
    if (is_result(&l, i)) continue;
    if (!check_of_class(&l, i) || !check_own_reads(&l, i) || !check_reads(&l, i)) return false;
  }
  return true;
}
