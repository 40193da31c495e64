// What tests of data files share: why a reader refused, and everything that it reads.
#ifndef TN_TESTS_READER_H
#define TN_TESTS_READER_H

#include "frontend/tenure.h"
#include "tests/check.h"

static char why[1024];

static inline void expect(tn_dataset *d, const char *text) {
  CHECK(d == NULL);
  CHECK_HAS(why, text);
  tn_dataset_free(d);
}

// One batch of everything, retained; frees d. NULL d: `why` says why, a batch without number comes.
static inline tn_batch whole(tn_dataset *d) {
  tn_batch b = {0}, kept = {0};
  if (!d) return kept;
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = tn_dataset_count(d)}, why, sizeof why);
  if (tn_loader_next(l, &b) == TN_OK) kept = tn_batch_retain(b);
  else snprintf(why, sizeof why, "%s", tn_loader_error(l));
  tn_loader_free(l);
  tn_dataset_free(d);
  return kept;
}

#endif
