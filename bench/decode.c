// decode_ragged: 32 prompts of 5 to 500 tokens go on side by side, in a GPT of 6 layers, 384 wide, 6 heads, vocabulary 8,192; the
// next tokens are sampled in the run. Cases: `prompts`, all of them in one run; `step`, one token of each behind its prompt, the
// first 64 ones in turn; `texts`, the prompts and 8 to 128 tokens of each, until the last has ended. What goes on is given, so
// that a peer finds the same logits. Peers: padded batches, and packed rows with a loop over the sequences for attention.
#include "bench/bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 32, LEAST = 5, LONGEST = 500, STEPS = 640, TURNS = 64, MOST = 128 };
enum { LAYERS = 6, WIDE = 384, HEADS = 6, SIZE = WIDE / HEADS, WORDS = 8192 };
static const char *const cases[] = {"prompts", "step", "texts", NULL};

typedef struct {
  tn_model *model;
  char what[8];
  int64_t n[N], tokens[N];                                            // lengths of prompts; how many go on
  int64_t *ids, more[MOST * N], slot[N], seeds[N], at, rows, out[N];  // rows: of the last run
  bool stopped[N];
  float *logits;
} Decode;

static void fill_lengths(int64_t n[N], int64_t tokens[N]) {
  for (uint32_t k = 0; k < N; k++) {
    n[k] = (int64_t)(LEAST * pow((double)LONGEST / LEAST, bench_number(k, 21)));
    tokens[k] = 8 + (int64_t)((MOST - 7) * bench_number(k, 22));
  }
  n[3] = LEAST, n[20] = LONGEST, tokens[7] = MOST;
}

// ---- the model
static void make_block(tn_module *net, const char *name, tn_module *slots) {
  tn_slot_cache(bench_gpt_block(net, name, WIDE), "cache", slots, HEADS, SIZE);
}

static tn_tensor block(tn_module *b, tn_slot_run run, tn_tensor x) {
  tn_dim rows = tn_dim_of(x, 0);
  tn_tensor qkv =
      tn_reshape(tn_call(tn_child(b, "qkv"), tn_call(tn_child(b, "l1"), x)), TN_SHAPE(rows, 3, HEADS, SIZE));
  tn_tensor part[3];
  for (int k = 0; k < 3; k++) part[k] = tn_reshape(tn_slice(qkv, 1, k, 1), TN_SHAPE(rows, HEADS, SIZE));
  tn_tensor y = tn_slot_attend(tn_child(b, "cache"), run, part[0], part[1], part[2]);
  x = tn_add(x, tn_call(tn_child(b, "p"), tn_reshape(y, TN_SHAPE(rows, WIDE))));
  tn_tensor h = tn_gelu(tn_call(tn_child(b, "f"), tn_call(tn_child(b, "l2"), x)));
  return tn_add(x, tn_call(tn_child(b, "g"), h));
}

static const char *const names[LAYERS] = {"b0", "b1", "b2", "b3", "b4", "b5"};

static void finish(tn_module *net, tn_slot_run run, tn_tensor seeds) {
  tn_function *f = seeds.fn;
  tn_tensor h = tn_add(tn_call(tn_child(net, "te"), run.ids), tn_call(tn_child(net, "pe"), run.steps));
  for (int k = 0; k < LAYERS; k++) h = block(tn_child(net, names[k]), run, h);
  if (run.rows.data.fn) h = tn_packed_last(tn_packed_with_data(run.rows, h));
  tn_tensor logits = tn_call(tn_child(net, "head"), tn_call(tn_child(net, "lf"), h));
  tn_sampled next = tn_sample_tokens(logits, seeds, run.held, .temperature = 0.8, .top_k = 40);
  tn_output(f, "logits", logits), tn_output(f, "tokens", next.tokens), tn_output(f, "stopped", next.stopped);
  tn_function_end(f);
}

static tn_program *build(void) {
  tn_program *p = tn_program_create("decode_ragged");
  tn_module *net = tn_root(p), *slots = tn_slots(net, "slots", N, STEPS);
  tn_embedding(net, "te", WORDS, WIDE), tn_embedding(net, "pe", STEPS, WIDE);
  for (int k = 0; k < LAYERS; k++) make_block(net, names[k], slots);
  tn_layer_norm(net, "lf", TN_SHAPE(WIDE)), tn_linear(net, "head", WIDE, WORDS, .no_bias = true);
  tn_dim B = tn_dim_bounded(p, "batch", N);
  tn_function *f = tn_function_begin(p, "prompts");
  tn_tensor slot = tn_input(f, "slot", TN_I64, TN_SHAPE(B)), seeds = tn_input(f, "seeds", TN_I64, TN_SHAPE(B));
  tn_tensor ids = tn_input(f, "ids", TN_I64, TN_SHAPE(B, LONGEST)), n = tn_input(f, "n", TN_I64, TN_SHAPE(B));
  finish(net, tn_slots_prefill(slots, slot, tn_pack_padded(ids, n)), seeds);
  f = tn_function_begin(p, "step");
  slot = tn_input(f, "slot", TN_I64, TN_SHAPE(B)), seeds = tn_input(f, "seeds", TN_I64, TN_SHAPE(B));
  finish(net, tn_slots_step(slots, slot, tn_input(f, "ids", TN_I64, TN_SHAPE(B))), seeds);
  return p;
}

