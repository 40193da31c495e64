// Programs as text. What is printed parses back to the same program, and prints the same again: see docs/ir.md.
//
// Scopes print as braces where their marks nest, else as plain `scope_begin` / `scope_end` instructions; where a
// function's scope table isn't what its marks say (pass `check_scopes` removes them), the table itself is printed first:
//
//   scope forward {            scope 1 forward in 0
//     %h = relu %x      ->     %h = relu %x : f32[4] owner=1
//   }
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/ops.h"
#include "ir/text/lex.h"
#include "ir/text/text.h"
#include "runtime/exec/plan_types.h"
#include "runtime/format.h"

#include <math.h>
#include <string.h>

enum { MAX_INDENT = 24 };

typedef struct {
  const Fn *f;
  const Prog *p;
  RtText *out;
  uint32_t flags;
  bool *named;     // by value: its name prints: a word, and no earlier value has it
  bool *used;      // by value: some operand
  bool *braced;    // by value: a scope_begin or scope_end that prints as a brace
  bool by_marks;   // the scope table is what the marks say
  uint32_t *open;  // stack of the open scopes, as the parser keeps it
  uint32_t n_open;
  uint32_t n_begun;
  uint32_t depth;  // of braces
} Printer;

// ---- small parts

static void put(RtText *out, const char *s) { rt_text_put(out, s, strlen(s)); }

static void put_quoted(RtText *out, const char *s) {
  rt_text_put(out, "\"", 1);
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') rt_text_add(out, "\\%c", c);
    else if (c == '\n') put(out, "\\n");
    else if (c == '\t') put(out, "\\t");
    else if (c < 0x20 || c == 0x7f) rt_text_add(out, "\\x%02x", c);
    else rt_text_put(out, s, 1);
  }
  rt_text_put(out, "\"", 1);
}

// Two digits per byte, in chunks: tables have millions of bytes.
static void put_bytes(RtText *out, const char *bytes, size_t n) {
  char digits[1024];
  size_t filled = 0;
  rt_text_put(out, "\"", 1);
  for (size_t k = 0; k < n; k++) {
    digits[filled++] = "0123456789abcdef"[(unsigned char)bytes[k] >> 4];
    digits[filled++] = "0123456789abcdef"[bytes[k] & 15];
    if (filled < sizeof digits && k + 1 < n) continue;
    rt_text_put(out, digits, filled);
    filled = 0;
  }
  rt_text_put(out, "\"", 1);
}

static void put_word(RtText *out, const char *s) { ir_lex_is_word(s, strlen(s)) ? put(out, s) : put_quoted(out, s); }

static void put_path(RtText *out, const char *s) {
  put(out, "@");
  ir_lex_is_path(s, strlen(s)) ? put(out, s) : put_quoted(out, s);
}

