// Lines are edited one by one; types, which the shape rules find, are cut off first, so that a change of one line does
// not break those behind it.
#include "tests/tir_mutate.h"
#include "ir/tables.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 400, MAX_EDITS = 4 };

typedef struct {
  RtArena *mem;
  Rng *r;
  const char *line[MAX_LINES];
  uint32_t n;
} Text;

static uint32_t below(Text *t, uint32_t n) { return n ? rng_below(t->r, n) : 0; }
static bool chance(Text *t, uint32_t percent) { return rng_below(t->r, 100) < percent; }

static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// ---- lines
static bool makes_value(const char *line) { return strstr(line, " = ") && strchr(line, '%'); }
static bool is_instruction(const char *line) {
  const char *s = line + strspn(line, " ");
  return s > line && *s && *s != '}' && *s != '%' ? true : s > line && makes_value(line);
}

static const char *without_type(RtArena *mem, const char *line) {
  const char *type = strstr(line, " : ");
  bool cut = type && is_instruction(line) && !strstr(line, "= input");
  return cut ? rt_printf(mem, "%.*s", (int)(type - line), line) : line;
}

static void read_lines(Text *t, const char *text, size_t n) {
  for (size_t at = 0; at < n && t->n < MAX_LINES;) {
    const char *end = memchr(text + at, '\n', n - at);
    size_t len = end ? (size_t)(end - text) - at : n - at;
    t->line[t->n++] = without_type(t->mem, rt_printf(t->mem, "%.*s", (int)len, text + at));
    at += len + 1;
  }
}

static uint32_t pick_line(Text *t, bool (*fits)(const char *line)) {
  uint32_t found = UINT32_MAX, n = 0;
  for (uint32_t k = 0; k < t->n; k++)
    if (fits(t->line[k]) && below(t, ++n) == 0) found = k;
  return found;
}

static void insert(Text *t, uint32_t at, const char *line) {
  if (t->n == MAX_LINES) return;
  memmove(t->line + at + 1, t->line + at, (t->n++ - at) * sizeof *t->line);
  t->line[at] = line;
}

static void remove_line(Text *t, uint32_t at) {
  memmove(t->line + at, t->line + at + 1, (--t->n - at) * sizeof *t->line);
}

// The line with `len` characters at `at` replaced.
static const char *spliced(Text *t, const char *line, const char *at, size_t len, const char *by) {
  return rt_printf(t->mem, "%.*s%s%s", (int)(at - line), line, by, at + len);
}

// ---- tokens of a line: a random one that begins with a character of `first`
static const char *pick_token(Text *t, const char *line, const char *first, size_t *len) {
  const char *found = NULL;
  uint32_t n = 0;
  for (const char *s = line; *s; s++) {
    bool begins = strchr(first, *s) && (s == line || (!is_word_char(s[-1]) && s[-1] != '%' && s[-1] != '@'));
    if (!begins || below(t, ++n)) continue;
    found = s, *len = 1;
    while (is_word_char(s[*len])) ++*len;
  }
  return found;
}

// A value that is made before line `end`; NULL: none.
static const char *pick_value(Text *t, uint32_t end) {
  const char *found = NULL;
  uint32_t n = 0;
  for (uint32_t k = 0; k < end; k++) {
    if (!strncmp(t->line[k], "func ", 5) || !strncmp(t->line[k], "body ", 5)) found = NULL, n = 0;
    size_t len;
    const char *value = pick_token(t, t->line[k], "%", &len);
    if (value && below(t, ++n) == 0) found = rt_printf(t->mem, "%.*s", (int)len, value);
  }
  return found;
}

// ---- edits
static const char *random_number(Text *t, const char *old, size_t len) {
  static const char *const numbers[] = {"0",   "1",     "2",    "3",   "4",   "7",    "8",          "15",
                                        "16",  "17",    "31",   "33",  "64",  "100",  "1073741824", "-1",
                                        "0.5", "1e-08", "-2.5", "nan", "inf", "4096", "65537",      "2147483647"};
  unsigned long long value = strtoull(rt_printf(t->mem, "%.*s", (int)len, old), NULL, 10);
  switch (below(t, 4)) {
  case 0: return rt_printf(t->mem, "%llu", value + 1);
  case 1: return rt_printf(t->mem, "%lld", value ? (long long)(value - 1) : -1);
  default: return numbers[below(t, chance(t, 70) ? 13 : sizeof numbers / sizeof *numbers)];
  }
}

