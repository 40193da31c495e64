// Calls of a bundle's functions, over the code of a model in this process: the bits of tn_run, by one worker and by
// several; whatever is refused has its status and its sentence, and changes nothing.
#include "tests/bundle_case.h"
#include "tests/models.h"
#include "tests/rng.h"
#include <pthread.h>
#include <time.h>

static RtArena *mem;

// As the header of this program would declare them
typedef struct {
  int64_t batch, time;
  const int64_t *ids, *lengths, *label;
} StepIn;
typedef struct {
  int64_t batch, time;
  const int64_t *ids, *lengths;
} PredictIn;
typedef struct {
  float *value;
} Out;

enum { STEP, PREDICT };
static tn_program *program;
static tn_model *model;
static TnBundle bundle;
static unsigned char *arena;

static int call(void *state, uint32_t listed, const void *in, const void *out) {
  const TnBundleAbout *a = bundle.about;
  return tn_bundle_call(&bundle, cg_bundle_function(a->plans[0], listed), listed, state, arena,
                        a->functions[listed].arena_bytes, in, out);
}

// ---- the bits of tn_run
typedef struct {
  int64_t ids[CASE_BATCH * CASE_TIME], lengths[CASE_BATCH], label[CASE_BATCH];
} Data;

static Data draw(Rng *r, int64_t time) {
  Data d;
  for (int k = 0; k < CASE_BATCH * CASE_TIME; k++) d.ids[k] = rng_below(r, CASE_WORDS);
  for (int k = 0; k < CASE_BATCH; k++)
    d.lengths[k] = 1 + rng_below(r, (uint32_t)time), d.label[k] = rng_below(r, CASE_WORDS);
  return d;
}

static void same_as_model(void) {
  tn_model *m = tn_instance(model, 5);
  void *state = case_state(&bundle, 5);
  Rng r = {3};
  for (int64_t k = 0; k < 8; k++) {
    int64_t batch = 1 + k % CASE_BATCH, time = 1 + k % CASE_TIME;
    Data d = draw(&r, time);
    float loss[2], logits[2][CASE_BATCH * CASE_WORDS] = {{0}, {0}};
    CHECK(!tn_run(m, "train_step", TN_IN(tn_i64(d.ids, batch, time), tn_i64(d.lengths, batch), tn_i64(d.label, batch)),
                  TN_OUT(tn_f32_scalar(&loss[0]))));
    CHECK(!call(state, STEP, &(StepIn){batch, time, d.ids, d.lengths, d.label}, &(Out){&loss[1]}));
    CHECK(!memcmp(&loss[0], &loss[1], 4) && case_same(&bundle, state, m));
    CHECK(!tn_run(m, "predict", TN_IN(tn_i64(d.ids, batch, time), tn_i64(d.lengths, batch)),
                  TN_OUT(tn_f32(logits[0], batch, CASE_WORDS))));
    CHECK(!call(state, PREDICT, &(PredictIn){batch, time, d.ids, d.lengths}, &(Out){logits[1]}));
    CHECK(!memcmp(logits[0], logits[1], sizeof logits[0]) && case_same(&bundle, state, m));
  }
  free(state), tn_model_free(m);
}

// ---- what is refused
typedef struct {
  unsigned char *state;
  StepIn in;
  Out out;
  Data d;
  float loss;
  size_t arena_bytes;
  void *arena;
} Step;

static Step good_step(void *state) {
  Rng r = {4};
  Step s = {.state = state,
            .d = draw(&r, 3),
            .loss = 7,
            .arena = arena,
            .arena_bytes = bundle.about->functions[STEP].arena_bytes};
  return s;
}

static int run_step(const Step *s) {
  return tn_bundle_call(&bundle, cg_bundle_function(bundle.about->plans[0], STEP), STEP, s->state, s->arena,
                        s->arena_bytes, &s->in, &s->out);
}

static int step_status(int k) {
  return (int)bundle.function_status[cg_bundle_function(bundle.about->plans[0], STEP)] + k;
}

// Makes the change to a call that is good, and expects this status, this sentence, and nothing written.
#define REFUSES(status, sentence, change)                                                      \
  do {                                                                                         \
    Step s = good_step(state);                                                                 \
    s.in = (StepIn){4, 3, s.d.ids, s.d.lengths, s.d.label}, s.out.value = &s.loss;             \
    change;                                                                                    \
    int got = run_step(&s);                                                                    \
    if (!CHECK(got == (status))) printf("  got %d: %s\n", got, tn_bundle_error(&bundle, got)); \
    CHECK_HAS(tn_bundle_error(&bundle, got), sentence);                                        \
    CHECK(!memcmp(state, before, bundle.about->state_bytes) && s.loss == 7);                   \
  } while (0)

