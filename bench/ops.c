// ops: one op along one axis. A case is OP SIZES AXIS: `sort 1024 64 1`; of topk the number comes first, `topk5`. Indices are
// drawn with repetition; index_add, scatter_add add to zeros. embedding_bag ROWS WIDTH BAGS LENGTH has a table and bags.
// A reduction of whole numbers has their dtype behind its name: `sum_u8 1000 1000 0`.
// einsum HEADS TIME WIDTH is the scores of attention, "ihd,jhd->hij", of operands as a projection leaves them.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

// clang-format off
static const char *const cases[] = {
    "sort 4096 16 1", "sort 1024 64 1", "sort 1024 128 1", "sort 1024 256 1", "sort 512 1000 1", "sort 64 10000 1",
    "sort 1 100000 1", "sort 1 1000000 1", "sort 1000 1000 0",
    "topk5 1024 64 1", "topk5 1024 256 1", "topk5 512 1000 1", "topk50 512 1000 1", "topk50 64 10000 1", "topk5 1 100000 1",
    "topk50 1 1000000 1", "topk400 64 1000 1",
    "cumsum 4096 16 1", "cumsum 1024 256 1", "cumsum 512 1000 1", "cumsum 1 100000 1", "cumsum 1 1000000 1", "cumsum 1000 1000 0",
    "cumsum 64 100 0",
    "gather 4096 16 1", "gather 1024 256 1", "gather 64 10000 1", "gather 1 1000000 1", "gather 1000 1000 0",
    "scatter_add 4096 16 1", "scatter_add 1024 256 1", "scatter_add 64 10000 1", "scatter_add 1 1000000 1",
    "scatter_add 1000 1000 0",
    "index_select 10000 64 0", "index_add 10000 64 0",
    "bag_sum 100000 64 1024 32", "bag_mean 100000 64 1024 32", "bag_max 100000 64 1024 32", "bag_sum 1000 128 256 8",
    "bag_sum 1000 16 4096 4",
    "einsum 8 128 64",
    "sum_i64 1000 1000 0", "sum_i64 1000 1000 1", "sum_i64 1 1000000 1", "sum_i32 1000 1000 0", "sum_u8 1000 1000 0",
    "sum_bool 1000 1000 0", "sum_bool 1000 1000 1", "sum_bool 1 1000000 1", "sum_i64 100000 3 0", "sum_i64 100000 5 1",
    "any_bool 1000 1000 0", "any_bool 1000 1000 1", "all_bool 1000 1000 0", "any_i64 1000 1000 0",
    "amax_i64 1000 1000 0", "amax_i64 1000 1000 1", "amin_i32 1000 1000 0", "amin_u8 1000 1000 0", "amin_u8 1000 1000 1",
    "argmax_i64 1000 1000 0", "argmax_i64 1000 1000 1", "argmax_i64 1 1000000 1", "argmin_i32 1000 1000 0",
    "argmax_u8 1000 1000 0", NULL};
// clang-format on

typedef struct {
  tn_model *model;
  char op[32];
  int64_t k, dim[4];                                                     // k: of topk
  tn_dtype whole;                                                        // of a reduction
  tn_tensor (*reduce)(tn_tensor a, int axis, bool keepdim, tn_site at);  // NULL: another op
  uint32_t n_dims;
  tn_array in[3], out[2];  // out[1]: indices of what is ordered
  uint32_t n_in, n_out;
} OneOp;

static tn_model *model(void *w) { return ((OneOp *)w)->model; }

static void close_op(void *w) {
  OneOp *o = w;
  tn_model_free(o->model);
  for (uint32_t k = 0; k < 3; k++) free(o->in[k].data);
  for (uint32_t k = 0; k < 2; k++) free(o->out[k].data);
  free(o);
}

static void parse_reduction(OneOp *o) {
  static const struct {
    const char *name;
    tn_tensor (*call)(tn_tensor a, int axis, bool keepdim, tn_site at);
  } calls[] = {{"sum", tn_sum_axis},   {"any", tn_any_axis},       {"all", tn_all_axis},      {"amax", tn_amax_axis},
               {"amin", tn_amin_axis}, {"argmax", tn_argmax_axis}, {"argmin", tn_argmin_axis}};
  static const struct {
    const char *name;
    tn_dtype type;
  } types[] = {{"i64", TN_I64}, {"i32", TN_I32}, {"u8", TN_U8}, {"bool", TN_BOOL}};
  const char *type = strchr(o->op, '_');
  for (size_t k = 0; type && k < sizeof types / sizeof *types; k++)
    for (size_t j = 0; j < sizeof calls / sizeof *calls; j++)
      if (!strcmp(type + 1, types[k].name) && strlen(calls[j].name) == (size_t)(type - o->op) &&
          !strncmp(o->op, calls[j].name, (size_t)(type - o->op)))
        o->whole = types[k].type, o->reduce = calls[j].call;
}

