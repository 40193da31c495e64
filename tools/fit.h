// Ways to have a bound in the memory that there is (tools/fit_ways.c), for tools/fit.c.
#ifndef TN_TOOLS_FIT_H
#define TN_TOOLS_FIT_H

#include "tools/tool.h"

typedef struct {
  RtArena *mem;
  const char *path, *text, *function;  // text: of p, with locations; function: its arena alone counts; NULL: all
  const Prog *p;                       // as written
  Dim dim;
  int64_t memory;
  bool recomputes;
} FitAsk;

typedef struct {
  uint32_t shards;
  int64_t limit;  // of the arena, with which kernels run again; 0: none does
  int64_t arena;
  int64_t kept;  // parameters and state, constants, packed weights
  double ns;     // of one run of all functions, estimated
} FitWay;
typedef struct {
  FitWay *list;  // as written, then more shards
  uint32_t n, cap;
  const char *why_none;  // why there are no more shards; NULL: the last one fits, or there were enough
} FitWays;
FitWays tool_fit_ways(const FitAsk *ask);
int64_t tool_way_bytes(const FitWay *w);
void tool_put_fit_ways(const FitAsk *ask, const FitWays *ways, RtText *out);
void tool_json_fit_ways(const FitAsk *ask, const FitWays *ways, RtText *out);  // member "ways" of an object

#endif
