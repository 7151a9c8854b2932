// SPDX-License-Identifier: Apache-2.0
// A step of Adam as its kernel sees it. Plain C++.
#pragma once

#include <string>

#include "harness/cuda/device_view.h"
#include "suite/compute.h"

namespace commfuse {

/// The views of a step, of one packed shape. The copy has no data where there is none.
struct AdamViews {
  DeviceView new_w, new_m, new_v;
  DeviceView w, m, v, g;
  DeviceView copy;
};
AdamViews adam_views(const Adam& op, const DeviceStorage& storage);

/// Why there is no kernel for these dtypes: weights and moments are fp32, and the gradient is so
/// too, or of the copy's dtype. Empty if there is one.
std::string unsupported_adam(const Adam& op, const DeviceStorage& storage);

}  // namespace commfuse
