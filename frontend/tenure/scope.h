// Tenure, scopes: who owns a value and where it ends; the ledger that counts values.
#ifndef TN_SCOPE_H
#define TN_SCOPE_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- scopes: the newest open scope owns what is created
//
//   tn_scope *s = tn_scope_begin(f, "forward");
//   tn_tensor h = tn_relu(x), y = tn_move_to_outer(tn_exp(h));
//   tn_scope_end(s);                                   // h ends here; its use is an error from now on, y's is not
//
// A value without a scope (made outside all of them, detached, or moved out of the outermost one) lives to the end of
// the function. Inputs belong to the caller: scopes never end them.
TN_API tn_scope *tn_scope_begin(tn_function *f, const char *name, tn_site at);
TN_API void tn_scope_end(tn_scope *s, tn_site at);
// To the parent of its owner; in the outermost scope: detached
TN_API tn_tensor tn_move_to_outer(tn_tensor t, tn_site at);
TN_API tn_tensor tn_move_to(tn_tensor t, tn_scope *s, tn_site at);
TN_API tn_tensor tn_move_to_scope_of(tn_tensor t, tn_tensor other, tn_site at);
TN_API tn_tensor tn_detach_from_scope(tn_tensor t, tn_site at);
TN_API void tn_dispose(tn_tensor t, tn_site at);
// Through a scope: attach takes the value from whoever owns it; the other two refuse a value that is not the scope's
TN_API tn_tensor tn_scope_attach(tn_scope *s, tn_tensor t, tn_site at);
TN_API tn_tensor tn_scope_detach(tn_scope *s, tn_tensor t, tn_site at);
TN_API tn_tensor tn_scope_move_to_outer(tn_scope *s, tn_tensor t, tn_site at);
// Disposes everything that the scope owns but these; it stays open, and they end with it. A packed sequence is named by
// its data.
//
//   tn_scope_dispose_but(s, TN_TENSORS(h, c));
TN_API void tn_scope_dispose_but(tn_scope *s, const tn_tensor *keep, uint32_t n, tn_site at);
TN_API void tn_scope_dispose_all(tn_scope *s, tn_site at);
// TN_SCOPED(f, expr): the value of expr, a tensor (TN_SCOPED_PACKED in packed.h: packed); all else that it makes ends with it. f is
// evaluated twice.
TN_API void tn_scoped_begin(tn_function *f, tn_site at);
TN_API tn_tensor tn_scoped_end(tn_function *f, tn_tensor t, tn_site at);
#define TN_SCOPED(f, expr) ((tn_scoped_begin)(f, TN_SITE), (tn_scoped_end)(f, expr, TN_SITE))

// ---- the ledger: logical values, counted while building. One call is one value, however it is compiled.
// A packed sequence is one packed value and its members' tensors. Counters (tn_stats, base.h) only grow, until a reset.
TN_API tn_stats tn_stats_tensors(const tn_function *f);
TN_API tn_stats tn_stats_packed(const tn_function *f);
TN_API tn_stats tn_stats_total(const tn_function *f);  // the sum of both
// The sum over all functions; parameters count in tn_init_function
TN_API tn_stats tn_stats_program(const tn_program *p);
// What happened in this scope; its `live` is what it owns now
TN_API tn_stats tn_scope_stats(const tn_scope *s);
TN_API void tn_stats_reset(tn_function *f);
// ThreadTotalLiveCount: 1; CreatedOutsideScopeCount: 0; .. as TorchSharp prints it; no newline. False: cannot write.
TN_API bool tn_stats_print(tn_stats s, FILE *out);
TN_API uint32_t tn_scope_count(const tn_scope *s, tn_site at);  // values that an open scope owns; packed: 1
typedef struct {
  tn_tensor value;   // of a packed sequence: its data. Only for comparing once the program is compiled.
  const char *what;  // the operation that made it
  const char *file;  // where
  int line;
  bool is_packed;
  int64_t bytes;  // by the bounds of its dims
  // After tn_compile: kernels [first, last] between which it needs memory, and where. first -1: it needs none, since it
  // was fused into its reader, folded, or merged with an equal value.
  int32_t first, last;
  int64_t offset;  // in the arena; -1: in no arena
} tn_scope_value;
// Writes up to `max` of what the scope owns (closed: of what it owned at its end), oldest first; gives their number.
TN_API uint32_t tn_scope_values(const tn_scope *s, tn_scope_value *out, uint32_t max);
TN_API bool tn_is_alive(tn_tensor t);  // neither disposed, nor taken over, nor ended with its scope

#ifdef __cplusplus
}
#endif

#endif
