// tenure report FILE.tir --text: the report for a terminal, 80 columns wide. The arena map as letters, offset 0 at the
// bottom, kernels from left to right; what stands at the peak; the kernels that move most bytes.
//
//   arena 972.3 KiB, lower bound 962.2 KiB (gap 1.1 %), peak at kernel 2 of 8
//   972.3 KiB |  gggg..  |
//             |aasssss   |
//           0 +----------+
//              ^           2
#include "ir/intern.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, COLUMNS = 64, AT_PEAK = 10, TOP_KERNELS = 10, LINE = 80 };
static const char letter[N_BUF_KINDS + 1] = "asg+t";

// How much of each cell each kind of buffer takes, in bytes times kernels.
typedef struct {
  double share[ROWS][COLUMNS][N_BUF_KINDS];
  uint32_t n_columns;
} Grid;

// The part of [lo, hi) that lies in cell k of n that share [0, whole).
static double part_in(double lo, double hi, uint32_t k, uint32_t n, double whole) {
  double from = whole * k / n, to = whole * (k + 1) / n;
  double a = lo > from ? lo : from, b = hi < to ? hi : to;
  return b > a ? b - a : 0;
}

static void add_buf(Grid *g, const ToolFn *f, uint32_t buf) {
  const Buf *b = &f->f->bufs[buf];
  double arena = (double)f->f->stats.peak_bytes, kernels = f->f->n_kernels;
  if (b->seg != SEG_ARENA || b->last < 0) return;
  double last = b->last >= (int32_t)f->f->n_kernels ? kernels : b->last + 1;
  uint32_t c0 = (uint32_t)(b->first * g->n_columns / kernels), r0 = (uint32_t)((double)b->offset * ROWS / arena);
  for (uint32_t r = r0; r < ROWS; r++) {
    double bytes = part_in((double)b->offset, (double)(b->offset + b->bytes), r, ROWS, arena);
    if (bytes <= 0) break;
    for (uint32_t c = c0; c < g->n_columns; c++) {
      double time = part_in(b->first, last, c, g->n_columns, kernels);
      if (time <= 0) break;
      g->share[r][c][tool_kind(f, buf)] += bytes * time;
    }
  }
}

// The kind that takes most of a cell; a cell that is mostly free is empty.
static char cell(const Grid *g, const ToolFn *f, uint32_t r, uint32_t c) {
  double whole = (double)f->f->stats.peak_bytes / ROWS * f->f->n_kernels / g->n_columns, sum = 0;
  int best = 0;
  for (int k = 0; k < N_BUF_KINDS; k++) {
    sum += g->share[r][c][k];
    if (g->share[r][c][k] > g->share[r][c][best]) best = k;
  }
  return sum * 2 > whole ? letter[best] : sum > 0 ? '.' : ' ';
}

static void put_map(const ToolFn *f, const Peak *peak, RtText *out) {
  RtArena *mem = out->mem;
  Grid *g = rt_alloc(mem, sizeof *g);
  g->n_columns = f->f->n_kernels < COLUMNS ? f->f->n_kernels : COLUMNS;
  for (uint32_t b = 1; b < f->f->n_bufs; b++) add_buf(g, f, b);
  uint32_t at = peak->kernel * g->n_columns / f->f->n_kernels;
  for (uint32_t r = ROWS; r-- > 0;) {
    const char *label = r == ROWS - 1 ? tool_bytes(mem, f->f->stats.peak_bytes) : "";
    rt_text_add(out, "%11s |", label);
    for (uint32_t c = 0; c < g->n_columns; c++) rt_text_add(out, "%c", cell(g, f, r, c));
    rt_text_add(out, "|\n");
  }
  rt_text_add(out, "%11s +", "0");
  for (uint32_t c = 0; c < g->n_columns; c++) rt_text_add(out, "%c", c == at ? '^' : '-');
  rt_text_add(out, "+ %u kernels, ^ the peak\n", f->f->n_kernels);
  rt_text_add(out, "    ");
  for (int k = 0; k < N_BUF_KINDS; k++)
    rt_text_add(out, "%c %s%s", letter[k], tool_buf_kind[k], k + 1 < N_BUF_KINDS ? ", " : "\n\n");
}

// ---- kernels
typedef struct {
  uint32_t kernel;
  Traffic t;
} Row;

static int by_traffic(const void *a, const void *b) {
  const Row *x = a, *y = b;
  int64_t left = x->t.read + x->t.written, right = y->t.read + y->t.written;
  if (left != right) return left < right ? 1 : -1;
  return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

static Row *sorted_kernels(const ToolFn *f, RtArena *mem) {
  Row *rows = rt_alloc(mem, (f->f->n_kernels + 1) * sizeof *rows);
  for (uint32_t k = 0; k < f->f->n_kernels; k++) rows[k] = (Row){k, tool_traffic(f, mem, k)};
  qsort(rows, f->f->n_kernels, sizeof *rows, by_traffic);
  return rows;
}

// Cut to the width of the terminal, at a character of UTF-8.
static void put_line(RtText *out, const char *line) {
  size_t n = strlen(line), kept = 0;
  for (size_t width = 0; kept < n && width < LINE; width++) {
    size_t c = rt_utf8_length(line + kept, n - kept);
    kept += c ? c : 1;
  }
  rt_text_put(out, line, kept);
  rt_text_put(out, "\n", 1);
}

static void put_kernels(const ToolFn *f, RtText *out) {
  RtArena *mem = out->mem;
  const Row *rows = sorted_kernels(f, mem);
  rt_text_add(out, "\n%6s  %-12s %10s %10s  operations and lines\n", "kernel", "class", "reads", "writes");
  for (uint32_t k = 0; k < f->f->n_kernels && k < TOP_KERNELS; k++) {
    const Row *r = &rows[k];
    put_line(out, rt_printf(mem, "%6u  %-12s %10s %10s  %s  %s", r->kernel, ir_class_name(f->f->kernels[r->kernel].cls),
                            tool_bytes(mem, r->t.read), tool_bytes(mem, r->t.written),
                            tool_kernel_ops(f, mem, r->kernel), tool_kernel_lines(f, mem, r->kernel)));
  }
  if (f->f->n_kernels > TOP_KERNELS) rt_text_add(out, "%6s and %u more\n", "", f->f->n_kernels - TOP_KERNELS);
}

static const char *again_text(const ToolFn *f, RtArena *mem) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < f->f->n_kernels; k++) n += f->f->kernels[k].again;
  return n ? rt_printf(mem, " (%u run again)", n) : "";
}

