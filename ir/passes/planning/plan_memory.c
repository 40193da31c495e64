// Pass plan_memory: static memory planning, an offset for every buffer. Arena buffers joined by in-place reuse form one
// block with the union of their live ranges; the room placement gives offsets to blocks. Lower bound: the maximum over
// kernels of the sum of live bytes.
//
// The update of a distributed function has sums over shards, and room beside them, where what its shards compute left them:
// the offsets of those blocks are given.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/placement/placement.h"
#include "ir/text/text.h"
#include "runtime/format.h"
#include <string.h>

static const int64_t MAX_BYTES = INT64_C(1) << 42;
enum { SEARCH_UNITS = 2000, SEARCH_UNITS_OF_ALL = 500000 };  // by block, some 10 ms; fewer where blocks are many

static uint32_t root_buf(const Fn *f, uint32_t b) {
  while (f->bufs[b].reuses) b = f->bufs[b].reuses;
  return b;
}

// In an update: the buffers of what its shards compute, by the exchange that both have.
static void find_twins(Fn *f, Val exchange) {
  const Fn *shard = f->shard;
  int64_t bucket = ir_attr_int(f, exchange, KEY_bucket, -1);
  for (Val v = {1}; v.i < shard->n_ins && shard->bufs; v.i++) {
    if (ir_ins(shard, v)->op != OP_exchange_begin || ir_attr_int(shard, v, KEY_bucket, -1) != bucket) continue;
    for (uint32_t k = 0; k < 2; k++) f->bufs[f->buf_of[exchange.i + k]].twin = shard->buf_of[v.i + k];
  }
}

// ---- blocks, by their root buffers
typedef struct {
  PlaceBuffer *list;
  uint32_t *root;      // by block
  uint32_t *block_of;  // by root buffer, + 1; 0: none
  uint32_t n;
} Blocks;

static bool is_placed_here(const Buf *b) { return b->seg == SEG_ARENA && b->last >= 0; }

static Blocks find_blocks(const Fn *f) {
  RtArena *mem = f->prog->mem;
  Blocks k = {.list = rt_alloc(mem, f->n_bufs * sizeof *k.list), .root = rt_alloc(mem, f->n_bufs * sizeof *k.root)};
  k.block_of = rt_alloc(mem, f->n_bufs * sizeof *k.block_of);
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (is_placed_here(&f->bufs[b])) k.block_of[root_buf(f, b)] = 1;
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (!k.block_of[b]) continue;
    uint32_t twin = f->bufs[b].twin;
    k.list[k.n] =
        (PlaceBuffer){.lower = INT32_MAX, .upper = -1, .fixed = twin ? f->shard->bufs[twin].offset : PLACE_ANY};
    k.root[k.n] = b, k.block_of[b] = ++k.n;
  }
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    const Buf *buf = &f->bufs[b];
    if (!is_placed_here(buf)) continue;
    PlaceBuffer *block = &k.list[k.block_of[root_buf(f, b)] - 1];
    if (ir_aligned(buf->bytes) > block->size) block->size = ir_aligned(buf->bytes);
    if (buf->first < block->lower) block->lower = buf->first;
    if (buf->last >= block->upper) block->upper = (int64_t)buf->last + 1;
  }
  return k;
}

static int64_t live_bound(const Fn *f, const Blocks *k) {
  int64_t *delta = rt_alloc(f->prog->mem, (f->n_kernels + 2) * sizeof *delta), sum = 0, most = 0;
  for (uint32_t i = 0; i < k->n; i++)
    delta[k->list[i].lower] += k->list[i].size, delta[k->list[i].upper] -= k->list[i].size;
  for (uint32_t t = 0; t <= f->n_kernels; t++) {
    sum += delta[t];
    if (sum > most) most = sum;
  }
  return most;
}

