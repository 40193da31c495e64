// The rules of the IR, checked on a whole function. Runs between passes and before text is compiled; assumes nothing of
// what it reads, so that a broken pass gives a sentence and not a crash.
//
//   1. Operands are values made earlier; an instruction with n results is followed by its n - 1 `result` records.
//   2. Counts of operands fit the op's row; attributes are known keys, each once, of sound values.
//   3. Scopes name earlier scopes as parents; owners and marks name scopes of the function.
//   4. Types are what the shape rules say.
//   5. Inputs and outputs carry the positions 0, 1, .., each once.
//   6. What writes a parameter's storage writes its newest version; nothing reads the parameter anew after a write.
//   7. What a packed scan stacks of a value without rows exists as far as the layout has steps: scans over it read it.
//   8. A body is run by one scan of the program.
//   9. A next or last value of a carry names one that its scan has.
//  10. The rows of a layout are set by that layout alone, and nothing before it has their size.
//  11. Until pass check_rows: nothing mixes packed sequences or joins two layouts (ir/rows/).
#include "ir/verify.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/ops.h"
#include "ir/packed_dims.h"
#include "ir/rows/rows.h"
#include "ir/scan.h"
#include "ir/shape/shape.h"
#include "ir/storage.h"
#include "ir/text/text.h"

#include <string.h>

typedef struct {
  const Fn *f;
  const Prog *p;
  RtDiags *diags;
  bool ok;
} Verifier;

static bool is_value(const Fn *f, uint32_t i) {
  if (i == 0 || i >= f->n_ins || f->ins[i].op >= N_OPS || f->ins[i].dtype >= N_DTYPES) return false;
  return f->ins[i].op == OP_result || ir_ops[f->ins[i].op].n_res > 0;
}

// One E2 at the instruction; always false.
static bool broken(Verifier *vf, uint32_t i, const char *what) {
  RtText name = {.mem = vf->diags->mem};
  const Ins *ins = &vf->f->ins[i];
  vf->ok = false;
  if (is_value(vf->f, i)) ir_print_name(vf->f, (Val){i}, &name);
  else rt_text_add(&name, "instruction %u", i);
  rt_diag(vf->diags, RT_ERROR, E_VERIFY, ir_loc_file(vf->p, ins->loc), ir_loc_line(vf->p, ins->loc), "@%s: %s (%s) %s",
          ir_text(vf->p, vf->f->name), name.text, ins->op < N_OPS ? ir_ops[ins->op].name : "?", what);
  return false;
}
#define BROKEN(vf, i, ...) broken((vf), (i), rt_printf((vf)->diags->mem, __VA_ARGS__))

static bool broken_fn(Verifier *vf, const char *what) {
  vf->ok = false;
  rt_diag(vf->diags, RT_ERROR, E_VERIFY, ir_loc_file(vf->p, vf->f->loc), ir_loc_line(vf->p, vf->f->loc), "@%s: %s",
          ir_text(vf->p, vf->f->name), what);
  return false;
}

// ---- structure

static bool check_operands(Verifier *vf, uint32_t i) {
  const Fn *f = vf->f;
  const Ins *ins = &f->ins[i];
  const OpInfo *row = &ir_ops[ins->op];
  if (ins->n_args < row->n_min || ins->n_args > row->n_max)
    return BROKEN(vf, i, "takes %u to %u operands, has %u", row->n_min, row->n_max, ins->n_args);
  if ((uint64_t)ins->args + ins->n_args > f->n_args) return broken(vf, i, "has operands outside the operand array");
  for (uint32_t k = 0; k < ins->n_args; k++) {
    uint32_t a = f->args[ins->args + k].i;
    if (a == 0 || a >= i) return BROKEN(vf, i, "has operand %u = %%%u, which is not made before it", k, a);
    if (!is_value(f, a)) return BROKEN(vf, i, "has operand %u = %%%u, which is no value", k, a);
    bool is_output = f->ins[a].op == OP_output, begins = ins->op == OP_exchange_begin;
    if (is_output && !begins) return BROKEN(vf, i, "has operand %u = %%%u, an output: it is the caller's", k, a);
    if (!is_output && begins) return BROKEN(vf, i, "has operand %u = %%%u, which is no output", k, a);
    if (ins->op == OP_exchange_end && f->ins[a].op != OP_input)
      return BROKEN(vf, i, "has operand %u = %%%u, which is no input", k, a);
  }
  return true;
}

