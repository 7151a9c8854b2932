// SPDX-License-Identifier: Apache-2.0
// What must an op wait for? Every earlier op (or message) whose views overlap its own where one of
// the two writes. PlanBuilder records the answer, verify compares a plan with it.
//
// Per tensor an ordered map holds segments of rows, and each segment the accesses that still
// matter, as ranges of columns: a write drops the accesses it covers, since whoever conflicts with
// them later conflicts with the write too; a read by an op drops covered reads by earlier ops of
// its lane, which are done when it is done. Segments that a write covers become one. So an access
// meets few others, whatever the length of the plan.
//
// Left out is what the order within a lane implies:
//   - earlier compute ops and collectives of the same lane: the lane goes on when they are done;
//   - all but the latest of several compute ops and collectives of another lane;
//   - what an earlier op of the same lane waited for already. Of a message, only what an earlier
//     message of the same lane and direction waited for: an executor may start the receives of a
//     lane ahead of its sends.
// Messages complete on their own, so that a dependency on a message of an earlier exchange of the
// same lane stays.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "impls/plan.h"

namespace commfuse {

/// An op, or one message of it, must wait for `on`.
struct Requirement {
  MessageId message = kWholeOp;  // the message that waits; kWholeOp unless the op is an exchange
  Dependency on;
};

class DependencyFinder {
 public:
  explicit DependencyFinder(std::span<const Tensor> tensors);

  void add(const Tensor& tensor);
  /// The view holds values before the first op.
  void define(const View& view);
  /// The first piece of the view that no op so far has written and that was not defined before;
  /// nothing if there is none.
  [[nodiscard]] std::optional<View> undefined(const View& view) const;
  /// Requirements of op `id`, grouped by message in message order, each group sorted by (op,
  /// message). Call once for every op in order; views must lie inside their tensors. Valid until
  /// the next call.
  std::span<const Requirement> next(const Plan& plan, OpId id);

 private:
  struct Touch {
    std::int32_t col = 0;
    std::int32_t end = 0;
    Dependency by;
  };
  struct Segment {
    std::int32_t end = 0;  // one past its last row
    std::vector<Touch> writes;
    std::vector<Touch> reads;          // by compute ops and collectives
    std::vector<Touch> message_reads;  // never collapse; apart, so that reads need not walk them
  };
  using Rows = std::map<std::int32_t, Segment>;  // by first row
  struct Index {
    Rows rows;
    std::int32_t cols = 0;
  };
  using LaneOps = std::array<OpId, kLanes>;  // 1 + an op id per lane, 0 for none

  /// The first column of [col, end) that no write covers; `end` if there is none.
  static std::int32_t written_until(const Segment& segment, std::int32_t col, std::int32_t end);
  void access(const Plan& plan, const View& view, bool write, Dependency by);
  void read(const Plan& plan, Index& index, const View& rectangle, Dependency by);
  void write(Index& index, const View& rectangle, Dependency by);
  void collect(const std::vector<Touch>& touches, const Touch& touch);
  /// What is known to have happened when an op, or one message of it, has its turn.
  [[nodiscard]] LaneOps known(const Plan& plan, Lane lane, MessageId message) const;
  /// Moves the needed ones of conflicts_ to required_.
  void require(const Plan& plan, Lane lane, MessageId message);
  void remember(const Plan& plan, Lane lane);

  std::vector<Index> tensors_;
  /// [queue][other]: the latest op of lane `other` that a queue has waited for. A lane has a queue
  /// for receives and one for sends; compute ops and collectives stand in both.
  std::array<LaneOps, 2 * kLanes> waited_{};
  std::vector<std::uint8_t> waited_messages_;  // by message: one bit per queue that waited for it
  std::vector<Dependency> conflicts_;          // of the access at hand
  std::vector<Requirement> required_;
};

}  // namespace commfuse
