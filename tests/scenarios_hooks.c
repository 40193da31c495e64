// Hooks of modules. They run while the graph is built: what is counted here are their calls.
#include "runtime/base.h"
#include "tests/hook_log.h"
#include "tests/ledger.h"
#include <math.h>

#define D(n) tn_dim_const(n)

static tn_program *p;
static tn_function *f;

static void start(void) {
  p = tn_program_create("h");
  f = tn_function_begin(p, "run");
}

static tn_tensor input(int64_t rows, int64_t cols, int line) {
  return (tn_input)(f, "x", TN_F32, TN_SHAPE(rows, cols), at(line));
}

// ---- hooks that replace
static tn_tensor relu_pre(tn_module *m, tn_tensor in, void *ctx) {
  (void)m, (void)ctx;
  return tn_relu(in);
}

static tn_tensor neg_post(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return tn_neg(out);
}

// The program, compiled; *text: its IR as built, and with its lifetimes.
static tn_model *compile(char **text) {
  size_t size;
  (tn_function_end)(f, at(90));
  tn_model *m = (tn_compile)(p, (tn_compile_options){.n_workers = 1, .seed = 3, .at = at(91)});
  if (!m) tn_report(p, stdout);
  if (!text) return m;
  FILE *out = open_memstream(text, &size);
  tn_dump(p, out, TN_DUMP_IR);
  tn_dump(p, out, TN_DUMP_LIFETIMES);
  fclose(out);
  return m;
}

static void end(tn_model *m) {
  tn_model_free(m);
  tn_program_free(p);
}

// How often a hook ran on a linear layer [100 -> 10] over 32x100x100: called, removed, called.
static void called_removed_called(bool pre, bool post) {
  Log log = {0};
  Entry one = {&log, 1}, two = {&log, 2};
  start();
  tn_module *fc = tn_linear(tn_root(p), "fc", 100, 10);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(32, 100, 100));
  tn_hook *a = pre ? tn_hook_pre(fc, note_pre, &one) : NULL;
  tn_hook *b = post ? tn_hook_post(fc, note_post, &two) : NULL;
  CHECK((a != NULL) == pre && (b != NULL) == post);
  tn_tensor y = tn_call(fc, x);
  CHECK(log.n == pre + post);
  tn_hook_remove(a);
  tn_hook_remove(b);
  tn_hook_remove(a);
  tn_hook_remove(b);
  tn_tensor z = tn_call(fc, x);
  CHECK(log.n == pre + post);
  if (pre && post) LOGGED(&log, 1, 2);
  CHECK(tn_rank(y) == 3 && tn_rank(z) == 3);
  tn_output(f, "d", tn_sum(tn_abs(tn_sub(y, z))));
  tn_model *m = compile(NULL);
  CHECK_REPORT(p, "");
  end(m);
}

SCENARIO(H01) { called_removed_called(true, false); }
SCENARIO(H02) {
  called_removed_called(false, true);
  called_removed_called(true, true);
}

// A program with a hook that was removed in time is the program without it, to the byte.
SCENARIO(H_removed) {
  char *text[2];
  tn_plan plan[2] = {{0}};
  for (int with = 0; with < 2; with++) {
    Log log = {0};
    Entry one = {&log, 1};
    start();
    tn_module *fc = (tn_linear)(tn_root(p), "fc", 4, 3, (tn_linear_options){.at = at(10)});
    tn_hook *a = with ? tn_hook_pre(fc, relu_pre, NULL) : NULL;
    tn_hook *b = with ? tn_hook_post(fc, note_post, &one) : NULL;
    tn_hook_remove(b);
    tn_hook_remove(a);
    (tn_output)(f, "y", (tn_relu)((tn_call)(fc, input(2, 4, 11), at(12)), at(13)), at(14));
    TENSORS(f, 2, 0, 0, 0, 0, 0, 2);
    tn_model *m = compile(&text[with]);
    CHECK(m && tn_plan_of(m, "run", &plan[with]) == TN_OK && log.n == 0);
    CHECK_REPORT(p, "");
    end(m);
  }
  CHECK(*text[0] && !strcmp(text[0], text[1]) && !memcmp(&plan[0], &plan[1], sizeof *plan));
  free(text[0]);
  free(text[1]);
}

// ---- order, and forward without hooks
typedef struct {
  int sum, by;
} Count;

