// The next token of each sequence, drawn by what the model says of all words.
//
//   weights   e^((x - top) / temperature), of the candidates: all words, or the likeliest ones in order
//   sums      of the weights up to each candidate; those up to top_p of the whole may be drawn
//   draw      the first candidate whose sum reaches (1 - u) of what may be drawn, u in [0, 1) of (seed, counter)
//
// Everything is computed row by row, and u is a hash of two numbers, so that a draw knows nothing of its batch.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/packed/packed.h"
#include "frontend/tenure/decode.h"
#include "ir/build.h"

#include <float.h>

static tn_tensor op2(Op op, tn_tensor a, tn_tensor b, tn_site at) {
  return fe_pointwise(op, (const tn_tensor[]){a, b}, 2, NULL, 0, at);
}

static tn_tensor op3(Op op, tn_tensor a, tn_tensor b, tn_tensor c, tn_site at) {
  return fe_pointwise(op, (const tn_tensor[]){a, b, c}, 3, NULL, 0, at);
}

// ---- numbers that two numbers name: Steele, Lea and Flood's mixing function of 64 bits (splitmix64) of both
static tn_tensor word(tn_function *f, uint64_t bits, tn_site at) {
  int64_t x = (int64_t)bits;
  return (tn_tensor){f, ir_table(f->ir, DT_I64, (Shape){0}, &x, fe_loc(f->p, at)).i};
}

// The bits above the first n, unsigned
static tn_tensor shifted(tn_tensor x, int n, tn_site at) {
  tn_function *f = x.fn;
  tn_tensor by = fe_number(f, n, DT_I64, at), bits = word(f, UINT64_MAX >> n, at);
  return op2(OP_bitwise_and, op2(OP_bitwise_right_shift, x, by, at), bits, at);
}

static tn_tensor mixed(tn_tensor x, tn_site at) {
  static const struct {
    int shift;
    uint64_t factor;
  } rounds[] = {{30, 0xBF58476D1CE4E5B9u}, {27, 0x94D049BB133111EBu}};
  for (int k = 0; k < 2; k++) {
    x = op2(OP_bitwise_xor, x, shifted(x, rounds[k].shift, at), at);
    x = op2(OP_mul, x, word(x.fn, rounds[k].factor, at), at);
  }
  return op2(OP_bitwise_xor, x, shifted(x, 31, at), at);
}

static tn_tensor rand_at(tn_tensor seeds, tn_tensor counters, tn_site at) {
  tn_function *f = seeds.fn;
  tn_tensor step = op2(OP_mul, counters, word(f, 0x9E3779B97F4A7C15u, at), at);
  tn_tensor bits = shifted(mixed(op2(OP_add, mixed(seeds, at), step, at), at), 40, at);
  return op2(OP_mul, fe_cast(bits, DT_F32, at), fe_const(f, 0x1p-24, at), at);
}

static bool check_dtype(tn_tensor x, DType t, const char *what, tn_site at) {
  if (fe_ins(x)->dtype == t) return true;
  fe_error(x.fn->p, E_DTYPE, at, "%s are %s, not %s", what, ir_dtype_name[t], fe_type_text(x));
  fe_note_value(x, what);
  return false;
}

tn_tensor tn_rand_at(tn_tensor seeds, tn_tensor counters, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){seeds, counters}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_dtype(seeds, DT_I64, "the seeds", at) || !check_dtype(counters, DT_I64, "the counters", at))
    return fe_poison(f);
  return fe_made(rand_at(seeds, counters, at), at);
}

// ---- options
typedef struct {
  const tn_sample_options *o;
  tn_function *f;
  Dim batch, words;
} Sampler;

// One of each row, [B,1], or of all
static tn_tensor number_of(const Sampler *s, tn_tensor by_row, double of_all) {
  if (!by_row.fn) return fe_const(s->f, of_all, s->o->at);
  return fe_as_column(by_row, 2, s->o->at);
}

static bool check_numbers(const Sampler *s, tn_tensor t, DType dtype, const char *what) {
  if (!t.fn) return true;
  if (!check_dtype(t, dtype, what, s->o->at)) return false;
  if (fe_rank(t) == 1 && fe_axis_dim(t, 0).i == s->batch.i) return true;
  fe_error(s->f->p, E_SHAPE, s->o->at, "%s are [B], one for each row of the logits, not %s", what, fe_type_text(t));
  fe_note_value(t, what);
  return false;
}

