// SPDX-License-Identifier: Apache-2.0
// Which of the ops that PlanBuilder has put off must be appended before an op.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "impls/plan.h"

namespace commfuse {

/// Asked from the last deferred op to the first: what touches the same views, what that depends on
/// in its turn, and all that its lane has before it.
class DueBefore {
 public:
  void reads(const View& view) { touched_.push_back({view, false}); }
  void writes(const View& view) { touched_.push_back({view, true}); }
  void follows_on(Lane lane) { lanes_[index_of(lane)] = true; }
  void add(const Compute& op) {
    for (const View& view : commfuse::writes(op)) writes(view);
    for (const View& view : commfuse::reads(op)) reads(view);
  }
  void add(const PlanBuilder::Transfers& group) {
    follows_on(group.lane);
    for (const PlanBuilder::Transfer& transfer : group.transfers) {
      transfer.send ? reads(transfer.view) : writes(transfer.view);
    }
  }

  [[nodiscard]] bool includes(const Compute& op) const {
    const auto touch = [this](const std::vector<View>& views, bool write) {
      return std::ranges::any_of(views, [&](const View& view) { return touches(view, write); });
    };
    return touch(commfuse::writes(op), true) || touch(commfuse::reads(op), false);
  }
  [[nodiscard]] bool includes(const PlanBuilder::Transfers& group) const {
    return lanes_[index_of(group.lane)] ||
           std::ranges::any_of(group.transfers, [&](const PlanBuilder::Transfer& transfer) {
             return touches(transfer.view, !transfer.send);
           });
  }

 private:
  [[nodiscard]] bool touches(const View& view, bool write) const {
    return std::ranges::any_of(touched_, [&](const Access& access) {
      return (write || access.write) && overlap(view, access.view);
    });
  }

  std::vector<Access> touched_;
  std::array<bool, kLanes> lanes_{};
};

}  // namespace commfuse