static void put_fn(const ToolFn *f, RtText *out) {
  RtArena *mem = out->mem;
  const PlanStats *s = &f->f->stats;
  Peak peak = tool_peak(f, mem);
  double gap = s->lower_bound ? 100.0 * (double)(s->peak_bytes - s->lower_bound) / (double)s->lower_bound : 0;
  rt_text_add(
      out,
      "\n@%s: arena %s, lower bound %s (gap %.1f %%), %s of any order\n  %u kernels%s, %u in place, %u copies (%s)\n\n",
      tool_fn_name(f), tool_bytes(mem, s->peak_bytes), tool_bytes(mem, s->lower_bound), gap,
      tool_bytes(mem, s->order_bound), f->f->n_kernels, again_text(f, mem), s->n_inplace, s->n_copies,
      tool_bytes(mem, s->copy_bytes));
  if (s->peak_bytes && f->f->n_kernels) put_map(f, &peak, out);
  RtText at_peak = {.mem = mem};
  rt_text_put(&at_peak, "", 0);
  tool_put_peak(f, AT_PEAK, &at_peak);
  tool_put_modules(f, AT_PEAK, &at_peak);
  for (const char *line = at_peak.text; *line; line += strcspn(line, "\n"), line += *line == '\n')
    put_line(out, rt_strndup(mem, line, strcspn(line, "\n")));
  if (f->f->n_kernels) put_kernels(f, out);
}

// Which commands go on from here, of the function with the largest arena
static void put_commands(const ToolPlan *t, RtText *out) {
  const ToolFn *f = NULL;
  for (uint32_t k = 0; k < t->n_fns; k++)
    if (t->fns[k].f->stats.peak_bytes && (!f || t->fns[k].f->stats.peak_bytes > f->f->stats.peak_bytes)) f = &t->fns[k];
  if (!f) return;
  Peak peak = tool_peak(f, out->mem);
  if (!peak.n_rows) return;
  const Val head = f->f->bufs[peak.rows[0].buf].head;
  const Loc at = f->f->ins[head.i].loc;
  rt_text_add(out, "\nGo on with\n");
  rt_text_add(out, "  tenure explain %s %s --planned   why the largest value lives\n", t->path, f->name[head.i]);
  if (at.i)
    rt_text_add(out, "  tenure explain %s %s:%u   what became of its line\n", t->path, ir_loc_file(t->p, at),
                ir_loc_line(t->p, at));
  rt_text_add(out, "  tenure explain %s --peak   all that is live there\n", t->path);
  rt_text_add(out, "  tenure why --missed %s   what was not fused, not in place, or copied\n", t->path);
}

void tool_report_text(const ToolPlan *t, RtText *out) {
  rt_text_add(out, "plan of %s: parameters and state %s, constants %s, packed weights %s\n", t->path,
              tool_bytes(out->mem, t->p->param_bytes), tool_bytes(out->mem, t->p->const_bytes),
              tool_bytes(out->mem, t->p->packed_bytes));
  for (uint32_t k = 0; k < t->n_fns; k++) put_fn(&t->fns[k], out);
  put_commands(t, out);
}

static void json_fn(const ToolFn *f, RtText *out) {
  RtArena *mem = out->mem;
  const PlanStats *s = &f->f->stats;
  json_open(out, NULL, '{');
  json_text(out, "name", tool_fn_name(f));
  json_int(out, "arena", s->peak_bytes);
  json_int(out, "lower_bound", s->lower_bound);
  json_int(out, "order_bound", s->order_bound);
  json_int(out, "in_place", s->n_inplace);
  json_int(out, "copies", s->n_copies);
  json_int(out, "copy_bytes", s->copy_bytes);
  tool_json_peak(f, UINT32_MAX, 0, NULL, out);
  json_open(out, "kernels", '[');
  for (uint32_t k = 0; k < f->f->n_kernels; k++) {
    Traffic t = tool_traffic(f, mem, k);
    json_open(out, NULL, '{');
    json_text(out, "class", ir_class_name(f->f->kernels[k].cls));
    json_text(out, "operations", tool_kernel_ops(f, mem, k));
    json_text(out, "source", tool_kernel_lines(f, mem, k));
    json_int(out, "reads", t.read);
    json_int(out, "writes", t.written);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_close(out, '}');
}

void tool_report_json(const ToolPlan *t, RtText *out) {
  json_open(out, NULL, '{');
  json_int(out, "parameters", t->p->param_bytes);
  json_int(out, "constants", t->p->const_bytes);
  json_int(out, "packed_weights", t->p->packed_bytes);
  json_open(out, "functions", '[');
  for (uint32_t k = 0; k < t->n_fns; k++) json_fn(&t->fns[k], out);
  json_close(out, ']');
  json_close(out, '}');
  rt_text_add(out, "\n");
}
