// The numbers of the selftest: its inputs are drawn here as the emitted program draws them (selftest.c has the same
// generator as text), and what the functions make of them is summed up as there.
#include "frontend/bundle/texts.h"
#include "runtime/half.h"

#include <string.h>

// ---- sizes
static int64_t *slot_values(RtArena *mem, const RtPlan *p, const RtFunction *f, const int64_t *given) {
  int64_t *slots = rt_alloc(mem, (p->n_slots + 1) * sizeof *slots);
  uint32_t n = 0;
  for (uint32_t s = 0; s < p->n_slots; s++) slots[s] = -1;
  for (uint32_t k = 0; k < f->n_inputs; k++)
    for (uint32_t d = 0; d < f->inputs[k].rank; d++) {
      const RtDim *row = &p->dims[f->inputs[k].dims[d]];
      if (row->kind == RT_DIM_SLOT && slots[row->value] < 0) slots[row->value] = given[n++];
    }
  for (uint32_t s = 0; s < p->n_slots; s++)
    if (slots[s] < 0) slots[s] = p->slots[s].bound;
  return slots;
}

static int64_t *dim_values(RtArena *mem, const RtPlan *p, const RtFunction *f, const int64_t *given) {
  int64_t *dims = rt_alloc(mem, (p->n_dims + 1) * sizeof *dims);
  const int64_t *slots = slot_values(mem, p, f, given);
  rt_plan_dims(p, slots, dims);  // below the bounds, which fit
  return dims;
}

static bool are_sizes(const RtFunction *f, const int64_t *dims) {
  for (uint32_t k = 0; k < f->n_size_checks; k++)
    if (dims[f->size_checks[k].dim] < 0) return false;
  return true;
}

static int64_t elements(const int64_t *dims, const RtPort *port) {
  int64_t n = 1;
  for (uint32_t d = 0; d < port->rank; d++) n *= dims[port->dims[d]];
  return n;
}

int64_t fe_bundle_elements(RtArena *mem, const RtPlan *p, const RtFunction *f, const int64_t *dims,
                           const RtPort *port) {
  return elements(dim_values(mem, p, f, dims), port);
}

uint32_t fe_bundle_ranges(RtArena *mem, const FeBundleText *t, uint32_t listed, const int64_t *given, uint32_t input,
                          const DrawRange **out) {
  const int64_t *slots = slot_values(mem, t->plan, fe_bundle_function(t, listed), given);
  return ir_draw_ranges(mem, t->ir->fns[cg_bundle_function(t->plan, listed)], slots, input, out);
}

// ---- drawing
static uint32_t next(uint64_t *state) {  // splitmix64
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z >> 32);
}

// Without ranges; halves are from .5 to 1 in size.
static void draw_any(uint64_t *state, uint32_t dtype, void *to, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    uint32_t w = next(state);
    switch (dtype) {
    case RT_I32: ((int32_t *)to)[k] = (int32_t)(w >> 24) - 128; break;
    case RT_U8: ((uint8_t *)to)[k] = (uint8_t)(w >> 24); break;
    case RT_BOOL: ((uint8_t *)to)[k] = (uint8_t)(w >> 31); break;
    case RT_F16: ((uint16_t *)to)[k] = (uint16_t)((w >> 16 & 0x83ff) | 0x3800); break;
    case RT_BF16: ((uint16_t *)to)[k] = (uint16_t)((w >> 16 & 0x807f) | 0x3f00); break;
    default: ((float *)to)[k] = (float)(w >> 8) * 0x1p-23f - 1;
    }
  }
}

static void put_whole(uint32_t dtype, void *to, int64_t k, int64_t v) {
  switch (dtype) {
  case RT_I64: ((int64_t *)to)[k] = v; break;
  case RT_I32: ((int32_t *)to)[k] = (int32_t)v; break;
  case RT_U8:
  case RT_BOOL: ((uint8_t *)to)[k] = (uint8_t)v; break;
  case RT_F16: ((uint16_t *)to)[k] = rt_f16_of_f32((float)v); break;
  case RT_BF16: ((uint16_t *)to)[k] = rt_bf16_of_f32((float)v); break;
  default: ((float *)to)[k] = (float)v;
  }
}

