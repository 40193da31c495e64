// The microkernel (see microkernel.h), rows cut into tiles, and the transposing pack.
#include "codegen/gemm/microkernel.h"
#include "codegen/tuning.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TILE = MAX_CARRY, MAX_NV = 8, MAX_LANES = 64, TUNED_MICROKERNEL(TUNE) };

// ---- small things

uint32_t cg_tile_height(int64_t rows, uint32_t most) {
  if (rows <= 1) return 1;
  return (uint32_t)cg_ceil_div(rows, cg_ceil_div(rows, most));
}

bool cg_tile_is_long(int64_t k) { return k >= UNROLLED_K; }

// The addresses of a small tile fit the registers.
static uint32_t unroll_of(const TileSpec *s) {
  enum { SUMS = 12 };
  return s->long_k && s->mr * s->nv >= SUMS ? TILE_UNROLL : 1;
}

// ---- the microkernel
// Parameters: a b c x bias prefetch pre odd_rows result b_table, k n prefetch_row, then what is known at run time of a_row a_k b_k
// c_row result_row and, level by level, segments a_segment b_segment.
enum {
  P_A,
  P_B,
  P_C,
  P_X,
  P_BIAS,
  P_PREFETCH,
  P_PRE,
  P_ODD_ROWS,
  P_RESULT,
  P_TABLE,
  P_K,
  P_N,
  P_PREFETCH_ROW,
  P_STRIDES
};
enum {
  OF_OPERANDS = 5,
  N_STRIDES = OF_OPERANDS + 3 * SEGMENT_LEVELS,
  MAX_PARAMS = P_STRIDES + N_STRIDES + 3
};  // the strides, and what rows of tiles take besides

static void tile_strides(const TileSpec *s, int64_t out[N_STRIDES]) {
  out[0] = s->a_row, out[1] = s->a_k, out[2] = s->b_k, out[3] = s->c_row;
  out[4] = s->prefetch_result ? TILE_DYN : 0;
  for (uint32_t i = OF_OPERANDS; i < N_STRIDES; i++) out[i] = (i - OF_OPERANDS) / 3 < s->segmented ? TILE_DYN : 0;
}

typedef struct {
  const TileSpec *s;
  V arg[P_STRIDES];
  V a_row, a_k, b_k, c_row, result_row;
  V segments[SEGMENT_LEVELS], a_segment[SEGMENT_LEVELS], b_segment[SEGMENT_LEVELS];
  V odd_rows[MAX_TILE / 2];  // 1, 3, 5 .. rows of A in bytes, where a_row is an argument
  V mask[MAX_NV];            // NULL: whole vector
} TileBody;

// Gives the number of the parameter after the strides.
static uint32_t read_strides(Cg *c, V fn, const TileSpec *s, V *out[N_STRIDES]) {
  int64_t stride[N_STRIDES];
  tile_strides(s, stride);
  uint32_t next = P_STRIDES;
  for (uint32_t i = 0; i < N_STRIDES; i++)
    *out[i] = stride[i] == TILE_DYN ? LLVMGetParam(fn, next++) : cg_i64(c, stride[i]);
  return next;
}

// From one level to the next, as parameters have them.
static void place_segments(V **out, V *n, V *a, V *b) {
  for (uint32_t i = 0; i < SEGMENT_LEVELS; i++) *out++ = &n[i], *out++ = &a[i], *out++ = &b[i];
}

static void read_params(Cg *c, V fn, TileBody *t) {
  for (uint32_t i = 0; i < P_STRIDES; i++) t->arg[i] = LLVMGetParam(fn, i);
  V *strides[N_STRIDES] = {&t->a_row, &t->a_k, &t->b_k, &t->c_row, &t->result_row};
  place_segments(strides + OF_OPERANDS, t->segments, t->a_segment, t->b_segment);
  read_strides(c, fn, t->s, strides);
  for (uint32_t j = 0; j < t->s->nv; j++) {
    V lanes = cg_sub(c, t->arg[P_N], cg_i64(c, (int64_t)j * t->s->mask_step));
    t->mask[j] = j >= t->s->mask_from ? cg_mask(c, lanes) : NULL;
  }
  for (uint32_t i = 0; t->s->a_row == TILE_DYN && 2 * i + 1 < t->s->mr; i++)
    t->odd_rows[i] = cg_get(c, c->i64, t->arg[P_ODD_ROWS], cg_i64(c, i));
}

