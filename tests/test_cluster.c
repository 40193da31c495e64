// What a step costs on a cluster. The cost model of docs/distributed.md against ranks that exchange over a network of stated latency
// and bandwidth, in virtual time; then, by the parts that ranks own of GPT-2 124M and by its buckets, the table there: 2 to 256 ranks.
#include "frontend/tenure.h"
#include "ir/passes/lowering/split_shards.h"
#include "runtime/exec/owners.h"
#include "runtime/exec/ranks.h"
#include "tests/check.h"
#include "tests/cluster_transport.h"

#include <math.h>

enum { BATCH = 16, WIDTH = 256, HIDDEN = 3072, SHARDS = 8, STEPS = 3, DEPTH = 6, DEEP = 192, WORD = sizeof(RtWord) };
static const double latency = 20e-6, bandwidth = 25e9 / 8;

// ---- ranks as threads
static float xs[BATCH * WIDTH];
static int64_t labels[BATCH];

// Layers of one size, one exchange for each, or one for all
static tn_model *build_deep(int64_t bucket_bytes) {
  tn_program *p = tn_program_create("deep");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *net = tn_root(p);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, DEEP)), y = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_distributed(f, .n = SHARDS, .batch = B, .bucket_bytes = bucket_bytes);
  for (int k = 0; k < DEPTH; k++) {
    char name[8];
    snprintf(name, sizeof name, "l%d", k);
    x = tn_tanh(tn_call(tn_linear(net, name, DEEP, DEEP), x));
  }
  tn_backward(tn_cross_entropy(x, y));
  tn_adamw(f, net);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  tn_program_free(p);
  return m;
}

static tn_model *build(void) {
  tn_program *p = tn_program_create("cluster");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *net = tn_root(p), *hidden = tn_linear(net, "hidden", WIDTH, HIDDEN),
            *head = tn_linear(net, "head", HIDDEN, WIDTH);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, WIDTH)), y = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_distributed(f, .n = SHARDS, .batch = B);
  tn_backward(tn_cross_entropy(tn_call(head, tn_relu(tn_call(hidden, x))), y));
  tn_adamw(f, net);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  tn_program_free(p);
  return m;
}

typedef struct {
  Cluster *cluster;
  tn_model *model;
  uint32_t rank, n_ranks;
  int64_t width;      // of its input
  double begin, end;  // of all steps, virtual
  uint32_t n_begun, n_polls;
  bool good;
} Rank;

static void *train(void *ctx) {
  Rank *r = ctx;
  Node node;
  tn_transport t = cluster_transport(r->cluster, &node, r->rank, r->n_ranks);
  r->good = tn_distribute(r->model, &t, NULL) == TN_OK;
  r->begin = node.clock;
  for (int k = 0; k < STEPS && r->good; k++)
    r->good = tn_run(r->model, "step", TN_IN(tn_f32(xs, BATCH, r->width), tn_i64(labels, BATCH)), TN_NO_OUT) == TN_OK;
  r->end = node.clock, r->n_begun = node.n_begun, r->n_polls = node.n_polls;
  free(node.receive);
  return NULL;
}

// Seconds of exchanges in a step where nothing hides: gradients and parameters, and four waits for the network, the norm's
// apart. Words are 376 bytes to each.
static double exchange_model(double n_elements, double n_ranks) {
  double out = 2 * 4 * n_elements * (n_ranks - 1) / n_ranks + 2 * WORD * (n_ranks - 1);
  return out / bandwidth + 4 * latency;
}

// Buckets in the order in which a backward fills them
enum { MOST_BUCKETS = 64 };
typedef struct {
  double ready[MOST_BUCKETS], elements[MOST_BUCKETS];  // ready: seconds of the backward before it can be sent
  uint32_t n;
} Timeline;

// Seconds from the begin of a backward that takes `computed` until all gradients have arrived: a bucket leaves when it is there and
// those before it have left.
static double gradients_model(const Timeline *t, double computed, double n_ranks) {
  double free = 0;
  for (uint32_t k = 0; k < t->n; k++)
    free = fmax(free, t->ready[k]) + 4 * t->elements[k] * (n_ranks - 1) / n_ranks / bandwidth;
  return fmax(free, computed);
}

// Of a whole step, which sends parameters when all is updated
static double step_model(const Timeline *t, double computed, double n_ranks) {
  double n_elements = 0;
  for (uint32_t k = 0; k < t->n; k++) n_elements += t->elements[k];
  double parameters = 4 * n_elements * (n_ranks - 1) / n_ranks / bandwidth;
  return gradients_model(t, computed, n_ranks) + parameters + exchange_model(0, n_ranks);
}

