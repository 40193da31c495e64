// tenure fit --shards: ways to have the bound of a dim that the program has in the memory that there is, each planned as tn_compile
// plans it: batches in shards, kernels that run again, both.
//
//   shards  kernels run again     arena       sum     time  write
//        1                 no  26.4 MiB  31.0 MiB           nothing  too large
//        1                yes  11.0 MiB  15.6 MiB   +8.1 %  tn_compile(p, .arena_limit = .., .recompute = TN_RECOMPUTE_AUTO)
//        2                 no  13.3 MiB  17.9 MiB   +0.4 %  tn_distributed(f, .n = 2, .batch = batch)
//
// Times are estimates: kernels of the functions that have the dim, each shard's as often as there are shards, by bounds.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/cost.h"
#include "tools/fit.h"
#include "tools/json.h"

#include <string.h>

typedef struct {
  const FitAsk *ask;
  const char *text;
  uint32_t shards;
  FitWay way;
} Try;

static double fn_ns(const Fn *f) {
  double ns = 0;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->kernel_of[i] != UINT32_MAX) ns += ir_instruction_ns(f, (Val){i});
  return ns;
}

static bool is_asked(const FitAsk *ask, const Fn *f) {
  const Fn *of = f->shard ? f->shard : f;
  return !ask->function || !strcmp(ir_text(of->prog, of->name), ask->function);
}

static FitWay measured(const Try *try, const ToolPlan *plan) {
  FitWay w = {.shards = try->shards, .kept = plan->p->param_bytes + plan->p->const_bytes + plan->p->packed_bytes};
  for (uint32_t k = 0; k < plan->n_fns; k++) {
    const Fn *f = plan->fns[k].f;
    if (!is_asked(try->ask, f)) continue;
    if (f->stats.peak_bytes > w.arena) w.arena = f->stats.peak_bytes;
    w.ns += fn_ns(f) * (f->update && f->n_shards ? f->n_shards : 1);
  }
  return w;
}

static int plan_way(RtArena *mem, void *ctx) {
  Try *try = ctx;
  ToolPlan plan = {.arena_limit = try->way.limit, .recomputes = try->way.limit > 0, .limited = try->ask->function};
  int64_t limit = try->way.limit;
  if (!tool_plan_quietly(&plan, mem, try->text, try->ask->path)) return EXIT_ERRORS;
  try->way = measured(try, &plan);
  try->way.limit = limit;
  return 0;
}

int64_t tool_way_bytes(const FitWay *w) { return w->arena + w->kept; }

// What does not fit is planned once more within what is left, in which kernels may run again.
static bool try_shards(FitWays *ways, const FitAsk *ask, const char *text, uint32_t n) {
  Try try = {.ask = ask, .text = text, .shards = n};
  if (tool_with_arena(plan_way, &try)) return false;
  *RT_PUSH(ask->mem, ways->list, ways->n, ways->cap) = try.way;
  int64_t left = ask->memory - try.way.kept;
  if (!ask->recomputes || try.way.arena <= left || left <= 0) return tool_way_bytes(&try.way) <= ask->memory;
  try.way.limit = left;
  if (!tool_with_arena(plan_way, &try)) *RT_PUSH(ask->mem, ways->list, ways->n, ways->cap) = try.way;
  return false;
}

FitWays tool_fit_ways(const FitAsk *ask) {
  enum { MOST_SHARDS = 64 };
  FitWays ways = {.why_none = NULL};
  uint32_t now = tool_n_shards(ask->p, ask->dim);
  int64_t bound = ir_dim_bound(ask->p, ask->dim);
  const char *name = ir_text(ask->p, ir_dim_info(ask->p, ask->dim)->name);
  bool fits = try_shards(&ways, ask, ask->text, now);
  int64_t least = ways.n ? ways.list[0].arena : 0;
  for (uint32_t n = 2 * now; !fits && n <= MOST_SHARDS && n <= bound; n *= 2) {
    const char *text = tool_with_shards(ask->text, ask->mem, name, n);
    uint32_t before = ways.n;
    if (!text) ways.why_none = "no function that takes gradients has an input whose first axis is the dim";
    else fits = try_shards(&ways, ask, text, n);
    if (text && ways.n == before)
      ways.why_none = "the functions cannot be cut into shards of it: tn_distributed says why";
    if (ways.why_none) break;
    if (!fits && ways.list[before].arena >= least)
      ways.why_none = "their sums take more than a smaller part of a batch spares";
    if (ways.why_none) break;
    least = ways.list[before].arena;
  }
  return ways;
}

// ---- printing
static const char *to_write(RtArena *mem, const FitAsk *ask, const FitWay *w) {
  RtText out = {.mem = mem};
  if (w->shards > 1)
    rt_text_add(&out, "tn_distributed(f, .n = %u, .batch = %s)", w->shards,
                ir_text(ask->p, ir_dim_info(ask->p, ask->dim)->name));
  if (w->limit)
    rt_text_add(&out, "%stn_compile(p, .arena_limit = %lld, .recompute = TN_RECOMPUTE_AUTO)", out.len ? ", " : "",
                (long long)w->limit);
  return out.len ? out.text : "nothing";
}

static const char *time_of(RtArena *mem, const FitWays *ways, const FitWay *w) {
  double first = ways->list[0].ns;
  return w == ways->list || first <= 0 ? "" : rt_printf(mem, "%+.1f %%", 100 * (w->ns / first - 1));
}

void tool_put_fit_ways(const FitAsk *ask, const FitWays *ways, RtText *out) {
  const char *name = ir_text(ask->p, ir_dim_info(ask->p, ask->dim)->name);
  rt_text_add(out, "\nways to %s <= %lld in %s:\n%8s %12s %12s %12s %9s  write\n", name,
              (long long)ir_dim_bound(ask->p, ask->dim), tool_exact_bytes(out->mem, ask->memory), "shards", "run again",
              "arena", "sum", "time");
  for (uint32_t k = 0; k < ways->n; k++) {
    const FitWay *w = &ways->list[k];
    rt_text_add(out, "%8u %12s %12s %12s %9s  %s\n", w->shards, w->limit ? "yes" : "no", tool_bytes(out->mem, w->arena),
                tool_bytes(out->mem, tool_way_bytes(w)), time_of(out->mem, ways, w),
                tool_way_bytes(w) <= ask->memory ? to_write(out->mem, ask, w) : "too large");
  }
  if (ways->why_none) rt_text_add(out, "no more shards: %s\n", ways->why_none);
}

void tool_json_fit_ways(const FitAsk *ask, const FitWays *ways, RtText *out) {
  json_open(out, "ways", '[');
  for (uint32_t k = 0; k < ways->n; k++) {
    const FitWay *w = &ways->list[k];
    json_open(out, NULL, '{');
    json_int(out, "shards", w->shards);
    json_bool(out, "recompute", w->limit > 0);
    json_int(out, "arena_limit", w->limit);
    json_int(out, "arena", w->arena);
    json_int(out, "total", tool_way_bytes(w));
    json_number(out, "time", ways->list[0].ns > 0 ? w->ns / ways->list[0].ns : 1);
    json_bool(out, "fits", tool_way_bytes(w) <= ask->memory);
    json_text(out, "write", to_write(out->mem, ask, w));
    json_close(out, '}');
  }
  json_close(out, ']');
}