static V place_in_c(Cg *c, const TileBody *t, uint32_t m, uint32_t j) {
  V row = cg_row(c, t->arg[P_C], cg_i64(c, m), t->c_row);
  return cg_at(c, c->f32, row, cg_i64(c, j * t->s->c_vec));
}

static V in_c(Cg *c, const TileBody *t, uint32_t m, uint32_t j) {
  return cg_load_masked(c, c->vf, place_in_c(c, t, m, j), t->s->mask_c ? t->mask[j] : NULL);
}

static V initial(Cg *c, const TileBody *t, uint32_t m, uint32_t j) {
  const TileSpec *s = t->s;
  V x = NULL, bias = NULL;
  if (s->accumulate) return in_c(c, t, m, j);
  if (j < s->x_n) x = cg_get_masked(c, c->vf, t->arg[P_X], cg_i64(c, m * s->x_row + j * s->x_vec), t->mask[j]);
  if (s->has_bias) bias = cg_get_masked(c, c->vf, t->arg[P_BIAS], cg_i64(c, j * s->bias_vec), t->mask[j]);
  if (x && bias) return cg_fadd(c, x, bias);
  return x ? x : bias ? bias : cg_zeros(c);
}

// Prefetches that belong to `steps` steps from k on; never past the end of prefetch_rows.
static void prefetch(Cg *c, const TileBody *t, V k, uint32_t steps) {
  const TileSpec *s = t->s;
  uint32_t each = s->prefetch_steps ? s->prefetch_steps : 1;
  V row = each > 1 ? cg_div(c, k, cg_i64(c, each)) : k, at = cg_i64(c, 0);
  if (!s->prefetch_lines) return;
  if (s->prefetch_rows) {
    at = cg_mul(c, cg_div(c, row, cg_i64(c, s->prefetch_rows)), cg_i64(c, (int64_t)s->prefetch_lines * TILE_LINE));
    row = cg_rem(c, row, cg_i64(c, s->prefetch_rows));
  }
  at = cg_add(c, at, cg_mul(c, row, t->arg[P_PREFETCH_ROW]));
  for (uint32_t j = 0; j * each < steps; j++)
    for (int64_t line = 0; line < s->prefetch_lines; line++) {
      V off = cg_index(c, cg_i64(c, j), t->arg[P_PREFETCH_ROW], cg_i64(c, line * TILE_LINE));
      cg_prefetch_l2(c, cg_at(c, c->f32, cg_at(c, c->f32, t->arg[P_PREFETCH], at), off));
    }
}

// Steps [begin, end) of k, of which number 0 is at a and b. begin is a multiple of all steps in a turn.
typedef struct {
  V a, a_row, b, begin, end;
} PanelRange;

// Row m of A. Multiples of a run-time stride that are odd come from memory, so that the compiler knows nothing of them
// and every row is one address of a pointer and a scaled register: it would add up the rows in every step.
static V row_of_a(Cg *c, const TileBody *t, const PanelRange *of, V a, uint32_t m) {
  if (m == 0) return a;
  if (LLVMIsConstant(of->a_row)) return cg_row(c, a, cg_i64(c, m), of->a_row);
  uint32_t scale = m & -m;
  return cg_at(c, c->i8, a, cg_mul(c, t->odd_rows[m / scale / 2], cg_i64(c, scale)));
}

// Rows one after the other: else LLVM loads those of all steps of a turn at once, where their strides are known at run time, and
// keeps sums in memory.
static bool orders_rows(const Cg *c, const TileSpec *s) {
  return c->t->vector_register && unroll_of(s) > 1 && s->a_row == TILE_DYN;
}

static V spread_of_a(Cg *c, V at) { return cg_splat(c, cg_load(c, c->f32, at)); }

// Differences of which one operand is in memory leave registers' ports to the multiply-adds beside them: a third faster where an
// instruction spreads its operand (docs/experiments/168-differences-from-memory.md).
static bool spreads_again(const Cg *c, const TileSpec *s) { return s->apart && c->t->has_avx512; }

