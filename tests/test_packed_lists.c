// Lists of sequences whose lengths come at run time: taken out of padded and packed values, computed with, put together
// again, with their gradients; lists of inputs of different sizes; what is refused, before a run and in it.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/report.h"

#include <math.h>

#define D(n) tn_dim_const(n)
enum { N = 3, T = 5, F = 2 };

static tn_model *compile(tn_program *p, tn_function *f, uint32_t n_workers) {
  tn_function_end(f);
  return model_of(p, .n_workers = n_workers);
}

// ---- sequences of one batch: y[k] = tanh(x[k]) (k + 1)

static tn_model *take_apart(bool batch_first, bool of_packed, bool fixed_time, uint32_t n_workers) {
  tn_program *p = tn_program_create("apart");
  tn_dim time = fixed_time ? D(T) : tn_dim_bounded(p, "time", T + 2);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, batch_first ? TN_SHAPE(N, time, F) : TN_SHAPE(time, N, F));
  tn_tensor len = tn_input(f, "len", TN_I64, TN_SHAPE(N));
  tn_tensor list[N], y[N], again[N];
  tn_pack_options o = {.time_major = !batch_first, .allow_empty = true};
  if (of_packed) CHECK(tn_unpack_sequence((tn_pack_padded)(x, len, o), list, N) == N);
  else CHECK(tn_unpad_sequence(x, len, batch_first, list, N) == N);
  for (int k = 0; k < N; k++) y[k] = tn_mul(tn_tanh(list[k]), tn_scalar(f, k + 1));
  tn_packed s = tn_pack_sequence(y, N, .allow_empty = true);
  CHECK(tn_unpack_sequence(s, again, N) == N);
  tn_tensor padded = tn_pad_sequence(y, N, -9, true), total = tn_packed_sum(s);
  tn_tensor loss = tn_sum(tn_square(s.data));
  for (int k = 0; k < N; k++) loss = tn_add(loss, tn_sum(tn_mul(y[k], list[k])));
  for (int k = 0; k < N; k++) tn_output(f, k == 0 ? "y0" : k == 1 ? "y1" : "y2", y[k]);
  for (int k = 0; k < N; k++) tn_output(f, k == 0 ? "a0" : k == 1 ? "a1" : "a2", again[k]);
  tn_output(f, "padded", padded);
  tn_output(f, "total", total);
  tn_output(f, "dx", tn_grad(loss, x));
  tn_model *m = compile(p, f, n_workers);
  tn_program_free(p);
  return m;
}

static void check_taken(tn_model *m, bool batch_first, bool fixed_time, const int64_t *len) {
  int64_t top = fixed_time ? T : T + 2, steps = T;
  float x[N * T * F], y[N][(T + 2) * F], again[N][(T + 2) * F], padded[N * (T + 2) * F], total[N * F], dx[N * T * F];
  for (int k = 0; k < N * T * F; k++) x[k] = sinf((float)k);
  memset(y, 0x55, sizeof y), memset(again, 0x55, sizeof again);
  int64_t a = batch_first ? N : steps, b = batch_first ? steps : N;
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, a, b, F), tn_i64(len, N)),
                    TN_OUT(tn_f32(y[0], top, F), tn_f32(y[1], top, F), tn_f32(y[2], top, F), tn_f32(again[0], top, F),
                           tn_f32(again[1], top, F), tn_f32(again[2], top, F), tn_f32(padded, N, top, F),
                           tn_f32(total, N, F), tn_f32(dx, a, b, F))) == TN_OK);
  if (m && *tn_error_text(m)) puts(tn_error_text(m));
  for (int k = 0; k < N; k++)
    for (int j = 0; j < F; j++) {
      double sum = 0;
      for (int t = 0; t < top; t++) {
        bool inside = t < len[k];
        int from = (batch_first ? k * T + t : t * N + k) * F + j, to = t * F + j;
        double h = inside ? tanh((double)x[from]) : 0, want = h * (k + 1);
        if (inside) CHECK(is_near((double)y[k][to], want, 1e-5) && y[k][to] == again[k][to]);
        CHECK(is_near((double)padded[(k * top + t) * F + j], inside ? want : -9, 1e-5));
        if (!inside && t < T) CHECK(dx[from] == 0);
        sum += want;
        double back = 2 * want * (k + 1) * (1 - h * h) + (k + 1) * ((1 - h * h) * (double)(inside ? x[from] : 0) + h);
        if (inside) CHECK(is_near((double)dx[from], back, 1e-5));
      }
      CHECK(is_near((double)total[k * F + j], sum, 1e-5));
    }
}

