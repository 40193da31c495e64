// What tests written in bash say of JSON:
//
//   json_query FILE                     status 0: it is JSON
//   json_query FILE 'STATEMENT and ..'  status 0: all hold
//
// A path begins at the whole, `.`, and goes by names and numbers, of which -1 is the last; `*` is every element or member,
// `[name=value]` every element whose member has that value, `#` the number of elements. A statement:
//
//   .same                            there, and neither null, false, 0 nor empty; `not .same` is the contrary
//   no .peak.most                    there is no such thing
//   .0.kernels.# = 8                 also != < <= > >=; both sides: a path, JSON, or `sum PATH`; numbers may be added by +
//   .sizes.[fits=true].total <= 9    where a path names several, it holds for each, and there are some
//   some .*.kind = "changed"         it holds for one
//   .asm has ".text"                 a part of the text
//   .*.kind in ["a", "b"]            one of these
#include "tests/json.h"

#include <stdio.h>

enum { MOST = 4096 };
typedef struct {
  const JsonValue *list[MOST];
  size_t n;
} Found;

static const JsonValue *whole;

static void complain(const char *what, const char *at) {
  fprintf(stderr, "json_query: %s: %s\n", what, at);
  exit(2);
}

static void put(Found *f, const JsonValue *v) {
  if (!v) return;
  if (f->n == MOST) complain("too many values", "");
  f->list[f->n++] = v;
}

static const JsonValue *count(const JsonValue *v) {
  JsonValue *n = json_new(JSON_NUMBER);
  n->number = (double)v->n;
  return n;
}

static bool has_value(const JsonValue *v, const char *name, const char *text) {
  const JsonValue *member = json_member(v, name), *wanted = json_parse(text);
  if (!wanted) complain("no JSON in a filter", text);
  return member && json_equal(member, wanted);
}

// One step from v by the name, number or filter in `step`.
static void go(const JsonValue *v, char *step, Found *to) {
  char *end, *value = strchr(step, '=');
  long k = strtol(step, &end, 10);
  if (!strcmp(step, "#")) put(to, count(v));
  else if (!strcmp(step, "*") || (*step == '[' && value)) {
    bool is_filter = *step == '[';
    if (is_filter) *value = 0, value[strlen(value + 1)] = 0;  // and the bracket
    for (const JsonValue *c = v->first; c; c = c->next)
      if (!is_filter || has_value(c, step + 1, value + 1)) put(to, c);
  } else put(to, !*end && v->kind == JSON_ARRAY ? json_element(v, k) : json_member(v, step));
}

static void skip_space(const char **at) { *at += strspn(*at, " "); }

static bool take(const char **at, const char *word) {
  size_t n = strlen(word);
  skip_space(at);
  if (strncmp(*at, word, n)) return false;
  *at += n;
  return true;
}

// A path ends at a space or at the end.
static void read_path(const char **at, Found *f) {
  size_t n = strcspn(*at, " ");
  char *path = strndup(*at, n);
  *at += n;
  f->n = 0;
  put(f, whole);
  for (char *step = strtok(path, "."); step; step = strtok(NULL, ".")) {
    Found from = *f;
    f->n = 0;
    for (size_t k = 0; k < from.n; k++) { go(from.list[k], strdup(step), f); }
  }
}

static double total(const Found *f) {
  double sum = 0;
  for (size_t k = 0; k < f->n; k++) sum += f->list[k]->number;
  return sum;
}

static void be_number(Found *f, double x) {
  JsonValue *v = json_new(JSON_NUMBER);
  v->number = x;
  f->list[0] = v, f->n = 1;
}

static void read_term(const char **at, Found *f) {
  bool is_sum = take(at, "sum ");
  skip_space(at);
  if (**at == '.') {
    read_path(at, f);
  } else {
    JsonReader r = {*at, 0};
    f->list[0] = json_read(&r), f->n = 1;
    if (!f->list[0]) complain("neither a path nor JSON", *at);
    *at = r.at;
  }
  if (is_sum) be_number(f, total(f));
  static Found more;
  if (!take(at, "+ ")) return;
  read_term(at, &more);
  be_number(f, total(f) + total(&more));
}

typedef enum { EQUAL, UNEQUAL, AT_MOST, AT_LEAST, BELOW, ABOVE, HAS, IN, TRUTH } Relation;
static const char *const relations[] = {"= ", "!= ", "<= ", ">= ", "< ", "> ", "has ", "in "};

static Relation read_relation(const char **at) {
  Relation r = EQUAL;
  while (r < TRUTH && !take(at, relations[r])) r++;
  return r;
}

static bool is_in(const JsonValue *a, const JsonValue *list) {
  for (const JsonValue *c = list->first; c; c = c->next)
    if (json_equal(a, c)) return true;
  return false;
}

static bool holds(const JsonValue *a, Relation r, const JsonValue *b) {
  switch (r) {
  case EQUAL: return json_equal(a, b);
  case UNEQUAL: return !json_equal(a, b);
  case AT_MOST: return a->number <= b->number;
  case AT_LEAST: return a->number >= b->number;
  case BELOW: return a->number < b->number;
  case ABOVE: return a->number > b->number;
  case HAS: return a->kind == JSON_STRING && b->kind == JSON_STRING && strstr(a->text, b->text);
  case IN: return is_in(a, b);
  default: return json_is_true(a);
  }
}

static bool statement(const char **at) {
  static Found left, right;
  bool is_not = take(at, "not "), is_no = take(at, "no "), is_some = take(at, "some ");
  read_term(at, &left);
  Relation r = read_relation(at);
  if (r != TRUTH) read_term(at, &right);
  if (is_no) return !left.n;
  size_t n_held = 0;
  for (size_t k = 0; k < left.n; k++) n_held += r == TRUTH || right.n == 1 ? holds(left.list[k], r, right.list[0]) : 0;
  if (is_not) return !n_held;
  return is_some ? n_held > 0 : left.n && n_held == left.n;
}

static char *read_file(const char *path) {
  FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
  size_t n = 0, size = 1 << 16;
  char *text = malloc(size);
  if (!f || !text) complain("cannot be read", path);
  for (size_t got; (got = fread(text + n, 1, size - n - 1, f)) > 0; n += got)
    if (size - n - got < 2 && !(text = realloc(text, size *= 2))) complain("is too long", path);
  text[n] = 0;
  return text;
}

// The leak checker leaves a program alone whose memory all lives as long as it does.
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }

int main(int argc, char **argv) {
  if (argc < 2) complain("usage", "json_query FILE ['STATEMENT and ..']");
  whole = json_parse(read_file(argv[1]));
  if (!whole) return fprintf(stderr, "%s is no JSON\n", argv[1]), 1;
  for (const char *at = argc > 2 ? argv[2] : ""; *at;) {
    const char *from = at;
    bool good = statement(&at);
    if (!good) return fprintf(stderr, "does not hold: %.*s\n", (int)(at - from), from), 1;
    if (*at && !take(&at, "and ")) complain("`and` is missing before", at);
  }
  return 0;
}