// Sums are exchanged between a function of shards and its update, which passes split_shards and exchange make.
static bool check_exchange(Verifier *vf, uint32_t i) {
  Op op = vf->f->ins[i].op;
  bool of_shard = op == OP_exchange_begin, of_update = op == OP_exchange_end || op == OP_exchanged;
  of_shard |= op == OP_output && (ir_attr(vf->f, (Val){i}, KEY_bucket_bytes) || ir_attr(vf->f, (Val){i}, KEY_bucket));
  of_update |= op == OP_global_norm && ir_attr(vf->f, (Val){i}, KEY_exchange);
  bool has_place = (!of_shard || vf->f->update) && (!of_update || vf->f->shard);
  return has_place || broken(vf, i, "is of a distributed function, which this is not");
}

static bool check_results(Verifier *vf, uint32_t i) {
  const Fn *f = vf->f;
  const Ins *ins = &f->ins[i];
  bool fits = ins->op == OP_scan ? ins->n_res >= 1 : ins->n_res == ir_ops[ins->op].n_res;
  if (!fits) return BROKEN(vf, i, "has %u results, its row says %u", ins->n_res, ir_ops[ins->op].n_res);
  for (uint32_t k = 1; k < ins->n_res; k++) {
    if (i + k >= f->n_ins || f->ins[i + k].op != OP_result) return BROKEN(vf, i, "lacks the record of result %u", k);
    const Ins *r = &f->ins[i + k];
    if (r->n_args != 1 || r->args >= f->n_args || f->args[r->args].i != i)
      return BROKEN(vf, i + k, "does not name %%%u as its head", i);
    if (r->n_res != 0 || r->n_attrs != 0) return broken(vf, i + k, "has results or attributes of its own");
  }
  return true;
}

static bool has_negative(const Prog *p, Shape s) {
  for (uint32_t k = 0; k < ir_rank(p, s); k++) {
    Dim d = ir_dim_at(p, s, k);
    if (ir_dim_is_const(p, d) && ir_dim_info(p, d)->value < 0) return true;
  }
  return false;
}

static bool check_attr(Verifier *vf, uint32_t i, const Attr *a) {
  const char *key = ir_key_name[a->key];
  switch ((AttrKind)ir_key_kind[a->key]) {
  case KIND_FLAG: return a->u.i == 1 || BROKEN(vf, i, "has the flag {%s} with a value other than 1", key);
  case KIND_PARAM: return (a->u.i >= 0 && a->u.i < vf->p->n_params) || BROKEN(vf, i, "names no parameter in {%s}", key);
  case KIND_DIM: return a->u.dim.i != 0 || BROKEN(vf, i, "names no dim in {%s}", key);
  case KIND_LIST: break;
  default: return true;
  }
  if (a->key != KEY_shape) return ir_shape_is_const(vf->p, a->u.list) || BROKEN(vf, i, "has a named dim in {%s}", key);
  bool sound = ir_rank(vf->p, a->u.list) <= MAX_RANK && !has_negative(vf->p, a->u.list);
  return sound || BROKEN(vf, i, "has a {shape} of rank above %d or with a negative size", MAX_RANK);
}

