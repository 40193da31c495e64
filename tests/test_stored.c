// Parameters and buffers of every dtype: what they begin with, reading and setting them, writes of a run, files, training of
// those of 16 bits against a twin of f32 whose parameters are rounded after each step.
#include "frontend/tenure.h"
#include "runtime/half.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 5, IN = 6, OUT = 7, ROWS = 9, STEPS = 12 };
static char file[64];
static const tn_init zeros = {TN_INIT_ZEROS, 0, 0};
static const struct {
  tn_dtype t;
  const char *name, *in_file;
  size_t bytes;
  bool is_float;
} dtypes[] = {{TN_F32, "f32", "\"F32\"", 4, true},     {TN_I64, "i64", "\"I64\"", 8, false},
              {TN_I32, "i32", "\"I32\"", 4, false},    {TN_U8, "u8", "\"U8\"", 1, false},
              {TN_BOOL, "bool", "\"BOOL\"", 1, false}, {TN_F16, "f16", "\"F16\"", 2, true},
              {TN_BF16, "bf16", "\"BF16\"", 2, true}};
enum { N_TYPES = sizeof dtypes / sizeof *dtypes };

static tn_array array_of(const void *data, tn_dtype t) { return tn_array_of(data, t, (int64_t[]){N}, 1); }

// v as element k of an array of t.
static void put(tn_dtype t, void *to, size_t k, double v) {
  switch (t) {
  case TN_F32: ((float *)to)[k] = (float)v; break;
  case TN_I64: ((int64_t *)to)[k] = (int64_t)v; break;
  case TN_I32: ((int32_t *)to)[k] = (int32_t)v; break;
  case TN_F16: ((uint16_t *)to)[k] = rt_f16_of_f32((float)v); break;
  case TN_BF16: ((uint16_t *)to)[k] = rt_bf16_of_f32((float)v); break;
  default: ((uint8_t *)to)[k] = (uint8_t)v;
  }
}

static bool holds(tn_model *m, int k, double v) {
  int64_t have[N] = {0}, want[N] = {0};
  for (size_t i = 0; i < N; i++) put(dtypes[k].t, want, i, v);
  return tn_get_array(m, dtypes[k].name, array_of(have, dtypes[k].t)) == TN_OK &&
         !memcmp(have, want, N * dtypes[k].bytes);
}

// ---- buffers
// A buffer of every dtype begins with ones, and a step adds what comes in and hands out what was there before.
static tn_program *counters(void) {
  tn_program *p = tn_program_create("counters");
  for (int k = 0; k < N_TYPES; k++) {
    tn_buffer(tn_root(p), dtypes[k].name, TN_SHAPE(N), (tn_init){TN_INIT_CONSTANT, 1, 0});
    tn_store_as(tn_root(p), dtypes[k].name, dtypes[k].t);
  }
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor more = tn_input(f, "more", TN_F32, TN_SCALAR), old[N_TYPES];
  for (int k = 0; k < N_TYPES; k++) {
    tn_tensor v = tn_param_value(f, tn_root(p), dtypes[k].name);
    old[k] = tn_clone(v);
    tn_copy_(v, tn_add(tn_cast(v, TN_F32), more));
  }
  for (int k = 0; k < N_TYPES; k++) tn_output(f, dtypes[k].name, old[k]);
  tn_function_end(f);
  return p;
}

static void step(tn_model *m, float more, int64_t out[N_TYPES][N]) {
  tn_array to[N_TYPES];
  for (int k = 0; k < N_TYPES; k++) to[k] = array_of(out[k], dtypes[k].t);
  if (!CHECK(tn_run(m, "step", TN_IN(tn_f32_scalar(&more)), to, N_TYPES) == TN_OK)) printf("%s\n", tn_error_text(m));
}

