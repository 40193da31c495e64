// The text form: a program with every op, random programs, damaged text and every kind of syntax error.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/check.h"
#include "tests/pointwise.h"
#include "tests/sample.h"

#include <stdlib.h>

static const uint32_t all_flags[] = {0, PRINT_LOCS, PRINT_FACTS, PRINT_LOCS | PRINT_FACTS};

// print, parse, print gives the same text, under all flags.
static bool round_trips(const Prog *p, RtArena *mem) {
  bool ok = true;
  for (size_t k = 0; k < sizeof all_flags / sizeof *all_flags; k++) {
    RtDiags d = {.mem = mem};
    RtText once = {.mem = mem}, again = {.mem = mem};
    ir_print(p, &once, all_flags[k]);
    Prog *q = ir_parse(mem, once.text, once.len, "again.tir", &d);
    if (!q) {
      printf("%s", once.text);
      rt_diags_print(&d, stdout);
      return false;
    }
    ir_print(q, &again, all_flags[k] & ~(uint32_t)PRINT_FACTS);
    once.len = 0;
    ir_print(p, &once, all_flags[k] & ~(uint32_t)PRINT_FACTS);
    if (strcmp(once.text, again.text)) printf("---- once\n%s---- again\n%s", once.text, again.text);
    ok = ok && !strcmp(once.text, again.text);
  }
  return ok;
}

// ---- every op

static const char header[] = "program @ops\n"
                             "dim B <= 4, T <= 5, R <= 20\n"
                             "param @w : f32[4,3] trainable\n"
                             "body @b(%x: f32[T,3], %h: f32[4,3]) {\n"
                             "  output %h {index=0}\n"
                             "  output %x {index=1}\n"
                             "}\n"
                             "func @f(%x: f32[4,3], %v: f32[3], %s: f32[], %i: i64[4], %n: i64[B], %seq: f32[B,T,3],"
                             " %im: f32[2,3,4,2], %ke: f32[3,2,3,2]) {\n";

