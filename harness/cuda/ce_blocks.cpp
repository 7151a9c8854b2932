// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_blocks.h"

#include <fmt/format.h>

#include <limits>

#include "harness/executor.h"

namespace commfuse {

CeBlocks::CeBlocks(const CePlace& place)
    : place_(place),
      kind_(collective(place.rank).kind),
      ranks_(layout(place.rank).ranks),
      dtype_(place.storages[static_cast<std::size_t>(place.rank)]
                 .tensor(collective(place.rank).send.tensor)
                 .dtype) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t added = staged_elements(collective(place.rank), ranks_);
  if (added <= kMost) return;
  throw Unsupported(
      fmt::format("transport ce adds at most {} elements on a rank at once, not {}", kMost, added));
}

const RankLayout& CeBlocks::layout(std::int32_t rank) const {
  return place_.layouts[static_cast<std::size_t>(rank)];
}

const Collective& CeBlocks::collective(std::int32_t rank) const {
  return layout(rank).collectives[place_.index];
}

CeBlocks::Run CeBlocks::run(std::int32_t rank, const View& view) const {
  return {place_.storages[static_cast<std::size_t>(rank)].at(view), view.elements()};
}

CeBlocks::Run CeBlocks::block(std::int32_t rank, const View& view, std::int32_t index) const {
  const std::int64_t first = index * view.elements() / ranks_;
  const std::int64_t end = (index + 1) * view.elements() / ranks_;
  return {run(rank, view).data + first * bytes_of(dtype_), end - first};
}

CeBlocks::Run CeBlocks::kept() const {
  const View& send = collective(place_.rank).send;
  if (kind_ == CollectiveKind::all_gather) return run(place_.rank, send);
  return block(place_.rank, send, place_.rank);
}

CeBlocks::Run CeBlocks::own_result() const {
  const View& receive = collective(place_.rank).receive;
  if (kind_ == CollectiveKind::reduce_scatter) return run(place_.rank, receive);
  return block(place_.rank, receive, place_.rank);
}

BlockCopy CeBlocks::copy(std::byte* target, const Run& source) const {
  const auto bytes = static_cast<std::size_t>(source.elements * bytes_of(dtype_));
  return {target, source.data, bytes, bytes, bytes, 1};
}

BlockCopy CeBlocks::push(std::int32_t other) const {
  const View& send = collective(place_.rank).send;
  const Run source = kind_ == CollectiveKind::all_gather ? kept() : block(place_.rank, send, other);
  if (!adds()) return copy(block(other, collective(other).receive, place_.rank).data, source);
  const std::int64_t staged = staged_elements(collective(other), ranks_);
  const std::int64_t offset = place_among_others(place_.rank, other) * staged * bytes_of(dtype_);
  return copy(place_.memory.base(other) + layout(other).staging[place_.index] + offset, source);
}

BlockCopy CeBlocks::push_sum(std::int32_t other) const {
  return copy(block(other, collective(other).receive, place_.rank).data, own_result());
}

std::optional<BlockCopy> CeBlocks::own() const {
  const Run source = kept();
  std::byte* const target = own_result().data;
  if ((adds() && ranks_ > 1) || target == source.data) return std::nullopt;
  return copy(target, source);
}

DeviceView CeBlocks::view_of(const Run& run) const {
  DeviceView view;
  view.data = run.data;
  view.pitch = run.elements;
  view.rows = run.elements > 0 ? 1 : 0;
  view.cols = static_cast<std::int32_t>(run.elements);
  view.dtype = dtype_;
  return view;
}

std::optional<CeSum> CeBlocks::sum() const {
  if (!adds() || ranks_ == 1) return std::nullopt;
  CeSum sum{view_of(own_result()), view_of(kept()), {}};
  sum.staged = sum.own;
  sum.staged.data = place_.memory.data() + layout(place_.rank).staging[place_.index];
  sum.staged.strips = ranks_ - 1;
  sum.staged.strip_step = staged_elements(collective(place_.rank), ranks_);
  return sum;
}

}  // namespace commfuse
