// Batches in shards: tn_distributed says how, gradients become means over shards, pass split_shards cuts the function there.
//
//   %n = dim_size {dim=batch}
//   %g = grad_of %loss, %w
//   %m = shard_mean %g, %n {dim=batch, shards=8}      what clipping and optimizers take
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/training.h"
#include "frontend/tenure/train.h"

static bool check_place(tn_function *f, tn_site at) {
  if (f->shards) {
    fe_error(f->p, E_STATE, at, "the batch of function '%s' is cut into shards twice", f->name);
    fe_note(f->p, f->shards->loc, "it was here first");
    return false;
  }
  if (f->running.i) {
    fe_error(f->p, E_STATE, at, "tn_distributed comes after a layer of function '%s' that keeps running statistics",
             f->name);
    fe_note(f->p, f->running, "they would be those of one shard");
    fe_hint(f->p, "tn_distributed stands between the inputs and the layers");
    return false;
  }
  if (!f->backward.i) return fe_outside_scan(f, "tn_distributed", "a batch is cut before the scan", at);
  fe_error(f->p, E_STATE, at, "tn_distributed comes after a tn_backward of function '%s'", f->name);
  fe_note(f->p, f->backward, "its gradients are those of one shard");
  fe_hint(f->p, "tn_distributed stands between the inputs and tn_backward");
  return false;
}

static bool check_count(tn_function *f, tn_tensor count, tn_site at) {
  tn_function *g = f;
  if (!fe_join(&count, 1, &g, at)) return false;
  if (g == f && (NUMBER >> fe_ins(count)->dtype & 1) && fe_rank(count) == 0) return true;
  if (g != f) fe_error(f->p, E_FOREIGN, at, "the count is a value of another function than '%s'", f->name);
  else fe_error(f->p, E_SHAPE, at, "a count is one number, found %s", fe_type_text(count));
  return false;
}

static bool check_batch(tn_function *f, tn_dim batch, Dim *d, tn_site at) {
  if (!fe_dim(f->p, batch, d, at)) return false;
  if (ir_dim_info(f->p->ir, *d)->kind == DIM_SYM) return true;
  fe_error(f->p, E_ARGUMENT, at, "the batch that is cut into shards is no named dim");
  fe_hint(f->p, "tn_dim_bounded(p, \"batch\", 64) makes one; it is the first axis of the inputs");
  return false;
}

void tn_distributed(tn_function *f, tn_distributed_options o) {
  if (!f) return;
  FE_GUARD(f->p, );
  Dim batch;
  if (!fe_fn_open(f, o.at) || !check_place(f, o.at) || !check_batch(f, o.batch, &batch, o.at)) return;
  if (o.n < 1 || o.n > IR_MOST_SHARDS) {
    fe_error(f->p, E_ARGUMENT, o.at, "a batch is cut into 1 to %d shards, not %u", IR_MOST_SHARDS, o.n);
    return;
  }
  if (o.bucket_bytes < 0) {
    fe_error(f->p, E_ARGUMENT, o.at, "a bucket has 1 byte or more, not %lld", (long long)o.bucket_bytes);
    return;
  }
  if (o.count.fn && !check_count(f, o.count, o.at)) return;
  tn_tensor count = o.count.fn ? fe_cast(o.count, DT_F32, o.at) : fe_size(f, batch, o.at);
  FeShards *s = rt_alloc(f->p->mem, sizeof *s);
  *s = (FeShards){o.n, batch, fe_keep(count, o.at), o.bucket_bytes, fe_loc(f->p, o.at)};
  f->shards = s;
}

tn_tensor fe_shard_mean(tn_tensor x, bool is_gradient, tn_site at) {
  if (!fe_ok(x) || !x.fn->shards) return x;
  const FeShards *s = x.fn->shards;
  Attr a[4] = {ir_a_dim(KEY_dim, s->batch), ir_a_int(KEY_shards, s->n)};
  uint32_t n = 2;
  if (s->bucket_bytes) a[n++] = ir_a_int(KEY_bucket_bytes, s->bucket_bytes);
  if (is_gradient) a[n++] = ir_a_int(KEY_empty, 1);
  return fe_keep(fe_emit(OP_shard_mean, (const tn_tensor[]){x, s->count}, 2, a, n, at), at);
}

tn_tensor tn_shard_mean(tn_tensor x, tn_site at) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_outside_scan(f, "tn_shard_mean", "take the mean of what tn_scan_output hands out", at)) return fe_poison(f);
  if (f->shards) return fe_made(fe_shard_mean(x, false, at), at);
  fe_error(f->p, E_STATE, at, "function '%s' has no shards to take a mean of", f->name);
  fe_hint(f->p, "tn_distributed(f, .n = 8, .batch = B) comes first");
  return fe_poison(f);
}
