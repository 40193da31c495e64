// Interning: strings, dims, shapes and source locations. Equal things have equal indices, so comparing is comparing
// integers.
#include "ir/intern.h"
#include "ir/ir.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint32_t *slot;  // index + 1; 0: free
  uint32_t n, cap;
} Table;

typedef struct {
  const char *text;
  uint64_t hash;
  uint32_t len;
} StrEntry;
typedef struct {
  uint32_t first, n;  // in Interner.shape_dims
} ShapeEntry;
typedef struct {
  Str file, module, call;
  uint32_t line, checkpoint;
} LocEntry;

typedef struct Interner {
  Table strs, dims, shapes, locs;
  StrEntry *str;
  uint32_t n_str, cap_str;
  DimInfo *dim;
  uint32_t n_dim, cap_dim;
  ShapeEntry *shape;
  uint32_t n_shape, cap_shape;
  Dim *shape_dims;
  uint32_t n_shape_dims, cap_shape_dims;
  LocEntry *loc;
  uint32_t n_loc, cap_loc;
} Interner;

typedef bool SameFn(const Interner *in, uint32_t index, const void *key);
typedef uint64_t HashFn(const Interner *in, uint32_t index);

static void rehash(Prog *p, Table *t, HashFn *hash) {
  uint32_t cap = t->cap ? t->cap * 2 : 64;
  uint32_t *slot = rt_alloc(p->mem, cap * sizeof *slot);
  for (uint32_t k = 0; k < t->cap; k++) {
    if (!t->slot[k]) continue;
    uint32_t at = (uint32_t)hash(p->in, t->slot[k] - 1) & (cap - 1);
    while (slot[at]) at = (at + 1) & (cap - 1);
    slot[at] = t->slot[k];
  }
  t->slot = slot;
  t->cap = cap;
}

// The slot that holds the key, or the free one where it belongs.
static uint32_t *find_slot(const Interner *in, const Table *t, uint64_t h, SameFn *same, const void *key) {
  uint32_t at = (uint32_t)h & (t->cap - 1);
  while (t->slot[at] && !same(in, t->slot[at] - 1, key)) at = (at + 1) & (t->cap - 1);
  return &t->slot[at];
}

static uint32_t *slot_for(Prog *p, Table *t, uint64_t h, SameFn *same, HashFn *hash, const void *key) {
  if (2 * (t->n + 1) > t->cap) rehash(p, t, hash);
  return find_slot(p->in, t, h, same, key);
}

// ---- strings
static uint64_t hash_str(const Interner *in, uint32_t i) { return in->str[i].hash; }
static bool same_str(const Interner *in, uint32_t i, const void *key) {
  const StrEntry *k = key;
  return in->str[i].hash == k->hash && in->str[i].len == k->len && memcmp(in->str[i].text, k->text, k->len) == 0;
}

static Str intern_str(Prog *p, const char *s, size_t n, bool is_borrowed) {
  Interner *in = p->in;
  StrEntry key = {s, rt_hash(s, n, 1), (uint32_t)n};
  uint32_t *slot = slot_for(p, &in->strs, key.hash, same_str, hash_str, &key);
  if (*slot) return (Str){*slot - 1};
  if (!is_borrowed) key.text = rt_strndup(p->mem, s, n);
  *RT_PUSH(p->mem, in->str, in->n_str, in->cap_str) = key;
  *slot = in->n_str;
  in->strs.n++;
  return (Str){in->n_str - 1};
}

Str ir_strn(Prog *p, const char *s, size_t n) { return intern_str(p, s, n, false); }
Str ir_str_borrowed(Prog *p, const char *s, size_t n) { return intern_str(p, s, n, true); }

Str ir_str(Prog *p, const char *s) { return s ? ir_strn(p, s, strlen(s)) : (Str){0}; }
const char *ir_text(const Prog *p, Str s) { return p->in->str[s.i].text; }
size_t ir_text_size(const Prog *p, Str s) { return p->in->str[s.i].len; }
uint64_t ir_text_hash(const Prog *p, Str s) { return p->in->str[s.i].hash; }
uint32_t ir_text_count(const Prog *p) { return p->in->n_str; }

