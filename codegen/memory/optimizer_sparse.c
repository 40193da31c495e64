// The update of a table by rows of gradient that come with an index each.
//
// Every worker owns some rows. It walks over all indices once, backwards, and threads those of its own rows into lists: of each
// row its first occurrence, next[n] the one after n. Then each of its rows adds up its occurrences in their order, on the stack,
// and is updated. No worker writes what another reads, and no sum depends on how rows are partitioned.
//
//   adamw_sparse     all rows change; one that no index names by a gradient of zero, of which nothing is read. A worker has a
//                    range of them, and their first occurrences stand by row.
//   others           rows that no index names stay as they are, and nothing of the table's size is read or made. A worker has
//                    the rows of one range of hashes, and first occurrences stand in a hash table, twice as large as there are indices:
//                    a part of each worker's own.
#include "codegen/memory/optimizer.h"
#include "codegen/span.h"
#include "ir/storage.h"

enum { COLUMNS = 1024, AHEAD = 8, LINE = 64 };  // of a sum on the stack; slots from a row's prefetch to its use

typedef struct {
  Cg *c;
  UpdateScalars *m;
  Val v;
  uint32_t n_tensors;  // param and states
  bool all;            // rows that no index names change, too
  V first, next, bag;  // scratch, i32; -1: none. bag: of each index; NULL: it is by division, or there are none
  V index, rows;       // i64 [n], f32 [n or bags, width]
  V factor, best;      // NULL: none
  V n, width, n_rows;
  V length;  // indices of a bag; NULL: one each, or by offsets
  V lo, hi;  // own rows, or slots of the hash table
} Lists;

static Val table_of(const Fn *f, Val v) { return ir_operand(f, v, ARG_param); }
static bool changes_all(const Fn *f, Val v) { return ir_ops[ir_ins(f, v)->op].flags & BY_ROWS; }

int64_t cg_update_scratch_bytes(const Fn *f, Val v, const Target *t) {
  (void)t;
  if (!ir_updates_rows(f, v)) return 0;
  const Prog *p = f->prog;
  int64_t n = ir_shape_bound(p, ir_ins(f, ir_operand(f, v, ARG_index))->shape);
  if (changes_all(f, v)) return 4 * (n + ir_dim_bound(p, ir_dim_at(p, ir_ins(f, table_of(f, v))->shape, 0)));
  return 4 * n * (ir_has_operand(f, v, ARG_offsets) ? 4 : 3);
}

static V row_of(Lists *l, V at) { return cg_get(l->c, l->c->i64, l->index, at); }
static V i32_at(Lists *l, V list, V at) { return cg_sext(l->c, cg_get(l->c, l->c->i32, list, at), l->c->i64); }

// ---- lists
static void push(Lists *l, V slot, V at) {
  Cg *c = l->c;
  cg_put(c, cg_get(c, c->i32, l->first, slot), l->next, at);
  cg_put(c, cg_trunc(c, at, c->i32), l->first, slot);
}

// The row's place in [0, workers), as a fraction of 2^32: the whole part is the worker that has it.
static V place_of(Lists *l, V row) {
  Cg *c = l->c;
  V low = cg_i64(c, 0xFFFFFFFF), hash = cg_and(c, LLVMBuildMul(c->b, row, cg_i64(c, 0x9E3779B1), ""), low);
  return cg_mul(c, hash, c->n_workers);
}

static V owner_of(Lists *l, V row) { return cg_lshr(l->c, place_of(l, row), cg_i64(l->c, 32)); }

// Is row one that this worker has? An index out of range was reported by the look-up; it has no row here.
static V is_own(Lists *l, V row) {
  Cg *c = l->c;
  if (l->all) return cg_between(c, row, l->lo, l->hi);
  V own = cg_and(c, cg_below(c, row, l->n_rows), cg_eq(c, owner_of(l, row), c->worker));
  const Attr *padding = ir_attr(c->f, l->v, KEY_padding);
  return padding ? cg_and(c, own, cg_not(c, cg_eq(c, row, cg_i64(c, padding->u.i)))) : own;
}

