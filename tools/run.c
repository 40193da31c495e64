// tenure run FILE.tir FUNCTION: compiles a program and runs one of its functions, or interprets it.
//
// Parameters come from the program's own initial values or a safetensors file, both ways; a function that changes them
// changes them between the runs too, and --save writes them.
#include "tools/run.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/text/text.h"

#include "frontend/run/run.h"
#include "runtime/clock.h"
#include "runtime/near.h"
#include "runtime/store/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- the program as written
Fn *tool_function(const Prog *p, const char *path, const char *name) {
  name += *name == '@';
  Fn *f = ir_fn_find(p, name);
  if (f) return f;
  RtNear near = {.wanted = name};
  for (uint32_t k = 0; k < p->n_fns; k++) rt_near_offer(&near, ir_text(p, p->fns[k]->name));
  fprintf(stderr, "tenure: %s has no function @%s%s\n", path, name, rt_near_text(&near));
  return NULL;
}

static void find_ports(ToolRun *r) {
  const Fn *f = r->f;
  r->in = rt_alloc(r->mem, (f->n_inputs + 1) * sizeof *r->in);
  r->out = rt_alloc(r->mem, (f->n_outputs + 1) * sizeof *r->out);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    if (ins->op != OP_input && ins->op != OP_output) continue;
    Str name = ins->op == OP_input ? ins->name : ir_output_name(f, (Val){i});
    uint32_t at = (uint32_t)ir_attr_int(f, (Val){i}, KEY_index, 0);
    const Ins *type = ins->op == OP_input ? ins : ir_ins(f, ir_arg(f, (Val){i}, 0));
    Port *port = ins->op == OP_input ? &r->in[at] : &r->out[at];
    *port = (Port){.name = ir_text(r->p, name), .dtype = type->dtype, .shape = type->shape};
  }
}

static bool read_program(ToolRun *r) {
  ToolPlan plan;
  if (!tool_plan_limits(&plan, r->args)) return false;
  r->arena_limit = plan.arena_limit, r->recomputes = plan.recomputes;
  r->text = tool_read_file(r->mem, r->path, &r->n_text);
  if (!r->text) return fprintf(stderr, "tenure: %s: %s\n", r->path, strerror(errno)), false;
  if (!strcmp(r->path, "-")) r->path = "<stdin>";
  if (!tool_plan_text(&plan, r->mem, r->text, r->n_text, r->path)) return false;
  RtDiags diags = {.mem = r->mem};
  r->p = ir_parse(r->mem, r->text, r->n_text, r->path, &diags);
  r->f = tool_function(r->p, r->path, r->args->operand[1]);
  if (!r->f) return false;
  r->planned = ir_fn_find(plan.p, ir_text(r->p, r->f->name));
  r->slots = rt_alloc(r->mem, (r->p->n_syms + 1) * sizeof *r->slots);
  find_ports(r);
  return true;
}

// Rows that a layout counts have room for their bound.
static void make_outputs(ToolRun *r) {
  for (uint32_t k = 0; k < r->f->n_outputs; k++) {
    Port *out = &r->out[k];
    out->array = (tn_array){.dtype = (tn_dtype)out->dtype, .rank = ir_rank(r->p, out->shape)};
    for (uint32_t d = 0; d < out->array.rank; d++)
      out->array.dims[d] = ir_dim_eval(r->p, ir_dim_at(r->p, out->shape, d), r->slots);
    out->array.data = rt_alloc(r->mem, (size_t)array_elements(&out->array) * 8 + 8);
  }
}

// ---- compiled
static tn_model *compile(ToolRun *r) {
  tn_program *p = tn_program_parse(r->text, r->n_text, r->path);
  if (!p) return fputs("tenure: out of memory\n", stderr), NULL;
  if (cli_has(r->args, "--profile")) setenv("TN_PROFILE", "1", 1);
  double start = rt_now_ms();
  tn_model *m =
      (tn_compile)(p, (tn_compile_options){.n_workers = r->n_workers,
                                           .seed = r->seed,
                                           .arena_limit = (size_t)r->arena_limit,
                                           .recompute = r->recomputes ? TN_RECOMPUTE_AUTO : TN_RECOMPUTE_OFF});
  r->compile_ms = rt_now_ms() - start;
  tn_report(p, stderr);
  tn_program_free(p);
  return m;
}

