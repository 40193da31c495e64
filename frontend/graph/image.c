// Images resized and their pixels rearranged: composed of rows by index, reshapes and permutations.
#include "frontend/fe.h"

typedef struct {
  tn_function *f;
  uint32_t axis;
  int64_t in, out;
  bool align_corners;
  tn_site at;
} Resize;

static tn_tensor op2(const Resize *r, Op op, tn_tensor a, tn_tensor b) {
  return fe_ok(a) && fe_ok(b) ? fe_emit2(op, a, b, r->at) : fe_poison(r->f);
}
static tn_tensor number(const Resize *r, double v) { return fe_const(r->f, v, r->at); }
static tn_tensor scaled(const Resize *r, tn_tensor x, int64_t by, int64_t over) {
  return op2(r, OP_div, op2(r, OP_mul, x, number(r, (double)by)), number(r, (double)over));
}

static tn_tensor floor_of(const Resize *r, tn_tensor x) { return fe_ok(x) ? fe_emit1(OP_floor, x, r->at) : x; }

// Elements along the axis by an index of f32.
static tn_tensor taken(const Resize *r, tn_tensor x, tn_tensor index) {
  if (!fe_ok(x) || !fe_ok(index)) return fe_poison(r->f);
  tn_tensor of[2] = {x, fe_cast(index, DT_I64, r->at)};
  return fe_emit(OP_index_select, of, 2, (const Attr[]){ir_a_int(KEY_axis, r->axis)}, 1, r->at);
}

static tn_tensor nearest(const Resize *r, tn_tensor x) {
  tn_tensor at = floor_of(r, scaled(r, fe_positions(r->f, ir_dim(r->f->p->ir, r->out), r->at), r->in, r->out));
  return taken(r, x, op2(r, OP_min, at, number(r, (double)(r->in - 1))));
}

// Where each position lies between the elements of the axis, from 0 on.
static tn_tensor places(const Resize *r) {
  tn_tensor at = fe_positions(r->f, ir_dim(r->f->p->ir, r->out), r->at);
  if (r->align_corners) return r->out == 1 ? op2(r, OP_mul, at, number(r, 0)) : scaled(r, at, r->in - 1, r->out - 1);
  at = scaled(r, op2(r, OP_add, at, number(r, 0.5)), r->in, r->out);
  return op2(r, OP_max, op2(r, OP_sub, at, number(r, 0.5)), number(r, 0));
}

static tn_tensor linear(const Resize *r, tn_tensor x) {
  tn_tensor at = places(r), first = op2(r, OP_min, floor_of(r, at), number(r, (double)(r->in - 1)));
  tn_tensor next = op2(r, OP_min, op2(r, OP_add, first, number(r, 1)), number(r, (double)(r->in - 1)));
  tn_tensor share = op2(r, OP_sub, at, first);
  uint32_t behind = fe_rank(x) - r->axis;
  Dim d[MAX_RANK] = {ir_dim(r->f->p->ir, r->out)};
  for (uint32_t k = 1; k < behind; k++) d[k] = ir_dim(r->f->p->ir, 1);
  if (!fe_ok(share)) return share;
  share = fe_reshape(share, d, behind, r->at);
  tn_tensor a = taken(r, x, first), b = taken(r, x, next);
  a = op2(r, OP_mul, a, op2(r, OP_sub, number(r, 1), share));
  return op2(r, OP_add, a, op2(r, OP_mul, b, share));
}

static tn_tensor refuse(tn_tensor x, int id, tn_site at, const char *text) {
  fe_error(x.fn->p, id, at, "%s", text);
  fe_note_value(x, "the value");
  return fe_poison(x.fn);
}

