// Pass assign_buffers: which values are stored, the buffer of each, and the live ranges of buffers, in kernels.
//
// A value is stored when another kernel uses it, when a kernel that is not pointwise defines it and anything uses it, or
// when it is returned to the caller. Views and next versions (WRITES) alias their operand's buffer. In-place reuse: a
// pointwise or row result reuses the slot of an operand whose live range ends in its kernel and that is read
// elementwise; so do the saved gates of a recurrent layer (its projected input) and their gradient (the saved gates),
// and a table to which rows are added (what they are added to).
// n_inplace counts these, and writes into operand 0's buffer (assign, slice_assign, index_assign).
//
// Sums over shards are outputs of one function and inputs of the update. They lie in the arena one behind
// another, in the buffer of an instruction of class EXCHANGE. It lives from its first instruction to its
// last, or to the end (from the beginning) of a function if another continues.
#include "ir/attention.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/packed_dims.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/remarks.h"
#include "ir/scan.h"
#include "ir/storage.h"
#include "ir/text/text.h"
#include <string.h>

typedef struct {
  Fn *f;
  Prog *p;
  bool *stored;         // by value
  uint32_t *reused_by;  // by buffer: the buffer that reuses its slot in place; 0: none
  uint32_t *of_param;   // by parameter: its buffer; 0: none so far
} Liveness;

static Op op_at(const Fn *f, Val v) { return f->ins[v.i].op; }
static OpClass class_at(const Fn *f, Val v) { return ir_ops[op_at(f, v)].cls; }
static bool writes(const Fn *f, Val v) { return ir_ops[op_at(f, ir_head(f, v))].flags & WRITES; }

// A use outside of the defining kernel, or a sum over all rows, which a product's kernel computes after
// storing them.
static void mark_read(Liveness *l, uint32_t kernel, Val reader, Val v) {
  Fn *f = l->f;
  Val base = ir_view_base(f, v);
  if (ir_is_immediate(f, base) || ir_is_stored_leaf(f, base)) return;
  bool here = f->kernel_of[base.i] == kernel && class_at(f, (Val){f->kernels[kernel].first}) != CLASS_RNN;
  if (!here || op_at(f, reader) == OP_moments) l->stored[base.i] = true;
}

static void find_stored(Liveness *l) {
  Fn *f = l->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    uint32_t kernel = f->kernel_of[i];
    Val v = {i};
    if (ir_is_stored_leaf(f, v) || op_at(f, v) == OP_output || op_at(f, v) == OP_packed_layout || writes(f, v) ||
        class_at(f, ir_head(f, v)) == CLASS_EXCHANGE)
      l->stored[i] = true;
    if (kernel == UINT32_MAX || op_at(f, v) == OP_result) continue;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) mark_read(l, kernel, v, ir_arg(f, v, k));
    for (uint32_t k = 0; writes(f, v) && k < f->ins[i].n_res; k++) l->stored[ir_view_base(f, ir_arg(f, v, k)).i] = true;
  }
}

static uint32_t new_buf(Fn *f, Val head, Segment seg, int64_t bytes) {
  *RT_PUSH(f->prog->mem, f->bufs, f->n_bufs, f->cap_bufs) =
      (Buf){.head = head, .first = INT32_MAX, .last = -1, .bytes = bytes, .seg = (uint8_t)seg};
  return f->n_bufs - 1;
}

static void touch(Fn *f, uint32_t buf, uint32_t kernel) {
  Buf *b = &f->bufs[buf];
  if ((int32_t)kernel < b->first) b->first = (int32_t)kernel;
  if ((int32_t)kernel > b->last) b->last = (int32_t)kernel;
}

static Segment segment_of(const Fn *f, Val v) {
  switch (op_at(f, v)) {
  case OP_input: return SEG_IN;
  case OP_param: return SEG_PARAM;
  case OP_output: return SEG_OUT;
  case OP_table: return SEG_CONST;
  default: return ir_layout_is_const(f, v) ? SEG_CONST : SEG_ARENA;
  }
}

static uint32_t stored_in(Liveness *l, Val v) {
  const Ins *ins = ir_ins(l->f, v);
  return new_buf(l->f, v, segment_of(l->f, v), ir_type_bytes(l->p, (DType)ins->dtype, ins->shape));
}

