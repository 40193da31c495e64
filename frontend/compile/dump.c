// Seeing: the program as text, its planned functions with lifetimes, and a summary of memory.
#include "frontend/graph/code.h"
#include "frontend/tenure/compile.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/scan.h"
#include "ir/text/text.h"
#include "runtime/format.h"
#include <stdlib.h>
#include <string.h>

enum { N_LARGEST = 8 };

static void put(const RtText *t, FILE *out) {
  if (t->text) fwrite(t->text, 1, t->len, out);
}

static int by_bytes(const void *a, const void *b) {
  const Buf *x = *(const Buf *const *)a, *y = *(const Buf *const *)b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->head.i < y->head.i ? -1 : x->head.i > y->head.i;
}

static void add_place(const Fn *f, Val v, RtText *out) {
  if (f->ins[v.i].loc.i) rt_text_add(out, "  // ");
  ir_loc_text(f->prog, f->ins[v.i].loc, out);
  rt_text_put(out, "\n", 1);
}

static const char *bytes(RtText *out, int64_t n) { return rt_bytes_text(rt_alloc(out->mem, RT_BYTES_SIZE), n); }

static void add_buffer(const Fn *f, const Buf *b, RtText *out) {
  rt_text_add(out, "  %12s  arena+%-10lld kernels [%d,%d]  ", bytes(out, b->bytes), (long long)b->offset, b->first,
              b->last);
  if (b->scratch) rt_text_add(out, "scratch of ");
  ir_print_name(f, b->head, out);
  rt_text_add(out, " = %s", ir_ops[f->ins[ir_head(f, b->head).i].op].name);
  add_place(f, b->head, out);
}

static void add_largest(const Fn *f, RtText *out) {
  const Buf **list = rt_alloc(out->mem, (f->n_bufs + 1) * sizeof *list);
  uint32_t n = 0;
  for (uint32_t k = 1; k < f->n_bufs; k++)
    if (f->bufs[k].seg == SEG_ARENA) list[n++] = &f->bufs[k];
  qsort(list, n, sizeof *list, by_bytes);
  for (uint32_t k = 0; k < n && k < N_LARGEST; k++) add_buffer(f, list[k], out);
}

// "packed %3: 29 rows of 70 padded": what is computed against what padding would have made of it, by bounds where
// lengths come at run time.
static void add_packed(const Fn *f, RtText *out) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_packed_layout) continue;
    const Prog *p = f->prog;
    Shape s = f->ins[i].shape;
    int64_t padded = ir_dim_bound(p, ir_dim_at(p, s, 0)) * ir_dim_bound(p, ir_dim_at(p, s, 1));
    rt_text_add(out, "  packed ");
    ir_print_name(f, (Val){i}, out);
    rt_text_add(out, ": %s%lld rows of %lld padded", f->ins[i].n_args ? "up to " : "",
                (long long)ir_dim_bound(p, ir_dim_at(p, s, 2)), (long long)padded);
    add_place(f, (Val){i}, out);
  }
}

// What a scan runs in every step: its arena is part of the function's, as scratch memory of the scan.
static void add_bodies(const Fn *f, RtText *out) {
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_ins(f, v)->op != OP_scan) continue;
    const Fn *b = ir_scan_at(f, v).body;
    rt_text_add(out, "  body @%s: arena %s, lower bound %s, %u kernels a step, %u results in place, %u copies\n",
                ir_text(b->prog, b->name), bytes(out, b->stats.peak_bytes), bytes(out, b->stats.lower_bound),
                b->stats.n_kernels, b->stats.n_inplace, b->stats.n_copies);
    add_bodies(b, out);
  }
}

static void add_summary(const Fn *f, RtText *out) {
  const PlanStats *s = &f->stats;
  double gap = s->lower_bound ? 100.0 * (double)(s->peak_bytes - s->lower_bound) / (double)s->lower_bound : 0;
  rt_text_add(out, "@%s: arena %s, lower bound %s, gap %.1f %%, %s of any order\n", ir_text(f->prog, f->name),
              bytes(out, s->peak_bytes), bytes(out, s->lower_bound), gap, bytes(out, s->order_bound));
  rt_text_add(out, "  %u kernels, %u results in place, %u copies (%s); parameters and state %s, constants %s",
              s->n_kernels, s->n_inplace, s->n_copies, bytes(out, s->copy_bytes), bytes(out, f->prog->param_bytes),
              bytes(out, f->prog->const_bytes));
  if (f->prog->packed_bytes) rt_text_add(out, ", packed weights %s", bytes(out, f->prog->packed_bytes));
  rt_text_add(out, "\n");
  add_packed(f, out);
  add_largest(f, out);
  add_bodies(f, out);
}

static tn_status dump(const tn_program *p, const char *function, FILE *out, tn_dump_kind kind, RtArena *mem) {
  RtText t = {.mem = mem};
  bool found = !function;
  for (uint32_t k = 0; k < p->ir->n_fns; k++) {
    const Fn *f = p->ir->fns[k];
    if (function ? strcmp(ir_text(p->ir, f->name), function) != 0 : f == p->init) continue;
    found = true;
    if (p->built && k >= p->n_built && kind == TN_DUMP_IR)
      ir_text_of(p->ir, p->built_fn[p->variants[k - p->n_built].of], false, &t);
    else if (kind == TN_DUMP_LIFETIMES) ir_print_fn(f, &t, PRINT_FACTS | PRINT_LOCS);
    else if (kind == TN_DUMP_SUMMARY) add_summary(f, &t);
    else if (p->built) ir_text_of(p->ir, p->built_fn[k], false, &t);
    else ir_print_fn(f, &t, PRINT_LOCS);
  }
  put(&t, out);
  return found ? TN_OK : TN_ERR_ARGUMENT;
}

// Printing gets an arena of its own: a program that is only read does not grow.
static tn_status guarded_dump(const tn_program *p, const char *function, FILE *out, tn_dump_kind kind) {
  if (!p || !out || (kind != TN_DUMP_IR && !p->compiled)) return TN_ERR_ARGUMENT;
  if (kind == TN_DUMP_CERTIFICATE && function) return TN_ERR_ARGUMENT;
  if (p->oom) return TN_ERR_MEMORY;
  RtArena *mem = rt_arena_new();
  tn_status status = TN_ERR_MEMORY;
  jmp_buf oom;
  if (mem && !setjmp(oom)) {
    rt_arena_on_oom(mem, &oom);
    RtText whole = {.mem = mem};
    const Prog *ir = p->ir;
    if (kind == TN_DUMP_CERTIFICATE) ir_certificate(&ir, 1, &whole);
    else if (kind == TN_DUMP_IR && !function && p->built) ir_text_of(p->ir, p->built, false, &whole);
    else if (kind == TN_DUMP_IR && !function) ir_print(p->ir, &whole, PRINT_LOCS);
    put(&whole, out);
    status = whole.text ? TN_OK : dump(p, function, out, kind, mem);
  } else {
    status = TN_ERR_MEMORY;
  }
  rt_arena_free(mem);
  return status == TN_OK && ferror(out) ? TN_ERR_FILE : status;
}

tn_status tn_dump(const tn_program *p, FILE *out, tn_dump_kind kind) { return guarded_dump(p, NULL, out, kind); }

tn_status tn_dump_function(const tn_program *p, const char *function, FILE *out, tn_dump_kind kind) {
  return function ? guarded_dump(p, function, out, kind) : TN_ERR_ARGUMENT;
}
