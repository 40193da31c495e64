// Batches that are filled to limits: each row of each document comes once in an epoch, whatever is cut, no limit is
// exceeded, and workers, ranks, shards and a stop in the middle change no batch. First fit is that of a plain reference.
#include "frontend/tenure.h"
#include "runtime/base.h"
#include "tests/check.h"
#include <math.h>
#include <stdlib.h>

enum { DOCS = 300, LONGEST = 90, MOST = 4096 };
static char why[1024];
static uint64_t state = 1;
static double draw(void) {
  return (double)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) / (1u << 31);
}

// Documents of rows that are numbered through: row r of the data is r, and document k begins with row start[k].
typedef struct {
  int64_t lengths[DOCS], start[DOCS + 1], rows[DOCS * LONGEST];
  tn_dataset *d;
} Docs;

typedef enum { UNIFORM, LOG_NORMAL, LONG_TAIL, N_SHAPES } Shape;
static int64_t draw_length(Shape shape) {
  double u = draw() + 1e-12, v = draw(), n = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
  double x = shape == UNIFORM ? 1 + v * LONGEST : shape == LOG_NORMAL ? exp(2.2 + 0.7 * n) : 2 / sqrt(u);
  return x > LONGEST ? LONGEST : (int64_t)x;
}

static tn_dataset *cut(const int64_t *rows, int64_t n_rows, const int64_t *lengths, size_t n) {
  tn_array x = tn_i64((int64_t *)(uintptr_t)rows, n_rows);
  tn_dataset *all = tn_dataset_arrays(&x, 1, (const char *[]){"x"}, why, sizeof why);
  tn_dataset *d = all ? tn_dataset_ragged(all, lengths, n, why, sizeof why) : NULL;
  tn_dataset_free(all);
  return d;
}

static Docs *documents(Shape shape, int64_t n) {
  Docs *c = calloc(1, sizeof *c);
  for (int64_t k = 0; c && k < n; k++) {
    c->lengths[k] = k % 29 == 7 ? 0 : draw_length(shape);
    c->start[k + 1] = c->start[k] + c->lengths[k];
  }
  for (int64_t r = 0; c && r < c->start[n]; r++) c->rows[r] = r;
  c->d = cut(c->rows, c->start[n], c->lengths, (size_t)n);
  if (!CHECK(c->d != NULL)) printf("%s\n", why), exit(1);
  return c;
}

static void free_documents(Docs *c) { tn_dataset_free(c->d), free(c); }

static tn_loader *loader(tn_dataset *d, tn_loader_options o) {
  tn_loader *l = tn_loader_new(d, &o, why, sizeof why);
  if (!CHECK(l != NULL)) printf("%s\n", why), exit(1);
  return l;
}

// An epoch as text of numbers: for each batch its sequences (item, first row, rows) and -1
typedef struct {
  int64_t at[MOST];
  size_t n, n_batches, begin[MOST];
} Epoch;

static void add(Epoch *e, int64_t x) { e->at[CHECK(e->n < MOST) ? e->n++ : 0] = x; }

// The rest of an epoch of a loader whose layout is concatenated; checks that its rows are those of the documents.
static void read_epoch(tn_loader *l, const Docs *c, Epoch *e) {
  *e = (Epoch){.n = 0};
  for (tn_batch b; CHECK(tn_loader_next(l, &b) == TN_OK) && b.number; add(e, -1)) {
    tn_array x = tn_batch_array(b, "x"), starts = tn_batch_array(b, "x.starts");
    const int64_t *row = x.data, *lengths = tn_batch_array(b, "x.lengths").data;
    e->begin[e->n_batches++] = e->n;
    for (size_t i = 0; i < tn_batch_size(b); i++) {
      int64_t item = (int64_t)tn_batch_index(b)[i], first = starts.data ? ((int64_t *)starts.data)[i] : 0;
      add(e, item), add(e, first), add(e, lengths[i]);
      for (int64_t t = 0; t < lengths[i]; t++) CHECK(*row++ == c->start[item] + first + t);
    }
    CHECK(row == (int64_t *)x.data + x.dims[0]);
  }
}

static bool is_same(const Epoch *a, const Epoch *b) {
  return a->n == b->n && !memcmp(a->at, b->at, a->n * sizeof *a->at);
}

typedef struct {
  int64_t items, rows, squares, longest;
} Sums;

