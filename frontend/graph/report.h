// What reports say about values, calls and modules.
#ifndef TN_FRONTEND_GRAPH_REPORT_H
#define TN_FRONTEND_GRAPH_REPORT_H

#include "frontend/graph/function.h"
#include "ir/build.h"

// "tn_call of module 'fc'": the user's call that op is built for, and where it was made
const char *fe_call_text(tn_program *p, Op op);
// The user's call: the outermost on the stack, else `function` if it is public; NULL: neither
const char *fe_public_call(const tn_program *p, const char *function);
const char *fe_outermost_call(const tn_program *p);  // the same of the stack alone
const char *fe_type_text(tn_tensor t);               // "f32[4,3]"
void fe_note_value(tn_tensor t, const char *what);   // "x is input 'x', f32[4,3], made here"; nothing of constants
void fe_report_fault(Op op, const tn_tensor *a, uint32_t n, const EmitFault *fault, tn_site at);
// call: the public call that found the fault
void fe_report_foreign(tn_function *f, tn_tensor mine, tn_tensor other, const char *call, tn_site at);
void fe_report_ended(tn_function *f, tn_tensor t, const char *call, tn_site at);      // f: the one that is built
void fe_note_module(tn_program *p, const tn_module *m);                               // of another program
bool fe_own_module(tn_program *p, const tn_module *m, const char *what, tn_site at);  // false: reported

#endif
