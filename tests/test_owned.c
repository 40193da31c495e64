// Updates of distributed functions that each rank makes for the part of the parameters that it owns: whatever they are made of, any number
// of ranks writes the file that one process writes, and has its part of the state alone.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/thread_transport.h"

enum { BATCH = 24, TIME = 3, WIDTH = 8, HIDDEN = 40, WIDE = 1400, CLASSES = 16, SHARDS = 8, STEPS = 5, MOST = 1 << 21 };
static float xs[BATCH * TIME * WIDTH];
static int64_t labels[BATCH];

// ---- updates
typedef void Update(tn_function *f, tn_module *net);
static void lamb(tn_function *f, tn_module *net) { tn_lamb(f, net, .lr = 1e-2, .weight_decay = 0.01); }
static void clipped_lamb(tn_function *f, tn_module *net) {
  tn_clip_grad_norm(f, net, 0.1);
  lamb(f, net);
}
static void ema(tn_function *f, tn_module *net) {
  tn_clip_grad_norm(f, net, 0.1);
  tn_adamw(f, net, .lr = 1e-2);
  tn_ema(f, net, .decay = 0.9);
}
static void swa(tn_function *f, tn_module *net) {
  tn_sgd(f, net, .lr = 1e-2, .momentum = 0.9);
  tn_swa(f, net);
}
static void value(tn_function *f, tn_module *net) {
  tn_clip_grad_value(f, net, 1e-3);
  tn_adamw(f, net, .lr = 1e-2);
}
static void both(tn_function *f, tn_module *net) {
  tn_clip_grad_value(f, net, 1e-3);
  tn_clip_grad_norm(f, net, 1e-2);
  tn_adamw(f, net, .lr = 1e-2, .maximize = true);
}
static void accumulate(tn_function *f, tn_module *net) {
  tn_accumulate(f, net, 2);
  tn_adamw(f, net, .lr = 1e-2);
}
static void accumulate_all(tn_function *f, tn_module *net) {
  tn_accumulate(f, net, 3);
  tn_clip_grad_norm(f, net, 0.1);
  tn_lamb(f, net, .lr = 1e-2);
  tn_ema(f, net, .decay = 0.9);
}

typedef struct {
  const char *name;
  Update *update;
  uint32_t n_state;  // entries of the state of a parameter's size: of each rank its part alone
  bool reads_ema, flushes;
} Kind;
static const Kind kinds[] = {{"lamb", lamb, 2, false, false},
                             {"clipped lamb", clipped_lamb, 2, false, false},
                             {"ema", ema, 3, false, false},
                             {"ema that is read", ema, 3, true, false},
                             {"swa", swa, 2, false, false},
                             {"clipped by value", value, 2, false, false},
                             {"clipped twice", both, 2, false, false},
                             {"accumulated", accumulate, 3, false, false},
                             {"all", accumulate_all, 4, false, false},
                             {"accumulated, flushed", accumulate, 0, false, true}};

// ---- a recurrent net, whose biases share one gradient
static void build_other(tn_program *p, tn_module *net, tn_module *head, const Kind *kind) {
  if (kind->reads_ema) {
    tn_function *f = tn_function_begin(p, "mean");
    tn_use_ema(f, net);
    tn_output(f, "sum", tn_sum(tn_param_value(f, head, "weight")));
    tn_function_end(f);
  }
  if (kind->flushes) {
    tn_function *f = tn_function_begin(p, "flush");
    tn_accumulate_flush(f, net);
    tn_adamw(f, net, .lr = 1e-2);
    tn_function_end(f);
  }
}

static tn_model *build(const Kind *kind, uint32_t n_workers) {
  tn_program *p = tn_program_create("owned");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *net = tn_root(p), *rnn = tn_gru(net, "rnn", WIDTH, HIDDEN, .batch_first = true),
            *wide = tn_linear(net, "wide", HIDDEN, WIDE), *norm = tn_batch_norm(net, "norm", WIDE),
            *head = tn_linear(net, "head", WIDE, CLASSES);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, TIME, WIDTH)), y = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_distributed(f, .n = SHARDS, .batch = B, .bucket_bytes = 1 << 16);
  tn_tensor h = tn_last_hidden(tn_rnn_call_dense(rnn, x));
  h = tn_call(norm, tn_call(wide, h));  // running statistics are buffers, which are updated in parts and sent to all
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_relu(h)), y);
  tn_backward(loss);
  kind->update(f, net);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  build_other(p, net, head, kind);
  tn_model *m = tn_compile(p, .n_workers = n_workers, .seed = 3);
  tn_program_free(p);
  return m;
}

