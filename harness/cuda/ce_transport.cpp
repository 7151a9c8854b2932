// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_transport.h"

#include <fmt/format.h>

#include "harness/cuda/ce_channel.h"
#include "harness/cuda/peer_reach.h"
#include "harness/executor.h"

namespace commfuse {
namespace {

StreamValueFunctions value_functions_or_unsupported() {
  try {
    return find_stream_value_functions();
  } catch (const std::runtime_error& error) {
    throw Unsupported(fmt::format("transport ce: {}", error.what()));
  }
}

/// Where devices carry different numbers of ranks, all ranks find the same: what one device cannot
/// carry, none does.
Device fullest_device(World& group, Device device) {
  device.ranks_here = static_cast<std::int32_t>(group.max(device.ranks_here));
  device.connections = static_cast<std::int32_t>(-group.max(-device.connections));
  return device;
}

}  // namespace

CeTransport::CeTransport(World& group, const Device& device, Reach reach, std::int32_t executors)
    : group_(group),
      reach_(reach),
      sharing_(finest_sharing(fullest_device(group, device), group.ranks(), executors)),
      counters_(value_functions_or_unsupported(), device.flushes_remote_writes),
      streams_(sharing_, group.rank(), group.ranks(), device.transfer_priority) {
  if (!group.one_node()) throw Unsupported("transport ce needs all ranks on one node");
  const std::string reason = why_out_of_reach(group);
  if (!reason.empty()) throw Unsupported("transport ce: " + reason);
}

std::unique_ptr<CudaChannel> CeTransport::open(const CudaPlan& plan,
                                               std::span<const DeviceStorage> storages,
                                               Issue issue) {
  const CounterProtocol protocol(counters_, issue);
  return std::make_unique<CeChannel>(plan, CeChannel::Links{group_, reach_, protocol, streams_},
                                     storages);
}

std::map<std::string, std::string> CeTransport::facts() const {
  return {{"push_streams", name_of(sharing_)},
          {"peer_memory", reach_ == Reach::ipc ? "IPC handles" : "one process"}};
}

}  // namespace commfuse
