// Connectionist temporal classification: the loss of a sequence of labels that may stand anywhere in a longer sequence of
// steps, with blanks between them; PyTorch's formulas and gradient.
//
//   labels with blanks    _ a _ b _ ..                              [batch, 2 S + 1], behind a sequence's own ones blanks
//   step                  a' = log p[label] + ln(e^a + e^(a one place before) + e^(a two places before, where it may skip))
//   loss                  -ln(e^(a of the last label) + e^(a of the last blank))
//
// The steps are a scan, of packed rows over those that there are. What is impossible has IMPOSSIBLE instead of an infinite
// logarithm, so that gradients are numbers.
// PyTorch takes log_p for a log_softmax and adds e^log_p to its gradient; what follows the log_softmax does not change.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/rnn.h"
#include "ir/build.h"

#include <math.h>

#define IMPOSSIBLE (-1e30)

typedef struct {
  tn_function *f;
  tn_site at;
  Dim steps, batch, one;
  int64_t n_labels, n_places;  // S, 2 S + 1
  double blank;
  tn_tensor log_p, targets;          // targets as f32
  tn_tensor n_steps, n_targets;      // f32 [batch, 1]
  tn_tensor label, may_skip, start;  // [batch, places]: i64, 0 or 1, logarithms before the first step
  tn_tensor is_running;              // [steps, batch, 1]
  tn_tensor layout;                  // of rows log_p [rows, classes]; fn NULL: it has steps and batch
} Ctc;

// ---- parts of the formulas
static tn_tensor number(const Ctc *c, double x) { return fe_const(c->f, x, c->at); }
static tn_tensor op1(const Ctc *c, Op op, tn_tensor a) { return fe_emit1(op, a, c->at); }
static tn_tensor op2(const Ctc *c, Op op, tn_tensor a, tn_tensor b) { return fe_emit2(op, a, b, c->at); }
static tn_tensor pick(const Ctc *c, tn_tensor cond, tn_tensor a, tn_tensor b) {
  return fe_emit(OP_select, (const tn_tensor[]){cond, a, b}, 3, NULL, 0, c->at);
}
static tn_tensor whole(const Ctc *c, tn_tensor a) { return fe_cast(a, DT_I64, c->at); }
static tn_tensor shaped(const Ctc *c, tn_tensor a, Dim x, Dim y, Dim z) {
  return fe_reshape(a, (const Dim[]){x, y, z}, z.i ? 3 : y.i ? 2 : 1, c->at);
}
static tn_tensor gathered(const Ctc *c, tn_tensor a, int64_t axis, tn_tensor index) {
  return fe_emit(OP_gather, (const tn_tensor[]){a, index}, 2, (const Attr[]){ir_a_int(KEY_axis, axis)}, 1, c->at);
}
static tn_tensor filled(const Ctc *c, double x, const Dim *d, uint32_t rank) {
  Shape s = ir_shape(c->f->p->ir, d, rank);
  return fe_emit_in(c->f, OP_full, (const Attr[]){ir_a_num(KEY_value, x), ir_a_list(KEY_shape, s)}, 2, c->at);
}
static tn_tensor columns(const Ctc *c, Dim rows, double x, int64_t n) {
  return filled(c, x, (const Dim[]){rows, ir_dim(c->f->p->ir, n)}, 2);
}

// `n` columns of x before the first ones of a, which keeps its width.
static tn_tensor moved(const Ctc *c, tn_tensor a, double x, int64_t n) {
  int64_t width = ir_dim_bound(c->f->p->ir, fe_axis_dim(a, 1));
  Dim rows = fe_axis_dim(a, 0);
  if (n >= width) return columns(c, rows, x, width);
  return fe_concat((const tn_tensor[]){columns(c, rows, x, n), fe_slice(a, 1, 0, width - n, c->at)}, 2, 1, c->at);
}

// ln(e^a + e^b + ..)
static tn_tensor log_sum(const Ctc *c, const tn_tensor *a, uint32_t n) {
  tn_tensor most = a[0], sum = TN_NONE;
  for (uint32_t k = 1; k < n; k++) most = op2(c, OP_max, most, a[k]);
  most = op1(c, OP_stop_grad, most);
  for (uint32_t k = 0; k < n; k++) {
    tn_tensor share = op1(c, OP_exp, op2(c, OP_sub, a[k], most));
    sum = k ? op2(c, OP_add, sum, share) : share;
  }
  return op2(c, OP_add, most, op1(c, OP_log, sum));
}

