// tenure diff A.tir B.tir: two plans, function by function, as text that says only what differs.
//
//   @train_step
//     arena 4962304 -> 4960000 B (-2304)
//     ~ %y softmax m.c:5: 128 -> 256 B, arena+0 -> arena+64
//     + %z relu m.c:9: 128 B at arena+128, kernels [3,4]
//
// Functions, parameters and inputs are matched by name; buffers by name, else by operation and source line, in order.
#include "ir/fn.h"
#include "ir/intern.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <string.h>

typedef struct {
  const char *key;   // name, or operation and line
  uint32_t ordinal;  // among equal keys
  uint32_t buf;
  const char *text;  // as printed
} Entry;

typedef struct {
  Entry *list;
  uint32_t n;
  uint32_t *table, cap;  // open addressing by key and ordinal; index + 1
} Index;

typedef struct {
  RtArena *mem;
  RtText *out;
  const ToolPlan *a, *b;
  const char *function;  // whose heading is still to be printed
  const char *where;     // the last heading
  bool differs, as_json;
} Diff;

// - and +: on one side alone; ~: on both, changed; a figure has no sign.
static void json_line(Diff *d, const char *text) {
  bool has_sign = strchr("+-~", *text) && text[1] == ' ';
  json_open(d->out, NULL, '{');
  json_text(d->out, "in", d->where);
  json_text(d->out, "kind", !has_sign ? "figure" : *text == '+' ? "added" : *text == '-' ? "removed" : "changed");
  json_text(d->out, "text", has_sign ? text + 2 : text);
  json_close(d->out, '}');
}

static void line(Diff *d, const char *text) {
  if (d->function) d->where = d->function;
  if (d->function && !d->as_json) rt_text_add(d->out, "%s\n", d->function);
  d->function = NULL;
  d->differs = true;
  if (d->as_json) json_line(d, text);
  else rt_text_add(d->out, "  %s\n", text);
}

// ---- matching
static uint64_t hash_key(const char *key, uint32_t ordinal) { return rt_hash(key, strlen(key), ordinal); }

static uint32_t find(const Index *x, const char *key, uint32_t ordinal) {
  for (uint32_t at = (uint32_t)hash_key(key, ordinal) & (x->cap - 1); x->table[at]; at = (at + 1) & (x->cap - 1)) {
    const Entry *e = &x->list[x->table[at] - 1];
    if (e->ordinal == ordinal && !strcmp(e->key, key)) return x->table[at];
  }
  return 0;
}

static Index index_new(RtArena *mem, uint32_t n) {
  Index x = {.list = rt_alloc(mem, (n + 1) * sizeof *x.list), .cap = 16};
  while (x.cap < 2 * n + 2) x.cap *= 2;
  x.table = rt_alloc(mem, x.cap * sizeof *x.table);
  return x;
}

// counts: how often each key came so far, by the slot of its first entry.
static void add(Index *x, RtArena *mem, uint32_t *counts, Entry e) {
  uint32_t first = find(x, e.key, 0);
  e.ordinal = first ? ++counts[first - 1] : 0;
  uint32_t at = (uint32_t)hash_key(e.key, e.ordinal) & (x->cap - 1);
  while (x->table[at]) at = (at + 1) & (x->cap - 1);
  if (e.ordinal) e.text = rt_printf(mem, "%s #%u", e.text, e.ordinal + 1);
  x->list[x->n] = e;
  x->table[at] = ++x->n;
}

static bool is_number(const char *name) { return name[1] >= '0' && name[1] <= '9'; }

static Entry entry_of(const ToolFn *f, RtArena *mem, uint32_t buf) {
  const Buf *b = &f->f->bufs[buf];
  const char *name = f->name[b->head.i], *op = tool_op_name(f, b->head), *scratch = b->scratch ? "scratch of " : "";
  const char *at = tool_loc(f->f->prog, mem, f->f->ins[b->head.i].loc);
  uint32_t result = b->head.i - ir_head(f->f, b->head).i;
  const char *what = result ? rt_printf(mem, "%s %s (result %u)", op, at, result) : rt_printf(mem, "%s %s", op, at);
  if (is_number(name))
    return (Entry){
        .key = rt_printf(mem, "%s%s", scratch, what), .buf = buf, .text = rt_printf(mem, "%s%s", scratch, what)};
  return (Entry){
      .key = rt_printf(mem, "%s%s", scratch, name), .buf = buf, .text = rt_printf(mem, "%s%s %s", scratch, name, what)};
}

// Parameters are compared once for the program.
static Index index_bufs(const ToolFn *f, RtArena *mem) {
  Index x = index_new(mem, f->f->n_bufs);
  uint32_t *counts = rt_alloc(mem, (f->f->n_bufs + 1) * sizeof *counts);
  for (uint32_t b = 1; b < f->f->n_bufs; b++)
    if (f->f->bufs[b].seg != SEG_PARAM) add(&x, mem, counts, entry_of(f, mem, b));
  return x;
}

