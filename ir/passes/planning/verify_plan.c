// Pass verify_plan: independent verification of the finished plan. Shares no code with assign_buffers and plan_memory.
//
// First the buffers: size from the types of their values, segment, position, live range from the kernels that access
// them, and that views and next versions alias their operand. Then abstract execution: kernels in order over a map of
// arena bytes. Each stored value tags its byte range with its number; each read must find that tag on the whole range.
// An overlap, a slot freed too early, a wrong alias or offset shows up as the tag of another value. Cost: bytes are
// grouped into the intervals between the ends of buffers. A parameter has one tag: a read of an overwritten version, or
// of one not written yet, is found the same way. Accesses inside one kernel are checked by verify_plan_kernel.c; kernels
// of one level with overlapping byte ranges are separated by a barrier (codegen/module/entry.c), so that correct ranges
// suffice.
#include "ir/passes/planning/verify_plan.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/scan.h"
#include "ir/text/text.h"
#include "runtime/format.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  Fn *f;
  int64_t *cut;  // sorted distinct ends of buffers in the arena
  uint32_t n_cuts;
  uint32_t *tag;   // by interval [cut[k], cut[k + 1]): the value that it holds
  uint32_t *held;  // by written buffer outside the arena: the value that it holds; 0: its initial contents
  bool *is_begun;  // by buffer of sums over shards: one of them is written
} Check;

bool ir_plan_broken(Fn *f, Val v, const char *fmt, ...) {
  Prog *p = f->prog;
  RtText name = {.mem = p->mem};
  char what[256];
  va_list ap;
  va_start(ap, fmt);
  rt_vformat(what, sizeof what, fmt, ap);
  va_end(ap);
  ir_print_name(f, v, &name);
  rt_diag(&p->diags, RT_ERROR, E_VERIFY, ir_loc_file(p, f->ins[v.i].loc), ir_loc_line(p, f->ins[v.i].loc),
          "plan of @%s: %s %s", ir_text(p, f->name), name.text, what);
  return false;
}

static Op op_at(const Fn *f, Val v) { return (Op)f->ins[v.i].op; }
static OpClass class_at(const Fn *f, Val v) { return (OpClass)ir_ops[f->ins[v.i].op].cls; }
static const Buf *buf_at(const Fn *f, Val v) { return &f->bufs[f->buf_of[v.i]]; }

Val ir_plan_shown(const Fn *f, Val v) {
  while (class_at(f, v) == CLASS_VIEW) v = f->args[f->ins[v.i].args];
  return v;
}

bool ir_plan_is_same_bytes(const Fn *f, Val v) {
  return op_at(f, v) == OP_output && f->buf_of[v.i] == f->buf_of[ir_plan_shown(f, f->args[f->ins[v.i].args]).i];
}

