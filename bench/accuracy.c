// accuracy: how far results are from those in doubles, ours and PyTorch's of the same inputs. A row of bench/accuracy.def,
// y and its gradients one by one:
//
//   scale = root mean square of the result in doubles; 1 where that is 0
//   rms, greatest = root mean square and greatest size of result - result in doubles, by 2^-24 scale
//   ratio = ours / the peer's, the larger of both; a unit in the last place of f32 counts as no rms, two as no greatest error
//
// Doubles come from the reference interpreter. Results of few elements are measured over several draws of inputs.
#include "bench/bench.h"
#include "ir/fn.h"
#include "ir/passes/passes.h"
#include "ir/text/text.h"
#include "tools/arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/op_inputs.h"

// ---- the table
#define OP(name, torch, call) OP_ENTRY(name, call)
#define MODULE(name, torch, torch_call, make, call) MODULE_ENTRY(name, make, call)
#define FORWARD(...)
#define BOTH(...)
#define BAR_FORWARD(...)
#define BAR_BOTH(...)
#include "bench/accuracy.def"
#undef OP
#undef MODULE
#undef FORWARD
#undef BOTH
#undef BAR_FORWARD
#undef BAR_BOTH

typedef struct {
  OpRow row;
  double bar_rms, bar_greatest;  // 0: no bar
} Row;

