// tenure certificate FILE.tir: plans of all functions as lines that tenure verify-plan, and others, can check.
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tools/tool.h"

#include <errno.h>
#include <string.h>

static bool put_file(const char *path, const RtText *text) {
  FILE *out = fopen(path, "wb");
  bool good = out && fwrite(text->text, 1, text->len, out) == text->len;
  if (out && fclose(out)) good = false;
  if (!good) fprintf(stderr, "tenure: %s: %s\n", path, strerror(errno));
  return good;
}

static int certificate_in(RtArena *mem, void *ctx) {
  const CliArgs *a = ctx;
  ToolPlan t;
  if (!tool_plan_read(&t, mem, a->operand[0])) return EXIT_ERRORS;
  RtText out = {.mem = mem};
  ir_certificate(t.p, &out);
  const char *path = cli_value(a, "-o");
  return (path ? put_file(path, &out) : tool_put(&out)) ? 0 : EXIT_ERRORS;
}

int tool_certificate(const CliArgs *a) { return tool_with_arena(certificate_in, (void *)(uintptr_t)a); }