static bool any_line(const char *line) { return *line != 0; }

// One number, or all that are equal to it.
static void edit_number(Text *t) {
  uint32_t k = pick_line(t, any_line);
  size_t len = 0;
  const char *at = k == UINT32_MAX ? NULL : pick_token(t, t->line[k], "0123456789", &len);
  if (!at) return;
  const char *old = rt_printf(t->mem, "%.*s", (int)len, at), *by = random_number(t, at, len);
  if (chance(t, 40)) {
    t->line[k] = spliced(t, t->line[k], at, len, by);
    return;
  }
  for (uint32_t i = 0; i < t->n; i++)
    for (const char *s = t->line[i]; *s; s++) {
      bool same = !strncmp(s, old, len) && !is_word_char(s[len]) && s > t->line[i] && strchr("[,* ", s[-1]);
      if (!same) continue;
      size_t behind = (size_t)(s - t->line[i]) + strlen(by) - 1;
      t->line[i] = spliced(t, t->line[i], s, len, by);
      s = t->line[i] + behind;
    }
}

static void edit_operand(Text *t) {
  uint32_t k = pick_line(t, is_instruction);
  if (k == UINT32_MAX) return;
  const char *from = strstr(t->line[k], " = "), *by = pick_value(t, k);
  size_t len;
  const char *at = pick_token(t, from ? from : t->line[k], "%", &len);
  if (at && by) t->line[k] = spliced(t, t->line[k], at, len, by);
}

static Op random_op(Text *t) {
  for (;;) {
    Op op = (Op)(1 + below(t, N_OPS - 1));
    if (ir_ops[op].cls != CLASS_LEAF || op == OP_dim_size) return op;
  }
}

static void edit_op(Text *t) {
  uint32_t k = pick_line(t, makes_value);
  const char *at = k == UINT32_MAX ? NULL : strstr(t->line[k], " = ");
  if (!at) return;
  size_t len = strcspn(at + 3, " ");
  Op old = ir_op_find(rt_printf(t->mem, "%.*s", (int)len, at + 3)), op = random_op(t);
  for (int tries = 0; tries < 50 && ir_ops[op].n_min != ir_ops[old].n_min; tries++) op = random_op(t);
  t->line[k] = spliced(t, t->line[k], at + 3, len, ir_ops[op].name);
}

static void edit_flag(Text *t) {
  uint32_t k = pick_line(t, is_instruction), key = below(t, N_KEYS);
  if (k == UINT32_MAX) return;
  const char *open = strchr(t->line[k], '{'), *close = open ? strchr(open, '}') : NULL;
  if (!close || chance(t, 30)) {
    if (close) t->line[k] = spliced(t, t->line[k], open, (size_t)(close - open) + 1, "");
    return;
  }
  bool flag = ir_key_kind[key] == KIND_FLAG;
  const char *by = flag ? rt_printf(t->mem, ", %s", ir_key_name[key])
                        : rt_printf(t->mem, ", %s=%s", ir_key_name[key], random_number(t, "1", 1));
  t->line[k] = spliced(t, t->line[k], close, 0, by);
}

static void drop_line(Text *t) {
  uint32_t k = pick_line(t, is_instruction);
  if (k != UINT32_MAX) remove_line(t, k);
}

static void swap_lines(Text *t) {
  uint32_t k = pick_line(t, is_instruction);
  if (k == UINT32_MAX || k + 1 >= t->n || !is_instruction(t->line[k + 1])) return;
  const char *line = t->line[k];
  t->line[k] = t->line[k + 1], t->line[k + 1] = line;
}

// What an op requires, and some of what it may have, with values that may fit.
static const struct {
  Op op;
  Key key;
  const char *presence;
} taken[] = {
#define TAKES(o, k, presence, range) {OP_##o, KEY_##k, #presence},
#include "ir/op_attrs.def"
};

