// What a run of a function moves: the copies that writes in place forced, and the bytes that every instruction stores.
// Kept with the plan, when the IR is placed; read through the public counters.
#include "frontend/fe.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  RtArena *mem;
  const Fn *f;
  FeTraffic *out;
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
  if (ir_ops[f->ins[head.i].op].cls == CLASS_PUT) return bytes_of(f, ir_arg(f, head, f->ins[head.i].n_args - 1u));
  return f->buf_of[v.i] ? bytes_of(f, v) : 0;
}

static void add_stored(Traffic *t, Val v) {
  const Fn *f = t->f;
  const Prog *p = f->prog;
  Val head = ir_head(f, v);
  if (f->kernel_of[head.i] == UINT32_MAX || ir_is_handed_out(f, v)) return;
  Loc at = f->ins[head.i].loc;
  const Attr *name = f->ins[v.i].op == OP_output ? ir_attr(f, v, KEY_name) : NULL;
  FeStored s = {.line = (int)ir_loc_line(p, at), .bytes = stored_bytes(f, head, v)};
  if (!s.bytes) return;
  s.file = keep(t, ir_loc_file(p, at));
  s.name = keep(t, ir_text(p, name ? name->u.s : f->ins[v.i].name));
  *RT_PUSH(t->mem, t->out->stored, t->out->n_stored, t->out->cap_stored) = s;
}

void fe_traffic(const Fn *f, RtArena *mem, FeTraffic *out) {
  Traffic t = {mem, f, out};
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_attr(f, v, KEY_reader)) add_copy(&t, v);
    add_stored(&t, v);
  }
}

// ---- the public counters
static const FeTraffic *traffic_of(const tn_model *m, const char *function) {
  if (!m || !function) return NULL;
  uint32_t k = rt_plan_function(&m->code->plan, function);
  return k == RT_NO_FUNCTION || k == m->code->plan.init ? NULL : &m->code->traffic[k];
}

uint32_t tn_plan_copies(const tn_model *m, const char *function, tn_plan_copy *out, uint32_t max) {
  const FeTraffic *t = traffic_of(m, function);
  for (uint32_t k = 0; t && out && k < t->n_copies && k < max; k++) out[k] = t->copies[k];
  return t ? t->n_copies : 0;
}

// "train.c:12" is line 12 of any path that ends in train.c
static bool is_at(const FeStored *s, const char *what) {
  const char *colon = strrchr(what, ':');
  size_t n = (size_t)(colon - what), have = s->file ? strlen(s->file) : 0;
  if (have < n || atoi(colon + 1) != s->line || strncmp(s->file + have - n, what, n)) return false;
  return have == n || s->file[have - n - 1] == '/';
}

int64_t tn_plan_bytes_written(const tn_model *m, const char *function, const char *what) {
  const FeTraffic *t = traffic_of(m, function);
  int64_t sum = 0;
  for (uint32_t k = 0; t && k < t->n_stored; k++) {
    const FeStored *s = &t->stored[k];
    if (!what || (strchr(what, ':') ? is_at(s, what) : !strcmp(s->name, what))) sum += s->bytes;
  }
  return t ? sum : -1;
}
