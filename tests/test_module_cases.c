// Modules against PyTorch: the cases of tests/module_cases.def, with the results that tests/make_module_cases.py wrote
// to tests/module_cases.txt and .bin. Each is built twice, with constant sizes and with a first axis of a run-time size;
// what was trained is saved and loaded into another instance; a bundle of the code gives the same bits.
#include "tests/bundle_case.h"
#include "tests/case_numbers.h"
#include "tests/golden_file.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_INPUTS = 4, MAX_ENTRIES = 64, N_PHASES = 3, N_DRAWS = 200, MAX_PARTS = 256 };
typedef struct {
  int64_t limit;  // of an index; 0: f32
  uint32_t rank;
  int64_t dims[TN_MAX_RANK];
} CaseInput;
typedef struct {
  const char *name, *key;
  tn_module *(*make)(tn_module *net);
  tn_tensor (*call)(tn_function *f, tn_module *m, tn_tensor a, tn_tensor b, tn_tensor c, tn_tensor d);
  uint32_t n_inputs;
  CaseInput inputs[MAX_INPUTS];
} Case;
typedef struct {
  double mean, deviation, most;
} Drawn;
typedef struct {
  const char *key, *names;  // of the state_dict, by commas
  uint32_t n_params, rank, n_parts;
  int64_t dims[TN_MAX_RANK];
  Drawn drawn[MAX_ENTRIES];
  const float *parts[MAX_PARTS];  // for each phase y, gradients of f32 inputs, of parameters; then the buffers
} Result;

// The children of lists and sequences need no names.
static tn_module *sequential(tn_module *net) {
  tn_module *m = tn_sequential(net, "m");
  tn_linear(m, NULL, 4, 6), tn_batch_norm(m, NULL, 6), tn_activation(m, NULL, "tanh"), tn_linear(m, NULL, 6, 2);
  CHECK(tn_n_children(m) == 4 && tn_child_at(m, -1) == tn_child(m, "3") && !tn_child_at(m, 4));
  return m;
}

// Lengths, which are 1 at least.
static tn_tensor one_more(tn_tensor n) { return tn_cast(tn_add_scalar(tn_cast(n, TN_F32), 1), TN_I64); }

// Which of 5 keys 3 queries see; what is added to their scores
static tn_tensor not_one_of_three(tn_function *f) {
  return tn_constant_of(f, TN_BOOL, (const uint8_t[]){1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1}, TN_SHAPE(3, 5));
}
static tn_tensor quarters(tn_function *f) { return tn_constant(f, (const float[]){0, 0.25f, 0.5f}, TN_SHAPE(3, 1)); }

// Attention's result and, behind it along the last axis, its weights: their mean over heads, or those of each head
static tn_tensor averaged(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v) {
  tn_tensor weights, y = tn_attention_call(m, q, k, v, .weights = &weights, .average_weights = true);
  return tn_concat(-1, TN_TENSORS(y, weights));
}
static tn_tensor of_heads_by(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o) {
  tn_tensor weights, y;
  o.weights = &weights, o.at = TN_SITE;
  y = (tn_attention_call)(m, q, k, v, o);
  return tn_concat(-1, TN_TENSORS(y, tn_select_index(weights, 1, 0), tn_select_index(weights, 1, 1)));
}
#define of_heads(m, q, k, v, ...) of_heads_by(m, q, k, v, (tn_attention_options){__VA_ARGS__})

#define INTS(limit, ...)                                               \
  {                                                                    \
    limit, sizeof((const int64_t[]){__VA_ARGS__}) / 8, { __VA_ARGS__ } \
  }
#define NORMAL(...) INTS(0, __VA_ARGS__)
#define UNUSED __attribute__((unused))
#define MODULE_CASE(name, torch, torch_call, make, call, ...)                                        \
  static tn_module *make_##name(tn_module *net) { return make; }                                     \
  static tn_tensor call_##name(UNUSED tn_function *f, tn_module *m, tn_tensor a, UNUSED tn_tensor b, \
                               UNUSED tn_tensor c, UNUSED tn_tensor d) {                             \
    return call;                                                                                     \
  }