static Sums sums_of(const Epoch *e, size_t batch) {
  Sums s = {0};
  for (const int64_t *p = e->at + e->begin[batch]; *p >= 0; p += 3) {
    s.items++, s.rows += p[2], s.squares += p[2] * p[2];
    if (p[2] > s.longest) s.longest = p[2];
  }
  return s;
}

static bool is_within(const tn_loader_options *o, Sums s) {
  const tn_sampler *m = &o->sampler;
  return (!o->batch_size || s.items <= (int64_t)o->batch_size) && (!m->max_rows || s.rows <= m->max_rows) &&
         (!m->max_length || s.longest <= m->max_length) && (!m->max_padded || s.items * s.longest <= m->max_padded) &&
         (!m->max_squares || s.squares <= m->max_squares);
}

static void check_limits(const tn_loader_options *o, const Epoch *e) {
  for (size_t k = 0; k < e->n_batches; k++) CHECK(is_within(o, sums_of(e, k)) && e->at[e->begin[k]] >= 0);
}

// Documents longer than `most` are left out, all others come once, in pieces that are one another's continuation.
static void check_once(const Docs *c, int64_t n, const Epoch *e, int64_t most, bool is_cut) {
  static bool seen[DOCS * LONGEST];
  int empty[DOCS] = {0};
  memset(seen, 0, sizeof seen);
  for (size_t i = 0; i < e->n; i += 3) {
    while (i < e->n && e->at[i] < 0) i++;
    if (i >= e->n) break;
    int64_t item = e->at[i], first = c->start[item] + e->at[i + 1];
    if (!e->at[i + 2]) empty[item]++;
    for (int64_t t = 0; t < e->at[i + 2]; t++) CHECK(!seen[first + t]), seen[first + t] = true;
  }
  for (int64_t k = 0; k < n; k++) {
    bool skipped = !is_cut && c->lengths[k] > most;
    CHECK(empty[k] == (c->lengths[k] == 0));
    for (int64_t r = c->start[k]; r < c->start[k + 1]; r++) CHECK(seen[r] == !skipped);
  }
}

static void check_figures(tn_loader *l, const Epoch *e) {
  tn_epoch_report r = tn_loader_report(l), want = {.batches = e->n_batches, .skipped = r.skipped};
  for (size_t k = 0; k < e->n_batches; k++) {
    Sums s = sums_of(e, k);
    int64_t padded = s.items * s.longest;
    want.sequences += (size_t)s.items, want.rows += s.rows, want.padded += padded;
    if (s.items > want.most_items) want.most_items = s.items;
    if (s.rows > want.most_rows) want.most_rows = s.rows;
    if (padded > want.most_padded) want.most_padded = padded;
    if (s.squares > want.most_squares) want.most_squares = s.squares;
    if (s.longest > want.longest) want.longest = s.longest;
  }
  CHECK(!memcmp(&r, &want, sizeof r) && tn_loader_count(l) == e->n_batches);
}

// ---- the properties, of every kind with every limit
static void check_options(const Docs *c, int64_t n, tn_loader_options o, int64_t most) {
  static Epoch first, second, other;
  tn_cut cut = o.sampler.cut;
  o.layout = TN_CONCATENATED;
  tn_loader *l = loader(c->d, o);
  tn_epoch_report r = tn_loader_report(l);
  tn_loader_state zero = tn_loader_get_state(l);
  read_epoch(l, c, &first);
  CHECK(r.batches == first.n_batches);
  check_limits(&o, &first);
  if (!o.drop_last) check_once(c, n, &first, most, cut == TN_CUT_LONG || cut == TN_CUT_FILL);
  tn_loader_state start = tn_loader_get_state(l);
  read_epoch(l, c, &second);
  if (o.sampler.kind == TN_SEQUENTIAL) CHECK(is_same(&first, &second));
  else CHECK(n < 50 || !is_same(&first, &second));
  CHECK(tn_loader_set_state(l, start) == TN_OK);
  check_figures(l, &second);
  o.workers = 3, o.prefetch = 2, o.seed = 0;  // the state brings its own
  tn_loader *m = loader(c->d, o);
  CHECK(tn_loader_count(m) <= MOST && tn_loader_set_state(m, zero) == TN_OK);
  read_epoch(m, c, &other);
  CHECK(is_same(&other, &first));
  read_epoch(m, c, &other);
  CHECK(is_same(&other, &second));
  for (uint64_t at = 0; at <= second.n_batches; at += 1 + second.n_batches / 5) {  // from the middle
    start.position = at;
    CHECK(tn_loader_set_state(m, start) == TN_OK);
    read_epoch(m, c, &other);
    size_t skipped = at < second.n_batches ? second.begin[at] : second.n;
    CHECK(other.n == second.n - skipped && !memcmp(other.at, second.at + skipped, other.n * sizeof *other.at));
  }
  tn_loader_free(l), tn_loader_free(m);
}

