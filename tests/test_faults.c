// Mutation testing of the checkers: every fault of faults.def, at every place of a corpus where it can be made, must be
// caught by the checker that its row names, in the words that it names; without a fault the same functions pass.
//
//   functions: those of tests/golden that all passes accept, the same planned for smaller bounds, the bodies of
//   their scans, tests/faults.tir, random programs
//
// docs/testing-faults.md is the table, written from the rows:
//   test_faults             checks, and that the page is up to date
//   test_faults --update    writes the page
//   test_faults NAME ..     these faults only, every miss with its function
#include "codegen/kernels.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/check.h"
#include "tests/faults.h"
#include "tests/random_program.h"
#include "tests/sample.h"

#include <dirent.h>
#include <stdlib.h>

enum {
  MAX_SITES = 5,
  MOST_SITES = 40,
  N_RANDOM = 40,
  N_FUNCTIONS = 20,
  SMALLER = 3
};  // sites of a fault in one function; programs
static const char folder[] = "tests/golden", own[] = "tests/faults.tir", page[] = "docs/testing-faults.md";

#define FAULT(stage, name, checker, says, doc) {stage, #name, checker, says, doc, fault_##name},
static const Fault faults[] = {
#include "tests/faults.def"
};
enum { N_FAULTS = sizeof faults / sizeof *faults };
static const char *const stage_name[N_STAGES] = {"instructions",           "order", "kernels", "buffers", "offsets",
                                                 "the program's segments", "a run"};
static const char *const checker_name[N_CHECKERS] = {"verifier", "assign_buffers", "verify_plan",
                                                     "plan_memory, segments", "guarded arena"};

static uint32_t n_sites[N_FAULTS], n_missed[N_FAULTS], n_functions;
static bool wanted[N_FAULTS], verbose;

// ---- a function that can be put back
typedef struct {
  Fn f;
  Ins *ins;
  Val *args;
  Attr *attrs;
  Scope *scopes;
  Kernel *kernels;
  uint32_t *kernel_of;
  Prog p;
  Param *params;
} Saved;

static void *copy_of(RtArena *mem, const void *from, size_t n, size_t size) {
  void *to = rt_alloc(mem, (n + 1) * size);
  return n ? memcpy(to, from, n * size) : to;
}

static Saved save(const Fn *f) {
  RtArena *mem = f->prog->mem;
  return (Saved){.f = *f,
                 .ins = copy_of(mem, f->ins, f->n_ins, sizeof *f->ins),
                 .args = copy_of(mem, f->args, f->n_args, sizeof *f->args),
                 .attrs = copy_of(mem, f->attrs, f->n_attrs, sizeof *f->attrs),
                 .scopes = copy_of(mem, f->scopes, f->n_scopes, sizeof *f->scopes),
                 .kernels = copy_of(mem, f->kernels, f->n_kernels, sizeof *f->kernels),
                 .kernel_of = copy_of(mem, f->kernel_of, f->kernel_of ? f->n_ins : 0, sizeof *f->kernel_of),
                 .p = *f->prog,
                 .params = copy_of(mem, f->prog->params, f->prog->n_params, sizeof(Param))};
}

static void put_back(Fn *f, const Saved *s) {
  RtArena *mem = f->prog->mem;
  Prog *p = f->prog;
  *f = s->f;
  f->ins = copy_of(mem, s->ins, f->n_ins, sizeof *f->ins);
  f->args = copy_of(mem, s->args, f->n_args, sizeof *f->args);
  f->attrs = copy_of(mem, s->attrs, f->n_attrs, sizeof *f->attrs);
  f->scopes = copy_of(mem, s->scopes, f->n_scopes, sizeof *f->scopes);
  f->kernels = copy_of(mem, s->kernels, f->n_kernels, sizeof *f->kernels);
  f->kernel_of = copy_of(mem, s->kernel_of, f->n_ins, sizeof *f->kernel_of);
  f->cap_ins = f->n_ins, f->cap_args = f->n_args, f->cap_attrs = f->n_attrs, f->cap_scopes = f->n_scopes;
  p->param_bytes = s->p.param_bytes, p->const_bytes = s->p.const_bytes;
  if (p->n_params) memcpy(p->params, s->params, p->n_params * sizeof *p->params);
  p->diags = (RtDiags){.mem = mem};
}