// Guarded arena: each block between guards.
static void add_guards(const Fn *f, Blocks *k) {
  for (uint32_t i = 0; i < k->n; i++) {
    int64_t before = ir_guard_before(f, k->root[i]);
    k->list[i].size += before + ir_guard_behind(f, k->root[i]);
    if (k->list[i].fixed >= 0) k->list[i].fixed -= before;
  }
}

static bool report_placement(Fn *f, const Blocks *k, const PlaceFault *fault) {
  Val head = f->bufs[k->root[fault->buffer]].head;
  Loc at = f->ins[head.i].loc;
  rt_diag(&f->prog->diags, RT_ERROR, E_NOMEM, ir_loc_file(f->prog, at), ir_loc_line(f->prog, at),
          "memory of @%s: the buffer of %s %s", ir_text(f->prog, f->name), ir_size_text(f, head), fault->text);
  return false;
}

// Pass recompute plans a function that is planned again behind it.
typedef struct Placed {
  const PlaceBuffer *blocks;
  uint32_t n;
  Placement of;
} Placed;

static bool is_placed_already(const Fn *f, const PlaceProblem *p) {
  const Placed *was = f->placed;
  if (!was || was->n != p->n) return false;
  for (uint32_t i = 0; i < p->n; i++) {
    const PlaceBuffer *a = &was->blocks[i], *b = &p->buffers[i];
    if (a->lower != b->lower || a->upper != b->upper || a->size != b->size || a->fixed != b->fixed) return false;
  }
  return true;
}

static bool place(Fn *f, const PlaceProblem *p, Placement *out, PlaceFault *fault) {
  if (is_placed_already(f, p)) return *out = f->placed->of, true;
  if (!ir_place(p, f->prog->mem, out, fault)) return false;
  f->placed = rt_alloc(f->prog->mem, sizeof *f->placed);
  *f->placed = (Placed){p->buffers, p->n, *out};
  return true;
}

static bool place_blocks(Fn *f, Blocks *k) {
  bool is_guarded = f->prog->guarded_arena;
  int64_t units = k->n * (int64_t)SEARCH_UNITS > SEARCH_UNITS_OF_ALL ? SEARCH_UNITS_OF_ALL / k->n : SEARCH_UNITS;
  Placement out;
  PlaceFault fault;
  if (is_guarded) add_guards(f, k);
  PlaceProblem p = {
      .buffers = k->list, .n = k->n, .align = TN_ALIGN, .budget = is_guarded ? 0 : units, .is_shuffled = is_guarded};
  if (!place(f, &p, &out, &fault)) return report_placement(f, k, &fault);
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    uint32_t root = root_buf(f, b), block = k->block_of[root];
    if (f->bufs[b].seg == SEG_ARENA && block)
      f->bufs[b].offset = out.offsets[block - 1] + (is_guarded ? ir_guard_before(f, root) : 0);
  }
  f->stats.peak_bytes = out.peak;
  return true;
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

bool ir_place_function(Fn *f, int64_t most) {
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].bytes > MAX_BYTES) return report_huge(f, &f->bufs[b]);
  for (uint32_t i = 1; f->shard && i < f->n_ins; i++)
    if (f->ins[i].op == OP_exchange_end) find_twins(f, (Val){i});
  Blocks blocks = find_blocks(f);
  f->stats.lower_bound = f->stats.peak_bytes = live_bound(f, &blocks);
  return f->stats.lower_bound > most || place_blocks(f, &blocks);
}

bool ir_pass_plan_memory(Fn *f) {
  if (!ir_place_function(f, INT64_MAX)) return false;
  f->stats.order_bound = ir_bound_of_orders(f, f->prog->mem, f->stats.lower_bound, &(uint32_t){0});
  return true;
}

// ---- segments shared by all functions of a program
static void place_params(Prog *p) {
  int64_t at = 0;
  for (uint32_t k = 0; k < p->n_params; k++) {
    p->params[k].offset = at;
    at += ir_aligned(ir_type_bytes(p, p->params[k].dtype, p->params[k].shape));
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
      p->const_bytes += ir_aligned(buf->bytes);
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
