// Gradients of gradients of recurrences, attention over packed rows and transformer layers in compiled code, against PyTorch's of each
// sequence alone (second_grad_sequences.txt, by make_second_grad_sequences.py): sizes of the run below their bounds, one worker or two.
#include "frontend/tenure.h"
#include "tests/case_numbers.h"
#include "tests/check.h"
#include "tests/golden_file.h"
#include "tests/models.h"
#include "tests/sample.h"

#include <math.h>
#include <string.h>

enum { MAX_VALUES = 32, MAX_NUMBERS = 24, MAX_RANK_HERE = 4 };

// m, an input, or a parameter; x: its numbers, m has none; v: dm/dx
typedef struct {
  const char *name;
  int64_t dims[MAX_RANK_HERE];
  uint32_t rank;
  uint32_t n;
  const double *expected;
  float *x, *found;
  tn_tensor v;
} Value;

typedef struct {
  const char *kind, *cell;
  int64_t number[MAX_NUMBERS];  // then lengths
  uint32_t n_numbers;
  Value value[MAX_VALUES];
  uint32_t n_values;
  // while it is built
  tn_program *p;
  tn_function *f;
  const int64_t *length[2];  // of x, or of queries and keys
  uint32_t n_lengths, batch;
  tn_tensor lengths[2];
  tn_dim axis[3];  // the batch, steps of each
} Case;

static Value *value_of(Case *c, const char *name) {
  for (uint32_t k = 0; k < c->n_values; k++)
    if (!strcmp(c->value[k].name, name)) return &c->value[k];
  return NULL;
}

static tn_tensor sines(tn_tensor x) { return tn_sum(tn_sin(x)); }

// ---- inputs: the batch and the steps have names. `steps`: which axis of c, by axis of the value; 0: a constant
static tn_tensor input(Case *c, const char *name, const int *axes) {
  Value *v = value_of(c, name);
  if (!v) return TN_NONE;
  tn_dim d[MAX_RANK_HERE];
  for (uint32_t k = 0; k < v->rank; k++) d[k] = axes[k] < 0 ? tn_dim_const(v->dims[k]) : c->axis[axes[k]];
  return v->v = tn_input(c->f, name, TN_F32, tn_shape_of(d, v->rank));
}

// n layouts; the numbers from `from` on are their lengths.
static void make_layouts(Case *c, uint32_t from, uint32_t n, const int64_t steps[2]) {
  static const char *const names[] = {"lengths", "key_lengths"}, *const of_steps[] = {"time", "keys"};
  c->batch = (c->n_numbers - from) / n, c->n_lengths = n;
  c->axis[0] = tn_dim_bounded(c->p, "batch", c->batch + 2);
  for (uint32_t k = 0; k < n; k++) {
    c->length[k] = c->number + from + k * c->batch;
    c->axis[1 + k] = tn_dim_bounded(c->p, of_steps[k], steps[k] + 3);
    c->lengths[k] = tn_input(c->f, names[k], TN_I64, TN_SHAPE(c->axis[0]));
  }
  if (n == 1) c->axis[2] = c->axis[1], c->lengths[1] = c->lengths[0];
}

static tn_packed packed(const Case *c, tn_tensor x, uint32_t layout) {
  return tn_pack_padded(x, c->lengths[layout], .allow_empty = true);
}

// ---- kinds of cases
static tn_tensor recurrence(Case *c) {
  enum { LAYERS, BOTH, PROJ, BIAS, STATES, DENSE, SIZE, HIDDEN, STEPS, LENGTHS };
  static const int of_x[] = {0, 1, -1}, of_state[] = {-1, 0, -1};
  const int64_t *o = c->number;
  tn_rnn_options options = {.bidirectional = o[BOTH],
                            .no_bias = !o[BIAS],
                            .n_layers = (uint32_t)o[LAYERS],
                            .batch_first = true,
                            .proj_size = o[PROJ],
                            .at = TN_SITE};
  tn_module *m, *root = tn_root(c->p);
  if (!strcmp(c->cell, "lstm")) m = (tn_lstm)(root, "m", o[SIZE], o[HIDDEN], options);
  else if (!strcmp(c->cell, "gru")) m = (tn_gru)(root, "m", o[SIZE], o[HIDDEN], options);
  else m = (tn_rnn)(root, "m", o[SIZE], o[HIDDEN], !strcmp(c->cell, "relu"), options);
  make_layouts(c, LENGTHS, 1, o + STEPS);
  tn_tensor x = input(c, "x", of_x), h0 = input(c, "h0", of_state), c0 = input(c, "c0", of_state);
  tn_rnn_output r =
      o[DENSE] ? tn_rnn_call_dense(m, x, .h0 = h0, .c0 = c0) : tn_rnn_call(m, packed(c, x, 0), .h0 = h0, .c0 = c0);
  tn_tensor l = tn_add(sines(o[DENSE] ? r.dense : r.out.data), sines(r.hidden));
  return r.cell.fn ? tn_add(l, sines(r.cell)) : l;
}

