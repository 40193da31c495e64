// The report as one HTML page that needs no network: ratios as bars, kernels under the roofline that this machine showed in the
// same runs, the kernel tables.
#include "bench/report.h"
#include <math.h>

// ---- the page
static void put_escaped(FILE *out, const char *s) {
  for (; *s; s++) {
    if (*s == '<') fputs("&lt;", out);
    else if (*s == '>') fputs("&gt;", out);
    else if (*s == '&') fputs("&amp;", out);
    else fputc(*s, out);
  }
}

static void put_head(const Report *r) {
  fputs(
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">"
      "<title>tenure bench</title><style>"
      ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;"
      "padding:0 1em}table{border-collapse:collapse;width:100%;font-size:13px}td,th{padding:2px 8px;text-align:right}"
      "td:first-child,th:first-child{text-align:left;word-break:break-word}tr:nth-child(even){background:#8881}"
      ".row{display:grid;grid-template-columns:13em 1fr 9em;gap:8px;align-items:center;margin:3px 0}"
      ".bar{position:relative;height:18px;background:#8882;border-radius:3px}.bar i{position:absolute;inset:0 auto 0 0;"
      "background:#2a7;border-radius:3px}.bar i.slow{background:#c53}.bar b{position:absolute;top:-2px;bottom:-2px;"
      "width:2px;background:currentColor}svg{width:100%;height:auto}svg text{font-size:11px;fill:currentColor}"
      "small{opacity:.7}.scroll{overflow-x:auto}@media(max-width:600px){.row{grid-template-columns:7em 1fr 5em}}"
      "</style>",
      r->out);
  fprintf(r->out,
          "<h1>tenure bench</h1><p>Commit %s. This machine, in these runs: %.0f GFLOP/s of fused multiply-adds from "
          "registers, "
          "%.1f GB/s of <code>y = a y + x</code>. Times are minima over alternating bursts, ours and the peer's.</p>",
          r->commit, r->gflops, r->gbs);
}

// Bars on a logarithmic scale; the upright line is 1x.
static void put_ratios(const Report *r) {
  double most = 2, least = 0.5;
  for (int k = 0; k < r->n; k++) {
    if (r->cases[k].ratio > most) most = r->cases[k].ratio;
    if (r->cases[k].ratio < least) least = r->cases[k].ratio;
  }
  fputs("<h2>Time of the peer / ours</h2>", r->out);
  for (int k = 0; k < r->n; k++) {
    const ReportCase *c = &r->cases[k];
    fprintf(r->out, "<div class=\"row\"><span>%s <small>%s</small></span>", c->workload, c->variant);
    if (c->ratio > 0) {
      double span = log(most / least);
      fprintf(r->out,
              "<span class=\"bar\"><i class=\"%s\" style=\"width:%.1f%%\"></i><b style=\"left:%.1f%%\"></b></span>"
              "<span title=\"median %.2f\">%.2f&times; <small>%s</small></span></div>",
              c->ratio < 1 ? "slow" : "fast", 100 * log(c->ratio / least) / span, 100 * log(1 / least) / span,
              c->ratio_median, c->ratio, c->peer);
    } else fputs("<span></span><small>not compared</small></div>", r->out);
  }
  fputs("<h2>Times</h2><div class=\"scroll\"><table><tr><th>workload<th>ours, ms<th>peer<th>peer, ms<th>ratio-min"
        "<th>ratio-median<th>compile, ms<th>peak memory, MB",
        r->out);
  for (int k = 0; k < r->n; k++) {
    const ReportCase *c = &r->cases[k];
    fprintf(r->out, "<tr><td>%s %s<td>%.4f", c->workload, c->variant, c->min_ms);
    if (c->ratio > 0) fprintf(r->out, "<td>%s<td>%.4f<td>%.2f<td>%.2f", c->peer, c->peer_ms, c->ratio, c->ratio_median);
    else fputs("<td><td><td><td>", r->out);
    fprintf(r->out, "<td>%.1f<td>%.0f", c->compile_ms, c->rss);
  }
  fputs("</table></div>", r->out);
}

