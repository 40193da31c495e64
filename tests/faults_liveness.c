// Faults of pass assign_buffers: edits of the buffers that it made.
#include "ir/intern.h"
#include "tests/faults.h"

static uint32_t copy_buf(Fn *f, uint32_t b) {
  Buf copy = f->bufs[b];
  *RT_PUSH(f->prog->mem, f->bufs, f->n_bufs, f->cap_bufs) = copy;
  return f->n_bufs - 1;
}

// ---- in-place reuse
// A result that may take over an operand at all.
static bool may_take(const Fn *f, uint32_t i) {
  uint32_t to = f->buf_of[i];
  OpClass c = class_at(f, ir_head(f, (Val){i}).i);
  return f->kernel_of[i] != UINT32_MAX && in_arena(f, to) && f->bufs[to].head.i == i && !writes(f, i) &&
         !f->bufs[to].reuses && (c == CLASS_POINTWISE || c == CLASS_ROW || c == CLASS_RNN || c == CLASS_SCATTER);
}

// And everything but how operand `from` is read allows it.
static bool may_be_taken(const Fn *f, uint32_t from, uint32_t i) {
  const Buf *a = &f->bufs[from];
  int32_t kernel = (int32_t)f->kernel_of[i];
  return in_arena(f, from) && a->last == kernel && a->first < kernel && a->bytes == f->bufs[f->buf_of[i]].bytes &&
         !is_reused(f, from) && !kernel_writes(f, &f->kernels[kernel], from);
}

// As assign_buffers hands places on when its question "is every read element by element" is always answered with yes.
bool fault_liveness_by_element(Fn *f, uint32_t site) {
  bool differs = false;
  uint32_t *was = rt_alloc(f->prog->mem, f->n_bufs * sizeof *was);
  for (uint32_t b = 1; b < f->n_bufs; b++) was[b] = f->bufs[b].reuses, f->bufs[b].reuses = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!may_take(f, i)) continue;
    Buf *to = &f->bufs[f->buf_of[i]];
    for (uint32_t j = f->kernels[f->kernel_of[i]].first; j <= i; j++)
      for (uint32_t k = 0; k < n_operands(f, j) && !to->reuses; k++)
        if (may_be_taken(f, f->buf_of[arg(f, j, k)], i)) to->reuses = f->buf_of[arg(f, j, k)];
    differs |= to->reuses != was[f->buf_of[i]];
  }
  return differs && site == 0;
}

// What assign_buffers left is not read element by element.
bool fault_liveness_by_element_once(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!may_take(f, i)) continue;
    for (uint32_t j = f->kernels[f->kernel_of[i]].first; j <= i; j++)
      for (uint32_t k = 0; k < n_operands(f, j); k++) {
        uint32_t from = f->buf_of[arg(f, j, k)];
        if (!may_be_taken(f, from, i) || !at(&site)) continue;
        f->bufs[f->buf_of[i]].reuses = from;
        return true;
      }
  }
  return false;
}

bool fault_liveness_reused_alive(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; may_take(f, i) && k < n_operands(f, i); k++) {
      uint32_t from = f->buf_of[arg(f, i, k)], to = f->buf_of[i];
      bool alive = in_arena(f, from) && f->bufs[from].last > f->bufs[to].first && from != to && !is_reused(f, from);
      if (!alive || f->bufs[from].bytes != f->bufs[to].bytes || !at(&site)) continue;
      f->bufs[to].reuses = from;
      return true;
    }
  return false;
}

bool fault_liveness_reused_unread(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t from = 1; may_take(f, i) && from < f->n_bufs; from++) {
      Buf *to = &f->bufs[f->buf_of[i]];
      bool dead = in_arena(f, from) && f->bufs[from].last == to->first && f->bufs[from].bytes != to->bytes;
      if (!dead || is_reused(f, from) || !at(&site)) continue;
      to->reuses = from;
      return true;
    }
  return false;
}

bool fault_liveness_reused_twice(Fn *f, uint32_t site) {
  for (uint32_t a = 1; a < f->n_bufs; a++)
    for (uint32_t i = 1; f->bufs[a].reuses && i < f->n_ins; i++) {
      uint32_t b = f->buf_of[i];
      if (b == a || !may_take(f, i) || f->bufs[b].first != f->bufs[a].first || f->bufs[b].bytes != f->bufs[a].bytes)
        continue;
      if (!at(&site)) continue;
      f->bufs[b].reuses = f->bufs[a].reuses;
      return true;
    }
  return false;
}

