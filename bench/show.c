// What bursts found, as text and as JSON.
#include "bench/measure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double FAR_FROM_LIMIT = 0.6;  // docs/performance.md says why, of the cases of `sweep`

static double compile_ms(const tn_compile_info *c) { return c->build_ms + c->passes_ms + c->codegen_ms + c->load_ms; }

static double ratio_min(const Outcome *r, int k) { return r->theirs[k].min / r->ours.min; }

static double ratio_median(const Outcome *r, int k) {
  return bench_median(r->theirs[k].medians, r->theirs[k].n) / bench_median(r->ours.medians, r->ours.n);
}

// ---- one case
static void print_times(const char *name, const Times *t) {
  bool small = t->min < 0.1;
  double unit = small ? 1e3 : 1;
  printf("%-13s min %9.3f %s  median %9.3f %s  (%d bursts of %ld)\n", name, t->min * unit, small ? "us" : "ms",
         bench_median(t->medians, t->n) * unit, small ? "us" : "ms", t->n, t->steps);
}

// 1234567 flops: "1.23 MFLOP"
static void print_amount(double n, const char *unit) {
  const char *prefix = n < 1e3 ? "" : n < 1e6 ? "k" : n < 1e9 ? "M" : "G";
  printf("%.3g %s%s", n < 1e3 ? n : n < 1e6 ? n * 1e-3 : n < 1e9 ? n * 1e-6 : n * 1e-9, prefix, unit);
}

static void print_time(double ms) {
  if (ms < 1e-3) printf("%.3g ns", ms * 1e6);
  else if (ms < 0.1) printf("%.3g us", ms * 1e3);
  else printf("%.3f ms", ms);
}

static void print_limits(const Case *c) {
  const Outcome *r = &c->r;
  Limit l = bench_limit(c);
  double ms = r->ours.min;
  printf("machine       %.0f GFLOP/s, %.1f GB/s%s (%u threads, this run)\n", r->gflops, r->gbs,
         c->w->bandwidth ? c->w->bandwidth->what : "", r->n_workers);
  if (l.by_flops > 0) {
    printf("arithmetic    "), print_amount(c->flops, "FLOP"), printf(": "), print_time(l.by_flops);
    printf(" at peak, reached %.3g GFLOP/s, %.3g %%\n", c->flops / ms * 1e-6, 100 * l.by_flops / ms);
  }
  if (c->bytes > 0) {
    printf("memory        "), print_amount(c->bytes, "B"), printf(": "), print_time(l.by_bytes);
    if (c->counted) printf(" at %.1f GB/s, as arrays of so many bytes have", r->sized_gbs);
    else printf(" at that bandwidth");
    printf(", reached %.1f GB/s, %.3g %%\n", c->bytes / ms * 1e-6, 100 * l.by_bytes / ms);
  }
  if (l.share > 0)
    printf("limit         %s, %s: %.3g %% of what it allows is reached\n", l.holds,
           c->counted ? "as the compiler counts the step" : "by the workload's own figures", 100 * l.share);
}

static void print_arena(const Case *c) {
  const tn_plan *p = &c->r.plan;
  if (!p->peak_bytes) return;
  printf("arena         %.1f MB at its peak, lower bound %.1f MB, gap %.2f %%, %.1f MB of any order; %u kernels; "
         "parameters and state %.1f MB\n",
         (double)p->peak_bytes * 1e-6, (double)p->lower_bound * 1e-6,
         100 * (double)(p->peak_bytes - p->lower_bound) / (double)p->peak_bytes, (double)p->order_bound * 1e-6,
         p->n_kernels, (double)p->param_bytes * 1e-6);
}

