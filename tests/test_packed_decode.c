// Sequences that are decoded side by side: the text of each is the same alone and in a batch, whichever slots it and the others
// have; logits are those of attention over the whole text; what does not fit is refused before anything is written.
#include "frontend/tenure.h"
#include "tests/bundle_so.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/report.h"

#include <stdlib.h>
#include <string.h>

enum {
  N_WORDS = 61,
  WIDE = 32,
  HEADS = 4,
  GROUPS = 2,
  SIZE = WIDE / HEADS,
  LAYERS = 2,
  STEPS = 560,
  SLOTS = 6,
  N = 32
};

// ---- the model: two layers of attention over packed rows, or over the slots of a run
typedef struct {
  tn_module *net, *slots;
  const tn_slot_run *run;  // NULL: whole texts
} Net;

static tn_tensor heads_of(tn_module *m, tn_tensor h, int64_t n) {
  return tn_reshape(tn_call(m, h), TN_SHAPE(tn_dim_of(h, 0), n, SIZE));
}

static tn_tensor layer(const Net *x, tn_module *m, tn_packed s, tn_tensor h) {
  tn_tensor g = tn_call(tn_child(m, "norm"), h);
  tn_tensor q = heads_of(tn_child(m, "q"), g, HEADS), k = heads_of(tn_child(m, "k"), g, GROUPS),
            v = heads_of(tn_child(m, "v"), g, GROUPS), y;
  if (x->run) y = tn_slot_attend(tn_child(m, "cache"), *x->run, q, k, v);
  else
    y = tn_packed_attention(tn_packed_with_data(s, q), tn_packed_with_data(s, k), tn_packed_with_data(s, v),
                            .causal = true)
            .data;
  y = tn_reshape(y, TN_SHAPE(tn_dim_of(h, 0), WIDE));
  return tn_add(h, tn_gelu_tanh(tn_call(tn_child(m, "out"), y)));
}

// [rows, WIDE]
static tn_tensor stream(const Net *x, tn_packed s, tn_tensor ids, tn_tensor steps) {
  tn_tensor h = tn_add(tn_call(tn_child(x->net, "words"), ids), tn_call(tn_child(x->net, "places"), steps));
  h = layer(x, tn_child(x->net, "a"), s, h);
  return layer(x, tn_child(x->net, "b"), s, h);
}

static tn_tensor head(const Net *x, tn_tensor h) { return tn_call(tn_child(x->net, "head"), h); }

static void make_layer(const Net *x, const char *name) {
  tn_module *m = tn_module_new(x->net, name);
  tn_layer_norm(m, "norm", TN_SHAPE(WIDE));
  tn_linear(m, "q", WIDE, WIDE), tn_linear(m, "k", WIDE, GROUPS * SIZE), tn_linear(m, "v", WIDE, GROUPS * SIZE);
  tn_linear(m, "out", WIDE, WIDE);
  tn_slot_cache(m, "cache", x->slots, GROUPS, SIZE);
}

static void sample(const Net *x, tn_tensor logits, tn_tensor seeds) {
  static const int64_t stop[] = {7, 11};
  tn_sampled next =
      tn_sample_tokens(logits, seeds, x->run->held, .temperature = 0.9, .top_k = 20, .top_p = 0.95,
                       .repetition_penalty = 1.2, .history = tn_slots_text(*x->run), .stop = stop, .n_stop = 2);
  tn_output(seeds.fn, "token", next.tokens), tn_output(seeds.fn, "stopped", next.stopped);
  tn_output(seeds.fn, "logits", logits);
}

