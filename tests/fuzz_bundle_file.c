// Any bytes: a bundle refuses them and its state stays as it was, or takes them, and what it then saves loads again.
#include "codegen/bundle/facts.h"
#include "runtime/store/safetensors.h"
#include "tests/fuzz.h"

#include <string.h>

// Paths as short as paths can be: bytes that are drawn find them.
static const char *const second_names[] = {"c", "d"};
static const RtParam params[] = {
    {.path = "w", .kind = RT_WEIGHT, .dtype = RT_F32, .rank = 2, .dims = {2, 3}, .bytes = 24},
    {.path = "b",
     .aliases = second_names,
     .n_aliases = 2,
     .kind = RT_BUFFER,
     .dtype = RT_I64,
     .rank = 1,
     .dims = {2},
     .offset = 64,
     .bytes = 16},
    {.path = "t", .kind = RT_TRANSIENT, .dtype = RT_F32, .offset = 128, .bytes = 4},
    {.path = "e", .kind = RT_WEIGHT, .dtype = RT_F32, .rank = 1, .offset = 192},
    {.path = "m", .kind = RT_STATE, .dtype = RT_F32, .rank = 1, .dims = {3}, .offset = 192, .bytes = 12},
    {.path = "s", .kind = RT_STATE, .dtype = RT_I64, .offset = 256, .bytes = 8}};
enum { N_PARAMS = sizeof params / sizeof *params, STATE_BYTES = 64 + 320 };
static const RtPlan plan = {.params = params, .n_params = N_PARAMS, .init = RT_NO_FUNCTION, .param_bytes = 264};

static TnBundle bundle;
static void make_bundle(void) {
  static const RtPlan *const plans[] = {&plan};
  static const Target *targets[1];
  static RtArena *mem;  // for as long as the process lives
  mem = rt_arena_new();
  RtText why = {.mem = mem};
  need(mem != NULL);
  targets[0] = cg_target_find("generic");
  need(cg_bundle_facts(mem,
                       &(CgBundleFacts){.name = "fuzz", .hash = 7, .plans = plans, .targets = targets, .n_targets = 1},
                       &bundle, &why));
  need(bundle.about->state_bytes == STATE_BYTES);
}

static bool is_safetensors(const uint8_t *bytes, size_t n) {
  RtSt st;
  char error[300];
  RtArena *mem = rt_arena_new();
  need(mem != NULL);
  bool ok = rt_st_parse(mem, bytes, n, &st, error, sizeof error);
  rt_arena_free(mem);
  return ok;
}

static void saves_the_same(const unsigned char *state) {
  static unsigned char file[4096];
  _Alignas(TN_ALIGN) unsigned char again[STATE_BYTES] = {0};
  size_t size;
  need(tn_bundle_save(&bundle, state, file, sizeof file, &size) == TN_BUNDLE_OK && is_safetensors(file, size));
  need(tn_bundle_init(&bundle, again, NULL, 0, 1) == TN_BUNDLE_OK);
  need(tn_bundle_load(&bundle, again, file, size) == TN_BUNDLE_OK && !memcmp(state, again, STATE_BYTES));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  _Alignas(TN_ALIGN) unsigned char state[STATE_BYTES] = {0}, before[STATE_BYTES];
  if (!bundle.about) make_bundle();
  need(tn_bundle_init(&bundle, state, NULL, 0, 1) == TN_BUNDLE_OK);
  memcpy(before, state, STATE_BYTES);
  int status = tn_bundle_load(&bundle, state, bytes, n);
  need(status >= 0 && (uint32_t)status < bundle.n_sentences);
  if (status) need(!memcmp(state, before, STATE_BYTES));
  else saves_the_same(state);
  if (is_safetensors(bytes, n)) need(status != TN_BUNDLE_NO_FILE && status != TN_BUNDLE_SHORT_FILE);
  return 0;
}
