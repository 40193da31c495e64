// Packed sequences of every dtype: padded, reversed, taken apart and put together again, by lengths of the run and by constant ones.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <string.h>

enum { BATCH = 3, TIME = 4, WIDTH = 5, ALL = BATCH * TIME * WIDTH };
static const int64_t lengths[BATCH] = {2, 4, 1};

static const struct {
  tn_dtype t;
  int bytes;
} dtypes[] = {{TN_F32, 4}, {TN_I64, 8}, {TN_I32, 4}, {TN_U8, 1}, {TN_BOOL, 1}, {TN_F16, 2}, {TN_BF16, 2}};

// Bits that are an element of the dtype whatever it is: of floats ordinary numbers.
static uint64_t bits(tn_dtype t, int k) {
  if (t == TN_BOOL) return (uint64_t)(k * 7 % 3 != 0);
  if (t == TN_U8) return (uint64_t)(k * 37 % 256);
  if (t == TN_F16 || t == TN_BF16) return (uint64_t)(0x3c00 + k * 131 % 1024 + k % 2 * 0x8000);
  return t == TN_F32 ? 0x3f800000u + (uint64_t)k * 12345 : (uint64_t)k * 1234567 - 999;
}

static void put(void *to, int bytes, int at, uint64_t v) { memcpy((char *)to + at * bytes, &v, (size_t)bytes); }

// What a run gives: reversed and padded again, last and first rows, rows of a list joined again.
static tn_model *compiled(tn_dtype t, bool is_constant) {
  tn_program *p = tn_program_create("packed");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", t, TN_SHAPE(BATCH, TIME, WIDTH)), list[BATCH];
  tn_tensor n = tn_input(f, "lengths", TN_I64, TN_SHAPE(BATCH));
  tn_packed s = is_constant ? tn_pack_constant(x, lengths, BATCH) : tn_pack_padded(x, n);
  tn_output(f, "reversed", tn_pad_packed(tn_packed_reverse(s), 1, true));
  tn_output(f, "last", tn_packed_last(s));
  tn_output(f, "first", tn_packed_first(s));
  tn_output(f, "spread", tn_pad_packed(tn_packed_broadcast(s, tn_packed_last(s)), 0, true));
  CHECK(tn_unpack_sequence(s, list, BATCH) == BATCH);
  tn_output(f, "joined", tn_pad_sequence(list, BATCH, 0, true));
  tn_output(f, "lengths", tn_packed_lengths(s));
  tn_function_end(f);
  return model_alone(p);
}

static uint64_t one_of(tn_dtype t) {
  return t == TN_F32 ? 0x3f800000u : t == TN_F16 ? 0x3c00 : t == TN_BF16 ? 0x3f80 : 1;
}

static void check(int which, bool is_constant) {
  tn_dtype t = dtypes[which].t;
  int bytes = dtypes[which].bytes;
  uint64_t x[ALL], found[4][ALL], want[4][ALL], rows[2][BATCH * WIDTH], want_rows[2][BATCH * WIDTH];
  int64_t own[BATCH], given[BATCH];
  memset(want, 0, sizeof want), memset(found, 0, sizeof found);
  memcpy(given, lengths, sizeof given);
  tn_model *m = compiled(t, is_constant);
  if (!m) return;
  for (int k = 0; k < ALL; k++) put(x, bytes, k, bits(t, k));
  for (int b = 0; b < BATCH; b++)
    for (int s = 0; s < TIME; s++)
      for (int j = 0; j < WIDTH; j++) {
        int n = (int)lengths[b], at = (b * TIME + s) * WIDTH + j, base = b * TIME * WIDTH + j;
        bool is_in = s < n;
        put(want[0], bytes, at, is_in ? bits(t, base + (n - 1 - s) * WIDTH) : one_of(t));
        put(want[1], bytes, at, is_in ? bits(t, base + (n - 1) * WIDTH) : 0);
        put(want[2], bytes, at, is_in ? bits(t, at) : 0);
        put(want_rows[0], bytes, b * WIDTH + j, bits(t, base + (n - 1) * WIDTH));
        put(want_rows[1], bytes, b * WIDTH + j, bits(t, base));
      }
#define OF(p, ...) \
  ((tn_array){.data = (p), .dtype = t, .rank = sizeof((int64_t[]){__VA_ARGS__}) / 8, .dims = {__VA_ARGS__}})
  CHECK(tn_run(m, "run", TN_IN(OF(x, BATCH, TIME, WIDTH), tn_i64(given, BATCH)),
               TN_OUT(OF(found[0], BATCH, TIME, WIDTH), OF(rows[0], BATCH, WIDTH), OF(rows[1], BATCH, WIDTH),
                      OF(found[1], BATCH, TIME, WIDTH), OF(found[2], BATCH, TIME, WIDTH), tn_i64(own, BATCH))) ==
        TN_OK);
  for (int k = 0; k < 3; k++) CHECK(!memcmp(found[k], want[k], (size_t)(ALL * bytes)));
  for (int k = 0; k < 2; k++) CHECK(!memcmp(rows[k], want_rows[k], (size_t)(BATCH * WIDTH * bytes)));
  CHECK(!memcmp(own, lengths, sizeof own));
  tn_model_free(m);
}

int main(void) {
  for (int k = 0; k < 7; k++)
    for (int is_constant = 0; is_constant < 2; is_constant++) check(k, is_constant);
  return check_report();
}
