// Instances over a plan written by hand, whose entry points are C functions: runs and their checks, parameters,
// checkpoints. What compiled code does is tested elsewhere.
#include "codegen/gemm/sgemm.h"
#include "runtime/exec/instance.h"
#include "runtime/store/safetensors.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

// ---- the plan:  @step(x f32[batch,time,3], lengths i64[batch], label i64[batch]) ->
//                 (sums f32[batch], packed f32[rows,3], flat f32[batch*time+2])

enum { BATCH, TIME, ROWS, N_SLOTS };
enum { D_3, D_BATCH, D_TIME, D_ROWS, D_2, D_CELLS, D_FLAT, N_DIMS };
static const RtSlot slots[N_SLOTS] = {{"batch", 4}, {"time", 5}, {"rows", 20}};
static const RtDim dims[N_DIMS] = {
    [D_3] = {RT_DIM_CONST, 3, 0, 0},          [D_BATCH] = {RT_DIM_SLOT, BATCH, 0, 0},
    [D_TIME] = {RT_DIM_SLOT, TIME, 0, 0},     [D_ROWS] = {RT_DIM_SLOT, ROWS, 0, 0},
    [D_2] = {RT_DIM_CONST, 2, 0, 0},          [D_CELLS] = {RT_DIM_MUL, 0, D_BATCH, D_TIME},
    [D_FLAT] = {RT_DIM_ADD, 0, D_CELLS, D_2},
};
static const RtPort inputs[] = {
    {"x", RT_F32, 3, {D_BATCH, D_TIME, D_3}}, {"lengths", RT_I64, 1, {D_BATCH}}, {"label", RT_I64, 1, {D_BATCH}}};
static const RtPort outputs[] = {
    {"sums", RT_F32, 1, {D_BATCH}}, {"packed", RT_F32, 2, {D_ROWS, D_3}}, {"flat", RT_F32, 1, {D_FLAT}}};
static const RtCheck checks[] = {
    {.input = 1, .lo = 1, .hi = D_TIME, .is_inclusive = true, .is_sorted = true, .what = "length"},
    {.input = 2, .hi = D_3, .what = "label"}};

enum { OFF_W = 0, OFF_B = 64, OFF_MOMENT = 128, OFF_STEPS = 192, PARAM_BYTES = 256 };
static const char *const w_aliases[] = {"emb.weight"};
static const RtParam params[] = {
    {"head.weight", w_aliases, 1, RT_WEIGHT, RT_F32, 2, {2, 3}, OFF_W, 24, NULL, 0},
    {"head.bias", NULL, 0, RT_BUFFER, RT_F32, 1, {2}, OFF_B, 8, NULL, 0},
    {"optimizer.m.head.weight", NULL, 0, RT_STATE, RT_F32, 2, {2, 3}, OFF_MOMENT, 24, NULL, 0},
    {"optimizer.steps", NULL, 0, RT_STATE, RT_I64, 0, {0}, OFF_STEPS, 8, NULL, 0},
};
static const _Alignas(TN_ALIGN) float pool[2] = {10, 20};

static void run_init(TnFrame *f, int32_t worker, int32_t n) {
  float *w = (float *)(void *)(f->seg[SEG_PARAM] + OFF_W);
  for (int32_t i = worker; i < 6; i += n) w[i] = (float)(f->seed * 100 + f->counter * 10) + (float)i;
}

// Each worker sums every n-th sequence into the arena; after the barrier worker 0 reads all of them.
static void run_step(TnFrame *f, int32_t worker, int32_t n) {
  int64_t batch = f->dims[BATCH], time = f->dims[TIME], row = 0;
  const float *x = f->in[0];
  const int64_t *lengths = f->in[1];
  float *partial = (float *)(void *)f->seg[SEG_ARENA];
  for (int64_t b = worker; b < batch; b += n) {
    partial[b] = 0;
    for (int64_t i = 0; i < lengths[b] * 3; i++) partial[b] += x[b * time * 3 + i];
  }
  f->svc->barrier(f, 0, n);
  if (worker != 0) return;
  const float *consts = (const float *)(const void *)f->seg[SEG_CONST];
  for (int64_t b = 0; b < batch; b++) ((float *)f->out[0])[b] = partial[b] + consts[0];
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < lengths[b]; t++, row++) memcpy((float *)f->out[1] + row * 3, x + (b * time + t) * 3, 12);
  f->dims[ROWS] = row;
  for (int64_t i = 0; i < batch * time + 2; i++) ((float *)f->out[2])[i] = consts[1];
  ++*(int64_t *)(void *)(f->seg[SEG_PARAM] + OFF_STEPS);
  if (batch && x[0] == 666) *f->status = (TnKernelStatus){TN_KERR_INDEX_RANGE, -1, 5, -9};
}

