// Tenure, modules: parameters, variables by path, layers, attention.
#ifndef TN_MODULE_H
#define TN_MODULE_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- parameters: the table of the program; a parameter's initial value is a graph, run by tn_initialize
typedef enum { TN_INIT_ZEROS, TN_INIT_CONSTANT, TN_INIT_UNIFORM, TN_INIT_NORMAL } tn_init_kind;
typedef struct {
  tn_init_kind kind;
  double a, b;  // CONSTANT: a; UNIFORM: [a, b); NORMAL: mean a, standard deviation b
} tn_init;
TN_API tn_module *tn_root(tn_program *p);
TN_API tn_module *tn_module_new(tn_module *parent, const char *name, tn_site at);
TN_API tn_module *tn_child(tn_module *m, const char *name);  // NULL: none
// Wherever a call takes the name of an entry that is there, it also takes its path below m, as tn_named_parameters gives
// it: tn_param_value(f, tn_root(p), "enc.fc.weight").
// Shape of constants. In the root module the names "optimizer", "tenure" and "__metadata__" are kept for files.
TN_API void tn_parameter(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at);
TN_API void tn_buffer(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at);  // saved, not trained
// A second path to one parameter
TN_API void tn_share(tn_module *m, const char *name, tn_module *from, const char *from_name, tn_site at);
// Its value in this function
TN_API tn_tensor tn_param_value(tn_function *f, tn_module *m, const char *name, tn_site at);
// Parameters below m get no gradient in functions built afterwards. In a function that used them before, it changes nothing: W132
TN_API void tn_freeze(tn_module *m, bool frozen, tn_site at);

// ---- parameters made of values. The function that makes initial values is built as any other, but not ended:
//
//   tn_function *init = tn_init_function(p);
//   tn_tensor w = tn_mul_scalar(tn_randn(init, TN_SHAPE(4, 8)), 0.1);
//   tn_parameter_adopt(fc, "weight", w);       // w was its handle; from now on it is "fc.weight"
//
// A parameter is the value it was made of, under a new owner: nothing is counted twice, the old handle is dead (E102).
TN_API tn_function *tn_init_function(tn_program *p);
// The same value as a parameter that no module has yet, in the scope of t; usable in the init function. Of such a parameter: it
// is taken over once more, and t is dead.
TN_API tn_tensor tn_as_parameter(tn_tensor t, tn_site at);
// Gives m a parameter of that name: takes t over, detaches it from its scope, and disposes the one that had the name.
// The same one again: nothing. TN_NONE: no parameter of that name from now on (a linear module without bias).
TN_API void tn_parameter_adopt(tn_module *m, const char *name, tn_tensor t, tn_site at);
// For one made by tn_as_parameter that no scope owns (E109), under a name that is free (E110)
TN_API void tn_register(tn_module *m, const char *name, tn_tensor p, tn_site at);
TN_API void tn_buffer_adopt(tn_module *m, const char *name, tn_tensor t, bool persistent, tn_site at);
TN_API void tn_reshapable(tn_module *m);  // its parameters may be replaced by others of another shape (else E111)
// A second path to a module: its parameters as they are now, each with a second path
TN_API tn_module *tn_share_module(tn_module *parent, const char *name, tn_module *from, tn_site at);
// Ends all parameters below m. Functions built so far keep theirs; a later use is E101.
TN_API void tn_module_dispose(tn_module *m, tn_site at);
// Writes up to `max` names relative to m, own ones first, then the children's in order; gives their number.
// UNIQUE: each parameter once, under its first name. ALIASES: under all of its names. STATE_DICT: all names, saved
// buffers after the parameters of each module. BUFFERS: all of them, saved or not.
typedef enum { TN_NAMES_UNIQUE, TN_NAMES_ALIASES, TN_NAMES_STATE_DICT, TN_NAMES_BUFFERS } tn_names;
TN_API uint32_t tn_named_parameters(const tn_module *m, tn_names which, const char **out, uint32_t max);

