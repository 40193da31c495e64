// Tables of a guarded arena: the red zones around its buffers, and what each kernel stores, for the runtime
// to poison and check.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"

// Red zones: 64 to 192 bytes on each side of a buffer, by its number. A buffer that shares memory with one of
// another function has that one's.
static int64_t guard(const Fn *f, uint32_t buf, uint64_t side) {
  uint32_t n = f->bufs[buf].twin ? f->bufs[buf].twin : buf;
  return TN_ALIGN * (1 + (int64_t)(rt_hash(&n, sizeof n, side) % 3));
}
int64_t ir_guard_before(const Fn *f, uint32_t buf) { return guard(f, buf, 21); }
int64_t ir_guard_behind(const Fn *f, uint32_t buf) { return guard(f, buf, 22); }

static const char *describe(const Fn *f, Val v, RtArena *mem) {
  const Prog *p = f->prog;
  RtText t = {.mem = mem};
  ir_print_name(f, v, &t);
  Loc at = ir_ins(f, v)->loc;
  if (!at.i) return t.text;
  rt_text_add(&t, " (");
  ir_loc_text(p, at, &t);
  rt_text_add(&t, ")");
  return t.text;
}

// "mul, in the backward of sqrt, model.c:14 (%17)"
static const char *describe_op(const Fn *f, Val v, RtArena *mem) {
  const Ins *ins = ir_ins(f, ir_head(f, v));
  RtText t = {.mem = mem};
  rt_text_add(&t, "%s, ", ir_ops[ins->op].name);
  if (ins->backward_of) rt_text_add(&t, "in the backward of %s, ", ir_ops[ins->backward_of].name);
  if (ins->loc.i) ir_loc_text(f->prog, ins->loc, &t), rt_text_add(&t, " ");
  rt_text_add(&t, "(");
  ir_print_name(f, v, &t);
  rt_text_add(&t, ")");
  return t.text;
}

static uint32_t root_of(const Fn *f, uint32_t b) {
  while (f->bufs[b].reuses) b = f->bufs[b].reuses;
  return b;
}

// Buffers that reuse one slot share a red zone.
static void make_zones(const Fn *f, RtArena *mem, RtGuardedArena *h) {
  RtZone *zone = rt_alloc(mem, f->n_bufs * sizeof *zone);
  uint32_t *zone_of = rt_alloc(f->prog->mem, f->n_bufs * sizeof *zone_of);
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    const Buf *buf = &f->bufs[b];
    if (buf->seg != SEG_ARENA || buf->last < 0) continue;
    uint32_t root = root_of(f, b);
    if (!zone_of[root]) {
      zone[h->n_zones] = (RtZone){buf->offset, buf->offset, buf->offset - ir_guard_before(f, root), 0,
                                  INT32_MAX,   -1,          describe(f, f->bufs[root].head, mem),   buf->is_kept};
      zone_of[root] = ++h->n_zones;
    }
    RtZone *z = &zone[zone_of[root] - 1];
    if (buf->offset + buf->bytes > z->hi) z->hi = buf->offset + buf->bytes;
    if (buf->first < z->first) z->first = buf->first;
    if (buf->last > z->last) z->last = buf->last;
    z->guard_hi = z->lo + ir_aligned(z->hi - z->lo) + ir_guard_behind(f, root);
  }
  h->zones = zone;
}

// Exchanges have memory that no kernel of this function fills.
static bool stores(const Fn *f, uint32_t i) {
  Op op = (Op)ir_ins(f, ir_head(f, (Val){i}))->op;
  const Buf *b = &f->bufs[f->buf_of[i]];
  return f->buf_of[i] && f->ins[i].dtype == DT_F32 && b->seg != SEG_IN && b->seg != SEG_CONST &&
         op != OP_exchange_begin && op != OP_exchange_end;
}

// What kernels store as f32, in their order
static void watch(const Fn *f, RtArena *mem, RtGuardedArena *h) {
  RtWatched *list = rt_alloc(mem, (f->n_ins + 1) * sizeof *list);
  for (uint32_t k = 0; k < f->n_kernels; k++)
    for (uint32_t i = f->kernels[k].first; i < f->kernels[k].first + f->kernels[k].n; i++) {
      const Buf *b = &f->bufs[f->buf_of[i]];
      if (!stores(f, i)) continue;
      bool is_const = ir_shape_is_const(f->prog, f->ins[i].shape);
      if (b->seg == SEG_OUT && !is_const) continue;
      int64_t bytes = 4 * ir_shape_bound(f->prog, f->ins[i].shape);
      list[h->n_watched++] = (RtWatched){b->seg, b->offset, bytes, (int32_t)k, describe_op(f, (Val){i}, mem)};
    }
  h->watched = list;
}

const RtGuardedArena *ir_guarded_arena(const Fn *f, RtArena *mem) {
  if (!f->prog->guarded_arena) return NULL;
  RtGuardedArena *h = rt_alloc(mem, sizeof *h);
  const char **kernel = rt_alloc(mem, (f->n_kernels + 1) * sizeof *kernel);
  for (uint32_t k = 0; k < f->n_kernels; k++)
    kernel[k] = rt_printf(mem, "%s %s", ir_class_name((OpClass)f->kernels[k].cls),
                          describe(f, ir_anchor(f, &f->kernels[k]), mem));
  *h = (RtGuardedArena){.kernels = kernel, .n_kernels = f->n_kernels, .arena_bytes = f->stats.peak_bytes};
  make_zones(f, mem, h);
  if (f->prog->watches_nan) watch(f, mem, h);
  return h;
}