static tn_tensor count_pre(tn_module *m, tn_tensor in, void *ctx) {
  Count *const *c = ctx;
  (void)m, (void)in;
  c[0]->sum += c[1]->by;
  return TN_NONE;
}

static tn_tensor count_post(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)out;
  return count_pre(m, in, ctx);
}

// 2 pre-hooks (+1, +2), 2 post-hooks (+4, +8) at lines 21..24; forward at 30; when asked, a call at 31.
static void forward_then_call(bool with_call) {
  Count total = {0}, by[4] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}};
  Count *ctx[4][2] = {{&total, &by[0]}, {&total, &by[1]}, {&total, &by[2]}, {&total, &by[3]}};
  start();
  tn_module *fc = (tn_linear)(tn_root(p), "fc", 4, 3, (tn_linear_options){.at = at(10)});
  for (int k = 0; k < 2; k++) (tn_hook_pre)(fc, count_pre, ctx[k], (tn_hook_options){.at = at(21 + k)});
  for (int k = 2; k < 4; k++) (tn_hook_post)(fc, count_post, ctx[k], (tn_hook_options){.at = at(21 + k)});
  tn_tensor x = input(2, 4, 11);
  tn_output(f, "y", (tn_forward)(fc, x, at(30)));
  CHECK(total.sum == 0);
  if (with_call) tn_output(f, "z", (tn_call)(fc, x, at(31)));
  CHECK(total.sum == (with_call ? 15 : 0));
  tn_model *m = compile(NULL);
  float in[8] = {1, -2, 3, 4, 0.5f, 0, -1, 2}, y[6], z[6];
  if (CHECK(m) && with_call) {
    CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 2, 4)), TN_OUT(tn_f32(y, 2, 3), tn_f32(z, 2, 3))) == TN_OK);
    CHECK(!memcmp(y, z, sizeof y));
  }
  CHECK_REPORT(p, with_call ? ""
                            : "user.c:21: warning[W119]: a hook of module 'fc' never fires: the module runs through "
                              "tn_forward only\n"
                              "user.c:30: note: tn_forward runs it here, without hooks\n"
                              "hint: tn_call runs hooks, those that are registered before it; tn_hook_remove takes "
                              "one away\n");
  end(m);
}

SCENARIO(H03) {
  forward_then_call(false);
  forward_then_call(true);
}

// The other two ways of never firing; one module is one report.
SCENARIO(H03_never_called) {
  Log log = {0};
  Entry one = {&log, 1};
  start();
  tn_module *net = tn_sequential(tn_root(p), "net");
  tn_module *a = (tn_linear)(net, "a", 4, 4, (tn_linear_options){.at = at(10)}),
            *b = (tn_linear)(tn_root(p), "b", 4, 4, (tn_linear_options){.at = at(11)});
  (tn_hook_pre)(b, note_pre, &one, (tn_hook_options){.at = at(20)});
  (tn_hook_post)(b, note_post, &one, (tn_hook_options){.at = at(21)});
  tn_output(f, "y", (tn_call)(net, input(2, 4, 12), at(30)));
  (tn_hook_post)(a, note_post, &one, (tn_hook_options){.at = at(31)});
  tn_hook_remove((tn_hook_post)(net, note_post, &one, (tn_hook_options){.at = at(32)}));
  tn_model *m = compile(NULL);
  CHECK(m && log.n == 0);
  CHECK_REPORT(
      p, "user.c:20: warning[W119]: a hook of module 'b' never fires: the module is never called\n"
         "user.c:11: note: the module was made here\n"
         "hint: tn_call runs hooks, those that are registered before it; tn_hook_remove takes one away\n"
         "user.c:31: warning[W119]: a hook of module 'net.a' never fires: the module was called only before it was "
         "registered\n"
         "user.c:30: note: it was called here\n"
         "hint: tn_call runs hooks, those that are registered before it; tn_hook_remove takes one away\n");
  end(m);
}

