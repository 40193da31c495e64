// What the generator knows: the rows of ir/*.def as text, and one function for each file that it writes.
#ifndef TENURE_GEN_H
#define TENURE_GEN_H

#include <stdbool.h>
#include <stdio.h>

enum { MAX_OPERANDS = 3 };

typedef struct {
  const char *name, *doc;
  bool is_pointwise;
  int n_operands, n_results;                            // n_operands: of pointwise rows
  const char *forward, *grad[MAX_OPERANDS];             // pointwise: expressions, as the row has them
  const char *operands, *grad_rule, *op_class, *flags;  // of the others; operands: by name, optional ones in brackets
  const char *rows;                                     // of the others: what they do along packed rows
} OpRow;
typedef struct {
  const char *name, *kind;
} AttrRow;
typedef struct {
  const char *op, *key, *presence, *range;
} TakesRow;
typedef struct {
  const char *name, *needs, *gives, *on, *doc;
} PassRow;
typedef struct {
  int number;
  const char *severity, *name, *doc;
} DiagRow;

// Rows in the order of their tables; each ends with a row of zeros.
extern const OpRow gen_ops[];
extern const AttrRow gen_attrs[];
extern const TakesRow gen_takes[];
extern const PassRow gen_passes[];
extern const DiagRow gen_diags[];

const char *gen_kind(const char *key);   // of an attribute: "NUM", "FLAG", ..
bool gen_has_call(const OpRow *op);      // its public call is made from the row
bool gen_has_in_place(const OpRow *op);  // so is tn_NAME_: operand 0 is what is written

// Writers: false after saying on stderr what is wrong.
bool gen_calls_header(FILE *out);                                // calls.c: tenure_ops.h
bool gen_calls(FILE *out);                                       // calls.c: pointwise_calls.h
bool gen_call_list(FILE *out);                                   // calls.c: pointwise_list.h
bool gen_sites(FILE *out, char *const *headers, int n_headers);  // sites.c: tenure_site.h
bool gen_put_cases(FILE *out, const char *source_dir);           // cases.c: a part of docs/ops.md
bool gen_put_optimizers(FILE *out, const char *source_dir);      // optimizers.c: docs/optimizers.md
bool gen_region(FILE *out, const char *name);                    // pages.c: a generated part of another page
bool gen_explain_pages(FILE *out, const char *source_dir);       // diags.c: explain_pages.h
bool gen_diag_programs(FILE *out, const char *source_dir);       // diags.c: diagnostic_programs.h
// diags.c: docs/diagnostics/E103.md, and the page with its first line written again
void gen_diag_path(char *path, size_t size, const char *source_dir, const DiagRow *d);
bool gen_put_diag_page(FILE *out, const DiagRow *d, const char *old);
// pages.c: the pages of a source tree; `check`: nothing is written, stale ones are named and fail
bool gen_pages(const char *source_dir, bool check);

char *gen_read(const char *path);  // malloc; NULL: said why

#endif
