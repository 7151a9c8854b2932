// SPDX-License-Identifier: Apache-2.0
// One collective in a plan by hand, run by an executor of a backend, on whatever world and
// transport a test has: what every kind must move and add, known without the oracle.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "impls/plan.h"
#include "tests/conformance/executor_cases.h"

namespace commfuse {

struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::all_to_all;
  DType dtype = DType::f32;
  Lane lane = Lane::scatter;
  CollectiveVia via = CollectiveVia::standard;
  std::int32_t rows = 0;  // of an all-reduce: other than equal blocks of all ranks have
};

/// "all_reduce in bf16 on the gather lane, default", for messages.
std::string describe(const CollectiveCase& what);

/// The workload and a rank's plan of it, which all tests of such a case run: compute, the
/// collective, compute.
Workload workload_of(const CollectiveCase& what, std::int32_t ranks);
Plan plan_of(const CollectiveCase& what, const Workload& workload, std::int32_t rank);

/// Runs the collective between compute ops: an iteration, then three more from fresh storage. Each
/// iteration sends something else, and what all of them received is added up and compared, exactly.
/// Collective; the first mismatch on this rank, empty if there is none.
std::string run_collective(World& world, const CollectiveCase& what,
                           const MakeExecutor& make_executor,
                           Iterations iterations = Iterations::back_to_back);

/// An all-reduce of values whose sum depends on the order of its terms. Collective; what is wrong:
/// a sum that is too far off, or other bits on another rank. Empty if nothing is.
std::string run_inexact_all_reduce(World& world, DType dtype, const MakeExecutor& make_executor,
                                   CollectiveVia via = CollectiveVia::standard);

}  // namespace commfuse
