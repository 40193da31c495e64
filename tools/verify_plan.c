// tenure verify-plan FILE: checks a certificate of a plan (docs/certificate.md). Shares no code with what plans: lives are
// found anew from what kernels read and write, overlaps by a sweep over kernels, and the bound of all orders by a flow of its own.
#include "tools/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *place;  // NULL: there is no such buffer
  long long bytes, offset, first, last;
  uint32_t over, taken_by;
  long long used_from, used_to;  // kernels; -1: none
  bool begins_written;
} Buffer;

typedef struct {
  uint32_t of, by;
} Link;

typedef struct {
  const char *path;
  RtArena *mem;
  uint32_t n_faults, line;
  const char *function;
  long long n_kernels, arena, live, live_at, orders, orders_at;
  Buffer *b;
  uint32_t n_b, cap_b;
  Link *reads, *writes;  // (kernel, buffer), kernel by kernel
  uint32_t n_reads, n_writes, cap_reads, cap_writes;
  long long *in_place, n_seen;  // by kernel
  uint32_t n_functions;
  uint64_t digest;
} Check;

static bool fault(Check *c, const char *fmt, ...) RT_PRINTF(2, 3);
static bool fault(Check *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (c->function) printf("@%s: ", c->function);
  vprintf(fmt, ap);
  printf("\n");
  va_end(ap);
  c->n_faults++;
  return false;
}

static bool is_in_arena(const Buffer *b) {
  return b->place && (!strcmp(b->place, "arena") || !strcmp(b->place, "kept"));
}
static bool is_kept(const Buffer *b) { return b->place && !strcmp(b->place, "kept"); }

// ---- what is said of buffers
static void check_lives(Check *c) {
  for (uint32_t i = 1; i < c->n_b; i++) {
    Buffer *b = &c->b[i];
    if (!is_in_arena(b)) continue;
    bool is_used = b->used_from >= 0;
    if (is_kept(b) &&
        (b->first < 0 || b->last >= c->n_kernels || (is_used && (b->used_from < b->first || b->used_to > b->last))))
      fault(c, "buffer %u is kept from kernel %lld to %lld; kernels use it from %lld to %lld", i, b->first, b->last,
            b->used_from, b->used_to);
    if (!is_kept(b) && (b->first != b->used_from || b->last != b->used_to))
      fault(c, "buffer %u lives from kernel %lld to %lld; kernels use it from %lld to %lld", i, b->first, b->last,
            b->used_from, b->used_to);
    if (!is_kept(b) && !b->begins_written) fault(c, "buffer %u is read before it is written", i);
    if (b->bytes < 0 || b->offset < 0 || b->bytes % 64 || b->offset % 64) fault(c, "buffer %u is not aligned", i);
    if (b->offset + b->bytes > c->arena)
      fault(c, "buffer %u ends at %lld, behind the arena of %lld bytes", i, b->offset + b->bytes, c->arena);
  }
}

static void check_pairs(Check *c) {
  for (uint32_t i = 1; i < c->n_b; i++) {
    Buffer *b = &c->b[i];
    if (!b->place || !b->over) continue;
    Buffer *a = b->over < c->n_b ? &c->b[b->over] : NULL;
    if (!a || !is_in_arena(a) || !is_in_arena(b)) {
      fault(c, "buffer %u takes over %u, which is none of the arena", i, b->over);
      b->over = 0;
      continue;
    }
    if (a->taken_by) fault(c, "buffers %u and %u take over %u", a->taken_by, i, b->over);
    a->taken_by = i;
    if (a->bytes != b->bytes || a->offset != b->offset)
      fault(c, "buffer %u takes over %u and lies elsewhere, or has another size", i, b->over);
    if (a->first >= b->first) fault(c, "buffer %u takes over %u, which is not made before it", i, b->over);
    if (a->last != b->first)
      fault(c, "buffer %u takes over %u, which is last used by kernel %lld, not %lld", i, b->over, a->last, b->first);
  }
}

