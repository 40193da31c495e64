// Which keys a query sees by its position, that of key t + offset for query t, and the masks of rows that follow from it.
//
//   causal:           keys  .. t + offset
//   causal, window w: keys  t + offset - w + 1 .. t + offset
//   window w:         keys  t + offset - w + 1 .. t + offset + w - 1
#include "codegen/attention/attention.h"

bool cg_attention_is_bounded(const AttnCode *s) { return ir_attention_is_local(&s->a); }

bool cg_attention_is_plain_causal(const AttnCode *s) {
  return !s->a.window && (!s->a.causal || (ir_none(s->a.offset_value) && s->a.offset == 0));
}

// Number of keys from the query's own to the last visible one.
static int64_t ahead(const AttnCode *s) { return s->a.causal ? 1 : s->a.window; }

V cg_attention_key_begin(AttnCode *s, V t, V lo) {
  Cg *c = s->c;
  if (!s->a.window) return lo;
  return cg_max(c, lo, cg_add(c, cg_add(c, t, s->offset), cg_i64(c, 1 - s->a.window)));
}

V cg_attention_key_end(AttnCode *s, V t, V hi) {
  Cg *c = s->c;
  if (!cg_attention_is_bounded(s)) return hi;
  return cg_min(c, hi, cg_add(c, cg_add(c, t, s->offset), cg_i64(c, ahead(s))));
}

V cg_attention_query_begin(AttnCode *s, V k, V lo) {
  Cg *c = s->c;
  if (!cg_attention_is_bounded(s)) return lo;
  V first = cg_max(c, cg_sub(c, cg_add(c, k, cg_i64(c, 1 - ahead(s))), s->offset), cg_i64(c, 0));
  return cg_max(c, lo, first);
}

V cg_attention_query_end(AttnCode *s, V k, V hi) {
  Cg *c = s->c;
  if (!s->a.window) return hi;
  V end = cg_max(c, cg_sub(c, cg_add(c, k, cg_i64(c, s->a.window)), s->offset), cg_i64(c, 0));
  return cg_min(c, hi, end);
}

AttnSeen cg_attention_seen(AttnCode *s, V t, V k0, V n) {
  Cg *c = s->c;
  AttnSeen x = {.to = n};
  if (cg_attention_is_bounded(s)) x.to = cg_sub(c, cg_attention_key_end(s, t, cg_add(c, k0, n)), k0);
  if (s->a.window) x.from = cg_sub(c, cg_attention_key_begin(s, t, k0), k0);
  return x;
}

V cg_attention_seen_mask(AttnCode *s, AttnSeen x, V j) {
  Cg *c = s->c;
  V mask = cg_mask(c, cg_sub(c, x.to, j));
  if (!x.from) return mask;
  return cg_and(c, mask, cg_not(c, cg_mask(c, cg_sub(c, x.from, j))));
}
