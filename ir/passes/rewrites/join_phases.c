// Pass join_phases: a concat of all phases of an array is a permutation of it. It runs before gradients, so that theirs is one, too.
//
//   %r = slice %x {axis=1, count=2, step=2}            %s = slice %x {axis=1, start=1, count=2, step=2}
//   %y = concat %r, %s {axis=2} : f32[n,2,6]           of %x: f32[n,4,3]
//     ->
//   %y = reshape (reshape %x : f32[n,2,2,3]) : f32[n,2,6]
//
// and of several axes, in any order, with a permute between the two: of images it is called space to depth, focus or patch
// merging. Not where others read a slice: it is stored then.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/slice.h"
#include <string.h>

// An axis whose phases the operands are, and how many operands lie between one of its phases and the next
typedef struct {
  uint32_t axis;
  int64_t step, apart;
} Cut;

typedef struct {
  Val x;
  uint32_t n_cuts;
  Cut cut[MAX_RANK];  // by `apart`, the largest first
} Phases;

enum { MOST_OPERANDS = 64, MOST_SLICES = 3 * MOST_OPERANDS };

typedef struct {
  int64_t start[MAX_RANK], step[MAX_RANK];
} Phase;

static int64_t number(const Fn *f, Dim d) { return ir_dim_info(f->prog, d)->value; }

// Every step-th element of an axis that these divide; one axis is cut once.
static bool cuts(const Fn *f, Val v, Phase *p) {
  Slice s;
  ir_slice(f, v, &s);
  bool is_const = ir_none(s.at) && ir_dim_is_const(f->prog, s.start) && ir_dim_is_const(f->prog, s.size) &&
                  ir_dim_is_const(f->prog, s.count) && ir_dim_is_const(f->prog, s.step);
  if (!is_const || s.reverse || p->step[s.axis] || number(f, s.count) < 1) return false;
  int64_t start = number(f, s.start), step = number(f, s.step);
  if (step < 2 || start < 0 || start >= step || number(f, s.count) * step != number(f, s.size)) return false;
  p->start[s.axis] = start, p->step[s.axis] = step;
  return true;
}

// The array that v is a phase of
static Val phase_of(const Fn *f, Val v, Phase *p) {
  *p = (Phase){0};
  while (ir_ins(f, v)->op == OP_slice && cuts(f, v, p)) v = ir_arg(f, v, 0);
  return v;
}

// ---- nobody else reads the slices
typedef struct {
  Val of[MOST_SLICES];
  uint32_t n, n_reads[MOST_SLICES];
} Slices;

// Its place in the list, at the end if it is new; MOST_SLICES: there is no room.
static uint32_t place_of(Slices *s, Val v) {
  uint32_t k = 0;
  while (k < s->n && s->of[k].i != v.i) k++;
  if (k == s->n && k < MOST_SLICES) s->of[s->n++] = v;
  return k;
}

static bool reads_alone(const Fn *f, const uint32_t *uses, Val y, Val x) {
  Slices s = {0};
  for (uint32_t k = 0; k < ir_ins(f, y)->n_args; k++)
    for (Val v = ir_arg(f, y, k); v.i != x.i; v = ir_arg(f, v, 0)) {
      uint32_t known = s.n, at = place_of(&s, v);
      if (at == MOST_SLICES) return false;
      s.n_reads[at]++;
      if (at < known) break;  // and what it reads was counted
    }
  for (uint32_t k = 0; k < s.n; k++)
    if (uses[s.of[k].i] != s.n_reads[k]) return false;
  return true;
}

// ---- all phases, in order
// Operand number `apart` is the first but one along `axis`, and the first along all others; 0: none is.
static int64_t apart_of(const Phase *p, uint32_t n, uint32_t rank, uint32_t axis) {
  for (uint32_t k = 1; k < n; k++) {
    bool is_next = true;
    for (uint32_t j = 0; j < rank; j++) is_next &= p[k].start[j] == (j == axis);
    if (is_next) return k;
  }
  return 0;
}

static void add_cut(Phases *p, Cut cut) {
  uint32_t at = p->n_cuts++;
  for (; at && p->cut[at - 1].apart < cut.apart; at--) p->cut[at] = p->cut[at - 1];
  p->cut[at] = cut;
}

