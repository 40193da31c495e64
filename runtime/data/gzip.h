// Files packed by gzip (RFC 1952), brought to memory: one stream or several, one behind the other.
#ifndef TN_RUNTIME_DATA_GZIP_H
#define TN_RUNTIME_DATA_GZIP_H

#include "runtime/store/byte_source.h"

bool rt_is_gzip(const RtSource *s);  // by its first two bytes
// All bytes, *n of them: rt_free. NULL and a sentence: damaged, cut short, or more than `most` bytes
unsigned char *rt_gzip_unpack(const RtSource *s, uint64_t most, size_t *n, char *error, size_t error_size);

#endif
