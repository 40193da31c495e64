// What the walks of pass fuse share (fuse.c). A header of this room.
#ifndef TN_IR_PASSES_FUSION_FUSE_H
#define TN_IR_PASSES_FUSION_FUSE_H

#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/fusion/groups.h"
#include "ir/storage.h"

enum {
  SMALL_RATIO = 8,  // small: at most an eighth
  TINY_RATIO = 64,
  MAX_CHAIN = 8  // values in a row that are looked at
};

typedef struct {
  Groups g;
  Fn *f;
  bool *is_ready;  // by value: made of inputs, parameters and constants alone, element by element or as a copy
  bool *is_copy;   // by value: a copy of a part of them, which can be made whenever it is wanted
  bool *follows;   // by copy: it is made right before the product that reads it
  bool late_wait;  // generators, and copies that follow, have no place yet
} Fuse;

static inline OpClass ir_class_at(const Fn *f, uint32_t i) { return (OpClass)ir_ops[f->ins[i].op].cls; }

static inline bool ir_is_generator(const Fn *f, uint32_t i) {
  return i < f->n_ins && ir_class_at(f, i) == CLASS_POINTWISE && f->ins[i].n_args == 0;
}

static inline double ir_bytes_at(const Fn *f, Val v) {
  return 4.0 * (double)ir_shape_bound(f->prog, ir_ins(f, v)->shape);
}

static inline bool ir_is_small_beside(const Fn *f, Val a, Val v) {
  return ir_bytes_at(f, a) * SMALL_RATIO <= ir_bytes_at(f, v);
}

// A pointwise value that does nothing else than be there
static inline bool ir_is_own_value(const Fn *f, uint32_t i) {
  const Ins *ins = &f->ins[i];
  return ir_class_at(f, i) == CLASS_POINTWISE && !(ir_ops[ins->op].flags & (EFFECT | WRITES)) && ins->n_res == 1 &&
         ins->dtype == DT_F32;
}

// Holding it costs nothing: no memory, the caller's memory, or made again at each use.
static inline bool ir_is_free(const Fn *f, Val base) {
  return ir_is_immediate(f, base) || ir_is_generator(f, base.i) || ir_is_stored_leaf(f, base);
}

static inline bool ir_waits_for_nothing(const Groups *g, uint32_t i) { return g->first_dep[i] == g->first_dep[i + 1]; }

// It is made right before it is wanted.
static inline bool ir_is_late(const Fuse *s, uint32_t i) {
  bool is_late = ir_is_generator(s->f, i) || (i < s->f->n_ins && s->follows[i]);
  return is_late && ir_waits_for_nothing(&s->g, i);
}

// ---- place.c
void ir_place_groups(Fuse *s);
bool ir_is_made_there(const Groups *g, uint32_t i, Val a);  // generator a can be made in the kernel of instruction i

// ---- readers.c
void ir_go_to_readers(Fuse *s, bool generators);  // generators alone, or all but them
void ir_take_readers(Fuse *s);
uint32_t ir_first_reader(const Groups *g, Val v);              // the first group that waits for v; 0: none
double ir_bytes_kept(const Fuse *s, uint32_t i, uint32_t to);  // up to that group, for the sake of instruction i in it

bool ir_can_leave(const Fuse *s, Val v);                                 // the group of v is still one without it
bool ir_is_one_kernel(const Fuse *s, uint32_t group, uint32_t without);  // 0: with all
void ir_move(Groups *g, Val v, uint32_t to);

// ---- pairs.c
void ir_pair(Fuse *s, Val v);  // row op v goes to a later reader of its rows, if there is one

// ---- late.c
void ir_follow(Fuse *s, uint32_t i);  // copies that instruction i of a product's kernel reads
void ir_delay_products(Fuse *s);
void ir_copy_fills(Fuse *s);
void ir_place_late(Fuse *s);

// ---- merge.c
uint32_t *ir_in_place(const Groups *g, uint32_t *n);  // groups in the order of their places
void ir_merge_kinds(Fuse *s);
void ir_merge_rows(Fuse *s);
void ir_merge_late(Fuse *s);
// By group: bytes that may live with what it makes; bytes that it makes.
typedef struct {
  int64_t *bytes, *made;
} MergeRoom;
// All that are alike; pointwise groups and updates, whose results have the same bits in one kernel and in two; all but these.
typedef enum { MERGE_ALL, MERGE_ELEMENTS, MERGE_SUMS } MergeKind;
// How many are left. room NULL: any.
uint32_t ir_merge_neighbours(Fuse *s, uint32_t *list, uint32_t n, MergeKind which, MergeRoom *room);

// ---- order_memory.c: neighbours are merged, in this order or in one in which less lives at once. The list, and how many are in it
uint32_t *ir_merge_in_order(Fuse *s, uint32_t *list, uint32_t *n);

#endif
