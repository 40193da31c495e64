#include "runtime/data/row_batches.h"
#include "runtime/rng.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

// What a batch has so far.
typedef struct {
  int64_t items, rows, squares, longest;
} Fill;

// First fit: bin k of a window may be any of its batches, as long as there are pieces. `most` is a tree over the bins,
// leaf k at n_leaves + k, and has the largest piece that one of the bins below a node has room for.
struct RtPacking {
  size_t n_leaves;
  int64_t *most;
  Fill *bins;
  size_t *bin, *place;  // by piece: its bin; by bin: where its next piece goes
  RtItemPart *pieces;   // a copy
};

// ---- limits
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t square_root(int64_t x) {
  int64_t r = (int64_t)sqrt((double)x);
  while (r * r > x) r--;
  while ((r + 1) * (r + 1) <= x) r++;
  return r;
}

// The largest piece that the batch takes; -1: not even an empty one.
static int64_t room(const RtSampler *s, const Fill *f) {
  int64_t most = INT64_MAX;
  if ((size_t)f->items >= s->batch_size) return -1;
  if (s->max_length) most = s->max_length;
  if (s->max_rows) most = smaller(most, s->max_rows - f->rows);
  if (s->max_squares) most = smaller(most, square_root(s->max_squares - f->squares));
  if (!s->max_padded) return most;
  int64_t each = s->max_padded / (f->items + 1);
  return each < f->longest ? -1 : smaller(most, each);
}

int64_t rt_length_limit(const RtSampler *s) { return room(s, &(Fill){0}); }

static void put(Fill *f, int64_t n) {
  f->items++, f->rows += n;
  if (n > f->longest) f->longest = n;
  if (n > INT32_MAX || __builtin_add_overflow(f->squares, n * n, &f->squares)) f->squares = INT64_MAX;
}

int64_t rt_row_limit(const RtSampler *s) {
  int64_t most = s->max_rows ? s->max_rows : INT64_MAX;
  if (s->max_padded) most = smaller(most, s->max_padded);
  return s->max_squares ? smaller(most, s->max_squares) : most;
}

int64_t rt_padded_limit(const RtSampler *s) { return s->max_padded ? s->max_padded : INT64_MAX; }

// ---- from items to pieces
static size_t n_items(const RtRowBatches *b) {
  return b->sampler->kind == RT_CUSTOM ? b->sampler->n_custom : b->data->count;
}

static int64_t length_at(const RtRowBatches *b, size_t item) { return rt_sampler_length(b->sampler, b->data, item); }

static void add_piece(RtRowBatches *b, RtItemPart p) { b->pieces[b->n_pieces++] = p; }

static void add_cut(RtRowBatches *b, size_t item, int64_t of, int64_t most) {
  for (int64_t at = 0; at < of; at += most) add_piece(b, (RtItemPart){item, at, smaller(most, of - at), of});
}

// Where a batch ends, the item does too, and goes on in the next one.
static void add_to_fill(RtRowBatches *b, size_t item, int64_t of, Fill *f) {
  int64_t at = 0;
  do {
    int64_t has = room(b->sampler, f);
    if (has < 0 || (has == 0 && of > at)) *f = (Fill){0}, has = rt_length_limit(b->sampler);
    int64_t n = smaller(has, of - at);
    add_piece(b, (RtItemPart){item, at, n, of});
    put(f, n), at += n;
  } while (at < of);
}

static void add_item(RtRowBatches *b, size_t item, Fill *f) {
  int64_t of = length_at(b, item), most = rt_length_limit(b->sampler);
  if (b->sampler->cut == RT_CUT_FILL) add_to_fill(b, item, of, f);
  else if (of <= most) add_piece(b, (RtItemPart){item, 0, of, of});
  else if (b->sampler->cut == RT_CUT_LONG) add_cut(b, item, of, most);
  else b->n_skipped++;
}

// ---- batches of pieces begin .. end - 1; gives the first piece of the last batch, which more pieces may still join
static void close_batch(RtRowBatches *b, size_t begin, size_t end) {
  b->batches[b->n_batches++] = (RtRowBatch){begin, end};
}

