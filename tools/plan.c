// Reads a program and plans it as tn_compile does, following each value of the file through the passes.
//
// A value is followed by its name: passes copy names with instructions. Values that print as numbers get a name that is
// no word
// (%41), so that they still print as numbers.
#include "codegen/kernels.h"
#include "codegen/module/compile.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/text/lex.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  ToolFn *tool;
  RtArena *mem;
  Str *tag;          // by value of the file
  uint32_t *by_tag;  // by Str: value of the file; 0: none
  uint32_t n_by_tag;
  // What pass grad made: gradients, and what it makes of the forward's values alone; what passes before it made
  Str grad_tag, saved_tag, early_tag;
  bool is_after_grad, keeps_texts;
  Ins *ins;  // of the file
  Val *args;
} Follow;

char *tool_read_file(RtArena *mem, const char *path, size_t *n) {
  bool is_stdin = !strcmp(path, "-");
  FILE *in = is_stdin ? stdin : fopen(path, "rb");
  if (!in) return NULL;
  RtText text = {.mem = mem};
  char block[16384];
  size_t got;
  rt_text_put(&text, "", 0);
  while ((got = fread(block, 1, sizeof block, in)) > 0) rt_text_put(&text, block, got);
  int error = ferror(in) ? errno : 0;
  if (!is_stdin) fclose(in);
  errno = error;
  *n = text.len;
  return error ? NULL : text.text;
}

// ---- names as the printer prints them
static const char **print_names(const Fn *f, RtArena *mem) {
  uint32_t top = 0;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].name.i > top) top = f->ins[i].name.i;
  bool *seen = rt_alloc(mem, top + 1);
  const char **names = rt_alloc(mem, (f->n_ins + 1) * sizeof *names);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Str s = f->ins[i].name;
    const char *text = ir_text(f->prog, s);
    bool own = s.i && !seen[s.i] && ir_lex_is_word(text, strlen(text));
    if (s.i) seen[s.i] = true;
    names[i] = own ? rt_printf(mem, "%%%s", text) : rt_printf(mem, "%%%u", i);
  }
  return names;
}

static uint32_t find_name(const char *const *name_of, uint32_t n, const char *name) {
  name += *name == '%';
  for (uint32_t i = 1; i < n; i++)
    if (name_of[i] && !strcmp(name_of[i] + 1, name)) return i;
  return 0;
}

uint32_t tool_find_planned(const ToolFn *f, const char *name) { return find_name(f->name, f->f->n_ins, name); }

uint32_t tool_find_file(const ToolFn *f, const char *name) {
  name += *name == '%';
  for (uint32_t i = 1; i < f->n_file; i++)
    if (f->file[i].name && !strcmp(f->file[i].name + 1, name)) return i;
  return 0;
}

// ---- the file
static void note_mark(FileVal *file, const Fn *f, uint32_t i) {
  const Ins *ins = &f->ins[i];
  if (ins->op != OP_move && ins->op != OP_attach && ins->op != OP_dispose) return;
  FileVal *v = &file[ir_arg(f, (Val){i}, 0).i];
  if (ir_ops[v->op].cls == CLASS_LEAF && v->op != OP_result) return;  // scopes never end leaves
  if (ins->op == OP_dispose) {
    v->disposed = ins->loc;
    return;
  }
  int64_t to = ir_attr_int(f, (Val){i}, KEY_scope, -1);
  v->owner = to < 0 ? NO_SCOPE : (uint32_t)to;
  v->moved = ins->loc;
}

static const char *made_by(const Fn *f, RtArena *mem, uint32_t i) {
  Val head = ir_head(f, (Val){i});
  const Attr *param = ir_attr(f, head, KEY_param), *name = ir_attr(f, head, KEY_name);
  const char *op = ir_ops[f->ins[head.i].op].name;
  if (f->ins[head.i].op == OP_param && param)
    return rt_printf(mem, "%s @%s", op, ir_text(f->prog, f->prog->params[param->u.i].path));
  return f->ins[head.i].op == OP_output && name ? rt_printf(mem, "%s %s", op, ir_text(f->prog, name->u.s)) : op;
}

