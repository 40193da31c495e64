// tenure fit --lengths FILE: batches of sequences of these lengths, filled in several ways to the same limits: how full they
// are, what padding would add, and the bounds that a program needs for them.
#include "runtime/data/row_batches.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_BATCH = 32, MOST_PLANS = 16, STEPS = 512 /* between which bounds of buckets are chosen */ };

typedef struct {
  const char *name, *sampler;  // as the tool and as the API say it
  RtSamplerKind kind;
  bool by_items;  // a number of items in place of the limits: what simple batches are
} Way;
static const Way ways[] = {{"in order, by items", "TN_SEQUENTIAL", RT_SEQUENTIAL, true},
                           {"in order", "TN_SEQUENTIAL", RT_SEQUENTIAL, false},
                           {"shuffled", "TN_SHUFFLED", RT_SHUFFLED, false},
                           {"buckets", "TN_BUCKETS", RT_BUCKETS, false},
                           {"first fit", "TN_FIRST_FIT", RT_FIRST_FIT, false}};
enum { N_WAYS = sizeof ways / sizeof *ways };

// Of the batches of one epoch; `most` of one batch
typedef struct {
  int64_t batches, sequences, skipped, rows, padded, most_items, most_rows, most_padded, most_squares, longest;
  double squares;
} Figures;

typedef struct {
  const CliArgs *args;
  const char *path;
  RtArena *mem;
  int64_t *lengths, *sorted;
  size_t n;
  int64_t rows, batch, max_length, max_rows, max_padded, max_squares, pool, seed, n_plans;
  bool skips;
  Figures of[N_WAYS];
  int64_t area[STEPS + 1];  // by longest sequence in steps: items of the batches of buckets
  int64_t step, plans[MOST_PLANS];
} Lengths;

// ---- the file
static bool take_number(Lengths *t, const char **at, size_t line) {
  char *end;
  errno = 0;
  long long x = strtoll(*at, &end, 10);
  bool good = end != *at && !errno && x >= 0 && x <= INT64_C(1) << 40 && strchr(" \t\r\n", *end);
  if (!good)
    return fprintf(stderr, "tenure: %s:%zu: a length is a whole number from 0 to 2^40, found '%.*s'\n", t->path, line,
                   (int)strcspn(*at, " \t\r\n"), *at),
           false;
  t->lengths[t->n++] = x, t->rows += x;
  *at = end;
  return true;
}

static bool read_lengths(Lengths *t) {
  size_t size, line = 1;
  char *text = tool_read_file(t->mem, t->path, &size);
  if (!text) return fprintf(stderr, "tenure: %s: %s\n", t->path, strerror(errno)), false;
  if (!strcmp(t->path, "-")) t->path = "<stdin>";
  t->lengths = rt_alloc(t->mem, (size / 2 + 1) * sizeof *t->lengths);
  for (const char *at = text; *at;) {
    if (strchr(" \t\r\n", *at)) line += *at++ == '\n';
    else if (!take_number(t, &at, line)) return false;
  }
  bool is_text = strlen(text) == size;
  if (!t->n || !is_text) fprintf(stderr, "tenure: %s has %s\n", t->path, is_text ? "no lengths" : "a byte 0");
  return t->n && is_text;
}

