// net: a neural network, compiled to net.o by tenure 0.1.0 for x86-64-v3. Written by the compiler.
//
// Link the object and call it: it needs no library, allocates nothing and has no variables of its own. All
// memory is yours:
//
//   state   parameters, buffers and what optimizers keep: lives on between calls, is saved and loaded
//   arena   scratch of one call: what it holds may be lost between calls
//
//   static net_state state;
//   static NET_ALIGNED unsigned char arena[NET_ARENA_BYTES];
//   int status = net_init(&state, 1);
//   net_step_in in = {.batch = batch, .x = x, .label = label};
//   net_step_out out = {.loss = loss};
//   status = net_step(&state, arena, sizeof arena, &in, &out);
//   if (status) puts(net_error(status));
//
// First net_init, or net_init and then net_load; then any calls in any order. Calls on one state or with one
// arena come one at a time; two states are two independent networks.
//
// Calls give 0 or a status, which net_error puts into words. Everything is checked before anything is written:
// a call that is refused changes neither state nor outputs.
#ifndef NET_H
#define NET_H

#include <stddef.h>
#include <stdint.h>

#define NET_ABI 1  // of net_info; changes with its structs
#define NET_PLAN 0x4509a814ffcc0349u  // of program, options and targets; in every state and saved file

// Largest sizes
#define NET_BATCH_MAX 8

// Of the state and of arenas
#define NET_ALIGN 64
#if defined(__cplusplus)
#define NET_ALIGNED alignas(64)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define NET_ALIGNED _Alignas(64)
#elif defined(__GNUC__)
#define NET_ALIGNED __attribute__((aligned(64)))
#else
#define NET_ALIGNED  // then it is up to you
#endif

// Bytes
#define NET_STATE_BYTES 2496
#define NET_ARENA_BYTES 3648  // enough for every function
#define NET_STEP_ARENA_BYTES 3648
#define NET_PREDICT_ARENA_BYTES 1152
#define NET_FILE_BYTES 3672  // of what net_save writes

#ifdef __cplusplus
extern "C" {
#endif

// Made by net_init and net_load, changed by functions that train. Parameters may be read and written between
// calls.
typedef struct net_state {
  NET_ALIGNED uint64_t plan;  // NET_PLAN, once it is initialised
  uint64_t seed, counter;  // of the random numbers: the same two draw the same
  uint32_t target;         // whose code runs
  uint32_t reserved[9];
  float hidden_weight[16][6];  // weight: hidden.weight, tests/test_open_bundle.c:18
  float hidden_bias[16];  // weight: hidden.bias, tests/test_open_bundle.c:18
  float head_weight[3][16];  // weight: head.weight, tests/test_open_bundle.c:18
  float head_bias[3];  // weight: head.bias, tests/test_open_bundle.c:18
  unsigned char padding[52];
  float optimizer_lr;  // optimizer: optimizer.lr
  unsigned char padding_2[60];
  float optimizer_weight_decay;  // optimizer: optimizer.weight_decay
  unsigned char padding_3[60];
  float optimizer_exp_avg_hidden_weight[16][6];  // optimizer: optimizer.exp_avg.hidden.weight
  float optimizer_exp_avg_sq_hidden_weight[16][6];  // optimizer: optimizer.exp_avg_sq.hidden.weight
  float optimizer_step_hidden_weight;  // optimizer: optimizer.step.hidden.weight
  unsigned char padding_4[60];
  float optimizer_lr_7;  // optimizer: optimizer.lr.7
  unsigned char padding_5[60];
  float optimizer_weight_decay_7;  // optimizer: optimizer.weight_decay.7
  unsigned char padding_6[60];
  float optimizer_exp_avg_hidden_bias[16];  // optimizer: optimizer.exp_avg.hidden.bias
  float optimizer_exp_avg_sq_hidden_bias[16];  // optimizer: optimizer.exp_avg_sq.hidden.bias
  float optimizer_exp_avg_head_weight[3][16];  // optimizer: optimizer.exp_avg.head.weight
  float optimizer_exp_avg_sq_head_weight[3][16];  // optimizer: optimizer.exp_avg_sq.head.weight
  float optimizer_exp_avg_head_bias[3];  // optimizer: optimizer.exp_avg.head.bias
  unsigned char padding_7[52];
  float optimizer_exp_avg_sq_head_bias[3];  // optimizer: optimizer.exp_avg_sq.head.bias
  unsigned char padding_8[52];
} net_state;
#if defined(__cplusplus)
static_assert(sizeof(net_state) == NET_STATE_BYTES, "layout");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(net_state) == NET_STATE_BYTES, "layout");
#else
typedef char NET_CHECK_SIZE[sizeof(net_state) == NET_STATE_BYTES ? 1 : -1];
#endif

