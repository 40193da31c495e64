// Programs compiled for another machine give there what is expected: the cases of ops (attention, recurrences, packed
// sequences, optimizers and all others), products of odd sizes, random numbers, all against literals or the interpreter. The
// stack that a run used stays below the row's bound.
//
//   foreign_ops [--every N] [--nan] TARGET [PART]
//
// PART: only the cases whose name contains it; N: one of N cases of ops; --nan: those with NaN that are left
// out where the target loses it, and no others
#include "codegen/kernels.h"
#include "codegen/module/compile.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interpret.h"
#include "ir/ir.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "tests/foreign.h"
#include "tests/op_tables.h"

#include <stdlib.h>

static const double TOLERANCE = 2e-5;
static Target target;
static Foreign *machine;
static int64_t deepest;
static char deepest_in[128];
static uint32_t every = 1;
static bool with_nan;

// ---- one run: values as doubles, by input, output and parameter
typedef struct {
  const double *const *in, *const *param;
  double **out, **after;
  const int64_t *dims;
  uint32_t n_dims;
  uint64_t seed, counter;
} Values;

static unsigned char *encode(RtArena *mem, DType type, const double *from, int64_t n) {
  unsigned char *at = rt_alloc(mem, (size_t)n * ir_dtype_bytes[type] + 1);
  for (int64_t i = 0; i < n; i++) {
    if (type == DT_I64) ((int64_t *)(void *)at)[i] = (int64_t)from[i];
    else ((float *)(void *)at)[i] = (float)from[i];
  }
  return at;
}

static void decode(double *to, DType type, const void *from, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] = type == DT_I64 ? (double)((const int64_t *)from)[i] : (double)((const float *)from)[i];
}

static int64_t elements(const ForeignRun *r, const Prog *p, Shape s) { return ir_shape_eval(p, s, r->dims); }

static const Ins *value_of(const Fn *f, const Ins *ins) {
  return ins->op == OP_output ? ir_ins(f, f->args[ins->args]) : ins;
}

// Inputs are encoded; outputs get room by bounds, since a run may find their sizes.
static void bind(const Fn *f, const Values *v, ForeignRun *r, RtArena *mem) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i], *value = value_of(f, ins);
    int64_t at = ins->op == OP_input || ins->op == OP_output ? ir_attr_int(f, (Val){i}, KEY_index, 0) : 0;
    if (ins->op == OP_input) {
      int64_t n = elements(r, f->prog, ins->shape);
      r->in[at] = encode(mem, (DType)ins->dtype, v->in[at], n);
      r->in_bytes[at] = n * ir_dtype_bytes[ins->dtype];
    } else if (ins->op == OP_output) {
      r->out_bytes[at] = ir_shape_bound(f->prog, value->shape) * ir_dtype_bytes[value->dtype];
      r->out[at] = rt_alloc(mem, (size_t)r->out_bytes[at] + 1);
    }
  }
  for (uint32_t k = 0; k < f->prog->n_params; k++) {
    const Param *q = &f->prog->params[k];
    int64_t n = ir_shape_bound(f->prog, q->shape);
    memcpy(r->params + q->offset, encode(mem, (DType)q->dtype, v->param[k], n), (size_t)n * ir_dtype_bytes[q->dtype]);
  }
}

static void collect(const Fn *f, const ForeignRun *r, const Values *v) {
  const Prog *p = f->prog;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_output) continue;
    int64_t at = ir_attr_int(f, (Val){i}, KEY_index, 0);
    const Ins *value = value_of(f, &f->ins[i]);
    decode(v->out[at], (DType)value->dtype, r->out[at], elements(r, p, value->shape));
  }
  for (uint32_t k = 0; k < p->n_params; k++)
    decode(v->after[k], (DType)p->params[k].dtype, r->params + p->params[k].offset,
           ir_shape_bound(p, p->params[k].shape));
}

static void note_stack(const ForeignRun *r, const char *what) {
  if (r->tail.stack_bytes <= deepest) return;
  deepest = r->tail.stack_bytes;
  snprintf(deepest_in, sizeof deepest_in, "%s", what);
}

