// Pass plan_memory: static memory planning, an offset for every buffer. Arena buffers joined by in-place reuse form one
// block with the union of their live ranges. Placement is offline dynamic storage allocation: the best of a portfolio
// of one-pass heuristics, each an order of blocks and a decoder:
//
//   lowest      takes the block whose lowest feasible offset is smallest (ties by order), raises those it overlaps
//   first fit   takes blocks in order, each at the lowest gap among the placed blocks that are live with it
//   scan        first fit in order of start over the blocks live then: cheap, for plans with very many blocks
//
// The update of a distributed function finds sums over shards, and room beside them, where its shards left
// them: those blocks have fixed offsets and are placed first.
//
// Lower bound: the maximum over kernels of the sum of live bytes. All limits are counts and all orders total, so that
// the plan is the same everywhere.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "runtime/format.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  int64_t size, offset;
  int32_t first, last;  // inclusive
  uint32_t buf;         // root of the reuse chain
  bool is_placed;       // its offset is given
  int64_t key;
} Block;

static const int64_t MAX_BYTES = INT64_C(1) << 42;

static int64_t align_up(int64_t n) { return (n + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN; }

static uint32_t root_buf(const Fn *f, uint32_t b) {
  while (f->bufs[b].reuses) b = f->bufs[b].reuses;
  return b;
}

// In an update: the buffers of its shards' function with the same exchange.
static void find_twins(Fn *f, Val exchange) {
  const Fn *shard = f->shard;
  int64_t bucket = ir_attr_int(f, exchange, KEY_bucket, -1);
  for (Val v = {1}; v.i < shard->n_ins && shard->bufs; v.i++) {
    if (ir_ins(shard, v)->op != OP_exchange_begin || ir_attr_int(shard, v, KEY_bucket, -1) != bucket) continue;
    for (uint32_t k = 0; k < 2; k++) f->bufs[f->buf_of[exchange.i + k]].twin = shard->buf_of[v.i + k];
  }
}

static int64_t twin_offset(const Fn *f, uint32_t b) { return f->shard->bufs[f->bufs[b].twin].offset; }

static uint32_t make_blocks(const Fn *f, Block *blocks) {
  uint32_t n = 0;
  uint32_t *block_of = rt_alloc(f->prog->mem, f->n_bufs * sizeof *block_of);
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    const Buf *buf = &f->bufs[b];
    if (buf->seg != SEG_ARENA || buf->last < 0) continue;
    uint32_t root = root_buf(f, b);
    if (!block_of[root]) {
      blocks[n] = (Block){.first = INT32_MAX, .last = -1, .buf = root, .is_placed = f->bufs[root].twin};
      if (f->bufs[root].twin) blocks[n].offset = twin_offset(f, root);
      block_of[root] = ++n;
    }
    Block *k = &blocks[block_of[root] - 1];
    if (align_up(buf->bytes) > k->size) k->size = align_up(buf->bytes);
    if (buf->first < k->first) k->first = buf->first;
    if (buf->last > k->last) k->last = buf->last;
  }
  return n;
}

static bool overlap(const Block *a, const Block *b) { return a->first <= b->last && b->first <= a->last; }

static int64_t live_bound(const Fn *f, const Block *blocks, uint32_t n) {
  int64_t *delta = rt_alloc(f->prog->mem, (f->n_kernels + 2) * sizeof *delta), sum = 0, most = 0;
  for (uint32_t k = 0; k < n; k++)
    delta[blocks[k].first] += blocks[k].size, delta[blocks[k].last + 1] -= blocks[k].size;
  for (uint32_t t = 0; t <= f->n_kernels; t++) {
    sum += delta[t];
    if (sum > most) most = sum;
  }
  return most;
}

