// Random programs reach every op of the table: N_LEAST of N_PROGRAMS programs have it as they are written, and as many
// when all passes have run. What cannot be reached so stands in a list with the reason; a reason that no longer holds
// fails as well. Convolutions, and gradients of their weights, that make what they read count likewise.
//
// Programs of public calls reach every call of the headers that compute: N_LEAST times at least. What is not drawn stands in a
// list with the reason.
//
//   test_random_reach [PROGRAMS]     prints the counts
#include "codegen/kernels.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "tests/check.h"
#include "tests/random_calls.h"

#include <stdlib.h>

enum { N_PROGRAMS = 200, N_FUNCTIONS = 25, N_LEAST = 5 };
typedef enum { WRITTEN, MADE /* behind some pass */, LEFT /* behind the last */, N_STAGES } Stage;

typedef struct {
  Op op;
  const char *why;
} Reason;
static const Reason not_written[] = {
    {OP_overwritten, "pass functionalize makes it of a write"},
    {OP_scan, "pass outline_scans makes it of the marks of a scan"},
    {OP_crop, "pass compose_maps makes it of slices and pads of each other, and rule image_of_few"},
    {OP_shard_mean, "it cuts a function in two; test_shards has it"},
    {OP_exchange_begin, "pass exchange makes it of the sums of shards; test_ranks has it"},
    {OP_exchange_end, "pass exchange makes it of the sums of shards; test_ranks has it"},
    {OP_exchanged, "pass exchange makes it of the sums of shards; test_ranks has it"},
};
static const Reason not_left[] = {
    {OP_scope_begin, "pass check_scopes drops marks"},
    {OP_scope_end, "pass check_scopes drops marks"},
    {OP_move, "pass check_scopes drops marks"},
    {OP_attach, "pass check_scopes drops marks"},
    {OP_dispose, "pass check_scopes drops marks"},
    {OP_rows, "pass check_rows drops marks"},
    {OP_write, "pass functionalize makes values of versions"},
    {OP_overwritten, "pass functionalize makes values of versions"},
    {OP_clone, "pass functionalize makes values of versions"},
    {OP_scan_begin, "pass outline_scans makes a function of the body"},
    {OP_scan_input, "pass outline_scans makes a function of the body"},
    {OP_scan_carry, "pass outline_scans makes a function of the body"},
    {OP_scan_next, "pass outline_scans makes a function of the body"},
    {OP_scan_output, "pass outline_scans makes a function of the body"},
    {OP_scan_final, "pass outline_scans makes a function of the body"},
    {OP_scan_end, "pass outline_scans makes a function of the body"},
    {OP_grad_of, "pass grad replaces it"},
    {OP_grad_replace, "pass grad replaces it"},
    {OP_shard_mean, "pass split_shards cuts there"},
    {OP_exchange_begin, "pass exchange makes it of the sums of shards; test_ranks has it"},
    {OP_exchange_end, "pass exchange makes it of the sums of shards; test_ranks has it"},
    {OP_exchanged, "pass exchange makes it of the sums of shards; test_ranks has it"},
    {OP_stop_grad, "pass simplify drops views without effect"},
};

static uint32_t n_programs_with[N_STAGES][N_OPS];
static bool seen[N_STAGES][N_OPS];
typedef enum { OF_CONVOLUTION, OF_WEIGHT, N_MAKERS } Maker;
static const Op maker[N_MAKERS] = {OP_conv, OP_conv_weight_grad};
static uint32_t n_made_images[N_MAKERS];  // programs
static bool made_image[N_MAKERS];

static void look(Stage stage, const Fn *f) {
  for (uint32_t i = 1; i < f->n_ins; i++) seen[stage][f->ins[i].op] = true;
}

static void look_for_made_images(const Fn *f) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    const Kernel *kernel = &f->kernels[k];
    Val anchor = ir_anchor(f, kernel);
    for (uint32_t m = 0; m < N_MAKERS; m++)
      made_image[m] |= !ir_none(anchor) && f->ins[anchor.i].op == maker[m] && kernel->first != anchor.i;
  }
}

static void look_at_pass(Fn *f, const PassInfo *pass, void *ctx) {
  (void)pass, (void)ctx;
  look(MADE, f);
}

static void count_program(uint64_t seed) {
  RtArena *mem = rt_arena_new();
  memset(seen, 0, sizeof seen), memset(made_image, 0, sizeof made_image);
  Prog *p = random_program(mem, RANDOM_ALL, seed, N_FUNCTIONS);
  uint32_t n = p->n_fns;
  cg_plan_for(p, cg_target_find("avx2"));
  for (uint32_t k = 0; k < n; k++) {
    look(WRITTEN, p->fns[k]);
    if (!ir_run_passes(p->fns[k], NULL, look_at_pass, NULL)) continue;
    look(LEFT, p->fns[k]), look_for_made_images(p->fns[k]);
  }
  for (uint32_t k = 0; k < p->n_bodies; k++)
    if (p->bodies[k]->facts & HAS_OFFSETS) look(LEFT, p->bodies[k]);
  for (uint32_t s = 0; s < N_STAGES; s++)
    for (uint32_t op = 0; op < N_OPS; op++) n_programs_with[s][op] += seen[s][op];
  for (uint32_t m = 0; m < N_MAKERS; m++) n_made_images[m] += made_image[m];
  rt_arena_free(mem);
}