static bool run(const char *what, Prog *p, const Values *v, RtText *why) {
  RtArena *mem = p->mem;
  Fn *f = p->fns[0];
  cg_plan_for(p, &target);
  if (!ir_run_passes(f, NULL, NULL, NULL) || !ir_plan_program_memory(p)) return rt_text_add(why, "passes fail"), false;
  if (!foreign_load(machine, p, why)) return false;
  ForeignRun r = {.arena_bytes = f->stats.peak_bytes,
                  .param_bytes = p->param_bytes,
                  .const_bytes = p->const_bytes,
                  .n_in = f->n_inputs,
                  .n_out = f->n_outputs,
                  .n_dims = p->n_syms,
                  .seed = v->seed,
                  .counter = v->counter};
  unsigned char *consts = rt_alloc(mem, (size_t)p->const_bytes + 1);
  if (p->const_bytes) ir_fill_const(p, consts);
  r.consts = consts, r.params = rt_alloc(mem, (size_t)p->param_bytes + 1);
  r.in = rt_alloc(mem, (r.n_in + 1) * sizeof *r.in), r.out = rt_alloc(mem, (r.n_out + 1) * sizeof *r.out);
  r.in_bytes = rt_alloc(mem, (r.n_in + 1) * sizeof *r.in_bytes),
  r.out_bytes = rt_alloc(mem, (r.n_out + 1) * sizeof *r.out_bytes);
  r.dims = rt_alloc(mem, (r.n_dims + 1) * sizeof *r.dims);
  for (uint32_t d = 0; d < v->n_dims; d++) r.dims[d] = v->dims[d] < 0 ? ir_dim_bound(p, p->syms[d]) : v->dims[d];
  bind(f, v, &r, mem);
  if (!foreign_run(machine, cg_symbol(mem, p, f), &r, why)) return false;
  CHECK(r.tail.guards_hold && r.tail.code == TN_KERR_NONE);
  note_stack(&r, what);
  collect(f, &r, v);
  return true;
}

// ---- cases of ops
static const double **arrays(RtArena *mem, const CaseArray *from, uint32_t n) {
  const double **all = rt_alloc(mem, (n + 1) * sizeof *all);
  for (uint32_t k = 0; k < n; k++) all[k] = from[k].v;
  return all;
}

static bool run_case(const OpCase *c, const Prog *p, double **out, double **after, RtText *why) {
  Values v = {arrays(p->mem, c->in, c->n_in),
              arrays(p->mem, c->param, c->n_params),
              out,
              after,
              c->dims,
              c->n_dims,
              c->seed,
              c->counter};
  return run(c->name, p->fns[0]->prog, &v, why);
}

static bool has_nan(const CaseArray *a, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = 0; i < a[k].n; i++)
      if (isnan(a[k].v[i])) return true;
  return false;
}

static void check_cases(const char *part) {
  uint32_t n_left_out = 0, number = 0;
  for (uint32_t t = 0; t < N_OP_TABLES; t++)
    for (uint32_t k = 0; k < op_tables()[t].n; k++) {
      const OpCase *c = &op_tables()[t].cases[k];
      bool may_differ = target.loses_nan && (has_nan(c->in, c->n_in) || has_nan(c->out, c->n_out)),
           left_out = may_differ != with_nan;
      n_left_out += may_differ && left_out;
      if (!left_out && is_drawn(number++, every) && (!part || strstr(c->name, part)))
        case_check(c, run_case, TOLERANCE);
    }
  if (n_left_out) printf("left out, since %s loses NaN: %u cases\n", target.name, n_left_out);
}

// ---- products: sizes that no block divides, all transposes, with an epilogue
typedef struct {
  int m, n, k;
  bool ta, tb;
} Product;
static const Product products[] = {
    {1, 1, 1, false, false},     {1, 37, 129, false, false}, {3, 5, 7, false, false},
    {13, 37, 29, false, false},  {13, 37, 29, false, true},  {13, 37, 29, true, false},
    {13, 37, 29, true, true},    {67, 1, 33, false, false},  {64, 64, 64, false, false},
    {65, 63, 257, false, false}, {65, 130, 70, false, true}, {130, 66, 300, true, false},
    {5, 260, 515, false, false}, {2, 300, 40, false, true},  {97, 101, 1100, false, false},
    {9, 4, 2100, false, true}};

