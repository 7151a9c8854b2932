// SPDX-License-Identifier: Apache-2.0
// The communicators of a rank: one for collectives, and one for each communication lane, since a
// communicator runs one operation after the other whatever streams it is given.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "harness/world/world.h"
#include "impls/plan.h"

namespace commfuse {

struct NcclSettings {
  /// CTAs that an exchange with one peer gets: a lane's communicator has this many times the ranks.
  std::int32_t ctas_per_peer = 2;

  /// What a lane's communicator of so many ranks gets; NCCL knows no more than 64.
  [[nodiscard]] std::int32_t exchange_ctas(std::int32_t ranks) const {
    return std::min(ctas_per_peer * ranks, std::int32_t{64});
  }
};

class NcclCommunicators {
 public:
  /// Collective over the group. Throws Unsupported where ranks share a device, which NCCL refuses,
  /// or where the environment overrides the number of CTAs.
  NcclCommunicators(World& group, const NcclSettings& settings);

  [[nodiscard]] ncclComm_t collectives() const { return collectives_.get(); }
  [[nodiscard]] ncclComm_t exchanges(Lane lane) const {
    return lanes_[static_cast<std::size_t>(lane)].get();
  }
  /// Throws LibraryError if one of them met an error since it was made.
  void check() const;
  [[nodiscard]] static std::string version();

 private:
  struct Abort {
    void operator()(ncclComm_t communicator) const;
  };
  using Communicator = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, Abort>;

  Communicator collectives_;
  std::array<Communicator, kLanes> lanes_;
};

}  // namespace commfuse
