// tenure targets: the rows of codegen/target.c that programs can be compiled for.
#include "codegen/cg.h"
#include "tools/tool.h"

static int targets(RtArena *mem, void *ctx) {
  (void)ctx;
  RtText text = {.mem = mem};
  cg_targets_text(&text);
  return tool_put(&text) ? 0 : EXIT_ERRORS;
}

int tool_targets(const CliArgs *a) {
  (void)a;
  return tool_with_arena(targets, NULL);
}
