// Sums of products by labels of axes, lowered to permutations, views, products of matrices and sums.
//
//   "bij,jk->bik"
//   terms       bij  jk        labels of each operand's axes, unique: of repeated ones diagonals were taken
//   two of them  batch labels (in both and wanted later) | rows (first alone) | columns (second alone) | summed
//                permute to [batch, rows, summed] x [batch, summed, columns], merge each group, matmul, split the groups; the two
//                change places where the result then has its order
//   at last     permute to the result's order
//
// Labels are numbers: letters 0..51 in PyTorch's order (A..Z a..z), axes of `...` 52.. counted from the right. Sets of labels are bits.
#include "frontend/graph/ledger.h"
#include "frontend/graph/linalg.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/linalg.h"
#include "runtime/format.h"

#include <string.h>

enum { ELLIPSIS = 52, MAX_LABELS = ELLIPSIS + MAX_RANK, MAX_TERMS = 16, EXHAUSTIVE = 6 };

typedef uint64_t Labels;

typedef struct {
  tn_tensor t;
  uint8_t label[MAX_RANK];
  uint32_t n;
} Term;

typedef struct {
  tn_function *f;
  tn_site at;
  const char *equation;
  Term term[MAX_TERMS], result;  // t of the result is not used
  uint32_t n_terms;
  Dim size[MAX_LABELS];  // not 1 where some operand's is not
  uint32_t n_ellipsis;   // the most axes that `...` stands for
  bool fails;
} Einsum;

static Labels bit(uint32_t label) { return UINT64_C(1) << label; }
static char letter(uint32_t label) { return (char)(label < 26 ? 'A' + label : 'a' + (label - 26)); }

static const char *name_of(Einsum *e, uint32_t label) {
  return label < ELLIPSIS ? rt_printf(e->f->p->mem, "label '%c'", letter(label)) : "an axis of '...'";
}

static Labels labels_of(const Term *t) {
  Labels all = 0;
  for (uint32_t k = 0; k < t->n; k++) all |= bit(t->label[k]);
  return all;
}

// ---- reading the equation
// One part of it, up to a comma or an arrow: letters, and at most one `...`, as which 0xff stands.
typedef struct {
  uint8_t label[64];
  uint32_t n;
  bool has_ellipsis;
} Part;

static bool refuse(Einsum *e, const char *text) {
  fe_error(e->f->p, E_ARGUMENT, e->at, "einsum \"%s\": %s", e->equation, text);
  e->fails = true;
  return false;
}

static bool read_part(Einsum *e, const char **s, Part *p) {
  *p = (Part){.n = 0};
  for (; **s && **s != ',' && strncmp(*s, "->", 2); (*s)++) {
    if (**s == ' ') continue;
    if (p->n == sizeof p->label) return refuse(e, "a part has too many letters");
    if (!strncmp(*s, "...", 3)) {
      if (p->has_ellipsis) return refuse(e, "a part has '...' twice");
      p->has_ellipsis = true, p->label[p->n++] = 0xff, *s += 2;
    } else if (rt_is_alnum(**s) && !rt_is_digit(**s)) {
      p->label[p->n++] = (uint8_t)(**s <= 'Z' ? **s - 'A' : **s - 'a' + 26);
    } else return refuse(e, rt_printf(e->f->p->mem, "'%c' is no letter", **s));
  }
  return true;
}

// The labels of an operand's axes: letters as they stand, `...` by what is left of the rank.
static bool label_axes(Einsum *e, uint32_t k, const Part *p) {
  Term *t = &e->term[k];
  uint32_t rank = fe_rank(t->t), letters = p->n - p->has_ellipsis;
  if (letters > rank || (letters < rank && !p->has_ellipsis)) {
    fe_error(e->f->p, E_SHAPE, e->at, "einsum \"%s\": part %u names %u axes%s, operand %u is %s", e->equation, k + 1,
             letters, p->has_ellipsis ? " beside '...'" : "", k + 1, fe_type_text(t->t));
    fe_note_value(t->t, "the operand");
    return !(e->fails = true);
  }
  uint32_t hidden = rank - letters;
  if (hidden > e->n_ellipsis) e->n_ellipsis = hidden;
  for (uint32_t j = 0; j < p->n; j++) {
    if (p->label[j] != 0xff) t->label[t->n++] = p->label[j];
    for (uint32_t i = hidden; p->label[j] == 0xff && i-- > 0;) t->label[t->n++] = (uint8_t)(ELLIPSIS + i);
  }
  return true;
}

static bool is_one(Einsum *e, Dim d) { return ir_dim_is_one(e->f->p->ir, d); }

