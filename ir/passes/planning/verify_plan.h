// Shared by the two halves of pass verify_plan: verify_plan.c checks buffers and live ranges, verify_plan_kernel.c one kernel.
#ifndef TN_IR_PASSES_PLANNING_VERIFY_PLAN_H
#define TN_IR_PASSES_PLANNING_VERIFY_PLAN_H

#include "ir/ir.h"

// One E2 "plan of @f: %v ..", at v's source line; always false.
bool ir_plan_broken(Fn *f, Val v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

Val ir_plan_shown(const Fn *f, Val v);                      // the value that v is a view of, or v
bool ir_plan_overlap(const Fn *f, uint32_t a, uint32_t b);  // the buffers share bytes, or are one
int64_t ir_plan_bytes(const Fn *f, Val v);                  // size of v's type at the bounds of this plan

// An output alias: its operand is computed into the caller's memory.
bool ir_plan_is_same_bytes(const Fn *f, Val v);

bool ir_plan_check_kernel(Fn *f, uint32_t kernel);  // verify_plan_kernel.c

#endif
