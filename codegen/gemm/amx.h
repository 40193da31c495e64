// A row of blocks of C by tiles of AMX (amx_block.c), for amx.c.
#ifndef TN_CODEGEN_GEMM_AMX_H
#define TN_CODEGEN_GEMM_AMX_H

#include "codegen/gemm/parts.h"

// C[32][columns] = from + A B, by panels of 32 columns. A: blocks of parts for its 32 rows, along k; B: likewise each panel,
// AMX_B_PANEL elements apart. From: C itself, or a row for all rows (AMX_FROM_ROW 0), AMX_FROM_PANEL elements on with each panel.
enum {
  AMX_A,
  AMX_B,
  AMX_B_PANEL,
  AMX_C,
  AMX_C_ROW,
  AMX_FROM,
  AMX_FROM_ROW,
  AMX_FROM_PANEL,
  AMX_STEPS,  // blocks of k
  AMX_ROWS,   // at most 32
  AMX_COLUMNS,
  AMX_AHEAD,  // the list of blocks to pack meanwhile; NULL: none
  N_AMX_ARGS
};
enum { AMX_ROWS_AHEAD = 4 };  // of a block of 32, packed with each step
void cg_amx_row(Cg *c, V *arg);
void cg_amx_begin(Cg *c);  // the tile registers, for rows until cg_amx_end
void cg_amx_end(Cg *c);

#endif
