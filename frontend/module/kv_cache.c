// A cache of keys and values: buffers [B,H,T,D] that the program keeps between runs, and how many steps they hold. An
// append writes its steps behind those and gives both buffers whole: attention sees what is held by causal order with the
// offset of the append, so nothing is sliced or copied.
#include "frontend/fe.h"

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
  tn_transient_buffer(m, "keys", TN_SHAPE(batch, heads, steps, size), zeros, at);
  tn_transient_buffer(m, "values", TN_SHAPE(batch, heads, steps, size), zeros, at);
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

static tn_tensor as_i64(tn_tensor x, tn_site at) {
  return fe_emit(OP_cast, &x, 1, (const Attr[]){ir_a_int(KEY_dtype, DT_I64)}, 1, at);
}

tn_tensor tn_kv_cache_position(tn_function *f, tn_module *cache, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_cache(f->p, cache, at)) return fe_poison(f);
  return fe_made(as_i64(entry(f, cache, "position", at), at), at);
}

static bool check_append(tn_module *m, tn_tensor k, tn_tensor v, tn_site at) {
  const Dim *held = ir_dims(m->p->ir, fe_entry(m, "keys")->param->shape);
  bool fits = fe_shape_of(k).i == fe_shape_of(v).i && fe_rank(k) == 4;
  for (uint32_t axis = 0; fits && axis < 4; axis++) fits = axis == 2 || fe_axis_dim(k, axis).i == held[axis].i;
  if (fits) return true;
  fe_error(m->p, E_SHAPE, at, "cache '%s' takes keys and values [%lld,%lld,n,%lld] of one n", m->path,
           (long long)ir_dim_bound(m->p->ir, held[0]), (long long)ir_dim_bound(m->p->ir, held[1]),
           (long long)ir_dim_bound(m->p->ir, held[3]));
  fe_note_value(k, "the keys");
  fe_note_value(v, "the values");
  return false;
}

tn_kv tn_kv_cache_append(tn_module *cache, tn_tensor k, tn_tensor v, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){k, v}, 2, &f, at)) return (tn_kv){fe_poison(f), fe_poison(f), fe_poison(f)};
  const tn_kv none = {fe_poison(f), fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  if (!check_cache(f->p, cache, at) || !check_append(cache, k, v, at)) return none;
  tn_tensor position = entry(f, cache, "position", at), start = as_i64(position, at);
  tn_kv all = {entry(f, cache, "keys", at), entry(f, cache, "values", at), start};
  tn_slice_assign_at_(all.k, 2, start, k, at);
  tn_slice_assign_at_(all.v, 2, start, v, at);
  tn_copy_(position, fe_emit2(OP_add, position, fe_size(f, fe_axis_dim(k, 2), at), at), at);
  return (tn_kv){fe_made(all.k, at), fe_made(all.v, at), fe_made(all.offset, at)};
}

void tn_kv_cache_reset(tn_function *f, tn_module *cache, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  if (check_cache(f->p, cache, at)) tn_fill_(entry(f, cache, "position", at), 0, at);
}
