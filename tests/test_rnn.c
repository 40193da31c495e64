// Recurrent layers against PyTorch (tests/make_rnn_goldens.py): every kind, 1 to 3 layers, one and two directions, with
// and without bias, packed in decreasing and in other order of lengths, dense in both layouts. Outputs, final states
// and all gradients: the interpreter against the stored numbers, compiled code against the interpreter.
#include "frontend/graph/function.h"
#include "frontend/tenure.h"
#include "ir/interp/interpret.h"
#include "tests/check.h"
#include "tests/golden_file.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 5, TIME = 7, IN = 6, HIDDEN = 20, PROJ = 9, STORED = 5, MOST = 40, MOST_CASES = 12 };
#ifdef NDEBUG
enum { LAYERS_COMPILED = 3 };
#else
enum { LAYERS_COMPILED = 2 };  // a sanitizer build is several times slower
#endif
typedef enum { TANH, RELU, LSTM, GRU, LSTM_PROJECTED, N_KINDS } Kind;
typedef enum { SORTED, UNSORTED, DENSE, N_FORMS } Form;
// Functions of a case: packed, and dense in one layout: batch-first with bias, time-major without.
typedef enum { PACKED, BATCH_FIRST, TIME_MAJOR, N_WAYS } Way;
static const char *const kind_name[N_KINDS] = {"tanh", "relu", "lstm", "gru", "projected"};
static const char *const way_name[N_WAYS] = {"packed", "batch_first", "time_major"};
static const int64_t lengths[N_FORMS][BATCH] = {{7, 6, 6, 3, 1}, {3, 6, 1, 7, 6}, {7, 7, 7, 7, 7}};

// make_rnn_goldens.py's `number`
static double number(uint32_t seed, uint32_t i, double scale) {
  uint32_t u = seed * 0x9E3779B1u + i * 0x85EBCA77u;
  u = (u ^ u >> 15) * 0x2C1B3C6Du;
  u = (u ^ u >> 12) * 0x297A2D39u;
  u ^= u >> 15;
  return ((double)(u >> 8) / (1 << 23) - 1) * scale;
}

static float *numbers(uint32_t seed, size_t n, double scale) {
  float *v = malloc((n + 1) * sizeof *v);
  for (size_t k = 0; k < n; k++) v[k] = (float)number(seed, (uint32_t)k, scale);
  return v;
}

// ---- building
typedef struct {
  Kind kind;
  uint32_t layers, ways;
  bool bias;
  const char *name;
  tn_module *m;
  tn_function *f[N_WAYS];
} Case;

static int64_t state_size(const Case *c) { return c->kind == LSTM_PROJECTED ? PROJ : HIDDEN; }
static bool has_cell(const Case *c) { return c->kind == LSTM || c->kind == LSTM_PROJECTED; }

static tn_module *make_module(tn_module *root, const Case *c) {
  tn_rnn_options o = {
      .n_layers = c->layers, .bidirectional = c->ways == 2, .no_bias = !c->bias, .batch_first = c->bias};
  switch (c->kind) {
  case LSTM: return (tn_lstm)(root, c->name, IN, HIDDEN, o);
  case LSTM_PROJECTED: o.proj_size = PROJ; return (tn_lstm)(root, c->name, IN, HIDDEN, o);
  case GRU: return (tn_gru)(root, c->name, IN, HIDDEN, o);
  default: return (tn_rnn)(root, c->name, IN, HIDDEN, c->kind == RELU, o);
  }
}

static tn_tensor weighed(tn_tensor y, tn_tensor w) { return tn_sum(tn_mul(y, w)); }

static void output(tn_function *f, uint32_t *n, tn_tensor t) {
  char name[16];
  snprintf(name, sizeof name, "o%u", (*n)++);
  tn_output(f, name, t);
}

