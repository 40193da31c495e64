// tenure fit FILE.tir --memory=64MB --dim=batch: the largest bound of a dim whose plan fits, found by planning.
//
// Each try is the program with another bound, planned as tn_compile plans it; what memory it takes is the largest arena
// of its functions and what the program keeps beside: parameters and state, constants, packed weights. Powers of two
// are planned first, since packed weights come and go with the bound; then the gap above the largest that fits is
// halved. Rows of packed layouts and of scans' steps follow the bound.
#include "tools/fit.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "runtime/near.h"
#include "tools/json.h"

#include <errno.h>
#include <string.h>

enum { AT_PEAK = 12, MISSES = 3 /* powers in a row that do not fit end the search */, MOST_POWERS = 24 };

typedef struct {
  int64_t bound, arena, params, consts, packed;
  const char *peak;  // the function with the largest arena
  int64_t limit;     // of the arena, with which it was planned; 0: none
  double again;      // the part of the estimated time that runs again, at most of any function
} Size;

typedef struct {
  const CliArgs *args;
  const char *path, *dim, *function;
  int64_t memory;
  bool recomputes;  // kernels may run again so that it fits
  bool has_ways;    // those to the bound as written are asked for
  RtArena *mem;
  const Prog *p;     // as written
  const char *text;  // printed, with locations
  Size *sizes;       // planned so far, by rising bound
  uint32_t n_sizes, cap_sizes;
} Fit;

static const ToolFn *largest(const Fit *t, const ToolPlan *plan) {
  const ToolFn *best = NULL;
  for (uint32_t k = 0; k < plan->n_fns; k++) {
    const ToolFn *f = &plan->fns[k];
    if (t->function && strcmp(tool_fn_name(f), t->function)) continue;
    if (!best || f->f->stats.peak_bytes > best->f->stats.peak_bytes) best = f;
  }
  return best;
}

static bool plan_at(const Fit *t, RtArena *mem, int64_t bound, ToolPlan *plan) {
  const char *text = tool_with_bound(t->p, t->text, mem, ir_dim_find(t->p, t->dim), bound);
  if (tool_plan_text(plan, mem, text, strlen(text), t->path)) return true;
  fprintf(stderr, "tenure: no plan with %s <= %lld\n", t->dim, (long long)bound);
  return false;
}

typedef struct {
  Fit *fit;
  int64_t bound;
  Size size;
} Try;

static int64_t total(const Size *s) { return s->arena + s->params + s->consts + s->packed; }

static Size size_of(const Try *try, const ToolPlan *plan) {
  const ToolFn *f = largest(try->fit, plan);
  Size s = {.bound = try->bound,
            .arena = f ? f->f->stats.peak_bytes : 0,
            .params = plan->p->param_bytes,
            .consts = plan->p->const_bytes,
            .packed = plan->p->packed_bytes,
            .peak = f ? rt_strdup(try->fit->mem, tool_fn_name(f)) : ""};
  for (uint32_t k = 0; k < plan->n_fns; k++) {
    if (try->fit->function && strcmp(tool_fn_name(&plan->fns[k]), try->fit->function)) continue;
    double again = tool_again_part(plan->fns[k].f);
    if (again > s.again) s.again = again;
  }
  return s;
}

// What does not fit is planned once more with the arena that is left, in which kernels may run again.
static int measure(RtArena *mem, void *ctx) {
  Try *try = ctx;
  const Fit *t = try->fit;
  ToolPlan plan = {0};
  if (!plan_at(t, mem, try->bound, &plan)) return EXIT_ERRORS;
  try->size = size_of(try, &plan);
  int64_t left = t->memory - (total(&try->size) - try->size.arena);
  if (!t->recomputes || left >= try->size.arena || left <= 0) return 0;
  ToolPlan less = {.arena_limit = left, .recomputes = true, .limited = t->function};
  const char *text = tool_with_bound(t->p, t->text, mem, ir_dim_find(t->p, t->dim), try->bound);
  if (!tool_plan_quietly(&less, mem, text, t->path)) return 0;
  try->size = size_of(try, &less);
  try->size.limit = left;
  return 0;
}

