// Call sites: a macro for each public call that takes one, of the call's own name, which C does not expand again.
// Included last by tenure.h. With TN_NO_SITE_MACROS defined calls take their site as the last argument, or in their
// options.
#if !defined(TENURE_SITE_H) && !defined(TN_NO_SITE_MACROS)
#define TENURE_SITE_H

#define tn_dim_bounded(...) tn_dim_bounded(__VA_ARGS__, TN_SITE)
#define tn_function_begin(...) tn_function_begin(__VA_ARGS__, TN_SITE)
#define tn_function_end(...) tn_function_end(__VA_ARGS__, TN_SITE)
#define tn_input(...) tn_input(__VA_ARGS__, TN_SITE)
#define tn_output(...) tn_output(__VA_ARGS__, TN_SITE)
#define tn_scope_begin(...) tn_scope_begin(__VA_ARGS__, TN_SITE)
#define tn_scope_end(...) tn_scope_end(__VA_ARGS__, TN_SITE)
#define tn_move_to_outer(...) tn_move_to_outer(__VA_ARGS__, TN_SITE)
#define tn_move_to(...) tn_move_to(__VA_ARGS__, TN_SITE)
#define tn_move_to_scope_of(...) tn_move_to_scope_of(__VA_ARGS__, TN_SITE)
#define tn_detach_from_scope(...) tn_detach_from_scope(__VA_ARGS__, TN_SITE)
#define tn_dispose(...) tn_dispose(__VA_ARGS__, TN_SITE)
#define tn_scope_attach(...) tn_scope_attach(__VA_ARGS__, TN_SITE)
#define tn_scope_detach(...) tn_scope_detach(__VA_ARGS__, TN_SITE)
#define tn_scope_move_to_outer(...) tn_scope_move_to_outer(__VA_ARGS__, TN_SITE)
#define tn_scope_dispose_but(...) tn_scope_dispose_but(__VA_ARGS__, TN_SITE)
#define tn_scope_dispose_all(...) tn_scope_dispose_all(__VA_ARGS__, TN_SITE)
#define tn_scoped_begin(...) tn_scoped_begin(__VA_ARGS__, TN_SITE)
#define tn_scoped_end(...) tn_scoped_end(__VA_ARGS__, TN_SITE)
#define tn_scope_count(...) tn_scope_count(__VA_ARGS__, TN_SITE)
#define tn_neg(...) tn_neg(__VA_ARGS__, TN_SITE)
#define tn_neg_(...) tn_neg_(__VA_ARGS__, TN_SITE)
#define tn_abs(...) tn_abs(__VA_ARGS__, TN_SITE)
#define tn_abs_(...) tn_abs_(__VA_ARGS__, TN_SITE)
#define tn_exp(...) tn_exp(__VA_ARGS__, TN_SITE)
#define tn_exp_(...) tn_exp_(__VA_ARGS__, TN_SITE)
#define tn_log(...) tn_log(__VA_ARGS__, TN_SITE)
#define tn_log_(...) tn_log_(__VA_ARGS__, TN_SITE)
#define tn_sqrt(...) tn_sqrt(__VA_ARGS__, TN_SITE)
#define tn_sqrt_(...) tn_sqrt_(__VA_ARGS__, TN_SITE)
#define tn_tanh(...) tn_tanh(__VA_ARGS__, TN_SITE)
#define tn_tanh_(...) tn_tanh_(__VA_ARGS__, TN_SITE)
#define tn_sigmoid(...) tn_sigmoid(__VA_ARGS__, TN_SITE)
#define tn_sigmoid_(...) tn_sigmoid_(__VA_ARGS__, TN_SITE)
#define tn_erf(...) tn_erf(__VA_ARGS__, TN_SITE)
#define tn_erf_(...) tn_erf_(__VA_ARGS__, TN_SITE)
#define tn_sin(...) tn_sin(__VA_ARGS__, TN_SITE)
#define tn_sin_(...) tn_sin_(__VA_ARGS__, TN_SITE)
#define tn_cos(...) tn_cos(__VA_ARGS__, TN_SITE)
#define tn_cos_(...) tn_cos_(__VA_ARGS__, TN_SITE)
#define tn_floor(...) tn_floor(__VA_ARGS__, TN_SITE)
#define tn_floor_(...) tn_floor_(__VA_ARGS__, TN_SITE)
#define tn_relu(...) tn_relu(__VA_ARGS__, TN_SITE)
#define tn_relu_(...) tn_relu_(__VA_ARGS__, TN_SITE)
#define tn_square(...) tn_square(__VA_ARGS__, TN_SITE)
#define tn_square_(...) tn_square_(__VA_ARGS__, TN_SITE)
#define tn_rsqrt(...) tn_rsqrt(__VA_ARGS__, TN_SITE)
#define tn_rsqrt_(...) tn_rsqrt_(__VA_ARGS__, TN_SITE)
#define tn_silu(...) tn_silu(__VA_ARGS__, TN_SITE)
#define tn_silu_(...) tn_silu_(__VA_ARGS__, TN_SITE)
#define tn_gelu(...) tn_gelu(__VA_ARGS__, TN_SITE)
#define tn_gelu_(...) tn_gelu_(__VA_ARGS__, TN_SITE)
#define tn_gelu_tanh(...) tn_gelu_tanh(__VA_ARGS__, TN_SITE)
#define tn_gelu_tanh_(...) tn_gelu_tanh_(__VA_ARGS__, TN_SITE)
#define tn_softplus(...) tn_softplus(__VA_ARGS__, TN_SITE)
#define tn_softplus_(...) tn_softplus_(__VA_ARGS__, TN_SITE)
#define tn_add(...) tn_add(__VA_ARGS__, TN_SITE)
#define tn_add_(...) tn_add_(__VA_ARGS__, TN_SITE)
#define tn_sub(...) tn_sub(__VA_ARGS__, TN_SITE)
#define tn_sub_(...) tn_sub_(__VA_ARGS__, TN_SITE)
#define tn_mul(...) tn_mul(__VA_ARGS__, TN_SITE)
#define tn_mul_(...) tn_mul_(__VA_ARGS__, TN_SITE)
#define tn_div(...) tn_div(__VA_ARGS__, TN_SITE)
#define tn_div_(...) tn_div_(__VA_ARGS__, TN_SITE)
#define tn_max(...) tn_max(__VA_ARGS__, TN_SITE)
#define tn_max_(...) tn_max_(__VA_ARGS__, TN_SITE)
#define tn_min(...) tn_min(__VA_ARGS__, TN_SITE)
#define tn_min_(...) tn_min_(__VA_ARGS__, TN_SITE)
#define tn_pow(...) tn_pow(__VA_ARGS__, TN_SITE)
#define tn_pow_(...) tn_pow_(__VA_ARGS__, TN_SITE)
#define tn_gt(...) tn_gt(__VA_ARGS__, TN_SITE)
#define tn_gt_(...) tn_gt_(__VA_ARGS__, TN_SITE)
#define tn_ge(...) tn_ge(__VA_ARGS__, TN_SITE)
#define tn_ge_(...) tn_ge_(__VA_ARGS__, TN_SITE)
#define tn_lt(...) tn_lt(__VA_ARGS__, TN_SITE)
#define tn_lt_(...) tn_lt_(__VA_ARGS__, TN_SITE)
#define tn_le(...) tn_le(__VA_ARGS__, TN_SITE)
#define tn_le_(...) tn_le_(__VA_ARGS__, TN_SITE)
#define tn_eq(...) tn_eq(__VA_ARGS__, TN_SITE)
#define tn_eq_(...) tn_eq_(__VA_ARGS__, TN_SITE)
#define tn_ne(...) tn_ne(__VA_ARGS__, TN_SITE)
#define tn_ne_(...) tn_ne_(__VA_ARGS__, TN_SITE)
#define tn_select(...) tn_select(__VA_ARGS__, TN_SITE)
#define tn_leaky_relu(...) tn_leaky_relu(__VA_ARGS__, TN_SITE)
#define tn_leaky_relu_(...) tn_leaky_relu_(__VA_ARGS__, TN_SITE)
#define tn_scalar(...) tn_scalar(__VA_ARGS__, TN_SITE)
#define tn_full(...) tn_full(__VA_ARGS__, TN_SITE)
#define tn_zeros(...) tn_zeros(__VA_ARGS__, TN_SITE)
#define tn_ones(...) tn_ones(__VA_ARGS__, TN_SITE)
#define tn_rand(...) tn_rand(__VA_ARGS__, TN_SITE)
#define tn_randn(...) tn_randn(__VA_ARGS__, TN_SITE)
#define tn_constant(...) tn_constant(__VA_ARGS__, TN_SITE)
#define tn_constant_i64(...) tn_constant_i64(__VA_ARGS__, TN_SITE)
#define tn_matmul(...) tn_matmul(__VA_ARGS__, TN_SITE)
#define tn_add_scalar(...) tn_add_scalar(__VA_ARGS__, TN_SITE)
#define tn_mul_scalar(...) tn_mul_scalar(__VA_ARGS__, TN_SITE)
#define tn_dropout(...) tn_dropout(__VA_ARGS__, TN_SITE)
#define tn_cast(...) tn_cast(__VA_ARGS__, TN_SITE)
#define tn_stop_grad(...) tn_stop_grad(__VA_ARGS__, TN_SITE)
#define tn_reshape(...) tn_reshape(__VA_ARGS__, TN_SITE)
#define tn_expand(...) tn_expand(__VA_ARGS__, TN_SITE)
#define tn_permute(...) tn_permute(__VA_ARGS__, TN_SITE)
#define tn_transpose(...) tn_transpose(__VA_ARGS__, TN_SITE)
#define tn_slice(...) tn_slice(__VA_ARGS__, TN_SITE)
#define tn_concat(...) tn_concat(__VA_ARGS__, TN_SITE)
#define tn_sum(...) tn_sum(__VA_ARGS__, TN_SITE)
#define tn_sum_axis(...) tn_sum_axis(__VA_ARGS__, TN_SITE)
#define tn_sum_axes(...) tn_sum_axes(__VA_ARGS__, TN_SITE)
#define tn_mean(...) tn_mean(__VA_ARGS__, TN_SITE)
#define tn_mean_axis(...) tn_mean_axis(__VA_ARGS__, TN_SITE)
#define tn_mean_axes(...) tn_mean_axes(__VA_ARGS__, TN_SITE)
#define tn_amax(...) tn_amax(__VA_ARGS__, TN_SITE)
#define tn_amax_axis(...) tn_amax_axis(__VA_ARGS__, TN_SITE)
#define tn_amax_axes(...) tn_amax_axes(__VA_ARGS__, TN_SITE)
#define tn_argmax(...) tn_argmax(__VA_ARGS__, TN_SITE)
#define tn_softmax(...) tn_softmax(__VA_ARGS__, TN_SITE)
#define tn_log_softmax(...) tn_log_softmax(__VA_ARGS__, TN_SITE)
#define tn_layer_norm_of(...) tn_layer_norm_of(__VA_ARGS__, TN_SITE)
#define tn_rms_norm_of(...) tn_rms_norm_of(__VA_ARGS__, TN_SITE)
#define tn_mse(...) tn_mse(__VA_ARGS__, TN_SITE)
#define tn_clone(...) tn_clone(__VA_ARGS__, TN_SITE)
#define tn_detach(...) tn_detach(__VA_ARGS__, TN_SITE)
#define tn_copy_(...) tn_copy_(__VA_ARGS__, TN_SITE)
#define tn_fill_(...) tn_fill_(__VA_ARGS__, TN_SITE)
#define tn_slice_assign_(...) tn_slice_assign_(__VA_ARGS__, TN_SITE)
#define tn_index_put_(...) tn_index_put_(__VA_ARGS__, TN_SITE)
#define tn_no_grad_begin(...) tn_no_grad_begin(__VA_ARGS__, TN_SITE)
#define tn_no_grad_end(...) tn_no_grad_end(__VA_ARGS__, TN_SITE)
#define tn_set_requires_grad(...) tn_set_requires_grad(__VA_ARGS__, TN_SITE)
#define tn_module_new(...) tn_module_new(__VA_ARGS__, TN_SITE)
#define tn_parameter(...) tn_parameter(__VA_ARGS__, TN_SITE)
#define tn_buffer(...) tn_buffer(__VA_ARGS__, TN_SITE)
#define tn_share(...) tn_share(__VA_ARGS__, TN_SITE)
#define tn_param_value(...) tn_param_value(__VA_ARGS__, TN_SITE)
#define tn_as_parameter(...) tn_as_parameter(__VA_ARGS__, TN_SITE)
#define tn_parameter_adopt(...) tn_parameter_adopt(__VA_ARGS__, TN_SITE)
#define tn_register(...) tn_register(__VA_ARGS__, TN_SITE)
#define tn_buffer_adopt(...) tn_buffer_adopt(__VA_ARGS__, TN_SITE)
#define tn_share_module(...) tn_share_module(__VA_ARGS__, TN_SITE)
#define tn_module_dispose(...) tn_module_dispose(__VA_ARGS__, TN_SITE)
#define tn_module_at_path(...) tn_module_at_path(__VA_ARGS__, TN_SITE)
#define tn_param_at_path(...) tn_param_at_path(__VA_ARGS__, TN_SITE)
#define tn_transient_buffer(...) tn_transient_buffer(__VA_ARGS__, TN_SITE)
#define tn_freeze_path(...) tn_freeze_path(__VA_ARGS__, TN_SITE)
#define tn_l1(...) tn_l1(__VA_ARGS__, TN_SITE)
#define tn_l2(...) tn_l2(__VA_ARGS__, TN_SITE)
#define tn_embedding(...) tn_embedding(__VA_ARGS__, TN_SITE)
#define tn_dropout_module(...) tn_dropout_module(__VA_ARGS__, TN_SITE)
#define tn_activation(...) tn_activation(__VA_ARGS__, TN_SITE)
#define tn_sequential(...) tn_sequential(__VA_ARGS__, TN_SITE)
#define tn_call(...) tn_call(__VA_ARGS__, TN_SITE)
#define tn_forward(...) tn_forward(__VA_ARGS__, TN_SITE)
#define tn_hook_remove(...) tn_hook_remove(__VA_ARGS__, TN_SITE)
#define tn_pad_packed(...) tn_pad_packed(__VA_ARGS__, TN_SITE)
#define tn_packed_with_data(...) tn_packed_with_data(__VA_ARGS__, TN_SITE)
#define tn_pad_packed_to(...) tn_pad_packed_to(__VA_ARGS__, TN_SITE)
#define tn_pack_like(...) tn_pack_like(__VA_ARGS__, TN_SITE)
#define tn_pad_sequence(...) tn_pad_sequence(__VA_ARGS__, TN_SITE)
#define tn_pad_sequence_left(...) tn_pad_sequence_left(__VA_ARGS__, TN_SITE)
#define tn_unpad(...) tn_unpad(__VA_ARGS__, TN_SITE)
#define tn_unpad_sequence(...) tn_unpad_sequence(__VA_ARGS__, TN_SITE)
#define tn_unpack_sequence(...) tn_unpack_sequence(__VA_ARGS__, TN_SITE)
#define tn_packed_map(...) tn_packed_map(__VA_ARGS__, TN_SITE)
#define tn_packed_zip(...) tn_packed_zip(__VA_ARGS__, TN_SITE)
#define tn_packed_sum(...) tn_packed_sum(__VA_ARGS__, TN_SITE)
#define tn_packed_mean(...) tn_packed_mean(__VA_ARGS__, TN_SITE)
#define tn_packed_max(...) tn_packed_max(__VA_ARGS__, TN_SITE)
#define tn_packed_min(...) tn_packed_min(__VA_ARGS__, TN_SITE)
#define tn_packed_argmax(...) tn_packed_argmax(__VA_ARGS__, TN_SITE)
#define tn_packed_last(...) tn_packed_last(__VA_ARGS__, TN_SITE)
#define tn_packed_first(...) tn_packed_first(__VA_ARGS__, TN_SITE)
#define tn_packed_softmax(...) tn_packed_softmax(__VA_ARGS__, TN_SITE)
#define tn_packed_attend(...) tn_packed_attend(__VA_ARGS__, TN_SITE)
#define tn_packed_broadcast(...) tn_packed_broadcast(__VA_ARGS__, TN_SITE)
#define tn_packed_reverse(...) tn_packed_reverse(__VA_ARGS__, TN_SITE)
#define tn_packed_lengths(...) tn_packed_lengths(__VA_ARGS__, TN_SITE)
#define tn_packed_batch_sizes(...) tn_packed_batch_sizes(__VA_ARGS__, TN_SITE)
#define tn_packed_sorted_indices(...) tn_packed_sorted_indices(__VA_ARGS__, TN_SITE)
#define tn_packed_unsorted_indices(...) tn_packed_unsorted_indices(__VA_ARGS__, TN_SITE)
#define tn_packed_call(...) tn_packed_call(__VA_ARGS__, TN_SITE)
#define tn_packed_dropout(...) tn_packed_dropout(__VA_ARGS__, TN_SITE)
#define tn_packed_concat(...) tn_packed_concat(__VA_ARGS__, TN_SITE)
#define tn_packed_mse(...) tn_packed_mse(__VA_ARGS__, TN_SITE)
#define tn_packed_move_to_outer(...) tn_packed_move_to_outer(__VA_ARGS__, TN_SITE)
#define tn_packed_move_to(...) tn_packed_move_to(__VA_ARGS__, TN_SITE)
#define tn_packed_move_to_scope_of(...) tn_packed_move_to_scope_of(__VA_ARGS__, TN_SITE)
#define tn_packed_detach_from_scope(...) tn_packed_detach_from_scope(__VA_ARGS__, TN_SITE)
#define tn_packed_dispose(...) tn_packed_dispose(__VA_ARGS__, TN_SITE)
#define tn_scope_attach_packed(...) tn_scope_attach_packed(__VA_ARGS__, TN_SITE)
#define tn_scoped_end_packed(...) tn_scoped_end_packed(__VA_ARGS__, TN_SITE)
#define tn_scope_detach_packed(...) tn_scope_detach_packed(__VA_ARGS__, TN_SITE)
#define tn_last_hidden(...) tn_last_hidden(__VA_ARGS__, TN_SITE)
#define tn_scan_end(...) tn_scan_end(__VA_ARGS__, TN_SITE)
#define tn_scan_input(...) tn_scan_input(__VA_ARGS__, TN_SITE)
#define tn_scan_input_packed(...) tn_scan_input_packed(__VA_ARGS__, TN_SITE)
#define tn_scan_carry(...) tn_scan_carry(__VA_ARGS__, TN_SITE)
#define tn_scan_next(...) tn_scan_next(__VA_ARGS__, TN_SITE)
#define tn_scan_output(...) tn_scan_output(__VA_ARGS__, TN_SITE)
#define tn_scan_final(...) tn_scan_final(__VA_ARGS__, TN_SITE)
#define tn_backward(...) tn_backward(__VA_ARGS__, TN_SITE)
#define tn_grad(...) tn_grad(__VA_ARGS__, TN_SITE)
#define tn_param_grad(...) tn_param_grad(__VA_ARGS__, TN_SITE)
#define tn_clip_grad_norm(...) tn_clip_grad_norm(__VA_ARGS__, TN_SITE)
#define tn_clip_grad_value(...) tn_clip_grad_value(__VA_ARGS__, TN_SITE)

