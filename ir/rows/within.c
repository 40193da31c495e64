// What works within each sequence of a packed batch, beside what would mix them: the ways out that E130 names.
#include "ir/rows/rows.h"

typedef struct {
  Op op;
  bool reverse;      // with that attribute
  const char *text;  // an op; NULL: there is none
  const char *call;  // a public call
} Within;

static const Within list[] = {
    {OP_softmax, false, "seq_softmax", "tn_packed_softmax"},
    {OP_log_softmax, false, NULL, "tn_packed_log_softmax"},
    {OP_argmax, false, NULL, "tn_packed_argmax"},
    {OP_conv, false, "seq_windows", "tn_packed_conv1d"},
    {OP_conv_transpose, false, NULL, "tn_packed_conv1d"},
    {OP_sdpa, false, NULL, "tn_packed_attention"},
    {OP_max_pool, false, "seq_windows", "tn_packed_max_pool1d"},
    {OP_sum_pool, false, "seq_windows", "tn_packed_avg_pool1d"},
    {OP_cumsum, false, NULL, "tn_packed_cumsum"},
    {OP_cumprod, false, NULL, "tn_packed_cumprod"},
    {OP_logcumsumexp, false, NULL, "tn_packed_logcumsumexp"},
    {OP_cummax, false, NULL, "tn_packed_cummax"},
    {OP_cummin, false, NULL, "tn_packed_cummin"},
    {OP_linear_scan, false, NULL, "tn_packed_linear_scan"},
    {OP_sort, false, NULL, "tn_packed_sort"},
    {OP_topk, false, NULL, "tn_packed_sort"},
    {OP_kth_value, false, NULL, "tn_packed_sort"},
    {OP_median, false, NULL, "tn_packed_sort"},
    {OP_concat, false, NULL, "tn_packed_concat_time"},
    {OP_gather, false, "seq_row", "tn_packed_step_at"},
    {OP_scatter, false, "seq_row", "tn_packed_step_at"},
    {OP_windows, false, "seq_windows", "tn_packed_unfold"},
    {OP_slice, true, "seq_reverse", "tn_packed_reverse"},
    {OP_slice, false, "seq_row", "tn_packed_slice"},
};

const char *ir_works_within(Op op, const Attr *attrs, uint32_t n_attrs, bool as_call) {
  bool reverse = false;
  for (uint32_t k = 0; k < n_attrs; k++) reverse |= attrs[k].key == KEY_reverse;
  for (uint32_t k = 0; k < sizeof list / sizeof *list; k++)
    if (list[k].op == op && (reverse || !list[k].reverse)) return as_call ? list[k].call : list[k].text;
  return NULL;
}