// After a line for each pointwise row.
static const char *const op_lines[] = {
    "%in = input {index=8} : f32[2]",
    "%w = param @w",
    "%c = const {value=2}",
    "%d = dim_size {dim=B}",
    "%tab = table {bits=\"3f80000080000000\", dtype=f32, shape=[2]}",
    "scope_begin {scope=1, name=\"one\"}",
    "%a = copy %x",
    "move %a {scope=0}",
    "attach %a {scope=1}",
    "dispose %a",
    "scope_end {scope=1}",
    "%g = grad_of %s, %x",
    "%gl = grad_replace %s, %x, %g",
    "%shm = shard_mean %x, %s {dim=B, shards=8, bucket_bytes=64}",
    "%r1 = rand {id=2, shape=[2,B]}",
    "%r2 = randn {id=3, shape=[]}",
    "%r3 = uniform {lo=-1, hi=1e-3, id=4, shape=[B*3]}",
    "%r4 = normal {mean=0, std=2, id=5, shape=[3]}",
    "%r5 = full {value=inf, shape=[0,3]}",
    "%k = cast %x {dtype=i64}",
    "%k2 = const {value=2, dtype=i64}",
    "%k3 = full {value=2, shape=[0,3], dtype=u8}",
    "%bw1 = bitwise_and %k, %k2",
    "%bw2 = bitwise_or %k, %k2",
    "%bw3 = bitwise_xor %k, %k2",
    "%bw4 = bitwise_not %k",
    "%bw5 = bitwise_left_shift %k, %k2",
    "%bw6 = bitwise_right_shift %k, %k2",
    "%mo1, %mo2, %mo3 = moments %x",
    "%me = mean %x {axes=[1], keepdim}",
    "%ws1 = sum %k {axes=[1], keepdim}",
    "%ws2 = prod %k {axes=[1]}",
    "%ws3 = amax %k {axes=[1]}",
    "%ws4 = argmax %k",
    "%ws5 = amax %k {axes=[1], least}",
    "%ws7 = sum %x {axes=[0], nonzero}",
    "%ws9 = prod %k {axes=[0,1]}",
    "%ws8 = amax %k {axes=[1], least, nonzero}",
    "%ws6 = argmax %k {axis=0, least}",
    "%kp = permute %k {perm=[1,0]}",
    "%wm = matmul %k, %kp",
    "%sg = stop_grad %x",
    "%as = assign %x, %v",
    "%re = reshape %x {shape=[12]}",
    "%ex = expand %v {shape=[B,4,3]}",
    "%pe = permute %seq {perm=[1,0,2]}",
    "%sl = slice %x {axis=0, start=1, count=2}",
    "%ks = argmax %v",
    "%sv = slice %x, %ks {axis=0, start=1, count=B*2, step=2, reverse}",
    "%sw = slice_assign %seq, %seq {axis=1, reverse}",
    "%pa = pad_axis %x {axis=1, start=2, size=7}",
    "%cr = crop %x {starts=[0,1], steps=[1,2], before=[0,3], behind=[0,1], shape=[4,5]}",
    "%cs = crop %x {starts=[1,3], steps=[-1,2], before=[0,3], behind=[0,1], shape=[2,5], perm=[1,0]}",
    "%wi = windows %x {axis=1, size=2, step=1, count=2}",
    "%co = concat %x, %x {axis=0}",
    "%cl = clone %x",
    "write %cl, %p_add {no_grad}",
    "overwritten %cl, %p_add",
    "%sa = slice_assign %x, %sl {axis=0, start=2}",
    "%ia = index_assign %w, %i, %x {into_param}",
    "%su = sum %x {axes=[0], keepdim}",
    "%cu0 = cumsum %x {axis=1, reverse}",
    "%cu1 = cumprod %x {axis=0, exclusive}",
    "%cu2 = logcumsumexp %x {axis=1}",
    "%cu3, %cu4 = cummax %x {axis=1}",
    "%cu5, %cu6 = cummin %x {axis=0}",
    "%cu7, %cu9 = linear_scan %x, %x {axis=1, reverse}",
    "%cu10, %cu11, %cu12 = linear_scan_grad %x, g=%x, g_hn=%cu9 {axis=1}",
    "%ff0 = rfft %x {weighted}",
    "%ff2 = rfft %x {bins_first}",
    "%ff3 = rfft_grad %ff2 {size=3, bins_first}",
    "%ff1 = rfft_grad %ff0 {size=3, weighted}",
    "%cu8 = shift %x {axis=0, reverse}",
    "%sr0, %sr1 = sort %x {axis=1, descending}",
    "%sr2, %sr3 = topk %x {axis=1, size=2}",
    "%sr4, %sr5 = kth_value %x {axis=0, size=3}",
    "%sr6, %sr7 = median %x {axis=0}",
    "%sr8 = searchsorted %v, %x {right}",
    "%sr9, %sr10 = nonzero %x {size=9}",
    "%sr12, %sr13 = repeat_index %i {size=9}",
    "%bg0, %bg1, %bg2 = embedding_bag %x, %i, %i {max, padding=0}",
    "%bg3 = embedding_bag_grad %x, %i, %bg0, %i",
    "%bg4 = embedding_bag_factor %x, %i, %bg0, %i",
    "%gx0 = gather %x, %cu4 {axis=1}",
    "%gx1 = index_select %x, %i {axis=0}",
    "%sc0 = scatter %x, %cu4, %s {axis=1}",
    "%sc1 = scatter_add %x, %cu4, %x {axis=1}",
    "%sc6 = scatter_prod %x, %cu4, %x {axis=1}",
    "%sc2 = scatter_amax %x, %cu4, %x {axis=1}",
    "%sc3 = scatter_amin %x, %cu4, %x {axis=1}",
    "%sc4 = index_copy %x, %i, %x {axis=0}",
    "%sc5 = index_add %x, %i, %x {axis=0}",
    "%am = amax %x {axes=[0,1]}",
    "%pr = prod %x {axes=[0,1]}",
    "%ar = argmax %x",
    "%so = softmax %x",
    "%sog = softmax_grad %so, %x",
    "%ls = log_softmax %x",
    "%lsg = log_softmax_grad %ls, %x",
    "%nl, %lse = cross_entropy_rows %x, %i",
    "%ng = cross_entropy_rows_grad %x, %i, %lse, %nl",
    "%ln, %lm, %lr = layer_norm %x {eps=1e-05}",
    "%lg = layer_norm_grad %x, %lm, %lr, %ln",
    "%rn, %rr = rms_norm %x {eps=0}",
    "%rg = rms_norm_grad %x, %rr, %rn",
    "%mm = matmul %x, %x {tb}",
    "%sd = square_distances %x, %x",
    "%st = solve_triangular %mm, %x {upper, ta, unit}",
    "%sx = solve_triangular %mm, %mm {right}",
    "%ch = cholesky %mm {upper}",
    "%lu, %lp, %ld = lu %mm",
    "%lx = lu_solve %mm, %lu, %lp, %x {ta}",
    "%qq, %qr = qr %mm",
    "%ew, %ev = eigh %mm",
    "%svu, %svs, %svw = svd %mm",
    "%li = linear %x, %w2",
    "%cv = conv %im, %ke {stride=[1,2], pad=[1,0,1,0], dilation=[1,1], groups=1, algorithm=\"exact\"}",
    "%ct = conv_transpose %cv, %ke {stride=[1,2], pad=[1,0,1,0], dilation=[1,1], groups=1, shape=[3,4]}",
    "%mp, %mi = max_pool %im {kernel=[2,2], stride=[1,2], pad=[0,1], dilation=[1,1], shape=[2,2]}",
    "%mg = max_pool_grad %mp, %mi {kernel=[2,2], stride=[1,2], pad=[0,1], shape=[3,4]}",
    "%sp = sum_pool %im {divisor=4, kernel=[2,2], shape=[2,3]}",
    "%sq = sum_pool_grad %sp {shape=[3,B]}",
    "%zr = resize %im {filter=\"linear\", align, shape=[2,7]}",
    "%zs = resize %im {filter=\"cubic\", shape=[2,7], scale1=1.5}",
    "%zg = resize_grad %zr {filter=\"linear\", align, shape=[3,4]}",
    "%cw = conv_weight_grad %im, %cv {stride=[1,2], pad=[1,0,1,0], shape=[3,2]}",
    "%em = embedding %x, %n",
    "%eg = embedding_grad %x, %n, %em",
    "%eh = embedding_grad %x, %n, %em, %eg",
    "%L = packed_layout %n {time=T, rows=R}",
    "%L2 = packed_layout {time=T, rows=9, lengths=[5,3,1]}",
    "%L3 = packed_layout {time=T, rows=8, lengths=[5,3,0], empty}",
    "%LD = dense_layout {dim=B, time=T}",
    "%p = pack_padded %seq, %L",
    "%q = unpack_padded %p, %L {value=-1, time_major}",
    "%sq0 = seq_part %L {part=\"sorted\"}",
    "%sq1 = seq_sum %p, %L",
    "%sq2, %sq3 = seq_max %p, %L",
    "%sq4, %sq5 = seq_min %p, %L",
    "%sq6 = seq_select %p, %L {first}",
    "%sq7 = seq_broadcast %sq1, %L",
    "%sq8 = seq_scatter %sq1, %L, %sq3",
    "%sq9 = seq_softmax %p, %L",
    "%sq10 = seq_softmax_grad %sq9, %L, %p",
    "%sq11 = seq_reverse %p, %L",
    "%said = rows %sq11, %L",
    "%sq12 = seq_from_list %p, %L",
    "%sq13 = seq_to_list %p, %L",
    "%sq14 = seq_windows %p, %L, %L {kernel=[3], stride=[2], pad=[1], dilation=[4]}",
    "%sq15 = seq_windows_grad %sq14, %L, %L {kernel=[3], stride=[2], pad=[1], dilation=[4]}",
    "%sq17 = seq_part %L {part=\"sequences\"}",
    "%sq18 = seq_row %sq17, %L, %sq17",
    "%sq19 = cumsum %p, %L {axis=0, reverse}",
    "%sq20, %sq21 = cummax %p, %L {axis=0}",
    "%sq16 = seq_window_lengths %L {size=2, step=2, padding=1}",
    "%h, %hn, %cn, %hp, %cp, %ga = rnn_seq %xg, %L, %whh {cell=\"lstm\", reverse}",
    "%dx, %dh, %dh0, %dc0 = rnn_seq_grad %h, %c0, %c0, %L, %whh, %h, %hp, %cp, %ga {cell=\"lstm\", reverse}",
    "%at, %al = sdpa %qh, %qh, %qh {scale=0.5, causal, heads_inside}",
    "%h1, %hn1, %cn1, %hp1, %cp1, %ga1 = rnn_seq %xg, %L, %whh, h0=%hn, c0=%cn {cell=\"lstm\"}",
    "%aq, %ak, %av = sdpa_grad %qh, %qh, %qh, out=%at, lse=%al, g=%at {scale=0.5, causal, heads_inside}",
    "%i0 = cast %s {dtype=i64}",
    "%one = full {value=1, shape=[1,1,1,1]}",
    "%at1, %al1 = sdpa %qh, %qh, %qh, offset=%i0 {causal}",
    "%at2, %al2 = sdpa %qh, %qh, %qh, attn_bias=%one {causal, offset=-3, window=5, heads_inside}",
    "%ab = sdpa_bias_grad %qh, %qh, %qh, attn_bias=%one, out=%at2, lse=%al2, g=%at2 {causal, offset=-3, window=5, "
    "heads_inside}",
    "%gn = global_norm %x, %v, %s",
    "%oa = copy %x",
    "%ob = copy %x",
    "%oc = copy %x",
    "%p1, %m1, %v1 = adamw %x, %oa, %ob, %x, %s, %s, %s {beta1=0.9, beta2=0.999, eps=1e-08, decoupled}",
    "%p4, %m4, %v4 = adamw_sparse %x, %oa, %ob, %i, %x, %s, %s, %s {beta1=0.9, beta2=0.999, eps=1e-08}",
    "%p2 = sgd %x, %x, %s, %s",
    "%p3, %m3 = sgd_momentum %x, %oa, %x, %s, %s, %s, %s {dampening=0, nesterov}",
    "%u0a, %u0b, %u0c, %u0d = amsgrad %x, %oa, %ob, %oc, %x, %s, %s, %s {beta1=0.9, beta2=0.95, eps=1e-06, decoupled}",
    "%u0e, %u0f, %u0g = adamw %x, %oa, %ob, %x, %s, %s, %s, beta1=%s {beta2=0.95, eps=1e-06, decoupled}",
    "%u0h, %u0i, %u0j, %u0k = amsgrad %x, %oa, %ob, %oc, %x, %s, %s, %s, beta1=%s {beta2=0.95, eps=1e-06, decoupled}",
    "%u1a, %u1b, %u1c = nadam %x, %oa, %ob, %x, %s, %s, %s, %s {beta1=0.9, beta2=0.95, eps=1e-06, momentum_decay=0.01, "
    "decoupled}",
    "%u1d, %u1e, %u1f = nadam %x, %oa, %ob, %x, %s, %s, %s, %s, beta1=%s {beta2=0.95, eps=1e-06, momentum_decay=0.01, "
    "decoupled}",
    "%u2d, %u2e, %u2f = radam %x, %oa, %ob, %x, %s, %s, %s, beta1=%s {beta2=0.95, eps=1e-06, decoupled}",
    "%u3d, %u3e, %u3f = adamax %x, %oa, %ob, %x, %s, %s, %s, beta1=%s {beta2=0.95, eps=1e-06}",
    "%u7d, %u7e = lion %x, %oa, %x, %s, %s, beta1=%s {beta2=0.95}",
    "%u2a, %u2b, %u2c = radam %x, %oa, %ob, %x, %s, %s, %s {beta1=0.9, beta2=0.95, eps=1e-06, decoupled}",
    "%u3a, %u3b, %u3c = adamax %x, %oa, %ob, %x, %s, %s, %s {beta1=0.9, beta2=0.95, eps=1e-06}",
    "%u4a, %u4b = adagrad %x, %oa, %x, %s, %s, %s {lr_decay=0.5, eps=1e-06}",
    "%u5a, %u5b, %u5c = adadelta %x, %oa, %ob, %x, %s, %s {rho=0.75, eps=1e-06}",
    "%u6a, %u6b = rmsprop %x, %oa, %x, %s, %s {alpha=0.75, eps=1e-06}",
    "%u7a, %u7b, %u7c = rmsprop_momentum %x, %oa, %ob, %x, %s, %s, %s {alpha=0.75, eps=1e-06}",
    "%u8a, %u8b, %u8c = rmsprop_centered %x, %oa, %ob, %x, %s, %s {alpha=0.75, eps=1e-06}",
    "%u9a, %u9b, %u9c, %u9d = rmsprop_centered_momentum %x, %oa, %ob, %oc, %x, %s, %s, %s {alpha=0.75, eps=1e-06}",
    "%u10a, %u10b = lion %x, %oa, %x, %s, %s {beta1=0.9, beta2=0.95}",
    "scan_begin {scan=0, time=B}",
    "%si = scan_input %seq {scan=0}",
    "%sc = scan_carry %x {scan=0, index=0}",
    "scan_next %x {scan=0, index=0}",
    "%sy = scan_output %si {scan=0, time=B}",
    "%sf = scan_final %x {scan=0, index=0}",
    "scan_end {scan=0}",
    "%s1, %s2 = scan %seq, %x {body=\"b\", slices=1, carries=1, time=B, reverse}",
    "%x0 = output %x {index=0, name=\"x\", bucket=0, bucket_bytes=64}",
    "%xb, %xr = exchange_begin %x0 {bucket=0, room=64}",
    "%xe, %xf = exchange_end %x {bucket=0, room=64}",
    "%xd = exchanged %x, %xe",
};

