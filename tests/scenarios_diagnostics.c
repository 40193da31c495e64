// Programs that must not build. Each text names the use and what went before, by file and line.
#include "tests/ledger.h"
#include "tests/models.h"

static tn_program *p;
static tn_function *f;

static void start(void) {
  p = tn_program_create("i");
  f = tn_function_begin(p, "run");
}

static tn_tensor input(int line) { return (tn_input)(f, "x", TN_F32, TN_SHAPE(2, 3), at(line)); }

static void refused(const char *text) {
  tn_function_end(f);
  CHECK_REPORT(p, text);
  CHECK(!tn_compile(p));
  CHECK_REPORT(p, text);
  tn_program_free(p);
}

SCENARIO(I01) {
  start();
  tn_tensor x = input(1);
  tn_scope *s = tn_scope_begin(f, "s");
  tn_tensor y = (tn_relu)(x, at(10));
  (tn_scope_end)(s, at(11));
  (tn_output)(f, "y", y, at(12));
  refused("user.c:12: error[E103]: the result of tn_relu (f32[2,3]) is used after its scope closed\n"
          "user.c:10: note: it was made here, in scope 's'\n"
          "user.c:11: note: scope 's' closed here\n"
          "hint: tn_move_to_outer before tn_scope_end keeps it\n");
}

SCENARIO(I02) {
  start();
  tn_function *init = tn_init_function(p);
  tn_tensor t = (tn_full)(init, 1, TN_SHAPE(3), at(10));
  (tn_parameter_adopt)(tn_root(p), "w", t, at(11));
  (tn_exp)(t, at(12));
  tn_exp(t);
  refused("user.c:12: error[E102]: the result of tn_full (f32[3]) is used after a parameter took it over\n"
          "user.c:10: note: it was made here\n"
          "user.c:11: note: parameter 'w' took it over here\n"
          "hint: tn_as_parameter gives the handle to go on with\n");
}

// A batch is an input: given back by hand, it is gone.
SCENARIO(I03) {
  start();
  tn_tensor x = input(10);
  (tn_dispose)(x, at(11));
  tn_output(f, "y", (tn_relu)(x, at(12)));
  refused("user.c:12: error[E101]: input 'x' (f32[2,3]) is used after it was disposed\n"
          "user.c:10: note: it was made here\n"
          "user.c:11: note: it was disposed here\n"
          "hint: dispose it after its last use: doing so earlier saves no memory\n");
}

SCENARIO(I05) {
  start();
  tn_function *init = tn_init_function(p);
  tn_module *m = tn_module_new(tn_root(p), "m");
  tn_scope *s = (tn_scope_begin)(init, "s", at(10));
  (tn_register)(m, "w", tn_as_parameter((tn_full)(init, 1, TN_SCALAR, at(11))), at(12));
  tn_scope_end(s);
  refused("user.c:12: error[E109]: parameter 'm.w' is owned by scope 's', which ends before its module\n"
          "user.c:11: note: it was made here, in scope 's'\n"
          "user.c:10: note: scope 's' was opened here\n"
          "hint: tn_detach_from_scope before, or tn_parameter_adopt, gives it to the module alone\n");

  start();  // the other way round: a module's parameter is given to a scope
  init = tn_init_function(p);
  tn_tensor w = tn_as_parameter(tn_full(init, 1, TN_SCALAR));
  (tn_register)(tn_root(p), "w", w, at(20));
  s = (tn_scope_begin)(init, "s", at(21));
  (tn_scope_attach)(s, w, at(22));
  tn_scope_end(s);
  refused("user.c:22: error[E109]: parameter 'w' is given to scope 's', which ends before its module\n"
          "user.c:21: note: scope 's' was opened here\n"
          "user.c:20: note: 'w' was registered here\n"
          "hint: a module owns its parameters: tn_module_dispose or tn_parameter_adopt ends them\n");
}

SCENARIO(I06) {
  start();
  (tn_pack_constant)(input(10), ((int64_t[]){2, 3}), 2, (tn_pack_options){.enforce_sorted = true, .at = at(11)});
  refused("user.c:11: error[E114]: length 3 at index 1 is longer than the one before it, and sorting is enforced\n"
          "user.c:10: note: the value to pack is input 'x', f32[2,3], made here\n"
          "hint: enforce_sorted = false sorts while packing, and gives results in the order of the input\n");
}

