// What the recurrent modules share: sizes, parameters by part and layer, states.
#ifndef TN_FRONTEND_MODULE_RNN_H
#define TN_FRONTEND_MODULE_RNN_H

#include "frontend/module/grad_hook.h"
#include "frontend/tenure/rnn.h"

// A call that is being built: the whole sequence, or one step.
typedef struct {
  tn_module *m;
  tn_function *f;
  tn_tensor layout;  // of a sequence
  tn_rnn_state initial;
  tn_site at;
  Dim batch;
} RnnCall;

static inline int64_t fe_rnn_state_size(const tn_module *m) { return m->config.proj ? m->config.proj : m->config.out; }
static inline bool fe_rnn_has_cell(const tn_module *m) { return m->config.n_gates == 4; }
tn_tensor fe_rnn_weight(const RnnCall *c, const char *part, uint32_t layer, bool reverse);
// Row k of a stacked state [layers * directions, B, ..], as [B, ..]. `cell`: of the cell state.
tn_tensor fe_rnn_initial(const RnnCall *c, bool cell, uint32_t k);  // of a state that was given
bool fe_rnn_given(const RnnCall *c, bool cell);
// n states [B, ..] stacked to [n, B, ..]
tn_tensor fe_rnn_stack(const RnnCall *c, const tn_tensor *state, uint32_t n);
bool fe_rnn_check_module(tn_module *m, tn_function *f, bool cell_fits, tn_site at);  // false: reported
// Hooks: replaces the inputs; false: reported
bool fe_rnn_pre_hooks(tn_module *m, tn_rnn_input *in, tn_site at);
bool fe_rnn_post_hooks(tn_module *m, const tn_rnn_input *in, tn_rnn_output *out, tn_site at);
// Hooks on gradients of the data, of given initial states, and of results; NULL: there are none
FeTapCall *fe_rnn_tap_inputs(tn_module *m, tn_rnn_input *in, tn_site at);
void fe_rnn_tap_outputs(FeTapCall *c, tn_module *m, tn_rnn_output *out, tn_site at);
// The given states have the right shapes and live in c->f; false: reported
bool fe_rnn_check_initial(const RnnCall *c, tn_tensor x);

// A single sequence without a batch axis: checks the initial state and adds the axis.
bool fe_rnn_widen(RnnCall *c, tn_tensor x);
tn_tensor fe_with_batch(tn_tensor t, uint32_t axis, tn_site at);  // t with an axis of size 1 there
tn_tensor fe_without_batch(tn_tensor t, uint32_t axis, tn_site at);

#endif