// ---- locations
static uint64_t hash_loc(const Interner *in, uint32_t i) { return rt_hash(&in->loc[i], sizeof in->loc[i], 2); }
static bool same_loc(const Interner *in, uint32_t i, const void *key) {
  const LocEntry *k = key;
  const LocEntry *l = &in->loc[i];
  return l->file.i == k->file.i && l->module.i == k->module.i && l->call.i == k->call.i && l->line == k->line &&
         l->checkpoint == k->checkpoint;
}

static Loc intern_loc(Prog *p, LocEntry key) {
  Interner *in = p->in;
  uint32_t *slot = slot_for(p, &in->locs, rt_hash(&key, sizeof key, 2), same_loc, hash_loc, &key);
  if (*slot) return (Loc){*slot - 1};
  *RT_PUSH(p->mem, in->loc, in->n_loc, in->cap_loc) = key;
  *slot = in->n_loc;
  in->locs.n++;
  return (Loc){in->n_loc - 1};
}

Loc ir_loc(Prog *p, const char *file, uint32_t line) { return ir_loc_in(p, file, line, NULL); }

Loc ir_loc_in(Prog *p, const char *file, uint32_t line, const char *module) {
  return ir_loc_of_call(p, file, line, module, NULL);
}

Loc ir_loc_of_call(Prog *p, const char *file, uint32_t line, const char *module, const char *call) {
  if (!file) return (Loc){0};
  return intern_loc(p, (LocEntry){ir_str(p, file), ir_str(p, module), ir_str(p, call), line, 0});
}

Loc ir_loc_within(Prog *p, Loc l, uint32_t checkpoint) {
  LocEntry key = p->in->loc[l.i];
  if (key.checkpoint == checkpoint) return l;
  key.checkpoint = checkpoint;
  return intern_loc(p, key);
}

const char *ir_loc_file(const Prog *p, Loc l) {
  const LocEntry *e = &p->in->loc[l.i];
  return e->file.i ? ir_text(p, e->file) : NULL;
}
uint32_t ir_loc_line(const Prog *p, Loc l) { return p->in->loc[l.i].line; }
const char *ir_loc_module(const Prog *p, Loc l) { return ir_text(p, p->in->loc[l.i].module); }
uint32_t ir_loc_checkpoint(const Prog *p, Loc l) { return p->in->loc[l.i].checkpoint; }
const char *ir_loc_call(const Prog *p, Loc l) { return ir_text(p, p->in->loc[l.i].call); }

void ir_loc_text(const Prog *p, Loc l, RtText *out) {
  if (!l.i) return;
  rt_text_add(out, "%s:%u", ir_loc_file(p, l), ir_loc_line(p, l));
  if (*ir_loc_module(p, l)) rt_text_add(out, " in %s", ir_loc_module(p, l));
}

// ---- dims
static bool same_dim(const Interner *in, uint32_t i, const void *key) {
  const DimInfo *d = &in->dim[i], *k = key;
  if (d->kind != k->kind) return false;
  if (d->kind == DIM_CONST) return d->value == k->value;
  if (d->kind == DIM_SYM) return d->name.i == k->name.i;
  return d->a.i == k->a.i && d->b.i == k->b.i;
}
static uint64_t hash_dim_info(const DimInfo *d) {
  uint64_t key[3] = {d->kind, 0, 0};
  if (d->kind == DIM_CONST) key[1] = (uint64_t)d->value;
  else if (d->kind == DIM_SYM) key[1] = d->name.i;
  else key[1] = d->a.i, key[2] = d->b.i;
  return rt_hash(key, sizeof key, 3);
}
static uint64_t hash_dim(const Interner *in, uint32_t i) { return hash_dim_info(&in->dim[i]); }

static Dim intern_dim(Prog *p, DimInfo key) {
  Interner *in = p->in;
  uint32_t *slot = slot_for(p, &in->dims, hash_dim_info(&key), same_dim, hash_dim, &key);
  if (*slot) return (Dim){*slot - 1};
  *RT_PUSH(p->mem, in->dim, in->n_dim, in->cap_dim) = key;
  *slot = in->n_dim;
  in->dims.n++;
  return (Dim){in->n_dim - 1};
}

Dim ir_dim(Prog *p, int64_t value) { return intern_dim(p, (DimInfo){.kind = DIM_CONST, .value = value, .slot = -1}); }

