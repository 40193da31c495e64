#include "tests/foreign.h"
#include "codegen/module/compile.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// By the beginning of a triple: how the driver is compiled, and what runs it.
typedef struct {
  const char *family;
  const char *clang[5];
  const char *qemu[13];  // none: this machine
  const char *link[3];
} Family;
static const Family families[] = {
    {"x86_64", {"--target=x86_64-linux-gnu", "-mno-red-zone"}, {0}, {0}},
    {"aarch64", {"--target=aarch64-linux-gnu"}, {"qemu-aarch64", "-cpu", "max"}, {0}},
    {"riscv64",
     {"--target=riscv64-linux-gnu", "-march=rv64gc", "-mabi=lp64d"},
     {"qemu-riscv64", "-cpu", "rv64,v=true,vext_spec=v1.0,vlen=128"},
     {0}},
    {"thumbv8.1m",
     {"--target=thumbv8.1m.main-none-eabihf", "-mcpu=cortex-m55", "-mfloat-abi=hard"},
     {"qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-serial", "none", "-monitor", "none",
      "-semihosting-config", "enable=on,target=native", "-kernel"},
     {"-T", "tests/foreign_m55.ld"}},
};

struct Foreign {
  const Target *t;
  const Family *family;
  char folder[64], driver[80], object[80], program[80], in[80], out[80], said[80];
  char symbol[128];  // that the program at hand is linked for; "": none
  char blocks[160];  // the program's number of bytes in TnFrame.blocks
};

// ---- commands
// Status of a command; 127: there is none.
static int command(char *const *arg, const char *in, const char *out, const char *said) {
  posix_spawn_file_actions_t files;
  pid_t child;
  int status = 127 << 8;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, in ? in : "/dev/null", O_RDONLY, 0);
  if (out) posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (said) posix_spawn_file_actions_addopen(&files, 2, said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (posix_spawnp(&child, arg[0], &files, NULL, arg, environ) == 0) waitpid(child, &status, 0);
  posix_spawn_file_actions_destroy(&files);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Ends with NULL; words of a table are not written.
static char **words(RtArena *mem, const char *const *a, const char *const *b) {
  enum { MOST = 24 };
  char **all = rt_alloc(mem, MOST * sizeof *all);
  uint32_t n = 0;
  for (; *a; a++) all[n++] = (char *)(uintptr_t)*a;
  for (; b && *b; b++) all[n++] = (char *)(uintptr_t)*b;
  return all;
}

static bool has_command(const char *name) {
  const char *const arg[] = {name, "--version", NULL};
  return command((char **)(uintptr_t)arg, NULL, "/dev/null", NULL) == 0;
}

// ---- open
static const Family *family_of(const Target *t) {
  for (size_t k = 0; k < sizeof families / sizeof *families; k++)
    if (!strncmp(t->triple, families[k].family, strlen(families[k].family))) return &families[k];
  return NULL;
}

static bool has_tools(const Family *f, RtText *why) {
  const char *wanted[] = {"clang-19", "ld.lld-19", f->qemu[0]};
  for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
    if (wanted[k] && !has_command(wanted[k])) return rt_text_add(why, "no %s", wanted[k]), false;
  return true;
}

static bool make_driver(Foreign *m, RtText *why) {
  const char *const arg[] = {
      "clang-19", "-O1", "-ffreestanding", "-fno-stack-protector",   "-fno-pic", "-I", "tests/..",
      "-c",       "-o",  m->driver,        "tests/foreign_driver.c", NULL};
  if (command(words(why->mem, arg, m->family->clang), NULL, NULL, NULL) == 0) return true;
  return rt_text_add(why, "clang-19 does not compile the driver"), false;
}

Foreign *foreign_open(const Target *t, RtText *why) {
  const Family *family = family_of(t);
  char lack[TARGET_LACK];
  if (!family) return rt_text_add(why, "no machine for %s", t->triple), NULL;
  if (!has_tools(family, why)) return NULL;
  if (!family->qemu[0] && !cg_target_runs_here(t, lack)) return rt_text_add(why, "no %s", lack), NULL;
  Foreign *m = rt_malloc(sizeof *m);
  *m = (Foreign){.t = t, .family = family};
  snprintf(m->folder, sizeof m->folder, "/tmp/tenure-foreign-XXXXXX");
  if (!mkdtemp(m->folder)) abort();
  snprintf(m->driver, sizeof m->driver, "%s/driver.o", m->folder);
  snprintf(m->object, sizeof m->object, "%s/program.o", m->folder);
  snprintf(m->program, sizeof m->program, "%s/program", m->folder);
  snprintf(m->in, sizeof m->in, "%s/in", m->folder);
  snprintf(m->out, sizeof m->out, "%s/out", m->folder);
  snprintf(m->said, sizeof m->said, "%s/said", m->folder);
  if (make_driver(m, why)) return m;
  foreign_close(m);
  return NULL;
}

void foreign_close(Foreign *m) {
  if (!m) return;
  const char *const files[] = {m->driver, m->object, m->program, m->in, m->out, m->said};
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) unlink(files[k]);
  rmdir(m->folder);
  rt_free(m);
}

