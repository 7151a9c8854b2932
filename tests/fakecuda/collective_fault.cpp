// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/collective_fault.h"

#include <utility>

namespace commfuse::fake {
namespace {

using Kind = StreamCall::Kind;

bool is_low(CollectiveBug bug) {
  return bug == CollectiveBug::credit_wait_low || bug == CollectiveBug::arrival_wait_low ||
         bug == CollectiveBug::sum_arrival_wait_low;
}

bool comes_later(CollectiveBug bug) {
  return bug == CollectiveBug::arrival_before_block || bug == CollectiveBug::sum_arrival_before_sum;
}

}  // namespace

CollectiveFault::Round CollectiveFault::round_of(std::int32_t count) const {
  return static_cast<Round>(count % (rounds_ * others_) / others_);
}

std::optional<CollectiveFault::Round> CollectiveFault::pushing(const Rank& rank) const {
  if (rank.writes % (rounds_ * others_) == 0) return std::nullopt;
  return round_of(rank.writes);
}

void CollectiveFault::count(const StreamCall& call, Rank& rank) const {
  if (call.kind == Kind::write_value) ++rank.writes;
  if (call.kind == Kind::wait_value) {
    ++rank.waits;
    rank.event_waits_after_all = 0;
  }
  const bool after_all = rank.waits > 0 && rank.waits % (rounds_ * others_) == 0;
  if (call.kind == Kind::wait_event && after_all) ++rank.event_waits_after_all;
}

bool CollectiveFault::goes_wrong(const StreamCall& call, Rank& rank) const {
  const auto writes = [&](Round round) {
    return call.kind == Kind::write_value && round_of(rank.writes) == round;
  };
  const auto waits = [&](Round round) {
    return call.kind == Kind::wait_value && round_of(rank.waits) == round;
  };
  const auto pushes = [&](Kind kind, Round round) {
    return call.kind == kind && pushing(rank) == round;
  };
  switch (bug_) {
    case CollectiveBug::none:
      return false;
    case CollectiveBug::no_ready_wait:
      return pushes(Kind::wait_event, Round::arrival);
    case CollectiveBug::no_credit_wait:
    case CollectiveBug::credit_wait_low:
      return waits(Round::credit);
    case CollectiveBug::no_credit_written:
      return writes(Round::credit);
    case CollectiveBug::arrival_before_block:
      return pushes(Kind::copy, Round::arrival);
    case CollectiveBug::no_arrival_wait:
    case CollectiveBug::arrival_wait_low:
      return waits(Round::arrival);
    case CollectiveBug::no_arrival_written:
      return writes(Round::arrival);
    case CollectiveBug::no_push_wait:
      return call.kind == Kind::wait_event && !pushing(rank) && rank.waits > 0 &&
             rank.waits % (rounds_ * others_) == 0 && rank.event_waits_after_all < others_;
    case CollectiveBug::no_summed_wait:
      return pushes(Kind::wait_event, Round::sum_arrival);
    case CollectiveBug::sum_arrival_before_sum:
      return pushes(Kind::copy, Round::sum_arrival);
    case CollectiveBug::no_sum_arrival_wait:
    case CollectiveBug::sum_arrival_wait_low:
      return waits(Round::sum_arrival);
    case CollectiveBug::no_sum_arrival_written:
      return writes(Round::sum_arrival);
  }
  return false;
}

void CollectiveFault::at(const StreamCall& call, const Make& make) {
  Rank& rank = ranks_[call.rank];
  const bool wrong = goes_wrong(call, rank);
  count(call, rank);
  if (!wrong) {
    make(call);
    // A block that was overtaken by its arrival.
    const bool overtakes = call.kind == Kind::write_value && call.stream == rank.kept_stream;
    if (overtakes) {
      for (const auto& later : std::exchange(rank.kept, {})) later();
    }
    return;
  }
  ++hits_;
  if (comes_later(bug_)) {
    rank.kept_stream = call.stream;
    rank.kept.emplace_back([call, make] { make(call); });
  } else if (is_low(bug_)) {
    StreamCall low = call;
    --low.value;
    make(low);
  }
}

}  // namespace commfuse::fake