// Ids 0, 1 (front), 2, 3, 4 (front) on a nested sequence; the backward adds none, a second pass the same again.
static void in_order(bool pre) {
  Log log = {0};
  Entry e[5] = {{&log, 0}, {&log, 1}, {&log, 2}, {&log, 3}, {&log, 4}};
  start();
  tn_module *net = tn_sequential(tn_root(p), "net"), *inner = tn_sequential(net, "inner");
  tn_linear(inner, "a", 4, 4);
  tn_activation(inner, "act", "tanh");
  tn_linear(net, "b", 4, 2);
  for (int k = 0; k < 5; k++) {
    bool first = k == 1 || k == 4;
    if (pre) tn_hook_pre(net, note_pre, &e[k], .prepend = first);
    else tn_hook_post(net, note_post, &e[k], .prepend = first);
  }
  tn_tensor x = input(2, 4, 11), y = tn_call(net, x);
  LOGGED(&log, 4, 1, 0, 2, 3);
  tn_backward(tn_sum(y));
  LOGGED(&log, 4, 1, 0, 2, 3);
  tn_backward(tn_sum(tn_call(net, x)));
  LOGGED(&log, 4, 1, 0, 2, 3, 4, 1, 0, 2, 3);
  tn_sgd(f, net);
  tn_model *m = compile(NULL);
  CHECK_REPORT(p, "");
  end(m);
}

SCENARIO(H04) {
  in_order(true);
  in_order(false);
}

// ---- what a hook sees belongs to a scope as any value
static tn_tensor capture(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in;
  *(tn_tensor *)ctx = out;
  return TN_NONE;
}

// A sequence that runs without its own hooks; that of its first layer fires, and stores the layer's output.
static tn_tensor seen;
static tn_scope *capturing(void) {
  seen = TN_NONE;
  start();
  tn_module *net = tn_sequential(tn_root(p), "net"), *l1 = tn_linear(net, "l1", 4, 3);
  tn_linear(net, "l2", 3, 2);
  (tn_hook_post)(l1, capture, &seen, (tn_hook_options){.at = at(10)});
  tn_tensor x = input(2, 4, 11);
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor y = (tn_forward)(net, x, at(12));
  CHECK(tn_is_alive(seen) && seen.v != y.v && owns(s, seen) && owns(s, y));
  TENSORS(f, 0, 0, 2, 0, 0, 0, 2);
  tn_output(f, "y", y);
  return s;
}

// After the call but in its scope the stored value is there.
static void captured_and_used(void) {
  tn_scope *s = capturing();
  tn_output(f, "sum", tn_sum(seen));
  (tn_scope_end)(s, at(13));
  CHECK(!tn_is_alive(seen));
  tn_model *m = compile(NULL);
  tn_plan plan;
  float in[8] = {1, 1, 1, 1, 1, 1, 1, 1}, w[12], b[3], sum = 0, out[4], want = 0;
  if (CHECK(m)) {
    CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 2, 4)), TN_OUT(tn_f32(out, 2, 2), tn_f32_scalar(&sum))) == TN_OK);
    CHECK(tn_plan_of(m, "run", &plan) == TN_OK && plan.n_copies == 0);
    CHECK(tn_get(m, "net.l1.weight", w, 12) == TN_OK && tn_get(m, "net.l1.bias", b, 3) == TN_OK);
    for (int k = 0; k < 12; k++) want += 2 * w[k];
    for (int k = 0; k < 3; k++) want += 2 * b[k];
    CHECK(fabsf(sum - want) < 1e-5f);
  }
  CHECK_REPORT(p, "");
  end(m);
}

static void captured_and_used_late(void) {
  (tn_scope_end)(capturing(), at(13));
  tn_output(f, "sum", (tn_sum)(seen, at(14)));
  CHECK_REPORT(p, "user.c:14: error[E103]: the result of tn_forward (f32[2,3]) is used after its scope closed\n"
                  "user.c:12: note: it was made here, in scope 's'\n"
                  "user.c:13: note: scope 's' closed here\n"
                  "hint: tn_move_to_outer before tn_scope_end keeps it\n");
  tn_program_free(p);
}

SCENARIO(H14) {
  captured_and_used();
  captured_and_used_late();
}

