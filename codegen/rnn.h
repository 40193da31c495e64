// What the forward and the backward recurrence share: one sequence's geometry, its team, its rows.
#ifndef TN_CODEGEN_RNN_H
#define TN_CODEGEN_RNN_H

#include "codegen/tile.h"

typedef enum { CELL_LSTM, CELL_GRU, CELL_TANH, CELL_RELU } Cell;
typedef struct {
  Val head;
  bool backward;  // rnn_seq_grad
  Cell cell;
  bool reverse;
  uint32_t n_gates, n_saved;  // G and S
  int64_t hidden;             // H
  int64_t blocks;             // of vl units
  int64_t batch_max, time_max, rows_max;
  Val layout, weight;
  bool hprev_stored, cell_stored;  // forward: else they live in scratch
} Rnn;
bool cg_rnn_read(const Fn *f, Val head, const Target *t, Rnn *r);  // false: the hidden size is not constant

// A sequence while its code is emitted. The team of the sequence is c->worker, c->n_workers meanwhile.
typedef struct {
  Cg *c;
  const Rnn *r;
  LLVMValueRef barrier_id;
  LLVMValueRef lay, steps, batch;
  LLVMValueRef block_lo, block_hi;  // own blocks of units
  LLVMValueRef scratch;
} RnnCode;

// Scratch of one sequence in elements; parts follow one another.
typedef struct {
  int64_t weight;          // packed w_hh
  int64_t hprev, cell;     // forward: where the results are not stored
  int64_t dh, dc, dgates;  // backward: by sorted position; gate gradients of two steps
  int64_t total;
} RnnScratch;
RnnScratch cg_rnn_scratch(const Rnn *r, const Target *t);  // offsets of the parts
int64_t cg_rnn_gate_stride(const Rnn *r);                  // row stride of dgates

LLVMValueRef cg_rnn_batch_size(RnnCode *s, LLVMValueRef t);  // 0 for t == steps
LLVMValueRef cg_rnn_offset(RnnCode *s, LLVMValueRef t);
LLVMValueRef cg_rnn_sorted(RnnCode *s, LLVMValueRef row);
LLVMValueRef cg_rnn_sorted_table(RnnCode *s);
LLVMValueRef cg_rnn_row(RnnCode *s, LLVMValueRef base, LLVMValueRef row, int64_t width);  // base + row * width
// Copies the own units of a row of H; `from` NULL: zeros.
void cg_rnn_copy(RnnCode *s, LLVMValueRef to, LLVMValueRef from);
LLVMValueRef cg_rnn_load(RnnCode *s, LLVMValueRef p, LLVMValueRef mask);  // mask NULL: whole vector
void cg_rnn_store(RnnCode *s, LLVMValueRef v, LLVMValueRef p, LLVMValueRef mask);
LLVMValueRef cg_rnn_mask(RnnCode *s, LLVMValueRef lanes);  // NULL when every block of units is whole
LLVMValueRef cg_rnn_stored(RnnCode *s, uint32_t result);   // pointer; NULL: not stored
LLVMValueRef cg_rnn_part(RnnCode *s, int64_t offset);      // of scratch

void cg_rnn_forward(RnnCode *s);
void cg_rnn_backward(RnnCode *s);

#endif
