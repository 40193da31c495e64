// Convolutions along packed sequences: the steps of each window side by side, and a product with the weight.
//
//   %v = seq_windows %x, %L, %L {kernel=[3], pad=[1]} : f32[rows,3*C]
//   %y = linear %v, %w : f32[rows,O]                                     w as [O, 3*C], tap by tap
//
// Where lengths change, the windows have a layout of their own (ir/conv.h).
#include "ir/conv.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "frontend/graph/spatial.h"
#include "frontend/packed/packed.h"
#include "ir/fn.h"

typedef struct {
  FeWindow w;
  int64_t c, o;  // channels
  tn_site at;
} RowConv;

// ---- products of windows with the weight
static tn_tensor shaped(tn_tensor x, const Dim *d, uint32_t n, tn_site at) {
  return fe_ok(x) ? fe_reshape(x, d, n, at) : x;
}

static tn_tensor windows(const RowConv *c, tn_tensor x, tn_tensor layout, tn_tensor own) {
  Prog *p = x.fn->p->ir;
  if (c->w.taps == 1 && own.v == layout.v && !c->w.before) return x;
  Attr attrs[] = {ir_a_list(KEY_kernel, ir_shape_ints(p, &c->w.taps, 1)),
                  ir_a_list(KEY_stride, ir_shape_ints(p, &c->w.stride, 1)),
                  ir_a_list(KEY_pad, ir_shape_ints(p, &c->w.before, 1)),
                  ir_a_list(KEY_dilation, ir_shape_ints(p, &c->w.dilation, 1))};
  return fe_emit(OP_seq_windows, (const tn_tensor[]){x, layout, own}, 3, attrs, 4, c->at);
}

static tn_tensor product(const RowConv *c, tn_tensor v, tn_tensor w) {
  Prog *p = v.fn->p->ir;
  Dim d[] = {ir_dim(p, c->o), ir_dim(p, c->w.taps * c->c)};
  w = shaped(fe_permute(w, (const uint32_t[]){0, 2, 1}, c->at), d, 2, c->at);
  return fe_binary(OP_linear, v, w, c->at);
}

// Each channel has its own filters: no product.
static tn_tensor depthwise(const RowConv *c, tn_tensor v, tn_tensor w) {
  Prog *p = v.fn->p->ir;
  Dim rows = fe_axis_dim(v, 0), taps = ir_dim(p, c->w.taps), channels = ir_dim(p, c->c), each = ir_dim(p, c->o / c->c);
  v = shaped(v, (Dim[]){rows, taps, channels, ir_dim(p, 1)}, 4, c->at);
  w = shaped(w, (Dim[]){channels, each, taps}, 3, c->at);
  tn_tensor each_tap = fe_binary(OP_mul, v, fe_permute(w, (const uint32_t[]){2, 0, 1}, c->at), c->at);
  tn_tensor y = fe_sum(each_tap, (const int[]){1}, 1, false, c->at);
  return shaped(y, (Dim[]){rows, ir_dim(p, c->o)}, 2, c->at);
}

// One product for each group: [G, rows, taps C/G] x [G, taps C/G, O/G]
static tn_tensor grouped(const RowConv *c, tn_tensor v, tn_tensor w) {
  Prog *p = v.fn->p->ir;
  Dim rows = fe_axis_dim(v, 0), taps = ir_dim(p, c->w.taps), groups = ir_dim(p, c->w.groups);
  Dim in = ir_dim(p, c->c / c->w.groups), out = ir_dim(p, c->o / c->w.groups), k = ir_dim_mul(p, taps, in);
  v = shaped(v, (Dim[]){rows, taps, groups, in}, 4, c->at);
  v = shaped(fe_permute(v, (const uint32_t[]){2, 0, 1, 3}, c->at), (Dim[]){groups, rows, k}, 3, c->at);
  w = shaped(w, (Dim[]){groups, out, in, taps}, 4, c->at);
  w = shaped(fe_permute(w, (const uint32_t[]){0, 3, 2, 1}, c->at), (Dim[]){groups, k, out}, 3, c->at);
  tn_tensor y = fe_binary(OP_matmul, v, w, c->at);
  return fe_ok(y) ? shaped(fe_permute(y, (const uint32_t[]){1, 0, 2}, c->at), (Dim[]){rows, ir_dim(p, c->o)}, 2, c->at)
                  : y;
}

// ---- the call
static bool check_sizes(RowConv *c, tn_tensor x, tn_tensor weight, tn_tensor bias) {
  tn_program *p = x.fn->p;
  int64_t each = 0;
  bool fits = fe_rank(x) == 2 && fe_rank(weight) == 3 && ir_dim_is_const(p->ir, fe_axis_dim(x, 1)) &&
              ir_shape_is_const(p->ir, fe_shape_of(weight)) && fe_ins(x)->dtype == DT_F32 &&
              fe_ins(weight)->dtype == DT_F32 && (!bias.fn || fe_rank(bias) == 1);
  if (fits) {
    c->c = ir_list_at(p->ir, fe_shape_of(x), 1), c->o = ir_list_at(p->ir, fe_shape_of(weight), 0);
    each = ir_list_at(p->ir, fe_shape_of(weight), 1);
    fits = c->o % c->w.groups == 0 && each * c->w.groups == c->c && c->c && c->o && c->w.taps;
    fits = fits && (!bias.fn || ir_list_at(p->ir, fe_shape_of(bias), 0) == c->o);
  }
  if (fits) return true;
  fe_error(p, E_SHAPE, c->at,
           "a convolution along packed sequences takes rows f32 [rows,C], a weight [O,C/groups,kernel] and a bias [O], "
           "not %s and %s in %lld groups",
           fe_type_text(x), fe_type_text(weight), (long long)c->w.groups);
  fe_note_value(x, "the data");
  fe_note_value(weight, "the weight");
  return false;
}

tn_tensor fe_convolve_rows(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o) {
  RowConv c = {.w = {.groups = 1}, .at = o.at};
  tn_tensor layout = {x.fn, fe_rows_of(x)};
  if (!fe_ok(weight) || (fe_rank(weight) == 3 && !fe_conv_window(weight, o, &c.w))) return fe_poison(x.fn);
  if (!check_sizes(&c, x, weight, bias)) return fe_poison(x.fn);
  tn_tensor own = fe_windows_layout(layout, &c.w, o.at);
  tn_tensor v = fe_ok(own) ? windows(&c, x, layout, own) : own;
  if (!fe_ok(v)) return v;
  tn_tensor y = c.w.groups == 1     ? product(&c, v, weight)
                : c.c == c.w.groups ? depthwise(&c, v, weight)
                                    : grouped(&c, v, weight);
  if (bias.fn) y = fe_binary(OP_add, y, bias, o.at);
  return y;
}

tn_packed tn_packed_conv1d(tn_packed s, tn_tensor weight, tn_tensor bias, tn_conv_options o) {
  tn_function *f;
  const tn_tensor of[] = {s.data, s.layout, weight, bias};
  if (!fe_join(of, bias.fn ? 4 : 3, &f, o.at) || !fe_join_packed(&s, 1, &f, o.at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  tn_tensor y = fe_convolve_rows(s.data, weight, bias, o);
  if (!fe_ok(y)) return fe_poisoned_packed(f);
  return fe_made_packed((tn_packed){y, {f, fe_rows_of(y)}}, tn_packed_n_members(s) == 2, o.at);
}
