// Modules of images, on the calls of graph/pool.c and graph/image.c: pools, resizing, padding, windows as
// columns, shuffling, dropout of channels.
//
//   tn_max_pool_module(net, "pool", 2, 3, .stride = 2, .padding = 1)     what PyTorch calls MaxPool2d(3, 2, 1)
#include "frontend/graph/image.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/shape.h"
#include "frontend/module/layers.h"
#include "frontend/packed/packed.h"

enum { AXES = 3 };

// What a module's call has besides the value.
struct FeImageModule {
  uint32_t n_spatial;
  bool is_max;
  int64_t number;  // of the kernel, the groups
  double power;    // of norms; the probability of dropout; the value of padding
  tn_pool_options pool;
  tn_unfold_options unfold;
  tn_shape image;           // of sums of windows
  int64_t sizes[2 * AXES];  // of the result, or what is padded
  uint32_t n_sizes;
  tn_interpolation mode;
  tn_interpolate_options interpolate;
  tn_pad_mode pad_mode;
  tn_local_response_norm_options norm;
};

static tn_module *make(tn_module *parent, const char *name, const char *kind, FeForward *forward, FeImageModule given,
                       tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_built_in(parent, name, kind, forward, at);
  FeImageModule *c = rt_alloc(parent->p->mem, sizeof *c);
  *c = given;
  m->config.image = c;
  return m;
}

static tn_module *refuse(tn_module *m, tn_site at, const char *text) {
  if (!m || m->poisoned) return m;
  fe_error(m->p, E_ARGUMENT, at, "module '%s': %s", m->path, text);
  m->poisoned = true;
  return m;
}

static bool has_axes(uint32_t n_spatial) { return n_spatial >= 1 && n_spatial <= AXES; }
static const char *const one_to_three = "there are images of 1 to 3 spatial axes";

// By the number of spatial axes.
#define KINDS(name) {"", name "1d", name "2d", name "3d"}
static const char *kind_of(const char *const *kinds, uint32_t n_spatial) {
  return has_axes(n_spatial) ? kinds[n_spatial] : kinds[2];
}

// ---- pools: of packed rows [rows, C] along each sequence
static bool is_by_rows(const FeImageModule *c, tn_tensor x) {
  return c->n_spatial == 1 && fe_rank(x) == 2 && fe_rows_of(x);
}

static tn_tensor pool(tn_module *m, tn_tensor x, tn_site at) {
  const FeImageModule *c = m->config.image;
  tn_pool_options o = c->pool;
  o.at = at;
  if (is_by_rows(c, x)) return fe_pool_rows(x, (FeRowPool){.is_max = c->is_max}, c->number, o);
  return fe_pool(c->n_spatial, c->is_max, x, c->number, o);
}

static tn_tensor norm_pool(tn_module *m, tn_tensor x, tn_site at) {
  const FeImageModule *c = m->config.image;
  tn_pool_options o = c->pool;
  o.at = at;
  if (is_by_rows(c, x)) return fe_pool_rows(x, (FeRowPool){.power = c->power}, c->number, o);
  return fe_norm_pool(c->n_spatial, x, c->power, c->number, o);
}

static tn_module *make_pool(tn_module *parent, const char *name, const char *const *kinds, FeForward *forward,
                            FeImageModule given) {
  tn_module *m = make(parent, name, kind_of(kinds, given.n_spatial), forward, given, given.pool.at);
  return has_axes(given.n_spatial) ? m : refuse(m, given.pool.at, one_to_three);
}

tn_module *tn_max_pool_module(tn_module *parent, const char *name, uint32_t n_spatial, int64_t kernel,
                              tn_pool_options o) {
  static const char *const kinds[] = KINDS("MaxPool");
  FeImageModule given = {.n_spatial = n_spatial, .is_max = true, .number = kernel, .pool = o};
  return make_pool(parent, name, kinds, pool, given);
}

tn_module *tn_avg_pool_module(tn_module *parent, const char *name, uint32_t n_spatial, int64_t kernel,
                              tn_pool_options o) {
  static const char *const kinds[] = KINDS("AvgPool");
  return make_pool(parent, name, kinds, pool, (FeImageModule){.n_spatial = n_spatial, .number = kernel, .pool = o});
}

tn_module *tn_lp_pool_module(tn_module *parent, const char *name, uint32_t n_spatial, double power, int64_t kernel,
                             tn_pool_options o) {
  static const char *const kinds[] = KINDS("LPPool");
  FeImageModule given = {.n_spatial = n_spatial, .number = kernel, .power = power, .pool = o};
  return make_pool(parent, name, kinds, norm_pool, given);
}

static tn_tensor adaptive(tn_module *m, tn_tensor x, tn_site at) {
  const FeImageModule *c = m->config.image;
  return fe_adaptive_pool(c->n_sizes, c->is_max, x, c->sizes, at);
}

static tn_module *make_adaptive(tn_module *parent, const char *name, const char *const *kinds, bool is_max,
                                const int64_t *sizes, uint32_t n, tn_site at) {
  FeImageModule given = {.is_max = is_max, .n_sizes = n};
  bool good = sizes && has_axes(n);
  for (uint32_t k = 0; good && k < n; k++) given.sizes[k] = sizes[k];
  tn_module *m = make(parent, name, kind_of(kinds, n), adaptive, given, at);
  return good ? m : refuse(m, at, one_to_three);
}

tn_module *tn_adaptive_avg_pool_module(tn_module *parent, const char *name, const int64_t *sizes, uint32_t n,
                                       tn_site at) {
  static const char *const kinds[] = KINDS("AdaptiveAvgPool");
  return make_adaptive(parent, name, kinds, false, sizes, n, at);
}

