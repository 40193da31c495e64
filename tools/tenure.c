// The `tenure` command. main reads the command line and dispatches; tools/*.c and the library do the work.
//
//   tenure opt model.tir --passes=check_scopes,grad --dump-after=grad
//
// Exit status: 0; 1 when the input has errors (reported on stderr as file:line:column), or when two plans differ; 2
// when the command line has.
#include "runtime/format.h"
#include "runtime/near.h"
#include "tools/tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef TN_VERSION
#define TN_VERSION "unknown"
#endif

static const char usage[] =
    "usage: tenure COMMAND ..\n"
    "  opt FILE.tir [--passes=a,b|all] [--rules=a,b|-a,-b] [--dump-after=a,b|all] [--locs] [--facts] [--verify]\n"
    "                     reads a program (- is standard input), runs the passes, prints it\n"
    "    --passes=LIST      passes to run, in this order; `all` runs the whole pipeline; without it none runs\n"
    "    --rules=LIST       applies only these rewrite rules; -NAME,..: all but these\n"
    "    --dump-after=LIST  prints each function after these passes as well; rule:NAME: each application of a rule\n"
    "    --locs             prints source locations\n"
    "    --facts            prints what passes found: kernels, buffers, offsets\n"
    "    --verify           prints nothing: checks only\n"
    "  opt --rules        lists the rewrite rules\n"
    "  explain ID         what a diagnostic such as E103 or use_after_scope means, a wrong and a right program, the "
    "usual remedy\n"
    "  explain FILE.tir %value [--function NAME] [--planned]\n"
    "                     who made a value, what keeps it alive, where it lies, what it costs; @path names a "
    "parameter\n"
    "    --planned          the value is named as in the plan (opt --passes=all --facts), not as in the file\n"
    "  diff A.tir B.tir   compares two plans: status 0 when they are equal, 1 when they differ\n"
    "  report FILE.tir -o page.html\n"
    "                     one self-contained page: arena map over time, peak, ledger, kernels\n"
    "  ops                lists the operations\n"
    "  passes             lists the passes\n"
    "  --help, --version\n";

// "; did you mean --facts?": a command or an option
static const char *near_word(const char *word, RtNear *near) {
  static const char *const words[] = {"opt",        "explain",   "diff",         "report",   "ops",     "passes",
                                      "--passes",   "--rules",   "--dump-after", "--locs",   "--facts", "--verify",
                                      "--function", "--planned", "--help",       "--version"};
  *near = (RtNear){.wanted = word};
  for (size_t k = 0; k < sizeof words / sizeof *words; k++) rt_near_offer(near, words[k]);
  return rt_near_text(near);
}

int tool_usage_error(const char *what, const char *which) {
  RtNear near;
  fprintf(stderr, "tenure: %s%s%s%s\n%s", what, which ? " " : "", which ? which : "", near_word(which, &near), usage);
  return EXIT_USAGE;
}

bool tool_put(const RtText *text) {
  bool ok = fwrite(text->text, 1, text->len, stdout) == text->len && !fflush(stdout);
  if (!ok) perror("tenure: standard output");
  return ok;
}

