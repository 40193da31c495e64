// The program with one thing changed, as text: another bound of a dim, a batch in shards.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/packed_dims.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"
#include "ir/text/text.h"
#include "tools/tool.h"

#include <string.h>

bool tool_is_set_by_layout(const Prog *p, Dim d) {
  for (uint32_t k = 0; k < p->n_fns; k++) {
    const Val *maker = ir_rows_makers(p->fns[k]);
    if (maker && !ir_none(maker[ir_dim_info(p, d)->slot])) return true;
  }
  return false;
}

// ---- another bound
static int64_t eval(const Prog *p, Dim d, const int64_t *bounds) { return ir_dim_eval(p, d, bounds); }

// Rows of layouts: sequences times steps, or a limit below that. Rows of a scan's step: sequences.
static void follow(const Prog *p, const Fn *f, int64_t *bounds) {
  const Val *maker = ir_rows_makers(f);
  for (uint32_t slot = 0; maker && slot < p->n_syms; slot++) {
    if (ir_none(maker[slot])) continue;
    Shape s = ir_ins(f, maker[slot])->shape;
    int64_t all = eval(p, ir_dim_at(p, s, 0), bounds) * eval(p, ir_dim_at(p, s, 1), bounds);
    Dim limit = ir_rows_limit(f, maker[slot]);
    int64_t most = limit.i ? eval(p, limit, bounds) : all;
    bounds[slot] = all < most ? all : most;
  }
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Attr *live = f->ins[i].op == OP_scan_begin || f->ins[i].op == OP_scan ? ir_attr(f, (Val){i}, KEY_live) : NULL;
    const DimInfo *d = live && f->ins[i].n_args ? ir_dim_info(p, live->u.dim) : NULL;
    if (d && d->kind == DIM_SYM)
      bounds[d->slot] = eval(p, ir_dim_at(p, ir_ins(f, ir_arg(f, (Val){i}, 0))->shape, 0), bounds);
  }
}

const char *tool_with_bound(const Prog *p, const char *text, RtArena *mem, Dim dim, int64_t bound) {
  int64_t *bounds = rt_alloc(mem, (p->n_syms + 1) * sizeof *bounds);
  for (uint32_t k = 0; k < p->n_syms; k++) bounds[k] = ir_dim_bound(p, p->syms[k]);
  bounds[ir_dim_info(p, dim)->slot] = bound;
  for (uint32_t k = 0; k < p->n_fns; k++) follow(p, p->fns[k], bounds);
  const char *line = strstr(text, "\ndim ") + 1, *behind = strchr(line, '\n');
  RtText out = {.mem = mem};
  rt_text_put(&out, text, (size_t)(line - text));
  for (uint32_t k = 0; k < p->n_syms; k++)
    rt_text_add(&out, "%s%s <= %lld", k ? ", " : "dim ", ir_text(p, ir_dim_info(p, p->syms[k])->name),
                (long long)bounds[k]);
  rt_text_add(&out, "%s", behind);
  return out.text;
}

// ---- a batch in shards
static bool takes_batch(const Fn *f, Dim batch) {
  bool has_batch = false, has_gradient = false;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    bool is_batch =
        ins->op == OP_input && ir_rank(f->prog, ins->shape) && ir_dim_at(f->prog, ins->shape, 0).i == batch.i;
    has_batch |= is_batch, has_gradient |= ins->op == OP_grad_of;
  }
  return has_batch && has_gradient;
}

// Of an instruction that is a mean over shards of `batch`; 0: it is none
static uint32_t shards_of(const Fn *f, Val v, Dim batch) {
  bool is_mean = ir_ins(f, v)->op == OP_shard_mean && ir_attr(f, v, KEY_dim)->u.dim.i == batch.i;
  return is_mean ? (uint32_t)ir_attr_int(f, v, KEY_shards, 1) : 0;
}

uint32_t tool_n_shards(const Prog *p, Dim dim) {
  for (uint32_t k = 0; k < p->n_fns; k++)
    for (Val v = {1}; v.i < p->fns[k]->n_ins; v.i++)
      if (shards_of(p->fns[k], v, dim)) return shards_of(p->fns[k], v, dim);
  return 1;
}

static void set_shards(Fn *f, Dim batch, uint32_t n) {
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (shards_of(f, v, batch)) ir_set_attr(f, v, ir_a_int(KEY_shards, n));
}

// What tn_distributed before tn_backward writes: each gradient is a mean over shards.
static void cut(Fn *f, Dim batch, uint32_t n) {
  Rewrite e;
  Val count = {0};
  Attr a[] = {ir_a_dim(KEY_dim, batch), ir_a_int(KEY_shards, n), ir_a_int(KEY_empty, 1)};
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    const Ins ins = e.old[i];
    if (ins.op == OP_result) continue;
    if (ir_none(count) && ins.op != OP_input) count = ir_emit(f, OP_dim_size, NULL, 0, a, 1, ins.loc);
    Val v = ir_rewrite_copy(&e, (Val){i});
    if (ins.op != OP_grad_of) continue;
    f->cur_scope = ins.scope;
    ir_rewrite_replace(&e, (Val){i}, ir_emit(f, OP_shard_mean, (Val[]){v, count}, 2, a, 3, ins.loc));
    f->cur_scope = 0;
  }
  ir_rewrite_end(&e);
}

const char *tool_with_shards(const char *text, RtArena *mem, const char *dim, uint32_t n) {
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text, strlen(text), "", &diags);
  bool any = false;
  for (uint32_t k = 0; p && k < p->n_fns; k++) {
    if (!takes_batch(p->fns[k], ir_dim_find(p, dim))) continue;
    (ir_none(ir_find_shard_mean(p->fns[k])) ? cut : set_shards)(p->fns[k], ir_dim_find(p, dim), n);
    any = true;
  }
  RtText out = {.mem = mem};
  if (any) ir_print(p, &out, PRINT_LOCS);
  return any ? out.text : NULL;
}
