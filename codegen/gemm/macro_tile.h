// Macro tiles: rows of an MC block x a panel of NR columns, for a KC block; what microkernels compute, pack and prefetch for
// strategies tiled and amx.
#ifndef TN_CODEGEN_GEMM_MACRO_TILE_H
#define TN_CODEGEN_GEMM_MACRO_TILE_H

#include "codegen/gemm/gemm.h"

// What its microkernels see.
typedef struct {
  V batch, mc, panel;
  V m0, n0, row;     // row: of the result, batches included
  V rows, columns;   // columns: up to the end of the result; may be more than a panel
  V k0, n_k;         // the KC block
  V k_begin, k_end;  // of all of them
  V first, end;      // panels of the worker's range of the MC block
  V nc0;             // the first column of NC
  V micropanel;      // cg_gemm_has_micropanels: number of the tile of rows in the MC block
} GemmMacroTile;

// ---- macrokernel.c
V cg_gemm_tile_a(Gemm *g, const GemmMacroTile *u);  // f32 elements of A: address and strides
V cg_gemm_tile_a_row(const Gemm *g);
V cg_gemm_tile_a_k(const Gemm *g);
V cg_gemm_b_matrix(Gemm *g, V batch);
V cg_gemm_tile_c(Gemm *g, const GemmMacroTile *u);  // where sums are
V cg_gemm_tile_c_row(const Gemm *g);
void cg_gemm_tile(Gemm *g, const GemmMacroTile *u);  // by microkernels; B is where the plan says
Loop cg_gemm_each_block(Gemm *g, GemmMacroTile *u);  // KC blocks; one where k is 0, so that sums begin

// ---- amx.c: the panels [p0, p1) of u's MC block
void cg_amx_range(Gemm *g, GemmMacroTile *u, V p0, V p1);

// ---- prefetch.c
void cg_gemm_set_prefetch(const Gemm *g, TileSpec *s);
// What the macro tile's microkernels prefetch; args has its operands.
void cg_gemm_prefetch(Gemm *g, const GemmMacroTile *u, TileArgs *args);

#endif
