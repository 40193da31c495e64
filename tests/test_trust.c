// What others own, may write or change meanwhile: no code is taken from there, no file of the user's is overwritten
// through a planted link, and a file that shrinks or is written under a load is a sentence. Run as root, files are given to another
// user; else those cases are skipped, which the output says.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRANGER = 65534 };
static char base[] = "/tmp/tn_trust_XXXXXX", cache[200], object[600];

static const char *in_base(const char *name) {
  static char path[4][300];
  static int at;
  at = (at + 1) % 4;
  snprintf(path[at], sizeof path[at], "%s/%s", base, name);
  return path[at];
}

// ---- the object cache
typedef struct {
  bool ran, from_cache;
  char report[2000];
} Compiled;

static void compile_in(const char *dir, Compiled *out) {
  float x[2] = {0.25f, 0.5f}, y = 0;
  tn_program *p = tn_program_create("trusted");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor t = tn_input(f, "x", TN_F32, TN_SHAPE(2));
  tn_output(f, "y", tn_sum(tn_mul(t, t)));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = dir);
  FILE *text = fmemopen(out->report, sizeof out->report, "w");
  tn_report(p, text), fclose(text);
  out->ran = m && tn_run(m, "f", TN_IN(tn_f32(x, 2)), TN_OUT(tn_f32_scalar(&y))) == TN_OK && y == 0.3125f;
  out->from_cache = m && tn_compile_info_of(m).from_cache;
  tn_model_free(m), tn_program_free(p);
}

// In a process of its own, since a refusal is told once in a process.
static Compiled compiled(const char *dir) {
  int pipes[2], status = -1;
  Compiled c = {0};
  CHECK(pipe(pipes) == 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    compile_in(dir, &c);
    _exit(write(pipes[1], &c, sizeof c) != sizeof c);
  }
  close(pipes[1]);
  CHECK(read(pipes[0], &c, sizeof c) == sizeof c);
  close(pipes[0]);
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  return c;
}

static bool hits(const char *dir) {
  Compiled c = compiled(dir);
  if (*c.report) printf("  %s\n", c.report);
  return c.ran && c.from_cache && !*c.report;
}

// It runs, from no cache, and the report says why.
static bool misses(const char *dir, const char *word) {
  Compiled c = compiled(dir);
  CHECK(c.ran && !c.from_cache);
  if (!*word) return CHECK(!*c.report);
  CHECK_HAS(c.report, "test_trust.c:");
  CHECK_HAS(c.report, "warning[W011]: compiled without the object cache: ");
  return CHECK_HAS(c.report, word);
}

static int count_in(const char *dir, char *last, size_t size) {
  int n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') n++, last ? snprintf(last, size, "%s/%s", dir, e->d_name) : 0;
  if (d) closedir(d);
  return n;
}

static mode_t mode_of(const char *path) {
  struct stat st;
  return lstat(path, &st) ? 0 : st.st_mode & 07777;
}

static bool refill(void) {
  unlink(object);
  return CHECK(misses(cache, "")) && CHECK(hits(cache));
}

static void test_modes(void) {
  mode_t mask = umask(0);
  CHECK(misses(cache, "") && hits(cache));
  umask(mask);
  CHECK(mode_of(in_base("made")) == 0700 && mode_of(cache) == 0700);
  CHECK(count_in(cache, object, sizeof object) == 1 && mode_of(object) == 0600);
  static const mode_t files[] = {0620, 0602, 0666}, folders[] = {0720, 0702, 01777, 0777};
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
    CHECK(chmod(object, files[k]) == 0 && misses(cache, ".tno may be written by "));
    CHECK(mode_of(object) == 0600 && hits(cache));  // replaced by one that can be believed
  }
  for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
    CHECK(chmod(cache, folders[k]) == 0 && misses(cache, "/made/cache may be written by "));
    CHECK(unlink(object) == 0 && misses(cache, "may be written by ") && count_in(cache, NULL, 0) == 0);  // not written
    CHECK(chmod(cache, 0700) == 0 && refill());
  }
  CHECK(chmod(object, 0444) == 0 && hits(cache) && chmod(cache, 0755) == 0 && hits(cache) && chmod(cache, 0700) == 0);
}

