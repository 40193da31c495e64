// The cases of test_ops.c through compiled code, in single precision: against the same literals, with 1, 2 and 3
// workers, which must agree in every bit. The arena is full of NaN before a run. What the caller owns lies at the edge of
// a page, beyond which nothing may be read or written: at its end with 1 and 3 workers, unaligned, at its start with 2.
#include "codegen/emitters.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "tests/entry.h"
#include "tests/op_tables.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_WORKERS = 3 };
static const double TOLERANCE = 2e-5;

static Target target;
static RtTeam *teams[MAX_WORKERS + 1];

static void encode(Block b, DType type, const CaseArray *from) {
  for (uint32_t i = 0; i < from->n; i++) {
    if (type == DT_I64) ((int64_t *)(void *)b.at)[i] = (int64_t)from->v[i];
    else ((float *)(void *)b.at)[i] = (float)from->v[i];
  }
}

static void decode(double *to, Block b, DType type, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    to[i] = type == DT_I64 ? (double)((int64_t *)(void *)b.at)[i] : (double)((float *)(void *)b.at)[i];
}

// ---- the caller's memory
typedef struct {
  unsigned char *at, *map;
  size_t bytes, mapped;
} Edge;

// A block, full of NaN, at the end or the start of pages, with one on either side that nobody may touch.
static Edge new_edge(size_t bytes, bool is_at_end) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes / page + 1) * page;
  Edge e = {.bytes = bytes, .mapped = inner + 2 * page};
  e.map = mmap(NULL, e.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (e.map == MAP_FAILED || mprotect(e.map + page, inner, PROT_READ | PROT_WRITE)) perror("pages"), exit(2);
  memset(e.map + page, 0xFF, inner);
  e.at = e.map + page + (is_at_end ? inner - bytes : 0);
  return e;
}

static const char *running;
static void on_fault(int signal) {
  static const char text[] = ": memory beyond what the caller owns\n";
  (void)!write(STDERR_FILENO, running, strlen(running));
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(128 + signal);
}

// ---- one run
typedef struct {
  const OpCase *c;
  const Prog *p;
  const Fn *f;
  TnEntry entry;
  DType *out_type;
  Block arena, params, consts, *out;
  TnKernelStatus status;
} Compiled;

typedef struct {
  void **in, **out;
  Edge *edge;
  uint32_t n_edges;
  bool is_at_end;
} Caller;

static void *own(Caller *o, int64_t bytes) {
  Edge *e = &o->edge[o->n_edges++];
  *e = new_edge((size_t)bytes, o->is_at_end);
  return e->at;
}

static Caller new_caller(Compiled *k, bool is_at_end) {
  RtArena *mem = k->p->mem;
  const OpCase *c = k->c;
  Caller o = {.in = rt_alloc(mem, (c->n_in + 1) * sizeof *o.in),
              .out = rt_alloc(mem, (c->n_out + 1) * sizeof *o.out),
              .edge = rt_alloc(mem, (c->n_in + c->n_out + 1) * sizeof *o.edge),
              .is_at_end = is_at_end};
  for (uint32_t i = 1; i < k->f->n_ins; i++) {
    const Ins *ins = &k->f->ins[i];
    int64_t at = ir_attr_int(k->f, (Val){i}, KEY_index, 0);
    if (ins->op == OP_input) {
      o.in[at] = own(&o, c->in[at].n * ir_dtype_bytes[ins->dtype]);
      encode((Block){o.in[at], 0}, (DType)ins->dtype, &c->in[at]);
    } else if (ins->op == OP_output) {
      const Ins *from = ir_ins(k->f, ir_arg(k->f, (Val){i}, 0));
      k->out_type[at] = (DType)from->dtype;
      k->out[at] = new_block(mem, ir_shape_bound(k->p, from->shape) * ir_dtype_bytes[from->dtype]);
      o.out[at] = own(&o, (int64_t)k->out[at].bytes);
    }
  }
  return o;
}

static void take_outputs(Compiled *k, const Caller *o) {
  for (uint32_t i = 0; i < k->c->n_out; i++) memcpy(k->out[i].at, o->out[i], k->out[i].bytes);
  for (uint32_t i = 0; i < o->n_edges; i++) munmap(o->edge[i].map, o->edge[i].mapped);
}

