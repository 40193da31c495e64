// Public calls of many arguments that fit each other, as random programs draw them.
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_calls.h"

static const tn_site here = {"random.c", 1};
static int64_t below(Draw *d, int64_t n) { return n > 0 ? (int64_t)gen_below(d->g, (uint32_t)n) : 0; }
static int some_axis(Draw *d, tn_tensor x) { return (int)below(d, tn_rank(x)); }

// ---- views and moves
// Two neighbouring axes as one, one as two, or all in one row
tn_tensor draw_reshaped(Draw *d, tn_tensor x) {
  int rank = (int)tn_rank(x), axis = some_axis(d, x);
  int64_t size = call_constant(x, axis), part = 1 + below(d, size);
  bool splits = rank < 5 && size > 1 && size % part == 0;
  switch (below(d, 4)) {
  case 0: return (tn_reshape)(x, TN_SHAPE(-1), here);
  case 1: return splits ? (tn_unflatten)(x, axis, TN_SHAPE(part, size / part), here) : x;
  case 2: return rank < 5 ? (tn_unsqueeze)(x, axis, here) : x;
  default: return rank > 1 && axis + 1 < rank ? (tn_flatten)(x, axis, axis + 1, here) : x;
  }
}

static tn_tensor sliced(Draw *d, tn_tensor x) {
  int axis = some_axis(d, x);
  int64_t n = call_constant(x, axis), start = below(d, n), count = 1 + below(d, n - start), step = 1 + below(d, 3);
  if (!n) return below(d, 2) ? (tn_slice_step)(x, axis, TN_END, TN_END, -1, here) : x;
  if (below(d, 2)) return (tn_slice)(x, axis, start, count, here);
  return (tn_slice_step)(x, axis, start, start + count, below(d, 4) ? step : 1, here);
}

static tn_tensor pad_of(Draw *d, tn_tensor x, tn_pad_mode mode) {
  int64_t pads[4] = {0}, rank = tn_rank(x), n = rank > 1 && below(d, 2) ? 2 : 1;
  for (int64_t k = 0; k < 2 * n; k++) {
    int64_t size = call_constant(x, -1 - (int)(k / 2)), most = mode == TN_PAD_REFLECT ? size - 1 : size;
    pads[k] = mode == TN_PAD_CONSTANT ? below(d, 4) - (size > 4) : most > 0 ? below(d, most < 3 ? most + 1 : 4) : 0;
  }
  return (tn_pad)(x, pads, (uint32_t)(2 * n), mode, mode == TN_PAD_CONSTANT ? (double)below(d, 3) : 0, here);
}

tn_tensor draw_padded(Draw *d) { return pad_of(d, d->x, (tn_pad_mode)below(d, 4)); }

static tn_tensor moved_once(Draw *d, tn_tensor x) {
  int axis = some_axis(d, x), other = some_axis(d, x);
  switch (below(d, 10)) {
  case 0:
  case 1:
  case 2: return draw_reshaped(d, x);
  case 3: return (tn_transpose)(x, axis, other, here);
  case 4:
  case 5: return sliced(d, x);
  case 6:
  case 7: return pad_of(d, x, TN_PAD_CONSTANT);
  case 8: return (tn_flip)(x, (int[]){axis}, 1, here);
  default: return (tn_roll)(x, (int64_t[]){1 + below(d, 3)}, (int[]){axis}, 1, here);
  }
}

tn_tensor draw_moved(Draw *d, tn_tensor x, uint32_t n) {
  for (uint32_t k = 0; k < n && fe_ok(x); k++) {
    if (!tn_rank(x)) x = (tn_reshape)(x, TN_SHAPE(1), here);
    tn_tensor y = moved_once(d, x);
    if (fe_ok(y) && call_numel(y) <= MAX_ELEMENTS) x = y;
  }
  return x;
}

tn_tensor draw_parts(Draw *d, int kind) {
  enum { MOST = 64 };
  tn_tensor part[MOST];
  int axis = some_axis(d, d->x);
  int64_t size = call_constant(d->x, axis), half = size / 2;
  if (kind < 3 && (half < 1 || size % 2)) return TN_NONE;
  uint32_t n = 2;
  switch (kind) {
  case 0: n = (tn_split)(d->x, half, axis, part, MOST, here); break;
  case 1: n = (tn_split_sizes)(d->x, (int64_t[]){half, -1}, 2, axis, part, here); break;
  case 2: n = (tn_chunk)(d->x, 2, axis, part, MOST, here); break;
  default: n = size > 0 && size <= MOST ? (tn_unbind)(d->x, axis, part, MOST, here) : 0;
  }
  return n ? (tn_add)(part[0], (tn_mul_scalar)(part[n - 1], 0.5, here), here) : TN_NONE;
}