// All OP_param of one parameter share a buffer.
static uint32_t param_buf(Liveness *l, Val v) {
  uint32_t *buf = &l->of_param[ir_attr_int(l->f, v, KEY_param, 0)];
  if (!*buf) *buf = stored_in(l, v);
  return *buf;
}

static void make_bufs(Liveness *l) {
  Fn *f = l->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i};
    Ins *ins = &f->ins[i];
    if (class_at(f, v) == CLASS_VIEW) {
      bool is_inner = f->kernel_of[i] != UINT32_MAX;  // its kernel alone reads it, and no memory for it
      f->buf_of[i] = is_inner ? 0 : f->buf_of[ir_view_base(f, v).i];
    } else if (writes(f, v)) {
      Val h = ir_head(f, v);
      f->buf_of[i] = f->buf_of[ir_arg(f, h, v.i - h.i).i];
      f->stats.n_inplace += class_at(f, h) != CLASS_OPTIMIZER;
    } else if (l->stored[i]) {
      f->buf_of[i] = op_at(f, v) == OP_param ? param_buf(l, v) : stored_in(l, v);
      Segment seg = f->bufs[f->buf_of[i]].seg;
      if (seg == SEG_IN || seg == SEG_OUT) f->bufs[f->buf_of[i]].offset = ir_attr_int(f, v, KEY_index, 0);
    }
    if (f->buf_of[i]) f->bufs[f->buf_of[i]].n_shares++;
    if (ir_attr(f, v, KEY_reader)) {
      f->stats.n_copies++;
      f->stats.copy_bytes += ir_type_bytes(l->p, ins->dtype, ins->shape);
    }
  }
}

// ---- output aliases
// An output of a value that another kernel defines is a copy. Where the value shares its buffer with none, or is the last one
// that is written there, its buffer becomes the caller's output, and the copy is elided.
bool ir_is_output_alias(const Fn *f, Val v) {
  return op_at(f, v) == OP_output && f->buf_of[v.i] && f->buf_of[v.i] == f->buf_of[ir_view_base(f, ir_arg(f, v, 0)).i];
}

// last_write: by buffer, the instruction, or 0
static bool can_alias_output(const Fn *f, Val v, const uint32_t *last_write) {
  if (op_at(f, v) != OP_output || f->kernels[f->kernel_of[v.i]].cls != CLASS_POINTWISE) return false;
  Val base = ir_view_base(f, ir_arg(f, v, 0));
  uint32_t b = f->buf_of[base.i], by = f->kernel_of[base.i];
  if (!b || by == UINT32_MAX || by == f->kernel_of[v.i]) return false;
  const Buf *buf = &f->bufs[b];
  uint32_t last = last_write[b] ? last_write[b] : buf->head.i;
  return buf->seg == SEG_ARENA && last == base.i && buf->bytes == f->bufs[f->buf_of[v.i]].bytes;
}

static void alias_output(Liveness *l) {
  Fn *f = l->f;
  uint32_t *last_write = rt_alloc(f->prog->mem, f->n_bufs * sizeof *last_write);
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (writes(f, (Val){i})) last_write[f->buf_of[i]] = i;
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    uint32_t n = 0;
    for (uint32_t i = f->kernels[k].first; i < f->kernels[k].first + f->kernels[k].n; i++) {
      if (!can_alias_output(f, (Val){i}, last_write)) continue;
      Buf *buf = &f->bufs[f->buf_of[ir_view_base(f, ir_arg(f, (Val){i}, 0)).i]];
      buf->seg = SEG_OUT;
      buf->offset = f->bufs[f->buf_of[i]].offset;
      buf->n_shares++;
      f->buf_of[i] = (uint32_t)(buf - f->bufs);
      n++;
    }
    f->stats.n_kernels -= n == f->kernels[k].n;
  }
}

// ---- sums over shards
static void place_sums(Fn *f, Val exchange) {
  int64_t at = 0;
  for (uint32_t k = 0; k < ir_ins(f, exchange)->n_args; k++) {
    Buf *sum = &f->bufs[f->buf_of[ir_arg(f, exchange, k).i]];
    sum->within = f->buf_of[exchange.i], sum->within_at = at;
    at += ir_aligned(sum->bytes);
  }
}

static void touch(Fn *f, uint32_t buf, uint32_t kernel);

