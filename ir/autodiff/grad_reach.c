// What a gradient reaches before pass functionalize has run. A handle then names storage, not a value, so the
// walk follows writes in place, too.
//
//   %b = clone %z          the gradient of %l reaches %w: %b, as %l reads it, holds what was written
//   write %b, %w
//   %l = sum %b
#include "ir/autodiff/autodiff.h"
#include "ir/fn.h"
#include "ir/ir.h"
#include "ir/storage.h"

bool ir_is_cut(const Fn *f, Val v) {
  for (; ir_is_alias(f->ins[v.i].op); v = ir_arg(f, v, 0))
    if (!ir_grad_reaches(f, v, 0)) return true;
  return false;
}

typedef struct {
  const Fn *f;
  GradReach *found;
  bool *want;  // found's
  uint8_t *round;
  uint32_t n_scans;  // that the walk is in
} Reach;

static void note(GradReach *r, const Fn *f, Val v) {
  if (r->has[v.i]) return;
  r->has[v.i] = true;
  *RT_PUSH(f->prog->mem, r->list, r->n, r->cap) = v;
}

// v is read at this point.
static void look(Reach *r, Val v) {
  for (;; v = ir_arg(r->f, v, 0)) {
    note(r->found, r->f, v);
    if (!ir_is_alias(r->f->ins[v.i].op)) break;
    if (!ir_grad_reaches(r->f, v, 0)) return;
  }
  r->want[v.i] = true;
}

static bool reaches(const GradReach *r, const Fn *f, Val v, uint32_t k) {
  return r->no_zeros ? ir_grad_flows(f, v, k) : ir_grad_reaches(f, v, k);
}

// The gradient comes from a result behind the first one: it flows through the instruction, but does not reach
// its first result.
static void through_result(GradReach *r, const Fn *f, Val v) {
  Val head = ir_arg(f, v, 0);
  if (head.i < r->least || r->want[head.i]) return;
  r->want[head.i] = true;
  *RT_PUSH(f->prog->mem, r->list, r->n, r->cap) = head;
}

static bool is_leaf(const Fn *f, Val v) {
  return f->ins[v.i].op == OP_param && f->prog->params[ir_attr_int(f, v, KEY_param, 0)].trainable;
}

// Before the write the target held something else; versions of a trainable parameter are one leaf.
static void undo_write(Reach *r, Val mark) {
  const Fn *f = r->f;
  Val target = ir_arg(f, mark, 0), storage = ir_written_storage(f, target);
  if (!r->want[storage.i]) return;
  bool cut = ir_attr(f, mark, KEY_no_grad) || ir_is_cut(f, target);
  if (ir_is_whole(f, target) && !is_leaf(f, storage)) r->want[storage.i] = false;
  if (!cut) look(r, ir_arg(f, mark, 1));
}

static bool is_mark(const Fn *f, Val v, Op op, int64_t number) {
  return f->ins[v.i].op == op && ir_attr_int(f, v, KEY_scan, -1) == number;
}

// A scan whose later part was walked: its carries are wanted for the next step, too.
static void look_into_scan(Reach *r, Val end) {
  const Fn *f = r->f;
  int64_t number = ir_attr_int(f, end, KEY_scan, -1);
  bool wanted = false;
  for (Val v = {f->n_ins - 1}; v.i; v.i--) {
    bool result = f->ins[v.i].op == OP_scan_output || f->ins[v.i].op == OP_scan_final;
    wanted |= result && ir_attr_int(f, v, KEY_scan, -1) == number && r->want[v.i];
  }
  for (Val v = {end.i - 1}; v.i && !is_mark(f, v, OP_scan_begin, number); v.i--)
    wanted |= f->ins[v.i].op == OP_write && r->want[ir_written_storage(f, ir_arg(f, v, 0)).i];
  for (Val v = {end.i - 1}; v.i && wanted; v.i--)
    if (f->ins[v.i].op == OP_scan_next && ir_attr_int(f, v, KEY_scan, -1) == number) look(r, ir_arg(f, v, 0));
}

