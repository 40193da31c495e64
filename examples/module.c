// Modules of one's own: a struct, a forward function, and what it holds. A residual block, of which any number stand in a
// sequence, and a gate of two inputs, which tn_call_n calls by name. Learns y = x / (1 + |x|), coordinate by coordinate.
// ctest: --steps 300
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64, WIDTH = 8, HIDDEN = 32 };

// ---- x + down(tanh(up(norm(x)))), scaled by a parameter that begins as 0.5
typedef struct {
  tn_module *norm, *up, *down;
} Block;

static tn_values block_forward(tn_module *m, tn_values in, void *self) {
  const Block *b = self;
  tn_tensor x = in.v[0], scale = tn_param_value(x.fn, m, "scale");
  tn_tensor y = tn_call(b->down, tn_tanh(tn_call(b->up, tn_call(b->norm, x))));
  return TN_VALUES(tn_add(x, tn_mul(y, scale)));
}

static tn_module *block(tn_module *parent, const char *name, Block *b) {
  static const tn_module_class class = {.name = "Block", .forward = block_forward};
  tn_module *m = tn_module_define(parent, name, &class, b);
  b->norm = tn_layer_norm(m, "norm", TN_SHAPE(WIDTH));
  b->up = tn_linear(m, "up", WIDTH, HIDDEN);
  b->down = tn_linear(m, "down", HIDDEN, WIDTH);
  tn_parameter(m, "scale", TN_SHAPE(WIDTH), (tn_init){TN_INIT_CONSTANT, 0.5, 0});
  return m;
}

// ---- gate x + (1 - gate) other, and the gate itself
typedef struct {
  tn_module *gate;
} Mix;

static tn_values mix_forward(tn_module *m, tn_values in, void *self) {
  (void)m;
  tn_tensor x = *tn_value_named(&in, "x"), other = *tn_value_named(&in, "other");
  tn_tensor gate = tn_sigmoid(tn_call(((const Mix *)self)->gate, x));
  return TN_VALUES(tn_add(other, tn_mul(gate, tn_sub(x, other))), gate);
}

static tn_module *mix(tn_module *parent, const char *name, Mix *b) {
  static const char *const in[] = {"x", "other"}, *const out[] = {"mixed", "gate"};
  static const tn_module_class class = {
      .name = "Mix", .forward = mix_forward, .n_in = 2, .n_out = 2, .in = in, .out = out};
  tn_module *m = tn_module_define(parent, name, &class, b);
  b->gate = tn_linear(m, "gate", WIDTH, WIDTH);
  return m;
}

// A visitor: what tn_module_apply does with each module, children first
static void count(tn_module *m, void *n) {
  if (!strcmp(tn_module_kind(m), "Block")) ++*(int *)n;
}

static float draw(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(*s >> 40) / (1 << 23) - 1) * 3;
}

int main(int argc, char **argv) {
  int n_blocks = 0;
  long steps = 2000;
  const Argument list[] = {{"--steps", "N", "of training", .whole = &steps, .least = 1, .most = 1e9}};
  read_arguments(argc, argv, "modules of one's own", list, 1);
  tn_program *p = tn_program_create("module");
  tn_module *root = tn_root(p), *net = tn_sequential(root, "net");
  Block blocks[3];
  Mix mixing;
  static const char *const names[] = {"0", "1", "2"};
  for (int k = 0; k < 3; k++) block(net, names[k], &blocks[k]);
  tn_linear(net, "head", WIDTH, WIDTH);
  tn_module *last = mix(root, "mix", &mixing);
  tn_module_apply(root, count, &n_blocks);

  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, WIDTH)), y = tn_input(f, "y", TN_F32, TN_SHAPE(BATCH, WIDTH));
  static const char *const order[] = {"other", "x"};  // by name, in any order
  tn_values in = {.v = {tn_call(net, x), x}, .n = 2, .names = order}, out = tn_call_n(last, in);
  tn_tensor loss = tn_mean(tn_square(tn_sub(*tn_value_named(&out, "mixed"), y)));
  tn_backward(loss);
  tn_adamw(f, root, .lr = 3e-3);
  tn_output(f, "loss", loss);
  tn_output(f, "gate", tn_mean(*tn_value_named(&out, "gate")));
  tn_function_end(f);
  tn_summary(f, root, stdout);
  printf("%d blocks\n", n_blocks);

  tn_model *m = tn_compile(p);
  if (!m) return 1;
  float xs[BATCH * WIDTH], ys[BATCH * WIDTH], now = 0, gate = 0, first = 0;
  uint64_t seed = 1;
  for (int k = 0; k < steps; k++) {
    for (int i = 0; i < BATCH * WIDTH; i++) xs[i] = draw(&seed), ys[i] = xs[i] / (1 + fabsf(xs[i]));
    if (tn_run(m, "step", TN_IN(TN_NAMED("x", tn_f32(xs, BATCH, WIDTH)), TN_NAMED("y", tn_f32(ys, BATCH, WIDTH))),
               TN_OUT(TN_NAMED("loss", tn_f32_scalar(&now)), TN_NAMED("gate", tn_f32_scalar(&gate)))))
      return fprintf(stderr, "module: %s\n", tn_error_text(m)), 1;
    if (!k) first = now;
  }
  printf("loss %.4f -> %.4f, mean gate %.2f\n", first, now, gate);
  tn_model_free(m);
  tn_program_free(p);
  return now < first / 4 ? 0 : 1;
}
