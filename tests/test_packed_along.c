// What works along each sequence of a packed batch gives what the call for tensors gives of that sequence alone, values and
// gradients, with constant lengths and those of a run, for any number of workers.
#include "frontend/graph/function.h"
#include "frontend/graph/program.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/report.h"

enum { B = 4, T = 9, C = 5, WIDE = 32, MOST = 15 };
#define AXES(...) \
  (const int[]) { __VA_ARGS__ }
#define SIZES(...) \
  (const int64_t[]) { __VA_ARGS__ }
static const int64_t lengths[B] = {5, 1, 9, 0}, position[B] = {2, -1, 12, 3};

static tn_program *p;
static tn_function *f;
static int b;           // the sequence alone
static tn_packed ints;  // [rows, C]
static tn_tensor own;   // those of the sequence alone, [steps, C]

// ---- calls of packed_alone.def
static int64_t n_steps(tn_tensor x) { return (void)x, lengths[b]; }

// Python's x[from:to]
static tn_tensor cut(tn_tensor x, int64_t from, int64_t to) {
  int64_t n = n_steps(x), end = to < 0 ? n + to : to < n ? to : n, start = from < 0 ? n + from : from < n ? from : n;
  if (start < 0) start = 0;
  return tn_slice(x, 0, start, end > start ? end - start : 0);
}
static int64_t least(int64_t at) { return at < 0 ? 0 : at; }

static tn_tensor constant_like(tn_tensor x, int64_t rows, double value, int64_t axis1) {
  tn_dtype t = tn_dtype_of(x);
  return tn_cast(tn_full(f, value, TN_SHAPE(rows, axis1)), t);
}

static tn_tensor shifted(tn_tensor x, int64_t by, double fill) {
  int64_t n = n_steps(x), far = by < 0 ? -by : by, gap = far < n ? far : n;
  tn_tensor rest = tn_slice(x, 0, by < 0 ? gap : 0, n - gap), some = constant_like(x, gap, fill, C);
  return by < 0 ? tn_concat(0, TN_TENSORS(rest, some)) : tn_concat(0, TN_TENSORS(some, rest));
}

static tn_tensor step(tn_tensor x, int64_t at, double fill) {
  int64_t n = n_steps(x), t = at < 0 ? n + at : at;
  if (t >= 0 && t < n) return tn_slice(x, 0, t, 1);
  return tn_add(constant_like(x, 1, fill, C), tn_sum_axis(tn_slice(x, 0, 0, 0), 0, true));
}

static tn_tensor differences(tn_tensor x) { return tn_diff(x, 1, 0); }
static tn_tensor positions(void) { return tn_constant_i64(f, position, TN_SHAPE(B)); }
static tn_packed half(tn_packed s, int which) {
  tn_packed out[2];
  tn_packed_split(s, positions(), out);
  return out[which];
}
static tn_packed windows(tn_packed s, int64_t size, int64_t by) {
  tn_packed y = tn_packed_unfold(tn_packed_concat_time(tn_packed_concat_time(s, s), s), size, by);
  return tn_packed_with_data(y, tn_reshape(y.data, TN_SHAPE(tn_dim_of(y.data, 0), C * size)));
}
static tn_tensor unfolded(tn_tensor x, int64_t size, int64_t by) {
  if (!n_steps(x)) return tn_reshape(x, TN_SHAPE(0, C * size));
  tn_tensor y = tn_unfold(tn_concat(0, TN_TENSORS(x, x, x)), 0, size, by);
  return tn_reshape(y, TN_SHAPE(tn_dim_of(y, 0), C * size));
}

// ---- pools and norms along a sequence, losses of each
static tn_module *fresh(void) {
  static int count;
  char name[32];
  snprintf(name, sizeof name, "m%d", count++);
  return tn_module_new(tn_root(p), name);
}

static tn_tensor swapped(tn_tensor x) { return tn_reshape(tn_transpose(x, 0, 1), TN_SHAPE(1, C, n_steps(x))); }
static tn_tensor back(tn_tensor y) { return tn_transpose(tn_reshape(y, TN_SHAPE(C, tn_dim_of(y, 2))), 0, 1); }
static tn_packed over(tn_module *m, tn_packed s) { return tn_packed_call(m, s); }
static tn_tensor along(tn_module *m, tn_tensor x) {
  return n_steps(x) ? back(tn_call(m, swapped(x))) : tn_slice(x, 0, 0, 0);
}

