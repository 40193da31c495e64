// Sequences of a packed batch stay apart: every op of the table either keeps rows, or is a total, or takes the layout, or is
// refused along the axis of rows (E130), in text as in calls. What is accepted gives a sequence the same bits, of gradients and
// second gradients too, whatever other sequences are in the batch, NaN and infinite ones, and wherever it stands.
#include "frontend/graph/function.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/program.h"
#include "ir/rows/rows.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

#include <math.h>

enum { B = 2, T = 3, C = 4, ROWS = 5 };
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
static tn_tensor source;
static int64_t most_b = B, most_t = T;  // of lengths that come at run time

static void begin(bool is_const) {
  static const int64_t lengths[B] = {3, 2}, five[5] = {3, 1, 0, 2, 1};
  p = tn_program_create("apart");
  net = tn_root(p);
  tn_dim b = is_const ? tn_dim_const(B) : tn_dim_bounded(p, "batch", most_b);
  tn_dim t = is_const ? tn_dim_const(T) : tn_dim_bounded(p, "time", most_t);
  f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(b, t, C)), y = tn_input(f, "labels", TN_I64, TN_SHAPE(b, t));
  tn_tensor n = tn_input(f, "lengths", TN_I64, TN_SHAPE(b));
  source = x;
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
static tn_tensor numbers_of_batch(void) {
  tn_tensor b = tn_arange(f, 0, 1, tn_dim_of(tn_packed_lengths(s), 0), TN_I64);
  return tn_packed_broadcast(s, b).data;
}
static tn_dim by_rows(int64_t n) { return tn_dim_mul(p, rows, tn_dim_const(n)); }
static tn_tensor counted(tn_dim n) { return tn_cumsum(tn_ones(f, TN_SHAPE(n)), 0); }
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
    "scan crop "
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

// ---- a sequence is what it is alone, in whatever batch
enum { MOST_B = 4, MOST_T = 19, OWN = 3 /* steps of the sequence that is looked at */ };
typedef struct {
  int64_t n, length[MOST_B], own;  // which one is looked at
  double other;                    // what the others are made of
  int64_t label;
} Batch;

// Those that follow the first are compared with it.
static const Batch by_run[] = {
    {1, {OWN}, 0, 0, 0},          {2, {OWN, 2}, 0, 0.5, 1},           {2, {2, OWN}, 1, INFINITY, 3},
    {3, {1, 19, OWN}, 2, -3, 2},  {4, {19, OWN, OWN, 11}, 1, NAN, 0}, {4, {5, 3, 4, OWN}, 3, -INFINITY, 1},
    {3, {OWN, OWN, OWN}, 1, 7, 2}};
static const Batch constant[] = {{B, {OWN, 2}, 0, 0.5, 1}, {B, {OWN, 2}, 0, -3, 2}, {B, {OWN, 2}, 0, NAN, 3}};

// Values, gradients and second gradients of the sequence that is looked at, [OWN, n] each
enum { ORDERS = 3 };
typedef struct {
  float *v[ORDERS];
  int64_t n[ORDERS];
} Out;

static void fill(const Batch *batch, int64_t time, float *x, int64_t *y) {
  for (int64_t k = 0; k < batch->n * time; k++) {
    int64_t at = k - batch->own * time;
    bool is_own = at >= 0 && at < time;
    y[k] = is_own ? at % C : batch->label;
    for (int64_t j = 0; j < C; j++)
      x[k * C + j] = (float)(is_own ? 0.1 * (double)((at * C + j) % 7) - 0.2 : batch->other + (double)(k * C + j));
  }
}

static void run(tn_model *m, uint32_t n, const Batch *batch, Out *out) {
  static float x[MOST_B * MOST_T * C], w[C * C], *all[N_CASES * ORDERS];
  static int64_t y[MOST_B * MOST_T];
  static tn_array a[N_CASES * ORDERS];
  int64_t time = 0, lengths[MOST_B];
  memcpy(lengths, batch->length, sizeof lengths);
  for (int64_t k = 0; k < batch->n; k++) time = lengths[k] > time ? lengths[k] : time;
  fill(batch, time, x, y);
  for (int k = 0; k < C * C; k++) w[k] = (float)(k % 5) - 1;
  for (uint32_t k = 0; k < n * ORDERS; k++) {
    int64_t each = out[k / ORDERS].n[k % ORDERS];
    all[k] = calloc((size_t)(batch->n * time * each), sizeof **all);
    a[k] = tn_f32(all[k], batch->n, time, each);
  }
  tn_array in[] = {tn_f32(x, batch->n, time, C), tn_i64(y, batch->n, time), tn_i64(lengths, batch->n), tn_f32(w, C, C)};
  if (!CHECK(tn_run(m, "run", in, 4, a, n * ORDERS) == TN_OK)) printf("%s\n", tn_error_text(m));
  for (uint32_t k = 0; k < n * ORDERS; k++) {
    Out *o = &out[k / ORDERS];
    size_t each = (size_t)o->n[k % ORDERS];
    memcpy(o->v[k % ORDERS], all[k] + (size_t)(batch->own * time) * each, OWN * each * sizeof **all);
    free(all[k]);
  }
}

static void put(uint32_t nth, const char *what, tn_tensor y) {
  char name[32];
  snprintf(name, sizeof name, "%s%u", what, nth);
  tn_output(f, name, y);
}

