// SPDX-License-Identifier: Apache-2.0
#include "harness/host/paced_control.h"

#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <stdexcept>

namespace commfuse {
namespace {

// A block is: head, ports, meetings, landings. Every part's size is a multiple of 64 bytes.
std::size_t ports_bytes(std::int32_t ranks) {
  return (static_cast<std::size_t>(ranks) * sizeof(Port) + 63) / 64 * 64;
}

std::size_t total(const PacedControl::MeetingCounts& meetings) {
  return std::accumulate(meetings.begin(), meetings.end(), std::size_t{0});
}

template <class Part>
void construct(std::span<Part> parts) {
  std::uninitialized_value_construct(parts.begin(), parts.end());
}

}  // namespace

PacedControl::PacedControl(World& group, std::size_t landings, const MeetingCounts& meetings)
    : group_(group), rank_(group.rank()), ranks_(group.ranks()) {
  segment_ = group.shared(sizeof(Head) + ports_bytes(ranks_) + total(meetings) * sizeof(Meeting) +
                          landings * sizeof(Landing));
  Head& mine = *std::construct_at(reinterpret_cast<Head*>(segment_->block(rank_).data()));
  make_shared_mutex(mine.mutex);
  mine.landings = static_cast<std::uint32_t>(landings);
  mine.meetings = meetings;
  construct(this->meetings(rank_));
  construct(this->landings(rank_));
}

void PacedControl::publish() {
  group_.barrier();
  for (std::int32_t r = 0; r < ranks_; ++r) {
    if (head(r).meetings != head(rank_).meetings) {
      throw std::runtime_error(
          fmt::format("ranks {} and {} do not have the same collectives", rank_, r));
    }
  }
}

PacedControl::Head& PacedControl::head(std::int32_t rank) const {
  return *reinterpret_cast<Head*>(segment_->block(rank).data());
}

std::byte* PacedControl::after_head(std::int32_t rank) const {
  return segment_->block(rank).data() + sizeof(Head);
}

Ports PacedControl::ports() const {
  return Ports({reinterpret_cast<Port*>(after_head(0)), static_cast<std::size_t>(ranks_)});
}

std::span<Meeting> PacedControl::meetings(std::int32_t rank) const {
  return {reinterpret_cast<Meeting*>(after_head(rank) + ports_bytes(ranks_)),
          total(head(rank).meetings)};
}

std::span<Landing> PacedControl::landings(std::int32_t rank) const {
  return {reinterpret_cast<Landing*>(after_head(rank) + ports_bytes(ranks_) +
                                     total(head(rank).meetings) * sizeof(Meeting)),
          head(rank).landings};
}

}  // namespace commfuse
