// Building functions: appending instructions whose types are inferred as they come.
#include "ir/ir.h"
#include <string.h>

Fn *ir_fn_new(Prog *p, const char *name, Loc loc) {
  Fn *f = rt_alloc(p->mem, sizeof *f);
  f->prog = p;
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

uint32_t ir_param_add(Prog *p, const char *path, ParamKind kind, DType t, Shape s, bool trainable, Loc loc) {
  *RT_PUSH(p->mem, p->params, p->n_params, p->cap_params) = (Param){.path = ir_str(p, path),
                                                                    .dtype = (uint8_t)t,
                                                                    .kind = (uint8_t)kind,
                                                                    .trainable = trainable,
                                                                    .shape = s,
                                                                    .loc = loc};
  return p->n_params - 1;
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

// A row says how many, except that a scan has as many as its body has outputs.
static uint16_t n_results(const Fn *f, Op op, const Attr *attrs, uint32_t n) {
  const Fn *body = NULL;
  for (uint32_t k = 0; k < n && op == OP_scan; k++)
    if (attrs[k].key == KEY_body) body = ir_body_find(f->prog, attrs[k].u.s);
  return body && body->n_outputs && body->n_outputs <= MAX_RESULTS ? (uint16_t)body->n_outputs : ir_ops[op].n_res;
}

// args: by position in the row; none where an optional one is absent.
static void push_operands(Fn *f, Ins *ins, const Val *args, uint32_t n) {
  const OpInfo *row = &ir_ops[ins->op];
  for (uint32_t k = 0; k < n; k++) {
    Val a = args[k];  // args may lie in f->args, which grows
    if (ir_none(a) && k < row->n_operands && (row->operands[k].flags & OPTIONAL)) {
      ins->absent |= (uint16_t)(1u << k);
      continue;
    }
    *RT_PUSH(f->prog->mem, f->args, f->n_args, f->cap_args) = a;
    ins->n_args++;
  }
  uint32_t n_slots = n;
  while (n_slots && (ins->absent >> (n_slots - 1) & 1)) ins->absent &= (uint16_t)~(1u << --n_slots);
}

uint32_t ir_operands(const Fn *f, Val v, Val out[MAX_OPERANDS]) {
  const OpInfo *row = &ir_ops[ir_ins(f, v)->op];
  for (uint32_t k = 0; k < row->n_operands; k++) out[k] = ir_operand(f, v, (ArgName)row->operands[k].name);
  return row->n_operands;
}

void ir_set_operands(Fn *f, Val v, const Val *operands, uint32_t n) {
  Ins *ins = ir_ins(f, v);
  ins->args = f->n_args, ins->n_args = 0, ins->absent = 0;
  push_operands(f, ins, operands, n);
}

static Val append(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, Loc loc) {
  RtArena *mem = f->prog->mem;
  Ins ins = {.op = (uint16_t)op,
             .n_res = n_results(f, op, attrs, n_attrs),
             .n_attrs = (uint8_t)n_attrs,
             .args = f->n_args,
             .attrs = f->n_attrs,
             .loc = loc,
             .scope = f->cur_scope};
  push_operands(f, &ins, args, n_args);
  for (uint32_t k = 0; k < n_attrs; k++) *RT_PUSH(mem, f->attrs, f->n_attrs, f->cap_attrs) = attrs[k];
  Val head = {f->n_ins};
  *RT_PUSH(mem, f->ins, f->n_ins, f->cap_ins) = ins;
  for (uint32_t k = 1; k < ins.n_res; k++) {
    Ins r = {.op = OP_result, .n_args = 1, .args = f->n_args, .loc = loc, .scope = f->cur_scope};
    *RT_PUSH(mem, f->args, f->n_args, f->cap_args) = head;
    *RT_PUSH(mem, f->ins, f->n_ins, f->cap_ins) = r;
  }
  f->facts = 0;
  return head;
}

static void count_signature(Fn *f, Op op) {
  f->n_inputs += op == OP_input;
  f->n_outputs += op == OP_output;
}

Val ir_emit(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, Loc loc) {
  const OpInfo *row = &ir_ops[op];
  Prog *p = f->prog;
  uint32_t n_ins = f->n_ins, n_a = f->n_args, n_at = f->n_attrs;
  Val v = append(f, op, args, n_args, attrs, n_attrs, loc);
  RtText why = {.mem = p->mem};
  uint16_t id = 0;
  if (ir_ins(f, v)->n_args < row->n_min || ir_ins(f, v)->n_args > row->n_max) {
    id = E_ARGUMENT;
    rt_text_add(&why, "takes %u to %u operands, found %u", row->n_min, row->n_max, ir_ins(f, v)->n_args);
  } else {
    id = ir_infer_id(f, v, &why);
  }
  if (id == 0) {
    count_signature(f, op);
    return v;
  }
  f->n_ins = n_ins, f->n_args = n_a, f->n_attrs = n_at;
  rt_diag(&p->diags, RT_ERROR, id, ir_loc_file(p, loc), ir_loc_line(p, loc), "%s: %s", row->name, why.text);
  return (Val){0};
}

Val ir_emit_typed(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, DType t, Shape s,
                  Loc loc) {
  Val v = append(f, op, args, n_args, attrs, n_attrs, loc);
  f->ins[v.i].dtype = (uint8_t)t;
  f->ins[v.i].shape = s;
  count_signature(f, op);
  return v;
}

Val ir_input(Fn *f, const char *name, DType t, Shape s, Loc loc) {
  Attr index = ir_a_int(KEY_index, f->n_inputs);
  Val v = ir_emit_typed(f, OP_input, NULL, 0, &index, 1, t, s, loc);
  f->ins[v.i].name = ir_str(f->prog, name);
  return v;
}

Val ir_const(Fn *f, double value, Loc loc) {
  Attr a = ir_a_num(KEY_value, value);
  return ir_emit(f, OP_const, NULL, 0, &a, 1, loc);
}

Val ir_param(Fn *f, uint32_t param, Loc loc) {
  Attr a = ir_a_int(KEY_param, param);
  return ir_emit(f, OP_param, NULL, 0, &a, 1, loc);
}

Val ir_op1(Fn *f, Op op, Val a, Loc loc) { return ir_emit(f, op, &a, 1, NULL, 0, loc); }
Val ir_op2(Fn *f, Op op, Val a, Val b, Loc loc) { return ir_emit(f, op, (Val[]){a, b}, 2, NULL, 0, loc); }
Val ir_op3(Fn *f, Op op, Val a, Val b, Val c, Loc loc) { return ir_emit(f, op, (Val[]){a, b, c}, 3, NULL, 0, loc); }
Val ir_result(Val head, uint32_t k) { return (Val){head.i + k}; }

uint32_t ir_scope_open(Fn *f, uint32_t parent, const char *name, Loc loc) {
  *RT_PUSH(f->prog->mem, f->scopes, f->n_scopes, f->cap_scopes) =
      (Scope){.name = ir_str(f->prog, name), .parent = parent, .open = loc};
  return f->n_scopes - 1;
}

Val ir_head(const Fn *f, Val v) { return f->ins[v.i].op == OP_result ? f->args[f->ins[v.i].args] : v; }

const Attr *ir_attr(const Fn *f, Val v, Key k) {
  const Ins *ins = &f->ins[v.i];
  for (uint32_t j = 0; j < ins->n_attrs; j++)
    if (f->attrs[ins->attrs + j].key == k) return &f->attrs[ins->attrs + j];
  return NULL;
}

int64_t ir_attr_int(const Fn *f, Val v, Key k, int64_t absent) {
  const Attr *a = ir_attr(f, v, k);
  return a ? a->u.i : absent;
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