// ---- images
static tn_conv_options window_options(Draw *d, uint32_t spatial, int64_t channels, bool transposed) {
  tn_conv_options o = {.padding = below(d, 3), .dilation = below(d, 4) ? 1 : 2, .groups = 1, .at = here};
  int64_t far = transposed && !below(d, 4) ? 6 : 3;
  for (uint32_t k = 0; k < spatial; k++) o.strides[k] = below(d, 2) ? 1 : 1 + below(d, far);
  if (below(d, 3) == 0) o.groups = channels % 2 ? channels : 2;
  if (transposed && below(d, 3) == 0) o.output_padding = 1;
  return o;
}

tn_tensor draw_convolved(Draw *d, bool transposed) {
  typedef tn_tensor Call(tn_tensor, tn_tensor, tn_tensor, tn_conv_options);
  static Call *const call[2][3] = {{tn_conv1d, tn_conv2d, tn_conv3d},
                                   {tn_conv_transpose1d, tn_conv_transpose2d, tn_conv_transpose3d}};
  uint32_t spatial = tn_rank(d->x) - 2;
  int64_t channels = call_size(d->x, 1), kernel = 1 + below(d, 3);
  tn_conv_options o = window_options(d, spatial, channels, transposed);
  int64_t out = o.groups * (1 + below(d, 5)), sizes[5] = {out, channels / o.groups, kernel, kernel, kernel};
  if (o.groups > 1 && below(d, 2)) sizes[0] = out = channels;
  if (transposed) sizes[0] = channels, sizes[1] = out / o.groups;
  if (spatial > 1 && below(d, 3) == 0) sizes[2] = 1 + below(d, 3);
  tn_tensor weight = draw_leaf(d, sizes, 2 + spatial), bias = TN_NONE;
  if (below(d, 2)) bias = draw_leaf(d, &out, 1);
  return fe_ok(weight) ? call[transposed][spatial - 1](d->x, weight, bias, o) : TN_NONE;
}

tn_tensor draw_unpooled(Draw *d) {
  typedef tn_ordered Pool(tn_tensor, int64_t, tn_pool_options);
  typedef tn_tensor Unpool(tn_tensor, tn_tensor, int64_t, tn_unpool_options);
  static Pool *const pool[] = {tn_max_pool1d_with_indices, tn_max_pool2d_with_indices, tn_max_pool3d_with_indices};
  static Unpool *const unpool[] = {tn_max_unpool1d, tn_max_unpool2d, tn_max_unpool3d};
  uint32_t spatial = tn_rank(d->x) - 2;
  tn_unpool_options o = {.at = here};
  for (uint32_t k = 0; k < spatial; k++) {
    o.sizes[k] = call_constant(d->x, (int)k + 2);
    if (o.sizes[k] < 2) return TN_NONE;
  }
  tn_ordered best = pool[spatial - 1](d->x, 2, (tn_pool_options){.at = here});
  return unpool[spatial - 1](best.values, best.indices, 2, o);
}

tn_tensor draw_resized(Draw *d) {
  uint32_t spatial = tn_rank(d->x) - 2;
  tn_interpolation mode = (tn_interpolation)below(d, spatial == 2 ? 5 : 2);
  int64_t sizes[3] = {1 + below(d, 12), 1 + below(d, 12), 1 + below(d, 4)};
  tn_interpolate_options o = {.at = here};
  if (mode == TN_LINEAR || mode == TN_CUBIC) o.align_corners = below(d, 2);
  bool by_factor = mode != TN_AREA && below(d, 3) == 0, is_fixed = call_constant(d->x, -1) && call_constant(d->x, -2);
  if (by_factor) o.scale_factor = 0.5 + 0.25 * (double)below(d, 8);
  else if (spatial == 2 && is_fixed && !o.align_corners && (mode == TN_LINEAR || mode == TN_CUBIC))
    o.antialias = below(d, 2);
  return (tn_interpolate)(d->x, by_factor ? NULL : sizes, mode, o);
}