#include "tests/module_cases.def"
#include "tests/near.h"
#undef MODULE_CASE
#define MODULE_CASE(name, torch, torch_call, make, call, ...)    \
  {#name,                                                        \
   torch " | " #__VA_ARGS__,                                     \
   make_##name,                                                  \
   call_##name,                                                  \
   sizeof((const CaseInput[]){__VA_ARGS__}) / sizeof(CaseInput), \
   {__VA_ARGS__}},
static const Case cases[] = {
#include "tests/module_cases.def"
};

// ---- results: `names`, `drawn` of each parameter, `shape` of y, `parts`: so many elements of each
static Result *results;
static uint32_t n_results;

static void read_line(GoldenFile *g, Result *r, char *line) {
  char *words;
  if (golden_is(line, "names", &words)) r->names = words;
  else if (golden_is(line, "shape", &words))
    while (*words && r->rank < TN_MAX_RANK) r->dims[r->rank++] = golden_count(g, &words);
  else if (r->n_params < MAX_ENTRIES && golden_is(line, "drawn", &words)) {
    double mean = golden_number(g, &words), deviation = golden_number(g, &words);
    r->drawn[r->n_params++] = (Drawn){mean, deviation, golden_number(g, &words)};
  } else if (golden_is(line, "parts", &words))
    while (*words && r->n_parts < MAX_PARTS)
      r->parts[r->n_parts++] = golden_take(g, golden_count(g, &words), sizeof(float));
  else golden_fail(g, "an unknown line, or too many");
}

static void read_results(RtArena *mem) {
  GoldenFile g = golden_open(mem, "tests/module_cases");
  uint32_t cap = 0;
  char *words;
  for (char *line = golden_line(&g); line; line = golden_line(&g)) {
    if (golden_is(line, "case", &words)) {
      RT_PUSH(mem, results, n_results, cap);
      results[n_results - 1] = (Result){.key = words};
    } else if (n_results) read_line(&g, &results[n_results - 1], line);
    else golden_fail(&g, "no case begins");
  }
  golden_end(&g);
}

static const Result *result_of(const Case *c) { return golden_find(results, n_results, sizeof *results, c->key); }

// ---- the program: functions "train" and "eval"
typedef struct {
  const Case *c;
  const Result *result;
  bool is_bounded;
  tn_program *p;
  tn_module *m;
  tn_model *model;
} Trial;

static size_t count_of(uint32_t rank, const int64_t *dims) {
  size_t n = 1;
  for (uint32_t d = 0; d < rank; d++) n *= (size_t)dims[d];
  return n;
}

static tn_shape shape_of(const Trial *t, const CaseInput *in) {
  tn_dim d[TN_MAX_RANK];
  for (uint32_t k = 0; k < in->rank; k++) d[k] = tn_dim_const(in->dims[k]);
  if (t->is_bounded && in->dims[0] == t->c->inputs[0].dims[0]) d[0] = tn_dim_bounded(t->p, "n", in->dims[0] + 3);
  return tn_shape_of(d, in->rank);
}

static const char *const input_names[MAX_INPUTS] = {"a", "b", "c", "d"};

static void put_gradients(const Trial *t, tn_function *f, tn_tensor y, const tn_tensor *in) {
  tn_dim d[TN_MAX_RANK];
  for (uint32_t k = 0; k < tn_rank(y); k++) d[k] = tn_dim_of(y, (int)k);
  tn_tensor w = tn_input(f, "w", TN_F32, tn_shape_of(d, tn_rank(y)));
  tn_tensor loss = tn_sum(tn_mul(y, w));
  char name[16];
  for (uint32_t k = 0; k < t->c->n_inputs; k++) {
    snprintf(name, sizeof name, "d%s", input_names[k]);
    if (!t->c->inputs[k].limit) tn_output(f, name, tn_grad(loss, in[k]));
  }
  if (!t->result->n_params) return;
  const char *paths[MAX_ENTRIES];
  tn_backward(loss);
  tn_named_parameters(t->m, TN_NAMES_UNIQUE, paths, MAX_ENTRIES);
  for (uint32_t k = 0; k < t->result->n_params; k++) {
    snprintf(name, sizeof name, "d%u", k);
    tn_output(f, name, tn_param_grad(f, t->m, paths[k]));
  }
}

