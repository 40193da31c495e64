// Double buffering of a B stored [K, N] (amx.c): blocks of its next NC block are packed while this one is computed.
//
// A list in memory has what these blocks have in common, and the number of the next one.
#include "codegen/gemm/parts.h"
#include "codegen/tuning.h"

enum { L_NEXT, L_COUNT, L_PANELS, L_LD, L_PANEL, L_N_K, L_COLUMNS, L_SRC, L_DST, L_AMAX, N_L };
_Static_assert((int)N_L <= (int)AHEAD_WORDS, "room for a list");
enum { TUNED_PACK_AHEAD(TUNE) };

static V list_at(Cg *c, V list, uint32_t field) { return cg_at(c, c->i64, list, cg_i64(c, field)); }
static V read_list(Cg *c, V list, uint32_t field) {
  return cg_load(c, field >= L_SRC ? c->ptr : c->i64, list_at(c, list, field));
}

void cg_ahead_begin(Gemm *g, V list, const GemmMacroTile *u, V some, V to, V amax) {
  Cg *c = g->c;
  V panels = cg_ceil_div_value(c, u->columns, PARTS_SIDE);
  V count = cg_mul(c, panels, cg_ceil_div_value(c, u->n_k, PARTS_SIDE));
  V src = cg_cell(c, cg_gemm_b_matrix(g, u->batch), u->k0, g->b_ld, u->n0);
  V field[N_L] = {[L_NEXT] = cg_i64(c, 0),
                  [L_COUNT] = cg_select(c, some, count, cg_i64(c, 0)),
                  [L_PANELS] = cg_max(c, panels, cg_i64(c, 1)),
                  [L_LD] = g->b_ld,
                  [L_PANEL] = cg_i64(c, cg_parts_elements(PARTS_SIDE, g->p->kc)),
                  [L_N_K] = u->n_k,
                  [L_COLUMNS] = u->columns,
                  [L_SRC] = src,
                  [L_DST] = to,
                  [L_AMAX] = amax};
  for (uint32_t k = 0; k < N_L; k++) cg_store(c, field[k], list_at(c, list, k));
  cg_parts_clear_amax(c, amax, panels);
}

V cg_ahead_more(Cg *c, V list) { return cg_lt(c, read_list(c, list, L_NEXT), read_list(c, list, L_COUNT)); }

static V source(Cg *c, V list, V step, V panel) {
  V side = cg_i64(c, PARTS_SIDE), row = cg_mul(c, cg_mul(c, step, side), read_list(c, list, L_LD));
  return cg_at(c, c->f32, read_list(c, list, L_SRC), cg_add(c, row, cg_mul(c, panel, side)));
}

PartsBlock cg_ahead_take(Cg *c, V list, V *prefetch) {
  V nth = read_list(c, list, L_NEXT), panels = read_list(c, list, L_PANELS), side = cg_i64(c, PARTS_SIDE);
  cg_store(c, cg_add(c, nth, cg_i64(c, 1)), list_at(c, list, L_NEXT));
  V step = cg_div(c, nth, panels), panel = cg_rem(c, nth, panels);
  V to = cg_index(c, panel, read_list(c, list, L_PANEL), cg_mul(c, step, cg_i64(c, PARTS_BLOCK)));
  PartsBlock b = {.src = source(c, list, step, panel),
                  .ld = read_list(c, list, L_LD),
                  .dst = cg_at(c, c->f32, read_list(c, list, L_DST), to),
                  .amax = cg_parts_amax_of(c, read_list(c, list, L_AMAX), panel),
                  .rows = cg_sub(c, read_list(c, list, L_N_K), cg_mul(c, step, side)),
                  .columns = cg_sub(c, read_list(c, list, L_COLUMNS), cg_mul(c, panel, side))};
  V later = cg_min(c, cg_add(c, nth, cg_i64(c, AHEAD)), cg_sub(c, read_list(c, list, L_COUNT), cg_i64(c, 1)));
  *prefetch = source(c, list, cg_div(c, later, panels), cg_rem(c, later, panels));
  return b;
}

void cg_ahead_finish(Cg *c, V list) {
  V prefetch, left = cg_sub(c, read_list(c, list, L_COUNT), read_list(c, list, L_NEXT));
  for (Loop l = cg_count(c, left); cg_next(&l);) {
    PartsBlock b = cg_ahead_take(c, list, &prefetch);
    cg_parts_pack_block(c, &b);
  }
}
