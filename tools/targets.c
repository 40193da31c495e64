// tenure targets: the rows of codegen/target.c that programs can be compiled for.
#include "codegen/module/compile.h"
#include "tools/tool.h"

static void put_json(const Target *t, bool here, RtText *out) {
  rt_text_add(out, "{\"name\": \"%s\", \"alias\": \"%s\", \"triple\": \"%s\", \"cpu\": \"%s\", \"features\": \"%s\", ",
              t->name, t->alias ? t->alias : "", t->triple ? t->triple : "host", t->cpu, t->features);
  rt_text_add(out, "\"lanes\": %u, \"pointer_bits\": %u, \"runs_here\": %s}", t->vl, t->pointer_bits,
              here ? "true" : "false");
}

static void put_all_json(RtText *out) {
  uint32_t n;
  const Target *t = cg_targets(&n);
  for (uint32_t k = 0; k < n; k++) {
    char lack[TARGET_LACK] = "";
    rt_text_add(out, k ? ",\n " : "[");
    put_json(&t[k], cg_target_runs_here(&t[k], lack), out);
  }
  rt_text_add(out, "]\n");
}

static int targets_in(RtArena *mem, void *ctx) {
  RtText out = {.mem = mem};
  if (cli_has(ctx, "--json")) put_all_json(&out);
  else cg_targets_text(&out);
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

int tool_targets(const CliArgs *a) { return tool_with_arena(targets_in, (void *)(uintptr_t)a); }