static size_t cut_in_order(RtRowBatches *b, size_t begin, size_t end) {
  Fill f = {0};
  for (size_t k = begin; k < end; k++) {
    if (b->pieces[k].n > room(b->sampler, &f)) close_batch(b, begin, k), begin = k, f = (Fill){0};
    put(&f, b->pieces[k].n);
  }
  return begin;
}

// Stable: pieces of one length stay in the order of the epoch.
static void sort_by_length(RtItemPart *p, size_t n, RtItemPart *copy, bool longest_first) {
  for (size_t width = 1; width < n; width *= 2) {
    memcpy(copy, p, n * sizeof *p);
    for (size_t begin = 0; begin < n; begin += 2 * width) {
      size_t mid = begin + width < n ? begin + width : n, end = mid + width < n ? mid + width : n;
      for (size_t i = begin, j = mid, k = begin; k < end; k++) {
        bool first = i < mid && (j == end || (longest_first ? copy[i].n >= copy[j].n : copy[i].n <= copy[j].n));
        p[k] = first ? copy[i++] : copy[j++];
      }
    }
  }
}

static size_t first_with_room(const RtPacking *w, int64_t n) {
  size_t at = 1;
  while (at < w->n_leaves) at = 2 * at + (w->most[2 * at] < n);
  return at - w->n_leaves;
}

static void set_room(RtPacking *w, size_t bin, int64_t most) {
  size_t at = w->n_leaves + bin;
  for (w->most[at] = most; at /= 2;) {
    const int64_t *child = &w->most[2 * at];
    w->most[at] = child[0] > child[1] ? child[0] : child[1];
  }
}

static void empty_bins(const RtSampler *s, RtPacking *w, size_t n) {
  for (w->n_leaves = 1; w->n_leaves < n;) w->n_leaves *= 2;
  for (size_t k = 0; k < 2 * w->n_leaves; k++) w->most[k] = rt_length_limit(s);
  memset(w->bins, 0, n * sizeof *w->bins);
}

static size_t pack_first_fit(RtRowBatches *b, size_t begin, size_t end) {
  RtPacking *w = b->packing;
  RtItemPart *p = b->pieces + begin;
  size_t n = end - begin, n_bins = 0, at = 0;
  sort_by_length(p, n, w->pieces, true);
  empty_bins(b->sampler, w, n);
  for (size_t k = 0; k < n; k++) {
    size_t bin = w->bin[k] = first_with_room(w, p[k].n);
    put(&w->bins[bin], p[k].n);
    set_room(w, bin, room(b->sampler, &w->bins[bin]));
    if (bin >= n_bins) n_bins = bin + 1;
  }
  for (size_t k = 0; k < n_bins; k++) {
    w->place[k] = at, at += (size_t)w->bins[k].items;
    if (k + 1 < n_bins) close_batch(b, begin + w->place[k], begin + at);
  }
  size_t last = n_bins ? begin + w->place[n_bins - 1] : end;
  memcpy(w->pieces, p, n * sizeof *p);
  for (size_t k = 0; k < n; k++) p[w->place[w->bin[k]]++] = w->pieces[k];
  return last;
}

// ---- windows
static bool is_over(int64_t n, uint64_t limit, uint32_t pool) {
  return limit && (uint64_t)n / pool >= limit && (uint64_t)n > limit;
}

// More than `pool` batches take: two of them at least, so that each window ends one.
static bool is_window(const RtSampler *s, const Fill *f) {
  uint32_t pool = rt_sampler_pool(s);
  return is_over(f->items, s->batch_size, pool) || is_over(f->rows, (uint64_t)s->max_rows, pool) ||
         is_over(f->rows, (uint64_t)s->max_padded, pool) || is_over(f->squares, (uint64_t)s->max_squares, pool);
}

static size_t pack_window(RtRowBatches *b, size_t begin, bool longest_first) {
  if (b->sampler->kind == RT_FIRST_FIT) return pack_first_fit(b, begin, b->n_pieces);
  sort_by_length(b->pieces + begin, b->n_pieces - begin, b->packing->pieces, longest_first);
  return cut_in_order(b, begin, b->n_pieces);
}

