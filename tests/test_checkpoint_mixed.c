// tn_checkpoint beside what else a training step has: running statistics, shared and nested modules, hooks, writes in place, scans,
// gradients of gradients, convolutions, shards, sizes that the run gives, gradients averaged over runs, dropout. Losses, parameters
// and state have the same bits with and without, for 1 and 2 workers; where a layer's values need not live, the arena is smaller.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

enum { LAYERS = 3, ROWS = 128, WIDTH = 48, STEPS = 4, MOST = 1 << 20, SIDE = 8, CHANNELS = 16 };
enum { MOST_PERCENT = 80 };  // of the arena without checkpoints

typedef struct {
  tn_program *p;
  tn_function *f;
  tn_module *net;
  bool has_checkpoints;
  tn_tensor sum;  // of hooks: what is added to the loss
} Build;

typedef struct {
  const char *name;
  tn_tensor (*forward)(Build *b, tn_tensor x);
  bool is_image, accumulates, differs_in_size, has_penalty;
  uint32_t shards;  // 0: none
  bool is_kept;     // the arena need not be smaller
} Case;

static tn_module *marked(const Build *b, tn_module *m) {
  if (b->has_checkpoints) tn_checkpoint(m);
  return m;
}

// ---- layers
static void two_products(tn_module *m) {
  tn_linear(m, "up", WIDTH, 2 * WIDTH), tn_activation(m, "act", "gelu");
  tn_linear(m, "down", 2 * WIDTH, WIDTH), tn_layer_norm(m, "norm", TN_SHAPE(WIDTH));
}

static tn_module *sequence(const Build *b, const char *kind, int k) {
  char name[24];
  snprintf(name, sizeof name, "%s%d", kind, k);
  return tn_sequential(b->net, name);
}

static tn_tensor plain(Build *b, tn_tensor x) {
  for (int k = 0; k < LAYERS; k++) {
    tn_module *m = sequence(b, "plain", k);
    two_products(m);
    x = tn_call(marked(b, m), x);
  }
  return x;
}

static tn_tensor with_dropout(Build *b, tn_tensor x) {
  for (int k = 0; k < LAYERS; k++) {
    tn_module *m = sequence(b, "drop", k);
    two_products(m), tn_dropout_module(m, "drop", 0.25);
    x = tn_call(marked(b, m), x);
  }
  return x;
}

static tn_tensor with_statistics(Build *b, tn_tensor x) {
  for (int k = 0; k < LAYERS; k++) {
    tn_module *m = sequence(b, "batch", k);
    tn_linear(m, "in", WIDTH, WIDTH), tn_batch_norm(m, "norm", WIDTH), tn_activation(m, "act", "gelu");
    tn_linear(m, "out", WIDTH, WIDTH), tn_batch_norm(m, "last", WIDTH), tn_activation(m, "end", "silu");
    x = tn_call(marked(b, m), x);
  }
  return x;
}

static tn_tensor convolved(Build *b, tn_tensor x) {
  for (int k = 0; k < LAYERS; k++) {
    tn_module *m = sequence(b, "conv", k);
    tn_conv2d_module(m, "c", CHANNELS, CHANNELS, 3, .padding = 1), tn_batch_norm(m, "norm", CHANNELS);
    tn_activation(m, "act", "silu"), tn_conv2d_module(m, "d", CHANNELS, CHANNELS, 3, .padding = 1);
    x = tn_add(x, tn_call(marked(b, m), x));
  }
  return x;
}

// One layer on two paths, in layers that have checkpoints themselves.
static tn_tensor shared_and_nested(Build *b, tn_tensor x) {
  tn_module *first = NULL;
  for (int k = 0; k < LAYERS; k++) {
    tn_module *outer = sequence(b, "outer", k), *inner = tn_sequential(outer, "own");
    two_products(inner), marked(b, inner);
    if (!first) first = inner;
    else marked(b, tn_share_module(outer, "shared", first));
    x = tn_add(x, tn_call(marked(b, outer), x));
  }
  return x;
}

// The loss reads what a hook sees, within the calls and behind them.
static tn_tensor note_output(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in;
  Build *b = ctx;
  tn_tensor mean = tn_mean(tn_square(out));
  b->sum = b->sum.fn ? tn_add(b->sum, mean) : mean;
  return tn_mul_scalar(tn_tanh(out), 1.5);
}

