// One call at a time on a model, and on a loader: every row of frontend/run/calls.def beside a call that is under
// way, first a held one, then real ones of other threads (for the thread sanitizer). A refused call has no effect, and
// its sentence names both calls. What a thread's calls had to say is that thread's own.
#include "frontend/run/run.h"
#include "frontend/tenure.h"
#include "tests/check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { WIDE = 8 };
typedef enum { FREE, REFUSED, WAITS } Class;

typedef struct {
  tn_model *m, *other;
  tn_loader *l, *feed;  // feed: `batch` is from
  tn_batch batch;
  char path[64], *store;  // store: saved in it before
} World;

// ---- every call once: is it refused? FREE ones check what they give.
#define REFUSES(name, expression)              \
  static bool call_##name(const World *w) {    \
    tn_status s = (expression);                \
    CHECK(s == TN_OK || s == TN_ERR_ARGUMENT); \
    return s == TN_ERR_ARGUMENT;               \
  }
#define GIVES(name, condition)              \
  static bool call_##name(const World *w) { \
    CHECK(condition);                       \
    return false;                           \
  }
#define ENDS(name, statement)               \
  static bool call_##name(const World *w) { \
    statement;                              \
    return false;                           \
  }

static _Thread_local float x[WIDE], y[WIDE];
#define IN TN_IN(tn_f32(x, 1, WIDE))
#define OUT TN_OUT(tn_f32(y, 1, WIDE))

REFUSES(tn_run, tn_run(w->m, "f", IN, OUT))
REFUSES(tn_run_batch, tn_run_batch(w->m, "f", w->batch, OUT))
REFUSES(tn_initialize, tn_initialize(w->m, 3))
static bool call_tn_run_refuse(const World *w) {
  CHECK(tn_run_refuse(w->m, "there is no item") == TN_ERR_ARGUMENT);
  return strcmp(tn_error_text(w->m), "there is no item") != 0;
}
static bool call_tn_distribute(const World *w) {
  CHECK(tn_distribute(w->m, NULL, NULL) == TN_ERR_ARGUMENT);
  return !strstr(tn_error_text(w->m), "the transport lacks");
}
REFUSES(tn_get, tn_get(w->m, "fc.bias", y, WIDE))
REFUSES(tn_set, tn_set(w->m, "fc.bias", y, WIDE))
REFUSES(tn_get_array, tn_get_array(w->m, "fc.bias", tn_f32(y, WIDE)))
REFUSES(tn_set_array, tn_set_array(w->m, "fc.bias", tn_f32(y, WIDE)))
REFUSES(tn_set_lr, tn_set_lr(w->m, 0, 0.5))
REFUSES(tn_set_lr_all, tn_set_lr_all(w->m, 0.5))
REFUSES(tn_set_weight_decay, tn_set_weight_decay(w->m, 0, 0.5))
REFUSES(tn_set_weight_decay_all, tn_set_weight_decay_all(w->m, 0.5))
REFUSES(tn_set_momentum, tn_set_momentum(w->m, 0, 0.5))
REFUSES(tn_set_momentum_all, tn_set_momentum_all(w->m, 0.5))
REFUSES(tn_model_probe, tn_model_probe(w->m, "**", false))
REFUSES(tn_model_probe_sink, tn_model_probe_sink(w->m, NULL, NULL))
REFUSES(tn_model_probe_views, tn_model_probe_views(w->m, NULL, NULL))
REFUSES(tn_model_probe_file, tn_model_probe_file(w->m, NULL, TN_PROBE_CSV))
REFUSES(tn_save, tn_save(w->m, w->path, true))
REFUSES(tn_save_as, tn_save_as(w->m, w->path, NULL))
REFUSES(tn_save_with, tn_save_with(w->m, w->path, true, NULL, 0))
REFUSES(tn_save_merged, tn_save_merged(&(tn_part){w->m, NULL}, 1, w->path, true))
REFUSES(tn_load, tn_load(w->m, w->store, true))
REFUSES(tn_load_partial, tn_load_partial(w->m, w->store, true, NULL))
REFUSES(tn_load_with, tn_load_with(w->m, w->store, true, NULL, 0))
REFUSES(tn_load_merged, tn_load_merged(&(tn_part){w->m, NULL}, 1, w->store, true))
REFUSES(tn_copy_params, tn_copy_params(w->m, w->other, true))
REFUSES(tn_loader_set_state,
        tn_loader_set_state(w->l, (tn_loader_state){.identity = tn_loader_get_state(w->feed).identity}))
