// tenure opt FILE.tir: reads a program, runs passes, prints it.
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "runtime/near.h"
#include "tools/tool.h"

#include <errno.h>
#include <string.h>

typedef struct {
  const char *file, *passes, *dump_after, *rules;
  bool verify_only;
  uint32_t flags;  // PRINT_*
} OptOptions;

// True when the comma-separated list holds the name, or is `all`.
static bool in_list(const char *list, const char *name) {
  if (!list) return false;
  if (!strcmp(list, "all")) return true;
  for (size_t n = strlen(name); *list;) {
    size_t m = strcspn(list, ",");
    if (m == n && !memcmp(list, name, n)) return true;
    list += m + (list[m] == ',');
  }
  return false;
}

static void dump_after(Fn *f, const PassInfo *pass, void *ctx) {
  const OptOptions *o = ctx;
  if (!in_list(o->dump_after, pass->name)) return;
  RtText text = {.mem = f->prog->mem};
  ir_print_fn(f, &text, o->flags);
  printf("// after %s\n%s\n", pass->name, text.text);
}

static bool run_passes(Prog *p, OptOptions *o) {
  if (!strcmp(o->passes, "all")) return ir_plan_program(p, 0, false, &(PlanWatch){.after = dump_after, .ctx = o});
  bool placed = p->n_fns > 0;
  for (uint32_t k = 0; k < p->n_fns; k++) {
    if (!ir_run_passes(p->fns[k], o->passes, dump_after, o)) return false;
    placed = placed && (p->fns[k]->facts & HAS_OFFSETS);
  }
  return !placed || ir_plan_program_memory(p);
}

static void print_rule(const char *text) { fputs(text, stdout); }

static bool verify(const Prog *p, RtDiags *diags) {
  bool ok = true;
  for (uint32_t k = 0; k < p->n_fns; k++) ok = ir_verify(p->fns[k], diags) && ok;
  return ok;
}

static int opt_in(RtArena *mem, void *ctx) {
  OptOptions *o = ctx;
  size_t n;
  char *text = tool_read_file(mem, o->file, &n);
  if (!text) {
    fprintf(stderr, "tenure: %s: %s\n", o->file, strerror(errno));
    return EXIT_ERRORS;
  }
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text, n, strcmp(o->file, "-") ? o->file : "<stdin>", &diags);
  bool ok = p && verify(p, &diags) && ir_select_rules(p, o->rules) && ir_trace_rules(p, o->dump_after, print_rule) &&
            (!o->passes || run_passes(p, o));
  rt_diags_print(&diags, stderr);
  if (p) rt_diags_print(&p->diags, stderr);
  if (!ok) return EXIT_ERRORS;
  if (o->verify_only) return 0;
  RtText out = {.mem = mem};
  ir_print(p, &out, o->flags);
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

static bool is_pass(const char *name, size_t n) {
  for (uint32_t k = 0; k < ir_n_passes; k++)
    if (strlen(ir_passes[k].name) == n && !memcmp(ir_passes[k].name, name, n)) return true;
  return false;
}

// The first word that is no pass; NULL: there is none. Names of rules are looked up with the program at hand.
static const char *find_unknown_pass(const char *list, bool has_rules) {
  if (!strcmp(list, "all")) return NULL;
  while (*list) {
    size_t n = strcspn(list, ",");
    bool is_rule = has_rules && n > 5 && !strncmp(list, "rule:", 5);
    if (!is_rule && !is_pass(list, n)) return list;
    list += n + (list[n] == ',');
  }
  return NULL;
}

bool tool_are_passes(const CliArgs *a, const char *list, bool has_rules) {
  const char *at = list ? find_unknown_pass(list, has_rules) : NULL;
  if (!at) return true;
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
  RtNear near = {.wanted = word};
  for (uint32_t k = 0; k < ir_n_passes; k++) rt_near_offer(&near, ir_passes[k].name);
  cli_usage_error(a, "`tenure passes` lists the passes; not one: %s%s", word, rt_near_text(&near));
  return false;
}

int tool_opt(const CliArgs *a) {
  OptOptions o = {.file = a->n_operands ? a->operand[0] : NULL,
                  .passes = cli_value(a, "--passes"),
                  .dump_after = cli_value(a, "--dump-after"),
                  .rules = cli_value(a, "--rules"),
                  .verify_only = cli_has(a, "--verify"),
                  .flags = (cli_has(a, "--locs") ? PRINT_LOCS : 0) | (cli_has(a, "--facts") ? PRINT_FACTS : 0)};
  if (!o.file && o.rules && (!*o.rules || !strcmp(o.rules, "list"))) return tool_rules(a);
  if (!o.file) return cli_usage_error(a, "opt needs a file");
  if (!tool_are_passes(a, o.passes, false) || !tool_are_passes(a, o.dump_after, true)) return EXIT_USAGE;
  return tool_with_arena(opt_in, &o);
}