static bool model_failed(const tn_model *m, tn_status s) {
  if (s) fprintf(stderr, "tenure: %s\n", tn_error_text(m));
  return s != TN_OK;
}

static const char no_inputs[] =
    "tenure: no random inputs were found that the function takes: --in NAME=FILE.npy gives them\n";

static bool run_compiled(ToolRun *r, tn_model *m) {
  tn_array *in = rt_alloc(r->mem, (r->f->n_inputs + 1) * sizeof *in),
           *out = rt_alloc(r->mem, (r->f->n_outputs + 1) * sizeof *out);
  for (uint32_t k = 0; k < r->f->n_inputs; k++) in[k] = r->in[k].array;
  for (uint32_t k = 0; k < r->f->n_outputs; k++) out[k] = r->out[k].array;
  for (uint32_t k = 0; k < r->n_times; k++) {
    double start = rt_now_ms();
    tn_status s = tn_run(m, ir_text(r->p, r->f->name), in, r->f->n_inputs, out, r->f->n_outputs);
    while (s && k == 0 && run_draw_again(r))
      s = tn_run(m, ir_text(r->p, r->f->name), in, r->f->n_inputs, out, r->f->n_outputs);
    if (s && r->n_draws) fputs(no_inputs, stderr);
    r->ms[k] = rt_now_ms() - start;
    if (model_failed(m, s)) return false;
  }
  return true;
}

// ---- interpreted
// The parameters of the model, changed by the run as compiled code would change them.
static bool interpret_once(ToolRun *r, const Fn *f, tn_model *m, uint64_t counter) {
  RtArena *mem = rt_arena_new();
  RtText why = {.mem = mem};
  uint32_t n = f->prog->n_params;
  InterpEnv env = {.slots = rt_alloc(mem, (f->prog->n_syms + 1) * sizeof(int64_t)),
                   .params = rt_alloc(mem, (n + 1) * sizeof(Tensor)),
                   .out = rt_alloc(mem, (f->n_outputs + 1) * sizeof(Tensor)),
                   .seed = r->seed,
                   .counter = counter,
                   .mem = mem};
  Tensor *in = rt_alloc(mem, (f->n_inputs + 1) * sizeof *in);
  for (uint32_t k = 0; k < r->p->n_syms; k++) env.slots[k] = r->slots[k];
  for (uint32_t k = 0; k < f->n_inputs; k++) in[k] = array_tensor(mem, &r->in[k].array);
  for (uint32_t k = 0; k < n; k++) {
    tn_array a = tn_param_at(m, k);
    env.params[k] = array_tensor(mem, &a);
  }
  env.in = in;
  bool ok = ir_interpret(f, &env, &why);
  for (uint32_t k = 0; ok && k < f->n_outputs; k++) array_take(&r->out[k].array, env.out[k]);
  for (uint32_t k = 0; ok && k < n; k++) {
    tn_array a = tn_param_at(m, k);
    array_take(&a, env.params[k]);
  }
  bool goes_on = !ok && counter == 1 && run_draw_again(r);
  if (!ok && !goes_on && r->n_draws) fputs(no_inputs, stderr);
  if (!ok && !goes_on) fprintf(stderr, "tenure: %s\n", why.text ? why.text : "the interpreter failed");
  rt_arena_free(mem);
  return goes_on ? interpret_once(r, f, m, counter) : ok;
}

static bool run_interpreted(ToolRun *r, tn_model *m) {
  RtDiags diags = {.mem = r->mem};
  Prog *p = ir_parse(r->mem, r->text, r->n_text, r->path, &diags);
  Fn *f = ir_fn_find(p, ir_text(r->p, r->f->name));
  if (!ir_run_passes(f, ir_pass_list(r->mem, 0, PASS_grad), NULL, NULL))
    return rt_diags_print(&p->diags, stderr), false;
  for (uint32_t k = 0; k < r->n_times; k++) {
    double start = rt_now_ms();
    if (!interpret_once(r, f, m, 1 + k)) return false;  // run 0 is initialisation
    r->ms[k] = rt_now_ms() - start;
  }
  return true;
}

