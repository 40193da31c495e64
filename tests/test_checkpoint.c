// tn_checkpoint: what calls of a module compute is computed again for the backward. Training has the same bits with and without, and
// what runs again is what was asked for; by calls, from text, from bundles, within a limit.
#include "tests/bundle_so.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

enum { LAYERS = 4, ROWS = 64, WIDTH = 48, HEADS = 4 };

typedef enum {
  PLAIN,
  EACH,
  OUTER,
  NESTED,
  SHARED,
  SHARED_EACH,
  ATTENTION,
  ATTENTION_EACH,
  PACKED,
  PACKED_EACH,
  N_KINDS
} Kind;

typedef struct {
  float loss[3];
  tn_plan plan;
} Trained;

// Each layer: two products, a norm, gelu and dropout, which draws numbers
static tn_module *layer(tn_module *m, const char *name) {
  tn_module *s = tn_sequential(m, name);
  tn_linear(s, "up", WIDTH, 2 * WIDTH), tn_activation(s, "act", "gelu"), tn_dropout_module(s, "drop", 0.1);
  tn_linear(s, "down", 2 * WIDTH, WIDTH), tn_layer_norm(s, "norm", TN_SHAPE(WIDTH));
  return s;
}

static tn_module *stack(tn_program *p, Kind kind) {
  tn_module *all = tn_sequential(tn_root(p), "all"), *of[LAYERS];
  for (uint32_t k = 0; k < LAYERS; k++) {
    char name[8];
    snprintf(name, sizeof name, "l%u", k);
    of[k] = layer(all, name);
    if (kind == EACH || kind == NESTED) tn_checkpoint(of[k]);
  }
  if (kind == OUTER || kind == NESTED) tn_checkpoint(all);
  return all;
}

static tn_tensor by_shared(tn_program *p, tn_tensor x, Kind kind) {
  tn_module *one = layer(tn_root(p), "one");
  if (kind == SHARED_EACH) tn_checkpoint(one);
  for (uint32_t k = 0; k < LAYERS; k++) x = tn_add(x, tn_call(one, x));
  return x;
}

static tn_tensor by_attention(tn_program *p, tn_tensor x, Kind kind) {
  tn_module *enc = tn_transformer_encoder(tn_root(p), "enc", WIDTH, HEADS, LAYERS, .dropout = 0.1);
  for (int k = 0; k < LAYERS; k++)
    if (kind == ATTENTION_EACH) tn_checkpoint(tn_child_at(tn_child(enc, "layers"), k));
  return tn_reshape(tn_call(enc, tn_reshape(x, TN_SHAPE(ROWS / 8, 8, WIDTH))), TN_SHAPE(ROWS, WIDTH));
}

static tn_tensor by_packed(tn_program *p, tn_tensor x, Kind kind) {
  tn_module *lstm = tn_lstm(tn_root(p), "lstm", WIDTH, WIDTH), *top = stack(p, kind == PACKED_EACH ? EACH : PLAIN);
  if (kind == PACKED_EACH) tn_checkpoint(lstm);
  const int64_t lengths[] = {16, 9, 16, 3};
  tn_packed s = tn_pack_constant(tn_reshape(x, TN_SHAPE(4, 16, WIDTH)), lengths, 4);
  return tn_packed_call(top, tn_rnn_call(lstm, s).out).data;
}

static tn_program *network(Kind kind) {
  tn_program *p = tn_program_create("deep");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, WIDTH)), y;
  x = tn_call(tn_linear(tn_root(p), "first", WIDTH, WIDTH), x);
  if (kind >= PACKED) y = by_packed(p, x, kind);
  else if (kind >= ATTENTION) y = by_attention(p, x, kind);
  else if (kind >= SHARED) y = by_shared(p, x, kind);
  else y = tn_call(stack(p, kind), x);
  tn_tensor loss = tn_mean(tn_square(y));
  tn_backward(loss);
  tn_adamw(f, tn_root(p), .lr = 1e-3);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return p;
}

static bool run(tn_program *p, size_t limit, uint32_t workers, Trained *out) {
  tn_model *m = tn_compile(p, .cache_dir = model_cache_dir(), .n_workers = workers, .seed = 3, .arena_limit = limit,
                           .recompute = limit ? TN_RECOMPUTE_AUTO : TN_RECOMPUTE_OFF);
  static float x[ROWS * WIDTH];
  for (uint32_t k = 0; k < ROWS * WIDTH; k++) x[k] = (float)(k % 17) / 8 - 1;
  bool good = m && !tn_plan_of(m, "step", &out->plan);
  for (uint32_t k = 0; good && k < 3; k++)
    good = !tn_run(m, "step", TN_IN(tn_f32(x, ROWS, WIDTH)), TN_OUT(tn_f32_scalar(&out->loss[k])));
  tn_model_free(m), tn_program_free(p);
  return good;
}