// The shortest decimal form that reads back equal.
static void put_num(RtText *out, double v) {
  char text[40];
  double again = 0;
  if (!isfinite(v)) {
    put(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    int n = rt_format(text, sizeof text, "%.*g", digits, v);
    if (rt_read_f64(text, (size_t)n, &again) && again == v) break;
  }
  put(out, text);
}

static void put_loc(const Prog *p, RtText *out, Loc loc) {
  const char *file = ir_loc_file(p, loc);
  if (!file || !*file) {
    put(out, "?:0");
    return;
  }
  ir_lex_is_file(file, strlen(file)) ? put(out, file) : put_quoted(out, file);
  rt_text_add(out, ":%u", ir_loc_line(p, loc));
  const char *module = ir_loc_module(p, loc);
  if (!*module) return;
  put(out, " in ");
  ir_lex_is_file(module, strlen(module)) ? put(out, module) : put_quoted(out, module);
}

// ` // file:line in module` and the end of the line.
static void end_line(const Prog *p, RtText *out, uint32_t flags, Loc loc) {
  if (flags & PRINT_LOCS) {
    put(out, "  // ");
    put_loc(p, out, loc);
  }
  put(out, "\n");
}

void ir_type_text(const Prog *p, uint8_t dtype, Shape s, RtText *out) {
  put(out, ir_dtype_name[dtype]);
  ir_shape_text(p, s, out);
}

void ir_print_type(const Fn *f, Val v, RtText *out) {
  ir_type_text(f->prog, ir_ins(f, v)->dtype, ir_ins(f, v)->shape, out);
}

static bool can_name(const Fn *f, uint32_t i) {
  const char *name = ir_text(f->prog, f->ins[i].name);
  return ir_lex_is_word(name, strlen(name));
}

void ir_print_name(const Fn *f, Val v, RtText *out) {
  bool own = can_name(f, v.i);
  for (uint32_t i = 1; own && i < v.i; i++) own = f->ins[i].name.i != f->ins[v.i].name.i;
  if (own) rt_text_add(out, "%%%s", ir_text(f->prog, f->ins[v.i].name));
  else rt_text_add(out, "%%%u", v.i);
}

static void put_name(const Printer *pr, Val v) {
  if (pr->named[v.i]) rt_text_add(pr->out, "%%%s", ir_text(pr->p, pr->f->ins[v.i].name));
  else rt_text_add(pr->out, "%%%u", v.i);
}

static void put_list(const Prog *p, RtText *out, Shape list) {
  put(out, "[");
  for (uint32_t k = 0; k < ir_rank(p, list); k++) {
    Dim d = ir_dim_at(p, list, k);
    if (k) put(out, ",");
    if (ir_dim_is_const(p, d)) rt_text_add(out, "%lld", (long long)ir_dim_info(p, d)->value);
    else ir_dim_text(p, d, out);
  }
  put(out, "]");
}

static void put_attr(const Prog *p, RtText *out, const Attr *a, uint32_t flags) {
  put(out, ir_key_name[a->key]);
  if (ir_key_kind[a->key] == KIND_FLAG && a->u.i == 1) return;
  put(out, "=");
  switch ((AttrKind)ir_key_kind[a->key]) {
  case KIND_NUM: put_num(out, a->u.f); break;
  case KIND_STR: put_quoted(out, ir_text(p, a->u.s)); break;
  case KIND_BYTES:
    if (flags & PRINT_BY_NUMBER) rt_text_add(out, "%u", a->u.s.i);
    else put_bytes(out, ir_text(p, a->u.s), ir_text_size(p, a->u.s));
    break;
  case KIND_LIST: put_list(p, out, a->u.list); break;
  case KIND_DIM: ir_dim_text(p, a->u.dim, out); break;
  case KIND_PARAM:
    if (a->u.i >= 0 && a->u.i < p->n_params) put_path(out, ir_text(p, p->params[a->u.i].path));
    else rt_text_add(out, "%lld", (long long)a->u.i);
    break;
  default:
    if (a->key == KEY_dtype && a->u.i > DT_NONE && a->u.i < N_DTYPES) put(out, ir_dtype_name[a->u.i]);
    else rt_text_add(out, "%lld", (long long)a->u.i);
  }
}

// ` {a=1, b}`, without the attribute `but` (N_KEYS: none left out).
static void put_attrs(const Printer *pr, const Ins *ins, uint32_t but) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < ins->n_attrs; k++) {
    const Attr *a = &pr->f->attrs[ins->attrs + k];
    if (a->key == but) continue;
    put(pr->out, n++ ? ", " : " {");
    put_attr(pr->p, pr->out, a, pr->flags);
  }
  if (n) put(pr->out, "}");
}

// ---- preparation

static uint32_t hash_index(uint32_t i) { return i * 2654435761u; }

// Marks the values whose names are words that no earlier value has.
static void find_names(Printer *pr, RtArena *mem) {
  const Fn *f = pr->f;
  uint32_t cap = 16;
  while (cap < 2 * f->n_ins) cap *= 2;
  uint32_t *first = rt_alloc(mem, cap * sizeof *first);  // the value that took a name first; 0: free
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!f->ins[i].name.i) continue;
    uint32_t at = hash_index(f->ins[i].name.i) & (cap - 1);
    while (first[at] && f->ins[first[at]].name.i != f->ins[i].name.i) at = (at + 1) & (cap - 1);
    if (first[at]) continue;
    first[at] = i;
    pr->named[i] = can_name(f, i);
  }
}

