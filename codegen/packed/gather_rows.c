// Ops over packed rows and their layout that move whole rows: single rows of sequences, reversal, lists; and the tables
// of a layout as values. Each worker fills a contiguous range of rows of the result.
#include "codegen/packed/layout.h"

#include <string.h>

typedef struct {
  Cg *c;
  Val v;
  CgLayout l;
  V words;  // of a row
  V from, to;
} RowMove;

static RowMove open_rows(Cg *c, Val v) {
  Val x = ir_arg(c->f, v, 0);
  return (RowMove){c, v, cg_layout_of(c, ir_arg(c->f, v, 1)), cg_row_words(c, x, 1), cg_ptr(c, x), cg_ptr(c, v)};
}

static V length_of(RowMove *r, V user) { return cg_layout_get(r->c, cg_layout_lengths(r->c, &r->l), user); }
static V offset_of(RowMove *r, V t) { return cg_layout_get(r->c, cg_layout_offsets(r->c, &r->l), t); }
static V position_of(RowMove *r, V user) { return cg_layout_get(r->c, cg_layout_unsorted(r->c, &r->l), user); }

static void move(RowMove *r, V to, V from) {
  V source = from ? cg_row_at(r->c, r->from, from, r->words) : NULL;
  cg_move_words(r->c, cg_row_at(r->c, r->to, to, r->words), source, LLVMConstNull(r->c->vi32), r->words);
}

static void pick(RowMove *r) {
  Cg *c = r->c;
  bool first = ir_attr(c->f, r->v, KEY_first) != NULL;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1);
  for (Loop l = cg_each_shared(c, cg_layout_get(c, r->l.base, cg_i64(c, TN_LAYOUT_SEQS)), 1); cg_next(&l);) {
    V len = length_of(r, l.i);
    for (If some = cg_either(c, cg_gt(c, len, zero)); cg_then(&some);)
      if (some.is_true) move(r, l.i, cg_add(c, offset_of(r, first ? zero : cg_sub(c, len, one)), position_of(r, l.i)));
      else move(r, l.i, NULL);
  }
}

// Step t of a sequence comes from step length - 1 - t, at the same position.
static void reverse(RowMove *r) {
  Cg *c = r->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), lo, hi;
  cg_share(c, cg_layout_get(c, r->l.base, cg_i64(c, TN_LAYOUT_ROWS)), 1, &lo, &hi);
  for (Loop step = cg_count(c, cg_layout_get(c, r->l.base, cg_i64(c, TN_LAYOUT_STEPS))); cg_next(&step);) {
    V first = offset_of(r, step.i), size = cg_layout_get(c, cg_layout_sizes(c, &r->l), step.i);
    V begin = cg_max(c, cg_sub(c, lo, first), zero), end = cg_min(c, cg_sub(c, hi, first), size);
    for (Loop row = cg_each(c, begin, end); cg_next(&row);) {
      V len = length_of(r, cg_layout_get(c, cg_layout_sorted(c, &r->l), row.i));
      V source = offset_of(r, cg_sub(c, cg_sub(c, len, one), step.i));
      move(r, cg_add(c, first, row.i), cg_add(c, source, row.i));
    }
  }
}

// The list's rows stand in user order, one sequence after the other: each worker goes over a range of them.
static void list(RowMove *r, bool to_list) {
  Cg *c = r->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), lo, hi;
  cg_share(c, cg_layout_get(c, r->l.base, cg_i64(c, TN_LAYOUT_ROWS)), 1, &lo, &hi);
  V start = zero;
  for (Loop user = cg_carry(c, zero, cg_layout_get(c, r->l.base, cg_i64(c, TN_LAYOUT_SEQS)), one, &start, 1);
       cg_next(&user);) {
    V len = length_of(r, user.i), position = position_of(r, user.i);
    V begin = cg_max(c, cg_sub(c, lo, start), zero), end = cg_min(c, cg_sub(c, hi, start), len);
    for (Loop step = cg_each(c, begin, end); cg_next(&step);) {
      V flat = cg_add(c, start, step.i), packed = cg_add(c, offset_of(r, step.i), position);
      move(r, to_list ? flat : packed, to_list ? packed : flat);
    }
    start = cg_add(c, start, len);
  }
}