tn_tensor draw_sampled(Draw *d) {
  uint32_t spatial = tn_rank(d->x) - 2;
  Dims dims = gen_dims(d->g, fe_val(d->x)), at = {.n = spatial + 2, .d = {dims.d[0]}};
  for (uint32_t k = 1; k <= spatial; k++) at.d[k] = ir_dim(d->g->p, 1 + below(d, 5));
  at.d[spatial + 1] = ir_dim(d->g->p, spatial);
  Shape s = gen_shape(d->g, &at);
  bool has_places = true;  // an image without elements is refused by the run
  for (uint32_t k = 2; k < dims.n; k++) has_places &= call_constant(d->x, (int)k) > 0;
  if (!has_places || !gen_is_small(d->g, s)) return TN_NONE;
  tn_tensor grid = {d->f, gen_leaf(d->g, s).i};
  tn_grid_sample_options o = {.padding = (tn_grid_padding)below(d, 3), .align_corners = below(d, 2), .at = here};
  o.nearest = below(d, 5) == 0;
  return fe_ok(grid) ? (tn_grid_sample)(d->x, grid, o) : TN_NONE;
}

tn_tensor draw_windows(Draw *d, bool back) {
  int64_t kernel = 1 + below(d, 3);
  tn_unfold_options o = {.stride = 1 + below(d, 3), .padding = below(d, 2), .dilation = 1 + below(d, 2), .at = here};
  tn_tensor y = (tn_unfold2d)(d->x, kernel, o);
  tn_shape sizes = TN_SHAPE((tn_dim_of)(d->x, 2), (tn_dim_of)(d->x, 3));
  return back && fe_ok(y) ? (tn_fold2d)((tn_sin)(y, here), sizes, kernel, o) : y;
}

// ---- products
// Equations of one, two and three operands; a letter of `sizes` each.
tn_tensor draw_einsum(Draw *d) {
  static const struct {
    const char *equation, *operand[3];
  } rows[] = {{"ij,jk->ik", {"ij", "jk"}},
              {"ij,kj->ki", {"ij", "kj"}},
              {"bij,bjk->bik", {"bij", "bjk"}},
              {"bij,bnj->bni", {"bij", "bnj"}},
              {"bij,jk->bki", {"bij", "jk"}},
              {"bhid,bhjd->bhij", {"bhid", "bhjd"}},
              {"bihd,bjhd->bhij", {"bihd", "bjhd"}},
              {"ij,ij->i", {"ij", "ij"}},
              {"ij,ij->", {"ij", "ij"}},
              {"i,j->ji", {"i", "j"}},
              {"bij->jb", {"bij"}},
              {"ii->i", {"ii"}},
              {"bii->b", {"bii"}},
              {"ij,jk,kl->li", {"ij", "jk", "kl"}},
              {"bi,ij,bj->b", {"bi", "ij", "bj"}},
              {"bij,bi->bj", {"bij", "bi"}},
              {"...ij,jk->...ki", {"bij", "jk"}},
              {"bcij,cj->bi", {"bcij", "cj"}},
              {"ijk,jil->lk", {"ijk", "jil"}},
              {"bij,bkj,bk->ib", {"bij", "bkj", "bk"}}};
  size_t at = gen_below(d->g, sizeof rows / sizeof *rows);
  Dim size[26];
  for (int k = 0; k < 26; k++) size[k] = ir_dim(d->g->p, 1 + below(d, 7));
  if (below(d, 2)) size['b' - 'a'] = d->g->batch;
  tn_tensor a[3];
  uint32_t n = 0;
  for (; n < 3 && rows[at].operand[n]; n++) {
    Dims dims = {.n = 0};
    for (const char *c = rows[at].operand[n]; *c; c++) dims.d[dims.n++] = size[*c - 'a'];
    Shape s = gen_shape(d->g, &dims);
    if (!gen_is_small(d->g, s)) return TN_NONE;
    a[n] = (tn_tensor){d->f, gen_leaf(d->g, s).i};
    if (!fe_ok(a[n])) return TN_NONE;
    if (below(d, 2)) a[n] = (tn_sin)(a[n], here);
  }
  return (tn_einsum)(rows[at].equation, a, n, here);
}

tn_tensor draw_contracted(Draw *d) {
  int64_t k = call_constant(d->x, -1), n = 1 + below(d, 6);
  int last = (int)tn_rank(d->x) - 1;
  bool second = below(d, 2);
  tn_tensor b = second ? draw_leaf(d, (int64_t[]){n, k}, 2) : draw_leaf(d, (int64_t[]){k, n}, 2);
  return fe_ok(b) ? (tn_tensordot)(d->x, b, (int[]){last}, (int[]){second}, 1, here) : TN_NONE;
}

