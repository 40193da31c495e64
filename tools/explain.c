// tenure explain FILE.tir %value: the life of one value, in sentences.
//
//   @train_step: %41 is f32[batch,9], made by linear at vowels.c:21 in scope 'forward'.
//   It was moved to the function's own scope at vowels.c:22, which ends at vowels.c:35.
//   ..
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/scan.h"
#include "ir/storage.h"
#include "ir/text/text.h"
#include "runtime/near.h"
#include "tools/explain_place.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <string.h>

typedef struct {
  const char *file, *value, *function;
  bool planned;  // the value is named as in the plan
  bool peak;     // of the functions, and no value
  bool as_json;
} Options;

typedef struct {
  const ToolPlan *t;
  const ToolFn *f;
  const Prog *p;
  RtArena *mem;
  RtText *out;
  Val v;
  uint32_t from;  // value of the file; 0: made by a pass
} Story;

static const char *type_text(const Prog *p, RtArena *mem, uint8_t dtype, Shape shape) {
  RtText t = {.mem = mem};
  ir_type_text(p, dtype, shape, &t);
  return t.text;
}

static const char *at(const Story *s, Loc l) { return tool_loc(s->p, s->mem, l); }

static void tell_made(const Story *s) {
  const Ins *ins = &s->f->f->ins[s->v.i];
  const FileVal *file = s->from ? &s->f->file[s->from] : NULL;
  const char *type = type_text(s->p, s->mem, ins->dtype, ins->shape), *op = tool_op_name(s->f, s->v);
  rt_text_add(s->out, "@%s: %s is %s, made by ", tool_fn_name(s->f), file ? file->name : s->f->name[s->v.i], type);
  if (s->f->is_backward[s->v.i]) {
    rt_text_add(s->out, "%s in the backward of %s", op, at(s, ins->loc));
  } else {
    const char *was = file ? ir_ops[file->op].name : op;
    rt_text_add(s->out, "%s%s%s at %s", was, strcmp(was, op) ? ", now " : "", strcmp(was, op) ? op : "",
                at(s, ins->loc));
  }
  const Attr *param = ins->op == OP_param ? ir_attr(s->f->f, s->v, KEY_param) : NULL;
  if (param) rt_text_add(s->out, ": the parameter @%s", ir_text(s->p, s->p->params[param->u.i].path));
  rt_text_add(s->out, ".\n");
  if (file && strcmp(file->name, s->f->name[s->v.i]))
    rt_text_add(s->out, "In the plan, whose names are used below, it is %s.\n", s->f->name[s->v.i]);
}

static bool is_leaf(const FileVal *v) { return ir_ops[v->op].cls == CLASS_LEAF && v->op != OP_result; }

static void tell_scope(const Story *s) {
  const FileVal *file = s->from ? &s->f->file[s->from] : NULL;
  if (!file || is_leaf(file) || file->op == OP_output) return;
  rt_text_add(s->out, "It was made in %s", tool_scope(s->f, s->mem, file->scope));
  if (file->moved.i)
    rt_text_add(s->out, " and moved to %s at %s", tool_scope(s->f, s->mem, file->owner), at(s, file->moved));
  if (file->disposed.i) rt_text_add(s->out, ", and disposed at %s", at(s, file->disposed));
  else if (file->owner != NO_SCOPE) rt_text_add(s->out, ", which ends at %s", at(s, tool_scope_end(s->f, file->owner)));
  rt_text_add(s->out, ".\n");
}

// ---- readers
static void tell_reader(const Story *s, Val r) {
  const Fn *f = s->f->f;
  const char *op = ir_ops[f->ins[r.i].op].name;
  rt_text_add(s->out, "%s%s%s", f->ins[r.i].op == OP_output ? "" : s->f->name[r.i],
              f->ins[r.i].op == OP_output ? "" : " = ", op);
  rt_text_add(s->out, s->f->is_backward[r.i] ? ", the backward of %s" : " at %s", at(s, f->ins[r.i].loc));
  if (f->kernel_of[r.i] != UINT32_MAX) rt_text_add(s->out, " (kernel %u)", f->kernel_of[r.i]);
}

