// Sequences of a packed batch stay apart: every op of the table either keeps rows, or is a total, or takes the layout, or is
// refused along the axis of rows (E130), in text as in calls. What is accepted gives sequence 0 the same bits whatever sequence 1 is.
#include "frontend/graph/function.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/program.h"
#include "ir/rows/rows.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

enum { B = 2, T = 3, C = 4, ROWS = 5, MOST = 64 };
#define AXES(...) \
  (const int[]) { __VA_ARGS__ }
#define SIZES(...) \
  (const int64_t[]) { __VA_ARGS__ }

static tn_program *p;
static tn_function *f;
static tn_module *net;
static tn_packed s, ids;
static tn_tensor d, labels, table, index5;  // data [rows, C], i64 [rows], [4, 4], i64 [5] that is not of rows
static tn_dim rows;

static void begin(bool is_const) {
  static const int64_t lengths[B] = {3, 2}, five[5] = {3, 1, 0, 2, 1};
  p = tn_program_create("apart");
  net = tn_root(p);
  tn_dim b = is_const ? tn_dim_const(B) : tn_dim_bounded(p, "batch", B);
  tn_dim t = is_const ? tn_dim_const(T) : tn_dim_bounded(p, "time", T);
  f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(b, t, C)), y = tn_input(f, "labels", TN_I64, TN_SHAPE(b, t));
  tn_tensor n = tn_input(f, "lengths", TN_I64, TN_SHAPE(b));
  table = tn_input(f, "table", TN_F32, TN_SHAPE(C, C));
  s = is_const ? tn_pack_constant(x, lengths, B) : tn_pack_padded(x, n);
  ids = is_const ? tn_pack_constant(y, lengths, B) : tn_pack_padded(y, n);
  d = s.data, labels = ids.data, rows = tn_dim_of(d, 0);
  index5 = tn_constant_i64(f, five, TN_SHAPE(5));
}

static tn_tensor heads(void) { return tn_reshape(d, TN_SHAPE(rows, 2, 2)); }
static tn_packed packed_heads(void) { return tn_packed_with_data(s, heads()); }
static tn_tensor signal(void) { return heads(); }  // [rows, channels, 2]
static tn_tensor matrix(void) { return heads(); }
static tn_tensor over(tn_module *m) { return tn_packed_call(m, s).data; }
static tn_tensor written(tn_tensor t, tn_tensor content) { return tn_copy_(t, content), t; }
static tn_tensor through_scan(void) {
  tn_scan *scan = tn_scan_begin(f, .over = s);
  tn_tensor x = tn_scan_input(scan, d), h = tn_scan_carry(scan, tn_packed_sum(s));
  tn_tensor next = tn_tanh(tn_add(x, h));
  tn_scan_next(scan, h, next);
  tn_tensor out = tn_scan_output(scan, next);
  tn_scan_end(scan);
  return out;
}
static tn_tensor in_scan(void) {
  tn_scan *scan = tn_scan_begin(f, .over = s);
  tn_tensor out = tn_scan_output(scan, tn_softmax(tn_scan_input(scan, d), 0));
  tn_scan_end(scan);
  return out;
}
static tn_tensor steps_are_rows(void) {
  tn_scan *scan = tn_scan_begin(f, .steps = rows);
  tn_tensor out = tn_scan_output(scan, tn_scan_input(scan, d));
  tn_scan_end(scan);
  return out;
}
static tn_tensor four(void) { return tn_reshape(d, TN_SHAPE(rows, 1, 2, 2)); }
static tn_tensor reduced(tn_scatter_kind how, int axis) {
  return tn_scatter_reduce(d, axis, tn_reshape(labels, TN_SHAPE(rows, 1)), tn_slice(d, 1, 0, 1), how);
}
static tn_values pairs_of_rows(tn_module *m, tn_values in, void *self) {
  (void)m, (void)self;
  tn_tensor x = in.v[0];
  return TN_VALUES(tn_matmul(tn_matmul(x, tn_transpose(x, 0, 1)), x));
}
static tn_tensor own(void) {
  static const tn_module_class pairs = {.forward = pairs_of_rows, .n_in = 1, .n_out = 1};
  return over(tn_module_define(net, "own", &pairs, NULL));
}
static tn_tensor sequence_of(tn_module *first, tn_module *second) {
  return tn_packed_call(second, tn_packed_call(first, s)).data;
}

