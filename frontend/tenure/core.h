// Tenure, core: handles, shapes, call sites, programs and functions.
//
// Every call that builds takes the place in the user's program that diagnostics name, its call site: the last parameter
// `at`, or the field `at` of its options. tenure.h closes with macros of the calls' own names that fill it in:
//
//   tn_relu(x)                                  (tn_relu)(x, TN_SITE)
//   tn_linear(net, "fc", 8, 3)                  (tn_linear)(net, "fc", 8, 3, (tn_linear_options){.at = TN_SITE})
//   tn_linear(net, "fc", 8, 3, .no_bias = true)
//
// A name in parentheses calls the function itself: with a site of another place, or options in a variable. A binding
// defines TN_NO_SITE_MACROS before it includes tenure.h. C++ gives options as a value: tn_linear(net, "fc", 8, 3, o).
#ifndef TN_CORE_H
#define TN_CORE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_program tn_program;
typedef struct tn_function tn_function;
typedef struct tn_scope tn_scope;
typedef struct tn_module tn_module;
typedef struct tn_hook tn_hook;
typedef struct tn_scan tn_scan;

typedef struct {
  const char *file;
  int line;
} tn_site;
typedef struct {
  tn_function *fn;
  uint32_t v;
} tn_tensor;  // v == 0: poisoned
typedef struct {
  tn_tensor data, layout;
} tn_packed;  // packed sequences: packed.h
// Several values: what a module of several inputs takes, what hooks of it see. names: by value, NULL: none.
enum { TN_MAX_VALUES = 16 };
typedef struct {
  tn_tensor v[TN_MAX_VALUES];
  uint32_t n;
  const char *const *names;
} tn_values;
typedef struct {
  uint64_t d;
} tn_dim;
enum { TN_MAX_RANK = 8 };
typedef struct {
  tn_dim dims[TN_MAX_RANK];
  uint32_t rank;
} tn_shape;  // rank 0: a scalar

// A dim is a constant or a name with an upper bound; the bound sizes the arena, a run passes the actual size.
TN_API tn_dim tn_dim_bounded(tn_program *p, const char *name, int64_t bound, tn_site at);
TN_API tn_dim tn_dim_const(int64_t n);  // a constant, in [0, 2^30); -1: what is left, of one axis of a reshape
// Sizes computed from sizes, bounds included: tn_dim_add(p, B, 1). E003: a size that can only be negative,
// or a divisor other than a positive constant. Where it depends on the run, a run whose sizes make a size of the function
// negative is refused before anything is written, with the line of the call that computed it. Quotients are rounded
// down, those of tn_dim_ceil_div up. The smaller of a size and 3 is tn_dim_min(p, n, 3), n - 3 or nothing tn_dim_max(p, tn_dim_sub(p, n, 3), 0).
TN_API tn_dim tn_dim_add(tn_program *p, tn_dim a, tn_dim b, tn_site at);
TN_API tn_dim tn_dim_mul(tn_program *p, tn_dim a, tn_dim b, tn_site at);
TN_API tn_dim tn_dim_sub(tn_program *p, tn_dim a, tn_dim b, tn_site at);
TN_API tn_dim tn_dim_div(tn_program *p, tn_dim a, tn_dim b, tn_site at);
TN_API tn_dim tn_dim_ceil_div(tn_program *p, tn_dim a, tn_dim b, tn_site at);
TN_API tn_dim tn_dim_max(tn_program *p, tn_dim a, tn_dim b, tn_site at);
TN_API tn_dim tn_dim_min(tn_program *p, tn_dim a, tn_dim b, tn_site at);
static inline tn_dim tn_dim_itself(tn_dim d) { return d; }
// A shape whose dims are not written in the source; more than TN_MAX_RANK of them are an error where it is used
TN_API tn_shape tn_shape_of(const tn_dim *dims, uint32_t rank);

// ---- programs
TN_API tn_program *tn_program_create(const char *name);  // NULL when out of memory
// A program from .tir text (docs/ir.md), as tn_dump writes it of a compiled program: nothing is added to it, it is compiled as one that was
// built. Its function "init" without inputs and outputs gives parameters their first values; where there is none they
// are 0. `file` is what reports call the text; NULL: "<text>". NULL when out of memory; errors: tn_report.
TN_API tn_program *tn_program_parse(const char *text, size_t n, const char *file);
TN_API void tn_program_free(tn_program *p);  // NULL: nothing; models made from it stay valid
// Prints all diagnostics, notes that belong to no error too; on stderr those alone that are not there yet, from tn_compile
// or another tn_report. TN_OK when there is no error, TN_ERR_MEMORY when memory ran out, else TN_ERR_BUILD
TN_API tn_status tn_report(const tn_program *p, FILE *out);
TN_API tn_status tn_report_json(const tn_program *p, FILE *out);  // the same as a JSON array
TN_API uint32_t tn_n_errors(const tn_program *p);

