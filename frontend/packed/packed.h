// Packed sequences, and lists of sequences.
#ifndef TN_FRONTEND_PACKED_PACKED_H
#define TN_FRONTEND_PACKED_PACKED_H

#include "frontend/graph/function.h"
#include "frontend/graph/spatial.h"
#include "frontend/tenure/conv.h"
#include "frontend/tenure/image.h"
#include "frontend/tenure/packed.h"

// ---- packed.c
static inline tn_packed fe_poisoned_packed(tn_function *f) { return (tn_packed){fe_poison(f), fe_poison(f)}; }
tn_packed fe_with_data(tn_packed s, tn_tensor data, tn_site at);  // data that nobody else has, in the layout of s
// A layout of constant lengths, of at most `time` steps; x: named in reports about them
tn_tensor fe_constant_layout(tn_tensor x, const int64_t *lengths, uint32_t n, int64_t time, const tn_pack_options *o);

tn_tensor fe_dense_layout(tn_function *f, Dim batch, Dim time, tn_site at);  // all sequences have `time` steps
// Was the storage of v written behind value `from`?
bool fe_written_since(tn_tensor v, uint32_t from);
// Of lengths that come at run time, of sequences of up to `time` steps and max_rows rows: its rows have a name of their own
tn_tensor fe_run_layout(tn_tensor lengths, Dim batch, Dim time, const tn_pack_options *o);
// Of constant lengths, which are not checked
tn_tensor fe_known_layout(tn_function *f, const int64_t *lengths, uint32_t n, bool allow_empty, tn_site at);
bool fe_check_padded(tn_tensor x, tn_site at);  // has it batch and time axes? false: reported
// An op of rows and a layout that moves elements of any dtype; poison in gives poison out
tn_tensor fe_move_rows(Op op, tn_tensor x, tn_tensor layout, const Attr *attrs, uint32_t n, tn_site at);
// x [B, T, ..] (else [T, B, ..]) packed by a layout of these lengths; an existing layout is reused
tn_packed fe_pack_by(tn_tensor x, tn_tensor lengths, const tn_pack_options *o);

// ---- layouts.c: layouts made of others. The same of the same gives the same layout, so that rows meet.
typedef enum {
  FE_CUT,      // min(max(length - a, 0), b)
  FE_WINDOWS,  // windows of a steps, moved by b; a below 1: the steps and 1 - a more; E115 where a sequence has none
  FE_HEADS,    // the steps before a position of the run, i64 [B]
  FE_TAILS,    // the steps from it on
  FE_JOINED    // the sequences of two layouts of one batch, one behind the other
} FeDerivation;
typedef struct FeDerived {
  FeDerivation how;
  uint32_t from, with;  // values: the layout; that of FE_JOINED, positions
  int64_t a, b;
  uint32_t layout;  // made of them; not given
} FeDerived;
tn_tensor fe_derived_layout(tn_tensor from, FeDerived d, tn_site at);
tn_tensor fe_windows_layout(tn_tensor from, const FeWindow *w, tn_site at);
// x [n] as [n, 1, ..] of a rank; poison stays poison
tn_tensor fe_as_column(tn_tensor x, uint32_t rank, tn_site at);
// x [B, ..] on every row of its sequence
tn_tensor fe_on_rows(tn_tensor layout, tn_tensor x, tn_site at);

// The lengths of a list of sequences, made of the sizes of their first axes.
typedef struct FeListSizes {
  const Dim *dims;
  uint32_t n;
  tn_tensor at;
} FeListSizes;
// ---- ragged.c: lists of sequences whose lengths come at run time
// The first n sequences of a padded value with these lengths i64 [B]
void fe_take_apart(tn_tensor padded, tn_tensor lengths, bool batch_first, tn_tensor *out, uint32_t n, tn_site at);
Dim fe_list_time(const tn_tensor *list, uint32_t n, tn_site at);
tn_tensor fe_pad_one(tn_tensor x, Dim time, double value, bool batch_first, tn_site at);
tn_tensor fe_list_lengths(const tn_tensor *list, uint32_t n, tn_site at);

// ---- along.c: data [rows, ..] of a layout in order along each sequence, and the steps, i64; false: reported
typedef struct {
  tn_tensor values, indices;
} FeSorted;
bool fe_sort_steps(tn_tensor data, tn_tensor layout, bool descending, FeSorted *out, tn_site at);

// ---- steps.c: windows over the rows of a layout, [rows of *own, taps, ..], `fill` outside of a sequence
tn_tensor fe_row_windows(tn_tensor x, tn_tensor layout, const FeWindow *w, tn_tensor *own, double fill, tn_site at);

// ---- pool.c: of x f32 [rows, C]; the result has the rows of its windows' layout
typedef struct {
  bool is_max;   // else an average
  double power;  // of sums of powers, (sum x^power)^(1/power); 0: none
} FeRowPool;
tn_tensor fe_pool_rows(tn_tensor x, FeRowPool how, int64_t kernel, tn_pool_options o);

// ---- conv.c: of data that has the rows of a packed layout; the result has those of its windows' layout
tn_tensor fe_convolve_rows(tn_tensor x, tn_tensor weight, tn_tensor bias, tn_conv_options o);

#endif
