// What forward and backward attention share: where operands lie, blocks of keys in fast order, products of blocks.
#ifndef TN_CODEGEN_ATTENTION_ATTENTION_H
#define TN_CODEGEN_ATTENTION_ATTENTION_H

#include "codegen/gemm/microkernel.h"
#include "codegen/packed/layout.h"
#include "ir/attention.h"

// Rows of a block; most rows of a chunk's last block, which also takes a short rest; most rows of a chunk
enum { ATTN_ROWS = 32, ATTN_MOST_ROWS = 48, ATTN_CHUNK = 256 };

// Queries are rows of blocks: query t of the h-th of step_rows heads of a unit is row (t - lo) step_rows + h of
// a chunk that begins at query lo.
typedef struct {
  Cg *c;
  Val v;
  Attention a;
  uint32_t nv, mr_q, mr_k;  // tiles: vectors; rows where rows are queries, keys
  int64_t width;            // columns of a tile
  int64_t keys;             // of a block: a multiple of width
  int64_t size_up;          // head size rounded up to whole vectors
  int64_t size_pad;         // to whole tiles
  int64_t row_heads;        // that a step has rows for, at most
  V step_rows;              // those it has in the open unit
  V tq, tk, batch, heads;
  CgLayout of_q, of_k;  // of packed rows
  V offset;             // i64, of the open sequence: query t has the position of key t + offset
  V id;                 // of the random stream; NULL: no dropout
  V ahead;              // from a unit's head of keys to that of the worker's next unit; 0: it has none; NULL: not known
} AttnCode;

// What a kernel has on the stack
typedef struct {
  int64_t block;   // elements of a packed block of keys, at most, where tiles are not wider
  int64_t of_key;  // rows of a head by key of a block
  int64_t scores;  // blocks of scores
  int64_t of_row;  // rows of a head by row of a chunk, which has two numbers beside
} AttnStack;
extern const AttnStack cg_attention_forward_stack, cg_attention_backward_stack;

bool cg_attention_open(Cg *c, const AttnStack *x, AttnCode *s);
void cg_attention_open_sequence(AttnCode *s, V b);            // what depends on it: its offset
int64_t cg_attention_chunk(AttnCode *s, const AttnStack *x);  // rows of a chunk, at most, for which the stack has room

// Steps of one head of one sequence in an operand or result, or those of row_heads heads.
typedef struct {
  V at;  // step 0 of the first head; of packed rows: row 0
  int64_t row;
  V head;               // elements from one head to the next; NULL: there is one
  V offsets, position;  // packed rows: step t is row offsets[t] + position; else NULL
  V next;  // elements to the head that this worker comes to next, which is fetched meanwhile; NULL: it is not
} AttnRows;
AttnRows cg_attention_rows(AttnCode *s, V base, const AttnPlace *p, bool is_query, V b, V h);
V cg_attention_row(AttnCode *s, AttnRows x, V t);
// Row i of a chunk from query lo on: which query, which head from the first on, where
V cg_attention_step(AttnCode *s, V lo, V i);
V cg_attention_head(AttnCode *s, V first, V i);
V cg_attention_row_of(AttnCode *s, AttnRows x, V lo, V i);
void cg_attention_fetch_next(AttnCode *s, AttnRows x, V row);  // that row of the next head, its first elements, into L2

// Rows as products want them, at a constant distance: rows of size_pad in memory of the worker, or x itself where it has such
// rows. `memory` is NULL there.
typedef struct {
  V at;
  int64_t row;
  bool is_copy;
} AttnTile;
V cg_attention_tile_memory(AttnCode *s, const AttnPlace *p, bool is_query, int64_t rows);
AttnTile cg_attention_tile(AttnCode *s, AttnRows x, V lo, V memory);
void cg_attention_read(AttnCode *s, AttnRows x, V lo, V n, AttnTile tile);   // n rows; of keys: steps
void cg_attention_write(AttnCode *s, AttnRows x, V lo, V n, AttnTile tile);  // back
void cg_attention_clear(AttnCode *s, V n, AttnTile tile);
V cg_attention_tile_row(AttnCode *s, AttnTile tile, V i);

// By query of a head: f32 [B,H,Tq], or [H,rows] of packed rows.
typedef struct {
  V at, head, offsets, position;
} AttnNumbers;
AttnNumbers cg_attention_numbers(AttnCode *s, V base, V b, V h);
V cg_attention_number(AttnCode *s, AttnNumbers x, V lo, V i);  // pointer; of row i
// Number of keys of sequence b, without padding; of its queries; of its keys with padding.
V cg_attention_length(AttnCode *s, V b);
V cg_attention_queries(AttnCode *s, V b);
V cg_attention_key_steps(AttnCode *s, V b);
V cg_attention_longest(AttnCode *s, bool of_queries);

