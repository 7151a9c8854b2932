// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/nccl_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/cuda/nccl_collective.h"
#include "harness/cuda/rank_storage.h"
#include "harness/cuda/slab.h"
#include "harness/cuda/stand_in.h"
#include "impls/explain.h"

namespace commfuse {
namespace {

std::vector<CollectiveVia> ways_of(const Plan& plan) {
  std::vector<CollectiveVia> ways;
  for (const Op& op : plan.ops) {
    const auto* collective = std::get_if<Collective>(&op.work);
    if (collective == nullptr || collective->via == CollectiveVia::standard) continue;
    if (std::ranges::find(ways, collective->via) == ways.end()) ways.push_back(collective->via);
  }
  return ways;
}

/// What peers reach: what is gathered into or comes from everybody, and what they read to add it.
std::vector<View> reached_by_peers(const Collective& collective) {
  switch (collective.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return {collective.receive};
    case CollectiveKind::reduce_scatter:
      return {collective.send};
    case CollectiveKind::all_reduce:
      return {collective.send, collective.receive};
  }
  return {};
}

/// Windows are symmetric only if what peers reach lies at the same place in each. Tensors are laid
/// out alike, so a difference is in the plans.
void require_equal_offsets(World& group, const Plan& plan, const DeviceStorage& storage) {
  std::vector<std::int64_t> offsets;
  for (const Op& op : plan.ops) {
    const auto* what = std::get_if<Collective>(&op.work);
    if (what == nullptr) continue;
    for (const View& reached : reached_by_peers(*what)) {
      const bool own = reached.tensor >= plan.workload_tensors;
      const std::byte* base = storage.data(own ? static_cast<TensorId>(plan.workload_tensors) : 0);
      offsets.push_back(storage.at(reached) - base);
    }
  }
  const auto all = all_gather(group, std::as_bytes(std::span(offsets)));
  if (std::ranges::adjacent_find(all, std::ranges::not_equal_to{}) == all.end()) return;
  throw std::runtime_error("the ranks have what collectives reach at different offsets");
}

}  // namespace

NcclChannel::NcclChannel(World& group, const CudaPlan& plan, NcclCommunicators& communicators,
                         std::span<const Stream> streams, const DeviceStorage& storage)
    : CudaChannel(plan),
      communicators_(communicators),
      streams_(streams),
      storage_(storage),
      others_(ways_of(program().plan())),
      complete_(program().plan().ops.size()) {
  register_memory(group, communicators);
  place_blocks(storage);
  warm_up();
  for (OpId op = 0; op < complete_.size(); ++op) {
    const Op& work = program().plan().ops[op];
    const bool collective = std::holds_alternative<Collective>(work.work);
    if (std::holds_alternative<Exchange>(work.work) || (collective && work.lane != Lane::compute)) {
      complete_[op].emplace(EventUse::order);
    }
  }
}

void NcclChannel::register_memory(World& group, NcclCommunicators& communicators) {
  if (others_.empty()) return;
  require_equal_offsets(group, program().plan(), storage_);
  const std::vector<MemoryRange> slabs = slabs_of(program().plan(), storage_);
  for (const CollectiveVia via : others_) {
    communicators.prepare(via);
    registrations_.emplace_back(group, communicators.collectives(via), via, slabs);
  }
}

void NcclChannel::place_blocks(const DeviceStorage& storage) {
  const std::vector<Message>& messages = program().plan().messages;
  std::vector<std::size_t> offsets(messages.size());
  std::size_t bytes = 0;
  for (MessageId id = 0; id < messages.size(); ++id) {
    offsets[id] = bytes;
    const Tensor& tensor = storage.tensor(messages[id].view.tensor);
    if (contiguous(messages[id].view, tensor)) continue;
    bytes += aligned_up(static_cast<std::size_t>(messages[id].logical_bytes), kTensorAlignment);
  }
  packing_ = DeviceMemory(bytes);
  for (MessageId id = 0; id < messages.size(); ++id) {
    const View& view = messages[id].view;
    Block block{storage.at(view), {}, device_view(view, storage)};
    if (!contiguous(view, storage.tensor(view.tensor))) {
      block.packed = block.view;
      block.packed->data = block.data = packing_.data() + offsets[id];
      block.packed->pitch = view.cols;
      block.packed->strip_step = std::int64_t{view.rows} * view.cols;
    }
    blocks_.push_back(block);
  }
}

void NcclChannel::warm_up() const {
  const cudaStream_t stream = stream_of(Lane::compute);
  for (const Block& block : blocks_) {
    if (!block.packed) continue;
    const StandIn packed(*block.packed, stream);
    const StandIn view(block.view, stream);
    launch_copy(packed.view(), view.view(), stream);
    launch_copy(view.view(), packed.view(), stream);
    CFB_CUDA(cudaStreamSynchronize(stream));
  }
}

void NcclChannel::enqueue(OpId op, Turn turn, cudaStream_t compute) {
  const auto* what = std::get_if<Collective>(&program().plan().ops[op].work);
  if (what == nullptr) return exchange(op, turn);
  const Lane lane = program().plan().ops[op].lane;
  const auto range = marks().around(op);
  const ncclComm_t communicator = communicators_.collectives(what->via);
  if (lane == Lane::compute) {  // its dependencies are waited for
    return enqueue_collective(*what, storage_, communicator, compute);
  }
  wait_for_dependencies(stream_of(lane), op, turn);
  enqueue_collective(*what, storage_, communicator, stream_of(lane));
  CFB_CUDA(cudaEventRecord(*complete_[op], stream_of(lane)));
}

void NcclChannel::exchange(OpId op, Turn turn) {
  const Lane lane = program().plan().ops[op].lane;
  const cudaStream_t stream = stream_of(lane);
  const auto& what = std::get<Exchange>(program().plan().ops[op].work);
  const auto first = static_cast<EventId>(program().plan().ops.size() + what.first);
  for (EventId id = first; id < first + what.count; ++id) wait_for_dependencies(stream, id, turn);
  const auto range = marks().around(first);
  const auto each = [&](bool send, const auto& action) {
    for (MessageId id = what.first; id < what.first + what.count; ++id) {
      if (program().plan().messages[id].send == send) action(id, blocks_[id]);
    }
  };
  each(true, [&](MessageId, const Block& block) {
    if (block.packed) launch_copy(*block.packed, block.view, stream);
  });
  NcclGroup group;
  const ncclComm_t communicator = communicators_.exchanges(lane);
  for (MessageId id = what.first; id < what.first + what.count; ++id) {
    const Message& message = program().plan().messages[id];
    const auto count = static_cast<std::size_t>(message.view.elements());
    const ncclDataType_t type = nccl_type(storage_.tensor(message.view.tensor).dtype);
    if (message.send) {
      CFB_CUDA(ncclSend(blocks_[id].data, count, type, message.peer, communicator, stream));
    } else {
      CFB_CUDA(ncclRecv(blocks_[id].data, count, type, message.peer, communicator, stream));
    }
  }
  group.end();
  each(false, [&](MessageId, const Block& block) {
    if (block.packed) launch_copy(block.view, *block.packed, stream);
  });
  CFB_CUDA(cudaEventRecord(*complete_[op], stream));
}

std::vector<ChannelWork> NcclChannel::work() const {
  std::vector<ChannelWork> work;
  for (EventId id = 0; id < program().events().size(); ++id) {
    const Event& event = program().event(id);
    if (event.kind == EventKind::collective) {
      work.push_back({id, 1, program().collective(id).via == CollectiveVia::copy_engine});
    }
    if (event.kind != EventKind::send && event.kind != EventKind::receive) continue;
    const auto& exchange = std::get<Exchange>(program().plan().ops[event.op].work);
    if (event.message == exchange.first) work.push_back({id, 1});
    if (blocks_[event.message].packed) ++work.back().activities;
  }
  return work;
}

// NCCL does not say what it waits for; what has been enqueued and is not done is known.
std::string NcclChannel::pending(Epoch /*epoch*/) {
  std::string lines;
  for (OpId op = 0; op < complete_.size(); ++op) {
    if (!complete_[op] || cudaEventQuery(*complete_[op]) == cudaSuccess) continue;
    cudaGetLastError();
    lines += fmt::format("  {}\n", where(program().plan(), op));
  }
  return lines.empty() ? "  nothing of its communication lanes\n" : lines;
}

void NcclChannel::wait_for_transfer(cudaStream_t stream, EventId event, Epoch /*epoch*/) {
  CFB_CUDA(
      cudaStreamWaitEvent(stream, *complete_[program().event(event).op], cudaEventWaitDefault));
}

}  // namespace commfuse
