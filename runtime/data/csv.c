#include "runtime/data/csv.h"
#include "runtime/exec/numbers.h"
#include "runtime/format.h"
#include "runtime/names.h"
#include "runtime/near.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 1 << 16, MOST_RECORD = 1 << 24, MOST_COLUMNS = 1 << 16, WHAT = 200 };

// What one column of the file becomes.
typedef struct {
  uint32_t field, place;  // field.n_fields: nothing
} Target;

typedef struct {
  RtArena *mem;
  RtSource source;
  char delimiter;
  bool allow_missing;
  const char *missing;
  double fill;
  const char **names;  // of columns
  uint32_t n_columns, cap_names;
  RtCsvField *fields;
  RtNames *classes;  // by field
  uint32_t n_fields;
  bool takes_all;          // one field of all columns in their order, whatever they are called
  Target *targets;         // uses of columns, by column
  uint32_t *first_target;  // [n_columns + 1]
  uint64_t *records;       // where each begins; on the heap
  size_t n_records, cap_records;
  char *buffer;     // while opening: a piece of the file and one byte more; on the heap
  uint64_t end;     // of the last one
  uint64_t first;   // line of the first one
  uint64_t header;  // line of the names
} Csv;

typedef struct {
  char *text;  // unquoted, 0-terminated
  size_t n;
  bool was_quoted;
  uint64_t line;
} Cell;

// ---- records: cells are unquoted in place

typedef struct {
  char *at, *end, *to;
  char delimiter;
  uint64_t line;
} Record;

// LF, CR LF, or CR alone; `next` is the byte after c, any other at the end of the file.
static bool ends_line(char c, char next) { return c == '\n' || (c == '\r' && next != '\n'); }

// The next cell; *last: nothing but a line end follows. False: the quotes are wrong, or a byte is no text.
static bool next_cell(Record *r, Cell *out, bool *last, const char **problem) {
  *out = (Cell){.text = r->at, .line = r->line, .was_quoted = r->at < r->end && *r->at == '"'};
  r->to = r->at;
  bool inside = out->was_quoted;
  if (inside) r->at++;
  for (; r->at < r->end; r->at++) {
    char c = *r->at;
    if (c == 0) return *problem = "a byte 0, which is no text", false;
    if (inside && c == '"' && r->at + 1 < r->end && r->at[1] == '"') r->at++;
    else if (inside && c == '"') {
      inside = false;
      continue;
    } else if (!inside && (c == r->delimiter || c == '\n' || c == '\r')) break;
    else if (!inside && (c == '"' || out->was_quoted)) {
      *problem = c == '"' ? "a quote inside a cell without quotes" : "text behind the closing quote";
      return false;
    }
    r->line += ends_line(c, r->at + 1 < r->end ? r->at[1] : 0);
    *r->to++ = c;
  }
  *problem = "a quoted cell that does not end";
  if (inside) return false;
  *last = r->at == r->end || *r->at != r->delimiter;
  if (!*last) r->at++;
  out->n = (size_t)(r->to - out->text);
  *r->to = 0;  // where its end or the delimiter stood, which is behind us
  return true;
}

static bool fail_at(const Csv *c, uint64_t line, uint32_t column, char *error, size_t error_size, const char *what) {
  const char *name = column < c->n_columns ? c->names[column] : "";
  return rt_fail(error, error_size, "%s:%" PRIu64 ": column %" PRIu32 "%s%.60s%s: %s", c->source.name, line, column + 1,
                 *name ? " (" : "", name, *name ? ")" : "", what);
}

// ---- cells
static bool is_missing(const Csv *c, const Cell *cell) {
  return (cell->n == 0 && !cell->was_quoted) || (c->missing && !strcmp(cell->text, c->missing));
}

static bool put_float(const RtCsvField *f, float v, uint32_t place, void *to) {
  rt_put_float(v, f->dtype, to, place);
  return isfinite(rt_get_float(f->dtype, to, place)) || !isfinite(v);
}

// False: it does not fit
static bool put_class(const RtCsvField *f, uint32_t k, uint32_t place, void *to) {
  return rt_dtype_is_float(f->dtype) ? put_float(f, (float)k, place, to) : rt_put_whole(k, f->dtype, to, place);
}