// Inputs: x, lengths (packed), h0, (c0), and what the outputs are weighed by in the loss.
static void build(Case *c, Way way, tn_program *p, tn_dim batch, tn_dim time) {
  char name[64];
  snprintf(name, sizeof name, "%s_%s", c->name, way_name[way]);
  bool time_major = way == TIME_MAJOR;
  tn_function *f = c->f[way] = tn_function_begin(p, name);
  int64_t width = state_size(c), n_states = c->layers * c->ways;
  tn_dim outer = time_major ? time : batch, inner = time_major ? batch : time, n = tn_dim_const(n_states);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(outer, inner, IN)), len = TN_NONE;
  if (way == PACKED) len = tn_input(f, "lengths", TN_I64, TN_SHAPE(batch));
  tn_rnn_state state = {.h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(n, batch, width))};
  if (has_cell(c)) state.c0 = tn_input(f, "c0", TN_F32, TN_SHAPE(n, batch, HIDDEN));
  tn_tensor wy = tn_input(f, "wy", TN_F32, TN_SHAPE(outer, inner, width * c->ways));
  tn_tensor wh = tn_input(f, "wh", TN_F32, TN_SHAPE(n, batch, width)), wc = TN_NONE;
  if (has_cell(c)) wc = tn_input(f, "wc", TN_F32, TN_SHAPE(n, batch, HIDDEN));
  tn_rnn_output r = way == PACKED ? tn_rnn_call(c->m, tn_pack_padded(x, len), .h0 = state.h0, .c0 = state.c0)
                                  : tn_rnn_call_dense(c->m, x, .h0 = state.h0, .c0 = state.c0);
  tn_tensor y = way == PACKED ? tn_pad_packed(r.out, 0, true) : r.dense;
  tn_tensor loss = tn_add(weighed(y, wy), weighed(r.hidden, wh));
  if (has_cell(c)) loss = tn_add(loss, weighed(r.cell, wc));
  tn_backward(loss);
  uint32_t k = 0;
  output(f, &k, y);
  output(f, &k, r.hidden);
  if (has_cell(c)) output(f, &k, r.cell);
  output(f, &k, tn_grad(loss, x));
  output(f, &k, tn_grad(loss, state.h0));
  if (has_cell(c)) output(f, &k, tn_grad(loss, state.c0));
  const char *path[MOST];
  uint32_t n_params = tn_named_parameters(c->m, TN_NAMES_UNIQUE, path, MOST);
  for (uint32_t j = 0; j < n_params; j++) output(f, &k, tn_param_grad(f, c->m, path[j]));
  tn_function_end(f);
}

// ---- running
typedef struct {
  tn_array in[8], out[MOST];
  float *buffer[8 + MOST];
  uint32_t n_in, n_out, n_buffers;
} Bound;

static float *keep(Bound *b, float *v) { return b->buffer[b->n_buffers++] = v; }

// [B, T, F] to [T, B, F]
static float *time_first(Bound *b, const float *v, int64_t width) {
  float *t = keep(b, malloc((size_t)(BATCH * TIME * width) * sizeof *t));
  for (int64_t i = 0; i < BATCH * TIME; i++)
    memcpy(t + (i % TIME * BATCH + i / TIME) * width, v + i * width, (size_t)width * sizeof *t);
  return t;
}

static void bind_padded(Bound *b, Way way, uint32_t seed, int64_t width) {
  float *v = keep(b, numbers(seed, (size_t)(BATCH * TIME * width), 1));
  if (way == TIME_MAJOR) b->in[b->n_in++] = tn_f32(time_first(b, v, width), TIME, BATCH, width);
  else b->in[b->n_in++] = tn_f32(v, BATCH, TIME, width);
}

static void bind_state(Bound *b, const Case *c, uint32_t seed, double scale, int64_t width) {
  int64_t n = c->layers * c->ways;
  b->in[b->n_in++] = tn_f32(keep(b, numbers(seed, (size_t)(n * BATCH * width), scale)), n, BATCH, width);
}

static void bind_out(Bound *b, const int64_t *dims, uint32_t rank) {
  size_t n = 1;
  for (uint32_t k = 0; k < rank; k++) n *= (size_t)dims[k];
  b->out[b->n_out++] = tn_array_of(keep(b, calloc(n, sizeof(float))), TN_F32, dims, rank);
}

static void bind(Bound *b, const Case *c, Way way, Form form) {
  int64_t width = state_size(c), n = c->layers * c->ways;
  bind_padded(b, way, 1, IN);
  if (way == PACKED) b->in[b->n_in++] = tn_i64(lengths[form], BATCH);
  bind_state(b, c, 2, 0.5, width);
  if (has_cell(c)) bind_state(b, c, 3, 0.5, HIDDEN);
  bind_padded(b, way, 4, width * c->ways);
  bind_state(b, c, 5, 1, width);
  if (has_cell(c)) bind_state(b, c, 6, 1, HIDDEN);
  const int64_t y[3] = {way == TIME_MAJOR ? TIME : BATCH, way == TIME_MAJOR ? BATCH : TIME, width * c->ways};
  const int64_t x[3] = {y[0], y[1], IN}, h[3] = {n, BATCH, width}, cell[3] = {n, BATCH, HIDDEN};
  bind_out(b, y, 3);
  bind_out(b, h, 3);
  if (has_cell(c)) bind_out(b, cell, 3);
  bind_out(b, x, 3);
  bind_out(b, h, 3);
  if (has_cell(c)) bind_out(b, cell, 3);
  tn_variable v[MOST];
  uint32_t n_params = tn_variables(c->m, NULL, v, MOST);
  for (uint32_t k = 0; k < n_params; k++) bind_out(b, v[k].dims, v[k].rank);
}

