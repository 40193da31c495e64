// tenure man: tenure(1) from the table of commands.
#include "tools/tool.h"

#include <string.h>

#ifndef TN_VERSION
#define TN_VERSION "unknown"
#endif

// Text of the page: - is no hyphen, a line begins with no control character.
static void put(RtText *out, const char *s) {
  if (*s == '.' || *s == '\'') rt_text_put(out, "\\&", 2);
  for (; *s; s++) {
    if (*s == '-') rt_text_put(out, "\\-", 2);
    else if (*s == '\\') rt_text_put(out, "\\e", 2);
    else rt_text_put(out, s, 1);
  }
}

static void put_bold(RtText *out, const char *s) {
  rt_text_add(out, "\\fB");
  put(out, s);
  rt_text_add(out, "\\fR");
}

static void put_row(RtText *out, const char *name, const char *doc) {
  rt_text_add(out, ".TP\n");
  put_bold(out, name);
  rt_text_add(out, "\n");
  put(out, doc);
  rt_text_add(out, "\n");
}

static void put_options(const CliRow *command, RtText *out) {
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_OPTION));) {
    RtText name = {.mem = out->mem};
    put_row(out, cli_option_text(r, &name), r->doc);
  }
}

static void put_command(const CliRow *command, RtText *out) {
  rt_text_add(out, ".SS ");
  put_bold(out, rt_printf(out->mem, "tenure %s", command->name));
  rt_text_add(out, " ");
  put(out, command->value);
  rt_text_add(out, "\n");
  put(out, command->doc);
  rt_text_add(out, ".\n");
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_TEXT));)
    rt_text_add(out, ".PP\n"), put(out, r->name), rt_text_add(out, "\n");
  put_options(command, out);
  rt_text_add(out, ".PP\nExamples:\n");
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_EXAMPLE));)
    put_row(out, rt_printf(out->mem, "tenure %s %s", command->name, r->name), r->doc);
}

static int man(RtArena *mem, void *ctx) {
  (void)ctx;
  RtText out = {.mem = mem};
  rt_text_add(&out, ".TH TENURE 1 \"\" \"tenure " TN_VERSION
                    "\"\n.SH NAME\ntenure \\- looks at, runs and searches programs of "
                    "the Tenure compiler\n.SH SYNOPSIS\n.B tenure\n\\fICOMMAND\\fR ..\n.SH DESCRIPTION\n"
                    "Programs are read from .tir text, as tn_dump writes it; \\- is standard input.\n.SH COMMANDS\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) put_command(r, &out);
  rt_text_add(&out, ".SH OPTIONS OF ALL COMMANDS\n");
  put_options(NULL, &out);
  rt_text_add(&out, ".SH EXIT STATUS\n");
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_EXIT));) put_row(&out, rt_printf(mem, "%u", r->least), r->doc);
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

int tool_man(const CliArgs *a) {
  (void)a;
  return tool_with_arena(man, NULL);
}
