// From buffers in bytes and time to items in units and sections.
#include "ir/placement/problem.h"
#include "runtime/format.h"
#include <stdlib.h>
#include <string.h>

static const int64_t MOST_UNITS = INT64_C(1) << 60, MOST_ALIGN = INT64_C(1) << 40;

bool ir_place_fault(PlaceFault *fault, uint32_t buffer, uint32_t other, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fault->buffer = buffer, fault->other = other;
  rt_vformat(fault->text, sizeof fault->text, fmt, ap);
  va_end(ap);
  return false;
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// ---- what a buffer may be
static bool check_holes(const PlaceBuffer *b, uint32_t k, PlaceFault *fault) {
  int64_t after = b->lower;
  for (uint32_t h = 0; h < b->n_holes; h++) {
    PlaceSpan s = b->holes[h];
    if (s.lower >= s.upper)
      return ir_place_fault(fault, k, k, "has a hole from %lld to %lld: its end must be above its start",
                            (long long)s.lower, (long long)s.upper);
    if (s.lower <= after || s.upper >= b->upper)
      return ir_place_fault(fault, k, k,
                            "has a hole from %lld to %lld: holes lie inside of the life, ascending, and do not touch",
                            (long long)s.lower, (long long)s.upper);
    after = s.upper;
  }
  return true;
}

static int64_t align_of(const PlaceProblem *p, const PlaceBuffer *b) {
  return b->align > 1 ? p->align / gcd(p->align, b->align) * b->align : p->align;
}

static bool check_buffer(const PlaceProblem *p, uint32_t k, int64_t *sum, PlaceFault *fault) {
  const PlaceBuffer *b = &p->buffers[k];
  long long lower = b->lower, upper = b->upper;
  if (b->lower >= b->upper)
    return ir_place_fault(fault, k, k, "lives from %lld to %lld: its end must be above its start", lower, upper);
  if (b->size < 0) return ir_place_fault(fault, k, k, "has size %lld: it must be 0 or more", (long long)b->size);
  if (b->align < 0 || b->align > MOST_ALIGN || align_of(p, b) > MOST_ALIGN)
    return ir_place_fault(fault, k, k, "has alignment %lld: it must be 1 to 2^40, with that of all",
                          (long long)b->align);
  if (b->fixed < PLACE_ANY || (b->fixed > 0 && b->fixed % align_of(p, b)))
    return ir_place_fault(fault, k, k, "has the given offset %lld, which is no multiple of its alignment %lld",
                          (long long)b->fixed, (long long)align_of(p, b));
  if (b->size > MOST_UNITS || b->fixed > MOST_UNITS)
    return ir_place_fault(fault, k, k, "has a size or an offset above 2^60");
  *sum += b->size + 2 * align_of(p, b);  // no top is higher
  if (*sum > MOST_UNITS) return ir_place_fault(fault, k, k, "brings the sum of all sizes above 2^60");
  return check_holes(b, k, fault);
}

// ---- sections
typedef struct {
  int64_t time;
  uint32_t range;
  bool is_start;
} Event;

// Ends before starts at the same time
static int by_time(const void *a, const void *b) {
  const Event *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->is_start != y->is_start) return x->is_start ? 1 : -1;
  return x->range < y->range ? -1 : x->range > y->range;
}

static uint32_t n_ranges(const Problem *p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++) n += p->given->buffers[p->buffer[i]].n_holes + 1;
  return n;
}

static void find_events(const Problem *p, Event *events) {
  uint32_t range = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const PlaceBuffer *b = &p->given->buffers[p->buffer[i]];
    for (uint32_t h = 0; h <= b->n_holes; h++, range++) {
      *events++ = (Event){h ? b->holes[h - 1].upper : b->lower, range, true};
      *events++ = (Event){h < b->n_holes ? b->holes[h].lower : b->upper, range, false};
    }
  }
}

static void walk_events(Problem *p, const Event *events, uint32_t n, SectionRange *of) {
  bool is_open = false;
  for (uint32_t k = 0; k < n; k++) {
    if (events[k].is_start) {
      of[events[k].range].from = p->n_sections;
      is_open = true;
      continue;
    }
    p->n_sections += is_open;
    is_open = false;
    of[events[k].range].to = p->n_sections;
  }
}

// A hole in which no section lies is none.
static void join_ranges(Problem *p, const SectionRange *of) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    uint32_t first = n;
    p->first_range[i] = n;
    for (uint32_t h = 0; h <= p->given->buffers[p->buffer[i]].n_holes; h++, of++) {
      if (n > first && p->ranges[n - 1].to == of->from) p->ranges[n - 1].to = of->to;
      else p->ranges[n++] = *of;
    }
    p->hull[i] = (SectionRange){p->ranges[first].from, p->ranges[n - 1].to};
    p->has_holes |= n > first + 1;
  }
  p->first_range[p->n] = n;
}

static void find_sections(Problem *p) {
  uint32_t n = n_ranges(p);
  Event *events = rt_alloc(p->mem, 2 * n * sizeof *events);
  SectionRange *of = rt_alloc(p->mem, n * sizeof *of);
  p->ranges = rt_alloc(p->mem, n * sizeof *p->ranges);
  p->first_range = rt_alloc(p->mem, (p->n + 1) * sizeof *p->first_range);
  p->hull = rt_alloc(p->mem, p->n * sizeof *p->hull);
  find_events(p, events);
  qsort(events, 2 * n, sizeof *events, by_time);
  walk_events(p, events, 2 * n, of);
  join_ranges(p, of);
}

