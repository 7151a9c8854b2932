// SPDX-License-Identifier: Apache-2.0
// Which of the ops that PlanBuilder has put off must be appended before an op.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "impls/plan.h"

namespace commfuse {

/// Asked from the last deferred op to the first: what touches the same views, what that depends on
/// in its turn, and all that its lane has before it.
class DueBefore {
 public:
  void follows_on(Lane lane) { lanes_[index_of(lane)] = true; }
  void touches(std::span<const Access> views) {
    touched_.insert(touched_.end(), views.begin(), views.end());
  }

  /// Of an op on `lane` that touches these views.
  [[nodiscard]] bool includes(Lane lane, std::span<const Access> views) const {
    return lanes_[index_of(lane)] ||
           std::ranges::any_of(views, [this](const Access& access) { return meets(access); });
  }

 private:
  [[nodiscard]] bool meets(const Access& access) const {
    return std::ranges::any_of(touched_, [&](const Access& other) {
      return (access.write || other.write) && overlap(access.view, other.view);
    });
  }

  std::vector<Access> touched_;
  std::array<bool, kLanes> lanes_{};
};

}  // namespace commfuse