void ir_dim_computed_at(Prog *p, Dim d, Loc loc) {
  if (!p->in->dim[d.i].loc.i) p->in->dim[d.i].loc = loc;
}

Dim ir_dim_find(const Prog *p, const char *name) {
  for (uint32_t k = 0; k < p->n_syms; k++)
    if (strcmp(ir_text(p, p->in->dim[p->syms[k].i].name), name) == 0) return p->syms[k];
  return (Dim){0};
}

Dim ir_dim_sym(Prog *p, const char *name, int64_t bound) {
  Dim old = ir_dim_find(p, name);
  if (old.i) return ir_dim_info(p, old)->value == bound ? old : (Dim){0};
  Dim d = intern_dim(
      p, (DimInfo){.kind = DIM_SYM, .name = ir_str(p, name), .value = bound, .fit = bound, .slot = (int32_t)p->n_syms});
  *RT_PUSH(p->mem, p->syms, p->n_syms, p->cap_syms) = d;
  return d;
}

Dim ir_dim_within(Prog *p, Dim base, int64_t fit) {
  DimInfo d = *ir_dim_info(p, p->syms[ir_dim_info(p, base)->slot]);
  if (fit >= d.value) return p->syms[d.slot];
  d.name = ir_str(p, rt_printf(p->mem, "%s.%lld", ir_text(p, d.name), (long long)fit));
  d.fit = fit;
  return intern_dim(p, d);
}

const DimInfo *ir_dim_info(const Prog *p, Dim d) { return &p->in->dim[d.i]; }
bool ir_dim_exists(const Prog *p, Dim d) { return d.i && d.i < p->in->n_dim; }
bool ir_dim_is_const(const Prog *p, Dim d) { return p->in->dim[d.i].kind == DIM_CONST; }
bool ir_dim_is_one(const Prog *p, Dim d) { return ir_dim_is_const(p, d) && p->in->dim[d.i].value == 1; }

// Sizes saturate far above anything that can be allocated, so that products of bounds never wrap.
static const int64_t HUGE_SIZE = INT64_C(1) << 56;
static int64_t mul_sat(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) r = (a < 0) == (b < 0) ? HUGE_SIZE : -HUGE_SIZE;
  return r > HUGE_SIZE ? HUGE_SIZE : r < -HUGE_SIZE ? -HUGE_SIZE : r;
}
static int64_t add_sat(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) r = a > 0 ? HUGE_SIZE : -HUGE_SIZE;
  return r > HUGE_SIZE ? HUGE_SIZE : r < -HUGE_SIZE ? -HUGE_SIZE : r;
}
// Rounded down. Dividing by a size that is 0 gives 0: a run refuses such a size earlier.
static int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Sums and products have one form, so that equal ones are equal dims and text reads back as the same dim: flat, nested
// to the left, parts in an order that depends only on what they are (never on when they were made), the constant last,
// and each part of a sum once, with its factor: b*2+a+b+1 is a+b*3+1. What divides all parts of a sum is a factor in
// front of it, and is positive: a*4-(a-b)*2-6 is (a+b-3)*2.
typedef struct {
  Dim rest;
  int64_t factor;
} DimPart;
typedef struct {
  DimPart *v;
  uint32_t n, cap;
  int64_t constant;
} DimParts;

