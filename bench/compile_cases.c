// Programs whose compile time once grew faster than they did, each with a goal: milliseconds until the model can run, or, of `building`,
// until the program is built; --vs jax: what JAX takes to trace and compile the same. Part of `bench compile`.
#include "bench/measure.h"
#include "examples/resnet/model.h"
#include "runtime/exec/plan.h"

#include <stdlib.h>
#include <string.h>

// ---- programs
static tn_function *begin(tn_program **p) {
  *p = tn_program_create("compile");
  return tn_function_begin(*p, "step");
}

static tn_program *end(tn_program *p, tn_function *f, tn_tensor y) {
  tn_output(f, "y", y);
  tn_function_end(f);
  return p;
}

// A step of descent on the sum of squares, and the gradient of x.
static tn_program *with_gradients(tn_program *p, tn_function *f, tn_tensor x, tn_tensor y) {
  tn_tensor loss = tn_sum(tn_square(y));
  tn_output(f, "gradient", tn_grad(loss, x));
  tn_backward(loss);
  tn_sgd(f, tn_root(p), .lr = 0.01);
  return end(p, f, loss);
}

static tn_program *transposed(int64_t kernel, int64_t stride) {
  tn_program *p;
  tn_function *f = begin(&p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 16, 8, 8));
  tn_module *m = tn_conv_transpose2d_module(tn_root(p), "c", 16, 16, kernel, .stride = stride);
  return with_gradients(p, f, x, tn_call(m, x));
}

static tn_program *transposed_32(void) { return transposed(32, 16); }
static tn_program *transposed_64(void) { return transposed(64, 32); }

// Of images whose sizes the run gives
static tn_program *of_the_run(tn_module *(*make)(tn_module *, const char *, int64_t, int64_t, int64_t,
                                                 tn_conv_module_options),
                              int64_t most, tn_conv_module_options o) {
  tn_program *p;
  tn_function *f = begin(&p);
  tn_tensor x =
      tn_input(f, "x", TN_F32, TN_SHAPE(2, 16, tn_dim_bounded(p, "height", most), tn_dim_bounded(p, "width", most)));
  return with_gradients(p, f, x, tn_call((make)(tn_root(p), "c", 16, 16, 64, o), x));
}

static tn_program *run_sized(void) {
  return of_the_run((tn_conv_transpose2d_module), 8, (tn_conv_module_options){.stride = 32, .output_padding = 5});
}
static tn_program *run_sized_image(void) {
  return of_the_run((tn_conv2d_module), 256, (tn_conv_module_options){.stride = 32});
}

static tn_program *exact(void) {
  tn_program *p;
  tn_function *f = begin(&p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 16, 8, 8));
  tn_module *m =
      tn_conv_transpose2d_module(tn_root(p), "c", 16, 16, 21, .stride = 32, .dilation = 3, .algorithm = TN_CONV_EXACT);
  return with_gradients(p, f, x, tn_call(m, x));
}

static tn_program *patches(void) {
  tn_program *p;
  tn_function *f = begin(&p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 224, 224));
  return with_gradients(p, f, x, tn_call(tn_conv2d_module(tn_root(p), "c", 3, 768, 16, .stride = 16), x));
}

static tn_program *windows(void) {
  tn_program *p;
  tn_function *f = begin(&p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(8, 16000));
  return end(p, f, tn_grad(tn_sum(tn_square(tn_unfold(x, 1, 400, 160))), x));
}

enum { CHAIN = 20000, BLOCKS = 400, WIDTH = 64, BATCHES = 300 };

static tn_program *chain(void) {
  tn_program *p;
  tn_function *f = begin(&p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1000)), c = tn_input(f, "c", TN_F32, TN_SHAPE(1000));
  for (long k = 0; k < CHAIN / 2; k++) x = tn_tanh(tn_mul(x, c));
  return end(p, f, x);
}

static tn_program *transformer(void) {
  tn_program *p;
  tn_function *f = begin(&p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 16, WIDTH));
  tn_module *m = tn_transformer_encoder(tn_root(p), "t", WIDTH, 4, BLOCKS, .feedforward = 2 * WIDTH);
  tn_tensor loss = tn_sum(tn_square(tn_call(m, x)));
  tn_backward(loss);
  tn_adamw(f, tn_root(p));
  return end(p, f, loss);
}

static tn_program *layers(void) { return bench_compile_layers(&(CompileLayers){100, true, true}); }

static tn_program *batches(void) {
  tn_program *p = tn_program_create("compile");
  tn_module *a = tn_linear(tn_root(p), "a", WIDTH, WIDTH), *b = tn_linear(tn_root(p), "b", WIDTH, 10);
  for (long k = 1; k <= BATCHES; k++) {
    char name[32];
    snprintf(name, sizeof name, "batch_%ld", k);
    tn_function *f = tn_function_begin(p, name);
    tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(k, WIDTH));
    end(p, f, tn_softmax(tn_call(b, tn_gelu(tn_call(a, x))), 1));
  }
  return p;
}

static tn_program *resnet(void) {
  tn_program *p;
  tn_function *f = begin(&p);
  const Resnet *r = resnet_of_depth(152);
  resnet_make(p, r, 1000);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 224, 224)), y = tn_input(f, "y", TN_I64, TN_SHAPE(2));
  tn_tensor loss = tn_cross_entropy(resnet_logits(p, r, x), y);
  tn_backward(loss);
  tn_sgd(f, tn_root(p), .lr = 0.1, .momentum = 0.9);
  return end(p, f, loss);
}

