// What a beginner's mistakes are told, word by word: the call, the module, where each operand was made, what would fit.
#include "tests/ledger.h"

#include <sys/mman.h>
#include <unistd.h>

static tn_program *p;
static tn_module *net;
static tn_function *f;
static tn_tensor x;  // f32[4,8], line 1

static void start(void) {
  p = tn_program_create("m");
  net = tn_root(p);
  f = tn_function_begin(p, "step");
  x = (tn_input)(f, "x", TN_F32, TN_SHAPE(4, 8), at(1));
}

static void said(const char *text, int line) {
  check_text(report_of(p), text, "", __FILE__, line);
  tn_program_free(p);
}
#define SAYS(text) said(text, __LINE__)

static tn_module *linear(tn_module *m, const char *name, int64_t in, int64_t out, int line) {
  return (tn_linear)(m, name, in, out, (tn_linear_options){.at = at(line)});
}

// ---- shapes
SCENARIO(M_linear) {
  start();
  tn_module *head = linear((tn_module_new)(net, "h", at(1)), "head", 16, 3, 2);
  (tn_call)(head, x, at(3));
  SAYS("user.c:3: error[E004]: tn_call of module 'h.head': the last size of x differs from the weight's second; "
       "operands are f32[4,8], f32[3,16] and f32[3]\n"
       "user.c:1: note: x is input 'x', f32[4,8], made here\n"
       "user.c:2: note: weight is parameter 'h.head.weight', f32[3,16], made here\n"
       "user.c:2: note: bias is parameter 'h.head.bias', f32[3], made here\n"
       "hint: x of shape [4,16] would fit\n");
}

SCENARIO(M_matmul) {
  start();
  tn_tensor w = (tn_zeros)(f, TN_SHAPE(4, 5), at(2));
  (tn_matmul)(x, w, at(3));
  SAYS("user.c:3: error[E004]: tn_matmul: inner sizes differ; operands are f32[4,8] and f32[4,5]\n"
       "user.c:1: note: a is input 'x', f32[4,8], made here\n"
       "user.c:2: note: b is f32[4,5], made here\n"
       "hint: b of shape [8,5] would fit, or a of shape [4,4]\n");
}

SCENARIO(M_labels) {
  start();
  (tn_cross_entropy)(x, (tn_input)(f, "label", TN_I64, TN_SHAPE(5), at(2)), (tn_loss_options){.at = at(3)});
  (tn_cross_entropy)(x, (tn_input)(f, "fl", TN_F32, TN_SHAPE(4), at(4)), (tn_loss_options){.at = at(5)});
  SAYS("user.c:3: error[E004]: tn_cross_entropy: labels must have the shape of the logits without the last axis; "
       "operands "
       "are f32[4,8] and i64[5]\n"
       "user.c:1: note: logits is input 'x', f32[4,8], made here\n"
       "user.c:2: note: labels is input 'label', i64[5], made here\n"
       "hint: labels of shape [4] would fit\n"
       "user.c:5: error[E005]: tn_cross_entropy: labels must be i64; operands are f32[4,8] and f32[4]\n"
       "user.c:1: note: logits is input 'x', f32[4,8], made here\n"
       "user.c:4: note: labels is input 'fl', f32[4], made here\n"
       "hint: tn_cast(labels, TN_I64) makes it i64\n");
}

SCENARIO(M_composed) {
  start();
  (tn_mse)(x, (tn_ones)(f, TN_SHAPE(4, 7), at(2)), (tn_reduce_options){.at = at(3)});
  (tn_mean)((tn_argmax_axis)(x, 1, false, at(4)), at(5));
  (tn_reshape)(x, TN_SHAPE(5, 5), at(6));
  (tn_argmax_axis)((tn_zeros)(f, TN_SHAPE(3, 0), at(7)), 1, false, at(8));
  SAYS("user.c:3: error[E004]: tn_mse: shapes do not broadcast; operands are f32[4,8] and f32[4,7]\n"
       "user.c:1: note: a is input 'x', f32[4,8], made here\n"
       "user.c:2: note: b is f32[4,7], made here\n"
       "hint: counted from the last axis, sizes are equal or 1\n"
       "user.c:5: error[E005]: tn_mean: x must be f32; the operand is i64[4]\n"
       "user.c:4: note: x is i64[4], made here\n"
       "hint: tn_cast(x, TN_F32) makes it f32\n"
       "user.c:6: error[E004]: tn_reshape: another number of elements than [5,5]; the operand is f32[4,8]\n"
       "user.c:1: note: x is input 'x', f32[4,8], made here\n"
       "hint: the product of the sizes stays: 32 elements are to become 25\n"
       "user.c:8: error[E004]: tn_argmax_axis: the axis is empty: there is no largest element; the operand is "
       "f32[3,0]\n"
       "user.c:7: note: x is f32[3,0], made here\n");
}