static tn_tensor limit(tn_tensor g, void *ctx) { return (void)ctx, tn_clamp(g, -0.01, 0.01); }

static tn_values scale(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)m, (void)out, (void)ctx;
  return TN_VALUES(tn_mul_scalar(in.v[0], 0.5));
}

static tn_tensor hooked(Build *b, tn_tensor x) {
  for (int k = 0; k < LAYERS; k++) {
    tn_module *m = sequence(b, "hook", k);
    two_products(m);
    tn_hook_post(tn_child(m, "act"), note_output, b), tn_hook_post(m, note_output, b);
    tn_hook_backward(m, scale, NULL);
    x = tn_call(marked(b, m), x);
    tn_on_grad(x, limit, NULL);
  }
  return x;
}

// What a write replaces is read before and behind it, through a view too.
static tn_values written(tn_module *m, tn_values in, void *self) {
  (void)self;
  tn_tensor h = tn_gelu(tn_call(tn_child(m, "up"), in.v[0])), before = tn_tanh(h);
  tn_mul_(h, before);
  tn_add_(tn_slice(h, 1, 0, WIDTH), tn_slice(before, 1, WIDTH, WIDTH));
  return TN_VALUES(tn_call(tn_child(m, "down"), tn_silu(h)));
}

static tn_tensor written_in_place(Build *b, tn_tensor x) {
  static const tn_module_class kind = {.name = "Written", .forward = written};
  for (int k = 0; k < LAYERS; k++) {
    char name[16];
    snprintf(name, sizeof name, "written%d", k);
    tn_module *m = tn_module_define(b->net, name, &kind, NULL);
    tn_linear(m, "up", WIDTH, 2 * WIDTH), tn_linear(m, "down", 2 * WIDTH, WIDTH);
    x = tn_call(marked(b, m), x);
  }
  return x;
}

// A module in the body of a scan keeps what its steps compute; layers behind the scan do not.
static tn_tensor in_scan(Build *b, tn_tensor x) {
  enum { TIME = 8 };
  tn_module *step = tn_sequential(b->net, "step");
  two_products(step), marked(b, step);
  tn_scan *s = tn_scan_begin(b->f, .steps = tn_dim_const(TIME));
  tn_tensor part = tn_scan_input(s, tn_reshape(x, TN_SHAPE(TIME, ROWS / TIME, WIDTH)));
  tn_tensor h = tn_scan_carry(s, tn_zeros(b->f, TN_SHAPE(ROWS / TIME, WIDTH)));
  tn_tensor next = tn_tanh(tn_call(step, tn_add(part, h)));
  tn_scan_next(s, h, next);
  tn_tensor all = tn_scan_output(s, next);
  tn_scan_end(s);
  return plain(b, tn_reshape(all, TN_SHAPE(ROWS, WIDTH)));
}

static const Case cases[] = {
    {.name = "dropout", .forward = with_dropout},
    {.name = "running statistics", .forward = with_statistics},
    {.name = "convolution", .forward = convolved, .is_image = true},
    {.name = "shared and nested", .forward = shared_and_nested},
    {.name = "hooks", .forward = hooked},
    {.name = "writes in place", .forward = written_in_place},
    {.name = "in a scan", .forward = in_scan},
    {.name = "second gradients", .forward = plain, .has_penalty = true, .is_kept = true},
    {.name = "sizes of the run", .forward = plain, .differs_in_size = true},
    {.name = "accumulated", .forward = plain, .accumulates = true},
    {.name = "accumulated, running statistics", .forward = with_statistics, .accumulates = true},
    {.name = "accumulated, nested", .forward = shared_and_nested, .accumulates = true},
    {.name = "shards", .forward = with_dropout, .shards = 2},
    {.name = "shards, accumulated", .forward = plain, .shards = 2, .accumulates = true},
};

// ---- training
typedef struct {
  float loss[STEPS];
  unsigned char state[MOST];
  size_t n;
  tn_plan plan;
} Trained;

