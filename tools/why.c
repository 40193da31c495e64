// tenure why FILE.tir %a %b: why two values are not one kernel, why one does not take over the other's slot, why
// something was copied. tenure why FILE.tir --missed: all such refusals, by the bytes that they cost.
//
// The reasons are those that the passes decided by: remarks of fuse and assign_buffers (ir/remarks.c), and the reader
// that a copy of insert_copies names.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/remarks.h"
#include "ir/storage.h"
#include "runtime/near.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  const CliArgs *args;
  ToolPlan plan;
  const char *function;  // NULL: all
} Why;

// A refusal, or a copy.
typedef struct {
  const char *kind;
  const ToolFn *f;
  Val v, with;
  const char *why;
  int64_t bytes;
} Miss;

static const char *where(const ToolFn *f, RtArena *mem, Val v) {
  const char *at = tool_loc(f->f->prog, mem, f->f->ins[v.i].loc);
  return f->is_backward[v.i] ? rt_printf(mem, "backward of %s", at) : at;
}

static const char *described(const ToolFn *f, RtArena *mem, Val v) {
  return rt_printf(mem, "%s = %s %s", f->name[v.i], tool_op_name(f, v), where(f, mem, v));
}

static bool is_wanted(const Why *w, const ToolFn *f) { return !w->function || !strcmp(tool_fn_name(f), w->function); }

// ---- costs
static bool is_read_elsewhere(const ToolFn *f, Val v, uint32_t kernel) {
  for (uint32_t k = f->reader_at[v.i]; k < f->reader_at[v.i + 1]; k++) {
    Val r = f->readers[k];
    bool view = ir_ops[f->f->ins[r.i].op].cls == CLASS_VIEW;
    if (view ? is_read_elsewhere(f, r, kernel) : f->f->kernel_of[r.i] != kernel) return true;
  }
  return false;
}

// What is stored by kernel `from` for kernel `by`: read again, and written where nobody else reads it.
static int64_t traffic_between(const ToolFn *f, uint32_t from, uint32_t by) {
  const Fn *g = f->f;
  const Kernel *k = &g->kernels[from];
  int64_t sum = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    bool is_read = false;
    const Kernel *reader = &g->kernels[by];
    for (uint32_t r = reader->first; r < reader->first + reader->n && !is_read; r++)
      for (uint32_t a = 0; g->ins[r].op != OP_result && a < g->ins[r].n_args; a++)
        is_read |= ir_view_base(g, ir_arg(g, (Val){r}, a)).i == i;
    if (!is_read || !g->buf_of[i]) continue;
    int64_t bytes = ir_type_bytes(g->prog, g->ins[i].dtype, g->ins[i].shape);
    sum += is_read_elsewhere(f, (Val){i}, by) ? bytes : 2 * bytes;
  }
  return sum;
}

static bool is_read_in(const ToolFn *f, Val v, uint32_t kernel) {
  for (uint32_t k = f->reader_at[v.i]; k < f->reader_at[v.i + 1]; k++) {
    Val r = f->readers[k];
    bool view = ir_ops[f->f->ins[r.i].op].cls == CLASS_VIEW;
    if (view ? is_read_in(f, r, kernel) : f->f->kernel_of[r.i] == kernel) return true;
  }
  return false;
}

// What both kernels read, which one would read once.
static int64_t read_twice(const ToolFn *f, uint32_t a, uint32_t b) {
  const Fn *g = f->f;
  int64_t sum = 0;
  for (uint32_t i = 1; i < g->n_ins; i++) {
    bool is_view = ir_ops[g->ins[i].op].cls == CLASS_VIEW || ir_is_immediate(g, (Val){i});
    bool is_made = g->kernel_of[i] == a || g->kernel_of[i] == b;
    if (!is_view && !is_made && is_read_in(f, (Val){i}, a) && is_read_in(f, (Val){i}, b))
      sum += ir_type_bytes(g->prog, g->ins[i].dtype, g->ins[i].shape);
  }
  return sum;
}

static int64_t cost_of(const ToolFn *f, const Remark *r) {
  const Fn *g = f->f;
  if (r->kind == REMARK_SPLIT) return read_twice(f, g->kernel_of[r->with.i], g->kernel_of[r->v.i]);
  if (r->kind == REMARK_FUSE) return traffic_between(f, g->kernel_of[r->with.i], g->kernel_of[r->v.i]);
  const Buf *to = &g->bufs[g->buf_of[r->v.i]], *from = &g->bufs[g->buf_of[r->with.i]];
  return to->bytes == from->bytes && from->seg == SEG_ARENA ? to->bytes : 0;
}

// ---- all of them
typedef struct {
  Miss *list;
  uint32_t n, cap;
} Misses;

