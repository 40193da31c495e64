// Tenure, the run-time part: models from bundles, data sets, loaders, files of parameters. All that libtenure_runtime
// has; it is linked with neither the compiler nor LLVM (docs/install.md).
//
//   cc app.c net.o $(pkg-config --cflags --libs tenure-runtime)
#ifndef TN_RUNTIME_H
#define TN_RUNTIME_H

#include "data.h"         // data sets
#include "distributed.h"  // several processes
#include "loader.h"       // batches, progress
#include "model.h"        // models of bundles
#include "model_probe.h"  // their probes
#include "params.h"       // their parameters, files
#include "run.h"          // running

#endif
