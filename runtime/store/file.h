// Whole files: read, written so that a reader sees the old file or the new one and never half of one.
#ifndef TN_RUNTIME_STORE_FILE_H
#define TN_RUNTIME_STORE_FILE_H

#include "runtime/base.h"

typedef struct {
  const unsigned char *bytes;  // never NULL after success
  size_t size;
} RtFile;

// `error` says what the system reported: "model.bin: No such file or directory".
bool rt_file_read(const char *path, RtFile *out, char *error, size_t error_size);  // on the heap, bytes[size] == 0
bool rt_file_take(int fd, size_t size, RtFile *out);  // the same of an open file; false: errno
RT_API void rt_file_close(RtFile *f);

typedef struct {
  const void *bytes;  // NULL: others write them
  size_t size;
} RtPiece;
// Who writes the pieces that have no bytes: called with the name of the temporary file when all others are in it. false: the sentence
// is written, and the file is not kept.
typedef struct {
  bool (*write)(void *ctx, const char *temp);
  void *ctx;
} RtOthers;
// Writes the pieces one after the other to a temporary file beside `path`, flushes it and renames it to `path`. On
// failure the temporary file is gone and `path` is as it was. A symbolic link stays one: its target is replaced.
// The new file has the mode of the one it replaces. Temporary files of `path` whose writer was killed are removed.
RT_API bool rt_file_write(const char *path, const RtPiece *pieces, size_t n_pieces, char *error, size_t error_size);
bool rt_file_write_with(const char *path, const RtPiece *pieces, size_t n_pieces, const RtOthers *others, char *error,
                        size_t error_size);
// Writes pieces into a file that another process makes, each at its place; flushes them.
typedef struct {
  RtPiece piece;
  uint64_t offset;
} RtPlacedPiece;
bool rt_file_fill(const char *temp, const RtPlacedPiece *pieces, size_t n, char *error, size_t error_size);
// The same for a name in an open folder, of mode 0600: what stands there is replaced, a symbolic link too.
RT_API bool rt_file_write_in(int folder, const char *name, const RtPiece *pieces, size_t n_pieces, char *error,
                             size_t error_size);

// ---- runtime/store/stale_temp.c: temporary files of writers
bool rt_file_claim(int fd);  // locks a temporary file until it is closed; false: it was removed meanwhile
void rt_file_remove_stale(int folder, const char *target);  // a relative target lies below the folder

#endif