static void refuses_regions(unsigned char *state, const unsigned char *before) {
  TnBundleState other = *(TnBundleState *)(void *)state;
  _Alignas(TN_ALIGN) unsigned char strange[sizeof other];
  other.plan ^= 1;
  memcpy(strange, &other, sizeof other);
  REFUSES(TN_BUNDLE_BAD_STATE, "the state is NULL or not aligned to 64 bytes", s.state = NULL);
  REFUSES(TN_BUNDLE_BAD_STATE, "not aligned", s.state += 8);
  REFUSES(TN_BUNDLE_NO_STATE, "not initialised by this bundle", s.state = strange);
  REFUSES(TN_BUNDLE_BAD_ARENA, "the arena is NULL", s.arena = NULL);
  REFUSES(TN_BUNDLE_BAD_ARENA, "the arena is NULL or not", s.arena = arena + 32);
  REFUSES(TN_BUNDLE_SMALL_ARENA, "fewer bytes", s.arena_bytes--);
  REFUSES(TN_BUNDLE_ARENA_OVERLAP, "overlaps the state", s.arena = state + 64);
}

static void refuses_arguments(unsigned char *state, const unsigned char *before) {
  enum { DIMS = 2 };
  int in = DIMS, out = DIMS + 3 * TN_BUNDLE_PER_INPUT;
  size_t weight = bundle.about->tensors[0].offset, scale = 0;
  for (uint32_t k = 0; k < bundle.about->n_tensors; k++)
    if (!strcmp(bundle.about->tensors[k].path, "scale")) scale = bundle.about->tensors[k].offset;
  REFUSES(step_status(0), "train_step: batch is not in 0 .. 6", s.in.batch = 7);
  REFUSES(step_status(0), "train_step: batch is not in 0 .. 6", s.in.batch = -1);
  REFUSES(step_status(1), "train_step: time is not in 0 .. 5", s.in.time = INT64_MAX);
  REFUSES(step_status(in + TN_BUNDLE_IN_NULL), "input 'ids' is NULL", s.in.ids = NULL);
  REFUSES(step_status(in + 8 + TN_BUNDLE_IN_NULL), "input 'label' is NULL", s.in.label = NULL);
  REFUSES(step_status(in + TN_BUNDLE_IN_ALIGN), "'ids' is not aligned to 8 bytes",
          s.in.ids = (const int64_t *)(const void *)((const char *)s.d.ids + 4));
  REFUSES(step_status(in + TN_BUNDLE_IN_ARENA), "'ids' overlaps the arena", s.in.ids = (const int64_t *)(void *)arena);
  REFUSES(step_status(in + TN_BUNDLE_IN_PARAM), "memory of a parameter",
          s.in.ids = (const int64_t *)(void *)(state + weight));
  REFUSES(step_status(out + TN_BUNDLE_OUT_NULL), "output 'loss' is NULL", s.out.value = NULL);
  REFUSES(step_status(out + TN_BUNDLE_OUT_ALIGN), "output 'loss' is not aligned to 4",
          s.out.value = (float *)(void *)((char *)&s.loss + 1));
  REFUSES(step_status(out + TN_BUNDLE_OUT_OVERLAP), "output 'loss' overlaps", s.out.value = (float *)(void *)s.d.label);
  REFUSES(step_status(out + TN_BUNDLE_OUT_OVERLAP), "output 'loss' overlaps", s.out.value = (float *)(void *)arena);
  REFUSES(step_status(out + TN_BUNDLE_OUT_OVERLAP), "output 'loss' overlaps",
          s.out.value = (float *)(void *)(state + scale));
}

