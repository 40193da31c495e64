// Rebuilding a function: the instruction array starts anew, old instructions stay readable and are copied one by one.
#include "ir/ir.h"
#include <string.h>

void ir_rewrite_begin(Rewrite *e, Fn *f) {
  *e = (Rewrite){.f = f, .old = f->ins, .n_old = f->n_ins, .map = rt_alloc(f->prog->mem, f->n_ins * sizeof *e->map)};
  f->ins = NULL;
  f->n_ins = f->cap_ins = 0;
  f->facts &= HAS_SCOPES;
  *RT_PUSH(f->prog->mem, f->ins, f->n_ins, f->cap_ins) = (Ins){0};
}

Val ir_rewrite_copy(Rewrite *e, Val old) {
  Fn *f = e->f;
  RtArena *mem = f->prog->mem;
  Ins ins = e->old[old.i];
  uint32_t args = f->n_args;
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = e->map[f->args[ins.args + k].i];
    *RT_PUSH(mem, f->args, f->n_args, f->cap_args) = a;
  }
  ins.args = args;
  Val head = {f->n_ins};
  *RT_PUSH(mem, f->ins, f->n_ins, f->cap_ins) = ins;
  e->map[old.i] = head;
  for (uint32_t k = 1; k < ins.n_res; k++) {
    Ins r = e->old[old.i + k];
    r.args = f->n_args;
    *RT_PUSH(mem, f->args, f->n_args, f->cap_args) = head;
    e->map[old.i + k] = (Val){f->n_ins};
    *RT_PUSH(mem, f->ins, f->n_ins, f->cap_ins) = r;
  }
  return head;
}

Val ir_rewrite_arg(const Rewrite *e, Val old, uint32_t k) { return e->map[e->f->args[e->old[old.i].args + k].i]; }

void ir_rewrite_end(Rewrite *e) { e->f->kernel_of = NULL, e->f->buf_of = NULL, e->f->n_kernels = 0, e->f->n_bufs = 0; }
