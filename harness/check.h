// SPDX-License-Identifier: Apache-2.0
// Whether a plan computes the right thing: poison everything, load known inputs, run one iteration,
// compare with the oracle.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "harness/executor.h"
#include "harness/record/record.h"
#include "harness/world/watchdog.h"
#include "harness/world/world.h"
#include "suite/oracle.h"
#include "suite/workload.h"

namespace commfuse {

/// Loads the fills that are weights, or those that are not.
void load_weights(Executor& executor, PlanHandle plan, const Workload& workload, const World& group,
                  const Source& source);
void load_inputs(Executor& executor, PlanHandle plan, const Workload& workload, Portion portion,
                 const World& group, const Source& source);

/// What is compared of each output: every row where that is cheap, else sampled rows and, where the
/// output is one gemm, Freivalds' check of all of it.
class Checker {
 public:
  /// Weights of `source` must be loaded already; they are part of the answer. Each output is a
  /// phase of its own, since the oracle may take long for one and says nothing meanwhile.
  Checker(const Workload& workload, const Source& source, Watchdog& watchdog);

  /// Collective over the group; the report counts all of its ranks and is the same on each.
  CheckReport check(Executor& executor, PlanHandle plan, Portion portion, Mode mode,
                    World& group) const;

 private:
  struct Tally;
  /// What an output should hold; all plans of a portion are compared with the same.
  struct Expectation {
    bool exact = false;
    std::vector<std::int32_t> rows;     // of the output's tensor
    std::vector<ExpectedRow> expected;  // of those
    std::vector<double> factors;        // of the projection
    std::optional<ExpectedRow> projection;
  };
  [[nodiscard]] const Expectation& expectation(Portion portion, const View& output,
                                               std::int32_t rank) const;
  void compare_rows(Executor& executor, PlanHandle plan, const View& output,
                    const Expectation& expectation, std::int32_t rank, Tally& tally) const;
  void compare_projection(Executor& executor, PlanHandle plan, const View& output,
                          const Expectation& expectation, std::int32_t rank, Tally& tally) const;
  [[nodiscard]] std::vector<std::int32_t> rows_to_compare(const View& output,
                                                          std::int32_t rank) const;

  const Workload& workload_;
  Source source_;
  Watchdog& watchdog_;
  Oracle oracle_;
  bool whole_;  // small enough to compare everything
  mutable std::map<std::pair<Portion, TensorId>, Expectation> expectations_;  // of this rank
};

}  // namespace commfuse
