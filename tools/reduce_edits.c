// Edits of a program's text, line by line as it is printed, an instruction a line: what leaves a program that still
// parses, verifies and holds takes the place of the program.
//
//   lines go, in chunks that halve: functions, instructions, inputs, parameters
//   %y = relu %x : f32[4]      goes, and %y becomes an input, or is %x wherever the types agree
//   dim n <= 100               sizes shrink, all equal numbers together
#include "ir/ir.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tools/reduce.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char **line;  // without their ends
  uint32_t n;
} Lines;

static Lines lines_of(RtArena *mem, const char *text) {
  Lines l = {0};
  uint32_t cap = 0;
  while (*text) {
    size_t n = strcspn(text, "\n");
    *RT_PUSH(mem, l.line, l.n, cap) = rt_strndup(mem, text, n);
    text += n + (text[n] == '\n');
  }
  return l;
}

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

// ---- trying
// Outputs are numbered from 0 in every function.
static void put_line(RtText *out, const char *line, uint32_t *n_outputs) {
  if (begins(line, "func ")) *n_outputs = 0;
  const char *at = strstr(line, "index=");
  if (line[strspn(line, " ")] != 'o' || !begins(line + strspn(line, " "), "output ") || !at) {
    rt_text_add(out, "%s\n", line);
    return;
  }
  const char *behind = at + strlen("index=");
  rt_text_add(out, "%.*s%u%s\n", (int)(behind - line), line, (*n_outputs)++, behind + strspn(behind, "0123456789"));
}

// The text as the printer has it; NULL: it is no program.
static const char *printed(RtArena *mem, const RtText *text) {
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text->text, text->len, "reduced.tir", &diags);
  bool ok = p != NULL && p->n_fns > 0;
  for (uint32_t k = 0; ok && k < p->n_fns; k++) ok = ir_verify(p->fns[k], &diags);
  if (!ok) return NULL;
  RtText out = {.mem = mem};
  ir_print(p, &out, 0);
  return out.text;
}

// Lines that are NULL are gone.
static bool try_lines(Reduce *r, const Lines *l) {
  if (r->n_tries >= r->most_tries) return false;
  RtArena *mem = rt_arena_new();
  RtText text = {.mem = mem};
  uint32_t n_outputs = 0;
  for (uint32_t k = 0; k < l->n; k++)
    if (l->line[k]) put_line(&text, l->line[k], &n_outputs);
  const char *candidate = text.len ? printed(mem, &text) : NULL;
  bool ok = candidate && strcmp(candidate, r->text) != 0 && strlen(candidate) <= strlen(r->text) + 64;
  r->n_tries += ok;
  ok = ok && r->holds(candidate, strlen(candidate), r->ctx);
  if (ok) r->text = rt_strdup(r->mem, candidate);
  rt_arena_free(mem);
  return ok;
}

// ---- chunks
static bool drop_range(Reduce *r, uint32_t first, uint32_t n) {
  Lines l = lines_of(r->mem, r->text);
  for (uint32_t k = first; k < first + n && k < l.n; k++) l.line[k] = NULL;
  return try_lines(r, &l);
}

static bool drop_functions(Reduce *r) {
  bool any = false;
  for (uint32_t k = 0;; k++) {
    Lines l = lines_of(r->mem, r->text);
    while (k < l.n && !begins(l.line[k], "func ")) k++;
    uint32_t end = k;
    while (end < l.n && !begins(l.line[end], "}")) end++;
    if (end >= l.n) return any;
    if (drop_range(r, k, end + 1 - k)) any = true, k--;
  }
}

// From the end, where what nobody reads stands.
static bool drop_chunks(Reduce *r) {
  bool any = false;
  uint32_t n = lines_of(r->mem, r->text).n;
  for (uint32_t size = n / 2 ? n / 2 : 1;; size /= 2) {
    for (uint32_t end = lines_of(r->mem, r->text).n; end > 1;) {
      uint32_t first = end > size ? end - size : 1;
      any |= drop_range(r, first, end - first);
      end = first;
    }
    if (size == 1) return any;
  }
}

