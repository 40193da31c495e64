// The model of a text, compiled here and now.
#ifndef TN_TESTS_TEXT_MODEL_H
#define TN_TESTS_TEXT_MODEL_H

#include "frontend/tenure.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

// What does not compile is printed and NULL; the caller frees the model.
static inline tn_model *model_of_text(const char *text, uint32_t n_workers) {
  tn_program *p = tn_program_parse(text, strlen(text), NULL);
  tn_model *m = tn_compile(p, .n_workers = n_workers, .cache_dir = "");
  if (!CHECK(m != NULL)) tn_report(p, stdout), printf("%s\n", text);
  tn_program_free(p);
  return m;
}

#endif
