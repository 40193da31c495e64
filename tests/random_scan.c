// The step of the random generator that adds a scan: over a packed layout or a dense axis, with slices and carries of a
// row each and of one value for all, a body of further steps, outputs and last values. One may stand in another.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

enum { MAX_AROUND = 3, MAX_SLICES = 2, MAX_CARRIES = 3, MAX_OUTPUTS = 3 };

typedef struct {
  Attr number, live;
  Layout layout;  // none: dense
  Dim time;
  Val slice[MAX_SLICES], first[MAX_CARRIES], carry[MAX_CARRIES];
  bool by_row[MAX_CARRIES];
  uint32_t n_slices, n_carries, begin;
  uint32_t around;  // scans that it stands in
  Dim outer_live;   // the rows of the step around it
  double mag;       // of what carries hold
} Scanned;

static bool is_packed(const Scanned *s) { return !ir_none(s->layout.v); }

static bool begins_with(const Gen *g, Val v, Dim d) {
  Dims s = gen_dims(g, v);
  return s.n && s.d[0].i == d.i;
}

static Val dense_steps(Gen *g, Dim time) {
  for (uint32_t k = g->n; k-- > 0;)
    if (begins_with(g, g->pool[k].v, time) && gen_chance(g, 50)) return g->pool[k].v;
  Dims d = {{time, gen_chance(g, 40) ? g->batch : ir_dim(g->p, 1 + gen_below(g, 9)), ir_dim(g->p, 1 + gen_below(g, 9))},
            1 + gen_below(g, 3)};
  return gen_is_small(g, gen_shape(g, &d)) ? gen_leaf(g, gen_shape(g, &d)) : (Val){0};
}

// Mostly of the shape of a slice, so that the two are computed with each other.
static Val first_of_carry(Gen *g, Scanned *s, bool by_row) {
  if (by_row) return gen_per_sequence(g, &s->layout);
  if (is_packed(s) || !s->n_slices || gen_chance(g, 30)) return gen_pick(g);
  Dims d = gen_dims(g, s->slice[0]);
  for (uint32_t k = 1; k < d.n; k++) d.d[k - 1] = d.d[k];
  d.n--;
  return gen_leaf(g, gen_shape(g, &d));
}

static void add_operands(Gen *g, Scanned *s) {
  for (uint32_t k = gen_below(g, MAX_SLICES + 1); k > 0; k--) {
    Val x = is_packed(s) ? gen_rows_of(g, &s->layout, false) : dense_steps(g, s->time);
    if (!ir_none(x)) s->slice[s->n_slices++] = x;
  }
  for (uint32_t k = gen_below(g, MAX_CARRIES + 1); k > 0; k--) {
    bool by_row = is_packed(s) && gen_chance(g, 75);
    Val h = first_of_carry(g, s, by_row);
    if (ir_none(h) || !gen_is_f32(g, h)) continue;
    h = gen_tame(g, h, 8);
    if (gen_mag(g, h) > s->mag) s->mag = gen_mag(g, h);
    s->first[s->n_carries] = h, s->by_row[s->n_carries++] = by_row;
  }
}

static void begin(Gen *g, Scanned *s) {
  Attr a[3] = {s->number, is_packed(s) ? s->live : ir_a_dim(KEY_time, s->time), ir_a_int(KEY_reverse, 1)};
  gen_emit(g, OP_scan_begin, &s->layout.v, is_packed(s), a, 2 + gen_chance(g, 40));
  s->begin = g->f->n_ins;
  for (uint32_t k = 0; k < s->n_slices; k++) {
    Val v = gen_emit(g, OP_scan_input, &s->slice[k], 1, (Attr[]){s->number, s->live}, 1 + is_packed(s));
    gen_keep(g, v, gen_mag(g, s->slice[k]));
  }
  for (uint32_t k = 0; k < s->n_carries; k++) {
    Attr own[] = {s->number, ir_a_int(KEY_index, k), s->live};
    s->carry[k] = gen_keep(g, gen_emit(g, OP_scan_carry, &s->first[k], 1, own, 2 + s->by_row[k]), s->mag);
  }
}

// A value of the body with the shape of carry k.
static Val next_of(Gen *g, const Scanned *s, uint32_t k) {
  Val found = s->carry[k];
  for (uint32_t j = g->n; j-- > 0 && found.i == s->carry[k].i;) {
    Val v = g->pool[j].v;
    bool fits = gen_is_f32(g, v) && gen_shape_at(g, v).i == gen_shape_at(g, s->carry[k]).i;
    if (fits && gen_chance(g, 60)) found = v;
  }
  bool is_carry = false;
  for (uint32_t j = 0; j < s->n_carries; j++) is_carry |= found.i == s->carry[j].i;
  if (is_carry && gen_chance(g, 50)) return found;  // as it is, or in another's place
  Val y = gen_op1(g, gen_chance(g, 70) ? OP_tanh : OP_sin, found);
  return gen_chance(g, 30) ? gen_op2(g, OP_mul, y, gen_number(g, 0.5)) : y;
}