static const Attr *attr_of(const Printer *pr, uint32_t i, Key k) { return ir_attr(pr->f, (Val){i}, k); }

// True when scope k of the table is what the k-th scope_begin makes, for all k.
static bool table_follows_marks(const Printer *pr) {
  const Fn *f = pr->f;
  uint32_t n = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_scope_begin) continue;
    const Attr *name = attr_of(pr, i, KEY_name), *k = attr_of(pr, i, KEY_scope);
    if (++n >= f->n_scopes || !name || name->u.s.i != f->scopes[n].name.i || !k || k->u.i != n) return false;
  }
  return n + 1 == f->n_scopes;
}

// Takes scope k out of the stack; false when it isn't open. *top: it was the newest.
static bool close_scope(uint32_t *open, uint32_t *n_open, int64_t k, bool *top) {
  for (uint32_t j = *n_open; j-- > 0;) {
    if (open[j] != k) continue;
    *top = j + 1 == *n_open;
    memmove(open + j, open + j + 1, (*n_open - j - 1) * sizeof *open);
    --*n_open;
    return true;
  }
  return false;
}

// True when the attributes are {scope, name} alone, which a brace says.
static bool is_plain_begin(const Fn *f, uint32_t i) {
  return f->ins[i].n_attrs == 2 && f->attrs[f->ins[i].attrs].key == KEY_scope;
}

// Pairs each scope_end with its scope_begin where the newest open scope is closed: those print as braces.
static void find_braces(Printer *pr, RtArena *mem) {
  const Fn *f = pr->f;
  uint32_t *begin = rt_alloc(mem, f->n_scopes * sizeof *begin), n_begun = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    bool top = false;
    if (ins->op == OP_scope_begin) {
      begin[++n_begun] = i;
      pr->open[pr->n_open++] = n_begun;
    } else if (ins->op == OP_scope_end && ins->n_attrs == 1 && attr_of(pr, i, KEY_scope)) {
      int64_t k = attr_of(pr, i, KEY_scope)->u.i;
      if (close_scope(pr->open, &pr->n_open, k, &top) && top && is_plain_begin(f, begin[k]))
        pr->braced[begin[k]] = pr->braced[i] = true;
    }
  }
  pr->n_open = 0;
}

static Printer prepare(const Fn *f, RtText *out, uint32_t flags) {
  RtArena *mem = out->mem;
  Printer pr = {.f = f, .p = f->prog, .out = out, .flags = flags};
  pr.named = rt_alloc(mem, f->n_ins * sizeof *pr.named);
  pr.used = rt_alloc(mem, f->n_ins * sizeof *pr.used);
  pr.braced = rt_alloc(mem, f->n_ins * sizeof *pr.braced);
  pr.open = rt_alloc(mem, (f->n_scopes + 1) * sizeof *pr.open);
  find_names(&pr, mem);
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; f->ins[i].op != OP_result && k < f->ins[i].n_args; k++)
      pr.used[f->args[f->ins[i].args + k].i] = true;
  pr.by_marks = table_follows_marks(&pr);
  if (pr.by_marks) find_braces(&pr, mem);
  return pr;
}

// ---- facts