// Values that lines above stand on, before the line that needs them.
static const struct {
  const char *before, *line;
} helpers[] = {
    {"%li =", "%w2 = full {value=1, shape=[5,3]}"},
    {"%h, %hn", "%whh = full {value=0.5, shape=[8,2]}"},
    {"%h, %hn", "%xg = full {value=0.5, shape=[R,8]}"},
    {"%at,", "%qh = reshape %x {shape=[1,4,1,3]}"},
    {"%dx,", "%c0 = const {value=0}"},
};

static RtText text_with_all_ops(RtArena *mem) {
  RtText t = {.mem = mem};
  rt_text_add(&t, "%s", header);
  for (uint32_t op = OP_none + 1; op < N_OPS; op++)
    if (ir_ops[op].is_pointwise) pointwise_line((Op)op, (const char *const[]){"%x", "%v", "%s"}, 1, &t);
  for (size_t k = 0; k < sizeof op_lines / sizeof *op_lines; k++) {
    for (size_t j = 0; j < sizeof helpers / sizeof *helpers; j++)
      if (!strncmp(op_lines[k], helpers[j].before, strlen(helpers[j].before)))
        rt_text_add(&t, "  %s\n", helpers[j].line);
    rt_text_add(&t, "  %s\n", op_lines[k]);
  }
  rt_text_add(&t, "}\n");
  return t;
}

