// Slots: sequences of different lengths that are decoded side by side, and caches of their keys and values.
//
//   slots   "held" i64 [n]: steps of each slot      "text" i64 [n T]
//   cache   "steps" f32 [n T, 2, G, D]: row s T + t has the key and the value of step t in slot s
//
// A run names the slots that it works on. Its rows are written by index, whatever their number, so that the others stay where they
// are. Prompts attend to their own packed rows. The one query of a step is put into the row of its slot, and attention over all
// slots reads the cache where it lies, as many keys as the slot has: none of those that take no part.
//
// All rows of a run are named by one index, `places`. What must not be is no place: a slot that two sequences have, and one that
// is full. Pass check_starts checks the index before the first write.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/module/attention.h"
#include "frontend/module/tree.h"
#include "frontend/packed/packed.h"
#include "frontend/tenure/decode.h"
#include "runtime/exec/instance.h"

enum { MOST_SIZE = 1 << 24 };

// ---- modules
static bool check_sizes(tn_module *m, const char *what, const int64_t *sizes, uint32_t n, tn_site at) {
  bool fits = !m->poisoned;
  int64_t all = 1;
  for (uint32_t k = 0; k < n && fits; k++) {
    fits = sizes[k] >= 1 && sizes[k] <= MOST_SIZE / all;
    all *= sizes[k];
  }
  if (!fits && !m->poisoned)
    fe_error(m->p, E_ARGUMENT, at, "%s '%s' have the sizes %lld and %lld: each, and their product, lies in [1, 2^24]",
             what, m->path, (long long)sizes[0], (long long)sizes[1]);
  return !(m->poisoned |= !fits);
}

tn_module *tn_slots(tn_module *parent, const char *name, int64_t n, int64_t steps, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_SLOTS, at);
  if (!check_sizes(m, "slots", (const int64_t[]){n, steps}, 2, at)) return m;
  m->config.in = n, m->config.out = steps;
  fe_module_buffer(m, "held", PARAM_TRANSIENT, DT_I64, &n, (tn_init){TN_INIT_ZEROS, 0, 0}, at);
  fe_module_buffer(m, "text", PARAM_TRANSIENT, DT_I64, &(int64_t){n * steps}, (tn_init){TN_INIT_ZEROS, 0, 0}, at);
  return m;
}

static bool check_kind(tn_program *p, const tn_module *m, FeModuleKind kind, const char *what, tn_site at) {
  if (m && m->poisoned) return false;
  if (!fe_own_module(p, m, "used", at)) return false;
  if (m->kind == kind) return true;
  fe_error(p, E_ARGUMENT, at, "module '%s' has no %s", m->path, what);
  fe_note(p, m->loc, "it was made here");
  return false;
}

tn_module *tn_slot_cache(tn_module *parent, const char *name, tn_module *slots, int64_t heads, int64_t size,
                         tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_SLOT_CACHE, at);
  m->poisoned = m->poisoned || !check_kind(m->p, slots, MOD_SLOTS, "slots: tn_slots makes them", at);
  if (!check_sizes(m, "heads of cache", (const int64_t[]){heads, size}, 2, at)) return m;
  m->config.slots = slots;
  tn_transient_buffer(m, "steps", TN_SHAPE(slots->config.in * slots->config.out, 2, heads, size),
                      (tn_init){TN_INIT_ZEROS, 0, 0}, at);
  return m;
}

static uint32_t add_caches(tn_module *m, tn_module *slots, tn_site at) {
  uint32_t n = m->kind == MOD_ATTENTION;
  for (tn_module *c = m->first; c; c = c->next) n += add_caches(c, slots, at);
  if (m->kind == MOD_ATTENTION)
    tn_slot_cache(m, "cache", slots, m->config.n_heads, m->config.out / m->config.n_heads, at);
  return n;
}

void tn_slot_caches(tn_module *m, tn_module *slots, tn_site at) {
  if (!m) return;
  FE_GUARD(m->p, );
  if (!fe_open(m->p, at) || m->poisoned || !check_kind(m->p, slots, MOD_SLOTS, "slots: tn_slots makes them", at))
    return;
  if (add_caches(m, slots, at)) return;
  fe_error(m->p, E_ARGUMENT, at, "%s has no multi-head attention, nor has what is below it", fe_module_text(m));
  fe_note(m->p, m->loc, "it was made here");
}

