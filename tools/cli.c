// Reads the command line by the table of commands.
#include "tools/cli.h"

#include "runtime/near.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef TN_VERSION
#define TN_VERSION "unknown"
#endif

#define EXIT(s, d) {.row = ROW_EXIT, .least = s, .doc = d},
#define COMMAND(n, ...) COMMAND_AS(n, #n, __VA_ARGS__)
#define COMMAND_AS(n, text, operands, lo, hi, d) \
  {.row = ROW_COMMAND, .name = text, .value = operands, .least = lo, .most = hi, .doc = d, .run = tool_##n},
#define TEXT(t) {.row = ROW_TEXT, .name = t},
#define OPTION(n, v, k, d) {.row = ROW_OPTION, .name = n, .value = v, .kind = CLI_##k, .doc = d},
#define EXAMPLE(words, d) {.row = ROW_EXAMPLE, .name = words, .doc = d},
const CliRow cli_rows[] = {
#include "tools/commands.def"
};
const uint32_t cli_n_rows = sizeof cli_rows / sizeof *cli_rows;

// ---- walking the table
const CliRow *cli_next(const CliRow *after, CliRowKind kind) {
  for (const CliRow *r = after ? after + 1 : cli_rows; r < cli_rows + cli_n_rows; r++)
    if (r->row == kind) return r;
  return NULL;
}

const CliRow *cli_next_of(const CliRow *command, const CliRow *after, CliRowKind kind) {
  const CliRow *r = after ? after + 1 : command ? command + 1 : cli_rows;
  for (; r < cli_rows + cli_n_rows && r->row != ROW_COMMAND; r++)
    if (r->row == kind) return r;
  return NULL;
}

static const CliRow *find_command(const char *name) {
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));)
    if (!strcmp(r->name, name)) return r;
  return NULL;
}

static const CliRow *option_among(const CliRow *command, const char *name, size_t n) {
  for (const CliRow *r = NULL; (r = cli_next_of(command, r, ROW_OPTION));)
    if (strlen(r->name) == n && !memcmp(r->name, name, n)) return r;
  return NULL;
}

static const CliRow *find_option(const CliRow *command, const char *name, size_t n) {
  const CliRow *own = option_among(command, name, n);
  return own ? own : option_among(NULL, name, n);
}

// ---- what was given
const char *cli_value_at(const CliArgs *a, const char *option, uint32_t k) {
  for (uint32_t i = 0; i < a->n_options; i++)
    if (!strcmp(a->options[i].option->name, option) && !k--) return a->options[i].value ? a->options[i].value : "";
  return NULL;
}

bool cli_has(const CliArgs *a, const char *option) { return cli_value_at(a, option, 0) != NULL; }

const char *cli_value(const CliArgs *a, const char *option) {
  const char *last = NULL, *v;
  for (uint32_t k = 0; (v = cli_value_at(a, option, k)); k++) last = v;
  return last;
}

bool cli_number(const CliArgs *a, const char *option, CliRange r, int64_t otherwise, int64_t *out) {
  const char *text = cli_value(a, option);
  *out = otherwise;
  if (!text) return true;
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  *out = n;
  if (*text && !*end && n >= r.least && n <= r.most && !errno) return true;
  cli_usage_error(a, "%s wants a whole number from %lld to %lld, not '%s'", option, (long long)r.least,
                  (long long)r.most, text);
  return false;
}

static double unit_of(const char *unit) {
  static const char letters[] = "KMGT";
  const char *at = *unit ? strchr(letters, *unit & ~0x20) : NULL;
  if (!*unit || !strcmp(unit, "B")) return 1;
  if (!at) return 0;
  bool binary = unit[1] == 'i';
  const char *rest = unit + 1 + binary;
  if (*rest && strcmp(rest, "B")) return 0;
  return pow(binary ? 1024 : 1000, (double)(at - letters + 1));
}

bool cli_bytes(const CliArgs *a, const char *option, int64_t otherwise, int64_t *out) {
  const char *text = cli_value(a, option);
  *out = otherwise;
  if (!text) return true;
  char *end;
  double n = strtod(text, &end), bytes = n * unit_of(end);
  if (end != text && unit_of(end) > 0 && n >= 0 && bytes < 0x1p62) return *out = (int64_t)bytes, true;
  cli_usage_error(a, "%s wants bytes such as 4096, 64KiB or 4MB, not '%s'", option, text);
  return false;
}

// ---- mistakes
static int usage_error(const CliRow *command, const char *fmt, va_list ap) {
  fputs("tenure: ", stderr);
  vfprintf(stderr, fmt, ap);
  RtArena *mem = rt_arena_new();
  RtText usage = {.mem = mem};
  if (mem) cli_usage(command, &usage);
  if (mem)
    fprintf(stderr, "\n%s`tenure %s%s--help` says more\n", usage.text, command ? command->name : "",
            command ? " " : "");
  rt_arena_free(mem);
  return EXIT_USAGE;
}

