// What becomes of a gradient at each op. The whole op table is walked: a row has a gradient rule, or none by meaning,
// or is refused with E125. For each row with operands there is a case here, which shows that this is so: gradients, and
// gradients of gradients, against differences of the interpreter; where none flows the differences are 0 too.
#include "ir/autodiff/autodiff.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/passes/passes.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/pointwise.h"

#include <math.h>
#include <string.h>

enum { MAX_INPUTS = 10, MAX_OUTPUTS = 16, MAX_SLOTS = 16 };

typedef struct {
  const char *op;
  const char *params, *lines;  // of the function; the instruction to differentiate is the last with this op
  uint32_t results;            // those that the loss reads, as bits; 0: all
  const char *missing_once;    // the op that E125 names when the gradient is asked for; NULL: there is one
  const char *header;          // before the function
  bool is_cut;                 // by meaning: it moves with its operands, and no gradient flows
} Case;

#define LAYOUT "%L = packed_layout {time=3, lengths=[2,3,2], rows=7}\n"
#define ROW(name, in, text, ...) {.op = name, .params = in, .lines = text, __VA_ARGS__}
#define UPDATED "%a: f32[3], %b: f32[3], %c: f32[3], %d: f32[3], %g: f32[3], %r: f32[]"
#define SQUARES "%s = const {value=2}\n%p = square %a\n%m = square %b\n%q = square %c\n%n = square %d\n"
// %u = %a + 4 on its diagonal
#define LARGE_DIAGONAL                                                                                           \
  "%o = full {value=1, shape=[3,1]}\n%r = cumsum %o {axis=0}\n%q = full {value=1, shape=[1,3]}\n%c = cumsum %q " \
  "{axis=1}\n"                                                                                                   \
  "%f = const {value=4}\n%e = eq %r, %c\n%d = mul %e, %f\n%u = add %a, %d\n"
