// Split bf16: each f32 as three bf16 parts whose sum is x to within 2^-25 x; the operands of amx.c.
//
//   x1 = bf16(x)    x2 = bf16(x - x1)    x3 = bf16(x - x1 - x2)          the differences are exact
//
// A block is 32 x 32 elements, [part][half][16 rows][16 pairs]: two tiles of each part. A row of A's tiles is a row of A;
// one of B's is two values of k, as AMX multiplies pairs. Which two is free as long as both operands agree: k and
// k + 16, so that pairs are made of whole vectors.
//
//   panel of 32 rows (A) or columns (B):   block of 32 k | block of the next 32 k | ..
//
// Numbers of 2^32 and more, infinities and NaN are out of range: infinity times a part that is 0 would be
// NaN, and AMX flushes denormals, which a large factor would show. Packing a block records its largest
// magnitude; a macro tile with an operand out of range is computed by the f32 microkernel.
#include "codegen/gemm/parts.h"

enum { HALF = PARTS_SIDE / 2, PART = PARTS_SIDE * HALF /* 32-bit words of a part of a block */ };
enum { RANGE_END = 159 << 23 };  // the bits of 2^32

int64_t cg_parts_elements(int64_t rows, int64_t k) {
  return cg_ceil_div(rows, PARTS_SIDE) * cg_ceil_div(k, PARTS_SIDE) * PARTS_BLOCK;
}

int64_t cg_parts_shared_elements(int64_t rows, int64_t k) {
  int64_t parts = cg_parts_elements(rows, k);
  return parts + parts / PARTS_BLOCK * PARTS_AMAX;
}

// ---- a block
static V words(Cg *c, V x) { return cg_bitcast(c, x, c->vi32); }
static V word(Cg *c, uint32_t bits) { return cg_splat(c, cg_i32(c, (int32_t)bits)); }
static V upper(Cg *c, V x) { return cg_and(c, x, word(c, 0xffff0000)); }

// Rounds to nearest, in the upper half of a word; the lower half is the remainder.
static V rounded(Cg *c, V x) { return cg_iadd(c, words(c, x), word(c, 0x8000)); }

static void split(Cg *c, V x, V *part) {
  for (uint32_t k = 0; k < PARTS; k++) {
    part[k] = rounded(c, x);
    if (k + 1 == PARTS) return;
    part[k] = upper(c, part[k]);
    x = cg_fsub(c, x, cg_bitcast(c, part[k], c->vf));
  }
}

static V larger(Cg *c, V amax, V x) {
  V magnitude = cg_and(c, words(c, x), word(c, 0x7fffffff));
  return cg_call_intrinsic(c, "llvm.umax", &c->vi32, 1, (V[]){amax, magnitude}, 2);
}

// A row of a tile of each part, whose pairs have their second elements `second` behind the first.
static V split_row(Cg *c, V from, V second, V to, V amax) {
  V x = cg_load(c, c->vf, from), y = cg_get(c, c->vf, from, second), low[PARTS], high[PARTS];
  split(c, x, low), split(c, y, high);
  for (uint32_t k = 0; k < PARTS; k++) {
    V first = cg_lshr(c, low[k], word(c, 16));
    cg_put(c, cg_or(c, first, upper(c, high[k])), to, cg_i64(c, k * PART));
  }
  return larger(c, larger(c, amax, x), y);
}

// 16 rows, `ld` apart.
static V split_rows(Cg *c, V src, V ld, V second, V dst, V amax) {
  V sum = amax;
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, HALF), cg_i64(c, 1), &sum, 1); cg_next(&l);) {
    V from = cg_row(c, src, l.i, ld), to = cg_row(c, dst, l.i, cg_i64(c, HALF));
    sum = split_row(c, from, second, to, sum);
  }
  return sum;
}

V cg_parts_pack_row(Cg *c, V src, V ld, V dst, V nth, V amax) {
  V side = cg_i64(c, HALF), half = cg_div(c, nth, side), row = cg_rem(c, nth, side);
  V from = cg_cell(c, src, row, ld, cg_mul(c, half, side));
  V to = cg_index(c, row, side, cg_mul(c, half, cg_i64(c, HALF * HALF)));
  return split_row(c, from, cg_mul(c, side, ld), cg_at(c, c->f32, dst, to), amax);
}

