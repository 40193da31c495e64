// The arena over time: x = kernels, y = offset with 0 at the bottom, one rectangle per buffer; the other segments as
// bars.
//
// A slot that is taken over in place changes hands in the middle of a kernel's column. The drawing stretches to any
// size: coordinates are kernels and thousandths of the arena, text stands in HTML beside it.
#include "tools/tool.h"

#include <string.h>

enum { MAX_TICKS_X = 12, MAX_TICKS_Y = 6, HEIGHT = 1000, THIN = 6, FEW = 100 };

static void put(RtText *out, const char *s) { rt_text_put(out, s, strlen(s)); }

static double y_of(const ToolFn *f, int64_t offset) {
  return HEIGHT - (double)HEIGHT * (double)offset / (double)f->f->stats.peak_bytes;
}

typedef struct {
  double x, y, w, h;
} Box;

static Box box_of(const ToolFn *f, const bool *taken, uint32_t b) {
  const Buf *buf = &f->f->bufs[b];
  double x = buf->first + (buf->reuses ? 0.5 : 0), end = buf->last + (taken[b] ? 0.5 : 1);
  if (end > f->f->n_kernels) end = f->f->n_kernels;
  double y = y_of(f, buf->offset + buf->bytes);
  return (Box){x, y, end - x, y_of(f, buf->offset) - y};
}

// Too small for an edge of another colour: about 3 pixels at a usual width.
static bool is_thin(const ToolFn *f, Box r) { return r.h < THIN || HEIGHT * r.w / f->f->n_kernels < THIN / 2.0; }

static bool is_drawn(const Buf *b) { return b->seg == SEG_ARENA && b->last >= 0; }

static void put_rects(const ToolFn *f, const bool *taken, RtText *out) {
  for (uint32_t b = 1; b < f->f->n_bufs; b++) {
    if (!is_drawn(&f->f->bufs[b])) continue;
    Box r = box_of(f, taken, b);
    rt_text_add(out, "<rect data-b=\"%u\" class=\"k%d%s\" x=\"%g\" y=\"%.3f\" width=\"%g\" height=\"%.3f\"/>\n", b,
                (int)tool_kind(f, b), is_thin(f, r) ? " thin" : "", r.x, r.y, r.w, r.h);
  }
}

// Names on rectangles that are large enough to hold them.
static void put_labels(const ToolFn *f, const bool *taken, RtText *out) {
  for (uint32_t b = 1; b < f->f->n_bufs; b++) {
    if (!is_drawn(&f->f->bufs[b])) continue;
    Box r = box_of(f, taken, b);
    double w = 100 * r.w / f->f->n_kernels, h = 100 * r.h / HEIGHT;
    if (w < 5 || h < 4.5) continue;
    rt_text_add(out, "<span class=\"lab on%d\" style=\"left:%.2f%%;top:%.2f%%;width:%.2f%%;height:%.2f%%\"><b>",
                (int)tool_kind(f, b), 100 * r.x / f->f->n_kernels, 100 * r.y / HEIGHT, w, h);
    tool_html(out, tool_buf_name(f, out->mem, b));
    put(out, "</b><i>");
    tool_html(out, f->f->bufs[b].scratch
                       ? tool_op_name(f, f->f->bufs[b].head)
                       : rt_printf(out->mem, "%s %s", tool_op_name(f, f->f->bufs[b].head),
                                   tool_loc(f->f->prog, out->mem, f->f->ins[f->f->bufs[b].head.i].loc)));
    put(out, "</i></span>\n");
  }
}

