// tenure report FILE.tir -o page.html: one self-contained page of a plan.
//
// The page works from what is in it alone: style and script come from tools/report.css and tools/report.js, the map is
// static SVG, the tables are static HTML; the script adds tooltips, pinning, search, zoom. Its text is a function of
// the plan alone.
#include "ir/intern.h"
#include "report_css.h"
#include "report_js.h"
#include "tools/tool.h"

#include <string.h>

// ---- escapes: bytes that are no UTF-8 become U+FFFD, control characters a space
static const char *escape_html(unsigned char c) {
  switch (c) {
  case '&': return "&amp;";
  case '<': return "&lt;";
  case '>': return "&gt;";
  case '"': return "&quot;";
  case '\'': return "&#39;";
  default: return NULL;
  }
}

void tool_html(RtText *out, const char *s) {
  for (size_t left = strlen(s); left;) {
    size_t n = rt_utf8_length(s, left);
    const char *escape = escape_html((unsigned char)*s);
    if (escape) rt_text_put(out, escape, strlen(escape));
    else if (!n) rt_text_put(out, "\xef\xbf\xbd", 3);
    else if ((unsigned char)*s < 0x20 || *s == 0x7f) rt_text_put(out, " ", 1);
    else rt_text_put(out, s, n);
    n += !n;
    s += n, left -= n;
  }
}

void tool_json(RtText *out, const char *s) {
  rt_text_put(out, "\"", 1);
  for (size_t left = strlen(s); left;) {
    size_t n = rt_utf8_length(s, left);
    unsigned char c = (unsigned char)*s;
    if (!n) rt_text_put(out, "\\ufffd", 6);
    else if (c < 0x20 || c == 0x7f || strchr("\"\\<>&", c)) rt_text_add(out, "\\u%04x", c);
    else rt_text_put(out, s, n);
    n += !n;
    s += n, left -= n;
  }
  rt_text_put(out, "\"", 1);
}

// ---- parts
static void put(RtText *out, const char *s) { rt_text_put(out, s, strlen(s)); }

static void figure(RtText *out, const char *label, const char *value) {
  put(out, "<div><dt>");
  put(out, label);
  put(out, "</dt><dd>");
  tool_html(out, value);
  put(out, "</dd></div>");
}

static void put_figures(const ToolFn *f, const Peak *peak, RtText *out) {
  const PlanStats *s = &f->f->stats;
  RtArena *mem = out->mem;
  double gap = s->lower_bound ? 100.0 * (double)(s->peak_bytes - s->lower_bound) / (double)s->lower_bound : 0;
  put(out, "<dl class=\"figures\">");
  figure(out, "arena", tool_bytes(mem, s->peak_bytes));
  figure(out, "lower bound", tool_bytes(mem, s->lower_bound));
  figure(out, "of any order", tool_bytes(mem, s->order_bound));
  figure(out, "gap", rt_printf(mem, "%.1f %%", gap));
  figure(out, "peak at kernel", f->f->n_kernels ? rt_printf(mem, "%u of %u", peak->kernel, f->f->n_kernels) : "none");
  figure(out, "in place", rt_printf(mem, "%u", s->n_inplace));
  figure(out, "copies", s->n_copies ? rt_printf(mem, "%u, %s", s->n_copies, tool_bytes(mem, s->copy_bytes)) : "0");
  put(out, "</dl>");
}

static void put_fn(const ToolFn *f, uint32_t index, bool shown, bool has_code, const PeakWays *ways, RtText *out) {
  Peak peak = tool_peak(f, out->mem);
  rt_text_add(out, "<section class=\"fn\" id=\"fn%u\"%s>\n<h2>@", index, shown ? "" : " hidden");
  tool_html(out, tool_fn_name(f));
  put(out, "</h2>\n");
  put_figures(f, &peak, out);
  put(out, "<div class=\"stage\"><div class=\"views\">");
  tool_map(f, index, &peak, out);
  tool_treemap(f, index, &peak, ways, out);
  tool_segments(f, index, out);
  put(out,
      "</div><aside class=\"card pin\" aria-live=\"polite\"><p class=\"muted\">Hover a rectangle to see its value; "
      "click it to keep it here.</p></aside></div>\n");
  tool_passes_card(f, index, out);
  if (has_code) tool_code_card(f, index, out);
  tool_tables(f, index, &peak, out);
  put(out, "</section>\n");
}

