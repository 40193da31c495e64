// A scan runs another function of the program, its body, once for each step of a sequence
//
//   operands: [layout] slices.. first values of carries.. captures..     body inputs:  slices, carries, captures
//   results:  stacked outputs.. last values of carries..                 body outputs: next carries, outputs
#ifndef TN_IR_SCAN_H
#define TN_IR_SCAN_H

#include "ir/ir.h"

typedef struct {
  Fn *body;
  Val head;
  uint32_t n_slices, n_carries, n_captures, n_stacks;
  uint32_t first;  // operand of slice 0: 1 behind a layout, else 0
  bool reverse;
  Dim live;   // packed: the rows of a step, as the body names them; else none
  Dim steps;  // dense: the number of steps; else none
} Scan;
extern const char ir_layout_in_scan[];  // the fault of a body that makes or reads a layout, for calls and text
Scan ir_scan_at(const Fn *f, Val v);    // v: an instruction `scan` that the verifier knows
Val *ir_scan_inputs(const Scan *s);     // the body's `input` records by position; absent ones are 0
Val *ir_scan_outputs(const Scan *s);    // the body's `output` records by position
bool ir_scan_has_rows(const Scan *s, Shape inner);  // packed, and begins with the rows of the step
// May values of that shape in each step be stacked over all steps? In a packed scan ({live}; none: dense)
// only the first axis may have the rows of the step, a size that does not exist outside.
bool ir_scan_stacks(const Prog *p, Shape inner, Dim live);
Dim ir_scan_steps(const Fn *f, Val v);                       // packed: the time axis of the layout
bool ir_scan_is_row(const Scan *s, uint32_t carry);          // packed: a row for each sequence; else one value for all
Val ir_scan_carry_input(const Scan *s, uint32_t carry);      // none: 0
int64_t ir_scan_carry_bytes(const Scan *s, uint32_t carry);  // of one of its two slots, rounded to TN_ALIGN
int64_t ir_scratch_at(const Fn *f, Val v);    // what the kernel of v needs for it while it runs, a multiple of TN_ALIGN
int64_t ir_scan_scratch(const Fn *f, Val v);  // both slots of all carries, then the body's arena

// A function, or the body of a scan of another one
typedef struct BodySite {
  const Fn *f;
  const struct BodySite *outer;  // of a body: where its scan is; NULL: f is no body
  Scan scan;
} BodySite;
BodySite ir_body_site(const BodySite *outer, Val scan);
Val ir_body_given(const BodySite *at, uint32_t input);  // what the scan gives its body, a value of the function outside

#endif
