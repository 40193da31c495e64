// A program while it is built: errors with their place, names, sizes; how a public call begins.
//
// A public call that builds opens with FE_GUARD: when memory runs out inside it, it returns its poisoned value and the
// program accepts no more building. Everything except tn_program itself lives in the program's arena; nobody frees a
// part of it.
#ifndef TN_FRONTEND_GRAPH_PROGRAM_H
#define TN_FRONTEND_GRAPH_PROGRAM_H

#include "frontend/tenure/core.h"
#include "ir/ir.h"
#include "runtime/names.h"
#include <setjmp.h>

typedef struct FeParam FeParam;
typedef struct FeGroup FeGroup;
typedef struct FeHyper FeHyper;
typedef struct FeCacheWrite FeCacheWrite;
typedef struct FeAccumulation FeAccumulation;
typedef struct FeFreeze FeFreeze;
typedef struct FeUntrained FeUntrained;
typedef struct tn_schedule tn_schedule;
typedef struct FeCounter FeCounter;
typedef struct FeVariant FeVariant;
typedef struct FeJitCode FeJitCode;

typedef struct FeGuard {
  tn_program *p;
  jmp_buf jmp;
  struct FeGuard *outer;  // of the public call that called this one
  const char *call;       // the function's name
  bool runs_hook;         // a hook of the user runs: calls inside are calls of the user again
} FeGuard;

typedef struct {
  const char *name;
  Loc loc;
} FeName;
typedef struct {
  RtNames index;
  FeName *list;  // by number of the index
  uint32_t cap;
} FeNames;

// Hooks of module/hook.h
typedef struct {
  tn_hook **list;
  uint32_t n, cap;
} FeHooks;

struct tn_program {
  RtArena *mem;
  Prog *ir;
  tn_module *root;
  tn_function *first, *last;
  Fn *init;
  tn_function *init_fn;  // the public face of `init`
  FeParam **params;
  uint32_t n_params, cap_params;
  uint32_t n_flushed;  // entries before it stand in the table of the IR, or never will
  FeParam **entered;   // by number in that table; NULL: no entry is it
  uint32_t n_entered, cap_entered;
  RtNames state_paths;
  FeParam **states;  // of optimizers and the like, by number of the path
  uint32_t cap_states;
  FeGroup *groups;
  uint32_t n_groups, cap_groups;
  FeHyper *hypers;
  uint32_t n_hypers, cap_hypers;
  FeCacheWrite *cache_writes;
  uint32_t n_cache_writes, cap_cache_writes;
  FeAccumulation *accumulations;
  uint32_t n_accumulations, cap_accumulations;
  FeFreeze *freezes;
  uint32_t n_freezes, cap_freezes;
  uint32_t n_first_uses;  // of parameters by functions
  FeUntrained *untrained;
  uint32_t n_untrained, cap_untrained;
  tn_schedule **schedules;
  uint32_t n_schedules, cap_schedules;
  FeCounter **counters;
  uint32_t n_counters, cap_counters;
  FeHooks hooks;       // of all modules and values, removed ones too
  FeHooks tree_hooks;  // in the order in which they fire
  uint32_t stamp;      // of the newest walk over entries
  Dim *rows;           // dims that a run finds itself: the rows of packed layouts
  uint32_t n_rows, cap_rows;
  FeGuard *guard;
  const tn_module *inside;  // module whose forward runs; NULL: none, or a hook of it runs
  uint32_t checkpoint;      // the call with a checkpoint that runs, a row of Prog.checkpoints; 0: none
  bool sealed, reported_sealed, oom, compiled;
  bool oom_is_shown;   // on stderr
  bool is_text;        // read from text: nothing can be added
  bool is_for_object;  // tn_bundle: nobody would check a guarded arena
  Loc sealed_at;
  uint32_t serial;  // 31 bits inside every named tn_dim
  double created_ms;
  // by function; a run takes the first that fits; their code stands behind the first n_built functions
  FeVariant *variants;
  uint32_t n_variants, cap_variants, n_built;
  const char *built;      // the whole program as text by number (ir_text_of), kept before passes rewrite it
  const char **built_fn;  // the same by function of the IR
  FeJitCode *code;        // NULL before tn_compile
};

void fe_guard(FeGuard *g);
void fe_unguard(FeGuard *g);
void fe_out_of_memory(FeGuard *g);
#define FE_GUARD(prog, failed) FE_GUARD_AS(prog, failed, __func__)
// For a helper that several public calls share: the call that it works for.
#define FE_GUARD_AS(prog, failed, name)                                              \
  __attribute__((cleanup(fe_unguard))) FeGuard here = {.p = (prog), .call = (name)}; \
  fe_guard(&here);                                                                   \
  if (setjmp(here.jmp)) {                                                            \
    fe_out_of_memory(&here);                                                         \
    return failed;                                                                   \
  }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wclobbered"  // after the jump a guarded call returns at once: it reads no local
#endif
void fe_show(tn_program *p, RtSeverity least);  // prints new diagnostics of at least this severity to stderr
Loc fe_loc(tn_program *p, tn_site at);
#define fe_error(p, id, at, ...) fe_error_at(p, id, fe_loc(p, at), __VA_ARGS__)
void fe_error_at(tn_program *p, int id, Loc at, const char *fmt, ...) RT_PRINTF(4, 5);
void fe_diag(tn_program *p, RtSeverity severity, int id, Loc at, const char *fmt, ...) RT_PRINTF(5, 6);  // likewise
void fe_note(tn_program *p, Loc at, const char *fmt, ...) RT_PRINTF(3, 4);
void fe_hint(tn_program *p, const char *fmt, ...) RT_PRINTF(2, 3);
// False when the program accepts no more building; reported once.
bool fe_open(tn_program *p, tn_site at);
// A name: letters, digits and underscores; one that is not for a module starts with no digit. False: reported.
bool fe_name(tn_program *p, const char *what, const char *name, bool of_module, tn_site at);
// taken: who has the name already, NULL: nobody. False: reported with both places.
bool fe_unique(tn_program *p, const FeName *taken, const char *what, const char *name, tn_site at);
// The dim behind a handle; false: reported, or reported when it was made.
bool fe_dim(tn_program *p, tn_dim d, Dim *out, tn_site at);
// The sizes of s; one of them may be -1: the rest of `whole`. false: reported
bool fe_inferred_dims(tn_program *p, tn_shape s, Dim whole, Dim *out, tn_site at);
// s, whose -1 entries take the sizes of a, axes counted from the last one
tn_shape fe_kept_sizes(tn_tensor a, tn_shape s);
tn_dim fe_dim_handle(tn_program *p, Dim d);
bool fe_shape(tn_program *p, tn_shape s, Shape *out, tn_site at);
// Reads again what the sealed program `of` was built as. Tables are those of `of`, which outlives it. NULL: no memory
tn_program *fe_program_of(const tn_program *of, const char *file);

#endif
