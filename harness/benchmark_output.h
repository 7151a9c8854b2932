// SPDX-License-Identifier: Apache-2.0
// Google Benchmark as the presenter: every measured case is a registered benchmark with manual time
// whose repetitions are the samples already taken. It never decides how often ranks iterate.
#pragma once

#include <cstddef>
#include <span>

#include "harness/benchmark_request.h"
#include "harness/record/record.h"

namespace commfuse {

/// Throws UsageError if the output file exists or cannot be made, or if this build has no Google
/// Benchmark; called before anything is measured.
void check_benchmark_output(const BenchmarkRequest& request);
/// Shows the ok rows. Rows with no time (skipped, wrong, failed) are left out, since a stored 0
/// spoils every aggregate; their number is returned.
std::size_t present(const BenchmarkRequest& request, std::span<const Record> records);

}  // namespace commfuse
