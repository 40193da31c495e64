// What a kernel may hold: may_join(group, v) is NULL, or says why the instruction v is in no kernel with the group's members.
// One function for each class of kernels.
//
// Pointwise kernel: POINTWISE and INDEX instructions of one shape, which read each other's values element by element, and rows of
// tables that are looked up.
//
// Product: pointwise instructions of its shape, its epilogue, which may assign; as its last member the update of the parameter
// whose gradient it makes, the moments of what it makes, or, of a convolution, the permute that puts channels first. Rows that are packed take pointwise instructions likewise.
//
// Row kernel: row ops over one row space, and pointwise instructions on elements or row scalars of these rows; values of
// the kernel are read row-locally, elements of contiguous rows through reshapes too. A pointwise kernel turns into one when a
// row op joins:
//
//   %a = mul %x, %y : f32[n,64]                  k0
//   %s = sum %a {axes=[1], keepdim} : f32[n,1]   k0
//   %b = sub %a, %s : f32[n,64]                  k0
//
// Recurrences side by side, and updates of parameters, which do not read each other.
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "ir/passes/fusion/groups.h"
#include "ir/passes/plan.h"
#include "ir/remarks.h"
#include "ir/storage.h"
#include "ir/text/text.h"

enum { MAX_INPUTS = 24, MAX_RECURRENCES = 4, MAX_UPDATES = 64, MAX_ROW_OPS = 6 };

static const char too_many[] = "the kernel has as many instructions as one may have";

OpClass ir_kernel_class(const Fn *f, uint32_t i) { return (OpClass)ir_classes[ir_ops[f->ins[i].op].cls].kernel; }

static OpClass class_of(const Fn *f, uint32_t i) { return (OpClass)ir_ops[f->ins[i].op].cls; }
static bool is_inside(const Groups *g, uint32_t to, Val v, uint32_t head) {
  return (to && g->of[head] == to) || head == v.i;
}

// ---- reads within the kernel, and of what it overwrites
static bool reads_elementwise(const Fn *f, uint32_t i, Val a) {
  return class_of(f, i) == CLASS_POINTWISE && ir_view_base(f, a).i == a.i && f->ins[a.i].shape.i == f->ins[i].shape.i;
}

// Instruction i overwrites the buffer of a.
static bool overwrites(const Fn *f, uint32_t i, Val a) {
  return (ir_ops[f->ins[i].op].flags & WRITES) && ir_storage_root(f, (Val){i}).i == ir_storage_root(f, a).i;
}

// Instruction i reads what instruction of makes, or overwrites, in another way than element by element.
static const char *pair_bar(const Fn *f, uint32_t i, uint32_t of) {
  for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
    Val a = ir_arg(f, (Val){i}, k);
    if (reads_elementwise(f, i, a)) continue;
    if (ir_head(f, ir_view_base(f, a)).i == of)
      return "it reads a value of the kernel otherwise than element by element: through a view, broadcast or by an "
             "index";
    if (!ir_is_immediate(f, ir_view_base(f, a)) && overwrites(f, of, a))
      return "it reads, otherwise than element by element, a buffer that the kernel overwrites";
  }
  return NULL;
}

static const char *element_bar(const Groups *g, const Group *k, Val v) {
  for (uint32_t i = k->first; i; i = g->next[i]) {
    const char *bar = pair_bar(g->f, v.i, i);
    if (bar) return bar;
    if (pair_bar(g->f, i, v.i))
      return "what it makes or overwrites is read in the kernel otherwise than element by element";
  }
  return NULL;
}

// ---- sizes
// Input streams of instruction i: the parts of a concat are read one at a time, a generator is made where it is read, and a
// constant is no memory.
static uint32_t inputs_of(const Groups *g, uint32_t to, Val v, uint32_t i) {
  const Fn *f = g->f;
  uint32_t n = 0, n_args = f->ins[i].op == OP_concat ? 1 : f->ins[i].n_args;
  for (uint32_t j = 0; j < n_args; j++) {
    uint32_t a = ir_head(f, ir_view_base(f, ir_arg(f, (Val){i}, j))).i;
    bool is_made = class_of(f, a) == CLASS_POINTWISE && !f->ins[a].n_args;
    n += !is_inside(g, to, v, a) && !is_made && !ir_is_immediate(f, (Val){a});
  }
  return n;
}