static void run_once(Compiled *k, uint32_t n_workers) {
  RtArena *mem = k->p->mem;
  const OpCase *c = k->c;
  k->status = (TnKernelStatus){0};
  int64_t *dims = rt_alloc(mem, (k->p->n_syms + 1) * sizeof *dims);
  for (uint32_t d = 0; d < c->n_dims; d++) dims[d] = c->dims[d] < 0 ? ir_dim_bound(k->p, k->p->syms[d]) : c->dims[d];
  Caller o = new_caller(k, n_workers % 2);
  TnFrame frame = {.in = o.in,
                   .out = o.out,
                   .dims = dims,
                   .seed = c->seed,
                   .counter = c->counter,
                   .status = &k->status,
                   .team = teams[n_workers],
                   .blocks = worker_blocks(target.worker_bytes, n_workers)};
  k->arena = new_block(mem, k->f->stats.peak_bytes);
  k->params = new_block(mem, k->p->param_bytes);
  for (uint32_t i = 0; i < c->n_params; i++) {
    const Param *q = &k->p->params[i];
    encode((Block){k->params.at + q->offset, 0}, (DType)q->dtype, &c->param[i]);
  }
  frame.seg[SEG_ARENA] = k->arena.at, frame.seg[SEG_PARAM] = k->params.at, frame.seg[SEG_CONST] = k->consts.at;
  running = c->name;
  run_entry(k->entry, &frame);
  take_outputs(k, &o);
}

static bool same_bits(const Compiled *a, const Compiled *b) {
  const OpCase *c = a->c;
  for (uint32_t k = 0; k < c->n_out; k++)
    if (memcmp(a->out[k].at, b->out[k].at, c->out[k].n * ir_dtype_bytes[a->out_type[k]])) return false;
  return a->params.bytes == 0 || !memcmp(a->params.at, b->params.at, a->params.bytes);
}

static bool guards_hold(const Compiled *k) {
  return guard_holds(k->arena) && guard_holds(k->params) && guard_holds(k->consts);
}

static Compiled run_with(const Compiled *like, uint32_t n_workers) {
  Compiled k = *like;
  k.out = rt_alloc(k.p->mem, (k.c->n_out + 1) * sizeof *k.out);
  k.out_type = rt_alloc(k.p->mem, (k.c->n_out + 1) * sizeof *k.out_type);
  run_once(&k, n_workers);
  CHECK(guards_hold(&k));
  return k;
}

static CgJit *compile(const OpCase *c, Prog *p, Compiled *k, RtText *why) {
  cg_plan_for(p, &target);
  if (!ir_run_passes(p->fns[0], NULL, NULL, NULL) || !ir_plan_program_memory(p))
    return rt_text_add(why, "passes fail"), NULL;
  CgJit *jit = entry_jit(p, &target, why);
  if (!jit) return NULL;
  *k = (Compiled){.c = c, .p = p, .f = p->fns[0]};
  k->entry = entry_find(jit, cg_symbol(p->mem, p, k->f));
  if (!k->entry) return rt_text_add(why, "no entry"), cg_jit_free(jit), NULL;
  k->consts = new_block(p->mem, p->const_bytes);
  if (p->const_bytes) ir_fill_const(p, k->consts.at);
  return jit;
}

static bool run_compiled(const OpCase *c, const Prog *p, double **out, double **after, RtText *why) {
  Compiled like;
  CgJit *jit = compile(c, p->fns[0]->prog, &like, why);
  if (!jit) return false;
  Compiled one = run_with(&like, 1);
  CHECK(one.status.code == TN_KERR_NONE);
  for (uint32_t n = 2; n <= MAX_WORKERS; n++) {
    Compiled more = run_with(&like, n);
    CHECK(more.status.code == TN_KERR_NONE);
    if (!CHECK(same_bits(&one, &more))) printf("%s: %u workers differ from one\n", c->name, n);
  }
  for (uint32_t k = 0; k < c->n_out; k++) decode(out[k], one.out[k], one.out_type[k], c->out[k].n);
  for (uint32_t k = 0; k < c->n_params; k++)
    decode(after[k], (Block){one.params.at + p->params[k].offset, 0}, (DType)p->params[k].dtype, c->after[k].n);
  cg_jit_free(jit);
  return true;
}