#define NAME_(line) make_##line
#define NAME(line) NAME_(line)
#define KEEP(op, ...) \
  static tn_tensor NAME(__LINE__)(void) { return __VA_ARGS__; }
#define TAKE KEEP
#define MIX KEEP
#include "tests/packed_apart.def"
#define KEEP(op, ...) {#op, KEEPS, #__VA_ARGS__, NAME(__LINE__)},
#define TAKE(op, ...) {#op, TAKES, #__VA_ARGS__, NAME(__LINE__)},
#define MIX(op, ...) {#op, MIXES, #__VA_ARGS__, NAME(__LINE__)},
static const struct {
  const char *op;
  enum { KEEPS, TAKES, MIXES } fate;
  const char *text;
  tn_tensor (*make)(void);
} cases[] = {
#include "tests/packed_apart.def"
};
enum { N_CASES = sizeof cases / sizeof *cases };

// ---- accepted or refused
static void judge(bool is_const) {
  for (size_t k = 0; k < N_CASES; k++) {
    begin(is_const);
    tn_tensor y = cases[k].make();
    bool refused = cases[k].fate == MIXES;
    bool good = tn_n_errors(p) ? refused && strstr(report_of(p), "error[E130]") : !refused && y.v;
    if (cases[k].fate == KEEPS && good) good = fe_rows_of(y) != 0;
    if (!CHECK(good)) printf("%s lengths: %s\n%s", is_const ? "constant" : "run-time", cases[k].text, report_of(p));
    tn_program_free(p);
  }
}

// ---- the same in text
// The function as the verifier finds it in text; NULL: accepted
static const char *report_of_text(const char *text, size_t n) {
  static char report[4096];
  tn_program *q = tn_program_parse(text, n, "apart.tir");
  snprintf(report, sizeof report, "%s", report_of(q));
  bool good = tn_n_errors(q) == 0;
  tn_program_free(q);
  return good ? NULL : report;
}

static const char *text_of(RtText *text) {
  ir_print(p->ir, text, 0);
  return text->text;
}

// Every `%12 = rows %7 : ..` that says nothing but that they are just rows, as a clone of what it is of.
static bool forget_plain(char *text) {
  bool any = false;
  for (char *at = text; (at = strstr(at, " = rows ")) != NULL; at++) {
    if (memchr(at, ',', strcspn(at, ":\n"))) continue;
    memcpy(at, " = clone", 8);  // one letter more: the blank behind it
    memmove(at + 9, at + 8, strlen(at + 8) + 1);
    at[8] = ' ';
    any = true;
  }
  return any;
}

// What is accepted is so in text; what is refused is, once the word that these are just rows is taken from the text.
static void judge_text(bool is_const) {
  uint32_t n_refused = 0;
  for (size_t k = 0; k < N_CASES; k++) {
    RtArena *mem = rt_arena_new();
    RtText text = {.mem = mem};
    bool mixes = cases[k].fate == MIXES;
    begin(is_const);
    if (mixes) d = tn_rows(s), labels = tn_rows(ids);
    cases[k].make();
    if (!tn_n_errors(p)) {
      text_of(&text);
      char *copy = rt_alloc(mem, 2 * text.len + 1);
      memcpy(copy, text.text, text.len);
      const char *report = report_of_text(copy, strlen(copy));
      if (!CHECK(!report)) printf("%s: refused in text\n%s", cases[k].text, report);
      bool is_op =
          *cases[k].op != 0;  // a call may refuse what its ops do not show, as numbers of rows for those of steps
      if (mixes && is_op && forget_plain(copy)) {
        report = report_of_text(copy, strlen(copy));
        if (!CHECK(report && strstr(report, "error[E130]"))) printf("%s: not refused in text\n%s", cases[k].text, copy);
        n_refused++;
      }
    }
    rt_arena_free(mem);
    tn_program_free(p);
  }
  if (!CHECK(n_refused > 40)) printf("%u are refused in text\n", n_refused);  // others are refused by what is called
}

