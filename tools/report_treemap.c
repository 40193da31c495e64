// The peak as areas: a box for each module, in it one for each value, in the colour of its kind; and the modules as each way to a lower
// peak would have them, on the same scale.
//
//   +----------+------+
//   | enc      | head |     widths and heights in hundredths of the card
//   |   %a     +------+
//   | %23      | none |
//   +----------+------+
#include "ir/fn.h"
#include "tools/tool.h"

#include <string.h>

static void put(RtText *out, const char *s) { rt_text_put(out, s, strlen(s)); }

typedef struct {
  double x, y, w, h;
} Box;

// The longer side by the shorter of the flattest of n boxes that share a strip along a side.
static double flattest(double sum, double most, double least, double side) {
  double a = side * side * most / (sum * sum), b = sum * sum / (side * side * least);
  return a > b ? a : b;
}

// Boxes of these areas, largest first, as near to squares as strips along the shorter side make them (Bruls, Huizing, van Wijk).
static void tile(const double *area, uint32_t n, Box in, Box *out) {
  for (uint32_t at = 0; at < n;) {
    bool is_tall = in.h > in.w;
    double side = is_tall ? in.w : in.h, sum = area[at];
    uint32_t end = at + 1;
    if (side <= 0 || sum <= 0) return;
    while (end < n && area[end] > 0 &&
           flattest(sum + area[end], area[at], area[end], side) <= flattest(sum, area[at], area[end - 1], side))
      sum += area[end++];
    double thick = sum / side, along = 0;
    for (; at < end; at++) {
      double length = area[at] / thick;
      out[at] = is_tall ? (Box){in.x + along, in.y, length, thick} : (Box){in.x, in.y + along, thick, length};
      along += length;
    }
    if (is_tall) in.y += thick, in.h -= thick;
    else in.x += thick, in.w -= thick;
  }
}

enum { WIDTH = 1000, HEIGHT = 320 };

static void put_style(RtText *out, Box b) {
  rt_text_add(out, " style=\"left:%.3f%%;top:%.3f%%;width:%.3f%%;height:%.3f%%\"", 100 * b.x / WIDTH,
              100 * b.y / HEIGHT, 100 * b.w / WIDTH, 100 * b.h / HEIGHT);
}

// Modules, and what no value lies in; the whole is as wide as its part of the arena.
static Box *tile_modules(RtArena *mem, const Parts *modules, int64_t unused, int64_t arena) {
  uint32_t n = modules->n + 1;
  double *area = rt_alloc(mem, n * sizeof *area), whole = (double)WIDTH * HEIGHT / (double)arena, sum = 0;
  Box *box = rt_alloc(mem, n * sizeof *box);
  for (uint32_t k = 0; k < n; k++) {
    area[k] = (double)(k < modules->n ? modules->list[k].bytes : unused) * whole;
    sum += area[k];
  }
  tile(area, n, (Box){0, 0, sum / HEIGHT, HEIGHT}, box);
  return box;
}

static void put_module(const Part *module, Box box, RtText *out) {
  put(out, "<div class=\"module\"");
  put_style(out, box);
  put(out, "><span>");
  tool_html(out, module->label);
  rt_text_add(out, " %s</span></div>", tool_bytes(out->mem, module->bytes));
}

static void put_values(const ToolFn *f, const Peak *peak, const char *module, Box in, RtText *out) {
  RtArena *mem = out->mem;
  double *area = rt_alloc(mem, (peak->n_rows + 1) * sizeof *area);
  uint32_t *buf = rt_alloc(mem, (peak->n_rows + 1) * sizeof *buf), n = 0;
  for (uint32_t k = 0; k < peak->n_rows && peak->rows[k].bytes; k++) {
    if (strcmp(tool_part_label(f, mem, BY_MODULE, peak->rows[k].buf), module) != 0) continue;
    buf[n] = peak->rows[k].buf;
    area[n++] = (double)WIDTH * HEIGHT * (double)peak->rows[k].bytes / (double)f->f->stats.peak_bytes;
  }
  Box *box = rt_alloc(mem, (n + 1) * sizeof *box);
  tile(area, n, in, box);
  for (uint32_t k = 0; k < n; k++) {
    rt_text_add(out, "<i class=\"leaf k%d\" data-leaf=\"%u\"", (int)tool_kind(f, buf[k]), buf[k]);
    put_style(out, box[k]);
    put(out, "></i>");
  }
}

static void put_now(const ToolFn *f, const Peak *peak, RtText *out) {
  Parts by[N_PART_BYS];
  tool_find_parts(f, out->mem, peak, by);
  const Box *box = tile_modules(out->mem, &by[BY_MODULE], peak->padding + peak->holes, f->f->stats.peak_bytes);
  put(out, "<div class=\"treemap\">");
  for (uint32_t k = 0; k < by[BY_MODULE].n; k++) {
    if (!by[BY_MODULE].list[k].bytes) continue;
    put_values(f, peak, by[BY_MODULE].list[k].label, box[k], out);
    put_module(&by[BY_MODULE].list[k], box[k], out);
  }
  put(out, "</div>\n");
}

static void put_way(const ToolFn *f, const PeakWay *way, uint32_t index, RtText *out) {
  const Parts *modules = &way->parts[index][BY_MODULE];
  int64_t left = way->arena[index];
  for (uint32_t k = 0; k < modules->n; k++) left -= modules->list[k].bytes;
  const Box *box = tile_modules(out->mem, modules, left, f->f->stats.peak_bytes);
  put(out, "<div class=\"treemap\" hidden>");
  for (uint32_t k = 0; k < modules->n; k++)
    if (modules->list[k].bytes) put_module(&modules->list[k], box[k], out);
  put(out, "</div>\n");
}

void tool_treemap(const ToolFn *f, uint32_t index, const Peak *peak, const PeakWays *ways, RtText *out) {
  RtArena *mem = out->mem;
  int64_t arena = f->f->stats.peak_bytes;
  uint32_t n = 0;
  if (!arena) return;
  put(out, "<div class=\"card peakmap\"><div class=\"cardhead\"><h3>The peak by module</h3></div>\n");
  put_now(f, peak, out);
  RtText list = {.mem = mem};
  for (uint32_t k = 0; k < ways->n; k++) {
    const PeakWay *way = &ways->list[k];
    if (way->arena[index] >= arena) continue;
    n++;
    put_way(f, way, index, out);
    rt_text_add(&list, "<output hidden>%s, -%s: ", tool_bytes(mem, way->arena[index]),
                tool_bytes(mem, arena - way->arena[index]));
    tool_html(&list, rt_printf(mem, "%s: %s", way->name, way->write));
    put(&list, "</output>");
  }
  if (n)
    rt_text_add(out,
                "<label class=\"ways\">ways to less, each planned <input type=\"range\" data-ways min=\"0\" max=\"%u\" "
                "value=\"0\"><output>%s as it is</output>%s</label>",
                n, tool_bytes(mem, arena), list.text);
  put(out, "</div>\n");
}