// What a hook builds is the user's own call, in no module.
static tn_tensor too_wide(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return (tn_add)(out, x, at(9));
}

SCENARIO(M_hook) {
  start();
  tn_module *fc = linear(net, "fc", 8, 3, 2);
  tn_hook_post(fc, too_wide, NULL);
  (tn_call)(fc, x, at(3));
  SAYS("user.c:9: error[E004]: tn_add: shapes do not broadcast; operands are f32[4,3] and f32[4,8]\n"
       "user.c:3: note: a is f32[4,3], made here\n"
       "user.c:1: note: b is input 'x', f32[4,8], made here\n"
       "hint: counted from the last axis, sizes are equal or 1\n");
}

SCENARIO(M_foreign) {
  start();
  tn_function *g = tn_function_begin(p, "other");
  tn_tensor y = (tn_input)(g, "y", TN_F32, TN_SHAPE(8), at(2));
  (tn_add)(x, y, at(3));
  tn_program *q = tn_program_create("q");
  (tn_call)((tn_linear)(tn_root(q), "fc", 8, 3, (tn_linear_options){.at = at(4)}), x, at(5));
  check_text(report_of(p),
             "user.c:3: error[E008]: tn_add: a value of function 'other' is mixed with one of function 'step'\n"
             "user.c:2: note: input 'y', f32[8] of function 'other' was made here\n"
             "user.c:1: note: input 'x', f32[4,8] of function 'step' was made here\n"
             "hint: functions share parameters alone: what one makes, another takes as an input\n"
             "user.c:5: error[E008]: a module of another program is called\n"
             "user.c:4: note: module 'fc' of program 'q' was made here\n",
             "", __FILE__, __LINE__);
  tn_program_free(q);
  tn_program_free(p);
}

SCENARIO(M_loop) {
  start();
  for (int k = 0; k < 100; k++) (tn_add)((tn_relu)(x, at(2)), (tn_ones)(f, TN_SHAPE(5), at(3)), at(4));
  CHECK(tn_n_errors(p) == 100);
  SAYS("user.c:4: error[E004] (x 100): tn_add: shapes do not broadcast; operands are f32[4,8] and f32[5]\n"
       "user.c:2: note: a is f32[4,8], made here\n"
       "user.c:3: note: b is f32[5], made here\n"
       "hint: counted from the last axis, sizes are equal or 1\n");
}

// ---- silence
SCENARIO(M_untrained) {
  start();
  tn_module *enc = linear(net, "enc", 8, 8, 2), *head = linear(net, "head", 8, 3, 3);
  linear(net, "spare", 8, 3, 4);
  tn_freeze(linear(net, "frozen", 8, 3, 5), true);
  tn_tensor h = (tn_detach)((tn_call)(enc, x, at(6)), at(7));
  (tn_backward)((tn_sum)((tn_call)(head, h, at(8)), at(8)), at(9));
  (tn_sgd)(f, net, (tn_sgd_options){.at = at(10)});
  SAYS("user.c:10: warning[W126]: 4 of 6 parameters below the root module are not trained here: 'enc.weight' (cut off "
       "from the "
       "loss), 'enc.bias' (cut off from the loss), 'spare.weight' (not used in 'step'), 'spare.bias' (not used in "
       "'step')\n"
       "user.c:7: note: no gradient flows through this tn_detach to 'enc.weight', 'enc.bias'\n"
       "hint: tn_freeze says that a parameter shall stay as it is; require_gradients makes this an error\n");
  start();
  linear(net, "spare", 8, 3, 2);
  (tn_backward)((tn_sum)((tn_call)(linear(net, "head", 8, 3, 3), x, at(4)), at(4)), at(5));
  (tn_adamw)(f, net, (tn_adamw_options){.require_gradients = true, .at = at(6)});
  SAYS("user.c:6: error[E122]: 2 of 4 parameters below the root module are not trained here: 'spare.weight' (not used "
       "in "
       "'step'), 'spare.bias' (not used in 'step')\n"
       "hint: tn_freeze says that a parameter shall stay as it is; require_gradients makes this an error\n");
}

static void compiles(bool good) {
  (tn_function_end)(f, at(90));
  tn_model *m = (tn_compile)(p, (tn_compile_options){.cache_dir = "", .n_workers = 1, .quiet = true, .at = at(91)});
  CHECK((m != NULL) == good);
  tn_model_free(m);
}

