// SPDX-License-Identifier: Apache-2.0
// Backward of linear layers, gradients whole on every rank (DDP): an all-reduce for each weight,
// under the gradients of the maps before it.
#include "suite/workloads/dp.h"
#include "suite/workloads/dp_gradients.h"
#include "suite/workloads/dp_layers.h"

namespace commfuse {

std::string dp_ddp_unsupported(const Shape& shape, std::int32_t ranks) {
  return dp_unsupported(shape, ranks);
}

Workload dp_ddp(const Shape& shape, std::int32_t ranks) {
  return gradients("dp/ddp", shape, ranks, GradientSum::everywhere);
}

}  // namespace commfuse