static void tell_readers(const Story *s) {
  uint32_t begin = s->f->reader_at[s->v.i], end = s->f->reader_at[s->v.i + 1], n = 0;
  for (uint32_t k = begin; k < end; k++) n += k == begin || s->f->readers[k].i != s->f->readers[k - 1].i;
  if (!n) {
    const Op op = s->f->f->ins[ir_head(s->f->f, s->v).i].op;
    if (op == OP_output) rt_text_add(s->out, "It is handed to the caller.\n");
    else if (ir_ops[op].flags & WRITES)
      rt_text_add(s->out, "Nothing in the function reads this version: it stays in the buffer.\n");
    else rt_text_add(s->out, "Nothing reads it.\n");
    return;
  }
  Val last = tool_last_read(s->f, s->v);
  rt_text_add(s->out, "It is last read by ");
  if (ir_none(last)) rt_text_add(s->out, "a view alone");
  else tell_reader(s, last);
  if (n == 1) rt_text_add(s->out, ", its one reader.\n");
  else rt_text_add(s->out, "; %u instructions read it.\n", n);
}

// ---- storage
static void tell_copy(const Story *s) {
  const Fn *f = s->f->f;
  if (f->ins[s->v.i].op != OP_copy) return;
  Val old = ir_arg(f, s->v, 0);
  const Attr *reader = ir_attr(f, s->v, KEY_reader);
  uint32_t from = f->buf_of[old.i], to = f->buf_of[s->v.i];
  rt_text_add(s->out, "It is a copy of %s", s->f->name[old.i]);
  if (reader)
    rt_text_add(s->out, ", forced by %s, which wants the content from before a write", ir_text(s->p, reader->u.s));
  if (from && to && from != to) rt_text_add(s->out, ": %s are moved.\n", tool_bytes(s->mem, f->bufs[to].bytes));
  else rt_text_add(s->out, ", and moves no memory of its own.\n");
}

static void tell_register(const Story *s) {
  const Fn *f = s->f->f;
  Op op = f->ins[s->v.i].op;
  if (op == OP_const || op == OP_dim_size) rt_text_add(s->out, "It is a number in the code: no memory.\n");
  else if (f->kernel_of[s->v.i] == UINT32_MAX) rt_text_add(s->out, "It has no memory.\n");
  else if (s->f->reader_at[s->v.i] == s->f->reader_at[s->v.i + 1])
    rt_text_add(s->out, "Kernel %u doesn't store it: nobody reads it.\n", f->kernel_of[s->v.i]);
  else rt_text_add(s->out, "It stays in a register inside kernel %u: it is never stored.\n", f->kernel_of[s->v.i]);
}

static void tell_place(const Story *s, const Buf *b) {
  bool table = b->seg == SEG_IN || b->seg == SEG_OUT;
  if (table)
    rt_text_add(s->out, "It lies in the caller's memory, %s %lld, %s", b->seg == SEG_IN ? "input" : "output",
                (long long)b->offset, tool_bytes(s->mem, b->bytes));
  else
    rt_text_add(s->out, "It lies in %s+%lld, %s", tool_seg_name[b->seg], (long long)b->offset,
                tool_bytes(s->mem, b->bytes));
  if (b->last < 0) rt_text_add(s->out, ", and no kernel touches it.\n");
  else rt_text_add(s->out, ", kernels [%d,%d] of %u.\n", b->first, b->last, s->f->f->n_kernels);
}

static void tell_share(const Story *s, uint32_t buf) {
  const Fn *f = s->f->f;
  const Buf *b = &f->bufs[buf];
  if (b->seg != SEG_ARENA || f->stats.peak_bytes == 0) return;
  Peak peak = tool_peak(s->f, s->mem);
  bool live = b->first <= (int32_t)peak.kernel && b->last >= (int32_t)peak.kernel;
  double share = 100.0 * (double)b->bytes / (double)f->stats.peak_bytes;
  if (live)
    rt_text_add(s->out, "It is live at the peak, kernel %u: %.2f %% of the arena's %s.\n", peak.kernel, share,
                tool_bytes(s->mem, f->stats.peak_bytes));
  else
    rt_text_add(s->out, "It isn't live at the arena's peak, kernel %u of %s; its size is %.2f %% of it.\n", peak.kernel,
                tool_bytes(s->mem, f->stats.peak_bytes), share);
}

