// Whether every element of an i64 input is in the range that a function's check gives (RtCheck). Needs no C library.
#ifndef TN_RUNTIME_EXEC_VALUE_CHECK_H
#define TN_RUNTIME_EXEC_VALUE_CHECK_H

#include "runtime/exec/plan_types.h"

typedef struct {
  const RtCheck *check;
  const int64_t *data;
  int64_t n;               // elements
  const int64_t *lengths;  // of packed checks: by sequence
  const int64_t *dims;     // this run's value of every row of RtPlan.dims
} RtValueCheck;

typedef enum { RT_VALUE_GOOD, RT_VALUE_RANGE, RT_VALUE_ORDER, RT_VALUE_SUM } RtValueFault;
typedef struct {
  int64_t index, value;
  int64_t last;    // RANGE: the largest that is allowed; SUM, which is `value`, too
  int64_t before;  // ORDER: the value before it
} RtBadValue;

RtValueFault rt_find_bad_value(const RtValueCheck *c, RtBadValue *bad);

#endif
