// What of frontend/tenure/shape.h is a view and what a value of its own, by writing through it, with constant sizes and with sizes
// of the run. x holds powers of 2, so that the sum of what a call shows of a copy of x says which elements these are. What it shows is
// filled: exactly these elements are overwritten, or none; and what is written to the copy is seen in a view. A call of the
// header without a row fails.
#include "frontend/tenure.h"
#include "tests/check.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4, MOST = 6 };

typedef enum {
  VIEW,
  OWN,
  REFUSED,  // a view that cannot be written
} Kind;

static tn_tensor out[MOST];
static tn_tensor last_of(uint32_t n) { return n ? out[n - 1] : TN_NONE; }
#define TWO_ROWS(x) tn_slice(x, 0, 1, 2)
static tn_tensor one_of_run(tn_tensor x) {
  return tn_cast(tn_sum(tn_ones_like(tn_slice(tn_slice(x, 0, 0, 1), 1, 0, 1))), TN_I64);
}

// CALL(name, kind, value of x [n, n])
#define CALLS                                                                                 \
  CALL(tn_slice_step, VIEW, tn_slice_step(x, 0, TN_END, TN_END, -2))                          \
  CALL(tn_narrow, VIEW, tn_narrow(x, 1, -3, 2))                                               \
  CALL(tn_select_index, VIEW, tn_select_index(x, 0, -2))                                      \
  CALL(tn_flip, VIEW, tn_flip(tn_slice(x, 0, 0, 3), TN_INTS(0, 1)))                           \
  CALL(tn_flatten, VIEW, tn_flatten(TWO_ROWS(x), 0, 1))                                       \
  CALL(tn_unflatten, VIEW, tn_unflatten(x, 1, TN_SHAPE(1, -1)))                               \
  CALL(tn_squeeze, VIEW, tn_squeeze(tn_slice(x, 0, 2, 1), 0))                                 \
  CALL(tn_unsqueeze, VIEW, tn_unsqueeze(x, 1))                                                \
  CALL(tn_movedim, VIEW, tn_movedim(TWO_ROWS(x), 0, 1))                                       \
  CALL(tn_movedims, VIEW, tn_movedims(TWO_ROWS(x), (int[]){0, 1}, TN_INTS(1, 0)))             \
  CALL(tn_swapaxes, VIEW, tn_swapaxes(tn_slice(x, 1, 1, 2), 0, 1))                            \
  CALL(tn_broadcast_to, REFUSED, tn_broadcast_to(tn_slice(x, 0, 1, 1), TN_SHAPE(3, D)))       \
  CALL(tn_diagonal, VIEW, tn_diagonal(x, 0, 0, 1))                                            \
  CALL(tn_diagonal, VIEW, tn_diagonal(x, 1, 0, 1))                                            \
  CALL(tn_diagonal, VIEW, tn_diagonal(x, -2, 0, 1))                                           \
  CALL(tn_diagonal, VIEW, tn_diagonal(x, 1, 1, 0))                                            \
  CALL(tn_diagonal, VIEW, tn_diagonal(tn_unsqueeze(x, 1), 1, 0, 2))                           \
  CALL(tn_diagonal, VIEW, tn_diagonal(TWO_ROWS(tn_slice(x, 1, 0, 2)), 0, 0, 1))               \
  CALL(tn_trace, OWN, tn_trace(x))                                                            \
  CALL(tn_split, VIEW, last_of(tn_split(TWO_ROWS(x), 1, 0, out, MOST)))                       \
  CALL(tn_split_sizes, VIEW, last_of(tn_split_sizes(x, (int64_t[]){1, -1}, 2, 1, out)))       \
  CALL(tn_chunk, VIEW, last_of(tn_chunk(x, 2, 0, out, MOST)))                                 \
  CALL(tn_unbind, VIEW, last_of(tn_unbind(TWO_ROWS(x), 0, out, MOST)))                        \
  CALL(tn_stack, OWN, tn_stack(0, &x, 1))                                                     \
  CALL(tn_stack, OWN, tn_stack(1, TN_TENSORS(x, x)))                                          \
  CALL(tn_concat, OWN, tn_concat(0, &x, 1))                                                   \
  CALL(tn_roll, OWN, tn_roll(x, (int64_t[]){1}, TN_INTS(0)))                                  \
  CALL(tn_roll, OWN, tn_roll(x, (int64_t[]){0}, TN_INTS(0)))                                  \
  CALL(tn_pad, OWN, tn_pad(x, (int64_t[]){0, 0}, 2, TN_PAD_CONSTANT, 0))                      \
  CALL(tn_pad, OWN, tn_pad(x, (int64_t[]){-1, 0}, 2, TN_PAD_CONSTANT, 0))                     \
  CALL(tn_repeat, OWN, tn_repeat(x, (int64_t[]){1, 1}, 2))                                    \
  CALL(tn_repeat, OWN, tn_repeat(x, (int64_t[]){1, 1, 1}, 3))                                 \
  CALL(tn_tile, OWN, tn_tile(x, (int64_t[]){1}, 1))                                           \
  CALL(tn_repeat_interleave, OWN, tn_repeat_interleave(x, 1, 0))                              \
  CALL(tn_unfold, OWN, tn_unfold(x, 0, 1, 1))                                                 \
  CALL(tn_unfold, OWN, tn_unfold(x, 0, 2, 1))                                                 \
  CALL(tn_tril, OWN, tn_tril(x, MOST))                                                        \
  CALL(tn_triu, OWN, tn_triu(x, -MOST))                                                       \
  CALL(tn_diag, OWN, tn_diag(x, 0))                                                           \
  CALL(tn_diag, OWN, tn_diag(tn_select_index(x, 0, 1), 0))                                    \
  CALL(tn_diag_embed, OWN, tn_diag_embed(x, 0))                                               \
  CALL(tn_diag_embed_axes, OWN, tn_diag_embed_axes(x, 0, 0, 2))                               \
  CALL(tn_one_hot, OWN, tn_cast(tn_one_hot(tn_cast(tn_mul_scalar(x, 0), TN_I64), 3), TN_F32)) \
  CALL(tn_reshape, VIEW, tn_reshape(x, TN_SHAPE(1, -1)))                                      \
  CALL(tn_expand, REFUSED, tn_expand(tn_slice(x, 1, 1, 1), TN_SHAPE(D, 3)))                   \
  CALL(tn_permute, VIEW, tn_permute(TWO_ROWS(x), TN_INTS(1, 0)))                              \
  CALL(tn_transpose, VIEW, tn_transpose(TWO_ROWS(x), 0, 1))                                   \
  CALL(tn_slice, VIEW, tn_slice(x, 0, 1, 2))                                                  \
  CALL(tn_slice_at, VIEW, tn_slice_at(x, 1, one_of_run(x), tn_dim_const(2)))                  \
  CALL(tn_detach, VIEW, tn_detach(TWO_ROWS(x)))                                               \
  CALL(tn_clone, OWN, tn_clone(x))

