// Loops and branches (loop.h). Loops are built in their rotated form, so that the body is entered only when it runs at least
// once:
//   pre:   if lo < hi -> body, else -> exit
//   body:  i = phi(lo, i'), carries .. ; i' = i + step; if i' < hi -> body, else -> exit
//   exit:  out = phi(init, next)
// A body that is known to run once stands in no loop, and no test stands before what is known to run.
#include "codegen/cg.h"

static LLVMBasicBlockRef here(Cg *c) { return LLVMGetInsertBlock(c->b); }
static LLVMBasicBlockRef new_block(Cg *c, const char *name) {
  return LLVMAppendBasicBlockInContext(c->ctx, LLVMGetBasicBlockParent(here(c)), name);
}

// How often a body is known to run.
typedef enum { PERHAPS, ONCE, OFTEN } Turns;
static Turns turns_of(V lo, V hi, V step) {
  int64_t from, to, by;
  if (!cg_const_value(lo, &from) || !cg_const_value(hi, &to) || from >= to) return PERHAPS;
  return cg_const_value(step, &by) && by >= to - from ? ONCE : OFTEN;
}

static void begin_loop(Cg *c, Loop *l, V lo, V hi, V step, V *init, uint32_t n) {
  Turns turns = turns_of(lo, hi, step);
  l->i = lo;
  l->hi = hi;
  l->step = step;
  if (turns == ONCE) return;
  l->n = n;
  l->enters = turns == OFTEN;
  l->head = here(c);
  l->body = new_block(c, "loop");
  l->exit = new_block(c, "done");
  if (l->enters) LLVMBuildBr(c->b, l->body);
  else LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, lo, hi, ""), l->body, l->exit);
  LLVMPositionBuilderAtEnd(c->b, l->body);
  l->i = LLVMBuildPhi(c->b, c->i64, "i");
  LLVMAddIncoming(l->i, &lo, &l->head, 1);
  for (uint32_t k = 0; k < n; k++) {
    l->carry[k] = LLVMBuildPhi(c->b, LLVMTypeOf(init[k]), "");
    LLVMAddIncoming(l->carry[k], &init[k], &l->head, 1);
  }
}

static void end_loop(Cg *c, Loop *l, V *next) {
  LLVMBasicBlockRef latch = here(c);
  LLVMMoveBasicBlockAfter(l->exit, latch);
  V i = LLVMBuildNSWAdd(c->b, l->i, l->step, "");
  LLVMAddIncoming(l->i, &i, &latch, 1);
  LLVMBuildCondBr(c->b, LLVMBuildICmp(c->b, LLVMIntSLT, i, l->hi, ""), l->body, l->exit);
  LLVMPositionBuilderAtEnd(c->b, l->exit);
  for (uint32_t k = 0; k < l->n; k++) {
    V init = LLVMGetIncomingValue(l->carry[k], 0);
    LLVMAddIncoming(l->carry[k], &next[k], &latch, 1);
    l->out[k] = LLVMBuildPhi(c->b, LLVMTypeOf(next[k]), "");
    LLVMAddIncoming(l->out[k], &next[k], &latch, 1);
    if (!l->enters) LLVMAddIncoming(l->out[k], &init, &l->head, 1);
  }
}

static void begin_if(Cg *c, If *s, V cond) {
  s->then = new_block(c, "then");
  s->other = new_block(c, "else");
  s->join = NULL;
  LLVMBuildCondBr(c->b, cond, s->then, s->other);
  LLVMPositionBuilderAtEnd(c->b, s->then);
}

static void begin_else(Cg *c, If *s) {
  s->join = new_block(c, "join");
  LLVMBuildBr(c->b, s->join);
  LLVMPositionBuilderAtEnd(c->b, s->other);
}

static void end_if(Cg *c, If *s) {
  LLVMBasicBlockRef to = s->join ? s->join : s->other;
  LLVMBuildBr(c->b, to);
  LLVMMoveBasicBlockAfter(to, here(c));
  LLVMPositionBuilderAtEnd(c->b, to);
}