static void build_function(const Trial *t, bool is_training) {
  tn_function *f = tn_function_begin(t->p, is_training ? "train" : "eval");
  tn_tensor in[MAX_INPUTS] = {{0}};
  tn_eval(f, !is_training);
  for (uint32_t k = 0; k < t->c->n_inputs; k++) {
    const CaseInput *i = &t->c->inputs[k];
    in[k] = tn_input(f, input_names[k], i->limit ? TN_I64 : TN_F32, shape_of(t, i));
    if (!i->limit) tn_set_requires_grad(in[k], true);
  }
  tn_tensor y = t->c->call(f, t->m, in[0], in[1], in[2], in[3]);
  tn_output(f, "y", y);
  put_gradients(t, f, y, in);
  tn_function_end(f);
}

static void check_names(const Trial *t) {
  const char *names[MAX_ENTRIES];
  char text[4096] = "";
  uint32_t n = tn_named_parameters(t->m, TN_NAMES_STATE_DICT, names, MAX_ENTRIES);
  for (uint32_t k = 0; k < n; k++) {
    if (k) strcat(text, ",");
    strcat(text, names[k]);
  }
  if (!CHECK(!strcmp(text, t->result->names))) printf("  %s: %s\n  PyTorch: %s\n", t->c->name, text, t->result->names);
}

// ---- running
static tn_array array_of(const CaseInput *in, uint32_t seed) {
  size_t n = count_of(in->rank, in->dims);
  tn_array a = tn_array_of(calloc(n + 1, 8), in->limit ? TN_I64 : TN_F32, in->dims, in->rank);
  for (size_t k = 0; k < n; k++) {
    if (in->limit) ((int64_t *)a.data)[k] = case_bits((uint32_t)k, seed) % in->limit;
    else ((float *)a.data)[k] = (float)case_normal((uint32_t)k, seed);
  }
  return a;
}

static tn_array empty_like(tn_array a) {
  return tn_array_of(calloc(1 + count_of(a.rank, a.dims), 8), TN_F32, a.dims, a.rank);
}

static void compare(const Trial *t, const char *what, tn_array got, const float *want) {
  size_t n = count_of(got.rank, got.dims);
  for (size_t k = 0; k < n; k++) {
    double x = got.dtype == TN_I64 ? (double)((int64_t *)got.data)[k] : (double)((float *)got.data)[k];
    if (CHECK(is_near(x, (double)want[k], 1e-5))) continue;
    printf("  %s%s, %s[%zu] is %.9g, PyTorch's %.9g\n", t->c->name, t->is_bounded ? " of a run-time size" : "", what, k,
           x, (double)want[k]);
    return;
  }
}

static tn_array param_at(const Trial *t, const char *path) {
  char whole[256];
  snprintf(whole, sizeof whole, "m.%s", path);
  for (uint32_t k = 0; k < tn_param_count(t->model); k++)
    if (!strcmp(tn_param_path(t->model, k), whole)) return tn_param_at(t->model, k);
  printf("  %s: no entry '%s'\n", t->c->name, path);
  return (tn_array){0};
}

// What one call takes and gives
typedef struct {
  tn_array in[MAX_INPUTS + 1], out[1 + MAX_INPUTS + MAX_ENTRIES];
  uint32_t n_in, n_out;
} Io;

