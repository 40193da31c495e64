// The table of rewrite rules: applying them, naming them, switching them off, telling where they applied.
#include "ir/passes/rewrites/rules.h"
#include "ir/intern.h"
#include "ir/text/text.h"
#include "runtime/near.h"
#include <string.h>

enum { MAX_ROOTS = 4 };

typedef struct {
  const char *name, *pass_name, *before, *after, *doc;
  Val (*run)(Rules *r, Val v);
  Pass pass;
  Op root[MAX_ROOTS];
  bool (*is_root)(Op op);  // NULL: by `root`
} RuleInfo;

static bool is_pointwise(Op op) { return ir_ops[op].is_pointwise; }
static bool rows_take_axis(Op op) { return ir_ops[op].flags & ROW_AXIS && ir_ops[op].n_res == 1; }
static bool puts_by_index(Op op) { return op >= OP_scatter && op <= OP_index_add; }
static bool takes_index(Op op) { return op == OP_gather || (op >= OP_scatter && op <= OP_scatter_amin); }
static bool takes_gradient(Op op) {
  return ir_ops[op].cls == CLASS_OPTIMIZER && ir_op_operand(op, ARG_grad) != UINT32_MAX;
}

#define ROOTS(...) .root = {__VA_ARGS__}
#define WHERE(predicate) .is_root = predicate
#define RULE(of, n, roots, b, a, d) \
  {.name = #n, .pass_name = #of, .before = b, .after = a, .doc = d, .run = rule_##n, .pass = PASS_##of, roots},
static const RuleInfo rules[] = {
#include "ir/passes/rewrites/rules.def"
};
_Static_assert(N_RULES <= 64, "sets of rules are 64 bits");

static bool begins_at(const RuleInfo *rule, Op op) {
  if (rule->is_root) return rule->is_root(op);
  for (uint32_t k = 0; k < MAX_ROOTS && rule->root[k] != OP_none; k++)
    if (rule->root[k] == op) return true;
  return false;
}

// ---- telling
static const char *text_of(const Fn *f, Val v) {
  RtText t = {.mem = f->prog->mem};
  ir_print_ins(f, v, &t, PRINT_LOCS);
  return t.text;
}

// `before` became `now`; what the rule emitted begins at `first`.
static void tell(const Rules *r, const RuleInfo *rule, const char *before, Val v, Val now, uint32_t first) {
  const Fn *f = r->f;
  RtText t = {.mem = r->p->mem};
  rt_text_add(&t, "// rule %s of @%s\n%s->\n", rule->name, ir_text(r->p, f->name), before);
  for (uint32_t i = first; i < f->n_ins; i++)
    if (f->ins[i].op != OP_result) rt_text_add(&t, "%s", text_of(f, (Val){i}));
  if (now.i == v.i) rt_text_add(&t, "%s", text_of(f, v));
  else if (now.i < first) rt_text_add(&t, "  "), ir_print_name(f, now, &t), rt_text_add(&t, "\n");
  r->p->trace_rule(t.text);
}

// ---- applying
Rules ir_rules_of(Fn *f, Pass pass) {
  Rules r = {.f = f, .p = f->prog};
  for (uint32_t k = 0; k < N_RULES; k++)
    for (uint32_t op = 0; op < N_OPS && rules[k].pass == pass && !(r.p->rules_off >> k & 1); op++)
      if (begins_at(&rules[k], (Op)op)) r.of_op[op] |= UINT64_C(1) << k;
  return r;
}

static bool may_apply(const Prog *p) { return !p->rule_limit || p->n_rule_applications < p->rule_limit; }

static Val apply(Rules *r, Rule k, Val v) {
  if (!may_apply(r->p)) return (Val){0};
  if (!(r->p->rules_traced >> k & 1)) return rules[k].run(r, v);
  const char *before = text_of(r->f, v);
  uint32_t first = r->f->n_ins;
  Val now = rules[k].run(r, v);
  if (!ir_none(now)) tell(r, &rules[k], before, v, now, first);
  return now;
}

Val ir_apply_rules(Rules *r, Val v) {
  r->root = v.i;
  for (uint32_t k = 0; k < N_RULES && r->of_op[ir_ins(r->f, v)->op] >> k; k++) {
    if (!(r->of_op[ir_ins(r->f, v)->op] >> k & 1)) continue;
    Val now = apply(r, (Rule)k, v);
    r->n_applied += !ir_none(now);
    r->p->n_rule_applications += !ir_none(now);
    if (!ir_none(now) && now.i != v.i) return now;
  }
  return v;
}

void ir_apply_rules_in_place(Fn *f, Pass pass) {
  Rules r = ir_rules_of(f, pass);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!r.of_op[f->ins[i].op]) continue;
    if (!r.uses) r.uses = ir_count_uses(f);
    ir_apply_rules(&r, (Val){i});
  }
  if (r.n_applied) ir_eliminate_dead(f);
}

// ---- by name
uint32_t ir_n_rules(void) { return N_RULES; }

const char *ir_rule_name(uint32_t k) { return rules[k].name; }

RuleRow ir_rewrite_rule(uint32_t k) {
  const RuleInfo *r = &rules[k];
  return (RuleRow){r->name, r->pass_name, r->before, r->after, r->doc};
}

// The rule of this name as a bit; all for `all`, 0 and a diagnostic where there is none.
static uint64_t find_rule(Prog *p, const char *name, size_t n) {
  uint64_t all = ~UINT64_C(0) >> (64 - N_RULES);
  if (n == 3 && !memcmp(name, "all", n)) return all;
  for (uint32_t k = 0; k < N_RULES; k++)
    if (strlen(rules[k].name) == n && !memcmp(rules[k].name, name, n)) return UINT64_C(1) << k;
  RtNear near = {.wanted = rt_strndup(p->mem, name, n)};
  for (uint32_t k = 0; k < N_RULES; k++) rt_near_offer(&near, rules[k].name);
  rt_diag(&p->diags, RT_ERROR, E_ARGUMENT, NULL, 0, "there is no rule '%.*s'%s", (int)n, name, rt_near_text(&near));
  rt_diag(&p->diags, RT_HINT, 0, NULL, 0, "`tenure rules` lists the rules");
  return 0;
}

bool ir_select_rules(Prog *p, const char *list) {
  uint64_t named = 0, found = 1;
  bool drops = list && *list == '-';
  for (const char *s = list; s && *s && found; s += *s == ',') {
    size_t n = strcspn(s, ",");
    if ((*s == '-') != drops) {
      rt_diag(&p->diags, RT_ERROR, E_ARGUMENT, NULL, 0, "'%s' names rules to apply and rules to leave out", list);
      return false;
    }
    named |= found = find_rule(p, s + drops, n - drops);
    s += n;
  }
  p->rules_off = list && *list && !drops ? ~named : named;
  return found != 0;
}

bool ir_trace_rules(Prog *p, const char *list, void (*trace)(const char *text)) {
  static const char prefix[] = "rule:";
  uint64_t found = 1;
  p->trace_rule = trace;
  for (const char *s = list; s && *s && found; s += *s == ',') {
    size_t n = strcspn(s, ","), skip = sizeof prefix - 1;
    if (n >= skip && !memcmp(s, prefix, skip)) p->rules_traced |= found = find_rule(p, s + skip, n - skip);
    s += n;
  }
  return found != 0;
}