static tn_tensor norm_twice(tn_tensor x) {
  int64_t n = n_steps(x);
  if (!n) return tn_slice(x, 0, 0, 0);
  tn_tensor both = tn_concat(0, TN_TENSORS(x, tn_square(x)));
  tn_module *m = tn_instance_norm(fresh(), "n", C, .affine = true, .eps = 0.1);
  return back(tn_call(m, tn_reshape(tn_transpose(both, 0, 1), TN_SHAPE(1, C, 2 * n))));
}

static tn_tensor labels_of(tn_tensor n) {
  return tn_bitwise_and(tn_reshape(tn_slice(n, 1, 0, 1), TN_SHAPE(tn_dim_of(n, 0))),
                        tn_constant_i64(f, SIZES(3), TN_SCALAR));
}
static tn_packed labels(tn_packed n) { return tn_packed_with_data(n, labels_of(n.data)); }
static tn_tensor as_row(tn_tensor loss) { return tn_reshape(loss, TN_SHAPE(1)); }

static const int64_t targets[B * 2] = {1, 3, 2, 2, 4, 4, 1, 1}, n_targets[B] = {2, 1, 2, 0};
static tn_tensor ctc(tn_packed s) {
  tn_packed log_p = tn_packed_with_data(s, tn_log_softmax(s.data, -1));
  return tn_packed_ctc(log_p, tn_constant_i64(f, targets, TN_SHAPE(B, 2)), tn_constant_i64(f, n_targets, TN_SHAPE(B)),
                       .reduction = TN_REDUCE_NONE, .zero_infinity = true);
}
static tn_tensor ctc_alone(tn_tensor x) {
  int64_t n = n_steps(x);
  if (!n) return tn_sum_axis(tn_slice(x, 1, 0, 1), 0, false);
  tn_tensor log_p = tn_reshape(tn_log_softmax(x, -1), TN_SHAPE(n, 1, C));
  return tn_ctc(log_p, tn_constant_i64(f, targets + 2 * b, TN_SHAPE(1, 2)), tn_constant_i64(f, &n, TN_SHAPE(1)),
                tn_constant_i64(f, n_targets + b, TN_SHAPE(1)), .reduction = TN_REDUCE_NONE, .zero_infinity = true);
}

// What a linear recurrence starts with, by sequence, and factors that are the same at every step
static double start_of(int64_t seq, int64_t k) { return 0.25 * (double)(seq + 1) - 0.125 * (double)k; }
static tn_tensor states(tn_packed s) {
  float h[B * C];
  for (int k = 0; k < B * C; k++) h[k] = (float)start_of(k / C, k % C);
  return (void)s, tn_constant(f, h, TN_SHAPE(B, C));
}
static tn_tensor state(tn_tensor x) {
  float h[C];
  for (int k = 0; k < C; k++) h[k] = (float)start_of(b, k);
  return (void)x, tn_constant(f, h, TN_SHAPE(C));
}
static tn_tensor row_of(tn_tensor x) {
  static const float factor[C] = {0.5f, -0.75f, 1, 0, -0.25f};
  return (void)x, tn_constant(f, factor, TN_SHAPE(C));
}
static tn_tensor row(tn_packed s) { return row_of(s.data); }

#define NAME_(kind, line) kind##_##line
#define NAME(kind, line) NAME_(kind, line)
#define STEPS(flags, call, ...)                                         \
  static tn_packed NAME(packed, __LINE__)(tn_packed s) { return call; } \
  static tn_tensor NAME(alone, __LINE__)(tn_tensor x) { return __VA_ARGS__; }
#define WHOLES(flags, call, ...)                                                             \
  static tn_packed NAME(packed, __LINE__)(tn_packed s) { return (tn_packed){.data = call}; } \
  static tn_tensor NAME(alone, __LINE__)(tn_tensor x) { return __VA_ARGS__; }
#include "tests/packed_alone.def"

