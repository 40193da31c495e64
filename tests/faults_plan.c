// Faults of the passes that plan: edits of what they made, by the pass that would make the mistake.
#include "tests/faults.h"
#include <string.h>

static Op op_at(const Fn *f, uint32_t i) { return (Op)f->ins[i].op; }
static OpClass class_at(const Fn *f, uint32_t i) { return (OpClass)ir_ops[f->ins[i].op].cls; }
static bool writes(const Fn *f, uint32_t i) { return ir_ops[op_at(f, ir_head(f, (Val){i}).i)].flags & WRITES; }
static uint32_t n_operands(const Fn *f, uint32_t i) { return op_at(f, i) == OP_result ? 0 : f->ins[i].n_args; }
static uint32_t arg(const Fn *f, uint32_t i, uint32_t k) { return ir_arg(f, (Val){i}, k).i; }
static uint32_t end_of(const Kernel *k) { return k->first + k->n; }

// A buffer that something is stored in, and that is no scratch.
static bool is_used(const Fn *f, uint32_t b) {
  return f->bufs[b].last >= 0 && !f->bufs[b].scratch && f->bufs[b].bytes > 0;
}
static bool in_arena(const Fn *f, uint32_t b) { return is_used(f, b) && f->bufs[b].seg == SEG_ARENA; }

static uint32_t copy_buf(Fn *f, uint32_t b) {
  Buf copy = f->bufs[b];
  *RT_PUSH(f->prog->mem, f->bufs, f->n_bufs, f->cap_bufs) = copy;
  return f->n_bufs - 1;
}

// ---- in-place reuse
static bool kernel_writes(const Fn *f, const Kernel *k, uint32_t buf) {
  for (uint32_t i = k->first; i < end_of(k); i++)
    if (f->buf_of[i] == buf) return true;
  return false;
}

static bool is_taken(const Fn *f, uint32_t buf) {
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].reuses == buf) return true;
  return false;
}

// A result that may take over an operand at all.
static bool may_take(const Fn *f, uint32_t i) {
  uint32_t to = f->buf_of[i];
  OpClass c = class_at(f, ir_head(f, (Val){i}).i);
  return f->kernel_of[i] != UINT32_MAX && in_arena(f, to) && f->bufs[to].head.i == i && !writes(f, i) &&
         !f->bufs[to].reuses && (c == CLASS_POINT || c == CLASS_ROW || c == CLASS_RNN);
}

// And everything but how operand `from` is read allows it.
static bool may_be_taken(const Fn *f, uint32_t from, uint32_t i) {
  const Buf *a = &f->bufs[from];
  int32_t kernel = (int32_t)f->kernel_of[i];
  return in_arena(f, from) && a->last == kernel && a->first < kernel && a->bytes == f->bufs[f->buf_of[i]].bytes &&
         !is_taken(f, from) && !kernel_writes(f, &f->kernels[kernel], from);
}

// As lives hands places on when its question "is every read element by element" is always answered with yes.
bool fault_lives_by_element(Fn *f, uint32_t site) {
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

// What lives left is not read element by element.
bool fault_lives_by_element_once(Fn *f, uint32_t site) {
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

bool fault_lives_taken_alive(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; may_take(f, i) && k < n_operands(f, i); k++) {
      uint32_t from = f->buf_of[arg(f, i, k)], to = f->buf_of[i];
      bool alive = in_arena(f, from) && f->bufs[from].last > f->bufs[to].first && from != to && !is_taken(f, from);
      if (!alive || f->bufs[from].bytes != f->bufs[to].bytes || !at(&site)) continue;
      f->bufs[to].reuses = from;
      return true;
    }
  return false;
}

bool fault_lives_taken_unread(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t from = 1; may_take(f, i) && from < f->n_bufs; from++) {
      Buf *to = &f->bufs[f->buf_of[i]];
      bool dead = in_arena(f, from) && f->bufs[from].last == to->first && f->bufs[from].bytes != to->bytes;
      if (!dead || is_taken(f, from) || !at(&site)) continue;
      to->reuses = from;
      return true;
    }
  return false;
}

