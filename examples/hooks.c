// Looking into a network while it trains: statistics of what every layer gives, dead units, and the norm of every layer's
// gradient, as a table that is written again in place. Probes are compiled in once; they are on in one step of many, and cost
// nothing in the others. A hook on gradients clips one layer's.
// ctest: --steps 200 --every 50
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 128, IN = 16, HIDDEN = 64, CLASSES = 4, MAX_ROWS = 32, BINS = 12 };

// ---- the table: a row for each layer, with its gradient beside it
typedef struct {
  char name[64];
  double mean, std, min, max, dead, grad;
  float bins[BINS];
  uint32_t n_nan;
} Row;
typedef struct {
  Row row[MAX_ROWS];
  int n, shown;
} Board;

static Row *row_of(Board *b, const char *name, size_t n) {
  for (int k = 0; k < b->n; k++)
    if (strlen(b->row[k].name) == n && !memcmp(b->row[k].name, name, n)) return &b->row[k];
  if (b->n == MAX_ROWS || n >= sizeof b->row->name) return NULL;
  memcpy(b->row[b->n].name, name, n);
  return &b->row[b->n++];
}

// Called for each probe after a run: "net.0" is what a layer gives, "net.0.grad" the gradient of that
static void see(const tn_probe_value *v, void *ctx) {
  size_t n = strlen(v->name);
  bool is_grad = n > 5 && !strcmp(v->name + n - 5, ".grad");
  Row *r = row_of(ctx, v->name, is_grad ? n - 5 : n);
  if (!r) return;
  if (is_grad) {
    r->grad = v->norm;
    return;
  }
  r->mean = v->mean, r->std = v->std, r->min = v->min, r->max = v->max;
  r->dead = 100 * v->n_zero / v->count, r->n_nan = (uint32_t)(v->n_nan + v->n_inf);
  for (uint32_t k = 0; k < v->n_bins && k < BINS; k++) r->bins[k] = v->bins[k];
}

static void put_histogram(const Row *r) {
  static const char *const level[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  float most = 1;
  for (int k = 0; k < BINS; k++) most = fmaxf(most, r->bins[k]);
  for (int k = 0; k < BINS; k++) fputs(level[(int)ceilf(8 * r->bins[k] / most)], stdout);
}

static void show(Board *b, int step, float loss) {
  if (b->shown && isatty(1)) printf("\033[%dA", b->shown);
  printf("step %-6d loss %-8.4f%34s\n", step, loss, "");
  printf("%-10s %8s %8s %8s %8s %7s %10s  %s\n", "layer", "mean", "std", "min", "max", "zero %", "|grad|", "-3 .. 3");
  for (int k = 0; k < b->n; k++) {
    const Row *r = &b->row[k];
    printf("%-10s %8.3f %8.3f %8.3f %8.3f %7.1f %10.2e  ", r->name, r->mean, r->std, r->min, r->max, r->dead, r->grad);
    put_histogram(r);
    printf("%s\n", r->n_nan ? "  NaN" : "");
  }
  b->shown = b->n + 2;
  fflush(stdout);
}

// ---- a hook on a gradient: at most `most` in each element
static tn_tensor clip(tn_tensor grad, void *most) {
  tn_tensor high = tn_scalar(grad.fn, *(double *)most), low = tn_scalar(grad.fn, -*(double *)most);
  return tn_max(tn_min(grad, high), low);
}

static tn_tensor clip_output(tn_module *m, tn_tensor in, tn_tensor out, void *most) {
  (void)m, (void)in;
  tn_on_grad(out, clip, most);
  return TN_NONE;
}

static float draw(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(*s >> 40) / (1 << 23) - 1);
}

static void fill(float *x, int64_t *y, uint64_t *seed) {
  for (int r = 0; r < BATCH; r++) {
    float a = 0, b = 0;
    for (int k = 0; k < IN; k++) x[r * IN + k] = draw(seed), *(k % 2 ? &a : &b) += x[r * IN + k];
    y[r] = (a > 0) + 2 * (b > 0);
  }
}

int main(int argc, char **argv) {
  long steps = 2000, every = 100;
  const Argument list[] = {
      {"--steps", "N", "of training", .whole = &steps, .most = 1e9},
      {"--every", "N", "steps from one table to the next", .whole = &every, .least = 1, .most = 1e9}};
  read_arguments(argc, argv, "looks into a network while it trains", list, sizeof list / sizeof *list);
  tn_program *p = tn_program_create("hooks");
  tn_module *net = tn_sequential(tn_root(p), "net");
  tn_linear(net, "0", IN, HIDDEN), tn_activation(net, "1", "relu");
  tn_linear(net, "2", HIDDEN, HIDDEN), tn_activation(net, "3", "relu");
  tn_module *head = tn_linear(net, "4", HIDDEN, CLASSES);
  double most = 0.01;
  tn_hook_post(head, clip_output, &most);
  tn_probe_modules(net, "*", .gradients = true, .bins = BINS, .lo = -3, .hi = 3);

  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, IN)), y = tn_input(f, "y", TN_I64, TN_SHAPE(BATCH));
  tn_tensor loss = tn_cross_entropy(tn_call(net, x), y);
  tn_backward(loss);
  tn_adamw(f, net, .lr = 2e-3);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  if (!m) return 1;

  Board board = {.n = 0};
  static float xs[BATCH * IN];
  int64_t ys[BATCH];
  float now = 0;
  uint64_t seed = 1;
  tn_model_probe_sink(m, see, &board);
  for (int k = 1; k <= steps; k++) {
    bool look = k % every == 0;
    fill(xs, ys, &seed);
    tn_model_probe(m, "**", look);
    if (tn_run(m, "step", TN_IN(TN_NAMED("x", tn_f32(xs, BATCH, IN)), TN_NAMED("y", tn_i64(ys, BATCH))),
               TN_OUT(TN_NAMED("loss", tn_f32_scalar(&now)))))
      return fprintf(stderr, "hooks: %s\n", tn_error_text(m)), 1;
    if (look) show(&board, k, now);
  }
  tn_model_free(m);
  tn_program_free(p);
  return board.n == 5 || steps < every ? 0 : 1;
}