static const Case cases[] = {
    ROW("clone", "%a: f32[2,3]", "%v = clone %a"),
    ROW("cast", "%a: f32[2,3]", "%v = cast %a {dtype=f32}"),
    ROW("cast", "%a: f32[2,3]", "%v = cast %a {dtype=i64}"),
    ROW("stop_grad", "%a: f32[2,3]", "%v = stop_grad %a", .is_cut = true),
    ROW("shard_mean", "%a: f32[2,3]", "%k = const {value=2}\n%v = shard_mean %a, %k {dim=n, shards=4}"),
    ROW("assign", "%a: f32[2,3], %b: f32[3]", "%k = square %a\n%v = assign %k, %b"),
    ROW("reshape", "%a: f32[2,3]", "%v = reshape %a {shape=[3,2]}"),
    ROW("expand", "%a: f32[2,1,3]", "%v = expand %a {shape=[2,2,4,3]}"),
    ROW("permute", "%a: f32[2,3,4]", "%v = permute %a {perm=[2,0,1]}"),
    ROW("slice", "%a: f32[2,5]", "%v = slice %a {axis=1, start=1, count=3}"),
    ROW("slice", "%a: f32[2,7]", "%v = slice %a {axis=1, start=1, count=3, step=2}"),
    ROW("slice", "%a: f32[3,4]", "%v = slice %a {axis=0, count=3, reverse}"),
    ROW("slice_assign", "%a: f32[7,2], %b: f32[3,2]",
        "%k = square %a\n%v = slice_assign %k, %b {axis=0, step=3, reverse}"),
    ROW("pad_axis", "%a: f32[2,3]", "%v = pad_axis %a {axis=1, start=1, size=6}"),
    ROW("windows", "%a: f32[2,9]", "%v = windows %a {axis=1, size=5, step=2, count=3}"),
    ROW("windows", "%a: f32[7,2]", "%v = windows %a {axis=0, size=2, step=3, count=2}"),
    ROW("windows", "%a: f32[n,2]", "%v = windows %a {axis=0, size=3, step=1, count=n-2}"),
    ROW("crop", "%a: f32[4,5,6]",
        "%v = crop %a {starts=[1,0,2], steps=[1,2,1], before=[2,1,0], behind=[0,1,1], shape=[5,5,4]}"),
    ROW("crop", "%a: f32[4,5,6]",
        "%v = crop %a {starts=[3,4,1], steps=[-1,-2,1], before=[1,0,0], behind=[1,2,0], shape=[5,5,4]}"),
    ROW("crop", "%a: f32[4,5,6]",
        "%v = crop %a {starts=[4,1,2], steps=[-2,1,-1], before=[1,0,0], behind=[1,2,1], shape=[5,5,4], perm=[2,0,1]}"),
    ROW("crop", "%a: f32[n,5]", "%v = crop %a {starts=[0,1], steps=[1,3], before=[0,0], behind=[0,2], shape=[n,4]}"),
    ROW("concat", "%a: f32[2,3], %b: f32[2,1]", "%v = concat %a, %b, %a {axis=1}"),
    ROW("concat", "%a: f32[n,3], %b: f32[n,3]", "%v = concat %a, %b {axis=0}"),
    ROW("slice_assign", "%a: f32[2,5], %b: f32[2,2]", "%k = square %a\n%v = slice_assign %k, %b {axis=1, start=2}"),
    ROW("index_assign", "%a: f32[4,3], %i: i64[2], %b: f32[2,3]", "%k = square %a\n%v = index_assign %k, %i, %b"),
    ROW("sum", "%a: f32[2,3,2]", "%v = sum %a {axes=[1]}"),
    ROW("sum", "%a: f32[2,3,2]", "%v = sum %a {axes=[0,2], keepdim}"),
    ROW("moments", "%a: f32[2,3,2]", "%v, %r, %q = moments %a", .missing_once = "moments"),
    ROW("mean", "%a: f32[2,3,2]", "%v = mean %a {axes=[0,2], keepdim}"),
    ROW("amax", "%a: f32[2,3,2]", "%v = amax %a {axes=[1,2]}"),
    ROW("prod", "%a: f32[2,3,2]", "%v = prod %a {axes=[1,2]}"),
    ROW("prod", "%a: f32[2,3]", "%v = prod %a {axes=[0], keepdim}"),
    ROW("argmax", "%a: f32[2,3]", "%v = argmax %a"),
    ROW("bitwise_and", "%i: i64[2,3], %j: i64[3]", "%v = bitwise_and %i, %j"),
    ROW("bitwise_or", "%i: i64[2,3], %j: i64[3]", "%v = bitwise_or %i, %j"),
    ROW("bitwise_xor", "%i: i64[2,3], %j: i64[3]", "%v = bitwise_xor %i, %j"),
    ROW("bitwise_not", "%i: i64[2,3]", "%v = bitwise_not %i"),
    ROW("bitwise_left_shift", "%i: i64[2,3], %j: i64[3]", "%v = bitwise_left_shift %i, %j"),
    ROW("bitwise_right_shift", "%i: i64[2,3], %j: i64[3]", "%v = bitwise_right_shift %i, %j"),
    ROW("sum", "%i: i64[2,3]", "%v = sum %i {axes=[1]}"),
    ROW("sum", "%a: f32[2,3]", "%v = sum %a {axes=[1], nonzero}"),
    ROW("prod", "%i: i64[2,3]", "%v = prod %i {axes=[1]}"),
    ROW("amax", "%i: i64[2,3]", "%v = amax %i {axes=[1]}"),
    ROW("argmax", "%i: i64[2,3]", "%v = argmax %i {axis=0, least}"),
    ROW("matmul", "%i: i64[2,3], %j: i64[3,4]", "%v = matmul %i, %j"),
    ROW("cumsum", "%a: f32[2,4,3]", "%v = cumsum %a {axis=1}"),
    ROW("cumsum", "%a: f32[n,4]", "%v = cumsum %a {axis=1, reverse}"),
    ROW("cumprod", "%a: f32[2,4]", "%v = cumprod %a {axis=1}"),
    ROW("cumprod", "%a: f32[4,2]", "%v = cumprod %a {axis=0, exclusive, reverse}"),
    ROW("logcumsumexp", "%a: f32[2,4]", "%v = logcumsumexp %a {axis=1}"),
    ROW("logcumsumexp", "%a: f32[2,4]", "%v = logcumsumexp %a {axis=1, reverse}"),
    ROW("cummax", "%a: f32[2,5]", "%v, %i = cummax %a {axis=1}"),
    ROW("cummin", "%a: f32[5,2]", "%v, %i = cummin %a {axis=0}"),
    ROW("rfft", "%a: f32[3,8]", "%v = rfft %a"),
    ROW("rfft", "%a: f32[2,5]", "%v = rfft %a {weighted}"),
    ROW("rfft", "%a: f32[n,6]", "%v = rfft %a {weighted}"),
    ROW("rfft", "%a: f32[2,3,5]", "%v = rfft %a {bins_first}"),
    ROW("rfft_grad", "%a: f32[2,4,3,2]", "%v = rfft_grad %a {size=6, bins_first}"),
    ROW("rfft_grad", "%a: f32[3,6]", "%v = rfft_grad %a {size=4}"),
    ROW("rfft_grad", "%a: f32[2,6]", "%v = rfft_grad %a {size=5, weighted}"),
    ROW("rfft_grad", "%a: f32[n,8]", "%v = rfft_grad %a {size=6, weighted}"),
    ROW("linear_scan", "%a: f32[2,4], %b: f32[2,4]", "%v, %h = linear_scan %a, %b {axis=1}"),
    ROW("linear_scan", "%a: f32[2,4], %b: f32[2,4], %c: f32[2]", "%v, %h = linear_scan %a, %b, %c {axis=1, reverse}"),
    ROW("linear_scan", "%a: f32[1,2], %b: f32[4,2]", "%v, %h = linear_scan %a, %b {axis=0}"),
    ROW("linear_scan", "%a: f32[3,2,2], %b: f32[3,2], %c: f32[2]", "%v, %h = linear_scan %a, %b, %c {axis=0}"),
    ROW("linear_scan", "%a: f32[7,2], %b: f32[7,2], %c: f32[3,2]",
        LAYOUT "%v, %h = linear_scan %a, %b, %c, %L {axis=0, reverse}"),
    ROW("linear_scan_grad", "%a: f32[4,2], %b: f32[4,2], %y: f32[4,2], %c: f32[2], %d: f32[2]",
        "%v, %i, %j = linear_scan_grad %a, %b, %y, %c, %d {axis=0, reverse}"),
    ROW("linear_scan_grad", "%a: f32[3,2,2], %b: f32[3,2], %y: f32[3,2], %c: f32[2]",
        "%v, %i, %j = linear_scan_grad %a, %b, %y, %c {axis=0}"),
    ROW("linear_scan_grad", "%a: f32[7,2], %b: f32[7,2], %y: f32[7,2], %c: f32[3,2], %d: f32[3,2]",
        LAYOUT "%v, %i, %j = linear_scan_grad %a, %b, %y, %c, %d, %L {axis=0}"),
    ROW("linear_scan_grad", "%a: f32[4,2], %b: f32[4,2]", "%v, %i, %j = linear_scan_grad %a, %b {axis=0}"),
    ROW("shift", "%a: f32[2,4]", "%v = shift %a {axis=1}"),
    ROW("sort", "%a: f32[2,5]", "%v, %i = sort %a {axis=1}"),
    ROW("sort", "%a: f32[5,2]", "%v, %i = sort %a {axis=0, descending}"),
    ROW("topk", "%a: f32[2,5]", "%v, %i = topk %a {axis=1, size=2, descending}"),
    ROW("kth_value", "%a: f32[2,5]", "%v, %i = kth_value %a {axis=1, size=2}"),
    ROW("median", "%a: f32[4,3]", "%v, %i = median %a {axis=0}"),
    ROW("searchsorted", "%a: f32[4], %b: f32[3]", "%v = searchsorted %a, %b"),
    ROW("nonzero", "%a: f32[4]", "%v, %n = nonzero %a {size=4}"),
    ROW("repeat_index", "%i: i64[2]", "%v, %n = repeat_index %i {size=4}"),
    ROW("embedding_bag", "%a: f32[3,2], %i: i64[2,3], %b: f32[2,3]", "%v, %n, %r = embedding_bag %a, %i, factor=%b",
        .results = 1),
    ROW("embedding_bag", "%a: f32[3,2], %i: i64[2,3]", "%v, %n, %r = embedding_bag %a, %i {max, padding=0}",
        .results = 1),
    ROW("embedding_bag_grad", "%a: f32[3,2], %i: i64[2,3], %b: f32[2,2], %c: f32[2,3]",
        "%v = embedding_bag_grad %a, %i, %b, factor=%c {padding=0}"),
    ROW("embedding_bag_factor", "%a: f32[3,2], %i: i64[2,3], %b: f32[2,2]", "%v = embedding_bag_factor %a, %i, %b"),
    ROW("gather", "%a: f32[4,3], %i: i64[5,2]", "%v = gather %a, %i {axis=0}"),
    ROW("index_select", "%a: f32[4,3], %i: i64[5]", "%v = index_select %a, %i {axis=1}"),
    ROW("gather", "%a: f32[4,2], %b: f32[4]",
        "%i, %n = nonzero %b {size=6}\n%k = reshape %i {shape=[6,1]}\n%v = gather %a, %k {axis=0, padded}"),
    ROW("index_select", "%a: f32[2,4], %b: f32[4]",
        "%i, %n = nonzero %b {size=6}\n%v = index_select %a, %i {axis=1, padded}"),
    ROW("scatter", "%a: f32[2,3], %i: i64[2,1], %b: f32[2,1]", "%v = scatter %a, %i, %b {axis=1}"),
    ROW("scatter", "%a: f32[2,3], %i: i64[2,1], %b: f32[]", "%v = scatter %a, %i, %b {axis=1}"),
    ROW("scatter", "%a: f32[2,4], %b: f32[4], %c: f32[6]",
        "%i, %n = nonzero %b {size=6}\n%k = reshape %i {shape=[1,6]}\n%e = reshape %c {shape=[1,6]}\n"
        "%v = scatter %a, %k, %e {axis=1, padded}"),
    ROW("scatter_add", "%a: f32[3,2], %i: i64[4,2], %b: f32[4,2]", "%v = scatter_add %a, %i, %b {axis=0}"),
    ROW("scatter_prod", "%a: f32[3,2], %i: i64[4,2], %b: f32[4,2]", "%v = scatter_prod %a, %i, %b {axis=0}"),
    ROW("scatter_amax", "%a: f32[3], %i: i64[4], %b: f32[4]", "%v = scatter_amax %a, %i, %b {axis=0}"),
    ROW("scatter_amin", "%a: f32[3,2], %i: i64[4,2], %b: f32[4,2]", "%v = scatter_amin %a, %i, %b {axis=0}"),
    ROW("index_copy", "%a: f32[3,3], %i: i64[2], %b: f32[3,2]", "%v = index_copy %a, %i, %b {axis=1}"),
    ROW("index_add", "%a: f32[3,2], %i: i64[4], %b: f32[4,2]", "%v = index_add %a, %i, %b {axis=0}"),
    ROW("softmax", "%a: f32[3,4]", "%v = softmax %a"),
    ROW("softmax", "%a: f32[2,4,3]", "%v = softmax %a {axis=1}"),
    ROW("softmax_grad", "%a: f32[3,4], %b: f32[3,4]", "%v = softmax_grad %a, %b"),
    ROW("softmax_grad", "%a: f32[4,3], %b: f32[4,3]", "%v = softmax_grad %a, %b {axis=0}"),
    ROW("log_softmax", "%a: f32[3,4]", "%v = log_softmax %a"),
    ROW("log_softmax", "%a: f32[n,1]", "%v = log_softmax %a"),
    ROW("log_softmax_grad", "%a: f32[3,4], %b: f32[3,4]", "%v = log_softmax_grad %a, %b"),
    ROW("log_softmax_grad", "%a: f32[2,4,3], %b: f32[2,4,3]", "%v = log_softmax_grad %a, %b {axis=1}"),
    ROW("cross_entropy_rows", "%a: f32[4,3], %i: i64[4]", "%v, %lse = cross_entropy_rows %a, %i"),
    ROW("cross_entropy_rows", "%a: f32[4,3], %i: i64[4]", "%v, %lse = cross_entropy_rows %a, %i {ignore=2}"),
    ROW("cross_entropy_rows", "%a: f32[3], %i: i64[]", "%v, %lse = cross_entropy_rows %a, %i"),
    ROW("cross_entropy_rows_grad", "%a: f32[4,3], %i: i64[4], %b: f32[4], %c: f32[4]",
        "%v = cross_entropy_rows_grad %a, %i, %b, %c"),
    ROW("cross_entropy_rows_grad", "%a: f32[4,3], %i: i64[4], %b: f32[4], %c: f32[4]",
        "%v = cross_entropy_rows_grad %a, %i, %b, %c {ignore=1}"),
    ROW("cross_entropy_rows_grad", "%a: f32[n,3], %i: i64[n], %b: f32[n], %c: f32[n]",
        "%v = cross_entropy_rows_grad %a, %i, %b, %c"),
    ROW("layer_norm", "%a: f32[2,4]", "%v, %m, %r = layer_norm %a {eps=0.01}"),
    ROW("layer_norm", "%a: f32[2,4], %b: f32[4], %c: f32[4]", "%v, %m, %r = layer_norm %a, %b, %c {eps=0.01}"),
    ROW("layer_norm", "%a: f32[2,n], %b: f32[n]", "%v, %m, %r = layer_norm %a, %b {eps=0.01}"),
    ROW("layer_norm", "%a: f32[2,4]", "%v, %m, %r = layer_norm %a {eps=0.01}", .results = 4),
    ROW("layer_norm_grad", "%a: f32[2,4], %m: f32[2], %r: f32[2], %g: f32[2,4]", "%v = layer_norm_grad %a, %m, %r, %g"),
    ROW("layer_norm_grad", "%a: f32[3,n], %m: f32[3], %r: f32[3], %g: f32[3,n], %w: f32[n]",
        "%v = layer_norm_grad %a, %m, %r, %g, %w"),
    ROW("rms_norm", "%a: f32[2,4], %b: f32[4]", "%v, %r = rms_norm %a, %b {eps=0.01}"),
    ROW("rms_norm", "%a: f32[2,n]", "%v, %r = rms_norm %a {eps=0.01}"),
    ROW("rms_norm_grad", "%a: f32[2,4], %r: f32[2], %g: f32[2,4]", "%v = rms_norm_grad %a, %r, %g"),
    ROW("rms_norm_grad", "%a: f32[2,n], %r: f32[2], %g: f32[2,n], %w: f32[n]", "%v = rms_norm_grad %a, %r, %g, %w"),
    ROW("solve_triangular", "%a: f32[3,3], %b: f32[3,2]", "%v = solve_triangular %a, %b"),
    ROW("solve_triangular", "%a: f32[3,3], %b: f32[2,3]", "%v = solve_triangular %a, %b {upper, right}"),
    ROW("solve_triangular", "%a: f32[3,3], %b: f32[2,3,2]", "%v = solve_triangular %a, %b {upper, ta, unit}"),
    ROW("solve_triangular", "%a: f32[2,3,3], %b: f32[2,2,3]", "%v = solve_triangular %a, %b {ta, right}"),
    ROW("cholesky", "%a: f32[3,4]", "%k = matmul %a, %a {tb}\n%v = cholesky %k"),
    ROW("cholesky", "%a: f32[2,3,4]", "%k = matmul %a, %a {tb}\n%v = cholesky %k {upper}"),
    ROW("lu", "%a: f32[3,3]", LARGE_DIAGONAL "%v, %p, %s = lu %u", .results = 1),
    ROW("lu", "%a: f32[2,3,3]", LARGE_DIAGONAL "%v, %p, %s = lu %u", .results = 1),
    ROW("lu_solve", "%a: f32[3,3], %b: f32[3,2]", LARGE_DIAGONAL "%l, %p, %s = lu %u\n%v = lu_solve %u, %l, %p, %b"),
    ROW("lu_solve", "%a: f32[2,3,3], %b: f32[2,3,2]",
        LARGE_DIAGONAL "%l, %p, %s = lu %u\n%v = lu_solve %u, %l, %p, %b {ta}"),
    ROW("qr", "%a: f32[3,3]", LARGE_DIAGONAL "%v, %w = qr %u", .results = 3),
    ROW("qr", "%a: f32[3,3]", LARGE_DIAGONAL "%v, %w = qr %u", .results = 1),
    ROW("qr", "%a: f32[2,3,3]", LARGE_DIAGONAL "%v, %w = qr %u", .results = 2),
    ROW("qr", "%a: f32[2,4,3]", "%v, %w = qr %a", .results = 3),
    ROW("eigh", "%a: f32[3,3]",
        LARGE_DIAGONAL "%ut = permute %u {perm=[1,0]}\n%y = add %u, %ut\n%z, %eq = eigh %y\n%v = add %z, %z"),
    ROW("svd", "%a: f32[2,3]", "%e, %z, %y = svd %a\n%v = add %z, %z"),
    ROW("matmul", "%a: f32[2,3], %b: f32[3,4]", "%v = matmul %a, %b"),
    ROW("matmul", "%a: f32[3,2], %b: f32[4,3]", "%v = matmul %a, %b {ta, tb}"),
    ROW("matmul", "%a: f32[2,2,3], %b: f32[3,2]", "%v = matmul %a, %b"),
    ROW("matmul", "%a: f32[2,1,3,2], %b: f32[3,3,2]", "%v = matmul %a, %b {ta}"),
    ROW("square_distances", "%a: f32[2,3], %b: f32[4,3]", "%v = square_distances %a, %b"),
    ROW("square_distances", "%a: f32[2,1,3,2], %b: f32[3,2,2]", "%v = square_distances %a, %b"),
    ROW("linear", "%a: f32[2,2,3], %b: f32[4,3], %c: f32[4]", "%v = linear %a, %b, %c"),
    ROW("conv", "%a: f32[2,4,3,2], %b: f32[3,2,2,2]", "%v = conv %a, %b {stride=[2,1], pad=[1,0,1,1], dilation=[1,2]}"),
    ROW("conv", "%a: f32[n,5,4], %b: f32[2,2,3]", "%v = conv %a, %b {groups=2}"),
    ROW("conv_transpose", "%a: f32[2,2,3,3], %b: f32[3,2,2,2]",
        "%v = conv_transpose %a, %b {stride=[2,1], pad=[1,0,1,1], dilation=[1,1], shape=[3,3]}"),
    ROW("conv_weight_grad", "%a: f32[2,5,2], %b: f32[2,3,4]",
        "%v = conv_weight_grad %a, %b {stride=[2], pad=[1,1], groups=2, shape=[3]}"),
    ROW("max_pool", "%a: f32[2,4,5,2]",
        "%v, %i = max_pool %a {kernel=[3,2], stride=[2,1], pad=[1,0], dilation=[1,2], shape=[2,3]}"),
    ROW("max_pool", "%a: f32[2,n,3]", "%v, %i = max_pool %a {kernel=[2], shape=[3]}"),
    ROW("max_pool", "%a: f32[2,5,2]", "%v, %i = max_pool %a {shape=[3]}"),
    ROW("max_pool_grad", "%a: f32[2,5,2], %b: f32[2,4,2]",
        "%y, %i = max_pool %a {kernel=[2], shape=[4]}\n%v = max_pool_grad %b, %i {kernel=[2], shape=[5]}"),
    ROW("sum_pool", "%a: f32[2,4,5,2]",
        "%v = sum_pool %a {kernel=[3,2], stride=[2,1], pad=[1,0], divisor=6, shape=[2,4]}"),
    ROW("sum_pool", "%a: f32[2,n,3]", "%v = sum_pool %a {shape=[2]}"),
    ROW("sum_pool_grad", "%a: f32[2,3,2]", "%v = sum_pool_grad %a {kernel=[3], stride=[2], pad=[1], shape=[5]}"),
    ROW("sum_pool_grad", "%a: f32[2,3,2]", "%v = sum_pool_grad %a {shape=[4], divisor=2}"),
    ROW("resize", "%a: f32[2,3,4,2]", "%v = resize %a {filter=\"cubic\", shape=[5,2]}"),
    ROW("resize", "%a: f32[2,3,4,2]", "%v = resize %a {filter=\"cubic\", shape=[4,2], scale0=1.5, scale1=0.6}"),
    ROW("resize", "%a: f32[n,3,4]", "%v = resize %a {filter=\"linear\", align, shape=[5]}"),
    ROW("resize_grad", "%a: f32[2,5,3]", "%v = resize_grad %a {filter=\"nearest\", shape=[3]}"),
    ROW("embedding", "%a: f32[3,2], %i: i64[2,2]", "%v = embedding %a, %i"),
    ROW("embedding_grad", "%a: f32[3,2], %i: i64[2,2], %b: f32[2,2,2]", "%v = embedding_grad %a, %i, %b"),
    ROW("embedding_grad", "%a: f32[3,2], %i: i64[4], %b: f32[4,2], %c: f32[3,2]", "%v = embedding_grad %a, %i, %b, %c"),
    ROW("packed_layout", "%i: i64[3]", "%v = packed_layout %i {time=2, rows=rows, empty}", .header = "dim rows <= 6\n"),
    ROW("pack_padded", "%a: f32[3,3,2]", LAYOUT "%v = pack_padded %a, %L"),
    ROW("unpack_padded", "%a: f32[7,2]", LAYOUT "%v = unpack_padded %a, %L {value=1.5, time_major}"),
    ROW("seq_part", "", LAYOUT "%v = seq_part %L {part=\"lengths\"}"),
    ROW("seq_sum", "%a: f32[7,2]", LAYOUT "%v = seq_sum %a, %L"),
    ROW("seq_max", "%a: f32[7,2]", LAYOUT "%v, %i = seq_max %a, %L"),
    ROW("seq_min", "%a: f32[7,2]", LAYOUT "%v, %i = seq_min %a, %L"),
    ROW("seq_select", "%a: f32[7,2]", LAYOUT "%v = seq_select %a, %L"),
    ROW("seq_select", "%a: f32[7,2]", LAYOUT "%v = seq_select %a, %L {first}"),
    ROW("seq_broadcast", "%a: f32[3,2]", LAYOUT "%v = seq_broadcast %a, %L"),
    ROW("seq_scatter", "%a: f32[3,2]", LAYOUT "%v = seq_scatter %a, %L"),
    ROW("seq_scatter", "%a: f32[3,2]", LAYOUT "%v = seq_scatter %a, %L {first}"),
    ROW("seq_scatter", "%a: f32[3,2], %i: i64[3,2]", LAYOUT "%v = seq_scatter %a, %L, %i"),
    ROW("seq_softmax", "%a: f32[7,2]", LAYOUT "%v = seq_softmax %a, %L"),
    ROW("seq_softmax_grad", "%a: f32[7,2], %b: f32[7,2]", LAYOUT "%v = seq_softmax_grad %a, %L, %b"),
    ROW("cumsum", "%a: f32[7,2]", LAYOUT "%v = cumsum %a, %L {axis=0}"),
    ROW("cumsum", "%a: f32[7,2]", LAYOUT "%v = cumsum %a, %L {axis=0, reverse}"),
    ROW("cumprod", "%a: f32[7,2]", LAYOUT "%v = cumprod %a, %L {axis=0}"),
    ROW("cumprod", "%a: f32[7,2]", LAYOUT "%v = cumprod %a, %L {axis=0, reverse, exclusive}"),
    ROW("logcumsumexp", "%a: f32[7,2]", LAYOUT "%v = logcumsumexp %a, %L {axis=0}"),
    ROW("logcumsumexp", "%a: f32[7,2]", LAYOUT "%v = logcumsumexp %a, %L {axis=0, reverse}"),
    ROW("cummax", "%a: f32[7,2]", LAYOUT "%v, %i = cummax %a, %L {axis=0}"),
    ROW("cummin", "%a: f32[7,2]", LAYOUT "%v, %i = cummin %a, %L {axis=0}"),
    ROW("shift", "%a: f32[7,2]", LAYOUT "%v = shift %a, %L {axis=0, reverse}"),
    ROW("seq_row", "%i: i64[7]", LAYOUT "%b = seq_part %L {part=\"sequences\"}\n%v = seq_row %i, %L, %b"),
    ROW("rows", "%a: f32[7,2]", LAYOUT "%v = rows %a, %L"),
    ROW("seq_reverse", "%a: f32[7,2]", LAYOUT "%v = seq_reverse %a, %L"),
    ROW("seq_windows", "%a: f32[7,2]", LAYOUT "%v = seq_windows %a, %L, %L {kernel=[3], pad=[1]}"),
    ROW("seq_windows", "%a: f32[7,2]",
        LAYOUT "%n = seq_window_lengths %L {size=1, step=2, padding=1}\n"
               "%W = packed_layout %n {time=2, rows=W, empty}\n"
               "%u = seq_windows %a, %L, %W {kernel=[3], stride=[2], pad=[1], dilation=[2]}\n"
               "%v = unpack_padded %u, %W {value=0}",
        .header = "dim W <= 6\n"),
    ROW("seq_windows_grad", "%a: f32[7,6]", LAYOUT "%v = seq_windows_grad %a, %L, %L {kernel=[3], dilation=[2]}"),
    ROW("seq_window_lengths", "", LAYOUT "%v = seq_window_lengths %L {size=1, step=2}"),
    ROW("seq_from_list", "%a: f32[7,2]", LAYOUT "%v = seq_from_list %a, %L"),
    ROW("seq_to_list", "%a: f32[7,2]", LAYOUT "%v = seq_to_list %a, %L"),
    ROW("rnn_seq", "%a: f32[7,8], %w: f32[8,2], %b: f32[8], %h: f32[3,2], %c: f32[3,2]",
        LAYOUT "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w, %b, %h, %c {cell=\"lstm\"}", .results = 7),
    ROW("rnn_seq", "%a: f32[7,2], %w: f32[8,3], %x: f32[8,2], %q: f32[3,2]",
        LAYOUT "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w, w_ih=%x, w_hr=%q {cell=\"lstm\", reverse}", .results = 7),
    ROW("rnn_seq", "%a: f32[7,6], %w: f32[6,2]", LAYOUT "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w {cell=\"gru\"}",
        .results = 3),
    ROW("rnn_seq", "%a: f32[7,6], %w: f32[6,2], %b: f32[6], %h: f32[3,2]",
        LAYOUT "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w, %b, %h {cell=\"gru\", reverse}", .results = 2),
    ROW("rnn_seq", "%a: f32[4,2], %w: f32[2,2], %h: f32[3,2]",
        "%L = packed_layout {time=3, lengths=[3,0,1], rows=4, empty}\n"
        "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w, h0=%h {cell=\"relu\"}",
        .results = 3),
    ROW("rnn_seq", "%a: f32[7,2], %w: f32[2,2]", LAYOUT "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w {cell=\"tanh\"}",
        .results = 8),
    ROW("rnn_seq", "%a: f32[7,8], %w: f32[8,2]", LAYOUT "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w {cell=\"lstm\"}",
        .results = 16),
    ROW("rnn_seq", "%a: f32[7,8], %w: f32[8,2]", LAYOUT "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w {cell=\"lstm\"}",
        .results = 33),
    ROW("rnn_seq", "%a: f32[7,6], %w: f32[6,2], %b: f32[6]",
        LAYOUT "%v, %n, %k, %p, %s, %g = rnn_seq %a, %L, %w, %b {cell=\"gru\"}", .results = 32),
    ROW("rnn_seq_grad",
        "%a: f32[7,2], %b: f32[3,2], %w: f32[2,2], %o: f32[7,2], %h: f32[7,2], %c: f32[0], %g: f32[7,2]",
        LAYOUT "%z = const {value=0}\n"
               "%v, %x, %y, %u = rnn_seq_grad %a, %b, %z, %L, %w, %o, %h, %c, %g {cell=\"tanh\"}",
        .results = 1, .missing_once = "rnn_seq_grad"),
    ROW("scan", "%a: f32[4,2,3], %b: f32[2,3], %c: f32[3,3]",
        "%o, %h, %v = scan %a, %b, %c {body=\"step\", slices=1, carries=1, time=4}",
        .header = "body @step(%x: f32[2,3], %h: f32[2,3], %w: f32[3,3]) {\n%m = matmul %h, %w\n%s = add %m, %x\n"
                  "%n = tanh %s\noutput %n {index=0}\noutput %n {index=1}\noutput %h {index=2}\n}\n"),
    ROW("scan", "%a: f32[4,3], %b: f32[3], %c: f32[3]",
        "%o, %h, %v = scan %a, %b, %c {body=\"step\", slices=1, carries=1, time=4, reverse}",
        .header =
            "body @step(%x: f32[3], %h: f32[3], %w: f32[3]) {\n%m = mul %h, %w\n%s = add %m, %x\n%n = softmax %s\n"
            "output %n {index=0}\noutput %x {index=1}\noutput %h {index=2}\n}\n"),
    ROW("scan", "%a: f32[7,2], %b: f32[3,2], %c: f32[2,2]",
        "%L = packed_layout {time=3, lengths=[2,3,2], rows=7, checked}\n%o, %h, %v = scan %L, %a, %b, %c "
        "{body=\"step\", slices=1, carries=1, live=live}",
        .header = "dim live <= 3\nbody @step(%x: f32[live,2], %h: f32[live,2], %w: f32[2,2]) {\n%m = matmul %h, %w\n"
                  "%s = mul %m, %x\n%n = sin %s\noutput %n {index=0}\noutput %n {index=1}\noutput %h {index=2}\n}\n"),
    ROW("scan", "%a: f32[4,3], %b: f32[3]", "%o, %v = scan %a, %b {body=\"step\", slices=1, carries=1, time=4}",
        .missing_once = "scan",
        .header =
            "body @step(%x: f32[3], %h: f32[3]) {\n%n = mul %h, %x\noutput %n {index=0}\noutput %n {index=1}\n}\n"),
    ROW("sdpa", "%a: f32[1,2,3,2], %b: f32[1,2,4,2], %c: f32[1,2,4,2]", "%v, %lse = sdpa %a, %b, %c", .results = 1),
    ROW("sdpa", "%a: f32[2,3,3,1,2], %i: i64[2]", "%v, %lse = sdpa %a, lengths=%i {causal}", .results = 1),
    ROW("sdpa", "%a: f32[1,2,3,2], %b: f32[1,2,4,2], %c: f32[1,2,4,2]", "%v, %lse = sdpa %a, %b, %c"),
    ROW("sdpa", "%a: f32[7,2,2], %b: f32[7,2,1,2], %c: f32[1,2,3,3]",
        LAYOUT "%v, %lse = sdpa %a, %b, attn_bias=%c, layout=%L {causal, window=2}"),
    ROW("sdpa", "%a: f32[7,3,2,1]", LAYOUT "%v, %lse = sdpa %a, layout=%L", .results = 1),
    ROW("sdpa", "%a: f32[7,2,2], %b: f32[4,1,2], %c: f32[4,1,2], %d: f32[3,1,3,1], %o: i64[3]",
        LAYOUT "%M = packed_layout {time=3, lengths=[1,0,3], rows=4, empty}\n"
               "%v, %lse = sdpa %a, %b, %c, attn_bias=%d, offset=%o, layout=%L, kv_layout=%M {causal}",
        .results = 1),
    ROW("sdpa", "%a: f32[2,2,3,2], %b: f32[2,1,4,2], %c: f32[1,2,3,4], %o: i64[]",
        "%v, %lse = sdpa %a, %b, %b, attn_bias=%c, offset=%o {causal, window=3}", .results = 1),
    ROW("sdpa", "%a: f32[1,2,3,1,2], %b: f32[1,1,2,1]", "%v, %lse = sdpa %a, attn_bias=%b {window=2}", .results = 1),
    ROW("sdpa_bias_grad", "%a: f32[1,2,3,2], %b: f32[1,1,3,3], %y: f32[1,2,3,2], %l: f32[1,2,3], %g: f32[1,2,3,2]",
        "%v = sdpa_bias_grad %a, %a, %a, attn_bias=%b, out=%y, lse=%l, g=%g", .missing_once = "sdpa_bias_grad"),
    ROW("sdpa_grad",
        "%a: f32[1,2,3,2], %b: f32[1,2,3,2], %c: f32[1,2,3,2], %y: f32[1,2,3,2], %l: f32[1,2,3], %g: f32[1,2,3,2]",
        "%v, %k, %q = sdpa_grad %a, %b, %c, out=%y, lse=%l, g=%g", .missing_once = "sdpa_grad"),
    ROW("global_norm", "%a: f32[2,3], %b: f32[2]", "%v = global_norm %a, %b"),
    ROW("adamw", "%a: f32[3], %b: f32[3], %c: f32[3], %g: f32[3], %r: f32[]",
        "%s = const {value=2}\n%p = square %a\n%m = square %b\n%q = square %c\n"
        "%v, %x, %y = adamw %p, %m, %q, %g, %s, %r, %r {beta1=0.9, beta2=0.9, eps=0.01, decoupled}",
        .is_cut = true),
    ROW("adamw_sparse", "%a: f32[3,2], %b: f32[3,2], %c: f32[3,2], %i: i64[2], %g: f32[2,2], %r: f32[]",
        "%s = const {value=2}\n%p = square %a\n%m = square %b\n%q = square %c\n"
        "%v, %x, %y = adamw_sparse %p, %m, %q, %i, %g, %s, %r, %r {beta1=0.9, beta2=0.9, eps=0.01, decoupled}",
        .is_cut = true),
    ROW("sgd", "%a: f32[3], %g: f32[3], %r: f32[]", "%p = square %a\n%v = sgd %p, %g, %r, %r", .is_cut = true),
    ROW("sgd_momentum", "%a: f32[3], %b: f32[3], %g: f32[3], %r: f32[]",
        "%s = const {value=2}\n%p = square %a\n%m = square %b\n%v, %x = sgd_momentum %p, %m, %g, %s, %r, %r, %r",
        .is_cut = true),
    ROW("amsgrad", UPDATED, SQUARES "%v, %x, %y, %z = amsgrad %p, %m, %q, %n, %g, %s, %r, %r", .is_cut = true),
    ROW("nadam", UPDATED, SQUARES "%v, %x, %y = nadam %p, %m, %q, %g, %s, %r, %r, %r", .is_cut = true),
    ROW("radam", UPDATED, SQUARES "%v, %x, %y = radam %p, %m, %q, %g, %s, %r, %r", .is_cut = true),
    ROW("adamax", UPDATED, SQUARES "%v, %x, %y = adamax %p, %m, %q, %g, %s, %r, %r", .is_cut = true),
    ROW("adagrad", UPDATED, SQUARES "%v, %x = adagrad %p, %m, %g, %s, %r, %r", .is_cut = true),
    ROW("adadelta", UPDATED, SQUARES "%v, %x, %y = adadelta %p, %m, %q, %g, %r, %r", .is_cut = true),
    ROW("rmsprop", UPDATED, SQUARES "%v, %x = rmsprop %p, %m, %g, %r, %r", .is_cut = true),
    ROW("rmsprop_momentum", UPDATED, SQUARES "%v, %x, %y = rmsprop_momentum %p, %m, %q, %g, %r, %r, %r",
        .is_cut = true),
    ROW("rmsprop_centered", UPDATED, SQUARES "%v, %x, %y = rmsprop_centered %p, %m, %q, %g, %r, %r", .is_cut = true),
    ROW("rmsprop_centered_momentum", UPDATED,
        SQUARES "%v, %x, %y, %z = rmsprop_centered_momentum %p, %m, %q, %n, %g, %r, %r, %r", .is_cut = true),
    ROW("lion", UPDATED, SQUARES "%v, %x = lion %p, %m, %g, %r, %r", .is_cut = true),
};
enum { N_CASES = sizeof cases / sizeof *cases };