// ---- indices that no host has checked: the first one is reported, whatever the number of workers; no row is put by assigns
static void check_bad_rows(const char *tir, double bad, bool assigns) {
  static const double x[] = {1, 2, 3, 4, 5, 6}, part[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  const double n[] = {2, bad, 0, -1, 0};
  const CaseArray in[] = {{x, 6}, {n, 5}, {part, 10}};
  const CaseArray out = {x, 6};
  OpCase c = {.name = "bad rows", .tir = tir, .in = in, .out = &out, .n_in = 3, .n_out = 1};
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  Prog *p = ir_parse(mem, tir, strlen(tir), "bad_rows.tir", &diags);
  Compiled like;
  CgJit *jit = CHECK(p) ? compile(&c, p, &like, &why) : NULL;
  for (uint32_t w = 1; CHECK(jit) && w <= MAX_WORKERS; w++) {
    Compiled k = run_with(&like, w);
    double found[6];
    decode(found, k.out[0], DT_F32, 6);
    CHECK(!assigns || !memcmp(found, x, sizeof x));
    CHECK(k.status.code == TN_KERR_INDEX_RANGE && k.status.index == 1 && (double)k.status.value == bad);
  }
  cg_jit_free(jit);
  rt_arena_free(mem);
}

#define BAD_ROWS(index, body) \
  "program @p\nfunc @f(%x: f32[3,2], %n: " index "[5], %p: f32[5,2]) {\n" body "output %y {name=\"y\", index=0}\n}\n"

static void test_bad_rows(void) {
  static const double outside[] = {3, -2, 9e15, -9e15};
  check_bad_rows(BAD_ROWS("i64", "%y = index_assign %x, %n, %p\n"), 3, true);
  check_bad_rows(BAD_ROWS("f32", "%i = cast %n {dtype=i64}\n%y = index_assign %x, %i, %p\n"), 3, true);
  for (uint32_t k = 0; k < sizeof outside / sizeof *outside; k++) {  // -1 alone names nothing where an index is padded
    check_bad_rows(BAD_ROWS("i64", "%y = index_add %x, %n, %p {axis=0, padded}\n"), outside[k], false);
    check_bad_rows(
        BAD_ROWS("i64", "%t = index_select %x, %n {axis=0, padded}\n%y = slice %t {axis=0, start=0, count=3}\n"),
        outside[k], false);
  }
  // zeros read by a padded index have not checked it
  check_bad_rows(BAD_ROWS("f32", "%i = cast %n {dtype=i64}\n%z = full {value=0, shape=[3], dtype=i64}\n"
                                 "%c = index_select %z, %i {axis=0, padded}\n%j = add %i, %c\n"
                                 "%y = index_assign %x, %j, %p\n"),
                 -1, true);
}

// What the host is told to check before a run.
static void test_input_check(void) {
  const char *tir = BAD_ROWS("i64", "%y = index_assign %x, %n, %p\n");
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, tir, strlen(tir), "check.tir", &diags);
  if (CHECK(p && ir_run_passes(p->fns[0], NULL, NULL, NULL) && p->fns[0]->n_checks == 1)) {
    const InputCheck *k = p->fns[0]->checks;
    CHECK(k->input == 1 && k->lo == 0 && ir_dim_bound(p, k->hi) == 3 && !k->incl && !k->sorted);
    CHECK_HAS(k->what, "index");
  }
  rt_arena_free(mem);
}

// One argument: only the cases whose name contains it.
// A class has an emitter where it makes kernels of its own, and nowhere else. A scan is emitted with its entry.
static void test_class_table(void) {
  for (uint32_t c = 0; c < N_CLASSES; c++) {
    const ClassInfo *row = &ir_classes[c];
    bool own = (row->flags & MAKES_KERNEL) && row->kernel == c && c != CLASS_SCAN;
    if (own) CHECK(cg_kernel_emitter((OpClass)c) != NULL);
    if (!(row->flags & MAKES_KERNEL)) CHECK(cg_kernel_emitter((OpClass)c) == NULL && row->kernel == c);
    CHECK(ir_classes[row->kernel].kernel == row->kernel);
    CHECK(!(row->flags & (SHARES_KERNEL | FUSES_READERS | IN_PLACE | EXPENSIVE)) || (row->flags & MAKES_KERNEL));
    CHECK(!(row->flags & BY_ELEMENT) || row->kernel == CLASS_POINTWISE);
  }
  Kernel few = {.cls = CLASS_POINTWISE, .n = 4}, many = {.cls = CLASS_POINTWISE, .n = 40},
         product = {.cls = CLASS_GEMM, .n = 1};
  CHECK(cg_kernel_compile_cost(&few) == 3 && cg_kernel_compile_cost(&many) == 12);
  CHECK(cg_kernel_compile_cost(&product) == 25);
}

int main(int argc, char **argv) {
  RtArena *mem = rt_arena_new();
  if (!CHECK(cg_target_host(&target, &(RtText){.mem = mem}))) return check_report();
  for (uint32_t n = 1; n <= MAX_WORKERS; n++) rt_team_fix(teams[n] = rt_team_new(n));
  signal(SIGSEGV, on_fault), signal(SIGBUS, on_fault);
  case_check_all(argc < 2 ? NULL : argv[1], run_compiled, TOLERANCE, 4);
  test_class_table();
  test_bad_rows();
  test_input_check();
  for (uint32_t n = 1; n <= MAX_WORKERS; n++) rt_team_free(teams[n]);
  rt_arena_free(mem);
  return check_report();
}
