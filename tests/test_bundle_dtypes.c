// Inputs, outputs and entries of every dtype in a bundle: the bits of tn_run, as a library and opened as a model; files of
// both; what another dtype is; the selftest, compiled as C99.
#include "frontend/graph/function.h"
#include "frontend/run/run.h"
#include "frontend/tenure.h"
#include "runtime/bundle/about.h"
#include "tests/check.h"
#include "tests/report.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 6, WIDTH = 5, N_STEPS = 4, SEED = 5, N_TYPES = TN_BF16 };
static char folder[] = "/tmp/tenure-bundle-XXXXXX";
static const char *const names[N_TYPES] = {"f32", "i64", "i32", "u8", "bool", "f16", "bf16"};
static const char *const outputs[N_TYPES] = {"y_f32", "y_i64", "y_i32", "y_u8", "y_bool", "y_f16", "y_bf16"};
static const tn_init zeros = {TN_INIT_ZEROS, 0, 0};

// ---- a buffer of each dtype takes in what an input of that dtype holds; a layer of bf16 learns to sum it up
// Halves, which have no arithmetic, are handed out as they are.
static tn_tensor exchange(tn_function *f, tn_dim B, int k) {
  tn_dtype t = (tn_dtype)(k + 1);
  tn_tensor x = tn_input(f, names[k], t, TN_SHAPE(B, WIDTH)), as_f32 = tn_cast(x, TN_F32);
  tn_tensor kept = tn_param_value(f, tn_root(f->p), names[k]);
  tn_copy_(kept, tn_add(tn_cast(kept, TN_F32), tn_amax_axis(as_f32, 0, false)));
  if (t < TN_F16) tn_output(f, outputs[k], tn_mul(tn_expand(kept, TN_SHAPE(B, WIDTH)), x));
  else tn_output(f, outputs[k], tn_concat(0, TN_TENSORS(x, tn_reshape(kept, TN_SHAPE(1, WIDTH)))));
  return as_f32;
}

static tn_program *make_program(void) {
  tn_program *p = tn_program_create("dtypes");
  tn_module *root = tn_root(p), *layer = tn_linear(root, "layer", WIDTH, 1);
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  for (int k = 0; k < N_TYPES; k++) {
    tn_buffer(root, names[k], TN_SHAPE(WIDTH), zeros);
    tn_store_as(root, names[k], (tn_dtype)(k + 1));
  }
  tn_store_as(layer, NULL, TN_BF16);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor loss = TN_NONE;
  for (int k = 0; k < N_TYPES; k++) {
    tn_tensor x = exchange(f, B, k);
    tn_tensor away = tn_sub(tn_call(layer, x), tn_sum_axis(x, 1, true)), part = tn_mean(tn_tanh(tn_square(away)));
    loss = loss.fn ? tn_add(loss, part) : part;
  }
  tn_backward(loss);
  tn_adamw(f, root, .lr = 0.05);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  return p;
}

// ---- both, step by step
typedef struct {
  int64_t batch;
  const void *data[N_TYPES];
} In;
typedef struct {
  int64_t data[N_TYPES][(BATCH + 1) * WIDTH];  // room for the widest
  float loss;
} Numbers;
typedef struct {
  tn_model *model, *opened;
  const TnBundleAbout *about;
  unsigned char *state, *arena;
} Twins;

static void *aligned(size_t n) {
  void *p = aligned_alloc(TN_ALIGN, (n / TN_ALIGN + 1) * TN_ALIGN);
  if (!p) abort();
  return p;
}

