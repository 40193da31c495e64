// Texts as paragraphs, for examples that learn from documents of very different lengths: letters, what follows each, and lengths;
// batches of them.
#ifndef EXAMPLES_PARAGRAPHS_H
#define EXAMPLES_PARAGRAPHS_H

#include "frontend/tenure.h"
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

// A batch has "letter", its lengths and "next", one paragraph behind the other; NULL: why says what is wrong
static tn_loader *paragraph_batches(tn_sampler how, size_t most, char *why, size_t n) {
  static const char *const fields[] = {"letter", "next"}, *const inputs[] = {"letter", "letter.lengths", "next"};
  if (!n_documents) return snprintf(why, n, "it has no paragraphs"), NULL;
  tn_array text[] = {tn_i64(letter, (int64_t)n_letters), tn_i64(next, (int64_t)n_letters)};
  tn_dataset *all = tn_dataset_arrays(text, 2, fields, why, n);
  tn_dataset *d = tn_dataset_ragged(all, lengths, n_documents, why, n);
  tn_loader_options o = {.batch_size = most,
                         .layout = TN_CONCATENATED,
                         .workers = 1,
                         .seed = 7,
                         .sampler = how,
                         .inputs = inputs,
                         .n_inputs = 3};
  tn_loader *l = tn_loader_new(d, &o, why, n);
  return tn_dataset_free(all), tn_dataset_free(d), l;  // the loader keeps them
}

// How full they are, where a batch may have `most` letters
static void print_batches(const tn_loader *l, int most) {
  tn_epoch_report r = tn_loader_report(l);
  printf("%zu paragraphs of %lld letters in %zu batches, %.1f %% full; padding would add %.1f %%\n", n_documents,
         (long long)r.rows, r.batches, 100.0 * (double)r.rows / (most * (double)r.batches),
         100.0 * (double)r.padded / (double)r.rows - 100);
}

#endif
