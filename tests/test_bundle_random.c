// Random programs as bundles against the same programs compiled here: ops of all kinds, packed sequences, dropout, scans,
// optimizers, buckets. Each program becomes one object, is linked as a shared library, loaded, and every function runs a
// few times on one state; statuses, outputs, parameters and the random stream must be those of tn_run, bit for bit.
//
//   test_bundle_random [--count N] [--seed S] [--functions F] [--calls]
//
// By its number a program takes one of the forms that an object can have: for one CPU or two, for size, with embedded
// weights, with entries for threads, with buckets, in a smaller arena where kernels run again.
#include "frontend/graph/program.h"
#include "frontend/run/run.h"
#include "frontend/tenure.h"
#include "ir/intern.h"
#include "ir/text/text.h"
#include "runtime/bundle/about.h"
#include "runtime/exec/numbers.h"
#include "tests/check.h"
#include "tests/random_program.h"
#include "tests/report.h"
#include "tests/sample.h"
#include "tests/trial.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_CALLS = 3, N_THREADS = 3, FILL = 0xA5, SEED = 5 };

static char folder[] = "/tmp/tenure-bundle-XXXXXX";
static struct {
  unsigned n_functions, n_runs, n_refused, n_values, n_limited;
} seen;

// ---- one program
typedef struct {
  uint64_t seed;
  RtArena *mem;
  Prog *p;  // as its author wrote it
  const char *text, *name, *target;
  bool has_workers, has_buckets, has_limit;
  tn_program *built;
  tn_model *model;
  void *library;
  const TnBundleAbout *about;
  unsigned char *state, *arena;
} Case;

static const char *print_program(RtArena *mem, Prog *p) {
  RtText t = {.mem = mem};
  ir_print(p, &t, 0);
  return t.text;
}

static void *aligned(size_t n) {
  void *p = aligned_alloc(TN_ALIGN, (n + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN + TN_ALIGN);
  if (!p) abort();
  return p;
}

// The bounds of the dims of which inputs have an axis, halved.
static size_t make_buckets(const Case *c, tn_program *q, tn_bucket *list) {
  size_t n = 0;
  for (uint32_t k = 0; k < c->p->n_syms && c->has_buckets; k++) {
    const DimInfo *d = ir_dim_info(c->p, c->p->syms[k]);
    const char *name = ir_text(c->p, d->name);
    if (!strcmp(name, "batch") && d->value > 1)
      list[n++] = (tn_bucket){fe_dim_handle(q, ir_dim_find(q->ir, name)), (d->value + 1) / 2};
  }
  return n;
}

static tn_program *read_program(const Case *c) { return tn_program_parse(c->text, strlen(c->text), "random.tir"); }

// Of the function that needs most, in the model
static int64_t arena_of(const Case *c) {
  int64_t most = 0;
  tn_plan plan;
  for (uint32_t k = 0; k < c->p->n_fns; k++)
    if (tn_plan_of(c->model, ir_text(c->p, c->p->fns[k]->name), &plan) == TN_OK && plan.peak_bytes > most)
      most = plan.peak_bytes;
  return most;
}

// limit: of the arena; 0: none. A limit that cannot be met is refused; anything else that is refused fails.
static bool make_limited(Case *c, int64_t limit) {
  tn_bucket list[4];
  char path[128];
  tn_program *q = read_program(c);
  snprintf(path, sizeof path, "%s/%s", folder, c->name);
  tn_bundle_options o = {.targets = c->target,
                         .emit = "so",
                         .seed = SEED,
                         .embed_weights = c->seed % 3 == 1,
                         .small = c->seed % 5 == 2,
                         .has_workers = c->has_workers,
                         .arena_limit = (size_t)limit,
                         .recompute = limit ? TN_RECOMPUTE_AUTO : TN_RECOMPUTE_OFF,
                         .buckets = list,
                         .n_buckets = make_buckets(c, q, list)};
  bool good = (tn_bundle)(q, path, o) == TN_OK, is_too_small = !good && limit && strstr(report_of(q), "[E137]");
  if (!CHECK(good || is_too_small)) tn_report(q, stdout);
  seen.n_limited += good && limit;
  tn_program_free(q);
  return good;
}

// The least of a few limits that is met
static bool make_bundle(Case *c) {
  int64_t arena = c->has_limit ? arena_of(c) : 0;
  for (int64_t parts = 8; arena && parts < 16; parts++)
    if (make_limited(c, arena * parts / 16)) return true;
  return make_limited(c, 0);
}

static bool open_bundle(Case *c) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s.so", folder, c->name);
  c->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!CHECK(c->library != NULL)) return printf("%s\n", dlerror()), false;
  c->about = dlsym(c->library, rt_printf(c->mem, "%s_about", c->name));
  return CHECK(c->about != NULL);
}