// Others may write above where they cannot exchange what is ours.
static void test_folders_above(void) {
  const char *above = in_base("made");
  CHECK(chmod(above, 0777) == 0 && misses(cache, "/made may be written by others (mode 0777)"));
  CHECK(chmod(above, 0775) == 0 && misses(cache, "/made may be written by its group (mode 0775)"));
  CHECK(chmod(above, 01777) == 0 && hits(cache) && chmod(above, 0755) == 0 && hits(cache));
  CHECK(chdir(base) == 0 && hits("made/cache") && hits("./made/../made//cache/"));
  char report[2000], dir[300];
  snprintf(dir, sizeof dir, "%s/file", base);
  int fd = open(dir, O_CREAT | O_WRONLY, 0600);
  close(fd);
  CHECK(misses(dir, "/file: Not a directory") && misses("/proc/none", "/proc/none: "));
  memset(report, 'x', 300), report[300] = 0;
  CHECK(misses(report, ": File name too long"));
}

static void test_links(void) {
  const char *link = in_base("link");
  CHECK(symlink("made", link) == 0 && hits(in_base("link/cache")));  // one's own
  CHECK(unlink(link) == 0 && symlink("link", link) == 0 && misses(in_base("link/cache"), "/link: Too many levels"));
  CHECK(unlink(link) == 0);
  const char *copy = in_base("copy"), *private_file = in_base("private");
  CHECK(rename(object, copy) == 0 && symlink(copy, object) == 0);  // a true object, but not by its own name
  CHECK(misses(cache, ".tno is a symbolic link") && mode_of(object) == 0600 && hits(cache));
  FILE *f = fopen(private_file, "w");
  CHECK(f && fputs("secret", f) >= 0 && !fclose(f) && chmod(private_file, 0600) == 0);
  CHECK(unlink(object) == 0 && symlink(private_file, object) == 0 && misses(cache, ".tno is a symbolic link"));
  char text[20] = "";
  f = fopen(private_file, "r");
  CHECK(f && fgets(text, sizeof text, f) && !fclose(f) && !strcmp(text, "secret") && mode_of(private_file) == 0600);
  CHECK(hits(cache));
}

static void test_strangers(void) {
  if (geteuid() != 0) {
    printf("skipped: files of another user, which only root can make\n");
    return;
  }
  const char *above = in_base("made"), *link = in_base("link");
  CHECK(chown(object, STRANGER, STRANGER) == 0 && misses(cache, ".tno belongs to user 65534") && hits(cache));
  CHECK(chown(cache, STRANGER, STRANGER) == 0 && misses(cache, "/made/cache belongs to user 65534"));
  CHECK(chown(cache, 0, 0) == 0 && chown(above, STRANGER, STRANGER) == 0);  // somebody's home
  CHECK(misses(cache, "/made belongs to user 65534") && misses(in_base("made/new"), "/made belongs to user 65534"));
  CHECK(chown(above, 0, 0) == 0 && hits(cache));
  CHECK(symlink("made", link) == 0 && lchown(link, STRANGER, STRANGER) == 0);
  CHECK(misses(in_base("link/cache"), "/link belongs to user 65534") && unlink(link) == 0);
}

static void test_told_once(void) {
  Compiled c[2] = {0};
  CHECK(chmod(cache, 0777) == 0);
  compile_in(cache, &c[0]), compile_in(cache, &c[1]);
  CHECK_HAS(c[0].report, "hint: take a folder that only you can write");
  CHECK(c[0].ran && c[1].ran && !*c[1].report && chmod(cache, 0700) == 0);
}

// ---- variables of a process with more rights than its user
enum { NOT_PRIVILEGED = 77 };
static int run_privileged(void) {
  if (!getauxval(AT_SECURE)) return NOT_PRIVILEGED;
  Compiled c;
  compile_in(NULL, &c);
  return !c.ran || c.from_cache;
}

