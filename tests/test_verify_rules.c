// The verifier's rules, op by op: a valid program for every op of the table, then every operand replaced by one of
// another dtype, rank, size or layout, the last operand dropped, every attribute dropped, put out of its range or given
// to an op that does not take it. Each such mutation must be refused; one that is legal stands in `legal` with its
// reason, and a reason that no mutation needs is a fault, too.
#include "ir/shape/infer.h"
#include "ir/shape/shape.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/check.h"
#include "tests/pointwise.h"

#include <math.h>

// ---- programs: between them, every op. Sizes are all different where an op does not want them equal.
typedef struct {
  const char *head, *signature, *lines;
} Sample;

#define LAYOUT "%L = packed_layout {lengths=[2,1], time=4, rows=3}\n"
static const Sample samples[] = {
    {"", "%x: f32[4,3], %v: f32[3], %c: f32[4,1]", NULL},  // a line for each pointwise row
    {"dim B <= 4\nparam @w : f32[4,3] trainable\n", "%x: f32[4,3], %y: f32[4,3], %s: f32[], %i: i64[2]",
     "%0 = const {value=nan}\n%d = dim_size {dim=B}\n%tab = table {bits=\"3f80000080000000\", dtype=f32, "
     "shape=[2]}\n%w = param @w\n%g = grad_of %s, %x\n%gr = grad_replace %s, %x, "
     "%g\n%shm = shard_mean %x, %s {dim=B, shards=8, bucket_bytes=8}\n%k = cast %x {dtype=i64}\n%sg "
     "= stop_grad %x\n"
     "%cl = clone %x\nwrite %cl, %y {no_grad}\noverwritten %cl, %y\n%as = assign %w, %x\n"
     "scope_begin {scope=1, name=\"one\"}\n%a = copy %x\nmove %a {scope=0}\nattach %a {scope=1}\ndispose %a\n"
     "scope_end {scope=1}\n%x0 = output %x {index=0, name=\"x\", bucket=1, bucket_bytes=8}\n"
     "%xb, %xr = exchange_begin %x0 {bucket=1, room=4}\n%xe, %xf = exchange_end %y {bucket=1, room=4}\n"
     "%xd = exchanged %y, %xe\n"},
    {"", "%x: f32[4,3,5]", "%m, %r, %q = moments %x\n"},
    {"", "%x: f32[4,3,5]",
     "%c = crop %x {starts=[1,0,2], steps=[2,1,1], before=[1,0,0], behind=[0,0,2], shape=[3,3,5]}\n"},
    {"", "%x: f32[4,3,5]",
     "%c = crop %x {starts=[2,4,0], steps=[-1,-2,1], before=[1,0,0], behind=[0,0,2], shape=[4,3,6], perm=[1,2,0]}\n"},
    {"", "%i: i64[4,3], %j: i64[3]",
     "%0 = const {value=2, dtype=i64}\n%a = bitwise_and %i, %j\n%o = bitwise_or %i, %j\n%x = bitwise_xor %i, %j\n"
     "%n = bitwise_not %i\n%l = bitwise_left_shift %i, %j\n%r = bitwise_right_shift %i, %j\n"
     "%s = sum %i {axes=[0]}\n%p = prod %i {axes=[0,1]}\n%m = amax %i {axes=[1], keepdim}\n%am = argmax %i {axis=0}\n"},
    {"", "%a: i64[2,4,3], %b: i64[2,3,5]", "%im = matmul %a, %b\n"},
    {"param @w : f32[6,3] trainable\n", "%x: f32[6,3], %p: f32[2,3], %i: i64[2], %k: i64[]",
     "%re = reshape %x {shape=[9,2]}\n%ex = expand %p {shape=[5,2,3]}\n%pe = permute %x {perm=[1,0]}\n"
     "%sl = slice %x {axis=0, start=1, count=2}\n%pa = pad_axis %x {axis=1, start=2, size=7}\n"
     "%wi = windows %x {axis=0, size=2, step=1, count=2}\n"
     "%co = concat %x, %p {axis=0}\n%sa = slice_assign %x, %p {axis=0, start=2}\n%ia = index_assign %x, %i, %p\n"
     "%sx = slice %x, %k {axis=0, start=0, count=2, step=2}\n%sf = slice %x, %k {axis=0, count=3, reverse}\n"
     "%sy = slice_assign %x, %p, %k {axis=0, start=1, step=2}\n"
     "%w = param @w\n%w0 = slice_assign %w, %p, %k {axis=0, reverse, into_param}\n%w1 = slice_assign %w0, %p "
     "{axis=0, start=2, into_param}\n"
     "%w2 = index_assign %w1, %i, %p {into_param}\n"},
    {"", "%x: f32[5,4,3], %l: i64[5,4], %c: f32[3], %r: f32[5,4], %g: f32[5,4,3]",
     "%su = sum %x {axes=[0], keepdim}\n%me = mean %x {axes=[0], keepdim}\n%am = amax %x {axes=[0,2]}\n%pr = prod %x "
     "{axes=[0,2]}\n%ar = argmax %x\n%so = "
     "softmax %x {axis=1}\n"
     "%sg = softmax_grad %so, %g {axis=1}\n%ls = log_softmax %x\n%lg = log_softmax_grad %ls, %g\n"
     "%n0, %n1 = cross_entropy_rows %x, %l {ignore=-100}\n%ng = cross_entropy_rows_grad %x, %l, %n1, %r {ignore=-100}\n"
     "%y, %mean, %rstd = layer_norm %x, %c, %c {eps=1e-5}\n%yg = layer_norm_grad %x, %mean, %rstd, %g, %c\n"
     "%z, %zr = rms_norm %x, %c {eps=1e-5}\n%zg = rms_norm_grad %x, %zr, %g, %c\n"},
    {"", "%im: f32[2,15,16,6], %ke: f32[8,3,3,2]",
     "%cv = conv %im, %ke {stride=[1,2], pad=[1,0,1,0], dilation=[1,1], groups=2}\n"
     "%ct = conv_transpose %cv, %ke {stride=[1,2], pad=[1,0,1,0], dilation=[1,1], groups=2, shape=[15,16]}\n"
     "%cw = conv_weight_grad %im, %cv {stride=[1,2], pad=[1,0,1,0], dilation=[1,1], groups=2, shape=[3,2]}\n"},
    {"", "%im: f32[2,15,16,6], %ke: f32[8,6,3,3]",
     "%cv = conv %im, %ke {pad=[1,1,1,1], groups=1, algorithm=\"exact\"}\n"
     "%ct = conv_transpose %cv, %ke {pad=[1,1,1,1], groups=1, algorithm=\"exact\", shape=[15,16]}\n"
     "%cw = conv_weight_grad %im, %cv {pad=[1,1,1,1], groups=1, algorithm=\"winograd\", shape=[3,3]}\n"},
    {"", "%im: f32[2,4,15,16,6]",
     "%mp, %mi = max_pool %im {kernel=[1,3,2], stride=[1,2,3], pad=[0,1,0], dilation=[1,1,2], shape=[4,8,5]}\n"
     "%mg = max_pool_grad %mp, %mi {kernel=[1,3,2], stride=[1,2,3], pad=[0,1,0], dilation=[1,1,2], shape=[4,15,16]}\n"
     "%sp = sum_pool %im {kernel=[1,3,2], stride=[1,2,3], pad=[0,1,0], divisor=6, shape=[4,8,5]}\n"
     "%sg = sum_pool_grad %sp {kernel=[1,3,2], stride=[1,2,3], pad=[0,1,0], divisor=6, shape=[4,15,16]}\n"
     "%rz = resize %im {filter=\"cubic\", align, shape=[4,7,30], scale0=1.2, scale1=0.5, scale2=1.9}\n"
     "%rg = resize_grad %rz {filter=\"cubic\", align, shape=[4,15,16], scale0=1.2, scale1=0.5, scale2=1.9}\n"},
    {"",
     "%x: f32[5,4,3], %b: f32[5,4,3], %i: i64[5,2,3], %s: f32[5,2,3], %k: i64[6], %t: f32[5,6,3], %t5: f32[5,4,7], %h: "
     "f32[5,3], "
     "%m: f32[5,4,3,3]",
     "%c0 = cumsum %x {axis=1, reverse}\n%c1 = cumprod %x {axis=1, reverse, exclusive}\n%c2 = logcumsumexp %x {axis=1, "
     "reverse}\n"
     "%c3, %j3 = cummax %x {axis=1}\n%c4, %j4 = cummin %x {axis=1}\n%c5, %c7 = linear_scan %x, %b, %h {axis=1, "
     "reverse}\n"
     "%c8, %c9, %c10 = linear_scan_grad %x, %b, %c5, %h, %c7 {axis=1, reverse}\n"
     "%d5, %d7 = linear_scan %m, %b, %h {axis=1}\n%d8, %d9, %d10 = linear_scan_grad %m, %b, %d5, %h, %d7 {axis=1}\n"
     "%r0 = rfft %x {weighted}\n%r1 = rfft_grad %r0 {size=3, weighted}\n"
     "%c6 = shift %x {axis=1, reverse}\n%g0 = gather %x, %i {axis=1}\n%g1 = index_select %x, %k {axis=1}\n"
     "%s0 = scatter %x, %i, %s {axis=1}\n%s1 = scatter_add %x, %i, %s {axis=1}\n%s6 = scatter_prod %x, %i, %s "
     "{axis=1}\n%s2 = scatter_amax %x, %i, %s "
     "{axis=1}\n"
     "%s3 = scatter_amin %x, %i, %s {axis=1}\n%s4 = index_copy %x, %k, %t {axis=1}\n%s5 = index_add %x, %k, %t "
     "{axis=1}\n"
     "%o0, %p0 = sort %x {axis=1, descending}\n%o1, %p1 = topk %x {axis=1, size=2, descending}\n"
     "%o3, %p3 = kth_value %x {axis=1, size=2}\n%o4, %p4 = median %x {axis=1}\n"
     "%o5 = searchsorted %x, %t5 {right}\n%o6, %p6 = nonzero %x {size=60}\n"
     "%o7, %p7 = repeat_index %k {size=9}\n"},
    {"", "%w: f32[7,6], %i: i64[5], %o: i64[3], %f: f32[5], %g: f32[3,6], %k: i64[4,2], %h: f32[4,2]",
     "%b0, %n0, %r0 = embedding_bag %w, %i, %o, %f {padding=1}\n%b1, %n1, %r1 = embedding_bag %w, %k {max}\n"
     "%b2 = embedding_bag_grad %w, %i, %g, %o, %f {padding=1}\n%b3 = embedding_bag_factor %w, %i, %g, %o "
     "{padding=1}\n"},
    {"", "%a: f32[2,5,4], %b: f32[4,3], %w: f32[3,4], %bias: f32[3], %table: f32[7,6], %i: i64[5,2], %rows: f32[5,2,6]",
     "%m = matmul %a, %b\n%mt = matmul %a, %w {tb}\n%sd = square_distances %a, %w\n%li = linear %a, %w, %bias\n%em = "
     "embedding %table, %i\n"
     "%eg = embedding_grad %table, %i, %rows, %table\n%gn = global_norm %a, %b\n"},
    {"", "%a: f32[2,5,5], %b: f32[2,5,3], %c: f32[2,3,5], %t: f32[5,5]",
     "%tr0 = solve_triangular %a, %b {upper, unit}\n%tr1 = solve_triangular %a, %c {right, ta}\n"
     "%tr2 = solve_triangular %t, %b\n%tr3 = cholesky %a {upper}\n"
     "%lu, %pm, %sn = lu %a\n%lx = lu_solve %a, %lu, %pm, %b {ta}\n%q, %qr = qr %b\n%ev, %eq = eigh %a\n%su, %sv, %sw "
     "= svd %c\n"},
    {"dim T <= 5, R <= 10\n", "%n: i64[2], %x: f32[2,4,7], %y: f32[4,2,7], %d: f32[3,7], %b: f32[2,7], %i: i64[2,7]",
     LAYOUT
     "%N = packed_layout %n {time=T, rows=R, empty, sorted}\n%D = dense_layout {dim=2, time=4}\n%p = pack_padded %x, "
     "%L\n"
     "%q = pack_padded %y, %L {time_major}\n%pd = unpack_padded %d, %L {value=1, size=6}\n%t = seq_part %L "
     "{part=\"lengths\"}\n"
     "%s0 = seq_sum %d, %L\n%rw = rows %d, %L {axis=0}\n%s1, %s2 = seq_max %d, %L\n%s3, %s4 = seq_min %d, %L\n%s5 = "
     "seq_select %d, %L {first}\n"
     "%s6 = seq_broadcast %b, %L\n%s7 = seq_scatter %b, %L, %i\n%s8 = seq_softmax %d, %L\n%s9 = seq_softmax_grad %d, "
     "%L, %s8\n"
     "%s10 = seq_reverse %d, %L\n%s11 = seq_from_list %d, %L\n%s12 = seq_to_list %d, %L\n"
     "%M = packed_layout {lengths=[2,2], time=4, rows=4}\n"
     "%s13 = seq_windows %d, %L, %M {kernel=[3], stride=[2], pad=[1], dilation=[2]}\n"
     "%s14 = seq_windows_grad %s13, %L, %M {kernel=[3], stride=[2], pad=[1], dilation=[2]}\n"
     "%s15 = seq_window_lengths %L {size=2, step=2, padding=1}\n"
     "%s16 = seq_part %L {part=\"sequences\"}\n%s17 = seq_row %s16, %L, %s16\n%s18 = seq_row %i, %L\n"
     "%k0 = cumsum %d, %L {axis=0, reverse}\n%k1 = cumprod %d, %L {axis=0, exclusive}\n"
     "%k2 = logcumsumexp %d, %L {axis=0}\n%k3, %k4 = cummax %d, %L {axis=0}\n%k5, %k6 = cummin %d, %L {axis=0}\n"
     "%k7 = shift %d, %L {axis=0}\n%k8, %k9 = linear_scan %d, %d, %b, %L {axis=0, reverse}\n"
     "%l0, %l1, %l2 = linear_scan_grad %d, %d, %k8, %b, %k9, %L {axis=0, reverse}\n"},
    {"", "%x: f32[3,7], %w_ih: f32[20,7], %b: f32[20], %w: f32[20,6], %h: f32[2,6], %c: f32[2,5], %w_hr: f32[6,5]",
     LAYOUT "%o, %hn, %cn, %hp, %cs, %gs = rnn_seq %x, %L, %w, %b, %h, %c, %w_ih, %w_hr {cell=\"lstm\"}\n"
            "%d0, %d1, %d2, %d3 = rnn_seq_grad %o, %hn, %cn, %L, %w, %o, %hp, %cs, %gs, %w_hr {cell=\"lstm\"}\n"},
    {"", "%x: f32[3,15], %b: f32[15], %w: f32[15,5], %h: f32[2,5]",
     LAYOUT "%0 = const {value=0}\n%o, %hn, %cn, %hp, %cs, %gs = rnn_seq %x, %L, %w, %b, %h {cell=\"gru\"}\n"
            "%e0, %e1, %e2, %e3 = rnn_seq_grad %o, %0, %0, %L, %w, %o, %hp, %cs, %gs {cell=\"gru\", reverse}\n"},
    {"dim live <= 2\n"
     "body @packed(%x: f32[live,7], %h: f32[live,6], %t: f32[5], %w: f32[9]) {\n"
     "output %h {index=0}\noutput %t {index=1}\noutput %x {index=2}\n}\n"
     "body @dense(%x: f32[7], %h: f32[6]) {\noutput %h {index=0}\noutput %x {index=1}\n}\n",
     "%x: f32[3,7], %h: f32[2,6], %t: f32[5], %w: f32[9], %xs: f32[4,7], %h0: f32[6]",
     "%L = packed_layout {lengths=[2,1], time=4, rows=3, checked}\n%y, %hn, %tn = scan %L, %x, %h, %t, %w "
     "{body=\"packed\", slices=1, carries=2, live=live}\n"
     "%z, %zn = scan %xs, %h0 {body=\"dense\", slices=1, carries=1, time=4, reverse}\n"},
    {"dim live <= 2\n", "%x: f32[3,7], %h: f32[2,6]",
     LAYOUT
     "scan_begin %L {scan=0, live=live}\n%i = scan_input %x {scan=0, live=live}\n"
     "%c = scan_carry %h {scan=0, index=0, live=live}\n%n = relu %c\nscan_next %n {scan=0, index=0}\n"
     "%o = scan_output %i {scan=0, rows=3, live=live}\nscan_end {scan=0}\n%f = scan_final %h {scan=0, index=0}\n"},
    {"",
     "%q: f32[2,3,5,4], %k: f32[2,3,6,4], %n: i64[2], %b: f32[2,3,5,6], %f: i64[], %qi: f32[2,5,3,4], %kv: "
     "f32[2,6,2,3,4], %qkv: f32[2,5,3,7,4]",
     "%o, %lse = sdpa %q, %k, %k, %n, %b, %f {causal, window=4, scale=0.5, p=0.1, id=3}\n"
     "%g0, %g1, %g2 = sdpa_grad %q, %k, %k, %n, %b, %f, %o, %lse, %o {causal, window=4, scale=0.5, p=0.1, id=3}\n"
     "%g3 = sdpa_bias_grad %q, %k, %k, %n, %b, %f, %o, %lse, %o {causal, window=4, scale=0.5, p=0.1, id=3}\n"
     "%o2, %lse2 = sdpa %qi, %kv\n%o1, %lse1 = sdpa %qkv\n"
     "%L = packed_layout {lengths=[3,1], time=4, rows=4}\n%M = packed_layout {lengths=[2,3], time=4, rows=5}\n"
     "%rq = full {value=1, shape=[4,7,3]}\n%rk = full {value=1, shape=[5,7,3]}\n"
     "%o4, %lse4 = sdpa %rq, %rk, %rk, layout=%L, kv_layout=%M\n"
     "%g4, %g5, %g6 = sdpa_grad %rq, %rk, %rk, out=%o4, lse=%lse4, g=%o4, layout=%L, kv_layout=%M\n"},
    {"param @w : f32[6,3] trainable\nstate @m : f32[6,3]\nstate @s : f32[6,3]\n",
     "%g: f32[6,3], %i: i64[4,2], %r: f32[4,2,3], %k: f32[]",
     "%w = param @w\n%m = param @m\n%s = param @s\n"
     "%w1, %m1, %s1 = adamw %w, %m, %s, %g, %k, %k, %k, %k {beta1=0.9, beta2=0.99, eps=1e-8, decoupled}\n"
     "%w2, %m2, %s2 = adamw_sparse %w1, %m1, %s1, %i, %r, %k, %k, %k, %k {beta1=0.9, beta2=0.99, eps=1e-8}\n"
     "%w3 = sgd %w2, %g, %k, %k, %k\n%w4, %m4 = sgd_momentum %w3, %m2, %g, %k, %k, %k, %k, %k {dampening=0, "
     "nesterov}\n"},
    {"param @w : f32[6,3] trainable\nstate @m : f32[6,3]\nstate @s : f32[6,3]\n",
     "%i: i64[4,2], %r: f32[4,2,3], %j: i64[5], %o: i64[4], %f: f32[5], %h: f32[4,2], %g: f32[4,3], %b: i64[4,3], %k: "
     "f32[]",
     "%w = param @w\n%m = param @m\n%s = param @s\n"
     "%w1, %m1, %s1 = adamw %w, %m, %s, %g, %k, %k, %k, %k, index=%i, factor=%h {beta1=0.9, beta2=0.99, eps=1e-8}\n"
     "%w2, %m2 = sgd_momentum %w1, %m1, %g, %k, %k, %k, %k, index=%j, offsets=%o, factor=%f {padding=2}\n"
     "%w8 = sgd %w2, %g, %k, %k, index=%i, best=%b\n"},
    {"param @w : f32[6,3] trainable\nstate @m : f32[6,3]\nstate @s : f32[6,3]\nstate @n : f32[6,3]\n",
     "%g: f32[6,3], %k: f32[]",
     "%w = param @w\n%m = param @m\n%s = param @s\n%n = param @n\n"
     "%a0, %b00, %b01, %b02 = amsgrad %w, %m, %s, %n, %g, %k, %k, %k, %k, %k {beta1=0.9, beta2=0.95, eps=1e-06, "
     "decoupled}\n"
     "%a01, %b03, %b04 = adamw %a0, %b00, %b01, %g, %k, %k, %k, %k, %k, beta1=%k {beta2=0.95, eps=1e-06, decoupled}\n"
     "%a02, %b05, %b06, %b07 = amsgrad %a01, %b03, %b04, %b02, %g, %k, %k, %k, %k, %k, beta1=%k {beta2=0.95, "
     "eps=1e-06, decoupled}\n"
     "%a1, %b10, %b11 = nadam %a02, %b05, %b06, %g, %k, %k, %k, %k, %k, %k {beta1=0.9, beta2=0.95, eps=1e-06, "
     "momentum_decay=0.01, decoupled}\n"
     "%a2, %b20, %b21 = radam %a1, %b10, %b11, %g, %k, %k, %k, %k, %k {beta1=0.9, beta2=0.95, eps=1e-06, decoupled}\n"
     "%a3, %b30, %b31 = adamax %a2, %b20, %b21, %g, %k, %k, %k, %k, %k {beta1=0.9, beta2=0.95, eps=1e-06}\n"
     "%a4, %b40 = adagrad %a3, %b30, %g, %k, %k, %k, %k, %k {lr_decay=0.5, eps=1e-06}\n"
     "%a5, %b50, %b51 = adadelta %a4, %b40, %b31, %g, %k, %k, %k, %k {rho=0.75, eps=1e-06}\n"
     "%a6, %b60 = rmsprop %a5, %b50, %g, %k, %k, %k, %k {alpha=0.75, eps=1e-06}\n"
     "%a7, %b70, %b71 = rmsprop_momentum %a6, %b60, %b51, %g, %k, %k, %k, %k, %k {alpha=0.75, eps=1e-06}\n"
     "%a8, %b80, %b81 = rmsprop_centered %a7, %b70, %b71, %g, %k, %k, %k, %k {alpha=0.75, eps=1e-06}\n"
     "%a9, %b90, %b91, %b92 = rmsprop_centered_momentum %a8, %b80, %b81, %b07, %g, %k, %k, %k, %k, %k {alpha=0.75, "
     "eps=1e-06}\n"
     "%a10, %b100 = lion %a9, %b90, %g, %k, %k, %k, %k {beta1=0.9, beta2=0.95}\n"
     "%a11, %b110, %b111 = nadam %a10, %b100, %b91, %g, %k, %k, %k, %k, %k, %k, beta1=%k {beta2=0.95, eps=1e-06, "
     "momentum_decay=0.01, decoupled}\n"
     "%a12, %b120, %b121 = radam %a11, %b110, %b111, %g, %k, %k, %k, %k, %k, beta1=%k {beta2=0.95, eps=1e-06, "
     "decoupled}\n"
     "%a13, %b130, %b131 = adamax %a12, %b120, %b121, %g, %k, %k, %k, %k, %k, beta1=%k {beta2=0.95, eps=1e-06}\n"
     "%a14, %b140 = lion %a13, %b130, %g, %k, %k, %k, %k, beta1=%k {beta2=0.95}\n"},
};
enum { N_SAMPLES = sizeof samples / sizeof *samples };