static bool has_bits(const Trained *a, const Trained *b) { return !memcmp(a->loss, b->loss, sizeof a->loss); }

// Without a limit and with one worker: kept from the first call.
static Trained trained(Kind kind, size_t limit, uint32_t workers) {
  static Trained kept[N_KINDS];
  if (!limit && workers == 1 && kept[kind].plan.peak_bytes) return kept[kind];
  Trained t = {0};
  if (!CHECK(run(network(kind), limit, workers, &t))) printf("kind %d, limit %zu\n", kind, limit);
  if (!limit && workers == 1) kept[kind] = t;
  return t;
}

// Without what runs again: the same bits. Within a limit that the checkpoints alone do not keep something runs again, too; how much
// depends on what the CPU's products take beside their results.
static void test_bits(void) {
  static const Kind pair[][2] = {
      {PLAIN, EACH},        {PLAIN, OUTER}, {PLAIN, NESTED}, {SHARED, SHARED_EACH}, {ATTENTION, ATTENTION_EACH},
      {PACKED, PACKED_EACH}};
  for (size_t k = 0; k < sizeof pair / sizeof *pair; k++) {
    Trained all = trained(pair[k][0], 0, 1), less = trained(pair[k][1], 0, 1), two = trained(pair[k][1], 0, 2);
    printf("%d: arena %lld -> %lld, %u kernels run again\n", pair[k][1], (long long)all.plan.peak_bytes,
           (long long)less.plan.peak_bytes, less.plan.n_again);
    CHECK(!all.plan.n_again && less.plan.n_again && less.plan.again_flops > 0);
    CHECK(has_bits(&all, &less) && has_bits(&all, &two));
    CHECK(two.plan.n_again == less.plan.n_again);
    size_t limit = (size_t)less.plan.peak_bytes / 100 * 95;
    Trained limited = trained(pair[k][1], limit, 2);
    CHECK(has_bits(&all, &limited) && (size_t)limited.plan.peak_bytes <= limit);
    CHECK(limited.plan.n_again > 0);
  }
}

// The values of a layer are gone between its forward and its backward; a checkpoint of all layers keeps what one backward needs, and
// with one of each within it only that of one layer is there at a time.
static void test_peaks(void) {
  Trained all = trained(PLAIN, 0, 1), each = trained(EACH, 0, 1), outer = trained(OUTER, 0, 1),
          nested = trained(NESTED, 0, 1);
  CHECK(each.plan.peak_bytes < all.plan.peak_bytes * 7 / 10);
  CHECK(nested.plan.peak_bytes < outer.plan.peak_bytes * 7 / 10);
  CHECK(nested.plan.n_again > outer.plan.n_again && nested.plan.again_flops > each.plan.again_flops);
  Trained shared = trained(SHARED, 0, 1), shared_each = trained(SHARED_EACH, 0, 1);
  CHECK(shared_each.plan.peak_bytes < shared.plan.peak_bytes * 7 / 10);
  // each call keeps its input: nothing runs a third time
  CHECK(shared_each.plan.again_flops < shared.plan.flops / 2);
}

// ---- text
static void test_text(void) {
  Trained built = trained(NESTED, 0, 1), read = {0};
  char *text;
  size_t n;
  tn_program *p = network(NESTED);
  FILE *f = open_memstream(&text, &n);
  CHECK(!tn_dump(p, f, TN_DUMP_IR) && !fclose(f));
  tn_program_free(p);
  CHECK(strstr(text, "checkpoint 1 @all") && strstr(text, "checkpoint 2 @all.l0 in 1") &&
        strstr(text, " checkpoint=2"));
  p = tn_program_parse(text, n, "nested.tir");
  if (CHECK(p != NULL) && CHECK(run(p, 0, 1, &read)))
    CHECK(has_bits(&built, &read) && built.plan.n_again == read.plan.n_again &&
          built.plan.peak_bytes == read.plan.peak_bytes);
  free(text);
}

// ---- bundles
static tn_program *nested(void) { return network(NESTED); }
static tn_program *plain(void) { return network(PLAIN); }

