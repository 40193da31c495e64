// Rewrite rules (ir/passes/rewrites/rules.def) and the two ways in which passes apply them: simplify at each instruction that it
// has just copied, the others in place over the whole function.
#ifndef TN_IR_PASSES_REWRITES_RULES_H
#define TN_IR_PASSES_REWRITES_RULES_H

#include "ir/passes/passes.h"
#include "ir/rewrite.h"

#define RULE(pass, n, ...) RULE_##n,
typedef enum {
#include "ir/passes/rewrites/rules.def"
  N_RULES
} Rule;

typedef struct {
  Fn *f;
  Prog *p;
  uint64_t of_op[N_OPS];  // by op: bit set of the rules of this pass that begin there and are on
  const uint32_t *uses;   // by value, of passes that edit in place; else NULL
  uint32_t n_applied;     // number of applications
  uint32_t *table;        // CSE, of pass simplify: hash -> value; 0: free; else NULL
  uint32_t cap;
  uint32_t root;  // the value that rules are being applied to
  Val result[4];  // what its results become, where a rule sets the first; else those of what it returns
  bool *image;    // by value, up to n_image: it is made of images (rules_image.c)
  uint32_t n_image, image_cap;
  // of compose_maps: the last value that was asked about, whether it is read in parts alone, and n_applied while that holds
  uint32_t asked, holds_at;
  bool in_parts;
} Rules;

#define RULE(pass, n, ...) Val rule_##n(Rules *r, Val v);
#include "ir/passes/rewrites/rules.def"

Rules ir_rules_of(Fn *f, Pass pass);
// Applies rules to v, the last instruction: returns a value that equals it, or v, edited or not.
Val ir_apply_rules(Rules *r, Val v);
// Applies the rules of a pass that only edits in place to every instruction; removes what is dead afterwards.
void ir_apply_rules_in_place(Fn *f, Pass pass);

Val ir_eliminate_common(Rules *r, Val v);                // CSE: an earlier equal value, or v itself, now in the table
bool ir_is_number(const Fn *f, Val v, double *x);        // every element of v is the number *x
bool ir_is_scalar_number(const Fn *f, Val v, float *x);  // v is a `const`, as kernels read it: in f32
const Attr *ir_perm_of(const Fn *f, Val v);              // NULL: v is no permute
// The image [N, C, H, W] of which v is rows of windows that tile it, [N, H / kh, W / kw, C kh kw], of any number of spatial axes, and
// the sizes of a window; none
Val ir_tiled_image(const Fn *f, Val v, Dim *kernel);

// ---- rules_heads.c
// The parts side by side along the axis, if they are all parts of one gradient that attention makes; else none. Such a gradient
// is summed from +0 on: it is no -0, unless all of its products underflow.
Val ir_joint_gradient(Rules *r, const Val *part, uint32_t n, uint32_t axis, Shape shape, Loc loc);

// ---- rules_mirror.c
struct Conv;
// Turns a convolution of stride 1 around, whose image becomes its result; false: it is none, or cannot be
bool ir_mirror_conv(Prog *p, struct Conv *c);
// Its weight [C, O, kernel..] of [O, C, kernel..], likewise in each group
Val ir_mirrored_weight(Fn *f, Val weight, int64_t groups, Loc loc);
// The attributes that the three ops share; room for 5
uint32_t ir_conv_attrs(Prog *p, const struct Conv *c, Attr *to);

#endif
