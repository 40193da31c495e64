// Pass fuse: forms kernels from neighbours in the schedule.
//
//   %1 = mul %x, %x : f32[n]        k0
//   %2 = add %1, %x : f32[n]        k0      %1 stays in a register unless another kernel reads it
//   %3 = sum %2 {axes=[0]}          k1
//
// Pointwise kernel: consecutive POINTWISE and INDEX instructions of one shape. Values of the kernel are read elementwise
// only. These start a new kernel: a read of one of its values in another way (broadcast, through a view, by an INDEX op);
// a concat of short runs or with other segments (fuse_concat.c); a non-elementwise read of a buffer that the kernel
// overwrites, and a write to a buffer that it reads non-elementwise.
//
// Product: takes the pointwise instructions that follow it as its epilogue, under the same conditions, together with what
// is pointwise of inputs and read there alone (epilogue_sources.c); the update of the
// parameter whose gradient it computes (fuse_update.c); and as its prologue the producers of an operand that has no
// other use (fuse_prologue.c). Recurrent kernel: consecutive, independent recurrences. So is a kernel of updates. Rows
// that are packed take the pointwise instructions that follow them as a product does.
//
// Row kernel: row ops over one row space, and pointwise instructions on elements or row scalars of these rows; values of
// the kernel are read row-locally. A pointwise kernel turns into one when a row op reads its values:
//
//   %a = mul %x, %y : f32[n,64]                  k0
//   %s = sum %a {axes=[1], keepdim} : f32[n,1]   k0
//   %b = sub %a, %s : f32[n,64]                  k0
#include "ir/fn.h"
#include "ir/ir.h"
#include "ir/packed_dims.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/remarks.h"
#include "ir/storage.h"
#include "ir/text/text.h"
#include <string.h>

enum { MAX_GROUP = 64, MAX_GROUP_INPUTS = 24, MAX_RNN_GROUP = 4, MAX_UPDATES = 64, NO_KERNEL = UINT32_MAX };

Val ir_anchor(const Fn *f, const Kernel *k) {
  uint32_t i = k->first;
  bool has_prologue = ir_classes[k->cls].flags & HAS_PROLOGUE;
  while (has_prologue && ir_ops[f->ins[i].op].cls != k->cls) i++;
  return (Val){i};
}

Val ir_moments_of(const Fn *f, const Kernel *k) {
  Val last = ir_head(f, (Val){k->first + k->n - 1});
  return k->cls == CLASS_GEMM && ir_ins(f, last)->op == OP_moments ? last : (Val){0};
}

uint32_t ir_end_of_elements(const Fn *f, const Kernel *k) {
  Val moments = ir_moments_of(f, k);
  return ir_none(moments) ? k->first + k->n : moments.i;
}

static OpClass kernel_class(const Fn *f, uint32_t i) { return (OpClass)ir_classes[ir_ops[f->ins[i].op].cls].kernel; }

// Instruction i reads operand a elementwise.
static bool reads_elementwise(const Fn *f, uint32_t i, Val a) {
  return ir_ops[f->ins[i].op].cls == CLASS_POINTWISE && ir_view_base(f, a).i == a.i &&
         f->ins[a.i].shape.i == f->ins[i].shape.i;
}

static bool depends_on_kernel(const Fn *f, Val v, uint32_t kernel) {
  for (uint32_t k = 0; k < f->ins[v.i].n_args; k++)
    if (f->kernel_of[ir_view_base(f, ir_arg(f, v, k)).i] == kernel) return true;
  return false;
}

// ---- bars: what stands against an instruction joining a kernel. NULL: nothing does. A program that keeps remarks keeps
// the sentence (tenure why).
static const char other_kind[] = "";  // such a kernel takes no such instruction, whatever it reads
static const char too_many[] = "the kernel has as many instructions as one may have";
static const char too_many_inputs[] = "together they would read more arrays than a kernel may";
static const char nothing_shared[] = "it reads nothing that the kernel makes";

// Every operand of v is read elementwise, or neither defined nor overwritten in the kernel.
static const char *read_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  for (uint32_t j = 0; j < f->ins[v.i].n_args; j++) {
    Val a = ir_arg(f, v, j), base = ir_view_base(f, a);
    bool elementwise = reads_elementwise(f, v.i, a);
    if (f->kernel_of[base.i] == kernel && !elementwise)
      return "it reads a value of the kernel otherwise than element by element: through a view, broadcast or by an "
             "index";
    if (elementwise || ir_is_immediate(f, base)) continue;
    for (uint32_t i = k->first; i < k->first + k->n; i++)  // the kernel overwrites this buffer
      if ((ir_ops[f->ins[i].op].flags & WRITES) && ir_storage_root(f, (Val){i}).i == ir_storage_root(f, base).i)
        return "it reads, otherwise than element by element, a buffer that the kernel overwrites";
  }
  return NULL;
}