// ---- mutations of an operand
typedef enum {
  OTHER_DTYPE = 1,
  NOT_LAYOUT = 2,   // a tensor in a layout's place
  OTHER_BATCH = 4,  // another layout
  OTHER_TIME = 8,
  OTHER_ROWS = 16,
  IS_LAYOUT = 32,  // in a tensor's place
  RANK_UP = 64,
  RANK_UP_BEHIND = 128,
  RANK_DOWN = 256,
  DROPPED = 512,  // the last operand
  SIZE = 1024     // of axis k: SIZE << k
} Mutation;
enum { RANKS = RANK_UP | RANK_UP_BEHIND | RANK_DOWN, SIZES = SIZE * 255, SHAPES = RANKS | SIZES, ALL_ARGS = 99 };
#define AXIS(k) (SIZE << (k))

// Takes the place of an operand of instruction `user`. All stand behind the inputs of one program, and shift what follows.
typedef struct {
  uint32_t user, operand, kind;
  Val at;
} Mutant;

typedef struct {
  RtArena *mem;
  const Prog *p;
  uint32_t user, operand;  // of those that are added
  RtText lines;            // make all of them
  Mutant *list;
  uint32_t n, cap, end;  // end: the last instruction of `lines`
} Mutants;

static const char *shape_text(Mutants *m, const Dim *d, uint32_t n) {
  RtText t = {.mem = m->mem};
  rt_text_add(&t, "[");
  for (uint32_t k = 0; k < n; k++) {
    if (k) rt_text_add(&t, ",");
    ir_dim_text(m->p, d[k], &t);
  }
  rt_text_add(&t, "]");
  return t.text;
}