enum { NEAR = 1, INTEGER = 2, IS_WHOLE = 4, FIXED_NEAR = 8 };
#define STEPS(flags, call, ...) {flags, #call, NAME(packed, __LINE__), NAME(alone, __LINE__)},
#define WHOLES(flags, call, ...) {(flags) | IS_WHOLE, #call, NAME(packed, __LINE__), NAME(alone, __LINE__)},
static const struct {
  int flags;
  const char *text;
  tn_packed (*packed)(tn_packed s);
  tn_tensor (*alone)(tn_tensor x);
} cases[] = {
#include "tests/packed_alone.def"
};
enum { N = sizeof cases / sizeof *cases };

// ---- outputs [B, WIDE, features], and of f32 the gradient of a weighted sum
typedef struct {
  tn_tensor x, n, weight;  // [B, T, C] f32 and i64; [WIDE, MOST]
} In;

static In inputs(void) {
  return (In){tn_input(f, "x", TN_F32, TN_SHAPE(B, T, C)), tn_input(f, "n", TN_I64, TN_SHAPE(B, T, C)),
              tn_input(f, "weight", TN_F32, TN_SHAPE(WIDE, MOST))};
}

// [.., features], with zeros up to MOST of them
static void put(const In *in, size_t k, tn_tensor y) {
  char name[32];
  if (tn_rank(y) == 2) y = tn_unsqueeze(y, 2);
  y = tn_pad(y, SIZES(0, MOST - ir_dim_bound(f->p->ir, fe_axis_dim(y, 2))), 2, TN_PAD_CONSTANT, 0);
  snprintf(name, sizeof name, "y%zu", k);
  tn_output(f, name, y);
  if (cases[k].flags & INTEGER) return;
  snprintf(name, sizeof name, "d%zu", k);
  tn_output(f, name, tn_grad(tn_sum(tn_mul(y, in->weight)), in->x));
}

// [B, features] or [B] as [B, WIDE, features]
static tn_tensor first_of_many(tn_tensor y) {
  if (tn_rank(y) == 1) y = tn_unsqueeze(y, 1);
  return tn_pad(tn_unsqueeze(y, 1), SIZES(0, 0, 0, WIDE - 1), 4, TN_PAD_CONSTANT, 0);
}

static void add_packed(const char *name, bool fixed) {
  f = tn_function_begin(p, name);
  In in = inputs();
  tn_tensor len = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_pack_options o = {.allow_empty = true};
  tn_packed s = fixed ? (tn_pack_constant)(in.x, lengths, B, o) : (tn_pack_padded)(in.x, len, o);
  tn_packed n = fixed ? (tn_pack_constant)(in.n, lengths, B, o) : (tn_pack_padded)(in.n, len, o);
  ints = n;
  for (size_t k = 0; k < N; k++) {
    tn_packed y = cases[k].packed(cases[k].flags & INTEGER ? n : s);
    if (!(cases[k].flags & IS_WHOLE)) put(&in, k, tn_pad_packed_to(y, 0, true, WIDE));
    else put(&in, k, first_of_many(y.data));
  }
  tn_function_end(f);
}

static tn_tensor widened(tn_tensor y) {
  int64_t n = ir_dim_bound(f->p->ir, fe_axis_dim(y, 0));
  if (tn_rank(y) == 1) y = tn_unsqueeze(y, 1);
  return tn_pad(y, SIZES(0, 0, 0, WIDE - n), 4, TN_PAD_CONSTANT, 0);
}

static tn_tensor sequence(tn_tensor x) {
  return tn_reshape(tn_slice(tn_slice(x, 0, b, 1), 1, 0, lengths[b]), TN_SHAPE(lengths[b], C));
}

static void add_alone(void) {
  f = tn_function_begin(p, "alone");
  In in = inputs();
  tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  for (size_t k = 0; k < N; k++) {
    tn_tensor x = cases[k].flags & INTEGER ? in.n : in.x, y[B];
    for (b = 0; b < B; b++) own = sequence(in.n), y[b] = widened(cases[k].alone(sequence(x)));
    put(&in, k, tn_stack(0, y, B));
  }
  tn_function_end(f);
}

