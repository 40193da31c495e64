// Orders of kernels of whole programs: of U-Nets, Inception-like networks and ensembles, forward and in training, no random
// topological order of the kernels needs less than the planned one, where kernels and waits cost nothing.
//
//   test_orders          500 orders of each function, what tools/check runs
//   test_orders --all    10,000 orders, more seeds
#include "codegen/kernels.h"
#include "codegen/target.h"
#include "frontend/module/tree.h"
#include "frontend/tenure.h"
#include "ir/fn.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/passes/planning/problem.h"
#include "tests/check.h"
#include "tests/rng.h"

#include <inttypes.h>
#include <stdlib.h>

// ---- networks
static int64_t odd_channels(Rng *rng, int64_t most) { return 2 * rng_below(rng, (uint32_t)most / 2) + 3; }

typedef struct {
  tn_tensor t;
  int64_t channels;
} Maps;  // [batch, channels, height, width]

static Maps conv(tn_module *net, Rng *rng, Maps x, int64_t channels, int64_t kernel) {
  tn_module *m = tn_conv2d_module(net, NULL, x.channels, channels, kernel, .same = true);
  tn_tensor y = tn_call(m, x.t);
  switch (rng_below(rng, 4)) {
  case 0: return (Maps){tn_gelu(y), channels};
  case 1: return (Maps){tn_call(tn_batch_norm(net, NULL, channels), tn_relu(y)), channels};
  case 2: return (Maps){tn_relu(tn_call(tn_batch_norm(net, NULL, channels), y)), channels};
  default: return (Maps){tn_relu(y), channels};
  }
}

static Maps concat(const Maps *parts, uint32_t n) {
  tn_tensor t[8];
  Maps all = {0};
  for (uint32_t k = 0; k < n; k++) t[k] = parts[k].t, all.channels += parts[k].channels;
  all.t = tn_concat(1, t, n);
  return all;
}

// Maps half as large `depth` times, then back, beside what each level had on the way
static Maps unet(tn_module *net, Rng *rng, Maps x, uint32_t depth) {
  Maps skip[8];
  int64_t channels = odd_channels(rng, 12);
  for (uint32_t k = 0; k < depth; k++, channels = channels * 2 - 1) {
    skip[k] = conv(net, rng, conv(net, rng, x, channels, 3), channels, 3);
    x = (Maps){tn_max_pool2d(skip[k].t, 2), channels};
  }
  x = conv(net, rng, x, channels, 3);
  for (uint32_t k = depth; k-- > 0;) {
    Maps up = {tn_interpolate(x.t, NULL, TN_NEAREST, .scale_factor = 2), x.channels};
    x = conv(net, rng, concat((Maps[]){skip[k], up}, 2), skip[k].channels, 3);
  }
  return x;
}

static Maps branch(tn_module *net, Rng *rng, Maps x) {
  if (rng_below(rng, 4) == 0) x.t = tn_max_pool2d(x.t, 3, .stride = 1, .padding = 1);
  for (uint32_t n = 1 + rng_below(rng, 3); n-- > 0;) {
    int64_t channels = odd_channels(rng, 24);  // not an argument: C leaves the order of those open
    int64_t kernel = 1 + 2 * rng_below(rng, 3);
    x = conv(net, rng, x, channels, kernel);
  }
  return x;
}

// Blocks of branches side by side
static Maps inception(tn_module *net, Rng *rng, Maps x, uint32_t n_branches) {
  Maps part[8];
  for (uint32_t block = 0; block < 3; block++) {
    for (uint32_t k = 0; k < n_branches; k++) part[k] = branch(net, rng, x);
    x = concat(part, n_branches);
    if (block == 1) x.t = tn_max_pool2d(x.t, 2);
  }
  return x;
}

static tn_tensor classes(tn_module *net, Maps x) {
  return tn_call(tn_linear(net, NULL, x.channels, 10), tn_mean_axes(x.t, false, (const int[]){2, 3}, 2));
}

static tn_tensor member(tn_module *net, Rng *rng, Maps x) {
  enum { SIDE = 32 };
  if (rng_below(rng, 4) == 0) {
    tn_tensor h = tn_reshape(x.t, TN_SHAPE(8, x.channels * SIDE * SIDE));
    int64_t width = odd_channels(rng, 2000);
    h = tn_gelu(tn_call(tn_linear(net, NULL, x.channels * SIDE * SIDE, width), h));
    return tn_call(tn_linear(net, NULL, width, 10), h);
  }
  for (uint32_t n = 1 + rng_below(rng, 4); n-- > 0;) {
    int64_t channels = odd_channels(rng, 30);
    x = conv(net, rng, x, channels, 3);
    if (rng_below(rng, 3) == 0) x.t = tn_add(x.t, tn_cumsum(x.t, 3));
  }
  return classes(net, x);
}

static tn_tensor ensemble(tn_module *net, Rng *rng, Maps x, uint32_t n_members) {
  tn_tensor sum = member(net, rng, x);
  for (uint32_t k = 1; k < n_members; k++) sum = tn_add(sum, tn_softmax(member(net, rng, x), 1));
  return sum;
}