static void draw_whole(uint64_t *state, uint32_t dtype, void *to, int64_t n, const DrawRange *r, uint32_t n_ranges,
                       int64_t spread) {
  int64_t before = 0, lo, last;
  for (int64_t k = 0; k < n; k++) {
    ir_draw_bounds(r, n_ranges, spread, k, before, &lo, &last);
    before = lo > last ? lo : lo + (int64_t)(next(state) % ((uint64_t)last - (uint64_t)lo + 1));
    put_whole(dtype, to, k, before);
  }
}

// ---- sums
// NaN counts once, infinity twice and the negative one three times.
static void add_value(FeBundleSum *s, int64_t at, double v, double *norm) {
  int64_t weight = 1 + at % 7;
  if (v - v != 0) {
    s->not_finite += (uint64_t)weight * (v != v ? 1 : v > 0 ? 2 : 3);
    return;
  }
  s->sum += v * (double)weight;
  *norm += (v < 0 ? -v : v) * (double)weight;
}

static void add_word(FeBundleSum *s, uint32_t word) { s->checksum = (s->checksum ^ word) * UINT64_C(0x100000001b3); }

static double value_of(uint32_t dtype, const uint32_t words[2]) {
  if (dtype == RT_I64) return (double)(int64_t)((uint64_t)words[1] << 32 | words[0]);
  if (dtype == RT_I32) return (double)(int32_t)words[0];
  if (dtype == RT_F32) return (double)rt_f32_of_bits(words[0]);
  if (dtype == RT_F16) return (double)rt_f32_of_f16((uint16_t)words[0]);
  if (dtype == RT_BF16) return (double)rt_f32_of_bf16((uint16_t)words[0]);
  return words[0];
}

static void get_words(const void *data, size_t width, int64_t k, uint32_t words[2]) {
  words[0] = words[1] = 0;
  memcpy(words, (const char *)data + (size_t)k * width, width);  // little-endian, as every target is
}

// How far the sum of `other` could be from that of `data`.
static double apart(const void *data, const void *other, uint32_t dtype, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) {
    uint32_t a[2], b[2];
    get_words(data, rt_dtype_bytes(dtype), k, a);
    get_words(other, rt_dtype_bytes(dtype), k, b);
    double d = value_of(dtype, a) - value_of(dtype, b);
    if (d - d == 0) sum += (d < 0 ? -d : d) * (double)(1 + k % 7);
  }
  return sum;
}

// About a thousandth; more where rounding decides. A gradient that is 0 but for rounding, as that of the bias of keys,
// is of any sign, and Adam makes a whole step of it.
static FeBundleSum sum_of(const void *data, const void *other, uint32_t dtype, int64_t n) {
  FeBundleSum s = {.checksum = UINT64_C(0xcbf29ce484222325)};
  double norm = 0;
  for (int64_t k = 0; k < n; k++) {
    uint32_t words[2];
    get_words(data, rt_dtype_bytes(dtype), k, words);
    add_word(&s, words[0]);
    if (rt_dtype_bytes(dtype) == 8) add_word(&s, words[1]);
    add_value(&s, k, value_of(dtype, words), &norm);
  }
  s.tolerance = 1e-3 * norm + 1e-4 + 4 * apart(data, other, dtype, n);
  return s;
}

// ---- runs
typedef struct {
  RtArena *mem;
  const FeBundleText *t;
  FeBundleModel m, disturbed;
  FeBundleRun *runs;
  uint32_t n, cap;
} Expect;

static void *array_of(const Expect *e, const RtFunction *f, const int64_t *dims, const RtPort *port) {
  int64_t n = fe_bundle_elements(e->mem, e->t->plan, f, dims, port);
  return rt_alloc(e->mem, (size_t)n * rt_dtype_bytes(port->dtype) + 8);
}

static void **outputs_of(const Expect *e, const RtFunction *f, const int64_t *dims) {
  void **out = rt_alloc(e->mem, (f->n_outputs + 1) * sizeof *out);
  for (uint32_t k = 0; k < f->n_outputs; k++) out[k] = array_of(e, f, dims, &f->outputs[k]);
  return out;
}

