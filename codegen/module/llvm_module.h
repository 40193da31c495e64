// One LLVM module of a program's code. In the compiler's process only (child.h): nothing is given back.
//
//   CgModule m;
//   if (!cg_open_module(&m, t, &cg_quick_pipeline)) ..  m.error
//   if (!cg_build_module(&plan, &m, NULL, 0)) ..        plan.why
//   if (!cg_finish_module(&m)) ..                       m.error
//   CgObject file = cg_module_object(&m);               a relocatable object
//
// Modules are built one after the other, since that allocates in the program's arena; they may be finished side by side,
// each in a thread.
#ifndef TN_CODEGEN_MODULE_LLVM_MODULE_H
#define TN_CODEGEN_MODULE_LLVM_MODULE_H

#include "codegen/module/module.h"

typedef struct {
  const CgPipeline *how;
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMTargetMachineRef tm;
  LLVMMemoryBufferRef object;
  char error[512];  // "": none
} CgModule;

// Once, before the first module.
void cg_init_llvm(void);
bool cg_open_module(CgModule *m, const Target *t, const CgPipeline *how);
// Kernels k of the plan with part_of[k] == number, or all where part_of is NULL; entries are in module 0.
bool cg_build_module(const ModulePlan *plan, CgModule *m, const uint8_t *part_of, uint32_t number);
bool cg_finish_module(CgModule *m);            // LLVM's passes and the object
CgObject cg_module_object(const CgModule *m);  // bytes of the module
// Instead of finishing it: what LLVM's passes leave, as its text or as assembly. False: m->error
bool cg_module_text(CgModule *m, bool as_assembly, CgObject *out);

#endif
