// Results that PyTorch computed, read as tests/goldens.py wrote them: lines of NAME.txt, and the numbers of NAME.bin, which
// lie there in the order in which the lines name them. A file that is otherwise ends the program.
//
//   GoldenFile g = golden_open(mem, "tests/op_tables/ops");
//   for (char *line = golden_line(&g); line; line = golden_line(&g)) {
//     char *words;
//     if (golden_is(line, "out", &words)) out = golden_take(&g, golden_count(&g, &words), sizeof(double));
//     else golden_fail(&g, "an unknown line");
//   }
//   golden_end(&g);
#ifndef TN_TESTS_GOLDEN_FILE_H
#define TN_TESTS_GOLDEN_FILE_H

#include "runtime/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  RtArena *mem;  // of all that is read
  const char *name;
  char *at;                         // the next line
  uint32_t line;                    // the number of the last one
  const char *stored, *stored_end;  // the numbers not taken yet
} GoldenFile;

static inline _Noreturn void golden_fail(const GoldenFile *g, const char *what) {
  printf("%s.txt:%u: %s\n", g->name, g->line, what);
  exit(1);
}

static inline char *golden_bytes(RtArena *mem, const char *name, const char *ending, size_t *size) {
  char path[128];
  snprintf(path, sizeof path, "%s.%s", name, ending);
  FILE *in = fopen(path, "rb");
  if (!in || fseek(in, 0, SEEK_END)) printf("%s cannot be read\n", path), exit(1);
  long n = ftell(in);
  rewind(in);
  char *bytes = rt_alloc(mem, (size_t)n + 1);
  if (fread(bytes, 1, (size_t)n, in) != (size_t)n) printf("%s cannot be read\n", path), exit(1);
  fclose(in);
  bytes[n] = 0;
  *size = (size_t)n;
  return bytes;
}

static inline GoldenFile golden_open(RtArena *mem, const char *name) {
  GoldenFile g = {.mem = mem, .name = name};
  size_t size;
  g.at = golden_bytes(mem, name, "txt", &size);
  g.stored = golden_bytes(mem, name, "bin", &size);
  g.stored_end = g.stored + size;
  return g;
}

// The next line that is no comment; NULL: none
static inline char *golden_line(GoldenFile *g) {
  char *line = g->at, *end = strchr(line, '\n');
  if (!end) return NULL;
  *end = 0;
  g->at = end + 1, g->line++;
  return *line == '#' ? golden_line(g) : line;
}

// Is this the line's first word? *words is what stands behind it.
static inline bool golden_is(char *line, const char *first, char **words) {
  size_t n = strlen(first);
  if (strncmp(line, first, n) || (line[n] && line[n] != ' ')) return false;
  *words = line + n + (line[n] == ' ');
  return true;
}

static inline double golden_number(const GoldenFile *g, char **words) {
  char *end;
  double x = strtod(*words, &end);
  if (end == *words) golden_fail(g, "a number is missing");
  *words = end;
  return x;
}

static inline uint32_t golden_count(const GoldenFile *g, char **words) { return (uint32_t)golden_number(g, words); }

// The next n stored numbers, of so many bytes each
static inline const void *golden_take(GoldenFile *g, size_t n, size_t bytes_each) {
  if (n > (size_t)(g->stored_end - g->stored) / bytes_each) golden_fail(g, "more numbers than are stored");
  void *copy = rt_alloc(g->mem, n * bytes_each + 1);  // aligned
  memcpy(copy, g->stored, n * bytes_each);
  g->stored += n * bytes_each;
  return copy;
}

// The result whose first member, its key, is this one; NULL: there is none
static inline const void *golden_find(const void *results, uint32_t n, size_t bytes_each, const char *key) {
  for (const char *at = results; n--; at += bytes_each)
    if (!strcmp(*(const char *const *)(const void *)at, key)) return at;
  return NULL;
}

static inline void golden_end(const GoldenFile *g) {
  if (g->stored != g->stored_end) golden_fail(g, "numbers that no line names");
}

// ---- files of nothing but arrays of doubles: a line of each is its name, which has no blanks, and how many numbers it has
typedef struct {
  const char *name;
  const double *v;
  uint32_t n;
} GoldenArray;

typedef struct {
  const char *file;
  GoldenArray *at;  // in the order of the file
  uint32_t n;
} GoldenArrays;

static inline GoldenArrays golden_arrays(RtArena *mem, const char *file) {
  GoldenFile g = golden_open(mem, file);
  GoldenArrays all = {.file = file};
  uint32_t cap = 0;
  for (char *line = golden_line(&g); line; line = golden_line(&g)) {
    char *words = line + strcspn(line, " ");
    uint32_t n = golden_count(&g, &words);
    line[strcspn(line, " ")] = 0;
    RT_PUSH(mem, all.at, all.n, cap);
    all.at[all.n - 1] = (GoldenArray){line, golden_take(&g, n, sizeof(double)), n};
  }
  golden_end(&g);
  return all;
}

// The n numbers of an array. One that is not there, or has others, ends the program.
static inline const double *golden_array(const GoldenArrays *all, const char *name, size_t n) {
  const GoldenArray *a = golden_find(all->at, all->n, sizeof *a, name);
  if (!a || a->n != n) printf("%s: no array %s of %zu numbers\n", all->file, name, n), exit(1);
  return a->v;
}

#endif
