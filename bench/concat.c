// concat: equal pieces joined along an axis. A case is COUNT AXIS WORK SIZES: `join` alone, `before` (of relu x),
// `after` (gelu of the result), `grad` (the gradient of the sum of squares for every piece). cast: COUNT numbers from
// one type to the other.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

// clang-format off
#define EACH(axis, work, sizes) \
  "2 " axis " " work " " sizes, "3 " axis " " work " " sizes, "8 " axis " " work " " sizes, "16 " axis " " work " " sizes, \
  "17 " axis " " work " " sizes, "64 " axis " " work " " sizes, "100 " axis " " work " " sizes
#define SOME(work) \
  "2 0 " work " 100 320", "16 0 " work " 100 320", "100 0 " work " 100 320", "100 0 " work " 3 5", \
  "2 1 " work " 100 320", "16 1 " work " 100 320", "100 1 " work " 100 320", "2 1 " work " 1000 1", "100 1 " work " 97 3", \
  "17 1 " work " 31 45", "16 1 " work " 8 16 31"
static const char *const cases[] = {
    EACH("0", "join", "100 320"), EACH("0", "join", "3 5"), EACH("1", "join", "100 320"), EACH("1", "join", "1000 1"),
    EACH("1", "join", "97 3"), EACH("1", "join", "31 45"), EACH("1", "join", "512 16"), EACH("2", "join", "4 25 320"),
    EACH("2", "join", "7 11 13"), EACH("1", "join", "16 9 31"), EACH("1", "join", "64 1 256"),
    "2 0 join 400 1000", "2 0 join 1000 4000", "2 1 join 1000 4000", "3 1 join 100000 3", "16 1 join 20000 8",
    SOME("before"), SOME("after"), SOME("grad"), NULL};
// clang-format on
static const char *const casts[] = {"f32 1000",   "f32 100000",  "f32 4000000", "i64 1000",
                                    "i64 100000", "i64 4000000", NULL};

enum { MOST = 100 };

typedef struct {
  tn_model *model;
  uint32_t n, rank, n_out;
  int axis;
  int64_t dim[3], joined[3];
  char work[16];
  tn_array in[MOST], out[MOST];
} Joined;

static tn_model *model(void *w) { return ((Joined *)w)->model; }

static void close_joined(void *w) {
  Joined *j = w;
  tn_model_free(j->model);
  for (uint32_t k = 0; k < MOST; k++) free(j->in[k].data), free(j->out[k].data);
  free(j);
}

static int64_t numel(const int64_t *dim, uint32_t rank) {
  int64_t n = 1;
  for (uint32_t k = 0; k < rank; k++) n *= dim[k];
  return n;
}

static tn_tensor piece(tn_function *f, const Joined *j, uint32_t k) {
  char name[16];
  tn_dim dim[3];
  snprintf(name, sizeof name, "x%u", k);
  for (uint32_t i = 0; i < j->rank; i++) dim[i] = tn_dim_const(j->dim[i]);
  return tn_input(f, name, TN_F32, tn_shape_of(dim, j->rank));
}

static void add_outputs(tn_function *f, const Joined *j, tn_tensor y, const tn_tensor *x) {
  if (strcmp(j->work, "grad") != 0) {
    tn_output(f, "y", strcmp(j->work, "after") ? y : tn_gelu(y));
    return;
  }
  tn_tensor loss = tn_sum(tn_square(y));
  for (uint32_t k = 0; k < j->n; k++) {
    char name[16];
    snprintf(name, sizeof name, "dx%u", k);
    tn_output(f, name, tn_grad(loss, x[k]));
  }
}

static tn_program *build(const Joined *j) {
  tn_program *p = tn_program_create("concat");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x[MOST], part[MOST];
  for (uint32_t k = 0; k < j->n; k++) {
    x[k] = piece(f, j, k);
    part[k] = strcmp(j->work, "before") ? x[k] : tn_relu(x[k]);
  }
  add_outputs(f, j, tn_concat(j->axis, part, j->n), x);
  tn_function_end(f);
  return p;
}

static bool make_arrays(Joined *j) {
  int64_t n = numel(j->dim, j->rank);
  bool grad = !strcmp(j->work, "grad"), ok = true;
  j->n_out = grad ? j->n : 1;
  for (uint32_t k = 0; k < j->n; k++) {
    float *x = malloc(sizeof *x * (size_t)n);
    if (x) bench_floats(x, (size_t)n, -1, 1, k + 1);
    j->in[k] = tn_array_of(x, TN_F32, j->dim, j->rank);
    ok &= x != NULL;
  }
  for (uint32_t k = 0; k < j->n_out; k++) {
    const int64_t *dim = grad ? j->dim : j->joined;
    j->out[k] = tn_array_of(calloc((size_t)numel(dim, j->rank), sizeof(float)), TN_F32, dim, j->rank);
    ok &= j->out[k].data != NULL;
  }
  return ok;
}