// Units of work go to workers 0, 1, .., n - 1, n - 1, .., 1, 0, 0, 1, .. in turn. Packed sequences come longest first and heads are
// innermost, so that adjacent units cost about the same.
//
//   for (cg_attention_deal(&d, s); cg_attention_next_sequence(&d);)
//     for (cg_attention_deal_units(&d, parts, heads); cg_attention_next_unit(&d);) ..  d.b, d.part, d.head
typedef struct {
  AttnCode *s;
  Loop sequences, units;
  If is_own;
  V dealt, n_units;
  V n_heads;
  V b, part, head;
} AttnDeal;
void cg_attention_deal(AttnDeal *d, AttnCode *s);
bool cg_attention_next_sequence(AttnDeal *d);
void cg_attention_deal_units(AttnDeal *d, V parts, V n_heads);
bool cg_attention_next_unit(AttnDeal *d);
// n steps are cut into parts of about equal size, at most `most`: the number of parts; steps [*lo, *hi) of one, none after the last
V cg_attention_parts(AttnCode *s, V n, int64_t most);
void cg_attention_part(AttnCode *s, V n, V parts, int64_t most, V part, V *lo, V *hi);
// Rows of a block. A causal query sees keys up to its own: the fewer rows a block has, the fewer masked scores are computed.
int64_t cg_attention_block_rows(const AttnCode *s);
// A rest of at most these rows joins the last block instead of becoming one of its own
int64_t cg_attention_more_rows(const AttnCode *s);
// Rows from query t on, and up to query t, of a chunk that begins at lo: whole tiles
V cg_attention_first_row(AttnCode *s, V lo, V t);
V cg_attention_end_row(AttnCode *s, V lo, V t, V n);
V cg_attention_stack(AttnCode *s, int64_t elements);  // f32, in the kernel's frame; in its entry block only

// ---- codegen/attention/visible.c: which keys queries see by their positions. Without causal order and without a window nothing
// is emitted.
V cg_attention_key_begin(AttnCode *s, V t, V lo);  // that query t sees, not below lo
V cg_attention_key_end(AttnCode *s, V t, V hi);    // not above hi
// Queries from lo on that see key k or a later one; up to hi that see key k or an earlier one.
V cg_attention_query_begin(AttnCode *s, V k, V lo);
V cg_attention_query_end(AttnCode *s, V k, V hi);
bool cg_attention_is_bounded(const AttnCode *s);       // some query may see less than all keys
bool cg_attention_is_plain_causal(const AttnCode *s);  // at most by causal order that begins at key 0
// Columns of a row of scores that are seen: [from, to), relative to the block's first key. from NULL: 0.
typedef struct {
  V from, to;
} AttnSeen;
AttnSeen cg_attention_seen(AttnCode *s, V t, V k0, V n);
V cg_attention_seen_mask(AttnCode *s, AttnSeen x, V j);  // of the vector at column j

// ---- codegen/attention/bias.c
// Row t of the bias of a head, from key k0 on. Without a bias: at is NULL.
typedef struct {
  V at;  // of the vector at column j, or of the only element where `one` is set
  bool one;
} AttnBias;
AttnBias cg_attention_bias(AttnCode *s, V base, V b, V h, V t, V k0);
V cg_attention_bias_vector(AttnCode *s, AttnBias x, V j, V mask);

// to[d][key] = tile[key][d] in panels of `width` keys, [keys / width][size_up][width]: n keys, zeros up to a whole vector and
// beyond the head size.
void cg_attention_transpose(AttnCode *s, AttnTile tile, V n, V to);
// to[key][d] = x[t + key][d] in panels of `width` elements, [size_pad / width][keys][width], zero beyond the head size.
void cg_attention_copy_panels(AttnCode *s, AttnRows x, V t, V n, V to);

// C[m][j] (+)= sum over k of A[m][k] B[k][j]
typedef struct {
  V a, b, c;
  int64_t a_row, a_k, b_k, c_row;
  int64_t b_panel;  // elements from `width` columns of B to the next ones
  V m, k;
  uint32_t mr;
  bool exact;     // m is a multiple of mr
  int64_t terms;  // of cg_attention_accumulate: upper bound of the terms that an element sums over all calls
} AttnProduct;
// Rows i .. i + m of a tile times n keys of a transposed block, rounded up to whole vectors: a block of scores at `to`.
void cg_attention_scores(AttnCode *s, AttnTile rows, V i, V m, V transposed, V n, V to);
// Columns are the elements of a head; added to C. b_is_padded: B has rows of size_pad.
void cg_attention_accumulate(AttnCode *s, const AttnProduct *p, bool b_is_padded);

// Columns j.. of a row of scores, n of them valid: the factor of dropout for each, 0 or 1 / (1 - p).
V cg_attention_dropout_scale(AttnCode *s, V row_element, V j);
// Flat element of (b, h, t, 0) in [B,H,Tq,Tk], which names the random number of key 0.
V cg_attention_element(AttnCode *s, V b, V h, V t);
bool cg_attention_whole(AttnCode *s, bool is_query, uint32_t mr);  // all blocks of that axis are multiples of mr rows
void cg_attention_scale_row(AttnCode *s, V x, V scale);            // x[0 .. size) *= scale

void cg_attention_forward(AttnCode *s);
void cg_attention_backward(AttnCode *s);       // gradients of queries, keys, values; or that of the bias
void cg_attention_no_bias_grad(Cg *c, Val v);  // that of the bias where cg_attention_open finds no elements

#endif