#ifndef __cplusplus
#define TN_FIRST(first, ...) first
#define TN_REST(first, ...) __VA_ARGS__
#define tn_cross_entropy(logits, ...) \
  tn_cross_entropy(logits, TN_FIRST(__VA_ARGS__, 0), (tn_loss_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_linear(parent, name, in, ...) \
  tn_linear(parent, name, in, TN_FIRST(__VA_ARGS__, 0), (tn_linear_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_lstm(parent, name, in, ...) \
  tn_lstm(parent, name, in, TN_FIRST(__VA_ARGS__, 0), (tn_rnn_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_gru(parent, name, in, ...) \
  tn_gru(parent, name, in, TN_FIRST(__VA_ARGS__, 0), (tn_rnn_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_rnn(parent, name, in, hidden, ...) \
  tn_rnn(parent, name, in, hidden, TN_FIRST(__VA_ARGS__, 0), (tn_rnn_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_lstm_cell(parent, name, in, ...) \
  tn_lstm_cell(parent, name, in, TN_FIRST(__VA_ARGS__, 0), (tn_rnn_cell_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_gru_cell(parent, name, in, ...) \
  tn_gru_cell(parent, name, in, TN_FIRST(__VA_ARGS__, 0), (tn_rnn_cell_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_rnn_cell(parent, name, in, hidden, ...)                \
  tn_rnn_cell(parent, name, in, hidden, TN_FIRST(__VA_ARGS__, 0), \
              (tn_rnn_cell_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_layer_norm(parent, name, ...) \
  tn_layer_norm(parent, name, TN_FIRST(__VA_ARGS__, 0), (tn_norm_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_rms_norm(parent, name, ...) \
  tn_rms_norm(parent, name, TN_FIRST(__VA_ARGS__, 0), (tn_norm_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_scaled_dot_product_attention(q, k, ...)                \
  tn_scaled_dot_product_attention(q, k, TN_FIRST(__VA_ARGS__, 0), \
                                  (tn_attention_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_attention_packed(...) \
  tn_attention_packed(TN_FIRST(__VA_ARGS__, 0), (tn_attention_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_multi_head_attention(parent, name, size, ...)                \
  tn_multi_head_attention(parent, name, size, TN_FIRST(__VA_ARGS__, 0), \
                          (tn_multi_head_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_attention_call(m, q, k, ...) \
  tn_attention_call(m, q, k, TN_FIRST(__VA_ARGS__, 0), (tn_attention_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_hook_pre(m, fn, ...) \
  tn_hook_pre(m, fn, TN_FIRST(__VA_ARGS__, 0), (tn_hook_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_hook_post(m, fn, ...) \
  tn_hook_post(m, fn, TN_FIRST(__VA_ARGS__, 0), (tn_hook_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_pack_padded(x, ...) \
  tn_pack_padded(x, TN_FIRST(__VA_ARGS__, 0), (tn_pack_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_pack_constant(x, lengths, ...) \
  tn_pack_constant(x, lengths, TN_FIRST(__VA_ARGS__, 0), (tn_pack_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_pack_sequence(list, ...) \
  tn_pack_sequence(list, TN_FIRST(__VA_ARGS__, 0), (tn_pack_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_packed_cross_entropy(logits, ...) \
  tn_packed_cross_entropy(logits, TN_FIRST(__VA_ARGS__, 0), (tn_loss_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_rnn_call(m, ...) \
  tn_rnn_call(m, TN_FIRST(__VA_ARGS__, 0), (tn_rnn_call_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_rnn_call_dense(m, ...) \
  tn_rnn_call_dense(m, TN_FIRST(__VA_ARGS__, 0), (tn_rnn_call_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_rnn_step(m, ...) \
  tn_rnn_step(m, TN_FIRST(__VA_ARGS__, 0), (tn_rnn_call_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_rnn_hook_pre(m, fn, ...) \
  tn_rnn_hook_pre(m, fn, TN_FIRST(__VA_ARGS__, 0), (tn_hook_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_rnn_hook_post(m, fn, ...) \
  tn_rnn_hook_post(m, fn, TN_FIRST(__VA_ARGS__, 0), (tn_hook_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_scan_begin(...) \
  tn_scan_begin(TN_FIRST(__VA_ARGS__, 0), (tn_scan_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_adamw(f, ...) tn_adamw(f, TN_FIRST(__VA_ARGS__, 0), (tn_adamw_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_adam(f, ...) tn_adam(f, TN_FIRST(__VA_ARGS__, 0), (tn_adamw_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_sgd(f, ...) tn_sgd(f, TN_FIRST(__VA_ARGS__, 0), (tn_sgd_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_group(m, group, ...) \
  tn_group(m, group, TN_FIRST(__VA_ARGS__, 0), (tn_group_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#define tn_compile(...) tn_compile(TN_FIRST(__VA_ARGS__, 0), (tn_compile_options){TN_REST(__VA_ARGS__, .at = TN_SITE)})
#else
inline tn_tensor tn_cross_entropy(tn_tensor logits, tn_tensor labels, tn_loss_options o, tn_site at) {
  o.at = at;
  return tn_cross_entropy(logits, labels, o);
}
inline tn_tensor tn_cross_entropy(tn_tensor logits, tn_tensor labels, tn_site at) {
  return tn_cross_entropy(logits, labels, tn_loss_options{}, at);
}
inline tn_module *tn_linear(tn_module *parent, const char *name, int64_t in, int64_t out, tn_linear_options o,
                            tn_site at) {
  o.at = at;
  return tn_linear(parent, name, in, out, o);
}
inline tn_module *tn_linear(tn_module *parent, const char *name, int64_t in, int64_t out, tn_site at) {
  return tn_linear(parent, name, in, out, tn_linear_options{}, at);
}
inline tn_module *tn_lstm(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_options o,
                          tn_site at) {
  o.at = at;
  return tn_lstm(parent, name, in, hidden, o);
}
inline tn_module *tn_lstm(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_site at) {
  return tn_lstm(parent, name, in, hidden, tn_rnn_options{}, at);
}
inline tn_module *tn_gru(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_options o,
                         tn_site at) {
  o.at = at;
  return tn_gru(parent, name, in, hidden, o);
}
inline tn_module *tn_gru(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_site at) {
  return tn_gru(parent, name, in, hidden, tn_rnn_options{}, at);
}
inline tn_module *tn_rnn(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu, tn_rnn_options o,
                         tn_site at) {
  o.at = at;
  return tn_rnn(parent, name, in, hidden, relu, o);
}
inline tn_module *tn_rnn(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu, tn_site at) {
  return tn_rnn(parent, name, in, hidden, relu, tn_rnn_options{}, at);
}
inline tn_module *tn_lstm_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_cell_options o,
                               tn_site at) {
  o.at = at;
  return tn_lstm_cell(parent, name, in, hidden, o);
}
inline tn_module *tn_lstm_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_site at) {
  return tn_lstm_cell(parent, name, in, hidden, tn_rnn_cell_options{}, at);
}
inline tn_module *tn_gru_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_cell_options o,
                              tn_site at) {
  o.at = at;
  return tn_gru_cell(parent, name, in, hidden, o);
}
inline tn_module *tn_gru_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_site at) {
  return tn_gru_cell(parent, name, in, hidden, tn_rnn_cell_options{}, at);
}
inline tn_module *tn_rnn_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu,
                              tn_rnn_cell_options o, tn_site at) {
  o.at = at;
  return tn_rnn_cell(parent, name, in, hidden, relu, o);
}
inline tn_module *tn_rnn_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu, tn_site at) {
  return tn_rnn_cell(parent, name, in, hidden, relu, tn_rnn_cell_options{}, at);
}
inline tn_module *tn_layer_norm(tn_module *parent, const char *name, tn_shape normalized, tn_norm_options o,
                                tn_site at) {
  o.at = at;
  return tn_layer_norm(parent, name, normalized, o);
}
inline tn_module *tn_layer_norm(tn_module *parent, const char *name, tn_shape normalized, tn_site at) {
  return tn_layer_norm(parent, name, normalized, tn_norm_options{}, at);
}
inline tn_module *tn_rms_norm(tn_module *parent, const char *name, tn_shape normalized, tn_norm_options o, tn_site at) {
  o.at = at;
  return tn_rms_norm(parent, name, normalized, o);
}
inline tn_module *tn_rms_norm(tn_module *parent, const char *name, tn_shape normalized, tn_site at) {
  return tn_rms_norm(parent, name, normalized, tn_norm_options{}, at);
}
inline tn_tensor tn_scaled_dot_product_attention(tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o,
                                                 tn_site at) {
  o.at = at;
  return tn_scaled_dot_product_attention(q, k, v, o);
}
inline tn_tensor tn_scaled_dot_product_attention(tn_tensor q, tn_tensor k, tn_tensor v, tn_site at) {
  return tn_scaled_dot_product_attention(q, k, v, tn_attention_options{}, at);
}
inline tn_tensor tn_attention_packed(tn_tensor qkv, tn_attention_options o, tn_site at) {
  o.at = at;
  return tn_attention_packed(qkv, o);
}
inline tn_tensor tn_attention_packed(tn_tensor qkv, tn_site at) {
  return tn_attention_packed(qkv, tn_attention_options{}, at);
}
inline tn_module *tn_multi_head_attention(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                          tn_multi_head_options o, tn_site at) {
  o.at = at;
  return tn_multi_head_attention(parent, name, size, heads, o);
}
inline tn_module *tn_multi_head_attention(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                          tn_site at) {
  return tn_multi_head_attention(parent, name, size, heads, tn_multi_head_options{}, at);
}
inline tn_tensor tn_attention_call(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o,
                                   tn_site at) {
  o.at = at;
  return tn_attention_call(m, q, k, v, o);
}
inline tn_tensor tn_attention_call(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_site at) {
  return tn_attention_call(m, q, k, v, tn_attention_options{}, at);
}
inline tn_hook *tn_hook_pre(tn_module *m, tn_pre_hook fn, void *ctx, tn_hook_options o, tn_site at) {
  o.at = at;
  return tn_hook_pre(m, fn, ctx, o);
}
inline tn_hook *tn_hook_pre(tn_module *m, tn_pre_hook fn, void *ctx, tn_site at) {
  return tn_hook_pre(m, fn, ctx, tn_hook_options{}, at);
}
inline tn_hook *tn_hook_post(tn_module *m, tn_post_hook fn, void *ctx, tn_hook_options o, tn_site at) {
  o.at = at;
  return tn_hook_post(m, fn, ctx, o);
}
inline tn_hook *tn_hook_post(tn_module *m, tn_post_hook fn, void *ctx, tn_site at) {
  return tn_hook_post(m, fn, ctx, tn_hook_options{}, at);
}
inline tn_packed tn_pack_padded(tn_tensor x, tn_tensor lengths, tn_pack_options o, tn_site at) {
  o.at = at;
  return tn_pack_padded(x, lengths, o);
}
inline tn_packed tn_pack_padded(tn_tensor x, tn_tensor lengths, tn_site at) {
  return tn_pack_padded(x, lengths, tn_pack_options{}, at);
}
inline tn_packed tn_pack_constant(tn_tensor x, const int64_t *lengths, uint32_t n, tn_pack_options o, tn_site at) {
  o.at = at;
  return tn_pack_constant(x, lengths, n, o);
}
inline tn_packed tn_pack_constant(tn_tensor x, const int64_t *lengths, uint32_t n, tn_site at) {
  return tn_pack_constant(x, lengths, n, tn_pack_options{}, at);
}
inline tn_packed tn_pack_sequence(const tn_tensor *list, uint32_t n, tn_pack_options o, tn_site at) {
  o.at = at;
  return tn_pack_sequence(list, n, o);
}
inline tn_packed tn_pack_sequence(const tn_tensor *list, uint32_t n, tn_site at) {
  return tn_pack_sequence(list, n, tn_pack_options{}, at);
}
inline tn_tensor tn_packed_cross_entropy(tn_packed logits, tn_packed labels, tn_loss_options o, tn_site at) {
  o.at = at;
  return tn_packed_cross_entropy(logits, labels, o);
}
inline tn_tensor tn_packed_cross_entropy(tn_packed logits, tn_packed labels, tn_site at) {
  return tn_packed_cross_entropy(logits, labels, tn_loss_options{}, at);
}
inline tn_rnn_output tn_rnn_call(tn_module *m, tn_packed x, tn_rnn_call_options o, tn_site at) {
  o.at = at;
  return tn_rnn_call(m, x, o);
}
inline tn_rnn_output tn_rnn_call(tn_module *m, tn_packed x, tn_site at) {
  return tn_rnn_call(m, x, tn_rnn_call_options{}, at);
}
inline tn_rnn_output tn_rnn_call_dense(tn_module *m, tn_tensor x, tn_rnn_call_options o, tn_site at) {
  o.at = at;
  return tn_rnn_call_dense(m, x, o);
}
inline tn_rnn_output tn_rnn_call_dense(tn_module *m, tn_tensor x, tn_site at) {
  return tn_rnn_call_dense(m, x, tn_rnn_call_options{}, at);
}
inline tn_rnn_step_output tn_rnn_step(tn_module *m, tn_tensor x, tn_rnn_call_options o, tn_site at) {
  o.at = at;
  return tn_rnn_step(m, x, o);
}
inline tn_rnn_step_output tn_rnn_step(tn_module *m, tn_tensor x, tn_site at) {
  return tn_rnn_step(m, x, tn_rnn_call_options{}, at);
}
inline tn_hook *tn_rnn_hook_pre(tn_module *m, tn_rnn_pre_hook fn, void *ctx, tn_hook_options o, tn_site at) {
  o.at = at;
  return tn_rnn_hook_pre(m, fn, ctx, o);
}
inline tn_hook *tn_rnn_hook_pre(tn_module *m, tn_rnn_pre_hook fn, void *ctx, tn_site at) {
  return tn_rnn_hook_pre(m, fn, ctx, tn_hook_options{}, at);
}
inline tn_hook *tn_rnn_hook_post(tn_module *m, tn_rnn_post_hook fn, void *ctx, tn_hook_options o, tn_site at) {
  o.at = at;
  return tn_rnn_hook_post(m, fn, ctx, o);
}
inline tn_hook *tn_rnn_hook_post(tn_module *m, tn_rnn_post_hook fn, void *ctx, tn_site at) {
  return tn_rnn_hook_post(m, fn, ctx, tn_hook_options{}, at);
}
inline tn_scan *tn_scan_begin(tn_function *f, tn_scan_options o, tn_site at) {
  o.at = at;
  return tn_scan_begin(f, o);
}
inline tn_scan *tn_scan_begin(tn_function *f, tn_site at) { return tn_scan_begin(f, tn_scan_options{}, at); }
inline void tn_adamw(tn_function *f, tn_module *m, tn_adamw_options o, tn_site at) {
  o.at = at;
  tn_adamw(f, m, o);
}
inline void tn_adamw(tn_function *f, tn_module *m, tn_site at) { tn_adamw(f, m, tn_adamw_options{}, at); }
inline void tn_adam(tn_function *f, tn_module *m, tn_adamw_options o, tn_site at) {
  o.at = at;
  tn_adam(f, m, o);
}
inline void tn_adam(tn_function *f, tn_module *m, tn_site at) { tn_adam(f, m, tn_adamw_options{}, at); }
inline void tn_sgd(tn_function *f, tn_module *m, tn_sgd_options o, tn_site at) {
  o.at = at;
  tn_sgd(f, m, o);
}
inline void tn_sgd(tn_function *f, tn_module *m, tn_site at) { tn_sgd(f, m, tn_sgd_options{}, at); }
inline void tn_group(tn_module *m, uint32_t group, const char *pattern, tn_group_options o, tn_site at) {
  o.at = at;
  tn_group(m, group, pattern, o);
}
inline void tn_group(tn_module *m, uint32_t group, const char *pattern, tn_site at) {
  tn_group(m, group, pattern, tn_group_options{}, at);
}
inline tn_model *tn_compile(tn_program *p, tn_compile_options o, tn_site at) {
  o.at = at;
  return tn_compile(p, o);
}
inline tn_model *tn_compile(tn_program *p, tn_site at) { return tn_compile(p, tn_compile_options{}, at); }
#define tn_cross_entropy(...) tn_cross_entropy(__VA_ARGS__, TN_SITE)
#define tn_linear(...) tn_linear(__VA_ARGS__, TN_SITE)
#define tn_lstm(...) tn_lstm(__VA_ARGS__, TN_SITE)
#define tn_gru(...) tn_gru(__VA_ARGS__, TN_SITE)
#define tn_rnn(...) tn_rnn(__VA_ARGS__, TN_SITE)
#define tn_lstm_cell(...) tn_lstm_cell(__VA_ARGS__, TN_SITE)
#define tn_gru_cell(...) tn_gru_cell(__VA_ARGS__, TN_SITE)
#define tn_rnn_cell(...) tn_rnn_cell(__VA_ARGS__, TN_SITE)
#define tn_layer_norm(...) tn_layer_norm(__VA_ARGS__, TN_SITE)
#define tn_rms_norm(...) tn_rms_norm(__VA_ARGS__, TN_SITE)
#define tn_scaled_dot_product_attention(...) tn_scaled_dot_product_attention(__VA_ARGS__, TN_SITE)
#define tn_attention_packed(...) tn_attention_packed(__VA_ARGS__, TN_SITE)
#define tn_multi_head_attention(...) tn_multi_head_attention(__VA_ARGS__, TN_SITE)
#define tn_attention_call(...) tn_attention_call(__VA_ARGS__, TN_SITE)
#define tn_hook_pre(...) tn_hook_pre(__VA_ARGS__, TN_SITE)
#define tn_hook_post(...) tn_hook_post(__VA_ARGS__, TN_SITE)
#define tn_pack_padded(...) tn_pack_padded(__VA_ARGS__, TN_SITE)
#define tn_pack_constant(...) tn_pack_constant(__VA_ARGS__, TN_SITE)
#define tn_pack_sequence(...) tn_pack_sequence(__VA_ARGS__, TN_SITE)
#define tn_packed_cross_entropy(...) tn_packed_cross_entropy(__VA_ARGS__, TN_SITE)
#define tn_rnn_call(...) tn_rnn_call(__VA_ARGS__, TN_SITE)
#define tn_rnn_call_dense(...) tn_rnn_call_dense(__VA_ARGS__, TN_SITE)
#define tn_rnn_step(...) tn_rnn_step(__VA_ARGS__, TN_SITE)
#define tn_rnn_hook_pre(...) tn_rnn_hook_pre(__VA_ARGS__, TN_SITE)
#define tn_rnn_hook_post(...) tn_rnn_hook_post(__VA_ARGS__, TN_SITE)
#define tn_scan_begin(...) tn_scan_begin(__VA_ARGS__, TN_SITE)
#define tn_adamw(...) tn_adamw(__VA_ARGS__, TN_SITE)
#define tn_adam(...) tn_adam(__VA_ARGS__, TN_SITE)
#define tn_sgd(...) tn_sgd(__VA_ARGS__, TN_SITE)
#define tn_group(...) tn_group(__VA_ARGS__, TN_SITE)
#define tn_compile(...) tn_compile(__VA_ARGS__, TN_SITE)
#endif

#endif
