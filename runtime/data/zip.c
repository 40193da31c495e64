// Zip archives, as far as NumPy writes them; see npy.h. Sizes come from the central directory at the end of the file.
#include "runtime/data/npy.h"

#include <inttypes.h>
#include <string.h>
#include <zlib.h>

enum { END_BYTES = 22, END64_LOCATOR = 20, END64_BYTES = 56, ENTRY_BYTES = 46, LOCAL_BYTES = 30, MOST_COMMENT = 65535 };
enum { MOST_MEMBERS = 4096, MOST_DIRECTORY = 1 << 24 };

static uint64_t number(const unsigned char *p, int n) {
  uint64_t v = 0;
  for (int k = 0; k < n; k++) v |= (uint64_t)p[k] << 8 * k;
  return v;
}

typedef struct {
  const RtSource *s;
  char *error;
  size_t error_size;
  uint64_t n, at, size;  // members; the directory
} Zip;

static bool fail(const Zip *z, const char *what) {
  return rt_fail(z->error, z->error_size, "%s: the archive %s", z->s->name, what);
}

static bool read_bytes(const Zip *z, uint64_t at, void *to, size_t n) {
  return rt_source_read(z->s, at, to, n, z->error, z->error_size);
}

// The record of a large archive stands in front of the ordinary one.
static bool find_end64(Zip *z, uint64_t end) {
  unsigned char p[END64_BYTES];
  if (end < END64_LOCATOR) return true;
  if (!read_bytes(z, end - END64_LOCATOR, p, END64_LOCATOR)) return false;
  if (number(p, 4) != 0x07064b50) return true;
  uint64_t at = number(p + 8, 8);
  if (z->s->size < END64_BYTES || at > z->s->size - END64_BYTES) return fail(z, "has a damaged end");
  if (!read_bytes(z, at, p, END64_BYTES)) return false;
  if (number(p, 4) != 0x06064b50) return fail(z, "has a damaged end");
  z->n = number(p + 32, 8), z->size = number(p + 40, 8), z->at = number(p + 48, 8);
  return true;
}

// The end record is the last one whose comment reaches to the end of the file.
static bool find_end(Zip *z) {
  size_t n = z->s->size < END_BYTES + MOST_COMMENT ? (size_t)z->s->size : END_BYTES + MOST_COMMENT;
  uint64_t base = z->s->size - n;
  unsigned char *tail = rt_malloc(n);
  if (!tail) return rt_fail(z->error, z->error_size, "out of memory");
  bool ok = read_bytes(z, base, tail, n), found = false;
  for (size_t k = n < END_BYTES ? 0 : n - END_BYTES + 1; ok && !found && k-- > 0;)
    if (number(tail + k, 4) == 0x06054b50 && number(tail + k + 20, 2) == n - END_BYTES - k) {
      z->n = number(tail + k + 10, 2), z->size = number(tail + k + 12, 4), z->at = number(tail + k + 16, 4);
      found = true;
      ok = find_end64(z, base + k);
    }
  rt_free(tail);
  if (ok && !found) return fail(z, "has no end: not a zip file, or cut short");
  if (ok && (z->n > MOST_MEMBERS || z->size > MOST_DIRECTORY || z->at > z->s->size || z->size > z->s->size - z->at))
    return fail(z, "has a directory that does not fit");
  return ok;
}

// Values of 0xffffffff stand in an extra field, in this order.
static bool widen(const Zip *z, const unsigned char *extra, size_t n, RtZipMember *m, uint64_t *local) {
  uint64_t *wide[] = {&m->size, &m->stored, local};
  for (size_t at = 0; at + 4 <= n;) {
    size_t size = (size_t)number(extra + at + 2, 2), used = at + 4;
    if (size > n - at - 4) break;
    for (int k = 0; number(extra + at, 2) == 1 && k < 3; k++)
      if (*wide[k] == UINT32_MAX) {
        if (used + 8 > at + 4 + size) return fail(z, "has a damaged directory");
        *wide[k] = number(extra + used, 8), used += 8;
      }
    at += 4 + size;
  }
  return true;
}

// The local header tells how far behind it the data begins.
static bool find_data(const Zip *z, uint64_t local, RtZipMember *m) {
  unsigned char p[LOCAL_BYTES];
  if (local > z->s->size || z->s->size - local < LOCAL_BYTES) return fail(z, "has a member outside of the file");
  if (!read_bytes(z, local, p, LOCAL_BYTES)) return false;
  if (number(p, 4) != 0x04034b50) return fail(z, "has a damaged member");
  m->data_at = local + LOCAL_BYTES + number(p + 26, 2) + number(p + 28, 2);
  if (m->data_at > z->s->size || m->stored > z->s->size - m->data_at)
    return fail(z, "has a member outside of the file");
  return true;
}

static bool check_member(const Zip *z, const RtZipMember *m, uint64_t flags, uint64_t method) {
  const uint64_t most_ratio = 1032;  // of deflate
  if (flags & 1) return fail(z, "is encrypted");
  if (method != 0 && method != 8) return fail(z, "has a member that is neither stored nor deflated");
  if (m->deflated ? m->size / most_ratio > m->stored : m->size != m->stored)
    return fail(z, "has a member whose sizes contradict each other");
  return true;
}

