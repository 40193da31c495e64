// Sharded steps beside the same steps without shards, where all, some or none of the rows of a batch count: random models, losses,
// optimizers and batches. test_shard_counts COUNT tries as many programs. A step in which nothing counts has gradients of 0; what is written with another mean keeps its value.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 12, WIDTH = 6, CLASSES = 3, TIME = 4, PROGRAMS = 6, RUNS = 6, MOST = 512, IGNORED = -7 };

static uint32_t state = 1;
static uint32_t below(uint32_t n) {
  state = state * 1664525 + 1013904223;
  return (state >> 16) % n;
}

// ---- programs
typedef enum { IGNORES, WEIGHS, MASKS, TAGS, TWO_LOSSES, N_LOSSES } Loss;
typedef struct {
  Loss loss;
  uint32_t optimizer, shards;  // shards 0: not distributed
  bool accumulates, clips, averages, normalizes;
} Program;

static Program draw_program(uint32_t k) {
  Program p = {.loss = k % N_LOSSES, .optimizer = k % 9, .shards = 1 + below(6)};
  p.accumulates = !below(3), p.clips = below(2), p.averages = !below(3), p.normalizes = !below(3);
  return p;
}

typedef struct {
  tn_function *f;
  tn_module *net;
  tn_dim B;
  tn_tensor x, y;  // by row; of packed sequences their rows
} Build;

static tn_tensor total(tn_tensor mask) { return tn_sum(tn_cast(mask, TN_F32)); }

static tn_tensor is_label(const Build *b, double label) { return tn_eq(b->y, tn_scalar(b->f, label)); }

static tn_tensor counts(const Build *b) { return tn_ne(b->y, tn_scalar(b->f, IGNORED)); }

static void add_inputs(Build *b, Loss loss) {
  if (loss != TAGS) {
    b->x = tn_input(b->f, "x", TN_F32, TN_SHAPE(b->B, WIDTH));
    b->y = tn_input(b->f, "y", TN_I64, TN_SHAPE(b->B));
    return;
  }
  tn_tensor x = tn_input(b->f, "x", TN_F32, TN_SHAPE(b->B, TIME, WIDTH)),
            n = tn_input(b->f, "n", TN_I64, TN_SHAPE(b->B));
  tn_tensor y = tn_input(b->f, "y", TN_I64, TN_SHAPE(b->B, TIME));
  tn_packed s = tn_pack_padded(x, n);
  b->x = s.data, b->y = tn_pack_like(y, s, true).data;
}

static tn_tensor count_of(const Build *b, Loss loss) {
  if (loss != WEIGHS) return total(counts(b));
  return tn_add(total(is_label(b, 0)), tn_mul_scalar(total(is_label(b, 1)), 0.5));  // class 2 weighs nothing
}

static tn_tensor logits_of(const Build *b, const Program *o) {
  tn_tensor h = tn_call(tn_linear(b->net, "hidden", WIDTH, 8), b->x);
  if (o->normalizes) h = tn_call(tn_layer_norm(b->net, "norm", TN_SHAPE(8)), h);
  return tn_call(tn_linear(b->net, "head", 8, CLASSES), tn_tanh(h));
}

static tn_tensor masked_loss(const Build *b, tn_tensor logits) {
  tn_tensor mask = tn_cast(counts(b), TN_F32), each = tn_sum_axis(tn_square(logits), 1, false);
  return tn_div(tn_sum(tn_mul(each, mask)), tn_clamp_min(tn_sum(mask), tn_scalar(b->f, 1)));
}

static tn_tensor loss_of(const Build *b, const Program *o, tn_tensor logits) {
  static const float weights[CLASSES] = {1, 0.5F, 0};
  tn_tensor weight = o->loss == WEIGHS ? tn_constant(b->f, weights, TN_SHAPE(CLASSES)) : TN_NONE;
  if (o->loss == MASKS) return masked_loss(b, logits);
  return tn_cross_entropy(logits, b->y, .has_ignore = true, .ignore_index = IGNORED, .weight = weight);
}

static void optimize(const Build *b, uint32_t kind) {
  tn_function *f = b->f;
  switch (kind) {
  case 0: tn_adamw(f, b->net, .lr = 0.01, .weight_decay = 0.1); break;
  case 1: tn_sgd(f, b->net, .lr = 0.1, .momentum = 0.9, .nesterov = true); break;
  case 2: tn_rmsprop(f, b->net, .lr = 0.01, .momentum = 0.5, .centered = true); break;
  case 3: tn_adagrad(f, b->net, .lr = 0.01); break;
  case 4: tn_adadelta(f, b->net, .lr = 0.1); break;
  case 5: tn_adamax(f, b->net, .lr = 0.01); break;
  case 6: tn_nadam(f, b->net, .lr = 0.01); break;
  case 7: tn_radam(f, b->net, .lr = 0.01); break;
  default: tn_lamb(f, b->net, .lr = 0.01, .weight_decay = 0.1); break;
  }
}

