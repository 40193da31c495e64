// The settings that a peer runs with. A ratio beside a peer that its installation holds back says nothing, so each case takes
// the fastest of these:
//   stock            as installed
//   tuned            MKL takes the kernels that the CPU's features allow, on AMD too (peers/mkl_as_intel.c); glibc keeps the
//                    pages of large results instead of mapping fresh ones in every call; PyTorch asks for huge pages
//   channels first   of workloads of images, whose data have channels last in the other ways
//   of sequences: a loop over them, a batch padded to the longest with a mask, nested tensors, all tuned
#include "bench/measure.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAY(name, ...)                                \
  {                                                   \
    name, (const char *const[]) { __VA_ARGS__, NULL } \
  }
#define KEEPS_PAGES "MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=30000000000", "THP_MEM_ALLOC_ENABLE=1"
#define CHANNELS_FIRST "TENURE_PEER_LAYOUT=first"
static const PeerWay stock = WAY("stock", NULL);
static const PeerWay torch_ways[] = {WAY("stock", NULL), WAY("tuned", KEEPS_PAGES),
                                     WAY("stock, channels first", CHANNELS_FIRST),
                                     WAY("tuned, channels first", KEEPS_PAGES, CHANNELS_FIRST)};
#define FORM(name, env) WAY("tuned, " name, KEEPS_PAGES, "TENURE_PEER_FORM=" env)
static const PeerWay sequence_ways[] = {FORM("a loop over sequences", "loop"), FORM("padded with a mask", "padded"),
                                        FORM("nested tensors", "nested")};

static bool is_torch(const char *peer) { return !strncmp(peer, "torch", 5); }

int bench_n_ways(const Options *o, const Workload *w, const char *peer) {
  if (is_torch(peer) && w->forms == PEER_SEQUENCES) return sizeof sequence_ways / sizeof *sequence_ways;
  return !is_torch(peer) || o->stock ? 1 : w->forms == PEER_LAYOUTS ? MAX_WAYS : MAX_WAYS / 2;
}

const PeerWay *bench_way(const Workload *w, const char *peer, int k) {
  if (!is_torch(peer)) return &stock;
  return w->forms == PEER_SEQUENCES ? &sequence_ways[k] : &torch_ways[k];
}

static bool is_amd(void) {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

// The library beside this program that the build makes of peers/mkl_as_intel.c. Without it the peer would not be at its best.
static const char *preload(void) {
  static char path[4200];
  char self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) self[n] = 0, snprintf(path, sizeof path, "%.*s/mkl_as_intel.so", (int)(strrchr(self, '/') - self), self);
  if (n > 0 && !access(path, R_OK)) return path;
  fprintf(stderr, "bench: %s is missing, which the peer preloads: build all of the tree\n", path);
  _exit(1);
}

void bench_set_way(const PeerWay *way) {
  for (int k = 0; way->env[k]; k++) putenv((char *)way->env[k]);
  if (!strncmp(way->name, "tuned", 5) && is_amd()) setenv("LD_PRELOAD", preload(), 1);
}
