// Levels of pass schedule: kernels of one level do not wait for each other (ir/passes/schedule.c).
#ifndef TN_IR_PASSES_SCHEDULE_H
#define TN_IR_PASSES_SCHEDULE_H

#include "ir/ir.h"

typedef struct {
  Fn *f;
  const Val *makers;           // of sizes
  uint32_t *level;             // by value
  uint32_t *min_level;         // by value: its level is this one at least
  uint32_t *anchor;            // by value: the product in whose kernel it runs; 0: none
  const uint32_t *fused_into;  // by value: the same where it stands before the product, to make its operand
  RowSpace *rows;              // by value: the rows that its kernel works on, where `by_rows`
  bool *by_rows;               // by value
  bool *has_update;  // by product: an update may run in its kernel, which stands behind all others of its level
  uint32_t *after;   // by base value: 1 + 2 * highest level at which its buffer is read so far, one more where it is a
                     // kernel with an update that reads; counting fused readers
  uint32_t puts, changes;  // the least level at which parameters change: by what may refuse as well; by all else
  uint32_t *first;         // by value: readers[first[i]] up to readers[first[i + 1]] are the instructions that read it
  uint32_t *readers;
} Levels;

bool ir_makes_kernel(const Fn *f, Val v);
bool ir_fuses_by_rows(const Levels *l, Val v, uint32_t k);  // v reads operand k in the kernel of rows that makes it
bool ir_fuses_with(const Levels *l, Val v, uint32_t k);     // v can run in the kernel that makes operand k
bool ir_is_for_rows(const Levels *l, Val v);                // v is made where its rows are read, not behind a product
void ir_find_levels(Levels *l);                             // from floors
void ir_find_updates(Levels *l);                            // ir/passes/fuse_update.c
uint32_t ir_anchor_of_update(const Levels *l, Val v);       // the product in whose kernel an update runs; 0: none
void ir_sink(Levels *l);                                    // ir/passes/sink.c: floors for what is better made later
#endif