// What is written with means that are no gradients: a buffer as it is, another by parts, a parameter by hand
static void write_means(const Build *b, tn_tensor logits) {
  tn_tensor mean = tn_shard_mean(tn_mean_axis(logits, 0, false)), part = tn_param_value(b->f, b->net, "part");
  tn_copy_(tn_param_value(b->f, b->net, "mean"), mean);
  tn_copy_(part, tn_add(tn_mul_scalar(part, 0.5), tn_exp(mean)));
}

static tn_model *build(const Program *o) {
  tn_program *p = tn_program_create("counts");
  Build b = {.f = tn_function_begin(p, "step"), .net = tn_root(p), .B = tn_dim_bounded(p, "batch", BATCH)};
  add_inputs(&b, o->loss);
  if (o->shards) tn_distributed(b.f, .n = o->shards, .batch = b.B, .count = count_of(&b, o->loss));
  tn_tensor logits = logits_of(&b, o), loss = loss_of(&b, o, logits);
  tn_backward(loss);
  if (o->loss == TWO_LOSSES) tn_backward(tn_mul_scalar(masked_loss(&b, logits), 0.25));
  if (o->accumulates) tn_accumulate(b.f, b.net, 2);
  if (o->clips) tn_output(b.f, "norm", tn_clip_grad_norm(b.f, b.net, 0.1));
  else tn_output(b.f, "norm", tn_scalar(b.f, 0));
  optimize(&b, o->optimizer);
  if (o->averages) tn_ema(b.f, b.net, .decay = 0.5);
  tn_output(b.f, "loss", loss);
  tn_buffer(b.net, "mean", TN_SHAPE(CLASSES), (tn_init){.kind = TN_INIT_CONSTANT, .a = 3});
  tn_buffer(b.net, "part", TN_SHAPE(CLASSES), (tn_init){.kind = TN_INIT_CONSTANT, .a = 3});
  if (o->shards) write_means(&b, tn_detach(logits));
  tn_function_end(b.f);
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = 5);
  tn_program_free(p);
  return m;
}

// ---- batches
typedef struct {
  float x[BATCH * TIME * WIDTH];
  int64_t y[BATCH * TIME], lengths[BATCH], rows;
} Batch;

// Three of four rows from lo to hi count, the first of them among these; in every other batch none. Labels of class 2 weigh nothing,
// too: without shards gradients are NaN where no others count, as PyTorch's are, so that there are others.
static void draw_batch(Batch *b, const Program *o, uint32_t run) {
  uint32_t per_row = o->loss == TAGS ? TIME : 1, rows = 1 + below(BATCH), lo = below(rows);
  uint32_t hi = run % 2 ? lo : lo + below(rows + 1 - lo);
  int64_t other = o->loss == WEIGHS && lo < hi && below(2) ? 2 : IGNORED;
  b->rows = rows;
  for (int k = 0; k < BATCH * TIME * WIDTH; k++) b->x[k] = (float)below(1000) / 250 - 2;
  for (uint32_t k = 0; k < BATCH; k++) b->lengths[k] = 1 + below(TIME);
  for (uint32_t k = 0; k < BATCH * TIME; k++) {
    bool is_in = k / per_row >= lo && k / per_row < hi;
    b->y[k] = is_in && below(4) ? (int64_t)below(CLASSES) : other;
  }
  if (lo < hi) b->y[lo * per_row] = 0;
}

typedef struct {
  float loss, norm;
} Result;

static bool step(tn_model *m, const Program *o, const Batch *b, Result *r) {
  tn_array out[] = {tn_f32_scalar(&r->norm), tn_f32_scalar(&r->loss)};
  tn_array x = o->loss == TAGS ? tn_f32(b->x, b->rows, TIME, WIDTH) : tn_f32(b->x, b->rows, WIDTH);
  tn_array n = tn_i64(b->lengths, b->rows), y = tn_i64(b->y, b->rows);
  if (o->loss == TAGS) y = tn_i64(b->y, b->rows, TIME);
  tn_status s = o->loss == TAGS ? tn_run(m, "step", (const tn_array[]){x, n, y}, 3, out, 2)
                                : tn_run(m, "step", (const tn_array[]){x, y}, 2, out, 2);
  if (s) printf("%s\n", tn_error_text(m));
  return CHECK(!s);
}

// ---- comparing
static bool is_near(float a, float b, double scale) {
  return (isnan(a) && isnan(b)) || fabs((double)a - (double)b) <= 2e-4 * (fabs((double)b) + scale);
}