void cg_leave(Loop *l, V cond) {
  if (!l->body) return;
  l->hi = LLVMBuildSelect(l->c->b, cond, LLVMConstInt(LLVMTypeOf(l->i), 1ull << 63, false), l->hi, "");
}

Loop cg_carry(Cg *c, V lo, V hi, V step, V *carried, uint32_t n) {
  Loop l = {.c = c, .carried = carried};
  begin_loop(c, &l, lo, hi, step, carried, n);
  for (uint32_t k = 0; k < l.n; k++) carried[k] = l.carry[k];
  return l;
}

Loop cg_each_by(Cg *c, V lo, V hi, V step) { return cg_carry(c, lo, hi, step, NULL, 0); }
Loop cg_each(Cg *c, V lo, V hi) { return cg_each_by(c, lo, hi, cg_i64(c, 1)); }

Loop cg_count(Cg *c, V n) { return cg_each(c, cg_i64(c, 0), n); }
Loop cg_count_by(Cg *c, V n, V step) { return cg_each_by(c, cg_i64(c, 0), n, step); }

Loop cg_once(Cg *c) { return (Loop){.c = c}; }

Loop cg_each_whole(Cg *c, V lo, V hi, int64_t unit, V *end) {
  V step = cg_i64(c, unit);
  *end = cg_add(c, lo, cg_multiple(c, cg_sub(c, hi, lo), step));
  return cg_each_by(c, lo, *end, step);
}

Loop cg_each_shared(Cg *c, V n, int64_t grain) {
  V lo, hi;
  cg_share(c, n, grain, &lo, &hi);
  return cg_each(c, lo, hi);
}

Loop cg_each_row(Cg *c, V lo, V hi, V width, V *first, V *last) {
  V end = cg_div(c, cg_add(c, hi, cg_sub(c, width, cg_i64(c, 1))), width);
  Loop l = cg_each(c, cg_div(c, lo, width), end);
  V before = cg_mul(c, l.i, width);
  *first = cg_max(c, cg_sub(c, lo, before), cg_i64(c, 0));
  *last = cg_min(c, cg_sub(c, hi, before), width);
  return l;
}

bool cg_next(Loop *l) {
  if (l->turn++ == 0) return true;
  if (!l->body) return false;
  end_loop(l->c, l, l->carried);
  for (uint32_t k = 0; k < l->n; k++) l->carried[k] = l->out[k];
  return false;
}

If cg_when(Cg *c, V cond) { return cg_branch(c, cond, false); }

If cg_when_carry(Cg *c, V cond, V *carried, uint32_t n) {
  V *before = rt_alloc(c->mem, sizeof *before * (n + 1));
  LLVMBasicBlockRef head = here(c);
  for (uint32_t k = 0; k < n; k++) before[k] = carried[k];
  If s = cg_when(c, cond);
  s.head = head, s.carried = carried, s.before = before, s.n = n;
  return s;
}

If cg_branch(Cg *c, V cond, bool has_else) {
  If s = {.c = c, .is_true = true, .has_else = has_else && cond};
  if (cond) begin_if(c, &s, cond);
  return s;
}

If cg_either(Cg *c, V cond) { return cg_branch(c, cond, true); }

bool cg_then(If *s) {
  if (s->turn++ == 0) return true;
  if (s->turn == 2 && s->has_else) {
    s->is_true = false;
    begin_else(s->c, s);
    return true;
  }
  LLVMBasicBlockRef from[] = {s->head, here(s->c)};
  if (s->then) end_if(s->c, s);
  for (uint32_t k = 0; s->then && k < s->n; k++) s->carried[k] = cg_phi(s->c, s->before[k], s->carried[k], from);
  return false;
}

void cg_return_if(Cg *c, V cond, V value) {
  If s;
  begin_if(c, &s, cond);
  if (value) LLVMBuildRet(c->b, value);
  else LLVMBuildRetVoid(c->b);
  LLVMPositionBuilderAtEnd(c->b, s.other);
}

V cg_first_worker(Cg *c) { return cg_eq(c, c->worker, cg_i64(c, 0)); }