static void k_step(Cg *c, const TileBody *t, const PanelRange *of, V a, V b, V *acc) {
  const TileSpec *s = t->s;
  V row[MAX_NV];
  for (uint32_t j = 0; j < s->nv; j++)
    row[j] = cg_get_masked(c, c->vf, b, cg_i64(c, j * s->b_vec), s->mask_b ? t->mask[j] : NULL);
  for (uint32_t m = 0; m < s->mr; m++) {
    V from = row_of_a(c, t, of, a, m), x = spread_of_a(c, from);
    for (uint32_t j = 0; j < s->nv; j++) {
      uint32_t e = m * s->nv + j;
      if (j > 0 && spreads_again(c, s)) {
        cg_keep_order(c, NULL, 0);
        x = spread_of_a(c, from);
      }
      V apart = s->apart ? cg_fsub(c, row[j], x) : NULL;
      acc[e] = apart ? cg_fma(c, apart, apart, acc[e]) : cg_fma(c, x, row[j], acc[e]);
    }
    if (orders_rows(c, s)) cg_keep_order(c, acc + m * s->nv, s->nv);
  }
}

// Panels of a packed A and of B stay in L2: what a later step reads comes into L1. Of B alone it costs more than it wins (090).
static void prefetch_step(Cg *c, const TileSpec *s, V a, V b) {
  enum { AHEAD = 8 };
  if (s->a_row != 1 || s->a_k == TILE_DYN || s->b_k == TILE_DYN) return;
  for (int64_t at = 0; at < s->b_k; at += TILE_LINE)
    cg_prefetch_l1(c, cg_at(c, c->f32, b, cg_i64(c, AHEAD * s->b_k + at)));
  for (int64_t at = 0; at < s->a_k; at += TILE_LINE)
    cg_prefetch_l1(c, cg_at(c, c->f32, a, cg_i64(c, AHEAD * s->a_k + at)));
}

// Where step k + j of B is; b: that of step k, where there is no table
static V step_of_b(Cg *c, const TileBody *t, const PanelRange *of, V b, V k, V j) {
  if (!t->s->has_table) return cg_row(c, b, j, t->b_k);
  return cg_at(c, c->f32, of->b, cg_get(c, c->i64, t->arg[P_TABLE], cg_add(c, k, j)));
}

// Steps from `begin` on, `unroll` at a time; the accumulator chains take them in turn. Returns the end.
static V k_unrolled(Cg *c, const TileBody *t, const PanelRange *of, V begin, uint32_t unroll, uint32_t chains,
                    bool prefetches, V *acc) {
  uint32_t n = t->s->mr * t->s->nv;
  V step = cg_i64(c, unroll), end = cg_multiple(c, of->end, step);
  for (Loop l = cg_carry(c, begin, end, step, acc, n * chains); cg_next(&l);) {
    if (prefetches) prefetch(c, t, l.i, unroll);
    V a = cg_row(c, of->a, l.i, t->a_k);
    V b = cg_row(c, of->b, l.i, t->b_k);
    bool many_rows = unroll_of(t->s) > 1 && !LLVMIsConstant(of->a_row);
    if (many_rows) a = cg_opaque(c, a);  // else LLVM keeps a pointer to each row, more than registers
    for (uint32_t j = 0; j < unroll; j++) {
      V k = cg_i64(c, j);
      V a_at = cg_row(c, a, k, t->a_k), b_at = step_of_b(c, t, of, b, l.i, k);
      k_step(c, t, of, a_at, b_at, acc + j % chains * n);
      if (prefetches && unroll_of(t->s) > 1) prefetch_step(c, t->s, a_at, b_at);
    }
  }
  return end;
}

// acc += A B
static void k_loop(Cg *c, const TileBody *t, const PanelRange *of, V *acc) {
  uint32_t n = t->s->mr * t->s->nv, chains = cg_tile_chains(t->s);
  uint32_t unroll = chains > 1 ? chains : unroll_of(t->s);  // the same chains in tiles of all heights
  for (uint32_t e = n; e < n * chains; e++) acc[e] = cg_zeros(c);
  V end = k_unrolled(c, t, of, of->begin, unroll, chains, true, acc);
  for (; chains > 1; chains /= 2)
    for (uint32_t e = 0; e < n * chains / 2; e++) acc[e] = cg_fadd(c, acc[e], acc[e + n * chains / 2]);
  if (unroll > 1) k_unrolled(c, t, of, end, 1, 1, false, acc);
}

