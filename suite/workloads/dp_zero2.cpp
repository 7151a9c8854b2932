// SPDX-License-Identifier: Apache-2.0
// Backward of linear layers, gradients cut over ranks (ZeRO-2, FSDP): a reduce-scatter for each
// weight, under the gradients of the maps before it.
#include "suite/workloads/dp.h"
#include "suite/workloads/dp_gradients.h"
#include "suite/workloads/dp_layers.h"

namespace commfuse {

std::string dp_zero2_unsupported(const Shape& shape, std::int32_t ranks) {
  return dp_unsupported(shape, ranks);
}

Workload dp_zero2(const Shape& shape, std::int32_t ranks) {
  return gradients("dp/zero2", shape, ranks, GradientSum::cut);
}

}  // namespace commfuse