static bool call_tn_loader_next(const World *w) {
  tn_batch b = {1, 1};
  bool refused = tn_loader_next(w->l, &b) == TN_ERR_ARGUMENT;
  CHECK(!refused || !b.number);
  return refused;
}
static bool call_tn_extra_size(const World *w) {
  size_t n = 0;
  tn_status s = tn_extra_size(w->m, w->store, "note", &n);
  CHECK(s == TN_OK ? n == 3 : s == TN_ERR_ARGUMENT);
  return s == TN_ERR_ARGUMENT;
}
static bool call_tn_param_at(const World *w) { return !tn_param_at(w->m, 0).data; }

static bool call_tn_instance(const World *w) {
  tn_model *m = tn_instance(w->m, 3);
  CHECK(m != NULL);
  tn_model_free(m);
  return false;
}
static bool call_tn_plan_of(const World *w) {
  tn_plan plan;
  CHECK(tn_plan_of(w->m, "f", &plan) == TN_OK && plan.n_kernels);
  return false;
}
GIVES(tn_compile_info_of, tn_compile_info_of(w->m).n_kernels)
GIVES(tn_plan_variants, tn_plan_variants(w->m, "f", (tn_variant[1]){0}, 1) == 1)
GIVES(tn_plan_copies, tn_plan_copies(w->m, "f", NULL, 0) == 0)
GIVES(tn_plan_bytes_written, tn_plan_bytes_written(w->m, "f", NULL) > 0)
GIVES(tn_plan_bytes_read, tn_plan_bytes_read(w->m, "f", NULL) > 0)
GIVES(tn_n_workers, tn_n_workers(w->m) == 2)
GIVES(tn_param_count, tn_param_count(w->m) >= 2)
GIVES(tn_param_path, !strcmp(tn_param_path(w->m, 0), "fc.weight"))
GIVES(tn_n_weight_packs, tn_n_weight_packs(w->m) < UINT64_MAX)
GIVES(tn_loader_count, tn_loader_count(w->l) == 10)
GIVES(tn_loader_report, tn_loader_report(w->l).batches == 10)
GIVES(tn_loader_stats, tn_loader_stats(w->l).live <= 100)
GIVES(tn_loader_bytes, tn_loader_bytes(w->l) > 0)
GIVES(tn_loader_is_stopped, (tn_loader_is_stopped(w->l), true))
ENDS(tn_loader_stop, tn_loader_stop(w->l))

ENDS(tn_model_free, tn_model_free(w->m))
ENDS(tn_param_owned, tn_param_owned(w->m, 0, &(int64_t){0}, &(int64_t){0}))
ENDS(tn_exchanged_of, (void)tn_exchanged_of(w->m))
ENDS(tn_param_end_write, tn_param_end_write(w->m, 0))
ENDS(tn_error_text, (void)!tn_error_text(w->m)[0])
ENDS(tn_warning_text, (void)!tn_warning_text(w->m)[0])
ENDS(tn_loader_free, tn_loader_free(w->l))
ENDS(tn_loader_get_state, tn_loader_get_state(w->l))
ENDS(tn_loader_error, (void)!tn_loader_error(w->l)[0])

typedef struct {
  const char *name;
  bool (*call)(const World *w);
  Class class;
  bool of_loader, frees;
} Row;
static const Row rows[] = {
#define MODEL_CALL(name, class) {#name, call_##name, class, false, CALL_##name == CALL_tn_model_free},
#define LOADER_CALL(name, class) {#name, call_##name, class, true, CALL_##name == CALL_tn_loader_free},
#include "frontend/run/calls.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

// ---- the world
static bool get_item(void *ctx, size_t k, tn_item *to) {
  (void)ctx;
  for (int i = 0; i < WIDE; i++) ((float *)to->data[0])[i] = (float)k;
  return true;
}

static tn_loader *new_loader(void) {
  static const tn_field field = {.name = "x", .dtype = TN_F32, .rank = 1, .dims = {WIDE}};
  char why[256];
  tn_dataset *d = tn_dataset_new(&(tn_dataset_type){.get = get_item}, NULL, &field, 1, 10, why, sizeof why);
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.workers = 1}, why, sizeof why);
  tn_dataset_free(d);
  if (!CHECK(l != NULL)) exit(1);
  return l;
}

static tn_model *compile(void) {
  tn_program *p = tn_program_create("threads");
  tn_module *fc = tn_linear(tn_root(p), "fc", WIDE, WIDE);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(1, WIDE)), out = tn_call(fc, in);
  tn_probe(out, "out");
  tn_backward(tn_mean(out));
  tn_sgd(f, tn_root(p), .lr = 0.25, .momentum = 0.5, .weight_decay = 0.125);
  tn_output(f, "y", out);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 2, .seed = 3);
  if (!m) tn_report(p, stdout), exit(1);
  tn_program_free(p);
  return m;
}