static void add(Mutants *m, uint32_t kind, uint32_t n_lines) {
  m->end += n_lines;
  *RT_PUSH(m->mem, m->list, m->n, m->cap) = (Mutant){m->user, m->operand, kind, {m->end}};
}

static void add_tensor(Mutants *m, uint32_t kind, DType t, const Dim *d, uint32_t n) {
  rt_text_add(&m->lines, "%%mutant%u_f32 = full {value=1, shape=%s}\n", m->n, shape_text(m, d, n));
  if (t != DT_F32) rt_text_add(&m->lines, "%%mutant%u = cast %%mutant%u_f32 {dtype=i64}\n", m->n, m->n);
  add(m, kind, t == DT_F32 ? 1 : 2);
}

// `rows` dealt to `batch` sequences of at most `time` steps.
static void add_layout(Mutants *m, uint32_t kind, int64_t batch, int64_t time, int64_t rows) {
  int64_t left = rows;
  rt_text_add(&m->lines, "%%mutant%u = packed_layout {empty, time=%lld, rows=%lld, lengths=[", m->n, (long long)time,
              (long long)rows);
  for (int64_t k = 0; k < batch; k++) {
    int64_t own = left < time ? left : time;
    rt_text_add(&m->lines, k ? ",%lld" : "%lld", (long long)own);
    left -= own;
  }
  rt_text_add(&m->lines, "]}\n");
  add(m, kind, 1);
}

