// Arenas, growable text, diagnostics, hashing and the counted allocator.
//
// An arena is a list of blocks, newest first; an allocation moves a pointer forward in the newest block:
//
//   newest block   [header | used ........ | free ....... ]
//   older block    [header | used ................. | gap ]
#include "runtime/base.h"
#include "runtime/format.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// ---- counted allocator

static atomic_uint_fast64_t n_mallocs;
static atomic_uint_fast64_t fail_after;  // allocations until one fails; 0: never

void rt_malloc_fail_at(uint64_t n) { atomic_store(&fail_after, n); }

uint64_t rt_malloc_count(void) { return atomic_load_explicit(&n_mallocs, memory_order_relaxed); }

bool rt_malloc_refused(void) {
  atomic_fetch_add_explicit(&n_mallocs, 1, memory_order_relaxed);
  uint_fast64_t left = atomic_load_explicit(&fail_after, memory_order_relaxed);
  while (left && !atomic_compare_exchange_weak(&fail_after, &left, left - 1)) {}
  return left == 1;
}

void *rt_malloc(size_t bytes) { return rt_malloc_refused() ? NULL : malloc(bytes ? bytes : 1); }

void *rt_realloc(void *p, size_t bytes) { return rt_malloc_refused() ? NULL : realloc(p, bytes ? bytes : 1); }

void *rt_malloc_aligned(size_t align, size_t bytes) {
  void *p = NULL;
  return rt_malloc_refused() || posix_memalign(&p, align, bytes ? bytes : 1) ? NULL : p;
}

void rt_free(void *p) { free(p); }

// ---- build arena

enum { ARENA_ALIGN = 16, FIRST_BLOCK = 16 << 10, LARGEST_STEP = 1 << 20 };

typedef struct Block {
  struct Block *older;
  size_t size, used;  // of `bytes`
  _Alignas(ARENA_ALIGN) unsigned char bytes[];
} Block;

struct RtArena {
  Block *newest;
  size_t next_size;  // of the next ordinary block
  size_t total;      // bytes held from the system
  jmp_buf *handler;
};

RtArena *rt_arena_new(void) {
  RtArena *a = rt_malloc(sizeof *a);
  if (a) *a = (RtArena){.next_size = FIRST_BLOCK, .total = sizeof *a};
  return a;
}

void rt_arena_free(RtArena *a) {
  if (!a) return;
  for (Block *b = a->newest, *older; b; b = older) {
    older = b->older;
    rt_free(b);
  }
  rt_free(a);
}

jmp_buf *rt_arena_on_oom(RtArena *a, jmp_buf *handler) {
  jmp_buf *before = a->handler;
  a->handler = handler;
  return before;
}

size_t rt_arena_bytes(const RtArena *a) {
  return a->newest ? a->total - (a->newest->size - a->newest->used) : a->total;
}

_Noreturn static void out_of_memory(RtArena *a) {
  if (a->handler) longjmp(*a->handler, 1);
  abort();
}

static size_t round_up(size_t bytes) { return (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1); }

static void add_block(RtArena *a, size_t need) {
  size_t size = need > a->next_size ? need : a->next_size;
  Block *b = rt_malloc(sizeof *b + size);
  if (!b) out_of_memory(a);
  *b = (Block){.older = a->newest, .size = size};
  a->newest = b;
  a->total += sizeof *b + size;
  if (a->next_size < LARGEST_STEP) a->next_size *= 2;
}

// Space without its first bytes cleared: the caller clears or fills it.
static unsigned char *take(RtArena *a, size_t bytes) {
  if (bytes > PTRDIFF_MAX / 2) out_of_memory(a);
  bytes = round_up(bytes ? bytes : 1);
  if (!a->newest || a->newest->size - a->newest->used < bytes) add_block(a, bytes);
  unsigned char *p = a->newest->bytes + a->newest->used;
  a->newest->used += bytes;
  return p;
}

void *rt_alloc(RtArena *a, size_t bytes) { return memset(take(a, bytes), 0, bytes); }

// True when `p` was the last allocation and the newest block had room to make it longer.
static bool extend_in_place(RtArena *a, unsigned char *p, size_t old_bytes, size_t new_bytes) {
  Block *b = a->newest;
  if (!b || !p || !old_bytes || p + round_up(old_bytes) != b->bytes + b->used) return false;
  size_t start = (size_t)(p - b->bytes);
  if (b->size - start < round_up(new_bytes)) return false;
  b->used = start + round_up(new_bytes);
  return true;
}

