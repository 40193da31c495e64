// A packed layout's tables, found in its words.
#ifndef TN_IR_INTERP_PACKED_H
#define TN_IR_INTERP_PACKED_H

#include "ir/interp/interp.h"

typedef struct {
  double *head;  // TN_LAYOUT_STEPS, ..
  double *batch_sizes, *offsets, *sorted, *unsorted, *lengths;
  int64_t max_time;
} Layout;

Layout run_layout_of(const Run *r, Val layout);

#endif
