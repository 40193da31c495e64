// Trains and tests the model of examples/vowels.c from its bundle: an object, its header and a C library.
//
//   cc vowels.c vowels.o -o vowels && ./vowels train.bin test.bin 40 trained.safetensors
#include "vowels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 12, MOST = 400, SEED = 1 };
typedef struct {  // one utterance, as data.c writes it
  int64_t label, length;
  float x[VOWELS_TIME_MAX][FEATURES];
} sequence;

static sequence train[MOST], test[MOST];
static int order[MOST];
static vowels_state state;
VOWELS_ALIGNED static unsigned char arena[VOWELS_ARENA_BYTES];

static int read_sequences(const char *path, sequence *to) {
  FILE *f = fopen(path, "rb");
  int n = f ? (int)fread(to, sizeof *to, MOST, f) : 0;
  if (n < 1) fprintf(stderr, "%s holds no sequences\n", path), exit(1);
  fclose(f);
  return n;
}

static void shuffle(int n) {
  static uint64_t random = SEED;
  for (int k = n - 1; k > 0; k--) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    int other = (int)((random >> 33) % (uint64_t)(k + 1)), kept = order[k];
    order[k] = order[other], order[other] = kept;
  }
}

typedef struct {
  float correct, loss;  // of a sequence, on average
} means;

// One pass over n sequences in their order.
static means pass(const sequence *s, int n, int trains) {
  static float x[VOWELS_BATCH_MAX * VOWELS_TIME_MAX * FEATURES];
  int64_t lengths[VOWELS_BATCH_MAX], label[VOWELS_BATCH_MAX];
  float loss, correct;
  means sum = {0};
  for (int first = 0; first < n; first += VOWELS_BATCH_MAX) {
    int64_t batch = n - first < VOWELS_BATCH_MAX ? n - first : VOWELS_BATCH_MAX, time = 0;
    for (int k = 0; k < batch; k++) lengths[k] = s[order[first + k]].length, label[k] = s[order[first + k]].label;
    for (int k = 0; k < batch; k++) time = lengths[k] > time ? lengths[k] : time;
    for (int k = 0; k < batch; k++) memcpy(x + k * time * FEATURES, s[order[first + k]].x, (size_t)time * FEATURES * 4);
    vowels_train_step_in in = {.batch = batch, .time = time, .x = x, .lengths = lengths, .label = label};
    vowels_evaluate_in in_test = {.batch = batch, .time = time, .x = x, .lengths = lengths, .label = label};
    int status = trains
                     ? vowels_train_step(&state, arena, sizeof arena, &in, &(vowels_train_step_out){&loss, &correct})
                     : vowels_evaluate(&state, arena, sizeof arena, &in_test, &(vowels_evaluate_out){&loss, &correct});
    if (status) fprintf(stderr, "%s\n", vowels_error(status)), exit(1);
    sum.correct += correct, sum.loss += loss * (float)batch;
  }
  return (means){sum.correct / (float)n, sum.loss / (float)n};
}

int main(int argc, char **argv) {
  if (argc < 4) return fputs("vowels TRAIN TEST EPOCHS [SAVED]\n", stderr), strcmp(argv[argc - 1], "--help") ? 2 : 0;
  int n_train = read_sequences(argv[1], train), n_test = read_sequences(argv[2], test);
  int status = vowels_init(&state, SEED);
  if (status) return fprintf(stderr, "%s\n", vowels_error(status)), 1;
  for (int k = 0; k < MOST; k++) order[k] = k;
  for (int epoch = 0; epoch < atoi(argv[3]); epoch++) shuffle(n_train), pass(train, n_train, 1);
  for (int k = 0; k < MOST; k++) order[k] = k;
  means m = pass(test, n_test, 0);
  printf("test accuracy %.4f\ntest loss %.5f\n", m.correct, m.loss);
  if (argc < 5) return 0;
  static unsigned char file[VOWELS_FILE_BYTES];
  FILE *out = fopen(argv[4], "wb");
  status = vowels_save(&state, file, sizeof file, NULL);
  return status || !out || fwrite(file, sizeof file, 1, out) != 1 || fclose(out);
}