// ---- variables by path: the tree of modules read as a store. Paths are names joined by '.' or '/'. A pattern is a
// path in which `*` stands for any characters of one name and `**` for any names; it also matches all below what it
// names: "enc" means enc.w and enc.sub.w, never enc2.w. NULL matches everything.
//
//   tn_param_at_path(tn_root(p), "a/b/w", TN_SHAPE(3), (tn_init){TN_INIT_ZEROS});
//   loss = tn_add(loss, tn_mul_scalar(tn_l2(f, tn_root(p), "**/weight"), 1e-4));
// Modules on the way are found or made
TN_API tn_module *tn_module_at_path(tn_module *m, const char *path, tn_site at);
// The parameter at a path below m: found, with the same shape (E111), or made
TN_API void tn_param_at_path(tn_module *m, const char *path, tn_shape s, tn_init init, tn_site at);
// A buffer that is not saved and not asked for on loading
TN_API void tn_transient_buffer(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at);
typedef enum { TN_EVERYTHING, TN_PARAMETERS, TN_TRAINABLE /* and not frozen */, TN_NON_PARAMETERS } tn_which;
typedef struct {
  tn_which which;
  const char *pattern;
  bool aliases;  // every path of a shared entry; else its first one only
} tn_variable_options;
typedef struct {
  const char *path;   // below the module that was asked; texts live as long as the program
  tn_module *module;  // tn_param_value(f, v.module, v.name) is its value in a function
  const char *name;
  uint32_t rank, group;
  int64_t dims[8];
  bool is_buffer, is_frozen, is_alias;  // is_alias: an earlier path names it too
  tn_dtype dtype;
} tn_variable;
// In PyTorch's named_parameters order: own entries as declared, then children depth-first; a shared entry stands at its
// first path that matches. Gives the number of all; writes at most `max`. Options NULL: all.
TN_API uint32_t tn_variables(const tn_module *m, const tn_variable_options *o, tn_variable *out, uint32_t max);
TN_API void tn_freeze_path(tn_module *m, const char *pattern, bool frozen, tn_site at);  // as tn_freeze
// Parameters and buffers below m that match are stored as t, from their first value on: floats as another float, buffers
// as whole numbers or bool too; whole numbers stay what they are where t is a float, as in PyTorch's module.to(dtype).
// Before any function uses a parameter (E009), and not of trained ones for whole numbers (E005). A constant that a
// buffer begins with is one that t holds. Modules compute with f16 and bf16 as f32, and so does who casts:
//
//   tn_buffer(net, "seen", TN_SCALAR, (tn_init){TN_INIT_ZEROS, 0, 0});
//   tn_store_as(net, "seen", TN_I64);                       // a counter
//   tn_store_as(tn_root(p), "encoder", TN_BF16);            // half the memory; docs/dtypes.md says how it is trained
TN_API void tn_store_as(tn_module *m, const char *pattern, tn_dtype t, tn_site at);
// Sum of magnitudes, or of squares, of all elements of the trainable parameters below m that match
TN_API tn_tensor tn_l1(tn_function *f, tn_module *m, const char *pattern, tn_site at);
TN_API tn_tensor tn_l2(tn_function *f, tn_module *m, const char *pattern, tn_site at);

// ---- modules. Parameter names, shapes, gate order and initialisation are PyTorch's.
typedef struct {
  bool no_bias;
  tn_site at;
} tn_linear_options;
typedef struct {
  bool bidirectional, no_bias;
  uint32_t n_layers;  // 0: 1
  double dropout;     // between layers
  bool batch_first;   // dense input and output are [B, T, ..]; else [T, B, ..]
  int64_t proj_size;  // LSTM: h has this size, below `hidden` (weight_hr_l0, ..); 0: none
  tn_site at;
} tn_rnn_options;
typedef struct {
  bool no_bias;
  tn_site at;
} tn_rnn_cell_options;
TN_API tn_module *tn_linear(tn_module *parent, const char *name, int64_t in, int64_t out, tn_linear_options o);
TN_API tn_module *tn_lstm(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_options o);
TN_API tn_module *tn_gru(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_options o);
TN_API tn_module *tn_rnn(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu, tn_rnn_options o);
// One step: weight_ih [gates * hidden, in], weight_hh, bias_ih, bias_hh; called by tn_rnn_step
TN_API tn_module *tn_lstm_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_cell_options o);
TN_API tn_module *tn_gru_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_cell_options o);
TN_API tn_module *tn_rnn_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu,
                              tn_rnn_cell_options o);
