// Prepacked weights: packed once per change instead of once per run.
//
// A product whose B is a parameter that its function does not write reads a prepacked copy, [panel][k][width], or
// transformed by Winograd's algorithm (codegen/conv/winograd.h), from the segment `packed`. Products of one program with the
// same packing of a parameter share a copy. Copies are made by an entry of its own, NAME.pack: the runtime calls it before a
// run that reads a stale copy (runtime/exec/packed_weights.h). cg_gemm_packs decides by bounds which products have one.
#include "codegen/conv/winograd.h"
#include "codegen/module/module.h"
#include "codegen/product/product.h"
#include "ir/passes/plan.h"

#include <stddef.h>
#include <stdio.h>

enum { PACK_K = 256 };  // rows of B per unit of work

// ---- the copies of a program

static bool same_pack(const WeightPack *a, const WeightPack *b) {
  bool windows = a->taps == b->taps && a->groups == b->groups && a->block == b->block;
  return windows && a->kind == b->kind && a->param == b->param && a->transposed == b->transposed && a->n == b->n &&
         a->k == b->k && a->width == b->width;
}

// 1 + the row of the copy; 0: none
static uint32_t find_pack(Prog *p, const WeightPack *w) {
  uint32_t row = p->pack_of_param[w->param];
  for (; row && !same_pack(&p->packed_weights[row - 1], w); p->n_visits++) row = p->packed_weights[row - 1].next;
  return row;
}

static void add_pack(Prog *p, WeightPack w) {
  w.offset = p->packed_bytes;
  w.next = p->pack_of_param[w.param];
  p->packed_bytes += w.bytes;
  *RT_PUSH(p->mem, p->packed_weights, p->n_packed_weights, p->cap_packed_weights) = w;
  p->pack_of_param[w.param] = p->n_packed_weights;
}

// The copy that a kernel reads; false: none.
static bool weight_of_kernel(const Fn *f, const Kernel *k, const Target *t, WeightPack *out) {
  if (k->cls != CLASS_GEMM) return false;
  GemmPlan p = cg_gemm_plan(f, ir_anchor(f, k), t);
  if (p.pack_b != B_PREPACKED) return false;
  *out = cg_weight_of(&p, t);
  return true;
}

void cg_place_packed_weights(Prog *p, const Target *t) {
  p->n_packed_weights = 0, p->packed_bytes = 0;
  p->pack_of_param = rt_alloc(p->mem, (p->n_params + 1) * sizeof *p->pack_of_param);
  for (uint32_t f = 0; p->packs_weights && f < p->n_fns; f++)
    for (uint32_t k = 0; k < p->fns[f]->n_kernels; k++) {
      WeightPack w;
      const Kernel *kernel = &p->fns[f]->kernels[k];
      bool new = cg_has_code(p->fns[f], kernel) && weight_of_kernel(p->fns[f], kernel, t, &w) && !find_pack(p, &w);
      if (new) add_pack(p, w);
    }
}

void cg_find_read_weights(const Fn *f, const Target *t, bool *reads) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    WeightPack w;
    uint32_t row =
        cg_has_code(f, &f->kernels[k]) && weight_of_kernel(f, &f->kernels[k], t, &w) ? find_pack(f->prog, &w) : 0;
    if (row) reads[row - 1] = true;
  }
}

uint32_t cg_weight_number(const KernelCall *c, const Target *t) {
  WeightPack w;
  return weight_of_kernel(c->f, c->k, t, &w) ? find_pack(c->f->prog, &w) : 0;
}

// ---- the pack entry
char *cg_packed_weights_symbol(RtArena *mem, const Prog *p) {
  RtText t = {.mem = mem};
  rt_text_add(&t, "%s.pack", cg_program_symbol(mem, p));
  return t.text;
}

// Their parameters: ptr from, ptr to, i64 n, i64 k, i64 worker, i64 n_workers
static void make_convolution(Cg *c, V fn, void *ctx) {
  const WeightPack *w = ctx;
  c->worker = LLVMGetParam(fn, 4), c->n_workers = LLVMGetParam(fn, 5);
  if (w->kind == PACK_WINOGRAD) cg_winograd_make_pack(c, w, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1));
  else cg_conv_make_pack(c, w, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1));
  LLVMBuildRetVoid(c->b);
}