static void tell_slot(const Story *s, uint32_t buf) {
  const Fn *f = s->f->f;
  uint32_t from = f->bufs[buf].reuses, to = tool_taker(s->f, buf);
  if (from)
    rt_text_add(s->out, "It takes over in place the slot of %s (%s at %s), which dies in kernel %d.\n",
                s->f->name[f->bufs[from].head.i], tool_op_name(s->f, f->bufs[from].head),
                at(s, f->ins[f->bufs[from].head.i].loc), f->bufs[from].last);
  if (to)
    rt_text_add(s->out, "Its slot is taken over in place by %s (%s at %s) in kernel %d.\n",
                s->f->name[f->bufs[to].head.i], tool_op_name(s->f, f->bufs[to].head),
                at(s, f->ins[f->bufs[to].head.i].loc), f->bufs[to].first);
}

enum { MAX_LISTED = 8 };

static void tell_aliases(const Story *s, uint32_t buf) {
  const Fn *f = s->f->f;
  uint32_t n = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (i == s->v.i || f->buf_of[i] != buf) continue;
    Val h = ir_head(f, (Val){i});
    const char *what = i == f->bufs[buf].head.i                ? "the first value of the buffer"
                       : ir_ops[f->ins[h.i].op].flags & WRITES ? "a version"
                                                               : "a view";
    if (n < MAX_LISTED)
      rt_text_add(s->out, "%s%s (%s, %s at %s)", n ? ", " : "It shares its bytes with ", s->f->name[i], what,
                  ir_ops[f->ins[h.i].op].name, at(s, f->ins[i].loc));
    n++;
  }
  if (n > MAX_LISTED) rt_text_add(s->out, " and %u more", n - MAX_LISTED);
  if (n) rt_text_add(s->out, ".\n");
}

// What the sentence about the last reader leaves open.
static void tell_keeps(const Story *s, uint32_t buf) {
  const Buf *b = &s->f->f->bufs[buf];
  Val last = tool_last_read(s->f, s->v);
  bool known = b->seg == SEG_ARENA && last.i && tool_last_use(s->f, buf).i == last.i;
  if (!known) rt_text_add(s->out, "%s\n", tool_keeps(s->f, s->mem, buf));
  else if (ir_none(tool_saved_for(s->f, buf))) rt_text_add(s->out, "That read ends its life.\n");
  else
    rt_text_add(s->out, "That read keeps it alive: it is saved for backward%s.\n",
                tool_outlives(s->f, s->mem, b->head));
}

static void tell_storage(const Story *s) {
  uint32_t buf = s->f->f->buf_of[s->v.i];
  if (!buf) {
    tell_register(s);
    tell_copy(s);
    return;
  }
  tell_keeps(s, buf);
  tell_place(s, &s->f->f->bufs[buf]);
  tell_share(s, buf);
  tell_slot(s, buf);
  tell_aliases(s, buf);
  tell_copy(s);
}

void tool_explain_value(const ToolPlan *t, const ToolFn *f, Val v, uint32_t from, RtText *out) {
  Story s = {.t = t, .f = f, .p = t->p, .mem = out->mem, .out = out, .v = v, .from = from};
  tell_made(&s);
  tell_scope(&s);
  tell_readers(&s);
  tell_storage(&s);
}