// One segment of this level after the other, with the accumulators in registers; levels: this one and those inside it.
static void some_segments(Cg *c, const TileBody *t, uint32_t level, V begin, V end, V a, V b, V *acc);
static void segments(Cg *c, const TileBody *t, uint32_t levels, V a, V b, V *acc) {
  uint32_t level = levels - 1;
  if (levels == 0) {
    k_loop(c, t, &(PanelRange){a, t->a_row, b, cg_i64(c, 0), t->arg[P_K]}, acc);
    return;
  }
  some_segments(c, t, level, cg_i64(c, 0), t->segments[level], a, b, acc);
}

static void some_segments(Cg *c, const TileBody *t, uint32_t level, V begin, V end, V a, V b, V *acc) {
  uint32_t n = t->s->mr * t->s->nv;
  for (Loop l = cg_carry(c, begin, end, cg_i64(c, 1), acc, n); cg_next(&l);) {
    segments(c, t, level, cg_row(c, a, l.i, t->a_segment[level]), cg_row(c, b, l.i, t->b_segment[level]), acc);
  }
}

// ---- where sums start and go
static void begin_sums(Cg *c, const TileBody *t, V *acc) {
  for (uint32_t m = 0; m < t->s->mr; m++)
    for (uint32_t j = 0; j < t->s->nv; j++) acc[m * t->s->nv + j] = initial(c, t, m, j);
}

static void store_sums(Cg *c, const TileBody *t, V *acc) {
  const TileSpec *s = t->s;
  for (uint32_t m = 0; m < s->mr; m++)
    for (uint32_t j = 0; j < s->nv; j++) {
      V p = place_in_c(c, t, m, j);
      if (s->mask_c && t->mask[j]) cg_store_masked(c, acc[m * s->nv + j], p, t->mask[j]);
      else cg_store(c, acc[m * s->nv + j], p);
    }
}

// ---- partial sums
static void add_to(Cg *c, const TileBody *t, V (*from)(Cg *c, const TileBody *t, uint32_t m, uint32_t j), V *acc) {
  for (uint32_t m = 0; m < t->s->mr; m++)
    for (uint32_t j = 0; j < t->s->nv; j++) {
      V *sum = &acc[m * t->s->nv + j];
      *sum = cg_fadd(c, from(c, t, m, j), *sum);
    }
}

// Adds a partial sum. summed: i1, C has sums already; NULL: it has.
static void add_partial(Cg *c, const TileBody *t, V summed, const V *partial) {
  for (If some = cg_either(c, summed); cg_then(&some);) {
    V acc[MAX_TILE];
    memcpy(acc, partial, sizeof acc);
    if (some.is_true) add_to(c, t, in_c, acc);
    else if (t->s->x_n || t->s->has_bias) add_to(c, t, initial, acc);
    store_sums(c, t, acc);
  }
}

typedef struct {
  V a, a_row, b, n;  // n: of k
} Panel;

static void clear(V *acc, V zero) {
  for (uint32_t e = 0; e < MAX_TILE; e++) acc[e] = zero;
}

// All partial sums of the segments of `levels` levels; gives whether C has sums then.
static V partial_sums(Cg *c, const TileBody *t, uint32_t levels, const Panel *of, V summed) {
  const TileSpec *s = t->s;
  V acc[MAX_TILE], yes = LLVMConstInt(LLVMInt1TypeInContext(c->ctx), 1, false);
  bool here = levels == s->partial_level, inside = levels > s->partial_level;
  V n = levels ? t->segments[levels - 1] : of->n, step = cg_i64(c, here ? s->partial : 1);
  clear(acc, cg_zeros(c));
  if (!here && !inside) {  // one for all of the tile
    segments(c, t, levels, of->a, of->b, acc);
    add_partial(c, t, summed, acc);
    return summed ? yes : NULL;
  }
  for (Loop l = cg_carry(c, cg_i64(c, 0), n, step, &summed, summed ? 1 : 0); cg_next(&l);) {
    V end = cg_min(c, n, cg_add(c, l.i, step));
    if (inside) {
      Panel at = *of;
      at.a = cg_row(c, of->a, l.i, t->a_segment[levels - 1]);
      at.b = cg_row(c, of->b, l.i, t->b_segment[levels - 1]);
      summed = partial_sums(c, t, levels - 1, &at, summed);
    } else {
      if (levels) some_segments(c, t, levels - 1, l.i, end, of->a, of->b, acc);
      else k_loop(c, t, &(PanelRange){of->a, of->a_row, of->b, l.i, end}, acc);
      add_partial(c, t, summed, acc);
      summed = summed ? yes : NULL;
    }
  }
  return summed;
}

