// What `tenure explain`, `diff` and `report` share: a program read from .tir text, planned as tn_compile plans it, and
// the way back from each value of the plan to the value of the file that it stands for.
//
// Passes renumber values. A value of the file is known by its printed name there (%41), a value of the plan by the name
// that `tenure opt FILE --passes=all --facts` prints (%66). ToolFn holds both and the map between them.
#ifndef TN_TOOL_H
#define TN_TOOL_H

#include "ir/ir.h"
#include "tools/cli.h"

// ---- a value of the file, before any pass
typedef struct {
  const char *name;     // as printed, with its %
  const char *made_by;  // the operation; with it the path of a parameter, the name of an output
  uint16_t op;
  uint8_t dtype;
  Shape shape;
  Loc loc;
  uint32_t scope;       // that it was made in
  uint32_t owner;       // at the end: a scope, or NO_SCOPE when detached
  Loc moved, disposed;  // the last move or attach, and the dispose; 0: none
  uint32_t now;         // the same value in the plan; 0: none
  uint32_t served_by;   // the value of the plan that its readers read instead; 0: none
  const char *gone_in;  // the pass that removed it; NULL: none
  bool is_needed;       // some output, write or gradient depends on it
} FileVal;

typedef struct {
  const Fn *f;
  FileVal *file;  // by value of the file
  uint32_t n_file;
  const char **name;  // by value of the plan
  uint32_t *from;     // by value: the value of the file; 0: made by a pass
  bool *is_backward;  // by value: made by pass grad: gradients, and what they need of the forward's values
  bool *is_gradient;  // by value: a gradient, or computed from one
  const char **text;  // as written, then after each pass; n_texts 0: not kept, or the function is too large
  uint32_t n_texts, cap_texts;
  uint32_t *reader_at;  // by value: readers[reader_at[v] .. reader_at[v + 1]) read it; views are readers too
  Val *readers;
} ToolFn;

typedef struct {
  Prog *p;
  const char *path;
  ToolFn *fns;  // by function of the program
  uint32_t n_fns;
  bool keeps_texts, recomputes, is_quiet;  // quiet: no diagnostics
  int64_t arena_limit;
  const char *limited;  // the function that the limit is of; NULL: all
  const char *text;     // as read
  size_t n_text;
} ToolPlan;

// ---- tools/plan.c
char *tool_read_file(RtArena *mem, const char *path, size_t *n);  // NULL: errno says why; - is standard input
// *t: zeros, or as tool_plan_limits left it: options --arena-limit, --recompute. False: stderr says why.
bool tool_plan_limits(ToolPlan *t, const CliArgs *a);
bool tool_plan_read(ToolPlan *t, RtArena *mem, const char *path);
bool tool_plan_read_texts(ToolPlan *t, RtArena *mem, const char *path);  // and the text of functions after each pass
bool tool_plan_text(ToolPlan *t, RtArena *mem, const char *text, size_t n, const char *path);
bool tool_plan_quietly(ToolPlan *t, RtArena *mem, const char *text, const char *path);  // says nothing
uint32_t tool_find_file(const ToolFn *f, const char *name);  // with or without its %; 0: none
uint32_t tool_find_planned(const ToolFn *f, const char *name);

