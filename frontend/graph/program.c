// Programs, their named dims, names and reports; the guard against memory running out.
#include "frontend/graph/module.h"
#include "frontend/graph/report.h"
#include "ir/fn.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "runtime/clock.h"
#include "runtime/format.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

// A tn_dim is one number, so that tn_dim_const needs no program:
//   bit 63 set    a constant in the other bits
//   bit 63 clear  [31 bits: serial of the program][32 bits: index of the dim in it]
// Three values are taken: one for a dim whose making was reported as an error, one for a size that is out of range, one for
// -1, which a reshape finds.
#define DIM_IS_SIZE (UINT64_C(1) << 63)
#define DIM_REPORTED (UINT64_MAX - 1)
#define DIM_BAD_SIZE UINT64_MAX
#define DIM_INFERRED (UINT64_MAX - 2)
enum { DIM_INDEX_BITS = 32, SIZE_BITS = 30 };
static const int64_t MAX_SIZE = INT64_C(1) << SIZE_BITS;
static const int64_t MAX_ELEMENTS = INT64_C(1) << 40;

// ---- memory
void fe_guard(FeGuard *g) {
  g->outer = g->p->guard;
  g->p->guard = g;
  rt_arena_on_oom(g->p->mem, &g->jmp);
}

void fe_unguard(FeGuard *g) {
  g->p->guard = g->outer;
  rt_arena_on_oom(g->p->mem, g->outer ? &g->outer->jmp : NULL);
}

void fe_out_of_memory(FeGuard *g) { g->p->oom = true; }

// ---- reports
Loc fe_loc(tn_program *p, tn_site at) {
  const char *module = p->inside ? p->inside->path : NULL;
  Loc loc = ir_loc_of_call(p->ir, at.file, at.line > 0 ? (uint32_t)at.line : 0, module, fe_outermost_call(p));
  return p->checkpoint ? ir_loc_within(p->ir, loc, p->checkpoint) : loc;
}

static void report(tn_program *p, RtSeverity severity, int id, Loc at, const char *fmt, va_list ap) {
  char text[1024];
  rt_vformat(text, sizeof text, fmt, ap);
  rt_diag(&p->ir->diags, severity, (uint16_t)id, ir_loc_file(p->ir, at), ir_loc_line(p->ir, at), "%s", text);
}

void fe_error_at(tn_program *p, int id, Loc at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  report(p, RT_ERROR, id, at, fmt, ap);
  va_end(ap);
}

void fe_diag(tn_program *p, RtSeverity severity, int id, Loc at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  report(p, severity, id, at, fmt, ap);
  va_end(ap);
}

void fe_note(tn_program *p, Loc at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  report(p, RT_NOTE, 0, at, fmt, ap);
  va_end(ap);
}

void fe_hint(tn_program *p, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  report(p, RT_HINT, 0, (Loc){0}, fmt, ap);
  va_end(ap);
}

// The report of memory running out needs no memory: it is not in the list.
static bool print_out_of_memory(const tn_program *p, FILE *out, bool json) {
  if (!p->oom) return false;
  fputs(json ? "[{\"severity\": \"error\", \"id\": \"E006\", \"text\": \"out of memory while building\"}]\n"
             : "error[E006]: out of memory while building\n",
        out);
  return true;
}

static tn_status status_of(const tn_program *p) {
  bool is_memory = p->oom;
  for (uint32_t k = 0; k < p->ir->diags.n; k++) is_memory |= p->ir->diags.list[k].id == E_NOMEM;
  return is_memory ? TN_ERR_MEMORY : tn_n_errors(p) ? TN_ERR_BUILD : TN_OK;
}

void fe_show(tn_program *p, RtSeverity least) {
  rt_diags_show(&p->ir->diags, least, stderr);
  if (!p->oom_is_shown) p->oom_is_shown = print_out_of_memory(p, stderr, false);
}

static void print(const tn_program *p, FILE *out) {
  rt_diags_print(&p->ir->diags, out);
  print_out_of_memory(p, out, false);
}

// Const but for what stderr has: a program that is declared const is never made.
tn_status tn_report(const tn_program *p, FILE *out) {
  if (!p) return TN_ERR_ARGUMENT;
  if (out == stderr) fe_show((tn_program *)(uintptr_t)p, RT_NOTE);
  else if (out) print(p, out);
  return status_of(p);
}

tn_status tn_report_json(const tn_program *p, FILE *out) {
  if (!p) return TN_ERR_ARGUMENT;
  if (out && !print_out_of_memory(p, out, true)) rt_diags_print_json(&p->ir->diags, out);
  return status_of(p);
}