// x [.., n] by the mean of each row, which goes through other shapes on its way
tn_tensor draw_rows_scaled(Draw *d) {
  tn_tensor x = d->x, mean = (tn_mean_axis)(x, -1, true, here);
  tn_shape kept = {.rank = tn_rank(x)};
  for (uint32_t k = 0; k < kept.rank; k++) kept.dims[k] = tn_dim_of(x, (int)k);
  kept.dims[kept.rank - 1] = tn_dim_const(1);
  tn_tensor flat = (tn_reshape)(mean, TN_SHAPE(-1, 1), here),
            all = (tn_reshape)(x, TN_SHAPE(-1, tn_dim_of(x, -1)), here);
  switch (below(d, 4)) {
  case 0: return (tn_sub)(all, flat, here);
  case 1:
    return (tn_sub)(all, (tn_reshape)((tn_exp)((tn_reshape)(mean, TN_SHAPE(-1), here), here), TN_SHAPE(-1, 1), here),
                    here);
  case 2: return (tn_mul)(x, (tn_reshape)((tn_sigmoid)(flat, here), kept, here), here);
  default: return (tn_reshape)((tn_mul)(all, (tn_tanh)(flat, here), here), kept.rank > 1 ? TN_SHAPE(-1) : kept, here);
  }
}

// ---- elements by index
// 0 to 4: scatter, its value, its sum, index_add, index_copy; 5: reductions, which are other ops
tn_tensor draw_scattered(Draw *d, int kind) {
  int axis = some_axis(d, d->x);
  int64_t limit = call_constant(d->x, axis), n = 1 + below(d, 6);
  bool by_slice = kind == 3 || kind == 4;
  tn_tensor source = draw_like_but(d, d->x, axis, n), index = TN_NONE;
  if (!fe_ok(source)) return TN_NONE;
  index = by_slice ? draw_index(d, &n, 1, limit) : draw_index_of(d, source, 0, limit);
  if (!fe_ok(index)) return TN_NONE;
  tn_scatter_options o = {.exclude_self = below(d, 2), .at = here};
  tn_scatter_kind how = (tn_scatter_kind)below(d, 5);
  switch (kind) {
  case 0: return (tn_scatter)(d->x, axis, index, source, here);
  case 1: return (tn_scatter_value)(d->x, axis, index, 0.5, here);
  case 2: return (tn_scatter_add)(d->x, axis, index, source, here);
  case 3: return (tn_index_add)(d->x, axis, index, source, 0.5, here);
  case 4: return (tn_index_copy)(d->x, axis, index, source, here);
  default: return (tn_scatter_reduce)(d->x, axis, index, (tn_tanh)(source, here), how, o);
  }
}

tn_tensor draw_indexed(Draw *d, bool put) {
  int64_t n[2] = {1 + below(d, 3), 1 + below(d, 4)};
  uint32_t rank = tn_rank(d->x), n_index = rank > 1 && below(d, 2) ? 2 : 1, last = rank - 1;
  tn_tensor index[MAX_RANK] = {{0}};
  index[0] = draw_index(d, n, 2, call_constant(d->x, 0));
  if (n_index == 2) index[last] = draw_index(d, &n[1], 1, call_constant(d->x, (int)last));
  if (!fe_ok(index[0]) || (n_index == 2 && !fe_ok(index[last]))) return TN_NONE;
  uint32_t count = n_index == 2 ? rank : 1;
  if (!put) return (tn_index)(d->x, index, count, (tn_index_options){.at = here});
  tn_index_options o = {.accumulate = below(d, 2), .at = here};
  return (tn_index_put)(d->x, index, count, (tn_scalar)(d->f, 0.25, here), o);
}

tn_tensor draw_bag(Draw *d) {
  tn_bag_options o = {.mode = (tn_bag_mode)below(d, 3), .has_padding = below(d, 3) == 0, .at = here};
  int64_t n[2] = {1 + below(d, 4), 1 + below(d, 5)};
  tn_tensor index = draw_index(d, n, 2, call_constant(d->x, 0));
  if (o.mode == TN_BAG_SUM && below(d, 2)) o.per_sample_weights = draw_leaf(d, n, 2);
  return fe_ok(index) ? (tn_embedding_bag)(d->x, index, o) : TN_NONE;
}