// The slots of this worker's part: two for each index of its rows.
static void share_slots(Lists *l) {
  Cg *c = l->c;
  V count[] = {cg_i64(c, 0), cg_i64(c, 0)}, one = cg_i64(c, 1), zero = cg_i64(c, 0);
  for (Loop k = cg_carry(c, zero, l->n, one, count, 2); cg_next(&k);) {
    V row = row_of(l, k.i), before = cg_lt(c, owner_of(l, row), c->worker);
    V counts = cg_and(c, cg_below(c, row, l->n_rows), before);
    count[0] = cg_add(c, count[0], cg_select(c, counts, one, zero));
    count[1] = cg_add(c, count[1], cg_select(c, is_own(l, row), one, zero));
  }
  l->lo = cg_mul(c, count[0], cg_i64(c, 2));
  l->hi = cg_add(c, l->lo, cg_mul(c, count[1], cg_i64(c, 2)));
}

// The slot that has the row, or the next one that has none: half of them have none.
static V slot_of(Lists *l, V row) {
  Cg *c = l->c;
  V part = cg_and(c, place_of(l, row), cg_i64(c, 0xFFFFFFFF)), size = cg_sub(c, l->hi, l->lo);
  V start = cg_add(c, l->lo, cg_lshr(c, cg_mul(c, part, size), cg_i64(c, 32)));
  LLVMBasicBlockRef before = LLVMGetInsertBlock(c->b), look = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "look"),
                    found = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "found");
  LLVMBuildBr(c->b, look);
  LLVMPositionBuilderAtEnd(c->b, look);
  V slot = LLVMBuildPhi(c->b, c->i64, "slot"), at = i32_at(l, l->first, slot), none = cg_lt(c, at, cg_i64(c, 0));
  V same = cg_eq(c, row_of(l, cg_select(c, none, cg_i64(c, 0), at)), row);
  V next = cg_add(c, slot, cg_i64(c, 1));
  next = cg_select(c, cg_eq(c, next, l->hi), l->lo, next);
  LLVMAddIncoming(slot, (V[]){start, next}, (LLVMBasicBlockRef[]){before, LLVMGetInsertBlock(c->b)}, 2);
  LLVMBuildCondBr(c->b, cg_or(c, none, same), found, look);
  LLVMPositionBuilderAtEnd(c->b, found);
  return slot;
}

// ---- bags
// A part of every worker's own, since each reads the bags of its rows alone: bag[at] is written by who has index `at`.
static void put_bag(Lists *l, V at, V bag) {
  Cg *c = l->c;
  for (If mine = cg_when(c, is_own(l, row_of(l, at))); cg_then(&mine);) cg_put(c, cg_trunc(c, bag, c->i32), l->bag, at);
}

// Indices of bag k are [offsets[k], offsets[k + 1]); the look-up reported others.
static void find_bags(Lists *l) {
  Cg *c = l->c;
  Val offsets = ir_operand(c->f, l->v, ARG_offsets);
  V from = cg_ptr_or_zero(c, offsets), n = cg_numel(c, ir_ins(c->f, offsets)->shape), one = cg_i64(c, 1);
  for (Loop j = cg_count(c, l->n); cg_next(&j);) put_bag(l, j.i, cg_i64(c, -1));
  for (Loop k = cg_count(c, n); cg_next(&k);) {
    V next = cg_add(c, k.i, one), is_last = cg_eq(c, next, n);
    V lo = cg_get(c, c->i64, from, k.i), hi = cg_get(c, c->i64, from, cg_select(c, is_last, k.i, next));
    lo = cg_max(c, lo, cg_i64(c, 0)), hi = cg_min(c, cg_select(c, is_last, l->n, hi), l->n);
    for (Loop j = cg_each(c, lo, hi); cg_next(&j);) put_bag(l, j.i, k.i);
  }
}

static V bag_of(Lists *l, V at) {
  if (l->bag) return i32_at(l, l->bag, at);
  return l->length ? cg_div(l->c, at, l->length) : at;
}

// ---- the walk
// An index that is in no bag counts nothing.
static void thread(Lists *l) {
  Cg *c = l->c;
  for (Loop k = cg_count(c, l->n); cg_next(&k);) {
    V at = cg_sub(c, cg_sub(c, l->n, cg_i64(c, 1)), k.i), row = row_of(l, at);
    for (If mine = cg_when(c, is_own(l, row)); cg_then(&mine);)
      for (If in = cg_when(c, l->bag ? cg_ge(c, i32_at(l, l->bag, at), cg_i64(c, 0)) : NULL); cg_then(&in);)
        push(l, l->all ? row : slot_of(l, row), at);
  }
}