static bool note_sizes(Einsum *e, uint32_t k) {
  const Term *t = &e->term[k];
  for (uint32_t j = 0; j < t->n; j++) {
    Dim d = fe_axis_dim(t->t, j), *size = &e->size[t->label[j]];
    if (!size->i || is_one(e, *size)) *size = d;
    if (size->i == d.i || is_one(e, d)) continue;
    fe_error(e->f->p, E_SHAPE, e->at, "einsum \"%s\": %s is axis %u of operand %u, %s, and has another size before",
             e->equation, name_of(e, t->label[j]), j, k + 1, fe_type_text(t->t));
    fe_note_value(t->t, "the operand");
    return !(e->fails = true);
  }
  return true;
}

// Without an arrow: axes of `...`, then the letters that occur once, in alphabetical order.
static void implied_result(Einsum *e, const uint32_t *times) {
  for (uint32_t i = e->n_ellipsis; i-- > 0;) e->result.label[e->result.n++] = (uint8_t)(ELLIPSIS + i);
  for (uint32_t l = 0; l < ELLIPSIS; l++)
    if (times[l] == 1 && e->result.n < MAX_RANK) e->result.label[e->result.n++] = (uint8_t)l;
}

static bool named_result(Einsum *e, const Part *p) {
  Labels seen = 0;
  for (uint32_t j = 0; j < p->n; j++) {
    uint32_t l = p->label[j], n = l == 0xff ? e->n_ellipsis : 1;
    if (l != 0xff && !e->size[l].i)
      return refuse(e, rt_printf(e->f->p->mem, "%s of the result is in no operand", name_of(e, l)));
    if (l != 0xff && (seen & bit(l)))
      return refuse(e, rt_printf(e->f->p->mem, "the result has %s twice", name_of(e, l)));
    if (e->result.n + n > MAX_RANK) return refuse(e, "the result has more than 8 axes");
    if (l != 0xff) seen |= bit(l), e->result.label[e->result.n++] = (uint8_t)l;
    for (uint32_t i = n; l == 0xff && i-- > 0;) e->result.label[e->result.n++] = (uint8_t)(ELLIPSIS + i);
  }
  return true;
}

static bool read_equation(Einsum *e) {
  const char *s = e->equation;
  uint32_t times[ELLIPSIS] = {0};
  Part p;
  for (uint32_t k = 0;; k++) {
    if (!read_part(e, &s, &p)) return false;
    if (k == e->n_terms) return refuse(e, "it has more parts than there are operands");
    if (!label_axes(e, k, &p) || !note_sizes(e, k)) return false;
    for (uint32_t j = 0; j < p.n; j++)
      if (p.label[j] != 0xff) times[p.label[j]]++;
    if (*s == ',') {
      s++;
      continue;
    }
    if (k + 1 < e->n_terms) return refuse(e, "it has fewer parts than there are operands");
    break;
  }
  if (!*s) return implied_result(e, times), true;
  s += 2;
  if (!read_part(e, &s, &p)) return false;
  return *s ? refuse(e, "nothing may stand behind the result's labels") : named_result(e, &p);
}

// ---- one operand
static Term emit_term(Einsum *e, const Term *t, tn_tensor y) {
  Term out = *t;
  out.t = y;
  e->fails |= !fe_ok(y);
  return out;
}

static Dim size_of(Einsum *e, const Term *t, uint32_t from, uint32_t to) {
  Dim d = ir_dim(e->f->p->ir, 1);
  for (uint32_t k = from; k < to; k++) d = ir_dim_mul(e->f->p->ir, d, fe_axis_dim(t->t, k));
  return d;
}

// To the order of labels that `to` has, all of them t's.
static Term permuted(Einsum *e, const Term *t, const uint8_t *to) {
  uint32_t perm[MAX_RANK] = {0};
  bool moves = false;
  Term out = *t;
  for (uint32_t k = 0; k < t->n; k++)
    for (uint32_t j = 0; j < t->n; j++)
      if (t->label[j] == to[k]) perm[k] = j, moves |= j != k;
  memcpy(out.label, to, t->n);
  return moves ? emit_term(e, &out, fe_permute(t->t, perm, e->at)) : out;
}

