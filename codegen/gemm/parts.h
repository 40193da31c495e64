// f32 as three bf16 parts, packed for tiles of AMX (amx.c): parts.c, and pack_ahead.c.
#ifndef TN_CODEGEN_GEMM_PARTS_H
#define TN_CODEGEN_GEMM_PARTS_H

#include "codegen/gemm/macro_tile.h"

// ---- parts.c: blocks of 32 x 32 elements, and the largest magnitude in them
enum { PARTS = 3, PARTS_SIDE = 32, PARTS_BLOCK = PARTS * PARTS_SIDE * PARTS_SIDE / 2 /* f32 elements that it takes */ };
enum { PARTS_AMAX = 16 };                                   // words whose maximum is that of a block or a panel
int64_t cg_parts_elements(int64_t rows, int64_t k);         // of f32, for the parts of a panelled operand
int64_t cg_parts_shared_elements(int64_t rows, int64_t k);  // of scratch, of an operand that is shared
void cg_parts_pack_a_shared(Gemm *g);                       // by the team, which must wait
void cg_parts_pack_b_shared(Gemm *g);
V cg_parts_a_exceeds_range(Gemm *g, const GemmMacroTile *u);  // of a shared A's MC block
V cg_parts_b_exceeds_range(Gemm *g, V n0, V n);               // of a shared B: columns n0 ..
V cg_parts_pack_a(Gemm *g, const GemmMacroTile *u);           // an MC x KC block to a_block; is it wide?
// A KC block of u's columns; amax: of each panel.
void cg_parts_pack_b(Gemm *g, const GemmMacroTile *u, V to, V amax);
void cg_parts_clear_amax(Cg *c, V amax, V panels);
V cg_parts_amax_of(Cg *c, V amax, V panel);
V cg_parts_exceed_range(Gemm *g, V amax, V panels);  // any of so many
V cg_parts_panel_exceeds_range(Gemm *g, V amax, V panel);

// A block of B stored [K, N]: the rows and columns that exist, from src on.
typedef struct {
  V src, ld, dst, amax, rows, columns;
} PartsBlock;
void cg_parts_pack_block(Cg *c, const PartsBlock *b);
// Row `nth` of 32 in each half of a whole one; amax: so far, and with that row.
V cg_parts_pack_row(Cg *c, V src, V ld, V dst, V nth, V amax);
void cg_parts_prefetch_row(Cg *c, V src, V ld, V nth);

// ---- pack_ahead.c: a list in memory, AHEAD_WORDS i64, of the blocks of a B stored [K, N] that are packed ahead
enum { AHEAD_WORDS = 10 };
// Blocks of u's KC block and columns, if `some`.
void cg_ahead_begin(Gemm *g, V list, const GemmMacroTile *u, V some, V to, V amax);
V cg_ahead_more(Cg *c, V list);                        // i1
PartsBlock cg_ahead_take(Cg *c, V list, V *prefetch);  // prefetch: the source of a later block
void cg_ahead_finish(Cg *c, V list);                   // packs what is left

#endif
