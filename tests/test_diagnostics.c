// Diagnostics, one case per id: the exact text of the report, the same from the JSON form, before and after an attempt
// to compile. Each case makes one mistake and goes on with its poisoned result: nothing more may be reported.
#include "ir/text/text.h"
#include "tests/scenario.h"

static tn_program *p;
static tn_function *f;
static const tn_init ones = {TN_INIT_CONSTANT, 1, 0};

// ---- reading the JSON form back as text
// The value of "key" in an object on one line, unescaped; false: it has none.
static bool field(const char *line, const char *key, char *out, size_t size) {
  char name[32];
  snprintf(name, sizeof name, "\"%s\": ", key);
  const char *c = strstr(line, name);
  if (!c) return false;
  c += strlen(name);
  bool quoted = *c == '"';
  size_t n = 0;
  for (c += quoted; n + 1 < size && *c && *c != (quoted ? '"' : ',') && (quoted || *c != '}'); c++) {
    if (quoted && *c == '\\') c++;
    out[n++] = *c;
  }
  out[n] = 0;
  return true;
}

static void append_line(char *text, size_t size, const char *line) {
  char severity[16] = "", id[16] = "", file[64] = "", number[16] = "", said[512] = "";
  field(line, "severity", severity, sizeof severity);
  field(line, "text", said, sizeof said);
  size_t n = strlen(text);
  if (field(line, "file", file, sizeof file) && field(line, "line", number, sizeof number))
    n += (size_t)snprintf(text + n, size - n, "%s:%s: ", file, number);
  n += (size_t)snprintf(text + n, size - n, "%s", severity);
  if (field(line, "id", id, sizeof id)) n += (size_t)snprintf(text + n, size - n, "[%s]", id);
  snprintf(text + n, size - n, ": %s\n", said);
}

static const char *from_json(void) {
  static char text[4096];
  char *json = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&json, &size);
  tn_report_json(p, out);
  fclose(out);
  CHECK(!strncmp(json, "[\n", 2) && !strcmp(json + size - 2, "]\n"));
  text[0] = 0;
  for (char *line = json + 2; *line == ' ';) {
    char *end = strchr(line, '\n');
    *end = 0;
    append_line(text, sizeof text, line);
    line = end + 1;
  }
  free(json);
  return text;
}

// ---- cases
static void start(void) {
  p = tn_program_create("d");
  f = tn_function_begin(p, "run");
}

static bool said(const char *text, int line) {
  return check_text(report_of(p), text, "", __FILE__, line) && check_text(from_json(), text, "", __FILE__, line);
}

// Ends the function, compiles, and compares: a warning or a note lets the program through.
static void judge(const char *text, int line) {
  tn_function_end(f);
  bool refused = strstr(text, "error[") != NULL;
  if (refused) said(text, line);
  tn_model *m = tn_compile(p, .cache_dir = "");
  check_that(!m == refused, __FILE__, line, "an error refuses the program, nothing else does");
  said(text, line);
  tn_model_free(m);
  tn_program_free(p);
}
#define SAYS(text) judge(text, __LINE__)

static tn_tensor input(int line) { return (tn_input)(f, "x", TN_F32, TN_SHAPE(2, 3), at(line)); }
static tn_tensor scalar(int line) { return (tn_full)(f, 1, TN_SCALAR, at(line)); }
static tn_tensor weight(int made, int used) {
  (tn_parameter)(tn_root(p), "w", TN_SHAPE(3), ones, at(made));
  return (tn_param_value)(f, tn_root(p), "w", at(used));
}

