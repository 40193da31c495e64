// The tables of a bundle, on this machine: what its object will hold as constants, and what its header, selftest and
// JSON are written from.
#ifndef TN_CODEGEN_BUNDLE_FACTS_H
#define TN_CODEGEN_BUNDLE_FACTS_H

#include "codegen/target.h"
#include "runtime/bundle/bundle.h"

typedef struct {
  const char *name;            // with which every symbol begins: an identifier of C
  uint64_t hash;               // of text, options and targets: NAME_PLAN
  const RtPlan *const *plans;  // by target: the same functions and parameters, entries apart
  const Target *const *targets;
  uint32_t n_targets;
  const void *weights;  // initial parameter block; NULL: drawn
} CgBundleFacts;

// false: why. In memory of `mem`; about's functions that are calls (call, init, ..) are NULL.
bool cg_bundle_facts(RtArena *mem, const CgBundleFacts *in, TnBundle *out, RtText *why);

// What functions take of TnFrame.blocks, by target and function of the plan, and with it the bytes of all arenas: known
// when the kernels are emitted. NULL: nothing. one_worker: functions have no barriers, so that no model runs them with more.
void cg_bundle_set_arenas(const TnBundle *b, const int64_t *block_bytes, bool one_worker);

// A name as an identifier of C and C++: "emb.weight" is emb_weight; what is a keyword or looks like a macro gets a _
// behind it.
char *cg_c_name(RtArena *mem, const char *name);
// The same as part of an identifier, where keywords are as good as others
char *cg_c_part(RtArena *mem, const char *name);
char *cg_c_upper_name(RtArena *mem, const char *name);
// The name of function k behind "NAME_": as it is, unless NAME_init or another symbol of the header has that name.
char *cg_bundle_symbol(RtArena *mem, const TnBundleAbout *about, uint32_t k);
// `name`, or with a number behind it: one that is not in the list, to which it is added.
typedef struct {
  RtArena *mem;
  const char **list;
  uint32_t n, cap;
} CgNames;
const char *cg_new_name(CgNames *names, const char *name);
// "[batch, 2 * time, 12]"
char *cg_shape_text(RtArena *mem, const RtPlan *p, const RtPort *port);
size_t cg_bundle_init_arena(const TnBundle *b);  // bytes that NAME_init wants
// The function of the plan that is function k of `about`: all but init.
uint32_t cg_bundle_function(const RtPlan *p, uint32_t k);

#endif