#define CALL(name, kind, ...) {#name, #__VA_ARGS__, kind},
typedef struct {
  const char *name, *text;
  Kind kind;
} Row;
static const Row row[] = {CALLS};
#undef CALL
enum { N_ROWS = sizeof row / sizeof *row };

static tn_tensor value_of(int which, tn_tensor x, tn_dim D) {
  int k = 0;
  (void)D;
#define CALL(name, kind, ...) \
  if (k++ == which) return __VA_ARGS__;
  CALLS
#undef CALL
  return TN_NONE;
}

// ---- one row
typedef struct {
  tn_program *p;
  tn_function *f;
  tn_tensor x;
  tn_dim D;
} Case;

static Case begin(bool by_run) {
  Case c = {.p = tn_program_create("views")};
  c.D = by_run ? tn_dim_bounded(c.p, "n", MOST) : tn_dim_const(N);
  c.f = tn_function_begin(c.p, "run");
  c.x = tn_input(c.f, "x", TN_F32, TN_SHAPE(c.D, c.D));
  return c;
}

static bool is_refused(int k, bool by_run) {
  Case c = begin(by_run);
  tn_fill_(value_of(k, tn_clone(c.x), c.D), -1);
  bool refused = tn_n_errors(c.p) == 1;
  tn_program_free(c.p);
  return refused;
}

