// SPDX-License-Identifier: Apache-2.0
// One collective of a plan over copy engines: every rank pushes a block to every other one. In a
// reduce-scatter and an all-reduce the blocks are staged there and added; in an all-reduce every
// rank then pushes its share of the sum to every other one, under the credit of the block before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/cuda/ce_blocks.h"
#include "harness/cuda/ce_protocol.h"
#include "harness/cuda/ce_streams.h"
#include "harness/cuda/cuda_resources.h"

namespace commfuse {

class CeCollective {
 public:
  /// Throws Unsupported, on all ranks alike, for a block that is too long to be added.
  CeCollective(const CePlace& place, const CounterProtocol& counters, const CeStreams& streams,
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
  /// A block for another rank, and its counters there and here. Empty blocks are not copied.
  struct Delivery {
    BlockCopy copy;
    std::byte* theirs = nullptr;
    std::byte* mine = nullptr;
  };
  /// What passes between this rank and another one.
  struct Other {
    std::int32_t rank = 0;
    std::byte* my_credit = nullptr;  // from them
    std::byte* their_credit = nullptr;
    Delivery block;
    std::optional<Delivery> sum;  // all_reduce only
    CudaEvent pushed{EventUse::order};
  };

  void add_other(const CePlace& place, const CeBlocks& blocks, std::int32_t rank);
  void push_blocks(cudaStream_t stream, Epoch epoch);
  void push_sums(cudaStream_t stream, Epoch epoch);
  /// Everything has been pushed, so that what was sent may be overwritten.
  void wait_for_pushes(cudaStream_t stream) const;
  void deliver(const Delivery& delivery, const Other& other, Epoch epoch);

  CounterProtocol counters_;
  const CeStreams& streams_;
  Lane lane_;
  bool all_reduces_;
  std::vector<Other> others_;
  std::optional<BlockCopy> own_;  // this rank's block, where it must be copied
  std::optional<CeSum> sum_;
  CudaEvent ready_{EventUse::order};
  CudaEvent summed_{EventUse::order};
  CudaEvent complete_{EventUse::order};
};

}  // namespace commfuse
