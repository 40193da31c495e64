// Every op through the interpreter: values and gradients against PyTorch's (tests/op_tables),
// gradients also against central differences; the op table, the rows' expressions and the random stream.
#include "ir/build.h"
#include "ir/expr.h"
#include "ir/interp/interpret.h"
#include "ir/passes/passes.h"
#include "tests/op_tables.h"

#include "runtime/rng.h"

#include <stdlib.h>

enum { MAX_DIFFERENCES = 24 /* elements tried of one input */ };

// ---- the interpreter as a runner
typedef struct {
  const Fn *f;
  InterpEnv env;
  Tensor *in;
} Interp;

static Tensor copy_of(RtArena *mem, CaseArray a) {
  Tensor t = {.v = rt_alloc(mem, a.n * sizeof(double)), .n = a.n};
  if (a.n) memcpy(t.v, a.v, a.n * sizeof(double));
  return t;
}

static void open_interp(Interp *it, const OpCase *c, const Prog *p, RtArena *mem) {
  *it = (Interp){p->fns[0], {.mem = mem, .seed = c->seed, .counter = c->counter}, NULL};
  it->env.slots = rt_alloc(mem, (p->n_syms + 1) * sizeof(int64_t));
  if (c->n_dims) memcpy(it->env.slots, c->dims, c->n_dims * sizeof(int64_t));
  it->in = rt_alloc(mem, (c->n_in + 1) * sizeof(Tensor));
  it->env.params = rt_alloc(mem, (c->n_params + 1) * sizeof(Tensor));
  it->env.out = rt_alloc(mem, (c->n_out + 1) * sizeof(Tensor));
  it->env.in = it->in;
  for (uint32_t k = 0; k < c->n_in; k++) it->in[k] = copy_of(mem, c->in[k]);
  for (uint32_t k = 0; k < c->n_params; k++) it->env.params[k] = copy_of(mem, c->param[k]);
}

static double loss_at(const OpCase *c, const Prog *p, uint32_t input, uint32_t element, double delta) {
  RtArena *mem = rt_arena_new();
  RtText why = {.mem = mem};
  Interp it;
  open_interp(&it, c, p, mem);
  it.in[input].v[element] += delta;
  double loss = ir_interpret(it.f, &it.env, &why) ? it.env.out[0].v[0] : NAN;
  rt_arena_free(mem);
  return loss;
}

// Output 1 + k against (loss(x + h) - loss(x - h)) / 2h, at elements spread over the input.
static void check_differences(const OpCase *c, const Prog *p, uint32_t k, const double *grad) {
  uint32_t input = c->grad_of[k], n = c->in[input].n, step = n / MAX_DIFFERENCES + 1;
  const double h = 1e-5;
  for (uint32_t i = 0; i < n; i += step) {
    double slope = (loss_at(c, p, input, i, h) - loss_at(c, p, input, i, -h)) / (2 * h);
    bool near = fabs(slope - grad[i]) <= 2e-7 * (1 + fabs(grad[i]) + fabs(c->out[0].v[0]));
    if (!near) printf("%s: d out / d input %u [%u]: %.12g, by differences %.12g\n", c->name, input, i, grad[i], slope);
    CHECK(near);
  }
}

static bool run_interpreter(const OpCase *c, const Prog *p, double **out, double **after, RtText *why) {
  if (!ir_run_passes(p->fns[0], "check_scopes,check_rows,functionalize,grad", NULL, NULL)) {
    rt_text_add(why, "the passes fail");
    return false;
  }
  Interp it;
  open_interp(&it, c, p, p->mem);
  if (!ir_interpret(it.f, &it.env, why)) return false;
  for (uint32_t k = 0; k < c->n_out; k++) {
    if (!CHECK(it.env.out[k].n == c->out[k].n)) return false;
    if (c->out[k].n) memcpy(out[k], it.env.out[k].v, c->out[k].n * sizeof(double));
  }
  for (uint32_t k = 0; k < c->n_params; k++) memcpy(after[k], it.env.params[k].v, c->after[k].n * sizeof(double));
  for (uint32_t k = 0; c->differences && k < c->n_grads; k++) check_differences(c, p, k, out[1 + k]);
  return true;
}