static const char *product_text(RtArena *mem, const Product *c) {
  return rt_printf(mem,
                   "program @product\nfunc @f(%%a: f32[%d,%d], %%b: f32[%d,%d], %%c: f32[%d]) {\n"
                   "%%x = matmul %%a, %%b%s\n%%s = add %%x, %%c\n%%y = tanh %%s\n"
                   "output %%y {name=\"y\", index=0}\noutput %%x {name=\"x\", index=1}\n}\n",
                   c->ta ? c->k : c->m, c->ta ? c->m : c->k, c->tb ? c->n : c->k, c->tb ? c->k : c->n, c->n,
                   c->ta && c->tb ? " {ta, tb}"
                   : c->ta        ? " {ta}"
                   : c->tb        ? " {tb}"
                                  : "");
}

// Of whole numbers, modulo 2^bits and then 251
static const char *whole_product_text(RtArena *mem, const Product *c, const char *dtype) {
  return rt_printf(
      mem,
      "program @product\nfunc @f(%%a: f32[%d,%d], %%b: f32[%d,%d]) {\n"
      "%%c = const {value=65536}\n%%d = const {value=251, dtype=%s}\n"
      "%%ac = mul %%a, %%c\n%%bc = mul %%b, %%c\n%%ai = cast %%ac {dtype=%s}\n%%bi = cast %%bc {dtype=%s}\n"
      "%%x = matmul %%ai, %%bi\n%%r = remainder %%x, %%d\n%%y = cast %%r {dtype=f32}\n"
      "output %%y {name=\"y\", index=0}\n}\n",
      c->m, c->k, c->k, c->n, dtype, dtype, dtype);
}

static void fill(double *x, int64_t n, uint32_t state) {
  for (int64_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (double)(float)((double)(state >> 8) / (1 << 24) - 0.5);
  }
}

// Lengths, from 1 to 7.
static void fill_lengths(double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] = (double)(1 + 3 * (i + 1) % 7);
}

// The passes that expand gradients, which the interpreter does not do.
static bool expand_gradients(Fn *f, RtArena *mem) {
  return ir_run_passes(f, ir_pass_list(mem, 0, PASS_grad), NULL, NULL);
}

// Against the interpreter, whose sums are doubles.
static void check_text(const char *what, const char *text, double tolerance) {
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  Prog *p = ir_parse(mem, text, strlen(text), what, &diags), *q = ir_parse(mem, text, strlen(text), what, &diags);
  if (!CHECK(p && q && expand_gradients(q->fns[0], mem))) {
    rt_diags_print(&diags, stdout);
    return;
  }
  const Fn *f = q->fns[0];
  Tensor in[8], expected[8] = {0};
  const double *in_v[8];
  double *out[8];
  for (uint32_t i = 1; i < f->n_ins; i++) {
    int64_t n = ir_shape_bound(q, value_of(f, &f->ins[i])->shape), at = ir_attr_int(f, (Val){i}, KEY_index, 0);
    if (f->ins[i].op == OP_output) out[at] = rt_alloc(mem, (size_t)n * sizeof(double));
    if (f->ins[i].op != OP_input) continue;
    in[at] = (Tensor){.v = rt_alloc(mem, (size_t)n * sizeof(double)), .n = n};
    in_v[at] = in[at].v;
    if (f->ins[i].dtype == DT_I64) fill_lengths(in[at].v, n);
    else fill(in[at].v, n, (uint32_t)at + 7);
  }
  static const int64_t found[] = {-1, -1};  // by the run
  Values v = {.in = in_v, .out = out, .dims = found, .n_dims = q->n_syms, .seed = 5, .counter = 9};
  InterpEnv env = {.in = in, .out = expected, .seed = 5, .counter = 9, .mem = mem};
  env.slots = rt_alloc(mem, (q->n_syms + 1) * sizeof *env.slots);
  bool good = ir_interpret(f, &env, &why) && run(what, p, &v, &why);
  if (!CHECK(good)) printf("%s: %s\n", what, why.text ? why.text : "");
  for (uint32_t k = 0; good && k < f->n_outputs; k++) {
    uint32_t at;
    CaseArray like = {expected[k].v, (uint32_t)expected[k].n};
    if (!CHECK(case_near(out[k], &like, tolerance, &at)))
      printf("%s: output %u, element %u: found %.9g, expected %.9g\n", what, k, at, out[k][at], expected[k].v[at]);
  }
  rt_arena_free(mem);
}

