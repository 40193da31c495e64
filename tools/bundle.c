// tenure bundle: a program of .tir text as an object and a header. tenure targets: what it can be compiled for.
#include "codegen/cg.h"
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
  if (!cli_has(a, "-o")) return cli_usage_error(a, "where do the files go? -o DIR/NAME");
  if (!cli_number(a, "--seed", 0, 0, &seed)) return EXIT_USAGE;
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
                               .fast_math = cli_has(a, "--fast-math")};
  tn_program *p = tn_program_parse(text, n, strcmp(file, "-") ? file : "<stdin>");
  tn_status status = p ? (tn_bundle)(p, cli_value(a, "-o"), o) : TN_ERR_MEMORY;
  tn_program_free(p);
  return status ? EXIT_ERRORS : 0;
}

int tool_bundle(const CliArgs *a) { return tool_with_arena(bundle_in, (void *)(uintptr_t)a); }

// ---- targets
static void put_json(const Target *t, bool here, RtText *out) {
  rt_text_add(out, "{\"name\": \"%s\", \"alias\": \"%s\", \"triple\": \"%s\", \"cpu\": \"%s\", \"features\": \"%s\", ",
              t->name, t->alias ? t->alias : "", t->triple ? t->triple : "host", t->cpu, t->features);
  rt_text_add(out, "\"lanes\": %u, \"pointer_bits\": %u, \"runs_here\": %s}", t->vl, t->pointer_bits,
              here ? "true" : "false");
}

static int targets_in(RtArena *mem, void *ctx) {
  const CliArgs *a = ctx;
  RtText out = {.mem = mem};
  uint32_t n;
  const Target *t = cg_targets(&n);
  bool json = cli_has(a, "--json");
  rt_text_add(&out, json ? "[" : "%-12s %-11s %-30s %5s %7s  %s\n", "name", "alias", "triple", "lanes", "pointer",
              "here");
  for (uint32_t k = 0; k < n; k++) {
    char lack[TARGET_LACK] = "";
    bool here = cg_target_runs_here(&t[k], lack);
    if (json) rt_text_add(&out, k ? ",\n " : ""), put_json(&t[k], here, &out);
    else
      rt_text_add(&out, "%-12s %-11s %-30s %5u %7u  %s%s\n", t[k].name, t[k].alias ? t[k].alias : "",
                  t[k].triple ? t[k].triple : "host", t[k].vl, t[k].pointer_bits, here ? "yes" : "no: needs ",
                  here ? "" : lack);
  }
  if (json) rt_text_add(&out, "]\n");
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

int tool_targets(const CliArgs *a) { return tool_with_arena(targets_in, (void *)(uintptr_t)a); }