// ---- a program: the case, a loss of its results, and that loss's gradients; once more for the gradients' gradients
typedef struct {
  RtArena *mem;
  Prog *p;
  Fn *f;
  Val in[MAX_INPUTS];          // f32 inputs
  uint32_t index[MAX_INPUTS];  // their positions among all
  uint32_t n_in;
  bool reached[MAX_INPUTS];  // does a gradient of the loss reach it?
  uint32_t base;             // outputs of the case itself; then the loss, then gradients of the inputs that are reached
} Program;

static Val emit1(Fn *f, Op op, Val a, const Attr *attr, uint32_t n) { return ir_emit(f, op, &a, 1, attr, n, f->loc); }

// a times (1, .., 1, 1.5) along an axis of constant size
static Val ramped(Program *g, Val a, uint32_t axis) {
  Fn *f = g->f;
  Shape s = ir_ins(f, a)->shape;
  Dim d = ir_dim_at(g->p, s, axis);
  if (!ir_dim_is_const(g->p, d) || ir_dim_bound(g->p, d) < 2) return a;
  Attr one = ir_a_list(KEY_shape, ir_shape_ints(g->p, (int64_t[]){1}, 1));
  Attr rest = ir_a_list(KEY_shape, ir_shape_ints(g->p, (int64_t[]){ir_dim_bound(g->p, d) - 1}, 1));
  Val part[2] = {emit1(f, OP_expand, ir_const(f, 1, f->loc), &rest, 1),
                 emit1(f, OP_expand, ir_const(f, 1.5 + 0.25 * axis, f->loc), &one, 1)};
  Attr first = ir_a_int(KEY_axis, 0);
  Val row = ir_emit(f, OP_concat, part, 2, &first, 1, f->loc);
  int64_t shape[MAX_RANK];
  for (uint32_t k = 0; k < ir_rank(g->p, s); k++) shape[k] = k == axis ? ir_dim_bound(g->p, d) : 1;
  Attr as = ir_a_list(KEY_shape, ir_shape_ints(g->p, shape, ir_rank(g->p, s)));
  return ir_op2(f, OP_mul, a, emit1(f, OP_reshape, row, &as, 1), f->loc);
}