// `scope x {` goes with the line that closes it.
static bool unwrap_scopes(Reduce *r) {
  bool any = false;
  for (uint32_t at = 0;; at++) {
    Lines l = lines_of(r->mem, r->text);
    while (at < l.n && !begins(l.line[at] + strspn(l.line[at], " "), "scope ")) at++;
    if (at >= l.n) return any;
    size_t depth = strspn(l.line[at], " ");
    uint32_t end = at + 1;
    while (end < l.n && !(strspn(l.line[end], " ") == depth && l.line[end][depth] == '}')) end++;
    l.line[at] = NULL;
    if (end < l.n) l.line[end] = NULL;
    if (try_lines(r, &l)) any = true, at--;
  }
}

// Item k of `func @f(%a: f32[n,2], %b: f32[]) {` goes. False: there is none, or it is needed; *is_last then.
static bool drop_input(Reduce *r, uint32_t at, uint32_t k, bool *is_last) {
  Lines l = lines_of(r->mem, r->text);
  const char *open = strchr(l.line[at], '('), *from = open ? open + 1 : NULL;
  for (uint32_t i = 0; i < k && from; i++) from = strstr(from, ", %"), from = from ? from + 2 : NULL;
  *is_last = !from || *from != '%';
  if (*is_last) return false;
  const char *behind = strstr(from, ", %"), *close = strstr(from, ") {");
  if (!behind && !close) return false;
  int kept = (int)(from - l.line[at]) - (!behind && k ? 2 : 0);
  l.line[at] = rt_printf(r->mem, "%.*s%s", kept, l.line[at], behind ? behind + 2 : close);
  return try_lines(r, &l);
}

static bool drop_inputs(Reduce *r) {
  bool any = false;
  for (uint32_t at = 0;; at++) {
    Lines l = lines_of(r->mem, r->text);
    while (at < l.n && !begins(l.line[at], "func ")) at++;
    if (at >= l.n) return any;
    bool is_last = false;
    for (uint32_t k = 0; !is_last;) {
      bool dropped = drop_input(r, at, k, &is_last);
      any |= dropped;
      k += !dropped;
    }
  }
}

// ---- instructions
typedef struct {
  const char *text;  // without %
  size_t n;
} Name;

static size_t name_length(const char *s) {
  size_t n = 0;
  while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '.') n++;
  return n;
}

static bool same_name(Name a, Name b) { return a.n == b.n && !memcmp(a.text, b.text, a.n); }

// `  %a, %b = op ..  : type, type`: up to `most` results; the number of them, 0: no such line
static uint32_t results_of(const char *line, Name *out, uint32_t most) {
  uint32_t n = 0;
  const char *at = line + strspn(line, " ");
  while (*at == '%' && n < most) {
    out[n] = (Name){at + 1, name_length(at + 1)};
    at += 1 + out[n++].n;
    if (begins(at, " = ")) return n;
    if (!begins(at, ", ")) return 0;
    at += 2;
  }
  return 0;
}

// The type behind the last ` : ` of an instruction, or behind the name of an input; "": none
static const char *type_of_line(RtArena *mem, const char *line, uint32_t k) {
  const char *at = strstr(line, " : "), *input = line + strspn(line, " ");
  if (*input == '%' && input[1 + name_length(input + 1)] == ':') {
    const char *type = input + 3 + name_length(input + 1);
    size_t n = strlen(type);
    return rt_strndup(mem, type, n && type[n - 1] == ',' ? n - 1 : n);
  }
  for (const char *next; at && (next = strstr(at + 3, " : "));) at = next;
  if (!at) return "";
  for (at += 3; k--; at += *at != 0) at += strcspn(at, "]"), at += strspn(at, "],");
  at += strspn(at, " ");
  size_t n = strcspn(at, "]");
  return rt_strndup(mem, at, at[n] ? n + 1 : n);
}

