// SPDX-License-Identifier: Apache-2.0
// What identifies the rows of a table in words, and how little of it has to be said in every row.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/record.h"

namespace commfuse {

/// Records that differ in nothing but implementation and controls, in the order of their first one.
struct RowGroup {
  std::string heading;  // the facts that set it apart from other groups; may be empty
  std::vector<const Record*> rows;
  std::vector<std::string> controls_differ;  // "clock (wall, replayed)"
};

/// Facts of all records, then groups. Records must outlive it.
struct RowIdentity {
  std::vector<std::string> constant;  // "workload tpsp/gemm_rs", "2 ranks", ...
  std::vector<RowGroup> groups;
};

/// A preset's name stands for its sizes: only what differs between records of one model is listed.
RowIdentity identify(std::span<const Record> records);

/// Parameters in words that agree in all records of an implementation move from the rows to one
/// line above, unless a row would then have the name of one without parameters.
class ImplementationNames {
 public:
  explicit ImplementationNames(std::span<const Record> records);

  /// "commfuse:m=4": the implementation with its numbers and the words that vary.
  [[nodiscard]] std::string brief(std::string_view impl) const;
  /// "commfuse: order=ring, accumulate=epilogue", one an implementation.
  [[nodiscard]] std::vector<std::string> constant_parameters() const;

 private:
  [[nodiscard]] bool is_constant(std::string_view base, std::string_view parameter) const;

  std::map<std::string, std::vector<std::string>, std::less<>> constant_;  // by implementation
};

}  // namespace commfuse
