// Calls every function of net on inputs that it draws, and compares with what the compiler's machine got:
//
//   cc net_selftest.c net.o -o net_selftest && ./net_selftest
//
// Status 0: all is as there, bit by bit on the same target, within a tolerance on others. Written by the compiler.
#include "net.h"

#include <stdio.h>
#include <string.h>

#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
static net_state state;
static NET_ALIGNED unsigned char arena[MAX_OF(NET_ARENA_BYTES, 1)];
static float in0_x[48];
static int64_t in0_label[8];
static float out0_loss[1];
static float in1_x[48];
static float out1_y[24];

// ---- inputs
static uint64_t random_state;
static uint32_t next(void) {  // splitmix64
  uint64_t z = random_state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uint32_t)(z >> 32);
}

static void draw_f32(float *to, int64_t n) {
  for (int64_t k = 0; k < n; k++) to[k] = (float)(next() >> 8) / 8388608.0f - 1;
}

// What elements may be; of each `group` it is about those in [first, first + size), group 0: about all
typedef struct {
  int64_t lo, last, group, first, size;
  int is_sorted;
} range;
static void draw_i64(int64_t *to, int64_t n, const range *r, int n_ranges) {
  for (int64_t k = 0; k < n; k++) {
    int64_t lo = 0, last = 7;
    for (int i = 0; i < n_ranges; i++) {
      int64_t at = r[i].group ? k % r[i].group - r[i].first : k;
      if (r[i].group && (at < 0 || at >= r[i].size)) continue;
      lo = r[i].lo, last = r[i].last;
      if (r[i].is_sorted && at > 0 && to[k - 1] < last) last = to[k - 1];
    }
    to[k] = lo > last ? lo : lo + (int64_t)(next() % (uint64_t)(last - lo + 1));
  }
}

// ---- results: bits by a checksum, values by weighted sums
static int n_failed, n_other_bits;
static int called(const char *what, int status) {
  if (!status) return 1;
  n_failed++;
  printf("%s: %s\n", what, net_error(status));
  return 0;
}

typedef struct {
  uint64_t checksum;
  double sum, norm;
} result;
static void add_value(result *s, int64_t at, double v) {
  s->sum += v * (double)(1 + at % 7);
  s->norm += (v < 0 ? -v : v) * (double)(1 + at % 7);
}
static void add_word(result *s, uint32_t word) { s->checksum = (s->checksum ^ word) * 0x100000001b3u; }

static void compare(const char *what, const result *got, const result *wanted) {
  double apart = got->sum - wanted->sum;
  if (got->checksum == wanted->checksum) return;
  n_other_bits++;
  if ((apart < 0 ? -apart : apart) <= 1e-3 * wanted->norm + 1e-4) return;
  n_failed++;
  printf("%s: a sum of %.9g, and %.9g is expected\n", what, got->sum, wanted->sum);
}

static void expect_f32(const char *what, const void *data, int64_t n, uint64_t checksum, double sum, double norm) {
  result got = {0xcbf29ce484222325u, 0, 0}, wanted = {checksum, sum, norm};
  for (int64_t k = 0; k < n; k++) {
    uint32_t word;
    float v;
    memcpy(&word, (const char *)data + 4 * k, 4);
    memcpy(&v, &word, 4);
    add_word(&got, word);
    add_value(&got, k, v);
  }
  compare(what, &got, &wanted);
}

// ---- calls
static void run_0(void) {
  net_step_in in;
  net_step_out out;
  in.batch = 2;
  in.x = in0_x;
  in.label = in0_label;
  out.loss = out0_loss;
  memset(out0_loss, 0, sizeof out0_loss);
  random_state = 0;
  draw_f32(in0_x, 12);
  static const range range_1[] = {{0, 2, 0, 0, 0, 0}};
  draw_i64(in0_label, 2, range_1, 1);
  if (!called("step", net_step(&state, arena, sizeof arena, &in, &out))) return;
  expect_f32("call 1, step: loss", out0_loss, 1, 0x42c16baaf569e689u, 1.1846911907196045, 1.1846911907196045);
}

static void run_1(void) {
  net_step_in in;
  net_step_out out;
  in.batch = 8;
  in.x = in0_x;
  in.label = in0_label;
  out.loss = out0_loss;
  memset(out0_loss, 0, sizeof out0_loss);
  random_state = 1;
  draw_f32(in0_x, 48);
  static const range range_1[] = {{0, 2, 0, 0, 0, 0}};
  draw_i64(in0_label, 8, range_1, 1);
  if (!called("step", net_step(&state, arena, sizeof arena, &in, &out))) return;
  expect_f32("call 2, step: loss", out0_loss, 1, 0x39b4bfaae6095e45u, 1.1120302677154541, 1.1120302677154541);
}

static void run_2(void) {
  net_step_in in;
  net_step_out out;
  in.batch = 2;
  in.x = in0_x;
  in.label = in0_label;
  out.loss = out0_loss;
  memset(out0_loss, 0, sizeof out0_loss);
  random_state = 2;
  draw_f32(in0_x, 12);
  static const range range_1[] = {{0, 2, 0, 0, 0, 0}};
  draw_i64(in0_label, 2, range_1, 1);
  if (!called("step", net_step(&state, arena, sizeof arena, &in, &out))) return;
  expect_f32("call 3, step: loss", out0_loss, 1, 0x44047daaf78ede1fu, 1.1631088256835938, 1.1631088256835938);
}