static bool is_mark(const Ins *ins) { return ir_ops[ins->op].cls == CLASS_MARK && ins->op != OP_grad_of; }

static void read_values(Follow *w, Fn *f) {
  ToolFn *t = w->tool;
  const char **names = print_names(f, w->mem);
  t->n_file = f->n_ins;
  t->file = rt_alloc(w->mem, f->n_ins * sizeof *t->file);
  w->ins = rt_alloc(w->mem, f->n_ins * sizeof *w->ins);
  w->args = rt_alloc(w->mem, (f->n_args + 1) * sizeof *w->args);
  memcpy(w->ins, f->ins, f->n_ins * sizeof *w->ins);
  if (f->n_args) memcpy(w->args, f->args, f->n_args * sizeof *w->args);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    if (is_mark(ins)) {
      note_mark(t->file, f, i);
      continue;
    }
    uint32_t scope = ins->op != OP_result && ir_ops[ins->op].cls == CLASS_LEAF ? 0 : ins->scope;
    t->file[i] = (FileVal){.name = names[i],
                           .made_by = made_by(f, w->mem, i),
                           .op = f->ins[ir_head(f, (Val){i}).i].op,
                           .dtype = ins->dtype,
                           .shape = ins->shape,
                           .loc = ins->loc,
                           .scope = scope,
                           .owner = scope};
  }
}

// Gives every value a name of its own. Names that print stay.
static void tag_values(Follow *w, Fn *f) {
  ToolFn *t = w->tool;
  uint32_t top = 0;
  w->tag = rt_alloc(w->mem, f->n_ins * sizeof *w->tag);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!t->file[i].name) continue;
    const char *name = ir_text(f->prog, f->ins[i].name);
    bool prints = f->ins[i].name.i && !strcmp(name, t->file[i].name + 1);
    if (!prints) f->ins[i].name = ir_str(f->prog, t->file[i].name);
    w->tag[i] = f->ins[i].name;
    if (w->tag[i].i > top) top = w->tag[i].i;
  }
  w->n_by_tag = top + 1;
  w->by_tag = rt_alloc(w->mem, w->n_by_tag * sizeof *w->by_tag);
  for (uint32_t i = 1; i < f->n_ins; i++) w->by_tag[w->tag[i].i] = i;
  w->by_tag[0] = 0;
}

// ---- between passes
static uint32_t file_value(const Follow *w, Str tag) { return tag.i < w->n_by_tag ? w->by_tag[tag.i] : 0; }

static void mark_needed(const Follow *w, const Fn *f) {
  bool *live = rt_alloc(w->mem, f->n_ins);
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    if (ir_ops[f->ins[i].op].flags & EFFECT) live[i] = true;
    if (!live[i]) continue;
    uint32_t v = file_value(w, f->ins[i].name);
    if (v) w->tool->file[v].is_needed = true;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) live[ir_arg(f, (Val){i}, k).i] = true;
  }
}

// More instructions than that are no text that anybody reads: `tenure opt --dump-after` prints it.
enum { MOST_LISTED = 2000 };

static void keep_text(const Follow *w, const Fn *f) {
  ToolFn *t = w->tool;
  if (!w->keeps_texts || f->n_ins > MOST_LISTED) return;
  RtText text = {.mem = w->mem};
  ir_print_fn(f, &text, PRINT_LOCS | PRINT_FACTS);
  *RT_PUSH(w->mem, t->text, t->n_texts, t->cap_texts) = text.text;
}

// A gradient is computed from where a backward begins: a number that is part of no operation's gradient. What the
// backward makes of the forward's values alone, such as a mask or a derivative, is saved for it, or made again in it.
static void tag_backward(const Follow *w, Fn *f) {
  bool *is_gradient = rt_alloc(w->mem, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Ins *ins = &f->ins[i];
    if (ins->name.i) continue;
    is_gradient[i] = !ins->backward_of && !ins->n_args;
    for (uint32_t k = 0; k < ins->n_args; k++) is_gradient[i] |= is_gradient[ir_arg(f, (Val){i}, k).i];
    ins->name = is_gradient[i] ? w->grad_tag : w->saved_tag;
  }
}