static void sequences_of_a_batch(void) {
  static const int64_t lengths[][N] = {{3, 5, 1}, {5, 5, 5}, {0, 2, 5}, {1, 1, 1}, {0, 0, 0}};
  for (int way = 0; way < 8; way++) {
    bool batch_first = way & 1, of_packed = way & 2, fixed = way & 4;
    tn_model *m = take_apart(batch_first, of_packed, fixed, (uint32_t)way % 3 + 1);
    for (int k = 0; k < 5; k++) check_taken(m, batch_first, fixed, lengths[k]);
    tn_model_free(m);
  }
}

// ---- inputs of different sizes; labels of the same sizes are packed alike
static void inputs_of_different_sizes(void) {
  tn_program *p = tn_program_create("inputs");
  tn_dim a = tn_dim_bounded(p, "a", 4), b = tn_dim_bounded(p, "b", 6);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x[] = {tn_input(f, "x0", TN_F32, TN_SHAPE(a, F)), tn_input(f, "x1", TN_F32, TN_SHAPE(2, F)),
                   tn_input(f, "x2", TN_F32, TN_SHAPE(b, F))};
  tn_tensor y[] = {tn_input(f, "y0", TN_I64, TN_SHAPE(a)), tn_input(f, "y1", TN_I64, TN_SHAPE(2)),
                   tn_input(f, "y2", TN_I64, TN_SHAPE(b))};
  tn_tensor twice[] = {x[0], tn_exp(x[0])};
  tn_packed s = tn_pack_sequence(x, 3), labels = tn_pack_sequence(y, 3);
  CHECK(s.layout.v == labels.layout.v);
  tn_packed sorted = tn_pack_sequence(x, 3, .enforce_sorted = true);
  tn_output(f, "x", tn_pad_sequence(x, 3, -1, true));
  tn_output(f, "y", tn_pad_sequence(y, 3, -7, false));
  tn_output(f, "same", tn_pad_sequence(twice, 2, 0, true));  // [2, a, F]: nothing is padded
  tn_output(f, "loss", tn_packed_cross_entropy(s, labels));
  tn_output(f, "last", tn_packed_last(s));
  tn_output(f, "sorted", tn_packed_sum(sorted));
  tn_model *m = compile(p, f, 2);
  float v[6 * F], padded[3 * 6 * F], same[2 * 4 * F], loss = 0, last[3 * F], sum[3 * F];
  int64_t l[6] = {0, 1, 1, 0, 0, 1}, ints[6 * 3];
  for (int k = 0; k < 6 * F; k++) v[k] = (float)k / 4;
#define GIVEN(na, nb)                                                                                     \
  TN_IN(tn_f32(v, na, F), tn_f32(v, 2, F), tn_f32(v, nb, F), tn_i64(l, na), tn_i64(l, 2), tn_i64(l, nb)), \
      TN_OUT(tn_f32(padded, 3, 6, F), tn_i64(ints, 6, 3), tn_f32(same, 2, na, F), tn_f32_scalar(&loss),   \
             tn_f32(last, 3, F), tn_f32(sum, 3, F))
  CHECK(m && tn_run(m, "run", GIVEN(3, 1)) == TN_OK);
  const int64_t n[] = {3, 2, 1};
  double want = 0;
  for (int k = 0; k < 3; k++)
    for (int t = 0; t < 6; t++) {
      for (int j = 0; j < F; j++) CHECK(padded[(k * 6 + t) * F + j] == (t < n[k] ? v[t * F + j] : -1));
      CHECK(ints[t * 3 + k] == (t < n[k] ? l[t] : -7));
      if (t < n[k]) want += log(exp((double)v[t * F]) + exp((double)v[t * F + 1])) - (double)v[t * F + l[t]];
    }
  CHECK(is_near((double)loss, want / 6, 1e-5) && last[0] == v[2 * F] && last[1 * F] == v[F] && last[2 * F] == v[0]);
  CHECK(same[0] == 0 && is_near((double)same[3 * F], 1, 1e-5) && sum[0] == v[0] + v[F] + v[2 * F]);
  CHECK(m && tn_run(m, "run", GIVEN(3, 4)) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m),
            "run: length 4 at [2], computed in the run, is above the one before it, and sorting is enforced");
  CHECK(m && tn_run(m, "run", GIVEN(3, 0)) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "run: length 0 at [2], computed in the run, is out of range");
  tn_model_free(m);
  tn_program_free(p);
}

