// The update of a table by rows of gradient that come with an index each (adamw_sparse).
//
// Every worker owns a range of the table's rows. It walks over all indices once, backwards, and threads those of its
// own rows into lists: first[row] is the first occurrence, next[n] the one after n. Then each of its rows adds up its
// occurrences in their order, on the stack, and is updated; a row without any is updated with a gradient of zero, of
// which nothing is read. No worker writes what another reads, and no sum depends on how rows are partitioned.
#include "codegen/memory/optimizer.h"
#include "codegen/span.h"

typedef struct {
  Cg *c;
  V first, next;  // scratch, i32; -1: none
  V index, rows;  // i64 [n], f32 [n, width]
  V n, width;
  V lo, hi;  // own rows
} Lists;

static Val table_of(const Fn *f, Val v) { return ir_operand(f, v, ARG_param); }

int64_t cg_update_scratch_bytes(const Fn *f, Val v, const Target *t) {
  (void)t;
  if (!(ir_ops[ir_ins(f, v)->op].flags & BY_ROWS)) return 0;
  const Prog *p = f->prog;
  int64_t n = ir_shape_bound(p, ir_ins(f, ir_operand(f, v, ARG_index))->shape);
  return 4 * (n + ir_dim_bound(p, ir_dim_at(p, ir_ins(f, table_of(f, v))->shape, 0)));
}

// An index out of range was reported by the look-up; it has no row here.
static void thread(Lists *l) {
  Cg *c = l->c;
  for (Loop k = cg_count(c, l->n); cg_next(&k);) {
    V at = cg_sub(c, cg_sub(c, l->n, cg_i64(c, 1)), k.i), row = cg_get(c, c->i64, l->index, at);
    for (If mine = cg_when(c, cg_between(c, row, l->lo, l->hi)); cg_then(&mine);) {
      cg_put(c, cg_get(c, c->i32, l->first, row), l->next, at);
      cg_put(c, cg_trunc(c, at, c->i32), l->first, row);
    }
  }
}

// sum[0 .. width) += row n of the gradient
static void add_row(Lists *l, V sum, V n) {
  Cg *c = l->c;
  V from = cg_row(c, l->rows, n, l->width);
  for (Span e = cg_span_masked(c, cg_i64(c, 0), l->width); cg_next_vector(&e);) {
    V to = cg_at(c, c->f32, sum, e.i), x = cg_get_masked(c, c->vf, from, e.i, e.mask);
    cg_store(c, cg_fadd(c, cg_load(c, c->vf, to), x), to);
  }
}

static void clear_sum(Lists *l, V sum) {
  Cg *c = l->c;
  for (Loop e = cg_count_by(c, l->width, cg_vl(c)); cg_next(&e);) cg_put(c, cg_zeros(c), sum, e.i);
}

// All occurrences of a row, from the first one on (i64).
static void add_occurrences(Lists *l, V sum, V first) {
  Cg *c = l->c;
  clear_sum(l, sum);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(c->b),
                    body = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "occurrence");
  LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "summed");
  LLVMBuildBr(c->b, body);
  LLVMPositionBuilderAtEnd(c->b, body);
  V at = LLVMBuildPhi(c->b, c->i64, "n");
  add_row(l, sum, at);
  V next = cg_sext(c, cg_get(c, c->i32, l->next, at), c->i64);
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(c->b);
  LLVMAddIncoming(at, (V[]){first, next}, (LLVMBasicBlockRef[]){before, latch}, 2);
  LLVMBuildCondBr(c->b, cg_ge(c, next, cg_i64(c, 0)), body, end);
  LLVMPositionBuilderAtEnd(c->b, end);
}

static void update_row(Lists *l, UpdateScalars *m, Val v, V row, V sum) {
  Cg *c = l->c;
  V x[MAX_TENSORS], first = cg_sext(c, cg_get(c, c->i32, l->first, row), c->i64), zero = cg_i64(c, 0);
  for (uint32_t k = 0; k < 3; k++) x[k] = cg_row(c, cg_ptr(c, ir_arg(c->f, v, k)), row, l->width);
  x[3] = sum;
  for (If touched = cg_either(c, cg_ge(c, first, zero)); cg_then(&touched);)
    if (touched.is_true) {
      add_occurrences(l, sum, first);
      cg_update_call(c, m, x, zero, l->width);
    } else {
      m->rule.zero_gradient = true;
      cg_update_call(c, m, x, zero, l->width);
      m->rule.zero_gradient = false;
    }
}

// The stack grows by a row in every update of the kernel; it is given back at the kernel's end.
void cg_emit_sparse_update(Cg *c, UpdateScalars *m, Val v) {
  const Prog *p = c->f->prog;
  Shape table = ir_ins(c->f, table_of(c->f, v))->shape;
  Val index = ir_operand(c->f, v, ARG_index), rows_of_g = ir_operand(c->f, v, ARG_g);
  int64_t width = ir_dim_bound(p, ir_dim_at(p, table, 1)), vl = c->t->vl;
  cg_update_scalars(c, m, v);
  V rows = cg_dim(c, ir_dim_at(p, table, 0));
  Lists l = {.c = c, .first = c->scratch, .n = cg_numel(c, ir_ins(c->f, index)->shape)};
  l.next = cg_at(c, c->i32, l.first, rows);
  l.width = cg_i64(c, width);
  l.index = cg_ptr_or_zero(c, index);
  l.rows = cg_ptr_or_zero(c, rows_of_g);
  cg_share(c, rows, 1, &l.lo, &l.hi);
  V sum = cg_block(c, c->f32, cg_round_up(width, vl));
  for (Loop r = cg_each(c, l.lo, l.hi); cg_next(&r);) cg_put(c, cg_i32(c, -1), l.first, r.i);
  thread(&l);
  for (Loop r = cg_each(c, l.lo, l.hi); cg_next(&r);) update_row(&l, m, v, r.i, sum);
}