static void put_buf(const Printer *pr, uint32_t b, Val v) {
  const Fn *f = pr->f;
  const Buf *buf = &f->bufs[b];
#define ROW(e, t) t,
  static const char *const seg_name[N_SEGMENTS] = {TN_SEGMENTS(ROW)};
#undef ROW
  if (f->facts & HAS_OFFSETS) rt_text_add(pr->out, " %s+%lld", seg_name[buf->seg], (long long)buf->offset);
  if (f->facts & HAS_OFFSETS && buf->within)
    rt_text_add(pr->out, " at %s+%lld", seg_name[SEG_ARENA], (long long)(f->bufs[buf->within].offset + buf->within_at));
  rt_text_add(pr->out, " %lld B [%d,", (long long)buf->bytes, buf->first);
  if (buf->last == INT32_MAX) put(pr->out, "end]");
  else rt_text_add(pr->out, "%d]", buf->last);
  if (buf->head.i && buf->head.i != v.i) {
    put(pr->out, " on ");
    put_name(pr, buf->head);
  }
  if (buf->reuses) {
    put(pr->out, " reuses ");
    put_name(pr, f->bufs[buf->reuses].head);
  }
}

// `  ; k3 arena+4096 222720 B [12,30] reuses %8`; several results are parted by commas.
static void put_facts(const Printer *pr, uint32_t i, uint32_t n_res) {
  const Fn *f = pr->f;
  bool kernel = f->facts & HAS_KERNELS && f->kernel_of && f->kernel_of[i] != UINT32_MAX, any = kernel;
  if (kernel) rt_text_add(pr->out, "  ; k%u", f->kernel_of[i]);
  if (!(f->facts & HAS_LIVENESS) || !f->buf_of) return;
  for (uint32_t k = 0; k < n_res; k++) {
    if (k) put(pr->out, any ? "," : "");
    if (!f->buf_of[i + k]) continue;
    if (!any) put(pr->out, "  ;");
    any = true;
    put_buf(pr, f->buf_of[i + k], (Val){i + k});
  }
}

static void put_plan(const Printer *pr) {
  const Fn *f = pr->f;
  if (!(f->facts & HAS_KERNELS)) return;
  rt_text_add(pr->out, "  ; %u kernels", f->n_kernels);
  if (f->facts & HAS_OFFSETS)
    rt_text_add(pr->out, ", arena %lld B, lower bound %lld B", (long long)f->stats.peak_bytes,
                (long long)f->stats.lower_bound);
  if (f->facts & HAS_LIVENESS)
    rt_text_add(pr->out, ", %u in place, %u copies of %lld B", f->stats.n_inplace, f->stats.n_copies,
                (long long)f->stats.copy_bytes);
}

// ---- lines

static void put_indent(const Printer *pr) {
  uint32_t n = 1 + (pr->depth < MAX_INDENT ? pr->depth : MAX_INDENT);
  for (uint32_t k = 0; k < n; k++) put(pr->out, "  ");
}

static uint32_t default_owner(const Printer *pr) { return pr->n_open ? pr->open[pr->n_open - 1] : 0; }

static void put_owner(const Printer *pr, uint32_t scope) {
  if (scope == NO_SCOPE) put(pr->out, "none");
  else rt_text_add(pr->out, "%u", scope);
}

// ` owner=1`, or ` owner=1,0` where results have different owners; nothing where it is the innermost open scope.
static void put_owners(const Printer *pr, uint32_t i, uint32_t n_res) {
  const Ins *ins = &pr->f->ins[i];
  bool same = true, usual = true;
  for (uint32_t k = 0; k < n_res; k++) {
    same = same && ins[k].scope == ins[0].scope;
    usual = usual && ins[k].scope == default_owner(pr);
  }
  if (usual) return;
  put(pr->out, " owner=");
  put_owner(pr, ins[0].scope);
  for (uint32_t k = 1; k < n_res && !same; k++) {
    put(pr->out, ",");
    put_owner(pr, ins[k].scope);
  }
}

// ` checkpoint=1`, of what is computed.
static void put_checkpoint(const Printer *pr, const Ins *ins) {
  uint32_t k = ir_loc_checkpoint(pr->p, ins->loc);
  OpClass cls = ir_ops[ins->op].cls;
  if (k && cls != CLASS_LEAF && cls != CLASS_MARK) rt_text_add(pr->out, " checkpoint=%u", k);
}

