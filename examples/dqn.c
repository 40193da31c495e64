// Deep Q-learning of CartPole: a pole on a cart is kept upright by pushes to the left or right. Two networks, of which the
// second is a copy that follows the first slowly; a replay memory; double Q-learning.
// ctest: --steps 40000
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATE = 4, ACTIONS = 2, WIDE = 128, BATCH = 128, MEMORY = 20000, LONGEST = 500, TEST_EACH = 2500 };

static tn_module *make_net(tn_module *net, const char *name) {
  tn_module *m = tn_sequential(net, name);
  tn_linear(m, "0", STATE, WIDE), tn_activation(m, "1", "relu");
  tn_linear(m, "2", WIDE, WIDE), tn_activation(m, "3", "relu");
  tn_linear(m, "4", WIDE, ACTIONS);
  return m;
}

// Q of the action that was taken becomes the reward and, unless the pole fell, what the copy says of the best next action.
static void build_learning(tn_program *p, tn_module *q, tn_module *copy) {
  tn_function *f = tn_function_begin(p, "learn");
  tn_tensor state = tn_input(f, "state", TN_F32, TN_SHAPE(BATCH, STATE));
  tn_tensor action = tn_input(f, "action", TN_I64, TN_SHAPE(BATCH, 1));
  tn_tensor next = tn_input(f, "next", TN_F32, TN_SHAPE(BATCH, STATE));
  tn_tensor goes_on = tn_input(f, "goes_on", TN_F32, TN_SHAPE(BATCH, 1));
  tn_tensor best = tn_argmax_axis(tn_call(q, next), 1, true);
  tn_tensor later = tn_mul(goes_on, tn_gather(tn_call(copy, next), 1, best));
  tn_tensor target = tn_stop_grad(tn_add_scalar(tn_mul_scalar(later, 0.99), 1));
  tn_tensor loss = tn_smooth_l1(tn_gather(tn_call(q, state), 1, action), target, 1);
  tn_backward(loss);
  tn_adam(f, q, .lr = 5e-4);
  tn_output(f, "loss", loss);
  tn_function_end(f);
}

// copy += 0.01 (q - copy)
static void build_follow(tn_program *p, tn_module *q, tn_module *copy) {
  static const char *const layer[] = {"0", "2", "4"}, *const name[] = {"weight", "bias"};
  tn_function *f = tn_function_begin(p, "follow");
  tn_no_grad_begin(f);
  for (int k = 0; k < 6; k++) {
    tn_tensor from = tn_param_value(f, tn_child(q, layer[k / 2]), name[k % 2]);
    tn_tensor to = tn_param_value(f, tn_child(copy, layer[k / 2]), name[k % 2]);
    tn_copy_(to, tn_lerp(to, from, tn_scalar(f, 0.01)));
  }
  tn_no_grad_end(f);
  tn_function_end(f);
}

static tn_program *build(void) {
  tn_program *p = tn_program_create("dqn");
  tn_module *q = make_net(tn_root(p), "online"), *copy = make_net(tn_root(p), "target");
  build_learning(p, q, copy), build_follow(p, q, copy);
  tn_function *f = tn_function_begin(p, "act");
  tn_output(f, "action", tn_argmax_axis(tn_call(q, tn_input(f, "state", TN_F32, TN_SHAPE(1, STATE))), -1, false));
  tn_function_end(f);
  return p;
}

// The cart, as in Gymnasium's CartPole-v1: position, speed, angle, angular speed; steps of 20 ms
static double draw(void) { return rand() / (RAND_MAX + 1.0); }
static void reset(float *s) {
  for (int k = 0; k < STATE; k++) s[k] = (float)(0.1 * draw() - 0.05);
}