// ---- roofline: x flops a byte, y GFLOP/s, both by powers of two
typedef struct {
  double x0, x1, y0, y1;  // log2
} Axes;
enum { WIDE = 940, HIGH = 380, LEFT = 46, LOW = 340 };

static double x_at(const Axes *a, double v) { return LEFT + (log2(v) - a->x0) / (a->x1 - a->x0) * (WIDE - LEFT - 24); }
static double y_at(const Axes *a, double v) { return LOW - (log2(v) - a->y0) / (a->y1 - a->y0) * (LOW - 12); }

static void put_axes(const Report *r, const Axes *a) {
  for (double e = a->x0; e <= a->x1; e += 2)
    fprintf(r->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>", x_at(a, exp2(e)), LOW + 16, exp2(e));
  for (double e = a->y0; e <= a->y1; e += 2)
    fprintf(r->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>", LEFT - 4, y_at(a, exp2(e)) + 4, exp2(e));
  fprintf(r->out,
          "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">flop for each byte of operands and results</text>"
          "<text x=\"%d\" y=\"10\">GFLOP/s</text>",
          WIDE - 8, HIGH - 6, LEFT + 6);
  double ridge = r->gflops / r->gbs, first = exp2(a->x0), last = exp2(a->x1);
  fprintf(r->out,
          "<path d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1f\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"/>",
          x_at(a, first), y_at(a, first * r->gbs), x_at(a, ridge), y_at(a, r->gflops), x_at(a, last),
          y_at(a, r->gflops));
}

static void put_point(const Report *r, const Axes *a, const KernelRow *k, const char *workload) {
  double x = k->gbs > 0 ? k->gflops / k->gbs : 0;
  if (k->gflops < exp2(a->y0) || x < exp2(a->x0) || x > exp2(a->x1)) return;
  fprintf(r->out,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#27a\" fill-opacity=\".55\"><title>%s: ", x_at(a, x),
          y_at(a, fmin(k->gflops, exp2(a->y1))), 3 + sqrt(k->share), workload);
  put_escaped(r->out, k->name);
  fprintf(r->out, "\n%.0f GFLOP/s, %.1f GB/s, %.1f %% of the step</title></circle>", k->gflops, k->gbs, k->share);
}

static void put_roofline(const Report *r, const Profile *p, int n) {
  Axes a = {-4, 10, 0, ceil(log2(fmax(r->gflops, 2))) + 1};
  fprintf(r->out,
          "<h2>Kernels with products under the roofline</h2><p><small>The area of a dot grows with its share of "
          "the step. Operands that stay in a cache lift a dot above the slope.</small></p>"
          "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"roofline\">",
          WIDE, HIGH);
  put_axes(r, &a);
  for (int k = 0; k < n; k++)
    for (int i = 0; i < p[k].n; i++) put_point(r, &a, &p[k].row[i], p[k].workload);
  fputs("</svg>", r->out);
}

static void put_kernels(const Report *r, const Profile *p) {
  fprintf(r->out,
          "<details><summary>%s</summary><div class=\"scroll\"><table><tr><th>kernel<th>us<th>share, %%"
          "<th>GFLOP/s<th>GB/s<th>wait, us",
          p->workload);
  for (int k = 0; k < p->n; k++) {
    const KernelRow *w = &p->row[k];
    fputs("<tr><td>", r->out);
    put_escaped(r->out, w->name);
    fprintf(r->out, "<td>%.2f<td>%.1f<td>%.1f<td>%.2f<td>%.2f", w->us, w->share, w->gflops, w->gbs, w->wait);
  }
  fputs("</table></div></details>", r->out);
}

bool bench_write_html(Report *r, const char *path, const Profile *p, int n) {
  if (!(r->out = fopen(path, "w"))) return false;
  put_head(r);
  if (*r->failed) fprintf(r->out, "<p><strong>Failed:</strong>%s</p>", r->failed);
  put_ratios(r);
  if (r->gflops > 0 && r->gbs > 0) put_roofline(r, p, n);
  fputs("<h2>Where the time goes</h2>", r->out);
  for (int k = 0; k < n; k++) put_kernels(r, &p[k]);
  fputs("</html>\n", r->out);
  bool ok = !ferror(r->out);
  return fclose(r->out) == 0 && ok;
}
