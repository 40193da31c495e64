// Handles that no call gave, or gave for something else, and missing arguments, in every kind of public call: a report
// at most, never more. The interesting run of this test is that of the sanitizer build.
#include "tests/check.h"
#include "tests/pointwise.h"
#include "tests/report.h"
#include <stdlib.h>

#define D(n) tn_dim_const(n)
static tn_program *p, *other;
static tn_function *f, *ended, *foreign;
static tn_packed packed;
static tn_scope *scope, *closed;
static tn_module *linear, *lstm;
static const tn_init zeros = {TN_INIT_ZEROS, 0, 0};

static void start(void) {
  p = tn_program_create("p"), other = tn_program_create("q");
  linear = tn_linear(tn_root(p), "linear", 2, 2);
  lstm = tn_lstm(tn_root(p), "lstm", 2, 2);
  tn_parameter(tn_root(p), "w", TN_SHAPE(2), zeros);
  ended = tn_function_begin(p, "ended");
  tn_output(ended, "y", tn_ones(ended, TN_SCALAR));
  tn_function_end(ended);
  foreign = tn_function_begin(other, "run");
  tn_ones(foreign, TN_SCALAR);
  f = tn_function_begin(p, "run");
  closed = tn_scope_begin(f, "closed");
  tn_scope_end(closed);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 2));
  packed = tn_pack_constant(x, ((int64_t[]){3, 2}), 2);
  scope = tn_scope_begin(f, "open");
}

static void finish(void) {
  report_of(p), report_of(other);
  tn_scalar(NULL, 0), tn_param_value(f, NULL, "w");  // a poisoned handle alone is no news
  CHECK(tn_n_errors(p) && !tn_compile(p, .cache_dir = ""));
  tn_program_free(p);
  tn_program_free(other);
}

// ---- tensors
static tn_tensor pre_hook(tn_module *m, tn_tensor in, void *bad) {
  (void)m, (void)in;
  return *(tn_tensor *)bad;
}

static void operations(tn_tensor t) {
  tn_tensor one = tn_ones(f, TN_SHAPE(2));
#define CALL1(n, ...) tn_##n(t __VA_ARGS__), tn_##n##_(t __VA_ARGS__);
#define CALL2(n) tn_##n(t, one), tn_##n(one, t), tn_##n(t, t), tn_##n##_(t, one), tn_##n##_(one, t);
#define CALL3(n, ...)                                                                                \
  tn_##n(t, one, one __VA_ARGS__), tn_##n(one, t, one __VA_ARGS__), tn_##n(one, one, t __VA_ARGS__), \
      tn_##n(t, t, t __VA_ARGS__);
#include "pointwise_list.h"
  tn_matmul(t, one), tn_matmul(one, t), tn_matmul(t, t);
  tn_prelu(t, one), tn_prelu(one, t), tn_rrelu(t, 0, 1), tn_glu(t, 0), tn_geglu(t, 0), tn_reglu(t, 0), tn_swiglu(t, 0);
  tn_dropout(t, 0.5), tn_cast(t, TN_I64), tn_stop_grad(t);
  tn_reshape(t, TN_SCALAR), tn_expand(t, TN_SHAPE(2)), tn_permute(t, TN_INTS(0)), tn_transpose(t, 0, 1);
  tn_slice(t, 0, 0, 1), tn_concat(0, TN_TENSORS(one, t)), tn_sum(t), tn_mean(t), tn_amax(t), tn_argmax(t), tn_argmin(t),
      tn_prod(t), tn_amin(t), tn_var(t, 1), tn_std(t, 1), tn_norm(t, 2), tn_logsumexp(t), tn_any(t), tn_all(t),
      tn_count_nonzero(t), tn_softmax(t, 0);
  tn_log_softmax(t, -1), tn_layer_norm_of(t, 1, one, t, 1e-5), tn_rms_norm_of(t, 1, t, 1e-5);
  tn_mm(t, one), tn_bmm(one, t), tn_mv(t, t), tn_dot(one, t), tn_outer(t, one), tn_addmm(t, one, one, 1, 1);
  tn_einsum("i,i", TN_TENSORS(t, one)), tn_einsum("ij", TN_TENSORS(one, t)), tn_einsum(NULL, TN_TENSORS(one));
  tn_l1_loss(t, one), tn_huber(one, t, 1), tn_smooth_l1(t, t, 1), tn_bce(t, one),
      tn_bce_with_logits(one, one, .weight = t);
  tn_kl_div(t, one, false), tn_poisson_nll(t, one, true), tn_gaussian_nll(one, one, t), tn_hinge_embedding(one, t, 1);
  tn_nll(t, one), tn_soft_margin(t, one), tn_margin_ranking(one, t, one, 0), tn_pairwise_distance(one, t, 2, 0),
      tn_triplet_margin(one, one, t);
  tn_cosine_similarity(t, one, 0, 1e-8), tn_cosine_embedding(one, t, one, 0);
  tn_multi_margin(one, t), tn_multi_margin(t, one), tn_multilabel_margin(one, t), tn_ctc(one, t, one, one),
      tn_ctc(t, one, one, t);
  tn_cross_entropy(t, one), tn_mse(one, t), tn_clone(t), tn_detach(t), tn_copy_(one, t), tn_copy_(t, one);
  tn_fill_(t, 1), tn_slice_assign_(t, 0, 0, one), tn_index_put_(one, t, one), tn_set_requires_grad(t, true);
  tn_scaled_dot_product_attention(t, one, t), tn_attention_packed(t), tn_attention_call(linear, t, t, t);
}