// If v overwrites a buffer, every read of it in the kernel is elementwise.
static const char *write_bar(const Fn *f, const Kernel *k, Val v) {
  if (!(ir_ops[f->ins[v.i].op].flags & WRITES)) return NULL;
  Val root = ir_storage_root(f, v);
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    for (uint32_t j = 0; j < f->ins[i].n_args; j++) {
      Val a = ir_arg(f, (Val){i}, j);
      if (ir_storage_root(f, a).i == root.i && !reads_elementwise(f, i, a))
        return "it overwrites a buffer that the kernel reads otherwise than element by element";
    }
  return NULL;
}

static uint32_t inputs_of(const Fn *f, const Kernel *k, uint32_t kernel) {
  uint32_t n = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    for (uint32_t j = 0; f->ins[i].op != OP_result && j < f->ins[i].n_args; j++)
      n += f->kernel_of[ir_view_base(f, ir_arg(f, (Val){i}, j)).i] != kernel && (j == 0 || f->ins[i].op != OP_concat);
  return n;
}

// Input streams of v: the parts of a concat are read one at a time. A generator needs room for its reader too: split
// from it, it would be stored.
static uint32_t streams_of(const Fn *f, Val v) {
  enum { OF_READER = 2 };
  if (ir_ins(f, v)->op == OP_concat) return 1;
  return ir_ins(f, v)->n_args ? ir_ins(f, v)->n_args : OF_READER;
}

static const char *group_bar(const Fn *f, const Kernel *k, uint32_t kernel, uint32_t n_streams) {
  if (k->n >= MAX_GROUP) return too_many;
  return inputs_of(f, k, kernel) + n_streams > MAX_GROUP_INPUTS ? too_many_inputs : NULL;
}

static const char *point_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  Ins *ins = ir_ins(f, v), *anchor = &f->ins[k->first];
  if (k->cls != CLASS_POINTWISE || kernel_class(f, v.i) != CLASS_POINTWISE) return other_kind;
  if (ins->shape.i != anchor->shape.i) return "its shape is not that of the kernel";
  const char *bar = group_bar(f, k, kernel, streams_of(f, v));
  if (!bar) bar = read_bar(f, k, kernel, v);
  if (!bar) bar = write_bar(f, k, v);
  if (!bar && !ir_concat_fits(f, k, v)) bar = "a concat in it is cut in other places, or its runs are short";
  return bar;
}

static bool reads_value(const Fn *f, uint32_t i, const bool *of, uint32_t first, uint32_t n) {
  for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
    uint32_t a = ir_arg(f, (Val){i}, k).i;
    if (a >= first && a < first + n && of[a - first]) return true;
  }
  return false;
}

// A source of the epilogue: an instruction that needs both v and the kernel follows, with nothing between but what is
// pointwise of the same shape.
static bool is_source(const Fn *f, uint32_t kernel, Val v) {
  bool from_v[MAX_GROUP] = {true}, from_kernel[MAX_GROUP] = {false};
  for (uint32_t i = v.i + 1, n = 1; i < f->n_ins && n < MAX_GROUP; i++, n++) {
    if (ir_ops[f->ins[i].op].cls != CLASS_POINTWISE || f->ins[i].shape.i != ir_ins(f, v)->shape.i) return false;
    from_v[n] = reads_value(f, i, from_v, v.i, n);
    from_kernel[n] = depends_on_kernel(f, (Val){i}, kernel) || reads_value(f, i, from_kernel, v.i, n);
    if (from_v[n] && from_kernel[n]) return true;
  }
  return false;
}

static bool has_update(const Fn *f, const Kernel *k) {
  return kernel_class(f, ir_head(f, (Val){k->first + k->n - 1}).i) == CLASS_OPTIMIZER;
}

// What an epilogue takes, whatever it reads.
static const char *epilogue_bar(const Fn *f, Val v) {
  const OpInfo *op = &ir_ops[ir_ins(f, v)->op];
  if (op->cls != CLASS_POINTWISE) return "what follows in such a kernel is pointwise";
  return op->flags & WRITES ? "what follows in such a kernel writes nothing in place" : NULL;
}

