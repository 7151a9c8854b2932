// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/peer_reach.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "harness/cuda/cuda_error.h"
#include "harness/cuda/device.h"
#include "harness/cuda/peer_memory.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

/// Numbers of devices differ between processes that see different ones; addresses do not.
std::optional<int> number_of(const std::string& pci, int visible) {
  for (int device = 0; device < visible; ++device) {
    if (pci_of(device) == pci) return device;
  }
  return std::nullopt;
}

}  // namespace

std::string why_out_of_reach(World& group) {
  int own = 0;
  int visible = 0;
  CFB_CUDA(cudaGetDevice(&own));
  CFB_CUDA(cudaGetDeviceCount(&visible));
  const std::string own_pci = pci_of(own);
  std::string reason;
  for (const auto& bytes : all_gather(group, bytes_of(own_pci))) {
    const std::string pci = text_of(bytes);
    if (pci == own_pci || !reason.empty()) continue;
    const std::optional<int> other = number_of(pci, visible);
    if (!other) continue;
    int can = 0;
    CFB_CUDA(cudaDeviceCanAccessPeer(&can, own, *other));
    if (can != 0) continue;
    reason = fmt::format("device {} cannot reach the memory of device {}", own_pci, pci);
  }
  return first_text(group, reason);
}

}  // namespace commfuse