// ---- overlaps: kernel by kernel, with the buffers that live then by their offsets
typedef struct {
  long long key;
  uint32_t then, buffer;  // where keys are equal
} Entry;

typedef struct {
  const Check *c;
  Entry *by_offset, *by_first, *by_last;  // n buffers with bytes
  uint32_t n, *rank;                      // by buffer: its place in by_offset
  uint32_t *last_end;  // a tree over ranks: of the living buffers below a node, the one that ends last; 0: none lives
} Sweep;

static int by_key(const void *a, const void *b) {
  const Entry *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  if (x->then != y->then) return x->then < y->then ? -1 : 1;
  return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static long long end_of(const Sweep *s, uint32_t b) { return b ? s->c->b[b].offset + s->c->b[b].bytes : -1; }

static uint32_t later_end(const Sweep *s, uint32_t a, uint32_t b) { return end_of(s, a) >= end_of(s, b) ? a : b; }

static void set_living(Sweep *s, uint32_t b, bool lives) {
  uint32_t at = s->n + s->rank[b];
  s->last_end[at] = lives ? b : 0;
  for (at /= 2; at; at /= 2) s->last_end[at] = later_end(s, s->last_end[2 * at], s->last_end[2 * at + 1]);
}

// Of the living ones that begin before `offset` the one that ends last; 0: none
static uint32_t find_living(const Sweep *s, long long offset) {
  uint32_t lo = 0, hi = s->n, best = 0;
  while (lo < hi) {
    uint32_t middle = lo + (hi - lo) / 2;
    if (s->by_offset[middle].key < offset) lo = middle + 1;
    else hi = middle;
  }
  for (uint32_t from = s->n, to = s->n + lo; from < to; from /= 2, to /= 2) {
    if (from & 1) best = later_end(s, best, s->last_end[from++]);
    if (to & 1) best = later_end(s, best, s->last_end[--to]);
  }
  return best;
}

static Sweep begin_sweep(const Check *c) {
  size_t size = (c->n_b + 1) * sizeof(Entry);
  Sweep s = {.c = c, .by_offset = rt_alloc(c->mem, size), .by_first = rt_alloc(c->mem, size)};
  s.by_last = rt_alloc(c->mem, size), s.rank = rt_alloc(c->mem, (c->n_b + 1) * sizeof *s.rank);
  for (uint32_t i = 1; i < c->n_b; i++) {
    const Buffer *b = &c->b[i];
    if (!is_in_arena(b) || !b->bytes) continue;
    s.by_offset[s.n] = (Entry){b->offset, 0, i}, s.by_last[s.n] = (Entry){b->last, 0, i};
    s.by_first[s.n++] = (Entry){b->first, b->over != 0, i};  // what is taken over may begin with who takes it
  }
  qsort(s.by_offset, s.n, sizeof(Entry), by_key), qsort(s.by_first, s.n, sizeof(Entry), by_key);
  qsort(s.by_last, s.n, sizeof(Entry), by_key);
  for (uint32_t k = 0; k < s.n; k++) s.rank[s.by_offset[k].buffer] = k;
  s.last_end = rt_alloc(c->mem, (2 * (size_t)s.n + 2) * sizeof *s.last_end);
  return s;
}

// What begins before a buffer's end overlaps it where it ends behind its beginning.
static void check_overlaps(Check *c) {
  Sweep s = begin_sweep(c);
  for (uint32_t k = 0, ended = 0; k < s.n; k++) {
    uint32_t i = s.by_first[k].buffer;
    const Buffer *b = &c->b[i];
    for (; ended < s.n && s.by_last[ended].key < b->first; ended++) set_living(&s, s.by_last[ended].buffer, false);
    bool is_pair = b->over && c->b[b->over].last == b->first && s.last_end[s.n + s.rank[b->over]] == b->over;
    if (is_pair) set_living(&s, b->over, false);
    uint32_t other = find_living(&s, b->offset + b->bytes);
    if (is_pair) set_living(&s, b->over, true);
    if (end_of(&s, other) > b->offset) fault(c, "buffers %u and %u live at the same time and overlap", other, i);
    if (b->last >= b->first) set_living(&s, i, true);
  }
}

static void check_live(Check *c) {
  long long top = 0, most = 0, *live = rt_alloc(c->mem, (size_t)(c->n_kernels + 2) * sizeof *live);
  for (uint32_t i = 1; i < c->n_b; i++) {
    const Buffer *b = &c->b[i];
    if (!is_in_arena(b)) continue;
    if (b->offset + b->bytes > top) top = b->offset + b->bytes;
    long long first = b->first + (b->over != 0), end = b->last < c->n_kernels ? b->last + 1 : c->n_kernels;
    if (first < end) live[first] += b->bytes, live[end] -= b->bytes;
  }
  for (long long k = 0; k < c->n_kernels; k++) {
    if (k) live[k] += live[k - 1];
    if (live[k] > most) most = live[k];
  }
  if (top != c->arena) fault(c, "the arena is %lld bytes; its buffers end at %lld", c->arena, top);
  bool is_there = c->live_at >= 0 && c->live_at < c->n_kernels && live[c->live_at] == c->live;
  if (most != c->live || (c->n_kernels && !is_there))
    fault(c, "%lld bytes are said to live at kernel %lld; the most is %lld", c->live, c->live_at, most);
  if (c->live > c->arena) fault(c, "%lld bytes live in an arena of %lld", c->live, c->arena);
}

// ---- the bound of all orders: a flow around one kernel
typedef struct {
  uint32_t to, next;
  long long room;
} Arc;

typedef struct {
  Check *c;
  uint32_t *first, n, n_arcs, cap, *from, *queue;
  Arc *arcs;
} Flow;

static void add_arc(Flow *f, uint32_t a, uint32_t b, long long room) {
  *RT_PUSH(f->c->mem, f->arcs, f->n_arcs, f->cap) = (Arc){b, f->first[a], room};
  f->first[a] = f->n_arcs;
  *RT_PUSH(f->c->mem, f->arcs, f->n_arcs, f->cap) = (Arc){a, f->first[b], 0};
  f->first[b] = f->n_arcs;
}

// A shortest path with room; its arcs by Flow.from. False: there is none.
static bool find_path(Flow *f, uint32_t source, uint32_t sink) {
  uint32_t n = 0;
  memset(f->from, 0, f->n * sizeof *f->from);
  f->queue[n++] = source;
  for (uint32_t i = 0; i < n && !f->from[sink]; i++)
    for (uint32_t a = f->first[f->queue[i]]; a; a = f->arcs[a - 1].next) {
      uint32_t to = f->arcs[a - 1].to;
      if (f->arcs[a - 1].room <= 0 || to == source || f->from[to]) continue;
      f->from[to] = a, f->queue[n++] = to;
    }
  return f->from[sink];
}

static long long most_flow(Flow *f, uint32_t source, uint32_t sink) {
  long long sum = 0;
  while (find_path(f, source, sink)) {
    long long least = INT64_MAX;
    for (uint32_t at = sink; at != source; at = f->arcs[(f->from[at] - 1) ^ 1].to)
      if (f->arcs[f->from[at] - 1].room < least) least = f->arcs[f->from[at] - 1].room;
    for (uint32_t at = sink; at != source; at = f->arcs[(f->from[at] - 1) ^ 1].to)
      f->arcs[f->from[at] - 1].room -= least, f->arcs[(f->from[at] - 1) ^ 1].room += least;
    sum += least;
  }
  return sum;
}

// What waits for what: a reader for the writer before it, a writer for the writer and the readers before it. (kernel, what it
// waits for)
typedef struct {
  Link *list;
  uint32_t n, cap;
} Links;

static Links find_waits(Check *c) {
  Links waits = {0};
  uint32_t *writer = rt_alloc(c->mem, (c->n_b + 1) * sizeof *writer), r = 0, w = 0;
  Links *readers = rt_alloc(c->mem, (c->n_b + 1) * sizeof *readers);
  for (uint32_t k = 0; k < c->n_kernels; k++) {
    for (; r < c->n_reads && c->reads[r].of == k; r++) {
      uint32_t b = c->reads[r].by;
      if (writer[b] && writer[b] != k + 1) *RT_PUSH(c->mem, waits.list, waits.n, waits.cap) = (Link){k, writer[b] - 1};
      *RT_PUSH(c->mem, readers[b].list, readers[b].n, readers[b].cap) = (Link){k, b};
    }
    for (; w < c->n_writes && c->writes[w].of == k; w++) {
      uint32_t b = c->writes[w].by;
      if (writer[b] && writer[b] != k + 1) *RT_PUSH(c->mem, waits.list, waits.n, waits.cap) = (Link){k, writer[b] - 1};
      for (uint32_t i = 0; i < readers[b].n; i++)
        if (readers[b].list[i].of != k)
          *RT_PUSH(c->mem, waits.list, waits.n, waits.cap) = (Link){k, readers[b].list[i].of};
      writer[b] = k + 1, readers[b].n = 0;
    }
  }
  return waits;
}

// Links go from a kernel to earlier ones, kernel by kernel: one pass is enough.
static void mark(const Links *waits, bool *before, bool *behind) {
  for (uint32_t i = waits->n; i-- > 0;)
    if (before[waits->list[i].of]) before[waits->list[i].by] = true;
  for (uint32_t i = 0; i < waits->n; i++)
    if (behind[waits->list[i].by]) behind[waits->list[i].of] = true;
}

static void check_orders(Check *c) {
  if (c->orders > c->live)
    fault(c, "the bound of all orders, %lld bytes, is above what lives, %lld", c->orders, c->live);
  if (!c->n_kernels) return;
  if (c->orders_at < 0 || c->orders_at >= c->n_kernels) {
    fault(c, "the bound of all orders is at kernel %lld of %lld", c->orders_at, c->n_kernels);
    return;
  }
  enum { SOURCE, SINK, OTHERS };
  static const long long NEVER = 1LL << 60;
  uint32_t k = (uint32_t)c->orders_at, n = (uint32_t)c->n_kernels;
  bool *before = rt_alloc(c->mem, n), *behind = rt_alloc(c->mem, n);
  Links waits = find_waits(c);
  before[k] = behind[k] = true;
  mark(&waits, before, behind);
  Flow f = {.c = c, .n = OTHERS + n + c->n_b};
  f.first = rt_alloc(c->mem, f.n * sizeof *f.first), f.from = rt_alloc(c->mem, f.n * sizeof *f.from);
  f.queue = rt_alloc(c->mem, f.n * sizeof *f.queue);
  uint32_t *node = rt_alloc(c->mem, n * sizeof *node);
  for (uint32_t i = 0; i < n; i++) node[i] = behind[i] ? SINK : before[i] ? SOURCE : OTHERS + i;
  long long made = 0, read = 0, kept = 0;
  for (uint32_t b = 1; b < c->n_b; b++) {
    const Buffer *buf = &c->b[b];
    if (is_kept(buf) && buf->first == 0 && buf->last == c->n_kernels - 1) kept += buf->bytes;
    if (!is_in_arena(buf) || is_kept(buf) || buf->first < 0 || buf->first >= n) continue;
    if (buf->first == k) made += buf->bytes;
    else if (node[buf->first] != SINK) add_arc(&f, node[buf->first], OTHERS + n + b, buf->bytes);
  }
  for (uint32_t i = 0; i < c->n_reads + c->n_writes; i++) {
    Link use = i < c->n_reads ? c->reads[i] : c->writes[i - c->n_reads];
    const Buffer *buf = &c->b[use.by];
    if (!is_in_arena(buf) || is_kept(buf) || buf->first == use.of) continue;
    if (use.of == k) read += buf->bytes;
    if (node[use.of] != SOURCE) add_arc(&f, OTHERS + n + use.by, node[use.of], NEVER);
  }
  for (uint32_t i = 0; i < waits.n; i++)
    if (node[waits.list[i].of] >= OTHERS && node[waits.list[i].by] >= OTHERS)
      add_arc(&f, node[waits.list[i].of], node[waits.list[i].by], NEVER);
  long long shared = c->in_place[k] < read ? c->in_place[k] : read;
  long long bound = kept + made - shared + most_flow(&f, SOURCE, SINK);
  if (c->orders > bound)
    fault(c, "no order is said to need less than %lld bytes; kernel %u shows %lld", c->orders, k, bound);
}

static void end_function(Check *c) {
  if (!c->function) return;
  if (c->n_seen != c->n_kernels) fault(c, "%lld kernels are said, %lld are listed", c->n_kernels, c->n_seen);
  else {
    check_pairs(c);
    check_lives(c);
    check_overlaps(c);
    check_live(c);
    check_orders(c);
    c->n_functions++;
  }
  c->function = NULL;
}

// ---- reading
static const long long MOST_BYTES = 1LL << 50;  // sums of them do not overflow

static bool is_size(long long n) { return n >= 0 && n <= MOST_BYTES; }
static bool is_kernel(long long n) { return n >= 0 && n <= INT32_MAX; }

static bool begin_function(Check *c, char *line) {
  static const size_t LONGEST = 4096;
  end_function(c);
  char *name = rt_alloc(c->mem, LONGEST);
  if (strlen(line) >= LONGEST || sscanf(line, "function %s %lld %lld %lld %lld %lld %lld", name, &c->n_kernels,
                                        &c->arena, &c->live, &c->live_at, &c->orders, &c->orders_at) != 7)
    return false;
  if (c->n_kernels < 0 || c->n_kernels > 1 << 24 || !is_size(c->arena) || !is_size(c->live) || !is_size(c->orders))
    return false;
  c->function = name, c->n_b = c->n_reads = c->n_writes = 0, c->n_seen = 0;
  c->in_place = rt_alloc(c->mem, (size_t)(c->n_kernels + 1) * sizeof *c->in_place);
  return true;
}

static bool add_buffer(Check *c, char *line) {
  char place[8];
  uint32_t id, over;
  Buffer b = {.used_from = -1, .used_to = -1};
  if (sscanf(line, "buffer %u %7s %lld %lld %lld %lld %u", &id, place, &b.bytes, &b.offset, &b.first, &b.last, &over) !=
      7)
    return false;
  if (!id || id > 1 << 24 || !is_size(b.bytes) || !is_size(b.offset) || !is_kernel(b.first) || !is_kernel(b.last))
    return false;
  while (c->n_b <= id) *RT_PUSH(c->mem, c->b, c->n_b, c->cap_b) = (Buffer){0};
  if (c->b[id].place) return fault(c, "buffer %u is there twice", id), true;
  b.place = rt_strdup(c->mem, place), b.over = over;
  c->b[id] = b;
  return true;
}

// What runs again changes nothing outside of the arena, or it would be changed twice.
static void check_again(Check *c, uint32_t kernel, uint32_t first_write) {
  for (uint32_t i = first_write; i < c->n_writes; i++)
    if (strcmp(c->b[c->writes[i].by].place, "arena"))
      fault(c, "kernel %u runs again and writes buffer %u, which is none of the arena", kernel, c->writes[i].by);
}

static bool add_uses(Check *c, char **at, uint32_t kernel, bool writes) {
  for (;;) {
    char *end;
    unsigned long id = strtoul(*at, &end, 10);
    if (end == *at) return true;
    *at = end;
    if (!id || id >= c->n_b || !c->b[id].place)
      return fault(c, "kernel %u uses buffer %lu, which is not listed", kernel, id), true;
    Buffer *b = &c->b[id];
    if (writes) *RT_PUSH(c->mem, c->writes, c->n_writes, c->cap_writes) = (Link){kernel, (uint32_t)id};
    else *RT_PUSH(c->mem, c->reads, c->n_reads, c->cap_reads) = (Link){kernel, (uint32_t)id};
    if (b->used_from < 0) b->used_from = kernel, b->begins_written = false;
    if (b->used_from == kernel) b->begins_written |= writes;
    b->used_to = kernel;
  }
}

static bool add_kernel(Check *c, char *line) {
  uint32_t k;
  int n = 0;
  long long in_place;
  if (sscanf(line, "kernel %u %*s %lld%n", &k, &in_place, &n) != 2 || !n || k != c->n_seen || k >= c->n_kernels ||
      !is_size(in_place))
    return false;
  c->in_place[k] = in_place, c->n_seen++;
  char *at = line + n;
  bool again = !strncmp(at, " again", 6);
  uint32_t first_write = c->n_writes;
  at += again ? 6 : 0;
  if (strncmp(at, " reads", 6)) return false;
  at += 6;
  if (!add_uses(c, &at, k, false)) return false;
  at += strspn(at, " ");
  if (strncmp(at, "writes", 6)) return false;
  at += 6;
  if (!add_uses(c, &at, k, true)) return false;
  if (again) check_again(c, k, first_write);
  return true;
}

// FNV-1a of all bytes before the last line
static uint64_t digest_of(const char *text, size_t n) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  return h;
}

