// Shared by the forward and the backward recurrence: sizes, partition, row addressing.
#ifndef TN_CODEGEN_RNN_RNN_H
#define TN_CODEGEN_RNN_RNN_H

#include "codegen/gemm/microkernel.h"

typedef enum { CELL_LSTM, CELL_GRU, CELL_TANH, CELL_RELU } Cell;
typedef struct {
  Val head;
  bool backward;  // rnn_seq_grad
  Cell cell;
  bool reverse;
  uint32_t n_gates, n_saved;  // G and S
  int64_t hidden, state;      // H and P, the size of h: H unless the state is projected
  int64_t input;              // fused input projection: size of x; 0: operand 0 is projected already
  int64_t blocks;             // of vl units
  int64_t state_blocks;       // of h
  int64_t batch_max, time_max, rows_max;
  Val layout, weight, w_ih;        // w_ih with `input`
  Val proj;                        // w_hr [P, H]; none: h is not projected
  bool has_h0;                     // forward: else the state before the first step is zeros
  bool hprev_stored, cell_stored;  // forward: stored results; else in scratch
  bool dgates_stored;              // backward: the same for the gate gradients
} Rnn;
bool cg_rnn_read(const Fn *f, Val head, const Target *t, Rnn *r);  // false: a size is not constant

// This worker's part in the team of one recurrence.
typedef struct {
  V takes_part, member, size;
  V by_rows;  // i1: partition by sequences; NULL: never
} RnnPartition;

// Emission state of a recurrence. c->worker and c->n_workers are those of its team meanwhile.
typedef struct {
  Cg *c;
  const Rnn *r;
  RnnPartition team;
  V barrier_id;
  V lay, steps, batch;
  V block_lo, block_hi;  // own blocks of units
  V state_lo, state_hi;  // own blocks of h: the same where it is not projected
  V row_lo, row_hi;      // own sequences, by sorted position
  V scratch;
} RnnCode;

// Scratch layout of one recurrence, in elements.
typedef struct {
  int64_t weight;          // packed w_hh; forward: after the packed w_ih of each block, then 0 . w_hh if there is no h0
  int64_t proj;            // packed w_hr
  int64_t full, h;         // projected: o tanh c, or its gradient, and h, of the rows of a step
  int64_t hprev, cell;     // forward: if they are no stored results
  int64_t dh, dc, dgates;  // backward: by sorted position; gate gradients of two steps
  int64_t total;
} RnnScratch;
int64_t cg_rnn_scratch_bytes(const Fn *f, Val v, const Target *t);
RnnScratch cg_rnn_scratch(const Rnn *r, const Target *t);   // offsets of the parts
int64_t cg_rnn_weight_rows(const Rnn *r, const Target *t);  // forward: of a packed block, [gate][vl] each
int64_t cg_rnn_gate_stride(const Rnn *r);                   // row stride of dgates

V cg_rnn_batch_size(RnnCode *s, V t);  // 0 for t == steps
V cg_rnn_offset(RnnCode *s, V t);
V cg_rnn_sorted(RnnCode *s, V row);
V cg_rnn_sorted_table(RnnCode *s);
V cg_rnn_row(RnnCode *s, V base, V row, int64_t width);  // base + row * width
// Copies own units of a row of H (of_state: of P); `from` NULL: zeros.
void cg_rnn_copy(RnnCode *s, V to, V from, bool of_state);
V cg_rnn_load(RnnCode *s, V p, V mask);  // mask NULL: whole vector
void cg_rnn_store(RnnCode *s, V v, V p, V mask);
V cg_rnn_mask(RnnCode *s, V lanes);            // NULL when every block of units is whole
V cg_rnn_state_mask(RnnCode *s, V lanes);      // the same of h
V cg_rnn_stored(RnnCode *s, uint32_t result);  // pointer; NULL: not stored
V cg_rnn_part(RnnCode *s, int64_t offset);     // of scratch

// ---- codegen/rnn/partition.c: shares
RnnPartition cg_rnn_partition(RnnCode *s, uint32_t d, uint32_t n_seqs);  // of sequence number d; needs `batch`
uint32_t cg_rnn_number(const Fn *f, Val head);                           // d, in its kernel
// After the common set-up, which is partitioned by units: a team partitioned by sequences passes a barrier and goes on
// with own rows, all units and no further barriers.
void cg_rnn_own_rows(RnnCode *s);
V cg_rnn_own(RnnCode *s, V n);  // number of own positions among the first n

// ---- codegen/rnn/recurrent_gemm.c: products of the rows of a step with a packed weight
// Tiles over `rows` rows; strides of rows are constants.
void cg_rnn_tiles(Cg *c, const TileSpec *s, const TileArgs *a, V rows);
int64_t cg_rnn_kc(const Target *t, uint32_t nv, int64_t k);  // rows of a packed weight nv vectors wide
// c[row][own columns] = sum over k of a[row][k] b[block][k][column]
typedef struct {
  V a, b, c;
  V rows;
  V block_lo, block_hi;
  int64_t a_row, k, width;  // a row of a, of b's block, of c, in elements
  int64_t b_rows;           // of a packed block; 0: k
  bool add;                 // c += instead
} RnnProduct;
void cg_rnn_product(RnnCode *s, const RnnProduct *p);

// ---- codegen/rnn/gates.c: on vectors of vl
V cg_gate_sigmoid(Cg *c, V x);
V cg_gate_tanh(Cg *c, V x);

// ---- codegen/rnn/projection.c: the projection of h
typedef struct {
  V packed;  // w_hr
  V full;    // [rows of the step, H]
  V h;       // [rows of the step, P]
} RnnProjection;
RnnProjection cg_rnn_projection_open(RnnCode *s);  // packs own columns of w_hr
void cg_rnn_forward(RnnCode *s);
void cg_rnn_backward(RnnCode *s);

#endif