// The bits are those of one row of CPUs: sums are in its order.
static bool compile_model(Case *c) {
  c->built = read_program(c);
  if (c->target) setenv("TN_TARGET", "x86-64-v3", 1);
  c->model = tn_compile(c->built, .n_workers = 1, .seed = SEED, .no_packed_weights = true, .cache_dir = "");
  if (c->target) unsetenv("TN_TARGET");
  return c->model != NULL;
}

static const TnBundleTensor *tensor_of(const Case *c, const char *path) {
  for (uint32_t k = 0; k < c->about->n_tensors; k++)
    if (!strcmp(c->about->tensors[k].path, path)) return &c->about->tensors[k];
  return NULL;
}

static const RtParam *param_of(const Case *c, const char *path, uint32_t *at) {
  const RtPlan *plan = rt_instance_plan(c->model->inst);
  for (*at = 0; *at < plan->n_params; ++*at)
    if (!strcmp(plan->params[*at].path, path)) return &plan->params[*at];
  return NULL;
}

static void encode(unsigned char *to, RtDType dtype, Tensor from) {
  for (int64_t i = 0; i < from.n; i++) {
    if (dtype == RT_F32 || dtype == RT_F16 || dtype == RT_BF16) rt_put_float((float)from.v[i], dtype, to, (size_t)i);
    else rt_put_whole((int64_t)from.v[i], dtype, to, (size_t)i);
  }
}

// The same random numbers in both, instead of the zeros of a text without @init.
static void set_params(Case *c, const TrialData *d) {
  for (uint32_t k = 0; k < c->p->n_params; k++) {
    uint32_t at;
    const char *path = ir_text(c->p, c->p->params[k].path);
    const RtParam *param = param_of(c, path, &at);
    const TnBundleTensor *tensor = tensor_of(c, path);
    CHECK(!param == !tensor);
    if (!param || !tensor || !CHECK(param->bytes == (int64_t)tensor->bytes)) continue;
    encode(rt_instance_change(c->model->inst, at), (RtDType)param->dtype, d->params[k]);
    encode(c->state + tensor->offset, (RtDType)tensor->dtype, d->params[k]);
  }
}

static bool same_params(const Case *c) {
  const RtPlan *plan = rt_instance_plan(c->model->inst);
  bool same = true;
  for (uint32_t k = 0; k < plan->n_params; k++) {
    const RtParam *p = &plan->params[k];
    const TnBundleTensor *t = tensor_of(c, p->path);
    bool is_same = t && !memcmp(rt_instance_block(c->model->inst) + p->offset, c->state + t->offset, t->bytes);
    if (!is_same) printf("  parameter %s differs\n", p->path);
    same &= is_same;
  }
  return same;
}

// ---- one call
typedef struct {
  const Case *c;
  const Fn *f;
  const RtPlan *plan;
  const RtFunction *row;  // of the model's plan
  const TnBundleFunction *listed;
  int64_t *slots;
  tn_array *in, *out;    // of tn_run
  unsigned char **twin;  // outputs of the bundle
  size_t *out_bytes;
  void **in_struct, **out_struct;
} Call;

static int64_t size_of(const Call *c, uint32_t row) {
  const RtDim *d = &c->plan->dims[row];
  switch ((RtDimKind)d->kind) {
  case RT_DIM_CONST: return d->value;
  case RT_DIM_SLOT: return c->slots[d->value];
  case RT_DIM_MUL: return size_of(c, d->a) * size_of(c, d->b);
  case RT_DIM_ADD: return size_of(c, d->a) + size_of(c, d->b);
  case RT_DIM_DIV: return rt_floor_div(size_of(c, d->a), size_of(c, d->b));
  case RT_DIM_MAX: return rt_larger(size_of(c, d->a), size_of(c, d->b));
  case RT_DIM_MIN: return rt_smaller(size_of(c, d->a), size_of(c, d->b));
  }
  return 0;
}

