// What a run takes: files, random numbers, zeros; the sizes of named dims follow from files, --dim, and bounds.
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "runtime/near.h"
#include "tools/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *shape_text(const Prog *p, RtArena *mem, const Port *in) {
  RtText t = {.mem = mem};
  rt_text_add(&t, "%s", ir_dtype_name[in->dtype]);
  if (ir_rank(p, in->shape)) ir_shape_text(p, in->shape, &t);
  else rt_text_add(&t, "[]");
  return t.text;
}

// ---- dims
static bool set_dim(ToolRun *r, Dim d, int64_t n, const char *whose) {
  const DimInfo *info = ir_dim_info(r->p, d);
  const char *name = info->kind == DIM_SYM ? ir_text(r->p, info->name) : NULL;
  int64_t *slot = name && info->slot >= 0 ? &r->slots[info->slot] : NULL;
  if (!slot) return true;  // of other dims: checked by the run
  if (n < 1 || n > info->value)
    return fprintf(stderr, "tenure: %s gives %s the size %lld, which must lie in [1, %lld]\n", whose, name,
                   (long long)n, (long long)info->value),
           false;
  if (*slot && *slot != n)
    return fprintf(stderr, "tenure: %s gives %s the size %lld, which is %lld already\n", whose, name, (long long)n,
                   (long long)*slot),
           false;
  *slot = n;
  return true;
}

static bool unknown_dim(const ToolRun *r, const char *name) {
  RtNear near = {.wanted = name};
  for (uint32_t k = 0; k < r->p->n_syms; k++)
    rt_near_offer(&near, ir_text(r->p, ir_dim_info(r->p, r->p->syms[k])->name));
  fprintf(stderr, "tenure: %s has no dim '%s'%s\n", r->path, name, rt_near_text(&near));
  return false;
}

static bool read_dims(ToolRun *r) {
  const char *given;
  for (uint32_t k = 0; (given = cli_value_at(r->args, "--dim", k)); k++) {
    const char *equals = strchr(given, '=');
    char *end;
    long long n = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (!equals || !equals[1] || *end)
      return r->status = cli_usage_error(r->args, "--dim wants NAME=SIZE, not '%s'", given), false;
    const char *name = rt_strndup(r->mem, given, (size_t)(equals - given));
    Dim d = ir_dim_find(r->p, name);
    if (!d.i) return unknown_dim(r, name);
    if (!set_dim(r, d, n, given)) return false;
  }
  return true;
}

static bool take_sizes(ToolRun *r, const Port *in) {
  uint32_t rank = ir_rank(r->p, in->shape);
  if (in->array.rank != rank)
    return fprintf(stderr, "tenure: input %s has %u axes, it wants %s\n", in->name, in->array.rank,
                   shape_text(r->p, r->mem, in)),
           false;
  const char *whose = rt_printf(r->mem, "input %s", in->name);
  for (uint32_t k = 0; k < rank; k++)
    if (!set_dim(r, ir_dim_at(r->p, in->shape, k), in->array.dims[k], whose)) return false;
  return true;
}

static void take_bounds(ToolRun *r) {
  for (uint32_t k = 0; k < r->p->n_syms; k++)
    if (!r->slots[k]) r->slots[k] = ir_dim_bound(r->p, r->p->syms[k]);
}

// ---- inputs
static Port *find_input(const ToolRun *r, const char *name) {
  RtNear near = {.wanted = name};
  for (uint32_t k = 0; k < r->f->n_inputs; k++) {
    if (!strcmp(r->in[k].name, name)) return &r->in[k];
    rt_near_offer(&near, r->in[k].name);
  }
  fprintf(stderr, "tenure: @%s has no input '%s'%s\n", ir_text(r->p, r->f->name), name, rt_near_text(&near));
  return NULL;
}

static bool is_made_up(const char *source) { return !strcmp(source, "random") || !strcmp(source, "zeros"); }