static void draw(int step, Numbers *in) {
  memset(in, 0, sizeof *in);
  for (int k = 0; k < N_TYPES; k++)
    for (int i = 0; i < BATCH * WIDTH; i++) {
      int v = (i * 37 + step * 11 + k) % 23;
      switch (k + 1) {
      case TN_F32: ((float *)in->data[k])[i] = (float)v / 16 - 0.7f; break;
      case TN_I64: in->data[k][i] = v * INT64_C(0x123456789) - 5; break;
      case TN_I32: ((int32_t *)in->data[k])[i] = v * 0x123456 - 5; break;
      case TN_U8: ((uint8_t *)in->data[k])[i] = (uint8_t)(v * 11); break;
      case TN_BOOL: ((uint8_t *)in->data[k])[i] = v % 2; break;
      case TN_F16: ((uint16_t *)in->data[k])[i] = (uint16_t)(0x3000 + v * 77); break;
      default: ((uint16_t *)in->data[k])[i] = (uint16_t)(0xbe00 + v * 3);
      }
    }
}

static void run_model(tn_model *m, int64_t batch, const Numbers *in, Numbers *out) {
  tn_array ins[N_TYPES], outs[N_TYPES + 1];
  for (int k = 0; k < N_TYPES; k++) {
    tn_dtype t = (tn_dtype)(k + 1);
    ins[k] = tn_array_of(in->data[k], t, (int64_t[]){batch, WIDTH}, 2);
    outs[k] = tn_array_of(out->data[k], t, (int64_t[]){batch + (t >= TN_F16), WIDTH}, 2);
  }
  outs[N_TYPES] = tn_f32_scalar(&out->loss);
  if (!CHECK(tn_run(m, "step", ins, N_TYPES, outs, N_TYPES + 1) == TN_OK)) puts(tn_error_text(m));
}

static void run_bundle(const Twins *t, int64_t batch, const Numbers *in, Numbers *out) {
  In given = {.batch = batch};
  void *to[N_TYPES + 1];
  for (int k = 0; k < N_TYPES; k++) given.data[k] = in->data[k], to[k] = out->data[k];
  to[N_TYPES] = &out->loss;
  CHECK(t->about->functions[0].call(t->state, t->arena, t->about->arena_bytes, &given, to) == 0);
}

static bool same_state(const Twins *t) {
  const RtPlan *plan = rt_instance_plan(t->model->inst);
  bool same = CHECK(plan->n_params == t->about->n_tensors && plan->n_params > 2 * N_TYPES);
  for (uint32_t k = 0; k < plan->n_params && same; k++) {
    const TnBundleTensor *q = &t->about->tensors[k];
    const unsigned char *own = rt_instance_block(t->model->inst) + plan->params[k].offset;
    same = CHECK(q->dtype == plan->params[k].dtype && !memcmp(own, t->state + q->offset, q->bytes)) &&
           CHECK(!memcmp(own, rt_instance_block(t->opened->inst) + plan->params[k].offset, q->bytes));
    if (!same) printf("  %s differs\n", q->path);
  }
  return same;
}

static void train(const Twins *t) {
  static Numbers in, out[3];
  for (int s = 0; s < N_STEPS; s++) {
    int64_t batch = 1 + s * 5 % BATCH;
    draw(s, &in);
    memset(out, 0, sizeof out);
    run_model(t->model, batch, &in, &out[0]);
    run_model(t->opened, batch, &in, &out[1]);
    run_bundle(t, batch, &in, &out[2]);
    CHECK(!memcmp(&out[0], &out[1], sizeof *out) && !memcmp(&out[0], &out[2], sizeof *out));
    if (!same_state(t)) printf("  after step %d\n", s);
  }
}