bool ir_plan_overlap(const Fn *f, uint32_t a, uint32_t b) {
  const Buf *x = &f->bufs[a], *y = &f->bufs[b];
  if (a == b) return x->bytes > 0;
  if (x->seg != y->seg) return false;
  if (x->seg == SEG_IN || x->seg == SEG_OUT) return x->offset == y->offset;
  if (x->seg != SEG_ARENA) return false;  // of parameters and constants ir_check_segments
  return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

// ---- sizes
static int64_t times(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? ((a < 0) == (b < 0) ? INT64_MAX : INT64_MIN) : r;
}

static int64_t plus(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? (a > 0 ? INT64_MAX : INT64_MIN) : r;
}

static int64_t lower(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t higher(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t quotient(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // of b > 0, rounded down

// Range of a dim in this plan, or (of_any) in all plans of the function. Named sizes are >= 0, divisors >= 1.
typedef struct {
  int64_t lo, hi;
} DimRange;

static DimRange range_of(const Prog *p, Dim d, bool of_any) {
  const DimInfo *in = ir_dim_info(p, d);
  if (in->kind == DIM_CONST) return (DimRange){in->value, in->value};
  if (in->kind == DIM_SYM) return (DimRange){0, of_any ? in->value : in->fit};
  DimRange a = range_of(p, in->a, of_any), b = range_of(p, in->b, of_any);
  if (in->kind == DIM_ADD) return (DimRange){plus(a.lo, b.lo), plus(a.hi, b.hi)};
  if (in->kind == DIM_MAX) return (DimRange){higher(a.lo, b.lo), higher(a.hi, b.hi)};
  if (in->kind == DIM_MIN) return (DimRange){lower(a.lo, b.lo), lower(a.hi, b.hi)};
  bool divides = in->kind == DIM_DIV;
  int64_t (*of)(int64_t, int64_t) = divides ? quotient : times;
  if (divides) b = (DimRange){higher(b.lo, 1), higher(b.hi, 1)};
  int64_t x = of(a.lo, b.lo), y = of(a.lo, b.hi), z = of(a.hi, b.lo), w = of(a.hi, b.hi);
  return (DimRange){lower(lower(x, y), lower(z, w)), higher(higher(x, y), higher(z, w))};
}

// Range of a size: a run refuses it if it, or a factor of it, is below 0.
static int64_t size_bound(const Prog *p, Dim d, bool of_any) {
  const DimInfo *in = ir_dim_info(p, d);
  bool is_product = in->kind == DIM_MUL && !(ir_dim_is_const(p, in->b) && ir_dim_info(p, in->b)->value < 0);
  if (is_product) return times(size_bound(p, in->a, of_any), size_bound(p, in->b, of_any));
  return higher(range_of(p, d, of_any).hi, 0);
}

// By the bits in its name; a bool is a byte.
static int64_t width_of(uint8_t dtype) {
  const char *digits = strpbrk(ir_dtype_name[dtype], "0123456789");
  return digits ? atoi(digits) / 8 : 1;
}

static int64_t bytes_of(const Prog *p, uint8_t dtype, Shape s) {
  int64_t n = width_of(dtype);
  if (dtype == DT_LAYOUT)  // its tables have fixed positions, by the full bounds
    return 4 * TN_LAYOUT_WORDS(size_bound(p, ir_dim_at(p, s, 1), true), size_bound(p, ir_dim_at(p, s, 0), true));
  for (uint32_t k = 0; k < ir_rank(p, s); k++) n = times(n, size_bound(p, ir_dim_at(p, s, k), false));
  return n;
}

int64_t ir_plan_bytes(const Fn *f, Val v) { return bytes_of(f->prog, f->ins[v.i].dtype, f->ins[v.i].shape); }

static int64_t aligned(int64_t n) { return (n + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN; }

// Double-buffered carries, and the arena of the body.
static int64_t scan_scratch(const Fn *f, Val v) {
  Scan s = ir_scan_at(f, v);
  int64_t bytes = aligned(s.body->stats.peak_bytes);
  for (uint32_t i = 1; i < s.body->n_ins; i++) {
    int64_t at = ir_attr_int(s.body, (Val){i}, KEY_index, -1) - s.n_slices;
    if (op_at(s.body, (Val){i}) == OP_input && at >= 0 && at < s.n_carries)
      bytes += 2 * aligned(ir_plan_bytes(s.body, (Val){i}));
  }
  return bytes;
}

static int64_t scratch_of(const Fn *f, const Kernel *k) {
  int64_t bytes = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (op_at(f, (Val){i}) == OP_scan) bytes += scan_scratch(f, (Val){i});
    else if (op_at(f, (Val){i}) != OP_result && f->prog->scratch)
      bytes += aligned(f->prog->scratch(f, (Val){i}, f->prog->scratch_ctx));
  }
  return bytes;
}

static bool check_scratch(Fn *f, uint32_t kernel) {
  const Kernel *k = &f->kernels[kernel];
  int64_t want = scratch_of(f, k);
  if (want == 0 && !k->scratch) return true;
  if (!k->scratch || !f->bufs[k->scratch].scratch || f->bufs[k->scratch].seg != SEG_ARENA)
    return ir_plan_broken(f, (Val){k->first}, "has no scratch memory, and needs %lld bytes", (long long)want);
  return f->bufs[k->scratch].bytes == want ||
         ir_plan_broken(f, (Val){k->first}, "has %lld bytes of scratch memory, and needs %lld",
                        (long long)f->bufs[k->scratch].bytes, (long long)want);
}

// ---- segments and aliases
static bool check_segment(Fn *f, Val v) {
  const Buf *b = buf_at(f, v);
  Op op = op_at(f, v);
  int64_t index = ir_attr_int(f, v, KEY_index, -1);
  if (op == OP_input && (b->seg != SEG_IN || b->offset != index))
    return ir_plan_broken(f, v, "does not lie where the caller's input %lld lies", (long long)index);
  if (op == OP_output && (b->seg != SEG_OUT || b->offset != index))
    return ir_plan_broken(f, v, "does not lie where the caller's output %lld lies", (long long)index);
  if (op == OP_param &&
      (b->seg != SEG_PARAM || ir_attr_int(f, b->head, KEY_param, -1) != ir_attr_int(f, v, KEY_param, -2)))
    return ir_plan_broken(f, v, "does not lie where its parameter lies");
  if (b->seg == SEG_CONST && op != OP_packed_layout && op != OP_dense_layout && class_at(f, v) != CLASS_VIEW &&
      op != OP_table)
    return ir_plan_broken(f, v, "lies among the constants and is none");
  if (f->is_body && (b->seg == SEG_PARAM || b->seg == SEG_CONST))
    return ir_plan_broken(f, v, "lies outside of what the body of a scan is given");
  return true;
}

// It lies in the caller's memory, and an output is what was written there last.
static bool is_handed_out(const Fn *f, Val v) {
  if (buf_at(f, v)->seg != SEG_OUT || op_at(f, buf_at(f, v)->head) == OP_output) return false;
  for (uint32_t i = v.i + 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_output && f->buf_of[i] == f->buf_of[v.i]) return true;
  return false;
}

// Views and next versions alias their operand, but views in a kernel, which are no memory; memory that belongs to the caller is
// not written.
static bool check_alias(Fn *f, Val v) {
  Val h = ir_head(f, v);
  bool view = class_at(f, v) == CLASS_VIEW, next = ir_ops[op_at(f, h)].flags & WRITES;
  if (!view && !next) return true;
  if (view && f->kernel_of[v.i] != UINT32_MAX)
    return !f->buf_of[v.i] || ir_plan_broken(f, v, "is a view in a kernel and has memory");
  Val of = view ? ir_arg(f, v, 0) : ir_arg(f, h, v.i - h.i);
  if (f->buf_of[v.i] != f->buf_of[of.i])
    return ir_plan_broken(f, v,
                          view ? "does not lie where the value lies that it is a view of"
                               : "does not lie where the value lies that it overwrites");
  uint8_t seg = buf_at(f, v)->seg;
  if (next && seg == SEG_PARAM && class_at(f, h) == CLASS_SLICE_UPDATE && !ir_attr(f, h, KEY_into_param))
    return ir_plan_broken(f, v, "overwrites a parameter that it does not update");
  return view || seg == SEG_ARENA || seg == SEG_PARAM || is_handed_out(f, v) ||
         ir_plan_broken(f, v, "overwrites what is not the function's own");
}

static bool check_value(Fn *f, Val v) {
  if (!check_alias(f, v)) return false;
  if (!f->buf_of[v.i]) return true;
  const Buf *b = buf_at(f, v);
  int64_t want = ir_plan_bytes(f, v);
  if (b->scratch) return ir_plan_broken(f, v, "lies in scratch memory");
  if (b->bytes != want)
    return ir_plan_broken(f, v, "lies in %lld bytes, its type needs %lld", (long long)b->bytes, (long long)want);
  return class_at(f, v) == CLASS_VIEW || check_segment(f, v);
}

// Memory outside of the arena by what it is: a parameter, or a position in the signature.
typedef struct {
  int64_t seg, key;
  uint32_t buf;
} Outside;

static int by_memory(const void *a, const void *b) {
  const Outside *x = a, *y = b;
  if (x->seg != y->seg) return x->seg < y->seg ? -1 : 1;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->buf < y->buf ? -1 : 1;
}

static bool check_outside(Fn *f) {
  Outside *list = rt_alloc(f->prog->mem, (f->n_bufs + 1) * sizeof *list);
  uint32_t n = 0;
  for (uint32_t a = 1; a < f->n_bufs; a++) {
    const Buf *b = &f->bufs[a];
    bool of_caller = (b->seg == SEG_IN || b->seg == SEG_OUT) && f->buf_of[b->head.i] == a;
    if (!b->n_shares || (b->seg != SEG_PARAM && !of_caller)) continue;
    list[n++] = (Outside){b->seg, of_caller ? b->offset : ir_attr_int(f, b->head, KEY_param, -1), a};
  }
  qsort(list, n, sizeof *list, by_memory);
  for (uint32_t k = 1; k < n; k++)
    if (list[k].seg == list[k - 1].seg && list[k].key == list[k - 1].key)
      return ir_plan_broken(f, f->bufs[list[k].buf].head, "lies where another value outside of the arena lies");
  return true;
}

// Sums over shards lie one behind another in the buffer of their exchange; an update has them, and the room
// beside them, at the offsets of its shards' function.
static bool check_twins(Fn *f, Val v) {
  const Fn *shard = f->shard;
  Val w = {1};
  int64_t bucket = ir_attr_int(f, v, KEY_bucket, -1);
  if (!shard || !(shard->facts & HAS_OFFSETS)) return true;
  while (w.i < shard->n_ins &&
         (op_at(shard, w) != OP_exchange_begin || ir_attr_int(shard, w, KEY_bucket, -1) != bucket))
    w.i++;
  if (w.i == shard->n_ins) return ir_plan_broken(f, v, "ends an exchange that does not begin");
  for (uint32_t k = 0; k < 2; k++) {
    const Buf *a = buf_at(f, (Val){v.i + k}), *b = buf_at(shard, (Val){w.i + k});
    if (a->offset != b->offset || a->bytes != b->bytes)
      return ir_plan_broken(f, v, "has sums or room at %lld, their exchange began at %lld", (long long)a->offset,
                            (long long)b->offset);
  }
  return true;
}

static bool check_exchange(Fn *f, Val v) {
  int64_t at = 0;
  for (uint32_t k = 0; k < 2; k++)
    if (buf_at(f, (Val){v.i + k})->seg != SEG_ARENA || !buf_at(f, (Val){v.i + k})->is_kept)
      return ir_plan_broken(f, v, "does not keep its memory in the arena");
  for (uint32_t k = 0; k < f->ins[v.i].n_args; k++) {
    const Buf *sum = buf_at(f, ir_arg(f, v, k));
    if (sum->within != f->buf_of[v.i] || sum->within_at != at)
      return ir_plan_broken(f, ir_arg(f, v, k), "does not lie behind the sums before it");
    at += aligned(sum->bytes);
  }
  if (at > buf_at(f, v)->bytes) return ir_plan_broken(f, v, "has less memory than its sums take");
  return op_at(f, v) != OP_exchange_end || check_twins(f, v);
}

static bool check_values(Fn *f) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!check_value(f, (Val){i})) return false;
    if (class_at(f, (Val){i}) == CLASS_EXCHANGE && !check_exchange(f, (Val){i})) return false;
  }
  return check_outside(f);
}

// ---- kernels cover the instructions
static bool makes_code(const Fn *f, Val v) {
  bool layout = op_at(f, v) == OP_packed_layout || op_at(f, v) == OP_dense_layout;
  bool is_const = layout && f->ins[v.i].n_args == 0;
  for (uint32_t k = 0; is_const && op_at(f, v) == OP_dense_layout && k < 3; k++)
    is_const = ir_dim_info(f->prog, ir_dim_at(f->prog, f->ins[v.i].shape, k))->kind == DIM_CONST;
  return ir_class_has(op_at(f, ir_head(f, v)), MAKES_KERNEL) && !is_const;
}

// A view of a value of the kernel, which another member reads: ir_plan_check_kernel knows which classes have such
static bool is_inner_view(const Fn *f, const Kernel *k, Val v) {
  return class_at(f, v) == CLASS_VIEW && ir_plan_shown(f, v).i >= k->first;
}

// Every instruction that has code is in exactly one kernel; kernels are contiguous and in order.
static bool check_cover(Fn *f) {
  uint32_t at = 1;
  for (uint32_t k = 0; k <= f->n_kernels; k++) {
    uint32_t first = k < f->n_kernels ? f->kernels[k].first : f->n_ins, n = k < f->n_kernels ? f->kernels[k].n : 0;
    if (k < f->n_kernels && (n == 0 || first < at || (uint64_t)first + n > f->n_ins))
      return ir_plan_broken(f, (Val){first < f->n_ins ? first : 0}, "stands in kernel %u out of order", k);
    for (; at < first; at++)
      if (makes_code(f, (Val){at}) || f->kernel_of[at] != UINT32_MAX)
        return ir_plan_broken(f, (Val){at}, "is computed by no kernel");
    for (; at < first + n; at++)
      if (f->kernel_of[at] != k || !(makes_code(f, (Val){at}) || is_inner_view(f, &f->kernels[k], (Val){at})))
        return ir_plan_broken(f, (Val){at}, "is computed by kernel %u, which does not hold it", k);
  }
  return true;
}

// ---- sizes that a layout of this run sets: number of rows
static bool is_dim_known(const Prog *p, Dim d, const bool *unknown) {
  const DimInfo *in = ir_dim_info(p, d);
  if (in->kind == DIM_CONST) return true;
  if (in->kind == DIM_SYM) return in->slot < 0 || !unknown[in->slot];
  return is_dim_known(p, in->a, unknown) && is_dim_known(p, in->b, unknown);
}

static bool are_sizes_known(const Fn *f, Val v, const bool *unknown) {
  for (uint32_t k = 0; k < ir_rank(f->prog, f->ins[v.i].shape); k++)
    if (!is_dim_known(f->prog, ir_dim_at(f->prog, f->ins[v.i].shape, k), unknown)) return false;
  const Attr *dim = ir_attr(f, v, KEY_dim);
  return !dim || is_dim_known(f->prog, dim->u.dim, unknown);
}

static int32_t slot_of_rows(const Fn *f, uint32_t i) {
  if (op_at(f, (Val){i}) != OP_packed_layout || f->kernel_of[i] == UINT32_MAX) return -1;
  const DimInfo *rows = ir_dim_info(f->prog, ir_dim_at(f->prog, f->ins[i].shape, 2));
  return rows->kind == DIM_SYM ? rows->slot : -1;
}

// A kernel that needs them, for its values or as a number, comes behind the layout.
static bool check_sizes(Fn *f) {
  bool *unknown = rt_alloc(f->prog->mem, f->prog->n_syms + 1);
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (slot_of_rows(f, i) >= 0) unknown[slot_of_rows(f, i)] = true;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    int32_t slot = slot_of_rows(f, i);
    if (slot >= 0) unknown[slot] = false;
    if (f->kernel_of[i] == UINT32_MAX) continue;
    bool known = are_sizes_known(f, (Val){i}, unknown);
    for (uint32_t k = 0; op_at(f, (Val){i}) != OP_result && k < f->ins[i].n_args; k++)
      known &= are_sizes_known(f, ir_arg(f, (Val){i}, k), unknown);
    if (!known) return ir_plan_broken(f, (Val){i}, "reads a number of rows before its layout is there");
  }
  return true;
}

