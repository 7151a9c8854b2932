// SPDX-License-Identifier: Apache-2.0
// Measured times of ops as a compute model, which never guesses.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/sim/compute_model.h"
#include "harness/sim/op_key.h"

namespace commfuse {

struct OpCost {
  double ns = 0;           // median of its measurements
  std::int64_t count = 1;  // of measurements, over all ranks
  double spread = 0;       // their interquartile range over the median
  friend bool operator==(const OpCost&, const OpCost&) = default;
};

using OpCosts = std::map<OpKey, OpCost>;

/// How long an op takes is, in this order,
/// * the entry of its key;
/// * interpolated linearly in time between two entries that differ from its key, and from each
///   other, in one size alone, and there lie on both sides of it: the nearest on each. Where that
///   can be done in several sizes, in the one whose two entries are nearest to each other by their
///   ratio, and among equal ratios in the first of size_names();
/// * unknown: nothing is ever extrapolated.
/// It does not change once it is made, so several threads may ask.
class CostTable final : public ComputeModel {
 public:
  /// `name` is for messages: "costs.json".
  CostTable(std::string name, OpCosts costs) : name_(std::move(name)), costs_(std::move(costs)) {}

  [[nodiscard]] std::optional<double> find_ns(const OpKey& key) const;
  /// Throws UsageError naming the op where its time is unknown.
  [[nodiscard]] Picoseconds time(const Compute& op, std::span<const Tensor> tensors) const override;
  [[nodiscard]] bool is_partial() const override { return true; }
  void cover(const Plan& plan, OpCoverage& coverage) const override;
  [[nodiscard]] std::string refusal(const OpCoverage& coverage) const override;

  /// Of all gemms with an entry: FLOPs over time, at best; 0 without one.
  [[nodiscard]] double best_gemm_flops_per_second() const;

 private:
  std::string name_;
  OpCosts costs_;
};

}  // namespace commfuse
