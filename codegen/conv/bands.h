// Units of work of convolutions: a band of rows and some columns of one plane of one image and one group, whose source is
// copied into a padded strip on the worker's stack. Sizes are decided by constants alone.
#ifndef TN_CODEGEN_CONV_BANDS_H
#define TN_CODEGEN_CONV_BANDS_H

#include "codegen/conv/windows.h"

// How a phase is cut into units.
typedef struct {
  Windows w;
  int64_t images, band, columns;  // of the result in a unit; if images > 1 they are whole images
  StripShape strip;               // of one image
  int64_t units;                  // of an image and a group, by bounds
} Bands;

// Channels of a block: the largest equal part of all whose strip fits, with `few` columns and rows enough for `pixels`; a
// multiple of `unit` if one fits.
int64_t cg_conv_block(const ConvShape *s, int64_t unit, int64_t few, int64_t pixels, const Target *t);
// Elements of a strip at most.
int64_t cg_conv_strip_limit(const Target *t);
// Limits of a unit.
typedef struct {
  int64_t block;   // channels of the strip
  int64_t few;     // columns at least
  int64_t pixels;  // target number, in at most `images` images; 0: as many as fit in one image
  int64_t images;
  bool one_plane;  // the strip has a single plane of the windows
} ConvCut;
// Columns, then rows, then images whose strip fits.
Bands cg_conv_cut(const ConvShape *s, const Windows *w, const ConvCut *wanted, const Target *t);
static inline Bands cg_conv_bands(const ConvShape *s, const Windows *w, int64_t block, int64_t few, const Target *t) {
  return cg_conv_cut(s, w, &(ConvCut){.block = block, .few = few}, t);
}
// conv.c: elements that its strips copy of an image and a group, where panels have `width` columns.
double cg_conv_copied(const ConvShape *s, int64_t width, const Target *t);
// Rows of equal bands of at most `most` rows.
static inline int64_t cg_even_bands(int64_t rows, int64_t most) {
  return rows ? cg_ceil_div(rows, cg_ceil_div(rows, most)) : most;
}

typedef struct {
  Cg *c;
  Gemm *g;                    // NULL: the kernel is no product
  struct RowStrip *prologue;  // makes pixels of the source; NULL: they are stored
  const ConvShape *s;
  const Bands *b;
  int64_t parts;  // parts into which the work of a unit is split, each with elements of its own; 0: one
  V part;
  V image, group;        // group: if it is set before, units are of that group only
  V z;                   // one_plane: that of the window
  V images;              // from `image` on
  PhaseAt at;            // of which it is a part
  V plane, row, column;  // of the phase, in the order of its elements
  V rows, columns;       // of the unit, in this run
  V slot;                // of moments, of all phases: the same for all groups
} ConvUnit;

// Unit number `number` of a phase: images, groups, planes, bands, blocks of columns; of several phases that share code one after
// the other, some of which may have no rows or columns. of: c, g, s and b are set.
ConvUnit cg_conv_unit(const ConvUnit *of, V number);
V cg_conv_units(const ConvUnit *of);  // of an image and a group
// All units, part by part, shared by the team.
void cg_conv_each_unit(const ConvUnit *u, void (*emit)(const ConvUnit *u));
// Slots of the moments of all units; none where phases share code, of which some have fewer.
int64_t cg_conv_moment_slots(const Fn *f, const GemmPlan *p, const ConvShape *s);
// Stored pixels of the band's row i, `columns` of the product from n0 on: first of them at `from`, `pixel` elements apart.
void cg_conv_add_moments(const ConvUnit *u, V i, V n0, V columns, V from, int64_t pixel);
// Copies what the unit reads of the strip's channels from `channel` of the group on.
void cg_conv_fill(const ConvUnit *u, V src, V channel, V strip);
static inline bool cg_unit_reaches_out(const ConvUnit *u, uint32_t k) {
  return cg_conv_reaches_out(u->c->f, u->s, &u->b->w.axis[k], k);
}
// Column 0 of a row of the unit's image, in place, at `channel` of all groups. Planes and rows may lie outside.
V cg_conv_source(const ConvUnit *u, V src, V plane, V row, V channel);
// Where element number `at` of the unit's phase meets the source along axis k, and which taps lie inside.
V cg_conv_taps_inside(const ConvUnit *u, uint32_t k, V at, Inside *in);
// Number of the result's pixel at row i, column j of the band.
V cg_conv_pixel(const ConvUnit *u, V i, V j);
// The epilogue over the sums of the band's row i, columns [n0, n0 + n) of the product; pixels lie the plan's width apart.
void cg_conv_epilogue(const ConvUnit *u, V i, V n0, V n, V sums);

// ---- border.c: the sums of one of the band's rows, with a panel of weights [block of channels][tap][channel]
typedef struct {
  V sums, weights, columns;  // columns: of the panel
  int64_t pixel;             // elements from one pixel's sums to the next
  uint32_t nv;
  int64_t masked;  // columns of the last vector; 0: all
} ConvSums;
// Recomputes sums of row i that zeros of the padding made NaN. Rows of windows that lie outside were not summed.
void cg_conv_mend_border(const ConvUnit *u, const ConvSums *s, V i);

#endif