// A shard's function leaves sums, and has their room from the first shard on; the update begins with both.
static void find_kept_ranges(Fn *f, Val exchange) {
  uint32_t sums = f->buf_of[exchange.i], room = f->buf_of[exchange.i + 1];
  f->bufs[sums].is_kept = f->bufs[room].is_kept = true;
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].within == sums && f->bufs[b].last >= 0)
      touch(f, sums, (uint32_t)f->bufs[b].first), touch(f, sums, (uint32_t)f->bufs[b].last);
  touch(f, room, 0);
  if (op_at(f, exchange) == OP_exchange_end) touch(f, sums, 0);
  else touch(f, sums, f->n_kernels - 1), touch(f, room, f->n_kernels - 1);
}

static void for_exchanges(Fn *f, void (*visit)(Fn *f, Val exchange)) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (class_at(f, (Val){i}) == CLASS_EXCHANGE) visit(f, (Val){i});
}

static void make_scratch(Liveness *l) {
  Fn *f = l->f;
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    Kernel *kern = &f->kernels[k];
    int64_t bytes = 0;
    for (uint32_t i = kern->first; i < kern->first + kern->n; i++) bytes += ir_scratch_at(f, (Val){i});
    if (!bytes) continue;
    kern->scratch = new_buf(f, (Val){kern->first}, SEG_ARENA, bytes);
    f->bufs[kern->scratch].scratch = true;
    touch(f, kern->scratch, k);
  }
}

static void find_ranges(Liveness *l) {
  Fn *f = l->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    uint32_t kernel = f->kernel_of[i];
    if (kernel == UINT32_MAX) continue;
    if (f->buf_of[i]) touch(f, f->buf_of[i], kernel);
    if (op_at(f, (Val){i}) == OP_result) continue;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      uint32_t b = f->buf_of[ir_arg(f, (Val){i}, k).i];
      if (b) touch(f, b, kernel);
    }
  }
}

// ---- in-place reuse
static bool same_type(const Fn *f, Val a, Val b) {
  return f->ins[a.i].shape.i == f->ins[b.i].shape.i && f->ins[a.i].dtype == f->ins[b.i].dtype;
}

// Operand k of a recurrence may be overwritten by the result: each worker reads a row's units before it writes them.
static bool rnn_may_alias(const Fn *f, Val head, uint32_t k, Val result) {
  if (ir_head(f, result).i != head.i) return false;
  switch (op_at(f, head)) {
  case OP_rnn_seq: return k == 0 && result.i - head.i == 5 && !ir_has_operand(f, head, ARG_w_ih);
  case OP_rnn_seq_grad: return k == ir_operand_at(f, head, ARG_gates) && result.i == head.i;
  default: return false;
  }
}

// Elementwise reads may alias the result. In a row kernel all loads of a row precede the first store to it.
static bool reads_elementwise(const Fn *f, Val v, uint32_t k, Val result) {
  Val a = ir_arg(f, v, k);
  RowSpace rows;
  const Kernel *kernel = &f->kernels[f->kernel_of[v.i]];
  // prologue: other workers may still read it when results are stored
  if (v.i < ir_anchor(f, kernel).i) return false;
  if (result.i >= ir_end_of_elements(f, kernel)) return false;
  if (class_at(f, v) == CLASS_RNN) return same_type(f, a, result) && rnn_may_alias(f, v, k, result);
  if (class_at(f, v) == CLASS_AXIS_SCATTER) return k == 0;
  if (class_at(f, v) == CLASS_SCATTER) return ir_operand_at(f, v, ARG_addend) == k;
  bool by_rows = f->kernels[f->kernel_of[v.i]].cls == CLASS_ROW && ir_row_space(f, v, &rows);
  if (by_rows) return ir_row_element(f, v, k) && f->ins[a.i].shape.i == rows.shape.i && f->ins[a.i].dtype == DT_F32;
  return same_type(f, a, v) && class_at(f, v) == CLASS_POINTWISE;
}

// All reads of the buffer in the kernel are elementwise, and the kernel does not write it.
static bool all_reads_elementwise(const Fn *f, const Kernel *k, uint32_t buf, Val result) {
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (f->buf_of[i] == buf) return false;
    if (op_at(f, (Val){i}) == OP_result) continue;
    for (uint32_t j = 0; j < f->ins[i].n_args; j++)
      if (f->buf_of[ir_arg(f, (Val){i}, j).i] == buf && !reads_elementwise(f, (Val){i}, j, result)) return false;
  }
  return true;
}