// ---- orders
typedef enum { BY_LIFE, BY_AREA, BY_SIZE, BY_START, N_ORDERS } Order;
static int by_key_down(const void *a, const void *b) {
  const Block *x = a, *y = b;
  if (x->is_placed != y->is_placed) return x->is_placed ? -1 : 1;
  if (x->key != y->key) return x->key > y->key ? -1 : 1;
  return x->buf < y->buf ? -1 : x->buf > y->buf;
}

static void sort_blocks(Block *blocks, uint32_t n, Order order) {
  for (uint32_t k = 0; k < n; k++) {
    Block *b = &blocks[k];
    int64_t life = (int64_t)b->last - b->first + 1;
    b->key = order == BY_LIFE    ? life
             : order == BY_SIZE  ? b->size
             : order == BY_START ? -(int64_t)b->first
                                 : b->size / TN_ALIGN * life;
  }
  qsort(blocks, n, sizeof *blocks, by_key_down);
}

// ---- decoders: set offsets, return the peak. Blocks with a given one come first.
static int64_t top_of(const Block *b, uint32_t n) {
  int64_t top = 0;
  for (uint32_t k = 0; k < n && b[k].is_placed; k++)
    if (b[k].offset + b[k].size > top) top = b[k].offset + b[k].size;
  return top;
}

// Raises a block above a block with a fixed offset that it overlaps; false: it overlaps none.
static bool raise(Block *b, const Block *placed) {
  for (const Block *p = placed; p->is_placed; p++) {
    bool meets = overlap(p, b) && p->offset < b->offset + b->size && b->offset < p->offset + p->size;
    if (!meets) continue;
    b->offset = p->offset + p->size;
    return true;
  }
  return false;
}

static int64_t decode_lowest(Block *b, uint32_t n, uint32_t *todo) {
  int64_t peak = top_of(b, n);
  uint32_t left = 0;
  for (uint32_t k = 0; k < n; k++) {
    if (b[k].is_placed) continue;
    todo[left++] = k, b[k].offset = 0;
  }
  while (left) {
    uint32_t best = 0;
    for (uint32_t k = 1; k < left; k++)
      if (b[todo[k]].offset < b[todo[best]].offset) best = k;
    Block *placed = &b[todo[best]];
    if (raise(placed, b)) continue;
    memmove(todo + best, todo + best + 1, (--left - best) * sizeof *todo);
    int64_t top = placed->offset + placed->size;
    if (top > peak) peak = top;
    for (uint32_t k = 0; k < left; k++)
      if (overlap(placed, &b[todo[k]]) && b[todo[k]].offset < top) b[todo[k]].offset = top;
  }
  return peak;
}

static int by_offset(const void *a, const void *b) {
  const Block *x = *(Block *const *)a, *y = *(Block *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->buf < y->buf ? -1 : x->buf > y->buf;
}

static int64_t decode_first_fit(Block *b, uint32_t n, Block **placed) {
  int64_t peak = top_of(b, n);
  for (uint32_t k = 0; k < n; k++) {
    if (b[k].is_placed) continue;
    uint32_t m = 0;
    for (uint32_t j = 0; j < k; j++)
      if (overlap(&b[k], &b[j])) placed[m++] = &b[j];
    qsort(placed, m, sizeof *placed, by_offset);
    int64_t at = 0;
    for (uint32_t j = 0; j < m && placed[j]->offset < at + b[k].size; j++)
      if (placed[j]->offset + placed[j]->size > at) at = placed[j]->offset + placed[j]->size;
    b[k].offset = at;
    if (at + b[k].size > peak) peak = at + b[k].size;
  }
  return peak;
}

// Blocks in order of start; `placed` holds those still live, by offset. Given offsets are those of what is live at the start.
static int64_t decode_scan(Block *b, uint32_t n, Block **placed) {
  int64_t peak = 0;
  uint32_t live = 0;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t m = 0;
    for (uint32_t j = 0; j < live; j++)
      if (placed[j]->last >= b[k].first) placed[m++] = placed[j];
    int64_t at = b[k].is_placed ? b[k].offset : 0;
    uint32_t before = 0;
    while (!b[k].is_placed && before < m && placed[before]->offset < at + b[k].size) {
      if (placed[before]->offset + placed[before]->size > at) at = placed[before]->offset + placed[before]->size;
      before++;
    }
    for (before = m; before > 0 && placed[before - 1]->offset > at; before--) placed[before] = placed[before - 1];
    placed[before] = &b[k];
    live = m + 1;
    b[k].offset = at;
    if (at + b[k].size > peak) peak = at + b[k].size;
  }
  return peak;
}