// ---- one fault
// From the stage at which it is made on, the passes run again: who refuses; N_CHECKERS: nobody.
static FaultChecker plan_again(Fn *f, const Fault *t, uint32_t site, bool *made) {
  *made = false;
  if (t->stage <= AT_ORDER && !(*made = t->edit(f, site))) return N_CHECKERS;
  if (t->stage <= AT_ORDER && !ir_verify(f, &f->prog->diags)) return BY_VERIFY;
  if (t->stage == AT_IR) return N_CHECKERS;
  if (t->stage == AT_ORDER) ir_pass_fuse(f);
  if (t->stage == AT_KERNELS && !(*made = t->edit(f, site))) return N_CHECKERS;
  for (uint32_t k = 0; k < f->n_kernels; k++) f->kernels[k].scratch = 0;
  if (!ir_pass_assign_buffers(f)) return BY_LIVENESS;
  if (t->stage == AT_LIVENESS && !(*made = t->edit(f, site))) return N_CHECKERS;
  if (!ir_pass_plan_memory(f)) return N_CHECKERS;
  if (t->stage == AT_MEMORY && !(*made = t->edit(f, site))) return N_CHECKERS;
  if (t->stage != AT_PROGRAM) return ir_pass_verify_plan(f) ? N_CHECKERS : BY_PLAN_CHECK;
  if (!ir_plan_program_memory(f->prog) || !(*made = t->edit(f, site))) return N_CHECKERS;
  return ir_check_segments(f->prog) ? N_CHECKERS : BY_SEGMENTS;
}

static bool says_one_of(const RtDiags *d, const char *list) {
  for (uint32_t k = 0; k < d->n; k++)
    for (const char *s = list; *s;) {
      size_t n = strcspn(s, "|");
      if (memmem(d->list[k].text, strlen(d->list[k].text), s, n)) return true;
      s += n + (s[n] == '|');
    }
  return false;
}

static void print_miss(const Fault *t, const Fn *f, uint32_t site, const char *file) {
  const RtDiags *d = &f->prog->diags;
  printf("%s in %s, @%s, place %u: %s\n", t->name, file, ir_text(f->prog, f->name), site,
         d->n ? d->list[0].text : "not caught");
  RtText text = {.mem = f->prog->mem};
  if (verbose && t->stage > AT_ORDER) ir_print_fn(f, &text, PRINT_FACTS);
  if (text.text) fputs(text.text, stdout);
}

static void try_fault(Fn *f, uint32_t k, const char *file) {
  const Saved saved = save(f);
  bool made = true;
  for (uint32_t site = 0; made && site < MAX_SITES; site++) {
    FaultChecker by = plan_again(f, &faults[k], site, &made);
    bool caught = made && by == faults[k].checker && says_one_of(&f->prog->diags, faults[k].says);
    if (made) n_sites[k]++;
    if (made && !caught && (n_missed[k]++ < 3 || verbose)) print_miss(&faults[k], f, site, file);
    put_back(f, &saved);
  }
}

static bool no_edit(Fn *f, uint32_t site) {
  (void)f;
  return site == 0;
}

// Planned again without a fault it is refused by nobody.
static bool is_sound(Fn *f) {
  bool made;
  const Saved saved = save(f);
  const Fault none[] = {{.stage = AT_ORDER, .edit = no_edit}, {.stage = AT_KERNELS, .edit = no_edit}};
  bool sound = plan_again(f, &none[1], 0, &made) == N_CHECKERS;
  put_back(f, &saved);
  sound = sound && plan_again(f, &none[0], 0, &made) == N_CHECKERS;
  put_back(f, &saved);
  return sound;
}

