// tenure kernels FILE.tir: the kernels of a plan, or one of them beside its source lines: IR, LLVM IR, assembly.
#include "codegen/module/kernel_text.h"
#include "ir/intern.h"
#include "ir/passes/cost.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <string.h>

typedef struct {
  const CliArgs *args;
  ToolPlan plan;
  const char *function;  // NULL: all
  int64_t kernel;        // -1: all
} Kernels;

static bool is_wanted(const Kernels *k, const ToolFn *f) {
  return !k->function || !strcmp(tool_fn_name(f), k->function);
}

// ---- the list
static const char *sizes_of(const ToolFn *f, RtArena *mem, uint32_t kernel) {
  RtText t = {.mem = mem};
  ir_print_type(f->f, ir_anchor(f->f, &f->f->kernels[kernel]), &t);
  return t.text ? t.text : "";
}

static const char *flops_text(RtArena *mem, double flops) {
  static const char *const unit[] = {"", "K", "M", "G", "T"};
  int k = 0;
  for (; flops >= 1000 && k < 4; k++) flops /= 1000;
  return rt_printf(mem, k ? "%.1f %sflop" : "%.0f %sflop", flops, unit[k]);
}

static void put_row(const ToolFn *f, uint32_t k, RtText *out) {
  RtArena *mem = out->mem;
  Traffic t = tool_traffic(f, mem, k);
  rt_text_add(out, "%6u  %-12s %12s %10s %10s  %s  %s  %s%s\n", k, ir_class_name(f->f->kernels[k].cls),
              flops_text(mem, ir_kernel_flops(f->f, &f->f->kernels[k])), tool_bytes(mem, t.read),
              tool_bytes(mem, t.written), tool_kernel_ops(f, mem, k), sizes_of(f, mem, k), tool_kernel_lines(f, mem, k),
              f->f->kernels[k].again ? " (again)" : "");
}

static void json_row(const ToolFn *f, uint32_t k, RtText *out) {
  RtArena *mem = out->mem;
  Traffic t = tool_traffic(f, mem, k);
  json_int(out, "kernel", k);
  json_text(out, "class", ir_class_name(f->f->kernels[k].cls));
  json_text(out, "operations", tool_kernel_ops(f, mem, k));
  json_text(out, "type", sizes_of(f, mem, k));
  json_text(out, "source", tool_kernel_lines(f, mem, k));
  json_bool(out, "again", f->f->kernels[k].again);
  const char *way = cg_kernel_reason(f->f, &f->f->kernels[k], mem);
  if (*way) json_text(out, "way", way);
  json_number(out, "flops", ir_kernel_flops(f->f, &f->f->kernels[k]));
  json_int(out, "reads", t.read);
  json_int(out, "writes", t.written);
}

static void put_list(const ToolFn *f, RtText *out) {
  rt_text_add(out, "@%s\n%6s  %-12s %12s %10s %10s  operations, type, lines\n", tool_fn_name(f), "kernel", "class",
              "arithmetic", "reads", "writes");
  for (uint32_t k = 0; k < f->f->n_kernels; k++) put_row(f, k, out);
}

static void json_list(const ToolFn *f, RtText *out) {
  json_open(out, NULL, '{');
  json_text(out, "function", tool_fn_name(f));
  json_open(out, "kernels", '[');
  for (uint32_t k = 0; k < f->f->n_kernels; k++) {
    json_open(out, NULL, '{');
    json_row(f, k, out);
    json_close(out, '}');
  }
  json_close(out, ']');
  json_close(out, '}');
}

// ---- one kernel
// The line of a source file, if there is such a file here; NULL: not.
const char *tool_source_line(RtArena *mem, const char *file, uint32_t line) {
  size_t n;
  char *text = file && strcmp(file, "-") ? tool_read_file(mem, file, &n) : NULL;
  for (; text && line > 1; line--) text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
  if (!text || !*text) return NULL;
  text += strspn(text, " \t");
  return rt_strndup(mem, text, strcspn(text, "\n"));
}

static bool is_new_line(const Fn *f, const Kernel *k, uint32_t i) {
  for (uint32_t j = k->first; j < i; j++)
    if (f->ins[j].loc.i == f->ins[i].loc.i) return false;
  return true;
}

// Each source line of the kernel, as it stands in its file, above what it made.
static void put_sources(const ToolFn *f, uint32_t kernel, RtText *out) {
  const Kernel *k = &f->f->kernels[kernel];
  const Prog *p = f->f->prog;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    Loc at = f->f->ins[i].loc;
    if (f->f->ins[i].op == OP_result || !is_new_line(f->f, k, i)) continue;
    const char *line = tool_source_line(out->mem, ir_loc_file(p, at), ir_loc_line(p, at));
    rt_text_add(out, "%s%s%s\n", tool_loc(p, out->mem, at), line ? ": " : "", line ? line : "");
    for (uint32_t j = i; j < k->first + k->n; j++)
      if (f->f->ins[j].loc.i == at.i && f->f->ins[j].op != OP_result) ir_print_ins(f->f, (Val){j}, out, PRINT_FACTS);
  }
}