static const char *size_bar(const Groups *g, uint32_t to, Val v) {
  const Group *k = &g->list[to];
  if (k->n >= MAX_VALUES) return too_many;
  uint32_t n = inputs_of(g, 0, (Val){0}, v.i);
  for (uint32_t i = k->first; i; i = g->next[i]) n += inputs_of(g, to, v, i);
  return n > MAX_INPUTS ? "together they would read more arrays than a kernel may" : NULL;
}

static bool concats_fit(const Groups *g, const Group *k, Val v) {
  for (uint32_t i = k->first; i; i = g->next[i])
    if (!ir_concat_pair_fits(g->f, (Val){i}, v)) return false;
  return true;
}

// ---- pointwise
// Each column is in registers, or lies in memory as the kernel walks over it.
static const char *interleave_bar(const Groups *g, uint32_t to, Val v) {
  const Fn *f = g->f;
  Shape shape = ir_shape_of_elements(g, &g->list[to]);
  bool is_made = false;
  for (uint32_t i = g->list[to].first; i; i = g->next[i]) {
    if (pair_bar(f, i, v.i)) return "what it makes is read in the kernel";
    for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++)
      if (!ir_is_immediate(f, ir_view_base(f, ir_arg(f, v, k))) && overwrites(f, i, ir_arg(f, v, k)))
        return "it reads a buffer that the kernel overwrites";
  }
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Val a = ir_arg(f, v, k), base = ir_view_base(f, a);
    bool is_own = g->of[base.i] == to && !ir_is_interleaved(f, base);
    if (!is_own && ir_ins(f, a)->shape.i != shape.i && ir_ins(f, base)->shape.i != shape.i)
      return "its columns are not what the kernel walks over";
    if (is_own && ir_shape_numel(f->prog, shape).i != ir_shape_numel(f->prog, ir_ins(f, a)->shape).i)
      return "its columns have other elements than the kernel";
    is_made |= is_own;
  }
  return is_made ? size_bar(g, to, v) : "it reads nothing that the kernel makes";
}

static const char *point_bar(const Groups *g, uint32_t to, Val v) {
  const Group *k = &g->list[to];
  if (ir_kernel_class(g->f, v.i) != CLASS_POINTWISE) return "";
  if (ir_joins_nest(g, k, v)) return size_bar(g, to, v);
  if (ir_is_nest(g, k)) return "a concat of concats is a kernel of its own";
  if (ir_is_interleaved(g->f, v)) return interleave_bar(g, to, v);
  if (ir_ins(g->f, v)->shape.i != ir_shape_of_elements(g, k).i) return "its shape is not that of the kernel";
  const char *bar = size_bar(g, to, v);
  if (!bar) bar = element_bar(g, k, v);
  if (!bar && !concats_fit(g, k, v)) bar = "a concat in it is cut in other places, or its runs are short";
  return bar;
}

// ---- rows
static bool rows_of(const Groups *g, const Group *k, Val v, RowSpace *rows) {
  for (uint32_t i = k->first; i; i = g->next[i])
    if (ir_row_space(g->f, (Val){i}, rows)) return true;
  return ir_row_space(g->f, v, rows);
}

static bool is_row_member(const Groups *g, uint32_t to, Val v, uint32_t i, RowSpace rows) {
  const Fn *f = g->f;
  if (!ir_row_member(f, (Val){i}, rows)) return false;
  for (uint32_t j = 0; j < f->ins[i].n_args; j++) {
    Val a = ir_arg(f, (Val){i}, j), base = ir_view_base(f, a);
    if (!is_inside(g, to, v, ir_head(f, base).i)) continue;
    if (!ir_row_reads(f, (Val){i}, j, rows) || (base.i != a.i && !ir_row_passes(f, a, rows))) return false;
  }
  return true;
}

