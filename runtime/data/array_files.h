// Data sets of arrays in files: .npy, .npz, IDX and safetensors, side by side, item k being row k of each.
//
// Rows are read from the file where a batch needs them, so that a set may be larger than memory. What cannot be read by
// rows, deflated members and arrays in Fortran order, is brought to memory when the set is opened. A set of rows in
// which no array has a number is refused.
#ifndef TN_RUNTIME_DATA_ARRAY_FILES_H
#define TN_RUNTIME_DATA_ARRAY_FILES_H

#include "runtime/data/dataset.h"
#include "runtime/data/npy.h"

typedef struct {
  const char *name;   // of the array in its file; .npy, IDX: the file
  const char *field;  // NULL: the same; .npy, IDX: without folder and ending
  RtDType dtype;      // 0: f32 for floats, i64 for integers and bools
} RtColumn;

// columns NULL and n 0: all arrays of the file, in its order.
RtDataset *rt_dataset_npy(const RtColumn *columns, uint32_t n, char *error, size_t error_size);
RtDataset *rt_dataset_idx(const RtColumn *columns, uint32_t n, char *error, size_t error_size);
// max_unpacked: bytes of all deflated members together; 0: 4 GiB
RtDataset *rt_dataset_npz(const char *path, const RtColumn *columns, uint32_t n, uint64_t max_unpacked, char *error,
                          size_t error_size);
RtDataset *rt_dataset_safetensors(const char *path, const RtColumn *columns, uint32_t n, char *error,
                                  size_t error_size);

#endif
