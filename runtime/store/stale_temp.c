// Temporary files of writers that were killed: TARGET.PID-SERIAL.tmp beside the target. A writer holds a lock on its
// own while it lives, so that a file whose lock is free belongs to nobody. Where there are no locks nothing is removed.
#include "runtime/format.h"
#include "runtime/store/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Between its making and its locking somebody may have taken a new file for a stale one.
bool rt_file_claim(int fd) {
  struct stat st;
  return flock(fd, LOCK_EX) != 0 || fstat(fd, &st) != 0 || st.st_nlink > 0;
}

static const char *skip_digits(const char *s) {
  if (!rt_is_digit(*s)) return NULL;
  while (rt_is_digit(*s)) s++;
  return s;
}

static bool is_temp_of(const char *name, const char *base) {
  size_t n = strlen(base);
  if (strncmp(name, base, n) || name[n] != '.') return false;
  const char *at = skip_digits(name + n + 1);
  if (!at || *at != '-') return false;
  at = skip_digits(at + 1);
  return at && !strcmp(at, ".tmp");
}

static void remove_if_free(int folder, const char *name) {
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(folder, name, 0);
  close(fd);
}

void rt_file_remove_stale(int below, const char *target) {
  char folder[PATH_MAX];
  const char *slash = strrchr(target, '/'), *base = slash ? slash + 1 : target;
  size_t n = slash ? (size_t)(base - target) : 1;
  if (n >= sizeof folder) return;
  memcpy(folder, slash ? target : ".", n);
  folder[n] = 0;
  int fd = openat(below, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (!dir && fd >= 0) close(fd);
  if (!dir) return;
  for (struct dirent *e; (e = readdir(dir));)
    if (is_temp_of(e->d_name, base)) remove_if_free(dirfd(dir), e->d_name);
  closedir(dir);
}