static void make_panels(Cg *c, V fn, void *ctx) {
  const WeightPack *w = ctx;
  GemmPlan p = {.tb = w->transposed, .width = w->width, .nv = (uint32_t)(w->width / c->t->vl)};
  Gemm g = {.c = c, .p = &p, .n = LLVMGetParam(fn, 2), .k = LLVMGetParam(fn, 3)};
  g.b_ld = p.tb ? g.k : g.n;
  V from = LLVMGetParam(fn, 0), to = LLVMGetParam(fn, 1);
  V vl = cg_vl(c), step = cg_i64(c, PACK_K), width = cg_i64(c, p.width);
  V k_pad = cg_mul(c, cg_ceil_div_value(c, g.k, c->t->vl), vl), blocks = cg_ceil_div_value(c, g.k, PACK_K);
  c->worker = LLVMGetParam(fn, 4), c->n_workers = LLVMGetParam(fn, 5);
  for (Loop l = cg_each_shared(c, cg_mul(c, cg_ceil_div_value(c, g.n, p.width), blocks), 1); cg_next(&l);) {
    V panel = cg_div(c, l.i, blocks), k0 = cg_mul(c, cg_rem(c, l.i, blocks), step);
    V at = cg_mul(c, cg_index(c, panel, k_pad, k0), width);
    cg_gemm_pack_b(&g, from, k0, cg_min(c, step, cg_sub(c, g.k, k0)), cg_mul(c, panel, width),
                   cg_at(c, c->f32, to, at));
  }
  LLVMBuildRetVoid(c->b);
}

static void call_pack(Cg *c, const ModulePlan *plan, WeightPack *w, V *worker) {
  LLVMTypeRef types[6] = {c->ptr, c->ptr, c->i64, c->i64, c->i64, c->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, 6, false);
  static const char *const kinds[] = {[PACK_PANELS] = "", [PACK_WINOGRAD] = ".winograd", [PACK_CONV] = ".conv"};
  char name[160];
  bool panels = w->kind == PACK_PANELS;
  int at = snprintf(name, sizeof name, "pack%s%s.%lld", kinds[w->kind], w->transposed ? ".transposed" : "",
                    (long long)w->width);
  if (!panels)
    snprintf(name + at, sizeof name - (size_t)at, ".%lld.%lld.%lld.%lld.%lld", (long long)w->n, (long long)w->k,
             (long long)w->taps, (long long)w->groups, (long long)w->block);
  V params = cg_frame_ptr(c, offsetof(TnFrame, seg) + SEG_PARAM * sizeof(void *));
  V packed = cg_frame_ptr(c, offsetof(TnFrame, seg) + SEG_PACKED * sizeof(void *));
  V arg[6] = {cg_at(c, c->i8, params, cg_i64(c, plan->p->params[w->param].offset)),
              cg_at(c, c->i8, packed, cg_i64(c, w->offset)),
              cg_i64(c, w->n),
              cg_i64(c, w->k),
              worker[0],
              worker[1]};
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, panels ? make_panels : make_convolution, w), arg, 6, "");
}

void cg_emit_packed_weights(Cg *c, const ModulePlan *plan) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->i32, c->i32}, 3, false);
  c->fn = LLVMAddFunction(c->mod, cg_packed_weights_symbol(plan->mem, plan->p), type);
  c->frame = LLVMGetParam(c->fn, 0);
  LLVMPositionBuilderAtEnd(c->b, LLVMAppendBasicBlockInContext(c->ctx, c->fn, "entry"));
  V worker[2];
  for (uint32_t k = 0; k < 2; k++) worker[k] = cg_sext(c, LLVMGetParam(c->fn, k + 1), c->i64);
  V stale = cg_frame_ptr(c, offsetof(TnFrame, stale));
  for (uint32_t k = 0; k < plan->p->n_packed_weights; k++) {
    V byte = LLVMBuildLoad2(c->b, c->i8, cg_at(c, c->i8, stale, cg_i64(c, k)), "");
    for (If s = cg_when(c, cg_ne(c, byte, LLVMConstNull(c->i8))); cg_then(&s);)
      call_pack(c, plan, &plan->p->packed_weights[k], worker);
  }
  LLVMBuildRetVoid(c->b);
}
