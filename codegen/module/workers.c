#include "codegen/module/compile.h"
#include "ir/passes/cost.h"

enum {
  WORKER_NS = 2000,  // least work per worker: below it, wake-up and barrier cost more than they gain
  MAX_WORKERS = 64
};

// From bounds of dims only: the same on every machine. A guarded arena always uses the team.
uint32_t cg_max_workers(const Fn *f) {
  double n = ir_fn_ns(f, WORKER_NS * MAX_WORKERS) / WORKER_NS;
  return f->prog->guarded_arena || n >= MAX_WORKERS ? MAX_WORKERS : n < 2 ? 1 : (uint32_t)n;
}