static bool check_options(const Sampler *s, tn_tensor logits) {
  const tn_sample_options *o = s->o;
  tn_program *p = s->f->p;
  if (!(o->temperature >= 0 && o->temperature <= FLT_MAX))
    fe_error(p, E_ARGUMENT, o->at, "the temperature is %g: it is 0 or more", o->temperature);
  else if (!(o->top_p >= 0 && o->top_p <= 1))
    fe_error(p, E_ARGUMENT, o->at, "top_p is %g: a part of the probability, in (0, 1], or 0", o->top_p);
  else if (!(o->repetition_penalty >= 0 && o->repetition_penalty <= FLT_MAX))
    fe_error(p, E_ARGUMENT, o->at, "the repetition penalty is %g: it is above 0, or 0 for none", o->repetition_penalty);
  else if (o->top_k < 0 || o->top_k > ir_dim_bound(p->ir, s->words))
    fe_error(p, E_ARGUMENT, o->at, "top_k is %lld of %lld words", (long long)o->top_k,
             (long long)ir_dim_bound(p->ir, s->words));
  else if (!o->history.fn && (o->penalties.fn || o->repetition_penalty > 0))
    fe_error(p, E_ARGUMENT, o->at, "a repetition penalty is of a history: .history = tn_slots_text(run)");
  else if (o->n_stop && !o->stop) fe_error(p, E_ARGUMENT, o->at, "%u stop tokens are NULL", o->n_stop);
  else return true;
  fe_note_value(logits, "the logits");
  return false;
}

static bool check_history(const Sampler *s) {
  tn_tensor h = s->o->history;
  if (!h.fn) return true;
  if (!check_dtype(h, DT_I64, "the tokens of the history", s->o->at)) return false;
  if (fe_rank(h) == 2 && fe_axis_dim(h, 0).i == s->batch.i) return true;
  fe_error(s->f->p, E_SHAPE, s->o->at, "the history is i64 [B, n], a row for each of the logits, not %s",
           fe_type_text(h));
  fe_note_value(h, "the history");
  return false;
}

// ---- the draw
// Where the history has a word several times, each time the same number is put.
static tn_tensor penalised(const Sampler *s, tn_tensor x) {
  const tn_sample_options *o = s->o;
  if (!o->history.fn || !(o->penalties.fn || o->repetition_penalty > 0)) return x;
  const Attr attr[] = {ir_a_int(KEY_axis, 1), ir_a_int(KEY_padded, 1)};
  tn_tensor by = number_of(s, o->penalties, o->repetition_penalty);
  tn_tensor had = fe_emit(OP_gather, (const tn_tensor[]){x, o->history}, 2, attr, 2, o->at);
  tn_tensor is_more = op2(OP_gt, had, fe_const(s->f, 0, o->at), o->at);
  tn_tensor put = op3(OP_select, is_more, op2(OP_div, had, by, o->at), op2(OP_mul, had, by, o->at), o->at);
  return fe_emit(OP_scatter, (const tn_tensor[]){x, o->history, put}, 3, attr, 2, o->at);
}

static tn_tensor element_at(tn_tensor x, tn_tensor place, tn_site at) {
  const Attr axis = ir_a_int(KEY_axis, 1);
  return fe_emit(OP_gather, (const tn_tensor[]){x, place}, 2, &axis, 1, at);
}

// i64 [B,1]: the first place in each row of sums [B,k] that reaches `least` [B,1]
static tn_tensor reached(tn_tensor sums, tn_tensor least, tn_site at) {
  return fe_emit(OP_searchsorted, (const tn_tensor[]){sums, least}, 2, NULL, 0, at);
}