static bool is_bound(const Call *c, uint32_t slot) {
  for (uint32_t k = 0; k < c->row->n_inputs; k++)
    for (uint32_t d = 0; d < c->row->inputs[k].rank; d++) {
      const RtDim *dim = &c->plan->dims[c->row->inputs[k].dims[d]];
      if (dim->kind == RT_DIM_SLOT && dim->value == slot) return true;
    }
  return false;
}

static const int64_t *drawn_size(const Call *c, const TrialData *d, const char *name) {
  for (uint32_t k = 0; k < c->c->p->n_syms; k++)
    if (!strcmp(ir_text(c->c->p, ir_dim_info(c->c->p, c->c->p->syms[k])->name), name)) return &d->slots[k];
  return NULL;
}

static void bind_slots(Call *c, const TrialData *d) {
  c->slots = rt_alloc(c->c->mem, (c->plan->n_slots + 1) * sizeof *c->slots);
  for (uint32_t s = 0; s < c->plan->n_slots; s++) {
    const int64_t *drawn = drawn_size(c, d, c->plan->slots[s].name);
    c->slots[s] = drawn && is_bound(c, s) ? *drawn : c->plan->slots[s].bound;
  }
}

static tn_array array_of(Call *c, const RtPort *port, size_t *bytes) {
  tn_array a = {.dtype = (tn_dtype)port->dtype, .rank = port->rank, .name = port->name};
  *bytes = rt_dtype_bytes(port->dtype);
  for (uint32_t d = 0; d < port->rank; d++) *bytes *= (size_t)(a.dims[d] = size_of(c, port->dims[d]));
  a.data = aligned(*bytes);
  return a;
}

// Fields in the order of the bundle's struct: sizes by name, then arrays.
static void bind_inputs(Call *c, const TrialData *d) {
  uint32_t n = c->listed->n_dims;
  c->in = rt_alloc(c->c->mem, (c->row->n_inputs + 1) * sizeof *c->in);
  c->in_struct = rt_alloc(c->c->mem, (n + c->row->n_inputs + 1) * sizeof *c->in_struct);
  for (uint32_t k = 0; k < n; k++) {
    const int64_t *size = drawn_size(c, d, c->listed->dims[k]);
    if (CHECK(size != NULL)) memcpy(&c->in_struct[k], size, sizeof *size);
  }
  for (uint32_t k = 0; k < c->row->n_inputs; k++) {
    size_t bytes;
    c->in[k] = array_of(c, &c->row->inputs[k], &bytes);
    CHECK(bytes == (size_t)d->in[k].n * rt_dtype_bytes(c->row->inputs[k].dtype));
    encode(c->in[k].data, (RtDType)c->row->inputs[k].dtype, d->in[k]);
    c->in_struct[n + k] = c->in[k].data;
  }
}

static void bind_outputs(Call *c) {
  uint32_t n = c->row->n_outputs;
  c->out = rt_alloc(c->c->mem, (n + 1) * sizeof *c->out);
  c->twin = rt_alloc(c->c->mem, (n + 1) * sizeof *c->twin);
  c->out_bytes = rt_alloc(c->c->mem, (n + 1) * sizeof *c->out_bytes);
  c->out_struct = rt_alloc(c->c->mem, (n + 1) * sizeof *c->out_struct);
  for (uint32_t k = 0; k < n; k++) {
    c->out[k] = array_of(c, &c->row->outputs[k], &c->out_bytes[k]);
    c->out_struct[k] = c->twin[k] = aligned(c->out_bytes[k]);
  }
}

static void free_call(Call *c) {
  for (uint32_t k = 0; k < c->row->n_inputs; k++) free(c->in[k].data);
  for (uint32_t k = 0; k < c->row->n_outputs; k++) free(c->out[k].data), free(c->twin[k]);
}