// Another optimizer updates what this one does not reach: a note
SCENARIO(M_trained_elsewhere) {
  start();
  tn_module *enc = linear(net, "enc", 8, 8, 2), *head = linear(net, "head", 8, 3, 3);
  (tn_backward)((tn_sum)((tn_call)(head, x, at(4)), at(4)), at(5));
  (tn_sgd)(f, net, (tn_sgd_options){.at = at(6)});
  (tn_function_end)(f, at(7));
  f = (tn_function_begin)(p, "other", at(8));
  tn_tensor y = (tn_input)(f, "x", TN_F32, TN_SHAPE(4, 8), at(9));
  (tn_backward)((tn_sum)((tn_call)(enc, y, at(10)), at(10)), at(11));
  (tn_sgd)(f, enc, (tn_sgd_options){.at = at(12)});
  compiles(true);
  SAYS("user.c:6: note[E126]: 2 of 4 parameters below the root module are not trained here: 'enc.weight' (not used in "
       "'step'), 'enc.bias' (not used in 'step')\n"
       "hint: tn_freeze says that a parameter shall stay as it is; require_gradients makes this an error\n");
}

SCENARIO(M_late_freeze) {
  start();
  tn_module *enc = linear(net, "enc", 8, 8, 2), *head = linear(net, "head", 8, 3, 3);
  (tn_backward)((tn_sum)((tn_call)(head, (tn_call)(enc, x, at(4)), at(5)), at(6)), at(7));
  (tn_sgd)(f, net, (tn_sgd_options){.at = at(8)});
  (tn_freeze)(enc, true, at(9));
  (tn_freeze_path)(net, "head/bias", true, at(10));
  compiles(true);
  SAYS("user.c:9: warning[W132]: tn_freeze of module 'enc' comes too late: function 'step' trains 'enc.weight'\n"
       "user.c:4: note: the function took it as trainable here\n"
       "hint: tn_freeze stands before the first use of the parameters in the function\n"
       "user.c:10: warning[W132]: tn_freeze of the root module comes too late: function 'step' trains 'head.bias'\n"
       "user.c:5: note: the function took it as trainable here\n"
       "hint: tn_freeze stands before the first use of the parameters in the function\n");
}

// A function that is built afterwards takes it as frozen: the one that was being built does not.
SCENARIO(M_late_freeze_before_another) {
  start();
  tn_module *enc = linear(net, "enc", 8, 8, 2);
  (tn_backward)((tn_sum)((tn_call)(enc, x, at(3)), at(3)), at(4));
  (tn_freeze)(enc, true, at(5));
  (tn_sgd)(f, net, (tn_sgd_options){.at = at(6)});
  (tn_function_end)(f, at(7));
  f = (tn_function_begin)(p, "predict", at(8));
  (tn_output)(f, "y", (tn_call)(enc, (tn_input)(f, "x", TN_F32, TN_SHAPE(4, 8), at(9)), at(9)), at(10));
  compiles(true);
  SAYS("user.c:5: warning[W132]: tn_freeze of module 'enc' comes too late: function 'step' trains 'enc.weight'\n"
       "user.c:3: note: the function took it as trainable here\n"
       "hint: tn_freeze stands before the first use of the parameters in the function\n");
}

// For the functions that come, undone, and where nothing trains: nothing to say
SCENARIO(M_freeze_in_time) {
  start();
  tn_module *enc = linear(net, "enc", 8, 8, 2);
  (tn_backward)((tn_sum)((tn_call)(enc, x, at(3)), at(3)), at(4));
  (tn_sgd)(f, net, (tn_sgd_options){.at = at(5)});
  (tn_function_end)(f, at(6));
  (tn_freeze)(enc, true, at(7));
  f = (tn_function_begin)(p, "predict", at(8));
  (tn_output)(f, "y", (tn_call)(enc, (tn_input)(f, "x", TN_F32, TN_SHAPE(4, 8), at(9)), at(9)), at(10));
  (tn_freeze)(enc, true, at(11));
  (tn_freeze)(enc, false, at(12));
  compiles(true);
  SAYS("");
}

SCENARIO(M_late_eval) {
  start();
  (tn_output)(f, "y", (tn_dropout)(x, 0.5, at(2)), at(3));
  (tn_eval)(f, true, at(4));
  compiles(true);
  SAYS("user.c:4: warning[W132]: tn_eval of function 'step' comes too late: what it acts on was built\n"
       "user.c:2: note: this was built for training\n"
       "hint: tn_eval stands before what it acts on: dropout, and norms with running statistics\n");
  start();
  tn_tensor y = (tn_dropout)(x, 0.5, at(2));
  (tn_eval)(f, true, at(3));
  (tn_output)(f, "y", (tn_add)(y, (tn_dropout)(x, 0.5, at(4)), at(5)), at(6));
  (tn_eval)(f, false, at(7)), (tn_eval)(f, true, at(8)), (tn_eval)(f, false, at(9));
  compiles(true);
  SAYS("");
}