void *rt_grow(RtArena *a, void *old, size_t old_bytes, size_t new_bytes) {
  if (new_bytes > PTRDIFF_MAX / 2) out_of_memory(a);
  if (new_bytes <= old_bytes && old) return old;
  unsigned char *p = old;
  if (!extend_in_place(a, old, old_bytes, new_bytes)) {
    p = take(a, new_bytes);
    if (old_bytes) memcpy(p, old, old_bytes);
  }
  memset(p + old_bytes, 0, new_bytes - old_bytes);
  return p;
}

char *rt_strndup(RtArena *a, const char *s, size_t n) {
  char *copy = (char *)take(a, n + 1);
  if (n) memcpy(copy, s, n);
  copy[n] = 0;
  return copy;
}

char *rt_strdup(RtArena *a, const char *s) { return rt_strndup(a, s, strlen(s)); }

static char *print_to_arena(RtArena *a, const char *fmt, va_list args) RT_PRINTF(2, 0);
static char *print_to_arena(RtArena *a, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = rt_vformat(NULL, 0, fmt, args);
  char *text = (char *)take(a, (size_t)(n < 0 ? 0 : n) + 1);
  text[0] = 0;
  if (n > 0) rt_vformat(text, (size_t)n + 1, fmt, again);
  va_end(again);
  return text;
}

char *rt_printf(RtArena *a, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  char *text = print_to_arena(a, fmt, args);
  va_end(args);
  return text;
}

// ---- growable text

// Room for n more bytes and the closing 0.
static void reserve(RtText *t, size_t n) {
  if (t->cap - t->len > n) return;
  size_t cap = t->cap ? t->cap * 2 : 128;
  if (cap < t->len + n + 1) cap = t->len + n + 1;
  t->text = rt_grow(t->mem, t->text, t->cap, cap);
  t->cap = cap;
}

void rt_text_put(RtText *t, const char *bytes, size_t n) {
  reserve(t, n);
  if (n) memcpy(t->text + t->len, bytes, n);
  t->len += n;
  t->text[t->len] = 0;
}

void rt_text_add(RtText *t, const char *fmt, ...) {
  reserve(t, 0);
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = rt_vformat(t->text + t->len, t->cap - t->len, fmt, args);
  va_end(args);
  if (n > 0 && (size_t)n >= t->cap - t->len) {
    reserve(t, (size_t)n);
    rt_vformat(t->text + t->len, t->cap - t->len, fmt, again);
  }
  va_end(again);
  if (n > 0) t->len += (size_t)n;
}

size_t rt_utf8_length(const void *text, size_t left) {
  const unsigned char *s = text;
  if (left == 0) return 0;
  if (s[0] < 0x80) return 1;
  size_t n = s[0] >= 0xf5 ? 0 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
  if (n > left) return 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  bool too_long = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  bool no_character = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
  return too_long || no_character ? 0 : n;
}

// ---- diagnostics

void rt_diag(RtDiags *d, RtSeverity severity, uint16_t id, const char *file, uint32_t line, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  const char *text = print_to_arena(d->mem, fmt, args);
  va_end(args);
  const char *kept = file ? rt_strdup(d->mem, file) : NULL;
  *RT_PUSH(d->mem, d->list, d->n, d->cap) =
      (RtDiag){.severity = severity, .id = id, .file = kept, .line = line, .text = text};
  d->n_errors += severity == RT_ERROR;
  d->n_warnings += severity == RT_WARNING;
}

void rt_diags_clear(RtDiags *d) { d->n = d->n_errors = d->n_warnings = 0; }

// A mistake in a loop is one report: groups (an error with its notes and hints) that differ in numbers alone are printed
// once, with how often they came and whom the others name.
typedef struct {
  RtSeverity least;
  bool only_new;
} Choice;
static const Choice everything = {RT_NOTE, false};

static bool begins_group(const RtDiag *g) { return g->id || g->severity >= RT_WARNING; }

static bool begins_chosen(const RtDiag *g, Choice c) {
  return begins_group(g) && g->severity >= c.least && !(c.only_new && g->is_shown);
}

