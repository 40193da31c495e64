// Ops that move elements: each reads or writes its operand with other strides.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"

#include "ir/slice.h"

#include <string.h>

// out[i] = a[base + the offset of i under stride]
static bool read_strided(Run *r, Val v, int64_t base, const int64_t *stride) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  Sizes to = run_sizes(r, v);
  for (int64_t i = 0; i < out.n; i++) out.v[i] = a.v[base + run_offset(&to, stride, i)];
  return true;
}

// Copies src, of size `from`, to out under `stride`, from `base` on.
static void write_strided(Tensor out, Tensor src, const Sizes *from, int64_t base, const int64_t *stride) {
  for (int64_t i = 0; i < src.n; i++) out.v[base + run_offset(from, stride, i)] = src.v[i];
}

// Likewise of the elements range[0] .. range[0] + range[1] - 1 of src along the axis.
static void write_part(Tensor out, Tensor src, const Sizes *from, int64_t axis, const int64_t *range, int64_t base,
                       const int64_t *stride) {
  int64_t own[MAX_RANK];
  run_strides(from, own);
  for (int64_t i = 0; i < src.n; i++) {
    int64_t at = i / own[axis] % from->dim[axis] - range[0];
    if (at >= 0 && at < range[1]) out.v[base - range[0] * stride[axis] + run_offset(from, stride, i)] = src.v[i];
  }
}

bool eval_reshape(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  if (out.n != a.n) return run_fail(r, v, "%lld elements into %lld", (long long)a.n, (long long)out.n);
  if (out.n) memcpy(out.v, a.v, (size_t)out.n * sizeof(double));
  return true;
}

bool eval_expand(Run *r, Val v) {
  Sizes from = run_arg_sizes(r, v, 0), to = run_sizes(r, v);
  int64_t stride[MAX_RANK];
  run_broadcast(&from, &to, stride);
  return read_strided(r, v, 0, stride);
}

bool eval_permute(Run *r, Val v) {
  Sizes from = run_arg_sizes(r, v, 0);
  const Attr *perm = ir_attr(r->f, v, KEY_perm);
  if (!perm) return run_fail(r, v, "no {perm}");
  int64_t own[MAX_RANK], stride[MAX_RANK];
  run_strides(&from, own);
  for (uint32_t k = 0; k < from.rank; k++) stride[k] = own[ir_list_at(r->f->prog, perm->u.list, k)];
  return read_strided(r, v, 0, stride);
}

bool run_slice(Run *r, Val v, const Sizes *whole, int64_t count, RunSlice *out) {
  Slice s;
  ir_slice(r->f, v, &s);
  const int64_t *slots = r->env->slots;
  int64_t from = ir_dim_eval(r->f->prog, s.start, slots), last = ir_dim_eval(r->f->prog, s.last_start, slots);
  int64_t step = ir_dim_eval(r->f->prog, s.step, slots);
  int64_t at = ir_none(s.at) ? 0 : (int64_t)run_operand(r, v, ARG_at).v[0], n = whole->dim[s.axis];
  if (at < 0 || at > last || from < 0)
    return run_fail(r, v, "%lld elements in steps of %lld from %lld on of %lld", (long long)count, (long long)step,
                    (long long)(from + at), (long long)n);
  run_strides(whole, out->stride);
  out->base = (s.reverse ? n - 1 - from - at : from + at) * out->stride[s.axis];
  out->stride[s.axis] *= s.reverse ? -step : step;
  return true;
}

bool eval_slice(Run *r, Val v) {
  Sizes from = run_arg_sizes(r, v, 0), to = run_sizes(r, v);
  RunSlice s;
  return run_slice(r, v, &from, to.dim[ir_attr_int(r->f, v, KEY_axis, 0)], &s) && read_strided(r, v, s.base, s.stride);
}

bool eval_pad_axis(Run *r, Val v) {
  Sizes from = run_arg_sizes(r, v, 0), to = run_sizes(r, v);
  int64_t stride[MAX_RANK], axis = ir_attr_int(r->f, v, KEY_axis, 0), start = ir_attr_size(r->f, v, KEY_start, 0);
  if (start < 0 || start + from.dim[axis] > to.dim[axis])
    return run_fail(r, v, "%lld elements at %lld of %lld", (long long)from.dim[axis], (long long)start,
                    (long long)to.dim[axis]);
  run_strides(&to, stride);
  write_strided(run_result(r, v, 0), run_arg(r, v, 0), &from, start * stride[axis], stride);
  return true;
}

bool eval_crop(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0);
  Sizes from = run_arg_sizes(r, v, 0), to = run_sizes(r, v);
  int64_t stride[MAX_RANK], own[MAX_RANK];
  run_strides(&from, stride), run_strides(&to, own);
  for (int64_t i = 0; i < out.n; i++) {
    int64_t at = 0;
    bool is_part = true;
    for (uint32_t k = 0; k < to.rank; k++) {
      CropAxis axis = ir_crop_axis(r->f, v, k);
      int64_t j = i / own[k] % to.dim[k] - axis.before, n = ir_dim_eval(r->f->prog, axis.count, r->env->slots);
      is_part &= j >= 0 && j < n;
      at += (axis.start + j * axis.step) * stride[axis.from];
    }
    out.v[i] = is_part ? a.v[at] : 0;
  }
  return true;
}

bool eval_windows(Run *r, Val v) {
  Sizes from = run_arg_sizes(r, v, 0), to = run_sizes(r, v);
  int64_t stride[MAX_RANK], axis = ir_attr_int(r->f, v, KEY_axis, 0), step = ir_attr_int(r->f, v, KEY_step, 1);
  int64_t count = to.dim[axis], size = to.dim[to.rank - 1];
  if (count > 0 && (count - 1) * step + size > from.dim[axis])
    return run_fail(r, v, "%lld windows of %lld elements of %lld", (long long)count, (long long)size,
                    (long long)from.dim[axis]);
  run_strides(&from, stride);
  stride[to.rank - 1] = stride[axis];
  stride[axis] *= step;
  return read_strided(r, v, 0, stride);
}

bool eval_concat(Run *r, Val v) {
  Tensor out = run_result(r, v, 0);
  Sizes to = run_sizes(r, v);
  int64_t stride[MAX_RANK], axis = ir_attr_int(r->f, v, KEY_axis, 0), at = 0;
  run_strides(&to, stride);
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args; k++) {
    Sizes from = run_arg_sizes(r, v, k);
    int64_t start = ir_concat_part(r->f, v, k).start;
    bool is_part = ir_attr(r->f, v, KEY_counts) != NULL;
    int64_t count = is_part ? ir_list_at(r->f->prog, ir_attr(r->f, v, KEY_counts)->u.list, k) : from.dim[axis];
    write_part(out, run_arg(r, v, k), &from, axis, (int64_t[]){start, count}, at * stride[axis], stride);
    at += count;
  }
  return true;
}
