// TN_PROFILE=1: entries count, per kernel, the cycles spent in it and in the barrier before it; a table is printed to
// stderr when the program is unloaded. Without the variable no such code is emitted.
//
//   function    kernel               calls  min us  mean us  share  GFLOP/s  GB/s  wait us  idle %  where
//   train_step  rnn_seq [rows,64]       62    81.0     84.1   31 %     92.0   2.1      3.0     4.2  vowels.c:20 in rnn
//
// Rows stand by time, initialisation last and without a share. All times of a row are those of one worker, the busiest:
// the one that ran the kernel longest in all. A worker may take part in some calls only, since small sizes wake fewer, so
// each counts its own calls; worker 0 takes part in all, and counts those of the table. share: of the busiest workers'
// times in all kernels. Rates are by the mean call. wait: worker 0's mean before the kernel. idle: how much less than the
// busiest the mean worker ran, of those that took part. Bytes count each stored operand and result once, so they say
// little where a kernel reads a part of a table; flops are those of products only. where: the line and the module of the
// instruction that the kernel is for; others may be fused with it.
#include "codegen/module/module.h"
#include "ir/product.h"
#include "runtime/clock.h"
#include "runtime/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 64, CELL = 8, TOTALS = WORKERS * CELL, ROW = TOTALS + CELL };  // in 64-bit words
enum { CALLS, RUN, RUN_MIN, WAIT };                                             // in a worker's slot; RUN_MIN: below
enum { FLOPS, BYTES };                                                          // in the totals, by worker 0
static const char table_name[] = "tenure_profile", cells_name[] = "tenure_profile_cells";

typedef struct {
  uint64_t n_rows;
  const char *text;  // of cg_profile_text
  const uint64_t *cells;
} Table;

bool cg_profile_wanted(void) {
  const char *on = getenv("TN_PROFILE");
  return on && *on && strcmp(on, "0") != 0;
}

// ---- code
static uint32_t n_rows(const ModulePlan *plan) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < plan->n_entries; k++) n += plan->entries[k].n_calls;
  return n;
}

static uint32_t row_of(const ModulePlan *plan, const EntryFn *e, uint32_t call) {
  for (const EntryFn *before = plan->entries; before < e; before++) call += before->n_calls;
  return call;
}

V cg_profile_cells(Cg *c, const char *name, uint64_t n) {
  V cells = LLVMGetNamedGlobal(c->mod, name);
  if (cells) return cells;
  LLVMTypeRef type = LLVMArrayType2(c->i64, n);
  cells = LLVMAddGlobal(c->mod, type, name);
  LLVMSetInitializer(cells, LLVMConstNull(type));
  LLVMSetVisibility(cells, LLVMHiddenVisibility);
  LLVMSetAlignment(cells, 64);
  return cells;
}

static V cells_of(Cg *c, const ModulePlan *plan) {
  return cg_profile_cells(c, cells_name, (uint64_t)n_rows(plan) * ROW);
}

V cg_profile_now(Cg *c) { return cg_call_intrinsic(c, "llvm.readcyclecounter", NULL, 0, NULL, 0); }

// Instances that run at once count in the same slots: each has a worker 0. Gives what was there.
V cg_profile_atomic(Cg *c, LLVMAtomicRMWBinOp op, V at, V amount) {
  return LLVMBuildAtomicRMW(c->b, op, at, amount, LLVMAtomicOrderingMonotonic, false);
}

static void add_to(Cg *c, V cells, V index, V amount) {
  cg_profile_atomic(c, LLVMAtomicRMWBinOpAdd, cg_at(c, c->i64, cells, index), amount);
}

// Kept as the greatest complement: 0 at the start, which no time is below.
static void keep_least(Cg *c, V cells, V index, V amount) {
  cg_profile_atomic(c, LLVMAtomicRMWBinOpUMax, cg_at(c, c->i64, cells, index), cg_not(c, amount));
}
static uint64_t least_run(const uint64_t *slot) { return ~slot[RUN_MIN]; }