void cg_parts_prefetch_row(Cg *c, V src, V ld, V nth) {
  V side = cg_i64(c, HALF), row = cg_rem(c, nth, side);
  V from = cg_cell(c, src, row, ld, cg_multiple(c, nth, side));
  cg_prefetch_l2(c, from), cg_prefetch_l2(c, cg_row(c, from, side, ld));
}

// ---- a block of an operand, from where it lies
typedef struct {
  bool is_b, transposed;  // transposed: stored by columns of what the block has as rows
} BlockKind;
enum { B_DST, B_SRC, B_LD, B_ROWS, B_COLS, B_AMAX, N_B };  // rows and columns as stored, from src on; amax: 16 words

// A square in memory, zero beyond `rows` and `cols`.
static void copy_square(Cg *c, const V *arg, V square) {
  V vl = cg_i64(c, HALF), last = cg_sub(c, arg[B_ROWS], cg_i64(c, 1));
  for (Loop l = cg_count(c, cg_i64(c, PARTS_SIDE)); cg_next(&l);) {
    V from = cg_row(c, arg[B_SRC], cg_min(c, l.i, last), arg[B_LD]);
    V is_there = cg_lt(c, l.i, arg[B_ROWS]);
    V cols = cg_select(c, is_there, arg[B_COLS], cg_i64(c, 0));
    V to = cg_row(c, square, l.i, cg_i64(c, PARTS_SIDE));
    cg_store(c, cg_load_masked(c, c->vf, from, cg_mask(c, cols)), to);
    V more = cg_get_masked(c, c->vf, from, vl, cg_mask(c, cg_sub(c, cols, vl)));
    cg_put(c, more, to, vl);
  }
}

static void transpose_square(Cg *c, const V *arg, V square) {
  for (int64_t row = 0; row < PARTS_SIDE; row += HALF)
    for (int64_t col = 0; col < PARTS_SIDE; col += HALF) {
      V from = cg_cell(c, arg[B_SRC], cg_i64(c, row), arg[B_LD], cg_i64(c, col));
      cg_transpose_block(c, from, arg[B_LD], cg_sub(c, arg[B_ROWS], cg_i64(c, row)),
                         cg_sub(c, arg[B_COLS], cg_i64(c, col)),
                         cg_at(c, c->f32, square, cg_i64(c, col * PARTS_SIDE + row)), cg_i64(c, PARTS_SIDE));
    }
}

static void split_square(Cg *c, const V *arg, BlockKind kind, V src, V ld) {
  V amax = cg_load(c, c->vi32, arg[B_AMAX]), half = cg_i64(c, HALF), halves = cg_mul(c, half, ld);
  for (int64_t h = 0; h < 2; h++) {
    V from = cg_row(c, src, cg_i64(c, h), kind.is_b ? half : halves);
    V to = cg_at(c, c->f32, arg[B_DST], cg_i64(c, h * HALF * HALF));
    amax = split_rows(c, from, ld, kind.is_b ? halves : half, to, amax);
  }
  cg_store(c, amax, arg[B_AMAX]);
}

static void make_block(Cg *c, V fn, void *ctx) {
  BlockKind kind = *(BlockKind *)ctx;
  V arg[N_B], side = cg_i64(c, PARTS_SIDE), square = cg_stack_block(c, c->f32, PARTS_SIDE * PARTS_SIDE);
  for (uint32_t k = 0; k < N_B; k++) arg[k] = LLVMGetParam(fn, k);
  if (kind.transposed) {
    transpose_square(c, arg, square);
    split_square(c, arg, kind, square, side);
  } else {
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(c->b)};
    for (If part = cg_when(c, cg_lt(c, cg_min(c, arg[B_ROWS], arg[B_COLS]), side)); cg_then(&part);) {
      copy_square(c, arg, square);
      from[1] = LLVMGetInsertBlock(c->b);
    }
    V src = cg_phi(c, arg[B_SRC], square, from);
    split_square(c, arg, kind, src, cg_phi(c, arg[B_LD], side, from));
  }
  LLVMBuildRetVoid(c->b);
}

