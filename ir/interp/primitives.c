// Primitives in doubles, and the counter-based random stream.
//
// Random numbers are a pure function of (seed, run, stream id, element): Philox4x32-10 with key = seed,
// counter = (element low, element high, id, run). No state, so any worker can make any element in any order.
#include "ir/interp/interpret.h"
#include "runtime/rng.h"

#include <math.h>

// A NaN in b is returned: it fails every comparison.
static double pick_max(double a, double b) { return isnan(a) || a > b ? a : b; }
static double pick_min(double a, double b) { return isnan(a) || a < b ? a : b; }

// Solves erf y = x: Giles' approximation (to 10^-6), then two steps of Halley's method. The error is computed
// from the tail, so that it is exact near 1.
static double erf_inverse(double x) {
  static const double middle[] = {1.50140941,      0.246640727,    -0.00417768164, -0.00125372503, 0.00021858087,
                                  -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08};
  static const double tail[] = {2.83297682,     1.00167406,    0.00943887047,  -0.0076224613,  0.00573950773,
                                -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257};
  double u = fabs(x), w = -log((1 - u) * (1 + u)), t = w < 5 ? w - 2.5 : sqrt(w) - 3, y = 0;
  const double *coef = w < 5 ? middle : tail;
  if (!(u < 1)) return u == 1 ? copysign(INFINITY, x) : NAN;
  for (int k = 8; k >= 0; k--) y = y * t + coef[k];
  y *= u;
  for (int k = 0; k < 2; k++) {
    double off = u < 0.5 ? erf(y) - u : (1 - u) - erfc(y), step = off / (1.1283791670955126 * exp(-y * y));
    y -= step / (1 + y * step);
  }
  return copysign(y, x);
}

// ---- derivatives of ln gamma: of numbers below 1/2 by those on the other side of 0, as tan and sums have them
static double from_next_whole(double x) { return x - nearbyint(x); }

static double digamma(double x) {
  static const double series[] = {1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760};
  double r = from_next_whole(x), y = 0, power = 1;
  if (x == 0) return copysign(INFINITY, -x);
  if (x < 0 && !(r < 0 || r > 0)) return NAN;
  if (x < 0.5) return digamma(1 - x) - 3.14159265358979324 / tan(3.14159265358979324 * r);
  if (isinf(x)) return x;
  for (; x < 20; x++) y -= 1 / x;
  for (int k = 0; k < 6; k++) power /= x * x, y -= series[k] * power;
  return y + log(x) - 0.5 / x;
}

// The sum of all (y + k)^-s, y >= 1/2
static double hurwitz(double s, double y) {
  static const double bernoulli[] = {1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160};
  double sum = 0, z = y + 20, factor = s * pow(z, -s - 1);
  for (int k = 0; k < 20; k++) sum += pow(y + k, -s);
  sum += pow(z, 1 - s) / (s - 1) + 0.5 * pow(z, -s);
  for (int k = 0; k < 5; k++) {
    sum += bernoulli[k] * factor;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (z * z);
  }
  return sum;
}

static double polygamma(double order, double x) {
  double s = order + 1, r = from_next_whole(x), sign = fmod(order, 2) == 1 ? 1 : -1, zeta;
  if (!(order >= 1 && order <= 32) || order != floor(order) || isnan(x) || x == -INFINITY) return NAN;
  if (x == INFINITY) zeta = 0;
  else if (x >= 0.5) zeta = hurwitz(s, x);
  else if (fabs(r) == 0.5 && sign < 0) zeta = hurwitz(s, 1 - x);  // the others cancel
  else zeta = pow(r, -s) + hurwitz(s, 1 + r) + sign * (hurwitz(s, 1 - r) - hurwitz(s, 1 - x));
  return sign * tgamma(s) * zeta;
}

double ir_primitive(Op op, double a, double b, double c) {
  switch (op) {
#define NULLARY_PRIM(n, ...)
#define UNARY_PRIM(n, ga, flags, cost, value, ...) \
  case OP_##n: return value;
#define BINARY_PRIM(n, ga, gb, flags, cost, value, ...) \
  case OP_##n: return value;
#define TERNARY_PRIM(n, ga, gb, gc, flags, cost, value, ...) \
  case OP_##n: return value;
#include "ir/primitives.def"
  default: return NAN;  // no primitive, or a random one
  }
}

int64_t ir_to_whole(DType t, double x) {
  if (t == DT_BOOL) return x != 0;
  int64_t n = ir_to_i64(x);
  if (t == DT_I32) return n < INT32_MIN ? INT32_MIN : n > INT32_MAX ? INT32_MAX : n;
  if (t == DT_U8) return n < 0 ? 0 : n > UINT8_MAX ? UINT8_MAX : n;
  return n;
}

int64_t ir_modulo(DType t, int64_t x) {
  if (t == DT_BOOL) return x != 0;
  return t == DT_I32 ? (int64_t)(int32_t)(uint32_t)(uint64_t)x : t == DT_U8 ? (int64_t)(uint8_t)x : x;
}

int64_t ir_to_i64(double x) {
  if (isnan(x)) return 0;
  return x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

static void philox_at(uint32_t out[4], uint64_t seed, uint64_t counter, uint32_t id, uint64_t element) {
  const uint32_t at[4] = {(uint32_t)element, (uint32_t)(element >> 32), id, (uint32_t)counter};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  rt_philox(at, key, out);
}

float ir_philox_uniform(uint64_t seed, uint64_t counter, uint32_t id, uint64_t element) {
  uint32_t x[4];
  philox_at(x, seed, counter, id, element);
  return (float)(x[0] >> 8) * 0x1p-24f;  // 24 bits: exact, below 1
}

double ir_philox_normal(uint64_t seed, uint64_t counter, uint32_t id, uint64_t element) {
  uint32_t x[4];
  philox_at(x, seed, counter, id, element);
  double u1 = ((double)(x[0] >> 8) + 1) * 0x1p-24;  // in (0, 1]: the logarithm is finite
  double u2 = (double)(x[1] >> 8) * 0x1p-24;
  return sqrt(-2 * log(u1)) * cos(6.283185307179586 * u2);
}
