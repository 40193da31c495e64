// packed_attention: attention of 64 packed sequences, 8 heads of 64, one call; training: and the gradients of q, k and v for a
// given gradient of the result. A case is LENGTHS PASS [causal]; the lengths are constants, as data.c makes them. Peers: a loop
// over the sequences, the padded batch with a mask, nested tensors.
#include "bench/bench.h"
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, SIZE = 64, WIDE = HEADS * SIZE, Q = 0, G = 3, N_IN = 4, N_OUT = 3 };

// clang-format off
static const char *const cases[] = {
    "lognormal forward", "lognormal training", "lognormal forward causal", "lognormal training causal",
    "uniform forward", "uniform training", "uniform forward causal", "uniform training causal",
    "long forward", "long training", "long forward causal", "long training causal",
    "equal forward", "equal training", "equal forward causal", "equal training causal", NULL};
// clang-format on

typedef struct {
  tn_model *model;
  char lengths[16], pass[16], order[16];
  bool trains, is_causal;
  int64_t n[BENCH_SEQUENCES], time, rows;
  int64_t row[BENCH_SEQUENCES];  // of each sequence's first step, one sequence behind the other
  float *dummy, *in[N_IN], *out[N_OUT];
} Attend;

static bool parse_case(Attend *a, const char *variant) {
  int n = sscanf(variant, "%15s %15s %15s", a->lengths, a->pass, a->order);
  a->trains = !strcmp(a->pass, "training"), a->is_causal = n == 3;
  if (n < 2 || !bench_lengths_of(a->lengths, a->n)) return false;
  a->time = a->rows = 0;
  for (int b = 0; b < BENCH_SEQUENCES; b++) {
    a->row[b] = a->rows, a->rows += a->n[b];
    if (a->n[b] > a->time) a->time = a->n[b];
  }
  return true;
}

// Peers have one sequence behind the other; packed rows stand by step, those of the longest sequence first.
static int64_t sequence_at(const Attend *a, int64_t position) {
  for (int64_t b = 0; b < BENCH_SEQUENCES; b++) {
    int64_t before = 0;
    for (int64_t k = 0; k < BENCH_SEQUENCES; k++) before += a->n[k] > a->n[b] || (a->n[k] == a->n[b] && k < b);
    if (before == position) return b;
  }
  return 0;
}

static void reorder(const Attend *a, float *by_step, float *by_sequence, bool to_steps) {
  int64_t order[BENCH_SEQUENCES];
  for (int64_t k = 0; k < BENCH_SEQUENCES; k++) order[k] = sequence_at(a, k);
  for (int64_t t = 0; t < a->time; t++)
    for (int64_t k = 0; k < BENCH_SEQUENCES && t < a->n[order[k]]; k++, by_step += WIDE) {
      float *row = by_sequence + (a->row[order[k]] + t) * WIDE;
      if (to_steps) memcpy(by_step, row, sizeof(float) * WIDE);
      else memcpy(row, by_step, sizeof(float) * WIDE);
    }
}

static void build(tn_function *f, const Attend *a) {
  static const char *const names[N_IN] = {"q", "k", "v", "g"}, *const gradients[N_OUT] = {"dq", "dk", "dv"};
  tn_packed s = tn_pack_constant(tn_input(f, "x", TN_F32, TN_SHAPE(BENCH_SEQUENCES, a->time)), a->n, BENCH_SEQUENCES);
  tn_packed in[N_IN];
  for (int k = 0; k < N_IN; k++)
    in[k] = tn_packed_with_data(s, tn_input(f, names[k], TN_F32, TN_SHAPE(a->rows, HEADS, SIZE)));
  tn_packed y = tn_packed_attention(in[0], in[1], in[2], .causal = a->is_causal);
  if (!a->trains) {
    tn_output(f, "y", y.data);
    return;
  }
  tn_tensor loss = tn_sum(tn_mul(y.data, in[G].data));
  for (int k = 0; k < N_OUT; k++) tn_output(f, gradients[k], tn_grad(loss, in[k].data));
}

