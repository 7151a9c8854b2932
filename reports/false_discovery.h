// SPDX-License-Identifier: Apache-2.0
// Many tests at once: Benjamini and Hochberg 1995.
#pragma once

#include <span>
#include <vector>

namespace commfuse {

/// For each probability the smallest rate of false discoveries at which it counts as one, given all
/// of them: p of place k among n sorted ones times n / k, and no more than that of the next larger.
/// In the order of the input.
std::vector<double> false_discovery_rates(std::span<const double> probabilities);

}  // namespace commfuse