static bool check_attrs(Verifier *vf, uint32_t i) {
  const Fn *f = vf->f;
  const Ins *ins = &f->ins[i];
  uint64_t seen[(N_KEYS + 63) / 64] = {0};
  if ((uint64_t)ins->attrs + ins->n_attrs > f->n_attrs)
    return broken(vf, i, "has attributes outside the attribute array");
  for (uint32_t k = 0; k < ins->n_attrs; k++) {
    const Attr *a = &f->attrs[ins->attrs + k];
    if (a->key >= N_KEYS) return BROKEN(vf, i, "has an attribute of unknown key %u", a->key);
    if (seen[a->key / 64] >> (a->key % 64) & 1) return BROKEN(vf, i, "has {%s} twice", ir_key_name[a->key]);
    seen[a->key / 64] |= UINT64_C(1) << (a->key % 64);
    if (!check_attr(vf, i, a)) return false;
  }
  return true;
}

// Types of all results. A size that is negative for some sizes of the run is refused by the run
// (ir/passes/checks/size_checks.c).
static bool check_sizes(Verifier *vf, uint32_t i) {
  const Ins *ins = &vf->f->ins[i];
  for (uint32_t k = 0; k == 0 || k < ins->n_res; k++)
    if (has_negative(vf->p, ins[k].shape)) return broken(vf, i + k, "has a negative size");
  return true;
}

// ---- scopes

static bool check_scope_table(Verifier *vf) {
  const Fn *f = vf->f;
  if (f->n_scopes == 0 || f->scopes[0].parent != NO_SCOPE)
    return broken_fn(vf, "scope 0 must be the function's own, without a parent");
  for (uint32_t k = 1; k < f->n_scopes; k++)
    if (f->scopes[k].parent >= k)
      return broken_fn(vf, rt_printf(vf->diags->mem, "scope %u ('%s') lies in no scope made before it", k,
                                     ir_text(vf->p, f->scopes[k].name)));
  return true;
}

static bool check_owner(Verifier *vf, uint32_t i) {
  uint32_t scope = vf->f->ins[i].scope;
  return scope == NO_SCOPE || scope < vf->f->n_scopes ||
         BROKEN(vf, i, "is owned by scope %u, which the function does not have", scope);
}

static bool check_mark(Verifier *vf, uint32_t i) {
  uint16_t op = vf->f->ins[i].op;
  if (op != OP_scope_begin && op != OP_scope_end && op != OP_move && op != OP_attach) return true;
  int64_t scope = ir_attr_int(vf->f, (Val){i}, KEY_scope, -2), least = op == OP_move ? -1 : op == OP_attach ? 0 : 1;
  return (scope >= least && scope < vf->f->n_scopes) || broken(vf, i, "names no scope of the function in {scope}");
}

// ---- types

// Layouts are made, packed with, and carried; no other op reads them.
static bool check_layouts(Verifier *vf, uint32_t i) {
  const Ins *ins = &vf->f->ins[i];
  for (uint32_t k = 0; k < ins->n_args; k++) {
    if (ir_ins(vf->f, ir_arg(vf->f, (Val){i}, k))->dtype != DT_LAYOUT) continue;
    if (!(ir_operand_flags(vf->f, (Val){i}, k) & LAYOUT)) return BROKEN(vf, i, "computes with a layout, operand %u", k);
  }
  return ins->dtype != DT_LAYOUT || ir_rank(vf->p, ins->shape) == 3 ||
         broken(vf, i, "is a layout without [batch,time,rows]");
}

// Infers the types again and compares. The records are unchanged afterwards.
static bool check_types(Verifier *vf, uint32_t i) {
  Fn *f = (Fn *)vf->f;  // ir_infer writes types; they are put back
  uint32_t n = f->ins[i].n_res ? f->ins[i].n_res : 1;
  Ins few[8], *old = n <= 8 ? few : rt_alloc(vf->diags->mem, n * sizeof *old);
  memcpy(old, f->ins + i, n * sizeof *old);
  RtText why = {.mem = vf->diags->mem};
  bool typed = ir_infer(f, (Val){i}, &why);
  uint32_t wrong = n;
  for (uint32_t k = 0; typed && k < n && wrong == n; k++)
    if (f->ins[i + k].dtype != old[k].dtype || f->ins[i + k].shape.i != old[k].shape.i) wrong = k;
  RtText found = {.mem = vf->diags->mem};
  if (wrong < n) ir_print_type(f, (Val){i + wrong}, &found);
  memcpy(f->ins + i, old, n * sizeof *old);
  if (!typed) return BROKEN(vf, i, "has no type: %s", why.text);
  if (wrong == n) return true;
  RtText has = {.mem = vf->diags->mem};
  ir_print_type(f, (Val){i + wrong}, &has);
  return BROKEN(vf, i + wrong, "has type %s, its rule says %s", has.text, found.text);
}

