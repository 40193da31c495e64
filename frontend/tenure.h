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
//   if (!m) return 1;                                 // it has said why, on stderr
//   tn_run(m, "predict", TN_IN(tn_f32(xs, 5, 8)), TN_OUT(tn_f32(ys, 5, 3)));
//   tn_model_free(m);
//   tn_program_free(p);
//
// A call fills in its own call site, and takes options by name: tn_linear(net, "fc", 8, 3, .no_bias = true). tenure/core.h
// says how; the headers by subject follow below in the order of a program.
//
// Building checks everything and runs nothing. A mistake is collected with the caller's file and line, the call returns
// a poisoned handle, and calls on poisoned handles add no further error: one mistake, one report, which tn_compile prints
// on stderr (.quiet: only tn_report has it). Handles are small values; they carry their function, so that operations take
// no context. Functions that return tn_status never abort and, tn_report apart, never print; tn_error_text says what was
// wrong in a sentence. Nor does tn_compile abort, whatever becomes of the compiler (tenure/compile.h). All handles end with
// their program.
//
// Threads. Programs, models, instances and loaders are independent: each may be used by a thread of its own, also while
// others compile. A program, with all handles that it gave out, belongs to one thread at a time. Of a model or instance,
// and of a loader, one call is under way at a time, whichever thread makes it. While one is, another thread's call that
// runs, reads or writes parameters and state, saves, loads, copies or sets a rate, tn_loader_next and
// tn_loader_set_state do nothing and return TN_ERR_ARGUMENT (tn_param_at: no data), with a sentence that names the call
// under way and the function that runs. Calls that could not say so wait for it: tn_param_end_write, tn_error_text,
// tn_warning_text, tn_exchanged_of, tn_param_owned, tn_loader_get_state, tn_loader_count, tn_loader_report,
// tn_loader_stats, tn_loader_error, and tn_model_free and tn_loader_free, after which no call may begin. All others that take
// a model or loader are free to come at any time: tn_instance, tn_loader_stop, sizes, names and plans. Data sets are read by
// many threads at once, batches by any until their loader gives the next one. What a view from tn_param_at shows is read and
// written between runs. A signal handler may call tn_loader_stop only.
#ifndef TENURE_H
#define TENURE_H

#include "tenure/bundle.h"       // a program as an object and a header
#include "tenure/compile.h"      // compiling, dumps
#include "tenure/conv.h"         // convolutions
#include "tenure/core.h"         // handles, shapes, programs, functions
#include "tenure/data.h"         // data sets
#include "tenure/decode.h"       // sequences that go on side by side: slots, sampling
#include "tenure/distributed.h"  // several processes
#include "tenure/hook.h"         // modules of one's own, hooks
#include "tenure/image.h"        // pooling, resizing
#include "tenure/indexing.h"     // elements by index and mask
#include "tenure/loader.h"       // batches, progress
#include "tenure/model.h"        // models, plans
#include "tenure/module.h"       // parameters, layers, attention
#include "tenure/ops.h"          // operations, losses, writes in place
#include "tenure/order.h"        // scans, order, search along an axis
#include "tenure/packed.h"       // sequences of different lengths
#include "tenure/params.h"       // parameters of a model, files
#include "tenure/placement.h"    // offsets for buffers of known lives
#include "tenure/probe.h"        // statistics of values inside of a model
#include "tenure/rnn.h"          // recurrent calls, scans
#include "tenure/run.h"          // running
#include "tenure/scope.h"        // who owns a value, where it ends
#include "tenure/shape.h"        // taking apart, putting together, repeating
#include "tenure/train.h"        // gradients, optimizers

#include "tenure_site.h"  // the calls' own names as macros that fill in the call site

#endif
