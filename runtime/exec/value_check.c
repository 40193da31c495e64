#include "runtime/exec/value_check.h"

typedef struct {
  const RtValueCheck *c;
  int64_t last;
  RtBadValue *bad;
} Search;

// Without a branch for each number: what most runs find.
static bool are_in_range(const int64_t *v, int64_t n, int64_t lo, int64_t last) {
  uint64_t width = (uint64_t)last - (uint64_t)lo;
  bool bad = last < lo && n > 0;
  for (int64_t i = 0; i < n; i++) bad |= (uint64_t)v[i] - (uint64_t)lo > width;
  return !bad;
}

// Elements [at, end)
static RtValueFault search_run(const Search *s, int64_t at, int64_t end) {
  const RtCheck *k = s->c->check;
  const int64_t *v = s->c->data;
  if (!k->is_sorted && are_in_range(v + at, end - at, k->lo, s->last)) return RT_VALUE_GOOD;
  for (int64_t i = at; i < end; i++) {
    if (k->has_other && v[i] == k->other) continue;
    *s->bad = (RtBadValue){i, v[i], s->last, i > at ? v[i - 1] : 0};
    if (v[i] < k->lo || v[i] > s->last) return RT_VALUE_RANGE;
    if (k->is_sorted && i > at && v[i] > v[i - 1]) return RT_VALUE_ORDER;
  }
  return RT_VALUE_GOOD;
}

// The same, or of each group in it the part that is read
static RtValueFault search_span(const Search *s, int64_t at, int64_t end) {
  const RtCheck *k = s->c->check;
  if (!k->group) return search_run(s, at, end);
  RtValueFault fault = RT_VALUE_GOOD;
  for (; at < end && !fault; at += k->group) fault = search_run(s, at + k->first, at + k->first + k->size);
  return fault;
}

static RtValueFault search_steps(const Search *s) {
  const RtCheck *k = s->c->check;
  int64_t batch = s->c->dims[k->batch], time = s->c->dims[k->time], row = k->row;
  RtValueFault fault = RT_VALUE_GOOD;
  for (int64_t b = 0; b < batch && !fault; b++) {
    int64_t n = s->c->lengths[b] < time ? s->c->lengths[b] : time;
    if (!k->time_major) fault = search_span(s, b * time * row, (b * time + (n > 0 ? n : 0)) * row);
    for (int64_t t = 0; k->time_major && t < n && !fault; t++)
      fault = search_span(s, (t * batch + b) * row, (t * batch + b + 1) * row);
  }
  return fault;
}

// Of numbers that are in range
static RtValueFault check_sum(const Search *s) {
  uint64_t sum = 0;  // of an array's sizes: no more than 64 bits
  for (int64_t i = 0; i < s->c->n; i++) sum += (uint64_t)s->c->data[i];
  int64_t last = s->c->dims[s->c->check->sum];
  if (s->c->check->is_exact ? sum == (uint64_t)last : sum <= (uint64_t)last) return RT_VALUE_GOOD;
  *s->bad = (RtBadValue){.value = (int64_t)sum, .last = last};
  return RT_VALUE_SUM;
}

RtValueFault rt_find_bad_value(const RtValueCheck *c, RtBadValue *bad) {
  Search s = {c, c->dims[c->check->hi] - !c->check->is_inclusive, bad};
  if (c->n == 0) return RT_VALUE_GOOD;
  RtValueFault fault = c->check->is_packed ? search_steps(&s) : search_span(&s, 0, c->n);
  return fault || !c->check->has_sum ? fault : check_sum(&s);
}