static void check_all_ops(void) {
  RtArena *mem = rt_arena_new();
  RtDiags d = {.mem = mem};
  RtText t = text_with_all_ops(mem);
  Prog *p = ir_parse(mem, t.text, t.len, "ops.tir", &d);
  rt_diags_print(&d, stdout);
  if (CHECK(p != NULL)) {
    bool seen[N_OPS] = {0};
    Fn *f = p->fns[0];
    for (uint32_t i = 1; i < f->n_ins; i++) seen[f->ins[i].op] = true;
    for (uint32_t op = 1; op < N_OPS; op++)
      if (!CHECK(seen[op])) printf("  a line for op %s is missing in op_lines\n", ir_ops[op].name);
    RtDiags alone = {.mem = mem};
    CHECK(!ir_verify(f, &alone) && alone.n == 4);
    CHECK_HAS(alone.list[0].text, "(output) is of a distributed function, which this is not");
    f->update = f->shard = f;  // which no text says
    CHECK(ir_verify(f, &d));
    rt_diags_print(&d, stdout);
    CHECK(p->next_id == 6);
    CHECK(round_trips(p, mem));
  }
  rt_arena_free(mem);
}

// ---- random programs, made through the builder

static uint64_t state = 1;
static uint32_t below(uint32_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % n;
}