// What goes on with a value, however broken: none of it may be reported.
static void go_on(tn_tensor t) {
  tn_tensor x = tn_input(f, "more", TN_F32, TN_SHAPE(3));
  tn_scope *s = tn_scope_begin(f, "more");
  tn_add_(tn_clone(tn_relu(t)), x);
  tn_copy_(t, x);
  tn_fill_(t, 1);
  tn_move_to(tn_scope_attach(s, tn_move_to_outer(t)), s);
  tn_scope_detach(s, t);
  tn_set_requires_grad(tn_detach(t), true);
  tn_scope_dispose_but(s, TN_TENSORS(t));
  tn_scope_end(s);
  tn_packed_dispose(tn_pack_constant(t, ((int64_t[]){1}), 1));
  tn_output(f, "more", t);
  tn_backward(tn_sum(t));
  tn_clip_grad_norm(f, tn_root(p), 1);
  tn_clip_grad_value(f, tn_root(p), 1);
  tn_sgd(f, tn_root(p));
  tn_dispose(t);
}

SCENARIO(E101) {
  start();
  tn_tensor t = scalar(10);
  (tn_dispose)(t, at(11));
  go_on((tn_exp)(t, at(12)));
  SAYS("user.c:12: error[E101]: the result of tn_full (f32[]) is used after it was disposed\n"
       "user.c:10: note: it was made here\n"
       "user.c:11: note: it was disposed here\n"
       "hint: dispose it after its last use: doing so earlier saves no memory\n");
}

SCENARIO(E102) {
  start();
  tn_tensor t = (tn_full)(tn_init_function(p), 1, TN_SHAPE(3), at(10));
  (tn_parameter_adopt)(tn_root(p), "w", t, at(11));
  tn_relu((tn_exp)(t, at(12)));
  SAYS("user.c:12: error[E102]: the result of tn_full (f32[3]) is used after a parameter took it over\n"
       "user.c:10: note: it was made here\n"
       "user.c:11: note: parameter 'w' took it over here\n"
       "hint: tn_as_parameter gives the handle to go on with\n");

  start();  // a parameter made of a parameter
  t = (tn_full)(tn_init_function(p), 1, TN_SHAPE(3), at(10));
  tn_tensor first = (tn_as_parameter)(t, at(11)), second = (tn_as_parameter)(first, at(12));
  (tn_exp)(first, at(13));
  tn_exp(second);
  (tn_parameter_adopt)(tn_root(p), "w", second, at(14));
  (tn_exp)(t, at(15));
  SAYS("user.c:13: error[E102]: the result of tn_as_parameter (f32[3]) is used after a parameter took it over\n"
       "user.c:10: note: it was made here\n"
       "user.c:12: note: a parameter took it over here\n"
       "hint: tn_as_parameter gives the handle to go on with\n"
       "user.c:15: error[E102]: the result of tn_full (f32[3]) is used after a parameter took it over\n"
       "user.c:10: note: it was made here\n"
       "user.c:11: note: parameter 'w' took it over here\n"
       "hint: tn_as_parameter gives the handle to go on with\n");
}

SCENARIO(E103) {
  start();
  weight(1, 2);
  tn_scope *s = (tn_scope_begin)(f, "s", at(9));
  tn_tensor t = scalar(10);
  (tn_scope_end)(s, at(11));
  go_on((tn_exp)(t, at(12)));  // training goes on without its loss, too
  SAYS("user.c:12: error[E103]: the result of tn_full (f32[]) is used after its scope closed\n"
       "user.c:10: note: it was made here, in scope 's'\n"
       "user.c:11: note: scope 's' closed here\n"
       "hint: tn_move_to_outer before tn_scope_end keeps it\n");
}

SCENARIO(E104) {
  start();
  tn_scope *s = (tn_scope_begin)(f, "s", at(10));
  (tn_scope_end)(s, at(11));
  (tn_scope_end)(s, at(12));
  SAYS("user.c:12: error[E104]: scope 's' is closed twice\n"
       "user.c:11: note: it was closed here first\n"
       "hint: one of the two is enough\n");
}

SCENARIO(E105) {
  start();
  tn_scope *s = (tn_scope_begin)(f, "s", at(10));
  (tn_move_to)(scalar(11), s, at(12));
  tn_scope_end(s);
  tn_output(f, "y", scalar(13));
  SAYS("user.c:12: note[E105]: the result of tn_full (f32[]) is owned by scope 's' already\n"
       "user.c:11: note: it was made here, in scope 's'\n"
       "hint: the move does nothing: leave it out\n");
}

