// Questions about a planned function: kinds of buffers, who reads last, what is live at the peak, what kernels move.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/storage.h"
#include "runtime/format.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

const char *const tool_buf_kind[N_BUF_KINDS] = {"activation", "saved for backward", "gradient", "sum over shards",
                                                "scratch"};
#define ROW(e, t) t,
const char *const tool_seg_name[N_SEGMENTS] = {TN_SEGMENTS(ROW)};
#undef ROW

const char *tool_fn_name(const ToolFn *f) { return ir_text(f->f->prog, f->f->name); }

const char *tool_op_name(const ToolFn *f, Val v) { return ir_ops[f->f->ins[ir_head(f->f, v).i].op].name; }

const char *tool_loc(const Prog *p, RtArena *mem, Loc l) {
  RtText t = {.mem = mem};
  ir_loc_text(p, l, &t);
  return t.text ? t.text : "an unknown line";
}

const char *tool_scope(const ToolFn *f, RtArena *mem, uint32_t scope) {
  if (scope == NO_SCOPE) return "no scope (detached)";
  if (scope == 0) return "the function's own scope";
  return rt_printf(mem, "scope '%s'", ir_text(f->f->prog, f->f->scopes[scope].name));
}

Loc tool_scope_end(const ToolFn *f, uint32_t scope) {
  return scope < f->f->n_scopes ? f->f->scopes[scope].close : (Loc){0};
}

// ---- buffers
uint32_t tool_taker(const ToolFn *f, uint32_t buf) {
  for (uint32_t b = 1; b < f->f->n_bufs; b++)
    if (f->f->bufs[b].reuses == buf) return b;
  return 0;
}

static bool is_view(const ToolFn *f, Val v) { return ir_ops[f->f->ins[v.i].op].cls == CLASS_VIEW; }

BufKind tool_kind(const ToolFn *f, uint32_t buf) {
  const Buf *b = &f->f->bufs[buf];
  if (b->scratch) return BUF_SCRATCH;
  if (b->is_kept || b->twin) return BUF_SUM;
  if (f->is_gradient[b->head.i]) return BUF_GRADIENT;
  return ir_none(tool_saved_for(f, buf)) ? BUF_ACTIVATION : BUF_SAVED;
}

const char *tool_buf_name(const ToolFn *f, RtArena *mem, uint32_t buf) {
  const Buf *b = &f->f->bufs[buf];
  return b->scratch ? rt_printf(mem, "scratch of %s", f->name[b->head.i]) : f->name[b->head.i];
}

static void later_read(const ToolFn *f, Val v, Val *last) {
  for (uint32_t k = f->reader_at[v.i]; k < f->reader_at[v.i + 1]; k++) {
    Val r = f->readers[k];
    if (is_view(f, r)) later_read(f, r, last);
    else if (r.i > last->i) *last = r;
  }
}

Val tool_last_read(const ToolFn *f, Val v) {
  Val last = {0};
  later_read(f, v, &last);
  return last;
}

Val tool_last_use(const ToolFn *f, uint32_t buf) {
  const Buf *b = &f->f->bufs[buf];
  if (b->last < 0 || (uint32_t)b->last >= f->f->n_kernels) return (Val){0};
  const Kernel *k = &f->f->kernels[b->last];
  for (uint32_t i = k->first + k->n; i-- > k->first;) {
    if (f->f->ins[i].op == OP_result) continue;
    for (uint32_t a = 0; a < f->f->ins[i].n_args; a++)
      if (f->f->buf_of[ir_arg(f->f, (Val){i}, a).i] == buf) return (Val){i};
  }
  return (Val){0};
}

// A kernel of the backward computes forward values again in front of what it makes: its gradient is what they are for.
Val tool_saved_for(const ToolFn *f, uint32_t buf) {
  Val last = tool_last_use(f, buf);
  if (ir_none(last) || f->is_gradient[f->f->bufs[buf].head.i]) return (Val){0};
  const Kernel *k = &f->f->kernels[f->f->kernel_of[last.i]];
  for (uint32_t i = last.i; i < k->first + k->n; i++)
    if (f->is_gradient[i]) return (Val){i};
  for (uint32_t i = k->first; i < last.i; i++)
    if (f->is_gradient[i]) return (Val){i};
  return (Val){0};
}

const char *tool_outlives(const ToolFn *f, RtArena *mem, Val v) {
  uint32_t scope = f->f->ins[v.i].scope;
  if (scope == NO_SCOPE || scope == 0) return "";
  return rt_printf(mem, ", after its owner, scope '%s', closed at %s", ir_text(f->f->prog, f->f->scopes[scope].name),
                   tool_loc(f->f->prog, mem, tool_scope_end(f, scope)));
}

