// Pointwise calls, one for each row of ir/ops.def. Operands broadcast as in NumPy; NAME_ writes its result to `a`, whose
// shape it must have.
#ifndef TENURE_OPS_H
#define TENURE_OPS_H

// y = -a
TN_API tn_tensor tn_neg(tn_tensor a, tn_site at);
TN_API tn_tensor tn_neg_(tn_tensor a, tn_site at);
// y = |a|; the gradient at 0 is 0
TN_API tn_tensor tn_abs(tn_tensor a, tn_site at);
TN_API tn_tensor tn_abs_(tn_tensor a, tn_site at);
// y = e^a
TN_API tn_tensor tn_exp(tn_tensor a, tn_site at);
TN_API tn_tensor tn_exp_(tn_tensor a, tn_site at);
// y = ln a
TN_API tn_tensor tn_log(tn_tensor a, tn_site at);
TN_API tn_tensor tn_log_(tn_tensor a, tn_site at);
// y = sqrt a
TN_API tn_tensor tn_sqrt(tn_tensor a, tn_site at);
TN_API tn_tensor tn_sqrt_(tn_tensor a, tn_site at);
// y = tanh a
TN_API tn_tensor tn_tanh(tn_tensor a, tn_site at);
TN_API tn_tensor tn_tanh_(tn_tensor a, tn_site at);
// y = 1 / (1 + e^-a)
TN_API tn_tensor tn_sigmoid(tn_tensor a, tn_site at);
TN_API tn_tensor tn_sigmoid_(tn_tensor a, tn_site at);
// y = erf a
TN_API tn_tensor tn_erf(tn_tensor a, tn_site at);
TN_API tn_tensor tn_erf_(tn_tensor a, tn_site at);
// y = sin a
TN_API tn_tensor tn_sin(tn_tensor a, tn_site at);
TN_API tn_tensor tn_sin_(tn_tensor a, tn_site at);
// y = cos a
TN_API tn_tensor tn_cos(tn_tensor a, tn_site at);
TN_API tn_tensor tn_cos_(tn_tensor a, tn_site at);
// y = the largest integer <= a
TN_API tn_tensor tn_floor(tn_tensor a, tn_site at);
TN_API tn_tensor tn_floor_(tn_tensor a, tn_site at);
// y = max(a, 0); the gradient at 0 is 0
TN_API tn_tensor tn_relu(tn_tensor a, tn_site at);
TN_API tn_tensor tn_relu_(tn_tensor a, tn_site at);
// y = a^2
TN_API tn_tensor tn_square(tn_tensor a, tn_site at);
TN_API tn_tensor tn_square_(tn_tensor a, tn_site at);
// y = 1 / sqrt a
TN_API tn_tensor tn_rsqrt(tn_tensor a, tn_site at);
TN_API tn_tensor tn_rsqrt_(tn_tensor a, tn_site at);
// y = a sigmoid(a)
TN_API tn_tensor tn_silu(tn_tensor a, tn_site at);
TN_API tn_tensor tn_silu_(tn_tensor a, tn_site at);
// y = a Phi(a), the exact form
TN_API tn_tensor tn_gelu(tn_tensor a, tn_site at);
TN_API tn_tensor tn_gelu_(tn_tensor a, tn_site at);
// y = a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2, the approximation of gelu
TN_API tn_tensor tn_gelu_tanh(tn_tensor a, tn_site at);
TN_API tn_tensor tn_gelu_tanh_(tn_tensor a, tn_site at);
// y = ln(1 + e^a)
TN_API tn_tensor tn_softplus(tn_tensor a, tn_site at);
TN_API tn_tensor tn_softplus_(tn_tensor a, tn_site at);
// y = a + b
TN_API tn_tensor tn_add(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_add_(tn_tensor a, tn_tensor b, tn_site at);
// y = a - b
TN_API tn_tensor tn_sub(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_sub_(tn_tensor a, tn_tensor b, tn_site at);
// y = a b
TN_API tn_tensor tn_mul(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_mul_(tn_tensor a, tn_tensor b, tn_site at);
// y = a / b
TN_API tn_tensor tn_div(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_div_(tn_tensor a, tn_tensor b, tn_site at);
// y = max(a, b); a tie sends the gradient to a; NaN wins
TN_API tn_tensor tn_max(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_max_(tn_tensor a, tn_tensor b, tn_site at);
// y = min(a, b); a tie sends the gradient to a; NaN wins
TN_API tn_tensor tn_min(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_min_(tn_tensor a, tn_tensor b, tn_site at);
// y = a^b; a^0 has no gradient for a, nor 0^b for b >= 0
TN_API tn_tensor tn_pow(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_pow_(tn_tensor a, tn_tensor b, tn_site at);
// y = 1 where a > b, else 0
TN_API tn_tensor tn_gt(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_gt_(tn_tensor a, tn_tensor b, tn_site at);
// y = 1 where a >= b, else 0
TN_API tn_tensor tn_ge(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_ge_(tn_tensor a, tn_tensor b, tn_site at);
// y = 1 where a < b, else 0
TN_API tn_tensor tn_lt(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_lt_(tn_tensor a, tn_tensor b, tn_site at);
// y = 1 where a <= b, else 0
TN_API tn_tensor tn_le(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_le_(tn_tensor a, tn_tensor b, tn_site at);
// y = 1 where a == b, else 0
TN_API tn_tensor tn_eq(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_eq_(tn_tensor a, tn_tensor b, tn_site at);
// y = 1 where a != b, else 0
TN_API tn_tensor tn_ne(tn_tensor a, tn_tensor b, tn_site at);
TN_API tn_tensor tn_ne_(tn_tensor a, tn_tensor b, tn_site at);
// y = b where a != 0, else c
TN_API tn_tensor tn_select(tn_tensor cond, tn_tensor a, tn_tensor b, tn_site at);
// y = a where a > 0, else slope a
TN_API tn_tensor tn_leaky_relu(tn_tensor a, double slope, tn_site at);
TN_API tn_tensor tn_leaky_relu_(tn_tensor a, double slope, tn_site at);

#endif
