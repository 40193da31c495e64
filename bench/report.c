// tenure_bench --report PAGE [--vs PEER --python PATH] [--rounds N] [--workers N] [--root DIR] [WORKLOAD ..]
//
// Runs this program once for each workload (all, unless some are named) and once more under TN_PROFILE, and writes what
// they found as one HTML page that needs no network: ratios as bars, kernels under the roofline that this machine
// showed in the same runs, the kernel tables. A workload that fails is listed with what it said.
#include "bench/bench.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CASES = 1024, MAX_KERNELS = 24, NAME = 96 };

typedef struct {
  char name[NAME];
  double share, us, gflops, gbs, wait;
} KernelRow;

typedef struct {
  char workload[NAME], variant[NAME], peer[NAME];
  double min_ms, peer_ms, ratio, ratio_median, peak_gflops, bandwidth, compile_ms, rss;
} Case;

typedef struct {
  Case cases[MAX_CASES];
  int n;
  const char *self, *pass[16];  // options handed on
  int n_pass;
  double gflops, gbs;  // most that any run saw of the machine
  FILE *out;
} Report;

// ---- running
// `env self workload options..` with each argument quoted for the shell.
static FILE *start(const Report *r, const char *env, const char *workload, const char *more) {
  char line[4096];
  int n = snprintf(line, sizeof line, "%s '%s' %s %s", env, r->self, workload, more);
  for (int k = 0; k < r->n_pass; k++) {
    n += snprintf(line + n, sizeof line - (size_t)n, " '");
    for (const char *c = r->pass[k]; *c && n < (int)sizeof line - 8; c++)
      n += snprintf(line + n, sizeof line - (size_t)n, *c == '\'' ? "'\\''" : "%c", *c);
    n += snprintf(line + n, sizeof line - (size_t)n, "'");
  }
  fflush(NULL);
  return n < (int)sizeof line - 8 ? popen(line, "r") : NULL;
}

static double field(const char *json, const char *key) {
  char want[64];
  snprintf(want, sizeof want, "\"%s\": ", key);
  const char *at = strstr(json, want);
  return at ? strtod(at + strlen(want), NULL) : NAN;
}

static void text_field(const char *json, const char *key, char out[NAME]) {
  char want[64];
  snprintf(want, sizeof want, "\"%s\": \"", key);
  const char *at = strstr(json, want);
  if (at) snprintf(out, NAME, "%.*s", (int)strcspn(at + strlen(want), "\""), at + strlen(want));
}

// One row for each peer, or one without.
static void add_case(Report *r, const char *json) {
  Case c = {.peak_gflops = field(json, "peak_gflops"), .bandwidth = field(json, "bandwidth_gbs")};
  text_field(json, "workload", c.workload);
  text_field(json, "case", c.variant);
  const char *ours = strstr(json, "\"tenure\""), *peer = strstr(json, "{\"name\"");
  c.min_ms = ours ? field(ours, "min_ms") : NAN;
  c.peer_ms = c.ratio = c.ratio_median = NAN;
  c.compile_ms = field(json, "compile_ms"), c.rss = field(json, "peak_rss_mb");
  r->gflops = fmax(r->gflops, c.peak_gflops), r->gbs = fmax(r->gbs, c.bandwidth);
  do {
    if (peer) {
      text_field(peer, "name", c.peer);
      c.peer_ms = field(peer, "min_ms"), c.ratio = field(peer, "ratio_min");
      c.ratio_median = field(peer, "ratio_median");
      peer = strstr(peer + 1, "{\"name\"");
    }
    if (r->n < MAX_CASES) r->cases[r->n++] = c;
  } while (peer);
}

static bool run_workload(Report *r, const char *workload) {
  char line[2048];
  FILE *in = start(r, "", workload, "--json --where-there-is");
  int before = r->n;
  while (in && fgets(line, sizeof line, in))
    if (line[0] == '{') add_case(r, line);
  return in && pclose(in) == 0 && r->n > before;
}

