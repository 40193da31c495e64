#include "runtime/data/gzip.h"

#include <inttypes.h>
#include <zlib.h>

enum { PIECE = 1 << 15, FIRST_ROOM = 1 << 16 };

bool rt_is_gzip(const RtSource *s) {
  unsigned char head[2];
  char ignored[RT_SOURCE_NAME];
  return s->size >= 2 && rt_source_read(s, 0, head, 2, ignored, sizeof ignored) && head[0] == 0x1f && head[1] == 0x8b;
}

typedef struct {
  const RtSource *s;
  uint64_t at, most;  // bytes read; bytes allowed
  z_stream z;
  unsigned char from[PIECE], *to;
  size_t n, room;  // bytes of `to`
  char *error;
  size_t error_size;
} Unpacking;

static bool fail(const Unpacking *u, const char *why) {
  return rt_fail(u->error, u->error_size, "%s: %s", u->s->name, why);
}

static bool refill(Unpacking *u) {
  size_t n = u->s->size - u->at < PIECE ? (size_t)(u->s->size - u->at) : PIECE;
  if (u->z.avail_in) return true;
  if (!n) return fail(u, "the packed file ends too early");
  u->z.next_in = u->from, u->z.avail_in = (uInt)n, u->at += n;
  return rt_source_read(u->s, u->at - n, u->from, n, u->error, u->error_size);
}

static bool grow(Unpacking *u) {
  if (u->n < u->room) return true;
  if (u->room >= u->most)
    return rt_fail(u->error, u->error_size, "%s: it unpacks to more than %" PRIu64 " bytes, which are allowed",
                   u->s->name, u->most);
  size_t room = u->room ? 2 * u->room : FIRST_ROOM;
  if (room > u->most) room = (size_t)u->most;
  unsigned char *to = rt_realloc(u->to, room);
  if (!to) return fail(u, "unpacking: out of memory");
  u->to = to, u->room = room;
  return true;
}

// Zeros behind the last stream are padding.
static bool is_at_end(Unpacking *u) {
  while (u->z.avail_in && !*u->z.next_in) u->z.next_in++, u->z.avail_in--;
  return !u->z.avail_in && u->at == u->s->size;
}

// One byte more than is allowed is never asked for: where the room is full, the stream may still end.
static bool unpack(Unpacking *u) {
  for (;;) {
    unsigned char none[1];
    bool is_full = u->n >= u->most;
    if (!refill(u) || (!is_full && !grow(u))) return false;
    size_t room = is_full ? 1 : u->room - u->n < PIECE ? u->room - u->n : PIECE;
    u->z.next_out = is_full ? none : u->to + u->n, u->z.avail_out = (uInt)room;
    int state = inflate(&u->z, Z_NO_FLUSH);
    size_t made = room - u->z.avail_out;
    if (is_full && made) return grow(u);
    u->n += is_full ? 0 : made;
    if (state == Z_MEM_ERROR) return fail(u, "unpacking: out of memory");
    if (state != Z_OK && state != Z_BUF_ERROR && state != Z_STREAM_END) return fail(u, "the packed file is damaged");
    if (state != Z_STREAM_END) continue;
    if (is_at_end(u)) return true;
    if (inflateReset(&u->z) != Z_OK) return fail(u, "the packed file is damaged");
  }
}

unsigned char *rt_gzip_unpack(const RtSource *s, uint64_t most, size_t *n, char *error, size_t error_size) {
  enum { GZIP = 16 };
  Unpacking *u = rt_malloc(sizeof *u);
  unsigned char *to = NULL;
  if (!u) return rt_fail(error, error_size, "%s: unpacking: out of memory", s->name), NULL;
  *u = (Unpacking){.s = s, .most = most, .error = error, .error_size = error_size};
  bool ok = inflateInit2(&u->z, MAX_WBITS + GZIP) == Z_OK || fail(u, "unpacking: out of memory");
  if (ok && unpack(u)) to = u->to, *n = u->n, u->to = NULL;
  if (ok) inflateEnd(&u->z);
  rt_free(u->to);
  rt_free(u);
  return to;
}
