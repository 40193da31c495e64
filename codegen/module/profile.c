// TN_PROFILE=1: entries count, per kernel, the cycles spent in it and in the barrier before it; a table is printed to
// stderr when the program is unloaded. Without the variable no such code is emitted.
//
//   function    kernel                       calls  min us  mean us  share  GFLOP/s  GB/s  wait us  idle %
//   train_step  rnn_seq f32[rows,64]            62    81.0     84.1   31 %     92.0   2.1      3.0     4.2
//
// min and mean: of the slowest worker. wait: worker 0's minimum before the kernel. idle: how much less than the slowest
// the mean worker runs. Share and rates are from minimum times, which are least disturbed by other processes; where sizes
// vary from call to call only the mean is meaningful. Bytes count each stored operand and result once, so they say
// little where a kernel reads a part of a table; flops are those of products only.
#include "codegen/module/module.h"
#include "runtime/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORKERS = 64, CELL = 8, TOTALS = WORKERS * CELL, ROW = TOTALS + CELL };  // in 64-bit words
enum { RUN, RUN_MIN, WAIT_MIN };                                                // in a worker's slot
enum { CALLS, FLOPS, BYTES };                                                   // in the totals, by worker 0
static const char table_name[] = "tenure_profile", cells_name[] = "tenure_profile_cells";