SCENARIO(E106) {
  start();
  tn_scope *s = (tn_scope_begin)(f, "s", at(10));
  (tn_scope_end)(s, at(11));
  go_on((tn_move_to)(scalar(12), s, at(13)));
  SAYS("user.c:13: error[E106]: a value is moved to scope 's', which is closed\n"
       "user.c:11: note: scope 's' was closed here\n"
       "hint: move it while the scope is open\n");
}

SCENARIO(E107) {
  start();
  tn_tensor t = scalar(10);
  tn_scope *s = (tn_scope_begin)(f, "s", at(11));
  tn_tensor own = scalar(12);
  (tn_scope_dispose_but)(s, (tn_tensor[]){own, t, own, t}, 4, at(13));
  CHECK(tn_is_alive(own) && tn_is_alive(t) && tn_scope_count(s) == 1);
  tn_scope_end(s);
  SAYS("user.c:13: error[E107]: the result of tn_full (f32[]) is kept, but scope 's' does not own it\n"
       "user.c:10: note: it was made here\n"
       "hint: leave it out of the list: the scope does not dispose what it does not own\n");
}

SCENARIO(W108) {
  start();
  tn_scope *s = (tn_scope_begin)(f, "s", at(10));
  (tn_detach_from_scope)((tn_relu)(input(11), at(12)), at(13));
  tn_scope_end(s);
  tn_output(f, "y", scalar(14));
  SAYS("user.c:13: warning[W108]: the result of tn_relu (f32[2,3]) is detached from its scope and never disposed: it "
       "holds 24 bytes in each "
       "run of 'run'\n"
       "user.c:12: note: it was made here, in scope 's'\n"
       "hint: tn_dispose after its last use, or leave it to its scope\n");
}

SCENARIO(E109) {
  start();
  tn_function *init = tn_init_function(p);
  tn_scope *s = (tn_scope_begin)(init, "s", at(10));
  (tn_register)(tn_root(p), "w", tn_as_parameter((tn_full)(init, 1, TN_SCALAR, at(11))), at(12));
  tn_scope_end(s);
  SAYS("user.c:12: error[E109]: parameter 'w' is owned by scope 's', which ends before its module\n"
       "user.c:11: note: it was made here, in scope 's'\n"
       "user.c:10: note: scope 's' was opened here\n"
       "hint: tn_detach_from_scope before, or tn_parameter_adopt, gives it to the module alone\n");
}

SCENARIO(E110) {
  start();
  (tn_linear)(tn_root(p), "fc", 3, 3, (tn_linear_options){.at = at(10)});
  tn_module *fc = (tn_linear)(tn_root(p), "fc", 3, 3, (tn_linear_options){.at = at(11)});
  tn_freeze(fc, true);
  tn_group(fc, 1, "weight");
  tn_param_value(f, fc, "weight");
  go_on(tn_call(fc, input(12)));
  SAYS("user.c:11: error[E110]: module 'fc' exists already\n"
       "user.c:10: note: the first 'fc' was made here\n"
       "hint: another name is free; tn_share and tn_share_module give one thing two\n");
}

SCENARIO(E111) {
  start();
  (tn_param_at_path)(tn_root(p), "a/w", TN_SHAPE(2), ones, at(10));
  (tn_param_at_path)(tn_root(p), "a.w", TN_SHAPE(3), ones, at(11));
  SAYS("user.c:11: error[E111]: entry 'a.w' is asked for with shape [3] and has shape [2]\n"
       "user.c:10: note: 'a.w' was made here\n"
       "hint: another shape needs another path\n");
}

