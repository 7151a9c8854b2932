// SPDX-License-Identifier: Apache-2.0
// The messages of one plan over copy engines.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/cuda/block_copy.h"
#include "harness/cuda/ce_collective.h"
#include "harness/cuda/ce_layout.h"
#include "harness/cuda/ce_protocol.h"
#include "harness/cuda/ce_streams.h"
#include "harness/cuda/counter_report.h"
#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/cuda_transport.h"

namespace commfuse {

class CeChannel final : public CudaChannel {
 public:
  /// What the transport has; all of it outlives the channel.
  struct Links {
    World& group;
    Reach reach;
    CounterProtocol counters;
    const CeStreams& streams;
  };

  /// Collective. Throws Unsupported for a message whose two views are both scattered and cut
  /// differently.
  CeChannel(const CudaPlan& plan, const Links& links, std::span<const DeviceStorage> storages);
  ~CeChannel() override;

  void enqueue(OpId op, Turn turn, cudaStream_t compute) override;
  [[nodiscard]] std::vector<ChannelWork> work() const override;
  [[nodiscard]] std::vector<cudaStream_t> streams() const override { return links_.streams.all(); }
  void wait_for_transfer(cudaStream_t stream, EventId event, Epoch epoch) override;
  void prepare_for_replay(cudaStream_t stream) override;
  [[nodiscard]] std::string pending(Epoch epoch) override;

 private:
  /// One message of this rank. `mine` is its arrival or its credit, `theirs` the other.
  struct Block {
    std::byte* mine = nullptr;
    std::byte* theirs = nullptr;
    std::vector<BlockCopy> copies;      // sends only
    std::optional<CudaEvent> complete;  // sends only
  };

  /// What a lane has started last, and on which stream.
  struct LaneStart {
    EventId first = 0;  // of the lane, in an iteration
    CudaEvent event{EventUse::order};
    cudaStream_t stream = nullptr;
  };

  /// Plans leave out what the order of a lane implies, but a lane has a stream for each
  /// destination: what starts on `stream` follows what its lane has started before.
  void start_in_lane_order(EventId event, cudaStream_t stream);
  void add_block(MessageId id, std::span<const RankLayout> layouts,
                 std::span<const DeviceStorage> storages);
  void post_credit(EventId event, Turn turn);
  void push(EventId event, Turn turn);
  [[nodiscard]] std::vector<AwaitedCounter> awaited(const RankLayout& own) const;

  Links links_;
  std::optional<CounterSnapshot> snapshot_;  // freed after memory_, when no rank waits any more
  PeerMemory memory_;                        // counters and staging
  std::vector<AwaitedCounter> awaited_;
  std::array<std::optional<LaneStart>, kLanes> starts_;
  std::vector<Block> blocks_;                               // by MessageId
  std::vector<std::unique_ptr<CeCollective>> collectives_;  // by OpId
};

}  // namespace commfuse
