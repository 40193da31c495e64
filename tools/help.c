// --help: of the whole command, of one command.
#include "tools/cli.h"

#include <string.h>

enum { WIDTH = 92, INDENT = 22 };

// Words of `text` from column `column` on, broken at WIDTH, continued at `indent`.
static void wrap(RtText *out, const char *text, size_t column, size_t indent) {
  for (bool first = true; *text; first = false) {
    size_t n = strcspn(text, " ");
    bool breaks = !first && column + 1 + n > WIDTH;
    if (breaks) rt_text_add(out, "\n%*s", (int)indent, ""), column = indent;
    else if (!first) rt_text_put(out, " ", 1), column++;
    rt_text_put(out, text, n);
    column += n;
    text += n + (text[n] == ' ');
  }
  rt_text_put(out, "\n", 1);
}

// `  name   doc`; a long name has the doc on a line of its own
static void row(RtText *out, const char *name, const char *doc) {
  size_t n = strlen(name) + 2;
  rt_text_add(out, "  %s", name);
  if (n + 2 > INDENT) rt_text_add(out, "\n%*s", INDENT, "");
  else rt_text_add(out, "%*s", (int)(INDENT - n), "");
  wrap(out, doc, INDENT, INDENT);
}

const char *cli_option_text(const CliRow *option, RtText *out) {
  bool is_short = option->name[1] != '-';
  rt_text_add(out, "%s", option->name);
  if (option->kind == CLI_RULES_OPTIONAL) rt_text_add(out, "[=%s]", option->value);
  else if (option->kind != CLI_FLAG) rt_text_add(out, "%s%s", is_short ? " " : "=", option->value);
  return out->text;
}

static bool has_options(const CliRow *command) { return cli_next_of(command, NULL, ROW_OPTION) != NULL; }

void cli_usage(const CliRow *command, RtText *out) {
  if (!command) rt_text_add(out, "usage: tenure COMMAND ..\n");
  else
    rt_text_add(out, "usage: tenure %s%s%s%s\n", command->name, *command->value ? " " : "", command->value,
                has_options(command) ? " [OPTIONS]" : "");
}

static void exit_rows(RtText *out) {
  rt_text_add(out, "\nexit status\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_EXIT));) {
    char status[16];
    snprintf(status, sizeof status, "%u", r->least);
    row(out, status, r->doc);
  }
}

void cli_help(RtText *out) {
  cli_usage(NULL, out);
  rt_text_add(out, "\ncommands\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) row(out, r->name, r->doc);
  rt_text_add(out, "\n  tenure COMMAND --help says more; - as a file is standard input; --version\n");
  exit_rows(out);
}

static void option_rows(const CliRow *command, RtText *out) {
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_OPTION));) {
    RtText name = {.mem = out->mem};
    row(out, cli_option_text(r, &name), r->doc);
  }
}

void cli_command_help(const CliRow *command, RtText *out) {
  cli_usage(command, out);
  rt_text_add(out, "\n");
  wrap(out, command->doc, 0, 0);
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_TEXT));)
    rt_text_add(out, "\n"), wrap(out, r->name, 0, 0);
  rt_text_add(out, "\noptions\n");
  option_rows(command, out);
  option_rows(NULL, out);
  rt_text_add(out, "\nexamples\n");
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_EXAMPLE));)
    rt_text_add(out, "  tenure %s%s%s\n      %s\n", command->name, *r->name ? " " : "", r->name, r->doc);
  exit_rows(out);
}
