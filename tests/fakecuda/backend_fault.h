// SPDX-License-Identifier: Apache-2.0
// The bugs of the backend's bug table, as faults of its calls. Which call is which, a fault learns
// from a right iteration: streams that copy push, those that run kernels compute, and a counter
// that a pushing stream writes says that a block has arrived, any other one that a place is free.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/fakecuda/call_fault.h"

namespace commfuse::fake {

enum class CallBug : std::uint8_t {
  none,
  no_event_wait,         // a block leaves without waiting for its gemm
  event_recorded_early,  // before the kernel that it stands for
  event_waited_early,    // before it is recorded
  block_overwritten,     // without waiting until it was sent, or received
  // over copy engines
  flag_before_copy,
  no_flag_wait,
  flag_wait_low,  // by one epoch
  no_credit_wait,
  credit_wait_low,
  credit_before_read,
  epochs_restarted,
  no_credit_written,
  flag_in_wrong_slot,
  // over NCCL
  ungrouped,
  unequal_counts,      // rank 0
  exchanges_reversed,  // rank 0: two of one stream
  lanes_reversed,      // rank 0: two of different streams
  freed_registered     // memory is not deregistered before it is freed
};

class BackendFault final : public CallFault {
 public:
  explicit BackendFault(CallBug bug) : bug_(bug) {}

  /// On each rank: calls are watched from the first on, and go wrong from the second on. Between
  /// them lies one whole iteration of a run of its own.
  void learn();
  void start();
  /// Calls that went wrong.
  [[nodiscard]] std::int64_t hits() const { return hits_; }

  void at(const StreamCall& call, const Make& make) override;
  bool ungrouped() override;
  std::size_t count_of(std::size_t count) override;
  bool stays_registered() override;

 private:
  enum class Phase : std::uint8_t { before, learning, wrong };
  struct Kept {
    StreamCall call;
    Make make;
  };
  /// Of one rank: calls that are to be made later.
  struct Rank {
    Phase phase = Phase::before;
    std::vector<Kept> kept;
  };

  Rank& rank() { return ranks_[Machine::current_rank()]; }
  void watch(const StreamCall& call);
  void go_wrong(const StreamCall& call, const Make& make);
  void change_value(const StreamCall& call, const Make& make);
  void reverse_exchanges(const StreamCall& call, const Make& make);
  void make_kept();
  void overtake(bool kept, bool overtakes, const StreamCall& call, const Make& make);
  void leave_out(bool leaves_out, const StreamCall& call, const Make& make);

  [[nodiscard]] bool sends(StreamId stream) const { return sending_.contains(stream); }
  [[nodiscard]] bool computes(StreamId stream) const { return computing_.contains(stream); }
  /// Whether the call waits for an event whose record is kept.
  [[nodiscard]] bool awaits_kept(const StreamCall& call);
  [[nodiscard]] bool feeds_a_sender(EventId event) const;
  [[nodiscard]] bool is_flag(const StreamCall& call, StreamCall::Kind kind) const;
  [[nodiscard]] bool is_credit(const StreamCall& call, StreamCall::Kind kind) const;

  CallBug bug_;
  std::map<std::int32_t, Rank> ranks_;
  std::set<StreamId> sending_;  // that copy, or run NCCL's operations
  std::set<StreamId> computing_;
  std::set<StreamId> crediting_;  // that write credits
  std::set<std::pair<StreamId, EventId>> event_waits_;
  std::set<const std::byte*> flags_;
  std::set<const std::byte*> credits_;
  std::int64_t hits_ = 0;
};

}  // namespace commfuse::fake