static void find_mutants(Mutants *m, Prog *p, const Ins *a) {
  Dim d[MAX_RANK + 1], own[MAX_RANK];
  uint32_t r = ir_rank(p, a->shape);
  DType t = (DType)a->dtype, other = t == DT_F32 ? DT_I64 : DT_F32;
  for (uint32_t k = 0; k < r; k++) d[k] = own[k] = ir_dim_at(p, a->shape, k);
  if (t == DT_LAYOUT) {
    int64_t batch = ir_dim_bound(p, d[0]), time = ir_dim_bound(p, d[1]), rows = ir_dim_bound(p, d[2]);
    add_tensor(m, NOT_LAYOUT, DT_F32, d, r);
    add_layout(m, OTHER_BATCH, batch + 1, time, rows);
    add_layout(m, OTHER_TIME, batch, time + 1, rows);
    add_layout(m, OTHER_ROWS, batch, time, rows + 1);
    return;
  }
  add_tensor(m, OTHER_DTYPE, other, d, r);
  add_layout(m, IS_LAYOUT, 2, 4, 3);
  if (r) add_tensor(m, RANK_DOWN, t, d + 1, r - 1);
  d[r] = ir_dim(p, 11);
  add_tensor(m, RANK_UP_BEHIND, t, d, r + 1);
  for (uint32_t k = 0; k < r; k++) d[k + 1] = own[k];
  d[0] = ir_dim(p, 11);
  add_tensor(m, RANK_UP, t, d, r + 1);
  for (uint32_t k = 0; k < r; k++) {
    memcpy(d, own, sizeof own);
    d[k] = ir_dim(p, ir_dim_bound(p, own[k]) + 8);
    add_tensor(m, AXIS(k), t, d, r);
  }
}