bool fault_lives_taken_twice(Fn *f, uint32_t site) {
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
bool fault_lives_halved(Fn *f, uint32_t site) {
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

bool fault_lives_one_small(Fn *f, uint32_t site) { return resize(f, site, 1, -4); }
bool fault_lives_one_large(Fn *f, uint32_t site) { return resize(f, site, 2, 0); }

// A buffer whose size in this plan is not `bytes`.
static bool set_bytes(Fn *f, uint32_t b, int64_t bytes, uint32_t *site) {
  if (!is_used(f, b) || f->bufs[b].bytes == bytes || !at(site)) return false;
  f->bufs[b].bytes = bytes;
  return true;
}

bool fault_lives_full_bound(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    const Ins *ins = &f->ins[f->bufs[b].head.i];
    if (ins->dtype != DT_LAYOUT &&
        set_bytes(f, b, ir_shape_bound(f->prog, ins->shape) * ir_dtype_bytes[ins->dtype], &site))
      return true;
  }
  return false;
}

bool fault_lives_layout_fit(Fn *f, uint32_t site) {
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
bool fault_lives_ends_early(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (f->bufs[b].last <= f->bufs[b].first || !at(&site)) continue;
    f->bufs[b].last--;
    return true;
  }
  return false;
}

bool fault_lives_begins_late(Fn *f, uint32_t site) {
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

bool fault_lives_not_stored(Fn *f, uint32_t site) {
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

bool fault_lives_view_apart(Fn *f, uint32_t site) { return set_apart(f, site, true); }
bool fault_lives_version_apart(Fn *f, uint32_t site) { return set_apart(f, site, false); }

// ---- scratch
static Kernel *with_scratch(Fn *f, uint32_t *site) {
  for (uint32_t k = 0; k < f->n_kernels; k++)
    if (f->kernels[k].scratch && at(site)) return &f->kernels[k];
  return NULL;
}

bool fault_lives_no_scratch(Fn *f, uint32_t site) {
  Kernel *k = with_scratch(f, &site);
  if (!k) return false;
  forget_buf(f, k->scratch);
  k->scratch = 0;
  return true;
}

bool fault_lives_scratch_small(Fn *f, uint32_t site) {
  Kernel *k = with_scratch(f, &site);
  if (k) f->bufs[k->scratch].bytes -= TN_ALIGN;
  return k;
}

bool fault_lives_in_scratch(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!in_arena(f, b) || !at(&site)) continue;
    return f->bufs[b].scratch = true;
  }
  return false;
}

bool fault_place_scratch_shared(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++)
    for (uint32_t b = 1; f->kernels[k].scratch && b < f->n_bufs; b++) {
      bool used = in_arena(f, b) && kernel_writes(f, &f->kernels[k], b);
      for (uint32_t i = f->kernels[k].first; i < end_of(&f->kernels[k]); i++)
        for (uint32_t j = 0; j < n_operands(f, i); j++) used |= in_arena(f, b) && f->buf_of[arg(f, i, j)] == b;
      if (!used || !at(&site)) continue;
      Buf *s = &f->bufs[f->kernels[k].scratch];
      s->offset = f->bufs[b].offset;
      if (s->offset + s->bytes > f->stats.peak_bytes) f->stats.peak_bytes = s->offset + s->bytes;
      return true;
    }
  return false;
}

// ---- bodies of scans
bool fault_bodies_carry_slot(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) != OP_scan) continue;
    Scan s = ir_scan_at(f, (Val){i});
    if (!s.n_carries || !ir_scan_carry_bytes(&s, 0) || !at(&site)) continue;
    f->bufs[f->kernels[f->kernel_of[i]].scratch].bytes -= ir_scan_carry_bytes(&s, 0);
    return true;
  }
  return false;
}

bool fault_bodies_outside(Fn *f, uint32_t site) {
  for (uint32_t b = 1; f->is_body && b < f->n_bufs; b++) {
    if (!in_arena(f, b) || f->bufs[b].reuses || is_taken(f, b) || !at(&site)) continue;
    f->bufs[b].seg = SEG_PARAM;
    return true;
  }
  return false;
}

// ---- segments of the caller
static uint32_t next_in(const Fn *f, Segment seg, uint32_t after) {
  for (uint32_t b = after + 1; b < f->n_bufs; b++)
    if (is_used(f, b) && f->bufs[b].seg == seg) return b;
  return 0;
}

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

