#include "tools/json.h"

#include "tools/tool.h"

#include <math.h>
#include <string.h>

static void begin(RtText *out, const char *key) {
  bool is_first = !out->len || strchr("{[:", out->text[out->len - 1]);
  if (!is_first) rt_text_put(out, ",", 1);
  if (!key) return;
  tool_json(out, key);
  rt_text_put(out, ":", 1);
}

void json_open(RtText *out, const char *key, char bracket) {
  begin(out, key);
  rt_text_put(out, &bracket, 1);
}

void json_close(RtText *out, char bracket) { rt_text_put(out, &bracket, 1); }

void json_text(RtText *out, const char *key, const char *s) {
  begin(out, key);
  if (s) tool_json(out, s);
  else rt_text_put(out, "null", 4);
}

void json_int(RtText *out, const char *key, int64_t n) {
  begin(out, key);
  rt_text_add(out, "%lld", (long long)n);
}

void json_number(RtText *out, const char *key, double x) {
  begin(out, key);
  if (isfinite(x)) rt_text_add(out, "%.17g", x);
  else rt_text_put(out, "null", 4);
}

void json_bool(RtText *out, const char *key, bool b) {
  begin(out, key);
  rt_text_put(out, b ? "true" : "false", b ? 4 : 5);
}
