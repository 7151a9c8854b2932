// SPDX-License-Identifier: Apache-2.0
// Workloads small enough to read their plans.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "impls/implementation.h"

namespace commfuse {

/// `rows` rows of every slice: tokens, or output features where data parallelism cuts those. Of
/// data parallelism 6 tokens per rank; of others hidden 8, and per rank 6 ffn columns and one head
/// of 4 columns.
Workload small_workload(std::string_view name, std::int32_t ranks, std::int32_t rows);

/// The plans of all ranks; fails the test if the workload cannot be cut.
std::vector<Plan> plans_of(std::string_view implementation, const Workload& workload);

/// The plan of one rank in the words of explain_text, after a line break.
std::string plan_text(std::string_view implementation, const Workload& workload, std::int32_t rank);

/// Every implementation with every kind of parameter.
const std::vector<std::string_view>& every_implementation();

}  // namespace commfuse