// Seconds of a step; *of: rank 0
static double step_of(const tn_model *m, uint32_t n, int64_t width, double kernel, Rank *of) {
  Cluster c = {.latency = latency, .bandwidth = bandwidth, .kernel = kernel, .word = WORD};
  Rank r[SHARDS];
  pthread_t threads[SHARDS];
  pthread_mutex_init(&c.lock, NULL);
  for (uint32_t k = 0; k < n; k++) {
    r[k] = (Rank){.cluster = &c, .model = tn_instance(m, 1), .rank = k, .n_ranks = n, .width = width};
    pthread_create(&threads[k], NULL, train, &r[k]);
  }
  double begin = 0, end = 0;
  for (uint32_t k = 0; k < n; k++) {
    pthread_join(threads[k], NULL), tn_model_free(r[k].model);
    CHECK(r[k].good);
    begin = fmax(begin, r[k].begin), end = fmax(end, r[k].end);
  }
  pthread_mutex_destroy(&c.lock);
  *of = r[0];
  return (end - begin) / STEPS;
}

static void test_ranks(const tn_model *m, uint32_t n) {
  Rank r;
  double expected = exchange_model(WIDTH * HIDDEN + HIDDEN + HIDDEN * WIDTH + WIDTH, n),
         step = step_of(m, n, WIDTH, 0, &r);
  if (!CHECK(fabs(step - expected) < 0.05 * expected))
    printf("  %u ranks: %g s, the model says %g\n", n, step, expected);
}

// The backward of a layer, two products, takes as long as its exchange: all layers' but the last hide behind it, and without
// buckets of their own none. What is computed before anything is exchanged has no place in either. A checked arena is one
// kernel's at a time: nothing is exchanged before a shard is done.
static void test_overlap(const tn_model *one, const tn_model *each, uint32_t n) {
  double layer = 4.0 * (DEEP * DEEP + DEEP) * (n - 1) / n / bandwidth, kernel = layer / 2;
  Rank with, without;
  double hidden = step_of(each, n, DEEP, kernel, &with), bare = step_of(one, n, DEEP, kernel, &without);
  double computed = kernel * (with.n_polls - without.n_polls) / STEPS;
  double saved = (bare + computed - hidden) / layer;  // layers whose exchange is hidden
  bool good = CHECK(with.n_begun >= DEPTH * STEPS && without.n_begun == STEPS), is_checked = getenv("TN_CHECK");
  good = CHECK(is_checked ? with.n_polls == 0 : with.n_polls >= 2 * (DEPTH - 1) * STEPS) && good;
  if (!CHECK(is_checked ? fabs(saved) < 0.1 : saved > 0.8 * (DEPTH - 1)) || !good)
    printf("  %u ranks: %g layers are hidden; %u and %u buckets, %u and %u polls\n", n, saved, with.n_begun,
           without.n_begun, with.n_polls, without.n_polls);
  if (is_checked) return;
  Timeline t = {.n = DEPTH};
  double backward = kernel * with.n_polls / STEPS;
  for (int k = 0; k < DEPTH; k++) t.elements[k] = DEEP * DEEP + DEEP, t.ready[k] = 2 * kernel * k;
  double expected = step_model(&t, backward, n);
  printf("%u ranks, %d layers: %.3f ms a step, the model says %.3f; %.3f where nothing hides\n", n, DEPTH, 1e3 * hidden,
         1e3 * expected, 1e3 * (bare + computed));
  CHECK(fabs(hidden - expected) < 0.05 * expected);
}

// ---- GPT-2 124M, by what ranks own
enum { LAYERS = 12, WIDE = 768, VOCABULARY = 50257, PLACES = 1024, MOST_PARAMS = 4 + 12 * LAYERS };

static uint32_t list_gpt2(RtParam *p) {
  static const int64_t of_block[] = {WIDE, WIDE, 3 * WIDE * WIDE, 3 * WIDE, WIDE * WIDE,     WIDE,
                                     WIDE, WIDE, 4 * WIDE * WIDE, 4 * WIDE, 4 * WIDE * WIDE, WIDE};
  uint32_t n = 0;
  p[n++].bytes = 4 * (int64_t)VOCABULARY * WIDE, p[n++].bytes = 4 * PLACES * WIDE;
  for (int layer = 0; layer < LAYERS; layer++)
    for (size_t k = 0; k < sizeof of_block / sizeof *of_block; k++) p[n++].bytes = 4 * of_block[k];
  for (int k = 0; k < 2; k++) p[n++].bytes = 4 * WIDE;
  return n;
}