// function  kernel shape   calls  min us  mean us  share %  GFLOP/s  GB/s  wait us  idle %
static bool read_kernel(const char *line, KernelRow *k) {
  char function[NAME], op[NAME], shape[NAME];
  double calls, mean;
  int n = sscanf(line, "%95s %95s %95s %lf %lf %lf %lf %% %lf %lf %lf", function, op, shape, &calls, &k->us, &mean,
                 &k->share, &k->gflops, &k->gbs, &k->wait);
  if (n != 10 || !strcmp(function, "init")) return false;
  snprintf(k->name, sizeof k->name, "%.60s %.34s", op, shape);
  return true;
}

static int by_share(const void *a, const void *b) {
  double x = ((const KernelRow *)a)->share, y = ((const KernelRow *)b)->share;
  return (x < y) - (x > y);
}

static int run_profile(const Report *r, const char *workload, KernelRow *top) {
  enum { MOST = 512 };
  static KernelRow all[MOST];
  char line[1024];
  int n = 0;
  Report alone = *r;  // no peer: its time would be wasted
  alone.n_pass = 0;
  FILE *in = start(&alone, "TN_PROFILE=1", workload, "--rounds 2 2>&1");
  while (in && fgets(line, sizeof line, in))
    if (n < MOST && read_kernel(line, &all[n])) n++;
  if (in) pclose(in);
  qsort(all, (size_t)n, sizeof *all, by_share);
  n = n < MAX_KERNELS ? n : MAX_KERNELS;
  memcpy(top, all, sizeof *all * (size_t)n);
  return n;
}

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
          "<h1>tenure bench</h1><p>This machine, in these runs: %.0f GFLOP/s of fused multiply-adds from registers, "
          "%.1f GB/s of <code>y = a y + x</code>. Times are minima over alternating bursts, ours and the peer's.</p>",
          r->gflops, r->gbs);
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
    const Case *c = &r->cases[k];
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
    const Case *c = &r->cases[k];
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

typedef struct {
  const char *workload;
  KernelRow row[MAX_KERNELS];
  int n;
} Profile;

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

static bool write_page(Report *r, const char *path, const Profile *p, int n, const char *failed) {
  if (!(r->out = fopen(path, "w"))) return false;
  put_head(r);
  if (*failed) fprintf(r->out, "<p><strong>Failed:</strong>%s</p>", failed);
  put_ratios(r);
  if (r->gflops > 0 && r->gbs > 0) put_roofline(r, p, n);
  fputs("<h2>Where the time goes</h2>", r->out);
  for (int k = 0; k < n; k++) put_kernels(r, &p[k]);
  fputs("</html>\n", r->out);
  bool ok = !ferror(r->out);
  return fclose(r->out) == 0 && ok;
}

// Before all the work; what stands there stays until the new page is written.
static bool can_be_written(const char *path) {
  FILE *f = fopen(path, "a");
  if (f) fclose(f);
  else fprintf(stderr, "bench: %s cannot be written: %s\n", path, strerror(errno));
  return f != NULL;
}

int bench_report(const BenchReport *o) {
  if (!can_be_written(o->path)) return 2;
  Report *r = calloc(1, sizeof *r);
  Profile *profiles = calloc(o->n_workloads, sizeof *profiles);
  char failed[1024] = "";
  int n = 0;
  if (r && profiles) {
    r->self = o->self;
    for (int k = 0; k < o->n_pass && r->n_pass < 16; k++) r->pass[r->n_pass++] = o->pass[k];
    for (size_t k = 0; k < o->n_workloads; k++) {
      fprintf(stderr, "%s\n", o->workloads[k]);
      if (!run_workload(r, o->workloads[k]))
        snprintf(failed + strlen(failed), sizeof failed - strlen(failed), " %s", o->workloads[k]);
      Profile *p = &profiles[n];
      p->workload = o->workloads[k];
      if ((p->n = run_profile(r, p->workload, p->row))) n++;
    }
  }
  bool ok = r && profiles && write_page(r, o->path, profiles, n, failed);
  if (!ok) fprintf(stderr, "bench: %s cannot be written\n", o->path);
  else printf("%s: %d cases%s%s\n", o->path, r->n, *failed ? ", failed:" : "", failed);
  free(r);
  free(profiles);
  return ok && !*failed ? 0 : 1;
}
