// A small network in C++17 from its bundle: which of three arms of a spiral a point lies on. Trains, then checks itself.
//
//   c++ -std=c++17 spiral.cpp spiral.o -o spiral
#include "spiral.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

constexpr int64_t BATCH = SPIRAL_BATCH_MAX, ARMS = 3, STEPS = 200;

struct Memory {  // state and arena of one network; two of them are two networks
  spiral_state state;
  SPIRAL_ALIGNED unsigned char arena[SPIRAL_ARENA_BYTES];
};

bool check(int status) {
  if (status) std::fprintf(stderr, "%s\n", spiral_error(status));
  return status == 0;
}

}  // namespace

int main() {
  std::vector<float> x(BATCH * 2);
  std::vector<int64_t> label(BATCH), arm(BATCH);
  for (int64_t k = 0; k < BATCH; k++) {
    double way = static_cast<double>(k / ARMS) / (BATCH / ARMS), angle = 4 * way + 2.0944 * static_cast<double>(k % ARMS);
    x[2 * k] = static_cast<float>(way * std::cos(angle));
    x[2 * k + 1] = static_cast<float>(way * std::sin(angle));
    label[k] = k % ARMS;
  }
  auto m = std::make_unique<Memory>();
  if (!check(spiral_init(&m->state, 1))) return 1;
  float loss = 0;
  const spiral_train_step_in in{BATCH, x.data(), label.data()};
  const spiral_train_step_out out{&loss};
  for (int64_t k = 0; k < STEPS; k++)
    if (!check(spiral_train_step(&m->state, m->arena, sizeof m->arena, &in, &out))) return 1;
  const spiral_predict_in points{BATCH, x.data()};
  const spiral_predict_out answer{arm.data()};
  if (!check(spiral_predict(&m->state, m->arena, sizeof m->arena, &points, &answer))) return 1;
  int64_t right = 0;
  for (int64_t k = 0; k < BATCH; k++) right += arm[k] == label[k];
  std::printf("loss %.4f, right %d of %d\n", static_cast<double>(loss), static_cast<int>(right), static_cast<int>(BATCH));
  return right < BATCH * 95 / 100;
}