// The step of each row, or its sequence. Steps go to the workers in turn.
static void tables_of_rows(Cg *c, const CgLayout *l, bool steps, V to) {
  V n = cg_layout_get(c, l->base, cg_i64(c, TN_LAYOUT_STEPS)), offsets = cg_layout_offsets(c, l);
  for (Loop t = cg_each_by(c, c->worker, n, c->n_workers); cg_next(&t);) {
    V lo = cg_layout_get(c, offsets, t.i), hi = cg_layout_get(c, offsets, cg_add(c, t.i, cg_i64(c, 1)));
    for (Loop row = cg_each(c, lo, hi); cg_next(&row);)
      cg_put(c, steps ? t.i : cg_layout_get(c, cg_layout_sorted(c, l), cg_sub(c, row.i, lo)), to, row.i);
  }
}

// Worker 0 widens a table.
static void part(Cg *c, Val v) {
  CgLayout l = cg_layout_of(c, ir_arg(c->f, v, 0));
  const char *name = ir_text(c->f->prog, ir_attr(c->f, v, KEY_part)->u.s);
  V from = !strcmp(name, "sorted")     ? cg_layout_sorted(c, &l)
           : !strcmp(name, "unsorted") ? cg_layout_unsorted(c, &l)
           : !strcmp(name, "lengths")  ? cg_layout_lengths(c, &l)
                                       : cg_layout_sizes(c, &l);
  V to = cg_ptr(c, v);
  bool steps = !strcmp(name, "steps");
  if (steps || !strcmp(name, "sequences")) {
    tables_of_rows(c, &l, steps, to);
    return;
  }
  for (If first = cg_when(c, cg_first_worker(c)); cg_then(&first);) {
    for (Loop k = cg_count(c, cg_dim(c, ir_dim_at(c->f->prog, ir_ins(c->f, v)->shape, 0))); cg_next(&k);)
      cg_put(c, cg_layout_get(c, from, k.i), to, k.i);
  }
}

// The row of a step of a sequence; -1 where there is none: both are then read as 0.
static void rows_of_steps(Cg *c, Val v) {
  Val step = ir_arg(c->f, v, 0), index = ir_operand(c->f, v, ARG_index);
  Shape shape = ir_ins(c->f, step)->shape;
  CgLayout l = cg_layout_of(c, ir_arg(c->f, v, 1));
  V seqs = cg_layout_get(c, l.base, cg_i64(c, TN_LAYOUT_SEQS)), zero = cg_i64(c, 0);
  V each = cg_axis_product(c, shape, 1, ir_rank(c->f->prog, shape)), steps = cg_ptr(c, step), to = cg_ptr(c, v);
  V users = ir_none(index) ? NULL : cg_ptr(c, index);
  for (Loop k = cg_each_shared(c, cg_dim(c, ir_dim_at(c->f->prog, shape, 0)), 1); cg_next(&k);) {
    V user = users ? cg_get(c, c->i64, users, k.i) : k.i, known = cg_below(c, user, seqs);
    for (If is_known = cg_either(c, known); cg_then(&is_known);) {
      V length = zero, place = zero;
      if (is_known.is_true) {
        length = cg_layout_get(c, cg_layout_lengths(c, &l), user);
        place = cg_layout_get(c, cg_layout_unsorted(c, &l), user);
      }
      for (Loop j = cg_count(c, each); cg_next(&j);) {
        V at = cg_index(c, k.i, each, j.i), t = cg_get(c, c->i64, steps, at), exists = cg_below(c, t, length);
        V row = cg_add(c, cg_layout_get(c, cg_layout_offsets(c, &l), cg_select(c, exists, t, zero)), place);
        cg_put(c, cg_select(c, exists, row, cg_i64(c, -1)), to, at);
      }
    }
  }
}

bool cg_emit_sequence_rows(Cg *c) {
  Val v = {c->k->first};
  Op op = (Op)ir_ins(c->f, v)->op;
  if (op == OP_seq_part) return part(c, v), true;
  if (op == OP_seq_row) return rows_of_steps(c, v), true;
  if (op == OP_seq_windows || op == OP_seq_windows_grad) return cg_emit_seq_windows(c, v), true;
  if (op == OP_seq_window_lengths) return cg_emit_seq_window_lengths(c, v), true;
  RowMove r = open_rows(c, v);
  switch (op) {
  case OP_seq_select: pick(&r); return true;
  case OP_seq_reverse: reverse(&r); return true;
  case OP_seq_from_list:
  case OP_seq_to_list: list(&r, op == OP_seq_to_list); return true;
  default: return rt_text_add(c->why, "%s is no op over packed rows", ir_ops[op].name), false;
  }
}
