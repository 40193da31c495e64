// Every optimizer, schedule, accumulation and average against PyTorch: 20 steps within 1e-5 (tests/optimizer_goldens.txt, by
// make_optimizer_goldens.py), each with a guarded arena; resumed in the middle from a file with the same bits.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/golden_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 20, IN = 5, OUT = 3, BATCH = 4, N_WEIGHTS = OUT * IN + OUT };
enum { N_OPTIMIZERS = 24, N_SCHEDULES = 17, N_LATE = 4, N_CYCLED = 12 };
static const double metrics[STEPS] = {1.0, 0.9, 0.95, 0.91, 0.92, 0.93, 0.8, 0.8,  0.8,  0.8,
                                      0.8, 0.9, 0.9,  0.9,  0.9,  0.9,  0.7, 0.71, 0.72, 0.73};
static GoldenArrays goldens;

// Row `at` of a table of `rows` rows
static const double *golden_row(const char *table, uint32_t rows, uint32_t width, uint32_t at) {
  return golden_array(&goldens, table, rows * width) + at * width;
}

static float number(uint32_t k, uint32_t i) {
  return (float)((i * 2654435761u + k * 374761393u + 12345u) >> 8) / 8388608.0f - 1;
}

static void fill(float *x, uint32_t k, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) x[i] = number(k, i);
}

// ---- the step
typedef struct {
  tn_program *p;
  tn_function *f;
  tn_module *net;
} Step;

static tn_tensor begin(Step *s, tn_program *p) {
  s->p = p, s->net = tn_root(p);
  tn_module *fc = tn_linear(s->net, "fc", IN, OUT);
  s->f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(s->f, "x", TN_F32, TN_SHAPE(BATCH, IN));
  tn_tensor t = tn_input(s->f, "t", TN_F32, TN_SHAPE(BATCH, OUT));
  tn_tensor d = tn_sub(tn_call(fc, x), t);
  tn_tensor loss = tn_mean(tn_mul(d, d));
  tn_backward(loss);
  return loss;
}

static void end(Step *s, tn_tensor loss) {
  tn_output(s->f, "loss", loss);
  tn_function_end(s->f);
}

static void optimize(uint32_t way, tn_function *f, tn_module *m) {
  switch (way) {
  case 0: tn_sgd(f, m, .lr = 0.1, .weight_decay = 0.01); break;
  case 1: tn_sgd(f, m, .lr = 0.1, .momentum = 0.9, .dampening = 0.25); break;
  case 2: tn_sgd(f, m, .lr = 0.1, .momentum = 0.9, .nesterov = true, .maximize = true); break;
  case 3: tn_adam(f, m, .lr = 0.01, .weight_decay = 0.1); break;
  case 4: tn_adamw(f, m, .lr = 0.01, .weight_decay = 0.1); break;
  case 5: tn_adam(f, m, .lr = 0.01, .weight_decay = 0.1, .amsgrad = true); break;
  case 6: tn_adamw(f, m, .lr = 0.01, .beta1 = 0.8, .beta2 = 0.9, .amsgrad = true, .maximize = true); break;
  case 7: tn_rmsprop(f, m, .weight_decay = 0.1); break;
  case 8: tn_rmsprop(f, m, .alpha = 0.9, .momentum = 0.9); break;
  case 9: tn_rmsprop(f, m, .centered = true); break;
  case 10: tn_rmsprop(f, m, .centered = true, .momentum = 0.5, .eps = 1e-3); break;
  case 11: tn_adagrad(f, m, .lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.01); break;
  case 12: tn_adagrad(f, m, .initial_accumulator_value = 0.5); break;
  case 13: tn_adadelta(f, m, .weight_decay = 0.01); break;
  case 14: tn_adadelta(f, m, .lr = 0.5, .rho = 0.7, .eps = 1e-3); break;
  case 15: tn_adamax(f, m, .weight_decay = 0.01); break;
  case 16: tn_adamax(f, m, .lr = 0.05, .beta1 = 0.7, .beta2 = 0.9); break;
  case 17: tn_nadam(f, m, .weight_decay = 0.01); break;
  case 18:
    tn_nadam(f, m, .lr = 0.01, .momentum_decay = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true);
    break;
  case 19: tn_radam(f, m, .lr = 0.01, .weight_decay = 0.01); break;
  case 20: tn_radam(f, m, .lr = 0.01, .beta2 = 0.95, .weight_decay = 0.1, .decoupled_weight_decay = true); break;
  case 21: tn_lion(f, m, .lr = 0.01, .weight_decay = 0.1); break;
  case 22: tn_lamb(f, m, .lr = 0.01, .weight_decay = 0.1); break;
  default: tn_lamb(f, m, .lr = 0.05);
  }
}