// Made by passes from other ops, or in marks of the front end, which rows do not meet
static const char *const elsewhere =
    " input param const table dim_size result scope_begin scope_end move attach dispose output overwritten "
    "grad_replace "
    "shard_mean assign cross_entropy_rows_grad layer_norm_grad rms_norm_grad conv_weight_grad "
    "max_pool_grad sum_pool_grad resize_grad embedding_grad embedding_bag_grad embedding_bag_factor softmax_grad "
    "log_softmax_grad linear_scan_grad shift packed_layout dense_layout pack_padded seq_scatter seq_softmax_grad "
    "seq_windows_grad "
    "seq_window_lengths seq_from_list seq_to_list rnn_seq_grad scan_begin scan_carry scan_next scan_final scan_end "
    "scan "
    "sdpa_grad sdpa_bias_grad global_norm exchange_begin exchange_end exchanged adamw_sparse mean ";

static bool has_case(const char *op) {
  for (size_t k = 0; k < N_CASES; k++)
    if (!strcmp(cases[k].op, op)) return true;
  char name[64];
  snprintf(name, sizeof name, " %s ", op);
  return strstr(elsewhere, name) != NULL;
}

static void walk_table(void) {
  begin(false);
  const Val of[] = {{d.v}, {d.v}, {d.v}};
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    const OpInfo *row = &ir_ops[op];
    if (row->cls == CLASS_OPTIMIZER) continue;
    if (!row->is_pointwise && !CHECK(has_case(row->name))) printf("no case of op %s\n", row->name);
    for (uint32_t k = 0; row->is_pointwise && k < row->n_max; k++) {
      RowsCall call = {.f = f->ir, .rows = &f->rows, .op = (Op)op, .a = of, .n = row->n_max};
      RowsWay way = ir_way_of_rows(&call, k, ir_rows_at(call.rows, call.a[k]).axis);
      CHECK(row->rows == ROWS_EACH && way.fate == WAY_KEPT && way.axis == 0);
    }
  }
  tn_program_free(p);
}

// ---- sequence 0 is what it is alone
typedef struct {
  float v[B * T * MOST];
  int64_t of_sequence;
} Out;

static void run(tn_model *m, uint32_t n, double other, int64_t label, Out *out) {
  float x[B * T * C], w[C * C];
  int64_t y[B * T], lengths[B] = {3, 2};
  for (int k = 0; k < B * T * C; k++) x[k] = (float)(k < T * C ? 0.1 * (k % 7) - 0.2 : other + k);
  for (int k = 0; k < C * C; k++) w[k] = (float)(k % 5) - 1;
  for (int k = 0; k < B * T; k++) y[k] = k < T ? k : label;
  tn_array a[N_CASES];
  for (uint32_t k = 0; k < n; k++) a[k] = tn_f32(out[k].v, B * out[k].of_sequence);
  tn_array in[] = {tn_f32(x, B, T, C), tn_i64(y, B, T), tn_i64(lengths, B), tn_f32(w, C, C)};
  if (!CHECK(tn_run(m, "run", in, 4, a, n) == TN_OK)) printf("%s\n", tn_error_text(m));
}