// ---- live ranges
typedef struct {
  int32_t first, last;
} Range;

static void touch(Range *of, uint32_t buf, int32_t kernel) {
  Range *r = &of[buf];
  if (!buf) return;
  if (kernel < r->first) r->first = kernel;
  if (kernel > r->last) r->last = kernel;
}

// Sums live from the first computed one to the end of a shard, and from the beginning of the update to their
// last reader. The room beside them holds sums of earlier shards: it lives while shards run, and to the end
// of the exchange.
static void touch_kept(const Fn *f, Range *of, Val exchange) {
  uint32_t sums = f->buf_of[exchange.i], room = f->buf_of[exchange.i + 1];
  bool ends = op_at(f, exchange) == OP_exchange_end;
  for (uint32_t k = 0; k < f->ins[exchange.i].n_args; k++) {
    const Range *sum = &of[f->buf_of[ir_arg(f, exchange, k).i]];
    if (sum->last >= 0) touch(of, sums, sum->first), touch(of, sums, sum->last);
  }
  touch(of, sums, ends ? 0 : (int32_t)f->n_kernels - 1), touch(of, room, 0);
  if (!ends) touch(of, room, (int32_t)f->n_kernels - 1);
}

static bool check_ranges(Fn *f) {
  Range *of = rt_alloc(f->prog->mem, f->n_bufs * sizeof *of);
  for (uint32_t b = 1; b < f->n_bufs; b++) of[b] = (Range){INT32_MAX, -1};
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    touch(of, f->kernels[k].scratch, (int32_t)k);
    for (uint32_t i = f->kernels[k].first; i < f->kernels[k].first + f->kernels[k].n; i++) {
      touch(of, f->buf_of[i], (int32_t)k);
      for (uint32_t a = 0; op_at(f, (Val){i}) != OP_result && a < f->ins[i].n_args; a++)
        touch(of, f->buf_of[ir_arg(f, (Val){i}, a).i], (int32_t)k);
    }
  }
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (class_at(f, (Val){i}) == CLASS_EXCHANGE) touch_kept(f, of, (Val){i});
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (of[b].first != f->bufs[b].first || of[b].last != f->bufs[b].last)
      return ir_plan_broken(f, f->bufs[b].head, "is said to live in kernels %d to %d, it does from %d to %d",
                            f->bufs[b].first, f->bufs[b].last, of[b].first, of[b].last);
  return true;
}