static int sign(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int compare_dims(const Prog *p, Dim a, Dim b) {
  if (a.i == b.i) return 0;
  const DimInfo *x = ir_dim_info(p, a), *y = ir_dim_info(p, b);
  if (x->kind != y->kind) return sign(x->kind, y->kind);
  if (x->kind == DIM_CONST) return sign(x->value, y->value);
  if (x->kind == DIM_SYM) return sign(x->slot, y->slot);
  int first = compare_dims(p, x->a, y->a);
  return first ? first : compare_dims(p, x->b, y->b);
}

static void add_part(Prog *p, DimParts *parts, Dim rest, int64_t factor) {
  uint32_t at = parts->n;
  *RT_PUSH(p->mem, parts->v, parts->n, parts->cap) = (DimPart){rest, factor};
  for (; at > 0 && compare_dims(p, rest, parts->v[at - 1].rest) < 0; at--) parts->v[at] = parts->v[at - 1];
  parts->v[at] = (DimPart){rest, factor};
}

static void add_factors(Prog *p, DimParts *parts, Dim d) {
  DimInfo i = *ir_dim_info(p, d);
  if (i.kind == DIM_CONST) {
    parts->constant = mul_sat(parts->constant, i.value);
  } else if (i.kind == DIM_MUL) {
    add_factors(p, parts, i.a);
    add_factors(p, parts, i.b);
  } else {
    add_part(p, parts, d, 1);
  }
}

static void add_term(Prog *p, DimParts *parts, Dim rest, int64_t factor) {
  for (uint32_t k = 0; k < parts->n; k++) {
    if (parts->v[k].rest.i != rest.i) continue;
    parts->v[k].factor = add_sat(parts->v[k].factor, factor);
    return;
  }
  add_part(p, parts, rest, factor);
}

static void add_terms(Prog *p, DimParts *parts, Dim d, int64_t factor) {
  DimInfo i = *ir_dim_info(p, d);
  if (i.kind == DIM_CONST) {
    parts->constant = add_sat(parts->constant, mul_sat(factor, i.value));
  } else if (i.kind == DIM_ADD) {
    add_terms(p, parts, i.a, factor);
    add_terms(p, parts, i.b, factor);
  } else if (i.kind == DIM_MUL && ir_dim_is_const(p, i.b)) {
    add_terms(p, parts, i.a, mul_sat(factor, ir_dim_info(p, i.b)->value));
  } else {
    add_term(p, parts, d, factor);
  }
}

static int64_t common_factor(const DimParts *parts) {
  int64_t g = parts->constant < 0 ? -parts->constant : parts->constant;
  for (uint32_t k = 0; k < parts->n; k++) {
    int64_t x = parts->v[k].factor < 0 ? -parts->v[k].factor : parts->v[k].factor;
    while (x) {
      int64_t rest = g % x;
      g = x, x = rest;
    }
  }
  return g;
}

static Dim product_of(Prog *p, Dim d, int64_t factor) {
  return factor == 1 ? d : intern_dim(p, (DimInfo){.kind = DIM_MUL, .a = d, .b = ir_dim(p, factor), .slot = -1});
}

static Dim sum_of(Prog *p, const DimParts *parts) {
  Dim d = {0};
  uint32_t n = parts->constant != 0;
  for (uint32_t k = 0; k < parts->n; k++) n += parts->v[k].factor != 0;
  int64_t g = n > 1 ? common_factor(parts) : 1;
  for (uint32_t k = 0; k < parts->n; k++) {
    if (parts->v[k].factor == 0) continue;
    Dim term = ir_dim_mul(p, parts->v[k].rest, ir_dim(p, parts->v[k].factor / g));
    d = d.i ? intern_dim(p, (DimInfo){.kind = DIM_ADD, .a = d, .b = term, .slot = -1}) : term;
  }
  if (!d.i) return ir_dim(p, parts->constant);
  if (parts->constant)
    d = intern_dim(p, (DimInfo){.kind = DIM_ADD, .a = d, .b = ir_dim(p, parts->constant / g), .slot = -1});
  return product_of(p, d, g);
}

Dim ir_dim_mul(Prog *p, Dim a, Dim b) {
  DimParts parts = {.constant = 1};
  add_factors(p, &parts, a);
  add_factors(p, &parts, b);
  if (parts.constant == 0 || parts.n == 0) return ir_dim(p, parts.constant);
  if (parts.n == 1 && ir_dim_info(p, parts.v[0].rest)->kind == DIM_ADD) {
    DimParts sum = {0};
    add_terms(p, &sum, parts.v[0].rest, parts.constant);
    return sum_of(p, &sum);
  }
  Dim d = parts.v[0].rest;
  for (uint32_t k = 1; k < parts.n; k++)
    d = intern_dim(p, (DimInfo){.kind = DIM_MUL, .a = d, .b = parts.v[k].rest, .slot = -1});
  return product_of(p, d, parts.constant);
}

Dim ir_dim_add(Prog *p, Dim a, Dim b) {
  DimParts parts = {0};
  add_terms(p, &parts, a, 1);
  add_terms(p, &parts, b, 1);
  return sum_of(p, &parts);
}

Dim ir_dim_sub(Prog *p, Dim a, Dim b) { return ir_dim_add(p, a, ir_dim_mul(p, b, ir_dim(p, -1))); }

// Multiples of a constant divisor leave the quotient: (a*4+b+3)/2 is a*2+(b+3)/2, (a*2+1)/2 is a.
static Dim div_by_constant(Prog *p, Dim a, int64_t by) {
  DimParts all = {0}, whole = {0}, rest = {0};
  add_terms(p, &all, a, 1);
  for (uint32_t k = 0; k < all.n; k++) {
    DimPart t = all.v[k];
    bool divides = t.factor % by == 0;
    add_term(p, divides ? &whole : &rest, t.rest, divides ? t.factor / by : t.factor);
  }
  whole.constant = floor_div(all.constant, by);
  rest.constant = all.constant - whole.constant * by;
  Dim left = sum_of(p, &rest);
  if (ir_dim_is_const(p, left)) return sum_of(p, &whole);
  left = intern_dim(p, (DimInfo){.kind = DIM_DIV, .a = left, .b = ir_dim(p, by), .slot = -1});
  return ir_dim_add(p, sum_of(p, &whole), left);
}

Dim ir_dim_div(Prog *p, Dim a, Dim b) {
  int64_t by = ir_dim_is_const(p, b) ? ir_dim_info(p, b)->value : 0;
  if (ir_dim_is_const(p, b) && by <= 0) return (Dim){0};
  if (by) return div_by_constant(p, a, by);
  if (ir_dim_is_const(p, a) && ir_dim_info(p, a)->value == 0) return a;
  return intern_dim(p, (DimInfo){.kind = DIM_DIV, .a = a, .b = b, .slot = -1});
}

Dim ir_dim_ceil_div(Prog *p, Dim a, Dim b) {
  return ir_dim_div(p, ir_dim_add(p, a, ir_dim_sub(p, b, ir_dim(p, 1))), b);
}

// ---- the larger and the smaller one, in one order
static Dim extreme(Prog *p, DimKind kind, Dim a, Dim b) {
  Dim ahead = ir_dim_sub(p, a, b);
  bool a_is_larger = ir_dim_least(p, ahead) >= 0;
  if (a_is_larger || ir_dim_most(p, ahead) <= 0) return a_is_larger == (kind == DIM_MAX) ? a : b;
  bool swaps = compare_dims(p, a, b) > 0;
  return intern_dim(p, (DimInfo){.kind = kind, .a = swaps ? b : a, .b = swaps ? a : b, .slot = -1});
}

Dim ir_dim_max(Prog *p, Dim a, Dim b) { return extreme(p, DIM_MAX, a, b); }
Dim ir_dim_min(Prog *p, Dim a, Dim b) { return extreme(p, DIM_MIN, a, b); }

static bool take_factor(DimParts *parts, Dim rest) {
  for (uint32_t k = 0; k < parts->n; k++) {
    if (parts->v[k].rest.i != rest.i) continue;
    for (uint32_t j = k + 1; j < parts->n; j++) parts->v[j - 1] = parts->v[j];
    parts->n--;
    return true;
  }
  return false;
}

Dim ir_dim_exact_div(Prog *p, Dim a, Dim b) {
  DimParts of = {.constant = 1}, by = {.constant = 1};
  add_factors(p, &of, a);
  add_factors(p, &by, b);
  if (by.constant == 0 || of.constant % by.constant) return (Dim){0};
  for (uint32_t k = 0; k < by.n; k++)
    if (!take_factor(&of, by.v[k].rest)) return (Dim){0};
  Dim d = ir_dim(p, of.constant / by.constant);
  for (uint32_t k = 0; k < of.n; k++) d = ir_dim_mul(p, d, of.v[k].rest);
  return d;
}

// ---- what values a dim can have, by the bounds of its parts, or by what fits in this plan
typedef struct {
  int64_t least, most;
} DimRange;

static DimRange corners(DimRange x, DimRange y, int64_t (*of)(int64_t, int64_t)) {
  int64_t v[] = {of(x.least, y.least), of(x.least, y.most), of(x.most, y.least), of(x.most, y.most)};
  DimRange r = {v[0], v[0]};
  for (int k = 1; k < 4; k++) {
    if (v[k] < r.least) r.least = v[k];
    if (v[k] > r.most) r.most = v[k];
  }
  return r;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static DimRange range_of(const Prog *p, Dim d, bool fit) {
  const DimInfo *i = ir_dim_info(p, d);
  if (i->kind == DIM_CONST) return (DimRange){i->value, i->value};
  if (i->kind == DIM_SYM) return (DimRange){0, fit ? i->fit : i->value};
  DimRange x = range_of(p, i->a, fit), y = range_of(p, i->b, fit);
  if (i->kind == DIM_MUL) return corners(x, y, mul_sat);
  if (i->kind == DIM_ADD) return (DimRange){add_sat(x.least, y.least), add_sat(x.most, y.most)};
  if (i->kind == DIM_MAX) return (DimRange){larger(x.least, y.least), larger(x.most, y.most)};
  if (i->kind == DIM_MIN) return (DimRange){smaller(x.least, y.least), smaller(x.most, y.most)};
  if (y.least < 1) y.least = 1;  // a run refuses to divide by what is not positive
  if (y.most < 1) y.most = 1;
  return corners(x, y, floor_div);
}

// A run refuses sizes below 0, and products of which a factor is (ir/passes/checks/size_checks.c): two of them make no large one.
static int64_t most_of(const Prog *p, Dim d, bool fit) {
  const DimInfo *i = ir_dim_info(p, d);
  bool is_product = i->kind == DIM_MUL && !(ir_dim_is_const(p, i->b) && ir_dim_info(p, i->b)->value < 0);
  if (is_product) return mul_sat(most_of(p, i->a, fit), most_of(p, i->b, fit));
  int64_t most = range_of(p, d, fit).most;
  return most < 0 && !ir_dim_is_const(p, d) ? 0 : most;
}

int64_t ir_dim_bound(const Prog *p, Dim d) { return most_of(p, d, false); }
int64_t ir_dim_fit(const Prog *p, Dim d) { return most_of(p, d, true); }
int64_t ir_dim_most(const Prog *p, Dim d) { return range_of(p, d, false).most; }
int64_t ir_dim_least(const Prog *p, Dim d) { return range_of(p, d, false).least; }

int64_t ir_dim_eval(const Prog *p, Dim d, const int64_t *slots) {
  const DimInfo *i = ir_dim_info(p, d);
  if (i->kind == DIM_CONST) return i->value;
  if (i->kind == DIM_SYM) return slots[i->slot];
  int64_t a = ir_dim_eval(p, i->a, slots), b = ir_dim_eval(p, i->b, slots);
  switch ((DimKind)i->kind) {
  case DIM_MUL: return mul_sat(a, b);
  case DIM_DIV: return floor_div(a, b);
  case DIM_MAX: return larger(a, b);
  case DIM_MIN: return smaller(a, b);
  default: return add_sat(a, b);
  }
}

// The factor of a term: of n*-2 it is -2, of n 1. *rest: the term without it.
static int64_t factor_of(const Prog *p, Dim term, Dim *rest) {
  const DimInfo *i = ir_dim_info(p, term);
  *rest = term;
  if (i->kind == DIM_CONST) return i->value;
  if (i->kind != DIM_MUL || !ir_dim_is_const(p, i->b)) return 1;
  *rest = i->a;
  return ir_dim_info(p, i->b)->value;
}

static void dim_text(const Prog *p, Dim d, RtText *out, bool in_product);

// Prints a term of a sum with its sign. A positive first term has no sign; a negative one has a 0 before it.
static void term_text(const Prog *p, Dim d, RtText *out, bool is_first) {
  Dim rest;
  int64_t factor = factor_of(p, d, &rest);
  if (!is_first && factor >= 0) rt_text_put(out, "+", 1);
  if (factor >= 0) {
    dim_text(p, d, out, true);
    return;
  }
  rt_text_add(out, is_first ? "0-" : "-");
  if (ir_dim_is_const(p, d)) {
    rt_text_add(out, "%lld", -(long long)factor);
    return;
  }
  dim_text(p, rest, out, true);
  if (factor != -1) rt_text_add(out, "*%lld", -(long long)factor);
}

static void sum_text(const Prog *p, Dim d, RtText *out) {
  const DimInfo *i = ir_dim_info(p, d);
  if (i->kind != DIM_ADD) {
    term_text(p, d, out, true);
    return;
  }
  sum_text(p, i->a, out);
  term_text(p, i->b, out, false);
}

// The right operand of a product or a quotient, in parentheses where it is of that kind or a quotient.
static void operand_text(const Prog *p, Dim d, RtText *out, DimKind kind) {
  DimKind own = (DimKind)ir_dim_info(p, d)->kind;
  bool parens = own == kind || own == DIM_DIV;
  if (parens) rt_text_put(out, "(", 1);
  dim_text(p, d, out, !parens);
  if (parens) rt_text_put(out, ")", 1);
}

static void dim_text(const Prog *p, Dim d, RtText *out, bool in_product) {
  const DimInfo *i = ir_dim_info(p, d);
  Dim rest;
  bool is_sum = i->kind == DIM_ADD || factor_of(p, d, &rest) < 0;
  if (is_sum) {
    if (in_product) rt_text_put(out, "(", 1);
    sum_text(p, d, out);
    if (in_product) rt_text_put(out, ")", 1);
    return;
  }
  switch (i->kind) {
  case DIM_CONST: rt_text_add(out, "%lld", (long long)i->value); break;
  case DIM_SYM: rt_text_add(out, "%s", ir_text(p, i->name)); break;
  case DIM_MUL:
    dim_text(p, i->a, out, true);
    rt_text_put(out, "*", 1);
    operand_text(p, i->b, out, DIM_DIV);
    break;
  case DIM_MAX:
  case DIM_MIN:
    rt_text_add(out, "%s(", i->kind == DIM_MAX ? "max" : "min");
    dim_text(p, i->a, out, false);
    rt_text_put(out, ",", 1);
    dim_text(p, i->b, out, false);
    rt_text_put(out, ")", 1);
    break;
  default:  // a/b/c is (a/b)/c, and a/(b*c) needs its parentheses
    dim_text(p, i->a, out, true);
    rt_text_put(out, "/", 1);
    operand_text(p, i->b, out, DIM_MUL);
  }
}
void ir_dim_text(const Prog *p, Dim d, RtText *out) { dim_text(p, d, out, false); }

// ---- shapes
typedef struct {
  const Dim *dims;
  uint32_t n;
} ShapeKey;
static bool same_shape(const Interner *in, uint32_t i, const void *key) {
  const ShapeKey *k = key;
  return in->shape[i].n == k->n && (!k->n || !memcmp(in->shape_dims + in->shape[i].first, k->dims, k->n * sizeof(Dim)));
}
static uint64_t hash_dims(const Dim *d, uint32_t n) { return rt_hash(d, n * sizeof *d, 4); }
static uint64_t hash_shape(const Interner *in, uint32_t i) {
  return hash_dims(in->shape_dims + in->shape[i].first, in->shape[i].n);
}

Shape ir_shape(Prog *p, const Dim *dims, uint32_t n) {
  if (n == 0) return (Shape){0};
  Interner *in = p->in;
  ShapeKey key = {dims, n};
  uint32_t *slot = slot_for(p, &in->shapes, hash_dims(dims, n), same_shape, hash_shape, &key);
  if (*slot) return (Shape){*slot - 1};
  Dim *copy = rt_alloc(p->mem, n * sizeof *copy);  // dims may point into shape_dims, which grows below
  memcpy(copy, dims, n * sizeof *copy);
  uint32_t first = in->n_shape_dims;
  for (uint32_t k = 0; k < n; k++) *RT_PUSH(p->mem, in->shape_dims, in->n_shape_dims, in->cap_shape_dims) = copy[k];
  *RT_PUSH(p->mem, in->shape, in->n_shape, in->cap_shape) = (ShapeEntry){first, n};
  *slot = in->n_shape;
  in->shapes.n++;
  return (Shape){in->n_shape - 1};
}

Shape ir_shape_ints(Prog *p, const int64_t *v, uint32_t n) {
  Dim *d = rt_alloc(p->mem, (n + 1) * sizeof *d);
  for (uint32_t k = 0; k < n; k++) d[k] = ir_dim(p, v[k]);
  return ir_shape(p, d, n);
}

uint32_t ir_rank(const Prog *p, Shape s) { return p->in->shape[s.i].n; }
const Dim *ir_dims(const Prog *p, Shape s) { return p->in->shape_dims + p->in->shape[s.i].first; }
Dim ir_dim_at(const Prog *p, Shape s, uint32_t axis) { return ir_dims(p, s)[axis]; }
int64_t ir_list_at(const Prog *p, Shape s, uint32_t k) { return ir_dim_info(p, ir_dim_at(p, s, k))->value; }

bool ir_shape_is_const(const Prog *p, Shape s) {
  for (uint32_t k = 0; k < ir_rank(p, s); k++)
    if (!ir_dim_is_const(p, ir_dim_at(p, s, k))) return false;
  return true;
}

int64_t ir_shape_bound(const Prog *p, Shape s) {
  int64_t n = 1;
  for (uint32_t k = 0; k < ir_rank(p, s); k++) n = mul_sat(n, ir_dim_bound(p, ir_dim_at(p, s, k)));
  return n;
}

int64_t ir_shape_eval(const Prog *p, Shape s, const int64_t *slots) {
  int64_t n = 1;
  for (uint32_t k = 0; k < ir_rank(p, s); k++) n = mul_sat(n, ir_dim_eval(p, ir_dim_at(p, s, k), slots));
  return n;
}

Dim ir_shape_numel(Prog *p, Shape s) {
  Dim n = ir_dim(p, 1);
  for (uint32_t k = 0; k < ir_rank(p, s); k++) n = ir_dim_mul(p, n, ir_dim_at(p, s, k));
  return n;
}

static int64_t type_bytes(const Prog *p, DType t, Shape s, int64_t (*size)(const Prog *, Dim)) {
  if (t != DT_LAYOUT) {
    int64_t n = ir_dtype_bytes[t];
    for (uint32_t k = 0; k < ir_rank(p, s); k++) n = mul_sat(n, size(p, ir_dim_at(p, s, k)));
    return n;
  }
  int64_t batch = ir_dim_bound(p, ir_dim_at(p, s, 0)), time = ir_dim_bound(p, ir_dim_at(p, s, 1));
  return mul_sat(TN_LAYOUT_WORDS(time, batch), 4);
}

int64_t ir_type_bytes(const Prog *p, DType t, Shape s) { return type_bytes(p, t, s, ir_dim_fit); }
int64_t ir_type_bound(const Prog *p, DType t, Shape s) { return type_bytes(p, t, s, ir_dim_bound); }

void ir_shape_bounds_text(const Prog *p, Shape s, RtText *out) {
  for (uint32_t k = 0; k < ir_rank(p, s); k++) {
    Dim d = ir_dim_at(p, s, k);
    if (k) rt_text_add(out, " x ");
    if (!ir_dim_is_const(p, d)) ir_dim_text(p, d, out);
    rt_text_add(out, "%s%lld", ir_dim_is_const(p, d) ? "" : " <= ", (long long)ir_dim_fit(p, d));
  }
}

void ir_shape_text(const Prog *p, Shape s, RtText *out) {
  rt_text_put(out, "[", 1);
  for (uint32_t k = 0; k < ir_rank(p, s); k++) {
    if (k) rt_text_put(out, ",", 1);
    ir_dim_text(p, ir_dim_at(p, s, k), out);
  }
  rt_text_put(out, "]", 1);
}

Prog *ir_prog_new(RtArena *mem, const char *name) {
  Prog *p = rt_alloc(mem, sizeof *p);
  p->mem = mem;
  p->diags.mem = mem;
  p->in = rt_alloc(mem, sizeof *p->in);
  Interner *in = p->in;
  ir_strn(p, "", 0);  // index 0 of each table is "none"
  *RT_PUSH(mem, in->loc, in->n_loc, in->cap_loc) = (LocEntry){0};
  *RT_PUSH(mem, in->shape, in->n_shape, in->cap_shape) = (ShapeEntry){0, 0};
  *RT_PUSH(mem, in->dim, in->n_dim, in->cap_dim) = (DimInfo){.kind = DIM_CONST, .value = 0, .slot = -1};
  p->name = ir_str(p, name);
  p->next_id = 1;
  p->target = (TargetFacts)IR_TARGET_FACTS;
  return p;
}

uint32_t ir_new_streams(Prog *p, uint32_t n) {
  uint32_t first = p->next_id;
  if (n > UINT32_MAX - first) return 0;
  p->next_id += n;
  return first;
}
