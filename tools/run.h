// One function of a program, run by compiled code or by the interpreter, on given or made-up inputs.
#ifndef TN_TOOLS_RUN_H
#define TN_TOOLS_RUN_H

#include "tools/arrays.h"
#include "tools/tool.h"

typedef struct {
  const CliArgs *args;
  int status;  // where something is wrong
  RtArena *mem;
  const char *path, *text;
  size_t n_text;
  const Prog *p;  // as written
  const Fn *f;
  const Fn *planned;  // the same after all passes: what the host checks of inputs
  Port *in, *out;     // by position
  int64_t *slots;     // size of every named dim; 0: not known yet
  uint64_t seed;
  uint32_t n_workers, n_times;
  int64_t arena_limit;
  bool recomputes;
  bool uses_interpreter;
  uint32_t n_draws;  // of random inputs, which a run has refused
  double *ms;        // by run
  double compile_ms;
} ToolRun;

bool run_read_inputs(ToolRun *r);  // tools/run_inputs.c; false: said why
bool run_draw_again(ToolRun *r);   // random inputs with less spread, after a run refused; false: no more ways
void run_print(const ToolRun *r, RtText *out);  // tools/run_print.c
void run_print_json(const ToolRun *r, RtText *out);

#endif
