// tenure completion bash|zsh|fish: commands, options and the words that some of their values are, from the tables of
// commands, passes and rules. Names of functions are read from the .tir file on the line.
#include "ir/passes/passes.h"
#include "runtime/near.h"
#include "tools/tool.h"

#include <string.h>

// Words with spaces between: what completion offers for the option's value; "": names of files
static const char *value_words(const CliRow *option, RtArena *mem) {
  RtText t = {.mem = mem};
  rt_text_put(&t, "", 0);
  if (option->kind == CLI_PASSES) {
    rt_text_add(&t, "all");
    for (uint32_t k = 0; k < ir_n_passes; k++) rt_text_add(&t, " %s", ir_passes[k].name);
  }
  for (uint32_t k = 0; option->kind == CLI_RULES_OPTIONAL && k < ir_n_rules(); k++)
    rt_text_add(&t, "%s%s", k ? " " : "", ir_rule_name(k));
  if (option->kind == CLI_CHOICE) rt_text_add(&t, "%s", option->value);
  for (char *c = t.text; *c; c++)
    if (*c == '|') *c = ' ';
  return t.text;
}

// Alternatives of a command's operands, as in bash|zsh|fish; "": they are files
static const char *operand_words(const CliRow *command, RtArena *mem) {
  if (!strchr(command->value, '|') || strpbrk(command->value, " .%")) return "";
  char *words = rt_strdup(mem, command->value);
  for (char *c = words; *c; c++)
    if (*c == '|') *c = ' ';
  return words;
}

static const char *option_names(const CliRow *command, RtArena *mem) {
  RtText t = {.mem = mem};
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_OPTION));) rt_text_add(&t, "%s ", r->name);
  for (const CliRow *r = NULL; (r = cli_next_of(NULL, r, ROW_OPTION));)
    rt_text_add(&t, "%s%s", r->name, cli_next_of(NULL, r, ROW_OPTION) ? " " : "");
  return t.text;
}

// ---- bash
static const char bash_head[] =
    "# bash completion of tenure\n"
    "_tenure_functions() {\n"
    "  local word\n"
    "  for word in \"${COMP_WORDS[@]}\"; do\n"
    "    [[ $word == *.tir && -r $word ]] && sed -n 's/^func @\\([A-Za-z0-9_.]*\\).*/\\1/p' \"$word\"\n"
    "  done\n"
    "}\n"
    "_tenure() {\n"
    "  local current=$2 previous=$3 command=${COMP_WORDS[1]}\n"
    "  COMPREPLY=()\n"
    "  if [[ $previous == '=' ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
    "  if [[ $current == '=' ]]; then current=; fi\n";

static void bash_values(const CliRow *command, RtText *out) {
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_OPTION));) {
    const char *words = value_words(r, out->mem);
    if (r->kind == CLI_FLAG) continue;
    rt_text_add(out, "    %s\\ %s) ", command->name, r->name);
    if (*words) rt_text_add(out, "COMPREPLY=($(compgen -W '%s' -- \"$current\"))", words);
    else if (r->kind == CLI_FUNCTION)
      rt_text_add(out, "COMPREPLY=($(compgen -W \"$(_tenure_functions)\" -- \"$current\"))");
    else rt_text_add(out, "COMPREPLY=($(compgen -f -- \"$current\"))");
    rt_text_add(out, "; return ;;\n");
  }
}

static void bash(RtText *out) {
  rt_text_add(out, "%s  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W '", bash_head);
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) rt_text_add(out, "%s ", r->name);
  rt_text_add(out, "help --help --version' -- \"$current\"))\n    return\n  fi\n  case $command\\ $previous in\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) bash_values(r, out);
  rt_text_add(out, "  esac\n  case $command\\ $current in\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) {
    rt_text_add(out, "    %s\\ -*) COMPREPLY=($(compgen -W '%s' -- \"$current\")) ;;\n", r->name,
                option_names(r, out->mem));
    const char *words = operand_words(r, out->mem);
    if (*words) rt_text_add(out, "    %s\\ *) COMPREPLY=($(compgen -W '%s' -- \"$current\")) ;;\n", r->name, words);
  }
  rt_text_add(out, "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n  esac\n}\n"
                   "complete -o filenames -F _tenure tenure\n");
}

// ---- zsh
// In single quotes, with what _arguments takes apart escaped.
static void zsh_quoted(RtText *out, const char *s) {
  for (; *s; s++) {
    if (*s == '\'') rt_text_put(out, "'\\''", 4);
    else if (strchr("[]:\\", *s)) rt_text_add(out, "\\%c", *s);
    else rt_text_put(out, s, 1);
  }
}