static Io io_of(const Trial *t, uint32_t phase) {
  Io io = {.n_in = t->c->n_inputs, .n_out = 1};
  const char *names[MAX_ENTRIES];
  for (uint32_t k = 0; k < io.n_in; k++) {
    io.in[k] = array_of(&t->c->inputs[k], k + (phase == 1 ? 10 : 0));
    if (!t->c->inputs[k].limit) io.out[io.n_out++] = empty_like(io.in[k]);
  }
  const Result *r = t->result;
  CaseInput like_y = {.rank = r->rank};
  memcpy(like_y.dims, r->dims, sizeof like_y.dims);
  tn_array *w = &io.in[io.n_in++];
  *w = array_of(&like_y, 0);
  for (size_t k = 0; k < count_of(w->rank, w->dims); k++) ((float *)w->data)[k] = 1 + 0.25f * (float)(k % 5);
  io.out[0] = empty_like(*w);
  tn_named_parameters(t->m, TN_NAMES_UNIQUE, names, MAX_ENTRIES);
  for (uint32_t k = 0; k < r->n_params; k++) io.out[io.n_out++] = empty_like(param_at(t, names[k]));
  return io;
}

static void free_io(Io *io) {
  for (uint32_t k = 0; k < io->n_in; k++) free(io->in[k].data);
  for (uint32_t k = 0; k < io->n_out; k++) free(io->out[k].data);
}

static void run(const Trial *t, const char *function, Io *io) {
  if (!CHECK(tn_run(t->model, function, io->in, io->n_in, io->out, io->n_out) == TN_OK))
    printf("  %s: %s\n", t->c->name, tn_error_text(t->model));
}

// Gives the number of parts compared.
static uint32_t check_phase(const Trial *t, uint32_t phase, const float *const *parts) {
  Io io = io_of(t, phase);
  run(t, phase < 2 ? "train" : "eval", &io);
  for (uint32_t k = 0; k < io.n_out; k++) {
    char what[64];
    snprintf(what, sizeof what, "phase %u, result %u", phase, k);
    compare(t, what, io.out[k], parts[k]);
  }
  free_io(&io);
  return io.n_out;
}

static void set_parameters(const Trial *t) {
  const char *names[MAX_ENTRIES];
  uint32_t n = tn_named_parameters(t->m, TN_NAMES_UNIQUE, names, MAX_ENTRIES);
  CHECK(n == t->result->n_params);
  for (uint32_t k = 0; k < n; k++) {
    tn_array a = param_at(t, names[k]);
    for (size_t i = 0; i < count_of(a.rank, a.dims); i++)
      ((float *)a.data)[i] = (float)(case_normal((uint32_t)i, 100 + k) / 2);
  }
}

static void check_buffers(const Trial *t, const float *const *want) {
  const char *names[MAX_ENTRIES];
  uint32_t n = tn_named_parameters(t->m, TN_NAMES_STATE_DICT, names, MAX_ENTRIES), found = 0;
  for (uint32_t k = 0; k < n; k++) {
    bool is_buffer = strstr(names[k], "running_") || strstr(names[k], "num_batches");
    if (is_buffer) compare(t, names[k], param_at(t, names[k]), want[found++]);
  }
  CHECK(found == n - t->result->n_params);
  CHECK(want + found == t->result->parts + t->result->n_parts);
}

static bool same_bits(tn_array a, tn_array b) {
  return !memcmp(a.data, b.data, count_of(a.rank, a.dims) * sizeof(float));
}

// What was trained goes to another instance by a file, and gives the same bits there.
static void check_saved(const Trial *t) {
  Trial other = *t;
  Io here = io_of(t, 2), there = io_of(t, 2);
  char path[64];
  snprintf(path, sizeof path, "module_case_%s.safetensors", t->c->name);
  other.model = tn_instance(t->model, 5);
  CHECK(tn_save(t->model, path, false) == TN_OK);
  if (!CHECK(tn_load(other.model, path, false) == TN_OK)) printf("  %s\n", tn_error_text(other.model));
  run(t, "eval", &here);
  run(&other, "eval", &there);
  CHECK(same_bits(here.out[0], there.out[0]));
  free_io(&here), free_io(&there);
  tn_model_free(other.model);
  remove(path);
}