// ---- offsets in the arena
static bool check_place(Fn *f, uint32_t buf) {
  const Buf *b = &f->bufs[buf];
  if (b->seg != SEG_ARENA || b->last < 0) return true;
  if (b->offset % TN_ALIGN) return ir_plan_broken(f, b->head, "is not aligned");
  if (b->offset < 0 || b->offset + b->bytes > f->stats.peak_bytes)
    return ir_plan_broken(f, b->head, "lies outside the arena");
  if (!b->reuses) return true;
  const Buf *of = &f->bufs[b->reuses];
  return (of->seg == SEG_ARENA && of->offset == b->offset && of->bytes == b->bytes && of->last == b->first) ||
         ir_plan_broken(f, b->head, "is said to take over a place which is not given up as it is made");
}

// ---- guards of a guarded arena: unused as long as the buffer between them is live
static uint32_t place_of(const Fn *f, uint32_t b) {
  while (f->bufs[b].reuses) b = f->bufs[b].reuses;
  return b;
}

static int64_t guarded_lo(const Fn *f, uint32_t b) { return f->bufs[b].offset - ir_guard_before(f, place_of(f, b)); }
static int64_t guarded_hi(const Fn *f, uint32_t b) {
  return f->bufs[b].offset + aligned(f->bufs[b].bytes) + ir_guard_behind(f, place_of(f, b));
}