static World new_world(char *store) {
  World w = {.m = compile(), .l = new_loader(), .feed = new_loader(), .store = store};
  w.other = tn_instance(w.m, 4);
  CHECK(tn_loader_next(w.feed, &w.batch) == TN_OK);
  snprintf(w.path, sizeof w.path, "%s.saved", store);
  char note[3] = "abc";
  CHECK(tn_save_with(w.m, store, true, &(tn_extra){"note", note, sizeof note}, 1) == TN_OK);
  return w;
}

static void free_world(World *w, const Row *freed) {
  if (!freed || freed->of_loader) tn_model_free(w->m);
  if (!freed || !freed->of_loader) tn_loader_free(w->l);
  tn_model_free(w->other), tn_loader_free(w->feed);
  unlink(w->path), unlink(w->store);
}

// ---- beside a call that another thread is in
typedef struct {
  const World *w;
  const Row *row;
  atomic_int state;  // 1: the call is made; 2: it is over
  bool was_refused;
  char said[512];
} Caller;

static void *make_call(void *arg) {
  Caller *c = arg;
  atomic_store(&c->state, 1);
  c->was_refused = c->row->call(c->w);
  if (c->was_refused)
    snprintf(c->said, sizeof c->said, "%s", c->row->of_loader ? tn_loader_error(c->w->l) : tn_error_text(c->w->m));
  atomic_store(&c->state, 2);
  return NULL;
}

static void check_sentence(const Row *r, const char *said) {
  char want[512];
  snprintf(want, sizeof want,
           r->of_loader ? "%s: tn_loader_next is running in another thread on this loader; one thread asks a loader"
                        : "%s: tn_run of 'f' is running in another thread on this model; wait for it, or give each "
                          "thread an instance of its own (tn_instance)",
           r->name);
  if (!CHECK(!strcmp(said, want))) printf("  %s\n", said);
}

static void call_beside(const World *w, const Row *r) {
  FeCallLock *lock = r->of_loader ? &w->l->lock : &w->m->lock;
  Caller c = {.w = w, .row = r};
  pthread_t thread;
  CHECK(fe_lock(lock, r->of_loader ? CALL_tn_loader_next : CALL_tn_run, lock));
  if (!r->of_loader) fe_lock_names(lock, rt_plan_function(lock->plan, "f"));
  if (!CHECK(pthread_create(&thread, NULL, make_call, &c) == 0)) exit(1);
  if (r->class == WAITS) {
    while (!atomic_load(&c.state)) sched_yield();
    usleep(200);
    CHECK(atomic_load(&c.state) == 1);
    fe_unlock(lock);
  }
  pthread_join(thread, NULL);
  CHECK(c.was_refused == (r->class == REFUSED));
  if (r->class == REFUSED) check_sentence(r, c.said);
  if (r->class != WAITS) fe_unlock(lock);
}

static uint64_t sum_of_params(const tn_model *m) {
  return rt_hash(rt_instance_block(m->inst), (size_t)m->code->plan->param_bytes, rt_instance_counter(m->inst));
}

static void test_beside_a_held_call(char *store) {
  World w = new_world(store);
  for (int k = 0; k < N_ROWS; k++) {
    if (rows[k].frees) continue;
    uint64_t before = sum_of_params(w.m);
    call_beside(&w, &rows[k]);
    CHECK(sum_of_params(w.m) == before);
    if (!CHECK(!rows[k].call(&w))) printf("  %s: %s\n", rows[k].name, tn_error_text(w.m));
  }
  free_world(&w, NULL);
  for (int k = 0; k < N_ROWS; k++) {
    if (!rows[k].frees) continue;
    w = new_world(store);
    call_beside(&w, &rows[k]);
    free_world(&w, &rows[k]);
  }
}

// Of two models in one call, either may be busy; the sentence is the first one's.
static void test_two_in_a_call(char *store) {
  World w = new_world(store);
  const tn_part parts[] = {{w.m, "a."}, {w.other, "b."}, {w.m, "c."}};
  CHECK(tn_save_merged(parts, 3, w.path, false) == TN_OK);
  CHECK(fe_lock(&w.other->lock, CALL_tn_set, &w.other->lock));
  CHECK(tn_save_merged(parts, 3, w.path, false) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(w.m), "tn_save_merged: tn_set is running in this very thread on another model");
  CHECK(tn_copy_params(w.m, w.other, true) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(w.m), "tn_copy_params: tn_set is running in this very thread on another model");
  fe_unlock(&w.other->lock);
  CHECK(tn_save_merged(parts, 3, w.path, false) == TN_OK && !tn_error_text(w.m)[0]);
  CHECK(tn_copy_params(w.m, w.other, true) == TN_OK);
  free_world(&w, NULL);
}

