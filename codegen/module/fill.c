// Initial values: one kernel for all kernels that only fill memory with constants or random numbers.
//
//   %1 = uniform {lo=-0.1, hi=0.1, id=3, shape=[64,64]} : f32[64,64]      PARAM+4096, count 4096, a -0.1, b 0.1, id 3
//   %2 = assign %w, %1                                                    PARAM+20480, count 64, a 0, full
//   %3 = assign %b, 0
//
// Such kernels are rows of a table in the object, and calls of one function with a part of that table: neither the time
// to compile nor the code grows with the number of parameters. Elements have the bits that a kernel of their own would
// give them: the same expressions of the same words, and on a scalar where there is one element.
#include "codegen/math/primitives.h"
#include "codegen/module/module.h"
#include "codegen/span.h"

#include <stddef.h>

enum { GRAIN = 1024 };  // elements: one worker fills what is smaller

struct FillRow {
  int64_t offset, count;  // bytes in the segment; elements
  float a, b;             // lo, hi; mean, std; value
  int32_t id;             // random stream
  int32_t op;             // OP_full, OP_uniform, OP_normal; OP_randn: a normal of one element
  int32_t seg;            // Segment
  int32_t unused;         // no padding, which would not be the same on all targets
};

// ---- which kernels
static bool is_number(const Fn *f, Val v) { return ir_ins(f, v)->op == OP_full || ir_is_const(f, v, NULL); }

static bool is_generator(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (ins->dtype != DT_F32 || !ir_shape_is_const(f->prog, ins->shape)) return false;
  return ins->op == OP_full || ins->op == OP_uniform || ins->op == OP_normal;
}

static bool is_stored(const Fn *f, Val v) { return f->buf_of[v.i] && f->bufs[f->buf_of[v.i]].bytes > 0; }

// Fills a parameter, without reading memory.
static bool is_fill(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op != OP_assign || ins->dtype != DT_F32 || ir_ins(f, ir_arg(f, v, 0))->op != OP_param) return false;
  Val from = ir_arg(f, v, 1);
  return is_number(f, from) || (is_generator(f, from) && ir_ins(f, from)->shape.i == ins->shape.i);
}

// For functions without inputs and outputs, such as @init.
bool cg_only_fills(const Fn *f, const Kernel *k) {
  if (k->cls != CLASS_POINTWISE || f->is_body || f->n_inputs || f->n_outputs) return false;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (!is_fill(f, (Val){i}) && !is_generator(f, (Val){i})) return false;
  return true;
}

// ---- rows
// v: a fill, or a generator that is stored.
static FillRow row_of(const Fn *f, Val v) {
  Val from = ir_ins(f, v)->op == OP_assign ? ir_arg(f, v, 1) : v;
  const Buf *to = &f->bufs[f->buf_of[v.i]];
  Op op = is_number(f, from) ? OP_full : (Op)ir_ins(f, from)->op;
  Key a = op == OP_full ? KEY_value : op == OP_uniform ? KEY_lo : KEY_mean, b = op == OP_uniform ? KEY_hi : KEY_std;
  int64_t count = ir_shape_bound(f->prog, ir_ins(f, v)->shape);
  return (FillRow){.offset = to->offset,
                   .count = count,
                   .a = (float)ir_attr_num(f, from, a, 0),
                   .b = (float)ir_attr_num(f, from, b, 0),
                   .id = (int32_t)ir_attr_int(f, from, KEY_id, 0),
                   .op = op == OP_normal && count == 1 ? OP_randn : op,
                   .seg = to->seg};
}