// ---- signature

// Each position once. The records may stand in any order.
static bool check_position(Verifier *vf, uint32_t i, bool *seen, uint32_t n) {
  int64_t index = ir_attr_int(vf->f, (Val){i}, KEY_index, -1);
  if (index < 0 || index >= n) return BROKEN(vf, i, "has {index=%lld}, the function has %u", (long long)index, n);
  if (seen[index]) return BROKEN(vf, i, "has {index=%lld}, as one before it", (long long)index);
  return seen[index] = true;
}

static bool check_signature(Verifier *vf) {
  const Fn *f = vf->f;
  uint32_t n_in = 0, n_out = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    n_in += f->ins[i].op == OP_input;
    n_out += f->ins[i].op == OP_output;
  }
  if (n_in != f->n_inputs) return broken_fn(vf, "the count of inputs differs from the inputs");
  if (n_out != f->n_outputs) return broken_fn(vf, "the count of outputs differs from the outputs");
  bool *in = rt_alloc(vf->diags->mem, n_in + 1), *out = rt_alloc(vf->diags->mem, n_out + 1);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op == OP_input && !check_position(vf, i, in, n_in)) return false;
    if (f->ins[i].op == OP_output && !check_position(vf, i, out, n_out)) return false;
  }
  return true;
}

// ---- versions of parameters
//
//   %w = param @w
//   %1 = sgd %w, %g, %lr, %wd      the newest version of @w is %1 from here on
//   %2 = sgd %w, %g, %lr, %wd      broken: both cannot be what the parameter holds
//
// Before pass functionalize a mark may follow that makes the handle %w show the newest version; then %w names it, too:
//   write %w, %1
//   write %w, %x
typedef struct {
  int64_t *param;  // by value: the parameter whose storage holds it, + 1; 0: none
  Val *newest;     // by parameter: what its last write made; none: not written so far
  bool *is_shown;  // by parameter: its handle shows the newest version
} VersionMap;

// Does it write in place? Partial writes without {into_param} make a new value.
static bool writes_storage(const Fn *f, uint32_t i) {
  uint8_t flags = ir_ops[f->ins[i].op].flags;
  return (flags & WRITES) && ((flags & EFFECT) || ir_attr(f, (Val){i}, KEY_into_param));
}

static const char *name_of(const Verifier *vf, Val v) {
  RtText name = {.mem = vf->diags->mem};
  ir_print_name(vf->f, v, &name);
  return name.text;
}

// May version v, operand k of i, be overwritten? Then result k is the newest.
static bool check_target(Verifier *vf, VersionMap *m, uint32_t i, uint32_t k) {
  Val old = ir_view_base(vf->f, ir_arg(vf->f, (Val){i}, k));
  int64_t param = m->param[old.i] - 1;
  if (param < 0 && ir_attr(vf->f, (Val){i}, KEY_into_param))
    return broken(vf, i, "has {into_param}, but operand 0 is no parameter");
  if (param < 0) return true;
  Val newest = m->newest[param];
  bool is_handle = vf->f->ins[old.i].op == OP_param && (ir_none(newest) || m->is_shown[param]);
  bool is_newest = is_handle || newest.i == old.i;
  const char *path = ir_text(vf->p, vf->p->params[param].path);
  if (!is_newest && newest.i >= i) return BROKEN(vf, i, "writes parameter '%s' twice, operand %u too", path, k);
  if (!is_newest)
    return BROKEN(vf, i, "writes an older version of parameter '%s': operand %u is %s, the newest is %s", path, k,
                  name_of(vf, old), name_of(vf, newest));
  m->newest[param] = (Val){i + k};
  m->is_shown[param] = false;
  m->param[i + k] = param + 1;
  return true;
}