static tn_model *model(void *w) { return ((Attend *)w)->model; }

static void close_attend(void *w) {
  Attend *a = w;
  tn_model_free(a->model);
  free(a->dummy);
  for (int k = 0; k < N_IN; k++) free(a->in[k]);
  for (int k = 0; k < N_OUT; k++) free(a->out[k]);
  free(a);
}

static void *open_attend(Opening *o) {
  Attend *a = calloc(1, sizeof *a);
  o->weights = NULL;
  if (!a || !parse_case(a, o->variant)) return free(a), NULL;
  tn_program *p = tn_program_create("packed_attention");
  tn_function *f = tn_function_begin(p, "run");
  build(f, a);
  tn_function_end(f);
  size_t n = (size_t)a->rows * WIDE;
  float *by_sequence = bench_block(4 * n);
  a->dummy = bench_block(sizeof(float) * (size_t)(BENCH_SEQUENCES * a->time));
  for (uint32_t k = 0; k < N_IN; k++) {
    a->in[k] = bench_block(4 * n);
    bench_floats(by_sequence, n, -2, 2, k + 1);
    reorder(a, a->in[k], by_sequence, true);
  }
  for (int k = 0; k < N_OUT; k++) a->out[k] = bench_block(4 * n);
  free(by_sequence);
  a->model = bench_compile(p, o);
  if (a->model) return a;
  close_attend(a);
  return NULL;
}

static bool step(void *w) {
  Attend *a = w;
  tn_array in[1 + N_IN] = {tn_f32(a->dummy, BENCH_SEQUENCES, a->time)}, out[N_OUT];
  for (int k = 0; k < N_IN; k++) in[1 + k] = tn_f32(a->in[k], a->rows, HEADS, SIZE);
  for (int k = 0; k < N_OUT; k++) out[k] = tn_f32(a->out[k], a->rows, HEADS, SIZE);
  return tn_run(a->model, "run", in, 1 + N_IN, out, a->trains ? N_OUT : 1) == TN_OK;
}

static bool check(void *w, double *loss) {
  Attend *a = w;
  size_t n = (size_t)a->rows * WIDE;
  float *by_sequence = bench_block(4 * n);
  bool ok = step(a);
  *loss = 0;
  for (int k = 0; k < (a->trains ? N_OUT : 1); k++) {
    reorder(a, a->out[k], by_sequence, false);
    *loss += bench_checksum(by_sequence, n);
  }
  free(by_sequence);
  return ok;
}

// Products: q k and p v; of the backward five of the same size.
static void limits(const char *variant, double *flops, double *bytes) {
  static Attend a;  // large
  *flops = *bytes = 0;
  if (!parse_case(&a, variant)) return;
  double pairs = 0;
  for (int b = 0; b < BENCH_SEQUENCES; b++) {
    double n = (double)a.n[b];
    pairs += a.is_causal ? n * (n + 1) / 2 : n * n;
  }
  *flops = (a.trains ? 7 : 2) * 2.0 * WIDE * pairs;
  *bytes = (a.trains ? 12 : 4) * 4.0 * WIDE * (double)a.rows;
}

static bool is_large(const char *variant) { return strncmp(variant, "lognormal", 9) != 0; }

const Workload bench_packed_attention = {.name = "packed_attention",
                                         .what =
                                             "attention of 64 packed sequences, 8 heads of 64: LENGTHS PASS [causal]",
                                         .peer = "bench/peers/%s_packed.py",
                                         .cases = cases,
                                         .by_sizes = true,
                                         .tolerance = 1e-4,
                                         .open = open_attend,
                                         .check = check,
                                         .step = step,
                                         .model = model,
                                         .close = close_attend,
                                         .limits = limits,
                                         .large = "long sequences",
                                         .is_large = is_large,
                                         .forms = PEER_SEQUENCES};
