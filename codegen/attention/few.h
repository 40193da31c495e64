// Attention of few queries: keys and values are read in place, in order of addresses, which takes as long as memory does; copying them
// would take longer than the products.
//
//   cg_attention_few_choose(&f, s);   before chunks are cut
//   cg_attention_few_open(&f);        f.scores
//   kv = f.dots ? cg_attention_few_unit(&f, unit) : unit; f.k = .., f.v, f.q, f.out    of each unit
//   cg_attention_few_scores(&f, i, m, k0, n);
//   cg_attention_few_values(&f, i, m, k0, n);
#ifndef TN_CODEGEN_ATTENTION_FEW_H
#define TN_CODEGEN_ATTENTION_FEW_H

#include "codegen/attention/attention.h"

typedef struct {
  AttnCode *s;
  // Heads of keys whose rows lie side by side and whose scores are the lanes of one vector; 0: rows are read head by head
  int64_t dots;
  int64_t most;     // vectors of heads that a unit has, at most
  V size, n;        // those of a whole unit, of the open one
  V step_heads;     // heads of keys of the open one
  AttnRows k, v;    // of the first of them
  AttnTile q, out;  // of the chunk
  V scores;         // [rows][keys] of a block of keys
  V squares;  // scores whose lanes are parts of the block or heads: [rows][keys / vl][vl] or [most][keys][vl]; NULL: not needed
  V sums;  // [rows][size_up] of values of several heads
} AttnFew;

bool cg_attention_is_few(const AttnCode *s);
void cg_attention_few_choose(AttnFew *f, AttnCode *s);
void cg_attention_few_open(AttnFew *f);       // in the entry block
V cg_attention_few_units(AttnFew *f);         // of several heads, of a sequence
V cg_attention_few_unit(AttnFew *f, V unit);  // opens it: its first head of keys
// Of rows i .. i + m of the chunk against the keys k0 .. k0 + n: scores as they are; adds their product with values to the result.
// With several heads the rows are all those of a step.
void cg_attention_few_scores(AttnFew *f, V i, V m, V k0, V n);
void cg_attention_few_values(AttnFew *f, V i, V m, V k0, V n);

#endif
