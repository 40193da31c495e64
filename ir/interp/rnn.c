// Recurrence over a packed sequence, forward and backward. The row of step t and sorted position r is offsets[t] + r.
//
// A sequence's state stands at its sorted position. Going forward in time, positions drop out as sequences end; in
// reverse they join at their own last step, with their initial state untouched until then: one loop serves both.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"
#include "ir/interp/packed.h"

#include <math.h>
#include <string.h>

typedef enum { CELL_LSTM, CELL_GRU, CELL_TANH, CELL_RELU, N_CELLS } Cell;
static const char *const cell_name[N_CELLS] = {"lstm", "gru", "tanh", "relu"};
static const int64_t n_gates[N_CELLS] = {4, 3, 1, 1};  // G: blocks of H in a row of W_hh
static const int64_t n_saved[N_CELLS] = {4, 4, 1, 1};  // S: blocks of H in a row of `gates`

typedef struct {
  Cell cell;
  int64_t H, G, S;
  int64_t P;  // size of the state h: H, or what it is projected to
  Layout l;
  int64_t steps, seqs;
  bool reverse;
  const double *w, *proj;  // W_hh [G H, P]; W_hr [P, H] or NULL
  double *h, *c;           // state, or its gradient, by sorted position [seqs, P], [seqs, H]
  double *hidden;          // scratch [G H]: W_hh h + b_hh; backward: the gradient of it
  double *full;            // scratch [H]: h before its projection, or its gradient
  Run *noisy;              // NULL: steps are exact
} Rnn;

static bool open_rnn(Run *r, Val v, Rnn *n) {
  const Attr *cell = ir_attr(r->f, v, KEY_cell);
  const char *name = cell ? ir_text(r->f->prog, cell->u.s) : "";
  n->cell = 0;
  while (n->cell < N_CELLS && strcmp(cell_name[n->cell], name)) n->cell++;
  if (n->cell == N_CELLS) return run_fail(r, v, "no cell is called '%s'", name);
  Sizes w = run_sizes(r, ir_operand(r->f, v, ARG_w_hh));
  n->G = n_gates[n->cell];
  n->P = w.dim[1];
  n->H = w.dim[0] / n->G;
  n->proj = run_operand(r, v, ARG_w_hr).v;
  n->S = n_saved[n->cell];
  n->l = run_layout_of(r, ir_operand(r->f, v, ARG_layout));
  n->steps = (int64_t)n->l.head[TN_LAYOUT_STEPS];
  n->seqs = (int64_t)n->l.head[TN_LAYOUT_SEQS];
  n->reverse = ir_attr(r->f, v, KEY_reverse);
  n->w = run_operand(r, v, ARG_w_hh).v;
  n->h = rt_alloc(r->env->mem, (size_t)(n->seqs * n->P) * sizeof(double));
  n->c = rt_alloc(r->env->mem, (size_t)(n->seqs * n->H) * sizeof(double));
  n->full = rt_alloc(r->env->mem, (size_t)n->H * sizeof(double));
  n->hidden = rt_alloc(r->env->mem, (size_t)(n->G * n->H) * sizeof(double));
  // Other cells' states are near 1, as their weights are: noise of what the recurrence makes is enough.
  n->noisy = r->env->noise > 0 && n->cell == CELL_RELU ? r : NULL;
  return true;
}

// A sum whose terms may be large beside it
static double rounded_sum(const Rnn *n, double sum, double size_of_terms) {
  return n->noisy ? run_rounded(n->noisy, sum, size_of_terms) : sum;
}

// state[position] = user[sorted[position]], `width` each; one element stands for all of them
static void to_positions(const Rnn *n, double *state, Tensor user, int64_t width) {
  for (int64_t p = 0; p < n->seqs; p++)
    for (int64_t j = 0; j < width; j++)
      state[p * width + j] = user.v[user.n == 1 ? 0 : (int64_t)n->l.sorted[p] * width + j];
}

static void to_users(const Rnn *n, Tensor user, const double *state, int64_t width) {
  for (int64_t p = 0; p < n->seqs; p++)
    memcpy(user.v + (int64_t)n->l.sorted[p] * width, state + p * width, (size_t)width * sizeof(double));
}

static double sigmoid(double a) { return ir_primitive(OP_sigmoid, a, 0, 0); }

// ---- forward: one row. x [G H] is its input projection; gates [S H] receives the activated gates.
static void project_state(const Rnn *n, const double *h, const double *bias) {
  for (int64_t i = 0; i < n->G * n->H; i++) {
    double sum = bias ? bias[i] : 0, size = fabs(sum);
    for (int64_t j = 0; j < n->P; j++) sum += n->w[i * n->P + j] * h[j], size += fabs(n->w[i * n->P + j] * h[j]);
    n->hidden[i] = rounded_sum(n, sum, size);
  }
}

static void project(const Rnn *n, double *h) {
  for (int64_t j = 0; j < n->P; j++) {
    h[j] = 0;
    for (int64_t i = 0; i < n->H; i++) h[j] += n->proj[j * n->H + i] * n->full[i];
  }
}

