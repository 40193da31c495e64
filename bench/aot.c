// Bundles of programs: bytes of their objects for each target, time that making them takes, and calls of the object beside
// runs of the same program by a model with one worker.
//
//   tenure_bench aot tiny lstm256 build/vowels.tir
#include "bench/bench.h"
#include "frontend/bundle/texts.h"
#include "frontend/graph/program.h"
#include "frontend/run/run.h"
#include "frontend/tenure.h"
#include "ir/intern.h"
#include "tools/arrays.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { N_ROUNDS = 40 };

typedef struct {
  RtArena *mem;
  const char *file, *name, *folder, *text;
  size_t n_text;
} Aot;

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *read_file(RtArena *mem, const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  rewind(f);
  char *bytes = rt_alloc(mem, (size_t)size + 1);
  *n = fread(bytes, 1, (size_t)size, f);
  fclose(f);
  return bytes;
}

// ---- sizes: what a program has of the object in memory, read-only. Code and constants alike; tables that hold addresses.
#define SUM_OF(bits)                                                                                     \
  static void sum##bits(const char *bytes, size_t *code, size_t *tables) {                               \
    const Elf##bits##_Ehdr *head = (const void *)bytes;                                                  \
    const Elf##bits##_Shdr *row = (const void *)(bytes + head->e_shoff);                                 \
    for (int k = 0; k < head->e_shnum; k++)                                                              \
      if (row[k].sh_flags & SHF_ALLOC) *(row[k].sh_flags & SHF_WRITE ? tables : code) += row[k].sh_size; \
  }
SUM_OF(32)
SUM_OF(64)

static bool object_bytes(const Aot *a, const char *path, size_t *code, size_t *tables) {
  size_t n;
  const char *bytes = read_file(a->mem, path, &n);
  *code = *tables = 0;
  if (!bytes || n < EI_NIDENT) return false;
  (bytes[EI_CLASS] == ELFCLASS32 ? sum32 : sum64)(bytes, code, tables);
  return true;
}

// ---- making
static const char *path_of(const Aot *a, const char *ending) {
  return rt_printf(a->mem, "%s/%s%s", a->folder, a->name, ending);
}

static void remove_files(const Aot *a) {
  static const char *const ending[] = {".o", ".so", ".h", ".json", "_selftest.c", ".safetensors"};
  for (size_t k = 0; k < sizeof ending / sizeof *ending; k++) unlink(path_of(a, ending[k]));
}

static bool make(const Aot *a, const char *target, const char *functions, const char *emit) {
  tn_program *p = tn_program_parse(a->text, a->n_text, a->file);
  tn_bundle_options o = {.targets = target, .functions = functions, .emit = emit};
  bool good = (tn_bundle)(p, path_of(a, ""), o) == TN_OK;
  if (!good) tn_report(p, stderr);
  tn_program_free(p);
  return good;
}

static bool show_sizes(const Aot *a, const char *functions) {
  uint32_t n;
  const Target *rows = cg_targets(&n);
  for (uint32_t k = 0; k < n; k++) {
    size_t code, tables;
    double start = seconds_of(CLOCK_MONOTONIC);
    if (!make(a, rows[k].name, functions, "o") || !object_bytes(a, path_of(a, ".o"), &code, &tables)) return false;
    printf("| %s | %s | %s | %.1f | %.1f | %.2f |\n", a->name, functions ? functions : "all", rows[k].name,
           (double)code / 1024, (double)tables / 1024, seconds_of(CLOCK_MONOTONIC) - start);
    fflush(stdout);
  }
  return true;
}

// ---- calls
typedef struct {
  tn_model *model;
  const RtFunction *f;
  const Fn *fn;
  const RtPlan *plan;
  const TnBundleFunction *listed;
  void *state, *arena;
  size_t arena_bytes;
  int64_t *dims;  // full
  void **in_struct, **out_struct;
  tn_array *in, *out;
} Pair;

static int64_t bound_of(const RtPlan *p, uint32_t row) {
  const RtDim *d = &p->dims[row];
  if (d->kind == RT_DIM_CONST) return d->value;
  if (d->kind == RT_DIM_SLOT) return p->slots[d->value].bound;
  int64_t a = bound_of(p, d->a), b = bound_of(p, d->b);
  switch ((RtDimKind)d->kind) {
  case RT_DIM_MUL: return a * b;
  case RT_DIM_DIV: return rt_floor_div(a, b);
  case RT_DIM_MAX: return rt_larger(a, b);
  case RT_DIM_MIN: return rt_smaller(a, b);
  default: return a + b;
  }
}