uint32_t tn_n_errors(const tn_program *p) { return p ? p->ir->diags.n_errors + p->oom : 0; }

// ---- programs
static bool is_name(const char *name, bool of_module) {
  if (!*name || (!of_module && *name >= '0' && *name <= '9')) return false;
  for (const char *c = name; *c; c++) {
    bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
    if (!letter && (*c < '0' || *c > '9')) return false;
  }
  return true;
}

static atomic_uint next_serial;

static tn_program *create_in(RtArena *mem, const char *name) {
  jmp_buf oom;
  if (setjmp(oom)) return NULL;
  rt_arena_on_oom(mem, &oom);
  tn_program *p = rt_alloc(mem, sizeof *p);
  bool good = name && is_name(name, false);
  p->mem = mem;
  p->serial = atomic_fetch_add(&next_serial, 1) & INT32_MAX;
  p->created_ms = rt_now_ms();
  p->ir = ir_prog_new(mem, good ? name : "unnamed");
  p->ir->names_calls = true;
  p->init = ir_fn_new(p->ir, "init", (Loc){0});
  p->root = rt_alloc(mem, sizeof *p->root);
  *p->root = (tn_module){.p = p, .name = "", .path = ""};
  if (!good) fe_error_at(p, E_ARGUMENT, (Loc){0}, "a program's name is made of letters, digits and underscores");
  rt_arena_on_oom(mem, NULL);
  return p;
}

tn_program *tn_program_create(const char *name) {
  RtArena *mem = rt_arena_new();
  if (!mem) return NULL;
  tn_program *p = create_in(mem, name);
  if (!p) rt_arena_free(mem);
  return p;
}

static Fn *find_init(const Prog *ir) {
  for (uint32_t k = 0; k < ir->n_fns; k++) {
    Fn *f = ir->fns[k];
    if (!strcmp(ir_text(ir, f->name), "init") && !f->n_inputs && !f->n_outputs) return f;
  }
  return NULL;
}

// Functions that the verifier refuses are not kept.
static void read_text(tn_program *p, const tn_program *of, const char *text, size_t n, const char *file) {
  RtDiags diags = {.mem = p->mem};
  Prog *ir = ir_parse_of(of ? of->ir : NULL, p->mem, text, n, file, &diags);
  bool good = ir != NULL;
  for (uint32_t k = 0; good && k < ir->n_fns; k++) good = ir_verify(ir->fns[k], &diags);
  if (good) p->ir = ir, p->init = find_init(ir);
  p->ir->diags = diags;
}

tn_program *tn_program_parse(const char *text, size_t n, const char *file) {
  tn_program *p = tn_program_create("text");
  if (!p) return NULL;
  FE_GUARD(p, p);
  p->is_text = true;
  if (text) read_text(p, NULL, text, n, file ? file : "<text>");
  else fe_error_at(p, E_ARGUMENT, (Loc){0}, "there is no text to read a program from");
  return p;
}

tn_program *fe_program_of(const tn_program *of, const char *file) {
  tn_program *p = tn_program_create("text");
  if (!p) return NULL;
  FE_GUARD(p, p);
  p->is_text = true;
  read_text(p, of, of->built, strlen(of->built), file);
  p->ir->names_calls = of->ir->names_calls;
  return p;
}

tn_module *tn_root(tn_program *p) { return p ? p->root : NULL; }

bool fe_open(tn_program *p, tn_site at) {
  if (p->oom) return false;
  if (!p->sealed && !p->is_text) return true;
  if (!p->reported_sealed)
    fe_error(p, E_STATE, at, "the program was %s: nothing can be added to it",
             p->is_text ? "read from text" : "compiled");
  p->reported_sealed = true;
  return false;
}

bool fe_name(tn_program *p, const char *what, const char *name, bool of_module, tn_site at) {
  if (name && strlen(name) < 200 && is_name(name, of_module)) return true;
  fe_error(p, E_ARGUMENT, at, "%s is named '%.40s': a name is made of letters, digits and underscores%s", what,
           name ? name : "", of_module ? "" : " and starts with no digit");
  return false;
}

bool fe_unique(tn_program *p, const FeName *taken, const char *what, const char *name, tn_site at) {
  if (!taken) return true;
  fe_error(p, E_DUPLICATE_PATH, at, "%s '%s' exists already", what, name);
  fe_note(p, taken->loc, "the first '%s' was made here", name);
  bool is_shared = !strcmp(what, "parameter") || !strcmp(what, "buffer") || !strcmp(what, "module");
  if (is_shared) fe_hint(p, "another name is free; tn_share and tn_share_module give one thing two");
  return false;
}