// ---- running
static tn_model *started(tn_model *m) {
  float w[OUT * IN], b[OUT];
  fill(w, 0, OUT * IN), fill(b, 1, OUT);
  CHECK(m && tn_set(m, "fc.weight", w, OUT * IN) == TN_OK && tn_set(m, "fc.bias", b, OUT) == TN_OK);
  return m;
}

static tn_model *compiled(Step *s) { return started(tn_compile(s->p)); }

static void run(tn_model *m, uint32_t from, uint32_t to) {
  for (uint32_t k = from; m && k < to; k++) {
    float x[BATCH * IN], t[BATCH * OUT], loss;
    fill(x, 2 + 2 * k, BATCH * IN), fill(t, 3 + 2 * k, BATCH * OUT);
    CHECK(tn_run(m, "step", TN_IN(tn_f32(x, BATCH, IN), tn_f32(t, BATCH, OUT)), TN_OUT(tn_f32_scalar(&loss))) == TN_OK);
  }
}

static void weights(tn_model *m, const char *prefix, float *out) {
  char path[64];
  snprintf(path, sizeof path, "%sfc.weight", prefix);
  CHECK(tn_get(m, path, out, OUT * IN) == TN_OK);
  snprintf(path, sizeof path, "%sfc.bias", prefix);
  CHECK(tn_get(m, path, out + OUT * IN, OUT) == TN_OK);
}

static void check_weights(const char *what, uint32_t way, tn_model *m, const char *prefix, const double *expected) {
  float found[N_WEIGHTS];
  if (!m) return;
  weights(m, prefix, found);
  double scale = 0;
  for (uint32_t k = 0; k < N_WEIGHTS; k++) scale = fmax(scale, fabs(expected[k]));
  for (uint32_t k = 0; k < N_WEIGHTS; k++) {
    bool near = fabs(found[k] - expected[k]) <= 1e-5 * scale;
    if (!near) fprintf(stderr, "%s %u: weight %u is %.9g, expected %.9g\n", what, way, k, found[k], expected[k]);
    if (!CHECK(near)) return;
  }
}

static void close_all(Step *s, tn_model *m) {
  tn_model_free(m);
  tn_program_free(s->p);
}

// Saved after `half` runs, loaded into a model of its own: the bits at the end are the same.
static void check_resume(tn_model *whole, uint32_t half) {
  char path[] = "/tmp/tenure_optimizers_XXXXXX", name[96];
  int file = mkstemp(path);
  if (!CHECK(file >= 0)) return;
  close(file);
  snprintf(name, sizeof name, "%s.safetensors", path);
  tn_model *first = started(tn_instance(whole, 1)), *second = tn_instance(whole, 2);
  run(first, 0, half);
  CHECK(first && tn_save(first, name, true) == TN_OK && second && tn_load(second, name, true) == TN_OK);
  run(second, half, STEPS);
  float a[N_WEIGHTS], b[N_WEIGHTS];
  weights(whole, "", a), weights(second, "", b);
  CHECK(!memcmp(a, b, sizeof a));
  tn_model_free(first), tn_model_free(second);
  unlink(path), unlink(name);
}

