// SPDX-License-Identifier: Apache-2.0
#include "harness/world/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace commfuse {
namespace {

using Mask = std::vector<std::byte>;

// One byte per eight cores, as long as this kernel needs.
Mask affinity_mask() {
  for (std::size_t bytes = 128; bytes <= 64 * 1024; bytes *= 2) {
    Mask mask(bytes);
    if (sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t*>(mask.data())) == 0) return mask;
    if (errno != EINVAL) break;  // EINVAL: the kernel knows more cores than fit
  }
  throw std::runtime_error(std::string("cannot read the affinity mask: ") + std::strerror(errno));
}

std::int32_t cores_in(const Mask& mask) {
  return CPU_COUNT_S(mask.size(), reinterpret_cast<const cpu_set_t*>(mask.data()));
}

void unite(Mask& all, const Mask& one) {
  all.resize(std::max(all.size(), one.size()));
  for (std::size_t i = 0; i < one.size(); ++i) all[i] |= one[i];
}

// A rank's node and mask in one message: name, zero byte, mask.
std::vector<std::byte> card_of_this_rank(const World& world) {
  const std::string host = world.host();
  const Mask mask = affinity_mask();
  std::vector<std::byte> card(host.size() + 1);
  std::memcpy(card.data(), host.c_str(), card.size());
  card.insert(card.end(), mask.begin(), mask.end());
  return card;
}

}  // namespace

NodeCores node_cores(World& world) {
  const std::string host = world.host();
  NodeCores node;
  Mask all;
  // A broadcast per rank: the masks' lengths may differ, and nobody needs more than a pass.
  const std::vector<std::byte> own = card_of_this_rank(world);
  for (std::int32_t rank = 0; rank < world.ranks(); ++rank) {
    const std::vector<std::byte> card = world.broadcast(own, rank);
    const auto split = std::find(card.begin(), card.end(), std::byte{0});
    const std::string name(reinterpret_cast<const char*>(card.data()),
                           static_cast<std::size_t>(split - card.begin()));
    if (name != host) continue;
    ++node.ranks;
    unite(all, Mask(split + 1, card.end()));
  }
  node.cores = cores_in(all);
  return node;
}

std::int32_t cores_of_this_thread() { return cores_in(affinity_mask()); }

}  // namespace commfuse