// Computes C by partial sums; if nothing is summed it gets the start value.
static void sum_in_parts(Cg *c, const TileBody *t) {
  const TileSpec *s = t->s;
  V summed = s->accumulate ? NULL : LLVMConstInt(LLVMInt1TypeInContext(c->ctx), 0, false), b = t->arg[P_B];
  if (s->pre_k) {
    summed = partial_sums(c, t, 0, &(Panel){t->arg[P_PRE], cg_i64(c, s->pre_row), b, cg_i64(c, s->pre_k)}, summed);
    b = cg_row(c, b, cg_i64(c, s->pre_k), t->b_k);
  }
  summed = partial_sums(c, t, s->segmented, &(Panel){t->arg[P_A], t->a_row, b, t->arg[P_K]}, summed);
  if (!summed) return;
  for (If none = cg_when(c, cg_not(c, summed)); cg_then(&none);) {
    V acc[MAX_TILE];
    begin_sums(c, t, acc);
    store_sums(c, t, acc);
  }
}

void cg_tile_sum_in_parts(TileSpec *s, const Target *t, int64_t terms, int64_t k, int64_t segments) {
  int64_t most = t->partial_sum * cg_tile_chains(s), of_first = k * cg_larger(1, segments);
  s->partial = 0, s->partial_level = 0;
  if (terms <= most) return;
  if (k > most) {
    s->partial = most;
  } else if (of_first > most) {
    s->partial = most / cg_larger(1, k), s->partial_level = 1;
  } else if (s->segmented == 2) {
    s->partial = most / cg_larger(1, of_first), s->partial_level = 2;
  } else if (s->accumulate) {
    s->partial = 1, s->partial_level = s->segmented + 1;
  }
}

static void prefetch_result(Cg *c, const TileBody *t) {
  const TileSpec *s = t->s;
  for (uint32_t m = 0; m < s->mr; m++)
    for (uint32_t j = 0; j < s->nv; j++) {
      V at = cg_index(c, cg_i64(c, m), t->result_row, cg_i64(c, j * s->c_vec));
      cg_prefetch_l2(c, cg_at(c, c->f32, t->arg[P_RESULT], at));
    }
}

static void make_tile(Cg *c, V fn, void *ctx) {
  TileBody t = {.s = ctx};
  const TileSpec *s = t.s;
  read_params(c, fn, &t);
  if (s->prefetch_result) prefetch_result(c, &t);
  if (s->partial) {
    sum_in_parts(c, &t);
    LLVMBuildRetVoid(c->b);
    return;
  }
  V acc[MAX_TILE];
  begin_sums(c, &t, acc);
  V b = t.arg[P_B];
  if (s->pre_k) {
    k_loop(c, &t, &(PanelRange){t.arg[P_PRE], cg_i64(c, s->pre_row), b, cg_i64(c, 0), cg_i64(c, s->pre_k)}, acc);
    b = cg_row(c, b, cg_i64(c, s->pre_k), t.b_k);
  }
  segments(c, &t, s->segmented, t.arg[P_A], b, acc);
  store_sums(c, &t, acc);
  LLVMBuildRetVoid(c->b);
}