static void test_optimizer(uint32_t way) {
  Step s;
  tn_tensor loss = begin(&s, tn_program_create("optimizer"));
  optimize(way, s.f, s.net);
  end(&s, loss);
  tn_model *m = compiled(&s);
  run(m, 0, STEPS);
  check_weights("optimizer", way, m, "", golden_row("after", N_OPTIMIZERS, N_WEIGHTS, way));
  if (m) check_resume(m, STEPS / 2);
  close_all(&s, m);
}

// ---- schedules
static tn_tensor inverse(tn_tensor epoch, void *ctx) {
  (void)ctx;
  tn_tensor one = tn_full(epoch.fn, 1, TN_SCALAR);
  return tn_div(one, tn_add(epoch, one));
}

static tn_schedule *sequential(tn_program *p) {
  tn_schedule *warm = tn_linear_lr(p, "warm", .start_factor = 0.25, .total_iters = 4);
  return tn_sequential_lr(p, "both", warm, tn_cosine_annealing_lr(p, "fall", .t_max = 12), 4);
}

static tn_schedule *schedule(uint32_t way, tn_program *p) {
  static const double milestones[] = {3, 7, 7, 15};
  switch (way) {
  case 0: return tn_step_lr(p, "s", .step_size = 6);
  case 1: return tn_multi_step_lr(p, "s", .milestones = milestones, .n_milestones = 4, .gamma = 0.5);
  case 2: return tn_exponential_lr(p, "s", .gamma = 0.9);
  case 3: return tn_polynomial_lr(p, "s", .total_iters = 12, .power = 2.5);
  case 4: return tn_linear_lr(p, "s", .start_factor = 0.1, .end_factor = 0.8, .total_iters = 9);
  case 5: return tn_constant_lr(p, "s");
  case 6: return tn_cosine_annealing_lr(p, "s", .t_max = 8, .eta_min = 0.01);
  case 7: return tn_cosine_annealing_warm_restarts(p, "s", .t_0 = 4, .t_mult = 2, .eta_min = 0.01);
  case 8: return tn_cosine_annealing_warm_restarts(p, "s", .t_0 = 6);
  case 9: return tn_one_cycle_lr(p, "s", .max_lr = 0.1, .total_steps = STEPS + 1, .no_cycle_momentum = true);
  case 10:
    return tn_one_cycle_lr(p, "s", .max_lr = 0.1, .total_steps = STEPS + 1, .linear = true, .three_phase = true,
                           .no_cycle_momentum = true);
  case 11:
    return tn_cyclic_lr(p, "s", .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 4, .step_size_down = 3,
                        .no_cycle_momentum = true);
  case 12:
    return tn_cyclic_lr(p, "s", .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 3, .triangular2 = true,
                        .no_cycle_momentum = true);
  case 13:
    return tn_cyclic_lr(p, "s", .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 3, .exp_range = true, .gamma = 0.9,
                        .no_cycle_momentum = true);
  case 14: return sequential(p);
  case 15: return tn_lambda_lr(p, "s", inverse, NULL);
  default: return tn_reduce_lr_on_plateau(p, "s", .factor = 0.5, .patience = 2, .cooldown = 1, .min_lr = 0.02);
  }
}

static void plateau_function(Step *s, tn_schedule *rate) {
  tn_function *f = tn_function_begin(s->p, "epoch");
  tn_plateau_step(f, rate, tn_input(f, "metric", TN_F32, TN_SCALAR));
  tn_function_end(f);
}