// Rows along an axis before the last one are read a vector at a time, where a reduction by itself reads whole lines of columns.
static bool reduces_alone(const Groups *g, const Group *k, Val v, RowSpace rows) {
  const Fn *f = g->f;
  if (rows.axis + 1 == ir_rank(f->prog, rows.shape) || ir_ins(f, v)->shape.i == rows.shape.i) return false;
  for (uint32_t i = k->first; i; i = g->next[i])
    if (f->ins[i].shape.i == rows.shape.i) return false;
  return true;
}

static const char *row_bar(const Groups *g, uint32_t to, Val v) {
  const Fn *f = g->f;
  const Group *k = &g->list[to];
  RowSpace rows, own;
  uint32_t n = 0;
  if (!rows_of(g, k, v, &rows)) return "";
  if (!ir_row_fits(f->prog, rows)) return "rows of this size gain nothing from a kernel of several operations";
  const char *bar = size_bar(g, to, v);
  if (bar) return bar;
  if (!is_row_member(g, to, v, v.i, rows))
    return "it makes or reads something else than elements and scalars of the kernel's rows";
  for (uint32_t i = k->first; i; i = g->next[i]) {
    if (!is_row_member(g, to, v, i, rows)) return "the kernel has operations that do not go by these rows";
    n += ir_row_space(f, (Val){i}, &own) || ir_column_sum(f, (Val){i}, &own);
  }
  if (reduces_alone(g, k, v, rows)) return "a reduction of strided rows gains nothing from what its result becomes";
  if (n + (ir_row_space(f, v, &own) || ir_column_sum(f, v, &own)) > MAX_ROW_OPS)
    return "the kernel has as many row operations as one may have";
  return ir_none(k->wanted) ? NULL : "rows are computed whole";
}

static const char *point_or_row_bar(const Groups *g, uint32_t to, Val v) {
  const char *bar = point_bar(g, to, v), *row = bar ? row_bar(g, to, v) : NULL;
  return bar && row && *row ? row : row ? bar : NULL;
}

// ---- products
// Instruction i, a member behind the lead, is the permute that stores what the kernel makes with channels first.
static bool is_first_permute(const Fn *f, uint32_t i, const Group *k) {
  return f->ins[i].op == OP_permute && i > k->lead;
}

// Windows move by one element along the last axis: pixels that are computed together are neighbours.
static bool makes_neighbours(const Fn *f, Val product) {
  Conv c;
  if (!ir_is_conv((Op)ir_ins(f, product)->op)) return false;
  ir_conv(f, product, &c);
  bool by_one = ir_ins(f, product)->op == OP_conv || c.stride[CONV_AXES - 1] == 1;
  return !c.channels_first && by_one && c.dilation[CONV_AXES - 1] == 1;
}

// What a convolution makes may be stored with channels first, too, while it is in L1: by a permute, of which outputs are made.
static const char *first_bar(const Groups *g, uint32_t to, Val v) {
  const Fn *f = g->f;
  const Group *k = &g->list[to];
  Val x = ir_arg(f, v, 0);
  if (!is_inside(g, to, v, x.i) || x.i < k->lead || ir_ins(f, x)->shape.i != f->ins[k->lead].shape.i)
    return "it permutes nothing that the kernel makes";
  if (!makes_neighbours(f, (Val){k->lead}))
    return "the product is no convolution whose neighbouring pixels are computed together";
  return ir_moves_channels(f, v, true) ? NULL : "it does more than to put channels first";
}

// Its kernel ends with one update or moments, and what reads an updated value comes behind it.
static const char *end_bar(const Groups *g, const Group *k, Val v) {
  const Fn *f = g->f;
  bool is_end = class_of(f, v.i) == CLASS_OPTIMIZER || ir_ins(f, v)->op == OP_moments || ir_ins(f, v)->op == OP_permute;
  for (uint32_t i = k->first; i; i = g->next[i]) {
    if (is_first_permute(f, i, k) && is_end) return "the kernel of the product ends with a permute";
    if (class_of(f, i) == CLASS_OPTIMIZER && (is_end || i < v.i))
      return "the kernel of the product ends with an update";
    if (class_of(f, i) == CLASS_OPTIMIZER && ir_update_overwrites(f, (Val){i}, v.i))
      return "it reads what the update at the end of the kernel overwrites";
    if (f->ins[i].op == OP_moments && is_end) return "the kernel of the product has moments already";
  }
  return NULL;
}