static void tile_name(const TileSpec *s, char *out, size_t size) {
  snprintf(
      out, size,
      "tile%s%s%ux%u.a%lld,%lld.b%lld,%lld.c%lld,%lld.x%u,%lld,%lld.s%d,%lld.m%u,%lld,%d%d.p%u,%u,%u,%d.q%lld,%lld."
      "k%u,%u%s%s.j%u,%lld",
      s->apart ? "-" : "", s->accumulate ? "+" : "", s->mr, s->nv, (long long)s->a_row, (long long)s->a_k,
      (long long)s->b_k, (long long)s->b_vec, (long long)s->c_row, (long long)s->c_vec, s->x_n, (long long)s->x_row,
      (long long)s->x_vec, s->has_bias, (long long)s->bias_vec, s->mask_from, (long long)s->mask_step, s->mask_b,
      s->mask_c, s->prefetch_lines, s->prefetch_steps, s->prefetch_rows, s->prefetch_result, (long long)s->pre_k,
      (long long)s->pre_row, cg_tile_chains(s), unroll_of(s),
      s->segmented == 2 ? ".tt"
      : s->segmented    ? ".t"
                        : "",
      s->has_table ? ".i" : "", s->partial_level, (long long)s->partial);
}

static uint32_t tile_arguments(Cg *c, const TileSpec *s, const TileArgs *a, V *arg) {
  V null = LLVMConstNull(c->ptr), zero = cg_i64(c, 0);
  V fixed[P_STRIDES] = {a->a,
                        a->b,
                        a->c,
                        a->x ? a->x : null,
                        a->bias ? a->bias : null,
                        a->prefetch ? a->prefetch : null,
                        a->pre ? a->pre : null,
                        a->odd_rows ? a->odd_rows : null,
                        s->prefetch_result ? a->result : null,
                        s->has_table ? a->b_table : null,
                        a->k,
                        a->n ? a->n : zero,
                        s->prefetch_lines ? a->prefetch_row : zero};
  TileArgs given = *a;
  V *run_time[N_STRIDES] = {&given.a_row, &given.a_k, &given.b_k, &given.c_row, &given.result_row};
  place_segments(run_time + OF_OPERANDS, given.segments, given.a_segment, given.b_segment);
  int64_t stride[N_STRIDES];
  uint32_t n = P_STRIDES;
  memcpy(arg, fixed, sizeof fixed);
  tile_strides(s, stride);
  for (uint32_t i = 0; i < N_STRIDES; i++)
    if (stride[i] == TILE_DYN) arg[n++] = *run_time[i];
  return n;
}

void cg_tile_call(Cg *c, const TileSpec *s, const TileArgs *a) {
  V arg[MAX_PARAMS];
  char name[256];
  tile_name(s, name, sizeof name);
  cg_call_helper(c, name, arg, tile_arguments(c, s, a, arg), make_tile, (void *)s);
}

// ---- rows
// Tile arguments moved down by `row` rows, `tiles` whole tiles, of the operands that have rows.
static TileArgs below(Cg *c, const TileSpec *s, const TileArgs *a, V a_off, V row, V tiles) {
  TileArgs out = *a;
  V c_row = s->c_row == TILE_DYN ? a->c_row : cg_i64(c, s->c_row);
  out.a = cg_at(c, c->f32, a->a, a_off);
  out.c = cg_row(c, a->c, row, c_row);
  if (s->prefetch_result) out.result = cg_row(c, a->result, row, a->result_row);
  if (a->x) out.x = cg_row(c, a->x, row, cg_i64(c, s->x_row));
  if (a->pre) out.pre = cg_row(c, a->pre, row, cg_i64(c, s->pre_row));
  if (s->prefetch_lines) {
    out.prefetch = cg_row(c, a->prefetch, tiles, a->prefetch_tile);
    V more = cg_lt(c, tiles, cg_i64(c, s->prefetch_tiles));
    if (s->prefetch_tiles)
      out.prefetch = cg_select(c, more, out.prefetch, a->b);  // an address that is in cache already
  }
  return out;
}

void cg_tile_left(Cg *c, const TileSpec *s, const TileArgs *a, V left) {
  V a_row = s->a_row == TILE_DYN ? a->a_row : cg_i64(c, s->a_row);
  uint32_t top = 1;
  while (top * 2 < s->mr) top *= 2;
  if (s->mr == 1) return;
  for (uint32_t rows = top; rows; rows /= 2) {
    TileSpec part = *s;
    part.mr = rows;
    V bit = cg_and(c, left, cg_i64(c, rows));
    for (If some = cg_when(c, cg_ne(c, bit, cg_i64(c, 0))); cg_then(&some);) {
      V done = cg_and(c, left, cg_i64(c, ~(2 * (int64_t)rows - 1)));
      TileArgs args = below(c, s, a, cg_mul(c, done, a_row), done, cg_i64(c, 0));
      cg_tile_call(c, &part, &args);
    }
  }
}

