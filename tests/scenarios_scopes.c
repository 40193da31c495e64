// Scopes and statistics of plain tensors. Tuples are T(co, do, ci, di, at, de | live).
#include "tests/ledger.h"

static tn_program *p;
static tn_function *f;

static void start(void) {
  p = tn_program_create("a");
  f = tn_function_begin(p, "run");
}

static tn_tensor new_at(int line) { return (tn_full)(f, 1, TN_SCALAR, at(line)); }
static tn_tensor new(void) { return new_at(14); }

static void end(void) {
  tn_function_end(f);
  tn_program_free(p);
}

SCENARIO(A01) {
  start();
  tn_stats_reset(f);
  tn_scope *s = tn_scope_begin(f, "s");
  new ();
  TENSORS(f, 0, 0, 1, 0, 0, 0, 1);
  tn_scope_end(s);
  CHECK_REPORT(p, "");
  end();
}

SCENARIO(A02) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_attach(s, new ());
  TENSORS(f, 0, 0, 1, 0, 0, 0, 1);
  tn_scope_end(s);
  CHECK_REPORT(p, "");
  end();
}

SCENARIO(A03) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_detach(s, new ());
  TENSORS(f, 0, 0, 1, 0, 0, 1, 1);
  tn_scope_end(s);
  TENSORS(f, 0, 0, 1, 0, 0, 1, 1);
  end();
}

SCENARIO(A04) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor t = new_at(100);
  (tn_dispose)(t, at(101));
  TENSORS(f, 0, 0, 1, 1, 0, 0, 0);
  (tn_dispose)(t, at(102));
  TENSORS(f, 0, 0, 1, 1, 0, 0, 0);
  tn_dispose(t);
  tn_scope_end(s);
  TENSORS(f, 0, 0, 1, 1, 0, 0, 0);
  CHECK_REPORT(p, "user.c:102: error[E101]: the result of tn_full (f32[]) is disposed twice\n"
                  "user.c:100: note: it was made here, in scope 's'\n"
                  "user.c:101: note: it was disposed here first\n"
                  "hint: one of the two is enough\n");
  end();
}

SCENARIO(A05) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  new ();
  tn_scope_end(s);
  TENSORS(f, 0, 0, 1, 1, 0, 0, 0);
  STATS(tn_scope_stats(s), "the scope's own", 0, 0, 1, 1, 0, 0, 0);
  end();
}

SCENARIO(A07) {
  start();
  new ();
  TENSORS(f, 1, 0, 0, 0, 0, 0, 1);
  end();
}

SCENARIO(A08) {
  start();
  tn_tensor t = new ();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_attach(s, t);
  TENSORS(f, 1, 0, 0, 0, 1, 0, 1);
  tn_scope_end(s);
  end();
}

SCENARIO(A09) {
  start();
  tn_tensor t = new ();
  tn_scope *s = (tn_scope_begin)(f, "s", at(110));
  (tn_scope_detach)(s, t, at(111));
  TENSORS(f, 1, 0, 0, 0, 0, 0, 1);
  tn_scope_end(s);
  CHECK_REPORT(p, "user.c:111: error[E123]: scope 's' does not own the result of tn_full (f32[]): no scope does\n"
                  "user.c:14: note: it was made here\n"
                  "hint: the calls that name no scope find the owner themselves\n");
  end();
}

SCENARIO(A10) {
  start();
  tn_tensor t = new ();
  tn_dispose(t);
  tn_dispose(t);
  TENSORS(f, 1, 1, 0, 0, 0, 0, 0);
  CHECK(tn_n_errors(p) == 1);
  end();
}

SCENARIO(A11) {
  start();
  tn_tensor t = new ();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_attach(s, t);
  tn_dispose(t);
  TENSORS(f, 1, 0, 0, 1, 1, 0, 0);
  tn_scope_end(s);
  TENSORS(f, 1, 0, 0, 1, 1, 0, 0);
  end();
}

SCENARIO(A13) {
  start();
  tn_tensor t = new ();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_attach(s, t);
  tn_scope_detach(s, t);
  TENSORS(f, 1, 0, 0, 0, 1, 1, 1);
  tn_scope_end(s);
  end();
}

