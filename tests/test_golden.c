// Golden tests: text in, text out. Each tests/golden/PASS/BEHAVIOUR.tir is
//
//   # run: --passes=check_scopes,simplify --facts      (or `# error:` with the same options: diagnostics are expected)
//   program @p
//   ...
//   ----
//   the expected output: the program after the passes, then diagnostics if there are any
//
// Lines that begin with # may say more; they are blank to the parser. Run from a folder that has tests/golden.
//   test_golden [--update] [NAME ..]     --update rewrites what is below the line
#include "ir/ir.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "ir/verify.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char folder[] = "tests/golden";

typedef struct {
  RtArena *mem;
  const char *name;  // PASS/BEHAVIOUR.tir
  char *text;        // the whole file
  size_t n;
  size_t n_program;      // bytes before the line
  const char *expected;  // below it
  const char *passes;    // NULL: none
  const char *rules;     // NULL: all
  uint32_t flags;        // PRINT_*
  bool is_error;
  bool copy_saved;      // what a backward needs is kept instead of E112
  int64_t arena_limit;  // with kernels that run again
} Golden;

// ---- reading

static char *read_file(RtArena *mem, const char *path, size_t *n) {
  FILE *in = fopen(path, "rb");
  if (!in) return NULL;
  RtText text = {.mem = mem};
  char block[4096];
  size_t got;
  rt_text_put(&text, "", 0);
  while ((got = fread(block, 1, sizeof block, in)) > 0) rt_text_put(&text, block, got);
  fclose(in);
  *n = text.len;
  return text.text;
}

static void read_option(Golden *g, const char *word, size_t n) {
  static const char passes[] = "--passes=", rules[] = "--rules=";
  if (n > strlen(passes) && !strncmp(word, passes, strlen(passes)))
    g->passes = rt_strndup(g->mem, word + strlen(passes), n - strlen(passes));
  if (n > strlen(rules) && !strncmp(word, rules, strlen(rules)))
    g->rules = rt_strndup(g->mem, word + strlen(rules), n - strlen(rules));
  if (n == 6 && !strncmp(word, "--locs", n)) g->flags |= PRINT_LOCS;
  if (n == 7 && !strncmp(word, "--facts", n)) g->flags |= PRINT_FACTS;
  if (n == 12 && !strncmp(word, "--copy-saved", n)) g->copy_saved = true;
  if (n > 14 && !strncmp(word, "--arena-limit=", 14)) g->arena_limit = strtoll(word + 14, NULL, 10);
}

// `# run: ..` and `# error: ..`; blanks every line that begins with #, so that the parser counts lines as an editor
// does.
static bool read_header(Golden *g) {
  bool found = false;
  for (char *s = g->text; s && s < g->text + g->n_program;) {
    char *end = memchr(s, '\n', (size_t)(g->text + g->n_program - s));
    size_t n = end ? (size_t)(end - s) : (size_t)(g->text + g->n_program - s);
    bool is_run = n >= 6 && !strncmp(s, "# run:", 6);
    if (n >= 8 && !strncmp(s, "# error:", 8)) is_run = g->is_error = true;
    found = found || is_run;
    for (size_t k = 0; is_run && k < n;) {
      size_t word = strcspn(s + k, " \n");
      read_option(g, s + k, word);
      k += word + 1;
    }
    if (n && *s == '#') memset(s, ' ', n);
    s = end ? end + 1 : NULL;
  }
  return found;
}

static bool read_golden(Golden *g, const char *path) {
  g->text = read_file(g->mem, path, &g->n);
  if (!g->text) return false;
  const char *line = strstr(g->text, "\n----\n");
  g->n_program = line ? (size_t)(line - g->text) + 1 : g->n;
  g->expected = line ? line + strlen("\n----\n") : "";
  return true;
}

// ---- running

static void add_diags(const RtDiags *d, RtText *out) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  if (!f) return;
  rt_diags_print(d, f);
  fclose(f);
  rt_text_put(out, text, n);
  free(text);
}

static bool run_passes(Prog *p, const char *passes) {
  const char *list = !strcmp(passes, "all") ? NULL : passes;
  bool placed = p->n_fns > 0;
  for (uint32_t k = 0; k < p->n_fns; k++) {
    if (!ir_run_passes(p->fns[k], list, NULL, NULL)) return false;
    placed = placed && (p->fns[k]->facts & HAS_OFFSETS);
  }
  return !placed || ir_plan_program_memory(p);
}

// The program as it prints, unless it has errors; then the diagnostics.
static bool run_golden(Golden *g, const char *program, RtText *out) {
  RtDiags diags = {.mem = g->mem};
  Prog *p = ir_parse(g->mem, program, g->n_program, g->name, &diags);
  bool ok = p != NULL;
  for (uint32_t k = 0; p && k < p->n_fns; k++) ok = ir_verify(p->fns[k], &diags) && ok;
  if (p) p->copy_saved = g->copy_saved, p->arena_limit = g->arena_limit, p->recomputes = g->arena_limit > 0;
  ok = ok && ir_select_rules(p, g->rules) && (!g->passes || run_passes(p, g->passes));
  rt_text_put(out, "", 0);
  if (ok) ir_print(p, out, g->flags);
  add_diags(&diags, out);
  if (p) add_diags(&p->diags, out);
  return ok;
}

// ---- judging

static void print_line(const char *sign, const char *s) {
  if (!*s) printf("  %s (the end)\n", sign);
  else printf("  %s %.*s\n", sign, (int)strcspn(s, "\n"), s);
}

