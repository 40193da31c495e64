// The rows of optimizers.def as programs, as ir/expr.c makes them of pointwise rows. All are expanded once, at the first
// question.
//
// A node is a tree while its row is expanded; C's order of evaluating arguments does not matter, since the postfix is
// written by walking the tree. Inside `expand` the ops are local function pointers with their own names (abs, div, ..): at
// file scope the compiler would take such names for its built-in functions.
#include "ir/optimizers.h"
#include "ir/ops.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

enum { MAX_TREE = 64, MAX_POOL = 2048, MAX_LETS = 160 };

typedef struct Tree {
  ExNode n;
  const struct Tree *kid[3];
  Expr constant;  // with nodes: these, in place of n
} Tree;
typedef const Tree *Node;

// Used only while `expand` runs, which is once.
static Tree tree[MAX_TREE];
static uint32_t n_tree;
static IrUpdate *row;
static bool is_given;                // the operand of EITHER
static bool of_elements;             // the statement at hand works on elements
static bool is_set[IR_N_REGISTERS];  // by an element statement, or a tensor
// Scalars that no run changes: their expressions stand where they are read.
static Expr constant[IR_N_REGISTERS];

static ExNode pool[MAX_POOL];
static IrLet lets[MAX_LETS];
static uint32_t n_pool, n_lets;
static IrUpdate rows[N_OPS][2];  // [is_given]

static Node add_node(ExNode n, Node x, Node y, Node z) {
  assert(n_tree < MAX_TREE);
  tree[n_tree] = (Tree){.n = n, .kid = {x, y, z}};
  return &tree[n_tree++];
}

static Node leaf(uint32_t kind, uint32_t arg, double num) {
  return add_node((ExNode){(uint8_t)kind, (uint8_t)arg, OP_none, num}, NULL, NULL, NULL);
}

static void note(uint8_t *list, uint32_t *n, uint32_t most, uint32_t what) {
  for (uint32_t k = 0; k < *n; k++)
    if (list[k] == what) return;
  assert(*n < most);
  (void)most;
  list[(*n)++] = (uint8_t)what;
}

static Node value_of(uint32_t reg) {
  if (constant[reg].n) {
    assert(n_tree < MAX_TREE);
    tree[n_tree] = (Tree){.constant = constant[reg]};
    return &tree[n_tree++];
  }
  if (of_elements && !is_set[reg]) note(row->inputs, &row->n_inputs, IR_UPDATE_INPUTS, reg);
  return leaf(UP_REGISTER, reg, 0);
}

static Node attribute(uint32_t kind, Key key, double absent) {
  note(row->keys, &row->n_keys, IR_UPDATE_KEYS, key);
  return leaf(kind, key, absent);
}

static Node operand_or(uint32_t reg, Key key, double absent) {
  return is_given ? value_of(reg) : attribute(UP_OPTION, key, absent);
}

static void add_nodes(const ExNode *nodes, uint32_t n) {
  assert(n_pool + n <= MAX_POOL);
  for (uint32_t k = 0; k < n; k++) pool[n_pool++] = nodes[k];
}

static void walk(Node at) {
  for (uint32_t k = 0; k < 3 && at->kid[k]; k++) walk(at->kid[k]);
  if (at->constant.n) add_nodes(at->constant.nodes, at->constant.n);
  else add_nodes(&at->n, 1);
}

static bool is_constant(Expr e) {
  for (uint32_t k = 0; k < e.n; k++)
    if (e.nodes[k].kind >= UP_FMA || e.nodes[k].kind == UP_REGISTER) return false;
  return true;
}

static void let(uint32_t reg, Node value) {
  uint32_t first = n_pool;
  walk(value);
  n_tree = 0;
  Expr e = {&pool[first], n_pool - first};
  if (!of_elements && is_constant(e)) {
    constant[reg] = e;
    return;
  }
  assert(n_lets < MAX_LETS);
  lets[n_lets++] = (IrLet){reg, e};
  if (of_elements) is_set[reg] = true;
}

static void open_row(Op op) {
  row = &rows[op][is_given];
  row->n_tensors = ir_ops[op].n_res + 1;
  of_elements = false;
  memset(is_set, 0, sizeof is_set);
  memset(constant, 0, sizeof constant);
  for (uint32_t k = 0; k < row->n_tensors; k++) is_set[ir_ops[op].operands[k].name] = true;
  row->scalars = &lets[n_lets];
}

