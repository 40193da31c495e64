// All cases of ops, by table. A new table is a header made by a script of its own, and a line here.
#ifndef TN_TESTS_OP_TABLES_H
#define TN_TESTS_OP_TABLES_H

#include "tests/op_cases.h"

#include "tests/goldens_attention.h"
#include "tests/goldens_ops.h"
#include "tests/goldens_order.h"
#include "tests/goldens_packed.h"
#include "tests/goldens_shape.h"
#include "tests/goldens_sparse.h"

static const struct {
  const OpCase *cases;
  uint32_t n;
} op_tables[] = {
    {op_cases, sizeof op_cases / sizeof *op_cases},
    {attention_cases, sizeof attention_cases / sizeof *attention_cases},
    {order_cases, sizeof order_cases / sizeof *order_cases},
    {packed_cases, sizeof packed_cases / sizeof *packed_cases},
    {shape_cases, sizeof shape_cases / sizeof *shape_cases},
    {sparse_cases, sizeof sparse_cases / sizeof *sparse_cases},
};
enum { N_OP_TABLES = sizeof op_tables / sizeof *op_tables };

// Every case whose name contains `part`; NULL: every case
static inline void case_check_all(const char *part, CaseRunner *run, double tolerance) {
  for (uint32_t t = 0; t < N_OP_TABLES; t++)
    for (uint32_t k = 0; k < op_tables[t].n; k++)
      if (!part || strstr(op_tables[t].cases[k].name, part)) case_check(&op_tables[t].cases[k], run, tolerance);
}

#endif
