// Models of programs that are right, for tests whose subject is not the compiling:
//
//   tn_model *m = model_of(p, .n_workers = 2);     // p stays
//   tn_model *m = model_alone(p, .n_workers = 2);  // p is freed
//   tn_model *m = model_of_text(text, 2);          // of a program in the text form
//
// What does not compile is printed, and NULL; the caller frees the model. Programs with the same code, for other numbers of
// workers say, are compiled once: the process has an object cache of its own, empty when it begins and gone when it ends.
#ifndef TN_TESTS_MODELS_H
#define TN_TESTS_MODELS_H

#include "frontend/tenure.h"
#include "tests/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  char path[4096];  // "": none could be made
  pid_t owner;
} ModelCache;

static inline ModelCache *model_cache(void) {
  static ModelCache cache;
  return &cache;
}

static inline void remove_model_cache(void) {
  const ModelCache *c = model_cache();
  DIR *folder = c->owner == getpid() ? opendir(c->path) : NULL;  // not by a fork
  if (!folder) return;
  for (struct dirent *e; (e = readdir(folder));)
    if (e->d_name[0] != '.') unlinkat(dirfd(folder), e->d_name, 0);
  closedir(folder);
  rmdir(c->path);
}

static inline const char *model_cache_dir(void) {
  ModelCache *c = model_cache();
  if (c->owner) return c->path;
  char here[3000];
  c->owner = getpid();
  if (getcwd(here, sizeof here)) snprintf(c->path, sizeof c->path, "%s/objects.XXXXXX", here);
  if (!mkdtemp(c->path)) c->path[0] = 0;
  atexit(remove_model_cache);
  return c->path;
}

static inline tn_model *model_of_options(tn_program *p, bool frees, tn_compile_options o) {
  if (!o.cache_dir) o.cache_dir = model_cache_dir();
  tn_model *m = (tn_compile)(p, o);
  if (!CHECK(m != NULL)) tn_report(p, stdout);
  if (frees) tn_program_free(p);
  return m;
}

#define model_of(p, ...) model_of_options(p, false, (tn_compile_options){.at = TN_SITE, __VA_ARGS__})
#define model_alone(p, ...) model_of_options(p, true, (tn_compile_options){.at = TN_SITE, __VA_ARGS__})

static inline tn_model *model_of_text(const char *text, uint32_t n_workers) {
  tn_program *p = tn_program_parse(text, strlen(text), NULL);
  tn_model *m = model_alone(p, .n_workers = n_workers);
  if (!m) printf("%s\n", text);
  return m;
}

#endif