// sum(sin(scale a (1, 2, ..) + phase)): every element has a derivative of its own, and one of that.
static Val number_of(Program *g, Val a, double scale, double phase) {
  Fn *f = g->f;
  if (ir_ins(f, a)->dtype == DT_I64) a = emit1(f, OP_cast, a, (Attr[]){ir_a_int(KEY_dtype, DT_F32)}, 1);
  int64_t axes[MAX_RANK];
  uint32_t r = ir_rank(g->p, ir_ins(f, a)->shape);
  for (uint32_t k = 0; k < r; k++) axes[k] = k;
  for (uint32_t k = 0; k < r; k++) a = ramped(g, a, k);
  Val s = emit1(
      f, OP_sin,
      ir_op2(f, OP_add, ir_op2(f, OP_mul, a, ir_const(f, scale, f->loc), f->loc), ir_const(f, phase, f->loc), f->loc),
      NULL, 0);
  Attr all = ir_a_list(KEY_axes, ir_shape_ints(g->p, axes, r));
  return emit1(f, OP_sum, s, &all, 1);
}

static Val added(Program *g, Val sum, Val term) {
  return ir_none(sum) ? term : ir_op2(g->f, OP_add, sum, term, g->f->loc);
}

static Val loss_of_case(Program *g, const Case *c) {
  Val v = {0}, sum = {0};
  for (uint32_t i = 1; i < g->f->n_ins; i++)
    if (!strcmp(ir_ops[g->f->ins[i].op].name, c->op)) v = (Val){i};
  CHECK(!ir_none(v));
  uint32_t n = ir_ins(g->f, v)->n_res;
  for (uint32_t k = 0; k < n; k++) {
    bool layout = ir_ins(g->f, ir_result(v, k))->dtype == DT_LAYOUT;
    if (!layout && (!c->results || (c->results >> k & 1)))
      sum = added(g, sum, number_of(g, ir_result(v, k), 0.5, 0.3 * k));
  }
  return ir_none(sum) ? ir_const(g->f, 0, g->f->loc) : sum;
}

