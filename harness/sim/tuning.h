// SPDX-License-Identifier: Apache-2.0
// The search of commfuse-sim --tune: which schedules to try, and what to say of their records.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "suite/workload.h"

namespace commfuse {

/// Of a schedule that is faster than plain by less than this, the gain is not worth its complexity.
constexpr double kLeastGain = 0.01;

/// Every implementation with every setting that can cut the workload, as make_implementation takes
/// them: slices by tokens and features and parts of peer slices in powers of two up to
/// `most_parts`, both orders and all ways to accumulate. Settings that resolve to one schedule are
/// there once. The bounds are not among them.
std::vector<std::string> tuning_specs(const Workload& workload, std::int32_t most_parts = 32);

/// Records of one case, in the order of a ranking: the bounds, then schedules by time, then those
/// without a time. Equal times keep their order.
void rank_by_time(std::vector<Record>& records);

/// A sentence or two on such records: the fastest schedule with its gain over plain and its margin
/// to the bound, or that overlap does not pay, and why. Empty where no schedule has a time.
std::string tuning_verdict(std::span<const Record> records);

}  // namespace commfuse
