// tools/explain_place.c: what `tenure explain` says of places in the source, of modules, of the peak.
#ifndef TN_EXPLAIN_PLACE_H
#define TN_EXPLAIN_PLACE_H

#include "tools/tool.h"

bool tool_is_line(const char *word);  // FILE:LINE
// word: FILE:LINE or the path of a module, which stands for all below it
bool tool_is_at(const ToolFn *f, uint32_t i, const char *word);           // is value i of the plan made there?
uint32_t tool_n_at(const ToolFn *f, const char *word, uint32_t *only);    // how many are; *only: the last
bool tool_explain_place(const ToolFn *f, const char *word, RtText *out);  // false: f has nothing there
void tool_explain_peak(const ToolPlan *t, const ToolFn *f, const PeakWays *ways, bool as_json, RtText *out);

#endif
