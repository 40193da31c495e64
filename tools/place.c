// tenure plan FILE.csv: offsets for buffers in minimalloc's format, written back as a column `offset`.
//
//   id,lower,upper,size        id,lower,upper,size,offset
//   b1,0,3,4              ->   b1,0,3,4,8
//
// Columns, in any order: id (buffer, buffer_id), lower (start, begin), upper (or end, which is included), size; alignment,
// gaps ("3-5 7-9": parts of the life in which the bytes may be others') and offset (given where it is not empty).
#include "ir/placement/placement.h"
#include "runtime/format.h"
#include "runtime/near.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <errno.h>
#include <string.h>

typedef enum { ID, LOWER, UPPER, SIZE, ALIGNMENT, GAPS, OFFSET, N_COLUMNS } Column;
static const struct {
  const char *name;
  Column column;
} names[] = {{"id", ID},       {"buffer", ID},   {"buffer_id", ID},        {"lower", LOWER},
             {"start", LOWER}, {"begin", LOWER}, {"upper", UPPER},         {"end", UPPER},
             {"size", SIZE},   {"gaps", GAPS},   {"alignment", ALIGNMENT}, {"offset", OFFSET}};
enum { MOST_FIELDS = 16 };

typedef struct {
  const char *text;
  size_t n;
} Field;

typedef struct {
  const CliArgs *args;
  const char *path;
  RtArena *mem;
  int32_t at[N_COLUMNS];  // by column: which field; -1: none
  uint32_t n_fields;
  bool end_is_included;
  Field header, *lines;  // of the buffers, without the line's end
  uint32_t *number;      // of the line, from 1
  PlaceBuffer *buffers;
  uint32_t n, cap, n_numbers, cap_numbers, n_lines, cap_lines;
} Csv;

static bool bad_line(const Csv *c, uint32_t line, const char *fmt, ...) RT_PRINTF(3, 4);
static bool bad_line(const Csv *c, uint32_t line, const char *fmt, ...) {
  va_list ap;
  char what[256];
  va_start(ap, fmt);
  rt_vformat(what, sizeof what, fmt, ap);
  va_end(ap);
  fprintf(stderr, "tenure: %s:%u: %s\n", c->path, line, what);
  return false;
}

static uint32_t split(Field line, Field *out) {
  uint32_t n = 0;
  const char *s = line.text, *end = line.text + line.n;
  for (;;) {
    const char *comma = memchr(s, ',', (size_t)(end - s)), *stop = comma ? comma : end;
    if (n < MOST_FIELDS) out[n] = (Field){s, (size_t)(stop - s)};
    n++;
    if (!comma) return n;
    s = comma + 1;
  }
}

static bool is_named(Field f, const char *name) { return strlen(name) == f.n && !memcmp(f.text, name, f.n); }

static bool read_name(Csv *c, Field f, uint32_t k) {
  RtNear near = {.wanted = rt_strndup(c->mem, f.text, f.n)};
  for (uint32_t m = 0; m < sizeof names / sizeof *names; m++) {
    rt_near_offer(&near, names[m].name);
    if (!is_named(f, names[m].name)) continue;
    if (c->at[names[m].column] >= 0) return bad_line(c, 1, "column '%s' is there twice", near.wanted);
    c->at[names[m].column] = (int32_t)k;
    c->end_is_included |= !strcmp(names[m].name, "end");
    return true;
  }
  return bad_line(c, 1, "unknown column '%s'%s; columns are id, lower, upper, size, alignment, gaps and offset",
                  near.wanted, rt_near_text(&near));
}

static bool read_header(Csv *c, Field line) {
  static const char *const wanted[] = {"id", "lower", "upper", "size"};
  Field field[MOST_FIELDS];
  c->header = line, c->n_fields = split(line, field);
  for (uint32_t k = 0; k < N_COLUMNS; k++) c->at[k] = -1;
  for (uint32_t k = 0; k < c->n_fields; k++)
    if (k >= MOST_FIELDS || !read_name(c, field[k], k))
      return k < MOST_FIELDS ? false : bad_line(c, 1, "too many columns");
  for (uint32_t k = ID; k <= SIZE; k++)
    if (c->at[k] < 0) return bad_line(c, 1, "there is no column '%s'", wanted[k]);
  return true;
}

