// Buckets: which functions are planned for which smaller bounds.
//
//   {T, 16}, {T, 64}, {B, 8} with T <= 256, B <= 32, in the order in which a run tries them:
//     batch <= 8, time <= 16     batch <= 8, time <= 64     batch <= 8     time <= 16     time <= 64
//
// Bounds of several dims are combined, so that the first plan that fits is the smallest one in every dim.
#include "frontend/compile/compile.h"
#include "ir/intern.h"
#include <stdlib.h>

enum { MOST_PLANS = 64 };

typedef struct {
  Dim dim;
  int64_t *bounds;  // ascending, below the full one
  uint32_t n, cap;
  bool used;  // an input has it
} Buckets;

typedef struct {
  tn_program *p;
  Buckets *dims;
  uint32_t n_dims, cap_dims;
  tn_site at;
} Plans;

static Buckets *buckets_of(Plans *b, Dim d) {
  for (uint32_t k = 0; k < b->n_dims; k++)
    if (b->dims[k].dim.i == d.i) return &b->dims[k];
  Buckets *new = RT_PUSH(b->p->mem, b->dims, b->n_dims, b->cap_dims);
  *new = (Buckets){.dim = d};
  return new;
}

static void insert(Plans *b, Buckets *to, int64_t bound) {
  uint32_t at = 0;
  while (at < to->n && to->bounds[at] < bound) at++;
  if (at < to->n && to->bounds[at] == bound) return;
  (void)RT_PUSH(b->p->mem, to->bounds, to->n, to->cap);
  for (uint32_t k = to->n - 1; k > at; k--) to->bounds[k] = to->bounds[k - 1];
  to->bounds[at] = bound;
}

static bool take(Plans *b, const tn_bucket *o) {
  Dim d;
  if (!fe_dim(b->p, o->dim, &d, b->at)) return false;
  const DimInfo *in = ir_dim_info(b->p->ir, d);
  if (in->kind != DIM_SYM) {
    fe_error(b->p, E_ARGUMENT, b->at, "a bucket of bound %lld is for no named dim", (long long)o->bound);
    fe_hint(b->p, "buckets are smaller bounds of what tn_dim_bounded made");
    return false;
  }
  if (o->bound < 1 || o->bound > in->value) {
    fe_error(b->p, E_ARGUMENT, b->at, "the bucket %s <= %lld does not lie in [1, %lld], the bound of the dim",
             ir_text(b->p->ir, in->name), (long long)o->bound, (long long)in->value);
    return false;
  }
  Buckets *to = buckets_of(b, d);
  if (o->bound < in->value) insert(b, to, o->bound);
  return true;
}

// A run knows a dim from the axes of inputs alone.
static bool has_input(const Fn *f, Dim d) {
  for (uint32_t v = 1; v < f->n_ins; v++) {
    if (f->ins[v].op != OP_input) continue;
    for (uint32_t k = 0; k < ir_rank(f->prog, f->ins[v].shape); k++)
      if (ir_dim_at(f->prog, f->ins[v].shape, k).i == d.i) return true;
  }
  return false;
}

// Plan number k of the combinations of the dims in `list`, the last dim fastest; the last plan has no fits.
static void add_variant(Plans *b, uint32_t of, Buckets *const *list, uint32_t n, uint64_t k) {
  tn_program *p = b->p;
  FeVariant v = {.of = of, .fits = rt_alloc(p->mem, (n + 1) * sizeof *v.fits)};
  uint64_t digit[MOST_PLANS];
  for (uint32_t d = n; d-- > 0; k /= list[d]->n + 1) digit[d] = k % (list[d]->n + 1);
  for (uint32_t d = 0; d < n; d++)
    if (digit[d] < list[d]->n) v.fits[v.n_fits++] = (DimFit){list[d]->dim, list[d]->bounds[digit[d]]};
  v.ir = ir_fn_specialize(p->ir->fns[of], v.fits, v.n_fits);
  *RT_PUSH(p->mem, p->variants, p->n_variants, p->cap_variants) = v;
}

static bool plan_function(Plans *b, uint32_t of) {
  const Fn *f = b->p->ir->fns[of];
  Buckets *list[MOST_PLANS];
  uint32_t n = 0;
  uint64_t n_plans = 1;
  for (uint32_t k = 0; k < b->n_dims && n_plans <= MOST_PLANS; k++) {
    if (!has_input(f, b->dims[k].dim)) continue;
    b->dims[k].used = true;
    if (!b->dims[k].n) continue;
    list[n++] = &b->dims[k];
    n_plans *= b->dims[k].n + 1;
  }
  if (n_plans > MOST_PLANS) {
    fe_error(b->p, E_ARGUMENT, b->at, "the buckets give function '%s' more than %d plans", ir_text(b->p->ir, f->name),
             MOST_PLANS);
    fe_hint(b->p, "bounds of several dims are combined: give fewer");
    return false;
  }
  for (uint64_t k = 0; k + 1 < n_plans; k++) add_variant(b, of, list, n, k);
  return true;
}

bool fe_buckets(tn_program *p, const tn_compile_options *o) {
  Plans b = {.p = p, .at = o->at};
  bool good = true;
  if (o->n_buckets && !o->buckets) {
    fe_error(p, E_ARGUMENT, o->at, "the list of %zu buckets is missing", o->n_buckets);
    return false;
  }
  for (size_t k = 0; k < o->n_buckets; k++) good &= take(&b, &o->buckets[k]);
  for (uint32_t k = 0; k < p->n_built && good; k++) good = p->ir->fns[k] == p->init || plan_function(&b, k);
  for (uint32_t k = 0; k < b.n_dims && good; k++) {
    if (b.dims[k].used) continue;
    fe_error(p, E_ARGUMENT, o->at, "no input has the dim '%s', so that a run cannot choose by it",
             ir_text(p->ir, ir_dim_info(p->ir, b.dims[k].dim)->name));
    good = false;
  }
  return good;
}
