// Sweeps of a row: loops over its vectors that compute nodes, complete reductions, and store.
//
// The order of a sum does not depend on the number of lanes. Elements go in turn to `wide` groups of 16 partial sums, and those
// after the last whole round to the first group; groups are added by halves, then the 16 sums by halves. A long row is summed
// by blocks (cascade.h). Where a vector has fewer than 16 lanes, the partial sums stay in registers if that makes short code; else
// they are in memory, and one vector of them is loaded at a time.
//
// All stores of a row are in its last sweep, or in the last one that reads memory, and those of a vector come after all its
// loads: results may alias operands that are read elementwise.
#include "codegen/math/primitives.h"
#include "codegen/reduce/cascade.h"
#include "codegen/reduce/row.h"

#include <math.h>
#include <string.h>

// LIGHT, HEAVY: operations per vector, of sums all that they are made of: up to LIGHT the loop is unrolled by 4, above HEAVY not at
// all, between by 2.
enum {
  MAX_PARTS = 4,
  MAX_SUMS = MAX_PARTS * MAX_CARRY,  // vectors of partial sums
  LIGHT = 6,
  HEAVY = 24,
  WIDEST = 4,       // vectors that light work sums apart
  FEW_VECTORS = 4,  // of light work, which stand in no loop
  REGISTERS = 16,   // vectors of partial sums that stay in registers
  AHEAD = 64        // elements from a vector of strided rows to what is prefetched beside it (146)
};

// ---- one vector
static V f32_at(Row *r, V base, V i) { return cg_at(r->c, r->c->f32, base, i); }

bool cg_row_is_interleaving(const Row *r) { return r->row_per_lane && !r->strided; }

// Address of the current vector in a strided row.
static V strided_at(Row *r, V row) { return f32_at(r, row, cg_mul(r->c, r->i, r->stride)); }

// Address of the current vector in a row buffer.
static V buffer_at(Row *r, V buffer) {
  return f32_at(r, buffer, r->row_per_lane ? cg_mul(r->c, r->i, cg_i64(r->c, r->c->t->vl)) : r->i);
}

static V result_at(Row *r, Val v) { return f32_at(r, cg_ptr(r->c, v), cg_add(r->c, r->element, r->i)); }

static V load_buffered(Row *r, const RowNode *n) {
  if (n->in_result.i) return cg_load_masked(r->c, r->c->vf, result_at(r, n->in_result), r->mask);
  return cg_load(r->c, r->c->vf, buffer_at(r, n->buffer));
}

static void store_buffered(Row *r, const RowNode *n, V x) {
  if (n->in_result.i && r->mask) cg_store_masked(r->c, x, result_at(r, n->in_result), r->mask);
  else cg_store(r->c, x, n->in_result.i ? result_at(r, n->in_result) : buffer_at(r, n->buffer));
}

static V load(Row *r, const RowNode *n) {
  Cg *c = r->c;
  if (r->strided && cg_row_is_weight(&r->g, n->v)) return cg_splat(c, cg_get(c, c->f32, n->row, r->i));
  if (r->strided) {
    V at = strided_at(r, n->row);
    if (r->prefetches) cg_prefetch_l2(c, f32_at(r, at, cg_i64(c, AHEAD)));
    return cg_load_masked(c, c->vf, at, r->active);
  }
  if (r->row_per_lane && cg_row_is_dense(&r->g, n)) return cg_load(c, c->vf, buffer_at(r, n->row));
  V p = f32_at(r, n->row, r->i);
  if (r->row_per_lane) return cg_splat(c, cg_load(c, c->f32, p));
  return cg_load_masked(c, c->vf, p, r->mask);
}

// A vector has elements of one run, or of two.
static V load_run(Row *r, const RowNode *n) {
  Cg *c = r->c;
  int64_t length = n->run.length, vl = c->t->vl;
  V one = cg_i64(c, 1), number = cg_div(c, r->i, cg_i64(c, length)), next = cg_add(c, number, one);
  V first = cg_splat(c, cg_get(c, c->f32, n->row, number));
  if (length % vl == 0) return first;
  V left = cg_sub(c, cg_mul(c, next, cg_i64(c, length)), r->i), last = cg_i64(c, r->bound / length - 1);
  V second = cg_splat(c, cg_get(c, c->f32, n->row, cg_min(c, next, last)));
  return cg_select(c, cg_mask(c, left), first, second);
}

