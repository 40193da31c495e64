// tenure_site.h: a macro for each public call that takes its call site, of the call's own name, which C does not expand
// again. Read from the headers' prototypes, TN_API to `;`.
//
//   TN_API tn_tensor tn_relu(tn_tensor a, tn_site at);
//   #define tn_relu(...) tn_relu(__VA_ARGS__, TN_SITE)
//
// Options by name: the last parameter is a struct tn_.._options by value, whose field `at` is the call site. The last
// required argument stands in `...`, so that `...` is never empty.
//
//   TN_API tn_module *tn_linear(tn_module *parent, const char *name, int64_t in, int64_t out, tn_linear_options o);
//   #define tn_linear(parent, name, in, ...)  tn_linear(parent, name, in, TN_FIRST(__VA_ARGS__, 0),
//                                                       (tn_linear_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
//
// In C++ they are overloads, with and without a value of options: tn_linear(net, "fc", 8, 3, o).
#include "tools/gen/gen.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMETERS = 16, MAX_TEXT = 2048, MAX_NAME = 128 };

typedef struct {
  char text[MAX_TEXT];  // without comments, blanks merged
  char name[MAX_NAME];
  int n_result;  // characters of text before the name: the type of the result
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
  p->n_result = (int)(start - p->text);
  return start < end && copy_part(p->name, start, end);
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
  return end && !strncmp(last, "tn_", 3) && !strchr(last, '*') && end - last > 8 && !strncmp(end - 8, "_options", 8);
}

// ---- writing
static void put_site_macro(FILE *out, const Prototype *p) {
  if (p->n_parameters == 1) fprintf(out, "#define %s() %s(TN_SITE)\n", p->name, p->name);
  else fprintf(out, "#define %s(...) %s(__VA_ARGS__, TN_SITE)\n", p->name, p->name);
}

static void put_names(FILE *out, const Prototype *p, int n) {
  for (int k = 0; k < n; k++) fprintf(out, "%s, ", parameter_name(p->parameter[k]));
}

static void put_options_macro(FILE *out, const Prototype *p) {
  const char *last = p->parameter[p->n_parameters - 1];
  int type = (int)strcspn(last, " "), n_named = p->n_parameters - 2;
  if (n_named < 0) {
    fprintf(out, "#define %s(...) %s((%.*s){.at = TN_SITE, __VA_ARGS__})\n", p->name, p->name, type, last);
    return;
  }
  fprintf(out, "#define %s(", p->name);
  put_names(out, p, n_named);
  fprintf(out, "...) \\\n  %s(", p->name);
  put_names(out, p, n_named);
  fprintf(out, "TN_FIRST(__VA_ARGS__, 0), (%.*s){TN_REST(__VA_ARGS__, .at = TN_SITE)})\n", type, last);
}

static void put_parameters(FILE *out, const Prototype *p, int n) {
  for (int k = 0; k < n; k++) fprintf(out, "%s, ", p->parameter[k]);
}

// C++17 has no designated initialisers: options are a value there, or none. The call site comes last and goes into them.
static void put_options_overloads(FILE *out, const Prototype *p) {
  int n = p->n_parameters - 1, type = (int)strcspn(p->parameter[n], " ");
  int result = p->n_result - (p->text[p->n_result - 1] == '(');
  for (int with = 1; with >= 0; with--) {
    fprintf(out, "inline %.*s(%s)(", result, p->text, p->name);
    put_parameters(out, p, n + with);
    fprintf(out, "tn_site at) {\n");
    if (!with) fprintf(out, "  %.*s o{};\n", type, p->parameter[n]);
    fprintf(out, "  o.at = at;\n  return (%s)(", p->name);
    put_names(out, p, n);
    fprintf(out, "o);\n}\n");
  }
}

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

bool gen_sites(FILE *out, char *const *headers, int n_headers) {
  fprintf(out,
          "// Call sites: written by tools/gen from the headers' prototypes, included last. With TN_NO_SITE_MACROS "
          "defined calls\n"
          "// take their site as the last argument, or in their options: for bindings. So does (tn_relu)(x, site).\n"
          "#if !defined(TENURE_SITE_H) && !defined(TN_NO_SITE_MACROS)\n#define TENURE_SITE_H\n\n");
  for (int k = 0; k < n_headers; k++)
    if (!put_macros(out, headers[k], takes_site, put_site_macro)) return false;
  fprintf(out, "\n#ifndef __cplusplus\n#define TN_FIRST(first, ...) first\n#define TN_REST(first, ...) __VA_ARGS__\n");
  for (int k = 0; k < n_headers; k++)
    if (!put_macros(out, headers[k], takes_options, put_options_macro)) return false;
  fprintf(out, "#else\n");
  for (int k = 0; k < n_headers; k++)
    if (!put_macros(out, headers[k], takes_options, put_options_overloads)) return false;
  for (int k = 0; k < n_headers; k++)
    if (!put_macros(out, headers[k], takes_options, put_site_macro)) return false;
  fprintf(out, "#endif\n\n#endif\n");
  return true;
}