static void test_bundle(void) {
  BundleSo all = bundle_so_open(plain, 3), less = bundle_so_open(nested, 3);
  if (all.about && less.about) CHECK(less.about->arena_bytes < all.about->arena_bytes);
  bundle_so_close(&all), bundle_so_close(&less);
}

// ---- what has no effect
static tn_program *p;

static const char *said(void) {
  tn_model_free(tn_compile(p, .cache_dir = "", .quiet = true));
  return report_of(p);
}

static tn_function *begin(void) {
  p = tn_program_create("w");
  return tn_function_begin(p, "step");
}

static void test_no_effect(void) {
  tn_function *f = begin();
  tn_module *fc = tn_linear(tn_root(p), "fc", 8, 8);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4, 8)), y = tn_call(fc, x);
  tn_checkpoint(fc);
  tn_output(f, "y", y);
  tn_function_end(f);
  CHECK(
      strstr(said(), "warning[W138]: the checkpoint of module 'fc' has no effect: nothing calls it behind this line"));
  tn_program_free(p);

  f = begin(), fc = layer(tn_root(p), "fc");
  tn_checkpoint(fc);
  tn_output(f, "y", tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(4, WIDTH))));
  tn_function_end(f);
  CHECK(strstr(said(), "the checkpoint of module 'fc' has no effect: no function takes a gradient through it"));
  tn_program_free(p);

  f = begin(), fc = tn_linear(tn_root(p), "fc", 8, 8);
  tn_checkpoint(fc);
  tn_backward(tn_sum(tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(4, 8)))));
  tn_sgd(f, tn_root(p), .lr = 0.1);
  tn_function_end(f);
  CHECK(strstr(said(), "has no effect: its backward reads nothing that it computes"));
  tn_program_free(p);
}

static void test_scan_and_second(void) {
  enum { TIME = 8 };
  tn_function *f = begin();
  tn_module *fc = layer(tn_root(p), "fc");
  tn_checkpoint(fc);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(TIME, 4, WIDTH));
  tn_scan *s = tn_scan_begin(f, .steps = tn_dim_const(TIME));
  tn_tensor part = tn_scan_input(s, x), h = tn_scan_carry(s, tn_zeros(f, TN_SHAPE(4, WIDTH)));
  tn_tensor next = tn_call(fc, tn_add(part, h));
  tn_scan_next(s, h, next);
  tn_scan_end(s);
  tn_backward(tn_mean(tn_square(tn_scan_final(s, h))));
  tn_sgd(f, tn_root(p), .lr = 0.1);
  tn_function_end(f);
  CHECK_HAS(said(), "the checkpoint of module 'fc' has no effect: it is called in a scan, whose steps are kept");
  tn_program_free(p);

  f = begin(), fc = layer(tn_root(p), "fc");
  tn_checkpoint(fc);
  tn_tensor y = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, WIDTH));
  tn_tensor loss = tn_mean(tn_square(tn_call(fc, y)));
  tn_backward(tn_add(loss, tn_mean(tn_square(tn_grad(loss, y)))));
  tn_sgd(f, tn_root(p), .lr = 0.1);
  tn_function_end(f);
  CHECK_HAS(said(),
            "the checkpoint of module 'fc' takes time and lowers no memory: gradients are taken of its gradients");
  tn_program_free(p);
}

// One call of everything: what it computes again is all there when its backward begins. Calls of its layers are not.
static void test_whole_stack(void) {
  for (Kind kind = EACH; kind <= NESTED; kind++) {
    p = network(kind);
    bool says =
        strstr(said(), "the checkpoint of module 'all' takes time and lowers no memory: all that it computes again");
    CHECK(says == (kind == OUTER));
    tn_program_free(p);
  }
}

// A function without a gradient beside one that has it says nothing.
static void test_two_functions(void) {
  tn_function *f = begin();
  tn_module *fc = layer(tn_root(p), "fc");
  tn_checkpoint(fc);
  tn_output(f, "y", tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(4, WIDTH))));
  tn_function_end(f);
  f = tn_function_begin(p, "train");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, WIDTH));
  for (uint32_t k = 0; k < LAYERS; k++) x = tn_call(fc, x);
  tn_backward(tn_mean(tn_square(x)));
  tn_sgd(f, tn_root(p), .lr = 0.1);
  tn_function_end(f);
  CHECK(!strstr(said(), "W138"));
  tn_program_free(p);
}

int main(void) {
  test_bits();
  test_peaks();
  test_text();
  test_bundle();
  test_no_effect();
  test_whole_stack();
  test_scan_and_second();
  test_two_functions();
  return check_report();
}