static const char *class_bar(const Fn *f, Val v) {
  return ir_class_has(op_at(f, ir_head(f, v)), IN_PLACE) ? NULL
                                                         : "an operation of its class reads operands while it writes";
}

bool ir_may_take_over(const Fn *f, uint32_t kernel, uint32_t from, uint32_t to) {
  const Buf *a = &f->bufs[from], *b = &f->bufs[to];
  return a->seg == SEG_ARENA && !a->scratch && b->seg == SEG_ARENA && a->bytes == b->bytes && !class_bar(f, b->head) &&
         all_reads_elementwise(f, &f->kernels[kernel], from, b->head);
}

// Why `to`, made in the kernel, may not take over the slot of `from`; NULL: it may.
static const char *reuse_bar(const Liveness *l, uint32_t kernel, uint32_t from, uint32_t to) {
  const Fn *f = l->f;
  const Buf *a = &f->bufs[from], *b = &f->bufs[to];
  if (a->seg != SEG_ARENA || a->scratch) return "it lies outside the arena: the caller's, a parameter or a constant";
  if (l->reused_by[from]) return "its slot is taken over by another result";
  if (a->last != (int32_t)kernel) return "a later kernel still reads it";
  if (a->first >= (int32_t)kernel) return "it is made in the same kernel";
  if (a->bytes != b->bytes) return "they differ in size";
  return all_reads_elementwise(f, &f->kernels[kernel], from, b->head)
             ? NULL
             : "the kernel writes it, or reads it otherwise than element by element";
}

// A remark for each operand whose slot no result took over: why not `to`.
static void remark_reuse(Liveness *l, uint32_t kernel, Val v) {
  Fn *f = l->f;
  const Kernel *k = &f->kernels[kernel];
  uint32_t to = f->buf_of[v.i];
  for (uint32_t j = k->first; j <= v.i; j++)
    for (uint32_t a = 0; op_at(f, (Val){j}) != OP_result && a < f->ins[j].n_args; a++) {
      Val operand = ir_arg(f, (Val){j}, a);
      uint32_t from = f->buf_of[operand.i];
      const char *bar = !from || from == to ? NULL : class_bar(f, v);
      if (from && from != to && !bar) bar = reuse_bar(l, kernel, from, to);
      if (bar) ir_remark(f, REMARK_IN_PLACE, v, operand, bar);
    }
}

static void find_slot(Liveness *l, uint32_t kernel, Val v) {
  Fn *f = l->f;
  uint32_t to = f->buf_of[v.i];
  for (uint32_t j = f->kernels[kernel].first; j <= v.i && !f->bufs[to].reuses; j++)
    for (uint32_t a = 0; a < f->ins[j].n_args && !f->bufs[to].reuses; a++) {
      uint32_t from = f->buf_of[ir_arg(f, (Val){j}, a).i];
      if (!from || reuse_bar(l, kernel, from, to)) continue;
      f->bufs[to].reuses = from;
      l->reused_by[from] = to;
      f->stats.n_inplace++;
    }
}

static bool is_written(const Fn *f, uint32_t buf) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->buf_of[i] == buf && writes(f, (Val){i})) return true;
  return false;
}

// A scatter copies operand 0 unless its result lies there. Where the result is the caller's output, what it alone reads is
// made in the output: one buffer, as of a write.
static void start_in_output(Liveness *l, uint32_t kernel, Val v) {
  Fn *f = l->f;
  uint32_t from = f->buf_of[ir_arg(f, v, 0).i], to = f->buf_of[v.i];
  Buf *a = &f->bufs[from], *b = &f->bufs[to];
  if (!from || a->reuses || reuse_bar(l, kernel, from, to) || is_written(f, from)) return;
  a->seg = SEG_OUT, a->offset = b->offset, a->last = b->last;
  a->n_shares += b->n_shares;
  b->n_shares = 0, b->first = INT32_MAX, b->last = -1;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->buf_of[i] == to) f->buf_of[i] = from;
  f->stats.n_inplace++;
}