// ---- sums
// sum[lo .. hi) += row `at` of the gradient, of which they begin at 0
static void add_row(Lists *l, V sum, V at, V row, V lo, V hi) {
  Cg *c = l->c;
  V bag = bag_of(l, at), start = cg_add(c, cg_mul(c, bag, l->width), lo), from = cg_at(c, c->f32, l->rows, start);
  V factor = l->factor ? cg_splat(c, cg_get(c, c->f32, l->factor, at)) : NULL;
  for (Span e = cg_span_masked(c, cg_i64(c, 0), cg_sub(c, hi, lo)); cg_next_vector(&e);) {
    V to = cg_at(c, c->f32, sum, e.i), x = cg_get_masked(c, c->vf, from, e.i, e.mask);
    if (factor) x = cg_fmul(c, x, factor);
    if (l->best) {
      LLVMTypeRef i64s = cg_vector_type(c, DT_I64, c->t->vl);
      V best = cg_get_masked(c, i64s, cg_at(c, c->i64, l->best, start), e.i, e.mask);
      x = cg_select(c, cg_eq(c, best, cg_spread(c, row, c->t->vl)), x, cg_zeros(c));
    }
    cg_store(c, cg_fadd(c, cg_load(c, c->vf, to), x), to);
  }
}

static void clear_sum(Lists *l, V sum, V n) {
  Cg *c = l->c;
  for (Loop e = cg_count_by(c, n, cg_vl(c)); cg_next(&e);) cg_put(c, cg_zeros(c), sum, e.i);
}

// All occurrences of a row, from the first one on (i64). Of a largest element the row counts once for a bag, whose indices are
// neighbours.
static void add_occurrences(Lists *l, V sum, V first, V row, V lo, V hi) {
  Cg *c = l->c;
  clear_sum(l, sum, cg_sub(c, hi, lo));
  LLVMBasicBlockRef before = LLVMGetInsertBlock(c->b),
                    body = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "occurrence");
  LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "summed");
  LLVMBuildBr(c->b, body);
  LLVMPositionBuilderAtEnd(c->b, body);
  V at = LLVMBuildPhi(c->b, c->i64, "n"), last = l->best ? LLVMBuildPhi(c->b, c->i64, "bag") : NULL;
  V bag = l->best ? bag_of(l, at) : NULL;
  for (If counts = cg_when(c, l->best ? cg_not(c, cg_eq(c, bag, last)) : NULL); cg_then(&counts);)
    add_row(l, sum, at, row, lo, hi);
  V next = i32_at(l, l->next, at);
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(c->b), from[] = {before, latch};
  LLVMAddIncoming(at, (V[]){first, next}, from, 2);
  if (last) LLVMAddIncoming(last, (V[]){cg_i64(c, -1), bag}, from, 2);
  LLVMBuildCondBr(c->b, cg_ge(c, next, cg_i64(c, 0)), body, end);
  LLVMPositionBuilderAtEnd(c->b, end);
}

// ---- updates
static V tensor_row(Lists *l, uint32_t k, V row) {
  return cg_row(l->c, cg_ptr(l->c, ir_arg(l->c->f, l->v, k)), row, l->width);
}

// Columns [lo, hi) of a row that has occurrences.
static void update_columns(Lists *l, V row, V first, V sum, V lo, V hi) {
  Cg *c = l->c;
  V x[MAX_TENSORS];
  add_occurrences(l, sum, first, row, lo, hi);
  for (uint32_t k = 0; k < l->n_tensors; k++) x[k] = cg_at(c, c->f32, tensor_row(l, k, row), lo);
  x[l->n_tensors] = sum;
  cg_update_call(c, l->m, x, cg_i64(c, 0), cg_sub(c, hi, lo));
}

static void update_named(Lists *l, V row, V first, V sum) {
  Cg *c = l->c;
  V block = cg_i64(c, COLUMNS);
  for (Loop b = cg_count_by(c, l->width, block); cg_next(&b);)
    update_columns(l, row, first, sum, b.i, cg_min(c, cg_add(c, b.i, block), l->width));
}

static void update_unnamed(Lists *l, V row, V sum) {
  V x[MAX_TENSORS], zero = cg_i64(l->c, 0);
  for (uint32_t k = 0; k < l->n_tensors; k++) x[k] = tensor_row(l, k, row);
  x[l->n_tensors] = sum;  // it is not read
  l->m->rule.zero_gradient = true;
  cg_update_call(l->c, l->m, x, zero, l->width);
  l->m->rule.zero_gradient = false;
}