static void buffers(void) {
  tn_program *p = counters();
  tn_model *m = model_of(p);
  int64_t out[N_TYPES][N], want[N] = {0};
  for (int k = 0; k < N_TYPES; k++) CHECK(holds(m, k, 1));
  step(m, 4, out);
  for (int k = 0; k < N_TYPES; k++) {
    for (size_t i = 0; i < N; i++) put(dtypes[k].t, want, i, 1);
    CHECK(!memcmp(out[k], want, N * dtypes[k].bytes));
    CHECK(holds(m, k, dtypes[k].t == TN_BOOL ? 1 : 5));
  }
  CHECK(tn_initialize(m, 1) == TN_OK);
  for (int k = 0; k < N_TYPES; k++) CHECK(holds(m, k, 1));
  tn_model_free(m);
  tn_program_free(p);
}

// Of floats f32 is read and set too; of other dtypes, and of other shapes, nothing.
static void read_and_set(void) {
  tn_program *p = counters();
  tn_model *m = model_of(p);
  float f[N] = {1, 0.3f, -70000, NAN, 3e-8f}, back[N];
  int32_t whole[N] = {-2147483647 - 1, -1, 0, 7, 2147483647}, read[N];
  for (int k = 0; k < N_TYPES; k++) {
    CHECK((tn_set(m, dtypes[k].name, f, N) == TN_OK) == dtypes[k].is_float);
    CHECK((tn_get(m, dtypes[k].name, back, N) == TN_OK) == dtypes[k].is_float);
    for (size_t i = 0; i < N && dtypes[k].t == TN_F16; i++) {
      float rounded = rt_f32_of_f16(rt_f16_of_f32(f[i]));
      CHECK(!memcmp(&back[i], &rounded, sizeof rounded));
    }
    CHECK((tn_set_array(m, dtypes[k].name, array_of(whole, TN_I32)) == TN_OK) == (dtypes[k].t == TN_I32));
  }
  CHECK_HAS((tn_get(m, "u8", back, N), tn_error_text(m)), "parameter 'u8' is u8, not f32");
  CHECK(tn_get_array(m, "i32", tn_i32(read, N)) == TN_OK && !memcmp(read, whole, sizeof read));
  CHECK(tn_set_array(m, "i32", tn_i32(whole, 4)) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "parameter 'i32' has shape [5], the array [4]");
  CHECK(tn_set_array(m, "i32", tn_i32(whole, 5, 1)) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "parameter 'i32' has shape [5], the array [5,1]");
  CHECK(tn_set_array(m, "i32", tn_i32(NULL, N)) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "the array for parameter 'i32' has no data");
  CHECK(tn_get_array(m, "i16", tn_i32(whole, N)) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "there is no parameter 'i16'; did you mean ");
  CHECK(tn_get_array(m, NULL, tn_i32(whole, N)) == TN_ERR_ARGUMENT);
  tn_model_free(m);
  tn_program_free(p);
}

