// SPDX-License-Identifier: Apache-2.0
#include "tests/fakecuda/nccl_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace commfuse::fake {

ncclUniqueId NcclWorld::new_id() {
  ncclUniqueId id{};
  const std::string text = fmt::format("id {}", ids_++);
  std::memcpy(id.internal, text.data(), text.size());
  return id;
}

NcclRank& NcclWorld::rank() {
  Machine& machine = Machine::current();
  NcclRank& rank = ranks_[Machine::current_rank()];
  if (!rank.started) {
    rank.started = true;
    rank.queue = machine.create_queue();
    rank.bootstrap = machine.create_stream_in(machine.create_queue(), "nccl bootstrap");
  }
  return rank;
}

ncclResult_t NcclWorld::refuse(ncclResult_t result, std::string text) {
  rank().last_error = std::move(text);
  return result;
}

void NcclWorld::meet(const NcclClique& clique, std::int32_t rank, const std::string& what,
                     const std::string& terms) {
  Machine& machine = Machine::current();
  const StreamId stream = this->rank().bootstrap;
  machine.rendezvous(stream, what,
                     {Meeting{fmt::format("{} {}", clique.name, what), clique.ranks, rank,
                              fmt::format("{} ranks{}", clique.ranks, terms), Work{}}});
  machine.synchronise(stream);
}

std::shared_ptr<NcclClique> NcclWorld::clique(const std::string& id, std::int32_t ranks,
                                              const std::string& name) {
  std::shared_ptr<NcclClique>& entry = cliques_[id];
  if (!entry) {
    entry = std::make_shared<NcclClique>();
    entry->number = static_cast<std::int32_t>(cliques_.size()) - 1;
    entry->ranks = ranks;
    entry->name = fmt::format("communicator {}", entry->number);
    if (!name.empty()) entry->name += fmt::format(" ({})", name);
  }
  return entry;
}

ncclComm* NcclWorld::add(std::shared_ptr<NcclClique> clique, std::int32_t rank,
                         const NcclSettings& settings) {
  Machine& machine = Machine::current();
  ncclComm& comm = communicators_.emplace_back();
  comm.host = Machine::current_rank();
  comm.rank = rank;
  comm.settings = settings;
  comm.clique = std::move(clique);
  comm.stream = machine.create_stream_in(this->rank().queue, comm.clique->name);
  comm.ready = machine.create_event(comm.clique->name + " ready");
  comm.done = machine.create_event(comm.clique->name + " done");
  return &comm;
}

ncclComm* NcclWorld::init(const ncclUniqueId& id, std::int32_t ranks, std::int32_t rank,
                          const NcclSettings& settings) {
  const std::string text(id.internal, strnlen(id.internal, sizeof id.internal));
  std::shared_ptr<NcclClique> members = clique(text, ranks, settings.name);
  if (members->ranks != ranks) {
    throw Finding(Verdict::Kind::mismatch, fmt::format("{} has {} ranks; rank {} says {}",
                                                       members->name, members->ranks, rank, ranks));
  }
  if (++members->members > ranks) {
    throw Finding(Verdict::Kind::mismatch,
                  fmt::format("the id of {} was used again", members->name));
  }
  meet(*members, rank, "init");
  return add(std::move(members), rank, settings);
}

ncclComm* NcclWorld::split(ncclComm& parent, std::int32_t color, std::int32_t key,
                           const NcclSettings& settings) {
  const std::string what = fmt::format("split {}", parent.splits++);
  const std::string id = fmt::format("{} {}", parent.clique->name, what);
  choices_[id].push_back({parent.rank, color, key});
  meet(*parent.clique, parent.rank, what);
  if (color == NCCL_SPLIT_NOCOLOR) return nullptr;
  std::vector<Choice> members = choices_[id];
  std::erase_if(members, [&](const Choice& choice) { return choice.color != color; });
  std::ranges::sort(members, {},
                    [](const Choice& choice) { return std::tuple(choice.key, choice.rank); });
  const auto self = std::ranges::find(members, parent.rank, &Choice::rank);
  return add(clique(fmt::format("{} color {}", id, color),
                    static_cast<std::int32_t>(members.size()), settings.name),
             static_cast<std::int32_t>(self - members.begin()), settings);
}

std::shared_ptr<NcclJoint> NcclWorld::joint(const std::string& id, std::int32_t parties) {
  std::shared_ptr<NcclJoint>& entry = joints_[id];
  if (!entry) entry = std::make_shared<NcclJoint>(parties);
  std::shared_ptr<NcclJoint> joint = entry;
  if (++joint->joined == parties) joints_.erase(id);
  return joint;
}

}  // namespace commfuse::fake