const char *tool_keeps(const ToolFn *f, RtArena *mem, uint32_t buf) {
  const Buf *b = &f->f->bufs[buf];
  const Prog *p = f->f->prog;
  if (b->seg == SEG_PARAM) return "The program owns it: a parameter or state entry lives as long as the model.";
  if (b->seg == SEG_CONST) return "It lies in the constant pool, which lives as long as the model.";
  if (b->seg == SEG_IN) return "The caller owns it: an input.";
  if (b->seg == SEG_OUT) return "The caller owns it: an output.";
  if (b->scratch) return rt_printf(mem, "Private memory of kernel %d: it is free again after it.", b->first);
  Val last = tool_last_use(f, buf), for_what = tool_saved_for(f, buf);
  if (ir_none(last)) return "No later kernel reads it.";
  const char *op = tool_op_name(f, last);
  bool is_saved = !ir_none(for_what);
  const char *at = tool_loc(p, mem, f->f->ins[is_saved ? for_what.i : last.i].loc);
  if (!is_saved && !f->is_backward[last.i])
    return rt_printf(mem, "It lives until its last read, by %s %s at %s in kernel %d.", f->name[last.i], op, at,
                     b->last);
  return rt_printf(mem, "%s by the backward of %s (%s %s in kernel %d)%s.",
                   is_saved ? "It is saved for backward: last read" : "It lives until its last read,", at,
                   f->name[last.i], op, b->last, is_saved ? tool_outlives(f, mem, b->head) : "");
}

// ---- the peak
static uint32_t root_buf(const Fn *f, uint32_t b) {
  while (f->bufs[b].reuses) b = f->bufs[b].reuses;
  return b;
}

// Buffers that take each other's slot over count once: a slot is as large as its largest buffer.
static int64_t *live_by_kernel(const Fn *f, RtArena *mem) {
  int64_t *size = rt_alloc(mem, (f->n_bufs + 1) * sizeof *size),
          *live = rt_alloc(mem, (f->n_kernels + 2) * sizeof *live);
  int32_t *first = rt_alloc(mem, (f->n_bufs + 1) * sizeof *first),
          *last = rt_alloc(mem, (f->n_bufs + 1) * sizeof *last);
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    const Buf *buf = &f->bufs[b];
    if (buf->seg != SEG_ARENA || buf->last < 0) continue;
    uint32_t r = root_buf(f, b);
    if (!size[r] || buf->first < first[r]) first[r] = buf->first;
    if (!size[r] || buf->last > last[r]) last[r] = buf->last;
    if (ir_aligned(buf->bytes) > size[r]) size[r] = ir_aligned(buf->bytes);
  }
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (size[b])
      live[first[b]] += size[b],
          live[(uint32_t)last[b] < f->n_kernels ? (uint32_t)last[b] + 1 : f->n_kernels] -= size[b];
  for (uint32_t k = 1; k <= f->n_kernels; k++) live[k] += live[k - 1];
  return live;
}

static int by_bytes(const void *a, const void *b) {
  const PeakRow *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->buf < y->buf ? -1 : x->buf > y->buf;
}

// Of the buffers of one slot that are live together, the largest counts, ties to the newest: the one that takes over.
static void add_live(const Fn *f, Peak *peak, uint32_t buf, uint32_t *of_slot) {
  uint32_t root = root_buf(f, buf), other = of_slot[root];
  PeakRow *row = &peak->rows[peak->n_rows++];
  *row = (PeakRow){.buf = buf, .bytes = f->bufs[buf].bytes};
  if (!other) {
    of_slot[root] = peak->n_rows;
    return;
  }
  PeakRow *old = &peak->rows[other - 1];
  if (old->bytes > row->bytes) {
    row->bytes = 0;
    row->same_slot = old->buf;
  } else {
    old->bytes = 0;
    old->same_slot = buf;
    of_slot[root] = peak->n_rows;
  }
}

Peak tool_peak(const ToolFn *t, RtArena *mem) {
  const Fn *f = t->f;
  Peak peak = {.rows = rt_alloc(mem, (f->n_bufs + 1) * sizeof *peak.rows), .live = live_by_kernel(f, mem)};
  for (uint32_t k = 1; k < f->n_kernels; k++)
    if (peak.live[k] > peak.live[peak.kernel]) peak.kernel = k;
  uint32_t *of_slot = rt_alloc(mem, (f->n_bufs + 1) * sizeof *of_slot);
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    const Buf *buf = &f->bufs[b];
    if (buf->seg == SEG_ARENA && buf->first <= (int32_t)peak.kernel && buf->last >= (int32_t)peak.kernel)
      add_live(f, &peak, b, of_slot);
  }
  for (uint32_t k = 0; k < peak.n_rows; k++) {
    peak.bytes += peak.rows[k].bytes;
    peak.padding += ir_aligned(peak.rows[k].bytes) - peak.rows[k].bytes;
  }
  peak.holes = f->stats.peak_bytes - peak.bytes - peak.padding;
  qsort(peak.rows, peak.n_rows, sizeof *peak.rows, by_bytes);
  return peak;
}

// ---- kernels
static bool seen_before(const uint32_t *list, uint32_t n, uint32_t x) {
  for (uint32_t k = 0; k < n; k++)
    if (list[k] == x) return true;
  return false;
}