// ---- tools/facts.c: questions about one value, buffer or kernel
typedef enum { BUF_ACTIVATION, BUF_SAVED, BUF_GRADIENT, BUF_SUM, BUF_SCRATCH, N_BUF_KINDS } BufKind;
extern const char *const tool_buf_kind[N_BUF_KINDS];  // "activation", ..
extern const char *const tool_seg_name[N_SEGMENTS];
const char *tool_fn_name(const ToolFn *f);
const char *tool_op_name(const ToolFn *f, Val v);                       // of the instruction that makes v
const char *tool_loc(const Prog *p, RtArena *mem, Loc l);               // file:line in module; "an unknown line"
const char *tool_scope(const ToolFn *f, RtArena *mem, uint32_t scope);  // scope 'forward'; the function; no scope
Loc tool_scope_end(const ToolFn *f, uint32_t scope);
BufKind tool_kind(const ToolFn *f, uint32_t buf);
const char *tool_buf_name(const ToolFn *f, RtArena *mem, uint32_t buf);  // %12; scratch of %12
uint32_t tool_taker(const ToolFn *f, uint32_t buf);  // the buffer that takes its slot over in place; 0: none
// The last instruction that reads v, itself or through views (not views themselves); 0: none.
Val tool_last_read(const ToolFn *f, Val v);
// The last instruction that reads the buffer, through any of its values; 0: none.
Val tool_last_use(const ToolFn *f, uint32_t buf);
// What the buffer is saved for: the gradient in the kernel that reads it last; 0: a gradient itself, or no backward reads it.
Val tool_saved_for(const ToolFn *f, uint32_t buf);
// `, after its owner, scope 'x', closed at a.c:3`; nothing where the function owns it.
const char *tool_outlives(const ToolFn *f, RtArena *mem, Val v);
// Why the buffer lives as long as it does, as one sentence.
const char *tool_keeps(const ToolFn *f, RtArena *mem, uint32_t buf);

// What is live at the kernel where most is, by buffer. padding: to TN_ALIGN; holes: what the placement leaves unused
// there. sum of bytes + padding + holes == stats.peak_bytes.
typedef struct {
  uint32_t buf;
  int64_t bytes;       // 0 where its slot is counted with the buffer that takes it over
  uint32_t same_slot;  // that buffer; 0: none
} PeakRow;
typedef struct {
  uint32_t kernel;
  PeakRow *rows;  // largest first
  uint32_t n_rows;
  int64_t bytes, padding, holes;
  int64_t *live;  // by kernel: aligned live bytes
} Peak;
Peak tool_peak(const ToolFn *f, RtArena *mem);

typedef struct {
  int64_t read, written;  // bytes by the bounds of dims
} Traffic;
Traffic tool_traffic(const ToolFn *f, RtArena *mem, uint32_t kernel);
const char *tool_kernel_ops(const ToolFn *f, RtArena *mem, uint32_t kernel);    // mul, add x 3
const char *tool_kernel_lines(const ToolFn *f, RtArena *mem, uint32_t kernel);  // a.c:3, 7; b.c:1 in h.0.mlp

// ---- tools/peak_parts.c: its sums by kind, module and line
typedef enum { BY_KIND, BY_MODULE, BY_LINE, N_PART_BYS } PartBy;
extern const char *const tool_part_by[N_PART_BYS];  // "kind", ..
#define TOOL_NO_MODULE "outside of modules"
typedef struct {
  const char *label;
  int64_t bytes;
  int64_t at_most;  // by which less would live at once if none of this part did
} Part;
typedef struct {
  Part *list;  // largest first
  uint32_t n;
} Parts;
const char *tool_part_label(const ToolFn *f, RtArena *mem, PartBy by, uint32_t buf);
// The bytes of each sum, peak->padding and peak->holes are the arena.
void tool_find_parts(const ToolFn *f, RtArena *mem, const Peak *peak, Parts out[N_PART_BYS]);
int64_t tool_part_bytes(const Parts *parts, const char *label);  // 0: there is none

// ---- tools/ways.c: what lowers the peak, each planned as the program would be
typedef struct {
  const char *name;   // 8 shards
  const char *write;  // what to write for it
  int64_t *arena;     // by function of the program: with its update where it is distributed
  Parts (*parts)[N_PART_BYS];
} PeakWay;
typedef struct {
  PeakWay *list;  // what changes least about a run first
  uint32_t n, cap;
  const char *why_none;  // NULL: some were planned
} PeakWays;
PeakWays tool_find_ways(const ToolPlan *t, RtArena *mem);
double tool_again_part(const Fn *f);  // estimated time of kernels that run again, as a part of that of the others