static tn_program *build(void) {
  tn_program *p = tn_program_create("decode");
  Net x = {.net = tn_root(p), .slots = tn_slots(tn_root(p), "slots", SLOTS, STEPS)};
  tn_dim B = tn_dim_bounded(p, "batch", SLOTS), T = tn_dim_bounded(p, "time", STEPS);
  tn_embedding(x.net, "words", N_WORDS, WIDE), tn_embedding(x.net, "places", STEPS, WIDE);
  make_layer(&x, "a"), make_layer(&x, "b"), tn_linear(x.net, "head", WIDE, N_WORDS);

  tn_function *f = tn_function_begin(p, "prefill");
  tn_tensor where = tn_input(f, "where", TN_I64, TN_SHAPE(B)), seeds = tn_input(f, "seeds", TN_I64, TN_SHAPE(B));
  tn_tensor ids = tn_input(f, "ids", TN_I64, TN_SHAPE(B, T)), lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_slot_run run = (tn_slots_prefill)(x.slots, where, tn_pack_padded(ids, lengths, .allow_empty = true), at(21));
  x.run = &run;
  tn_packed h = tn_packed_with_data(run.rows, stream(&x, run.rows, run.ids, run.steps));
  sample(&x, head(&x, tn_packed_last(h)), seeds);
  tn_function_end(f);

  f = tn_function_begin(p, "step");
  where = tn_input(f, "where", TN_I64, TN_SHAPE(B)), seeds = tn_input(f, "seeds", TN_I64, TN_SHAPE(B));
  run = (tn_slots_step)(x.slots, where, tn_input(f, "ids", TN_I64, TN_SHAPE(B)), at(22));
  sample(&x, head(&x, stream(&x, run.rows, run.ids, run.steps)), seeds);
  tn_function_end(f);

  f = tn_function_begin(p, "copy");
  tn_tensor from = tn_input(f, "from", TN_I64, TN_SHAPE(B));
  (tn_slots_copy)(f, x.slots, from, tn_input(f, "to", TN_I64, TN_SHAPE(B)), at(23));
  tn_function_end(f);

  x.run = NULL;
  f = tn_function_begin(p, "whole");
  ids = tn_input(f, "ids", TN_I64, TN_SHAPE(B, T)), lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_packed s = tn_pack_padded(ids, lengths);
  tn_tensor last = tn_packed_last(tn_packed_with_data(s, stream(&x, s, s.data, tn_packed_steps(s).data)));
  tn_output(f, "logits", head(&x, last));
  tn_function_end(f);
  return p;
}

// ---- texts
typedef struct {
  int64_t text[STEPS], n, n_prompt, most, slot, seed, next;
  bool ended;
  float logits[STEPS][N_WORDS];  // behind each step from the prompt's last on
} Text;

static void begin(Text *t, int k) {
  *t = (Text){.n = 1 + (k * 29 + 4) % 57, .seed = 1000 + k, .most = k == 3 ? 0 : 2 + k * 13 % 37};
  if (k % 5 == 2) t->n = 500 - 12 * k;
  t->n_prompt = t->n;
  for (int64_t i = 0; i < t->n; i++) t->text[i] = (i * i + 3 * k) % N_WORDS;
}

// Takes what a run gave for each of n texts.
static void take(Text *const *t, int64_t n, const int64_t *token, const bool *stopped, const float (*logits)[N_WORDS]) {
  for (int64_t k = 0; k < n; k++) {
    Text *x = t[k];
    memcpy(x->logits[x->n - 1], logits[k], sizeof *logits);
    x->next = token[k];
    x->ended = stopped[k] || x->n == STEPS || x->n - x->n_prompt >= x->most;
  }
}

static tn_status prefill(tn_model *m, Text *const *t, int64_t n) {
  static int64_t ids[SLOTS][STEPS];
  int64_t where[SLOTS], seeds[SLOTS], lengths[SLOTS], token[SLOTS];
  bool stopped[SLOTS];
  float logits[SLOTS][N_WORDS];
  for (int64_t k = 0; k < n; k++) {
    where[k] = t[k]->slot, seeds[k] = t[k]->seed, lengths[k] = t[k]->n;
    memcpy(ids[k], t[k]->text, sizeof ids[k]);
  }
  tn_status s =
      tn_run(m, "prefill", TN_IN(tn_i64(where, n), tn_i64(seeds, n), tn_i64(&ids[0][0], n, STEPS), tn_i64(lengths, n)),
             TN_OUT(tn_i64(token, n), tn_bool(stopped, n), tn_f32(&logits[0][0], n, N_WORDS)));
  if (!s) take(t, n, token, stopped, logits);
  return s;
}

static tn_status step(tn_model *m, Text *const *t, int64_t n) {
  int64_t where[SLOTS], seeds[SLOTS], ids[SLOTS], token[SLOTS];
  bool stopped[SLOTS];
  float logits[SLOTS][N_WORDS];
  for (int64_t k = 0; k < n; k++) where[k] = t[k]->slot, seeds[k] = t[k]->seed, ids[k] = t[k]->next;
  tn_status s = tn_run(m, "step", TN_IN(tn_i64(where, n), tn_i64(seeds, n), tn_i64(ids, n)),
                       TN_OUT(tn_i64(token, n), tn_bool(stopped, n), tn_f32(&logits[0][0], n, N_WORDS)));
  if (s) return s;
  for (int64_t k = 0; k < n; k++) t[k]->text[t[k]->n++] = ids[k];
  take(t, n, token, stopped, logits);
  return s;
}