static V one_hot(Row *r, const RowNode *n) {
  Cg *c = r->c;
  V place = cg_row_at(r, n->arg[0])->scalar, is;
  if (r->row_per_lane) {
    is = cg_eq(c, place, cg_splat(c, r->i));
  } else {
    place = cg_isub(c, place, r->i);  // labels and rows are below 2^31
    place = cg_splat(c, cg_trunc(c, place, c->i32));
    is = cg_eq(c, place, cg_lane_numbers_of(c->i32, c->t->vl));
  }
  return cg_select(c, is, cg_splat(c, cg_f32(c, 1)), cg_splat(c, cg_f32(c, 0)));
}

static V element_numbers(Row *r) {
  Cg *c = r->c;
  V step = r->strided ? cg_mul(c, r->i, r->stride) : r->i;
  V first = cg_splat(c, cg_add(c, r->element, step)), lane = cg_lane_numbers(c);
  if (cg_row_is_interleaving(r)) lane = cg_imul(c, lane, cg_splat(c, r->size));
  return cg_iadd(c, first, lane);
}

// The value of node k for the current vector, in sweep s.
static V vector(Row *r, Node k, uint32_t s) {
  RowNode *n = cg_row_at(r, k);
  V arg[3] = {NULL};
  if (!n->elem && n->kind == NODE_PIVOT) return n->value;
  if (!n->elem) return r->row_per_lane ? n->scalar : cg_splat(r->c, n->scalar);
  if (n->stamp == r->stamp) return n->value;
  if (n->is_buffered && n->level < s) {
    n->value = load_buffered(r, n);
  } else if (n->kind == NODE_MEM) {
    n->value = load(r, n);
  } else if (n->kind == NODE_RUN) {
    n->value = load_run(r, n);
  } else if (n->kind == NODE_ONE_HOT) {
    n->value = one_hot(r, n);
  } else {
    for (uint32_t j = 0; j < n->n_args; j++) arg[j] = vector(r, n->arg[j], s);
    n->value = cg_row_compute(r, n, arg, element_numbers(r));
  }
  n->stamp = r->stamp;
  return n->value;
}

// x, or 0 if it is infinite, NaN or so large that differences from it, or their sum, could overflow where the
// sum of the elements does not. One number, loaded into all lanes, takes a branch that is never taken: a
// select would add latency.
static V usable_pivot(Row *r, V x) {
  Cg *c = r->c;
  if (r->row_per_lane) return cg_usable_pivots(c, x);
  V lanes = cg_splat(c, x), bits = cg_and(c, cg_bitcast(c, x, c->i32), cg_i32(c, INT32_MAX));
  V is_large = cg_icmp(c, LLVMIntUGE, bits, cg_i32(c, 0x72800000));  // 2^102
  for (If s = cg_when_carry(c, is_large, &lanes, 1); cg_then(&s);)
    lanes = cg_splat(c, cg_bitcast(c, cg_opaque(c, cg_i32(c, 0)), c->f32));
  return lanes;
}

// Element i of the row, where it has one: a number, or one of each row.
static V element_at(Row *r, RowNode *n, V i) {
  Cg *c = r->c;
  int64_t size;
  const RowNode *of = cg_row_at(r, n->arg[0]);
  bool is_there = cg_const_value(r->size, &size) && size > 0;
  if (of->kind == NODE_MEM && !r->row_per_lane && is_there) return cg_get(c, c->f32, of->row, i);
  r->i = i, r->mask = NULL;
  r->stamp++;
  if (!r->row_per_lane) cg_lanes_left(c, cg_min(c, cg_sub(c, r->size, i), cg_i64(c, c->t->vl)), 0, &r->mask);
  V x = vector(r, n->arg[0], n->level);
  return r->row_per_lane ? x : LLVMBuildExtractElement(c->b, x, cg_i32(c, 0), "");
}

static V size_of(Row *r, V x) { return cg_call_intrinsic(r->c, "llvm.fabs", (LLVMTypeRef[]){LLVMTypeOf(x)}, 1, &x, 1); }