static void test_properties(void) {
  static const struct {
    int64_t rows, padded, squares, most;
    size_t batch;
    int64_t length;
  } limits[] = {{128, 0, 0, 128, 0, 0}, {128, 0, 0, 20, 0, 20}, {0, 0, 0, 33, 7, 33},     {40, 0, 0, 40, 6, 0},
                {0, 300, 0, 300, 0, 0}, {0, 0, 2000, 44, 0, 0}, {100, 150, 900, 30, 9, 0}};
  for (int shape = 0; shape < N_SHAPES; shape++) {
    int64_t n = shape == UNIFORM ? DOCS : 2 + (int64_t)(draw() * 200);
    Docs *c = documents((Shape)shape, n);
    for (int kind = TN_SEQUENTIAL; kind <= TN_FIRST_FIT; kind++)
      for (size_t k = 0; k < sizeof limits / sizeof *limits && kind != TN_LANES && kind != TN_CUSTOM; k++)
        for (int cut = TN_CUT_SKIP; cut <= TN_CUT_FILL; cut++) {
          if (kind == TN_FIRST_FIT && limits[k].length == 33) continue;
          if (cut == TN_CUT_FILL && (kind >= TN_BUCKETS || !limits[k].rows || limits[k].squares)) continue;
          tn_sampler s = {.kind = (tn_sampler_kind)kind, .pool = (uint32_t)(3 * k), .cut = (tn_cut)cut};
          s.max_length = limits[k].length, s.max_rows = limits[k].rows, s.max_padded = limits[k].padded,
          s.max_squares = limits[k].squares;
          check_options(
              c, n,
              (tn_loader_options){.batch_size = limits[k].batch, .seed = 4, .sampler = s, .drop_last = k == 3 && shape},
              limits[k].most);
        }
    free_documents(c);
  }
}

// ---- ranks and shards
static void test_ranks(void) {
  static Epoch one, mine;
  Docs *c = documents(LOG_NORMAL, 200);
  for (uint32_t world = 2; world < 5; world++)
    for (int drop = 0; drop < 2; drop++) {
      tn_sampler s = {.kind = TN_FIRST_FIT, .max_rows = 100, .tail = drop};
      tn_loader *l = loader(c->d, (tn_loader_options){.sampler = s, .layout = TN_CONCATENATED});
      read_epoch(l, c, &one);
      size_t n = drop ? one.n_batches / world : (one.n_batches + world - 1) / world;
      for (uint32_t rank = 0; rank < world; rank++) {
        s.world = world, s.rank = rank;
        tn_loader *r = loader(c->d, (tn_loader_options){.sampler = s, .layout = TN_CONCATENATED, .workers = 1});
        CHECK(tn_loader_count(r) == n);
        read_epoch(r, c, &mine);
        CHECK(mine.n_batches == n);
        for (size_t k = 0; k < n; k++) {
          const int64_t *have = mine.at + mine.begin[k], *want = one.at + one.begin[(k * world + rank) % one.n_batches];
          for (; *have >= 0 && *have == *want; have++) want++;
          CHECK(*have == *want);
        }
        tn_loader_free(r);
      }
      tn_loader_free(l);
    }
  free_documents(c);
}