static void after_pass(Fn *f, const PassInfo *pass, void *ctx) {
  Follow *w = ctx;
  ToolFn *t = w->tool;
  keep_text(w, f);
  for (uint32_t i = 1; i < t->n_file; i++) t->file[i].now = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    uint32_t v = file_value(w, f->ins[i].name);
    if (v) t->file[v].now = i;
  }
  for (uint32_t i = 1; i < t->n_file; i++)
    if (t->file[i].name && !t->file[i].now && !t->file[i].gone_in) t->file[i].gone_in = pass->name;
  if (w->is_after_grad) return;
  w->is_after_grad = !strcmp(pass->name, "grad");
  if (w->is_after_grad) tag_backward(w, f);
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (!f->ins[i].name.i) f->ins[i].name = w->early_tag;
  if (w->is_after_grad) mark_needed(w, f);
}

// ---- the plan
static void find_readers(ToolFn *t, RtArena *mem) {
  const Fn *f = t->f;
  UseLists uses = ir_use_lists(f);
  t->reader_at = uses.first;
  t->readers = rt_alloc(mem, (uses.first[f->n_ins] + 1) * sizeof *t->readers);
  for (uint32_t k = 0; k < uses.first[f->n_ins]; k++) t->readers[k] = (Val){uses.user[k]};
}

// A gradient, or computed from one
static void find_gradients(const Follow *w, ToolFn *t, const Fn *f) {
  t->is_backward = rt_alloc(w->mem, f->n_ins);
  t->is_gradient = rt_alloc(w->mem, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    bool leaf = ir_ops[f->ins[i].op].cls == CLASS_LEAF && f->ins[i].op != OP_result;
    bool is_tagged = f->ins[i].name.i == w->grad_tag.i;
    t->is_backward[i] = is_tagged || f->ins[i].name.i == w->saved_tag.i;
    t->is_gradient[i] = is_tagged && !leaf;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) t->is_gradient[i] |= t->is_gradient[ir_arg(f, (Val){i}, k).i];
  }
}

// A value that is gone: what stands in its place in the operands of a reader that is left.
static void find_served(const Follow *w, ToolFn *t, const Fn *f) {
  for (uint32_t r = 1; r < t->n_file; r++) {
    uint32_t now = t->file[r].name && w->ins[r].op != OP_result ? t->file[r].now : 0;
    if (!now || f->ins[now].op != w->ins[r].op || f->ins[now].n_args != w->ins[r].n_args) continue;
    for (uint32_t k = 0; k < w->ins[r].n_args; k++) {
      FileVal *v = &t->file[w->args[w->ins[r].args + k].i];
      if (v->name && !v->now && !v->served_by) v->served_by = ir_arg(f, (Val){now}, k).i;
    }
  }
}

static void find_facts(Follow *w, Fn *f) {
  ToolFn *t = w->tool;
  t->f = f;
  t->from = rt_alloc(w->mem, f->n_ins * sizeof *t->from);
  for (uint32_t i = 1; i < f->n_ins; i++) t->from[i] = file_value(w, f->ins[i].name);
  find_readers(t, w->mem);
  find_gradients(w, t, f);
  find_served(w, t, f);
  t->name = print_names(f, w->mem);
}

// ---- all functions
// Of a distributed function the file's values are followed into both of its parts.
typedef struct {
  ToolPlan *plan;
  RtArena *mem;
  Follow **of;  // by function; NULL: its passes have not begun
  uint32_t n;
} Follows;

static Follow *new_follow(Follows *all, Prog *p) {
  Follow *w = rt_alloc(all->mem, sizeof *w);
  *w = (Follow){.tool = rt_alloc(all->mem, sizeof *w->tool),
                .mem = all->mem,
                .keeps_texts = all->plan->keeps_texts,
                .grad_tag = ir_str(p, "=grad"),
                .saved_tag = ir_str(p, "=saved"),
                .early_tag = ir_str(p, "=early")};
  return w;
}