static const char *type_of(RtArena *mem, const Lines *l, uint32_t before, Name name) {
  for (uint32_t k = before; k-- > 0 && !begins(l->line[k], "func ");) {
    Name result[16];
    uint32_t n = results_of(l->line[k], result, 16);
    for (uint32_t i = 0; i < n; i++)
      if (same_name(result[i], name)) return type_of_line(mem, l->line[k], i);
    const char *input = l->line[k] + strspn(l->line[k], " ");
    Name own = {input + 1, name_length(input + 1)};
    if (*input == '%' && !n && same_name(own, name)) return type_of_line(mem, l->line[k], 0);
  }
  return "";
}

static const char *renamed(RtArena *mem, const char *line, Name from, Name to) {
  RtText out = {.mem = mem};
  rt_text_put(&out, "", 0);
  for (const char *at = line; *at;) {
    Name here = {at + 1, name_length(at + 1)};
    bool hit = *at == '%' && same_name(here, from);
    rt_text_put(&out, at, 1);
    at++;
    if (!hit) continue;
    rt_text_put(&out, to.text, to.n);
    at += from.n;
  }
  return out.text;
}

static bool is_end_of_function(const char *line) { return begins(line, "}"); }

// %y = op .. %x ..: readers of %y read %x.
static bool take_operand(Reduce *r, uint32_t at) {
  Lines l = lines_of(r->mem, r->text);
  Name y;
  if (results_of(l.line[at], &y, 1) != 1) return false;
  const char *type = type_of_line(r->mem, l.line[at], 0);
  for (const char *x = strstr(l.line[at], " = "); (x = strchr(x, '%')); x++) {
    Name operand = {x + 1, name_length(x + 1)};
    if (strcmp(type_of(r->mem, &l, at, operand), type)) continue;
    Lines edited = lines_of(r->mem, r->text);
    edited.line[at] = NULL;
    for (uint32_t k = at + 1; k < l.n && !is_end_of_function(l.line[k]); k++)
      edited.line[k] = renamed(r->mem, l.line[k], y, operand);
    if (try_lines(r, &edited)) return true;
  }
  return false;
}

// output %s, where %s = op %x: outputs %x, of whatever type.
static bool output_operand(Reduce *r, uint32_t at) {
  Lines l = lines_of(r->mem, r->text);
  const char *own = l.line[at] + strspn(l.line[at], " ");
  if (!begins(own, "output %")) return false;
  Name s = {own + strlen("output %"), name_length(own + strlen("output %"))}, result;
  uint32_t made = at;
  while (made && !(results_of(l.line[made], &result, 1) == 1 && same_name(result, s))) made--;
  for (const char *x = made ? strstr(l.line[made], " = ") : NULL; x && (x = strchr(x, '%')); x++) {
    Lines edited = lines_of(r->mem, r->text);
    const char *type = strstr(s.text, " : ");
    edited.line[at] = rt_printf(r->mem, "  output %%%.*s%.*s", (int)name_length(x + 1), x + 1,
                                (int)(type ? type - (s.text + s.n) : (long)strlen(s.text + s.n)), s.text + s.n);
    if (try_lines(r, &edited)) return true;
  }
  return false;
}

// The results of line `at` become inputs of the function.
static bool take_inputs(Reduce *r, uint32_t at) {
  Lines l = lines_of(r->mem, r->text);
  Name result[16];
  uint32_t n = results_of(l.line[at], result, 16), head = at;
  if (!n || strstr(l.line[at], " param @")) return false;
  while (head && !begins(l.line[head], "func ")) head--;
  RtText inputs = {.mem = r->mem};
  for (uint32_t k = 0; k < n; k++)
    rt_text_add(&inputs, "%%%.*s: %s, ", (int)result[k].n, result[k].text, type_of_line(r->mem, l.line[at], k));
  const char *open = strchr(l.line[head], '(');
  if (!open) return false;
  bool has_own = open[1] != ')' || head + 1 < l.n;
  bool is_empty = open[1] == ')';
  if (is_empty) inputs.text[inputs.len - 2] = 0;
  l.line[head] = rt_printf(r->mem, "%.*s%s%s", (int)(open + 1 - l.line[head]), l.line[head], inputs.text, open + 1);
  l.line[at] = NULL;
  return has_own && try_lines(r, &l);
}

