// Images resized (ir/resize.h), and their pixels and channels rearranged by reshapes and permutations.
#include "frontend/graph/image.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/spatial.h"
#include "ir/build.h"

#include <math.h>

// ---- what is asked for
static bool refuse(tn_tensor x, int id, tn_site at, const char *text) { return fe_refuse(x, id, at, text), false; }

static bool check_image(tn_tensor x, tn_site at) {
  uint32_t rank = fe_rank(x);
  bool good = rank >= 3 && rank <= 2 + SPATIAL_AXES && (F32 | U8) >> fe_ins(x)->dtype & 1;
  for (uint32_t k = 2; good && k < rank; k++) good = ir_dim_bound(x.fn->p->ir, fe_axis_dim(x, k)) > 0;
  return good || refuse(x, E_SHAPE, at, "tn_interpolate takes f32 or u8 [N, C, spatial..] with 1 to 3 spatial axes");
}

// n scale, rounded down; *rest: a number was rounded, or may be in a run. False: a size of the run is no multiple of 1/1024.
static bool scaled_size(Prog *p, Dim n, double scale, Dim *size, bool *rest) {
  enum { PARTS = 1 << 10 };
  if (ir_dim_is_const(p, n)) {
    double exact = (double)ir_dim_bound(p, n) * scale;
    *rest = exact != floor(exact);
    *size = ir_dim(p, (int64_t)exact);
    return true;
  }
  *rest = scale != floor(scale);
  *size = *rest ? ir_dim_div(p, ir_dim_mul(p, n, ir_dim(p, (int64_t)(scale * PARTS))), ir_dim(p, PARTS))
                : ir_dim_mul(p, n, ir_dim(p, (int64_t)scale));
  return scale * PARTS == floor(scale * PARTS);
}

static bool sizes_by_scale(tn_tensor x, const tn_interpolate_options *o, FeResize *r) {
  bool by_sizes = o->recompute_scale_factor || r->align || r->mode == TN_AREA;
  for (uint32_t k = 0; k + 2 < fe_rank(x); k++) {
    double scale = o->scale_factors[k] != 0 ? o->scale_factors[k] : o->scale_factor;
    bool rest = false;
    if (!(scale > 0 && scale <= 1 << 10))
      return refuse(x, E_ARGUMENT, r->at, "tn_interpolate takes sizes, or a scale_factor in (0, 1024]");
    if (!scaled_size(x.fn->p->ir, fe_axis_dim(x, k + 2), scale, &r->sizes[k], &rest))
      return refuse(x, E_ARGUMENT, r->at, "sizes of the run are scaled by multiples of 1/1024");
    r->scales[k] = rest && !by_sizes ? scale : 0;
  }
  return true;
}

static bool read_sizes(tn_tensor x, const int64_t *sizes, const tn_interpolate_options *o, FeResize *r) {
  bool has_scale = o->scale_factor != 0;
  for (uint32_t k = 0; k < SPATIAL_AXES; k++) has_scale |= o->scale_factors[k] != 0;
  if (sizes && has_scale) return refuse(x, E_ARGUMENT, r->at, "tn_interpolate takes sizes or a scale_factor, not both");
  for (uint32_t k = 0; sizes && k + 2 < fe_rank(x); k++) r->sizes[k] = ir_dim(x.fn->p->ir, sizes[k]);
  return sizes || sizes_by_scale(x, o, r);
}

static bool is_filter(const FeResize *r) { return r->mode == TN_LINEAR || r->mode == TN_CUBIC; }

static bool is_sized_by_run(tn_tensor x, const FeResize *r) {
  const Prog *p = x.fn->p->ir;
  bool by_run = false;
  for (uint32_t k = 0; k + 2 < fe_rank(x); k++)
    by_run |= !ir_dim_is_const(p, fe_axis_dim(x, k + 2)) || !ir_dim_is_const(p, r->sizes[k]);
  return by_run;
}