static void put_parent(const Printer *pr, uint32_t k) {
  uint32_t parent = pr->f->scopes[k].parent;
  if (parent == default_owner(pr)) return;
  put(pr->out, " in ");
  put_owner(pr, parent);
}

static void print_scope_begin(Printer *pr, uint32_t i) {
  const Ins *ins = &pr->f->ins[i];
  uint32_t k = ++pr->n_begun;
  if (pr->braced[i]) {
    put(pr->out, "scope ");
    put_word(pr->out, ir_text(pr->p, pr->f->scopes[k].name));
    put_parent(pr, k);
    put(pr->out, " {");
    pr->depth++;
  } else {
    put(pr->out, "scope_begin");
    put_attrs(pr, ins, N_KEYS);
    if (pr->by_marks) put_parent(pr, k);
  }
  if (pr->by_marks) pr->open[pr->n_open++] = k;
}

static void print_scope_end(Printer *pr, uint32_t i) {
  const Attr *k = attr_of(pr, i, KEY_scope);
  bool top;
  if (pr->by_marks && k) close_scope(pr->open, &pr->n_open, k->u.i, &top);
  if (pr->braced[i]) {
    put(pr->out, "}");
    return;
  }
  put(pr->out, "scope_end");
  put_attrs(pr, &pr->f->ins[i], N_KEYS);
}

static void put_results(const Printer *pr, uint32_t i, uint32_t n_res) {
  if (n_res == 0 || (pr->f->ins[i].op == OP_output && !pr->named[i] && !pr->used[i])) return;
  for (uint32_t k = 0; k < n_res; k++) {
    if (k) put(pr->out, ", ");
    put_name(pr, (Val){i + k});
  }
  put(pr->out, " = ");
}

static void put_types(const Printer *pr, uint32_t i, uint32_t n_res) {
  for (uint32_t k = 0; k < n_res; k++) {
    put(pr->out, k ? ", " : " : ");
    ir_print_type(pr->f, (Val){i + k}, pr->out);
  }
}

// Behind an absent one by name: `rnn_seq %x, %l, %w, h0=%h`.
static void put_operands(const Printer *pr, uint32_t i) {
  const Ins *ins = &pr->f->ins[i];
  for (uint32_t k = 0; k < ins->n_args; k++) {
    uint32_t slot = ir_operand_slot(pr->f, (Val){i}, k);
    put(pr->out, k ? ", " : " ");
    if (slot != k && slot < ir_ops[ins->op].n_operands) {
      put(pr->out, ir_arg_name[ir_ops[ins->op].operands[slot].name]);
      put(pr->out, "=");
    }
    put_name(pr, pr->f->args[ins->args + k]);
  }
}

static void print_op(const Printer *pr, uint32_t i) {
  const Fn *f = pr->f;
  const Ins *ins = &f->ins[i];
  put_results(pr, i, ins->n_res);
  put(pr->out, ir_ops[ins->op].name);
  const Attr *param = ins->op == OP_param ? attr_of(pr, i, KEY_param) : NULL;
  bool has_path = param && param->u.i >= 0 && param->u.i < pr->p->n_params;
  if (has_path) {
    put(pr->out, " ");
    put_path(pr->out, ir_text(pr->p, pr->p->params[param->u.i].path));
  }
  put_operands(pr, i);
  put_attrs(pr, ins, has_path ? KEY_param : N_KEYS);
  put_types(pr, i, ins->n_res);
  put_owners(pr, i, ins->n_res);
  put_checkpoint(pr, ins);
  if (pr->flags & PRINT_FACTS) put_facts(pr, i, ins->n_res);
}

static void print_ins(Printer *pr, uint32_t i) {
  const Ins *ins = &pr->f->ins[i];
  if (ins->op == OP_scope_end && pr->braced[i]) pr->depth--;
  put_indent(pr);
  if (ins->op == OP_scope_begin) print_scope_begin(pr, i);
  else if (ins->op == OP_scope_end) print_scope_end(pr, i);
  else print_op(pr, i);
  end_line(pr->p, pr->out, pr->flags, ins->loc);
}