static void put_data(const ToolPlan *t, RtText *out) {
  put(out, "<script type=\"application/json\" id=\"plan\">[");
  for (uint32_t k = 0; k < t->n_fns; k++) {
    Peak peak = tool_peak(&t->fns[k], out->mem);
    put(out, k ? ",\n" : "");
    tool_data(&t->fns[k], &peak, out);
  }
  put(out, "]</script>\n");
}

// The function with the largest arena is shown first.
static uint32_t first_shown(const ToolPlan *t) {
  uint32_t best = 0;
  for (uint32_t k = 1; k < t->n_fns; k++)
    if (t->fns[k].f->stats.peak_bytes > t->fns[best].f->stats.peak_bytes) best = k;
  return best;
}

static void put_tabs(const ToolPlan *t, uint32_t shown, RtText *out) {
  put(out, "<nav class=\"tabs\" aria-label=\"functions\">");
  for (uint32_t k = 0; k < t->n_fns; k++) {
    rt_text_add(out, "<button type=\"button\" data-fn=\"%u\" aria-pressed=\"%s\">@", k, k == shown ? "true" : "false");
    tool_html(out, tool_fn_name(&t->fns[k]));
    rt_text_add(out, " <small>%s</small></button>", tool_bytes(out->mem, t->fns[k].f->stats.peak_bytes));
  }
  put(out, "</nav>\n");
}

static void put_head(const ToolPlan *t, RtText *out) {
  const char *name = ir_text(t->p, t->p->name);
  put(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<link rel=\"icon\" href=\"data:,\">\n<title>");
  tool_html(out, name);
  put(out, " - tenure report</title>\n<style>\n");
  rt_text_put(out, (const char *)report_css, sizeof report_css);
  put(out, "</style>\n</head>\n<body>\n<header><div class=\"bar\"><h1>");
  tool_html(out, name);
  put(out, "</h1><p class=\"muted\">plan of ");
  tool_html(out, t->path);
  rt_text_add(out, "; parameters and state %s, constants %s, packed weights %s</p>",
              tool_bytes(out->mem, t->p->param_bytes), tool_bytes(out->mem, t->p->const_bytes),
              tool_bytes(out->mem, t->p->packed_bytes));
  put(out, "<label class=\"search\"><span>Search</span><input id=\"q\" type=\"search\" autocomplete=\"off\" "
           "spellcheck=\"false\" "
           "placeholder=\"value, op, file:line, scope\"><output id=\"hits\"></output></label></div>\n");
}

static bool put_page(const ToolPlan *t, bool has_code, RtText *out) {
  const PeakWays ways = tool_find_ways(t, out->mem);
  uint32_t shown = first_shown(t);
  put_head(t, out);
  put_tabs(t, shown, out);
  put(out, "</header>\n<main>\n");
  for (uint32_t k = 0; k < t->n_fns; k++) put_fn(&t->fns[k], k, k == shown, has_code, &ways, out);
  if (!t->n_fns) put(out, "<p>The program has no function.</p>\n");
  put(out, "</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n");
  put_data(t, out);
  tool_passes_data(t, out);
  if (has_code && !tool_code_data(t, out)) return false;
  put(out, "<script>\n");
  rt_text_put(out, (const char *)report_js, sizeof report_js);
  put(out, "</script>\n</body>\n</html>\n");
  return true;
}

static int report(RtArena *mem, void *ctx) {
  const CliArgs *a = ctx;
  ToolPlan t;
  bool is_page = !cli_has(a, "--json") && !cli_has(a, "--text");
  if (!tool_plan_limits(&t, a)) return EXIT_USAGE;
  if (!(is_page ? tool_plan_read_texts : tool_plan_read)(&t, mem, a->operand[0])) return EXIT_ERRORS;
  RtText out = {.mem = mem};
  if (cli_has(a, "--json")) tool_report_json(&t, &out);
  else if (cli_has(a, "--text")) tool_report_text(&t, &out);
  else if (!put_page(&t, cli_has(a, "--code"), &out)) return EXIT_ERRORS;
  return tool_put_file(cli_value(a, "-o"), &out) ? 0 : EXIT_ERRORS;
}

int tool_report(const CliArgs *a) {
  if (cli_has(a, "--text") && cli_has(a, "--json")) return cli_usage_error(a, "report: --text or --json, not both");
  if (!cli_has(a, "-o") && !cli_has(a, "--text") && !cli_has(a, "--json"))
    return cli_usage_error(a, "report needs -o PAGE.html (- is standard output), --text or --json");
  return tool_with_arena(report, (void *)(uintptr_t)a);
}
