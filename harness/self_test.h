// SPDX-License-Identifier: Apache-2.0
// --selftest: which cases it runs, and what it says about them. It is a selection, run as any other
// with --check-only.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/backend.h"
#include "harness/case.h"
#include "harness/options.h"
#include "harness/record/record.h"

namespace commfuse {

/// Every implementation of the table with every combination of its values that it accepts; counts
/// of parts are 1 and 3.
std::vector<std::string> every_implementation_variant();

/// These implementations on small shapes of every workload in every dtype. Sizes are multiples of
/// `ranks`, so that what is skipped is skipped for the shape's sake. Backend, transport, link and
/// mode are those of `options`.
std::vector<CaseGroup> self_test_cases(const Options& options, std::int32_t ranks, bool one_node);

/// Counts outcomes and puts them into words; on the rank that has the records.
class SelfTestReport {
 public:
  /// "tpsp/mlp even 24 tokens fp32, 2 ranks: 16 ok", and a line for every case that is wrong.
  std::string group(const std::string& title, std::span<const Record> records);
  /// "nccl: ok, ..."; a part that failed counts among what is wrong.
  std::string part(const SelfTestPart& part);
  /// "selftest: 432 cases ok, 96 skipped (96: needs ...), 0 wrong"
  [[nodiscard]] std::string summary() const;
  /// Of the session: wrong before skipped.
  [[nodiscard]] int exit_code() const;

 private:
  std::int64_t ok_ = 0, skipped_ = 0, wrong_ = 0;
  std::map<std::string, std::int64_t> reasons_;
};

}  // namespace commfuse