static void compare(bool is_const) {
  static Out one[N_CASES], two[N_CASES];
  const char *text[N_CASES];
  uint32_t n = 0;
  begin(is_const);
  for (size_t k = 0; k < N_CASES; k++) {
    if (cases[k].fate != KEEPS) continue;
    char name[32];
    tn_module *root = net;
    snprintf(name, sizeof name, "m%zu", k);
    net = tn_module_new(root, name);
    tn_tensor y = tn_pad_packed_to(tn_packed_with_data(s, tn_cast(cases[k].make(), TN_F32)), 0, true, T);
    net = root;
    int64_t numel = ir_shape_bound(p->ir, fe_shape_of(y));
    if (!CHECK(numel <= (int64_t)(B * T * MOST))) continue;
    text[n] = cases[k].text;
    one[n].of_sequence = two[n].of_sequence = numel / B;
    tn_output(f, name, tn_reshape(y, TN_SHAPE(tn_dim_mul(p, tn_dim_of(y, 0), tn_dim_const(numel / B)))));
    n++;
  }
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  if (m) run(m, n, 0.5, 1, one), run(m, n, -3, 2, two);
  for (uint32_t k = 0; m && k < n; k++)
    if (!CHECK(!memcmp(one[k].v, two[k].v, (size_t)one[k].of_sequence * sizeof *one[k].v)))
      printf("%s lengths: %s: sequence 0 changes with sequence 1\n", is_const ? "constant" : "run-time", text[k]);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- made of the number of rows alone, which no sequence knows by itself
static tn_tensor numbers(void) { return tn_reshape(tn_arange(f, 0, 1, rows, TN_F32), TN_SHAPE(rows, 1)); }

static void refused(tn_tensor y, const char *part) {
  const char *report = report_of(p);
  if (!CHECK(!y.v && strstr(report, "error[E130]") && strstr(report, part))) printf("%s\n", report);
  tn_program_free(p);
}

static void number_rows(void) {
  begin(false);
  refused(tn_add(d, numbers()), "axis 0 of f32[rows,1] numbers the rows of all of them");
  begin(false);
  refused(tn_packed_with_data(s, numbers()).data, "numbers the rows");
  begin(false);
  refused(tn_copy_(tn_clone(d), tn_expand(numbers(), TN_SHAPE(rows, C))), "tn_packed_steps");
  begin(false);
  CHECK(tn_add(d, tn_ones(f, TN_SHAPE(rows, C))).v && tn_add(tn_rows(s), numbers()).v);
  CHECK(tn_concat(0, TN_TENSORS(tn_zeros(f, TN_SHAPE(rows, C)), tn_rows(s))).v && tn_n_errors(p) == 0);
  tn_program_free(p);
}

// What a scan with a step for each row counts, one number a step
static tn_tensor counted(tn_dim steps) {
  float zero = 0;
  tn_scan *scan = tn_scan_begin(f, .steps = steps);
  tn_tensor k = tn_scan_carry(scan, tn_constant(f, &zero, TN_SHAPE(1)));
  tn_scan_next(scan, k, tn_add_scalar(k, 1));
  tn_tensor out = tn_scan_output(scan, k);
  tn_scan_end(scan);
  return out;
}

// A constant number of rows may be another size, too: what is meant is seen where it meets rows along their axis.
static void count_rows(void) {
  for (int is_const = 0; is_const < 2; is_const++) {
    begin(is_const);
    refused(tn_add(d, counted(rows)), "axis 0 of f32[");
    begin(is_const);
    refused(tn_packed_with_data(s, counted(rows)).data, "numbers the rows");
    begin(is_const);
    refused(tn_mul(d, tn_tril(tn_ones(f, TN_SHAPE(rows, C)), 0)), "tn_packed_steps");
    begin(is_const);
    CHECK(tn_add(tn_rows(s), counted(rows)).v && tn_n_errors(p) == 0);
    tn_program_free(p);
  }
  begin(true);
  refused(tn_add(d, numbers()), "numbers the rows");
  begin(true);
  const int64_t five[] = {ROWS};
  tn_tensor x = tn_input(f, "one", TN_F32, TN_SHAPE(1, ROWS, ROWS)),
            own = tn_input(f, "own", TN_F32, TN_SHAPE(ROWS, 1));
  tn_packed one = tn_pack_constant(x, five, 1);
  CHECK(tn_add(one.data, numbers()).v && tn_mul(one.data, counted(rows)).v && tn_add(d, own).v);
  CHECK(tn_tril(tn_matmul(tn_transpose(x, 1, 2), x), 0).v && tn_n_errors(p) == 0);
  if (tn_n_errors(p)) printf("%s\n", report_of(p));
  tn_program_free(p);
}

// A carry has the rows of what the step leaves; what it begins with may be of none.
static void carry_rows(bool is_const) {
  begin(is_const);
  tn_scan *scan = tn_scan_begin(f, .steps = tn_dim_const(2));
  tn_tensor zeros = tn_zeros(f, TN_SHAPE(rows, C)), h = tn_scan_carry(scan, zeros), mixed = tn_softmax(h, 0);
  tn_scan_next(scan, h, tn_add(d, mixed));
  tn_scan_end(scan);
  tn_output(f, "y", tn_scan_final(scan, h));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .quiet = true, .cache_dir = "");
  if (!CHECK(!m && strstr(report_of(p), "error[E130]"))) printf("%s\n", report_of(p));
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  walk_table();
  number_rows();
  count_rows();
  carry_rows(false), carry_rows(true);
  for (int is_const = 0; is_const < 2; is_const++) judge(is_const), judge_text(is_const), compare(is_const);
  return check_report();
}
