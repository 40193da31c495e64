// What this machine allows a case at the rates that the probes saw in the same run: its arithmetic at the FMA peak, its
// bytes at a bandwidth: of memory, or, where the compiler counts them, of arrays of as many bytes that are read or scaled again
// and again, as small ones stay in caches between calls. The longer of the two times is the limit that holds, so that the share
// reached means the same on every machine.
#include "bench/measure.h"

Limit bench_limit(const Case *c) {
  const Outcome *r = &c->r;
  Limit l = {.holds = ""};
  double gbs = c->counted ? r->sized_gbs : r->gbs;
  if (r->gflops > 0) l.by_flops = c->flops / r->gflops * 1e-6;
  if (gbs > 0) l.by_bytes = c->bytes / gbs * 1e-6;
  double most = l.by_flops > l.by_bytes ? l.by_flops : l.by_bytes;
  if (most <= 0) return l;
  l.holds = l.by_flops > l.by_bytes ? "arithmetic" : "memory";
  l.share = most / r->ours.min;
  return l;
}
