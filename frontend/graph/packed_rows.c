// Which values have one row for each step of a packed batch, and of which layout: the data of packed sequences and what
// is computed of them row by row. Rows of different layouts do not meet, even where their numbers agree:
//
//   h = tn_tanh(a.data);  tn_add(h, b.data)      E111, a and b having the lengths 3 1 and 2 2
#include "frontend/fe.h"

uint32_t fe_rows_of(tn_tensor t) { return fe_ok(t) && t.v < t.fn->n_rows_of ? t.fn->rows_of[t.v] : 0; }

void fe_set_rows(tn_tensor t, uint32_t layout) {
  tn_function *f = t.fn;
  if (!fe_ok(t) || (!layout && t.v >= f->n_rows_of)) return;
  while (f->n_rows_of <= t.v) *RT_PUSH(f->p->mem, f->rows_of, f->n_rows_of, f->cap_rows_of) = 0;
  f->rows_of[t.v] = layout;
}

static bool keeps_first_axis(Op op, const tn_tensor *a, const Attr *attrs, uint32_t n_attrs) {
  Key key = op == OP_permute ? KEY_perm : op == OP_sum || op == OP_amax || op == OP_prod ? KEY_axes : KEY_axis;
  for (uint32_t k = 0; k < n_attrs; k++) {
    if (attrs[k].key == KEY_ta) return false;
    if (attrs[k].key != key) continue;
    if (key == KEY_axis) return attrs[k].u.i != 0;
    return (ir_list_at(a->fn->p->ir, attrs[k].u.list, 0) == 0) == (key == KEY_perm);
  }
  return true;
}

// The operand whose rows the result has; NULL: none
static const tn_tensor *row_operand(Op op, const tn_tensor *a, uint32_t n, uint32_t rank) {
  switch ((ClassRows)ir_classes[ir_ops[op].cls].rows) {
  case ROWS_NONE: return NULL;
  case ROWS_ARG0: return a;
  case ROWS_ARG1: return a + 1;
  case ROWS_ANY: break;
  }
  for (uint32_t k = 0; k < n; k++)
    if (fe_rows_of(a[k]) && fe_rank(a[k]) == rank) return a + k;
  return NULL;
}

static uint32_t layout_of(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_tensor y) {
  tn_tensor layout = op == OP_seq_windows ? a[2] : n >= 2 ? a[1] : (tn_tensor){0};
  if (n >= 2 && fe_ins(layout)->dtype == DT_LAYOUT) {
    bool is_rows = op != OP_unpack_padded && op != OP_seq_to_list &&
                   fe_axis_dim(y, 0).i == ir_dim_at(y.fn->p->ir, fe_shape_of(layout), 2).i;
    bool is_total = op == OP_seq_sum || op == OP_seq_max || op == OP_seq_min || op == OP_seq_select;
    return is_rows && !is_total ? layout.v : 0;
  }
  const tn_tensor *from = row_operand(op, a, n, fe_rank(y));
  if (!from || !fe_rows_of(*from) || fe_axis_dim(y, 0).i != fe_axis_dim(*from, 0).i) return 0;
  return keeps_first_axis(op, from, attrs, n_attrs) ? fe_rows_of(*from) : 0;
}

void fe_follow_rows(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_tensor y) {
  if (n && fe_ok(y) && fe_rank(y)) fe_set_rows(y, layout_of(op, a, n, attrs, n_attrs, y));
}

// ---- pairs of rows and layout
static bool is_pair(tn_packed s, tn_site at) {
  tn_function *f = s.data.fn;
  bool good = fe_ins(s.layout)->dtype == DT_LAYOUT && fe_ins(s.data)->dtype != DT_LAYOUT && fe_rank(s.data) &&
              fe_axis_dim(s.data, 0).i == fe_axis_dim(s.layout, 2).i;
  if (good) return true;
  fe_error(f->p, E_ARGUMENT, at,
           "a packed sequence is rows and their layout, found two values that no call gave as one");
  fe_note(f->p, fe_ins(s.data)->loc, "the first was made here");
  fe_note(f->p, fe_ins(s.layout)->loc, "the second was made here");
  fe_hint(f->p, "tn_packed_with_data puts other data on a layout");
  return false;
}