// What a run writes may not be handed in or taken out, down to the last byte.
static void views(void) {
  tn_program *p = tn_program_create("views");
  tn_buffer(tn_root(p), "u8", TN_SHAPE(N), zeros);
  tn_store_as(tn_root(p), "u8", TN_U8);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor v = tn_param_value(f, tn_root(p), "u8"), x = tn_input(f, "x", TN_U8, TN_SHAPE(1));
  tn_copy_(v, tn_expand(x, TN_SHAPE(N)));
  tn_output(f, "y", tn_add(x, x));
  tn_function_end(f);
  tn_model *m = model_of(p);
  tn_array a = tn_param_at(m, 0);
  uint8_t *own = a.data, other = 7;
  CHECK(tn_run(m, "f", TN_IN(tn_u8(own + N - 1, 1)), TN_OUT(tn_u8(&other, 1))) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "input 'x' is memory of parameter 'u8', which the run updates: pass a copy");
  CHECK(tn_run(m, "f", TN_IN(tn_u8(&other, 1)), TN_OUT(tn_u8(own + N - 1, 1))) == TN_ERR_ARGUMENT);
  uint8_t twice = 0;
  CHECK(tn_run(m, "f", TN_IN(tn_u8(&other, 1)), TN_OUT(tn_u8(&twice, 1))) == TN_OK && own[N - 1] == 7 && twice == 14);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- files
static char *bytes_of_file(size_t *n) {
  FILE *in = fopen(file, "rb");
  char *text = calloc(1, 4096);
  if (!CHECK(in && text)) exit(1);
  *n = fread(text, 1, 4095, in);
  fclose(in);
  return text;
}

static void files(void) {
  tn_program *p = counters(), *q = counters();
  tn_model *m = model_of(p), *other = model_of(q);
  int64_t out[N_TYPES][N];
  size_t n;
  step(m, 6, out);
  CHECK(tn_save(m, file, true) == TN_OK);
  char *text = bytes_of_file(&n);
  for (int k = 0; k < N_TYPES; k++) CHECK_HAS(text + 8, dtypes[k].in_file);
  CHECK(tn_load(other, file, true) == TN_OK);
  for (int k = 0; k < N_TYPES; k++) CHECK(holds(other, k, dtypes[k].t == TN_BOOL ? 1 : 7));
  step(other, 1, out);
  CHECK(tn_copy_params(m, other, false) == TN_OK);
  for (int k = 0; k < N_TYPES; k++) CHECK(holds(m, k, dtypes[k].t == TN_BOOL ? 1 : 8));
  free(text);
  tn_model_free(m), tn_model_free(other);
  tn_program_free(p), tn_program_free(q);
}

// One entry `w` of dtype t.
static tn_model *store_of(tn_dtype t) {
  tn_program *p = tn_program_create("store");
  tn_buffer(tn_root(p), "w", TN_SHAPE(N), zeros);
  tn_store_as(tn_root(p), NULL, t);
  tn_function *f = tn_function_begin(p, "nothing");
  tn_param_value(f, tn_root(p), "w");
  tn_output(f, "zero", tn_scalar(f, 0));
  tn_function_end(f);
  tn_model *m = model_of(p);
  tn_program_free(p);
  return m;
}

// A file of every dtype loaded into an entry of every dtype: floats convert, all else is of the same dtype.
static void conversions(void) {
  for (int from = 0; from < N_TYPES; from++) {
    tn_model *source = store_of(dtypes[from].t);
    int64_t v[N] = {0}, want[N], have[N];
    const double numbers[N] = {1, 0, 1, 0.3, 1};
    for (size_t i = 0; i < N; i++) put(dtypes[from].t, v, i, numbers[i]);
    CHECK(tn_set_array(source, "w", array_of(v, dtypes[from].t)) == TN_OK);
    CHECK(tn_save(source, file, false) == TN_OK);
    for (int to = 0; to < N_TYPES; to++) {
      tn_model *m = store_of(dtypes[to].t);
      bool fits = from == to || (dtypes[from].is_float && dtypes[to].is_float);
      CHECK((tn_load(m, file, false) == TN_OK) == fits);
      if (!fits) CHECK_HAS(tn_error_text(m), dtypes[to].is_float ? ", expected F32, F64, F16 or BF16" : ", expected ");
      CHECK((tn_copy_params(m, source, false) == TN_OK) == fits);
      float rounded = 0.3f;
      if (dtypes[from].t == TN_F16) rounded = rt_f32_of_f16(rt_f16_of_f32(0.3f));
      if (dtypes[from].t == TN_BF16) rounded = rt_f32_of_bf16(rt_bf16_of_f32(0.3f));
      memset(want, 0, sizeof want), memset(have, 0, sizeof have);
      for (size_t i = 0; i < N && fits; i++)
        put(dtypes[to].t, want, i, i == 3 && dtypes[from].is_float ? (double)rounded : numbers[i]);
      CHECK(tn_get_array(m, "w", array_of(have, dtypes[to].t)) == TN_OK && !memcmp(have, want, sizeof have));
      tn_model_free(m);
    }
    tn_model_free(source);
  }
}

// A byte of a bool that is not 0 is 1 when it is loaded.
static void odd_bools(void) {
  tn_model *m = store_of(TN_BOOL);
  uint8_t v[N] = {0, 2, 255, 1, 0}, have[N];
  CHECK(tn_set_array(m, "w", tn_bool(v, N)) == TN_OK && tn_save(m, file, false) == TN_OK);
  CHECK(tn_load(m, file, false) == TN_OK && tn_get_array(m, "w", tn_bool(have, N)) == TN_OK);
  CHECK(!memcmp(have, (uint8_t[]){0, 1, 1, 1, 0}, N));
  tn_model_free(m);
}

// ---- training
typedef void Update(tn_function *f, tn_module *m);
static void by_adamw(tn_function *f, tn_module *m) { tn_adamw(f, m, .lr = 0.05); }
static void by_sgd(tn_function *f, tn_module *m) { tn_sgd(f, m, .lr = 0.1, .momentum = 0.9); }
static void by_clipped(tn_function *f, tn_module *m) {
  tn_clip_grad_norm(f, m, 0.5);
  tn_adam(f, m, .lr = 0.05);
}

// Every module with weights of its own, all stored as t.
static tn_program *network(tn_dtype t, Update *update) {
  tn_program *p = tn_program_create("network");
  tn_dim B = tn_dim_bounded(p, "batch", ROWS);
  tn_module *net = tn_root(p);
  tn_module *table = tn_embedding(net, "table", 4, IN), *norm = tn_layer_norm(net, "norm", TN_SHAPE(IN)),
            *lstm = tn_lstm(net, "lstm", IN, OUT), *fc = tn_linear(net, "fc", OUT, 3),
            *scale = tn_batch_norm(net, "scale", 3);
  tn_store_as(net, NULL, t);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 1, IN)), k = tn_input(f, "k", TN_I64, TN_SHAPE(B, 1));
  tn_tensor h = tn_call(norm, tn_add(x, tn_call(table, k)));
  tn_rnn_output r = tn_rnn_call_dense(lstm, tn_reshape(h, TN_SHAPE(1, B, IN)));
  tn_tensor y = tn_call(scale, tn_call(fc, tn_reshape(r.dense, TN_SHAPE(B, OUT))));
  tn_tensor loss = tn_mean(tn_square(tn_sub(y, tn_slice(tn_reshape(x, TN_SHAPE(B, IN)), 1, 0, 3))));
  tn_backward(loss);
  update(f, net);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return p;
}