static void add_copies(const ToolFn *f, RtArena *mem, Misses *all) {
  for (uint32_t i = 1; i < f->f->n_ins; i++) {
    const Attr *reader = ir_attr(f->f, (Val){i}, KEY_reader);
    if (!reader) continue;
    Miss m = {"copied", f, {i}, ir_arg(f->f, (Val){i}, 0), NULL, 0};
    m.why = rt_printf(mem, "%s wants the content from before a write", ir_text(f->f->prog, reader->u.s));
    m.bytes = 2 * ir_type_bytes(f->f->prog, f->f->ins[i].dtype, f->f->ins[i].shape);
    *RT_PUSH(mem, all->list, all->n, all->cap) = m;
  }
}

// A result that found no slot is missed once, however many operands it has.
static bool is_known(const Misses *all, const ToolFn *f, const Remark *r) {
  const Miss *last = all->n ? &all->list[all->n - 1] : NULL;
  return last && r->kind == REMARK_IN_PLACE && last->f == f && last->v.i == r->v.i;
}

static int by_bytes(const void *a, const void *b) {
  const Miss *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->v.i < y->v.i ? -1 : x->v.i > y->v.i;
}

static const char *const kind_text[] = {
    [REMARK_SPLIT] = "split", [REMARK_FUSE] = "not fused", [REMARK_IN_PLACE] = "not in place"};

static Misses find_misses(const Why *w, RtArena *mem) {
  Misses all = {0};
  for (uint32_t k = 0; k < w->plan.n_fns; k++) {
    const ToolFn *f = &w->plan.fns[k];
    if (!is_wanted(w, f)) continue;
    for (uint32_t r = 0; r < f->f->n_remarks; r++) {
      const Remark *m = &f->f->remarks[r];
      int64_t bytes = cost_of(f, m);
      if (!bytes || is_known(&all, f, m)) continue;
      *RT_PUSH(mem, all.list, all.n, all.cap) = (Miss){kind_text[m->kind], f, m->v, m->with, m->why, bytes};
    }
    add_copies(f, mem, &all);
  }
  if (all.n) qsort(all.list, all.n, sizeof *all.list, by_bytes);
  return all;
}

static void put_miss(const Miss *m, RtText *out) {
  RtArena *mem = out->mem;
  rt_text_add(out, "%12s  %-12s @%s %s\n%28swith %s\n%28s%s\n", tool_bytes(mem, m->bytes), m->kind, tool_fn_name(m->f),
              described(m->f, mem, m->v), "", described(m->f, mem, m->with), "", m->why);
}

static void json_value(RtText *out, const char *key, const ToolFn *f, Val v) {
  json_open(out, key, '{');
  json_text(out, "name", f->name[v.i]);
  json_text(out, "op", tool_op_name(f, v));
  json_text(out, "source", where(f, out->mem, v));
  if (f->f->kernel_of[v.i] != UINT32_MAX) json_int(out, "kernel", f->f->kernel_of[v.i]);
  json_close(out, '}');
}

static void json_miss(const Miss *m, RtText *out) {
  json_open(out, NULL, '{');
  json_text(out, "kind", m->kind);
  json_text(out, "function", tool_fn_name(m->f));
  json_value(out, "value", m->f, m->v);
  json_value(out, "with", m->f, m->with);
  json_int(out, "bytes", m->bytes);
  json_text(out, "why", m->why);
  json_close(out, '}');
}

