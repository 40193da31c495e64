// Kernel keys: the arguments of a kernel, and its canonical text.
//
// Kernels with equal text share one function. So the text holds everything that an emitter may read, and nothing else:
// values are numbered inside the kernel, stored values become arguments, named dims and random streams are numbered by
// first occurrence. For y = relu(x W + b) with x, W, b stored by others:
//
//   class GEMM
//   0 linear f32[d0<=32,4] <- p0:f32[d0<=32,8] p1:f32[4,8] p2:f32[4] -> -
//   1 relu f32[d0<=32,4] <- 0:f32[d0<=32,4] -> p3
#include "codegen/gemm/plan.h"
#include "codegen/module/module.h"
#include "ir/packed_dims.h"
#include "ir/passes/plan.h"

#include <string.h>

// No code: layouts of constant lengths, which are in the constant pool, and kernels without elements.
bool cg_has_code(const Fn *f, const Kernel *k) {
  bool any = false;  // any element to write
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    any |= !ir_is_output_alias(f, (Val){i}) && !cg_is_empty(f, (Val){i});
  return any && !ir_layout_is_const(f, (Val){k->first});
}

static bool in_kernel(const KernelCall *c, Val v) { return c->f->kernel_of[v.i] == (uint32_t)(c->k - c->f->kernels); }

static Val through_views(const Fn *f, Val v) {
  while (ir_ops[ir_ins(f, v)->op].cls == CLASS_VIEW) v = ir_arg(f, v, 0);
  return v;
}

// The value that owns the storage of v: through views, and from each next version to the previous one.
static Val storage_of(const Fn *f, Val v) {
  for (;;) {
    v = through_views(f, v);
    Val head = ir_head(f, v);
    uint32_t k = v.i - head.i;
    if (!(ir_ops[ir_ins(f, head)->op].flags & WRITES) || k >= ir_ins(f, head)->n_args) return v;
    v = ir_arg(f, head, k);
  }
}

static uint32_t kernel_arg_of(ModulePlan *plan, KernelCall *c, Val v) {
  Val at = storage_of(c->f, v);
  for (uint32_t k = 0; k < c->n_kernel_args; k++)
    if (c->kernel_args[k].v.i == at.i) return k;
  *RT_PUSH(plan->mem, c->kernel_args, c->n_kernel_args, c->cap_kernel_args) = (KernelArg){.v = at};
  return c->n_kernel_args - 1;
}

uint32_t cg_number_dim(ModulePlan *plan, KernelCall *c, Dim d) {
  for (uint32_t k = 0; k < c->n_dims; k++)
    if (c->dims[k].i == d.i) return k;
  *RT_PUSH(plan->mem, c->dims, c->n_dims, c->cap_dims) = d;
  return c->n_dims - 1;
}

static void put_dim(ModulePlan *plan, KernelCall *c, Dim d, RtText *out) {
  const DimInfo *in = ir_dim_info(plan->p, d);
  Dim a = in->a, b = in->b;
  switch (in->kind) {
  case DIM_CONST: rt_text_add(out, "%lld", (long long)in->value); return;
  case DIM_SYM: rt_text_add(out, "d%u<=%lld", cg_number_dim(plan, c, d), (long long)in->value); return;
  default: break;
  }
  static const char sign_of[] = {[DIM_MUL] = '*', [DIM_ADD] = '+', [DIM_DIV] = '/', [DIM_MAX] = '>', [DIM_MIN] = '<'};
  rt_text_add(out, "(");
  put_dim(plan, c, a, out);
  rt_text_add(out, "%c", sign_of[in->kind]);
  put_dim(plan, c, b, out);
  rt_text_add(out, ")");
}

static void put_shape(ModulePlan *plan, KernelCall *c, Shape s, RtText *out) {
  rt_text_add(out, "[");
  for (uint32_t k = 0; k < ir_rank(plan->p, s); k++) {
    if (k) rt_text_add(out, ",");
    put_dim(plan, c, ir_dim_at(plan->p, s, k), out);
  }
  rt_text_add(out, "]");
}