// Where the walk goes on: at the end of the scan again, when a step reads what the step before wrote to storage from
// outside.
static Val go_round(Reach *r, Val begin) {
  const Fn *f = r->f;
  int64_t number = ir_attr_int(f, begin, KEY_scan, -1);
  uint8_t depth = (uint8_t)(1u << (r->n_scans - 1) % MAX_SCAN_DEPTH);
  bool again = false;
  Val v = {begin.i + 1};
  for (; v.i < f->n_ins && !is_mark(f, v, OP_scan_end, number); v.i++) {
    if (f->ins[v.i].op != OP_write) continue;
    Val storage = ir_written_storage(f, ir_arg(f, v, 0));
    bool outside = storage.i < begin.i || f->ins[storage.i].op == OP_param;
    if (!outside || !r->want[storage.i] || r->round[storage.i] & depth) continue;
    r->round[storage.i] |= depth, again = true;
  }
  return again && v.i < f->n_ins ? v : begin;
}

// Clears the result, and makes room for all values.
static void clear(GradReach *r, const Fn *f) {
  for (uint32_t k = 0; k < r->n; k++) {
    uint32_t v = r->list[k].i;
    r->has[v] = r->want[v] = false, r->round[v] = 0;
  }
  r->n = 0;
  if (f->n_ins <= r->cap_has) return;
  r->cap_has = 2 * f->n_ins;
  r->has = rt_alloc(f->prog->mem, r->cap_has);
  r->want = rt_alloc(f->prog->mem, r->cap_has), r->round = rt_alloc(f->prog->mem, r->cap_has);
}

// The end of a scan, or its beginning: where the walk goes on.
static Val pass_scan(Reach *r, Val mark) {
  const Fn *f = r->f;
  Val end = mark;
  if (f->ins[mark.i].op == OP_scan_begin) {
    end = go_round(r, mark);
    r->n_scans -= end.i == mark.i && r->n_scans > 0;
  } else r->n_scans++;
  if (f->ins[end.i].op == OP_scan_end) look_into_scan(r, end);
  return end;
}

// Walks back from the end of the function to the first value of interest and undoes writes. A step of a scan
// may be read by an earlier one in the text, so scans are walked to their beginning.
static void reach_with_writes(const Fn *f, Val loss, GradReach *found) {
  Reach r = {f, found, found->want, found->round, 0};
  look(&r, loss);
  for (Val v = {f->n_ins - 1}; v.i && (v.i >= found->least || r.n_scans); v.i--, f->prog->n_visits++) {
    Op op = f->ins[v.i].op;
    if (op == OP_write) undo_write(&r, v);
    if (op == OP_scan_begin || op == OP_scan_end) v = pass_scan(&r, v);
    if (!r.want[v.i] || ir_is_alias(op)) continue;
    if (op == OP_result) {
      through_result(found, f, v);
      continue;
    }
    for (uint32_t k = 0; k < f->ins[v.i].n_args; k++)
      if (reaches(found, f, v, k)) look(&r, ir_arg(f, v, k));
  }
}

// Without writes in place a value is what it was made of: values that the loss does not depend on are
// skipped.
static void reach_values(const Fn *f, Val loss, GradReach *found) {
  note(found, f, loss);
  for (uint32_t at = 0; at < found->n; at++, f->prog->n_visits++) {
    Val v = found->list[at];
    if (f->ins[v.i].op == OP_result) {
      through_result(found, f, v);
      continue;
    }
    for (uint32_t k = 0; k < f->ins[v.i].n_args; k++)
      if (ir_arg(f, v, k).i >= found->least && reaches(found, f, v, k)) note(found, f, ir_arg(f, v, k));
  }
}

void ir_grad_reach(const Fn *f, Val loss, GradReach *found) {
  clear(found, f);
  (f->has_writes ? reach_with_writes : reach_values)(f, loss, found);
}
