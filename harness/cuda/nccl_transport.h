// SPDX-License-Identifier: Apache-2.0
// Transport nccl: collectives on one communicator, every exchange as one group of sends and
// receives on the communicator of its lane. A group completes as a whole: a message is complete
// when all messages of its exchange are.
#pragma once

#include <array>
#include <memory>

#include "harness/cuda/cuda_resources.h"
#include "harness/cuda/cuda_transport.h"
#include "harness/cuda/device.h"
#include "harness/cuda/nccl_communicators.h"
#include "harness/world/world.h"

namespace commfuse {

class NcclTransport final : public CudaTransport {
 public:
  /// Collective over the group. Throws as NcclCommunicators does, and Unsupported on every rank
  /// where ranks share a device, which NCCL refuses.
  NcclTransport(World& group, const Device& device, const NcclSettings& settings);
  /// With communicators of the group that others use too, not at the same time.
  NcclTransport(World& group, const Device& device,
                std::shared_ptr<NcclCommunicators> communicators);

  [[nodiscard]] Reach reach() const override { return Reach::none; }
  void require_support(const Plan& plan) const override;
  std::unique_ptr<CudaChannel> open(const CudaPlan& plan, std::span<const DeviceStorage> storages,
                                    Issue issue) override;
  [[nodiscard]] std::map<std::string, std::string> facts() const override;

 private:
  World& group_;
  std::array<Stream, kLanes> streams_;  // before the communicators, which use them
  std::shared_ptr<NcclCommunicators> communicators_;
};

}  // namespace commfuse