static Term diagonals(Einsum *e, const Term *from) {
  Term t = *from;
  for (uint32_t i = 0; i < t.n; i++)
    for (uint32_t j = i + 1; j < t.n && !e->fails; j++) {
      if (t.label[i] != t.label[j]) continue;
      Term out = {.n = 0};
      if (fe_axis_dim(t.t, i).i != fe_axis_dim(t.t, j).i) {
        refuse(e,
               rt_printf(e->f->p->mem, "%s stands for axes of different sizes of one operand", name_of(e, t.label[i])));
        return t;
      }
      for (uint32_t k = 0; k < t.n; k++)
        if (k != i && k != j) out.label[out.n++] = t.label[k];
      out.label[out.n++] = t.label[i];
      t = emit_term(e, &out, fe_diagonal(t.t, 0, i, j, e->at));
      i = (uint32_t)-1;  // from the beginning
      break;
    }
  return t;
}

// Without axes of size 1 whose label is larger elsewhere.
static Term without_ones(Einsum *e, const Term *t) {
  Dim dims[MAX_RANK];
  Term out = {.n = 0};
  for (uint32_t k = 0; k < t->n; k++) {
    if (is_one(e, fe_axis_dim(t->t, k)) && !is_one(e, e->size[t->label[k]])) continue;
    dims[out.n] = fe_axis_dim(t->t, k), out.label[out.n++] = t->label[k];
  }
  return emit_term(e, &out, out.n == t->n ? t->t : fe_reshape(t->t, dims, out.n, e->at));
}

// Without the labels that nobody wants.
static Term summed(Einsum *e, const Term *t, Labels wanted) {
  int axes[MAX_RANK];
  uint32_t n = 0;
  Term out = {.n = 0};
  for (uint32_t k = 0; k < t->n; k++) {
    if (wanted & bit(t->label[k])) out.label[out.n++] = t->label[k];
    else axes[n++] = (int)k;
  }
  if (!n) return *t;
  return emit_term(e, &out, fe_sum(t->t, axes, n, false, e->at));
}

// ---- two operands
// The labels of t that are in `of`, in t's order, behind those that `out` has.
static void take(const Term *t, Labels of, Term *out) {
  for (uint32_t k = 0; k < t->n; k++)
    if (of & bit(t->label[k])) out->label[out->n++] = t->label[k];
}

// Element by element: with axes of size 1 for the labels that one of them has not.
static Term multiplied(Einsum *e, const Term *a, const Term *b, const Term *order) {
  Dim dims[MAX_RANK];
  const Term *from[] = {a, b};
  tn_tensor x[2];
  for (int j = 0; j < 2; j++) {
    Term own = {.n = 0};
    take(order, labels_of(from[j]), &own);
    Term t = permuted(e, from[j], own.label);
    if (e->fails) return t;
    for (uint32_t k = 0, at = 0; k < order->n; k++) {
      bool has = at < t.n && t.label[at] == order->label[k];
      dims[k] = has ? fe_axis_dim(t.t, at++) : ir_dim(e->f->p->ir, 1);
    }
    x[j] = fe_reshape(t.t, dims, order->n, e->at);
  }
  return emit_term(e, order, fe_emit2(OP_mul, x[0], x[1], e->at));
}

// One matrix for each element of the batch: [batch .., first, second]. The axes of the batch stay, so that the product reads them
// where they lie.
static tn_tensor merged(Einsum *e, const Term *t, uint32_t n_batch, uint32_t n_first) {
  Dim dims[MAX_RANK + 2], *d = dims;
  bool fits = n_batch + 2 <= MAX_RANK;
  for (uint32_t k = 0; k < n_batch && fits; k++) *d++ = fe_axis_dim(t->t, k);
  if (!fits) *d++ = size_of(e, t, 0, n_batch);
  *d++ = size_of(e, t, n_batch, n_batch + n_first);
  *d++ = size_of(e, t, n_batch + n_first, t->n);
  return fe_reshape(t->t, dims, (uint32_t)(d - dims), e->at);
}

typedef struct {
  Labels batch, rows, columns, sum;
} Roles;

// An operand as matrices, in its own order where that is [batch, first, second] or [batch, second, first].
static tn_tensor as_matrices(Einsum *e, const Term *t, const Term *batch, const Term *first, const Term *second,
                             bool *turned) {
  Term order = *batch, other = *batch;
  take(first, ~UINT64_C(0), &order), take(second, ~UINT64_C(0), &order);
  take(second, ~UINT64_C(0), &other), take(first, ~UINT64_C(0), &other);
  *turned = memcmp(order.label, t->label, t->n) && !memcmp(other.label, t->label, t->n);
  Term p = permuted(e, t, *turned ? other.label : order.label);
  return e->fails ? p.t : merged(e, &p, batch->n, *turned ? second->n : first->n);
}

