// SPDX-License-Identifier: Apache-2.0
#include "harness/cuda/ce_collective.h"

#include <algorithm>

#include "harness/cuda/launches.h"
#include "harness/cuda/stand_in.h"

namespace commfuse {

CeCollective::CeCollective(const CePlace& place, const CounterProtocol& counters,
                           const CeStreams& streams, Lane lane)
    : counters_(counters), streams_(streams), lane_(lane) {
  const RankLayout& own = place.layouts[static_cast<std::size_t>(place.rank)];
  all_reduces_ = own.collectives[place.index].kind == CollectiveKind::all_reduce;
  const CeBlocks blocks(place);
  for (std::int32_t rank = 0; rank < own.ranks; ++rank) {
    if (rank != place.rank) add_other(place, blocks, rank);
  }
  own_ = blocks.own();
  sum_ = blocks.sum();
}

void CeCollective::add_other(const CePlace& place, const CeBlocks& blocks, std::int32_t rank) {
  const RankLayout& own = place.layouts[static_cast<std::size_t>(place.rank)];
  const RankLayout& theirs = place.layouts[static_cast<std::size_t>(rank)];
  std::byte* const here = place.memory.data();
  std::byte* const there = place.memory.base(rank);
  Other& other = others_.emplace_back();
  other.rank = rank;
  other.my_credit = here + own.credit(place.index, rank);
  other.their_credit = there + theirs.credit(place.index, place.rank);
  other.block = {blocks.push(rank), there + theirs.arrival(place.index, place.rank),
                 here + own.arrival(place.index, rank)};
  if (!all_reduces_) return;
  other.sum = {blocks.push_sum(rank), there + theirs.sum_arrival(place.index, place.rank),
               here + own.sum_arrival(place.index, rank)};
}

void CeCollective::warm_up(cudaStream_t stream) const {
  if (!sum_) return;
  const StandIn result(sum_->result, stream);
  const StandIn own(sum_->own, stream);
  const StandIn staged(sum_->staged, stream);
  launch_accumulate(result.view(), own.view(), staged.view(), stream);
  CFB_CUDA(cudaStreamSynchronize(stream));
}

cudaStream_t CeCollective::stream(cudaStream_t compute) const {
  if (lane_ == Lane::compute || others_.empty()) return compute;
  return streams_.push(lane_, others_.front().rank);
}

void CeCollective::enqueue(cudaStream_t stream, Epoch epoch) {
  for (const Other& other : others_) counters_.tell(stream, other.their_credit, epoch);
  push_blocks(stream, epoch);
  if (own_) commfuse::enqueue(*own_, stream);
  for (const Other& other : others_) counters_.take(stream, other.block.mine, epoch);
  if (sum_) launch_accumulate(sum_->result, sum_->own, sum_->staged, stream);
  if (all_reduces_) push_sums(stream, epoch);
  wait_for_pushes(stream);
  CFB_CUDA(cudaEventRecord(complete_, stream));
}

void CeCollective::push_blocks(cudaStream_t stream, Epoch epoch) {
  CFB_CUDA(cudaEventRecord(ready_, stream));
  for (const Other& other : others_) {
    const cudaStream_t way = streams_.push(lane_, other.rank);
    CFB_CUDA(cudaStreamWaitEvent(way, ready_, cudaEventWaitDefault));
    counters_.take(way, other.my_credit, epoch);
    deliver(other.block, other, epoch);
  }
}

// They land in what the others receive into, which the credit for the block before is for too: it
// was taken on the same stream.
void CeCollective::push_sums(cudaStream_t stream, Epoch epoch) {
  CFB_CUDA(cudaEventRecord(summed_, stream));
  for (const Other& other : others_) {
    CFB_CUDA(cudaStreamWaitEvent(streams_.push(lane_, other.rank), summed_, cudaEventWaitDefault));
    deliver(*other.sum, other, epoch);
  }
  for (const Other& other : others_) counters_.take(stream, other.sum->mine, epoch);
}

void CeCollective::deliver(const Delivery& delivery, const Other& other, Epoch epoch) {
  const cudaStream_t way = streams_.push(lane_, other.rank);
  if (delivery.copy.width > 0) commfuse::enqueue(delivery.copy, way);
  counters_.tell(way, delivery.theirs, epoch);
  CFB_CUDA(cudaEventRecord(other.pushed, way));
}

void CeCollective::wait_for_pushes(cudaStream_t stream) const {
  for (const Other& other : others_) {
    CFB_CUDA(cudaStreamWaitEvent(stream, other.pushed, cudaEventWaitDefault));
  }
}

std::int32_t CeCollective::activities() const {
  const auto copied = [&](auto of) {
    return static_cast<std::int32_t>(
        std::ranges::count_if(others_, [&](const Other& other) { return of(other) > 0; }));
  };
  const std::int32_t blocks = copied([](const Other& other) { return other.block.copy.width; });
  const std::int32_t sums =
      copied([](const Other& other) { return other.sum ? other.sum->copy.width : 0; });
  const bool adds = sum_ && sum_->result.elements() > 0;
  return blocks + sums + (own_ ? 1 : 0) + (adds ? 1 : 0);
}

void CeCollective::wait(cudaStream_t stream) const {
  CFB_CUDA(cudaStreamWaitEvent(stream, complete_, cudaEventWaitDefault));
}

}  // namespace commfuse