// ---- what is legal all the same
typedef struct {
  const char *ops;   // or first results, between blanks; "1", "2", "3": every row in words of that many operands
  uint32_t operand;  // or ALL_ARGS
  uint32_t kinds;
  const char *why;
  bool used;
} Legal;

static Legal legal[] = {
#include "tests/verify_legal.h"
};
enum { N_LEGAL = sizeof legal / sizeof *legal };

static bool is_of(const Fn *f, Val v, const char *ops) {
  const OpInfo *op = &ir_ops[ir_ins(f, v)->op];
  char name[64], result[64];
  snprintf(name, sizeof name, " %s ", op->name);
  snprintf(result, sizeof result, " %%%s ", ir_text(f->prog, ir_ins(f, v)->name));
  return ops[0] == ' ' ? strstr(ops, name) || strstr(ops, result) : op->is_pointwise && op->n_max == ops[0] - '0';
}

static bool is_legal(const Fn *f, Val v, uint32_t operand, uint32_t kind) {
  bool found = false;
  for (uint32_t k = 0; k < N_LEGAL; k++) {
    if (!is_of(f, v, legal[k].ops) || !(legal[k].kinds & kind)) continue;
    if (legal[k].operand == ALL_ARGS || legal[k].operand == operand) legal[k].used = found = true;
  }
  return found;
}