// Has the product of a and b the order of axes that the result has?
static bool is_result(const Einsum *e, const Term *a, const Term *b, Roles r) {
  Term own = {.n = 0}, wanted = {.n = 0};
  take(a, r.batch, &own), take(a, r.rows, &own), take(b, r.columns, &own);
  take(&e->result, r.batch | r.rows | r.columns, &wanted);
  return own.n == wanted.n && !memcmp(own.label, wanted.label, own.n * sizeof *own.label);
}

// Where the axis of `group` merged lies among those of `wanted`: its labels stand there side by side, in their order; -1: they do not.
static int place_of(const Term *wanted, const Term *group) {
  for (uint32_t k = 0; group->n && k + group->n <= wanted->n; k++)
    if (!memcmp(wanted->label + k, group->label, group->n)) return (int)k;
  return -1;
}

// The product [batch .., rows, columns] in the order of the result, before rows and columns are several axes again: a permutation
// that the product can store by. out: the labels of its axes by then.
static tn_tensor in_result_order(Einsum *e, tn_tensor z, const Term *batch, const Term *rows, const Term *columns,
                                 Term *out) {
  Term wanted = {.n = 0};
  take(&e->result, labels_of(out), &wanted);
  int of_rows = place_of(&wanted, rows), of_columns = place_of(&wanted, columns);
  uint32_t perm[MAX_RANK], n = 0;
  if (wanted.n != out->n || !memcmp(wanted.label, out->label, out->n)) return z;
  if (batch->n + 2 > MAX_RANK || of_rows < 0 || of_columns < 0) return z;
  for (uint32_t k = 0; k < wanted.n; k++) {
    bool in_rows = k >= (uint32_t)of_rows && k < (uint32_t)of_rows + rows->n;
    bool in_columns = k >= (uint32_t)of_columns && k < (uint32_t)of_columns + columns->n;
    if (k == (uint32_t)of_rows) perm[n++] = batch->n;
    if (k == (uint32_t)of_columns) perm[n++] = batch->n + 1;
    for (uint32_t j = 0; j < batch->n && !in_rows && !in_columns; j++)
      if (batch->label[j] == wanted.label[k]) perm[n++] = j;
  }
  *out = wanted;
  return fe_permute(z, perm, e->at);
}

static Term by_matmul(Einsum *e, const Term *a, const Term *b, Roles r) {
  Term batch = {.n = 0}, rows = {.n = 0}, columns = {.n = 0}, sum = {.n = 0}, out;
  take(a, r.batch, &batch), take(a, r.rows, &rows), take(b, r.columns, &columns), take(a, r.sum, &sum);
  bool ta, tb;
  tn_tensor x = as_matrices(e, a, &batch, &rows, &sum, &ta), y = as_matrices(e, b, &batch, &sum, &columns, &tb);
  if (e->fails) return *a;
  uint32_t n = 0;
  tn_tensor z = fe_matmul(x, y, ta, tb, e->at);
  Dim dims[MAX_RANK];
  out = batch;
  take(&rows, ~UINT64_C(0), &out), take(&columns, ~UINT64_C(0), &out);
  if (fe_ok(z)) z = in_result_order(e, z, &batch, &rows, &columns, &out);
  for (uint32_t k = 0; k < out.n; k++) dims[n++] = e->size[out.label[k]];
  return emit_term(e, &out, fe_ok(z) ? fe_reshape(z, dims, n, e->at) : z);
}

// A sum of small whole numbers or bools is i64: what was of its dtype becomes i64, too.
static void in_one_dtype(Einsum *e, const Term *from_a, Term *a, const Term *from_b, Term *b) {
  if (fe_ins(from_a->t)->dtype != fe_ins(from_b->t)->dtype || fe_ins(a->t)->dtype == fe_ins(b->t)->dtype) return;
  const tn_tensor *in = fe_in_one_dtype((const tn_tensor[]){a->t, b->t}, 2, e->at);
  a->t = in[0], b->t = in[1];
}

// What is wanted of the product of two, labels that nobody wants summed over.
static Term contracted(Einsum *e, const Term *from_a, const Term *from_b, Labels wanted) {
  Term a = summed(e, from_a, wanted | labels_of(from_b)), b = summed(e, from_b, wanted | labels_of(from_a));
  if (e->fails) return a;
  in_one_dtype(e, from_a, &a, from_b, &b);
  Labels la = labels_of(&a), lb = labels_of(&b);
  Roles r = {.batch = la & lb & wanted, .rows = la & ~lb, .columns = lb & ~la, .sum = la & lb & ~wanted};
  // Products and sums of f32 are one kernel, too.
  if (r.sum && (r.rows || r.columns || fe_is_countable(a.t))) {
    Roles turned = {.batch = r.batch, .rows = r.columns, .columns = r.rows, .sum = r.sum};
    return is_result(e, &b, &a, turned) ? by_matmul(e, &b, &a, turned) : by_matmul(e, &a, &b, r);
  }
  Term order = {.n = 0};
  take(&a, r.batch | r.sum, &order), take(&a, r.rows, &order), take(&b, r.columns, &order);
  if (order.n > MAX_RANK) return refuse(e, "a product of two operands has more than 8 axes"), a;
  Term y = multiplied(e, &a, &b, &order);
  return e->fails ? y : summed(e, &y, wanted);
}

