// Bytes by position, of a file or in memory: what the readers of data files stand on.
//
// Files are read with pread, never mapped. A file that shrinks under the reader then gives a sentence where a mapping
// gives SIGBUS, and a file larger than the address space allowed is read as any other; a mapping would save no copy,
// since items go to the batch that asks for them.
#ifndef TN_RUNTIME_STORE_BYTE_SOURCE_H
#define TN_RUNTIME_STORE_BYTE_SOURCE_H

#include "runtime/base.h"

enum { RT_SOURCE_NAME = 256 };
typedef struct {
  int fd;                      // where bytes is NULL
  const unsigned char *bytes;  // in memory
  uint64_t base, size;         // positions count from base
  bool is_owner;               // of fd
  int64_t written_s;           // when it was written last, as it was opened
  uint32_t written_ns;
  char name[RT_SOURCE_NAME];  // for sentences
} RtSource;

bool rt_source_open(RtSource *s, const char *path, char *error, size_t error_size);
void rt_source_memory(RtSource *s, const char *name, const void *bytes, size_t n);  // the caller's bytes
void rt_source_part(RtSource *s, const RtSource *of, uint64_t at, uint64_t size);   // `of` stays open as long
void rt_source_close(RtSource *s);                                                  // of zeros: nothing
// Has nobody written the file since it was opened, as far as its size and its time show? Of other sources: true.
bool rt_source_is_unchanged(const RtSource *s, char *error, size_t error_size);
// All n bytes from `at`. By several threads at once.
bool rt_source_read(const RtSource *s, uint64_t at, void *to, size_t n, char *error, size_t error_size);

#endif