static void find_reached(Program *g, Val loss) {
  GradReach reach = {0};
  ir_grad_reach(g->f, loss, &reach);
  for (uint32_t k = 0; k < g->n_in; k++) g->reached[k] = reach.has[g->in[k].i];
}

static void add_output(Program *g, Val v) {
  Attr a[2] = {ir_a_int(KEY_index, g->f->n_outputs), ir_a_str(KEY_name, ir_str(g->p, rt_printf(g->mem, "o%u", v.i)))};
  ir_emit(g->f, OP_output, &v, 1, a, 2, g->f->loc);
}

// order 1: the loss and its gradients; 2: a loss of these gradients, and its gradients. false: refused.
static bool build(Program *g, const Case *c, uint32_t order) {
  RtText text = {.mem = g->mem};
  rt_text_add(&text, "program @p\ndim n <= 3\n%sfunc @f(%s) {\n%s\n}\n", c->header ? c->header : "", c->params,
              c->lines);
  RtDiags diags = {.mem = g->mem};
  g->p = ir_parse(g->mem, text.text, strlen(text.text), "case.tir", &diags);
  if (!CHECK(g->p != NULL)) {
    rt_diags_print(&diags, stdout);
    return false;
  }
  g->f = g->p->fns[0], g->base = g->f->n_outputs;
  for (uint32_t i = 1; i < g->f->n_ins; i++)
    if (g->f->ins[i].op == OP_input && g->f->ins[i].dtype == DT_F32) {
      g->index[g->n_in] = (uint32_t)ir_attr_int(g->f, (Val){i}, KEY_index, 0);
      g->in[g->n_in++] = (Val){i};
    }
  Val loss = loss_of_case(g, c);
  find_reached(g, loss);
  if (order == 2) {
    Val sum = {0};
    for (uint32_t k = 0; k < g->n_in; k++)
      if (g->reached[k])
        sum = added(g, sum, number_of(g, ir_op2(g->f, OP_grad_of, loss, g->in[k], g->f->loc), 0.1, 0.2 * k));
    loss = sum;
    find_reached(g, loss);
  }
  add_output(g, loss);
  for (uint32_t k = 0; k < g->n_in; k++)
    if (g->reached[k]) add_output(g, ir_op2(g->f, OP_grad_of, loss, g->in[k], g->f->loc));
  // A body that stands apart is of a function behind check_rows.
  bool is_checked = strstr(c->lines, ", checked}") != NULL;
  return ir_run_passes(
      g->f, is_checked ? "check_scopes,functionalize,grad" : "check_scopes,check_rows,functionalize,grad", NULL, NULL);
}

