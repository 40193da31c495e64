// Rewrite rules by name, and the facts that passes need and give.
//
// Every row of ir/passes/rewrites/rules.def has a golden, tests/golden/rules/NAME.tir, that runs with this rule alone: there it
// applies, and is told; with the rule left out nothing applies. A pass that needs a fact refuses a function of which it
// is not true, and every change of an instruction drops what was known.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/check.h"

#include <stdlib.h>

static const char folder[] = "tests/golden/rules";
static RtText *told;

static void hear(const char *text) { rt_text_add(told, "%s", text); }

static char *read_file(RtArena *mem, const char *path) {
  FILE *in = fopen(path, "rb");
  if (!in) return NULL;
  RtText text = {.mem = mem};
  char block[4096];
  for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;) rt_text_put(&text, block, n);
  fclose(in);
  return text.text;
}

static Prog *parse(RtArena *mem, const char *text, size_t n) {
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text, n, "rules.tir", &diags);
  if (!CHECK(p)) rt_diags_print(&diags, stdout);
  return p;
}

// ---- rules
// The golden of a rule through all passes up to the last one that has rules; what was told of it.
static const char *run_golden(RtArena *mem, const char *rule, const char *select) {
  char *text = read_file(mem, rt_printf(mem, "%s/%s.tir", folder, rule));
  if (!CHECK(text)) return printf("%s/%s.tir is missing\n", folder, rule), NULL;
  const char *program = strstr(text, "program @");
  Prog *p = parse(mem, program, (size_t)(strstr(program, "\n----") + 1 - program));
  told = rt_alloc(mem, sizeof *told);
  *told = (RtText){.mem = mem};
  rt_text_put(told, "", 0);
  if (!p || !CHECK(ir_select_rules(p, select) && ir_trace_rules(p, "grad,rule:all", hear))) return NULL;
  for (uint32_t k = 0; k < p->n_fns; k++)
    if (!CHECK(ir_run_passes(
            p->fns[k], "check_scopes,check_rows,simplify,sparse_updates,fold_grad_scale,compose_maps,fuse_rnn_input",
            NULL, NULL)))
      rt_diags_print(&p->diags, stdout);
  return told->text;
}

static void every_rule_has_a_golden_where_it_applies(void) {
  for (uint32_t k = 0; k < ir_n_rules(); k++) {
    RtArena *mem = rt_arena_new();
    const char *name = ir_rule_name(k), *text = run_golden(mem, name, name);
    CHECK_HAS(text, rt_printf(mem, "// rule %s of @", name));
    for (uint32_t j = 0; text && j < ir_n_rules(); j++)
      CHECK(j == k || !strstr(text, rt_printf(mem, "// rule %s of @", ir_rule_name(j))));
    text = run_golden(mem, name, rt_printf(mem, "-%s", name));
    CHECK(text && !strstr(text, rt_printf(mem, "// rule %s of @", name)));
    rt_arena_free(mem);
  }
}

static const char *last_error(const Prog *p) { return p->diags.n ? p->diags.list[0].text : ""; }

static void selections_that_name_no_rule_are_refused(void) {
  RtArena *mem = rt_arena_new();
  static const char *const wrong[] = {"fold_x", "-fold_x", "fold_copy,", "-fold_copy,fold_full",
                                      "fold_copy,-fold_full"};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    Prog *p = ir_prog_new(mem, "p");
    bool ends_with_comma = wrong[k][strlen(wrong[k]) - 1] == ',';
    CHECK(ir_select_rules(p, wrong[k]) == ends_with_comma && (last_error(p)[0] == 0) == ends_with_comma);
  }
  Prog *p = ir_prog_new(mem, "p");
  CHECK(ir_select_rules(p, NULL) && p->rules_off == 0 && ir_select_rules(p, "") && p->rules_off == 0);
  CHECK(ir_select_rules(p, "-all") && !(~p->rules_off << (64 - ir_n_rules())));
  CHECK(ir_select_rules(p, "all") && !(p->rules_off << (64 - ir_n_rules())));
  CHECK(!ir_trace_rules(p, "rule:fold_x", hear));
  CHECK_HAS(last_error(p), "there is no rule 'fold_x'");
  rt_arena_free(mem);
}

// ---- facts
typedef struct {
  const char *pass, *says, *body;
} Refusal;

static const Refusal refusals[] = {
    {"functionalize", "every value has its owner", "  move %x {scope=-1}\n  %y = neg %x\n"},
    {"outline_scans", "nothing is written in place", "  %y = neg %x\n  write %y, %x {no_grad}\n"},
    {"grad", "the body of every scan", "  scan_begin {scan=0, time=3}\n  %y = neg %x\n  scan_end {scan=0}\n"},
    {"simplify", "no gradient is left", "  %s = sum %x {axes=[0]}\n  %y = grad_of %s, %x\n"},
    {"sparse_updates", "a parameter has one leaf", "  %a = param @w\n  %b = param @w\n  %y = add %a, %b\n"},
    {"hoist_concat", "nothing reads what an earlier write",
     "  %c = neg %x\n  %d = slice_assign %c, %x {axis=0, start=0}\n  %y = add %c, %d\n"},
    {"assign_buffers", "what a run may refuse",
     "  %w = param @w\n  %u = assign %w, %x\n  %i = cast %x {dtype=i64}\n  %y = embedding %x2, %i\n"},
    {"assign_buffers", "belongs to one kernel", "  %y = neg %x\n"},
    {"plan_memory", "a live range", "  %y = neg %x\n"},
    {"verify_plan", "an offset in it", "  %y = neg %x\n"},
};

