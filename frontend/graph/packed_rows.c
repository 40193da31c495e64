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
  Key key = op == OP_permute ? KEY_perm : op == OP_sum || op == OP_amax ? KEY_axes : KEY_axis;
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
  tn_tensor layout = n >= 2 ? a[1] : (tn_tensor){0};
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

bool fe_same_rows(const char *what, tn_tensor a, tn_tensor b, tn_site at) {
  uint32_t x = fe_rows_of(a), y = fe_rows_of(b);
  if (!x || !y || x == y || a.fn != b.fn) return true;
  return fe_same_layout((tn_packed){a, {a.fn, x}}, (tn_packed){b, {b.fn, y}}, what, at);
}

bool fe_rows_fit(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  bool meet = ir_ops[op].cls == CLASS_POINT || (op == OP_concat && n && keeps_first_axis(op, a, attrs, n_attrs));
  const tn_tensor *first = NULL;
  for (uint32_t k = 0; meet && k < n; k++) {
    if (!fe_rows_of(a[k])) continue;
    if (!first) first = a + k;
    if (fe_rank(*first) == fe_rank(a[k]) && !fe_same_rows(ir_ops[op].name, *first, a[k], at)) return false;
  }
  return true;
}
