// A scan: its body is interpreted once for each step.
#include "ir/scan.h"
#include "ir/intern.h"
#include "ir/interp/packed.h"
#include <string.h>

typedef struct {
  Run *r;
  Val v;
  Scan s;
  Layout l;               // packed
  int64_t n, time, seqs;  // steps; size of the time axis; sequences
  int64_t bound;          // of the steps
  Tensor *carry;          // by carry: a row carry has a row for each sequence, by sorted position
} Loop;

static int64_t row_size(Tensor t, int64_t rows) { return rows ? t.n / rows : 0; }

static Tensor new_tensor(const Loop *p, int64_t n) {
  return (Tensor){.v = rt_alloc(p->r->env->mem, (size_t)n * sizeof(double)), .n = n};
}

static void copy(double *to, const double *from, int64_t n) {
  if (n) memcpy(to, from, (size_t)n * sizeof(double));
}

// `live` of `total` equal parts, from `first` on
static Tensor slice_of(const Loop *p, Tensor all, int64_t total, int64_t first, int64_t live) {
  int64_t width = row_size(all, total);
  Tensor t = new_tensor(p, live * width);
  copy(t.v, all.v + first * width, t.n);
  return t;
}

static void begin_carries(Loop *p) {
  for (uint32_t k = 0; k < p->s.n_carries; k++) {
    Tensor h0 = run_arg(p->r, p->v, p->s.first + p->s.n_slices + k);
    p->carry[k] = new_tensor(p, h0.n);
    copy(p->carry[k].v, h0.v, h0.n);
    if (!ir_scan_is_row(&p->s, k)) continue;
    int64_t width = row_size(h0, p->seqs);
    for (int64_t i = 0; i < p->seqs; i++)
      copy(p->carry[k].v + i * width, h0.v + (int64_t)p->l.sorted[i] * width, width);
  }
}

static bool step(Loop *p, int64_t t) {
  const Scan *s = &p->s;
  bool packed = s->live.i != 0;
  int64_t live = packed ? (int64_t)p->l.batch_sizes[t] : 1, first = packed ? (int64_t)p->l.offsets[t] : t;
  int64_t rows = packed ? (int64_t)p->l.head[TN_LAYOUT_ROWS] : 0;
  Val *inner = ir_scan_inputs(s), *made = ir_scan_outputs(s);
  InterpEnv env = *p->r->env;
  if (packed) env.slots[ir_dim_info(p->r->f->prog, s->live)->slot] = live;
  Tensor *in = rt_alloc(env.mem, (s->body->n_inputs + 1) * sizeof *in);
  Tensor *out = rt_alloc(env.mem, (s->body->n_outputs + 1) * sizeof *out);
  for (uint32_t k = 0; k < s->body->n_inputs; k++) {
    Tensor given = run_arg(p->r, p->v, s->first + k);
    bool row = ir_scan_has_rows(s, s->body->ins[inner[k].i].shape);
    if (k < s->n_slices) in[k] = row ? slice_of(p, given, rows, first, live) : slice_of(p, given, p->time, t, 1);
    else if (k >= s->n_slices + s->n_carries) in[k] = given;
    else in[k] = p->carry[k - s->n_slices];
    if (k >= s->n_slices && k < s->n_slices + s->n_carries && ir_scan_is_row(s, k - s->n_slices))
      in[k].n = live * row_size(in[k], p->seqs);
  }
  env.in = in, env.out = out;
  env.step = p->r->env->step * (uint32_t)p->bound + (uint32_t)t;
  bool ok = ir_interpret(s->body, &env, p->r->why);
  p->r->env->noise_state = env.noise_state;
  for (uint32_t k = 0; ok && k < s->n_carries; k++) copy(p->carry[k].v, out[k].v, out[k].n);
  for (uint32_t k = 0; ok && k < s->n_stacks; k++) {
    Tensor y = out[s->n_carries + k], all = p->r->val[p->v.i + k];
    bool row = ir_scan_has_rows(s, s->body->ins[made[s->n_carries + k].i].shape);
    copy(all.v + (row ? first * row_size(y, live) : t * y.n), y.v, y.n);
  }
  return ok;
}

bool eval_scan(Run *r, Val v) {
  Loop p = {.r = r, .v = v, .s = ir_scan_at(r->f, v), .bound = ir_dim_bound(r->f->prog, ir_scan_steps(r->f, v))};
  if (p.s.live.i) {
    p.l = run_layout_of(r, ir_arg(r->f, v, 0));
    p.n = (int64_t)p.l.head[TN_LAYOUT_STEPS];
    p.seqs = (int64_t)p.l.head[TN_LAYOUT_SEQS];
    p.time = run_arg_sizes(r, v, 0).dim[1];
  } else {
    p.n = p.time = ir_dim_eval(r->f->prog, p.s.steps, r->env->slots);
  }
  p.carry = rt_alloc(r->env->mem, (p.s.n_carries + 1) * sizeof *p.carry);
  for (uint32_t k = 0; k < r->f->ins[v.i].n_res; k++) run_result(r, v, k);
  begin_carries(&p);
  bool ok = true;
  for (int64_t k = 0; k < p.n && ok; k++) ok = step(&p, p.s.reverse ? p.n - 1 - k : k);
  for (uint32_t k = 0; k < p.s.n_carries && ok; k++) {
    Tensor last = r->val[v.i + p.s.n_stacks + k];
    int64_t width = row_size(last, p.seqs);
    if (!ir_scan_is_row(&p.s, k)) copy(last.v, p.carry[k].v, last.n);
    else
      for (int64_t i = 0; i < p.seqs; i++)
        copy(last.v + (int64_t)p.l.sorted[i] * width, p.carry[k].v + i * width, width);
  }
  return ok;
}