static bool copy_program(const char *to) {
  char bytes[1 << 16];
  int from = open("/proc/self/exe", O_RDONLY), fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
  ssize_t n = 0;
  while (from >= 0 && fd >= 0 && (n = read(from, bytes, sizeof bytes)) > 0)
    if (write(fd, bytes, (size_t)n) != n) n = -1;
  bool ok = from >= 0 && fd >= 0 && n == 0 && fchown(fd, STRANGER, STRANGER) == 0 && fchmod(fd, 04755) == 0;
  close(from), close(fd);
  return ok;
}

static void test_environment(void) {
  if (geteuid() != 0) {
    printf("skipped: a privileged process, which only root can make\n");
    return;
  }
  const char *program = in_base("program"), *folder = in_base("chosen"), *trace = in_base("chosen/trace");
  CHECK(chmod(base, 0711) == 0 && mkdir(folder, 0700) == 0 && chown(folder, STRANGER, STRANGER) == 0);
  CHECK(copy_program(program));
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    setenv("TN_CACHE", folder, 1), setenv("TN_TRACE", trace, 1), setenv("XDG_CACHE_HOME", folder, 1);
    execl(program, program, "--privileged", (char *)NULL);
    _exit(NOT_PRIVILEGED);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  if (WEXITSTATUS(status) == NOT_PRIVILEGED) printf("skipped: %s gives no rights here\n", base);
  else CHECK(WEXITSTATUS(status) == 0 && count_in(folder, NULL, 0) == 0);
}

static void test_trace_link(void) {
  const char *link = in_base("trace"), *private_file = in_base("private");
  int status = -1;
  CHECK(symlink(private_file, link) == 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    Compiled c;
    setenv("TN_TRACE", link, 1);
    compile_in("", &c);
    _exit(!c.ran);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  struct stat st;
  CHECK(stat(private_file, &st) == 0 && st.st_size == 6);
}

// ---- a file that shrinks while it is loaded
enum { WIDTH = 1 << 20, LOADS = 100 };
static atomic_bool is_over;
static unsigned char *whole_file;
static size_t whole_size;

// Cuts it, and gives it back by pieces that are right: whoever reads all of it reads twos.
static void *cut_and_mend(void *path) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  while (fd >= 0 && !atomic_load(&is_over)) {
    size_t kept = whole_size / 3;
    if (ftruncate(fd, (off_t)kept)) break;
    for (size_t n; kept < whole_size; kept += n) {
      n = whole_size - kept < 1 << 19 ? whole_size - kept : 1 << 19;
      if (pwrite(fd, whole_file + kept, n, (off_t)kept) != (ssize_t)n) break;
    }
    usleep(1000);
  }
  if (fd >= 0) close(fd);
  return NULL;
}

static tn_model *wide_model(void) {
  tn_program *p = tn_program_create("wide");
  tn_parameter(tn_root(p), "w", TN_SHAPE(WIDTH), (tn_init){.kind = TN_INIT_ZEROS});
  tn_function *f = tn_function_begin(p, "f");
  tn_output(f, "y", tn_sum(tn_param_value(f, tn_root(p), "w")));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = "");
  if (!CHECK(m != NULL)) tn_report(p, stdout), exit(1);
  tn_program_free(p);
  return m;
}

static bool read_whole(const char *path) {
  struct stat st;
  FILE *f = fopen(path, "rb");
  if (!f || stat(path, &st)) return false;
  whole_size = (size_t)st.st_size;
  whole_file = malloc(whole_size);
  bool ok = whole_file && fread(whole_file, 1, whole_size, f) == whole_size;
  return !fclose(f) && ok;
}

static bool is_all(tn_model *m, float *v, float want) {
  size_t n_other = 0;
  if (tn_get(m, "w", v, WIDTH)) return false;
  for (size_t k = 0; k < WIDTH; k++) n_other += v[k] != want;
  return n_other == 0;
}

