// tn_summary: the modules of a function as it called them, with what they hold and cost.
#include "codegen/module/compile.h"
#include "frontend/graph/report.h"
#include "frontend/module/call.h"
#include "ir/passes/cost.h"
#include "runtime/format.h"
#include <string.h>

// ---- records
uint32_t fe_call_begins(tn_function *f, tn_module *m) {
  *RT_PUSH(f->p->mem, f->calls, f->n_calls, f->cap_calls) =
      (FeModuleCall){.m = m, .depth = f->call_depth++, .first = f->ir->n_ins};
  return f->n_calls - 1;
}

void fe_call_ended(tn_function *f, uint32_t call, const tn_values *out) {
  f->call_depth = f->calls[call].depth;
  f->calls[call].end = f->ir->n_ins;
  f->calls[call].out = *out;
}

// ---- the table
typedef struct {
  const tn_function *f;
  FILE *out;
  uint32_t stamp;
  RtArena *mem;
} Table;

static bool is_below(const tn_module *m, const tn_module *top) {
  while (m && m != top) m = m->parent;
  return m;
}

typedef struct {
  int64_t n, bytes;
} Count;

// Elements of m's parameters that were not counted with this stamp: own ones, or all below it
static Count count_params(const tn_module *m, uint32_t stamp, bool below, bool trainable) {
  Count c = {0};
  for (uint32_t k = 0; k < m->n_entries; k++) {
    FeParam *q = m->entries[k].param;
    if (q->kind != PARAM_WEIGHT || q->stamp == stamp || (trainable && q->frozen)) continue;
    q->stamp = stamp;
    c.n += ir_shape_bound(m->p->ir, q->shape), c.bytes += ir_type_bytes(m->p->ir, q->dtype, q->shape);
  }
  for (const tn_module *child = m->first; child && below; child = child->next) {
    Count more = count_params(child, stamp, below, trainable);
    c.n += more.n, c.bytes += more.bytes;
  }
  return c;
}

static double multiply_adds(const tn_function *f, const FeModuleCall *c) {
  double n = 0;
  for (uint32_t i = c->first; i < c->end; i++) n += ir_multiply_adds(f->ir, (Val){i});
  return n;
}

static int64_t bytes_of(const tn_function *f, const FeModuleCall *c) {
  int64_t n = 0;
  for (uint32_t k = 0; k < c->out.n; k++) {
    if (!fe_ok(c->out.v[k])) continue;
    const Ins *ins = fe_ins(c->out.v[k]);
    if (ins->dtype != DT_LAYOUT) n += ir_shape_bound(f->p->ir, ins->shape) * ir_dtype_bytes[ins->dtype];
  }
  return n;
}

static const char *count_text(RtArena *mem, double n) {
  char digits[32];
  rt_format(digits, sizeof digits, "%.0f", n);
  size_t len = strlen(digits);
  RtText t = {.mem = mem};
  for (size_t k = 0; k < len; k++) rt_text_add(&t, "%s%c", k && (len - k) % 3 == 0 ? "," : "", digits[k]);
  return t.text;
}

// Its path below the module of the row that it stands in, or below the table's own: the parts of a list, which is not called
// itself, have the list's name too.
static const char *name_in_table(const Table *t, const FeModuleCall *c, const tn_module *top) {
  const tn_module *above = top;
  const FeModuleCall *outer = c;
  while (outer > t->f->calls && outer->depth >= c->depth) outer--;
  if (outer->depth < c->depth && is_below(outer->m, top)) above = outer->m;
  if (c->m == top || !is_below(c->m, above) || c->m == above) return c->m->name ? c->m->name : "root";
  size_t skipped = strlen(above->path);
  return c->m->path + skipped + (skipped > 0);
}

static void put_row(const Table *t, const FeModuleCall *c, const char *of, uint32_t depth, bool has_children) {
  const tn_module *m = c->m;
  RtText name = {.mem = t->mem}, type = {.mem = t->mem};
  rt_text_add(&name, "%*s%s (%s)", (int)(2 * depth), "", of, tn_module_kind(m));
  for (uint32_t k = 0; k < c->out.n; k++)
    rt_text_add(&type, "%s%s", k ? " " : "", fe_ok(c->out.v[k]) ? fe_type_text(c->out.v[k]) : "-");
  int64_t n = count_params(m, t->stamp, !has_children, false).n;
  char bytes[RT_BYTES_SIZE];
  fprintf(t->out, "%-38s %-22s %13s %15s %12s\n", name.text, type.text ? type.text : "-",
          n ? count_text(t->mem, (double)n) : "-", count_text(t->mem, multiply_adds(t->f, c)),
          rt_bytes_text(bytes, bytes_of(t->f, c)));
}

static void put_rule(FILE *out) {
  for (int k = 0; k < 104; k++) fputc('-', out);
  fputc('\n', out);
}

static void put_totals(const Table *t, const tn_module *m, double macs, int64_t activations) {
  tn_program *p = m->p;
  Count all = count_params(m, ++p->stamp, true, false), trained = count_params(m, ++p->stamp, true, true);
  char a[RT_BYTES_SIZE], b[RT_BYTES_SIZE];
  put_rule(t->out);
  fprintf(t->out, "parameters   %s, of which %s are trained; %s\n", count_text(t->mem, (double)all.n),
          count_text(t->mem, (double)trained.n), rt_bytes_text(a, all.bytes));
  fprintf(t->out, "multiply-adds %s   activations %s\n", count_text(t->mem, macs), rt_bytes_text(b, activations));
}

static void put_table(Table *t, const tn_module *m) {
  const tn_function *f = t->f;
  double macs = 0;
  int64_t activations = 0;
  uint32_t top = 0, until = 0;  // depth and end of the outermost call at hand
  fprintf(t->out, "%-38s %-22s %13s %15s %12s\n", "layer", "output", "parameters", "multiply-adds", "activations");
  put_rule(t->out);
  t->stamp = ++m->p->stamp;
  for (uint32_t k = 0; k < f->n_calls; k++) {
    const FeModuleCall *c = &f->calls[k];
    if (!is_below(c->m, m) || !c->end) continue;
    if (c->first >= until) top = c->depth, until = c->end, macs += multiply_adds(f, c);
    bool has_children = k + 1 < f->n_calls && c[1].depth > c->depth && c[1].first < c->end;
    put_row(t, c, name_in_table(t, c, m), c->depth - top, has_children);
    if (!has_children) activations += bytes_of(f, c);
  }
  put_totals(t, m, macs, activations);
}

tn_status tn_summary(const tn_function *f, const tn_module *m, FILE *out) {
  if (!f || !f->ir || !m || !out || f->p != m->p || f->p->sealed || f->p->oom) return TN_ERR_ARGUMENT;
  FE_GUARD(f->p, TN_ERR_MEMORY);
  Table t = {.f = f, .out = out, .mem = f->p->mem};
  put_table(&t, m);
  return ferror(out) ? TN_ERR_FILE : TN_OK;
}
