// SPDX-License-Identifier: Apache-2.0
// One collective of a plan over copy engines: every rank pushes a block to every other one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harness/cuda/block_copy.h"
#include "harness/cuda/ce_layout.h"
#include "harness/cuda/ce_protocol.h"
#include "harness/cuda/ce_streams.h"
#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/peer_memory.h"

namespace commfuse {

class CeCollective {
 public:
  /// Where things lie, for the collective with number `index` of the plan.
  struct Place {
    std::int32_t rank;
    std::size_t index;
    std::span<const RankLayout> layouts;
    std::span<const DeviceStorage> storages;
    const PeerMemory& memory;
  };

  CeCollective(const Place& place, const CounterProtocol& counters, const CeStreams& streams,
               Lane lane);

  /// Loads the kernel it needs, if any; returns when that is done.
  void warm_up(cudaStream_t stream) const;
  /// Where it goes: the compute stream, or a stream of its lane.
  [[nodiscard]] cudaStream_t stream(cudaStream_t compute) const;
  /// On stream(), which has waited for the collective's dependencies.
  void enqueue(cudaStream_t stream, Epoch epoch);
  /// Copies and kernels of one of them on this rank.
  [[nodiscard]] std::int32_t activities() const;
  /// Makes `stream` wait for the last one that was enqueued off the compute stream.
  void wait(cudaStream_t stream) const;

 private:
  /// What passes between this rank and another one.
  struct Other {
    std::int32_t rank = 0;
    std::byte* my_credit = nullptr;  // from them
    std::byte* my_arrival = nullptr;
    std::byte* their_credit = nullptr;
    std::byte* their_arrival = nullptr;
    BlockCopy push;
    CudaEvent pushed{EventUse::order};
  };

  void push(cudaStream_t stream, Epoch epoch);
  void finish(cudaStream_t stream);
  [[nodiscard]] bool sums() const {
    return kind_ == CollectiveKind::reduce_scatter && !others_.empty();
  }

  CounterProtocol counters_;
  const CeStreams& streams_;
  Lane lane_;
  CollectiveKind kind_;
  std::vector<Other> others_;
  std::optional<BlockCopy> own_;            // this rank's block, where it must be copied
  DeviceView result_, own_block_, staged_;  // reduce_scatter only
  CudaEvent ready_{EventUse::order};
  CudaEvent complete_{EventUse::order};
};

}  // namespace commfuse
