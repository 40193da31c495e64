// The .ts reader: header lines that start with '@', then one case per line.
#include "runtime/data/ts_series.h"

#include "runtime/format.h"
#include "runtime/names.h"
#include "runtime/store/file.h"

#include <math.h>
#include <string.h>

enum { MAX_DIMENSIONS = 1 << 20 };

typedef struct {
  float *values, *mask;  // [length, features]; mask NULL: none
  uint32_t length, label;
  float target;
} Case;

struct RtSeries {
  RtArena *mem;
  uint32_t features;
  uint32_t max_length;
  RtNames classes;  // by label
  Case *cases;
  uint32_t n_cases, cap_cases;
  bool has_mask;
};

typedef struct {
  const char *at, *end;
} Span;

typedef struct {
  RtSeries *s;
  const char *name;  // of the file
  size_t line;
  RtMissing missing;
  bool says_labels, has_labels, has_targets;
  uint32_t equal_length;  // 0: any
  char *error;
  size_t error_size;
} Reader;

// ---- sentences

static bool fail(const Reader *r, const char *fmt, ...) RT_PRINTF(2, 3);
static bool fail(const Reader *r, const char *fmt, ...) {
  char sentence[400];
  va_list args;
  va_start(args, fmt);
  rt_vformat(sentence, sizeof sentence, fmt, args);
  va_end(args);
  return rt_fail(r->error, r->error_size, "%s:%zu: %s", r->name, r->line, sentence);
}

typedef struct {
  char text[44];
} Quoted;

// What was found, printable and short enough for a sentence.
static Quoted quote(Span s) {
  Quoted q;
  size_t n = 0;
  q.text[n++] = '\'';
  for (; s.at < s.end && n < 36; s.at++) q.text[n++] = *s.at >= 0x20 && *s.at < 0x7f ? *s.at : '?';
  const char *tail = s.at < s.end ? "..'" : "'";
  memcpy(q.text + n, tail, strlen(tail) + 1);
  return q;
}

// ---- spans

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static Span trim(Span s) {
  while (s.at < s.end && is_space(*s.at)) s.at++;
  while (s.at < s.end && is_space(s.end[-1])) s.end--;
  return s;
}

// Cuts *s at the first `c`: gives what is before, leaves what is behind. *more: there was one.
static Span cut(Span *s, char c, bool *more) {
  const char *p = s->at < s->end ? memchr(s->at, c, (size_t)(s->end - s->at)) : NULL;
  Span head = {s->at, p ? p : s->end};
  s->at = p ? p + 1 : s->end;
  *more = p != NULL;
  return head;
}

static Span next_word(Span *s) {
  *s = trim(*s);
  Span word = {s->at, s->at};
  while (word.end < s->end && !is_space(*word.end)) word.end++;
  s->at = word.end;
  return word;
}

static size_t length_of(Span s) { return (size_t)(s.end - s.at); }

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

// Whatever the case of its letters
static bool is_word(Span s, const char *word) {
  if (length_of(s) != strlen(word)) return false;
  for (; s.at < s.end; s.at++, word++)
    if (lower(*s.at) != lower(*word)) return false;
  return true;
}

static uint32_t count_char(Span s, char c) {
  uint32_t n = 0;
  for (; s.at < s.end; s.at++) n += *s.at == c;
  return n;
}

// ---- header

static bool take_bool(const Reader *r, Span key, Span *rest, bool *out) {
  Span word = next_word(rest);
  *out = is_word(word, "true");
  return *out || is_word(word, "false") ||
         fail(r, "%s takes true or false, found %s", quote(key).text, quote(word).text);
}

static bool take_count(const Reader *r, Span key, Span *rest, uint32_t max, uint32_t *out) {
  Span word = next_word(rest);
  uint64_t v = 0;
  const char *p = word.at;
  for (; p < word.end && rt_is_digit(*p) && v <= max; p++) v = v * 10 + (uint64_t)(*p - '0');
  *out = (uint32_t)v;
  return (p == word.end && v > 0 && v <= max) ||
         fail(r, "%s takes a number from 1 to %u, found %s", quote(key).text, max, quote(word).text);
}