V cg_row_pivot(Row *r, RowNode *n) {
  Cg *c = r->c;
  V active = r->active, mask = r->mask;
  if (r->strided) r->active = cg_mask(c, cg_min(c, r->n_rows, cg_mul(c, r->size, cg_i64(c, c->t->vl))));
  V least = element_at(r, n, cg_i64(c, 0));
  for (uint32_t k = 1; k < (uint32_t)n->num; k++) {
    V x = element_at(r, n, cg_pivot_place(c, k, r->size));
    V is_less = cg_fcmp(c, LLVMRealOLT, size_of(r, x), size_of(r, least));
    least = cg_select(c, is_less, x, least);
  }
  r->stamp++;
  r->active = active, r->mask = mask;
  n->value = usable_pivot(r, least);
  return r->row_per_lane ? n->value : LLVMBuildExtractElement(c->b, n->value, cg_i32(c, 0), "");
}

static V larger(Cg *c, V a, V b) { return cg_select(c, cg_fcmp(c, LLVMRealOGT, a, b), a, b); }

static V join(Row *r, const RowNode *n, V a, V b) {
  if (n->kind == NODE_TOP) return larger(r->c, b, a);
  return cg_primitive(r->c, n->kind == NODE_MAX ? OP_max : OP_add, (V[]){a, b});
}

static V add_vector(Row *r, const RowNode *n, uint32_t s, V acc) {
  Cg *c = r->c;
  V x = vector(r, n->arg[0], s), next;
  if (n->kind == NODE_DOT) next = cg_fma(c, x, vector(r, n->arg[1], s), acc);
  else next = join(r, n, acc, x);
  return r->mask ? cg_select(c, r->mask, next, acc) : next;
}

typedef struct {
  uint32_t number;
  Node red[MAX_CARRY];
  uint32_t n_red, wide;   // wide: unroll factor, each copy with accumulators of its own
  uint32_t lanes, parts;  // of a group of partial sums; vectors that hold them: [wide][parts][n_red]
  V memory;               // partial sums in memory: [n_red][wide][lanes]; NULL: none
} Sweep;

static void store_all(Row *r, uint32_t s) {
  Cg *c = r->c;
  Kernel k = *c->k;
  V *value = rt_alloc(c->mem, k.n * sizeof *value);
  for (uint32_t j = 0; j < k.n; j++) {
    Val v = {k.first + j};
    if (cg_row_is_stored(r, v) && cg_row_is_shaped(r, v)) value[j] = vector(r, cg_row_node_of(r, v), s);
  }
  for (uint32_t j = 0; j < r->columns.n; j++)
    cg_column_sum_add(&r->columns, j, r->i, vector(r, cg_row_summed(r, j), s), r->strided ? r->active : r->mask);
  for (uint32_t j = 0; j < k.n; j++) {
    if (!value[j]) continue;
    V row = cg_row_is_interleaving(r) ? NULL : f32_at(r, cg_ptr(c, (Val){k.first + j}), r->element);
    V p = r->strided ? strided_at(r, row) : r->row_per_lane ? buffer_at(r, r->interleaved[j]) : f32_at(r, row, r->i);
    V mask = r->strided ? r->active : r->mask;
    if (r->prefetches) cg_prefetch_write(c, f32_at(r, p, cg_i64(c, AHEAD)));
    mask ? cg_store_masked(c, value[j], p, mask) : cg_store(c, value[j], p);
  }
}

// Loop body for the vector at i; acc: one accumulator per reduction.
static void emit_vector(Row *r, const Sweep *s, V i, V mask, V *acc) {
  r->i = i, r->mask = mask;
  r->stamp++;
  for (uint32_t k = 1; k < r->g.n; k++) {
    RowNode *n = cg_row_at(r, k);
    if (!n->is_buffered || n->level != s->number) continue;
    V x = vector(r, k, s->number);
    store_buffered(r, n, x);
  }
  for (uint32_t k = 0; k < s->n_red; k++) acc[k] = add_vector(r, cg_row_at(r, s->red[k]), s->number, acc[k]);
  if (s->number == r->last) store_all(r, s->number);
}

// Elements of a row per vector.
static int64_t step_of(const Row *r) { return r->row_per_lane ? 1 : r->c->t->vl; }