// What is assigned in an epilogue is not read by the product or before it, where elements come in another order.
static const char *assign_bar(const Groups *g, const Group *k, Val v) {
  const Fn *f = g->f;
  for (uint32_t i = k->first; i; i = g->next[i])
    for (uint32_t a = 0; a < f->ins[i].n_args; a++)
      if (i <= k->lead && overwrites(f, v.i, ir_arg(f, (Val){i}, a)))
        return "the kernel of the product reads what it would overwrite";
  for (uint32_t a = 0; v.i < k->lead && a < ir_ins(f, v)->n_args; a++)
    for (uint32_t i = k->first; i; i = g->next[i])
      if (overwrites(f, i, ir_arg(f, v, a))) return "it reads before the product what the kernel overwrites";
  return NULL;
}

// What an epilogue takes, whatever it reads.
static const char *epilogue_bar(const Groups *g, uint32_t to, Val v) {
  const OpInfo *op = &ir_ops[ir_ins(g->f, v)->op];
  if (op->cls != CLASS_POINTWISE) return "what follows in such a kernel is pointwise";
  if ((op->flags & WRITES) && ir_ins(g->f, v)->op != OP_assign)
    return "what follows in such a kernel assigns whole values alone";
  if (ir_ins(g->f, v)->shape.i != g->f->ins[g->list[to].lead].shape.i) return "its shape is not that of the kernel";
  if (!(op->flags & (EFFECT | WRITES)) && ir_idles_lanes(g->f, (Val){g->list[to].lead}, v))
    return "the product has many short rows, of which it would take one at a time";
  const char *bar = size_bar(g, to, v);
  if (!bar) bar = assign_bar(g, &g->list[to], v);
  return bar ? bar : element_bar(g, &g->list[to], v);
}

// Its places are those of no other member, even where sizes are the same.
static bool reads_first_permute(const Groups *g, uint32_t to, Val v) {
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++) {
    Val x = ir_arg(g->f, v, k);
    if (g->of[x.i] == to && is_first_permute(g->f, x.i, &g->list[to])) return true;
  }
  return false;
}

static const char *product_bar(const Groups *g, uint32_t to, Val v) {
  const Fn *f = g->f;
  const Group *k = &g->list[to];
  if (!ir_is_product(f, (Val){k->lead})) return "products of integers end their kernels";
  const char *bar = end_bar(g, k, v);
  if (bar) return bar;
  if (class_of(f, v.i) == CLASS_OPTIMIZER) return ir_update_bar(g, to, v);
  if (ir_ins(f, v)->op == OP_permute) return first_bar(g, to, v);
  Val x = ir_ins(f, v)->n_args ? ir_arg(f, v, 0) : (Val){0};
  if (ir_ins(f, v)->op == OP_output && g->of[x.i] == to && is_first_permute(f, x.i, k)) return NULL;
  if (reads_first_permute(g, to, v)) return "it reads what the kernel stores with channels first";
  if (ir_ins(f, v)->op != OP_moments) return epilogue_bar(g, to, v);
  if (g->of[x.i] != to || x.i < k->lead) return "it reads nothing that the kernel makes";
  return ir_ins(f, x)->shape.i == f->ins[k->lead].shape.i ? NULL : "its rows are not those of the product";
}

bool ir_takes_packed_readers(const Fn *f, Val v) { return ir_ins(f, v)->op == OP_pack_padded; }

static const char *pack_bar(const Groups *g, uint32_t to, Val v) {
  if (ir_ops[ir_ins(g->f, v)->op].flags & WRITES) return "what follows in such a kernel writes nothing in place";
  return ir_takes_packed_readers(g->f, (Val){g->list[to].lead}) ? epilogue_bar(g, to, v) : "";
}

