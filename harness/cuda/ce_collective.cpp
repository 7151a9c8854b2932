// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_collective.h"

#include "harness/cuda/launches.h"
#include "harness/cuda/stand_in.h"

namespace commfuse {
namespace {

/// Block `index` of a contiguous view of equal blocks.
std::byte* block_at(const DeviceStorage& storage, const View& view, std::int32_t index,
                    std::size_t block_bytes) {
  return storage.at(view) + static_cast<std::size_t>(index) * block_bytes;
}

/// A contiguous view, as rows that touch.
DeviceView in_one_run(const View& view, const DeviceStorage& storage) {
  DeviceView run = device_view(view, storage);
  run.rows = static_cast<std::int32_t>(view.total_rows());
  run.pitch = view.cols;
  run.strips = 1;
  return run;
}

BlockCopy run_copy(std::byte* target, const std::byte* source, std::size_t bytes) {
  return {target, source, bytes, bytes, bytes, 1};
}

}  // namespace

CeCollective::CeCollective(const Place& place, const CounterProtocol& counters,
                           const CeStreams& streams, Lane lane)
    : counters_(counters), streams_(streams), lane_(lane) {
  const auto at = [](std::int32_t rank) { return static_cast<std::size_t>(rank); };
  const RankLayout& own = place.layouts[at(place.rank)];
  const DeviceStorage& storage = place.storages[at(place.rank)];
  const Collective& collective = own.collectives[place.index];
  kind_ = collective.kind;
  const bool gathers = kind_ == CollectiveKind::all_gather;
  const View& block = gathers ? collective.send : collective.receive;
  const auto block_bytes =
      static_cast<std::size_t>(block.elements() * bytes_of(storage.tensor(block.tensor).dtype));

  for (std::int32_t rank = 0; rank < own.ranks; ++rank) {
    if (rank == place.rank) continue;
    const RankLayout& theirs = place.layouts[at(rank)];
    std::byte* const target =
        gathers ? block_at(place.storages[at(rank)], theirs.collectives[place.index].receive,
                           place.rank, block_bytes)
                : place.memory.base(rank) + theirs.staging[place.index] +
                      at(place_among_others(place.rank, rank)) * block_bytes;
    const std::byte* const source = gathers ? storage.at(collective.send)
                                            : block_at(storage, collective.send, rank, block_bytes);
    Other& other = others_.emplace_back();
    other.rank = rank;
    other.my_credit = place.memory.data() + own.credit(place.index, rank);
    other.my_arrival = place.memory.data() + own.arrival(place.index, rank);
    other.their_credit = place.memory.base(rank) + theirs.credit(place.index, place.rank);
    other.their_arrival = place.memory.base(rank) + theirs.arrival(place.index, place.rank);
    other.push = run_copy(target, source, block_bytes);
  }

  std::byte* const result = gathers ? block_at(storage, collective.receive, place.rank, block_bytes)
                                    : storage.at(collective.receive);
  const std::byte* const source = gathers
                                      ? storage.at(collective.send)
                                      : block_at(storage, collective.send, place.rank, block_bytes);
  if (gathers || others_.empty()) {
    if (result != source) own_ = run_copy(result, source, block_bytes);
    return;
  }
  result_ = in_one_run(collective.receive, storage);
  own_block_ = result_;
  own_block_.data = const_cast<std::byte*>(source);
  staged_ = result_;
  staged_.data = place.memory.data() + own.staging[place.index];
  staged_.strips = static_cast<std::int32_t>(others_.size());
  staged_.strip_step = block.elements();
}

void CeCollective::warm_up(cudaStream_t stream) const {
  if (!sums()) return;
  const StandIn result(result_, stream);
  const StandIn own(own_block_, stream);
  const StandIn staged(staged_, stream);
  launch_accumulate(result.view(), own.view(), staged.view(), stream);
  CFB_CUDA(cudaStreamSynchronize(stream));
}

cudaStream_t CeCollective::stream(cudaStream_t compute) const {
  if (lane_ == Lane::compute || others_.empty()) return compute;
  return streams_.push(lane_, others_.front().rank);
}

void CeCollective::enqueue(cudaStream_t stream, Epoch epoch) {
  for (const Other& other : others_) counters_.tell(stream, other.their_credit, epoch);
  push(stream, epoch);
  if (own_) commfuse::enqueue(*own_, stream);
  for (const Other& other : others_) counters_.take(stream, other.my_arrival, epoch);
  finish(stream);
}

void CeCollective::push(cudaStream_t stream, Epoch epoch) {
  CFB_CUDA(cudaEventRecord(ready_, stream));
  for (const Other& other : others_) {
    const cudaStream_t way = streams_.push(lane_, other.rank);
    CFB_CUDA(cudaStreamWaitEvent(way, ready_, cudaEventWaitDefault));
    counters_.take(way, other.my_credit, epoch);
    commfuse::enqueue(other.push, way);
    counters_.tell(way, other.their_arrival, epoch);
    CFB_CUDA(cudaEventRecord(other.pushed, way));
  }
}

void CeCollective::finish(cudaStream_t stream) {
  for (const Other& other : others_) {
    CFB_CUDA(cudaStreamWaitEvent(stream, other.pushed, cudaEventWaitDefault));
  }
  if (sums()) launch_accumulate(result_, own_block_, staged_, stream);
  CFB_CUDA(cudaEventRecord(complete_, stream));
}

std::int32_t CeCollective::activities() const {
  return static_cast<std::int32_t>(others_.size()) + (own_ ? 1 : 0) + (sums() ? 1 : 0);
}

void CeCollective::wait(cudaStream_t stream) const {
  CFB_CUDA(cudaStreamWaitEvent(stream, complete_, cudaEventWaitDefault));
}

}  // namespace commfuse
