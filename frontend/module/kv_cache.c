// A cache of keys and values: a buffer [B,T,2,H,D] that the program keeps between runs, and how many steps it holds. New
// steps are written behind those, and attention reads the buffer whole: causal order with an offset hides what is not held
// yet, so nothing is sliced or copied.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/module/attention.h"
#include "frontend/module/tree.h"
#include "frontend/tenure/ops.h"

enum { MOST_STEPS = 1 << 24 };  // a number of steps is exact in f32

tn_module *tn_kv_cache(tn_module *parent, const char *name, int64_t batch, int64_t heads, int64_t steps, int64_t size,
                       tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_KV_CACHE, at);
  if (m->poisoned) return m;
  const int64_t sizes[] = {batch, heads, steps, size};
  for (uint32_t k = 0; k < 4; k++) m->poisoned |= sizes[k] < 1 || sizes[k] > MOST_STEPS;
  if (m->poisoned) {
    fe_error(m->p, E_ARGUMENT, at, "cache '%s' has the sizes %lld, %lld, %lld, %lld: each lies in [1, 2^24]", m->path,
             (long long)batch, (long long)heads, (long long)steps, (long long)size);
    return m;
  }
  const tn_init zeros = {TN_INIT_ZEROS, 0, 0};
  tn_transient_buffer(m, "steps", TN_SHAPE(batch, steps, 2, heads, size), zeros, at);
  tn_transient_buffer(m, "position", TN_SCALAR, zeros, at);
  return m;
}

static bool check_cache(tn_program *p, const tn_module *m, tn_site at) {
  if (m && m->poisoned) return false;
  if (!fe_own_module(p, m, "used", at)) return false;
  if (m->kind == MOD_KV_CACHE) return true;
  fe_error(p, E_ARGUMENT, at, "module '%s' is no cache of keys and values", m->path);
  return false;
}

static tn_tensor entry(tn_function *f, const tn_module *m, const char *name, tn_site at) {
  return fe_use(f, fe_entry(m, name)->param, at);
}

tn_tensor tn_kv_cache_position(tn_function *f, tn_module *cache, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_cache(f->p, cache, at)) return fe_poison(f);
  return fe_made(fe_cast(entry(f, cache, "position", at), DT_I64, at), at);
}

// q [B,n,H,D], k and v [B,n,G,D]
static bool check_steps(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_site at) {
  const Dim *held = ir_dims(m->p->ir, fe_entry(m, "steps")->param->shape);  // [B,T,2,G,D]
  bool fits = fe_shape_of(k).i == fe_shape_of(v).i && fe_rank(k) == 4 && fe_rank(q) == 4;
  fits = fits && fe_axis_dim(k, 0).i == held[0].i && fe_axis_dim(k, 2).i == held[3].i;
  fits = fits && fe_axis_dim(k, 3).i == held[4].i && fe_axis_dim(q, 1).i == fe_axis_dim(k, 1).i;
  if (fits) return true;
  fe_error(m->p, E_SHAPE, at, "cache '%s' takes queries [%lld,n,H,%lld], keys and values [%lld,n,%lld,%lld] of one n",
           m->path, (long long)ir_dim_bound(m->p->ir, held[0]), (long long)ir_dim_bound(m->p->ir, held[4]),
           (long long)ir_dim_bound(m->p->ir, held[0]), (long long)ir_dim_bound(m->p->ir, held[3]),
           (long long)ir_dim_bound(m->p->ir, held[4]));
  fe_note_value(q, "the queries");
  fe_note_value(k, "the keys");
  fe_note_value(v, "the values");
  return false;
}

// k and v side by side, [B,n,2,G,D]: one write takes both, so that it is refused before anything changed.
static tn_tensor side_by_side(tn_tensor k, tn_tensor v, tn_site at) {
  return fe_concat((const tn_tensor[]){fe_with_axis(k, 2, at), fe_with_axis(v, 2, at)}, 2, 2, at);
}

tn_tensor tn_kv_cache_attend(tn_module *cache, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o) {
  tn_function *f;
  if (!fe_join_attention(__func__, (const tn_tensor[]){q, k, v}, 3, &o, &f)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_cache(f->p, cache, o.at) || !check_steps(cache, q, k, v, o.at)) return fe_poison(f);
  if (o.offset.fn || o.const_offset) {
    fe_error(f->p, E_ARGUMENT, o.at, "the offset is the cache's: that of attention beside it says nothing");
    return fe_poison(f);
  }
  o.causal = true;
  if (!fe_check_attention(f, &o)) return fe_poison(f);
  tn_tensor position = entry(f, cache, "position", o.at), all = entry(f, cache, "steps", o.at);
  o.offset = fe_cast(position, DT_I64, o.at);
  int64_t steps = ir_dim_bound(f->p->ir, fe_axis_dim(all, 1));
  *RT_PUSH(f->p->mem, f->p->cache_writes, f->p->n_cache_writes, f->p->cap_cache_writes) =
      (FeCacheWrite){f, fe_loc(f->p, o.at), steps};
  tn_slice_assign_at_(all, 1, o.offset, side_by_side(k, v, o.at), o.at);
  tn_copy_(position, fe_emit2(OP_add, fe_cast(position, DT_F32, o.at), fe_size(f, fe_axis_dim(k, 1), o.at), o.at),
           o.at);
  tn_tensor y = fe_made(fe_attention((tn_tensor[]){q, fe_cast(all, DT_F32, o.at)}, 2, 4, &o, o.at), o.at);
  fe_give_weights(__func__, &o, true, true, o.at);
  return y;
}

void tn_kv_cache_reset(tn_function *f, tn_module *cache, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  if (check_cache(f->p, cache, at)) tn_fill_(entry(f, cache, "position", at), 0, at);
}