// ---- the table
typedef enum { ALL, BUILDING, SYSTEM } Part;
static const char *const part_names[] = {"wall", "building", "system"};
static const struct {
  const char *name, *what;
  tn_program *(*program)(void);
  Part part;  // that the goal is of
  double goal_ms;
} rows[] = {
    {"transposed_64", "a transposed convolution, K 64 S 32, and its gradients", transposed_64, ALL, 500},
    {"transposed_32", "the same, K 32 S 16", transposed_32, ALL, 500},
    {"run_sized", "transposed_64, sizes of the run, padded at one end", run_sized, ALL, 500},
    {"run_sized_image", "the gradients of a convolution, K 64 S 32, sizes of the run", run_sized_image, ALL, 500},
    {"exact", "exact sums of windows with holes, K 21 S 32", exact, ALL, 500},
    {"patches", "patches of 16 x 16 and their gradients", patches, ALL, 500},
    {"windows", "windows of 400 samples and their gradient", windows, ALL, 200},
    {"chain", "20,000 pointwise operations in a chain", chain, ALL, 3000},
    {"transformer", "400 transformer layers, a training step with AdamW", transformer, BUILDING, 100},
    {"layers", "100 distinct linear layers, a training step with AdamW", layers, ALL, 2000},
    {"batches", "300 functions that differ in a constant batch", batches, ALL, 3000},
    {"resnet", "ResNet-152, a training step", resnet, SYSTEM, 500},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static double ms_of_part(const CompileCost *c, Part part) {
  double of[] = {c->wall_ms, c->build_ms, c->system_ms};
  return of[part];
}

static tn_program *program_of(const void *row) { return rows[*(const int *)row].program(); }
static bool compile_row(const void *row, CompileCost *cost) { return bench_compile_once(program_of, row, cost); }

// The probe beside the row of system time: a block is written first, of as many bytes as ResNet-152's weights and momentum.
enum { MIB = 1 << 20, FIRST_MIB = 480 };
static bool write_first(const void *of, CompileCost *cost) {
  (void)of;
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  char *block = rt_block_new((int64_t)FIRST_MIB * MIB);
  for (int64_t at = 0; block && at < (int64_t)FIRST_MIB * MIB; at += 4096) block[at] = 1;
  getrusage(RUSAGE_SELF, &after);
  cost->system_ms = bench_ms_of(after.ru_stime) - bench_ms_of(before.ru_stime);
  return block != NULL;
}

static void print_first_writes(void) {
  CompileCost c;
  struct rusage used;
  if (bench_in_child(write_first, NULL, &c, &used))
    printf("\nFirst writes of %d MiB take %.0f ms of system time here.\n", FIRST_MIB, c.system_ms);
}

// -1: it cannot be had.
static double ms_of_jax(const Options *o, const char *name) {
  char command[1024];
  double ms = -1;
  snprintf(command, sizeof command, "'%s' '%s/bench/peers/jax_compile.py' %s", o->python, o->root, name);
  FILE *f = popen(command, "r");
  if (!f) return -1;
  if (fscanf(f, "%lf", &ms) != 1) ms = -1;
  return pclose(f) ? -1 : ms;
}

static bool is_known(const Options *o) {
  bool has_peer = !o->n_vs || (o->n_vs == 1 && !strcmp(o->vs[0], "jax")), any = !o->variant;
  for (int k = 0; k < N_ROWS; k++) any |= o->variant && strstr(rows[k].name, o->variant);
  if (!has_peer) fprintf(stderr, "bench: compile has jax as its peer alone\n");
  if (!any) fprintf(stderr, "bench: compile has no case with '%s' in its name\n", o->variant);
  return has_peer && any;
}

static void print_ms_of_jax(const Options *o, const char *name) {
  double ms = ms_of_jax(o, name);
  if (ms < 0) printf(" none |");
  else printf(" %.0f |", ms);
}

bool bench_compile_cases(const Options *o) {
  bool jax = o->n_vs > 0;
  if (!is_known(o)) return false;
  printf("\n| program | kernels | distinct | building ms | CPU ms | of it system | wall ms | goal ms | |%s\n",
         jax ? " JAX ms |" : "");
  printf("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |%s\n", jax ? " ---: |" : "");
  for (int k = 0; k < N_ROWS; k++) {
    CompileCost c = {0}, next;
    if (o->variant && !strstr(rows[k].name, o->variant)) continue;
    for (long round = 0; round == 0 || round < o->rounds; round++) {
      struct rusage used;
      if (!bench_in_child(compile_row, &k, &next, &used))
        return fprintf(stderr, "bench: %s failed\n", rows[k].name), false;
      if (round == 0 || ms_of_part(&next, rows[k].part) < ms_of_part(&c, rows[k].part)) c = next;
    }
    double ms = ms_of_part(&c, rows[k].part);
    printf("| `%s`: %s | %u | %u | %.0f | %.0f | %.0f | %.0f | %s %.0f | %s |", rows[k].name, rows[k].what,
           c.info.n_kernels, c.info.n_distinct_kernels, c.build_ms, c.cpu_ms, c.system_ms, c.wall_ms,
           part_names[rows[k].part], rows[k].goal_ms, ms <= rows[k].goal_ms ? "met" : "missed");
    if (jax) print_ms_of_jax(o, rows[k].name);
    printf("\n");
    fflush(stdout);
  }
  print_first_writes();
  return true;
}