SCENARIO(M_schedule_without_effect) {
  start();
  tn_schedule *s[4];
  static const char *const name[] = {"lost", "still", "a", "b"};
  for (int k = 0; k < 4; k++) s[k] = (tn_step_lr)(p, name[k], (tn_step_lr_options){.step_size = 2, .at = at(2 + k)});
  tn_schedule *both = (tn_sequential_lr)(p, "both", s[2], s[3], 4, at(6));
  (tn_backward)((tn_sum)((tn_call)(linear(net, "fc", 8, 3, 7), x, at(7)), at(7)), at(8));
  (tn_sgd)(f, net, (tn_sgd_options){.lr = 1, .schedule = s[1], .at = at(9)});
  (tn_schedule_step)(f, s[0], at(10)), (tn_schedule_step)(f, both, at(11));
  compiles(true);
  SAYS("user.c:2: warning[W133]: schedule 'lost' has no effect: no optimizer has it\n"
       "hint: .schedule of an optimizer takes it\n"
       "user.c:3: warning[W133]: schedule 'still' has no effect: no function advances it, and the rate stays that of "
       "the "
       "first step\n"
       "hint: tn_schedule_step advances it\n"
       "user.c:6: warning[W133]: schedule 'both' has no effect: no optimizer has it\n"
       "hint: .schedule of an optimizer takes it\n");
}

SCENARIO(M_loss_broadcasts) {
  start();
  tn_tensor y = (tn_slice)(x, 1, 0, 1, at(2)), t = (tn_input)(f, "t", TN_F32, TN_SHAPE(4), at(3));
  (tn_output)(f, "a", (tn_mse)(y, t, (tn_reduce_options){.at = at(4)}), at(5));
  (tn_output)(f, "b", (tn_l1_loss)(t, x = (tn_slice)(x, 1, 0, 4, at(6)), (tn_reduce_options){.at = at(7)}), at(8));
  (tn_output)(f, "c", (tn_bce)((tn_sigmoid)(y, at(9)), t, (tn_bce_options){.at = at(10)}), at(11));
  (tn_output)(f, "d", (tn_huber)(x, (tn_ones)(f, TN_SCALAR, at(12)), 1, (tn_reduce_options){.at = at(12)}), at(12));
  compiles(true);
  SAYS("user.c:4: warning[W135]: tn_mse of f32[4,1] and f32[4] compares each element of one with several of the other\n"
       "user.c:2: note: one is f32[4,1], made here\n"
       "user.c:3: note: the other is input 't', f32[4], made here\n"
       "hint: tn_reshape or tn_squeeze gives both one shape\n"
       "user.c:10: warning[W135]: tn_bce of f32[4,1] and f32[4] compares each element of one with several of the "
       "other\n"
       "user.c:9: note: one is f32[4,1], made here\n"
       "user.c:3: note: the other is input 't', f32[4], made here\n"
       "hint: tn_reshape or tn_squeeze gives both one shape\n");
}

SCENARIO(M_no_result) {
  p = tn_program_create("m");
  f = (tn_function_begin)(p, "step", at(1));
  (tn_relu)((tn_ones)(f, TN_SHAPE(4), at(2)), at(3));
  compiles(true);
  SAYS("user.c:1: warning[W136]: function 'step' has no outputs and changes no state: a run of it does nothing\n"
       "hint: tn_output hands a value to the caller; an optimizer or a write changes parameters\n");
}

// ---- what passes find names calls and lines
SCENARIO(M_saved_is_written) {
  start();
  tn_module *fc = linear(net, "fc", 8, 8, 2);
  tn_tensor h = (tn_call)(fc, x, at(3)), s = (tn_sigmoid)(h, at(4)), z = (tn_mul)(s, s, at(5));
  (tn_mul_)(s, z, at(6));
  (tn_backward)((tn_mean)(z, at(7)), at(8));
  (tn_sgd)(f, fc, (tn_sgd_options){.at = at(9)});
  compiles(false);
  SAYS("user.c:6: error[E112]: the result of tn_sigmoid is overwritten in place here, but a backward needs its old "
       "value\n"
       "user.c:4: note: it was made here\n"
       "user.c:5: note: the gradient of tn_mul reads it\n"
       "hint: write to tn_clone(..) instead, or compile with copy_saved\n");
}