// Moments of what a product's kernel makes are its last member.
static const char *moments_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  Val x = ir_arg(f, v, 0);
  if (f->kernel_of[x.i] != kernel || x.i < ir_anchor(f, k).i) return nothing_shared;
  if (ir_ins(f, x)->shape.i != ir_ins(f, ir_anchor(f, k))->shape.i) return "its rows are not those of the product";
  if (has_update(f, k)) return "the kernel of the product ends with the update of a parameter";
  return ir_none(ir_moments_of(f, k)) ? NULL : "the kernel of the product has moments already";
}

// The epilogue of a product: elementwise uses of it, and of what is in its epilogue already; and sources.
static const char *product_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  Ins *ins = ir_ins(f, v);
  if (!ir_is_product(f, ir_anchor(f, k))) return "products of integers end their kernels";
  if (ir_ins(f, v)->op == OP_moments) return moments_bar(f, k, kernel, v);
  if (!ir_none(ir_moments_of(f, k))) return "the kernel of the product ends with moments of what it makes";
  const char *bar = epilogue_bar(f, v);
  if (ins->shape.i != ir_ins(f, ir_anchor(f, k))->shape.i) return bar ? bar : "its shape is not that of the product";
  if (has_update(f, k)) return "the kernel of the product ends with the update of a parameter";
  if (ir_joins_update(f, k, kernel, v)) return NULL;
  if (!bar) bar = group_bar(f, k, kernel, ins->n_args);
  if (bar) return bar;
  return depends_on_kernel(f, v, kernel) || is_source(f, kernel, v) ? read_bar(f, k, kernel, v) : nothing_shared;
}

// ---- packed rows
bool ir_takes_packed_readers(const Fn *f, Val v) { return ir_ins(f, v)->op == OP_pack_padded; }

// Elementwise uses of the rows, and of what is in their kernel already: done as each row is moved.
static const char *pack_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  Val rows = {k->first};
  Ins *ins = ir_ins(f, v);
  if (!ir_takes_packed_readers(f, rows)) return other_kind;
  const char *bar = epilogue_bar(f, v);
  if (bar) return bar;
  if (ins->shape.i != ir_ins(f, rows)->shape.i) return "its shape is not that of the packed rows";
  bar = group_bar(f, k, kernel, ins->n_args);
  if (bar) return bar;
  return depends_on_kernel(f, v, kernel) ? read_bar(f, k, kernel, v) : nothing_shared;
}

// ---- row kernels
enum { MAX_ROW_OPS = 6 };

// The row space of the kernel together with v.
static bool rows_with(const Fn *f, const Kernel *k, Val v, RowSpace *rows) {
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (ir_row_space(f, (Val){i}, rows)) return true;
  return ir_row_space(f, v, rows);
}

static bool is_row_member(const Fn *f, uint32_t kernel, Val v, RowSpace rows) {
  if (!ir_row_member(f, v, rows)) return false;
  for (uint32_t j = 0; j < f->ins[v.i].n_args; j++) {
    Val a = ir_arg(f, v, j), base = ir_view_base(f, a);
    if (f->kernel_of[base.i] == kernel && (base.i != a.i || !ir_row_reads(f, v, j, rows))) return false;
  }
  return true;
}

static bool is_in_kernel(const Fn *f, const Kernel *k, RowSpace rows, uint32_t kernel) {
  uint32_t n = 0;
  RowSpace own;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (f->ins[i].op == OP_result) continue;
    if (!is_row_member(f, kernel, (Val){i}, rows)) return false;
    n += ir_row_space(f, (Val){i}, &own);
  }
  return n < MAX_ROW_OPS;
}

// A later row-local instruction reads both v (or what is computed from it) and the kernel: they fuse with it as one.
static bool joined_by_later_read(const Fn *f, uint32_t kernel, Val v, RowSpace rows) {
  bool from_v[MAX_GROUP] = {false};
  for (uint32_t r = 0; r < f->ins[v.i].n_res && r < MAX_GROUP; r++) from_v[r] = true;
  for (uint32_t i = v.i + f->ins[v.i].n_res; i < f->n_ins && i < v.i + MAX_GROUP;
       i += f->ins[i].n_res ? f->ins[i].n_res : 1) {
    if (!ir_row_member(f, (Val){i}, rows)) return false;
    if (!reads_value(f, i, from_v, v.i, i - v.i)) continue;
    if (depends_on_kernel(f, (Val){i}, kernel)) return true;
    for (uint32_t r = i; r < i + f->ins[i].n_res && r < v.i + MAX_GROUP; r++) from_v[r - v.i] = true;
  }
  return false;
}