static bool are_disjoint(const Fn *f, uint32_t a, uint32_t b) {
  const Buf *x = &f->bufs[a], *y = &f->bufs[b];
  if (y->seg != SEG_ARENA || x->last < y->first || y->last < x->first || place_of(f, a) == place_of(f, b)) return true;
  return guarded_hi(f, a) <= guarded_lo(f, b) || guarded_hi(f, b) <= guarded_lo(f, a);
}

static bool check_guards(Fn *f) {
  for (uint32_t a = 1; f->prog->guarded_arena && a < f->n_bufs; a++) {
    if (f->bufs[a].seg != SEG_ARENA || f->bufs[a].last < 0) continue;
    if (guarded_lo(f, a) < 0 || guarded_hi(f, a) > f->stats.peak_bytes)
      return ir_plan_broken(f, f->bufs[a].head, "has guards outside the arena");
    for (uint32_t b = 1; b < a; b++)
      if (!are_disjoint(f, a, b)) return ir_plan_broken(f, f->bufs[a].head, "lies in the guards of another buffer");
  }
  return true;
}

// ---- abstract execution
static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static void make_cuts(Check *c) {
  Fn *f = c->f;
  int64_t *cut = rt_alloc(f->prog->mem, (2 * f->n_bufs + 2) * sizeof *cut);
  uint32_t n = 0, m = 0;
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (f->bufs[b].seg != SEG_ARENA) continue;
    cut[n++] = f->bufs[b].offset;
    cut[n++] = f->bufs[b].offset + f->bufs[b].bytes;
  }
  qsort(cut, n, sizeof *cut, by_value);
  for (uint32_t k = 0; k < n; k++)
    if (m == 0 || cut[k] != cut[m - 1]) cut[m++] = cut[k];
  c->cut = cut;
  c->n_cuts = m;
  c->tag = rt_alloc(f->prog->mem, (m + 1) * sizeof *c->tag);
}