SCENARIO(M_cut_by_argmax) {
  start();
  tn_module *fc = linear(net, "fc", 8, 3, 2);
  tn_tensor best = (tn_argmax_axis)((tn_call)(fc, x, at(3)), 1, false, at(4));
  (tn_backward)((tn_mean)((tn_cast)(best, TN_F32, at(5)), at(6)), at(7));
  SAYS("user.c:7: error[E122]: the loss depends on no trainable parameter\n"
       "user.c:6: note: the loss was made here\n"
       "user.c:4: note: no gradient flows through this tn_argmax_axis to 'fc.weight', 'fc.bias'\n"
       "hint: frozen, detached and unused parameters, and those used in a no-grad region, get no gradient\n");
  start();
  fc = linear(net, "fc", 8, 3, 2);
  tn_tensor y = (tn_call)(fc, x, at(3));
  (tn_backward)((tn_mean)((tn_cast)((tn_gt)(y, (tn_neg)(y, at(3)), at(4)), TN_F32, at(5)), at(5)), at(6));
  SAYS("user.c:6: error[E122]: the loss depends on no trainable parameter\n"
       "user.c:5: note: the loss was made here\n"
       "user.c:4: note: no gradient flows through this tn_gt to 'fc.weight', 'fc.bias'\n"
       "hint: frozen, detached and unused parameters, and those used in a no-grad region, get no gradient\n");
  start();
  fc = linear(net, "fc", 8, 3, 2);
  (tn_freeze)(fc, true, at(3));
  (tn_backward)((tn_mean)((tn_call)(fc, x, at(4)), at(5)), at(6));
  SAYS("user.c:6: error[E122]: the loss depends on no trainable parameter\n"
       "user.c:5: note: the loss was made here\n"
       "user.c:3: note: 'fc.weight' was frozen here\n"
       "hint: frozen, detached and unused parameters, and those used in a no-grad region, get no gradient\n");
}

SCENARIO(M_value_of_ended_function) {
  start();
  tn_tensor h = (tn_relu)(x, at(2));
  (tn_output)(f, "h", h, at(3));
  (tn_function_end)(f, at(4));
  f = (tn_function_begin)(p, "other", at(5));
  (tn_exp)(h, at(6));
  (tn_mul)(h, (tn_ones)(f, TN_SCALAR, at(7)), at(8));
  SAYS("user.c:6: error[E008]: tn_exp: a value of function 'step', which was ended, is used while function 'other' is "
       "built\n"
       "user.c:2: note: the value is f32[4,8], made here\n"
       "hint: functions share parameters alone: what one makes, another takes as an input\n"
       "user.c:8: error[E008]: tn_mul: a value of function 'step', which was ended, is used while function 'other' is "
       "built\n"
       "user.c:2: note: the value is f32[4,8], made here\n"
       "hint: functions share parameters alone: what one makes, another takes as an input\n");
}

SCENARIO(M_huge_parameter) {
  start();
  (tn_output)(f, "y", (tn_call)(linear(net, "fc", 8, 8, 2), x, at(3)), at(3));
  tn_module *l = linear(net, "large", 1 << 20, 1 << 20, 4);
  (tn_output)(f, "z", (tn_call)(l, (tn_ones)(f, TN_SHAPE(1, 1 << 20), at(5)), at(6)), at(7));
  compiles(false);
  SAYS("user.c:4: error[E006]: parameters need 4.0 TiB; the limit is 4 TiB: the largest is 'large.weight', "
       "f32[1048576,1048576], 4 TiB\n");
}

SCENARIO(M_late_clip) {
  start();
  (tn_backward)((tn_sum)((tn_call)(linear(net, "fc", 8, 3, 2), x, at(3)), at(3)), at(4));
  (tn_sgd)(f, net, (tn_sgd_options){.at = at(5)});
  (tn_clip_grad_value)(f, net, 1, at(6));
  SAYS("user.c:6: warning[W127]: tn_clip_grad_value clips the gradient of 'fc.weight' after an optimizer used it: the "
       "update is not clipped\n"
       "user.c:5: note: the optimizer was built here\n"
       "hint: clip between tn_backward and the optimizer\n");
}

SCENARIO(M_empty_group) {
  start();
  linear(net, "fc", 8, 3, 2);
  (tn_group)(net, 1, "", (tn_group_options){.lr = 1, .at = at(3)});
  (tn_group)(net, 1, "fc/wieght", (tn_group_options){.lr = 1, .at = at(4)});
  SAYS(
      "user.c:3: error[E003]: the pattern of group 1 is empty: it does not say which parameters below the root module\n"
      "hint: \"**\" takes all of them, \"**/bias\" those named bias\n"
      "user.c:4: error[E003]: no parameter below the root module matches 'fc/wieght'; did you mean 'fc.weight'?\n");
}