static void step_lstm(const Rnn *n, const double *x, double *h, double *c, double *gates) {
  int64_t H = n->H;
  const double *q = n->hidden;
  for (int64_t j = 0; j < H; j++) {
    double i = sigmoid(x[j] + q[j]), f = sigmoid(x[H + j] + q[H + j]);
    double g = tanh(x[2 * H + j] + q[2 * H + j]), o = sigmoid(x[3 * H + j] + q[3 * H + j]);
    c[j] = f * c[j] + i * g;
    h[j] = o * tanh(c[j]);
    gates[j] = i, gates[H + j] = f, gates[2 * H + j] = g, gates[3 * H + j] = o;
  }
}

static void step_gru(const Rnn *n, const double *x, double *h, double *gates) {
  int64_t H = n->H;
  for (int64_t j = 0; j < H; j++) {
    double reset = sigmoid(x[j] + n->hidden[j]), z = sigmoid(x[H + j] + n->hidden[H + j]), q = n->hidden[2 * H + j];
    double fresh = tanh(x[2 * H + j] + reset * q);
    h[j] = (1 - z) * fresh + z * h[j];
    gates[j] = reset, gates[H + j] = z, gates[2 * H + j] = fresh, gates[3 * H + j] = q;
  }
}

static void step_plain(const Rnn *n, const double *x, double *h, double *gates) {
  for (int64_t j = 0; j < n->H; j++) {
    double a = x[j] + n->hidden[j];
    gates[j] = h[j] = n->cell == CELL_TANH ? tanh(a) : ir_primitive(OP_max, a, 0, 0);
  }
}

static void step_forward(const Rnn *n, const double *x, double *h, double *c, double *gates) {
  switch (n->cell) {
  case CELL_LSTM:
    step_lstm(n, x, n->proj ? n->full : h, c, gates);
    if (n->proj) project(n, h);
    break;
  case CELL_GRU: step_gru(n, x, h, gates); break;
  default: step_plain(n, x, h, gates);
  }
}

// Row `row` of the input projection, in `made` where it is the recurrence that makes it.
static const double *input_row(const Rnn *n, Tensor x, Tensor w, int64_t width, int64_t row, double *made) {
  int64_t wide = n->G * n->H;
  if (!w.v) return x.v + row * wide;
  for (int64_t i = 0; i < wide; i++) {
    made[i] = 0;
    for (int64_t j = 0; j < width; j++) made[i] += w.v[i * width + j] * x.v[row * width + j];
  }
  return made;
}

bool eval_rnn_seq(Run *r, Val v) {
  Rnn n;
  if (!open_rnn(r, v, &n)) return false;
  Tensor res[6], x = run_operand(r, v, ARG_xg), w_ih = run_operand(r, v, ARG_w_ih);
  for (uint32_t k = 0; k < 6; k++) res[k] = run_result(r, v, k);
  Tensor bias = run_operand(r, v, ARG_b_hh), h0 = run_operand(r, v, ARG_h0), c0 = run_operand(r, v, ARG_c0);
  int64_t width = run_arg_sizes(r, v, 0).dim[1];
  double *made = rt_alloc(r->env->mem, (size_t)(n.G * n.H) * sizeof *made);
  if (h0.v) to_positions(&n, n.h, h0, n.P);
  if (c0.v) to_positions(&n, n.c, c0, n.H);
  size_t row_bytes = (size_t)n.P * sizeof(double);
  for (int64_t k = 0; k < n.steps; k++) {
    int64_t t = n.reverse ? n.steps - 1 - k : k;
    for (int64_t p = 0; p < (int64_t)n.l.batch_sizes[t]; p++) {
      int64_t row = (int64_t)n.l.offsets[t] + p;
      double *h = n.h + p * n.P, *c = n.c + p * n.H;
      memcpy(res[3].v + row * n.P, h, row_bytes);
      if (n.cell == CELL_LSTM) memcpy(res[4].v + row * 2 * n.H, c, (size_t)n.H * sizeof(double));
      project_state(&n, h, bias.v);
      step_forward(&n, input_row(&n, x, w_ih, width, row, made), h, c, res[5].v + row * n.S * n.H);
      for (int64_t j = 0; n.cell == CELL_LSTM && j < n.H; j++) res[4].v[(row * 2 + 1) * n.H + j] = tanh(c[j]);
      memcpy(res[0].v + row * n.P, h, row_bytes);
    }
  }
  to_users(&n, res[1], n.h, n.P);
  if (n.cell == CELL_LSTM) to_users(&n, res[2], n.c, n.H);
  return true;
}

// ---- backward: one row. dh [H] is the gradient of its output on entry; on return dh and dc are what its cell's own
// formula passes to the state before it. dx [G H] and `hidden` receive the gradients of the two projections.
typedef struct {
  const double *out, *hprev, *cells, *gates;
} Saved;

