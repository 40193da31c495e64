// What is live at the peak of a function's arena, largest first, in sums, and what lowers it: for the terminal and as JSON.
#include "ir/intern.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

static const char *source_of(const ToolFn *f, RtArena *mem, uint32_t buf) {
  Val head = f->f->bufs[buf].head;
  const char *at = tool_loc(f->f->prog, mem, f->f->ins[head.i].loc);
  return f->is_backward[head.i] ? rt_printf(mem, "backward of %s", at) : at;
}

void tool_put_peak(const ToolFn *f, uint32_t most, RtText *out) {
  RtArena *mem = out->mem;
  Peak peak = tool_peak(f, mem);
  if (!f->f->stats.peak_bytes) return;
  rt_text_add(out, "@%s: %s at kernel %u of %u: %s at %s\n", tool_fn_name(f), tool_bytes(mem, f->f->stats.peak_bytes),
              peak.kernel, f->f->n_kernels, tool_kernel_ops(f, mem, peak.kernel),
              tool_kernel_lines(f, mem, peak.kernel));
  for (uint32_t k = 0; k < peak.n_rows && k < most; k++) {
    const PeakRow *row = &peak.rows[k];
    if (!row->bytes) break;
    rt_text_add(out, "  %12s  %-16s %-18s %s %s\n", tool_bytes(mem, row->bytes), tool_buf_name(f, mem, row->buf),
                tool_buf_kind[tool_kind(f, row->buf)], tool_op_name(f, f->f->bufs[row->buf].head),
                source_of(f, mem, row->buf));
  }
  if (peak.n_rows > most) rt_text_add(out, "  and %u more\n", peak.n_rows - most);
  if (peak.padding + peak.holes)
    rt_text_add(out, "  %12s  padding, and unused by the placement here\n", tool_bytes(mem, peak.padding + peak.holes));
}

// ---- sums
enum { MOST_PADDED = 56 };  // columns of a label; longer ones run over

bool tool_names_modules(const Parts *modules) {
  return modules->n > 1 || (modules->n && strcmp(modules->list[0].label, TOOL_NO_MODULE) != 0);
}

void tool_put_modules(const ToolFn *f, uint32_t most, RtText *out) {
  Peak peak = tool_peak(f, out->mem);
  Parts by[N_PART_BYS];
  tool_find_parts(f, out->mem, &peak, by);
  const Parts *modules = &by[BY_MODULE];
  if (!f->f->stats.peak_bytes || !tool_names_modules(modules)) return;
  rt_text_add(out, "  by module:\n");
  for (uint32_t k = 0; k < modules->n && k < most; k++)
    rt_text_add(out, "  %12s  %s\n", tool_bytes(out->mem, modules->list[k].bytes), modules->list[k].label);
  if (modules->n > most) rt_text_add(out, "  and %u more\n", modules->n - most);
}

static int64_t saved_by(const PeakWay *way, uint32_t fn, PartBy by, const Part *part) {
  return part->bytes - tool_part_bytes(&way->parts[fn][by], part->label);
}

// The first way that lowers the arena and, by more than a trifle, the part; NULL: none does.
static const PeakWay *way_of(const ToolFn *f, uint32_t fn, const PeakWays *ways, PartBy by, const Part *part) {
  enum { TRIFLE = 16 };
  for (uint32_t k = 0; k < ways->n; k++) {
    const PeakWay *way = &ways->list[k];
    int64_t saves = saved_by(way, fn, by, part);
    if (way->arena[fn] < f->f->stats.peak_bytes && saves > 0 && saves >= part->bytes / TRIFLE) return way;
  }
  return NULL;
}

static const char *less_text(RtArena *mem, int64_t bytes) {
  return rt_printf(mem, "%s%s", bytes ? "-" : "", tool_bytes(mem, bytes));
}

// 384 B  enc.sum    -384 B  8 shards: -320 B
static void put_list(const ToolFn *f, uint32_t fn, PartBy by, const Parts *parts, const PeakWays *ways, RtText *out) {
  RtArena *mem = out->mem;
  size_t width = 0;
  for (uint32_t k = 0; k < parts->n; k++) {
    size_t n = strlen(parts->list[k].label);
    if (n > width && n <= MOST_PADDED) width = n;
  }
  const char *title = rt_printf(mem, "  by %s:", tool_part_by[by]);
  rt_text_add(out, "%-*s  without it%s\n", (int)width + 16, title, ways->n ? "  lowered by" : "");
  for (uint32_t k = 0; k < parts->n && parts->list[k].bytes; k++) {
    const Part *part = &parts->list[k];
    const PeakWay *way = way_of(f, fn, ways, by, part);
    rt_text_add(out, "  %12s  %-*s  %10s", tool_bytes(mem, part->bytes), (int)width, part->label,
                less_text(mem, part->at_most));
    if (way) rt_text_add(out, "  %s: %s", way->name, less_text(mem, saved_by(way, fn, by, part)));
    rt_text_add(out, "\n");
  }
}