// ---- buffers
static const char *life_text(const Buf *b, RtArena *mem) {
  return b->last < 0 ? "never used" : rt_printf(mem, "kernels [%d,%d]", b->first, b->last);
}

static void compare_buf(Diff *d, const ToolFn *f, const Entry *x, const ToolFn *g, const Entry *y) {
  const Buf *a = &f->f->bufs[x->buf], *b = &g->f->bufs[y->buf];
  bool moved = a->seg != b->seg || a->offset != b->offset, lives = a->first != b->first || a->last != b->last;
  if (!moved && !lives && a->bytes == b->bytes && !a->reuses == !b->reuses) return;
  RtText t = {.mem = d->mem};
  rt_text_add(&t, "~ %s", y->text);
  const char *sep = ": ";
  if (a->bytes != b->bytes)
    rt_text_add(&t, "%s%lld -> %lld B", sep, (long long)a->bytes, (long long)b->bytes), sep = ", ";
  if (moved)
    rt_text_add(&t, "%s%s+%lld -> %s+%lld", sep, tool_seg_name[a->seg], (long long)a->offset, tool_seg_name[b->seg],
                (long long)b->offset),
        sep = ", ";
  if (lives) rt_text_add(&t, "%s%s -> %s", sep, life_text(a, d->mem), life_text(b, d->mem)), sep = ", ";
  if (!a->reuses != !b->reuses) rt_text_add(&t, "%s%s", sep, b->reuses ? "now in place" : "no longer in place");
  line(d, t.text);
}

static void one_sided(Diff *d, char sign, const ToolFn *f, const Entry *e) {
  const Buf *b = &f->f->bufs[e->buf];
  line(d, rt_printf(d->mem, "%c %s: %lld B at %s+%lld, %s%s", sign, e->text, (long long)b->bytes, tool_seg_name[b->seg],
                    (long long)b->offset, life_text(b, d->mem), b->reuses ? ", in place" : ""));
}

static void compare_bufs(Diff *d, const ToolFn *f, const ToolFn *g) {
  Index x = index_bufs(f, d->mem), y = index_bufs(g, d->mem);
  for (uint32_t k = 0; k < x.n; k++)
    if (!find(&y, x.list[k].key, x.list[k].ordinal)) one_sided(d, '-', f, &x.list[k]);
  for (uint32_t k = 0; k < y.n; k++) {
    uint32_t old = find(&x, y.list[k].key, y.list[k].ordinal);
    if (!old) one_sided(d, '+', g, &y.list[k]);
    else compare_buf(d, f, &x.list[old - 1], g, &y.list[k]);
  }
}

// ---- figures and kernels
static void figure(Diff *d, const char *what, int64_t a, int64_t b, const char *unit) {
  if (a == b) return;
  line(d, rt_printf(d->mem, "%s %lld -> %lld%s (%+lld)", what, (long long)a, (long long)b, unit, (long long)(b - a)));
}

static void compare_figures(Diff *d, const PlanStats *a, const PlanStats *b) {
  figure(d, "kernels", a->n_kernels, b->n_kernels, "");
  figure(d, "arena", a->peak_bytes, b->peak_bytes, " B");
  figure(d, "lower bound", a->lower_bound, b->lower_bound, " B");
  figure(d, "in place", a->n_inplace, b->n_inplace, "");
  figure(d, "copies", a->n_copies, b->n_copies, "");
  figure(d, "bytes copied", a->copy_bytes, b->copy_bytes, " B");
}

static const char *kernel_text(const ToolFn *f, RtArena *mem, uint32_t k) {
  return rt_printf(mem, "%s: %s", ir_class_name(f->f->kernels[k].cls), tool_kernel_ops(f, mem, k));
}

enum { MAX_KERNELS_LISTED = 6 };

static const char *kernel_range(const ToolFn *f, RtArena *mem, uint32_t lo, uint32_t hi) {
  RtText t = {.mem = mem};
  if (lo == hi) return "none";
  rt_text_add(&t, "%u", lo);
  if (hi - lo > 1) rt_text_add(&t, "..%u", hi - 1);
  rt_text_add(&t, " (");
  for (uint32_t k = lo; k < hi && k < lo + MAX_KERNELS_LISTED; k++)
    rt_text_add(&t, "%s%s", k == lo ? "" : " | ", kernel_text(f, mem, k));
  if (hi - lo > MAX_KERNELS_LISTED) rt_text_add(&t, " | ..");
  rt_text_add(&t, ")");
  return t.text;
}