// ---- labels
// x _ x _ .. _ of the columns of a, where _ is `between`
static tn_tensor interleaved(const Ctc *c, tn_tensor a, double between) {
  Dim n = ir_dim(c->f->p->ir, c->n_labels), two = ir_dim(c->f->p->ir, 2 * c->n_labels);
  tn_tensor end = columns(c, c->batch, between, 1);
  if (!c->n_labels) return end;
  tn_tensor pair[] = {filled(c, between, (const Dim[]){c->batch, n, c->one}, 3), shaped(c, a, c->batch, n, c->one)};
  tn_tensor both = shaped(c, fe_concat(pair, 2, 2, c->at), c->batch, two, (Dim){0});
  return fe_concat((const tn_tensor[]){both, end}, 2, 1, c->at);
}

static void make_labels(Ctc *c) {
  Dim n = ir_dim(c->f->p->ir, c->n_labels);
  tn_tensor own = op2(c, OP_lt, fe_positions(c->f, n, c->at), c->n_targets);
  tn_tensor label = pick(c, own, c->targets, number(c, c->blank));
  tn_tensor differs = op2(c, OP_ne, label, moved(c, label, c->blank, 1));
  c->label = whole(c, interleaved(c, label, c->blank));
  c->may_skip = interleaved(c, differs, 0);
  c->start = moved(c, columns(c, c->batch, IMPOSSIBLE, c->n_places), 0, 1);
  if (c->layout.fn) return;
  tn_tensor step = shaped(c, fe_positions(c->f, c->steps, c->at), c->steps, c->one, c->one);
  c->is_running = op2(c, OP_lt, step, shaped(c, c->n_steps, c->one, c->batch, c->one));
}

// ---- the steps
static tn_tensor labels_of(const Ctc *c, tn_tensor log_p, tn_tensor label) {
  return gathered(c, op2(c, OP_max, log_p, number(c, IMPOSSIBLE)), 1, label);
}

// own: log_p of the labels, in which a step ends
static tn_tensor step(const Ctc *c, tn_tensor own, tn_tensor may_skip, tn_tensor a) {
  tn_tensor impossible = number(c, IMPOSSIBLE), two = moved(c, a, IMPOSSIBLE, 2);
  tn_tensor from[] = {a, moved(c, a, IMPOSSIBLE, 1), pick(c, may_skip, two, impossible)};
  return op2(c, OP_add, own, log_sum(c, from, 3));
}

static tn_tensor all_rows(const Ctc *c) {
  tn_tensor label = op2(c, OP_seq_broadcast, c->label, c->layout);
  tn_tensor own = fe_ok(label) ? labels_of(c, c->log_p, label) : label;
  tn_tensor may_skip = op2(c, OP_seq_broadcast, c->may_skip, c->layout);
  tn_scan *s = tn_scan_begin(c->f, (tn_scan_options){.over = {c->log_p, c->layout}, .name = "ctc", .at = c->at});
  own = tn_scan_input(s, own, c->at), may_skip = tn_scan_input(s, may_skip, c->at);
  tn_tensor a = tn_scan_carry(s, c->start, c->at);
  if (fe_ok(own) && fe_ok(may_skip) && fe_ok(a)) tn_scan_next(s, a, step(c, own, may_skip, a), c->at);
  tn_scan_end(s, c->at);
  return tn_scan_final(s, a, c->at);
}

static tn_tensor all_steps(const Ctc *c) {
  if (c->layout.fn) return all_rows(c);
  tn_scan *s =
      tn_scan_begin(c->f, (tn_scan_options){.steps = fe_dim_handle(c->f->p, c->steps), .name = "ctc", .at = c->at});
  tn_tensor log_p = tn_scan_input(s, c->log_p, c->at), is_running = tn_scan_input(s, c->is_running, c->at);
  tn_tensor a = tn_scan_carry(s, c->start, c->at);
  if (fe_ok(log_p) && fe_ok(is_running) && fe_ok(a)) {
    tn_tensor next = step(c, labels_of(c, log_p, c->label), c->may_skip, a);
    tn_scan_next(s, a, pick(c, is_running, next, a), c->at);
  }
  tn_scan_end(s, c->at);
  return tn_scan_final(s, a, c->at);
}

// ---- the losses, [batch, 1]
// What PyTorch adds to the gradient: its value is 0.
static tn_tensor extra_gradient(const Ctc *c) {
  tn_tensor p = op1(c, OP_exp, c->log_p);
  tn_tensor sum = c->layout.fn ? op2(c, OP_seq_sum, fe_sum(p, (const int[]){1}, 1, false, c->at), c->layout)
                               : fe_sum(pick(c, c->is_running, p, number(c, 0)), (const int[]){0, 2}, 2, false, c->at);
  sum = shaped(c, sum, c->batch, c->one, (Dim){0});
  return op2(c, OP_sub, sum, op1(c, OP_stop_grad, sum));
}

