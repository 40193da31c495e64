// Building functions: appending instructions whose types are inferred as they come.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/ops.h"
#include "ir/shape/shape.h"
#include "ir/storage.h"

// The row gives the number of results; a scan has as many as its body has outputs.
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
  for (uint32_t k = row->n_operands; k-- > 0;) {  // operands behind the last present one need no bit
    if (k < n && !(ins->absent >> k & 1)) break;
    ins->absent &= (uint16_t)~(1u << k);
  }
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
  ir_changed(f, v);
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
  for (uint32_t k = 0; k < n_attrs; k++) {
    Attr a = attrs[k];
    *RT_PUSH(mem, f->attrs, f->n_attrs, f->cap_attrs) = a;
  }
  Val head = {f->n_ins};
  *RT_PUSH(mem, f->ins, f->n_ins, f->cap_ins) = ins;
  for (uint32_t k = 1; k < ins.n_res; k++) {
    Ins r = {.op = OP_result, .n_args = 1, .args = f->n_args, .loc = loc, .scope = f->cur_scope};
    *RT_PUSH(mem, f->args, f->n_args, f->cap_args) = head;
    *RT_PUSH(mem, f->ins, f->n_ins, f->cap_ins) = r;
  }
  f->has_writes |= ir_op_writes_in_place(op);
  ir_changed(f, head);
  return head;
}

static void count_signature(Fn *f, Op op) {
  f->n_inputs += op == OP_input;
  f->n_outputs += op == OP_output;
}

static uint16_t find_fault(Fn *f, Val v, RtText *why, RtText *fits) {
  const OpInfo *row = &ir_ops[ir_ins(f, v)->op];
  uint32_t n = ir_ins(f, v)->n_args;
  if (n >= row->n_min && n <= row->n_max) return ir_infer_why(f, v, why, fits);
  rt_text_add(why, "takes %u to %u operands, found %u", row->n_min, row->n_max, n);
  return E_ARGUMENT;
}

Val ir_try_emit(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, Loc loc,
                EmitFault *fault) {
  Prog *p = f->prog;
  uint32_t n_ins = f->n_ins, n_a = f->n_args, n_at = f->n_attrs;
  Val v = append(f, op, args, n_args, attrs, n_attrs, loc);
  RtText why = {.mem = p->mem}, fits = {.mem = p->mem};
  *fault = (EmitFault){.id = find_fault(f, v, &why, &fits)};
  if (fault->id == 0) {
    count_signature(f, op);
    return v;
  }
  fault->why = why.text ? why.text : "", fault->fits = fits.text;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args && k < 8; k++) fault->operands[k] = ir_operand_text(f, v, k);
  f->n_ins = n_ins, f->n_args = n_a, f->n_attrs = n_at;
  return (Val){0};
}

Val ir_emit(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, Loc loc) {
  EmitFault fault;
  Prog *p = f->prog;
  Val v = ir_try_emit(f, op, args, n_args, attrs, n_attrs, loc, &fault);
  if (fault.id)
    rt_diag(&p->diags, RT_ERROR, fault.id, ir_loc_file(p, loc), ir_loc_line(p, loc), "%s: %s", ir_ops[op].name,
            fault.why);
  return v;
}

Val ir_emit_like(Fn *f, const Ins *like, const Val *args, const Attr *change) {
  const Attr *own = f->attrs + like->attrs;
  if (!change) return ir_emit(f, (Op)like->op, args, like->n_args, own, like->n_attrs, like->loc);
  Attr *attrs = rt_alloc(f->prog->mem, (like->n_attrs + 1u) * sizeof *attrs);
  uint32_t n = like->n_attrs, at = 0;
  for (uint32_t k = 0; k < n; k++) attrs[k] = own[k];
  while (at < n && attrs[at].key != change->key) at++;
  attrs[at] = *change;
  return ir_emit(f, (Op)like->op, args, like->n_args, attrs, n + (at == n), like->loc);
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

Val ir_reshaped(Fn *f, Val v, Shape to, Loc loc) {
  Attr shape = ir_a_list(KEY_shape, to);
  return ir_ins(f, v)->shape.i == to.i ? v : ir_emit(f, OP_reshape, &v, 1, &shape, 1, loc);
}

Val ir_permuted(Fn *f, Val v, Shape perm, Loc loc) {
  Attr attr = ir_a_list(KEY_perm, perm);
  return ir_emit(f, OP_permute, &v, 1, &attr, 1, loc);
}

Val ir_emit_crop(Fn *f, Val v, const Crop *c, Loc loc) {
  Prog *p = f->prog;
  uint32_t n = ir_rank(p, ir_ins(f, v)->shape);
  Attr attrs[] = {ir_a_list(KEY_starts, ir_shape_ints(p, c->start, n)),
                  ir_a_list(KEY_steps, ir_shape_ints(p, c->step, n)),
                  ir_a_list(KEY_before, ir_shape_ints(p, c->before, n)),
                  ir_a_list(KEY_behind, ir_shape_ints(p, c->behind, n)), ir_a_list(KEY_shape, ir_shape(p, c->size, n))};
  return ir_emit(f, OP_crop, &v, 1, attrs, 5, loc);
}

Val ir_emit_copy(Fn *f, Val x, const char *reader, Loc of, Loc loc) {
  Prog *p = f->prog;
  const char *file = ir_loc_file(p, of);
  const char *text = file ? rt_printf(p->mem, "%s %s:%u", reader, file, ir_loc_line(p, of)) : reader;
  // copy is a pointwise op for f32 only; an expand to the same shape copies any dtype
  Attr attrs[2] = {ir_a_str(KEY_reader, ir_str(p, text)), ir_a_list(KEY_shape, ir_ins(f, x)->shape)};
  bool f32 = ir_ins(f, x)->dtype == DT_F32;
  return ir_emit(f, f32 ? OP_copy : OP_expand, &x, 1, attrs, f32 ? 1 : 2, loc);
}