SCENARIO(M_environment) {
  start();
  tn_output(f, "y", x);
  tn_function_end(f);
  setenv("TN_GEMM", "blsa", 1), setenv("TN_TEAM", "fixed,pinn", 1), setenv("TN_DUMP", "fuze", 1);
  tn_model *m = (tn_compile)(p, (tn_compile_options){.cache_dir = "", .n_workers = 1, .at = at(9)});
  unsetenv("TN_GEMM"), unsetenv("TN_TEAM"), unsetenv("TN_DUMP");
  CHECK(m != NULL);
  tn_model_free(m);
  SAYS("user.c:9: warning[W128]: TN_GEMM has the value 'blsa', which means nothing; did you mean 'blas'?\n"
       "hint: accepted: own,blas,auto\n"
       "user.c:9: warning[W128]: TN_TEAM has the value 'pinn', which means nothing; did you mean 'pin'?\n"
       "hint: accepted: pin,fixed\n"
       "user.c:9: warning[W128]: TN_DUMP has the value 'fuze', which means nothing; did you mean 'fuse'?\n"
       "hint: accepted: the passes that `tenure passes` lists, and rule:NAME\n");
}

// ---- scans
SCENARIO(M_scan) {
  start();
  tn_scan *s = (tn_scan_begin)(f, (tn_scan_options){.steps = tn_dim_const(4), .name = "s", .at = at(2)});
  tn_tensor row = (tn_scan_input)(s, x, at(3)), h = (tn_relu)(row, at(4));
  tn_tensor ys = (tn_scan_output)(s, h, at(5));
  (tn_output)(f, "h", h, at(6));
  (tn_sgd)(f, net, (tn_sgd_options){.at = at(7)});
  (tn_exp)(ys, at(8));
  (tn_scan_input)(s, (tn_zeros)(f, TN_SHAPE(3, 8), at(9)), at(10));
  (tn_scan_end)(s, at(11));
  (tn_exp)(h, at(12));
  SAYS("user.c:6: error[E009]: tn_output stands inside scan 's'\n"
       "user.c:2: note: the scan began here\n"
       "hint: tn_scan_output hands out a value of each step\n"
       "user.c:7: error[E009]: an optimizer stands inside scan 's'\n"
       "user.c:2: note: the scan began here\n"
       "hint: parameters are updated when the scan has ended\n"
       "user.c:8: error[E009]: an output of a scan is used inside of it\n"
       "user.c:5: note: it is whole when the scan has ended\n"
       "user.c:10: error[E004]: this value has 3 steps, scan 's' has 4\n"
       "user.c:9: note: the value is f32[3,8], made here\n"
       "user.c:2: note: the scan began here\n"
       "user.c:12: error[E103]: the result of tn_relu (f32[8]) is used after its scope closed\n"
       "user.c:4: note: it was made here, in scope 's'\n"
       "user.c:11: note: scope 's' closed here\n"
       "hint: tn_scan_output takes the value of each step out of a scan, tn_scan_final the last of a carry\n");
}

SCENARIO(M_scan_writes) {
  start();
  tn_buffer(net, "b", TN_SHAPE(8), (tn_init){TN_INIT_ZEROS, 0, 0});
  tn_tensor counts = (tn_input)(f, "counts", TN_I64, TN_SHAPE(8), at(2));
  (tn_parameter)(net, "w", TN_SHAPE(8), (tn_init){TN_INIT_ZEROS, 0, 0}, at(3));
  tn_tensor w = (tn_param_value)(f, net, "w", at(4));
  tn_scan *s = (tn_scan_begin)(f, (tn_scan_options){.steps = tn_dim_const(4), .name = "s", .at = at(5)});
  tn_tensor row = (tn_scan_input)(s, x, at(6));
  tn_no_grad_begin(f);
  (tn_copy_)(w, row, at(7));
  (tn_fill_)(counts, 1, at(8));
  (tn_fill_)(x, 1, at(9));
  tn_no_grad_end(f);
  (tn_pack_constant)(row, ((int64_t[]){1}), 1, (tn_pack_options){.at = at(10)});
  const char *text = report_of(p);
  CHECK_HAS(text, "user.c:7: error[E113]: trainable parameter 'w' is written inside a scan\n"
                  "user.c:5: note: the scan began here\n");
  CHECK_HAS(text, "user.c:8: error[E113]: whole numbers from outside are written inside a scan, which carries f32 from "
                  "step to step\n");
  CHECK_HAS(text, "user.c:9: error[E113]: what a scan takes in is written inside of it\n"
                  "user.c:6: note: the scan takes it in here\n");
  tn_program_free(p);
}