// ---- a value of a scan's body: it is one in every step
static bool tell_body(const FileVal *v, const Fn *body, RtText *out) {
  const Prog *p = body->prog;
  const char *name = v->name + (*v->name == '%');
  for (uint32_t i = 1; i < body->n_ins; i++) {
    if (strcmp(ir_text(p, body->ins[i].name), name)) continue;
    uint32_t kernel = body->kernel_of[i], buf = body->buf_of[i];
    rt_text_add(out, "In body @%s, which a scan runs in every step, it is %s", ir_text(p, body->name),
                ir_ops[body->ins[i].op].name);
    if (kernel != UINT32_MAX) rt_text_add(out, " in kernel %u of %u", kernel, body->n_kernels);
    if (buf && body->bufs[buf].seg == SEG_ARENA)
      rt_text_add(out, ", in bytes %lld to %lld of the body's arena of %lld, kernels [%d,%d].\n",
                  (long long)body->bufs[buf].offset, (long long)(body->bufs[buf].offset + body->bufs[buf].bytes),
                  (long long)body->stats.peak_bytes, body->bufs[buf].first, body->bufs[buf].last);
    else
      rt_text_add(out, body->ins[i].op == OP_input ? " of the step: a slice, a carry or a captured value.\n"
                                                   : ", in a register.\n");
    return true;
  }
  return false;
}

static bool tell_bodies(const FileVal *v, const Fn *fn, RtText *out) {
  bool told = false;
  for (uint32_t i = 1; i < fn->n_ins; i++) {
    if (fn->ins[i].op != OP_scan) continue;
    const Fn *body = ir_scan_at(fn, (Val){i}).body;
    told |= tell_body(v, body, out);
    told |= tell_bodies(v, body, out);
  }
  return told;
}

static bool explain_body(const ToolPlan *t, const ToolFn *f, const FileVal *v, RtText *out) {
  if (!v->gone_in || strcmp(v->gone_in, "outline_scans")) return false;
  rt_text_add(out, "@%s: %s is %s, made by %s at %s.\n", tool_fn_name(f), v->name,
              type_text(t->p, out->mem, v->dtype, v->shape), ir_ops[v->op].name, tool_loc(t->p, out->mem, v->loc));
  if (!tell_bodies(v, f->f, out))
    rt_text_add(out, "It is made in the body of a scan, where nothing that is read needs it as a value.\n");
  return true;
}

// ---- a value that the passes removed
static void explain_gone(const ToolPlan *t, const ToolFn *f, uint32_t from, RtText *out) {
  const FileVal *v = &f->file[from];
  const char *gone = v->gone_in ? v->gone_in : "simplify";
  if (explain_body(t, f, v, out)) return;
  rt_text_add(out, "@%s: %s is %s, made by %s at %s.\n", tool_fn_name(f), v->name,
              type_text(t->p, out->mem, v->dtype, v->shape), ir_ops[v->op].name, tool_loc(t->p, out->mem, v->loc));
  if (v->op == OP_grad_of) rt_text_add(out, "Pass %s replaced it by the backward computation.\n", gone);
  else if (!v->is_needed && (ir_is_alias(v->op) || v->op == OP_clone))
    rt_text_add(out, "Pass %s removed it: it is another name for bytes of the value that it was made of.\n", gone);
  else if (!v->is_needed)
    rt_text_add(out, "Pass %s removed it: no output, parameter update or gradient needs it.\n", gone);
  else rt_text_add(out, "Pass %s removed it: an equal or simpler value serves its readers.\n", gone);
  if (!v->served_by) return;
  rt_text_add(out, "In the plan, whose names are used below, its readers read %s.\n\n", f->name[v->served_by]);
  tool_explain_value(t, f, (Val){v->served_by}, 0, out);
}

