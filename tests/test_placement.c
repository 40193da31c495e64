// Placement (ir/placement): hard problems at their capacity, planted packings that must not be refused, small problems
// with holes, given offsets and alignments beside brute force, the same offsets of every compiler, faults in words.
//
//   test_placement          what tools/check runs
//   test_placement --all    20 shuffles of each hard problem, 10,000 packings, 20,000 small problems
//   test_placement FILE.csv [CAPACITY [BUDGET]]    one problem: peak, bound, units and time of it
#include "frontend/tenure.h"
#include "ir/placement/placement.h"
#include "tests/check.h"
#include "tests/cpu_time.h"
#include "tests/rng.h"

#include <stdlib.h>

typedef struct {
  PlaceBuffer *b;
  uint32_t n, cap;
  RtArena *mem;
} Set;

static PlaceBuffer *add(Set *s, int64_t lower, int64_t upper, int64_t size) {
  PlaceBuffer *b = RT_PUSH(s->mem, s->b, s->n, s->cap);
  *b = (PlaceBuffer){.lower = lower, .upper = upper, .size = size, .fixed = PLACE_ANY};
  return b;
}

static bool read_csv(const char *path, Set *s) {
  FILE *in = fopen(path, "r");
  char line[128];
  long long lower, upper, size;
  while (in && fgets(line, sizeof line, in))
    if (sscanf(line, "%*[^,],%lld,%lld,%lld", &lower, &upper, &size) == 3) add(s, lower, upper, size);
  if (in) fclose(in);
  return in && s->n;
}

static void shuffle(Set *s, Rng *rng) {
  for (uint32_t k = s->n; k > 1; k--) {
    uint32_t with = rng_below(rng, k);
    PlaceBuffer old = s->b[k - 1];
    s->b[k - 1] = s->b[with], s->b[with] = old;
  }
}

// Places and checks; the peak of a placement that is none fails.
static Placement place(const Set *s, int64_t align, int64_t capacity, int64_t budget) {
  PlaceProblem p = {.buffers = s->b, .n = s->n, .align = align, .capacity = capacity, .budget = budget};
  Placement out = {0};
  PlaceFault fault = {0};
  if (!CHECK(ir_place(&p, s->mem, &out, &fault))) printf("  buffer %u %s\n", fault.buffer, fault.text);
  else if (!CHECK(ir_place_check(&p, out.offsets, out.peak, s->mem, &fault)))
    printf("  buffers %u and %u: %s\n", fault.buffer, fault.other, fault.text);
  return out;
}

// ---- hard problems
static const int64_t CAPACITY = 1048576;

static void test_hard(uint32_t shuffles) {
  double worst = 0;
  int64_t most = 0;
  for (char name = 'A'; name <= 'K'; name++)
    for (uint32_t k = 0; k < shuffles; k++) {
      char path[64];
      snprintf(path, sizeof path, "tests/placement/%c.1048576.csv", name);
      Set s = {.mem = rt_arena_new()};
      Rng rng = {k};
      if (!CHECK(read_csv(path, &s))) return;
      if (k) shuffle(&s, &rng);
      double begun = thread_cpu_s();
      Placement out = place(&s, 1, CAPACITY, 50000);
      double took = thread_cpu_s() - begun;
      if (!CHECK(out.peak <= CAPACITY && out.spent <= 50000))
        printf("  %s, shuffle %u: %lld\n", path, k, (long long)out.peak);
      worst = took > worst ? took : worst, most = out.spent > most ? out.spent : most;
      rt_arena_free(s.mem);
    }
  printf("hard problems, %u shuffles each: at most %lld units, %.3f s\n", shuffles, (long long)most, worst);
}

// The least peak, in thousandths of the bound: of nine it is the bound.
static void test_least(int64_t budget, int32_t d_bar, int32_t j_bar) {
  for (char name = 'A'; name <= 'K'; name++) {
    char path[64];
    snprintf(path, sizeof path, "tests/placement/%c.1048576.csv", name);
    Set s = {.mem = rt_arena_new()};
    if (!CHECK(read_csv(path, &s))) return;
    Placement out = place(&s, 1, 0, budget);
    int32_t bar = name == 'D' ? d_bar : name == 'J' ? j_bar : 1000;
    if (!CHECK(out.peak * 1000 <= out.lower_bound * bar) || !CHECK(out.is_optimal == (bar == 1000)))
      printf("  %s: %lld, bound %lld\n", path, (long long)out.peak, (long long)out.lower_bound);
    rt_arena_free(s.mem);
  }
}

