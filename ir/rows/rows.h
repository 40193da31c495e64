// Which values of a function have rows of packed sequences along an axis, and what instructions do with them: column `rows` of
// ir/ops.def. Until pass check_rows: the front end asks while it builds, the checker walks a whole function.
//
//   %d = pack_padded %x, %l       rows of %l along axis 0
//   %t = permute %d {perm=[1,0]}  along axis 1
//   %s = sum %d {axes=[0]}        a total: none
//   %y = softmax %d {axis=0}      mixes sequences
#ifndef TN_IR_ROWS_ROWS_H
#define TN_IR_ROWS_ROWS_H

#include "ir/ir.h"

typedef struct {
  uint32_t layout;  // whose rows they are; 0: of none
  uint8_t axis;
  bool is_plain;  // it was said that these are just rows
  // By axis: made of the number of rows alone, as zeros of their shape: there are no sequences to mix in it. Then `axis` is the first
  uint8_t made;
  uint8_t numbered;  // of these axes: worked on along it, so that it depends on places among the rows of all sequences
} Rows;

typedef struct {
  int64_t number;
  uint32_t begin;   // scan_begin
  uint32_t layout;  // 0: over a dense axis
  Rows *next;       // by carry: those of its last value
  uint32_t n_next, cap_next;
  bool has_slices;  // of values that are not made of sizes alone
} ScanRows;

typedef struct {
  RtArena *mem;
  Rows *of;  // by value; what lies behind n has none
  uint32_t n, cap;
  ScanRows *scans;
  uint32_t n_scans, cap_scans;
  Val *layouts;  // of packed rows
  uint32_t n_layouts, cap_layouts;
} RowsMap;

static inline Rows ir_rows_at(const RowsMap *m, Val v) { return v.i < m->n ? m->of[v.i] : (Rows){0}; }
void ir_set_rows(RowsMap *m, Val v, Rows r);
uint32_t ir_layout_of_scan(const RowsMap *m, int64_t number);  // 0: none, or over a dense axis

// An instruction, made already or not yet
typedef struct {
  const Fn *f;
  RowsMap *rows;
  Op op;
  const Val *a;  // operands by position in the row of the op; none: absent
  uint32_t n, n_attrs;
  const Attr *attrs;
} RowsCall;

// What becomes of an operand's axis of rows
typedef enum {
  WAY_GONE,       // the result has no rows: a total, or rows selected by an index
  WAY_KEPT,       // axis `axis` of the result
  WAY_SUMMED,     // summed with the rows of the other operand, which must be of one layout
  WAY_OF_LAYOUT,  // rows of the layout that the op takes
  WAY_MIXED       // sequences would be mixed
} RowsFate;
typedef struct {
  RowsFate fate;
  uint32_t axis;
} RowsWay;

// ---- way.c
RowsWay ir_way_of_rows(const RowsCall *c, uint32_t k, uint32_t axis);  // of operand k, which has rows along the axis
Val ir_layout_of(const RowsCall *c, uint32_t k);  // whose rows operand k must have, where its fate is WAY_OF_LAYOUT
// Which operand is the op's layout; UINT32_MAX: none
uint32_t ir_layout_operand(const RowsCall *c);
// A reshape of `axis`, which holds whole rows of a layout that has `rows` of them
RowsWay ir_reshaped_rows(Prog *p, Shape from, Shape to, uint32_t axis, Dim rows);
// Behind the axes that it becomes; 0: it ends within one of them
uint32_t ir_reshaped_end(Prog *p, Shape from, Shape to, uint32_t axis);

// ---- follow.c
// What an instruction does with operands that have rows: the first of each kind; none: there is no such
typedef struct {
  Val kept, summed, mixed;
  Val clash[2];             // layouts whose rows would meet
  uint32_t axis, n_summed;  // axis: of the result, where the kept one's rows lie
  uint32_t mixed_axis;      // of the mixed operand
  Rows made;                // what the result has of operands that are made of the number of rows alone
  Dim made_size[MAX_RANK];  // by axis: its size in the operand
  Val worked;               // one of them, which is worked on along its axis worked_axis
  uint32_t worked_axis;
} RowsEffect;

bool ir_has_typed_rows(const Fn *f, Val v);        // of a packed layout that pass check_rows has not marked
bool ir_same_layout(const Fn *f, Val a, Val b);    // one layout, or two of the same constant lengths
bool ir_is_one_sequence(const Fn *f, Val layout);  // there is nothing to mix
// false: rows of two layouts would meet. Without a clash e->mixed may be set
bool ir_rows_meet(RowsEffect *e, const RowsCall *c);
void ir_rows_follow(const RowsEffect *e, const RowsCall *c, Val y);  // gives the results from y on their rows
void ir_rows_pass_mark(RowsMap *m, const Fn *f, Val v);              // a mark of a scan was made
// Before `content` is written to v, which then holds rows if the content does; false: e->clash or e->mixed says why not
bool ir_rows_written(RowsMap *m, RowsEffect *e, const Fn *f, Val v, Val content);

// ---- within.c
// The op, or the public call, that does it within each sequence where `op` would mix them; NULL: there is none
const char *ir_works_within(Op op, const Attr *attrs, uint32_t n_attrs, bool as_call);

// ---- check.c
bool ir_check_rows(const Fn *f, RtDiags *diags);  // of a whole function, E130 and E111

#endif