static void passes_refuse_functions_without_what_they_need(void) {
  for (size_t k = 0; k < sizeof refusals / sizeof *refusals; k++) {
    RtArena *mem = rt_arena_new();
    const Refusal *r = &refusals[k];
    const char *text = rt_printf(mem,
                                 "program @p\nparam @w : f32[4] trainable\nfunc @f(%%x: f32[4], %%x2: f32[4,4]) {\n%s"
                                 "  output %%y {name=\"y\", index=0}\n}\n",
                                 r->body);
    Prog *p = parse(mem, text, strlen(text));
    if (p && CHECK(!ir_run_passes(p->fns[0], r->pass, NULL, NULL))) CHECK_HAS(last_error(p), r->says);
    rt_arena_free(mem);
  }
}

static void every_change_drops_what_was_known(void) {
  static const char text[] = "program @p\nfunc @f(%x: f32[4]) {\n  %y = exp %x\n  output %y {name=\"y\", index=0}\n}\n";
  enum { N_CHANGES = 7 };
  for (uint32_t k = 0; k < N_CHANGES; k++) {
    RtArena *mem = rt_arena_new();
    Prog *p = parse(mem, text, strlen(text));
    Fn *f = p ? p->fns[0] : NULL;
    if (!f || !CHECK(ir_run_passes(f, NULL, NULL, NULL))) continue;
    CHECK(ir_find_facts(f, (1u << N_FACTS) - 1) == (1u << N_FACTS) - 1);
    Val y = {2}, x = {1};
    if (k == 0) ir_set_arg(f, y, 0, x);
    if (k == 1) ir_set_args(f, y, &x, 1);
    if (k == 2) ir_set_attr(f, y, ir_a_int(KEY_id, 1));
    if (k == 3) ir_unset_attr(f, y, KEY_id);
    if (k == 4) ir_set_op(f, y, OP_tanh);
    if (k == 5) ir_op1(f, OP_neg, x, (Loc){0});
    if (k == 6) ir_eliminate_dead(f);
    CHECK(f->facts == 0 && ir_find_facts(f, HAS_SCOPES | HAS_KERNELS | HAS_OFFSETS) == HAS_SCOPES);
    rt_arena_free(mem);
  }
}

// ---- the rewrite library
static void edits_touch_one_instruction(void) {
  static const char text[] = "program @p\nfunc @f(%x: f32[4], %z: f32[4]) {\n  %a = leaky_relu %x {slope=0.5}\n"
                             "  %b = sub %a, %z\n  %c = sub %a, %a\n  output %b {name=\"b\", index=0}\n}\n";
  RtArena *mem = rt_arena_new();
  Prog *p = parse(mem, text, strlen(text));
  if (!p) return;
  Fn *f = p->fns[0];
  Val x = {1}, z = {2}, a = {3}, b = {4}, c = {5};
  uint32_t *n = ir_count_uses(f);
  CHECK(n[x.i] == 1 && n[z.i] == 1 && n[a.i] == 3 && n[b.i] == 1 && n[c.i] == 0);
  UseLists u = ir_use_lists(f);
  CHECK(u.first[a.i + 1] - u.first[a.i] == 3 && u.user[u.first[a.i]] == b.i && u.user[u.first[a.i] + 2] == c.i);
  CHECK(u.first[c.i + 1] == u.first[c.i]);
  ir_set_attr(f, a, ir_a_num(KEY_slope, 0.25));
  ir_set_attr(f, a, ir_a_int(KEY_id, 7));
  CHECK(ir_attr_num(f, a, KEY_slope, 0) == 0.25 && ir_attr_int(f, a, KEY_id, 0) == 7 && ir_ins(f, a)->n_attrs == 2);
  ir_unset_attr(f, a, KEY_slope);
  CHECK(!ir_attr(f, a, KEY_slope) && ir_attr_int(f, a, KEY_id, 0) == 7);
  ir_set_args(f, b, (Val[]){z, z}, 2);
  CHECK(ir_arg(f, b, 0).i == z.i && ir_arg(f, c, 0).i == a.i);
  ir_eliminate_dead(f);  // %a and %c
  CHECK(f->n_ins == 5 && ir_ins(f, (Val){3})->op == OP_sub && ir_arg(f, (Val){3}, 1).i == z.i);
  Rewrite e;
  ir_rewrite_begin(&e, f);
  ir_rewrite_copy(&e, x), ir_rewrite_copy(&e, z);
  Val s = ir_op2(f, OP_mul, e.map[x.i], e.map[z.i], (Loc){0});
  ir_copy_metadata(ir_ins(f, s), ir_rewrite_old(&e, (Val){3}));
  ir_rewrite_replace(&e, (Val){3}, s);
  ir_rewrite_copy(&e, (Val){4});
  ir_rewrite_end(&e);
  CHECK(ir_arg(f, (Val){4}, 0).i == s.i && !strcmp(ir_text(p, ir_ins(f, s)->name), "b") && ir_verify(f, &p->diags));
  rt_arena_free(mem);
}

int main(void) {
  every_rule_has_a_golden_where_it_applies();
  selections_that_name_no_rule_are_refused();
  passes_refuse_functions_without_what_they_need();
  every_change_drops_what_was_known();
  edits_touch_one_instruction();
  return check_report();
}