bool fault_lives_outputs_swapped(Fn *f, uint32_t site) { return swap_places(f, SEG_OUT, site); }
bool fault_lives_inputs_swapped(Fn *f, uint32_t site) { return swap_places(f, SEG_IN, site); }

bool fault_lives_output_twice(Fn *f, uint32_t site) {
  for (uint32_t a = next_in(f, SEG_OUT, 0), b; (b = a ? next_in(f, SEG_OUT, a) : 0); a = b) {
    if (!at(&site)) continue;
    f->bufs[b].offset = f->bufs[a].offset;
    return true;
  }
  return false;
}

bool fault_lives_params_swapped(Fn *f, uint32_t site) {
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

bool fault_lives_written_input(Fn *f, uint32_t site) { return give_away(f, written_buf(f, &site), SEG_IN); }
bool fault_lives_written_output(Fn *f, uint32_t site) { return give_away(f, written_buf(f, &site), SEG_OUT); }

bool fault_lives_in_consts(Fn *f, uint32_t site) {
  for (uint32_t b = 1; !f->is_body && b < f->n_bufs; b++) {
    if (!in_arena(f, b) || written_buf(f, &(uint32_t){0}) == b || f->ins[f->bufs[b].head.i].dtype == DT_LAYOUT)
      continue;
    if (at(&site)) return give_away(f, b, SEG_CONST);
  }
  return false;
}

// ---- offsets
static uint32_t root_of(const Fn *f, uint32_t b) {
  while (f->bufs[b].reuses) b = f->bufs[b].reuses;
  return b;
}

bool fault_place_overlap(Fn *f, uint32_t site) {
  for (uint32_t a = 1; a < f->n_bufs; a++)
    for (uint32_t b = 1; in_arena(f, a) && b < f->n_bufs; b++) {
      bool both = in_arena(f, b) && f->bufs[a].first <= f->bufs[b].last && f->bufs[b].first <= f->bufs[a].last;
      if (!both || root_of(f, a) == root_of(f, b) || f->bufs[b].reuses || is_taken(f, b) || !at(&site)) continue;
      f->bufs[b].offset = f->bufs[a].offset;
      if (f->bufs[b].offset + f->bufs[b].bytes > f->stats.peak_bytes)
        f->stats.peak_bytes = f->bufs[b].offset + f->bufs[b].bytes;
      return true;
    }
  return false;
}

bool fault_place_guards_narrow(Fn *f, uint32_t site) {
  for (uint32_t a = 1; f->prog->hostile && a < f->n_bufs; a++)
    for (uint32_t b = 1; in_arena(f, a) && b < f->n_bufs; b++) {
      int64_t end = f->bufs[a].offset + (f->bufs[a].bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
      bool both = in_arena(f, b) && f->bufs[a].first <= f->bufs[b].last && f->bufs[b].first <= f->bufs[a].last;
      if (!both || f->bufs[b].reuses || is_taken(f, b) || f->bufs[b].offset < end || !at(&site)) continue;
      f->bufs[b].offset = end;
      return true;
    }
  return false;
}

// All buffers on one place move together.
static bool move_place(Fn *f, uint32_t site, int64_t to, bool relative) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!in_arena(f, b) || f->bufs[b].reuses || !at(&site)) continue;
    for (uint32_t a = 1; a < f->n_bufs; a++)
      if (root_of(f, a) == b && a != b) f->bufs[a].offset = to + (relative ? f->bufs[a].offset : 0);
    f->bufs[b].offset = to + (relative ? f->bufs[b].offset : 0);
    return true;
  }
  return false;
}

bool fault_place_unaligned(Fn *f, uint32_t site) { return move_place(f, site, 4, true); }
bool fault_place_below(Fn *f, uint32_t site) { return move_place(f, site, -TN_ALIGN, false); }
bool fault_place_above(Fn *f, uint32_t site) {
  return move_place(f, site, (f->stats.peak_bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN, false);
}

bool fault_place_peak_small(Fn *f, uint32_t site) {
  if (site || f->stats.peak_bytes == 0) return false;
  f->stats.peak_bytes -= TN_ALIGN;
  return true;
}

bool fault_place_taken_apart(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!f->bufs[b].reuses || !in_arena(f, b) || !at(&site)) continue;
    f->bufs[b].offset = f->stats.peak_bytes;
    f->stats.peak_bytes += (f->bufs[b].bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
    return true;
  }
  return false;
}

