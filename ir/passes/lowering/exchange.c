// Pass exchange: sums over shards (split_shards.c) get buckets, in the order in which they are computed, and lie in memory of the arena. The
// exchange of each begins behind its last sum, under what is computed after it, and ends in the update, before what reads a sum.
//
//   func @step(..) {                                             func @step(..) {
//     output %d2 {name="sum 1", index=1, bucket_bytes=8}           %1 = output %d2 {name="sum 1", index=1, bucket=0}
//     output %d1 {name="sum 2", index=2, bucket_bytes=8}   ->      %2, %3 = exchange_begin %1 {bucket=0, room=16}
//     ..                                                           %4 = output %d1 {name="sum 2", index=2, bucket=1}
//                                                                  %5, %6 = exchange_begin %4 {bucket=1, room=16}
//   func @step.update(%1 "sum 1", ..) {                          func @step.update(%1 "sum 1", ..) {
//     %w1 = sgd %w, %1, ..                                         %3, %4 = exchange_end %1 {bucket=0, room=16}
//                                                                  %5 = exchanged %1, %3
//                                                                  %w1 = sgd %w, %5, ..
//
// A bucket is full at bucket_bytes, the first one, for which nothing is exchanged yet, at 1 MiB. An instruction's place among those
// that are computed is the longest chain of kernels that it waits for, as in pass fuse. Results do not depend on buckets.
// What the update wants whole, bucket_bytes=0, is no bucket: it goes with the words by which processes agree on the update.
//
// Both instructions have the same memory: that of the sums, from the first of them to the last reader in the update, and room beside it, from
// the first shard to the end of the exchange, for sums of earlier shards and what is received. Its size is the most that any rank of 1 to
// n_shards needs (runtime/exec/shard_tree.h).
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/lowering/split_shards.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/storage.h"
#include "runtime/exec/shard_tree.h"
#include <stdlib.h>
#include <string.h>

enum { WHOLE_SUMS = INT32_MAX };  // in place of a bucket's number: behind all buckets
typedef struct {
  uint32_t output, depth, bucket;
} Sum;
typedef struct {
  Sum *list;
  uint32_t n;
} Sums;

enum { MOST = 4096 };  // sums in a bucket

static uint32_t *depths(const Fn *f) {
  uint32_t *depth = rt_alloc(f->prog->mem, f->n_ins * sizeof *depth);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      uint32_t a = depth[ir_arg(f, (Val){i}, k).i];
      if (a > depth[i]) depth[i] = a;
    }
    if (f->ins[i].op == OP_result) depth[i] = depth[ir_head(f, (Val){i}).i];
    else depth[i] += ir_class_has(f->ins[i].op, MAKES_KERNEL) && !ir_class_has(f->ins[i].op, BY_ELEMENT);
  }
  return depth;
}

static int by_depth(const void *a, const void *b) {
  const Sum *x = a, *y = b;
  if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
  return x->output < y->output ? -1 : x->output > y->output;
}

static int by_bucket(const void *a, const void *b) {
  const Sum *x = a, *y = b;
  if (x->bucket != y->bucket) return x->bucket < y->bucket ? -1 : 1;
  return x->output < y->output ? -1 : x->output > y->output;
}

static bool is_whole(const Fn *f, const Sum *s) { return !ir_attr_int(f, (Val){s->output}, KEY_bucket_bytes, 0); }

static Sums find_sums(const Fn *f) {
  Sums s = {.list = rt_alloc(f->prog->mem, f->n_ins * sizeof *s.list)};
  const uint32_t *depth = NULL;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_output || !ir_attr(f, (Val){i}, KEY_bucket_bytes)) continue;
    if (!depth) depth = depths(f);
    s.list[s.n++] = (Sum){.output = i, .depth = depth[i]};
  }
  if (s.n) qsort(s.list, s.n, sizeof *s.list, by_depth);
  return s;
}

static void fill_buckets(const Fn *f, Sums *s) {
  int64_t room = 0;
  uint32_t bucket = 0, n = 0;
  bool any = false;
  for (uint32_t k = 0; k < s->n; k++) {
    Val v = {s->list[k].output};
    int64_t most = ir_attr_int(f, v, KEY_bucket_bytes, 0), bytes = ir_type_bytes(f->prog, DT_F32, ir_ins(f, v)->shape);
    if (is_whole(f, &s->list[k])) {
      s->list[k].bucket = WHOLE_SUMS;
      continue;
    }
    if (!any) room = most < IR_FIRST_BUCKET_BYTES ? most : IR_FIRST_BUCKET_BYTES;
    else if (room <= 0 || n == MOST) bucket++, n = 0, room = most;
    s->list[k].bucket = bucket, room -= bytes, n++, any = true;
  }
  if (s->n) qsort(s->list, s->n, sizeof *s->list, by_bucket);
}

// ---- room
static void mark_owned(const Fn *update, bool *is_owned) {
  for (Val v = {1}; v.i < update->n_ins; v.i++)
    for (uint32_t k = 0; ir_has_operand(update, v, ARG_owned) && k < ir_ins(update, v)->n_res; k++) {
      Val root = ir_storage_root(update, ir_arg(update, v, k));
      if (ir_ins(update, root)->op == OP_param) is_owned[ir_attr_int(update, root, KEY_param, 0)] = true;
    }
}