static Follow *follow_of(const Follows *all, const Fn *f) {
  uint32_t k = 0;
  while (k < all->n && f->prog->fns[k] != f) k++;
  return k < all->n ? all->of[k] : NULL;
}

// What the update took over from what each shard computes; it is behind pass grad already.
static void follow_update(Follows *all, Follow *w, const Fn *f) {
  const Follow *shard = follow_of(all, f->shard);
  ToolFn *t = w->tool;
  *w = *shard, w->tool = t, w->is_after_grad = true;
  t->n_file = shard->tool->n_file;
  t->file = rt_alloc(all->mem, t->n_file * sizeof *t->file);
  memcpy(t->file, shard->tool->file, t->n_file * sizeof *t->file);
  bool *is_here = rt_alloc(all->mem, t->n_file);
  for (uint32_t i = 1; i < f->n_ins; i++) is_here[file_value(w, f->ins[i].name)] = true;
  for (uint32_t v = 1; v < t->n_file; v++) {
    t->file[v].gone_in = NULL;
    if (!is_here[v]) t->file[v].name = NULL;
  }
}

// Of a distributed function, what a shard computes and the update.
static void set_limit(const ToolPlan *t, const Fn *f) {
  const Fn *of = f->shard ? f->shard : f;
  bool is_limited = !t->limited || !strcmp(ir_text(of->prog, of->name), t->limited);
  of->prog->arena_limit = is_limited ? t->arena_limit : 0, of->prog->recomputes = is_limited && t->recomputes;
}

static void before_passes(Fn *f, void *ctx) {
  Follows *all = ctx;
  const Prog *p = f->prog;
  set_limit(all->plan, f);
  if (p->n_fns > all->n) {
    Follow **of = rt_alloc(all->mem, p->n_fns * sizeof *of);
    if (all->n) memcpy(of, all->of, all->n * sizeof *of);
    all->of = of, all->n = p->n_fns;
  }
  Follow *w = follow_of(all, f);
  if (w) w->tool->n_texts = w->tool->n_texts ? 1 : 0;  // what a shard computes: behind the cut, its passes begin anew
  if (w) return;
  w = new_follow(all, f->prog);
  for (uint32_t k = 0; k < all->n; k++)
    if (p->fns[k] == f) all->of[k] = w;
  if (f->shard && f->shard != f) {
    follow_update(all, w, f);
  } else {
    read_values(w, f);
    tag_values(w, f);
  }
  keep_text(w, f);
}

static void after_each(Fn *f, const PassInfo *pass, void *ctx) { after_pass(f, pass, follow_of(ctx, f)); }

// A value that went over to the update is no value of what each shard computes.
static void leave_to_update(const Follows *all, const Fn *update) {
  const ToolFn *to = follow_of(all, update)->tool;
  ToolFn *shard = follow_of(all, update->shard)->tool;
  for (uint32_t v = 1; v < shard->n_file; v++)
    if (!shard->file[v].now && to->file[v].now) shard->file[v].name = NULL;
}

static bool plan(ToolPlan *t, RtArena *mem) {
  Prog *p = t->p;
  Target *target = rt_alloc(mem, sizeof *target);
  RtText why = {.mem = mem};
  if (!cg_target_host(target, &why)) return rt_diag(&p->diags, RT_ERROR, E_CODEGEN, NULL, 0, "%s", why.text), false;
  target->convolution = cg_convolution(false);
  p->packs_weights = true;
  p->keeps_remarks = true;
  cg_plan_for(p, target);
  bool ok = true;
  Follows all = {.plan = t, .mem = mem};
  for (uint32_t k = 0; k < p->n_fns; k++) ok &= ir_verify(p->fns[k], &p->diags);
  if (!ok || !ir_plan_program(p, 0, false, &(PlanWatch){before_passes, after_each, &all})) return false;
  t->n_fns = p->n_fns;
  t->fns = rt_alloc(mem, (p->n_fns + 1) * sizeof *t->fns);
  for (uint32_t k = 0; k < p->n_fns; k++) {
    Follow *w = all.of[k];
    if (p->fns[k]->shard && p->fns[k]->shard != p->fns[k]) leave_to_update(&all, p->fns[k]);
    find_facts(w, p->fns[k]);
    if (w->tool->n_texts != 1 + ir_n_passes) w->tool->n_texts = 0;  // it grew too large on its way
    t->fns[k] = *w->tool;
  }
  cg_place_packed_weights(p, target);
  return true;
}