// ---- a program, with all mutants or with none
static Fn *read_sample(RtArena *mem, const Sample *s, const char *mutants) {
  RtText lines = {.mem = mem};
  for (uint32_t op = OP_none + 1; !s->lines && op < N_OPS; op++)
    if (ir_ops[op].is_pointwise) pointwise_line((Op)op, (const char *const[]){"%x", "%v", "%c"}, 1, &lines);
  const char *text = rt_printf(mem, "program @p\n%sfunc @f(%s) {\n%s%s}\n", s->head, s->signature, mutants,
                               s->lines ? s->lines : lines.text);
  RtDiags d = {.mem = mem};
  Prog *p = ir_parse(mem, text, strlen(text), "sample.tir", &d);
  Fn *f = p ? ir_fn_find(p, "f") : NULL;
  if (f) f->update = f->shard = f;  // of a distributed function, which no text says
  if (!CHECK(f && ir_verify(f, &d))) rt_diags_print(&d, stdout), f = NULL;
  return f;
}

// What a mutation changes: of an instruction, all but its operands.
enum { MAX_INS = 16 };
typedef struct {
  Ins ins[MAX_INS];
  uint32_t n_ins, n_attrs;
} Saved;

static Saved save(const Fn *f, uint32_t i) {
  Saved saved = {.n_ins = f->ins[i].n_res ? f->ins[i].n_res : 1, .n_attrs = f->n_attrs};
  if (!CHECK(saved.n_ins <= MAX_INS)) saved.n_ins = MAX_INS;
  memcpy(saved.ins, &f->ins[i], saved.n_ins * sizeof(Ins));
  return saved;
}