static void places(tn_tensor t) {
  tn_rank(t), tn_dim_of(t, 0), tn_is_alive(t), tn_requires_grad(t);
  tn_move_to_outer(t), tn_move_to(t, scope), tn_move_to(t, closed), tn_move_to(t, NULL), tn_move_to_scope_of(t, t);
  tn_detach_from_scope(t), tn_scope_attach(scope, t), tn_scope_detach(scope, t), tn_scope_move_to_outer(scope, t);
  tn_scope_attach(NULL, t), tn_scope_dispose_but(scope, TN_TENSORS(t, t)), TN_SCOPED(f, t),
      TN_SCOPED_PACKED(f, ((tn_packed){t, t}));
  tn_as_parameter(t), tn_parameter_adopt(linear, "weight", t), tn_register(linear, "v", t);
  tn_buffer_adopt(tn_root(p), "b", t, true), tn_backward(t), tn_grad(t, t);
  tn_output(f, "y", t), tn_output(ended, "z", t), tn_call(linear, t), tn_call(NULL, t), tn_forward(lstm, t);
  tn_hook_pre(linear, pre_hook, &t);
  tn_call(linear, tn_ones(f, TN_SHAPE(1, 2)));
  tn_dispose(t), tn_dispose(t);
}

static void sequences(tn_packed s, tn_tensor t) {
  tn_tensor out[2];
  tn_pack_padded(t, t), tn_pack_constant(t, NULL, 2), tn_pack_like(t, s, true), tn_pack_sequence(&t, 1);
  tn_pad_sequence(&t, 1, 0, true), tn_unpad(t, NULL, 2, true, out), tn_unpad(t, ((int64_t[]){1, 1}), 2, true, NULL);
  tn_pad_packed(s, 0, true), tn_pad_packed_to(s, 0, true, -1), tn_packed_with_data(s, t),
      tn_packed_with_data(packed, t);
  tn_unpack_sequence(s, out, 2), tn_unpack_sequence(s, NULL, 2), tn_packed_n_members(s);
  tn_packed_map("relu", s), tn_packed_map(NULL, s), tn_packed_zip("add", s, packed), tn_packed_zip("write", packed, s);
  tn_packed_sum(s), tn_packed_mean(s), tn_packed_argmax(s), tn_packed_last(s), tn_packed_softmax(s),
      tn_packed_reverse(s);
  tn_packed_attend(s, packed), tn_packed_broadcast(s, t), tn_packed_lengths(s), tn_packed_sorted_indices(s);
  tn_packed_call(linear, s), tn_packed_call(NULL, s), tn_packed_conv1d(s, t, t), tn_packed_conv1d(packed, t, TN_NONE),
      tn_packed_dropout(s, 0.5), tn_packed_concat(packed, s);
  tn_packed_cross_entropy(s, packed), tn_packed_mse(packed, s), tn_rnn_call(lstm, s), tn_rnn_call(NULL, s);
  tn_rnn_call_dense(lstm, t), tn_rnn_step(lstm, t, .h0 = t, .c0 = t), tn_last_hidden(((tn_rnn_output){.last = {t, t}}));
  tn_scan *scan = tn_scan_begin(f, .over = s);
  tn_scan_input(scan, t), tn_scan_input_packed(scan, s), tn_scan_carry(scan, t), tn_scan_next(scan, t, t);
  tn_scan_output(scan, t), tn_scan_end(scan), tn_scan_final(scan, t);
  tn_packed_move_to_outer(s), tn_packed_move_to(s, scope), tn_packed_move_to_scope_of(s, t);
  tn_packed_detach_from_scope(s), tn_scope_attach_packed(scope, s), tn_scope_detach_packed(scope, s),
      tn_packed_dispose(s);
}