SCENARIO(I08) {
  start();
  tn_module *enc = tn_module_new(tn_root(p), "enc");
  tn_tensor a = tn_as_parameter(tn_ones(tn_init_function(p), TN_SCALAR));
  (tn_register)(enc, "w", a, at(10));
  (tn_register)(enc, "w", tn_as_parameter(tn_ones(tn_init_function(p), TN_SCALAR)), at(11));
  (tn_parameter)(enc, "w", TN_SCALAR, (tn_init){TN_INIT_ZEROS, 0, 0}, at(12));
  refused("user.c:11: error[E110]: parameter 'w' exists already\n"
          "user.c:10: note: the first 'w' was made here\n"
          "hint: another name is free; tn_share and tn_share_module give one thing two\n"
          "user.c:12: error[E110]: parameter 'w' exists already\n"
          "user.c:10: note: the first 'w' was made here\n"
          "hint: another name is free; tn_share and tn_share_module give one thing two\n");
}

SCENARIO(I12) {
  start();
  tn_tensor x = input(1);
  for (int k = 0; k < 3; k++) {
    tn_scope *s = tn_scope_begin(f, "step");
    tn_tensor h = (tn_relu)(x, at(10));
    (tn_detach_from_scope)(h, at(11));
    tn_output(f, k == 0 ? "a" : k == 1 ? "b" : "c", tn_sum(h));
    tn_scope_end(s);
  }
  tn_function_end(f);
  const char *text = report_of(p);
  CHECK_HAS(text, "user.c:11: warning[W108] (x 3): the result of tn_relu (f32[2,3]) is detached from its scope and "
                  "never disposed: it holds 24 bytes "
                  "in each run of 'run'\n"
                  "user.c:10: note: it was made here, in scope 'step'\n"
                  "hint: tn_dispose after its last use, or leave it to its scope\n");
  int n = 0;
  for (const char *at_text = text; (at_text = strstr(at_text, "W108")); at_text++) n++;
  CHECK(n == 1 && tn_n_errors(p) == 0);
  tn_model *m = model_of(p);
  tn_model_free(m);
  tn_program_free(p);
}

SCENARIO(I14) {
  start();
  tn_tensor x = input(1);
  tn_packed a = (tn_pack_constant)(x, ((int64_t[]){3, 2}), 2, (tn_pack_options){.at = at(10)});
  tn_packed b = (tn_pack_constant)(x, ((int64_t[]){1, 3}), 2, (tn_pack_options){.at = at(11)});
  tn_packed c = (tn_pack_constant)(x, ((int64_t[]){3, 2}), 2, (tn_pack_options){.at = at(12)});
  CHECK(tn_packed_zip("add", a, c).data.v);
  (tn_packed_zip)("add", tn_packed_map("relu", a), b, at(13));
  refused("user.c:13: error[E111]: packed sequences of different lengths are joined by tn_add: [3,2] and [1,3]\n"
          "user.c:10: note: the first was packed here\n"
          "user.c:11: note: the second was packed here\n"
          "hint: tn_pack_like packs one by the layout of the other, and the same lengths give the same layout\n");
}

// Not in the table: a member of a packed sequence is not torn out; a value does not go into a closed scope.
SCENARIO(I_member) {
  start();
  tn_packed s = (tn_pack_constant)(input(1), ((int64_t[]){3, 2}), 2, (tn_pack_options){.at = at(10)});
  (tn_dispose)(s.data, at(11));
  CHECK(tn_relu(s.data).v);
  refused("user.c:11: error[E102]: the result of tn_pack_constant (f32[5]) is a member of a packed sequence: it is not "
          "disposed alone\n"
          "user.c:10: note: the packed sequence was made here\n"
          "hint: tn_packed_move_to_outer and the like work on the whole\n");
}

SCENARIO(I_closed) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  (tn_scope_end)(s, at(10));
  (tn_move_to)(tn_relu(input(1)), s, at(11));
  refused("user.c:11: error[E106]: a value is moved to scope 's', which is closed\n"
          "user.c:10: note: scope 's' was closed here\n"
          "hint: move it while the scope is open\n");
}