// ---- threads of the caller
typedef int WorkerCall(void *state, void *arena, size_t arena_bytes, const void *in, const void *out, int32_t worker,
                       int32_t n_workers, void (*barrier)(void *, int32_t, int32_t), void *ctx);
typedef struct {
  const Call *c;
  WorkerCall *call;
  pthread_barrier_t *all;
  int32_t worker;
  int status;
} Worker;

// Barriers may be waited at by some of the workers only: one for each place and each number of them.
static pthread_barrier_t barriers[64][N_THREADS + 1];
static void wait_at(void *ctx, int32_t which, int32_t count) {
  (void)ctx;
  pthread_barrier_wait(&barriers[which][count]);
}

static void *work(void *ctx) {
  Worker *w = ctx;
  const Case *c = w->c->c;
  w->status = w->call(c->state, c->arena, c->about->arena_bytes, w->c->in_struct, w->c->out_struct, w->worker,
                      N_THREADS, wait_at, NULL);
  return NULL;
}

static int call_in_threads(const Call *c) {
  Worker w[N_THREADS];
  pthread_t thread[N_THREADS];
  char *symbol = rt_printf(c->c->mem, "%s_%s_worker", c->c->name, c->listed->name);
  void *found = dlsym(c->c->library, symbol);
  if (!CHECK(found != NULL)) return -1;
  for (int32_t k = 0; k < N_THREADS; k++) {
    w[k] = (Worker){.c = c, .worker = k};
    memcpy((void *)&w[k].call, &found, sizeof found);
    pthread_create(&thread[k], NULL, work, &w[k]);
  }
  for (int32_t k = 0; k < N_THREADS; k++) pthread_join(thread[k], NULL);
  CHECK(w[0].status == w[1].status && w[1].status == w[2].status);
  return w[0].status;
}

// ---- comparing
static bool run_both(Call *c, int n) {
  const Case *k = c->c;
  for (uint32_t i = 0; i < c->row->n_outputs; i++)
    memset(c->out[i].data, FILL, c->out_bytes[i]), memset(c->twin[i], FILL, c->out_bytes[i]);
  for (size_t i = 0; i < k->about->arena_bytes; i++)
    k->arena[i] = (unsigned char)(i * 37);  // its content means nothing
  tn_status status = tn_run(k->model, c->listed->name, c->in, c->row->n_inputs, c->out, c->row->n_outputs);
  bool is_plain = c->row->n_inputs && c->row->n_outputs;  // entries without one of them have another signature
  int answer = k->has_workers && is_plain && n
                   ? call_in_threads(c)
                   : c->listed->call(k->state, k->arena, k->about->arena_bytes, c->in_struct, c->out_struct);
  if (!CHECK(!status == !answer)) printf("  run: %s; bundle: %s\n", tn_error_text(k->model), k->about->error(answer));
  seen.n_runs++, seen.n_refused += status != TN_OK;
  bool same = !status == !answer;
  for (uint32_t i = 0; i < c->row->n_outputs && !status && !answer; i++) {
    same &= CHECK(!memcmp(c->out[i].data, c->twin[i], c->out_bytes[i]));
    seen.n_values += (unsigned)(c->out_bytes[i] / 4);
  }
  uint64_t random[2];
  memcpy(random, k->state + 8, sizeof random);  // seed and counter
  same &= CHECK(random[0] == rt_instance_seed(k->model->inst) && random[1] == rt_instance_counter(k->model->inst));
  return CHECK(same_params(k)) && same;
}

static const Fn *function_of(const Prog *p, const char *name) {
  for (uint32_t k = 0; k < p->n_fns; k++)
    if (!strcmp(ir_text(p, p->fns[k]->name), name)) return p->fns[k];
  return NULL;
}

static bool run_function(Case *k, uint32_t listed) {
  Call c = {.c = k, .plan = rt_instance_plan(k->model->inst), .listed = &k->about->functions[listed]};
  c.f = function_of(k->p, c.listed->name);
  for (uint32_t f = 0; f < c.plan->n_functions; f++)
    if (!strcmp(c.plan->functions[f].name, c.listed->name)) c.row = &c.plan->functions[f];
  if (!CHECK(c.f && c.row)) return false;
  TrialData d = trial_data(c.f, 0, k->mem);
  bind_slots(&c, &d);
  bind_inputs(&c, &d);
  bind_outputs(&c);
  set_params(k, &d);
  bool same = true;
  for (int n = 0; n < N_CALLS; n++) same &= run_both(&c, n);
  if (!same) printf("seed %llu, function %s, target %s\n", (unsigned long long)k->seed, c.listed->name, k->target);
  free_call(&c);
  seen.n_functions++;
  return same;
}