// Fusing v shares memory traffic: it reads a value of the kernel, or an operand of the kernel. Generators and row scalars
// are placed before their use, and always qualify.
static bool shares_traffic(const Fn *f, const Kernel *k, uint32_t kernel, Val v, RowSpace rows) {
  if (f->ins[v.i].n_args == 0 || f->ins[v.i].shape.i != rows.shape.i || depends_on_kernel(f, v, kernel)) return true;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    for (uint32_t a = 0; f->ins[i].op != OP_result && a < f->ins[i].n_args; a++)
      for (uint32_t b = 0; b < f->ins[v.i].n_args; b++) {
        Val x = ir_arg(f, (Val){i}, a);
        if (x.i == ir_arg(f, v, b).i && !ir_is_immediate(f, x)) return true;
      }
  return joined_by_later_read(f, kernel, v, rows);
}

static const char *row_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  RowSpace rows;
  if (!rows_with(f, k, v, &rows)) return other_kind;
  if (!ir_row_fits(f->prog, rows)) return "rows of this size gain nothing from a kernel of several operations";
  const char *bar = group_bar(f, k, kernel, f->ins[v.i].n_args);
  if (bar) return bar;
  if (!is_row_member(f, kernel, v, rows))
    return "it makes or reads something else than elements and scalars of the kernel's rows";
  if (!is_in_kernel(f, k, rows, kernel))
    return "the kernel has operations that do not go by these rows, or as many row operations as one may have";
  if (!shares_traffic(f, k, kernel, v, rows))
    return "it reads nothing that the kernel reads or makes: no traffic is saved";
  return ir_none(k->wanted) ? NULL : "rows are computed whole";
}

// A pointwise kernel takes what is like it, or what makes it a row kernel.
static const char *point_or_row_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  const char *point = point_bar(f, k, kernel, v), *row = point ? row_bar(f, k, kernel, v) : NULL;
  return row && point != other_kind ? point : row;
}

static bool becomes_rows(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  return (ir_classes[k->cls].flags & BECOMES_ROWS) && point_bar(f, k, kernel, v);
}

static const char *rnn_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  Ins *ins = ir_ins(f, v), *anchor = &f->ins[k->first];
  if (ins->op != anchor->op) return other_kind;
  if (ins->shape.i != anchor->shape.i) return "its size is not that of the kernel's recurrence";
  const Attr *a = ir_attr(f, v, KEY_cell), *b = ir_attr(f, (Val){k->first}, KEY_cell);
  if (a->u.s.i != b->u.s.i) return "its cell is another one";
  if (k->n >= (uint32_t)MAX_RNN_GROUP * anchor->n_res) return "the kernel has as many recurrences as one may have";
  return depends_on_kernel(f, v, kernel) ? "it reads what the kernel's recurrence makes" : NULL;
}

// ---- updates
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
static const char *updates_bar(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  if (kernel_class(f, v.i) != CLASS_OPTIMIZER) return other_kind;
  if ((ir_ops[f->ins[k->first].op].flags | ir_ops[ir_ins(f, v)->op].flags) & BY_ROWS)
    return "a sparse update is a kernel of its own";
  uint32_t n = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (f->ins[i].op == OP_result) continue;
    if (++n >= MAX_UPDATES) return too_many;
    if (!updates_are_independent(f, (Val){i}, v)) return "one of the updates writes what the other reads or writes";
  }
  return depends_on_kernel(f, v, kernel) ? "it reads what an update of the kernel makes" : NULL;
}

// By class of the kernel; a class without a function has kernels of one instruction.
typedef const char *BarOf(const Fn *f, const Kernel *k, uint32_t kernel, Val v);
static BarOf *const bars[N_CLASSES] = {
    [CLASS_POINTWISE] = point_or_row_bar, [CLASS_REDUCE] = row_bar,       [CLASS_ROW] = row_bar,
    [CLASS_GEMM] = product_bar,           [CLASS_PACK_PADDED] = pack_bar, [CLASS_RNN] = rnn_bar,
    [CLASS_OPTIMIZER] = updates_bar,
};

// NULL: v joins the kernel.
static const char *may_join(const Fn *f, const Kernel *k, uint32_t kernel, Val v) {
  return bars[k->cls] ? bars[k->cls](f, k, kernel, v) : other_kind;
}

static bool makes_code(const Fn *f, uint32_t i) {
  return ir_class_has(f->ins[i].op, MAKES_KERNEL) && !ir_layout_is_const(f, (Val){i});
}