// ---- runs
typedef struct {
  Tensor in[2 * MAX_INPUTS];
  uint32_t n;
} Data;

static void make_data(const Program *g, const int64_t *slots, Data *d) {
  const Fn *f = g->f;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_input) continue;
    Tensor t = {.n = ir_shape_eval(g->p, f->ins[i].shape, slots)};
    t.v = rt_alloc(g->mem, (size_t)(t.n + 1) * sizeof(double));
    for (int64_t k = 0; k < t.n; k++)  // numbers in (0.3, 1.3), no two alike; integers 1, 0, 1 ..
      t.v[k] =
          f->ins[i].dtype == DT_I64 ? (double)((k + 1) % 2) : 0.3 + fmod(0.3819660113 * (double)(k + 1) + 0.11 * i, 1);
    d->in[d->n++] = t;
  }
}

static bool run(const Program *g, const Data *d, const int64_t *slots, Tensor *out) {
  RtText why = {.mem = g->mem};
  int64_t own[MAX_SLOTS];
  memcpy(own, slots, sizeof own);
  InterpEnv env = {.slots = own, .in = d->in, .out = out, .mem = g->mem, .seed = 7};
  bool ok = ir_interpret(g->f, &env, &why);
  if (!ok) printf("interpreter: %s\n", why.text);
  return CHECK(ok);
}