SCENARIO(E112) {
  start();
  tn_tensor w = weight(10, 11), a = (tn_exp)(w, at(12)), b = (tn_mul)(a, a, at(13)), c = (tn_mul)(a, b, at(14));
  (tn_add_)(a, w, at(15));
  (tn_mul_)(a, w, at(16));
  tn_backward(tn_sum(tn_add(b, c)));
  tn_output(f, "a", a);
  tn_function_end(f);
  CHECK(!tn_compile(p));
  said("user.c:15: error[E112]: the result of tn_exp is overwritten in place here, but a backward needs its old value\n"
       "user.c:12: note: it was made here\n"
       "user.c:14: note: the gradient of tn_mul reads it\n"
       "hint: write to tn_clone(..) instead, or compile with copy_saved\n",
       __LINE__);
  tn_program_free(p);
}

SCENARIO(E113) {
  start();
  tn_tensor w = weight(10, 11);
  go_on((tn_copy_)((tn_slice)(w, 0, 1, 2, at(12)), tn_scalar(f, 2), at(13)));
  SAYS("user.c:13: error[E113]: parameter 'w' is written in place by tn_copy_ outside a no-grad region\n"
       "user.c:10: note: 'w' was made here\n"
       "hint: write it between tn_no_grad_begin and tn_no_grad_end\n");
}

static void pack(int64_t a, int64_t b, uint32_t n, bool sorted) {
  start();
  const int64_t lengths[3] = {a, b, 1};
  const tn_pack_options o = {.enforce_sorted = sorted, .at = at(11)};
  tn_packed s = (tn_pack_constant)(input(10), lengths, n, o);
  go_on(tn_pad_packed(tn_packed_zip("add", tn_packed_map("exp", s), s), 0, true));
  tn_packed_dispose(s);
}

SCENARIO(E114) {
  pack(2, 3, 2, true);
  SAYS("user.c:11: error[E114]: length 3 at index 1 is longer than the one before it, and sorting is enforced\n"
       "user.c:10: note: the value to pack is input 'x', f32[2,3], made here\n"
       "hint: enforce_sorted = false sorts while packing, and gives results in the order of the input\n");
}

SCENARIO(E115) {
  pack(3, 0, 2, false);
  SAYS("user.c:11: error[E115]: length 0 at index 1 is not in [1, 3]\n"
       "user.c:10: note: the value to pack is input 'x', f32[2,3], made here\n"
       "hint: leave empty sequences out of the batch, or set allow_empty\n");
  pack(4, 2, 2, false);
  SAYS("user.c:11: error[E115]: length 4 at index 0 is not in [1, 3]\n"
       "user.c:10: note: the value to pack is input 'x', f32[2,3], made here\n"
       "hint: a length counts the steps of one sequence\n");
}

SCENARIO(E116) {
  pack(3, 2, 3, false);
  SAYS("user.c:11: error[E116]: 3 constant lengths are given for a batch of 2\n"
       "user.c:10: note: the value to pack is input 'x', f32[2,3], made here\n"
       "hint: one length for each sequence\n");
  start();
  tn_tensor x = input(10), lengths = (tn_input)(f, "lengths", TN_I64, TN_SHAPE(3), at(11));
  go_on(tn_pad_packed((tn_pack_padded)(x, lengths, (tn_pack_options){.at = at(12)}), 0, true));
  SAYS("user.c:12: error[E116]: the number of lengths is not the batch of the packed value\n"
       "user.c:11: note: the list of lengths is input 'lengths', i64[3], made here\n"
       "user.c:10: note: the value to pack is input 'x', f32[2,3], made here\n"
       "hint: one length for each sequence: both axes are the same tn_dim\n");
}

// What a .tir file with these lines in its function is told.
static void parse(const char *lines, const char *text, int line) {
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  char *source = rt_printf(mem, "program @p\nfunc @f(%%x: f32[2,3]) {\n%s}\n", lines), *out = NULL;
  size_t size = 0;
  CHECK(!ir_parse(mem, source, strlen(source), "a.tir", &diags));
  FILE *stream = open_memstream(&out, &size);
  rt_diags_print(&diags, stream);
  fclose(stream);
  check_text(out, text, "", __FILE__, line);
  free(out);
  rt_arena_free(mem);
}
#define TIR_SAYS(lines, text) parse(lines, text, __LINE__)

