// What the runs of a report found: between report.c, which runs them, and the two pages.
#ifndef TN_BENCH_REPORT_H
#define TN_BENCH_REPORT_H

#include "bench/bench.h"

enum { MAX_CASES = 1024, MAX_KERNELS = 24, MAX_PASS = 16, NAME = 96 };

// A case of a workload against one peer, or alone. NAN: not measured.
typedef struct {
  char workload[NAME], variant[NAME], peer[NAME];
  double min_ms, peer_ms, ratio, ratio_median;
  char limit[NAME];               // "arithmetic", "memory"
  double reached;                 // of what it allows
  double peak_gflops, bandwidth;  // of the machine in that run
  double compile_ms, rss;         // compiled anew; MB
  int n_workers;
} ReportCase;

typedef struct {
  char name[NAME];
  double share, us, gflops, gbs, wait;
} KernelRow;

// The kernels of a workload that take most of its time.
typedef struct {
  const char *workload;
  KernelRow row[MAX_KERNELS];
  int n;
} Profile;

typedef struct {
  ReportCase cases[MAX_CASES];
  int n;
  const char *self, *commit, *pass[MAX_PASS];  // options handed on
  int n_pass;
  double gflops, gbs;              // most that any run saw of the machine
  double least_gflops, least_gbs;  // and least
  char failed[1024];               // workloads, each after a blank; "": none
  FILE *out;
} Report;

// False: it could not be written.
bool bench_write_html(Report *r, const char *path, const Profile *p, int n);  // report_html.c
bool bench_write_table(Report *r, const char *path);                          // report_table.c
bool bench_table_has_place(const char *path);                                 // false: a sentence was printed

#endif
