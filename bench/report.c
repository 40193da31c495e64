// tenure_bench --report PAGE [--commit TEXT] [--vs PEER --python PATH] [--rounds N] [--workers N] [--root DIR] [WORKLOAD ..]
//
// Runs this program once for each workload (all, unless some are named) and writes what they found: PAGE.md gets the table of
// times and ratios between its two marker lines (report_table.c); any other PAGE becomes an HTML page (report_html.c), for
// which each workload runs once more under TN_PROFILE. A workload that fails is listed.
#include "bench/report.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
  ReportCase c = {.peak_gflops = field(json, "peak_gflops"), .bandwidth = field(json, "bandwidth_gbs")};
  text_field(json, "workload", c.workload);
  text_field(json, "case", c.variant);
  text_field(json, "limit", c.limit);
  const char *ours = strstr(json, "\"tenure\""), *peer = strstr(json, "{\"name\"");
  c.min_ms = ours ? field(ours, "min_ms") : NAN;
  c.peer_ms = c.ratio = c.ratio_median = NAN;
  c.compile_ms = field(json, "compile_ms"), c.rss = field(json, "peak_rss_mb");
  c.reached = field(json, "reached"), c.n_workers = (int)field(json, "workers");
  r->gflops = fmax(r->gflops, c.peak_gflops), r->gbs = fmax(r->gbs, c.bandwidth);
  r->least_gflops = fmin(r->least_gflops, c.peak_gflops), r->least_gbs = fmin(r->least_gbs, c.bandwidth);
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

// Without the object cache, so that the time of the compilation is that of a cold one.
static bool run_workload(Report *r, const char *workload) {
  char line[2048];
  FILE *in = start(r, "TN_CACHE=", workload, "--json --where-there-is");
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

// ---- the report
// Before all the work; what stands there stays until the new page is written.
static bool can_be_written(const char *path) {
  FILE *f = fopen(path, "a");
  if (f) fclose(f);
  else fprintf(stderr, "bench: %s cannot be written: %s\n", path, strerror(errno));
  return f != NULL;
}

static bool is_markdown(const char *path) {
  size_t n = strlen(path);
  return n > 3 && !strcmp(path + n - 3, ".md");
}

static void begin(Report *r, const BenchReport *o) {
  r->self = o->self, r->commit = o->commit ? o->commit : "unknown";
  r->least_gflops = r->least_gbs = INFINITY;
  for (int k = 0; k < o->n_pass && r->n_pass < MAX_PASS; k++) r->pass[r->n_pass++] = o->pass[k];
}

static void run_all(Report *r, const BenchReport *o) {
  for (size_t k = 0; k < o->n_workloads; k++) {
    size_t at = strlen(r->failed);
    fprintf(stderr, "%s\n", o->workloads[k]);
    if (!run_workload(r, o->workloads[k])) snprintf(r->failed + at, sizeof r->failed - at, " %s", o->workloads[k]);
  }
}

static bool write_html(Report *r, const BenchReport *o) {
  Profile *p = calloc(o->n_workloads, sizeof *p);
  int n = 0;
  for (size_t k = 0; p && k < o->n_workloads; k++) {
    p[n].workload = o->workloads[k];
    if ((p[n].n = run_profile(r, o->workloads[k], p[n].row))) n++;
  }
  bool ok = p && bench_write_html(r, o->path, p, n);
  free(p);
  return ok;
}

int bench_report(const BenchReport *o) {
  bool table = is_markdown(o->path);
  if (table ? !bench_table_has_place(o->path) : !can_be_written(o->path)) return 2;
  Report *r = calloc(1, sizeof *r);
  if (r) begin(r, o), run_all(r, o);
  bool ok = r && (table ? bench_write_table(r, o->path) : write_html(r, o)), all = ok && !*r->failed;
  if (!ok) fprintf(stderr, "bench: %s cannot be written\n", o->path);
  else printf("%s: %d cases%s%s\n", o->path, r->n, all ? "" : ", failed:", r->failed);
  free(r);
  return all ? 0 : 1;
}