static tn_tensor attention(Case *c) {
  enum { CROSS, CAUSAL, WINDOW, BIAS, WEIGHTS, HEADS, KEY_HEADS, SIZE, STEPS, KEY_STEPS, LENGTHS };
  static const int of_q[] = {0, 1, -1, -1}, of_k[] = {0, 2, -1, -1}, of_bias[] = {0, -1, 1, 2};
  const int64_t *o = c->number;
  make_layouts(c, LENGTHS, o[CROSS] ? 2 : 1, o + STEPS);
  tn_packed q = packed(c, input(c, "q", of_q), 0), k = packed(c, input(c, "k", of_k), 1);
  tn_packed v = packed(c, input(c, "v", of_k), 1);
  tn_tensor weights = TN_NONE, bias = input(c, "bias", of_bias);
  tn_packed y = tn_packed_attention(q, k, v, .causal = o[CAUSAL], .window = o[WINDOW], .bias = bias,
                                    .weights = o[WEIGHTS] ? &weights : NULL);
  return o[WEIGHTS] ? tn_add(sines(y.data), sines(weights)) : sines(y.data);
}

static tn_tensor encoder(Case *c) {
  enum { FIRST, HEADS, FEEDFORWARD, SIZE, STEPS, LENGTHS };
  static const int of_x[] = {0, 1, -1};
  const int64_t *o = c->number;
  make_layouts(c, LENGTHS, 1, o + STEPS);
  tn_module *m = tn_transformer_encoder_layer(tn_root(c->p), "m", o[SIZE], o[HEADS], .feedforward = o[FEEDFORWARD],
                                              .norm_first = o[FIRST]);
  return sines(tn_packed_call(m, packed(c, input(c, "x", of_x), 0)).data);
}

static const struct {
  const char *name;
  tn_tensor (*build)(Case *c);
} kinds[] = {{"recurrence", recurrence}, {"attention", attention}, {"encoder", encoder}};

// ---- a case
static tn_tensor build(Case *c) {
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (!strcmp(kinds[k].name, c->kind)) return kinds[k].build(c);
  printf("%s: no such kind of case\n", c->kind);
  exit(1);
}

static void build_gradients(Case *c) {
  c->f = tn_function_begin(c->p, "f");
  tn_tensor l = build(c), m = TN_NONE;
  for (uint32_t k = 1; k < c->n_values; k++) {
    Value *v = &c->value[k];
    if (!v->v.fn) v->v = tn_param_value(c->f, tn_root(c->p), v->name);
    tn_tensor s = sines(tn_grad(l, v->v));
    m = m.fn ? tn_add(m, s) : s;
  }
  tn_output(c->f, "m", m);
  for (uint32_t k = 1; k < c->n_values; k++) {
    char name[16];
    snprintf(name, sizeof name, "d%u", k);
    tn_output(c->f, name, tn_grad(m, c->value[k].v));
  }
  tn_function_end(c->f);
}

static void check_near(const Case *c, const Value *v) {
  double scale = 1;
  for (uint32_t k = 0; k < v->n; k++) scale = fmax(scale, fabs(v->expected[k]));
  for (uint32_t k = 0; k < v->n; k++)
    if (!CHECK(fabs(v->found[k] - v->expected[k]) <= 2e-5 * scale))
      printf("  %s %s, %s [%u]: %g, not %g\n", c->kind, c->cell, v->name, k, v->found[k], v->expected[k]);
}

static bool is_parameter(const Value *v) { return !strncmp(v->name, "m.", 2); }

static void run_case(const Case *c, tn_model *model) {
  tn_array in[MAX_VALUES], out[MAX_VALUES];
  uint32_t n_in = 0;
  const int64_t batch = c->batch;
  for (uint32_t k = 0; k < c->n_lengths; k++) in[n_in++] = tn_array_of(c->length[k], TN_I64, &batch, 1);
  for (uint32_t k = 0; k < c->n_values; k++) {
    const Value *v = &c->value[k];
    if (k && is_parameter(v)) CHECK(!tn_set(model, v->name, v->x, (size_t)v->n));
    else if (k) in[n_in++] = tn_array_of(v->x, TN_F32, v->dims, v->rank);
    out[k] = tn_array_of(v->found, TN_F32, v->dims, v->rank);
  }
  if (!CHECK(!tn_run(model, "f", in, n_in, out, c->n_values))) return;
  for (uint32_t k = 0; k < c->n_values; k++) check_near(c, &c->value[k]);
}

static void test_case(Case *c, uint32_t workers) {
  c->p = tn_program_create(c->kind);
  build_gradients(c);
  tn_model *model = model_alone(c->p, .n_workers = workers);
  if (!model) return;
  run_case(c, model);
  run_case(c, model);  // nothing is left of the first run
  tn_model_free(model);
}

// ---- dropout: packed rows have the mask of the padded sequences, in both backwards
enum { N_SEQUENCES = 3, N_STEPS = 5, N_HEADS = 2, HEAD_SIZE = 3, N_X = N_SEQUENCES * N_STEPS * N_HEADS * HEAD_SIZE };