static bool is_stored(const tn_model *m, uint32_t k, tn_dtype t) {
  const char *path = tn_param_path(m, k);
  return strncmp(path, "optimizer", 9) && strcmp(path, "scale.num_batches_tracked") && t != TN_F32;
}

static size_t count_of(const tn_array *a) {
  size_t n = 1;
  for (uint32_t d = 0; d < a->rank; d++) n *= (size_t)a->dims[d];
  return n;
}

// Rounds what the twin holds as the other stores it; how far both are apart.
static double round_twin(tn_model *twin, tn_model *m, tn_dtype t) {
  double apart = 0;
  for (uint32_t k = 0; k < tn_param_count(twin); k++) {
    tn_array a = tn_param_at(twin, k), b = tn_param_at(m, k);
    CHECK(b.dtype == (is_stored(m, k, t) ? t : a.dtype));
    float *v = a.data, other[1024];
    size_t n = count_of(&a);
    for (size_t i = 0; i < n && is_stored(m, k, t); i++)
      v[i] = t == TN_F16 ? rt_f32_of_f16(rt_f16_of_f32(v[i])) : rt_f32_of_bf16(rt_bf16_of_f32(v[i]));
    if (a.dtype != TN_F32) continue;
    CHECK(n <= 1024 && tn_get(m, tn_param_path(m, k), other, n) == TN_OK);
    for (size_t i = 0; i < n; i++) apart = fmax(apart, fabs((double)v[i] - (double)other[i]));
  }
  return apart;
}