void cg_describe_fill(ModulePlan *plan, KernelCall *c) {
  static const char key[] = "fill\n";
  c->first_initial = plan->n_initial_values;
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++) {
    if (!is_stored(c->f, (Val){i})) continue;
    *RT_PUSH(plan->mem, plan->initial_values, plan->n_initial_values, plan->cap_initial_values) =
        row_of(c->f, (Val){i});
    *RT_PUSH(plan->mem, c->kernel_args, c->n_kernel_args, c->cap_kernel_args) = (KernelArg){.v = {i}, .writes = true};
  }
  c->n_initial = plan->n_initial_values - c->first_initial;
  c->key = key, c->key_len = sizeof key - 1;
}

void cg_fill_text(const ModulePlan *plan, const KernelCall *c, RtText *out) {
  for (uint32_t k = c->first_initial; k < c->first_initial + c->n_initial; k++) {
    const FillRow *r = &plan->initial_values[k];
    rt_text_add(out, " %d+%lld*%lld %s %a %a %d", r->seg, (long long)r->offset, (long long)r->count, ir_ops[r->op].name,
                (double)r->a, (double)r->b, r->id);
  }
}

// ---- the table
static LLVMTypeRef row_type(Cg *c) {
  LLVMTypeRef field[] = {c->i64, c->i64, c->f32, c->f32, c->i32, c->i32, c->i32, c->i32};
  return LLVMStructTypeInContext(c->ctx, field, 8, false);
}

static V constant_row(Cg *c, const FillRow *r) {
  V field[] = {cg_i64(c, r->offset), cg_i64(c, r->count), cg_f32(c, (double)r->a), cg_f32(c, (double)r->b),
               cg_i32(c, r->id),     cg_i32(c, r->op),    cg_i32(c, r->seg),       cg_i32(c, 0)};
  return LLVMConstStructInContext(c->ctx, field, 8, false);
}

static V table_of(Cg *c, const ModulePlan *plan) {
  LLVMTypeRef type = LLVMArrayType2(row_type(c), plan->n_initial_values);
  V table = LLVMGetNamedGlobal(c->mod, "initial_values");
  if (table) return table;
  V *rows = rt_alloc(c->mem, (plan->n_initial_values + 1) * sizeof *rows);
  for (uint32_t k = 0; k < plan->n_initial_values; k++) rows[k] = constant_row(c, &plan->initial_values[k]);
  table = LLVMAddGlobal(c->mod, type, "initial_values");
  LLVMSetInitializer(table, LLVMConstArray2(row_type(c), rows, plan->n_initial_values));
  LLVMSetGlobalConstant(table, true);
  LLVMSetLinkage(table, LLVMInternalLinkage);
  return table;
}

V cg_fill_rows(Cg *c, const ModulePlan *plan, uint32_t first) {
  return cg_at(c, c->i8, table_of(c, plan), cg_i64(c, (int64_t)first * (int64_t)sizeof(FillRow)));
}

// ---- the kernel
typedef struct {
  V to, a, b, id, op;  // of the row at hand
  V lo, hi;            // this worker's elements
} Fill;

static V field(Cg *c, V row, LLVMTypeRef type, size_t off) {
  return cg_load(c, type, cg_at(c, c->i8, row, cg_i64(c, (int64_t)off)));
}

static V is_op(Cg *c, const Fill *s, Op op) { return cg_eq(c, s->op, cg_i32(c, op)); }

static void fill_constant(Cg *c, const Fill *s) {
  for (Span v = cg_span(c, s->lo, s->hi); cg_next_vector(&v);) cg_put_masked(c, cg_splat(c, s->a), s->to, v.i, v.mask);
}

// The words of a vector are drawn once for both distributions.
static void fill_random(Cg *c, const Fill *s) {
  V x[4], a = cg_splat(c, s->a), b = cg_splat(c, s->b);
  for (Span v = cg_span_masked(c, s->lo, s->hi); cg_next_vector(&v);) {
    cg_random_words(c, cg_iadd(c, cg_splat(c, v.i), cg_lane_numbers(c)), s->id, x);
    for (If normal = cg_either(c, is_op(c, s, OP_normal)); cg_then(&normal);) {
      V unit = normal.is_true ? cg_normal_of(c, x) : cg_uniform_of(c, x), width = normal.is_true ? b : cg_fsub(c, b, a);
      cg_put_masked(c, cg_fadd(c, a, cg_fmul(c, unit, width)), s->to, v.i, v.mask);
    }
  }
}