static void restore(Fn *f, uint32_t i, const Saved *saved) {
  memcpy(&f->ins[i], saved->ins, saved->n_ins * sizeof(Ins));
  f->n_attrs = saved->n_attrs;
}

// `v` is the user of the mutant in f.
static void mutate_operand(Fn *f, Val v, const Mutant *m) {
  RtArena *mem = rt_arena_new();
  RtText why = {.mem = mem}, mutant = {.mem = mem};
  Saved saved = save(f, v.i);
  Val *operand = &f->args[ir_ins(f, v)->args + m->operand], was = *operand;
  *operand = m->at;
  ir_type_text(f->prog, ir_ins(f, m->at)->dtype, ir_ins(f, m->at)->shape, &mutant);
  bool taken = ir_infer(f, v, &why), fine = is_legal(f, v, m->operand, m->kind);
  if (!CHECK(taken == fine))
    printf("  %s of %s: operand %u, mutation %x: %s: %s\n", taken ? "accepted" : "refused",
           ir_ops[ir_ins(f, v)->op].name, m->operand, m->kind, mutant.text, taken ? "" : why.text);
  if (!taken) CHECK(why.len > 0);
  *operand = was;
  restore(f, v.i, &saved);
  rt_arena_free(mem);
}

static void drop_operand(Fn *f, uint32_t i) {
  RtArena *mem = rt_arena_new();
  RtDiags d = {.mem = mem};
  RtText why = {.mem = mem};
  Saved saved = save(f, i);
  Ins *ins = &f->ins[i];
  ins->n_args--;
  if (ins->n_args) ins->absent &= (uint16_t)((2u << ir_operand_slot(f, (Val){i}, ins->n_args - 1u)) - 1);
  bool counts = ins->n_args < ir_ops[ins->op].n_min;
  if (counts) CHECK(!ir_verify(f, &d));
  bool taken = !counts && ir_infer(f, (Val){i}, &why), fine = !counts && is_legal(f, (Val){i}, ins->n_args, DROPPED);
  if (!CHECK(taken == fine)) printf("  %s without its last operand: %s\n", ir_ops[ins->op].name, why.text);
  restore(f, i, &saved);
  rt_arena_free(mem);
}

// ---- attributes
static uint32_t bad_numbers(uint8_t range, Key key, Attr *out) {
  uint32_t n = 0;
  if (range != RANGE_ANY_NUMBER) out[n++] = ir_a_num(key, NAN), out[n++] = ir_a_num(key, INFINITY);
  if (range == RANGE_NOT_NEGATIVE || range == RANGE_BELOW_ONE || range == RANGE_PROBABILITY)
    out[n++] = ir_a_num(key, -0.5);
  if (range == RANGE_PROBABILITY) out[n++] = ir_a_num(key, 1.5);
  if (range == RANGE_BELOW_ONE) out[n++] = ir_a_num(key, 1);
  return n;
}

static uint32_t bad_lists(Prog *p, Key key, Attr *out) {
  const int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  out[0] = ir_a_list(key, ir_shape_ints(p, (int64_t[]){-1}, 1));
  out[1] = key == KEY_shape ? ir_a_list(key, ir_shape_ints(p, many, 9))
                            : ir_a_list(key, ir_shape_ints(p, (int64_t[]){0, 0}, 2));
  out[2] = ir_a_list(key, ir_shape_ints(p, (int64_t[]){(int64_t)1 << 40}, 1));
  return key == KEY_shape ? 2 : 3;
}

// Values that `key` of op must not have.
static uint32_t bad_values(Prog *p, Op op, Key key, Attr *out) {
  uint8_t range = ir_attr_rule(op, key).range;
  bool open = key == KEY_name || key == KEY_reader;  // any text
  switch ((AttrKind)ir_key_kind[key]) {
  case KIND_NUM: return bad_numbers(range, key, out);
  case KIND_FLAG: out[0] = ir_a_int(key, 0), out[1] = ir_a_int(key, 2); return 2;
  case KIND_DIM: out[0] = ir_a_dim(key, (Dim){0}); return 1;
  case KIND_PARAM: out[0] = ir_a_int(key, -1), out[1] = ir_a_int(key, 99); return 2;
  case KIND_BYTES:
  case KIND_STR: out[0] = ir_a_str(key, ir_str(p, "nothing of that name")); return !open;
  case KIND_LIST: return bad_lists(p, key, out);
  case KIND_INT: break;
  }
  out[0] = ir_a_int(key, key == KEY_scope ? -2 : key == KEY_ignore ? INT64_MIN : -1);
  out[1] = ir_a_int(key, key == KEY_size && op != OP_topk ? 0 : INT64_MAX);
  return 2 - (range == RANGE_COUNT);
}