// All texts, as many at a time as there are slots: where one ends, the next takes its slot.
static void write_all(tn_model *m, Text *texts) {
  Text *running[SLOTS], *fresh[SLOTS];
  bool taken[SLOTS] = {false};
  int64_t n = 0;
  for (int next = 0; next < N || n;) {
    int64_t n_fresh = 0;
    for (int s = SLOTS - 1; s >= 0 && next < N; s--)
      if (!taken[s])
        taken[s] = true, begin(&texts[next], next), texts[next].slot = s, fresh[n_fresh++] = &texts[next++];
    if (n_fresh && !CHECK(!prefill(m, fresh, n_fresh))) puts(tn_error_text(m)), exit(1);
    for (int64_t k = 0; k < n_fresh; k++) running[n++] = fresh[k];
    int64_t left = 0;
    for (int64_t k = 0; k < n; k++)
      if (running[k]->ended) taken[running[k]->slot] = false;
      else running[left++] = running[k];
    n = left;
    if (n && !CHECK(!step(m, running, n))) puts(tn_error_text(m)), exit(1);
  }
}

static void write_alone(tn_model *m, Text *t, int k, int64_t slot) {
  begin(t, k), t->slot = slot;
  CHECK(!prefill(m, &t, 1));
  while (!t->ended && CHECK(!step(m, &t, 1))) {}
}

static bool same_text(const Text *a, const Text *b) {
  bool same = a->n == b->n && a->next == b->next && !memcmp(a->text, b->text, sizeof a->text);
  return same && !memcmp(a->logits[a->n_prompt - 1], b->logits[a->n_prompt - 1],
                         (size_t)(a->n - a->n_prompt + 1) * sizeof *a->logits);
}

static void compare(tn_model *m, const Text *texts) {
  static Text alone;
  int64_t written = 0;
  for (int k = 0; k < N; k++) {
    write_alone(m, &alone, k, (k * 5 + 1) % SLOTS);
    if (!CHECK(same_text(&texts[k], &alone))) printf("  text %d\n", k);
    written += texts[k].n - texts[k].n_prompt;
  }
  CHECK(written > 4 * N);  // texts went on
}

// Attention over the whole text at each step
static void compare_whole(tn_model *m, const Text *t) {
  float logits[N_WORDS];
  for (int64_t n = t->n_prompt; n <= t->n; n += 5) {
    CHECK(!tn_run(m, "whole", TN_IN(tn_i64(t->text, 1, STEPS), tn_i64(&n, 1)), TN_OUT(tn_f32(logits, 1, N_WORDS))));
    CHECK(all_near("logits", t->logits[n - 1], logits, N_WORDS, 1e-5));
  }
}

// ---- what is refused, and that nothing is written then
static void check_refused(tn_model *m) {
  static Text t[3];
  Text *all[] = {&t[0], &t[1], &t[2]};
  for (int k = 0; k < 3; k++) begin(&t[k], k + 4), t[k].slot = k;
  CHECK(!prefill(m, all, 3));
  t[2].slot = SLOTS;
  CHECK(step(m, all, 3) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "'where'");
  CHECK(prefill(m, all, 3) == TN_ERR_VALUE);
  t[2].slot = -1;
  CHECK(step(m, all, 3) == TN_ERR_VALUE);
  t[2].slot = 0;
  CHECK(step(m, all, 3) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "step: two sequences of user.c:22 have one slot");
  CHECK(prefill(m, all, 3) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "prefill: two sequences of user.c:21 have one slot");
  Text *one = &t[1];  // goes on as if nothing had been
  CHECK(!step(m, &one, 1) && !step(m, &one, 1));
  static Text alone;
  begin(&alone, 5), alone.slot = 4;
  Text *a = &alone;
  CHECK(!prefill(m, &a, 1) && !step(m, &a, 1) && !step(m, &a, 1));
  CHECK(same_text(&t[1], &alone));
  while (t[1].n < STEPS) CHECK(!step(m, &one, 1));
  Text *two[] = {&t[0], &t[1]};
  int64_t n = t[0].n;
  CHECK(step(m, two, 2) == TN_ERR_VALUE && t[0].n == n);
  CHECK_HAS(tn_error_text(m), "step: the slot of sequence 1 of user.c:22 is full: it holds 560 of at most 560 steps");
  begin(&alone, 4), alone.slot = 3;
  CHECK(!prefill(m, &a, 1) && !step(m, &a, 1) && !step(m, two, 1) && same_text(&t[0], &alone));
}

