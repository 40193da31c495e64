// What fuzz targets share: libFuzzer's entry, and a check that ends the process where it does not hold.
#ifndef TN_TESTS_FUZZ_H
#define TN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static inline void need(bool holds) {
  if (!holds) abort();
}

#endif