static void try_function(Fn *f, const char *file) {
  n_functions++;
  if (!CHECK(is_sound(f))) printf("%s, @%s is refused without a fault\n", file, ir_text(f->prog, f->name));
  for (uint32_t k = 0; k < N_FAULTS; k++) {
    bool fits = faults[k].stage != AT_RUN && !(f->is_body && faults[k].stage == AT_PROGRAM);
    bool is_tried = n_sites[k] < MOST_SITES || is_sampled(n_functions + k, 4);
    if (wanted[k] && fits && is_tried) try_fault(f, k, file);
  }
}

// ---- the corpus
// As buckets plan it, for a third of all bounds that inputs name.
static void add_variant(Fn *f) {
  Prog *p = f->prog;
  DimFit fits[16];
  uint32_t n = 0;
  for (uint32_t s = 0; s < p->n_syms && n < 16; s++) {
    int64_t bound = ir_dim_bound(p, p->syms[s]);
    bool is_axis = false;
    for (uint32_t i = 1; i < f->n_ins; i++)
      for (uint32_t k = 0; f->ins[i].op == OP_input && k < ir_rank(p, f->ins[i].shape); k++)
        is_axis |= ir_dim_at(p, f->ins[i].shape, k).i == p->syms[s].i;
    if (is_axis && bound >= SMALLER) fits[n++] = (DimFit){p->syms[s], bound / SMALLER};
  }
  if (n) ir_fn_specialize(f, fits, n);
}

static void try_program(Prog *p, const char *file, bool guarded_arena) {
  uint32_t n = p->n_fns, kept = 0;
  cg_plan_for(p, cg_target_find("avx2")), p->guarded_arena = guarded_arena;
  for (uint32_t k = 0; k < n; k++) add_variant(p->fns[k]);
  for (uint32_t k = 0; k < p->n_fns; k++)
    if (ir_run_passes(p->fns[k], NULL, NULL, NULL)) p->fns[kept++] = p->fns[k];
  p->n_fns = kept;
  p->diags = (RtDiags){.mem = p->mem};
  if (!ir_plan_program_memory(p)) CHECK(!"placement of a program");
  for (uint32_t k = 0; k < kept; k++) try_function(p->fns[k], file);
  for (uint32_t k = 0; k < p->n_bodies; k++)
    if (p->bodies[k]->facts & HAS_OFFSETS) try_function(p->bodies[k], file);
}

static char *read_file(RtArena *mem, const char *path) {
  RtText text = {.mem = mem};
  char block[4096];
  FILE *in = fopen(path, "rb");
  rt_text_put(&text, "", 0);
  for (size_t got; in && (got = fread(block, 1, sizeof block, in)) > 0;) rt_text_put(&text, block, got);
  if (in) fclose(in);
  return text.text;
}