static uint32_t interval_at(const Check *c, int64_t offset) {
  uint32_t lo = 0, hi = c->n_cuts;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (c->cut[mid] <= offset) lo = mid;
    else hi = mid;
  }
  return lo;
}

static bool in_arena(const Fn *f, Val v) { return f->buf_of[v.i] && buf_at(f, v)->seg == SEG_ARENA; }

static void tag_range(Check *c, uint32_t buf, uint32_t tag) {
  const Buf *b = &c->f->bufs[buf];
  if (b->bytes == 0) return;
  for (uint32_t k = interval_at(c, b->offset); k < c->n_cuts && c->cut[k] < b->offset + b->bytes; k++) c->tag[k] = tag;
}

static bool is_held(const Fn *f, Val v) {
  if (!f->buf_of[v.i]) return false;
  uint8_t seg = buf_at(f, v)->seg;
  return seg == SEG_PARAM || seg == SEG_OUT;
}

static bool expect_held(Check *c, Val user, Val v) {
  uint32_t held = c->held[c->f->buf_of[v.i]], want = op_at(c->f, v) == OP_param ? 0 : v.i;
  if (held == want) return true;
  return ir_plan_broken(c->f, user,
                        held < want ? "reads a version of a parameter or output before it is written"
                                    : "reads a version of a parameter or output that was overwritten");
}