// Seconds of both large exchanges, by the rank that has most to send or to receive.
static double largest_exchange(const RtOwners *o, const RtPlan *p, double all) {
  double most = 0;
  for (uint32_t rank = 0; rank < o->n_ranks; rank++) {
    double own = 0;
    for (uint32_t k = 0; k < p->n_params; k++) {
      RtRange range = rt_owned_of(o, k, rank);
      own += 4 * (double)(range.hi - range.lo);
    }
    double others = all - own, to_others = own * (o->n_ranks - 1);  // gradients out, and in; parameters the other way
    most = fmax(most, 2 * fmax(others, to_others));
  }
  return most / bandwidth;
}

enum { TOKENS = 8 * 512, PLACE = 512 };  // of a rank, and of a sequence
static const double rate = 1e12;         // flops of a rank

// The backward goes through the list from its end, but for the head's product, which comes first: the table that it shares is
// whole when the looked-up rows have come to it, last of all. Each weight costs two products, each layer its attention beside.
// Buckets are those of pass exchange. owned: in their order. Returns what the backward takes.
static double fill_timeline(const RtParam *params, uint32_t n, RtOwnedUpdate *owned, Timeline *t) {
  double attention = 8.0 * WIDE * PLACE / 2 * TOKENS, room = IR_FIRST_BUCKET_BYTES;
  double clock = (double)params[0].bytes * TOKENS / rate;
  *t = (Timeline){.n = 1};
  for (uint32_t at = 0; at < n; at++) {
    uint32_t k = n - 1 - at;
    double bytes = (double)params[k].bytes;
    if (k) clock += bytes * TOKENS / rate;
    if (params[k].bytes == 4 * 3 * WIDE * WIDE) clock += attention / rate;
    if (room <= 0) t->n++, room = IR_BUCKET_BYTES;
    owned[at] = (RtOwnedUpdate){.param = k, .bucket = t->n - 1};
    t->ready[t->n - 1] = clock, t->elements[t->n - 1] += bytes / 4, room -= bytes;
  }
  return clock;
}

static void test_gpt2(void) {
  RtParam params[MOST_PARAMS] = {{.path = NULL}};
  RtOwnedUpdate owned[MOST_PARAMS];
  RtPlan p = {.params = params, .n_params = list_gpt2(params), .n_functions = 1};
  Timeline t;
  double backward = fill_timeline(params, p.n_params, owned, &t), compute = 1.5 * backward, all = 0;
  for (uint32_t k = 0; k < t.n; k++) all += 4 * t.elements[k];
  RtShards shards = {.owned = owned, .n_owned = p.n_params};
  RtFunction f = {.shards = &shards};
  p.functions = &f;
  printf("GPT-2, %.1f M parameters, %u buckets, the last of %.1f M; a rank has %d tokens and %g Tflop/s, computes %.2f "
         "s\n",
         all / 4e6, t.n, t.elements[t.n - 1] / 1e6, TOKENS, rate / 1e12, compute);
  printf("| ranks | MB out of a rank | exchange, s | of it exposed | step, s | efficiency | where nothing hides |\n"
         "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (uint32_t n = 2; n <= 256; n *= 2) {
    RtOwners o;
    if (!CHECK(rt_owners_new(&o, &p, n))) return;
    double model = exchange_model(all / 4, n), exchange = largest_exchange(&o, &p, all) + 6 * latency;
    double step = compute - backward + step_model(&t, backward, n);
    printf("| %u | %.0f | %.3f | %.3f | %.2f | %.1f %% | %.1f %% |\n", n, 2e-6 * all * (n - 1) / n, exchange,
           step - compute, step, 100 * compute / step, 100 * compute / (compute + exchange));
    CHECK(fabs(exchange - model) < 0.05 * model);
    CHECK(n > 64 || compute >= 0.9 * step);
    rt_owners_free(&o);
  }
}

int main(void) {
  for (int k = 0; k < BATCH * WIDTH; k++) xs[k] = (float)((k * 37) % 101) / 50 - 1;
  for (int k = 0; k < BATCH; k++) labels[k] = k * 5 % DEEP;
  tn_model *m = build();
  if (!CHECK(m)) return check_report();
  for (uint32_t n = 2; n <= SHARDS; n *= 2) test_ranks(m, n);
  tn_model_free(m);
  tn_model *one = build_deep(1 << 24), *each = build_deep(4 * DEEP * DEEP);
  for (uint32_t n = 2; n <= SHARDS && CHECK(one && each); n *= 2) test_overlap(one, each, n);
  tn_model_free(one), tn_model_free(each);
  test_gpt2();
  return check_report();
}
