// SPDX-License-Identifier: Apache-2.0
// The backward pass of data parallelism: from the last linear map to the first, the gradient of its
// input (which is that of the output of the map before), then the gradient of its weight, which is
// summed over the ranks. One bucket for each weight.
#pragma once

#include <cstdint>
#include <string>

#include "suite/workload.h"

namespace commfuse {

/// Where the sum of a weight's gradient goes: rows of it to each rank, or all of it to all.
enum class GradientSum : std::uint8_t { cut, everywhere };

/// Requires dp_unsupported() to be empty.
Workload gradients(std::string name, const Shape& shape, std::int32_t ranks, GradientSum sum);

}  // namespace commfuse