static void put_type(ModulePlan *plan, KernelCall *c, Val v, RtText *out) {
  const Ins *ins = ir_ins(c->f, v);
  rt_text_add(out, "%s", ir_dtype_name[ins->dtype]);
  if (ins->dtype != DT_LAYOUT) {
    put_shape(plan, c, ins->shape, out);
    return;
  }
  // A kernel that computes a layout does not know its number of rows yet.
  uint32_t known = c->k->cls == CLASS_LAYOUT ? 2 : 3;
  for (uint32_t k = 0; k < known; k++) {
    rt_text_add(out, k ? "," : "<");
    put_dim(plan, c, ir_dim_at(plan->p, ins->shape, k), out);
  }
  rt_text_add(out, ">");
}

// Attributes left out, which may differ between equal kernels: names, positions in tables, random streams, and those
// that only passes read.
static bool is_outside_key(const KernelCall *c, Key key) {
  switch (key) {
  case KEY_id:
  case KEY_name:
  case KEY_index:
  case KEY_param:
  case KEY_scope:
  case KEY_into_param:
  case KEY_body:  // the body is described by its kernels
  case KEY_live:
  case KEY_reader: return true;
  case KEY_rows: return c->k->cls == CLASS_LAYOUT;  // the slot is among the dims described
  default: return false;
  }
}

static void put_attr(ModulePlan *plan, KernelCall *c, const Attr *a, RtText *out) {
  rt_text_add(out, " %s=", ir_key_name[a->key]);
  switch ((AttrKind)ir_key_kind[a->key]) {
  case KIND_INT:
  case KIND_FLAG:
  case KIND_PARAM: rt_text_add(out, "%lld", (long long)a->u.i); break;
  case KIND_NUM: rt_text_add(out, "%a", a->u.f); break;
  case KIND_STR: rt_text_add(out, "%s", ir_text(plan->p, a->u.s)); break;
  case KIND_BYTES: rt_text_add(out, "%llx", (unsigned long long)ir_text_hash(plan->p, a->u.s)); break;
  case KIND_LIST: put_shape(plan, c, a->u.list, out); break;
  case KIND_DIM: put_dim(plan, c, a->u.dim, out); break;
  }
}

static void put_attrs(ModulePlan *plan, KernelCall *c, Val v, RtText *out) {
  const Ins *ins = ir_ins(c->f, v);
  for (uint32_t k = 0; k < ins->n_attrs; k++) {
    const Attr *a = &c->f->attrs[ins->attrs + k];
    if (!is_outside_key(c, (Key)a->key)) put_attr(plan, c, a, out);
    if (a->key == KEY_id) *RT_PUSH(plan->mem, c->ids, c->n_ids, c->cap_ids) = (KernelId){c->f, v, 1};
  }
  bool is_reported_by_line = ir_has_operand(c->f, v, ARG_at) || ins->op == OP_nonzero || ins->op == OP_repeat_index;
  if (!is_reported_by_line || !ir_may_fault(c->f, v)) return;
  rt_text_add(out, " checked");  // its line is what a report names it by
  *RT_PUSH(plan->mem, c->ids, c->n_ids, c->cap_ids) = (KernelId){c->f, v, 0};
}

// Operands that an emitter never reads: empty, or shape only.
static bool is_unread(const KernelCall *c, Val v, uint32_t k) {
  return (ir_operand_flags(c->f, v, k) & SHAPE_ONLY) || cg_is_empty(c->f, ir_arg(c->f, v, k));
}

static bool put_operand(ModulePlan *plan, KernelCall *c, Val v, uint32_t k, RtText *out) {
  Val a = through_views(c->f, ir_arg(c->f, v, k));
  double value;
  if (is_unread(c, v, k)) rt_text_add(out, " -:");
  else if (ir_is_const(c->f, a, &value)) rt_text_add(out, " %a:", value);
  else if (ir_ins(c->f, a)->op == OP_dim_size) {
    rt_text_add(out, " size ");
    put_dim(plan, c, ir_attr(c->f, a, KEY_dim)->u.dim, out);
    rt_text_add(out, ":");
  } else if (in_kernel(c, a)) rt_text_add(out, " %u:", a.i - c->k->first);
  else if (c->f->buf_of[a.i]) {
    uint32_t port = kernel_arg_of(plan, c, a);
    c->kernel_args[port].reads = true;
    rt_text_add(out, " p%u:", port);
  } else {
    rt_text_add(plan->why, "%%%u is read by kernel %u but was not stored", a.i, (uint32_t)(c->k - c->f->kernels));
    return false;
  }
  put_type(plan, c, ir_arg(c->f, v, k), out);
  return true;
}

