// LLVM modules of a program: which kernels are in which, and their making.
#ifndef TN_CODEGEN_MODULE_EMIT_H
#define TN_CODEGEN_MODULE_EMIT_H

#include "codegen/module/module.h"

typedef struct {
  uint32_t first, n;  // kernels: ModulePlan.codes
  uint32_t cost;      // of compiling them, about ms
  bool has_entries;   // and the tables
} ModulePart;
typedef struct {
  ModulePart *list;
  uint32_t n;
} Partition;

Partition cg_partition(const ModulePlan *plan);  // partition.c

// Emits a part into an empty module; modules of a program one after another. helpers: functions that were emitted before,
// in memory that lives as long as the program's modules are made; mem: given back by the caller. false: plan->why.
bool cg_emit_module(const ModulePlan *plan, const ModulePart *part, RtNames *helpers, RtArena *mem, LLVMModuleRef mod);

// objects.c: modules, objects, and the image of them, from rt_malloc. false: plan->why. Jumps to on_oom.
bool cg_make_image(const ModulePlan *plan, jmp_buf *on_oom, CgObject *out);
// One module and its object, for programs that run elsewhere; plan->how
bool cg_make_object(const ModulePlan *plan, jmp_buf *on_oom, CgObject *out);

#endif