static bool check_leaf(Verifier *vf, VersionMap *m, uint32_t i) {
  int64_t param = ir_attr_int(vf->f, (Val){i}, KEY_param, 0);
  m->param[i] = param + 1;
  if (ir_none(m->newest[param])) return true;
  return BROKEN(vf, i, "names parameter '%s' after it was written: its newest version is %s",
                ir_text(vf->p, vf->p->params[param].path), name_of(vf, m->newest[param]));
}

// A write mark goes by the handle. If an update made a newer version than the handle shows, the mark may only
// show that one.
static bool check_write(Verifier *vf, VersionMap *m, uint32_t i) {
  const Fn *f = vf->f;
  Val target = ir_arg(f, (Val){i}, 0), storage = ir_written_storage(f, target);
  int64_t param = m->param[storage.i] - 1;
  if (param < 0 || ir_none(m->newest[param]) || m->newest[param].i == storage.i || m->is_shown[param]) return true;
  m->is_shown[param] = ir_is_whole(f, target) && ir_view_base(f, ir_arg(f, (Val){i}, 1)).i == m->newest[param].i;
  return m->is_shown[param] || BROKEN(vf, i, "writes parameter '%s' behind an update: its newest version is %s",
                                      ir_text(vf->p, vf->p->params[param].path), name_of(vf, m->newest[param]));
}

static bool check_versions(Verifier *vf) {
  const Fn *f = vf->f;
  VersionMap m = {rt_alloc(vf->diags->mem, f->n_ins * sizeof *m.param),
                  rt_alloc(vf->diags->mem, (vf->p->n_params + 1) * sizeof *m.newest),
                  rt_alloc(vf->diags->mem, vf->p->n_params + 1)};
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op == OP_param) check_leaf(vf, &m, i);
    if (f->ins[i].op == OP_write) check_write(vf, &m, i);
    for (uint32_t k = 0; writes_storage(f, i) && k < f->ins[i].n_res; k++) check_target(vf, &m, i, k);
  }
  return vf->ok;
}

// ---- carries: what a scan leaves has the type of what it began with
static bool check_carry(Verifier *vf, uint32_t i) {
  const Fn *f = vf->f;
  int64_t scan = ir_attr_int(f, (Val){i}, KEY_scan, -1), index = ir_attr_int(f, (Val){i}, KEY_index, -1);
  for (uint32_t k = 1; k < i; k++) {
    if (f->ins[k].op != OP_scan_carry || ir_attr_int(f, (Val){k}, KEY_scan, -1) != scan) continue;
    if (ir_attr_int(f, (Val){k}, KEY_index, -1) != index) continue;
    if (f->ins[i].op == OP_scan_next) return true;  // outline_scans compares, when writes in place are carries as well
    const Ins *began = ir_ins(f, ir_arg(f, (Val){k}, 0));
    if (began->dtype != f->ins[i].dtype || began->shape.i != f->ins[i].shape.i)
      return BROKEN(vf, i, "has another type than carry %lld began with", (long long)index);
    return true;
  }
  return BROKEN(vf, i, "names carry %lld, which its scan does not have", (long long)index);
}

static bool check_carries(Verifier *vf) {
  for (uint32_t i = 1; i < vf->f->n_ins; i++)
    if (vf->f->ins[i].op == OP_scan_final || vf->f->ins[i].op == OP_scan_next) check_carry(vf, i);
  return vf->ok;
}

// ---- stacks along the time axis of a packed scan: nothing is written behind the layout's last step
static Val stacked_by_scan(const Fn *f, Val v) {
  Val head = ir_head(f, v);
  if (f->ins[head.i].op != OP_scan || !ir_attr(f, head, KEY_live)) return (Val){0};
  Scan s = ir_scan_at(f, head);
  uint32_t k = v.i - head.i;
  if (k >= s.n_stacks) return (Val){0};
  Shape inner = s.body->ins[ir_scan_outputs(&s)[s.n_carries + k].i].shape;
  return ir_scan_has_rows(&s, inner) ? (Val){0} : ir_arg(f, head, 0);
}