tn_module *tn_adaptive_max_pool_module(tn_module *parent, const char *name, const int64_t *sizes, uint32_t n,
                                       tn_site at) {
  static const char *const kinds[] = KINDS("AdaptiveMaxPool");
  return make_adaptive(parent, name, kinds, true, sizes, n, at);
}

// ---- sizes
static tn_tensor upsample(tn_module *m, tn_tensor x, tn_site at) {
  const FeImageModule *c = m->config.image;
  tn_interpolate_options o = c->interpolate;
  o.at = at;
  return fe_interpolate(x, c->sizes[0] ? c->sizes : NULL, c->mode, o);
}

tn_module *tn_upsample_module(tn_module *parent, const char *name, double scale, tn_interpolation mode,
                              tn_upsample_options o) {
  FeImageModule given = {.mode = mode};
  given.interpolate = (tn_interpolate_options){
      .align_corners = o.align_corners, .scale_factor = scale, .recompute_scale_factor = o.recompute_scale_factor};
  bool good = true, has_scale = scale != 0;
  for (uint32_t k = 0; k < AXES; k++) {
    double factor = given.interpolate.scale_factors[k] = o.scales[k];
    good &= factor >= 0 && factor <= 1 << 10;
    has_scale |= factor != 0;
    given.sizes[k] = o.sizes[k];
  }
  tn_module *m = make(parent, name, "Upsample", upsample, given, o.at);
  good &= scale >= 0 && scale <= 1 << 10 && has_scale == (o.sizes[0] == 0) && o.sizes[0] >= 0;
  return good ? m : refuse(m, o.at, "sizes are multiplied by numbers up to 1024, or given, of which one is done");
}

static tn_tensor pad(tn_module *m, tn_tensor x, tn_site at) {
  const FeImageModule *c = m->config.image;
  return fe_pad(x, c->sizes, c->n_sizes, c->pad_mode, c->power, at);
}

tn_module *tn_pad_module(tn_module *parent, const char *name, const int64_t *pads, uint32_t n, tn_pad_mode mode,
                         double value, tn_site at) {
  static const char *const kinds[] = {"ConstantPad", "ReflectionPad", "ReplicationPad", "CircularPad"};
  bool good = pads && n && n % 2 == 0 && n <= 2 * AXES && (uint32_t)mode <= TN_PAD_CIRCULAR;
  FeImageModule given = {.n_sizes = n, .pad_mode = mode, .power = value};
  for (uint32_t k = 0; good && k < n; k++) given.sizes[k] = pads[k];
  tn_module *m = make(parent, name, good ? kinds[mode] : "Pad", pad, given, at);
  return good ? m : refuse(m, at, "1 to 3 axes are padded, with two numbers for each, in one of the modes of tn_pad");
}

// ---- windows as columns
static tn_unfold_options unfold_options(const FeImageModule *c, tn_site at) {
  tn_unfold_options o = c->unfold;
  o.at = at;
  return o;
}

static tn_tensor unfold(tn_module *m, tn_tensor x, tn_site at) {
  const FeImageModule *c = m->config.image;
  return fe_unfold2d(x, c->number, unfold_options(c, at));
}

static tn_tensor fold(tn_module *m, tn_tensor x, tn_site at) {
  const FeImageModule *c = m->config.image;
  return fe_fold2d(x, c->image, c->number, unfold_options(c, at));
}

tn_module *tn_unfold_module(tn_module *parent, const char *name, int64_t kernel, tn_unfold_options o) {
  return make(parent, name, "Unfold", unfold, (FeImageModule){.number = kernel, .unfold = o}, o.at);
}

tn_module *tn_fold_module(tn_module *parent, const char *name, tn_shape sizes, int64_t kernel, tn_unfold_options o) {
  return make(parent, name, "Fold", fold, (FeImageModule){.number = kernel, .unfold = o, .image = sizes}, o.at);
}

// ---- pixels and channels
#define BY_NUMBER(call, kind)                                                                                        \
  static tn_tensor call(tn_module *m, tn_tensor x, tn_site at) { return fe_##call(x, m->config.image->number, at); } \
  tn_module *tn_##call##_module(tn_module *parent, const char *name, int64_t number, tn_site at) {                   \
    return make(parent, name, kind, call, (FeImageModule){.number = number}, at);                                    \
  }
BY_NUMBER(pixel_shuffle, "PixelShuffle")
BY_NUMBER(pixel_unshuffle, "PixelUnshuffle")
BY_NUMBER(channel_shuffle, "ChannelShuffle")

static tn_tensor local_response_norm(tn_module *m, tn_tensor x, tn_site at) {
  const FeImageModule *c = m->config.image;
  tn_local_response_norm_options o = c->norm;
  o.at = at;
  return fe_local_response_norm(x, c->number, o);
}

tn_module *tn_local_response_norm_module(tn_module *parent, const char *name, int64_t size,
                                         tn_local_response_norm_options o) {
  FeImageModule given = {.number = size, .norm = o};
  return make(parent, name, "LocalResponseNorm", local_response_norm, given, o.at);
}

static tn_tensor drop_channels(tn_module *m, tn_tensor x, tn_site at) {
  return fe_channel_dropout(x, m->config.image->power, at);
}

tn_module *tn_channel_dropout_module(tn_module *parent, const char *name, double p, tn_site at) {
  tn_module *m = make(parent, name, "Dropout2d", drop_channels, (FeImageModule){.power = p}, at);
  return p >= 0 && p <= 1 ? m : refuse(m, at, "channels are dropped with a probability in [0, 1]");
}