// u [B,1]. None of weight 0 is drawn: what is reached is above 0.
static tn_tensor drawn(const Sampler *s, tn_tensor x, tn_tensor u) {
  const tn_sample_options *o = s->o;
  tn_site at = o->at;
  Prog *p = s->f->p->ir;
  const Attr axis = ir_a_int(KEY_axis, 1),
             top[] = {ir_a_list(KEY_axes, ir_shape_ints(p, (const int64_t[]){1}, 1)), ir_a_int(KEY_keepdim, 1)};
  bool limits_p = o->top_ps.fn || o->top_p > 0;
  tn_tensor best = fe_emit(OP_amax, &x, 1, top, 2, at), words = {0};
  if (o->top_k || limits_p) {
    const Attr attr[] = {axis, ir_a_int(KEY_descending, 1), ir_a_int(KEY_size, o->top_k)};
    tn_tensor first = fe_emit(o->top_k ? OP_topk : OP_sort, &x, 1, attr, o->top_k ? 3 : 2, at);
    if (!fe_ok(first)) return first;
    x = first, words = (tn_tensor){s->f, first.v + 1};
  }
  tn_tensor heat = op2(OP_max, number_of(s, o->temperatures, o->temperature), fe_const(s->f, FLT_MIN, at), at);
  tn_tensor weight = fe_emit1(OP_exp, op2(OP_div, op2(OP_sub, x, best, at), heat, at), at);
  weight = op2(OP_fmax, weight, fe_const(s->f, 0, at), at);  // NaN counts nothing
  tn_tensor sums = fe_ok(weight) ? fe_emit(OP_cumsum, &weight, 1, &axis, 1, at) : weight;
  if (!fe_ok(sums)) return sums;
  Dim one = ir_dim(p, 1), last = ir_dim_sub(p, fe_axis_dim(sums, 1), one);
  tn_tensor all = fe_part(sums, 1, last, one, at);
  if (limits_p) {
    tn_tensor part = op2(OP_mul, all, number_of(s, o->top_ps, o->top_p), at);
    all = fe_ok(part) ? element_at(sums, reached(sums, op2(OP_min, part, all, at), at), at) : part;
  }
  tn_tensor least = op2(OP_min, all, fe_const(s->f, 0x1p-149, at), at);
  least = op2(OP_max, op2(OP_mul, op2(OP_sub, fe_const(s->f, 1, at), u, at), all, at), least, at);
  tn_tensor place = fe_ok(least) ? reached(sums, least, at) : least;
  return words.fn && fe_ok(place) ? element_at(words, place, at) : place;
}

static tn_tensor is_stop(const Sampler *s, tn_tensor tokens) {
  tn_tensor y = {0};
  for (uint32_t k = 0; k < s->o->n_stop; k++) {
    tn_tensor is = op2(OP_eq, tokens, fe_number(s->f, (double)s->o->stop[k], DT_I64, s->o->at), s->o->at);
    y = k ? op2(OP_bitwise_or, y, is, s->o->at) : is;
  }
  return y.fn ? y : fe_full(s->f, 0, fe_shape_of(tokens), DT_BOOL, s->o->at);
}

tn_sampled tn_sample_tokens(tn_tensor logits, tn_tensor seeds, tn_tensor counters, tn_sample_options o) {
  tn_function *f;
  tn_tensor all[7] = {logits, seeds, counters};
  uint32_t n = 3;
  const tn_tensor more[] = {o.temperatures, o.top_ps, o.penalties, o.history};
  for (uint32_t k = 0; k < 4; k++)
    if (more[k].fn) all[n++] = more[k];
  bool joined = fe_join(all, n, &f, o.at);
  const tn_sampled poisoned = {fe_poison(f), fe_poison(f)};
  if (!joined) return poisoned;
  FE_GUARD(f->p, poisoned);
  if (fe_ins(logits)->dtype != DT_F32 || fe_rank(logits) != 2 || !ir_dim_is_const(f->p->ir, fe_axis_dim(logits, 1)) ||
      ir_dim_bound(f->p->ir, fe_axis_dim(logits, 1)) < 1) {
    fe_error(f->p, E_SHAPE, o.at, "logits are f32 [B, words] with a constant number of words, not %s",
             fe_type_text(logits));
    fe_note_value(logits, "the logits");
    return poisoned;
  }
  Sampler s = {&o, f, fe_axis_dim(logits, 0), fe_axis_dim(logits, 1)};
  if (!check_options(&s, logits) || !check_history(&s)) return poisoned;
  if (!check_numbers(&s, seeds, DT_I64, "the seeds") || !check_numbers(&s, counters, DT_I64, "the counters") ||
      !check_numbers(&s, o.temperatures, DT_F32, "the temperatures") ||
      !check_numbers(&s, o.top_ps, DT_F32, "the parts of the probability") ||
      !check_numbers(&s, o.penalties, DT_F32, "the penalties"))
    return poisoned;
  tn_tensor x = penalised(&s, fe_emit1(OP_stop_grad, logits, o.at));
  if (!fe_ok(x)) return poisoned;
  tn_tensor u = fe_as_column(rand_at(seeds, counters, o.at), 2, o.at);
  bool greedy = !o.temperatures.fn && o.temperature == 0;
  const Attr axis[] = {ir_a_int(KEY_axis, 1)};
  tn_tensor token = greedy ? fe_emit(OP_argmax, &x, 1, axis, 1, o.at) : drawn(&s, x, u);
  if (!fe_ok(token)) return poisoned;
  if (!greedy) token = fe_reshape(token, &s.batch, 1, o.at);
  return (tn_sampled){fe_made(token, o.at), fe_made(is_stop(&s, token), o.at)};
}