static const char *reason(const Reason *list, size_t n, uint32_t op) {
  for (size_t k = 0; k < n; k++)
    if (list[k].op == op) return list[k].why;
  return NULL;
}
#define REASON(list, op) reason((list), sizeof(list) / sizeof *(list), (op))

static void check_op(uint32_t op, uint32_t least) {
  const char *no_text = REASON(not_written, op), *gone = REASON(not_left, op), *why = no_text ? no_text : gone;
  const uint32_t n[] = {n_programs_with[WRITTEN][op], n_programs_with[MADE][op], n_programs_with[LEFT][op]};
  bool ok = CHECK(no_text ? n[WRITTEN] == 0 : n[WRITTEN] >= least);
  ok &= CHECK(n[MADE] >= least || gone) && CHECK(gone ? 10 * n[LEFT] < n[MADE] || n[LEFT] < least : n[LEFT] >= least);
  printf("%-24s %4u written, %4u made, %4u left%s%s%s\n", ir_ops[op].name, n[0], n[1], n[2], why ? "; " : "",
         why ? why : "", ok ? "" : "  <- fails");
}

// ---- public calls
static const char *const headers[] = {"ops",      "linalg", "reduce", "order", "shape",
                                      "indexing", "image",  "conv",   "loss",  "packed"};
typedef struct {
  const char *name, *why;  // name: all that begin so
} NotDrawn;
static const NotDrawn not_drawn[] = {
    {"no_grad_", "a region, no value"},
    {"requires_grad", "a question, no value"},
    {"set_requires_grad", "a mark that makes no instruction"},
    {"packed_n_members", "a question, no value"},
    {"packed_call", "of modules: test_module_cases, test_conv_packed"},
    {"packed_ctc", "the scan of ctc over rows: test_packed_along"},
    {"pack_padded", "random_packed.c packs by lengths of the run"},
    {"pack_rows", "random_packed.c packs by lengths of the run"},
    {"packed_move_to", "scopes of the frontend: story_packed.c"},
    {"packed_detach_from_scope", "scopes of the frontend: story_packed.c"},
    {"packed_dispose", "scopes of the frontend: story_packed.c"},
    {"scope_attach_packed", "scopes of the frontend: story_packed.c"},
    {"scope_detach_packed", "scopes of the frontend: story_packed.c"},
    {"scoped_end_packed", "scopes of the frontend: story_packed.c"},
};

static const CallCount *count_of(const char *name) {
  uint32_t n;
  const CallCount *c = gen_calls(&n);
  for (uint32_t k = 0; k < n; k++)
    if (!strcmp(c[k].name, name)) return &c[k];
  return NULL;
}

static const NotDrawn *reason_of(const char *name) {
  for (size_t k = 0; k < sizeof not_drawn / sizeof *not_drawn; k++)
    if (!strncmp(name, not_drawn[k].name, strlen(not_drawn[k].name))) return &not_drawn[k];
  return NULL;
}

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && !strcmp(name + n - m, end);
}

static void check_declared(const char *header, const char *name) {
  bool writes = ends_with(name, "_"), makes_module = ends_with(name, "_module");
  if (writes || makes_module || count_of(name)) return;
  if (!CHECK(reason_of(name) != NULL)) printf("tn_%s of %s.h is in no random program\n", name, header);
}

// Names of a line are behind TN_API and a type.
static void check_header(const char *header) {
  char path[64], line[1024], name[64];
  snprintf(path, sizeof path, "frontend/tenure/%s.h", header);
  FILE *in = fopen(path, "r");
  if (!CHECK(in != NULL)) return;
  uint32_t n = 0;
  while (fgets(line, sizeof line, in)) {
    char *open = strncmp(line, "TN_API ", 7) ? NULL : strchr(line, '('), *from = open;
    while (open && from > line && from[-1] != ' ' && from[-1] != '*') from--;
    if (!open || sscanf(from, "tn_%63[a-z0-9_]", name) != 1) continue;
    check_declared(header, name), n++;
  }
  fclose(in);
  CHECK(n > 5);
}

static void check_calls(uint32_t n_programs) {
  for (uint64_t seed = 1; seed <= n_programs; seed++) {
    RtArena *mem = rt_arena_new();
    random_program(mem, RANDOM_CALLS, seed, N_FUNCTIONS);
    rt_arena_free(mem);
  }
  uint32_t n, least = (n_programs * N_LEAST + N_PROGRAMS - 1) / N_PROGRAMS;
  const CallCount *c = gen_calls(&n);
  for (uint32_t k = 0; k < n; k++)
    if (!CHECK(c[k].n >= least)) printf("tn_%s: %u drawn, %u given up\n", c[k].name, c[k].n, c[k].refused);
  for (size_t k = 0; k < sizeof headers / sizeof *headers; k++) check_header(headers[k]);
  for (size_t k = 0; k < sizeof not_drawn / sizeof *not_drawn; k++) CHECK(!count_of(not_drawn[k].name));
}

int main(int argc, char **argv) {
  uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : N_PROGRAMS;
  for (uint64_t seed = 1; seed <= n; seed++) count_program(seed);
  uint32_t least = (n * N_LEAST + N_PROGRAMS - 1) / N_PROGRAMS;
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) check_op(op, least);
  for (uint32_t m = 0; m < N_MAKERS; m++)
    if (!CHECK(n_made_images[m] >= least))
      printf("%u programs have a %s that makes what it reads\n", n_made_images[m], ir_ops[maker[m]].name);
  check_calls(n);
  return check_report();
}