// y = a^T weight b + bias of a [.., in_a] and b [.., in_b] -> [.., out]: weight [out, in_a, in_b], bias [out]; other
// shapes are E004
TN_API tn_module *tn_bilinear(tn_module *parent, const char *name, int64_t in_a, int64_t in_b, int64_t out,
                              tn_linear_options o);
TN_API tn_tensor tn_bilinear_call(tn_module *m, tn_tensor a, tn_tensor b, tn_site at);
// weight [count, size]; index i64 [..] -> [.., size]
typedef struct {
  bool has_padding;     // row padding_idx begins as zeros and has no gradient
  int64_t padding_idx;  // negative: from the end; not read without has_padding
  // Rows that are asked for and whose 2-norm is larger are shortened to it, in the table itself, as PyTorch's are: by
  // every call, in evaluation too, and without a gradient. 0: none
  double max_norm;
  tn_site at;
} tn_embedding_options;
TN_API tn_module *tn_embedding(tn_module *parent, const char *name, int64_t count, int64_t size,
                               tn_embedding_options o);
TN_API tn_module *tn_dropout_module(tn_module *parent, const char *name, double p, tn_site at);
TN_API tn_module *tn_alpha_dropout_module(tn_module *parent, const char *name, double p, tn_site at);
TN_API tn_module *tn_feature_alpha_dropout_module(tn_module *parent, const char *name, double p, tn_site at);
TN_API tn_module *tn_identity(tn_module *parent, const char *name, tn_site at);
// Joins the axes first_axis to last_axis: 1 and -1 are PyTorch's Flatten()
TN_API tn_module *tn_flatten_module(tn_module *parent, const char *name, int first_axis, int last_axis, tn_site at);
// One axis becomes those of `sizes`, as tn_unflatten has it
TN_API tn_module *tn_unflatten_module(tn_module *parent, const char *name, int axis, tn_shape sizes, tn_site at);
// "relu", "tanh", any unary row, and the numbers of its call in their order: tn_activation(net, "1", "leaky_relu", .numbers = {0.1})
typedef struct {
  double numbers[4];
  tn_site at;
} tn_activation_options;
TN_API tn_module *tn_activation(tn_module *parent, const char *name, const char *op, tn_activation_options o);
TN_API tn_module *tn_softmax_module(tn_module *parent, const char *name, int axis, tn_site at);
TN_API tn_module *tn_log_softmax_module(tn_module *parent, const char *name, int axis, tn_site at);
// "glu", "swiglu", "geglu" or "reglu": tn_glu and its kin along an axis
TN_API tn_module *tn_gate_module(tn_module *parent, const char *name, const char *kind, int axis, tn_site at);
// tn_prelu with the parameter "weight" [count], which begins as 0.25: one slope, or one for each channel
TN_API tn_module *tn_prelu_module(tn_module *parent, const char *name, int64_t count, tn_site at);
TN_API tn_module *tn_rrelu_module(tn_module *parent, const char *name, double lo, double hi, tn_site at);  // tn_rrelu
typedef struct {
  bool no_weight, no_bias;  // no_weight: no bias either
  double eps;               // 0: 1e-5 for layer norm, 2^-23 for RMS norm
  tn_site at;
} tn_norm_options;
// Over the last axes, whose constant sizes are `normalized`, as TN_SHAPE(256); "weight" begins as 1, "bias" as
// 0
TN_API tn_module *tn_layer_norm(tn_module *parent, const char *name, tn_shape normalized, tn_norm_options o);
TN_API tn_module *tn_rms_norm(tn_module *parent, const char *name, tn_shape normalized, tn_norm_options o);
// Norms of channels, x f32 [N, C, ..] -> its shape: PyTorch's BatchNorm1d, InstanceNorm1d and GroupNorm. A packed batch
// is N rows of C channels (tn_packed_call). Another number of channels is E004, as is a batch norm in training, or an
// instance norm, of a constant single value for each channel.
//
// Batch norm: over N and all axes behind C. In training by the batch's mean and (biased) variance, which also go into
// the buffers running_mean [C] and running_var [C] (unbiased); in functions marked by tn_eval by those. Any other
// function that calls it updates them, as PyTorch's do in training mode; num_batches_tracked, i64 [], counts. A batch without
// values leaves them as they are, and counts.
typedef struct {
  double eps;             // 0: 1e-5
  double momentum;        // share of the newest batch in the running statistics; 0: 0.1
  bool cumulative;        // they are means over all batches so far, whatever the momentum: PyTorch's momentum=None
  bool no_affine;         // no "weight" [C], which begins as 1, and no "bias" [C], 0
  bool no_bias;           // no "bias" alone
  bool no_running_stats;  // none are kept: evaluation goes by the batch too
  tn_site at;
} tn_batch_norm_options;
TN_API tn_module *tn_batch_norm(tn_module *parent, const char *name, int64_t channels, tn_batch_norm_options o);
// Instance norm: over the axes behind C, for each sample; x [C, L] is one sample, and each sequence of a packed batch [rows, C]
// is one whose steps are L.
typedef struct {
  double eps;          // 0: 1e-5
  bool affine;         // "weight" [C] and "bias" [C]
  bool no_bias;        // "weight" alone
  bool running_stats;  // as batch norm has them: means over the samples of a batch, which are not counted
  double momentum;     // 0: 0.1
  tn_site at;
} tn_instance_norm_options;
TN_API tn_module *tn_instance_norm(tn_module *parent, const char *name, int64_t channels, tn_instance_norm_options o);
// Group norm: over C / groups channels and all axes behind, for each sample; `groups` divides `channels`
TN_API tn_module *tn_group_norm(tn_module *parent, const char *name, int64_t groups, int64_t channels,
                                tn_norm_options o);