static bool is_buffer(const char *path) { return !strcmp(path, "mean") || !strcmp(path, "part"); }

static size_t size_of(tn_array a) {
  size_t n = 1;
  for (uint32_t d = 0; d < a.rank; d++) n *= (size_t)a.dims[d];
  return n;
}

static bool is_same_state(tn_model *whole, tn_model *cut) {
  float a[MOST], b[MOST];
  for (uint32_t k = 0; k < tn_param_count(whole); k++) {
    const char *path = tn_param_path(whole, k);
    tn_array entry = tn_param_at(whole, k);
    size_t n = size_of(entry);
    if (is_buffer(path) || entry.dtype != TN_F32 || n > MOST) continue;
    if (!CHECK(!tn_get(whole, path, a, n) && !tn_get(cut, path, b, n))) return false;
    for (size_t j = 0; j < n; j++)
      if (!CHECK(is_near(b[j], a[j], 0.1) && !isnan(a[j]))) {
        printf("  %s[%zu]: %g, without shards %g\n", path, j, (double)b[j], (double)a[j]);
        return false;
      }
  }
  return true;
}

typedef struct {
  float mean[CLASSES], part[CLASSES];
} Buffers;

static Buffers buffers_of(const tn_model *m) {
  Buffers b = {{0}, {0}};
  CHECK(!tn_get(m, "mean", b.mean, CLASSES) && !tn_get(m, "part", b.part, CLASSES));
  return b;
}

static bool check_run(tn_model *whole, tn_model *cut, const Program *o, const Batch *b) {
  Result r[2];
  Buffers before = buffers_of(cut), after;
  if (!step(whole, o, b, &r[0]) || !step(cut, o, b, &r[1])) return false;
  after = buffers_of(cut);
  double n = 0;
  for (int64_t k = 0; k < b->rows; k++)
    for (int64_t t = 0; t < (o->loss == TAGS ? b->lengths[k] : 1); t++) {
      int64_t label = b->y[o->loss == TAGS ? k * TIME + t : k];
      n += label != IGNORED && (o->loss != WEIGHS || label != 2);
    }
  bool good = is_near(r[1].norm, r[0].norm, 0.1);
  if (n > 0) good &= is_near(r[1].loss, r[0].loss, 0.1) && memcmp(&before, &after, sizeof before) != 0;
  else good &= isnan(r[1].loss) && !memcmp(&before, &after, sizeof before);
  for (int k = 0; k < CLASSES; k++) good &= isfinite(after.mean[k]) && isfinite(after.part[k]);
  if (!CHECK(good))
    printf("  %g count: loss %g, norm %g, expected %g, %g\n", n, (double)r[1].loss, (double)r[1].norm,
           (double)r[0].loss, (double)r[0].norm);
  return good && is_same_state(whole, cut);
}

static void test_program(uint32_t k) {
  Program o = draw_program(k), plain = o;
  plain.shards = 0;
  tn_model *whole = build(&plain), *cut = build(&o);
  bool good = CHECK(whole && cut);
  for (uint32_t run = 0; run < RUNS && good; run++) {
    Batch b;
    draw_batch(&b, &o, run);
    good = check_run(whole, cut, &o, &b);
    if (!good)
      printf("  program %u, run %u, %lld rows: loss %d, optimizer %u, %u shards\n", k, run, (long long)b.rows,
             (int)o.loss, o.optimizer, o.shards);
  }
  tn_model_free(whole), tn_model_free(cut);
}

// ---- a mean over shards that is written to a part of a buffer, by places, strides and dtypes, and at a place computed of it
enum { FOUR = 4 };
typedef struct {
  const char *name;
  tn_dtype dtype;
  float some
      [FOUR];  // behind a step in which something counts: the mean is 2. Before it, and where nothing counts: 1, 2, 3, 4
} Part;
static const Part parts[] = {
    {"all", TN_F32, {2, 2, 2, 2}},   {"slice", TN_F32, {1, 2, 2, 4}},    {"strided", TN_F32, {3, 2, 5, 4}},
    {"index", TN_F32, {1, 2, 2, 4}}, {"diagonal", TN_F32, {2, 2, 3, 2}}, {"bf16", TN_BF16, {2, 2, 2, 2}},
    {"i64", TN_I64, {2, 2, 2, 2}},   {"u8", TN_U8, {2, 2, 2, 2}},        {"place", TN_F32, {1, 2, 9, 4}},
};
enum { N_PARTS = sizeof parts / sizeof *parts };

static tn_tensor repeated(tn_tensor m, int64_t n) { return tn_expand(tn_reshape(m, TN_SHAPE(1)), TN_SHAPE(n)); }