// ---- every op stands in some case
static bool stands_in_cases(const char *op) {
  char name[64];
  snprintf(name, sizeof name, " %s ", op);
  for (uint32_t t = 0; t < N_OP_TABLES; t++)
    for (uint32_t k = 0; k < op_tables()[t].n; k++)
      if (strstr(op_tables()[t].cases[k].tir, name)) return true;
  return false;
}

static bool has_literal(Op op) { return ir_ops[op].is_pointwise && !(ir_ops[op].flags & RANDOM); }  // test_pointwise.c

static void test_coverage(void) {
  // leaves and marks that a text has no line for, and those that appear only after pass grad
  // has run; scans: tests/test_scan.c; convolutions, pools, resizing and products by index: tests/op_cases; tables: tests/test_constants.c; of whole
  // numbers: tests/test_whole.c; distances and systems: tests/op_cases; means about a pivot: tests/test_norm.c
  static const Op elsewhere[] = {OP_scan_begin,
                                 OP_scan_input,
                                 OP_scan_carry,
                                 OP_scan_next,
                                 OP_scan_output,
                                 OP_scan_final,
                                 OP_scan_end,
                                 OP_scan,
                                 OP_input,
                                 OP_result,
                                 OP_scope_begin,
                                 OP_scope_end,
                                 OP_move,
                                 OP_attach,
                                 OP_dispose,
                                 OP_embedding_bag_grad,
                                 OP_embedding_bag_factor,
                                 OP_embedding_grad,
                                 OP_rnn_seq_grad,
                                 OP_sdpa_grad,
                                 OP_sdpa_bias_grad,
                                 OP_overwritten,
                                 OP_grad_replace,
                                 OP_shard_mean,
                                 OP_exchange_begin,
                                 OP_exchange_end,
                                 OP_exchanged,
                                 OP_table,
                                 OP_bitwise_and,
                                 OP_bitwise_or,
                                 OP_bitwise_xor,
                                 OP_bitwise_not,
                                 OP_bitwise_left_shift,
                                 OP_bitwise_right_shift,
                                 OP_square_distances,
                                 OP_solve_triangular,
                                 OP_cholesky,
                                 OP_lu,
                                 OP_lu_solve,
                                 OP_qr,
                                 OP_eigh,
                                 OP_svd,
                                 OP_moments,
                                 OP_mean,
                                 OP_conv,
                                 OP_conv_transpose,
                                 OP_conv_weight_grad,
                                 OP_max_pool,
                                 OP_max_pool_grad,
                                 OP_sum_pool,
                                 OP_sum_pool_grad,
                                 OP_resize,
                                 OP_resize_grad,
                                 OP_scatter_prod,
                                 OP_rfft,
                                 OP_rfft_grad};
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    bool skip = has_literal((Op)op);
    for (uint32_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++) skip |= elsewhere[k] == op;
    bool found = skip || stands_in_cases(ir_ops[op].name);
    if (!found) printf("no case has op %s\n", ir_ops[op].name);
    CHECK(found);
  }
}

// ---- the table and the rows
static bool expr_is_random(Expr e) {
  for (uint32_t i = 0; i < e.n; i++)
    if (e.nodes[i].kind == EX_OP && (e.nodes[i].op == OP_rand || e.nodes[i].op == OP_randn)) return true;
  return false;
}

// Every postfix program leaves exactly one value and never takes from an empty stack.
static bool expr_balances(Expr e) {
  int64_t top = 0;
  for (uint32_t i = 0; i < e.n; i++) {
    const ExNode *n = &e.nodes[i];
    top -= n->kind == EX_OP ? ir_ops[n->op].n_min : n->kind == EX_SAME;
    if (top < 0) return false;
    top++;
  }
  return e.n == 0 || top == 1;
}

static void test_table(void) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    const OpInfo *row = &ir_ops[op];
    CHECK(ir_op_find(row->name) == op);
    CHECK(row->n_min <= row->n_max);
    CHECK(strcmp(ir_class_name((OpClass)row->cls), "?") != 0);
    if (!row->is_pointwise) {
      CHECK(ir_forward((Op)op).nodes == NULL);
      continue;
    }
    bool random = op == OP_rand || op == OP_randn || expr_is_random(ir_forward((Op)op));
    CHECK(random == ((row->flags & RANDOM) != 0));
    CHECK(expr_balances(ir_forward((Op)op)));
    for (uint32_t k = 0; k < 3; k++) CHECK(expr_balances(ir_gradient((Op)op, k)));
  }
  CHECK(ir_op_find("no_such_op") == OP_none);
  CHECK(!strcmp(ir_key_name[KEY_dampening], "dampening") && ir_key_kind[KEY_dampening] == KIND_NUM);
}

