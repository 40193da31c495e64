// Tenure, what all headers use: statuses, dtypes, counters, lists.
#ifndef TN_BASE_H
#define TN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif

typedef struct tn_model tn_model;

// Dtypes of elements: docs/dtypes.md has what is computed with them.
typedef enum {
  TN_F32 = 1,
  TN_I64 = 2,
  TN_I32 = 3,
  TN_U8 = 4,
  TN_BOOL = 5,  // a byte, 0 or 1
  TN_F16 = 6,   // IEEE half precision: uint16_t
  TN_BF16 = 7   // the upper half of a float: uint16_t
} tn_dtype;

typedef enum {
  TN_OK,
  TN_ERR_BUILD,     // the program has errors: tn_report
  TN_ERR_ARGUMENT,  // a call's argument: unknown function, missing input, wrong dtype, shape or size
  TN_ERR_VALUE,     // a value in an input: length, label or index out of range
  TN_ERR_FILE,      // a file that cannot be read or written, or does not hold what it should
  TN_ERR_MEMORY,    // out of memory
  TN_ERR_CODEGEN,   // code could not be generated or loaded
  TN_ERR_RANKS      // other processes cannot be reached, or do something else
} tn_status;
TN_API const char *tn_status_text(tn_status s);

// Counters of the ledger (scope.h), and of what a loader gives out (loader.h)
typedef struct {
  int64_t live;                               // (created_in - disposed_in) + (created_outside - disposed_outside)
  int64_t created_outside, disposed_outside;  // of a scope
  int64_t created_in, disposed_in;
  int64_t attached, detached;
} tn_stats;

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define TN_LIST_OF(type, ...) ((const type[]){__VA_ARGS__}), sizeof((const type[]){__VA_ARGS__}) / sizeof(type)
#else
#define TN_LIST_OF(type, ...) (std::initializer_list<type>{__VA_ARGS__}.begin()), sizeof(tn_counted(__VA_ARGS__))
template <class... T> char (&tn_counted(const T &...))[sizeof...(T)];  // has no body: only its size is asked
#endif

#endif
