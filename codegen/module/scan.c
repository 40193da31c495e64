// Scans: a loop over the kernels of another function.
//
//   copies the first carries into slot 0 (packed: in sorted order, into both slots)
//   for s in 0 .. steps:    t = s, or steps - 1 - s in reverse
//     the body's kernels, with barriers as in an entry; carries are double-buffered: read from slot s % 2, written to
//     the other; slices and outputs are the step's rows of their stacks
//     barrier
//   copies the final carries out (packed: each sequence's from the slot that its last step wrote)
//
// The body's kernels are ordinary ones: pointers, the rows of the step and random stream ids are arguments.
// Scratch: two slots per carry, then the body's arena. Every worker runs the loop; nothing in the code depends on
// the number of steps.
#include "ir/scan.h"
#include "codegen/module/module.h"
#include "codegen/span.h"

#include <string.h>

typedef struct {
  Cg *c;
  const ModulePlan *plan;
  const KernelCall *call;
  Scan s;
  bool *is_row;                                                  // by carry
  int64_t *slot;                                                 // by carry: offset of slot 0 in the scratch
  int64_t arena;                                                 // of the body, in the scratch
  V layout, batch_sizes, offsets, sorted, lengths, seqs, steps;  // packed: tables of the layout, i32; counts as i64
  uint32_t n_ids;                                                // that the kernels so far took
  // of the current step, i64
  V t, first, live, parity;  // packed: first: its first row; live: their number
} ScanLoop;

// ---- the kernel key
void cg_scan_text(ModulePlan *plan, KernelCall *c, RtText *out) {
  Scan s = ir_scan_at(c->f, (Val){c->k->first});
  const EntryFn *e = c->body;
  uint32_t steps = (uint32_t)ir_dim_bound(plan->p, ir_scan_steps(c->f, (Val){c->k->first}));
  for (uint32_t k = 0; k < s.n_carries; k++)
    rt_text_add(out, "%s %lld ", ir_scan_is_row(&s, k) ? "rows" : "whole", (long long)ir_scan_carry_bytes(&s, k));
  for (uint32_t i = 0; i < e->n_calls; i++) {
    const KernelCall *k = &e->calls[i];
    rt_text_add(out, "%sk%u", k->barrier ? "barrier " : "", k->code);
    for (uint32_t p = 0; p < k->n_kernel_args; p++) {
      const Buf *b = &k->f->bufs[k->f->buf_of[k->kernel_args[p].v.i]];
      rt_text_add(out, " %u+%lld", b->seg, (long long)b->offset);
    }
    if (k->k->scratch) rt_text_add(out, " scratch %lld", (long long)k->f->bufs[k->k->scratch].offset);
    for (uint32_t d = 0; d < k->n_dims; d++) {
      if (k->dims[d].i == s.live.i) rt_text_add(out, " live");
      else rt_text_add(out, " d%u", cg_number_dim(plan, c, k->dims[d]));
    }
    for (uint32_t d = 0; d < k->n_ids; d++) {
      rt_text_add(out, " id %u by %u", c->n_ids, k->ids[d].steps);
      *RT_PUSH(plan->mem, c->ids, c->n_ids, c->cap_ids) = (KernelId){k->ids[d].f, k->ids[d].v, steps * k->ids[d].steps};
    }
    rt_text_add(out, "\n");
  }
}

// ---- helpers
static V load_i32(ScanLoop *l, V base, V index) {
  Cg *c = l->c;
  return cg_sext(c, LLVMBuildLoad2(c->b, c->i32, cg_at(c, c->i32, base, index), ""), c->i64);
}

static void wait_for_team(Cg *c) {
  for (If several = cg_when(c, cg_gt(c, c->n_workers, cg_i64(c, 1))); cg_then(&several);)
    cg_barrier(c, cg_i32(c, 0), cg_trunc(c, c->n_workers, c->i32));
}

// to[lo, hi) = from[lo, hi), f32
static void copy_range(Cg *c, V to, V from, V lo, V hi) {
  for (Span s = cg_span_masked(c, lo, hi); cg_next_vector(&s);)
    cg_span_put(&s, cg_view(to, DT_F32), cg_span_get(&s, cg_view(from, DT_F32)));
}

// Carries without elements need none: any address will do.
static V scratch_of(Cg *c) { return c->scratch ? c->scratch : c->frame; }

// Elements of one row: all axes but the first.
static V row_elements(ScanLoop *l, Shape s) { return cg_axis_product(l->c, s, 1, ir_rank(l->plan->p, s)); }

