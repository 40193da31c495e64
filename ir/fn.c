// Functions and what they own, as they are made and looked up: parameters of the program, scopes, instructions and their
// attributes. Nothing here infers a type: that is for ir_emit (build.c).
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include <string.h>

// ---- functions, bodies of scans, parameters, scopes
Fn *ir_fn_new(Prog *p, const char *name, Loc loc) {
  Fn *f = rt_alloc(p->mem, sizeof *f);
  f->prog = p;
  f->roots = rt_alloc(p->mem, sizeof *f->roots);
  f->name = ir_str(p, name);
  f->loc = loc;
  *RT_PUSH(p->mem, f->ins, f->n_ins, f->cap_ins) = (Ins){0};
  *RT_PUSH(p->mem, f->scopes, f->n_scopes, f->cap_scopes) = (Scope){.name = f->name, .parent = NO_SCOPE, .open = loc};
  *RT_PUSH(p->mem, p->fns, p->n_fns, p->cap_fns) = f;
  return f;
}

Fn *ir_fn_find(const Prog *p, const char *name) {
  for (uint32_t k = 0; k < p->n_fns; k++)
    if (strcmp(ir_text(p, p->fns[k]->name), name) == 0) return p->fns[k];
  return NULL;
}

Fn *ir_body_find(const Prog *p, Str name) {
  for (uint32_t k = 0; k < p->n_bodies; k++)
    if (p->bodies[k]->name.i == name.i) return p->bodies[k];
  return NULL;
}

Fn *ir_body_new(Prog *p, const char *name, Loc loc) {
  const char *unique = name;
  for (uint32_t k = 2; ir_body_find(p, ir_str(p, unique)) || ir_fn_find(p, unique); k++)
    unique = rt_printf(p->mem, "%s_%u", name, k);
  Fn *f = ir_fn_new(p, unique, loc);
  p->n_fns--;  // no entry point
  f->is_body = true;
  f->facts = HAS_SCOPES;
  *RT_PUSH(p->mem, p->bodies, p->n_bodies, p->cap_bodies) = f;
  return f;
}