static bool simplify_instructions(Reduce *r) {
  bool any = false;
  for (uint32_t at = lines_of(r->mem, r->text).n; at-- > 0;) {
    if (at >= lines_of(r->mem, r->text).n) continue;
    any |= take_operand(r, at) || output_operand(r, at) || take_inputs(r, at);
  }
  return any;
}

// ---- sizes
static bool is_number_at(const char *text, const char *at) {
  if (!isdigit((unsigned char)*at)) return false;
  return at == text || !(isalnum((unsigned char)at[-1]) || strchr("_.%@-", at[-1]));
}

static bool resize(Reduce *r, long from, long to) {
  Lines l = lines_of(r->mem, r->text);
  for (uint32_t k = 0; k < l.n; k++) {
    RtText out = {.mem = r->mem};
    rt_text_put(&out, "", 0);
    for (const char *at = l.line[k]; *at;) {
      char *end = (char *)(uintptr_t)at + 1;
      bool whole =
          is_number_at(l.line[k], at) && strtol(at, &end, 10) == from && *end != '.' && !isalpha((unsigned char)*end);
      if (!is_number_at(l.line[k], at)) end = (char *)(uintptr_t)at + 1;
      if (whole) rt_text_add(&out, "%ld", to);
      else rt_text_put(&out, at, (size_t)(end - at));
      at = end;
    }
    l.line[k] = out.text;
  }
  return try_lines(r, &l);
}

static long largest_below(const char *text, long limit) {
  long most = 0;
  for (const char *at = text; *at; at++)
    if (is_number_at(text, at)) {
      long n = strtol(at, NULL, 10);
      if (n < limit && n > most) most = n;
    }
  return most;
}

static bool shrink_sizes(Reduce *r) {
  bool any = false;
  for (long from = largest_below(r->text, 1L << 30); from > 1; from = largest_below(r->text, from)) {
    long smaller[] = {1, 2, 3, from / 2, from - 1};
    for (int k = 0; k < 5; k++) {
      if (smaller[k] < 1 || smaller[k] >= from || !resize(r, from, smaller[k])) continue;
      any = true;
      break;
    }
  }
  return any;
}

// One name of `dim a <= 1, b <= 2` goes.
static bool drop_dims(Reduce *r) {
  bool any = false;
  for (uint32_t item = 0; item < 64; item++) {
    Lines l = lines_of(r->mem, r->text);
    uint32_t at = 0;
    while (at < l.n && !begins(l.line[at], "dim ")) at++;
    if (at == l.n) return any;
    const char *from = l.line[at] + 4;
    for (uint32_t k = 0; k < item && from; k++) from = strstr(from, ", "), from = from ? from + 2 : NULL;
    if (!from) return any;
    const char *behind = strstr(from, ", ");
    int kept = (int)(from - l.line[at]) - (!behind && item ? 2 : 0);
    l.line[at] = rt_printf(r->mem, "%.*s%s", kept, l.line[at], behind ? behind + 2 : "");
    if (try_lines(r, &l)) any = true, item--;
  }
  return any;
}

void reduce_text(Reduce *r) {
  drop_functions(r);
  for (bool any = true; any && r->n_tries < r->most_tries;) {
    any = drop_chunks(r);
    any |= simplify_instructions(r);
    any |= unwrap_scopes(r);
    any |= drop_inputs(r);
    any |= drop_dims(r);
    any |= shrink_sizes(r);
  }
}