typedef struct {
  uint64_t n_rows;
  const char *text;  // "function\tkernel\n" per row
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

static LLVMValueRef cells_of(Cg *c, const ModulePlan *plan) {
  LLVMValueRef cells = LLVMGetNamedGlobal(c->mod, cells_name);
  if (cells) return cells;
  LLVMTypeRef type = LLVMArrayType2(c->i64, (uint64_t)n_rows(plan) * ROW);
  cells = LLVMAddGlobal(c->mod, type, cells_name);
  LLVMSetInitializer(cells, LLVMConstNull(type));
  LLVMSetVisibility(cells, LLVMHiddenVisibility);
  LLVMSetAlignment(cells, 64);
  return cells;
}

LLVMValueRef cg_profile_now(Cg *c) { return cg_call_intrinsic(c, "llvm.readcyclecounter", NULL, 0, NULL, 0); }

static void add_to(Cg *c, LLVMValueRef cells, LLVMValueRef index, LLVMValueRef amount) {
  LLVMValueRef at = cg_at(c, c->i64, cells, index);
  cg_store(c, LLVMBuildAdd(c->b, cg_load(c, c->i64, at), amount, ""), at);
}

static void keep_least(Cg *c, LLVMValueRef cells, LLVMValueRef index, LLVMValueRef amount) {
  LLVMValueRef at = cg_at(c, c->i64, cells, index), old = cg_load(c, c->i64, at);
  LLVMValueRef less = LLVMBuildICmp(c->b, LLVMIntULT, amount, old, "");
  LLVMValueRef none = LLVMBuildICmp(c->b, LLVMIntEQ, old, cg_i64(c, 0), "");
  cg_store(c, LLVMBuildSelect(c->b, LLVMBuildOr(c->b, less, none, ""), amount, old, ""), at);
}

static LLVMValueRef bytes_of(Cg *c, const KernelCall *call) {
  LLVMValueRef sum = cg_i64(c, 0);
  for (uint32_t k = 0; k < call->n_kernel_args; k++) {
    const KernelArg *p = &call->kernel_args[k];
    const Ins *ins = ir_ins(call->f, p->v);
    if (!(NUMBER >> ins->dtype & 1)) continue;
    int64_t size = (int64_t)ir_dtype_bytes[ins->dtype] * (p->reads + p->writes);
    sum = cg_add(c, sum, cg_mul(c, cg_numel(c, ins->shape), cg_i64(c, size)));
  }
  return sum;
}

static LLVMValueRef last_dim(Cg *c, const Fn *f, Val v, uint32_t from_end) {
  Shape s = ir_ins(f, v)->shape;
  uint32_t rank = ir_rank(f->prog, s);
  return rank < from_end ? cg_i64(c, 1) : cg_dim(c, ir_dim_at(f->prog, s, rank - from_end));
}

static LLVMValueRef flops_of(Cg *c, const KernelCall *call) {
  const Fn *f = call->f;
  LLVMValueRef two = cg_i64(c, 2), sum = cg_i64(c, 0);
  for (uint32_t i = call->k->first; i < call->k->first + call->k->n; i++) {
    const Ins *ins = &f->ins[i];
    if (ins->op == OP_linear || ins->op == OP_matmul) {
      bool ta = ins->op == OP_matmul && ir_attr_int(f, (Val){i}, KEY_ta, 0);
      LLVMValueRef k = last_dim(c, f, ir_arg(f, (Val){i}, 0), ta ? 2 : 1);
      return cg_mul(c, two, cg_mul(c, cg_numel(c, ins->shape), k));
    }
    if (ins->op == OP_rnn_seq || ins->op == OP_rnn_seq_grad) {
      Val w = ir_operand(f, (Val){i}, ARG_w_hh), w_ih = ir_operand(f, (Val){i}, ARG_w_ih);
      LLVMValueRef rows = last_dim(c, f, ir_arg(f, (Val){i}, ins->op == OP_rnn_seq ? 0 : 5), 2);
      LLVMValueRef weights = cg_numel(c, ir_ins(f, w)->shape);
      if (!ir_none(w_ih)) weights = cg_add(c, weights, cg_numel(c, ir_ins(f, w_ih)->shape));
      sum = cg_add(c, sum, cg_mul(c, two, cg_mul(c, rows, weights)));  // sequences side by side
    }
  }
  return sum;
}

// After kernel `call`: `before`: arrival at its barrier, `start`: begin of the kernel.
void cg_profile_add(Cg *c, const ModulePlan *plan, const EntryFn *e, uint32_t call, LLVMValueRef before,
                    LLVMValueRef start) {
  const KernelCall *k = &e->calls[call];
  LLVMValueRef end = cg_profile_now(c), cells = cells_of(c, plan);
  LLVMValueRef row = cg_i64(c, (int64_t)row_of(plan, e, call) * ROW);
  LLVMValueRef worker = LLVMBuildSExt(c->b, LLVMGetParam(c->fn, 1), c->i64, "");
  LLVMValueRef cell = cg_add(c, row, cg_mul(c, worker, cg_i64(c, CELL)));
  LLVMValueRef ran = LLVMBuildSub(c->b, end, start, "");
  add_to(c, cells, cg_add(c, cell, cg_i64(c, RUN)), ran);
  keep_least(c, cells, cg_add(c, cell, cg_i64(c, RUN_MIN)), ran);
  keep_least(c, cells, cg_add(c, cell, cg_i64(c, WAIT_MIN)), LLVMBuildSub(c->b, start, before, ""));
  if (plan->trace) cg_trace_add(c, row_of(plan, e, call), worker, before, start, end);
  If first;
  cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, worker, cg_i64(c, 0), ""));
  c->f = k->f, c->n_dims = 0;  // dims are loaded from the frame
  LLVMValueRef totals = cg_add(c, row, cg_i64(c, TOTALS));
  add_to(c, cells, cg_add(c, totals, cg_i64(c, CALLS)), cg_i64(c, 1));
  add_to(c, cells, cg_add(c, totals, cg_i64(c, FLOPS)), flops_of(c, k));
  add_to(c, cells, cg_add(c, totals, cg_i64(c, BYTES)), bytes_of(c, k));
  cg_endif(c, &first);
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
  for (uint32_t k = 0; k < plan->n_entries; k++)
    for (uint32_t i = 0; i < plan->entries[k].n_calls; i++) {
      rt_text_add(&text, "%s\t", ir_text(plan->p, plan->entries[k].f->name));
      name_kernel(&plan->entries[k].calls[i], &text);
      rt_text_add(&text, "\n");
    }
  LLVMValueRef string = LLVMConstStringInContext2(c->ctx, text.text ? text.text : "", text.len, false);
  LLVMValueRef global = LLVMAddGlobal(c->mod, LLVMTypeOf(string), "tenure_profile_text");
  LLVMSetInitializer(global, string);
  LLVMSetVisibility(global, LLVMHiddenVisibility);
  LLVMValueRef field[] = {cg_i64(c, n_rows(plan)), global, cells_of(c, plan)};
  LLVMValueRef value = LLVMConstStructInContext(c->ctx, field, 3, false);
  LLVMSetInitializer(LLVMAddGlobal(c->mod, LLVMTypeOf(value), table_name), value);
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

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static double cycles_per_us(void) {
  enum { WAIT_US = 5000 };
  double start = now_us(), now = start;
  uint64_t from = cycles();
  while (now < start + WAIT_US) now = now_us();
  double rate = (double)(cycles() - from) / (now - start);
  return rate > 0 ? rate : 1;
}