static void refuses_values(unsigned char *state, const unsigned char *before) {
  const RtFunction *f = &bundle.about->plans[0]->functions[cg_bundle_function(bundle.about->plans[0], STEP)];
  int check = (int)tn_status_of_check(f, 2, 0);
  CHECK(f->n_checks == 3);
  int n_found = 0;
  for (uint32_t k = 0; k < f->n_checks; k++, check += TN_BUNDLE_PER_CHECK) {
    uint32_t input = f->checks[k].input;
    if (input == 0) {
      REFUSES(step_status(check), "'ids': an index is not in 0 .. 10", s.d.ids[11] = 11);
      REFUSES(step_status(check), "'ids': an", s.d.ids[0] = -1);
    }
    if (input == 1) {
      REFUSES(step_status(check), "'lengths': a length is not in 1 .. time", s.d.lengths[3] = 4);
      REFUSES(step_status(check), "'lengths'", s.d.lengths[0] = 0);
    }
    if (input == 2) REFUSES(step_status(check), "'label': a label is not in 0 .. 10", s.d.label[3] = 11);
    n_found += 1 << input;
  }
  CHECK(n_found == 7);
}

static void refused(void) {
  unsigned char *state = case_state(&bundle, 5), *before = case_state(&bundle, 5);
  refuses_regions(state, before);
  refuses_arguments(state, before);
  refuses_values(state, before);
  CHECK(call(state, STEP, NULL, &(Out){NULL}) == TN_BUNDLE_NO_ARGUMENTS);
  CHECK(call(state, STEP, &(StepIn){0}, NULL) == TN_BUNDLE_NO_ARGUMENTS);
  CHECK(!memcmp(state, before, bundle.about->state_bytes));
  CHECK_HAS(tn_bundle_error(&bundle, -1), "no such status");
  CHECK_HAS(tn_bundle_error(&bundle, (int)bundle.n_sentences), "no such status");
  for (uint32_t k = 0; k < bundle.n_sentences; k++) CHECK(strlen(tn_bundle_error(&bundle, (int)k)) > 5);
  free(state), free(before);
}

static void init_refused(void) {
  unsigned char *state = case_block(bundle.about->state_bytes);
  TnBundleCpu never = {.word = {UINT32_MAX, UINT32_MAX, UINT32_MAX}, .state = UINT64_MAX};
  TnBundle foreign = bundle;
  foreign.cpus = &never;
  CHECK(tn_bundle_cpu(&bundle) == 0 && tn_bundle_cpu(&foreign) == -1);
  CHECK(tn_bundle_init(&foreign, state, arena, 1 << 20, 1) == TN_BUNDLE_NO_CPU);
  CHECK(tn_bundle_init(&bundle, NULL, arena, 1 << 20, 1) == TN_BUNDLE_BAD_STATE);
  CHECK(tn_bundle_init(&bundle, state + 4, arena, 1 << 20, 1) == TN_BUNDLE_BAD_STATE);
  CHECK(state[0] == 0x5a && !memcmp(state, state + 1, bundle.about->state_bytes - 1));
  CHECK(call(state, PREDICT, NULL, NULL) == TN_BUNDLE_NO_STATE);
  free(state);
}

// ---- sorted lengths, and an index that only the run finds out
static void other_checks(void) {
  tn_program *p = tn_program_create("other");
  tn_dim B = tn_dim_bounded(p, "batch", 4);
  tn_embedding(tn_root(p), "emb", 5, 3);
  tn_function *f = tn_function_begin(p, "sorted");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 3, 2)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_output(f, "sum", tn_sum(tn_packed_sum(tn_pack_padded(x, n, .enforce_sorted = true))));
  tn_function_end(f);
  f = tn_function_begin(p, "lookup");
  tn_tensor at = tn_cast(tn_input(f, "at", TN_F32, TN_SHAPE(B)), TN_I64);
  tn_output(f, "rows", tn_call(tn_child(tn_root(p), "emb"), at));
  tn_function_end(f);
  tn_model *m = case_compile(p);
  TnBundle b = case_bundle(mem, m, "other");
  const RtPlan *plan = b.about->plans[0];
  uint32_t sorted = cg_bundle_function(plan, 0), lookup = cg_bundle_function(plan, 1);
  void *state = case_state(&b, 1), *before = case_state(&b, 1);
  int64_t lengths[3] = {3, 2, 2};
  float xs[18] = {0}, sum = 7, index[3] = {0, 4, 5}, rows[9];
  struct {
    int64_t batch;
    const float *x;
    const int64_t *lengths;
  } in = {3, xs, lengths};
  CHECK(tn_bundle_call(&b, sorted, 0, state, arena, 1 << 20, &in, &(Out){&sum}) == TN_BUNDLE_OK && sum == 0);
  lengths[1] = 1, sum = 7;
  int status = tn_bundle_call(&b, sorted, 0, state, arena, 1 << 20, &in, &(Out){&sum});
  CHECK_HAS(tn_bundle_error(&b, status), "sorted: input 'lengths': a length is above the one before it");
  CHECK(sum == 7);
  in.x = index;
  status = tn_bundle_call(&b, lookup, 1, state, arena, 1 << 20, &in, &(Out){rows});
  CHECK_HAS(
      tn_bundle_error(&b, status),
      "lookup: an index, a length, a sum of lengths or the start of a slice that the call computes is out of range");
  CHECK((uint32_t)status + 1 == b.tensor_status && !memcmp(state, before, b.about->state_bytes));
  index[2] = 1;
  CHECK(tn_bundle_call(&b, lookup, 1, state, arena, 1 << 20, &in, &(Out){rows}) == TN_BUNDLE_OK);
  free(state), free(before), tn_model_free(m), tn_program_free(p);
}

