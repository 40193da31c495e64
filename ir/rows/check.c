// Packed sequences stay apart in a whole function as it is built: what would mix them, and where rows of two layouts would
// meet. Layouts that pass check_rows has marked {checked} are left out: their rows are rows like any others.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/rows/rows.h"
#include "ir/text/text.h"

typedef struct {
  const Fn *f;
  RtDiags *diags;
  RowsMap rows;
  RowsMap later;   // by carry: what it has from its second step on
  uint32_t again;  // where the walk goes on, with a carry that has rows now; 0: behind
  bool ok;
} Checker;

static void note(Checker *s, Loc at, const char *text) {
  const Prog *p = s->f->prog;
  rt_diag(s->diags, RT_NOTE, 0, ir_loc_file(p, at), ir_loc_line(p, at), "%s", text);
}

static const char *way_out(const Checker *s, const RowsCall *c, bool is_numbered) {
  const char *own = ir_works_within(c->op, c->attrs, c->n_attrs, false);
  if (is_numbered)
    return s->f->prog->names_calls ? "tn_packed_steps numbers the steps of each sequence"
                                   : "seq_part {part=\"steps\"} numbers the steps of each sequence";
  if (ir_op_operand(c->op, ARG_layout) != UINT32_MAX)
    return rt_printf(s->diags->mem, "%s with the layout as an operand works within each sequence", ir_ops[c->op].name);
  return own ? rt_printf(s->diags->mem, "%s works within each sequence", own)
             : "unpack_padded gives each sequence a row of its own";
}

static void report_mixed(Checker *s, const RowsCall *c, Val at, const RowsEffect *e) {
  const Fn *f = s->f;
  const Prog *p = f->prog;
  Val v = e->mixed;
  Rows r = ir_rows_at(&s->rows, v);
  RtText type = {.mem = s->diags->mem};
  ir_print_type(f, v, &type);
  Loc loc = ir_ins(f, at)->loc;
  rt_diag(s->diags, RT_ERROR, E_ROWS_MIXED, ir_loc_file(p, loc), ir_loc_line(p, loc),
          "@%s: %s would mix the sequences of a packed batch: axis %u of %s, %s, %s the rows of all of them",
          ir_text(p, f->name), ir_value_text(f, at), e->mixed_axis, ir_value_text(f, v), type.text,
          r.numbered ? "numbers" : "has");
  note(s, ir_ins(f, (Val){r.layout})->loc, "the sequences were packed here");
  const char *plain = p->names_calls ? "tn_rows" : rt_printf(s->diags->mem, "`rows %s`", ir_result_text(f, v));
  rt_diag(s->diags, RT_HINT, 0, NULL, 0, "%s; %s says that these are just rows", way_out(s, c, r.numbered), plain);
  s->ok = false;
}

static void report_joined(Checker *s, Val at, const RowsEffect *e) {
  const Fn *f = s->f;
  const Prog *p = f->prog;
  Loc loc = ir_ins(f, at)->loc;
  rt_diag(s->diags, RT_ERROR, E_REGISTERED_SHAPE, ir_loc_file(p, loc), ir_loc_line(p, loc),
          "@%s: rows of two layouts meet in %s: of %s and of %s", ir_text(p, f->name), ir_value_text(f, at),
          ir_value_text(f, e->clash[0]), ir_value_text(f, e->clash[1]));
  note(s, ir_ins(f, e->clash[0])->loc, "the first was packed here");
  note(s, ir_ins(f, e->clash[1])->loc, "the second was packed here");
  rt_diag(s->diags, RT_HINT, 0, NULL, 0, "values that meet are packed by one layout");
  s->ok = false;
}

static void report(Checker *s, const RowsCall *c, Val at, const RowsEffect *e) {
  if (ir_none(e->mixed)) report_joined(s, at, e);
  else report_mixed(s, c, at, e);
}

