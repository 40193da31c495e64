// What the files of the random generator share: the pool of values, and how steps pick operands from it and add to it.
// A step that finds nothing fitting adds nothing.
#ifndef TN_TESTS_RANDOM_GEN_H
#define TN_TESTS_RANDOM_GEN_H

#include "ir/rows/rows.h"
#include "tests/random_program.h"

enum { MAX_POOL = 96, MAX_LAYOUTS = 4, MAX_OPEN = 4, MAX_ELEMENTS = 2500, MAX_INPUTS = 14 };

typedef struct {
  Val v;
  double mag;      // |x| stays around or below it
  int64_t below;   // i64: every element lies in [0, below); 0: not known
  uint32_t scope;  // its owner; 0: the function
  uint32_t depth;  // longest path to a leaf
  bool detached;   // no scope owns it
} Item;

typedef struct {
  Val v;
  Dim batch, time, rows;
  Dim total;  // what the lengths sum to; none: they are no input, or sum to anything
  uint32_t scope;
} Layout;

typedef struct {
  Prog *p;
  Fn *f;
  Rng r;
  Item pool[MAX_POOL];
  uint32_t n;
  Layout layout[MAX_LAYOUTS];
  uint32_t n_layouts;
  uint32_t open[MAX_OPEN], n_open;
  Dim batch, time, any;
  RandomKind kind;
  bool *param_used;   // by parameter: this function has read it
  uint32_t n_params;  // of earlier functions, which this one may read
  uint32_t n_scans;   // of this function
  uint32_t in_scan;   // scans in whose bodies what is added now stands
  Dim live;           // the rows of its step; none: it is dense
  uint32_t serial;    // for names
  RowsMap own_rows;   // of f, as it is built
  RowsMap *rows;      // the same, or while a public call is drawn those of its function
} Gen;

typedef struct {
  Dim d[MAX_RANK];
  uint32_t n;
} Dims;

// ---- numbers and shapes
uint32_t gen_below(Gen *g, uint32_t n);
bool gen_chance(Gen *g, uint32_t percent);
int64_t gen_size(Gen *g);
Dim gen_dim(Gen *g);
Shape gen_shape_at(const Gen *g, Val v);
Dims gen_dims(const Gen *g, Val v);
Dims gen_without_last(const Gen *g, Val v);
Shape gen_shape(Gen *g, const Dims *d);
Shape gen_random_shape(Gen *g);
int64_t gen_last_size(const Gen *g, Val v);  // 0: known at run time only
bool gen_is_one(const Gen *g, Dim d);
bool gen_is_small(Gen *g, Shape s);
bool gen_joint_is_small(Gen *g, Val a, Val b);  // so is what they broadcast to
bool gen_is_f32(const Gen *g, Val v);

// ---- the pool
Val gen_emit(Gen *g, Op op, const Val *args, uint32_t n, const Attr *attrs, uint32_t n_attrs);  // none: it did not fit
Val gen_op1(Gen *g, Op op, Val a);
Val gen_op2(Gen *g, Op op, Val a, Val b);
Val gen_number(Gen *g, double x);
Val gen_keep(Gen *g, Val v, double mag);       // v is in the pool from here on
Val gen_keep_tame(Gen *g, Val v, double mag);  // .. and returned in a size that more can be made of
void gen_forget(Gen *g, Val v);
double gen_mag(const Gen *g, Val v);
double gen_mag_of_scan(Op op, double mag, double n);  // of a running sum, product, .. over n elements of size mag
uint32_t gen_scope(const Gen *g);
Val gen_tame(Gen *g, Val v, double limit);
Val gen_positive(Gen *g, Val v, double least);
Val gen_row(Gen *g, Val v);  // a pointwise op of v, of those with one operand

// ---- leaves
const char *gen_fresh(Gen *g, const char *stem);
bool gen_may_be_input(const Gen *g, Shape s);
Val gen_input(Gen *g, const char *stem, DType t, Shape s);
Val gen_param(Gen *g, const char *stem, Shape s);
Val gen_entry(Gen *g, const char *stem, DType t,
              Shape s);  // a weight or, of whole numbers and bool, a buffer, not kept
Val gen_leaf(Gen *g, Shape s);
Val gen_start(Gen *g, int64_t room);
uint32_t gen_slice_at(Gen *g, uint32_t axis, int64_t n, Attr *a, int64_t *count, int64_t *room);

// ---- operands
Val gen_pick_where(Gen *g, bool (*fits)(Gen *g, Val v));  // none: nothing fits
Val gen_pick(Gen *g);                                     // f32
Val gen_pick_any(Gen *g);
Val gen_partner(Gen *g, Val v);  // broadcasts with v
bool gen_any_f32(Gen *g, Val v);
bool gen_any_value(Gen *g, Val v);
bool gen_any_row(Gen *g, Val v);
bool gen_any_matrix(Gen *g, Val v);
bool gen_any_table(Gen *g, Val v);
bool gen_is_param(Gen *g, Val v);
bool gen_may_be_written(Gen *g, Val v);
void gen_write(Gen *g, Val v, Val x);
Val gen_index_below(Gen *g, int64_t limit);           // i64 in [0, limit)
Val gen_linear(Gen *g, Val x, int64_t n, bool bias);  // none: too large
Val gen_labels(Gen *g, Val logits);
Val gen_scalar_of(Gen *g, Val v);  // of rank 0, of all elements
Layout *gen_some_layout(Gen *g);
Val gen_rows_of(Gen *g, const Layout *l, bool matrix);  // [rows, ..]
Val gen_per_sequence(Gen *g, const Layout *l);          // [batch, ..]

// ---- steps
void gen_add_step(Gen *g);
void gen_add_network(Gen *g);
#define STEP(name, ...) void name(Gen *g);
#define CALLS(name, ...) void name(Gen *g);
#include "tests/random_steps.def"

#endif