// ---- lengths whose sum is limited: rows that the arena has room for
static void limited_rows(void) {
  tn_program *p = tn_program_create("limited");
  tn_dim B = tn_dim_bounded(p, "batch", 4);
  tn_function *f = tn_function_begin(p, "sums");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 3, 2)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_output(f, "sum", tn_sum(tn_packed_sum(tn_pack_padded(x, n, .max_rows = 5))));
  tn_function_end(f);
  f = tn_function_begin(p, "rows");
  tn_dim N = tn_dim_bounded(p, "letters", 12);
  x = tn_input(f, "x", TN_F32, TN_SHAPE(N)), n = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_output(f, "sum", tn_sum(tn_packed_sum(tn_pack_rows(x, n))));
  tn_function_end(f);
  tn_model *m = case_compile(p);
  TnBundle b = case_bundle(mem, m, "limited");
  uint32_t sums = cg_bundle_function(b.about->plans[0], 0), rows = cg_bundle_function(b.about->plans[0], 1);
  void *state = case_state(&b, 1);
  int64_t lengths[3] = {2, 2, 1};
  float xs[18], sum = 7;
  for (int k = 0; k < 18; k++) xs[k] = 1;
  struct {
    int64_t batch;
    const float *x;
    const int64_t *lengths;
  } in = {3, xs, lengths};
  CHECK(tn_bundle_call(&b, sums, 0, state, arena, 1 << 20, &in, &(Out){&sum}) == TN_BUNDLE_OK && sum == 10);
  lengths[2] = 2, sum = 7;
  int status = tn_bundle_call(&b, sums, 0, state, arena, 1 << 20, &in, &(Out){&sum});
  CHECK_HAS(tn_bundle_error(&b, status),
            "sums: input 'lengths': the lengths sum to more than 5, the bound of the rows");
  CHECK(sum == 7);
  struct {
    int64_t letters, batch;
    const float *x;
    const int64_t *lengths;
  } of_rows = {6, 3, xs, lengths};
  CHECK(tn_bundle_call(&b, rows, 1, state, arena, 1 << 20, &of_rows, &(Out){&sum}) == TN_BUNDLE_OK && sum == 6);
  of_rows.letters = 7, sum = 7;
  status = tn_bundle_call(&b, rows, 1, state, arena, 1 << 20, &of_rows, &(Out){&sum});
  CHECK_HAS(tn_bundle_error(&b, status), "rows: input 'lengths': the lengths do not sum to letters");
  CHECK(sum == 7);
  free(state), tn_model_free(m), tn_program_free(p);
}

// ---- several workers
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t released;
  int n_here[TN_N_BARRIERS];
  uint64_t n_released[TN_N_BARRIERS];
  bool is_slow;  // those who do not come last are late in going on
} Barriers;

static void wait_here(void *ctx, int32_t which, int32_t count) {
  Barriers *b = ctx;
  pthread_mutex_lock(&b->lock);
  uint64_t now = b->n_released[which];
  bool is_last = ++b->n_here[which] == count;
  if (is_last) b->n_here[which] = 0, b->n_released[which]++, pthread_cond_broadcast(&b->released);
  while (b->n_released[which] == now) pthread_cond_wait(&b->released, &b->lock);
  pthread_mutex_unlock(&b->lock);
  if (b->is_slow && !is_last) nanosleep(&(struct timespec){0, 100000}, NULL);
}

typedef struct {
  const TnBundle *b;
  Barriers *barriers;
  void *state;
  const StepIn *in;  // one call after the other
  Out out;
  int n_calls, worker, n_workers;
  int status[4];
} Worker;