SCENARIO(H15) {
  Log log = {0};
  Entry one = {&log, 1};
  start();
  tn_module *fc = tn_linear(tn_root(p), "fc", 4, 3);
  tn_hook *gone = tn_hook_pre(fc, note_pre, &one),
          *h = (tn_hook_post)(fc, note_post, &one, (tn_hook_options){.at = at(10)});
  tn_hook_remove(gone);
  tn_output(f, "y", tn_call(fc, input(2, 4, 11)));
  tn_model *m = compile(NULL);
  CHECK(m && log.n == 1);
  CHECK_REPORT(p, "");
  tn_hook_remove(gone);  // a second time
  CHECK_REPORT(p, "");
  CHECK(!(tn_hook_pre)(fc, note_pre, &one, (tn_hook_options){.at = at(92)}));
  (tn_hook_remove)(h, at(93));
  CHECK_REPORT(p, "user.c:92: error[E009]: a hook of module 'fc' is registered after the program was compiled\n"
                  "user.c:91: note: the program was compiled here\n"
                  "hint: register a hook before the calls that it watches\n"
                  "user.c:93: error[E009]: a hook of module 'fc' is removed after the program was compiled\n"
                  "user.c:10: note: it was registered here\n"
                  "user.c:91: note: the program was compiled here\n"
                  "hint: remove a hook before the calls that shall run without it\n");
  float in[8] = {0}, y[6];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 2, 4)), TN_OUT(tn_f32(y, 2, 3))) == TN_OK);
  end(m);
}

// ---- observing the middle of what one kernel computes: x + 1, times 2, relu
static tn_values add_one(tn_module *m, tn_values in, void *self) {
  (void)m, (void)self;
  return TN_VALUES(tn_add_scalar(in.v[0], 1));
}
static tn_values times_two(tn_module *m, tn_values in, void *self) {
  (void)m, (void)self;
  return TN_VALUES(tn_mul_scalar(in.v[0], 2));
}

static tn_tensor tap(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  tn_output(f, "tap", out);
  return TN_NONE;
}

// Bytes stored by a run go to *stored.
static tn_model *chain(bool is_observed, int64_t *stored) {
  start();
  tn_module *net = tn_sequential(tn_root(p), "net");
  tn_module_define(net, "plus", &(tn_module_class){.name = "Plus", .forward = add_one}, NULL);
  tn_module *middle = tn_module_define(net, "twice", &(tn_module_class){.name = "Twice", .forward = times_two}, NULL);
  tn_activation(net, "relu", "relu");
  if (is_observed) tn_hook_post(middle, tap, NULL);
  tn_output(f, "y", tn_call(net, input(3, 5, 11)));
  tn_model *m = compile(NULL);
  CHECK_REPORT(p, "");
  *stored = m ? tn_plan_bytes_written(m, "run", NULL) : -1;
  return m;
}

SCENARIO(H16) {
  float x[15], y[2][15], seen_by_hook[15];
  tn_plan plan[2];
  int64_t stored[2];
  for (int k = 0; k < 15; k++) x[k] = (float)(k - 7) * 0.5f;
  tn_model *m = chain(false, &stored[0]);
  CHECK(m && !tn_run(m, "run", TN_IN(tn_f32(x, 3, 5)), TN_OUT(tn_f32(y[0], 3, 5))) && !tn_plan_of(m, "run", &plan[0]));
  end(m);
  m = chain(true, &stored[1]);
  CHECK(m && !tn_plan_of(m, "run", &plan[1]) && plan[0].n_kernels == 1 && plan[1].n_kernels == 1);
  CHECK(plan[1].peak_bytes == plan[0].peak_bytes && plan[1].n_copies == 0);  // stored where the output is
  CHECK(stored[0] == sizeof y[0] && stored[1] == sizeof y[0] + sizeof seen_by_hook);
  char *dump = NULL;
  size_t size;
  FILE *out = open_memstream(&dump, &size);
  tn_dump(p, out, TN_DUMP_LIFETIMES);
  fclose(out);
  CHECK_HAS(dump, "tap");
  free(dump);
  if (m) CHECK(!tn_run(m, "run", TN_IN(tn_f32(x, 3, 5)), TN_OUT(tn_f32(seen_by_hook, 3, 5), tn_f32(y[1], 3, 5))));
  CHECK(!memcmp(y[0], y[1], sizeof y[0]));
  for (int k = 0; k < 15; k++) CHECK(seen_by_hook[k] == (x[k] + 1) * 2);
  end(m);
}