// A call of the bundle made of the same code: the same results and state, bit for bit.
static void check_bundled(const Trial *t, RtArena *mem) {
  TnBundle b = case_bundle(mem, t->model, "net");
  void *state = case_state(&b, 1);
  CHECK(tn_initialize(t->model, 1) == TN_OK);
  for (uint32_t listed = 0; listed < 2; listed++) {
    Io here = io_of(t, listed), there = io_of(t, listed);
    void *in[MAX_INPUTS + 1], *out[1 + MAX_INPUTS + MAX_ENTRIES];
    for (uint32_t k = 0; k < there.n_in; k++) in[k] = there.in[k].data;
    for (uint32_t k = 0; k < there.n_out; k++) out[k] = there.out[k].data;
    size_t bytes = b.about->functions[listed].arena_bytes;
    void *arena = case_block(bytes);
    run(t, listed ? "eval" : "train", &here);
    CHECK(!tn_bundle_call(&b, cg_bundle_function(b.about->plans[0], listed), listed, state, arena, bytes, in, out));
    for (uint32_t k = 0; k < here.n_out; k++) CHECK(same_bits(here.out[k], there.out[k]));
    CHECK(case_same(&b, state, t->model));
    free(arena), free_io(&here), free_io(&there);
  }
  free(state);
}

// ---- first values
static void check_drawn(const Trial *t, const char *name, const Drawn *want) {
  double sum = 0, square = 0, most = 0, n = 0;
  for (uint64_t seed = 0; seed < N_DRAWS; seed++) {
    CHECK(tn_initialize(t->model, seed) == TN_OK);
    tn_array a = param_at(t, name);
    for (size_t k = 0; k < count_of(a.rank, a.dims); k++, n++) {
      double x = (double)((float *)a.data)[k];
      sum += x, square += x * x, most = fmax(most, fabs(x));
    }
  }
  double mean = sum / n, deviation = sqrt(fmax(0, square / n - mean * mean)), few = 6 / sqrt(n);
  bool good = fabs(mean - want->mean) <= few * want->deviation + 1e-6;
  good &= fabs(deviation - want->deviation) <= few * want->deviation + 1e-6;
  good &= fabs(most - want->most) <= 0.35 * want->most;
  if (CHECK(good)) return;
  printf("  %s: %s begins with %g +- %g below %g, PyTorch's with %g +- %g below %g\n", t->c->name, name, mean,
         deviation, most, want->mean, want->deviation, want->most);
}

static void check_first_values(const Trial *t) {
  const char *names[MAX_ENTRIES];
  uint32_t n = tn_named_parameters(t->m, TN_NAMES_UNIQUE, names, MAX_ENTRIES);
  for (uint32_t k = 0; k < n; k++) check_drawn(t, names[k], &t->result->drawn[k]);
}

static void check_compiled(const Trial *t, RtArena *mem) {
  if (t->is_bounded) check_first_values(t);
  CHECK(tn_initialize(t->model, 1) == TN_OK);
  set_parameters(t);
  const float *const *parts = t->result->parts;
  for (uint32_t phase = 0; phase < N_PHASES; phase++) parts += check_phase(t, phase, parts);
  check_buffers(t, parts);
  check_saved(t);
  if (!t->is_bounded && !getenv("TN_CHECK")) check_bundled(t, mem);  // bundles have no guarded arena
}

static void check_case(const Case *c, bool is_bounded, RtArena *mem) {
  Trial t = {c, result_of(c), is_bounded, tn_program_create(c->name), NULL, NULL};
  if (!CHECK(t.result)) {
    printf("  %s: no result: tests/make_module_cases.py makes them\n", c->name);
    return;
  }
  t.m = c->make(tn_root(t.p));
  check_names(&t);
  build_function(&t, true);
  build_function(&t, false);
  t.model = tn_compile(t.p, .n_workers = 2, .cache_dir = "", .no_packed_weights = true);
  if (CHECK(t.model)) check_compiled(&t, mem);
  tn_model_free(t.model);
  tn_program_free(t.p);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  read_results(mem);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    if (is_sampled(2 * k, 2)) check_case(&cases[k], false, mem);
    if (is_sampled(2 * k + 1, 2)) check_case(&cases[k], true, mem);
  }
  rt_arena_free(mem);
  return check_report();
}