// 0, and an error of the run where a number of steps is none of 0 .. steps
static tn_tensor check_steps(const Ctc *c) {
  tn_tensor some = op2(c, OP_gt, c->n_steps, number(c, 0)), last = op2(c, OP_sub, c->n_steps, some);
  tn_tensor nothing = op2(c, OP_mul, fe_positions(c->f, c->steps, c->at), number(c, 0));
  nothing = gathered(c, nothing, 0, whole(c, shaped(c, last, c->batch, (Dim){0}, (Dim){0})));
  return shaped(c, nothing, c->batch, c->one, (Dim){0});
}

static tn_tensor losses(const Ctc *c, bool zero_infinity) {
  tn_tensor a = all_steps(c), zero = number(c, 0);
  if (!fe_ok(a)) return a;
  tn_tensor last = op2(c, OP_mul, c->n_targets, number(c, 2));
  tn_tensor before = op2(c, OP_max, op2(c, OP_sub, last, number(c, 1)), zero);
  tn_tensor label = pick(c, op2(c, OP_gt, last, zero), gathered(c, a, 1, whole(c, before)), number(c, IMPOSSIBLE));
  tn_tensor end[] = {gathered(c, a, 1, whole(c, last)), label};
  tn_tensor loss = op1(c, OP_neg, log_sum(c, end, 2));
  if (!c->layout.fn) loss = op2(c, OP_add, loss, check_steps(c));
  tn_tensor is_possible = op2(c, OP_lt, loss, number(c, -0.1 * IMPOSSIBLE));
  tn_tensor with_extra = op2(c, OP_add, loss, extra_gradient(c));
  return pick(c, is_possible, with_extra, number(c, zero_infinity ? 0 : (double)INFINITY));
}

// ---- targets on one axis
// [batch, S] of the targets of one sequence behind those of the other. What is no sequence's is none of a loss.
static tn_tensor by_sequence(Ctc *c, tn_tensor targets) {
  Dim own[] = {c->batch, ir_dim(c->f->p->ir, c->n_labels)};
  const Attr along = ir_a_int(KEY_axis, 0);
  if (!c->n_labels) return fe_reshape(filled(c, 0, own, 2), own, 2, c->at);
  tn_tensor end = fe_emit(OP_cumsum, &c->n_targets, 1, &along, 1, c->at);
  tn_tensor first = op2(c, OP_sub, end, c->n_targets), j = fe_positions(c->f, own[1], c->at);
  tn_tensor at = pick(c, op2(c, OP_lt, j, c->n_targets), op2(c, OP_add, first, j), number(c, 0));
  Dim all = ir_shape_numel(c->f->p->ir, ir_shape(c->f->p->ir, own, 2));
  return fe_reshape(gathered(c, targets, 0, whole(c, fe_reshape(at, &all, 1, c->at))), own, 2, c->at);
}

static int64_t width_of(const Ctc *c, tn_tensor targets, const tn_ctc_options *o) {
  int64_t all = ir_dim_bound(c->f->p->ir, fe_axis_dim(targets, fe_rank(targets) - 1));
  return o->most_targets && o->most_targets < all ? o->most_targets : all;
}

// ---- the calls
static bool refuse(const Ctc *c, int id, const char *text) {
  fe_error(c->f->p, id, c->at, "%s", text);
  return false;
}

// lengths: n_steps of padded sequences, and n_targets
static bool check(const Ctc *c, tn_tensor targets, const tn_tensor *lengths, uint32_t n, const tn_ctc_options *o) {
  Prog *p = c->f->p->ir;
  bool is_joined = fe_rank(targets) == 1, good = fe_ins(c->log_p)->dtype == DT_F32 && fe_ins(targets)->dtype == DT_I64;
  for (uint32_t k = 0; k < n; k++) good &= fe_ins(lengths[k])->dtype == DT_I64;
  if (!good) return refuse(c, E_DTYPE, "ctc takes logarithms of f32, and targets and lengths of i64");
  bool fits = fe_rank(c->log_p) == (c->layout.fn ? 2 : 3) && (fe_rank(targets) == 2 || is_joined);
  for (uint32_t k = 0; k < n; k++) fits &= fe_rank(lengths[k]) == 1;
  if (!fits)
    return refuse(c, E_SHAPE,
                  c->layout.fn
                      ? "ctc takes packed log_p [rows, classes], targets [batch, S] or [n] and their numbers [batch]"
                      : "ctc takes log_p [steps, batch, classes], targets [batch, S] or [n] and two lengths [batch]");
  Dim batch = c->layout.fn ? fe_axis_dim(c->layout, 0) : fe_axis_dim(c->log_p, 1);
  fits = is_joined || fe_axis_dim(targets, 0).i == batch.i;
  for (uint32_t k = 0; k < n; k++) fits &= fe_axis_dim(lengths[k], 0).i == batch.i;
  if (!fits)
    return refuse(c, E_SHAPE,
                  c->layout.fn ? "ctc takes targets of each sequence of log_p, and their number"
                               : "the targets and lengths of ctc have the batch of log_p, its axis 1");
  int64_t classes = ir_dim_bound(p, fe_axis_dim(c->log_p, fe_rank(c->log_p) - 1));
  if (!ir_dim_is_const(p, fe_axis_dim(targets, !is_joined)))
    return refuse(c, E_SHAPE, "the targets of ctc have a constant width");
  if (o->most_targets < 0 || (o->most_targets > 0 && !is_joined))
    return refuse(c, E_ARGUMENT, "most_targets bounds the targets of a sequence where they are on one axis");
  if (classes > 1 << 24 || o->blank < 0 || o->blank >= classes)
    return refuse(c, E_ARGUMENT, "the blank of ctc is one of the classes, of which there are at most 2^24");
  if (o->reduction > TN_REDUCE_NONE) return refuse(c, E_ARGUMENT, "ctc is reduced by MEAN, SUM or NONE");
  return true;
}

