// The texts beside a bundle's object: NAME.h, NAME.json and NAME_selftest.c, written from the tables that the object
// holds as constants. Pure functions: they read the tables and add to a text.
#ifndef TN_FE_BUNDLE_TEXTS_H
#define TN_FE_BUNDLE_TEXTS_H

#include "codegen/bundle/facts.h"
#include "ir/passes/checks/draw.h"
#include "runtime/exec/instance.h"

// Fingerprint of a result: a checksum of its bits, and a weighted sum of its values.
typedef struct {
  uint64_t checksum;
  uint64_t not_finite;  // weighted counts of NaN and infinities, which the sum leaves out
  double sum;
  double tolerance;  // tolerance of the sum, where bits differ
} FeBundleSum;

// One call of the selftest. Inputs are drawn from the call's number on.
typedef struct {
  uint32_t function;    // of about
  const int64_t *dims;  // in the order of its in struct
  int64_t spread;       // of the integers that are drawn
  const FeBundleSum *outputs;
} FeBundleRun;

typedef struct {
  const FeBundleRun *runs;
  uint32_t n_runs;
  const char **refused;        // by function of about: why it refused all drawn inputs; NULL: it was called
  const FeBundleSum *tensors;  // of the state after all runs
} FeBundleExpected;

typedef struct {
  const TnBundle *b;
  const RtPlan *plan;                // of the first target
  const Prog *ir;                    // its program
  const char *file;                  // base name of the files; NULL: the bundle's
  bool has_workers;                  // NAME_f_worker are there
  bool is_c;                         // NAME.c, not NAME.o
  uint64_t certificate;              // the digest of NAME.plan
  const size_t *stack_bytes;         // by function of about, then of NAME_init; 0: not known. NULL: none is
  const FeBundleExpected *expected;  // for fe_bundle_selftest alone
} FeBundleText;

void fe_bundle_header(const FeBundleText *t, RtText *out);
void fe_bundle_json(const FeBundleText *t, RtText *out);
void fe_bundle_selftest(const FeBundleText *t, RtText *out);

// ---- expect.c: what the selftest's calls give on this machine
enum { FE_SELFTEST_SEED = 7 };
// Runs function `listed` of about on these arrays; NULL: it ran, else why not. Of one model, initialised with FE_SELFTEST_SEED.
typedef const char *FeBundleCall(void *ctx, uint32_t listed, const int64_t *dims, void *const *in, void *const *out);
typedef struct {
  FeBundleCall *call;
  void *ctx;
  void *params;  // the parameter block that the calls change
} FeBundleModel;
// Runs all calls on `m`. `disturbed` is the same model with the last bit of each parameter changed before a
// call: the difference that this makes is the tolerance for other kinds of rounding. Inputs that a call
// refuses are drawn again with less spread, then for other sizes; a function that refuses all of them is
// listed in `refused`.
FeBundleExpected fe_bundle_expect(RtArena *mem, const FeBundleText *t, FeBundleModel m, FeBundleModel disturbed);

// Is the input drawn as integers in ranges (else by its dtype alone)?
bool fe_bundle_is_whole(const RtPort *input, uint32_t n_ranges, int64_t spread);

FeBundleModel fe_bundle_model(RtArena *mem, RtInstance *inst);  // an instance of the plan's code

// What stands in the arrays of a run with these dims (as its in struct has them).
int64_t fe_bundle_elements(RtArena *mem, const RtPlan *p, const RtFunction *f, const int64_t *dims, const RtPort *port);
// What input `input` of such a call of function `listed` is drawn from.
uint32_t fe_bundle_ranges(RtArena *mem, const FeBundleText *t, uint32_t listed, const int64_t *dims, uint32_t input,
                          const DrawRange **out);

// ---- names.c: identifiers of the header, which the selftest and the JSON use too
typedef struct {
  const char *name;                        // NAME_name; with _in behind it, its struct of inputs, and so on
  const char *arena, *stack;               // its macros
  const char **dims, **inputs, **outputs;  // fields
} FeFunctionNames;
typedef struct {
  const char *name, *macro;  // prefixes of symbols and macros
  FeFunctionNames *functions;
  const char **dim_max;  // macros, by dim
  const char **aliases;  // macros, by alias
} FeBundleNames;
FeBundleNames fe_bundle_names(RtArena *mem, const FeBundleText *t);
size_t fe_bundle_stack(const FeBundleText *t, uint32_t listed);
size_t fe_bundle_init_stack(const FeBundleText *t);
const char *fe_bundle_file(const FeBundleText *t);
const RtFunction *fe_bundle_function(const FeBundleText *t, uint32_t listed);
// "each 0 .. batch - 1, non-increasing; or -100, which is ignored"; "" for an input without checks
const char *fe_bundle_range_text(RtArena *mem, const RtPlan *p, const RtFunction *f, uint32_t input);

#endif
