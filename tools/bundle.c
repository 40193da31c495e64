// tenure bundle: a program of .tir text as an object and a header.
#include "frontend/tenure.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *file, *out;
  tn_bundle_options o;
} BundleArgs;

static const char *value_of(const char *arg, const char *option) {
  size_t n = strlen(option);
  return !strncmp(arg, option, n) && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool read_number(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 0);
  return *text && !*end && !errno && *text != '-';
}

static bool read_value(BundleArgs *a, const char *arg, bool *known) {
  const char *v;
  *known = true;
  if ((v = value_of(arg, "--target"))) a->o.targets = v;
  else if ((v = value_of(arg, "--functions"))) a->o.functions = v;
  else if ((v = value_of(arg, "--emit"))) a->o.emit = v;
  else if ((v = value_of(arg, "--section"))) a->o.section = v;
  else if ((v = value_of(arg, "--weights"))) a->o.weights = v;
  else if ((v = value_of(arg, "--name"))) a->o.name = v;
  else if ((v = value_of(arg, "--seed"))) return read_number(v, &a->o.seed);
  else if (!strcmp(arg, "--embed-weights")) a->o.embed_weights = true;
  else if (!strcmp(arg, "--workers")) a->o.has_workers = true;
  else if (!strcmp(arg, "--size")) a->o.small = true;
  else if (!strcmp(arg, "--fast-math")) a->o.fast_math = true;
  else *known = false;
  return true;
}

static int read_args(int n, char **args, BundleArgs *a) {
  for (int k = 0; k < n; k++) {
    bool known;
    if (!strcmp(args[k], "-o") && k + 1 < n) a->out = args[++k];
    else if (!read_value(a, args[k], &known)) return tool_usage_error("not a number:", args[k]);
    else if (known) continue;
    else if (args[k][0] == '-' && args[k][1]) return tool_usage_error("unknown option", args[k]);
    else if (a->file) return tool_usage_error("more than one file:", args[k]);
    else a->file = args[k];
  }
  if (!a->file) return tool_usage_error("bundle needs a file", NULL);
  return a->out ? 0 : tool_usage_error("bundle needs -o DIR/NAME", NULL);
}

static int bundle_in(RtArena *mem, void *ctx) {
  BundleArgs *a = ctx;
  size_t n;
  char *text = tool_read_file(mem, a->file, &n);
  if (!text) {
    fprintf(stderr, "tenure: %s: %s\n", a->file, strerror(errno));
    return EXIT_ERRORS;
  }
  tn_program *p = tn_program_parse(text, n, strcmp(a->file, "-") ? a->file : "<stdin>");
  tn_status status = p ? (tn_bundle)(p, a->out, a->o) : TN_ERR_MEMORY;
  tn_program_free(p);
  return status ? EXIT_ERRORS : 0;
}

int tool_bundle(int n, char **args) {
  BundleArgs a = {0};
  int status = read_args(n, args, &a);
  return status ? status : tool_with_arena(bundle_in, &a);
}
