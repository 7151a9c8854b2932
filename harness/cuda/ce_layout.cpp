// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/cuda/ce_counters.h"
#include "harness/cuda/peer_memory.h"
#include "harness/cuda/slab.h"
#include "harness/world/wire.h"

namespace commfuse {
namespace {

std::vector<PublishedMessage> messages_of(const Program& program) {
  std::vector<PublishedMessage> messages(program.plan().messages.size());
  for (EventId id = 0; id < program.events().size(); ++id) {
    const Event& event = program.event(id);
    if (event.kind != EventKind::send && event.kind != EventKind::receive) continue;
    const Message& message = program.message(id);
    messages[event.message] = {message.view, message.peer, message.sequence, event.lane,
                               message.send};
  }
  return messages;
}

std::vector<Collective> collectives_of(const Program& program) {
  std::vector<Collective> collectives;
  for (const Op& op : program.plan().ops) {
    if (const auto* collective = std::get_if<Collective>(&op.work)) {
      collectives.push_back(*collective);
    }
  }
  return collectives;
}

void place_staging(RankLayout& layout, std::span<const Tensor> tensors) {
  layout.bytes = layout.counter_bytes();
  for (const Collective& collective : layout.collectives) {
    layout.bytes = aligned_up(layout.bytes, kTensorAlignment);
    layout.staging.push_back(layout.bytes);
    const std::int64_t block = staged_elements(collective, layout.ranks) *
                               bytes_of(tensors[collective.receive.tensor].dtype);
    layout.bytes += static_cast<std::size_t>(block * (layout.ranks - 1));
  }
}

constexpr std::size_t kCountersOfOther = 3;  // for each collective and rank

}  // namespace

std::int64_t staged_elements(const Collective& collective, std::int32_t ranks) {
  switch (collective.kind) {
    case CollectiveKind::reduce_scatter:
      return collective.receive.elements();
    case CollectiveKind::all_reduce:  // the largest share
      return (collective.send.elements() + ranks - 1) / ranks;
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      break;
  }
  return 0;
}

std::size_t RankLayout::counter_bytes() const {
  return (messages.size() +
          collectives.size() * kCountersOfOther * static_cast<std::size_t>(ranks)) *
         kCounterBytes;
}

std::size_t RankLayout::counter(MessageId message) const { return message * kCounterBytes; }

std::size_t RankLayout::arrival(std::size_t collective, std::int32_t from) const {
  const auto others = static_cast<std::size_t>(ranks);
  return (messages.size() + collective * kCountersOfOther * others +
          static_cast<std::size_t>(from)) *
         kCounterBytes;
}

std::size_t RankLayout::credit(std::size_t collective, std::int32_t from) const {
  return arrival(collective, from) + static_cast<std::size_t>(ranks) * kCounterBytes;
}

std::size_t RankLayout::sum_arrival(std::size_t collective, std::int32_t from) const {
  return credit(collective, from) + static_cast<std::size_t>(ranks) * kCounterBytes;
}

MessageId RankLayout::match(const PublishedMessage& message, std::int32_t from) const {
  const auto found = std::ranges::find_if(messages, [&](const PublishedMessage& other) {
    return other.peer == from && other.send != message.send && other.lane == message.lane &&
           other.sequence == message.sequence;
  });
  if (found == messages.end()) {
    throw std::logic_error(fmt::format("rank {} has no {} of message {} of rank {}", message.peer,
                                       message.send ? "receive" : "send", message.sequence, from));
  }
  return static_cast<MessageId>(found - messages.begin());
}

std::vector<RankLayout> exchange_layouts(World& group, const Program& program) {
  const std::vector<PublishedMessage> messages = messages_of(program);
  const std::vector<Collective> collectives = collectives_of(program);
  const auto all_messages = all_gather(group, std::as_bytes(std::span(messages)));
  const auto all_collectives = all_gather(group, std::as_bytes(std::span(collectives)));
  std::vector<RankLayout> layouts;
  for (std::size_t r = 0; r < all_messages.size(); ++r) {
    RankLayout layout;
    layout.ranks = group.ranks();
    layout.messages = values_of<PublishedMessage>(all_messages[r]);
    layout.collectives = values_of<Collective>(all_collectives[r]);
    if (layout.collectives.size() != collectives.size()) {
      throw std::logic_error("the ranks do not have the same collectives");
    }
    place_staging(layout, program.plan().tensors);
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

}  // namespace commfuse