static bool compare(Case *c) {
  c->state = aligned(c->about->state_bytes);
  c->arena = aligned(c->about->arena_bytes);
  int status = c->about->init(c->state, c->arena, c->about->arena_bytes, SEED);
  if (!CHECK(status == 0)) return printf("%s\n", c->about->error(status)), false;
  bool same = CHECK(same_params(c));
  for (uint32_t k = 0; k < c->about->n_functions; k++) same &= run_function(c, k);
  return same;
}

static void remove_files(const Case *c) {
  static const char *const ending[] = {".o", ".so", ".h", ".json", "_selftest.c", ".safetensors"};
  for (size_t k = 0; k < sizeof ending / sizeof *ending; k++)
    unlink(rt_printf(c->mem, "%s/%s%s", folder, c->name, ending[k]));
}

static RandomKind drawn = RANDOM_ALL;  // --calls: RANDOM_CALLS

// False: the program is not legal.
static bool test_program(uint64_t seed, uint32_t n_functions) {
  Case c = {.seed = seed, .mem = rt_arena_new()};
  bool is_short = seed % 4 == 2;  // so that no large function hides what a limit does to others
  c.p = random_program(c.mem, drawn, seed, is_short ? (n_functions + 3) / 4 : n_functions);
  c.text = print_program(c.mem, c.p);
  c.name = rt_printf(c.mem, "r%llu", (unsigned long long)seed);
  c.target = seed % 4 ? NULL : "x86-64-v2,x86-64-v3";
  c.has_workers = seed % 3 == 2;
  c.has_buckets = seed % 2, c.has_limit = seed % 4 > 1;
  bool is_legal = compile_model(&c);  // what is refused is a matter of test_random
  bool same = !is_legal || (make_bundle(&c) && open_bundle(&c) && compare(&c));
  if (!same) printf("program of seed %llu\n", (unsigned long long)seed);
  remove_files(&c);
  free(c.state), free(c.arena);
  if (c.library) dlclose(c.library);
  tn_model_free(c.model);
  tn_program_free(c.built);
  rt_arena_free(c.mem);
  return is_legal;
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t absent) {
  for (int k = 1; k + 1 < argc; k++)
    if (!strcmp(argv[k], name)) return strtoull(argv[k + 1], NULL, 10);
  return absent;
}

int main(int argc, char **argv) {
  uint64_t count = option(argc, argv, "--count", is_sample() ? 4 : 8), first = option(argc, argv, "--seed", 1);
  uint32_t n_functions = (uint32_t)option(argc, argv, "--functions", 8);
  for (int k = 1; k < argc; k++)
    if (!strcmp(argv[k], "--calls")) drawn = RANDOM_CALLS;
  setenv("TN_GEMM", "own", 1);  // as in a bundle
  if (!mkdtemp(folder)) return 2;
  for (int which = 0; which < 64; which++)
    for (unsigned n = 1; n <= N_THREADS; n++) pthread_barrier_init(&barriers[which][n], NULL, n);
  // Which programs fit in a smaller arena depends on all that is drawn: on until one does.
  bool needs_limited = count >= 8;
  for (uint64_t k = first, n = 0; (n < count || (needs_limited && !seen.n_limited)) && k < first + 3 * count; k++) {
    n += test_program(k, n_functions);
    fflush(stdout);
  }
  CHECK(seen.n_functions * 5 >= count * n_functions * 2);
  rmdir(folder);
  CHECK(!needs_limited || seen.n_limited > 0);
  printf("%u functions, %u runs, %u of them refused, %u values; %u programs in a smaller arena\n", seen.n_functions,
         seen.n_runs, seen.n_refused, seen.n_values, seen.n_limited);
  return check_report();
}