static Shape shape_of(ScanLoop *l, Val v) { return ir_ins(l->c->f, v)->shape; }
static Val operand(ScanLoop *l, uint32_t k) { return ir_arg(l->c->f, l->s.head, k); }
static Val first_value(ScanLoop *l, uint32_t carry) { return operand(l, l->s.first + l->s.n_slices + carry); }

// Slot 0 or 1 (i64) of a carry.
static V slot_ptr(ScanLoop *l, uint32_t carry, V which) {
  Cg *c = l->c;
  V off = cg_add(c, cg_i64(c, l->slot[carry]), cg_mul(c, which, cg_i64(c, ir_scan_carry_bytes(&l->s, carry))));
  return cg_at(c, c->i8, scratch_of(c), off);
}

// ---- before and after the loop
static void begin_rows(ScanLoop *l, uint32_t k) {
  Cg *c = l->c;
  V width = row_elements(l, shape_of(l, first_value(l, k))), from = cg_ptr(c, first_value(l, k));
  for (Loop rows = cg_each_shared(c, l->seqs, 1); cg_next(&rows);) {
    V source = cg_row(c, from, load_i32(l, l->sorted, rows.i), width), at = cg_mul(c, rows.i, width);
    for (int64_t which = 0; which < 2; which++)
      copy_range(c, cg_at(c, c->f32, slot_ptr(l, k, cg_i64(c, which)), at), source, cg_i64(c, 0), width);
  }
}

static void begin_carries(ScanLoop *l) {
  Cg *c = l->c;
  for (uint32_t k = 0; k < l->s.n_carries; k++) {
    if (l->is_row[k]) {
      begin_rows(l, k);
      continue;
    }
    V lo, hi;
    cg_share(c, cg_numel(c, shape_of(l, first_value(l, k))), c->t->vl, &lo, &hi);
    copy_range(c, slot_ptr(l, k, cg_i64(c, 0)), cg_ptr(c, first_value(l, k)), lo, hi);
  }
}

static void end_rows(ScanLoop *l, uint32_t k, Val result) {
  Cg *c = l->c;
  V width = row_elements(l, shape_of(l, result)), to = cg_ptr(c, result);
  for (Loop rows = cg_each_shared(c, l->seqs, 1); cg_next(&rows);) {
    V user = load_i32(l, l->sorted, rows.i);
    V done = l->s.reverse ? l->steps : load_i32(l, l->lengths, user);
    V slot = slot_ptr(l, k, cg_and(c, done, cg_i64(c, 1)));
    copy_range(c, cg_row(c, to, user, width), cg_row(c, slot, rows.i, width), cg_i64(c, 0), width);
  }
}

static void end_carries(ScanLoop *l) {
  Cg *c = l->c;
  for (uint32_t k = 0; k < l->s.n_carries; k++) {
    Val result = ir_result(l->s.head, l->s.n_stacks + k);
    if (!cg_stored(c, result)) continue;
    if (l->is_row[k]) {
      end_rows(l, k, result);
      continue;
    }
    V lo, hi;
    cg_share(c, cg_numel(c, shape_of(l, result)), c->t->vl, &lo, &hi);
    copy_range(c, cg_ptr(c, result), slot_ptr(l, k, cg_and(c, l->steps, cg_i64(c, 1))), lo, hi);
  }
}

// ---- one step
// The step's part of a stack.
static V step_ptr(ScanLoop *l, Val stack, Shape inner) {
  Cg *c = l->c;
  V first = ir_scan_has_rows(&l->s, inner) ? l->first : l->t;
  Shape s = shape_of(l, stack);
  LLVMTypeRef elem = cg_elem_type(c, (DType)ir_ins(c->f, stack)->dtype);
  return cg_at(c, elem, cg_ptr(c, stack), cg_mul(c, first, row_elements(l, s)));
}

// In the shape in which the body outputs it: its buffer may have another shape, of which the output is a
// view.
static Shape shape_of_output(const Fn *body, uint32_t index) {
  uint32_t i = 1;
  while (body->ins[i].op != OP_output || ir_attr_int(body, (Val){i}, KEY_index, 0) != index) i++;
  return body->ins[i].shape;
}

static V buf_ptr(ScanLoop *l, uint32_t buf) {
  Cg *c = l->c;
  const Buf *b = &l->s.body->bufs[buf];
  uint32_t at = (uint32_t)b->offset, carries = l->s.n_carries;
  switch (b->seg) {
  case SEG_ARENA: return cg_at(c, c->i8, scratch_of(c), cg_i64(c, l->arena + b->offset));
  case SEG_IN:
    if (at < l->s.n_slices) return step_ptr(l, operand(l, l->s.first + at), l->s.body->ins[b->head.i].shape);
    if (at < l->s.n_slices + carries) return slot_ptr(l, at - l->s.n_slices, l->parity);
    return cg_ptr(c, operand(l, l->s.first + at));
  case SEG_OUT:
    if (at >= carries) return step_ptr(l, ir_result(l->s.head, at - carries), shape_of_output(l->s.body, at));
    return slot_ptr(l, at, cg_sub(c, cg_i64(c, 1), l->parity));
  default: rt_text_add(c->why, "the body of a scan has a buffer outside of it; "); return c->frame;
  }
}