// Pointwise results of such stacks are stacks, such as a sum of their gradients.
static Val stacked_by_operand(const Fn *f, Val v, const Val *over) {
  const Ins *ins = &f->ins[v.i];
  for (uint32_t k = 0; ir_ops[ins->op].is_pointwise && k < ins->n_args; k++) {
    Val a = ir_arg(f, v, k);
    if (over[a.i].i && f->ins[a.i].shape.i == ins->shape.i) return over[a.i];
  }
  return (Val){0};
}

// By value: the layout whose last step ends its content; none: all of it exists.
static Val *find_stacks(const Verifier *vf) {
  const Fn *f = vf->f;
  Val *over = rt_alloc(vf->diags->mem, f->n_ins * sizeof *over);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    over[v.i] = stacked_by_scan(f, v);
    if (ir_none(over[v.i])) over[v.i] = stacked_by_operand(f, v, over);
  }
  return over;
}

static bool is_slice_over(const Fn *f, uint32_t i, uint32_t operand, Val layout) {
  if (f->ins[i].op != OP_scan || !ir_attr(f, (Val){i}, KEY_live)) return false;
  Scan s = ir_scan_at(f, (Val){i});
  return ir_arg(f, (Val){i}, 0).i == layout.i && operand >= s.first && operand < s.first + s.n_slices;
}

static bool check_stacks(Verifier *vf) {
  const Fn *f = vf->f;
  const Val *over = find_stacks(vf);
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; f->ins[i].op != OP_result && k < f->ins[i].n_args; k++) {
      Val a = ir_arg(f, (Val){i}, k), layout = over[a.i];
      bool passes_on = ir_ops[f->ins[i].op].is_pointwise && over[i].i == layout.i;
      if (ir_none(layout) || passes_on || is_slice_over(f, i, k, layout)) continue;
      return BROKEN(vf, i, "reads %s, which has nothing behind the last step of %s: only scans over that may",
                    name_of(vf, a), name_of(vf, layout));
    }
  return true;
}

// ---- sizes that the run finds
static bool check_rows_users(Verifier *vf, uint32_t layout, Dim rows) {
  const Fn *f = vf->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Attr *total = ir_attr(f, (Val){i}, KEY_total);
    bool names = ir_shape_names(vf->p, f->ins[i].shape, rows);
    bool sets = f->ins[i].op == OP_packed_layout && f->ins[i].n_args && i != layout &&
                ir_attr(f, (Val){i}, KEY_rows)->u.dim.i == rows.i;
    if (sets && i < layout) return false;  // reported
    if (sets) return BROKEN(vf, i, "sets the rows of another layout, %s", name_of(vf, (Val){layout}));
    if (total && ir_shape_names(vf->p, ir_shape(f->prog, &total->u.dim, 1), rows))
      return BROKEN(vf, i, "has a {total} that the run finds: the rows of %s", name_of(vf, (Val){layout}));
    if (names && f->ins[i].op == OP_input)
      return BROKEN(vf, i, "has a size that the run finds: the rows of %s", name_of(vf, (Val){layout}));
    if (names && i < layout)
      return BROKEN(vf, i, "has the rows of %s, which stands behind it", name_of(vf, (Val){layout}));
  }
  return true;
}

static bool check_rows(Verifier *vf) {
  const Fn *f = vf->f;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_packed_layout && f->ins[i].n_args)
      check_rows_users(vf, i, ir_dim_at(vf->p, f->ins[i].shape, 2));
  return vf->ok;
}

// ---- all

