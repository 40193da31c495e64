// What a caller of a bundle can get wrong, against the object itself: a status with a sentence, and nothing is written.
// Compiled by tests/test_bundle_object.sh with the headers of two bundles.
//
//   bundle_misuse spiral.safetensors vowels.safetensors
#include "spiral.h"
#include "vowels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, TIME = 4, FEATURES = 12, FILL = 0x5a };

static vowels_state state, before;
VOWELS_ALIGNED static unsigned char arena[VOWELS_ARENA_BYTES + 64];
static float x[BATCH * TIME * FEATURES + 1], loss, correct;
static int64_t lengths[BATCH] = {4, 1, 2}, label[BATCH] = {0, 8, 4};
static int n_failed;

static void failed(int line, const char *what, const char *more) {
  printf("bundle_misuse.c:%d: %s: %s\n", line, what, more);
  n_failed++;
}

static void check(int line, int status, const char *part) {
  float filled;
  memset(&filled, FILL, sizeof filled);
  if (!status) failed(line, "not refused", part);
  if (!strstr(vowels_error(status), part)) failed(line, "the sentence", vowels_error(status));
  if (memcmp(&state, &before, sizeof state)) failed(line, "the state changed", part);
  if (memcmp(&loss, &filled, sizeof loss) || memcmp(&correct, &filled, sizeof correct))
    failed(line, "an output changed", part);
}

static vowels_train_step_in good(void) {
  return (vowels_train_step_in){.batch = BATCH, .time = TIME, .x = x, .lengths = lengths, .label = label};
}

static int step_in(void *at, void *memory, size_t bytes, const vowels_train_step_in *in) {
  vowels_train_step_out out = {.loss = &loss, .correct = &correct};
  memset(&loss, FILL, sizeof loss), memset(&correct, FILL, sizeof correct);
  return vowels_train_step(at, memory, bytes, in, &out);
}

static int step(vowels_train_step_in in) { return step_in(&state, arena, VOWELS_TRAIN_STEP_ARENA_BYTES, &in); }

#define REFUSED(call, part) check(__LINE__, call, part)
#define WITH(change) (in = good(), in.change, step(in))

static void regions(void) {
  vowels_train_step_in in = good();
  const size_t n = VOWELS_TRAIN_STEP_ARENA_BYTES;
  REFUSED(step_in(NULL, arena, n, &in), "state is NULL or not aligned");
  REFUSED(step_in((char *)&state + 4, arena, n, &in), "state is NULL or not aligned");
  REFUSED(step_in(&state, NULL, n, &in), "arena is NULL or not aligned");
  REFUSED(step_in(&state, arena + 4, n, &in), "arena is NULL or not aligned");
  REFUSED(step_in(&state, arena, n - 1, &in), "fewer bytes");
  REFUSED(step_in(&state, &state, n, &in), "overlaps the state");
  REFUSED(step_in(&state, arena, n, NULL), "is NULL");
  REFUSED(vowels_train_step(&state, arena, n, &in, NULL), "is NULL");
  static vowels_state fresh;
  REFUSED(step_in(&fresh, arena, n, &in), "was not initialised");
  static spiral_state other;
  if (spiral_init(&other, 1)) failed(__LINE__, "spiral_init", "");
  static vowels_state copy;
  memcpy(&copy, &other, sizeof other < sizeof copy ? sizeof other : sizeof copy);
  REFUSED(step_in(&copy, arena, n, &in), "was not initialised by this bundle");
}

static void arguments(void) {
  vowels_train_step_in in;
  REFUSED(WITH(batch = VOWELS_BATCH_MAX + 1), "batch is not in 0 .. 30");
  REFUSED(WITH(batch = -1), "batch is not in 0 .. 30");
  REFUSED(WITH(time = VOWELS_TIME_MAX + 1), "time is not in 0 .. 29");
  REFUSED(WITH(time = INT64_MIN), "time is not in");
  REFUSED(WITH(x = NULL), "'x' is NULL");
  REFUSED(WITH(x = (const float *)(const void *)((const char *)x + 1)), "'x' is not aligned");
  REFUSED(WITH(x = (const float *)(const void *)(arena + 64)), "'x' overlaps the arena");
  REFUSED(WITH(x = state.rnn_weight_hh_l0[0]), "which the call updates");
  REFUSED(WITH(lengths = NULL), "'lengths' is NULL");
  vowels_train_step_out out = {.loss = &loss, .correct = NULL};
  in = good();
  REFUSED(vowels_train_step(&state, arena, sizeof arena, &in, &out), "'correct' is NULL");
  out.correct = &loss;
  REFUSED(vowels_train_step(&state, arena, sizeof arena, &in, &out), "overlaps an input, another output");
  out.correct = &state.head_bias[0];
  REFUSED(vowels_train_step(&state, arena, sizeof arena, &in, &out), "overlaps an input, another output, the state");
}