// ---- recurrences and updates
static bool reads(const Fn *f, uint32_t i, uint32_t of) {
  for (uint32_t k = 0; k < f->ins[i].n_args; k++)
    if (ir_head(f, ir_view_base(f, ir_arg(f, (Val){i}, k))).i == of) return true;
  return false;
}

// v reads what a member makes, or a member what v makes.
static bool are_chained(const Groups *g, uint32_t to, Val v) {
  for (uint32_t i = g->list[to].first; i; i = g->next[i])
    if (reads(g->f, v.i, i) || reads(g->f, i, v.i)) return true;
  return false;
}

static const char *rnn_bar(const Groups *g, uint32_t to, Val v) {
  const Group *k = &g->list[to];
  const Ins *ins = ir_ins(g->f, v), *lead = &g->f->ins[k->lead];
  if (ins->op != lead->op) return "";
  if (ins->shape.i != lead->shape.i) return "its size is not that of the kernel's recurrence";
  if (ir_attr(g->f, v, KEY_cell)->u.s.i != ir_attr(g->f, (Val){k->lead}, KEY_cell)->u.s.i)
    return "its cell is another one";
  if (k->n >= (uint32_t)MAX_RECURRENCES * lead->n_res) return "the kernel has as many recurrences as one may have";
  return are_chained(g, to, v) ? "it reads what the kernel's recurrence makes, or that reads it" : NULL;
}

// Neither overwrites a buffer that the other one reads or writes; shared read-only operands are fine.
static bool updates_are_independent(const Fn *f, Val a, Val b) {
  uint32_t wa = ir_ins(f, a)->n_res, wb = ir_ins(f, b)->n_res;
  for (uint32_t i = 0; i < ir_ins(f, a)->n_args; i++)
    for (uint32_t k = 0; k < ir_ins(f, b)->n_args; k++)
      if ((i < wa || k < wb) && ir_storage_root(f, ir_arg(f, a, i)).i == ir_storage_root(f, ir_arg(f, b, k)).i)
        return false;
  return true;
}

// Multi-tensor updates, which share their scalars (learning rate, ..). A sparse update has a partition of its own.
static const char *updates_bar(const Groups *g, uint32_t to, Val v) {
  const Group *k = &g->list[to];
  uint32_t n = 0;
  if (class_of(g->f, v.i) != CLASS_OPTIMIZER) return "";
  if (ir_updates_rows(g->f, (Val){k->lead}) || ir_updates_rows(g->f, v))
    return "a sparse update is a kernel of its own";
  for (uint32_t i = k->first; i; i = g->next[i]) {
    if (++n >= MAX_UPDATES) return too_many;
    if (!updates_are_independent(g->f, (Val){i}, v)) return "one of the updates writes what the other reads or writes";
  }
  return are_chained(g, to, v) ? "it reads what an update of the kernel makes, or that reads it" : NULL;
}

typedef const char *BarOf(const Groups *g, uint32_t to, Val v);
static BarOf *const bars[N_CLASSES] = {
    [CLASS_POINTWISE] = point_or_row_bar, [CLASS_REDUCE] = row_bar,       [CLASS_ROW] = row_bar,
    [CLASS_GEMM] = product_bar,           [CLASS_PACK_PADDED] = pack_bar, [CLASS_RNN] = rnn_bar,
    [CLASS_OPTIMIZER] = updates_bar,
};

const char *ir_may_join(const Groups *g, uint32_t to, Val v) {
  const Group *k = &g->list[to];
  if (g->wanted && k->wanted.i != g->wanted[v.i].i) return "the process computes another part of it than of the kernel";
  const char *bar = bars[k->cls] ? bars[k->cls](g, to, v) : "";
  if (bar && !*bar && ir_remarks_are_kept(g->f))
    bar = rt_printf(g->f->prog->mem, "a kernel of class %s takes no %s", ir_class_name((OpClass)k->cls),
                    ir_ops[ir_ins(g->f, v)->op].name);
  return bar;
}
