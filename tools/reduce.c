// tenure reduce FILE.tir --test=CMD | --differs: the smallest program that still shows what is to be shown.
#include "tools/reduce.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tools/bisect.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  const CliArgs *args;
  const char *command;  // NULL: --differs
  char file[512];       // that the command is given
  SelfCheck check;
  Finding first;
} Holding;

// Status 0 of `CMD FILE`.
static bool command_holds(const char *text, size_t n, void *ctx) {
  const Holding *h = ctx;
  FILE *out = fopen(h->file, "wb");
  bool ok = out && fwrite(text, 1, n, out) == n;
  if (out) ok = !fclose(out) && ok;
  if (!ok) return perror(h->file), false;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    char *script = NULL;
    if (asprintf(&script, "%s \"$1\"", h->command) < 0) _exit(126);
    if (!freopen("/dev/null", "w", stdout)) _exit(126);
    execl("/bin/sh", "sh", "-c", script, "sh", h->file, (char *)NULL);
    _exit(127);
  }
  int status;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool self_check_holds(const char *text, size_t n, void *ctx) {
  Holding *h = ctx;
  h->check.text = text, h->check.n = n;
  Finding f = self_check(&h->check);
  return f.verdict == h->first.verdict && f.id == h->first.id && !strcmp(f.pass, h->first.pass);
}

static bool write_text(const char *path, const char *text) {
  FILE *out = path && strcmp(path, "-") ? fopen(path, "wb") : stdout;
  bool ok = out && fputs(text, out) >= 0;
  if (out) ok = (out == stdout ? !fflush(out) : !fclose(out)) && ok;
  if (!ok) fprintf(stderr, "tenure: %s: %s\n", path ? path : "standard output", strerror(errno));
  return ok;
}

static const char *read_program(RtArena *mem, const char **path) {
  size_t n;
  char *text = tool_read_file(mem, *path, &n);
  if (!text) return fprintf(stderr, "tenure: %s: %s\n", *path, strerror(errno)), NULL;
  if (!strcmp(*path, "-")) *path = "<stdin>";
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text, n, *path, &diags);
  for (uint32_t k = 0; p && k < p->n_fns; k++) ir_verify(p->fns[k], &diags);
  rt_diags_print(&diags, stderr);
  if (!p || diags.n_errors) return NULL;
  RtText out = {.mem = mem};
  ir_print(p, &out, 0);
  return out.text;
}

// Does it hold of the program as it is? What is looked for is what was found there.
static bool begin(Holding *h, const char *text) {
  if (h->command) {
    if (command_holds(text, strlen(text), h)) return true;
    fprintf(stderr, "tenure: the command fails on the program as it is: %s\n", h->command);
    return false;
  }
  h->check.text = text, h->check.n = strlen(text);
  h->first = self_check(&h->check);
  bool is_checked = h->first.verdict != CHECK_REFUSED && h->first.verdict != CHECK_NO_INPUTS;
  if (h->first.verdict != CHECK_SAME && is_checked) {
    fprintf(stderr, "@%s: %s%s%s: %s\n", h->first.function, bisect_what(h->first.verdict), *h->first.pass ? ": " : "",
            h->first.pass, h->first.why);
    return true;
  }
  if (is_checked)
    fputs("tenure: nothing differs: the program gives the same results after each pass and compiled\n", stderr);
  else fprintf(stderr, "tenure: @%s: %s: %s\n", h->first.function, bisect_what(h->first.verdict), h->first.why);
  return false;
}

static int reduce(RtArena *mem, void *ctx) {
  Holding *h = ctx;
  const char *path = h->args->operand[0], *text = read_program(mem, &path);
  int64_t most;
  if (!cli_number(h->args, "--tries", (CliRange){1, INT64_MAX}, 4000, &most)) return EXIT_USAGE;
  if (!text) return EXIT_ERRORS;
  h->check.path = path;
  const char *folder = getenv("TMPDIR");
  snprintf(h->file, sizeof h->file, "%s/tenure-reduce-XXXXXX.tir", folder && *folder ? folder : "/tmp");
  int fd = h->command ? mkstemps(h->file, 4) : -1;
  if (fd >= 0) close(fd);
  if (h->command && fd < 0) return perror(h->file), EXIT_ERRORS;
  Reduce r = {.mem = mem,
              .text = text,
              .holds = h->command ? command_holds : self_check_holds,
              .ctx = h,
              .most_tries = (uint32_t)most};
  bool ok = begin(h, text);
  if (ok) reduce_text(&r);
  if (fd >= 0) unlink(h->file);
  if (!ok || !write_text(cli_value(h->args, "-o"), r.text)) return EXIT_ERRORS;
  fprintf(stderr, "%zu bytes from %zu, %u tries\n", strlen(r.text), strlen(text), r.n_tries);
  return 0;
}

int tool_reduce(const CliArgs *a) {
  Holding h = {.args = a, .command = cli_value(a, "--test")};
  if (!h.command == !cli_has(a, "--differs")) return cli_usage_error(a, "reduce needs either --test=CMD or --differs");
  return tool_with_arena(reduce, &h);
}
