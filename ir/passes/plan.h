// What passes ask of one another, and code generation of a plan: memory, checks before a run, what may join a kernel.
#ifndef TN_IR_PASSES_PLAN_H
#define TN_IR_PASSES_PLAN_H

#include "ir/ir.h"
#include "runtime/exec/arena_guards.h"

// Sets offsets in SEG_PARAM and SEG_CONST for all functions, after their passes, and checks them
bool ir_plan_program_memory(Prog *p);
// Pass plan_memory without the bound of all orders. Where more than `most` bytes live at once no offsets are sought, and the peak is
// what lives: so is the lower bound.
bool ir_place_function(Fn *f, int64_t most);
// ir/passes/planning/problem.c: of live bytes, and the kernel that needs them; `live` is what the order that there is needs
int64_t ir_bound_of_orders(const Fn *f, RtArena *mem, int64_t live, uint32_t *kernel);
int64_t ir_bytes_in_place(const Fn *f, uint32_t buf);  // that its kernel may make in what it reads; 0: none
// ir/passes/planning/certificate.c: planned programs, as docs/certificate.md has it; its digest
uint64_t ir_certificate(const Prog *const *programs, uint32_t n, RtText *out);
void ir_warn_checkpoints(Prog *p);  // checkpoint.c: W138, of those by which nothing is computed again
// checks the work of ir_plan_program_memory independently (ir/passes/planning/verify_plan.c)
bool ir_check_segments(Prog *p);
void ir_fill_const(const Prog *p, unsigned char *pool);  // the contents of SEG_CONST, const_bytes long
void ir_find_input_checks(Fn *f);                        // what the host checks: f->checks
// The operand of v whose numbers a run refuses unless they are in a range, and the range; false: v has none.
bool ir_index_range(const Fn *f, Val v, Val *source, InputCheck *c);
// Adds to f->size_checks; false: a size that only the run finds can be below 0
bool ir_find_size_checks(Fn *f);
// the first size that is negative for these; NULL: none
const SizeCheck *ir_negative_size(const Fn *f, const int64_t *slots);
bool ir_may_fault(const Fn *f, Val v);  // a number of v may be out of range, and only compiled code can see it
bool ir_takes_packed_readers(const Fn *f, Val v);  // packed rows: pointwise readers join their kernel
bool ir_same_attrs(const Fn *f, Val x, Val y);     // in the same order
bool ir_is_narrow_concat(const Fn *f, Val v);      // its operands' runs are shorter than a vector: a kernel of its own
// A concat of few columns, which a kernel of what makes them stores between each other: their elements have the order of its own.
enum { IR_MOST_COLUMNS = 8 };  // 56 shuffles for as many vectors
bool ir_is_interleaved(const Fn *f, Val v);
// Loads of vectors, and about as many stores, for one row of a concat; -1: runs of a size that the run says.
int64_t ir_concat_moves(const Fn *f, Val v, int64_t lanes);
enum { CONCAT_MOST_MOVES = 512 };                     // of straight-line code
bool ir_is_nested_concat(const Fn *f, Val u, Val v);  // v, a concat, reads u, a concat along an axis behind its own

// ---- split_shards.c
Val ir_find_shard_mean(const Fn *f);  // the first one; none: the function is not distributed

// ---- fuse_prologue.c
// By pointwise value: i64[2], the range of elements demanded of it; none: all. NULL: all of every value
const Val *ir_find_wanted(const Fn *f);
// The op moments at the end of a kernel of products; none: it has none.
Val ir_moments_of(const Fn *f, const Kernel *k);
// The permute behind a convolution and its epilogue, which stores what they make with channels first; none.
Val ir_first_of(const Fn *f, const Kernel *k);
// the end of its elementwise part: its end, or those moments
uint32_t ir_end_of_elements(const Fn *f, const Kernel *k);
Val ir_anchor(const Fn *f, const Kernel *k);  // the instruction that says how the kernel is emitted
const uint32_t *
ir_find_fused_producers(const Fn *f);  // by value: the product in whose kernel its operand v is made; 0: none
bool ir_is_cheap_op(Op op);            // cheap to rematerialise: takes no longer than a load
// v, made a row at a time in the kernel of a product of matrices, would leave most lanes idle: its rows are short and many.
bool ir_idles_lanes(const Fn *f, Val product, Val v);
Val ir_masked_of(const Fn *f, Val v);  // the value that mask v compares with a number; none: v is no mask

// ---- assign_buffers.c
// An output without code: its operand was computed into the caller's memory
bool ir_is_output_alias(const Fn *f, Val v);
// `to`, which the kernel makes, may lie where `from` lay, which it reads, if no later kernel does
bool ir_may_take_over(const Fn *f, uint32_t kernel, uint32_t from, uint32_t to);

// ---- row_fusion.c: what can be computed a row at a time
typedef struct {
  Shape shape;
  uint32_t axis;  // along which a row runs
} RowSpace;
bool ir_row_space(const Fn *f, Val v, RowSpace *out);  // v works on rows of operand 0
bool ir_same_rows(RowSpace a, RowSpace b);
// Elements of the rows, under their shape or, of rows along the last axis, another one: in the same order
bool ir_row_elements(const Fn *f, Shape s, RowSpace rows);
// Operand of elements under another shape: the same number for `length` elements, and anew after `period` runs (0: never).
// A run is a part of a row, or whole rows. False: it is none.
typedef struct {
  int64_t length, period;
} RowRun;
bool ir_row_run(const Fn *f, Shape from, Shape to, RowSpace rows, RowRun *out);
bool ir_row_passes(const Fn *f, Val view, RowSpace rows);  // a reshape of elements of the rows
bool ir_column_sum(const Fn *f, Val v, RowSpace *out);     // v sums all rows
// Rows along an axis before the last: an operand with a number for each place in a row, the same for all rows
bool ir_row_weight(const Fn *f, Shape from, RowSpace rows);
bool ir_row_member(const Fn *f, Val v, RowSpace rows);             // v makes elements or row scalars of these rows
bool ir_row_element(const Fn *f, Val v, uint32_t k);               // v, which works on rows, reads operand k by element
bool ir_row_reads(const Fn *f, Val v, uint32_t k, RowSpace rows);  // v reads operand k row by row
// Rows that lie side by side: elements behind the axis, by bounds
int64_t ir_row_side_by_side(const Prog *p, RowSpace rows);
// The row axis is not the last one, and interleaving the rows would cost more
bool ir_row_is_strided(const Prog *p, RowSpace rows);
bool ir_row_fits(const Prog *p, RowSpace rows);  // such rows are worth a kernel of several instructions

// ---- arena_guards.c
int64_t ir_guard_before(const Fn *f, uint32_t buf);  // bytes around the slot of a root buffer
int64_t ir_guard_behind(const Fn *f, uint32_t buf);
// Of a placed function; NULL: the program is not guarded
const RtGuardedArena *ir_guarded_arena(const Fn *f, RtArena *mem);

#endif