static void put_ways(const ToolFn *f, uint32_t fn, const PeakWays *ways, RtText *out) {
  RtArena *mem = out->mem;
  uint32_t n = 0;
  for (uint32_t k = 0; k < ways->n; k++) {
    const PeakWay *way = &ways->list[k];
    int64_t saves = f->f->stats.peak_bytes - way->arena[fn];
    if (saves <= 0) continue;
    if (!n++) rt_text_add(out, "  the arena, planned with one thing changed:\n");
    rt_text_add(out, "  %12s  %10s  %s: %s\n", tool_bytes(mem, way->arena[fn]), less_text(mem, saves), way->name,
                way->write);
  }
  if (ways->why_none) rt_text_add(out, "  nothing is planned that lowers it: %s\n", ways->why_none);
  else if (!n) rt_text_add(out, "  neither recomputation, shards nor a lower bound of a dim lowers it\n");
}

// What a run needs besides
static void put_besides(const ToolPlan *t, const ToolFn *f, RtText *out) {
  RtArena *mem = out->mem;
  int64_t sum[N_SEGMENTS] = {0};
  for (uint32_t b = 1; b < f->f->n_bufs; b++) sum[f->f->bufs[b].seg] += f->f->bufs[b].bytes;
  rt_text_add(out,
              "  beside the arena: parameters and state %s, constants %s, packed weights %s, inputs %s, outputs %s\n",
              tool_bytes(mem, sum[SEG_PARAM]), tool_bytes(mem, t->p->const_bytes), tool_bytes(mem, t->p->packed_bytes),
              tool_bytes(mem, sum[SEG_IN]), tool_bytes(mem, sum[SEG_OUT]));
}

void tool_put_parts(const ToolPlan *t, uint32_t index, const PeakWays *ways, RtText *out) {
  const ToolFn *f = &t->fns[index];
  Peak peak = tool_peak(f, out->mem);
  Parts by[N_PART_BYS];
  if (!f->f->stats.peak_bytes) return;
  tool_find_parts(f, out->mem, &peak, by);
  for (int k = N_PART_BYS; k-- > 0;)
    if (k != BY_MODULE || tool_names_modules(&by[k])) put_list(f, index, (PartBy)k, &by[k], ways, out);
  put_ways(f, index, ways, out);
  put_besides(t, f, out);
}

// ---- as JSON
static void json_list(const ToolFn *f, uint32_t fn, PartBy by, const Parts *parts, const PeakWays *ways, RtText *out) {
  json_open(out, rt_printf(out->mem, "%ss", tool_part_by[by]), '[');
  for (uint32_t k = 0; k < parts->n; k++) {
    const Part *part = &parts->list[k];
    const PeakWay *way = ways ? way_of(f, fn, ways, by, part) : NULL;
    json_open(out, NULL, '{');
    json_text(out, tool_part_by[by], by == BY_MODULE && !strcmp(part->label, TOOL_NO_MODULE) ? "" : part->label);
    json_int(out, "bytes", part->bytes);
    json_int(out, "saves_at_most", part->at_most);
    if (way) json_text(out, "way", way->name), json_int(out, "saves", saved_by(way, fn, by, part));
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void json_ways(const ToolFn *f, uint32_t fn, const PeakWays *ways, RtText *out) {
  json_open(out, "ways", '[');
  for (uint32_t k = 0; k < ways->n; k++) {
    json_open(out, NULL, '{');
    json_text(out, "way", ways->list[k].name);
    json_text(out, "write", ways->list[k].write);
    json_int(out, "arena", ways->list[k].arena[fn]);
    json_int(out, "saves", f->f->stats.peak_bytes - ways->list[k].arena[fn]);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void json_values(const ToolFn *f, const Peak *peak, uint32_t most, RtText *out) {
  RtArena *mem = out->mem;
  json_open(out, "values", '[');
  for (uint32_t k = 0; k < peak->n_rows && k < most && peak->rows[k].bytes; k++) {
    const PeakRow *row = &peak->rows[k];
    json_open(out, NULL, '{');
    json_text(out, "name", tool_buf_name(f, mem, row->buf));
    json_int(out, "bytes", row->bytes);
    json_text(out, "kind", tool_buf_kind[tool_kind(f, row->buf)]);
    json_text(out, "op", tool_op_name(f, f->f->bufs[row->buf].head));
    json_text(out, "source", source_of(f, mem, row->buf));
    json_close(out, '}');
  }
  json_close(out, ']');
}

void tool_json_peak(const ToolFn *f, uint32_t most, uint32_t fn, const PeakWays *ways, RtText *out) {
  Peak peak = tool_peak(f, out->mem);
  Parts by[N_PART_BYS];
  tool_find_parts(f, out->mem, &peak, by);
  json_open(out, "peak", '{');
  json_int(out, "bytes", f->f->stats.peak_bytes);
  json_int(out, "kernel", peak.kernel);
  json_values(f, &peak, most, out);
  for (int k = 0; k < N_PART_BYS; k++) json_list(f, fn, (PartBy)k, &by[k], ways, out);
  json_int(out, "padding_and_holes", peak.padding + peak.holes);
  if (ways) json_ways(f, fn, ways, out);
  json_close(out, '}');
}
