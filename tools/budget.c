// tenure budget FILE.tir: a plan against limits, for continuous integration: status 1 when one is exceeded, with the
// values that stand at the peak.
//
// Limits are given as options, for every function, or recorded by --write, function by function, in FILE.tir.budget:
//
//   @train_step peak 4962304 copies 0 kernels 37
#include "ir/fn.h"
#include "ir/intern.h"
#include "runtime/near.h"
#include "tools/json.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PEAK, COPIES, KERNELS, N_LIMITS, AT_PEAK = 12 };
static const char *const limit_name[N_LIMITS] = {"peak", "copies", "kernels"};

typedef struct {
  int64_t most[N_LIMITS];  // -1: none
} Limits;

typedef struct {
  const CliArgs *args;
  const char *path, *record;  // of the program; of the recorded limits
  ToolPlan plan;
  Limits *limits;  // by function
  bool is_exceeded;
} Budget;

static void measure(const ToolFn *f, int64_t *figure) {
  figure[PEAK] = f->f->stats.peak_bytes;
  figure[COPIES] = f->f->stats.n_copies;
  figure[KERNELS] = f->f->stats.n_kernels;
}

static bool is_wanted(const Budget *b, const ToolFn *f) {
  const char *only = cli_value(b->args, "--function");
  return !only || !strcmp(tool_fn_name(f), only + (*only == '@'));
}

// ---- limits
static bool has_options(const CliArgs *a) {
  return cli_has(a, "--peak") || cli_has(a, "--copies") || cli_has(a, "--kernels");
}

static bool read_options(Budget *b) {
  Limits l;
  const CliArgs *a = b->args;
  if (!cli_bytes(a, "--peak", -1, &l.most[PEAK]) ||
      !cli_number(a, "--copies", (CliRange){0, INT64_MAX}, -1, &l.most[COPIES]) ||
      !cli_number(a, "--kernels", (CliRange){0, INT64_MAX}, -1, &l.most[KERNELS]))
    return false;
  for (uint32_t k = 0; k < b->plan.n_fns; k++) b->limits[k] = l;
  return true;
}

static ToolFn *find_fn(const Budget *b, const char *name) {
  for (uint32_t k = 0; k < b->plan.n_fns; k++)
    if (!strcmp(tool_fn_name(&b->plan.fns[k]), name)) return &b->plan.fns[k];
  return NULL;
}

static bool read_line(Budget *b, const char *line, uint32_t number) {
  char name[256];
  long long figure[N_LIMITS];
  int n =
      sscanf(line, "@%255s peak %lld copies %lld kernels %lld", name, &figure[PEAK], &figure[COPIES], &figure[KERNELS]);
  ToolFn *f = n == 1 + N_LIMITS ? find_fn(b, name) : NULL;
  if (n != 1 + N_LIMITS)
    fprintf(stderr, "tenure: %s:%u: expected '@NAME peak N copies N kernels N'\n", b->record, number);
  else if (!f) fprintf(stderr, "tenure: %s:%u: the program has no function @%s\n", b->record, number, name);
  if (!f) return false;
  for (int k = 0; k < N_LIMITS; k++) b->limits[f - b->plan.fns].most[k] = figure[k];
  return true;
}

static bool read_record(Budget *b, RtArena *mem) {
  size_t n;
  char *text = tool_read_file(mem, b->record, &n);
  if (!text) {
    fprintf(stderr, "tenure: %s: %s\n", b->record, strerror(errno));
    fputs("  give limits, --peak, --copies, --kernels, or record the present plan with --write\n", stderr);
    return false;
  }
  uint32_t number = 1;
  for (char *line = text; *line; number++) {
    size_t length = strcspn(line, "\n");
    bool is_last = !line[length];
    line[length] = 0;
    if (*line && *line != '#' && !read_line(b, line, number)) return false;
    line += length + !is_last;
  }
  return true;
}

static int write_record(const Budget *b) {
  FILE *out = fopen(b->record, "w");
  for (uint32_t k = 0; out && k < b->plan.n_fns; k++) {
    int64_t figure[N_LIMITS];
    measure(&b->plan.fns[k], figure);
    fprintf(out, "@%s", tool_fn_name(&b->plan.fns[k]));
    for (int l = 0; l < N_LIMITS; l++) fprintf(out, " %s %lld", limit_name[l], (long long)figure[l]);
    fputc('\n', out);
  }
  bool ok = out && !ferror(out);
  if (out) ok = !fclose(out) && ok;
  if (!ok) fprintf(stderr, "tenure: %s: %s\n", b->record, strerror(errno));
  return ok ? 0 : EXIT_ERRORS;
}

