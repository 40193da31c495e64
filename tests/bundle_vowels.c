// The loop of examples/aot/vowels.c over the same model compiled here, by one worker: all of its state must be what the
// bundle saved, bit for bit.
//
//   bundle_vowels vowels.tir train.bin EPOCHS saved.safetensors
#include "frontend/run/run.h"
#include "frontend/tenure.h"
#include "tests/check.h"

#include <stdlib.h>

enum { FEATURES = 12, TIME = 29, BATCH = 30, MOST = 400, SEED = 1 };
typedef struct {
  int64_t label, length;
  float x[TIME][FEATURES];
} Sequence;
static Sequence train[MOST];
static int order[MOST];

static char *read_text(const char *path, size_t *n) {
  static char text[1 << 20];
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  *n = fread(text, 1, sizeof text, f);
  fclose(f);
  return text;
}

static int read_sequences(const char *path) {
  FILE *f = fopen(path, "rb");
  int n = f ? (int)fread(train, sizeof *train, MOST, f) : 0;
  if (f) fclose(f);
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

static void step(tn_model *m, int first, int n) {
  static float x[BATCH * TIME * FEATURES];
  int64_t lengths[BATCH], label[BATCH], batch = n - first < BATCH ? n - first : BATCH, time = 0;
  float loss, correct;
  for (int k = 0; k < batch; k++) {
    const Sequence *s = &train[order[first + k]];
    lengths[k] = s->length, label[k] = s->label;
    if (s->length > time) time = s->length;
  }
  for (int k = 0; k < batch; k++)
    memcpy(x + k * time * FEATURES, train[order[first + k]].x, (size_t)time * FEATURES * sizeof *x);
  CHECK(!tn_run(m, "train_step", TN_IN(tn_f32(x, batch, time, FEATURES), tn_i64(lengths, batch), tn_i64(label, batch)),
                TN_OUT(tn_f32_scalar(&loss), tn_f32_scalar(&correct))));
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  size_t n_text = 0;
  setenv("TN_GEMM", "own", 1);  // as in a bundle
  const char *text = read_text(argv[1], &n_text);
  int n = read_sequences(argv[2]);
  if (!text || n < 1) return printf("%s or %s cannot be read\n", argv[1], argv[2]), 2;
  tn_program *p = tn_program_parse(text, n_text, argv[1]);
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = SEED, .no_packed_weights = true);
  if (!m) return tn_report(p, stdout), 1;
  for (int k = 0; k < MOST; k++) order[k] = k;
  for (int epoch = 0; epoch < atoi(argv[3]); epoch++) {
    shuffle(n);
    for (int first = 0; first < n; first += BATCH) step(m, first, n);
  }
  tn_model *saved = tn_instance(m, 0);
  if (!CHECK(!tn_load(saved, argv[4], true))) printf("%s\n", tn_error_text(saved));
  size_t bytes = (size_t)rt_instance_plan(m->inst)->param_bytes;
  CHECK(!memcmp(rt_instance_block(m->inst), rt_instance_block(saved->inst), bytes));
  CHECK(rt_instance_counter(m->inst) == rt_instance_counter(saved->inst));
  tn_model_free(m), tn_model_free(saved), tn_program_free(p);
  return check_report();
}