static bool plan_text(ToolPlan *t, RtArena *mem) {
  RtDiags diags = {.mem = mem};
  t->p = ir_parse(mem, t->text, t->n_text, t->path, &diags);
  if (t->p) t->p->recomputes = t->recomputes;
  bool ok = t->p && plan(t, mem);
  if (t->is_quiet) return ok;
  rt_diags_print(&diags, stderr);
  if (t->p && t->p->diags.n_errors) rt_diags_print(&t->p->diags, stderr);
  return ok;
}

bool tool_plan_limits(ToolPlan *t, const CliArgs *a) {
  *t = (ToolPlan){.recomputes = cli_has(a, "--recompute")};
  return cli_bytes(a, "--arena-limit", 0, &t->arena_limit);
}

// The limits stay.
static void read_text(ToolPlan *t, const char *text, size_t n, const char *path) {
  const ToolPlan was = *t;
  *t = (ToolPlan){.path = path, .text = text, .n_text = n};
  t->arena_limit = was.arena_limit, t->recomputes = was.recomputes, t->limited = was.limited;
}

bool tool_plan_text(ToolPlan *t, RtArena *mem, const char *text, size_t n, const char *path) {
  read_text(t, text, n, path);
  return plan_text(t, mem);
}

bool tool_plan_quietly(ToolPlan *t, RtArena *mem, const char *text, const char *path) {
  read_text(t, text, strlen(text), path);
  t->is_quiet = true;
  return plan_text(t, mem);
}

static bool read_and_plan(ToolPlan *t, RtArena *mem, const char *path, bool keeps_texts) {
  size_t n;
  char *text = tool_read_file(mem, path, &n);
  if (!text) {
    fprintf(stderr, "tenure: %s: %s\n", path, strerror(errno));
    return false;
  }
  read_text(t, text, n, strcmp(path, "-") ? path : "<stdin>");
  t->keeps_texts = keeps_texts;
  return plan_text(t, mem);
}

bool tool_plan_read(ToolPlan *t, RtArena *mem, const char *path) { return read_and_plan(t, mem, path, false); }
bool tool_plan_read_texts(ToolPlan *t, RtArena *mem, const char *path) { return read_and_plan(t, mem, path, true); }

bool tool_put_file(const char *path, const RtText *text) {
  if (!path || !strcmp(path, "-")) return tool_put(text);
  FILE *out = fopen(path, "wb");
  bool ok = out && fwrite(text->text, 1, text->len, out) == text->len;
  if (out) ok = !fclose(out) && ok;
  if (!ok) fprintf(stderr, "tenure: %s: %s\n", path, strerror(errno));
  return ok;
}

bool tool_put(const RtText *text) {
  bool ok = fwrite(text->text, 1, text->len, stdout) == text->len && !fflush(stdout);
  if (!ok) perror("tenure: standard output");
  return ok;
}

int tool_with_arena(int (*work)(RtArena *mem, void *ctx), void *ctx) {
  RtArena *mem = rt_arena_new();
  jmp_buf no_memory;
  if (!mem || setjmp(no_memory)) {
    fputs("tenure: out of memory\n", stderr);
    rt_arena_free(mem);
    return EXIT_ERRORS;
  }
  rt_arena_on_oom(mem, &no_memory);
  int status = work(mem, ctx);
  rt_arena_free(mem);
  return status;
}