static void test_shrinking_load(void) {
  const char *path = in_base("shrinks.safetensors");
  char file[300];
  snprintf(file, sizeof file, "%s", path);
  tn_model *m = wide_model();
  float *ones = malloc(WIDTH * sizeof *ones), *v = malloc(WIDTH * sizeof *v);
  for (size_t k = 0; k < WIDTH; k++) ones[k] = 1, v[k] = 2;
  CHECK(tn_set(m, "w", v, WIDTH) == TN_OK && tn_save(m, file, false) == TN_OK && read_whole(file));
  CHECK(chmod(file, 0600) == 0 && tn_save(m, file, false) == TN_OK && mode_of(file) == 0600);  // stays private
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, cut_and_mend, file) == 0);
  int n_loaded = 0, n_refused = 0;
  for (int k = 0; k < LOADS; k++) {
    CHECK(tn_set(m, "w", ones, WIDTH) == TN_OK);
    tn_status s = tn_load(m, file, false);
    CHECK(s == TN_OK || (s == TN_ERR_FILE && strstr(tn_error_text(m), "shrinks.safetensors")));
    if (s) CHECK(is_all(m, v, 1));  // nothing; of what is cut in the middle of a read, the system may give zeros
    n_loaded += !s, n_refused += s != TN_OK;
  }
  atomic_store(&is_over, true);
  pthread_join(thread, NULL);
  printf("%d loads, %d refusals\n", n_loaded, n_refused);
  CHECK(truncate(file, 1000) == 0 && tn_load(m, file, false) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(m), "shrinks.safetensors: ");
  tn_model_free(m);
  free(ones), free(v), free(whole_file);
}

// ---- a file of which other bytes are read than were checked
static const char *written_in_read;

// Where the loader reads tensors, the file is written first: its size stays.
ssize_t pread(int fd, void *to, size_t n, off_t at) {
  if (written_in_read && n == WIDTH * sizeof(float)) {
    int out = open(written_in_read, O_WRONLY | O_CLOEXEC);
    CHECK(out >= 0 && pwrite(out, &(float){3}, sizeof(float), at) == sizeof(float) && close(out) == 0);
    written_in_read = NULL;
  }
  return syscall(SYS_pread64, fd, to, n, at);
}

static void test_written_load(void) {
  char file[300];
  snprintf(file, sizeof file, "%s", in_base("written.safetensors"));
  tn_model *m = wide_model();
  float *v = malloc(WIDTH * sizeof *v);
  CHECK(tn_save(m, file, false) == TN_OK);
  CHECK(utimensat(AT_FDCWD, file, (const struct timespec[2]){{1000, 0}, {1000, 0}}, 0) == 0);
  for (size_t k = 0; k < WIDTH; k++) v[k] = 1;
  CHECK(tn_set(m, "w", v, WIDTH) == TN_OK);
  written_in_read = file;
  CHECK(tn_load(m, file, false) == TN_ERR_FILE && !written_in_read);
  CHECK_HAS(tn_error_text(m), "written.safetensors: the file was written while it was read");
  CHECK(is_all(m, v, 1));
  CHECK(tn_load(m, file, false) == TN_OK && tn_get(m, "w", v, WIDTH) == TN_OK && v[0] == 3 && v[1] == 0);
  tn_model_free(m);
  free(v);
}

static void remove_all(const char *dir) {
  char path[600];
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (unlink(path) && rmdir(path)) remove_all(path), rmdir(path);
  }
  if (d) closedir(d);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--privileged")) _exit(run_privileged());  // which no leak checker may look into
  if (!CHECK(mkdtemp(base) != NULL)) return check_report();
  snprintf(cache, sizeof cache, "%s/made/cache", base);
  test_modes();
  test_folders_above();
  test_links();
  test_strangers();
  test_told_once();
  test_environment();
  test_trace_link();
  test_shrinking_load();
  test_written_load();
  remove_all(base);
  CHECK(rmdir(base) == 0);
  return check_report();
}
