// erf from a table that lies in registers: 32 intervals, a polynomial of degree 4 in each.
//
//   |x| = c + d, c the nearest multiple of 1/8        erf |x| = max(e0[c], d) + d (e1[c] + d (e2[c] + d (..)))
//
// AVX-512 looks up 32 floats in two registers with one instruction, which halves the work of erf. In the first
// interval, where e0 = 0 and max gives d, the rest is erf(d) / d - 1: the relative error stays small down to 0.
// From 3.9 on the result is 1. Largest error 1.55 ulp.
#include "codegen/cg.h"
#include "codegen/math/primitives.h"

enum { N_INTERVALS = 32, LANES = 16, N_COEFS = 5 };

// Least squares of the relative error at 200 Chebyshev points of each interval, each coefficient rounded to f32 before
// the next ones were found; the last interval is 1.
static const float coef[N_COEFS][N_INTERVALS] = {
    {0,           0.140316203, 0.276326388, 0.404116899, 0.520499885, 0.623240888, 0.711155653, 0.784075081,
     0.842700779, 0.888388216, 0.92290014,  0.948170066, 0.966105163, 0.978443742, 0.986671686, 0.99199003,
     0.995322287, 0.997345984, 0.998537302, 0.999217033, 0.999593019, 0.999794602, 0.999899387, 0.999952137,
     0.999977887, 0.999990106, 0.999995708, 0.999998212, 0.999999285, 0.999999702, 0.999999881, 1},
    {0.128379151,    1.11088479,     1.06001377,     0.980352581,
     0.87878257,     0.763499677,    0.642931342,    0.524745345,
     0.415107816,    0.31827426,     0.236521348,    0.170359924,
     0.118930362,    0.0804722682,   0.0527749658,   0.0335457735,
     0.0206669234,   0.0123407608,   0.00714226812,  0.00400643796,
     0.002178255,    0.00114785496,  0.000586264068, 0.000290220109,
     0.000139248194, 6.47559282e-05, 2.9187524e-05,  1.27509575e-05,
     5.39903385e-06, 2.21573077e-06, 8.81344192e-07, 0},
    {7.18376805e-06,  -0.138855517,    -0.264999837,    -0.367620766,
     -0.439398229,    -0.477193087,    -0.482218057,    -0.459172785,
     -0.415093839,    -0.358042806,    -0.295663893,    -0.23423779,
     -0.178412586,    -0.130776286,    -0.0923716128,   -0.0628699288,
     -0.0413565636,   -0.026237892,    -0.0160892475,   -0.0094862869,
     -0.00541651109,  -0.0029907627,   -0.00162175589,  -0.000826524105,
     -0.000394380186, -0.000204788186, -0.000106377491, -7.08296357e-05,
     -4.74083317e-05, -5.08022231e-06, 2.30836008e-06,  0},
    {-0.376686186,   -0.358219624,   -0.308787405,   -0.234650493,
     -0.146436036,   -0.0558088161,  0.0265231878,   0.0926019698,
     0.138034865,    0.162150353,    0.167305171,    0.157786772,
     0.13867873,     0.114830442,    0.0901891217,   0.0674970895,
     0.0482867025,   0.0330984704,   0.0217766091,   0.0137713589,
     0.00837998372,  0.00491104694,  0.00277386419,  0.00151090941,
     0.000794072344, 0.000402841368, 0.000197345536, 9.33845949e-05,
     4.26975857e-05, 1.88676677e-05, 8.05963646e-06, 0},
    {0.0141751459,   0.0672141537,    0.125921905,    0.163985759,
     0.184278473,    0.177502424,     0.154635206,    0.116645359,
     0.0664213225,   0.0248910878,    -0.003510857,   -0.03182045,
     -0.0410064794,  -0.0478436984,   -0.0449179038,  -0.0480797328,
     -0.0298163835,  -0.0235732719,   -0.0151981106,  -0.0191052388,
     -0.0146138845,  -0.0100129638,   -0.00132065057, -0.0035007163,
     -0.00583543954, -6.43671156e-05, 0.00207024324,  0.00554941641,
     0.0057708798,   -0.00063600071,  -0.00116361259, 0},
};

// Entry index & 31 of a row of the table, in each lane.
V cg_look_up(Cg *c, const float *row, V index) {
  V half[2];
  for (int h = 0; h < 2; h++) {
    V lane[LANES];
    for (int k = 0; k < LANES; k++) lane[k] = cg_f32(c, row[h * LANES + k]);
    half[h] = LLVMConstVector(lane, LANES);
  }
  return cg_call_intrinsic(c, "llvm.x86.avx512.vpermi2var.ps.512", NULL, 0, (V[]){half[0], index, half[1]}, 3);
}

static V select_lower(Cg *c, V a, double hi) {
  V most = cg_splat_n(c, cg_f32(c, hi), LANES);
  return cg_select(c, cg_fcmp(c, LLVMRealOGT, a, most), most, a);  // NaN stays
}

static V erf_16(Cg *c, V x) {
  LLVMTypeRef t = LLVMTypeOf(x), it = LLVMVectorType(c->i32, LANES);
  V magic = cg_splat_n(c, cg_f32(c, 0x1.8p20), LANES);  // adding it leaves the nearest multiple of 1/8
  V a = select_lower(c, cg_call_intrinsic(c, "llvm.fabs", &t, 1, &x, 1), 3.9);
  V s = cg_fadd(c, a, magic), centre = cg_fsub(c, s, magic);
  V d = cg_fsub(c, a, centre), index = cg_bitcast(c, s, it);
  V y = cg_look_up(c, coef[N_COEFS - 1], index);
  for (int k = N_COEFS - 2; k > 0; k--) y = cg_fma(c, y, d, cg_look_up(c, coef[k], index));
  V base = cg_look_up(c, coef[0], index);
  base = cg_select(c, cg_fcmp(c, LLVMRealOGT, base, d), base, d);
  y = cg_fma(c, y, d, base);
  return cg_call_intrinsic(c, "llvm.copysign", &t, 1, (V[]){y, x}, 2);
}

bool cg_has_erf_table(const Cg *c, LLVMTypeRef t) {
  bool vector = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
  return c->t->cheap_shuffle && (!vector || LLVMGetVectorSize(t) == LANES);
}

V cg_erf_table(Cg *c, V x) {
  if (LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind) return erf_16(c, x);
  return LLVMBuildExtractElement(c->b, erf_16(c, cg_splat_n(c, x, LANES)), cg_i32(c, 0), "");
}