enum { N_BAD = 9 };
static tn_tensor bad(int k) {
  const tn_tensor all[N_BAD] = {TN_NONE,      {f, 0},       {f, UINT32_MAX}, {f, 100000},         {f, 1 /* a mark */},
                                {NULL, 7777}, {foreign, 1}, {ended, 1},      {f, packed.layout.v}};
  return all[k];
}

static void handles(void) {
  for (int k = 0; k < 3 * N_BAD; k++) {
    start();
    tn_tensor t = bad(k % N_BAD);
    if (k < N_BAD) operations(t);
    else if (k < 2 * N_BAD) places(t);
    else {
      tn_packed pairs[] = {{t, t}, {t, packed.layout}, {packed.data, t}, {packed.layout, packed.data}};
      for (int i = 0; i < 4; i++) sequences(pairs[i], t);
    }
    finish();
  }
}

// ---- what was silent, or named nothing
static void reports(void) {
  start();
  tn_output(f, "y", TN_NONE);
  CHECK(tn_n_errors(p) == 1);
  CHECK_HAS(report_of(p),
            "error[E003]: operand 1 is an empty handle: no call made it\nhint: pass what a call returned");
  tn_scope_attach(scope, TN_NONE), tn_scope_dispose_but(scope, TN_TENSORS(TN_NONE));
  CHECK(tn_n_errors(p) == 3);
  tn_tensor invented = {f, 5000};
  tn_dispose(invented), tn_move_to_outer(invented);
  CHECK(tn_n_errors(p) == 5 && tn_rank(invented) == 0 && !tn_is_alive(invented));
  tn_sum_axes(packed.data, false, NULL, 2), tn_permute(packed.data, NULL, 2);
  CHECK(tn_n_errors(p) == 7);
  tn_packed_sum(((tn_packed){packed.layout, packed.data}));
  CHECK_HAS(report_of(p), "a packed sequence is rows and their layout");
  tn_input(f, "z", TN_F32, TN_SHAPE((tn_dim){(tn_dim_bounded(p, "n", 4).d & ~UINT64_C(0xffffff)) | 0xfffff}));
  CHECK_HAS(report_of(p), "this tn_dim is a number that no call gave");
  tn_packed_call(NULL, packed);
  CHECK_HAS(report_of(p), "no module is called");
  finish();
}

// ---- dims of other programs, however many there were: 128, 256, .. programs apart as well as next to each other
static void foreign_dims(void) {
  enum { APART = 300 };
  tn_program *first = tn_program_create("first");
  tn_dim d = tn_dim_bounded(first, "rows", 4);
  tn_function *own = tn_function_begin(first, "f");
  tn_input(own, "x", TN_F32, TN_SHAPE(d));
  CHECK(tn_n_errors(first) == 0);
  for (int k = 0; k < APART; k++) {
    tn_program *later = tn_program_create("later");
    tn_dim_bounded(later, "rows", 4);
    tn_input(tn_function_begin(later, "f"), "x", TN_F32, TN_SHAPE(d));
    if (!CHECK(tn_n_errors(later) == 1)) printf("  %d programs later\n", k + 1);
    if (k == APART - 1) CHECK_HAS(report_of(later), "a dim belongs to another program");
    tn_program_free(later);
  }
  tn_program_free(first);
}

