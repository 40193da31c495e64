// Training by any team gives the same bits, whether a recurrence cuts its work by units or by sequences
// (codegen/rnn/partition.c): every kind of layer, one and two directions, one and several blocks of units, with and without
// initial states; batches of many sequences, of few, of one, of equal lengths, with empty sequences behind the others.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 23, TIME = 21, IN = 5, PROJ = 9, MOST_FUNCTIONS = 16, N_BATCHES = 5 };
typedef enum { LSTM, LSTM_PROJECTED, GRU, TANH, N_KINDS } Kind;
static const char *const kind_name[N_KINDS] = {"lstm", "projected", "gru", "tanh"};

typedef struct {
  int64_t n, lengths[BATCH];
} Batch;

static const Batch batches[N_BATCHES] = {
    {23, {3, 21, 1, 7, 7, 7, 20, 2, 2, 9, 1, 1, 13, 5, 5, 4, 18, 21, 6, 1, 8, 8, 2}},
    {11, {21, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {9, {0, 4, 0, 21, 2, 2, 0, 6, 6}},
    {8, {6, 6, 6, 6, 6, 6, 6, 6}},
    {1, {21}}};

typedef struct {
  Kind kind;
  int64_t hidden;
  bool both_ways;
  char name[32];
} Layer;

typedef struct {
  tn_program *p;
  tn_dim batch, time;
  Layer layer[MOST_FUNCTIONS];
  uint32_t n;
} Suite;

// ---- building
static tn_module *make_module(tn_module *net, const Layer *l) {
  tn_rnn_options o = {.bidirectional = l->both_ways, .proj_size = l->kind == LSTM_PROJECTED ? PROJ : 0};
  switch (l->kind) {
  case GRU: return (tn_gru)(net, "r", IN, l->hidden, o);
  case TANH: return (tn_rnn)(net, "r", IN, l->hidden, false, o);
  default: return (tn_lstm)(net, "r", IN, l->hidden, o);
  }
}

static tn_tensor squares(tn_tensor x) { return tn_sum(tn_mul(x, x)); }

// A state from which every sequence starts: [D, B, width]
static tn_tensor learned(Suite *s, tn_function *f, tn_module *net, const char *name, tn_dim ways, int64_t width) {
  tn_parameter(net, name, TN_SHAPE(ways, 1, width), ((tn_init){TN_INIT_UNIFORM, -1, 1}));
  return tn_expand(tn_param_value(f, net, name), TN_SHAPE(ways, s->batch, width));
}

static void add_layer(Suite *s, Kind kind, int64_t hidden, bool both_ways, bool starts) {
  Layer *l = &s->layer[s->n++];
  *l = (Layer){.kind = kind, .hidden = hidden, .both_ways = both_ways};
  snprintf(l->name, sizeof l->name, "%s%d_%d%d", kind_name[kind], (int)hidden, both_ways, starts);
  tn_module *net = tn_module_at_path(tn_root(s->p), l->name), *m = make_module(net, l);
  tn_dim ways = tn_dim_const(1 + both_ways);
  tn_function *f = tn_function_begin(s->p, l->name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(s->batch, s->time, IN));
  tn_tensor len = tn_input(f, "lengths", TN_I64, TN_SHAPE(s->batch));
  tn_rnn_state state = {0};
  bool has_cell = kind <= LSTM_PROJECTED;
  if (starts) state.h0 = learned(s, f, net, "h0", ways, kind == LSTM_PROJECTED ? PROJ : hidden);
  if (starts && has_cell) state.c0 = learned(s, f, net, "c0", ways, hidden);
  tn_packed seq = tn_pack_padded(x, len, .allow_empty = true);
  tn_rnn_output r = tn_rnn_call(m, seq, .h0 = state.h0, .c0 = state.c0);
  tn_tensor loss = tn_add(squares(r.out.data), squares(r.hidden));
  if (has_cell) loss = tn_add(loss, squares(r.cell));
  tn_backward(loss);
  tn_sgd(f, net, .lr = 1e-3);
  tn_output(f, "loss", loss);
  tn_function_end(f);
}

static Suite build(void) {
  Suite s = {.p = tn_program_create("teams")};
  s.batch = tn_dim_bounded(s.p, "batch", BATCH), s.time = tn_dim_bounded(s.p, "time", TIME);
  for (Kind kind = 0; kind < N_KINDS; kind++)
    for (uint32_t both_ways = 0; both_ways <= 1; both_ways++) add_layer(&s, kind, 20, both_ways, both_ways == kind % 2);
  add_layer(&s, LSTM, 72, false, true);
  add_layer(&s, LSTM_PROJECTED, 32, true, true);  // like these two it projects its input itself (pass fuse_rnn_input)
  add_layer(&s, TANH, 48, true, true);
  return s;
}

// ---- running
// Losses of a step of every layer with every batch; then every parameter.
static void train(const Suite *s, tn_model *m, float *losses) {
  static float x[BATCH * TIME * IN];
  for (int k = 0; k < BATCH * TIME * IN; k++) x[k] = (float)((k * 7919) % 1000) / 500 - 1;
  for (uint32_t k = 0; k < s->n; k++)
    for (uint32_t j = 0; j < N_BATCHES; j++) {
      const Batch *b = &batches[j];
      int ok = tn_run(m, s->layer[k].name, TN_IN(tn_f32(x, b->n, TIME, IN), tn_i64(b->lengths, b->n)),
                      TN_OUT(tn_f32_scalar(&losses[k * N_BATCHES + j])));
      if (!CHECK(ok == TN_OK)) printf("  %s\n", tn_error_text(m));
    }
}

static size_t bytes_of(const tn_array *a) {
  size_t n = sizeof(float);
  for (uint32_t k = 0; k < a->rank; k++) n *= (size_t)a->dims[k];
  return n;
}

typedef struct {
  Suite s;
  tn_model *m;
  float losses[MOST_FUNCTIONS * N_BATCHES];
} Team;

static Team train_by(uint32_t workers) {
  Team t = {.s = build()};
  t.m = tn_compile(t.s.p, .n_workers = workers, .seed = 3);
  if (CHECK(t.m != NULL)) train(&t.s, t.m, t.losses);
  else tn_report(t.s.p, stdout);
  return t;
}

static void end(Team *t) {
  tn_model_free(t->m);
  tn_program_free(t->s.p);
}

static void compare(const Team *one, const Team *t, uint32_t workers) {
  for (uint32_t k = 0; k < t->s.n * N_BATCHES; k++)
    if (!CHECK(t->losses[k] == one->losses[k]))
      printf("  %s, batch %u, %u workers: %.9g, alone %.9g\n", t->s.layer[k / N_BATCHES].name, k % N_BATCHES, workers,
             t->losses[k], one->losses[k]);
  for (uint32_t k = 0;; k++) {
    tn_array a = tn_param_at(one->m, k), b = tn_param_at(t->m, k);
    if (!a.data) break;
    if (!CHECK(!memcmp(a.data, b.data, bytes_of(&a)))) printf("  parameter %u, %u workers\n", k, workers);
  }
}

int main(void) {
  static const uint32_t teams[] = {2, 3, 5, 8};
  Team one = train_by(1);
  for (uint32_t k = 0; one.m && k < sizeof teams / sizeof *teams; k++) {
    Team t = train_by(teams[k]);
    if (t.m) compare(&one, &t, teams[k]);
    end(&t);
  }
  end(&one);
  return check_report();
}