static double slowest(const uint64_t *row, uint32_t what) {
  uint64_t most = 0;
  for (uint32_t w = 0; w < WORKERS; w++)
    if (row[w * CELL + what] > most) most = row[w * CELL + what];
  return (double)most;
}

// Percent by which the mean worker ran less than the slowest.
static double idle(const uint64_t *row, uint32_t n_workers) {
  double sum = 0, most = slowest(row, RUN_MIN);
  for (uint32_t w = 0; w < n_workers; w++) sum += (double)row[w * CELL + RUN_MIN];
  return most > 0 ? 100 * (1 - sum / (n_workers * most)) : 0;
}

static uint32_t workers_of(const Table *t) {
  uint32_t n = 1;
  for (uint64_t k = 0; k < t->n_rows; k++)
    for (uint32_t w = n; w < WORKERS; w++)
      if (t->cells[k * ROW + w * CELL + RUN]) n = w + 1;
  return n;
}

static double least_time(const uint64_t *row) { return slowest(row, RUN_MIN) + (double)row[WAIT_MIN]; }

static void print_row(const char *line, const uint64_t *row, double rate, double all, uint32_t n_workers) {
  const uint64_t *total = row + TOTALS;
  double calls = (double)total[CALLS], us = slowest(row, RUN_MIN) / rate, mean = slowest(row, RUN) / rate / calls;
  const char *tab = strchr(line, '\t'), *end = strchr(line, '\n');
  rt_fformat(stderr, "%-11.*s %-48.*s %6.0f %9.2f %9.2f %5.1f %% %8.1f %7.2f %7.2f %6.1f\n", (int)(tab - line), line,
             (int)(end - tab - 1), tab + 1, calls, us, mean, 100 * least_time(row) * calls / all,
             (double)total[FLOPS] / calls / us * 1e-3, (double)total[BYTES] / calls / us * 1e-3,
             (double)row[WAIT_MIN] / rate, idle(row, n_workers));
}

static void print_table(const Table *t, double rate) {
  double all = 0;
  for (uint64_t k = 0; k < t->n_rows; k++)
    all += least_time(t->cells + k * ROW) * (double)t->cells[k * ROW + TOTALS + CALLS];
  fprintf(stderr, "%-11s %-48s %6s %9s %9s %7s %8s %7s %7s %6s\n", "function", "kernel", "calls", "min us", "mean us",
          "share", "GFLOP/s", "GB/s", "wait us", "idle %");
  const char *line = t->text;
  for (uint64_t k = 0; k < t->n_rows; k++, line = strchr(line, '\n') + 1)
    if (t->cells[k * ROW + TOTALS + CALLS]) print_row(line, t->cells + k * ROW, rate, all, workers_of(t));
}

void cg_profile_print(CgJit *j) {
  const Table *t = cg_profile_wanted() || cg_trace_wanted() ? cg_jit_find(j, table_name) : NULL;
  if (!t) return;
  double rate = cycles_per_us();
  if (cg_profile_wanted()) print_table(t, rate);
  cg_trace_write(j, t->text, rate);
}
