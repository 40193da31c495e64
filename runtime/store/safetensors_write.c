// Writing safetensors; see safetensors.h.
#include "runtime/half.h"
#include "runtime/store/file.h"
#include "runtime/store/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- numbers
static void put_bytes(unsigned char *out, uint64_t bits, size_t n) {
  for (size_t k = 0; k < n; k++) out[k] = (unsigned char)(bits >> (8 * k));
}

static void put_number(RtStDType dtype, float v, unsigned char *out) {
  double wide = v;
  uint32_t bits;
  uint64_t wide_bits;
  memcpy(&bits, &v, sizeof bits);
  memcpy(&wide_bits, &wide, sizeof wide_bits);
  switch (dtype) {
  case RT_ST_F64: put_bytes(out, wide_bits, 8); break;
  case RT_ST_F16: put_bytes(out, rt_f16_of_f32(v), 2); break;
  case RT_ST_BF16: put_bytes(out, rt_bf16_of_f32(v), 2); break;
  default: put_bytes(out, bits, 4); break;
  }
}

void rt_st_put_f32(RtStDType dtype, const float *v, uint64_t n, unsigned char *out) {
  for (uint64_t k = 0; k < n; k++) put_number(dtype, v[k], out + k * rt_st_dtype_bytes[dtype]);
}

// ---- text
static void put_string(RtText *t, const char *s) {
  rt_text_put(t, "\"", 1);
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') rt_text_add(t, "\\%c", c);
    else if (c < 0x20) rt_text_add(t, "\\u%04x", c);
    else rt_text_put(t, s, 1);
  }
  rt_text_put(t, "\"", 1);
}

static void put_metadata(RtText *t, const RtStMeta *meta, uint32_t n_meta) {
  rt_text_add(t, "\"__metadata__\":{\"format\":\"pt\"");
  for (uint32_t i = 0; i < n_meta; i++) {
    rt_text_put(t, ",", 1);
    put_string(t, meta[i].key);
    rt_text_put(t, ":", 1);
    put_string(t, meta[i].value);
  }
  rt_text_put(t, "}", 1);
}

static void put_tensor(RtText *t, const RtStTensor *tensor, uint64_t offset) {
  rt_text_put(t, ",", 1);
  put_string(t, tensor->name);
  rt_text_add(t, ":{\"dtype\":\"%s\",\"shape\":[", rt_st_dtype_name[tensor->dtype]);
  for (uint32_t i = 0; i < tensor->rank; i++) rt_text_add(t, "%s%" PRId64, i ? "," : "", tensor->dims[i]);
  rt_text_add(t, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset, offset + tensor->size);
}