static int print_missed(const Why *w, RtArena *mem) {
  RtText out = {.mem = mem};
  Misses all = find_misses(w, mem);
  bool as_json = cli_has(w->args, "--json");
  rt_text_put(&out, "", 0);
  if (as_json) json_open(&out, NULL, '[');
  for (uint32_t k = 0; k < all.n; k++) {
    if (as_json) json_miss(&all.list[k], &out);
    else put_miss(&all.list[k], &out);
  }
  if (as_json) json_close(&out, ']'), rt_text_add(&out, "\n");
  else if (!all.n) rt_text_add(&out, "nothing that costs bytes was refused\n");
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

// ---- two values
// The value of the plan that the name stands for; *gone: the sentence about one that is no longer there.
static Val find_value(const ToolFn *f, RtArena *mem, const char *name, const char **gone) {
  uint32_t at = tool_find_file(f, name);
  const FileVal *v = at ? &f->file[at] : NULL;
  if (!v) return (Val){tool_find_planned(f, name)};
  if (v->now || v->served_by) return (Val){v->now ? v->now : v->served_by};
  *gone =
      rt_printf(mem, "@%s: %s was removed by pass %s\n", tool_fn_name(f), name, v->gone_in ? v->gone_in : "simplify");
  return (Val){0};
}

static const Remark *find_remark(const ToolFn *f, RemarkKind kind, uint32_t kernel) {
  for (uint32_t r = 0; r < f->f->n_remarks; r++)
    if (f->f->remarks[r].kind == kind && f->f->kernel_of[f->f->remarks[r].v.i] == kernel) return &f->f->remarks[r];
  return NULL;
}

// The kernel that what kernel k makes was split from; k itself: none.
static uint32_t split_from(const ToolFn *f, uint32_t k, const char **why) {
  const Remark *r = find_remark(f, REMARK_SPLIT, k);
  if (r) *why = r->why;
  return r ? f->f->kernel_of[r->with.i] : k;
}

// Why what two kernels make was split for memory; NULL: it was not.
static const char *split_text(const ToolFn *f, uint32_t a, uint32_t b) {
  const char *why = NULL;
  uint32_t of_a = split_from(f, a, &why), of_b = split_from(f, b, &why);
  return a != b && (of_a == of_b || of_a == b || of_b == a) ? why : NULL;
}

enum { MOST_BOUNDARIES = 8 };

static void tell_fusion(const ToolFn *f, Val a, Val b, RtText *out) {
  const Fn *g = f->f;
  RtArena *mem = out->mem;
  uint32_t from = g->kernel_of[a.i], to = g->kernel_of[b.i];
  rt_text_add(out, "@%s: %s and %s ", tool_fn_name(f), described(f, mem, a), described(f, mem, b));
  if (from == UINT32_MAX || to == UINT32_MAX) {
    rt_text_add(out, "are not both made by code: %s is a leaf or a view.\n", f->name[from == UINT32_MAX ? a.i : b.i]);
    return;
  }
  if (from == to) {
    rt_text_add(out, "are one kernel, %u.\n", from);
    return;
  }
  const char *split = split_text(f, from, to);
  rt_text_add(out, "are kernels %u and %u.\n", from, to);
  if (split) rt_text_add(out, "They were one, which was split so that less memory is needed: %s.\n", split);
  if (to > from + 1) rt_text_add(out, "What keeps each kernel between them apart from the one before it:\n");
  for (uint32_t k = from + 1; k <= to && k <= from + MOST_BOUNDARIES; k++) {
    const Remark *r = find_remark(f, REMARK_FUSE, k);
    if (r) rt_text_add(out, "  kernel %u begins with %s: %s\n", k, described(f, mem, r->v), r->why);
  }
  if (to > from + MOST_BOUNDARIES) rt_text_add(out, "  and %u more\n", to - from - MOST_BOUNDARIES);
}

static const Remark *slot_remark(const ToolFn *f, Val v, Val with) {
  uint32_t to = f->f->buf_of[v.i], from = f->f->buf_of[with.i];
  for (uint32_t r = 0; r < f->f->n_remarks; r++) {
    const Remark *m = &f->f->remarks[r];
    if (m->kind == REMARK_IN_PLACE && f->f->buf_of[m->v.i] == to && f->f->buf_of[m->with.i] == from) return m;
  }
  return NULL;
}

// What there is to say about the slots of a and b; NULL: nothing.
static const char *slot_text(const ToolFn *f, RtArena *mem, Val a, Val b) {
  const Fn *g = f->f;
  uint32_t from = g->buf_of[a.i], to = g->buf_of[b.i];
  const char *x = f->name[a.i], *y = f->name[b.i];
  if (!from || !to) return rt_printf(mem, "%s is not stored", from ? y : x);
  if (from == to) return rt_printf(mem, "%s and %s are one buffer", x, y);
  if (g->bufs[to].reuses == from) return rt_printf(mem, "%s takes over the slot of %s", y, x);
  const Remark *r = slot_remark(f, b, a);
  return r ? rt_printf(mem, "%s does not take over the slot of %s: %s", y, x, r->why) : NULL;
}

static bool is_copy_of(const ToolFn *f, uint32_t i, Val v) {
  return ir_attr(f->f, (Val){i}, KEY_reader) &&
         ir_storage_root(f->f, ir_arg(f->f, (Val){i}, 0)).i == ir_storage_root(f->f, v).i;
}

static void tell_copies(const ToolFn *f, Val a, Val b, RtText *out) {
  for (uint32_t i = 1; i < f->f->n_ins; i++) {
    if (!is_copy_of(f, i, a) && !is_copy_of(f, i, b)) continue;
    rt_text_add(out, "%s is copied at %s: %s wants the content from before a write.\n",
                f->name[ir_arg(f->f, (Val){i}, 0).i], where(f, out->mem, (Val){i}),
                ir_text(f->f->prog, ir_attr(f->f, (Val){i}, KEY_reader)->u.s));
  }
}

static void json_pair(const ToolFn *f, Val a, Val b, RtText *out) {
  const Fn *g = f->f;
  uint32_t from = g->kernel_of[a.i], to = g->kernel_of[b.i];
  json_open(out, NULL, '{');
  json_text(out, "function", tool_fn_name(f));
  json_value(out, "a", f, a);
  json_value(out, "b", f, b);
  json_bool(out, "one_kernel", from == to && from != UINT32_MAX);
  json_text(out, "split", from != UINT32_MAX && to != UINT32_MAX ? split_text(f, from, to) : NULL);
  json_open(out, "boundaries", '[');
  for (uint32_t k = from + 1; from != UINT32_MAX && to != UINT32_MAX && k <= to; k++) {
    const Remark *r = find_remark(f, REMARK_FUSE, k);
    if (!r) continue;
    json_open(out, NULL, '{');
    json_value(out, "value", f, r->v);
    json_text(out, "why", r->why);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_text(out, "slot", slot_text(f, out->mem, a, b));
  json_open(out, "copies", '[');
  for (uint32_t i = 1; i < g->n_ins; i++)
    if (is_copy_of(f, i, a) || is_copy_of(f, i, b))
      json_text(out, NULL, ir_text(g->prog, ir_attr(g, (Val){i}, KEY_reader)->u.s));
  json_close(out, ']');
  json_close(out, '}');
}

static void tell_pair(const ToolFn *f, Val a, Val b, RtText *out) {
  tell_fusion(f, a, b, out);
  const char *slot = slot_text(f, out->mem, a, b);
  if (slot) rt_text_add(out, "In place: %s.\n", slot);
  tell_copies(f, a, b, out);
}

// False: f has not both.
static bool in_function(const Why *w, const ToolFn *f, RtText *out) {
  const char *x = w->args->operand[1], *y = w->args->operand[2], *gone = NULL;
  Val a = find_value(f, out->mem, x, &gone), b = find_value(f, out->mem, y, &gone);
  bool as_json = cli_has(w->args, "--json");
  if (gone && !as_json) rt_text_add(out, "%s", gone);
  if (ir_none(a) || ir_none(b)) return gone != NULL;
  bool swapped = f->f->kernel_of[a.i] != UINT32_MAX && f->f->kernel_of[b.i] != UINT32_MAX && a.i > b.i;
  (as_json ? json_pair : tell_pair)(f, swapped ? b : a, swapped ? a : b, out);
  return true;
}

static bool has_name(const Why *w, const char *name) {
  for (uint32_t k = 0; k < w->plan.n_fns; k++) {
    const ToolFn *f = &w->plan.fns[k];
    if (is_wanted(w, f) && (tool_find_file(f, name) || tool_find_planned(f, name))) return true;
  }
  RtNear near = {.wanted = name + (*name == '%')};
  for (uint32_t k = 0; k < w->plan.n_fns; k++)
    for (uint32_t i = 1; i < w->plan.fns[k].n_file; i++)
      if (w->plan.fns[k].file[i].name) rt_near_offer(&near, w->plan.fns[k].file[i].name + 1);
  fprintf(stderr, "tenure: %s has no value %s%s\n", w->plan.path, name, rt_near_text(&near));
  return false;
}

static int print_pair(const Why *w, RtArena *mem) {
  RtText out = {.mem = mem};
  bool as_json = cli_has(w->args, "--json"), found = false;
  if (!has_name(w, w->args->operand[1]) || !has_name(w, w->args->operand[2])) return EXIT_ERRORS;
  if (as_json) json_open(&out, NULL, '[');
  for (uint32_t k = 0; k < w->plan.n_fns; k++)
    if (is_wanted(w, &w->plan.fns[k])) found |= in_function(w, &w->plan.fns[k], &out);
  if (as_json) json_close(&out, ']'), rt_text_add(&out, "\n");
  if (!found) fprintf(stderr, "tenure: %s has no function with both values\n", w->plan.path);
  return found && tool_put(&out) ? 0 : EXIT_ERRORS;
}

static int why(RtArena *mem, void *ctx) {
  Why *w = ctx;
  if (!tool_plan_read(&w->plan, mem, w->args->operand[0])) return EXIT_ERRORS;
  if (w->function && !tool_function(w->plan.p, w->plan.path, w->function)) return EXIT_ERRORS;
  return cli_has(w->args, "--missed") ? print_missed(w, mem) : print_pair(w, mem);
}

int tool_why(const CliArgs *a) {
  Why w = {.args = a, .function = cli_value(a, "--function")};
  bool missed = cli_has(a, "--missed");
  if (missed ? a->n_operands != 1 : a->n_operands != 3)
    return cli_usage_error(a,
                           missed ? "why --missed needs a file alone" : "why needs a file and two values, or --missed");
  if (w.function && *w.function == '@') w.function++;
  return tool_with_arena(why, &w);
}
