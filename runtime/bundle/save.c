// A state as a safetensors file: the header is a constant of the bundle but for the digits of two numbers.
#include "runtime/bundle/bundle.h"

static void copy(unsigned char *to, const unsigned char *from, size_t n) {
  for (size_t k = 0; k < n; k++) to[k] = from[k];
}

// 20 digits, without the division that small machines lack
static void put_number(unsigned char *to, uint64_t v) {
  static const uint64_t tens[] = {10000000000000000000u,
                                  1000000000000000000,
                                  100000000000000000,
                                  10000000000000000,
                                  1000000000000000,
                                  100000000000000,
                                  10000000000000,
                                  1000000000000,
                                  100000000000,
                                  10000000000,
                                  1000000000,
                                  100000000,
                                  10000000,
                                  1000000,
                                  100000,
                                  10000,
                                  1000,
                                  100,
                                  10,
                                  1};
  for (size_t k = 0; k < sizeof tens / sizeof *tens; k++) {
    to[k] = '0';
    for (; v >= tens[k]; v -= tens[k]) to[k]++;
  }
}

int tn_bundle_save(const TnBundle *b, const void *state, void *bytes, size_t n, size_t *needed) {
  unsigned char *to = bytes;
  const TnBundleState *s = state;
  if (needed) *needed = b->file_bytes;
  int status = tn_bundle_check_state(b, state);
  if (status || (!bytes && !n)) return status;
  if (!bytes || n < b->file_bytes) return TN_BUNDLE_SMALL_BUFFER;
  if (tn_bundle_overlaps_state(b, state, bytes, b->file_bytes)) return TN_BUNDLE_FILE_OVERLAP;
  copy(to, b->file_header, b->file_header_bytes);
  put_number(to + b->seed_at, s->seed);
  put_number(to + b->runs_at, s->counter);
  to += b->file_header_bytes;
  for (uint32_t k = 0; k < b->about->n_tensors; k++) {
    const TnBundleTensor *t = &b->about->tensors[b->file_order[k]];
    if (t->kind == RT_TRANSIENT) continue;
    copy(to, (const unsigned char *)state + t->offset, t->bytes);
    to += t->bytes;
  }
  return TN_BUNDLE_OK;
}
