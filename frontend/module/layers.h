// Layers.
#ifndef TN_FRONTEND_MODULE_LAYERS_H
#define TN_FRONTEND_MODULE_LAYERS_H

#include "frontend/graph/function.h"
#include "frontend/graph/module.h"

// ---- layers.c
tn_module *fe_built_in(tn_module *parent, const char *name, const char *kind, FeForward *forward, tn_site at);
bool fe_check_sizes(tn_module *m, int64_t a, int64_t b, tn_site at);  // in [1, 2^30]; false: reported, m poisoned
tn_tensor fe_linear(tn_tensor x, tn_tensor w, tn_tensor b, bool has_bias, tn_site at);
tn_tensor fe_linear_forward(tn_module *m, tn_tensor x, tn_site at);

// ---- forward.c
tn_tensor fe_forward(tn_module *m, tn_tensor x, tn_site at);  // without the module's own hooks

// ---- norm.c
tn_tensor fe_norm(tn_module *m, tn_tensor x, tn_site at);  // of a layer or RMS norm
// Over the last n_axes, without weight and bias
tn_tensor fe_normalize(tn_module *m, tn_tensor x, uint32_t n_axes, tn_site at);
bool fe_check_eps(tn_program *p, const char *name, double eps, tn_site at);  // false: reported

// ---- embedding.c
tn_tensor fe_embed(tn_module *m, tn_tensor index, tn_site at);

#endif