static tn_program *program(const Case *c, bool has_checkpoints) {
  tn_program *p = tn_program_create("mixed");
  bool has_dim = c->differs_in_size || c->shards;
  tn_dim rows = has_dim ? tn_dim_bounded(p, "rows", ROWS) : tn_dim_const(ROWS);
  Build b = {p, tn_function_begin(p, "step"), tn_root(p), has_checkpoints, TN_NONE};
  tn_tensor x = c->is_image ? tn_input(b.f, "x", TN_F32, TN_SHAPE(ROWS / CHANNELS, CHANNELS, SIDE, SIDE))
                            : tn_input(b.f, "x", TN_F32, TN_SHAPE(rows, WIDTH));
  if (c->shards) tn_distributed(b.f, .n = c->shards, .batch = rows);
  tn_tensor loss = tn_mean(tn_square(c->forward(&b, x)));
  if (b.sum.fn) loss = tn_add(loss, b.sum);
  if (c->has_penalty) loss = tn_add(loss, tn_mean(tn_square(tn_grad(loss, x))));
  tn_backward(loss);
  if (c->accumulates) tn_accumulate(b.f, b.net, 2);
  tn_adamw(b.f, b.net, .lr = 1e-3);
  tn_output(b.f, "loss", loss);
  tn_function_end(b.f);
  return p;
}

static size_t bytes_of(tn_array a) {
  size_t n = a.dtype == TN_I64 ? 8 : 4;
  for (uint32_t d = 0; d < a.rank; d++) n *= (size_t)a.dims[d];
  return n;
}

static void take_state(tn_model *m, Trained *t) {
  for (uint32_t k = 0; k < tn_param_count(m); k++) {
    tn_array a = tn_param_at(m, k);
    if (CHECK(t->n + bytes_of(a) <= sizeof t->state)) memcpy(t->state + t->n, a.data, bytes_of(a)), t->n += bytes_of(a);
  }
}

static bool run_step(tn_model *m, const Case *c, int k, float *loss) {
  static float x[ROWS * WIDTH > ROWS * SIDE * SIDE ? ROWS * WIDTH : ROWS * SIDE * SIDE];
  int64_t rows = c->differs_in_size ? ROWS - 37 * k : ROWS;
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)((i * 7 + (size_t)k) % 23) / 11 - 1;
  tn_array in = c->is_image ? tn_f32(x, ROWS / CHANNELS, CHANNELS, SIDE, SIDE) : tn_f32(x, rows, WIDTH);
  bool good = !tn_run(m, "step", TN_IN(in), TN_OUT(tn_f32_scalar(loss)));
  if (!CHECK(good)) printf("%s: %s\n", c->name, tn_error_text(m));
  return good;
}

static void train(const Case *c, bool has_checkpoints, uint32_t workers, Trained *t) {
  *t = (Trained){0};
  tn_program *p = program(c, has_checkpoints);
  tn_model *m = tn_compile(p, .cache_dir = model_cache_dir(), .n_workers = workers, .seed = 5, .quiet = true);
  if (CHECK(m) && CHECK(!tn_plan_of(m, "step", &t->plan))) {
    for (int k = 0; k < STEPS && run_step(m, c, k, &t->loss[k]); k++) continue;
    take_state(m, t);
  } else {
    printf("%s: %s\n", c->name, report_of(p));
  }
  tn_model_free(m), tn_program_free(p);
}

static void check_same(const Case *c, const Trained *a, const Trained *b, uint32_t workers) {
  bool same = !memcmp(a->loss, b->loss, sizeof a->loss) && a->n == b->n && !memcmp(a->state, b->state, a->n);
  if (!CHECK(same)) printf("%s: other bits with %u workers\n", c->name, workers);
}

static void check_case(const Case *c) {
  static Trained all, less, by_two;
  train(c, false, 1, &all), train(c, true, 1, &less), train(c, true, 2, &by_two);
  check_same(c, &all, &less, 1), check_same(c, &all, &by_two, 2);
  CHECK(all.loss[0] != all.loss[STEPS - 1]);
  int64_t percent = all.plan.peak_bytes ? 100 * less.plan.peak_bytes / all.plan.peak_bytes : 100;
  printf("%s: arena %lld -> %lld (%lld %%), %u kernels run again\n", c->name, (long long)all.plan.peak_bytes,
         (long long)less.plan.peak_bytes, (long long)percent, less.plan.n_again);
  if (!CHECK(!all.plan.n_again && less.plan.n_again) || !CHECK(c->is_kept || percent <= MOST_PERCENT))
    printf("in case %s\n", c->name);
}

int main(void) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) check_case(&cases[k]);
  return check_report();
}