static bool check_sums(Kind kind, const float *copy, float shown, float seen) {
  int n = 0;
  for (int k = 0; k < N * N; k++) {
    bool is_shown = kind == VIEW && (int)shown >> k & 1;
    if (copy[k] != (is_shown ? -1 : (float)(1 << k))) return false;
    n += is_shown;
  }
  return kind == VIEW ? n > 0 && seen == (float)n : seen == shown;
}

static bool check_row(int k, bool by_run) {
  Case c = begin(by_run);
  tn_tensor copy = tn_clone(c.x), v = value_of(k, copy, c.D);
  tn_output(c.f, "shown", tn_sum(tn_clone(v)));
  tn_fill_(v, -1);
  tn_output(c.f, "copy", copy);
  tn_tensor other = tn_clone(c.x), w = value_of(k, other, c.D);
  tn_fill_(other, 1);
  tn_output(c.f, "seen", tn_sum(w));
  tn_function_end(c.f);
  tn_model *m = tn_compile(c.p, .n_workers = 1, .cache_dir = "", .quiet = true);
  float x[N * N], shown = 0, after[N * N], seen = 0;
  for (int j = 0; j < N * N; j++) x[j] = (float)(1 << j);
  bool good = m && tn_run(m, "run", TN_IN(tn_f32(x, N, N)),
                          TN_OUT(tn_f32_scalar(&shown), tn_f32(after, N, N), tn_f32_scalar(&seen))) == TN_OK;
  good = good && check_sums(row[k].kind, after, shown, seen);
  if (!m) tn_report(c.p, stdout);
  if (!good) printf("  shown %g, seen %g, copy %g %g %g %g ..\n", shown, seen, after[0], after[1], after[2], after[3]);
  tn_model_free(m);
  tn_program_free(c.p);
  return good;
}

// ---- every call of the header has a row, of the kind that its section says
static bool has_row(const char *name, Kind kind) {
  bool any = false;
  for (int k = 0; k < N_ROWS; k++) any |= !strcmp(row[k].name, name) && (row[k].kind == OWN) == (kind == OWN);
  return any;
}

static int check_section(const char *text, const char *title, Kind kind) {
  const char *at = strstr(text, title), *end = at ? strstr(at + 1, "\n// ---- ") : NULL;
  int n = 0;
  if (!CHECK(at && end)) return 0;
  for (; (at = strstr(at, "TN_API ")) && at < end; at++) {
    const char *open = strchr(at, '('), *first = open;
    char name[64];
    while (isalnum((unsigned char)first[-1]) || first[-1] == '_') first--;
    snprintf(name, sizeof name, "%.*s", (int)(open - first), first);
    n++;
    bool is_sum = !strcmp(name, "tn_trace");  // stands beside the diagonal
    if (!CHECK(has_row(name, is_sum ? OWN : kind))) printf("  %s has no row\n", name);
  }
  return n;
}

static void check_header(void) {
  static char text[1 << 16];
  FILE *in = fopen("frontend/tenure/shape.h", "r");
  if (!CHECK(in)) return;
  text[fread(text, 1, sizeof text - 1, in)] = 0;
  fclose(in);
  CHECK(check_section(text, "// ---- views", VIEW) >= 14);
  CHECK(check_section(text, "// ---- parts", VIEW) >= 4);
  CHECK(check_section(text, "// ---- values of their own", OWN) >= 13);
}

int main(void) {
  check_header();
  for (int by_run = 0; by_run < 2; by_run++)
    for (int k = 0; k < N_ROWS; k++)
      if (!CHECK(row[k].kind == REFUSED ? is_refused(k, by_run) : check_row(k, by_run)))
        printf("  %s, %s\n", row[k].text, by_run ? "a size of the run" : "a constant size");
  return check_report();
}