// ---- sizes
bool fault_liveness_halved(Fn *f, uint32_t site) {
  bool any = false;
  for (uint32_t b = 1; b < f->n_bufs; b++) any |= is_used(f, b), f->bufs[b].bytes /= 2;
  return any && site == 0;
}

static bool resize(Fn *f, uint32_t site, int64_t times, int64_t plus) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!is_used(f, b) || !at(&site)) continue;
    f->bufs[b].bytes = f->bufs[b].bytes * times + plus;
    return true;
  }
  return false;
}

bool fault_liveness_one_small(Fn *f, uint32_t site) { return resize(f, site, 1, -4); }
bool fault_liveness_one_large(Fn *f, uint32_t site) { return resize(f, site, 2, 0); }

// A buffer whose size in this plan is not `bytes`.
static bool set_bytes(Fn *f, uint32_t b, int64_t bytes, uint32_t *site) {
  if (!is_used(f, b) || f->bufs[b].bytes == bytes || !at(site)) return false;
  f->bufs[b].bytes = bytes;
  return true;
}

bool fault_liveness_full_bound(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    const Ins *ins = &f->ins[f->bufs[b].head.i];
    if (ins->dtype != DT_LAYOUT &&
        set_bytes(f, b, ir_shape_bound(f->prog, ins->shape) * ir_dtype_bytes[ins->dtype], &site))
      return true;
  }
  return false;
}

bool fault_liveness_layout_fit(Fn *f, uint32_t site) {
  const Prog *p = f->prog;
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    const Ins *ins = &f->ins[f->bufs[b].head.i];
    if (ins->dtype != DT_LAYOUT) continue;
    int64_t batch = ir_dim_fit(p, ir_dim_at(p, ins->shape, 0)), time = ir_dim_fit(p, ir_dim_at(p, ins->shape, 1));
    if (set_bytes(f, b, 4 * TN_LAYOUT_WORDS(time, batch), &site)) return true;
  }
  return false;
}

// ---- live ranges, and who has memory
bool fault_liveness_ends_early(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (f->bufs[b].last <= f->bufs[b].first || !at(&site)) continue;
    f->bufs[b].last--;
    return true;
  }
  return false;
}

bool fault_liveness_begins_late(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (f->bufs[b].last <= f->bufs[b].first || !at(&site)) continue;
    f->bufs[b].first++;
    return true;
  }
  return false;
}

static void forget_buf(Fn *f, uint32_t b) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->buf_of[i] == b) f->buf_of[i] = 0;
  for (uint32_t a = 1; a < f->n_bufs; a++)
    if (f->bufs[a].reuses == b) f->bufs[a].reuses = 0;
  f->bufs[b].first = INT32_MAX, f->bufs[b].last = -1, f->bufs[b].n_shares = 0;
}

static bool is_read_elsewhere(const Fn *f, uint32_t v) {
  for (uint32_t i = v + 1; i < f->n_ins; i++)
    for (uint32_t k = 0; k < n_operands(f, i); k++)
      if (arg(f, i, k) == v && f->kernel_of[i] != UINT32_MAX && f->kernel_of[i] != f->kernel_of[v]) return true;
  return false;
}

bool fault_liveness_not_stored(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!in_arena(f, b) || !is_read_elsewhere(f, f->bufs[b].head.i) || !at(&site)) continue;
    forget_buf(f, b);
    return true;
  }
  return false;
}

static bool set_apart(Fn *f, uint32_t site, bool views) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    bool fits = views ? class_at(f, i) == CLASS_VIEW : writes(f, i);
    if (!f->buf_of[i] || !fits || !at(&site)) continue;
    f->buf_of[i] = copy_buf(f, f->buf_of[i]);
    f->bufs[f->buf_of[i]].reuses = 0;
    return true;
  }
  return false;
}

bool fault_liveness_view_apart(Fn *f, uint32_t site) { return set_apart(f, site, true); }
bool fault_liveness_version_apart(Fn *f, uint32_t site) { return set_apart(f, site, false); }

