// A workload is one row: what main.c times against a peer.
#ifndef TN_BENCH_H
#define TN_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *name;
  const char *what;  // one line for the reader
  const char *peer;  // script below bench/peers, by peer: "%s" is its name
  // Makes the workload; weights go to the safetensors file `weights`. NULL: `why` says it.
  void *(*open)(const char *root, const char *weights, uint32_t n_workers, char *why, size_t why_size);
  bool (*check)(void *w, double *loss);  // loss of the first batch, initial weights, without dropout
  bool (*step)(void *w);                 // one timed step
  uint32_t (*n_workers)(void *w);
  void (*close)(void *w);
} Workload;
extern const Workload bench_vowels;

double bench_peak_gflops(void);  // FMA rate of one core at this moment; 0: unknown here

#endif
