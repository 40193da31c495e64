// Pass plan_scans: DCE through scans, then plans for the bodies that are left.
//
//   %ys, %kept, %last = scan .. {body="f.scan", slices=2, ..}        %ys = scan .. {body="f.scan", slices=1, ..}
//   output %ys                                              ->       output %ys
//
// One backward walk: an unused result of a scan is dropped from its body's outputs, instructions of the body that only it
// needed are dead, and operands that the body no longer reads are dropped from the scan. So are carries that neither an
// output nor a final value needs. Then each body runs through the passes from simplify on: its arena is scratch memory of
// the scan.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/packed_dims.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/scan.h"

typedef struct {
  Fn *f;
  Prog *p;
  bool *live;   // by value
  bool **args;  // by scan: operands that are kept
} PlanScans;

// ---- one body: liveness of its instructions, given live outputs
static void mark_needed(const Scan *s, const Val *in, const Val *out, const bool *want, bool *need) {
  const Fn *b = s->body;
  for (uint32_t k = 0; k < b->n_outputs; k++) need[out[k].i] = want[k];
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = b->n_ins - 1; i > 0; i--)
      for (uint32_t k = 0; need[i] && k < b->ins[i].n_args; k++) {
        Val a = ir_arg(b, (Val){i}, k);
        need[a.i] = need[ir_head(b, a).i] = true;
      }
    for (uint32_t k = 0; k < s->n_carries; k++) {  // back edge: a carry's value is what the previous step passed on
      bool used = need[in[s->n_slices + k].i] || want[k];
      if (used && !need[out[k].i]) need[out[k].i] = again = true;
      if (used) need[in[s->n_slices + k].i] = true;
    }
  }
}

static void copy_at(Rewrite *e, Val v, int64_t index) {
  Val w = ir_rewrite_copy(e, v);
  ir_set_attr(e->f, w, ir_a_int(KEY_index, index));
}

// Inputs first, by position; the rest in its order; outputs last.
static void rebuild(const Scan *s, const Val *in, const Val *out, const bool *need) {
  Fn *b = s->body;
  Rewrite e;
  uint32_t n_in = b->n_inputs, n_out = b->n_outputs;
  b->n_inputs = b->n_outputs = 0;
  ir_rewrite_begin(&e, b);
  for (uint32_t k = 0; k < n_in; k++)
    if (need[in[k].i]) copy_at(&e, in[k], b->n_inputs++);
  for (uint32_t i = 1; i < e.n_old; i++) {
    Op op = e.old[i].op;
    if (need[i] && op != OP_input && op != OP_output && op != OP_result) ir_rewrite_copy(&e, (Val){i});
  }
  for (uint32_t k = 0; k < n_out; k++)
    if (need[out[k].i]) copy_at(&e, out[k], b->n_outputs++);
  ir_rewrite_end(&e);
}

// Removes from the body what the live results of the scan do not need; marks the operands that it still reads, and then
// the results that it still has.
static void prune(PlanScans *b, Val v) {
  Fn *f = b->f;
  Scan s = ir_scan_at(f, v);
  Val *in = ir_scan_inputs(&s), *out = ir_scan_outputs(&s);
  bool *want = rt_alloc(b->p->mem, s.body->n_outputs + 1), *need = rt_alloc(b->p->mem, s.body->n_ins);
  bool *stays = b->args[v.i] = rt_alloc(b->p->mem, f->ins[v.i].n_args + 1);
  for (uint32_t k = 0; k < s.n_stacks; k++) want[s.n_carries + k] = b->live[v.i + k];
  for (uint32_t k = 0; k < s.n_carries; k++) want[k] = b->live[v.i + s.n_stacks + k];
  mark_needed(&s, in, out, want, need);
  uint32_t n_slices = 0, n_carries = 0;
  if (s.first) stays[0] = true;
  for (uint32_t k = 0; k < s.body->n_inputs; k++) {
    stays[s.first + k] = need[in[k].i];
    n_slices += k < s.n_slices && need[in[k].i];
    n_carries += k >= s.n_slices && k < s.n_slices + s.n_carries && need[in[k].i];
  }
  for (uint32_t k = 0; k < s.n_stacks; k++) b->live[v.i + k] = need[out[s.n_carries + k].i];
  for (uint32_t k = 0; k < s.n_carries; k++) b->live[v.i + s.n_stacks + k] = need[out[k].i];
  rebuild(&s, in, out, need);
  ir_set_attr(f, v, ir_a_int(KEY_slices, n_slices));
  ir_set_attr(f, v, ir_a_int(KEY_carries, n_carries));
}

