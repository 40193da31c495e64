// Tenure, recurrences: calls of recurrent modules, and scans, recurrences of the user's own.
#ifndef TN_RNN_H
#define TN_RNN_H

#include "hook.h"
#include "module.h"
#include "packed.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- recurrent calls. States are in the user's order, whatever the order of packing.
//
//   tn_rnn_output r = tn_rnn_call(rnn, tn_pack_padded(x, lengths));             // r.out, r.hidden, r.cell
//   tn_rnn_output d = tn_rnn_call_dense(rnn, x, .h0 = h, .c0 = c);   // d.dense, ..; no lengths
//   tn_rnn_step_output s = tn_rnn_step(rnn, token, .h0 = h, .c0 = c);
//
// H stands for hidden, P for proj_size where there is one, else H; D for layers * directions.
typedef struct {
  tn_packed out;      // [rows, directions * P]; empty after tn_rnn_call_dense
  tn_tensor dense;    // x's layout, directions * P features; empty after tn_rnn_call
  tn_tensor hidden;   // [D, B, P]
  tn_tensor cell;     // [D, B, H] of an LSTM; an empty handle otherwise
  tn_tensor last[2];  // private: the last layer's final states, by direction
  uint32_t n_last;    // private
} tn_rnn_output;
typedef struct {
  // [D, B, P], [D, B, H]; of a cell [B, H] both. Empty: zeros, to the bit: a weight that is NaN or infinite shows in
  // the first step as it does with zeros that are given. c0 is an LSTM's alone
  tn_tensor h0, c0;
} tn_rnn_state;
typedef struct {
  tn_tensor h0, c0;  // the initial state, as in tn_rnn_state
  tn_site at;
} tn_rnn_call_options;
typedef struct {
  tn_packed seq;  // one of both; the other is empty
  tn_tensor dense;
  tn_rnn_state initial;
} tn_rnn_input;  // what hooks see
typedef struct {
  tn_tensor out;     // [B, P]
  tn_tensor hidden;  // [layers, B, P]; of a cell [B, H], the same value as `out`
  tn_tensor cell;    // [layers, B, H]; of a cell [B, H]; empty unless an LSTM's
} tn_rnn_step_output;
// Packed data [rows, in] f32
TN_API tn_rnn_output tn_rnn_call(tn_module *m, tn_packed x, tn_rnn_call_options o);
// x f32 [T, B, in], or [B, T, in] with the option batch_first: sequences that all have T steps. Gives what a packed
// batch of B such lengths gives. Time-major data are worked on where they lie; batch-first data are copied into that
// order, and the result back. One sequence may come without its batch, x [T, in]: then nothing else has one either, h0
// and hidden are [D, P], cell [D, H], tn_last_hidden gives [directions * P].
TN_API tn_rnn_output tn_rnn_call_dense(tn_module *m, tn_tensor x, tn_rnn_call_options o);
// One step with x f32 [B, in], of a cell or of all layers of a module of one direction with its own weights.
// Dropout stands between layers as in a sequence. x [in]: one sequence, and no value has a batch.
TN_API tn_rnn_step_output tn_rnn_step(tn_module *m, tn_tensor x, tn_rnn_call_options o);
// The last layer's directions side by side: [B, directions * P]
TN_API tn_tensor tn_last_hidden(tn_rnn_output r, tn_site at);
// Hooks of a recurrent module: tn_rnn_call and tn_rnn_call_dense run them, in order, as tn_call does those of other
// modules. A hook returns what it was given, or a copy of that with values replaced by others of the same shape, dtype
// and layout (E118). What a pre-hook sees of the initial state is what the caller gave. Steps run no hooks.
typedef tn_rnn_input (*tn_rnn_pre_hook)(tn_module *m, tn_rnn_input in, void *ctx);
typedef tn_rnn_output (*tn_rnn_post_hook)(tn_module *m, tn_rnn_input in, tn_rnn_output out, void *ctx);
TN_API tn_hook *tn_rnn_hook_pre(tn_module *m, tn_rnn_pre_hook fn, void *ctx, tn_hook_options o);
TN_API tn_hook *tn_rnn_hook_post(tn_module *m, tn_rnn_post_hook fn, void *ctx, tn_hook_options o);

// ---- scans: a recurrence of your own. What is called between begin and end is the body, done once for each step; its
// code and the time to compile it do not depend on the number of steps. Gradients flow through inputs, carries and
// outside values that the body reads.
//
//   tn_scan *s = tn_scan_begin(f, .over = seq);   // or .steps = T: a dense axis of steps
//   tn_tensor x = tn_scan_input(s, seq.data);                         // this step's part
//   tn_tensor h = tn_scan_carry(s, h0);                               // what the step before left, h0 at first
//   tn_tensor next = tn_tanh(tn_add(tn_call(in, x), tn_call(hidden, h)));
//   tn_scan_next(s, h, next);
//   tn_tensor ys = tn_scan_output(s, next);                           // of all steps, for use after the end
//   tn_scan_end(s);
//   tn_tensor last = tn_scan_final(s, h);
//
// What the body makes belongs to a scope of the scan: used after the end, it is E103. Outside values may be read, and
// those of f32 written in place: each step writes what the step before left, as a carry does, and the handle shows the
// last content afterwards. Inputs of the scan and trainable parameters are not written inside (E113). Random numbers
// are new in every step. Scans nest up to 8 deep: over layers, with attention and a scan over time in each step. A gradient is
// taken outside (E009). Sequences are packed outside, too; what is packed is read in a step of a dense scan, but not in
// one of a packed scan, whose rows are those of the step (E009).
typedef struct {
  tn_packed over;    // packed sequences: as many steps as the longest has, each with the rows that are running
  tn_dim steps;      // or, without them, a number of steps
  int axis;          // of the steps in dense inputs; outputs have it first
  bool reverse;      // from the last step to the first; packed: each sequence from its own last one
  const char *name;  // NULL: "scan"
  tn_site at;
} tn_scan_options;
TN_API tn_scan *tn_scan_begin(tn_function *f, tn_scan_options o);
TN_API void tn_scan_end(tn_scan *s, tn_site at);
// Dense: [steps, ..] -> [..]. Packed: [rows, ..] -> [rows of this step, ..]; E004 for another number of steps or rows
TN_API tn_tensor tn_scan_input(tn_scan *s, tn_tensor xs, tn_site at);
TN_API tn_tensor tn_scan_input_packed(tn_scan *s, tn_packed xs, tn_site at);  // E111 for another layout
// f32. Packed: [batch, ..] in user order -> [rows of this step, ..]; a value without the batch axis is one for all
TN_API tn_tensor tn_scan_carry(tn_scan *s, tn_tensor h0, tn_site at);
// The carry h is `next` in the next step: the same shape (E004). Once for each carry.
TN_API void tn_scan_next(tn_scan *s, tn_tensor h, tn_tensor next, tn_site at);
// [..] -> [steps, ..]; packed: [rows of this step, ..] -> [rows, ..]
TN_API tn_tensor tn_scan_output(tn_scan *s, tn_tensor y, tn_site at);
// The carry h after the last step; packed: [batch, ..] in user order, after each sequence's own last step
TN_API tn_tensor tn_scan_final(tn_scan *s, tn_tensor h, tn_site at);

#ifdef __cplusplus
}
#endif

#endif