// The facts that sentences are made of, and the sentences.
static void json_value(const ToolPlan *t, const ToolFn *f, uint32_t v, uint32_t from, const char *text, RtText *out) {
  RtArena *mem = out->mem;
  json_open(out, NULL, '{');
  json_text(out, "function", tool_fn_name(f));
  json_text(out, "name", from ? f->file[from].name : f->name[v]);
  json_text(out, "in_plan", v ? f->name[v] : NULL);
  if (v) {
    const Ins *ins = &f->f->ins[v];
    uint32_t buf = f->f->buf_of[v];
    json_text(out, "type", type_text(t->p, mem, ins->dtype, ins->shape));
    json_text(out, "op", tool_op_name(f, (Val){v}));
    json_text(out, "source", tool_loc(t->p, mem, ins->loc));
    if (f->f->kernel_of[v] != UINT32_MAX) json_int(out, "kernel", f->f->kernel_of[v]);
    if (buf) {
      const Buf *b = &f->f->bufs[buf];
      json_open(out, "buffer", '{');
      json_text(out, "segment", tool_seg_name[b->seg]);
      json_int(out, "offset", b->offset);
      json_int(out, "bytes", b->bytes);
      json_int(out, "first_kernel", b->first);
      json_int(out, "last_kernel", b->last);
      json_text(out, "kind", b->seg == SEG_ARENA ? tool_buf_kind[tool_kind(f, buf)] : tool_seg_name[b->seg]);
      json_close(out, '}');
    }
  } else {
    json_text(out, "removed_by", f->file[from].gone_in ? f->file[from].gone_in : "simplify");
  }
  json_text(out, "text", text);
  json_close(out, '}');
}

// Sentences on their own text where JSON is wanted.
static void put_value(const ToolPlan *t, const ToolFn *f, const Options *o, uint32_t v, uint32_t from, RtText *out) {
  RtText own = {.mem = out->mem}, *text = o->as_json ? &own : out;
  if (!o->as_json && out->len) rt_text_add(out, "\n");
  if (v) tool_explain_value(t, f, (Val){v}, from, text);
  else explain_gone(t, f, from, text);
  if (o->as_json) json_value(t, f, v, from, own.text, out);
}

static bool explain_in(const ToolPlan *t, const ToolFn *f, const Options *o, RtText *out) {
  uint32_t from = o->planned ? 0 : tool_find_file(f, o->value);
  uint32_t v = from ? f->file[from].now : tool_find_planned(f, o->value);
  if (!from && !v) return false;
  put_value(t, f, o, v, from || !v ? from : f->from[v], out);
  return true;
}

// A parameter by its path: its first value in each function.
static bool explain_param(const ToolPlan *t, const ToolFn *f, const Options *o, RtText *out) {
  uint32_t param = ir_param_find(t->p, o->value + 1);
  for (uint32_t i = 1; i < f->f->n_ins; i++) {
    if (f->f->ins[i].op != OP_param || ir_attr_int(f->f, (Val){i}, KEY_param, -1) != param) continue;
    put_value(t, f, o, i, 0, out);
    return true;
  }
  return false;
}

// `scratch of %12`, as report names the memory of a kernel, is explained by the value.
static const char *value_word(const char *word) {
  static const char scratch[] = "scratch of ";
  return strncmp(word, scratch, strlen(scratch)) ? word : word + strlen(scratch);
}

// The values of a line or of a module; one alone is told whole.
static bool explain_at(const ToolPlan *t, const ToolFn *f, const Options *o, RtText *out) {
  uint32_t only = 0, n = tool_n_at(f, o->value, &only);
  if (!o->as_json && n != 1) return tool_explain_place(f, o->value, out);
  for (uint32_t i = 1; i < f->f->n_ins; i++)
    if (tool_is_at(f, i, o->value)) put_value(t, f, o, i, f->from[i], out);
  return n > 0;
}

// A number that the file gives to one value and the plan to another.
static void tell_namesake(const ToolFn *f, const Options *o, RtText *out) {
  uint32_t from = o->planned ? 0 : tool_find_file(f, o->value), planned = tool_find_planned(f, o->value);
  if (!o->as_json && from && planned && f->file[from].now != planned)
    rt_text_add(out, "%s of the plan, as `tenure report` names values, is another value: --planned explains that.\n",
                f->name[planned]);
}

static bool explain_named(const ToolPlan *t, const ToolFn *f, const Options *o, RtText *out) {
  if (tool_is_line(o->value) || !explain_in(t, f, o, out)) return false;
  tell_namesake(f, o, out);
  return true;
}

typedef bool Explain(const ToolPlan *t, const ToolFn *f, const Options *o, RtText *out);

