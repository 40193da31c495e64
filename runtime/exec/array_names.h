// Arrays of a run that are given by name, put in the order of the signature.
#ifndef TN_RUNTIME_EXEC_ARRAY_NAMES_H
#define TN_RUNTIME_EXEC_ARRAY_NAMES_H

#include "runtime/exec/instance.h"

// Of arrays that f takes, as inputs or as outputs: what n counts beyond them is not looked at.
bool rt_any_named(const RtFunction *f, bool outputs, const RtArray *a, size_t n);
// `ordered` has room for one array of each port. False: a name that is not there, given twice or missing, an array without
// one among named ones, or more of them than there are ports; the sentence is in `error`.
bool rt_order_by_name(const RtFunction *f, bool outputs, const RtArray *given, size_t n, RtArray *ordered, char *error,
                      size_t error_size);

#endif