// ---- gradients
SCENARIO(M_no_gradient) {
  start();
  tn_module *fc = linear(net, "fc", 8, 3, 2), *ice = linear(net, "ice", 3, 3, 3);
  (tn_buffer)(fc, "mean", TN_SHAPE(3), (tn_init){TN_INIT_ZEROS, 0, 0}, at(4));
  tn_freeze(ice, true);
  (tn_backward)((tn_sum)((tn_call)(ice, (tn_call)(fc, x, at(5)), at(5)), at(5)), at(6));
  (tn_param_grad)(f, ice, "weight", at(7));
  (tn_param_grad)(f, fc, "mean", at(8));
  (tn_param_grad)(f, fc, "wieght", at(9));
  (tn_backward)((tn_argmax)((tn_sum_axis)(x, 0, false, at(10)), at(10)), at(11));
  SAYS("user.c:7: error[E122]: parameter 'ice.weight' has no gradient: it is frozen\n"
       "user.c:3: note: 'ice.weight' was made here\n"
       "hint: tn_freeze(module, false) before its first use in the function trains it\n"
       "user.c:8: error[E122]: buffer 'fc.mean' has no gradient: it is not trainable\n"
       "user.c:4: note: 'fc.mean' was made here\n"
       "hint: tn_parameter makes a trainable one\n"
       "user.c:9: error[E003]: module 'fc' has no parameter 'wieght'; did you mean 'weight'?\n"
       "user.c:11: error[E005]: a loss is one f32 number, found i64[]\n"
       "user.c:10: note: the loss is i64[], made here\n"
       "hint: no gradient flows through whole numbers: take it of what they were made of\n");
}

// ---- names
SCENARIO(M_near_names) {
  start();
  (tn_activation)(net, "a", "rleu", (tn_activation_options){.at = at(2)});
  (tn_input)(f, "x", TN_F32, TN_SHAPE(4), at(3));
  SAYS("user.c:2: error[E003]: 'rleu' is no activation: give the name of a unary operation, such as relu; did you mean "
       "'relu'?\n"
       "user.c:3: error[E110]: input 'x' exists already\n"
       "user.c:1: note: the first 'x' was made here\n");
}

SCENARIO(M_huge) {
  start();
  tn_dim b = tn_dim_bounded(p, "batch", 1 << 20);
  tn_tensor big = (tn_input)(f, "big", TN_F32, TN_SHAPE(b, 1), at(2)), wide = tn_zeros(f, TN_SHAPE(1, 4 << 20));
  (tn_zeros)(f, TN_SHAPE(b, 8 << 20), at(3));
  check_text(report_of(p),
             "user.c:3: error[E003]: a value of batch <= 1048576 x 8388608 takes 32 TiB, and can have more than 2^40 "
             "elements\n",
             "", __FILE__, __LINE__);
  tn_program_free(p);
  start();
  b = tn_dim_bounded(p, "batch", 1 << 20);
  big = (tn_input)(f, "big", TN_F32, TN_SHAPE(b, 1), at(2)), wide = tn_input(f, "wide", TN_F32, TN_SHAPE(1, 2 << 20));
  tn_output(f, "y", (tn_sum)((tn_softmax)((tn_matmul)(big, wide, at(4)), 1, at(5)), at(6)));
  tn_function_end(f);
  CHECK(!tn_compile(p, .cache_dir = ""));
  CHECK_HAS(report_of(p), "error[E006]: f32[");
  CHECK_HAS(report_of(p), "2097152) takes 8 TiB; the limit for a buffer is 4 TiB\n");
  CHECK_HAS(report_of(p), "(batch <= 1048576 x 2097152)");
  tn_program_free(p);
}

// ---- runs
SCENARIO(M_named_arrays) {
  start();
  tn_tensor b = tn_input(f, "bias", TN_F32, TN_SHAPE(8));
  tn_output(f, "y", tn_add(x, b));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .cache_dir = "", .n_workers = 1);
  float xs[32] = {[9] = 2}, bs[8] = {[1] = 0.5f}, y[32] = {0};
#define X TN_NAMED("x", tn_f32(xs, 4, 8))
#define B TN_NAMED("bias", tn_f32(bs, 8))
#define Y TN_OUT(tn_f32(y, 4, 8))
  CHECK(tn_run(m, "step", TN_IN(B, X), Y) == TN_OK && y[9] == 2.5f && y[1] == 0.5f);
  y[9] = 0;
  CHECK(tn_run(m, "step", TN_IN(B, X), TN_OUT(TN_NAMED("y", tn_f32(y, 4, 8)))) == TN_OK && y[9] == 2.5f);
  CHECK(tn_run(m, "step", TN_IN(tn_f32(xs, 4, 8), tn_f32(bs, 8)), Y) == TN_OK && y[9] == 2.5f);