// Rows lie anywhere in a large table: those that come next are on their way from memory meanwhile.
static void prefetch(Lists *l, V slot) {
  Cg *c = l->c;
  V ahead = cg_add(c, slot, cg_i64(c, AHEAD)), last = cg_sub(c, l->hi, cg_i64(c, 1));
  V at = i32_at(l, l->first, cg_min(c, ahead, last));
  for (If any = cg_when(c, cg_ge(c, at, cg_i64(c, 0))); cg_then(&any);)
    for (uint32_t k = 0; k < l->n_tensors; k++) {
      V row = tensor_row(l, k, row_of(l, at));
      for (Loop e = cg_count_by(c, cg_min(c, l->width, cg_i64(c, COLUMNS)), cg_i64(c, LINE / 4)); cg_next(&e);)
        cg_prefetch_l1(c, cg_at(c, c->f32, row, e.i));
    }
}

static void update_all_rows(Lists *l, V sum) {
  Cg *c = l->c;
  for (Loop r = cg_each(c, l->lo, l->hi); cg_next(&r);) {
    V first = i32_at(l, l->first, r.i);
    for (If named = cg_either(c, cg_ge(c, first, cg_i64(c, 0))); cg_then(&named);)
      if (named.is_true) update_named(l, r.i, first, sum);
      else update_unnamed(l, r.i, sum);
  }
}

static void update_slots(Lists *l, V sum) {
  Cg *c = l->c;
  for (Loop s = cg_each(c, l->lo, l->hi); cg_next(&s);) {
    prefetch(l, s.i);
    V first = i32_at(l, l->first, s.i);
    for (If named = cg_when(c, cg_ge(c, first, cg_i64(c, 0))); cg_then(&named);)
      update_named(l, row_of(l, first), first, sum);
  }
}

static Lists lists_of(Cg *c, UpdateScalars *m, Val v) {
  const Prog *p = c->f->prog;
  Shape table = ir_ins(c->f, table_of(c->f, v))->shape, own;
  Val index = ir_operand(c->f, v, ARG_index), factor = ir_operand(c->f, v, ARG_factor),
      best = ir_operand(c->f, v, ARG_best);
  Lists l = {.c = c, .m = m, .v = v, .n_tensors = m->rule.row->n_tensors - 1, .all = changes_all(c->f, v)};
  Val rows = ir_operand(c->f, v, l.all ? ARG_g : ARG_grad);
  own = ir_ins(c->f, index)->shape;
  l.n = cg_numel(c, own), l.n_rows = cg_dim(c, ir_dim_at(p, table, 0)), l.width = cg_dim(c, ir_dim_at(p, table, 1));
  l.index = cg_ptr_or_zero(c, index), l.rows = cg_ptr_or_zero(c, rows);
  l.factor = ir_none(factor) ? NULL : cg_ptr_or_zero(c, factor);
  l.best = ir_none(best) ? NULL : cg_ptr_or_zero(c, best);
  l.first = c->scratch;
  l.next = cg_at(c, c->i32, l.first, l.all ? l.n_rows : cg_mul(c, l.n, cg_i64(c, 2)));
  bool has_offsets = ir_has_operand(c->f, v, ARG_offsets), has_two = ir_rank(p, own) == 2;
  if (has_offsets) l.bag = cg_at(c, c->i32, l.next, l.n);
  else if (has_two && ir_rank(p, ir_ins(c->f, rows)->shape) == 2) l.length = cg_dim(c, ir_dim_at(p, own, 1));
  return l;
}

// The stack grows by a sum in every update of the kernel; it is given back at the kernel's end.
void cg_emit_sparse_update(Cg *c, UpdateScalars *m, Val v) {
  Shape index = ir_ins(c->f, ir_operand(c->f, v, ARG_index))->shape;
  if (!changes_all(c->f, v) && !ir_shape_bound(c->f->prog, index)) return;
  cg_update_scalars(c, m, v);
  Lists l = lists_of(c, m, v);
  int64_t width = ir_dim_bound(c->f->prog, ir_dim_at(c->f->prog, ir_ins(c->f, table_of(c->f, v))->shape, 1));
  V sum = cg_block(c, c->f32, cg_round_up(cg_smaller(width, COLUMNS), c->t->vl));
  if (l.all) cg_share(c, l.n_rows, 1, &l.lo, &l.hi);
  else share_slots(&l);
  for (Loop r = cg_each(c, l.lo, l.hi); cg_next(&r);) cg_put(c, cg_i32(c, -1), l.first, r.i);
  if (l.bag) find_bags(&l);
  thread(&l);
  l.all ? update_all_rows(&l, sum) : update_slots(&l, sum);
}
