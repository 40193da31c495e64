// From a built program to code: passes, the plan that instances run by, smaller bounds, shards.
#ifndef TN_FRONTEND_COMPILE_COMPILE_H
#define TN_FRONTEND_COMPILE_COMPILE_H

#include "frontend/graph/code.h"
#include "frontend/tenure/compile.h"

// ---- compile.c
bool fe_seal(tn_program *p, tn_site at);  // no building from now on; false: the program has errors
// The following stand inside FE_GUARD. The program has code from here, and its memory is guarded; false: reported.
bool fe_begin_code(tn_program *p, tn_site at);
void fe_end_code(tn_program *p);
// Passes, packed copies and p->code->plan, entries apart. The target is the program's from now on.
bool fe_place(tn_program *p, Target *target, const tn_compile_options *o);
tn_model *fe_compile_for(tn_program *p, Target *target, const tn_compile_options *o);  // target NULL: this machine's

// ---- lower_plan.c
void fe_plan(tn_program *p, FeJitCode *c);  // fills the plan from the placed program, entries apart

// ---- buckets.c
bool fe_buckets(tn_program *p, const tn_compile_options *o);  // adds the variants; false: reported

// ---- shards.c
// may distributed functions be cut? False: the program has errors
bool fe_check_shards(tn_program *p, const tn_compile_options *o);
// makes the texts of functions that cutting added behind the built ones
void fe_name_shards(tn_program *p);
void fe_plan_shards(const tn_program *p, FeJitCode *c, RtFunction *functions);

// ---- bytes_moved.c
void fe_bytes_moved(const Fn *f, RtArena *mem, FeBytesMoved *out);  // of a placed function
int64_t fe_least_bytes(const Fn *f);                                // tn_plan.least_bytes

// ---- environment.c
void fe_check_environment(tn_program *p, Loc at);  // warns of TN_* variables with an unknown value

#endif