// Children are made with it as parent and called in order
TN_API tn_module *tn_sequential(tn_module *parent, const char *name, tn_site at);
// Children are made with it as parent, and called by whoever asks for them. A child of a list or a sequence that is
// given no name (NULL) has its number, "0", "1", ..
TN_API tn_module *tn_module_list(tn_module *parent, const char *name, tn_site at);
TN_API uint32_t tn_n_children(const tn_module *m);
TN_API tn_module *tn_child_at(const tn_module *m, int k);            // -1: the last; NULL: none
TN_API tn_tensor tn_call(tn_module *m, tn_tensor x, tn_site at);     // pre-hooks, forward, post-hooks
TN_API tn_tensor tn_forward(tn_module *m, tn_tensor x, tn_site at);  // forward alone; children run their hooks
// Memory for time: what calls of m behind this line compute is not kept for the backward, but computed again when the backward
// of the call begins, as PyTorch's torch.utils.checkpoint does it. The inputs of each call are kept. Results have the same bits,
// random masks too. It is done whether the arena becomes smaller by it or not; tn_plan.n_again and .again_flops say what runs
// again. What cannot run again is kept: scans, updates, writes in place (docs/memory.md). Where nothing does: W138. Checkpoints
// within one another and arena_limit may be combined. To begin with, the layers of a stack, each one for itself:
//
//   tn_module *enc = tn_transformer_encoder(net, "encoder", 64, 4, 12);
//   for (int k = 0; k < 12; k++) tn_checkpoint(tn_child_at(tn_child(enc, "layers"), k));
TN_API void tn_checkpoint(tn_module *m, tn_site at);
// Dropout does nothing in functions marked so, and batch norms use their running statistics: what is built after this call.
// What was built before stays as it is: W132
TN_API void tn_eval(tn_function *f, bool eval, tn_site at);