static void test_shards(void) {
  enum { SHARDS = 3 };
  Docs *c = documents(UNIFORM, 100);
  tn_sampler s = {.kind = TN_BUCKETS, .max_padded = 400};
  tn_loader *one = loader(c->d, (tn_loader_options){.sampler = s, .layout = TN_CONCATENATED}), *l[SHARDS];
  s.shards = s.world = SHARDS;
  for (s.rank = 0; s.rank < SHARDS; s.rank++)
    l[s.rank] = loader(c->d, (tn_loader_options){.sampler = s, .layout = TN_CONCATENATED});
  for (tn_batch b, part; tn_loader_next(one, &b) == TN_OK && b.number;) {
    size_t at = 0;
    for (uint32_t r = 0; r < SHARDS; r++) {
      CHECK(tn_loader_next(l[r], &part) == TN_OK && part.number);
      const int64_t *row = tn_batch_array(part, "x").data, *lengths = tn_batch_array(part, "x.lengths").data;
      for (size_t i = 0; i < tn_batch_size(part); row += lengths[i++], at++) {
        size_t item = tn_batch_index(b)[at];
        CHECK(tn_batch_index(part)[i] == item && lengths[i] == c->lengths[item]);
        CHECK(!lengths[i] || *row == c->start[item]);
      }
    }
    CHECK(at == tn_batch_size(b));
  }
  for (uint32_t r = 0; r < SHARDS; r++) tn_loader_free(l[r]);
  tn_loader_free(one), free_documents(c);
}

// ---- first fit decreasing, written down plainly: every batch is looked at for every document
typedef struct {
  int64_t items[DOCS], n, rows;
} Bin;

static int by_first(const void *a, const void *b) {
  int64_t x = ((const Bin *)a)->items[0], y = ((const Bin *)b)->items[0];
  return (x > y) - (x < y);
}

// Gives the number of batches. What the last batch of a window has is packed again with the next window.
static size_t pack_plainly(const Docs *c, const size_t *order, size_t n, int64_t max_rows, int64_t pool, Bin *out) {
  size_t done = 0, window[DOCS], n_window = 0;
  for (size_t k = 0; k < n;) {
    int64_t rows = 0;
    for (size_t i = 0; i < n_window; i++) rows += c->lengths[window[i]];
    for (; k < n && (rows < pool * max_rows || rows == max_rows); k++)
      rows += c->lengths[window[n_window++] = order[k]];
    for (size_t i = 1; i < n_window; i++)  // sorted by insertion
      for (size_t j = i; j && c->lengths[window[j - 1]] < c->lengths[window[j]]; j--) {
        size_t t = window[j];
        window[j] = window[j - 1], window[j - 1] = t;
      }
    size_t n_bins = 0;
    for (size_t i = 0; i < n_window; i++) {
      Bin *bin = out + done;
      while (bin < out + done + n_bins && bin->rows + c->lengths[window[i]] > max_rows) bin++;
      if (bin == out + done + n_bins) n_bins++, *bin = (Bin){.n = 0};
      bin->items[bin->n++] = (int64_t)window[i], bin->rows += c->lengths[window[i]];
    }
    done += k < n ? n_bins - 1 : n_bins, n_window = 0;
    for (int64_t i = 0; k < n && i < out[done].n; i++) window[n_window++] = (size_t)out[done].items[i];
  }
  return done;
}

static void test_first_fit(void) {
  static Epoch e;
  static Bin want[DOCS], have[DOCS];
  for (int trial = 0; trial < 12; trial++) {
    size_t order[DOCS], n = trial ? (size_t)(draw() * DOCS) + 1 : 1;
    Docs *c = documents((Shape)(trial % N_SHAPES), (int64_t)n);
    uint64_t seed = (uint64_t)trial;
    tn_sampler s = {.kind = TN_FIRST_FIT, .max_rows = LONGEST + trial * 7, .pool = trial % 5 ? (uint32_t)trial : 1000};
    // As many items as there are: this limit is not the reference's
    tn_loader *l =
        loader(c->d, (tn_loader_options){.seed = seed, .sampler = s, .batch_size = DOCS, .layout = TN_CONCATENATED});
    read_epoch(l, c, &e);
    tn_shuffle(order, n, seed << 32);
    size_t n_want = pack_plainly(c, order, n, s.max_rows, s.pool, want);
    CHECK(e.n_batches == n_want);
    for (size_t k = 0; k < e.n_batches; k++) {
      const int64_t *p = e.at + e.begin[k];
      for (have[k] = (Bin){.n = 0}; *p >= 0; p += 3) have[k].items[have[k].n++] = *p, have[k].rows += p[2];
    }
    qsort(want, n_want, sizeof *want, by_first), qsort(have, e.n_batches, sizeof *have, by_first);
    for (size_t k = 0; k < n_want; k++)
      CHECK(have[k].n == want[k].n && !memcmp(have[k].items, want[k].items, (size_t)want[k].n * sizeof *want[k].items));
    tn_loader_free(l), free_documents(c);
  }
}

