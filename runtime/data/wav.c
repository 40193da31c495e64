#include "runtime/data/wav.h"

#include <inttypes.h>
#include <string.h>

enum { PCM = 1, FLOAT = 3, EXTENSIBLE = 0xfffe };

static uint32_t u16_at(const unsigned char *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32_at(const unsigned char *p) { return u16_at(p) | u16_at(p + 2) << 16; }

// ---- the header
// `fmt `: format, channels, rate, bytes a second, bytes of a frame, bits; of EXTENSIBLE the format is the first number of
// an identifier behind them.
static bool read_format(const RtSource *s, uint64_t at, uint32_t size, RtWav *w, char *error, size_t error_size) {
  unsigned char f[26] = {0};
  if (size < 16)
    return rt_fail(error, error_size, "%s: byte %" PRIu64 ": 'fmt ' has %u bytes, 16 are the least", s->name, at, size);
  if (!rt_source_read(s, at, f, size < sizeof f ? size : sizeof f, error, error_size)) return false;
  uint32_t format = u16_at(f), bits = u16_at(f + 14);
  if (format == EXTENSIBLE && size >= sizeof f) format = u16_at(f + 24);
  w->channels = (uint16_t)u16_at(f + 2);
  w->rate = u32_at(f + 4);
  w->bytes = (uint8_t)(bits / 8);
  w->is_float = format == FLOAT;
  bool is_known = format == PCM ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                                : format == FLOAT && (bits == 32 || bits == 64);
  if (!is_known)
    return rt_fail(error, error_size,
                   "%s: format %u of %u bits is not read: PCM (1) has 8, 16, 24 or 32 bits, float (3) 32 or 64",
                   s->name, format, bits);
  if (w->channels == 0 || w->channels > RT_WAV_CHANNELS || w->rate == 0)
    return rt_fail(error, error_size, "%s: %u channels at %u Hz: 1 to %d at 1 Hz or more are read", s->name,
                   w->channels, w->rate, RT_WAV_CHANNELS);
  if (u16_at(f + 12) != w->channels * (uint32_t)w->bytes)
    return rt_fail(error, error_size, "%s: frames of %u bytes, where %u channels of %u bytes make %u", s->name,
                   u16_at(f + 12), w->channels, w->bytes, w->channels * (uint32_t)w->bytes);
  return true;
}

// Who writes to a pipe cannot go back to fill in the sizes: they stay what they were at first, which is nothing or all bits set.
static bool is_streamed(uint32_t riff, uint64_t at, uint32_t size) {
  const bool ends_here = riff == UINT32_MAX || riff + UINT64_C(8) <= at;
  return size == UINT32_MAX || (size == 0 && ends_here);
}

static bool take_data(const RtSource *s, uint32_t riff, uint64_t at, uint32_t size, RtWav *w, char *error,
                      size_t error_size) {
  uint32_t frame = w->channels * (uint32_t)w->bytes;
  if (is_streamed(riff, at, size)) {
    w->data_at = at;
    w->n_frames = (s->size - at) / frame;
    return true;
  }
  if (size % frame)
    return rt_fail(error, error_size, "%s: 'data' has %u bytes, which are no whole number of frames of %u", s->name,
                   size, frame);
  w->data_at = at;
  w->n_frames = size / frame;
  return true;
}

// The chunk at `at`, whose bytes lie inside of the source, or are `data` of no known size; *at goes behind its head.
static bool read_head(const RtSource *s, uint64_t *at, unsigned char head[8], char *error, size_t error_size) {
  if (!rt_source_read(s, *at, head, 8, error, error_size)) return false;
  *at += 8;
  if (u32_at(head + 4) <= s->size - *at || (!memcmp(head, "data", 4) && u32_at(head + 4) == UINT32_MAX)) return true;
  return rt_fail(error, error_size,
                 "%s: byte %" PRIu64 ": a part of %u bytes, and %" PRIu64
                 " are left: the file was cut short, or written to a pipe without its sizes",
                 s->name, *at - 8, u32_at(head + 4), s->size - *at);
}

bool rt_wav_parse(const RtSource *s, RtWav *out, char *error, size_t error_size) {
  enum { MOST_PARTS = 1 << 12 };
  unsigned char head[12] = {0};
  *out = (RtWav){0};
  if (s->size < sizeof head)
    return rt_fail(error, error_size, "%s: not a WAV file: it has %" PRIu64 " bytes", s->name, s->size);
  if (!rt_source_read(s, 0, head, sizeof head, error, error_size)) return false;
  if (memcmp(head, "RIFF", 4) || memcmp(head + 8, "WAVE", 4))
    return rt_fail(error, error_size, "%s: not a WAV file: it does not begin with RIFF and WAVE", s->name);
  uint64_t at = sizeof head;
  const uint32_t riff = u32_at(head + 4);
  for (int k = 0; k < MOST_PARTS && at < s->size; k++) {
    if (!read_head(s, &at, head, error, error_size)) return false;
    uint32_t size = u32_at(head + 4);
    if (!memcmp(head, "data", 4)) {
      if (out->channels) return take_data(s, riff, at, size, out, error, error_size);
      return rt_fail(error, error_size, "%s: 'data' stands before 'fmt '", s->name);
    }
    if (!memcmp(head, "fmt ", 4) && !read_format(s, at, size, out, error, error_size)) return false;
    at += size + (uint64_t)(size & 1);
  }
  return rt_fail(error, error_size, "%s: there is no 'data' among the first %d parts of the file", s->name, MOST_PARTS);
}

// ---- frames
static float of_pcm(const unsigned char *p, uint8_t bytes) {
  uint32_t v = 0;
  if (bytes == 1) return (float)((int)p[0] - 128) / 128;
  for (uint8_t k = 0; k < bytes; k++) v |= (uint32_t)p[k] << (32 - 8 * bytes + 8 * k);
  return (float)((double)(int32_t)v / 2147483648.0);
}

static float of_float(const unsigned char *p, uint8_t bytes) {
  uint64_t v = 0;
  float f;
  double d;
  for (uint8_t k = 0; k < bytes; k++) v |= (uint64_t)p[k] << 8 * k;
  uint32_t low = (uint32_t)v;
  memcpy(&f, &low, sizeof f);
  memcpy(&d, &v, sizeof d);
  return bytes == 4 ? f : (float)d;
}

bool rt_wav_read(const RtSource *s, const RtWav *w, uint64_t first, size_t n, float *out, char *error,
                 size_t error_size) {
  enum { CHUNK = 1 << 13 };
  unsigned char bytes[CHUNK];
  size_t count = n * w->channels, step = CHUNK / w->bytes;
  uint64_t at = w->data_at + first * w->channels * w->bytes;
  for (size_t k = 0; k < count; k += step) {
    size_t m = count - k < step ? count - k : step;
    if (!rt_source_read(s, at + k * w->bytes, bytes, m * w->bytes, error, error_size)) return false;
    for (size_t i = 0; i < m; i++)
      out[k + i] = w->is_float ? of_float(bytes + i * w->bytes, w->bytes) : of_pcm(bytes + i * w->bytes, w->bytes);
  }
  return true;
}