static size_t count(const tn_array *a) {
  size_t n = 1;
  for (uint32_t k = 0; k < a->rank; k++) n *= (size_t)a->dims[k];
  return n;
}

// The same run in doubles, by the IR that the kernels were made of.
static Tensor *interpret(const Case *c, Way way, tn_model *model, Bound *b, RtArena *mem) {
  Prog *p = c->f[way]->p->ir;
  InterpEnv env = {.mem = mem, .out = rt_alloc(mem, MOST * sizeof(Tensor))};
  Tensor *in = rt_alloc(mem, 8 * sizeof *in);
  for (uint32_t k = 0; k < b->n_in; k++) {
    in[k] = (Tensor){.v = rt_alloc(mem, count(&b->in[k]) * sizeof(double)), .n = (int64_t)count(&b->in[k])};
    for (int64_t i = 0; i < in[k].n; i++)
      in[k].v[i] = b->in[k].dtype == TN_I64 ? (double)((const int64_t *)b->in[k].data)[i]
                                            : (double)((const float *)b->in[k].data)[i];
  }
  env.in = in;
  env.params = rt_alloc(mem, p->n_params * sizeof *env.params);
  for (uint32_t k = 0; k < p->n_params; k++) {
    tn_array a = tn_param_at(model, k);
    env.params[k] = (Tensor){.v = rt_alloc(mem, count(&a) * sizeof(double)), .n = (int64_t)count(&a)};
    for (int64_t i = 0; i < env.params[k].n; i++) env.params[k].v[i] = (double)((const float *)a.data)[i];
  }
  env.slots = rt_alloc(mem, p->n_syms * sizeof *env.slots);
  env.slots[ir_dim_info(p, ir_dim_find(p, "batch"))->slot] = BATCH;
  env.slots[ir_dim_info(p, ir_dim_find(p, "time"))->slot] = TIME;
  RtText why = {.mem = mem};
  if (!CHECK(ir_interpret(c->f[way]->ir, &env, &why))) printf("  %s\n", why.text);
  return env.out;
}

// ---- comparing
// y and d x of the time-major function in the stored order.
static double at_stored(const Case *c, Way way, uint32_t k, const Tensor *t, int64_t i) {
  int64_t width = k == 0 ? state_size(c) * c->ways : IN, row = i / width;
  bool padded = k == 0 || k == (has_cell(c) ? 3u : 2u);
  if (way != TIME_MAJOR || !padded) return t->v[i];
  return t->v[(row % TIME * BATCH + row / TIME) * width + i % width];
}

static bool near_stored(const Case *c, Way way, uint32_t k, const Tensor *t, const double *want) {
  double most = 0, sum[2] = {0, 0}, n = sqrt((double)t->n);
  for (int64_t i = 0; i < t->n; i++) {
    double v = at_stored(c, way, k, t, i);
    most = fmax(most, fabs(v));
    for (uint32_t j = 0; j < 2; j++) sum[j] += v * number(1001 + j, (uint32_t)i, 1);
  }
  double e = 1e-7 * most;
  return fabs(most - want[0]) <= e && fabs(sum[0] - want[1]) <= e * n && fabs(sum[1] - want[2]) <= e * n &&
         fabs(at_stored(c, way, k, t, t->n / 3) - want[3]) <= e &&
         fabs(at_stored(c, way, k, t, 2 * t->n / 3) - want[4]) <= e;
}

static double worst;  // of all compiled results, relative to the largest magnitude of their tensor

static bool near_exact(const tn_array *a, const Tensor *t) {
  double most = 0, off = 0;
  for (int64_t i = 0; i < t->n; i++) {
    double e = fabs((double)((const float *)a->data)[i] - t->v[i]);
    most = fmax(most, fabs(t->v[i]));
    off = e > off || isnan(e) ? e : off;
  }
  if (off > worst * most) worst = off / most;
  return off <= 1e-5 * most;
}

