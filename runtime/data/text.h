// Text as numbers: a vocabulary of bytes or code points, and windows of a text file as items.
//
//   "hello" by the vocabulary e h l o, window 3:   item 0   x = h e l,  y = e l l     (y: what comes next)
//
// The file is read where an item needs it; in memory is one offset for every 1024 code points.
#ifndef TN_RUNTIME_DATA_TEXT_H
#define TN_RUNTIME_DATA_TEXT_H

#include "runtime/data/dataset.h"
#include "runtime/store/byte_source.h"

typedef struct {
  bool utf8;          // code points; else bytes
  size_t n;           // symbols
  uint32_t symbol[];  // ascending
} RtVocabulary;

// Of the user's list, in any order, without repetition. Freed by rt_free.
RtVocabulary *rt_vocabulary_new(const uint32_t *symbols, size_t n, bool utf8, char *error, size_t error_size);
// Of what stands in a text. Bytes that are not UTF-8 are told by their place.
RtVocabulary *rt_vocabulary_of(const RtSource *s, bool utf8, char *error, size_t error_size);
int64_t rt_vocabulary_id(const RtVocabulary *v, uint32_t symbol);  // -1: none
// Bytes of id's symbol, written to out; 0: no such id
size_t rt_vocabulary_bytes(const RtVocabulary *v, int64_t id, char out[4]);
// Symbols of a text, at most max ids written; gives their number. SIZE_MAX: `error` tells the one that has no id.
size_t rt_vocabulary_encode(const RtVocabulary *v, const char *text, size_t n, int64_t *ids, size_t max, char *error,
                            size_t error_size);

// Fields x [window] and y [window]; item k begins at symbol k * stride. Takes the source over when it succeeds.
RtDataset *rt_dataset_text(RtSource *s, const RtVocabulary *v, int64_t window, int64_t stride, char *error,
                           size_t error_size);

#endif
