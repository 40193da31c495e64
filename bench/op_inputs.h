// Inputs of a table's rows (op_rows.h), which the tables describe. Included last: the names are short.
#include "bench/op_rows.h"

#define DIMS_OF(...) \
  sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ }
#define F(...) {NORMAL, 0, DIMS_OF(__VA_ARGS__)}
#define N(...) F(__VA_ARGS__)
#define P(...) {POSITIVE, 0, DIMS_OF(__VA_ARGS__)}
#define U(...) {UNIT, 0, DIMS_OF(__VA_ARGS__)}
#define M(...) {FAR, 0, DIMS_OF(__VA_ARGS__)}
#define D(...) {NEAR_ONE, 0, DIMS_OF(__VA_ARGS__)}
#define E(...) {EQUAL, 0, DIMS_OF(__VA_ARGS__)}
#define R(...) {CONSTANT, 0, DIMS_OF(__VA_ARGS__)}
#define I(limit, ...) {INTEGER, limit, DIMS_OF(__VA_ARGS__)}
#define U8(...) {BYTE, 256, DIMS_OF(__VA_ARGS__)}
#define B(...) {MARK, 2, DIMS_OF(__VA_ARGS__)}
