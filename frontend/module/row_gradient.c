// The gradient of a table as rows, for an update of those that were looked up (.sparse of an optimizer).
//
//   %y = embedding %w, %i                       every reader of the table that the loss depends on
//   %r = grad_of %loss, %y                      in place of grad_of %loss, %w
//   %w1, .. = adamw %w, .., %r, .., index=%i    several look-ups: their rows, and indices, one behind the other
//
// A bag stands alone: its offsets, factors and largest elements are operands of the update too.
// A handle shows what was written to it last: what is read again here must be as the look-up, or tn_backward, had it.
#include "frontend/module/row_gradient.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/report.h"
#include "ir/autodiff/autodiff.h"
#include "ir/fn.h"
#include "ir/ops.h"
#include "ir/storage.h"

typedef struct {
  tn_function *f;
  const FeParam *q;
  tn_site at;
  tn_tensor loss;
  const bool *reached;  // by value: the loss depends on it
  Val *lookups;
  uint32_t n, cap;
} Search;

static bool refuse(const Search *s, Val reader, const char *why) {
  tn_program *p = s->f->p;
  fe_error(p, E_STATE, s->at, "only rows of '%s' that were looked up are to be updated, and %s", s->q->path, why);
  if (!ir_none(reader)) fe_note(p, ir_ins(s->f->ir, reader)->loc, "it does here");
  fe_hint(p, "an optimizer without .sparse updates whole tables; each may have modules of its own");
  return false;
}

// Is v as it was behind instruction `since`?
static bool is_kept(const Search *s, Val v, Val since, const char *why) {
  const Fn *f = s->f->ir;
  Val own = ir_written_storage(f, v);
  for (uint32_t i = since.i + 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_write && ir_written_storage(f, ir_arg(f, (Val){i}, 0)).i == own.i)
      return refuse(s, (Val){i}, why);
  return true;
}

// What tn_backward left: the gradient of one loss, which nothing has changed since.
static bool find_loss(Search *s, tn_tensor grad) {
  static const char *const changed = "something changes its whole gradient";
  const Ins *ins = fe_ins(grad);
  if (s->f->uses[s->q->index].when.fn) return refuse(s, (Val){0}, "its gradient is averaged over runs");
  if (ins->op != OP_grad_of) return refuse(s, fe_val(grad), changed);
  s->loss = (tn_tensor){s->f, ir_arg(s->f->ir, fe_val(grad), 0).i};
  return is_kept(s, fe_val(grad), fe_val(grad), changed) &&
         is_kept(s, fe_val(s->loss), fe_val(grad), "the loss is written in place");
}

static bool is_kept_since(const Search *s, Val lookup) {
  static const ArgName names[] = {ARG_index, ARG_offsets, ARG_factor};
  bool good = is_kept(s, lookup, lookup, "what was looked up is written in place");
  for (uint32_t k = 0; k < sizeof names / sizeof *names && good; k++) {
    Val a = ir_operand(s->f->ir, lookup, names[k]);
    good = ir_none(a) || is_kept(s, a, lookup, "what it was looked up by is written in place");
  }
  return good;
}

static bool is_lookup(const Fn *f, Val v, uint32_t k) {
  return k == 0 && (ir_ins(f, v)->op == OP_embedding || ir_ins(f, v)->op == OP_embedding_bag);
}

// The rows that index_assign shortens (max_norm) stay those of the table.
static bool is_version(const Fn *f, Val v, uint32_t k) { return k == 0 && ir_ins(f, v)->op == OP_index_assign; }

static bool note_reader(Search *s, Val v, uint32_t k, bool in_scan, bool *is_table) {
  const Fn *f = s->f->ir;
  if (is_version(f, v, k)) is_table[v.i] = true;
  bool counts = false;
  for (uint32_t r = 0; r < ir_ins(f, v)->n_res; r++) counts |= s->reached[v.i + r];
  if (!counts || !ir_grad_flows(f, v, k) || is_version(f, v, k)) return true;
  if (!is_lookup(f, v, k))
    return refuse(s, v, rt_printf(s->f->p->mem, "'%s' reads all of it", ir_ops[ir_ins(f, v)->op].name));
  if (in_scan) return refuse(s, v, "a scan looks them up");
  if (!is_kept_since(s, v)) return false;
  *RT_PUSH(s->f->p->mem, s->lookups, s->n, s->cap) = v;
  return true;
}

