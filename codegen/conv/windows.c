// Phases and taps of convolutions (windows.h).
#include "codegen/conv/windows.h"

enum { FEW_PHASES = 16, KINDS = 3 };  // with code of their own; taps meet phases a number of times, once less, or never

void cg_conv_shape(const Fn *f, Val v, ConvShape *s) {
  int64_t phases = 1;
  *s = (ConvShape){0};
  ir_conv(f, v, &s->c);
  const Conv *c = &s->c;
  s->transposed = ir_ins(f, v)->op == OP_conv_transpose;
  s->src_channels = (s->transposed ? c->o : c->c) / c->groups;
  s->dst_channels = (s->transposed ? c->c : c->o) / c->groups;
  s->rows = ir_conv_taps(c) * s->src_channels;
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    s->src[k] = s->transposed ? c->out[k] : c->in[k];
    s->dst[k] = s->transposed ? c->in[k] : c->out[k];
    s->src_dim[k] = s->transposed ? c->out_dim[k] : c->in_dim[k];
    s->dst_dim[k] = s->transposed ? c->in_dim[k] : c->out_dim[k];
    if (s->transposed) phases *= c->stride[k];
  }
  for (uint32_t k = 0; k < CONV_AXES; k++) s->shares[k] = phases > FEW_PHASES && c->stride[k] > 1;
  s->by_run = c->run_sized || phases > FEW_PHASES;
}

static Phase forward(const Conv *c, uint32_t k) {
  return (Phase){.step = 1,
                 .count = c->out[k],
                 .src_step = c->stride[k],
                 .n_taps = c->kernel[k],
                 .tap_step = 1,
                 .offset = -c->before[k],
                 .gap = c->dilation[k],
                 .n = 1};
}

// Element r + j * stride of x meets tap t of the window at p where p * stride = r + j * stride + before - t * dilation.
static Phase transposed(const Conv *c, uint32_t k, int64_t r) {
  Phase p = {.first = r, .step = c->stride[k], .src_step = 1, .gap = 1, .tap_step = -1, .n = 1};
  p.count = r < c->in[k] ? cg_ceil_div(c->in[k] - r, c->stride[k]) : 0;
  int64_t last = -1;
  for (int64_t t = c->kernel[k] - 1; t >= 0; t--) {  // in the order of their offsets
    int64_t at = r + c->before[k] - t * c->dilation[k];
    if (at % c->stride[k]) continue;
    int64_t offset = at / c->stride[k];
    if (p.n_taps == 0) p.tap = t, p.offset = offset;
    if (p.n_taps == 1) p.tap_step = t - last, p.gap = offset - p.offset;
    last = t, p.n_taps++;
  }
  return p;
}

// Phases that share code have numbers: tap t < apart meets phase number t first, and number t + apart, .. meet no tap.
//
//   number n   begins at (n % apart * dilation + n / apart - before) modulo stride,  apart = stride / gcd(stride, dilation)
typedef struct {
  int64_t apart, gap;  // taps, and elements of the source, from one tap of a phase to the next
  int64_t cells, up;   // before = cells * stride - up
} Numbers;

static Numbers numbers_of(const Conv *c, uint32_t k) {
  int64_t stride = c->stride[k], gcd = stride, rest = c->dilation[k], cells = cg_ceil_div(c->before[k], stride);
  while (rest) {
    int64_t next = gcd % rest;
    gcd = rest, rest = next;
  }
  return (Numbers){stride / gcd, c->dilation[k] / gcd, cells, cells * stride - c->before[k]};
}

static int64_t offset_of(const Conv *c, uint32_t k, const Numbers *n, int64_t n_taps, int64_t number) {
  return n_taps ? n->cells - (n_taps - 1) * n->gap - (number * c->dilation[k] + n->up) / c->stride[k] : 0;
}