// ---- what it is for: little padding in buckets, full batches by first fit
static void test_fill(void) {
  for (int shape = 0; shape < N_SHAPES; shape++) {
    Docs *c = documents((Shape)shape, DOCS);
    int64_t max = 4 * LONGEST;
    tn_loader *plain = loader(c->d, (tn_loader_options){.sampler = {.max_padded = max}});
    tn_loader *sorted = loader(c->d, (tn_loader_options){.sampler = {.kind = TN_BUCKETS, .max_padded = max}});
    tn_loader *packed = loader(c->d, (tn_loader_options){.sampler = {.kind = TN_FIRST_FIT, .max_rows = max}});
    tn_epoch_report a = tn_loader_report(plain), b = tn_loader_report(sorted), f = tn_loader_report(packed);
    CHECK(a.rows == b.rows && b.padded - b.rows < (a.padded - a.rows) / 4);
    CHECK((int64_t)f.batches == (f.rows + max - 1) / max);  // as few as there can be
    tn_loader_free(plain), tn_loader_free(sorted), tn_loader_free(packed), free_documents(c);
  }
}

// What a pool leaves over is not always the shortest.
static void test_no_length_is_last(void) {
  static Epoch e;
  int n_last = 0;
  Docs *c = documents(UNIFORM, DOCS);
  tn_loader *l = loader(c->d, (tn_loader_options){.layout = TN_CONCATENATED,
                                                  .sampler = {.kind = TN_BUCKETS, .max_rows = 400, .pool = 4}});
  for (int epoch = 0; epoch < 20; epoch++) {
    read_epoch(l, c, &e);
    const int64_t *p = e.at + e.begin[e.n_batches - 1];
    for (; *p >= 0 && *p != 7; p += 3) continue;  // document 7 is empty
    n_last += *p == 7;
  }
  CHECK(n_last < 14);
  tn_loader_free(l), free_documents(c);
}

// ---- all batches but the last have max_rows rows, and what is cut goes on in the next one
static void test_constant_total(void) {
  static Epoch e;
  Docs *c = documents(LONG_TAIL, DOCS);
  for (int kind = TN_SEQUENTIAL; kind <= TN_SHUFFLED; kind++) {
    tn_sampler s = {.kind = (tn_sampler_kind)kind, .max_rows = 37, .cut = TN_CUT_FILL};
    tn_loader *l = loader(c->d, (tn_loader_options){.sampler = s, .layout = TN_CONCATENATED, .drop_last = kind});
    read_epoch(l, c, &e);
    CHECK(e.n_batches == (size_t)((c->start[DOCS] + (kind ? 0 : 36)) / 37));
    for (size_t k = 0; k + !kind < e.n_batches; k++) CHECK(sums_of(&e, k).rows == 37);
    for (size_t k = 1; k < e.n_batches; k++) {
      const int64_t *next = e.at + e.begin[k], *before = next - 4;  // the last sequence, and -1
      if (next[1]) CHECK(before[0] == next[0] && before[1] + before[2] == next[1]);
      else CHECK(before[1] + before[2] == c->lengths[before[0]]);
    }
    tn_loader_free(l);
  }
  free_documents(c);
}

// ---- layouts: padded and by steps, with room for what the limits allow and no more
static void check_layout(const Docs *c, tn_layout layout, const tn_sampler *s) {
  tn_loader *l = loader(c->d, (tn_loader_options){.sampler = *s, .layout = layout, .workers = 2});
  for (tn_batch b; tn_loader_next(l, &b) == TN_OK && b.number;) {
    tn_array x = tn_batch_array(b, "x");
    const int64_t *lengths = tn_batch_array(b, "x.lengths").data, *starts = tn_batch_array(b, "x.starts").data;
    int64_t n = (int64_t)tn_batch_size(b), time = x.dims[layout == TN_PADDED];
    for (int64_t i = 0; i < n; i++)
      for (int64_t t = 0; t < time; t++) {
        int64_t have = ((int64_t *)x.data)[layout == TN_PADDED ? i * time + t : t * n + i];
        CHECK(have == (t < lengths[i] ? c->start[tn_batch_index(b)[i]] + (starts ? starts[i] : 0) + t : 0));
      }
  }
  tn_loader_free(l);
}