void ir_print_ins(const Fn *f, Val v, RtText *out, uint32_t flags) {
  Printer pr = prepare(f, out, flags);
  print_ins(&pr, v.i);
}

// ---- functions

// True for an input that the signature says whole: the next position, nothing else.
static bool in_signature(const Printer *pr, uint32_t i, uint32_t position) {
  const Ins *ins = &pr->f->ins[i];
  const Attr *index = attr_of(pr, i, KEY_index);
  return ins->op == OP_input && ins->n_attrs == 1 && ins->n_res == 1 && index && index->u.i == position;
}

// `%x: f32[4]`; a name that is no word, or an earlier input's, follows in quotes: `%1 "my x": f32[4]`.
static void put_input(const Printer *pr, uint32_t i) {
  put_name(pr, (Val){i});
  const char *name = ir_text(pr->p, pr->f->ins[i].name);
  if (!pr->named[i] && *name) {
    put(pr->out, " ");
    put_quoted(pr->out, name);
  }
  put(pr->out, ": ");
  ir_print_type(pr->f, (Val){i}, pr->out);
  put_owners(pr, i, 1);
}

// Returns the first instruction after the signature. With locations or facts every input has a line of its own.
static uint32_t print_signature(const Printer *pr) {
  bool lines = pr->flags != 0;
  uint32_t i = 1;
  put(pr->out, pr->f->is_body ? "body " : "func ");
  put_path(pr->out, ir_text(pr->p, pr->f->name));
  put(pr->out, "(");
  for (; i < pr->f->n_ins && in_signature(pr, i, i - 1); i++) {
    if (i > 1) put(pr->out, lines ? "" : ", ");
    if (lines && i == 1) put(pr->out, "\n");
    if (lines) put(pr->out, "    ");
    put_input(pr, i);
    if (!lines) continue;
    put(pr->out, ",");
    if (pr->flags & PRINT_FACTS) put_facts(pr, i, 1);
    end_line(pr->p, pr->out, pr->flags, pr->f->ins[i].loc);
  }
  if (lines && i > 1) put(pr->out, "  ");
  put(pr->out, ") {");
  if (pr->flags & PRINT_FACTS) put_plan(pr);
  end_line(pr->p, pr->out, pr->flags, pr->f->loc);
  return i;
}

static void print_scope_table(const Printer *pr) {
  for (uint32_t k = 1; k < pr->f->n_scopes; k++) {
    const Scope *s = &pr->f->scopes[k];
    rt_text_add(pr->out, "  scope %u ", k);
    put_word(pr->out, ir_text(pr->p, s->name));
    put(pr->out, " in ");
    put_owner(pr, s->parent);
    if (!s->closed) put(pr->out, " open");
    if (pr->flags & PRINT_LOCS) {
      put(pr->out, "  // ");
      put_loc(pr->p, pr->out, s->open);
      put(pr->out, " .. ");
      put_loc(pr->p, pr->out, s->close);
    }
    put(pr->out, "\n");
  }
}

static void print_function(const Fn *f, RtText *out, uint32_t flags) {
  Printer pr = prepare(f, out, flags);
  uint32_t i = print_signature(&pr);
  if (!pr.by_marks) print_scope_table(&pr);
  for (; i < f->n_ins; i++)
    if (f->ins[i].op != OP_result) print_ins(&pr, i);
  put(out, "}");
  end_line(f->prog, out, flags, f->scopes[0].close);
}

// The bodies of scans are printed before what runs them.
void ir_print_fn(const Fn *f, RtText *out, uint32_t flags) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Attr *name = f->ins[i].op == OP_scan ? ir_attr(f, (Val){i}, KEY_body) : NULL;
    const Fn *body = name ? ir_body_find(f->prog, name->u.s) : NULL;
    if (!body) continue;
    ir_print_fn(body, out, flags);
    put(out, "\n");
  }
  print_function(f, out, flags);
}

// ---- programs

