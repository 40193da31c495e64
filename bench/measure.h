// Alternating bursts of ours and the peers', and what they found: between main.c, measure.c and show.c.
#ifndef TN_BENCH_MEASURE_H
#define TN_BENCH_MEASURE_H

#include "bench/bench.h"
#include <sys/resource.h>

enum { MAX_ROUNDS = 1000, MAX_STEPS = 100000, MAX_PEERS = 4 };

typedef struct {
  const char *self, *workload, *python, *root, *variant;
  const char *vs[MAX_PEERS];
  int n_vs;
  long rounds;   // 0: 8, or 3 of each of several cases
  long steps;    // of a burst; 0: as many as fill it
  long workers;  // 0: as many as the workload says, or the machine has CPUs
  long layers;   // of the largest program of `compile`; 0: 100
  bool json, compile;
  bool stock;         // peers run as installed alone
  bool bars;          // of `accuracy`: only rows that have them
  bool skip_missing;  // peers that the workload does not have: for a report of all workloads
} Options;

typedef struct {
  double min, medians[MAX_ROUNDS];  // ms for a call
  int n;
  long steps;
} Times;

// A peer of --vs: a process for each of its ways.
typedef struct {
  Peer process[MAX_WAYS];
  Times way[MAX_WAYS];  // of this case
  int n_ways;
  double first[MAX_WAYS];  // ms of its first burst; 0: the peer cannot compute the case in this way
  bool is_slow[MAX_WAYS];  // in this case: not timed beyond its first bursts
} Contender;

typedef struct {
  Times ours, theirs[MAX_PEERS];
  const char *way[MAX_PEERS];                      // with which the peer was fastest
  double ways[MAX_PEERS][MAX_WAYS];                // ms of all its ways; 0: it cannot
  double loss, peer_loss[MAX_PEERS], gflops, gbs;  // gflops, gbs: the machine's
  double sized_gbs;                                // of arrays of as many bytes as the case has
  tn_plan plan;                                    // of the workload's function; zeros: it names none
  tn_compile_info compiled;
  double peer_rss[MAX_PEERS];     // MB; 0: the peer does not say
  double peer_growth[MAX_PEERS];  // MB, since its weights were there
  double rss;                     // peak of ours so far, MB, before the probes take memory
  uint32_t n_workers;
  long n_disturbed;  // of the last rounds: those before which other programs had a part of the CPUs
} Outcome;

// One case of a workload, as it was measured.
typedef struct {
  const Workload *w;
  const char *variant;
  double flops, bytes;  // of one call
  bool counted;         // by the compiler
  Outcome r;
} Case;

double bench_median(const double *v, int n);

// ---- main.c
const Workload *bench_find(const char *name);  // NULL: a sentence was printed
bool bench_has_peer(const Options *o, const Workload *w, const char *peer);
bool bench_start_way(Peer *p, const PeerWay *way, const Options *o, const Workload *w, const char *peer,
                     const char *weights);
// NULL: o->why says it where there is room for it, else a sentence was printed.
void *bench_open(const Options *o, const Workload *w, Opening *opening);

// ---- peak.c and curve.c: of o->variant, a workload, or of those that the page has; the status
size_t bench_array_bytes(const tn_array *a);
int bench_peak(const Options *o, const char *weights);
int bench_curve(const Options *o, const char *weights);

// Times c->w in turn with n_vs peers, of each the fastest way. False: a sentence was printed.
bool bench_measure(const Options *o, void *state, Contender *peers, Case *c);
// Else a sentence was printed.
bool bench_same_loss(const Workload *w, const char *variant, double loss, const char *peer, double peer_loss);

// ---- ways.c
int bench_n_ways(const Options *o, const Workload *w, const char *peer);
const PeerWay *bench_way(const Workload *w, const char *peer, int k);

// ---- limit.c: what the machine's two rates allow
typedef struct {
  double by_flops, by_bytes;  // ms, at least; 0: no such limit
  double share;               // of what the limit that holds allows, reached; 0: no limit is known
  const char *holds;          // "arithmetic", "memory", ""
} Limit;
Limit bench_limit(const Case *c);

// ---- show.c
enum { MAX_BEHIND = 1024 };
typedef struct {
  const char *variant, *what;  // what: the peer, or what limits
  double ratio, share;         // share: of the limit; 0: none is known
} Behind;
typedef struct {
  Behind list[MAX_BEHIND];
  int n;
} Listed;

typedef struct {
  double log_min[MAX_PEERS], log_median[MAX_PEERS], worst[MAX_PEERS];  // sums over cases; least ratio
  const char *worst_case[MAX_PEERS], *worst_way[MAX_PEERS];
  double log_share;             // sum over the cases that have a limit
  double peak_least, peak_sum;  // share of the FMA peak, of cases that arithmetic bounds
  const char *peak_case;
  int n, n_peak, n_share, n_disturbed;
  Listed slower, far;  // than a peer; from the limit
} Summary;

void bench_show(const Options *o, const Case *c);  // as text or JSON
void bench_sum(const Options *o, const Case *c, Summary *s);
void bench_show_summary(const Options *o, const Workload *w, Summary *s);  // the last lines

// ---- bench compile: compile.c, and compile_cases.c
typedef struct {
  double cpu_ms, system_ms, build_ms, wall_ms;
  long compiler_kb;  // resident at most in a process of the compiler, pages of the program that it shares among them
  tn_compile_info info;
} CompileCost;
bool bench_compile_once(tn_program *(*make)(const void *of), const void *of, CompileCost *cost);
typedef struct {
  long layers;
  bool distinct, trains;
} CompileLayers;
tn_program *bench_compile_layers(const void *of);  // CompileLayers: linear layers with relu
double bench_ms_of(struct timeval t);
// In a process of its own, which has compiled something before. *used: what that process took.
bool bench_in_child(bool (*work)(const void *of, CompileCost *cost), const void *of, CompileCost *cost,
                    struct rusage *used);
bool bench_compile_cases(const Options *o);  // the case o->variant, or all; false: one fails
int bench_compile_costs(const Options *o);   // these, and programs of 1, 10, .. o->layers layers

#endif