static bool are_all(const Fn *f, Val y, Phases *p) {
  Phase of[MOST_OPERANDS];
  uint32_t n = ir_ins(f, y)->n_args, rank = ir_rank(f->prog, ir_ins(f, y)->shape);
  int64_t all = 1;
  p->x = phase_of(f, ir_arg(f, y, 0), &of[0]);
  for (uint32_t k = 1; k < n; k++)
    if (phase_of(f, ir_arg(f, y, k), &of[k]).i != p->x.i || memcmp(of[k].step, of[0].step, sizeof of[k].step))
      return false;
  for (uint32_t j = 0; j < rank; j++) {
    if (!of[0].step[j]) continue;
    add_cut(p, (Cut){j, of[0].step[j], apart_of(of, n, rank, j)});
    if ((all *= of[0].step[j]) > n) return false;
  }
  for (uint32_t k = 0; k < n; k++) {
    int64_t at = 0;
    for (uint32_t c = 0; c < p->n_cuts; c++) at += of[k].start[p->cut[c].axis] * p->cut[c].apart;
    if (at != k) return false;
  }
  return all == n && p->n_cuts && rank + p->n_cuts <= MAX_RANK;
}

static bool finds_phases(const Fn *f, const uint32_t *uses, Val y, Phases *p) {
  const Ins *ins = ir_ins(f, y);
  *p = (Phases){0};
  bool is_whole = ins->op == OP_concat && !ir_attr(f, y, KEY_starts) && ins->n_args > 1 && ins->n_args <= MOST_OPERANDS;
  return is_whole && are_all(f, y, p) && reads_alone(f, uses, y, p->x);
}

// ---- as a permutation
static const Cut *cut_of(const Phases *p, uint32_t axis) {
  for (uint32_t c = 0; c < p->n_cuts; c++)
    if (p->cut[c].axis == axis) return &p->cut[c];
  return NULL;
}

// x with each axis that is cut as two, place and phase; the phases go before the axis of the concat.
static Val permutation(Fn *f, const Phases *p, Val x, uint32_t along, Shape to, Loc loc) {
  Prog *prog = f->prog;
  Shape s = ir_ins(f, x)->shape;
  Dim d[MAX_RANK];
  int64_t perm[MAX_RANK], place[MAX_RANK], phase[MAX_RANK];
  uint32_t rank = ir_rank(prog, s), n = 0, at = 0;
  for (uint32_t j = 0; j < rank; j++) {
    const Cut *c = cut_of(p, j);
    Dim size = ir_dim_at(prog, s, j);
    place[j] = n, d[n++] = c ? ir_dim(prog, number(f, size) / c->step) : size;
    if (c) phase[j] = n, d[n++] = ir_dim(prog, c->step);
  }
  for (uint32_t j = 0; j < rank; perm[at++] = place[j++])
    for (uint32_t c = 0; j == along && c < p->n_cuts; c++) perm[at++] = phase[p->cut[c].axis];
  Val apart = ir_reshaped(f, x, ir_shape(prog, d, n), loc);
  return ir_reshaped(f, ir_permuted(f, apart, ir_shape_ints(prog, perm, n), loc), to, loc);
}

bool ir_pass_join_phases(Fn *f) {
  Prog *p = f->prog;
  uint32_t n = f->n_ins, n_found = 0;
  const uint32_t *uses = NULL;
  Phases *found = NULL;
  uint32_t *of = NULL;  // by value: 1 + its row of `found`
  for (uint32_t i = 1, cap = 0; i < n; i++) {
    Phases own;
    if (f->ins[i].op != OP_concat) continue;
    if (!uses) uses = ir_count_uses(f), of = rt_alloc(p->mem, n * sizeof *of);
    if (!finds_phases(f, uses, (Val){i}, &own)) continue;
    *RT_PUSH(p->mem, found, n_found, cap) = own;
    of[i] = n_found;
  }
  if (!n_found) return true;
  Rewrite e;
  uint32_t scope = f->cur_scope;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    if (e.old[i].op == OP_result) continue;
    Val v = ir_rewrite_copy(&e, (Val){i});
    if (!of[i]) continue;
    const Phases *own = &found[of[i] - 1];
    Ins ins = *ir_ins(f, v);
    f->cur_scope = ins.scope;
    Val now = permutation(f, own, e.map[own->x.i], (uint32_t)ir_attr_int(f, v, KEY_axis, 0), ins.shape, ins.loc);
    for (uint32_t k = v.i + 1; k <= now.i; k++) ir_copy_origin(ir_ins(f, (Val){k}), &ins);
    ir_copy_metadata(ir_ins(f, now), &ins);
    ir_rewrite_replace(&e, (Val){i}, now);
  }
  f->cur_scope = scope;
  ir_rewrite_end(&e);
  ir_eliminate_dead(f);
  return true;
}