// Kernels between the equal first and the equal last ones.
static void compare_kernels(Diff *d, const ToolFn *f, const ToolFn *g) {
  uint32_t n = f->f->n_kernels, m = g->f->n_kernels, lo = 0, tail = 0, least = n < m ? n : m;
  while (lo < least && !strcmp(kernel_text(f, d->mem, lo), kernel_text(g, d->mem, lo))) lo++;
  while (tail < least - lo && !strcmp(kernel_text(f, d->mem, n - 1 - tail), kernel_text(g, d->mem, m - 1 - tail)))
    tail++;
  if (lo == n && lo == m) return;
  line(d, rt_printf(d->mem, "kernels %s -> %s", kernel_range(f, d->mem, lo, n - tail),
                    kernel_range(g, d->mem, lo, m - tail)));
}

static const ToolFn *same_fn(const ToolPlan *t, const ToolFn *f) {
  for (uint32_t k = 0; k < t->n_fns; k++)
    if (!strcmp(tool_fn_name(&t->fns[k]), tool_fn_name(f))) return &t->fns[k];
  return NULL;
}

static void compare_fns(Diff *d) {
  for (uint32_t k = 0; k < d->a->n_fns; k++) {
    const ToolFn *f = &d->a->fns[k], *g = same_fn(d->b, f);
    d->function = rt_printf(d->mem, "@%s", tool_fn_name(f));
    if (!g) {
      line(d, "- the whole function");
      continue;
    }
    compare_figures(d, &f->f->stats, &g->f->stats);
    compare_kernels(d, f, g);
    compare_bufs(d, f, g);
  }
  for (uint32_t k = 0; k < d->b->n_fns; k++) {
    const ToolFn *g = &d->b->fns[k];
    d->function = rt_printf(d->mem, "@%s", tool_fn_name(g));
    if (!same_fn(d->a, g)) line(d, "+ the whole function");
  }
}

// ---- parameters
static const char *param_text(const Prog *p, const Param *q, RtArena *mem) {
  static const char *const kinds[] = {"param", "buffer", "state", "transient"};
  RtText t = {.mem = mem};
  rt_text_add(&t, "%s %s", kinds[q->kind], ir_dtype_name[q->dtype]);
  if (ir_rank(p, q->shape)) ir_shape_text(p, q->shape, &t);
  else rt_text_add(&t, "[]");
  if (q->trainable) rt_text_add(&t, " trainable");
  return t.text;
}

static uint32_t same_param(const Prog *p, const char *path) {
  for (uint32_t k = 0; k < p->n_params; k++)
    if (!strcmp(ir_text(p, p->params[k].path), path)) return k;
  return UINT32_MAX;
}

static void compare_params(Diff *d) {
  const Prog *p = d->a->p, *q = d->b->p;
  d->function = "parameters";
  figure(d, "bytes", p->param_bytes, q->param_bytes, " B");
  figure(d, "packed bytes", p->packed_bytes, q->packed_bytes, " B");
  for (uint32_t k = 0; k < p->n_params; k++) {
    const char *path = ir_text(p, p->params[k].path), *text = param_text(p, &p->params[k], d->mem);
    uint32_t at = same_param(q, path);
    if (at == UINT32_MAX) {
      line(d, rt_printf(d->mem, "- @%s: %s", path, text));
      continue;
    }
    const char *now = param_text(q, &q->params[at], d->mem);
    bool retyped = strcmp(text, now) != 0, moved = p->params[k].offset != q->params[at].offset;
    if (retyped) line(d, rt_printf(d->mem, "~ @%s: %s -> %s", path, text, now));
    else if (moved)
      line(d, rt_printf(d->mem, "~ @%s: param+%lld -> param+%lld", path, (long long)p->params[k].offset,
                        (long long)q->params[at].offset));
  }
  for (uint32_t k = 0; k < q->n_params; k++) {
    const char *path = ir_text(q, q->params[k].path);
    if (same_param(p, path) == UINT32_MAX)
      line(d, rt_printf(d->mem, "+ @%s: %s", path, param_text(q, &q->params[k], d->mem)));
  }
}

static int diff(RtArena *mem, void *ctx) {
  const CliArgs *args = ctx;
  ToolPlan a = {0}, b = {0};
  if (!tool_plan_read(&a, mem, args->operand[0]) || !tool_plan_read(&b, mem, args->operand[1])) return EXIT_USAGE;
  RtText out = {.mem = mem};
  Diff d = {.mem = mem, .out = &out, .a = &a, .b = &b, .as_json = cli_has(args, "--json")};
  if (d.as_json) json_open(&out, NULL, '[');
  else rt_text_add(&out, "--- %s\n+++ %s\n", a.path, b.path);
  compare_params(&d);
  compare_fns(&d);
  if (d.as_json) json_close(&out, ']'), rt_text_add(&out, "\n");
  bool prints = d.differs || d.as_json;
  if (prints && !tool_put(&out)) return EXIT_USAGE;
  return d.differs ? EXIT_ERRORS : 0;
}

int tool_diff(const CliArgs *a) {
  if (!strcmp(a->operand[0], "-") && !strcmp(a->operand[1], "-"))
    return cli_usage_error(a, "standard input is read once: one of the two files needs a name");
  return tool_with_arena(diff, (void *)(uintptr_t)a);
}