static bool check_instruction(Verifier *vf, uint32_t i) {
  const Ins *ins = &vf->f->ins[i];
  if (ins->op == OP_none || ins->op >= N_OPS) return broken(vf, i, "has no op");
  if (ins->dtype >= N_DTYPES) return broken(vf, i, "has no dtype");
  if (ir_loc_checkpoint(vf->p, ins->loc) > vf->p->n_checkpoints)
    return broken(vf, i, "is in no checkpoint of the program");
  if (ins->op == OP_result) return broken(vf, i, "stands alone: no instruction before it has this result");
  return check_operands(vf, i) && check_results(vf, i) && check_attrs(vf, i) && check_exchange(vf, i) &&
         check_owner(vf, i) && check_layouts(vf, i) && check_types(vf, i) && check_sizes(vf, i) && check_mark(vf, i);
}

// A scan of g before instruction `end` that runs the body.
static bool runs_body(const Fn *g, Str body, uint32_t end) {
  for (uint32_t i = 1; i < end; i++) {
    const Attr *name = g->ins[i].op == OP_scan ? ir_attr(g, (Val){i}, KEY_body) : NULL;
    if (name && name->u.s.i == body.i) return true;
  }
  return false;
}

static bool another_runs(Fn *const *fns, uint32_t n, const Fn *but, Str body) {
  for (uint32_t k = 0; k < n; k++)
    if (fns[k] != but && fns[k]->scan_depth && runs_body(fns[k], body, fns[k]->n_ins)) return true;
  return false;
}

// A body belongs to one scan: passes cut it down to what that scan needs.
static bool check_bodies(Verifier *vf) {
  const Fn *f = vf->f;
  const Prog *p = vf->p;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_scan) continue;
    Str body = ir_attr(f, (Val){i}, KEY_body)->u.s;
    if (runs_body(f, body, i) || another_runs(p->fns, p->n_fns, f, body) ||
        another_runs(p->bodies, p->n_bodies, f, body))
      return BROKEN(vf, i, "runs the body '%s', which is another scan's", ir_text(p, body));
  }
  return true;
}

typedef struct {
  const Fn **list;
  uint32_t n, cap;
} Verified;

static bool verify_within(const Fn *f, RtDiags *diags, Verified *done);

// The bodies of scans come first: the types of a scan are read from its body. Each once, whoever runs it.
static bool verify_bodies(const Fn *f, RtDiags *diags, Verified *done) {
  bool ok = true;
  *RT_PUSH(f->prog->mem, done->list, done->n, done->cap) = f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_scan || (uint64_t)f->ins[i].attrs + f->ins[i].n_attrs > f->n_attrs) continue;
    const Attr *name = ir_attr(f, (Val){i}, KEY_body);
    const Fn *body = name ? ir_body_find(f->prog, name->u.s) : NULL;
    for (uint32_t k = 0; body && k < done->n; k++)
      if (done->list[k] == body) body = NULL;
    if (body) ok &= verify_within(body, diags, done);
  }
  return ok;
}

static bool verify_within(const Fn *f, RtDiags *diags, Verified *done) {
  Verifier vf = {.f = f, .p = f->prog, .diags = diags, .ok = true};
  if (!verify_bodies(f, diags, done)) return false;
  if (!check_scope_table(&vf)) return false;
  for (uint32_t i = 1; i < f->n_ins;) {
    bool fine = check_instruction(&vf, i);
    for (uint32_t k = 1; fine && k < f->ins[i].n_res; k++) fine = check_owner(&vf, i + k);
    if (!fine && vf.diags->n_errors > 20) return false;
    i += fine && f->ins[i].n_res ? f->ins[i].n_res : 1;
    // If the head is faulty, faults of its result records are its own.
    while (!fine && i < f->n_ins && f->ins[i].op == OP_result) i++;
  }
  return vf.ok && check_signature(&vf) && check_versions(&vf) && check_carries(&vf) && check_stacks(&vf) &&
         check_rows(&vf) && check_bodies(&vf) && ir_check_rows(f, diags);
}

bool ir_verify(const Fn *f, RtDiags *diags) {
  Verified done = {0};
  return verify_within(f, diags, &done);
}