enum { LOWEST_LIMIT = 8000, FIRST_FIT_LIMIT = 2000 };  // blocks: lowest is O(n^2), first fit O(n^2 log n)

typedef struct {
  Block *blocks;
  uint32_t n;
  int64_t best;
  int64_t *offset;  // by root buffer: of the best placement so far
} Portfolio;

static void keep_best(Portfolio *f, int64_t peak) {
  if (peak >= f->best) return;
  f->best = peak;
  for (uint32_t k = 0; k < f->n; k++) f->offset[f->blocks[k].buf] = f->blocks[k].offset;
}

static int64_t portfolio(const Fn *f, Block *blocks, uint32_t n, int64_t bound) {
  RtArena *mem = f->prog->mem;
  Portfolio best = {blocks, n, INT64_MAX, rt_alloc(mem, f->n_bufs * sizeof(int64_t))};
  uint32_t *todo = rt_alloc(mem, (n + 1) * sizeof *todo);
  Block **placed = rt_alloc(mem, (n + 1) * sizeof *placed);
  sort_blocks(blocks, n, BY_START);
  keep_best(&best, decode_scan(blocks, n, placed));
  for (Order order = 0; order < N_ORDERS && n <= LOWEST_LIMIT && best.best > bound; order++) {
    sort_blocks(blocks, n, order);
    keep_best(&best, decode_lowest(blocks, n, todo));
  }
  for (Order order = 0; order < N_ORDERS && n <= FIRST_FIT_LIMIT && best.best > bound; order++) {
    sort_blocks(blocks, n, order);
    keep_best(&best, decode_first_fit(blocks, n, placed));
  }
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].seg == SEG_ARENA) f->bufs[b].offset = best.offset[root_buf(f, b)];
  return n ? best.best : 0;
}

// Guarded arena: blocks in pseudo-random order, each between guards.
static int64_t place_guarded(const Fn *f, Block *blocks, uint32_t n) {
  RtArena *mem = f->prog->mem;
  int64_t *offset = rt_alloc(mem, f->n_bufs * sizeof *offset);
  for (uint32_t k = 0; k < n; k++) {
    Block *b = &blocks[k];
    b->size += ir_guard_before(f, b->buf) + ir_guard_behind(f, b->buf);
    if (b->is_placed) b->offset -= ir_guard_before(f, b->buf);
    b->key = (int64_t)(rt_hash(&b->buf, sizeof b->buf, 23) >> 1);
  }
  qsort(blocks, n, sizeof *blocks, by_key_down);
  int64_t peak = n <= FIRST_FIT_LIMIT ? decode_first_fit(blocks, n, rt_alloc(mem, (n + 1) * sizeof(Block *))) : 0;
  if (n > FIRST_FIT_LIMIT) peak = top_of(blocks, n);
  for (uint32_t k = 0; k < n && n > FIRST_FIT_LIMIT; k++)
    if (!blocks[k].is_placed) blocks[k].offset = peak, peak += blocks[k].size;
  for (uint32_t k = 0; k < n; k++) offset[blocks[k].buf] = blocks[k].offset + ir_guard_before(f, blocks[k].buf);
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].seg == SEG_ARENA) f->bufs[b].offset = offset[root_buf(f, b)];
  return peak;
}