// ---- padded in front
static void padded_in_front(bool batch_first, bool by_run) {
  enum { MOST = 4 };
  const int64_t n[] = {2, 4, 0};
  tn_program *p = tn_program_create("front");
  tn_dim a = by_run ? tn_dim_bounded(p, "a", MOST) : D(n[0]), b = by_run ? tn_dim_bounded(p, "b", MOST) : D(n[1]);
  tn_dim c = by_run ? tn_dim_bounded(p, "c", MOST) : D(n[2]);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x[] = {tn_input(f, "a", TN_F32, TN_SHAPE(a, F)), tn_input(f, "b", TN_F32, TN_SHAPE(b, F)),
                   tn_input(f, "c", TN_F32, TN_SHAPE(c, F))};
  tn_tensor y = tn_pad_sequence_left(x, 3, -2, batch_first);
  tn_output(f, "y", y);
  tn_output(f, "dx", tn_grad(tn_sum(tn_mul(y, tn_mul(y, y))), x[0]));
  tn_model *m = compile(p, f, 2);
  float v[MOST * F], out[3 * MOST * F], dx[MOST * F];
  for (int k = 0; k < MOST * F; k++) v[k] = (float)k - 3;
  CHECK(m &&
        tn_run(m, "run", TN_IN(tn_f32(v, n[0], F), tn_f32(v, n[1], F), tn_f32(v, n[2], F)),
               TN_OUT(tn_f32(out, batch_first ? 3 : MOST, batch_first ? MOST : 3, F), tn_f32(dx, n[0], F))) == TN_OK);
  for (int k = 0; k < 3; k++)
    for (int t = 0; t < MOST; t++)
      for (int j = 0; j < F; j++) {
        int64_t step = t - (MOST - n[k]);
        CHECK(out[(batch_first ? k * MOST + t : t * 3 + k) * F + j] == (step < 0 ? -2 : v[step * F + j]));
      }
  for (int k = 0; k < n[0] * F; k++) CHECK(is_near((double)dx[k], 3 * (double)v[k] * (double)v[k], 1e-5));
  tn_model_free(m);
  tn_program_free(p);
}

// ---- forty sequences: names of forty sizes in one sum
static void many(void) {
  enum { MANY = 40 };
  tn_program *p = tn_program_create("many");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(MANY, T)), len = tn_input(f, "len", TN_I64, TN_SHAPE(MANY));
  tn_tensor list[MANY];
  CHECK(tn_unpad_sequence(x, len, true, list, MANY) == MANY && tn_unpad_sequence(x, len, true, NULL, 0) == MANY);
  tn_tensor flat = tn_concat(0, list, MANY);
  tn_output(f, "flat", flat);
  tn_output(f, "noise", tn_sum(tn_ones(f, TN_SHAPE(tn_dim_of(flat, 0)))));
  tn_model *m = compile(p, f, 2);
  float v[MANY * T], out[MANY * T], rows = 0;
  int64_t n[MANY];
  for (int k = 0; k < MANY * T; k++) v[k] = (float)k;
  for (int k = 0; k < MANY; k++) n[k] = k * 7 % (T + 1);
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(v, MANY, T), tn_i64(n, MANY)),
                    TN_OUT(tn_f32(out, MANY * T), tn_f32_scalar(&rows))) == TN_OK);
  int row = 0;
  for (int k = 0; k < MANY; k++)
    for (int t = 0; t < n[k]; t++) CHECK(out[row++] == v[k * T + t]);
  CHECK(rows == (float)row);
  n[17] = T + 1;
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(v, MANY, T), tn_i64(n, MANY)),
                    TN_OUT(tn_f32(out, MANY * T), tn_f32_scalar(&rows))) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "input 'len': length 6 at [17] is not in 0..5");
  tn_model_free(m);
  tn_program_free(p);
}

