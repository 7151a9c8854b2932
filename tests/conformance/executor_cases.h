// SPDX-License-Identifier: Apache-2.0
// Plans of real workloads run by an executor of a backend and compared with the oracle, on whatever
// world and transport a test has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "harness/executor.h"
#include "harness/world/world.h"
#include "suite/workload.h"
#include "tests/conformance/conformance_cases.h"

namespace commfuse {

/// Collective over the world.
using MakeExecutor = std::function<std::unique_ptr<Executor>(World& world, const Workload&)>;

/// Which spans of an iteration must have times.
enum class Stamped : std::uint8_t { all, compute_lane };

/// The workload of a shape on so many ranks.
Workload workload_of(const ShapeCase& shape, std::int32_t ranks, DType dtype);

/// Makes a prepared plan's storage what `rank` holds before the first stage, and NaN elsewhere.
void load_inputs(Executor& executor, PlanHandle plan, const Workload& workload, std::int32_t rank,
                 Portion portion);
/// The first output that differs from the oracle's, after a run from such storage; empty if none
/// does.
std::string first_mismatch(Executor& executor, PlanHandle plan, const Workload& workload,
                           std::int32_t rank, Portion portion);

/// The iterations of a plan: an isolated one, then three back to back; or three isolated ones, of
/// other inputs each, for executors that replay.
enum class Iterations : std::uint8_t { back_to_back, one_by_one };

struct ExecutorExpectations {
  Stamped stamped = Stamped::all;
  Iterations iterations = Iterations::back_to_back;
};

/// Runs the shape under these implementations: each plan, then the same without communication, each
/// from poisoned storage but the last, which goes on with what the iterations before left.
/// Collective; returns the first mismatch on this rank, empty if there is none, and adds the number
/// of comparisons to `compared`.
std::string run_implementations(World& world, const ShapeCase& shape, DType dtype,
                                std::span<const std::string> specs,
                                const MakeExecutor& make_executor,
                                const ExecutorExpectations& expectations, int& compared);

/// Runs the shape under every implementation that can cut it.
std::string run_all_implementations(World& world, const ShapeCase& shape, DType dtype,
                                    const MakeExecutor& make_executor,
                                    const ExecutorExpectations& expectations, int& compared);

}  // namespace commfuse
