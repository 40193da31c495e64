// The public calls that are one row of ir/ops.def each.
#ifndef TENURE_POINTWISE_LIST_H
#define TENURE_POINTWISE_LIST_H

// clang-format off
#define TN_UNARY_CALLS(X) \
  X(neg) X(abs) X(exp) X(log) X(sqrt) X(tanh) X(sigmoid) X(erf) X(sin) X(cos) X(floor) X(relu) X(square) X(rsqrt) \
  X(silu) X(gelu) X(gelu_tanh) X(softplus)
#define TN_BINARY_CALLS(X) \
  X(add) X(sub) X(mul) X(div) X(max) X(min) X(pow) X(gt) X(ge) X(lt) X(le) X(eq) X(ne)
// clang-format on
#define TN_IN_PLACE_CALLS(X) X(add) X(sub) X(mul) X(div) X(max) X(min) X(pow) X(gt) X(ge) X(lt) X(le) X(eq) X(ne)

#endif
