// Ways to a lower peak: each is the program with one thing changed, planned as tn_compile plans it. Its figures are those of
// that plan.
//
//   kernels that run again: the same text under a limit; half of a batch's bound, N shards: other texts (tools/vary.c)
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/cost.h"
#include "ir/text/text.h"
#include "tools/tool.h"

#include <string.h>

enum {
  MOST_INS = 20000,
  LEAST_LIMIT = 4096
};  // of all functions: planning takes milliseconds for thousands of instructions

typedef struct {
  const ToolPlan *t;
  RtArena *mem;
  const Prog *p;     // as written
  const char *text;  // printed, with locations
  PeakWays ways;
} Finder;

// ---- one way
typedef struct {
  Finder *finder;
  const char *text;
  int64_t limit;  // of the arena, with kernels that run again; 0: none
  double again;   // found: the part of the estimated time that runs again
  PeakWay way;
} Try;

static const ToolFn *find_function(const ToolPlan *t, const char *name) {
  for (uint32_t k = 0; k < t->n_fns; k++)
    if (!strcmp(tool_fn_name(&t->fns[k]), name)) return &t->fns[k];
  return NULL;
}

// A distributed function and its update work in one arena.
static const ToolFn *larger_part(const ToolPlan *t, const ToolFn *f) {
  const Fn *update = f->f->update;
  for (uint32_t k = 0; update && k < t->n_fns; k++)
    if (t->fns[k].f == update && update->stats.peak_bytes > f->f->stats.peak_bytes) return &t->fns[k];
  return f;
}

static void keep_parts(RtArena *mem, const ToolFn *f, RtArena *scratch, Parts out[N_PART_BYS]) {
  Peak peak = tool_peak(f, scratch);
  tool_find_parts(f, scratch, &peak, out);
  for (int by = 0; by < N_PART_BYS; by++) {
    Part *list = rt_alloc(mem, (out[by].n + 1) * sizeof *list);
    for (uint32_t k = 0; k < out[by].n; k++) {
      list[k] = out[by].list[k];
      list[k].label = rt_strdup(mem, list[k].label);
    }
    out[by].list = list;
  }
}

double tool_again_part(const Fn *f) {
  double again = 0, all = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->kernel_of[i] == UINT32_MAX) continue;
    double ns = ir_instruction_ns(f, (Val){i});
    if (f->kernels[f->kernel_of[i]].again) again += ns;
    else all += ns;
  }
  return all > 0 ? again / all : 0;
}

static int plan_way(RtArena *mem, void *ctx) {
  Try *try = ctx;
  Finder *w = try->finder;
  ToolPlan plan = {.arena_limit = try->limit, .recomputes = try->limit > 0};
  if (!tool_plan_quietly(&plan, mem, try->text, w->t->path)) return EXIT_ERRORS;
  try->way.arena = rt_alloc(w->mem, (w->t->n_fns + 1) * sizeof *try->way.arena);
  try->way.parts = rt_alloc(w->mem, (w->t->n_fns + 1) * sizeof *try->way.parts);
  for (uint32_t k = 0; k < w->t->n_fns; k++) {
    const ToolFn *f = find_function(&plan, tool_fn_name(&w->t->fns[k]));
    if (!f) continue;
    f = larger_part(&plan, f);
    try->way.arena[k] = f->f->stats.peak_bytes;
    keep_parts(w->mem, f, mem, try->way.parts[k]);
    double again = tool_again_part(f->f);
    if (again > try->again) try->again = again;
  }
  return 0;
}

// One that is no program, as where shards differ in what they write, is no way.
static void try_way(Finder *w, const char *name, const char *write, const char *text) {
  Try try = {.finder = w, .text = text, .way = {.name = name, .write = write}};
  if (!tool_with_arena(plan_way, &try)) *RT_PUSH(w->mem, w->ways.list, w->ways.n, w->ways.cap) = try.way;
}

// ---- kinds of ways
// Parts of the largest arena.
static void try_recomputation(Finder *w) {
  int64_t most = 0;
  for (uint32_t k = 0; k < w->t->n_fns; k++)
    if (w->t->fns[k].f->stats.peak_bytes > most) most = w->t->fns[k].f->stats.peak_bytes;
  for (int64_t percent = 75; percent >= 25; percent -= 25) {
    Try try = {.finder = w, .text = w->text, .limit = most / 100 * percent};
    if (try.limit < LEAST_LIMIT || tool_with_arena(plan_way, &try)) return;
    try.way.name = rt_printf(w->mem, "recomputation, about +%.1f %% time", 100 * try.again);
    try.way.write =
        rt_printf(w->mem, "tn_compile(p, .arena_limit = %lld, .recompute = TN_RECOMPUTE_AUTO)", (long long)try.limit);
    *RT_PUSH(w->mem, w->ways.list, w->ways.n, w->ways.cap) = try.way;
  }
}

static void try_shards(Finder *w, Dim dim) {
  static const uint32_t times[] = {2, 8};
  const char *name = ir_text(w->p, ir_dim_info(w->p, dim)->name);
  uint32_t now = tool_n_shards(w->p, dim);
  for (uint32_t k = 0; k < sizeof times / sizeof *times; k++) {
    uint32_t n = times[k] * now;
    const char *text = ir_dim_bound(w->p, dim) >= n ? tool_with_shards(w->text, w->mem, name, n) : NULL;
    if (!text) return;
    const char *more = now > 1 ? rt_printf(w->mem, " instead of %u", now)
                               : rt_printf(w->mem, ", where the loss is a mean over %s", name);
    try_way(w, rt_printf(w->mem, "%u shards", n),
            rt_printf(w->mem, "tn_distributed(f, .n = %u, .batch = %s)%s", n, name, more), text);
  }
}

static void try_bound(Finder *w, Dim dim) {
  const char *name = ir_text(w->p, ir_dim_info(w->p, dim)->name);
  int64_t bound = ir_dim_bound(w->p, dim);
  if (bound < 2) return;
  const char *less = rt_printf(w->mem, "%s <= %lld", name, (long long)(bound / 2));
  try_way(w, less, rt_printf(w->mem, "a bound of %lld instead of %lld", (long long)(bound / 2), (long long)bound),
          tool_with_bound(w->p, w->text, w->mem, dim, bound / 2));
}

// What changes least about a run comes first: shards keep the batch.
static void (*const kinds[])(Finder *w, Dim dim) = {try_shards, try_bound};

PeakWays tool_find_ways(const ToolPlan *t, RtArena *mem) {
  RtDiags diags = {.mem = mem};
  Finder w = {.t = t, .mem = mem, .p = ir_parse(mem, t->text, t->n_text, t->path, &diags)};
  RtText text = {.mem = mem};
  uint32_t n_ins = 0;
  for (uint32_t k = 0; k < w.p->n_fns; k++) n_ins += w.p->fns[k]->n_ins;
  if (n_ins > MOST_INS) return (PeakWays){.why_none = "the program is too large to be planned again and again"};
  ir_print(w.p, &text, PRINT_LOCS);
  w.text = text.text;
  try_recomputation(&w);
  if (!w.p->n_syms && !w.ways.n)
    return (PeakWays){.why_none =
                          "recomputation does not; batches are cut, and bounds lowered, of named dims: it has none"};
  for (uint32_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (uint32_t d = 0; d < w.p->n_syms; d++)
      if (!tool_is_set_by_layout(w.p, w.p->syms[d])) kinds[k](&w, w.p->syms[d]);
  return w.ways;
}
