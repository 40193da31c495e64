// A workload is one row: what main.c times against a peer. Its inputs come from bench_number, so that a peer in another
// language makes the same ones; its weights travel as a safetensors file.
#ifndef TN_BENCH_H
#define TN_BENCH_H

#include "frontend/tenure.h"
#include <stdio.h>

typedef struct {
  const char *root;     // of the source tree, for data
  const char *weights;  // where the initial weights are to be saved
  const char *tir;      // where the program's text is to be saved; NULL: nowhere
  const char *variant;  // one of the workload's cases, else ""
  uint32_t n_workers;
  const char *cache_dir;  // of compiled objects; NULL: the user's, "": none
  size_t arena_limit;     // of the model; 0: none
  bool recompute;         // kernels run again where that takes next to no time; with a limit they do in any case
  uint32_t shards;        // the batch is cut into so many, where the workload knows how; 0: it is not
  char *why;              // set on failure
  size_t why_size;
} Opening;

// A probe of memory: what it does, in words behind "GB/s"; GB/s of so many threads, each on a part of its own.
typedef struct {
  const char *what;
  double (*rate)(uint32_t n_threads);
} Bandwidth;
extern const Bandwidth bench_scaling, bench_updating, bench_reading;
// Of arrays of so many bytes that are read, or scaled, again and again
double bench_sized_gbs(uint32_t n_threads, double bytes);

// Forms in which a peer may have its data, beside its settings (ways.c): of each case the fastest counts.
typedef enum { PEER_ONE_FORM, PEER_LAYOUTS, PEER_SEQUENCES } PeerForms;

typedef struct {
  const char *name;
  const char *what;           // one line for the reader
  const char *peer;           // script below the root, by peer: "%s" is its name up to a dash
  const char *const *cases;   // shapes that are timed one by one, to NULL; NULL: there is one, ""
  bool by_sizes;              // a case is its sizes: others than those listed are timed when they are asked for
  uint32_t calls;             // calls in one timed step, each too short for a clock; 0: 1
  double tolerance;           // of the check, relative; 0: 1e-5
  void *(*open)(Opening *o);  // NULL: o->why says it
  bool (*check)(void *w, double *loss);  // a number that the peer must find too
  bool (*step)(void *w);                 // one timed step
  tn_model *(*model)(void *w);
  void (*close)(void *w);
  const Bandwidth *bandwidth;  // what its bytes are compared with; NULL: bench_scaling
  double flops, bytes;         // of one call: what it cannot do without; both 0: what the compiler counts of `function`
  void (*limits)(const char *variant, double *flops, double *bytes);  // by case, instead
  const char *function;                                               // that a step runs; at its bounds
  double (*filled)(void *w);              // part of its rows that data fill in the fastest step; NULL: all
  const char *large;                      // which cases are compared with the FMA peak, in words
  bool (*is_large)(const char *variant);  // is it one of them? NULL: none is
  bool has_openblas;                      // OpenBLAS can be its peer
  PeerForms forms;                        // images with channels first or last; sequences alone, padded or nested
  long workers;                           // unless --workers says another number; 0: as many as the machine has CPUs
} Workload;
extern const Workload bench_vowels, bench_lstm256, bench_lstm64, bench_gru256, bench_bilstm256, bench_lstm256_rows,
    bench_mlp, bench_tiny, bench_chain, bench_softmax, bench_gemm, bench_gemm_plain, bench_adamw, bench_transformer4,
    bench_transformer12, bench_concat, bench_cast, bench_gpt2, bench_gpt2_decode, bench_ops, bench_conv, bench_resnet20,
    bench_resnet50, bench_pool, bench_linalg, bench_linear_scan, bench_sweep, bench_packed_attention,
    bench_packed_transformer, bench_decode_ragged, bench_transformer12_long, bench_gpt2_long, bench_resnet50_training,
    bench_mobilenet, bench_efficientnet, bench_convnext, bench_sparse;

// ---- bench/probe.c: what this machine can do at this moment, with n threads together
double bench_peak_gflops(uint32_t n_threads);  // FMA rate from registers; 0: unknown here

// ---- bench/data.c: numbers that every language can make: see bench/peers/peer.py
// n bytes of zeros, on huge pages where they are large, as a model and NumPy have their memory; `free` frees them.
void *bench_block(size_t n);
double bench_number(uint64_t k, uint32_t seed);                                // in [0, 1), k < 2^31
void bench_floats(float *out, size_t n, double lo, double hi, uint32_t seed);  // in [lo, hi)
void bench_integers(int64_t *out, size_t n, int64_t bound, uint32_t seed);     // in [0, bound)
// Lengths of sequences of a kind (lognormal, uniform, long: one of 2,048 among short ones, equal, short: up to 4): as
// peers/peer.py makes them.
enum { BENCH_SEQUENCES = 64 };
bool bench_lengths_of(const char *kind, int64_t n[BENCH_SEQUENCES]);
double bench_checksum(const float *v, size_t n);  // sum of |v| by random weights
// A block of a GPT, as peers/torch_peer.py has it; its embedding, which begins with numbers of deviation 0.02
tn_module *bench_gpt_block(tn_module *net, const char *name, int64_t wide);
tn_module *bench_gpt_words(tn_program *p, const char *name, int64_t n, int64_t wide);
// Compiles p (and frees it), saves the weights unless o->weights is NULL. NULL: o->why.
tn_model *bench_compile(tn_program *p, Opening *o);

// ---- bench/ways.c: the settings that a peer's process runs with
enum { MAX_WAYS = 4 };
typedef struct {
  const char *name;
  const char *const *env;  // NAME=VALUE, to NULL
} PeerWay;
void bench_set_way(const PeerWay *way);  // of this process, before it becomes the peer

// ---- bench/peer.c: a process that is asked line by line
typedef struct {
  int pid;
  const char *program;
  FILE *in, *out;
} Peer;
bool bench_peer_start(Peer *p, const PeerWay *way, char *const argv[]);
bool bench_peer_ask(Peer *p, const char *question, char *answer, int size);
// Bytes that a training step needs beside what lives between steps, and of that. False: it does not know.
bool bench_peer_bytes(Peer *p, double *step, double *state);
void bench_peer_stop(Peer *p);
bool bench_peer_complain(Peer *p, const char *workload, const char *name);  // it gave no answer: why; always false

// ---- bench/report.c
typedef struct {
  const char *path, *self;       // the page, .md or HTML; this program
  const char *commit;            // what is measured; NULL: unknown
  const char *const *workloads;  // names
  size_t n_workloads;
  char *const *pass;  // options for each run
  int n_pass;
} BenchReport;
int bench_report(const BenchReport *o);

int bench_aot(const char *const *files, int n,
              const char *folder);                   // bundles of .tir files: sizes, speed beside models
int bench_lengths(uint32_t n_workers, long rounds);  // sequences of different lengths against a dense batch

// ---- bench/accuracy.c: errors beside the peer's; peer NULL: none. The status says whether one is above the limit.
#define MOST_RATIO 1.5
enum { MAX_OVER = 256 };  // that are listed
typedef struct {
  const char *weights, *results;  // files: of a module's parameters, of the peer's results
  const char *part;               // of a row's text; NULL: all
  bool bars;                      // only rows that have bars
  uint32_t n_workers;
} AccuracyOptions;
int bench_accuracy(const AccuracyOptions *o, Peer *peer);

int bench_openblas(const char *workload, uint32_t n_threads);  // is itself such a process: on `gemm` and `gemm_plain`
void bench_openblas_kernels(void);  // before it starts: $OPENBLAS_CORETYPE, unless set, to the best that this CPU runs

#endif