static bool expect_range(Check *c, Val user, Val v) {
  const Buf *b = buf_at(c->f, v);
  for (uint32_t k = interval_at(c, b->offset); b->bytes && k < c->n_cuts && c->cut[k] < b->offset + b->bytes; k++)
    if (c->tag[k] != v.i) return ir_plan_broken(c->f, user, "reads bytes that another value has overwritten");
  return true;
}

// ---- sums over shards: their memory has the exchange as its tag, the room has the next one; UNENDED until
// the exchange ends
enum { UNENDED = 1u << 31 };

static bool expect_tag(Check *c, Val user, uint32_t buf, uint32_t tag) {
  const Buf *b = &c->f->bufs[buf];
  for (uint32_t k = interval_at(c, b->offset); b->bytes && k < c->n_cuts && c->cut[k] < b->offset + b->bytes; k++)
    if (c->tag[k] != tag)
      return ir_plan_broken(c->f, user, "reads sums over shards before they are there, or what has overwritten them");
  return true;
}

static bool is_sum(const Fn *f, Val v) { return f->buf_of[v.i] && buf_at(f, v)->within; }

static bool expect_sum(Check *c, Val user, Val v) {
  uint32_t sums = buf_at(c->f, v)->within, exchange = c->f->bufs[sums].head.i;
  return op_at(c->f, user) == OP_exchange_end || expect_tag(c, user, sums, exchange);
}

static bool write_sum(Check *c, Val v) {
  uint32_t sums = buf_at(c->f, v)->within, exchange = c->f->bufs[sums].head.i;
  if (c->is_begun[sums] && !expect_tag(c, v, sums, exchange)) return false;
  c->is_begun[sums] = true;
  tag_range(c, sums, exchange);
  return true;
}

static void begin_kept(Check *c) {
  const Fn *f = c->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    uint32_t at_first = op_at(f, (Val){i}) == OP_exchange_end ? UNENDED : 0;
    if (class_at(f, (Val){i}) != CLASS_EXCHANGE) continue;
    if (at_first) tag_range(c, f->buf_of[i], i | at_first);
    tag_range(c, f->buf_of[i + 1], (i + 1) | at_first);
  }
}

static bool run_exchange(Check *c, Val v) {
  const Fn *f = c->f;
  uint32_t at_first = op_at(f, v) == OP_exchange_end ? UNENDED : 0;
  for (uint32_t k = 0; k < 2; k++)
    if (!expect_tag(c, v, f->buf_of[v.i + k], (v.i + k) | at_first)) return false;
  return true;
}

// Behind the last kernel, sums and room hold what this function leaves.
static bool check_kept(Check *c) {
  const Fn *f = c->f;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (op_at(f, (Val){i}) == OP_exchange_begin && !run_exchange(c, (Val){i})) return false;
  return true;
}

static bool expect_value(Check *c, Val user, Val v) {
  const Fn *f = c->f;
  Op op = op_at(f, v);
  if (is_sum(f, v) && !expect_sum(c, user, v)) return false;
  if (!f->buf_of[v.i] && op != OP_const && op != OP_dim_size)
    return ir_plan_broken(c->f, user, "reads a value that has no memory");
  if (in_arena(f, v)) return expect_range(c, user, v);
  return !is_held(f, v) || expect_held(c, user, v);
}

// A kernel reads before it writes, except for values that it defines itself.
static bool run_reads(Check *c, const Kernel *k) {
  Fn *f = c->f;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    for (uint32_t j = 0; op_at(f, (Val){i}) != OP_result && j < f->ins[i].n_args; j++) {
      Val a = ir_plan_shown(f, ir_arg(f, (Val){i}, j));
      if (ir_plan_is_same_bytes(f, a)) a = ir_plan_shown(f, ir_arg(f, a, 0));
      bool here = a.i >= k->first && a.i < k->first + k->n;
      if (!here && !expect_value(c, (Val){i}, a)) return false;
    }
  }
  return true;
}

static bool run_kernel(Check *c, const Kernel *k) {
  Fn *f = c->f;
  if (!run_reads(c, k)) return false;
  if (class_at(f, (Val){k->first}) == CLASS_EXCHANGE && !run_exchange(c, (Val){k->first})) return false;
  if (k->scratch) tag_range(c, k->scratch, UINT32_MAX);
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (in_arena(f, (Val){i})) tag_range(c, f->buf_of[i], i);
    if (is_sum(f, (Val){i}) && op_at(f, (Val){i}) != OP_input && !ir_plan_is_same_bytes(f, (Val){i}) &&
        !write_sum(c, (Val){i}))
      return false;
    if (is_held(f, (Val){i}) && !ir_plan_is_same_bytes(f, (Val){i})) c->held[f->buf_of[i]] = i;
  }
  return true;
}