static void values(void) {
  static const int64_t bad_lengths[] = {0, TIME + 1, -1, INT64_MAX, INT64_MIN},
                       bad_labels[] = {9, -1, INT64_MAX, INT64_MIN};
  for (size_t k = 0; k < sizeof bad_lengths / sizeof *bad_lengths; k++) {
    int64_t kept = lengths[k % BATCH];
    lengths[k % BATCH] = bad_lengths[k];
    REFUSED(step(good()), "a length is not in 1 .. time");
    lengths[k % BATCH] = kept;
  }
  for (size_t k = 0; k < sizeof bad_labels / sizeof *bad_labels; k++) {
    int64_t kept = label[k % BATCH];
    label[k % BATCH] = bad_labels[k];
    REFUSED(step(good()), "a label is not in 0 .. 8");
    label[k % BATCH] = kept;
  }
}

// ---- files
static unsigned char *read_file(const char *path, size_t *n) {
  static unsigned char bytes[2][1 << 20];
  static int which;
  unsigned char *to = bytes[which++ % 2];
  FILE *f = fopen(path, "rb");
  if (!f) return printf("%s cannot be read\n", path), exit(2), NULL;
  *n = fread(to, 1, sizeof bytes[0], f);
  fclose(f);
  return to;
}

static void files(const char *other, const char *own) {
  size_t n_other, n_own, needed = 1;
  unsigned char *of_other = read_file(other, &n_other), *of_own = read_file(own, &n_own);
  REFUSED(vowels_load(&state, of_other, n_other), "the file has no tensor");
  REFUSED(vowels_load(&state, NULL, 0), "");
  REFUSED(vowels_load(&state, of_own, 7), "not a safetensors file");
  REFUSED(vowels_load(&state, of_own, n_own - 1), "ends before");
  REFUSED(vowels_save(&state, of_other, VOWELS_FILE_BYTES - 1, &needed), "fewer bytes");
  if (needed != VOWELS_FILE_BYTES) failed(__LINE__, "bytes needed", "");
  if (vowels_load(&state, of_own, n_own)) failed(__LINE__, "its own file", "is refused");
  if (vowels_save(&state, of_other, VOWELS_FILE_BYTES, NULL)) failed(__LINE__, "vowels_save", "fails");
  before = state;
  if (vowels_init(&state, 99) || vowels_load(&state, of_other, VOWELS_FILE_BYTES)) failed(__LINE__, "round trip", "");
  if (memcmp(&state, &before, sizeof state)) failed(__LINE__, "round trip", "other bytes");
}

// ---- two instances in two threads
typedef struct {
  vowels_state state;
  VOWELS_ALIGNED unsigned char arena[VOWELS_ARENA_BYTES];
} instance;
static instance instances[2];

static void *train(void *at) {
  instance *i = at;
  float of[2];
  vowels_train_step_in in = good();
  for (int k = 0; k < 20; k++)
    if (vowels_train_step(&i->state, i->arena, sizeof i->arena, &in, &(vowels_train_step_out){&of[0], &of[1]}))
      return at;
  return NULL;
}

static void threads(void) {
  pthread_t thread[2];
  for (int k = 0; k < 2; k++)
    if (vowels_init(&instances[k].state, 3) || pthread_create(&thread[k], NULL, train, &instances[k])) exit(2);
  for (int k = 0; k < 2; k++) {
    void *result;
    pthread_join(thread[k], &result);
    if (result) failed(__LINE__, "a thread's call", "fails");
  }
  if (memcmp(&instances[0].state, &instances[1].state, sizeof state)) failed(__LINE__, "two instances", "differ");
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  if (vowels_init(&state, 1)) return 2;
  for (int k = 0; k < BATCH * TIME * FEATURES; k++) x[k] = (float)(k % 7) - 3;
  before = state;
  if (step(good())) failed(__LINE__, "a good call", "is refused");
  if (!memcmp(&state, &before, sizeof state)) failed(__LINE__, "a step", "changes nothing");
  before = state;
  memset(&loss, FILL, sizeof loss), memset(&correct, FILL, sizeof correct);
  regions();
  arguments();
  values();
  files(argv[1], argv[2]);
  threads();
  printf(n_failed ? "%d failed\n" : "refused, and nothing changed\n", n_failed);
  return n_failed != 0;
}