SCENARIO(E117) {
  TIR_SAYS("  %L = packed_layout {time=3, rows=5, lengths=[3,2]} : layout[2,3,5]\n"
           "  %d = pack_padded %x, %L\n"
           "  %y = unpack_padded %d, %L {size=2}\n",
           "a.tir:5:8: error[E117]: unpack_padded: a total length of 2 is below the longest sequence, which may have 3 "
           "steps\n"
           "    %y = unpack_padded %d, %L {size=2}\n"
           "         ^\n");
}

SCENARIO(lengths_in_text) {
  TIR_SAYS("  %L = packed_layout {time=3, rows=5, lengths=[3,0]} : layout[2,3,5]\n",
           "a.tir:3:8: error[E115]: packed_layout: length 0 at index 1 is not in [1, 3]\n"
           "    %L = packed_layout {time=3, rows=5, lengths=[3,0]} : layout[2,3,5]\n"
           "         ^\n");
  TIR_SAYS(
      "  %L = packed_layout {time=3, rows=3, lengths=[3]} : layout[1,3,3]\n"
      "  %d = pack_padded %x, %L\n",
      "a.tir:4:8: error[E116]: pack_padded: the number of lengths is not the batch of the packed value; operands are "
      "f32[2,3] and layout[1,3,3]\n"
      "    %d = pack_padded %x, %L\n"
      "         ^\n");
}

SCENARIO(E120) {
  start();
  tn_tensor w = weight(10, 11), a = (tn_exp)(w, at(12));
  tn_tensor g = (tn_grad)(tn_sum(tn_mul((tn_detach)(a, at(13)), w)), a, at(14));
  tn_output(f, "g", tn_relu(g));
  SAYS("user.c:14: error[E120]: no gradient flows from the loss to this value\n"
       "user.c:12: note: the value was made here\n"
       "hint: tn_detach, tn_stop_grad and no-grad regions cut gradients, and so do integers and comparisons\n");
  start();
  (tn_set_requires_grad)((tn_exp)(input(10), at(11)), true, at(12));
  SAYS("user.c:12: error[E120]: requires_grad belongs to inputs and parameters: this value is computed\n"
       "user.c:11: note: it was made here by tn_exp\n"
       "hint: tn_grad(loss, t) gives the gradient of any value\n");
}

SCENARIO(E121) {
  start();
  tn_backward(tn_sum(weight(10, 11)));
  (tn_sgd)(f, tn_root(p), (tn_sgd_options){.at = at(12)});
  (tn_adam)(f, tn_root(p), (tn_adamw_options){.at = at(13)});
  SAYS("user.c:13: error[E121]: parameter 'w' is updated twice in function 'run'\n"
       "user.c:12: note: it was updated here first\n"
       "hint: two optimizers in one function train modules that have no parameter in common\n");
}

#define NO_PATH "hint: frozen, detached and unused parameters, and those used in a no-grad region, get no gradient\n"

SCENARIO(E122) {
  start();
  weight(10, 11);
  (tn_backward)((tn_sum)(input(12), at(13)), at(14));
  tn_clip_grad_norm(f, tn_root(p), 1);
  tn_clip_grad_value(f, tn_root(p), 1);
  tn_sgd(f, tn_root(p));
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  SAYS("user.c:14: error[E122]: the loss depends on no trainable parameter\n"
       "user.c:13: note: the loss was made here\n" NO_PATH);

  start();
  tn_module *other = tn_module_new(tn_root(p), "other");
  (tn_parameter)(other, "v", TN_SHAPE(3), ones, at(9));
  (tn_backward)(tn_sum(weight(10, 11)), at(12));
  (tn_param_grad)(f, other, "v", at(13));
  (tn_sgd)(f, other, (tn_sgd_options){.at = at(14)});
  SAYS("user.c:13: error[E122]: parameter 'other.v' has no gradient in function 'run'\n"
       "user.c:9: note: 'other.v' was made here\n"
       "user.c:12: note: the loss of this tn_backward does not depend on it\n" NO_PATH
       "user.c:14: error[E122]: no parameter below module 'other' has a gradient\n"
       "user.c:12: note: the loss of this tn_backward does not depend on any of them\n" NO_PATH);

  start();
  weight(10, 11);
  (tn_clip_grad_norm)(f, tn_root(p), 1, at(12));
  tn_adam(f, tn_root(p));
  SAYS("user.c:12: error[E122]: no parameter below the root module has a gradient\n"
       "hint: tn_backward(loss) comes first\n");
}