SCENARIO(A15) {
  start();
  tn_tensor t = new ();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_attach(s, t);
  tn_scope *s2 = tn_scope_begin(f, "s2");
  TENSORS(f, 1, 0, 0, 0, 1, 0, 1);
  tn_scope_end(s2);
  TENSORS(f, 1, 0, 0, 0, 1, 0, 1);
  tn_scope_end(s);
  end();
}

SCENARIO(A17) {
  start();
  tn_stats_reset(f);
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor a1 = new ();
  tn_tensor a2 = (tn_detach_from_scope)(new (), at(120));
  tn_tensor a3 = (tn_move_to_outer)(new (), at(121));
  tn_tensor a4 = new ();
  CHECK(owns(s, a1) && !owns(s, a2) && !owns(s, a3) && owns(s, a4) && tn_scope_count(s) == 2);
  tn_dispose(a4);
  tn_scope_end(s);
  TENSORS(f, 0, 0, 4, 2, 0, 2, 2);
  tn_function_end(f);
  CHECK_REPORT(p, "user.c:120: warning[W108]: the result of tn_full (f32[]) is detached from its scope and never "
                  "disposed: it holds 4 bytes in "
                  "each run of 'run'\n"
                  "user.c:14: note: it was made here, in scope 's'\n"
                  "hint: tn_dispose after its last use, or leave it to its scope\n"
                  "user.c:121: warning[W108]: the result of tn_full (f32[]) is moved out of all scopes, never used and "
                  "never disposed: it holds 4 "
                  "bytes in each run of 'run'\n"
                  "user.c:14: note: it was made here, in scope 's'\n"
                  "hint: tn_dispose after its last use, or leave it to its scope\n");
  tn_program_free(p);
}

SCENARIO(A18) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor t[4];
  for (int k = 0; k < 4; k++) t[k] = new ();
  tn_scope_dispose_but(s, TN_TENSORS(t[3]));
  TENSORS(f, 0, 0, 4, 3, 0, 0, 1);
  CHECK(tn_scope_count(s) == 1 && owns(s, t[3]) && tn_is_alive(t[3]) && !tn_is_alive(t[0]));
  tn_scope_end(s);
  TENSORS(f, 0, 0, 4, 4, 0, 0, 0);
  CHECK_REPORT(p, "");
  end();
}

SCENARIO(A19) {
  start();
  tn_scope *s1 = tn_scope_begin(f, "s1");
  tn_tensor a1 = new ();
  tn_scope *s2 = tn_scope_begin(f, "s2");
  tn_tensor a2 = new ();
  tn_scope_move_to_outer(s2, a2);
  CHECK(!owns(s2, a2) && owns(s1, a2));
  tn_tensor a6 = new ();
  tn_scope_detach(s2, a6);
  CHECK(!owns(s2, a6) && !owns(s1, a6));
  tn_tensor a3 = new (), a4 = new ();
  TENSORS(f, 0, 0, 5, 0, 0, 1, 5);
  tn_scope_dispose_but(s2, TN_TENSORS(a4));
  TENSORS(f, 0, 0, 5, 1, 0, 1, 4);
  CHECK(!tn_is_alive(a3) && tn_is_alive(a4));
  tn_tensor a5 = new ();
  tn_dispose(a5);
  CHECK(!owns(s2, a5));
  TENSORS(f, 0, 0, 6, 2, 0, 1, 4);
  tn_scope_end(s2);
  TENSORS(f, 0, 0, 6, 3, 0, 1, 3);
  CHECK(tn_is_alive(a1) && !tn_is_alive(a4));
  tn_scope_end(s1);
  TENSORS(f, 0, 0, 6, 5, 0, 1, 1);
  CHECK(!tn_is_alive(a1) && tn_n_errors(p) == 0);
  end();
}