// ---- names
static bool is_utf8(const char *s) {
  for (size_t n, left = strlen(s); left; s += n, left -= n)
    if (!(n = rt_utf8_length(s, left))) return false;
  return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

// `kept` is a name that the format itself uses; `names` has room for one more.
static bool check_list(const char **names, uint32_t n, const char *what, const char *kept, char *error,
                       size_t error_size) {
  for (uint32_t i = 0; i < n; i++)
    if (!is_utf8(names[i]))
      return rt_fail(error, error_size, "%s '%.200s' is not UTF-8: no file can have it", what, names[i]);
  names[n++] = kept;
  qsort(names, n, sizeof *names, by_text);
  for (uint32_t i = 1; i < n; i++)
    if (!strcmp(names[i - 1], names[i]))
      return rt_fail(error, error_size,
                     strcmp(names[i], kept) ? "%s '%.200s' is given twice"
                                            : "%s '%.200s' is kept for the format's own use",
                     what, names[i]);
  return true;
}

bool rt_st_check_names(RtArena *mem, const RtStTensor *tensors, uint32_t n_tensors, const RtStMeta *meta,
                       uint32_t n_meta, char *error, size_t error_size) {
  const char **names = rt_alloc(mem, sizeof *names * ((n_tensors > n_meta ? n_tensors : n_meta) + 1));
  for (uint32_t i = 0; i < n_tensors; i++) names[i] = tensors[i].name;
  if (!check_list(names, n_tensors, "the entry", "__metadata__", error, error_size)) return false;
  for (uint32_t i = 0; i < n_meta; i++) names[i] = meta[i].key;
  return check_list(names, n_meta, "the second name", "format", error, error_size);
}

// ---- the file
// Wide elements first: every tensor is then aligned to its element, because the header is padded to 8 bytes.
static int by_width(const void *a, const void *b) {
  const RtStTensor *x = *(const RtStTensor *const *)a, *y = *(const RtStTensor *const *)b;
  int wx = rt_st_dtype_bytes[x->dtype], wy = rt_st_dtype_bytes[y->dtype];
  return wx != wy ? wy - wx : strcmp(x->name, y->name);
}

uint64_t rt_st_header(RtText *out, const RtStTensor *const *tensors, uint32_t n_tensors, const RtStMeta *meta,
                      uint32_t n_meta) {
  size_t at = out->len;
  uint64_t offset = 0;
  rt_text_put(out, "\0\0\0\0\0\0\0\0{", 9);
  put_metadata(out, meta, n_meta);
  for (uint32_t i = 0; i < n_tensors; offset += tensors[i++]->size) put_tensor(out, tensors[i], offset);
  rt_text_put(out, "}", 1);
  while ((out->len - at) % 8) rt_text_put(out, " ", 1);
  uint64_t length = out->len - at - 8;
  for (int i = 0; i < 8; i++) out->text[at + (size_t)i] = (char)(length >> (8 * i));
  return out->len - at + offset;
}

// Copies of the tensors in the order of the file, which say where each lies.
static RtStTensor **place(RtArena *mem, const RtStTensor *tensors, uint32_t n, const RtStMeta *meta, uint32_t n_meta,
                          RtText *header) {
  RtStTensor **order = rt_alloc(mem, sizeof *order * (n + 1));
  for (uint32_t i = 0; i < n; i++) order[i] = rt_alloc(mem, sizeof **order), *order[i] = tensors[i];
  if (n) qsort(order, n, sizeof *order, by_width);
  rt_st_header(header, (const RtStTensor *const *)order, n, meta, n_meta);
  uint64_t at = header->len;
  for (uint32_t i = 0; i < n; at += order[i++]->size) order[i]->offset = at;
  return order;
}

// The bytes of a tensor that this process has, in the file.
static RtPlacedPiece own_piece(const RtStTensor *t) {
  uint64_t element = rt_st_dtype_bytes[t->dtype];
  uint64_t skipped = t->part ? t->part->lo * element : 0, size = t->part ? t->part->hi * element : t->size;
  const unsigned char *data = size > skipped ? t->data + skipped : NULL;
  return (RtPlacedPiece){{data, size - skipped}, t->offset + skipped};
}

bool rt_st_write(RtArena *mem, const char *path, const RtStTensor *tensors, uint32_t n_tensors, const RtStMeta *meta,
                 uint32_t n_meta, const RtOthers *others, char *error, size_t error_size) {
  RtText header = {.mem = mem};
  RtStTensor **order = place(mem, tensors, n_tensors, meta, n_meta, &header);
  RtPiece *pieces = rt_alloc(mem, sizeof *pieces * (3 * (size_t)n_tensors + 1));
  size_t n = 0;
  pieces[n++] = (RtPiece){header.text, header.len};
  for (uint32_t i = 0; i < n_tensors; i++) {
    RtPlacedPiece own = own_piece(order[i]);
    uint64_t before = own.offset - order[i]->offset;
    pieces[n++] = (RtPiece){NULL, before};
    pieces[n++] = own.piece;
    pieces[n++] = (RtPiece){NULL, order[i]->size - before - own.piece.size};
  }
  return rt_file_write_with(path, pieces, n, others, error, error_size);
}

bool rt_st_fill(RtArena *mem, const char *temp, const RtStTensor *tensors, uint32_t n_tensors, const RtStMeta *meta,
                uint32_t n_meta, char *error, size_t error_size) {
  RtText header = {.mem = mem};
  RtStTensor **order = place(mem, tensors, n_tensors, meta, n_meta, &header);
  RtPlacedPiece *pieces = rt_alloc(mem, sizeof *pieces * (n_tensors + 1));
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_tensors; i++)
    if (order[i]->part) pieces[n++] = own_piece(order[i]);
  return rt_file_fill(temp, pieces, n, error, error_size);
}