// The words behind --in NAME=, by input; NULL: not given
static bool find_sources(ToolRun *r, const char **source) {
  const char *given;
  for (uint32_t k = 0; (given = cli_value_at(r->args, "--in", k)); k++) {
    const char *equals = strchr(given, '=');
    if (!equals || !equals[1])
      return r->status =
                 cli_usage_error(r->args, "--in wants NAME=FILE.npy, NAME=random or NAME=zeros, not '%s'", given),
             false;
    if (equals - given == 1 && *given == '*') {  // all that are not named otherwise
      for (uint32_t i = 0; i < r->f->n_inputs; i++)
        if (!source[i]) source[i] = equals + 1;
      continue;
    }
    const Port *in = find_input(r, rt_strndup(r->mem, given, (size_t)(equals - given)));
    if (!in) return false;
    source[in - r->in] = equals + 1;
  }
  return true;
}

static bool refuse_missing(const ToolRun *r, const char *const *source) {
  bool all = true;
  for (uint32_t k = 0; k < r->f->n_inputs; k++) all = all && source[k];
  if (all) return true;
  fprintf(stderr, "tenure: @%s wants --in for", ir_text(r->p, r->f->name));
  for (uint32_t k = 0; k < r->f->n_inputs; k++)
    if (!source[k]) fprintf(stderr, " %s: %s", r->in[k].name, shape_text(r->p, r->mem, &r->in[k]));
  fprintf(stderr, "\n  --in NAME=FILE.npy, NAME=random or NAME=zeros; '*=random' gives all that are left\n");
  return false;
}

static bool no_such_file(const char *source) {
  RtNear near = {.wanted = source};
  rt_near_offer(&near, "random");
  rt_near_offer(&near, "zeros");
  int error = errno;
  FILE *file = fopen(source, "rb");
  if (file) return fclose(file), false;
  if (!near.name) return errno = error, false;
  fprintf(stderr, "tenure: there is no file %s%s\n", source, rt_near_text(&near));
  return true;
}

static void draw(const ToolRun *r, Port *in, int64_t spread) {
  uint32_t k = (uint32_t)(in - r->in);
  Drawn d = {.spread = spread, .seed = r->seed};
  d.n_ranges = ir_draw_ranges(r->mem, r->planned, r->slots, k, &d.ranges);
  array_fill_random(&in->array, &d, k);
}

static void make_up(ToolRun *r, uint32_t k, bool is_random) {
  Port *in = &r->in[k];
  in->is_random = is_random;
  in->array = (tn_array){.dtype = (tn_dtype)in->dtype, .rank = ir_rank(r->p, in->shape)};
  for (uint32_t d = 0; d < in->array.rank; d++)
    in->array.dims[d] = ir_dim_eval(r->p, ir_dim_at(r->p, in->shape, d), r->slots);
  in->array.data = rt_alloc(r->mem, (size_t)array_elements(&in->array) * 8 + 8);
  draw(r, in,
       is_random ? ir_draw_spreads[0] : 0);  // zeros that are no length would be refused: the least that is valid
}

bool run_draw_again(ToolRun *r) {
  bool any = false;
  if (r->n_draws + 1 >= DRAW_N_SPREADS) return false;
  for (uint32_t k = 0; k < r->f->n_inputs; k++) any |= r->in[k].is_random;
  if (!any) return false;
  r->n_draws++;
  for (uint32_t k = 0; k < r->f->n_inputs; k++)
    if (r->in[k].is_random) draw(r, &r->in[k], ir_draw_spreads[r->n_draws]);
  return true;
}

bool run_read_inputs(ToolRun *r) {
  const char **source = rt_alloc(r->mem, (r->f->n_inputs + 1) * sizeof *source);
  if (!find_sources(r, source) || !refuse_missing(r, source) || !read_dims(r)) return false;
  for (uint32_t k = 0; k < r->f->n_inputs; k++) {
    Port *in = &r->in[k];
    if (is_made_up(source[k])) continue;
    if (no_such_file(source[k]) || !array_read_npy(r->mem, source[k], in->dtype, &in->array)) return false;
    if (!take_sizes(r, in)) return false;
  }
  take_bounds(r);
  const SizeCheck *negative = ir_negative_size(r->planned, r->slots);
  if (negative) return fprintf(stderr, "tenure: %s is below 0\n", negative->what), false;
  for (uint32_t k = 0; k < r->f->n_inputs; k++)
    if (is_made_up(source[k])) make_up(r, k, *source[k] == 'r');
  return true;
}
