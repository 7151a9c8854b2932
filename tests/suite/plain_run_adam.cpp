// SPDX-License-Identifier: Apache-2.0
// A step of Adam in plain order, in fp32.
#include <cmath>

#include "suite/adam_factors.h"
#include "tests/suite/plain_run.h"

namespace commfuse {

void PlainRun::apply(const Adam& op) {
  for (std::int64_t i = 0; i < op.new_w.total_rows(); ++i) {
    for (std::int32_t j = 0; j < op.new_w.cols; ++j) {
      const float g = at(op.g, i, j).value;
      const float m = kAdamBeta1F * at(op.m, i, j).value + kAdamRest1F * g;
      const float v = kAdamBeta2F * std::abs(at(op.v, i, j).value) + kAdamRest2F * (g * g);
      const float divisor = std::sqrt(v * kAdamUnbiasedF) + kAdamEpsilonF;
      const float w = kAdamKeptF * at(op.w, i, j).value - kAdamStepSizeF * (m / divisor);
      const auto put = [&](const View& view, float value) {
        store(at(view, i, j), view.tensor, value, std::abs(value));
      };
      put(op.new_w, w);
      put(op.new_m, m);
      put(op.new_v, v);
      if (op.copy) put(*op.copy, w);
    }
  }
}

}  // namespace commfuse
