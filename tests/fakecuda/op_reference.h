// SPDX-License-Identifier: Apache-2.0
// Compute ops in float64 by their definitions, with a bound for what fp32 sums and one rounding may
// add.
#pragma once

#include <vector>

#include "suite/compute.h"
#include "tests/fakecuda/device_tensors.h"

namespace commfuse::fake {

/// What an element should be and how far off it may be.
struct Expected {
  double value = 0;
  double bound = 0;
};

/// Of the packed form of what the op writes, from the host's values before it runs.
std::vector<Expected> reference(const Compute& op, const DeviceTensors& tensors);

}  // namespace commfuse::fake