static void train(tn_dtype t, Update *update) {
  tn_program *p = network(t, update), *q = network(TN_F32, update);
  tn_model *m = model_of(p), *twin = model_of(q);
  float x[ROWS * IN], loss = 0, want = 0, first = 0;
  int64_t k[ROWS];
  for (int i = 0; i < ROWS * IN; i++) x[i] = sinf((float)i);
  for (int i = 0; i < ROWS; i++) k[i] = i % 4;
  CHECK(tn_initialize(m, 3) == TN_OK && tn_initialize(twin, 3) == TN_OK);
  CHECK(round_twin(twin, m, t) == 0);
  for (int s = 0; s < STEPS; s++) {
    tn_array in[] = {tn_f32(x, ROWS, 1, IN), tn_i64(k, ROWS, 1)};
    CHECK(tn_run(m, "step", in, 2, TN_OUT(tn_f32_scalar(&loss))) == TN_OK);
    CHECK(tn_run(twin, "step", in, 2, TN_OUT(tn_f32_scalar(&want))) == TN_OK);
    if (!CHECK(!memcmp(&loss, &want, sizeof loss)))
      printf("  step %d: %.9g, twin %.9g\n", s, (double)loss, (double)want);
    double apart = round_twin(twin, m, t);
    if (!CHECK(apart == 0)) printf("  step %d: %g apart\n", s, apart);
    if (s == 0) first = loss;
  }
  CHECK(loss < 0.8f * first);
  tn_model_free(m), tn_model_free(twin);
  tn_program_free(p), tn_program_free(q);
}

// ---- what is refused
typedef void Mistake(tn_program *p);
static void refused(Mistake *make, const char *sentence) {
  tn_program *p = tn_program_create("mistake");
  make(p);
  CHECK_HAS(report_of(p), sentence);
  tn_program_free(p);
}
static void whole_parameter(tn_program *p) {
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), zeros);
  tn_store_as(tn_root(p), "w", TN_I32);
}
static void unknown_dtype(tn_program *p) {
  tn_buffer(tn_root(p), "w", TN_SHAPE(3), zeros);
  tn_store_as(tn_root(p), "w", (tn_dtype)77);
}
static void no_match(tn_program *p) {
  tn_buffer(tn_root(p), "weight", TN_SHAPE(3), zeros);
  tn_store_as(tn_root(p), "wight", TN_I32);
}
static void does_not_hold(tn_program *p) {
  tn_buffer(tn_root(p), "w", TN_SHAPE(3), (tn_init){TN_INIT_CONSTANT, 256, 0});
  tn_store_as(tn_root(p), "w", TN_U8);
}
static void too_late(tn_program *p) {
  tn_buffer(tn_root(p), "w", TN_SHAPE(3), zeros);
  tn_function *f = tn_function_begin(p, "f");
  tn_param_value(f, tn_root(p), "w");
  tn_store_as(tn_root(p), "w", TN_U8);
}
static void arithmetic(tn_program *p) {
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), zeros);
  tn_store_as(tn_root(p), "w", TN_BF16);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor w = tn_param_value(f, tn_root(p), "w");
  tn_mul(w, w);
}
static void max_norm(tn_program *p) {
  tn_module *table = tn_embedding(tn_root(p), "table", 4, 2, .max_norm = 1);
  tn_store_as(table, NULL, TN_F16);
  tn_function *f = tn_function_begin(p, "f");
  tn_call(table, tn_input(f, "k", TN_I64, TN_SHAPE(3)));
}
static void adopted(tn_program *p) {
  tn_parameter_adopt(tn_root(p), "w", tn_constant_i64(tn_init_function(p), (int64_t[]){1, 2}, TN_SHAPE(2)));
}

static void mistakes(void) {
  refused(whole_parameter, "error[E005]: parameter 'w' cannot be stored as i32: what may be trained is a float");
  refused(unknown_dtype, "error[E005]: parameters are stored as a dtype: TN_F32, TN_BF16, ..");
  refused(no_match, "no parameter or buffer below the root module matches 'wight'");
  refused(does_not_hold, "'w' begins with 256, which u8 does not hold");
  refused(too_late, "error[E009]: 'w' is given another dtype after a function used parameters");
  refused(arithmetic, "error[E005]");
  refused(max_norm, "module 'table' shortens rows of its table (max_norm), which is stored as f16: f32 is needed");
  refused(adopted, "error[E005]: a parameter is of f32, f16 or bf16");
}