static tn_array full_array(const RtPlan *p, const RtPort *port, size_t *n) {
  tn_array a = {.dtype = (tn_dtype)port->dtype, .rank = port->rank};
  *n = 1;
  for (uint32_t d = 0; d < port->rank; d++) *n *= (size_t)(a.dims[d] = bound_of(p, port->dims[d]));
  a.data = bench_block(*n * rt_dtype_bytes(port->dtype));
  return a;
}

// As selftests draw: a call that refuses them is tried again with less spread.
static void fill(const Aot *a, const Pair *c, uint32_t k, int64_t spread) {
  Drawn d = {.spread = spread, .seed = 1};
  int64_t *slots = rt_alloc(a->mem, (c->fn->prog->n_syms + 1) * sizeof *slots);
  for (uint32_t s = 0; s < c->fn->prog->n_syms; s++) slots[s] = ir_dim_bound(c->fn->prog, c->fn->prog->syms[s]);
  d.n_ranges = ir_draw_ranges(a->mem, c->fn, slots, k, &d.ranges);
  array_fill_random(&c->in[k], &d, k);
}

static void bind(const Aot *a, const TnBundleAbout *about, Pair *c) {
  uint32_t n = c->listed->n_dims;
  size_t elements;
  c->dims = rt_alloc(a->mem, (n + 1) * sizeof *c->dims);
  c->in_struct = rt_alloc(a->mem, (n + c->f->n_inputs + 1) * sizeof *c->in_struct);
  c->out_struct = rt_alloc(a->mem, (c->f->n_outputs + 1) * sizeof *c->out_struct);
  c->in = rt_alloc(a->mem, (c->f->n_inputs + 1) * sizeof *c->in);
  c->out = rt_alloc(a->mem, (c->f->n_outputs + 1) * sizeof *c->out);
  for (uint32_t d = 0; d < n; d++) {
    for (uint32_t s = 0; s < about->n_dims; s++)
      if (!strcmp(about->dims[s].name, c->listed->dims[d])) c->dims[d] = about->dims[s].max;
    memcpy(&c->in_struct[d], &c->dims[d], sizeof *c->dims);
  }
  for (uint32_t k = 0; k < c->f->n_inputs; k++) {
    c->in[k] = full_array(c->plan, &c->f->inputs[k], &elements);
    fill(a, c, k, ir_draw_spreads[0]);
    c->in_struct[n + k] = c->in[k].data;
  }
  for (uint32_t k = 0; k < c->f->n_outputs; k++) {
    c->out[k] = full_array(c->plan, &c->f->outputs[k], &elements);
    c->out_struct[k] = c->out[k].data;
  }
}