SCENARIO(A20) {
  start();
  tn_tensor data = tn_rand(f, TN_SHAPE(10, 10));
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor t1 = tn_add(tn_mul(data, data), data);
  tn_tensor t2 = tn_sub(tn_add(data, data), t1);
  TENSORS(f, 1, 0, 4, 0, 0, 0, 5);
  tn_scope_dispose_but(s, TN_TENSORS(t2));
  TENSORS(f, 1, 0, 4, 3, 0, 0, 2);
  CHECK(!tn_is_alive(t1));
  t2 = tn_add(t2, data);
  TENSORS(f, 1, 0, 5, 3, 0, 0, 3);
  tn_output(f, "y", t2);
  tn_scope_end(s);
  TENSORS(f, 1, 0, 5, 5, 0, 0, 1);
  CHECK(tn_is_alive(data) && !tn_is_alive(t2));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  tn_plan plan = {0};
  CHECK(m && tn_plan_of(m, "run", &plan) == TN_OK && plan.peak_bytes <= 2 * 400 + 2 * 64);  // two 10x10 temporaries
  CHECK_REPORT(p, "");
  tn_model_free(m);
  tn_program_free(p);
}

SCENARIO(A21) {
  start();
  tn_stats_reset(f);
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor data = tn_rand(f, TN_SHAPE(10, 10));
  tn_tensor t1 = tn_add(tn_mul(data, data), data);
  int64_t n = tn_stats_tensors(f).live;
  CHECK(n == 3);
  TENSORS(f, 0, 0, 3, 0, 0, 0, 3);
  tn_scope *i = tn_scope_begin(f, "i");
  tn_sub(tn_add(data, data), t1);
  tn_scope_end(i);
  TENSORS(f, 0, 0, 5, 2, 0, 0, 3);
  tn_scope_end(s);
  TENSORS(f, 0, 0, 5, 5, 0, 0, 0);
  end();
}

static int64_t peak_of_training(int n_steps) {
  start();
  tn_module *l1 = tn_linear(tn_root(p), "l1", 10, 8), *l2 = tn_linear(tn_root(p), "l2", 8, 1);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(16, 10));
  tn_tensor y = tn_input(f, "y", TN_F32, TN_SHAPE(16, 1));
  tn_stats_reset(f);
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor loss = tn_mse(tn_call(l2, tn_relu(tn_call(l1, x))), y);
  TENSORS(f, 0, 0, 4, 0, 0, 0, 4);  // two linear layers, relu and the loss
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_sgd(f, tn_root(p));
  tn_scope_end(s);
  TENSORS(f, 0, 0, 4, 4, 0, 0, 0);
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  float xs[160] = {1, 2, 3}, ys[16] = {1}, loss_now = 0;
  tn_plan before = {0}, after = {0};
  CHECK(m && tn_plan_of(m, "run", &before) == TN_OK);
  for (int k = 0; k < n_steps && m; k++)
    CHECK(tn_run(m, "run", TN_IN(tn_f32(xs, 16, 10), tn_f32(ys, 16, 1)), TN_OUT(tn_f32_scalar(&loss_now))) == TN_OK);
  CHECK(tn_plan_of(m, "run", &after) == TN_OK && after.peak_bytes == before.peak_bytes);
  tn_model_free(m);
  tn_program_free(p);
  return after.peak_bytes;
}

SCENARIO(A23) { CHECK(peak_of_training(1) == peak_of_training(50)); }

SCENARIO(A26) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor t = new (), u = new ();
  (tn_move_to_scope_of)(t, u, at(130));
  CHECK_REPORT(p, "user.c:130: note[E105]: the result of tn_full (f32[]) is owned by scope 's' already\n"
                  "user.c:14: note: it was made here, in scope 's'\n"
                  "hint: the move does nothing: leave it out\n");
  tn_scope_end(s);
  TENSORS(f, 0, 0, 2, 2, 0, 0, 0);
  CHECK(tn_n_errors(p) == 0);
  tn_dispose(t);
  TENSORS(f, 0, 0, 2, 2, 0, 0, 0);
  end();
}

SCENARIO(A27) {
  start();
  tn_tensor d = new ();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor a = new ();
  (tn_scope_dispose_but)(s, &d, 1, at(140));
  CHECK(!tn_is_alive(a) && tn_is_alive(d) && tn_scope_count(s) == 0);
  TENSORS(f, 1, 0, 1, 1, 0, 0, 1);
  tn_scope_end(s);
  CHECK(tn_is_alive(d));
  TENSORS(f, 1, 0, 1, 1, 0, 0, 1);
  CHECK_REPORT(p, "user.c:140: error[E107]: the result of tn_full (f32[]) is kept, but scope 's' does not own it\n"
                  "user.c:14: note: it was made here\n"
                  "hint: leave it out of the list: the scope does not dispose what it does not own\n");
  end();
}