static void test_layouts(void) {
  Docs *c = documents(UNIFORM, 100);
  for (tn_layout layout = TN_PADDED; layout <= TN_TIME_MAJOR; layout++) {
    check_layout(c, layout, &(tn_sampler){.kind = TN_FIRST_FIT, .max_rows = 60});
    check_layout(c, layout, &(tn_sampler){.kind = TN_BUCKETS, .max_padded = 400});
    check_layout(c, layout, &(tn_sampler){.kind = TN_SHUFFLED, .max_squares = 9000});
  }
  // Of one document that is cut there is room for its pieces, not for itself; of other data sets it is read whole.
  int64_t each = 8 + 8 + 32, n_rows = c->start[100];
  tn_dataset *one = cut(c->rows, n_rows, &n_rows, 1);
  tn_sampler s = {.max_rows = 120, .max_length = 50, .cut = TN_CUT_LONG};
  tn_loader *l = loader(one, (tn_loader_options){.batch_size = 6, .sampler = s});
  CHECK(tn_loader_bytes(l) <= (size_t)(6 * 50 * 8 + 6 * (each + 8)) + 5 * 64);
  tn_loader_free(l);
  l = loader(one, (tn_loader_options){.batch_size = 6, .sampler = s, .layout = TN_CONCATENATED});
  CHECK(tn_loader_bytes(l) <= (size_t)(120 * 8 + 6 * (each + 8)) + 5 * 64);
  tn_loader_free(l);
  s.lengths = &n_rows;
  l = loader(one, (tn_loader_options){.batch_size = 6, .sampler = s});
  CHECK(tn_loader_bytes(l) > (size_t)n_rows * 8);
  tn_dataset_free(one);
  tn_loader_free(l), free_documents(c);
}

// A collation sees pieces, and where they begin.
static bool first_rows(void *ctx, const tn_items *items, tn_array *out, char *error, size_t error_size) {
  const Docs *c = ctx;
  (void)error, (void)error_size;
  out[0].dims[0] = (int64_t)items->n;
  for (size_t i = 0; i < items->n; i++) {
    const tn_array *x = &items->arrays[i];
    int64_t want = c->start[items->index[i]] + items->starts[i];
    CHECK(x->dims[0] == 0 || *(int64_t *)x->data == want);
    ((int64_t *)out[0].data)[i] = want;
  }
  return true;
}

static void test_collate(void) {
  Docs *c = documents(LONG_TAIL, 80);
  tn_field out = {.name = "first", .dtype = TN_I64, .rank = 1, .dims = {50}};
  tn_loader_options o = {.batch_size = 50, .sampler = {.max_rows = 50, .cut = TN_CUT_FILL}};
  o.collate = (tn_collate){.fields = &out, .n_fields = 1, .fn = first_rows, .ctx = c};
  tn_loader *l = loader(c->d, o);
  size_t n = 0;
  for (tn_batch b; CHECK(tn_loader_next(l, &b) == TN_OK) && b.number; n++)
    CHECK(tn_batch_array(b, "first").dims[0] > 0);
  CHECK(n == tn_loader_count(l));
  tn_loader_free(l), free_documents(c);
}

// ---- nothing, too much, and what is refused
static bool get_more(void *ctx, size_t k, tn_item *to) {
  const int64_t *extra = ctx;  // even: of x, odd: of y
  to->length[0] = to->length[1] = 3 + (int64_t)k;
  to->length[*extra % 2] += *extra;
  return true;
}
static int64_t announced(void *ctx, size_t k) { return (void)ctx, 3 + (int64_t)k; }
static const tn_dataset_type honest = {.get = get_more, .length = announced}, silent = {.get = get_more};
static const tn_field two[] = {{.name = "x", .dtype = TN_I64, .is_variable = true, .rank = 1, .dims = {20}},
                               {.name = "y", .dtype = TN_I64, .is_variable = true, .rank = 1, .dims = {20}}};

static void check_first(tn_dataset *d, tn_sampler s, const char *error) {
  tn_batch b;
  tn_loader *l = loader(d, (tn_loader_options){.sampler = s, .workers = 1});
  CHECK(tn_loader_next(l, &b) == (error ? TN_ERR_VALUE : TN_OK));
  if (error) CHECK_HAS(tn_loader_error(l), error);
  tn_loader_free(l);
}