// ---- axes
static int64_t tick_step(int64_t most, int64_t most_ticks, bool powers_of_two) {
  int64_t step = 1;
  for (int k = 0; most / step >= most_ticks; k++)
    step = powers_of_two ? step * 2 : k % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

static void put_y_axis(const ToolFn *f, RtText *out) {
  int64_t most = f->f->stats.peak_bytes, step = tick_step(most, MAX_TICKS_Y, true);
  put(out, "<div class=\"yaxis\">");
  for (int64_t at = 0; at <= most; at += step)
    rt_text_add(out, "<span style=\"bottom:%.2f%%\">%s</span>", 100.0 * (double)at / (double)most,
                tool_short_bytes(out->mem, at));
  put(out, "</div>");
}

static void put_x_axis(const ToolFn *f, RtText *out) {
  uint32_t n = f->f->n_kernels;
  put(out, "<div class=\"xaxis\">");
  for (int64_t k = 0, step = tick_step(n, MAX_TICKS_X, false); k < n; k += step)
    rt_text_add(out, "<span style=\"--at:%.2f%%\">%lld</span>", 100.0 * ((double)k + 0.5) / n, (long long)k);
  put(out, "</div>");
}

// Live bytes by kernel, in steps.
static void put_live(const ToolFn *f, const Peak *peak, RtText *out) {
  uint32_t n = f->f->n_kernels;
  rt_text_add(
      out,
      "<svg class=\"live\" viewBox=\"0 0 %u 100\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path d=\"M0 100",
      n);
  for (uint32_t k = 0; k < n; k++)
    rt_text_add(out, "V%.2fH%u", 100 - 100.0 * (double)peak->live[k] / (double)f->f->stats.peak_bytes, k + 1);
  rt_text_add(out, "V100Z\"/><rect class=\"peak\" x=\"%u\" y=\"0\" width=\"1\" height=\"100\"/></svg>", peak->kernel);
}

static void put_legend(RtText *out) {
  put(out, "<ul class=\"legend\">");
  for (int k = 0; k < N_BUF_KINDS; k++) rt_text_add(out, "<li><i class=\"k%d\"></i>%s</li>", k, tool_buf_kind[k]);
  put(out, "<li><i class=\"peakmark\"></i>peak</li></ul>");
}

static void put_zoom(RtText *out) {
  put(out, "<div class=\"zoom\" role=\"group\" aria-label=\"zoom\"><button type=\"button\" data-zoom=\"0.5\" "
           "aria-label=\"zoom out\">&#8722;</button>"
           "<button type=\"button\" data-zoom=\"2\" aria-label=\"zoom in\">+</button></div>");
}

void tool_map(const ToolFn *t, uint32_t index, const Peak *peak, RtText *out) {
  const Fn *f = t->f;
  put(out, "<div class=\"card\"><div class=\"cardhead\"><h3>Arena over time</h3>");
  if (!f->stats.peak_bytes) {
    put(out, "</div><p class=\"muted\">This function needs no arena.</p></div>\n");
    return;
  }
  put_zoom(out);
  put(out, "</div>");
  put_legend(out);
  bool *taken = rt_alloc(out->mem, (f->n_bufs + 1) * sizeof *taken);
  for (uint32_t b = 1; b < f->n_bufs; b++) taken[f->bufs[b].reuses] = true;
  put(out, "<div class=\"chart\">");
  put_y_axis(t, out);
  put(out, "<div class=\"scroll\"><div class=\"wide\">");
  put_live(t, peak, out);
  rt_text_add(out, "<span class=\"peaklab\" style=\"--mid:%.2f%%\">peak: %s at kernel %u</span>",
              100.0 * (peak->kernel + 0.5) / f->n_kernels, tool_bytes(out->mem, f->stats.lower_bound), peak->kernel);
  rt_text_add(out,
              "<div class=\"plot\"><svg class=\"map\" id=\"map%u\" viewBox=\"0 0 %u %d\" preserveAspectRatio=\"none\" "
              "role=\"img\" aria-label=\"arena offsets by kernel\">\n",
              index, f->n_kernels, HEIGHT);
  rt_text_add(out, "<rect class=\"cursor\" x=\"-2\" y=\"0\" width=\"1\" height=\"%d\"/>\n", HEIGHT);
  put_rects(t, taken, out);
  rt_text_add(out, "<rect class=\"peak\" x=\"%u\" y=\"0\" width=\"1\" height=\"%d\"/></svg>\n", peak->kernel, HEIGHT);
  put_labels(t, taken, out);
  put(out, "</div>");
  put_x_axis(t, out);
  put(out, "</div></div></div><p class=\"axisname\">kernel</p></div>\n");
}

// ---- other segments
static void put_segment(const ToolFn *f, Segment seg, RtText *out) {
  int64_t sum = 0;
  uint32_t n = 0;
  for (uint32_t b = 1; b < f->f->n_bufs; b++)
    if (f->f->bufs[b].seg == seg) sum += f->f->bufs[b].bytes, n++;
  if (!n) return;
  rt_text_add(out, "<div class=\"seg\"><span class=\"segname\">%s</span><div class=\"segbar s%d%s\">",
              tool_seg_name[seg], (int)seg, n <= FEW ? " few" : "");
  for (uint32_t b = 1; b < f->f->n_bufs; b++)
    if (f->f->bufs[b].seg == seg)
      rt_text_add(out, "<i data-b=\"%u\" style=\"flex-grow:%lld\"></i>", b, (long long)f->f->bufs[b].bytes);
  rt_text_add(out, "</div><span class=\"segsum\">%u %s, %s</span></div>\n", n, n == 1 ? "buffer" : "buffers",
              tool_bytes(out->mem, sum));
}

void tool_segments(const ToolFn *f, uint32_t index, RtText *out) {
  rt_text_add(out, "<div class=\"card segs\" id=\"segs%u\"><div class=\"cardhead\"><h3>Other segments</h3></div>\n",
              index);
  for (uint32_t s = 0; s < N_SEGMENTS; s++)
    if (s != SEG_ARENA) put_segment(f, (Segment)s, out);
  put(out, "</div>\n");
}