const char *tool_kernel_code(const ToolPlan *t, const ToolFn *f, RtArena *mem, uint32_t kernel, bool as_assembly) {
  Target target;
  RtText out = {.mem = mem}, why = {.mem = mem};
  CgTextKind kind = as_assembly ? CG_TEXT_ASSEMBLY : CG_TEXT_LLVM;
  if (cg_target_host(&target, &why) && cg_kernel_text(t->p, &target, f->f, kernel, kind, &out, &why)) return out.text;
  fprintf(stderr, "tenure: %s\n", why.text);
  return NULL;
}

static bool put_one(const Kernels *w, const ToolFn *f, RtText *out) {
  bool wants_llvm = cli_has(w->args, "--llvm"), wants_assembly = cli_has(w->args, "--asm");
  const char *llvm = wants_llvm ? tool_kernel_code(&w->plan, f, out->mem, (uint32_t)w->kernel, false) : NULL;
  const char *assembly = wants_assembly ? tool_kernel_code(&w->plan, f, out->mem, (uint32_t)w->kernel, true) : NULL;
  if ((wants_llvm && !llvm) || (wants_assembly && !assembly)) return false;
  if (cli_has(w->args, "--json")) {
    RtText ir = {.mem = out->mem};
    put_sources(f, (uint32_t)w->kernel, &ir);
    json_open(out, NULL, '{');
    json_text(out, "function", tool_fn_name(f));
    json_row(f, (uint32_t)w->kernel, out);
    json_text(out, "ir", ir.text);
    if (llvm) json_text(out, "llvm", llvm);
    if (assembly) json_text(out, "asm", assembly);
    json_close(out, '}');
    return true;
  }
  rt_text_add(out, "@%s\n", tool_fn_name(f));
  put_row(f, (uint32_t)w->kernel, out);
  const char *way = cg_kernel_reason(f->f, &f->f->kernels[w->kernel], out->mem);
  if (*way) rt_text_add(out, "%s\n", way);
  put_sources(f, (uint32_t)w->kernel, out);
  if (llvm) rt_text_add(out, "\n%s", llvm);
  if (assembly) rt_text_add(out, "\n%s", assembly);
  return true;
}

// ---- the command
// With a kernel, the function that has it: the only one, or the one that is named.
static const ToolFn *find_one(const Kernels *w) {
  const ToolFn *only = NULL;
  for (uint32_t k = 0; k < w->plan.n_fns; k++) {
    const ToolFn *f = &w->plan.fns[k];
    if (!is_wanted(w, f) || (!w->function && !f->f->n_kernels)) continue;
    if (only) return fputs("tenure: the program has several functions: --function says which\n", stderr), NULL;
    only = f;
  }
  if (only && w->kernel < only->f->n_kernels) return only;
  if (only)
    fprintf(stderr, "tenure: @%s has %u kernels, numbered from 0: there is no %lld\n", tool_fn_name(only),
            only->f->n_kernels, (long long)w->kernel);
  else fputs("tenure: the program has no kernel\n", stderr);
  return NULL;
}

static int kernels(RtArena *mem, void *ctx) {
  Kernels *w = ctx;
  RtText out = {.mem = mem};
  bool as_json = cli_has(w->args, "--json");
  if (!tool_plan_limits(&w->plan, w->args)) return EXIT_USAGE;
  if (!tool_plan_read(&w->plan, mem, w->args->operand[0])) return EXIT_ERRORS;
  if (w->function && !tool_function(w->plan.p, w->plan.path, w->function)) return EXIT_ERRORS;
  if (w->kernel >= 0) {
    const ToolFn *f = find_one(w);
    if (!f || !put_one(w, f, &out)) return EXIT_ERRORS;
    if (as_json) rt_text_add(&out, "\n");
    return tool_put(&out) ? 0 : EXIT_ERRORS;
  }
  if (as_json) json_open(&out, NULL, '[');
  for (uint32_t k = 0; k < w->plan.n_fns; k++) {
    if (!is_wanted(w, &w->plan.fns[k])) continue;
    if (as_json) json_list(&w->plan.fns[k], &out);
    else put_list(&w->plan.fns[k], &out);
  }
  if (as_json) json_close(&out, ']'), rt_text_add(&out, "\n");
  return tool_put(&out) ? 0 : EXIT_ERRORS;
}

int tool_kernels(const CliArgs *a) {
  Kernels w = {.args = a, .function = cli_value(a, "--function")};
  if (!cli_number(a, "--kernel", (CliRange){0, UINT32_MAX}, -1, &w.kernel)) return EXIT_USAGE;
  if (w.kernel < 0 && (cli_has(a, "--llvm") || cli_has(a, "--asm")))
    return cli_usage_error(a, "--llvm and --asm show one kernel: --kernel=N says which");
  if (w.function && *w.function == '@') w.function++;
  return tool_with_arena(kernels, &w);
}
