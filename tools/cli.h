// The command line of `tenure`, read by the table tools/commands.def, and what is made from the same table: help, the man
// page, completion.
//
//   int tool_fit(const CliArgs *a) {
//     const char *file = a->operand[0], *dim = cli_value(a, "--dim");
#ifndef TN_TOOLS_CLI_H
#define TN_TOOLS_CLI_H

#include "runtime/base.h"

enum { EXIT_ERRORS = 1, EXIT_USAGE = 2 };

typedef struct CliArgs CliArgs;
typedef int CliRun(const CliArgs *a);

typedef enum {
  CLI_FLAG,
  CLI_TEXT,
  CLI_MANY,
  CLI_FILE,
  CLI_PASSES,
  CLI_RULES_OPTIONAL,
  CLI_FUNCTION,
  CLI_CHOICE
} CliKind;
typedef enum { ROW_EXIT, ROW_COMMAND, ROW_TEXT, ROW_OPTION, ROW_EXAMPLE } CliRowKind;
typedef struct {
  CliRowKind row;
  const char *name;   // of a command, an option; the words of an example; a paragraph
  const char *value;  // what an option takes; a command's operands
  const char *doc;
  CliKind kind;          // of an option
  uint32_t least, most;  // operands of a command; least: a status
  CliRun *run;
} CliRow;
extern const CliRow cli_rows[];
extern const uint32_t cli_n_rows;

typedef struct {
  const CliRow *option;
  const char *value;  // NULL: none
} CliOption;
struct CliArgs {
  const CliRow *command;
  const char **operand;
  CliOption *options;
  uint32_t n_operands, n_options;
};

// Runs the command that argv names; exit status.
int cli_main(int argc, char **argv);

// ---- what was given; the names are those of the command's rows
bool cli_has(const CliArgs *a, const char *option);
const char *cli_value(const CliArgs *a, const char *option);  // the last one; NULL: none
// Option k of this name, from 0; NULL: there are no more
const char *cli_value_at(const CliArgs *a, const char *option, uint32_t k);
// A whole number of at least `least`; `otherwise` where the option is absent. False: said why, status EXIT_USAGE.
typedef struct {
  int64_t least, most;
} CliRange;
bool cli_number(const CliArgs *a, const char *option, CliRange r, int64_t otherwise, int64_t *out);
// 4096, 64KB, 64KiB, 4MB, 1.5GiB: K.. are powers of 1000, Ki.. of 1024
bool cli_bytes(const CliArgs *a, const char *option, int64_t otherwise, int64_t *out);
// Says it on stderr, with the command's usage line; EXIT_USAGE.
int cli_usage_error(const CliArgs *a, const char *fmt, ...) RT_PRINTF(2, 3);

// ---- walking the table
const CliRow *cli_next(const CliRow *after, CliRowKind kind);  // NULL: the first of all; NULL: no more
// Of a command; NULL: those of all commands
const CliRow *cli_next_of(const CliRow *command, const CliRow *after, CliRowKind kind);
const char *cli_option_text(const CliRow *option, RtText *out);  // --passes=LIST

// ---- tools/help.c, tools/man.c, tools/completion.c
void cli_help(RtText *out);
void cli_command_help(const CliRow *command, RtText *out);
void cli_usage(const CliRow *command, RtText *out);  // one line: usage: tenure opt [options] FILE.tir

#define EXIT(...)
#define TEXT(...)
#define OPTION(...)
#define EXAMPLE(...)
#define COMMAND(name, ...) CliRun tool_##name;
#define COMMAND_AS COMMAND  // its name is no identifier
#include "tools/commands.def"
#undef COMMAND_AS
#undef COMMAND
#undef EXAMPLE
#undef OPTION
#undef TEXT
#undef EXIT

#endif
