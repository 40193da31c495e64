// Rows of primitives as postfix programs:   max(a, K(0))   ->   a  0  max
//
// The primitives of a row are functions here: each makes a node of a scratch tree, in whatever order the C compiler chooses
// to evaluate arguments. The postfix is then written by walking the tree left to right, so that it is the same with
// every compiler. All rows are expanded once, at the first question.
//
// Inside `expand` the primitives are local function pointers with the ops' own names (exp, abs, div, ..): at file scope gcc
// would take such names for its built-in functions, and fold calls of them.
#include "ir/expr.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>

enum { MAX_TREE = 64, MAX_POOL = 8192, NO_NODE = 0 };

typedef struct {
  uint32_t i;  // in `tree`; NO_NODE: nothing (PRIM, NOGRAD)
} Node;

typedef struct {
  ExNode n;
  Node kid[3];
  uint32_t n_kids;
} Tree;

// Used only while `expand` runs, which is once.
static Tree tree[MAX_TREE];
static uint32_t n_tree;
static Op row_op;  // the row being expanded, for SAME

static ExNode pool[MAX_POOL];
static uint32_t n_pool;
static Expr forward_of[N_OPS], gradient_of[N_OPS][3];

static Node add_node(ExNode n, uint32_t n_kids, Node x, Node z, Node w) {
  assert(n_tree < MAX_TREE);
  tree[n_tree] = (Tree){n, {x, z, w}, n_kids};
  return (Node){n_tree++};
}

static Node leaf(ExKind kind, uint32_t arg, double num) {
  return add_node((ExNode){(uint8_t)kind, (uint8_t)arg, OP_none, num}, 0, (Node){0}, (Node){0}, (Node){0});
}

static Node primitive(ExKind kind, Op op, uint32_t n_kids, Node x, Node z, Node w) {
  return add_node((ExNode){(uint8_t)kind, 0, (uint16_t)op, 0}, n_kids, x, z, w);
}

// ---- the primitives: one function for each pointwise row
#define PRIMITIVE __attribute__((unused)) static Node
#define NO ((Node){0})
#define NULLARY(n, ...) \
  PRIMITIVE primitive_##n(void) { return primitive(EX_OP, OP_##n, 0, NO, NO, NO); }
#define UNARY(n, ...) \
  PRIMITIVE primitive_##n(Node x) { return primitive(EX_OP, OP_##n, 1, x, NO, NO); }
#define BINARY(n, ...) \
  PRIMITIVE primitive_##n(Node x, Node z) { return primitive(EX_OP, OP_##n, 2, x, z, NO); }
#define TERNARY(n, ...) \
  PRIMITIVE primitive_##n(Node x, Node z, Node w) { return primitive(EX_OP, OP_##n, 3, x, z, w); }
#include "ir/ops.def"

// ---- tree -> postfix
static void walk(Node at) {
  const Tree *t = &tree[at.i];
  for (uint32_t k = 0; k < t->n_kids; k++) walk(t->kid[k]);
  assert(n_pool < MAX_POOL);
  pool[n_pool++] = t->n;
}

static Expr postfix(Node root) {
  if (root.i == NO_NODE) return (Expr){NULL, 0};
  uint32_t first = n_pool;
  walk(root);
  return (Expr){&pool[first], n_pool - first};
}

static void open_row(Op op) {
  row_op = op;
  n_tree = 1;  // tree[0] is NO_NODE
}

#define PRIM NO
#define NOGRAD NO
#define K(x) leaf(EX_NUM, 0, (x))
#define ATTR(k) leaf(EX_ATTR, KEY_##k, 0)
#define SAME(x) primitive(EX_SAME, row_op, 1, (x), NO, NO)
#define a leaf(EX_ARG, 0, 0)
#define b leaf(EX_ARG, 1, 0)
#define c leaf(EX_ARG, 2, 0)
#define y leaf(EX_Y, 0, 0)
#define g leaf(EX_G, 0, 0)
#define FORWARD(n, row) (open_row(OP_##n), forward_of[OP_##n] = postfix(row));
#define GRADIENT(n, k, row) (open_row(OP_##n), gradient_of[OP_##n][k] = postfix(row));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
static void expand(void) {
#define LOCAL(n, ...) __attribute__((unused)) Node (*const n)(__VA_ARGS__) = primitive_##n;
#define NULLARY(n, ...) LOCAL(n, void)
#define UNARY(n, ...) LOCAL(n, Node)
#define BINARY(n, ...) LOCAL(n, Node, Node)
#define TERNARY(n, ...) LOCAL(n, Node, Node, Node)
#include "ir/ops.def"
#define NULLARY(n, fwd, flags, doc) FORWARD(n, fwd)
#define UNARY(n, fwd, ga, flags, doc) FORWARD(n, fwd) GRADIENT(n, 0, ga)
#define BINARY(n, fwd, ga, gb, flags, doc) FORWARD(n, fwd) GRADIENT(n, 0, ga) GRADIENT(n, 1, gb)
#define TERNARY(n, fwd, ga, gb, gc, flags, doc) FORWARD(n, fwd) GRADIENT(n, 0, ga) GRADIENT(n, 1, gb) GRADIENT(n, 2, gc)
#include "ir/ops.def"
}
#pragma GCC diagnostic pop
#undef a
#undef b
#undef c
#undef y
#undef g

static pthread_once_t expanded = PTHREAD_ONCE_INIT;

Expr ir_forward(Op op) {
  pthread_once(&expanded, expand);
  return forward_of[op];
}

Expr ir_gradient(Op op, uint32_t k) {
  pthread_once(&expanded, expand);
  return k < 3 ? gradient_of[op][k] : (Expr){NULL, 0};
}