// Parts of a parameter depend on the buckets of the function that made them: another function may assign them
// to another process.
static bool has_own_parts(const Fn *update) {
  const Prog *p = update->prog;
  bool *own = rt_alloc(p->mem, p->n_params + 1), *earlier = rt_alloc(p->mem, p->n_params + 1), any = false;
  mark_owned(update, own);
  for (uint32_t k = 0; k < p->n_fns && p->fns[k] != update; k++)
    if (p->fns[k]->shard) mark_owned(p->fns[k], earlier);
  for (uint32_t k = 0; k < p->n_params; k++) any |= own[k] && earlier[k];
  return !any;
}

// By number of the exchange: the attributes of begin and end
typedef struct {
  uint32_t first, n, n_attrs;  // sums
  Attr attrs[2];
} Exchange;

static Exchange *list_exchanges(const Fn *f, const Sums *s, uint32_t *n) {
  enum { LINE = TN_ALIGN / 4 };
  Exchange *list = rt_alloc(f->prog->mem, s->n * sizeof *list);
  RtTreeCost *costs = rt_alloc(f->prog->mem, f->n_shards * sizeof *costs);
  rt_tree_costs(f->n_shards, costs);
  bool is_even = f->update && has_own_parts(f->update);
  for (uint32_t k = 0, end; k < s->n; k = end) {
    int64_t n_elements = 0;
    for (end = k; end < s->n && s->list[end].bucket == s->list[k].bucket; end++)
      n_elements += (ir_shape_bound(f->prog, ir_ins(f, (Val){s->list[end].output})->shape) + LINE - 1) / LINE * LINE;
    bool is_bucket = s->list[k].bucket != WHOLE_SUMS;
    int64_t room = rt_room_of(costs, f->n_shards, n_elements, end - k, is_even || !is_bucket);
    Exchange *x = &list[(*n)++];
    *x = (Exchange){.first = k, .n = end - k, .n_attrs = 1 + is_bucket, .attrs = {ir_a_int(KEY_room, room)}};
    if (is_bucket) x->attrs[1] = x->attrs[0], x->attrs[0] = ir_a_int(KEY_bucket, s->list[k].bucket);
  }
  return list;
}

// ---- what a shard computes: every instruction but sums in its place, sums exchange by exchange behind all
static void begin_exchanges(Fn *f, const Sums *s, const Exchange *list, uint32_t n) {
  bool *is_sum = rt_alloc(f->prog->mem, f->n_ins);
  Val *args = rt_alloc(f->prog->mem, s->n * sizeof *args);
  for (uint32_t k = 0; k < s->n; k++) is_sum[s->list[k].output] = true;
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++)
    if (e.old[i].op != OP_result && !is_sum[i]) ir_rewrite_copy(&e, (Val){i});
  for (uint32_t j = 0; j < n; j++) {
    for (uint32_t k = 0; k < list[j].n; k++) {
      args[k] = ir_rewrite_copy(&e, (Val){s->list[list[j].first + k].output});
      ir_unset_attr(f, args[k], KEY_bucket_bytes);
      if (list[j].n_attrs == 2) ir_set_attr(f, args[k], list[j].attrs[0]);
    }
    ir_emit(f, OP_exchange_begin, args, list[j].n, list[j].attrs, list[j].n_attrs, ir_ins(f, args[0])->loc);
  }
  ir_rewrite_end(&e);
}

// ---- the update: behind its inputs, which come first, all ends; what reads a sum reads it then
static Str *names_of(const Fn *f, const Sums *s) {
  Str *names = rt_alloc(f->prog->mem, s->n * sizeof *names);
  for (uint32_t k = 0; k < s->n; k++) names[k] = ir_output_name(f, (Val){s->list[k].output});
  return names;
}

static Val input_called(const Fn *f, Str name) {
  Val v = {1};
  while (f->ins[v.i].op != OP_input || f->ins[v.i].name.i != name.i) v.i++;
  return v;
}

static void end_exchange(Rewrite *e, const Exchange *x, const Val *old, Val *args) {
  for (uint32_t k = 0; k < x->n; k++) args[k] = e->map[old[x->first + k].i];
  Loc loc = ir_ins(e->f, args[0])->loc;
  Val end = ir_emit(e->f, OP_exchange_end, args, x->n, x->attrs, x->n_attrs, loc);
  for (uint32_t k = 0; k < x->n; k++) e->map[old[x->first + k].i] = ir_op2(e->f, OP_exchanged, args[k], end, loc);
}

static void end_exchanges(Fn *f, const Sums *s, const Str *names, const Exchange *list, uint32_t n) {
  Val *old = rt_alloc(f->prog->mem, s->n * sizeof *old), *args = rt_alloc(f->prog->mem, s->n * sizeof *args);
  for (uint32_t k = 0; k < s->n; k++) old[k] = input_called(f, names[k]);
  Rewrite e;
  ir_rewrite_begin(&e, f);
  uint32_t i = 1;
  for (; i < e.n_old && e.old[i].op == OP_input; i++) ir_rewrite_copy(&e, (Val){i});
  end_exchange(&e, &list[n - 1], old, args);  // sums that are wanted whole, among them the count
  for (uint32_t j = 0; j + 1 < n; j++) end_exchange(&e, &list[j], old, args);
  for (; i < e.n_old; i++)
    if (e.old[i].op != OP_result) ir_rewrite_copy(&e, (Val){i});
  ir_rewrite_end(&e);
}

bool ir_pass_exchange(Fn *f) {
  Sums s = find_sums(f);
  uint32_t n = 0;
  if (!s.n) return true;
  fill_buckets(f, &s);
  const Str *names = names_of(f, &s);
  const Exchange *list = list_exchanges(f, &s, &n);
  begin_exchanges(f, &s, list, n);
  if (f->update) end_exchanges(f->update, &s, names, list, n);
  return true;
}