static void call_block(Cg *c, BlockKind kind, V *arg) {
  const char *name = kind.is_b ? kind.transposed ? "parts_b_t" : "parts_b" : kind.transposed ? "parts_a_t" : "parts_a";
  cg_call_helper(c, name, arg, N_B, make_block, &kind);
}

void cg_parts_pack_block(Cg *c, const PartsBlock *b) {
  call_block(c, (BlockKind){true, false}, (V[]){b->dst, b->src, b->ld, b->rows, b->columns, b->amax});
}

// ---- operands
static V blocks_of(Cg *c, V n) { return cg_ceil_div_value(c, n, PARTS_SIDE); }

typedef struct {
  Gemm *g;
  bool is_b;
  V matrix, ld;  // where k and n or m are 0, and from row to row as it is stored
  V size, k;     // rows of A, or columns of B
} Operand;

static Operand operand_a(Gemm *g, V batch) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  GemmMacroTile origin = {.batch = batch, .m0 = cg_i64(c, 0), .k0 = cg_i64(c, 0)};
  V ld = p->ta ? cg_gemm_tile_a_k(g) : cg_gemm_tile_a_row(g);
  return (Operand){g, false, cg_gemm_tile_a(g, &origin), ld, g->m, g->k};
}

static Operand operand_b(Gemm *g, V batch) {
  return (Operand){g, true, cg_gemm_b_matrix(g, batch), g->b_ld, g->n, g->k};
}

static bool along_k(const Operand *o) { return o->is_b ? o->g->p->tb : !o->g->p->ta; }

// The block of A at row `at`, or of B at that column, and at k0; `amax` grows.
static void pack_block(const Operand *o, V at, V k0, V k_end, V dst, V amax) {
  Cg *c = o->g->c;
  bool by_k = !along_k(o);  // a row as stored has one k
  V left = cg_sub(c, o->size, at), n_k = cg_sub(c, k_end, k0);
  V src = by_k ? cg_index(c, k0, o->ld, at) : cg_index(c, at, o->ld, k0);
  call_block(c, (BlockKind){o->is_b, o->is_b != by_k},
             (V[]){dst, cg_at(c, c->f32, o->matrix, src), o->ld, by_k ? n_k : left, by_k ? left : n_k, amax});
}

// Number `nth` of panels x steps blocks, in the order in which the operand is stored: rows of it are then read from end to end,
// which the hardware prefetches.
static void place(const Operand *o, V nth, V panels, V steps, V *panel, V *step) {
  Cg *c = o->g->c;
  V inner = along_k(o) ? steps : panels, first = cg_div(c, nth, inner), second = cg_rem(c, nth, inner);
  *panel = along_k(o) ? first : second, *step = along_k(o) ? second : first;
}

static V no_lanes(Cg *c) { return cg_splat(c, cg_i32(c, 0)); }

static V exceeds_range(Cg *c, V amax) {
  V largest = cg_call_intrinsic(c, "llvm.vector.reduce.umax", &c->vi32, 1, &amax, 1);
  return cg_icmp(c, LLVMIntUGE, largest, cg_i32(c, RANGE_END));
}

// ---- by the team, all of an operand: parts, then 16 words per block with its largest magnitudes
static V shared_amax(Cg *c, V base, V panels, V steps, V nth) {
  V parts = cg_mul(c, cg_mul(c, panels, steps), cg_i64(c, PARTS_BLOCK));
  return cg_at(c, c->f32, base, cg_add(c, parts, cg_mul(c, nth, cg_i64(c, PARTS_AMAX))));
}

static void pack_shared(const Operand *o, V base) {
  Cg *c = o->g->c;
  V panels = blocks_of(c, o->size), steps = blocks_of(c, o->k), side = cg_i64(c, PARTS_SIDE), lo, hi, panel, step;
  cg_share(c, cg_mul(c, panels, steps), 1, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    place(o, l.i, panels, steps, &panel, &step);
    V nth = cg_index(c, panel, steps, step), amax = shared_amax(c, base, panels, steps, nth);
    cg_store(c, no_lanes(c), amax);
    pack_block(o, cg_mul(c, panel, side), cg_mul(c, step, side), o->k, cg_row(c, base, nth, cg_i64(c, PARTS_BLOCK)),
               amax);
  }
}