static bool report_huge(Fn *f, const Buf *b) {
  Loc at = f->ins[b->head.i].loc;
  char size[RT_BYTES_SIZE], limit[RT_BYTES_SIZE];
  rt_diag(&f->prog->diags, RT_ERROR, E_NOMEM, ir_loc_file(f->prog, at), ir_loc_line(f->prog, at),
          "%s takes %s; the limit for a buffer is %s", ir_size_text(f, b->head), rt_bytes_text(size, b->bytes),
          rt_bytes_text(limit, MAX_BYTES));
  rt_diag(&f->prog->diags, RT_HINT, 0, NULL, 0, "memory is laid out by the bounds of dims: lower ones need less");
  return false;
}

bool ir_pass_plan_memory(Fn *f) {
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].bytes > MAX_BYTES) return report_huge(f, &f->bufs[b]);
  for (uint32_t i = 1; f->shard && i < f->n_ins; i++)
    if (f->ins[i].op == OP_exchange_end) find_twins(f, (Val){i});
  Block *blocks = rt_alloc(f->prog->mem, (f->n_bufs + 1) * sizeof *blocks);  // one more: the end of the fixed blocks
  uint32_t n = make_blocks(f, blocks);
  f->stats.lower_bound = live_bound(f, blocks, n);
  f->stats.peak_bytes =
      f->prog->guarded_arena ? place_guarded(f, blocks, n) : portfolio(f, blocks, n, f->stats.lower_bound);
  return true;
}

// ---- segments shared by all functions of a program
static void place_params(Prog *p) {
  int64_t at = 0;
  for (uint32_t k = 0; k < p->n_params; k++) {
    p->params[k].offset = at;
    at += align_up(ir_type_bytes(p, p->params[k].dtype, p->params[k].shape));
  }
  p->param_bytes = at;
}

typedef struct {
  Str bits;
  uint8_t dtype;
  int64_t offset;
} TablePlace;

// Equal tables, of several functions too, lie at one place; UINT32_MAX: buf is none, or is the first.
static uint32_t find_table(const Fn *f, const Buf *buf, const TablePlace *tables, uint32_t n) {
  const Attr *bits = ir_ins(f, buf->head)->op == OP_table ? ir_attr(f, buf->head, KEY_bits) : NULL;
  for (uint32_t k = 0; bits && k < n; k++)
    if (tables[k].bits.i == bits->u.s.i && tables[k].dtype == ir_ins(f, buf->head)->dtype) return k;
  return UINT32_MAX;
}

static void place_constants(Prog *p) {
  TablePlace *tables = NULL;
  uint32_t n = 0, cap = 0;
  p->const_bytes = 0;
  for (uint32_t k = 0; k < p->n_fns; k++)
    for (uint32_t b = 1; b < p->fns[k]->n_bufs; b++) {
      const Fn *f = p->fns[k];
      Buf *buf = &f->bufs[b];
      if (buf->seg != SEG_CONST) continue;
      uint32_t same = find_table(f, buf, tables, n);
      buf->offset = same == UINT32_MAX ? p->const_bytes : tables[same].offset;
      if (same != UINT32_MAX) continue;
      p->const_bytes += align_up(buf->bytes);
      if (ir_ins(f, buf->head)->op == OP_table)
        *RT_PUSH(p->mem, tables, n, cap) =
            (TablePlace){ir_attr(f, buf->head, KEY_bits)->u.s, ir_ins(f, buf->head)->dtype, buf->offset};
    }
}

static int64_t param_bytes(const Prog *p, uint32_t k) {
  return ir_type_bytes(p, p->params[k].dtype, p->params[k].shape);
}