// ---- attention: softmax(q k^T scale) v by heads. No matrix of queries by keys is ever in memory, forward or backward, but where
// the weights are asked for, or gradients of its gradients are taken: it takes memory for q, k, v and the result, and 4 bytes
// for each query and head.
//
//   tn_module *a = tn_multi_head_attention(block, "attn", 256, 4, .causal = true);
//   x = tn_add(x, tn_call(a, x));                       // self-attention of [B,T,256]
//   y = tn_attention_call(a, q, memory, TN_NONE);  // queries of one sequence, keys and values of another
//   tn_tensor w;                                   // what PyTorch's MultiheadAttention gives beside y
//   y = tn_attention_call(a, q, memory, TN_NONE, .weights = &w, .average_weights = true);
typedef struct {
  bool causal;        // query i sees keys 0 to i + offset, counted from the first of each
  double scale;       // 0: 1 / sqrt(D)
  double dropout;     // of the probabilities, in [0, 1); none in functions marked by tn_eval
  tn_tensor lengths;  // i64 [B], each in [0, T of the keys]: keys from there on are padding; TN_NONE: there is none
  bool heads_inside;  // q, k, v and the result are [B,T,H,D] instead
  // f32, added to the scaled scores: [B,H,Tq,Tk] or what broadcasts to it, as NumPy has it ([Tq,Tk], ALiBi's [H,1,Tk]);
  // -inf hides a key. Its gradient is summed over what it is broadcast to. Without an axis of heads: [B,Tq,Tk]
  tn_tensor bias;
  // bool or f32, broadcast as the bias: a query may attend to a key where it is true, or not 0; PyTorch's attn_mask
  tn_tensor mask;
  // Of causal order and window: i64 [], or [B] of each sequence, any number, where it comes at run time; else
  tn_tensor offset;
  int64_t const_offset;  // this one, between -2^30 and 2^30
  int64_t window;  // query i sees the last so many keys up to key i + offset; without causal order those less than
                   // so many keys away from it, on both sides; 0: all
  // Not NULL: takes the weights of the values too, f32 [B,H,Tq,Tk], behind dropout as PyTorch's: 0 for keys that are not seen.
  // They have gradients. Without the axis of heads, or of batches too: [B,Tq,Tk] and [Tq,Tk]. The result is the same without
  // them; their matrix takes memory and one more product
  tn_tensor *weights;
  bool average_weights;  // their mean over the heads [B,Tq,Tk] instead, as PyTorch's average_attn_weights gives
  // Of modules, of x to itself: what one run of decoding adds to slots (tenure/decode.h). x is [rows,E] of the run's rows; keys and
  // values go to the module's cache of these slots. Beside it only causal, which is implied, scale and window (E003)
  const struct tn_slot_run *slots;
  tn_site at;
} tn_attention_options;
// q [B,H,Tq,D], k and v [B,G,Tk,D] -> [B,H,Tq,D]; without the axis of heads, [B,T,D], or without both, [T,D]. H and D
// are constants, D at most 8192. H is a multiple of G: H / G heads one after the other share the keys and values of one
// (grouped queries; G = 1: multi-query), which are not repeated in memory. A query that sees no key gives zeros and has
// no gradient, as in PyTorch.
TN_API tn_tensor tn_scaled_dot_product_attention(tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o);
// qkv [B,T,3,H,D], as one projection makes all three -> [B,T,H,D]; heads_inside is not read
TN_API tn_tensor tn_attention_packed(tn_tensor qkv, tn_attention_options o);
// Attention within each sequence of packed rows: q [rows,H,D], k and v [rows,G,D] -> [rows,H,D] in the layout of q. k and v
// have one layout (E111), of the same batch as q's: the same one (self-attention), or another (encoder and decoder). No score of
// two sequences is computed, and no padding. Options as above, steps counted within each sequence; bias, mask and weights are
// [B,H,Tq,Tk], B in user order, T the time axes that were packed. lengths is refused (E003): the layout has them. An empty sequence
// of keys gives zeros. Dropout and results are those of the padded sequences. heads_inside is not read.
//
//   tn_packed heads = tn_pack_padded(tn_reshape(x, TN_SHAPE(32, 50, 4, 64)), lengths);
//   tn_packed seen = tn_packed_attention(heads, heads, heads, .causal = true);        // [rows, 4, 64]
//   tn_packed words = tn_packed_call(tn_transformer_encoder_layer(root, "enc", 256, 4), tn_pack_padded(x, lengths));
TN_API tn_packed tn_packed_attention(tn_packed q, tn_packed k, tn_packed v, tn_attention_options o);
typedef struct {
  bool causal, no_bias;
  double dropout;
  // Of k and v, PyTorch's kdim and vdim; 0: size. Of another size there are q_proj_weight [E,E], k_proj_weight [E,key_size] and
  // v_proj_weight [E,value_size] in place of in_proj_weight
  int64_t key_size, value_size;
  // PyTorch's add_bias_kv and add_zero_attn: one more key and value that every query sees, bias_k and bias_v [1,1,E]; zeros.
  // Lengths, masks, causal order and window are those of the other keys. A window, or an offset that is no constant from 0
  // on, takes a mask of queries by keys in memory
  bool bias_kv, zero_attn;
  tn_site at;
} tn_multi_head_options;
// PyTorch's MultiheadAttention with batch_first, its names and initialisation: in_proj_weight [3E,E], in_proj_bias,
// out_proj.weight, out_proj.bias. `size` is a multiple of `heads`. tn_call is self-attention.
TN_API tn_module *tn_multi_head_attention(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                          tn_multi_head_options o);
// q [B,Tq,E], k and v [B,Tk,E] -> [B,Tq,E], or all without the axis B; k TN_NONE: q, v TN_NONE: k. A mask or bias with three
// axes is [H,Tq,Tk]. Weights are [B,H,Tq,Tk], or [H,Tq,Tk]; those of bias_k and of zeros stand behind those of k, in this
// order. The module's own hooks do not run, those of out_proj do.
TN_API tn_tensor tn_attention_call(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o);