static const char *next_line(const char *s) {
  s += strcspn(s, "\n");
  return *s ? s + 1 : s;
}

// The first line that differs, with the two lines before it and three after.
static void print_difference(const char *expected, const char *found) {
  const char *before[2] = {NULL, NULL};
  unsigned line = 1;
  for (; *expected && *found; line++) {
    size_t n = strcspn(expected, "\n");
    if (n != strcspn(found, "\n") || memcmp(expected, found, n)) break;
    before[0] = before[1];
    before[1] = expected;
    expected = next_line(expected);
    found = next_line(found);
  }
  printf("  line %u of the output differs:\n", line);
  for (int k = 0; k < 2; k++)
    if (before[k]) print_line(" ", before[k]);
  for (int k = 0; k < 4; k++, expected = next_line(expected))
    if (*expected || k == 0) print_line("-", expected);
  for (int k = 0; k < 4; k++, found = next_line(found))
    if (*found || k == 0) print_line("+", found);
}

static bool rewrite(const Golden *g, const char *path, const char *head, const char *out) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool ok = fwrite(head, 1, g->n_program, f) == g->n_program && fprintf(f, "----\n%s", out) >= 0;
  return !fclose(f) && ok;
}

static bool judge(Golden *g, const char *path, bool update) {
  if (!read_golden(g, path)) return printf("%s: cannot be read\n", path), false;
  const char *head = rt_strndup(g->mem, g->text, g->n_program);
  if (!read_header(g)) return printf("%s: has no line `# run:` or `# error:`\n", path), false;
  RtText out = {.mem = g->mem};
  bool ran = run_golden(g, g->text, &out);
  if (ran == g->is_error) {
    printf("%s: %s\n%s", path, ran ? "errors were expected, there are none" : "has errors", ran ? "" : out.text);
    return false;
  }
  if (!strcmp(out.text, g->expected)) return true;
  if (update) return rewrite(g, path, head, out.text);
  printf("%s: another output\n", path);
  print_difference(g->expected, out.text);
  return false;
}

// What a passing program prints is a program again: it prints the same once more.
static bool is_fixed_point(Golden *g) {
  if (g->is_error) return true;
  RtDiags diags = {.mem = g->mem};
  Prog *p = ir_parse(g->mem, g->text, g->n_program, g->name, &diags);
  uint32_t bare = g->flags & ~(uint32_t)PRINT_FACTS;  // facts don't read back
  RtText full = {.mem = g->mem}, once = {.mem = g->mem}, again = {.mem = g->mem};
  if (p) p->copy_saved = g->copy_saved, p->arena_limit = g->arena_limit, p->recomputes = g->arena_limit > 0;
  if (!p || !ir_select_rules(p, g->rules) || (g->passes && !run_passes(p, g->passes))) return false;
  ir_print(p, &full, g->flags);
  ir_print(p, &once, bare);
  Prog *q = ir_parse(g->mem, full.text, full.len, g->name, &diags);
  if (!q) return rt_diags_print(&diags, stdout), false;
  ir_print(q, &again, bare);
  if (strcmp(once.text, again.text)) return print_difference(once.text, again.text), false;
  return true;
}

static bool run_file(const char *name, bool update) {
  RtArena *mem = rt_arena_new();
  if (!mem) return false;
  Golden g = {.mem = mem, .name = name};
  bool ok = judge(&g, rt_printf(mem, "%s/%s", folder, name), update);
  if (ok && !is_fixed_point(&g)) {
    printf("%s/%s: print, parse, print is no fixed point\n", folder, name);
    ok = false;
  }
  rt_arena_free(mem);
  return ok;
}

// ---- the folder

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_wanted(const char *file, int n, char **names) {
  size_t len = strlen(file);
  if (len < 5 || strcmp(file + len - 4, ".tir")) return false;
  bool any = false;
  for (int k = 0; k < n; k++) {
    if (names[k][0] == '-') continue;
    any = true;
    if (strstr(file, names[k])) return true;
  }
  return !any;
}

typedef struct {
  RtArena *mem;
  char **name;  // PASS/BEHAVIOUR.tir
  unsigned n, cap;
} Names;

// The wanted files of tests/golden and, one level below, of its folders. sub: NULL for tests/golden itself.
static void list_folder(Names *out, const char *sub, int n, char **wanted) {
  DIR *dir = opendir(sub ? rt_printf(out->mem, "%s/%s", folder, sub) : folder);
  if (!dir) return;
  for (struct dirent *e; (e = readdir(dir));) {
    char *name = sub ? rt_printf(out->mem, "%s/%s", sub, e->d_name) : rt_strdup(out->mem, e->d_name);
    if (is_wanted(name, n, wanted)) *RT_PUSH(out->mem, out->name, out->n, out->cap) = name;
    else if (!sub && e->d_name[0] != '.') list_folder(out, e->d_name, n, wanted);
  }
  closedir(dir);
}

int main(int argc, char **argv) {
  bool update = false;
  for (int k = 1; k < argc; k++) update = update || !strcmp(argv[k], "--update");
  RtArena *mem = rt_arena_new();
  if (!mem) return 2;
  Names files = {.mem = mem};
  unsigned n_failed = 0;
  list_folder(&files, NULL, argc - 1, argv + 1);
  if (files.n) qsort(files.name, files.n, sizeof *files.name, by_name);
  for (unsigned k = 0; k < files.n; k++) n_failed += !run_file(files.name[k], update);
  printf("%u passed, %u failed\n", files.n - n_failed, n_failed);
  rt_arena_free(mem);
  return n_failed || files.n == 0;
}
