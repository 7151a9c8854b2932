// SPDX-License-Identifier: Apache-2.0
// The numbers of one run: what every rank starts with, and what the oracle expects at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suite/oracle.h"
#include "suite/workload.h"
#include "tests/conformance/reference_executor.h"
#include "tests/conformance/reference_memory.h"

namespace commfuse {

class CaseData {
 public:
  CaseData(const Workload& workload, Portion portion, const Source& source);

  /// Poisons everything, then writes the initial data of every rank.
  void load(ReferenceMemory& memory) const;
  /// Whether results must be equal bit for bit; otherwise they must lie within the oracle's bound.
  [[nodiscard]] bool exact() const { return exact_; }
  /// The first element that is not as expected: rank, view, element, both values and the op that
  /// wrote it last in the latest run of `executor`; nullopt if there is none.
  [[nodiscard]] std::optional<std::string> first_mismatch(const ReferenceMemory& memory,
                                                          const ReferenceExecutor& executor) const;

 private:
  struct Input {
    std::int32_t rank = 0;
    View view;
    std::vector<double> packed;
  };
  struct Output {
    std::int32_t rank = 0;
    View view;
    std::vector<ExpectedRow> rows;  // packed rows of the view
  };
  [[nodiscard]] std::optional<std::string> mismatch_in_row(const Output& output, std::size_t row,
                                                           const ReferenceMemory& memory,
                                                           const ReferenceExecutor& executor) const;

  bool exact_ = false;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace commfuse
