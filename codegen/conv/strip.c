// A part of one image with its padding, copied to the worker's stack (windows.h).
#include "codegen/conv/taps.h"
#include "codegen/conv/windows.h"
#include "codegen/pointwise/prologue_epilogue.h"

// Zeros, by whole vectors; nothing after the last is touched.
void cg_conv_clear(Cg *c, LLVMValueRef at, LLVMValueRef n) {
  LLVMValueRef vl = cg_i64(c, c->t->vl), whole = cg_mul(c, cg_div(c, n, vl), vl), zero = cg_splat(c, cg_f32(c, 0));
  LLVMValueRef rest = cg_sub(c, n, whole);
  int64_t left;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, vl, NULL, 0);
  cg_store(c, zero, cg_at(c, c->f32, at, l.i));
  cg_loop_end(c, &l, NULL);
  if (cg_const_value(rest, &left) && left == 0) return;
  cg_store_masked(c, zero, cg_at(c, c->f32, at, whole), cg_mask(c, rest));
}

// Columns [lo, hi) of the strip's row at `to`, of which `all` are read, are those of the source's row at `from`, whose column
// `column` is the first.
static void fill_row(Cg *c, const StripShape *s, const StripFill *f, LLVMValueRef from, LLVMValueRef column,
                     LLVMValueRef to, LLVMValueRef all) {
  LLVMValueRef n = cg_i64(c, s->channels);
  int64_t columns = cg_larger(1, s->step[2]), step = s->pixel * columns;
  Inside in = cg_inside(c, column, columns, 1, cg_dim(c, s->size[2]), all);
  cg_conv_clear(c, to, cg_mul(c, in.lo, n));
  cg_conv_clear(c, cg_at(c, c->f32, to, cg_mul(c, in.hi, n)), cg_mul(c, cg_sub(c, all, in.hi), n));
  LLVMValueRef first =
      f->prologue ? cg_add(c, from, column) : cg_at(c, c->f32, from, cg_mul(c, column, cg_i64(c, s->pixel)));
  if (!f->prologue && step == s->channels) {
    LLVMValueRef at = cg_mul(c, in.lo, n), run = cg_mul(c, cg_sub(c, in.hi, in.lo), n);
    cg_copy_run(c, DT_F32, cg_at(c, c->f32, to, at), cg_at(c, c->f32, first, at), run);
    return;
  }
  Loop l;
  cg_loop_begin(c, &l, in.lo, in.hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef pixel = cg_at(c, c->f32, to, cg_mul(c, l.i, n)),
               end = cg_add(c, f->channel, f->channels ? f->channels : n);
  if (f->prologue)
    cg_prologue_row(f->prologue, cg_add(c, first, cg_mul(c, l.i, cg_i64(c, columns))), f->channel, end, pixel);
  else cg_copy_run(c, DT_F32, pixel, cg_at(c, c->f32, first, cg_mul(c, l.i, cg_i64(c, step))), n);
  cg_loop_end(c, &l, NULL);
}

static LLVMValueRef is_inside(Cg *c, LLVMValueRef at, Dim size) {
  return LLVMBuildICmp(c->b, LLVMIntULT, at, cg_dim(c, size), "");
}

void cg_conv_fill_strip(Cg *c, const StripShape *s, const StripFill *f) {
  Loop plane, row;
  LLVMValueRef width = cg_i64(c, s->columns * s->channels);
  LLVMValueRef rows = f->used[1] ? f->used[1] : cg_i64(c, s->rows);
  LLVMValueRef columns = f->used[2] ? f->used[2] : cg_i64(c, s->columns);
  cg_loop_begin(c, &plane, cg_i64(c, 0), cg_i64(c, s->planes), cg_i64(c, 1), NULL, 0);
  cg_loop_begin(c, &row, cg_i64(c, 0), rows, cg_i64(c, 1), NULL, 0);
  LLVMValueRef to = cg_add(c, cg_mul(c, plane.i, cg_i64(c, s->rows)), row.i);
  to = cg_at(c, c->f32, f->strip, cg_mul(c, to, width));
  LLVMValueRef z = cg_add(c, f->at[0], cg_mul(c, plane.i, cg_i64(c, cg_larger(1, s->step[0]))));
  LLVMValueRef y = cg_add(c, f->at[1], cg_mul(c, row.i, cg_i64(c, cg_larger(1, s->step[1]))));
  If inside;
  cg_if(c, &inside, LLVMBuildAnd(c->b, is_inside(c, z, s->size[0]), is_inside(c, y, s->size[1]), ""));
  LLVMValueRef from = cg_add(c, cg_mul(c, z, cg_dim(c, s->size[1])), y);
  LLVMValueRef line = cg_mul(c, cg_dim(c, s->size[2]), cg_i64(c, f->prologue ? 1 : s->pixel));
  from = f->prologue ? cg_add(c, f->pixel, cg_mul(c, from, line)) : cg_at(c, c->f32, f->image, cg_mul(c, from, line));
  fill_row(c, s, f, from, f->at[2], to, columns);
  cg_else(c, &inside);
  cg_conv_clear(c, to, cg_mul(c, columns, cg_i64(c, s->channels)));
  cg_endif(c, &inside);
  cg_loop_end(c, &row, NULL);
  cg_loop_end(c, &plane, NULL);
}
