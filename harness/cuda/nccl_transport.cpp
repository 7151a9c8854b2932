// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nccl_transport.h"

#include "harness/cuda/nccl_channel.h"
#include "harness/executor.h"

namespace commfuse {
namespace {

World& on_devices_of_their_own(World& group, const Device& device) {
  if (device.ranks_here > 1) {
    throw Unsupported("NCCL takes one rank per device and ranks share one here: --transport ce");
  }
  return group;
}

}  // namespace

NcclTransport::NcclTransport(World& group, const Device& device, const NcclSettings& settings)
    : group_(on_devices_of_their_own(group, device)),
      settings_(settings),
      streams_{Stream(device.transfer_priority), Stream(device.transfer_priority),
               Stream(device.transfer_priority)},
      communicators_(group, settings) {}

std::unique_ptr<CudaChannel> NcclTransport::open(const CudaPlan& plan,
                                                 std::span<const DeviceStorage> storages,
                                                 Issue /*issue*/) {
  return std::make_unique<NcclChannel>(plan, communicators_, streams_,
                                       storages[static_cast<std::size_t>(group_.rank())]);
}

std::map<std::string, std::string> NcclTransport::facts() const {
  return {{"nccl", NcclCommunicators::version()},
          {"exchange_ctas", std::to_string(settings_.exchange_ctas(group_.ranks()))}};
}

}  // namespace commfuse