static bool take_class(const RtCsvField *f, const RtNames *classes, const Cell *cell, uint32_t place, void *to,
                       char what[WHAT]) {
  uint32_t k = rt_names_find(classes, cell->text, cell->n);
  if (k != RT_NO_NAME) return put_class(f, k, place, to);
  snprintf(what, WHAT, "'%.60s' is none of the %" PRIu32 " classes", cell->text, f->n_classes);
  return false;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Without the blanks around it. The cell stays as it is: another field may want it as a class.
static const char *trim(const Cell *cell, size_t *n) {
  const char *s = cell->text, *end = s + cell->n;
  while (s < end && is_blank(*s)) s++;
  while (end > s && is_blank(end[-1])) end--;
  *n = (size_t)(end - s);
  return s;
}

static bool read_bool(const char *text, size_t n, int64_t *out) {
  static const char *const words[] = {"0", "1", "false", "true", "False", "True"};
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (n == strlen(words[k]) && !memcmp(text, words[k], n)) return *out = k % 2, true;
  return false;
}

static bool read_and_put(const RtCsvField *f, const char *text, size_t n, uint32_t place, void *to) {
  float v = 0;
  int64_t i = 0;
  if (rt_dtype_is_float(f->dtype)) return rt_read_f32(text, n, &v) && isfinite(v) && put_float(f, v, place, to);
  return (f->dtype == RT_BOOL ? read_bool : rt_read_i64)(text, n, &i) && rt_put_whole(i, f->dtype, to, place);
}

static bool take_number(const RtCsvField *f, const Cell *cell, uint32_t place, void *to, char what[WHAT]) {
  size_t n;
  const char *text = trim(cell, &n);
  if (read_and_put(f, text, n, place, to)) return true;
  snprintf(what, WHAT, "'%.*s' is no %s%s", n < 60 ? (int)n : 60, text,
           rt_dtype_is_float(f->dtype) ? "number that fits "
           : f->dtype == RT_BOOL       ? "truth value: 0, 1, false or true are "
                                       : "whole number that fits ",
           rt_dtype_name(f->dtype));
  return false;
}

static bool take_value(const Csv *c, const Cell *cell, const Target *t, void *to, char what[WHAT]) {
  const RtCsvField *f = &c->fields[t->field];
  return f->n_classes ? take_class(f, &c->classes[t->field], cell, t->place, to, what)
                      : take_number(f, cell, t->place, to, what);
}

// `missing_as` of the field, which may be NaN where a cell may not.
static bool take_missing_as(const Csv *c, const Target *t, void *to, char what[WHAT]) {
  const RtCsvField *f = &c->fields[t->field];
  const Cell cell = {.text = (char *)(uintptr_t)f->missing_as, .n = strlen(f->missing_as)};
  if (!f->n_classes && rt_dtype_is_float(f->dtype) && !strcmp(f->missing_as, "nan"))
    return put_float(f, NAN, t->place, to);
  return take_value(c, &cell, t, to, what);
}

// One number for all fields fills floats only: as a class or a whole number it would be a value like any other.
static bool take_missing(const Csv *c, const Target *t, void *to, char what[WHAT]) {
  const RtCsvField *f = &c->fields[t->field];
  if (f->missing_as) return take_missing_as(c, t, to, what);
  bool is_filled = rt_dtype_is_float(f->dtype) && !f->n_classes;
  if (is_filled && c->allow_missing) return put_float(f, (float)c->fill, t->place, to);
  snprintf(what, WHAT, "the value is missing; %s`missing_as` of field '%.60s' says %s",
           is_filled ? "`allow_missing` fills it, " : "", f->name,
           f->n_classes ? "which class it counts as" : "which number it counts as");
  return false;
}

// A missing cell's text may be one of the classes: it is that one then.
static bool take_cell(const Csv *c, const Cell *cell, const Target *t, void *const *data, char what[WHAT]) {
  bool is_class =
      c->fields[t->field].n_classes && rt_names_find(&c->classes[t->field], cell->text, cell->n) != RT_NO_NAME;
  return is_missing(c, cell) && !is_class ? take_missing(c, t, data[t->field], what)
                                          : take_value(c, cell, t, data[t->field], what);
}

// One record of n bytes, 0-terminated, which begins in `line`; its cells go to data.
static bool take_record(const Csv *c, char *text, size_t n, uint64_t line, void *const *data, char *error,
                        size_t error_size) {
  Record r = {.at = text, .end = text + n, .delimiter = c->delimiter, .line = line};
  char what[WHAT];
  bool last = false;
  for (uint32_t column = 0; !last; column++) {
    Cell cell;
    const char *problem;
    uint64_t at = r.line;
    if (!next_cell(&r, &cell, &last, &problem)) return fail_at(c, at, column, error, error_size, problem);
    snprintf(what, sizeof what, "%" PRIu32 " columns are expected, the line %s", c->n_columns,
             last ? "ends here" : "has more");
    if (column >= c->n_columns || last != (column + 1 == c->n_columns))
      return fail_at(c, at, column, error, error_size, what);
    for (uint32_t k = c->first_target[column]; k < c->first_target[column + 1]; k++)
      if (!take_cell(c, &cell, &c->targets[k], data, what)) return fail_at(c, at, column, error, error_size, what);
  }
  return true;
}

// ---- records of the file, one after the other
typedef struct {
  Csv *c;
  size_t start, n, cap;  // c->buffer holds bytes [at - start, at - start + n) of the file
  uint64_t at, line;     // of the record at hand, which begins at buffer + start
  char *error;
  size_t error_size;
} Reader;

static bool fill_more(Reader *r) {
  uint64_t have = r->n - r->start, left = r->c->source.size - r->at - have;
  size_t step = left < CHUNK ? (size_t)left : CHUNK;
  if (r->start) memmove(r->c->buffer, r->c->buffer + r->start, (size_t)have);
  r->start = 0, r->n = (size_t)have;
  if (r->n + step + 1 > r->cap) {
    size_t cap = 2 * r->cap + CHUNK + 1;
    char *grown = r->n < MOST_RECORD ? rt_realloc(r->c->buffer, cap) : NULL;
    if (!grown)
      return rt_fail(r->error, r->error_size, "%s:%" PRIu64 ": a line of more than %zu bytes", r->c->source.name,
                     r->line, r->n);
    r->c->buffer = grown, r->cap = cap;
  }
  if (!rt_source_read(&r->c->source, r->at + r->n, r->c->buffer + r->n, step, r->error, r->error_size)) return false;
  r->n += step;
  return true;
}

// Byte k of the record at hand; 0 behind the end of the file, whose length is *bytes then. False: it cannot be read
static bool peek(Reader *r, size_t k, char *c, bool *is_end) {
  while (r->start + k >= r->n) {
    *is_end = r->at + (r->n - r->start) == r->c->source.size;
    *c = 0;
    if (*is_end) return true;
    if (!fill_more(r)) return false;
  }
  return *is_end = false, *c = r->c->buffer[r->start + k], true;
}

// Bytes of the record at hand, its line end included, and the line ends in it. 0 bytes: there is none.
static bool measure(Reader *r, size_t *bytes, uint64_t *lines) {
  bool inside = false, is_end;
  char c, next;
  *lines = 0;
  if (!peek(r, 0, &c, &is_end)) return false;
  for (size_t k = 0;; k++, c = next) {
    if (is_end) return *bytes = k, true;
    if (!peek(r, k + 1, &next, &is_end)) return false;
    if (c == '"') inside = !inside;
    if (!ends_line(c, next)) continue;
    ++*lines;
    if (!inside) return *bytes = k + 1, true;
  }
}

static size_t without_line_end(const char *text, size_t n) {
  if (n && text[n - 1] == '\n') n--;
  if (n && text[n - 1] == '\r') n--;
  return n;
}

// ---- columns and fields
static bool take_header(Csv *c, char *text, size_t n, bool has_names, char *error, size_t error_size) {
  Record r = {.at = text, .end = text + n, .delimiter = c->delimiter, .line = c->header};
  bool last = false;
  while (!last) {
    Cell cell;
    const char *problem;
    uint64_t at = r.line;
    if (c->n_columns == MOST_COLUMNS)
      return rt_fail(error, error_size, "%s:%" PRIu64 ": too many columns", c->source.name, at);
    if (!next_cell(&r, &cell, &last, &problem)) return fail_at(c, at, c->n_columns, error, error_size, problem);
    const char *name = has_names ? rt_strdup(c->mem, cell.text) : rt_printf(c->mem, "%" PRIu32, c->n_columns);
    *RT_PUSH(c->mem, c->names, c->n_columns, c->cap_names) = name;
  }
  return true;
}

static bool default_fields(Csv *c) {
  c->fields = rt_alloc(c->mem, sizeof *c->fields);
  c->fields[0] = (RtCsvField){.name = "x", .dtype = RT_F32, .columns = c->names, .n_columns = c->n_columns};
  c->n_fields = 1;
  c->takes_all = true;
  return true;
}

static const char **copy_texts(const Csv *c, const char *const *from, uint32_t n) {
  const char **to = rt_alloc(c->mem, (n + 1) * sizeof *to);
  for (uint32_t k = 0; k < n; k++) to[k] = rt_strdup(c->mem, from[k] ? from[k] : "");
  return to;
}

// The first of two that are equal would take all cells.
static bool index_classes(Csv *c, uint32_t field, char *error, size_t error_size) {
  const RtCsvField *f = &c->fields[field];
  RtNames *names = &c->classes[field];
  names->mem = c->mem;
  for (uint32_t k = 0; k < f->n_classes; k++) {
    uint32_t first = rt_names_add(names, f->classes[k], strlen(f->classes[k]));
    if (first != k)
      return rt_fail(error, error_size, "classes %" PRIu32 " and %" PRIu32 " of field '%.60s' are both '%.60s'", first,
                     k, f->name, f->classes[k]);
  }
  return true;
}

static RtDType dtype_of(const RtCsvField *f) { return f->dtype ? f->dtype : f->classes ? RT_I64 : RT_F32; }

// Can numbers of t be v exactly?
static bool holds(RtDType t, int64_t v) {
  uint64_t element = 0;
  if (!rt_dtype_is_float(t)) return rt_put_whole(v, t, &element, 0);
  rt_put_float((float)v, t, &element, 0);
  return rt_get_float(t, &element, 0) == (float)v && (int64_t)(float)v == v;
}

static bool check_classes(const RtCsvField *f, char *error, size_t error_size) {
  // Above the numbers that it holds one by one, of two neighbours it lacks one
  if (f->n_classes == 0 ||
      (holds(f->dtype, f->n_classes - 1) && (f->n_classes < 2 || holds(f->dtype, f->n_classes - 2))))
    return true;
  return rt_fail(error, error_size, "field '%.60s' has %" PRIu32 " classes, whose numbers %s does not hold", f->name,
                 f->n_classes, rt_dtype_name(f->dtype));
}

static bool check_missing_as(const Csv *c, uint32_t field, char *error, size_t error_size) {
  uint64_t element = 0;
  char what[WHAT];
  if (!c->fields[field].missing_as || take_missing_as(c, &(Target){.field = field}, &element, what)) return true;
  return rt_fail(error, error_size, "`missing_as` of field '%.60s': %s", c->fields[field].name, what);
}

static bool copy_fields(Csv *c, const RtCsvOptions *o, char *error, size_t error_size) {
  if (!o->fields) return default_fields(c);
  if (o->n_fields == 0 || o->n_fields > RT_MAX_FIELDS)
    return rt_fail(error, error_size, "1 to %d fields are possible", RT_MAX_FIELDS);
  c->fields = rt_alloc(c->mem, o->n_fields * sizeof *c->fields);
  c->classes = rt_alloc(c->mem, o->n_fields * sizeof *c->classes);
  c->n_fields = o->n_fields;
  for (uint32_t k = 0; k < o->n_fields; k++) {
    const RtCsvField *f = &o->fields[k];
    if (!f->columns || !f->n_columns || (f->is_scalar && f->n_columns != 1))
      return rt_fail(error, error_size, "field '%.60s' names %" PRIu32 " columns%s", f->name ? f->name : "",
                     f->columns ? f->n_columns : 0, f->is_scalar ? ", a scalar has one" : "");
    if ((uint32_t)f->dtype >= RT_N_DTYPES)
      return rt_fail(error, error_size, "field '%.60s' has no known dtype", f->name ? f->name : "");
    c->fields[k] = *f;
    c->fields[k].name = rt_strdup(c->mem, f->name ? f->name : "");
    c->fields[k].columns = copy_texts(c, f->columns, f->n_columns);
    c->fields[k].n_classes = f->classes ? f->n_classes : 0;
    c->fields[k].classes = copy_texts(c, f->classes, c->fields[k].n_classes);
    if (!index_classes(c, k, error, error_size)) return false;
    c->fields[k].dtype = dtype_of(f);
    c->fields[k].missing_as = f->missing_as ? rt_strdup(c->mem, f->missing_as) : NULL;
    if (!check_classes(&c->fields[k], error, error_size) || !check_missing_as(c, k, error, error_size)) return false;
  }
  return true;
}

// The column that field f has at place k.
static bool find_column(const Csv *c, uint32_t f, uint32_t k, uint32_t *out, char *error, size_t error_size) {
  const char *name = c->fields[f].columns[k];
  uint32_t n = 0;
  if (c->takes_all) return *out = k, true;
  for (uint32_t i = 0; i < c->n_columns; i++) {
    if (strcmp(c->names[i], name)) continue;
    if (n++)
      return rt_fail(error, error_size,
                     "%s:%" PRIu64 ": columns %" PRIu32 " and %" PRIu32
                     " are both named '%.60s': none can be chosen by it",
                     c->source.name, c->header, *out + 1, i + 1, name);
    *out = i;
  }
  if (n) return true;
  RtNear near = {.wanted = name};
  for (uint32_t i = 0; i < c->n_columns; i++) rt_near_offer(&near, c->names[i]);
  return rt_fail(error, error_size, "%s:%" PRIu64 ": there is no column '%.60s'%s", c->source.name, c->header, name,
                 rt_near_text(&near));
}

// Targets sorted by column: counted, then put in place.
static bool aim(Csv *c, char *error, size_t error_size) {
  uint32_t column, *next = rt_alloc(c->mem, (c->n_columns + 2) * sizeof *next);
  for (uint32_t f = 0; f < c->n_fields; f++)
    for (uint32_t k = 0; k < c->fields[f].n_columns; k++) {
      if (!find_column(c, f, k, &column, error, error_size)) return false;
      next[column + 1]++;
    }
  for (uint32_t k = 0; k < c->n_columns; k++) next[k + 1] += next[k];
  c->targets = rt_alloc(c->mem, (next[c->n_columns] + 1) * sizeof *c->targets);
  c->first_target = rt_alloc(c->mem, (c->n_columns + 1) * sizeof *next);
  memcpy(c->first_target, next, (c->n_columns + 1) * sizeof *next);
  for (uint32_t f = 0; f < c->n_fields; f++)
    for (uint32_t k = 0; k < c->fields[f].n_columns; k++) {
      if (!find_column(c, f, k, &column, error, error_size)) return false;
      c->targets[next[column]++] = (Target){f, k};
    }
  return true;
}

// ---- the data set

// Errors behind opening come from a file that was changed: a record is taken to be a line.
static bool get_record(void *ctx, size_t k, RtItem *to) {
  const Csv *c = ctx;
  size_t n = (size_t)((k + 1 < c->n_records ? c->records[k + 1] : c->end) - c->records[k]);
  char small[4096], *text = n < sizeof small ? small : rt_malloc(n + 1);
  if (!text) return rt_fail(to->error, to->error_size, "out of memory");
  bool ok = rt_source_read(&c->source, c->records[k], text, n, to->error, to->error_size) &&
            take_record(c, text, without_line_end(text, n), c->first + k, to->data, to->error, to->error_size);
  if (text != small) rt_free(text);
  return ok;
}

static void free_csv(void *ctx) {
  Csv *c = ctx;
  rt_source_close(&c->source);
  rt_free(c->records);
  rt_free(c->buffer);
  rt_arena_free(c->mem);
}

static const RtDatasetOps csv_ops = {.get = get_record, .free = free_csv};

// Room for one item, to check cells with.
static void **scratch(const Csv *c) {
  void **data = rt_alloc(c->mem, c->n_fields * sizeof *data);
  for (uint32_t k = 0; k < c->n_fields; k++) data[k] = rt_alloc(c->mem, 8 * ((size_t)c->fields[k].n_columns + 1));
  return data;
}

static bool keep_record(Csv *c, const Reader *r) {
  if (c->n_records == c->cap_records) {
    size_t cap = c->cap_records ? 2 * c->cap_records : 256;
    uint64_t *grown = rt_realloc(c->records, cap * sizeof *grown);
    if (!grown) return rt_fail(r->error, r->error_size, "out of memory");
    c->records = grown, c->cap_records = cap;
  }
  if (c->n_records == 0) c->first = r->line;
  c->records[c->n_records++] = r->at;
  return true;
}

// The first line of the file.
static bool open_columns(Csv *c, const Reader *r, size_t size, const RtCsvOptions *o) {
  char *copy = rt_strndup(c->mem, r->c->buffer + r->start, size);
  c->header = r->line;
  return take_header(c, copy, size, !o->no_header, r->error, r->error_size) &&
         copy_fields(c, o, r->error, r->error_size) && aim(c, r->error, r->error_size);
}

static bool scan(Reader *r, const RtCsvOptions *o) {
  Csv *c = r->c;
  void **data = NULL;
  size_t n;
  for (uint64_t lines;; r->start += n, r->at += n, r->line += lines) {
    if (!measure(r, &n, &lines)) return false;
    if (n == 0) break;
    char *text = r->c->buffer + r->start;
    size_t size = without_line_end(text, n);
    bool is_first = c->n_columns == 0;
    if (size == 0) continue;  // an empty line
    if (is_first && !open_columns(c, r, size, o)) return false;
    if (is_first) data = scratch(c);
    if (is_first && !o->no_header) continue;
    if (!keep_record(c, r) || !take_record(c, text, size, r->line, data, r->error, r->error_size)) return false;
    c->end = r->at + n;
  }
  return c->n_columns || rt_fail(r->error, r->error_size, "%s: the file has no lines", c->source.name);
}

static bool read_all(Csv *c, const RtCsvOptions *o, char *error, size_t error_size) {
  Reader r = {.c = c, .line = 1, .error = error, .error_size = error_size};
  unsigned char mark[3] = {0};
  if (c->source.size >= 3 && !rt_source_read(&c->source, 0, mark, 3, error, error_size)) return false;
  if (!memcmp(mark, "\xef\xbb\xbf", 3)) r.at = 3;
  bool ok = scan(&r, o);
  rt_free(c->buffer);
  c->buffer = NULL;
  return ok;
}

static bool check_fill_of(const RtCsvField *f, double fill, char *error, size_t error_size) {
  RtDType t = dtype_of(f);
  uint64_t element = 0;
  if ((f->classes && f->n_classes) || !rt_dtype_is_float(t) || f->missing_as)
    return true;  // it fills no cell of this field
  if (put_float(&(RtCsvField){.dtype = t}, (float)fill, 0, &element) && (!isfinite(fill) || isfinite((float)fill)))
    return true;
  return rt_fail(error, error_size, "what fills missing numbers, %g, does not fit %s", fill, rt_dtype_name(t));
}

static bool check_fill(const RtCsvOptions *o, char *error, size_t error_size) {
  const RtCsvField all = {.dtype = RT_F32};
  uint32_t n = o->fields ? o->n_fields : 1;
  for (uint32_t k = 0; o->allow_missing && k < n; k++)
    if (!check_fill_of(o->fields ? &o->fields[k] : &all, o->fill, error, error_size)) return false;
  return true;
}

static bool check_options(const RtCsvOptions *o, char *error, size_t error_size) {
  if (o->delimiter && strchr("\"\n\r", o->delimiter))
    return rt_fail(error, error_size, "the delimiter is a quote or line end");
  return check_fill(o, error, error_size);
}

static RtDataset *make(Csv *c, char *error, size_t error_size) {
  RtField fields[RT_MAX_FIELDS] = {{.rank = 0}};
  for (uint32_t k = 0; k < c->n_fields; k++) {
    rt_field_name(&fields[k], c->fields[k].name);
    fields[k].dtype = c->fields[k].dtype;
    fields[k].rank = !c->fields[k].is_scalar;
    fields[k].dims[0] = c->fields[k].n_columns;
  }
  return rt_dataset_new(&csv_ops, c, fields, c->n_fields, c->n_records, error, error_size);
}

RtDataset *rt_dataset_csv(RtSource *s, const RtCsvOptions *o, char *error, size_t error_size) {
  if (!check_options(o, error, error_size)) return NULL;
  RtArena *mem = rt_arena_new();
  jmp_buf oom;
  Csv *volatile kept = NULL;
  RtDataset *volatile d = NULL;
  if (mem && !setjmp(oom)) {
    rt_arena_on_oom(mem, &oom);
    Csv *c = kept = rt_alloc(mem, sizeof *c);
    *c = (Csv){.mem = mem, .source = *s, .delimiter = o->delimiter ? o->delimiter : ',', .fill = o->fill};
    c->allow_missing = o->allow_missing;
    c->missing = o->missing ? rt_strdup(mem, o->missing) : NULL;
    if (read_all(c, o, error, error_size)) d = make(c, error, error_size);
    rt_arena_on_oom(mem, NULL);
  } else {
    rt_fail(error, error_size, "%s: out of memory", s->name);
  }
  if (d) return d;
  if (kept) kept->source = (RtSource){.fd = -1}, free_csv(kept);  // the source stays the caller's
  else rt_arena_free(mem);
  return NULL;
}
