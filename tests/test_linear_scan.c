// Long linear recurrences, whose steps are cut into blocks: values and gradients beside a loop in doubles, and the same bits
// for 1 to 4 workers.
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/report.h"

#include <math.h>

enum { B = 2, T = 4200, C = 19, N = B * T * C, STATES = B * C };

typedef struct {
  float a[N], b[N], h[STATES], g[N], g_last[STATES];  // a: of constant factors the first STATES
} In;
typedef struct {
  float y[N], last[STATES], da[N], db[N], dh[STATES];
} Out;

typedef struct {
  const char *name;
  bool reverse, starts, constant;
} Case;
static const Case cases[] = {{"plain", false, false, false},   {"reverse", true, false, false},
                             {"from_h0", false, true, false},  {"reverse_from_h0", true, true, false},
                             {"constant", false, false, true}, {"constant_reverse", true, true, true}};
enum { N_CASES = sizeof cases / sizeof *cases };

static In in;

static tn_model *model(uint32_t workers) {
  tn_program *p = tn_program_create("long");
  for (uint32_t k = 0; k < N_CASES; k++) {
    const Case *s = &cases[k];
    tn_function *f = tn_function_begin(p, s->name);
    tn_shape states = TN_SHAPE(B, C), all = TN_SHAPE(B, T, C);
    tn_tensor a = tn_input(f, "a", TN_F32, s->constant ? TN_SHAPE(B, 1, C) : all), b = tn_input(f, "b", TN_F32, all);
    tn_tensor h = tn_input(f, "h", TN_F32, states);
    tn_scanned r = tn_linear_scan(a, b, 1, .initial = s->starts ? h : TN_NONE, .reverse = s->reverse);
    tn_tensor loss = tn_sum(tn_mul(r.out, tn_input(f, "g", TN_F32, all)));
    loss = tn_add(loss, tn_sum(tn_mul(r.last, tn_input(f, "g_last", TN_F32, states))));
    if (!s->starts) loss = tn_add(loss, tn_sum(h));
    tn_output(f, "y", r.out), tn_output(f, "last", r.last);
    tn_output(f, "da", tn_grad(loss, a)), tn_output(f, "db", tn_grad(loss, b)), tn_output(f, "dh", tn_grad(loss, h));
    tn_function_end(f);
  }
  return model_alone(p, .n_workers = workers);
}

static void run(tn_model *m, const Case *s, Out *out) {
  int64_t steps = s->constant ? 1 : T;
  memset(out, 0, sizeof *out);
  tn_array given[] = {tn_f32(in.a, B, steps, C), tn_f32(in.b, B, T, C), tn_f32(in.h, B, C), tn_f32(in.g, B, T, C),
                      tn_f32(in.g_last, B, C)};
  tn_array wanted[] = {tn_f32(out->y, B, T, C), tn_f32(out->last, B, C), tn_f32(out->da, B, steps, C),
                       tn_f32(out->db, B, T, C), tn_f32(out->dh, B, C)};
  if (!CHECK(tn_run(m, s->name, given, 5, wanted, 5) == TN_OK)) printf("%s\n", tn_error_text(m));
}

// ---- the loop: y is rounded, as it is stored, before the backward reads it
static double sum_of_da[STATES], size_of_da[STATES];

static void by_loop(const Case *s, Out *out) {
  for (int lane = 0; lane < STATES; lane++) {
    int first = lane / C * T * C + lane % C;
    double h = s->starts ? (double)in.h[lane] : 0, d = (double)in.g_last[lane];
    sum_of_da[lane] = size_of_da[lane] = 0;
    for (int j = 0; j < T; j++) {
      int k = first + (s->reverse ? T - 1 - j : j) * C;
      out->y[k] = (float)(h = (double)in.a[s->constant ? lane : k] * h + (double)in.b[k]);
    }
    out->last[lane] = (float)h;
    for (int j = T; j-- > 0;) {
      int k = first + (s->reverse ? T - 1 - j : j) * C, before = k + (s->reverse ? C : -C);
      double y = j ? (double)out->y[before] : s->starts ? (double)in.h[lane] : 0;
      d += (double)in.g[k];
      out->db[k] = (float)d, out->da[k] = (float)(d * y);
      sum_of_da[lane] += d * y, size_of_da[lane] += fabs(d * y);
      d *= (double)in.a[s->constant ? lane : k];
    }
    out->dh[lane] = s->starts ? (float)d : 1;
  }
}

static void compare(const Case *s, const Out *found, const Out *expected) {
  const double near = 5e-7;
  bool same_da = s->constant || all_near("da", found->da, expected->da, N, near);
  for (int k = 0; s->constant && k < STATES; k++)
    same_da &= fabs((double)found->da[k] - sum_of_da[k]) <= 1e-6 * (1 + size_of_da[k]);
  bool same =
      all_near("y", found->y, expected->y, N, near) && all_near("last", found->last, expected->last, STATES, near);
  if (!CHECK(same)) printf("%s: values\n", s->name);
  same = all_near("db", found->db, expected->db, N, near) && all_near("dh", found->dh, expected->dh, STATES, near);
  if (!CHECK(same && same_da)) printf("%s: gradients\n", s->name);
}

static void fill(float *x, int n, double lo, double hi, uint32_t seed) {
  for (int k = 0; k < n; k++) {
    seed = seed * 1664525 + 1013904223;
    x[k] = (float)(lo + (hi - lo) * (double)(seed >> 8) / (1 << 24));
  }
}

int main(void) {
  static Out one, more, expected;
  fill(in.a, N, -0.5, 1, 1), fill(in.b, N, -1, 1, 2), fill(in.h, STATES, -8, 8, 3);
  fill(in.g, N, -1, 1, 4), fill(in.g_last, STATES, -8, 8, 5);
  tn_model *m[4];
  for (uint32_t w = 0; w < 4; w++) m[w] = model(w + 1);
  for (uint32_t k = 0; k < N_CASES && m[0] && m[1] && m[2] && m[3]; k++) {
    run(m[0], &cases[k], &one), by_loop(&cases[k], &expected);
    compare(&cases[k], &one, &expected);
    for (uint32_t w = 1; w < 4; w++) {
      run(m[w], &cases[k], &more);
      if (!CHECK(!memcmp(&one, &more, sizeof one))) printf("%s: %u workers\n", cases[k].name, w + 1);
    }
  }
  for (uint32_t w = 0; w < 4; w++) tn_model_free(m[w]);
  return check_report();
}