static void *work(void *ctx) {
  Worker *w = ctx;
  const TnBundleAbout *a = w->b->about;
  for (int k = 0; k < w->n_calls; k++) {
    w->status[k] = tn_bundle_call_worker(w->b, cg_bundle_function(a->plans[0], STEP), STEP, w->state, arena,
                                         a->functions[STEP].arena_bytes, &w->in[k], &w->out, w->worker, w->n_workers,
                                         wait_here, w->barriers);
  }
  return NULL;
}

// Four calls by n workers, of which the second and the third are refused: all workers get the same statuses.
static void call_by(const TnBundle *b, int n, void *state, float *loss, bool is_slow) {
  Rng r = {6};
  Data d = draw(&r, 4);
  StepIn in[4] = {{5, 4, d.ids, d.lengths, d.label},
                  {7, 4, d.ids, d.lengths, d.label},
                  {5, 6, d.ids, d.lengths, d.label},
                  {5, 4, d.ids, d.lengths, d.label}};
  Barriers barriers = {.lock = PTHREAD_MUTEX_INITIALIZER, .released = PTHREAD_COND_INITIALIZER, .is_slow = is_slow};
  pthread_t threads[4];
  Worker w[4];
  for (int k = 0; k < n; k++) {
    w[k] = (Worker){b, &barriers, state, in, {loss}, 4, k, n, {-1, -1, -1, -1}};
    CHECK(!pthread_create(&threads[k], NULL, work, &w[k]));
  }
  for (int k = 0; k < n; k++) {
    pthread_join(threads[k], NULL);
    CHECK(w[k].status[0] == 0 && w[k].status[1] == step_status(0) && w[k].status[2] == step_status(1));
    CHECK(w[k].status[3] == 0);
  }
}

static void workers(void) {
  tn_model *m = model_of(program, .n_workers = 4, .seed = 3, .no_packed_weights = true);
  TnBundle b = case_bundle(mem, m, "words");
  void *one = case_state(&b, 2);
  float loss = 0;
  call_by(&b, 1, one, &loss, false);
  for (int n = 2; n <= 4; n++)
    for (int again = 0; again < 20; again++) {
      void *state = case_state(&b, 2);
      float other = 0;
      call_by(&b, n, state, &other, again < 2);
      CHECK(!memcmp(&loss, &other, 4) && !memcmp(one, state, sizeof(TnBundleState)));
      for (uint32_t k = 0; k < b.about->n_tensors; k++) {
        const TnBundleTensor *t = &b.about->tensors[k];
        CHECK(!memcmp((char *)one + t->offset, (char *)state + t->offset, t->bytes));
      }
      free(state);
    }
  StepIn in = {0};
  Out out = {&loss};
  uint32_t f = cg_bundle_function(b.about->plans[0], STEP);
  size_t bytes = b.about->functions[STEP].arena_bytes;
  CHECK(tn_bundle_call_worker(&b, f, STEP, one, arena, bytes, &in, &out, 2, 2, wait_here, NULL) ==
        TN_BUNDLE_BAD_WORKER);
  CHECK(tn_bundle_call_worker(&b, f, STEP, one, arena, bytes, &in, &out, -1, 2, wait_here, NULL) ==
        TN_BUNDLE_BAD_WORKER);
  CHECK(tn_bundle_call_worker(&b, f, STEP, one, arena, bytes, &in, &out, 0, 0, wait_here, NULL) ==
        TN_BUNDLE_BAD_WORKER);
  CHECK(tn_bundle_call_worker(&b, f, STEP, one, arena, bytes, &in, &out, 0, 65, wait_here, NULL) ==
        TN_BUNDLE_BAD_WORKER);
  CHECK(tn_bundle_call_worker(&b, f, STEP, one, arena, bytes, &in, &out, 0, 2, NULL, NULL) == TN_BUNDLE_BAD_WORKER);
  free(one), tn_model_free(m);
}

int main(void) {
  unsetenv("TN_CHECK");  // bundles have no guarded arena
  mem = rt_arena_new();
  arena = case_block(1 << 20);
  program = case_program();
  model = case_compile(program);
  bundle = case_bundle(mem, model, "words");
  same_as_model();
  refused();
  init_refused();
  other_checks();
  limited_rows();
  tn_program *first = program;
  program = case_program();
  workers();
  tn_model_free(model), tn_program_free(first), tn_program_free(program), rt_arena_free(mem);
  free(arena);
  return check_report();
}