static bool take_classes(Reader *r, Span key, Span *rest) {
  RtSeries *s = r->s;
  if (r->says_labels) return fail(r, "a second @classLabel line");
  r->says_labels = true;
  if (!take_bool(r, key, rest, &r->has_labels)) return false;
  for (Span word = next_word(rest); r->has_labels && word.at < word.end; word = next_word(rest)) {
    const char *name = rt_strndup(s->mem, word.at, length_of(word));
    uint32_t n = s->classes.n;
    if (rt_names_add(&s->classes, name, length_of(word)) != n)
      return fail(r, "class %s is listed twice", quote(word).text);
  }
  return !r->has_labels || s->classes.n > 0 || fail(r, "@classLabel true lists no class");
}

// Properties that must be false, since the data lines would read differently.
static bool take_false(const Reader *r, Span key, Span *rest, const char *why) {
  bool value;
  return take_bool(r, key, rest, &value) && (!value || fail(r, "%s true: %s", quote(key).text, why));
}

static bool set_features(Reader *r, uint32_t n) {
  if (r->s->features && r->s->features != n)
    return fail(r, "%u dimensions contradict the %u said before", n, r->s->features);
  r->s->features = n;
  return true;
}

static bool take_features(Reader *r, Span key, Span *rest) {
  uint32_t n;
  return take_count(r, key, rest, MAX_DIMENSIONS, &n) && set_features(r, n);
}

static bool take_univariate(Reader *r, Span key, Span *rest) {
  bool flag;
  return take_bool(r, key, rest, &flag) && (!flag || set_features(r, 1));
}

static bool take_property(Reader *r, Span line) {
  Span rest = line, key = next_word(&rest);
  bool ok, flag = false;  // whether values are missing is seen where they are
  if (is_word(key, "@problemName")) return true;
  if (is_word(key, "@timeStamps")) ok = take_false(r, key, &rest, "values with time stamps are not read");
  else if (is_word(key, "@missing") || is_word(key, "@equalLength")) ok = take_bool(r, key, &rest, &flag);
  else if (is_word(key, "@univariate")) ok = take_univariate(r, key, &rest);
  else if (is_word(key, "@dimensions") || is_word(key, "@dimension")) ok = take_features(r, key, &rest);
  else if (is_word(key, "@seriesLength")) ok = take_count(r, key, &rest, INT32_MAX, &r->equal_length);
  else if (is_word(key, "@classLabel")) ok = take_classes(r, key, &rest);
  else if (is_word(key, "@targetLabel")) ok = take_bool(r, key, &rest, &r->has_targets);
  else return fail(r, "unknown property %s", quote(key).text);
  rest = trim(rest);
  return ok && (rest.at == rest.end || fail(r, "%s: found %s after the value", quote(key).text, quote(rest).text));
}

// ---- cases

static bool is_missing(Span token) { return is_word(token, "?") || is_word(token, "nan"); }

static bool take_number(const Reader *r, Span token, uint32_t dimension, uint32_t step, float *out) {
  if (!rt_read_f32(token.at, length_of(token), out))
    return fail(r, "dimension %u, step %u: expected a number, found %s%s", dimension + 1, step + 1, quote(token).text,
                is_missing(token) ? ": missing values are read by an option" : "");
  return isfinite(*out) ||
         fail(r, "dimension %u, step %u: %s does not fit f32", dimension + 1, step + 1, quote(token).text);
}

static bool take_value(const Reader *r, Span token, uint32_t dimension, uint32_t step, const Case *c) {
  size_t at = (size_t)step * r->s->features + dimension;
  token = trim(token);
  if (token.at == token.end) return fail(r, "dimension %u has no value at step %u", dimension + 1, step + 1);
  bool skips = r->missing != RT_MISSING_REFUSE && is_missing(token);
  if (c->mask) c->mask[at] = !skips;
  if (!skips) return take_number(r, token, dimension, step, &c->values[at]);
  c->values[at] = c->mask ? 0 : NAN;
  return true;
}