// ---- results
static const Port *find_output(const ToolRun *r, const char *name) {
  RtNear near = {.wanted = name};
  for (uint32_t k = 0; k < r->f->n_outputs; k++) {
    if (!strcmp(r->out[k].name, name)) return &r->out[k];
    rt_near_offer(&near, r->out[k].name);
  }
  fprintf(stderr, "tenure: @%s has no output '%s'%s\n", ir_text(r->p, r->f->name), name, rt_near_text(&near));
  return NULL;
}

// Names are looked at before anything runs; the files are written afterwards.
static bool write_outputs(ToolRun *r, bool only_look) {
  const char *given;
  for (uint32_t k = 0; (given = cli_value_at(r->args, "--out", k)); k++) {
    const char *equals = strchr(given, '=');
    if (!equals || !equals[1])
      return r->status = cli_usage_error(r->args, "--out wants NAME=FILE.npy, not '%s'", given), false;
    const Port *out = find_output(r, rt_strndup(r->mem, given, (size_t)(equals - given)));
    if (!out || (!only_look && !array_write_npy(equals + 1, &out->array))) return false;
  }
  return true;
}

// Small enough that what many layers make of them stays finite.
static void draw_params(ToolRun *r, tn_model *m) {
  const double scale = 0.1;
  for (uint32_t k = 0; k < tn_param_count(m); k++) {
    tn_array a = tn_param_at(m, k);
    bool is_weight = r->p->params[k].kind == PARAM_WEIGHT && FLOATS >> a.dtype & 1;
    for (int64_t i = 0; is_weight && i < array_elements(&a); i++)
      array_set(&a, i, scale * ir_philox_normal(r->seed, 0, r->f->n_inputs + k, (uint64_t)i));
    tn_param_end_write(m, k);
  }
}

static bool take_params(ToolRun *r, tn_model *m) {
  const char *from = cli_value(r->args, "--params");
  if (from && !strcmp(from, "random")) draw_params(r, m);
  else if (from) {
    uint32_t function = fe_find_function(m, ir_text(r->p, r->f->name));
    return !model_failed(m, (tn_status)rt_instance_load_to_use(m->inst, from, function));
  }
  return true;
}

static bool run_model(ToolRun *r, tn_model *m) {
  const char *to = cli_value(r->args, "--save");
  if (!take_params(r, m)) return false;
  r->n_workers = tn_n_workers(m);
  if (!(r->uses_interpreter ? run_interpreted(r, m) : run_compiled(r, m))) return false;
  return write_outputs(r, false) && !(to && model_failed(m, tn_save(m, to, true)));
}

static int run(RtArena *mem, void *ctx) {
  ToolRun *r = ctx;
  r->mem = mem;
  r->ms = rt_alloc(mem, r->n_times * sizeof *r->ms);
  if (!read_program(r) || !run_read_inputs(r) || !write_outputs(r, true)) return r->status;
  make_outputs(r);
  tn_model *m = compile(r);
  if (!m) return EXIT_ERRORS;
  bool ok = run_model(r, m);
  RtText out = {.mem = mem};
  if (ok && cli_has(r->args, "--json")) run_print_json(r, &out);
  else if (ok) run_print(r, &out);
  ok = ok && tool_put(&out);
  tn_model_free(m);
  return ok ? 0 : EXIT_ERRORS;
}

int tool_run(const CliArgs *a) {
  int64_t seed, workers, n_times;
  if (!cli_number(a, "--seed", (CliRange){0, INT64_MAX}, 0, &seed) ||
      !cli_number(a, "--workers", (CliRange){1, 4096}, 0, &workers) ||
      !cli_number(a, "--times", (CliRange){1, 1000000000}, 1, &n_times))
    return EXIT_USAGE;
  ToolRun r = {.args = a,
               .status = EXIT_ERRORS,
               .path = a->operand[0],
               .seed = (uint64_t)seed,
               .n_workers = (uint32_t)workers,
               .n_times = (uint32_t)n_times,
               .uses_interpreter = cli_has(a, "--interpreter")};
  return tool_with_arena(run, &r);
}