bool fe_join_packed(const tn_packed *s, uint32_t n, tn_function **f, tn_site at) {
  tn_tensor t[4];
  for (uint32_t k = 0; k < n; k++) t[2 * k] = s[k].data, t[2 * k + 1] = s[k].layout;
  if (!fe_join(t, 2 * n, f, at)) return false;
  FE_GUARD((*f)->p, false);
  for (uint32_t k = 0; k < n; k++)
    if (!is_pair(s[k], at)) return false;
  return true;
}

// One layout, or two of the same constant lengths.
static bool same_layout(tn_packed a, tn_packed b) {
  const Fn *ir = a.data.fn->ir;
  const Attr *x = ir_attr(ir, fe_val(a.layout), KEY_lengths), *y = ir_attr(ir, fe_val(b.layout), KEY_lengths);
  return a.layout.v == b.layout.v || (x && y && x->u.list.i == y->u.list.i);
}

// "those of input 'len'"; a sequence of a list has one of them
static const char *origin_text(const Fn *f, Val lengths) {
  const Ins *from = ir_ins(f, lengths);
  if (from->op == OP_slice)
    return rt_printf(f->prog->mem, "number %lld of %s", (long long)ir_attr_int(f, lengths, KEY_start, 0),
                     origin_text(f, ir_arg(f, lengths, 0)));
  if (from->op != OP_input || !from->name.i) return "those of its run";
  return rt_printf(f->prog->mem, "those of input '%s'", ir_text(f->prog, from->name));
}

static const char *lengths_text(tn_packed s) {
  const Fn *f = s.data.fn->ir;
  RtText t = {.mem = f->prog->mem};
  const Attr *x = ir_attr(f, fe_val(s.layout), KEY_lengths);
  if (!x) return f->ins[s.layout.v].n_args ? origin_text(f, ir_arg(f, fe_val(s.layout), 0)) : "those of its run";
  ir_shape_text(s.data.fn->p->ir, x->u.list, &t);
  return t.text;
}

bool fe_same_layout(tn_packed a, tn_packed b, const char *what, tn_site at) {
  tn_program *p = a.data.fn->p;
  if (same_layout(a, b)) return true;
  fe_error(p, E_REGISTERED_SHAPE, at, "packed sequences of different lengths are joined by tn_%s: %s and %s", what,
           lengths_text(a), lengths_text(b));
  fe_note(p, fe_ins(a.layout)->loc, "the first was packed here");
  fe_note(p, fe_ins(b.layout)->loc, "the second was packed here");
  fe_hint(p, "tn_pack_like packs one by the layout of the other, and the same lengths give the same layout");
  return false;
}

// ---- rows that meet
bool fe_same_rows(const char *what, tn_tensor a, tn_tensor b, tn_site at) {
  uint32_t x = fe_rows_of(a), y = fe_rows_of(b);
  if (!x || !y || x == y || a.fn != b.fn) return true;
  return fe_same_layout((tn_packed){a, {a.fn, x}}, (tn_packed){b, {b.fn, y}}, what, at);
}

bool fe_rows_fit(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  bool meet = ir_ops[op].cls == CLASS_POINTWISE || (op == OP_concat && n && keeps_first_axis(op, a, attrs, n_attrs));
  const tn_tensor *first = NULL;
  for (uint32_t k = 0; meet && k < n; k++) {
    if (!fe_rows_of(a[k])) continue;
    if (!first) first = a + k;
    if (fe_rank(*first) == fe_rank(a[k]) && !fe_same_rows(ir_ops[op].name, *first, a[k], at)) return false;
  }
  return true;
}