static bool parse_case(OneOp *o, const char *variant) {
  long dim[4];
  int n = sscanf(variant, "%31s %ld %ld %ld %ld", o->op, &dim[0], &dim[1], &dim[2], &dim[3]);
  if (n < 4) return false;
  o->n_dims = (uint32_t)n - 1;
  for (uint32_t k = 0; k < o->n_dims; k++) o->dim[k] = dim[k];
  if (!strncmp(o->op, "topk", 4)) o->k = strtol(o->op + 4, NULL, 10), o->op[4] = 0;
  parse_reduction(o);
  return true;
}

static bool is_bag(const OneOp *o) { return !strncmp(o->op, "bag_", 4); }
static bool is_einsum(const OneOp *o) { return !strcmp(o->op, "einsum"); }
static bool adds(const OneOp *o) { return !strcmp(o->op, "scatter_add") || !strcmp(o->op, "index_add"); }
static bool by_slice(const OneOp *o) { return !strncmp(o->op, "index_", 6); }

static float *numbers(int64_t n, uint32_t seed) {
  float *x = bench_block(sizeof *x * (size_t)n);
  bench_floats(x, (size_t)n, -2, 2, seed);
  return x;
}

static int64_t *indices(int64_t n, int64_t bound) {
  int64_t *x = bench_block(sizeof *x * (size_t)n);
  bench_integers(x, (size_t)n, bound, 7);
  return x;
}

static tn_array array(void *data, tn_dtype t, int64_t a, int64_t b) {
  return tn_array_of(data, t, (const int64_t[]){a, b}, 2);
}

static tn_tensor input(tn_function *f, OneOp *o, const char *name, tn_array a) {
  tn_dim dim[2];
  for (uint32_t k = 0; k < a.rank; k++) dim[k] = tn_dim_const(a.dims[k]);
  o->in[o->n_in++] = a;
  return tn_input(f, name, a.dtype, tn_shape_of(dim, a.rank));
}

static tn_tensor build_bag(tn_function *f, OneOp *o) {
  int64_t rows = o->dim[0], width = o->dim[1], bags = o->dim[2], length = o->dim[3];
  tn_tensor table = input(f, o, "x", array(numbers(rows * width, 1), TN_F32, rows, width));
  tn_tensor index = input(f, o, "i", array(indices(bags * length, rows), TN_I64, bags, length));
  o->out[0] = array(bench_block((size_t)(bags * width) * sizeof(float)), TN_F32, bags, width);
  tn_bag_mode mode = !strcmp(o->op, "bag_max") ? TN_BAG_MAX : !strcmp(o->op, "bag_mean") ? TN_BAG_MEAN : TN_BAG_SUM;
  return tn_embedding_bag(table, index, .mode = mode);
}

static tn_tensor projected(tn_function *f, OneOp *o, const char *name) {
  int64_t heads = o->dim[0], time = o->dim[1], width = o->dim[2];
  tn_tensor x = input(f, o, name, array(numbers(time * heads * width, 1), TN_F32, time, heads * width));
  return tn_reshape(x, TN_SHAPE(time, heads, width));
}

static tn_tensor build_einsum(tn_function *f, OneOp *o) {
  int64_t heads = o->dim[0], time = o->dim[1];
  tn_tensor q = projected(f, o, "q"), k = projected(f, o, "k");
  o->out[0] = array(bench_block((size_t)(heads * time * time) * sizeof(float)), TN_F32, heads * time, time);
  return tn_reshape(tn_einsum("ihd,jhd->hij", TN_TENSORS(q, k)), TN_SHAPE(heads * time, time));
}

static size_t bytes_of(tn_dtype t) { return t == TN_I64 ? 8 : t == TN_I32 ? 4 : 1; }

static void *whole_numbers(tn_dtype t, int64_t n) {
  uint8_t *x = bench_block(bytes_of(t) * (size_t)n);
  int64_t *from = indices(n, t == TN_BOOL ? 2 : 100), at = 0;
  for (; at < n; at++) {
    int32_t low = (int32_t)from[at];
    memcpy(x + (size_t)at * bytes_of(t), t == TN_I64 ? (const void *)&from[at] : &low, bytes_of(t));
  }
  free(from);
  return x;
}

static tn_tensor build_reduction(tn_function *f, OneOp *o) {
  int64_t a = o->dim[0], b = o->dim[1];
  bool along_first = o->dim[2] == 0, keeps = !strncmp(o->op, "am", 2);
  tn_dtype type = keeps ? o->whole : o->op[1] == 'n' || o->op[1] == 'l' ? TN_BOOL : TN_I64;
  tn_tensor x = input(f, o, "x", array(whole_numbers(o->whole, a * b), o->whole, a, b));
  o->out[0] = array(bench_block(8 * (size_t)(a + b)), type, along_first ? 1 : a, along_first ? b : 1);
  return o->reduce(x, along_first ? 0 : 1, true, TN_SITE);
}