static bool check_outputs(Check *c) {
  const Fn *f = c->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i};
    if (op_at(f, v) != OP_output) continue;
    uint32_t want = ir_plan_is_same_bytes(f, v) ? ir_plan_shown(f, ir_arg(f, v, 0)).i : i;
    if (!f->buf_of[i] || c->held[f->buf_of[i]] != want)
      return ir_plan_broken(c->f, v, "is not what lies in the caller's memory in the end");
  }
  return true;
}

bool ir_pass_verify_plan(Fn *f) {
  Check c = {.f = f, .held = rt_alloc(f->prog->mem, f->n_bufs * sizeof *c.held)};
  c.is_begun = rt_alloc(f->prog->mem, f->n_bufs);
  if (!check_cover(f) || !check_sizes(f) || !check_values(f) || !check_ranges(f)) return false;
  for (uint32_t k = 0; k < f->n_kernels; k++)
    if (!check_scratch(f, k)) return false;
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (!check_place(f, b)) return false;
  if (!check_guards(f)) return false;
  make_cuts(&c);
  begin_kept(&c);
  for (uint32_t k = 0; k < f->n_kernels; k++)
    if (!ir_plan_check_kernel(f, k) || !run_kernel(&c, &f->kernels[k])) return false;
  return check_outputs(&c) && check_kept(&c);
}

// ---- segments shared by all functions
static bool broken_segment(Prog *p, const char *what, const char *name) {
  rt_diag(&p->diags, RT_ERROR, E_VERIFY, NULL, 0, "plan of the program: %s '%s'", what, name);
  return false;
}

typedef struct {
  int64_t lo, hi;
  const char *name;
  Str bits;  // tables with equal bytes share an offset
  uint8_t dtype;
} Span;

static int by_start(const void *a, const void *b) {
  const Span *x = a, *y = b;
  return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static bool is_same_table(const Span *a, const Span *b) {
  return a->bits.i && a->bits.i == b->bits.i && a->dtype == b->dtype && a->lo == b->lo;
}

static bool check_disjoint(Prog *p, Span *span, uint32_t n, int64_t size) {
  if (n) qsort(span, n, sizeof *span, by_start);
  for (uint32_t k = 0; k < n; k++) {
    if (span[k].lo % TN_ALIGN) return broken_segment(p, "not aligned is", span[k].name);
    if (span[k].lo < 0 || span[k].hi > size) return broken_segment(p, "outside of its segment lies", span[k].name);
    bool same = k && is_same_table(&span[k], &span[k - 1]);
    if (k && !same && span[k].lo < span[k - 1].hi) return broken_segment(p, "on another one lies", span[k].name);
  }
  return true;
}

static bool check_params(Prog *p) {
  Span *span = rt_alloc(p->mem, (p->n_params + 1) * sizeof *span);
  for (uint32_t k = 0; k < p->n_params; k++) {
    const Param *q = &p->params[k];
    span[k] = (Span){q->offset, q->offset + bytes_of(p, q->dtype, q->shape), ir_text(p, q->path), {0}, q->dtype};
  }
  return check_disjoint(p, span, p->n_params, p->param_bytes);
}

static Str table_bits(const Fn *f, Val v) { return op_at(f, v) == OP_table ? ir_attr(f, v, KEY_bits)->u.s : (Str){0}; }

bool ir_check_segments(Prog *p) {
  Span *span = NULL;
  uint32_t n = 0, cap = 0;
  if (!check_params(p)) return false;
  for (uint32_t k = 0; k < p->n_fns; k++)
    for (uint32_t b = 1; b < p->fns[k]->n_bufs; b++) {
      const Fn *f = p->fns[k];
      const Buf *buf = &f->bufs[b];
      if (buf->seg == SEG_PARAM) {
        const Param *q = &p->params[ir_attr_int(f, buf->head, KEY_param, 0)];
        if (buf->offset != q->offset || buf->bytes != bytes_of(p, q->dtype, q->shape))
          return broken_segment(p, "a function looks elsewhere for", ir_text(p, q->path));
      }
      if (buf->seg == SEG_CONST && buf->bytes)
        *RT_PUSH(p->mem, span, n, cap) = (Span){buf->offset, buf->offset + buf->bytes, ir_text(p, f->name),
                                                table_bits(f, buf->head), f->ins[buf->head.i].dtype};
    }
  return check_disjoint(p, span, n, p->const_bytes);
}
