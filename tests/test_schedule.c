// Schedules (ir/schedule): small problems beside brute force over sets of kernels, branches one after another, larger
// ones beside random orders, orders that are the same with every compiler.
//
//   test_schedule          what tools/check runs
//   test_schedule --all    ten times as many problems
#include "tests/check.h"
#include "tests/cpu_time.h"
#include "tests/schedule_cases.h"

#include <stdlib.h>
#include <string.h>

// ---- an oracle of its own: bytes by sets
static bool is_in(uint32_t set, uint32_t k) { return set >> k & 1; }

static int64_t held(const Case *c, uint32_t done) {
  int64_t sum = 0;
  for (uint32_t b = 0; b < c->p.n_buffers; b++) {
    bool lives = false;
    for (uint32_t i = c->first_user[b]; i < c->first_user[b + 1]; i++) lives |= !is_in(done, c->user[i]);
    if (lives && is_in(done, c->maker[b])) sum += c->size[b];
  }
  return sum;
}

static int64_t while_running(const Case *c, uint32_t done, uint32_t k) {
  int64_t before = held(c, done), made = 0, slots = 0;
  for (uint32_t b = 0; b < c->p.n_buffers; b++) {
    bool reads = false, by_others = false, is_slot = true;
    if (c->maker[b] == k) made += c->size[b];
    for (uint32_t i = c->first_user[b]; i < c->first_user[b + 1]; i++) {
      reads |= c->user[i] == k, by_others |= c->user[i] != k && !is_in(done, c->user[i]);
      if (c->user[i] == k && c->p.is_slot) is_slot = c->p.is_slot[i];
    }
    if (reads && !by_others && is_slot) slots += c->size[b];
  }
  return before + made + c->scratch[k] - (c->in_place[k] < slots ? c->in_place[k] : slots);
}

static int64_t least_peak(const Case *c, int64_t *least) {
  uint32_t n = c->p.n;
  for (uint32_t set = 1; set < 1u << n; set++) least[set] = INT64_MAX;
  least[0] = 0;
  for (uint32_t set = 0; set < 1u << n; set++) {
    if (least[set] == INT64_MAX) continue;
    for (uint32_t k = 0; k < n; k++) {
      bool is_ready = !is_in(set, k);
      for (uint32_t i = c->first_dep[k]; i < c->first_dep[k + 1]; i++) is_ready &= is_in(set, c->dep[i]);
      if (!is_ready) continue;
      int64_t peak = while_running(c, set, k), *to = &least[set | 1u << k];
      if (peak < least[set]) peak = least[set];
      if (peak < *to) *to = peak;
    }
  }
  return least[(1u << n) - 1];
}

static bool is_valid(const Case *c, const uint32_t *order) {
  bool done[SCHEDULE_CASE_MOST] = {false};
  for (uint32_t t = 0; t < c->p.n; t++) {
    if (order[t] >= c->p.n || done[order[t]]) return false;
    for (uint32_t i = c->first_dep[order[t]]; i < c->first_dep[order[t] + 1]; i++)
      if (!done[c->dep[i]]) return false;
    done[order[t]] = true;
  }
  return true;
}

static void test_small(uint32_t n_cases) {
  Rng rng = {.state = 7};
  int64_t *least = malloc((1u << 14) * sizeof *least);
  uint32_t equal = 0, proven = 0;
  double worst = 1;
  for (uint32_t k = 0; k < n_cases; k++) {
    RtArena *mem = rt_arena_new();
    uint32_t n = k % 8 ? 1 + rng_below(&rng, 10) : 11 + rng_below(&rng, 4), order[14];
    Case c = random_case(&rng, n, mem);
    if (k % 2) c.p.is_slot = c.is_slot;
    for (uint32_t i = 0; k % 2 && i < c.first_user[c.p.n_buffers]; i++) c.is_slot[i] = rng_below(&rng, 2);
    Schedule s = ir_schedule(&c.p, order, mem);
    int64_t best = least_peak(&c, least);
    bool good = CHECK(is_valid(&c, order)) && CHECK(s.peak == ir_schedule_peak(&c.p, order, mem)) &&
                CHECK(s.peak >= best) && CHECK(s.bound <= best) && CHECK(!s.is_least || s.peak == best);
    if (!good)
      printf("case %u of %u kernels: peak %lld, bound %lld, least %lld\n", k, n, (long long)s.peak, (long long)s.bound,
             (long long)best);
    equal += s.peak == best, proven += s.is_least;
    if ((double)s.peak > worst * (double)best) worst = (double)s.peak / (double)best;
    rt_arena_free(mem);
  }
  printf("%u problems of up to 14 kernels: %u at the least peak, %u proven, the worst %.3f times it\n", n_cases, equal,
         proven, worst);
  CHECK(equal >= n_cases * 0.95 && worst <= 1.1);
  free(least);
}

