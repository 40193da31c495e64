// The rows of ir/*.def as text.
#include "tools/gen/gen.h"

#include <string.h>

#define POINTWISE(n, n_args, value, text, ...) \
  {.name = #n,                                 \
   .doc = text,                                \
   .is_pointwise = true,                       \
   .n_operands = n_args,                       \
   .n_results = 1,                             \
   .forward = value,                           \
   .grad = {__VA_ARGS__}},
#define NULLARY(n, fwd, op_flags, text) POINTWISE(n, 0, #fwd, text, NULL)
#define UNARY(n, fwd, ga, op_flags, text) POINTWISE(n, 1, #fwd, text, #ga)
#define BINARY(n, fwd, ga, gb, op_flags, text) POINTWISE(n, 2, #fwd, text, #ga, #gb)
#define TERNARY(n, fwd, ga, gb, gc, op_flags, text) POINTWISE(n, 3, #fwd, text, #ga, #gb, #gc)
#define ARG(n, flags) " " #n
#define OPT(n, flags) " [" #n "]"
#define LIST(n, least, most, flags) " " #n ".."
#define OP(n, row_operands, results, shape_rule, rule, cls, by_rows, op_flags, text) \
  {.name = #n,                                                                       \
   .doc = text,                                                                      \
   .operands = "" row_operands,                                                      \
   .n_results = results,                                                             \
   .grad_rule = #rule,                                                               \
   .op_class = #cls,                                                                 \
   .rows = #by_rows,                                                                 \
   .flags = #op_flags},
const OpRow gen_ops[] = {
#include "ir/ops.def"
    {0}};

#define BY_HAND(n) #n,
static const char *const by_hand[] = {
#include "ir/ops.def"
    NULL};

#define ATTR(n, kind) {#n, #kind},
const AttrRow gen_attrs[] = {
#include "ir/attrs.def"
    {0}};

#define TAKES(op, key, presence, range) {#op, #key, #presence, #range},
const TakesRow gen_takes[] = {
#include "ir/op_attrs.def"
    {0}};

#define PASS(name, needs, gives, on, text) {#name, #needs, #gives, #on, text},
const PassRow gen_passes[] = {
#include "ir/passes/passes.def"
    {0}};

#define DIAG(number, severity, name, text) {number, #severity, #name, text},
const DiagRow gen_diags[] = {
#include "ir/diag.def"
    {0}};

const char *gen_kind(const char *key) {
  for (const AttrRow *a = gen_attrs; a->name; a++)
    if (!strcmp(a->name, key)) return a->kind;
  return "";
}

bool gen_has_call(const OpRow *op) {
  if (!op->is_pointwise || op->n_operands == 0) return false;
  for (const char *const *name = by_hand; *name; name++)
    if (!strcmp(*name, op->name)) return false;
  return true;
}

bool gen_has_in_place(const OpRow *op) { return gen_has_call(op) && op->n_operands < 3; }