// ---- runs
static bool run(Decode *d, const char *function, const tn_array *in, uint32_t n_in, int64_t n) {
  d->rows = n;
  return tn_run(d->model, function, in, n_in,
                TN_OUT(tn_f32(d->logits, n, WORDS), tn_i64(d->out, n), tn_bool(d->stopped, n))) == TN_OK;
}

static bool prompts(Decode *d) {
  for (int64_t k = 0; k < N; k++) d->slot[k] = d->seeds[k] = k;
  const tn_array in[] = {tn_i64(d->slot, N), tn_i64(d->seeds, N), tn_i64(d->ids, N, LONGEST), tn_i64(d->n, N)};
  d->at = 0;
  return run(d, "prompts", in, 4, N);
}

// One token of each sequence, or of those that have more of their own
static bool go_on(Decode *d, const int64_t *tokens) {
  int64_t ids[N], n = 0;
  for (int64_t k = 0; k < N; k++)
    if (!tokens || d->at < tokens[k]) d->slot[n] = d->seeds[n] = k, ids[n++] = d->more[d->at * N + k];
  const tn_array in[] = {tn_i64(d->slot, n), tn_i64(d->seeds, n), tn_i64(ids, n)};
  d->at++;
  return run(d, "step", in, 3, n);
}

static bool step(void *w) {
  Decode *d = w;
  if (!strcmp(d->what, "prompts")) return prompts(d);
  if (!strcmp(d->what, "step")) return (d->at < TURNS || prompts(d)) && go_on(d, NULL);
  bool ok = prompts(d);
  while (ok && d->at < MOST) ok = go_on(d, d->tokens);
  return ok;
}

static bool check(void *w, double *loss) {
  Decode *d = w;
  bool ok = prompts(d), all = !strcmp(d->what, "step");
  if (all || !strcmp(d->what, "texts"))
    for (int k = 0; ok && k < (all ? 3 : 9); k++) ok = go_on(d, all ? NULL : d->tokens);
  *loss = bench_checksum(d->logits, (size_t)(d->rows * WORDS));
  return ok;
}

static tn_model *model(void *w) { return ((Decode *)w)->model; }

static void close_decode(void *w) {
  Decode *d = w;
  tn_model_free(d->model);
  free(d->ids), free(d->logits), free(d);
}

static void *open_decode(Opening *o) {
  Decode *d = calloc(1, sizeof *d);
  snprintf(d->what, sizeof d->what, "%s", o->variant);
  fill_lengths(d->n, d->tokens);
  d->ids = malloc(N * LONGEST * sizeof *d->ids), d->logits = malloc(sizeof *d->logits * N * WORDS);
  bench_integers(d->ids, N * LONGEST, WORDS, 1), bench_integers(d->more, MOST * N, WORDS, 2);
  d->at = TURNS;
  d->model = bench_compile(build(), o);
  if (d->model) return d;
  close_decode(d);
  return NULL;
}

// Weights and keys and values once for a run; products of rows with weights, and of queries with the keys that they see.
static void limits(const char *variant, double *flops, double *bytes) {
  const double weights = 12.0 * LAYERS * WIDE * WIDE, head = (double)WORDS * WIDE, wide = LAYERS * WIDE;
  int64_t n[N], tokens[N];
  fill_lengths(n, tokens);
  bool begins = strcmp(variant, "step") != 0;
  *flops = *bytes = 0;
  for (int k = 0; k < N; k++) {
    double steps = (double)n[k];
    if (begins) *flops += 2 * (weights * steps + head) + 4 * wide * steps * (steps + 1) / 2, *bytes += 8 * wide * steps;
    int64_t most = !strcmp(variant, "texts") ? tokens[k] : !begins;
    for (int64_t t = 0; t < most; t++) {
      double held = steps + 1 + (double)t;
      *flops += 2 * (weights + head) + 4 * wide * held, *bytes += 8 * wide * held;
    }
  }
  *bytes += 4 * (weights + head) * (!strcmp(variant, "texts") ? 1 + MOST : 1);
}

const Workload bench_decode_ragged = {
    .name = "decode_ragged",
    .what = "32 sequences of a GPT go on behind prompts of 5 to 500 tokens: prompts, step, texts",
    .peer = "bench/peers/%s_decode.py",
    .cases = cases,
    .tolerance = 1e-4,
    .open = open_decode,
    .check = check,
    .step = step,
    .model = model,
    .close = close_decode,
    .bandwidth = &bench_reading,
    .limits = limits,
    .forms = PEER_SEQUENCES,
};