// Rotary position embedding of x f32 [..,T,D], as queries and keys are: pairs of elements of a head turn by t base^(-2 k / size),
// t the position, k the number of the pair. D is a constant; T may be a size of the run.
//
//   tn_tensor pos = tn_kv_cache_position(f, cache);
//   q = tn_rope(q, .heads_inside = true, .offset = pos, .most = 1024);   // q, k [B,n,H,D] of n new steps
//   k = tn_rope(k, .heads_inside = true, .offset = pos, .most = 1024);
//   y = tn_kv_cache_attend(cache, q, k, v);
//
// A position of the run that is not below `most` is refused as the start of a slice is (tn_slice_at).
typedef struct {
  bool interleaved;   // pairs (0, 1), (2, 3), .., as of GPT-J; else (0, size / 2), (1, size / 2 + 1), .., as of Llama
  bool heads_inside;  // x is [..,T,H,D]
  double base;        // 0: 10000
  int64_t size;       // how many elements turn, the first ones of a head, an even number; 0: all
  tn_tensor offset;   // position of the first step: i64 [], where it comes at run time; else
  int64_t const_offset;  // this one
  tn_tensor positions;   // i64 [T]: that of each step instead, such as tn_slot_run's steps (tenure/decode.h)
  int64_t most;          // positions that there are; 0, without `offset` and `positions`: those of the bound of T
  tn_site at;
} tn_rope_options;
TN_API tn_tensor tn_rope(tn_tensor x, tn_rope_options o);

// Positional encodings: x f32 [.., T, size] + the first T of `most` rows; T may be a size of the run, and E004 is one that
// may be larger. Sinusoidal: row k has sin(k w), cos(k w) side by side for w = base^(-2 i / size), i from 0 on, and is a
// buffer "pe" that is not saved; size is even. Learned: "weight" [most, size], which begins as an embedding's.
typedef struct {
  double base;     // of the frequencies; 0: 10000
  double dropout;  // of the sum
  tn_site at;
} tn_position_options;
TN_API tn_module *tn_sinusoidal_positions(tn_module *parent, const char *name, int64_t most, int64_t size,
                                          tn_position_options o);
TN_API tn_module *tn_learned_positions(tn_module *parent, const char *name, int64_t most, int64_t size,
                                       tn_position_options o);