// ---- opt

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
  const char *list = !strcmp(o->passes, "all") ? NULL : o->passes;
  bool placed = p->n_fns > 0;
  for (uint32_t k = 0; k < p->n_fns; k++) {
    if (!ir_run_passes(p->fns[k], list, dump_after, o)) return false;
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

static const char *value_of(const char *arg, const char *option) {
  size_t n = strlen(option);
  return !strncmp(arg, option, n) && arg[n] == '=' ? arg + n + 1 : NULL;
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

static int refuse_pass(const char *at) {
  char word[64], text[96 + RT_NEAR_SIZE];
  snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
  RtNear near = {.wanted = word};
  for (uint32_t k = 0; k < ir_n_passes; k++) rt_near_offer(&near, ir_passes[k].name);
  snprintf(text, sizeof text, "`tenure passes` lists the passes; not one: %s%s", word, rt_near_text(&near));
  return tool_usage_error(text, NULL);
}

static int read_opt_options(int n, char **args, OptOptions *o) {
  for (int k = 0; k < n; k++) {
    const char *v, *arg = args[k];
    if ((v = value_of(arg, "--passes"))) o->passes = v;
    else if ((v = value_of(arg, "--dump-after"))) o->dump_after = v;
    else if (value_of(arg, "--rules")) o->rules = value_of(arg, "--rules");
    else if (!strcmp(arg, "--locs")) o->flags |= PRINT_LOCS;
    else if (!strcmp(arg, "--facts")) o->flags |= PRINT_FACTS;
    else if (!strcmp(arg, "--verify")) o->verify_only = true;
    else if (arg[0] == '-' && arg[1]) return tool_usage_error("unknown option", arg);
    else if (o->file) return tool_usage_error("more than one file:", arg);
    else o->file = arg;
    const char *unknown = v ? find_unknown_pass(v, v == o->dump_after) : NULL;
    if (unknown) return refuse_pass(unknown);
  }
  return o->file ? 0 : tool_usage_error("opt needs a file", NULL);
}

static int list_rules(RtArena *mem, void *ctx) {
  (void)ctx;
  RtText text = {.mem = mem};
  ir_list_rules(&text);
  return fputs(text.text, stdout) < 0 ? EXIT_ERRORS : 0;
}

static int run_opt(int n, char **args) {
  OptOptions o = {0};
  if (n == 1 && (!strcmp(args[0], "--rules") || !strcmp(args[0], "--rules=list")))
    return tool_with_arena(list_rules, NULL);
  int status = read_opt_options(n, args, &o);
  return status ? status : tool_with_arena(opt_in, &o);
}

// ---- tables

typedef struct {
  unsigned id;
  char letter;
  const char *name, *text;
} DiagRow;

#define LETTER_ERROR 'E'
#define LETTER_WARNING 'W'
#define LETTER_NOTE 'N'
#define DIAG(id, severity, name, text) {id, LETTER_##severity, #name, text},
static const DiagRow diag_rows[] = {
#include "ir/diag.def"
};

#include "explain_pages.h"

enum { N_DIAGS = sizeof diag_rows / sizeof *diag_rows };

// By number, with a letter or without, or by name, in any case; N_DIAGS: none
static size_t find_diag(const char *which) {
  char *end;
  const char *digits = which + (*which && strchr("EWNewn", *which) != NULL);
  unsigned long id = strtoul(digits, &end, 10);
  bool is_number = end != digits && !*end;
  for (size_t k = 0; k < N_DIAGS; k++)
    if (is_number ? diag_rows[k].id == id : !strcasecmp(diag_rows[k].name, which)) return k;
  return N_DIAGS;
}

static int no_diag(const char *which) {
  static char ids[N_DIAGS][sizeof "E001"];
  char wanted[40];
  RtNear near = {.wanted = wanted};
  size_t n = 0, from = rt_is_digit(*which);  // ids without their letter, where it has none
  for (; n + 1 < sizeof wanted && which[n]; n++) wanted[n] = (char)toupper((unsigned char)which[n]);
  wanted[n] = 0;
  for (size_t k = 0; k < N_DIAGS && !which[n]; k++) {
    snprintf(ids[k], sizeof ids[k], "%c%03u", diag_rows[k].letter, diag_rows[k].id % 1000);
    rt_near_offer(&near, ids[k] + from), rt_near_offer(&near, diag_rows[k].name);
  }
  fprintf(stderr, "tenure: there is no diagnostic %s%s\n", which, rt_near_text(&near));
  return EXIT_ERRORS;
}

static int run_explain(int n, char **args) {
  if (n != 1) return tool_explain(n, args);
  size_t k = find_diag(args[0]);
  if (k == N_DIAGS && strpbrk(args[0], "./")) return tool_usage_error("explain needs a value of", args[0]);
  if (k == N_DIAGS) return no_diag(args[0]);
  const DiagRow *row = &diag_rows[k];
  printf("%c%03u %s: %s\n%s", row->letter, row->id, row->name, row->text, diag_pages[k]);
  return 0;
}

// `x weight bias?`; any number of them: `x..`
static void print_operands(const OpInfo *row) {
  for (uint32_t k = 0; k < row->n_operands; k++) {
    uint16_t flags = row->operands[k].flags;
    printf("%s%s ", ir_arg_name[row->operands[k].name], flags & OPTIONAL ? "?" : flags & REPEATED ? ".." : "");
  }
}

static int run_ops(void) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    if (op == OP_result) continue;
    const OpInfo *row = &ir_ops[op];
    printf("%-26s %-12s ", row->name, ir_class_name(row->cls));
    print_operands(row);
    printf("-> %u  %s\n", row->n_res, row->doc);
  }
  return 0;
}

static int run_passes_list(void) {
  for (uint32_t k = 0; k < ir_n_passes; k++) printf("%-11s %s\n", ir_passes[k].name, ir_passes[k].doc);
  return 0;
}

static int print_usage(void) {
  fputs(usage, stdout);
  return 0;
}

static int print_version(void) {
  puts("tenure " TN_VERSION);
  return 0;
}

static int run(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (!strcmp(command, "opt")) return run_opt(argc - 2, argv + 2);
  if (!strcmp(command, "explain")) return run_explain(argc - 2, argv + 2);
  if (!strcmp(command, "bundle")) return tool_bundle(argc - 2, argv + 2);
  if (!strcmp(command, "diff")) return tool_diff(argc - 2, argv + 2);
  if (!strcmp(command, "report")) return tool_report(argc - 2, argv + 2);
  if (!strcmp(command, "--help") || !strcmp(command, "-h") || !strcmp(command, "help")) return print_usage();
  if (!strcmp(command, "--version")) return print_version();
  if (!strcmp(command, "ops") && argc == 2) return run_ops();
  if (!strcmp(command, "passes") && argc == 2) return run_passes_list();
  return tool_usage_error(*command ? "no such command:" : "a command is missing", *command ? command : NULL);
}

int main(int argc, char **argv) {
  int status = run(argc, argv);
  if (!fflush(stdout) && !ferror(stdout)) return status;
  if (!status) perror("tenure: standard output");  // a command that noticed has said so
  return status ? status : EXIT_ERRORS;
}
