// IDX files, in which MNIST and its kin come: one array of any rank, big-endian.
//
//   0 0 <type> <rank> <size of axis 0, u32> .. <data>        type 8 u8, 9 i8, 11 i16, 12 i32, 13 f32, 14 f64
//
// Any bytes are taken: what is wrong gives one sentence, and the data lies inside the source, to its last byte.
#ifndef TN_RUNTIME_DATA_IDX_H
#define TN_RUNTIME_DATA_IDX_H

#include "runtime/data/npy.h"

// The array as an .npy would hold it
bool rt_idx_parse(const RtSource *s, RtNpy *out, char *error, size_t error_size);

#endif