// The size that all need is stored where the largest is made.
static bool report_params(Prog *p) {
  char all[RT_BYTES_SIZE], limit[RT_BYTES_SIZE], one[RT_BYTES_SIZE];
  uint32_t largest = 0;
  for (uint32_t k = 0; k < p->n_params; k++)
    if (param_bytes(p, k) > param_bytes(p, largest)) largest = k;
  const Param *q = &p->params[largest];
  RtText type = {.mem = p->mem};
  ir_type_text(p, q->dtype, q->shape, &type);
  rt_diag(&p->diags, RT_ERROR, E_NOMEM, ir_loc_file(p, q->loc), ir_loc_line(p, q->loc),
          "parameters need %s; the limit is %s: the largest is '%s', %s, %s", rt_bytes_text(all, p->param_bytes),
          rt_bytes_text(limit, MAX_BYTES), ir_text(p, q->path), type.text, rt_bytes_text(one, param_bytes(p, largest)));
  return false;
}

bool ir_plan_program_memory(Prog *p) {
  place_params(p);
  place_constants(p);
  for (uint32_t k = 0; k < p->n_fns; k++) {
    Fn *f = p->fns[k];
    for (uint32_t b = 1; b < f->n_bufs; b++) {
      Buf *buf = &f->bufs[b];
      if (buf->seg == SEG_PARAM) buf->offset = p->params[ir_attr_int(f, buf->head, KEY_param, 0)].offset;
    }
  }
  if (p->param_bytes <= MAX_BYTES) return ir_check_segments(p);
  return report_params(p);
}

// Longest first, ties in user order.
static void sort_lengths(const int32_t *len, int32_t n, int32_t *sorted) {
  for (int32_t k = 0; k < n; k++) {
    int32_t at = k;
    while (at > 0 && len[sorted[at - 1]] < len[k]) sorted[at] = sorted[at - 1], at--;
    sorted[at] = k;
  }
}

static void fill_layout(const Fn *f, Val v, int32_t *w) {
  const Prog *p = f->prog;
  const Attr *lengths = ir_attr(f, v, KEY_lengths);  // NULL: a dense layout
  Shape shape = f->ins[v.i].shape;
  int64_t T = ir_dim_bound(p, ir_dim_at(p, shape, 1)), B = ir_dim_bound(p, ir_dim_at(p, shape, 0));
  int32_t n = (int32_t)B;
  int32_t *sizes = w + TN_LAYOUT_BATCH_SIZES(T, B), *offsets = w + TN_LAYOUT_OFFSETS(T, B),
          *len = w + TN_LAYOUT_LENGTHS(T, B);
  int32_t *sorted = w + TN_LAYOUT_SORTED(T, B), *unsorted = w + TN_LAYOUT_UNSORTED(T, B);
  for (int32_t k = 0; k < n; k++) {
    len[k] = (int32_t)(lengths ? ir_list_at(p, lengths->u.list, (uint32_t)k) : T);
    for (int32_t t = 0; t < len[k]; t++) sizes[t]++;
  }
  sort_lengths(len, n, sorted);
  w[TN_LAYOUT_IDENTITY] = 1;
  for (int32_t k = 0; k < n; k++) {
    unsorted[sorted[k]] = k;
    w[TN_LAYOUT_IDENTITY] &= sorted[k] == k;
  }
  for (int64_t t = 0; t < T; t++) offsets[t + 1] = offsets[t] + sizes[t];
  w[TN_LAYOUT_STEPS] = n ? len[sorted[0]] : 0;
  w[TN_LAYOUT_ROWS] = offsets[T];
  w[TN_LAYOUT_SEQS] = n;
}

static void fill_constant(const Fn *f, Val v, unsigned char *at) {
  if (ir_ins(f, v)->op == OP_table) ir_fill_table(f, v, at);
  else fill_layout(f, v, (int32_t *)(void *)at);
}

void ir_fill_const(const Prog *p, unsigned char *pool) {
  memset(pool, 0, (size_t)p->const_bytes);
  for (uint32_t k = 0; k < p->n_fns; k++)
    for (uint32_t b = 1; b < p->fns[k]->n_bufs; b++) {
      const Buf *buf = &p->fns[k]->bufs[b];
      if (buf->seg == SEG_CONST) fill_constant(p->fns[k], buf->head, pool + buf->offset);
    }
}
