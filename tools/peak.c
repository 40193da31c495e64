// What is live at the peak of a function's arena, largest first: for the terminal and as JSON.
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

// ---- by module
static int by_sum(const void *a, const void *b) {
  const ModuleSum *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return strcmp(x->module, y->module);
}

// Largest first
static ModuleSum *sum_modules(const ToolFn *f, RtArena *mem, const Peak *peak, uint32_t *n) {
  ModuleSum *sums = rt_alloc(mem, (peak->n_rows + 1) * sizeof *sums);
  *n = 0;
  for (uint32_t k = 0; k < peak->n_rows; k++) {
    const char *module = ir_loc_module(f->f->prog, f->f->ins[f->f->bufs[peak->rows[k].buf].head.i].loc);
    uint32_t at = 0;
    while (at < *n && strcmp(sums[at].module, module)) at++;
    if (at == *n) sums[(*n)++] = (ModuleSum){module, 0};
    sums[at].bytes += peak->rows[k].bytes;
  }
  if (*n) qsort(sums, *n, sizeof *sums, by_sum);
  return sums;
}

const char *tool_module_name(const ModuleSum *sum) { return *sum->module ? sum->module : "outside of modules"; }

const ModuleSum *tool_module_sums(const ToolFn *f, RtArena *mem, const Peak *peak, uint32_t *n) {
  const ModuleSum *sums = sum_modules(f, mem, peak, n);
  bool names_any = *n > 1 || (*n && *sums[0].module);
  if (!f->f->stats.peak_bytes || !names_any) *n = 0;
  return sums;
}

void tool_put_modules(const ToolFn *f, uint32_t most, RtText *out) {
  Peak peak = tool_peak(f, out->mem);
  uint32_t n;
  const ModuleSum *sums = tool_module_sums(f, out->mem, &peak, &n);
  if (!n) return;
  rt_text_add(out, "  by module:\n");
  for (uint32_t k = 0; k < n && k < most; k++)
    rt_text_add(out, "  %12s  %s\n", tool_bytes(out->mem, sums[k].bytes), tool_module_name(&sums[k]));
  if (n > most) rt_text_add(out, "  and %u more\n", n - most);
}

static void json_modules(const ToolFn *f, const Peak *peak, RtText *out) {
  uint32_t n;
  const ModuleSum *sums = sum_modules(f, out->mem, peak, &n);
  json_open(out, "modules", '[');
  for (uint32_t k = 0; k < n; k++) {
    json_open(out, NULL, '{');
    json_text(out, "module", sums[k].module);
    json_int(out, "bytes", sums[k].bytes);
    json_close(out, '}');
  }
  json_close(out, ']');
}

void tool_json_peak(const ToolFn *f, uint32_t most, RtText *out) {
  RtArena *mem = out->mem;
  Peak peak = tool_peak(f, mem);
  json_open(out, "peak", '{');
  json_int(out, "bytes", f->f->stats.peak_bytes);
  json_int(out, "kernel", peak.kernel);
  json_open(out, "values", '[');
  for (uint32_t k = 0; k < peak.n_rows && k < most && peak.rows[k].bytes; k++) {
    const PeakRow *row = &peak.rows[k];
    json_open(out, NULL, '{');
    json_text(out, "name", tool_buf_name(f, mem, row->buf));
    json_int(out, "bytes", row->bytes);
    json_text(out, "kind", tool_buf_kind[tool_kind(f, row->buf)]);
    json_text(out, "op", tool_op_name(f, f->f->bufs[row->buf].head));
    json_text(out, "source", source_of(f, mem, row->buf));
    json_close(out, '}');
  }
  json_close(out, ']');
  json_modules(f, &peak, out);
  json_int(out, "padding_and_holes", peak.padding + peak.holes);
  json_close(out, '}');
}