// Second names of parameters: state.NET_ALIAS_optimizer_step_hidden_bias
#define NET_ALIAS_optimizer_step_hidden_bias optimizer_step_hidden_weight  // optimizer.step.hidden.bias
#define NET_ALIAS_optimizer_step_head_weight optimizer_step_hidden_weight  // optimizer.step.head.weight
#define NET_ALIAS_optimizer_step_head_bias optimizer_step_hidden_weight  // optimizer.step.head.bias

// Which target's code this CPU runs, by its place in net_about.targets; -1: it lacks instructions of all of them.
int net_cpu(void);
// Draws initial parameters: the same for the same seed. Never fails on memory that fits and is aligned, on a CPU
// that net_cpu accepts.
int net_init(net_state *state, uint64_t seed);
// A safetensors file that lies in memory, into a state that is initialised. Every weight and buffer must be in it,
// F32, F64, F16 or BF16; the optimizer's entries all, and then seed and counter are taken too, or none of them.
int net_load(net_state *state, const void *bytes, size_t n);
// All of it as a file of NET_FILE_BYTES bytes, which *needed gets too; NULL: not wanted. bytes NULL and n 0: only that.
int net_save(const net_state *state, void *bytes, size_t n, size_t *needed);
// A sentence about any status; never NULL.
const char *net_error(int status);

// ---- step: changes the state
typedef struct net_step_in {
  int64_t batch;  // 0 .. 8
  const float *x;  // f32 [batch, 6]
  const int64_t *label;  // i64 [batch]: label 0 .. 2
} net_step_in;
typedef struct net_step_out {
  float *loss;  // f32 []
} net_step_out;
int net_step(net_state *state, void *arena, size_t arena_bytes,
    const net_step_in *in, const net_step_out *out);

// ---- predict: reads the state
typedef struct net_predict_in {
  int64_t batch;  // 0 .. 8
  const float *x;  // f32 [batch, 6]
} net_predict_in;
typedef struct net_predict_out {
  float *y;  // f32 [batch, 3]
} net_predict_out;
int net_predict(const net_state *state, void *arena, size_t arena_bytes,
    const net_predict_in *in, const net_predict_out *out);

// ---- the same facts as data, for dlopen and bindings. dtype: 1 f32, 2 i64; kind: 0 weight, 1 buffer, 2 optimizer,
// 3 buffer that is not saved
typedef struct net_dim {
  const char *name;
  int64_t max;
} net_dim;
typedef struct net_array {
  const char *name;
  const char *shape;
  uint32_t dtype, rank;
} net_array;
typedef struct net_function {
  const char *name;
  size_t arena_bytes;
  const net_array *inputs, *outputs;
  const char *const *dims;
  uint32_t n_inputs, n_outputs, n_dims;
  int (*call)(void *state, void *arena, size_t arena_bytes, const void *in, const void *out);
} net_function;
typedef struct net_tensor {
  const char *path, *field;
  uint32_t kind, dtype, rank;
  int64_t sizes[8];
  size_t offset, bytes;
} net_tensor;
typedef struct net_info {
  uint32_t version, abi;
  uint64_t plan;
  const char *name, *compiler;
  size_t state_bytes, arena_bytes;
  uint32_t align, n_dims, n_functions, n_tensors, n_targets;
  const net_dim *dims;
  const net_function *functions;
  const net_tensor *tensors;
  const char *const *targets;
  int (*cpu)(void);
  int (*init)(void *state, void *arena, size_t arena_bytes, uint64_t seed);
  int (*load)(void *state, const void *bytes, size_t n);
  int (*save)(const void *state, void *bytes, size_t n, size_t *needed);
  const char *(*error)(int status);
  const void *const *plans;  // for the compiler's own runtime
} net_info;
extern const net_info net_about;

#ifdef __cplusplus
}
#endif

#endif