// ---- scratch
static Kernel *with_scratch(Fn *f, uint32_t *site) {
  for (uint32_t k = 0; k < f->n_kernels; k++)
    if (f->kernels[k].scratch && at(site)) return &f->kernels[k];
  return NULL;
}

bool fault_liveness_no_scratch(Fn *f, uint32_t site) {
  Kernel *k = with_scratch(f, &site);
  if (!k) return false;
  forget_buf(f, k->scratch);
  k->scratch = 0;
  return true;
}

bool fault_liveness_scratch_small(Fn *f, uint32_t site) {
  Kernel *k = with_scratch(f, &site);
  if (k) f->bufs[k->scratch].bytes -= TN_ALIGN;
  return k;
}

bool fault_liveness_in_scratch(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!in_arena(f, b) || !at(&site)) continue;
    return f->bufs[b].scratch = true;
  }
  return false;
}

// ---- segments of the caller
static bool swap_places(Fn *f, Segment seg, uint32_t site) {
  for (uint32_t a = next_in(f, seg, 0), b; (b = a ? next_in(f, seg, a) : 0); a = b) {
    if (!at(&site)) continue;
    int64_t keep = f->bufs[a].offset;
    f->bufs[a].offset = f->bufs[b].offset;
    f->bufs[b].offset = keep;
    return true;
  }
  return false;
}

bool fault_liveness_outputs_swapped(Fn *f, uint32_t site) { return swap_places(f, SEG_OUT, site); }
bool fault_liveness_inputs_swapped(Fn *f, uint32_t site) { return swap_places(f, SEG_IN, site); }

bool fault_liveness_output_twice(Fn *f, uint32_t site) {
  for (uint32_t a = next_in(f, SEG_OUT, 0), b; (b = a ? next_in(f, SEG_OUT, a) : 0); a = b) {
    if (!at(&site)) continue;
    f->bufs[b].offset = f->bufs[a].offset;
    return true;
  }
  return false;
}

bool fault_liveness_params_swapped(Fn *f, uint32_t site) {
  for (uint32_t a = 1; a < f->n_ins; a++)
    for (uint32_t b = a + 1; op_at(f, a) == OP_param && b < f->n_ins; b++) {
      bool same =
          op_at(f, b) == OP_param && f->ins[a].shape.i == f->ins[b].shape.i && f->ins[a].dtype == f->ins[b].dtype;
      if (!same || f->buf_of[a] == f->buf_of[b] || !is_used(f, f->buf_of[a]) || !is_used(f, f->buf_of[b]) || !at(&site))
        continue;
      Val head = f->bufs[f->buf_of[a]].head;
      f->bufs[f->buf_of[a]].head = f->bufs[f->buf_of[b]].head;
      f->bufs[f->buf_of[b]].head = head;
      return true;
    }
  return false;
}

// The first buffer of the arena that is written in place.
static uint32_t written_buf(const Fn *f, uint32_t *site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (writes(f, i) && in_arena(f, f->buf_of[i]) && at(site)) return f->buf_of[i];
  return 0;
}

static bool give_away(Fn *f, uint32_t b, Segment seg) {
  f->bufs[b].seg = (uint8_t)seg;
  f->bufs[b].offset = 0;
  for (uint32_t a = 1; a < f->n_bufs; a++)
    if (f->bufs[a].reuses == b) f->bufs[a].reuses = 0;
  f->bufs[b].reuses = 0;
  return b;
}

bool fault_liveness_written_input(Fn *f, uint32_t site) { return give_away(f, written_buf(f, &site), SEG_IN); }
bool fault_liveness_written_output(Fn *f, uint32_t site) { return give_away(f, written_buf(f, &site), SEG_OUT); }

bool fault_liveness_in_consts(Fn *f, uint32_t site) {
  for (uint32_t b = 1; !f->is_body && b < f->n_bufs; b++) {
    if (!in_arena(f, b) || written_buf(f, &(uint32_t){0}) == b || f->ins[f->bufs[b].head.i].dtype == DT_LAYOUT)
      continue;
    if (at(&site)) return give_away(f, b, SEG_CONST);
  }
  return false;
}