SCENARIO(A29) {
  start();
  tn_scope *o = tn_scope_begin(f, "o");
  tn_tensor t = new ();
  tn_scope *i = tn_scope_begin(f, "i");
  (tn_scope_move_to_outer)(i, t, at(150));
  (tn_scope_detach)(i, t, at(151));
  TENSORS(f, 0, 0, 1, 0, 0, 0, 1);
  tn_scope_end(i);
  CHECK(tn_is_alive(t));
  tn_scope_end(o);
  TENSORS(f, 0, 0, 1, 1, 0, 0, 0);
  CHECK(tn_n_errors(p) == 2);
  CHECK_HAS(report_of(p), ":150: error[E123]: scope 'i' does not own the result of tn_full (f32[]): scope 'o' does");
  CHECK_HAS(report_of(p), ":151: error[E123]: scope 'i' does not own the result of tn_full (f32[]): scope 'o' does");
  end();
}

SCENARIO(A30) {
  start();
  tn_scope *a = tn_scope_begin(f, "a");
  new ();
  tn_scope *b = (tn_scope_begin)(f, "b", at(160));
  tn_tensor tb = new ();
  (tn_scope_end)(a, at(161));
  tn_move_to_outer(tb);
  tn_scope_end(b);
  CHECK_REPORT(p, "user.c:161: error[E104]: scope 'a' is closed while scope 'b' inside it is open\n"
                  "user.c:160: note: scope 'b' was opened here\n"
                  "hint: close 'b' first\n");
  end();
}

SCENARIO(A32) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor t = new ();
  tn_scope *i = tn_scope_begin(f, "i");
  tn_scope_attach(i, t);
  TENSORS(f, 0, 0, 1, 0, 1, 0, 1);
  (tn_scope_end)(i, at(170));
  TENSORS(f, 0, 0, 1, 1, 1, 0, 0);
  CHECK(!tn_is_alive(t));
  tn_relu((tn_relu)(t, at(171)));
  tn_scope_end(s);
  CHECK_REPORT(p, "user.c:171: error[E101]: the result of tn_full (f32[]) is used after scope 'i', which it was given "
                  "to, disposed it\n"
                  "user.c:14: note: it was made here, in scope 's'\n"
                  "user.c:170: note: scope 'i' closed here\n"
                  "hint: tn_move_to_outer before tn_scope_end keeps it\n");
  end();
}

// The accumulator moves out of each pass of the loop, and what it was before ends.
static void accumulate(int64_t size) {
  start();
  tn_shape shape = TN_SHAPE(size);
  tn_scope *o = tn_scope_begin(f, "o");
  tn_tensor acc = tn_rand(f, shape);
  for (int k = 0; k < 10; k++) {
    tn_scope *s = tn_scope_begin(f, "s");
    tn_tensor a = tn_softmax(acc, 0), b = tn_full(f, k, TN_SCALAR);
    tn_tensor n = tn_move_to_outer(tn_add(a, b));
    tn_dispose(acc);
    acc = n;
    tn_scope_end(s);
  }
  TENSORS(f, 0, 0, 31, 30, 0, 0, 1);
  tn_output(f, "acc", acc);
  tn_scope_end(o);
  TENSORS(f, 0, 0, 31, 31, 0, 0, 0);
  CHECK_REPORT(p, "");
  tn_function_end(f);
}

SCENARIO(A34) {
  accumulate(1000);
  tn_model *m = tn_compile(p);
  tn_plan plan = {0};
  CHECK(m && tn_plan_of(m, "run", &plan) == TN_OK);
  CHECK(plan.peak_bytes <= 2 * 4096 && plan.n_copies == 0);  // two buffers in turn, or one in place
  tn_model_free(m);
  tn_program_free(p);
}

SCENARIO(A36) {
  start();
  for (int k = 0; k < 2; k++) {
    tn_stats_reset(f);
    TENSORS(f, 0, 0, 0, 0, 0, 0, 0);
    PACKED(f, 0, 0, 0, 0, 0, 0, 0);
    TOTAL(f, 0, 0, 0, 0, 0, 0, 0);
  }
  end();
}

