#include "runtime/store/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void set_name(RtSource *s, const char *name) {
  size_t n = strlen(name), skip = n >= RT_SOURCE_NAME ? n - RT_SOURCE_NAME + 1 : 0;  // the end says more
  memcpy(s->name, name + skip, n - skip + 1);
}

bool rt_source_open(RtSource *s, const char *path, char *error, size_t error_size) {
  struct stat st;
  *s = (RtSource){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  set_name(s, path);
  s->is_owner = s->fd >= 0;
  if (s->is_owner && fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode)) {
    s->size = (uint64_t)st.st_size;
    s->written_s = st.st_mtim.tv_sec, s->written_ns = (uint32_t)st.st_mtim.tv_nsec;
    return true;
  }
  int reason = errno;
  bool is_open = s->is_owner;
  rt_source_close(s);
  return rt_fail(error, error_size, "%s: %s", path, is_open ? "not a regular file" : strerror(reason));
}

void rt_source_memory(RtSource *s, const char *name, const void *bytes, size_t n) {
  *s = (RtSource){.fd = -1, .bytes = n ? bytes : (const void *)"", .size = n};
  set_name(s, name);
}

void rt_source_part(RtSource *s, const RtSource *of, uint64_t at, uint64_t size) {
  *s = *of;
  s->base += at, s->size = size;
  s->is_owner = false;
}

void rt_source_close(RtSource *s) {
  if (s->is_owner) close(s->fd);
  *s = (RtSource){.fd = -1};
}

bool rt_source_is_unchanged(const RtSource *s, char *error, size_t error_size) {
  struct stat st;
  if (!s->is_owner) return true;
  if (fstat(s->fd, &st)) return rt_fail(error, error_size, "%s: %s", s->name, strerror(errno));
  bool same = (uint64_t)st.st_size == s->size && st.st_mtim.tv_sec == s->written_s &&
              (uint32_t)st.st_mtim.tv_nsec == s->written_ns;
  return same || rt_fail(error, error_size, "%s: the file was written while it was read: nothing is taken", s->name);
}

static bool fail_short(const RtSource *s, uint64_t at, size_t n, char *error, size_t error_size) {
  return rt_fail(error, error_size,
                 "%s: %zu bytes are needed at byte %" PRIu64 ", where the file ends: it was cut short", s->name, n, at);
}

bool rt_source_read(const RtSource *s, uint64_t at, void *to, size_t n, char *error, size_t error_size) {
  if (at > s->size || n > s->size - at) return fail_short(s, at, n, error, error_size);
  at += s->base;
  if (s->bytes) {
    if (n) memcpy(to, s->bytes + at, n);
    return true;
  }
  for (size_t done = 0; done < n;) {
    ssize_t got = pread(s->fd, (unsigned char *)to + done, n - done, (off_t)(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return rt_fail(error, error_size, "%s: %s", s->name, strerror(errno));
    if (got == 0) return fail_short(s, at + done, n - done, error, error_size);
    done += (size_t)got;
  }
  return true;
}