static bool read_line(Check *c, char *line, const char *whole, size_t before) {
  unsigned long long digest;
  if (c->line == 1) return !strcmp(line, "tenure-plan 1");
  if (!strncmp(line, "program ", 8)) return true;
  if (!strncmp(line, "function ", 9)) return begin_function(c, line);
  if (!strncmp(line, "buffer ", 7) && c->function) return add_buffer(c, line);
  if (!strncmp(line, "kernel ", 7) && c->function) return add_kernel(c, line);
  if (sscanf(line, "end %llx", &digest) != 1) return false;
  end_function(c);
  c->digest = digest;
  if (digest != digest_of(whole, before)) fault(c, "the digest is not that of the lines before it");
  return true;
}

// NAME.h has the line `#define NAME_CERTIFICATE 0x..u`.
static bool is_of_bundle(Check *c, const char *path) {
  static const char mark[] = "_CERTIFICATE 0x";
  if (!path) return true;
  size_t n;
  const char *text = tool_read_file(c->mem, path, &n);
  if (!text) return fprintf(stderr, "tenure: %s: %s\n", path, strerror(errno)), false;
  const char *at = strstr(text, mark);
  if (!at) return fprintf(stderr, "tenure: %s: no header of a bundle: it has no certificate's digest\n", path), false;
  uint64_t digest = strtoull(at + strlen(mark), NULL, 16);
  return digest == c->digest ||
         fault(c, "the plan is not that of %s, whose digest is %016llx", path, (unsigned long long)digest);
}

