// tn_place: the room placement (ir/placement) under a public name.
#include "frontend/tenure/placement.h"
#include "ir/placement/placement.h"

enum { UNITS = 400000 };

typedef struct {
  RtArena *mem;
  tn_place_buffer *buffers;
  uint32_t n;
  tn_place_options o;
  tn_placement *out;
  char *error;
  size_t error_size;
} Call;

_Static_assert(sizeof(tn_place_hole) == sizeof(PlaceSpan) &&
                   offsetof(tn_place_hole, upper) == offsetof(PlaceSpan, upper),
               "a hole is a span");

static PlaceBuffer *copy_buffers(const Call *c) {
  PlaceBuffer *list = rt_alloc(c->mem, (c->n + 1) * sizeof *list);
  for (uint32_t k = 0; k < c->n; k++) {
    const tn_place_buffer *b = &c->buffers[k];
    list[k] = (PlaceBuffer){.lower = b->lower,
                            .upper = b->upper,
                            .size = b->size,
                            .align = b->align,
                            .fixed = b->is_fixed ? b->offset : PLACE_ANY,
                            .holes = (const PlaceSpan *)b->holes,
                            .n_holes = b->holes ? b->n_holes : 0};
  }
  return list;
}

static tn_status refuse(const Call *c, const PlaceFault *f) {
  if (f->other == f->buffer) rt_fail(c->error, c->error_size, "buffer %u %s", f->buffer, f->text);
  else rt_fail(c->error, c->error_size, "buffer %u %s, buffer %u", f->buffer, f->text, f->other);
  return TN_ERR_ARGUMENT;
}

static tn_status place(const Call *c) {
  PlaceProblem p = {.buffers = copy_buffers(c), .n = c->n, .align = c->o.align, .capacity = c->o.capacity};
  PlaceFault fault;
  Placement placed;
  p.budget = c->o.budget < 0 ? 0 : c->o.budget ? c->o.budget : UNITS;
  if (!ir_place(&p, c->mem, &placed, &fault) || !ir_place_check(&p, placed.offsets, placed.peak, c->mem, &fault))
    return refuse(c, &fault);
  for (uint32_t k = 0; k < c->n; k++) c->buffers[k].offset = placed.offsets[k];
  *c->out = (tn_placement){
      placed.peak,      placed.lower_bound, placed.spent, placed.is_optimal, !p.capacity || placed.peak <= p.capacity,
      placed.is_refused};
  return TN_OK;
}

static tn_status say(const Call *c, tn_status status, const char *what) {
  rt_fail(c->error, c->error_size, "%s", what);
  return status;
}

static tn_status place_or_run_out(const Call *c) {
  jmp_buf oom;
  rt_arena_on_oom(c->mem, &oom);
  return setjmp(oom) ? say(c, TN_ERR_MEMORY, "out of memory") : place(c);
}

tn_status tn_place(tn_place_buffer *buffers, size_t n, const tn_place_options *o, tn_placement *out, char *error,
                   size_t error_size) {
  tn_placement ignored;
  Call c = {NULL, buffers, (uint32_t)n, o ? *o : (tn_place_options){0}, out ? out : &ignored, error, error_size};
  if (n && !buffers) return say(&c, TN_ERR_ARGUMENT, "there are no buffers: NULL");
  if (n > UINT32_MAX / 4) return say(&c, TN_ERR_ARGUMENT, "there are more than 2^30 buffers");
  if (c.o.align < 0 || c.o.capacity < 0) return say(&c, TN_ERR_ARGUMENT, "alignment and capacity are 0 or more");
  c.mem = rt_arena_new();
  if (!c.mem) return say(&c, TN_ERR_MEMORY, "out of memory");
  tn_status status = place_or_run_out(&c);
  rt_arena_free(c.mem);
  return status;
}