// ---- runs
typedef struct {
  union {
    float f[B * WIDE * MOST];
    int64_t i[B * WIDE * MOST];
  } y[N];
  float d[N][B * T * C];
} Out;

// With the sequence `poisoned` all NaN; -1: none
static void run(tn_model *m, const char *name, int poisoned, Out *out) {
  static float x[B * T * C], weight[WIDE * MOST];
  static int64_t n[B * T * C];
  uint32_t seed = 1;
  for (int k = 0; k < B * T * C; k++) {
    seed = seed * 1664525 + 1013904223;
    x[k] = (float)(seed >> 8) / (1 << 23) - 1, n[k] = (int64_t)(seed >> 8) % 7 - 3;
  }
  for (int k = 0; poisoned >= 0 && k < T * C; k++) x[poisoned * T * C + k] = NAN, n[poisoned * T * C + k] = INT64_MIN;
  for (int k = 0; k < WIDE * MOST; k++) weight[k] = (float)(k * 37 % 101) / 50 - 1;
  tn_array in[] = {tn_f32(x, B, T, C), tn_i64(n, B, T, C), tn_f32(weight, WIDE, MOST),
                   tn_i64((int64_t *)(uintptr_t)lengths, B)};
  tn_array a[2 * N];
  uint32_t count = 0;
  memset(out, 0, sizeof *out);
  for (size_t k = 0; k < N; k++) {
    bool is_integer = cases[k].flags & INTEGER;
    a[count++] = is_integer ? tn_i64(out->y[k].i, B, WIDE, MOST) : tn_f32(out->y[k].f, B, WIDE, MOST);
    if (!is_integer) a[count++] = tn_f32(out->d[k], B, T, C);
  }
  if (!CHECK(tn_run(m, name, in, 4, a, count) == TN_OK)) printf("%s\n", tn_error_text(m));
}

static void compare(const Out *packed, const Out *alone, int close, const char *what) {
  const double tolerance = 2e-6;
  for (size_t k = 0; k < N; k++) {
    bool near = cases[k].flags & close;
    bool y = near ? all_near("values", packed->y[k].f, alone->y[k].f, B * WIDE * MOST, tolerance)
                  : !memcmp(&packed->y[k], &alone->y[k], sizeof packed->y[k]);
    bool d = near ? all_near("gradient", packed->d[k], alone->d[k], B * T * C, tolerance)
                  : !memcmp(packed->d[k], alone->d[k], sizeof packed->d[k]);
    if (!CHECK(y)) printf("%s: %s: values\n", what, cases[k].text);
    if (!CHECK(d)) printf("%s: %s: gradient\n", what, cases[k].text);
  }
}

// What is computed of the other sequences keeps its bits.
static void poison(tn_model *m, const char *name, const Out *clean) {
  static Out out;
  for (int seq = 0; seq < B; seq++) {
    run(m, name, seq, &out);
    for (size_t k = 0; k < N; k++)
      for (int other = 0; other < B; other++) {
        size_t size = cases[k].flags & INTEGER ? sizeof *out.y[k].i : sizeof *out.y[k].f, each = size * WIDE * MOST;
        const char *y = (const char *)&out.y[k], *clean_y = (const char *)&clean->y[k];
        bool same =
            other == seq || (!memcmp(y + other * each, clean_y + other * each, each) &&
                             !memcmp(&out.d[k][other * T * C], &clean->d[k][other * T * C], T * C * sizeof(float)));
        if (!CHECK(same)) printf("%s: %s: sequence %d changes where %d is NaN\n", name, cases[k].text, other, seq);
      }
  }
}

static tn_model *model(uint32_t workers) {
  p = tn_program_create("along");
  add_packed("packed", false), add_packed("fixed", true), add_alone();
  return model_alone(p, .n_workers = workers);
}

// ---- windows over what was cut before: a run may have no sequence that is long enough
static tn_packed cut_short(tn_packed s, int how) {
  switch (how) {
  case 0: return tn_packed_diff(s);
  case 1: return tn_packed_slice(s, 2, TN_TO_END);
  case 2: return tn_packed_slice(s, 0, -3);
  default: return tn_packed_slice(s, T, TN_TO_END);  // none in any run
  }
}