// COMM where the order of operands is no matter, and nowhere else.
static void test_commutative(void) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    const OpInfo *row = &ir_ops[op];
    if (!row->is_pointwise || row->n_max != 2 || ir_forward((Op)op).nodes) continue;
    bool commutes = ir_primitive((Op)op, 2, 3, 0) == ir_primitive((Op)op, 3, 2, 0);
    if (!CHECK(commutes == ((row->flags & COMM) != 0))) printf("  %s\n", row->name);
  }
}

// Names are distinct in a row, optional operands are accepted by some dtype, lists stand alone.
static void test_operands(void) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    const OpInfo *row = &ir_ops[op];
    uint32_t n_required = 0;
    for (uint32_t k = 0; k < row->n_operands; k++) {
      const OperandInfo *o = &row->operands[k];
      CHECK(ir_op_operand((Op)op, (ArgName)o->name) == k);
      CHECK(o->flags & ANY);
      CHECK(!(o->flags & REPEATED) || row->n_operands == 1);
      CHECK(!(o->flags & WITH_PREVIOUS) || (k && (row->operands[k - 1].flags & OPTIONAL)));
      n_required += !(o->flags & (OPTIONAL | REPEATED));
    }
    CHECK(row->n_operands <= MAX_OPERANDS && row->n_min >= n_required && row->n_max >= row->n_operands);
  }
}

static void test_expressions(void) {
  Expr e = ir_forward(OP_softplus);  // a 0 max a abs neg exp log1p add
  static const uint16_t ops[] = {0, 0, OP_max, 0, OP_abs, OP_neg, OP_exp, OP_log1p, OP_add};
  CHECK(e.n == sizeof ops / sizeof *ops);
  for (uint32_t i = 0; i < e.n && i < sizeof ops / sizeof *ops; i++) CHECK(e.nodes[i].op == ops[i]);
  CHECK(ir_forward(OP_exp).nodes == NULL && ir_gradient(OP_gt, 0).nodes == NULL &&
        ir_gradient(OP_select, 0).nodes == NULL);
  Expr d = ir_gradient(OP_dropout, 0);  // g SAME
  CHECK(d.n == 2 && d.nodes[0].kind == EX_G && d.nodes[1].kind == EX_SAME && d.nodes[1].op == OP_dropout);
  Expr f = ir_forward(OP_full);
  CHECK(f.n == 1 && f.nodes[0].kind == EX_ATTR && f.nodes[0].arg == KEY_value);
}

// ---- ties go to the first operand, NaN wins
static void test_words(void) {
  CHECK(isnan(ir_primitive(OP_max, NAN, 1, 0)) && isnan(ir_primitive(OP_max, 1, NAN, 0)) &&
        isnan(ir_primitive(OP_min, 1, NAN, 0)));
  CHECK(ir_primitive(OP_eq, NAN, NAN, 0) == 0 && ir_primitive(OP_ne, NAN, NAN, 0) == 1);
  CHECK(ir_primitive(OP_select, 0, 1, 2) == 2 && ir_primitive(OP_select, -3, 1, 2) == 1);
}

// Known answers of Random123 for Philox4x32-10, and the ranges of what is made from them.
static void test_random(void) {
  static const struct {
    uint32_t counter[4], key[2], out[4];
  } known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (uint32_t k = 0; k < sizeof known / sizeof *known; k++) {
    uint32_t out[4];
    rt_philox(known[k].counter, known[k].key, out);
    CHECK(!memcmp(out, known[k].out, sizeof out));
  }
  CHECK(ir_philox_uniform(0, 0, 0, 0) == (float)(0x6627e8d5 >> 8) * 0x1p-24f);
  CHECK(ir_philox_uniform(1, 2, 3, UINT64_C(1) << 32) != ir_philox_uniform(1, 2, 3, 0));
  double sum = 0, squares = 0;
  enum { N = 100000 };
  for (uint64_t i = 0; i < N; i++) {
    float u = ir_philox_uniform(9, 1, 4, i);
    double z = ir_philox_normal(9, 1, 4, i);
    CHECK(u >= 0 && u < 1 && isfinite(z));
    sum += z, squares += z * z;
  }
  CHECK(fabs(sum / N) < 0.02 && fabs(squares / N - 1) < 0.02);
}