// The fastest way of a peer, and what the others took.
static void print_ways(const Options *o, const Case *c, int k) {
  printf("best way      %s\n", c->r.way[k]);
  for (int i = 0; i < bench_n_ways(o, c->w, o->vs[k]); i++) {
    const char *name = bench_way(c->w, o->vs[k], i)->name;
    double ms = c->r.ways[k][i];
    if (!strcmp(name, c->r.way[k])) continue;
    if (ms > 0) printf("other way     %s: %.3f ms, ratio-min %.2f\n", name, ms, ms / c->r.ours.min);
    else printf("other way     %s: cannot compute it\n", name);
  }
}

static void print_text(const Options *o, const Case *c) {
  const Outcome *r = &c->r;
  printf("%s: %s\n", c->w->name, *c->variant ? c->variant : c->w->what);
  printf("compile       %.1f ms%s, %u kernels, %u distinct; peak resident memory %.0f MB\n", compile_ms(&r->compiled),
         r->compiled.from_cache ? " (from the cache)" : "", r->compiled.n_kernels, r->compiled.n_distinct_kernels,
         r->rss);
  print_limits(c);
  print_arena(c);
  print_times("tenure", &r->ours);
  for (int k = 0; k < o->n_vs; k++) {
    print_times(o->vs[k], &r->theirs[k]);
    print_ways(o, c, k);
    if (r->peer_rss[k] > 0)
      printf("memory        %s had %.0f MB resident at most, %.0f MB more than before its first step\n", o->vs[k],
             r->peer_rss[k], r->peer_growth[k]);
    printf("check         tenure %.8g, %s %.8g\n", r->loss, o->vs[k], r->peer_loss[k]);
  }
  if (!o->n_vs) printf("no peer: --vs torch --python PATH compares with a Python that has PyTorch\n");
}

static void print_json(const Options *o, const Case *c) {
  const Outcome *r = &c->r;
  Limit l = bench_limit(c);
  printf("{\"workload\": \"%s\", \"case\": \"%s\", \"workers\": %u, \"peak_gflops\": %.1f, \"bandwidth_gbs\": %.2f, "
         "\"flops\": %.0f, \"bytes\": %.0f, \"limit\": \"%s\", \"reached\": %.4f, \"compile_ms\": %.2f, "
         "\"from_cache\": %s, \"peak_rss_mb\": %.1f, ",
         c->w->name, c->variant, r->n_workers, r->gflops, r->gbs, c->flops, c->bytes, l.holds, l.share,
         compile_ms(&r->compiled), r->compiled.from_cache ? "true" : "false", r->rss);
  printf("\"loss\": %.9g, \"tenure\": {\"min_ms\": %.6f, \"median_ms\": %.6f}, \"peers\": [", r->loss, r->ours.min,
         bench_median(r->ours.medians, r->ours.n));
  for (int k = 0; k < o->n_vs; k++)
    printf("%s{\"name\": \"%s\", \"way\": \"%s\", \"loss\": %.9g, \"min_ms\": %.6f, \"median_ms\": %.6f, "
           "\"ratio_min\": %.3f, "
           "\"ratio_median\": %.3f}",
           k ? ", " : "", o->vs[k], r->way[k], r->peer_loss[k], r->theirs[k].min,
           bench_median(r->theirs[k].medians, r->theirs[k].n), ratio_min(r, k), ratio_median(r, k));
  printf("]}\n");
}

void bench_show(const Options *o, const Case *c) {
  (o->json ? print_json : print_text)(o, c);
  fflush(stdout);
}

// ---- all cases
static void add_behind(Listed *to, const char *variant, const char *what, double ratio, double share) {
  if (to->n < MAX_BEHIND) to->list[to->n++] = (Behind){variant, what, ratio, share};
}