static void *copy_of(Prog *p, const void *list, uint32_t n, size_t size) {
  void *to = rt_alloc(p->mem, (n + 1) * size);
  return n ? memcpy(to, list, n * size) : to;
}
#define COPY(list)                                                               \
  (to->list = copy_of(to->prog, from->list, from->n_##list, sizeof *from->list), \
   to->n_##list = to->cap_##list = from->n_##list)

void ir_copy_lists(Fn *to, const Fn *from) { COPY(ins), COPY(args), COPY(attrs), COPY(scopes); }

Fn *ir_body_copy(Prog *p, const Fn *of) {
  Fn *f = ir_body_new(p, ir_text(p, of->name), of->loc);
  ir_copy_lists(f, of);
  f->n_inputs = of->n_inputs, f->n_outputs = of->n_outputs, f->scan_depth = of->scan_depth;
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; f->ins[i].op == OP_scan && k < f->ins[i].n_attrs; k++) {
      Attr *a = &f->attrs[f->ins[i].attrs + k];
      if (a->key == KEY_body) a->u.s = ir_body_copy(p, ir_body_find(p, a->u.s))->name;
    }
  return f;
}

uint32_t ir_param_add(Prog *p, const char *path, ParamKind kind, DType t, Shape s, bool trainable, Loc loc) {
  *RT_PUSH(p->mem, p->params, p->n_params, p->cap_params) = (Param){.path = ir_str(p, path),
                                                                    .dtype = (uint8_t)t,
                                                                    .kind = (uint8_t)kind,
                                                                    .trainable = trainable,
                                                                    .shape = s,
                                                                    .loc = loc};
  return p->n_params - 1;
}

void ir_set_hyper(Prog *p, uint32_t param, uint8_t kind, uint32_t group) {
  Param *q = &p->params[param];
  q->is_hyper = true, q->hyper = kind, q->group = group;
}

uint32_t ir_param_find(const Prog *p, const char *path) {
  for (uint32_t k = 0; k < p->n_params; k++) {
    const Param *q = &p->params[k];
    if (strcmp(ir_text(p, q->path), path) == 0) return k;
    for (uint32_t j = 0; j < q->n_aliases; j++)
      if (strcmp(ir_text(p, q->aliases[j]), path) == 0) return k;
  }
  return UINT32_MAX;
}

uint32_t ir_checkpoint_add(Prog *p, const char *module, uint32_t around, Loc loc) {
  *RT_PUSH(p->mem, p->checkpoints, p->n_checkpoints, p->cap_checkpoints) =
      (Checkpoint){.module = ir_str(p, module), .around = around, .loc = loc};
  return p->n_checkpoints;
}

uint32_t ir_scope_open(Fn *f, uint32_t parent, const char *name, Loc loc) {
  *RT_PUSH(f->prog->mem, f->scopes, f->n_scopes, f->cap_scopes) =
      (Scope){.name = ir_str(f->prog, name), .parent = parent, .open = loc};
  return f->n_scopes - 1;
}

// ---- instructions
Val ir_result(Val head, uint32_t k) { return (Val){head.i + k}; }
Val ir_head(const Fn *f, Val v) { return f->ins[v.i].op == OP_result ? f->args[f->ins[v.i].args] : v; }

bool ir_is_read(const Fn *f, Val result) {
  for (uint32_t i = result.i + 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    for (uint32_t k = 0; k < ins->n_args; k++)
      if (f->args[ins->args + k].i == result.i && ins->op != OP_result) return true;
  }
  return false;
}

const Attr *ir_attr(const Fn *f, Val v, Key k) {
  const Ins *ins = &f->ins[v.i];
  for (uint32_t j = 0; j < ins->n_attrs; j++)
    if (f->attrs[ins->attrs + j].key == k) return &f->attrs[ins->attrs + j];
  return NULL;
}

Str ir_output_name(const Fn *f, Val v) {
  const Attr *name = ir_attr(f, v, KEY_name);
  int64_t index = ir_attr_int(f, v, KEY_index, 0);
  return name ? name->u.s : ir_str(f->prog, rt_printf(f->prog->mem, "out%lld", (long long)index));
}

int64_t ir_attr_size(const Fn *f, Val v, Key k, int64_t absent) {
  const Attr *a = ir_attr(f, v, k);
  if (!a) return absent;
  return ir_dim_is_const(f->prog, a->u.dim) ? ir_dim_info(f->prog, a->u.dim)->value : -1;
}

int64_t ir_attr_int(const Fn *f, Val v, Key k, int64_t absent) {
  const Attr *a = ir_attr(f, v, k);
  return a ? a->u.i : absent;
}

bool ir_reduces_exactly(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  return ir_ops[ins->op].cls == CLASS_REDUCE && ir_dtype_kind[ins->dtype] != DTYPE_FLOAT;
}

bool ir_reduces_to_number(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  bool joins = ins->op == OP_sum || ins->op == OP_prod || ins->op == OP_amax;
  if (!joins || ins->dtype != DT_F32) return false;
  for (uint32_t k = 0; k < ir_rank(f->prog, ins->shape); k++)
    if (!ir_dim_is_one(f->prog, ir_dim_at(f->prog, ins->shape, k))) return false;
  return true;
}

uint32_t ir_reduced_axes(const Fn *f, Val v) {
  const Attr *axes = ir_attr(f, v, KEY_axes);
  if (!axes) return 1u << ir_attr_int(f, v, KEY_axis, ir_rank(f->prog, ir_ins(f, ir_arg(f, v, 0))->shape) - 1);
  uint32_t set = 0;
  for (uint32_t k = 0; k < ir_rank(f->prog, axes->u.list); k++) set |= 1u << ir_list_at(f->prog, axes->u.list, k);
  return set;
}

double ir_attr_num(const Fn *f, Val v, Key k, double absent) {
  const Attr *a = ir_attr(f, v, k);
  return a ? a->u.f : absent;
}

bool ir_is_immediate(const Fn *f, Val v) { return f->ins[v.i].op == OP_const || f->ins[v.i].op == OP_dim_size; }

bool ir_is_const(const Fn *f, Val v, double *value) {
  if (f->ins[v.i].op != OP_const) return false;
  if (value) *value = ir_attr_num(f, v, KEY_value, 0);
  return true;
}

const char *ir_size_text(const Fn *f, Val v) {
  RtText t = {.mem = f->prog->mem};
  const Ins *ins = ir_ins(f, v);
  rt_text_add(&t, "%s", ir_dtype_name[ins->dtype]);
  ir_shape_text(f->prog, ins->shape, &t);
  rt_text_add(&t, " of %s (", ir_ops[ir_ins(f, ir_head(f, v))->op].name);
  ir_shape_bounds_text(f->prog, ins->shape, &t);
  rt_text_put(&t, ")", 1);
  return t.text;
}
