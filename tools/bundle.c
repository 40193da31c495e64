// tenure bundle: a program of .tir text as an object and a header.
#include "frontend/tenure.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int bundle_in(RtArena *mem, void *ctx) {
  const CliArgs *a = ctx;
  const char *file = a->operand[0];
  int64_t seed;
  size_t n;
  ToolPlan limits;
  if (!cli_has(a, "-o")) return cli_usage_error(a, "where do the files go? -o DIR/NAME");
  if (!cli_number(a, "--seed", (CliRange){0, INT64_MAX}, 0, &seed) || !tool_plan_limits(&limits, a)) return EXIT_USAGE;
  char *text = tool_read_file(mem, file, &n);
  if (!text) {
    fprintf(stderr, "tenure: %s: %s\n", file, strerror(errno));
    return EXIT_ERRORS;
  }
  const tn_bundle_options o = {.name = cli_value(a, "--name"),
                               .targets = cli_value(a, "--target"),
                               .functions = cli_value(a, "--functions"),
                               .emit = cli_value(a, "--emit"),
                               .section = cli_value(a, "--section"),
                               .weights = cli_value(a, "--weights"),
                               .seed = (uint64_t)seed,
                               .embed_weights = cli_has(a, "--embed-weights"),
                               .has_workers = cli_has(a, "--workers"),
                               .small = cli_has(a, "--size"),
                               .fast_math = cli_has(a, "--fast-math"),
                               .exact_convolution = cli_has(a, "--exact-convolution"),
                               .arena_limit = (size_t)limits.arena_limit,
                               .recompute = limits.recomputes ? TN_RECOMPUTE_AUTO : TN_RECOMPUTE_OFF};
  tn_program *p = tn_program_parse(text, n, strcmp(file, "-") ? file : "<stdin>");
  tn_status status = p ? (tn_bundle)(p, cli_value(a, "-o"), o) : TN_ERR_MEMORY;
  tn_program_free(p);
  return status ? EXIT_ERRORS : 0;
}

int tool_bundle(const CliArgs *a) { return tool_with_arena(bundle_in, (void *)(uintptr_t)a); }
