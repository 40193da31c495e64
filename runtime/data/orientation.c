// EXIF's orientation: which side of the scene the first row and the first column of a file are.
#include "runtime/data/image_codec.h"

#include <string.h>

// ---- the block: "II*\0" or "MM\0*", the offset of a directory, its number of entries, entries of 12 bytes
typedef struct {
  const unsigned char *bytes;
  size_t n;
  bool is_big_endian;
} Exif;

// 0 beyond the end
static uint32_t read_number(const Exif *e, uint64_t at, unsigned n_bytes) {
  uint32_t v = 0;
  for (unsigned k = 0; k < n_bytes && at + n_bytes <= e->n; k++)
    v |= (uint32_t)e->bytes[at + k] << 8 * (e->is_big_endian ? n_bytes - 1 - k : k);
  return v;
}

uint32_t rt_exif_orientation(const unsigned char *bytes, size_t n) {
  enum { ORIENTATION = 0x112, ENTRY = 12 };
  static const uint8_t width_of[] = {
      [3] = 2, [4] = 4};  // by type: short, as the standard wants it, and long, as some write it
  const Exif e = {bytes, n, n > 0 && bytes[0] == 'M'};
  if (n < 8 || (memcmp(bytes, "II*", 4) && memcmp(bytes, "MM\0*", 4))) return 1;
  uint64_t at = read_number(&e, 4, 4);
  uint32_t n_entries = read_number(&e, at, 2);
  for (uint32_t k = 0; k < n_entries; k++) {
    uint64_t entry = at + 2 + (uint64_t)k * ENTRY;
    uint32_t type = read_number(&e, entry + 2, 2), width = type < sizeof width_of ? width_of[type] : 0;
    if (read_number(&e, entry, 2) != ORIENTATION || !width) continue;
    uint32_t found = read_number(&e, entry + 8, width);
    return found >= 1 && found <= 8 ? found : 1;
  }
  return 1;
}

// ---- pixels
bool rt_image_turn(RtImage *image, uint32_t channels, uint32_t orientation) {
  // Where the file's rows begin at the bottom, its columns at the right, and rows are columns then.
  static const struct {
    bool from_bottom, from_right, is_transposed;
  } turns[] = {[1] = {0},       [2] = {0, 1, 0}, [3] = {1, 1, 0}, [4] = {1, 0, 0},
               [5] = {0, 0, 1}, [6] = {1, 0, 1}, [7] = {1, 1, 1}, [8] = {0, 1, 1}};
  const int64_t h = image->height, w = image->width;
  const bool is_transposed = turns[orientation].is_transposed;
  if (orientation == 1) return true;
  unsigned char *to = rt_malloc((size_t)(h * w) * channels), *from = image->pixels;
  if (!to) return false;
  for (int64_t y = 0; y < h; y++)
    for (int64_t x = 0; x < w; x++, from += channels) {
      int64_t row = turns[orientation].from_bottom ? h - 1 - y : y,
              column = turns[orientation].from_right ? w - 1 - x : x;
      memcpy(to + (is_transposed ? column * h + row : row * w + column) * channels, from, channels);
    }
  rt_free(image->pixels);
  *image = (RtImage){is_transposed ? w : h, is_transposed ? h : w, to};
  return true;
}
