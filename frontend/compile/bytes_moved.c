// What a run of a function moves: the copies that writes in place forced, the bytes that every instruction stores, and
// those that every kernel reads.
// Kept with the plan, when the IR is placed; read through the public counters (frontend/run/plan_facts.c).
#include "frontend/compile/compile.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  RtArena *mem;
  const Fn *f;
  FeBytesMoved *out;
} Traffic;

static const char *keep(const Traffic *t, const char *s) { return s ? rt_strdup(t->mem, s) : NULL; }
static int64_t bytes_of(const Fn *f, Val v) {
  return ir_type_bytes(f->prog, (DType)f->ins[v.i].dtype, f->ins[v.i].shape);
}

// "sum m.c:7": an operation, and where it stands when that is known
static void split_reader(const Traffic *t, const char *text, tn_plan_copy *c) {
  const char *space = strrchr(text, ' '), *colon = space ? strrchr(space, ':') : NULL;
  c->reader = keep(t, text);
  if (!colon) return;
  c->reader = rt_strndup(t->mem, text, (size_t)(space - text));
  c->reader_file = rt_strndup(t->mem, space + 1, (size_t)(colon - space - 1));
  c->reader_line = atoi(colon + 1);
}

static void add_copy(Traffic *t, Val v) {
  const Prog *p = t->f->prog;
  Loc at = t->f->ins[v.i].loc;
  tn_plan_copy c = {.file = keep(t, ir_loc_file(p, at)), .line = (int)ir_loc_line(p, at), .bytes = bytes_of(t->f, v)};
  split_reader(t, ir_text(p, ir_attr(t->f, v, KEY_reader)->u.s), &c);
  *RT_PUSH(t->mem, t->out->copies, t->out->n_copies, t->out->cap_copies) = c;
}

// What result v of an instruction stores: of a partial write the part, of a value in a register nothing.
static int64_t stored_bytes(const Fn *f, Val head, Val v) {
  if (ir_ops[f->ins[head.i].op].cls == CLASS_SLICE_UPDATE) return bytes_of(f, ir_operand(f, head, ARG_source));
  return f->buf_of[v.i] ? bytes_of(f, v) : 0;
}

// The value of v and where it was made, as the user knows it.
static FeStored describe(Traffic *t, Val v, int64_t bytes) {
  const Fn *f = t->f;
  const Prog *p = f->prog;
  Loc at = f->ins[ir_head(f, v).i].loc;
  Str name = f->ins[v.i].op == OP_output ? ir_output_name(f, v) : f->ins[v.i].name;
  const char *text = keep(t, ir_text(p, name));
  return (FeStored){.file = keep(t, ir_loc_file(p, at)), .line = (int)ir_loc_line(p, at), .bytes = bytes, .name = text};
}

static void add_stored(Traffic *t, Val v) {
  const Fn *f = t->f;
  Val head = ir_head(f, v);
  if (f->kernel_of[head.i] == UINT32_MAX || ir_is_output_alias(f, v)) return;
  int64_t bytes = stored_bytes(f, head, v);
  if (bytes) *RT_PUSH(t->mem, t->out->stored, t->out->n_stored, t->out->cap_stored) = describe(t, v, bytes);
}

// seen: by value, 1 + the last kernel that counted it.
static void add_loaded(Traffic *t, Val v, uint32_t *seen) {
  const Fn *f = t->f;
  uint32_t kernel = f->kernel_of[v.i];
  if (kernel == UINT32_MAX || f->ins[v.i].op == OP_result || ir_is_output_alias(f, v)) return;
  for (uint32_t k = 0; k < f->ins[v.i].n_args; k++) {
    Val base = ir_view_base(f, ir_arg(f, v, k));
    if (ir_operand_flags(f, v, k) & SHAPE_ONLY) continue;
    if (!f->buf_of[base.i] || f->kernel_of[base.i] == kernel || seen[base.i] == kernel + 1) continue;
    seen[base.i] = kernel + 1;
    *RT_PUSH(t->mem, t->out->loaded, t->out->n_loaded, t->out->cap_loaded) = describe(t, base, bytes_of(f, base));
  }
}

void fe_bytes_moved(const Fn *f, RtArena *mem, FeBytesMoved *out) {
  Traffic t = {mem, f, out};
  uint32_t *seen = rt_alloc(f->prog->mem, f->n_ins * sizeof *seen);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_ops[f->ins[ir_head(f, v).i].op].cls == CLASS_EXCHANGE) continue;  // the runtime moves what it does
    if (ir_attr(f, v, KEY_reader)) add_copy(&t, v);
    add_stored(&t, v);
    add_loaded(&t, v, seen);
  }
}

// ---- what no plan can save
static bool is_outside(const Fn *f, uint32_t buf) {
  Segment seg = (Segment)f->bufs[buf].seg;
  return seg == SEG_IN || seg == SEG_PARAM || seg == SEG_CONST;
}

// A slice or a lookup wants as much as it yields.
static int64_t wanted_bytes(const Fn *f, Val v, uint32_t k) {
  Op op = f->ins[v.i].op;
  bool is_part = op == OP_slice || (op == OP_embedding && k == 0);
  return bytes_of(f, is_part ? v : ir_arg(f, v, k));
}

static void add_wanted(const Fn *f, Val v, int64_t *read) {
  for (uint32_t k = 0; f->ins[v.i].op != OP_result && k < f->ins[v.i].n_args; k++) {
    uint32_t buf = f->buf_of[ir_view_base(f, ir_arg(f, v, k)).i];
    if (buf && is_outside(f, buf) && !(ir_operand_flags(f, v, k) & SHAPE_ONLY)) read[buf] += wanted_bytes(f, v, k);
  }
}

int64_t fe_least_bytes(const Fn *f) {
  int64_t sum = 0, *read = rt_alloc(f->prog->mem, (f->n_bufs + 1) * sizeof *read),
          *written = rt_alloc(f->prog->mem, (f->n_bufs + 1) * sizeof *written);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    Val head = ir_head(f, v);
    if (f->kernel_of[head.i] == UINT32_MAX) continue;
    add_wanted(f, v, read);
    uint32_t buf = f->buf_of[v.i];
    if (buf && (f->bufs[buf].seg == SEG_OUT || f->bufs[buf].seg == SEG_PARAM)) written[buf] += stored_bytes(f, head, v);
  }
  for (uint32_t b = 1; b < f->n_bufs; b++) {
    int64_t whole = f->bufs[b].bytes;
    sum += (read[b] < whole ? read[b] : whole) + (written[b] < whole ? written[b] : whole);
  }
  return sum;
}
