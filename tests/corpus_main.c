// Runs a fuzz target over files: each argument is a file or a folder of files. Lets every build replay the corpora.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static int run_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  size_t n = 0, cap = 1 << 16;
  uint8_t *bytes = malloc(cap);
  for (size_t got; bytes && (got = fread(bytes + n, 1, cap - n, f)) > 0;) {
    n += got;
    if (n == cap) bytes = realloc(bytes, cap *= 2);
  }
  fclose(f);
  if (!bytes) return 0;
  // An exact block, so that a sanitizer sees a read past the end.
  uint8_t *exact = malloc(n ? n : 1);
  if (exact) {
    memcpy(exact, bytes, n);
    LLVMFuzzerTestOneInput(exact, n);
  }
  free(exact);
  free(bytes);
  return 1;
}

static int run_folder(DIR *dir, const char *path) {
  int n = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    char file[4096];
    if (e->d_name[0] == '.' || snprintf(file, sizeof file, "%s/%s", path, e->d_name) >= (int)sizeof file) continue;
    n += run_file(file);
  }
  closedir(dir);
  return n;
}

int main(int argc, char **argv) {
  int n = 0;
  for (int k = 1; k < argc; k++) {
    DIR *dir = opendir(argv[k]);
    n += dir ? run_folder(dir, argv[k]) : run_file(argv[k]);
  }
  printf("%d files\n", n);
  return n == 0;  // an empty corpus is a mistake
}
