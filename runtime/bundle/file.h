// A safetensors file in memory, read where it lies: nothing is allocated, any bytes are safe. What is sought is looked
// for from where the last find ended, so that files that list tensors in the expected order are walked once.
#ifndef TN_RUNTIME_BUNDLE_FILE_H
#define TN_RUNTIME_BUNDLE_FILE_H

#include "runtime/bundle/bundle.h"

// Text between quotes of the header, with its escapes; or, is_plain, text as it stands.
typedef struct {
  const unsigned char *at, *end;
  bool is_plain;
} TnText;
TnText tn_text_of(const char *s);
bool tn_text_same(TnText a, TnText b);

typedef struct {
  const unsigned char *first, *cursor, *end;  // of the header: its first entry; NULL: none
  const unsigned char *metadata;              // behind its {; NULL: none
  const unsigned char *data;
  size_t n_data;
  uint32_t most_names;
} TnFile;

// Those of arrays, numbered as RtDType is, and F64.
#define ROW(id, name, bytes, file, ...) TN_ENTRY_##file,
typedef enum { TN_ENTRY_NO_DTYPE, RT_DTYPES(ROW) TN_ENTRY_F64 } TnFileDType;
#undef ROW
typedef struct {
  TnText name;
  TnFileDType dtype;  // TN_ENTRY_NO_DTYPE: one that no tensor of a bundle can be
  uint32_t rank;      // may be above RT_MAX_RANK
  int64_t sizes[RT_MAX_RANK];
  const unsigned char *data;
  size_t bytes;
  bool is_metadata;
} TnFileEntry;

// A TnBundleStatus; all of the header is valid
int tn_file_open(TnFile *f, const void *bytes, size_t n, uint32_t most_names);
bool tn_file_find(TnFile *f, TnText name, TnFileEntry *out);             // false: none
bool tn_file_find_metadata(const TnFile *f, TnText key, TnText *value);  // the same

// Element k of an entry's data as the bits of an f32, rounded to nearest even as the runtime's reader does it.
uint32_t tn_file_f32_bits(const TnFileEntry *e, size_t k);

#endif
