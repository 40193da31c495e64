// The object cache: what is found there in any other state than it was written is a miss and is replaced, a folder that
// cannot be used costs nothing but time, and results are the same.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "cache_XXXXXX", object[300];
static float right;

// Compiles with the folder as cache, runs; from_cache is checked, the result compared with the first one.
static bool compiles(const char *dir, bool from_cache) {
  float x[2] = {0.25f, 0.5f}, y = 0;
  tn_program *p = tn_program_create("cached");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor t = tn_input(f, "x", TN_F32, TN_SHAPE(2));
  tn_output(f, "y", tn_sum(tn_tanh(tn_mul(t, t))));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = dir);
  bool ok = m && tn_run(m, "f", TN_IN(tn_f32(x, 2)), TN_OUT(tn_f32_scalar(&y))) == TN_OK;
  ok = ok && tn_compile_info_of(m).from_cache == from_cache && (right == 0 || y == right);
  right = y;
  tn_model_free(m);
  tn_program_free(p);
  return ok;
}

static void find_object(void) {
  DIR *d = opendir(folder);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') n++, snprintf(object, sizeof object, "%s/%s", folder, e->d_name);
  if (d) closedir(d);
  CHECK(n == 1);
}

static long size_of(const char *path) {
  struct stat s;
  return stat(path, &s) ? -1 : (long)s.st_size;
}

// Changes one byte, or cuts the file there.
static void damage(long at, bool cut) {
  FILE *f = fopen(object, "r+b");
  if (!CHECK(f != NULL)) return;
  fseek(f, at, SEEK_SET);
  int c = fgetc(f);
  fseek(f, at, SEEK_SET);
  if (!cut) fputc(c ^ 0x10, f);
  fclose(f);
  if (cut) CHECK(truncate(object, at) == 0);
}

static void put(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  if (!CHECK(f != NULL)) return;
  fputs(text, f);
  fclose(f);
}

static void test_damage(void) {
  enum { HEAD = 32 };
  long size = size_of(object), places[] = {0, 9, 17, 25, HEAD, HEAD + 40, size / 2, size - 1};
  for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
    damage(places[k], k % 2);
    CHECK(compiles(folder, false));
    CHECK(size_of(object) == size);
  }
  CHECK(compiles(folder, true));
  put(object, "#!/bin/sh\n");  // foreign
  CHECK(compiles(folder, false) && compiles(folder, true));
}

static void test_unusable(void) {
  CHECK(unlink(object) == 0 && mkdir(object, 0700) == 0);
  CHECK(compiles(folder, false) && compiles(folder, false));
  CHECK(rmdir(object) == 0 && symlink(folder, object) == 0);  // a link that leads nowhere
  CHECK(compiles(folder, false));
  CHECK(unlink(object) == 0);
  CHECK(compiles("/dev/null", false) && compiles("/dev/null/folder", false) && compiles("", false));
  CHECK(compiles(folder, false) && compiles(folder, true));
}

// Several processes at once: each is right, one object is left.
static void test_together(void) {
  enum { PROCESSES = 4 };
  pid_t child[PROCESSES];
  unlink(object);
  for (int k = 0; k < PROCESSES; k++) {
    if ((child[k] = fork()) != 0) continue;
    bool ok = compiles(folder, false) || compiles(folder, true);
    _exit(ok ? 0 : 1);
  }
  for (int k = 0; k < PROCESSES; k++) {
    int status = -1;
    CHECK(child[k] > 0 && waitpid(child[k], &status, 0) == child[k] && status == 0);
  }
  find_object();
  CHECK(compiles(folder, true));
}

// Code of another level is another object.
static void test_level(void) {
  long optimized = size_of(object);
  right = 0;
  setenv("TN_LLVM", "O0", 1);
  CHECK(compiles(folder, false) && compiles(folder, true));
  setenv("TN_LLVM", "O2", 1);
  right = 0;
  CHECK(compiles(folder, true) && unlink(object) == 0);
  find_object();
  CHECK(size_of(object) != optimized);
}

int main(void) {
  setenv("TN_LLVM", "O2", 1);
  CHECK(mkdtemp(folder) != NULL);
  CHECK(compiles(folder, false));
  find_object();
  CHECK(compiles(folder, true));
  test_damage();
  test_unusable();
  test_together();
  test_level();
  unlink(object);
  CHECK(rmdir(folder) == 0);
  return check_report();
}