static bool read_int(const Csv *c, uint32_t line, const char *what, Field f, int64_t *out) {
  if (rt_read_i64(f.text, f.n, out)) return true;
  return bad_line(c, line, "%s is '%.*s', and must be a whole number", what, (int)(f.n < 40 ? f.n : 40), f.text);
}

// "3-5 7-9"; ends are as those of the life
static bool read_gaps(Csv *c, uint32_t line, Field f, PlaceBuffer *b) {
  PlaceSpan *holes = NULL;
  uint32_t n = 0, cap = 0;
  for (const char *s = f.text, *end = f.text + f.n; s < end;) {
    const char *space = memchr(s, ' ', (size_t)(end - s)), *stop = space ? space : end;
    const char *dash = stop - s > 1 ? memchr(s + 1, '-', (size_t)(stop - s - 1)) : NULL;
    PlaceSpan hole;
    if (stop > s && memchr(s, '@', (size_t)(stop - s)))
      return bad_line(c, line, "gaps with a window ('@') are not known here");
    if (stop > s && !dash) return bad_line(c, line, "a gap is '%.*s', and must be START-END", (int)(stop - s), s);
    if (stop > s) {
      if (!read_int(c, line, "a gap's start", (Field){s, (size_t)(dash - s)}, &hole.lower) ||
          !read_int(c, line, "a gap's end", (Field){dash + 1, (size_t)(stop - dash - 1)}, &hole.upper))
        return false;
      hole.upper += c->end_is_included && hole.upper < INT64_MAX;
      *RT_PUSH(c->mem, holes, n, cap) = hole;
    }
    s = stop + 1;
  }
  b->holes = holes, b->n_holes = n;
  return true;
}

static bool read_buffer(Csv *c, Field line, uint32_t number) {
  Field f[MOST_FIELDS];
  uint32_t n = split(line, f);
  PlaceBuffer b = {.fixed = PLACE_ANY};
  if (n != c->n_fields) return bad_line(c, number, "%u fields, where the header has %u", n, c->n_fields);
  if (!read_int(c, number, "lower", f[c->at[LOWER]], &b.lower) ||
      !read_int(c, number, "upper", f[c->at[UPPER]], &b.upper) || !read_int(c, number, "size", f[c->at[SIZE]], &b.size))
    return false;
  b.upper += c->end_is_included && b.upper < INT64_MAX;
  if (c->at[ALIGNMENT] >= 0 && !read_int(c, number, "alignment", f[c->at[ALIGNMENT]], &b.align)) return false;
  if (c->at[GAPS] >= 0 && !read_gaps(c, number, f[c->at[GAPS]], &b)) return false;
  if (c->at[OFFSET] >= 0 && f[c->at[OFFSET]].n) {
    if (!read_int(c, number, "offset", f[c->at[OFFSET]], &b.fixed)) return false;
    if (b.fixed < 0) return bad_line(c, number, "offset is %lld, and must be 0 or more, or empty", (long long)b.fixed);
  }
  *RT_PUSH(c->mem, c->buffers, c->n, c->cap) = b;
  *RT_PUSH(c->mem, c->number, c->n_numbers, c->cap_numbers) = number;
  *RT_PUSH(c->mem, c->lines, c->n_lines, c->cap_lines) = line;
  return true;
}

static bool read_csv(Csv *c) {
  size_t size;
  char *text = tool_read_file(c->mem, c->path, &size);
  if (!text) {
    fprintf(stderr, "tenure: %s: %s\n", c->path, strerror(errno));
    return false;
  }
  uint32_t number = 0;
  for (char *s = text, *end = text + size; s < end;) {
    char *stop = memchr(s, '\n', (size_t)(end - s));
    if (!stop) stop = end;
    Field line = {s, (size_t)(stop - s)};
    if (line.n && line.text[line.n - 1] == '\r') line.n--;
    s = stop + 1, number++;
    if (line.n && !(c->n_fields ? read_buffer(c, line, number) : read_header(c, line))) return false;
  }
  return c->n_fields || bad_line(c, 1, "no header: expected id,lower,upper,size");
}

