// A packed layout as compiled code reads it: parts of one table of 32-bit words (runtime/abi.h draws it).
#ifndef TN_CODEGEN_PACKED_LAYOUT_H
#define TN_CODEGEN_PACKED_LAYOUT_H

#include "codegen/cg.h"

typedef struct {
  V base;
  int64_t steps, seqs;  // bounds of time and batch
} CgLayout;

CgLayout cg_layout_of(Cg *c, Val layout);
// A part by its first word, for example TN_LAYOUT_SORTED(l->steps, l->seqs); its element i as i64
V cg_layout_part(Cg *c, const CgLayout *l, int64_t word);
V cg_layout_get(Cg *c, V part, V i);
bool cg_emit_sequence_rows(Cg *c);       // gather_rows.c: the ops of seq that move whole rows
void cg_emit_seq_windows(Cg *c, Val v);  // windows.c: also their gradient
void cg_emit_seq_window_lengths(Cg *c, Val v);
// The parts that are read most
V cg_layout_sizes(Cg *c, const CgLayout *l);
V cg_layout_offsets(Cg *c, const CgLayout *l);
V cg_layout_sorted(Cg *c, const CgLayout *l);
V cg_layout_unsorted(Cg *c, const CgLayout *l);
V cg_layout_lengths(Cg *c, const CgLayout *l);

// n 32-bit words from `from` to `to`; from NULL: the vector `fill` instead
void cg_move_words(Cg *c, V to, V from, V fill, V n);
// 32-bit words of what stands behind one index of the axes before from_axis
V cg_row_words(Cg *c, Val v, uint32_t from_axis);
V cg_row_at(Cg *c, V base, V row, V words);

#endif