// ---- functions: the entry points of the compiled program
TN_API tn_function *tn_function_begin(tn_program *p, const char *name, tn_site at);
TN_API void tn_function_end(tn_function *f, tn_site at);
TN_API tn_tensor tn_input(tn_function *f, const char *name, tn_dtype t, tn_shape s, tn_site at);
TN_API void tn_output(tn_function *f, const char *name, tn_tensor t, tn_site at);
// The size of axis `axis` and the rank of a tensor, as built (symbolic dims stay symbolic).
TN_API uint32_t tn_rank(tn_tensor t);
TN_API tn_dim tn_dim_of(tn_tensor t, int axis);  // negative: from the end
TN_API tn_dtype tn_dtype_of(tn_tensor t);        // 0 of what is no value

#ifdef __cplusplus
}
#endif

// ---- literals
//
//   TN_SHAPE(B, 8)       a shape of dims and integers, at most TN_MAX_RANK
//   TN_TENSORS(a, b)     two arguments: a list and its length, alive to the end of the statement
#ifndef __cplusplus
#define TN_SITE ((tn_site){__FILE__, __LINE__})
#define TN_NONE ((tn_tensor){NULL, 0})  // no tensor
#define TN_VALUES(...) ((tn_values){.v = {__VA_ARGS__}, .n = sizeof((tn_tensor[]){__VA_ARGS__}) / sizeof(tn_tensor)})
#define TN_KEEP ((tn_values){.n = UINT32_MAX})  // of a hook: nothing is replaced
#define TN_SCALAR ((tn_shape){.rank = 0})
#define TN_SHAPE(...)                                                                                             \
  ((tn_shape){{TN_NINTH(__VA_ARGS__, TN_DIMS_8, TN_DIMS_7, TN_DIMS_6, TN_DIMS_5, TN_DIMS_4, TN_DIMS_3, TN_DIMS_2, \
                        TN_DIM, 0)(__VA_ARGS__)},                                                                 \
              TN_NINTH(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)})
#define TN_DIM(d) _Generic((d), tn_dim: tn_dim_itself, default: tn_dim_const)(d)
#define TN_NINTH(a, b, c, d, e, f, g, h, ninth, ...) ninth
#define TN_DIMS_2(d, ...) TN_DIM(d), TN_DIM(__VA_ARGS__)
#define TN_DIMS_3(d, ...) TN_DIM(d), TN_DIMS_2(__VA_ARGS__)
#define TN_DIMS_4(d, ...) TN_DIM(d), TN_DIMS_3(__VA_ARGS__)
#define TN_DIMS_5(d, ...) TN_DIM(d), TN_DIMS_4(__VA_ARGS__)
#define TN_DIMS_6(d, ...) TN_DIM(d), TN_DIMS_5(__VA_ARGS__)
#define TN_DIMS_7(d, ...) TN_DIM(d), TN_DIMS_6(__VA_ARGS__)
#define TN_DIMS_8(d, ...) TN_DIM(d), TN_DIMS_7(__VA_ARGS__)
#else
#define TN_SITE (tn_site{__FILE__, __LINE__})
#define TN_NONE (tn_tensor{nullptr, 0})
#define TN_VALUES(...) tn_values_literal(__VA_ARGS__)
#define TN_KEEP (tn_values{{}, UINT32_MAX, nullptr})
template <class... T> tn_values tn_values_literal(T... t) {
  static_assert(sizeof...(T) <= TN_MAX_VALUES, "at most TN_MAX_VALUES values");
  return tn_values{{t...}, static_cast<uint32_t>(sizeof...(T)), nullptr};
}
#define TN_SCALAR (tn_shape{{}, 0})
#define TN_SHAPE(...) tn_shape_literal(__VA_ARGS__)
#define TN_DIM(d) tn_dim_literal(d)
inline tn_dim tn_dim_literal(tn_dim d) { return d; }
template <class T> tn_dim tn_dim_literal(T n) { return tn_dim_const(static_cast<int64_t>(n)); }
template <class... T> tn_shape tn_shape_literal(T... d) {
  static_assert(sizeof...(T) <= TN_MAX_RANK, "a shape has at most TN_MAX_RANK axes");
  return tn_shape{{tn_dim_literal(d)...}, static_cast<uint32_t>(sizeof...(T))};
}
#endif
#define TN_TENSORS(...) TN_LIST_OF(tn_tensor, __VA_ARGS__)
#define TN_INTS(...) TN_LIST_OF(int, __VA_ARGS__)
#define TN_DOUBLES(...) TN_LIST_OF(double, __VA_ARGS__)

#endif