// ---- the same lengths, the same sizes, until they are written
static void sizes(void) {
  tn_program *p = tn_program_create("sizes");
  tn_dim batch = tn_dim_bounded(p, "batch", 4), time = tn_dim_bounded(p, "time", T);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(2, time), at(1));
  tn_tensor z = (tn_input)(f, "z", TN_F32, TN_SHAPE(batch, time), at(2));
  tn_tensor len = (tn_input)(f, "len", TN_I64, TN_SHAPE(2), at(3)), n = tn_clone(len);
  tn_tensor zlen = (tn_input)(f, "zlen", TN_I64, TN_SHAPE(batch), at(4));
  tn_tensor a[2], b[2], c[2], d[2];
  CHECK(tn_unpad_sequence(x, n, true, a, 2) == 2 && tn_unpad_sequence(tn_exp(x), n, true, b, 2) == 2);
  CHECK((tn_add)(a[1], b[1], at(10)).v && !(tn_add)(a[0], b[1], at(11)).v);
  tn_copy_(n, tn_packed_lengths(tn_pack_padded(x, len)));
  CHECK(tn_unpad_sequence(x, n, true, c, 2) == 2 && !(tn_add)(a[1], c[1], at(12)).v);
  CHECK((tn_unpad_sequence)(z, zlen, true, d, 2, at(13)) == 0 && !d[0].v && !d[1].v);
  CHECK((tn_unpad_sequence)(x, zlen, true, d, 2, at(14)) == 0);
  CHECK((tn_unpad_sequence)(x, x, true, d, 2, at(15)) == 0 && (tn_unpad_sequence)(len, len, true, d, 2, at(16)) == 0);
  tn_packed many = (tn_pack_padded)(z, zlen, (tn_pack_options){.at = at(17)});
  CHECK((tn_unpack_sequence)(many, d, 2, at(18)) == 0 && !d[0].v);
  tn_tensor mixed[] = {a[0], tn_cast(a[1], TN_I64)};
  CHECK(!(tn_pad_sequence)(mixed, 2, 0, true, at(19)).v);
  tn_function_end(f);
  const char *have = report_of(p);
  CHECK_HAS(have,
            "user.c:11: error[E111]: packed sequences of different lengths are joined by tn_add: number 0 of those "
            "of its run and number 1 of those of its run\n");
  CHECK_HAS(have, "user.c:12: error[E111]: ");
  CHECK_HAS(have, "user.c:13: error[E003]: a list has a constant number of sequences, the batch up to 4\n"
                  "user.c:2: note: the padded value is input 'z', f32[batch,time], made here\n"
                  "user.c:4: note: the list of lengths is input 'zlen', i64[batch], made here\n"
                  "user.c:14: error[E116]: the number of lengths is not the batch of the padded value\n"
                  "user.c:1: note: the padded value is input 'x', f32[2,time], made here\n"
                  "user.c:4: note: the list of lengths is input 'zlen', i64[batch], made here\n"
                  "user.c:15: error[E004]: lengths are an i64 value with one axis\n");
  CHECK_HAS(have,
            "user.c:16: error[E004]: packing takes a value with batch and time axes, found 1 axes\n"
            "user.c:3: note: the value is input 'len', i64[2], made here\n"
            "user.c:18: error[E003]: a list has a constant number of sequences, the batch up to 4\n"
            "user.c:17: note: the sequences were packed here\n"
            "hint: tn_pad_packed gives them in one padded value, tn_packed_lengths their lengths\n"
            "user.c:19: error[E111]: sequence 1 has another dtype, or other sizes behind time, than sequence 0\n");
  CHECK(tn_n_errors(p) == 8);
  tn_program_free(p);
}

// ---- lengths that are numbers of the program are judged while building
static void known_numbers(void) {
  tn_program *p = tn_program_create("known");
  tn_dim time = tn_dim_bounded(p, "time", 4);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(3, time), at(1));
  const int64_t lengths[][3] = {{2, 4, 1}, {3, 3, 3}, {2, 0, 1}, {5, 5, 5}, {2, 3, 1}};
  tn_tensor n[5];
  for (int k = 0; k < 5; k++) n[k] = tn_constant_i64(f, lengths[k], TN_SHAPE(3));
  const tn_pack_options empty = {.allow_empty = true}, sorted = {.enforce_sorted = true};
  CHECK(tn_pack_padded(x, n[0]).data.v && (tn_pack_padded)(x, n[1], sorted).data.v);
  CHECK((tn_pack_padded)(x, n[2], empty).data.v && !(tn_pack_padded)(x, n[2], (tn_pack_options){.at = at(10)}).data.v);
  CHECK(!(tn_pack_padded)(x, n[3], (tn_pack_options){.at = at(11)}).data.v &&
        !(tn_pack_padded)(x, n[4], (tn_pack_options){.enforce_sorted = true, .at = at(12)}).data.v);
  tn_fill_(n[3], 2);  // not known any more
  CHECK(tn_pack_padded(x, n[3]).data.v);
  tn_function_end(f);
  CHECK_HAS(report_of(p), "user.c:10: error[E115]: length 0 at index 1 is not in [1, 4]\n"
                          "user.c:1: note: the value to pack is input 'x', f32[3,time], made here\n");
  CHECK_HAS(report_of(p), "user.c:11: error[E115]: length 5 at index 0 is not in [1, 4]\n");
  CHECK_HAS(report_of(p), "user.c:12: error[E114]: length 3 at index 1 is longer than the one before it");
  CHECK(tn_n_errors(p) == 3);
  tn_program_free(p);
}

int main(void) {
  sequences_of_a_batch();
  inputs_of_different_sizes();
  for (int way = 0; way < 4; way++) padded_in_front(way & 1, way & 2);
  many();
  known_numbers();
  sizes();
  return check_report();
}
