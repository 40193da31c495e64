// tenure_site.h: a macro for each public call that takes its call site, of the call's own name, which C does not expand
// again. Read from the headers' prototypes, TN_API to `;`.
//
//   TN_API tn_tensor tn_relu(tn_tensor a, tn_site at);
//   #define tn_relu(...) tn_relu(__VA_ARGS__, TN_SITE)
//
// Options by name: the last parameter is a struct tn_.._options by value, whose field `at` is the call site.
//
//   TN_API tn_module *tn_linear(tn_module *parent, const char *name, int64_t in, int64_t out, tn_linear_options o);
//   #define tn_linear(...) TN_OPTIONS_4(tn_linear, tn_linear_options, __VA_ARGS__)
//   tn_linear(net, "fc", 8, 3, .no_bias = true)
//     -> tn_linear(net, "fc", 8, 3, (tn_linear_options){.no_bias = true, .at = TN_SITE})
//
// TN_OPTIONS_4 is a macro of its own, so that an argument which is a macro for two, a list (in parentheses) and its length,
// is expanded before arguments are counted. The last required argument stands in its `...`, which is never empty then.
// C++17 has no designated initialisers: there the options are a value, or left out after other arguments, by overloads
// that take the site last.
#include "tools/gen/gen.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMETERS = 16, MAX_OPTIONS_ARGS = 7, MAX_TEXT = 2048, MAX_NAME = 128 };

typedef struct {
  char text[MAX_TEXT];  // without comments, blanks merged
  char type[MAX_NAME];  // of the result
  char name[MAX_NAME];
  char parameter[MAX_PARAMETERS][MAX_NAME];
  int n_parameters;
} Prototype;

// ---- reading
static const char *skip_comment(const char *s) {
  if (s[0] == '/' && s[1] == '/') return s + strcspn(s, "\n");
  if (s[0] != '/' || s[1] != '*') return s;
  const char *end = strstr(s, "*/");
  return end ? end + 2 : s + strlen(s);
}

