// Which values hold rows of a packed batch, and what operations may do with them.
#ifndef TN_FRONTEND_GRAPH_PACKED_ROWS_H
#define TN_FRONTEND_GRAPH_PACKED_ROWS_H

#include "frontend/graph/function.h"
#include "frontend/tenure/packed.h"

// fe_join for packed sequences; in each the second handle is a layout and the first has its rows
bool fe_join_packed(const tn_packed *s, uint32_t n, tn_function **f, tn_site at);
// Are the lengths the same? false: reported, as a mistake of tn_`what`
bool fe_same_layout(tn_packed a, tn_packed b, const char *what, tn_site at);
static inline Rows fe_rows(tn_tensor t) { return fe_ok(t) ? ir_rows_at(&t.fn->rows, fe_val(t)) : (Rows){0}; }
uint32_t fe_rows_of(tn_tensor t);  // the layout whose rows the first axis of t is; 0: of none
// x where it is known whose rows it has, though it was not computed of those; of none: these are just rows
tn_tensor fe_say_rows(tn_tensor x, Rows r, tn_site at);
// Before an operation is made: E111 where rows of two layouts meet; false: reported. Of an op by axis E130, too
bool fe_rows_meet(RowsEffect *e, tn_function *f, const RowsCall *c, tn_site at);
// For its results from y on: E130 if sequences would be mixed; false: reported
bool fe_rows_follow(const RowsEffect *e, tn_function *f, const RowsCall *c, Val y, tn_site at);
// Before tn_`call` writes `content` to t, which then holds rows if the content does; false: reported
bool fe_rows_written(tn_tensor t, tn_tensor content, const char *call, tn_site at);
// Does the axis run along one sequence? false: it holds packed rows, reported as a mistake of the call
bool fe_steps_apart(tn_tensor t, uint32_t axis, const char *call, tn_site at);
// A table of a layout, i64: "steps" and "sequences" [rows], "lengths" [B], ..
tn_tensor fe_layout_part(tn_tensor layout, const char *part, tn_site at);
// i64 [rows]: the step of each row of x, whose first axis has the rows of a layout
tn_tensor fe_row_steps(tn_tensor x, tn_site at);
bool fe_same_rows(const char *what, tn_tensor a, tn_tensor b, tn_site at);

// ---- ledger.c: fe_made of a packed sequence
#define fe_made_packed(...) fe_made_packed_by(__func__, __VA_ARGS__)
tn_packed fe_made_packed_by(const char *call, tn_packed s, bool sorted, tn_site at);

// ---- sequence_means.c
// The mean of each sequence of x [rows, ..] over all of its elements, [B]: the sum over that of counts [rows], or where
// there are none (fn NULL) over their number
tn_tensor fe_means_of_sequences(tn_tensor x, tn_tensor counts, tn_site at);

#endif