static void add_attributes(Text *t, Op op, RtText *out) {
  static const char *const lists[] = {"[]", "[0]", "[1]", "[1,0]", "[0,1]", "[2,1]", "[4]", "[1,1]"};
  const char *before = " {";
  for (uint32_t i = 0; i < sizeof taken / sizeof *taken; i++) {
    if (taken[i].op != op || (taken[i].presence[0] != 'R' && !chance(t, 20))) continue;
    AttrKind kind = (AttrKind)ir_key_kind[taken[i].key];
    rt_text_add(out, "%s%s", before, ir_key_name[taken[i].key]);
    before = ", ";
    if (kind == KIND_LIST) rt_text_add(out, "=%s", lists[below(t, sizeof lists / sizeof *lists)]);
    else if (kind == KIND_STR) rt_text_add(out, "=\"lengths\"");
    else if (kind == KIND_BYTES) rt_text_add(out, "=\"3f80000040000000\"");
    else if (kind != KIND_FLAG) rt_text_add(out, "=%s", random_number(t, "1", 1));
  }
  if (*before == ',') rt_text_add(out, "}");
}

// A new value, which an instruction behind it may read at once.
static void add_line(Text *t) {
  uint32_t at = pick_line(t, is_instruction), name = below(t, 100000);
  if (at == UINT32_MAX) return;
  Op op = random_op(t);
  RtText line = {.mem = t->mem};
  rt_text_add(&line, "  ");
  for (uint32_t k = 0; k < ir_ops[op].n_res; k++) rt_text_add(&line, "%s%%n%u_%u", k ? ", " : "", name, k);
  rt_text_add(&line, "%s%s", ir_ops[op].n_res ? " = " : "", ir_ops[op].name);
  for (uint32_t k = 0; k < ir_ops[op].n_min; k++) {
    const char *value = pick_value(t, at);
    rt_text_add(&line, "%s%s", k ? ", " : " ", value ? value : "%0");
  }
  add_attributes(t, op, &line);
  insert(t, at, line.text);
  if (!ir_ops[op].n_res || at + 1 >= t->n) return;
  const char *from = strstr(t->line[at + 1], " = ");
  size_t len;
  const char *reads = pick_token(t, from ? from : t->line[at + 1], "%", &len);
  if (reads) t->line[at + 1] = spliced(t, t->line[at + 1], reads, len, rt_printf(t->mem, "%%n%u_0", name));
}

// An output becomes the gradient of something for something.
static void add_gradient(Text *t) {
  uint32_t at = UINT32_MAX, name = below(t, 100000);
  for (uint32_t k = 0; k < t->n; k++)
    if (strstr(t->line[k], "  output %")) at = k;
  const char *of = at == UINT32_MAX ? NULL : pick_value(t, at), *to = of ? pick_value(t, at) : NULL;
  if (!to) return;
  size_t len;
  const char *reads = pick_token(t, t->line[at], "%", &len);
  t->line[at] = spliced(t, t->line[at], reads, len, rt_printf(t->mem, "%%g%u", name));
  insert(t, at, rt_printf(t->mem, "  %%g%u = grad_of %%l%u, %s", name, name, to));
  insert(t, at, rt_printf(t->mem, "  %%l%u = global_norm %s", name, of));
}

RtText tir_mutate(RtArena *mem, const char *text, size_t n, Rng *r) {
  static void (*const edits[])(Text *t) = {edit_number, edit_number, edit_operand, edit_operand, edit_op,     edit_flag,
                                           drop_line,   swap_lines,  add_line,     add_line,     add_gradient};
  Text t = {.mem = mem, .r = r};
  RtText out = {.mem = mem};
  read_lines(&t, text, n);
  for (uint32_t k = 1 + below(&t, MAX_EDITS); k > 0; k--) edits[below(&t, sizeof edits / sizeof *edits)](&t);
  for (uint32_t k = 0; k < t.n; k++) rt_text_add(&out, "%s\n", t.line[k]);
  return out;
}