static bool call(const Pair *c, bool is_bundle) {
  if (is_bundle) return c->listed->call(c->state, c->arena, c->arena_bytes, c->in_struct, c->out_struct) == 0;
  return tn_run(c->model, c->listed->name, c->in, c->f->n_inputs, c->out, c->f->n_outputs) == TN_OK;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Bursts of both in turn, CPU time: other processes take turns with both.
static bool time_pair(const Aot *a, const Pair *c) {
  double took[2][N_ROUNDS];
  long calls = 1;
  bool good = call(c, false) && call(c, true);
  double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  good = good && call(c, false);
  double once = seconds_of(CLOCK_THREAD_CPUTIME_ID) - start;
  if (once < 0.01) calls = (long)(0.01 / (once + 1e-7)) + 1;
  for (int k = 0; k < N_ROUNDS; k++)
    for (int which = 0; which < 2; which++) {
      start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
      for (long i = 0; i < calls; i++) good = good && call(c, (which + k) % 2);
      took[(which + k) % 2][k] = (seconds_of(CLOCK_THREAD_CPUTIME_ID) - start) / (double)calls;
    }
  if (!good) return fprintf(stderr, "bench: %s: %s\n", c->listed->name, tn_error_text(c->model)), false;
  for (int which = 0; which < 2; which++) qsort(took[which], N_ROUNDS, sizeof **took, by_size);
  const double *m = took[0], *b = took[1];
  printf("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.3f | %.3f |\n", a->name, c->listed->name, m[0] * 1e6,
         m[N_ROUNDS / 2] * 1e6, b[0] * 1e6, b[N_ROUNDS / 2] * 1e6, b[0] / m[0], b[N_ROUNDS / 2] / m[N_ROUNDS / 2]);
  fflush(stdout);
  return true;
}

static bool takes_inputs(const Aot *a, const Pair *c) {
  bool good = call(c, false);
  for (uint32_t s = 1; !good && s < DRAW_N_SPREADS; s++) {
    for (uint32_t k = 0; k < c->f->n_inputs; k++) fill(a, c, k, ir_draw_spreads[s]);
    good = call(c, false);
  }
  if (!good)
    fprintf(stderr, "bench: no inputs were found that %s takes: %s\n", c->listed->name, tn_error_text(c->model));
  return good;
}

static bool time_function(const Aot *a, const TnBundleAbout *about, const tn_program *p, tn_model *m, uint32_t listed) {
  const RtPlan *plan = rt_instance_plan(m->inst);
  Pair c = {.model = m,
            .fn = p->ir->fns[cg_bundle_function(plan, listed)],
            .plan = plan,
            .f = &plan->functions[cg_bundle_function(plan, listed)],
            .listed = &about->functions[listed],
            .state = bench_block(about->state_bytes),
            .arena_bytes = about->arena_bytes};
  c.arena = bench_block(about->arena_bytes);
  bind(a, about, &c);
  bool good = about->init(c.state, c.arena, c.arena_bytes, 0) == 0 && takes_inputs(a, &c) && time_pair(a, &c);
  for (uint32_t k = 0; k < c.f->n_inputs; k++) free(c.in[k].data);
  for (uint32_t k = 0; k < c.f->n_outputs; k++) free(c.out[k].data);
  free(c.state), free(c.arena);
  return good;
}

static bool show_calls(const Aot *a) {
  if (!make(a, NULL, NULL, "so")) return false;
  void *library = dlopen(path_of(a, ".so"), RTLD_NOW | RTLD_LOCAL);
  const TnBundleAbout *about = library ? dlsym(library, rt_printf(a->mem, "%s_about", a->name)) : NULL;
  tn_program *p = tn_program_parse(a->text, a->n_text, a->file);
  tn_model *m = tn_compile(p, .n_workers = 1);
  bool good = about && m;
  for (uint32_t k = 0; good && k < about->n_functions; k++) good = time_function(a, about, p, m, k);
  tn_model_free(m);
  tn_program_free(p);
  if (library) dlclose(library);
  return good;
}

// ---- all files
// The function of a program that trains which a device without training would have.
static const char *inference_of(const Aot *a) {
  static const char *const names[] = {"predict", "next"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (strstr(a->text, "func @train_step(") && strstr(a->text, rt_printf(a->mem, "func @%s(", names[k])))
      return names[k];
  return NULL;
}

static bool open_file(Aot *a, RtArena *mem, const char *file, const char *folder) {
  const char *slash = strrchr(file, '/');
  char *name = rt_strdup(mem, slash ? slash + 1 : file);
  name[strcspn(name, ".")] = 0;
  *a = (Aot){.mem = mem, .file = file, .name = name, .folder = folder};
  a->text = read_file(mem, file, &a->n_text);
  return a->text || (fprintf(stderr, "bench: %s cannot be read\n", file), false);
}

typedef bool Show(const Aot *a);
static bool sizes(const Aot *a) {
  const char *inference = inference_of(a);
  return show_sizes(a, NULL) && (!inference || show_sizes(a, inference));
}

static bool each(const char *const *files, int n, const char *folder, Show *show) {
  bool good = true;
  for (int k = 0; k < n && good; k++) {
    Aot a;
    RtArena *mem = rt_arena_new();
    good = open_file(&a, mem, files[k], folder) && show(&a);
    remove_files(&a);
    rt_arena_free(mem);
  }
  return good;
}

int bench_aot(const char *const *files, int n, const char *folder) {
  setenv("TN_GEMM", "own", 1);  // as in a bundle
  printf("| program | functions | target | code and constants, KiB | tables, KiB | made in, s "
         "|\n|---|---|---|--:|--:|--:|\n");
  if (!each(files, n, folder, sizes)) return 1;
  printf("\n| program | function | model, us: min | median | bundle, us: min | median | ratio of min | of medians |\n"
         "|---|---|--:|--:|--:|--:|--:|--:|\n");
  return !each(files, n, folder, show_calls);
}