static bool check_resize(tn_tensor x, const int64_t *sizes, tn_interpolation mode, tn_site at) {
  const int64_t most = 1 << 20;
  uint32_t rank = fe_rank(x);
  bool good = rank >= 3 && rank <= 5 && fe_ins(x)->dtype == DT_F32;
  for (uint32_t k = 2; good && k < rank; k++) {
    Dim d = fe_axis_dim(x, k);
    good = ir_dim_is_const(x.fn->p->ir, d) && ir_dim_bound(x.fn->p->ir, d) > 0;
  }
  if (!good)
    return refuse(x, E_SHAPE, at,
                  "tn_interpolate takes f32 [N, C, spatial..] with 1 to 3 spatial axes of constant sizes"),
           false;
  good = sizes && (mode == TN_NEAREST || mode == TN_LINEAR);
  for (uint32_t k = 2; good && k < rank; k++) good = sizes[k - 2] > 0 && sizes[k - 2] <= most;
  if (!good) refuse(x, E_ARGUMENT, at, "tn_interpolate takes a mode and a size in [1, 2^20] for each spatial axis");
  return good;
}

tn_tensor tn_interpolate(tn_tensor x, const int64_t *sizes, tn_interpolation mode, tn_interpolate_options o) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_resize(x, sizes, mode, o.at)) return fe_poison(f);
  tn_tensor y = x;
  for (uint32_t k = 2; k < fe_rank(x) && fe_ok(y); k++) {
    Resize r = {f, k, ir_dim_bound(f->p->ir, fe_axis_dim(x, k)), sizes[k - 2], o.align_corners, o.at};
    if (r.in != r.out) y = mode == TN_NEAREST ? nearest(&r, y) : linear(&r, y);
  }
  return fe_made(y.v == x.v ? fe_same(x, o.at) : y, o.at);
}

// ---- channels and places
static bool check_shuffle(tn_tensor x, int64_t r, int64_t channels, int64_t places, tn_site at) {
  Prog *p = x.fn->p->ir;
  bool good = fe_rank(x) == 4 && r >= 1 && r <= 1 << 10 && channels > 0;
  for (uint32_t k = 1; good && k < 4; k++) {
    Dim d = fe_axis_dim(x, k);
    good = ir_dim_is_const(p, d) && ir_dim_bound(p, d) % (k == 1 ? channels : places) == 0;
  }
  if (!good)
    refuse(x, E_SHAPE, at,
           "pixels are shuffled in [N, C, H, W] of constant sizes that the factor, or its square, divides");
  return good;
}

tn_tensor tn_pixel_shuffle(tn_tensor x, int64_t r, tn_site at) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_shuffle(x, r, r * r, 1, at)) return fe_poison(f);
  Prog *p = f->p->ir;
  Dim n = fe_axis_dim(x, 0), by = ir_dim(p, r), h = fe_axis_dim(x, 2), w = fe_axis_dim(x, 3);
  Dim c = ir_dim(p, ir_dim_bound(p, fe_axis_dim(x, 1)) / (r * r));
  tn_tensor y = fe_reshape(x, (Dim[]){n, c, by, by, h, w}, 6, at);
  if (fe_ok(y)) y = fe_permute(y, (const uint32_t[]){0, 1, 4, 2, 5, 3}, at);
  if (fe_ok(y)) y = fe_reshape(y, (Dim[]){n, c, ir_dim_mul(p, h, by), ir_dim_mul(p, w, by)}, 4, at);
  return fe_made(y, at);
}

tn_tensor tn_pixel_unshuffle(tn_tensor x, int64_t r, tn_site at) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_shuffle(x, r, 1, r, at)) return fe_poison(f);
  Prog *p = f->p->ir;
  Dim n = fe_axis_dim(x, 0), c = fe_axis_dim(x, 1), by = ir_dim(p, r);
  Dim h = ir_dim(p, ir_dim_bound(p, fe_axis_dim(x, 2)) / r), w = ir_dim(p, ir_dim_bound(p, fe_axis_dim(x, 3)) / r);
  tn_tensor y = fe_reshape(x, (Dim[]){n, c, h, by, w, by}, 6, at);
  if (fe_ok(y)) y = fe_permute(y, (const uint32_t[]){0, 1, 3, 5, 2, 4}, at);
  if (fe_ok(y)) y = fe_reshape(y, (Dim[]){n, ir_dim_mul(p, c, ir_dim(p, r * r)), h, w}, 4, at);
  return fe_made(y, at);
}
