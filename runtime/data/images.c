#include "runtime/data/images.h"
#include "runtime/rng.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct {
  uint32_t field, n_fields;
  size_t bytes[RT_MAX_FIELDS];  // of an item of the other fields
  int64_t channels, from[2];    // of the source: height, width
  int64_t size[2], padding;     // of the resized image
  int64_t crop[2];              // of the result
  bool is_resized, random_crop, random_flip;
  uint64_t seed;
  float affine[][2];  // of each channel: y = x [0] + [1]
} Images;

// Where the result lies in the padded image.
typedef struct {
  int64_t at[2];
  bool is_flipped;
} Place;

static Place place_of(const Images *m, uint64_t epoch, size_t k) {
  const uint32_t counter[4] = {(uint32_t)epoch, (uint32_t)(epoch >> 32), (uint32_t)k, (uint32_t)((uint64_t)k >> 32)};
  const uint32_t key[2] = {(uint32_t)m->seed, (uint32_t)(m->seed >> 32)};
  uint32_t drawn[4];
  Place p = {0};
  rt_philox(counter, key, drawn);
  for (int d = 0; d < 2; d++) {
    uint64_t room = (uint64_t)(m->size[d] + 2 * m->padding - m->crop[d]);
    p.at[d] = (int64_t)(m->random_crop ? drawn[d] * (room + 1) >> 32 : room / 2);
  }
  p.is_flipped = m->random_flip && drawn[2] >> 31;
  return p;
}

// ---- one pixel
// Two neighbours along an axis and the share of the second; as bilinear interpolation between centres of pixels has it.
typedef struct {
  int64_t low, high;
  float share;
} Tap;

static Tap tap_of(int64_t i, int64_t from, int64_t size) {
  double at = ((double)i + 0.5) * (double)from / (double)size - 0.5;
  if (at < 0) at = 0;
  int64_t low = (int64_t)at;
  return (Tap){low, low + 1 < from ? low + 1 : low, (float)(at - (double)low)};
}

static float resized(const Images *m, const float *plane, Tap y, int64_t j) {
  Tap x = tap_of(j, m->from[1], m->size[1]);
  const float *low = plane + y.low * m->from[1], *high = plane + y.high * m->from[1];
  float above = low[x.low] + x.share * (low[x.high] - low[x.low]);
  float below = high[x.low] + x.share * (high[x.high] - high[x.low]);
  return above + y.share * (below - above);
}

// Row i of the resized image, from place at[1] on; zeros outside of it.
static void write_row(const Images *m, const float *plane, int64_t i, const Place *p, const float affine[2],
                      float *out) {
  bool is_inside = i >= 0 && i < m->size[0];
  Tap y = is_inside && m->is_resized ? tap_of(i, m->from[0], m->size[0]) : (Tap){0};
  for (int64_t x = 0; x < m->crop[1]; x++) {
    int64_t j = (p->is_flipped ? m->crop[1] - 1 - x : x) + p->at[1] - m->padding;
    float v = 0;
    if (is_inside && j >= 0 && j < m->size[1]) v = m->is_resized ? resized(m, plane, y, j) : plane[i * m->from[1] + j];
    out[x] = v * affine[0] + affine[1];
  }
}

static bool transform(void *ctx, size_t k, const RtItem *from, RtItem *to) {
  const Images *m = ctx;
  Place p = place_of(m, to->epoch, k);
  const float *plane = from->data[m->field];
  float *out = to->data[m->field];
  for (int64_t c = 0; c < m->channels; c++, plane += m->from[0] * m->from[1])
    for (int64_t y = 0; y < m->crop[0]; y++, out += m->crop[1])
      write_row(m, plane, y + p.at[0] - m->padding, &p, m->affine[c], out);
  for (uint32_t f = 0; f < m->n_fields; f++) {
    if (f == m->field) continue;
    memcpy(to->data[f], from->data[f], m->bytes[f]);
    to->length[f] = from->length[f];
  }
  return true;
}

// ---- options
static bool check_side(const char *what, int64_t n, char *error, size_t error_size) {
  return (n >= 1 && n <= RT_IMAGE_SIDE) ||
         rt_fail(error, error_size, "%s of images is %" PRId64 ", 1 to %d are possible", what, n, RT_IMAGE_SIDE);
}

