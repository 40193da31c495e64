// The page's tables: what is live at the peak, the ledger of values by scope, the kernels.
#include "ir/intern.h"
#include "tools/tool.h"

#include <string.h>

enum { OPEN_ROWS = 60 };  // larger scopes of the ledger start folded

static void put(RtText *out, const char *s) { rt_text_put(out, s, strlen(s)); }

static void cell(RtText *out, const char *label, const char *text) {
  rt_text_add(out, "<td data-l=\"%s\">", label);
  tool_html(out, text);
  put(out, "</td>");
}

static void number_cell(RtText *out, const char *label, const char *text) {
  rt_text_add(out, "<td class=\"n\" data-l=\"%s\">", label);
  tool_html(out, text);
  put(out, "</td>");
}

// What fits, and every byte of it where the pointer rests.
static void bytes_cell(RtText *out, const char *label, int64_t n) {
  rt_text_add(out, "<td class=\"n\" data-l=\"%s\" title=\"%s\">%s</td>", label, tool_exact_bytes(out->mem, n),
              tool_bytes(out->mem, n));
}

static void head(RtText *out, const char *const *names) {
  put(out, "<div class=\"tablewrap\"><table><thead><tr>");
  for (; *names; names++)
    rt_text_add(out, "<th%s>%s</th>", **names == '#' ? " class=\"n\"" : "", *names + (**names == '#'));
  put(out, "</tr></thead><tbody>\n");
}

static void begin_row(RtText *out, uint32_t buf) {
  if (buf) rt_text_add(out, "<tr data-b=\"%u\" tabindex=\"0\">", buf);
  else put(out, "<tr>");
}

// ---- peak
static const char *share(const ToolFn *f, RtArena *mem, int64_t bytes) {
  return rt_printf(mem, "%.2f %%", 100.0 * (double)bytes / (double)f->f->stats.peak_bytes);
}

static void put_peak_row(const ToolFn *f, const PeakRow *row, RtText *out) {
  const Buf *b = &f->f->bufs[row->buf];
  RtArena *mem = out->mem;
  begin_row(out, row->buf);
  cell(out, "value", tool_buf_name(f, mem, row->buf));
  cell(out, "kind", tool_buf_kind[tool_kind(f, row->buf)]);
  cell(out, "made by", tool_op_name(f, b->head));
  cell(out, "source", tool_loc(f->f->prog, mem, f->f->ins[b->head.i].loc));
  if (row->same_slot)
    number_cell(out, "bytes", rt_printf(mem, "in the slot of %s", tool_buf_name(f, mem, row->same_slot)));
  else bytes_cell(out, "bytes", row->bytes);
  number_cell(out, "share", share(f, mem, row->bytes));
  number_cell(out, "kernels", rt_printf(mem, "[%d,%d]", b->first, b->last));
  put(out, "</tr>\n");
}

static void put_sum_row(const ToolFn *f, const char *what, int64_t bytes, bool total, RtText *out) {
  rt_text_add(out, "<tr class=\"%s\"><td colspan=\"4\">%s</td>", total ? "sum total" : "sum", what);
  bytes_cell(out, "bytes", bytes);
  number_cell(out, "share", share(f, out->mem, bytes));
  put(out, "<td></td></tr>\n");
}

static void put_peak(const ToolFn *f, const Peak *peak, RtText *out) {
  static const char *const names[] = {"value", "kind", "made by", "source", "#bytes", "#share", "#kernels", NULL};
  if (!f->f->stats.peak_bytes) return;
  rt_text_add(out,
              "<div class=\"card\"><div class=\"cardhead\"><h3>Live at the peak</h3><p class=\"muted\">kernel %u: ",
              peak->kernel);
  tool_html(out, tool_kernel_ops(f, out->mem, peak->kernel));
  put(out, "</p></div>\n");
  head(out, names);
  for (uint32_t k = 0; k < peak->n_rows; k++) put_peak_row(f, &peak->rows[k], out);
  put_sum_row(f, rt_printf(out->mem, "alignment padding (to %d)", TN_ALIGN), peak->padding, false, out);
  put_sum_row(f, "unused by the placement here", peak->holes, false, out);
  put_sum_row(f, "arena", f->f->stats.peak_bytes, true, out);
  put(out, "</tbody></table></div></div>\n");
}