static const char *const odd_names[] = {"",      "x",  "x",  "y.z",      "9",        "a b", "_",
                                        "scope", "\"", "\\", "\n\t\x01", "\xc3\xa9", "inf", "h"};
static const char *odd_name(void) { return odd_names[below(sizeof odd_names / sizeof *odd_names)]; }

static Loc odd_loc(Prog *p) {
  static const char *const files[] = {"a.c", "dir/b.c", "a b.c", "\"q\".c", "c:\\d.c", "?", "x // y:3"};
  Loc l = below(4) ? ir_loc(p, files[below(7)], below(3) ? below(1000) : 4294967295u) : (Loc){0};
  return ir_loc_within(p, l, below(3) ? 0 : below(p->n_checkpoints + 1));
}

static const char *const odd_paths[] = {"w", "a.b-c/d", "0.weight", "two words", "\"", "\\n"};

static void add_params(Prog *p) {
  for (uint32_t k = 0; k < 6; k++) {
    const char *path = odd_paths[k];
    ir_param_add(p, path, (ParamKind)below(3), DT_F32, ir_shape_ints(p, (int64_t[]){4}, 1), below(2), odd_loc(p));
  }
  ir_set_hyper(p, ir_param_add(p, "lr", PARAM_STATE, DT_F32, (Shape){0}, false, odd_loc(p)), (uint8_t)below(3),
               below(9));
  for (uint32_t k = 0, n = below(4); k < n; k++) ir_checkpoint_add(p, odd_paths[below(6)], below(k + 1), odd_loc(p));
  Param *q = &p->params[below(6)];
  *RT_PUSH(p->mem, q->aliases, q->n_aliases, q->cap_aliases) = ir_str(p, "alias of it");
}

static double odd_number(void) {
  static const double list[] = {0, -0.0, 1, 0.1, 1e300, 5e-324, 1.0 / 3, -2.5e-8, 123456789};
  return list[below(9)] * (below(3) ? 1 : (double)below(1000) / 7);
}