static int verify_in(RtArena *mem, void *ctx) {
  Check c = {.path = ((const CliArgs *)ctx)->operand[0], .mem = mem};
  size_t n = 0;
  char *text = tool_read_file(mem, c.path, &n), *end = NULL;
  if (!text) return fprintf(stderr, "tenure: %s: %s\n", c.path, strerror(errno)), EXIT_ERRORS;
  bool has_end = false;
  for (size_t at = 0; at < n; at = (size_t)(end - text) + 1) {
    end = memchr(text + at, '\n', n - at);
    if (!end) end = text + n;
    char *line = rt_strndup(mem, text + at, (size_t)(end - text) - at);
    c.line++;
    if (has_end || !read_line(&c, line, text, at)) {
      fprintf(stderr, "tenure: %s:%u: no line of a certificate\n", c.path, c.line);
      return EXIT_ERRORS;
    }
    has_end = !strncmp(line, "end ", 4);
  }
  if (!has_end) return fprintf(stderr, "tenure: %s: ends early\n", c.path), EXIT_ERRORS;
  if (!is_of_bundle(&c, cli_value(ctx, "--bundle"))) return EXIT_ERRORS;
  if (c.n_faults) return EXIT_ERRORS;
  printf("%u functions hold\n", c.n_functions);
  return 0;
}

int tool_verify_plan(const CliArgs *a) { return tool_with_arena(verify_in, (void *)(uintptr_t)a); }