// ---- what comes out
static void put_line(const Csv *c, Field line, const char *offset, RtText *out) {
  Field f[MOST_FIELDS];
  uint32_t n = split(line, f);
  for (uint32_t k = 0; k < n; k++) {
    if (k) rt_text_put(out, ",", 1);
    if ((int32_t)k == c->at[OFFSET]) rt_text_add(out, "%s", offset);
    else rt_text_put(out, f[k].text, f[k].n);
  }
  if (c->at[OFFSET] < 0) rt_text_add(out, ",%s", offset);
  rt_text_put(out, "\n", 1);
}

static bool put_csv(const Csv *c, const Placement *p) {
  RtText out = {.mem = c->mem};
  put_line(c, c->header, "offset", &out);
  for (uint32_t k = 0; k < c->n; k++) {
    char offset[24];
    snprintf(offset, sizeof offset, "%lld", (long long)p->offsets[k]);
    put_line(c, c->lines[k], offset, &out);
  }
  return tool_put_file(cli_value(c->args, "-o"), &out);
}

static const char *verdict(const Placement *p, int64_t capacity) {
  if (p->is_refused) return ", and no placement is within the capacity";
  if (capacity && p->peak > capacity) return ": above the capacity, which the budget did not reach";
  return p->is_optimal ? ", the least" : "";
}

static bool put_summary(const Csv *c, const Placement *p, int64_t capacity) {
  RtText out = {.mem = c->mem};
  double gap = p->lower_bound ? 100.0 * (double)(p->peak - p->lower_bound) / (double)p->lower_bound : 0;
  if (!cli_has(c->args, "--json")) {
    rt_text_add(&out, "peak %lld, lower bound %lld, gap %.1f %%%s; %u buffers, %lld units of search\n",
                (long long)p->peak, (long long)p->lower_bound, gap, verdict(p, capacity), c->n, (long long)p->spent);
    if (cli_value(c->args, "-o")) return tool_put(&out);
    return fputs(out.text, stderr) >= 0;
  }
  json_open(&out, NULL, '{');
  json_int(&out, "buffers", c->n), json_int(&out, "peak", p->peak), json_int(&out, "lower_bound", p->lower_bound);
  json_bool(&out, "optimal", p->is_optimal), json_bool(&out, "impossible", p->is_refused);
  json_int(&out, "units", p->spent);
  json_open(&out, "offsets", '[');
  for (uint32_t k = 0; k < c->n; k++) json_int(&out, NULL, p->offsets[k]);
  json_close(&out, ']');
  json_close(&out, '}');
  rt_text_put(&out, "\n", 1);
  return tool_put(&out);
}

static bool place(const Csv *c, const PlaceProblem *p, Placement *out) {
  PlaceFault f;
  if (ir_place(p, c->mem, out, &f) && ir_place_check(p, out->offsets, out->peak, c->mem, &f)) return true;
  if (f.other == f.buffer) return bad_line(c, c->number[f.buffer], "the buffer %s", f.text);
  return bad_line(c, c->number[f.buffer], "the buffer %s, that of line %u", f.text, c->number[f.other]);
}

static int plan_in(RtArena *mem, void *ctx) {
  Csv c = {.args = ctx, .path = ((const CliArgs *)ctx)->operand[0], .mem = mem};
  PlaceProblem p = {0};
  Placement out;
  if (!cli_bytes(c.args, "--capacity", 0, &p.capacity) || !cli_bytes(c.args, "--align", 1, &p.align) ||
      !cli_number(c.args, "--budget", (CliRange){0, INT64_C(1) << 50}, 400000, &p.budget))
    return EXIT_USAGE;
  if (!read_csv(&c)) return EXIT_ERRORS;
  p.buffers = c.buffers, p.n = c.n;
  if (!place(&c, &p, &out)) return EXIT_ERRORS;
  if ((!cli_has(c.args, "--json") || cli_value(c.args, "-o")) && !put_csv(&c, &out)) return EXIT_ERRORS;
  if (!put_summary(&c, &out, p.capacity)) return EXIT_ERRORS;
  return p.capacity && out.peak > p.capacity ? EXIT_ERRORS : 0;
}

int tool_plan(const CliArgs *a) { return tool_with_arena(plan_in, (void *)(uintptr_t)a); }