int cli_usage_error(const CliArgs *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int status = usage_error(a ? a->command : NULL, fmt, ap);
  va_end(ap);
  return status;
}

static int unknown_option(const CliArgs *a, const char *word, size_t n) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)n, word);
  RtNear near = {.wanted = name};
  for (const CliRow *r = NULL; (r = cli_next_of(a->command, r, ROW_OPTION));) rt_near_offer(&near, r->name);
  for (const CliRow *r = NULL; (r = cli_next_of(NULL, r, ROW_OPTION));) rt_near_offer(&near, r->name);
  return cli_usage_error(a, "unknown option %s%s", name, rt_near_text(&near));
}

static int unknown_command(const char *word) {
  RtNear near = {.wanted = word};
  for (const CliRow *r = NULL; (r = cli_next(r, ROW_COMMAND));) rt_near_offer(&near, r->name);
  return cli_usage_error(NULL, "no such command: %s%s", word, rt_near_text(&near));
}

// ---- reading
// An option, and its value in the next word; *used: words taken. A status, or 0.
static int read_option(CliArgs *a, int n, char **words, int *used) {
  const char *word = words[0], *equals = strchr(word, '=');
  size_t length = equals ? (size_t)(equals - word) : strlen(word);
  const CliRow *option = find_option(a->command, word, length);
  *used = 1;
  if (!option) return unknown_option(a, word, length);
  const char *value = equals ? equals + 1 : NULL;
  bool takes_next = option->kind != CLI_FLAG && option->kind != CLI_RULES_OPTIONAL;
  if (option->kind == CLI_FLAG && value) return cli_usage_error(a, "%s takes no value", option->name);
  if (!value && takes_next && n < 2) return cli_usage_error(a, "%s needs a value: %s", option->name, option->value);
  if (!value && takes_next) value = words[1], *used = 2;
  a->options[a->n_options++] = (CliOption){option, value};
  return 0;
}

static int check_operands(const CliArgs *a) {
  const CliRow *c = a->command;
  if (a->n_operands < c->least) return cli_usage_error(a, "%s needs %s", c->name, c->value);
  if (a->n_operands <= c->most) return 0;
  const char *extra = a->operand[c->most];
  if (!c->most) return cli_usage_error(a, "%s takes no operand: %s", c->name, extra);
  return cli_usage_error(a, "%s takes %s: %s is too many", c->name, c->value, extra);
}

static int put(void (*print)(const CliRow *command, RtText *out), const CliRow *command) {
  RtArena *mem = rt_arena_new();
  RtText text = {.mem = mem};
  if (!mem) return fputs("tenure: out of memory\n", stderr), EXIT_ERRORS;
  print(command, &text);
  fwrite(text.text, 1, text.len, stdout);
  rt_arena_free(mem);
  return 0;
}

static void print_help(const CliRow *command, RtText *out) {
  if (command) cli_command_help(command, out);
  else cli_help(out);
}

static int run_command(CliArgs *a, int n, char **words) {
  for (int used, k = 0; k < n; k += used) {
    bool is_option = words[k][0] == '-' && words[k][1] && strcmp(words[k], "--");
    used = 1;
    if (!is_option) a->operand[a->n_operands++] = words[k];
    int status = is_option ? read_option(a, n - k, words + k, &used) : 0;
    if (status) return status;
    if (cli_has(a, "--help")) return put(print_help, a->command);
  }
  int status = check_operands(a);
  return status ? status : a->command->run(a);
}

static int help(int n, char **words) {
  const CliRow *command = n ? find_command(words[0]) : NULL;
  if (n && !command) return unknown_command(words[0]);
  return put(print_help, command);
}

static int dispatch(int argc, char **argv) {
  if (argc < 2) return cli_usage_error(NULL, "a command is missing");
  const char *word = argv[1];
  if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) return help(argc - 2, argv + 2);
  if (!strcmp(word, "--version")) return puts("tenure " TN_VERSION), 0;
  CliArgs a = {.command = find_command(word)};
  if (!a.command) return unknown_command(word);
  size_t n = (size_t)argc;
  a.operand = calloc(n, sizeof *a.operand);
  a.options = calloc(n, sizeof *a.options);
  int status = EXIT_ERRORS;
  if (a.operand && a.options) status = run_command(&a, argc - 2, argv + 2);
  else fputs("tenure: out of memory\n", stderr);
  free(a.operand);
  free(a.options);
  return status;
}

int cli_main(int argc, char **argv) {
  int status = dispatch(argc, argv);
  if (!fflush(stdout) && !ferror(stdout)) return status;
  if (!status) perror("tenure: standard output");  // a command that noticed has said so
  return status ? status : EXIT_ERRORS;
}