static tn_tensor entry(tn_function *f, const tn_module *m, const char *name, tn_site at) {
  return fe_use(f, fe_entry(m, name)->param, at);
}

// ---- whole numbers
static tn_tensor whole(tn_function *f, double x, tn_site at) { return fe_number(f, x, DT_I64, at); }

// 0, 1, .. n - 1
static tn_tensor numbered(tn_function *f, Dim n, tn_site at) { return fe_cast(fe_positions(f, n, at), DT_I64, at); }

static tn_tensor where(tn_tensor mask, tn_tensor a, tn_tensor b, tn_site at) {
  return fe_pointwise(OP_select, (const tn_tensor[]){mask, a, b}, 3, NULL, 0, at);
}

static tn_tensor compared(Op op, tn_tensor a, tn_tensor b, tn_site at) {
  return fe_pointwise(op, (const tn_tensor[]){a, b}, 2, NULL, 0, at);
}

// i64 [n] with src [B] at the places of index [B]; elsewhere `fill`
static tn_tensor spread(tn_tensor index, tn_tensor src, int64_t n, double fill, tn_site at) {
  tn_function *f = index.fn;
  Attr axis = ir_a_int(KEY_axis, 0);
  Shape s = ir_shape_ints(f->p->ir, &n, 1);
  return fe_emit(OP_index_copy, (const tn_tensor[]){fe_full(f, fill, s, DT_I64, at), index, src}, 3, &axis, 1, at);
}

static tn_tensor picked(tn_tensor x, tn_tensor index, tn_site at) {
  Attr axis = ir_a_int(KEY_axis, 0);
  return fe_emit(OP_index_select, (const tn_tensor[]){x, index}, 2, &axis, 1, at);
}

// bool [B]: another sequence of the list has the same slot
static tn_tensor is_shared(const tn_module *slots, tn_tensor index, tn_site at) {
  tn_function *f = index.fn;
  tn_tensor number = numbered(f, fe_axis_dim(index, 0), at);
  return compared(OP_ne, picked(spread(index, number, slots->config.in, 0, at), index, at), number, at);
}

// ---- a run
static tn_slot_run poisoned_run(tn_function *f) {
  tn_tensor x = fe_poison(f);
  return (tn_slot_run){.where = x, .ids = x, .rows = {x, x}, .steps = x, .held = x, .places = x, .seen = x};
}

static bool check_numbers(tn_tensor t, Dim n, const char *what, tn_site at) {
  tn_program *p = t.fn->p;
  if (fe_ins(t)->dtype != DT_I64) fe_error(p, E_DTYPE, at, "%s are i64, not %s", what, fe_type_text(t));
  else if (fe_rank(t) != 1 || (n.i && fe_axis_dim(t, 0).i != n.i))
    fe_error(p, E_SHAPE, at, "%s are i64 [B], one for each sequence, not %s", what, fe_type_text(t));
  else return true;
  fe_note_value(t, what);
  return false;
}

static void note_write(tn_function *f, const tn_module *slots, tn_site at) {
  *RT_PUSH(f->p->mem, f->p->cache_writes, f->p->n_cache_writes, f->p->cap_cache_writes) =
      (FeCacheWrite){f, fe_loc(f->p, at), slots->config.out};
}

// first: i64 [rows], row of the caches that each sequence begins with. Writes what the slots hold; their old number was read.
static tn_slot_run finish(tn_slot_run r, tn_tensor first, tn_tensor shared, tn_site at) {
  tn_function *f = r.where.fn;
  r.places = fe_emit2(OP_add, first, r.steps, at);
  tn_tensor slot = where(shared, whole(f, RT_SLOT_SHARED, at), r.where, at);
  if (!fe_ok(r.places) || !fe_ok(slot) || !fe_ok(r.held)) return poisoned_run(f);
  note_write(f, r.slots, at);
  tn_index_put_(entry(f, r.slots, "text", at), r.places, r.ids, at);
  tn_index_put_(entry(f, r.slots, "held", at), slot, r.held, at);
  tn_tensor *all[] = {&r.steps, &r.held, &r.places};
  for (uint32_t k = 0; k < 3; k++) *all[k] = fe_made(*all[k], at);
  return r;
}