static void begin_elements(void) {
  row->n_scalars = (uint32_t)(&lets[n_lets] - row->scalars);
  row->elements = &lets[n_lets];
  of_elements = true;
}

static void close_row(void) { row->n_elements = (uint32_t)(&lets[n_lets] - row->elements); }

// ---- the ops that rows are made of
#define MADE_UNARY(n) \
  static Node make_##n(Node x) { return add_node((ExNode){EX_OP, 0, OP_##n, 0}, x, NULL, NULL); }
#define MADE_BINARY(n) \
  static Node make_##n(Node x, Node y) { return add_node((ExNode){EX_OP, 0, OP_##n, 0}, x, y, NULL); }
MADE_UNARY(neg)
MADE_UNARY(abs)
MADE_UNARY(sqrt)
MADE_BINARY(add)
MADE_BINARY(sub)
MADE_BINARY(mul)
MADE_BINARY(div)
MADE_BINARY(max)
MADE_BINARY(pow)
MADE_BINARY(gt)
MADE_BINARY(lt)
MADE_BINARY(eq)
static Node make_select(Node x, Node y, Node z) { return add_node((ExNode){EX_OP, 0, OP_select, 0}, x, y, z); }
static Node make_fma(Node x, Node y, Node z) { return add_node((ExNode){UP_FMA, 0, OP_none, 0}, x, y, z); }
static Node make_lerp(Node x, Node y, Node z) { return add_node((ExNode){UP_LERP, 0, OP_none, 0}, x, y, z); }
static Node make_power(Node x, Node y) { return add_node((ExNode){UP_POWER, 0, OP_none, 0}, x, y, NULL); }

#define K(x) leaf(EX_NUM, 0, (x))
#define V(x) value_of(IR_REG_##x)
#define OPTION(key, absent) attribute(UP_OPTION, KEY_##key, absent)
#define FLAG(key) attribute(UP_FLAG, KEY_##key, 0)
#define EITHER(x, absent) operand_or(IR_REG_##x, KEY_##x, absent)
#define LET(x, value) let(IR_REG_##x, value);
#define ARG(n, flags)
#define OPT(n, flags) +1
#define UPDATE(name, states, numbers, either, n, doc, scalars, elements) \
  for (uint32_t given = 0; given <= 0 either; given++) {                 \
    is_given = given;                                                    \
    open_row(OP_##name);                                                 \
    scalars begin_elements();                                            \
    elements close_row();                                                \
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
static void expand(void) {
  Node (*const neg)(Node) = make_neg, (*const abs)(Node) = make_abs, (*const sqrt)(Node) = make_sqrt;
  Node (*const add)(Node, Node) = make_add, (*const sub)(Node, Node) = make_sub, (*const mul)(Node, Node) = make_mul;
  Node (*const div)(Node, Node) = make_div, (*const max)(Node, Node) = make_max, (*const pow)(Node, Node) = make_pow;
  Node (*const gt)(Node, Node) = make_gt, (*const lt)(Node, Node) = make_lt, (*const eq)(Node, Node) = make_eq;
  Node (*const power)(Node, Node) = make_power, (*const select)(Node, Node, Node) = make_select;
  Node (*const fma)(Node, Node, Node) = make_fma, (*const lerp)(Node, Node, Node) = make_lerp;
#include "ir/optimizers.def"
  rows[OP_adamw_sparse][0] = rows[OP_adamw][0];
}
#pragma GCC diagnostic pop

static pthread_once_t expanded = PTHREAD_ONCE_INIT;

const IrUpdate *ir_update_of(Op op, bool beta1) {
  pthread_once(&expanded, expand);
  return rows[op][beta1].n_tensors ? &rows[op][beta1] : NULL;
}

const IrUpdate *ir_update_at(const Fn *f, Val v) {
  return ir_update_of((Op)ir_ins(f, v)->op, ir_has_operand(f, v, ARG_beta1));
}

uint32_t ir_operands_taken(uint32_t kind, uint16_t op) {
  if (kind == EX_OP) return ir_ops[op].n_min;
  return kind == UP_FMA || kind == UP_LERP ? 3 : kind == UP_POWER ? 2 : 0;
}