// ---- branches that share nothing but the start: one after another
static void test_branches(void) {
  enum { BRANCHES = 100, LARGE = 1 << 20 };
  RtArena *mem = rt_arena_new();
  uint32_t n = 2 * BRANCHES + 2;
  Case c = new_case(n, n, 3 * BRANCHES, 4 * BRANCHES, mem);
  uint32_t order[2 * BRANCHES + 2], at = 0;
  c.size[0] = LARGE, c.p.n_buffers = n;
  for (uint32_t k = 1; k <= BRANCHES; k++) c.maker[k] = k, c.size[k] = LARGE, c.user[at++] = k;
  c.first_user[1] = at;
  for (uint32_t k = 1; k <= BRANCHES; k++) c.user[at++] = BRANCHES + k, c.first_user[k + 1] = at;
  for (uint32_t k = 1; k <= BRANCHES; k++) {
    c.maker[BRANCHES + k] = BRANCHES + k, c.size[BRANCHES + k] = 64;
    c.user[at++] = n - 1, c.first_user[BRANCHES + k + 1] = at;
  }
  c.maker[n - 1] = n - 1, c.size[n - 1] = 64, c.first_user[n] = at;
  at = 0;
  for (uint32_t k = 1; k < n; k++) {
    c.first_dep[k] = at;
    if (k < n - 1) c.dep[at++] = k <= BRANCHES ? 0 : k - BRANCHES;
    for (uint32_t j = 0; k == n - 1 && j < BRANCHES; j++) c.dep[at++] = BRANCHES + 1 + j;
  }
  c.first_dep[n] = at;
  for (uint32_t k = 0; k < n; k++) order[k] = k;
  int64_t before = ir_schedule_peak(&c.p, order, mem);
  Schedule s = ir_schedule(&c.p, order, mem);
  printf("branches: %lld -> %lld, bound %lld\n", (long long)before, (long long)s.peak, (long long)s.bound);
  CHECK(is_valid(&c, order) && before > BRANCHES * (int64_t)LARGE && s.bound >= 2 * LARGE &&
        s.peak < 2 * LARGE + 64 * (BRANCHES + 1));
  rt_arena_free(mem);
}

// ---- larger ones
static void random_order(const Case *c, Rng *rng, uint32_t *order) {
  uint32_t ready[SCHEDULE_CASE_MOST], n_ready = 0, n_waits[SCHEDULE_CASE_MOST], n = 0;
  for (uint32_t k = 0; k < c->p.n; k++)
    if (!(n_waits[k] = c->first_dep[k + 1] - c->first_dep[k])) ready[n_ready++] = k;
  while (n_ready) {
    uint32_t at = rng_below(rng, n_ready), k = ready[at];
    ready[at] = ready[--n_ready], order[n++] = k;
    for (uint32_t j = 0; j < c->p.n; j++)
      if (waits_for(c, j, k) && --n_waits[j] == 0) ready[n_ready++] = j;
  }
}

static uint32_t count_waits(const Case *c, const uint32_t *order) {
  uint32_t step[SCHEDULE_CASE_MOST], n = 0;
  for (uint32_t t = 0; t < c->p.n; t++) {
    bool waits = false;
    for (uint32_t i = c->first_dep[order[t]]; i < c->first_dep[order[t] + 1]; i++) waits |= step[c->dep[i]] == n;
    step[order[t]] = n += waits;
  }
  return n;
}

static void test_large(uint32_t n_cases, uint32_t n_orders) {
  Rng rng = {.state = 11};
  uint64_t digest = 0;
  uint32_t order[SCHEDULE_CASE_MOST], other[SCHEDULE_CASE_MOST], proven = 0, n_waits = 0, n_fewer = 0;
  double gap = 0, since = thread_cpu_s();
  for (uint32_t k = 0; k < n_cases; k++) {
    RtArena *mem = rt_arena_new();
    Case c = random_case(&rng, 40 + rng_below(&rng, 200), mem);
    Schedule s = ir_schedule(&c.p, order, mem);
    CHECK(is_valid(&c, order) && s.bound <= s.peak);
    uint32_t waits = count_waits(&c, order), fewer = ir_schedule_waits(&c.p, order, s.peak, mem);
    CHECK(is_valid(&c, order) && ir_schedule_peak(&c.p, order, mem) <= s.peak);
    CHECK(fewer <= waits && fewer == count_waits(&c, order));
    n_waits += waits, n_fewer += fewer;
    digest = digest * 31 + (uint64_t)s.peak;
    for (uint32_t i = 0; i < c.p.n; i++) digest = digest * 31 + order[i];
    for (uint32_t i = 0; i < n_orders; i++) {
      random_order(&c, &rng, other);
      CHECK(ir_schedule_peak(&c.p, other, mem) >= s.peak);
    }
    proven += s.is_least, gap += (double)(s.peak - s.bound) / (double)s.bound;
    rt_arena_free(mem);
    if (k == 19) CHECK(digest == UINT64_C(0x7454d37817a71bce));  // the same of every compiler
  }
  printf("%u problems of up to 239 kernels: %u proven, gap %.2f %% on average, %u waits -> %u, %.2f s; digest %llx\n",
         n_cases, proven, 100 * gap / n_cases, n_waits, n_fewer, thread_cpu_s() - since, (unsigned long long)digest);
}

// As many kernels as are searched, and more: no time that grows with their square
static void test_many(void) {
  static uint32_t order[SCHEDULE_CASE_MOST];
  for (uint32_t n = 1000; n <= SCHEDULE_CASE_MOST; n *= 2) {
    RtArena *mem = rt_arena_new();
    Rng rng = {.state = n};
    Case c = random_case(&rng, n, mem);
    double since = thread_cpu_s();
    Schedule s = ir_schedule(&c.p, order, mem);
    double took = thread_cpu_s() - since;
    CHECK(is_valid(&c, order) && s.bound <= s.peak);
    printf("%u kernels: peak %.2f of the bound, %lld units, %.2f s\n", n, (double)s.peak / (double)s.bound,
           (long long)s.spent, took);
    rt_arena_free(mem);
  }
}

int main(int argc, char **argv) {
  uint32_t times = argc > 1 && !strcmp(argv[1], "--all") ? 10 : 1;
  test_small((IS_SANITIZED ? 500 : 2000) * times);
  test_branches();
  test_large((IS_SANITIZED ? 5 : 20) * times, 50);
  test_many();
  return check_report();
}