// Row 0 of each slot, or no row
static tn_tensor first_rows(const tn_module *slots, tn_tensor at_slot, tn_tensor shared, tn_site at) {
  tn_function *f = at_slot.fn;
  tn_tensor row = fe_emit2(OP_mul, at_slot, whole(f, (double)slots->config.out, at), at);
  return where(shared, whole(f, RT_SLOT_SHARED, at), row, at);
}

tn_slot_run tn_slots_prefill(tn_module *slots, tn_tensor at_slot, tn_packed ids, tn_site at) {
  tn_function *f;
  bool joined = fe_join_packed(&ids, 1, &f, at) && fe_join((const tn_tensor[]){ids.data, at_slot}, 2, &f, at);
  if (!joined) return poisoned_run(f);
  FE_GUARD(f->p, poisoned_run(f));
  if (!check_kind(f->p, slots, MOD_SLOTS, "slots: tn_slots makes them", at)) return poisoned_run(f);
  if (!check_numbers(ids.data, (Dim){0}, "the prompts", at)) return poisoned_run(f);
  if (!check_numbers(at_slot, fe_axis_dim(ids.layout, 0), "the slots", at)) return poisoned_run(f);
  int64_t longest = ir_dim_bound(f->p->ir, fe_axis_dim(ids.layout, 1));
  if (longest > slots->config.out) {
    fe_error(f->p, E_SHAPE, at, "prompts may have %lld steps, slots '%s' hold %lld", (long long)longest, slots->path,
             (long long)slots->config.out);
    fe_note_value(ids.data, "the prompts");
    fe_note(f->p, slots->loc, "the slots were made here");
    return poisoned_run(f);
  }
  tn_slot_run r = {.slots = slots, .where = at_slot, .ids = ids.data, .rows = ids};
  tn_tensor shared = is_shared(slots, at_slot, at);
  r.steps = fe_layout_part(ids.layout, "steps", at), r.held = fe_layout_part(ids.layout, "lengths", at);
  return finish(r, fe_on_rows(ids.layout, first_rows(slots, at_slot, shared, at), at), shared, at);
}

tn_slot_run tn_slots_step(tn_module *slots, tn_tensor at_slot, tn_tensor ids, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){ids, at_slot}, 2, &f, at)) return poisoned_run(f);
  FE_GUARD(f->p, poisoned_run(f));
  if (!check_kind(f->p, slots, MOD_SLOTS, "slots: tn_slots makes them", at)) return poisoned_run(f);
  if (!check_numbers(ids, (Dim){0}, "the tokens of a step", at)) return poisoned_run(f);
  if (!check_numbers(at_slot, fe_axis_dim(ids, 0), "the slots", at)) return poisoned_run(f);
  tn_slot_run r = {.slots = slots, .where = at_slot, .ids = ids};
  tn_tensor most = whole(f, (double)slots->config.out, at), shared = is_shared(slots, at_slot, at);
  tn_tensor held = picked(entry(f, slots, "held", at), at_slot, at);
  tn_tensor first =
      where(compared(OP_ge, held, most, at), whole(f, RT_SLOT_FULL, at), first_rows(slots, at_slot, shared, at), at);
  // Tables of positions have no row behind the last one: the fault of a full slot is found by its place.
  r.steps = fe_emit2(OP_min, held, whole(f, (double)slots->config.out - 1, at), at);
  r.held = fe_emit2(OP_add, held, whole(f, 1, at), at);
  r = finish(r, first, shared, at);
  if (fe_ok(r.held)) r.seen = fe_made(spread(at_slot, r.held, slots->config.in, 0, at), at);
  return r;
}