// The batch that a window leaves unfinished is the beginning of the next one. Buckets are sorted there and back: what is
// left of one that ends with its shortest is taken first where the next begins with them.
static size_t pack_windows(RtRowBatches *b) {
  size_t open = 0, n = n_items(b);
  bool longest_first = true;
  Fill window = {0};
  for (size_t k = 0; k < n; k++) {
    size_t before = b->n_pieces;
    add_item(b, b->order[k], NULL);
    for (size_t i = before; i < b->n_pieces; i++) put(&window, b->pieces[i].n);
    if (!is_window(b->sampler, &window)) continue;
    open = pack_window(b, open, longest_first);
    longest_first = !longest_first, window = (Fill){0};
    for (size_t i = open; i < b->n_pieces; i++) put(&window, b->pieces[i].n);
  }
  return open < b->n_pieces ? pack_window(b, open, longest_first) : open;
}

static size_t fill_in_order(RtRowBatches *b) {
  Fill f = {0};
  for (size_t k = 0, n = n_items(b); k < n; k++)
    add_item(b,
             b->sampler->kind == RT_SHUFFLED ? b->order[k]
             : b->sampler->kind == RT_CUSTOM ? b->sampler->custom[k]
                                             : k,
             &f);
  return cut_in_order(b, 0, b->n_pieces);
}

// ---- the whole
static bool is_short(const RtRowBatches *b, size_t begin) {
  Fill f = {0};
  for (size_t k = begin; k < b->n_pieces; k++) put(&f, b->pieces[k].n);
  return room(b->sampler, &f) > 0;
}

static void shuffle_batches(RtRowBatches *b, size_t n, uint64_t seed) {
  size_t *from = b->order;
  rt_shuffle(from, n, seed);
  for (size_t k = 0; k < n; k++) {  // cycle by cycle
    RtRowBatch first = b->batches[k];
    size_t at = k, next;
    for (; (next = from[at]) != k; at = next) b->batches[at] = b->batches[next], from[at] = at;
    b->batches[at] = first, from[at] = at;
  }
}

void rt_row_batches_plan(RtRowBatches *b, uint64_t epoch) {
  const RtSampler *s = b->sampler;
  bool has_windows = b->packing != NULL;
  if (b->is_planned && b->seed == s->seed && b->epoch == epoch) return;
  uint64_t seed = rt_sampler_seed(s, epoch);
  b->is_planned = true, b->seed = s->seed, b->epoch = epoch;
  b->n_pieces = b->n_batches = b->n_skipped = 0;
  if (has_windows || s->kind == RT_SHUFFLED) rt_shuffle(b->order, n_items(b), seed);
  size_t last = has_windows ? pack_windows(b) : fill_in_order(b), n_full = b->n_batches;
  if (last < b->n_pieces) {
    bool tail = is_short(b, last);
    if (!tail || !s->drop_last) close_batch(b, last, b->n_pieces);
    n_full += !tail;
  }
  if (has_windows) shuffle_batches(b, n_full, ~seed);
}

size_t rt_row_batches_count(const RtRowBatches *b) {
  uint32_t world = b->sampler->world;
  return b->n_batches / world + (!b->sampler->drop_tail && b->n_batches % world != 0);
}

const RtItemPart *rt_row_batches_at(const RtRowBatches *b, size_t k, size_t *n) {
  const RtRowBatch *batch = &b->batches[(k * b->sampler->world + b->sampler->rank) % b->n_batches];
  *n = batch->end - batch->begin;
  return b->pieces + batch->begin;
}

// ---- memory
// Pieces of an epoch, at most, and of its longest item; every length is looked at.
static bool count_pieces(RtRowBatches *b, size_t *of_longest, char *error, size_t error_size) {
  const RtSampler *s = b->sampler;
  int64_t most = rt_length_limit(s), total = 0;
  for (size_t k = 0, n = n_items(b); k < n; k++) {
    size_t item = s->kind == RT_CUSTOM ? s->custom[k] : k;
    int64_t of = length_at(b, item);
    if (of < 0) return rt_fail(error, error_size, "item %zu has length %" PRId64, item, of);
    if (of > most && s->cut == RT_CUT_REFUSE)
      return rt_fail(error, error_size,
                     "item %zu has %" PRId64 " rows, a sequence of a batch has %" PRId64
                     " at most: TN_CUT_LONG cuts such items into pieces, TN_CUT_SKIP leaves them out",
                     item, of, most);
    if (__builtin_add_overflow(total, of, &total) || total > INT64_C(1) << 60)
      return rt_fail(error, error_size, "the items have more than 2^60 rows");
    size_t pieces = of > most && s->cut >= RT_CUT_LONG ? (size_t)(of / most) + (of % most != 0) : 1;
    b->cap_pieces += pieces;
    if (pieces > *of_longest) *of_longest = pieces;
  }
  if (s->cut == RT_CUT_FILL) b->cap_pieces += (size_t)(total / s->max_rows) + 1;
  return true;
}

