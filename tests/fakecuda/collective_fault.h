// SPDX-License-Identifier: Apache-2.0
// Bugs in how collectives go over copy engines, as faults of the backend's calls. Of a plan whose
// only communication is one collective; which call is which is known by how many writes and waits
// of values its rank has made in the iteration.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "impls/plan.h"
#include "tests/fakecuda/call_fault.h"

namespace commfuse::fake {

enum class CollectiveBug : std::uint8_t {
  none,
  no_ready_wait,  // blocks leave before they are computed
  no_credit_wait,
  credit_wait_low,  // by one epoch
  no_credit_written,
  arrival_before_block,
  no_arrival_wait,
  arrival_wait_low,
  no_arrival_written,
  no_push_wait,  // what was sent is overwritten
  // all_reduce only: the same of the sum
  no_summed_wait,
  sum_arrival_before_sum,
  no_sum_arrival_wait,
  sum_arrival_wait_low,
  no_sum_arrival_written
};

class CollectiveFault final : public CallFault {
 public:
  CollectiveFault(CollectiveBug bug, CollectiveKind kind, std::int32_t ranks)
      : bug_(bug), others_(ranks - 1), rounds_(kind == CollectiveKind::all_reduce ? 3 : 2) {}

  /// Calls that went wrong.
  [[nodiscard]] std::int64_t hits() const { return hits_; }

  void at(const StreamCall& call, const Make& make) override;

 private:
  /// What the writes or waits of values of an iteration are for: so many of each, in this order.
  enum class Round : std::uint8_t { credit, arrival, sum_arrival };
  struct Rank {
    std::int32_t writes = 0;
    std::int32_t waits = 0;
    std::int32_t event_waits_after_all = 0;  // of events, since the last wait for a value
    std::vector<std::function<void()>> kept;
    StreamId kept_stream{};
  };

  [[nodiscard]] Round round_of(std::int32_t count) const;
  /// What a copy or a wait for an event is for: the round of the next write, nullopt after all.
  [[nodiscard]] std::optional<Round> pushing(const Rank& rank) const;
  [[nodiscard]] bool goes_wrong(const StreamCall& call, Rank& rank) const;
  void count(const StreamCall& call, Rank& rank) const;

  CollectiveBug bug_;
  std::int32_t others_;
  std::int32_t rounds_;
  std::map<std::int32_t, Rank> ranks_;
  std::int64_t hits_ = 0;
};

}  // namespace commfuse::fake