static V bytes_of(Cg *c, const KernelCall *call) {
  V sum = cg_i64(c, 0);
  for (uint32_t k = 0; k < call->n_kernel_args; k++) {
    const KernelArg *p = &call->kernel_args[k];
    const Ins *ins = ir_ins(call->f, p->v);
    if (!(NUMBER >> ins->dtype & 1)) continue;
    int64_t size = (int64_t)ir_dtype_bytes[ins->dtype] * (p->reads + p->writes);
    sum = cg_add(c, sum, cg_mul(c, cg_numel(c, ins->shape), cg_i64(c, size)));
  }
  return sum;
}

static V last_dim(Cg *c, const Fn *f, Val v, uint32_t from_end) {
  Shape s = ir_ins(f, v)->shape;
  uint32_t rank = ir_rank(f->prog, s);
  return rank < from_end ? cg_i64(c, 1) : cg_dim(c, ir_dim_at(f->prog, s, rank - from_end));
}

static V flops_of(Cg *c, const KernelCall *call) {
  const Fn *f = call->f;
  V two = cg_i64(c, 2), sum = cg_i64(c, 0);
  for (uint32_t i = call->k->first; i < call->k->first + call->k->n; i++) {
    const Ins *ins = &f->ins[i];
    if (ins->op == OP_linear || ins->op == OP_matmul || ins->op == OP_square_distances) {
      V k = cg_dim(c, ir_product_terms(f, (Val){i}));
      return cg_mul(c, two, cg_mul(c, cg_numel(c, ins->shape), k));
    }
    if (ins->op == OP_rnn_seq || ins->op == OP_rnn_seq_grad) {
      Val w = ir_operand(f, (Val){i}, ARG_w_hh), w_ih = ir_operand(f, (Val){i}, ARG_w_ih);
      V rows = last_dim(c, f, ir_arg(f, (Val){i}, ins->op == OP_rnn_seq ? 0 : 5), 2);
      V weights = cg_numel(c, ir_ins(f, w)->shape);
      if (!ir_none(w_ih)) weights = cg_add(c, weights, cg_numel(c, ir_ins(f, w_ih)->shape));
      sum = cg_add(c, sum, cg_mul(c, two, cg_mul(c, rows, weights)));  // sequences side by side
    }
  }
  return sum;
}

// After kernel `call`: `before`: arrival at its barrier, `start`: begin of the kernel.
void cg_profile_add(Cg *c, const ModulePlan *plan, const EntryFn *e, uint32_t call, V before, V start) {
  const KernelCall *k = &e->calls[call];
  V end = cg_profile_now(c), cells = cells_of(c, plan);
  V row = cg_i64(c, (int64_t)row_of(plan, e, call) * ROW);
  V worker = cg_sext(c, LLVMGetParam(c->fn, 1), c->i64);
  V cell = cg_add(c, row, cg_mul(c, worker, cg_i64(c, CELL)));
  V ran = cg_isub(c, end, start);
  add_to(c, cells, cg_add(c, cell, cg_i64(c, CALLS)), cg_i64(c, 1));
  add_to(c, cells, cg_add(c, cell, cg_i64(c, RUN)), ran);
  keep_least(c, cells, cg_add(c, cell, cg_i64(c, RUN_MIN)), ran);
  add_to(c, cells, cg_add(c, cell, cg_i64(c, WAIT)), cg_isub(c, start, before));
  if (plan->trace) cg_trace_add(c, row_of(plan, e, call), worker, before, start, end);
  for (If first = cg_when(c, cg_eq(c, worker, cg_i64(c, 0))); cg_then(&first);) {
    c->f = k->f, c->n_dims = 0;  // dims are loaded from the frame
    V totals = cg_add(c, row, cg_i64(c, TOTALS));
    add_to(c, cells, cg_add(c, totals, cg_i64(c, FLOPS)), flops_of(c, k));
    add_to(c, cells, cg_add(c, totals, cg_i64(c, BYTES)), bytes_of(c, k));
  }
}