static double loss_at(const Program *g, const Data *d, const int64_t *slots) {
  Tensor out[MAX_OUTPUTS];
  return run(g, d, slots, out) ? out[g->base].v[0] : NAN;
}

// Differences of fourth order, of the loss by one element.
static double slope_at(const Program *g, const Data *d, const int64_t *slots, double *x) {
  const double h = 1e-4, old = *x, step[4] = {-2, -1, 1, 2};
  double loss[4];
  for (int k = 0; k < 4; k++) *x = old + step[k] * h, loss[k] = loss_at(g, d, slots);
  *x = old;
  return (loss[0] - 8 * loss[1] + 8 * loss[2] - loss[3]) / (12 * h);
}

static void check_input(const Program *g, const Case *c, const Data *d, const int64_t *slots, Tensor x, Tensor found) {
  for (int64_t i = 0; i < x.n; i++) {
    double slope = slope_at(g, d, slots, &x.v[i]), mine = found.v ? found.v[i] : 0;
    if (!found.v && c->is_cut) continue;
    bool near = fabs(slope - mine) <= 1e-6 * (1 + fabs(slope));
    if (!near) printf("%s (%s) [%lld]: %.10g, by differences %.10g\n", c->op, c->lines, (long long)i, mine, slope);
    CHECK(near);
  }
}

static void check_slopes(const Program *g, const Case *c) {
  int64_t slots[MAX_SLOTS];
  for (uint32_t k = 0; k < MAX_SLOTS; k++) slots[k] = 2;
  Data d = {.n = 0};
  make_data(g, slots, &d);
  Tensor out[MAX_OUTPUTS];
  if (!run(g, &d, slots, out)) return;
  uint32_t at = g->base + 1;
  for (uint32_t k = 0; k < g->n_in; k++)
    check_input(g, c, &d, slots, d.in[g->index[k]], g->reached[k] ? out[at++] : (Tensor){.v = NULL, .n = 0});
}

