// The report as a Markdown table, between two lines of a page that say where it stands:
//
//   <!-- bench table: written by tools/bench --report -->
//   ...                                                        replaced
//   <!-- end of bench table -->
//
// The page is replaced as a whole, by a rename, when the new one is complete.
#include "bench/report.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char begins[] = "<!-- bench table: written by tools/bench --report -->\n";
static const char ends[] = "<!-- end of bench table -->\n";

// ---- the page around the table
static char *read_page(const char *path) {
  FILE *in = fopen(path, "rb");
  char *text = NULL;
  size_t size = 0;
  FILE *all = in ? open_memstream(&text, &size) : NULL;
  for (int c; all && (c = getc(in)) != EOF;) putc(c, all);
  if (all) fclose(all);
  if (in) fclose(in);
  return text;
}

// The table's place in a page: *head ends behind the first marker, *tail begins with the second one.
static bool find_place(char *page, char **head_end, char **tail) {
  char *at = page ? strstr(page, begins) : NULL;
  if (!at) return false;
  *head_end = at + strlen(begins);
  *tail = strstr(*head_end, ends);
  return *tail != NULL;
}

bool bench_table_has_place(const char *path) {
  char *page = read_page(path), *head_end, *tail;
  bool ok = find_place(page, &head_end, &tail);
  if (!page) fprintf(stderr, "bench: %s cannot be read: %s\n", path, strerror(errno));
  else if (!ok)
    fprintf(stderr, "bench: %s lacks the lines '%.*s' and '%.*s'\n", path, (int)strlen(begins) - 1, begins,
            (int)strlen(ends) - 1, ends);
  free(page);
  return ok;
}

// ---- rows
static void put_time(FILE *out, double ms) {
  if (ms < 0.1) fprintf(out, " %.3g us |", 1e3 * ms);
  else fprintf(out, " %.3g ms |", ms);
}

// What bounds a call, and how near it came.
static void put_reached(FILE *out, const ReportCase *c) {
  if (c->reached > 0)
    fprintf(out, " %.3g %% of the %s |", 100 * c->reached, strcmp(c->limit, "memory") ? "FMA peak" : "bandwidth");
  else fputs(" |", out);
}

static void put_single(FILE *out, const ReportCase *c) {
  fprintf(out, "| `%s` |", c->workload);
  put_time(out, c->min_ms);
  if (c->ratio > 0) {
    fprintf(out, " %s |", c->peer);
    put_time(out, c->peer_ms);
    fprintf(out, " %.2f | %.2f |", c->ratio, c->ratio_median);
  } else fputs(" | | | |", out);
  put_reached(out, c);
  fprintf(out, " %.0f ms | %.0f MB |\n", c->compile_ms, c->rss);
}

static bool is_same(const ReportCase *a, const ReportCase *b) {
  return !strcmp(a->workload, b->workload) && !strcmp(a->peer, b->peer);
}

// All cases of a workload against one peer: the least ratio, and geometric means.
static void put_several(FILE *out, const Report *r, const ReportCase *first, int n) {
  double least = INFINITY, log_min = 0, log_median = 0, rss = 0;
  for (int k = 0; k < r->n; k++) {
    const ReportCase *c = &r->cases[k];
    if (!is_same(c, first)) continue;
    least = fmin(least, c->ratio), rss = fmax(rss, c->rss);
    log_min += log(c->ratio), log_median += log(c->ratio_median);
  }
  fprintf(out, "| `%s`, %d cases | |", first->workload, n);
  if (first->ratio > 0)
    fprintf(out, " %s | | least %.2f, geometric mean %.2f | %.2f |", first->peer, least, exp(log_min / n),
            exp(log_median / n));
  else fputs(" | | | |", out);
  fprintf(out, " | | %.0f MB |\n", rss);
}

static void put_rows(FILE *out, const Report *r) {
  for (int k = 0; k < r->n; k++) {
    bool is_first = true;
    int n = 0;
    for (int i = 0; i < r->n; i++) {
      if (!is_same(&r->cases[i], &r->cases[k])) continue;
      n++;
      is_first &= i >= k;
    }
    if (is_first && n == 1) put_single(out, &r->cases[k]);
    else if (is_first) put_several(out, r, &r->cases[k], n);
  }
}

static void put_table(FILE *out, const Report *r) {
  fprintf(out,
          "\nCommit %s, %d threads. Probe, least and most of these runs: %.0f-%.0f GFLOP/s of fused multiply-adds, "
          "%.1f-%.1f GB/s.\n\n",
          r->commit, r->n ? r->cases[0].n_workers : 0, r->least_gflops, r->gflops, r->least_gbs, r->gbs);
  if (*r->failed) fprintf(out, "Failed:%s.\n\n", r->failed);
  fputs("| workload | ours | peer | its time | ratio-min | ratio-median | reached | cold compile | peak memory |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        out);
  put_rows(out, r);
  fputs("\n", out);
}

bool bench_write_table(Report *r, const char *path) {
  char next[4096], *page = read_page(path), *head_end, *tail;
  bool ok = find_place(page, &head_end, &tail) && snprintf(next, sizeof next, "%s.new", path) < (int)sizeof next;
  FILE *out = ok ? fopen(next, "wb") : NULL;
  if (out) {
    fwrite(page, 1, (size_t)(head_end - page), out);
    put_table(out, r);
    fputs(tail, out);
    ok = !ferror(out);
    ok = fclose(out) == 0 && ok && rename(next, path) == 0;
  }
  free(page);
  return out && ok;
}
