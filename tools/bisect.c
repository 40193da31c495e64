// tenure bisect FILE.tir: the first pass that changes what a function computes, or leaves what the verifier refuses, and
// in it the first application of a rewrite rule that does.
#include "tools/bisect.h"
#include "ir/text/text.h"
#include "ir/verify.h"

#include "tools/json.h"
#include "tools/tool.h"

#include <errno.h>
#include <string.h>

static void put_text(const Culprit *k, RtText *out) {
  const Finding *f = &k->found;
  if (f->verdict == CHECK_SAME) {
    rt_text_add(out, "the same results after each pass: %u functions, %u passes\n", f->n_functions, f->n_passes);
    return;
  }
  rt_text_add(out, "@%s: %s%s%s\n  %s\n", f->function, bisect_what(f->verdict), *f->pass ? ": " : "", f->pass, f->why);
  if (k->is_rule)
    rt_text_add(out, "  with application %llu of a rewrite rule, not without it:\n%s",
                (unsigned long long)k->rule_number, f->rule);
}

static void put_json(const Culprit *k, RtText *out) {
  const Finding *f = &k->found;
  json_open(out, NULL, '{');
  json_bool(out, "same", f->verdict == CHECK_SAME);
  json_text(out, "verdict", bisect_what(f->verdict));
  json_text(out, "function", f->function);
  json_text(out, "pass", *f->pass ? f->pass : NULL);
  json_text(out, "why", f->why);
  json_text(out, "rule_application", k->is_rule ? f->rule : NULL);
  if (k->is_rule) json_int(out, "rule_number", (int64_t)k->rule_number);
  json_close(out, '}');
  rt_text_add(out, "\n");
}

static int bisect(RtArena *mem, void *ctx) {
  const CliArgs *a = ctx;
  size_t n;
  const char *path = a->operand[0], *passes = cli_value(a, "--passes"), *function = cli_value(a, "--function");
  int64_t seed;
  if (!cli_number(a, "--seed", (CliRange){0, INT64_MAX}, 0, &seed)) return EXIT_USAGE;
  char *text = tool_read_file(mem, path, &n);
  if (!text) return fprintf(stderr, "tenure: %s: %s\n", path, strerror(errno)), EXIT_ERRORS;
  if (!strcmp(path, "-")) path = "<stdin>";
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text, n, path, &diags);
  for (uint32_t k = 0; p && k < p->n_fns; k++) ir_verify(p->fns[k], &diags);
  rt_diags_print(&diags, stderr);
  if (!p || diags.n_errors || (function && !tool_function(p, path, function))) return EXIT_ERRORS;
  SelfCheck c = {.text = text,
                 .n = n,
                 .path = path,
                 .passes = passes && strcmp(passes, "all") ? passes : NULL,
                 .function = function ? function + (*function == '@') : NULL,
                 .seed = (uint64_t)seed};
  Culprit k = bisect_find(c);
  RtText out = {.mem = mem};
  if (cli_has(a, "--json")) put_json(&k, &out);
  else put_text(&k, &out);
  return tool_put(&out) && k.found.verdict == CHECK_SAME ? 0 : EXIT_ERRORS;
}

int tool_bisect(const CliArgs *a) {
  if (!tool_are_passes(a, cli_value(a, "--passes"), false)) return EXIT_USAGE;
  return tool_with_arena(bisect, (void *)(uintptr_t)a);
}
