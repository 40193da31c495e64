// Transforms of few points in registers. One of n = a b points is b of a points, turned, and then a of b points:
//
//   j = b j1 + j2, k = k1 + a k2      z_k = sum over j2 of w_b^(j2 k2) [w_n^(j2 k1) sum over j1 of w_a^(j1 k1) z_j]
//
// An odd prime p: sums and differences of the points j and p - j make sums of cosines and of sines, which the bins k
// and p - k share.
#include "codegen/fourier/fourier.h"

#include <math.h>

static const double full_turn = 2 * 3.14159265358979323846;

static V k_of(Cg *c, V like, double x) { return cg_splat_like(c, like, cg_f32(c, x)); }

CgComplex cg_turn(Cg *c, CgComplex z, V re, V im) {
  return (CgComplex){cg_fma(c, z.re, re, cg_fneg(c, cg_fmul(c, z.im, im))), cg_fma(c, z.re, im, cg_fmul(c, z.im, re))};
}

static CgComplex add(Cg *c, CgComplex a, CgComplex b) {
  return (CgComplex){cg_fadd(c, a.re, b.re), cg_fadd(c, a.im, b.im)};
}
static CgComplex sub(Cg *c, CgComplex a, CgComplex b) {
  return (CgComplex){cg_fsub(c, a.re, b.re), cg_fsub(c, a.im, b.im)};
}
static CgComplex minus_i(Cg *c, CgComplex z) { return (CgComplex){z.im, cg_fneg(c, z.re)}; }

// z e^(-2 pi i t / n)
static CgComplex turn_by(Cg *c, CgComplex z, uint32_t t, uint32_t n) {
  double angle = full_turn * t / n;
  V root = k_of(c, z.re, sqrt(0.5));
  if (t == 0) return z;
  if (2 * t >= n && n % 2 == 0) return turn_by(c, (CgComplex){cg_fneg(c, z.re), cg_fneg(c, z.im)}, t - n / 2, n);
  if (4 * t >= n && n % 4 == 0) return minus_i(c, turn_by(c, z, t - n / 4, n));
  if (8 * t == n)
    return (CgComplex){cg_fmul(c, cg_fadd(c, z.re, z.im), root), cg_fmul(c, cg_fsub(c, z.im, z.re), root)};
  return cg_turn(c, z, k_of(c, z.re, cos(angle)), k_of(c, z.re, -sin(angle)));
}

static void dft_4(Cg *c, CgComplex *z) {
  CgComplex a = add(c, z[0], z[2]), b = sub(c, z[0], z[2]), d = add(c, z[1], z[3]), e = sub(c, z[1], z[3]);
  z[0] = add(c, a, d), z[2] = sub(c, a, d);
  z[1] = (CgComplex){cg_fadd(c, b.re, e.im), cg_fsub(c, b.im, e.re)};
  z[3] = (CgComplex){cg_fsub(c, b.re, e.im), cg_fadd(c, b.im, e.re)};
}

static CgComplex add_scaled(Cg *c, CgComplex sum, CgComplex z, double by) {
  V k = k_of(c, z.re, by);
  if (!sum.re) return (CgComplex){cg_fmul(c, z.re, k), cg_fmul(c, z.im, k)};
  return (CgComplex){cg_fma(c, z.re, k, sum.re), cg_fma(c, z.im, k, sum.im)};
}

static void dft_odd_prime(Cg *c, uint32_t p, CgComplex *z) {
  uint32_t half = p / 2;
  CgComplex first = z[0], s[MOST_CODELET], d[MOST_CODELET];
  for (uint32_t j = 1; j <= half; j++) {
    s[j] = add(c, z[j], z[p - j]), d[j] = sub(c, z[j], z[p - j]);
    z[0] = add(c, z[0], s[j]);
  }
  for (uint32_t k = 1; k <= half; k++) {
    CgComplex even = first, odd = {NULL, NULL};
    for (uint32_t j = 1; j <= half; j++) {
      double angle = full_turn * (j * k % p) / p;
      even = add_scaled(c, even, s[j], cos(angle)), odd = add_scaled(c, odd, d[j], sin(angle));
    }
    odd = minus_i(c, odd);
    z[k] = add(c, even, odd), z[p - k] = sub(c, even, odd);
  }
}

static uint32_t first_factor(uint32_t n) {
  if (n % 4 == 0) return 4;
  for (uint32_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

void cg_dft(Cg *c, uint32_t n, CgComplex *z) {
  uint32_t a = first_factor(n), b = n / a;
  CgComplex t[MOST_CODELET], column[MOST_CODELET];
  if (n == 1) return;
  if (n == 2) t[0] = add(c, z[0], z[1]), z[1] = sub(c, z[0], z[1]), z[0] = t[0];
  else if (n == 4) dft_4(c, z);
  else if (b == 1) dft_odd_prime(c, n, z);
  if (b == 1) return;
  for (uint32_t j = 0; j < b; j++) {
    for (uint32_t i = 0; i < a; i++) column[i] = z[b * i + j];
    cg_dft(c, a, column);
    for (uint32_t i = 0; i < a; i++) t[b * i + j] = turn_by(c, column[i], i * j, n);
  }
  for (uint32_t i = 0; i < a; i++) {
    cg_dft(c, b, &t[b * i]);
    for (uint32_t k = 0; k < b; k++) z[i + a * k] = t[b * i + k];
  }
}
