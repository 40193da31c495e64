#include "runtime/store/private_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40, WRITABLE = S_IWGRP | S_IWOTH };

typedef struct {
  int folder;               // reached so far, by O_PATH
  struct stat st;           // of it
  char at[PATH_MAX];        // its name, for sentences
  char rest[2 * PATH_MAX];  // of the way
  uint32_t n_links;
  char *why;
  size_t why_size;
} Walk;

static bool fail_errno(const char *name, char *why, size_t why_size) {
  return rt_fail(why, why_size, "%s: %s", name, strerror(errno));
}

// One sentence for what others own or write.
static bool refuse(const char *name, const struct stat *st, char *why, size_t why_size) {
  if (st->st_uid != 0 && st->st_uid != geteuid())
    return rt_fail(why, why_size, "%s belongs to user %lu", name, (unsigned long)st->st_uid);
  if (!(st->st_mode & WRITABLE)) return rt_fail(why, why_size, "%s belongs to root", name);
  return rt_fail(why, why_size, "%s may be written by %s (mode %04o)", name,
                 st->st_mode & S_IWOTH ? "others" : "its group", (unsigned)st->st_mode & 07777);
}

static bool is_own(const struct stat *st) { return st->st_uid == geteuid() && !(st->st_mode & WRITABLE); }

// Can nobody else put another entry in the place of one of ours?
static bool keeps_entries(const struct stat *st) {
  return (st->st_uid == 0 || st->st_uid == geteuid()) && (!(st->st_mode & WRITABLE) || st->st_mode & S_ISVTX);
}

static bool append(Walk *w, const char *name) {
  size_t n = strlen(w->at), more = strlen(name);
  bool has_slash = n && w->at[n - 1] == '/';
  if (n + more + 2 > sizeof w->at) return rt_fail(w->why, w->why_size, "%s: %s", w->at, strerror(ENAMETOOLONG));
  if (!has_slash) w->at[n++] = '/';
  memcpy(w->at + n, name, more + 1);
  return true;
}

static bool move_to(Walk *w, int folder) {
  if (w->folder >= 0) close(w->folder);
  w->folder = folder;
  return folder >= 0 && fstat(folder, &w->st) == 0;
}

static bool start(Walk *w) {
  strcpy(w->at, "/");
  return move_to(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) || fail_errno("/", w->why, w->why_size);
}

static bool set_rest(Walk *w, const char *first, const char *second) {
  char text[sizeof w->rest];
  size_t n = strlen(first), m = strlen(second);
  if (n + m + 2 > sizeof text) return rt_fail(w->why, w->why_size, "%s: %s", w->at, strerror(ENAMETOOLONG));
  memcpy(text, first, n), text[n] = '/', memcpy(text + n + 1, second, m + 1);
  memcpy(w->rest, text, n + m + 2);
  return true;
}

static bool fail_entry(Walk *w, const char *name, int reason) {
  if (!append(w, name)) return false;
  errno = reason;
  return fail_errno(w->at, w->why, w->why_size);
}

// What the link says stands before the rest of the way; `at` is the folder that holds it.
static bool follow(Walk *w, int link, const struct stat *st, const char *name) {
  char target[PATH_MAX];
  ssize_t n = readlinkat(link, "", target, sizeof target - 1);
  int reason = n < 0 ? errno : ELOOP;
  close(link);
  if (st->st_uid != 0 && st->st_uid != geteuid()) return append(w, name) && refuse(w->at, st, w->why, w->why_size);
  if (n < 0 || ++w->n_links > MOST_LINKS) return fail_entry(w, name, reason);
  target[n] = 0;
  return set_rest(w, target, w->rest) && (*target != '/' || start(w));
}

static int open_entry(int folder, const char *name) {
  int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0 || errno != ENOENT) return fd;
  if (mkdirat(folder, name, 0700) && errno != EEXIST) return -1;
  return openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

static bool enter(Walk *w, const char *name) {
  struct stat st;
  if (!keeps_entries(&w->st)) return refuse(w->at, &w->st, w->why, w->why_size);
  int fd = open_entry(w->folder, name);
  if (fd < 0 || fstat(fd, &st)) {
    int reason = errno;
    if (fd >= 0) close(fd);
    return fail_entry(w, name, reason);
  }
  if (S_ISLNK(st.st_mode)) return follow(w, fd, &st, name);
  if (S_ISDIR(st.st_mode)) return append(w, name) && move_to(w, fd);
  close(fd);
  return fail_entry(w, name, ENOTDIR);
}

// Cuts the next name off the way; "": it ends. Of one that is too long, as much as the system refuses.
static const char *next_name(Walk *w, char name[NAME_MAX + 2]) {
  const char *s = w->rest + strspn(w->rest, "/");
  size_t n = strcspn(s, "/"), kept = n > NAME_MAX + 1 ? NAME_MAX + 1 : n;
  memcpy(name, s, kept);
  name[kept] = 0;
  memmove(w->rest, s + n, strlen(s + n) + 1);
  return name;
}

static bool walk(Walk *w, const char *path) {
  char here[PATH_MAX] = "", name[NAME_MAX + 2];
  if (*path != '/' && !getcwd(here, sizeof here)) return fail_errno(".", w->why, w->why_size);
  if (!set_rest(w, here, path) || !start(w)) return false;
  while (*next_name(w, name))
    if (!enter(w, name)) return false;
  return is_own(&w->st) || refuse(w->at, &w->st, w->why, w->why_size);
}

int rt_private_folder(const char *path, char *why, size_t why_size) {
  Walk w = {.folder = -1, .why = why, .why_size = why_size};
  int fd = -1;
  if (walk(&w, path)) {
    fd = openat(w.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) fail_errno(w.at, why, why_size);
  }
  if (w.folder >= 0) close(w.folder);
  return fd;
}

static bool read_own(int fd, const char *name, RtFile *out, char *why, size_t why_size) {
  struct stat st;
  if (fstat(fd, &st)) return fail_errno(name, why, why_size);
  if (!S_ISREG(st.st_mode)) return rt_fail(why, why_size, "%s is no regular file", name);
  if (!is_own(&st)) return refuse(name, &st, why, why_size);
  return rt_file_take(fd, (size_t)st.st_size, out) || fail_errno(name, why, why_size);
}

bool rt_private_read(int folder, const char *name, RtFile *out, char *why, size_t why_size) {
  *out = (RtFile){0};
  if (why && why_size) why[0] = 0;
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return false;
  if (fd < 0 && errno == ELOOP) return rt_fail(why, why_size, "%s is a symbolic link", name);
  if (fd < 0) return fail_errno(name, why, why_size);
  bool ok = read_own(fd, name, out, why, why_size);
  close(fd);
  return ok;
}
