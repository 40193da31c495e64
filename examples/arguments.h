// What an example is told on its command line: a table, which reads it and from which --help is written.
//
//   long epochs = 30;
//   const char *data = "data/digits";
//   const Argument list[] = {{"--data", "DIR", "images", .text = &data},
//                            {"--epochs", "N", "passes over the data", .whole = &epochs, .least = 1}};
//   read_arguments(argc, argv, "reads digits", list, 2);
//
// --help ends the program with 0. What is wrong is told on stderr, and ends it with 2.
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *name;   // "--epochs"; NULL: what has no dash in front
  const char *value;  // what stands behind it, "N"; NULL: nothing, it is a flag
  const char *what;   // a few words for --help
  // Where it goes, one of these
  bool *flag;
  long *whole;
  double *number;
  const char **text;
  bool (*read)(const char *value);  // false: it is wrong
  double least, most;               // of numbers; most 0: any
  bool above;                       // not `least` itself
  int *n_texts;  // it may come again and again: text is an array of `most`, so many of which are there
} Argument;

static void print_usage(FILE *to, const char *program, const Argument *list, size_t n) {
  int at = fprintf(to, "%s", program), indent = at;
  for (size_t k = 0; k < n; k++) {
    const Argument *a = &list[k];
    int width = (int)(3 + strlen(a->name ? a->name : "") + (a->value ? 1 + strlen(a->value) : 0));
    if (at + width > 100) at = fprintf(to, "\n%*s", indent, "") - 1;
    at += a->name ? fprintf(to, " [%s%s%s]%s", a->name, a->value ? " " : "", a->value ? a->value : "",
                            a->n_texts ? ".." : "")
                  : fprintf(to, a->n_texts ? " [%s]" : " %s", a->value);
  }
  fputs("\n", to);
}

static _Noreturn void print_help(const char *program, const char *what, const Argument *list, size_t n) {
  enum { INDENT = 26 };
  printf("%s: %s\n\n", program, what);
  print_usage(stdout, program, list, n);
  puts("");
  for (size_t k = 0; k < n; k++) {
    const Argument *a = &list[k];
    int at = printf("  %s%s%s", a->name ? a->name : "", a->name && a->value ? " " : "", a->value ? a->value : "");
    if (at > INDENT - 2) at = printf("\n") - 1;
    printf("%*s%s", INDENT - at, "", a->what);
    if (a->whole) printf(" (%ld)", *a->whole);
    if (a->number) printf(" (%g)", *a->number);
    if (a->text && !a->n_texts && *a->text) printf(" (%s)", *a->text);
    puts("");
  }
  exit(fflush(stdout) || ferror(stdout));
}

// What it takes: "a whole number from 1 on"
static void print_wanted(const Argument *a) {
  if (a->read || a->text) fprintf(stderr, "%s", a->value);
  else fprintf(stderr, a->whole ? "a whole number" : "a number");
  if (!a->whole && !a->number) return;
  fprintf(stderr, a->above ? " above %.10g" : " from %.10g", a->least);
  if (a->most != 0) fprintf(stderr, " to %.10g", a->most);
  else if (!a->above) fprintf(stderr, " on");
}

static bool set_text(const Argument *a, const char *v) {
  if (a->n_texts && *a->n_texts >= (int)a->most) return false;
  a->text[a->n_texts ? (*a->n_texts)++ : 0] = v;
  return true;
}

static bool set_argument(const Argument *a, const char *v) {
  char *end = "";
  double x = 0;
  if (a->read) return a->read(v);
  if (a->text) return strncmp(v, "--", 2) && set_text(a, v);
  errno = 0;
  if (a->whole) x = (double)(*a->whole = strtol(v, &end, 10));
  else x = *a->number = strtod(v, &end);
  bool is_low = a->above ? x <= a->least : x < a->least, is_high = a->most != 0 && x > a->most;
  return *v && !*end && isfinite(x) && !is_low && !is_high && errno != ERANGE;
}

static const Argument *find_argument(const Argument *list, size_t n, const char *name) {
  for (size_t k = 0; k < n; k++)
    if (name ? list[k].name && !strcmp(list[k].name, name) : !list[k].name) return &list[k];
  return NULL;
}

static void read_arguments(int argc, char **argv, const char *what, const Argument *list, size_t n) {
  const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
  const Argument *a, *unnamed = find_argument(list, n, NULL);
  bool is_good = true;
  for (int k = 1, n_unnamed = 0; k < argc && is_good; k++) {
    if (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h")) print_help(program, what, list, n);
    if (argv[k][0] != '-') {
      is_good = unnamed && (unnamed->n_texts || !n_unnamed++) && set_text(unnamed, argv[k]);
      if (!is_good) fprintf(stderr, "%s: '%s' is more than it takes\n", program, argv[k]);
    } else if (!(a = find_argument(list, n, argv[k]))) {
      fprintf(stderr, "%s: there is no %s\n", program, argv[k]), is_good = false;
    } else if (a->flag) {
      *a->flag = true;
    } else if (++k == argc || !set_argument(a, argv[k])) {
      fprintf(stderr, "%s: %s takes ", program, a->name), print_wanted(a), is_good = false;
      if (k == argc) fprintf(stderr, ", and nothing stands behind it\n");
      else fprintf(stderr, ", not '%s'\n", argv[k]);
    }
  }
  if (is_good && unnamed && !unnamed->n_texts && !*unnamed->text)
    fprintf(stderr, "%s: %s is missing\n", program, unnamed->value), is_good = false;
  if (is_good) return;
  print_usage(stderr, program, list, n);
  exit(2);
}
#endif
