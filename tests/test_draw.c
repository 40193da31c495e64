// Inputs that tools make up are valid: of every op that checks numbers in a run, by every way from an input to the op.
#include "tests/check.h"
#include "tools/self_check.h"

#include <string.h>

// An op, and its program: i64 values %i of shape [n], further inputs, what comes of them in %v.
typedef struct {
  Op op;
  uint32_t n;
  const char *inputs, *body;
} Case;

#define TABLE "%a: f32[5,3]"
#define LAYOUT "%L = packed_layout %i {time=6, rows=rows}\n"
static const Case cases[] = {
    {OP_embedding, 4, TABLE, "%v = embedding %a, %i"},
    {OP_embedding_grad, 4, TABLE ", %b: f32[4,3]", "%v = embedding_grad %a, %i, %b"},
    {OP_embedding_bag, 4, TABLE, "%j = reshape %i {shape=[2,2]}\n%v, %n, %m = embedding_bag %a, %j"},
    {OP_embedding_bag, 4, TABLE ", %j: i64[7]", "%v, %n, %m = embedding_bag %a, %j, %i"},
    {OP_embedding_bag_grad, 4, TABLE ", %g: f32[2,3]",
     "%j = reshape %i {shape=[2,2]}\n%v = embedding_bag_grad %a, %j, %g"},
    {OP_embedding_bag_factor, 4, TABLE ", %g: f32[2,3]",
     "%j = reshape %i {shape=[2,2]}\n%v = embedding_bag_factor %a, %j, %g"},
    {OP_index_assign, 4, TABLE ", %b: f32[4,3]", "%k = square %a\n%v = index_assign %k, %i, %b"},
    {OP_gather, 3, TABLE, "%j = reshape %i {shape=[1,3]}\n%v = gather %a, %j {axis=0}"},
    {OP_index_select, 4, TABLE, "%v = index_select %a, %i {axis=1}"},
    {OP_index_copy, 4, TABLE ", %b: f32[4,3]", "%v = index_copy %a, %i, %b {axis=0}"},
    {OP_index_add, 4, TABLE ", %b: f32[4,3]", "%v = index_add %a, %i, %b {axis=0}"},
    {OP_scatter, 3, TABLE ", %b: f32[1,3]", "%j = reshape %i {shape=[1,3]}\n%v = scatter %a, %j, %b {axis=0}"},
    {OP_scatter_add, 3, TABLE ", %b: f32[1,3]", "%j = reshape %i {shape=[1,3]}\n%v = scatter_add %a, %j, %b {axis=0}"},
    {OP_scatter_prod, 3, TABLE ", %b: f32[1,3]",
     "%j = reshape %i {shape=[1,3]}\n%v = scatter_prod %a, %j, %b {axis=0}"},
    {OP_scatter_amax, 3, TABLE ", %b: f32[1,3]",
     "%j = reshape %i {shape=[1,3]}\n%v = scatter_amax %a, %j, %b {axis=0}"},
    {OP_scatter_amin, 3, TABLE ", %b: f32[1,3]",
     "%j = reshape %i {shape=[1,3]}\n%v = scatter_amin %a, %j, %b {axis=0}"},
    {OP_cross_entropy_rows, 5, TABLE, "%v, %l = cross_entropy_rows %a, %i"},
    {OP_slice, 1, TABLE, "%j = reshape %i {shape=[]}\n%v = slice %a, at=%j {axis=0, count=3}"},
    {OP_slice_assign, 1, TABLE ", %b: f32[3,3]",
     "%j = reshape %i {shape=[]}\n%k = square %a\n%v = slice_assign %k, %b, at=%j {axis=0}"},
    {OP_packed_layout, 4, "%x: f32[4,6,2]", LAYOUT "%v = pack_padded %x, %L"},
    {OP_packed_layout, 4, "%x: f32[4,6,2]",
     "%L = packed_layout %i {time=6, rows=rows, sorted}\n%v = pack_padded %x, %L"},
    {OP_seq_window_lengths, 4, "", LAYOUT "%v = seq_window_lengths %L {size=3, step=2}"},
    {OP_seq_row, 4, "%l: i64[4], %x: f32[4,6,2]",
     "%L = packed_layout %l {time=6, rows=rows}\n%r = seq_row %l, %L, %i\n%k = pack_padded %x, %L\n"
     "%v = index_select %k, %r {axis=0, padded}"},
    {OP_sdpa, 2, "%q: f32[2,1,4,8]", "%v, %l = sdpa %q, %q, %q, lengths=%i"},
    {OP_repeat_index, 4, "", "%v, %n = repeat_index %i {size=9}"},
    // both: an index is a row of the smaller table
    {OP_embedding, 4, TABLE ", %b: f32[3,2]", "%d = embedding %a, %i\n%v = embedding %b, %i"},
};