static void draw(const Expect *e, uint32_t listed, const int64_t *dims, int64_t spread, void **in) {
  const RtFunction *f = fe_bundle_function(e->t, listed);
  uint64_t state = e->n;
  for (uint32_t k = 0; k < f->n_inputs; k++) {
    const DrawRange *ranges;
    uint32_t n_ranges = fe_bundle_ranges(e->mem, e->t, listed, dims, k, &ranges);
    int64_t n = fe_bundle_elements(e->mem, e->t->plan, f, dims, &f->inputs[k]);
    in[k] = array_of(e, f, dims, &f->inputs[k]);
    if (fe_bundle_is_whole(&f->inputs[k], n_ranges, spread))
      draw_whole(&state, f->inputs[k].dtype, in[k], n, ranges, n_ranges, spread);
    else draw_any(&state, f->inputs[k].dtype, in[k], n);
  }
}

bool fe_bundle_is_whole(const RtPort *input, uint32_t n_ranges, int64_t spread) {
  bool is_float = rt_dtype_is_float(input->dtype);
  return n_ranges || input->dtype == RT_I64 || spread == 0 || (!is_float && spread != ir_draw_spreads[0]);
}

// Of these sizes. NULL: it ran, else why no inputs were found.
static const char *run(Expect *e, uint32_t listed, const int64_t *dims) {
  const RtFunction *f = fe_bundle_function(e->t, listed);
  const char *why = NULL;
  if (!are_sizes(f, dim_values(e->mem, e->t->plan, f, dims))) return "sizes by the bounds are below 0";
  void **in = rt_alloc(e->mem, (f->n_inputs + 1) * sizeof *in), **out = outputs_of(e, f, dims),
       **other = outputs_of(e, f, dims);
  FeBundleSum *sums = rt_alloc(e->mem, (f->n_outputs + 1) * sizeof *sums);
  for (uint32_t s = 0; s < DRAW_N_SPREADS; s++) {
    draw(e, listed, dims, ir_draw_spreads[s], in);
    const char *refused = e->m.call(e->m.ctx, listed, dims, in, out);
    if (refused) {
      if (!why) why = rt_strdup(e->mem, refused);
      continue;
    }
    if (e->disturbed.call(e->disturbed.ctx, listed, dims, in, other)) other = out;
    for (uint32_t k = 0; k < f->n_outputs; k++) {
      int64_t n = fe_bundle_elements(e->mem, e->t->plan, f, dims, &f->outputs[k]);
      sums[k] = sum_of(out[k], other[k], f->outputs[k].dtype, n);
    }
    *RT_PUSH(e->mem, e->runs, e->n, e->cap) = (FeBundleRun){listed, dims, ir_draw_spreads[s], sums};
    return NULL;
  }
  return why;
}

typedef enum { A_THIRD, THE_BOUNDS, ONES } Sizes;
static int64_t size_of(int64_t max, Sizes of) {
  if (of == ONES) return max < 1 ? max : 1;
  return of == THE_BOUNDS || max < 6 ? max : max / 3;
}

static const int64_t *sizes(const Expect *e, const TnBundleFunction *f, Sizes of) {
  int64_t *dims = rt_alloc(e->mem, (f->n_dims + 1) * sizeof *dims);
  for (uint32_t d = 0; d < f->n_dims; d++)
    for (uint32_t s = 0; s < e->t->b->about->n_dims; s++) {
      const TnBundleDim *dim = &e->t->b->about->dims[s];
      if (!strcmp(dim->name, f->dims[d])) dims[d] = size_of(dim->max, of);
    }
  return dims;
}

// A third of the bounds may be too little for what the function makes of them, the bounds too much, and several numbers that must
// differ may not.
static const char *run_once(Expect *e, uint32_t listed, bool is_full) {
  const TnBundleFunction *f = &e->t->b->about->functions[listed];
  const Sizes list[] = {is_full ? THE_BOUNDS : A_THIRD, is_full ? A_THIRD : THE_BOUNDS, ONES};
  const char *why = NULL;
  for (int k = 0; k < 3; k++) {
    const char *refused = run(e, listed, sizes(e, f, list[k]));
    if (!refused) return NULL;
    if (!why) why = refused;
  }
  return why;
}