// ---- units
static void find_units(Problem *p) {
  p->unit = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const PlaceBuffer *b = &p->given->buffers[p->buffer[i]];
    p->size[i] = round_up(b->size, p->given->align);
    p->align[i] = align_of(p->given, b);
    p->unit = gcd(p->unit, p->size[i]);
    if (b->fixed > 0) p->unit = gcd(p->unit, b->fixed);
    if (b->align > 1) p->unit = gcd(p->unit, p->align[i]);
  }
  if (!p->unit) p->unit = p->given->align;
  for (uint32_t i = 0; i < p->n; i++) {
    const PlaceBuffer *b = &p->given->buffers[p->buffer[i]];
    p->size[i] /= p->unit;
    p->align[i] = b->align > 1 ? p->align[i] / p->unit : 1;
    p->fixed_at[i] = b->fixed < 0 ? -1 : b->fixed / p->unit;
  }
}

static void find_lives(Problem *p) {
  int64_t first = INT64_MAX, last = INT64_MIN;
  uint32_t shift = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const PlaceBuffer *b = &p->given->buffers[p->buffer[i]];
    if (b->lower < first) first = b->lower;
    if (b->upper > last) last = b->upper;
  }
  while (p->n && ((uint64_t)last - (uint64_t)first) >> shift > 1 << 20) shift++;
  for (uint32_t i = 0; i < p->n; i++) {
    const PlaceBuffer *b = &p->given->buffers[p->buffer[i]];
    p->life[i] = (int64_t)(((uint64_t)b->upper - (uint64_t)b->lower) >> shift);
    p->start[i] = (int64_t)(((uint64_t)b->lower - (uint64_t)first) >> shift);
    p->end[i] = (int64_t)(((uint64_t)b->upper - (uint64_t)first) >> shift);
  }
}

// ---- given offsets
int ir_place_by_offset(const void *a, const void *b) {
  const PlaceAt *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->item < y->item ? -1 : x->item > y->item;
}

static void find_fixed(Problem *p) {
  PlaceAt *list = rt_alloc(p->mem, (p->n + 1) * sizeof *list);
  for (uint32_t i = 0; i < p->n; i++) {
    if (p->fixed_at[i] < 0) p->loose[p->n_loose++] = i;
    else list[p->n_fixed++] = (PlaceAt){p->fixed_at[i], i};
  }
  qsort(list, p->n_fixed, sizeof *list, ir_place_by_offset);
  for (uint32_t k = 0; k < p->n_fixed; k++) p->fixed[k] = list[k].item;
}

static void find_bound(Problem *p) {
  int64_t *load = rt_alloc(p->mem, (p->n_sections + 1) * sizeof *load), sum = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    for (uint32_t k = p->first_range[i]; k < p->first_range[i + 1]; k++)
      load[p->ranges[k].from] += p->size[i], load[p->ranges[k].to] -= p->size[i];
    if (p->fixed_at[i] >= 0 && p->fixed_at[i] + p->size[i] > p->bound) p->bound = p->fixed_at[i] + p->size[i];
  }
  for (uint32_t s = 0; s < p->n_sections; s++) {
    sum += load[s];
    if (sum > p->bound) p->bound = sum;
  }
}

static void allocate(Problem *p) {
  uint32_t n = p->n + 1;
  p->size = rt_alloc(p->mem, n * sizeof *p->size), p->align = rt_alloc(p->mem, n * sizeof *p->align);
  p->fixed_at = rt_alloc(p->mem, n * sizeof *p->fixed_at), p->life = rt_alloc(p->mem, n * sizeof *p->life);
  p->start = rt_alloc(p->mem, n * sizeof *p->start), p->end = rt_alloc(p->mem, n * sizeof *p->end);
  p->fixed = rt_alloc(p->mem, n * sizeof *p->fixed), p->loose = rt_alloc(p->mem, n * sizeof *p->loose);
}

bool ir_place_problem(const PlaceProblem *given, RtArena *mem, Problem *p, PlaceFault *fault) {
  int64_t sum = 0;
  *p = (Problem){.given = given, .mem = mem, .buffer = rt_alloc(mem, (given->n + 1) * sizeof *p->buffer)};
  for (uint32_t k = 0; k < given->n; k++) {
    if (!check_buffer(given, k, &sum, fault)) return false;
    if (given->buffers[k].size) p->buffer[p->n++] = k;
  }
  allocate(p);
  find_units(p);
  find_lives(p);
  find_sections(p);
  find_fixed(p);
  find_bound(p);
  p->is_plain = !p->n_fixed;
  for (uint32_t i = 0; i < p->n; i++) p->is_plain &= p->align[i] == 1;
  return true;
}

bool ir_place_ranges_meet(const Problem *p, uint32_t a, uint32_t b) {
  uint32_t x = p->first_range[a], y = p->first_range[b];
  while (x < p->first_range[a + 1] && y < p->first_range[b + 1]) {
    if (p->ranges[x].from < p->ranges[y].to && p->ranges[y].from < p->ranges[x].to) return true;
    if (p->ranges[x].to < p->ranges[y].to) x++;
    else y++;
  }
  return false;
}

int64_t ir_place_past_fixed(const Problem *p, uint32_t i, int64_t at) {
  at = round_up(at, p->align[i]);
  for (uint32_t k = 0; k < p->n_fixed && p->fixed_at[p->fixed[k]] < at + p->size[i]; k++) {
    int64_t top = p->fixed_at[p->fixed[k]] + p->size[p->fixed[k]];
    if (top > at && place_meet(p, i, p->fixed[k])) at = round_up(top, p->align[i]);
  }
  return at;
}