// From an input %u to %i; %1$u is n.
static const struct {
  const char *name, *input, *body;
} ways[] = {
    {"itself", "%%i: i64[%1$u]", ""},
    {"of u8", "%%u: u8[%1$u]", "%%i = cast %%u {dtype=i64}\n"},
    {"of i32", "%%u: i32[%1$u]", "%%i = cast %%u {dtype=i64}\n"},
    {"of f32", "%%u: f32[%1$u]", "%%i = cast %%u {dtype=i64}\n"},
    {"of bf16, by i32", "%%u: bf16[%1$u]", "%%t = cast %%u {dtype=i32}\n%%i = cast %%t {dtype=i64}\n"},
    {"reshaped", "%%u: u8[1,%1$u]", "%%t = reshape %%u {shape=[%1$u]}\n%%i = cast %%t {dtype=i64}\n"},
    {"a column", "%%u: i64[%1$u,3]", "%%t = slice %%u {axis=1, start=1, count=1}\n%%i = reshape %%t {shape=[%1$u]}\n"},
    {"a turned column", "%%u: i64[3,%1$u]",
     "%%p = permute %%u {perm=[1,0]}\n%%t = slice %%p {axis=1, start=1, count=1}\n%%i = reshape %%t {shape=[%1$u]}\n"},
    {"chosen", "%%u: i64[%1$u], %%w: i64[%1$u]", "%%c = gt %%u, %%w\n%%i = select %%c, %%u, %%w\n"},
    {"counted from 2", "%%u: i64[%1$u]", "%%t = full {value=2, shape=[], dtype=i64}\n%%i = sub %%u, %%t\n"},
    {"joined", "%%u: i64[%1$u], %%w: u8[2]",
     "%%t = cast %%w {dtype=i64}\n%%p = concat %%u, %%t {axis=0}\n%%i = slice %%p {axis=0, start=0, count=%1$u}\n"},
};

static void check_case(const Case *c, uint32_t way) {
  char text[2048], input[256], body[512];
  snprintf(input, sizeof input, ways[way].input, c->n);
  snprintf(body, sizeof body, ways[way].body, c->n);
  snprintf(text, sizeof text,
           "program @p\ndim rows <= 24\nfunc @f(%s%s%s) {\n%s%s\noutput %%v {name=\"v\", index=0}\n}\n", input,
           *c->inputs ? ", " : "", c->inputs, body, c->body);
  for (uint64_t seed = 0; seed < 2; seed++) {
    SelfCheck s = {.text = text, .n = strlen(text), .path = "draw.tir", .passes = ir_passes[0].name, .seed = seed};
    Finding f = self_check(&s);
    bool good = CHECK(f.verdict == CHECK_SAME && f.n_draws == 1);
    if (!good) printf("%s, %s, seed %llu: %s\n", ir_ops[c->op].name, ways[way].name, (unsigned long long)seed, f.why);
    if (!good) break;
  }
}

// Each op whose numbers may be refused has a case; gradients of others pass over what is out of range.
static void test_table(void) {
  static const ArgName names[] = {ARG_index, ARG_labels, ARG_offsets, ARG_counts, ARG_at, ARG_lengths};
  for (uint32_t op = 1; op < N_OPS; op++)
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
      if (ir_op_operand((Op)op, names[k]) == UINT32_MAX) continue;
      bool is_there = op == OP_cross_entropy_rows_grad || op == OP_sdpa_grad || op == OP_sdpa_bias_grad ||
                      ir_ops[op].cls == CLASS_OPTIMIZER || op == OP_max_pool_grad;
      for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) is_there |= cases[i].op == op;
      if (!CHECK(is_there)) printf("%s has no case\n", ir_ops[op].name);
    }
}

// What is no range: less spread, and at last the least numbers.
static void test_spreads(void) {
  static const struct {
    const char *body;
    CheckVerdict verdict;
    uint32_t n_draws;
  } rows[] = {
      {"%y, %n = nonzero %x {size=9}", CHECK_SAME, 1},
      {"%y, %n = nonzero %x {size=2}", CHECK_SAME, 3},
      {"%m = full {value=10, shape=[]}\n%c = mul %x, %m\n%d = cast %c {dtype=i64}\n%y = embedding %w, %d", CHECK_SAME,
       3},
      {"%c = cast %x {dtype=i64}\n%m = full {value=9, shape=[], dtype=i64}\n%d = max %c, %m\n%y = embedding %w, %d",
       CHECK_NO_INPUTS, 3},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    char text[512];
    snprintf(text, sizeof text,
             "program @p\nfunc @f(%%x: f32[9], %%w: f32[3,2]) {\n%s\noutput %%y {name=\"y\", index=0}\n}\n",
             rows[k].body);
    SelfCheck s = {.text = text, .n = strlen(text), .path = "draw.tir", .passes = ir_passes[0].name};
    Finding f = self_check(&s);
    bool good = CHECK(f.verdict == rows[k].verdict && f.n_draws == rows[k].n_draws);
    if (!good) printf("%s: verdict %d, draws %u: %s\n", rows[k].body, (int)f.verdict, f.n_draws, f.why);
    if (f.verdict == CHECK_NO_INPUTS) CHECK(!*f.pass && strstr(f.why, "index 9 at element 0"));
  }
}

// Numbers that would be valid below 0 are none of u8 and bool.
static void test_unsigned(void) {
  static const char *const dtypes[] = {"u8", "bool"};
  for (uint64_t seed = 0; seed < 8; seed++) {
    char text[512];
    snprintf(text, sizeof text,
             "program @p\nfunc @f(%%u: %s[4], %%a: f32[5,3]) {\n%%t = cast %%u {dtype=i64}\n"
             "%%m = full {value=3, shape=[], dtype=i64}\n%%i = add %%t, %%m\n%%v = embedding %%a, %%i\n"
             "output %%v {name=\"v\", index=0}\n}\n",
             dtypes[seed % 2]);
    SelfCheck s = {.text = text, .n = strlen(text), .path = "draw.tir", .passes = ir_passes[0].name, .seed = seed};
    Finding f = self_check(&s);
    if (!CHECK(f.verdict == CHECK_SAME && f.n_draws == 1))
      printf("%s: %u draws: %s\n", dtypes[seed % 2], f.n_draws, f.why);
  }
}

int main(void) {
  test_table();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    for (uint32_t way = 0; way < sizeof ways / sizeof *ways; way++) check_case(&cases[k], way);
  test_spreads();
  test_unsigned();
  return check_report();
}