bool fault_lives_taken_silently(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!f->bufs[b].reuses || !in_arena(f, b) || !at(&site)) continue;
    f->bufs[b].reuses = 0;
    return true;
  }
  return false;
}

// ---- segments of the program
bool fault_place_params_overlap(Fn *f, uint32_t site) {
  Prog *p = f->prog;
  for (uint32_t k = 1; k < p->n_params; k++) {
    if (ir_shape_bound(p, p->params[k].shape) == 0 || ir_shape_bound(p, p->params[k - 1].shape) == 0 || !at(&site))
      continue;
    p->params[k].offset = p->params[k - 1].offset;
    for (uint32_t n = 0; n < p->n_fns; n++)
      for (uint32_t b = 1; b < p->fns[n]->n_bufs; b++)
        if (p->fns[n]->bufs[b].seg == SEG_PARAM && ir_attr_int(p->fns[n], p->fns[n]->bufs[b].head, KEY_param, -1) == k)
          p->fns[n]->bufs[b].offset = p->params[k].offset;
    return true;
  }
  return false;
}

bool fault_place_params_small(Fn *f, uint32_t site) {
  if (site || f->prog->param_bytes == 0) return false;
  f->prog->param_bytes -= TN_ALIGN;
  return true;
}

bool fault_place_param_stale(Fn *f, uint32_t site) {
  uint32_t b = next_in(f, SEG_PARAM, 0);
  if (site || !b) return false;
  f->bufs[b].offset += TN_ALIGN;
  return true;
}

bool fault_place_consts_overlap(Fn *f, uint32_t site) {
  uint32_t a = next_in(f, SEG_CONST, 0), b = a ? next_in(f, SEG_CONST, a) : 0;
  if (site || !b) return false;
  f->bufs[b].offset = f->bufs[a].offset;
  return true;
}

bool fault_place_consts_small(Fn *f, uint32_t site) {
  if (site || f->prog->const_bytes == 0) return false;
  f->prog->const_bytes -= TN_ALIGN;
  return true;
}

// ---- kernels
// Kernels k and k + 1 become one.
static void merge(Fn *f, uint32_t k) {
  Kernel *a = &f->kernels[k];
  a->n += f->kernels[k + 1].n;
  memmove(a + 1, a + 2, (f->n_kernels - k - 2) * sizeof *a);
  f->n_kernels--;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->kernel_of[i] != UINT32_MAX && f->kernel_of[i] > k) f->kernel_of[i]--;
}

static bool are_neighbours(const Fn *f, uint32_t k) {
  return k + 1 < f->n_kernels && end_of(&f->kernels[k]) == f->kernels[k + 1].first;
}

static bool have_one_shape(const Fn *f, uint32_t k) {
  return f->ins[f->kernels[k].first].shape.i == f->ins[f->kernels[k + 1].first].shape.i;
}

static bool are_pointwise(const Fn *f, uint32_t k) {
  return are_neighbours(f, k) && f->kernels[k].cls == CLASS_POINT && f->kernels[k + 1].cls == CLASS_POINT;
}

// An instruction of kernel k + 1 reads what kernel k makes by its strides.
static bool reads_by_strides(const Fn *f, uint32_t k) {
  for (uint32_t i = f->kernels[k + 1].first; i < end_of(&f->kernels[k + 1]); i++)
    for (uint32_t j = 0; j < n_operands(f, i); j++)
      if (class_at(f, i) == CLASS_INDEX && f->kernel_of[arg(f, i, j)] == k) return true;
  return false;
}