static bool each_function(const ToolPlan *t, const Options *o, Explain *explain, RtText *out) {
  bool found = false;
  for (uint32_t k = 0; k < t->n_fns; k++) {
    const ToolFn *f = &t->fns[k];
    if (!o->function || !strcmp(tool_fn_name(f), o->function)) found |= explain(t, f, o, out);
  }
  return found;
}

static bool explain_peaks(const ToolPlan *t, const Options *o, RtText *out) {
  const PeakWays ways = tool_find_ways(t, out->mem);
  for (uint32_t k = 0; k < t->n_fns; k++)
    if (!o->function || !strcmp(tool_fn_name(&t->fns[k]), o->function))
      tool_explain_peak(t, &t->fns[k], &ways, o->as_json, out);
  return true;
}

// A word without % is a place, if any function has one of that name: modules may be named by numbers, as values are.
static bool explain_all(const ToolPlan *t, const Options *o, RtText *out) {
  if (o->peak) return explain_peaks(t, o, out);
  if (*o->value == '@' && ir_param_find(t->p, o->value + 1) != UINT32_MAX)
    return each_function(t, o, explain_param, out);
  bool may_be_place = *o->value != '%';
  if (may_be_place && !o->planned && each_function(t, o, explain_at, out)) return true;
  return each_function(t, o, explain_named, out) ||
         (may_be_place && o->planned && each_function(t, o, explain_at, out));
}

// Names without their mark, % or @.
static RtNear near_value(const ToolPlan *t, const char *value) {
  RtNear near = {.wanted = value + (*value == '%' || *value == '@')};
  for (uint32_t k = 0; *value == '@' && k < t->p->n_params; k++)
    rt_near_offer(&near, ir_text(t->p, t->p->params[k].path));
  for (uint32_t k = 0; *value != '@' && k < t->p->n_fns; k++)
    for (uint32_t v = 1; v < t->p->fns[k]->n_ins; v++) rt_near_offer(&near, ir_text(t->p, t->p->fns[k]->ins[v].name));
  return near;
}

static int explain(RtArena *mem, void *ctx) {
  const Options *o = ctx;
  ToolPlan t = {0};
  if (!tool_plan_read(&t, mem, o->file)) return EXIT_ERRORS;
  if (o->function && !ir_fn_find(t.p, o->function)) {
    RtNear near = {.wanted = o->function};
    for (uint32_t k = 0; k < t.n_fns; k++) rt_near_offer(&near, tool_fn_name(&t.fns[k]));
    fprintf(stderr, "tenure: %s has no function @%s%s\n", t.path, o->function, rt_near_text(&near));
    return EXIT_ERRORS;
  }
  RtText out = {.mem = mem};
  if (o->as_json) json_open(&out, NULL, '[');
  bool found = explain_all(&t, o, &out);
  if (o->as_json) json_close(&out, ']'), rt_text_add(&out, "\n");
  if (!found) {
    RtNear near = near_value(&t, o->value);
    const char *what = strchr("%@", *o->value) ? "value" : "value, line or module";
    fprintf(stderr, "tenure: %s has no %s %s%s%s%s\n", t.path, what, o->value, o->function ? " in @" : "",
            o->function ? o->function : "", rt_near_text(&near));
    return EXIT_ERRORS;
  }
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

int tool_explain(const CliArgs *a) {
  bool peak = cli_has(a, "--peak");
  if (peak && a->n_operands != 1) return cli_usage_error(a, "explain --peak needs a file alone");
  if (a->n_operands == 1 && !peak) return tool_explain_id(a, a->operand[0]);
  if (!a->n_operands)
    return cli_usage_error(a, "explain needs an id, such as E103, or a file and a value, such as %%x");
  Options o = {.file = a->operand[0],
               .value = peak ? "" : value_word(a->operand[1]),
               .peak = peak,
               .function = cli_value(a, "--function"),
               .planned = cli_has(a, "--planned"),
               .as_json = cli_has(a, "--json")};
  if (o.function && *o.function == '@') o.function++;
  return tool_with_arena(explain, &o);
}
