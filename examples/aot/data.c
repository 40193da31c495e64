// Writes the sequences of a .ts file as vowels.c reads them: label, length, frames of 12 numbers up to the longest.
//
//   data JapaneseVowels_TRAIN.ts train.bin
#include "frontend/tenure.h"

#include <string.h>

enum { FEATURES = 12, TIME = 29 };
typedef struct {
  int64_t label, length;
  float x[TIME][FEATURES];
} Sequence;

static bool write_sequences(const tn_series *s, FILE *out) {
  for (size_t k = 0; k < tn_series_count(s); k++) {
    Sequence row = {.label = tn_series_label(s, k), .length = (int64_t)tn_series_length(s, k)};
    memcpy(row.x, tn_series_values(s, k), (size_t)row.length * sizeof row.x[0]);
    if (fwrite(&row, sizeof row, 1, out) != 1) return false;
  }
  return true;
}

int main(int argc, char **argv) {
  char error[512];
  bool asks = argc == 2 && !strcmp(argv[1], "--help");
  if (argc != 3) return fprintf(asks ? stdout : stderr, "data FILE.ts FILE.bin\n"), asks ? 0 : 2;
  tn_series *s = tn_series_read(argv[1], error, sizeof error);
  if (!s) return fprintf(stderr, "%s\n", error), 1;
  bool fits = tn_series_features(s) == FEATURES && tn_series_max_length(s) <= TIME;
  FILE *out = fits ? fopen(argv[2], "wb") : NULL;
  bool good = out && write_sequences(s, out) && fclose(out) == 0;
  if (!good) fprintf(stderr, "%s: %s\n", argv[2], fits ? "cannot be written" : "the data has other sizes");
  tn_series_free(s);
  return !good;
}
