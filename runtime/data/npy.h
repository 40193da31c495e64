// NumPy's array files: .npy (versions 1 to 3) and .npz, a zip archive of them (stored or deflated).
//
//   \x93NUMPY 1 0 <length of the header> {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } <data>
//
// Readers take any bytes: what is wrong gives one sentence, and nothing is read or taken beyond what the source holds.
#ifndef TN_RUNTIME_DATA_NPY_H
#define TN_RUNTIME_DATA_NPY_H

#include "runtime/exec/instance.h"
#include "runtime/store/byte_source.h"

// How one number is stored.
typedef struct {
  char kind;      // 'f' float, 'h' bfloat16, 'i' signed, 'u' unsigned, 'b' bool (0 or 1)
  uint8_t bytes;  // 1, 2, 4 or 8
  bool big_endian;
} RtNumber;
// n numbers as elements of a dtype, floats rounded to nearest; false: one does not fit (a float as a whole number, 300 as
// u8, 2 as bool), *bad is its place
bool rt_number_read(RtNumber t, const unsigned char *from, size_t n, RtDType as, void *out, size_t *bad);
bool rt_number_is_plain(RtNumber t, RtDType as);  // stored as it is wanted: bytes may be copied
RtDType rt_number_natural(RtNumber t);            // f32 for floats, i64 for the others

typedef struct {
  RtNumber number;
  bool fortran;  // the first axis varies fastest
  uint32_t rank;
  int64_t dims[RT_MAX_RANK];
  uint64_t data_at, n_elements;  // byte of the source; the data lies inside
} RtNpy;
bool rt_npy_parse(const RtSource *s, RtNpy *out, char *error, size_t error_size);

// ---- zip
typedef struct {
  char name[128];  // longer ones are refused
  bool deflated;
  uint32_t crc;
  uint64_t data_at, stored, size;  // byte of the source, bytes there, bytes unpacked
} RtZipMember;
// Members of the archive in its order, *out freed by rt_free
bool rt_zip_list(const RtSource *s, RtZipMember **out, uint32_t *n, char *error, size_t error_size);
// All bytes of a member, checked against its checksum; rt_free. NULL: `error` says why.
unsigned char *rt_zip_unpack(const RtSource *s, const RtZipMember *m, char *error, size_t error_size);

#endif