static void run_arena(TnFrame *f, int32_t worker, int32_t n) {
  const float *a = (const float *)(const void *)f->seg[SEG_ARENA];
  static const float eye[4] = {1, 0, 0, 1};
  if (worker == 0) f->svc->sgemm(0, 0, 2, 2, 2, eye, 2, a, 2, 0, f->out[0], 2);
  f->svc->barrier(f, 3, n);
}
static const RtPort square[] = {{"y", RT_F32, 2, {D_2, D_2}}};

static const RtFunction functions[] = {
    {.name = "init", .entry = run_init},
    {.name = "step",
     .entry = run_step,
     .inputs = inputs,
     .outputs = outputs,
     .n_inputs = 3,
     .n_outputs = 3,
     .checks = checks,
     .n_checks = 2,
     .arena_bytes = 64},
    {.name = "arena", .entry = run_arena, .outputs = square, .n_outputs = 1, .arena_bytes = 5 << 20},
};
static const RtPlan plan = {.slots = slots,
                            .dims = dims,
                            .functions = functions,
                            .params = params,
                            .n_slots = N_SLOTS,
                            .n_dims = N_DIMS,
                            .n_functions = 3,
                            .n_params = 4,
                            .param_bytes = PARAM_BYTES,
                            .consts = pool,
                            .sgemm = cg_sgemm};
enum { INIT, STEP, ARENA };

// ---- runs

typedef struct {
  float x[60], sums[4], packed[60], flat[22];
  int64_t lengths[4], label[4];
  RtArray in[3], out[3];
} Batch;

static Batch *batch_of(int64_t batch, int64_t time) {
  static Batch b;
  b = (Batch){.lengths = {time, time, 1, 1}, .label = {0, 1, 2, 0}};
  for (int i = 0; i < 60; i++) b.x[i] = (float)i;
  b.in[0] = (RtArray){b.x, RT_F32, 3, {batch, time, 3}, NULL};
  b.in[1] = (RtArray){b.lengths, RT_I64, 1, {batch}, NULL};
  b.in[2] = (RtArray){b.label, RT_I64, 1, {batch}, NULL};
  b.out[0] = (RtArray){b.sums, RT_F32, 1, {batch}, NULL};
  b.out[1] = (RtArray){b.packed, RT_F32, 2, {20, 3}, NULL};
  b.out[2] = (RtArray){b.flat, RT_F32, 1, {batch * time + 2}, NULL};
  return &b;
}

static RtStatus run(RtInstance *i, const Batch *b) { return rt_instance_run(i, STEP, b->in, 3, b->out, 3); }

static void test_runs(void) {
  for (uint32_t workers = 1; workers <= 5; workers++) {
    RtInstance *i = rt_instance_new(&plan, workers, 0, 7);
    if (!CHECK(i && rt_instance_workers(i) == workers && !rt_instance_error(i)[0])) return;
    CHECK(rt_instance_counter(i) == 0 && rt_instance_seed(i) == 7);
    uint64_t mallocs = rt_malloc_count();
    Batch *b = batch_of(3, 4);
    CHECK(run(i, b) == RT_OK && rt_instance_counter(i) == 1);
    CHECK(b->sums[0] == 66 + 10 && b->sums[1] == 210 + 10 && b->sums[2] == 24 + 25 + 26 + 10 && b->sums[3] == 0);
    CHECK(b->packed[0] == 0 && b->packed[24] == 24 && b->packed[26] == 26 && b->packed[27] == 0 && b->flat[13] == 20);
    b = batch_of(4, 5);
    CHECK(run(i, b) == RT_OK && b->flat[21] == 20);
    b = batch_of(0, 5);
    b->in[0].data = b->in[1].data = b->in[2].data = b->out[0].data = NULL;  // no elements, no data needed
    CHECK(run(i, b) == RT_OK && b->flat[1] == 20 && b->flat[2] == 0);
    b = batch_of(1, 1);
    CHECK(run(i, b) == RT_OK && b->sums[0] == 13 && rt_instance_counter(i) == 4);
    b->x[1] = 2;  // the same sizes once more
    CHECK(run(i, b) == RT_OK && b->sums[0] == 14 && b->flat[2] == 20 && rt_instance_counter(i) == 5);
    rt_instance_poison(i, true);
    float y[4];
    CHECK(rt_instance_run(i, ARENA, NULL, 0, &(RtArray){y, RT_F32, 2, {2, 2}, NULL}, 1) == RT_OK && isnan(y[0]) &&
          isnan(y[3]));
    CHECK(rt_malloc_count() == mallocs && rt_instance_plan(i) == &plan);
    rt_instance_free(i);
  }
  rt_instance_free(NULL);
}

