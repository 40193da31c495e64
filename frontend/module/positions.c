// Positional encodings: y = x + the first T rows of a table, for x [.., T, size]; T may be a size of the run. Packed rows
// [rows, size] take the row of their step.
//
// The table is learnt, or made of sines and cosines by the function that makes initial values. Angles grow up to the
// number of positions, where f32 has few digits left behind the point: a frequency is split in two, so that position times
// the first part is exact.
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "frontend/module/layers.h"
#include "frontend/module/tree.h"
#include "frontend/run/finite.h"

#include <math.h>

// ---- adding
// The time axis: of x, or of the layout whose rows x has.
static Dim steps_of(tn_tensor x) {
  return fe_rank(x) == 2 && fe_rows_of(x) ? fe_axis_dim((tn_tensor){x.fn, fe_rows_of(x)}, 1)
                                          : fe_axis_dim(x, fe_rank(x) - 2);
}

static bool check_value(const tn_module *m, tn_tensor x, tn_site at) {
  Prog *p = m->p->ir;
  uint32_t rank = fe_rank(x);
  if (rank >= 2 && ir_list_at(p, fe_shape_of(x), rank - 1) == m->config.out &&
      ir_dim_bound(p, steps_of(x)) <= m->config.in)
    return true;
  fe_error(m->p, E_SHAPE, at, "module '%s' takes [..,T,%lld] with T up to %lld, not %s", m->path,
           (long long)m->config.out, (long long)m->config.in, fe_type_text(x));
  fe_note_value(x, "the value");
  return false;
}

static tn_tensor add_rows(tn_module *m, tn_tensor x, tn_site at) {
  if (!check_value(m, x, at)) return fe_poison(x.fn);
  bool is_packed = fe_rank(x) == 2 && fe_rows_of(x);
  if (!is_packed && !fe_steps_apart(x, fe_rank(x) - 2, "tn_call", at)) return fe_poison(x.fn);
  tn_tensor table = fe_read(x.fn, m->entries[0].param, at);
  Attr attrs[] = {ir_a_int(KEY_axis, 0), ir_a_dim(KEY_count, steps_of(x))};
  tn_tensor rows =
      is_packed ? fe_emit2(OP_embedding, table, fe_row_steps(x, at), at) : fe_emit(OP_slice, &table, 1, attrs, 2, at);
  if (!fe_ok(rows)) return rows;
  tn_tensor y = fe_emit2(OP_add, x, rows, at);
  return m->config.rate > 0 && fe_ok(y) ? fe_dropout(y, m->config.rate, at) : y;
}

static tn_module *make(tn_module *parent, const char *name, const char *kind, int64_t most, int64_t size,
                       const tn_position_options *o) {
  tn_module *m = fe_built_in(parent, name, kind, add_rows, o->at);
  if (!fe_check_sizes(m, most, size, o->at)) return m;
  m->config.in = most, m->config.out = size, m->config.rate = o->dropout;
  m->poisoned = !(o->dropout >= 0 && o->dropout <= 1);
  if (m->poisoned) fe_error(m->p, E_ARGUMENT, o->at, "dropout takes a probability in [0, 1], not %g", o->dropout);
  return m;
}

tn_module *tn_learned_positions(tn_module *parent, const char *name, int64_t most, int64_t size,
                                tn_position_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = make(parent, name, "LearnedPositions", most, size, &o);
  const tn_init normal = {TN_INIT_NORMAL, 0, 1};
  if (!m->poisoned) fe_module_param(m, "weight", (const int64_t[]){most, size}, 2, normal, o.at);
  return m;
}

// ---- sines and cosines
// The highest bits of x, so many that their product with a whole number below `most` has 24.
static double leading(double x, int64_t most) {
  int bits = 24, exponent;
  for (int64_t n = 1; n < most && bits > 2; n *= 2) bits--;
  double fraction = frexp(x, &exponent);
  return ldexp(floor(ldexp(fraction, bits)), exponent - bits);
}

