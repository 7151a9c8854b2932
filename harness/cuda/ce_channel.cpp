// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_channel.h"

#include <fmt/format.h>

#include "harness/cuda/refusal.h"
#include "harness/executor.h"

namespace commfuse {

CeChannel::CeChannel(const CudaPlan& plan, const Links& links,
                     std::span<const DeviceStorage> storages)
    : CudaChannel(plan), links_(links) {
  const std::vector<RankLayout> layouts = exchange_layouts(links.group, program());
  const RankLayout& own = layouts[static_cast<std::size_t>(links.group.rank())];
  memory_.allocate(links.group, own.bytes, links.reach);
  if (own.bytes > 0) {
    CFB_CUDA(cudaMemsetAsync(memory_.data(), 0, own.bytes, links.streams.credits()));
  }
  CFB_CUDA(cudaStreamSynchronize(links.streams.credits()));
  blocks_.resize(own.messages.size());
  do_alike(links.group, [&] {
    for (MessageId id = 0; id < blocks_.size(); ++id) add_block(id, layouts, storages);
  });
  collectives_.resize(program().plan().ops.size());
  std::size_t index = 0;
  for (OpId op = 0; op < collectives_.size(); ++op) {
    if (!std::holds_alternative<Collective>(program().plan().ops[op].work)) continue;
    collectives_[op] = std::make_unique<CeCollective>(
        CePlace{links.group.rank(), index++, layouts, storages, memory_}, links.counters,
        links.streams, program().plan().ops[op].lane);
    collectives_[op]->warm_up(links.streams.credits());
  }
  awaited_ = awaited(own);
  snapshot_.emplace(own.counter_bytes());
  links.group.barrier();  // all counters are zero
}

CeChannel::~CeChannel() = default;

std::vector<AwaitedCounter> CeChannel::awaited(const RankLayout& own) const {
  const Plan& plan = program().plan();
  std::vector<AwaitedCounter> awaited;
  for (EventId id = 0; id < program().events().size(); ++id) {
    const Event& event = program().event(id);
    if (event.kind != EventKind::send && event.kind != EventKind::receive) continue;
    const Message& message = program().message(id);
    awaited.push_back(
        {own.counter(event.message),
         fmt::format("op {}: {} rank {} {} {}", event.op, message.send ? "credit of" : "block from",
                     message.peer, message.send ? "for" : "into",
                     describe(message.view, plan.tensors[message.view.tensor]))});
  }
  std::size_t index = 0;
  for (OpId op = 0; op < plan.ops.size(); ++op) {
    if (!std::holds_alternative<Collective>(plan.ops[op].work)) continue;
    for (std::int32_t rank = 0; rank < own.ranks; ++rank) {
      if (rank == plan.rank) continue;
      awaited.push_back(
          {own.credit(index, rank), fmt::format("op {}: credit of rank {}", op, rank)});
      awaited.push_back(
          {own.arrival(index, rank), fmt::format("op {}: block from rank {}", op, rank)});
      if (own.collectives[index].kind != CollectiveKind::all_reduce) continue;
      awaited.push_back(
          {own.sum_arrival(index, rank), fmt::format("op {}: sum from rank {}", op, rank)});
    }
    ++index;
  }
  return awaited;
}

std::string CeChannel::pending(Epoch epoch) {
  std::span<const std::byte> counters;
  try {
    counters = snapshot_->take(memory_.data());
  } catch (const LibraryError& error) {  // a device that is ill; the watchdog ends the run
    return fmt::format("  its counters cannot be read: {}\n", error.what());
  }
  if (counters.empty()) return "  its counters cannot be read\n";
  const std::string lines = behind(counters, awaited_, links_.counters, epoch);
  return lines.empty() ? "  no counter: everything has come\n" : lines;
}

void CeChannel::add_block(MessageId id, std::span<const RankLayout> layouts,
                          std::span<const DeviceStorage> storages) {
  const std::int32_t rank = links_.group.rank();
  const RankLayout& own = layouts[static_cast<std::size_t>(rank)];
  const PublishedMessage& message = own.messages[id];
  const auto peer = static_cast<std::size_t>(message.peer);
  const MessageId theirs = layouts[peer].match(message, rank);
  Block& block = blocks_[id];
  block.mine = memory_.data() + own.counter(id);
  block.theirs = memory_.base(message.peer) + layouts[peer].counter(theirs);
  if (!message.send) return;
  block.complete.emplace(EventUse::order);
  const View& landing = layouts[peer].messages[theirs].view;
  auto copies = block_copies(device_view(landing, storages[peer]),
                             device_view(message.view, storages[static_cast<std::size_t>(rank)]));
  if (!copies) {
    throw Unsupported(
        fmt::format("transport ce cannot copy {} into {} of rank {}",
                    describe(message.view, program().plan().tensors[message.view.tensor]),
                    describe(landing, program().plan().tensors[landing.tensor]), message.peer));
  }
  block.copies = std::move(*copies);
}

void CeChannel::enqueue(OpId op, Turn turn, cudaStream_t compute) {
  if (collectives_[op]) {
    const cudaStream_t stream = collectives_[op]->stream(compute);
    const auto range = marks().around(op);
    const Lane lane = program().event(op).lane;
    if (lane != Lane::compute) {
      wait_for_dependencies(stream, op, turn);
      start_in_lane_order(op, stream);
    }
    collectives_[op]->enqueue(stream, turn.epoch);
    // A lane goes on when a collective is done.
    if (lane != Lane::compute) CFB_CUDA(cudaEventRecord(starts_[index_of(lane)]->event, stream));
    return;
  }
  const auto& exchange = std::get<Exchange>(program().plan().ops[op].work);
  const auto first = static_cast<EventId>(program().plan().ops.size() + exchange.first);
  for (EventId id = first; id < first + exchange.count; ++id) {
    if (program().event(id).kind == EventKind::receive) post_credit(id, turn);
  }
  for (EventId id = first; id < first + exchange.count; ++id) {
    if (program().event(id).kind == EventKind::send) push(id, turn);
  }
}

void CeChannel::post_credit(EventId event, Turn turn) {
  wait_for_dependencies(links_.streams.credits(), event, turn);
  links_.counters.tell(links_.streams.credits(), blocks_[program().event(event).message].theirs,
                       turn.epoch);
}

void CeChannel::push(EventId event, Turn turn) {
  const Message& message = program().message(event);
  const cudaStream_t stream = links_.streams.push(program().event(event).lane, message.peer);
  Block& block = blocks_[program().event(event).message];
  const auto range = marks().around(event);
  wait_for_dependencies(stream, event, turn);
  start_in_lane_order(event, stream);
  links_.counters.take(stream, block.mine, turn.epoch);
  for (const BlockCopy& copy : block.copies) commfuse::enqueue(copy, stream);
  links_.counters.tell(stream, block.theirs, turn.epoch);
  CFB_CUDA(cudaEventRecord(*block.complete, stream));
}

void CeChannel::start_in_lane_order(EventId event, cudaStream_t stream) {
  auto& start = starts_[index_of(program().event(event).lane)];
  if (!start) start.emplace().first = event;
  const bool follows = event != start->first && stream != start->stream;
  if (follows) CFB_CUDA(cudaStreamWaitEvent(stream, start->event, cudaEventWaitDefault));
  CFB_CUDA(cudaEventRecord(start->event, stream));
  start->stream = stream;
}

std::vector<ChannelWork> CeChannel::work() const {
  std::vector<ChannelWork> work;
  for (EventId id = 0; id < program().events().size(); ++id) {
    const Event& event = program().event(id);
    if (event.kind == EventKind::send) {
      work.push_back({id, static_cast<std::int32_t>(blocks_[event.message].copies.size())});
    } else if (event.kind == EventKind::collective) {
      work.push_back({id, collectives_[event.op]->activities()});
    }
  }
  return work;
}

void CeChannel::wait_for_transfer(cudaStream_t stream, EventId event, Epoch epoch) {
  const Event& what = program().event(event);
  if (what.kind == EventKind::collective) return collectives_[what.op]->wait(stream);
  const Block& block = blocks_[what.message];
  if (what.kind == EventKind::receive) {
    links_.counters.wait(stream, block.mine, epoch);
  } else {
    CFB_CUDA(cudaStreamWaitEvent(stream, *block.complete, cudaEventWaitDefault));
  }
}

void CeChannel::prepare_for_replay(cudaStream_t stream) {
  for (MessageId id = 0; id < blocks_.size(); ++id) {
    if (!program().plan().messages[id].send) links_.counters.put_back(stream, blocks_[id].mine);
  }
}

}  // namespace commfuse
