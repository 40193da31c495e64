// Embeddings: rows of a table by index.
//
//   padding:   %y = embedding %weight, %index;  where the index is the padding's, no gradient flows
//   max_norm:  the rows that are asked for are shortened to that norm in the table, before they are taken; this is no
//              part of the gradient
#include "frontend/graph/inplace.h"
#include "frontend/graph/ops.h"
#include "frontend/module/layers.h"
#include "frontend/module/tree.h"
#include "frontend/run/finite.h"
#include "frontend/tenure/ops.h"
#include "ir/build.h"

static bool check_options(tn_module *m, int64_t count, const tn_embedding_options *o) {
  m->poisoned = true;
  if (o->has_padding && (o->padding_idx < -count || o->padding_idx >= count))
    fe_error(m->p, E_ARGUMENT, o->at, "module '%s' has %lld rows: %lld is the index of none", m->path, (long long)count,
             (long long)o->padding_idx);
  else if (!(o->max_norm >= 0) || !fe_is_finite(o->max_norm))
    fe_error(m->p, E_ARGUMENT, o->at, "module '%s' takes a norm of 0 or more, not %g", m->path, o->max_norm);
  else m->poisoned = false;
  return !m->poisoned;
}

// The row of padding begins as zeros.
static void clear_row(tn_module *m, FeParam *q, int64_t row, tn_site at) {
  tn_function *init = fe_init(m->p);
  tn_tensor table = fe_initial_handle(init, q);
  fe_copy_in(fe_slice(table, 0, row, 1, at), fe_const(init, 0, at), "tn_embedding", at);
}

tn_module *tn_embedding(tn_module *parent, const char *name, int64_t count, int64_t size, tn_embedding_options o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_EMBEDDING, o.at);
  if (!fe_check_sizes(m, count, size, o.at) || !check_options(m, count, &o)) return m;
  FeParam *q = fe_module_param(m, "weight", (const int64_t[]){count, size}, 2, (tn_init){TN_INIT_NORMAL, 0, 1}, o.at);
  m->config.has_padding = o.has_padding, m->config.max_norm = o.max_norm;
  m->config.padding = o.padding_idx + (o.padding_idx < 0 ? count : 0);
  if (q && o.has_padding) clear_row(m, q, m->config.padding, o.at);
  return m;
}

// ---- calls
// [..] as [n]
static tn_tensor flat(tn_tensor index, tn_site at) {
  Prog *p = index.fn->p->ir;
  Dim n = ir_dim(p, 1);
  for (uint32_t k = 0; k < fe_rank(index); k++) n = ir_dim_mul(p, n, fe_axis_dim(index, k));
  return fe_reshape(index, &n, 1, at);
}

// Where a row's norm is larger: max_norm / (norm + 1e-7), else 1. PyTorch has that 1e-7.
static tn_tensor shortening(tn_tensor rows, double most, tn_site at) {
  tn_function *f = rows.fn;
  Attr attrs[] = {ir_a_list(KEY_axes, ir_shape_ints(f->p->ir, (const int64_t[]){1}, 1)), ir_a_int(KEY_keepdim, 1)};
  tn_tensor squares = fe_emit1(OP_square, rows, at);
  tn_tensor norm = fe_emit1(OP_sqrt, fe_emit(OP_sum, &squares, 1, attrs, 2, at), at);
  tn_tensor limit = fe_const(f, most, at);
  tn_tensor ratio = fe_emit2(OP_div, limit, fe_emit2(OP_add, norm, fe_const(f, 1e-7, at), at), at);
  tn_tensor is_longer = fe_emit2(OP_gt, norm, limit, at);
  return fe_emit(OP_select, (const tn_tensor[]){is_longer, ratio, fe_const(f, 1, at)}, 3, NULL, 0, at);
}

// Writes to the table, outside of what has gradients.
static void shorten_rows(tn_module *m, tn_tensor table, tn_tensor index, tn_site at) {
  tn_function *f = index.fn;
  tn_no_grad_begin(f, at);
  index = flat(index, at);
  tn_tensor rows = fe_emit2(OP_embedding, table, index, at);
  if (fe_ok(rows)) rows = fe_emit2(OP_mul, rows, shortening(rows, m->config.max_norm, at), at);
  fe_in_place(OP_index_assign, (const tn_tensor[]){table, index, rows}, 3, NULL, 0, "tn_call", at);
  tn_no_grad_end(f, at);
}

// The same rows; no gradient flows where the index is the padding's.
static tn_tensor without_padding(tn_module *m, tn_tensor rows, tn_tensor index, tn_site at) {
  tn_function *f = rows.fn;
  Dim d[MAX_RANK];
  uint32_t rank = fe_rank(index);
  for (uint32_t k = 0; k < rank; k++) d[k] = fe_axis_dim(index, k);
  d[rank] = ir_dim(f->p->ir, 1);
  tn_tensor at_row = fe_reshape(fe_cast(index, DT_F32, at), d, rank + 1, at);
  tn_tensor is_padding = fe_emit2(OP_eq, at_row, fe_const(f, (double)m->config.padding, at), at);
  return fe_emit(OP_select, (const tn_tensor[]){is_padding, fe_emit1(OP_stop_grad, rows, at), rows}, 3, NULL, 0, at);
}

// Of a table of 16 bits only the rows that are asked for become f32.
static tn_tensor take_rows(tn_tensor table, tn_tensor index, tn_site at) {
  if (fe_ins(table)->dtype == DT_F32 || !fe_ok(index)) return fe_emit2(OP_embedding, table, index, at);
  Dim d[MAX_RANK];
  uint32_t rank = fe_rank(index);
  for (uint32_t k = 0; k < rank; k++) d[k] = fe_axis_dim(index, k);
  d[rank] = fe_axis_dim(table, 1);
  const tn_tensor in[] = {table, flat(index, at)};
  Attr axis = ir_a_int(KEY_axis, 0);
  tn_tensor rows = fe_cast(fe_emit(OP_index_select, in, 2, &axis, 1, at), DT_F32, at);
  return fe_ok(rows) ? fe_reshape(rows, d, rank + 1, at) : rows;
}

static bool check_norm(const tn_module *m, tn_tensor table, tn_site at) {
  if (m->config.max_norm == 0 || fe_ins(table)->dtype == DT_F32) return true;
  fe_error(m->p, E_DTYPE, at, "module '%s' shortens rows of its table (max_norm), which is stored as %s: f32 is needed",
           m->path, ir_dtype_name[fe_ins(table)->dtype]);
  fe_note(m->p, fe_entry(m, "weight")->loc, "the table was made here");
  return false;
}

tn_tensor fe_embed(tn_module *m, tn_tensor index, tn_site at) {
  tn_tensor table = fe_use(index.fn, fe_entry(m, "weight")->param, at);
  if (!fe_ok(table) || !check_norm(m, table, at)) return fe_poison(index.fn);
  if (m->config.max_norm > 0 && fe_ins(index)->dtype == DT_I64) shorten_rows(m, table, index, at);
  tn_tensor rows = take_rows(table, index, at);
  return m->config.has_padding && fe_ok(rows) ? without_padding(m, rows, index, at) : rows;
}
