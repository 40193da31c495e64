// Tables of text as RFC 4180 has them: quoted cells may hold delimiters, line ends and doubled quotes.
//
//   x,y,"what kind"        fields: {"x", columns x y}, {"kind", column "what kind", classes small big}
//   1.5,2,small
//
// Opening reads the file once, chunk by chunk: every cell that a field names is checked, with line and column in the
// sentence, and the place of every record is kept (8 bytes each). Items are read from the file where they are needed.
#ifndef TN_RUNTIME_DATA_CSV_H
#define TN_RUNTIME_DATA_CSV_H

#include "runtime/data/dataset.h"
#include "runtime/store/byte_source.h"

typedef struct {
  const char *name;
  RtDType dtype;               // 0: f32, or i64 with classes; one that holds the numbers of all classes
  const char *const *columns;  // names of the header, each on one column; or numbers "0", "1", .. without one
  uint32_t n_columns;
  bool is_scalar;              // of one column: [] instead of [1]
  const char *const *classes;  // texts: the item is the place of the cell's in this list
  uint32_t n_classes;
  const char *missing_as;  // what a missing cell is read as: a number, "nan" or one of the classes; NULL: nothing
} RtCsvField;

typedef struct {
  char delimiter;  // 0: ','
  bool no_header;
  const RtCsvField *fields;  // NULL: one field "x" of all columns in their order
  uint32_t n_fields;
  bool allow_missing;   // missing floats of fields without `missing_as` become `fill`
  const char *missing;  // the text of a missing cell, beside the empty one; NULL: none
  double fill;
} RtCsvOptions;

// Takes the source over when it succeeds.
RtDataset *rt_dataset_csv(RtSource *s, const RtCsvOptions *o, char *error, size_t error_size);

#endif