// Beside one large buffer what is missing to the bound is next to nothing: the search ends, whatever it has not proven.
static void test_little_missing(void) {
  for (char name = 'A'; name <= 'K'; name++) {
    char path[64];
    snprintf(path, sizeof path, "tests/placement/%c.1048576.csv", name);
    Set s = {.mem = rt_arena_new()};
    if (!CHECK(read_csv(path, &s))) return;
    int64_t first = s.b[0].lower, end = s.b[0].upper;
    for (uint32_t k = 1; k < s.n; k++) {
      if (s.b[k].lower < first) first = s.b[k].lower;
      if (s.b[k].upper > end) end = s.b[k].upper;
    }
    add(&s, first, end, 4096 * CAPACITY);
    CHECK(place(&s, 1, 0, 2000).spent <= 2000);
    rt_arena_free(s.mem);
  }
}

// ---- planted packings: a rectangle cut at random, without slack; a refusal is a lie
static void cut(Set *s, int32_t x0, int32_t x1, int32_t y0, int32_t y1, uint32_t parts, Rng *rng) {
  int32_t w = x1 - x0, h = y1 - y0;
  if (parts < 2 || w < 3 || h < 3) {
    add(s, x0, x1, y1 - y0);
    return;
  }
  int32_t x = x0 + 1 + (int32_t)rng_below(rng, (uint32_t)w - 1), y = y0 + 1 + (int32_t)rng_below(rng, (uint32_t)h - 1);
  uint32_t some = 1 + rng_below(rng, parts - 1);
  if (parts > 4 && w > 2 && h > 2 && rng_below(rng, 3) == 0) {  // a pinwheel: no line cuts it in two
    int32_t xa = x0 + 1 + (int32_t)rng_below(rng, (uint32_t)w - 2),
            xb = xa + 1 + (int32_t)rng_below(rng, (uint32_t)(x1 - xa - 1));
    int32_t ya = y0 + 1 + (int32_t)rng_below(rng, (uint32_t)h - 2),
            yb = ya + 1 + (int32_t)rng_below(rng, (uint32_t)(y1 - ya - 1));
    uint32_t each = parts / 5;
    cut(s, x0, xb, y0, ya, each, rng), cut(s, xb, x1, y0, yb, each, rng), cut(s, xa, x1, yb, y1, each, rng);
    cut(s, x0, xa, ya, y1, each, rng), cut(s, xa, xb, ya, yb, parts - 4 * each, rng);
  } else if (rng_below(rng, 2)) {
    cut(s, x0, x, y0, y1, some, rng), cut(s, x, x1, y0, y1, parts - some, rng);
  } else {
    cut(s, x0, x1, y0, y, some, rng), cut(s, x0, x1, y, y1, parts - some, rng);
  }
}

static void test_planted(uint32_t count) {
  uint32_t found = 0, refused = 0;
  for (uint32_t k = 0; k < count; k++) {
    Set s = {.mem = rt_arena_new()};
    Rng rng = {k};
    int32_t height = 20 + (int32_t)rng_below(&rng, 200);
    cut(&s, 0, 20 + (int32_t)rng_below(&rng, 200), 0, height, 8 + rng_below(&rng, 41), &rng);
    shuffle(&s, &rng);
    Placement out = place(&s, 1, height, 20000);
    found += out.peak == height, refused += out.is_refused;
    rt_arena_free(s.mem);
  }
  printf("planted packings: %u, found %u, refused %u\n", count, found, refused);
  CHECK(!refused);
  CHECK(found >= count - count / 100);
}

// ---- brute force: in the order of their offsets, buffers of a least placement each lie at the lowest free offset. So the
// least peak over all orders of first fit is the least of all.
typedef struct {
  const PlaceBuffer *b;
  uint32_t n;
  int64_t align, best, at[8];
  bool is_placed[8];
} Brute;

static bool lives(const PlaceBuffer *b, int64_t t) {
  if (t < b->lower || t >= b->upper) return false;
  for (uint32_t h = 0; h < b->n_holes; h++)
    if (t >= b->holes[h].lower && t < b->holes[h].upper) return false;
  return true;
}

static int64_t rounded(const Brute *w, uint32_t k) { return (w->b[k].size + w->align - 1) / w->align * w->align; }
static int64_t top_of(const Brute *w, uint32_t k) { return w->b[k].size ? w->at[k] + rounded(w, k) : 0; }

static bool collide(const Brute *w, uint32_t a, uint32_t b) {
  if (!w->b[a].size || !w->b[b].size) return false;
  if (w->at[a] + rounded(w, a) <= w->at[b] || w->at[b] + rounded(w, b) <= w->at[a]) return false;
  for (int64_t t = 0; t < 16; t++)
    if (lives(&w->b[a], t) && lives(&w->b[b], t)) return true;
  return false;
}

