// JSON on a text, value by value. Commas come by themselves; `key` is NULL inside a list.
#ifndef TN_TOOLS_JSON_H
#define TN_TOOLS_JSON_H

#include "runtime/base.h"

void json_open(RtText *out, const char *key, char bracket);  // { or [
void json_close(RtText *out, char bracket);
void json_text(RtText *out, const char *key, const char *s);  // NULL: null
void json_int(RtText *out, const char *key, int64_t n);
void json_number(RtText *out, const char *key, double x);  // not finite: null
void json_bool(RtText *out, const char *key, bool b);

#endif