static void reuse_in_place(Liveness *l) {
  Fn *f = l->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    uint32_t kernel = f->kernel_of[i], to = f->buf_of[i];
    Val v = {i};
    if (kernel != UINT32_MAX && class_at(f, v) == CLASS_AXIS_SCATTER && f->bufs[to].seg == SEG_OUT)
      start_in_output(l, kernel, v);
    if (kernel == UINT32_MAX || !to || writes(f, v) || f->bufs[to].seg != SEG_ARENA || f->bufs[to].head.i != i)
      continue;
    if (!class_bar(f, v)) find_slot(l, kernel, v);
    if (!f->bufs[to].reuses && ir_remarks_are_kept(f)) remark_reuse(l, kernel, v);
  }
}

// ---- writes must not clobber values with later uses, nor memory of the caller
// By value: its last use, through views too.
static uint32_t *last_uses(const Fn *f) {
  uint32_t *last = rt_alloc(f->prog->mem, f->n_ins * sizeof *last);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, (Val){i}) == OP_result || class_at(f, (Val){i}) == CLASS_VIEW) continue;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) last[ir_view_base(f, ir_arg(f, (Val){i}, k)).i] = i;
  }
  return last;
}

static int64_t find_param_bytes(const Fn *f) {
  int64_t bytes = 0;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_param) bytes += ir_type_bytes(f->prog, (DType)f->ins[i].dtype, f->ins[i].shape);
  return bytes;
}

// What is made here may be written in the caller's output.
static bool is_callers(const Fn *f, const Buf *b) {
  return b->seg != SEG_PARAM && b->seg != SEG_ARENA && (b->seg != SEG_OUT || op_at(f, b->head) == OP_output);
}

static bool check_writes(Liveness *l) {
  Fn *f = l->f;
  bool ok = true;
  const uint32_t *last = last_uses(f);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i};
    if (!writes(f, v)) continue;
    Val h = ir_head(f, v), old = ir_arg(f, h, i - h.i);
    Loc at = f->ins[i].loc;
    const char *name = ir_result_text(f, old);
    if (is_callers(f, &f->bufs[f->buf_of[i]])) {
      rt_diag(&l->p->diags, RT_ERROR, E_WRITE_LEAF, ir_loc_file(l->p, at), ir_loc_line(l->p, at),
              "%s is the caller's and cannot be written", name);
      ok = false;
      continue;
    }
    uint32_t reader = last[ir_view_base(f, old).i];
    if (reader < h.i + ir_ops[op_at(f, h)].n_res) continue;
    Loc use = f->ins[reader].loc;
    rt_diag(&l->p->diags, RT_ERROR, E_WRITE_SAVED, ir_loc_file(l->p, at), ir_loc_line(l->p, at),
            "%s is overwritten here, but its old value is read later by %s", name, ir_value_text(f, (Val){reader}));
    rt_diag(&l->p->diags, RT_NOTE, 0, ir_loc_file(l->p, use), ir_loc_line(l->p, use), "it is read here");
    rt_diag(&l->p->diags, RT_HINT, 0, NULL, 0, "write it after its last reader, or write to a clone of it");
    return false;
  }
  return ok;
}

bool ir_pass_assign_buffers(Fn *f) {
  RtArena *mem = f->prog->mem;
  Liveness l = {.f = f, .p = f->prog, .stored = rt_alloc(mem, f->n_ins)};
  l.of_param = rt_alloc(mem, (f->prog->n_params + 1) * sizeof *l.of_param);
  f->writes_param = ir_written_params(f);
  f->param_bytes = find_param_bytes(f);
  f->buf_of = rt_alloc(mem, f->n_ins * sizeof *f->buf_of);
  f->bufs = NULL;
  f->n_bufs = f->cap_bufs = 0;
  f->stats = (PlanStats){.n_kernels = f->n_kernels};
  new_buf(f, (Val){0}, SEG_ARENA, 0);
  find_stored(&l);
  make_bufs(&l);
  alias_output(&l);
  for_exchanges(f, place_sums);
  make_scratch(&l);
  find_ranges(&l);
  for_exchanges(f, find_kept_ranges);
  if (!check_writes(&l)) return false;
  l.reused_by = rt_alloc(mem, f->n_bufs * sizeof *l.reused_by);
  reuse_in_place(&l);
  ir_find_input_checks(f);
  return ir_find_size_checks(f);
}
