// Compiling a program of many kernels takes the memory of a few: LLVM modules stay small, and are given back as soon as
// they are objects. The test stands between the library and LLVM and counts in memory that the forked compiler shares.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { BATCH = 16, WIDTH = 40, CPUS = 2, MOST_ALIVE = 2 * CPUS - 1 };  // built, waiting, being finished

typedef struct {
  atomic_int n, alive, most_alive;
} Modules;
static Modules *modules;

// ---- LLVM
typedef void *Create(const char *name, void *context);
typedef void Dispose(void *module);
Create LLVMModuleCreateWithNameInContext;
Dispose LLVMDisposeModule;

void *LLVMModuleCreateWithNameInContext(const char *name, void *context) {
  Create *real = NULL;
  void *found = dlsym(RTLD_NEXT, "LLVMModuleCreateWithNameInContext");
  memcpy(&real, &found, sizeof real);
  int now = atomic_fetch_add(&modules->alive, 1) + 1, most = atomic_load(&modules->most_alive);
  while (now > most && !atomic_compare_exchange_weak(&modules->most_alive, &most, now)) {}
  atomic_fetch_add(&modules->n, 1);
  return real(name, context);
}

void LLVMDisposeModule(void *module) {
  Dispose *real = NULL;
  void *found = dlsym(RTLD_NEXT, "LLVMDisposeModule");
  memcpy(&real, &found, sizeof real);
  real(module);
  atomic_fetch_sub(&modules->alive, 1);
}

// ---- programs
// Layers of different sizes: kernels of which no two are equal.
static uint32_t compile(int layers) {
  char name[16];
  tn_program *p = tn_program_create("memory");
  tn_module *net = tn_root(p);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, WIDTH));
  for (int k = 0; k < layers; k++) {
    snprintf(name, sizeof name, "%d", k);
    x = tn_relu(tn_call(tn_linear(net, name, WIDTH + k, WIDTH + k + 1), x));
  }
  tn_output(f, "y", x);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .cache_dir = "", .n_workers = 1);
  if (!CHECK(m != NULL)) tn_report(p, stdout);
  uint32_t n = m ? tn_compile_info_of(m).n_distinct_kernels : 0;
  tn_model_free(m);
  tn_program_free(p);
  return n;
}

static int most_modules(int layers, int *n) {
  atomic_store(&modules->n, 0), atomic_store(&modules->alive, 0), atomic_store(&modules->most_alive, 0);
  uint32_t kernels = compile(layers);
  *n = atomic_load(&modules->n);
  int most = atomic_load(&modules->most_alive);
  printf("%d layers: %u distinct kernels in %d modules, of which %d in memory at once\n", layers, kernels, *n, most);
  CHECK(kernels >= (uint32_t)layers && atomic_load(&modules->alive) == 0);
  return most;
}

static void use_few_cpus(void) {
  cpu_set_t all, few;
  CPU_ZERO(&few);
  if (!CHECK(sched_getaffinity(0, sizeof all, &all) == 0)) return;
  for (int k = 0; k < CPU_SETSIZE && CPU_COUNT(&few) < CPUS; k++)
    if (CPU_ISSET(k, &all)) CPU_SET(k, &few);
  CHECK(sched_setaffinity(0, sizeof few, &few) == 0);
}

int main(void) {
  Modules *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  modules = shared;
  int few, many;
  use_few_cpus();
  CHECK(most_modules(40, &few) <= MOST_ALIVE);
  CHECK(most_modules(120, &many) <= MOST_ALIVE);
  CHECK(many > few);
  return check_report();
}