static void test_schedule(uint32_t way) {
  bool is_plateau = way == N_SCHEDULES - 1;
  Step s;
  tn_tensor loss = begin(&s, tn_program_create("schedule"));
  tn_schedule *rate = schedule(way, s.p);
  tn_sgd(s.f, s.net, .lr = 0.1, .schedule = rate);
  if (!is_plateau) tn_schedule_step(s.f, rate);
  end(&s, loss);
  if (is_plateau) plateau_function(&s, rate);
  tn_model *m = compiled(&s);
  for (uint32_t k = 0; m && k < STEPS; k++) {
    float found = 0, metric = (float)metrics[k];
    double want = golden_row("rates", N_SCHEDULES, STEPS, way)[k];
    run(m, k, k + 1);
    CHECK(tn_get(m, "optimizer.last_lr", &found, 1) == TN_OK);
    bool near = fabs(found - want) <= 1e-6 * want + 1e-9;
    if (!near) fprintf(stderr, "schedule %u: rate %u is %.9g, expected %.9g\n", way, k, found, want);
    if (!CHECK(near)) break;
    if (is_plateau) CHECK(tn_run(m, "epoch", TN_IN(tn_f32_scalar(&metric)), TN_NO_OUT) == TN_OK);
  }
  if (m && !is_plateau) check_resume(m, STEPS / 2);
  close_all(&s, m);
}

// ---- momentum that goes against the rate

static void cycle(uint32_t way, Step *s) {
  tn_function *f = s->f;
  tn_module *m = s->net;
  tn_schedule *one = way == 0 || way == 3 || (way >= 6 && way != 9)
                         ? tn_one_cycle_lr(s->p, "s", .max_lr = 0.1, .total_steps = STEPS + 1)
                         : NULL;
  switch (way) {
  case 0: tn_sgd(f, m, .lr = 0.1, .momentum = 0.9, .schedule = one); break;
  case 1:
    one = tn_one_cycle_lr(s->p, "s", .max_lr = 0.1, .total_steps = STEPS + 1, .linear = true, .three_phase = true);
    tn_sgd(f, m, .lr = 0.1, .schedule = one);
    break;
  case 2:
    one = tn_cyclic_lr(s->p, "s", .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 3, .triangular2 = true,
                       .base_momentum = 0.7, .max_momentum = 0.85);
    tn_sgd(f, m, .lr = 0.1, .momentum = 0.5, .nesterov = true, .schedule = one);
    break;
  case 3: tn_adamw(f, m, .lr = 0.01, .weight_decay = 0.1, .schedule = one); break;
  case 4:
    one = tn_one_cycle_lr(s->p, "s", .max_lr = 0.1, .total_steps = STEPS + 1, .three_phase = true, .base_momentum = 0.6,
                          .max_momentum = 0.9);
    tn_adam(f, m, .lr = 0.01, .weight_decay = 0.1, .schedule = one);
    break;
  case 5:
    one = tn_cyclic_lr(s->p, "s", .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 4, .step_size_down = 3,
                       .exp_range = true, .gamma = 0.9);
    tn_adam(f, m, .lr = 0.01, .beta2 = 0.95, .amsgrad = true, .schedule = one);
    break;
  case 6: tn_rmsprop(f, m, .lr = 0.01, .momentum = 0.5, .centered = true, .schedule = one); break;
  case 7: tn_nadam(f, m, .lr = 0.01, .momentum_decay = 0.1, .weight_decay = 0.1, .schedule = one); break;
  case 8:
    tn_radam(f, m, .lr = 0.01, .beta2 = 0.95, .weight_decay = 0.1, .decoupled_weight_decay = true, .schedule = one);
    break;
  case 9:
    one = tn_cyclic_lr(s->p, "s", .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 4, .step_size_down = 3,
                       .exp_range = true, .gamma = 0.9);
    tn_adamax(f, m, .lr = 0.05, .weight_decay = 0.01, .schedule = one);
    break;
  case 10: tn_lion(f, m, .lr = 0.01, .weight_decay = 0.1, .schedule = one); break;
  default: tn_lamb(f, m, .lr = 0.01, .weight_decay = 0.1, .schedule = one);
  }
  tn_schedule_step(f, one);
}

