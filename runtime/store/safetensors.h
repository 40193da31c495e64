// The safetensors format: u64 header length, a JSON header, then the tensors' bytes without holes.
//
//   {"fc.bias":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}, "__metadata__":{"format":"pt"}}
//
// The reader takes any bytes: whatever is wrong gives one sentence with the byte offset, and nothing is read outside.
#ifndef TN_RUNTIME_STORE_SAFETENSORS_H
#define TN_RUNTIME_STORE_SAFETENSORS_H

#include "runtime/api.h"
#include "runtime/exec/plan_types.h"
#include "runtime/names.h"
#include "runtime/store/byte_source.h"
#include "runtime/store/file.h"

// ROW(name, bytes of one element)
#define RT_ST_DTYPES(ROW) \
  ROW(F64, 8)             \
  ROW(F32, 4)             \
  ROW(F16, 2)             \
  ROW(BF16, 2)            \
  ROW(I64, 8) ROW(I32, 4) ROW(I16, 2) ROW(I8, 1) ROW(U64, 8) ROW(U32, 4) ROW(U16, 2) ROW(U8, 1) ROW(BOOL, 1)
// ROW(name, bits of one element): tensors that a file may hold beside others, and that nothing reads
#define RT_ST_UNREAD_DTYPES(ROW) \
  ROW(F8_E4M3, 8)                \
  ROW(F8_E5M2, 8)                \
  ROW(F8_E8M0, 8) ROW(F8_E4M3FNUZ, 8) ROW(F8_E5M2FNUZ, 8) ROW(F6_E2M3, 6) ROW(F6_E3M2, 6) ROW(F4, 4) ROW(C64, 64)
#define ROW(n, b) RT_ST_##n,
typedef enum { RT_ST_DTYPES(ROW) RT_ST_UNREAD_DTYPES(ROW) RT_N_ST_DTYPES } RtStDType;
#undef ROW
extern const char *const rt_st_dtype_name[RT_N_ST_DTYPES];
extern const uint8_t rt_st_dtype_bytes[RT_N_ST_DTYPES];  // 0: of one that is not read
static inline bool rt_st_is_read(uint8_t dtype) { return dtype <= RT_ST_BOOL; }

RT_API RtStDType rt_st_dtype_of(uint32_t t);  // of an array's RtDType

enum { RT_ST_MAX_RANK = 8 };
// Elements [lo, hi) of a tensor are those that this process writes.
typedef struct {
  uint64_t lo, hi;
} RtStPart;
typedef struct {
  const char *name;
  uint8_t dtype;  // RtStDType
  uint32_t rank;
  int64_t dims[RT_ST_MAX_RANK];
  uint64_t n_elements;
  const unsigned char *data;  // little-endian, not aligned; the reader's points into its input
  uint64_t size;              // bytes
  uint64_t offset;            // byte of the file, where one is read or placed
  const RtStPart *part;       // the writer's: several processes write the tensor; NULL: one does
} RtStTensor;
typedef struct {
  const char *key, *value;
} RtStMeta;
typedef struct {
  RtStTensor *tensors;  // in the order of their data
  uint32_t n_tensors, cap_tensors;
  RtNames names;   // of tensors, by their place in the list
  RtStMeta *meta;  // in the order of the file; of two with one key the first
  uint32_t n_meta, cap_meta;
  RtNames keys;  // the same of meta
} RtSt;

// Names and lists go to `mem`; tensor data stays in `bytes`, which must outlive *out.
bool rt_st_parse(RtArena *mem, const void *bytes, size_t n, RtSt *out, char *error, size_t error_size);
// The same for a file of n_file bytes of which only the first n, at least the header, are there: data is NULL.
bool rt_st_parse_header(RtArena *mem, const void *bytes, size_t n, uint64_t n_file, RtSt *out, char *error,
                        size_t error_size);
// The same of an open file, of which only the header is read; the sentence begins with its name.
bool rt_st_read_header(RtArena *mem, const RtSource *s, RtSt *out, char *error, size_t error_size);
// For who makes a list himself: st->names from st->tensors, and one more of st->meta. A name that stands there twice;
// NULL: none
const char *rt_st_index(RtArena *mem, RtSt *st);
void rt_st_add_meta(RtArena *mem, RtSt *st, const char *key, const char *value);
const RtStTensor *rt_st_find(const RtSt *st, const char *name);  // NULL: none
const char *rt_st_meta(const RtSt *st, const char *key);         // NULL: none
void rt_st_read_f32(const RtStTensor *t, float *out);  // F64, F32, F16, BF16; all n_elements, rounded to nearest even
// The tensor's elements as an array of t: the bytes as they are where it holds the same dtype, floats by way of f32.
void rt_st_read(const RtStTensor *t, RtDType as, void *out);
// The other way: n elements as `dtype`, rounded to nearest even; not aligned.
void rt_st_put_f32(RtStDType dtype, const float *v, uint64_t n, unsigned char *out);

// Names that a file can carry: UTF-8, none twice, no tensor "__metadata__", no key "format" beside the writer's own.
bool rt_st_check_names(RtArena *mem, const RtStTensor *tensors, uint32_t n_tensors, const RtStMeta *meta,
                       uint32_t n_meta, char *error, size_t error_size);
// Length and JSON of a file with these tensors in this order, of which data is not read; gives the bytes of the file.
RT_API uint64_t rt_st_header(RtText *out, const RtStTensor *const *tensors, uint32_t n_tensors, const RtStMeta *meta,
                             uint32_t n_meta);
// Writes a file that PyTorch reads: tensors with wide elements first, then by name; metadata gets "format": "pt".
// Scratch memory comes from `mem`. Names were checked. The file is replaced whole or not at all.
// others: write what tensors leave to them; NULL: nobody does
bool rt_st_write(RtArena *mem, const char *path, const RtStTensor *tensors, uint32_t n_tensors, const RtStMeta *meta,
                 uint32_t n_meta, const RtOthers *others, char *error, size_t error_size);
// What such a tensor leaves to this process, written into the file that another makes of the same tensors and metadata.
bool rt_st_fill(RtArena *mem, const char *temp, const RtStTensor *tensors, uint32_t n_tensors, const RtStMeta *meta,
                uint32_t n_meta, char *error, size_t error_size);

#endif