static bool check_resize(tn_tensor x, const FeResize *r) {
  const int64_t most = 1 << 20;
  Prog *p = x.fn->p->ir;
  bool good = (uint32_t)r->mode <= TN_NEAREST_EXACT;
  for (uint32_t k = 0; good && k + 2 < fe_rank(x); k++)
    good = ir_dim_most(p, r->sizes[k]) > 0 && ir_dim_most(p, r->sizes[k]) <= most;
  if (!good)
    return refuse(x, E_ARGUMENT, r->at, "tn_interpolate takes a mode and a size in [1, 2^20] for each spatial axis");
  if (r->align && !is_filter(r))
    return refuse(x, E_ARGUMENT, r->at, "align_corners is an option of TN_LINEAR and TN_CUBIC");
  if (r->of_bytes && r->mode == TN_AREA)
    return refuse(x, E_DTYPE, r->at, "averages of areas are of f32: tn_cast the image to TN_F32");
  if (!r->antialias && !(r->of_bytes && is_filter(r))) return true;
  bool is_plane = fe_rank(x) == 4 && !is_sized_by_run(x, r) && is_filter(r);
  return is_plane ||
         refuse(x, r->antialias ? E_ARGUMENT : E_DTYPE, r->at,
                r->antialias ? "antialias is an option of TN_LINEAR and TN_CUBIC to [N, C, H, W] of constant sizes"
                             : "u8 is resized along lines and curves in [N, C, H, W] of constant sizes: tn_cast "
                               "the image to TN_F32");
}

// ---- the op
static const char *filter_of(const FeResize *r) {
  bool is_cubic = r->mode == TN_CUBIC;
  if (!is_filter(r)) return r->mode == TN_NEAREST ? "nearest" : "nearest_exact";
  if (r->of_bytes && r->antialias) return is_cubic ? "byte_wide_cubic" : "byte_wide_linear";
  if (r->of_bytes) return is_cubic ? "byte_cubic" : "byte_linear";
  if (r->antialias) return is_cubic ? "wide_cubic" : "wide_linear";
  return is_cubic ? "cubic" : "linear";
}

static tn_tensor resized(tn_tensor x, const FeResize *r) {
  Prog *p = x.fn->p->ir;
  Attr attr[3 + SPATIAL_AXES] = {ir_a_list(KEY_shape, ir_shape(p, r->sizes, fe_rank(x) - 2)),
                                 ir_a_str(KEY_filter, ir_str(p, filter_of(r)))};
  uint32_t n = 2;
  if (r->align) attr[n++] = ir_a_int(KEY_align, 1);
  for (uint32_t k = 0; k < SPATIAL_AXES; k++)
    if (r->scales[k] != 0) attr[n++] = ir_a_num((Key)(KEY_scale0 + k), r->scales[k]);
  tn_tensor last = fe_channels_last(x, r->at);
  return fe_ok(last) ? fe_channels_first(fe_emit(OP_resize, &last, 1, attr, n, r->at), r->at) : last;
}

static tn_tensor rounded_bytes(tn_tensor y, tn_site at) {
  y = fe_with_number(OP_add, y, 0.5, at);
  if (fe_ok(y)) y = fe_emit1(OP_floor, y, at);
  return fe_with_number(OP_min, fe_with_number(OP_max, y, 0, at), 255, at);
}

// Bytes are rounded behind each axis, the last one first.
static tn_tensor resized_bytes(tn_tensor x, const FeResize *r) {
  for (uint32_t k = fe_rank(x) - 2; k-- > 0 && fe_ok(x);) {
    FeResize one = *r;
    for (uint32_t j = 0; j + 2 < fe_rank(x); j++)
      if (j != k) one.sizes[j] = fe_axis_dim(x, j + 2), one.scales[j] = 0;
    if (fe_axis_dim(x, k + 2).i != r->sizes[k].i) x = rounded_bytes(resized(x, &one), r->at);
  }
  return x;
}

static tn_tensor averaged(tn_tensor x, const FeResize *r) {
  int64_t out[SPATIAL_AXES] = {0};
  for (uint32_t k = 0; k + 2 < fe_rank(x); k++) {
    out[k] = ir_dim_bound(x.fn->p->ir, r->sizes[k]);
    if (!ir_dim_is_const(x.fn->p->ir, r->sizes[k]))
      return fe_refuse(x, E_SHAPE, r->at, "averages of areas are taken to constant sizes");
  }
  return fe_adaptive_pool(fe_rank(x) - 2, false, x, out, r->at);
}

