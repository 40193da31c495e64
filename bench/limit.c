// What this machine allows a case at the rates that the probes saw in the same run: its arithmetic at the FMA peak, its
// bytes at the bandwidth of memory. The longer of the two times is the limit that holds, so that the share reached means the
// same on every machine. Bytes that fit the last cache stay there between calls: then only the arithmetic limits.
#include "bench/measure.h"
#include <unistd.h>

static double cache_bytes(void) {
  enum { UNKNOWN = 16 << 20 };
  long most = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  const int level[] = {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  for (int k = 0; k < 2; k++)
    if (sysconf(level[k]) > most) most = sysconf(level[k]);
#endif
  return most > 0 ? (double)most : UNKNOWN;
}

Limit bench_limit(const Case *c) {
  const Outcome *r = &c->r;
  Limit l = {.holds = "", .in_cache = c->counted && c->bytes <= cache_bytes()};
  if (r->gflops > 0) l.by_flops = c->flops / r->gflops * 1e-6;
  if (r->gbs > 0 && !l.in_cache) l.by_bytes = c->bytes / r->gbs * 1e-6;
  double most = l.by_flops > l.by_bytes ? l.by_flops : l.by_bytes;
  if (most <= 0) return l;
  l.holds = l.by_flops > l.by_bytes ? "arithmetic" : "memory";
  l.share = most / r->ours.min;
  return l;
}
