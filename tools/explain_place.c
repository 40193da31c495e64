// tenure explain FILE.tir model.c:12, FILE.tir encoder.layer.0, FILE.tir --peak: the values of a source line, of a module and
// those below it, and what is live at the peak.
//
//   @step: 2 values of m.c:5
//     %a           f32[batch,4]       relu                 arena+0, 128 B, kernels [2,6]
//     %19          f32[batch,4]       select, backward     arena+128, 128 B, kernels [6,8]
//     128 B of them are live at the peak, kernel 8, of 576 B
#include "tools/explain_place.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/text/text.h"
#include "tools/json.h"

#include <ctype.h>
#include <string.h>

// ---- what a word names
// The line of `FILE:LINE`; 0: it is none
static uint32_t line_of(const char *word, size_t *n_file) {
  const char *colon = strrchr(word, ':');
  uint64_t line = 0;
  if (!colon || colon == word || !colon[1]) return 0;
  for (const char *s = colon + 1; *s; s++) {
    if (!isdigit((unsigned char)*s) || line > UINT32_MAX / 16) return 0;
    line = 10 * line + (uint64_t)(*s - '0');
  }
  *n_file = (size_t)(colon - word);
  return (uint32_t)line;
}

// The file itself, or the end of its path
static bool is_file(const char *path, const char *word, size_t n) {
  size_t n_path = path ? strlen(path) : 0;
  if (n_path < n || memcmp(path + n_path - n, word, n) != 0) return false;
  return n_path == n || path[n_path - n - 1] == '/';
}

static bool is_below(const char *module, const char *word) {
  size_t n = strlen(word);
  return !strncmp(module, word, n) && (!module[n] || module[n] == '.');
}

static bool is_at(const Prog *p, Loc at, const char *word) {
  size_t n_file = 0;
  uint32_t line = line_of(word, &n_file);
  if (!at.i) return false;
  if (line) return ir_loc_line(p, at) == line && is_file(ir_loc_file(p, at), word, n_file);
  return *ir_loc_module(p, at) && is_below(ir_loc_module(p, at), word);
}

bool tool_is_line(const char *word) {
  size_t n;
  return line_of(word, &n) != 0;
}

// ---- the values
static bool is_listed(const ToolFn *f, uint32_t i, const char *word) {
  const Ins *ins = &f->f->ins[i];
  Val h = ir_head(f->f, (Val){i});
  return f->name[i] && f->f->ins[h.i].op != OP_output &&
         is_at(f->f->prog, ins->op == OP_result ? f->f->ins[h.i].loc : ins->loc, word);
}

static const char *place_of(const ToolFn *f, RtArena *mem, uint32_t i) {
  const Fn *g = f->f;
  const Buf *b = &g->bufs[g->buf_of[i]];
  if (!g->buf_of[i] && g->kernel_of[i] != UINT32_MAX)
    return rt_printf(mem, "in a register of kernel %u", g->kernel_of[i]);
  if (!g->buf_of[i]) return "no memory";
  const char *at =
      rt_printf(mem, "%s+%lld, %s", tool_seg_name[b->seg], (long long)b->offset, tool_bytes(mem, b->bytes));
  return b->last < 0 ? at : rt_printf(mem, "%s, kernels [%d,%d]", at, b->first, b->last);
}

static void put_row(const ToolFn *f, uint32_t i, RtText *out) {
  RtText type = {.mem = out->mem};
  ir_print_type(f->f, (Val){i}, &type);
  const char *op = tool_op_name(f, (Val){i});
  rt_text_add(out, "  %-12s %-22s %-26s %s\n", f->name[i], type.text,
              f->is_backward[i] ? rt_printf(out->mem, "%s, backward", op) : op, place_of(f, out->mem, i));
}

// What the file has there and the plan no longer
static void put_gone(const ToolFn *f, const char *word, RtText *out) {
  for (uint32_t i = 1; i < f->n_file; i++) {
    const FileVal *v = &f->file[i];
    if (!v->name || v->now || v->op == OP_output || !is_at(f->f->prog, v->loc, word)) continue;
    rt_text_add(out, "  %-12s %-22s %-26s removed by pass %s\n", v->name, "",
                v->made_by ? v->made_by : ir_ops[v->op].name, v->gone_in ? v->gone_in : "simplify");
  }
}

static void put_share(const ToolFn *f, const char *word, RtText *out) {
  Peak peak = tool_peak(f, out->mem);
  int64_t sum = 0;
  for (uint32_t k = 0; k < peak.n_rows; k++)
    if (is_at(f->f->prog, f->f->ins[f->f->bufs[peak.rows[k].buf].head.i].loc, word)) sum += peak.rows[k].bytes;
  if (f->f->stats.peak_bytes)
    rt_text_add(out, "  %s of them are live at the peak, kernel %u, of %s\n", tool_bytes(out->mem, sum), peak.kernel,
                tool_bytes(out->mem, f->f->stats.peak_bytes));
}

uint32_t tool_n_at(const ToolFn *f, const char *word, uint32_t *only) {
  uint32_t n = 0;
  for (uint32_t i = 1; i < f->f->n_ins; i++)
    if (is_listed(f, i, word)) *only = i, n++;
  return n;
}

bool tool_is_at(const ToolFn *f, uint32_t i, const char *word) { return is_listed(f, i, word); }

bool tool_explain_place(const ToolFn *f, const char *word, RtText *out) {
  uint32_t only, n = tool_n_at(f, word, &only);
  RtText gone = {.mem = out->mem};
  put_gone(f, word, &gone);
  if (!n && !gone.len) return false;
  rt_text_add(out, "%s@%s: %u value%s of %s\n", out->len ? "\n" : "", tool_fn_name(f), n, n == 1 ? "" : "s", word);
  for (uint32_t i = 1; i < f->f->n_ins; i++)
    if (is_listed(f, i, word)) put_row(f, i, out);
  if (gone.len) rt_text_put(out, gone.text, gone.len);
  if (n) put_share(f, word, out);
  return true;
}

// ---- the peak
void tool_explain_peak(const ToolPlan *t, const ToolFn *f, const PeakWays *ways, bool as_json, RtText *out) {
  uint32_t index = (uint32_t)(f - t->fns);
  if (!as_json) {
    if (out->len) rt_text_add(out, "\n");
    tool_put_peak(f, UINT32_MAX, out);
    tool_put_parts(t, index, ways, out);
    return;
  }
  json_open(out, NULL, '{');
  json_text(out, "function", tool_fn_name(f));
  tool_json_peak(f, UINT32_MAX, index, ways, out);
  json_close(out, '}');
}