// Runs a batch that must be refused with `part` in the sentence; nothing may be written.
static void refuse(RtInstance *i, Batch *b, RtStatus status, const char *part, int line) {
  Batch before = *b;
  uint64_t counter = rt_instance_counter(i);
  RtArray steps = rt_instance_param(i, 3);
  int64_t n_steps = *(int64_t *)steps.data;
  check_that(run(i, b) == status, __FILE__, line, "status");
  check_has(rt_instance_error(i), part, __FILE__, line);
  CHECK(!memcmp(&before, b, sizeof before) && rt_instance_counter(i) == counter && *(int64_t *)steps.data == n_steps);
}
#define REFUSE(change, status, part)      \
  do {                                    \
    if (after_good) run_good(i);          \
    Batch *b = batch_of(3, 4);            \
    change;                               \
    refuse(i, b, status, part, __LINE__); \
  } while (0)

// A call of the sizes that are about to be refused is accepted: what is kept of it must not let anything through.
static void run_good(RtInstance *i) { CHECK(run(i, batch_of(3, 4)) == RT_OK); }

static void test_bad_arrays(RtInstance *i, bool after_good) {
  REFUSE(b->in[0].data = NULL, RT_ERR_ARGUMENT, "step: input 'x' has no data");
  REFUSE(b->out[2].data = NULL, RT_ERR_ARGUMENT, "step: output 'flat' has no data");
  REFUSE(b->in[1].dtype = RT_F32, RT_ERR_ARGUMENT, "input 'lengths' is f32, expected i64");
  REFUSE(b->out[0].dtype = 0, RT_ERR_ARGUMENT, "output 'sums' is no known dtype, expected f32");
  REFUSE(b->in[0].rank = 2, RT_ERR_ARGUMENT, "input 'x' has rank 2, expected 3");
  REFUSE(b->in[0].dims[1] = -1, RT_ERR_ARGUMENT, "input 'x' has size -1 on axis 1");
  REFUSE(b->in[0].dims[0] = 5, RT_ERR_ARGUMENT, "input 'x' has size 5 on axis 0, above batch <= 4");
  REFUSE(b->in[0].dims[1] = 6, RT_ERR_ARGUMENT, "input 'x' has size 6 on axis 1, above time <= 5");
  REFUSE(b->in[0].dims[2] = 2, RT_ERR_ARGUMENT, "input 'x' has size 2 on axis 2, expected 3");
  REFUSE(b->in[1].dims[0] = 2, RT_ERR_ARGUMENT, "input 'lengths' has size 2 on axis 0, expected 3 (batch)");
  REFUSE(b->out[0].dims[0] = 4, RT_ERR_ARGUMENT, "output 'sums' has size 4 on axis 0, expected 3 (batch)");
  REFUSE(b->out[1].dims[0] = 19, RT_ERR_ARGUMENT, "output 'packed' has size 19 on axis 0, expected at least 20 (rows)");
  REFUSE(b->out[2].dims[0] = 12, RT_ERR_ARGUMENT, "output 'flat' has size 12 on axis 0, expected 14");
  REFUSE(b->in[0].data = (char *)b->x + 2, RT_ERR_ARGUMENT, "the data of input 'x' is not aligned to 4 bytes");
  REFUSE(b->in[1].data = (char *)b->lengths + 4, RT_ERR_ARGUMENT, "not aligned to 8 bytes");
  REFUSE(b->out[0].data = &b->x[10], RT_ERR_ARGUMENT, "output 'sums' overlaps input 'x'");
  REFUSE(b->out[2].data = &b->sums[2], RT_ERR_ARGUMENT, "output 'flat' overlaps output 'sums'");
}

