// Tenure for C++17: owners that free what they hold, and lists in braces. Everything of tenure.h works beside it.
//
//   tenure::program p(tn_program_create("mlp"));
//   tn_dim B = tn_dim_bounded(p, "batch", 32);
//   tn_module *fc = tn_linear(tn_root(p), "fc", 8, 3);
//   tn_function *f = tn_function_begin(p, "predict");
//   tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 8)), y;
//   {
//     tenure::scope forward(f, "forward");
//     y = tn_move_to_outer(tn_concat(1, {tn_call(fc, x), tn_neg(tn_call(fc, x))}));
//   }                                                    // the scope ends here, and with it all but y
//   tn_output(f, "y", y);
//   tn_function_end(f);
//   tenure::model m(tn_compile(p));
//   tn_run(m, "predict", {tn_f32(xs, 5, 8)}, {tn_f32(ys, 5, 6)});
//
// Options are values: tn_linear(net, "fc", 8, 3, {.no_bias = true}) in C++20, and in C++17
//
//   tn_linear(net, "fc", 8, 3, tenure::with<tn_linear_options>([](auto &o) { o.no_bias = true; }));
#ifndef TENURE_HPP
#define TENURE_HPP

#include "tenure.h"

#include <initializer_list>
#include <utility>

namespace tenure {

// Holds one object and frees it; converts to the handle that calls take.
template <class T, void (*Free)(T *)>
class owner {
 public:
  owner() = default;
  explicit owner(T *held) : held_(held) {}
  owner(owner &&other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  owner &operator=(owner &&other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  owner(const owner &) = delete;
  owner &operator=(const owner &) = delete;
  ~owner() { Free(held_); }
  operator T *() const { return held_; }
  T *release() { return std::exchange(held_, nullptr); }

 private:
  T *held_ = nullptr;
};

using program = owner<tn_program, tn_program_free>;
using model = owner<tn_model, tn_model_free>;  // outlives its program, or not
using dataset = owner<tn_dataset, tn_dataset_free>;
using loader = owner<tn_loader, tn_loader_free>;
using series = owner<tn_series, tn_series_free>;
using vocabulary = owner<tn_vocabulary, tn_vocabulary_free>;

// Open from here to the end of the block. Diagnostics name the place of its beginning for both.
class scope {
 public:
  scope(tn_function *f, const char *name, const char *file = __builtin_FILE(), int line = __builtin_LINE())
      : at_{file, line}, open_((tn_scope_begin)(f, name, at_)) {}
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;
  ~scope() { (tn_scope_end)(open_, at_); }
  operator tn_scope *() const { return open_; }

 private:
  tn_site at_;
  tn_scope *open_;
};

// Options with some fields set
template <class Options, class Set>
Options with(Set set) {
  Options o{};
  set(o);
  return o;
}

}  // namespace tenure

// ---- calls that take a list. The names are in parentheses: the call-site macros do not apply to definitions.
inline uint32_t tn_count(size_t n) { return static_cast<uint32_t>(n); }

inline tn_tensor(tn_concat)(int axis, std::initializer_list<tn_tensor> list, tn_site at) {
  return (tn_concat)(axis, list.begin(), tn_count(list.size()), at);
}
inline tn_tensor(tn_permute)(tn_tensor a, std::initializer_list<int> perm, tn_site at) {
  return (tn_permute)(a, perm.begin(), tn_count(perm.size()), at);
}
inline tn_tensor(tn_sum_axes)(tn_tensor a, bool keepdim, std::initializer_list<int> axes, tn_site at) {
  return (tn_sum_axes)(a, keepdim, axes.begin(), tn_count(axes.size()), at);
}
inline tn_tensor(tn_mean_axes)(tn_tensor a, bool keepdim, std::initializer_list<int> axes, tn_site at) {
  return (tn_mean_axes)(a, keepdim, axes.begin(), tn_count(axes.size()), at);
}
inline tn_tensor(tn_amax_axes)(tn_tensor a, bool keepdim, std::initializer_list<int> axes, tn_site at) {
  return (tn_amax_axes)(a, keepdim, axes.begin(), tn_count(axes.size()), at);
}
inline void(tn_scope_dispose_but)(tn_scope *s, std::initializer_list<tn_tensor> keep, tn_site at) {
  (tn_scope_dispose_but)(s, keep.begin(), tn_count(keep.size()), at);
}
inline tn_tensor(tn_constant)(tn_function *f, std::initializer_list<float> v, tn_shape s, tn_site at) {
  return (tn_constant)(f, v.begin(), s, at);
}
inline tn_status tn_run(tn_model *m, const char *function, std::initializer_list<tn_array> in,
                        std::initializer_list<tn_array> out) {
  return tn_run(m, function, in.begin(), in.size(), out.begin(), out.size());
}
inline tn_status tn_run_batch(tn_model *m, const char *function, tn_batch b, std::initializer_list<tn_array> out) {
  return tn_run_batch(m, function, b, out.begin(), out.size());
}

#endif