static void put_result(ModulePlan *plan, KernelCall *c, Val v, RtText *out) {
  if (!c->f->buf_of[v.i] || cg_is_empty(c->f, storage_of(c->f, v))) {
    rt_text_add(out, " -");
    return;
  }
  uint32_t port = kernel_arg_of(plan, c, v);
  c->kernel_args[port].writes = true;
  rt_text_add(out, " p%u", port);
}

static bool put_instruction(ModulePlan *plan, KernelCall *c, Val v, RtText *out) {
  const Ins *ins = ir_ins(c->f, v);
  rt_text_add(out, "%u %s ", v.i - c->k->first, ir_ops[ins->op].name);
  put_type(plan, c, v, out);
  put_attrs(plan, c, v, out);
  if (ins->op == OP_result) rt_text_add(out, " of %u", ir_head(c->f, v).i - c->k->first);
  else {
    rt_text_add(out, " <-");
    for (uint32_t k = 0; k < ins->n_args; k++)
      if (!put_operand(plan, c, v, k, out)) return false;
    if (ins->absent) rt_text_add(out, " absent %x", ins->absent);
  }
  rt_text_add(out, " ->");
  put_result(plan, c, v, out);
  rt_text_add(out, "\n");
  return true;
}

// The rows dim that a layout computes. -1: none.
static int32_t slot_written(const KernelCall *c) {
  if (ir_ins(c->f, (Val){c->k->first})->op != OP_packed_layout) return -1;
  Dim rows = ir_dim_at(c->f->prog, ir_ins(c->f, (Val){c->k->first})->shape, 2);
  return ir_dim_info(c->f->prog, rows)->slot;
}

// The bound of the rows, which their layout alone looks at.
static void put_rows_limit(ModulePlan *plan, KernelCall *c, RtText *out) {
  Dim limit = ir_rows_limit(c->f, (Val){c->k->first});
  if (!limit.i) return;
  rt_text_add(out, " of at most ");
  put_dim(plan, c, limit, out);
}

static void put_wanted(ModulePlan *plan, KernelCall *c, RtText *out) {
  if (ir_none(c->k->wanted)) return;
  uint32_t port = kernel_arg_of(plan, c, c->k->wanted);
  c->kernel_args[port].reads = true;
  rt_text_add(out, "elements p%u\n", port);
}

// A part of a row kernel adds up as the whole does.
static bool put_whole(ModulePlan *plan, KernelCall *c, RtText *out) {
  const Kernel *k = c->k;
  if (!k->before || (k->cls != CLASS_ROW && k->cls != CLASS_REDUCE)) return true;
  c->whole = rt_alloc(plan->mem, sizeof *c->whole);
  *c->whole = (KernelCall){.f = k->before, .k = &k->before->kernels[k->whole]};
  if (!cg_describe(plan, c->whole)) return false;
  rt_text_add(out, "part of %s", c->whole->key);
  return true;
}

bool cg_describe(ModulePlan *plan, KernelCall *c) {
  RtText text = {plan->mem, NULL, 0, 0};
  rt_text_add(&text, "class %s", ir_class_name((OpClass)c->k->cls));
  if (slot_written(c) >= 0) rt_text_add(&text, " sets dim slot %d", slot_written(c));
  put_rows_limit(plan, c, &text);
  if (c->k->scratch) rt_text_add(&text, " scratch %lld", (long long)c->f->bufs[c->k->scratch].bytes);
  c->weight = cg_weight_number(c, plan->t);
  if (c->weight) rt_text_add(&text, " packed weight");
  if (c->k->cls == CLASS_GEMM && cg_gemm_b_streams(c->f, ir_anchor(c->f, c->k), plan->t))
    rt_text_add(&text, " streamed");
  rt_text_add(&text, "\n");
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++)
    if (in_kernel(c, (Val){i}) && !ir_is_output_alias(c->f, (Val){i}) && !put_instruction(plan, c, (Val){i}, &text))
      return false;
  put_wanted(plan, c, &text);
  if (!put_whole(plan, c, &text)) return false;
  if (c->body) cg_scan_text(plan, c, &text);
  c->key = text.text;
  c->key_len = text.len;
  return true;
}