static void test_cycled(uint32_t way) {
  const char *path = way >= 3 && way != 6 ? "optimizer.last_beta1" : "optimizer.last_momentum";
  Step s;
  tn_tensor loss = begin(&s, tn_program_create("cycled"));
  cycle(way, &s);
  end(&s, loss);
  tn_model *m = compiled(&s);
  const double *momentum = golden_row("momenta", N_CYCLED, STEPS, way);
  for (uint32_t k = 0; m && k < STEPS; k++) {
    float found = 0;
    run(m, k, k + 1);
    CHECK(tn_get(m, path, &found, 1) == TN_OK);
    bool near = fabs(found - momentum[k]) <= 1e-6;
    if (!near) fprintf(stderr, "cycled %u: %u is %.9g, expected %.9g\n", way, k, found, momentum[k]);
    if (!CHECK(near)) break;
  }
  check_weights("cycled", way, m, "", golden_row("cycled", N_CYCLED, N_WEIGHTS, way));
  if (m) check_resume(m, STEPS / 2);
  close_all(&s, m);
}

// Before a cycle that begins behind a milestone the optimizer's own momentum holds.
static void test_cycled_later(void) {
  Step s;
  tn_tensor loss = begin(&s, tn_program_create("later"));
  tn_schedule *warm = tn_linear_lr(s.p, "warm"),
              *cyclic = tn_cyclic_lr(s.p, "cyclic", .max_lr = 0.2, .step_size_up = 2);
  tn_schedule *both = tn_sequential_lr(s.p, "both", warm, cyclic, 2);
  static const float expected[] = {0.5F, 0.5F, 0.9F, 0.85F, 0.8F, 0.85F};
  tn_sgd(s.f, s.net, .lr = 0.1, .momentum = 0.5, .schedule = both);
  tn_schedule_step(s.f, both);
  end(&s, loss);
  tn_model *m = compiled(&s);
  for (uint32_t k = 0; m && k < sizeof expected / sizeof *expected; k++) {
    float found = 0;
    run(m, k, k + 1);
    CHECK(tn_get(m, "optimizer.last_momentum", &found, 1) == TN_OK && fabsf(found - expected[k]) < 1e-6F);
  }
  close_all(&s, m);
}

// Counts of up to millions: the rate follows from the count alone, so that it can be set.
static void test_late(uint32_t way) {
  static const float at[] = {999000, 333333, 500000, 2999000};
  Step s;
  tn_tensor loss = begin(&s, tn_program_create("late"));
  tn_schedule *rate = way < 2    ? tn_cosine_annealing_lr(s.p, "s", .t_max = 1000000)
                      : way == 2 ? tn_exponential_lr(s.p, "s", .gamma = 0.99999)
                                 : tn_polynomial_lr(s.p, "s", .total_iters = 3000000, .power = 2);
  tn_sgd(s.f, s.net, .lr = 0.1, .schedule = rate);
  tn_schedule_step(s.f, rate);
  end(&s, loss);
  tn_model *m = compiled(&s);
  float found = 0;
  double want = golden_array(&goldens, "late_rates", N_LATE)[way];
  if (m) CHECK(tn_set(m, "optimizer.schedule.s.last_epoch", &at[way], 1) == TN_OK);
  run(m, 0, 1);
  if (m) CHECK(tn_get(m, "optimizer.last_lr", &found, 1) == TN_OK);
  if (!CHECK(fabs(found - want) <= 1e-5 * want)) fprintf(stderr, "late %u: %.9g, expected %.9g\n", way, found, want);
  close_all(&s, m);
}

// ---- accumulation
static void clip_and_update(tn_function *f, tn_module *net, double clip) {
  tn_clip_grad_norm(f, net, clip);
  tn_adamw(f, net, .lr = 0.01, .weight_decay = 0.1);
}