static bool is_free(const Brute *w, uint32_t k) {
  if (w->at[k] % w->align || (w->b[k].align > 1 && w->at[k] % w->b[k].align)) return false;
  for (uint32_t j = 0; j < w->n; j++)
    if (j != k && w->is_placed[j] && collide(w, j, k)) return false;
  return true;
}

static void try_all(Brute *w, uint32_t n_placed, int64_t peak) {
  if (peak >= w->best) return;
  if (n_placed == w->n) {
    w->best = peak;
    return;
  }
  for (uint32_t k = 0; k < w->n; k++) {
    if (w->is_placed[k]) continue;
    for (w->at[k] = 0; !is_free(w, k);) w->at[k]++;
    w->is_placed[k] = true;
    int64_t top = top_of(w, k);
    try_all(w, n_placed + 1, top > peak ? top : peak);
    w->is_placed[k] = false;
  }
}

// INT64_MAX: two given offsets collide
static int64_t least_peak(const Set *s, int64_t align) {
  Brute w = {.b = s->b, .n = s->n, .align = align, .best = INT64_MAX};
  int64_t peak = 0;
  uint32_t n = 0;
  for (uint32_t k = 0; k < s->n; k++) {
    if (s->b[k].fixed < 0) continue;
    w.at[k] = s->b[k].fixed;
    if (!is_free(&w, k)) return INT64_MAX;
    w.is_placed[k] = true, n++;
    if (top_of(&w, k) > peak) peak = top_of(&w, k);
  }
  try_all(&w, n, peak);
  return w.best;
}

static void small_problem(Set *s, int64_t align, Rng *rng) {
  uint32_t n = 2 + rng_below(rng, 6), kinds = rng_below(rng, 8);  // bits: holes, given offsets, alignments
  for (uint32_t k = 0; k < n; k++) {
    int64_t lower = rng_below(rng, 11), upper = lower + 1 + rng_below(rng, (uint32_t)(12 - lower));
    PlaceBuffer *b = add(s, lower, upper, rng_below(rng, 8) ? 1 + rng_below(rng, 9) : 0);
    if (kinds & 4 && rng_below(rng, 2)) b->align = 1 + rng_below(rng, 6);
    if (kinds & 2 && rng_below(rng, 4) == 0) b->fixed = rng_below(rng, 3) * align * (b->align > 1 ? b->align : 1);
    if (!(kinds & 1) || upper - lower < 3 || rng_below(rng, 2)) continue;
    PlaceSpan *holes = rt_alloc(s->mem, 2 * sizeof *holes);
    int64_t from = lower + 1 + rng_below(rng, (uint32_t)(upper - lower - 2));
    holes[0] = (PlaceSpan){from, from + 1 + rng_below(rng, (uint32_t)(upper - from - 1))};
    b->holes = holes, b->n_holes = 1;
    if (upper - holes[0].upper < 3) continue;
    holes[1] = (PlaceSpan){holes[0].upper + 1, holes[0].upper + 2};
    b->n_holes = 2;
  }
}

static void test_small(uint32_t count) {
  uint32_t above = 0, tried = 0;
  for (uint32_t k = 0; k < count; k++) {
    Set s = {.mem = rt_arena_new()};
    Rng rng = {1000000 + k};
    int64_t align = rng_below(&rng, 4) ? 1 : 1 + rng_below(&rng, 4);
    small_problem(&s, align, &rng);
    int64_t best = least_peak(&s, align);
    PlaceProblem p = {.buffers = s.b, .n = s.n, .align = align, .budget = 5000};
    Placement out;
    PlaceFault fault;
    if (best == INT64_MAX) {
      CHECK(ir_place(&p, s.mem, &out, &fault));
      CHECK(!ir_place_check(&p, out.offsets, out.peak, s.mem, &fault));
      CHECK_HAS(fault.text, "overlaps");
      rt_arena_free(s.mem);
      continue;
    }
    out = place(&s, align, 0, 5000);
    tried++, above += best > out.lower_bound;
    if (!CHECK(out.peak == best && out.lower_bound <= best && out.is_optimal))
      printf("  small problem %u: %lld, least %lld\n", k, (long long)out.peak, (long long)best);
    if (best) CHECK(place(&s, align, best, 5000).peak <= best);
    if (best > 1) CHECK(place(&s, align, best - 1, 5000).is_refused);
    rt_arena_free(s.mem);
  }
  printf("small problems: %u, %u of them with a least peak above the bound\n", tried, above);
  CHECK(above > tried / 20);  // refusals are tried too
}