static void with_dropout(bool is_packed, double p, float d[N_X]) {
  const int64_t steps[N_SEQUENCES] = {5, 2, 4};
  tn_program *program = tn_program_create("dropout");
  tn_function *f = tn_function_begin(program, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(N_SEQUENCES, N_STEPS, N_HEADS, HEAD_SIZE)), y;
  tn_tensor exists = tn_input(f, "exists", TN_F32, TN_SHAPE(N_SEQUENCES, N_STEPS, 1, 1));
  if (is_packed) {
    tn_packed s = tn_pack_constant(x, steps, N_SEQUENCES);
    y = tn_pad_packed(tn_packed_attention(s, s, s, .dropout = p), 0, true);
  } else {
    tn_tensor lengths = tn_constant_i64(f, steps, TN_SHAPE(N_SEQUENCES));
    y = tn_scaled_dot_product_attention(x, x, x, .lengths = lengths, .dropout = p, .heads_inside = true);
  }
  tn_tensor m = sines(tn_grad(sines(tn_mul(y, exists)), x));
  tn_output(f, "d", tn_grad(m, x));
  tn_function_end(f);
  tn_model *model = model_alone(program, .n_workers = 1);
  float xs[N_X], mask[N_SEQUENCES * N_STEPS];
  for (uint32_t k = 0; k < N_X; k++) xs[k] = (float)case_normal(k, 1);
  for (int k = 0; k < N_SEQUENCES * N_STEPS; k++) mask[k] = k % N_STEPS < steps[k / N_STEPS];
  tn_array in[] = {tn_f32(xs, N_SEQUENCES, N_STEPS, N_HEADS, HEAD_SIZE), tn_f32(mask, N_SEQUENCES, N_STEPS, 1, 1)};
  tn_array out[] = {tn_f32(d, N_SEQUENCES, N_STEPS, N_HEADS, HEAD_SIZE)};
  if (model) CHECK(!tn_run(model, "f", in, 2, out, 1));
  tn_model_free(model);
}

static void test_dropout(void) {
  float rows[N_X] = {0}, padded[N_X] = {0}, without[N_X] = {0};
  with_dropout(true, 0.4, rows), with_dropout(false, 0.4, padded), with_dropout(true, 0, without);
  bool drops = false;
  for (int k = 0; k < N_X; k++) {
    CHECK(fabsf(rows[k] - padded[k]) <= 2e-5f * fmaxf(1, fabsf(padded[k])));
    drops |= fabsf(rows[k] - without[k]) > 0.1f;
  }
  CHECK(drops);
}

// ---- the file
static void read_case(const GoldenFile *g, char *words, Case *c) {
  *c = (Case){.kind = words, .cell = ""};
  words += strcspn(words, " ");
  *words++ = 0;
  if (*words >= 'a') {
    c->cell = words;
    words += strcspn(words, " ");
    *words++ = 0;
  }
  while (*words) {
    if (c->n_numbers == MAX_NUMBERS) golden_fail(g, "too many numbers");
    c->number[c->n_numbers++] = (int64_t)golden_number(g, &words);
  }
}

static void read_value(GoldenFile *g, char *words, Case *c) {
  static const double scales[] = {
      ['x'] = 2, ['q'] = 3, ['k'] = 3, ['v'] = 3, ['b'] = 2, ['h'] = 1, ['c'] = 1, ['m'] = 1};
  if (c->n_values == MAX_VALUES) golden_fail(g, "too many values");
  uint32_t seed = c->n_values++;
  Value *v = &c->value[seed];
  *v = (Value){.name = words, .n = 1};
  words += strcspn(words, " ");
  if (*words) *words++ = 0;
  for (; *words && v->rank < MAX_RANK_HERE; v->rank++) v->n *= v->dims[v->rank] = golden_count(g, &words);
  v->expected = golden_take(g, v->n, sizeof(double));
  v->x = rt_alloc(g->mem, v->n * sizeof *v->x), v->found = rt_alloc(g->mem, v->n * sizeof *v->found);
  for (uint32_t k = 0; k < v->n; k++) v->x[k] = (float)((case_unit(k, seed) - 0.5) * scales[(int)v->name[0]]);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  GoldenFile g = golden_open(mem, "tests/second_grad_sequences");
  Case c = {0};
  uint32_t n = 0;
  bool is_wanted = false;  // the case that is being read: one that is unlike the one before, or drawn
  char *words;
  for (char *line = golden_line(&g); line; line = golden_line(&g)) {
    if (golden_is(line, "value", &words)) {
      read_value(&g, words, &c);
      continue;
    }
    if (!golden_is(line, "case", &words)) golden_fail(&g, "an unknown line");
    if (is_wanted) test_case(&c, 1 + n % 2);
    Case before = c;
    read_case(&g, words, &c);
    bool is_alike = n && !strcmp(c.kind, before.kind) && !strcmp(c.cell, before.cell);
    is_wanted = !is_alike || is_sampled(n, 2);
    n++;
  }
  if (is_wanted) test_case(&c, 1 + n % 2);
  golden_end(&g);
  CHECK(n == 19);
  test_dropout();
  rt_arena_free(mem);
  return check_report();
}
