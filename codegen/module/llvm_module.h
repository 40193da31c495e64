// One LLVM module of a program's code. In the compiler's process only (child.h).
//
//   LLVMTargetMachineRef tm = cg_make_machine(t, how, error);   one for each thread
//   cg_open_module(&m, NULL, tm, how);
//   if (!cg_build_module(&plan, &m)) ..   plan.why              all of a plan; for a part: emit.h
//   if (!cg_finish_module(&m)) ..         m.error
//   CgObject file = cg_module_object(&m);                       a relocatable object
//
// Modules are built one after the other, since that allocates in the program's arena; they may be finished side by side,
// each in a thread.
#ifndef TN_CODEGEN_MODULE_LLVM_MODULE_H
#define TN_CODEGEN_MODULE_LLVM_MODULE_H

#include "codegen/module/module.h"

enum { CG_ERROR_SIZE = 512 };
typedef struct {
  const CgPipeline *how;
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMTargetMachineRef tm;  // another thread that finishes it sets its own
  LLVMMemoryBufferRef object;
  char error[CG_ERROR_SIZE];  // "": none
} CgModule;

// Once, before the first module: for every CPU; for this machine's alone where the triple is its, in a third of the time, which each
// program takes.
void cg_init_llvm(void);
void cg_init_llvm_for(const char *triple);
LLVMTargetMachineRef cg_make_machine(const Target *t, const CgPipeline *how, char error[CG_ERROR_SIZE]);  // NULL: error
// m stays where it is. ctx NULL: one of its own
void cg_open_module(CgModule *m, LLVMContextRef ctx, LLVMTargetMachineRef tm, const CgPipeline *how);
void cg_close_module(CgModule *m);  // with its context; the object stays
bool cg_build_module(const ModulePlan *plan, CgModule *m);
bool cg_optimise_module(CgModule *m);          // LLVM's passes
bool cg_finish_module(CgModule *m);            // the same, and the object
CgObject cg_module_object(const CgModule *m);  // bytes of the module
// Instead of finishing it: what LLVM's passes leave, as its text or as assembly. False: m->error
bool cg_module_text(CgModule *m, bool as_assembly, CgObject *out);

#endif