static uint64_t hash_but_numbers(const char *text, uint64_t h) {
  for (const char *s = text ? text : ""; *s; s++) {
    bool digit = *s >= '0' && *s <= '9', again = digit && s > text && s[-1] >= '0' && s[-1] <= '9';
    if (!again) h = rt_hash(digit ? "0" : s, 1, h);
  }
  return h;
}

static uint64_t hash_group(const RtDiags *d, uint32_t first) {
  uint64_t h = 0;
  for (uint32_t i = first; i < d->n && (i == first || !begins_group(&d->list[i])); i++) {
    const RtDiag *g = &d->list[i];
    const uint32_t numbers[] = {(uint32_t)g->severity, g->id, g->line, g->column};
    h = rt_hash(numbers, sizeof numbers, h);
    h = hash_but_numbers(g->text, g->file ? rt_hash(g->file, strlen(g->file), h) : h);
  }
  return h ? h : 1;
}

typedef struct {
  uint64_t hash;  // 0: free
  uint32_t first, last;
} Seen;

typedef struct {
  uint32_t times;  // 0: a repetition
  uint32_t next;   // the next one of the same group; 0: none
} Repeats;

// By diagnostic: how often the group that it begins came. NULL: no memory, all are printed.
static Repeats *count_groups(const RtDiags *d, Choice c) {
  uint32_t cap = 8;
  while (cap < 2 * d->n) cap *= 2;
  Repeats *group = rt_malloc(d->n * sizeof *group);
  Seen *seen = group ? rt_malloc(cap * sizeof *seen) : NULL;
  if (seen) memset(seen, 0, cap * sizeof *seen);
  for (uint32_t i = 0; seen && i < d->n; i++) {
    group[i] = (Repeats){1, 0};
    if (!begins_chosen(&d->list[i], c)) continue;
    uint64_t h = hash_group(d, i);
    uint32_t at = (uint32_t)h & (cap - 1);
    while (seen[at].hash && seen[at].hash != h) at = (at + 1) & (cap - 1);
    if (!seen[at].hash) seen[at] = (Seen){h, i, i};
    else {
      group[i].times = 0, group[seen[at].first].times++;
      seen[at].last = group[seen[at].last].next = i;
    }
  }
  if (!seen) rt_free(group);
  rt_free(seen);
  return seen ? group : NULL;
}

// What is printed: diagnostic i, and how often it came; group: NULL: once
typedef struct {
  const RtDiags *d;
  const Repeats *group;
  uint32_t i;
  bool is_first;
} Printed;
static uint32_t times_of(const Printed *p) { return p->group ? p->group[p->i].times : 1; }

static void each_once(const RtDiags *d, Choice c, void (*print)(const Printed *p, FILE *), FILE *out) {
  Repeats *group = count_groups(d, c);
  Printed p = {d, group, 0, true};
  bool shown = !c.only_new;
  for (; p.i < d->n; p.i++) {
    if (begins_group(&d->list[p.i])) shown = begins_chosen(&d->list[p.i], c) && times_of(&p);
    if (shown) print(&p, out), p.is_first = false;
  }
  rt_free(group);
}

static const char *const severity_name[] = {"note", "hint", "warning", "error"};

static char id_letter(RtSeverity s) { return s == RT_WARNING ? 'W' : 'E'; }

static bool has_id(const RtDiag *g) { return g->id; }

// Where the names in quotes begin in which b differs from a; NULL: they name the same
static const char *other_name(const char *a, const char *b) {
  for (;;) {
    a = strchr(a, '\''), b = strchr(b, '\'');
    if (!a || !b) return NULL;
    size_t n = strcspn(a + 1, "'"), m = strcspn(b + 1, "'");
    if (n != m || strncmp(a, b, n + 1) != 0) return b;
    if (!a[n + 1] || !b[m + 1]) return NULL;
    a += n + 2, b += m + 2;
  }
}

// Whom the repetitions of a group name, as far as they fit on a line
static void print_others(const Printed *p, FILE *out) {
  enum { MOST_NAMED = 4 };
  uint32_t n = 0;
  for (uint32_t i = p->group ? p->group[p->i].next : 0; i; i = p->group[i].next) {
    const char *name = other_name(p->d->list[p->i].text, p->d->list[i].text);
    if (!name) continue;
    if (n == MOST_NAMED) fputs(", ..", out);
    if (n++ == MOST_NAMED) break;
    fprintf(out, "%s%.*s'", n == 1 ? "; likewise " : ", ", (int)strcspn(name + 1, "'") + 1, name);
  }
}

