// tenure ops, passes, rules: the tables of the compiler.
#include "ir/passes/passes.h"
#include "tools/json.h"
#include "tools/tool.h"

// `x weight bias?`; any number of them: `x..`
static void put_operands(RtText *out, const OpInfo *row) {
  for (uint32_t k = 0; k < row->n_operands; k++) {
    uint32_t flags = row->operands[k].flags;
    rt_text_add(out, "%s%s ", ir_arg_name[row->operands[k].name],
                flags & OPTIONAL   ? "?"
                : flags & REPEATED ? ".."
                                   : "");
  }
}

static void op_json(RtText *out, const OpInfo *row) {
  json_open(out, NULL, '{');
  json_text(out, "name", row->name);
  json_text(out, "class", ir_class_name(row->cls));
  json_open(out, "operands", '[');
  for (uint32_t k = 0; k < row->n_operands; k++) {
    json_open(out, NULL, '{');
    json_text(out, "name", ir_arg_name[row->operands[k].name]);
    json_bool(out, "optional", row->operands[k].flags & OPTIONAL);
    json_bool(out, "repeated", row->operands[k].flags & REPEATED);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_int(out, "results", row->n_res);
  json_text(out, "doc", row->doc);
  json_close(out, '}');
}

static void ops(RtText *out, bool as_json) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    const OpInfo *row = &ir_ops[op];
    if (op == OP_result) continue;
    if (as_json) {
      op_json(out, row);
      continue;
    }
    rt_text_add(out, "%-26s %-12s ", row->name, ir_class_name(row->cls));
    put_operands(out, row);
    rt_text_add(out, "-> %u  %s\n", row->n_res, row->doc);
  }
}

static void passes(RtText *out, bool as_json) {
  for (uint32_t k = 0; k < ir_n_passes; k++) {
    if (!as_json) rt_text_add(out, "%-16s %s\n", ir_passes[k].name, ir_passes[k].doc);
    if (!as_json) continue;
    json_open(out, NULL, '{');
    json_text(out, "name", ir_passes[k].name);
    json_text(out, "doc", ir_passes[k].doc);
    json_close(out, '}');
  }
}

static void rules(RtText *out, bool as_json) {
  for (uint32_t k = 0; k < ir_n_rules(); k++) {
    RuleRow r = ir_rewrite_rule(k);
    if (!as_json) rt_text_add(out, "%s (%s): %s\n    %s -> %s\n", r.name, r.pass, r.doc, r.before, r.after);
    if (!as_json) continue;
    json_open(out, NULL, '{');
    json_text(out, "name", r.name);
    json_text(out, "pass", r.pass);
    json_text(out, "before", r.before);
    json_text(out, "after", r.after);
    json_text(out, "doc", r.doc);
    json_close(out, '}');
  }
}

typedef struct {
  void (*print)(RtText *out, bool as_json);
  bool as_json;
} List;

static int print_list(RtArena *mem, void *ctx) {
  const List *l = ctx;
  RtText out = {.mem = mem};
  if (l->as_json) json_open(&out, NULL, '[');
  l->print(&out, l->as_json);
  if (l->as_json) json_close(&out, ']'), rt_text_add(&out, "\n");
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

static int list(const CliArgs *a, void (*print)(RtText *out, bool as_json)) {
  List l = {print, cli_has(a, "--json")};
  return tool_with_arena(print_list, &l);
}

int tool_ops(const CliArgs *a) { return list(a, ops); }
int tool_passes(const CliArgs *a) { return list(a, passes); }
int tool_rules(const CliArgs *a) { return list(a, rules); }