static Attr *find_attr(Fn *f, uint32_t i, Key key) {
  for (uint32_t k = 0; k < f->ins[i].n_attrs; k++)
    if (f->attrs[f->ins[i].attrs + k].key == key) return &f->attrs[f->ins[i].attrs + k];
  return NULL;
}

// The instruction's own copy of its attributes, with room for one more.
static void own_attrs(Fn *f, uint32_t i) {
  uint32_t at = f->n_attrs, n = f->ins[i].n_attrs;
  for (uint32_t k = 0; k <= n; k++) {
    Attr a = k < n ? f->attrs[f->ins[i].attrs + k] : (Attr){0};
    *RT_PUSH(f->prog->mem, f->attrs, f->n_attrs, f->cap_attrs) = a;
  }
  f->ins[i].attrs = at;
}

// Attribute `a` (or without any: dropped) at instruction i must be refused by a rule, not by a type that changed.
static void mutate_attr(Fn *f, uint32_t i, Key key, uint32_t which, bool drop, const char *part) {
  RtArena *mem = rt_arena_new();
  RtDiags d = {.mem = mem};
  Prog *p = f->prog;
  Saved saved = save(f, i);
  Attr bad[4] = {ir_a_int(key, 1)};
  own_attrs(f, i);
  Attr *a = find_attr(f, i, key);
  if (drop) *a = f->attrs[f->ins[i].attrs + --f->ins[i].n_attrs];
  if (!drop && !a) a = &f->attrs[f->ins[i].attrs + f->ins[i].n_attrs++];
  if (!drop && ir_attr_rule((Op)f->ins[i].op, key).presence != ATTR_UNKNOWN) bad_values(p, (Op)f->ins[i].op, key, bad);
  if (!drop) *a = bad[which];
  bool refused = !ir_verify(f, &d) && !strstr(d.list[0].text, "its rule says");
  if (!CHECK(refused))
    printf("  %s %s {%s} %u\n", ir_ops[f->ins[i].op].name, drop ? "without" : "with", ir_key_name[key], which);
  else if (part) CHECK_HAS(d.list[0].text, part);
  restore(f, i, &saved);
  rt_arena_free(mem);
}

static void mutate_attrs(Fn *f, uint32_t i) {
  Op op = (Op)f->ins[i].op;
  for (uint32_t key = 0; key < N_KEYS; key++) {
    Attr bad[4];
    AttrRule rule = ir_attr_rule(op, (Key)key);
    char part[64];
    snprintf(part, sizeof part, "%s {%s}", rule.presence == ATTR_REQUIRED ? "needs" : "does not take",
             ir_key_name[key]);
    bool is_flag = ir_key_kind[key] == KIND_FLAG;
    bool is_number = ir_key_kind[key] == KIND_INT || ir_key_kind[key] == KIND_NUM || is_flag;
    if (rule.presence == ATTR_UNKNOWN) {
      if (is_number) mutate_attr(f, i, (Key)key, 0, false, part);
      continue;
    }
    uint32_t n = bad_values(f->prog, op, (Key)key, bad);
    for (uint32_t k = 0; k < n; k++) mutate_attr(f, i, (Key)key, k, false, NULL);
    if (rule.presence == ATTR_REQUIRED) mutate_attr(f, i, (Key)key, 0, true, part);
  }
}

// ---- all
static void check_sample(const Sample *s, bool *covered) {
  RtArena *mem = rt_arena_new();
  Fn *f = read_sample(mem, s, ""), *mutated = NULL;
  Mutants m = {.mem = mem, .lines = {.mem = mem}};
  if (f) m.p = f->prog, m.end = f->n_inputs;
  for (uint32_t i = 1; f && i < f->n_ins; i++) {
    covered[f->ins[i].op] = true;
    if (f->ins[i].op == OP_result) continue;
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) {
      m.user = i, m.operand = k;
      find_mutants(&m, f->prog, ir_ins(f, ir_arg(f, (Val){i}, k)));
    }
    if (f->ins[i].n_args) drop_operand(f, i);
    mutate_attrs(f, i);
  }
  if (m.n) mutated = read_sample(mem, s, m.lines.text);
  for (uint32_t k = 0; mutated && k < m.n; k++)
    mutate_operand(mutated, (Val){m.list[k].user + m.end - f->n_inputs}, &m.list[k]);
  rt_arena_free(mem);
}

int main(void) {
  bool covered[N_OPS] = {false};
  for (uint32_t k = 0; k < N_SAMPLES; k++) check_sample(&samples[k], covered);
  for (uint32_t op = OP_none + 1; op < N_OPS; op++)
    if (!CHECK(covered[op])) printf("  no sample has %s\n", ir_ops[op].name);
  for (uint32_t k = 0; k < N_LEGAL; k++)
    if (!CHECK(legal[k].used))
      printf("  no mutation needs: %s operand %u: %s\n", legal[k].ops, legal[k].operand, legal[k].why);
  return check_report();
}
