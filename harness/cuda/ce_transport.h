// SPDX-License-Identifier: Apache-2.0
// Transport ce: copy engines push blocks into the peers' memory, and stream operations on counters
// say when. A message waits for a credit of its receiver, so that it lands only where nobody still
// reads (rendezvous): right for every verified plan, in both modes, at the price of a flag's
// latency where a credit comes late.
//
// A collective is P-1 such pushes; a reduce-scatter stages the blocks of the others and adds them
// to its own in fp32, rounded once. An all-reduce then pushes the sum of its share to the P-1
// others: so all ranks have the same bits.
#pragma once

#include <memory>

#include "harness/cuda/ce_counters.h"
#include "harness/cuda/ce_streams.h"
#include "harness/cuda/cuda_transport.h"
#include "harness/cuda/device.h"
#include "harness/world/world.h"

namespace commfuse {

class CeTransport final : public CudaTransport {
 public:
  /// Collective over the group, whose ranks share a node. Throws Unsupported where the device's
  /// queues are too few, or the driver has no stream operations on values. `executors` is how many
  /// of a rank share it; one of them runs at a time.
  CeTransport(World& group, const Device& device, Reach reach, std::int32_t executors = 1);

  [[nodiscard]] Reach reach() const override { return reach_; }
  std::unique_ptr<CudaChannel> open(const CudaPlan& plan, std::span<const DeviceStorage> storages,
                                    Issue issue) override;
  [[nodiscard]] std::map<std::string, std::string> facts() const override;

 private:
  World& group_;
  Reach reach_;
  Sharing sharing_;
  CounterOps counters_;
  CeStreams streams_;
};

}  // namespace commfuse