// ---- the function
static void walk_back(PlanScans *b) {
  Fn *f = b->f;
  const Val *makers = ir_rows_makers(f);
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    Val v = {i}, from[IR_MAX_MAKERS];
    if (ir_has_effect(f, v)) b->live[i] = true;
    if (f->ins[i].op == OP_result) {
      if (b->live[i] && f->ins[ir_head(f, v).i].op != OP_scan) b->live[ir_head(f, v).i] = true;
      if (!b->live[i]) continue;
    }
    bool any = b->live[i];
    for (uint32_t k = 1; k < f->ins[i].n_res; k++) any |= b->live[i + k];
    if (!any) continue;
    for (uint32_t k = ir_sizes_from(f, makers, v, from); k-- > 0;) b->live[from[k].i] = true;
    if (f->ins[i].op == OP_result) continue;
    if (f->ins[i].op == OP_scan) prune(b, v);
    else b->live[i] = true;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++)
      if (f->ins[i].op != OP_scan || b->args[i][k]) b->live[ir_arg(f, v, k).i] = true;
  }
}

static Val copy_scan(PlanScans *b, Rewrite *e, Val v) {
  Fn *f = b->f;
  Ins ins = e->old[v.i];
  Val *args = rt_alloc(b->p->mem, (ins.n_args + 1) * sizeof *args);
  uint32_t n = 0, at = 0;
  for (uint32_t k = 0; k < ins.n_args; k++)
    if (b->args[v.i][k]) args[n++] = e->map[f->args[ins.args + k].i];
  Val w = ir_emit(f, OP_scan, args, n, f->attrs + ins.attrs, ins.n_attrs, ins.loc);
  for (uint32_t k = 0; k < ins.n_res && !ir_none(w); k++) {
    if (!b->live[v.i + k]) continue;
    ir_copy_metadata(&f->ins[w.i + at], &e->old[v.i + k]);
    e->map[v.i + k] = (Val){w.i + at++};
  }
  return w;
}

static bool any_live(const PlanScans *b, const Rewrite *e, uint32_t i) {
  bool any = b->live[i];
  for (uint32_t k = 1; k < e->old[i].n_res; k++) any |= b->live[i + k];
  return any;
}

bool ir_pass_plan_scans(Fn *f) {
  bool any = false, ok = true;
  for (uint32_t i = 1; i < f->n_ins; i++) any |= f->ins[i].op == OP_scan;
  if (!any) return true;
  RtArena *mem = f->prog->mem;
  PlanScans b = {f, f->prog, rt_alloc(mem, f->n_ins + 1), rt_alloc(mem, f->n_ins * sizeof(bool *))};
  walk_back(&b);
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    if (e.old[i].op == OP_result || !any_live(&b, &e, i)) continue;
    if (e.old[i].op == OP_scan) ok &= !ir_none(copy_scan(&b, &e, (Val){i}));
    else ir_rewrite_copy(&e, (Val){i});
  }
  ir_rewrite_end(&e);
  for (uint32_t i = 1; i < f->n_ins && ok; i++) {
    if (f->ins[i].op != OP_scan) continue;
    ok = ir_run_body_passes(ir_scan_at(f, (Val){i}).body);
  }
  return ok;
}