void cg_parts_pack_a_shared(Gemm *g) {
  Operand o = operand_a(g, cg_i64(g->c, 0));
  pack_shared(&o, g->a_parts);
}
void cg_parts_pack_b_shared(Gemm *g) {
  Operand o = operand_b(g, cg_i64(g->c, 0));
  pack_shared(&o, g->b_parts);
}

// Of `n` blocks or panels, 16 words each.
static V any_exceeds_range(Cg *c, V amax, V n) {
  V sum = no_lanes(c);
  for (Loop l = cg_carry(c, cg_i64(c, 0), n, cg_i64(c, 1), &sum, 1); cg_next(&l);) {
    V here = cg_load(c, c->vi32, cg_row(c, amax, l.i, cg_i64(c, PARTS_AMAX)));
    sum = cg_call_intrinsic(c, "llvm.umax", &c->vi32, 1, (V[]){sum, here}, 2);
  }
  return exceeds_range(c, sum);
}

// Of panels that hold `rows` rows from `first` on.
static V shared_exceeds_range(Gemm *g, V base, V size, V first, V rows) {
  Cg *c = g->c;
  V steps = blocks_of(c, g->k), from = cg_mul(c, cg_div(c, first, cg_i64(c, PARTS_SIDE)), steps);
  return any_exceeds_range(c, shared_amax(c, base, blocks_of(c, size), steps, from),
                           cg_mul(c, blocks_of(c, rows), steps));
}

V cg_parts_a_exceeds_range(Gemm *g, const GemmMacroTile *u) {
  return shared_exceeds_range(g, g->a_parts, g->m, u->m0, u->rows);
}
V cg_parts_b_exceeds_range(Gemm *g, V n0, V n) { return shared_exceeds_range(g, g->b_parts, g->n, n0, n); }

// ---- by the worker that uses them: `rows` rows of A from m0 on, or columns of B from n0 on, of the KC block
V cg_parts_amax_of(Cg *c, V amax, V panel) { return cg_row(c, amax, panel, cg_i64(c, PARTS_AMAX)); }

void cg_parts_clear_amax(Cg *c, V amax, V panels) {
  for (Loop l = cg_count(c, panels); cg_next(&l);) cg_store(c, no_lanes(c), cg_parts_amax_of(c, amax, l.i));
}

static void pack_private(const Operand *o, const GemmMacroTile *u, V first, V rows, V dst, V amax) {
  Cg *c = o->g->c;
  V side = cg_i64(c, PARTS_SIDE), panels = blocks_of(c, rows), steps = blocks_of(c, u->n_k), panel, step;
  V per_panel = cg_i64(c, cg_parts_elements(PARTS_SIDE, o->g->p->kc));
  cg_parts_clear_amax(c, amax, panels);
  for (Loop l = cg_count(c, cg_mul(c, panels, steps)); cg_next(&l);) {
    place(o, l.i, panels, steps, &panel, &step);
    V to = cg_index(c, panel, per_panel, cg_mul(c, step, cg_i64(c, PARTS_BLOCK)));
    pack_block(o, cg_add(c, first, cg_mul(c, panel, side)), cg_add(c, u->k0, cg_mul(c, step, side)),
               cg_add(c, u->k0, u->n_k), cg_at(c, c->f32, dst, to), cg_parts_amax_of(c, amax, panel));
  }
}

V cg_parts_pack_a(Gemm *g, const GemmMacroTile *u) {
  Operand o = operand_a(g, u->batch);
  pack_private(&o, u, u->m0, u->rows, g->a_block, g->a_amax);
  return any_exceeds_range(g->c, g->a_amax, blocks_of(g->c, u->rows));
}
void cg_parts_pack_b(Gemm *g, const GemmMacroTile *u, V to, V amax) {
  Operand o = operand_b(g, u->batch);
  pack_private(&o, u, u->n0, u->columns, to, amax);
}
V cg_parts_exceed_range(Gemm *g, V amax, V panels) { return any_exceeds_range(g->c, amax, panels); }
V cg_parts_panel_exceeds_range(Gemm *g, V amax, V panel) {
  return exceeds_range(g->c, cg_load(g->c, g->c->vi32, cg_parts_amax_of(g->c, amax, panel)));
}