// A slice or a lookup reads as much as it yields.
static int64_t bytes_read(const Fn *f, Val user, Val a) {
  int64_t whole = ir_type_bytes(f->prog, f->ins[a.i].dtype, f->ins[a.i].shape);
  Op op = f->ins[user.i].op;
  if (op != OP_slice && !(op == OP_embedding && a.i == ir_arg(f, user, 0).i)) return whole;
  int64_t part = ir_type_bytes(f->prog, f->ins[user.i].dtype, f->ins[user.i].shape);
  return part < whole ? part : whole;
}

Traffic tool_traffic(const ToolFn *t, RtArena *mem, uint32_t kernel) {
  const Fn *f = t->f;
  const Kernel *k = &f->kernels[kernel];
  Traffic sum = {0};
  uint32_t *read = NULL, n_read = 0, cap = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (f->buf_of[i]) sum.written += ir_type_bytes(f->prog, f->ins[i].dtype, f->ins[i].shape);
    for (uint32_t a = 0; f->ins[i].op != OP_result && a < f->ins[i].n_args; a++) {
      Val v = ir_arg(f, (Val){i}, a), base = ir_view_base(f, v);
      bool made_here = base.i >= k->first && base.i < k->first + k->n;
      if (made_here || !f->buf_of[v.i] || seen_before(read, n_read, base.i)) continue;
      *RT_PUSH(mem, read, n_read, cap) = base.i;
      sum.read += bytes_read(f, (Val){i}, v);
    }
  }
  return sum;
}

const char *tool_kernel_ops(const ToolFn *t, RtArena *mem, uint32_t kernel) {
  const Fn *f = t->f;
  const Kernel *k = &f->kernels[kernel];
  RtText out = {.mem = mem};
  for (uint32_t i = k->first; i < k->first + k->n;) {
    uint32_t n = 0, at = i;
    for (; i < k->first + k->n && (f->ins[i].op == f->ins[at].op || f->ins[i].op == OP_result); i++)
      n += f->ins[i].op != OP_result;
    rt_text_add(&out, "%s%s", at == k->first ? "" : ", ", ir_ops[f->ins[at].op].name);
    if (n > 1) rt_text_add(&out, " x %u", n);
  }
  return out.text ? out.text : "";
}

static int by_line(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

// Their modules, each once.
static void put_modules(const ToolFn *t, const Kernel *k, RtText *out) {
  const Fn *f = t->f;
  const char **seen = rt_alloc(out->mem, k->n * sizeof *seen);
  uint32_t n = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    const char *module = ir_loc_module(f->prog, f->ins[i].loc);
    bool is_new = *module != 0;
    for (uint32_t s = 0; s < n && is_new; s++) is_new = strcmp(seen[s], module) != 0;
    if (!is_new) continue;
    rt_text_add(out, "%s%s", n ? ", " : " in ", module);
    seen[n++] = module;
  }
}

// Lines by file, in the order of the files' first use.
const char *tool_kernel_lines(const ToolFn *t, RtArena *mem, uint32_t kernel) {
  const Fn *f = t->f;
  const Kernel *k = &f->kernels[kernel];
  const char **file = rt_alloc(mem, k->n * sizeof *file);
  uint64_t *key = rt_alloc(mem, k->n * sizeof *key);
  uint32_t n = 0, n_files = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    const char *name = ir_loc_file(f->prog, f->ins[i].loc);
    uint32_t at = 0;
    if (!name) continue;
    while (at < n_files && strcmp(file[at], name)) at++;
    if (at == n_files) file[n_files++] = name;
    key[n++] = (uint64_t)at << 32 | ir_loc_line(f->prog, f->ins[i].loc);
  }
  qsort(key, n, sizeof *key, by_line);
  RtText out = {.mem = mem};
  for (uint32_t i = 0; i < n; i++) {
    if (i && key[i] == key[i - 1]) continue;
    bool new_file = !i || key[i] >> 32 != key[i - 1] >> 32;
    if (new_file) rt_text_add(&out, "%s%s:%u", i ? "; " : "", file[key[i] >> 32], (uint32_t)key[i]);
    else rt_text_add(&out, ", %u", (uint32_t)key[i]);
  }
  put_modules(t, k, &out);
  return out.text ? out.text : "";
}

// ---- numbers
// 4962304 -> 4.7 MiB
const char *tool_bytes(RtArena *mem, int64_t n) { return rt_bytes_text(rt_alloc(mem, RT_BYTES_SIZE), n); }

// 4962304 -> 4,962,304
const char *tool_grouped(RtArena *mem, int64_t n) {
  char digits[32];
  RtText t = {.mem = mem};
  int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
  for (int k = 0; k < len; k++) {
    rt_text_put(&t, digits + k, 1);
    if (digits[k] != '-' && k + 1 < len && (len - k - 1) % 3 == 0) rt_text_put(&t, ",", 1);
  }
  return t.text;
}

const char *tool_exact_bytes(RtArena *mem, int64_t n) { return rt_printf(mem, "%s B", tool_grouped(mem, n)); }

// 524288 -> 512 KiB: for axes
const char *tool_short_bytes(RtArena *mem, int64_t n) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int k = 0;
  double x = (double)n;
  for (; x >= 1024 && k < 4; k++) x /= 1024;
  return rt_printf(mem, "%g %s", x, unit[k]);
}
