// Pass exchange: sums that processes exchange in parts (split_shards.c) get buckets, in the order in which they are computed, and the
// exchange of each bucket begins behind its last sum, under what is computed after it.
//
//   output %d2 {name="sum 1", index=1, bucket_bytes=8}      %1 = output %d2 {name="sum 1", index=1, bucket=0}
//   output %d1 {name="sum 2", index=2, bucket_bytes=8}  ->  %2 = exchange_begin %1 {bucket=0}
//                                                           %3 = output %d1 {name="sum 2", index=2, bucket=1}
//                                                           %4 = exchange_begin %3 {bucket=1}
//
// A bucket is full at bucket_bytes, the first one, for which nothing is exchanged yet, at 1 MiB. An instruction's place among those
// that are computed is the longest chain of kernels that it waits for, as in pass schedule. Results do not depend on buckets.
#include "ir/passes/split_shards.h"
#include "ir/rewrite.h"
#include <stdlib.h>

typedef struct {
  uint32_t output, depth, bucket;
} Sum;
typedef struct {
  Sum *list;
  uint32_t n;
} Sums;

enum { MOST = 4096 };  // sums in a bucket: operands of exchange_begin

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
  for (uint32_t k = 0; k < s->n; k++) {
    Val v = {s->list[k].output};
    int64_t most = ir_attr_int(f, v, KEY_bucket_bytes, 0), bytes = ir_type_bytes(f->prog, DT_F32, ir_ins(f, v)->shape);
    if (k == 0) room = most < IR_FIRST_BUCKET_BYTES ? most : IR_FIRST_BUCKET_BYTES;
    else if (room <= 0 || n == MOST) bucket++, n = 0, room = most;
    s->list[k].bucket = bucket, room -= bytes, n++;
  }
}

// Every sum but these in its place, sums bucket by bucket behind all.
bool ir_pass_exchange(Fn *f) {
  Sums s = find_sums(f);
  if (!s.n) return true;
  fill_buckets(f, &s);
  bool *is_sum = rt_alloc(f->prog->mem, f->n_ins);
  Val *of_bucket = rt_alloc(f->prog->mem, s.n * sizeof *of_bucket);
  for (uint32_t k = 0; k < s.n; k++) is_sum[s.list[k].output] = true;
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++)
    if (e.old[i].op != OP_result && !is_sum[i]) ir_rewrite_copy(&e, (Val){i});
  for (uint32_t k = 0, n = 0; k < s.n; k++) {
    Val v = ir_rewrite_copy(&e, (Val){s.list[k].output});
    Attr bucket = ir_a_int(KEY_bucket, s.list[k].bucket);
    ir_unset_attr(f, v, KEY_bucket_bytes);
    ir_set_attr(f, v, bucket);
    of_bucket[n++] = v;
    if (k + 1 < s.n && s.list[k + 1].bucket == s.list[k].bucket) continue;
    ir_emit(f, OP_exchange_begin, of_bucket, n, &bucket, 1, ir_ins(f, v)->loc);
    n = 0;
  }
  ir_rewrite_end(&e);
  return true;
}