static void test_lengths_that_lie(void) {
  int64_t extra = 0;
  tn_dataset *d = tn_dataset_new(&honest, &extra, two, 2, 4, why, sizeof why);
  check_first(d, (tn_sampler){.max_rows = 5, .cut = TN_CUT_LONG}, NULL);
  extra = 2;  // of x
  check_first(d, (tn_sampler){.max_rows = 10}, "item 0: field 'x' has length 5, the batch was filled by a length of 3");
  extra = 1;  // of y
  check_first(d, (tn_sampler){.max_rows = 10}, NULL);
  check_first(d, (tn_sampler){.max_rows = 2, .cut = TN_CUT_LONG},
              "item 0: field 'y' has length 4, an item that is cut has 3 in all");
  tn_dataset_free(d);
  Docs *c = documents(UNIFORM, 6);
  check_first(c->d, (tn_sampler){.max_rows = 20, .lengths = (const int64_t[]){0, 1, 2, 0, 0, 0}},
              "the batch was filled by a length of 0");
  free_documents(c);
  extra = 0;
  d = tn_dataset_new(&silent, &extra, two, 2, 4, why, sizeof why);
  check_first(d, (tn_sampler){.max_rows = 10, .lengths = (const int64_t[]){3, 4, 5, 6}}, NULL);
  CHECK(!tn_loader_new(d, &(tn_loader_options){.sampler = {.max_rows = 10}}, why, sizeof why));
  CHECK_HAS(why, "the data set does not know the lengths of its items: sampler.lengths may have them");
  tn_dataset_free(d);
}

static const int64_t below_zero[20] = {[4] = -3};

static void test_refused(void) {
  Docs *c = documents(UNIFORM, 20);
  c->lengths[5] = 33;
  static const struct {
    tn_sampler s;
    const char *why;
  } list[] = {{{.max_rows = 32},
               "rows, a sequence of a batch has 32 at most: TN_CUT_LONG cuts such items into pieces, TN_CUT_SKIP "
               "leaves them out"},
              {{.max_rows = -1}, "a limit is -1, 1 to 2^60 are possible"},
              {{.kind = TN_LANES, .max_rows = 99}, "lanes are batch_size items"},
              {{.kind = TN_FIRST_FIT}, "first fit packs batches up to max_rows, max_padded or max_squares"},
              {{.max_squares = 9000, .cut = TN_CUT_FILL}, "have their order, and max_rows of the batch's limits"},
              {{.kind = TN_BUCKETS, .max_rows = 99, .cut = TN_CUT_FILL},
               "have their order, and max_rows of the batch's limits"},
              {{.max_rows = 99, .cut = (tn_cut)9}, "the way to cut items is unknown"},
              {{.max_rows = 99, .lengths = below_zero}, "item 4 has length -3"}};
  for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
    CHECK(!tn_loader_new(c->d, &(tn_loader_options){.sampler = list[k].s}, why, sizeof why));
    CHECK_HAS(why, list[k].why);
  }
  CHECK(!cut(c->rows, 7, (const int64_t[]){3, -1}, 2));
  CHECK_HAS(why, "length 1 is -1");
  CHECK(!cut(c->rows, 7, (const int64_t[]){3, 3}, 2));
  CHECK_HAS(why, "E111: the data set has 7 items, the lengths have 6 in all");
  CHECK(!tn_dataset_ragged(c->d, (const int64_t[]){20}, 1, why, sizeof why));
  CHECK_HAS(why, "field 'x' is variable, a document is made of items of one size");
  // The batches of other lengths are others: a state of theirs is not taken.
  tn_loader *a = loader(c->d, (tn_loader_options){.sampler = {.kind = TN_SHUFFLED, .max_rows = 99}});
  int64_t lengths[20];
  memcpy(lengths, c->lengths, sizeof lengths), lengths[3]++;
  tn_loader *b =
      loader(c->d, (tn_loader_options){.sampler = {.kind = TN_SHUFFLED, .max_rows = 99, .lengths = lengths}});
  CHECK(tn_loader_set_state(b, tn_loader_get_state(a)) == TN_ERR_ARGUMENT);
  tn_loader_free(a), tn_loader_free(b), free_documents(c);
}