void bench_sum(const Options *o, const Case *c, Summary *s) {
  const Outcome *r = &c->r;
  Limit l = bench_limit(c);
  double reached = l.share;
  if (reached > 0) s->log_share += log(reached), s->n_share++;
  if (reached > 0 && reached < FAR_FROM_LIMIT) add_behind(&s->far, c->variant, l.holds, reached, reached);
  s->n_disturbed += r->n_disturbed > 0;
  for (int k = 0; k < o->n_vs; k++) {
    double ratio = ratio_min(r, k);
    s->log_min[k] += log(ratio);
    s->log_median[k] += log(ratio_median(r, k));
    if (!s->n || ratio < s->worst[k]) s->worst[k] = ratio, s->worst_case[k] = c->variant, s->worst_way[k] = r->way[k];
    if (ratio < 1) add_behind(&s->slower, c->variant, o->vs[k], ratio, reached);
  }
  s->n++;
  if (!c->w->is_large || !c->w->is_large(c->variant) || r->gflops <= 0) return;
  double share = c->flops / r->ours.min * 1e-6 / r->gflops;
  s->peak_sum += share;
  if (!s->n_peak++ || share < s->peak_least) s->peak_least = share, s->peak_case = c->variant;
}

static int by_ratio(const void *a, const void *b) {
  double x = ((const Behind *)a)->ratio, y = ((const Behind *)b)->ratio;
  return (x > y) - (x < y);
}

// What is slower than a peer, the slowest first
static void show_slower(Summary *s) {
  Listed *l = &s->slower;
  if (!l->n || s->n < 2) return;
  qsort(l->list, (size_t)l->n, sizeof *l->list, by_ratio);
  printf("%d of %d cases are slower than a peer%s:\n", l->n, s->n, l->n == MAX_BEHIND ? " at least" : "");
  for (int k = 0; k < l->n; k++) {
    const Behind *b = &l->list[k];
    printf("  %.2f of %-14s %s", b->ratio, b->what, b->variant);
    if (b->share > 0) printf(", at %.3g %% of the limit", 100 * b->share);
    putchar('\n');
  }
}

// What is far from its limit, the farthest first
static void show_far(Summary *s) {
  Listed *l = &s->far;
  if (!l->n || s->n < 2) return;
  qsort(l->list, (size_t)l->n, sizeof *l->list, by_ratio);
  printf("%d of %d cases reach less than %.0f %% of their limit:\n", l->n, s->n, 100 * FAR_FROM_LIMIT);
  for (int k = 0; k < l->n; k++)
    printf("  %4.1f %% of %-10s %s\n", 100 * l->list[k].share, l->list[k].what, l->list[k].variant);
}

void bench_show_summary(const Options *o, const Workload *w, Summary *s) {
  int hardest = 0;
  if (o->json || !s->n) return;
  for (int k = 0; k < o->n_vs; k++) {
    if (s->log_min[k] < s->log_min[hardest]) hardest = k;
    if (s->n > 1)
      printf("%s, %d cases against %s: ratio-min at least %.2f (%s), %.2f in geometric mean\n", w->name, s->n, o->vs[k],
             s->worst[k], s->worst_case[k], exp(s->log_min[k] / s->n));
    else if (o->n_vs > 1) printf("%s against %s: ratio-min %.2f\n", w->name, o->vs[k], exp(s->log_min[k]));
  }
  if (s->n_peak > 1)
    printf("%s, %d cases with %s: at least %.0f %% of the FMA peak (%s), %.0f %% on average\n", w->name, s->n_peak,
           w->large, 100 * s->peak_least, s->peak_case, 100 * s->peak_sum / s->n_peak);
  show_far(s);
  show_slower(s);
  if (s->n_disturbed)
    printf("other programs had a part of the CPUs in %d of %d cases: their times are too long\n", s->n_disturbed, s->n);
  if (!o->n_vs) return;
  printf("%s ", w->name);
  if (s->n_share) printf("reaches %.0f %% of its limit%s, ", 100 * exp(s->log_share / s->n_share), s->n > 1 ? "s" : "");
  printf("ratio-min %.2f ratio-median %.2f beside %s", exp(s->log_min[hardest] / s->n),
         exp(s->log_median[hardest] / s->n), o->vs[hardest]);
  printf(s->n > 1 ? "\n" : " (%s)\n", s->worst_way[hardest]);
}