static tn_tensor by_mode(tn_tensor x, const FeResize *r) {
  if (r->mode == TN_AREA) return averaged(x, r);
  if (r->of_bytes && is_filter(r)) return resized_bytes(x, r);
  return is_sized_by_run(x, r) ? fe_resize_by_index(x, r) : resized(x, r);
}

tn_tensor fe_interpolate(tn_tensor x, const int64_t *sizes, tn_interpolation mode, tn_interpolate_options o) {
  FeResize r = {.mode = mode, .align = o.align_corners, .antialias = o.antialias, .at = o.at};
  if (!check_image(x, o.at)) return fe_poison(x.fn);
  r.of_bytes = fe_ins(x)->dtype == DT_U8;
  if (!read_sizes(x, sizes, &o, &r) || !check_resize(x, &r)) return fe_poison(x.fn);
  bool differs = false;
  for (uint32_t k = 0; k + 2 < fe_rank(x); k++) differs |= fe_axis_dim(x, k + 2).i != r.sizes[k].i || r.scales[k] != 0;
  if (!differs) return fe_same(x, o.at);
  tn_tensor y = by_mode(r.of_bytes ? fe_cast(x, DT_F32, o.at) : x, &r);
  return r.of_bytes && fe_ok(y) ? fe_cast(y, DT_U8, o.at) : y;
}

tn_tensor tn_interpolate(tn_tensor x, const int64_t *sizes, tn_interpolation mode, tn_interpolate_options o) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_interpolate(x, sizes, mode, o), o.at);
}

// ---- channels and places
// x [.., C, H, W], whose C is a constant that `channels` divides, H and W such that `places` divides; any sizes where that is 1.
static bool check_shuffle(tn_tensor x, int64_t r, int64_t channels, int64_t places, tn_site at) {
  Prog *p = x.fn->p->ir;
  uint32_t rank = fe_rank(x);
  bool good = rank >= 3 && rank + 2 <= MAX_RANK && r >= 1 && r <= 1 << 10 && channels > 0;
  for (uint32_t k = 0; good && k < 3; k++) {
    Dim d = fe_axis_dim(x, rank - 3 + k);
    int64_t by = k == 0 ? channels : places;
    good = (k > 0 && by == 1) || (ir_dim_is_const(p, d) && ir_dim_bound(p, d) % by == 0);
  }
  if (!good)
    fe_refuse(
        x, E_SHAPE, at,
        "pixels are shuffled in [.., C, H, W], of a constant C that the square of the factor divides, or of constant H "
        "and W that the factor divides");
  return good;
}

// [.., a, b, c, d, e] with the last five axes in another order, as [.., f, g, h]
static tn_tensor shuffled(tn_tensor x, const Dim *five, const uint32_t *order, const Dim *three, tn_site at) {
  uint32_t lead = fe_rank(x) - 3, to[MAX_RANK];
  Dim d[MAX_RANK], out[MAX_RANK];
  for (uint32_t k = 0; k < lead; k++) d[k] = out[k] = fe_axis_dim(x, k), to[k] = k;
  for (uint32_t k = 0; k < 5; k++) d[lead + k] = five[k], to[lead + k] = lead + order[k];
  for (uint32_t k = 0; k < 3; k++) out[lead + k] = three[k];
  tn_tensor y = fe_reshape(x, d, lead + 5, at);
  if (fe_ok(y)) y = fe_permute(y, to, at);
  return fe_ok(y) ? fe_reshape(y, out, lead + 3, at) : y;
}

tn_tensor fe_pixel_shuffle(tn_tensor x, int64_t r, tn_site at) {
  if (!check_shuffle(x, r, r * r, 1, at)) return fe_poison(x.fn);
  Prog *p = x.fn->p->ir;
  uint32_t first = fe_rank(x) - 3;
  Dim by = ir_dim(p, r), h = fe_axis_dim(x, first + 1), w = fe_axis_dim(x, first + 2);
  Dim c = ir_dim(p, ir_dim_bound(p, fe_axis_dim(x, first)) / (r * r));
  return shuffled(x, (Dim[]){c, by, by, h, w}, (const uint32_t[]){0, 3, 1, 4, 2},
                  (Dim[]){c, ir_dim_mul(p, h, by), ir_dim_mul(p, w, by)}, at);
}

