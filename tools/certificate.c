// tenure certificate FILE.tir: plans of all functions as lines that tenure verify-plan, and others, can check.
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tools/tool.h"

static int certificate_in(RtArena *mem, void *ctx) {
  const CliArgs *a = ctx;
  ToolPlan t;
  if (!tool_plan_limits(&t, a)) return EXIT_USAGE;
  if (!tool_plan_read(&t, mem, a->operand[0])) return EXIT_ERRORS;
  RtText out = {.mem = mem};
  const Prog *p = t.p;
  ir_certificate(&p, 1, &out);
  return tool_put_file(cli_value(a, "-o"), &out) ? 0 : EXIT_ERRORS;
}

int tool_certificate(const CliArgs *a) { return tool_with_arena(certificate_in, (void *)(uintptr_t)a); }
