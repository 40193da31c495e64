// Files through POSIX calls; see file.h.
#include "runtime/store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail_errno(const char *path, char *error, size_t error_size) {
  return rt_fail(error, error_size, "%s: %s", path, strerror(errno));
}

// A descriptor of a regular file and its size; -1: `error` says why.
static int open_regular(const char *path, size_t *size, char *error, size_t error_size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without writer must not block us
  struct stat st;
  if (fd < 0 || fstat(fd, &st)) {
    fail_errno(path, error, error_size);
    if (fd >= 0) close(fd);
    return -1;
  }
  if (!S_ISREG(st.st_mode)) {
    rt_fail(error, error_size, "%s: not a regular file", path);
    close(fd);
    return -1;
  }
  *size = (size_t)st.st_size;
  return fd;
}

static bool read_all(int fd, unsigned char *to, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = read(fd, to + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;  // shorter than its size said: truncated while we read
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return true;
}

bool rt_file_take(int fd, size_t size, RtFile *out) {
  unsigned char *bytes = size < SIZE_MAX ? rt_malloc(size + 1) : NULL;
  if (!bytes) errno = ENOMEM;
  if (!bytes || !read_all(fd, bytes, size)) {
    int reason = errno;
    rt_free(bytes);
    errno = reason;
    return false;
  }
  bytes[size] = 0;
  *out = (RtFile){.bytes = bytes, .size = size};
  return true;
}

bool rt_file_read(const char *path, RtFile *out, char *error, size_t error_size) {
  *out = (RtFile){0};
  size_t size;
  int fd = open_regular(path, &size, error, error_size);
  if (fd < 0) return false;
  bool ok = rt_file_take(fd, size, out) || fail_errno(path, error, error_size);
  close(fd);
  return ok;
}

void rt_file_close(RtFile *f) {
  rt_free((void *)f->bytes);
  *f = (RtFile){0};
}

static bool write_at(int fd, const RtPiece *piece, uint64_t at) {
  const unsigned char *from = piece->bytes;
  for (size_t done = 0; from && done < piece->size;) {
    ssize_t n = pwrite(fd, from + done, piece->size - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += (size_t)n;
  }
  return true;
}

static bool write_all(int fd, const RtPiece *pieces, size_t n) {
  uint64_t at = 0;
  for (size_t k = 0; k < n; at += pieces[k++].size)
    if (!write_at(fd, &pieces[k], at)) return false;
  return ftruncate(fd, (off_t)at) == 0;
}

// Makes a new file beside `target`, which lies below the folder when it is relative; its name goes to temp.
static int open_temp(int folder, const char *target, mode_t mode, char *temp, size_t temp_size) {
  static atomic_uint serial;
  for (uint32_t tries = 0; tries < 100; tries++) {
    uint32_t id = atomic_fetch_add(&serial, 1);
    int n = snprintf(temp, temp_size, "%s.%ld-%u.tmp", target, (long)getpid(), id);
    if (n < 0 || (size_t)n >= temp_size) {
      errno = ENAMETOOLONG;
      return -1;
    }
    int fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 && rt_file_claim(fd)) return fd;
    if (fd >= 0) close(fd);
    else if (errno != EEXIST) return -1;
  }
  return -1;
}

// Best effort: makes the rename itself survive a power cut.
static void sync_folder_of(const char *target) {
  char folder[PATH_MAX];
  const char *slash = strrchr(target, '/');
  size_t n = !slash ? 1 : slash == target ? 1 : (size_t)(slash - target);
  memcpy(folder, slash ? target : ".", n);
  folder[n] = 0;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

// A link whose file does not exist yet: what it names, as the system would follow it. False: errno
static bool follow_links(char path[PATH_MAX]) {
  enum { MOST_LINKS = 40 };
  char link[PATH_MAX];
  struct stat st;
  for (int k = 0; lstat(path, &st) == 0 && S_ISLNK(st.st_mode); k++) {
    ssize_t n = k < MOST_LINKS ? readlink(path, link, sizeof link) : (errno = ELOOP, -1);
    if (n < 0) return false;
    char *slash = strrchr(path, '/');
    size_t folder = slash && link[0] != '/' ? (size_t)(slash + 1 - path) : 0;
    if (folder + (size_t)n >= PATH_MAX) return errno = ENAMETOOLONG, false;
    memcpy(path + folder, link, (size_t)n);
    path[folder + (size_t)n] = 0;
  }
  return true;
}

// Where `path` leads: itself when it does not exist yet. Only regular files are replaced; *mode is that of the one
// there.
static bool resolve_target(const char *path, char target[PATH_MAX], bool *exists, mode_t *mode, char *error,
                           size_t error_size) {
  struct stat st;
  *exists = stat(path, &st) == 0;
  if (*exists) {
    *mode = st.st_mode & 0777;
    if (S_ISDIR(st.st_mode)) errno = EISDIR;
    else if (!S_ISREG(st.st_mode)) return rt_fail(error, error_size, "%s: not a regular file", path);
    else if (realpath(path, target)) return true;
  } else if (errno == ENOENT) {
    if (strlen(path) >= PATH_MAX) errno = ENAMETOOLONG;
    else if (follow_links(strcpy(target, path))) return true;
  }
  return fail_errno(path, error, error_size);
}

// Fills a temporary file beside `target` and renames it; false: errno. *mode: of the new file; NULL: as it was made.
static bool replace(int folder, const char *target, mode_t made, const mode_t *mode, const RtPiece *pieces,
                    size_t n_pieces, const RtOthers *others) {
  char temp[PATH_MAX];
  rt_file_remove_stale(folder, target);
  int fd = open_temp(folder, target, made, temp, sizeof temp);
  if (fd < 0) return false;
  bool ok = write_all(fd, pieces, n_pieces) && (!others || others->write(others->ctx, temp));
  ok = ok && (!mode || fchmod(fd, *mode) == 0) && fsync(fd) == 0 && renameat(folder, temp, folder, target) == 0;
  int reason = errno;
  if (!ok) unlinkat(folder, temp, 0);
  close(fd);  // after its name is gone: an unlocked temporary file may be removed by anyone
  errno = reason;
  return ok;
}

bool rt_file_write(const char *path, const RtPiece *pieces, size_t n_pieces, char *error, size_t error_size) {
  return rt_file_write_with(path, pieces, n_pieces, NULL, error, error_size);
}

bool rt_file_write_with(const char *path, const RtPiece *pieces, size_t n_pieces, const RtOthers *others, char *error,
                        size_t error_size) {
  char target[PATH_MAX];
  bool exists;
  mode_t mode;
  if (!resolve_target(path, target, &exists, &mode, error, error_size)) return false;
  // nobody reads what replaces a private file
  bool ok = replace(AT_FDCWD, target, exists ? 0600 : 0666, exists ? &mode : NULL, pieces, n_pieces, others);
  if (ok) sync_folder_of(target);
  if (ok || (others && *error)) return ok;  // what others could not write, they have said
  return fail_errno(path, error, error_size);
}

bool rt_file_fill(const char *temp, const RtPlacedPiece *pieces, size_t n, char *error, size_t error_size) {
  int fd = open(temp, O_WRONLY | O_CLOEXEC);
  bool ok = fd >= 0;
  for (size_t k = 0; ok && k < n; k++) ok = write_at(fd, &pieces[k].piece, pieces[k].offset);
  ok = ok && fsync(fd) == 0;
  if (!ok) fail_errno(temp, error, error_size);
  if (fd >= 0) close(fd);
  return ok;
}

bool rt_file_write_in(int folder, const char *name, const RtPiece *pieces, size_t n_pieces, char *error,
                      size_t error_size) {
  bool ok = replace(folder, name, 0600, NULL, pieces, n_pieces, NULL);
  if (ok) fsync(folder);
  return ok || fail_errno(name, error, error_size);
}