// ---- replacing, with gradients
SCENARIO(H18) {
  start();
  tn_module *act = tn_activation(tn_root(p), "act", "sigmoid");
  tn_hook_pre(act, relu_pre, NULL);
  tn_hook_post(act, neg_post, NULL);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(7));
  tn_set_requires_grad(x, true);
  tn_tensor y = tn_call(act, x);
  TENSORS(f, 3, 0, 0, 0, 0, 0, 3);  // relu, sigmoid, neg
  tn_output(f, "y", y);
  tn_output(f, "g", tn_grad(tn_sum(tn_mul(y, tn_scalar(f, 2))), x));
  tn_model *m = compile(NULL);
  float in[7] = {-3, -0.5f, 0, 0.25f, 1, 2, 8}, out[7], g[7];
  if (CHECK(m) && CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 7)), TN_OUT(tn_f32(out, 7), tn_f32(g, 7))) == TN_OK))
    for (int k = 0; k < 7; k++) {
      double s = 1 / (1 + exp(-fmax((double)in[k], 0)));
      CHECK(fabs((double)out[k] + s) < 1e-6);
      CHECK(fabs((double)g[k] - (in[k] > 0 ? -2 * s * (1 - s) : 0)) < 1e-6);
    }
  CHECK_REPORT(p, "");
  end(m);
}

// ---- mistakes of a hook
static tn_tensor flat_pre(tn_module *m, tn_tensor in, void *ctx) {
  (void)m, (void)ctx;
  return (tn_reshape)(in, TN_SHAPE(8), at(50));
}

static tn_tensor cast_post(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return (tn_cast)(out, TN_I64, at(51));
}

static tn_module *layer(void) {
  start();
  return (tn_linear)(tn_root(p), "fc", 4, 3, (tn_linear_options){.at = at(10)});
}

SCENARIO(H_type) {  // E118
  tn_module *fc = layer();
  (tn_hook_pre)(fc, flat_pre, NULL, (tn_hook_options){.at = at(20)});
  tn_relu((tn_call)(fc, input(2, 4, 11), at(30)));
  CHECK_REPORT(p, "user.c:30: error[E118]: a hook of module 'fc' replaces its input, f32[2,4], by a value of f32[8]\n"
                  "user.c:20: note: the hook was registered here\n"
                  "user.c:50: note: the replacement was made here\n"
                  "hint: a hook keeps shape and dtype: change them before the call, or after it\n");
  tn_function_end(f);
  CHECK(!tn_compile(p) && tn_n_errors(p) == 1);
  tn_program_free(p);

  fc = layer();
  (tn_hook_post)(fc, cast_post, NULL, (tn_hook_options){.at = at(20)});
  (tn_hook_post)(fc, neg_post, NULL, (tn_hook_options){.at = at(21)});
  tn_relu((tn_call)(fc, input(2, 4, 11), at(30)));
  CHECK_REPORT(p,
               "user.c:30: error[E118]: a hook of module 'fc' replaces its output, f32[2,3], by a value of i64[2,3]\n"
               "user.c:20: note: the hook was registered here\n"
               "user.c:51: note: the replacement was made here\n"
               "hint: a hook keeps shape and dtype: change them before the call, or after it\n");
  tn_program_free(p);
}

static tn_tensor call_again(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)out, (void)ctx;
  return (tn_call)(m, in, at(50));
}

static tn_tensor give_ctx(tn_module *m, tn_tensor in, void *ctx) {
  (void)m, (void)in;
  return *(tn_tensor *)ctx;
}

static tn_tensor dispose_out(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  (tn_dispose)(out, at(52));
  return TN_NONE;
}

