// Tenure: neural networks, training steps included, compiled to native CPU code from C.
//
//   tn_program *p = tn_program_create("mlp");
//   tn_dim B = tn_dim_bounded(p, "batch", 32);
//   tn_module *fc = tn_linear(tn_root(p), "fc", 8, 3);
//   tn_function *f = tn_function_begin(p, "predict");
//   tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 8));
//   tn_output(f, "y", tn_call(fc, x));
//   tn_function_end(f);
//   tn_model *m = tn_compile(p);
//   if (!m) { tn_report(p, stderr); return 1; }
//   tn_run(m, "predict", TN_IN(tn_f32(xs, 5, 8)), TN_OUT(tn_f32(ys, 5, 3)));
//   tn_model_free(m);
//   tn_program_free(p);
//
// A call fills in its own call site, and takes options by name: tn_linear(net, "fc", 8, 3, .no_bias = true). tenure/core.h
// says how; the headers by subject follow below in the order of a program.
//
// Building checks everything and runs nothing. A mistake is collected with the caller's file and line, the call returns
// a poisoned handle, and calls on poisoned handles add no further error: one mistake, one report (tn_report). Handles
// are small values; they carry their function, so that operations take no context. Functions that return tn_status
// never print and never abort; tn_error_text says what was wrong in a sentence. Nor does tn_compile abort, whatever
// becomes of the compiler (tenure/run.h). All handles end with their program.
#ifndef TENURE_H
#define TENURE_H

#include "tenure/core.h"    // handles, shapes, programs, functions
#include "tenure/data.h"    // data sets
#include "tenure/loader.h"  // batches, progress
#include "tenure/module.h"  // parameters, layers, attention, hooks
#include "tenure/ops.h"     // operations, losses, writes in place
#include "tenure/packed.h"  // sequences of different lengths
#include "tenure/rnn.h"     // recurrent calls, scans
#include "tenure/run.h"     // compiling, running, files
#include "tenure/scope.h"   // who owns a value, where it ends
#include "tenure/train.h"   // gradients, optimizers

#include "tenure_site.h"  // the calls' own names as macros that fill in the call site

#endif