static void test_bad_values(RtInstance *i, bool after_good) {
  REFUSE(b->lengths[2] = 0, RT_ERR_VALUE, "step: input 'lengths': length 0 at [2] is not in 1..4");
  REFUSE(b->lengths[0] = 5, RT_ERR_VALUE, "length 5 at [0] is not in 1..4");  // below the bound, above this run's time
  REFUSE(b->lengths[1] = -3, RT_ERR_VALUE, "length -3 at [1]");
  REFUSE(b->lengths[1] = INT64_MIN, RT_ERR_VALUE, "length -9223372036854775808 at [1]");
  REFUSE((b->lengths[0] = 2, b->lengths[1] = 3), RT_ERR_VALUE,
         "length 3 at [1] is above 2 before it, and sorting is enforced");
  REFUSE(b->label[1] = 3, RT_ERR_VALUE, "input 'label': label 3 at [1] is not in 0..2");
  REFUSE(b->label[1] = -1, RT_ERR_VALUE, "label -1 at [1] is not in 0..2");
  Batch *b = batch_of(3, 0);
  refuse(i, b, RT_ERR_VALUE, "no length is allowed in this run", __LINE__);
}

static void test_bad_runs(void) {
  RtInstance *i = rt_instance_new(&plan, 2, 0, 0);
  if (!CHECK(i != NULL)) return;
  for (int after_good = 0; after_good < 2; after_good++) {
    test_bad_arrays(i, after_good);
    test_bad_values(i, after_good);
  }
  Batch *b = batch_of(3, 4);
  CHECK(rt_instance_run(i, STEP, b->in, 2, b->out, 3) == RT_ERR_ARGUMENT);
  CHECK_HAS(rt_instance_error(i), "got 2 and 3");
  CHECK(rt_instance_run(i, 9, NULL, 0, NULL, 0) == RT_ERR_ARGUMENT);
  CHECK_HAS(rt_instance_error(i), "there is no function 9");
  b->x[0] = 666;
  CHECK(run(i, b) == RT_ERR_VALUE);
  CHECK_HAS(rt_instance_error(i), "step: index -9 at [5], computed in the run, is out of range");
  b->x[0] = 0;
  CHECK(run(i, b) == RT_OK);
  rt_instance_free(i);
}

// ---- parameters

static void test_params(void) {
  float w[6], more[7] = {1, 2, 3, 4, 5, 6, 7};
  RtInstance *i = rt_instance_new(&plan, 2, 0, 0);
  CHECK(rt_plan_function(&plan, "step") == STEP && rt_plan_function(&plan, "none") == RT_NO_FUNCTION);
  CHECK(rt_instance_initialize(i, 3) == RT_OK && rt_instance_counter(i) == 1 && rt_instance_seed(i) == 3);
  CHECK(rt_instance_get(i, "head.weight", w, 6) == RT_OK && w[0] == 300 && w[5] == 305);
  CHECK(rt_instance_set(i, "emb.weight", more, 6) == RT_OK && rt_instance_get(i, "head.weight", w, 6) == RT_OK &&
        w[5] == 6);
  CHECK(rt_instance_set(i, "emb.weight", more, 7) == RT_ERR_ARGUMENT);
  CHECK_HAS(rt_instance_error(i), "parameter 'emb.weight' has 6 elements, the call says 7");
  CHECK(rt_instance_get(i, "none", w, 6) == RT_ERR_ARGUMENT);
  CHECK_HAS(rt_instance_error(i), "there is no parameter 'none'");
  CHECK(rt_instance_get(i, "optimizer.steps", w, 1) == RT_ERR_ARGUMENT);
  CHECK_HAS(rt_instance_error(i), "is i64");
  RtArray a = rt_instance_param(i, 0);
  CHECK(a.rank == 2 && a.dims[0] == 2 && a.dims[1] == 3 && a.dtype == RT_F32 && ((float *)a.data)[2] == 3);
  CHECK((uintptr_t)a.data % TN_ALIGN == 0 && rt_instance_param(i, 4).data == NULL);
  CHECK(run(i, batch_of(1, 1)) == RT_OK && rt_instance_initialize(i, 4) == RT_OK);
  CHECK(rt_instance_get(i, "head.weight", w, 6) == RT_OK && w[0] == 400 &&
        *(int64_t *)rt_instance_param(i, 3).data == 0);
  rt_instance_free(i);
  RtPlan bare = plan;
  bare.init = RT_NO_FUNCTION;
  i = rt_instance_new(&bare, 1, 0, 0);
  CHECK(rt_instance_initialize(i, 3) == RT_OK && rt_instance_counter(i) == 1);
  rt_instance_free(i);
}