static void test_accumulate(uint32_t way) {
  const uint32_t n = way ? 4 : 3;
  const double clip = way ? 1 : 0.05;
  Step s;
  tn_tensor loss = begin(&s, tn_program_create("accumulate"));
  tn_accumulate(s.f, s.net, n);
  clip_and_update(s.f, s.net, clip);
  end(&s, loss);
  tn_function *flush = tn_function_begin(s.p, "flush");
  tn_accumulate_flush(flush, s.net);
  clip_and_update(flush, s.net, clip);
  tn_function_end(flush);
  tn_model *m = compiled(&s);
  run(m, 0, STEPS);
  if (m) check_resume(m, 10);  // between two updates
  float left = -1, steps = 0;
  if (m) CHECK(tn_get(m, "optimizer.accumulated", &left, 1) == TN_OK && left == STEPS % n);
  for (uint32_t k = 0; m && k < 2; k++)
    CHECK(tn_run(m, "flush", TN_NO_IN, TN_NO_OUT) == TN_OK);  // the second has nothing
  check_weights("accumulated", way, m, "", golden_row("accumulated", 2, N_WEIGHTS, way));
  if (m) CHECK(tn_get(m, "optimizer.step.fc.bias", &steps, 1) == TN_OK && steps == (STEPS + n - 1) / n);
  close_all(&s, m);
}

// ---- averages
static void test_average(bool is_swa) {
  Step s;
  tn_tensor loss = begin(&s, tn_program_create("average"));
  tn_adamw(s.f, s.net, .lr = 0.01, .weight_decay = 0.1);
  if (is_swa) tn_swa(s.f, s.net);
  else tn_ema(s.f, s.net, .decay = 0.9);
  end(&s, loss);
  tn_function *f = tn_function_begin(s.p, "eval");
  if (is_swa) tn_use_swa(f, s.net);
  else tn_use_ema(f, s.net);
  tn_output(f, "bias", tn_neg(tn_param_value(f, tn_root(s.p), "fc.bias")));
  tn_function_end(f);
  tn_model *m = compiled(&s);
  const double *average = golden_row("averaged", 2, N_WEIGHTS, is_swa);
  float bias[OUT];
  run(m, 0, STEPS);
  check_weights("average", is_swa, m, is_swa ? "optimizer.swa." : "optimizer.ema.", average);
  if (m) CHECK(tn_run(m, "eval", TN_NO_IN, TN_OUT(tn_f32(bias, OUT))) == TN_OK);
  for (uint32_t k = 0; m && k < OUT; k++) CHECK(fabs(bias[k] + average[OUT * IN + k]) < 1e-5);
  if (m) check_resume(m, STEPS / 2);
  close_all(&s, m);
}

// ---- groups: numbers of their own, clipped by themselves
static void test_groups(void) {
  Step s;
  tn_tensor loss = begin(&s, tn_program_create("groups"));
  tn_group(s.net, 1, "**/bias", .lr = 0.02, .beta1 = 0.5, .eps = 1e-3,
           .schedule = tn_step_lr(s.p, "s", .step_size = 1));
  tn_clip_group_norm(s.f, s.net, 1, 0.1);
  tn_clip_group_value(s.f, s.net, 0, 0.1);
  tn_adamw(s.f, s.net, .lr = 0.01);
  end(&s, loss);
  tn_model *m = compiled(&s);
  float lr = 0;
  run(m, 0, 1);
  if (m) CHECK(tn_get(m, "optimizer.last_lr.1", &lr, 1) == TN_OK && fabs(lr - 0.02) < 1e-8);
  close_all(&s, m);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  goldens = golden_arrays(mem, "tests/optimizer_goldens");
  setenv("TN_CHECK", "arena", 1);
  for (uint32_t k = 0; k < N_OPTIMIZERS; k++) test_optimizer(k);
  for (uint32_t k = 0; k < N_SCHEDULES; k++) test_schedule(k);
  for (uint32_t k = 0; k < N_CYCLED; k++) test_cycled(k);
  test_cycled_later();
  for (uint32_t k = 0; k < N_LATE; k++) test_late(k);
  for (uint32_t k = 0; k < 2; k++) test_accumulate(k);
  for (uint32_t k = 0; k < 2; k++) test_average(k);
  test_groups();
  rt_arena_free(mem);
  return check_report();
}
