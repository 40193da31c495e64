// A node of the tree of modules: what reports name, and what module/ calls.
#ifndef TN_FRONTEND_GRAPH_MODULE_H
#define TN_FRONTEND_GRAPH_MODULE_H

#include "frontend/graph/param.h"
#include "frontend/tenure/hook.h"

typedef struct FeConv FeConv;                // module/conv.c
typedef struct FeImageModule FeImageModule;  // module/image.c
typedef tn_tensor FeForward(tn_module *m, tn_tensor x, tn_site at);

typedef enum {
  MOD_PLAIN,
  MOD_LINEAR,
  MOD_RNN,
  MOD_RNN_CELL,
  MOD_EMBEDDING,
  MOD_DROPOUT,
  MOD_ACTIVATION,
  MOD_ATTENTION,
  MOD_SEQUENTIAL,
  MOD_LAYER_NORM,
  MOD_RMS_NORM,
  MOD_KV_CACHE,
  MOD_SLOTS,
  MOD_SLOT_CACHE,
  MOD_BUILT_IN,  // its forward is config.forward
  MOD_OWN        // of the user
} FeModuleKind;

// All options of a module, whatever its kind: tn_share_module copies them as a whole. What belongs to one path of a
// module (names, hooks, where it was called) stands in tn_module.
typedef struct {
  bool has_bias, is_reshapable;
  Op op;  // ACTIVATION, with its numbers
  Attr attrs[4];
  uint32_t n_attrs;
  double rate;  // DROPOUT, ATTENTION, RNN between layers
  double eps;   // norms; LAYER_NORM, RMS_NORM over the last n_axes
  uint32_t n_axes;
  int64_t in, in_b, out;
  FeForward *forward;          // BUILT_IN
  const char *built_in;        // what tn_summary calls it
  int axis, last_axis;         // that it works along, or joins
  tn_shape sizes;              // that an axis becomes
  double bounds[2];            // of drawn slopes
  bool is_list;                // PLAIN, with children by number
  bool norm_first;             // of a transformer's layer
  const FeConv *conv;          // of a convolution; NULL: it is none
  const FeImageModule *image;  // of a module of images
  // EMBEDDING
  bool has_padding;
  int64_t padding;
  double max_norm;  // 0: none
  // norms of channels: of which, in how many groups, running statistics
  int64_t n_groups;
  bool has_running, is_cumulative;
  double momentum;
  // RNN
  const char *cell;
  uint32_t n_gates, n_layers, n_directions;
  int64_t proj;      // 0: none
  bool batch_first;  // of dense input
  // ATTENTION
  uint32_t n_heads;
  bool is_causal, has_own_sizes;  // of keys or values: a matrix for each of the three
  int64_t key_size, value_size;
  bool has_bias_kv, has_zero_kv;  // of attention: bias_k and bias_v; add_zero_attn
  tn_module *slots;               // SLOT_CACHE: whose; SLOTS: `in` of them, of `out` steps
  // OWN
  const tn_module_class *class;
  void *self;
} FeModuleConfig;

struct tn_module {
  tn_program *p;
  tn_module *parent, *first, *last, *next;  // children in order of creation
  const char *name, *path;                  // path "" for the root
  Loc loc, trained;                         // by an optimizer of its own; 0: not
  FeModuleKind kind;
  bool poisoned;
  FeEntry *entries;
  uint32_t n_entries, cap_entries;
  FeModuleConfig config;
  // arguments of the running call beside its input, as the module's forward reads them; NULL: none
  const void *arguments;
  FeHooks hooks;  // its own ones, of all kinds, in the order in which they fire
  tn_hook *running;
  Loc called, forwarded;  // last call with hooks; first call without; 0: none
  Loc checkpoint;         // what its calls compute is computed again for the backward; 0: it is kept
  bool is_checkpoint_used;
  uint32_t n_running;  // MOD_OWN: running calls of its forward function
  bool reported_unused;
};

// Until the end of the block, reports name m as the module that runs, and what is made is part of its checkpoint
typedef struct {
  tn_program *p;
  const tn_module *around;
  uint32_t checkpoint;
} FeInside;
FeInside fe_enter(tn_module *m);             // module/checkpoint.c
FeInside fe_enter_checkpoint(tn_module *m);  // the latter alone
static inline void fe_leave(const FeInside *i) { i->p->inside = i->around, i->p->checkpoint = i->checkpoint; }
#define FE_INSIDE(m) __attribute__((cleanup(fe_leave))) FeInside inside = fe_enter(m)
#define FE_IN_CHECKPOINT(m) __attribute__((cleanup(fe_leave))) FeInside inside = fe_enter_checkpoint(m)

#endif