// ---- checkpoints

static char path[64];

static void test_save_and_load(void) {
  float w[6], b[2] = {8, 9};
  RtInstance *i = rt_instance_new(&plan, 1, 0, 0), *k = rt_instance_new(&plan, 1, 0, 0);
  rt_instance_initialize(i, 5);
  rt_instance_set(i, "head.bias", b, 2);
  run(i, batch_of(1, 1));
  CHECK(rt_instance_save(i, path, true) == RT_OK && rt_instance_load(k, path, true) == RT_OK);
  CHECK(!memcmp(rt_instance_param(i, 0).data, rt_instance_param(k, 0).data, 24));
  CHECK(rt_instance_counter(k) == 2 && rt_instance_seed(k) == 5 && *(int64_t *)rt_instance_param(k, 3).data == 1);
  rt_instance_initialize(k, 6);
  CHECK(rt_instance_load(k, path, false) == RT_OK && rt_instance_counter(k) == 1 && rt_instance_seed(k) == 6);
  CHECK(*(int64_t *)rt_instance_param(k, 3).data == 0 && rt_instance_get(k, "emb.weight", w, 6) == RT_OK &&
        w[5] == 505);
  CHECK(rt_instance_save(i, path, false) == RT_OK && rt_instance_load(k, path, false) == RT_OK);
  CHECK(rt_instance_load(k, path, true) == RT_ERR_FILE);
  CHECK_HAS(rt_instance_error(k),
            ": 'optimizer.m.head.weight' is missing; 'optimizer.steps' is missing; the metadata has no 'tenure.runs'");
  CHECK(rt_instance_save(i, "no/such/folder/x", false) == RT_ERR_FILE);
  CHECK_HAS(rt_instance_error(i), "No such file or directory");
  CHECK(rt_instance_load(i, "no/such/file", false) == RT_ERR_FILE);
  CHECK(rt_instance_load(i, "/dev/null", false) == RT_ERR_FILE);
  CHECK_HAS(rt_instance_error(i), "not a regular file");
  for (uint64_t n = 1; n < 6; n++) {
    rt_malloc_fail_at(n);
    RtStatus save = rt_instance_save(i, path, true);
    rt_malloc_fail_at(n);
    RtStatus load = rt_instance_load(k, path, false);
    rt_malloc_fail_at(0);
    CHECK((save == RT_OK || save == RT_ERR_MEMORY) && (load == RT_OK || load == RT_ERR_MEMORY) &&
          (n > 1 || save == RT_ERR_MEMORY));
  }
  rt_instance_free(i);
  rt_instance_free(k);
}

static void test_files_from_torch(void) {
  float w[6], b[2];
  RtInstance *i = rt_instance_new(&plan, 1, 0, 0);
  static const char *const files[] = {"tests/corpus/safetensors/torch_tied", "tests/corpus/safetensors/torch_bf16"};
  for (int k = 0; k < 2; k++) {
    rt_instance_initialize(i, 5);
    if (!CHECK(rt_instance_load(i, files[k], false) == RT_OK)) printf("  %s\n", rt_instance_error(i));
    CHECK(rt_instance_get(i, "head.weight", w, 6) == RT_OK && rt_instance_get(i, "head.bias", b, 2) == RT_OK);
    for (int e = 0; e < 6; e++) CHECK(w[e] == (float)e / 4 - 1);
    CHECK(b[0] == 0.5f && b[1] == -0.25f);
  }
  rt_instance_free(i);
}