static int by_number(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void sort_lengths(Lengths *t) {
  t->sorted = rt_alloc(t->mem, t->n * sizeof *t->sorted);
  memcpy(t->sorted, t->lengths, t->n * sizeof *t->sorted);
  qsort(t->sorted, t->n, sizeof *t->sorted, by_number);
}

// The shortest length that so many in a hundred do not exceed
static int64_t at_percent(const Lengths *t, size_t percent) { return t->sorted[(t->n - 1) * percent / 100]; }
static int64_t longest(const Lengths *t) { return t->sorted[t->n - 1]; }

// ---- batches
static RtSampler sampler_of(const Lengths *t, const Way *way) {
  RtSampler s = {.kind = way->kind,
                 .pool = (uint32_t)t->pool,
                 .max_length = t->max_length,
                 .world = 1,
                 .seed = (uint64_t)t->seed,
                 .lengths = t->lengths,
                 .cut = t->skips ? RT_CUT_SKIP : RT_CUT_LONG};
  if (way->by_items) {  // as many as have the limit's rows on average
    int64_t limit = rt_row_limit(&(RtSampler){.max_rows = t->max_rows, .max_padded = t->max_padded});
    int64_t n = t->batch ? t->batch : USUAL_BATCH;
    if (limit < INT64_MAX && t->rows) n = (int64_t)((double)limit * (double)t->n / (double)t->rows);
    s.batch_size = n < 1 ? 1 : t->batch && n > t->batch ? (size_t)t->batch : (size_t)n;
    s.max_rows = INT64_C(1) << 60;
    return s;
  }
  s.max_rows = t->max_rows, s.max_padded = t->max_padded, s.max_squares = t->max_squares;
  s.batch_size = t->batch ? (size_t)t->batch : (size_t)rt_row_limit(&s);
  return s;
}

static void keep_most(int64_t *most, int64_t x) {
  if (x > *most) *most = x;
}

static void add_batch(Lengths *t, Figures *f, const RtItemPart *p, size_t n, bool counts_area) {
  int64_t rows = 0, squares = 0, top = 0;
  for (size_t i = 0; i < n; i++) {
    rows += p[i].n;
    if (p[i].n > INT32_MAX || __builtin_add_overflow(squares, p[i].n * p[i].n, &squares)) squares = INT64_MAX;
    keep_most(&top, p[i].n);
  }
  f->batches++, f->sequences += (int64_t)n, f->rows += rows, f->padded += (int64_t)n * top,
      f->squares += (double)squares;
  keep_most(&f->most_items, (int64_t)n), keep_most(&f->most_rows, rows), keep_most(&f->most_squares, squares);
  keep_most(&f->most_padded, (int64_t)n * top), keep_most(&f->longest, top);
  if (counts_area) t->area[(top + t->step - 1) / t->step] += (int64_t)n;
}

static bool try_way(Lengths *t, uint32_t k) {
  char why[512];
  RtDataset d = {.count = t->n};
  RtRowBatches b;
  RtSampler s = sampler_of(t, &ways[k]);
  bool ok = rt_row_batches_init(&b, &s, &d, why, sizeof why);
  if (ok) rt_row_batches_plan(&b, 0);
  for (size_t i = 0, n; ok && i < rt_row_batches_count(&b); i++) {
    const RtItemPart *p = rt_row_batches_at(&b, i, &n);
    add_batch(t, &t->of[k], p, n, ways[k].kind == RT_BUCKETS);
  }
  t->of[k].skipped = (int64_t)b.n_skipped;
  rt_row_batches_free(&b);
  return ok || (fprintf(stderr, "tenure: %s\n", why), false);
}

// ---- bounds of the time axis for several plans: a batch runs in the smallest that holds it, which has room for
// items times bound. The least sum of that, by dynamic programming: least[p][b] is that of batches of up to b steps in p
// plans, the largest of which has the bound b.
static void choose_plans(Lengths *t) {
  static double least[MOST_PLANS + 1][STEPS + 1];
  static int from[MOST_PLANS + 1][STEPS + 1];
  int last = (int)((longest(t) + t->step - 1) / t->step);
  for (int b = 0; b <= last; b++) least[0][b] = b ? 1e300 : 0;
  for (int p = 1; p <= t->n_plans; p++)
    for (int b = 0; b <= last; b++) {
      double items = 0;
      least[p][b] = 1e300, from[p][b] = b;
      for (int a = b; a >= 0; a--) {  // the plan below has the bound a
        double sum = least[p - 1][a] + items * b;
        if (sum < least[p][b]) least[p][b] = sum, from[p][b] = a;
        items += (double)t->area[a];
      }
    }
  int b = last;
  int64_t all[MOST_PLANS], n = 0;
  for (int64_t p = t->n_plans; p > 0; b = from[p--][b]) all[p - 1] = b == last ? longest(t) : b * t->step;
  for (int64_t k = 0; k < t->n_plans; k++)  // fewer plans may do
    if (k == 0 || all[k] > all[k - 1]) t->plans[n++] = all[k];
  t->n_plans = n;
}

// Room in the plans that are run, in rows of all batches.
static int64_t room_of(const Lengths *t, int64_t n_plans) {
  int64_t sum = 0;
  for (int64_t k = 0, i = n_plans == 1 ? t->n_plans - 1 : 0; k <= STEPS; k++) {
    while (i + 1 < t->n_plans && k * t->step > t->plans[i]) i++;
    sum += t->area[k] * t->plans[i];
  }
  return sum;
}

// ---- printing
static double percent(int64_t part, int64_t whole) { return whole ? 100 * (double)part / (double)whole : 0; }

// Of the limit, or of the largest batch where a number of items is the limit: rows, or squares where they alone are limited.
static double fill_of(const Lengths *t, uint32_t k) {
  const Figures *f = &t->of[k];
  bool of_squares = !t->max_rows && !t->max_padded;
  int64_t limit = t->max_rows ? t->max_rows : t->max_padded ? t->max_padded : t->max_squares;
  if (ways[k].by_items) limit = of_squares ? f->most_squares : f->most_rows;
  double all = (double)limit * (double)f->batches;
  return all > 0 ? 100 * (of_squares ? f->squares : (double)f->rows) / all : 0;
}

static void put_summary(const Lengths *t, RtText *out) {
  RtArena *mem = out->mem;
  rt_text_add(out, "%s lengths from %s to %s, %s rows: mean %.1f, median %s, 9 in 10 up to %s, 99 in 100 up to %s\n",
              tool_grouped(mem, (int64_t)t->n), tool_grouped(mem, t->sorted[0]), tool_grouped(mem, longest(t)),
              tool_grouped(mem, t->rows), (double)t->rows / (double)t->n, tool_grouped(mem, at_percent(t, 50)),
              tool_grouped(mem, at_percent(t, 90)), tool_grouped(mem, at_percent(t, 99)));
  const struct {
    const char *name;
    int64_t limit;
  } limits[] = {{"batch_size", t->batch},
                {"max_length", t->max_length},
                {"max_rows", t->max_rows},
                {"max_padded", t->max_padded},
                {"max_squares", t->max_squares}};
  rt_text_add(out, "batches of at most");
  for (size_t k = 0, n = 0; k < sizeof limits / sizeof *limits; k++)
    if (limits[k].limit)
      rt_text_add(out, "%s %s %s", n++ ? "," : "", limits[k].name, tool_grouped(mem, limits[k].limit));
  rt_text_add(out, "\n\n");
}

static void put_table(const Lengths *t, RtText *out) {
  RtArena *mem = out->mem;
  rt_text_add(out, "%-20s %9s %9s %7s %9s   %s\n", "", "batches", "sequences", "fill", "padding", "largest batch");
  rt_text_add(out, "%-20s %9s %9s %7s %9s %9s %11s %11s %9s\n", "", "", "", "", "avoided", "items", "rows", "padded",
              "longest");
  for (uint32_t k = 0; k < N_WAYS; k++) {
    const Figures *f = &t->of[k];
    rt_text_add(out, "%-20s %9s %9s %5.1f %% %7.1f %% %9s %11s %11s %9s\n", ways[k].name, tool_grouped(mem, f->batches),
                tool_grouped(mem, f->sequences), fill_of(t, k), percent(f->padded - f->rows, f->padded),
                tool_grouped(mem, f->most_items), tool_grouped(mem, f->most_rows), tool_grouped(mem, f->most_padded),
                tool_grouped(mem, f->longest));
  }
  if (t->of[1].skipped) rt_text_add(out, "\n%s are too long and left out\n", tool_grouped(mem, t->of[1].skipped));
}

static uint32_t way_of(RtSamplerKind kind) {
  uint32_t k = 0;
  while (ways[k].kind != kind) k++;
  return k;
}

static void put_bounds(const Lengths *t, RtText *out) {
  const Figures *b = &t->of[way_of(RT_BUCKETS)], *f = &t->of[way_of(RT_FIRST_FIT)];
  int64_t items = b->most_items > f->most_items ? b->most_items : f->most_items;
  int64_t rows = t->max_rows ? t->max_rows : b->most_rows > f->most_rows ? b->most_rows : f->most_rows;
  rt_text_add(out, "\nbounds: batch %lld%s, time %lld, rows %lld%s", (long long)(t->batch ? t->batch : items),
              t->batch ? "" : " in this epoch (--batch limits all)", (long long)b->longest, (long long)rows,
              t->max_rows ? "" : " in this epoch (--max-rows limits all)");
  for (int64_t k = 0; k + 1 < t->n_plans; k++)
    rt_text_add(out, "%s %lld", k ? "," : "; buckets of time", (long long)t->plans[k]);
  if (t->n_plans > 1)
    rt_text_add(out, ": the plans that are run have room for %.1f %% of what one plan has",
                percent(room_of(t, t->n_plans), room_of(t, 1)));
  rt_text_add(out, "\n");
}

static void put_json(const Lengths *t, RtText *out) {
  json_open(out, NULL, '{');
  json_int(out, "lengths", (int64_t)t->n);
  json_int(out, "rows", t->rows);
  json_int(out, "longest", longest(t));
  json_open(out, "ways", '[');
  for (uint32_t k = 0; k < N_WAYS; k++) {
    const Figures *f = &t->of[k];
    json_open(out, NULL, '{');
    json_text(out, "name", ways[k].name), json_text(out, "sampler", ways[k].sampler);
    json_int(out, "batches", f->batches), json_int(out, "sequences", f->sequences),
        json_int(out, "skipped", f->skipped);
    json_int(out, "rows", f->rows), json_int(out, "padded", f->padded), json_number(out, "fill_percent", fill_of(t, k));
    json_int(out, "most_items", f->most_items), json_int(out, "most_rows", f->most_rows);
    json_int(out, "most_padded", f->most_padded), json_int(out, "most_squares", f->most_squares);
    json_int(out, "longest", f->longest);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_open(out, "time_buckets", '[');
  for (int64_t k = 0; k < t->n_plans; k++) json_int(out, NULL, t->plans[k]);
  json_close(out, ']');
  json_int(out, "room", room_of(t, t->n_plans)), json_int(out, "room_of_one_plan", room_of(t, 1));
  json_close(out, '}');
  rt_text_add(out, "\n");
}

static int fit_lengths(RtArena *mem, void *ctx) {
  Lengths *t = ctx;
  t->mem = mem;
  if (!read_lengths(t)) return EXIT_ERRORS;
  sort_lengths(t);
  t->step = longest(t) / STEPS + 1;
  if (!t->max_rows && !t->max_padded && !t->max_squares) {  // as many rows as the usual batch has on average
    int64_t rows = (int64_t)((double)(t->batch ? t->batch : USUAL_BATCH) * (double)t->rows / (double)t->n);
    int64_t least = t->max_length && t->max_length < longest(t) ? t->max_length : longest(t) ? longest(t) : 1;
    t->max_rows = rows > least ? rows : least;
  }
  for (uint32_t k = 0; k < N_WAYS; k++)
    if (!try_way(t, k)) return EXIT_ERRORS;
  choose_plans(t);
  RtText out = {.mem = mem};
  if (cli_has(t->args, "--json")) put_json(t, &out);
  else put_summary(t, &out), put_table(t, &out), put_bounds(t, &out);
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

int tool_fit_lengths(const CliArgs *a) {
  const CliRange limit = {1, INT64_C(1) << 60}, number = {0, INT64_MAX};
  Lengths t = {.args = a, .path = cli_value(a, "--lengths"), .skips = cli_has(a, "--skip")};
  if (a->n_operands || cli_has(a, "--memory") || cli_has(a, "--dim") || cli_has(a, "--function"))
    return cli_usage_error(a, "--lengths is about a file of lengths alone: no FILE.tir, --memory, --dim or --function");
  if (!cli_number(a, "--batch", (CliRange){1, INT64_C(1) << 40}, 0, &t.batch)) return EXIT_USAGE;
  if (!cli_number(a, "--max-length", limit, 0, &t.max_length)) return EXIT_USAGE;
  if (!cli_number(a, "--max-rows", limit, 0, &t.max_rows)) return EXIT_USAGE;
  if (!cli_number(a, "--max-padded", limit, 0, &t.max_padded)) return EXIT_USAGE;
  if (!cli_number(a, "--max-squares", limit, 0, &t.max_squares)) return EXIT_USAGE;
  if (!cli_number(a, "--pool", (CliRange){1, 1 << 20}, 16, &t.pool)) return EXIT_USAGE;
  if (!cli_number(a, "--buckets", (CliRange){1, MOST_PLANS}, 4, &t.n_plans)) return EXIT_USAGE;
  if (!cli_number(a, "--seed", number, 0, &t.seed)) return EXIT_USAGE;
  return tool_with_arena(fit_lengths, &t);
}