static void print_dims(const Prog *p, RtText *out) {
  for (uint32_t k = 0; k < p->n_syms; k++) {
    const DimInfo *d = ir_dim_info(p, p->syms[k]);
    rt_text_add(out, "%s%s <= %lld", k ? ", " : "dim ", ir_text(p, d->name), (long long)d->value);
  }
  if (p->n_syms) put(out, "\n");
}

static void print_param(const Prog *p, RtText *out, uint32_t flags, const Param *q) {
  static const char *const kind_name[N_PARAM_KINDS] = {"param", "buffer", "state", "transient"};
  put(out, kind_name[q->kind]);
  put(out, " ");
  put_path(out, ir_text(p, q->path));
  put(out, " : ");
  ir_type_text(p, q->dtype, q->shape, out);
  if (q->trainable) put(out, " trainable");
  if (q->is_hyper) rt_text_add(out, " %s of group %u", rt_hyper_name(q->hyper), q->group);
  end_line(p, out, flags, q->loc);
}

static void print_aliases(const Prog *p, RtText *out, const Param *q) {
  for (uint32_t k = 0; k < q->n_aliases; k++) {
    put(out, "alias ");
    put_path(out, ir_text(p, q->aliases[k]));
    put(out, " = ");
    put_path(out, ir_text(p, q->path));
    put(out, "\n");
  }
}

static void print_checkpoint(const Prog *p, RtText *out, uint32_t flags, uint32_t k) {
  const Checkpoint *c = &p->checkpoints[k - 1];
  rt_text_add(out, "checkpoint %u ", k);
  put_path(out, ir_text(p, c->module));
  if (c->around) rt_text_add(out, " in %u", c->around);
  end_line(p, out, flags, c->loc);
}

void ir_print(const Prog *p, RtText *out, uint32_t flags) {
  put(out, "program ");
  put_path(out, ir_text(p, p->name));
  put(out, "\n");
  print_dims(p, out);
  for (uint32_t k = 0; k < p->n_params; k++) print_param(p, out, flags, &p->params[k]);
  for (uint32_t k = 0; k < p->n_params; k++) print_aliases(p, out, &p->params[k]);
  for (uint32_t k = 1; k <= p->n_checkpoints; k++) print_checkpoint(p, out, flags, k);
  for (uint32_t k = 0; k < p->n_fns; k++) {
    put(out, "\n");
    ir_print_fn(p->fns[k], out, flags);
  }
}

// ---- texts printed by number
// Is `t` the value of a `key=value` whose value is bytes?
static bool is_number_of_bytes(const Token *key, const Token *sign, const Token *t) {
  if (t->kind != TOK_INT || sign->kind != TOK_PUNCT || sign->punct != '=' || key->kind != TOK_WORD) return false;
  for (uint32_t k = 0; k < N_KEYS; k++)
    if (ir_key_kind[k] == KIND_BYTES && strlen(ir_key_name[k]) == key->n && !memcmp(ir_key_name[k], key->text, key->n))
      return true;
  return false;
}

void ir_text_of(const Prog *of, const char *text, bool by_hash, RtText *out) {
  Lexer lx;
  Token key = {0}, sign = {0};
  const char *done = text;
  ir_lex_open(&lx, text, strlen(text));
  for (Token t = ir_lex_next(&lx); t.kind != TOK_END; key = sign, sign = t, t = ir_lex_next(&lx)) {
    Str s = {0};
    if (!is_number_of_bytes(&key, &sign, &t)) continue;
    for (uint32_t k = 0; k < t.n; k++) s.i = 10 * s.i + (uint32_t)(t.text[k] - '0');
    rt_text_put(out, done, (size_t)(t.at - done));
    if (by_hash) rt_text_add(out, "%zu bytes %llx", ir_text_size(of, s), (unsigned long long)ir_text_hash(of, s));
    else put_bytes(out, ir_text(of, s), ir_text_size(of, s));
    done = t.at + t.n_at;
  }
  put(out, done);
}
