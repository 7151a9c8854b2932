// SPDX-License-Identifier: Apache-2.0
// Which bytes a rank pushes where in one collective over copy engines, and what it adds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "harness/cuda/block_copy.h"
#include "harness/cuda/ce_layout.h"
#include "harness/cuda/device_view.h"
#include "harness/cuda/peer_memory.h"

namespace commfuse {

/// Where things lie, for the collective with number `index` of the plan.
struct CePlace {
  std::int32_t rank;
  std::size_t index;
  std::span<const RankLayout> layouts;
  std::span<const DeviceStorage> storages;
  const PeerMemory& memory;
};

/// result = own + the strips of staged. Nothing may be left to add: then result is empty.
struct CeSum {
  DeviceView result, own, staged;
};

/// A view of all ranks' blocks is cut in `ranks` runs of elements, as equal as can be: an
/// all-reduce alone may have blocks of two sizes, or empty ones.
class CeBlocks {
 public:
  /// `place` outlives this. Throws Unsupported, on all ranks alike, for a block that is too long
  /// to be added.
  explicit CeBlocks(const CePlace& place);

  /// What goes to `other` first: to its place, or staged to be added there.
  [[nodiscard]] BlockCopy push(std::int32_t other) const;
  /// all_reduce: this rank's share of the sum, which goes to `other`.
  [[nodiscard]] BlockCopy push_sum(std::int32_t other) const;
  /// This rank's block, where it must be copied.
  [[nodiscard]] std::optional<BlockCopy> own() const;
  /// reduce_scatter and all_reduce of several ranks.
  [[nodiscard]] std::optional<CeSum> sum() const;

 private:
  /// Elements of a contiguous view.
  struct Run {
    std::byte* data = nullptr;
    std::int64_t elements = 0;
  };

  [[nodiscard]] const RankLayout& layout(std::int32_t rank) const;
  [[nodiscard]] const Collective& collective(std::int32_t rank) const;
  [[nodiscard]] Run run(std::int32_t rank, const View& view) const;
  /// Block `index` of a view of a block per rank.
  [[nodiscard]] Run block(std::int32_t rank, const View& view, std::int32_t index) const;
  /// What this rank keeps of what it sends, and where that goes or is added to.
  [[nodiscard]] Run kept() const;
  [[nodiscard]] Run own_result() const;
  [[nodiscard]] BlockCopy copy(std::byte* target, const Run& source) const;
  [[nodiscard]] DeviceView view_of(const Run& run) const;
  [[nodiscard]] bool adds() const {
    return kind_ == CollectiveKind::reduce_scatter || kind_ == CollectiveKind::all_reduce;
  }

  const CePlace& place_;
  CollectiveKind kind_;
  std::int32_t ranks_;
  DType dtype_;
};

}  // namespace commfuse