// What is made of `source`, padded, then the gradients of weighted sums.
static void put_orders(uint32_t nth, tn_tensor made, Out *o) {
  tn_tensor y = tn_pad_packed(tn_packed_with_data(s, tn_cast(made, TN_F32)), 0, true);
  int64_t each = 1;
  for (uint32_t k = 2; k < tn_rank(y); k++) each *= ir_dim_bound(p->ir, fe_axis_dim(y, k));
  y = tn_reshape(y, TN_SHAPE(tn_dim_of(y, 0), tn_dim_of(y, 1), each));
  tn_tensor weight = tn_add_scalar(tn_mul_scalar(tn_arange(f, 0, 1, tn_dim_const(each), TN_F32), 0.125), -0.4);
  tn_tensor g = tn_grad_or_zeros(tn_sum(tn_mul(y, weight)), source);
  put(nth, "y", y), put(nth, "d", g), put(nth, "dd", tn_grad_or_zeros(tn_sum(tn_mul(g, tn_add_scalar(g, 1))), source));
  *o = (Out){.n = {each, C, C}};
  for (int k = 0; k < ORDERS; k++) o->v[k] = malloc((size_t)(OWN * o->n[k]) * sizeof *o->v[k]);
}

static void check_same(const Out *first, const Out *now, const char *text, const char *where, int batch) {
  static const char *const orders[ORDERS] = {"values", "gradients", "second gradients"};
  for (int k = 0; k < ORDERS; k++)
    if (!CHECK(!memcmp(first->v[k], now->v[k], (size_t)(OWN * first->n[k]) * sizeof *first->v[k])))
      printf("%s, batch %d: %s: %s change with the other sequences\n", where, batch, text, orders[k]);
}

static void compare(bool is_const, uint32_t workers) {
  static Out first[N_CASES], now[N_CASES];
  const Batch *batches = is_const ? constant : by_run;
  size_t n_batches = is_const ? sizeof constant / sizeof *constant : sizeof by_run / sizeof *by_run;
  const char *text[N_CASES];
  char where[64];
  uint32_t n = 0;
  snprintf(where, sizeof where, "%s lengths, %u workers", is_const ? "constant" : "run-time", workers);
  most_b = MOST_B, most_t = MOST_T;
  begin(is_const);
  for (size_t k = 0; k < N_CASES; k++) {
    if (cases[k].fate != KEEPS) continue;
    char name[32];
    tn_module *root = net;
    snprintf(name, sizeof name, "m%zu", k);
    net = tn_module_new(root, name);
    put_orders(n, cases[k].make(), &first[n]);
    net = root, now[n] = first[n], text[n] = cases[k].text;
    for (int j = 0; j < ORDERS; j++) now[n].v[j] = malloc((size_t)(OWN * now[n].n[j]) * sizeof *now[n].v[j]);
    n++;
  }
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = workers);
  if (m) run(m, n, &batches[0], first);
  for (size_t k = 1; m && k < n_batches; k++) {
    run(m, n, &batches[k], now);
    for (uint32_t j = 0; j < n; j++) check_same(&first[j], &now[j], text[j], where, (int)k);
  }
  tn_model_free(m);
  for (uint32_t k = 0; k < n * ORDERS; k++) free(first[k / ORDERS].v[k % ORDERS]), free(now[k / ORDERS].v[k % ORDERS]);
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
  tn_dim more = tn_dim_add(p, rows, tn_dim_const(1));
  tn_tensor longer = tn_reshape(counted(more), TN_SHAPE(1, 1, more));
  refused(tn_add(d, tn_reshape(tn_avg_pool1d(longer, 2, .stride = 1), TN_SHAPE(rows, 1))), "numbers the rows");
  begin(false);
  refused(tn_copy_(tn_clone(d), tn_expand(numbers(), TN_SHAPE(rows, C))), "tn_packed_steps");
  begin(false);
  CHECK(tn_add(d, tn_ones(f, TN_SHAPE(rows, C))).v && tn_add(tn_rows(s), numbers()).v);
  CHECK(tn_concat(0, TN_TENSORS(tn_zeros(f, TN_SHAPE(rows, C)), tn_rows(s))).v && tn_n_errors(p) == 0);
  tn_program_free(p);
}

// What a scan with a step for each row counts, one number a step
static tn_tensor steps_counted(tn_dim steps) {
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
    refused(tn_add(d, steps_counted(rows)), "axis 0 of f32[");
    begin(is_const);
    refused(tn_packed_with_data(s, steps_counted(rows)).data, "numbers the rows");
    begin(is_const);
    refused(tn_mul(d, tn_tril(tn_ones(f, TN_SHAPE(rows, C)), 0)), "tn_packed_steps");
    begin(is_const);
    CHECK(tn_add(tn_rows(s), steps_counted(rows)).v && tn_n_errors(p) == 0);
    tn_program_free(p);
  }
  begin(true);
  refused(tn_add(d, numbers()), "numbers the rows");
  begin(true);
  const int64_t five[] = {ROWS};
  tn_tensor x = tn_input(f, "one", TN_F32, TN_SHAPE(1, ROWS, ROWS)),
            own = tn_input(f, "own", TN_F32, TN_SHAPE(ROWS, 1));
  tn_packed one = tn_pack_constant(x, five, 1);
  CHECK(tn_add(one.data, numbers()).v && tn_mul(one.data, steps_counted(rows)).v && tn_add(d, own).v);
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
  for (int is_const = 0; is_const < 2; is_const++) judge(is_const), judge_text(is_const);
  for (int k = 0; k < 4; k++) compare(k % 2, 1 + k / 2 * 2);
  return check_report();
}