// Plans in an arena of its own and keeps the figures, in order. NULL: said why.
static Size *size_at(Fit *t, int64_t bound) {
  Try try = {.fit = t, .bound = bound};
  if (tool_with_arena(measure, &try)) return NULL;
  uint32_t at = t->n_sizes;
  RT_PUSH(t->mem, t->sizes, t->n_sizes, t->cap_sizes);
  for (; at && t->sizes[at - 1].bound > bound; at--) t->sizes[at] = t->sizes[at - 1];
  t->sizes[at] = try.size;
  return &t->sizes[at];
}

// ---- searching
// The largest bound that fits and is known to: 0: none. *misses: the smallest power above it that does not.
static bool try_powers(Fit *t, int64_t *fits, int64_t *misses) {
  uint32_t missed = 0;
  *fits = 0, *misses = 1;
  for (uint32_t k = 0; k < MOST_POWERS && missed < MISSES; k++) {
    const Size *s = size_at(t, INT64_C(1) << k);
    if (!s) return false;
    bool good = total(s) <= t->memory;
    missed = good ? 0 : missed + 1;
    if (good) *fits = s->bound, *misses = 2 * s->bound;
  }
  return true;
}

static bool halve(Fit *t, int64_t *fits, int64_t misses) {
  while (*fits && misses - *fits > 1) {
    int64_t middle = *fits + (misses - *fits) / 2;
    const Size *s = size_at(t, middle);
    if (!s) return false;
    if (total(s) <= t->memory) *fits = middle;
    else misses = middle;
  }
  return true;
}

// ---- printing
static bool is_power(int64_t n) { return (n & (n - 1)) == 0; }

static void put_table(const Fit *t, int64_t fits, RtText *out) {
  RtArena *mem = out->mem;
  rt_text_add(out, "%10s %12s %12s %12s %14s %12s\n", t->dim, "arena", "parameters", "constants", "packed weights",
              "sum");
  for (uint32_t k = 0; k < t->n_sizes; k++) {
    const Size *s = &t->sizes[k];
    if (!is_power(s->bound) && s->bound != fits && s->bound != fits + 1) continue;
    const char *again = s->limit ? rt_printf(mem, ", %.1f %% of the time again", 100 * s->again) : "";
    rt_text_add(out, "%10lld %12s %12s %12s %14s %12s%s%s\n", (long long)s->bound, tool_bytes(mem, s->arena),
                tool_bytes(mem, s->params), tool_bytes(mem, s->consts), tool_bytes(mem, s->packed),
                tool_bytes(mem, total(s)), total(s) <= t->memory ? s->bound == fits ? "  <- fits" : "" : "  too large",
                again);
  }
}

static void json_sizes(const Fit *t, RtText *out) {
  json_open(out, "sizes", '[');
  for (uint32_t k = 0; k < t->n_sizes; k++) {
    const Size *s = &t->sizes[k];
    json_open(out, NULL, '{');
    json_int(out, "bound", s->bound);
    json_int(out, "arena", s->arena);
    json_number(out, "again", s->again);
    json_int(out, "parameters", s->params);
    json_int(out, "constants", s->consts);
    json_int(out, "packed_weights", s->packed);
    json_int(out, "total", total(s));
    json_text(out, "function", s->peak);
    json_bool(out, "fits", total(s) <= t->memory);
    json_close(out, '}');
  }
  json_close(out, ']');
}