// ---- adopted tables, and dtypes that stay
static void adopted_table(void) {
  tn_program *p = tn_program_create("adopted");
  tn_module *root = tn_root(p);
  const int64_t numbers[3] = {INT64_MIN, 1, INT64_MAX};
  tn_function *init = tn_init_function(p);
  tn_buffer_adopt(root, "table", tn_constant_i64(init, numbers, TN_SHAPE(3)), true);
  tn_parameter_adopt(root, "w", tn_cast(tn_full(init, 0.3, TN_SHAPE(2)), TN_F16));
  tn_buffer(root, "large", TN_SCALAR, (tn_init){TN_INIT_CONSTANT, 9007199254740991.0, 0});
  tn_store_as(root, "large", TN_I64);
  tn_store_as(root, NULL, TN_F16);  // whole numbers stay
  tn_function *f = tn_function_begin(p, "f");
  tn_output(f, "y", tn_add(tn_param_value(f, root, "table"), tn_param_value(f, root, "large")));
  tn_output(f, "w",
            tn_grad(tn_sum(tn_square(tn_cast(tn_param_value(f, root, "w"), TN_F32))), tn_param_value(f, root, "w")));
  tn_function_end(f);
  tn_variable v[3];
  CHECK(tn_variables(root, NULL, v, 3) == 3 && v[0].dtype == TN_I64 && v[1].dtype == TN_F16 && v[2].dtype == TN_I64);
  tn_model *m = model_of(p);
  int64_t y[3];
  float w[2], want = 2 * rt_f32_of_f16(rt_f16_of_f32(0.3f));
  CHECK(tn_run(m, "f", TN_NO_IN, TN_OUT(tn_i64(y, 3), tn_f32(w, 2))) == TN_OK);
  CHECK(y[0] == INT64_MIN + 9007199254740991 && y[1] == 9007199254740992);
  CHECK(w[0] == want && w[1] == want);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- constants: few are instructions, many a table of the object; both hold every number
static void constants(void) {
  enum { FEW = 3, MANY = 100 };
  for (int k = 0; k < N_TYPES; k++) {
    tn_program *p = tn_program_create("constants");
    tn_function *f = tn_function_begin(p, "f");
    int64_t v[MANY] = {0}, few[FEW] = {0}, many[MANY] = {0};
    for (size_t i = 0; i < MANY; i++) put(dtypes[k].t, v, i, dtypes[k].t == TN_BOOL ? (double)(i % 2) : (double)i);
    tn_output(f, "few", tn_constant_of(f, dtypes[k].t, v, TN_SHAPE(FEW)));
    tn_output(f, "many", tn_constant_of(f, dtypes[k].t, v, TN_SHAPE(MANY)));
    tn_output(f, "sum", tn_sum(tn_cast(tn_constant_of(f, dtypes[k].t, v, TN_SHAPE(MANY)), TN_F32)));
    tn_function_end(f);
    tn_model *m = model_of(p);
    float sum = 0;
    tn_array out[] = {tn_array_of(few, dtypes[k].t, (int64_t[]){FEW}, 1),
                      tn_array_of(many, dtypes[k].t, (int64_t[]){MANY}, 1), tn_f32_scalar(&sum)};
    CHECK(tn_run(m, "f", TN_NO_IN, out, 3) == TN_OK);
    CHECK(!memcmp(few, v, FEW * dtypes[k].bytes) && !memcmp(many, v, MANY * dtypes[k].bytes));
    CHECK(sum == (dtypes[k].t == TN_BOOL ? 50 : 4950));
    tn_model_free(m);
    tn_program_free(p);
  }
}

// ---- pixels: bytes from a file go into a program that normalises them: the kernel that does reads them as they are
enum { SIDE = 4, IMAGES = 6 };
static tn_model *reader_of_pixels(tn_dtype t, uint32_t *n_kernels) {
  tn_program *p = tn_program_create("pixels");
  tn_dim B = tn_dim_bounded(p, "batch", IMAGES);
  tn_module *fc = tn_linear(tn_root(p), "fc", SIDE * SIDE, 3);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "image", t, TN_SHAPE(B, SIDE, SIDE));
  x = tn_mul_scalar(tn_add_scalar(tn_mul_scalar(tn_cast(x, TN_F32), 1.0 / 255), -0.5), 4);
  tn_output(f, "y", tn_relu(tn_call(fc, tn_reshape(x, TN_SHAPE(B, SIDE * SIDE)))));
  tn_function_end(f);
  tn_model *m = model_of(p);
  tn_plan plan;
  CHECK(tn_plan_of(m, "f", &plan) == TN_OK);
  *n_kernels = plan.n_kernels;
  tn_program_free(p);
  return m;
}

