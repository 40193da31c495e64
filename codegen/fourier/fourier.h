// Fourier transforms whose lanes are independent: those of rows that stand side by side.
#ifndef TN_CODEGEN_FOURIER_FOURIER_H
#define TN_CODEGEN_FOURIER_FOURIER_H

#include "codegen/cg.h"

enum { MOST_CODELET = 16 };  // points of one that stands in registers

typedef struct {
  V re, im;
} CgComplex;

CgComplex cg_turn(Cg *c, CgComplex z, V re, V im);  // z (re + i im)
// z[k] becomes the sum of z[j] e^(-2 pi i j k / n); n up to MOST_CODELET, of any factors.
void cg_dft(Cg *c, uint32_t n, CgComplex *z);

#endif