static void check_products(const char *part) {
  RtArena *mem = rt_arena_new();
  for (size_t k = 0; k < sizeof products / sizeof *products; k++) {
    const Product *c = &products[k];
    char what[64];
    snprintf(what, sizeof what, "product %dx%dx%d%s%s", c->m, c->n, c->k, c->ta ? " ta" : "", c->tb ? " tb" : "");
    if (!part || strstr(what, part)) check_text(what, product_text(mem, c), TOLERANCE);
  }
  static const char *const dtypes[] = {"i64", "i32", "u8"};
  for (size_t k = 0; k < 3 * (sizeof products / sizeof *products); k++) {
    const Product *c = &products[k / 3];
    char what[64];
    snprintf(what, sizeof what, "product %dx%dx%d of %s", c->m, c->n, c->k, dtypes[k % 3]);
    bool is_new = !c->ta && !c->tb;
    if (is_new && (!part || strstr(what, part))) check_text(what, whole_product_text(mem, c, dtypes[k % 3]), TOLERANCE);
  }
  rt_arena_free(mem);
}

// Packed recurrences of a width that no vector divides, and their gradients.
static void check_recurrences(const char *part) {
  static const struct {
    const char *cell;
    int gates;
  } cells[] = {{"lstm", 4}, {"gru", 3}};
  RtArena *mem = rt_arena_new();
  for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
    int n = 13 * cells[k].gates;
    const char *text = rt_printf(
        mem,
        "program @recurrence\ndim rows <= 35\n"
        "func @f(%%x: f32[5,7,6], %%len: i64[5], %%wi: f32[%d,6], %%wh: f32[%d,13], %%b: f32[%d]) {\n"
        "%%L = packed_layout %%len {time=7, rows=rows}\n%%d = pack_padded %%x, %%L\n"
        "%%g = linear %%d, %%wi, %%b\n%%o, %%o1, %%o2, %%o3, %%o4, %%o5 = rnn_seq %%g, %%L, %%wh {cell=\"%s\"}\n"
        "%%s = square %%o1\n%%loss = sum %%s {axes=[0,1]}\n"
        "%%dwh = grad_of %%loss, %%wh\n%%dwi = grad_of %%loss, %%wi\n"
        "output %%o1 {name=\"h\", index=0}\noutput %%dwh {name=\"dwh\", index=1}\n"
        "output %%dwi {name=\"dwi\", index=2}\n}\n",
        n, n, n, cells[k].cell);
    if (!part || strstr(cells[k].cell, part)) check_text(cells[k].cell, text, TOLERANCE);
  }
  rt_arena_free(mem);
}

// Bits of Philox are those of the interpreter on every machine: dropout's mask, and numbers that are an exact function of
// them.
static void check_random(const char *part) {
  static const char text[] = "program @random\nfunc @f(%x: f32[37,11]) {\n"
                             "%u = uniform {lo=0, hi=1, id=4, shape=[37,11]}\n"
                             "%d = dropout %x {p=0.25, id=7}\n"
                             "output %u {name=\"u\", index=0}\noutput %d {name=\"d\", index=1}\n}\n";
  if (!part || strstr("random bits", part)) check_text("random bits", text, 1.2e-7);
}

static int open_machine(const char *name, RtArena *mem) {
  RtText why = {.mem = mem};
  const Target *row = cg_target_find(name);
  if (!row) return cg_target_unknown(name, &why), printf("%s\n", why.text), 2;
  target = *row, target.without_blas = true;
  machine = foreign_open(&target, &why);
  if (machine) return 0;
  printf("skipped: %s\n", why.text);
  return FOREIGN_SKIPPED;
}

int main(int argc, char **argv) {
  RtArena *mem = rt_arena_new();
  if (argc > 2 && !strcmp(argv[1], "--every")) every = (uint32_t)atoi(argv[2]), argc -= 2, argv += 2;
  if (argc > 1 && !strcmp(argv[1], "--nan")) with_nan = true, argc--, argv++;
  if (!every) every = 1;
  const char *part = argc > 2 ? argv[2] : NULL;
  int status = argc < 2 ? 2 : open_machine(argv[1], mem);
  if (status) return status;
  if (!with_nan) check_products(part), check_random(part), check_recurrences(part);
  check_cases(part);
  printf("%s: the deepest stack is %lld bytes, in %s (bound %lld)\n", target.name, (long long)deepest, deepest_in,
         (long long)target.stack_bytes);
  CHECK(deepest <= target.stack_bytes);
  foreign_close(machine);
  rt_arena_free(mem);
  return check_report();
}