// The indices are handed out too: PyTorch makes them in any case.
static tn_tensor with_indices(tn_function *f, OneOp *o, tn_ordered both) {
  int64_t a = o->out[0].dims[0], b = o->out[0].dims[1];
  o->out[1] = array(bench_block((size_t)(a * b) * sizeof(int64_t)), TN_I64, a, b);
  o->n_out = 2;
  tn_output(f, "indices", both.indices);
  return both.values;
}

static tn_tensor build_axis(tn_function *f, OneOp *o) {
  int64_t a = o->dim[0], b = o->dim[1], n = o->dim[2] ? b : a;
  int axis = (int)o->dim[2];
  tn_tensor x = input(f, o, "x", array(numbers(a * b, 1), TN_F32, a, b));
  o->out[0] = array(bench_block((size_t)(a * (o->k ? o->k : b)) * sizeof(float)), TN_F32, a, o->k ? o->k : b);
  if (!strcmp(o->op, "sort")) return with_indices(f, o, tn_sort(x, axis, false));
  if (!strcmp(o->op, "topk")) return with_indices(f, o, tn_topk(x, o->k, axis, true));
  if (!strcmp(o->op, "cumsum")) return tn_cumsum(x, axis);
  tn_array at = by_slice(o) ? tn_array_of(indices(n, n), TN_I64, &n, 1) : array(indices(a * b, n), TN_I64, a, b);
  tn_tensor index = input(f, o, "i", at);
  if (!strcmp(o->op, "gather")) return tn_gather(x, axis, index);
  if (!strcmp(o->op, "index_select")) return tn_index_select(x, axis, index);
  tn_tensor zeros = tn_zeros(f, TN_SHAPE(a, b));
  return by_slice(o) ? tn_index_add(zeros, axis, index, x, 1) : tn_scatter_add(zeros, axis, index, x);
}

static void *open_op(Opening *how) {
  OneOp *o = calloc(1, sizeof *o);
  how->weights = NULL;
  if (!o || !parse_case(o, how->variant)) return free(o), NULL;
  tn_program *p = tn_program_create("ops");
  tn_function *f = tn_function_begin(p, "run");
  o->n_out = 1;
  tn_tensor y = is_bag(o)      ? build_bag(f, o)
                : is_einsum(o) ? build_einsum(f, o)
                : o->reduce    ? build_reduction(f, o)
                               : build_axis(f, o);
  tn_output(f, "y", y);
  tn_function_end(f);
  o->model = bench_compile(p, how);
  if (o->model) return o;
  close_op(o);
  return NULL;
}

static bool step(void *w) {
  OneOp *o = w;
  const tn_array swapped[] = {o->out[1], o->out[0]};  // outputs stand in the order of their calls
  return tn_run(o->model, "run", o->in, o->n_in, o->n_out == 2 ? swapped : o->out, o->n_out) == TN_OK;
}

static float as_float(const tn_array *a, size_t k) {
  int64_t wide = 0;
  int32_t narrow = 0;
  if (a->dtype == TN_I64) memcpy(&wide, (const int64_t *)a->data + k, sizeof wide);
  else memcpy(&narrow, (const uint8_t *)a->data + k * bytes_of(a->dtype), bytes_of(a->dtype));
  return (float)(wide + narrow);
}

static bool check(void *w, double *loss) {
  OneOp *o = w;
  bool ok = step(w);
  size_t n = (size_t)(o->out[0].dims[0] * o->out[0].dims[1]);
  float *x = o->out[0].dtype == TN_F32 ? NULL : bench_block(n * sizeof *x);
  for (size_t k = 0; x && k < n; k++) x[k] = as_float(&o->out[0], k);
  *loss = bench_checksum(x ? x : o->out[0].data, n);
  free(x);
  return ok;
}

static void limits(const char *variant, double *flops, double *bytes) {
  OneOp o = {0};
  *flops = 0;
  if (!parse_case(&o, variant)) return;
  if (is_bag(&o)) *bytes = 4.0 * (double)(o.dim[2] * o.dim[1] * (o.dim[3] + 1)) + 8.0 * (double)(o.dim[2] * o.dim[3]);
  else if (is_einsum(&o)) {
    double rows = (double)(o.dim[0] * o.dim[1]), width = (double)o.dim[2], time = (double)o.dim[1];
    *flops = 2 * rows * time * width, *bytes = 4 * rows * (2 * width + time);
  } else if (o.reduce) *bytes = (double)bytes_of(o.whole) * (double)(o.dim[0] * o.dim[1]);
  else *bytes = 8.0 * (double)(o.dim[0] * o.dim[1]) * (adds(&o) || !strcmp(o.op, "gather") ? 2 : 1);
}

const Workload bench_ops = {.name = "ops",
                            .what = "scans, order, gather and scatter, bags, einsum: OP SIZES AXIS",
                            .peer = "bench/peers/%s_ops.py",
                            .cases = cases,
                            .open = open_op,
                            .check = check,
                            .step = step,
                            .model = model,
                            .close = close_op,
                            .limits = limits};
