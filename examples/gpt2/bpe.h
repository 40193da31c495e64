// Byte-level byte pair encoding, as GPT-2 has it: text to numbers of tokens and back, from vocab.json and merges.txt.
//
//   char why[256];
//   Bpe *b = bpe_open("vocab.json", "merges.txt", why, sizeof why);
//   size_t n = bpe_encode(b, text, strlen(text), ids);
//   for (size_t k = 0; k < n; k++) fwrite(bpe_bytes(b, ids[k], &size), 1, size, stdout);
//
// A text is cut into words, a word's bytes are tokens at first, and the pair of neighbours that stands highest in
// merges.txt becomes one token until no pair stands there. Any bytes come back as they were.
#ifndef GPT2_BPE_H
#define GPT2_BPE_H

#include <stddef.h>
#include <stdint.h>

typedef struct Bpe Bpe;
// Both NULL: every byte is a token. NULL: `why` says it.
Bpe *bpe_open(const char *vocab, const char *merges, char *why, size_t why_size);
void bpe_free(Bpe *b);
size_t bpe_count(const Bpe *b);
// At most n tokens for n bytes; gives how many
size_t bpe_encode(const Bpe *b, const char *text, size_t n, int64_t *ids);
const char *bpe_bytes(const Bpe *b, int64_t id, size_t *n);   // of a token; none for one that the file lacks
int64_t bpe_find(const Bpe *b, const char *bytes, size_t n);  // -1: no such token
size_t bpe_word(const char *text, size_t n);                  // bytes of the first word of a text
#endif