// ---- programs
typedef enum { UNET, INCEPTION, ENSEMBLE, N_NETS } Net;
static const struct {
  const char *name;
  uint32_t least, most;
} nets[N_NETS] = {{"U-Net of depth", 2, 5}, {"branches of Inception:", 3, 6}, {"ensemble of", 2, 8}};

static tn_program *program_of(Net net, uint32_t size, uint64_t seed, bool trains) {
  enum { BATCH = 8, SIDE = 32, CHANNELS = 3 };
  Rng rng = {.state = seed};
  tn_program *p = tn_program_create("orders");
  tn_module *root = tn_module_list(tn_root(p), "net");
  tn_function *f = tn_function_begin(p, "run");
  Maps x = {tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, CHANNELS, SIDE, SIDE)), CHANNELS};
  tn_tensor y;
  if (net == ENSEMBLE) y = ensemble(root, &rng, x, size);
  else y = classes(root, net == UNET ? unet(root, &rng, x, size) : inception(root, &rng, x, size));
  if (trains) {
    y = tn_cross_entropy(y, tn_input(f, "label", TN_I64, TN_SHAPE(BATCH)));
    tn_backward(y);
    tn_adamw(f, root);
  }
  tn_output(f, "y", y);
  tn_function_end(f);
  fe_params_flush(p);
  return p;
}

// ---- orders, replayed: bytes that live are counted anew
typedef struct {
  uint32_t from, to;  // buffers: `to` may lie where `from` lay
} Pair;

typedef struct {
  const SchedProblem *p;
  SchedLists after, made, used;  // by kernel: kernels that wait for it; buffers that it makes, and that it uses
  uint32_t *first_pair, cap_pairs, *taken;  // by kernel; by buffer: the time, + 1, at which it became one of a pair
  Pair *pairs;
  uint32_t *n_waits, *n_users, *ready, *order;
} Replay;

static SchedLists by_kernel(const SchedProblem *p, const uint32_t *first, const uint32_t *list, uint32_t n,
                            RtArena *mem) {
  SchedPair *pairs = rt_alloc(mem, (first[n] + 1) * sizeof *pairs);
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = first[k]; i < first[k + 1]; i++) pairs[i] = (SchedPair){list[i], k};
  return ir_schedule_lists(pairs, first[n], p->n, mem);
}

static Replay replay_of(const SchedProblem *p, RtArena *mem) {
  Replay r = {.p = p, .after = by_kernel(p, p->first_dep, p->dep, p->n, mem)};
  uint32_t *each = rt_alloc(mem, (p->n_buffers + 1) * sizeof *each);
  for (uint32_t b = 0; b <= p->n_buffers; b++) each[b] = b;
  r.made = by_kernel(p, each, p->maker, p->n_buffers, mem);
  r.used = by_kernel(p, p->first_user, p->user, p->n_buffers, mem);
  r.n_waits = rt_alloc(mem, (p->n + 1) * sizeof *r.n_waits), r.ready = rt_alloc(mem, (p->n + 1) * sizeof *r.ready);
  r.n_users = rt_alloc(mem, (p->n_buffers + 1) * sizeof *r.n_users);
  r.order = rt_alloc(mem, (p->n + 1) * sizeof *r.order), r.taken = rt_alloc(mem, (p->n_buffers + 1) * sizeof *r.taken);
  return r;
}

// What pass assign_buffers looks for, in its order.
static void find_pairs(Replay *r, const Fn *f, const uint32_t *index, RtArena *mem) {
  r->first_pair = rt_alloc(mem, (f->n_kernels + 1) * sizeof *r->first_pair);
  for (uint32_t k = 0, n = 0; k < f->n_kernels; k++, r->first_pair[k] = n)
    for (uint32_t i = f->kernels[k].first; i < f->kernels[k].first + f->kernels[k].n; i++)
      for (uint32_t j = f->kernels[k].first, to = f->buf_of[i]; j <= i && index[to] && f->bufs[to].head.i == i; j++)
        for (uint32_t a = 0; f->ins[j].op != OP_result && a < f->ins[j].n_args; a++) {
          uint32_t from = f->buf_of[ir_arg(f, (Val){j}, a).i];
          if (index[from] && from != to && ir_may_take_over(f, k, from, to))
            *RT_PUSH(mem, r->pairs, n, r->cap_pairs) = (Pair){index[from] - 1, index[to] - 1};
        }
}

// Bytes of what kernel k makes where something lay that no later one reads
static int64_t made_in_place(const Replay *r, uint32_t k, uint32_t time) {
  int64_t sum = 0;
  for (uint32_t i = r->first_pair[k]; i < r->first_pair[k + 1]; i++) {
    Pair pair = r->pairs[i];
    if (r->n_users[pair.from] || r->taken[pair.from] == time + 1 || r->taken[pair.to] == time + 1) continue;
    r->taken[pair.from] = r->taken[pair.to] = time + 1;
    sum += r->p->size[pair.to];
  }
  return sum;
}