// What the body has read of a carry without rows knew of none: rows of a layout that it becomes are just rows.
static Val with_rows_of(Gen *g, Val carry, Val next) {
  bool becomes_rows = ir_rows_at(g->rows, next).layout && !ir_rows_at(g->rows, carry).layout;
  return becomes_rows ? gen_emit(g, OP_rows, &next, 1, NULL, 0) : next;
}

// What a packed scan stacks of values without rows only scans over the same layout may read.
static bool may_be_stacked(Gen *g, const Scanned *s, Val v) {
  int64_t steps = ir_dim_bound(g->p, is_packed(s) ? s->layout.time : s->time);
  bool small = ir_shape_bound(g->p, gen_shape_at(g, v)) * steps <= 2 * MAX_ELEMENTS;
  return small && gen_dims(g, v).n < 6 && (!is_packed(s) || begins_with(g, v, s->live.u.dim));
}

static void add_output(Gen *g, const Scanned *s, Val v) {
  Attr a[] = {s->number, is_packed(s) ? ir_a_dim(KEY_rows, s->layout.rows) : ir_a_dim(KEY_time, s->time), s->live};
  gen_keep(g, gen_emit(g, OP_scan_output, &v, 1, a, 2 + is_packed(s)), gen_mag(g, v));
}

static uint32_t add_outputs(Gen *g, const Scanned *s) {
  uint32_t made = 0, n = gen_below(g, MAX_OUTPUTS + 1);
  Item before[MAX_POOL];
  uint32_t n_before = g->n;
  for (uint32_t k = 0; k < n_before; k++) before[k] = g->pool[k];
  for (uint32_t k = n_before; k-- > 0 && made < n;) {
    if (before[k].v.i < s->begin || !gen_chance(g, 50) || !may_be_stacked(g, s, before[k].v)) continue;
    add_output(g, s, before[k].v);
    made++;
  }
  return made;
}

// What lies in the body cannot be read behind it; leaves can.
static void leave_body(Gen *g, const Scanned *s) {
  for (uint32_t k = g->n; k-- > 0;) {
    Val v = g->pool[k].v;
    Op op = (Op)ir_ins(g->f, ir_head(g->f, v))->op;
    bool is_leaf = op == OP_input || op == OP_param, hands_out = op == OP_scan_output;
    bool stays = is_leaf || (hands_out && ir_attr_int(g->f, v, KEY_scan, -1) == s->number.u.i);
    if (v.i >= s->begin && !stays) gen_forget(g, v);
  }
}

static void end(Gen *g, const Scanned *s) {
  for (uint32_t k = 0; k < s->n_carries; k++) {
    Val next = with_rows_of(g, s->carry[k], next_of(g, s, k));
    gen_emit(g, OP_scan_next, &next, 1, (Attr[]){s->number, ir_a_int(KEY_index, k)}, 2);
  }
  uint32_t n_outputs = add_outputs(g, s);
  if (!s->n_carries && !n_outputs) {
    Val v = gen_emit(g, OP_scan_input, &s->slice[0], 1, (Attr[]){s->number, s->live}, 1 + is_packed(s));
    add_output(g, s, v);
  }
  leave_body(g, s);
  gen_emit(g, OP_scan_end, NULL, 0, &s->number, 1);
  g->in_scan = s->around, g->live = s->outer_live;
  for (uint32_t k = 0; k < s->n_carries; k++) {
    Attr a[] = {s->number, ir_a_int(KEY_index, k)};
    if (gen_chance(g, 70)) gen_keep(g, gen_emit(g, OP_scan_final, &s->first[k], 1, a, 2), s->mag);
  }
}

void add_scan(Gen *g) {
  if (g->in_scan == MAX_AROUND) return;
  const Layout *l = gen_chance(g, 50) ? gen_some_layout(g) : NULL;
  Scanned s = {.number = ir_a_int(KEY_scan, g->n_scans), .mag = 1, .around = g->in_scan, .outer_live = g->live};
  if (l) s.layout = *l;
  else s.time = gen_chance(g, 50) ? ir_dim(g->p, 1 + gen_below(g, 7)) : gen_chance(g, 70) ? g->time : g->any;
  add_operands(g, &s);
  if (s.n_slices + s.n_carries == 0) return;
  if (l) s.live = ir_a_dim(KEY_live, ir_dim_sym(g->p, gen_fresh(g, "live"), ir_dim_bound(g->p, s.layout.batch)));
  g->n_scans++;
  g->in_scan++, g->live = l ? s.live.u.dim : g->live;
  begin(g, &s);
  for (uint32_t k = 1 + gen_below(g, 7); k > 0; k--) gen_add_step(g);
  end(g, &s);
}
