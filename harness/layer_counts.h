// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "harness/record/case_metrics.h"
#include "suite/workload.h"

namespace commfuse {

/// Tokens, FLOPs by convention and the model of a workload that is a whole layer; nothing for
/// another.
std::optional<LayerCounts> layer_counts_of(const Workload& workload);

}  // namespace commfuse