// ---- every compiler, optimization level and run: one digest
static void test_digest(void) {
  uint64_t digest = 0;
  for (uint32_t k = 0; k < 40; k++) {
    Set s = {.mem = rt_arena_new()};
    Rng rng = {2000000 + k};
    if (k < 11) {
      char path[64];
      snprintf(path, sizeof path, "tests/placement/%c.1048576.csv", (int)('A' + k));
      if (!CHECK(read_csv(path, &s))) return;
    } else {
      small_problem(&s, 1, &rng);
      for (uint32_t n = 20 + 8 * k; s.n < n;) {
        int64_t lower = rng_below(&rng, 1000), size = 1 + rng_below(&rng, 1000);
        int64_t upper = lower + 1 + rng_below(&rng, 200);
        add(&s, lower, upper, size << rng_below(&rng, 25));
      }
      for (uint32_t i = 0; i < s.n; i++) s.b[i].fixed = PLACE_ANY;
    }
    Placement out = place(&s, 1 + k % 3, 0, 3000);
    digest = rt_hash(out.offsets, s.n * sizeof *out.offsets, digest);
    rt_arena_free(s.mem);
  }
  if (!CHECK(digest == UINT64_C(0x825aa5dcc307fff4))) printf("  digest 0x%llx\n", (unsigned long long)digest);
}

// ---- many buffers: sums above 2^31 times the unit, memory that grows with their number and no faster
static size_t bytes_of_steps(uint32_t steps, double *took) {
  Set s = {.mem = rt_arena_new()};
  Rng rng = {steps};
  for (uint32_t k = 0; k < steps; k++) {
    int64_t saved = 1 + rng_below(&rng, 5000000), work = 1 + rng_below(&rng, 9000000);
    add(&s, k, 2 * (int64_t)steps - k, saved * 4), add(&s, k, k + 2, work);
    add(&s, 2 * (int64_t)steps - k - 1, 2 * (int64_t)steps - k + 1, work);
  }
  size_t before = rt_arena_bytes(s.mem);
  *took = thread_cpu_s();
  Placement out = place(&s, 1, 0, 0);
  *took = thread_cpu_s() - *took;
  CHECK(out.peak < out.lower_bound + out.lower_bound / 1000);
  size_t bytes = rt_arena_bytes(s.mem) - before;
  rt_arena_free(s.mem);
  return bytes;
}

static void test_many(uint32_t steps) {
  double took, less;
  size_t half = bytes_of_steps(steps / 2, &less), all = bytes_of_steps(steps, &took);
  printf("%u buffers: %.1f MB, %.2f s\n", 3 * steps, (double)all / 1e6, took);
  CHECK(all < half * 5 / 2);
}

// ---- faults
static void refused(PlaceBuffer b, const char *words) {
  RtArena *mem = rt_arena_new();
  PlaceBuffer list[2] = {{.upper = 9, .size = 8, .fixed = 0}, b};
  Placement out;
  PlaceFault fault = {0};
  CHECK(!ir_place(&(PlaceProblem){.buffers = list, .n = 2, .align = 8}, mem, &out, &fault));
  CHECK(fault.buffer == 1);
  CHECK_HAS(fault.text, words);
  rt_arena_free(mem);
}

static void test_faults(void) {
  PlaceSpan wide = {1, 4}, touching[] = {{1, 2}, {2, 3}}, empty = {2, 2};
  refused((PlaceBuffer){4, 4, 8, 0, PLACE_ANY, NULL, 0}, "lives from 4 to 4");
  refused((PlaceBuffer){0, 4, -1, 0, PLACE_ANY, NULL, 0}, "has size -1");
  refused((PlaceBuffer){0, 4, 8, -2, PLACE_ANY, NULL, 0}, "has alignment -2");
  refused((PlaceBuffer){0, 4, 8, 0, 12, NULL, 0}, "given offset 12");
  refused((PlaceBuffer){0, 4, 8, 3, 32, NULL, 0}, "given offset 32, which is no multiple of its alignment 24");
  refused((PlaceBuffer){0, 4, INT64_MAX, 0, PLACE_ANY, NULL, 0}, "above 2^60");
  refused((PlaceBuffer){0, 4, (INT64_C(1) << 60) - 9, 0, PLACE_ANY, NULL, 0}, "sum of all sizes above 2^60");
  refused((PlaceBuffer){0, 4, 8, 0, PLACE_ANY, &wide, 1}, "hole from 1 to 4");
  refused((PlaceBuffer){0, 4, 8, 0, PLACE_ANY, touching, 2}, "hole from 2 to 3");
  refused((PlaceBuffer){0, 4, 8, 0, PLACE_ANY, &empty, 1}, "hole from 2 to 2");
}

