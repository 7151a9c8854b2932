// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nccl_transport.h"

#include <fmt/format.h>

#include <utility>

#include "harness/cuda/nccl_channel.h"
#include "harness/cuda/refusal.h"
#include "harness/executor.h"

namespace commfuse {
namespace {

World& on_devices_of_their_own(World& group, const Device& device) {
  const bool shared = device.ranks_here > 1;
  refuse_alike(group, shared ? "NCCL takes one rank per device and ranks share one here: "
                               "--transport ce"
                             : "");
  return group;
}

constexpr int kOldestDriverOfCopies = 12050;  // below it NCCL takes a kernel without a word

void require_copy_engines(const Collective& collective, const World& group) {
  const bool scatters = collective.kind == CollectiveKind::reduce_scatter;
  if (scatters || collective.kind == CollectiveKind::all_reduce) {
    throw Unsupported(
        fmt::format("collective=copy_engine: copy engines add nothing, so NCCL has no {} by them",
                    scatters ? "reduce-scatter" : "all-reduce"));
  }
  if (!group.one_node()) throw Unsupported("collective=copy_engine needs all ranks on one node");
  int driver = 0;
  CFB_CUDA(cudaDriverGetVersion(&driver));
  if (driver >= kOldestDriverOfCopies) return;
  throw Unsupported(fmt::format(
      "collective=copy_engine needs a driver for CUDA 12.5 or newer, this one is for {}.{}",
      driver / 1000, driver % 1000 / 10));
}

void require_symmetric_kernels(const Collective& collective) {
  if (collective.kind != CollectiveKind::all_to_all) return;
  throw Unsupported(
      "collective=symmetric: NCCL has no kernel for an all-to-all of windows, it sends and "
      "receives "
      "as without them");
}

}  // namespace

NcclTransport::NcclTransport(World& group, const Device& device, const NcclSettings& settings)
    : NcclTransport(
          group, device,
          std::make_shared<NcclCommunicators>(on_devices_of_their_own(group, device), settings)) {}

NcclTransport::NcclTransport(World& group, const Device& device,
                             std::shared_ptr<NcclCommunicators> communicators)
    : group_(group),
      streams_{Stream(device.transfer_priority), Stream(device.transfer_priority),
               Stream(device.transfer_priority)},
      communicators_(std::move(communicators)) {}

void NcclTransport::require_support(const Plan& plan) const {
  for (const Op& op : plan.ops) {
    const auto* collective = std::get_if<Collective>(&op.work);
    if (collective == nullptr) continue;
    if (collective->via == CollectiveVia::copy_engine) require_copy_engines(*collective, group_);
    if (collective->via == CollectiveVia::symmetric) require_symmetric_kernels(*collective);
  }
}

std::unique_ptr<CudaChannel> NcclTransport::open(const CudaPlan& plan,
                                                 std::span<const DeviceStorage> storages,
                                                 Issue /*issue*/) {
  return std::make_unique<NcclChannel>(group_, plan, *communicators_, streams_,
                                       storages[static_cast<std::size_t>(group_.rank())]);
}

std::map<std::string, std::string> NcclTransport::facts() const { return communicators_->facts(); }

}  // namespace commfuse