SCENARIO(H_mistakes) {
  tn_module *fc = layer();
  (tn_hook_post)(fc, call_again, NULL, (tn_hook_options){.at = at(20)});
  (tn_call)(fc, input(2, 4, 11), at(30));
  CHECK_REPORT(p, "user.c:50: error[E009]: module 'fc' is called by a hook of its own\n"
                  "user.c:20: note: the hook was registered here\n"
                  "hint: tn_forward runs the module without its hooks\n");
  tn_program_free(p);

  fc = layer();
  tn_function *g = tn_function_begin(p, "other");
  tn_tensor other = tn_zeros(g, TN_SHAPE(2, 4));
  (tn_hook_pre)(fc, give_ctx, &other, (tn_hook_options){.at = at(20)});
  (tn_call)(fc, input(2, 4, 11), at(30));
  CHECK_REPORT(p, "user.c:30: error[E008]: a hook of module 'fc' gives a value of function 'other' to function 'run'\n"
                  "user.c:20: note: the hook was registered here\n"
                  "hint: a hook builds on the values that it is given\n");
  tn_program_free(p);

  fc = layer();
  (tn_hook_post)(fc, dispose_out, NULL, (tn_hook_options){.at = at(20)});
  tn_relu((tn_call)(fc, input(2, 4, 11), at(30)));
  CHECK_REPORT(p, "user.c:30: error[E101]: the result of tn_call (f32[2,3]) is used after it was disposed\n"
                  "user.c:30: note: it was made here\n"
                  "user.c:52: note: it was disposed here\n"
                  "hint: dispose it after its last use: doing so earlier saves no memory\n");
  tn_program_free(p);

  fc = layer();
  CHECK(!(tn_hook_pre)(fc, NULL, NULL, (tn_hook_options){.at = at(20)}));
  CHECK(!(tn_hook_pre)(NULL, relu_pre, NULL, (tn_hook_options){.at = at(20)}));
  tn_hook_remove(NULL);
  CHECK(!(tn_hook_pre)((tn_gru)(tn_root(p), "gru", 4, 3, (tn_rnn_options){.at = at(21)}), relu_pre, NULL,
                       (tn_hook_options){.at = at(22)}));
  CHECK(!(tn_hook_pre)((tn_module_new)(tn_root(p), "m", at(23)), relu_pre, NULL, (tn_hook_options){.at = at(24)}));
  CHECK_REPORT(p,
               "user.c:20: error[E003]: a hook of module 'fc' is no function\n"
               "user.c:22: error[E003]: module 'gru' runs no such hooks: it works on sequences and states\n"
               "user.c:21: note: it was made here\n"
               "hint: tn_rnn_hook_pre and tn_rnn_hook_post watch recurrent modules, tn_hook_backward their gradients\n"
               "user.c:24: error[E003]: module 'm' runs no hooks: it holds parameters only and is never called\n"
               "user.c:23: note: it was made here\n"
               "hint: hook its children, or make it by tn_sequential\n");
  tn_program_free(p);
}

// A hook may register and remove hooks while it runs, and give back values that the call did not make.
typedef struct {
  tn_hook *self;
  Entry entry;
} Once;

static tn_tensor once_pre(tn_module *m, tn_tensor in, void *ctx) {
  Once *o = ctx;
  tn_hook_remove(o->self);
  tn_hook_pre(m, note_pre, &o->entry);
  return in;
}

static tn_tensor input_post(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)out, (void)ctx;
  return in;
}

SCENARIO(H_reentry) {
  Log log = {0};
  Once o = {.entry = {&log, 1}};
  start();
  tn_module *net = tn_sequential(tn_root(p), "net"), *act = tn_activation(net, "act", "tanh");
  o.self = tn_hook_pre(act, once_pre, &o);
  tn_tensor x = input(2, 4, 11);
  tn_call(net, x);
  CHECK(log.n == 0);
  tn_call(net, x);
  CHECK(log.n == 1);
  TENSORS(f, 2, 0, 0, 0, 0, 0, 2);
  tn_hook_post(act, input_post, NULL);
  tn_scope *s = tn_scope_begin(f, "s");
  CHECK(tn_call(net, x).v == x.v);
  TENSORS(f, 2, 0, 1, 0, 0, 0, 3);  // the tanh that nobody reads; the input stays the caller's
  CHECK(!owns(s, x));
  tn_scope_end(s);
  tn_output(f, "y", tn_relu(x));
  CHECK_REPORT(p, "");
  end(compile(NULL));
}

// ---- memory runs out at every allocation in turn, in hooks and around them
static bool build_with_failing_malloc(uint64_t k) {
  rt_malloc_fail_at(k);
  p = tn_program_create("oom");
  if (!p) return false;
  f = tn_function_begin(p, "run");
  tn_module *fc = tn_linear(tn_root(p), "fc", 4, 4);
  tn_tensor x = input(2, 4, 11);
  for (int n = 0; n < 100; n++) {
    tn_hook_pre(fc, relu_pre, NULL);
    tn_hook_post(fc, neg_post, NULL, .prepend = true);
    if (n % 10 == 0) x = tn_call(fc, x);
  }
  tn_output(f, "y", x);
  tn_function_end(f);
  bool done = tn_report(p, NULL) == TN_OK;
  rt_malloc_fail_at(0);
  CHECK(done == (tn_n_errors(p) == 0));
  tn_program_free(p);
  return done;
}

SCENARIO(H_memory) {
  uint64_t k = 1;
  while (k < 500 && !build_with_failing_malloc(k)) k++;
  rt_malloc_fail_at(0);
  CHECK(k > 5 && k < 500);
}
