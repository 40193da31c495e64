// The object of a bundle as an emitter would write it, whose code is C: y = x w, and a step of gradient descent on
// (x w - target)^2. Read by tests/outside/runtime.c through net_about alone.
#include "runtime/bundle/about.h"

enum { W_OFF = 0, LR_OFF = TN_ALIGN, PARAM_BYTES = 2 * TN_ALIGN };
extern const TnBundleAbout net_about;

static float *param(const TnFrame *f, int64_t off) { return (float *)(void *)(f->seg[SEG_PARAM] + off); }

static void init(TnFrame *f, int32_t worker, int32_t n_workers) {
  (void)n_workers;
  if (worker) return;
  *param(f, W_OFF) = f->no_draws ? 0 : (float)(f->seed % 100);
  *param(f, LR_OFF) = 0.1f;
}

static void predict(TnFrame *f, int32_t worker, int32_t n_workers) {
  const float *x = f->in[0];
  float *y = f->out[0];
  for (int64_t k = worker; k < f->dims[0]; k += n_workers) y[k] = x[k] * *param(f, W_OFF);
  f->svc->barrier(f, 0, n_workers);
}

static void step(TnFrame *f, int32_t worker, int32_t n_workers) {
  const float *x = f->in[0], *target = f->in[1];
  float sum = 0, *w = param(f, W_OFF);
  f->svc->barrier(f, 0, n_workers);
  for (int64_t k = 0; k < f->dims[0] && !worker; k++) sum += 2 * (x[k] * *w - target[k]) * x[k];
  if (!worker) *w -= *param(f, LR_OFF) * sum / (float)f->dims[0];
}

static const RtSlot slots[] = {{"batch", 4}};
static const RtDim dims[] = {{RT_DIM_SLOT, 0, 0, 0}};
static const RtPort vectors[] = {{"x", RT_F32, 1, {0}}, {"target", RT_F32, 1, {0}}}, result[] = {{"y", RT_F32, 1, {0}}};
static const RtParam params[] = {
    {.path = "w", .kind = RT_WEIGHT, .dtype = RT_F32, .offset = W_OFF, .bytes = 4},
    {.path = "optimizer.lr", .kind = RT_STATE, .dtype = RT_F32, .offset = LR_OFF, .bytes = 4}};
static const RtHyper hypers[] = {{.param = 1, .kind = RT_LR}};
static const RtFunction functions[] = {
    {.name = "init", .entry = init},
    {.name = "predict", .entry = predict, .inputs = vectors, .n_inputs = 1, .outputs = result, .n_outputs = 1},
    {.name = "step", .entry = step, .inputs = vectors, .n_inputs = 2}};
static const RtPlan plan = {.slots = slots,
                            .dims = dims,
                            .functions = functions,
                            .params = params,
                            .n_slots = 1,
                            .n_dims = 1,
                            .n_functions = 3,
                            .n_params = 2,
                            .init = 0,
                            .param_bytes = PARAM_BYTES,
                            .hypers = hypers,
                            .n_hypers = 1};

static int cpu(void) { return 0; }
static const char *const targets[] = {"c"};
static const RtPlan *const plans[] = {&plan};
const TnBundleAbout net_about = {.version = TN_BUNDLE_VERSION,
                                 .abi = TN_BUNDLE_ABI,
                                 .name = "net",
                                 .n_targets = 1,
                                 .targets = targets,
                                 .cpu = cpu,
                                 .plans = plans};
