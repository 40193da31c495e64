// Scans: a loop over a function of its own. What its operands and results are.
//
//   body @step.scan(%x: f32[live,12], %h: f32[live,64], %w: f32[64,76]) {
//     %hn = .. : f32[live,64]
//     output %hn {index=0} : f32[live,64]          the carry's next value
//     output %hn {index=1} : f32[live,64]          an output, stacked
//   }
//   %ys, %last = scan %layout, %xs, %h0, %w {body="step.scan", slices=1, carries=1, live=live}
//
// Over a packed layout step t has batch_sizes[t] rows, `live` in the body: a slice is the rows of xs at offsets[t]. A
// carry whose first axis is the batch outside has one row for each sequence, in sorted order inside; a sequence that
// ended keeps its row as it was, in reverse one that has not begun yet. Any other carry is one value for all, and what
// is stacked of it has a time axis. Over a dense time axis a slice is xs[t] and every carry is one value.
#include "ir/scan.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"

const char ir_layout_in_scan[] = "a layout of sequences is made or read inside a scan";

Scan ir_scan_at(const Fn *f, Val v) {
  const Attr *live = ir_attr(f, v, KEY_live), *time = ir_attr(f, v, KEY_time);
  Scan s = {.body = ir_body_find(f->prog, ir_attr(f, v, KEY_body)->u.s),
            .head = v,
            .n_slices = (uint32_t)ir_attr_int(f, v, KEY_slices, 0),
            .n_carries = (uint32_t)ir_attr_int(f, v, KEY_carries, 0),
            .first = live != NULL,
            .reverse = ir_attr(f, v, KEY_reverse) != NULL,
            .live = live ? live->u.dim : (Dim){0},
            .steps = time ? time->u.dim : (Dim){0}};
  s.n_captures = f->ins[v.i].n_args - s.first - s.n_slices - s.n_carries;
  s.n_stacks = s.body->n_outputs - s.n_carries;
  return s;
}

BodySite ir_body_site(const BodySite *outer, Val scan) {
  Scan s = ir_scan_at(outer->f, scan);
  return (BodySite){s.body, outer, s};
}

Val ir_body_given(const BodySite *at, uint32_t input) {
  return ir_arg(at->outer->f, at->scan.head, at->scan.first + input);
}

Dim ir_scan_steps(const Fn *f, Val v) {
  const Attr *time = ir_attr(f, v, KEY_time);
  return time ? time->u.dim : ir_dim_at(f->prog, ir_ins(f, ir_arg(f, v, 0))->shape, 1);
}

static Val *by_position(const Scan *s, Op op, uint32_t n) {
  const Fn *b = s->body;
  Val *list = rt_alloc(b->prog->mem, (n + 1) * sizeof *list);
  for (uint32_t i = 1; i < b->n_ins; i++)
    if (b->ins[i].op == op) {
      int64_t at = ir_attr_int(b, (Val){i}, KEY_index, -1);
      if (at >= 0 && at < n) list[at] = (Val){i};
    }
  return list;
}

Val *ir_scan_inputs(const Scan *s) { return by_position(s, OP_input, s->body->n_inputs); }
Val *ir_scan_outputs(const Scan *s) { return by_position(s, OP_output, s->body->n_outputs); }

static bool begins_with(const Prog *p, Shape s, Dim d) { return ir_rank(p, s) > 0 && ir_dim_at(p, s, 0).i == d.i; }

Val ir_scan_carry_input(const Scan *s, uint32_t carry) {
  const Fn *b = s->body;
  for (uint32_t i = 1; i < b->n_ins; i++)
    if (b->ins[i].op == OP_input && ir_attr_int(b, (Val){i}, KEY_index, -1) == s->n_slices + carry) return (Val){i};
  return (Val){0};
}

bool ir_scan_has_rows(const Scan *s, Shape inner) { return s->live.i && begins_with(s->body->prog, inner, s->live); }

bool ir_scan_is_row(const Scan *s, uint32_t carry) {
  return ir_scan_has_rows(s, s->body->ins[ir_scan_carry_input(s, carry).i].shape);
}

int64_t ir_scan_carry_bytes(const Scan *s, uint32_t carry) {
  return ir_aligned(ir_type_bytes(s->body->prog, DT_F32, s->body->ins[ir_scan_carry_input(s, carry).i].shape));
}

int64_t ir_scan_scratch(const Fn *f, Val v) {
  Scan s = ir_scan_at(f, v);
  int64_t bytes = ir_aligned(s.body->stats.peak_bytes);
  for (uint32_t k = 0; k < s.n_carries; k++) bytes += 2 * ir_scan_carry_bytes(&s, k);
  return bytes;
}

int64_t ir_scratch_at(const Fn *f, Val v) {
  if (ir_ins(f, v)->op == OP_result) return 0;
  if (ir_ins(f, v)->op == OP_scan) return ir_aligned(ir_scan_scratch(f, v));
  return f->prog->scratch ? ir_aligned(f->prog->scratch(f, v, f->prog->scratch_ctx)) : 0;
}