// The first error is E125 and names the op.
static void check_refusal(const Program *g, const char *op) {
  bool seen = false;
  char named[64];
  snprintf(named, sizeof named, " (%s) ", op);
  for (uint32_t k = 0; k < g->p->diags.n && !seen; k++) {
    const RtDiag *m = &g->p->diags.list[k];
    if (m->severity != RT_ERROR) continue;
    seen = m->id == E_NO_GRAD_RULE && m->text[0] == '%' && strstr(m->text, named) && m->line > 0;
    break;
  }
  if (!seen) rt_diags_print(&g->p->diags, stdout);
  CHECK(seen);
}

static void check_order(const Case *c, uint32_t order, const char *missing) {
  Program g = {.mem = rt_arena_new()};
  bool built = build(&g, c, order);
  if (built == (missing != NULL)) {
    printf("%s (%s), order %u: %s\n", c->op, c->lines, order, built ? "is not refused" : "is refused");
    if (g.p) rt_diags_print(&g.p->diags, stdout);
  }
  CHECK(built == (missing == NULL));
  if (missing && !built) check_refusal(&g, missing);
  if (!missing && built) check_slopes(&g, c);
  rt_arena_free(g.mem);
}

static void check_case(const Case *c) {
  check_order(c, 1, c->missing_once);
  Program g = {.mem = rt_arena_new()};
  bool any = false;
  if (!c->missing_once && build(&g, c, 1))
    for (uint32_t k = 0; k < g.n_in; k++) any |= g.reached[k];
  rt_arena_free(g.mem);
  if (any) check_order(c, 2, NULL);
}

// ---- pointwise rows, each by the table alone
// Makes of %a, which is in (0.3, 1.3), what lies in the domain of a row.
static const char *into_domain(Op op, const char **name) {
  static const struct {
    double scale, add;
    const char *text;
  } ways[] = {{1, 0, ""},
              {0.7, 0, "%s = const {value=0.7}\n%d = mul %a, %s\n"},
              {1, 1, "%s = const {value=1}\n%d = add %a, %s\n"},
              {0, 1, "%s = const {value=0}\n%t = const {value=1}\n%u = mul %a, %s\n%d = add %u, %t\n"}};
  for (uint32_t k = 0; k < sizeof ways / sizeof *ways; k++) {
    *name = k ? "%d" : "%a";
    double low = 0.3 * ways[k].scale + ways[k].add, high = 1.3 * ways[k].scale + ways[k].add;
    if (isfinite(pointwise_value(op, (double[]){low, 1, 1})) && isfinite(pointwise_value(op, (double[]){high, 1, 1})))
      return ways[k].text;
  }
  return "";
}

static void check_pointwise(Op op) {
  static const char *const params[] = {"", "%a: f32[2,3]", "%a: f32[2,3], %b: f32[3]",
                                       "%a: f32[2,3], %b: f32[3], %c: f32[2,1]"};
  if (ir_ops[op].n_max == 0) return;  // nothing to differentiate
  RtText line = {.mem = rt_arena_new()};
  const char *a = "%a", *before = ir_ops[op].flags & RANDOM ? "" : into_domain(op, &a);
  rt_text_add(&line, "%s", before);
  pointwise_line(op, (const char *const[]){a, "%b", "%c"}, 3, &line);
  check_case(&(Case){.op = ir_ops[op].name, .params = params[ir_ops[op].n_max], .lines = line.text});
  rt_arena_free(line.mem);
}

// A gradient expression is emitted without attributes: no op in it may read one or a random stream. SAME keeps them.
static bool reads_attributes(Expr e) {
  for (uint32_t k = 0; k < e.n; k++) {
    const ExNode *x = &e.nodes[k];
    if (x->kind != EX_OP) continue;
    if ((ir_ops[x->op].flags & RANDOM) || ir_ops[x->op].n_max == 0) return true;
    Expr inner = ir_forward((Op)x->op);
    for (uint32_t j = 0; j < inner.n; j++)
      if (inner.nodes[j].kind == EX_ATTR) return true;
    if (reads_attributes(inner)) return true;
  }
  return false;
}

// ---- the table
static bool has_case(const char *op) {
  for (uint32_t k = 0; k < N_CASES; k++)
    if (!strcmp(cases[k].op, op)) return true;
  return false;
}

// Marks and leaves: nothing flows in, or pass grad does not meet them.
static bool is_outside(Op op) {
  static const Op gone[] = {OP_result,         OP_output,       OP_grad_of,     OP_grad_replace,
                            OP_scan_input,     OP_scan_carry,   OP_scan_output, OP_scan_final,
                            OP_exchange_begin, OP_exchange_end, OP_exchanged};
  for (uint32_t k = 0; k < sizeof gone / sizeof *gone; k++)
    if (gone[k] == op) return true;
  return ir_ops[op].n_max == 0 || ir_ops[op].n_res == 0;
}

static void test_table(void) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    if (ir_ops[op].is_pointwise) {
      for (uint32_t k = 0; k < ir_ops[op].n_max; k++) CHECK(!reads_attributes(ir_gradient((Op)op, k)));
      check_pointwise((Op)op);
      continue;
    }
    GradFlow kind = ir_grad_kind((Op)op);
    bool covered = is_outside((Op)op) || has_case(ir_ops[op].name);
    if (!covered) printf("no case has op %s\n", ir_ops[op].name);
    CHECK(covered);
    if (ir_ops[op].n_max == 0) CHECK(kind == GRAD_NONE);
  }
}

// The class that the table states is the one that a case shows.
static void test_classes(void) {
  for (uint32_t k = 0; k < N_CASES; k++) {
    const Case *c = &cases[k];
    GradFlow kind = ir_grad_kind(ir_op_find(c->op));
    if (kind == GRAD_MISSING) CHECK(c->missing_once && !strcmp(c->missing_once, c->op));
    if (c->is_cut) CHECK(kind == GRAD_NONE);
  }
}

// ---- the error
static const char path_text[] = "program @p\n"
                                "func @f(%x: f32[7,2], %w: f32[2,2]) {\n"
                                "%h = matmul %x, %w  // m.c:3\n"
                                "%n, %k, %y = moments %h  // m.c:4\n"
                                "%q = square %y  // m.c:5\n"
                                "%m = sum %q {axes=[0]}  // m.c:6\n"
                                "%e = grad_of %m, %w  // m.c:7\n"
                                "output %e {index=0, name=\"e\"}\n"
                                "}\n";

static void test_error(void) {
  RtArena *mem = rt_arena_new();
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, path_text, strlen(path_text), "p.tir", &diags);
  CHECK(p && !ir_run_passes(p->fns[0], "check_scopes,check_rows,functionalize,grad", NULL, NULL));
  static const char *const expected[] = {
      "%n (moments) has no gradient rule, but the gradient of %m with respect to %w flows through it",
      "%m was made here", "%w was made here", "the path: %m (sum), %q (square), %n (moments), %h (matmul), %w (input)"};
  static const uint32_t lines[] = {4, 6, 2, 0};
  for (uint32_t k = 0; p && k < 4; k++) {
    const RtDiag *m = &p->diags.list[k];
    bool same = k < p->diags.n && m->line == lines[k] && !strcmp(m->text, expected[k]);
    if (!same) rt_diags_print(&p->diags, stdout);
    CHECK(same);
  }
  rt_arena_free(mem);
}

int main(void) {
  test_table();
  test_classes();
  for (uint32_t k = 0; k < N_CASES; k++) check_case(&cases[k]);
  test_error();
  return check_report();
}