// The checker refuses what is wrong.
static void test_checker(void) {
  RtArena *mem = rt_arena_new();
  PlaceSpan hole = {2, 3};
  PlaceBuffer b[3] = {
      {0, 5, 16, 0, PLACE_ANY, &hole, 1}, {2, 3, 16, 0, PLACE_ANY, NULL, 0}, {4, 9, 8, 16, 32, NULL, 0}};
  PlaceProblem p = {.buffers = b, .n = 3, .align = 8};
  PlaceFault fault;
  CHECK(ir_place_check(&p, (int64_t[]){0, 0, 32}, 40, mem, &fault));
  CHECK(!ir_place_check(&p, (int64_t[]){0, 0, 32}, 39, mem, &fault));
  CHECK_HAS(fault.text, "above the peak");
  CHECK(!ir_place_check(&p, (int64_t[]){4, 0, 32}, 40, mem, &fault));
  CHECK_HAS(fault.text, "not aligned");
  CHECK(!ir_place_check(&p, (int64_t[]){0, 0, 16}, 40, mem, &fault));
  CHECK_HAS(fault.text, "given");
  CHECK(!ir_place_check(&p, (int64_t[]){24, 0, 32}, 40, mem, &fault));
  CHECK_HAS(fault.text, "overlaps");
  b[0].n_holes = 0;
  CHECK(!ir_place_check(&p, (int64_t[]){0, 0, 32}, 40, mem, &fault));
  CHECK_HAS(fault.text, "overlaps");
  rt_arena_free(mem);
}

// The public call
static void test_call(void) {
  tn_place_hole hole = {2, 3};
  tn_place_buffer b[] = {{.lower = 0, .upper = 4, .size = 100, .holes = &hole, .n_holes = 1},
                         {.lower = 2, .upper = 3, .size = 50},
                         {.lower = 0, .upper = 4, .size = 20, .offset = 256, .is_fixed = true},
                         {.lower = 3, .upper = 5, .size = 10, .align = 128}};
  tn_placement out;
  char why[128];
  CHECK(tn_place(b, 4, &(tn_place_options){.align = 32, .capacity = 300}, &out, why, sizeof why) == TN_OK);
  CHECK(b[0].offset == 0 && b[1].offset == 0 && b[2].offset == 256 && b[3].offset == 128);
  CHECK(out.peak == 288 && out.lower_bound == 288 && out.fits && out.is_optimal && !out.is_impossible);
  CHECK(tn_place(b, 4, &(tn_place_options){.align = 32, .capacity = 287}, &out, NULL, 0) == TN_OK);
  CHECK(out.peak == 288 && !out.fits && out.is_impossible);
  b[1].upper = 2;
  CHECK(tn_place(b, 4, NULL, NULL, why, sizeof why) == TN_ERR_ARGUMENT);
  CHECK_HAS(why, "buffer 1 lives from 2 to 2: its end must be above its start");
  CHECK(tn_place(NULL, 0, NULL, &out, why, sizeof why) == TN_OK && out.peak == 0);
}

static int place_file(const char *path, int64_t capacity, int64_t budget) {
  Set s = {.mem = rt_arena_new()};
  if (!read_csv(path, &s)) return 1;
  double begun = thread_cpu_s();
  Placement out = place(&s, 1, capacity, budget);
  printf("%s: %u buffers, peak %lld, bound %lld (%.5f)%s, %lld units, %.3f s\n", path, s.n, (long long)out.peak,
         (long long)out.lower_bound, (double)out.peak / (double)out.lower_bound, out.is_optimal ? ", optimal" : "",
         (long long)out.spent, thread_cpu_s() - begun);
  rt_arena_free(s.mem);
  return check_report();
}

int main(int argc, char **argv) {
  bool all = argc > 1 && !strcmp(argv[1], "--all");
  if (argc > 1 && !all) return place_file(argv[1], argc > 2 ? atoll(argv[2]) : 0, argc > 3 ? atoll(argv[3]) : 50000);
  test_hard(all ? 20 : 1);
  test_little_missing();
  if (all) test_least(400000, 1040, 1045);
  test_planted(all ? 10000 : IS_SANITIZED ? 75 : 300);
  test_small(all ? 20000 : IS_SANITIZED ? 250 : 1000);
  test_digest();
  test_many(all ? 20000 : IS_SANITIZED ? 1000 : 4000);
  test_faults();
  test_checker();
  test_call();
  return check_report();
}