static void run(const Case *c, Way way, Form form, tn_model *model, const double *want) {
  Bound b = {0};
  char name[64];
  snprintf(name, sizeof name, "%s_%s", c->name, way_name[way]);
  bind(&b, c, way, form);
  if (!CHECK(tn_run(model, name, b.in, b.n_in, b.out, b.n_out) == TN_OK)) printf("  %s\n", tn_error_text(model));
  RtArena *mem = rt_arena_new();
  const Tensor *exact = interpret(c, way, model, &b, mem);
  for (uint32_t k = 0; k < b.n_out; k++) {
    bool stored = CHECK(near_stored(c, way, k, &exact[k], want + k * STORED));
    if (!CHECK(near_exact(&b.out[k], &exact[k])) || !stored) printf("  %s, lengths %d, output %u\n", name, form, k);
  }
  rt_arena_free(mem);
  for (uint32_t k = 0; k < b.n_buffers; k++) free(b.buffer[k]);
}

static void set_params(const Case *c, tn_model *model) {
  tn_variable v[MOST];
  uint32_t n = tn_variables(c->m, NULL, v, MOST);
  for (uint32_t k = 0; k < n; k++) {
    char path[96];
    size_t size = (size_t)(v[k].dims[0] * (v[k].rank == 2 ? v[k].dims[1] : 1));
    float *values = numbers(10 + k, size, 0.25);
    snprintf(path, sizeof path, "%s.%s", c->name, v[k].path);
    CHECK(tn_set(model, path, values, size) == TN_OK);
    free(values);
  }
}

// Numbers of one case and form: as many tensors as its function has outputs.
static size_t n_stored(const Case *c) {
  return STORED *
         ((has_cell(c) ? 6 : 4) + (size_t)c->layers * c->ways * (2 + 2 * c->bias + (c->kind == LSTM_PROJECTED)));
}

// The next case of tests/rnn_goldens.txt
static const double *read_numbers(GoldenFile *g, const Case *c) {
  char *words, *line = golden_line(g);
  if (!line || !golden_is(line, "case", &words)) golden_fail(g, "no case begins");
  line = golden_line(g);
  if (!line || !golden_is(line, "stored", &words) || golden_count(g, &words) != n_stored(c))
    golden_fail(g, "another number of results");
  return golden_take(g, n_stored(c), sizeof(double));
}

static void check_kind(Kind kind, GoldenFile *g) {
  tn_program *p = tn_program_create(kind_name[kind]);
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH + 1), time = tn_dim_bounded(p, "time", TIME + 2);
  Case cases[MOST_CASES];
  char names[MOST_CASES][32];
  uint32_t n = 0;
  for (uint32_t layers = 1; layers <= 3; layers++)
    for (uint32_t ways = 1; ways <= 2; ways++)
      for (uint32_t bias = 0; bias <= 1; bias++, n++) {
        snprintf(names[n], sizeof names[n], "l%u_d%u_b%u", layers, ways, bias);
        cases[n] = (Case){.kind = kind, .layers = layers, .ways = ways, .bias = bias, .name = names[n]};
        if (layers > LAYERS_COMPILED) continue;
        cases[n].m = make_module(tn_root(p), &cases[n]);
        build(&cases[n], PACKED, p, batch, time);
        build(&cases[n], bias ? BATCH_FIRST : TIME_MAJOR, p, batch, time);
      }
  tn_model *model = model_of(p, .n_workers = 2);
  for (uint32_t k = 0; k < n && model; k++) {
    if (cases[k].m) set_params(&cases[k], model);
    for (Form form = 0; form < N_FORMS; form++) {
      const double *want = read_numbers(g, &cases[k]);
      if (!cases[k].m) continue;
      run(&cases[k], PACKED, form, model, want);
      if (form == DENSE) run(&cases[k], cases[k].bias ? BATCH_FIRST : TIME_MAJOR, form, model, want);
    }
  }
  tn_model_free(model);
  tn_program_free(p);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  GoldenFile g = golden_open(mem, "tests/rnn_goldens");
  for (Kind kind = 0; kind < N_KINDS; kind++) check_kind(kind, &g);
  golden_end(&g);
  rt_arena_free(mem);
  printf("largest error %.2g of its tensor's largest magnitude\n", worst);
  return check_report();
}