// ---- transformers: PyTorch's layers with batch_first, and its names: self_attn, multihead_attn, linear1, linear2, norm1,
// norm2, norm3, and of stacks layers.0, layers.1, .., norm. x and the result are f32 [B,T,size], memory [B,S,size]; or all lack the
// axis B.
//
//   tn_module *enc = tn_transformer_encoder(net, "encoder", 64, 4, 2, .feedforward = 256, .norm_first = true);
//   tn_tensor memory = tn_encoder_call(enc, x, .lengths = lengths);         // tn_call(enc, x): no mask
//   tn_tensor y = tn_decoder_call(dec, target, memory, .self = {.causal = true}, .cross = {.lengths = lengths});
//
// Every part runs with its hooks, but for multihead_attn, which has two inputs.
typedef struct {
  int64_t feedforward;     // size between linear1 and linear2; 0: 2048
  double dropout;          // of attention, behind the activation and behind each block; 0: none, where PyTorch's is 0.1
  const char *activation;  // a unary operation; NULL: "relu"
  double eps;              // of the norms; 0: 1e-5
  bool norm_first;         // x + f(norm(x)) instead of norm(x + f(x))
  bool no_bias;            // none in attention, linear layers and norms
  bool final_norm;         // of a stack: "norm" behind the last layer
  tn_site at;
} tn_transformer_options;
TN_API tn_module *tn_transformer_encoder_layer(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                               tn_transformer_options o);
TN_API tn_module *tn_transformer_decoder_layer(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                               tn_transformer_options o);
TN_API tn_module *tn_transformer_encoder(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                         int64_t n_layers, tn_transformer_options o);
TN_API tn_module *tn_transformer_decoder(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                         int64_t n_layers, tn_transformer_options o);
// Of a layer or a stack: the options are those of self-attention. Weights are those of a layer; a stack has none to give
TN_API tn_tensor tn_encoder_call(tn_module *m, tn_tensor x, tn_attention_options o);
typedef struct {
  tn_attention_options self, cross;  // of x to x; of x to memory
  tn_site at;
} tn_decoder_options;
TN_API tn_tensor tn_decoder_call(tn_module *m, tn_tensor x, tn_tensor memory, tn_decoder_options o);
// PyTorch's Transformer: "encoder" and "decoder" as above, each with its final norm, and matrices that begin as Xavier's
// uniform values. final_norm is not read.
//
//   tn_module *m = tn_transformer(net, "model", 64, 4, 2, 2, .feedforward = 256);
//   y = tn_transformer_call(m, source, target, .target = {.causal = true}, .memory = {.lengths = lengths},
//                           .source = {.lengths = lengths});
TN_API tn_module *tn_transformer(tn_module *parent, const char *name, int64_t size, int64_t heads, int64_t n_encoder,
                                 int64_t n_decoder, tn_transformer_options o);
typedef struct {
  tn_attention_options source, target,
      memory;  // of source to itself; of target to itself; of target to what is encoded
  tn_site at;
} tn_transformer_call_options;
// source [B,S,size], target [B,T,size] -> [B,T,size]. Encoder and decoder run with their hooks, m's own do not.
TN_API tn_tensor tn_transformer_call(tn_module *m, tn_tensor source, tn_tensor target, tn_transformer_call_options o);

// ---- caches of keys and values, for decoding step by step: kept between runs, in no file
//
//   tn_module *cache = tn_kv_cache(block, "cache", 1, 12, 1024, 64);
//   y = tn_kv_cache_attend(cache, q, k, v);            // q, k and v [1,n,12,64] of the n new steps
//
// Functions of one program share it: one that reads a prompt, with a run-time n, and one that goes on with n = 1.
// Holds `steps` steps of `batch` sequences with so many heads of keys; no size above 2^24
TN_API tn_module *tn_kv_cache(tn_module *parent, const char *name, int64_t batch, int64_t heads, int64_t steps,
                              int64_t size, tn_site at);
// Writes the n new steps behind those held, and lets their queries see all up to their own place, as the options say
// (window, bias, mask, scale; heads_inside is not read, an offset is E003). q [B,n,H,D], k and v [B,n,G,D] f32, H a multiple of
// G (E004) -> [B,n,H,D]. A run in which they do not fit any more fails, says so, and leaves the cache as it was.
TN_API tn_tensor tn_kv_cache_attend(tn_module *cache, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o);
TN_API tn_tensor tn_kv_cache_position(tn_function *f, tn_module *cache, tn_site at);  // i64 []: steps held by now
TN_API void tn_kv_cache_reset(tn_function *f, tn_module *cache, tn_site at);          // holds none from here on

#ifdef __cplusplus
}
#endif

#endif