#define OP(...)
#define MODULE(...)
#define FORWARD(name, ...) {OP_ROW(name, #name " " #__VA_ARGS__ " forward", false, __VA_ARGS__), 0, 0},
#define BOTH(name, ...) {OP_ROW(name, #name " " #__VA_ARGS__ " backward", true, __VA_ARGS__), 0, 0},
#define BAR_FORWARD(name, rms, greatest, ...) \
  {OP_ROW(name, #name " " #__VA_ARGS__ " forward", false, __VA_ARGS__), rms, greatest},
#define BAR_BOTH(name, rms, greatest, ...) \
  {OP_ROW(name, #name " " #__VA_ARGS__ " backward", true, __VA_ARGS__), rms, greatest},
static const Row rows[] = {
#include "bench/accuracy.def"
};
enum {
  N_ROWS = sizeof rows / sizeof *rows,
  LAST_PLACE = 2,     // a unit in it, by 2^-24
  ENOUGH = 1024,      // numbers of a result that its error is taken from
  MOST_DRAWS = 64,    // of inputs, for that
  ELEMENTS = 1 << 24  // of inputs of all draws
};

// ---- errors
typedef struct {
  double squares, greatest;  // of what a result is off by
} Sum;

typedef struct {
  double scale, most;  // sum of squares and greatest size of the result in doubles
  double n;
  Sum ours, peer;
} Result;

typedef struct {
  double rms, greatest;  // by 2^-24 of the scale
} Error;

static double scale_of(const Result *r) { return r->scale > 0 ? sqrt(r->scale / r->n) : 1; }

static Error error_of(const Result *r, const Sum *s) {
  double unit = 0x1p-24 * scale_of(r);
  return (Error){sqrt(s->squares / r->n) / unit, s->greatest / unit};
}

static void add_error(Sum *s, double found, double exact) {
  double d = fabs(found - exact);
  if (found == exact) d = 0;           // infinities
  if (!(d <= INFINITY)) d = INFINITY;  // NaN
  s->squares += d * d;
  if (d > s->greatest) s->greatest = d;
}

static double ratio_of(const Result *r, Error ours, Error peer) {
  double by_rms = ours.rms / fmax(LAST_PLACE, peer.rms);
  double by_greatest = ours.greatest / fmax(2 * LAST_PLACE * fmax(1, r->most / scale_of(r)), peer.greatest);
  return fmax(by_rms, by_greatest);
}

// ---- one row
typedef struct {
  const Row *row;
  OpRun run;
  tn_model *model;
  char *text;  // of the program as it was built
  Result result[MAX_OUT];
} Trial;

static void close_trial(Trial *t) {
  if (t->model) tn_model_free(t->model);
  op_run_free(&t->run);
  free(t->text);
}

static bool open_trial(Trial *t, const Row *row, const AccuracyOptions *o) {
  char why[512] = "";
  size_t size;
  *t = (Trial){.row = row};
  tn_program *p = tn_program_create("accuracy");
  op_run_build(&t->run, &row->row, p);
  FILE *out = open_memstream(&t->text, &size);
  bool is_dumped = out && tn_dump(p, out, TN_DUMP_IR) == TN_OK;
  if (out) fclose(out);
  t->model = bench_compile(p, &(Opening){.weights = row->row.op->make ? o->weights : NULL,
                                         .n_workers = o->n_workers,
                                         .why = why,
                                         .why_size = sizeof why});
  if (is_dumped && t->model) return true;
  fprintf(stderr, "bench: accuracy: %s: %s\n", row->row.text, why);
  close_trial(t);
  return false;
}

// The results in doubles, [n_out].
static Tensor *interpret(const Trial *t, RtArena *mem) {
  RtText why = {.mem = mem};
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, t->text, strlen(t->text), "accuracy", &diags);
  Fn *f = p ? ir_fn_find(p, "run") : NULL;
  if (!f || !ir_run_passes(f, ir_pass_list(mem, 0, PASS_grad), NULL, NULL)) return rt_diags_print(&diags, stderr), NULL;
  InterpEnv env = {.slots = rt_alloc(mem, (p->n_syms + 1) * sizeof *env.slots),
                   .params = rt_alloc(mem, (p->n_params + 1) * sizeof(Tensor)),
                   .out = rt_alloc(mem, MAX_OUT * sizeof(Tensor)),
                   .mem = mem};
  Tensor *in = rt_alloc(mem, (MAX_INPUTS + 1) * sizeof *in);
  for (uint32_t k = 0; k < t->run.n_in; k++) in[k] = array_tensor(mem, &t->run.in[k]);
  for (uint32_t k = 0; k < p->n_params; k++) {
    tn_array a = tn_param_at(t->model, k);
    env.params[k] = array_tensor(mem, &a);
  }
  env.in = in;
  if (ir_interpret(f, &env, &why)) return env.out;
  fprintf(stderr, "bench: accuracy: %s: %s\n", t->row->row.text, why.text ? why.text : "the interpreter failed");
  return NULL;
}

// The peer writes its results behind each other, as f32.
static float *ask_peer(const Trial *t, Peer *peer, const AccuracyOptions *o, uint32_t draw, size_t n) {
  char question[1024], answer[64];
  snprintf(question, sizeof question, "case %s %u", t->row->row.text, draw);
  if (!bench_peer_ask(peer, question, answer, sizeof answer)) {
    bench_peer_complain(peer, t->row->row.text, "torch");
    return NULL;
  }
  float *v = malloc((n + 1) * sizeof *v);
  FILE *in = fopen(o->results, "rb");
  size_t n_read = v && in ? fread(v, sizeof *v, n + 1, in) : 0;
  if (in) fclose(in);
  if (n_read == n) return v;
  fprintf(stderr, "bench: accuracy: %s: the peer has %zu results, ours are %zu\n", t->row->row.text, n_read, n);
  free(v);
  return NULL;
}

static bool add_draw(Trial *t, Peer *peer, const AccuracyOptions *o, uint32_t draw) {
  OpRun *r = &t->run;
  op_run_fill(r, draw);
  RtArena *mem = rt_arena_new();
  size_t n = 0, at = 0;
  for (uint32_t k = 0; k < r->n_out; k++) n += op_array_count(&r->out[k]);
  const Tensor *exact = interpret(t, mem);  // before the run, which changes buffers
  bool ok = exact && tn_run(t->model, "run", r->in, r->n_in, r->out, r->n_out) == TN_OK;
  float *theirs = ok && peer ? ask_peer(t, peer, o, draw, n) : NULL;
  ok = ok && (theirs || !peer);
  for (uint32_t k = 0; ok && k < r->n_out; k++) {
    Result *result = &t->result[k];
    for (size_t i = 0, end = op_array_count(&r->out[k]); i < end; i++, at++) {
      double x = exact[k].v[i];
      result->scale += x * x, result->most = fmax(result->most, fabs(x)), result->n++;
      add_error(&result->ours, op_array_at(&r->out[k], i), x);
      if (theirs) add_error(&result->peer, theirs[at], x);
    }
  }
  free(theirs);
  rt_arena_free(mem);
  return ok;
}

// Few numbers say little of an error; a lot of work is done less often.
static uint32_t draws_of(const OpRun *r) {
  size_t least = SIZE_MAX, elements = 1;
  bool equal = true;  // inputs: then results are one number a draw
  for (uint32_t k = 0; k < r->n_out; k++)
    if (op_array_count(&r->out[k]) < least) least = op_array_count(&r->out[k]);
  for (uint32_t k = 0; k < r->n_in; k++) elements += op_array_count(&r->in[k]);
  for (uint32_t k = 0; k < r->row->n_inputs; k++) equal &= r->row->inputs[k].kind == EQUAL;
  if (equal && !r->row->backward) least = 1;
  size_t wanted = ENOUGH / least + 1, most = ELEMENTS / elements + 2;
  if (wanted > most) wanted = most;
  return wanted > MOST_DRAWS ? MOST_DRAWS : (uint32_t)wanted;
}

// ---- what is printed
typedef struct {
  uint32_t n_rows, n_over, n_broken;
  double worst;
  char over[MAX_OVER][160];  // above the limit, with the ratio
} Tally;

static void note(Tally *t, const char *fmt, const char *text, const char *name, double x) {
  if (t->n_over < MAX_OVER) snprintf(t->over[t->n_over], sizeof *t->over, fmt, text, name, x);
  t->n_over++;
}

static void show(const Trial *t, bool has_peer, Tally *tally) {
  const Row *row = t->row;
  for (uint32_t k = 0; k < t->run.n_out; k++) {
    const Result *r = &t->result[k];
    const char *name = t->run.name[k];
    Error ours = error_of(r, &r->ours);
    printf("%-72s %-3s rms %8.3g greatest %8.3g", row->row.text, name, ours.rms, ours.greatest);
    if (row->bar_rms > 0 && !(ours.rms <= row->bar_rms && ours.greatest <= row->bar_greatest))
      note(tally, "%s %s: above the bar of the table: %.3g", row->row.text, name, fmax(ours.rms, ours.greatest));
    if (has_peer) {
      Error peer = error_of(r, &r->peer);
      double ratio = ratio_of(r, ours, peer);
      printf("   torch %8.3g %8.3g   ratio %.2f", peer.rms, peer.greatest, ratio);
      tally->worst = fmax(tally->worst, ratio);
      if (ratio > MOST_RATIO) note(tally, "%s %s: ratio %.2f", row->row.text, name, ratio);
    }
    printf("\n");
  }
  fflush(stdout);
  tally->n_rows++;
}

static bool measure(const Row *row, Peer *peer, const AccuracyOptions *o, Tally *tally) {
  Trial t;
  if (!open_trial(&t, row, o)) return false;
  bool ok = true;
  for (uint32_t draw = 0, n = draws_of(&t.run); ok && draw < n; draw++) ok = add_draw(&t, peer, o, draw);
  if (ok) show(&t, peer != NULL, tally);
  close_trial(&t);
  return ok;
}

static bool is_wanted(const Row *row, const AccuracyOptions *o) {
  return (!o->bars || row->bar_rms > 0) && (!o->part || strstr(row->row.text, o->part));
}

int bench_accuracy(const AccuracyOptions *o, Peer *peer) {
  static Tally tally;  // large
  for (size_t k = 0; k < N_ROWS; k++)
    if (is_wanted(&rows[k], o) && !measure(&rows[k], peer, o, &tally)) return 2;
  for (uint32_t k = 0; k < tally.n_over && k < MAX_OVER; k++) printf("over: %s\n", tally.over[k]);
  printf("accuracy: %u rows, %u results over", tally.n_rows, tally.n_over);
  if (peer) printf("; largest ratio beside torch %.2f", tally.worst);
  printf("\n");
  return tally.n_rows && !tally.n_over ? 0 : 1;
}