static void *block_of(const FeBundleModel *m, const TnBundleTensor *q) {
  return (char *)m->params + (q->offset - sizeof(TnBundleState));
}

static int64_t elements_of(const TnBundleTensor *q) { return (int64_t)(q->bytes / rt_dtype_bytes(q->dtype)); }

// Up or down by the last bit; neither 0 nor what is not finite.
static void disturb(const Expect *e) {
  uint64_t state = 0;
  for (uint32_t t = 0; t < e->t->b->about->n_tensors; t++) {
    const TnBundleTensor *q = &e->t->b->about->tensors[t];
    if (q->kind != RT_WEIGHT || q->dtype != RT_F32) continue;
    float *v = block_of(&e->disturbed, q);
    for (int64_t k = 0; k < elements_of(q); k++)
      if (v[k] - v[k] == 0) v[k] *= next(&state) >> 31 ? 1 + 0x1p-23f : 1 - 0x1p-23f;
  }
}

FeBundleExpected fe_bundle_expect(RtArena *mem, const FeBundleText *t, FeBundleModel m, FeBundleModel disturbed) {
  Expect e = {.mem = mem, .t = t, .m = m, .disturbed = disturbed};
  const TnBundleAbout *about = t->b->about;
  const char **refused = rt_alloc(mem, (about->n_functions + 1) * sizeof *refused);
  disturb(&e);
  for (uint32_t k = 0; k < about->n_functions; k++) {
    bool only_reads = fe_bundle_function(t, k)->only_reads;
    int n_runs = only_reads ? 2 : 3;
    for (int i = 0; i < n_runs && !refused[k]; i++) refused[k] = run_once(&e, k, i == 1);
  }
  FeBundleSum *tensors = rt_alloc(mem, (about->n_tensors + 1) * sizeof *tensors);
  for (uint32_t k = 0; k < about->n_tensors; k++) {
    const TnBundleTensor *q = &about->tensors[k];
    tensors[k] = sum_of(block_of(&m, q), block_of(&disturbed, q), q->dtype, elements_of(q));
  }
  return (FeBundleExpected){e.runs, e.n, refused, tensors};
}

// ---- on an instance
static RtArray *arrays(RtArena *mem, const RtPort *ports, uint32_t n, void *const *data, const int64_t *dims) {
  RtArray *list = rt_alloc(mem, (n + 1) * sizeof *list);
  for (uint32_t k = 0; k < n; k++) {
    list[k] = (RtArray){.data = data[k], .dtype = (RtDType)ports[k].dtype, .rank = ports[k].rank};
    for (uint32_t d = 0; d < ports[k].rank; d++) list[k].dims[d] = dims[ports[k].dims[d]];
  }
  return list;
}

typedef struct {
  RtArena *mem;
  RtInstance *inst;
} Instance;

static const char *call_instance(void *ctx, uint32_t listed, const int64_t *given, void *const *in, void *const *out) {
  const Instance *c = ctx;
  const RtPlan *p = rt_instance_plan(c->inst);
  uint32_t function = cg_bundle_function(p, listed);
  const RtFunction *f = &p->functions[function];
  const int64_t *dims = dim_values(c->mem, p, f, given);
  RtArray *ins = arrays(c->mem, f->inputs, f->n_inputs, in, dims);
  RtArray *outs = arrays(c->mem, f->outputs, f->n_outputs, out, dims);
  RtStatus status = rt_instance_run(c->inst, function, ins, f->n_inputs, outs, f->n_outputs);
  return status ? rt_instance_error(c->inst) : NULL;
}

FeBundleModel fe_bundle_model(RtArena *mem, RtInstance *inst) {
  Instance *ctx = rt_alloc(mem, sizeof *ctx);
  *ctx = (Instance){mem, inst};
  return (FeBundleModel){call_instance, ctx, (void *)(uintptr_t)rt_instance_block(inst)};
}