// Its primitives may be others than those of vectors.
static void fill_one_normal(Cg *c, const Fill *s) {
  V x[4];
  for (If any = cg_when(c, cg_lt(c, s->lo, s->hi)); cg_then(&any);) {
    cg_random_words(c, s->lo, s->id, x);
    V scaled = cg_fmul(c, s->b, cg_normal_of(c, x));
    cg_store(c, cg_fadd(c, s->a, scaled), s->to);
  }
}

static bool has_one_normal(const ModulePlan *plan) {
  for (uint32_t k = 0; k < plan->n_initial_values; k++)
    if (plan->initial_values[k].op == OP_randn) return true;
  return false;
}

// with_one: there are rows of one normal.
static void fill_drawn(Cg *c, const Fill *s, bool with_one) {
  if (!with_one) {
    fill_random(c, s);
    return;
  }
  for (If one = cg_either(c, is_op(c, s, OP_randn)); cg_then(&one);)
    if (one.is_true) fill_one_normal(c, s);
    else fill_random(c, s);
}

// Parameters are not drawn for those who load them (TnFrame.no_draws); what else is drawn may be read.
static V is_drawn(Cg *c, V row) {
  V no_draws = cg_load(c, c->i32, cg_frame_at(c, offsetof(TnFrame, no_draws)));
  V draws = LLVMBuildICmp(c->b, LLVMIntEQ, no_draws, cg_i32(c, 0), "draws");
  V seg = field(c, row, c->i32, offsetof(FillRow, seg));
  return cg_or(c, draws, cg_ne(c, seg, cg_i32(c, SEG_PARAM)));
}

static V address_of(Cg *c, V row) {
  V seg = cg_sext(c, field(c, row, c->i32, offsetof(FillRow, seg)), c->i64);
  V segs = cg_frame_at(c, offsetof(TnFrame, seg));
  V base = LLVMBuildLoad2(c->b, c->ptr, cg_at(c, c->ptr, segs, seg), "");
  return cg_at(c, c->i8, base, field(c, row, c->i64, offsetof(FillRow, offset)));
}

static void fill_row(Cg *c, V row, bool with_one) {
  Fill s = {.to = address_of(c, row),
            .a = field(c, row, c->f32, offsetof(FillRow, a)),
            .b = field(c, row, c->f32, offsetof(FillRow, b)),
            .id = field(c, row, c->i32, offsetof(FillRow, id)),
            .op = field(c, row, c->i32, offsetof(FillRow, op))};
  cg_share(c, field(c, row, c->i64, offsetof(FillRow, count)), GRAIN, &s.lo, &s.hi);
  for (If constant = cg_either(c, is_op(c, &s, OP_full)); cg_then(&constant);)
    if (constant.is_true) fill_constant(c, &s);
    else
      for (If drawn = cg_when(c, is_drawn(c, row)); cg_then(&drawn);) fill_drawn(c, &s, with_one);
}

LLVMTypeRef cg_fill_type(Cg *c) {
  LLVMTypeRef type[] = {c->ptr, c->i32, c->i32, c->ptr, c->i64};
  return LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), type, 5, false);
}

// void fill(TnFrame *f, i32 worker, i32 n_workers, ptr rows, i64 n)
void cg_emit_fill(Cg *c, const ModulePlan *plan) {
  V rows = LLVMGetParam(c->fn, 3), n = LLVMGetParam(c->fn, 4);
  for (Loop l = cg_count(c, n); cg_next(&l);)
    fill_row(c, cg_at(c, c->i8, rows, cg_mul(c, l.i, cg_i64(c, sizeof(FillRow)))), has_one_normal(plan));
}