bool fault_fuse_elements(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    if (!are_pointwise(f, k) || !have_one_shape(f, k) || !reads_by_strides(f, k) || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

bool fault_fuse_shapes(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    if (!are_pointwise(f, k) || have_one_shape(f, k) || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

bool fault_fuse_classes(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    uint8_t cls = f->kernels[k].cls;
    bool groups = cls == CLASS_POINT || cls == CLASS_ROW || cls == CLASS_GEMM || cls == CLASS_RNN || cls == CLASS_OPTIM;
    if (!are_neighbours(f, k) || groups || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

bool fault_fuse_lost(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    uint32_t last = end_of(&f->kernels[k]) - 1;
    if (f->kernels[k].n < 2 || op_at(f, last) == OP_result || !at(&site)) continue;
    f->kernels[k].n--;
    f->kernel_of[last] = UINT32_MAX;
    return true;
  }
  return false;
}

bool fault_fuse_twice(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    if (!are_neighbours(f, k) || !at(&site)) continue;
    f->kernels[k].n++;
    return true;
  }
  return false;
}

bool fault_fuse_swapped(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k + 1 < f->n_kernels; k++) {
    if (!at(&site)) continue;
    Kernel keep = f->kernels[k];
    f->kernels[k] = f->kernels[k + 1];
    f->kernels[k + 1] = keep;
    return true;
  }
  return false;
}

static bool shares_version(const Fn *f, uint32_t k) {
  for (uint32_t i = f->kernels[k + 1].first; i < end_of(&f->kernels[k + 1]); i++)
    for (uint32_t j = 0; j < n_operands(f, i); j++)
      if (f->kernel_of[arg(f, i, j)] == k) return true;
  return false;
}

bool fault_fuse_updates_chained(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    bool updates = are_neighbours(f, k) && f->kernels[k].cls == CLASS_OPTIM && f->kernels[k + 1].cls == CLASS_OPTIM;
    if (!updates || !shares_version(f, k) || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

// The product in kernel k reads what the update in kernel k + 1 overwrites.
static bool reads_updated(const Fn *f, uint32_t k) {
  uint32_t product = ir_lead(f, &f->kernels[k]).i, update = f->kernels[k + 1].first;
  for (uint32_t j = 0; j < 2; j++)
    if (ir_root(f, (Val){arg(f, product, j)}).i == ir_root(f, (Val){arg(f, update, 0)}).i) return true;
  return false;
}

bool fault_led_update_read(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    bool pair = are_neighbours(f, k) && f->kernels[k].cls == CLASS_GEMM && f->kernels[k + 1].cls == CLASS_OPTIM;
    if (!pair || !reads_updated(f, k) || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

bool fault_prologue_split(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    Kernel *a = &f->kernels[k];
    uint32_t lead = ir_lead(f, a).i;
    if (a->cls != CLASS_GEMM || lead == a->first || !at(&site)) continue;
    Kernel *list = rt_alloc(f->prog->mem, (f->n_kernels + 1) * sizeof *list);
    memcpy(list, f->kernels, (k + 1) * sizeof *list);
    memcpy(list + k + 1, f->kernels + k, (f->n_kernels - k) * sizeof *list);
    list[k + 1].n = end_of(a) - lead, list[k + 1].first = lead, list[k].n = lead - a->first;
    for (uint32_t i = lead; i < f->n_ins; i++) f->kernel_of[i] += f->kernel_of[i] != UINT32_MAX;
    f->kernels = list;
    f->n_kernels++;
    return true;
  }
  return false;
}

// ---- order
// Instruction i, whose operands are made before instruction `to`, moves before it.
static bool move_before(Fn *f, uint32_t i, uint32_t to) {
  Edit e;
  for (uint32_t k = 0; k < n_operands(f, i); k++)
    if (arg(f, i, k) >= to) return false;
  ir_edit_begin(&e, f);
  for (uint32_t j = 1; j < e.n_old; j++) {
    if (j == to) ir_edit_copy(&e, (Val){i});
    if (j != i && e.old[j].op != OP_result) ir_edit_copy(&e, (Val){j});
  }
  ir_edit_end(&e);
  return true;
}

static bool reads_old(const Fn *f, uint32_t reader, uint32_t write) {
  for (uint32_t k = 0; k < n_operands(f, reader); k++)
    if (class_at(f, reader) != CLASS_VIEW && arg(f, reader, k) == arg(f, write, 0)) return true;
  return false;
}

bool fault_schedule_write_early(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t r = 1; op_at(f, i) != OP_result && writes(f, i) && r < i; r++) {
      bool fits = reads_old(f, r, i);
      for (uint32_t k = 0; k < n_operands(f, i); k++) fits &= arg(f, i, k) < r;
      if (fits && at(&site)) return move_before(f, i, r);
    }
  return false;
}

static bool names_rows_of(const Fn *f, uint32_t i, uint32_t layout) {
  Dim rows = ir_dim_at(f->prog, f->ins[layout].shape, 2);
  for (uint32_t k = 0; k < ir_rank(f->prog, f->ins[i].shape); k++)
    if (ir_dim_at(f->prog, f->ins[i].shape, k).i == rows.i) return ir_dim_info(f->prog, rows)->kind == DIM_SYM;
  return false;
}

static bool input_names_rows_of(const Fn *f, uint32_t layout) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (op_at(f, i) == OP_input && names_rows_of(f, i, layout)) return true;
  return false;
}

bool fault_schedule_size_early(Fn *f, uint32_t site) {
  for (uint32_t l = 1; l < f->n_ins; l++)
    for (uint32_t i = l + 1; op_at(f, l) == OP_packed_layout && i < f->n_ins; i++) {
      bool fits = class_at(f, i) == CLASS_POINT && names_rows_of(f, i, l) && !input_names_rows_of(f, l);
      for (uint32_t k = 0; k < n_operands(f, i); k++) fits &= arg(f, i, k) < l;
      if (fits && at(&site)) return move_before(f, i, l);
    }
  return false;
}

// What the copy c is there for: somebody reads it behind a write to the original, the write itself reads it, or it is
// written in the place of what is not the function's own.
typedef enum { COPY_NONE, COPY_READ, COPY_OVERLAP, COPY_OF_PARAM, COPY_OF_INPUT } CopyKind;
static CopyKind written_copy_kind(const Fn *f, uint32_t root, uint32_t write) {
  if (op_at(f, root) == OP_input) return COPY_OF_INPUT;
  bool read = op_at(f, root) != OP_param;  // by one behind the write, lives would say so
  for (uint32_t i = write + 1; i < f->n_ins; i++)
    for (uint32_t k = 0; k < n_operands(f, i); k++) read |= ir_root(f, (Val){arg(f, i, k)}).i == root;
  return read ? COPY_NONE : COPY_OF_PARAM;
}

static CopyKind copy_kind(const Fn *f, uint32_t c) {
  uint32_t root = ir_root(f, (Val){arg(f, c, 0)}).i;
  bool wrote = false;
  for (uint32_t i = c + 1; i < f->n_ins; i++) {
    bool is_write = op_at(f, i) != OP_result && writes(f, i), reads = false;
    if (is_write && arg(f, i, 0) == c) return written_copy_kind(f, root, i);
    for (uint32_t k = 0; k < n_operands(f, i); k++) reads |= arg(f, i, k) == c;
    bool here = is_write && ir_root(f, (Val){arg(f, i, 0)}).i == root;
    if (reads && (here || wrote)) return here ? COPY_OVERLAP : class_at(f, i) == CLASS_VIEW ? COPY_NONE : COPY_READ;
    wrote |= here;
  }
  return COPY_NONE;
}

static bool lose_copy(Fn *f, uint32_t site, CopyKind kind) {
  for (uint32_t c = 1; c < f->n_ins; c++) {
    if (!ir_attr(f, (Val){c}, KEY_reader) || copy_kind(f, c) != kind || !at(&site)) continue;
    for (uint32_t i = c + 1; i < f->n_ins; i++)
      for (uint32_t k = 0; k < n_operands(f, i); k++)
        if (arg(f, i, k) == c) f->args[f->ins[i].args + k] = (Val){arg(f, c, 0)};
    return true;
  }
  return false;
}

bool fault_copies_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_READ); }
bool fault_copies_overlap_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_OVERLAP); }
bool fault_copies_param_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_OF_PARAM); }
bool fault_copies_input_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_OF_INPUT); }

bool fault_versions_leaf_written(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t x = 1; op_at(f, i) != OP_result && writes(f, i) && x < i; x++) {
      uint32_t old = arg(f, i, 0);
      bool same =
          op_at(f, x) == OP_input && f->ins[x].shape.i == f->ins[old].shape.i && f->ins[x].dtype == f->ins[old].dtype;
      if (!same || !at(&site)) continue;
      f->args[f->ins[i].args] = (Val){x};
      return true;
    }
  return false;
}