static void put_modules(const ToolFn *f, const Peak *peak, RtText *out) {
  static const char *const names[] = {"module", "#bytes", "#share", NULL};
  Parts by[N_PART_BYS];
  tool_find_parts(f, out->mem, peak, by);
  const Parts *modules = &by[BY_MODULE];
  if (!f->f->stats.peak_bytes || !tool_names_modules(modules)) return;
  put(out, "<div class=\"card modules\"><div class=\"cardhead\"><h3>Live at the peak, by module</h3></div>\n");
  head(out, names);
  for (uint32_t k = 0; k < modules->n; k++) {
    begin_row(out, 0);
    cell(out, "module", modules->list[k].label);
    bytes_cell(out, "bytes", modules->list[k].bytes);
    number_cell(out, "share", share(f, out->mem, modules->list[k].bytes));
    put(out, "</tr>\n");
  }
  put(out, "</tbody></table></div></div>\n");
}

// ---- ledger
static const char *ends_text(const ToolFn *f, RtArena *mem, const FileVal *v) {
  const Prog *p = f->f->prog;
  if (v->disposed.i) return rt_printf(mem, "%s, disposed", tool_loc(p, mem, v->disposed));
  if (v->owner == NO_SCOPE) return "detached";
  const char *end = tool_loc(p, mem, tool_scope_end(f, v->owner));
  if (v->owner == v->scope) return end;
  return rt_printf(mem, "%s, moved to %s", end, v->owner ? ir_text(p, f->f->scopes[v->owner].name) : "the function");
}

static const char *physical_text(const ToolFn *f, RtArena *mem, uint32_t now, const char *gone) {
  const Fn *g = f->f;
  if (!now) return rt_printf(mem, "removed by %s", gone ? gone : "a pass");
  uint32_t buf = g->buf_of[now];
  if (!buf && g->kernel_of[now] != UINT32_MAX) {
    bool is_read = f->reader_at[now] < f->reader_at[now + 1];
    return rt_printf(mem, "%s, kernel %u", is_read ? "register" : "never stored", g->kernel_of[now]);
  }
  if (!buf) return "a number in the code";
  const Buf *b = &g->bufs[buf];
  return b->last < 0 ? "no kernel" : rt_printf(mem, "[%d,%d]", b->first, b->last);
}

static const char *storage_text(const ToolFn *f, RtArena *mem, uint32_t now) {
  uint32_t buf = now ? f->f->buf_of[now] : 0;
  if (!buf) return "";
  const Buf *b = &f->f->bufs[buf];
  const char *shares = b->head.i == now ? "" : rt_printf(mem, " on %s", f->name[b->head.i]);
  return rt_printf(mem, "%s+%lld%s", tool_seg_name[b->seg], (long long)b->offset, shares);
}

static void put_value_row(const ToolFn *f, const char *name, uint32_t now, const char *op, const char *made,
                          const char *ends, const char *gone, RtText *out) {
  uint32_t buf = now ? f->f->buf_of[now] : 0;
  begin_row(out, buf);
  cell(out, "value", name);
  cell(out, "in the plan", now ? f->name[now] : "");
  cell(out, "made by", op);
  cell(out, "made", made);
  cell(out, "ends", ends);
  number_cell(out, "kernels", physical_text(f, out->mem, now, gone));
  cell(out, "storage", storage_text(f, out->mem, now));
  if (buf) bytes_cell(out, "bytes", f->f->bufs[buf].bytes);
  else number_cell(out, "bytes", "");
  put(out, "</tr>\n");
}

typedef struct {
  uint32_t made, moved_out, moved_in, disposed;
} Counts;

static Counts count_scope(const ToolFn *f, uint32_t scope) {
  Counts c = {0};
  for (uint32_t i = 1; i < f->n_file; i++) {
    const FileVal *v = &f->file[i];
    if (!v->name) continue;
    c.made += v->scope == scope;
    c.moved_out += v->scope == scope && v->owner != scope;
    c.moved_in += v->scope != scope && v->owner == scope;
    c.disposed += v->owner == scope && v->disposed.i;
  }
  return c;
}

static void begin_group(RtText *out, const char *title, const char *lines, const char *counts, bool open) {
  static const char *const names[] = {"value",    "in the plan", "made by", "made", "ends",
                                      "#kernels", "storage",     "#bytes",  NULL};
  rt_text_add(out, "<details%s><summary><b>", open ? " open" : "");
  tool_html(out, title);
  put(out, "</b> <span>");
  tool_html(out, lines);
  rt_text_add(out, "</span> <span>%s</span></summary>\n", counts);
  head(out, names);
}