// Vectors [lo, hi), n of them at once; acc: n groups of n_red. Few of them stand in no loop.
static void emit_span(Row *r, const Sweep *s, V lo, V hi, uint32_t n, V *acc) {
  Cg *c = r->c;
  int64_t step = step_of(r);
  if (cg_is_int(hi, 0) || lo == hi) return;
  int64_t first, end;
  if (cg_const_value(lo, &first) && cg_const_value(hi, &end) && s->wide == WIDEST &&
      end - first <= FEW_VECTORS * step) {
    for (uint32_t k = 0; first < end; first += step, k = (k + 1) % n)
      emit_vector(r, s, cg_i64(c, first), NULL, acc + k * s->n_red);
    return;
  }
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, n * step), acc, n * s->n_red); cg_next(&l);)
    for (uint32_t k = 0; k < n; k++) emit_vector(r, s, cg_add(c, l.i, cg_i64(c, k * step)), NULL, acc + k * s->n_red);
}

// ---- sums of a row
static bool is_sum(const RowNode *n) { return n->kind == NODE_SUM || n->kind == NODE_DOT; }

static void add_halves(Row *r, const RowNode *n, V *x, uint32_t count, bool by_lanes) {
  for (; count > 1; count /= 2)
    for (uint32_t j = 0; j < count / 2; j++)
      x[j] = by_lanes && !is_sum(n) ? cg_primitive(r->c, OP_max, (V[]){x[j], x[j + count / 2]})
                                    : join(r, n, x[j], x[j + count / 2]);
}

static void finish(Row *r, const Sweep *s, V *acc) {
  for (uint32_t k = 0; k < s->n_red; k++) {
    RowNode *n = cg_row_at(r, s->red[k]);
    V part[MAX_PARTS], group[4];
    for (uint32_t p = 0; p < s->parts; p++) {
      for (uint32_t w = 0; w < s->wide; w++) group[w] = acc[(w * s->parts + p) * s->n_red + k];
      add_halves(r, n, group, s->wide, false);
      part[p] = group[0];
    }
    add_halves(r, n, part, s->parts, true);
    if (r->row_per_lane) n->scalar = part[0];
    else n->scalar = is_sum(n) ? cg_reduce_add(r->c, part[0]) : cg_reduce_max(r->c, part[0]);
  }
}

// Partial sum `lane` of reduction k.
static V memory_at(Row *r, const Sweep *s, uint32_t k, V lane) {
  return f32_at(r, s->memory, cg_add(r->c, lane, cg_i64(r->c, (int64_t)k * s->wide * s->lanes)));
}

// All partial sums to memory, or from there.
static void move_sums(Row *r, const Sweep *s, V *acc, bool store) {
  Cg *c = r->c;
  for (uint32_t v = 0; v < s->wide * s->parts; v++)
    for (uint32_t k = 0; k < s->n_red; k++) {
      V at_v = memory_at(r, s, k, cg_i64(c, v * (int64_t)c->t->vl));
      if (store) cg_store(c, acc[v * s->n_red + k], at_v);
      else acc[v * s->n_red + k] = cg_load(c, c->vf, at_v);
    }
}

// The vector at i, its partial sums in memory; those before `groups` belong to all groups in turn.
static void emit_in_memory(Row *r, const Sweep *s, V i, V mask, V groups) {
  Cg *c = r->c;
  V acc[MAX_CARRY], lane = cg_and(c, i, cg_i64(c, s->lanes - 1));
  if (s->wide > 1 && !cg_is_int(groups, 0)) {
    V turn = cg_and(c, i, cg_i64(c, s->wide * s->lanes - 1));
    lane = cg_select(c, cg_lt(c, i, groups), turn, lane);
  }
  for (uint32_t k = 0; k < s->n_red; k++) acc[k] = cg_load(c, c->vf, memory_at(r, s, k, lane));
  emit_vector(r, s, i, mask, acc);
  for (uint32_t k = 0; k < s->n_red; k++) cg_store(c, acc[k], memory_at(r, s, k, lane));
}

static void emit_span_in_memory(Row *r, const Sweep *s, V lo, V groups, V whole) {
  Cg *c = r->c;
  if (cg_is_int(whole, 0) || lo == whole) return;
  for (Loop l = cg_each_by(c, lo, whole, cg_i64(c, c->t->vl)); cg_next(&l);) emit_in_memory(r, s, l.i, NULL, groups);
}

