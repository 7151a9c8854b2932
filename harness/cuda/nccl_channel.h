// SPDX-License-Identifier: Apache-2.0
// The communication of one plan over NCCL.
#pragma once

#include <list>
#include <optional>
#include <span>
#include <vector>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/cuda_transport.h"
#include "harness/cuda/launches.h"
#include "harness/cuda/nccl_communicators.h"
#include "harness/cuda/nccl_registration.h"

namespace commfuse {

class NcclChannel final : public CudaChannel {
 public:
  /// Collective over the group. It, the communicators, one stream per lane, and the storage of this
  /// rank outlive the channel. Throws Unsupported where NCCL refuses a communicator or memory.
  NcclChannel(World& group, const CudaPlan& plan, NcclCommunicators& communicators,
              std::span<const Stream> streams, const DeviceStorage& storage);

  void enqueue(OpId op, Turn turn, cudaStream_t compute) override;
  [[nodiscard]] std::vector<ChannelWork> work() const override;
  [[nodiscard]] std::vector<cudaStream_t> streams() const override {
    return {streams_.begin(), streams_.end()};
  }
  [[nodiscard]] std::string pending(Epoch epoch) override;
  void wait_for_transfer(cudaStream_t stream, EventId event, Epoch epoch) override;
  void check() override { communicators_.check(others_); }

 private:
  /// NCCL moves what lies in one run: other views are packed into scratch of the channel before
  /// they are sent, and unpacked after they were received.
  struct Block {
    void* data = nullptr;
    std::optional<DeviceView> packed;  // scratch
    DeviceView view;
  };

  /// For collectives that are not standard: their communicators, and memory registered with them.
  void register_memory(World& group, NcclCommunicators& communicators);
  void place_blocks(const DeviceStorage& storage);
  /// Packing and unpacking kernels are loaded before anything waits.
  void warm_up() const;
  void exchange(OpId op, Turn turn);
  [[nodiscard]] cudaStream_t stream_of(Lane lane) const {
    return streams_[static_cast<std::size_t>(lane)];
  }

  const NcclCommunicators& communicators_;
  std::span<const Stream> streams_;
  const DeviceStorage& storage_;
  std::vector<CollectiveVia> others_;  // ways of this plan's collectives, but for the standard one
  std::list<NcclRegistration> registrations_;  // one for each
  DeviceMemory packing_;
  std::vector<Block> blocks_;  // by MessageId
  std::vector<std::optional<CudaEvent>>
      complete_;  // by OpId: exchanges, collectives of other lanes
};

}  // namespace commfuse
