// What is live at the peak in parts: by kind, by module and by source line. Each sum and the padding are the whole arena.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/text/text.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

const char *const tool_part_by[N_PART_BYS] = {"kind", "module", "line"};

static const char *line_text(const Prog *p, RtArena *mem, Loc at) {
  const char *file = ir_loc_file(p, at);
  return file ? rt_printf(mem, "%s:%u", file, ir_loc_line(p, at)) : "an unknown line";
}

const char *tool_part_label(const ToolFn *f, RtArena *mem, PartBy by, uint32_t buf) {
  const Fn *g = f->f;
  Loc at = g->ins[g->bufs[buf].head.i].loc;
  if (by == BY_LINE) return line_text(g->prog, mem, at);
  if (by == BY_MODULE) return *ir_loc_module(g->prog, at) ? ir_loc_module(g->prog, at) : TOOL_NO_MODULE;
  BufKind kind = tool_kind(f, buf);
  if (kind != BUF_SAVED) return tool_buf_kind[kind];
  return rt_printf(mem, "saved for the backward of %s", line_text(g->prog, mem, g->ins[tool_saved_for(f, buf).i].loc));
}

static int by_bytes(const void *a, const void *b) {
  const Part *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return strcmp(x->label, y->label);
}

// ---- what would live if the values of one part did not
typedef struct {
  const ToolFn *f;
  const Peak *peak;
  const uint32_t *part_of;  // by buffer: 1 + its part; 0: it does not live at the peak
  const uint32_t *taker;    // by buffer: which one takes its slot over; 0: none
  int64_t *delta;           // by kernel: what falls away, as differences
} Without;

// Of two buffers of one slot the newer has it in the kernel that makes it, and the older one is there before it.
static void take_away(const Without *w, uint32_t b) {
  const Buf *buf = &w->f->f->bufs[b];
  int64_t bytes = ir_aligned(buf->bytes);
  uint32_t taker = w->taker[b];
  int32_t from = buf->first + (buf->reuses != 0);
  int32_t end = buf->last + (!taker || w->part_of[taker] == w->part_of[b]);
  if (end > (int32_t)w->f->f->n_kernels) end = (int32_t)w->f->f->n_kernels;
  if (from >= end) return;
  w->delta[from] += bytes, w->delta[end] -= bytes;
}

static int64_t most_without(const Without *w, uint32_t part) {
  const Fn *f = w->f->f;
  int64_t gone = 0, most = 0;
  memset(w->delta, 0, (f->n_kernels + 2) * sizeof *w->delta);
  for (uint32_t k = 0; k < w->peak->n_rows; k++)
    if (w->part_of[w->peak->rows[k].buf] == part + 1) take_away(w, w->peak->rows[k].buf);
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    gone += w->delta[k];
    if (w->peak->live[k] - gone > most) most = w->peak->live[k] - gone;
  }
  return most;
}

static void find_savings(const ToolFn *f, RtArena *mem, const Peak *peak, Parts *parts, const char *const *label) {
  const Fn *g = f->f;
  uint32_t *part_of = rt_alloc(mem, (g->n_bufs + 1) * sizeof *part_of);
  uint32_t *taker = rt_alloc(mem, (g->n_bufs + 1) * sizeof *taker);
  for (uint32_t k = 0; k < peak->n_rows; k++) {
    uint32_t at = 0;
    while (strcmp(parts->list[at].label, label[k])) at++;
    part_of[peak->rows[k].buf] = at + 1;
  }
  for (uint32_t b = 1; b < g->n_bufs; b++)
    if (g->bufs[b].reuses) taker[g->bufs[b].reuses] = b;
  Without w = {f, peak, part_of, taker, rt_alloc(mem, (g->n_kernels + 2) * sizeof *w.delta)};
  for (uint32_t k = 0; k < parts->n; k++) parts->list[k].at_most = peak->live[peak->kernel] - most_without(&w, k);
}

static Parts find_parts(const ToolFn *f, RtArena *mem, const Peak *peak, PartBy by) {
  Parts parts = {.list = rt_alloc(mem, (peak->n_rows + 1) * sizeof *parts.list)};
  const char **label = rt_alloc(mem, (peak->n_rows + 1) * sizeof *label);
  for (uint32_t k = 0; k < peak->n_rows; k++) {
    uint32_t at = 0;
    label[k] = tool_part_label(f, mem, by, peak->rows[k].buf);
    while (at < parts.n && strcmp(parts.list[at].label, label[k])) at++;
    if (at == parts.n) parts.list[parts.n++].label = label[k];
    parts.list[at].bytes += peak->rows[k].bytes;
  }
  if (parts.n) qsort(parts.list, parts.n, sizeof *parts.list, by_bytes);
  find_savings(f, mem, peak, &parts, label);
  return parts;
}

void tool_find_parts(const ToolFn *f, RtArena *mem, const Peak *peak, Parts out[N_PART_BYS]) {
  for (int by = 0; by < N_PART_BYS; by++) out[by] = find_parts(f, mem, peak, (PartBy)by);
}

int64_t tool_part_bytes(const Parts *parts, const char *label) {
  for (uint32_t k = 0; k < parts->n; k++)
    if (!strcmp(parts->list[k].label, label)) return parts->list[k].bytes;
  return 0;
}
