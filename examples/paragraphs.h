// Texts as paragraphs, for examples that learn from documents of very different lengths: letters, what follows each, and lengths.
#ifndef EXAMPLES_PARAGRAPHS_H
#define EXAMPLES_PARAGRAPHS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MOST_TEXT = 1 << 20, CODES = 256 };
static int64_t letter[MOST_TEXT], next[MOST_TEXT], lengths[MOST_TEXT];  // 0 follows the last letter of a paragraph
static size_t n_letters, n_documents;

// Appends a file's paragraphs, which end with an empty line; false: errno says why
static bool read_paragraphs(const char *path) {
  FILE *in = fopen(path, "rb");
  if (!in) return false;
  size_t begin = n_letters;
  for (int c, last = 0; n_letters < MOST_TEXT && n_documents < MOST_TEXT; last = c) {
    c = getc(in);
    bool ends = c == EOF || (c == '\n' && last == '\n');
    if (n_letters > begin) next[n_letters - 1] = ends ? 0 : c;
    if (ends && n_letters > begin) lengths[n_documents++] = (int64_t)(n_letters - begin), begin = n_letters;
    if (c == EOF) break;
    if (!ends) letter[n_letters++] = c;
  }
  bool good = !ferror(in);
  return fclose(in) == 0 && good;
}

#endif