// ---- comparing
static bool exceeds(const Budget *b, uint32_t k, int limit, const int64_t *figure) {
  int64_t most = b->limits[k].most[limit];
  return most >= 0 && figure[limit] > most;
}

static void put_copies(const ToolFn *f, RtText *out) {
  for (uint32_t i = 1; i < f->f->n_ins; i++) {
    const Attr *reader = ir_attr(f->f, (Val){i}, KEY_reader);
    if (!reader) continue;
    rt_text_add(out, "  copy of %s at %s: %s wants the old content, %s\n", f->name[ir_arg(f->f, (Val){i}, 0).i],
                tool_loc(f->f->prog, out->mem, f->f->ins[i].loc), ir_text(f->f->prog, reader->u.s),
                tool_bytes(out->mem, ir_type_bytes(f->f->prog, f->f->ins[i].dtype, f->f->ins[i].shape)));
  }
}

static void put_fn(Budget *b, uint32_t k, RtText *out) {
  const ToolFn *f = &b->plan.fns[k];
  int64_t figure[N_LIMITS];
  measure(f, figure);
  for (int l = 0; l < N_LIMITS; l++) {
    int64_t most = b->limits[k].most[l];
    bool over = exceeds(b, k, l, figure);
    if (most < 0) continue;
    rt_text_add(out, "@%s %s: %lld of at most %lld%s\n", tool_fn_name(f), limit_name[l], (long long)figure[l],
                (long long)most, over ? rt_printf(out->mem, ": %lld too many", (long long)(figure[l] - most)) : "");
    b->is_exceeded |= over;
  }
  if (exceeds(b, k, PEAK, figure)) tool_put_peak(f, AT_PEAK, out);
  if (exceeds(b, k, COPIES, figure)) put_copies(f, out);
}

static void json_fn(Budget *b, uint32_t k, RtText *out) {
  const ToolFn *f = &b->plan.fns[k];
  int64_t figure[N_LIMITS];
  measure(f, figure);
  json_open(out, NULL, '{');
  json_text(out, "function", tool_fn_name(f));
  for (int l = 0; l < N_LIMITS; l++) {
    int64_t most = b->limits[k].most[l];
    json_open(out, limit_name[l], '{');
    json_int(out, "found", figure[l]);
    if (most >= 0) json_int(out, "most", most);
    json_bool(out, "exceeded", exceeds(b, k, l, figure));
    json_close(out, '}');
    b->is_exceeded |= exceeds(b, k, l, figure);
  }
  if (exceeds(b, k, PEAK, figure)) {
    json_open(out, "at_peak", '{');
    tool_json_peak(f, AT_PEAK, 0, NULL, out);
    json_close(out, '}');
  }
  json_close(out, '}');
}

static int compare(Budget *b, RtArena *mem) {
  RtText out = {.mem = mem};
  bool as_json = cli_has(b->args, "--json");
  rt_text_put(&out, "", 0);
  if (as_json) json_open(&out, NULL, '[');
  for (uint32_t k = 0; k < b->plan.n_fns; k++) {
    if (!is_wanted(b, &b->plan.fns[k])) continue;
    if (as_json) json_fn(b, k, &out);
    else put_fn(b, k, &out);
  }
  if (as_json) json_close(&out, ']'), rt_text_add(&out, "\n");
  return tool_put(&out) && !b->is_exceeded ? 0 : EXIT_ERRORS;
}

static int budget(RtArena *mem, void *ctx) {
  Budget *b = ctx;
  const char *function = cli_value(b->args, "--function");
  if (!tool_plan_read(&b->plan, mem, b->path)) return EXIT_ERRORS;
  if (function && !tool_function(b->plan.p, b->plan.path, function)) return EXIT_ERRORS;
  b->record = rt_printf(mem, "%s.budget", b->path);
  b->limits = rt_alloc(mem, (b->plan.n_fns + 1) * sizeof *b->limits);
  if (cli_has(b->args, "--write")) return write_record(b);
  memset(b->limits, 0xff, b->plan.n_fns * sizeof *b->limits);
  if (!(has_options(b->args) ? read_options(b) : read_record(b, mem)))
    return has_options(b->args) ? EXIT_USAGE : EXIT_ERRORS;
  return compare(b, mem);
}

int tool_budget(const CliArgs *a) {
  Budget b = {.args = a, .path = a->operand[0]};
  if (cli_has(a, "--write") && !strcmp(b.path, "-"))
    return cli_usage_error(a, "--write needs a file: the record lies beside it");
  return tool_with_arena(budget, &b);
}