// Those that as many taps meet: of all taps that lie `apart`, of one less, of none.
static Phase alike(const Conv *c, uint32_t k, uint32_t kind) {
  Numbers n = numbers_of(c, k);
  int64_t begin[KINDS + 1] = {0, c->kernel[k] % n.apart, n.apart, c->stride[k]}, number = begin[kind];
  int64_t r = (number % n.apart * c->dilation[k] + number / n.apart + n.up) % c->stride[k];
  Phase p = transposed(c, k, r);
  p.n = begin[kind + 1] - number, p.number = number;
  if (p.n <= 1) return p;
  int64_t most = offset_of(c, k, &n, p.n_taps, number);
  p.offset = offset_of(c, k, &n, p.n_taps, number + p.n - 1), p.differ = most - p.offset;
  p.first = 0, p.count = cg_ceil_div(c->in[k], c->stride[k]);
  return p;
}

static void find_phase(Cg *c, const Conv *v, uint32_t k, const Phase *p, V nth, PhaseAt *to) {
  if (p->n == 1) {
    to->first[k] = cg_i64(c, p->first), to->tap[k] = cg_i64(c, p->tap), to->offset[k] = cg_i64(c, p->offset);
    return;
  }
  Numbers n = numbers_of(v, k);
  V tap = cg_add(c, nth, cg_i64(c, p->number)), more = cg_split(c, &tap, n.apart), none = cg_i64(c, 0);
  V first = cg_add(c, cg_add(c, cg_times(c, tap, v->dilation[k]), more), cg_i64(c, n.up));
  V cell = cg_split(c, &first, v->stride[k]);
  to->first[k] = first;
  to->tap[k] = p->n_taps ? cg_add(c, tap, cg_i64(c, (p->n_taps - 1) * n.apart)) : none;
  to->offset[k] = p->n_taps ? cg_sub(c, cg_i64(c, n.cells - (p->n_taps - 1) * n.gap), cell) : none;
}

PhaseAt cg_conv_phase(Cg *c, const ConvShape *s, const Windows *w, V nth) {
  PhaseAt at = {.k0 = cg_add(c, cg_i64(c, w->k0), cg_times(c, nth, w->taps * s->src_channels))};
  for (uint32_t k = CONV_AXES; k-- > 0;) {
    V before = cg_split(c, &nth, w->axis[k].n);
    find_phase(c, &s->c, k, &w->axis[k], nth, &at);
    nth = before;
  }
  return at;
}

V cg_conv_count(Cg *c, const ConvShape *s, uint32_t k, V first) {
  int64_t known = -1;
  V left = cg_sub(c, cg_dim(c, s->dst_dim[k]), first);
  bool begins = cg_const_value(first, &known) && known == 0;
  return cg_ceil_div_value(c, begins ? left : cg_max(c, cg_i64(c, 0), left), s->transposed ? s->c.stride[k] : 1);
}

static Phase phase_of(const ConvShape *s, uint32_t k, uint32_t *nth) {
  uint32_t n = !s->transposed ? 1 : s->shares[k] ? KINDS : (uint32_t)s->c.stride[k], own = *nth % n;
  *nth /= n;
  if (!s->transposed) return forward(&s->c, k);
  return s->shares[k] ? alike(&s->c, k, own) : transposed(&s->c, k, own);
}

bool cg_conv_next(const ConvShape *s, Windows *w) {
  Windows next = {.nth = w->nth + 1, .taps = 1, .phases = 1, .k0 = w->k0 + w->phases * w->taps * s->src_channels};
  uint32_t rest = w->nth;
  for (uint32_t k = CONV_AXES; k-- > 0;) {
    next.axis[k] = phase_of(s, k, &rest);
    next.taps *= next.axis[k].n_taps, next.phases *= next.axis[k].n;
  }
  if (rest) return false;  // all were there
  *w = next;
  return next.phases || cg_conv_next(s, w);
}

bool cg_conv_reaches_out(const Fn *f, const ConvShape *s, const Phase *p, uint32_t k) {
  int64_t last = (p->count - 1) * p->src_step + p->offset + p->differ + cg_conv_reach(p);
  return !ir_dim_is_const(f->prog, s->src_dim[k]) || p->offset < 0 || last > s->src[k];
}
