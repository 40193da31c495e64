// Random streams: every random operation draws numbers of its own, in each step of a scan too.
//
// Pass outline_scans numbers the streams of steps from the operation's {id} on. So an operation between the marks of a scan
// owns as many as there are steps, and no two operations of a program own the same.
#include "frontend/tenure.h"
#include "ir/fn.h"
#include "ir/ir.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/models.h"
#include <math.h>
#include <stdlib.h>

enum { T = 6, B = 2, L = 8, N = B * L * L };
#define D(n) tn_dim_const(n)

// Everything that is random, before, in and after the scan.
static tn_tensor random_ops(tn_module *root, tn_tensor x) {
  tn_tensor y = tn_dropout(x, 0.5), shape_of[2];
  shape_of[0] = tn_rand(x.fn, TN_SHAPE(B, L, L));
  shape_of[1] = tn_randn(x.fn, TN_SHAPE(B, L, L));
  y = tn_add(y, tn_mul(shape_of[0], shape_of[1]));
  y = tn_add(y, tn_scaled_dot_product_attention(x, x, x, .dropout = 0.25));
  y = tn_add(y, tn_call(tn_child(root, "drop"), x));
  tn_tensor q = tn_call(tn_child(root, "attend"), x);
  return tn_add(tn_add(y, q), tn_attention_call(tn_child(root, "attend"), x, y, q));
}

static void build(tn_program *p, tn_function *f) {
  tn_module *root = tn_root(p);
  tn_dropout_module(root, "drop", 0.5);
  tn_multi_head_attention(root, "attend", L, 2, .dropout = 0.5);
  tn_tensor xs = tn_input(f, "xs", TN_F32, TN_SHAPE(T, B, L, L));
  tn_tensor before = random_ops(root, tn_zeros(f, TN_SHAPE(B, L, L)));
  tn_scan *s = tn_scan_begin(f, .steps = D(T));
  tn_tensor x = tn_scan_input(s, xs), h = tn_scan_carry(s, before);
  tn_scan_next(s, h, tn_add(h, random_ops(root, x)));
  tn_scan_end(s);
  tn_output(f, "y", random_ops(root, tn_scan_final(s, h)));
  tn_function_end(f);
}

// Streams [first, first + n) of v: were they anybody's?
static uint32_t take(const Fn *f, Val v, bool in_scan, bool *taken, uint32_t n_taken) {
  const Attr *id = ir_attr(f, v, KEY_id);
  if (!id) return 0;
  int64_t n = in_scan ? T : 1;
  for (int64_t k = id->u.i; k < id->u.i + n && CHECK(k > 0 && k < n_taken); k++) {
    if (!CHECK(!taken[k])) printf("  %s shares stream %lld\n", ir_ops[f->ins[v.i].op].name, (long long)k);
    taken[k] = true;
  }
  return 1;
}

static void check_disjoint(void) {
  tn_program *p = tn_program_create("disjoint");
  build(p, tn_function_begin(p, "f"));
  bool taken[256] = {false}, in_scan = false;
  uint32_t n_random = 0;
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  CHECK(tn_dump(p, file, TN_DUMP_IR) == TN_OK);
  fclose(file);
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  Prog *ir = ir_parse(mem, text, size, "f.tir", &diags);
  for (uint32_t k = 0; CHECK(ir != NULL) && k < ir->n_fns; k++)
    for (Val v = {1}; v.i < ir->fns[k]->n_ins; v.i++) {
      in_scan = ir->fns[k]->ins[v.i].op == OP_scan_begin || (in_scan && ir->fns[k]->ins[v.i].op != OP_scan_end);
      n_random += take(ir->fns[k], v, in_scan, taken, 256);
    }
  CHECK(n_random == 2 + 3 * 7);  // initial weights of two projections; seven operations in three places
  free(text);
  rt_arena_free(mem);
  tn_program_free(p);
}

// The mask of attention in one step, against the numbers that another operation draws in each.
static void check_masks(void) {
  static float x[T][B][L][L], masked[T][N], drawn[T][N], later[N];
  tn_program *p = tn_program_create("masks");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor xs = tn_input(f, "x", TN_F32, TN_SHAPE(T, B, L, L));
  tn_scan *s = tn_scan_begin(f, .steps = D(T));
  tn_tensor v = tn_scan_input(s, xs), q = tn_mul(v, tn_scalar(f, 0));  // equal scores: the rows of the mask come out
  tn_tensor a = tn_scaled_dot_product_attention(q, q, v, .dropout = 0.5);
  tn_tensor r = tn_rand(f, TN_SHAPE(B, L, L));
  tn_tensor as = tn_scan_output(s, a), rs = tn_scan_output(s, r);
  tn_scan_end(s);
  tn_output(f, "a", as);
  tn_output(f, "r", rs);
  tn_output(f, "later", tn_rand(f, TN_SHAPE(B, L, L)));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  for (int t = 0; t < T; t++)
    for (int b = 0; b < B; b++)
      for (int i = 0; i < L; i++) x[t][b][i][i] = 1;
  CHECK(m && tn_run(m, "f", TN_IN(tn_f32(x, T, B, L, L)),
                    TN_OUT(tn_f32(masked, T, B, L, L), tn_f32(drawn, T, B, L, L), tn_f32(later, B, L, L))) == TN_OK);
  for (int t = 0; t < T; t++)
    for (int u = -1; u < T; u++) {
      const float *of = u < 0 ? later : drawn[u];
      int same = 0;
      for (int i = 0; i < N; i++) same += (masked[t][i] > 0) == (of[i] >= 0.5f);
      if (!CHECK(same > N / 4 && same < 3 * N / 4))
        printf("  mask of step %d, numbers of step %d: %d of %d\n", t, u, same, N);
    }
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  check_disjoint();
  check_masks();
  return check_report();
}