// One random instruction or mark; returns a value or none.
static Val add_random(Fn *f, const Val *values, uint32_t n, uint32_t *open, uint32_t *n_open) {
  Prog *p = f->prog;
  Val a = values[below(n)], b = values[below(n)];
  Attr scope = ir_a_int(KEY_scope, below(f->n_scopes));
  switch (below(12)) {
  case 0:
    if (*n_open == 30) return (Val){0};
    open[(*n_open)++] = ir_scope_open(f, below(5) ? f->cur_scope : below(f->n_scopes), odd_name(), odd_loc(p));
    f->cur_scope = f->n_scopes - 1;
    ir_emit(f, OP_scope_begin, NULL, 0,
            (Attr[]){ir_a_int(KEY_scope, f->cur_scope), ir_a_str(KEY_name, f->scopes[f->cur_scope].name)}, 2,
            odd_loc(p));
    return (Val){0};
  case 1:
    if (below(4)) scope.u.i = *n_open ? open[--*n_open] : 0;
    ir_emit(f, OP_scope_end, NULL, 0, &scope, 1, odd_loc(p));
    f->cur_scope = *n_open ? open[*n_open - 1] : 0;
    return (Val){0};
  case 2: ir_emit(f, OP_move, &a, 1, &scope, 1, odd_loc(p)); return (Val){0};
  case 3: ir_emit(f, OP_dispose, &a, 1, NULL, 0, odd_loc(p)); return (Val){0};
  case 4: return ir_const(f, odd_number(), odd_loc(p));
  case 5: return ir_param(f, below(p->n_params), odd_loc(p));
  case 6: return ir_emit(f, OP_leaky_relu, &a, 1, (Attr[]){ir_a_num(KEY_slope, odd_number())}, 1, odd_loc(p));
  default: return ir_op2(f, (Op)(OP_add + below(4)), a, b, odd_loc(p));
  }
}

static void add_function(Prog *p, const char *name) {
  Fn *f = ir_fn_new(p, name, odd_loc(p));
  Val values[64];
  uint32_t n = 0, open[32], n_open = 0;
  for (uint32_t k = 0; k < 3; k++)
    values[n++] = ir_input(f, odd_name(), DT_F32, ir_shape_ints(p, (int64_t[]){4}, 1), odd_loc(p));
  for (uint32_t k = 0; k < 40; k++) {
    Val v = add_random(f, values, n, open, &n_open);
    if (ir_none(v)) continue;
    if (below(2)) ir_ins(f, v)->name = ir_str(p, odd_name());
    if (!below(5)) ir_ins(f, v)->scope = below(3) ? below(f->n_scopes) : NO_SCOPE;
    values[n++] = v;
  }
  if (below(2)) f->scopes[below(f->n_scopes)].closed = true;
}

static void check_random(void) {
  for (uint32_t round = 0; round < 300; round++) {
    if (IS_SANITIZED && !is_sampled(round, 4)) continue;
    state = round + 1;
    RtArena *mem = rt_arena_new();
    Prog *p = ir_prog_new(mem, odd_name());
    add_params(p);
    add_function(p, "f");
    add_function(p, "two words");
    if (!CHECK(round_trips(p, mem))) printf("  in round %u\n", round);
    rt_arena_free(mem);
  }
}

// ---- a long program: time is linear

static void check_large(void) {
  RtArena *mem = rt_arena_new();
  Prog *p = ir_prog_new(mem, "large");
  Fn *f = ir_fn_new(p, "f", (Loc){0});
  Val v = ir_input(f, "x", DT_F32, ir_shape_ints(p, (int64_t[]){4}, 1), (Loc){0});
  for (uint32_t k = 0; k < 20000; k++) {
    v = ir_op1(f, OP_relu, v, (Loc){0});
    ir_ins(f, v)->name = ir_str(p, rt_printf(mem, "value.%u", k));
  }
  RtText once = {.mem = mem}, again = {.mem = mem};
  RtDiags d = {.mem = mem};
  ir_print(p, &once, 0);
  Prog *q = ir_parse(mem, once.text, once.len, "large.tir", &d);
  if (CHECK(q != NULL)) ir_print(q, &again, 0);
  CHECK(q && !strcmp(once.text, again.text));
  rt_arena_free(mem);
}

// ---- damage

static void check_bytes(const char *text, size_t n) {
  RtArena *mem = rt_arena_new();
  RtDiags d = {.mem = mem};
  char *exact = malloc(n ? n : 1);  // a sanitizer sees a read past the end
  if (exact) memcpy(exact, text, n);
  Prog *p = exact ? ir_parse(mem, exact, n, "damaged.tir", &d) : NULL;
  bool placed = true;
  for (uint32_t k = 0; k < d.n; k++) placed = placed && d.list[k].line && d.list[k].column;
  if (p) CHECK(d.n_errors == 0);
  else CHECK(d.n_errors > 0 && d.n_errors <= 20 && placed);
  free(exact);
  rt_arena_free(mem);
}