static tn_tensor reduced(const Ctc *c, tn_tensor loss, tn_reduction how) {
  if (how == TN_REDUCE_MEAN) loss = op2(c, OP_div, loss, op2(c, OP_max, c->n_targets, number(c, 1)));
  if (how == TN_REDUCE_NONE) return shaped(c, loss, c->batch, (Dim){0}, (Dim){0});
  return how == TN_REDUCE_SUM ? fe_sum(loss, NULL, 0, false, c->at) : fe_mean(loss, NULL, 0, false, c->at);
}

// batch and steps are set; n_steps too where c has no layout
static tn_tensor loss_of(Ctc *c, tn_tensor targets, tn_tensor n_targets, const tn_ctc_options *o) {
  c->n_labels = width_of(c, targets, o), c->n_places = 2 * c->n_labels + 1;
  c->n_targets = shaped(c, fe_cast(n_targets, DT_F32, c->at), c->batch, c->one, (Dim){0});
  c->targets = fe_cast(targets, DT_F32, c->at);
  if (fe_rank(targets) == 1) c->targets = by_sequence(c, c->targets);
  make_labels(c);
  tn_scope *scope = tn_scope_begin(c->f, "ctc", c->at);  // what the calls of the scan give ends here
  tn_tensor loss = losses(c, o->zero_infinity);
  loss = fe_ok(loss) ? tn_move_to_outer(fe_made(reduced(c, loss, o->reduction), c->at), c->at) : fe_poison(c->f);
  tn_scope_end(scope, c->at);
  return loss;
}

tn_tensor tn_ctc(tn_tensor log_p, tn_tensor targets, tn_tensor n_steps, tn_tensor n_targets, tn_ctc_options o) {
  const tn_tensor in[] = {log_p, targets, n_steps, n_targets};
  Ctc c = {.at = o.at, .log_p = log_p, .blank = (double)o.blank};
  if (!fe_join(in, 4, &c.f, c.at)) return fe_poison(c.f);
  FE_GUARD(c.f->p, fe_poison(c.f));
  if (!check(&c, targets, in + 2, 2, &o)) return fe_poison(c.f);
  c.one = ir_dim(c.f->p->ir, 1), c.steps = fe_axis_dim(log_p, 0), c.batch = fe_axis_dim(log_p, 1);
  c.n_steps = shaped(&c, fe_cast(n_steps, DT_F32, c.at), c.batch, c.one, (Dim){0});
  return loss_of(&c, targets, n_targets, &o);
}

tn_tensor tn_packed_ctc(tn_packed log_p, tn_tensor targets, tn_tensor n_targets, tn_ctc_options o) {
  Ctc c = {.at = o.at, .log_p = log_p.data, .layout = log_p.layout, .blank = (double)o.blank};
  if (!fe_join((const tn_tensor[]){log_p.data, log_p.layout, targets, n_targets}, 4, &c.f, c.at)) return fe_poison(c.f);
  if (!fe_join_packed(&log_p, 1, &c.f, c.at)) return fe_poison(c.f);
  FE_GUARD(c.f->p, fe_poison(c.f));
  if (!check(&c, targets, &n_targets, 1, &o)) return fe_poison(c.f);
  c.one = ir_dim(c.f->p->ir, 1), c.steps = fe_axis_dim(log_p.layout, 1), c.batch = fe_axis_dim(log_p.layout, 0);
  return loss_of(&c, targets, n_targets, &o);
}