// One entry of the directory; *used bytes of it.
static bool take_entry(const Zip *z, const unsigned char *p, size_t left, size_t *used, RtZipMember *m) {
  if (left < ENTRY_BYTES || number(p, 4) != 0x02014b50) return fail(z, "has a damaged directory");
  size_t n_name = (size_t)number(p + 28, 2), n_extra = (size_t)number(p + 30, 2), n_note = (size_t)number(p + 32, 2);
  *used = ENTRY_BYTES + n_name + n_extra + n_note;
  if (*used > left || n_name >= sizeof m->name || memchr(p + ENTRY_BYTES, 0, n_name))
    return fail(z, n_name >= sizeof m->name ? "has a name of more than 127 bytes" : "has a damaged directory");
  uint64_t local = number(p + 42, 4);
  *m = (RtZipMember){.deflated = number(p + 10, 2) == 8,
                     .crc = (uint32_t)number(p + 16, 4),
                     .stored = number(p + 20, 4),
                     .size = number(p + 24, 4)};
  memcpy(m->name, p + ENTRY_BYTES, n_name);
  return widen(z, p + ENTRY_BYTES + n_name, n_extra, m, &local) && find_data(z, local, m) &&
         check_member(z, m, number(p + 8, 2), number(p + 10, 2));
}

static bool is_folder(const RtZipMember *m) {
  size_t n = strlen(m->name);
  return m->size == 0 && n && m->name[n - 1] == '/';
}

// Folders have members of their own, where other programs than NumPy wrote the archive: they are passed over.
static bool take_directory(const Zip *z, const unsigned char *directory, RtZipMember *list, uint32_t *n) {
  size_t at = 0, used = 0;
  for (uint64_t k = 0; k < z->n; k++, at += used) {
    if (!take_entry(z, directory + at, (size_t)z->size - at, &used, &list[*n])) return false;
    *n += !is_folder(&list[*n]);
  }
  return true;
}

bool rt_zip_list(const RtSource *s, RtZipMember **out, uint32_t *n, char *error, size_t error_size) {
  Zip z = {.s = s, .error = error, .error_size = error_size};
  *out = NULL;
  *n = 0;
  if (!find_end(&z)) return false;
  unsigned char *directory = rt_malloc((size_t)z.size);
  RtZipMember *list = rt_malloc((size_t)(z.n + 1) * sizeof *list);
  bool ok = (directory && list) || rt_fail(error, error_size, "out of memory");
  uint32_t n_taken = 0;
  ok = ok && read_bytes(&z, z.at, directory, (size_t)z.size) && take_directory(&z, directory, list, &n_taken);
  rt_free(directory);
  if (ok) *out = list, *n = n_taken;
  else rt_free(list);
  return ok;
}

// ---- unpacking, in pieces: zlib counts bytes in 32 bits
static bool inflate_all(const RtSource *s, const RtZipMember *m, unsigned char *to, char *error, size_t error_size) {
  enum { PIECE = 1 << 15 };
  unsigned char from[PIECE];
  z_stream z = {.next_out = to};
  uint64_t at = 0;
  int state = inflateInit2(&z, -MAX_WBITS);
  bool ok = state == Z_OK, more = true;
  while (ok && more && state == Z_OK) {
    uint64_t room = m->size - (uint64_t)(z.next_out - to);
    size_t n = m->stored - at < PIECE ? (size_t)(m->stored - at) : PIECE;
    if (z.avail_in == 0 && n) {
      ok = rt_source_read(s, m->data_at + at, from, n, error, error_size);
      z.next_in = from, z.avail_in = (uInt)n, at += n;
    }
    z.avail_out = room < PIECE ? (uInt)room : PIECE;
    uInt before_in = z.avail_in, before_out = z.avail_out;
    state = ok ? inflate(&z, Z_NO_FLUSH) : Z_OK;
    more = z.avail_in != before_in || z.avail_out != before_out;
  }
  inflateEnd(&z);
  if (!ok) return state == Z_OK ? false : rt_fail(error, error_size, "out of memory");
  return (state == Z_STREAM_END && (uint64_t)(z.next_out - to) == m->size) ||
         rt_fail(error, error_size, "%s: member '%s' does not unpack", s->name, m->name);
}

static uint32_t checksum(const unsigned char *bytes, uint64_t n) {
  uLong crc = crc32(0, NULL, 0);
  for (uint64_t at = 0, step; at < n; at += step) {
    step = n - at < 1 << 30 ? n - at : 1 << 30;
    crc = crc32(crc, bytes + at, (uInt)step);
  }
  return (uint32_t)crc;
}

unsigned char *rt_zip_unpack(const RtSource *s, const RtZipMember *m, char *error, size_t error_size) {
  unsigned char *to = rt_malloc((size_t)m->size);
  if (!to) {
    rt_fail(error, error_size, "%s: member '%s' of %" PRIu64 " bytes: out of memory", s->name, m->name, m->size);
    return NULL;
  }
  bool ok = m->deflated ? inflate_all(s, m, to, error, error_size)
                        : rt_source_read(s, m->data_at, to, (size_t)m->size, error, error_size);
  if (ok && checksum(to, m->size) != m->crc)
    ok = rt_fail(error, error_size, "%s: member '%s' is damaged: its checksum differs", s->name, m->name);
  if (ok) return to;
  rt_free(to);
  return NULL;
}