#define REFUSED(text, ...)                                            \
  CHECK(tn_run(m, "step", TN_IN(__VA_ARGS__), Y) == TN_ERR_ARGUMENT); \
  check_text(tn_error_text(m), text, "", __FILE__, __LINE__)
  REFUSED("step: there is no input 'bais'; did you mean 'bias'?", X, TN_NAMED("bais", tn_f32(bs, 8)));
  REFUSED("step: input 'x' is given twice", X, X);
  REFUSED("step: input 'x' is given twice", X, X, B);
  REFUSED("step: input 'bias' is missing", X);
  REFUSED("step: input 2 has no name, and others have: name all of them, or none", X, tn_f32(bs, 8));
  CHECK(tn_run(m, "stepp", TN_IN(X, B), Y) == TN_ERR_ARGUMENT);
  check_text(tn_error_text(m), "there is no function 'stepp'; did you mean 'step'?", "", __FILE__, __LINE__);
  tn_model_free(m);
  tn_program_free(p);
}

// Nothing behind a list is read where its count says more than it has and the function takes.
SCENARIO(M_count_beyond_list) {
  start();
  tn_output(f, "y", x);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .cache_dir = "", .n_workers = 1);
  float xs[32] = {0}, y[32];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && !mprotect(pages + page, page, PROT_NONE));
  tn_array *last = (tn_array *)(pages + page - sizeof *last);
  for (int k = 0; k < 2; k++) {
    *last = k ? X : tn_f32(xs, 4, 8);
    CHECK(tn_run(m, "step", last, SIZE_MAX, Y) == TN_ERR_ARGUMENT);
    CHECK_HAS(tn_error_text(m), "step: takes 1 input");
    *last = k ? TN_NAMED("y", tn_f32(y, 4, 8)) : tn_f32(y, 4, 8);
    CHECK(tn_run(m, "step", TN_IN(X), last, 3) == TN_ERR_ARGUMENT);
    CHECK_HAS(tn_error_text(m), ", got");
    CHECK(tn_run(m, "step", TN_IN(X), last, 1) == TN_OK);
  }
  munmap(pages, 2 * page);
  tn_model_free(m);
  tn_program_free(p);
}

SCENARIO(M_paths) {
  start();
  for (int k = 0; k < 8; k++) linear(net, (const char *[]){"a", "b", "c", "d", "e", "f", "g", "h"}[k], 8, 8, 2);
  tn_tensor y = x;
  for (int k = 0; k < 8; k++)
    y = tn_call(tn_child(net, (const char *[]){"a", "b", "c", "d", "e", "f", "g", "h"}[k]), y);
  tn_output(f, "y", y);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .cache_dir = "", .n_workers = 1);
  float w[64];
  CHECK(tn_get(m, "a.wieght", w, 64) == TN_ERR_ARGUMENT);
  check_text(tn_error_text(m), "there is no parameter 'a.wieght'; did you mean 'a.weight'?", "", __FILE__, __LINE__);
  tn_program *q = tn_program_create("q");
  tn_function *g = tn_function_begin(q, "g");
  tn_output(g, "y", tn_call(tn_linear(tn_root(q), "a2", 8, 8), tn_input(g, "x", TN_F32, TN_SHAPE(4, 8))));
  tn_function_end(g);
  tn_model *n = tn_compile(q, .cache_dir = "", .n_workers = 1);
  const char *file = "messages.safetensors";
  CHECK(tn_save(n, file, false) == TN_OK && tn_load(m, file, false) == TN_ERR_FILE);
  check_text(tn_error_text(m),
             "messages.safetensors: 'a.weight' is missing; 'a.bias' is missing; 'b.weight' is missing; 'b.bias' is "
             "missing; 'c.weight' is missing; and 13 more",
             "", __FILE__, __LINE__);
  CHECK(tn_save(m, file, false) == TN_OK && tn_load(n, file, false) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(n), "'a.bias' is no parameter of this program; did you mean 'a2.bias'?");
  remove(file);
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
}

// A module's parameter is one already: its handle lives on. One that no module has yet is taken over again.
SCENARIO(M_as_parameter) {
  start();
  tn_function *init = tn_init_function(p);
  tn_parameter(net, "w", TN_SHAPE(8), (tn_init){TN_INIT_CONSTANT, 1, 0});
  tn_tensor w = tn_param_value(init, net, "w"), same = tn_as_parameter(w),
            made = tn_as_parameter(tn_ones(init, TN_SHAPE(8)));
  tn_tensor again = tn_as_parameter(made);
  CHECK(same.v == w.v && again.v && again.v != made.v);
  tn_register(net, "v", again);
  made = again;
  CHECK(tn_exp(w).v && tn_exp(made).v && tn_exp(tn_as_parameter(tn_param_value(init, net, "v"))).v && tn_exp(made).v);
  SAYS("");
}