static tn_packed in_windows(tn_packed s, int how) {
  tn_tensor w = tn_ones(f, TN_SHAPE(2, C, 3));
  switch (how) {
  case 0: return tn_packed_max_pool1d(s, 2);
  case 1: return tn_packed_avg_pool1d(s, 3, .stride = 1);
  case 2: return tn_packed_unfold(s, 4, 2);
  case 3: return tn_packed_conv1d(s, w, TN_NONE, .stride = 2);
  default: return tn_packed_diff(tn_packed_conv1d(s, w, TN_NONE, .padding = 1, .dilation = 2));
  }
}

enum { CUTS = 4, WINDOWS = 5, SHORT = 2 };

static tn_model *short_model(void) {
  p = tn_program_create("short");
  f = tn_function_begin(p, "f");
  tn_dim batch = tn_dim_bounded(p, "batch", SHORT), time = tn_dim_bounded(p, "time", T);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, time, C)), n = tn_input(f, "n", TN_I64, TN_SHAPE(batch));
  tn_packed s = tn_pack_padded(x, n, .allow_empty = true);
  for (int k = 0; k < CUTS * WINDOWS; k++) {
    char name[32];
    tn_packed y = in_windows(cut_short(s, k % CUTS), k / CUTS);
    tn_tensor total = tn_add(tn_sum(y.data), tn_sum(tn_packed_sum(y)));
    snprintf(name, sizeof name, "y%d", k);
    tn_output(f, name, total);
    snprintf(name, sizeof name, "d%d", k);
    tn_output(f, name, tn_grad_or_zeros(total, x));
  }
  tn_function_end(f);
  return model_alone(p, .n_workers = 2);
}

static void run_short(tn_model *m, int64_t time, const int64_t n[SHORT]) {
  enum { N_OUT = 2 * CUTS * WINDOWS };
  float x[SHORT * T * C], y[CUTS * WINDOWS], d[CUTS * WINDOWS][SHORT * T * C];
  tn_array out[N_OUT];
  for (int k = 0; k < SHORT * T * C; k++) x[k] = 1 + (float)k;
  memset(d, 1, sizeof d);
  for (int k = 0; k < N_OUT; k++) out[k] = k % 2 ? tn_f32(d[k / 2], SHORT, time, C) : tn_f32_scalar(&y[k / 2]);
  tn_array in[] = {tn_f32(x, SHORT, time, C), tn_i64((int64_t *)(uintptr_t)n, SHORT)};
  if (!CHECK(tn_run(m, "f", in, 2, out, N_OUT) == TN_OK)) printf("%s\n", tn_error_text(m));
  for (int k = 0; k < CUTS * WINDOWS; k++)
    if (!CHECK(y[k] == 0 && all_near("gradient", d[k], (float[SHORT * T * C]){0}, SHORT * (size_t)time * C, 0)))
      printf("time %lld, cut %d, windows %d: %g\n", (long long)time, k % CUTS, k / CUTS, y[k]);
}

static void too_short(void) {
  static const int64_t none[SHORT] = {0, 0}, one[SHORT] = {1, 1}, some[SHORT] = {0, 1};
  tn_model *m = short_model();
  for (int64_t time = 1; m && time <= T; time++)
    run_short(m, time, none), run_short(m, time, one), run_short(m, time, some);
  if (m) run_short(m, 0, none);
  tn_model_free(m);
}

int main(void) {
  static Out by_run, constant, three, alone;
  tn_model *m = model(1), *wide = model(3);
  if (m && wide) {
    run(m, "packed", -1, &by_run), run(m, "fixed", -1, &constant), run(m, "alone", -1, &alone);
    run(wide, "packed", -1, &three);
    compare(&by_run, &alone, NEAR, "run-time lengths"), compare(&constant, &by_run, FIXED_NEAR, "constant lengths");
    compare(&three, &by_run, 0, "three workers");
    poison(m, "packed", &by_run), poison(wide, "packed", &by_run), poison(wide, "fixed", &constant);
  }
  tn_model_free(m), tn_model_free(wide);
  too_short();
  return check_report();
}