static void write_tensors(const RtStTensor *t, uint32_t n) {
  char error[300];
  RtArena *mem = rt_arena_new();
  CHECK(rt_st_write(mem, path, t, n, NULL, 0, NULL, error, sizeof error));
  rt_arena_free(mem);
}

static void refuse_load(RtInstance *i, const char *part) {
  unsigned char before[PARAM_BYTES];
  memcpy(before, rt_instance_param(i, 0).data, PARAM_BYTES);
  CHECK(rt_instance_load(i, path, false) == RT_ERR_FILE);
  CHECK_HAS(rt_instance_error(i), part);
  CHECK(!memcmp(before, rt_instance_param(i, 0).data, PARAM_BYTES));
}

static void test_files_that_do_not_fit(void) {
  static const float v[6] = {1, 2, 3, 4, 5, 6}, other[6] = {1, 2, 3, 4, 5, 7};
  const unsigned char *bytes = (const unsigned char *)v;
  const RtStTensor w = {"head.weight", RT_ST_F32, 2, {2, 3}, 6, bytes, 24, 0, NULL},
                   b = {"head.bias", RT_ST_F32, 1, {2}, 2, bytes, 8, 0, NULL};
  const RtStTensor twin = {"emb.weight", RT_ST_F32, 2, {2, 3}, 6, bytes, 24, 0, NULL};
  const RtStTensor not_twin = {"emb.weight", RT_ST_F32, 2, {2, 3}, 6, (const unsigned char *)other, 24, 0, NULL};
  const RtStTensor turned = {"head.weight", RT_ST_F32, 2, {3, 2}, 6, bytes, 24, 0, NULL},
                   ints = {"head.bias", RT_ST_I32, 1, {2}, 2, bytes, 8, 0, NULL};
  const RtStTensor extra = {"extra", RT_ST_U8, 0, {0}, 1, bytes, 1, 0, NULL},
                   state = {"optimizer.x", RT_ST_U8, 0, {0}, 1, bytes, 1, 0, NULL};
  RtInstance *i = rt_instance_new(&plan, 1, 0, 0);
  rt_instance_initialize(i, 1);
  write_tensors((RtStTensor[]){w, twin, b, state}, 4);
  CHECK(rt_instance_load(i, path, false) == RT_OK);
  write_tensors((RtStTensor[]){w, not_twin, b}, 3);
  refuse_load(i, "'head.weight' and 'emb.weight' are one parameter here and differ in the file");
  write_tensors((RtStTensor[]){turned, ints, extra}, 3);
  refuse_load(
      i, "'head.weight' has shape [3,2], expected [2,3]; 'head.bias' has dtype I32, expected F32, F64, F16 or BF16; "
         "'extra' is no parameter of this program");
  write_tensors(NULL, 0);
  refuse_load(i, "'head.weight' is missing; 'head.bias' is missing");

  static RtStTensor many[402];
  static char names[400][24];
  many[400] = w;
  many[401] = b;
  for (int k = 0; k < 400; k++) {
    snprintf(names[k], sizeof names[k], "n%d", k);
    many[k] = extra;
    many[k].name = names[k];
  }
  write_tensors(many, 402);
  refuse_load(i, " more");
  CHECK(truncate(path, 40) == 0);
  refuse_load(i, "byte 0: a header of");
  CHECK(truncate(path, 0) == 0);
  refuse_load(i, "byte 0: the file ends inside");
  rt_instance_free(i);
}

static void test_out_of_memory(void) {
  RtInstance *i = NULL;
  uint64_t n = 0;
  while (!i && ++n < 50) {
    rt_malloc_fail_at(n);
    i = rt_instance_new(&plan, 2, 0, 0);
    rt_malloc_fail_at(0);
  }
  if (!CHECK(i && n > 10)) printf("  %d allocations\n", (int)n);
  rt_instance_free(i);
}

int main(void) {
  snprintf(path, sizeof path, "/tmp/tn_instance_XXXXXX");
  int fd = mkstemp(path);
  if (fd < 0) return 2;
  close(fd);
  test_runs();
  test_bad_runs();
  test_params();
  test_save_and_load();
  test_files_from_torch();
  test_files_that_do_not_fit();
  test_out_of_memory();
  CHECK(remove(path) == 0);
  return check_report();
}