// ---- dims and shapes
tn_dim tn_dim_const(int64_t n) {
  if (n == -1) return (tn_dim){DIM_INFERRED};
  return (tn_dim){n < 0 || n >= MAX_SIZE ? DIM_BAD_SIZE : DIM_IS_SIZE | (uint64_t)n};
}

_Static_assert((int)TN_MAX_RANK == (int)MAX_RANK, "a shape of the header holds what one of the IR does");
tn_shape tn_shape_of(const tn_dim *dims, uint32_t rank) {
  tn_shape s = {.rank = rank};
  for (uint32_t k = 0; dims && k < rank && k < TN_MAX_RANK; k++) s.dims[k] = dims[k];
  return s;
}

tn_dim fe_dim_handle(tn_program *p, Dim d) {
  if (ir_dim_is_const(p->ir, d)) return tn_dim_const(ir_dim_info(p->ir, d)->value);
  return (tn_dim){(uint64_t)p->serial << DIM_INDEX_BITS | d.i};
}

tn_dim tn_dim_bounded(tn_program *p, const char *name, int64_t bound, tn_site at) {
  const tn_dim failed = {DIM_REPORTED};
  if (!p) return (tn_dim){0};
  FE_GUARD(p, failed);
  if (!fe_open(p, at) || !fe_name(p, "a dim", name, false, at)) return failed;
  if (bound < 1 || bound >= MAX_SIZE) {
    fe_error(p, E_ARGUMENT, at, "the bound of dim '%s' is %lld: it must lie in [1, 2^%d)", name, (long long)bound,
             SIZE_BITS);
    return failed;
  }
  Dim d = ir_dim_sym(p->ir, name, bound);
  if (d.i) return fe_dim_handle(p, d);
  fe_error(p, E_ARGUMENT, at, "dim '%s' has the bound %lld already, not %lld", name,
           (long long)ir_dim_bound(p->ir, ir_dim_find(p->ir, name)), (long long)bound);
  return failed;
}

bool fe_dim(tn_program *p, tn_dim d, Dim *out, tn_site at) {
  if (d.d == DIM_REPORTED) return false;
  if (d.d == DIM_BAD_SIZE || d.d == DIM_INFERRED || d.d == 0) {
    fe_error(p, E_ARGUMENT, at,
             d.d ? "a size must lie in [0, 2^%d)"
                 : "an empty tn_dim stands for no size: tn_dim_of gives one of an axis that does not exist",
             SIZE_BITS);
    return false;
  }
  if (d.d & DIM_IS_SIZE) {
    *out = ir_dim(p->ir, (int64_t)(d.d & ~DIM_IS_SIZE));
    return true;
  }
  if (d.d >> DIM_INDEX_BITS != p->serial) {
    fe_error(p, E_FOREIGN, at, "a dim belongs to another program");
    return false;
  }
  *out = (Dim){(uint32_t)d.d};
  if (ir_dim_exists(p->ir, *out)) return true;
  fe_error(p, E_ARGUMENT, at, "this tn_dim is a number that no call gave");
  return false;
}

static void report_large(tn_program *p, Shape s, tn_site at) {
  RtText sizes = {.mem = p->mem};
  char bytes[RT_BYTES_SIZE];
  ir_shape_bounds_text(p->ir, s, &sizes);
  fe_error(p, E_ARGUMENT, at, "a value of %s takes %s, and can have more than 2^40 elements", sizes.text,
           rt_bytes_text(bytes, ir_type_bytes(p->ir, DT_F32, s)));
}

bool fe_shape(tn_program *p, tn_shape s, Shape *out, tn_site at) {
  Dim dims[MAX_RANK];
  if (s.rank > MAX_RANK) {
    fe_error(p, E_ARGUMENT, at, "a shape has at most %d axes, not %u", MAX_RANK, s.rank);
    return false;
  }
  for (uint32_t k = 0; k < s.rank; k++) {
    if (s.dims[k].d == DIM_BAD_SIZE) {
      fe_error(p, E_ARGUMENT, at, "the size of axis %u does not lie in [0, 2^%d)", k, SIZE_BITS);
      return false;
    }
    if (!fe_dim(p, s.dims[k], &dims[k], at)) return false;
  }
  *out = ir_shape(p->ir, dims, s.rank);
  if (ir_shape_bound(p->ir, *out) <= MAX_ELEMENTS) return true;
  report_large(p, *out, at);
  return false;
}

