// A JSON reader for tests: strict, and everything in memory until the process ends.
//
//   const JsonValue *v = json_parse(text);        // NULL: no JSON
//   json_member(v, "functions")->n                // elements of an array, members of an object, bytes of a string
#ifndef TN_TESTS_JSON_H
#define TN_TESTS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;
typedef struct JsonValue {
  JsonKind kind;
  double number;
  const char *text;  // of a string, unescaped
  const char *key;   // of a member
  size_t n;
  struct JsonValue *first, *next;  // elements or members
  struct JsonValue *made_before;
} JsonValue;
static JsonValue *json_made;  // all values, which live as long as the program

typedef struct {
  const char *at;
  uint32_t depth;
} JsonReader;

static inline JsonValue *json_read(JsonReader *r);

static inline void json_space(JsonReader *r) { r->at += strspn(r->at, " \t\n\r"); }

static inline bool json_take(JsonReader *r, const char *word) {
  size_t n = strlen(word);
  json_space(r);
  bool is_there = !strncmp(r->at, word, n);
  r->at += is_there ? n : 0;
  return is_there;
}

static inline JsonValue *json_new(JsonKind kind) {
  JsonValue *v = calloc(1, sizeof *v);
  if (!v) abort();
  v->kind = kind, v->made_before = json_made, json_made = v;
  return v;
}

// The code of \uXXXX as UTF-8; -1: no such code.
static inline int json_code(JsonReader *r, char *out) {
  char digits[5] = "", *end;
  strncpy(digits, r->at, 4);
  long code = strtol(digits, &end, 16);
  if (end != digits + 4) return -1;
  r->at += 4;
  if (code < 0x80) return out[0] = (char)code, 1;
  if (code < 0x800) return out[0] = (char)(0xc0 | code >> 6), out[1] = (char)(0x80 | (code & 63)), 2;
  out[0] = (char)(0xe0 | code >> 12), out[1] = (char)(0x80 | (code >> 6 & 63)), out[2] = (char)(0x80 | (code & 63));
  return 3;
}

static inline JsonValue *json_string(JsonReader *r) {
  static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
  JsonValue *v = json_new(JSON_STRING);
  const char *end = r->at;
  while (*end && *end != '"') end += 1 + (end[0] == '\\' && end[1]);
  char *out = malloc((size_t)(end - r->at) + 1);
  if (!out) abort();
  for (v->text = out; *r->at != '"';) {
    if ((unsigned char)*r->at < ' ') return NULL;  // the end of the text too
    if (*r->at != '\\') {
      out[v->n++] = *r->at++;
      continue;
    }
    char escaped = *++r->at;
    const char *known = escaped ? strchr(plain, escaped) : NULL;
    if (!known && escaped != 'u') return NULL;
    r->at++;
    int n = 1;
    if (known) out[v->n] = means[known - plain];
    else n = json_code(r, out + v->n);
    if (n < 0) return NULL;
    v->n += (size_t)n;
  }
  out[v->n] = 0;
  r->at++;
  return v;
}

static inline JsonValue *json_number(JsonReader *r) {
  const char *at = r->at + (*r->at == '-');
  size_t n = strspn(at, "0123456789");
  if (!n || (*at == '0' && n > 1)) return NULL;
  at += n;
  if (*at == '.') {
    if (!(n = strspn(at + 1, "0123456789"))) return NULL;
    at += 1 + n;
  }
  if (*at == 'e' || *at == 'E') {
    at += 1 + (at[1] == '+' || at[1] == '-');
    if (!(n = strspn(at, "0123456789"))) return NULL;
    at += n;
  }
  JsonValue *v = json_new(JSON_NUMBER);
  v->number = strtod(r->at, NULL);
  r->at = at;
  return v;
}

static inline JsonValue *json_list(JsonReader *r, JsonKind kind, const char *end) {
  JsonValue *list = json_new(kind), **last = &list->first;
  if (json_take(r, end)) return list;
  do {
    JsonValue *key = NULL;
    if (kind == JSON_OBJECT && (!json_take(r, "\"") || !(key = json_string(r)) || !json_take(r, ":"))) return NULL;
    JsonValue *v = json_read(r);
    if (!v) return NULL;
    v->key = key ? key->text : NULL;
    *last = v, last = &v->next, list->n++;
  } while (json_take(r, ","));
  return json_take(r, end) ? list : NULL;
}

static inline JsonValue *json_read(JsonReader *r) {
  JsonValue *v;
  if (++r->depth > 200) return NULL;
  json_space(r);
  if (json_take(r, "{")) v = json_list(r, JSON_OBJECT, "}");
  else if (json_take(r, "[")) v = json_list(r, JSON_ARRAY, "]");
  else if (json_take(r, "\"")) v = json_string(r);
  else if (json_take(r, "null")) v = json_new(JSON_NULL);
  else if (json_take(r, "true")) v = json_new(JSON_TRUE);
  else if (json_take(r, "false")) v = json_new(JSON_FALSE);
  else v = json_number(r);
  r->depth--;
  return v;
}

// The value that the whole text is.
static inline const JsonValue *json_parse(const char *text) {
  JsonReader r = {text, 0};
  const JsonValue *v = json_read(&r);
  json_space(&r);
  return *r.at ? NULL : v;
}

static inline const JsonValue *json_member(const JsonValue *v, const char *key) {
  const JsonValue *c = v && v->kind == JSON_OBJECT ? v->first : NULL;
  while (c && strcmp(c->key, key)) c = c->next;
  return c;
}

// NULL: none; -1: the last
static inline const JsonValue *json_element(const JsonValue *v, long k) {
  const JsonValue *c = v && v->kind == JSON_ARRAY ? v->first : NULL;
  if (k < 0) k += v ? (long)v->n : 0;
  if (k < 0) return NULL;
  while (c && k--) c = c->next;
  return c;
}

static inline bool json_equal(const JsonValue *a, const JsonValue *b) {
  if (a->kind != b->kind || a->n != b->n || a->number != b->number) return false;
  if (a->kind == JSON_STRING) return !strcmp(a->text, b->text);
  const JsonValue *y = b->first;
  for (const JsonValue *x = a->first; x; x = x->next, y = y->next) {
    const JsonValue *other = a->kind == JSON_OBJECT ? json_member(b, x->key) : y;
    if (!other || !json_equal(x, other)) return false;
  }
  return true;
}

// Neither null, false, 0 nor empty.
static inline bool json_is_true(const JsonValue *v) {
  if (v->kind == JSON_NUMBER) return v->number != 0;
  return v->kind == JSON_TRUE || ((v->kind == JSON_STRING || v->kind == JSON_ARRAY || v->kind == JSON_OBJECT) && v->n);
}

#endif