// ---- attention
// by_group: of queries, several heads of which may share one of the cache
static bool check_rows(const tn_module *m, const tn_slot_run *r, tn_tensor x, const char *what, bool by_group,
                       tn_site at) {
  tn_program *p = m->p;
  const Dim *held = ir_dims(p->ir, fe_entry(m, "steps")->param->shape);  // [n T, 2, G, D]
  int64_t size = ir_dim_bound(p->ir, held[3]), all = ir_dim_bound(p->ir, held[2]);
  bool fits = fe_ins(x)->dtype == DT_F32 && fe_rank(x) == 3 && fe_axis_dim(x, 0).i == fe_axis_dim(r->ids, 0).i;
  fits = fits && fe_axis_dim(x, 2).i == held[3].i;
  int64_t has = fits && ir_dim_is_const(p->ir, fe_axis_dim(x, 1)) ? ir_dim_bound(p->ir, fe_axis_dim(x, 1)) : 0;
  if (fits && has && (by_group ? has % all == 0 : has == all)) {
    if (!fe_ok(r->rows.layout) || fe_rows_of(x))
      return !fe_rows_of(x) || fe_same_layout((tn_packed){x, {x.fn, fe_rows_of(x)}}, r->rows, "slot_attend", at);
    fe_error(p, E_SHAPE, at, "%s have no rows of the prompts", what);
  } else
    fe_error(p, E_SHAPE, at, "cache '%s' takes %s f32 [rows, %s%lld, %lld] of the rows of its run, not %s", m->path,
             what, by_group ? "a multiple of " : "", (long long)all, (long long)size, fe_type_text(x));
  fe_note_value(x, what);
  fe_note_value(r->ids, "what the run adds");
  return false;
}

// k and v side by side, [rows, 2, G, D]
static tn_tensor side_by_side(tn_tensor k, tn_tensor v, tn_site at) {
  return fe_concat((const tn_tensor[]){fe_with_axis(k, 1, at), fe_with_axis(v, 1, at)}, 2, 1, at);
}

// q [B,H,D] in the rows of their slots, [n,H,D]; those of the others are zeros.
static tn_tensor by_slot(const tn_slot_run *r, tn_tensor q, Dim n, tn_site at) {
  Attr axis = ir_a_int(KEY_axis, 0);
  const Dim d[] = {n, fe_axis_dim(q, 1), fe_axis_dim(q, 2)};
  tn_tensor none = fe_full(q.fn, 0, ir_shape(q.fn->p->ir, d, 3), DT_F32, at);
  return fe_emit(OP_index_copy, (const tn_tensor[]){none, r->where, q}, 3, &axis, 1, at);
}

static tn_tensor attend_slots(const tn_slot_run *r, tn_tensor cache, tn_tensor q, tn_attention_options o) {
  Prog *p = q.fn->p->ir;
  Dim n = ir_dim(p, r->slots->config.in), T = ir_dim(p, r->slots->config.out), size = fe_axis_dim(q, 2);
  tn_tensor x = by_slot(r, q, n, o.at);
  if (!fe_ok(x)) return x;
  x = fe_with_axis(x, 1, o.at);
  tn_tensor kv = fe_cast(cache, DT_F32, o.at);
  kv = fe_reshape(kv, (const Dim[]){n, T, fe_axis_dim(cache, 1), fe_axis_dim(cache, 2), size}, 5, o.at);
  if (o.window) o.offset = fe_emit2(OP_sub, r->seen, whole(q.fn, 1, o.at), o.at);
  else o.lengths = r->seen;
  tn_tensor y = fe_attention((tn_tensor[]){x, kv}, 2, 4, &o, o.at);
  return fe_ok(y) ? picked(fe_without_axis(y, 1, o.at), r->where, o.at) : y;
}

static bool check_cache(const tn_module *cache, const tn_slot_run *r, tn_site at) {
  if (cache->config.slots == r->slots) return true;
  fe_error(cache->p, E_ARGUMENT, at, "cache '%s' is of the slots '%s', the run of others", cache->path,
           cache->config.slots->path);
  fe_note(cache->p, cache->loc, "the cache was made here");
  fe_note_value(r->places, "the run");
  return false;
}