static void free_packing(RtPacking *w) {
  if (!w) return;
  rt_free(w->most), rt_free(w->bins), rt_free(w->bin), rt_free(w->place), rt_free(w->pieces), rt_free(w);
}

static RtPacking *new_packing(size_t n, bool first_fit) {
  RtPacking *w = rt_malloc(sizeof *w);
  if (!w) return NULL;
  *w = (RtPacking){.pieces = rt_malloc(n * sizeof *w->pieces)};
  if (first_fit) {
    size_t leaves = 1;
    while (leaves < n) leaves *= 2;
    w->most = rt_malloc(2 * leaves * sizeof *w->most), w->bins = rt_malloc(n * sizeof *w->bins);
    w->bin = rt_malloc(n * sizeof *w->bin), w->place = rt_malloc(n * sizeof *w->place);
  }
  if (w->pieces && (!first_fit || (w->most && w->bins && w->bin && w->place))) return w;
  free_packing(w);
  return NULL;
}

static bool has_windows(const RtSampler *s) { return s->kind == RT_BUCKETS || s->kind == RT_FIRST_FIT; }

// Pieces of the largest window: `pool` batches by their items, and what the last item of it had too many.
static size_t window_size(const RtRowBatches *b, size_t of_longest) {
  size_t n;
  if (__builtin_mul_overflow(b->sampler->batch_size, (size_t)rt_sampler_pool(b->sampler) + 1, &n)) return b->cap_pieces;
  if (__builtin_add_overflow(n, of_longest, &n) || n > b->cap_pieces) return b->cap_pieces;
  return n;
}

static bool allocate(RtRowBatches *b, size_t of_longest) {
  const RtSampler *s = b->sampler;
  size_t n = b->cap_pieces + 1, n_order = n_items(b) > n ? n_items(b) : n;
  bool is_ordered = has_windows(s) || s->kind == RT_SHUFFLED;
  if (n > SIZE_MAX / 64) return false;
  b->pieces = rt_malloc(n * sizeof *b->pieces);
  b->batches = rt_malloc(n * sizeof *b->batches);
  if (is_ordered) b->order = rt_malloc(n_order * sizeof *b->order);
  if (has_windows(s)) b->packing = new_packing(window_size(b, of_longest) + 1, s->kind == RT_FIRST_FIT);
  return b->pieces && b->batches && (!is_ordered || b->order) && (!has_windows(s) || b->packing);
}

bool rt_row_batches_init(RtRowBatches *b, const RtSampler *s, const RtDataset *d, char *error, size_t error_size) {
  size_t of_longest = 0;
  *b = (RtRowBatches){.sampler = s, .data = d};
  if (!count_pieces(b, &of_longest, error, error_size)) return false;
  return allocate(b, of_longest) ||
         rt_fail(error, error_size, "out of memory: the batches of %zu pieces of items", b->cap_pieces);
}

void rt_row_batches_free(RtRowBatches *b) {
  rt_free(b->pieces), rt_free(b->batches), rt_free(b->order);
  free_packing(b->packing);
}

uint64_t rt_row_batches_hash(const RtRowBatches *b) {
  const RtSampler *s = b->sampler;
  uint64_t facts[] = {(uint64_t)s->max_length, (uint64_t)s->max_rows, (uint64_t)s->max_padded, (uint64_t)s->max_squares,
                      (uint64_t)s->cut};
  uint64_t hash = rt_hash(facts, sizeof facts, 0);
  for (size_t k = 0; k < b->data->count; k++) {
    int64_t length = length_at(b, k);
    hash = rt_hash(&length, sizeof length, hash);
  }
  return hash;
}