static void test_empty(void) {
  static Epoch e;
  int64_t none[8] = {0};
  for (int kind = TN_SEQUENTIAL; kind <= TN_FIRST_FIT; kind++) {
    if (kind == TN_LANES) continue;
    tn_sampler s = {.kind = (tn_sampler_kind)kind, .max_rows = 9, .world = 2};
    tn_dataset *d = cut(none, 0, none, 0);
    tn_loader *l = loader(d, (tn_loader_options){.sampler = s, .workers = 1});
    read_epoch(l, NULL, &e);
    CHECK(tn_loader_count(l) == 0 && e.n == 0 && tn_loader_report(l).rows == 0);
    tn_loader_free(l), tn_dataset_free(d);
    if (kind == TN_CUSTOM) continue;
    Docs *c = calloc(1, sizeof *c);  // empty documents are sequences too
    d = cut(none, 0, none, 8);
    s.world = 0;
    l = loader(d, (tn_loader_options){.batch_size = 3, .sampler = s, .layout = TN_CONCATENATED});
    read_epoch(l, c, &e);
    CHECK(e.n_batches == 3 && sums_of(&e, 0).items == 3);
    tn_loader_free(l), tn_dataset_free(d), free(c);
  }
}

// Documents of items that are read one by one; one of them fails.
static bool get_square(void *ctx, size_t k, tn_item *to) {
  *(int64_t *)to->data[0] = (int64_t)(k * k);
  return k != *(const size_t *)ctx || (snprintf(to->error, to->error_size, "line 8 is missing"), false);
}

static void test_one_by_one(void) {
  static const tn_dataset_type squares = {.get = get_square};
  static const tn_field x = {.name = "x", .dtype = TN_I64};
  size_t bad = 99;
  tn_batch b;
  tn_dataset *items = tn_dataset_new(&squares, &bad, &x, 1, 9, why, sizeof why);
  tn_dataset *d = tn_dataset_ragged(items, (const int64_t[]){4, 0, 5}, 3, why, sizeof why);
  tn_loader *l =
      loader(d, (tn_loader_options){.layout = TN_CONCATENATED, .sampler = {.max_rows = 3, .cut = TN_CUT_FILL}});
  tn_dataset_free(items), tn_dataset_free(d);
  for (int64_t at = 0; at < 9; at += 3) {
    CHECK(tn_loader_next(l, &b) == TN_OK && tn_batch_array(b, "x").dims[0] == 3);
    for (int64_t t = 0; t < 3; t++) CHECK(((int64_t *)tn_batch_array(b, "x").data)[t] == (at + t) * (at + t));
  }
  CHECK(tn_loader_next(l, &b) == TN_OK && !b.number);
  bad = 4;
  CHECK(tn_loader_next(l, &b) == TN_OK && tn_loader_next(l, &b) == TN_ERR_VALUE);
  CHECK_HAS(tn_loader_error(l), "batch 1, item 2: line 8 is missing");
  CHECK(tn_loader_next(l, &b) == TN_OK && b.number);
  tn_loader_free(l);
}

// ---- nothing is allocated in an epoch; every allocation may fail
static void test_memory(void) {
  static Epoch e;
  Docs *c = documents(LOG_NORMAL, DOCS);
  tn_loader_options o = {.layout = TN_CONCATENATED};
  for (int kind = TN_BUCKETS; kind <= TN_FIRST_FIT; kind += TN_FIRST_FIT - TN_BUCKETS) {
    o.sampler = (tn_sampler){.kind = (tn_sampler_kind)kind, .max_rows = 128};
    tn_loader *l = loader(c->d, o);
    uint64_t before = rt_malloc_count();
    read_epoch(l, c, &e), read_epoch(l, c, &e), tn_loader_report(l);
    CHECK(rt_malloc_count() == before);
    tn_loader_free(l);
    uint64_t n = 0;
    for (l = NULL; !l && n < 50;) {
      rt_malloc_fail_at(++n);
      l = tn_loader_new(c->d, &o, why, sizeof why);
      if (!l) CHECK_HAS(why, "out of memory");
    }
    rt_malloc_fail_at(0);
    CHECK(n > 6 && l);
    tn_loader_free(l);
  }
  free_documents(c);
}

int main(void) {
  test_properties();
  test_ranks();
  test_shards();
  test_first_fit();
  test_fill();
  test_no_length_is_last();
  test_constant_total();
  test_layouts();
  test_collate();
  test_lengths_that_lie();
  test_refused();
  test_empty();
  test_one_by_one();
  test_memory();
  return check_report();
}