// No sequence at all, and prompts without a word
static void check_empty(tn_model *m) {
  static Text t[2], alone;
  Text *all[] = {&t[0], &t[1]}, *a = &alone;
  CHECK(!prefill(m, NULL, 0) && !step(m, NULL, 0));
  begin(&t[0], 9), begin(&t[1], 9), begin(&alone, 9);
  t[1].n = 0, alone.n = 0, t[0].slot = 1, t[1].slot = 2, alone.slot = 5;
  int64_t ids[2][STEPS] = {{0}}, where[] = {1, 2}, seeds[] = {0, 0}, lengths[] = {t[0].n, 0}, token[2];
  bool stopped[2];
  float logits[2][N_WORDS];
  memcpy(ids[0], t[0].text, sizeof ids[0]);
  CHECK(!tn_run(m, "prefill",
                TN_IN(tn_i64(where, 2), tn_i64(seeds, 2), tn_i64(&ids[0][0], 2, STEPS), tn_i64(lengths, 2)),
                TN_OUT(tn_i64(token, 2), tn_bool(stopped, 2), tn_f32(&logits[0][0], 2, N_WORDS))));
  t[0].next = t[1].next = alone.next = 5;
  for (int k = 0; k < 3; k++) CHECK(!step(m, all, 2));
  lengths[0] = 0, where[0] = 5;
  CHECK(!tn_run(m, "prefill",
                TN_IN(tn_i64(where, 1), tn_i64(seeds, 1), tn_i64(&ids[0][0], 1, STEPS), tn_i64(lengths, 1)),
                TN_OUT(tn_i64(token, 1), tn_bool(stopped, 1), tn_f32(&logits[0][0], 1, N_WORDS))));
  for (int k = 0; k < 3; k++) CHECK(!step(m, &a, 1));
  CHECK(t[1].n == 3 && !memcmp(t[1].text, alone.text, sizeof alone.text));
  CHECK(!memcmp(t[1].logits, alone.logits, 3 * sizeof *alone.logits));
}

// Copies go on as what they are copies of, and swap where they are said to.
static void check_copies(tn_model *m) {
  static Text t[4], was;
  Text *all[] = {&t[0], &t[1], &t[2], &t[3]};
  for (int k = 0; k < 2; k++) begin(&t[k], k + 11), t[k].slot = k;
  CHECK(!prefill(m, all, 2) && !step(m, all, 2));
  was = t[0];
  int64_t from[] = {1, 0, 0, 1}, to[] = {0, 1, 2, 4}, twice[] = {3, 3, 2, 4};
  CHECK(!tn_run(m, "copy", TN_IN(tn_i64(from, 4), tn_i64(to, 4)), TN_NO_OUT));
  CHECK(tn_run(m, "copy", TN_IN(tn_i64(from, 4), tn_i64(twice, 4)), TN_NO_OUT) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "copy: two sequences of user.c:23 have one slot");
  t[2] = t[0], t[3] = t[1], t[0].slot = 1, t[1].slot = 0, t[2].slot = 2, t[3].slot = 4;
  CHECK(!step(m, all, 4) && !step(m, all, 4));
  CHECK(same_text(&t[0], &t[2]) && same_text(&t[1], &t[3]) && !same_text(&t[0], &t[1]) && was.n + 2 == t[0].n);
}

// ---- modules: a stack of transformer layers whose attentions have caches, rotary positions of the rows
enum { SHORT = 12 };
static tn_tensor turned(tn_tensor h, tn_tensor steps) {
  tn_tensor x = tn_reshape(h, TN_SHAPE(tn_dim_of(h, 0), HEADS, SIZE));
  return tn_reshape(tn_rope(x, .heads_inside = true, .positions = steps, .most = SHORT),
                    TN_SHAPE(tn_dim_of(h, 0), WIDE));
}

