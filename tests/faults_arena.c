// Faults that show in a run: a program is planned with guards around its buffers, spoiled, compiled and run by one
// worker. A kernel that strays must be named with its neighbour; what is read and was not written must be poison, which
// no result survives.
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tests/entry.h"
#include "tests/faults.h"

#include <math.h>
#include <string.h>

enum { N_BOUND = 12, MORE = 16, IN = 40, OUT = 24, TALL = 4096 };  // elements

static const char program[] = "program @guarded\n"
                              "dim n <= 12\n"
                              "func @f(%x: f32[n,40], %w: f32[24,40], %b: f32[24], %tall: f32[4096,24]) {\n"
                              "  %h = linear %x, %w, %b : f32[n,24]\n"
                              "  %s = softmax %h : f32[n,24]\n"
                              "  %y = matmul %s, %w : f32[n,40]\n"
                              "  %t = sum %tall {axes=[0]} : f32[24]\n"
                              "  output %y {name=\"y\", index=0} : f32[n,40]\n"
                              "  output %t {name=\"t\", index=1} : f32[24]\n"
                              "}\n";

typedef struct {
  const Fault *fault;
  RtArena *mem;
  Prog *p;
  Fn *f;
  RtGuardedRun guarded_arena;
  TnEntry entry;
  float *y, *t;
} Guarded;

static Target target;

// ---- the edits
static bool shrink(Fn *f, uint32_t site, bool scratch) {
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].seg == SEG_ARENA && f->bufs[b].scratch == scratch) f->bufs[b].bytes -= TN_ALIGN;
  return site == 0;
}

bool fault_arena_behind(Fn *f, uint32_t site) { return shrink(f, site, false); }
bool fault_arena_scratch(Fn *f, uint32_t site) { return shrink(f, site, true); }

// After the tables of the guards are made: code believes what it finds now.
bool fault_arena_before(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].seg == SEG_ARENA) f->bufs[b].offset -= TN_ALIGN;
  return site == 0;
}

bool fault_arena_size(Fn *f, uint32_t site) {
  (void)f;
  return site == 0;  // the run has more rows than its bound
}

bool fault_arena_freed(Fn *f, uint32_t site) {
  for (uint32_t b = 1; b < f->n_bufs; b++)
    if (f->bufs[b].seg == SEG_ARENA && f->bufs[b].last > f->bufs[b].first) f->bufs[b].last--;
  return site == 0;
}

// The first kernel, whose result others read, has no place in the entry.
bool fault_arena_unwritten(Fn *f, uint32_t site) {
  memmove(f->kernels, f->kernels + 1, --f->n_kernels * sizeof *f->kernels);
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->kernel_of[i] != UINT32_MAX) f->kernel_of[i]--;
  return site == 0;
}

// ---- planned, compiled, run
static bool is(const Guarded *g, FaultEdit *edit) { return g->fault && g->fault->edit == edit; }
static void spoil(Guarded *g, FaultEdit *edit) {
  if (is(g, edit)) edit(g->f, 0);
}

static bool plan(Guarded *g, RtText *why) {
  RtDiags diags = {.mem = g->mem};
  g->p = ir_parse(g->mem, program, strlen(program), "guarded.tir", &diags);
  if (!g->p) return rt_text_add(why, "does not parse"), false;
  g->f = g->p->fns[0];
  g->p->guarded_arena = true;
  cg_plan_for(g->p, &target);
  if (!ir_run_passes(g->f, NULL, NULL, NULL)) return rt_text_add(why, "is refused"), false;
  ir_pass_assign_buffers(g->f);
  spoil(g, fault_arena_behind), spoil(g, fault_arena_scratch), spoil(g, fault_arena_freed);
  ir_pass_plan_memory(g->f);
  spoil(g, fault_arena_unwritten);
  g->guarded_arena.plan = ir_guarded_arena(g->f, g->mem);
  spoil(g, fault_arena_before);
  return ir_plan_program_memory(g->p);
}

static CgJit *compile(Guarded *g, RtText *why) {
  CgJit *jit = entry_jit(g->p, &target, why);
  if (jit) g->entry = entry_find(jit, cg_symbol(g->mem, g->p, g->f));
  return jit;
}

static float *numbers(RtArena *mem, int64_t n) {
  unsigned char *raw = rt_alloc(mem, (size_t)n * 4 + 2 * TN_ALIGN);
  float *x = (float *)(void *)(raw + (TN_ALIGN - (uintptr_t)raw % TN_ALIGN));
  for (int64_t k = 0; k < n; k++) x[k] = (float)(k * 7 % 11) / 11 - 0.5f;
  return x;
}

static void run(Guarded *g) {
  int64_t n = is(g, fault_arena_size) ? N_BOUND + 1 : N_BOUND;
  g->y = numbers(g->mem, MORE * IN), g->t = numbers(g->mem, OUT);
  void *in[] = {numbers(g->mem, MORE * IN), numbers(g->mem, OUT * IN), numbers(g->mem, OUT),
                numbers(g->mem, TALL * OUT)};
  void *out[] = {g->y, g->t};
  TnKernelStatus status = {0};
  TnFrame frame = {
      .in = in, .out = out, .dims = &n, .svc = &entry_services, .status = &status, .guarded_arena = &g->guarded_arena};
  unsigned char *arena = (unsigned char *)numbers(g->mem, g->f->stats.peak_bytes / 4 + 2 * TN_ALIGN);
  frame.seg[SEG_ARENA] = arena + TN_ALIGN;
  g->entry(&frame, 0, 1);
}

static bool is_poisoned(const Guarded *g) {
  for (uint32_t k = 0; k < N_BOUND * IN; k++)
    if (isnan(g->y[k])) return true;
  for (uint32_t k = 0; k < OUT; k++)
    if (isnan(g->t[k])) return true;
  return false;
}

// What the guards say of a run with this fault; "" where they are content.
static bool observe(const Fault *fault, RtText *said) {
  Guarded g = {.fault = fault, .mem = rt_arena_new()};
  char error[256] = "";
  CgJit *jit = plan(&g, said) ? compile(&g, said) : NULL;
  if (jit) {
    run(&g);
    if (!rt_guarded_arena_report(&g.guarded_arena, error, sizeof error)) rt_text_add(said, "%s", error);
    else if (is_poisoned(&g)) rt_text_add(said, "poison in a result");
    else rt_text_put(said, "", 0);
  }
  cg_jit_free(jit);
  rt_arena_free(g.mem);
  return jit;
}

bool faults_in_arena(const Fault *fault, RtText *said) {
  RtText sound = {.mem = said->mem};
  cg_target_host(&target, &(RtText){.mem = said->mem});
  if (!observe(NULL, &sound) || sound.len) return rt_text_add(said, "without the fault: %s", sound.text), false;
  return observe(fault, said) && strstr(said->text, fault->says);
}