// Before any space is taken: all dimensions have as many steps as the first.
static bool check_lengths(const Reader *r, Span line, uint32_t *length) {
  bool more;
  for (uint32_t d = 0; d < r->s->features; d++) {
    Span field = trim(cut(&line, ':', &more));
    if (field.at == field.end) return fail(r, "dimension %u is empty", d + 1);
    uint32_t n = count_char(field, ',') + 1;
    if (d == 0) *length = n;
    if (n != *length) return fail(r, "dimension %u has %u steps, dimension 1 has %u", d + 1, n, *length);
  }
  if (r->equal_length && *length != r->equal_length)
    return fail(r, "a case of %u steps, @seriesLength says %u", *length, r->equal_length);
  return true;
}

static bool take_dimension(const Reader *r, Span field, uint32_t dimension, const Case *c) {
  bool more;
  for (uint32_t t = 0; t < c->length; t++)
    if (!take_value(r, cut(&field, ',', &more), dimension, t, c)) return false;
  return true;
}

static bool take_label(const Reader *r, Span label, Case *c) {
  if (label.at == label.end) return fail(r, "the line ends before the %s", r->has_targets ? "target" : "class");
  if (r->has_targets)
    return (rt_read_f32(label.at, length_of(label), &c->target) && isfinite(c->target)) ||
           fail(r, "the target %s is no number that fits f32", quote(label).text);
  c->label = rt_names_find(&r->s->classes, label.at, length_of(label));
  return c->label != RT_NO_NAME || fail(r, "class %s is not listed by @classLabel", quote(label).text);
}

static void allocate(Reader *r, Case *c) {
  size_t bytes = sizeof(float) * c->length * r->s->features;
  c->values = rt_alloc(r->s->mem, bytes);
  if (r->s->has_mask) c->mask = rt_alloc(r->s->mem, bytes);
}

static bool take_case(Reader *r, Span line) {
  RtSeries *s = r->s;
  uint32_t n_fields = count_char(line, ':') + 1;
  if (!s->features && n_fields > 1) s->features = n_fields - 1;
  if (n_fields != s->features + 1 || n_fields == 1)
    return fail(r, "expected %u dimensions and a %s, found %u field%s: a truncated line?",
                s->features ? s->features : 1, r->has_targets ? "target" : "class", n_fields, n_fields == 1 ? "" : "s");
  Case c = {0};
  bool more;
  if (!check_lengths(r, line, &c.length)) return false;
  allocate(r, &c);
  for (uint32_t d = 0; d < s->features; d++)
    if (!take_dimension(r, cut(&line, ':', &more), d, &c)) return false;
  if (!take_label(r, trim(line), &c)) return false;
  if (c.length > s->max_length) s->max_length = c.length;
  *RT_PUSH(s->mem, s->cases, s->n_cases, s->cap_cases) = c;
  return true;
}

// ---- the whole

static bool check_header(const Reader *r) {
  if (r->has_labels && r->has_targets) return fail(r, "both @classLabel and @targetLabel are true");
  if (r->has_labels || r->has_targets) return true;
  return fail(r, r->says_labels ? "@classLabel false and no @targetLabel true: cases without classes or targets"
                                : "@data before @classLabel or @targetLabel");
}

static bool take_header_line(Reader *r, Span line, bool *in_data) {
  if (*line.at != '@') return fail(r, "expected a property or @data, found %s", quote(line).text);
  *in_data = is_word(line, "@data");
  return *in_data ? check_header(r) : take_property(r, line);
}