static void check_damage(void) {
  RtArena *mem = rt_arena_new();
  RtText t = text_with_all_ops(mem);
  for (size_t n = 0; n < t.len; n += 1 + n % 7)
    if (is_sampled(n, IS_SANITIZED ? 5 : 2)) check_bytes(t.text, n);
  for (size_t k = 0; k < t.len; k += 3) {
    if (!is_sampled(k, IS_SANITIZED ? 5 : 2)) continue;
    char old = t.text[k];
    t.text[k] = (char)below(256);
    check_bytes(t.text, t.len);
    t.text[k] = old;
  }
  rt_arena_free(mem);
}

// ---- one report for one mistake, at its place

static const struct {
  const char *body;  // line 4 on
  uint32_t id, line, column;
  const char *part;
} faults[] = {
    {"%y = rleu %x\n%z = neg %y", 1, 4, 6, "expected an operation, found 'rleu'"},
    {"%y = relu %q", 1, 4, 11, "'%q' is not defined"},
    {"%x = relu %x", 1, 4, 1, "'%x' is defined twice"},
    {"%y = relu", 1, 4, 6, "relu takes 1 operand, found 0"},
    {"%y = concat {axis=0}", 1, 4, 6, "concat takes 1 to 1024 operands, found 0"},
    {"%y = relu %x, b=%x", 1, 4, 15, "relu has no operand 'b'"},
    {"%y, %m, %r = layer_norm %x, x=%x {eps=0}", 1, 4, 29, "operand 'x' stands there already"},
    {"%y, %m, %r = layer_norm %x, bias=%x {eps=0}", 3, 4, 14, "has operand bias without the one before it"},
    {"%y, %m, %r = layer_norm %x, bias=%x, %x {eps=0}", 1, 4, 38, "expected the name of an operand"},
    {"%y, %l = sdpa %x, lengths %x", 1, 4, 27, "expected '=', found '%x'"},
    {"%y, %l = sdpa %x, v=%x", 3, 4, 10, "has operand v without the one before it"},
    {"%y, %n, %a, %b, %c, %d = rnn_seq %x, w_hh=%x, h0=%x {cell=\"gru\"}", 1, 4, 38, "operand layout is missing"},
    {"%a, %b, %c = sdpa_grad %x, %x, %x, %x", 3, 4, 14, "lacks operand out"},
    {"%y, %z = relu %x", 1, 4, 10, "relu has 1 result, found 2"},
    {"%y = relu %x : f32[3]", 1, 4, 16, "expected f32[B,2], the type that relu gives"},
    {"%y = relu %x : i64[B,2]", 1, 4, 16, "expected f32[B,2]"},
    {"%y = relu %x : f33[B,2]", 1, 4, 16, "expected a type"},
    {"%y = relu %x : f32[C,2]", 1, 4, 20, "which no dim line names"},
    {"%y = relu %x : f32[B,2", 1, 4, 23, "expected ',', found the end of the line"},
    {"%y = relu %x {nokey}", 1, 4, 15, "expected the name of an attribute"},
    {"%y = leaky_relu %x {slope}", 1, 4, 26, "expected '=', found '}'"},
    {"%y = leaky_relu %x {slope=a}", 1, 4, 27, "expected a number, found 'a'"},
    {"%y = leaky_relu %x {slope=1, slope=1}", 1, 4, 30, "stands twice"},
    {"%y = sum %x {axes=[0}", 1, 4, 21, "expected ',', found '}'"},
    {"%y = sum %x {axes=[B]}", 1, 4, 20, "expected a whole number"},
    {"%y = slice %x {axis=1, start=9223372036854775808, count=1}", 1, 4, 30, "must lie in"},
    {"%y = slice %x {axis=1, start=2, count=1}", 4, 4, 6, "do not lie in axis 1"},
    {"%y = cast %x {dtype=f15}", 1, 4, 21, "expected a type"},
    {"%y = param @nothing", 1, 4, 12, "names no param"},
    {"%y = param", 3, 4, 6, "param: needs {param}"},
    {"%y = matmul %x, %x", 4, 4, 6, "inner sizes differ"},
    {"%y = relu %x owner=3", 1, 4, 20, "the number of a scope must lie in [0, 0]"},
    {"%y = relu %x owner=0,0", 1, 4, 6, "owners found: 2"},
    {"%y = relu %x checkpoint=1", 1, 4, 25, "the program has no checkpoint"},
    {"%y = relu %x checkpoint", 1, 4, 24, "expected '=', found the end of the line"},
    {"%y = relu %x %x", 1, 4, 14, "expected the end of the line"},
    {"%y relu %x", 1, 4, 4, "expected '=', found 'relu'"},
    {"scope {\n}", 1, 4, 7, "expected the name of a scope"},
    {"scope a in 7 {\n}", 1, 4, 12, "must lie in [0, 0]"},
    {"scope 2 a in 0", 1, 4, 7, "counted from 1"},
    {"%y = relu %x\nscope 1 a in 0", 1, 5, 7, "before the first instruction"},
    {"scope 1 a in 0\nscope b {\n}", 1, 5, 1, "table of scopes"},
    {"scope_begin {name=\"a\"}", 1, 4, 1, "expected scope_begin {scope=1, name="},
    {"output %x {index=0, name=\"a}", 1, 4, 26, "closing quote"},
    {"output %x {index=0, name=\"\\q\"}", 1, 4, 26, "escapes"},
    {"%y = input {index=1}", 3, 4, 6, "needs a type"},
    {"\x80", 1, 4, 1, "no meaning here"},
    {"% = relu %x", 1, 4, 1, "'%' without a name"},
    {"%y = leaky_relu %x {slope=-}", 1, 4, 27, "'-' without a number"},
    {"%y = leaky_relu %x {slope=1e}", 1, 4, 27, "an exponent without digits"},
    {"func @g() {", 1, 4, 1, "expected '}' at the end of the function"},
};

