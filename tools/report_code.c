// The page's kernels as code, with --code: source lines, instructions and assembly side by side. A line and what it made
// have one colour.
#include "ir/intern.h"
#include "ir/text/text.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <string.h>

static void put(RtText *out, const char *s) { rt_text_put(out, s, strlen(s)); }

void tool_code_card(const ToolFn *f, uint32_t index, RtText *out) {
  if (!f->f->n_kernels) return;
  put(out, "<div class=\"card code\"><div class=\"cardhead\"><h3>Code</h3><label>kernel <select data-code=\"");
  rt_text_add(out, "%u\">", index);
  for (uint32_t k = 0; k < f->f->n_kernels; k++) {
    rt_text_add(out, "<option value=\"%u\">%u ", k, k);
    tool_html(out, ir_class_name(f->f->kernels[k].cls));
    put(out, ": ");
    tool_html(out, tool_kernel_ops(f, out->mem, k));
    put(out, "</option>");
  }
  put(out, "</select></label></div>\n<div class=\"columns\"><pre tabindex=\"0\"></pre><pre tabindex=\"0\"></pre>"
           "<pre tabindex=\"0\"></pre></div></div>\n");
}

// The place of an instruction's line among those of its kernel, in order of first use.
static uint32_t line_of(const Fn *f, const Kernel *k, uint32_t i, uint32_t *n_lines) {
  uint32_t n = 0, found = UINT32_MAX;
  for (uint32_t j = k->first; j <= i; j++) {
    bool is_new = f->ins[j].op != OP_result;
    for (uint32_t b = k->first; b < j && is_new; b++)
      is_new = f->ins[b].op == OP_result || f->ins[b].loc.i != f->ins[j].loc.i;
    if (is_new && f->ins[j].loc.i == f->ins[i].loc.i && found == UINT32_MAX) found = n;
    n += is_new;
  }
  *n_lines = n;
  return found;
}

static void json_lines(const ToolFn *f, const Kernel *k, RtText *out) {
  const Prog *p = f->f->prog;
  uint32_t n_lines = 0, n;
  json_open(out, "lines", '[');
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    Loc at = f->f->ins[i].loc;
    if (f->f->ins[i].op == OP_result || line_of(f->f, k, i, &n) < n_lines) continue;
    n_lines = n;
    const char *line = tool_source_line(out->mem, ir_loc_file(p, at), ir_loc_line(p, at));
    json_text(out, NULL,
              rt_printf(out->mem, "%s%s%s", tool_loc(p, out->mem, at), line ? "\n  " : "", line ? line : ""));
  }
  json_close(out, ']');
}

// [line, instruction]..
static void json_ir(const ToolFn *f, const Kernel *k, RtText *out) {
  uint32_t n;
  json_open(out, "ir", '[');
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (f->f->ins[i].op == OP_result) continue;
    RtText text = {.mem = out->mem};
    ir_print_ins(f->f, (Val){i}, &text, PRINT_FACTS);
    json_open(out, NULL, '[');
    json_int(out, NULL, line_of(f->f, k, i, &n));
    json_text(out, NULL, text.text);
    json_close(out, ']');
  }
  json_close(out, ']');
}

bool tool_code_data(const ToolPlan *t, RtText *out) {
  put(out, "<script type=\"application/json\" id=\"code\">[");
  for (uint32_t f = 0; f < t->n_fns; f++) {
    const Fn *g = t->fns[f].f;
    json_open(out, NULL, '[');
    for (uint32_t k = 0; k < g->n_kernels; k++) {
      const char *assembly = tool_kernel_code(t, &t->fns[f], out->mem, k, true);
      if (!assembly) return false;
      json_open(out, NULL, '{');
      json_lines(&t->fns[f], &g->kernels[k], out);
      json_ir(&t->fns[f], &g->kernels[k], out);
      json_text(out, "asm", assembly);
      json_close(out, '}');
    }
    json_close(out, ']');
  }
  json_close(out, ']');
  put(out, "</script>\n");
  return true;
}