static void back_lstm(const Rnn *n, Saved s, double *dh, double *dc, double *dx) {
  int64_t H = n->H;
  for (int64_t j = 0; j < H; j++) {
    double i = s.gates[j], f = s.gates[H + j], g = s.gates[2 * H + j], o = s.gates[3 * H + j];
    double tc = s.cells[H + j], d = dc[j] + dh[j] * o * (1 - tc * tc);
    dx[j] = d * g * i * (1 - i);
    dx[H + j] = d * s.cells[j] * f * (1 - f);
    dx[2 * H + j] = d * i * (1 - g * g);
    dx[3 * H + j] = dh[j] * tc * o * (1 - o);
    dc[j] = d * f;
    dh[j] = 0;
  }
  memcpy(n->hidden, dx, (size_t)(4 * H) * sizeof(double));
}

static void back_gru(const Rnn *n, Saved s, double *dh, double *dx) {
  int64_t H = n->H;
  for (int64_t j = 0; j < H; j++) {
    double reset = s.gates[j], z = s.gates[H + j], fresh = s.gates[2 * H + j], q = s.gates[3 * H + j];
    double d = dh[j] * (1 - z) * (1 - fresh * fresh);
    dx[j] = d * q * reset * (1 - reset);
    dx[H + j] = dh[j] * (s.hprev[j] - fresh) * z * (1 - z);
    dx[2 * H + j] = d;
    n->hidden[j] = dx[j], n->hidden[H + j] = dx[H + j], n->hidden[2 * H + j] = d * reset;
    dh[j] *= z;
  }
}

static void back_plain(const Rnn *n, Saved s, double *dh, double *dx) {
  for (int64_t j = 0; j < n->H; j++) {
    double y = s.out[j];
    n->hidden[j] = dx[j] = n->cell == CELL_TANH ? dh[j] * (1 - y * y) : y <= 0 ? 0 : dh[j];
    dh[j] = 0;
  }
}

// The gradient of the state before its projection, from that of the state, which is used up.
static double *unproject(const Rnn *n, double *dh) {
  for (int64_t i = 0; i < n->H; i++) {
    n->full[i] = 0;
    for (int64_t j = 0; j < n->P; j++) n->full[i] += n->proj[j * n->H + i] * dh[j];
  }
  memset(dh, 0, (size_t)n->P * sizeof *dh);
  return n->full;
}

static void step_backward(const Rnn *n, Saved s, double *dh, double *dc, double *dx) {
  switch (n->cell) {
  case CELL_LSTM: back_lstm(n, s, n->proj ? unproject(n, dh) : dh, dc, dx); break;
  case CELL_GRU: back_gru(n, s, dh, dx); break;
  default: back_plain(n, s, dh, dx);
  }
  for (int64_t j = 0; j < n->P; j++) {
    double size = fabs(dh[j]);
    for (int64_t i = 0; i < n->G * n->H; i++) {
      double term = n->w[i * n->P + j] * n->hidden[i];
      dh[j] += term, size += fabs(term);
    }
    dh[j] = rounded_sum(n, dh[j], size);
  }
}

bool eval_rnn_seq_grad(Run *r, Val v) {
  Rnn n;
  if (!open_rnn(r, v, &n)) return false;
  Tensor res[4], g_out = run_operand(r, v, ARG_g_out);
  for (uint32_t k = 0; k < 4; k++) res[k] = run_result(r, v, k);
  Saved all = {run_operand(r, v, ARG_out).v, run_operand(r, v, ARG_hprev).v, run_operand(r, v, ARG_cells).v,
               run_operand(r, v, ARG_gates).v};
  to_positions(&n, n.h, run_operand(r, v, ARG_g_hn), n.P);
  if (n.cell == CELL_LSTM) to_positions(&n, n.c, run_operand(r, v, ARG_g_cn), n.H);
  for (int64_t k = n.steps; k-- > 0;) {
    int64_t t = n.reverse ? n.steps - 1 - k : k;
    for (int64_t p = 0; p < (int64_t)n.l.batch_sizes[t]; p++) {
      int64_t row = (int64_t)n.l.offsets[t] + p, at = row * n.H, of_state = row * n.P;
      double *dh = n.h + p * n.P, *dc = n.c + p * n.H;
      for (int64_t j = 0; j < n.P; j++) dh[j] += g_out.v[g_out.n == 1 ? 0 : of_state + j];
      if (n.proj) memcpy(res[1].v + of_state, dh, (size_t)n.P * sizeof(double));
      Saved s = {all.out + of_state, all.hprev + of_state, n.cell == CELL_LSTM ? all.cells + 2 * at : NULL,
                 all.gates + at * n.S};
      step_backward(&n, s, dh, dc, res[0].v + at * n.G);
      if (n.cell == CELL_GRU) memcpy(res[1].v + at * n.G, n.hidden, (size_t)(n.G * n.H) * sizeof(double));
    }
  }
  to_users(&n, res[2], n.h, n.P);
  if (n.cell == CELL_LSTM) to_users(&n, res[3], n.c, n.H);
  return true;
}