static bool find_lookups(Search *s) {
  const Fn *f = s->f->ir;
  bool *is_table = rt_alloc(s->f->p->mem, f->n_ins);
  uint32_t n_ins = f->n_ins, depth = 0;
  is_table[s->f->uses[s->q->index].first.i] = true;
  for (uint32_t i = 1; i < n_ins; i++) {
    const Ins *ins = &f->ins[i];
    depth += ins->op == OP_scan_begin;
    depth -= ins->op == OP_scan_end;
    if (ins->op == OP_grad_of) continue;
    for (uint32_t k = 0; k < ins->n_args; k++)
      if (is_table[ir_arg(f, (Val){i}, k).i] && !note_reader(s, (Val){i}, k, depth > 0, is_table)) return false;
  }
  return s->n || refuse(s, (Val){0}, "nothing looks rows up");
}

// ---- the rows
static tn_tensor operand(const Search *s, Val v, ArgName name) {
  Val a = ir_operand(s->f->ir, v, name);
  return ir_none(a) ? (tn_tensor){0} : (tn_tensor){s->f, a.i};
}

static tn_tensor gradient_of(const Search *s, Val lookup) {
  return fe_emit2(OP_grad_of, s->loss, (tn_tensor){s->f, lookup.i}, s->at);
}

// [..] -> [n]; [.., E] -> [n, E]; of packed sequences, too
static tn_tensor flat(const Search *s, tn_tensor x, uint32_t features) {
  Prog *p = s->f->p->ir;
  if (fe_rows(x).layout) x = fe_say_rows(x, (Rows){0}, s->at);
  uint32_t rank = fe_rank(x);
  Dim d[2] = {ir_dim(p, 1)};
  for (uint32_t k = 0; k + features < rank; k++) d[0] = ir_dim_mul(p, d[0], fe_axis_dim(x, k));
  if (features) d[1] = fe_axis_dim(x, rank - 1);
  return fe_reshape(x, d, 1 + features, s->at);
}

static tn_tensor joined(const Search *s, tn_tensor *part) {
  Attr axis = ir_a_int(KEY_axis, 0);
  return fe_emit(OP_concat, part, s->n, &axis, 1, s->at);
}

static bool join_lookups(const Search *s, FeRowGradient *out) {
  RtArena *mem = s->f->p->mem;
  tn_tensor *index = rt_alloc(mem, s->n * sizeof *index), *rows = rt_alloc(mem, s->n * sizeof *rows);
  for (uint32_t k = 0; k < s->n; k++) {
    if (ir_ins(s->f->ir, s->lookups[k])->op != OP_embedding)
      return refuse(s, s->lookups[k], "a bag is not its only reader");
    index[k] = flat(s, operand(s, s->lookups[k], ARG_index), 0), rows[k] = flat(s, gradient_of(s, s->lookups[k]), 1);
    if (!fe_ok(index[k]) || !fe_ok(rows[k])) return false;
  }
  *out = (FeRowGradient){.grad = joined(s, rows), .index = joined(s, index)};
  return fe_ok(out->grad) && fe_ok(out->index);
}

bool fe_row_gradient(tn_function *f, const FeParam *q, tn_tensor grad, tn_site at, FeRowGradient *out) {
  Search s = {.f = f, .q = q, .at = at};
  if (q->dtype != DT_F32) return refuse(&s, (Val){0}, "it is stored in 16 bits");
  if (!find_loss(&s, grad)) return false;
  f->reach.least = 0;
  ir_grad_reach(f->ir, fe_val(s.loss), &f->reach);
  s.reached = f->reach.has;
  if (!find_lookups(&s)) return false;
  if (s.n > 1) return join_lookups(&s, out);
  Val v = s.lookups[0];
  const Attr *padding = ir_attr(f->ir, v, KEY_padding);
  *out = (FeRowGradient){.index = operand(&s, v, ARG_index), .padding = padding};
  if (ir_ins(f->ir, v)->op == OP_embedding_bag) {
    out->offsets = operand(&s, v, ARG_offsets), out->factor = operand(&s, v, ARG_factor);
    if (out->factor.fn) out->factor = fe_emit1(OP_clone, out->factor, at);
    if (ir_attr(f->ir, v, KEY_max)) out->best = (tn_tensor){f, v.i + 2};
  }
  out->grad = gradient_of(&s, v);
  return fe_ok(out->grad);
}
