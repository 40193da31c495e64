// Faults of pass plan_memory, of the bodies of scans, and of the segments that all functions share: edits of offsets.
#include "ir/intern.h"
#include "ir/scan.h"
#include "tests/faults.h"

// ---- offsets
static uint32_t root_of(const Fn *f, uint32_t b) {
  while (f->bufs[b].reuses) b = f->bufs[b].reuses;
  return b;
}

bool fault_plan_memory_overlap(Fn *f, uint32_t site) {
  for (uint32_t a = 1; a < f->n_bufs; a++)
    for (uint32_t b = 1; in_arena(f, a) && b < f->n_bufs; b++) {
      bool both = in_arena(f, b) && f->bufs[a].first <= f->bufs[b].last && f->bufs[b].first <= f->bufs[a].last;
      if (!both || root_of(f, a) == root_of(f, b) || f->bufs[b].reuses || is_reused(f, b) || !at(&site)) continue;
      f->bufs[b].offset = f->bufs[a].offset;
      if (f->bufs[b].offset + f->bufs[b].bytes > f->stats.peak_bytes)
        f->stats.peak_bytes = f->bufs[b].offset + f->bufs[b].bytes;
      return true;
    }
  return false;
}

bool fault_plan_memory_guards_narrow(Fn *f, uint32_t site) {
  for (uint32_t a = 1; f->prog->guarded_arena && a < f->n_bufs; a++)
    for (uint32_t b = 1; in_arena(f, a) && b < f->n_bufs; b++) {
      int64_t end = f->bufs[a].offset + (f->bufs[a].bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
      bool both = in_arena(f, b) && f->bufs[a].first <= f->bufs[b].last && f->bufs[b].first <= f->bufs[a].last;
      if (!both || f->bufs[b].reuses || is_reused(f, b) || f->bufs[b].offset < end || !at(&site)) continue;
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

bool fault_plan_memory_unaligned(Fn *f, uint32_t site) { return move_place(f, site, 4, true); }
bool fault_plan_memory_below(Fn *f, uint32_t site) { return move_place(f, site, -TN_ALIGN, false); }
bool fault_plan_memory_above(Fn *f, uint32_t site) {
  return move_place(f, site, (f->stats.peak_bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN, false);
}

bool fault_plan_memory_peak_small(Fn *f, uint32_t site) {
  if (site || f->stats.peak_bytes == 0) return false;
  f->stats.peak_bytes -= TN_ALIGN;
  return true;
}

bool fault_plan_memory_reused_apart(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!f->bufs[b].reuses || !in_arena(f, b) || !at(&site)) continue;
    f->bufs[b].offset = f->stats.peak_bytes;
    f->stats.peak_bytes += (f->bufs[b].bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
    return true;
  }
  return false;
}

bool fault_liveness_reused_silently(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!f->bufs[b].reuses || !in_arena(f, b) || !at(&site)) continue;
    f->bufs[b].reuses = 0;
    return true;
  }
  return false;
}

bool fault_plan_memory_scratch_shared(Fn *f, uint32_t site) {
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
bool fault_plan_scans_carry_slot(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) != OP_scan) continue;
    Scan s = ir_scan_at(f, (Val){i});
    if (!s.n_carries || !ir_scan_carry_bytes(&s, 0) || !at(&site)) continue;
    f->bufs[f->kernels[f->kernel_of[i]].scratch].bytes -= ir_scan_carry_bytes(&s, 0);
    return true;
  }
  return false;
}

bool fault_plan_scans_outside(Fn *f, uint32_t site) {
  for (uint32_t b = 1; f->is_body && b < f->n_bufs; b++) {
    if (!in_arena(f, b) || f->bufs[b].reuses || is_reused(f, b) || !at(&site)) continue;
    f->bufs[b].seg = SEG_PARAM;
    return true;
  }
  return false;
}

// ---- segments of the program
bool fault_plan_memory_params_overlap(Fn *f, uint32_t site) {
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

bool fault_plan_memory_params_small(Fn *f, uint32_t site) {
  if (site || f->prog->param_bytes == 0) return false;
  f->prog->param_bytes -= TN_ALIGN;
  return true;
}

bool fault_plan_memory_param_stale(Fn *f, uint32_t site) {
  uint32_t b = next_in(f, SEG_PARAM, 0);
  if (site || !b) return false;
  f->bufs[b].offset += TN_ALIGN;
  return true;
}

bool fault_plan_memory_consts_overlap(Fn *f, uint32_t site) {
  uint32_t a = next_in(f, SEG_CONST, 0), b = a ? next_in(f, SEG_CONST, a) : 0;
  while (b && f->bufs[b].offset == f->bufs[a].offset) b = next_in(f, SEG_CONST, b);  // equal tables
  if (site || !b) return false;
  if (f->bufs[a].offset < f->bufs[b].offset) f->bufs[b].offset = f->bufs[a].offset;
  else f->bufs[a].offset = f->bufs[b].offset;
  return true;
}

bool fault_plan_memory_consts_small(Fn *f, uint32_t site) {
  if (site || f->prog->const_bytes == 0) return false;
  f->prog->const_bytes -= TN_ALIGN;
  return true;
}
