// What the host checks of the sizes of a run: that none is below 0, where the bounds of its parts leave it open, and that
// slices from a size of the run on lie in their axis. Sizes of the function as it was built count, whether or not passes
// still need them; those that passes made are added when the plan is.
//
//   %y = slice %x {axis=0, start=2, count=n-3}      n-3 >= 0, and n-2-(n-3) = 1 >= 0 for any n
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/packed_dims.h"
#include "ir/passes/plan.h"
#include "ir/scan.h"
#include "ir/slice.h"

static bool is_checked(const Fn *f, Dim d) {
  for (uint32_t k = 0; k < f->n_size_checks; k++)
    if (f->size_checks[k].dim.i == d.i) return true;
  return false;
}

// "the size time-3 (gpt.c:12)": where it was computed, else where it is used.
static const char *text_of(const Fn *f, Dim d, Loc used, bool is_room) {
  RtText text = {.mem = f->prog->mem};
  Loc at = is_room || !ir_dim_info(f->prog, d)->loc.i ? used : ir_dim_info(f->prog, d)->loc;
  rt_text_add(&text, is_room ? "what a slice leaves of its axis, " : "the size ");
  ir_dim_text(f->prog, d, &text);
  if (!ir_loc_file(f->prog, at)) return text.text;
  rt_text_add(&text, " (");
  ir_loc_text(f->prog, at, &text);
  rt_text_add(&text, ")");
  return text.text;
}

static void add(Fn *f, Dim d, Loc used, bool is_room) {
  if (is_checked(f, d)) return;
  const char *what = text_of(f, d, used, is_room);
  *RT_PUSH(f->prog->mem, f->size_checks, f->n_size_checks, f->cap_size_checks) = (SizeCheck){d, what};
}

// No factor of a product may be below 0: its bound relies on that (ir_dim_bound).
static void need(Fn *f, Dim d, Loc used, bool is_room) {
  Prog *p = f->prog;
  DimInfo i = *ir_dim_info(p, d);
  bool has_sign = i.kind == DIM_MUL && ir_dim_is_const(p, i.b) && ir_dim_least(p, i.b) < 0;
  if (i.kind != DIM_MUL || has_sign) {
    if (ir_dim_least(p, d) < 0) add(f, d, used, is_room);
    return;
  }
  need(f, i.a, used, is_room);
  need(f, i.b, used, is_room);
}

static void need_slice(Fn *f, Val v) {
  Slice s;
  Prog *p = f->prog;
  ir_slice(f, v, &s);
  Loc used = f->ins[v.i].loc;
  need(f, s.start, used, false);
  need(f, s.count, used, false);
  need(f, ir_dim_sub(p, s.step, ir_dim(p, 1)), used, false);
  if (ir_none(s.at) && !ir_slice_is_rest(p, &s)) need(f, s.last_start, used, true);
}

static void need_windows(Fn *f, Val v) {
  Prog *p = f->prog;
  Dim all = ir_dim_at(p, ir_ins(f, ir_arg(f, v, 0))->shape, (uint32_t)ir_attr_int(f, v, KEY_axis, 0));
  if (!ir_windows_are_all(f, v)) need(f, ir_dim_sub(p, all, ir_windows_span(f, v)), f->ins[v.i].loc, true);
}

// Divisors must be above 0.
static void need_divisors(Fn *f, Dim d, Loc used) {
  DimInfo i = *ir_dim_info(f->prog, d);
  if (!ir_dim_has_parts(&i)) return;
  if (i.kind == DIM_DIV) need(f, ir_dim_sub(f->prog, i.b, ir_dim(f->prog, 1)), used, false);
  need_divisors(f, i.a, used);
  need_divisors(f, i.b, used);
}

static void need_shape(Fn *f, Shape s, Loc used) {
  for (uint32_t k = 0; k < ir_rank(f->prog, s); k++) {
    need(f, ir_dim_at(f->prog, s, k), used, false);
    need_divisors(f, ir_dim_at(f->prog, s, k), used);
  }
}

static void need_sizes_of(Fn *f, Val v) {
  Op op = (Op)f->ins[v.i].op;
  const Attr *dim = ir_attr(f, v, KEY_dim);
  need_shape(f, f->ins[v.i].shape, f->ins[v.i].loc);
  if (dim) need(f, dim->u.dim, f->ins[v.i].loc, false);
  if (op == OP_slice || op == OP_slice_assign) need_slice(f, v);
  if (op == OP_windows) need_windows(f, v);
  if (op != OP_scan) return;
  const Fn *body = ir_scan_at(f, v).body;
  for (uint32_t k = 0; k < body->n_size_checks; k++)
    if (!is_checked(f, body->size_checks[k].dim))
      *RT_PUSH(f->prog->mem, f->size_checks, f->n_size_checks, f->cap_size_checks) = body->size_checks[k];
}

bool ir_find_size_checks(Fn *f) {
  uint32_t known = f->n_size_checks;
  for (uint32_t i = 1; i < f->n_ins; i++) need_sizes_of(f, (Val){i});
  bool good = true;
  for (uint32_t k = known; k < f->n_size_checks; k++) {
    if (!ir_dim_found_by_run(f, f->size_checks[k].dim)) continue;
    rt_diag(&f->prog->diags, RT_ERROR, E_SHAPE, NULL, 0, "%s can be below 0, and only the run finds it",
            f->size_checks[k].what);
    good = false;
  }
  return good;
}

const SizeCheck *ir_negative_size(const Fn *f, const int64_t *slots) {
  for (uint32_t k = 0; k < f->n_size_checks; k++)
    if (ir_dim_eval(f->prog, f->size_checks[k].dim, slots) < 0) return &f->size_checks[k];
  return NULL;
}