static int64_t peak_of(const Replay *r, const uint32_t *order) {
  const SchedProblem *p = r->p;
  int64_t held = 0, peak = 0;
  for (uint32_t b = 0; b < p->n_buffers; b++) r->n_users[b] = p->first_user[b + 1] - p->first_user[b], r->taken[b] = 0;
  for (uint32_t t = 0; t < p->n; t++) {
    uint32_t k = order[t];
    int64_t made = 0, unused = 0, freed = 0;
    for (uint32_t i = r->made.first[k]; i < r->made.first[k + 1]; i++) {
      uint32_t b = r->made.list[i];
      made += p->size[b];
      if (!r->n_users[b]) unused += p->size[b];
    }
    for (uint32_t i = r->used.first[k]; i < r->used.first[k + 1]; i++)
      if (!--r->n_users[r->used.list[i]]) freed += p->size[r->used.list[i]];
    int64_t now = held + made + p->scratch[k] - made_in_place(r, k, t);
    if (now > peak) peak = now;
    held += made - unused - freed;
  }
  return peak;
}

// Any kernel that may run; `deep`: more often one of those for which the last one was waited
static void random_order(Replay *r, Rng *rng, bool deep) {
  const SchedProblem *p = r->p;
  uint32_t n_ready = 0, n = 0;
  for (uint32_t k = 0; k < p->n; k++)
    if (!(r->n_waits[k] = p->first_dep[k + 1] - p->first_dep[k])) r->ready[n_ready++] = k;
  while (n_ready) {
    uint32_t near = deep && rng_below(rng, 8) && n_ready > 2 ? 2 : n_ready, at = n_ready - 1 - rng_below(rng, near);
    uint32_t k = r->ready[at];
    r->order[n++] = k;
    for (n_ready--; at < n_ready; at++) r->ready[at] = r->ready[at + 1];
    for (uint32_t i = r->after.first[k]; i < r->after.first[k + 1]; i++)
      if (!--r->n_waits[r->after.list[i]]) r->ready[n_ready++] = r->after.list[i];
  }
}

typedef struct {
  uint32_t n_orders, n_functions, n_kernels, n_equal;
  double least;  // of the best random order's peak by the planned one's
} Tally;

static bool check_orders(const Fn *f, Rng *rng, Tally *t) {
  if (!f->stats.peak_bytes) return true;  // initial values
  RtArena *mem = rt_arena_new();
  PlanProblem q = ir_plan_problem(f, mem);
  Replay r = replay_of(&q.p, mem);
  find_pairs(&r, f, q.index, mem);
  for (uint32_t k = 0; k < q.p.n; k++) r.order[k] = k;
  int64_t planned = peak_of(&r, r.order), best = INT64_MAX;
  bool good = CHECK(planned + q.always == f->stats.lower_bound);
  for (uint32_t i = 0; i < t->n_orders; i++) {
    random_order(&r, rng, i % 2);
    int64_t peak = peak_of(&r, r.order);
    if (peak < best) best = peak;
  }
  good = CHECK(planned - planned / 50 <= best) &&
         good;  // passes fuse and assign_buffers count pairs in place each its own way
  if (!good) printf("  %" PRIi64 " bytes, a random order %" PRIi64 ", %u kernels\n", planned, best, q.p.n);
  t->n_functions++, t->n_kernels += q.p.n, t->n_equal += planned == best;
  if ((double)best / (double)planned < t->least) t->least = (double)best / (double)planned;
  rt_arena_free(mem);
  return good;
}

static void check_program(Net net, uint32_t size, uint64_t seed, bool trains, Tally *t) {
  tn_program *p = program_of(net, size, seed, trains);
  Rng rng = {.state = seed + 1};
  cg_plan_for(p->ir, cg_target_find("avx2"));
  p->ir->target.step_bytes = 0;
  bool good = CHECK(tn_n_errors(p) == 0);
  for (uint32_t k = 0; good && k < p->ir->n_fns; k++)
    good = CHECK(ir_run_passes(p->ir->fns[k], NULL, NULL, NULL)) && check_orders(p->ir->fns[k], &rng, t);
  if (!good)
    tn_report(p, stdout), printf("%s %u, seed %" PRIu64 "%s\n", nets[net].name, size, seed, trains ? ", training" : "");
  tn_program_free(p);
}

int main(int argc, char **argv) {
  bool all = argc > 1 && !strcmp(argv[1], "--all");
  for (Net net = 0; net < N_NETS; net++)
    for (uint32_t trains = 0; trains < 2; trains++) {
      Tally t = {.n_orders = all ? 10000 : IS_SANITIZED ? 100 : 500, .least = 1e9};
      for (uint32_t size = nets[net].least; size <= nets[net].most; size++)
        for (uint64_t seed = 0; seed < (all ? 8 : 2); seed++) check_program(net, size, 100 * seed + size, trains, &t);
      printf("%s %u to %u%s: %u functions of %u kernels on average; the best of %u random orders needs %.3f or more of "
             "the "
             "planned one's bytes, as many in %u\n",
             nets[net].name, nets[net].least, nets[net].most, trains ? ", training" : "", t.n_functions,
             t.n_kernels / t.n_functions, t.n_orders, t.least, t.n_equal);
    }
  return check_report();
}
