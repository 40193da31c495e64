// `tenure targets`: the rows of codegen/target.c that programs can be compiled for.
#include "codegen/cg.h"
#include "tools/tool.h"

#include <stdio.h>

int tool_targets(void) {
  RtArena *mem = rt_arena_new();
  RtText text = {.mem = mem};
  cg_targets_text(&text);
  fputs(text.text, stdout);
  rt_arena_free(mem);
  return 0;
}