static void run_3(void) {
  net_predict_in in;
  net_predict_out out;
  in.batch = 2;
  in.x = in1_x;
  out.y = out1_y;
  memset(out1_y, 0, sizeof out1_y);
  random_state = 3;
  draw_f32(in1_x, 12);
  if (!called("predict", net_predict(&state, arena, sizeof arena, &in, &out))) return;
  expect_f32("call 4, predict: y", out1_y, 6, 0xc14e3dbf7c29360eu, -0.035337254405021667, 2.3211165219545364);
}

static void run_4(void) {
  net_predict_in in;
  net_predict_out out;
  in.batch = 8;
  in.x = in1_x;
  out.y = out1_y;
  memset(out1_y, 0, sizeof out1_y);
  random_state = 4;
  draw_f32(in1_x, 48);
  if (!called("predict", net_predict(&state, arena, sizeof arena, &in, &out))) return;
  expect_f32("call 5, predict: y", out1_y, 24, 0xda2456258a36dc67u, -3.2214747741818428, 13.071594052016735);
}

static void expect_state(void) {
  expect_f32("state.hidden_weight", &state.hidden_weight, 96, 0xf94ce1b98859c780u, 5.670763882342726, 71.864962694700807);
  expect_f32("state.hidden_bias", &state.hidden_bias, 16, 0x9c89468ab224da35u, 0.79847871884703636, 10.679499384015799);
  expect_f32("state.head_weight", &state.head_weight, 48, 0x1c06537a624ec5bbu, 0.29562480933964252, 21.607304574921727);
  expect_f32("state.head_bias", &state.head_bias, 3, 0xaba99ba4137b95ccu, -0.56335665285587311, 0.72003932297229767);
  expect_f32("state.optimizer_lr", &state.optimizer_lr, 1, 0x8f34c7a4ab51ebddu, 0.0099999997764825821, 0.0099999997764825821);
  expect_f32("state.optimizer_weight_decay", &state.optimizer_weight_decay, 1, 0xaf63bd4c8601b7dfu, 0, 0);
  expect_f32("state.optimizer_exp_avg_hidden_weight", &state.optimizer_exp_avg_hidden_weight, 96, 0xeec27ffdbd275003u, -0.0010213578298134962, 1.1316396184647601);
  expect_f32("state.optimizer_exp_avg_sq_hidden_weight", &state.optimizer_exp_avg_sq_hidden_weight, 96, 0xa5f664f3d7efafe3u, 0.00065881787343530229, 0.00065881787343530229);
  expect_f32("state.optimizer_step_hidden_weight", &state.optimizer_step_hidden_weight, 1, 0xef63bdb9b2c1b7dfu, 3, 3);
  expect_f32("state.optimizer_lr_7", &state.optimizer_lr_7, 1, 0x8f34c7a4ab51ebddu, 0.0099999997764825821, 0.0099999997764825821);
  expect_f32("state.optimizer_weight_decay_7", &state.optimizer_weight_decay_7, 1, 0xaf63bd4c8601b7dfu, 0, 0);
  expect_f32("state.optimizer_exp_avg_hidden_bias", &state.optimizer_exp_avg_hidden_bias, 16, 0x7f6199e25690b126u, -0.050189080880954862, 0.31407375051639974);
  expect_f32("state.optimizer_exp_avg_sq_hidden_bias", &state.optimizer_exp_avg_sq_hidden_bias, 16, 0xd53a4eb48eacd2bdu, 0.00027779741613187525, 0.00027779741613187525);
  expect_f32("state.optimizer_exp_avg_head_weight", &state.optimizer_exp_avg_head_weight, 48, 0xcb51b927dc3c494cu, -0.14285245851351647, 1.5104647382468102);
  expect_f32("state.optimizer_exp_avg_sq_head_weight", &state.optimizer_exp_avg_sq_head_weight, 48, 0xd73152a97827c0edu, 0.0032265883644222032, 0.0032265883644222032);
  expect_f32("state.optimizer_exp_avg_head_bias", &state.optimizer_exp_avg_head_bias, 3, 0xc9858ad8b6b33c25u, -0.16771604865789413, 0.46927506476640701);
  expect_f32("state.optimizer_exp_avg_sq_head_bias", &state.optimizer_exp_avg_sq_head_bias, 3, 0xd008be43d0b2fe8au, 0.0036849369353149086, 0.0036849369353149086);
}

int main(void) {
  if (net_cpu() < 0 || !called("init", net_init(&state, 7))) {
    printf("net selftest: this CPU cannot run it\n");
    return 1;
  }
  run_0();
  run_1();
  run_2();
  run_3();
  run_4();
  expect_state();
  if (n_failed) printf("net selftest: %d failed\n", n_failed);
  else if (n_other_bits) printf("net selftest: passed, %d results with other bits\n", n_other_bits);
  else printf("net selftest: passed\n");
  return n_failed != 0;
}