// ---- files
static const char *in_folder(const char *name) {
  static char path[64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static unsigned char *read_whole(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  unsigned char *bytes = malloc(1 << 16);
  if (!CHECK(f && bytes)) exit(1);
  *n = fread(bytes, 1, 1 << 16, f);
  fclose(f);
  return bytes;
}

// What one saves the other loads; a file whose buffer i32 is U8 is refused by name.
static void files(const Twins *t) {
  size_t n, needed;
  CHECK(tn_save(t->model, in_folder("m.safetensors"), true) == TN_OK);
  unsigned char *bytes = read_whole(in_folder("m.safetensors"), &n);
  CHECK(t->about->init(t->state, t->arena, t->about->arena_bytes, 77) == 0);
  CHECK(t->about->load(t->state, bytes, n) == 0 && same_state(t));
  unsigned char *saved = malloc(1 << 16);
  CHECK(saved && t->about->save(t->state, saved, 1 << 16, &needed) == 0);
  FILE *f = fopen(in_folder("m.safetensors"), "wb");
  CHECK(f && fwrite(saved, 1, needed, f) == needed && fclose(f) == 0);
  CHECK(tn_initialize(t->model, 99) == TN_OK);
  CHECK(tn_load(t->model, in_folder("m.safetensors"), true) == TN_OK && same_state(t));
  char *dtype = strstr((char *)saved + 8, "\"I32\"");
  if (CHECK(dtype)) {
    memcpy(dtype, "\"F32\"", 5);
    int status = t->about->load(t->state, saved, needed);
    CHECK_HAS(t->about->error(status), "the file's tensor 'i32' has another shape or dtype");
  }
  free(bytes), free(saved);
}

// ---- the header's C types, and the selftest
static void selftest(void) {
  char command[600];
  size_t n;
  char *header = (char *)read_whole(in_folder("d.h"), &n);
  static const char *const fields[] = {"int32_t i32[5];  // i32 buffer",    "uint8_t u8[5];  // u8 buffer",
                                       "uint8_t bool_[5];  // bool buffer", "uint16_t f16[5];  // f16 buffer",
                                       "uint16_t bf16[5];  // bf16 buffer", "const uint16_t *bf16;  // bf16 [batch, 5]",
                                       "int32_t *y_i32;  // i32 [batch, 5]"};
  header[n < (1 << 16) ? n : n - 1] = 0;
  for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) CHECK_HAS(header, fields[k]);
  free(header);
  snprintf(command, sizeof command,
           "cd %s && cc -std=c99 -pedantic -Wall -Wextra -Wconversion -Werror -O1 d_selftest.c d.o -o selftest && "
           "./selftest | grep -x 'd selftest: passed: .* calls of .*'",
           folder);
  CHECK(system(command) == 0);
}

static void remove_files(void) {
  static const char *const files[] = {"d.so",         "d.o",           "d.h",           "d.json",
                                      "d_selftest.c", "d.safetensors", "m.safetensors", "selftest"};
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) unlink(in_folder(files[k]));
  rmdir(folder);
}

int main(void) {
  if (!mkdtemp(folder)) return 1;
  setenv("TN_GEMM", "own", 1);  // as in a bundle
  tn_program *p = make_program(), *q = make_program();
  if (!CHECK(tn_bundle(q, in_folder("d"), .emit = "so,o", .seed = SEED) == TN_OK)) tn_report(q, stdout);
  Twins t = {.model = tn_compile(p, .n_workers = 1, .seed = SEED, .no_packed_weights = true, .cache_dir = "")};
  void *library = dlopen(in_folder("d.so"), RTLD_NOW | RTLD_LOCAL);
  t.about = library ? dlsym(library, "d_about") : NULL;
  if (CHECK(t.model && t.about)) {
    char why[256] = "";
    t.opened = tn_model_open_bundle(t.about, &(tn_open_options){.n_workers = 1, .seed = SEED}, why, sizeof why);
    t.state = aligned(t.about->state_bytes), t.arena = aligned(t.about->arena_bytes);
    CHECK(t.opened && t.about->init(t.state, t.arena, t.about->arena_bytes, SEED) == 0);
    same_state(&t);
    train(&t);
    selftest();
    tn_model *opened = t.opened;
    CHECK(tn_copy_params(opened, t.model, true) == TN_OK);
    files(&t);
    free(t.state), free(t.arena);
    tn_model_free(opened);
  } else printf("%s", report_of(p));
  tn_model_free(t.model);
  tn_program_free(p), tn_program_free(q);
  if (library) dlclose(library);
  remove_files();
  return check_report();
}
