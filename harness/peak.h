// SPDX-License-Identifier: Apache-2.0
// The peak that shares of peak refer to. It is never without its name.
#pragma once

#include <string>

#include "harness/backend.h"
#include "harness/options.h"
#include "harness/world/world.h"
#include "suite/tensor.h"

namespace commfuse {

struct Peak {
  std::string name;
  double flops_per_second = 0;  // of one rank; 0: not known
};

/// Collective: the device of all ranks, with the largest number of ranks that share one. Without a
/// name where they have different ones.
RankDevice agreed_device(World& world, const RankDevice& own);

/// What the user gave; else the dense peak of the device's datasheet for this dtype, divided among
/// the ranks that share the device; else the measured one.
Peak reference_peak(const Options& options, const RankDevice& device, DType dtype,
                    const Peak& measured);

}  // namespace commfuse
