// The plan of a function as lines that others can check: docs/certificate.md has the format.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"

static const char *place_of(const Buf *b) {
  static const char *const names[] = {
      [SEG_ARENA] = "arena", [SEG_IN] = "input", [SEG_OUT] = "output", [SEG_PARAM] = "param", [SEG_CONST] = "const"};
  return b->seg == SEG_ARENA && (b->is_kept || b->twin) ? "kept" : names[b->seg];
}

static void put_buffer(const Fn *f, uint32_t i, RtText *out) {
  const Buf *b = &f->bufs[i];
  int64_t bytes = b->seg == SEG_ARENA ? ir_aligned(b->bytes) : b->bytes;
  rt_text_add(out, "buffer %u %s %lld %lld %d %d %u ", i, place_of(b), (long long)bytes, (long long)b->offset, b->first,
              b->last, b->reuses);
  if (b->scratch) rt_text_add(out, "scratch of ");
  ir_print_name(f, b->head, out);
  rt_text_add(out, " %s ", ir_ops[f->ins[ir_head(f, b->head).i].op].name);
  if (f->ins[b->head.i].loc.i) ir_loc_text(f->prog, f->ins[b->head.i].loc, out);
  rt_text_put(out, "\n", 1);
}

static void put_id(uint32_t *said, uint32_t b, uint32_t mark, RtText *out) {
  if (!b || said[b] == mark) return;
  said[b] = mark;
  rt_text_add(out, " %u", b);
}

static void put_kernel(const Fn *f, uint32_t k, int64_t in_place, uint32_t *said, RtText *out) {
  const Kernel *kernel = &f->kernels[k];
  rt_text_add(out, "kernel %u %s %lld%s reads", k, ir_class_name(kernel->cls), (long long)in_place,
              kernel->again ? " again" : "");
  for (uint32_t i = kernel->first; i < kernel->first + kernel->n; i++)
    for (uint32_t a = 0; f->ins[i].op != OP_result && a < f->ins[i].n_args; a++)
      put_id(said, f->buf_of[ir_arg(f, (Val){i}, a).i], 2 * k + 1, out);
  rt_text_add(out, " writes");
  for (uint32_t i = kernel->first; i < kernel->first + kernel->n; i++) put_id(said, f->buf_of[i], 2 * k + 2, out);
  put_id(said, kernel->scratch, 2 * k + 2, out);
  rt_text_put(out, "\n", 1);
}

// A pair in place counts once while the second is made.
static uint32_t kernel_of_peak(const Fn *f, RtArena *mem) {
  int64_t *delta = rt_alloc(mem, (f->n_kernels + 2) * sizeof *delta), live = 0, most = -1;
  uint32_t at = 0;
  for (uint32_t i = 1; i < f->n_bufs; i++) {
    const Buf *b = &f->bufs[i];
    if (b->seg != SEG_ARENA || b->last < 0) continue;
    delta[b->first] += b->reuses ? 0 : ir_aligned(b->bytes);
    if (b->reuses && (uint32_t)b->first < f->n_kernels) delta[b->first + 1] += ir_aligned(b->bytes);
    delta[b->last + 1] -= ir_aligned(b->bytes);
  }
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    live += delta[k];
    if (live > most) most = live, at = k;
  }
  return at;
}

static void put_function(const Fn *f, RtText *out) {
  uint32_t kernel = 0, *said = rt_alloc(out->mem, (f->n_bufs + 1) * sizeof *said);
  const PlanStats *s = &f->stats;
  int64_t bound = ir_bound_of_orders(f, out->mem, s->lower_bound, &kernel);
  rt_text_add(out, "function %s %u %lld %lld %u %lld %u\n", ir_text(f->prog, f->name), f->n_kernels,
              (long long)s->peak_bytes, (long long)s->lower_bound, kernel_of_peak(f, out->mem), (long long)bound,
              kernel);
  int64_t *in_place = rt_alloc(out->mem, (f->n_kernels + 1) * sizeof *in_place), bytes;
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    if (f->bufs[b].last >= 0) put_buffer(f, b, out);
    if ((bytes = ir_bytes_in_place(f, b)) > 0) in_place[f->bufs[b].first] += bytes;
  }
  for (uint32_t k = 0; k < f->n_kernels; k++) put_kernel(f, k, in_place[k], said, out);
}

// FNV-1a of all bytes
static uint64_t digest_of(const RtText *t) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < t->len; i++) h = (h ^ (unsigned char)t->text[i]) * UINT64_C(0x100000001b3);
  return h;
}

uint64_t ir_certificate(const Prog *const *programs, uint32_t n, RtText *out) {
  rt_text_add(out, "tenure-plan 1\n");
  for (uint32_t p = 0; p < n; p++) {
    rt_text_add(out, "program %s\n", ir_text(programs[p], programs[p]->name));
    for (uint32_t k = 0; k < programs[p]->n_fns; k++) put_function(programs[p]->fns[k], out);
  }
  uint64_t digest = digest_of(out);
  rt_text_add(out, "end %016llx\n", (unsigned long long)digest);
  return digest;
}
