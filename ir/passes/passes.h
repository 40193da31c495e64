// Running passes over functions and programs, the facts that they need and give, rewrite rules by name.
#ifndef TN_IR_PASSES_PASSES_H
#define TN_IR_PASSES_PASSES_H

#include "ir/ir.h"

// ---- pipeline.c
typedef bool PassFn(Fn *f);  // false: errors were added to prog->diags
#define PASS(n, ...) PassFn ir_pass_##n;
#include "ir/passes/passes.def"
#define PASS(n, ...) PASS_##n,
typedef enum {
#include "ir/passes/passes.def"
  N_PASSES
} Pass;
enum { ON_FUNCTION = 1, ON_BODY = 2 };  // what a pass runs on
typedef struct {
  const char *name, *doc;
  PassFn *run;
  uint32_t needs, gives;
  uint8_t on;
} PassInfo;
extern const PassInfo ir_passes[];
extern const uint32_t ir_n_passes;
// Runs the comma-separated passes (NULL: all). `after` (may be NULL) is called after each. Verifies between passes, and
// checks the facts that each needs and gives.
bool ir_run_passes(Fn *f, const char *list, void (*after)(Fn *f, const PassInfo *p, void *ctx), void *ctx);
const char *ir_pass_list(RtArena *mem, Pass first, Pass last);  // "a,b": both, and those between them
bool ir_run_body_passes(Fn *body);                              // those that plan the body of a scan

// ---- plan_program.c
// A distributed function after planning; fns[of] is the function of each shard.
typedef struct Sharded {
  const Fn *built;           // before it was cut, with the user's inputs and outputs
  uint32_t of, update, add;  // in Prog.fns
  uint32_t n;
  Dim batch, sums;  // sums: number of elements that `add` adds
} Sharded;
// Calls before the first pass of a function, and of what it is cut into, and after each pass; each may be NULL.
typedef struct {
  void (*before)(Fn *f, void *ctx);
  void (*after)(Fn *f, const PassInfo *pass, void *ctx);
  void *ctx;
} PlanWatch;
// All passes over all functions, and the memory of the program: what tn_compile does, and every command that shows a plan. The last
// n_variants functions are others for smaller bounds. Distributed functions are cut, which adds two functions for each; keeps_whole:
// they are not planned, and nothing is placed, since there is an error. False: diags say why.
bool ir_plan_program(Prog *p, uint32_t n_variants, bool keeps_whole, const PlanWatch *w);
const Sharded *ir_sharded(const Prog *p, uint32_t function);  // NULL: it is not distributed

// ---- facts.c
// returns the facts of `wanted` (HAS_*) that hold, and remembers them in f->facts
uint32_t ir_find_facts(Fn *f, uint32_t wanted);
uint32_t ir_check_facts(Fn *f, uint32_t given);  // returns the facts of `given` that do hold; f->facts takes them
const char *ir_fact_doc(Fact fact);

// ---- rules.c: rewrite rules by name
uint32_t ir_n_rules(void);
const char *ir_rule_name(uint32_t k);
typedef struct {
  const char *name, *pass, *before, *after, *doc;
} RuleRow;
RuleRow ir_rewrite_rule(uint32_t k);
// "a,b": these rules only; "-a,-b": all but these; NULL: all. False: the list names no rule, or mixes the two; adds a
// diagnostic.
bool ir_select_rules(Prog *p, const char *list);
// Every application of the rules that `list` names as rule:NAME (rule:all: of all) is told to `trace`, as text; other
// names are left alone. False: there is no such rule; adds a diagnostic.
bool ir_trace_rules(Prog *p, const char *list, void (*trace)(const char *text));

// ---- specialize.c: a function as built once more, planned for smaller bounds of named dims
typedef struct {
  Dim dim;
  int64_t fit;
} DimFit;
// The function NAME.time16.. in the same program. Dims of the function that are not named keep their bounds; rows of
// layouts take the bound that follows. Both are compiled to one set of kernels.
Fn *ir_fn_copy(const Fn *f, const char *name);  // before passes
Fn *ir_fn_specialize(const Fn *f, const DimFit *fits, uint32_t n);

#endif