// ---- the order: the pair whose product, and what follows, takes the fewest multiplications
static double cost_of(Einsum *e, Labels all) {
  double cost = 1;
  for (uint32_t l = 0; l < MAX_LABELS; l++)
    if (all & bit(l)) cost *= (double)ir_dim_bound(e->f->p->ir, e->size[l]);
  return cost;
}

// Labels that the result or an operand other than i and j has.
static Labels wanted_of(const Labels *set, uint32_t n, uint32_t i, uint32_t j, Labels result) {
  for (uint32_t k = 0; k < n; k++)
    if (k != i && k != j) result |= set[k];
  return result;
}

static double best_pair(Einsum *e, const Labels *set, uint32_t n, Labels result, uint32_t *first, uint32_t *second) {
  double least = -1;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = i + 1; j < n; j++) {
      Labels next[MAX_TERMS], all = set[i] | set[j];
      uint32_t m = 0, x, y;
      for (uint32_t k = 0; k < n; k++)
        if (k != i && k != j) next[m++] = set[k];
      next[m++] = all & wanted_of(set, n, i, j, result);
      double cost = cost_of(e, all);
      if (m > 1 && n <= EXHAUSTIVE) cost += best_pair(e, next, m, result, &x, &y);
      if (least < 0 || cost < least) least = cost, *first = i, *second = j;
    }
  return least;
}

static Term product_of_all(Einsum *e) {
  Labels set[MAX_TERMS], result = labels_of(&e->result);
  uint32_t n = e->n_terms, i = 0, j = 1;
  while (n > 1 && !e->fails) {
    for (uint32_t k = 0; k < n; k++) set[k] = labels_of(&e->term[k]);
    best_pair(e, set, n, result, &i, &j);
    e->term[i] = contracted(e, &e->term[i], &e->term[j], wanted_of(set, n, i, j, result));
    memmove(&e->term[j], &e->term[j + 1], (n - j - 1) * sizeof *e->term);
    n--;
  }
  return e->fails ? e->term[0] : summed(e, &e->term[0], result);
}

// Labels of the result that no operand has left stood for axes of size 1.
static tn_tensor in_order(Einsum *e, const Term *t) {
  Term own = {.n = 0};
  Dim dims[MAX_RANK];
  take(&e->result, labels_of(t), &own);
  Term y = permuted(e, t, own.label);
  for (uint32_t k = 0; k < e->result.n; k++) dims[k] = e->size[e->result.label[k]];
  if (e->fails || y.n == e->result.n) return y.t;
  return fe_reshape(y.t, dims, e->result.n, e->at);
}

static tn_tensor lowered(Einsum *e) {
  if (!read_equation(e)) return fe_poison(e->f);
  for (uint32_t k = 0; k < e->n_terms && !e->fails; k++) {
    e->term[k] = diagonals(e, &e->term[k]);
    if (!e->fails) e->term[k] = without_ones(e, &e->term[k]);
  }
  Term y = e->fails ? e->term[0] : product_of_all(e);
  tn_tensor z = e->fails ? fe_poison(e->f) : in_order(e, &y);
  return fe_ok(z) && z.v == y.t.v && e->n_terms == 1 ? fe_same(z, e->at) : z;
}

tn_tensor tn_einsum(const char *equation, const tn_tensor *a, uint32_t n, tn_site at) {
  tn_function *f = NULL;
  if (!a || !n || !fe_join(a, n, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Einsum e = {.f = f, .at = at, .equation = equation ? equation : "", .n_terms = n};
  if (n > MAX_TERMS) {
    fe_error(f->p, E_ARGUMENT, at, "einsum takes at most %d operands, not %u", (int)MAX_TERMS, n);
    return fe_poison(f);
  }
  for (uint32_t k = 0; k < n; k++) e.term[k].t = a[k];
  tn_tensor y = lowered(&e);
  return fe_ok(y) ? fe_made(y, at) : fe_poison(f);
}