static tn_model *modules(int64_t window) {
  tn_program *p = tn_program_create("modules");
  tn_module *net = tn_root(p), *words = tn_embedding(net, "words", N_WORDS, WIDE),
            *slots = tn_slots(net, "slots", 3, SHORT);
  tn_module *layers = tn_transformer_encoder(net, "layers", WIDE, HEADS, 2, .feedforward = 40, .norm_first = true);
  tn_slot_caches(layers, slots);
  tn_dim B = tn_dim_bounded(p, "batch", 3), T = tn_dim_bounded(p, "time", SHORT);
  tn_function *f = tn_function_begin(p, "prefill");
  tn_tensor where = tn_input(f, "where", TN_I64, TN_SHAPE(B)), ids = tn_input(f, "ids", TN_I64, TN_SHAPE(B, T));
  tn_slot_run run = tn_slots_prefill(slots, where, tn_pack_padded(ids, tn_input(f, "lengths", TN_I64, TN_SHAPE(B))));
  tn_tensor h = tn_encoder_call(layers, turned(tn_call(words, run.ids), run.steps), .slots = &run, .window = window);
  tn_output(f, "y", tn_packed_last(tn_packed_with_data(run.rows, h)));
  tn_function_end(f);
  f = tn_function_begin(p, "step");
  where = tn_input(f, "where", TN_I64, TN_SHAPE(B));
  run = tn_slots_step(slots, where, tn_input(f, "ids", TN_I64, TN_SHAPE(B)));
  tn_output(f, "y",
            tn_encoder_call(layers, turned(tn_call(words, run.ids), run.steps), .causal = true, .slots = &run,
                            .window = window));
  tn_function_end(f);
  f = tn_function_begin(p, "whole");
  ids = tn_input(f, "ids", TN_I64, TN_SHAPE(B, T));
  tn_packed s = tn_pack_padded(ids, tn_input(f, "lengths", TN_I64, TN_SHAPE(B)));
  h = tn_reshape(tn_call(words, s.data), TN_SHAPE(tn_dim_of(s.data, 0), HEADS, SIZE));
  h = tn_reshape(tn_rope(h, .heads_inside = true), TN_SHAPE(tn_dim_of(s.data, 0), WIDE));
  tn_output(f, "y",
            tn_packed_last(tn_packed_with_data(s, tn_encoder_call(layers, h, .causal = true, .window = window))));
  tn_function_end(f);
  return model_alone(p, .n_workers = 2);
}

static void check_modules(int64_t window) {
  int64_t ids[3][SHORT], lengths[3] = {2, 7, 4}, where[3] = {2, 0, 1}, next[3];
  float y[3][WIDE], whole[3][WIDE];
  tn_model *m = modules(window);
  if (!m) return;
  for (int k = 0; k < 3 * SHORT; k++) ids[k / SHORT][k % SHORT] = k * 17 % N_WORDS;
  const tn_array in[] = {tn_i64(&ids[0][0], 3, SHORT), tn_i64(lengths, 3)}, out[] = {tn_f32(&whole[0][0], 3, WIDE)};
  for (int t = 0; t < 4; t++) {
    tn_status s;
    for (int k = 0; k < 3; k++) next[k] = ids[k][lengths[k]];
    if (!t) s = tn_run(m, "prefill", TN_IN(tn_i64(where, 3), in[0], in[1]), TN_OUT(tn_f32(&y[0][0], 3, WIDE)));
    else s = tn_run(m, "step", TN_IN(tn_i64(where, 3), tn_i64(next, 3)), TN_OUT(tn_f32(&y[0][0], 3, WIDE)));
    for (int k = 0; t && k < 3; k++) lengths[k]++;
    if (!CHECK(!s)) puts(tn_error_text(m));
    CHECK(!tn_run(m, "whole", in, 2, out, 1) && all_near("rows", y[0], whole[0], 3 * WIDE, 1e-5));
  }
  tn_model_free(m);
}

// ---- a bundle
static void check_bundle(const Text *texts) {
  static Text of_bundle[N];
  char why[256] = "";
  BundleSo b = bundle_so_open(build, 3);
  tn_model *m =
      b.about ? tn_model_open_bundle(b.about, &(tn_open_options){.n_workers = 2, .seed = 3}, why, sizeof why) : NULL;
  if (CHECK(m)) {
    write_all(m, of_bundle);
    for (int k = 0; k < N; k++) CHECK(same_text(&texts[k], &of_bundle[k]));
    tn_model_free(m);
  } else puts(why);
  bundle_so_close(&b);
}

int main(void) {
  static Text texts[N], by_one[N];
  setenv("TN_GEMM", "own", 1);
  tn_model *m = model_alone(build(), .n_workers = 2, .seed = 3), *one = model_alone(build(), .n_workers = 1, .seed = 3);
  if (!m || !one) return 1;
  write_all(m, texts), write_all(one, by_one);
  for (int k = 0; k < N; k++) CHECK(same_text(&texts[k], &by_one[k]));
  compare(m, texts);
  for (int k = 0; k < N; k += 7) compare_whole(m, &texts[k]);
  check_refused(m), check_empty(m), check_copies(m);
  check_modules(0), check_modules(3);
  check_bundle(texts);
  tn_model_free(m), tn_model_free(one);
  return check_report();
}
