// SPDX-License-Identifier: Apache-2.0
// The obvious answer: every workload computed in float64 in one process from the global tensors,
// written independently of the stages. Slow on purpose; at real sizes it answers for sampled rows,
// and Freivalds' check covers whole gemm outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "suite/workload.h"

namespace commfuse {

/// What an output row should hold. The bound is absolute per element: |got - value| <= bound; 0
/// where Oracle::exact() holds (then equality, bit for bit after rounding to the dtype).
struct ExpectedRow {
  std::vector<double> value;
  std::vector<double> bound;
};

class Oracle {
 public:
  /// Throws std::logic_error where the workload has no answers for one of its outputs.
  Oracle(const Workload& workload, const Source& source);
  ~Oracle();
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;

  /// Freivalds' check: element i of the answer is (row i of the whole output) . x, for an output
  /// that is one gemm of the inputs; `output` has all columns, and x one number for each. Empty
  /// where the output has no such form, as where its rows were received from several ranks. Covers
  /// every element of the output. x holds integers of random sign, drawn independently of the data
  /// and below 2^16, so that products with exact data are exact and the errors of other data
  /// average out as the bound assumes.
  [[nodiscard]] std::optional<ExpectedRow> projection(Portion portion, std::int32_t rank,
                                                      const View& output,
                                                      std::span<const double> x) const;
  /// Whether an output is compared for equality on this source: what moves without being computed
  /// wherever the data are exact, what is computed where the workload keeps it exact too.
  [[nodiscard]] bool exact(Portion portion, const View& output) const;
  /// Whether every output is.
  [[nodiscard]] bool exact(Portion portion) const;
  /// Rows of `output` (one of required_outputs(workload, portion)), given as row numbers within the
  /// local tensor of `rank`. One call with many rows is much cheaper than many calls with one.
  [[nodiscard]] std::vector<ExpectedRow> rows(Portion portion, std::int32_t rank,
                                              const View& output,
                                              std::span<const std::int32_t> rows) const;

 private:
  struct Problem;
  std::unique_ptr<const Problem> problem_;
};

}  // namespace commfuse