static void check_faults(void) {
  for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
    RtArena *mem = rt_arena_new();
    RtDiags d = {.mem = mem};
    const char *text = rt_printf(mem, "program @p\ndim B <= 3\nfunc @f(%%x: f32[B,2]) {\n%s\n}\n", faults[k].body);
    CHECK(ir_parse(mem, text, strlen(text), "p.tir", &d) == NULL);
    const RtDiag *e = d.n ? &d.list[0] : &(RtDiag){.text = ""};
    bool one = CHECK(d.n_errors == 1),
         there = CHECK(e->id == faults[k].id && e->line == faults[k].line && e->column == faults[k].column);
    CHECK_HAS(e->text, faults[k].part);
    if (!one || !there) {
      printf("  for: %s\n", faults[k].body);
      rt_diags_print(&d, stdout);
    }
    rt_arena_free(mem);
  }
}

static void check_many_faults(void) {
  RtArena *mem = rt_arena_new();
  RtDiags d = {.mem = mem};
  RtText t = {.mem = mem};
  rt_text_add(&t, "program @p\nfunc @f() {\n");
  for (int k = 0; k < 100; k++) rt_text_add(&t, "  bad line\n");
  CHECK(ir_parse(mem, t.text, t.len, "p.tir", &d) == NULL);
  CHECK(d.n_errors == 20);
  CHECK(ir_parse(mem, "", 0, NULL, &d) == NULL);
  rt_arena_free(mem);
}

// Hyper-parameters that may be set between runs are marked in the text.
static void check_hypers(void) {
  static const struct {
    const char *line, *part;  // NULL: good
  } lines[] = {{"state @a : f32[] lr of group 0", NULL},
               {"state @a : f32[] weight_decay of group 7", NULL},
               {"state @a : f32[] momentum of group 4294967295", NULL},
               {"state @lr : f32[]", NULL},
               {"state @a : f32[] lr of group 4294967296", "the number of a group must lie in [0, 4294967295]"},
               {"state @a : f32[] lr of group", "expected the number of a group"},
               {"state @a : f32[] lr", "expected 'of group' and its number"},
               {"state @a : f32[] lrr of group 1", "expected the end of the line"},
               {"state @a : f32[1] lr of group 1", "expected f32[]"},
               {"state @a : f16[] lr of group 1", "expected f32[]"},
               {"param @a : f32[] lr of group 1", "expected the end of the line"}};
  for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
    RtArena *mem = rt_arena_new();
    RtDiags d = {.mem = mem};
    RtText again = {.mem = mem};
    const char *text = rt_printf(mem, "program @p\n%s\n", lines[k].line);
    Prog *p = ir_parse(mem, text, strlen(text), "p.tir", &d);
    if (p) ir_print(p, &again, 0);
    if (lines[k].part) CHECK_HAS(d.n ? d.list[0].text : "", lines[k].part);
    else CHECK(p && !strcmp(again.text, text));
    rt_arena_free(mem);
  }
}

int main(void) {
  check_all_ops();
  check_hypers();
  check_random();
  check_large();
  check_damage();
  check_faults();
  check_many_faults();
  return check_report();
}