static tn_dataset *pixels(const uint8_t *bytes) {
  char why[256] = "";
  char header[119] = "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 4, 4), }";
  memset(header + strlen(header), ' ', 117 - strlen(header));
  header[117] = '\n';
  FILE *out = fopen(file, "wb");
  bool ok = out && fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, out) == 10 && fwrite(header, 1, 118, out) == 118 &&
            fwrite(bytes, 1, IMAGES * SIDE * SIDE, out) == IMAGES * SIDE * SIDE && fclose(out) == 0;
  const tn_column column = {.name = file, .field = "image", .dtype = TN_U8};
  tn_dataset *d = ok ? tn_dataset_npy(&column, 1, why, sizeof why) : NULL;
  if (!CHECK(d)) puts(why);
  return d;
}

static void bytes_of_images(void) {
  uint32_t n_floats, n_bytes;
  uint8_t bytes[IMAGES * SIDE * SIDE];
  float x[IMAGES * SIDE * SIDE], y[IMAGES * 3] = {0}, want[IMAGES * 3] = {1};
  char why[256] = "";
  tn_model *plain = reader_of_pixels(TN_F32, &n_floats), *m = reader_of_pixels(TN_U8, &n_bytes);
  CHECK(tn_copy_params(m, plain, false) == TN_OK);
  if (!CHECK(n_bytes == n_floats)) printf("  %u kernels, %u of floats\n", n_bytes, n_floats);
  for (int k = 0; k < IMAGES * SIDE * SIDE; k++) bytes[k] = (uint8_t)(k * 37), x[k] = bytes[k];
  tn_dataset *d = pixels(bytes);
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = IMAGES}, why, sizeof why);
  tn_batch b = {0};
  CHECK(l && tn_loader_next(l, &b) == TN_OK && tn_batch_array(b, "image").dtype == TN_U8);
  if (!CHECK(tn_run_batch(m, "f", b, TN_OUT(tn_f32(y, IMAGES, 3))) == TN_OK)) puts(tn_error_text(m));
  CHECK(tn_run(plain, "f", TN_IN(tn_f32(x, IMAGES, SIDE, SIDE)), TN_OUT(tn_f32(want, IMAGES, 3))) == TN_OK);
  CHECK(!memcmp(y, want, sizeof y));
  tn_loader_free(l);
  tn_dataset_free(d);
  tn_model_free(m), tn_model_free(plain);
}

int main(void) {
  snprintf(file, sizeof file, "/tmp/tenure_stored_%d.safetensors", (int)getpid());
  buffers();
  read_and_set();
  views();
  files();
  conversions();
  odd_bools();
  Update *const updates[] = {by_adamw, by_sgd, by_clipped};
  for (size_t k = 0; k < sizeof updates / sizeof *updates; k++) train(TN_BF16, updates[k]), train(TN_F16, updates[k]);
  mistakes();
  adopted_table();
  constants();
  bytes_of_images();
  unlink(file);
  return check_report();
}
