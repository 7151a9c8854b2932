// SPDX-License-Identifier: Apache-2.0
// The communicators of a rank: one for collectives, and one for each communication lane, since a
// communicator runs one operation after the other whatever streams it is given. Plans that ask for
// their collectives in another way have communicators of their own for them, so that what is
// registered with one changes nothing for the others.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
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
  /// Collective over the group, whose ranks have a device each. Throws Unsupported on every rank
  /// where the environment of one overrides the number of CTAs, or where versions of NCCL differ.
  NcclCommunicators(World& group, const NcclSettings& settings);

  /// Collective over the group: makes the communicator for such collectives, unless it is there.
  /// Throws Unsupported on every rank, with NCCL's text, where it refuses a rank.
  void prepare(CollectiveVia via);
  /// Null before prepare(), but for standard.
  [[nodiscard]] ncclComm_t collectives(CollectiveVia via) const {
    return collectives_[static_cast<std::size_t>(via)].get();
  }
  [[nodiscard]] ncclComm_t exchanges(Lane lane) const {
    return lanes_[static_cast<std::size_t>(lane)].get();
  }
  /// Throws LibraryError if one of them met an error since it was made: of those for collectives
  /// the standard one, and these.
  void check(std::span<const CollectiveVia> others = {}) const;
  [[nodiscard]] static std::string version();
  /// What records say of them: version, CTAs, ways of collectives, variables of the environment.
  [[nodiscard]] std::map<std::string, std::string> facts() const;

 private:
  struct Abort {
    void operator()(ncclComm_t communicator) const;
  };
  using Communicator = std::unique_ptr<std::remove_pointer_t<ncclComm_t>, Abort>;

  World& group_;
  NcclSettings settings_;
  std::array<Communicator, kCollectiveVia.size()> collectives_;  // the others come of the first
  std::array<Communicator, kLanes> lanes_;
};

}  // namespace commfuse