// ---- a program
static bool write_file(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool good = fwrite(bytes, 1, n, f) == n;
  return fclose(f) == 0 && good;
}

bool foreign_load(Foreign *m, Prog *p, RtText *why) {
  CgObject object;
  if (!cg_compile_object(p, m->t, NULL, &object, NULL, why)) return false;
  bool good = write_file(m->object, object.bytes, object.size);
  rt_free(object.bytes);
  m->symbol[0] = 0;
  snprintf(m->blocks, sizeof m->blocks, "--defsym=tenure_block_bytes=%s.block_bytes", cg_program_symbol(why->mem, p));
  return good || (rt_text_add(why, "%s cannot be written", m->object), false);
}

static bool link_for(Foreign *m, const char *symbol, RtText *why) {
  if (!strcmp(m->symbol, symbol)) return true;
  char *entry = rt_printf(why->mem, "--defsym=tenure_entry=%s", symbol);
  const char *const arg[] = {"ld.lld-19", "-static", "--gc-sections", "-o",      m->program,
                             m->driver,   m->object, entry,           m->blocks, NULL};
  if (command(words(why->mem, arg, m->family->link), NULL, NULL, NULL))
    return rt_text_add(why, "ld.lld-19 does not link %s", symbol), false;
  snprintf(m->symbol, sizeof m->symbol, "%s", symbol);
  return true;
}

// ---- a run
static bool write_run(const Foreign *m, const ForeignRun *r) {
  ForeignHead head = {.n_in = r->n_in,
                      .n_out = r->n_out,
                      .n_dims = r->n_dims,
                      .param_bytes = r->param_bytes,
                      .const_bytes = r->const_bytes,
                      .arena_bytes = r->arena_bytes,
                      .seed = (int64_t)r->seed,
                      .counter = (int64_t)r->counter};
  if (r->n_in > FOREIGN_PORTS || r->n_out > FOREIGN_PORTS) return false;
  for (uint32_t k = 0; k < r->n_in; k++) head.in_bytes[k] = r->in_bytes[k];
  for (uint32_t k = 0; k < r->n_out; k++) head.out_bytes[k] = r->out_bytes[k];
  FILE *f = fopen(m->in, "wb");
  if (!f) return false;
  fwrite(&head, sizeof head, 1, f);
  fwrite(r->dims, sizeof *r->dims, r->n_dims, f);
  fwrite(r->params, 1, (size_t)r->param_bytes, f);
  fwrite(r->consts, 1, (size_t)r->const_bytes, f);
  for (uint32_t k = 0; k < r->n_in; k++) fwrite(r->in[k], 1, (size_t)r->in_bytes[k], f);
  bool good = !ferror(f);
  return fclose(f) == 0 && good;
}

static bool read_results(const Foreign *m, ForeignRun *r) {
  FILE *f = fopen(m->out, "rb");
  if (!f) return false;
  bool good = fread(&r->tail, sizeof r->tail, 1, f) == 1 &&
              fread(r->dims, sizeof *r->dims, r->n_dims, f) == r->n_dims &&
              fread(r->params, 1, (size_t)r->param_bytes, f) == (size_t)r->param_bytes;
  for (uint32_t k = 0; good && k < r->n_out; k++)
    good = fread(r->out[k], 1, (size_t)r->out_bytes[k], f) == (size_t)r->out_bytes[k];
  fclose(f);
  return good;
}

// QEMU 7.2 asserts where vfncvt.rtz or vfcvt.rtz is the first instruction of RISC-V's that it translates: of its translator,
// before the instruction runs.
static bool emulator_asserts(const Foreign *m) {
  char text[512] = "";
  FILE *f = fopen(m->said, "r");
  if (!f) return false;
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  return strstr(text, "translate.c") && strstr(text, "Assertion");
}

bool foreign_run(Foreign *m, const char *symbol, ForeignRun *r, RtText *why) {
  if (!link_for(m, symbol, why)) return false;
  if (!write_run(m, r)) return rt_text_add(why, "%s cannot be written", m->in), false;
  const char *const arg[] = {m->program, NULL};
  int status = command(words(why->mem, m->family->qemu[0] ? m->family->qemu : arg, m->family->qemu[0] ? arg : NULL),
                       m->in, m->out, m->said);
  r->emulator_failed = status && emulator_asserts(m);
  if (status) return rt_text_add(why, "%s ends with status %d", symbol, status), false;
  if (!read_results(m, r)) return rt_text_add(why, "%s gives too little", symbol), false;
  return true;
}
