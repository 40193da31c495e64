// What a further layer of another size adds to a program: bytes of its objects, which stand for what compiling costs and,
// unlike seconds, are the same on every machine. Layers of other sizes share microkernels, column sums and updates.
#include "codegen/kernels.h"
#include "codegen/module/compile.h"
#include "frontend/module/tree.h"
#include "frontend/tenure.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tests/check.h"

#include <elf.h>
#include <stdlib.h>

enum { BATCH = 64, WIDTH = 64, FEW = 2, MANY = 8 };

typedef struct {
  CgInfo info;
  size_t bytes;
} Size;

static tn_program *build(int n, bool trains) {
  tn_program *p = tn_program_create("sizes");
  tn_module *net = tn_root(p);
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, WIDTH));
  for (int k = 0; k < n; k++) {
    char name[16];
    snprintf(name, sizeof name, "%d", k);
    x = tn_relu(tn_call(tn_linear(net, name, WIDTH + k, WIDTH + k + 1), x));
  }
  if (trains) {
    x = tn_mean(tn_square(x));
    tn_backward(x);
    tn_adamw(f, net);
  }
  tn_output(f, "y", x);
  tn_function_end(f);
  fe_params_flush(p);
  return p;
}

static Size size_of(const Target *t, int n, bool trains) {
  tn_program *p = build(n, trains);
  RtText why = {.mem = p->mem};
  CgObject object = {0};
  Size s = {0};
  CHECK(tn_n_errors(p) == 0);
  cg_plan_for(p->ir, t);
  for (uint32_t k = 0; k < p->ir->n_fns; k++) CHECK(ir_run_passes(p->ir->fns[k], NULL, NULL, NULL));
  bool good = ir_plan_program_memory(p->ir) && cg_compile(p->ir, t, NULL, &object, &s.info, &why);
  if (!CHECK(good)) printf("  %s\n", why.text ? why.text : "");
  s.bytes = object.size;
  rt_free(object.bytes);
  tn_program_free(p);
  return s;
}

static void check_layers(const char *target, bool trains, double most) {
  const Target *t = cg_target_find(target);
  Size few = size_of(t, FEW, trains), many = size_of(t, MANY, trains);
  uint32_t kernels = many.info.n_distinct - few.info.n_distinct;
  double each = (double)(many.bytes - few.bytes) / (kernels ? kernels : 1);
  printf("%s, %s: %u distinct kernels, %zu bytes; a further one %.0f bytes (at most %.0f)\n", target,
         trains ? "training" : "inference", many.info.n_distinct, many.bytes, each, most);
  CHECK(kernels >= MANY - FEW && many.bytes > few.bytes);
  CHECK(each <= most);
}

// ---- kernels by class on a machine with little memory
typedef struct {
  const char *name, *tir;
  uint32_t most;  // bytes of code, entry included
} Kernels;
// clang-format off
static const Kernels kernels[] = {
    {"pointwise", "%x: f32[5,37]) {\n%y = gelu %x\noutput %y {name=\"y\", index=0}\n", 2900},
    {"reduce", "%x: f32[5,37]) {\n%y = sum %x {axes=[1]}\noutput %y {name=\"y\", index=0}\n", 600},
    {"softmax", "%x: f32[5,37]) {\n%y = softmax %x\noutput %y {name=\"y\", index=0}\n", 2000},
    {"layer norm", "%x: f32[5,37], %w: f32[37], %b: f32[37]) {\n%y, %m, %r = layer_norm %x, %w, %b {eps=1e-05}\noutput %y {name=\"y\", index=0}\n", 1200},
    {"product", "%x: f32[17,33], %w: f32[29,33], %b: f32[29]) {\n%y = linear %x, %w, %b\noutput %y {name=\"y\", index=0}\n", 3300},
    {"attention", "%q: f32[2,2,5,3], %k: f32[2,2,7,3], %v: f32[2,2,7,3]) {\n%y, %lse = sdpa %q, %k, %v\noutput %y {name=\"y\", index=0}\n", 8200},
    {"lstm", "%x: f32[5,7,6], %len: i64[5], %wi: f32[52,6], %wh: f32[52,13], %b: f32[52]) {\n"
             "%L = packed_layout %len {time=7, rows=rows}\n%d = pack_padded %x, %L\n%g = linear %d, %wi, %b\n"
             "%o, %o1, %o2, %o3, %o4, %o5 = rnn_seq %g, %L, %wh {cell=\"lstm\"}\noutput %o1 {name=\"h\", index=0}\n", 9000},
    {"gather", "%w: f32[11,6], %i: i64[5]) {\n%y = embedding %w, %i\noutput %y {name=\"y\", index=0}\n", 600},
    {"dropout", "%x: f32[5,37]) {\n%y = dropout %x {p=0.25, id=4}\noutput %y {name=\"y\", index=0}\n", 1700},
};
// clang-format on

// Of an ELF file of 32 bits: bytes of its executable sections.
static size_t code_bytes(const CgObject *o) {
  const Elf32_Ehdr *head = o->bytes;
  const Elf32_Shdr *section = (const void *)((const char *)o->bytes + head->e_shoff);
  size_t n = 0;
  for (uint32_t k = 0; k < head->e_shnum; k++) n += section[k].sh_flags & SHF_EXECINSTR ? section[k].sh_size : 0;
  return n;
}

static void check_kernels(const Target *t, const Kernels *k) {
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  CgObject o = {0};
  char *text = rt_printf(mem, "program @p\ndim rows <= 35\nfunc @f(%s}\n", k->tir);
  Prog *p = ir_parse(mem, text, strlen(text), k->name, &diags);
  if (CHECK(p)) cg_plan_for(p, t);
  bool good = p && ir_run_passes(p->fns[0], NULL, NULL, NULL) && ir_plan_program_memory(p) &&
              cg_compile_object(p, t, NULL, &o, NULL, &why);
  if (!CHECK(good)) printf("  %s: %s\n", k->name, why.text ? why.text : "");
  size_t n = good ? code_bytes(&o) : 0;
  printf("%s, %-10s %6zu bytes of code (at most %u)\n", t->name, k->name, n, k->most);
  CHECK(n > 0 && n <= k->most);
  rt_free(o.bytes);
  rt_arena_free(mem);
}

int main(void) {
  setenv("TN_LLVM", "O2", 1);  // what is counted is optimized code
  if (!CHECK(cg_target_find("avx2") && cg_target_find("avx512"))) return check_report();
  check_layers("avx2", false, 3500);
  check_layers("avx2", true, 2100);
  check_layers("avx512", true, 2500);
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
    check_kernels(cg_target_find("thumbv8.1m"), &kernels[k]);
  return check_report();
}