tn_tensor fe_slot_attend(tn_module *cache, const tn_slot_run *r, tn_tensor q, tn_tensor k, tn_tensor v,
                         tn_attention_options o) {
  tn_function *f = q.fn;
  if (!fe_join_for("tn_slot_attend", (const tn_tensor[]){q, r->where, r->ids, r->places}, 4, &f, o.at))
    return fe_poison(f);
  bool is_prompt = fe_ok(r->rows.layout);
  o.causal = is_prompt || o.window, o.heads_inside = true;
  if (!check_cache(cache, r, o.at) || !fe_check_attention(f, &o)) return fe_poison(f);
  if (!check_rows(cache, r, q, "the queries", true, o.at) || !check_rows(cache, r, k, "the keys", false, o.at) ||
      !check_rows(cache, r, v, "the values", false, o.at))
    return fe_poison(f);
  tn_tensor all = entry(f, cache, "steps", o.at);
  tn_index_put_(all, r->places, side_by_side(k, v, o.at), o.at);
  return is_prompt ? fe_attention((tn_tensor[]){q, k, v}, 3, 4, &o, o.at) : attend_slots(r, all, q, o);
}

tn_tensor tn_slot_attend(tn_module *cache, tn_slot_run run, tn_tensor q, tn_tensor k, tn_tensor v, tn_slot_options o) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){q, k, v}, 3, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_kind(f->p, cache, MOD_SLOT_CACHE, "cache of slots: tn_slot_cache makes one", o.at)) return fe_poison(f);
  const tn_attention_options how = {.scale = o.scale, .window = o.window, .at = o.at};
  return fe_made(fe_slot_attend(cache, &run, q, k, v, how), o.at);
}

// ---- the text
tn_tensor tn_slots_text(tn_slot_run run, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){run.where, run.held}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_kind(f->p, run.slots, MOD_SLOTS, "slots: tn_slots makes them", at)) return fe_poison(f);
  Prog *p = f->p->ir;
  Dim n = ir_dim(p, run.slots->config.in), T = ir_dim(p, run.slots->config.out);
  tn_tensor text = fe_reshape(entry(f, run.slots, "text", at), (const Dim[]){n, T}, 2, at);
  tn_tensor has = compared(OP_lt, numbered(f, T, at), fe_as_column(run.held, 2, at), at);
  return fe_made(where(has, picked(text, run.where, at), whole(f, -1, at), at), at);
}

// ---- copies
static void copy_slots(tn_tensor all, tn_tensor from, tn_tensor to, tn_site at) {
  tn_index_put_(all, to, picked(all, from, at), at);
}

// The same of an entry [n T, ..]
static void copy_rows(tn_tensor all, const tn_module *slots, tn_tensor from, tn_tensor to, tn_site at) {
  Prog *p = all.fn->p->ir;
  Dim d[MAX_RANK] = {ir_dim(p, slots->config.in), ir_dim(p, slots->config.out)};
  uint32_t rank = fe_rank(all);
  for (uint32_t k = 1; k < rank; k++) d[k + 1] = fe_axis_dim(all, k);
  copy_slots(fe_reshape(all, d, rank + 1, at), from, to, at);
}

static void copy_caches(tn_function *f, const tn_module *m, const tn_module *slots, tn_tensor from, tn_tensor to,
                        tn_site at) {
  if (m->kind == MOD_SLOT_CACHE && m->config.slots == slots && !m->poisoned)
    copy_rows(entry(f, m, "steps", at), slots, from, to, at);
  for (const tn_module *c = m->first; c; c = c->next) copy_caches(f, c, slots, from, to, at);
}

void tn_slots_copy(tn_function *f, tn_module *slots, tn_tensor from, tn_tensor to, tn_site at) {
  tn_function *of;
  if (!f || !fe_join((const tn_tensor[]){from, to}, 2, &of, at)) return;
  FE_GUARD(f->p, );
  if (!check_kind(f->p, slots, MOD_SLOTS, "slots: tn_slots makes them", at)) return;
  if (!check_numbers(from, (Dim){0}, "the slots that are copied", at)) return;
  if (!check_numbers(to, fe_axis_dim(from, 0), "the slots that are written", at)) return;
  note_write(f, slots, at);
  to = where(is_shared(slots, to, at), whole(f, RT_SLOT_SHARED, at), to, at);
  copy_slots(entry(f, slots, "held", at), from, to, at), copy_rows(entry(f, slots, "text", at), slots, from, to, at);
  copy_caches(f, tn_root(f->p), slots, from, to, at);
}
