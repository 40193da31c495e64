// How a product or a convolution is computed, and why, in words (product.h).
#include "codegen/conv/depthwise.h"
#include "codegen/conv/planes.h"
#include "codegen/conv/winograd.h"
#include "codegen/product/product.h"
#include "ir/passes/plan.h"

static void product_reason(const Fn *f, Val v, const Target *t, RtText *out) {
  GemmPlan p = cg_gemm_plan(f, v, t);
  WinogradPlan w;
  rt_text_add(out, "%s: %s", p.strategy->name, p.strategy->doc);
  if (!p.is_conv || cg_is_channels_first(f, v)) return;
  cg_winograd_plan(f, v, t, &w);
  rt_text_add(out, "; ");
  cg_winograd_reason(&w, out);
}

static void weight_reason(const Fn *f, Val v, const Target *t, RtText *out) {
  WinogradPlan w;
  if (cg_is_channels_first(f, v)) {
    rt_text_add(out, "planes: sums over pixels, by vectors along the last axis");
    return;
  }
  if (cg_conv_weight_is_depthwise(f, v, t)) {
    rt_text_add(out, "depthwise: sums over pixels, by vectors of channels");
    return;
  }
  bool winograd = cg_winograd_weight_plan(f, v, t, &w);
  rt_text_add(out, "%s; ", winograd ? "winograd: sums over tiles" : "conv: sums over pixels");
  cg_winograd_reason(&w, out);
}

void cg_gemm_reason(const Fn *f, const Kernel *k, const Target *t, RtText *out) {
  if (k->cls == CLASS_GEMM) product_reason(f, ir_anchor(f, k), t, out);
  if (k->cls == CLASS_CONV_WEIGHT) weight_reason(f, ir_anchor(f, k), t, out);
}
