// A small network in C++17: which of three arms of a spiral a point lies on. Trains, then checks itself.
//
//   c++ -std=c++17 -I. mlp.cpp -ltenure     (installed: #include <tenure.hpp>)
#include "frontend/tenure.hpp"
#include <cmath>
#include <cstdio>
#include <vector>

namespace {

constexpr int64_t BATCH = 300, ARMS = 3, STEPS = 200;

struct Points {
  std::vector<float> x = std::vector<float>(BATCH * 2);
  std::vector<int64_t> label = std::vector<int64_t>(BATCH);
};

Points spiral() {
  Points p;
  for (int64_t k = 0; k < BATCH; k++) {
    double way = static_cast<double>(k / ARMS) / (BATCH / ARMS), angle = 4 * way + 2.0944 * (k % ARMS);
    p.x[2 * k] = static_cast<float>(way * std::cos(angle));
    p.x[2 * k + 1] = static_cast<float>(way * std::sin(angle));
    p.label[k] = k % ARMS;
  }
  return p;
}

tn_module *make_net(tn_program *p) {
  tn_module *net = tn_sequential(tn_root(p), "net");
  tn_linear(net, "0", 2, 48);
  tn_activation(net, "1", "tanh");
  tn_linear(net, "2", 48, 48);
  tn_activation(net, "3", "tanh");
  tn_linear(net, "4", 48, ARMS, tenure::with<tn_linear_options>([](auto &o) { o.no_bias = true; }));
  return net;
}

// Loss and share of right answers; with `trains` a step of AdamW too.
void build(tn_program *p, tn_module *net, const char *name, bool trains) {
  tn_function *f = tn_function_begin(p, name);
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 2)), label = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_tensor loss, right;
  {
    tenure::scope forward(f, "forward");
    tn_tensor logits = tn_call(net, x);
    loss = tn_move_to_outer(tn_cross_entropy(logits, label));
    tn_tensor hit = tn_cast(tn_eq(tn_argmax_axis(logits, -1, false), label), TN_F32);
    right = tn_move_to_outer(tn_mean_axes(hit, false, {0}));
  }
  tn_output(f, "result", tn_concat(0, {tn_reshape(loss, TN_SHAPE(1)), tn_reshape(right, TN_SHAPE(1))}));
  if (trains) {
    tn_backward(loss);
    tn_adamw(f, net, tenure::with<tn_adamw_options>([](auto &o) { o.lr = 1e-2; }));
  }
  tn_function_end(f);
}

}  // namespace

int main() {
  tenure::program p(tn_program_create("mlp"));
  tn_module *net = make_net(p);
  build(p, net, "train", true);
  build(p, net, "test", false);
  tenure::model m(tn_compile(p, tenure::with<tn_compile_options>([](auto &o) { o.seed = 7; })));
  if (!m) return 1;
  Points points = spiral();
  float result[2] = {};
  tn_status s = TN_OK;
  for (int step = 0; step < STEPS && s == TN_OK; step++)
    s = tn_run(m, "train", {tn_f32(points.x.data(), BATCH, 2), tn_i64(points.label.data(), BATCH)}, {tn_f32(result, 2)});
  if (s == TN_OK)
    s = tn_run(m, "test", TN_IN(tn_f32(points.x.data(), BATCH, 2), tn_i64(points.label.data(), BATCH)),
               TN_OUT(tn_f32(result, 2)));
  if (s != TN_OK) return std::fprintf(stderr, "%s\n", tn_error_text(m)), 1;
  std::printf("loss %.4f, right %.1f %%\n", static_cast<double>(result[0]), 100 * static_cast<double>(result[1]));
  return result[1] < 0.9F;
}