// Until rows were checked the steps of scans stand in line.
static void report_apart(Checker *s, Val v) {
  const Prog *p = s->f->prog;
  Loc loc = ir_ins(s->f, v)->loc;
  rt_diag(
      s->diags, RT_ERROR, E_ROWS_MIXED, ir_loc_file(p, loc), ir_loc_line(p, loc),
      "@%s: the body of %s, @%s, may mix the sequences of a packed batch: rows are seen in steps that stand in line",
      ir_text(p, s->f->name), ir_value_text(s->f, v), ir_text(p, ir_attr(s->f, v, KEY_body)->u.s));
  rt_diag(s->diags, RT_HINT, 0, NULL, 0, "scan_begin, scan_input .. scan_end; pass outline_scans makes the body");
  s->ok = false;
}

// Operands by position in the row of the op; none: absent
static Val *operands(const Checker *s, Val v, uint32_t *n) {
  const Ins *ins = ir_ins(s->f, v);
  uint32_t most = ir_ops[ins->op].n_operands;
  *n = ins->n_args > most ? ins->n_args : most;
  Val *a = rt_alloc(s->diags->mem, (*n + 1) * sizeof *a);
  for (uint32_t k = 0; k < ins->n_args; k++) a[ir_operand_slot(s->f, v, k)] = ir_arg(s->f, v, k);
  return a;
}

static bool has_rows(const Checker *s, const Val *a, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (ir_rows_at(&s->rows, a[k]).layout || (a[k].i && ir_has_typed_rows(s->f, a[k]))) return true;
  return false;
}

// A carry that begins without rows and goes on with some: its step is seen once more, as later ones see it.
static void note_carried(Checker *s, Val next) {
  const Fn *f = s->f;
  int64_t scan = ir_attr_int(f, next, KEY_scan, -1), index = ir_attr_int(f, next, KEY_index, -1);
  Rows r = ir_rows_at(&s->rows, ir_arg(f, next, 0));
  Val carry = next;
  while (carry.i && (ir_ins(f, carry)->op != OP_scan_carry || ir_attr_int(f, carry, KEY_scan, -1) != scan ||
                     ir_attr_int(f, carry, KEY_index, -1) != index))
    carry.i--;
  if (ir_none(carry) || !r.layout || r.made || ir_rows_at(&s->rows, carry).layout) return;
  ir_set_rows(&s->later, carry, r);
  s->again = carry.i;
}

static void step(Checker *s, Val v) {
  const Fn *f = s->f;
  const Ins *ins = ir_ins(f, v);
  RowsCall c = {.f = f, .rows = &s->rows, .op = (Op)ins->op, .n_attrs = ins->n_attrs, .attrs = f->attrs + ins->attrs};
  RowsEffect e;
  if (ins->op == OP_result) return;
  if (ir_ops[ins->op].cls == CLASS_SCAN && !ins->n_res) {
    ir_rows_pass_mark(&s->rows, f, v);
    if (ins->op == OP_scan_next) note_carried(s, v);
    return;
  }
  if (ins->op == OP_write) {
    if (!ir_rows_written(&s->rows, &e, f, ir_arg(f, v, 0), ir_arg(f, v, 1))) report(s, &c, v, &e);
    return;
  }
  c.a = operands(s, v, &c.n);
  if (ins->op == OP_scan && has_rows(s, c.a, c.n)) {
    report_apart(s, v);
    return;
  }
  if (!ir_rows_meet(&e, &c) || e.mixed.i) report(s, &c, v, &e);
  else ir_rows_follow(&e, &c, v);
  if (ins->op == OP_scan_carry && ir_rows_at(&s->later, v).layout) ir_set_rows(&s->rows, v, ir_rows_at(&s->later, v));
}

static bool has_typed_layout(const Fn *f) {
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (ir_has_typed_rows(f, v)) return true;
  return false;
}

bool ir_check_rows(const Fn *f, RtDiags *diags) {
  Checker s = {.f = f, .diags = diags, .rows = {.mem = diags->mem}, .later = {.mem = diags->mem}, .ok = true};
  if (!has_typed_layout(f)) return true;
  for (Val v = {1}; v.i < f->n_ins && diags->n_errors <= 20; v.i++) {
    step(&s, v);
    if (s.again && s.ok) v.i = s.again - 1;
    s.again = 0;
  }
  return s.ok;
}