// Rows of tiles are a function too: what its callers do not have in common are its arguments, those of the tile and then
// rows, a_block, prefetch_tile.
typedef struct {
  const TileSpec *s;
  int64_t left;
} RowsSpec;

static TileArgs own_arguments(Cg *c, V fn, const TileSpec *s, V *rest) {
  V p[P_STRIDES];
  for (uint32_t i = 0; i < P_STRIDES; i++) p[i] = LLVMGetParam(fn, i);
  TileArgs a = {.a = p[P_A], .b = p[P_B], .c = p[P_C], .k = p[P_K], .n = p[P_N], .prefetch_row = p[P_PREFETCH_ROW]};
  if (s->x_n) a.x = p[P_X];
  if (s->has_bias) a.bias = p[P_BIAS];
  if (s->prefetch_lines) a.prefetch = p[P_PREFETCH];
  if (s->pre_k) a.pre = p[P_PRE];
  if (s->prefetch_result) a.result = p[P_RESULT];
  if (s->has_table) a.b_table = p[P_TABLE];
  V *strides[N_STRIDES] = {&a.a_row, &a.a_k, &a.b_k, &a.c_row, &a.result_row};
  place_segments(strides + OF_OPERANDS, a.segments, a.a_segment, a.b_segment);
  uint32_t next = read_strides(c, fn, s, strides);
  for (uint32_t i = 0; i < 3; i++) rest[i] = LLVMGetParam(fn, next + i);
  return a;
}

static V odd_rows(Cg *c, uint32_t mr, V a_row) {
  V table = cg_stack_block(c, c->i64, mr / 2 + 1);
  for (uint32_t i = 0; 2 * i + 1 < mr; i++)
    cg_put(c, cg_mul(c, a_row, cg_i64(c, 4 * (2 * (int64_t)i + 1))), table, cg_i64(c, i));
  return table;
}

static void make_rows(Cg *c, V fn, void *ctx) {
  const RowsSpec *spec = ctx;
  const TileSpec *s = spec->s;
  V rest[3];
  TileArgs a = own_arguments(c, fn, s, rest);
  V rows = rest[0], a_block = rest[1], mr = cg_i64(c, s->mr), full = cg_div(c, rows, mr);
  a.prefetch_tile = rest[2];
  if (s->a_row == TILE_DYN) a.odd_rows = odd_rows(c, s->mr, a.a_row);
  for (Loop l = cg_count(c, full); cg_next(&l);) {
    TileArgs args = below(c, s, &a, cg_mul(c, l.i, a_block), cg_mul(c, l.i, mr), l.i);
    cg_tile_call(c, s, &args);
  }
  V left = cg_sub(c, rows, cg_mul(c, full, mr));
  TileArgs args = below(c, s, &a, cg_mul(c, full, a_block), cg_mul(c, full, mr), full);
  if (spec->left == TILE_DYN) cg_tile_left(c, s, &args, left);
  else if (spec->left) {
    TileSpec exact = *s;
    exact.mr = (uint32_t)spec->left;
    for (If some = cg_when(c, cg_ne(c, left, cg_i64(c, 0))); cg_then(&some);) cg_tile_call(c, &exact, &args);
  }
  LLVMBuildRetVoid(c->b);
}

void cg_tile_rows(Cg *c, const TileSpec *s, const TileArgs *a, const TileRows *r) {
  V arg[MAX_PARAMS];
  char tile[256], name[320];
  uint32_t n = tile_arguments(c, s, a, arg);
  arg[n++] = r->rows, arg[n++] = r->a_block, arg[n++] = s->prefetch_lines ? a->prefetch_tile : cg_i64(c, 0);
  tile_name(s, tile, sizeof tile);
  snprintf(name, sizeof name, "rows.%s.t%u.l%lld", tile, s->prefetch_tiles, (long long)r->left);
  cg_call_helper(c, name, arg, n, make_rows, &(RowsSpec){s, r->left});
}