// ---- tools/peak.c: the peak of the arena and the `most` largest values that stand there
void tool_put_peak(const ToolFn *f, uint32_t most, RtText *out);
void tool_put_modules(const ToolFn *f, uint32_t most, RtText *out);  // its sum by module; nothing where none is named
bool tool_names_modules(const Parts *modules);
void tool_put_parts(const ToolPlan *t, uint32_t index, const PeakWays *ways, RtText *out);  // all sums, and the ways
// The member "peak" of an object; f is function `index` of the program that the ways are of. NULL: without ways
void tool_json_peak(const ToolFn *f, uint32_t most, uint32_t index, const PeakWays *ways, RtText *out);

// ---- tools/vary.c: the program with one thing changed, as text
bool tool_is_set_by_layout(const Prog *p, Dim d);  // rows of a layout: its bound follows from others
// p is the program of the text, as printed with locations
const char *tool_with_bound(const Prog *p, const char *text, RtArena *mem, Dim dim, int64_t bound);
// As tn_distributed cuts the batch `dim`, in all functions that take gradients and have it; NULL: there is none
const char *tool_with_shards(const char *text, RtArena *mem, const char *dim, uint32_t n);
uint32_t tool_n_shards(const Prog *p, Dim dim);  // that `dim` is cut into; 1: it is not

const char *tool_bytes(RtArena *mem, int64_t n);        // 4.7 MiB
const char *tool_exact_bytes(RtArena *mem, int64_t n);  // 4,962,304 B
const char *tool_grouped(RtArena *mem, int64_t n);      // 4,962,304
const char *tool_short_bytes(RtArena *mem, int64_t n);  // 512 KiB

// ---- what commands share
int tool_explain_id(const CliArgs *a, const char *word);                   // tools/explain_id.c
bool tool_are_passes(const CliArgs *a, const char *list, bool has_rules);  // tools/opt.c; false: said which is none
Fn *tool_function(const Prog *p, const char *path, const char *name);      // tools/run.c; NULL: said why
// In a file; NULL and -: on standard output. False: said why
bool tool_put_file(const char *path, const RtText *text);
bool tool_put(const RtText *text);       // tools/plan.c: on standard output; false: said why
int tool_fit_lengths(const CliArgs *a);  // tools/fit_lengths.c: tenure fit --lengths
// Runs `work` with an arena that is freed after it; out of memory ends it with a message.
int tool_with_arena(int (*work)(RtArena *mem, void *ctx), void *ctx);

// ---- tools/kernels.c
// The line of a source file, without what it is indented by; NULL: there is no such file here
const char *tool_source_line(RtArena *mem, const char *file, uint32_t line);
// Of a kernel: LLVM IR or assembly; "": it has no code; NULL: said why
const char *tool_kernel_code(const ToolPlan *t, const ToolFn *f, RtArena *mem, uint32_t kernel, bool as_assembly);

// ---- report parts
void tool_report_text(const ToolPlan *t, RtText *out);  // tools/report_text.c
void tool_report_json(const ToolPlan *t, RtText *out);
void tool_explain_value(const ToolPlan *t, const ToolFn *f, Val v, uint32_t from, RtText *out);
void tool_html(RtText *out, const char *s);  // escaped for text and quoted attributes
void tool_json(RtText *out, const char *s);  // a quoted string that is safe inside <script>
void tool_map(const ToolFn *f, uint32_t index, const Peak *peak, RtText *out);  // tools/report_map.c
// tools/report_treemap.c
void tool_treemap(const ToolFn *f, uint32_t index, const Peak *peak, const PeakWays *ways, RtText *out);
void tool_segments(const ToolFn *f, uint32_t index, RtText *out);                  // tools/report_map.c
void tool_tables(const ToolFn *f, uint32_t index, const Peak *peak, RtText *out);  // tools/report_tables.c
void tool_passes_card(const ToolFn *f, uint32_t index, RtText *out);               // tools/report_passes.c
void tool_passes_data(const ToolPlan *t, RtText *out);                             // tools/report_passes.c
void tool_code_card(const ToolFn *f, uint32_t index, RtText *out);                 // tools/report_code.c
bool tool_code_data(const ToolPlan *t, RtText *out);                               // false: said why
void tool_data(const ToolFn *f, const Peak *peak, RtText *out);                    // tools/report_data.c

#endif