static bool take_all(Reader *r, Span text) {
  if (text.at == text.end) return rt_fail(r->error, r->error_size, "%s: the file is empty", r->name);
  bool in_data = false, more = true;
  while (more) {
    Span raw = cut(&text, '\n', &more), line = trim(raw);
    if (!more && raw.at == raw.end) break;  // behind the last line's end
    r->line++;
    const char *zero = raw.at < raw.end ? memchr(raw.at, 0, length_of(raw)) : NULL;
    if (zero) return fail(r, "column %zu: a byte 0, which is no text", (size_t)(zero - raw.at) + 1);
    if (line.at == line.end || *line.at == '#') continue;
    if (in_data ? !take_case(r, line) : !take_header_line(r, line, &in_data)) return false;
  }
  if (!in_data) return fail(r, "the file ends without @data");
  return r->s->n_cases > 0 || fail(r, "the file ends without a case after @data");
}

// UTF-8 may begin with a byte order mark, which is no text.
static Span without_mark(const char *bytes, size_t n) {
  if (!n) return (Span){bytes, bytes};
  return (Span){n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? bytes + 3 : bytes, bytes + n};
}

// NULL: the reader's error says why. Memory comes from `mem`, whose handler is set: no local of this is read after its jump.
__attribute__((noinline)) static RtSeries *parse_into(RtArena *mem, Reader *r, const char *bytes, size_t n) {
  r->s = rt_alloc(mem, sizeof *r->s);
  r->s->mem = r->s->classes.mem = mem;
  r->s->has_mask = r->missing == RT_MISSING_MASK;
  return take_all(r, without_mark(bytes, n)) ? r->s : NULL;
}

RtSeries *rt_series_parse(const char *name, const void *bytes, size_t n, const RtSeriesOptions *o, char *error,
                          size_t error_size) {
  jmp_buf oom;
  RtArena *mem = rt_arena_new();
  RtSeries *s = NULL;
  Reader r = {.name = name, .missing = o ? o->missing : RT_MISSING_REFUSE, .error = error, .error_size = error_size};
  if (mem && !setjmp(oom)) {
    rt_arena_on_oom(mem, &oom);
    s = parse_into(mem, &r, bytes, n);
    rt_arena_on_oom(mem, NULL);
  } else {
    s = NULL;
    rt_fail(error, error_size, "%s: out of memory", name);
  }
  if (!s) rt_arena_free(mem);
  return s;
}

RtSeries *rt_series_read(const char *path, const RtSeriesOptions *o, char *error, size_t error_size) {
  RtFile f;
  if (!rt_file_read(path, &f, error, error_size)) return NULL;
  RtSeries *s = rt_series_parse(path, f.bytes, f.size, o, error, error_size);
  rt_file_close(&f);
  return s;
}

void rt_series_free(RtSeries *s) {
  if (s) rt_arena_free(s->mem);
}

size_t rt_series_count(const RtSeries *s) { return s->n_cases; }
uint32_t rt_series_features(const RtSeries *s) { return s->features; }
uint32_t rt_series_max_length(const RtSeries *s) { return s->max_length; }
uint32_t rt_series_classes(const RtSeries *s) { return s->classes.n; }
bool rt_series_has_mask(const RtSeries *s) { return s->has_mask; }
const char *rt_series_class_name(const RtSeries *s, uint32_t k) {
  return k < s->classes.n ? s->classes.list[k].text : NULL;
}
uint32_t rt_series_length(const RtSeries *s, size_t k) { return k < s->n_cases ? s->cases[k].length : 0; }
uint32_t rt_series_label(const RtSeries *s, size_t k) { return k < s->n_cases ? s->cases[k].label : 0; }
float rt_series_target(const RtSeries *s, size_t k) { return k < s->n_cases ? s->cases[k].target : 0; }
const float *rt_series_mask(const RtSeries *s, size_t k) { return k < s->n_cases ? s->cases[k].mask : NULL; }
const float *rt_series_values(const RtSeries *s, size_t k) { return k < s->n_cases ? s->cases[k].values : NULL; }
