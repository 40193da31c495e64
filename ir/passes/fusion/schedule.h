// Schedule of pass schedule: kernels of one level do not wait for each other (ir/passes/fusion/schedule.c).
#ifndef TN_IR_PASSES_FUSION_SCHEDULE_H
#define TN_IR_PASSES_FUSION_SCHEDULE_H

#include "ir/ir.h"
#include "ir/passes/plan.h"

typedef struct {
  Fn *f;
  const Val *makers;           // of sizes that a run computes: ir_rows_makers
  uint32_t *level;             // by value
  uint32_t *min_level;         // by value: lower bound of its level, set by sinking
  uint32_t *anchor;            // by value: the product into whose kernel it fuses; 0: none
  const uint32_t *fused_into;  // by value: the product into whose prologue it fuses; 0: none
  RowSpace *rows;              // by value: the row space of its kernel, where `by_rows`
  bool *by_rows;               // by value
  bool *may_be_source;         // by value: pointwise of what is there before any product; not found to be no source
  bool *has_update;            // by product: an update may fuse into its kernel, which is then the last of its level
  // By base value: 1 + 2 * the highest level that reads its buffer so far, fused readers included; one more where the
  // reader is a kernel with a fused update. A write must not come before.
  uint32_t *after;
  uint32_t faulting_writes_from;  // lowest level of parameter writes that may fault
  uint32_t writes_from;           // lowest level of all other parameter writes
  uint32_t *first;                // CSR use lists: readers[first[i]] .. readers[first[i + 1] - 1] read value i
  uint32_t *readers;
  bool *for_mask;  // by value: may be a source of an epilogue for the sake of a mask of it, or of what is made of it
  bool *has_row_reader;    // by value: a row op reads its rows
  bool *has_other_reader;  // by value: something else reads it
} Schedule;

bool ir_makes_kernel(const Fn *f, Val v);
bool ir_fuses_by_rows(const Schedule *s, Val v, uint32_t k);  // v fuses into the row kernel that defines operand k
bool ir_fuses_with(const Schedule *s, Val v, uint32_t k);     // v can fuse into the kernel that defines operand k
bool ir_is_for_rows(const Schedule *s, Val v);                // v fuses into its row readers, not into a product
void ir_find_levels(Schedule *s);                             // from min_level
bool ir_is_source(const Schedule *s, Val v);                  // ir/passes/fusion/epilogue_sources.c
void ir_find_sources(Schedule *s);
bool ir_check_sources(Schedule *s);  // false: some were none, levels are to be found again
void ir_drop_sources(Schedule *s);
void ir_raise_source(Schedule *s, uint32_t anchor, Val v);
bool ir_is_before_anchor(const Schedule *s, Val a, uint32_t anchor);
void ir_note_reads(Schedule *s, Val v);
void ir_find_updates(Schedule *s);                       // ir/passes/fusion/fuse_update.c
uint32_t ir_anchor_of_update(const Schedule *s, Val v);  // the product into whose kernel an update fuses; 0: none
void ir_wait_for_scales(Schedule *s);                    // ir/passes/fusion/wait_for_scales.c: sets min_level
void ir_sink(Schedule *s);                               // ir/passes/fusion/sink.c: likewise
void ir_postpone(Schedule *s);                           // ir/passes/fusion/postpone.c: likewise
#endif