// The program of a golden test: what stands above its line, without the lines that begin with #.
static void try_file(const char *path) {
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  char *text = read_file(mem, path), *line = strstr(text, "\n----\n");
  if (line) line[1] = 0;
  for (char *s = text; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL)
    if (*s == '#') memset(s, ' ', strcspn(s, "\n"));
  Prog *p = ir_parse(mem, text, strlen(text), path, &diags);
  bool sound = p != NULL;
  for (uint32_t k = 0; p && k < p->n_fns; k++) sound &= ir_verify(p->fns[k], &diags);
  if (sound) try_program(p, path, false);
  rt_arena_free(mem);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

// The files of a folder and of those below it, by name.
static void try_goldens(const char *below) {
  struct dirent **e;
  int n = scandir(below, &e, NULL, by_name);
  CHECK(n > 0);
  RtArena *mem = rt_arena_new();
  for (int k = 0; k < n; k++) {
    const char *path = rt_printf(mem, "%s/%s", below, e[k]->d_name);
    if (strstr(e[k]->d_name, ".tir")) try_file(path);
    else if (e[k]->d_name[0] != '.') try_goldens(path);
    free(e[k]);
  }
  if (n >= 0) free(e);
  rt_arena_free(mem);
}

static void try_random(void) {
  for (uint64_t seed = 1; seed <= N_RANDOM; seed++) {
    RtArena *mem = rt_arena_new();
    try_program(random_program(mem, RANDOM_ALL, seed, N_FUNCTIONS), rt_printf(mem, "random program %d", (int)seed),
                seed % 4 == 0);
    rt_arena_free(mem);
  }
}

// ---- the page
static const char *write_page(RtArena *mem) {
  RtText t = {.mem = mem};
  rt_text_add(
      &t,
      "# Faults and who catches them\n\n"
      "Written by `test_faults --update` from `tests/faults.def`; the test fails where it is out of date.\n\n"
      "A checker that has never refused anything has shown nothing. Each row is a mistake that a pass or a kernel\n"
      "could make. The test makes it at every place (at most %d in a function) of the goldens' programs, of the same "
      "planned for smaller bounds,\n"
      "of bodies of scans and of random programs (some in a guarded arena), and demands that the named checker refuses "
      "the result in the words\n"
      "of the row. Edits stand in `tests/faults_verify.c`, `faults_order.c`, `faults_liveness.c`, `faults_memory.c` "
      "and "
      "`faults_arena.c`: product code has "
      "none.\n\n"
      "| fault | made in | what it does | caught by | which says |\n| --- | --- | --- | --- | --- |\n",
      MAX_SITES);
  for (uint32_t k = 0; k < N_FAULTS; k++) {
    const Fault *f = &faults[k];
    rt_text_add(&t, "| `%s` | %s | %s | %s | ", f->name, stage_name[f->stage], f->doc, checker_name[f->checker]);
    for (const char *s = f->says; *s; s++) rt_text_add(&t, *s == '|' ? " / " : "%c", *s);
    rt_text_add(&t, " |\n");
  }
  return t.text;
}

static void check_page(bool update) {
  RtArena *mem = rt_arena_new();
  const char *text = write_page(mem);
  FILE *out = update ? fopen(page, "wb") : NULL;
  if (out) fputs(text, out), fclose(out);
  if (!CHECK(!strcmp(read_file(mem, page), text))) printf("%s is out of date: test_faults --update\n", page);
  rt_arena_free(mem);
}

static void try_runs(void) {
  for (uint32_t k = 0; k < N_FAULTS; k++) {
    if (!wanted[k] || faults[k].stage != AT_RUN) continue;
    RtArena *mem = rt_arena_new();
    RtText said = {.mem = mem};
    n_sites[k] = 1;
    n_missed[k] = !faults_in_arena(&faults[k], &said);
    if (n_missed[k]) printf("%s: %s\n", faults[k].name, said.text ? said.text : "not caught");
    rt_arena_free(mem);
  }
}

int main(int argc, char **argv) {
  bool update = argc > 1 && !strcmp(argv[1], "--update"), all = argc == 1 || update;
  for (uint32_t k = 0; k < N_FAULTS; k++) {
    wanted[k] = all;
    for (int a = 1; a < argc; a++) wanted[k] |= !strcmp(argv[a], faults[k].name);
  }
  verbose = !all;
  try_goldens(folder);
  try_file(own);
  try_random();
  try_runs();
  for (uint32_t k = 0; k < N_FAULTS; k++) {
    if (!wanted[k]) continue;
    printf("%-24s %-16s %5u places\n", faults[k].name, checker_name[faults[k].checker], n_sites[k]);
    if (!CHECK(n_sites[k] > 0)) printf("%s can be made nowhere\n", faults[k].name);
    if (!CHECK(n_missed[k] == 0)) printf("%s is missed at %u of %u places\n", faults[k].name, n_missed[k], n_sites[k]);
  }
  printf("%d faults, %u functions\n", N_FAULTS, n_functions);
  if (all) check_page(update);
  return check_report();
}