// ---- nothing at all
static void missing(void) {
  start();
  tn_eval(NULL, true), tn_function_end(NULL), tn_output(NULL, "y", TN_NONE), tn_scope_end(NULL);
  CHECK(!tn_input(NULL, "x", TN_F32, TN_SCALAR).v && !tn_full(NULL, 1, TN_SCALAR).v && !tn_scalar(NULL, 1).v);
  tn_input(f, NULL, TN_F32, TN_SCALAR), tn_input(f, "n", TN_F32, tn_shape_of(NULL, 3)), tn_output(f, NULL, TN_NONE);
  tn_constant(f, NULL, TN_SHAPE(3)), tn_constant_i64(NULL, NULL, TN_SCALAR), tn_param_value(f, NULL, "w"),
      tn_param_value(f, linear, NULL);
  CHECK(!tn_scope_begin(NULL, "s") && tn_scope_values(NULL, NULL, 3) == 0 && tn_scope_count(NULL) == 0);
  tn_scope_begin(f, NULL), tn_scope_dispose_but(scope, NULL, 3);
  CHECK(!tn_linear(NULL, "l", 1, 1) && !tn_module_new(NULL, "m") && !tn_module_at_path(NULL, "a") &&
        !tn_sequential(NULL, "s"));
  tn_module_new(tn_root(p), NULL), tn_module_at_path(tn_root(p), NULL),
      tn_param_at_path(tn_root(p), NULL, TN_SCALAR, zeros);
  tn_parameter(NULL, "w", TN_SCALAR, zeros), tn_parameter(linear, NULL, TN_SCALAR, zeros),
      tn_share(linear, "w", NULL, "w");
  tn_share_module(tn_root(p), "s", NULL), tn_module_dispose(NULL), tn_freeze(NULL, true), tn_checkpoint(NULL),
      tn_reshapable(NULL);
  tn_freeze_path(NULL, NULL, true), tn_group(NULL, 1, NULL), tn_activation(tn_root(p), "act", NULL);
  tn_backward(TN_NONE), tn_clip_grad_norm(f, NULL, 1), tn_adamw(f, NULL), tn_sgd(NULL, NULL);
  tn_l2(f, NULL, NULL), tn_param_grad(f, NULL, NULL), tn_hook_pre(NULL, NULL, NULL), tn_hook_remove(NULL);
  tn_hook_post(linear, NULL, NULL), tn_rnn_hook_pre(lstm, NULL, NULL), tn_scan_begin(f), tn_scan_end(NULL);
  tn_concat(0, NULL, 3), tn_pack_sequence(NULL, 2), tn_pad_sequence(NULL, 2, 0, true);
  CHECK(tn_variables(NULL, NULL, NULL, 4) == 0 && tn_named_parameters(NULL, TN_NAMES_UNIQUE, NULL, 4) == 0);
  CHECK(!tn_compile(NULL) && !tn_instance(NULL, 0) && tn_report(NULL, stdout) && tn_dump(NULL, stdout, TN_DUMP_IR));
  tn_dump(p, NULL, TN_DUMP_IR), tn_dump_function(p, NULL, NULL, TN_DUMP_SUMMARY), tn_report(p, NULL),
      tn_stats_program(NULL);
  CHECK(tn_run(NULL, NULL, TN_NO_IN, TN_NO_OUT) && tn_load(NULL, NULL, true) && tn_save_merged(NULL, 2, NULL, false));
  CHECK(tn_load_partial(NULL, NULL, false, NULL) && tn_copy_params(NULL, NULL, false) && tn_plan_of(NULL, NULL, NULL));
  CHECK(tn_save_as(NULL, NULL, NULL) && tn_set_lr(NULL, 0, 1) && !tn_param_count(NULL) && !tn_param_path(NULL, 0));
  finish();
}

int main(void) {
  handles();
  reports();
  missing();
  foreign_dims();
  return check_report();
}