// ---- what the interpreter refuses
static void check_refused(const char *tir, CaseArray in0, CaseArray in1, const char *expected) {
  const CaseArray in[2] = {in0, in1};
  static const int64_t dims[] = {2, 3, 0};
  OpCase c = {.name = "refused", .tir = tir, .in = in, .n_in = 2, .n_out = 1, .dims = dims, .n_dims = 3};
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  Prog *p = ir_parse(mem, tir, strlen(tir), "refused.tir", &diags);
  Interp it;
  if (CHECK(p)) {
    open_interp(&it, &c, p, mem);
    CHECK(!ir_interpret(it.f, &it.env, &why));
    CHECK_HAS(why.text, expected);
  } else {
    rt_diags_print(&diags, stdout);
  }
  rt_arena_free(mem);
}

#define ARRAY(...) ((CaseArray){(const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double)})
#define PACK(flags)                                                                                    \
  "program @p\ndim batch <= 2, time <= 4, rows <= 8\nfunc @f(%x: f32[batch,time], %n: i64[batch]) {\n" \
  "%L = packed_layout %n {time=time, rows=rows" flags                                                  \
  "}\n%y = pack_padded %x, %L\noutput %y {name=\"y\", index=0}\n}\n"

static void test_refusals(void) {
  const char *look =
      "program @p\nfunc @f(%w: f32[3,1], %i: i64[2]) {\n%y = embedding %w, %i\noutput %y {name=\"y\", index=0}\n}\n";
  check_refused(look, ARRAY(1, 2, 3), ARRAY(0, 3), "index 3 at element 1");
  check_refused(look, ARRAY(1, 2, 3), ARRAY(-1, 0), "index -1 at element 0");
  check_refused(look, ARRAY(1, 2), ARRAY(0, 0), "input 0 has 2 elements");
  const char *put = "program @p\nfunc @f(%x: f32[3,1], %i: i64[2]) {\n%r = reshape %x {shape=[1,3]}\n%s = slice %r "
                    "{axis=1, start=0, count=2}\n"
                    "%p = reshape %s {shape=[2,1]}\n%y = index_assign %x, %i, %p\noutput %y {name=\"y\", index=0}\n}\n";
  check_refused(put, ARRAY(1, 2, 3), ARRAY(0, 3), "index 3 at element 1");
  check_refused(put, ARRAY(1, 2, 3), ARRAY(-4, 0), "index -4 at element 0");
  const char *write =
      "program @p\nfunc @f(%x: f32[1], %i: f32[1]) {\nwrite %x, %i\noutput %x {name=\"y\", index=0}\n}\n";
  check_refused(write, ARRAY(1), ARRAY(2), "pass functionalize has not run");
  const char *loss = "program @p\nfunc @f(%x: f32[2,3], %i: i64[2]) {\n%y, %l = cross_entropy_rows %x, %i\noutput %y "
                     "{name=\"y\", index=0}\n}\n";
  check_refused(loss, ARRAY(1, 2, 3, 4, 5, 6), ARRAY(0, 3), "label 3 at row 1");
  CaseArray x = ARRAY(1, 2, 3, 4, 5, 6);
  check_refused(PACK(""), x, ARRAY(3, 0), "length 0 at 1");
  check_refused(PACK(""), x, ARRAY(4, 1), "length 4 at 0");
  check_refused(PACK(", sorted"), x, ARRAY(1, 3), "length 3 at 1");
  check_refused(
      "program @p\nfunc @f(%x: f32[], %i: f32[]) {\n%y = grad_of %x, %i\noutput %y {name=\"y\", index=0}\n}\n",
      ARRAY(1), ARRAY(2), "pass grad has not run");
}

// One argument: only the cases whose name contains it.
int main(int argc, char **argv) {
  test_table();
  test_commutative();
  test_operands();
  test_expressions();
  test_words();
  test_random();
  test_coverage();
  test_refusals();
  case_check_all(argc < 2 ? NULL : argv[1], run_interpreter, 1e-12, IS_SANITIZED ? 3 : 1);
  return check_report();
}