// By value: the product whose prologue it is in; 0 where an operand's producers are not contiguous right before it.
static uint32_t *fused_producers(Fn *f) {
  uint32_t *fused_into = rt_alloc(f->prog->mem, f->n_ins * sizeof *fused_into);
  memcpy(fused_into, ir_find_fused_producers(f), f->n_ins * sizeof *fused_into);
  uint32_t *first = rt_alloc(f->prog->mem, f->n_ins * sizeof *first);  // by product: first of the contiguous producers
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    uint32_t p = fused_into[i];
    if (p && i + 1 == (first[p] ? first[p] : p)) first[p] = i;
  }
  bool *is_split = rt_alloc(f->prog->mem, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++) is_split[fused_into[i]] |= i < first[fused_into[i]] || !first[fused_into[i]];
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (is_split[fused_into[i]]) fused_into[i] = 0;
  return fused_into;
}

// Instruction i belongs to the prologue of the kernel's product, or is that product.
static bool joins_prologue(const Kernel *k, const uint32_t *fused_into, uint32_t i) {
  return fused_into[k->first] && (fused_into[i] == fused_into[k->first] || i == fused_into[k->first]);
}

static void add_to(Fn *f, uint32_t kernel, uint32_t i) {
  for (uint32_t r = 0; r < f->ins[i].n_res; r++) f->kernel_of[i + r] = kernel;
  f->kernels[kernel].n = i + f->ins[i].n_res - f->kernels[kernel].first;
}

// ---- remarks
static void remark(Fn *f, Val v, uint32_t kernel, const char *why) {
  const Kernel *k = &f->kernels[kernel];
  if (!ir_remarks_are_kept(f)) return;
  if (why == other_kind)
    why = rt_printf(f->prog->mem, "a kernel of class %s takes no %s", ir_class_name(k->cls),
                    ir_ops[ir_ins(f, v)->op].name);
  ir_remark(f, REMARK_FUSE, v, (Val){k->first}, why);
}

static void remark_gap(Fn *f, Val v, uint32_t kernel, Val between) {
  if (!ir_remarks_are_kept(f)) return;
  RtText why = {.mem = f->prog->mem};
  ir_print_name(f, between, &why);
  rt_text_add(&why, " = %s stands between them: it makes no code, and ends the kernel",
              ir_ops[ir_ins(f, between)->op].name);
  remark(f, v, kernel, why.text);
}

static void new_kernel(Fn *f, uint32_t *cap, uint32_t i, OpClass cls, Val wanted) {
  *RT_PUSH(f->prog->mem, f->kernels, f->n_kernels, *cap) = (Kernel){.first = i, .cls = (uint8_t)cls, .wanted = wanted};
  add_to(f, f->n_kernels - 1, i);
}

bool ir_pass_fuse(Fn *f) {
  RtArena *mem = f->prog->mem;
  f->kernel_of = rt_alloc(mem, f->n_ins * sizeof *f->kernel_of);
  memset(f->kernel_of, 0xff, f->n_ins * sizeof *f->kernel_of);
  f->kernels = NULL;
  f->n_kernels = f->n_remarks = 0;
  uint32_t cap = 0;
  const uint32_t *fused_into = fused_producers(f);
  const Val *wanted = ir_find_wanted(f);
  Val gap = {0};  // what keeps the last kernel from being extended, if anything does
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op == OP_result) continue;
    if (!makes_code(f, i)) {
      gap = (Val){i};
      continue;
    }
    uint32_t last = f->n_kernels - 1;
    const Kernel *k = f->n_kernels && ir_none(gap) ? &f->kernels[last] : NULL;
    Val v = {i};
    if (k && joins_prologue(k, fused_into, i)) {
      add_to(f, last, i);
      continue;
    }
    Val elements = wanted ? wanted[i] : (Val){0};
    const char *bar = !k                          ? NULL
                      : fused_into[i]             ? "it is the first of what is made in the prologue of a product"
                      : k->wanted.i != elements.i ? "the process computes another part of it than of the kernel"
                                                  : may_join(f, k, last, v);
    if (k && !bar) {
      if (becomes_rows(f, k, last, v)) f->kernels[last].cls = CLASS_ROW;
      add_to(f, last, i);
      continue;
    }
    if (k) remark(f, v, last, bar);
    else if (f->n_kernels) remark_gap(f, v, last, gap);
    new_kernel(f, &cap, i, kernel_class(f, fused_into[i] ? fused_into[i] : i), elements);
    gap = (Val){0};
  }
  return true;
}