// Text up to `;` into p->text; gives what follows.
static const char *read_declaration(const char *s, Prototype *p) {
  size_t n = 0;
  while (*s && *s != ';' && n + 1 < MAX_TEXT) {
    const char *after = skip_comment(s);
    if (after != s) {
      s = after;
      continue;
    }
    bool blank = isspace((unsigned char)*s);
    if (!blank) p->text[n++] = *s;
    else if (n && p->text[n - 1] != ' ') p->text[n++] = ' ';
    s++;
  }
  p->text[n] = 0;
  return s;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool copy_part(char *to, const char *from, const char *end) {
  while (from < end && *from == ' ') from++;
  while (end > from && end[-1] == ' ') end--;
  if (end - from >= MAX_NAME) return false;
  memcpy(to, from, (size_t)(end - from));
  to[end - from] = 0;
  return true;
}

// The word before the parameter list.
static bool read_name(Prototype *p, const char *open) {
  const char *end = open;
  while (end > p->text && !is_word(end[-1])) end--;
  const char *start = end;
  while (start > p->text && is_word(start[-1])) start--;
  const char *type_end = start > p->text && start[-1] == '(' ? start - 1 : start;
  return start < end && copy_part(p->name, start, end) && copy_part(p->type, p->text, type_end);
}

// Parameters are parted by commas outside of parentheses.
static bool read_parameters(Prototype *p, const char *s) {
  int depth = 0;
  const char *start = ++s;
  for (p->n_parameters = 0; *s; s++) {
    if (depth == 0 && (*s == ',' || *s == ')')) {
      if (p->n_parameters == MAX_PARAMETERS || !copy_part(p->parameter[p->n_parameters++], start, s)) return false;
      if (*s == ')') return true;
      start = s + 1;
    }
    depth += *s == '(' ? 1 : *s == ')' ? -1 : 0;
  }
  return false;
}

// False: a variable, or what does not parse.
static bool read_prototype(Prototype *p) {
  const char *open = strchr(p->text, '(');
  if (!open) return false;
  if (open[1] == 't' && !strncmp(open, "(tn_", 4) && strchr(open, ')')[1] == '(') open = strchr(open, ')') + 1;
  return read_name(p, open) && read_parameters(p, open);
}

static const char *parameter_name(const char *parameter) {
  const char *s = parameter + strlen(parameter);
  while (s > parameter && is_word(s[-1])) s--;
  return s;
}

static bool takes_site(const Prototype *p) { return !strcmp(p->parameter[p->n_parameters - 1], "tn_site at"); }

static bool takes_options(const Prototype *p) {
  const char *last = p->parameter[p->n_parameters - 1], *end = strchr(last, ' ');
  return end && p->n_parameters <= MAX_OPTIONS_ARGS + 1 && !strncmp(last, "tn_", 3) && !strchr(last, '*') &&
         end - last > 8 && !strncmp(end - 8, "_options", 8);
}

// ---- writing
static bool is_dim(const char *parameter) { return !strncmp(parameter, "tn_dim ", strlen("tn_dim ")); }

static bool takes_dims(const Prototype *p) {
  for (int k = 0; k < p->n_parameters; k++)
    if (is_dim(p->parameter[k])) return true;
  return false;
}

// An integer stands for a dim.
static void put_dims_macro(FILE *out, const Prototype *p) {
  fprintf(out, "#define %s(", p->name);
  for (int k = 0; k + 1 < p->n_parameters; k++) fprintf(out, "%s%s", k ? ", " : "", parameter_name(p->parameter[k]));
  fprintf(out, ") %s(", p->name);
  for (int k = 0; k + 1 < p->n_parameters; k++)
    fprintf(out, is_dim(p->parameter[k]) ? "TN_DIM(%s), " : "%s, ", parameter_name(p->parameter[k]));
  fprintf(out, "TN_SITE)\n");
}

static void put_site_macro(FILE *out, const Prototype *p) {
  if (takes_dims(p)) {
    put_dims_macro(out, p);
    return;
  }
  if (p->n_parameters == 1) fprintf(out, "#define %s() %s(TN_SITE)\n", p->name, p->name);
  else fprintf(out, "#define %s(...) %s(__VA_ARGS__, TN_SITE)\n", p->name, p->name);
}

static void put_options_macro(FILE *out, const Prototype *p) {
  const char *last = p->parameter[p->n_parameters - 1];
  fprintf(out, "#define %s(...) TN_OPTIONS_%d(%s, %.*s, __VA_ARGS__)\n", p->name, p->n_parameters - 1, p->name,
          (int)strcspn(last, " "), last);
}

// With n arguments before the options.
static void put_options_helper(FILE *out, int n) {
  if (n == 0) {
    fprintf(out, "#define TN_OPTIONS_0(call, type, ...) call((type){.at = TN_SITE, __VA_ARGS__})\n");
    return;
  }
  fprintf(out, "#define TN_OPTIONS_%d(call, type, ", n);
  for (int k = 0; k < n - 1; k++) fprintf(out, "%c, ", 'a' + k);
  fprintf(out, "...) \\\n  call(");
  for (int k = 0; k < n - 1; k++) fprintf(out, "%c, ", 'a' + k);
  fprintf(out, "TN_FIRST(__VA_ARGS__, 0), (type){TN_REST(__VA_ARGS__, .at = TN_SITE)})\n");
}

static void put_helpers(FILE *out) {
  fprintf(out, "#define TN_FIRST(first, ...) first\n#define TN_REST(first, ...) __VA_ARGS__\n");
  for (int n = 0; n <= MAX_OPTIONS_ARGS; n++) put_options_helper(out, n);
}

// ---- C++
static void put_required(FILE *out, const Prototype *p, bool types) {
  for (int k = 0; k + 1 < p->n_parameters; k++)
    fprintf(out, "%s, ", types ? p->parameter[k] : parameter_name(p->parameter[k]));
}

static void put_overloads(FILE *out, const Prototype *p) {
  const char *last = p->parameter[p->n_parameters - 1], *o = parameter_name(last);
  int type = (int)strcspn(last, " ");
  fprintf(out, "inline %s %s(", p->type, p->name);
  put_required(out, p, true);
  fprintf(out, "%s, tn_site at) {\n  %s.at = at;\n  return %s(", last, o, p->name);
  put_required(out, p, false);
  fprintf(out, "%s);\n}\ninline %s %s(", o, p->type, p->name);
  put_required(out, p, true);
  fprintf(out, "tn_site at) {\n  return %s(", p->name);
  put_required(out, p, false);
  fprintf(out, "%.*s{}, at);\n}\n", type, last);
}

static void put_plain_macro(FILE *out, const Prototype *p) {
  fprintf(out, "#define %s(...) %s(__VA_ARGS__, TN_SITE)\n", p->name, p->name);
}

// ---- the file
typedef void PutFn(FILE *, const Prototype *);

static bool put_macros(FILE *out, const char *path, bool (*wanted)(const Prototype *),
                       void (*put)(FILE *, const Prototype *)) {
  static Prototype p;
  char *text = gen_read(path);
  if (!text) return false;
  bool good = true;
  const char *s = text;
  while (good && (s = strstr(s, "\nTN_API "))) {
    s = read_declaration(s + strlen("\nTN_API "), &p);
    if (!strchr(p.text, '(')) continue;
    good = read_prototype(&p);
    if (!good) fprintf(stderr, "%s: cannot read the prototype: %s\n", path, p.text);
    else if (wanted(&p)) put(out, &p);
  }
  free(text);
  return good;
}

static bool put_all(FILE *out, char *const *headers, int n, bool (*wanted)(const Prototype *), PutFn *put) {
  for (int k = 0; k < n; k++)
    if (!put_macros(out, headers[k], wanted, put)) return false;
  return true;
}

bool gen_sites(FILE *out, char *const *headers, int n) {
  fprintf(
      out,
      "// Call sites: written by tools/gen from the headers' prototypes, included last. With TN_NO_SITE_MACROS "
      "defined\n"
      "// calls take their site as the last argument, or in their options, as (tn_relu)(x, site) does: for bindings.\n"
      "#if !defined(TENURE_SITE_H) && !defined(TN_NO_SITE_MACROS)\n#define TENURE_SITE_H\n\n");
  bool good = put_all(out, headers, n, takes_site, put_site_macro);
  fprintf(out, "\n#ifndef __cplusplus\n");
  put_helpers(out);
  good = good && put_all(out, headers, n, takes_options, put_options_macro);
  fprintf(out, "#else\n");
  good = good && put_all(out, headers, n, takes_options, put_overloads);
  good = good && put_all(out, headers, n, takes_options, put_plain_macro);
  fprintf(out, "#endif\n\n#endif\n");
  return good;
}