static int print(const Fit *t, int64_t fits) {
  RtText out = {.mem = t->mem};
  int64_t shown = fits ? fits : 1;
  ToolPlan plan = {.limited = t->function};
  for (uint32_t k = 0; k < t->n_sizes; k++)
    if (t->sizes[k].bound == shown) plan.arena_limit = t->sizes[k].limit;
  plan.recomputes = plan.arena_limit > 0;
  bool as_json = cli_has(t->args, "--json");
  if (!plan_at(t, t->mem, shown, &plan)) return EXIT_ERRORS;
  const ToolFn *f = largest(t, &plan);
  const FitAsk ask = {t->mem, t->path, t->text, t->function, t->p, ir_dim_find(t->p, t->dim), t->memory, t->recomputes};
  FitWays ways = {.n = 0};
  if (t->has_ways) ways = tool_fit_ways(&ask);
  if (as_json) {
    json_open(&out, NULL, '{');
    json_text(&out, "dim", t->dim);
    json_int(&out, "memory", t->memory);
    json_int(&out, "largest", fits);
    json_sizes(t, &out);
    if (f) tool_json_peak(f, AT_PEAK, 0, NULL, &out);
    if (t->has_ways) tool_json_fit_ways(&ask, &ways, &out);
    json_close(&out, '}');
    rt_text_add(&out, "\n");
  } else {
    put_table(t, fits, &out);
    if (fits)
      rt_text_add(&out, "\n%s <= %lld fits in %s\n\n", t->dim, (long long)fits, tool_exact_bytes(t->mem, t->memory));
    else rt_text_add(&out, "\nnot even %s <= 1 fits in %s\n\n", t->dim, tool_exact_bytes(t->mem, t->memory));
    if (f) tool_put_peak(f, AT_PEAK, &out);
    if (t->has_ways) tool_put_fit_ways(&ask, &ways, &out);
  }
  return tool_put(&out) && fits ? 0 : EXIT_ERRORS;
}

// ---- the command
static bool find_dim(const Fit *t) {
  RtNear near = {.wanted = t->dim};
  Dim d = ir_dim_find(t->p, t->dim);
  for (uint32_t k = 0; k < t->p->n_syms; k++)
    rt_near_offer(&near, ir_text(t->p, ir_dim_info(t->p, t->p->syms[k])->name));
  if (!d.i) fprintf(stderr, "tenure: %s has no dim '%s'%s\n", t->path, t->dim, rt_near_text(&near));
  else if (tool_is_set_by_layout(t->p, d))
    fprintf(stderr, "tenure: the rows dim '%s' follows from sequences and steps of its layout: search one of these\n",
            t->dim);
  else return true;
  return false;
}

static bool read_program(Fit *t) {
  size_t n;
  RtDiags diags = {.mem = t->mem};
  char *text = tool_read_file(t->mem, t->path, &n);
  if (!text) return fprintf(stderr, "tenure: %s: %s\n", t->path, strerror(errno)), false;
  if (!strcmp(t->path, "-")) t->path = "<stdin>";
  Prog *p = ir_parse(t->mem, text, n, t->path, &diags);
  bool ok = p != NULL;
  for (uint32_t k = 0; ok && k < p->n_fns; k++) ok = ir_verify(p->fns[k], &diags);
  rt_diags_print(&diags, stderr);
  if (!ok) return false;
  RtText printed = {.mem = t->mem};
  ir_print(p, &printed, PRINT_LOCS);
  t->p = p, t->text = printed.text;
  return (!t->function || tool_function(p, t->path, t->function)) && find_dim(t);
}

static int fit(RtArena *mem, void *ctx) {
  Fit *t = ctx;
  int64_t fits, misses;
  t->mem = mem;
  if (!read_program(t) || !try_powers(t, &fits, &misses) || !halve(t, &fits, misses)) return EXIT_ERRORS;
  return print(t, fits);
}

int tool_fit(const CliArgs *a) {
  if (cli_has(a, "--lengths")) return tool_fit_lengths(a);
  if (!a->n_operands) return cli_usage_error(a, "fit needs FILE.tir, or --lengths=FILE");
  Fit t = {.args = a, .path = a->operand[0], .dim = cli_value(a, "--dim"), .function = cli_value(a, "--function")};
  t.recomputes = cli_has(a, "--recompute"), t.has_ways = cli_has(a, "--shards");
  if (!t.dim) return cli_usage_error(a, "fit needs --dim=NAME");
  if (!cli_has(a, "--memory")) return cli_usage_error(a, "fit needs --memory=BYTES");
  if (!cli_bytes(a, "--memory", 0, &t.memory)) return EXIT_USAGE;
  if (t.function && *t.function == '@') t.function++;
  return tool_with_arena(fit, &t);
}
