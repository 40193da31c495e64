// What shape rules, interpreter and code generator read from a convolution: `conv`, and the two gradients of it.
//
//   %y  = conv %x, %w {stride=[2,2], pad=[1,1,1,1], dilation=[1,1]}         x [N, H, W, C], w [O, C / groups, kh, kw]
//   %dx = conv_transpose %dy, %w {.., shape=[H,W]}                          [N, OH, OW, O] -> [N, H, W, C]
//   %dw = conv_weight_grad %x, %dy {.., shape=[kh,kw]}                      [O, C / groups, kh, kw]
//   %y  = conv %x, %w {.., first}                                           x [N, C, H, W]; gradients: of groups of one channel
//
// All three relate the same elements: y at p has the sum over taps t and channels of w at t times x at
// p * stride + t * dilation - pad, where that lies inside. Channels of activations come last, those of weights as in
// PyTorch; {first}: those of activations come before the spatial axes, too. One to three spatial axes, of constant sizes or of
// those of the run.
#ifndef TN_IR_CONV_H
#define TN_IR_CONV_H

#include "ir/ir.h"

enum {
  CONV_AXES = 3,
  CONV_FIRST_STRIDE = 16,  // {first}: largest stride along the last axis
  CONV_PLANES_STRIDE = 4,  // of groups of one channel
  CONV_FIRST_TAPS = 31     // and longest window
};

// {algorithm}: the code generator's choice; sums of products; Winograd's (codegen/conv/winograd.h).
typedef enum { CONV_AUTO, CONV_EXACT, CONV_WINOGRAD, N_CONV_ALGORITHMS } ConvAlgorithm;
// Its name in text; NULL: there is no attribute.
const char *ir_conv_algorithm_name(ConvAlgorithm a);

typedef struct Conv {
  uint32_t rank;                          // spatial axes; those of size 1 in front make them three
  Val x, y, weight;                       // the operands that it reads, or the results that it makes
  Dim n;                                  // images
  int64_t c, o, groups;                   // channels of x and of y
  int64_t in[CONV_AXES], out[CONV_AXES];  // spatial sizes of x and of y, bounds of those that the run gives
  Dim in_dim[CONV_AXES], out_dim[CONV_AXES];
  bool run_sized;  // the run gives some
  bool channels_first;
  int64_t kernel[CONV_AXES], stride[CONV_AXES], dilation[CONV_AXES];
  int64_t before[CONV_AXES], behind[CONV_AXES];  // zeros that pad x
  ConvAlgorithm algorithm;
} Conv;

static inline bool ir_is_conv(Op op) { return op == OP_conv || op == OP_conv_transpose || op == OP_conv_weight_grad; }
// Reads the instruction at v, whose operands fit (ir_infer has run).
void ir_conv(const Fn *f, Val v, Conv *c);
static inline int64_t ir_conv_taps(const Conv *c) { return c->kernel[0] * c->kernel[1] * c->kernel[2]; }
// Positions of a window along an axis of `in` elements; none: the window is longer for every size of the run.
Dim ir_conv_positions(Prog *p, Dim in, int64_t padding, int64_t kernel, int64_t stride, int64_t dilation);

// The axis of an image that lies at k where its channels are moved behind the first axis, or to the end
static inline uint32_t ir_axis_in_first(uint32_t rank, uint32_t k) { return k < 2 ? k * (rank - 1) : k - 1; }
static inline uint32_t ir_axis_in_last(uint32_t rank, uint32_t k) { return k == 0 ? 0 : k + 1 == rank ? 1 : k + 1; }
bool ir_perm_moves_channels(const Prog *p, Shape perm, bool to_first);
// v is a permute that moves the last axis behind the first one, as channels of images; not to_first: back
bool ir_moves_channels(const Fn *f, Val v, bool to_first);

// ---- windows along packed sequences: seq_windows and its gradient
//
//   %n = seq_window_lengths %L {size=5, step=2} : i64[batch]                (length - 5) / 2 + 1
//   %W = packed_layout %n {time=(time-5)/2+1, rows=rows_2} : layout
//   %v = seq_windows %x, %L, %W {kernel=[5], stride=[2]} : f32[rows_2,5*C]  tap by tap; y = linear %v, %w [O, 5*C]
typedef struct {
  int64_t taps, stride, dilation, before;  // tap k of the window at t is step t * stride + k * dilation - before
} SeqWindow;
SeqWindow ir_seq_window(const Fn *f, Val v);
// The time axis of windows of `size` steps that move by `step`, over sequences of up to `time` steps
Dim ir_window_time(Prog *p, Dim time, int64_t size, int64_t step);
// A bound of all such windows over `batch` sequences of `rows` rows in all; a size below 1: sequences are padded by 1 - size
int64_t ir_window_rows(int64_t rows, int64_t batch, int64_t size, int64_t step);
// seq_window_lengths: the least length that has one window; {size} without {padding}
int64_t ir_window_steps(const Fn *f, Val v);
// The lengths whose values a run must have in range; none: constants that were checked before,
// or windows that fit into any sequence.
Val ir_windowed_lengths(const Fn *f, Val v);

#endif