// Operations per vector of the last sweep, which has no sums.
static uint32_t work_of_last(Row *r) {
  uint32_t sum = 0;
  for (uint32_t k = 1; k < r->g.n; k++) {
    const RowNode *n = cg_row_at(r, k);
    if (n->elem && n->live && (n->level == r->last || !n->is_buffered)) sum += cg_row_cost(r, n);
  }
  return sum;
}

static uint32_t work_behind(Row *r, Node k, bool *seen) {
  const RowNode *n = cg_row_at(r, k);
  if (!n->elem || seen[k]) return 0;
  uint32_t sum = cg_row_cost(r, n);
  seen[k] = true;
  for (uint32_t j = 0; j < n->n_args; j++) sum += work_behind(r, n->arg[j], seen);
  return sum;
}

// How many vectors are summed apart. It decides the order of sums, so it does not depend on which results of the kernel this plan
// stores: operations that a plan leaves out count, too.
static uint32_t width_of_sums(Row *r, uint32_t number) {
  bool *seen = rt_alloc(r->c->mem, r->g.n);
  uint32_t work = 0, n_red = 0;
  for (uint32_t k = 1; k < r->g.n; k++) {
    const RowNode *n = cg_row_at(r, k);
    if (!cg_row_is_reduction(n) || n->level != number + 1) continue;
    n_red++, work++;
    for (uint32_t j = 0; j < n->n_args; j++) work += work_behind(r, n->arg[j], seen);
  }
  if (!n_red) work = work_of_last(r);
  return work > HEAVY || n_red > MAX_CARRY / 4 ? 1 : work > LIGHT ? 2 : WIDEST;
}

static Sweep plan_sweep(Row *r, uint32_t number) {
  Sweep s = {.number = number, .lanes = cg_sum_lanes(r->c->t), .parts = 1};
  for (uint32_t k = 1; k < r->g.n && s.n_red < MAX_CARRY; k++)
    if (cg_row_is_reduction(cg_row_at(r, k)) && cg_row_at(r, k)->live && cg_row_at(r, k)->level == number + 1)
      s.red[s.n_red++] = k;
  s.wide = width_of_sums(r->whole ? r->whole : r, number);
  if (s.n_red && !r->row_per_lane) s.parts = s.lanes / r->c->t->vl;
  return s;
}

int64_t cg_row_sums_in_memory(Row *r, uint32_t number) {
  Sweep s = plan_sweep(r, number);
  return s.parts > 1 ? (int64_t)s.n_red * s.wide * s.lanes : 0;
}

static void start(Row *r, const Sweep *s, V *acc) {
  for (uint32_t v = 0; v < s->wide * s->parts; v++)
    for (uint32_t k = 0; k < s->n_red; k++)
      acc[v * s->n_red + k] = cg_splat(r->c, cg_f32(r->c, is_sum(cg_row_at(r, s->red[k])) ? 0 : -INFINITY));
}

static uint32_t vectors_of(const Sweep *s) { return s->wide * s->parts; }
// Elements that every partial sum has one of.
static int64_t round_of(const Row *r, const Sweep *s) { return step_of(r) * vectors_of(s); }

static uint32_t levels_of(Row *r, const Sweep *s) {
  bool sums = false;
  for (uint32_t k = 0; k < s->n_red; k++) sums |= is_sum(cg_row_at(r, s->red[k]));
  return sums ? cg_cascade_levels(r->bound / round_of(r, s)) : 0;
}

typedef struct {
  Row *r;
  const Sweep *s;
} Rounds;

static void start_rounds(void *ctx, V *acc) { start(((Rounds *)ctx)->r, ((Rounds *)ctx)->s, acc); }

static V join_rounds(void *ctx, uint32_t k, V a, V b) {
  const Rounds *x = ctx;
  return join(x->r, cg_row_at(x->r, x->s->red[k % x->s->n_red]), a, b);
}

static void add_in_registers(void *ctx, V lo, V hi, V *acc) {
  const Rounds *x = ctx;
  emit_span(x->r, x->s, lo, hi, vectors_of(x->s), acc);
}

static void add_in_memory(void *ctx, V lo, V hi, V *acc) {
  const Rounds *x = ctx;
  move_sums(x->r, x->s, acc, true);
  emit_span_in_memory(x->r, x->s, lo, hi, hi);
  move_sums(x->r, x->s, acc, false);
}