// The instruction that decides what kind of kernel it is.
static Loc loc_of(const KernelCall *call) {
  const Fn *f = call->f;
  for (uint32_t i = call->k->first; i < call->k->first + call->k->n; i++)
    if (ir_ops[f->ins[i].op].cls == call->k->cls && f->ins[i].loc.i) return f->ins[i].loc;
  return f->ins[call->k->first].loc;
}

// Without the folders of the file; a character that would end a field of the table is none of a name's.
static void place_kernel(const KernelCall *call, RtText *out) {
  RtText text = {.mem = out->mem};
  ir_loc_text(call->f->prog, loc_of(call), &text);
  if (!text.text) return;
  const char *colon = strchr(text.text, ':'), *name = text.text;
  for (const char *c = text.text; c < colon; c++)
    if (*c == '/') name = c + 1;
  for (; *name; name++) rt_text_add(out, "%c", *name < ' ' ? '?' : *name);
}

static void name_kernel(const KernelCall *call, RtText *out) {
  const Fn *f = call->f;
  enum { N_NAMED = 4 };
  uint32_t last = call->k->first, n = 0;
  for (uint32_t i = call->k->first; i < call->k->first + call->k->n; i++) {
    if (f->ins[i].op == OP_result) continue;
    if (n < N_NAMED) rt_text_add(out, "%s%s", n ? "," : "", ir_ops[f->ins[i].op].name);
    n++, last = i;
  }
  if (n > N_NAMED) rt_text_add(out, ",+%u", n - N_NAMED);
  rt_text_add(out, " ");
  ir_shape_text(f->prog, f->ins[last].shape, out);
}

const char *cg_kernel_name(const ModulePlan *plan, const KernelCall *call) {
  RtText text = {plan->mem, NULL, 0, 0};
  name_kernel(call, &text);
  return text.text;
}

// The counters, in the module of the entries.
void cg_profile_emit(Cg *c, const ModulePlan *plan) {
  RtText text = {plan->mem, NULL, 0, 0};
  cg_profile_text(plan, &text);
  V string = LLVMConstStringInContext2(c->ctx, text.text ? text.text : "", text.len, false);
  V global = LLVMAddGlobal(c->mod, LLVMTypeOf(string), "tenure_profile_text");
  LLVMSetInitializer(global, string);
  LLVMSetVisibility(global, LLVMHiddenVisibility);
  V field[] = {cg_i64(c, n_rows(plan)), global, cells_of(c, plan)};
  V value = LLVMConstStructInContext(c->ctx, field, 3, false);
  LLVMSetInitializer(LLVMAddGlobal(c->mod, LLVMTypeOf(value), table_name), value);
}

void cg_profile_text(const ModulePlan *plan, RtText *out) {
  for (uint32_t k = 0; k < plan->n_entries; k++)
    for (uint32_t i = 0; i < plan->entries[k].n_calls; i++) {
      rt_text_add(out, "%s\t", ir_text(plan->p, plan->entries[k].f->name));
      name_kernel(&plan->entries[k].calls[i], out);
      rt_text_add(out, "\t");
      place_kernel(&plan->entries[k].calls[i], out);
      rt_text_add(out, "\n");
    }
}

// ---- print
static uint64_t cycles(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t t;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#else
  return 0;
#endif
}

static double cycles_per_us(void) {
  enum { WAIT_NS = 5 * 1000 * 1000 };
  int64_t start = rt_now_ns(), now = start;
  uint64_t from = cycles();
  while (now < start + WAIT_NS) now = rt_now_ns();
  double rate = 1e3 * (double)(cycles() - from) / (double)(now - start);
  return rate > 0 ? rate : 1;
}

// A call of a kernel, as it is printed
typedef struct {
  const char *line;  // its row of the text
  const uint64_t *cells;
  const uint64_t *busiest;  // the slot of the worker that ran longest
  bool is_init;
} Row;