SCENARIO(E123) {
  start();
  tn_scope *o = (tn_scope_begin)(f, "o", at(10));
  tn_tensor t = scalar(11);
  tn_scope *i = (tn_scope_begin)(f, "i", at(12));
  (tn_scope_detach)(i, t, at(13));
  tn_scope_end(i);
  tn_scope_end(o);
  SAYS("user.c:13: error[E123]: scope 'i' does not own the result of tn_full (f32[]): scope 'o' does\n"
       "user.c:11: note: it was made here, in scope 'o'\n"
       "hint: the calls that name no scope find the owner themselves\n");
}

SCENARIO(W124) {
  start();
  tn_tensor x = input(10);
  (tn_relu_)(x, at(11));
  tn_exp_(x);  // said once for each input
  tn_output(f, "y", x);
  SAYS("user.c:11: warning[W124]: input 'x' is modified by tn_relu_: handles of it show the new content, the caller's "
       "memory keeps the old\n"
       "user.c:10: note: input 'x' was made here\n"
       "hint: tn_clone(x) leaves it as it is\n");
}

SCENARIO(W131) {
  start();
  tn_tensor w = weight(9, 10), h = (tn_mul)(w, w, at(11)), other = tn_exp(w), rounded = tn_round(w);
  tn_no_grad_begin(f);
  (tn_clamp_)(h, 0, 1, at(12));
  (tn_clamp_)(rounded, 0, 1, at(12));  // whose gradient is 0
  (tn_clamp_)(other, 0, 1, at(13));    // no loss reads it
  tn_no_grad_end(f);
  (tn_backward)(tn_sum(tn_mul(tn_mul(h, rounded), w)), at(14));
  tn_no_grad_begin(f);
  tn_mul_(tn_param_grad(f, tn_root(p), "w"), tn_scalar(f, 2));  // nor this
  tn_no_grad_end(f);
  tn_sgd(f, tn_root(p));
  (tn_function_end)(f, at(20));
  tn_model *m = (tn_compile)(p, (tn_compile_options){.cache_dir = "", .quiet = true, .at = at(21)});
  CHECK(m != NULL);
  CHECK_REPORT(
      p, "user.c:12: warning[W131]: a computed value is written in a no-grad region: the gradient of 'w' does not "
         "pass what is written\n"
         "user.c:11: note: it was made here\n"
         "user.c:14: note: the gradient is taken here\n"
         "hint: outside of the region the gradient flows to what is written; tn_detach(..) of that ends it\n");
  tn_model_free(m);
  tn_program_free(p);
}

// Reports that differ in numbers alone are one, which names the others.
SCENARIO(names_of_repetitions) {
  start();
  weight(9, 10);
  static const char *const name[] = {"lost1", "lost2", "lost3"};
  for (int k = 0; k < 3; k++) (tn_parameter)(tn_root(p), name[k], TN_SHAPE(2), ones, at(11));
  (tn_backward)(tn_sum(tn_param_value(f, tn_root(p), "w")), at(12));
  for (int k = 0; k < 3; k++) (tn_param_grad)(f, tn_root(p), name[k], at(13));
  CHECK_HAS(report_of(p), "user.c:13: error[E122] (x 3): parameter 'lost1' has no gradient in function 'run'; likewise "
                          "'lost2', 'lost3'\n");
  tn_program_free(p);
}