static void call_kernel(ScanLoop *l, const KernelCall *call) {
  Cg *c = l->c;
  LLVMTypeRef type = cg_kernel_type(c, call);
  uint32_t n = 0;
  V *arg = rt_alloc(c->mem, LLVMCountParamTypes(type) * sizeof *arg);
  for (; n < 3; n++) arg[n] = LLVMGetParam(c->fn, n);
  for (uint32_t k = 0; k < call->n_kernel_args; k++) arg[n++] = buf_ptr(l, call->f->buf_of[call->kernel_args[k].v.i]);
  if (call->k->scratch) arg[n++] = buf_ptr(l, call->k->scratch);
  for (uint32_t k = 0; k < call->n_dims; k++)
    arg[n++] = call->dims[k].i == l->s.live.i ? l->live : cg_dim(c, call->dims[k]);
  V step = cg_trunc(c, l->t, c->i32);
  for (uint32_t k = 0; k < call->n_ids; k++)
    arg[n++] = cg_iadd(c, c->id_val[l->n_ids++], cg_imul(c, step, cg_i32(c, (int32_t)call->ids[k].steps)));
  cg_call_code(c, l->plan, call, arg, n);
}

static void emit_steps(ScanLoop *l) {
  Cg *c = l->c;
  for (Loop steps = cg_count(c, l->steps); cg_next(&steps);) {
    l->t = l->s.reverse ? cg_sub(c, cg_sub(c, l->steps, cg_i64(c, 1)), steps.i) : steps.i;
    l->parity = cg_and(c, steps.i, cg_i64(c, 1));
    if (l->s.live.i) {
      l->live = load_i32(l, l->batch_sizes, l->t);
      l->first = load_i32(l, l->offsets, l->t);
    }
    for (uint32_t k = 0; k < l->call->body->n_calls; k++) {
      if (l->call->body->calls[k].barrier) wait_for_team(c);
      call_kernel(l, &l->call->body->calls[k]);
    }
    wait_for_team(c);
  }
}

static void open_layout(ScanLoop *l) {
  Cg *c = l->c;
  if (!l->s.live.i) {
    l->steps = cg_dim(c, l->s.steps);
    return;
  }
  Shape s = shape_of(l, operand(l, 0));
  int64_t batch = ir_dim_bound(l->plan->p, ir_dim_at(l->plan->p, s, 0));
  (void)batch;  // the offsets of the first tables do not depend on it
  int64_t time = ir_dim_bound(l->plan->p, ir_dim_at(l->plan->p, s, 1));
  l->layout = cg_ptr(c, operand(l, 0));
  l->batch_sizes = cg_at(c, c->i32, l->layout, cg_i64(c, TN_LAYOUT_BATCH_SIZES(time, batch)));
  l->offsets = cg_at(c, c->i32, l->layout, cg_i64(c, TN_LAYOUT_OFFSETS(time, batch)));
  l->sorted = cg_at(c, c->i32, l->layout, cg_i64(c, TN_LAYOUT_SORTED(time, batch)));
  l->lengths = cg_at(c, c->i32, l->layout, cg_i64(c, TN_LAYOUT_LENGTHS(time, batch)));
  l->steps = load_i32(l, l->layout, cg_i64(c, TN_LAYOUT_STEPS));
  l->seqs = load_i32(l, l->layout, cg_i64(c, TN_LAYOUT_SEQS));
}

bool cg_emit_scan(Cg *c, const ModulePlan *plan, const KernelCall *call) {
  ScanLoop l = {.c = c, .plan = plan, .call = call, .s = ir_scan_at(c->f, (Val){c->k->first})};
  l.is_row = rt_alloc(c->mem, l.s.n_carries + 1);
  l.slot = rt_alloc(c->mem, (l.s.n_carries + 1) * sizeof *l.slot);
  for (uint32_t k = 0; k < l.s.n_carries; k++) {
    l.is_row[k] = ir_scan_is_row(&l.s, k);
    l.slot[k] = l.arena;
    l.arena += 2 * ir_scan_carry_bytes(&l.s, k);
  }
  open_layout(&l);
  begin_carries(&l);
  wait_for_team(c);
  emit_steps(&l);
  end_carries(&l);
  return true;
}