// What is left of `whole` for the size at k: by the others.
static bool infer_dim(tn_program *p, Dim whole, Dim *dims, uint32_t n, uint32_t k, tn_site at) {
  Dim rest = ir_dim(p->ir, 1);
  for (uint32_t j = 0; j < n; j++)
    if (j != k) rest = ir_dim_mul(p->ir, rest, dims[j]);
  dims[k] = ir_dim_exact_div(p->ir, whole, rest);
  if (dims[k].i) return true;
  RtText a = {.mem = p->mem}, b = {.mem = p->mem};
  ir_dim_text(p->ir, whole, &a), ir_dim_text(p->ir, rest, &b);
  fe_error(p, E_SHAPE, at, "the size -1 cannot be found: %s elements are not a multiple of %s", a.text, b.text);
  return false;
}

bool fe_inferred_dims(tn_program *p, tn_shape s, Dim whole, Dim *out, tn_site at) {
  uint32_t k = MAX_RANK;
  if (s.rank > MAX_RANK) {
    fe_error(p, E_ARGUMENT, at, "a shape has at most %d axes, not %u", MAX_RANK, s.rank);
    return false;
  }
  for (uint32_t j = 0; j < s.rank; j++) {
    if (s.dims[j].d == DIM_INFERRED && k < MAX_RANK) {
      fe_error(p, E_ARGUMENT, at, "a shape has at most one size of -1");
      return false;
    }
    if (s.dims[j].d == DIM_INFERRED) k = j;
    else if (!fe_dim(p, s.dims[j], &out[j], at)) return false;
  }
  return k == MAX_RANK || infer_dim(p, whole, out, s.rank, k, at);
}

tn_shape fe_kept_sizes(tn_tensor a, tn_shape s) {
  uint32_t rank = fe_rank(a), more = s.rank - rank;
  for (uint32_t k = more; rank <= s.rank && s.rank <= MAX_RANK && k < s.rank; k++)
    if (s.dims[k].d == DIM_INFERRED) s.dims[k] = fe_dim_handle(a.fn->p, fe_axis_dim(a, k - more));
  return s;
}

// ---- sizes computed from sizes
typedef Dim DimOp(Prog *p, Dim a, Dim b);

static tn_dim combine(tn_program *p, tn_dim a, tn_dim b, DimOp *op, bool divides, tn_site at) {
  const tn_dim failed = {DIM_REPORTED};
  if (!p) return (tn_dim){0};
  FE_GUARD(p, failed);
  Dim x, y;
  if (!fe_open(p, at) || !fe_dim(p, a, &x, at) || !fe_dim(p, b, &y, at)) return failed;
  if (divides && (!ir_dim_is_const(p->ir, y) || ir_dim_bound(p->ir, y) < 1)) {
    fe_error(p, E_ARGUMENT, at, "sizes are divided by a constant above 0");
    return failed;
  }
  Dim d = op(p->ir, x, y);
  RtText text = {.mem = p->mem};
  ir_dim_text(p->ir, d, &text);
  ir_dim_computed_at(p->ir, d, fe_loc(p, at));
  if (ir_dim_most(p->ir, d) < 0) fe_error(p, E_ARGUMENT, at, "the size %s is always below 0", text.text);
  else if (ir_dim_bound(p->ir, d) >= MAX_SIZE)
    fe_error(p, E_ARGUMENT, at, "the size %s can be above 2^%d", text.text, SIZE_BITS);
  else return fe_dim_handle(p, d);
  return failed;
}

tn_dim tn_dim_add(tn_program *p, tn_dim a, tn_dim b, tn_site at) { return combine(p, a, b, ir_dim_add, false, at); }
tn_dim tn_dim_mul(tn_program *p, tn_dim a, tn_dim b, tn_site at) { return combine(p, a, b, ir_dim_mul, false, at); }
tn_dim tn_dim_sub(tn_program *p, tn_dim a, tn_dim b, tn_site at) { return combine(p, a, b, ir_dim_sub, false, at); }
tn_dim tn_dim_div(tn_program *p, tn_dim a, tn_dim b, tn_site at) { return combine(p, a, b, ir_dim_div, true, at); }
tn_dim tn_dim_ceil_div(tn_program *p, tn_dim a, tn_dim b, tn_site at) {
  return combine(p, a, b, ir_dim_ceil_div, true, at);
}
tn_dim tn_dim_max(tn_program *p, tn_dim a, tn_dim b, tn_site at) { return combine(p, a, b, ir_dim_max, false, at); }
tn_dim tn_dim_min(tn_program *p, tn_dim a, tn_dim b, tn_site at) { return combine(p, a, b, ir_dim_min, false, at); }
