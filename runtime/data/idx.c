#include "runtime/data/idx.h"

#include <inttypes.h>

static bool number_of(unsigned char type, RtNumber *out) {
  switch (type) {
  case 8: *out = (RtNumber){'u', 1, true}; return true;
  case 9: *out = (RtNumber){'i', 1, true}; return true;
  case 11: *out = (RtNumber){'i', 2, true}; return true;
  case 12: *out = (RtNumber){'i', 4, true}; return true;
  case 13: *out = (RtNumber){'f', 4, true}; return true;
  case 14: *out = (RtNumber){'f', 8, true}; return true;
  default: return false;
  }
}

static uint32_t read_u32(const unsigned char *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool read_sizes(const RtSource *s, RtNpy *out, char *error, size_t error_size) {
  unsigned char sizes[4 * RT_MAX_RANK];
  if (!rt_source_read(s, 4, sizes, 4 * (size_t)out->rank, error, error_size)) return false;
  out->n_elements = 1;
  out->data_at = 4 + 4 * (uint64_t)out->rank;
  for (uint32_t d = 0; d < out->rank; d++) {
    out->dims[d] = read_u32(sizes + 4 * d);
    if (__builtin_mul_overflow(out->n_elements, (uint64_t)out->dims[d], &out->n_elements))
      return rt_fail(error, error_size, "%s: the sizes of the axes make more than 2^64 numbers", s->name);
  }
  return true;
}

bool rt_idx_parse(const RtSource *s, RtNpy *out, char *error, size_t error_size) {
  unsigned char head[4] = {0};
  *out = (RtNpy){0};
  if (s->size < sizeof head)
    return rt_fail(error, error_size, "%s: not an IDX file: it has %" PRIu64 " bytes", s->name, s->size);
  if (!rt_source_read(s, 0, head, sizeof head, error, error_size)) return false;
  if (head[0] || head[1])
    return rt_fail(error, error_size, "%s: not an IDX file: its first two bytes are not 0", s->name);
  if (!number_of(head[2], &out->number))
    return rt_fail(error, error_size, "%s: type %u of an IDX file is unknown: 8, 9 and 11 to 14 are read", s->name,
                   head[2]);
  if (head[3] == 0 || head[3] > RT_MAX_RANK)
    return rt_fail(error, error_size, "%s: an array of %u axes, 1 to %d are read", s->name, head[3], RT_MAX_RANK);
  out->rank = head[3];
  if (!read_sizes(s, out, error, error_size)) return false;
  uint64_t bytes, there = s->size - out->data_at;
  if (__builtin_mul_overflow(out->n_elements, (uint64_t)out->number.bytes, &bytes) || bytes != there)
    return rt_fail(error, error_size,
                   "%s: the sizes of the axes make %" PRIu64 " numbers of %u bytes, and there are %" PRIu64
                   " bytes of data",
                   s->name, out->n_elements, out->number.bytes, there);
  return true;
}