static const uint64_t *busiest_of(const uint64_t *cells) {
  const uint64_t *most = cells;
  for (uint32_t w = 1; w < WORKERS; w++)
    if (cells[w * CELL + RUN] > most[RUN]) most = cells + (size_t)w * CELL;
  return most;
}

// Percent by which the mean worker ran less than the busiest, of those that took part.
static double idle(const Row *r) {
  double sum = 0, n = 0;
  for (uint32_t w = 0; w < WORKERS; w++) {
    sum += (double)r->cells[w * CELL + RUN];
    n += r->cells[w * CELL + CALLS] > 0;
  }
  return r->busiest[RUN] ? 100 * (1 - sum / (n * (double)r->busiest[RUN])) : 0;
}

static bool is_init(const char *line) { return strcspn(line, "\t") == 4 && !strncmp(line, "init", 4); }

// Calls that were made, in the order of the text
static uint32_t collect(const Table *t, Row *out) {
  uint32_t n = 0;
  const char *line = t->text;
  for (uint64_t k = 0; k < t->n_rows; k++, line = strchr(line, '\n') + 1) {
    const uint64_t *cells = t->cells + k * ROW;
    if (cells[CALLS]) out[n++] = (Row){line, cells, busiest_of(cells), is_init(line)};
  }
  return n;
}

static int by_time(const void *a, const void *b) {
  const Row *x = a, *y = b;
  if (x->is_init != y->is_init) return x->is_init - y->is_init;
  if (x->busiest[RUN] != y->busiest[RUN]) return x->busiest[RUN] < y->busiest[RUN] ? 1 : -1;
  return x->line < y->line ? -1 : 1;
}

static void print_row(const Row *r, double rate, double all) {
  const uint64_t *total = r->cells + TOTALS;
  double calls = (double)r->cells[CALLS], min = (double)least_run(r->busiest) / rate;
  double mean = (double)r->busiest[RUN] / rate / (double)r->busiest[CALLS];
  double per_second = mean > 0 ? 1e-3 / (calls * mean) : 0;
  int n_function = (int)strcspn(r->line, "\t");
  const char *kernel = r->line + n_function + 1, *where = strchr(kernel, '\t') + 1;
  char share[16] = "-  ";
  if (!r->is_init && all > 0) rt_format(share, sizeof share, "%.1f %%", 100 * (double)r->busiest[RUN] / all);
  rt_fformat(stderr, "%-11.*s %-48.*s %6.0f %9.2f %9.2f %7s %8.1f %7.2f %7.2f %6.1f  %.*s\n", n_function, r->line,
             (int)(where - kernel - 1), kernel, calls, min, mean, share, (double)total[FLOPS] * per_second,
             (double)total[BYTES] * per_second, (double)r->cells[WAIT] / calls / rate, idle(r),
             (int)strcspn(where, "\n"), where);
}

static void print_table(const Table *t, double rate) {
  Row *rows = malloc((t->n_rows + 1) * sizeof *rows);
  if (!rows) return;
  uint32_t n = collect(t, rows);
  double all = 0;
  for (uint32_t k = 0; k < n; k++) all += rows[k].is_init ? 0 : (double)rows[k].busiest[RUN];
  qsort(rows, n, sizeof *rows, by_time);
  fprintf(stderr, "%-11s %-48s %6s %9s %9s %7s %8s %7s %7s %6s  %s\n", "function", "kernel", "calls", "min us",
          "mean us", "share", "GFLOP/s", "GB/s", "wait us", "idle %", "where");
  for (uint32_t k = 0; k < n; k++) print_row(&rows[k], rate, all);
  free(rows);
}

void cg_profile_print(CgJit *j) {
  const Table *t = cg_profile_wanted() || cg_trace_wanted() ? cg_jit_find(j, table_name) : NULL;
  if (!t) return;
  double rate = cycles_per_us();
  if (cg_profile_wanted()) print_table(t, rate);
  cg_trace_write(j, t->text, rate);
}