// ---- what calls say
static void *fail_once(void *m) {
  CHECK(tn_get(m, "nothing", y, 1) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "there is no parameter 'nothing'");
  return NULL;
}

static void *read_sentence(void *m) {
  CHECK_HAS(tn_error_text(m), "there is no function 'g'");
  return NULL;
}

static void test_sentences(char *store) {
  World w = new_world(store);
  pthread_t thread;
  CHECK(!tn_error_text(w.m)[0]);
  if (!CHECK(pthread_create(&thread, NULL, fail_once, w.m) == 0)) exit(1);
  pthread_join(thread, NULL);
  CHECK(!tn_error_text(w.m)[0]);  // the other thread's
  CHECK(tn_run(w.m, "g", IN, OUT) == TN_ERR_ARGUMENT && tn_run(w.other, "h", IN, OUT) == TN_ERR_ARGUMENT);
  const char *of_m = tn_error_text(w.m), *of_other = tn_error_text(w.other);
  CHECK_HAS(of_m, "there is no function 'g'");
  CHECK_HAS(of_other, "there is no function 'h'");
  if (!CHECK(pthread_create(&thread, NULL, read_sentence, w.m) == 0)) exit(1);  // which made no call of its own
  pthread_join(thread, NULL);
  CHECK(tn_run(w.m, "f", IN, OUT) == TN_OK && !tn_error_text(w.m)[0] && tn_error_text(w.other)[0]);
  tn_plan plan;
  CHECK(tn_plan_of(w.other, "g", &plan) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(w.other), "there is no function 'g'");
  CHECK(tn_plan_of(w.other, "f", &plan) == TN_OK && !tn_error_text(w.other)[0]);
  for (int k = 0; k < 20; k++) {  // more models than a thread keeps sentences of
    tn_model *m = tn_instance(w.m, 0);
    CHECK(tn_load(m, "no/such/file", false) == TN_ERR_FILE);
    CHECK_HAS(tn_error_text(m), "no/such/file");
    tn_model_free(m);
  }
  free_world(&w, NULL);
}

// ---- beside real calls
static atomic_bool is_over;

static void *keep_running(void *arg) {
  const World *w = arg;
  tn_batch b;
  while (!atomic_load(&is_over)) {
    tn_status s = tn_run(w->m, "f", IN, OUT);
    if (s) CHECK_HAS(tn_error_text(w->m), "is running in another thread");
    else CHECK(!tn_error_text(w->m)[0]);
    s = tn_loader_next(w->l, &b);
    if (s) CHECK_HAS(tn_loader_error(w->l), "is running in another thread");
  }
  return NULL;
}

static void *call_all(void *arg) {
  for (int k = 0; k < N_ROWS; k++)
    if (!rows[k].frees) rows[k].call(arg);
  return NULL;
}

static void test_beside_runs(char *store) {
  enum { TIMES = 8 };
  World w = new_world(store);
  pthread_t runner, other;
  CHECK(pthread_create(&runner, NULL, keep_running, &w) == 0);
  for (int k = 0; k < TIMES; k++) {
    CHECK(pthread_create(&other, NULL, call_all, &w) == 0);
    call_all(&w);
    pthread_join(other, NULL);
  }
  atomic_store(&is_over, true);
  pthread_join(runner, NULL);
  CHECK(tn_run(w.m, "f", IN, OUT) == TN_OK);
  free_world(&w, NULL);
}

// ---- programs are independent
static void *compile_and_run(void *unused) {
  (void)unused;
  tn_model *m = compile();
  CHECK(tn_run(m, "f", IN, OUT) == TN_OK);
  tn_model_free(m);
  return NULL;
}

static void test_two_programs(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, compile_and_run, NULL) == 0);
  compile_and_run(NULL);
  pthread_join(thread, NULL);
}

int main(void) {
  char store[] = "/tmp/tn_threads_XXXXXX";
  int fd = mkstemp(store);
  if (fd < 0) return 2;
  close(fd);
  test_beside_a_held_call(store);
  test_two_in_a_call(store);
  test_sentences(store);
  test_beside_runs(store);
  test_two_programs();
  return check_report();
}
