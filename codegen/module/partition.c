// The partition of a program's distinct kernels into LLVM modules: runs of kernels in the order of the program, of about
// the same cost of compiling, so that code that is called in turn lies together.
//
//   kernel   k0 k1 k2 | k3 | k4 k5 k6 k7 | k8          entries and tables stand in module 0
//   cost      8  8 25   40    8  8 12 12   30
//
// It depends on the program alone: the same program gives the same bytes on every machine. A small program has as many
// modules as threads may want, a large one as many as keep each of them small: what a module takes is given back before
// the next but few are built.
#include "codegen/kernels.h"
#include "codegen/module/emit.h"

enum {
  LEAST_COST = 8,     // least cost of a module, about 1 ms: below it, a module costs more than it saves in parallel
  MOST_COST = 256,    // of a module of a large program: about 20 kernels
  FEW_MODULES = 8,    // of a small program
  CALLS_PER_COST = 4  // calls of an entry that cost as much as a kernel of cost 1
};

static uint32_t cost_of_entries(const ModulePlan *plan) {
  uint32_t n_calls = 0;
  for (uint32_t k = 0; k < plan->n_entries; k++) n_calls += plan->entries[k].n_calls;
  return 1 + n_calls / CALLS_PER_COST;
}

static uint32_t module_count(uint64_t cost) {
  uint64_t few = cost / LEAST_COST < FEW_MODULES ? cost / LEAST_COST : FEW_MODULES, many = cost / MOST_COST;
  uint64_t n = few > many ? few : many;
  return n ? (uint32_t)n : 1;
}

// A kernel belongs to the share in which the middle of its cost lies; empty shares are skipped.
Partition cg_partition(const ModulePlan *plan) {
  uint64_t total = cost_of_entries(plan), at = total;
  for (uint32_t k = 0; k < plan->n_codes; k++) total += cg_kernel_compile_cost(plan->codes[k]->k);
  uint32_t n = module_count(total);
  Partition p = {.n = 1, .list = rt_alloc(plan->mem, n * sizeof *p.list)};
  p.list[0] = (ModulePart){.cost = (uint32_t)at, .has_entries = true};
  for (uint32_t k = 0, share = 0; k < plan->n_codes; k++) {
    uint32_t cost = cg_kernel_compile_cost(plan->codes[k]->k);
    uint32_t now = (uint32_t)((2 * at + cost) * n / (2 * total));
    if (now != share) p.list[p.n++].first = k;
    p.list[p.n - 1].n++;
    p.list[p.n - 1].cost += cost;
    share = now;
    at += cost;
  }
  return p;
}