static void print_line(const Printed *p, FILE *out) {
  const RtDiag *g = &p->d->list[p->i];
  if (g->file && g->severity != RT_HINT) {
    fputs(g->file, out);
    if (g->line) fprintf(out, ":%" PRIu32, g->line);
    if (g->line && g->column) fprintf(out, ":%" PRIu32, g->column);
    fputs(": ", out);
  }
  fputs(severity_name[g->severity], out);
  if (has_id(g)) fprintf(out, "[%c%03u]", id_letter(g->severity), g->id);
  if (times_of(p) > 1) fprintf(out, " (x %" PRIu32 ")", times_of(p));
  fprintf(out, ": %s", g->text);
  print_others(p, out);
  fputc('\n', out);
}

void rt_diags_print(const RtDiags *d, FILE *out) { each_once(d, everything, print_line, out); }

void rt_diags_show(RtDiags *d, RtSeverity least, FILE *out) {
  const Choice c = {least, true};
  if (!d->n) return;
  flockfile(out);  // lines of one report stay together where threads compile
  each_once(d, c, print_line, out);
  funlockfile(out);
  for (uint32_t i = 0; i < d->n; i++) d->list[i].is_shown |= begins_chosen(&d->list[i], c);
}

static void print_json_string(const char *text, FILE *out) {
  fputc('"', out);
  for (const unsigned char *s = (const unsigned char *)text; *s;) {
    size_t n = rt_utf8_length(s, strnlen((const char *)s, 4));
    if (*s == '"' || *s == '\\') fprintf(out, "\\%c", *s);
    else if (*s == '\n') fputs("\\n", out);
    else if (*s < 0x20) fprintf(out, "\\u%04x", *s);
    else if (n == 0) fputs("\\ufffd", out);
    else fwrite(s, 1, n, out);
    s += n ? n : 1;
  }
  fputc('"', out);
}

static void print_json(const Printed *p, FILE *out) {
  const RtDiag *g = &p->d->list[p->i];
  fprintf(out, "%s\n  {\"severity\": \"%s\"", p->is_first ? "" : ",", severity_name[g->severity]);
  if (has_id(g)) fprintf(out, ", \"id\": \"%c%03u\"", id_letter(g->severity), g->id);
  if (times_of(p) > 1) fprintf(out, ", \"times\": %" PRIu32, times_of(p));
  if (g->file) {
    fputs(", \"file\": ", out);
    print_json_string(g->file, out);
  }
  if (g->line) fprintf(out, ", \"line\": %" PRIu32, g->line);
  if (g->column) fprintf(out, ", \"column\": %" PRIu32, g->column);
  fputs(", \"text\": ", out);
  print_json_string(g->text, out);
  fputs("}", out);
}

void rt_diags_print_json(const RtDiags *d, FILE *out) {
  fputs("[", out);
  each_once(d, everything, print_json, out);
  fputs(d->n ? "\n]\n" : "]\n", out);
}

// ---- one sentence

bool rt_fail(char *error, size_t error_size, const char *fmt, ...) {
  if (!error || !error_size) return false;
  va_list args;
  va_start(args, fmt);
  rt_vformat(error, error_size, fmt, args);
  va_end(args);
  return false;
}

// ---- hashing: 8 bytes a step through a 64x64 -> 128 bit product, folded

static uint64_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load_le(const unsigned char *p, size_t n) {
  uint64_t v = 0;
  for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
  return v;
}

uint64_t rt_hash(const void *bytes, size_t n, uint64_t seed) {
  const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd1b54a32d192ed03u;
  const unsigned char *p = bytes;
  uint64_t h = mix(seed ^ k0, (uint64_t)n ^ k1);
  size_t left = n;
  for (; left >= 8; left -= 8, p += 8) h = mix(h ^ load_le(p, 8) ^ k1, k0) + h;
  if (left) h = mix(h ^ load_le(p, left) ^ k1, k0) + h;
  return mix(h ^ k0, k1 ^ (h >> 32));
}