static void write_parts(tn_function *f, tn_module *net, tn_tensor m) {
  tn_tensor b[N_PARTS];
  for (size_t k = 0; k < N_PARTS; k++) b[k] = tn_param_value(f, net, parts[k].name);
  tn_copy_(b[0], repeated(m, FOUR));
  tn_copy_(tn_slice(b[1], 0, 1, 2), repeated(m, 2));
  tn_add_(tn_slice_step(b[2], 0, 0, FOUR, 2), repeated(m, 2));
  tn_index_put_(b[3], tn_constant_i64(f, (const int64_t[]){2}, TN_SHAPE(1)), tn_reshape(m, TN_SHAPE(1)));
  tn_copy_(tn_diagonal(tn_reshape(b[4], TN_SHAPE(2, 2)), 0, 0, 1), repeated(m, 2));
  for (size_t k = 5; k < 8; k++) tn_copy_(b[k], repeated(tn_cast(m, parts[k].dtype), FOUR));
  tn_slice_assign_at_(b[8], 0, tn_cast(m, TN_I64), tn_full(f, 9, TN_SHAPE(1)));
}

static tn_model *model_of_parts(void) {
  tn_program *p = tn_program_create("parts");
  tn_module *net = tn_root(p), *fc = tn_linear(net, "fc", 1, 2);
  tn_dim batch = tn_dim_bounded(p, "batch", 6);
  for (size_t k = 0; k < N_PARTS; k++) {
    tn_buffer(net, parts[k].name, TN_SHAPE(FOUR), (tn_init){TN_INIT_ZEROS, 0, 0});
    if (parts[k].dtype != TN_F32) tn_store_as(net, parts[k].name, parts[k].dtype);
  }
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, 1)), y = tn_input(f, "y", TN_I64, TN_SHAPE(batch));
  tn_distributed(f, .n = 3, .batch = batch, .count = total(tn_ne(y, tn_scalar(f, IGNORED))));
  tn_backward(tn_cross_entropy(tn_call(fc, x), y, .has_ignore = true, .ignore_index = IGNORED));
  write_parts(f, net, tn_shard_mean(tn_mean(x)));
  tn_sgd(f, fc, .lr = 0.1);
  tn_function_end(f);
  return model_alone(p, .n_workers = 2);
}

static tn_array part_array(const Part *q, void *data) {
  return (tn_array){.data = data, .dtype = q->dtype, .rank = 1, .dims = {FOUR}};
}

static void put_part(const Part *q, void *data, int k, float v) {
  if (q->dtype == TN_F32) ((float *)data)[k] = v;
  else if (q->dtype == TN_I64) ((int64_t *)data)[k] = (int64_t)v;
  else if (q->dtype == TN_U8) ((uint8_t *)data)[k] = (uint8_t)v;
  else ((uint16_t *)data)[k] = v == 4 ? 0x4080 : v == 3 ? 0x4040 : v == 2 ? 0x4000 : 0x3f80;  // bf16
}

static void check_parts(tn_model *m, bool some) {
  for (size_t k = 0; k < N_PARTS; k++) {
    int64_t found[FOUR] = {0}, wanted[FOUR] = {0};
    for (int j = 0; j < FOUR; j++) put_part(&parts[k], wanted, j, some ? parts[k].some[j] : (float)(j + 1));
    CHECK(!tn_get_array(m, parts[k].name, part_array(&parts[k], found)));
    if (!CHECK(!memcmp(found, wanted, sizeof found)))
      printf("  buffer %s%s\n", parts[k].name, some ? "" : " is not kept");
  }
}

static void test_parts(void) {
  tn_model *m = model_of_parts();
  if (!m) return;
  float x[6] = {2, 2, 2, 2, 2, 2};
  int64_t y[6];
  for (int k = 0; k < 6; k++) y[k] = IGNORED;
  for (size_t k = 0; k < N_PARTS; k++) {
    int64_t first[FOUR] = {0};
    for (int j = 0; j < FOUR; j++) put_part(&parts[k], first, j, (float)(j + 1));
    CHECK(!tn_set_array(m, parts[k].name, part_array(&parts[k], first)));
  }
  tn_array in[] = {tn_f32(x, 6, 1), tn_i64(y, 6)};
  CHECK(!tn_run(m, "step", in, 2, NULL, 0));
  check_parts(m, false);
  y[1] = 1;
  CHECK(!tn_run(m, "step", in, 2, NULL, 0));
  check_parts(m, true);
  tn_model_free(m);
}

int main(int argc, char **argv) {
  uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : PROGRAMS;
  test_parts();
  for (uint32_t k = 0; k < n; k++) test_program(k);
  return check_report();
}
