// The f32 microkernel that all matrix products share, and the packing of its operands.
//
//   for m < mr, j < nv:   C[m][j] = x[m][j] + bias[j] + sum over k of A[m][k] * B[k][j]      (j counts vectors)
//
// The first k of A may come from rows of another operand, `pre`, as if they stood before those of A. A and B may be
// segmented: k is a nest of at most two levels of strided segments, such as the rows of an image's window, and their sums
// follow one another. Steps of k may lie anywhere in B, where a table says, such as the taps of a window.
//
// Elements of A are broadcast, B is read as whole vectors, and mr x nv accumulators stay in registers. Each
// element sums in the order of k by fused multiply-adds, or in as many chains as all tiles of the product
// have; long sums are sums of partial ones, cut at the same k in all tiles. So a result depends neither on
// its tile nor on the number of workers. A tile is a function of its module, named by its specification:
// kernels with equal strides share it.
#ifndef TN_CODEGEN_GEMM_MICROKERNEL_H
#define TN_CODEGEN_GEMM_MICROKERNEL_H

#include "codegen/cg.h"

enum { TILE_DYN = -1 };             // a stride that is passed at run time
enum { TILE_LINE = TN_ALIGN / 4 };  // elements of a cache line
enum { TILE_UNROLL = 4 };           // steps of a long k in one turn of its loop (090): code is as many times as long
enum { SEGMENT_LEVELS = 2 };

typedef struct {
  uint32_t mr, nv;
  int64_t a_row, a_k;    // strides in elements; may be TILE_DYN
  int64_t b_k, b_vec;    // from k to k + 1 (may be TILE_DYN), from one vector to the next
  bool has_table;        // step k of B is at b + b_table[k]; b_k is 0
  int64_t c_row, c_vec;  // likewise for C (c_row may be TILE_DYN)
  bool apart;            // (A[m][k] - B[k][j])^2 in place of the product
  bool accumulate;       // C += instead: every vector starts from C, there is no x and no bias
  // Partial sums (cg_tile_sum_in_parts): each covers this many k, or segments of a level, starts from 0 and
  // is added to C, or to x and the bias. 0: one sum over all of k
  int64_t partial;         // of k: a multiple of TILE_UNROLL
  uint32_t partial_level;  // 0: of k; 1 and 2: of the first and the second level; above: one for all of the tile
  uint32_t x_n;            // the first x_n vectors start from x
  int64_t x_row, x_vec;
  bool has_bias;
  int64_t bias_vec;
  int64_t pre_k, pre_row;  // number of k in `pre`, in rows pre_row apart; B's rows for them come first
  uint32_t segmented;      // levels of segments, the first inside the second
  uint32_t mask_from;  // vectors from here on are masked: vector j has the lanes below n - j * mask_step; nv: none is
  int64_t mask_step;
  bool mask_b, mask_c;      // B and C are masked too (x and bias always are)
  uint32_t prefetch_lines;  // contiguous cache lines prefetched with each k,
  uint32_t prefetch_steps;  // or with this many k, so that few are in flight at a time; 0: with one
  uint32_t prefetch_tiles;  // number of tiles that prefetch; 0: all
  // rows of the prefetch, a multiple of TILE_UNROLL, before it goes on to the next lines; 0: all rows
  uint32_t prefetch_rows;
  bool prefetch_result;  // prefetch the lines that the tile stores to, before it sums
  bool long_k;           // TILE_UNROLL steps of k in one turn of the loop: cg_tile_is_long(k)
  uint32_t chains;  // accumulator chains that take k in turn, a power of two, to hide the latency of additions; 0: one
} TileSpec;
static inline uint32_t cg_tile_chains(const TileSpec *s) { return s->chains ? s->chains : 1; }

typedef struct {
  V a, b, c, x, bias, pre;  // absent: NULL
  V result, result_row;     // prefetch_result: C, or where an epilogue stores; elements from row to row
  V prefetch, prefetch_row,
      prefetch_tile;  // the first line; elements from row to row, and from one tile's lines to the next's
  V k, n;
  V a_row, a_k, b_k, c_row;  // read where the specification says TILE_DYN
  // Of each level: how many segments; elements from one to the next
  V segments[SEGMENT_LEVELS], a_segment[SEGMENT_LEVELS], b_segment[SEGMENT_LEVELS];
  V odd_rows;  // pointer to a_row's odd multiples in bytes; cg_tile_rows makes it
  V b_table;   // has_table: i64[k], in elements
} TileArgs;

bool cg_tile_is_long(int64_t k);  // TileSpec.long_k pays
// Sets partial sums if an element sums `terms` products, in this tile and others, and these are too many for
// one sum. Bounds: k, and the segments of the first level.
void cg_tile_sum_in_parts(TileSpec *s, const Target *t, int64_t terms, int64_t k, int64_t segments);
void cg_tile_call(Cg *c, const TileSpec *s, const TileArgs *a);

// Rows that are cut into tiles of s->mr and, for what is left, tiles of powers of two.
typedef struct {
  V rows;        // how many
  int64_t left;  // rows % mr where it is known, or TILE_DYN; 0 and a constant are exact tiles
  V a_block;     // elements of A from one full tile to the next
} TileRows;
void cg_tile_rows(Cg *c, const TileSpec *s, const TileArgs *a, const TileRows *r);
// The part below a full tile alone: `left` rows (< s->mr) by powers of two.
void cg_tile_left(Cg *c, const TileSpec *s, const TileArgs *a, V left);

// Tile height for `rows` rows (a bound): at most `most`, such that all tiles are about equal.
uint32_t cg_tile_height(int64_t rows, uint32_t most);

#endif
