// What forward and backward attention share: where operands lie, blocks of keys in fast order, products of blocks.
#ifndef TN_CODEGEN_ATTENTION_ATTENTION_H
#define TN_CODEGEN_ATTENTION_ATTENTION_H

#include "codegen/gemm/microkernel.h"
#include "codegen/packed/layout.h"
#include "ir/attention.h"

// Queries of a block and of a chunk. A unit of work that walks over keys keeps a chunk's state while a block of keys is
// in L1.
enum { ATTN_BLOCK = 32, ATTN_CHUNK = 256 };

typedef struct {
  Cg *c;
  Val v;
  Attention a;
  uint32_t nv, mr_q, mr_k;  // tiles: vectors; rows where rows are queries, keys
  int64_t width;            // columns of a tile
  int64_t keys;             // of a block: a multiple of width
  int64_t size_up;          // head size rounded up to whole vectors
  int64_t size_pad;         // to whole tiles
  V tq, tk, batch, heads;
  CgLayout of_q, of_k;  // of packed rows
  V offset;             // i64: query t stands at key t + offset
  V id;                 // of the random stream; NULL: no dropout
} AttnCode;

bool cg_attention_open(Cg *c, int64_t block_elements, AttnCode *s);  // block_elements: of one packed block of keys

// One head of one sequence: its rows in an operand or result.
typedef struct {
  V at;  // step `first`; of packed rows: row 0
  int64_t row;
  V first;              // NULL: 0
  V offsets, position;  // packed rows: step t is row offsets[t] + position; else NULL
} AttnRows;
AttnRows cg_attention_rows(AttnCode *s, V base, const AttnPlace *p, bool is_query, V b, V h);
V cg_attention_row(AttnCode *s, AttnRows x, V t);
// Steps [t, t + n) at a constant distance from row to row, as products want them: x itself, or of packed rows a tile [n][size_pad],
// into which they are copied where `reads` is set, and from which cg_attention_window_end writes them back.
AttnRows cg_attention_window(AttnCode *s, AttnRows x, V t, V n, V tile, bool reads);
void cg_attention_window_end(AttnCode *s, AttnRows x, AttnRows window, V t, V n);
V cg_attention_tile(AttnCode *s, int64_t rows);  // on the stack, for packed rows; else NULL
// By query of a head: f32 [B,H,Tq], or [H,rows] of packed rows.
typedef struct {
  V at, offsets, position;
} AttnNumbers;
AttnNumbers cg_attention_numbers(AttnCode *s, V base, V b, V h);
V cg_attention_number(AttnCode *s, AttnNumbers x, V t);  // pointer
// The head of keys and values that head h of the queries reads.
V cg_attention_kv_head(AttnCode *s, V h);
// Number of keys of sequence b, without padding; of its queries.
V cg_attention_length(AttnCode *s, V b);
V cg_attention_queries(AttnCode *s, V b);
// Units of work: steps [lo, hi) of the queries, or keys, of each sequence and of n_heads heads, `size` at a time; size 0: all.
// Dense: dealt in turn. Packed: longest sequence first, heads innermost, dealt there and back.
typedef struct {
  Loop l, of_sequence;
  If is_own;
  V b, head, lo, hi;
  bool is_packed;
} AttnUnits;
AttnUnits cg_attention_units(AttnCode *s, AttnRole of, int64_t n_heads, int64_t size);
bool cg_next_unit(AttnUnits *u);                      // the body runs once
V cg_attention_stack(AttnCode *s, int64_t elements);  // f32, in the kernel's frame; in its entry block only

// ---- codegen/attention/visible.c: which keys the queries see by where they stand. Nothing is emitted where neither
// causal order nor a window is asked for.
V cg_attention_key_begin(AttnCode *s, V t, V lo);  // that query t sees, not below lo
V cg_attention_key_end(AttnCode *s, V t, V hi);    // not above hi
// Queries from lo on that see key k or a later one, rounded to whole blocks of ATTN_BLOCK; up to hi that see key k or an
// earlier one.
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

// to[d][key] = rows[key][d]: [size_up][keys], zero beyond n keys and beyond the head size. n rounded up to whole tiles.
void cg_attention_transpose(AttnCode *s, AttnRows rows, V t, V n, V to);
// to[key][d], rows of size_pad, zero beyond the head size.
void cg_attention_copy(AttnCode *s, AttnRows rows, V t, V n, V to);

// C[m][j] (+)= sum over k of A[m][k] B[k][j]
typedef struct {
  V a, b, c;
  int64_t a_row, a_k, b_k, c_row;
  V m, k;
  uint32_t mr;
  bool exact;     // m is a multiple of mr
  int64_t terms;  // of cg_attention_accumulate: upper bound of the terms that an element sums over all calls
} AttnProduct;
// Columns are n keys of a block, rounded up to whole tiles: C is a block of scores. C is overwritten.
void cg_attention_scores(AttnCode *s, const AttnProduct *p, V n);
// Columns are the elements of a head; added to C. b_is_padded: B has rows of size_pad.
void cg_attention_accumulate(AttnCode *s, const AttnProduct *p, bool b_is_padded);

// Columns j.. of a row of scores, n of them valid: the factor of dropout for each, 0 or 1 / (1 - p).
V cg_attention_dropout_scale(AttnCode *s, V row_element, V j);
// Flat element of (b, h, t, 0) in [B,H,Tq,Tk], which names the random number of key 0.
V cg_attention_element(AttnCode *s, V b, V h, V t);
bool cg_attention_whole(AttnCode *s, Dim steps, uint32_t mr);  // all blocks of that axis are multiples of mr rows
// x[0 .. size) = x * scale, or zeros where scale is NULL
void cg_attention_scale_row(AttnCode *s, V x, V scale);

void cg_attention_forward(AttnCode *s);
void cg_attention_backward(AttnCode *s);       // gradients of queries, keys, values; or that of the bias
void cg_attention_no_bias_grad(Cg *c, Val v);  // that of the bias where cg_attention_open finds no elements

int64_t cg_attention_scratch_bytes(const Fn *f, Val v, const Target *t);

#endif