static bool set_sizes(Images *m, const RtImageOptions *o, char *error, size_t error_size) {
  static const char *const side[] = {"the height", "the width"}, *const cut[] = {"the cropped height",
                                                                                 "the cropped width"};
  if (o->padding < 0 || o->padding > RT_IMAGE_SIDE)
    return rt_fail(error, error_size, "the padding of images is %" PRId64 ", 0 to %d are possible", o->padding,
                   RT_IMAGE_SIDE);
  m->padding = o->padding;
  for (int d = 0; d < 2; d++) {
    m->size[d] = o->resize[d] ? o->resize[d] : m->from[d];
    if (!check_side(side[d], m->from[d], error, error_size) || !check_side(side[d], m->size[d], error, error_size))
      return false;
    int64_t padded = m->size[d] + 2 * m->padding;
    m->crop[d] = o->crop[d] ? o->crop[d] : padded;
    if (!check_side(cut[d], m->crop[d], error, error_size)) return false;
    if (m->crop[d] > padded)
      return rt_fail(error, error_size, "%s of images is %" PRId64 ", and with padding there are %" PRId64, cut[d],
                     m->crop[d], padded);
    m->is_resized |= m->size[d] != m->from[d];
  }
  return true;
}

static bool set_affine(Images *m, const RtImageOptions *o, char *error, size_t error_size) {
  float scale = o->scale != 0 ? (float)o->scale : 1;
  if ((o->mean || o->std) && o->n_channels != 1 && o->n_channels != (uint64_t)m->channels)
    return rt_fail(error, error_size, "mean and std are given for %" PRIu32 " channels, images have %" PRId64,
                   o->n_channels, m->channels);
  for (int64_t c = 0; c < m->channels; c++) {
    int64_t k = o->n_channels == 1 ? 0 : c;
    float mean = o->mean ? o->mean[k] : 0, std = o->std ? o->std[k] : 1;
    m->affine[c][0] = scale / std;
    m->affine[c][1] = -mean / std;
    if (!isfinite(m->affine[c][0]) || !isfinite(m->affine[c][1]))
      return rt_fail(error, error_size, "scale, mean and std of channel %" PRId64 " make no finite number", c);
  }
  return true;
}

static bool find_field(const RtDataset *d, const char *name, uint32_t *out, char *error, size_t error_size) {
  uint32_t k = 0;
  while (k < d->n_fields && strcmp(d->fields[k].name, name)) k++;
  if (k == d->n_fields) return rt_fail(error, error_size, "the data set has no field '%.80s'", name);
  const RtField *f = &d->fields[k];
  *out = k;
  if (f->dtype == RT_F32 && !f->is_variable && (f->rank == 2 || f->rank == 3)) return true;
  return rt_fail(error, error_size,
                 "field '%s' is %s with %" PRIu32 " axes: images are f32 [height, width] or [channels, height, width] "
                 "of one size",
                 name, f->is_variable ? "of variable size" : rt_dtype_name(f->dtype), f->rank);
}

static Images *new_images(const RtDataset *d, uint32_t field, const RtImageOptions *o, char *error, size_t error_size) {
  const RtField *f = &d->fields[field];
  int64_t channels = f->rank == 3 ? f->dims[0] : 1;
  if (!check_side("the number of channels", channels, error, error_size)) return NULL;
  Images *m = rt_malloc(sizeof *m + (size_t)channels * sizeof m->affine[0]);
  if (!m) {
    rt_fail(error, error_size, "out of memory");
    return NULL;
  }
  *m = (Images){.field = field,
                .n_fields = d->n_fields,
                .channels = channels,
                .from = {f->dims[f->rank - 2], f->dims[f->rank - 1]},
                .random_crop = o->random_crop,
                .random_flip = o->random_flip,
                .seed = o->seed};
  for (uint32_t k = 0; k < d->n_fields; k++) m->bytes[k] = (size_t)rt_field_bytes(&d->fields[k]);
  if (set_sizes(m, o, error, error_size) && set_affine(m, o, error, error_size)) return m;
  rt_free(m);
  return NULL;
}

RtDataset *rt_dataset_images(RtDataset *d, const RtImageOptions *o, char *error, size_t error_size) {
  RtField fields[RT_MAX_FIELDS];
  uint32_t field = 0;
  if (!find_field(d, o->field, &field, error, error_size)) return NULL;
  Images *m = new_images(d, field, o, error, error_size);
  if (!m) return NULL;
  memcpy(fields, d->fields, sizeof fields);
  fields[field].rank = 3;
  fields[field].dims[0] = m->channels, fields[field].dims[1] = m->crop[0], fields[field].dims[2] = m->crop[1];
  RtDataset *made = rt_dataset_map(d, fields, d->n_fields, transform, m, rt_free, error, error_size);
  if (!made) rt_free(m);
  return made;
}