// [1, size / 2]: the frequencies, or what their leading bits leave
static tn_tensor frequencies(tn_function *f, const tn_module *m, double base, bool rest, tn_site at) {
  Prog *p = f->p->ir;
  uint32_t n = (uint32_t)(m->config.out / 2);
  Dim one = ir_dim(p, 1);
  tn_tensor *part = rt_alloc(f->p->mem, n * sizeof *part);
  for (uint32_t k = 0; k < n; k++) {
    double x = pow(base, -2.0 * k / (double)m->config.out), first = leading(x, m->config.in);
    part[k] = fe_reshape(fe_const(f, rest ? x - first : first, at), &one, 1, at);
  }
  return fe_reshape(fe_concat(part, n, 0, at), (Dim[]){one, ir_dim(p, n)}, 2, at);
}

// 0, 1, .. as [most, 1]
static tn_tensor positions(tn_function *f, int64_t most, tn_site at) {
  Prog *p = f->p->ir;
  Dim n = ir_dim(p, most);
  Attr ones[] = {ir_a_num(KEY_value, 1), ir_a_list(KEY_shape, ir_shape(p, &n, 1))}, axis = ir_a_int(KEY_axis, 0);
  tn_tensor one = fe_emit_in(f, OP_full, ones, 2, at);
  tn_tensor k = fe_emit2(OP_sub, fe_emit(OP_cumsum, &one, 1, &axis, 1, at), fe_const(f, 1, at), at);
  return fe_reshape(k, (Dim[]){n, ir_dim(p, 1)}, 2, at);
}

// sin(a + b) or cos(a + b)
static tn_tensor wave(tn_tensor a, tn_tensor b, bool is_cos, tn_site at) {
  tn_tensor sin_a = fe_emit1(OP_sin, a, at), cos_a = fe_emit1(OP_cos, a, at);
  tn_tensor sin_b = fe_emit1(OP_sin, b, at), cos_b = fe_emit1(OP_cos, b, at);
  tn_tensor x = fe_emit2(OP_mul, is_cos ? cos_a : sin_a, cos_b, at);
  return fe_emit2(is_cos ? OP_sub : OP_add, x, fe_emit2(OP_mul, is_cos ? sin_a : cos_a, sin_b, at), at);
}

// [most, size]: sine and cosine of each frequency side by side
static tn_tensor table_of(tn_function *f, const tn_module *m, double base, tn_site at) {
  Prog *p = f->p->ir;
  tn_tensor k = positions(f, m->config.in, at);
  tn_tensor a = fe_emit2(OP_mul, k, frequencies(f, m, base, false, at), at);
  tn_tensor b = fe_emit2(OP_mul, k, frequencies(f, m, base, true, at), at);
  Dim n = ir_dim(p, m->config.in), d[] = {n, ir_dim(p, m->config.out / 2), ir_dim(p, 1)};
  tn_tensor pair[2] = {fe_reshape(wave(a, b, false, at), d, 3, at), fe_reshape(wave(a, b, true, at), d, 3, at)};
  return fe_reshape(fe_concat(pair, 2, 2, at), (Dim[]){n, ir_dim(p, m->config.out)}, 2, at);
}

tn_module *tn_sinusoidal_positions(tn_module *parent, const char *name, int64_t most, int64_t size,
                                   tn_position_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = make(parent, name, "SinusoidalPositions", most, size, &o);
  double base = o.base != 0 ? o.base : 10000;
  if (m->poisoned) return m;
  m->poisoned = size % 2 || size > 8192 || !(base > 0) || !fe_is_finite(base);
  if (m->poisoned) {
    fe_error(m->p, E_ARGUMENT, o.at, "module '%s' takes an even size up to 8192 and a base above 0, not %lld and %g",
             m->path, (long long)size, base);
    return m;
  }
  tn_shape s = {.dims = {tn_dim_const(most), tn_dim_const(size)}, .rank = 2};
  tn_transient_buffer(m, "pe", s, (tn_init){TN_INIT_ZEROS, 0, 0}, o.at);
  tn_tensor table = table_of(fe_init(m->p), m, base, o.at);
  if (fe_ok(table) && m->n_entries) m->entries[0].param->value = fe_val(fe_keep(table, o.at));
  return m;
}