tn_tensor fe_pixel_unshuffle(tn_tensor x, int64_t r, tn_site at) {
  if (!check_shuffle(x, r, 1, r, at)) return fe_poison(x.fn);
  Prog *p = x.fn->p->ir;
  uint32_t first = fe_rank(x) - 3;
  Dim c = fe_axis_dim(x, first), by = ir_dim(p, r), h = fe_axis_dim(x, first + 1), w = fe_axis_dim(x, first + 2);
  if (r > 1) h = ir_dim(p, ir_dim_bound(p, h) / r), w = ir_dim(p, ir_dim_bound(p, w) / r);
  return shuffled(x, (Dim[]){c, h, by, w, by}, (const uint32_t[]){0, 2, 4, 1, 3},
                  (Dim[]){ir_dim_mul(p, c, ir_dim(p, r * r)), h, w}, at);
}

// [N, groups, C / groups, ..] with these two axes in the other order
tn_tensor fe_channel_shuffle(tn_tensor x, int64_t groups, tn_site at) {
  Prog *p = x.fn->p->ir;
  uint32_t rank = fe_rank(x), order[MAX_RANK + 1] = {0, 2, 1};
  bool good = rank >= 3 && rank < MAX_RANK && groups >= 1 && ir_dim_is_const(p, fe_axis_dim(x, 1)) &&
              ir_dim_bound(p, fe_axis_dim(x, 1)) % groups == 0;
  if (!good) return fe_refuse(x, E_SHAPE, at, "channels are shuffled in [N, C, ..], in groups that divide them");
  Dim own[MAX_RANK], d[MAX_RANK + 1] = {fe_axis_dim(x, 0), ir_dim(p, groups)};
  d[2] = ir_dim(p, ir_dim_bound(p, fe_axis_dim(x, 1)) / groups);
  for (uint32_t k = 0; k < rank; k++) own[k] = fe_axis_dim(x, k);
  for (uint32_t k = 2; k < rank; k++) d[k + 1] = own[k], order[k + 1] = k + 1;
  tn_tensor y = fe_reshape(x, d, rank + 1, at);
  if (fe_ok(y)) y = fe_permute(y, order, at);
  return fe_ok(y) ? fe_reshape(y, own, rank, at) : y;
}

#define SHUFFLE(name)                                               \
  tn_tensor tn_##name(tn_tensor x, int64_t number, tn_site at) {    \
    tn_function *f;                                                 \
    if (!fe_join_for(__func__, &x, 1, &f, at)) return fe_poison(f); \
    FE_GUARD_AS(f->p, fe_poison(f), __func__);                      \
    return fe_made_by(__func__, fe_##name(x, number, at), at);      \
  }
SHUFFLE(pixel_shuffle)
SHUFFLE(pixel_unshuffle)
SHUFFLE(channel_shuffle)

// ---- dropout of whole channels: one draw for each image and channel
tn_tensor fe_channel_dropout(tn_tensor x, double p, tn_site at) {
  if (fe_rank(x) < 3 || fe_ins(x)->dtype != DT_F32)
    return fe_refuse(x, E_SHAPE, at, "channels are dropped of f32 [N, C, spatial..]");
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < fe_rank(x); k++) d[k] = k < 2 ? fe_axis_dim(x, k) : ir_dim(x.fn->p->ir, 1);
  Attr one[] = {ir_a_num(KEY_value, 1), ir_a_list(KEY_shape, ir_shape(x.fn->p->ir, d, fe_rank(x)))};
  tn_tensor keep = fe_dropout(fe_emit_in(x.fn, OP_full, one, 2, at), p, at);
  return fe_ok(keep) && fe_eval(x.fn, at) ? fe_same(x, at) : fe_binary(OP_mul, x, keep, at);
}

tn_tensor tn_channel_dropout(tn_tensor x, double p, tn_site at) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_channel_dropout(x, p, at), at);
}