// true: the pole stands, and the cart is on its track
static bool push(float *s, int64_t action) {
  const double gravity = 9.8, mass = 1.1, pole = 0.1, half = 0.5, dt = 0.02;
  double c = cos((double)s[2]), v = sin((double)s[2]), w = (double)s[3];
  double a = ((action ? 10.0 : -10.0) + pole * half * w * w * v) / mass;
  double turn = (gravity * v - c * a) / (half * (4.0 / 3 - pole * c * c / mass));
  double speed = a - pole * half * turn * c / mass, change[STATE] = {(double)s[1], speed, w, turn};
  for (int k = 0; k < STATE; k++) s[k] += (float)(dt * change[k]);
  return fabsf(s[0]) < 2.4f && fabsf(s[2]) < 0.20943951f;
}

static bool choose(tn_model *m, float *s, int64_t *action) {
  return !tn_run(m, "act", TN_IN(tn_f32(s, 1, STATE)), TN_OUT(tn_i64(action, 1)));
}

// Steps that the pole stands, of at most LONGEST, on the mean over new episodes without any chance; -1: a run failed
static double test(tn_model *m, int episodes) {
  float s[STATE];
  double sum = 0;
  int64_t action;
  for (int k = 0; k < episodes; k++) {
    reset(s);
    for (int t = 0; t < LONGEST; t++, sum++)
      if (!choose(m, s, &action)) return -1;
      else if (!push(s, action)) break;
  }
  return sum / episodes;
}

static struct {
  float state[STATE], next[STATE], goes_on;
  int64_t action;
} memory[MEMORY];

// A batch of what was seen; then the copy follows.
static bool learn(tn_model *m, int n, float *loss) {
  float state[BATCH][STATE], next[BATCH][STATE], goes_on[BATCH];
  int64_t action[BATCH];
  for (int k = 0; k < BATCH; k++) {
    int from = (int)(draw() * n);
    memcpy(state[k], memory[from].state, sizeof *state), memcpy(next[k], memory[from].next, sizeof *next);
    goes_on[k] = memory[from].goes_on, action[k] = memory[from].action;
  }
  const tn_array in[] = {tn_f32(state[0], BATCH, STATE), tn_i64(action, BATCH, 1), tn_f32(next[0], BATCH, STATE),
                         tn_f32(goes_on, BATCH, 1)};
  return !tn_run(m, "learn", in, 4, TN_OUT(tn_f32_scalar(loss))) && !tn_run(m, "follow", TN_NO_IN, TN_NO_OUT);
}

// Until ten episodes in a row stand for 475 steps on the mean, which counts as solved, or steps end; false: a run failed
static bool train(tn_model *m, int steps) {
  float s[STATE], loss = 0;
  double stood = 0;
  int64_t action = 0;
  reset(s);
  for (int k = 0, t = 0; k < steps && stood < 475; k++) {
    int to = k % MEMORY;
    memcpy(memory[to].state, s, sizeof s);
    if (draw() < (k < 5000 ? 1 - 0.95 * k / 5000 : 0.05)) action = rand() % ACTIONS;
    else if (!choose(m, s, &action)) return false;
    bool stands = push(s, memory[to].action = action);
    memcpy(memory[to].next, s, sizeof s), memory[to].goes_on = stands;
    if (!stands || ++t == LONGEST) reset(s), t = 0;
    if (k >= 1000 && !learn(m, k < MEMORY ? k : MEMORY, &loss)) return false;
    if ((k + 1) % TEST_EACH) continue;
    if ((stood = test(m, 10)) < 0) return false;
    printf("step %d: loss %.3f, the pole stands for %.0f steps\n", k + 1, loss, stood);
  }
  return true;
}

int main(int argc, char **argv) {
  long steps = 40000;
  const Argument list[] = {{"--steps", "N", "pushes that it learns from", .whole = &steps, .least = 1, .most = 1e9}};
  read_arguments(argc, argv, "learns to keep a pole upright", list, 1);
  tn_program *p = build();
  tn_model *m = tn_compile(p, .seed = 1);
  double stood = m && train(m, (int)steps) ? test(m, 100) : -1;
  if (stood < 0) fprintf(stderr, "dqn: %s\n", m ? tn_error_text(m) : "it does not compile");
  else printf("dqn: the pole stands for %.1f of %d steps, the mean of 100 new episodes\n", stood, LONGEST);
  tn_model_free(m), tn_program_free(p);
  return stood < 195;
}
