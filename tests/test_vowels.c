// The training step of examples/vowels.c: no copy, an arena at its lower bound whose every byte at the peak belongs to
// a value with a source line, and runs that allocate nothing.
#include "frontend/graph/program.h"
#include "frontend/tenure.h"
#include "ir/intern.h"
#include "runtime/format.h"
#include "tests/check.h"

int example_main(int argc, char **argv);
#define main example_main
#include "examples/vowels.c"
#undef main

static const Fn *function(const tn_program *p, const char *name) {
  for (uint32_t k = 0; k < p->ir->n_fns; k++)
    if (!strcmp(ir_text(p->ir, p->ir->fns[k]->name), name)) return p->ir->fns[k];
  return NULL;
}

// Another buffer takes this one's slot over in kernel k.
static bool is_taken(const Fn *f, uint32_t b, int32_t k) {
  for (uint32_t o = 1; o < f->n_bufs; o++)
    if (f->bufs[o].reuses == b && f->bufs[o].first == k) return true;
  return false;
}

static bool holds(const Fn *f, uint32_t b, int32_t k) {
  const Buf *buf = &f->bufs[b];
  return buf->seg == SEG_ARENA && buf->first <= k && k <= buf->last && !is_taken(f, b, k);
}

// The kernel at which the buffers that are needed take the most bytes.
static int32_t fullest_kernel(const Fn *f) {
  int64_t most = -1;
  int32_t at = 0;
  for (int32_t k = 0; k < (int32_t)f->stats.n_kernels; k++) {
    int64_t bytes = 0;
    for (uint32_t b = 1; b < f->n_bufs; b++)
      if (holds(f, b, k)) bytes += f->bufs[b].bytes;
    if (bytes > most) most = bytes, at = k;
  }
  return at;
}

static bool has_line(const Fn *f, const Buf *b) {
  Loc loc = f->ins[b->head.i].loc;
  const char *file = ir_loc_file(f->prog, loc);
  return file && strstr(file, "examples/vowels.c") && ir_loc_line(f->prog, loc) > 0;
}

static int compare_bytes(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

// Each byte of the arena as one of '0' free, '1' someone's; placement leaves no more than alignment between neighbours.
static void check_peak(const Fn *f) {
  int32_t at = fullest_kernel(f);
  size_t size = (size_t)f->stats.peak_bytes, n_free = 0, n_live = 0;
  char *owned = calloc(size + 1, 1);
  for (uint32_t k = 1; k < f->n_bufs && owned; k++) {
    const Buf *b = &f->bufs[k];
    if (b->seg != SEG_ARENA) continue;
    CHECK(has_line(f, b) && b->offset >= 0 && b->offset + b->bytes <= (int64_t)size);
    if (!holds(f, k, at)) continue;
    n_live++;
    CHECK(!memchr(owned + b->offset, 1, (size_t)b->bytes));
    memset(owned + b->offset, 1, (size_t)b->bytes);
  }
  if (owned) qsort(owned, size, 1, compare_bytes);
  const char *first = owned ? memchr(owned, 1, size) : NULL;
  if (first) n_free = (size_t)(first - owned);
  CHECK(first && n_live > 4 && n_free < 64 * n_live);
  free(owned);
}

static void check_summary(const tn_program *p) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  CHECK(tn_dump_function(p, "train_step", out, TN_DUMP_SUMMARY) == TN_OK);
  fclose(out);
  const PlanStats *s = &function(p, "train_step")->stats;
  char want[200], arena[RT_BYTES_SIZE], bound[RT_BYTES_SIZE], orders[RT_BYTES_SIZE];
  snprintf(want, sizeof want, "@train_step: arena %s, lower bound %s, gap 0.0 %%, %s of any order\n",
           rt_bytes_text(arena, s->peak_bytes), rt_bytes_text(bound, s->lower_bound),
           rt_bytes_text(orders, s->order_bound));
  CHECK_HAS(text, want);
  CHECK_HAS(text, " 0 copies (0 B)");
  free(text);
}

static void check_runs(tn_model *m) {
  tn_series *s;
  tn_dataset *d = open_series("data/japanese_vowels", "JapaneseVowels_TRAIN.ts", &s);
  tn_loader *l = new_loader(d, TN_SEQUENTIAL, 0);
  pass(m, l, "train_step");
  double first = mean_loss;
  uint64_t before = rt_malloc_count();
  pass(m, l, "train_step");
  CHECK(rt_malloc_count() == before && mean_loss < first);
  tn_loader_free(l);
  tn_dataset_free(d);
  tn_series_free(s);
}

int main(void) {
  tn_program *p = tn_program_create("vowels");
  tn_lstm(tn_root(p), "rnn", FEATURES, HIDDEN, .bidirectional = true);
  tn_linear(tn_root(p), "head", 2 * HIDDEN, CLASSES);
  build_function(p, "train_step", true, true);
  tn_model *m = tn_compile(p);
  tn_plan plan = {0};
  if (CHECK(m && tn_plan_of(m, "train_step", &plan) == TN_OK)) {
    CHECK(plan.n_copies == 0 && plan.copy_bytes == 0);
    if (!p->ir->guarded_arena) {  // guard zones and odd places take more
      CHECK(plan.lower_bound > 0 && plan.peak_bytes == plan.lower_bound);
      check_peak(function(p, "train_step"));
      check_summary(p);
    }
    check_runs(m);
  } else {
    tn_report(p, stdout);
  }
  tn_model_free(m);
  tn_program_free(p);
  return check_report();
}
