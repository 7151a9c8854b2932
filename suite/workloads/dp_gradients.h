// SPDX-License-Identifier: Apache-2.0
// The backward pass of data parallelism: from the last linear map to the first, the gradient of its
// input (which is that of the output of the map before) and the gradient of its weight, which is
// summed over the ranks together with those in its bucket (dp_buckets.h).
#pragma once

#include <cstdint>
#include <string>

#include "suite/workload.h"

namespace commfuse {

/// Where the sum of a weight's gradient goes: rows of it to each rank, or all of it to all; or rows
/// of it to each rank, which steps its share of the weights with them when all gradients have been
/// computed (dp_optimizer.h), so that the partial of an own slice has all that is left of the
/// backward pass to travel.
enum class GradientSum : std::uint8_t { cut, everywhere, stepped };

/// Where the weights that input gradients need come from: every rank holds them, or they are cut
/// over ranks by their rows and gathered. Those gathers need nothing of what is computed and have
/// buffers of their own, so nothing but the order of their lane holds them back. Where weights are
/// gathered, the gradient of a weight is computed before that of its input, so that the first
/// gather has compute beside it as well.
enum class WeightsFrom : std::uint8_t { held, gathered };

/// Requires dp_unsupported() to be empty.
Workload gradients(std::string name, const Shape& shape, std::int32_t ranks, GradientSum sum,
                   WeightsFrom weights = WeightsFrom::held);

}  // namespace commfuse