static void zsh_option(const CliRow *r, RtText *out) {
  const char *words = value_words(r, out->mem), *repeats = r->kind == CLI_MANY ? "*" : "";
  bool is_long = r->name[1] == '-', takes = r->kind != CLI_FLAG;
  rt_text_add(out, " \\\n        '%s%s%s[", repeats, r->name, !takes ? "" : is_long ? "=" : "+");
  zsh_quoted(out, r->doc);
  rt_text_add(out, "]");
  if (takes) rt_text_add(out, r->kind == CLI_RULES_OPTIONAL ? "::" : ":"), zsh_quoted(out, r->value);
  if (*words) rt_text_add(out, ":(%s)", words);
  else if (r->kind == CLI_FUNCTION) rt_text_add(out, ":_tenure_functions");
  else if (takes) rt_text_add(out, ":_files");
  rt_text_add(out, "'");
}

static void zsh(RtText *out) {
  rt_text_add(out, "#compdef tenure\n"
                   "_tenure_functions() {\n"
                   "  local -a files names\n"
                   "  files=(${(M)words:#*.tir})\n"
                   "  names=(${(f)\"$(sed -n 's/^func @\\([A-Za-z0-9_.]*\\).*/\\1/p' $files 2>/dev/null)\"})\n"
                   "  compadd -a names\n"
                   "}\n"
                   "_tenure() {\n  local -a commands\n  commands=(\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) {
    rt_text_add(out, "    '%s:", r->name);
    zsh_quoted(out, r->doc);
    rt_text_add(out, "'\n");
  }
  rt_text_add(out, "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
                   "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) {
    const char *words = operand_words(r, out->mem);
    rt_text_add(out, "    %s)\n      _arguments", r->name);
    for (const CliRow *o = NULL; (o = cli_next_of(r, o, ROW_OPTION));) zsh_option(o, out);
    for (const CliRow *o = NULL; (o = cli_next_of(NULL, o, ROW_OPTION));) zsh_option(o, out);
    if (*words) rt_text_add(out, " \\\n        '*:word:(%s)' ;;\n", words);
    else rt_text_add(out, " \\\n        '*:file:_files' ;;\n");
  }
  rt_text_add(out, "  esac\n}\n_tenure \"$@\"\n");
}

// ---- fish
static void fish_quoted(RtText *out, const char *s) {
  rt_text_put(out, "'", 1);
  for (; *s; s++) {
    if (*s == '\'' || *s == '\\') rt_text_put(out, "\\", 1);
    rt_text_put(out, s, 1);
  }
  rt_text_put(out, "'", 1);
}

static void fish_option(const CliRow *command, const CliRow *r, RtText *out) {
  const char *words = value_words(r, out->mem);
  bool is_long = r->name[1] == '-';
  rt_text_add(out, "complete -c tenure");
  if (command) rt_text_add(out, " -n '__fish_seen_subcommand_from %s'", command->name);
  rt_text_add(out, " -%s %s", is_long ? "l" : "s", r->name + 1 + is_long);
  if (*words) rt_text_add(out, " -x -a '%s'", words);
  else if (r->kind == CLI_FUNCTION) rt_text_add(out, " -x -a '(__tenure_functions)'");
  else if (r->kind != CLI_FLAG) rt_text_add(out, " -r");
  rt_text_add(out, " -d ");
  fish_quoted(out, r->doc);
  rt_text_add(out, "\n");
}

static void fish(RtText *out) {
  rt_text_add(out, "# fish completion of tenure\n"
                   "function __tenure_functions\n"
                   "  for word in (commandline -opc)\n"
                   "    string match -q '*.tir' -- $word; and test -r $word\n"
                   "    and sed -n 's/^func @\\([A-Za-z0-9_.]*\\).*/\\1/p' $word\n"
                   "  end\n"
                   "end\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) {
    const char *words = operand_words(r, out->mem);
    rt_text_add(out, "complete -c tenure -n __fish_use_subcommand -f -a %s -d ", r->name);
    fish_quoted(out, r->doc);
    rt_text_add(out, "\n");
    if (*words) rt_text_add(out, "complete -c tenure -n '__fish_seen_subcommand_from %s' -f -a '%s'\n", r->name, words);
    for (const CliRow *o = NULL; (o = cli_next_of(r, o, ROW_OPTION));) fish_option(r, o, out);
  }
  for (const CliRow *o = NULL; (o = cli_next_of(NULL, o, ROW_OPTION));) fish_option(NULL, o, out);
}

// ---- the command
static const struct {
  const char *name;
  void (*print)(RtText *out);
} shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

static int completion(RtArena *mem, void *ctx) {
  const CliArgs *a = ctx;
  RtNear near = {.wanted = a->operand[0]};
  RtText out = {.mem = mem};
  for (size_t k = 0; k < sizeof shells / sizeof *shells; k++) {
    rt_near_offer(&near, shells[k].name);
    if (!strcmp(shells[k].name, a->operand[0])) return shells[k].print(&out), tool_put(&out) ? 0 : EXIT_ERRORS;
  }
  return cli_usage_error(a, "no completion for '%s'%s", a->operand[0], rt_near_text(&near));
}

int tool_completion(const CliArgs *a) { return tool_with_arena(completion, (void *)(uintptr_t)a); }