static bool parse_case(Joined *j, const char *variant) {
  long n, axis, dim[3];
  int found = sscanf(variant, "%ld %ld %15s %ld %ld %ld", &n, &axis, j->work, &dim[0], &dim[1], &dim[2]);
  if (found < 5 || n > MOST) return false;
  j->n = (uint32_t)n, j->axis = (int)axis, j->rank = (uint32_t)found - 3;
  for (uint32_t k = 0; k < j->rank; k++) j->dim[k] = j->joined[k] = dim[k];
  j->joined[axis] *= n;
  return true;
}

static void *open_concat(Opening *o) {
  Joined *j = calloc(1, sizeof *j);
  o->weights = NULL;
  if (!j || !parse_case(j, o->variant)) return free(j), NULL;
  j->model = bench_compile(build(j), o);
  if (j->model && make_arrays(j)) return j;
  close_joined(j);
  return NULL;
}

static bool step(void *w) {
  Joined *j = w;
  return tn_run(j->model, "run", j->in, j->n, j->out, j->n_out) == TN_OK;
}

static bool check(void *w, double *loss) {
  Joined *j = w;
  bool ok = step(w);
  *loss = 0;
  for (uint32_t k = 0; k < j->n_out; k++)
    *loss += bench_checksum(j->out[k].data, (size_t)numel(j->out[k].dims, j->out[k].rank));
  return ok;
}

static void limits(const char *variant, double *flops, double *bytes) {
  Joined j = {0};
  *flops = 0;
  if (parse_case(&j, variant)) *bytes = 8.0 * (double)numel(j.joined, j.rank);
}

// ---- cast
typedef struct {
  tn_model *model;
  tn_array in, out;
} Cast;

static tn_model *cast_model(void *w) { return ((Cast *)w)->model; }

static void close_cast(void *w) {
  Cast *t = w;
  tn_model_free(t->model);
  free(t->in.data);
  free(t->out.data);
  free(t);
}

static tn_program *build_cast(bool from_f32, int64_t n) {
  tn_program *p = tn_program_create("cast");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", from_f32 ? TN_F32 : TN_I64, TN_SHAPE(n));
  tn_output(f, "y", tn_cast(x, from_f32 ? TN_I64 : TN_F32));
  tn_function_end(f);
  return p;
}

static void *open_cast(Opening *o) {
  long n = strtol(o->variant + 4, NULL, 10);
  bool from_f32 = !strncmp(o->variant, "f32", 3);
  Cast *t = calloc(1, sizeof *t);
  o->weights = NULL;
  if (!t) return NULL;
  t->in = tn_array_of(malloc((size_t)n * (from_f32 ? 4 : 8)), from_f32 ? TN_F32 : TN_I64, (const int64_t[]){n}, 1);
  t->out = tn_array_of(calloc((size_t)n, from_f32 ? 8 : 4), from_f32 ? TN_I64 : TN_F32, (const int64_t[]){n}, 1);
  t->model = bench_compile(build_cast(from_f32, n), o);
  if (t->in.data && t->out.data && t->model) {
    if (from_f32) bench_floats(t->in.data, (size_t)n, -1000, 1000, 1);
    else bench_integers(t->in.data, (size_t)n, 1000, 1);
    return t;
  }
  close_cast(t);
  return NULL;
}

static bool step_cast(void *w) {
  Cast *t = w;
  return tn_run(t->model, "run", &t->in, 1, &t->out, 1) == TN_OK;
}

static bool check_cast(void *w, double *loss) {
  Cast *t = w;
  bool ok = step_cast(w);
  size_t n = (size_t)t->out.dims[0];
  float *y = malloc(sizeof *y * n);
  for (size_t k = 0; y && k < n; k++)
    y[k] = t->out.dtype == TN_F32 ? ((float *)t->out.data)[k] : (float)((int64_t *)t->out.data)[k];
  *loss = y ? bench_checksum(y, n) : 0;
  free(y);
  return ok && y;
}

static void cast_limits(const char *variant, double *flops, double *bytes) {
  *flops = 0;
  *bytes = 12 * strtod(variant + 4, NULL);
}

const Workload bench_concat = {.name = "concat",
                               .what = "equal pieces joined: COUNT AXIS WORK SIZES",
                               .peer = "bench/peers/%s_concat.py",
                               .cases = cases,
                               .open = open_concat,
                               .check = check,
                               .step = step,
                               .model = model,
                               .close = close_joined,
                               .limits = limits};
const Workload bench_cast = {.name = "cast",
                             .what = "numbers from f32 to i64, and from i64 to f32",
                             .peer = "bench/peers/%s_concat.py",
                             .cases = casts,
                             .open = open_cast,
                             .check = check_cast,
                             .step = step_cast,
                             .model = cast_model,
                             .close = close_cast,
                             .limits = cast_limits};