// ---- one rank
typedef struct {
  const Kind *kind;
  Net *net;
  tn_model *model;
  uint32_t rank, n_ranks;
  tn_status status;
  float loss, ema;
  int64_t n_elements;  // of parameters and state, that it has
  const char *file;
} Rank;

static void *train(void *ctx) {
  Rank *r = ctx;
  NetRank *rank = malloc(sizeof *rank);
  tn_transport t = net_transport(r->net, rank, r->rank, r->n_ranks);
  if (r->n_ranks > 1) r->status = tn_distribute(r->model, &t, NULL);
  for (int k = 0; k < STEPS && !r->status; k++)
    r->status = tn_run(r->model, "step", TN_IN(tn_f32(xs, BATCH, TIME, WIDTH), tn_i64(labels, BATCH)),
                       TN_OUT(tn_f32_scalar(&r->loss)));
  if (r->kind->flushes && !r->status) r->status = tn_run(r->model, "flush", TN_NO_IN, TN_NO_OUT);
  if (r->kind->reads_ema && !r->status) r->status = tn_run(r->model, "mean", TN_NO_IN, TN_OUT(tn_f32_scalar(&r->ema)));
  for (uint32_t k = 0; k < tn_param_count(r->model) && !r->status; k++) {
    int64_t first, count;
    tn_param_owned(r->model, k, &first, &count);
    r->n_elements += count;
  }
  if (!r->status) r->status = tn_save(r->model, r->file, true);
  if (r->status) printf("  %s, rank %u of %u: %s\n", r->kind->name, r->rank, r->n_ranks, tn_error_text(r->model));
  free(rank);
  return NULL;
}

static Rank *train_all(const tn_model *m, Rank like) {
  Net net = {.fault = NET_FAULTLESS};
  pthread_t threads[NET_MOST];
  pthread_mutex_init(&net.lock, NULL);
  Rank *r = calloc(like.n_ranks, sizeof *r);
  for (uint32_t k = 0; k < like.n_ranks; k++) {
    r[k] = like;
    r[k].net = &net, r[k].rank = k, r[k].model = tn_instance(m, 3 + k);
    pthread_create(&threads[k], NULL, train, &r[k]);
  }
  for (uint32_t k = 0; k < like.n_ranks; k++) pthread_join(threads[k], NULL), tn_model_free(r[k].model);
  net_free(&net);
  return r;
}

static size_t read_file(const char *path, unsigned char *to) {
  FILE *in = fopen(path, "rb");
  size_t n = in ? fread(to, 1, MOST, in) : 0;
  if (in) fclose(in);
  remove(path);
  return n;
}

static void test_kind(const Kind *kind, uint32_t n_workers, const char *folder) {
  enum { N = 3 * HIDDEN * (WIDTH + HIDDEN + 2) + WIDE * (HIDDEN + 3) + CLASSES * (WIDE + 1) };
  static unsigned char a[MOST], b[MOST];
  char path[600];
  tn_model *m = build(kind, n_workers);
  if (!CHECK(m)) return;
  snprintf(path, sizeof path, "%s/owned", folder);
  Rank like = {.kind = kind, .n_ranks = 1, .file = path}, *one = train_all(m, like);
  size_t n_alone = read_file(path, a);
  CHECK(!one->status && n_alone > N * sizeof(float));
  const int64_t parts =
      (int64_t)kind->n_state * N - (kind->reads_ema ? CLASSES * WIDE : 0);  // what another function reads is whole
  static const uint32_t counts[] = {2, 3, 4, 5, 8};
  for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
    int64_t all = 0, whole = one->n_elements - parts;
    like.n_ranks = counts[j];
    Rank *r = train_all(m, like);
    for (uint32_t k = 0; k < counts[j]; k++) {
      CHECK(!r[k].status && !memcmp(&r[k].loss, &one->loss, sizeof one->loss) && r[k].ema == one->ema);
      all += r[k].n_elements;
    }
    if (!CHECK(all == counts[j] * whole + parts))
      printf("  %s: %u ranks have %lld elements\n", kind->name, counts[j], (long long)all);
    size_t n = read_file(path, b);
    if (!CHECK(n == n_alone && !memcmp(a, b, n))) printf("  %s: the file of %u ranks differs\n", kind->name, counts[j]);
    free(r);
  }
  free(one);
  tn_model_free(m);
}

int main(void) {
  const char *folder = getenv("TMPDIR");
  for (int k = 0; k < BATCH * TIME * WIDTH; k++) xs[k] = (float)((k * 37) % 101) / 50 - 1;
  for (int k = 0; k < BATCH; k++) labels[k] = k % CLASSES;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) test_kind(&kinds[k], 1 + k % 2, folder ? folder : "/tmp");
  return check_report();
}