// Whole rounds [lo, hi).
static void emit_rounds(Row *r, const Sweep *s, V lo, V hi, bool in_memory, V *acc) {
  Rounds x = {r, s};
  if (cg_is_int(hi, 0) || lo == hi) return;
  cg_cascade(&(Cascade){.c = r->c,
                        .n = vectors_of(s) * s->n_red,
                        .block = CASCADE_TERMS * round_of(r, s),
                        .start = start_rounds,
                        .join = join_rounds,
                        .add = in_memory ? add_in_memory : add_in_registers,
                        .ctx = &x},
             levels_of(r, s), lo, hi, acc);
}

// Partial sums in registers: whole rounds, groups, and the rest if its size is known. Returns the first
// element left.
static V emit_in_registers(Row *r, const Sweep *s, V groups, V *acc) {
  Cg *c = r->c;
  int64_t vl = c->t->vl;
  V mask, some = cg_multiple(c, r->size, cg_i64(c, s->lanes)), rest = cg_sub(c, r->size, some);
  emit_rounds(r, s, cg_i64(c, 0), groups, false, acc);
  emit_span(r, s, groups, some, s->parts, acc);
  if (!LLVMIsAConstantInt(rest)) return some;
  for (uint32_t p = 0; p < s->parts; p++)
    if (cg_lanes_left(c, rest, p * vl, &mask))
      emit_vector(r, s, cg_add(c, some, cg_i64(c, p * vl)), mask, acc + p * s->n_red);
  return r->size;
}

// Vectors narrower than a group.
static void emit_narrow_sweep(Row *r, Sweep *s) {
  Cg *c = r->c;
  V acc[MAX_SUMS], whole = cg_multiple(c, r->size, cg_i64(c, c->t->vl)), from = cg_i64(c, 0);
  V groups = cg_multiple(c, r->size, cg_i64(c, s->wide * s->lanes)), rest = cg_sub(c, r->size, whole);
  start(r, s, acc);
  bool is_short = s->wide == 4 || s->parts == 2;
  if (is_short && s->n_red * s->wide * s->parts <= REGISTERS && !c->t->bounded_stack)
    from = emit_in_registers(r, s, groups, acc);
  if (from != r->size) {
    s->memory = r->sums;
    if (cg_is_int(from, 0) && levels_of(r, s)) {
      emit_rounds(r, s, from, groups, true, acc);
      from = groups;
    }
    move_sums(r, s, acc, true);
    emit_span_in_memory(r, s, from, groups, whole);
    if (!cg_is_int(rest, 0)) emit_in_memory(r, s, whole, cg_mask(c, rest), cg_i64(c, 0));
    move_sums(r, s, acc, false);
  }
  finish(r, s, acc);
}

// Unrolled loop, remainder of whole vectors, masked tail, which may be empty.
static void emit_sweep(Row *r, uint32_t number) {
  Cg *c = r->c;
  Sweep s = plan_sweep(r, number);
  if (s.parts > 1) {
    emit_narrow_sweep(r, &s);
    return;
  }
  int64_t step = step_of(r);
  V acc[MAX_CARRY], groups = cg_multiple(c, r->size, cg_i64(c, s.wide * step)),
                    whole = cg_multiple(c, r->size, cg_i64(c, step));
  V rest = cg_sub(c, r->size, whole);
  start(r, &s, acc);
  emit_rounds(r, &s, cg_i64(c, 0), groups, false, acc);
  if (s.wide > 1) emit_span(r, &s, groups, whole, 1, acc);
  if (!cg_is_int(rest, 0)) emit_vector(r, &s, whole, cg_mask(c, rest), acc);
  finish(r, &s, acc);
}

static void store_scalars(Row *r) {
  Cg *c = r->c;
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++) {
    Val v = {i};
    if (!cg_row_is_stored(r, v) || cg_row_is_shaped(r, v)) continue;
    V scalar = cg_row_at(r, cg_row_node_of(r, v))->scalar, to = f32_at(r, cg_ptr(c, v), r->index);
    r->row_per_lane ? cg_store_masked(c, scalar, to, r->active) : cg_store(c, scalar, to);
  }
}

void cg_row_sweeps(Row *r) {
  for (uint32_t s = 0; s <= r->last; s++) {
    cg_row_scalars(r, s);
    emit_sweep(r, s);
  }
  cg_row_scalars(r, r->last + 1);
  store_scalars(r);
}