static void put_scope(const ToolFn *f, uint32_t scope, RtText *out) {
  RtArena *mem = out->mem;
  const Prog *p = f->f->prog;
  Counts c = count_scope(f, scope);
  if (!c.made && !c.moved_in && scope == NO_SCOPE) return;
  const char *lines = scope == NO_SCOPE ? ""
                                        : rt_printf(mem, "%s to %s", tool_loc(p, mem, f->f->scopes[scope].open),
                                                    tool_loc(p, mem, tool_scope_end(f, scope)));
  const char *counts = rt_printf(mem, "%u made, %u moved out, %u moved in, %u disposed, %u at its end", c.made,
                                 c.moved_out, c.moved_in, c.disposed, c.made + c.moved_in - c.moved_out - c.disposed);
  begin_group(out,
              scope == 0          ? "the function"
              : scope == NO_SCOPE ? "detached"
                                  : tool_scope(f, mem, scope),
              lines, counts, c.made <= OPEN_ROWS);
  for (uint32_t i = 1; i < f->n_file; i++) {
    const FileVal *v = &f->file[i];
    if (!v->name || v->scope != scope) continue;
    put_value_row(f, v->name, v->now, v->made_by, tool_loc(p, mem, v->loc), ends_text(f, mem, v), v->gone_in, out);
  }
  put(out, "</tbody></table></div></details>\n");
}

static void put_made_by_passes(const ToolFn *f, RtText *out) {
  RtArena *mem = out->mem;
  uint32_t n = 0;
  for (uint32_t i = 1; i < f->f->n_ins; i++) n += !f->from[i];
  if (!n) return;
  begin_group(out, "made by the compiler", "backward and constants", rt_printf(mem, "%u values", n), n <= OPEN_ROWS);
  for (uint32_t i = 1; i < f->f->n_ins; i++) {
    if (f->from[i]) continue;
    const char *at = tool_loc(f->f->prog, mem, f->f->ins[i].loc);
    const char *made = f->is_backward[i] ? rt_printf(mem, "backward of %s", at) : at;
    put_value_row(f, "", i, tool_op_name(f, (Val){i}), made, "", NULL, out);
  }
  put(out, "</tbody></table></div></details>\n");
}

static void put_ledger(const ToolFn *f, RtText *out) {
  put(out, "<div class=\"card ledger\"><div class=\"cardhead\"><h3>Ledger</h3><p class=\"muted\">logical life: from "
           "the line that made a "
           "value to the line that ends it; physical life: kernels [first,last]</p></div>\n");
  for (uint32_t k = 0; k < f->f->n_scopes; k++) put_scope(f, k, out);
  put_scope(f, NO_SCOPE, out);
  put_made_by_passes(f, out);
  put(out, "</div>\n");
}

// ---- kernels
static void put_kernels(const ToolFn *f, RtText *out) {
  static const char *const names[] = {"#kernel", "class", "operations", "source", "#reads", "#writes", "#live", NULL};
  const Fn *g = f->f;
  RtArena *mem = out->mem;
  if (!g->n_kernels) return;
  Peak peak = tool_peak(f, mem);
  rt_text_add(out,
              "<div class=\"card\"><div class=\"cardhead\"><h3>Kernels</h3><p class=\"muted\">%u, in order</p></div>\n",
              g->n_kernels);
  head(out, names);
  for (uint32_t k = 0; k < g->n_kernels; k++) {
    Traffic t = tool_traffic(f, mem, k);
    rt_text_add(out, "<tr data-k=\"%u\"%s>", k, k == peak.kernel && g->stats.peak_bytes ? " class=\"atpeak\"" : "");
    number_cell(out, "kernel", rt_printf(mem, "%u", k));
    cell(out, "class", ir_class_name(g->kernels[k].cls));
    cell(out, "operations", tool_kernel_ops(f, mem, k));
    cell(out, "source", tool_kernel_lines(f, mem, k));
    bytes_cell(out, "reads", t.read);
    bytes_cell(out, "writes", t.written);
    bytes_cell(out, "live", peak.live[k]);
    put(out, "</tr>\n");
  }
  put(out, "</tbody></table></div></div>\n");
}

void tool_tables(const ToolFn *f, uint32_t index, const Peak *peak, RtText *out) {
  rt_text_add(out, "<div class=\"tables\" id=\"tables%u\">\n", index);
  put_peak(f, peak, out);
  put_modules(f, peak, out);
  put_ledger(f, out);
  put_kernels(f, out);
  put(out, "</div>\n");
}