// ---- losses
tn_tensor draw_ctc(Draw *d) {
  if (d->g->in_scan || d->g->n_open) return TN_NONE;  // it is a scan by itself, in a scope of the function
  int64_t steps = 3 + below(d, 6), batch = 1 + below(d, 4), classes = 2 + below(d, 5), most = 1 + below(d, 3);
  int64_t long_enough[8], each[8];
  for (int64_t k = 0; k < batch; k++) long_enough[k] = steps - below(d, 2), each[k] = below(d, most + 1);
  tn_tensor x = draw_leaf(d, (int64_t[]){steps, batch, classes}, 3);
  tn_tensor targets = draw_index(d, (int64_t[]){batch, most}, 2, classes - 1);
  if (!fe_ok(x) || !fe_ok(targets)) return TN_NONE;
  tn_tensor one = (tn_constant_i64)(d->f, &(int64_t){1}, TN_SCALAR, here);
  tn_ctc_options o = {.reduction = (tn_reduction)below(d, 3), .zero_infinity = true, .at = here};
  return (tn_ctc)((tn_log_softmax)(x, -1, here), (tn_add)(targets, one, here),
                  (tn_constant_i64)(d->f, long_enough, TN_SHAPE(batch), here),
                  (tn_constant_i64)(d->f, each, TN_SHAPE(batch), here), o);
}

tn_tensor draw_classified(Draw *d, int kind) {
  int64_t classes = call_constant(d->x, -1);
  tn_reduction how = (tn_reduction)below(d, 3);
  bool weighs = below(d, 3) == 0;
  tn_tensor weight = weighs ? draw_leaf(d, &classes, 1) : TN_NONE;
  if (weighs) weight = call_above(weight, 0.1);
  tn_tensor labels = draw_index_of(d, d->x, kind == 3 ? 0 : 1, classes);
  if (!fe_ok(labels)) return TN_NONE;
  tn_loss_options o = {.reduction = how, .weight = weight, .has_ignore = below(d, 3) == 0, .at = here};
  if (kind == 0) o.label_smoothing = below(d, 2) ? 0.1 : 0;
  switch (kind) {
  case 0: return (tn_cross_entropy)(d->x, labels, o);
  case 1: return (tn_nll)((tn_log_softmax)(d->x, -1, here), labels, o);
  case 2:
    return (tn_multi_margin)(d->x, labels, (tn_multi_margin_options){.reduction = how, .weight = weight, .at = here});
  default: return (tn_multilabel_margin)(d->x, labels, (tn_reduce_options){.reduction = how, .at = here});
  }
}

// ---- lists of sequences
// 0 pack_constant, 1 take_last, 2 pack_sequence, 3 pad_sequence, 4 pad_sequence_left, 5 unpad, 6 unpack_sequence, 7 unpad_sequence
tn_tensor draw_list(Draw *d, int kind) {
  if (d->g->in_scan) return TN_NONE;  // a body makes no layouts
  const int64_t lengths[2] = {1 + below(d, 4), 1 + below(d, 4)};
  tn_tensor x = draw_leaf(d, (int64_t[]){2, 4, 1 + below(d, 5)}, 3), one[2];
  if (!fe_ok(x)) return TN_NONE;
  for (int k = 0; k < 2; k++) one[k] = (tn_slice)((tn_select_index)(x, 0, k, here), 0, 0, lengths[k], here);
  tn_tensor n = (tn_constant_i64)(d->f, lengths, TN_SHAPE(2), here);
  tn_pack_options o = {.at = here};
  switch (kind) {
  case 0: return (tn_packed_cumsum)((tn_pack_constant)(x, lengths, 2, o), here).data;
  case 1: return (tn_take_last)(x, n, here);
  case 2: return (tn_packed_sum)((tn_pack_sequence)(one, 2, o), here);
  case 3: return (tn_pad_sequence)(one, 2, 0.5, d->p, here);
  case 4: return (tn_pad_sequence_left)(one, 2, 0.5, d->p, here);
  case 5: (tn_unpad)(x, lengths, 2, true, one, here); break;
  case 6: (tn_unpack_sequence)((tn_packed_reverse)((tn_pack_constant)(x, lengths, 2, o), here), one, 2, here); break;
  default: (tn_unpad_sequence)(x, n, true, one, 2, here);
  }
  return (tn_sum_axis)(one[d->q], 0, false, here);
}
