// The search behind tenure bisect.
#ifndef TN_TOOLS_BISECT_H
#define TN_TOOLS_BISECT_H

#include "tools/self_check.h"

typedef struct {
  Finding found;
  bool is_rule;          // an application of a rule does it: rule_number of the function, told as found.rule
  uint64_t rule_number;  // from 1
} Culprit;
Culprit bisect_find(SelfCheck c);
const char *bisect_what(CheckVerdict v);  // "a pass changes what is computed"

#endif
