// SPDX-License-Identifier: Apache-2.0
// A backward pass, then the optimizer's step on cut states (ZeRO-1): gradients are cut over ranks
// as in dp_zero2, every rank steps its share, and the updated weights are gathered.
#include "suite/workloads/dp.h"
#include "suite/workloads/dp_gradients.h"
#include "suite/workloads/dp_layers.h"

namespace commfuse {

std::string dp_zero1_unsupported(const Shape& shape, std::int32_t ranks) {
  return dp_unsupported(shape, ranks);
}

Workload dp_zero1(const Shape& shape, std::int32_t ranks) {
  return gradients("dp/zero1", shape, ranks, GradientSum::stepped);
}

}  // namespace commfuse
