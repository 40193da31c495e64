// The best of a list of orders and decoders. Decoders whose time grows with the square of the items come only where there
// are few enough of them. The order by area comes with jitter too: large problems, which no search follows, leave a gap for
// small reasons, which another order of a few items does not have.
#include "ir/placement/problem.h"
#include <string.h>

typedef enum { BY_TIME, LOWEST, FIRST_FIT, BEST_FIT, SHUFFLED, N_DECODERS } Decoder;
typedef struct {
  PlaceOrder order;
  Decoder decoder;
  uint32_t jitter;
} Way;

// The first one that needs no more than enough ends it.
static const Way ways[] = {
    {BY_START, BY_TIME, 0},       {BY_LIFE, LOWEST, 0},      {BY_AREA, LOWEST, 0},     {BY_SIZE, LOWEST, 0},
    {BY_START, LOWEST, 0},        {BY_LOAD_LIFE, LOWEST, 0}, {BY_DEGREE, LOWEST, 0},   {BY_SIZE_ROOT, LOWEST, 0},
    {BY_LOAD_AREA, LOWEST, 0},    {BY_PRESSURE, LOWEST, 0},  {BY_END, LOWEST, 0},      {BY_LIFE, FIRST_FIT, 0},
    {BY_AREA, FIRST_FIT, 0},      {BY_SIZE, FIRST_FIT, 0},   {BY_START, FIRST_FIT, 0}, {BY_LOAD_LIFE, FIRST_FIT, 0},
    {BY_SIZE_ROOT, FIRST_FIT, 0}, {BY_SIZE, BEST_FIT, 0},    {BY_AREA, BEST_FIT, 0},   {BY_AREA, LOWEST, 1},
    {BY_AREA, LOWEST, 2},         {BY_AREA, LOWEST, 3},      {BY_AREA, LOWEST, 4},     {BY_AREA, LOWEST, 5},
    {BY_AREA, LOWEST, 6},         {BY_AREA, LOWEST, 7},      {BY_AREA, LOWEST, 8},
};
static const uint64_t MOST_VISITS = 250000000;  // of all that are by lowest: no more ways then; some two seconds
static const uint32_t most_items[N_DECODERS] = {UINT32_MAX, UINT32_MAX, 2000, 2000, UINT32_MAX};

static int64_t go(const Problem *p, PlaceSorter *sorter, PlaceDecoder *d, Way w, uint32_t *order) {
  memcpy(order, p->loose, p->n_loose * sizeof *order);
  ir_place_sort(sorter, order, p->n_loose, w.order, w.jitter);
  if (w.decoder == LOWEST) return ir_place_lowest(d, order);
  if (w.decoder == BEST_FIT) return ir_place_best_fit(d, order);
  return ir_place_first_fit(d, order, w.decoder == BY_TIME);
}

static int64_t best_of(const Problem *p, const Way *list, uint32_t n, int64_t enough, int64_t *at) {
  PlaceSorter sorter = ir_place_sorter(p);
  PlaceDecoder d = ir_place_decoder(p);
  uint32_t *order = rt_alloc(p->mem, (p->n + 1) * sizeof *order);
  int64_t best = INT64_MAX;
  for (uint32_t k = 0; k < n && best > enough && d.visits < MOST_VISITS; k++) {
    if (p->n > most_items[list[k].decoder]) continue;
    int64_t peak = go(p, &sorter, &d, list[k], order);
    if (peak >= best) continue;
    best = peak;
    memcpy(at, d.at, p->n * sizeof *at);
  }
  return best;
}

int64_t ir_place_portfolio(const Problem *p, int64_t enough, int64_t *at) {
  return best_of(p, ways, sizeof ways / sizeof *ways, enough, at);
}

int64_t ir_place_shuffled(const Problem *p, int64_t *at) {
  static const Way way = {BY_HASH, SHUFFLED, 0};
  return best_of(p, &way, 1, 0, at);
}