SCENARIO(A37) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  new ();
  CHECK(!strcmp(stats_text(tn_stats_tensors(f)),
                "ThreadTotalLiveCount: 1; CreatedOutsideScopeCount: 0; DisposedOutsideScopeCount: 0; "
                "CreatedInScopeCount: 1; DisposedInScopeCount: 0; AttachedToScopeCount: 0; DetachedFromScopeCount: 0"));
  tn_scope_end(s);
  end();
}

SCENARIO(A38) {
  start();
  tn_tensor t = new ();
  tn_scope *s = tn_scope_begin(f, "s");
  (tn_scope_end)(s, at(180));
  (tn_scope_detach)(s, t, at(181));
  CHECK((tn_scope_count)(s, at(182)) == 0);
  (tn_scope_attach)(s, t, at(183));
  (tn_scope_dispose_but)(s, &t, 1, at(184));
  (tn_scope_end)(s, at(185));
  CHECK_REPORT(p, "user.c:181: error[E104]: scope 's' is asked to give a value away after it closed\n"
                  "user.c:180: note: it was closed here\n"
                  "hint: a scope is used between tn_scope_begin and tn_scope_end\n"
                  "user.c:182: error[E104]: scope 's' is asked for its values after it closed\n"
                  "user.c:180: note: it was closed here\n"
                  "hint: a scope is used between tn_scope_begin and tn_scope_end\n"
                  "user.c:183: error[E104]: scope 's' is given a value after it closed\n"
                  "user.c:180: note: it was closed here\n"
                  "hint: a scope is used between tn_scope_begin and tn_scope_end\n"
                  "user.c:184: error[E104]: scope 's' is emptied after it closed\n"
                  "user.c:180: note: it was closed here\n"
                  "hint: a scope is used between tn_scope_begin and tn_scope_end\n"
                  "user.c:185: error[E104]: scope 's' is closed twice\n"
                  "user.c:180: note: it was closed here first\n"
                  "hint: one of the two is enough\n");
  TENSORS(f, 1, 0, 0, 0, 0, 0, 1);
  end();
}

// Not in the table: one expression, and what a scope's values say of themselves.
SCENARIO(A_expression) {
  start();
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4));
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor y = TN_SCOPED(f, tn_add(tn_exp(x), tn_square(x)));
  TENSORS(f, 0, 0, 3, 2, 0, 0, 1);
  CHECK(owns(s, y) && tn_scope_count(s) == 1);
  tn_tensor same = TN_SCOPED(f, y);  // what was not made inside stays where it is
  CHECK(same.v == y.v && owns(s, y));
  tn_output(f, "y", y);
  tn_scope_end(s);
  tn_tensor z = TN_SCOPED(f, tn_add(tn_exp(x), tn_square(x)));
  TENSORS(f, 0, 0, 6, 5, 0, 1, 1);  // the outermost scope lets it go
  tn_output(f, "z", z);
  CHECK_REPORT(p, "");
  end();
}

SCENARIO(A_values) {
  start();
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(10, 10));
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor h = (tn_softmax)(x, 1, at(10)), g = (tn_exp)(h, at(11)), k = (tn_softmax)(g, 0, at(12));
  tn_tensor unread = (tn_relu)(x, at(13));
  tn_output(f, "y", (tn_add)(h, k, at(14)));
  tn_scope_end(s);
  tn_function_end(f);
  tn_scope_value v[8];
  CHECK(tn_scope_values(s, v, 8) == 5 && tn_scope_values(s, NULL, 0) == 5 && tn_scope_values(s, v, 1) == 5);
  CHECK(v[0].value.v == h.v && v[0].line == 10 && !strcmp(v[0].file, "user.c") && !strcmp(v[0].what, "softmax"));
  CHECK(v[0].bytes == 400 && v[0].first == -1 && v[0].offset == -1);
  tn_model *m = tn_compile(p);
  CHECK(m && tn_scope_values(s, v, 8) == 5);
  CHECK(v[0].line == 10 && v[0].first == 0 && v[0].last > v[0].first && v[0].offset >= 0);
  CHECK(v[3].value.v == unread.v && v[3].first == -1);  // nobody reads it: it is not computed
  tn_model_free(m);
  tn_program_free(p);
}
